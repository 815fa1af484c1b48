// Where a run begins: at step 0, or behind a checkpoint.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "parallel/world.h"
#include "trainer/checkpoint_manifest.h"
#include "trainer/config.h"

namespace spillway {

struct Resume {
  std::filesystem::path checkpoint;
  Manifest manifest;
};

// What checkpoint.resume asks for, proved undamaged and of this config's model; none: step 0. A damaged
// checkpoint is passed over with a warning, on every rank, unless it was named. All ranks call it together.
// Throws DataError: the one that was named, or every one there is, is damaged. ConfigError: model or
// dtypes differ (keys and both values), or the run would mix its checkpoints with those of another.
// `config`: resolved for the mesh.
[[nodiscard]] std::optional<Resume> find_resume(const Config& config, World& world,
                                                const std::function<void(const std::string&)>& warn);

}  // namespace spillway
