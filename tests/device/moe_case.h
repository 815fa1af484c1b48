// Inputs of the mixture-of-experts ops that fit together, for tests.
#pragma once

#include <algorithm>
#include <cmath>

#include "tests/device/op_case.h"

namespace spillway {

// T tokens choose k of E experts each. Crowded: always the first k; the others have no rows.
struct Routing {
  int64_t tokens, top_k, experts, seq, capacity;
  bool crowded = false;

  [[nodiscard]] int64_t rows() const { return tokens * top_k; }
  [[nodiscard]] Attrs attrs() const {
    return {{Attr::kExperts, experts}, {Attr::kSeq, seq}, {Attr::kCapacity, capacity}};
  }
  [[nodiscard]] Array choices(Random& random) const {
    Array chosen({tokens, top_k});
    const int64_t among = crowded ? top_k : experts;
    const Array first = random.integers({tokens}, 0, among);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t j = 0; j < top_k; ++j) {
        chosen.at(t, j) = static_cast<double>((static_cast<int64_t>(first.values[t]) + j) % among);
      }
    }
    return chosen;
  }
};

// One expert and one token, fewer tokens than choices, experts without rows, one expert with all
// rows, sequences, capacities that drop and that do not.
inline constexpr Routing kRoutings[] = {
    {1, 1, 1, 1, 0},           {2, 3, 4, 2, 0},   {37, 2, 8, 37, 0},      {64, 4, 16, 16, 0, true},
    {300, 1, 3, 300, 0, true}, {60, 3, 6, 20, 5}, {60, 3, 6, 20, 1, true}, {40, 2, 8, 10, 1000},
};

// dispatch_plan's outputs.
struct Plan {
  Array experts, order, offsets, place;

  Plan(const Routing& routing, Random& random) : experts(routing.choices(random)) {
    const Arrays plan = reference(OpKind::kDispatchPlan, {experts}, routing.attrs());
    order = plan[0];
    offsets = plan[1];
    place = plan[2];
  }

  // Rows of random values; those of no expert are NaN, which nobody may read.
  [[nodiscard]] Array values(int64_t width, Random& random) const {
    Array rows = random.normal({order.rows(), width});
    const auto used = static_cast<int64_t>(offsets.values.back()) * width;
    std::fill(rows.values.begin() + used, rows.values.end(), std::nan(""));
    return rows;
  }
};

}  // namespace spillway
