// The two halves of a DeepSeek decoder layer.
#pragma once

#include "model/deepseek.h"
#include "model/layers.h"

namespace spillway {

// Multi-head latent attention of h [T, d]; returns out_proj [T, d].
[[nodiscard]] TensorId latent_attention(LayerBuilder& layer, const DeepseekConfig& config,
                                        const BatchShape& batch, TensorId h);

// Routed and shared experts of h [T, d]; returns their sum [T, d].
[[nodiscard]] TensorId mixture_of_experts(LayerBuilder& layer, const DeepseekConfig& config,
                                          const BatchShape& batch, TensorId h);

}  // namespace spillway
