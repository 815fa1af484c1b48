#include "trainer/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/lr_schedule.h"
#include "trainer/mesh_config.h"
#include "trainer/session.h"
#include "trainer/training_data.h"

namespace spillway {
namespace {

bool offloads(const ActivationConfig& activation) {
  if (activation.policy.ends_with("_offloaded")) return true;
  return std::any_of(activation.custom.begin(), activation.custom.end(),
                     [](const auto& entry) { return entry.second == Strategy::kOffload; });
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

struct Trajectory {
  std::vector<double> losses, grad_norms;
  bool operator==(const Trajectory&) const = default;
};

StrategyRun run_one(const Config& config, int64_t steps, World& world, const Batcher& data,
                    Trajectory& trajectory) {
  Session session(config, &world);
  StrategyRun run{.name = config.name};
  std::vector<double> seconds, copies, exposed;
  Batch batch;
  int64_t position = 0;
  for (int64_t step = 0; step < steps; ++step) {
    data.fill(position, batch);
    position = batch.position;
    const StepResult result = session.train_step(
        batch, step, learning_rate(config.schedule, step, config.train.steps));
    trajectory.losses.push_back(result.loss);
    trajectory.grad_norms.push_back(result.grad_norm);
    seconds.push_back(result.seconds);
    copies.push_back(result.stats.copy_seconds_d2h + result.stats.copy_seconds_h2d);
    exposed.push_back(result.stats.exposed_seconds + result.stats.exposed_collective_seconds);
  }
  const Step& train = session.compiled().train;
  const MemoryUse use = session.device().memory_use();
  const CopyBytes bytes = copy_bytes(train.schedule);
  run.loss = trajectory.losses.back();
  run.step_seconds = median(seconds);
  run.tflops_per_device =
      static_cast<double>(session.compiled().flops) / run.step_seconds * 1e-12;
  run.hbm_planned = train.plan.hbm.bytes;
  run.hbm_measured = use.hbm_high_water;
  run.host_measured = use.host_high_water;
  run.bytes_moved = bytes.d2h + bytes.h2d;
  run.copy_seconds = median(copies);
  run.exposed_seconds = median(exposed);
  return run;
}

void print_table(const std::vector<StrategyRun>& runs, std::ostream& out) {
  constexpr double kMib = 1 << 20;
  out << fmt::format("\n{:<24} {:>9} {:>8} {:>9} {:>11} {:>11} {:>9} {:>9} {:>8} {:>9} {}\n",
                     "strategy", "loss", "step s", "TFLOP/s", "HBM plan", "HBM meas.", "host",
                     "moved", "copy s", "exposed s", "same bits");
  out << fmt::format("{:<24} {:>9} {:>8} {:>9} {:>11} {:>11} {:>9} {:>9} {:>8} {:>9}\n", "", "",
                     "", "/device", "MiB", "MiB", "MiB", "MiB/step", "/step", "/step");
  for (const StrategyRun& run : runs) {
    out << fmt::format(
        "{:<24} {:>9.4f} {:>8.3f} {:>9.4f} {:>11.3f} {:>11.3f} {:>9.2f} {:>9.2f} {:>8.3f} {:>9.3f} "
        "{}\n",
        run.name, run.loss, run.step_seconds, run.tflops_per_device,
        static_cast<double>(run.hbm_planned) / kMib, static_cast<double>(run.hbm_measured) / kMib,
        static_cast<double>(run.host_measured) / kMib, static_cast<double>(run.bytes_moved) / kMib,
        run.copy_seconds, run.exposed_seconds, run.same_bits ? "yes" : "NO");
  }
}

}  // namespace

std::vector<Config> five_strategies(const Config& config) {
  auto variant = [&](const char* name, const std::string& policy, bool hide, bool pipelined) {
    Config result = config;
    result.name = name;
    result.activation.latency_hiding = hide;
    result.activation.pipelined = pipelined;
    if (!policy.empty()) {
      result.activation.policy = policy;
      result.activation.custom.clear();
    }
    return result;
  };
  const std::string offload = offloads(config.activation) ? "" : "minimal_offloaded";
  return {variant("keep", "none", true, true), variant("remat", "full", true, true),
          variant("offload, naive", offload, false, false),
          variant("offload, latency-hidden", offload, true, false),
          variant("offload, pipelined", offload, true, true)};
}

std::vector<StrategyRun> compare_strategies(const Config& given, int64_t steps, World& world,
                                            std::ostream& out) {
  const Mesh mesh = mesh_of(given, world.size(), world.rank());
  const Config config = on_mesh(given, mesh);
  const TrainingData data = open_training_data(config, mesh);
  std::vector<StrategyRun> runs;
  Trajectory first;
  for (const Config& variant : five_strategies(config)) {
    Trajectory trajectory;
    runs.push_back(run_one(variant, steps, world, *data.train, trajectory));
    if (runs.size() == 1) first = trajectory;
    runs.back().same_bits = trajectory == first;
    out << fmt::format("{}: {} steps, {:.3f} s a step\n", variant.name, steps,
                       runs.back().step_seconds)
        << std::flush;
  }
  print_table(runs, out);
  return runs;
}

}  // namespace spillway
