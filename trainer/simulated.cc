#include "trainer/simulated.h"

#include <algorithm>

#include "trainer/mesh_config.h"
#include "trainer/session.h"

namespace spillway {

SimulatedStep simulate_step(const Config& config, const Hardware& hardware, int ranks) {
  const Mesh mesh = mesh_of(config, ranks, 0);
  SimulatedStep step;
  step.config = on_mesh(config, mesh);
  step.hbm_capacity =
      static_cast<int64_t>(hardware.hbm_bytes.value - hardware.reserve_bytes.value);
  step.hbm_reserved = static_cast<int64_t>(hardware.reserve_bytes.value);
  step.ranks = ranks;
  step.gpus_per_socket = hardware.gpus_per_socket;
  step.tokens_per_device =
      static_cast<double>(step.config.train.batch_tokens()) / mesh.size(axis::kTensor);
  step.host_capacity =
      static_cast<int64_t>(hardware.host_bytes_per_socket.value / hardware.gpus_per_socket);
  CompileOptions options = compile_options(step.config, mesh);
  options.hbm_bytes = step.hbm_capacity;
  options.host_bytes = step.host_capacity;
  options.device_name = hardware.name;
  options.allow_oversize = true;
  options.evaluation = false;
  step.compiled = compile(build_model(step.config), options, sim::SimCostModel(hardware, mesh, step.config.simulate));
  const Step& train = step.compiled.train;
  step.run = sim::simulate(train.schedule, train.plan, hardware, mesh, step.config.simulate);
  step.seconds = step.run.seconds;
  return step;
}

StepReport SimulatedStep::report() const {
  StepReport report = step_report(compiled.train.schedule, compiled.train.plan, run.timings);
  report.ranks = ranks;
  report.gpus_per_socket = gpus_per_socket;
  report.seconds = seconds;
  report.tflops_per_device = tflops_per_device();
  report.tokens_per_s_per_device = tokens_per_device / seconds;
  report.hbm.capacity = hbm_capacity;
  report.hbm.reserved = hbm_reserved;
  report.host.capacity = host_capacity;
  return report;
}

}  // namespace spillway
