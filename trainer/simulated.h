// A config on a machine that is not here: compiled as rank 0 of its mesh, and run in virtual time.
#pragma once

#include <string>
#include <vector>

#include "device/hardware.h"
#include "device/sim/simulate.h"
#include "trainer/compile.h"
#include "trainer/config.h"
#include "trainer/report/step_report.h"

namespace spillway {

struct SimulatedStep {
  Config config;  // resolved for the mesh
  Compiled compiled;
  sim::Simulation run;
  double seconds = 0;
  int ranks = 1, gpus_per_socket = 1;
  double tokens_per_device = 0;
  int64_t hbm_reserved = 0;  // outside the plan
  int64_t hbm_capacity = 0, host_capacity = 0;  // of a GPU, without what the hardware reserves
  [[nodiscard]] bool fits() const {
    return compiled.train.plan.hbm.bytes <= hbm_capacity &&
           compiled.train.plan.host.bytes <= host_capacity;
  }
  [[nodiscard]] double tflops_per_device() const {
    return static_cast<double>(compiled.flops) / seconds * 1e-12;
  }
  [[nodiscard]] StepReport report() const;
};

// One training step on `ranks` GPUs. Capacities come from the hardware, not from config.device. A step
// that does not fit is simulated all the same: fits() says so. Throws ConfigError.
[[nodiscard]] SimulatedStep simulate_step(const Config& config, const Hardware& hardware, int ranks);

}  // namespace spillway
