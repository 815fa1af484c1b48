// The bind functions of the cpu device, one an op. bind.cc has checked the number and types of the
// tensors before it calls them.
#pragma once

#include "device/cpu/kernel.h"

namespace spillway::cpu {

[[nodiscard]] Kernel bind_embedding(const BoundOp& op);
[[nodiscard]] Kernel bind_embedding_bwd(const BoundOp& op);
[[nodiscard]] Kernel bind_rms_norm(const BoundOp& op);
[[nodiscard]] Kernel bind_rms_norm_bwd(const BoundOp& op);
[[nodiscard]] Kernel bind_add(const BoundOp& op);
[[nodiscard]] Kernel bind_rope(const BoundOp& op);
[[nodiscard]] Kernel bind_rope_bwd(const BoundOp& op);
[[nodiscard]] Kernel bind_swiglu(const BoundOp& op);
[[nodiscard]] Kernel bind_swiglu_bwd(const BoundOp& op);
[[nodiscard]] Kernel bind_rows(const BoundOp& op);
[[nodiscard]] Kernel bind_put_rows(const BoundOp& op);
[[nodiscard]] Kernel bind_linear(const BoundOp& op);
[[nodiscard]] Kernel bind_linear_dgrad(const BoundOp& op);
[[nodiscard]] Kernel bind_linear_wgrad(const BoundOp& op);
[[nodiscard]] Kernel bind_attention(const BoundOp& op);
[[nodiscard]] Kernel bind_attention_bwd(const BoundOp& op);
[[nodiscard]] Kernel bind_columns(const BoundOp& op);
[[nodiscard]] Kernel bind_put_columns(const BoundOp& op);
[[nodiscard]] Kernel bind_concat(const BoundOp& op);
[[nodiscard]] Kernel bind_mla_key(const BoundOp& op);
[[nodiscard]] Kernel bind_mla_key_bwd(const BoundOp& op);
[[nodiscard]] Kernel bind_mla_value(const BoundOp& op);
[[nodiscard]] Kernel bind_mla_value_bwd(const BoundOp& op);
[[nodiscard]] Kernel bind_route(const BoundOp& op);
[[nodiscard]] Kernel bind_route_bwd(const BoundOp& op);
[[nodiscard]] Kernel bind_router_loss(const BoundOp& op);
[[nodiscard]] Kernel bind_router_loss_bwd(const BoundOp& op);
[[nodiscard]] Kernel bind_dispatch_plan(const BoundOp& op);
[[nodiscard]] Kernel bind_count_experts(const BoundOp& op);
[[nodiscard]] Kernel bind_dispatch(const BoundOp& op);
[[nodiscard]] Kernel bind_dispatch_bwd(const BoundOp& op);
[[nodiscard]] Kernel bind_grouped_linear(const BoundOp& op);
[[nodiscard]] Kernel bind_grouped_linear_dgrad(const BoundOp& op);
[[nodiscard]] Kernel bind_grouped_linear_wgrad(const BoundOp& op);
[[nodiscard]] Kernel bind_combine(const BoundOp& op);
[[nodiscard]] Kernel bind_combine_bwd(const BoundOp& op);
[[nodiscard]] Kernel bind_router_bias_update(const BoundOp& op);
[[nodiscard]] Kernel bind_expert_offsets(const BoundOp& op);
[[nodiscard]] Kernel bind_exchange_rows(const BoundOp& op);
[[nodiscard]] Kernel bind_return_rows(const BoundOp& op);
[[nodiscard]] Kernel bind_count_overflow(const BoundOp& op);
[[nodiscard]] Kernel bind_all_gather(const BoundOp& op);
[[nodiscard]] Kernel bind_reduce_scatter(const BoundOp& op);
[[nodiscard]] Kernel bind_all_reduce(const BoundOp& op);
[[nodiscard]] Kernel bind_next_tokens(const BoundOp& op);
[[nodiscard]] Kernel bind_cross_entropy(const BoundOp& op);
[[nodiscard]] Kernel bind_cross_entropy_bwd(const BoundOp& op);
[[nodiscard]] Kernel bind_vocab_stats(const BoundOp& op);
[[nodiscard]] Kernel bind_vocab_loss(const BoundOp& op);
[[nodiscard]] Kernel bind_sum_squares(const BoundOp& op);
[[nodiscard]] Kernel bind_adamw(const BoundOp& op);

}  // namespace spillway::cpu
