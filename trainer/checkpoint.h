// Checkpoints: the state of a training on disk, whole or not at all, readable on any number of ranks.
// docs/checkpoints.md is the format.
//
// All ranks call each of these together, between steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "parallel/world.h"
#include "trainer/checkpoint_manifest.h"
#include "trainer/checkpoint_state.h"
#include "trainer/session.h"

namespace spillway {

struct Progress {
  int64_t step = 0;      // steps done
  int64_t position = 0;  // Batch::position of the last one
};

// Writes DIRECTORY/step_N; returns when it is on the disk. What this rank writes it copies to the host
// first. Returns why there is no checkpoint, the same on every rank, or "". Then nothing half-written is
// left and older checkpoints are as they were. Throws RankFailed.
[[nodiscard]] std::string save_checkpoint(const std::filesystem::path& directory,
                                          const Progress& progress, const Session& session,
                                          World& world);

// Reads every file of the checkpoint, each on one of the ranks. Returns what is wrong (a file, a reason),
// the same on every rank; "" when all is as it was written, and then `manifest` is read.
[[nodiscard]] std::string damage_of(const std::filesystem::path& checkpoint, World& world,
                                    Manifest& manifest);

// What is in the manifest against what `state` asks for, by name, dtype and shape: "" or the difference.
[[nodiscard]] std::string state_difference(const Manifest& manifest,
                                           const std::map<std::string, StateTensor>& state);

// Writes the checkpoint's state into the session, whatever mesh it was written on: this rank reads the
// bytes that it needs from the files that have them. Requires an undamaged checkpoint without
// state_difference. Throws DataError.
void load_checkpoint(const std::filesystem::path& checkpoint, const Manifest& manifest,
                     Session& session);

}  // namespace spillway
