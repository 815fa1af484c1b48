// Times of components on a device, each measured by itself.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "trainer/component.h"

namespace spillway {

class ComponentBench {
 public:
  // Makes the device and allocates arenas of at most `arena_bytes` each, within the capacities.
  ComponentBench(const DeviceOptions& options, int64_t arena_bytes, const Communicator& communicator = {});

  [[nodiscard]] bool fits(const Component& component) const;

  // Of one of many repetitions behind one another, without what lies between them: the median. They take
  // turns with buffers of `working_set` bytes together, as a step comes back to its values. When others
  // on the machine disturb a run, so that its median is far above its lower quartile, there is another,
  // and after a few the least of the lower quartiles counts. With a communicator there are always as
  // many runs, since ranks call this together.
  [[nodiscard]] double seconds(const Component& component, int64_t working_set);

  // Plans and runs a Schedule of persistent buffers twice, with values between 1/4 and 1 and usual
  // integers, and gives the times of the second run. What it waits for is derived (insert_sync).
  [[nodiscard]] std::vector<InstrTiming> run(Schedule schedule);

 private:
  void write_inputs(const Schedule& schedule, const MemoryPlan& plan);

  std::unique_ptr<Device> device_;
  bool alone_;  // no other rank takes part
  ArenaSizes arenas_;
  std::vector<std::byte> pattern_;
};

// The value that `part` of at least one are below: 0.5 is the median.
[[nodiscard]] double quantile(std::vector<double> values, double part);

// How streams of a device start and disturb one another. Seconds, bytes/s, and a fraction.
struct StreamTimes {
  double launch = 0;  // between the ends and beginnings of instructions behind one another
  double wait = 0;    // more, when the one before is on another stream
  double d2h_bytes_per_s = 0, h2d_bytes_per_s = 0;
  double copy_share = 0;  // of the speed of compute that a copy takes while it runs
};
[[nodiscard]] StreamTimes stream_times(ComponentBench& bench);

}  // namespace spillway
