// Builds a Program: forward ops by hand, backward derived from the op table.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program/op_table.h"
#include "program/program.h"

namespace spillway {

class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name);

  // Declares a tensor. Values are declared by op() or block_input().
  // `dims`: what each dim counts; empty: nothing that a mesh divides.
  TensorId param(const std::string& name, DType dtype, Shape shape, Init init,
                 std::vector<Dim> dims = {});
  // A parameter that blocks share: its name is complete without a block's prefix.
  TensorId global_param(const std::string& name, DType dtype, Shape shape, Init init,
                        std::vector<Dim> dims = {});
  TensorId constant(const std::string& name, DType dtype, Shape shape);
  // Declared before: the same tensor.
  TensorId step_io(const std::string& name, DType dtype, Shape shape, bool micro_batched = false);
  TensorId block_io(const std::string& name, DType dtype, Shape shape);  // step io, one per block
  TensorId state(const std::string& name, DType dtype, Shape shape);
  TensorId block_input(const std::string& name, DType dtype, Shape shape);

  // Appends an op; its outputs are `name` and `name`.<auxiliary>. Returns the first output.
  // `dtype` picks the first output's type where the op leaves a choice; default: the first input's.
  TensorId op(OpKind kind, const std::string& name, std::vector<TensorId> in, Attrs attrs = {});
  TensorId op_as(DType dtype, OpKind kind, const std::string& name, std::vector<TensorId> in,
                 Attrs attrs = {});
  // The i-th auxiliary output, from 1, of the op whose first output this is.
  [[nodiscard]] static TensorId auxiliary(TensorId first, int i) { return first + i; }
  // Appends an op that adds to an existing tensor (the loss): `into+ = op(...)`.
  void accumulate(OpKind kind, TensorId into, const std::string& name, std::vector<TensorId> in,
                  Attrs attrs = {});

  // From here on op() appends to backward instead: for a head whose logits are computed, used and
  // dropped chunk by chunk next to their gradient. differentiate() then appends the gradients of the
  // ops added since the last call.
  void enter_backward();
  void differentiate();

  // Differentiates what is left (for a block with an output: from d.output down) and returns it.
  // `grad_dtype`: of parameter gradients.
  [[nodiscard]] Program finish(TensorId output);
  // Without gradients, for evaluation.
  [[nodiscard]] Program finish_forward_only(TensorId output);
  void set_grad_dtype(DType dtype) { grad_dtype_ = dtype; }

 private:
  friend class Gradients;
  TensorId declare(Tensor tensor);
  std::vector<TensorId> append(OpKind kind, const std::string& name, std::vector<TensorId> in,
                               const Attrs& attrs, DType dtype);
  void differentiate(std::vector<Op> ops);

  Program program_;
  std::map<std::string, TensorId> by_name_;
  DType grad_dtype_ = DType::kF32;
  bool in_backward_ = false;
  size_t differentiated_ = 0;  // ops of backward up to here have their gradients
  std::map<TensorId, TensorId> gradient_;        // value -> tensor holding its gradient so far
  std::map<TensorId, std::vector<TensorId>> holds_;  // gradient tensor -> values it still stands for
};

// What a backward rule sees: the gradients of its op's outputs, and where those of its inputs go.
class Gradients {
 public:
  struct Target {
    TensorId tensor;
    bool accumulate;
  };
  // The gradient of output i; kNoTensor when nothing downstream reads that output.
  [[nodiscard]] TensorId of_output(int i) const;
  // Emits `d.in[inputs[0]], d.in[inputs[1]], ... = kind(operands) attrs`. Each output is the
  // gradient of that input of the op: a fresh tensor, or an accumulation into the one it has.
  void emit(OpKind kind, std::vector<TensorId> operands, const std::vector<int>& inputs,
            Attrs attrs = {});
  // The gradient of input i is the gradient of output 0, unchanged (add).
  void pass_through(int input);

 private:
  friend class ProgramBuilder;
  Gradients(ProgramBuilder& builder, const Op& op) : builder_(builder), op_(op) {}
  Target target(int input);
  ProgramBuilder& builder_;
  const Op& op_;
};

}  // namespace spillway
