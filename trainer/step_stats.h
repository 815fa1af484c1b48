// What a run of a Schedule cost, from its instruction timings. The trace shows the same events.
#pragma once

#include <span>

#include "device/device.h"
#include "program/schedule.h"

namespace spillway {

struct StepStats {
  double copy_seconds_d2h = 0, copy_seconds_h2d = 0;  // channels busy
  // Compute standing still for copies: its waits, and copies that it runs itself (naive offload).
  double exposed_seconds = 0;
  // The same of collectives; they include waiting for ranks that come later.
  double collective_seconds = 0, exposed_collective_seconds = 0;

  // The share of copy time that compute covered; 1 when nothing was copied.
  [[nodiscard]] double overlap_fraction() const;
};

[[nodiscard]] StepStats step_stats(const Schedule& schedule, std::span<const InstrTiming> timings);

}  // namespace spillway
