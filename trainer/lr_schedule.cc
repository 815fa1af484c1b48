#include "trainer/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace spillway {

double learning_rate(const LrSchedule& schedule, int64_t step, int64_t total) {
  const double peak = schedule.learning_rate;
  const double floor = peak * schedule.min_ratio;
  const bool decays = schedule.kind != LrKind::kConstant;
  const int64_t last = total - 1;
  if (decays && total == 1) return floor > 0 ? floor : peak;

  const int64_t warmup = decays ? std::min(schedule.warmup_steps, last) : schedule.warmup_steps;
  if (step < warmup) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  }
  if (!decays) return peak;

  // The last step at the peak; before `last`, so the division below is by 1 or more.
  int64_t top = std::max<int64_t>(warmup - 1, 0);
  if (schedule.kind == LrKind::kWsd) {
    top = std::max(top, last - std::max<int64_t>(schedule.decay_steps, 1));
  }
  const double progress =
      std::clamp(static_cast<double>(step - top) / static_cast<double>(last - top), 0.0, 1.0);
  const double share = schedule.kind == LrKind::kCosine
                           ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress))
                           : 1.0 - progress;
  return floor + (peak - floor) * share;
}

}  // namespace spillway
