#include "device/sim/simulate.h"

#include <algorithm>

#include "device/executor.h"

namespace spillway::sim {

Simulation simulate(const Schedule& schedule, const MemoryPlan& plan, const Hardware& hardware,
                    const Mesh& mesh, const Assumptions& assumptions) {
  SimDevice device(hardware, mesh, {.assumptions = assumptions, .allow_oversize = true});
  device.allocate({.hbm = plan.hbm.bytes, .host = plan.host.bytes});
  Executor executor(device, schedule, plan);
  executor.run();
  Simulation result{.timings = {executor.timings().begin(), executor.timings().end()},
                    .memory = device.memory_use(),
                    .classes = {device.classes().begin(), device.classes().end()}};
  for (const InstrTiming& timing : result.timings) {
    result.seconds = std::max(result.seconds, static_cast<double>(timing.end_ns) * 1e-9);
  }
  return result;
}

}  // namespace spillway::sim
