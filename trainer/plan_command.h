// `spillway plan`: keep, recompute or offload? On a machine of a hardware file.
#pragma once

#include <ostream>

#include "device/hardware.h"
#include "trainer/config.h"

namespace spillway {

// Simulates a step under each of the five strategies (trainer/compare.h) and prints which is the
// fastest that fits, by how much, and what the others lose time to. Every figure comes from the
// Schedule, its plan, or the simulation.
void plan_strategies(const Config& config, const Hardware& hardware, int ranks, std::ostream& out);

}  // namespace spillway
