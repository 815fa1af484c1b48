// Where the rows of experts on other ranks go: rank q of P has experts [q*E/P, (q+1)*E/P), and the
// first `room` rows for them, in the order of expert, then of the rank they come from.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/cpu/element.h"

namespace spillway::cpu {

// The rows of one expert that come from one rank: neighbours on both sides.
struct ExpertSegment {
  int64_t expert;  // among the receiver's
  int source;
  int64_t from, to;         // the first one's row at the source and at the receiver
  int64_t rows, left_out;   // those that have room, and those behind them
};

struct ExpertLayout {
  const int32_t* offsets;  // [P, E+1]: of each rank the first row of each expert, and their end
  int64_t parts, experts, room;

  explicit ExpertLayout(const BoundOp& op, const TensorRef& all_offsets)
      : offsets(elements_of<int32_t>(all_offsets)), parts(all_offsets.shape[0]),
        experts(all_offsets.width() - 1), room(op.attrs.integer(Attr::kRows)) {}

  [[nodiscard]] int64_t experts_each() const { return experts / parts; }
  [[nodiscard]] int64_t rows_of(int source) const { return at(source, experts); }

  // Calls f(segment) for what `receiver` gets, in the order of its rows. Returns how many rows it
  // is, with those that have no room.
  template <class F>
  int64_t for_each_segment(int64_t receiver, const F& f) const {
    int64_t total = 0;
    for (int64_t expert = 0; expert < experts_each(); ++expert) {
      for (int source = 0; source < parts; ++source) {
        const int64_t from = at(source, receiver * experts_each() + expert);
        const int64_t count = at(source, receiver * experts_each() + expert + 1) - from;
        const int64_t to = std::min(total, room), rows = std::min(count, room - to);
        f(ExpertSegment{expert, source, from, to, rows, count - rows});
        total += count;
      }
    }
    return total;
  }

  [[nodiscard]] int64_t rows_for(int64_t receiver) const {
    return for_each_segment(receiver, [](const ExpertSegment&) {});
  }

 private:
  [[nodiscard]] int64_t at(int64_t source, int64_t expert) const {
    return offsets[source * (experts + 1) + expert];
  }
};

}  // namespace spillway::cpu
