#include "program/program.h"

#include <algorithm>

namespace spillway {

TensorId Program::find(const std::string& name) const {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name == name) return static_cast<TensorId>(i);
  }
  return kNoTensor;
}

std::vector<TensorId> activations(const Program& program) {
  std::vector<bool> read(program.tensors.size());
  for (const Op& op : program.backward) {
    for (TensorId id : op.in) read[id] = true;
  }
  std::vector<TensorId> result;
  auto consider = [&](TensorId id) {
    if (id != kNoTensor && read[id] && program.tensors[id].kind == TensorKind::kValue) {
      result.push_back(id);
    }
  };
  consider(program.input);
  for (const Op& op : program.forward) {
    for (size_t i = 0; i < op.out.size(); ++i) {
      if (!op.accumulate[i]) consider(op.out[i]);
    }
  }
  return result;
}

std::vector<TensorId> nameable_values(const Program& program) {
  std::vector<TensorId> result;
  if (program.input != kNoTensor) result.push_back(program.input);
  for (const Op& op : program.forward) {
    const TensorId id = op.out[0];
    const bool block_output = id == program.output;  // the next block's input: named there
    const Tensor& tensor = program.tensors[id];
    if (tensor.kind == TensorKind::kValue && !tensor.transient && !block_output) {
      result.push_back(id);
    }
  }
  return result;
}

}  // namespace spillway
