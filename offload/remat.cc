#include "offload/remat.h"

#include <map>

#include "program/verify.h"

namespace spillway {
namespace {

class Remat {
 public:
  explicit Remat(Program program) : program_(std::move(program)) {
    for (size_t i = 0; i < program_.forward.size(); ++i) {
      for (TensorId id : program_.forward[i].out) definition_[id] = i;
    }
  }

  Program run() {
    for (Op& op : program_.backward) {
      for (TensorId& id : op.in) id = available(id);
      backward_.push_back(std::move(op));
    }
    program_.backward = std::move(backward_);
    return std::move(program_);
  }

 private:
  // The tensor that holds `id`'s value in backward, recomputing it if need be.
  TensorId available(TensorId id) {
    const auto definition = definition_.find(id);
    if (program_.tensors[id].strategy != Strategy::kRemat || definition == definition_.end()) {
      return id;
    }
    if (const auto done = copy_.find(id); done != copy_.end()) return done->second;
    Op op = program_.forward[definition->second];
    op.recompute = true;
    for (TensorId& input : op.in) input = available(input);
    for (TensorId& output : op.out) {
      Tensor tensor = program_.tensors[output];
      tensor.name = recomputed_name(tensor.name);
      tensor.strategy = Strategy::kUnset;
      program_.tensors.push_back(std::move(tensor));
      output = copy_[output] = static_cast<TensorId>(program_.tensors.size()) - 1;
    }
    backward_.push_back(std::move(op));
    return copy_.at(id);
  }

  Program program_;
  std::vector<Op> backward_;
  std::map<TensorId, size_t> definition_;  // forward value -> index of its op
  std::map<TensorId, TensorId> copy_;      // forward value -> its recomputed twin
};

}  // namespace

Program remat(Program program) {
  Program result = Remat(std::move(program)).run();
  verify(result);
  return result;
}

}  // namespace spillway
