// Proof of order: happens-before over all pairs of conflicting accesses.
#include <algorithm>
#include <array>

#include "program/error.h"
#include "program/text.h"
#include "program/verify.h"

namespace spillway {
namespace {

// Per stream: how many of its instructions are certain to be done.
using Clock = std::array<int, kStreamCount>;

class SyncProof {
 public:
  SyncProof(const Schedule& schedule, const MemoryPlan& plan)
      : schedule_(schedule), plan_(plan), touched_(schedule.buffers.size()),
        last_touch_(schedule.buffers.size(), {-1, -1, -1, -1}) {
    follow_waits();
    for (size_t i = 0; i < schedule.instrs.size(); ++i) {
      for (const Access& access : accesses(schedule.instrs[i])) {
        touched_[access.buffer].push_back({static_cast<int>(i), access.write});
        last_touch_[access.buffer][static_cast<size_t>(schedule.instrs[i].stream)] =
            static_cast<int>(i);
      }
    }
  }

  // Every pair of buffers that share bytes, each buffer with itself included.
  void check(Space space) const {
    struct Placed {
      int64_t begin, end;
      TensorId id;
    };
    std::vector<Placed> order;
    for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
      const Buffer& buffer = schedule_.buffers[i];
      if (buffer.space != space || touched_[i].empty()) continue;
      order.push_back({plan_.offset[i], plan_.offset[i] + buffer.bytes(), static_cast<TensorId>(i)});
    }
    std::ranges::sort(order, {}, &Placed::begin);
    for (size_t i = 0; i < order.size(); ++i) {
      check_touches(order[i].id, order[i].id);
      for (size_t j = i + 1; j < order.size() && order[j].begin < order[i].end; ++j) {
        if (!one_after_other(order[i].id, order[j].id)) check_touches(order[i].id, order[j].id);
      }
    }
  }

 private:
  struct Touch {
    int instr;
    bool write;
  };

  void follow_waits() {
    std::array<Clock, kStreamCount> next = {};
    Clock issued = {};
    for (size_t i = 0; i < schedule_.instrs.size(); ++i) {
      const auto stream = static_cast<size_t>(schedule_.instrs[i].stream);
      Clock& now = next[stream];
      for (int wait : schedule_.instrs[i].waits) {
        const auto other = static_cast<size_t>(schedule_.instrs[wait].stream);
        for (int k = 0; k < kStreamCount; ++k) now[k] = std::max(now[k], clock_[wait][k]);
        now[other] = std::max(now[other], position_[wait] + 1);
      }
      clock_.push_back(now);
      position_.push_back(issued[stream]++);
      now[stream] = issued[stream];
    }
  }

  // Whether everything that touches one of the two is done before the first touch of the other, a
  // write, which the other's own touches come after: so for most pairs four comparisons prove all.
  [[nodiscard]] bool one_after_other(TensorId x, TensorId y) const {
    if (touched_[x].front().instr > touched_[y].front().instr) std::swap(x, y);
    const Touch& next = touched_[y].front();
    return next.write && std::ranges::all_of(last_touch_[x], [&](int last) {
             return last < 0 || (last < next.instr && ordered(last, next.instr));
           });
  }

  void check_touches(TensorId x, TensorId y) const {
    for (const Touch& a : touched_[x]) {
      for (const Touch& b : touched_[y]) {
        const bool a_first = a.instr < b.instr;
        if (a.instr == b.instr || (!a.write && !b.write)) continue;
        if (!ordered(std::min(a.instr, b.instr), std::max(a.instr, b.instr))) {
          fail(a_first ? a.instr : b.instr, a_first ? x : y, a_first ? b.instr : a.instr,
               a_first ? y : x);
        }
      }
    }
  }

  [[nodiscard]] bool ordered(int first, int second) const {
    const Stream stream = schedule_.instrs[first].stream;
    return schedule_.instrs[second].stream == stream ||
           clock_[second][static_cast<size_t>(stream)] > position_[first];
  }

  [[noreturn]] void fail(int first, TensorId x, int second, TensorId y) const {
    throw VerifyError("not ordered: " + to_text(schedule_, schedule_.instrs[first]) + " (" +
                      schedule_.buffers[x].name + ") before " +
                      to_text(schedule_, schedule_.instrs[second]) + " (" +
                      schedule_.buffers[y].name + ")");
  }

  const Schedule& schedule_;
  const MemoryPlan& plan_;
  std::vector<std::vector<Touch>> touched_;  // by buffer, in issue order
  std::vector<std::array<int, kStreamCount>> last_touch_;  // by buffer; -1: never on that stream
  std::vector<Clock> clock_;                 // when each instruction starts
  std::vector<int> position_;                // of each instruction on its stream
};

}  // namespace

void verify_sync(const Schedule& schedule, const MemoryPlan& plan) {
  const SyncProof proof(schedule, plan);
  proof.check(Space::kHbm);
  proof.check(Space::kHost);
}

}  // namespace spillway
