// The memory plan: a fixed offset for every buffer, and the peak by name, before step 0.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "program/schedule.h"

namespace spillway {

inline constexpr int64_t kAlignment = 256;  // bytes; what cuBLASLt and vector loads ask for

struct SpacePlan {
  int64_t bytes = 0;       // size of the arena: the highest planned byte. This is "the peak".
  int64_t live_bytes = 0;  // most bytes live at once in issue order; bytes - live_bytes is lost to gaps
  int peak_instr = 0;      // where live_bytes occurs
  std::array<int64_t, kMemoryClassCount> live_by_class = {};  // at the peak
};

struct MemoryPlan {
  std::vector<int64_t> offset;  // per buffer, in its space's arena
  SpacePlan hbm, host;

  [[nodiscard]] const SpacePlan& of(Space space) const {
    return space == Space::kHbm ? hbm : host;
  }
};

// The stretch of issue order over which a buffer's bytes are its own: [first, last].
struct Lifetime {
  int first = -1, last = -1;  // -1, -1: never used
};
[[nodiscard]] std::vector<Lifetime> lifetimes(const Schedule& schedule);

// Places every buffer. Persistent buffers come first, in order, so that Schedules which share a
// persistent list share their offsets. Buffers whose lifetimes do not meet may share bytes.
[[nodiscard]] MemoryPlan plan_memory(const Schedule& schedule);

// The buffers live at a space's peak, largest first.
struct PeakEntry {
  TensorId buffer;
  int64_t bytes;
};
[[nodiscard]] std::vector<PeakEntry> live_at_peak(const Schedule& schedule, const MemoryPlan& plan,
                                                  Space space);

// The same, summed by activation name, or by memory class for what has none. Largest first.
struct MemorySum {
  std::string name;
  int64_t bytes;
  int buffers;
};
[[nodiscard]] std::vector<MemorySum> live_by_name(const Schedule& schedule, const MemoryPlan& plan,
                                                  Space space);

// Throws OutOfMemory naming the peak's largest tensors, the bytes needed and available, and what
// would help. `device` names the hardware in the message. Capacities in bytes.
void check_fits(const Schedule& schedule, const MemoryPlan& plan, int64_t hbm_capacity,
                int64_t host_capacity, const std::string& device);

}  // namespace spillway
