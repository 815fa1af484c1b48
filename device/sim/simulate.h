// A Schedule in virtual time: the sim device's run of it, and what came of it.
#pragma once

#include <vector>

#include "device/device.h"
#include "device/sim/op_cost.h"
#include "device/sim/sim_device.h"

namespace spillway::sim {

struct Simulation {
  std::vector<InstrTiming> timings;  // as a device's, of the mesh's rank; nanoseconds since the start
  double seconds = 0;                // until the last instruction has ended
  MemoryUse memory;                  // highest bytes that an instruction touched
  std::vector<ClassUse> classes;     // of ranks, that of the mesh's rank first
};

// An Executor's run on a SimDevice, whatever the plan needs. Linear in instructions x classes of ranks.
// Throws ConfigError as SimDevice::load() does.
[[nodiscard]] Simulation simulate(const Schedule& schedule, const MemoryPlan& plan,
                                  const Hardware& hardware, const Mesh& mesh,
                                  const Assumptions& assumptions = {});

}  // namespace spillway::sim
