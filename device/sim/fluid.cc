#include "device/sim/fluid.h"

#include <algorithm>
#include <cmath>

namespace spillway::sim {
namespace {

constexpr auto kProcessors = static_cast<size_t>(Resource::kMultiprocessors);
constexpr double kLeast = 0.05;  // of the multiprocessors: what a kernel that computes keeps

// Who wants less than `level` of a resource gets it, the others get `level`: together all of it.
double fair_level(std::span<double> wanted) {
  std::ranges::sort(wanted);
  double left = 1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double level = left / static_cast<double>(wanted.size() - i);
    if (wanted[i] > level) return level;
    left -= wanted[i];
  }
  return 1;
}

}  // namespace

Picoseconds to_picoseconds(double seconds) {
  return static_cast<Picoseconds>(std::llround(seconds * 1e12));
}

Fluid::Fluid(size_t tasks) {
  tasks_.reserve(tasks);
  ended_.reserve(tasks);
  wanted_.reserve(tasks);
}

void Fluid::reset() {
  tasks_.clear();
  now_ = 0;
  shared_ = false;
}

void Fluid::start(int key, const Cost& cost) {
  tasks_.push_back({.key = key, .cost = cost, .left = std::round(cost.seconds * 1e12)});
  shared_ = false;
}

// A kernel that computes wants all multiprocessors and takes what copies and collectives leave it: they
// take `beside`.
double Fluid::processors_rate(const Task& task) const {
  double beside = 0, computing = 0;
  for (const Task& other : tasks_) {
    const double share = other.cost.share[kProcessors];
    (share < 1 ? beside : computing) += share;
  }
  const double most = computing > 0 ? 1 - kLeast : 1, mine = task.cost.share[kProcessors];
  if (mine == 0) return 1;
  return mine < 1 ? std::min(1.0, most / beside) : (1 - std::min(beside, most)) / computing;
}

// Everything else is divided fairly.
void Fluid::share() {
  if (shared_) return;
  shared_ = true;
  for (Task& task : tasks_) task.rate = processors_rate(task);
  for (size_t r = 0; r < kResourceCount; ++r) {
    if (r == kProcessors) continue;
    wanted_.clear();
    double sum = 0;
    for (const Task& task : tasks_) sum += wanted_.emplace_back(task.cost.share[r]);
    if (sum <= 1) continue;
    const double level = fair_level(wanted_);
    for (Task& task : tasks_) {
      if (task.cost.share[r] > level) task.rate = std::min(task.rate, level / task.cost.share[r]);
    }
  }
  double step = INFINITY;
  for (const Task& task : tasks_) step = std::min(step, task.left / task.rate);
  next_end_ = tasks_.empty() ? kNever : now_ + static_cast<Picoseconds>(std::ceil(step));
}

Picoseconds Fluid::next_end() {
  share();
  return next_end_;
}

std::span<const int> Fluid::advance_to(Picoseconds time) {
  share();
  const auto passed = static_cast<double>(time - now_);
  now_ = time;
  ended_.clear();
  for (Task& task : tasks_) task.left -= passed * task.rate;
  if (time < next_end_ || tasks_.empty()) return ended_;
  constexpr double kNothing = 0.5;  // ends are whole picoseconds
  for (const Task& task : tasks_) {
    if (task.left < kNothing) ended_.push_back(task.key);
  }
  std::erase_if(tasks_, [](const Task& task) { return task.left < kNothing; });
  shared_ = false;
  return ended_;
}

double Fluid::taken(Resource resource) {
  share();
  double sum = 0;
  for (const Task& task : tasks_) sum += task.cost.of(resource) * task.rate;
  return sum;
}

}  // namespace spillway::sim
