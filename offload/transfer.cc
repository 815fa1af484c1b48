#include "offload/transfer.h"

#include <vector>

namespace spillway {
namespace {

// Where an offloaded buffer is defined, last read in forward and first read in backward: indices of
// instructions.
struct Uses {
  int definition = -1, last_forward = -1, first_backward = -1;
};

std::vector<Uses> find_uses(const Schedule& schedule) {
  std::vector<Uses> uses(schedule.buffers.size());
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    const Instr& instr = schedule.instrs[i];
    if (instr.op.kind == OpKind::kFree) continue;
    const bool backward = schedule.slots[instr.slot].phase == Phase::kBackward;
    for (const Access& access : accesses(instr)) {
      if (!schedule.buffers[access.buffer].offload) continue;
      Uses& use = uses[access.buffer];
      const int at = static_cast<int>(i);
      if (use.definition < 0) use.definition = at;
      if (!backward) use.last_forward = at;
      if (backward && use.first_backward < 0) use.first_backward = at;
    }
  }
  return uses;
}

Instr copy(TensorId from, TensorId to, int slot) {
  return {.slot = slot, .stream = Stream::kCompute,
          .op = {.kind = OpKind::kCopy, .in = {from}, .out = {to}, .accumulate = {false},
                 .attrs = {}},
          .waits = {}};
}

Instr free_buffer(TensorId id, int slot) {
  return {.slot = slot, .stream = Stream::kCompute,
          .op = {.kind = OpKind::kFree, .in = {id}, .out = {}, .accumulate = {}, .attrs = {}},
          .waits = {}};
}

// Instructions to put before and after those that are there.
struct Insertions {
  explicit Insertions(size_t count) : before(count), after(count) {}
  std::vector<std::vector<Instr>> before, after;
};

// Adds the copies and frees of one buffer; returns the buffer that backward reads instead.
TensorId offload(Schedule& schedule, TensorId source, const Uses& use, Insertions& insertions) {
  Buffer host = schedule.buffers[source], landed = schedule.buffers[source];
  host.name += "@host";
  host.space = Space::kHost;
  landed.name += "@back";
  const auto host_id = static_cast<TensorId>(schedule.buffers.size()), back = host_id + 1;
  schedule.buffers.push_back(std::move(host));
  schedule.buffers.push_back(std::move(landed));
  auto slot_of = [&](int instr) { return schedule.instrs[instr].slot; };
  insertions.after[use.definition].push_back(copy(source, host_id, slot_of(use.definition)));
  insertions.after[use.last_forward].push_back(free_buffer(source, slot_of(use.last_forward)));
  const int slot_back = slot_of(use.first_backward);
  insertions.before[use.first_backward].push_back(copy(host_id, back, slot_back));
  insertions.before[use.first_backward].push_back(free_buffer(host_id, slot_back));
  return back;
}

}  // namespace

void transfer(Schedule& schedule) {
  const std::vector<Uses> uses = find_uses(schedule);
  Insertions insertions(schedule.instrs.size());
  std::vector<TensorId> back(uses.size(), kNoTensor);  // buffer -> its copy for backward
  for (size_t id = 0; id < uses.size(); ++id) {
    const Uses& use = uses[id];
    schedule.buffers[id].offload = false;
    if (use.definition < 0 || use.first_backward < 0) continue;
    back[id] = offload(schedule, static_cast<TensorId>(id), use, insertions);
  }

  std::vector<Instr> instrs;
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    for (Instr& added : insertions.before[i]) instrs.push_back(std::move(added));
    Instr& instr = schedule.instrs[i];
    for (TensorId& id : instr.op.in) {
      // From its first backward use on, and at its old kFree, the buffer is the one copied back.
      if (id < static_cast<TensorId>(back.size()) && back[id] != kNoTensor &&
          static_cast<int>(i) > uses[id].last_forward) {
        id = back[id];
      }
    }
    instrs.push_back(std::move(instr));
    for (Instr& added : insertions.after[i]) instrs.push_back(std::move(added));
  }
  schedule.instrs = std::move(instrs);
}

}  // namespace spillway
