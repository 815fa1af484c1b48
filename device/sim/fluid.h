// Tasks that share resources like fluids: while running tasks want more of one than there is, they slow
// down.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "device/sim/op_cost.h"

namespace spillway::sim {

// Virtual time in picoseconds: 64 bits last 106 days.
using Picoseconds = int64_t;
inline constexpr Picoseconds kNever = std::numeric_limits<Picoseconds>::max();
[[nodiscard]] Picoseconds to_picoseconds(double seconds);

// What tasks take of a resource is their shares times their rates, never more than there is. One that is
// short is divided fairly: who wants less than an equal part gets what it wants, and does not slow down.
class Fluid {
 public:
  explicit Fluid(size_t tasks);  // as many at once; no more is allocated

  void reset();  // no tasks, time 0
  // Starts a task now; `key` comes back when it ends.
  void start(int key, const Cost& cost);
  [[nodiscard]] Picoseconds now() const { return now_; }
  [[nodiscard]] Picoseconds next_end();  // kNever: nothing runs
  // Goes on to `time`, next_end() at the latest, and returns the keys of what ends then, in order of
  // start. Valid until the next call.
  std::span<const int> advance_to(Picoseconds time);

  // What running tasks take of a resource now: 1 is all of it.
  [[nodiscard]] double taken(Resource resource);

 private:
  struct Task {
    int key;
    Cost cost;
    double left;  // picoseconds, if it ran alone
    double rate = 1;
  };
  [[nodiscard]] double processors_rate(const Task& task) const;
  void share();

  std::vector<Task> tasks_;
  std::vector<double> wanted_;  // for share()
  std::vector<int> ended_;
  Picoseconds now_ = 0, next_end_ = kNever;
  bool shared_ = true;  // rates and next_end_ are those of tasks_
};

}  // namespace spillway::sim
