// Walks a Schedule on a Device. Knows no op and no vendor.
#pragma once

#include <functional>
#include <memory>

#include "device/device.h"
#include "program/plan.h"
#include "program/schedule.h"

namespace spillway {

class Executor {
 public:
  // Asks device.unsupported() of every instruction, then loads. Throws ConfigError naming what the
  // device cannot run. All three must outlive the executor. Arenas must be allocated.
  Executor(Device& device, const Schedule& schedule, const MemoryPlan& plan);

  // One run: enqueues every instruction in issue order and blocks until done. Allocates nothing.
  // Throws DeviceError naming the instruction that failed first.
  void run();

  // One run, one instruction at a time, with the device idle after each: `visit` may read what the
  // instruction wrote, and ends the run by returning false.
  void watch(const std::function<bool(int instr)>& visit);

  // Such a run, to its end, since other ranks may run along: slot and text of the first instruction with
  // an output value that is not finite; "" when all are.
  struct Finding {
    int instr = 0;
    std::string where;
  };
  [[nodiscard]] Finding find_non_finite();

  [[nodiscard]] std::span<const InstrTiming> timings() const { return device_.timings(*loaded_); }

 private:
  Device& device_;
  const Schedule& schedule_;
  const MemoryPlan& plan_;
  std::vector<bool> recorded_;  // some instruction waits for this one
  std::unique_ptr<LoadedSchedule> loaded_;
};

}  // namespace spillway
