// The cpu device: runs a Schedule with a thread a stream, in two arenas of configured size that
// stand for HBM and pinned host memory.
#pragma once

#include <array>
#include <memory>

#include "device/cpu/cpu_schedule.h"
#include "device/cpu/stream.h"
#include "device/device.h"

namespace spillway::cpu {

class CpuDevice final : public Device {
 public:
  CpuDevice(const DeviceOptions& options, const Communicator& communicator)
      : state_(options, communicator) {}
  ~CpuDevice() override { drain(); }

  [[nodiscard]] std::string name() const override { return "cpu"; }
  [[nodiscard]] int64_t hbm_capacity() const override { return state_.options.hbm_bytes; }
  [[nodiscard]] int64_t host_capacity() const override { return state_.options.host_bytes; }

  [[nodiscard]] std::string unsupported(const Schedule& schedule,
                                        const Instr& instr) const override;
  void allocate(const ArenaSizes& sizes) override;
  [[nodiscard]] std::unique_ptr<LoadedSchedule> load(const Schedule& schedule,
                                                     const MemoryPlan& plan) override;

  void begin(LoadedSchedule& loaded) override;
  void launch(LoadedSchedule& loaded, int instr) override;
  void record(LoadedSchedule& loaded, int instr) override;
  void wait(LoadedSchedule& loaded, Stream stream, int instr) override;
  void synchronize(LoadedSchedule& loaded) override;

  void write(Space space, int64_t offset, std::span<const std::byte> data) override;
  void read(Space space, int64_t offset, std::span<std::byte> data) const override;

  [[nodiscard]] std::span<const InstrTiming> timings(const LoadedSchedule& loaded) const override;
  [[nodiscard]] MemoryUse memory_use() const override;

 private:
  [[nodiscard]] StreamThread& stream(Stream which) {
    return *streams_[static_cast<size_t>(which)];
  }
  void start_streams(const Schedule& schedule);
  void drain();

  DeviceState state_;
  int64_t runs_ = 0;
  std::array<std::unique_ptr<StreamThread>, kStreamCount> streams_;  // those Schedules use
};

}  // namespace spillway::cpu
