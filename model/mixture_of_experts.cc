#include <algorithm>
#include <cmath>

#include "model/deepseek_layers.h"

namespace spillway {
namespace {

Attrs route_attrs(const DeepseekConfig& c) {
  return {{Attr::kTopK, static_cast<double>(c.num_experts_per_tok)},
          {Attr::kGroups, static_cast<double>(c.n_group)},
          {Attr::kTopkGroups, static_cast<double>(c.topk_group)},
          {Attr::kGroupTop, static_cast<double>(c.group_top)},
          {Attr::kSigmoid, c.sigmoid_scores ? 1.0 : 0.0},
          {Attr::kNormalize, c.norm_topk_prob ? 1.0 : 0.0},
          {Attr::kScale, c.routed_scaling_factor},
          {Attr::kBalanced, c.balanced_routing ? 1.0 : 0.0}};
}

// Rows of one sequence that an expert takes; 0: no limit.
int64_t capacity(const DeepseekConfig& c, const BatchShape& batch) {
  if (c.capacity_factor == 0) return 0;
  const auto choices = static_cast<double>(batch.seq_len * c.num_experts_per_tok);
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(c.capacity_factor * choices /
                                        static_cast<double>(c.n_routed_experts))));
}

void add_router_losses(ProgramBuilder& b, const DeepseekConfig& c, const BatchShape& batch,
                       TensorId logits, TensorId experts) {
  if (c.seq_aux_loss == 0 && c.router_z_loss == 0) return;
  const TensorId scalars = b.step_io(step_io::kScalars, DType::kF32, {kStepScalarCount});
  const TensorId loss = b.step_io(step_io::kRouterLoss, DType::kF32, {1});
  b.accumulate(OpKind::kRouterLoss, loss, "router_loss.layer", {logits, experts, scalars},
               {{Attr::kSeq, static_cast<double>(batch.seq_len)},
                {Attr::kTopK, static_cast<double>(c.num_experts_per_tok)},
                {Attr::kSigmoid, c.sigmoid_scores ? 1.0 : 0.0},
                {Attr::kBalanceLoss, c.seq_aux_loss},
                {Attr::kZLoss, c.router_z_loss}});
}

}  // namespace

// E experts of width f, k a token, R = T*k rows.
TensorId mixture_of_experts(LayerBuilder& layer, const DeepseekConfig& c, const BatchShape& batch,
                            TensorId h) {
  ProgramBuilder& b = layer.b;
  const int64_t d = c.hidden_size, E = c.n_routed_experts, f = c.moe_intermediate_size;
  const TensorId w_gate = layer.expert_weights("mlp.experts.*.gate_proj.weight", E, f, d, Dim::kMlp, Dim::kWhole);
  const TensorId w_up = layer.expert_weights("mlp.experts.*.up_proj.weight", E, f, d, Dim::kMlp, Dim::kWhole);
  const TensorId w_down = layer.expert_weights("mlp.experts.*.down_proj.weight", E, d, f, Dim::kWhole, Dim::kMlp);

  const TensorId router = layer.weight("mlp.gate.weight", E, d);
  const TensorId logits = b.op_as(DType::kF32, OpKind::kLinear, "router_logits", {h, router});
  std::vector<TensorId> scores = {logits};
  if (c.router_bias) scores.push_back(b.state(kRouterBias, DType::kF32, {E}));
  const TensorId weights = b.op(OpKind::kRoute, "router_weights", scores, route_attrs(c));  // [T, k]
  const TensorId experts = ProgramBuilder::auxiliary(weights, 1);                           // [T, k]
  add_router_losses(b, c, batch, logits, experts);

  const TensorId order =
      b.op(OpKind::kDispatchPlan, "dispatch_order", {experts},
           {{Attr::kExperts, static_cast<double>(E)},
            {Attr::kSeq, static_cast<double>(batch.seq_len)},
            {Attr::kCapacity, static_cast<double>(capacity(c, batch))}});
  const TensorId offsets = ProgramBuilder::auxiliary(order, 1);
  const TensorId place = ProgramBuilder::auxiliary(order, 2);
  const TensorId load = b.block_io(step_io::kExpertLoad, DType::kI32, {E + 1});
  b.accumulate(OpKind::kCountExperts, load, "expert_count", {experts, offsets});

  const TensorId rows = b.op(OpKind::kDispatch, "moe_input", {h, order, offsets, place});  // [R, d]
  // Where experts are on other ranks, rows are on their way while the shared expert computes.
  const int64_t shared_width = f * c.n_shared_experts;
  const TensorId shared =
      shared_width > 0 ? layer.swiglu_mlp("mlp.shared_experts.", h, d, shared_width) : kNoTensor;
  const TensorId gate = b.op(OpKind::kGroupedLinear, "moe_mlpwi_0", {rows, w_gate, offsets});
  const TensorId up = b.op(OpKind::kGroupedLinear, "moe_mlpwi_1", {rows, w_up, offsets});
  const TensorId act = b.op(OpKind::kSwiglu, "moe_activation", {gate, up});                // [R, f]
  const TensorId down = b.op(OpKind::kGroupedLinear, "moe_mlpwo", {act, w_down, offsets});  // [R, d]
  const TensorId routed = b.op(OpKind::kCombine, "moe_output", {down, weights, place});    // [T, d]
  return shared == kNoTensor ? routed : b.op(OpKind::kAdd, "experts_output", {routed, shared});
}

}  // namespace spillway
