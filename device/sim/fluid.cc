#include "device/sim/fluid.h"

#include <algorithm>
#include <cmath>

namespace spillway::sim {

Picoseconds to_picoseconds(double seconds) {
  return static_cast<Picoseconds>(std::llround(seconds * 1e12));
}

void Fluid::start(int key, const Cost& cost) {
  tasks_.push_back({.key = key, .cost = cost, .left = std::round(cost.seconds * 1e12)});
}

// A kernel that computes takes whatever multiprocessors collectives leave it. Of everything else each
// task gets its share, or, where shares add up to more than one, that part of it which makes them one.
void Fluid::share() {
  std::array<double, kResourceCount> wanted = {};
  for (const Task& task : tasks_) {
    for (int r = 0; r < kResourceCount; ++r) wanted[r] += task.cost.share[r];
  }
  const auto processors = static_cast<size_t>(Resource::kMultiprocessors);
  for (Task& task : tasks_) {
    const double mine = task.cost.share[processors];
    task.rate = mine == 1 ? std::max(0.05, 2 - wanted[processors]) : 1;
    for (size_t r = 0; r < kResourceCount; ++r) {
      if (r == processors || task.cost.share[r] == 0 || wanted[r] <= 1) continue;
      task.rate = std::min(task.rate, 1 / wanted[r]);
    }
  }
}

std::vector<int> Fluid::advance() {
  share();
  double step = tasks_.empty() ? 0 : tasks_[0].left / tasks_[0].rate;
  for (const Task& task : tasks_) step = std::min(step, task.left / task.rate);
  const double whole = std::ceil(step);
  now_ += static_cast<Picoseconds>(whole);
  std::vector<int> ended;
  for (Task& task : tasks_) {
    task.left -= whole * task.rate;
    if (task.left <= 0) ended.push_back(task.key);
  }
  std::erase_if(tasks_, [](const Task& task) { return task.left <= 0; });
  return ended;
}

}  // namespace spillway::sim
