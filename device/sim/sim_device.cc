#include "device/sim/sim_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "device/sim/op_cost.h"
#include "device/sim/virtual_ranks.h"
#include "program/error.h"

namespace spillway::sim {
namespace {

// The highest bytes of each arena that an instruction touches. As on any device kFree touches none.
ArenaSizes touched(const Schedule& schedule, const MemoryPlan& plan, const Instr& instr) {
  ArenaSizes ends;
  if (instr.op.kind == OpKind::kFree) return ends;
  for (const auto* operands : {&instr.op.in, &instr.op.out}) {
    for (TensorId id : *operands) {
      const Buffer& buffer = schedule.buffers[static_cast<size_t>(id)];
      int64_t& end = buffer.space == Space::kHbm ? ends.hbm : ends.host;
      end = std::max(end, plan.offset[static_cast<size_t>(id)] + buffer.bytes());
    }
  }
  return ends;
}

// The sets of axes over which a Schedule's collectives go.
std::vector<uint8_t> axes_of(const Schedule& schedule) {
  std::array<bool, axis::kAll + 1> used = {};
  for (const Instr& instr : schedule.instrs) {
    if (is_collective(instr.op.kind)) {
      used.at(static_cast<size_t>(instr.op.attrs.integer(Attr::kAxes))) = true;
    }
  }
  std::vector<uint8_t> axes;
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) axes.push_back(static_cast<uint8_t>(i));
  }
  return axes;
}

class SimSchedule final : public LoadedSchedule {
 public:
  SimSchedule(const Schedule& schedule, const MemoryPlan& plan, std::vector<RankClass> of_mesh,
              std::vector<std::vector<Cost>> costs)
      : what(schedule), classes(std::move(of_mesh)), ranks(schedule, std::move(costs)) {
    ends.reserve(schedule.instrs.size());
    for (const Instr& instr : schedule.instrs) ends.push_back(touched(schedule, plan, instr));
  }

  [[nodiscard]] Stream stream(int instr) const {
    return what.instrs[static_cast<size_t>(instr)].stream;
  }

  const Schedule& what;
  std::vector<RankClass> classes;
  std::vector<ArenaSizes> ends;  // by instruction
  VirtualRanks ranks;
};

SimSchedule& as_sim(LoadedSchedule& loaded) { return static_cast<SimSchedule&>(loaded); }

}  // namespace

int64_t SimDevice::hbm_capacity() const {
  return static_cast<int64_t>(hardware_.hbm_bytes.value - hardware_.reserve_bytes.value);
}

int64_t SimDevice::host_capacity() const {
  return static_cast<int64_t>(hardware_.host_bytes_per_socket.value / hardware_.gpus_per_socket);
}

void SimDevice::allocate(const ArenaSizes& sizes) {
  if (sizes_.hbm != 0 || sizes_.host != 0) throw VerifyError("the arenas are allocated already");
  const auto check_room = [&](const char* arena, int64_t bytes, int64_t capacity) {
    if (options_.allow_oversize || bytes <= capacity) return;
    throw OutOfMemory(fmt::format("out of memory: {} has {} bytes of {}, not {}", name(), capacity,
                                  arena, bytes));
  };
  check_room("hbm", sizes.hbm, hbm_capacity());
  check_room("host memory", sizes.host, host_capacity());
  sizes_ = sizes;
}

std::unique_ptr<LoadedSchedule> SimDevice::load(const Schedule& schedule, const MemoryPlan& plan) {
  std::vector<RankClass> classes =
      rank_classes(hardware_, mesh_, axes_of(schedule), options_.assumptions);
  std::vector<std::vector<Cost>> costs;
  for (const RankClass& ranks : classes) {
    const OpCosts cost(hardware_, rates_, ranks, schedule, options_.assumptions);
    costs.emplace_back().reserve(schedule.instrs.size());
    for (const Instr& instr : schedule.instrs) costs.back().push_back(cost(instr));
  }
  auto loaded =
      std::make_unique<SimSchedule>(schedule, plan, std::move(classes), std::move(costs));
  for (const ArenaSizes& ends : loaded->ends) {
    check_inside(Space::kHbm, 0, ends.hbm);
    check_inside(Space::kHost, 0, ends.host);
  }
  classes_.reserve(loaded->classes.size());
  return loaded;
}

void SimDevice::begin(LoadedSchedule& loaded) { as_sim(loaded).ranks.begin(); }

void SimDevice::launch(LoadedSchedule& loaded, int instr) {
  SimSchedule& sim = as_sim(loaded);
  const ArenaSizes& ends = sim.ends[static_cast<size_t>(instr)];
  use_.hbm_high_water = std::max(use_.hbm_high_water, ends.hbm);
  use_.host_high_water = std::max(use_.host_high_water, ends.host);
  sim.ranks.push(sim.stream(instr), {Command::Kind::kLaunch, instr});
}

void SimDevice::record(LoadedSchedule& loaded, int instr) {
  SimSchedule& sim = as_sim(loaded);
  sim.ranks.push(sim.stream(instr), {Command::Kind::kRecord, instr});
}

void SimDevice::wait(LoadedSchedule& loaded, Stream stream, int instr) {
  as_sim(loaded).ranks.push(stream, {Command::Kind::kWait, instr});
}

void SimDevice::synchronize(LoadedSchedule& loaded) {
  SimSchedule& sim = as_sim(loaded);
  sim.ranks.run();
  classes_.clear();
  for (size_t i = 0; i < sim.classes.size(); ++i) {
    classes_.push_back({.rank = sim.classes[i].rank, .ranks = sim.classes[i].ranks,
                        .compute_seconds = sim.ranks.compute_seconds(i),
                        .collective_wait_seconds = sim.ranks.collective_wait_seconds(i)});
  }
}

void SimDevice::check_inside(Space space, int64_t offset, int64_t bytes) const {
  const int64_t size = space == Space::kHbm ? sizes_.hbm : sizes_.host;
  if (offset >= 0 && bytes <= size && offset <= size - bytes) return;
  throw VerifyError(fmt::format("{} bytes at {} are outside the {} arena of {} bytes", bytes, offset,
                                name_of(space), size));
}

void SimDevice::write(Space space, int64_t offset, std::span<const std::byte> data) {
  check_inside(space, offset, static_cast<int64_t>(data.size()));
}

void SimDevice::read(Space space, int64_t offset, std::span<std::byte> data) const {
  check_inside(space, offset, static_cast<int64_t>(data.size()));
  std::ranges::fill(data, std::byte{0});
}

std::span<const InstrTiming> SimDevice::timings(const LoadedSchedule& loaded) const {
  return static_cast<const SimSchedule&>(loaded).ranks.timings();
}

}  // namespace spillway::sim
