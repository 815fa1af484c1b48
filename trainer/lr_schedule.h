// The learning rate as a pure function of the step.
#pragma once

#include <cstdint>

namespace spillway {

enum class LrKind : uint8_t {
  kConstant,
  kLinear,  // straight from the peak to the floor
  kCosine,  // half a cosine from the peak to the floor
  kWsd,     // warm-up, stable, decay: at the peak until `decay_steps` before the end, then straight
};

struct LrSchedule {
  LrKind kind = LrKind::kCosine;
  double learning_rate = 3e-4;  // the peak
  int64_t warmup_steps = 0;     // the rate climbs in equal steps and is at the peak in the last one
  int64_t decay_steps = 0;      // kWsd only
  double min_ratio = 0.1;       // floor / peak
};

// Step counts from 0, total is at least 1. The first step's rate is above 0. Kinds that decay reach
// the floor in step total - 1 and stay there; a warm-up as long as the run is shortened to leave
// that last step. A run of one step whose floor is 0 trains at the peak.
[[nodiscard]] double learning_rate(const LrSchedule& schedule, int64_t step, int64_t total);

}  // namespace spillway
