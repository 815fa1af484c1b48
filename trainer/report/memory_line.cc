#include "trainer/report/memory_line.h"

#include <algorithm>

namespace spillway {
namespace {

constexpr int kStretches = 198;  // three points each, and those of the step's begin and end

struct Change {
  int64_t ns, hbm, host;
};
struct Level {
  int64_t ns = 0, hbm = 0, host = 0;
};

// In order of time.
std::vector<Change> changes(const Schedule& schedule, std::span<const InstrTiming> timings,
                            Level& always) {
  std::vector<Change> result;
  const std::vector<Lifetime> life = lifetimes(schedule);
  // The last of issue order need not end last; but it waits for all others that touch the buffer.
  for (size_t i = 0; i < life.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    const int64_t bytes = buffer.bytes();
    const int64_t hbm = buffer.space == Space::kHbm ? bytes : 0, host = bytes - hbm;
    if (buffer.persistent) {
      always.hbm += hbm;
      always.host += host;
    } else if (life[i].first >= 0) {
      result.push_back({timings[life[i].first].begin_ns, hbm, host});
      result.push_back({timings[life[i].last].end_ns, -hbm, -host});
    }
  }
  std::ranges::sort(result, {}, &Change::ns);
  return result;
}

// One level per moment: bytes that are freed and taken at the same moment never add up.
std::vector<Level> levels(const Schedule& schedule, std::span<const InstrTiming> timings) {
  Level now;
  const std::vector<Change> all = changes(schedule, timings, now);
  std::vector<Level> result = {now};
  for (const Change& change : all) {
    if (change.ns != result.back().ns) result.push_back({change.ns, now.hbm, now.host});
    result.back().hbm = now.hbm += change.hbm;
    result.back().host = now.host += change.host;
  }
  return result;
}

// Of [first, last), in order of time: the most of either space, and the last.
void keep(const std::vector<Level>& all, size_t first, size_t last,
          std::vector<MemoryPoint>& kept) {
  size_t chosen[] = {first, first, last - 1};
  for (size_t i = first; i < last; ++i) {
    if (all[i].hbm > all[chosen[0]].hbm) chosen[0] = i;
    if (all[i].host > all[chosen[1]].host) chosen[1] = i;
  }
  std::ranges::sort(chosen);
  for (size_t n = 0; n < std::size(chosen); ++n) {
    const Level& level = all[chosen[n]];
    if (n > 0 && chosen[n] == chosen[n - 1]) continue;
    kept.push_back({static_cast<double>(level.ns) * 1e-9, level.hbm, level.host});
  }
}

}  // namespace

std::vector<MemoryPoint> memory_line(const Schedule& schedule,
                                     std::span<const InstrTiming> timings) {
  int64_t end = 1;
  for (const InstrTiming& timing : timings) end = std::max(end, timing.end_ns);
  const std::vector<Level> all = levels(schedule, timings);
  const double stretch = static_cast<double>(end) / kStretches;
  const auto stretch_of = [&](const Level& level) {
    return static_cast<int>(static_cast<double>(level.ns) / stretch);
  };
  std::vector<MemoryPoint> kept;
  keep(all, 0, 1, kept);
  for (size_t first = 1, last; first < all.size(); first = last) {
    for (last = first; last < all.size() && stretch_of(all[last]) == stretch_of(all[first]);)
      ++last;
    keep(all, first, last, kept);
  }
  if (kept.back().seconds < static_cast<double>(end) * 1e-9) {
    kept.push_back({static_cast<double>(end) * 1e-9, kept.back().hbm, kept.back().host});
  }
  return kept;
}

}  // namespace spillway
