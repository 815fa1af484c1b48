#include "program/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "program/error.h"
#include "program/occupancy.h"

namespace spillway {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::vector<TensorId> to_place(const Schedule& schedule, const std::vector<Lifetime>& life,
                               Space space) {
  std::vector<TensorId> order;
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    if (buffer.space == space && !buffer.persistent && life[i].first >= 0) {
      order.push_back(static_cast<TensorId>(i));
    }
  }
  return order;
}

// Best fit in the given order: each buffer goes into the smallest gap between the buffers already
// placed that live at the same time. Returns the highest byte used.
int64_t place(const Schedule& schedule, const std::vector<Lifetime>& life,
              const std::vector<TensorId>& order, int64_t base, std::vector<int64_t>& offset) {
  int64_t top = 0;
  Occupancy occupancy(static_cast<int>(schedule.instrs.size()));
  for (TensorId id : order) {
    const int64_t bytes = schedule.buffers[id].bytes(), size = aligned(bytes);
    int64_t at = base, best = -1, best_gap = INT64_MAX;
    for (const auto& [begin, end] : occupancy.taken(life[id])) {
      if (begin - at >= size && begin - at < best_gap) {
        best = at;
        best_gap = begin - at;
      }
      at = std::max(at, end);
    }
    offset[id] = best >= 0 ? best : at;
    top = std::max(top, offset[id] + bytes);
    occupancy.take(life[id], {offset[id], offset[id] + size});
  }
  return top;
}

// The most bytes live at once, and where.
struct MostLive {
  int64_t bytes = 0;
  int instr = 0;
  std::array<int64_t, kMemoryClassCount> by_class = {};
};

MostLive most_live(const Schedule& schedule, const std::vector<Lifetime>& life, Space space) {
  std::vector<std::array<int64_t, kMemoryClassCount>> change(schedule.instrs.size() + 1);
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    if (buffer.space != space || life[i].first < 0) continue;
    const auto memory = static_cast<size_t>(buffer.memory);
    change[life[i].first][memory] += aligned(buffer.bytes());
    change[life[i].last + 1][memory] -= aligned(buffer.bytes());
  }
  MostLive most;
  std::array<int64_t, kMemoryClassCount> now = {};
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    int64_t sum = 0;
    for (int m = 0; m < kMemoryClassCount; ++m) sum += now[m] += change[i][m];
    if (sum > most.bytes) most = {sum, static_cast<int>(i), now};
  }
  return most;
}

// Two orders, the better one wins: largest first packs a step whose layers repeat; most bytes x time
// first does better when long and short lives mix. The second is not tried where the first leaves no gaps.
void place_best(const Schedule& schedule, const std::vector<Lifetime>& life, Space space,
                int64_t live_bytes, MemoryPlan& plan) {
  SpacePlan& total = space == Space::kHbm ? plan.hbm : plan.host;
  std::vector<TensorId> order = to_place(schedule, life, space);
  const int64_t base = aligned(total.bytes);
  auto area = [&](TensorId id) {
    return static_cast<double>(schedule.buffers[id].bytes()) * (life[id].last - life[id].first + 1);
  };
  std::sort(order.begin(), order.end(), [&](TensorId a, TensorId b) {
    const int64_t x = schedule.buffers[a].bytes(), y = schedule.buffers[b].bytes();
    return x != y ? x > y : life[a].first != life[b].first ? life[a].first < life[b].first : a < b;
  });
  std::vector<int64_t> by_size = plan.offset, by_area = plan.offset;
  const int64_t size_top = place(schedule, life, order, base, by_size);
  if (size_top <= live_bytes) {
    plan.offset = std::move(by_size);
    total.bytes = std::max(total.bytes, size_top);
    return;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](TensorId a, TensorId b) { return area(a) > area(b); });
  const int64_t area_top = place(schedule, life, order, base, by_area);
  plan.offset = size_top <= area_top ? std::move(by_size) : std::move(by_area);
  total.bytes = std::max(total.bytes, std::min(size_top, area_top));
}

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string shortage(const Schedule& schedule, const MemoryPlan& plan, Space space,
                     int64_t capacity, const std::string& device) {
  const SpacePlan& need = plan.of(space);
  const bool hbm = space == Space::kHbm;
  std::string text = fmt::format(
      "out of {} memory (planned, before step 0): need {:.3f} GiB, have {:.3f} GiB ({}); at the "
      "peak ({}):",
      hbm ? "device" : "pinned host", gib(need.bytes), gib(capacity), device,
      schedule.slots.empty() ? "-" : schedule.slots[schedule.instrs[need.peak_instr].slot].text());
  int named = 0;
  int64_t rest = 0;
  for (const MemorySum& sum : live_by_name(schedule, plan, space)) {
    if (named++ < 6) {
      text += fmt::format(" {} {:.3f},", sum.name, gib(sum.bytes));
    } else {
      rest += sum.bytes;
    }
  }
  text += fmt::format(" the rest {:.3f}; try ", gib(rest));
  return text + (hbm ? "offload or remat for the largest activations (activation.policy: "
                       "minimal_offloaded or full), a smaller train.micro_batch or a shorter "
                       "train.seq_len with more train.accumulation"
                     : "remat instead of offload for some activations, a smaller train.micro_batch, "
                       "or a larger device.host_gib");
}

}  // namespace

std::vector<Lifetime> lifetimes(const Schedule& schedule) {
  std::vector<Lifetime> life(schedule.buffers.size());
  const int end = static_cast<int>(schedule.instrs.size()) - 1;
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    if (schedule.buffers[i].persistent) life[i] = {0, std::max(end, 0)};
  }
  for (int i = 0; i <= end; ++i) {
    for (const Access& access : accesses(schedule.instrs[i])) {
      Lifetime& l = life[access.buffer];
      if (schedule.buffers[access.buffer].persistent) continue;
      if (l.first < 0) l.first = i;
      l.last = i;
    }
  }
  return life;
}

MemoryPlan plan_memory(const Schedule& schedule) {
  MemoryPlan plan;
  plan.offset.assign(schedule.buffers.size(), -1);
  const std::vector<Lifetime> life = lifetimes(schedule);
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    if (!buffer.persistent) continue;
    SpacePlan& space = buffer.space == Space::kHbm ? plan.hbm : plan.host;
    plan.offset[i] = aligned(space.bytes);
    space.bytes = plan.offset[i] + buffer.bytes();
  }
  for (Space space : {Space::kHbm, Space::kHost}) {
    SpacePlan& total = space == Space::kHbm ? plan.hbm : plan.host;
    const MostLive most = most_live(schedule, life, space);
    place_best(schedule, life, space, most.bytes, plan);
    total.live_bytes = std::min(most.bytes, total.bytes);  // the last buffer needs no padding behind it
    total.peak_instr = most.instr;
    total.live_by_class = most.by_class;
  }
  return plan;
}

std::vector<PeakEntry> live_at_peak(const Schedule& schedule, const MemoryPlan& plan, Space space) {
  const std::vector<Lifetime> life = lifetimes(schedule);
  const int at = plan.of(space).peak_instr;
  std::vector<PeakEntry> result;
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    if (buffer.space == space && life[i].first >= 0 && life[i].first <= at && at <= life[i].last) {
      result.push_back({static_cast<TensorId>(i), aligned(buffer.bytes())});
    }
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const PeakEntry& a, const PeakEntry& b) { return a.bytes > b.bytes; });
  return result;
}

std::vector<MemorySum> live_by_name(const Schedule& schedule, const MemoryPlan& plan,
                                    Space space) {
  std::vector<MemorySum> sums;
  for (const PeakEntry& entry : live_at_peak(schedule, plan, space)) {
    const Buffer& buffer = schedule.buffers[entry.buffer];
    // Activations of all layers together; what has no such name, by what it is.
    std::string name = buffer.activation.empty() ? std::string(name_of(buffer.memory))
                                                 : buffer.activation;
    const auto found = std::find_if(sums.begin(), sums.end(),
                                    [&](const MemorySum& sum) { return sum.name == name; });
    if (found == sums.end()) {
      sums.push_back({name, entry.bytes, 1});
    } else {
      found->bytes += entry.bytes;
      ++found->buffers;
    }
  }
  std::stable_sort(sums.begin(), sums.end(),
                   [](const MemorySum& a, const MemorySum& b) { return a.bytes > b.bytes; });
  return sums;
}

void check_fits(const Schedule& schedule, const MemoryPlan& plan, int64_t hbm_capacity,
                int64_t host_capacity, const std::string& device) {
  if (plan.hbm.bytes > hbm_capacity) {
    throw OutOfMemory(shortage(schedule, plan, Space::kHbm, hbm_capacity, device));
  }
  if (plan.host.bytes > host_capacity) {
    throw OutOfMemory(shortage(schedule, plan, Space::kHost, host_capacity, device));
  }
}

}  // namespace spillway
