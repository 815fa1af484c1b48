// DeepSeek-V3 (and V2): multi-head latent attention and mixture of experts, as Hugging Face's
// DeepseekV3ForCausalLM computes them.
#pragma once

#include <optional>

#include "model/model.h"
#include "model/rope.h"

namespace spillway {

// Hugging Face's config.json names; below the line what only training has.
struct DeepseekConfig {
  int64_t vocab_size = 0, hidden_size = 0, num_hidden_layers = 0, num_attention_heads = 0;
  int64_t intermediate_size = 0;  // of the dense layers
  // Layer i has experts when i >= first_k_dense_replace and i % moe_layer_freq == 0.
  int64_t first_k_dense_replace = 0, moe_layer_freq = 1;
  int64_t q_lora_rank = 0;  // 0: queries come from one projection
  int64_t kv_lora_rank = 0, qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  int64_t n_routed_experts = 0, n_shared_experts = 0, num_experts_per_tok = 0;
  int64_t moe_intermediate_size = 0;
  int64_t n_group = 1, topk_group = 1;
  int64_t group_top = 2;       // a group's score is the sum of its best this many (V2: 1)
  bool sigmoid_scores = true;  // scoring_func; false: softmax
  bool norm_topk_prob = true;
  double routed_scaling_factor = 1;
  double rms_norm_eps = 1e-6, rope_theta = 10000;
  std::optional<YarnScaling> rope_scaling;
  bool rope_interleave = true;
  bool tie_word_embeddings = false;
  double initializer_range = 0.02;
  // -----
  bool router_bias = true;         // a correction bias, for choice only
  double seq_aux_loss = 0;         // weight of the sequence-wise balance loss
  double router_z_loss = 0;        // weight of mean logsumexp(logits)^2
  double capacity_factor = 0;      // 0: dropless; else an expert takes at most factor * S*k/E of a sequence
  bool balanced_routing = false;   // benchmarks: token t's choice j is expert (t*k + j) % E
  int64_t num_nextn_predict_layers = 0;  // multi-token prediction modules: 0 or 1
  double mtp_loss_weight = 0.3;
};

// Blocks embed, L0 ..., head. Dense layers share one Program, MoE layers another.
[[nodiscard]] Model build_deepseek(const DeepseekConfig& config, const BatchShape& batch,
                                   const Precision& precision);

[[nodiscard]] inline bool has_experts(const DeepseekConfig& config, int64_t layer) {
  return layer >= config.first_k_dense_replace && layer % config.moe_layer_freq == 0;
}

// Throws ConfigError naming the values that do not fit and the legal ones.
void validate(const DeepseekConfig& config);

}  // namespace spillway
