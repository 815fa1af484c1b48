#include "program/schedule.h"

#include <algorithm>

#include "program/op_table.h"

namespace spillway {

std::string_view name_of(Space space) { return space == Space::kHbm ? "hbm" : "host"; }

std::string_view name_of(Stream stream) {
  switch (stream) {
    case Stream::kCompute: return "compute";
    case Stream::kD2h: return "d2h";
    case Stream::kH2d: return "h2d";
    case Stream::kComm: return "comm";
  }
  return "?";
}

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kForward: return "fwd";
    case Phase::kBackward: return "bwd";
    case Phase::kNorm: return "norm";
    case Phase::kUpdate: return "update";
    case Phase::kEval: return "eval";
  }
  return "?";
}

std::string_view name_of(MemoryClass memory) {
  switch (memory) {
    case MemoryClass::kParameter: return "parameters";
    case MemoryClass::kGradient: return "gradients";
    case MemoryClass::kOptimizer: return "optimizer";
    case MemoryClass::kStepIo: return "step_io";
    case MemoryClass::kActivation: return "activations";
    case MemoryClass::kWorkspace: return "workspace";
    case MemoryClass::kGathered: return "gathered";
  }
  return "?";
}

std::string Slot::text() const {
  return block + "." + std::string(name_of(phase)) + ".m" + std::to_string(micro_batch);
}

TensorId Schedule::find(const std::string& buffer) const {
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].name == buffer) return static_cast<TensorId>(i);
  }
  return kNoTensor;
}

namespace {

// The operands as the op table sees them.
struct Operands {
  std::vector<Tensor> storage;
  std::vector<const Tensor*> in, out;
};

Operands operands(const Schedule& schedule, const Op& op) {
  Operands result;
  for (const std::vector<TensorId>* ids : {&op.in, &op.out}) {
    for (TensorId id : *ids) {
      const Buffer& buffer = schedule.buffers[id];
      result.storage.push_back({.name = "", .dtype = buffer.dtype, .shape = buffer.shape});
    }
  }
  for (size_t i = 0; i < result.storage.size(); ++i) {
    (i < op.in.size() ? result.in : result.out).push_back(&result.storage[i]);
  }
  return result;
}

}  // namespace

int64_t instr_flops(const Schedule& schedule, const Instr& instr) {
  const auto flops = op_info(instr.op.kind).flops;
  if (flops == nullptr) return 0;
  const Operands o = operands(schedule, instr.op);
  return flops(o.in, o.out, instr.op.attrs);
}

int64_t instr_bytes(const Schedule& schedule, const Instr& instr) {
  if (instr.op.kind == OpKind::kFree) return 0;
  const Operands o = operands(schedule, instr.op);
  return op_bytes(o.in, o.out, instr.op.accumulate);
}

int64_t model_flops(const Schedule& schedule) {
  int64_t total = 0;
  for (const Instr& instr : schedule.instrs) {
    if (!instr.op.recompute) total += instr_flops(schedule, instr);
  }
  return total;
}

bool is_copy_to_host(const Schedule& schedule, const Instr& instr) {
  return instr.op.kind == OpKind::kCopy &&
         schedule.buffers[instr.op.out[0]].space == Space::kHost;
}

bool is_copy_to_device(const Schedule& schedule, const Instr& instr) {
  return instr.op.kind == OpKind::kCopy && schedule.buffers[instr.op.in[0]].space == Space::kHost;
}

bool is_collective(OpKind kind) {
  switch (kind) {
    case OpKind::kAllGather:
    case OpKind::kReduceScatter:
    case OpKind::kAllReduce:
    case OpKind::kExchangeRows:
    case OpKind::kReturnRows: return true;
    default: return false;
  }
}

int64_t sent_bytes(const Schedule& schedule, const Instr& instr) {
  if (!is_collective(instr.op.kind)) return 0;
  const int64_t in = schedule.buffers[instr.op.in[0]].bytes();
  const int64_t parts = instr.op.attrs.integer(Attr::kParts);
  switch (instr.op.kind) {
    case OpKind::kAllGather: return in * (parts - 1);
    case OpKind::kAllReduce: return 2 * in / parts * (parts - 1);
    case OpKind::kReduceScatter: return in / parts * (parts - 1);
    default: {  // rows of experts, when routing is balanced: as many come as go, whatever has room
      const int64_t out = schedule.buffers[instr.op.out[0]].bytes();
      return std::min(in, out) / parts * (parts - 1);
    }
  }
}

int64_t sent_bytes(const Schedule& schedule) {
  int64_t total = 0;
  for (const Instr& instr : schedule.instrs) total += sent_bytes(schedule, instr);
  return total;
}

CopyBytes copy_bytes(const Schedule& schedule) {
  CopyBytes total;
  for (const Instr& instr : schedule.instrs) {
    if (is_copy_to_host(schedule, instr)) total.d2h += schedule.buffers[instr.op.in[0]].bytes();
    if (is_copy_to_device(schedule, instr)) total.h2d += schedule.buffers[instr.op.in[0]].bytes();
  }
  return total;
}

std::vector<Access> accesses(const Instr& instr) {
  std::vector<Access> result;
  auto add = [&](TensorId id, bool write) {
    for (Access& access : result) {
      if (access.buffer == id) {
        access.write |= write;
        return;
      }
    }
    result.push_back({id, write});
  };
  for (TensorId id : instr.op.in) add(id, instr.op.kind == OpKind::kFree);
  for (TensorId id : instr.op.out) add(id, true);
  return result;
}

}  // namespace spillway
