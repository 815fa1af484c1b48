// Dense Llama, as Hugging Face's LlamaForCausalLM computes it.
#pragma once

#include <optional>

#include "model/model.h"
#include "model/rope.h"

namespace spillway {

// Hugging Face's config.json names.
struct LlamaConfig {
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0;
  int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  double rms_norm_eps = 1e-5, rope_theta = 10000;
  std::optional<RopeScaling> rope_scaling;
  bool tie_word_embeddings = false;
  double initializer_range = 0.02;
};

// Blocks embed, L0 ... L{n-1}, head; all layers share one Program. Throws ConfigError on sizes that
// do not fit together.
[[nodiscard]] Model build_llama(const LlamaConfig& config, const BatchShape& batch,
                                const Precision& precision);

}  // namespace spillway
