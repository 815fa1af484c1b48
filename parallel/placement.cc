#include "parallel/placement.h"

#include <algorithm>

#include "parallel/layout.h"
#include "program/error.h"
#include "program/op_table.h"

namespace spillway {
namespace {

using enum OpKind;

// How the tensor axis cuts an op's weight: not, between its outputs, or between its inputs.
enum class WeightCut : uint8_t { kAny, kNone, kOut, kIn };

struct Row {
  OpKind kind;
  WeightCut cut;
  PlacementRule rule;
};

using enum WeightCut;

constexpr Row kRules[] = {
    {kEmbedding, kAny, {"W-", "P"}},
    {kEmbeddingBwd, kAny, {"WW", "-"}},
    {kRmsNorm, kAny, {"R-", "RR"}},
    {kRmsNormBwd, kAny, {"R-RR", "R-"}},
    {kSwiglu, kAny, {"CC", "C"}},
    {kSwigluBwd, kAny, {"CCC", "CC"}},
    {kRows, kAny, {"W", "W"}},
    {kColumns, kAny, {"R", "R"}},
    {kPutColumns, kAny, {"R", "R"}},
    {kConcat, kAny, {"RR", "R"}},
    {kLinear, kNone, {"R-", "R"}},
    {kLinear, kOut, {"W-", "C"}},
    {kLinear, kIn, {"C-", "P"}},
    {kLinearDgrad, kNone, {"R-", "R"}},
    {kLinearDgrad, kOut, {"C-", "P"}},
    {kLinearDgrad, kIn, {"W-", "C"}},
    {kLinearWgrad, kNone, {"RR", "-"}},
    {kLinearWgrad, kOut, {"CW", "-"}},
    {kLinearWgrad, kIn, {"WC", "-"}},
    {kAttention, kAny, {"CCC", "CC"}},
    {kAttentionBwd, kAny, {"CCCCCC", "CCC"}},
    {kMlaKey, kAny, {"CW", "C"}},
    {kMlaKeyBwd, kAny, {"C", "CP"}},
    {kMlaValue, kAny, {"C", "C"}},
    {kMlaValueBwd, kAny, {"C", "C"}},
    // Every rank of a tensor group routes the same way; gradients of the weights are partial, because
    // each rank's experts see a part of their inner width.
    {kRoute, kAny, {"W-", "WW"}},
    {kRouteBwd, kAny, {"WWP", "P"}},
    {kRouterLoss, kAny, {"WW-", "-"}},
    {kRouterLossBwd, kAny, {"WW-", "P"}},
    {kDispatchPlan, kAny, {"W", "WWW"}},
    {kCountExperts, kAny, {"WW", "-"}},
    {kDispatch, kAny, {"WWWW", "W"}},
    {kDispatchBwd, kAny, {"PW", "P"}},
    {kGroupedLinear, kOut, {"W-W", "C"}},
    {kGroupedLinear, kIn, {"C-W", "P"}},
    {kGroupedLinearDgrad, kOut, {"C-W", "P"}},
    {kGroupedLinearDgrad, kIn, {"W-W", "C"}},
    {kGroupedLinearWgrad, kOut, {"CWW", "-"}},
    {kGroupedLinearWgrad, kIn, {"WCW", "-"}},
    {kCombine, kAny, {"PWW", "P"}},
    {kCombineBwd, kAny, {"PWWW", "WP"}},
    {kRouterBiasUpdate, kAny, {"-", "-"}},
    {kNextTokens, kAny, {"W", "WW"}},
    {kCrossEntropy, kAny, {"CW-", "-W"}},
    {kCrossEntropyBwd, kAny, {"CWW-", "C"}},
    {kSumSquares, kAny, {"-", "-"}},
    {kAdamW, kAny, {"---", "----"}},
};

WeightCut cut_of(const Program& program, const Op& op) {
  // A product's weight is its second input, or its gradient the output.
  const bool wgrad = op.kind == kLinearWgrad || op.kind == kGroupedLinearWgrad;
  const Tensor& weight = program.tensors[wgrad ? op.out[0] : op.in[1]];
  const size_t out = weight.shape.size() - 2;
  auto cuts = [&](size_t dim) {
    return !weight.dims.empty() && (axes_of(weight.dims[dim]) & axis::kTensor) != 0;
  };
  return cuts(out) ? kOut : cuts(out + 1) ? kIn : kNone;
}

}  // namespace

PlacementRule placement_rule(const Program& program, const Op& op, Placement first) {
  const bool partial = first == Placement::kPartial, columns = first == Placement::kColumns;
  switch (op.kind) {
    case kAdd: return partial ? PlacementRule{"PP", "P"} : PlacementRule{"RR", "R"};
    case kRope: return columns ? PlacementRule{"C-", "C"} : PlacementRule{"W-", "W"};
    case kRopeBwd: return columns ? PlacementRule{"C-", "C"} : PlacementRule{"P-", "P"};
    case kPutRows: return partial ? PlacementRule{"P", "P"} : PlacementRule{"W", "W"};
    default: break;
  }
  for (const Row& row : kRules) {
    if (row.kind == op.kind && (row.cut == kAny || row.cut == cut_of(program, op))) return row.rule;
  }
  throw VerifyError("no rule places " + std::string(op_info(op.kind).name) + " on a tensor axis");
}

void localize_attrs(const Program& local, Op& op, int parts) {
  auto width = [&](size_t input) { return local.tensors[op.in[input]].shape.at(1); };
  auto set_heads = [&](Attr attr, size_t input, int64_t head) {
    op.attrs.set(attr, static_cast<double>(width(input) / head));
  };
  const auto integer = [&](Attr attr) { return op.attrs.integer(attr); };
  switch (op.kind) {
    case kRope:
    case kRopeBwd: return set_heads(Attr::kHeads, 0, integer(Attr::kHeadDim));
    case kAttention:
    case kAttentionBwd:
      set_heads(Attr::kHeads, 0, integer(Attr::kHeadDim));
      return set_heads(Attr::kKvHeads, 1, integer(Attr::kHeadDim));
    case kMlaKey:
    case kMlaValue:
      return set_heads(Attr::kHeads, 0, integer(Attr::kHeadDim) - integer(Attr::kRopeDim) +
                                            integer(Attr::kVHeadDim));
    case kMlaKeyBwd: return set_heads(Attr::kHeads, 0, integer(Attr::kHeadDim));
    case kMlaValueBwd: return set_heads(Attr::kHeads, 0, integer(Attr::kVHeadDim));
    case kRouterLossBwd:  // every rank has the whole loss; their gradients are summed
      op.attrs.set(Attr::kBalanceLoss, op.attrs.real(Attr::kBalanceLoss) / parts);
      return op.attrs.set(Attr::kZLoss, op.attrs.real(Attr::kZLoss) / parts);
    default: return;
  }
}

}  // namespace spillway
