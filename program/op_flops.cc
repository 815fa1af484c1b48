// FLOPs as MaxText counts them: multiply-add 2, causal attention half.
#include "program/error.h"
#include "program/op_rules.h"

namespace spillway::rules {

int64_t linear_flops(const Tensors& in, const Tensors& out, const Attrs&) {
  return 2 * element_count(out[0]->shape) * in[0]->shape[1];
}

int64_t linear_wgrad_flops(const Tensors& in, const Tensors& out, const Attrs&) {
  return 2 * element_count(out[0]->shape) * in[0]->shape[0];
}

// Two products over the causal half of S x S for each head.
int64_t attention_flops(const Tensors& in, const Tensors&, const Attrs& a) {
  return in[0]->shape[0] * a.integer(Attr::kSeq) * a.integer(Attr::kHeads) *
         (a.integer(Attr::kHeadDim) + a.integer(Attr::kVHeadDim));
}

// Four products; the fifth, which repeats the scores, is recomputation and is not counted.
int64_t attention_bwd_flops(const Tensors& in, const Tensors& out, const Attrs& a) {
  return 2 * attention_flops(in, out, a);
}

// Each row meets one expert: rows, not experts, count. Rows are the bound T*k: what a capacity drops
// is not subtracted, as MaxText does not.
namespace {

// Rows that are expected, where the tensor has room for more.
int64_t expected_rows(const Tensors& in, const Attrs& attrs) {
  return attrs.has(Attr::kRows) ? attrs.integer(Attr::kRows) : in[0]->shape[0];
}

}  // namespace

int64_t grouped_linear_flops(const Tensors& in, const Tensors& out, const Attrs& attrs) {
  return 2 * expected_rows(in, attrs) * out[0]->shape[1] * in[0]->shape[1];
}

int64_t grouped_linear_wgrad_flops(const Tensors& in, const Tensors&, const Attrs& attrs) {
  return 2 * expected_rows(in, attrs) * in[0]->shape[1] * in[1]->shape[1];
}
}  // namespace spillway::rules
