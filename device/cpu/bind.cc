// The table of cpu kernels: an op, its bind function, and the types it takes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "device/cpu/collectives.h"
#include "device/cpu/kernels.h"
#include "program/error.h"
#include "program/op_table.h"
#include "program/schedule.h"

namespace spillway::cpu {
namespace {

using enum OpKind;

// Types, a letter a tensor: f f32 or bf16; s f32; i i32; a any, the same on both sides. The last
// letter of a list also stands for tensors after it (an optimizer with a master copy).
struct Row {
  OpKind kind;
  Kernel (*bind)(const BoundOp&);
  std::string_view in, out;
};

constexpr std::array kTable = {
    Row{kEmbedding, bind_embedding, "if", "f"},
    Row{kEmbeddingBwd, bind_embedding_bwd, "if", "f"},
    Row{kRmsNorm, bind_rms_norm, "ff", "fs"},
    Row{kRmsNormBwd, bind_rms_norm_bwd, "ffsf", "ff"},
    Row{kAdd, bind_add, "ff", "f"},
    Row{kRope, bind_rope, "fs", "f"},
    Row{kRopeBwd, bind_rope_bwd, "fs", "f"},
    Row{kSwiglu, bind_swiglu, "ff", "f"},
    Row{kSwigluBwd, bind_swiglu_bwd, "fff", "ff"},
    Row{kRows, bind_rows, "a", "a"},
    Row{kPutRows, bind_put_rows, "a", "a"},
    Row{kLinear, bind_linear, "ff", "f"},
    Row{kLinearDgrad, bind_linear_dgrad, "ff", "f"},
    Row{kLinearWgrad, bind_linear_wgrad, "ff", "f"},
    Row{kAttention, bind_attention, "fff", "fs"},
    Row{kAttentionBwd, bind_attention_bwd, "ffffsf", "fff"},
    Row{kColumns, bind_columns, "f", "f"},
    Row{kPutColumns, bind_put_columns, "f", "f"},
    Row{kConcat, bind_concat, "ff", "f"},
    Row{kMlaKey, bind_mla_key, "ff", "f"},
    Row{kMlaKeyBwd, bind_mla_key_bwd, "f", "ff"},
    Row{kMlaValue, bind_mla_value, "f", "f"},
    Row{kMlaValueBwd, bind_mla_value_bwd, "f", "f"},
    Row{kRoute, bind_route, "s", "si"},
    Row{kRouteBwd, bind_route_bwd, "sis", "f"},
    Row{kRouterLoss, bind_router_loss, "sis", "s"},
    Row{kRouterLossBwd, bind_router_loss_bwd, "sis", "f"},
    Row{kDispatchPlan, bind_dispatch_plan, "i", "iii"},
    Row{kCountExperts, bind_count_experts, "ii", "i"},
    Row{kDispatch, bind_dispatch, "fiii", "f"},
    Row{kDispatchBwd, bind_dispatch_bwd, "fi", "f"},
    Row{kGroupedLinear, bind_grouped_linear, "ffi", "f"},
    Row{kGroupedLinearDgrad, bind_grouped_linear_dgrad, "ffi", "f"},
    Row{kGroupedLinearWgrad, bind_grouped_linear_wgrad, "ffi", "f"},
    Row{kCombine, bind_combine, "fsi", "f"},
    Row{kCombineBwd, bind_combine_bwd, "fsif", "fs"},
    Row{kRouterBiasUpdate, bind_router_bias_update, "i", "s"},
    Row{kExpertOffsets, bind_expert_offsets, "i", "i"},
    Row{kExchangeRows, bind_exchange_rows, "fi", "f"},
    Row{kReturnRows, bind_return_rows, "fi", "f"},
    Row{kCountOverflow, bind_count_overflow, "i", "i"},
    Row{kAllGather, bind_all_gather, "a", "a"},
    Row{kReduceScatter, bind_reduce_scatter, "a", "a"},
    Row{kAllReduce, bind_all_reduce, "a", "a"},
    Row{kNextTokens, bind_next_tokens, "i", "ii"},
    Row{kCrossEntropy, bind_cross_entropy, "fis", "ss"},
    Row{kCrossEntropyBwd, bind_cross_entropy_bwd, "fsis", "f"},
    Row{kVocabStats, bind_vocab_stats, "fi", "s"},
    Row{kVocabLoss, bind_vocab_loss, "sis", "ss"},
    Row{kSumSquares, bind_sum_squares, "f", "s"},
    Row{kAdamW, bind_adamw, "fss", "fff"},
};
// kCopy and kFree move or end buffers: the device does those itself.
static_assert(kTable.size() == kOpKindCount - 2 && kTable.back().kind == kAdamW);

bool fits(char letter, DType dtype) {
  switch (letter) {
    case 'f': return dtype != DType::kI32;
    case 's': return dtype == DType::kF32;
    case 'i': return dtype == DType::kI32;
    default: return true;
  }
}

std::string misfit(std::string_view side, std::string_view letters,
                   const std::vector<TensorRef>& tensors) {
  if (tensors.size() < letters.size()) {
    return fmt::format("{} {}s where {} are needed", tensors.size(), side, letters.size());
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const char letter = letters[std::min(i, letters.size() - 1)];
    if (fits(letter, tensors[i].dtype)) continue;
    const char* wanted = letter == 'f' ? "f32 or bf16" : letter == 's' ? "f32" : "i32";
    return fmt::format("{} {} is {}; it can be {}", side, i, name_of(tensors[i].dtype), wanted);
  }
  return "";
}

}  // namespace

std::string unsupported(const BoundOp& op) {
  if (op.kind == kCopy || op.kind == kFree) return "it has no kernel";
  if (op.attrs.has(Attr::kFp8)) return "products in fp8 are only simulated as yet (precision.products)";
  const Row& row = kTable[static_cast<size_t>(op.kind)];
  std::string why = misfit("input", row.in, op.in);
  if (why.empty()) why = misfit("output", row.out, op.out);
  if (why.empty() && row.in == "a" && op.in[0].dtype != op.out[0].dtype) {
    why = fmt::format("it moves values and cannot turn {} into {}", name_of(op.in[0].dtype),
                      name_of(op.out[0].dtype));
  }
  if (why.empty() && op.kind == kRows && op.accumulate[0] && op.in[0].dtype == DType::kI32) {
    why = "it cannot add to i32 rows";
  }
  if (why.empty() && is_collective(op.kind)) why = unsupported_collective(op);
  return why;
}

Kernel bind(const BoundOp& op) {
  const std::string why = unsupported(op);
  if (!why.empty()) {
    throw ConfigError(fmt::format("device cpu cannot run {}: {}", op_info(op.kind).name, why));
  }
  return kTable[static_cast<size_t>(op.kind)].bind(op);
}

}  // namespace spillway::cpu
