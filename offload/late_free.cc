#include "offload/late_free.h"

#include <map>
#include <vector>

namespace spillway {
namespace {

// Gathered parameters come from persistent buffers, and sums of gradients have frees of their own.
bool of_activations(const Schedule& schedule, const Instr& instr) {
  if (!is_collective(instr.op.kind) || instr.stream != Stream::kComm) return false;
  return schedule.buffers[instr.op.out[0]].memory != MemoryClass::kGradient;
}

bool touches(const Instr& instr, TensorId buffer) {
  for (const Access& access : accesses(instr)) {
    if (access.buffer == buffer) return true;
  }
  return false;
}

// The first instruction on compute behind `at`, in its slot, that touches `buffer`; -1: none.
int first_use(const Schedule& schedule, size_t at, TensorId buffer) {
  for (size_t i = at + 1; i < schedule.instrs.size(); ++i) {
    const Instr& instr = schedule.instrs[i];
    if (instr.stream != Stream::kCompute) continue;
    if (instr.slot != schedule.instrs[at].slot) return -1;
    if (touches(instr, buffer)) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

void free_behind_collectives(Schedule& schedule) {
  std::map<TensorId, int> freed;  // buffer -> its kFree on compute
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    const Instr& instr = schedule.instrs[i];
    if (instr.op.kind == OpKind::kFree && instr.stream == Stream::kCompute) {
      freed[instr.op.in[0]] = static_cast<int>(i);
    }
  }
  std::map<int, std::vector<int>> before;  // instruction -> frees that move in front of it
  std::vector<bool> moved(schedule.instrs.size(), false);
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    const Instr& instr = schedule.instrs[i];
    if (!of_activations(schedule, instr)) continue;
    const int use = first_use(schedule, i, instr.op.out[0]);
    for (TensorId source : instr.op.in) {
      const auto found = freed.find(source);
      if (found == freed.end() || moved[found->second] || found->second < static_cast<int>(i)) continue;
      if (found->second >= use) continue;
      moved[found->second] = true;
      before[use].push_back(found->second);
    }
  }
  std::vector<Instr> instrs;
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    if (const auto found = before.find(static_cast<int>(i)); found != before.end()) {
      for (int free : found->second) instrs.push_back(std::move(schedule.instrs[free]));
    }
    if (!moved[i]) instrs.push_back(std::move(schedule.instrs[i]));
  }
  schedule.instrs = std::move(instrs);
}

}  // namespace spillway
