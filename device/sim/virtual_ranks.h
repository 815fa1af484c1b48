// The streams of a Schedule's ranks in virtual time: one rank of each class, each with a GPU of its own.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "device/device.h"
#include "device/sim/fluid.h"
#include "device/sim/op_cost.h"

namespace spillway::sim {

// What a stream is told to do, in order.
struct Command {
  enum class Kind : uint8_t { kLaunch, kRecord, kWait } kind = Kind::kLaunch;
  int instr = 0;
};

// All ranks are told the same. A launched instruction starts when its stream is free, and what runs at
// once on a rank shares its GPU (fluid.h). A collective starts everywhere when the last class has come to
// it, and ends everywhere when the last has done its part.
class VirtualRanks {
 public:
  // `costs`: of every instruction, by class. A collective lasts as long as where it lasts longest.
  VirtualRanks(const Schedule& schedule, std::vector<std::vector<Cost>> costs);

  void begin();  // a run, at time 0
  void push(Stream stream, const Command& command);
  // Until all streams have done what they were told. Throws DeviceError when one waits for an event that
  // nothing records.
  void run();

  [[nodiscard]] std::span<const InstrTiming> timings() const { return timings_; }  // first class
  // Seconds of this run so far, by class.
  [[nodiscard]] double compute_seconds(size_t of_class) const;          // kernels that compute ran
  [[nodiscard]] double collective_wait_seconds(size_t of_class) const;  // came early to collectives

 private:
  static constexpr Picoseconds kNotYet = -1;
  struct StreamState {
    size_t next = 0;  // in the queue
    bool busy = false, arrived = false;  // arrived: at a collective, where it waits for others
    Picoseconds began = 0, arrived_at = 0, free_at = 0;
  };
  struct Rank {
    explicit Rank(size_t instrs) : fluid(kStreamCount), event(instrs) {}
    Fluid fluid;
    std::array<StreamState, kStreamCount> streams = {};
    std::vector<Picoseconds> event;  // by instruction: when it was recorded
    Picoseconds computed = 0, waited = 0;
    bool stirred = false;  // something may start here
  };

  void equalize_collectives();
  void start_what_can();
  bool start_on(Rank& rank, size_t stream);
  bool launch(Rank& rank, size_t stream, int instr);
  void start(Rank& rank, size_t stream, int instr);
  void finish(Rank& rank, int instr);
  void end(Rank& rank, size_t stream, int instr);
  void check_all_done() const;
  [[nodiscard]] size_t index(const Rank& rank) const {
    return static_cast<size_t>(&rank - ranks_.data());
  }
  [[nodiscard]] bool together(int instr) const {
    return is_collective(schedule_.instrs[static_cast<size_t>(instr)].op.kind);
  }

  const Schedule& schedule_;
  std::vector<std::vector<Cost>> costs_;
  std::vector<Rank> ranks_;  // one a class
  std::array<std::vector<Command>, kStreamCount> queues_;
  std::array<size_t, kStreamCount> arrived_ = {}, running_ = {};  // ranks at a stream's collective
  std::vector<InstrTiming> timings_;
  Picoseconds now_ = 0;
};

}  // namespace spillway::sim
