#include "trainer/measured.h"

#include <algorithm>

#include "trainer/lr_schedule.h"
#include "trainer/mesh_config.h"
#include "trainer/session.h"
#include "trainer/training_data.h"

namespace spillway {
namespace {

struct TimedStep {
  double seconds;
  std::vector<InstrTiming> timings;
};

TimedStep median_step(Session& session, const Batcher& data, int64_t steps) {
  std::vector<TimedStep> timed;
  Batch batch;
  int64_t position = 0;
  for (int64_t step = 0; step < steps; ++step) {
    data.fill(position, batch);
    position = batch.position;
    const Config& config = session.config();
    const double seconds =
        session.train_step(batch, step, learning_rate(config.schedule, step, steps)).seconds;
    if (step == 0 && steps > 1) continue;
    timed.push_back({seconds, {session.timings().begin(), session.timings().end()}});
  }
  const auto middle = timed.begin() + static_cast<ptrdiff_t>(timed.size() / 2);
  std::ranges::nth_element(timed, middle, {}, &TimedStep::seconds);
  return *middle;
}

}  // namespace

StepReport measure_step(const Config& given, int64_t steps, World& world) {
  const Mesh mesh = mesh_of(given, world.size(), world.rank());
  const TrainingData data = open_training_data(on_mesh(given, mesh), mesh);
  Session session(given, &world);
  const TimedStep step = median_step(session, *data.train, steps);
  const Step& train = session.compiled().train;
  const MemoryUse use = session.device().memory_use();
  StepReport report = step_report(train.schedule, train.plan, step.timings);
  report.simulated = false;
  report.ranks = world.size();
  report.gpus_per_socket = world.local_size();
  report.seconds = step.seconds;
  report.tflops_per_device =
      static_cast<double>(session.compiled().flops) / step.seconds * 1e-12;
  report.tokens_per_s_per_device = static_cast<double>(session.config().train.batch_tokens()) /
                                   mesh.size(axis::kTensor) / step.seconds;
  report.hbm.peak = use.hbm_high_water;
  report.hbm.capacity = session.device().hbm_capacity();
  report.hbm.reserved = use.scratch_bytes;
  report.host.peak = use.host_high_water;
  report.host.capacity = session.device().host_capacity();
  return report;
}

}  // namespace spillway
