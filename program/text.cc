#include "program/text.h"

#include <fmt/format.h>

#include "program/op_table.h"

namespace spillway {
namespace {

template <typename NameOf>
std::string op_text(const Op& op, NameOf name) {
  std::string text;
  for (size_t i = 0; i < op.out.size(); ++i) {
    text += (i ? ", " : "") + name(op.out[i]) + (op.accumulate[i] ? "+" : "");
  }
  if (!op.out.empty()) text += " = ";
  text += std::string(op_info(op.kind).name) + "(";
  for (size_t i = 0; i < op.in.size(); ++i) text += (i ? ", " : "") + name(op.in[i]);
  text += ")";
  const auto& attrs = op.attrs.list();
  for (size_t i = 0; i < attrs.size(); ++i) {
    text += fmt::format("{}{}={}", i ? ", " : " {", name_of(attrs[i].first), attrs[i].second);
  }
  if (!attrs.empty()) text += "}";
  if (op.recompute) text += " !recompute";
  return text;
}

std::string shape_text(DType dtype, const Shape& shape) {
  std::string text = std::string(name_of(dtype)) + "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string_view kind_name(TensorKind kind) {
  switch (kind) {
    case TensorKind::kValue: return "value";
    case TensorKind::kParam: return "param";
    case TensorKind::kGrad: return "grad";
    case TensorKind::kState: return "state";
    case TensorKind::kConstant: return "constant";
    case TensorKind::kStepIo: return "step_io";
  }
  return "?";
}

std::string tensor_text(const Tensor& tensor) {
  std::string text = fmt::format("  {} {} {}", kind_name(tensor.kind), tensor.name,
                                 shape_text(tensor.dtype, tensor.shape));
  if (tensor.strategy != Strategy::kUnset) text += " " + std::string(name_of(tensor.strategy));
  if (tensor.micro_batched) text += " micro_batched";
  if (tensor.per_block) text += " per_block";
  if (tensor.global) text += " global";
  if (tensor.init.kind == Init::Kind::kOnes) text += " ones";
  if (tensor.init.kind == Init::Kind::kNormal) text += fmt::format(" normal={}", tensor.init.stddev);
  return text + "\n";
}

}  // namespace

std::string to_text(const Program& program, const Op& op) {
  return op_text(op, [&](TensorId id) { return program.tensors[id].name; });
}

std::string to_text(const Program& program) {
  std::string text = "program " + program.name + "\n";
  for (const Tensor& tensor : program.tensors) text += tensor_text(tensor);
  auto role = [&](const char* name, TensorId id) {
    if (id != kNoTensor) text += fmt::format("{} {}\n", name, program.tensors[id].name);
  };
  role("input", program.input);
  role("output", program.output);
  role("d_input", program.d_input);
  role("d_output", program.d_output);
  text += "forward\n";
  for (const Op& op : program.forward) text += "  " + to_text(program, op) + "\n";
  text += "backward\n";
  for (const Op& op : program.backward) text += "  " + to_text(program, op) + "\n";
  return text;
}

std::string to_text(const Schedule& schedule, const Instr& instr) {
  return op_text(instr.op, [&](TensorId id) { return schedule.buffers[id].name; });
}

std::string to_text(const Schedule& schedule) {
  std::string text = "schedule\n";
  for (const Buffer& buffer : schedule.buffers) {
    text += fmt::format("  buffer {} {} {} {}", buffer.name, shape_text(buffer.dtype, buffer.shape),
                        name_of(buffer.space), name_of(buffer.memory));
    if (buffer.persistent) text += " persistent";
    if (buffer.offload) text += " offload";
    if (!buffer.activation.empty()) text += " activation=" + buffer.activation;
    if (buffer.shard_axes != 0) text += fmt::format(" shard={}", buffer.shard_axes);
    text += "\n";
  }
  text += "instrs\n";
  std::vector<int> number(schedule.instrs.size());
  int issued[kStreamCount] = {};
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    const Instr& instr = schedule.instrs[i];
    number[i] = issued[static_cast<int>(instr.stream)]++;
    text += fmt::format("  {:<12} {:<8} {}", schedule.slots[instr.slot].text(),
                        name_of(instr.stream), to_text(schedule, instr));
    for (size_t w = 0; w < instr.waits.size(); ++w) {
      const Instr& other = schedule.instrs[instr.waits[w]];
      text += fmt::format("{}{}#{}", w ? ", " : "  # wait ", name_of(other.stream),
                          number[instr.waits[w]]);
    }
    text += "\n";
  }
  return text;
}

}  // namespace spillway
