#include "trainer/loop.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "trainer/checkpoint.h"
#include "trainer/checkpoint_folders.h"
#include "trainer/config_text.h"
#include "trainer/console.h"
#include "trainer/interrupt.h"
#include "trainer/lr_schedule.h"
#include "trainer/mesh_config.h"
#include "trainer/metrics.h"
#include "trainer/prefetcher.h"
#include "trainer/resume.h"
#include "trainer/run_environment.h"
#include "trainer/session.h"
#include "trainer/step_record.h"
#include "trainer/trace.h"
#include "trainer/training_data.h"

namespace spillway {
namespace {

class TrainingRun {
 public:
  TrainingRun(const Config& config, World& world)
      : world_(world),
        mesh_(mesh_of(config, world.size(), world.rank())),
        config_(on_mesh(config, mesh_)),
        metrics_(speaks() ? open_metrics(config) : nullptr),
        data_(open_training_data(config_, mesh_)),
        resume_(find_resume(config_, world, [&](const std::string& why) {
          if (speaks()) fmt::print(stderr, "spillway: {}\n", why);
        })),
        session_(config, &world),
        prefetcher_(data_.train, resume_ ? resume_->manifest.position : 0),
        console_(stdout, {.steps = config.train.steps, .log_every = config.train.log_every,
                          .bar = speaks() && on_terminal()}) {}

  int run() {
    begin();
    for (int64_t step = resume(); step < config_.train.steps; ++step) {
      one_step(step);
      const bool stop = any_rank_interrupted();
      const int64_t every = config_.checkpoint.every;
      if (due(step, every) || (stop && every > 0)) save(step + 1);
      if (stop) {
        line(fmt::format("interrupted: stopped after step {}", step));
        return 130;
      }
    }
    return 0;
  }

 private:
  // Rank 0 speaks for all, on the console and in the files.
  [[nodiscard]] bool speaks() const { return world_.rank() == 0; }
  void line(const std::string& text) {
    if (speaks()) console_.line(text);
  }
  // mpirun gives ranks a terminal of its own as stdout, even where it writes to a file; not as stderr.
  [[nodiscard]] static bool on_terminal() { return is_terminal(stdout) && is_terminal(stderr); }

  // A launcher may signal some ranks only, or all at different steps: they end together.
  [[nodiscard]] bool any_rank_interrupted() {
    int64_t votes = interrupted() ? 1 : 0;
    sum_over_ranks(world_, std::span(&votes, 1));
    return votes > 0;
  }

  static std::unique_ptr<MetricsLog> open_metrics(const Config& config) {
    create_output_directory(config.output.directory);
    if (config.checkpoint.every > 0) {
      create_output_directory(config.checkpoint.directory, "checkpoint.directory");
    }
    if (!config.output.metrics) return nullptr;
    return std::make_unique<MetricsLog>(config.output.directory, [](const std::string& why) {
      fmt::print(stderr, "spillway: {}\n", why);
    });
  }

  void begin() {
    const Compiled& compiled = session_.compiled();
    const double flops_per_token =
        static_cast<double>(model_flops()) / static_cast<double>(tokens());
    const RunEnvironment environment = run_environment(world_);
    if (metrics_) {
      metrics_->write(to_json(RunHeader{.version = SPILLWAY_VERSION,
                                        .device = session_.device().name(),
                                        .devices = world_.size(),
                                        .parameters = compiled.parameters,
                                        .model_flops_per_token = flops_per_token,
                                        .environment = to_json(environment),
                                        .config = to_json(config_)}));
    }
    if (world_.size() > 1) {
      line(fmt::format("{} ranks: {}; engine: {}", world_.size(), mesh_.text(), world_.engine()));
    }
    line(fmt::format("{}: {} parameters, {:.3f} MFLOP per token, {} tokens a step, policy {}",
                     config_.name, compiled.parameters, flops_per_token * 1e-6, tokens(),
                     config_.activation.policy));
    if (config_.family == ModelFamily::kDeepseek && config_.deepseek.balanced_routing) {
      line("routing is balanced by force: experts are not chosen by score (a benchmark)");
    }
    PeakBytes planned = hbm_peak();
    planned.measured = planned.planned;  // nothing has run yet
    line(memory_line(planned, session_.device().name() + ":0") + " (planned)");
  }

  // Returns the step to begin with.
  int64_t resume() {
    if (!resume_) return 0;
    const Manifest& from = resume_->manifest;
    load_checkpoint(resume_->checkpoint, from, session_);
    line(fmt::format("resumed from {} (written on {}): step {} of {}, sequence {}",
                     resume_->checkpoint.string(), from.mesh, from.step, config_.train.steps,
                     from.position));
    return from.step;
  }

  // A checkpoint that cannot be written must not end the training, nor cost an older one.
  void save(int64_t steps_done) {
    const auto start = std::chrono::steady_clock::now();
    const std::string& directory = config_.checkpoint.directory;
    const std::string why = save_checkpoint(directory, {steps_done, position_}, session_, world_);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (!why.empty()) {
      line(fmt::format("warning: no checkpoint after step {}: {}; training goes on",
                       steps_done - 1, why));
      return;
    }
    line(fmt::format("checkpoint: {}, seconds: {:.3f}",
                     checkpoint_folder(directory, steps_done).string(), elapsed.count()));
    if (!speaks()) return;
    try {
      remove_old_checkpoints(config_.checkpoint, steps_done);
    } catch (const std::exception& error) {
      line(fmt::format("warning: an old checkpoint stays: {}", error.what()));
    }
  }

  // Of a step, over all ranks.
  [[nodiscard]] int64_t model_flops() const { return session_.compiled().flops * world_.size(); }
  [[nodiscard]] int64_t tokens() const {
    return config_.train.batch_tokens() * mesh_.size(axis::kBatch);
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
    position_ = batch.position;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (step == config_.output.trace_step && speaks()) trace(step);
    StepRecord record = make_record(step, result);
    record.learning_rate = rate;
    record.seconds = elapsed.count();
    if (due(step, config_.train.eval_every) && data_.validation) {
      record.validation_loss = validate(step);
    }
    if (speaks()) console_.step(record);
    if (metrics_) metrics_->write(to_json(record));
  }

  void trace(int64_t step) {
    const std::string path =
        config_.output.directory + "/trace_step" + std::to_string(step) + ".json";
    try {
      write_trace(path, session_.compiled().train.schedule, session_.timings());
      line("trace: " + path);
    } catch (const std::exception& error) {  // a full disk must not end the training
      line(fmt::format("trace not written: {}", error.what()));
    }
  }

  // After every `period` steps and at the end.
  [[nodiscard]] bool due(int64_t step, int64_t period) const {
    return period > 0 && ((step + 1) % period == 0 || step + 1 == config_.train.steps);
  }

  [[nodiscard]] StepRecord make_record(int64_t step, const StepResult& result) const {
    const Step& train = session_.compiled().train;
    const MemoryUse use = session_.device().memory_use();
    StepRecord record{.step = step, .loss = result.loss, .grad_norm = result.grad_norm};
    record.data_wait_seconds = prefetcher_.wait_seconds();
    record.devices = world_.size();
    record.model_flops = model_flops();
    record.tokens = tokens();
    record.target_tokens = result.valid_targets;
    record.peak_tflops = config_.device.peak_tflops;
    record.hbm = hbm_peak();
    record.host = {.planned = train.plan.host.bytes, .measured = use.host_high_water,
                   .capacity = session_.device().host_capacity()};
    record.hbm_at_peak = train.plan.hbm.live_by_class;
    record.scratch_bytes = use.scratch_bytes;
    record.copied = copy_bytes(train.schedule);
    record.sent_bytes = sent_bytes(train.schedule);
    record.copies = result.stats;
    record.router = result.router;
    record.mtp_loss = result.mtp_loss;
    return record;
  }

  double validate(int64_t step) {
    Session::Evaluation total;
    Batch batch;
    int64_t position = 0;
    while (position < data_.validation->sequences_per_epoch()) {
      data_.validation->fill(position, batch);
      position = batch.position;
      const Session::Evaluation part = session_.evaluate(batch);
      total.loss_sum += part.loss_sum;
      total.valid_targets += part.valid_targets;
    }
    const double loss = total.loss_sum / static_cast<double>(total.valid_targets);
    line(evaluation_line(step, loss, total.valid_targets));
    return loss;
  }

  World& world_;
  Mesh mesh_;
  Config config_;  // resolved for the mesh
  std::unique_ptr<MetricsLog> metrics_;  // the folder is proved writable before anything else
  TrainingData data_;
  std::optional<Resume> resume_;  // found before anything is allocated
  Session session_;
  int64_t position_ = 0;  // in the data, behind the last step
  Prefetcher prefetcher_;
  Console console_;
};

}  // namespace

int train_command(const Config& config, World& world) { return TrainingRun(config, world).run(); }

}  // namespace spillway
