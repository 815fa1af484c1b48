// The checkpoints of a run: DIRECTORY/step_00000120 after 120 steps. What is being written or removed is
// step_00000120.partial, which nobody reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "trainer/config.h"

namespace spillway {

[[nodiscard]] std::filesystem::path checkpoint_folder(const std::filesystem::path& directory,
                                                      int64_t step);
[[nodiscard]] std::filesystem::path partial_of(const std::filesystem::path& checkpoint);

// By steps done; empty when there is no such directory. Whether they are whole is not looked at.
[[nodiscard]] std::map<int64_t, std::filesystem::path> checkpoints_in(
    const std::filesystem::path& directory);

// Gives a complete step_N.partial its name, in place of one that has it. Throws std::runtime_error.
void publish_checkpoint(const std::filesystem::path& checkpoint);
// Removes every step_N.partial: what a crash or an error left. Throws std::runtime_error.
void remove_partial_checkpoints(const std::filesystem::path& directory);
// Removes what neither `keep` nor `keep_every` keeps of the checkpoints up to `newest`, which is
// complete. Those behind it are left alone. Throws std::runtime_error.
void remove_old_checkpoints(const CheckpointConfig& config, int64_t newest);

}  // namespace spillway
