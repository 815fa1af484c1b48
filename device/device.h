// The device interface: about a dozen methods. Above it nothing knows which device runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/group.h"
#include "program/plan.h"
#include "program/schedule.h"

namespace spillway {

// Arenas a device gives out once, before the first step. Bytes.
struct ArenaSizes {
  int64_t hbm = 0, host = 0;
};

// A Schedule bound to a device: kernels chosen, addresses resolved. Owned by the caller; must not
// outlive its Device.
class LoadedSchedule {
 public:
  virtual ~LoadedSchedule() = default;
};

// When instructions of the last run ran, in nanoseconds since its start. wait_ns: how long the
// instruction's stream stood still for its waits before begin_ns.
struct InstrTiming {
  int64_t begin_ns = 0, end_ns = 0, wait_ns = 0;
};

struct MemoryUse {
  int64_t hbm_high_water = 0, host_high_water = 0;  // highest arena byte an instruction touched
  int64_t scratch_bytes = 0;  // beside the plan: kernel and library workspaces, allocated in load()
};

class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual std::string name() const = 0;  // "cpu", ...
  // Capacities in bytes, for plans and messages. Allocates nothing.
  [[nodiscard]] virtual int64_t hbm_capacity() const = 0;
  [[nodiscard]] virtual int64_t host_capacity() const = 0;

  // Empty, or why the device cannot run this instruction. Asked of every instruction before step 0.
  [[nodiscard]] virtual std::string unsupported(const Schedule& schedule,
                                                const Instr& instr) const = 0;
  // Allocates both arenas, once. Contents are undefined (poisoned in debug builds).
  virtual void allocate(const ArenaSizes& sizes) = 0;
  // Chooses kernels and resolves addresses. The Schedule and plan must outlive the result.
  [[nodiscard]] virtual std::unique_ptr<LoadedSchedule> load(const Schedule& schedule,
                                                             const MemoryPlan& plan) = 0;

  // The executor's four calls. Enqueue only: they return at once and allocate nothing.
  virtual void begin(LoadedSchedule& loaded) = 0;
  virtual void launch(LoadedSchedule& loaded, int instr) = 0;             // on its own stream
  virtual void record(LoadedSchedule& loaded, int instr) = 0;             // event after `instr`
  virtual void wait(LoadedSchedule& loaded, Stream stream, int instr) = 0;  // for that event
  // Blocks until all streams are idle. Throws DeviceError with the first error of the run.
  virtual void synchronize(LoadedSchedule& loaded) = 0;

  // Host access to the arenas, between runs only.
  virtual void write(Space space, int64_t offset, std::span<const std::byte> data) = 0;
  virtual void read(Space space, int64_t offset, std::span<std::byte> data) const = 0;

  [[nodiscard]] virtual std::span<const InstrTiming> timings(const LoadedSchedule& loaded) const = 0;
  [[nodiscard]] virtual MemoryUse memory_use() const = 0;
};

// What a device is asked to be; from the `device:` section of a config.
struct DeviceOptions {
  std::string kind = "cpu";
  int64_t hbm_bytes = int64_t{4} << 30;
  int64_t host_bytes = int64_t{8} << 30;
  double link_gb_per_s = 0;   // host link, each direction, 1e9 bytes; 0: as fast as memory allows
  double comm_gb_per_s = 0;   // what a rank sends to others, 1e9 bytes; 0: as fast as memory allows
  double peak_tflops = 0;     // 0: unknown, MFU is not reported
  double hbm_gb_per_s = 0;    // 0: unknown
  int threads = 0;            // compute threads; 0: all cores
  uint64_t jitter_seed = 0;   // != 0: a random delay before every instruction
  bool poison = false;        // fill freed buffers with NaN bytes
};

// Throws ConfigError naming the devices there are. Without a world, collectives are unsupported.
[[nodiscard]] std::unique_ptr<Device> make_device(const DeviceOptions& options,
                                                  const Communicator& communicator = {});

}  // namespace spillway
