// The op table: one row an op. It drives shape checking, backward construction, FLOP and byte
// counts, tolerances of the op tests, and the benchmarks.
#pragma once

#include <string_view>
#include <vector>

#include "program/op.h"
#include "program/tensor.h"

namespace spillway {

class Gradients;  // program/builder.h

// How far a device's result may lie from an f64 reference on inputs of order 1, as a fraction of the
// largest magnitude of the output (see tests/ops). `why` defends the number.
struct Tolerance {
  double f32 = 0;
  double bf16 = 0;  // when a bf16 tensor takes part
  std::string_view why;
};

struct OpInfo {
  OpKind kind;
  std::string_view name;  // as the text form spells it
  int min_inputs, max_inputs;
  int min_outputs, max_outputs;
  // Suffixes of the auxiliary outputs' names: {"rstd"}, {"lse"}.
  std::vector<std::string_view> auxiliary;

  // Shapes and dtypes of the outputs; throws VerifyError on inputs that do not fit. `in` are the
  // input tensors; the element type of the first output is `dtype` when the op leaves a choice.
  std::vector<Tensor> (*infer)(const std::vector<const Tensor*>& in, const Attrs& attrs,
                               DType dtype) = nullptr;
  // Appends the ops that give the gradients of op's inputs; null: the op has no gradient.
  void (*backward)(const Op& op, Gradients& gradients) = nullptr;
  // Model FLOPs as MaxText counts them (multiply-add 2, causal attention half); null: 0.
  int64_t (*flops)(const std::vector<const Tensor*>& in, const std::vector<const Tensor*>& out,
                   const Attrs& attrs) = nullptr;
  Tolerance tolerance;
};

[[nodiscard]] const OpInfo& op_info(OpKind kind);
[[nodiscard]] OpKind op_named(std::string_view name);  // throws VerifyError

// Bytes an op moves through HBM: each input once, each output once, twice when accumulating.
[[nodiscard]] int64_t op_bytes(const std::vector<const Tensor*>& in,
                               const std::vector<const Tensor*>& out,
                               const std::vector<bool>& accumulate);

}  // namespace spillway
