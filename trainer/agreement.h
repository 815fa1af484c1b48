// All ranks run the same program on the same config, or none runs.
#pragma once

#include "parallel/world.h"
#include "trainer/compile.h"
#include "trainer/config.h"

namespace spillway {

// Compares the program file, its version, the resolved config (without device.threads and
// device.jitter_seed, which change no result) and the compiled instructions with those of rank 0.
// Throws ConfigError on every rank that gets to compare: which rank differs, in what, and both
// values.
void check_same_on_all_ranks(World& world, const Config& config, const Compiled& compiled);

}  // namespace spillway
