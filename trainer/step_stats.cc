#include "trainer/step_stats.h"

#include <algorithm>

#include "trainer/report/step_report.h"

namespace spillway {

double StepStats::overlap_fraction() const {
  const double copied = copy_seconds_d2h + copy_seconds_h2d;
  return copied > 0 ? std::max(0.0, 1 - exposed_seconds / copied) : 1;
}

StepStats step_stats(const Schedule& schedule, std::span<const InstrTiming> timings) {
  const StepParts parts = step_parts(schedule, timings);
  const std::array<EngineTime, kEngineCount> engines = engine_times(schedule, timings);
  const auto busy = [&](Engine engine) { return engines[static_cast<size_t>(engine)].busy; };
  return {.copy_seconds_d2h = busy(Engine::kD2h),
          .copy_seconds_h2d = busy(Engine::kH2d),
          .exposed_seconds = parts.copies,
          .collective_seconds = busy(Engine::kCollective),
          .exposed_collective_seconds = parts.collectives};
}

}  // namespace spillway
