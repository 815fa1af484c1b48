#include "trainer/config_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "trainer/config_spellings.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

Json llama_json(const LlamaConfig& model) {
  Json json{{"family", "llama"},
            {"vocab_size", model.vocab_size},
            {"hidden_size", model.hidden_size},
            {"intermediate_size", model.intermediate_size},
            {"num_hidden_layers", model.num_hidden_layers},
            {"num_attention_heads", model.num_attention_heads},
            {"num_key_value_heads", model.num_key_value_heads},
            {"head_dim", model.head_dim},
            {"rms_norm_eps", model.rms_norm_eps},
            {"rope_theta", model.rope_theta},
            {"rope_scaling", {{"rope_type", "default"}}},
            {"tie_word_embeddings", model.tie_word_embeddings},
            {"initializer_range", model.initializer_range}};
  if (const auto& scaling = model.rope_scaling) {
    json["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", scaling->factor},
        {"low_freq_factor", scaling->low_freq_factor},
        {"high_freq_factor", scaling->high_freq_factor},
        {"original_max_position_embeddings", scaling->original_max_position_embeddings}};
  }
  return json;
}

Json deepseek_json(const DeepseekConfig& model) {
  Json json{{"family", "deepseek"},
            {"vocab_size", model.vocab_size},
            {"hidden_size", model.hidden_size},
            {"intermediate_size", model.intermediate_size},
            {"num_hidden_layers", model.num_hidden_layers},
            {"num_attention_heads", model.num_attention_heads},
            {"q_lora_rank", model.q_lora_rank},
            {"kv_lora_rank", model.kv_lora_rank},
            {"qk_nope_head_dim", model.qk_nope_head_dim},
            {"qk_rope_head_dim", model.qk_rope_head_dim},
            {"v_head_dim", model.v_head_dim},
            {"rope_theta", model.rope_theta},
            {"rope_scaling", {{"type", "default"}}},
            {"rope_interleave", model.rope_interleave},
            {"first_k_dense_replace", model.first_k_dense_replace},
            {"moe_layer_freq", model.moe_layer_freq},
            {"n_routed_experts", model.n_routed_experts},
            {"n_shared_experts", model.n_shared_experts},
            {"num_experts_per_tok", model.num_experts_per_tok},
            {"moe_intermediate_size", model.moe_intermediate_size},
            {"n_group", model.n_group},
            {"topk_group", model.topk_group},
            {"scoring_func", model.sigmoid_scores ? "sigmoid" : "softmax"},
            {"topk_method", "group_limited_greedy"},
            {"group_top", model.group_top},
            {"router_bias", model.router_bias},
            {"norm_topk_prob", model.norm_topk_prob},
            {"routed_scaling_factor", model.routed_scaling_factor},
            {"seq_aux_loss", model.seq_aux_loss},
            {"router_z_loss", model.router_z_loss},
            {"capacity_factor", model.capacity_factor},
            {"balanced_routing", model.balanced_routing},
            {"num_nextn_predict_layers", model.num_nextn_predict_layers},
            {"mtp_loss_weight", model.mtp_loss_weight},
            {"rms_norm_eps", model.rms_norm_eps},
            {"tie_word_embeddings", model.tie_word_embeddings},
            {"initializer_range", model.initializer_range}};
  if (const auto& scaling = model.rope_scaling) {
    json["rope_scaling"] = {
        {"type", "yarn"},
        {"factor", scaling->factor},
        {"original_max_position_embeddings", scaling->original_max_position_embeddings},
        {"beta_fast", scaling->beta_fast},
        {"beta_slow", scaling->beta_slow},
        {"mscale", scaling->mscale},
        {"mscale_all_dim", scaling->mscale_all_dim}};
  }
  return json;
}

Json model_json(const Config& config) {
  switch (config.family) {
    case ModelFamily::kLlama: return llama_json(config.llama);
    case ModelFamily::kDeepseek: return deepseek_json(config.deepseek);
  }
  return {};
}

Json precision_json(const Precision& precision) {
  return {{"compute", spelling_of<DType>(kFloatTypes, precision.compute)},
          {"master", spelling_of<bool>(kMasters, precision.master)},
          {"gradients", spelling_of<DType>(kFloatTypes, precision.gradients)},
          {"moments", spelling_of<DType>(kFloatTypes, precision.moments)},
          {"products", spelling_of<bool>(kProducts, precision.fp8_products)}};
}

Json activation_json(const ActivationConfig& activation) {
  Json json{{"policy", activation.policy}};
  for (const auto& [name, strategy] : activation.custom) {
    json["custom"][name] = spelling_of<Strategy>(kStrategySpellings, strategy);
  }
  json["latency_hiding"] = activation.latency_hiding;
  json["pipelined"] = activation.pipelined;
  json["max_inflight_async"] = activation.max_inflight_async;
  return json;
}

Json simulate_json(const sim::Assumptions& simulate) {
  return {{"hottest_expert_load", simulate.hottest_expert_load},
          {"far_socket", simulate.far_socket},
          {"kernel_copies", simulate.kernel_copies},
          {"one_hot_dispatch", simulate.one_hot_slots > 0}};
}

Json parallel_json(const ParallelConfig& parallel) {
  return {{"data", parallel.mesh.data},
          {"fsdp", parallel.mesh.fsdp},
          {"tensor", parallel.mesh.tensor},
          {"expert", parallel.mesh.expert},
          {"fsdp_mode", spelling_of<bool>(kFsdpModes, parallel.optimizer_only)},
          {"gather_ahead", parallel.gather_ahead},
          {"expert_rows", parallel.experts.rows},
          {"overflow", spelling_of<bool>(kOverflows, parallel.experts.drop)},
          {"timeout_s", parallel.timeout_s}};
}

Json device_json(const DeviceOptions& device) {
  constexpr double kGiB = int64_t{1} << 30;
  return {{"kind", device.kind},
          {"hbm_gib", static_cast<double>(device.hbm_bytes) / kGiB},
          {"host_gib", static_cast<double>(device.host_bytes) / kGiB},
          {"link_gb_per_s", device.link_gb_per_s},
          {"comm_gb_per_s", device.comm_gb_per_s},
          {"peak_tflops", device.peak_tflops},
          {"hbm_gb_per_s", device.hbm_gb_per_s},
          {"threads", device.threads},
          {"jitter_seed", device.jitter_seed},
          {"poison", device.poison}};
}

Json train_json(const TrainConfig& train) {
  return {{"steps", train.steps},
          {"micro_batch", train.micro_batch},
          {"accumulation", train.accumulation},
          {"global_batch", train.global_batch},
          {"seq_len", train.seq_len},
          {"seed", train.seed},
          {"loss_chunk_tokens", train.loss_chunk_tokens},
          {"eval_every", train.eval_every},
          {"eval_batches", train.eval_batches},
          {"log_every", train.log_every}};
}

Json optimizer_json(const OptimizerConfig& optimizer) {
  return {{"beta1", optimizer.beta1},
          {"beta2", optimizer.beta2},
          {"eps", optimizer.eps},
          {"weight_decay", optimizer.weight_decay},
          {"max_grad_norm", optimizer.max_grad_norm},
          {"router_bias_rate", optimizer.router_bias_rate}};
}

Json schedule_json(const LrSchedule& schedule) {
  Json json{{"kind", spelling_of<LrKind>(kLrKinds, schedule.kind)},
            {"learning_rate", schedule.learning_rate},
            {"warmup_steps", schedule.warmup_steps}};
  if (schedule.kind == LrKind::kWsd) json["decay_steps"] = schedule.decay_steps;
  json["min_ratio"] = schedule.min_ratio;
  return json;
}

Json data_json(const DataConfig& data) {
  Json json{{"kind", spelling_of<DataKind>(kDataKinds, data.kind)}};
  if (!data.paths.empty()) json["path"] = data.paths;
  if (data.validation_paths.empty()) {
    json["validation_fraction"] = data.validation_fraction;
  } else {
    json["validation_path"] = data.validation_paths;
  }
  json["shuffle"] = data.shuffle;
  return json;
}

Json checkpoint_json(const CheckpointConfig& checkpoint) {
  return {{"directory", checkpoint.directory},
          {"every", checkpoint.every},
          {"keep", checkpoint.keep},
          {"keep_every", checkpoint.keep_every},
          {"resume", checkpoint.resume}};
}

// Words that YAML would not read back as themselves, or that only look odd, stay quoted.
bool is_plain(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto safe = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == '/';
  };
  return !text.empty() && letter(text[0]) && std::ranges::all_of(text, safe) && text != "null" &&
         text != "Null" && text != "NULL";
}

// Objects as blocks; scalars and lists as JSON, which YAML contains.
void write_yaml(const Json& json, int indent, std::string& out) {
  for (const auto& [key, value] : json.items()) {
    out += fmt::format("{:{}}{}:", "", indent, key);
    if (value.is_object()) {
      out += '\n';
      write_yaml(value, indent + 2, out);
    } else if (value.is_string() && is_plain(value.get_ref<const std::string&>())) {
      out += fmt::format(" {}\n", value.get_ref<const std::string&>());
    } else {
      out += fmt::format(" {}\n", value.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
  }
}

}  // namespace

Json to_json(const Config& config) {
  return {{"model", model_json(config)},
          {"precision", precision_json(config.precision)},
          {"activation", activation_json(config.activation)},
          {"parallel", parallel_json(config.parallel)},
          {"device", device_json(config.device)},
          {"train", train_json(config.train)},
          {"optimizer", optimizer_json(config.optimizer)},
          {"schedule", schedule_json(config.schedule)},
          {"data", data_json(config.data)},
          {"output",
           {{"directory", config.output.directory},
            {"metrics", config.output.metrics},
            {"trace_step", config.output.trace_step}}},
          {"checkpoint", checkpoint_json(config.checkpoint)},
          {"simulate", simulate_json(config.simulate)}};
}

std::string to_yaml(const Config& config) {
  std::string text;
  write_yaml(to_json(config), 0, text);
  return text;
}

}  // namespace spillway
