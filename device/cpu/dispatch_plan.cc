// Where each choice of an expert becomes a row, and how many there are.
#include <algorithm>
#include <limits>

#include "device/cpu/element.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

namespace spillway::cpu {
namespace {

// Each sequence's choices of an expert are a run of rows: sequences are counted and then placed by
// themselves, and runs lie in the order of experts, then of sequences.
struct DispatchPlan {
  TensorRef chosen, order, offsets, place;
  int64_t choices, experts, sequence_choices, sequences;
  int32_t capacity;
  int threads;
  Workspace space;

  explicit DispatchPlan(const BoundOp& op)
      : chosen(op.in[0]), order(op.out[0]), offsets(op.out[1]), place(op.out[2]),
        choices(chosen.elements()), experts(op.attrs.integer(Attr::kExperts)),
        sequence_choices(op.attrs.integer(Attr::kSeq) * chosen.width()),
        sequences(choices / sequence_choices),
        capacity(static_cast<int32_t>(op.attrs.integer(Attr::kCapacity))), threads(op.threads),
        space(op, 2 * sequences * experts, 0) {
    if (capacity == 0) capacity = std::numeric_limits<int32_t>::max();
  }

  struct Runs {
    int32_t *left, *next;  // [E]: of each expert the rows not yet placed, and the next one
  };
  [[nodiscard]] Runs runs(int64_t sequence) const {
    int32_t* left = reinterpret_cast<int32_t*>(space.shared()) + sequence * experts;
    return {left, left + sequences * experts};
  }

  void operator()() const {
    parallel_for(sequences, threads, [&](int64_t sequence, int) { count(sequence); });
    const int32_t rows = lay_out();
    parallel_for(sequences, threads, [&](int64_t sequence, int) { assign(sequence); });
    std::fill(elements_of<int32_t>(order) + rows, elements_of<int32_t>(order) + choices, -1);
  }

  void count(int64_t sequence) const {
    const int32_t* expert = elements_of<int32_t>(chosen, sequence * sequence_choices);
    int32_t* left = runs(sequence).left;
    std::fill_n(left, experts, 0);
    for (int64_t i = 0; i < sequence_choices; ++i) ++left[expert[i]];
    for (int64_t e = 0; e < experts; ++e) left[e] = std::min(left[e], capacity);
  }

  // Returns the number of rows.
  [[nodiscard]] int32_t lay_out() const {
    int32_t at = 0;
    for (int64_t e = 0; e < experts; ++e) {
      elements_of<int32_t>(offsets)[e] = at;
      for (int64_t s = 0; s < sequences; ++s) {
        runs(s).next[e] = at;
        at += runs(s).left[e];
      }
    }
    return elements_of<int32_t>(offsets)[experts] = at;
  }

  void assign(int64_t sequence) const {
    const Runs run = runs(sequence);
    const int64_t first = sequence * sequence_choices;
    for (int64_t choice = first; choice < first + sequence_choices; ++choice) {
      const int32_t e = elements_of<int32_t>(chosen)[choice];
      int32_t& row = elements_of<int32_t>(place)[choice];
      row = -1;
      if (run.left[e] == 0) continue;
      --run.left[e];
      row = run.next[e]++;
      elements_of<int32_t>(order)[row] = static_cast<int32_t>(choice);
    }
  }
};

}  // namespace

Kernel bind_dispatch_plan(const BoundOp& op) { return DispatchPlan(op); }

Kernel bind_count_experts(const BoundOp& op) {
  return [chosen = op.in[0], offsets = op.in[1], load = op.out[0],
          accumulate = bool{op.accumulate[0]}] {
    const int64_t experts = load.elements() - 1, choices = chosen.elements();
    int32_t* count = elements_of<int32_t>(load);
    if (!accumulate) std::fill_n(count, experts + 1, 0);
    const int32_t* expert = elements_of<int32_t>(chosen);
    for (int64_t i = 0; i < choices; ++i) ++count[expert[i]];
    count[experts] += static_cast<int32_t>(choices) - elements_of<int32_t>(offsets)[experts];
  };
}

}  // namespace spillway::cpu
