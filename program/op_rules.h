// What rows of the op table point at: shape rules, backward rules, FLOPs. For op_table.cc only.
#pragma once

#include <vector>

#include "program/builder.h"
#include "program/op.h"
#include "program/tensor.h"

namespace spillway::rules {

using Tensors = std::vector<const Tensor*>;

// What the outputs are, given inputs that fit (op_shapes.cc).
std::vector<Tensor> infer_embedding(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_rms_norm(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_same(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_add(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_rope(const Tensors& in, const Attrs& attrs, DType);
std::vector<Tensor> infer_swiglu_bwd(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_rows(const Tensors& in, const Attrs& attrs, DType);
std::vector<Tensor> infer_linear(const Tensors& in, const Attrs&, DType dtype);
std::vector<Tensor> infer_linear_dgrad(const Tensors& in, const Attrs&, DType dtype);
std::vector<Tensor> infer_linear_wgrad(const Tensors& in, const Attrs&, DType dtype);
std::vector<Tensor> infer_attention(const Tensors& in, const Attrs& attrs, DType);
std::vector<Tensor> infer_attention_bwd(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_cross_entropy(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_cross_entropy_bwd(const Tensors& in, const Attrs&, DType dtype);
std::vector<Tensor> infer_scalar(const Tensors&, const Attrs&, DType);
std::vector<Tensor> infer_columns(const Tensors& in, const Attrs& attrs, DType);
std::vector<Tensor> infer_concat(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_next_tokens(const Tensors& in, const Attrs& attrs, DType);
std::vector<Tensor> infer_mla_key(const Tensors& in, const Attrs& attrs, DType);
std::vector<Tensor> infer_mla_value(const Tensors& in, const Attrs& attrs, DType);
std::vector<Tensor> infer_route(const Tensors& in, const Attrs& attrs, DType);
std::vector<Tensor> infer_dispatch_plan(const Tensors& in, const Attrs& attrs, DType);
std::vector<Tensor> infer_count_experts(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_dispatch(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_grouped_linear(const Tensors& in, const Attrs&, DType dtype);
std::vector<Tensor> infer_combine(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_combine_bwd(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_vocab_stats(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_vocab_loss(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_expert_offsets(const Tensors& in, const Attrs& attrs, DType);
std::vector<Tensor> infer_exchange_rows(const Tensors& in, const Attrs& attrs, DType);
std::vector<Tensor> infer_count_overflow(const Tensors& in, const Attrs&, DType);
std::vector<Tensor> infer_all_gather(const Tensors& in, const Attrs& attrs, DType);
std::vector<Tensor> infer_reduce_scatter(const Tensors& in, const Attrs& attrs, DType);

// Gradients (op_gradients.cc).
void embedding_backward(const Op& op, Gradients& g);
void rms_norm_backward(const Op& op, Gradients& g);
void add_backward(const Op&, Gradients& g);
void rope_backward(const Op& op, Gradients& g);
void swiglu_backward(const Op& op, Gradients& g);
void rows_backward(const Op& op, Gradients& g);
void linear_backward(const Op& op, Gradients& g);
void attention_backward(const Op& op, Gradients& g);
void cross_entropy_backward(const Op& op, Gradients& g);
void columns_backward(const Op& op, Gradients& g);
void concat_backward(const Op& op, Gradients& g);
void mla_key_backward(const Op& op, Gradients& g);
void mla_value_backward(const Op& op, Gradients& g);
void route_backward(const Op& op, Gradients& g);
void router_loss_backward(const Op& op, Gradients& g);
void dispatch_backward(const Op& op, Gradients& g);
void grouped_linear_backward(const Op& op, Gradients& g);
void combine_backward(const Op& op, Gradients& g);

// Model FLOPs as MaxText counts them (op_flops.cc).
int64_t linear_flops(const Tensors& in, const Tensors& out, const Attrs&);
int64_t linear_wgrad_flops(const Tensors& in, const Tensors& out, const Attrs&);
int64_t attention_flops(const Tensors& in, const Tensors&, const Attrs& a);
int64_t attention_bwd_flops(const Tensors& in, const Tensors& out, const Attrs& a);
int64_t grouped_linear_flops(const Tensors& in, const Tensors& out, const Attrs&);
int64_t grouped_linear_wgrad_flops(const Tensors& in, const Tensors&, const Attrs&);

}  // namespace spillway::rules
