// A Schedule in virtual time: one rank of ranks that all do the same at the same time.
#pragma once

#include <vector>

#include "device/device.h"
#include "device/sim/op_cost.h"

namespace spillway::sim {

struct Simulation {
  std::vector<InstrTiming> timings;  // as a device's; nanoseconds since the start
  double seconds = 0;                // until the last instruction has ended
  MemoryUse memory;                  // highest bytes that an instruction touched
};

// Streams run in order; an instruction starts when its stream is free and what it waits for has ended.
// What runs at once shares the hardware (fluid.h). The cost is linear in instructions.
[[nodiscard]] Simulation simulate(const Schedule& schedule, const MemoryPlan& plan,
                                  const Hardware& hardware, const Mesh& mesh);

}  // namespace spillway::sim
