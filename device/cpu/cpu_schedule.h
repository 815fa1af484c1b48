// A Schedule bound to the cpu device: a kernel with its addresses for every instruction.
#pragma once

#include <array>
#include <vector>

#include "device/cpu/arena.h"
#include "device/cpu/first_error.h"
#include "device/cpu/jitter.h"
#include "device/cpu/kernel.h"
#include "device/cpu/stream.h"
#include "device/device.h"

namespace spillway::cpu {

// What the Schedules of a device share.
struct DeviceState {
  DeviceState(const DeviceOptions& with, const Communicator& ranks);
  [[nodiscard]] Arena& arena(Space space) { return space == Space::kHbm ? hbm : host; }

  DeviceOptions options;  // threads: resolved
  Communicator communicator;
  Arena hbm{Space::kHbm}, host{Space::kHost};
  std::array<Scratch, kStreamCount> scratch;  // a stream runs one kernel at a time
  std::array<Jitter, kStreamCount> jitter;    // each used by its stream's thread only
  FirstError error;
};

class CpuSchedule final : public LoadedSchedule, public Runner {
 public:
  // Binds every instruction. All three must outlive this. The device's streams must be idle.
  CpuSchedule(DeviceState& device, const Schedule& schedule, const MemoryPlan& plan);

  // Starts the clock of a run. `first_event`: no event of an earlier run is as large.
  void begin(int64_t first_event);
  [[nodiscard]] int64_t event(int instr) const { return first_event_ + instr; }
  void run_instruction(int instr, int64_t waited_ns) noexcept override;

  [[nodiscard]] const Schedule& schedule() const { return schedule_; }
  [[nodiscard]] std::span<const InstrTiming> timings() const { return timings_; }

 private:
  struct Bound {
    Kernel kernel;
    int64_t hbm_end = 0, host_end = 0;  // the highest bytes it uses
  };

  [[nodiscard]] Bound bind_instruction(const Instr& instr, const MemoryPlan& plan);
  [[nodiscard]] double least_seconds(const Instr& instr) const;
  void run(int instr);
  // Whether it is the run's first.
  [[nodiscard]] bool keep_error(const Instr& instr, const std::string& why);

  DeviceState& device_;
  const Schedule& schedule_;
  std::vector<Bound> bound_;
  std::vector<InstrTiming> timings_;
  int64_t begin_ns_ = 0, first_event_ = 0;
};

// The op of an instruction without addresses, to ask whether there is a kernel for it.
[[nodiscard]] BoundOp unbound(const DeviceState& device, const Schedule& schedule,
                              const Instr& instr);

}  // namespace spillway::cpu
