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

using Clock = std::array<int, kStreamCount>;  // per stream: instructions known to be done

}  // namespace

void insert_sync(Schedule& schedule, const MemoryPlan& plan) {
  ByteHistory history[2];
  std::vector<int> position(schedule.instrs.size());
  std::vector<Clock> clock_before(schedule.instrs.size());
  std::array<Clock, kStreamCount> stream_clock = {};
  std::array<int, kStreamCount> issued = {};

  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    Instr& instr = schedule.instrs[i];
    const auto stream = static_cast<size_t>(instr.stream);
    // The latest conflicting instruction on each other stream; earlier ones are implied by order.
    std::array<int, kStreamCount> need = {kNever, kNever, kNever, kNever};
    auto conflict = [&](int earlier) {
      if (earlier == kNever) return;
      int& slot = need[static_cast<size_t>(schedule.instrs[earlier].stream)];
      slot = std::max(slot, earlier);
    };
    for (const Access& access : accesses(instr)) {
      const Buffer& buffer = schedule.buffers[access.buffer];
      const int64_t begin = plan.offset[access.buffer];
      history[static_cast<int>(buffer.space)].over(begin, begin + buffer.bytes(), [&](Stretch& s) {
        conflict(s.last_write);
        if (access.write) {
          for (int read : s.last_read) conflict(read);
          s.last_read.fill(kNever);
          s.last_write = static_cast<int>(i);
        } else {
          s.last_read[stream] = static_cast<int>(i);
        }
      });
    }

    instr.waits.clear();
    Clock& now = stream_clock[stream];
    // Latest first: a wait for a late instruction often implies the others.
    std::sort(need.begin(), need.end(), std::greater<>());
    for (int earlier : need) {
      if (earlier == kNever) break;
      const auto other = static_cast<size_t>(schedule.instrs[earlier].stream);
      if (other == stream || now[other] > position[earlier]) continue;
      instr.waits.push_back(earlier);
      for (int k = 0; k < kStreamCount; ++k) {
        now[k] = std::max(now[k], clock_before[earlier][k]);
      }
      now[other] = std::max(now[other], position[earlier] + 1);
    }
    clock_before[i] = now;
    position[i] = issued[stream]++;
    now[stream] = issued[stream];
  }
}

}  // namespace spillway
