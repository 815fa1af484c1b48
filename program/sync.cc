#include "program/sync.h"

#include <algorithm>
#include <array>
#include <map>

namespace spillway {
namespace {

constexpr int kNever = -1;

// The last accesses of a stretch of arena bytes.
struct Stretch {
  int64_t end = 0;
  int last_write = kNever;                                   // instruction
  std::array<int, kStreamCount> last_read = {kNever, kNever, kNever, kNever};
};

// Last accesses of a whole arena, by byte: stretches keyed by their first byte, split on demand.
class ByteHistory {
 public:
  // Calls visit(stretch) for the stretches that make up exactly [begin, end).
  template <typename Visit>
  void over(int64_t begin, int64_t end, Visit visit) {
    split(begin);
    split(end);
    auto it = stretches_.lower_bound(begin);
    int64_t at = begin;
    while (at < end) {
      if (it == stretches_.end() || it->first > at) {  // bytes nobody has touched
        const int64_t stop = it == stretches_.end() ? end : std::min(end, it->first);
        it = stretches_.emplace_hint(it, at, Stretch{.end = stop});
      }
      visit(it->second);
      at = it->second.end;
      ++it;
    }
  }

 private:
  void split(int64_t at) {
    auto it = stretches_.upper_bound(at);
    if (it == stretches_.begin()) return;
    --it;
    if (it->first == at || it->second.end <= at) return;
    Stretch tail = it->second;
    it->second.end = at;
    stretches_.emplace(at, tail);
  }

  std::map<int64_t, Stretch> stretches_;
};

using PerStream = std::array<int, kStreamCount>;

constexpr PerStream kNothing = {kNever, kNever, kNever, kNever};

class SyncInserter {
 public:
  SyncInserter(Schedule& schedule, const MemoryPlan& plan)
      : schedule_(schedule), plan_(plan), position_(schedule.instrs.size()),
        known_at_(schedule.instrs.size()) {}

  void run() {
    for (size_t i = 0; i < schedule_.instrs.size(); ++i) {
      const auto at = static_cast<int>(i);
      const auto stream = static_cast<size_t>(schedule_.instrs[i].stream);
      add_waits(at, conflicts(at));
      known_at_[i] = known_[stream];
      position_[i] = issued_[stream]++;
      known_[stream][stream] = issued_[stream];
    }
  }

 private:
  // The latest conflicting instruction on each stream; earlier ones are implied by its order.
  PerStream conflicts(int at) {
    const Instr& instr = schedule_.instrs[at];
    PerStream latest = kNothing;
    auto conflict = [&](int earlier) {
      if (earlier == kNever) return;
      int& slot = latest[static_cast<size_t>(schedule_.instrs[earlier].stream)];
      slot = std::max(slot, earlier);
    };
    for (const Access& access : accesses(instr)) {
      const Buffer& buffer = schedule_.buffers[access.buffer];
      const int64_t begin = plan_.offset[access.buffer];
      ByteHistory& history = history_[static_cast<size_t>(buffer.space)];
      history.over(begin, begin + buffer.bytes(), [&](Stretch& stretch) {
        conflict(stretch.last_write);
        if (access.write) {
          for (int read : stretch.last_read) conflict(read);
          stretch.last_read = kNothing;
          stretch.last_write = at;
        } else {
          stretch.last_read[static_cast<size_t>(instr.stream)] = at;
        }
      });
    }
    return latest;
  }

  // Latest first: a wait for a late instruction often implies the others.
  void add_waits(int at, PerStream needed) {
    Instr& instr = schedule_.instrs[at];
    const auto stream = static_cast<size_t>(instr.stream);
    PerStream& known = known_[stream];
    instr.waits.clear();
    std::sort(needed.begin(), needed.end(), std::greater<>());
    for (int earlier : needed) {
      if (earlier == kNever) break;
      const auto other = static_cast<size_t>(schedule_.instrs[earlier].stream);
      if (other == stream || known[other] > position_[earlier]) continue;
      instr.waits.push_back(earlier);
      for (int k = 0; k < kStreamCount; ++k) known[k] = std::max(known[k], known_at_[earlier][k]);
      known[other] = std::max(known[other], position_[earlier] + 1);
    }
  }

  Schedule& schedule_;
  const MemoryPlan& plan_;
  ByteHistory history_[2];          // by Space
  std::vector<int> position_;       // of each instruction on its stream
  // A clock counts, for each stream, the instructions known to be done.
  std::vector<PerStream> known_at_;                   // when each instruction starts
  std::array<PerStream, kStreamCount> known_ = {};    // when the next of each stream starts
  PerStream issued_ = {};
};

}  // namespace

void insert_sync(Schedule& schedule, const MemoryPlan& plan) { SyncInserter(schedule, plan).run(); }

}  // namespace spillway
