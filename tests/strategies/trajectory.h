// Runs a config and records everything that strategies must not change.
#pragma once

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "trainer/session.h"

namespace spillway {

// Bits of losses, gradient norms and final parameters.
struct Trajectory {
  std::vector<double> losses, grad_norms;
  std::map<std::string, std::vector<float>> parameters;

  // Compares bits: NaN equals itself, 0 does not equal -0.
  [[nodiscard]] bool same_bits(const Trajectory& other) const {
    auto same = [](const auto& a, const auto& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
    };
    if (!same(losses, other.losses) || !same(grad_norms, other.grad_norms)) return false;
    for (const auto& [name, values] : parameters) {
      if (!same(values, other.parameters.at(name))) return false;
    }
    return parameters.size() == other.parameters.size();
  }
};

inline Batch random_batch(const Config& config, int64_t step) {
  std::mt19937_64 random(1000 + static_cast<uint64_t>(step));
  Batch batch;
  for (int64_t i = 0; i < config.train.batch_tokens(); ++i) {
    batch.tokens.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(config.vocab_size())));
    const bool ignored = random() % 8 == 0;
    batch.targets.push_back(
        ignored ? kIgnoredTarget
                : static_cast<int32_t>(random() % static_cast<uint64_t>(config.vocab_size())));
    batch.valid_targets += !ignored;
  }
  return batch;
}

inline Trajectory run_steps(Session& session, const Config& config, int64_t steps) {
  Trajectory result;
  for (int64_t step = 0; step < steps; ++step) {
    const StepResult r = session.train_step(random_batch(config, step), step, 1e-2);
    result.losses.push_back(r.loss);
    result.grad_norms.push_back(r.grad_norm);
  }
  for (const std::string& name : session.parameter_names()) {
    result.parameters[name] = session.read(name);
  }
  return result;
}

// A tiny Llama: GQA 4/2, vocabulary 97.
inline Config tiny_llama(int64_t layers) {
  Config config;
  config.llama = {.vocab_size = 97, .hidden_size = 32, .intermediate_size = 48,
                  .num_hidden_layers = layers, .num_attention_heads = 4, .num_key_value_heads = 2,
                  .head_dim = 8};
  config.train.micro_batch = 2;
  config.train.seq_len = 32;
  config.train.loss_chunk_tokens = 40;
  config.train.seed = 3;
  config.device.hbm_bytes = int64_t{256} << 20;
  config.device.host_bytes = int64_t{256} << 20;
  config.device.poison = true;
  return config;
}

// A tiny DeepSeek-V3: MoE and dense layers in turn, 8 experts in 4 groups, 3 chosen, 1 shared, YaRN.
inline Config tiny_deepseek() {
  Config config = tiny_llama(1);
  config.family = ModelFamily::kDeepseek;
  DeepseekConfig& c = config.deepseek;
  c.vocab_size = 97;
  c.hidden_size = 32;
  c.num_hidden_layers = 4;
  c.num_attention_heads = 4;
  c.intermediate_size = 48;
  c.first_k_dense_replace = 0;
  c.moe_layer_freq = 2;
  c.q_lora_rank = 24;
  c.kv_lora_rank = 16;
  c.qk_nope_head_dim = 8;
  c.qk_rope_head_dim = 4;
  c.v_head_dim = 12;
  c.n_routed_experts = 8;
  c.n_shared_experts = 1;
  c.num_experts_per_tok = 3;
  c.moe_intermediate_size = 16;
  c.n_group = 4;
  c.topk_group = 2;
  c.routed_scaling_factor = 2.5;
  c.rope_scaling = YarnScaling{.factor = 40, .original_max_position_embeddings = 16, .mscale = 1,
                               .mscale_all_dim = 1};
  config.optimizer.router_bias_rate = 1e-2;
  return config;
}

struct NamedStrategy {
  const char* name;
  const char* policy;
  bool latency_hiding, pipelined;
  int max_inflight_async = 8;
};
// Not inline: the linker would merge it with trainer/config_spellings.h's variable of this name.
constexpr NamedStrategy kStrategies[] = {
    {"keep", "none", true, true},
    {"remat", "full", true, true},
    {"minimal", "minimal", true, true},
    {"naive", "minimal_offloaded", false, false},
    {"latency_hidden", "minimal_offloaded", true, false},
    {"pipelined", "minimal_offloaded", true, true},
    {"pipelined_2_in_flight", "minimal_offloaded", true, true, 2},
    {"qkv_offloaded", "qkv_proj_offloaded", true, true},
};

inline void set_strategy(Config& config, const NamedStrategy& strategy) {
  config.activation = {.policy = strategy.policy,
                       .latency_hiding = strategy.latency_hiding,
                       .pipelined = strategy.pipelined,
                       .max_inflight_async = strategy.max_inflight_async};
}

}  // namespace spillway
