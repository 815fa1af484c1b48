// The sim device: runs a Schedule in virtual time on a machine of a hardware file. It costs instructions
// and computes nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/sim/assumptions.h"
#include "device/sim/rank_class.h"
#include "device/sim/tables.h"

namespace spillway::sim {

struct SimOptions {
  Assumptions assumptions;
  bool allow_oversize = false;  // give out arenas that are larger than the capacity
};

// What ranks of a class did in a run. See rank_class.h.
struct ClassUse {
  int rank = 0;   // a rank of the class
  int ranks = 0;  // how many there are
  double compute_seconds = 0;          // kernels that compute ran
  double collective_wait_seconds = 0;  // stood at collectives until the last class came
};

class SimDevice final : public Device {
 public:
  // `mesh`: of the rank whose timings are asked for. `hardware` must outlive the device.
  SimDevice(const Hardware& hardware, const Mesh& mesh, const SimOptions& options = {})
      : hardware_(hardware), mesh_(mesh), options_(options), rates_(hardware) {}

  [[nodiscard]] std::string name() const override { return hardware_.name; }
  [[nodiscard]] int64_t hbm_capacity() const override;   // without what the hardware reserves
  [[nodiscard]] int64_t host_capacity() const override;  // a GPU's share of its socket's

  [[nodiscard]] std::string unsupported(const Schedule&, const Instr&) const override { return ""; }
  // Holds no memory. Throws OutOfMemory above a capacity, unless options.allow_oversize.
  void allocate(const ArenaSizes& sizes) override;
  // Costs every instruction. Throws ConfigError when the hardware's tables lack an operation.
  [[nodiscard]] std::unique_ptr<LoadedSchedule> load(const Schedule& schedule,
                                                     const MemoryPlan& plan) override;

  void begin(LoadedSchedule& loaded) override;
  void launch(LoadedSchedule& loaded, int instr) override;
  void record(LoadedSchedule& loaded, int instr) override;
  void wait(LoadedSchedule& loaded, Stream stream, int instr) override;
  void synchronize(LoadedSchedule& loaded) override;  // here time passes

  void write(Space space, int64_t offset, std::span<const std::byte> data) override;  // discards
  void read(Space space, int64_t offset, std::span<std::byte> data) const override;   // zeros

  [[nodiscard]] std::span<const InstrTiming> timings(const LoadedSchedule& loaded) const override;
  [[nodiscard]] MemoryUse memory_use() const override { return use_; }
  // Of a Schedule's last run; the class of the mesh's rank first.
  [[nodiscard]] std::span<const ClassUse> classes() const { return classes_; }

 private:
  void check_inside(Space space, int64_t offset, int64_t bytes) const;

  const Hardware& hardware_;
  Mesh mesh_;
  SimOptions options_;
  Rates rates_;
  ArenaSizes sizes_ = {};
  MemoryUse use_ = {};
  std::vector<ClassUse> classes_;
};

}  // namespace spillway::sim
