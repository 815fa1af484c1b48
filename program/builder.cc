#include "program/builder.h"

#include <algorithm>

#include "program/error.h"
#include "program/verify.h"

namespace spillway {

ProgramBuilder::ProgramBuilder(std::string name) { program_.name = std::move(name); }

TensorId ProgramBuilder::declare(Tensor tensor) {
  const auto id = static_cast<TensorId>(program_.tensors.size());
  if (!by_name_.emplace(tensor.name, id).second) {
    throw VerifyError(program_.name + ": two tensors are named " + tensor.name);
  }
  program_.tensors.push_back(std::move(tensor));
  return id;
}

TensorId ProgramBuilder::param(const std::string& name, DType dtype, Shape shape, Init init,
                               std::vector<Dim> dims) {
  return declare({.name = name, .dtype = dtype, .shape = std::move(shape),
                  .kind = TensorKind::kParam, .init = init, .dims = std::move(dims)});
}

TensorId ProgramBuilder::global_param(const std::string& name, DType dtype, Shape shape,
                                      Init init, std::vector<Dim> dims) {
  const TensorId id = param(name, dtype, std::move(shape), init, std::move(dims));
  program_.tensors[id].global = true;
  return id;
}

TensorId ProgramBuilder::constant(const std::string& name, DType dtype, Shape shape) {
  return declare({.name = name, .dtype = dtype, .shape = std::move(shape),
                  .kind = TensorKind::kConstant});
}

TensorId ProgramBuilder::step_io(const std::string& name, DType dtype, Shape shape,
                                 bool micro_batched) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) return found->second;
  return declare({.name = name, .dtype = dtype, .shape = std::move(shape),
                  .kind = TensorKind::kStepIo, .micro_batched = micro_batched});
}

TensorId ProgramBuilder::block_io(const std::string& name, DType dtype, Shape shape) {
  return declare({.name = name, .dtype = dtype, .shape = std::move(shape),
                  .kind = TensorKind::kStepIo, .per_block = true});
}

TensorId ProgramBuilder::state(const std::string& name, DType dtype, Shape shape) {
  return declare({.name = name, .dtype = dtype, .shape = std::move(shape),
                  .kind = TensorKind::kState});
}

TensorId ProgramBuilder::block_input(const std::string& name, DType dtype, Shape shape) {
  program_.input = declare({.name = name, .dtype = dtype, .shape = std::move(shape)});
  return program_.input;
}

std::vector<TensorId> ProgramBuilder::append(OpKind kind, const std::string& name,
                                             std::vector<TensorId> in, const Attrs& attrs,
                                             DType dtype) {
  const OpInfo& info = op_info(kind);
  std::vector<const Tensor*> inputs;
  for (TensorId id : in) inputs.push_back(&program_.tensors[id]);
  std::vector<Tensor> outputs = info.infer(inputs, attrs, dtype);
  std::vector<TensorId> out;
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].name = i == 0 ? name : name + "." + std::string(info.auxiliary[i - 1]);
    out.push_back(declare(std::move(outputs[i])));
  }
  std::vector<Op>& list = in_backward_ ? program_.backward : program_.forward;
  list.push_back({.kind = kind, .in = std::move(in), .out = out,
                  .accumulate = std::vector<bool>(out.size()), .attrs = attrs});
  return out;
}

TensorId ProgramBuilder::op(OpKind kind, const std::string& name, std::vector<TensorId> in,
                            Attrs attrs) {
  const DType dtype = program_.tensors[in[0]].dtype;
  return append(kind, name, std::move(in), attrs, dtype)[0];
}

TensorId ProgramBuilder::op_as(DType dtype, OpKind kind, const std::string& name,
                               std::vector<TensorId> in, Attrs attrs) {
  return append(kind, name, std::move(in), attrs, dtype)[0];
}

void ProgramBuilder::accumulate(OpKind kind, TensorId into, const std::string& name,
                                std::vector<TensorId> in, Attrs attrs) {
  append(kind, name, std::move(in), attrs, program_.tensors[into].dtype);
  std::vector<Op>& list = in_backward_ ? program_.backward : program_.forward;
  Op& op = list.back();
  // The fresh first output is not needed after all: it is the last tensor but its auxiliaries.
  const TensorId fresh = op.out[0];
  program_.tensors.erase(program_.tensors.begin() + fresh);
  by_name_.erase(name);
  for (size_t i = 1; i < op.out.size(); ++i) {
    by_name_[program_.tensors[--op.out[i]].name] = op.out[i];
  }
  op.out[0] = into;
  op.accumulate[0] = true;
}

void ProgramBuilder::enter_backward() { in_backward_ = true; }

void ProgramBuilder::differentiate() {
  const std::vector<Op> ops(program_.backward.begin() + static_cast<ptrdiff_t>(differentiated_),
                            program_.backward.end());
  differentiate(ops);
  differentiated_ = program_.backward.size();
}

void ProgramBuilder::differentiate(std::vector<Op> ops) {
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    for (TensorId id : op->out) {  // its gradient is complete: nothing above remains to add to it
      const auto held = gradient_.find(id);
      if (held != gradient_.end()) std::erase(holds_[held->second], id);
    }
    const bool is_loss = program_.tensors[op->out[0]].kind == TensorKind::kStepIo;
    const auto backward = op_info(op->kind).backward;
    if (backward != nullptr && (is_loss || gradient_.contains(op->out[0]))) {
      Gradients gradients(*this, *op);
      backward(*op, gradients);
    }
  }
}

Program ProgramBuilder::finish(TensorId output) {
  in_backward_ = true;
  program_.output = output;
  if (output != kNoTensor) {
    Tensor gradient = program_.tensors[output];
    gradient.name = "d." + gradient.name;
    program_.d_output = declare(std::move(gradient));
    gradient_[output] = program_.d_output;
    holds_[program_.d_output] = {output};
  }
  differentiate(std::vector<Op>(program_.forward));
  if (program_.input != kNoTensor) program_.d_input = gradient_.at(program_.input);
  verify(program_);
  return std::move(program_);
}

Program ProgramBuilder::finish_forward_only(TensorId output) {
  program_.output = output;
  verify(program_);
  return std::move(program_);
}

TensorId Gradients::of_output(int i) const {
  const auto found = builder_.gradient_.find(op_.out[i]);
  return found == builder_.gradient_.end() ? kNoTensor : found->second;
}

namespace {

// A linear's products want both operands in one type, so the gradient of its result takes the type
// of its input: f32 logits of a bf16 model have bf16 gradients.
DType gradient_dtype(const Program& program, TensorId value) {
  for (const std::vector<Op>* list : {&program.forward, &program.backward}) {
    for (const Op& op : *list) {
      if (op.kind == OpKind::kLinear && op.out[0] == value) return program.tensors[op.in[0]].dtype;
    }
  }
  return program.tensors[value].dtype;
}

}  // namespace

Gradients::Target Gradients::target(int input) {
  const TensorId id = op_.in[input];
  const Tensor of = builder_.program_.tensors[id];
  const auto existing = builder_.gradient_.find(id);
  if (of.kind == TensorKind::kParam) {
    if (existing != builder_.gradient_.end()) return {existing->second, true};
    const TensorId grad =
        builder_.declare({.name = of.name + ".grad", .dtype = builder_.grad_dtype_,
                          .shape = of.shape, .kind = TensorKind::kGrad, .global = of.global,
                          .dims = of.dims});
    builder_.gradient_[id] = grad;
    return {grad, true};  // lower turns the first accumulation of a step into a plain write
  }
  if (existing != builder_.gradient_.end() && builder_.holds_[existing->second].size() == 1) {
    return {existing->second, true};
  }
  const bool shared = existing != builder_.gradient_.end();
  const TensorId fresh = builder_.declare({.name = "d." + of.name + (shared ? ".part" : ""),
                                           .dtype = gradient_dtype(builder_.program_, id),
                                           .shape = of.shape});
  if (!shared) {
    builder_.gradient_[id] = fresh;
    builder_.holds_[fresh] = {id};
  }
  return {fresh, false};
}

void Gradients::emit(OpKind kind, std::vector<TensorId> operands, const std::vector<int>& inputs,
                     Attrs attrs) {
  Op op{.kind = kind, .in = std::move(operands), .out = {}, .accumulate = {},
        .attrs = std::move(attrs)};
  for (int input : inputs) {
    const Target to = target(input);
    op.out.push_back(to.tensor);
    op.accumulate.push_back(to.accumulate);
  }
  builder_.program_.backward.push_back(op);
  for (size_t i = 0; i < inputs.size(); ++i) {
    // A gradient that still stands for another value must not change: add into a tensor of its own.
    const TensorId id = op_.in[inputs[i]], held = builder_.gradient_.at(id);
    if (held == op.out[i]) continue;
    Tensor sum = builder_.program_.tensors[op.out[i]];
    sum.name = "d." + builder_.program_.tensors[id].name;
    const TensorId total = builder_.declare(std::move(sum));
    builder_.program_.backward.push_back({.kind = OpKind::kAdd, .in = {held, op.out[i]},
                                          .out = {total}, .accumulate = {false}, .attrs = {}});
    std::erase(builder_.holds_[held], id);
    builder_.gradient_[id] = total;
    builder_.holds_[total] = {id};
  }
}

void Gradients::pass_through(int input) {
  const TensorId id = op_.in[input], incoming = of_output(0);
  if (!builder_.gradient_.contains(id)) {
    builder_.gradient_[id] = incoming;
    builder_.holds_[incoming].push_back(id);
    return;
  }
  const TensorId held = builder_.gradient_.at(id);
  Tensor sum = builder_.program_.tensors[held];
  sum.name += ".sum";
  const TensorId total = builder_.declare(std::move(sum));
  builder_.program_.backward.push_back({.kind = OpKind::kAdd, .in = {held, incoming},
                                        .out = {total}, .accumulate = {false}, .attrs = {}});
  std::erase(builder_.holds_[held], id);
  builder_.gradient_[id] = total;
  builder_.holds_[total] = {id};
}

}  // namespace spillway
