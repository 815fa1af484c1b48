#include "trainer/report/step_report.h"

#include <algorithm>

#include "trainer/report/layer_window.h"
#include "trainer/report/memory_line.h"

namespace spillway {
namespace {

struct Interval {
  int64_t begin, end;  // ns
};
using Intervals = std::vector<Interval>;  // apart, in order of time

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// Two streams may run collectives at once: what meets is one interval.
Intervals merged(Intervals intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin);
  Intervals result;
  for (const Interval& next : intervals) {
    if (!result.empty() && next.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, next.end);
    } else {
      result.push_back(next);
    }
  }
  return result;
}

int64_t total(const Intervals& intervals) {
  int64_t ns = 0;
  for (const Interval& interval : intervals) ns += interval.end - interval.begin;
  return ns;
}

int64_t overlap(const Intervals& a, const Intervals& b) {
  int64_t ns = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    ns += std::max<int64_t>(0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    ++(a[i].end < b[j].end ? i : j);
  }
  return ns;
}

std::array<Intervals, kEngineCount> busy_intervals(const Schedule& schedule,
                                                   std::span<const InstrTiming> timings) {
  std::array<Intervals, kEngineCount> busy;
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    if (timings[i].end_ns <= timings[i].begin_ns) continue;
    const auto engine = static_cast<size_t>(engine_of(schedule, schedule.instrs[i]));
    busy[engine].push_back({timings[i].begin_ns, timings[i].end_ns});
  }
  for (Intervals& intervals : busy) intervals = merged(std::move(intervals));
  return busy;
}

// StepParts in nanoseconds, so that they add up exactly.
struct PartsNs {
  int64_t model = 0, recompute = 0, copies = 0, collectives = 0, other = 0;

  int64_t& of(Engine engine) {
    return engine == Engine::kCompute      ? model
           : engine == Engine::kCollective ? collectives
                                           : copies;
  }
};

// A wait is for whatever ended last of what the instruction waits for.
int64_t& waited_for(PartsNs& parts, const Schedule& schedule, const Instr& instr,
                    std::span<const InstrTiming> timings) {
  int last = -1;
  for (int wait : instr.waits) {
    if (last < 0 || timings[wait].end_ns > timings[last].end_ns) last = wait;
  }
  const Engine engine = last < 0 ? Engine::kCompute : engine_of(schedule, schedule.instrs[last]);
  return engine == Engine::kCompute ? parts.other : parts.of(engine);
}

}  // namespace

std::string_view name_of(Engine engine) {
  switch (engine) {
    case Engine::kCompute:
      return "compute";
    case Engine::kD2h:
      return "d2h";
    case Engine::kH2d:
      return "h2d";
    case Engine::kCollective:
      return "collectives";
  }
  return "?";
}

Engine engine_of(const Schedule& schedule, const Instr& instr) {
  if (is_collective(instr.op.kind)) return Engine::kCollective;
  if (is_copy_to_host(schedule, instr)) return Engine::kD2h;
  if (is_copy_to_device(schedule, instr)) return Engine::kH2d;
  return Engine::kCompute;
}

StepParts step_parts(const Schedule& schedule, std::span<const InstrTiming> timings) {
  PartsNs parts;
  int64_t now = 0, end = 0;  // what the compute stream has lived through; the end of the step
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    const Instr& instr = schedule.instrs[i];
    const InstrTiming& timing = timings[i];
    end = std::max(end, timing.end_ns);
    if (instr.stream != Stream::kCompute) continue;
    const int64_t idle = std::max<int64_t>(0, timing.begin_ns - now);
    const int64_t waited = std::min(idle, timing.wait_ns);
    waited_for(parts, schedule, instr, timings) += waited;
    parts.other += idle - waited;  // launches that came late
    const Engine engine = engine_of(schedule, instr);
    const bool again = engine == Engine::kCompute && instr.op.recompute;
    const int64_t done = std::max(timing.end_ns, now + idle);
    (again ? parts.recompute : parts.of(engine)) += done - (now + idle);
    now = done;
  }
  parts.other += std::max<int64_t>(0, end - now);
  return {.model = seconds(parts.model),
          .recompute = seconds(parts.recompute),
          .copies = seconds(parts.copies),
          .collectives = seconds(parts.collectives),
          .other = seconds(parts.other)};
}

std::array<EngineTime, kEngineCount> engine_times(const Schedule& schedule,
                                                  std::span<const InstrTiming> timings) {
  const std::array<Intervals, kEngineCount> busy = busy_intervals(schedule, timings);
  const Intervals& compute = busy[static_cast<size_t>(Engine::kCompute)];
  std::array<EngineTime, kEngineCount> times;
  for (size_t i = 0; i < times.size(); ++i) {
    const int64_t all = total(busy[i]), hidden = overlap(busy[i], compute);
    times[i] = {seconds(all), seconds(hidden), seconds(all - hidden)};
  }
  return times;
}

StepReport step_report(const Schedule& schedule, const MemoryPlan& plan,
                       std::span<const InstrTiming> timings) {
  StepReport report;
  report.parts = step_parts(schedule, timings);
  report.engines = engine_times(schedule, timings);
  report.memory = memory_line(schedule, timings);
  report.forward = layer_window(schedule, timings, Phase::kForward);
  report.backward = layer_window(schedule, timings, Phase::kBackward);
  report.hbm.peak = plan.hbm.bytes;
  report.host.peak = plan.host.bytes;
  report.hbm.at_peak = live_by_name(schedule, plan, Space::kHbm);
  report.host.at_peak = live_by_name(schedule, plan, Space::kHost);
  return report;
}

}  // namespace spillway
