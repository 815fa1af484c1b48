#include "trainer/step_stats.h"

#include <algorithm>

namespace spillway {

double StepStats::overlap_fraction() const {
  const double copied = copy_seconds_d2h + copy_seconds_h2d;
  return copied > 0 ? std::max(0.0, 1 - exposed_seconds / copied) : 1;
}

namespace {

// A wait is for whatever ended last of what the instruction waits for.
bool waited_for_collective(const Schedule& schedule, const Instr& instr,
                           std::span<const InstrTiming> timings) {
  int last = -1;
  for (int wait : instr.waits) {
    if (last < 0 || timings[wait].end_ns > timings[last].end_ns) last = wait;
  }
  return last >= 0 && is_collective(schedule.instrs[last].op.kind);
}

}  // namespace

StepStats step_stats(const Schedule& schedule, std::span<const InstrTiming> timings) {
  StepStats stats;
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    const Instr& instr = schedule.instrs[i];
    const InstrTiming& timing = timings[i];
    const double seconds = static_cast<double>(timing.end_ns - timing.begin_ns) * 1e-9;
    const bool out = is_copy_to_host(schedule, instr), back = is_copy_to_device(schedule, instr);
    if (out) stats.copy_seconds_d2h += seconds;
    if (back) stats.copy_seconds_h2d += seconds;
    const bool collective = is_collective(instr.op.kind);
    if (collective) stats.collective_seconds += seconds;
    if (instr.stream != Stream::kCompute) continue;
    double& exposed = waited_for_collective(schedule, instr, timings)
                          ? stats.exposed_collective_seconds
                          : stats.exposed_seconds;
    exposed += static_cast<double>(timing.wait_ns) * 1e-9;
    if (out || back) stats.exposed_seconds += seconds;
    if (collective) stats.exposed_collective_seconds += seconds;
  }
  return stats;
}

}  // namespace spillway
