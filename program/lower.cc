#include "program/lower.h"

#include <map>

#include "program/error.h"
#include "program/verify.h"

namespace spillway {
namespace {

MemoryClass memory_class(TensorKind kind) {
  switch (kind) {
    case TensorKind::kParam:
    case TensorKind::kConstant: return MemoryClass::kParameter;
    case TensorKind::kGrad: return MemoryClass::kGradient;
    case TensorKind::kState: return MemoryClass::kOptimizer;
    case TensorKind::kStepIo: return MemoryClass::kStepIo;
    case TensorKind::kValue: return MemoryClass::kWorkspace;
  }
  return MemoryClass::kWorkspace;
}

bool is_persistent(TensorKind kind) {
  return kind != TensorKind::kValue && kind != TensorKind::kGrad;
}

class Lowering {
 public:
  Lowering(const std::vector<Program>& programs, const std::vector<Block>& blocks)
      : programs_(programs), blocks_(blocks) {}

  Schedule run(const std::vector<SlotOrder>& order) {
    declare_persistent();
    for (const SlotOrder& slot : order) emit(slot);
    classify_activations();
    free_at_last_use(schedule_);
    return std::move(schedule_);
  }

 private:
  const Program& program_of(const SlotOrder& slot) const {
    const Block& block = blocks_[slot.block];
    if (slot.phase == Phase::kNorm || slot.phase == Phase::kUpdate) {
      return programs_[block.optimizer];
    }
    const bool evaluate = slot.phase == Phase::kEval && block.evaluation >= 0;
    return programs_[evaluate ? block.evaluation : block.program];
  }

  // A name that is the same for every use of the same bytes.
  std::string buffer_name(const SlotOrder& slot, const Tensor& tensor) const {
    const Block& block = blocks_[slot.block];
    const std::string micro_batch = "m" + std::to_string(slot.micro_batch);
    switch (tensor.kind) {
      case TensorKind::kValue: return block.label + "." + micro_batch + "." + tensor.name;
      case TensorKind::kStepIo:
        return (tensor.micro_batched ? micro_batch + "." : "") +
               (tensor.per_block ? block.prefix : "") + tensor.name;
      case TensorKind::kConstant: return tensor.name;
      default: return full_name(block, tensor);
    }
  }

  TensorId buffer(const std::string& name, const Tensor& tensor) {
    const auto [found, fresh] =
        by_name_.emplace(name, static_cast<TensorId>(schedule_.buffers.size()));
    if (fresh) {
      schedule_.buffers.push_back({.name = name, .dtype = tensor.dtype, .shape = tensor.shape,
                                   .memory = memory_class(tensor.kind),
                                   .persistent = is_persistent(tensor.kind),
                                   .offload = tensor.strategy == Strategy::kOffload,
                                   .shard_axes = tensor.shard_axes});
    } else if (schedule_.buffers[found->second].shape != tensor.shape ||
               schedule_.buffers[found->second].dtype != tensor.dtype) {
      throw VerifyError(name + " has two types");
    } else if (schedule_.buffers[found->second].shard_axes != tensor.shard_axes) {
      throw VerifyError(name + " is divided in two ways");
    }
    return found->second;
  }

  // Whatever Programs need, whether or not this Schedule runs them: train and evaluation Schedules
  // of one model then share their persistent list, and with it the offsets.
  void declare_persistent() {
    for (size_t b = 0; b < blocks_.size(); ++b) {
      for (int program : {blocks_[b].program, blocks_[b].evaluation, blocks_[b].optimizer}) {
        if (program < 0) continue;
        for (const Tensor& tensor : programs_[program].tensors) {
          if (!is_persistent(tensor.kind) || tensor.micro_batched) continue;
          buffer(buffer_name({.block = static_cast<int>(b)}, tensor), tensor);
        }
      }
    }
  }

  // The buffer in which the residual stream enters the slot's block: a block that lets it pass leaves
  // the naming to the next.
  TensorId stream_into(const SlotOrder& slot) {
    const Program& program = program_of(slot);
    const bool passes = program.output != kNoTensor && program.output == program.input;
    if (passes) return stream_into({slot.block + 1, slot.phase, slot.micro_batch});
    const Tensor& input = program.tensors[program.input];
    return buffer(buffer_name(slot, input), input);
  }

  // The residual stream joins blocks: block b's output is block b + 1's input, and the gradients
  // likewise in the other direction.
  TensorId resolve(const SlotOrder& slot, const Program& program, TensorId id) {
    const int m = slot.micro_batch;
    if (id == program.output && slot.block + 1 < static_cast<int>(blocks_.size())) {
      return stream_into({slot.block + 1, slot.phase, m});
    }
    if (id == program.input) return stream_into(slot);
    if (id == program.d_output) {
      const auto found = incoming_gradient_.find({slot.block, m});
      if (found != incoming_gradient_.end()) return found->second;
    }
    const Tensor& tensor = program.tensors[id];
    return buffer(buffer_name(slot, tensor), tensor);
  }

  void emit(const SlotOrder& slot) {
    const Program& program = program_of(slot);
    const auto slot_index = static_cast<int>(schedule_.slots.size());
    schedule_.slots.push_back({blocks_[slot.block].label, slot.phase, slot.micro_batch});
    const bool second = slot.phase == Phase::kBackward || slot.phase == Phase::kUpdate;
    for (const Op& op : second ? program.backward : program.forward) {
      Instr instr{.slot = slot_index, .stream = Stream::kCompute, .op = op, .waits = {}};
      for (TensorId& id : instr.op.in) id = resolve(slot, program, id);
      for (size_t i = 0; i < op.out.size(); ++i) {
        const TensorId id = instr.op.out[i] = resolve(slot, program, op.out[i]);
        const TensorKind kind = program.tensors[op.out[i]].kind;
        const bool sum = kind == TensorKind::kGrad || kind == TensorKind::kStepIo;
        written_.resize(schedule_.buffers.size());
        if (sum && !written_[id]) instr.op.accumulate[i] = false;
        written_[id] = true;
      }
      schedule_.instrs.push_back(std::move(instr));
    }
    if (slot.phase == Phase::kBackward && slot.block > 0 && program.d_input != kNoTensor) {
      incoming_gradient_[{slot.block - 1, slot.micro_batch}] =
          resolve(slot, program, program.d_input);
    }
  }

  // A workspace buffer written in a forward slot and read in a backward slot is an activation.
  void classify_activations() {
    std::vector<bool> from_forward(schedule_.buffers.size());
    for (const Instr& instr : schedule_.instrs) {
      const Phase phase = schedule_.slots[instr.slot].phase;
      for (const Access& access : accesses(instr)) {
        Buffer& buffer = schedule_.buffers[access.buffer];
        if (access.write && phase == Phase::kForward) from_forward[access.buffer] = true;
        if (buffer.memory == MemoryClass::kWorkspace && phase == Phase::kBackward &&
            from_forward[access.buffer]) {
          buffer.memory = MemoryClass::kActivation;
          // "L3.m0.query_proj" -> "query_proj"
          buffer.activation = buffer.name.substr(buffer.name.find('.', buffer.name.find('.') + 1) + 1);
        }
      }
    }
  }

  const std::vector<Program>& programs_;
  const std::vector<Block>& blocks_;
  Schedule schedule_;
  std::map<std::string, TensorId> by_name_;
  std::vector<bool> written_;  // gradients and step outputs that this step has written
  std::map<std::pair<int, int>, TensorId> incoming_gradient_;  // (block, micro-batch) -> d.output
};

}  // namespace

std::string full_name(const Block& block, const Tensor& tensor) {
  return (tensor.global ? "" : block.prefix) + tensor.name;
}

Schedule lower(const std::vector<Program>& programs, const std::vector<Block>& blocks,
               const std::vector<SlotOrder>& order) {
  return Lowering(programs, blocks).run(order);
}

void free_at_last_use(Schedule& schedule) {
  std::vector<int> last(schedule.buffers.size(), -1);
  std::vector<bool> done(schedule.buffers.size());
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    for (const Access& access : accesses(schedule.instrs[i])) {
      last[access.buffer] = static_cast<int>(i);
      if (schedule.instrs[i].op.kind == OpKind::kFree) done[access.buffer] = true;
    }
  }
  std::vector<std::vector<TensorId>> ends(schedule.instrs.size());
  for (size_t id = 0; id < schedule.buffers.size(); ++id) {
    if (last[id] >= 0 && !done[id] && !schedule.buffers[id].persistent) {
      ends[last[id]].push_back(static_cast<TensorId>(id));
    }
  }
  std::vector<Instr> instrs;
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    instrs.push_back(std::move(schedule.instrs[i]));
    const int slot = instrs.back().slot;
    for (TensorId id : ends[i]) {
      instrs.push_back({.slot = slot, .stream = Stream::kCompute,
                        .op = {.kind = OpKind::kFree, .in = {id}, .out = {}, .accumulate = {},
                               .attrs = {}},
                        .waits = {}});
    }
  }
  schedule.instrs = std::move(instrs);
}

}  // namespace spillway
