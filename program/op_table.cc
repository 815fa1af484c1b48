#include "program/op_table.h"

#include <array>
#include <string>

#include "program/error.h"
#include "program/op_rules.h"

namespace spillway {
namespace {

using namespace rules;

// ---- tolerances ------------------------------------------------------------------------------------
// Relative to the output's largest magnitude. f32 has 24 bits (6e-8 a rounding), bf16 8 (3.9e-3).

constexpr Tolerance kExact = {0, 0, "moves values, rounds nothing"};
constexpr Tolerance kRowWise = {1e-6, 4.2e-3, "a few f32 roundings; one bf16 rounding of the result"};
constexpr Tolerance kReduction = {2e-6, 4.2e-3, "f32 sums in chunks; one bf16 rounding of the result"};
constexpr Tolerance kProduct = {2e-6, 4.2e-3, "f32 sums over K, error grows with sqrt(K)"};
constexpr Tolerance kAttentionTolerance = {5e-6, 1.5e-2,
                                           "two products around an exponential; a device may round "
                                           "the probabilities to bf16"};
constexpr Tolerance kOptimizerTolerance = {1e-6, 4.2e-3, "element-wise f32; square root and division"};

using enum OpKind;

const std::array<OpInfo, kOpKindCount> kTable = {{
    {kEmbedding, "embedding", 2, 2, 1, 1, {}, infer_embedding, embedding_backward, nullptr, kExact},
    {kEmbeddingBwd, "embedding_bwd", 2, 2, 1, 1, {}, nullptr, nullptr, nullptr, kReduction},
    {kRmsNorm, "rmsnorm", 2, 2, 2, 2, {"rstd"}, infer_rms_norm, rms_norm_backward, nullptr,
     kRowWise},
    {kRmsNormBwd, "rmsnorm_bwd", 4, 4, 2, 2, {}, nullptr, nullptr, nullptr, kReduction},
    {kAdd, "add", 2, 2, 1, 1, {}, infer_add, add_backward, nullptr, kRowWise},
    {kRope, "rope", 2, 2, 1, 1, {}, infer_rope, rope_backward, nullptr, kRowWise},
    {kRopeBwd, "rope_bwd", 2, 2, 1, 1, {}, infer_rope, nullptr, nullptr, kRowWise},
    {kSwiglu, "swiglu", 2, 2, 1, 1, {}, infer_add, swiglu_backward, nullptr, kRowWise},
    {kSwigluBwd, "swiglu_bwd", 3, 3, 2, 2, {}, infer_swiglu_bwd, nullptr, nullptr, kRowWise},
    {kRows, "rows", 1, 1, 1, 1, {}, infer_rows, rows_backward, nullptr, kExact},
    {kPutRows, "put_rows", 1, 1, 1, 1, {}, nullptr, nullptr, nullptr, kExact},
    {kLinear, "linear", 2, 2, 1, 1, {}, infer_linear, linear_backward, linear_flops, kProduct},
    {kLinearDgrad, "linear_dgrad", 2, 2, 1, 1, {}, infer_linear_dgrad, nullptr, linear_flops,
     kProduct},
    {kLinearWgrad, "linear_wgrad", 2, 2, 1, 1, {}, infer_linear_wgrad, nullptr, linear_wgrad_flops,
     kProduct},
    {kAttention, "attention", 3, 3, 2, 2, {"lse"}, infer_attention, attention_backward,
     attention_flops, kAttentionTolerance},
    {kAttentionBwd, "attention_bwd", 6, 6, 3, 3, {}, infer_attention_bwd, nullptr,
     attention_bwd_flops, kAttentionTolerance},
    {kColumns, "columns", 1, 1, 1, 1, {}, infer_columns, columns_backward, nullptr, kExact},
    {kPutColumns, "put_columns", 1, 1, 1, 1, {}, nullptr, nullptr, nullptr, kExact},
    {kConcat, "concat", 2, 2, 1, 1, {}, infer_concat, concat_backward, nullptr, kExact},
    {kMlaKey, "mla_key", 2, 2, 1, 1, {}, infer_mla_key, mla_key_backward, nullptr, kExact},
    {kMlaKeyBwd, "mla_key_bwd", 1, 1, 2, 2, {}, nullptr, nullptr, nullptr, kReduction},
    {kMlaValue, "mla_value", 1, 1, 1, 1, {}, infer_mla_value, mla_value_backward, nullptr, kExact},
    {kMlaValueBwd, "mla_value_bwd", 1, 1, 1, 1, {}, nullptr, nullptr, nullptr, kExact},
    {kRoute, "route", 1, 2, 2, 2, {"experts"}, infer_route, route_backward, nullptr, kRowWise},
    {kRouteBwd, "route_bwd", 3, 3, 1, 1, {}, nullptr, nullptr, nullptr, kReduction},
    {kRouterLoss, "router_loss", 3, 3, 1, 1, {}, infer_scalar, router_loss_backward, nullptr,
     kReduction},
    {kRouterLossBwd, "router_loss_bwd", 3, 3, 1, 1, {}, nullptr, nullptr, nullptr, kReduction},
    {kDispatchPlan, "dispatch_plan", 1, 1, 3, 3, {"offsets", "place"}, infer_dispatch_plan, nullptr,
     nullptr, kExact},
    {kCountExperts, "count_experts", 2, 2, 1, 1, {}, infer_count_experts, nullptr, nullptr, kExact},
    {kDispatch, "dispatch", 4, 4, 1, 1, {}, infer_dispatch, dispatch_backward, nullptr, kExact},
    {kDispatchBwd, "dispatch_bwd", 2, 2, 1, 1, {}, nullptr, nullptr, nullptr, kReduction},
    {kGroupedLinear, "grouped_linear", 3, 3, 1, 1, {}, infer_grouped_linear,
     grouped_linear_backward, grouped_linear_flops, kProduct},
    {kGroupedLinearDgrad, "grouped_linear_dgrad", 3, 3, 1, 1, {}, nullptr, nullptr,
     grouped_linear_flops, kProduct},
    {kGroupedLinearWgrad, "grouped_linear_wgrad", 3, 3, 1, 1, {}, nullptr, nullptr,
     grouped_linear_wgrad_flops, kProduct},
    {kCombine, "combine", 3, 3, 1, 1, {}, infer_combine, combine_backward, nullptr, kReduction},
    {kCombineBwd, "combine_bwd", 4, 4, 2, 2, {}, infer_combine_bwd, nullptr, nullptr, kReduction},
    {kRouterBiasUpdate, "router_bias_update", 1, 1, 1, 1, {}, nullptr, nullptr, nullptr, kRowWise},
    {kExpertOffsets, "expert_offsets", 1, 1, 1, 1, {}, infer_expert_offsets, nullptr, nullptr, kExact},
    {kExchangeRows, "exchange_rows", 2, 2, 1, 1, {}, infer_exchange_rows, nullptr, nullptr, kExact},
    {kReturnRows, "return_rows", 2, 2, 1, 1, {}, nullptr, nullptr, nullptr, kExact},
    {kCountOverflow, "count_overflow", 1, 1, 1, 1, {}, infer_count_overflow, nullptr, nullptr, kExact},
    {kAllGather, "all_gather", 1, 1, 1, 1, {}, infer_all_gather, nullptr, nullptr, kExact},
    {kReduceScatter, "reduce_scatter", 1, 1, 1, 1, {}, infer_reduce_scatter, nullptr, nullptr,
     kReduction},
    {kAllReduce, "all_reduce", 1, 1, 1, 1, {}, infer_same, nullptr, nullptr, kReduction},
    {kNextTokens, "next_tokens", 1, 1, 2, 2, {"targets"}, infer_next_tokens, nullptr, nullptr,
     kExact},
    {kCrossEntropy, "cross_entropy", 3, 3, 2, 2, {"lse"}, infer_cross_entropy,
     cross_entropy_backward, nullptr, kReduction},
    {kCrossEntropyBwd, "cross_entropy_bwd", 4, 4, 1, 1, {}, infer_cross_entropy_bwd, nullptr,
     nullptr, kRowWise},
    {kVocabStats, "vocab_stats", 2, 2, 1, 1, {}, infer_vocab_stats, nullptr, nullptr, kReduction},
    {kVocabLoss, "vocab_loss", 3, 3, 2, 2, {"lse"}, infer_vocab_loss, nullptr, nullptr, kReduction},
    {kSumSquares, "sum_squares", 1, 1, 1, 1, {}, infer_scalar, nullptr, nullptr, kRowWise},
    {kAdamW, "adamw", 3, 3, 3, 4, {}, nullptr, nullptr, nullptr, kOptimizerTolerance},
    {kCopy, "copy", 1, 1, 1, 1, {}, infer_same, nullptr, nullptr, kExact},
    {kFree, "free", 1, 1, 0, 0, {}, nullptr, nullptr, nullptr, kExact},
}};

}  // namespace

const OpInfo& op_info(OpKind kind) { return kTable[static_cast<size_t>(kind)]; }

OpKind op_named(std::string_view name) {
  for (const OpInfo& info : kTable) {
    if (info.name == name) return info.kind;
  }
  throw VerifyError("no op is named " + std::string(name));
}

int64_t op_bytes(const Tensors& in, const Tensors& out, const std::vector<bool>& accumulate) {
  int64_t bytes = 0;
  for (const Tensor* tensor : in) bytes += tensor->bytes();
  for (size_t i = 0; i < out.size(); ++i) bytes += out[i]->bytes() * (accumulate[i] ? 2 : 1);
  return bytes;
}

}  // namespace spillway
