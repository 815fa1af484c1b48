#include "trainer/loop.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <optional>

#include "trainer/config_text.h"
#include "trainer/console.h"
#include "trainer/lr_schedule.h"
#include "trainer/metrics.h"
#include "trainer/prefetcher.h"
#include "trainer/session.h"
#include "trainer/step_record.h"
#include "trainer/trace.h"
#include "trainer/training_data.h"

namespace spillway {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;  // the one global: a signal handler has no other way

// Ctrl-C asks for an end after this step; a second one kills.
class InterruptGuard {
 public:
  InterruptGuard() {
    g_interrupted = 0;
    previous_ = std::signal(SIGINT, [](int) {
      g_interrupted = 1;
      std::signal(SIGINT, SIG_DFL);
    });
  }
  ~InterruptGuard() { std::signal(SIGINT, previous_); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  [[nodiscard]] static bool interrupted() { return g_interrupted != 0; }

 private:
  void (*previous_)(int);
};

class TrainingRun {
 public:
  explicit TrainingRun(const Config& config)
      : config_(config),
        metrics_(open_metrics(config)),
        data_(open_training_data(config)),
        session_(config),
        prefetcher_(data_.train, 0),
        console_(stdout, {.steps = config.train.steps, .log_every = config.train.log_every,
                          .bar = is_terminal(stdout)}) {}

  int run() {
    begin();
    for (int64_t step = 0; step < config_.train.steps; ++step) {
      one_step(step);
      if (InterruptGuard::interrupted()) {
        console_.line(fmt::format("interrupted: stopped after step {}", step));
        return 130;
      }
    }
    return 0;
  }

 private:
  static std::unique_ptr<MetricsLog> open_metrics(const Config& config) {
    create_output_directory(config.output.directory);
    if (!config.output.metrics) return nullptr;
    return std::make_unique<MetricsLog>(config.output.directory, [](const std::string& why) {
      fmt::print(stderr, "spillway: {}\n", why);
    });
  }

  void begin() {
    const Compiled& compiled = session_.compiled();
    const int64_t parameters = compiled.model.parameter_count();
    const double flops_per_token = static_cast<double>(compiled.flops) /
                                   static_cast<double>(config_.train.batch_tokens());
    if (metrics_) {
      metrics_->write(to_json(RunHeader{.version = SPILLWAY_VERSION,
                                        .device = session_.device().name(),
                                        .parameters = parameters,
                                        .model_flops_per_token = flops_per_token,
                                        .config = to_json(config_)}));
    }
    console_.line(fmt::format("{}: {} parameters, {:.3f} MFLOP per token, {} tokens a step, policy {}",
                              config_.name, parameters, flops_per_token * 1e-6,
                              config_.train.batch_tokens(), config_.activation.policy));
    if (config_.family == ModelFamily::kDeepseek && config_.deepseek.balanced_routing) {
      console_.line("routing is balanced by force: experts are not chosen by score (a benchmark)");
    }
    PeakBytes planned = hbm_peak();
    planned.measured = planned.planned;  // nothing has run yet
    console_.line(memory_line(planned, session_.device().name() + ":0") + " (planned)");
  }

  [[nodiscard]] PeakBytes hbm_peak() const {
    const Compiled& c = session_.compiled();
    return {.planned = std::max(c.train.plan.hbm.bytes, c.evaluate.plan.hbm.bytes),
            .measured = session_.device().memory_use().hbm_high_water,
            .capacity = session_.device().hbm_capacity()};
  }

  void one_step(int64_t step) {
    const auto start = std::chrono::steady_clock::now();
    const Batch& batch = prefetcher_.next();
    const double rate = learning_rate(config_.schedule, step, config_.train.steps);
    const StepResult result = session_.train_step(batch, step, rate);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (step == config_.output.trace_step) {
      const std::string path = config_.output.directory + "/trace_step" + std::to_string(step) + ".json";
      try {
        write_trace(path, session_.compiled().train.schedule, session_.timings());
        console_.line("trace: " + path);
      } catch (const std::exception& error) {  // a full disk must not end the training
        console_.line(fmt::format("trace not written: {}", error.what()));
      }
    }
    StepRecord record = make_record(step, batch, result);
    record.learning_rate = rate;
    record.seconds = elapsed.count();
    if (due(step, config_.train.eval_every) && data_.validation) {
      record.validation_loss = validate(step);
    }
    console_.step(record);
    if (metrics_) metrics_->write(to_json(record));
  }

  // After every `period` steps and at the end.
  [[nodiscard]] bool due(int64_t step, int64_t period) const {
    return period > 0 && ((step + 1) % period == 0 || step + 1 == config_.train.steps);
  }

  [[nodiscard]] StepRecord make_record(int64_t step, const Batch& batch,
                                       const StepResult& result) const {
    const Step& train = session_.compiled().train;
    const MemoryUse use = session_.device().memory_use();
    StepRecord record{.step = step, .loss = result.loss, .grad_norm = result.grad_norm};
    record.data_wait_seconds = prefetcher_.wait_seconds();
    record.model_flops = session_.compiled().flops;
    record.tokens = config_.train.batch_tokens();
    record.target_tokens = batch.valid_targets;
    record.peak_tflops = config_.device.peak_tflops;
    record.hbm = hbm_peak();
    record.host = {.planned = train.plan.host.bytes, .measured = use.host_high_water,
                   .capacity = session_.device().host_capacity()};
    record.hbm_at_peak = train.plan.hbm.live_by_class;
    record.scratch_bytes = use.scratch_bytes;
    record.copied = copy_bytes(train.schedule);
    record.copies = result.stats;
    record.router = result.router;
    record.mtp_loss = result.mtp_loss;
    return record;
  }

  double validate(int64_t step) {
    Session::Evaluation total;
    Batch batch;
    int64_t position = 0;
    for (int64_t n = 0; n < config_.train.eval_batches; ++n) {
      if (position >= data_.validation->sequences_per_epoch()) break;
      data_.validation->fill(position, batch);
      position = batch.position;
      const Session::Evaluation part = session_.evaluate(batch);
      total.loss_sum += part.loss_sum;
      total.valid_targets += part.valid_targets;
    }
    const double loss = total.loss_sum / static_cast<double>(total.valid_targets);
    console_.line(evaluation_line(step, loss, total.valid_targets));
    return loss;
  }

  const InterruptGuard guard_;  // first: an interrupt during start-up also ends after a whole step
  const Config& config_;
  std::unique_ptr<MetricsLog> metrics_;  // the folder is proved writable before anything else
  TrainingData data_;
  Session session_;
  Prefetcher prefetcher_;
  Console console_;
};

}  // namespace

int train_command(const Config& config) { return TrainingRun(config).run(); }

}  // namespace spillway
