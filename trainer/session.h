// A compiled model on a device: state, training steps, evaluation. What `train`, `compare` and the
// tests drive.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/executor.h"
#include "parallel/world.h"
#include "trainer/batcher.h"
#include "trainer/compile.h"
#include "trainer/config.h"
#include "trainer/router_stats.h"
#include "trainer/step_stats.h"

namespace spillway {

struct StepResult {
  double loss = 0;       // mean over the step's valid target tokens
  double grad_norm = 0;  // before clipping
  double seconds = 0;    // wall time of the device's run
  int64_t valid_targets = 0;  // of the step, all ranks
  StepStats stats;
  std::optional<double> mtp_loss;     // weighted; not part of `loss`
  std::optional<RouterStats> router;  // mixture of experts only
};

// Model and pass options of a config. `compile_config` allocates nothing.
[[nodiscard]] Model build_model(const Config& config);
[[nodiscard]] CompileOptions compile_options(const Config& config, const Mesh& mesh = {});
[[nodiscard]] Compiled compile_config(const Config& config, const Mesh& mesh = {},
                                      bool allow_oversize = false);

class Session {
 public:
  // Compiles for this rank of `world` (null: a process alone), proves that every rank compiled the
  // same, then allocates, then writes the initial parameters. Throws ConfigError or OutOfMemory before
  // anything is allocated. `world` must outlive the Session; all its ranks make one, and call
  // train_step, evaluate and watch together.
  explicit Session(const Config& config, World* world = nullptr);

  // One optimizer step on this rank's batch.tokens, all its micro-batches. `step` counts from 0. A loss or
  // gradient norm that is not finite leaves every parameter as it was and throws NonFinite.
  StepResult train_step(const Batch& batch, int64_t step, double learning_rate);

  // The losses of one micro-batch a rank, and the valid target tokens, over all ranks. Changes no
  // parameter.
  struct Evaluation {
    double loss_sum = 0;
    int64_t valid_targets = 0;
  };
  [[nodiscard]] Evaluation evaluate(const Batch& batch);

  // One training step at learning rate 0, one instruction at a time: the visitors get every output
  // right after it is written, by its buffer's name. For tests and for looking inside.
  void watch(const Batch& batch,
             const std::function<void(const std::string&, std::vector<float>)>& visit,
             const std::function<void(const std::string&, std::vector<int32_t>)>& visit_integers = {});

  // A persistent f32 or bf16 buffer by name ("model.norm.weight"), as f32: of a parameter or its state,
  // this rank's shard (compiled().layouts). Between steps only.
  [[nodiscard]] std::vector<float> read(const std::string& name) const;
  void write(const std::string& name, std::span<const float> values);
  // The same, as the bytes that are there: what a checkpoint keeps.
  [[nodiscard]] std::vector<std::byte> read_bytes(const std::string& name) const;
  void write_bytes(const std::string& name, std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<std::string> parameter_names() const;
  // Sets a parameter, and its f32 master when it has one, from the whole of it.
  void write_parameter(const std::string& name, std::span<const float> values);

  [[nodiscard]] const Compiled& compiled() const { return compiled_; }
  [[nodiscard]] const Config& config() const { return config_; }  // resolved for the mesh
  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] const Device& device() const { return *device_; }
  [[nodiscard]] std::span<const InstrTiming> timings() const { return train_->timings(); }

 private:
  void initialize();
  void write_shard(const std::string& name, std::span<const float> values);
  [[nodiscard]] int64_t valid_on_all_ranks(int64_t valid_targets);
  [[noreturn]] void stop_not_finite(int64_t step, const StepResult& result);
  [[nodiscard]] std::optional<RouterStats> router_stats() const;
  void write_batch(const Batch& batch, int micro_batches);
  void write_scalars(int64_t step, double learning_rate, int64_t valid_targets);
  [[nodiscard]] float read_scalar(const char* name) const;
  [[nodiscard]] std::vector<std::byte> bytes_of(TensorId id) const;
  [[nodiscard]] std::vector<float> read_floats(TensorId id) const;
  [[nodiscard]] TensorId persistent(const std::string& name) const;

  std::unique_ptr<World> alone_;  // when no world is given
  World& world_;
  Mesh mesh_;
  Config config_;
  std::unique_ptr<Device> device_;
  Compiled compiled_;
  std::map<std::string, TensorId> by_name_;  // persistent buffers of the training Schedule
  std::unique_ptr<Executor> train_, evaluate_;
};

// Training cannot go on: the message says where the first value that is not finite appeared.
class NonFinite : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace spillway
