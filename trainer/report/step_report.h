// What one training step did with time and memory: everything that reports and plots of it show.
//
// Figures come from the Schedule, its plan and the timings of a run, simulated or measured. All lists
// are small (a thousand points), so that a table of many rows fits in memory without their Schedules.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "program/plan.h"
#include "program/schedule.h"

namespace spillway {

// What an instruction keeps busy. Copies and collectives that run on the compute stream (without
// latency hiding) still count as theirs.
enum class Engine : uint8_t { kCompute, kD2h, kH2d, kCollective };
inline constexpr int kEngineCount = 4;
[[nodiscard]] std::string_view name_of(Engine engine);  // "compute", "d2h", "h2d", "collectives"
[[nodiscard]] Engine engine_of(const Schedule& schedule, const Instr& instr);

// Seconds that an engine was busy; of these under compute, and not. hidden + exposed = busy. Compute
// hides itself.
struct EngineTime {
  double busy = 0, hidden = 0, exposed = 0;
};

// The step as the compute stream saw it: these add up to its seconds.
struct StepParts {
  double model = 0;        // ops of the model, the first time
  double recompute = 0;    // ops that remat repeats
  double copies = 0;       // copies that it ran itself, and standing still for copies
  double collectives = 0;  // the same of collectives
  double other = 0;        // standing still for anything else, the tail behind its last op included
};

struct SpaceReport {
  int64_t peak = 0;      // bytes of the plan, which is what a run takes
  int64_t capacity = 0;  // of one GPU, or of its share of a socket's host memory; what is reserved left out
  int64_t reserved = 0;  // outside the plan: context, libraries, collective buffers
  std::vector<MemorySum> at_peak;  // live there by name, largest first
  [[nodiscard]] bool fits() const { return peak <= capacity; }
};

struct MemoryPoint {  // bytes live at a moment
  double seconds;
  int64_t hbm, host;
};

struct Span {
  Engine engine;
  double begin, end;  // seconds since the step began
  std::string name;   // "linear query_proj"
};
// All instructions of a slot, and what other engines did meanwhile.
struct Window {
  std::string slot;  // "L30.fwd.m0"; empty: the model has no layer
  double begin = 0, end = 0;
  std::vector<Span> spans;
};

struct StepReport {
  bool simulated = true;
  int ranks = 1, gpus_per_socket = 1;
  double seconds = 0;
  double tflops_per_device = 0;  // model FLOPs
  double tokens_per_s_per_device = 0;
  StepParts parts;
  std::array<EngineTime, kEngineCount> engines;
  SpaceReport hbm, host;
  std::vector<MemoryPoint> memory;  // of the whole step
  Window forward, backward;         // of the middle layer, first micro-batch

  [[nodiscard]] bool fits() const { return hbm.fits() && host.fits(); }
  [[nodiscard]] int64_t host_per_socket() const { return host.peak * gpus_per_socket; }
};

[[nodiscard]] StepParts step_parts(const Schedule& schedule, std::span<const InstrTiming> timings);
[[nodiscard]] std::array<EngineTime, kEngineCount> engine_times(const Schedule& schedule,
                                                                std::span<const InstrTiming> timings);

// Fills engines, parts, memory, the windows, peaks and at_peak; the rest is the caller's.
[[nodiscard]] StepReport step_report(const Schedule& schedule, const MemoryPlan& plan,
                                     std::span<const InstrTiming> timings);

}  // namespace spillway
