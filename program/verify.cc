#include "program/verify.h"

#include <algorithm>
#include <array>
#include <set>

#include "program/error.h"
#include "program/op_table.h"
#include "program/text.h"

namespace spillway {
namespace {

std::vector<const Tensor*> tensors_of(const Program& program, const std::vector<TensorId>& ids) {
  std::vector<const Tensor*> result;
  for (TensorId id : ids) result.push_back(&program.tensors[id]);
  return result;
}

void check_arity(const Program& program, const Op& op) {
  const OpInfo& info = op_info(op.kind);
  const int in = static_cast<int>(op.in.size()), out = static_cast<int>(op.out.size());
  if (in < info.min_inputs || in > info.max_inputs || out < info.min_outputs ||
      out > info.max_outputs || op.accumulate.size() != op.out.size()) {
    throw VerifyError("wrong number of operands in " + to_text(program, op));
  }
}

void check_shapes(const Program& program, const Op& op) {
  const OpInfo& info = op_info(op.kind);
  if (info.infer == nullptr) return;
  const auto inferred = info.infer(tensors_of(program, op.in), op.attrs,
                                   program.tensors[op.out[0]].dtype);
  for (size_t i = 0; i < op.out.size(); ++i) {
    const Tensor& out = program.tensors[op.out[i]];
    if (out.shape != inferred[i].shape || out.dtype != inferred[i].dtype) {
      throw VerifyError("the output " + out.name + " does not have the type that the op gives: " +
                        to_text(program, op));
    }
  }
}

}  // namespace

void verify(const Program& program) {
  std::set<std::string> names;
  std::vector<bool> defined(program.tensors.size());
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& tensor = program.tensors[i];
    if (!names.insert(tensor.name).second) {
      throw VerifyError(program.name + ": two tensors are named " + tensor.name);
    }
    if (element_count(tensor.shape) <= 0) {
      throw VerifyError(program.name + ": " + tensor.name + " has no elements");
    }
    defined[i] = tensor.kind != TensorKind::kValue;
  }
  auto run = [&](const std::vector<Op>& ops) {
    for (const Op& op : ops) {
      check_arity(program, op);
      for (TensorId id : op.in) {
        if (!defined[id]) {
          throw VerifyError(program.name + ": " + program.tensors[id].name +
                            " is read before it is defined in " + to_text(program, op));
        }
      }
      for (size_t i = 0; i < op.out.size(); ++i) {
        const Tensor& out = program.tensors[op.out[i]];
        if (out.kind == TensorKind::kValue && defined[op.out[i]] != op.accumulate[i]) {
          throw VerifyError(program.name + ": " + out.name +
                            (op.accumulate[i] ? " is added to before it is defined in "
                                              : " is defined twice, again in ") +
                            to_text(program, op));
        }
        defined[op.out[i]] = true;
      }
      check_shapes(program, op);
    }
  };
  if (program.input != kNoTensor) defined[program.input] = true;
  run(program.forward);
  if (program.d_output != kNoTensor) defined[program.d_output] = true;
  run(program.backward);
}

namespace {

enum class State : uint8_t { kFresh, kLive, kFreed };

void check_access(const Schedule& schedule, const Instr& instr, std::vector<State>& state) {
  auto fail = [&](TensorId id, const char* what) {
    throw VerifyError(schedule.buffers[id].name + what + to_text(schedule, instr));
  };
  for (TensorId id : instr.op.in) {
    if (state[id] == State::kFreed) fail(id, " is used after it was freed: ");
    if (state[id] == State::kFresh) fail(id, " is read before it is written: ");
    if (instr.op.kind == OpKind::kFree) state[id] = State::kFreed;
  }
  for (size_t i = 0; i < instr.op.out.size(); ++i) {
    const TensorId id = instr.op.out[i];
    if (state[id] == State::kFreed) fail(id, " is written after it was freed: ");
    if (state[id] == State::kFresh && instr.op.accumulate[i]) {
      fail(id, " is added to before it is written: ");
    }
    state[id] = State::kLive;
  }
}

}  // namespace

void verify(const Schedule& schedule) {
  std::vector<State> state(schedule.buffers.size(), State::kFresh);
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    // What outlives the step holds a value when it begins, except sums that the step starts.
    if (schedule.buffers[i].persistent) state[i] = State::kLive;
  }
  std::array<int, kStreamCount> slot = {};
  const Instr* collective = nullptr;  // the first
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    const Instr& instr = schedule.instrs[i];
    int& last_slot = slot[static_cast<int>(instr.stream)];
    if (instr.slot < last_slot || instr.slot >= static_cast<int>(schedule.slots.size())) {
      throw VerifyError("slot goes backwards: " + to_text(schedule, instr));
    }
    last_slot = instr.slot;
    if (is_collective(instr.op.kind)) {
      if (collective == nullptr) collective = &instr;
      if (instr.stream != collective->stream) {  // ranks could meet in different orders, and wait forever
        throw VerifyError("collectives on two streams: " + to_text(schedule, *collective) + ", " +
                          to_text(schedule, instr));
      }
    }
    for (int wait : instr.waits) {
      if (wait < 0 || wait >= static_cast<int>(i) ||
          schedule.instrs[wait].stream == instr.stream) {
        throw VerifyError("a wait must point backwards to another stream: " +
                          to_text(schedule, instr));
      }
    }
    check_access(schedule, instr, state);
  }
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    if (!schedule.buffers[i].persistent && state[i] == State::kLive) {
      throw VerifyError(schedule.buffers[i].name + " is never freed");
    }
  }
}

void verify(const Schedule& schedule, const MemoryPlan& plan) {
  const std::vector<Lifetime> life = lifetimes(schedule);
  for (Space space : {Space::kHbm, Space::kHost}) {
    std::vector<TensorId> order;
    for (size_t i = 0; i < schedule.buffers.size(); ++i) {
      const Buffer& buffer = schedule.buffers[i];
      if (buffer.space != space || life[i].first < 0) continue;
      const int64_t offset = plan.offset[i];
      if (offset < 0 || offset % kAlignment != 0 ||
          offset + buffer.bytes() > plan.of(space).bytes) {
        throw VerifyError(buffer.name + " lies outside its arena or is not aligned");
      }
      order.push_back(static_cast<TensorId>(i));
    }
    // Sweep in order of first use, holding what is live by offset: neighbours must not overlap.
    std::sort(order.begin(), order.end(), [&](TensorId a, TensorId b) {
      return life[a].first < life[b].first;
    });
    std::multiset<std::pair<int, TensorId>> ends;            // (last use, buffer)
    std::set<std::pair<int64_t, TensorId>> live;             // (offset, buffer)
    for (TensorId id : order) {
      while (!ends.empty() && ends.begin()->first < life[id].first) {
        live.erase({plan.offset[ends.begin()->second], ends.begin()->second});
        ends.erase(ends.begin());
      }
      const auto at = live.insert({plan.offset[id], id}).first;
      auto overlaps = [&](auto low, auto high) {
        return low->first + schedule.buffers[low->second].bytes() > high->first;
      };
      if ((at != live.begin() && overlaps(std::prev(at), at)) ||
          (std::next(at) != live.end() && overlaps(at, std::next(at)))) {
        throw VerifyError(schedule.buffers[id].name + " shares bytes with a live buffer");
      }
      ends.insert({life[id].last, id});
    }
  }
}

}  // namespace spillway
