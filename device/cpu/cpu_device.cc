#include "device/cpu/cpu_device.h"

#include <fmt/format.h>

#include <cstring>

#include "program/error.h"

namespace spillway::cpu {
namespace {

CpuSchedule& as_cpu(LoadedSchedule& loaded) { return static_cast<CpuSchedule&>(loaded); }

void check_room(const char* arena, int64_t bytes, int64_t capacity) {
  if (bytes <= capacity) return;
  throw OutOfMemory(fmt::format("out of memory: the cpu device has {} bytes of {}, not {}",
                                capacity, arena, bytes));
}

}  // namespace

std::string CpuDevice::unsupported(const Schedule& schedule, const Instr& instr) const {
  if (instr.op.kind == OpKind::kCopy || instr.op.kind == OpKind::kFree) return "";
  for (const Access& access : accesses(instr)) {
    const Buffer& buffer = schedule.buffers[static_cast<size_t>(access.buffer)];
    if (buffer.space == Space::kHost) return buffer.name + " is in host memory: only copy may";
  }
  return cpu::unsupported(unbound(state_, schedule, instr));
}

void CpuDevice::allocate(const ArenaSizes& sizes) {
  check_room("hbm", sizes.hbm, hbm_capacity());
  check_room("host memory", sizes.host, host_capacity());
  state_.hbm.allocate(sizes.hbm, state_.options.poison);
  state_.host.allocate(sizes.host, state_.options.poison);
}

std::unique_ptr<LoadedSchedule> CpuDevice::load(const Schedule& schedule, const MemoryPlan& plan) {
  auto loaded = std::make_unique<CpuSchedule>(state_, schedule, plan);
  start_streams(schedule);
  return loaded;
}

void CpuDevice::start_streams(const Schedule& schedule) {
  std::array<int64_t, kStreamCount> commands = {};
  for (const Instr& instr : schedule.instrs) {  // launch, record, and its waits
    commands[static_cast<size_t>(instr.stream)] += 2 + static_cast<int64_t>(instr.waits.size());
  }
  for (size_t i = 0; i < commands.size(); ++i) {
    if (commands[i] == 0) continue;
    if (!streams_[i]) streams_[i] = std::make_unique<StreamThread>();
    streams_[i]->reserve(commands[i]);
  }
}

// Events are numbered across runs, so that a stream's timeline never goes back.
void CpuDevice::begin(LoadedSchedule& loaded) { as_cpu(loaded).begin(++runs_ << 32); }

void CpuDevice::launch(LoadedSchedule& loaded, int instr) {
  CpuSchedule& cpu = as_cpu(loaded);
  stream(cpu.schedule().instrs[static_cast<size_t>(instr)].stream).run(cpu, instr);
}

void CpuDevice::record(LoadedSchedule& loaded, int instr) {
  CpuSchedule& cpu = as_cpu(loaded);
  stream(cpu.schedule().instrs[static_cast<size_t>(instr)].stream).record(cpu.event(instr));
}

void CpuDevice::wait(LoadedSchedule& loaded, Stream waiting, int instr) {
  CpuSchedule& cpu = as_cpu(loaded);
  const Stream other = cpu.schedule().instrs[static_cast<size_t>(instr)].stream;
  stream(waiting).wait(stream(other).timeline(), cpu.event(instr));
}

void CpuDevice::drain() {
  for (const auto& stream : streams_) {
    if (stream) stream->drain();
  }
}

void CpuDevice::synchronize(LoadedSchedule&) {
  drain();
  const std::string error = state_.error.take();
  if (!error.empty()) throw DeviceError(error);
}

void CpuDevice::write(Space space, int64_t offset, std::span<const std::byte> data) {
  if (data.empty()) return;
  std::memcpy(state_.arena(space).at(offset, static_cast<int64_t>(data.size())), data.data(),
              data.size());
}

void CpuDevice::read(Space space, int64_t offset, std::span<std::byte> data) const {
  if (data.empty()) return;
  const Arena& arena = space == Space::kHbm ? state_.hbm : state_.host;
  std::memcpy(data.data(), arena.at(offset, static_cast<int64_t>(data.size())), data.size());
}

std::span<const InstrTiming> CpuDevice::timings(const LoadedSchedule& loaded) const {
  return static_cast<const CpuSchedule&>(loaded).timings();
}

MemoryUse CpuDevice::memory_use() const {
  MemoryUse use{.hbm_high_water = state_.hbm.high_water(),
                .host_high_water = state_.host.high_water()};
  for (const Scratch& scratch : state_.scratch) use.scratch_bytes += scratch.bytes();
  return use;
}

}  // namespace spillway::cpu
