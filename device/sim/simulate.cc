#include "device/sim/simulate.h"

#include <algorithm>
#include <array>

#include "device/sim/fluid.h"

namespace spillway::sim {
namespace {

class Simulator {
 public:
  Simulator(const Schedule& schedule, const Hardware& hardware, const Mesh& mesh)
      : schedule_(schedule), costs_(hardware, mesh, schedule), begin_(schedule.instrs.size()),
        end_(schedule.instrs.size(), kNotYet) {
    for (size_t i = 0; i < schedule.instrs.size(); ++i) {
      streams_[static_cast<size_t>(schedule.instrs[i].stream)].queue.push_back(static_cast<int>(i));
    }
  }

  std::vector<InstrTiming> run() {
    for (;;) {
      start_what_can();
      if (fluid_.idle()) break;
      for (int instr : fluid_.advance()) finish(instr);
    }
    return timings();
  }

 private:
  static constexpr Picoseconds kNotYet = -1;

  struct StreamState {
    std::vector<int> queue;
    size_t next = 0;
    bool busy = false;
    Picoseconds free_at = 0;
  };

  // Instructions that cost nothing end at once and may let others start: until nothing changes.
  void start_what_can() {
    for (bool changed = true; changed;) {
      changed = false;
      for (StreamState& stream : streams_) {
        while (!stream.busy && stream.next < stream.queue.size() &&
               ready(stream.queue[stream.next])) {
          start(stream, stream.queue[stream.next++]);
          changed = true;
        }
      }
    }
  }

  [[nodiscard]] bool ready(int instr) const {
    return std::ranges::all_of(schedule_.instrs[instr].waits,
                               [&](int wait) { return end_[wait] != kNotYet; });
  }

  void start(StreamState& stream, int instr) {
    begin_[instr] = {fluid_.now(), fluid_.now() - stream.free_at};
    const Cost cost = costs_(schedule_.instrs[instr]);
    if (to_picoseconds(cost.seconds) <= 0) {
      end_[instr] = stream.free_at = fluid_.now();
      return;
    }
    stream.busy = true;
    fluid_.start(instr, cost);
  }

  void finish(int instr) {
    StreamState& stream = streams_[static_cast<size_t>(schedule_.instrs[instr].stream)];
    stream.busy = false;
    end_[instr] = stream.free_at = fluid_.now();
  }

  [[nodiscard]] std::vector<InstrTiming> timings() const {
    std::vector<InstrTiming> result;
    for (size_t i = 0; i < end_.size(); ++i) {
      result.push_back({.begin_ns = begin_[i].at / 1000, .end_ns = end_[i] / 1000,
                        .wait_ns = begin_[i].waited / 1000});
    }
    return result;
  }

  struct Begin {
    Picoseconds at = 0, waited = 0;
  };

  const Schedule& schedule_;
  OpCosts costs_;
  Fluid fluid_;
  std::array<StreamState, kStreamCount> streams_;
  std::vector<Begin> begin_;
  std::vector<Picoseconds> end_;  // by instruction
};

// What the cpu device counts: an instruction touches its buffers, a kFree touches none.
MemoryUse replay_memory(const Schedule& schedule, const MemoryPlan& plan) {
  MemoryUse use;
  for (const Instr& instr : schedule.instrs) {
    if (instr.op.kind == OpKind::kFree) continue;
    for (const Access& access : accesses(instr)) {
      const Buffer& buffer = schedule.buffers[static_cast<size_t>(access.buffer)];
      int64_t& high = buffer.space == Space::kHbm ? use.hbm_high_water : use.host_high_water;
      high = std::max(high, plan.offset[static_cast<size_t>(access.buffer)] + buffer.bytes());
    }
  }
  return use;
}

}  // namespace

Simulation simulate(const Schedule& schedule, const MemoryPlan& plan, const Hardware& hardware,
                    const Mesh& mesh) {
  Simulation result{.timings = Simulator(schedule, hardware, mesh).run(),
                    .memory = replay_memory(schedule, plan)};
  for (const InstrTiming& timing : result.timings) {
    result.seconds = std::max(result.seconds, static_cast<double>(timing.end_ns) * 1e-9);
  }
  return result;
}

}  // namespace spillway::sim
