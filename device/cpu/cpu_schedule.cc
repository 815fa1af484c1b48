#include "device/cpu/cpu_schedule.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

#include "program/text.h"

namespace spillway::cpu {
namespace {

using Clock = std::chrono::steady_clock;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

int compute_threads(int asked) {
#ifdef __SANITIZE_THREAD__
  (void)asked;
  return 1;  // the sanitizer does not know OpenMP's barriers and would report races
#else
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return asked > 0 ? asked : std::max(1, cores);
#endif
}

}  // namespace

DeviceState::DeviceState(const DeviceOptions& with) : options(with) {
  options.threads = compute_threads(with.threads);
  for (int i = 0; i < kStreamCount; ++i) {
    jitter[static_cast<size_t>(i)].seed(options.jitter_seed, i);
  }
}

BoundOp unbound(const Schedule& schedule, const Instr& instr) {
  BoundOp op{.kind = instr.op.kind, .in = {}, .out = {}, .accumulate = instr.op.accumulate,
             .attrs = instr.op.attrs};
  const auto refer = [&](TensorId id) {
    const Buffer& buffer = schedule.buffers[static_cast<size_t>(id)];
    return TensorRef{.data = nullptr, .dtype = buffer.dtype, .shape = buffer.shape};
  };
  for (TensorId id : instr.op.in) op.in.push_back(refer(id));
  for (TensorId id : instr.op.out) op.out.push_back(refer(id));
  return op;
}

CpuSchedule::CpuSchedule(DeviceState& device, const Schedule& schedule, const MemoryPlan& plan)
    : device_(device), schedule_(schedule), timings_(schedule.instrs.size()) {
  bound_.reserve(schedule.instrs.size());
  for (const Instr& instr : schedule.instrs) bound_.push_back(bind_instruction(instr, plan));
  for (Scratch& scratch : device.scratch) scratch.allocate();
}

CpuSchedule::Bound CpuSchedule::bind_instruction(const Instr& instr, const MemoryPlan& plan) {
  Bound bound;
  const auto address = [&](TensorId id) {
    const Buffer& buffer = schedule_.buffers[static_cast<size_t>(id)];
    const int64_t offset = plan.offset[static_cast<size_t>(id)];
    int64_t& end = buffer.space == Space::kHbm ? bound.hbm_end : bound.host_end;
    end = std::max(end, offset + buffer.bytes());
    return device_.arena(buffer.space).at(offset, buffer.bytes());
  };
  BoundOp op = unbound(schedule_, instr);
  for (size_t i = 0; i < op.in.size(); ++i) op.in[i].data = address(instr.op.in[i]);
  for (size_t i = 0; i < op.out.size(); ++i) op.out[i].data = address(instr.op.out[i]);
  op.threads = instr.stream == Stream::kCompute ? device_.options.threads : 1;
  op.scratch = &device_.scratch[static_cast<size_t>(instr.stream)];

  if (instr.op.kind == OpKind::kCopy) {
    bound.kernel = bind_copy(instr, op);
  } else if (instr.op.kind == OpKind::kFree) {
    const auto bytes = static_cast<size_t>(op.in[0].elements() * size_of(op.in[0].dtype));
    bound = {};  // a free uses no memory, except to poison what is in use already
    if (device_.options.poison) {
      bound.kernel = [data = op.in[0].data, bytes] { std::memset(data, kPoison, bytes); };
    }
  } else {
    bound.kernel = bind(op);
  }
  return bound;
}

// Between the arenas a copy takes at least as long as the link would.
Kernel CpuSchedule::bind_copy(const Instr& instr, const BoundOp& op) const {
  const auto bytes = static_cast<size_t>(op.out[0].elements() * size_of(op.out[0].dtype));
  const bool crosses = is_copy_to_host(schedule_, instr) || is_copy_to_device(schedule_, instr);
  const double rate = device_.options.link_gb_per_s * 1e9;
  const double seconds = crosses && rate > 0 ? static_cast<double>(bytes) / rate : 0;
  const auto least =
      std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(seconds));
  return [from = op.in[0].data, to = op.out[0].data, bytes, least] {
    const Clock::time_point begin = Clock::now();
    std::memcpy(to, from, bytes);
    if (least.count() > 0) std::this_thread::sleep_until(begin + least);
  };
}

void CpuSchedule::begin(int64_t first_event) {
  first_event_ = first_event;
  begin_ns_ = now_ns();
}

void CpuSchedule::run_instruction(int instr, int64_t waited_ns) noexcept {
  InstrTiming& timing = timings_[static_cast<size_t>(instr)];
  timing.wait_ns = waited_ns;
  timing.begin_ns = now_ns() - begin_ns_;
  if (!device_.error.happened()) run(instr);  // after an error only events still happen
  timing.end_ns = now_ns() - begin_ns_;
}

void CpuSchedule::run(int instr) {
  const Instr& what = schedule_.instrs[static_cast<size_t>(instr)];
  const Bound& bound = bound_[static_cast<size_t>(instr)];
  device_.jitter[static_cast<size_t>(what.stream)].delay();
  device_.hbm.use(bound.hbm_end);
  device_.host.use(bound.host_end);
  try {
    if (bound.kernel) bound.kernel();
  } catch (const std::exception& error) {
    device_.error.keep(fmt::format("cpu error: {} in `{}`, slot {}, stream {}", error.what(),
                                   to_text(schedule_, what),
                                   schedule_.slots[static_cast<size_t>(what.slot)].text(),
                                   name_of(what.stream)));
  }
}

}  // namespace spillway::cpu
