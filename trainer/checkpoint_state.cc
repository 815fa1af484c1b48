#include "trainer/checkpoint_state.h"

#include <algorithm>

namespace spillway {
namespace {

// Moments are divided as their parameter is; no other state is divided (parallel/shard).
bool is_moment(const Program& program, TensorId id) {
  return std::ranges::any_of(program.backward, [&](const Op& op) {
    return op.kind == OpKind::kAdamW && std::ranges::find(op.out, id) != op.out.end();
  });
}

}  // namespace

std::map<std::string, StateTensor> state_of(const Model& model) {
  std::map<std::string, StateTensor> state;
  for (const Block& block : model.blocks) {
    for (const int index : {block.program, block.optimizer}) {
      if (index < 0) continue;
      const Program& program = model.programs[index];
      for (size_t i = 0; i < program.tensors.size(); ++i) {
        const Tensor& tensor = program.tensors[i];
        const bool param = tensor.kind == TensorKind::kParam;
        if (!param && tensor.kind != TensorKind::kState) continue;
        state.emplace(full_name(block, tensor),
                      StateTensor{tensor.dtype, tensor.shape, tensor.dims,
                                  param || is_moment(program, static_cast<TensorId>(i))});
      }
    }
  }
  return state;
}

Layout layout_on(const StateTensor& tensor, const Mesh& mesh) {
  return tensor.divided ? layout_of(tensor.shape, tensor.dims, mesh)
                        : layout_of(tensor.shape, {}, Mesh());
}

bool writes(const StateTensor& tensor, const Mesh& mesh) {
  return tensor.divided ? mesh.index(axis::kData) == 0 : mesh.rank() == 0;
}

}  // namespace spillway
