#include "trainer/config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "trainer/config_spellings.h"
#include "trainer/deepseek_section.h"
#include "trainer/llama_section.h"
#include "trainer/yaml_section.h"

namespace spillway {
namespace {

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr IntRange kCount{.min = 1, .max = std::numeric_limits<int32_t>::max()};

void read_model(Config& config, YamlSection& section) {
  config.family = section.choice<ModelFamily>("family", config.family, kModelFamilies);
  switch (config.family) {
    case ModelFamily::kLlama:
      config.llama = read_llama(section);
      break;
    case ModelFamily::kDeepseek:
      config.deepseek = read_deepseek(section);
      break;
  }
}

Precision read_precision(YamlSection& section) {
  Precision result;
  result.compute = section.choice<DType>("compute", result.compute, kFloatTypes);
  result.master = section.choice<bool>("master", result.master, kMasters);
  result.gradients = section.choice<DType>("gradients", result.gradients, kFloatTypes);
  result.moments = section.choice<DType>("moments", result.moments, kFloatTypes);
  result.fp8_products = section.choice<bool>("products", result.fp8_products, kProducts);
  if (result.fp8_products && result.compute != DType::kBF16) {
    section.fail("products", "is fp8, but precision.compute is f32; it needs bf16");
  }
  section.finish();
  return result;
}

ActivationConfig read_activation(YamlSection& section) {
  ActivationConfig result;
  result.policy = section.string("policy", result.policy);
  YamlSection custom = section.section("custom");
  for (const std::string& name : custom.keys()) {
    result.custom[name] = custom.choice<Strategy>(name, kRequired, kStrategySpellings);
  }
  custom.finish();
  if (result.policy != "custom" && !result.custom.empty()) {
    section.fail("custom", fmt::format("is given, but activation.policy is {}; custom strategies "
                                       "need policy: custom",
                                       result.policy));
  }
  result.latency_hiding = section.boolean("latency_hiding", result.latency_hiding);
  result.pipelined = section.boolean("pipelined", result.latency_hiding);
  if (result.pipelined && !result.latency_hiding) {
    section.fail("pipelined", "is true, but latency_hiding is false; pipelined needs it");
  }
  result.max_inflight_async = static_cast<int>(section.integer(
      "max_inflight_async", result.max_inflight_async, {.min = 1, .max = INT32_MAX}));
  section.finish();
  return result;
}

ParallelConfig read_parallel(YamlSection& section) {
  constexpr IntRange kAxis{.min = -1, .max = 1 << 24};
  ParallelConfig result;
  int open = 0;
  const auto axis_size = [&](const char* key, int64_t fallback) {
    const int64_t size = section.integer(key, fallback, kAxis);
    if (size == 0) section.fail(key, "is 0; give ranks, or -1 for what is left");
    if (size == -1 && ++open > 1) section.fail(key, "is -1, and another axis is too; one may be");
    return size;
  };
  MeshConfig& mesh = result.mesh;
  mesh.fsdp = axis_size("fsdp", mesh.fsdp);
  mesh.tensor = axis_size("tensor", mesh.tensor);
  mesh.expert = axis_size("expert", mesh.expert);
  mesh.data = axis_size("data", open > 0 ? 1 : -1);
  result.optimizer_only = section.choice<bool>("fsdp_mode", result.optimizer_only, kFsdpModes);
  result.gather_ahead = static_cast<int>(
      section.integer("gather_ahead", result.gather_ahead, {.min = 0, .max = INT32_MAX}));
  result.experts.rows = section.real("expert_rows", result.experts.rows, kZeroOrMore);
  result.experts.drop = section.choice<bool>("overflow", result.experts.drop, kOverflows);
  if (result.experts.drop && result.experts.rows == 0) {
    section.fail("overflow", "is drop, but parallel.expert_rows is 0: all rows have room");
  }
  result.timeout_s = section.real("timeout_s", result.timeout_s, kAboveZero);
  section.finish();
  return result;
}

DeviceOptions read_device(YamlSection& section) {
  constexpr double kGiB = int64_t{1} << 30;
  constexpr RealRange kCapacity{.min = 0, .max = int64_t{1} << 32, .min_open = true};
  DeviceOptions result;
  result.kind = section.string("kind", result.kind);
  const auto capacity = [&](const char* key, int64_t fallback) {
    return std::llround(section.real(key, static_cast<double>(fallback) / kGiB, kCapacity) * kGiB);
  };
  result.hbm_bytes = capacity("hbm_gib", result.hbm_bytes);
  result.host_bytes = capacity("host_gib", result.host_bytes);
  result.link_gb_per_s = section.real("link_gb_per_s", result.link_gb_per_s, kZeroOrMore);
  result.comm_gb_per_s = section.real("comm_gb_per_s", result.comm_gb_per_s, kZeroOrMore);
  result.peak_tflops = section.real("peak_tflops", result.peak_tflops, kZeroOrMore);
  result.hbm_gb_per_s = section.real("hbm_gb_per_s", result.hbm_gb_per_s, kZeroOrMore);
  result.threads =
      static_cast<int>(section.integer("threads", result.threads, {.min = 0, .max = 4096}));
  result.jitter_seed = static_cast<uint64_t>(section.integer("jitter_seed", 0, kNotNegative));
  result.poison = section.boolean("poison", result.poison);
  section.finish();
  return result;
}

sim::Assumptions read_simulate(YamlSection& section, const Config& config) {
  sim::Assumptions result;
  result.hottest_expert_load =
      section.real("hottest_expert_load", result.hottest_expert_load, {.min = 1, .max = 1 << 20});
  result.far_socket = section.boolean("far_socket", result.far_socket);
  result.kernel_copies = section.boolean("kernel_copies", result.kernel_copies);
  const bool one_hot = section.boolean("one_hot_dispatch", false);
  section.finish();
  const bool experts = config.family == ModelFamily::kDeepseek;
  if (result.hottest_expert_load > 1 && !experts) {
    section.fail("hottest_expert_load", "is given, but a llama model has no experts");
  }
  if (!one_hot) return result;
  const DeepseekConfig& model = config.deepseek;
  if (!experts || model.capacity_factor == 0) {
    section.fail("one_hot_dispatch", "is true; it needs experts and a model.capacity_factor above 0");
  }
  result.one_hot_slots = model.capacity_factor * static_cast<double>(config.train.seq_len) *
                         static_cast<double>(model.num_experts_per_tok);
  result.one_hot_fp8 = config.precision.fp8_products;
  return result;
}

TrainConfig read_train(YamlSection& section) {
  TrainConfig result;
  result.steps = section.integer("steps", result.steps, kPositive);
  result.micro_batch = section.integer("micro_batch", result.micro_batch, kCount);
  result.global_batch = section.integer("global_batch", result.global_batch, kNotNegative);
  if (result.global_batch > 0 && section.has("accumulation")) {
    section.fail("global_batch", "is given beside accumulation, which follows from it; choose one");
  }
  result.accumulation = section.integer("accumulation", result.accumulation, kCount);
  result.seq_len = section.integer("seq_len", result.seq_len, kPositive);
  result.seed = static_cast<uint64_t>(section.integer("seed", 0, kNotNegative));
  result.loss_chunk_tokens =
      section.integer("loss_chunk_tokens", result.loss_chunk_tokens, kPositive);
  result.eval_every = section.integer("eval_every", result.eval_every, kNotNegative);
  result.eval_batches = section.integer("eval_batches", result.eval_batches, kPositive);
  result.log_every = section.integer("log_every", result.log_every, kPositive);
  section.finish();

  // Every count of tokens in a run stays below 2^63.
  int64_t product = result.steps;
  for (const int64_t factor : {result.micro_batch, result.accumulation, result.seq_len}) {
    if (product > kMaxInt64 / factor) {
      section.fail("steps", fmt::format("is {}: steps x micro_batch {} x accumulation {} x seq_len "
                                        "{} tokens are 2^63 or more",
                                        result.steps, result.micro_batch, result.accumulation,
                                        result.seq_len));
    }
    product *= factor;
  }
  return result;
}

OptimizerConfig read_optimizer(YamlSection& section) {
  constexpr RealRange kDecayRate{.min = 0, .max = 1, .max_open = true};
  OptimizerConfig result;
  result.beta1 = section.real("beta1", result.beta1, kDecayRate);
  result.beta2 = section.real("beta2", result.beta2, kDecayRate);
  result.eps = section.real("eps", result.eps, kAboveZero);
  result.weight_decay = section.real("weight_decay", result.weight_decay, kZeroOrMore);
  result.max_grad_norm = section.real("max_grad_norm", result.max_grad_norm, kZeroOrMore);
  result.router_bias_rate =
      section.real("router_bias_rate", result.router_bias_rate, kZeroOrMore);
  section.finish();
  return result;
}

LrSchedule read_schedule(YamlSection& section) {
  LrSchedule result;
  result.kind = section.choice<LrKind>("kind", result.kind, kLrKinds);
  result.learning_rate = section.real("learning_rate", result.learning_rate, kAboveZero);
  result.warmup_steps = section.integer("warmup_steps", result.warmup_steps, kNotNegative);
  if (result.kind == LrKind::kWsd) {
    result.decay_steps = section.integer("decay_steps", kRequired, kPositive);
  } else if (section.has("decay_steps")) {
    section.fail("decay_steps", "is for kind: wsd; the other kinds decay over the whole run");
  }
  result.min_ratio = section.real("min_ratio", result.min_ratio, {.min = 0, .max = 1});
  section.finish();
  return result;
}

DataConfig read_data(YamlSection& section, const TrainConfig& train) {
  DataConfig result;
  result.kind = section.choice<DataKind>("kind", result.kind, kDataKinds);
  result.paths = section.strings("path");
  result.validation_paths = section.strings("validation_path");
  result.shuffle = section.boolean("shuffle", result.shuffle);
  const bool fraction_given = section.has("validation_fraction");
  result.validation_fraction =
      section.real("validation_fraction", 0.05, {.min = 0, .max = 1, .max_open = true});
  section.finish();

  const bool files = result.kind != DataKind::kSynthetic;
  const char* kind = spelling_of<DataKind>(kDataKinds, result.kind);
  if (files && result.paths.empty()) {
    section.fail("path", fmt::format("is missing; data of kind {} needs files", kind));
  }
  if (!files && !(result.paths.empty() && result.validation_paths.empty())) {
    section.fail(result.paths.empty() ? "validation_path" : "path",
                 "is given, but data.kind is synthetic, which reads no file");
  }
  if (!result.validation_paths.empty()) {
    if (fraction_given && result.validation_fraction > 0) {
      section.fail("validation_fraction", "is given beside validation_path; choose one");
    }
    result.validation_fraction = 0;
  }
  if (train.eval_every > 0 && result.validation_paths.empty() && result.validation_fraction == 0) {
    section.fail("validation_fraction", fmt::format("is 0, but train.eval_every is {}: there is "
                                                    "nothing to evaluate on",
                                                    train.eval_every));
  }
  return result;
}

OutputConfig read_output(YamlSection& section, const Config& config) {
  OutputConfig result;
  result.directory = section.string("directory", "runs/" + config.name);
  if (result.directory.empty()) section.fail("directory", "is empty");
  result.metrics = section.boolean("metrics", result.metrics);
  result.trace_step = section.integer("trace_step", result.trace_step, {.min = -1});
  section.finish();
  if (result.trace_step >= config.train.steps) {
    section.fail("trace_step",
                 fmt::format("is {}, but train.steps is {}; the last step is {}", result.trace_step,
                             config.train.steps, config.train.steps - 1));
  }
  return result;
}

void check_bytes_are_tokens(const Config& config, const YamlSection& model) {
  if (config.data.kind == DataKind::kText && config.vocab_size() < 256) {
    model.fail("vocab_size",
               fmt::format("is {}; text is read as bytes and needs 256", config.vocab_size()));
  }
}

CheckpointConfig read_checkpoint(YamlSection& section, const OutputConfig& output) {
  CheckpointConfig result;
  result.directory = section.string("directory", output.directory + "/checkpoints");
  if (result.directory.empty()) section.fail("directory", "is empty");
  result.every = section.integer("every", result.every, kNotNegative);
  result.keep = section.integer("keep", result.keep, kNotNegative);
  result.keep_every = section.integer("keep_every", result.keep_every, kNotNegative);
  result.resume = section.string("resume", result.resume);
  if (result.resume.empty()) section.fail("resume", "is empty; give auto, none, or a checkpoint's path");
  section.finish();
  if (result.keep_every > 0 && (result.every == 0 || result.keep_every % result.every != 0)) {
    section.fail("keep_every", fmt::format("is {}; it must be a multiple of checkpoint.every, which is {}",
                                           result.keep_every, result.every));
  }
  return result;
}

}  // namespace

Config load_config(const std::filesystem::path& path, const std::vector<std::string>& overrides,
                   const std::string& overrides_from) {
  std::vector<YamlOverride> parsed;
  for (const std::string& text : overrides) parsed.push_back(parse_override(text, overrides_from));
  YamlSection root(load_yaml(path), "", std::move(parsed));

  // All sections are named before any is read: a misspelt one is reported as that.
  YamlSection model = root.section("model");
  YamlSection precision = root.section("precision");
  YamlSection activation = root.section("activation");
  YamlSection parallel = root.section("parallel");
  YamlSection device = root.section("device");
  YamlSection train = root.section("train");
  YamlSection optimizer = root.section("optimizer");
  YamlSection schedule = root.section("schedule");
  YamlSection data = root.section("data");
  YamlSection output = root.section("output");
  YamlSection checkpoint = root.section("checkpoint");
  YamlSection simulate = root.section("simulate");
  root.finish();

  Config config;
  config.name = path.stem().string();
  read_model(config, model);
  config.precision = read_precision(precision);
  config.activation = read_activation(activation);
  config.parallel = read_parallel(parallel);
  config.device = read_device(device);
  config.train = read_train(train);
  config.optimizer = read_optimizer(optimizer);
  config.schedule = read_schedule(schedule);
  config.data = read_data(data, config.train);
  config.output = read_output(output, config);
  config.checkpoint = read_checkpoint(checkpoint, config.output);
  config.simulate = read_simulate(simulate, config);

  check_bytes_are_tokens(config, model);
  return config;
}

}  // namespace spillway
