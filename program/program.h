// A Program: one block of the model (embedding, decoder layer, head) or its optimizer step, as
// straight-line ops on named tensors. It knows no stream, rank, layer number or micro-batch.
#pragma once

#include <string>
#include <vector>

#include "program/op.h"
#include "program/tensor.h"

namespace spillway {

struct Program {
  std::string name;  // "decoder_layer", ...
  std::vector<Tensor> tensors;
  std::vector<Op> forward;
  std::vector<Op> backward;  // optimizer Programs: forward = norm, backward = update

  // The residual stream in and out of the block; kNoTensor at the model's ends.
  TensorId input = kNoTensor, output = kNoTensor;
  TensorId d_input = kNoTensor, d_output = kNoTensor;

  [[nodiscard]] const Tensor& tensor(TensorId id) const { return tensors[id]; }
  [[nodiscard]] TensorId find(const std::string& name) const;  // kNoTensor when absent
};

// An activation is a value defined in forward (or the block's input) and read in backward: derived,
// never listed. In order of definition.
[[nodiscard]] std::vector<TensorId> activations(const Program& program);

// The values defined in forward, the block's input first: what a policy may name. Auxiliary outputs
// (rstd, lse) are left out: they follow the first output of their op. So are transient values: they
// are always made again.
[[nodiscard]] std::vector<TensorId> nameable_values(const Program& program);

}  // namespace spillway
