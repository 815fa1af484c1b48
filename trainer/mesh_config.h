// What a config means on the ranks there are.
#pragma once

#include "parallel/mesh.h"
#include "trainer/config.h"

namespace spillway {

// Throws ConfigError naming both numbers where the model or its batch cannot be divided so.
[[nodiscard]] Mesh mesh_of(const Config& config, int ranks, int rank);

// The config with train.accumulation as train.global_batch asks for on this mesh.
[[nodiscard]] Config on_mesh(Config config, const Mesh& mesh);

// Ranks that the config's axes ask for when no launcher says: their product, -1 counting as 1.
[[nodiscard]] int ranks_of(const MeshConfig& config);

}  // namespace spillway
