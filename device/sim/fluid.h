// Tasks that share resources like fluids: while the resources that running tasks want are more than
// there is, they slow down together.
#pragma once

#include <cstdint>
#include <vector>

#include "device/sim/op_cost.h"

namespace spillway::sim {

// Virtual time in picoseconds: 64 bits last 106 days.
using Picoseconds = int64_t;
[[nodiscard]] Picoseconds to_picoseconds(double seconds);

class Fluid {
 public:
  // Starts a task now; `key` comes back when it ends.
  void start(int key, const Cost& cost);
  [[nodiscard]] bool idle() const { return tasks_.empty(); }
  [[nodiscard]] Picoseconds now() const { return now_; }
  // Goes on to the next end, and returns the keys of what ends then, in order of start.
  [[nodiscard]] std::vector<int> advance();

 private:
  struct Task {
    int key;
    Cost cost;
    double left;  // picoseconds, if it ran alone
    double rate = 1;
  };
  void share();

  std::vector<Task> tasks_;
  Picoseconds now_ = 0;
};

}  // namespace spillway::sim
