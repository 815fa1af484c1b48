#include "trainer/session.h"

#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>

#include "device/roofline.h"
#include "model/deepseek.h"
#include "program/error.h"
#include "parallel/group.h"
#include "trainer/agreement.h"
#include "trainer/host_cores.h"
#include "trainer/initialize.h"
#include "trainer/mesh_config.h"

namespace spillway {
namespace {

uint16_t to_bf16(float value) {  // rounds to nearest even; NaN stays NaN
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_bf16(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Model build_model(const Config& config) {
  const BatchShape batch{config.train.micro_batch, config.train.seq_len,
                         config.train.loss_chunk_tokens};
  Model model = config.family == ModelFamily::kLlama
                    ? build_llama(config.llama, batch, config.precision)
                    : build_deepseek(config.deepseek, batch, config.precision);
  if (config.precision.fp8_products) use_fp8_products(model);
  add_adamw(model, config.optimizer, config.precision);
  return model;
}

CompileOptions compile_options(const Config& config, const Mesh& mesh) {
  return {.activation = {config.activation.policy, config.activation.custom},
          .latency_hiding = config.activation.latency_hiding,
          .pipelined = config.activation.pipelined,
          .max_inflight_async = config.activation.max_inflight_async,
          .micro_batches = static_cast<int>(config.train.accumulation),
          .mesh = mesh,
          .experts = config.parallel.experts,
          .gathering = {.mode = config.parallel.optimizer_only ? Gathering::Mode::kOptimizer
                                                               : Gathering::Mode::kFull},
          .gather_ahead = config.parallel.gather_ahead,
          .hbm_bytes = config.device.hbm_bytes,
          .host_bytes = config.device.host_bytes,
          .device_name = config.device.kind,
          .allow_oversize = false};
}

Compiled compile_config(const Config& config, const Mesh& mesh, bool allow_oversize) {
  CompileOptions options = compile_options(config, mesh);
  options.allow_oversize = allow_oversize;
  return compile(build_model(config), options, Roofline(config.device));
}

namespace {

// A rank's threads default to its share of the machine's cores.
DeviceOptions device_options(const Config& config, const World& world) {
  if (config.simulate != sim::Assumptions{}) {
    throw ConfigError("simulate: its keys are for simulated steps (plan, bench, sweep); a device does "
                      "what it does");
  }
  DeviceOptions options = config.device;
  if (options.threads == 0) options.threads = cores_of_rank(world.local_size());
  return options;
}

}  // namespace

Session::Session(const Config& config, World* world)
    : alone_(world == nullptr ? solo_world() : nullptr),
      world_(world == nullptr ? *alone_ : *world),
      mesh_(mesh_of(config, world_.size(), world_.rank())),
      config_(on_mesh(config, mesh_)),
      device_(make_device(device_options(config_, world_), {.world = &world_, .mesh = mesh_})),
      compiled_(compile_config(config_, mesh_)) {
  check_same_on_all_ranks(world_, config_, compiled_);
  const MemoryPlan &train = compiled_.train.plan, &evaluate = compiled_.evaluate.plan;
  device_->allocate({.hbm = std::max(train.hbm.bytes, evaluate.hbm.bytes),
                     .host = std::max(train.host.bytes, evaluate.host.bytes)});
  const std::vector<Buffer>& buffers = compiled_.train.schedule.buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].persistent) by_name_[buffers[i].name] = static_cast<TensorId>(i);
  }
  train_ = std::make_unique<Executor>(*device_, compiled_.train.schedule, compiled_.train.plan);
  evaluate_ =
      std::make_unique<Executor>(*device_, compiled_.evaluate.schedule, compiled_.evaluate.plan);
  initialize();
}

void Session::initialize() {
  for (const auto& [name, values] : compiled_.model.constants) write(name, values);
  for (const Block& block : compiled_.model.blocks) {
    for (const Tensor& tensor : compiled_.model.programs[block.program].tensors) {
      const std::string name = full_name(block, tensor);
      if (tensor.kind == TensorKind::kParam) {
        const Layout& layout = compiled_.layouts.at(name);
        std::vector<float> values(layout.shard);
        for_each_run(layout, [&](int64_t shard, int64_t whole, int64_t count) {
          initial_values(config_.train.seed, name, tensor.init, whole,
                         std::span(values).subspan(shard, count));
        });
        write_shard(name, values);
      }
    }
    // Moments and router biases start at 0; masters have been written with their parameter.
    for (int program : {block.program, block.optimizer}) {
      if (program < 0) continue;
      for (const Tensor& tensor : compiled_.model.programs[program].tensors) {
        if (tensor.kind == TensorKind::kState && !tensor.name.ends_with(".master")) {
          const std::string name = full_name(block, tensor);
          write(name, std::vector<float>(
                          element_count(compiled_.train.schedule.buffers[persistent(name)].shape)));
        }
      }
    }
  }
}

TensorId Session::persistent(const std::string& name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) throw VerifyError("no persistent buffer is named " + name);
  return found->second;
}

void Session::write_bytes(const std::string& name, std::span<const std::byte> bytes) {
  const TensorId id = persistent(name);
  const Buffer& buffer = compiled_.train.schedule.buffers[id];
  if (static_cast<int64_t>(bytes.size()) != buffer.bytes()) {
    throw VerifyError(fmt::format("{} has {} bytes, not {}", name, buffer.bytes(), bytes.size()));
  }
  device_->write(buffer.space, compiled_.train.plan.offset[id], bytes);
}

std::vector<float> Session::read(const std::string& name) const {
  return read_floats(persistent(name));
}

std::vector<std::byte> Session::read_bytes(const std::string& name) const {
  return bytes_of(persistent(name));
}

std::vector<std::byte> Session::bytes_of(TensorId id) const {
  const Buffer& buffer = compiled_.train.schedule.buffers[id];
  std::vector<std::byte> bytes(buffer.bytes());
  device_->read(buffer.space, compiled_.train.plan.offset[id], bytes);
  return bytes;
}

std::vector<float> Session::read_floats(TensorId id) const {
  const Buffer& buffer = compiled_.train.schedule.buffers[id];
  const std::vector<std::byte> bytes = bytes_of(id);
  std::vector<float> values(element_count(buffer.shape));
  if (buffer.dtype == DType::kF32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else {
    const auto* raw = reinterpret_cast<const uint16_t*>(bytes.data());
    for (size_t i = 0; i < values.size(); ++i) values[i] = from_bf16(raw[i]);
  }
  return values;
}

void Session::write(const std::string& name, std::span<const float> values) {
  if (compiled_.train.schedule.buffers[persistent(name)].dtype == DType::kF32) {
    write_bytes(name, std::as_bytes(values));
    return;
  }
  std::vector<uint16_t> rounded(values.size());
  for (size_t i = 0; i < values.size(); ++i) rounded[i] = to_bf16(values[i]);
  write_bytes(name, std::as_bytes(std::span(rounded)));
}

void Session::write_shard(const std::string& name, std::span<const float> values) {
  write(name, values);
  if (by_name_.contains(name + ".master")) write(name + ".master", values);
}

void Session::write_parameter(const std::string& name, std::span<const float> values) {
  const Layout& layout = compiled_.layouts.at(name);
  if (static_cast<int64_t>(values.size()) != element_count(layout.whole_shape())) {
    throw VerifyError(fmt::format("{} has {} elements, not {}", name,
                                  element_count(layout.whole_shape()), values.size()));
  }
  std::vector<float> mine(layout.shard);
  for_each_run(layout, [&](int64_t shard, int64_t whole, int64_t count) {
    std::ranges::copy(values.subspan(whole, count), mine.begin() + shard);
  });
  write_shard(name, mine);
}

std::vector<std::string> Session::parameter_names() const {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Block& block : compiled_.model.blocks) {
    for (const Tensor& tensor : compiled_.model.programs[block.program].tensors) {
      const std::string name = full_name(block, tensor);
      if (tensor.kind == TensorKind::kParam && seen.insert(name).second) names.push_back(name);
    }
  }
  return names;
}

void Session::write_batch(const Batch& batch, int micro_batches) {
  const auto tokens = static_cast<size_t>(config_.train.micro_batch * config_.train.seq_len);
  for (int m = 0; m < micro_batches; ++m) {
    const std::string prefix = "m" + std::to_string(m) + ".";
    write_bytes(prefix + step_io::kTokens,
                std::as_bytes(std::span(batch.tokens).subspan(m * tokens, tokens)));
    write_bytes(prefix + step_io::kTargets,
                std::as_bytes(std::span(batch.targets).subspan(m * tokens, tokens)));
  }
}

void Session::write_scalars(int64_t step, double learning_rate, int64_t valid_targets) {
  const auto t = static_cast<double>(step + 1);
  float scalars[kStepScalarCount];
  scalars[kInverseValidTokens] = static_cast<float>(1.0 / static_cast<double>(valid_targets));
  scalars[kLearningRate] = static_cast<float>(learning_rate);
  scalars[kBiasCorrection1] = static_cast<float>(1 - std::pow(config_.optimizer.beta1, t));
  scalars[kBiasCorrection2] = static_cast<float>(1 - std::pow(config_.optimizer.beta2, t));
  write_bytes(step_io::kScalars, std::as_bytes(std::span(scalars)));
}

float Session::read_scalar(const char* name) const {
  const TensorId id = persistent(name);
  float value;
  device_->read(Space::kHbm, compiled_.train.plan.offset[id],
                std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

void Session::watch(const Batch& batch,
                    const std::function<void(const std::string&, std::vector<float>)>& visit,
                    const std::function<void(const std::string&, std::vector<int32_t>)>&
                        visit_integers) {
  write_batch(batch, static_cast<int>(config_.train.accumulation));
  write_scalars(0, 0, valid_on_all_ranks(batch.valid_targets));
  train_->watch([&](int instr) {
    for (TensorId id : compiled_.train.schedule.instrs[instr].op.out) {
      const Buffer& buffer = compiled_.train.schedule.buffers[id];
      if (buffer.dtype != DType::kI32) {
        visit(buffer.name, read_floats(id));
      } else if (visit_integers) {
        std::vector<int32_t> values(element_count(buffer.shape));
        device_->read(buffer.space, compiled_.train.plan.offset[id],
                      std::as_writable_bytes(std::span(values)));
        visit_integers(buffer.name, std::move(values));
      }
    }
    return true;
  });
}

// Ranks of a tensor group have the same sequences.
int64_t Session::valid_on_all_ranks(int64_t valid_targets) {
  sum_over_ranks(world_, std::span(&valid_targets, 1));
  return valid_targets / mesh_.size(axis::kTensor);
}

StepResult Session::train_step(const Batch& batch, int64_t step, double learning_rate) {
  write_batch(batch, static_cast<int>(config_.train.accumulation));
  StepResult result;
  result.valid_targets = valid_on_all_ranks(batch.valid_targets);
  write_scalars(step, learning_rate, result.valid_targets);
  const auto start = std::chrono::steady_clock::now();
  train_->run();
  result.seconds = seconds_since(start);
  result.loss = read_scalar(step_io::kLoss);
  result.grad_norm = std::sqrt(static_cast<double>(read_scalar(step_io::kGradNormSq)));
  result.stats = step_stats(compiled_.train.schedule, train_->timings());
  result.router = router_stats();
  if (by_name_.contains(step_io::kMtpLoss)) result.mtp_loss = read_scalar(step_io::kMtpLoss);
  if (!std::isfinite(result.loss) || !std::isfinite(result.grad_norm)) {
    stop_not_finite(step, result);
  }
  return result;
}

// The update left everything untouched, so the same step can run again, watched. Loss and norm are
// sums over all ranks: all come here together, and all say where the value first appeared on any.
void Session::stop_not_finite(int64_t step, const StepResult& result) {
  const Executor::Finding mine = train_->find_non_finite();
  std::string where = mine.where;
  if (world_.size() > 1) {
    const std::vector<std::string> all =
        all_texts(world_, mine.where.empty() ? "" : fmt::format("{:012} rank {}: {}", mine.instr,
                                                                world_.rank(), mine.where));
    where.clear();
    for (const std::string& found : all) {
      if (!found.empty() && (where.empty() || found < where)) where = found;
    }
    if (!where.empty()) where.erase(0, where.find(' ') + 1);
  }
  throw NonFinite(fmt::format(
      "step {}: loss {}, gradient norm {}: not finite; stopped before the update. First appeared in {}",
      step, result.loss, result.grad_norm,
      where.empty() ? "the sum over the gradients (every tensor is finite)" : where));
}

std::optional<RouterStats> Session::router_stats() const {
  RouterStatsSum sum;
  for (const Block& block : compiled_.model.blocks) {
    const auto load = by_name_.find(block.prefix + step_io::kExpertLoad);
    if (load == by_name_.end()) continue;
    const Buffer& buffer = compiled_.train.schedule.buffers[load->second];
    std::vector<int32_t> counts(element_count(buffer.shape));
    device_->read(Space::kHbm, compiled_.train.plan.offset[load->second],
                  std::as_writable_bytes(std::span(counts)));
    const std::string bias = block.prefix + kRouterBias;
    sum.add_layer(counts, by_name_.contains(bias) ? read(bias) : std::vector<float>{});
  }
  if (sum.layers() == 0) return std::nullopt;
  const bool has_loss = by_name_.contains(step_io::kRouterLoss);
  return sum.finish(has_loss ? read_scalar(step_io::kRouterLoss) : 0);
}

Session::Evaluation Session::evaluate(const Batch& batch) {
  write_batch(batch, 1);
  // The evaluation Schedule sums losses times this scalar: 1 gives the sum over valid tokens.
  write_scalars(0, 0, 1);
  evaluate_->run();
  return {read_scalar(step_io::kLoss), valid_on_all_ranks(batch.valid_targets)};
}

}  // namespace spillway
