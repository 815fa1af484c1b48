#include "device/cpu/cpu_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "program/text.h"

namespace spillway::cpu {
namespace {

using Clock = std::chrono::steady_clock;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

int compute_threads(int asked) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return asked > 0 ? asked : std::max(1, cores);
}

Kernel paced(Kernel kernel, double seconds) {
  const auto least = std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(seconds));
  if (least.count() <= 0) return kernel;
  return [kernel = std::move(kernel), least] {
    const Clock::time_point begin = Clock::now();
    kernel();
    std::this_thread::sleep_until(begin + least);
  };
}

}  // namespace

DeviceState::DeviceState(const DeviceOptions& with, const Communicator& ranks)
    : options(with), communicator(ranks) {
  options.threads = compute_threads(with.threads);
  for (int i = 0; i < kStreamCount; ++i) {
    jitter[static_cast<size_t>(i)].seed(options.jitter_seed, i);
  }
}

BoundOp unbound(const DeviceState& device, const Schedule& schedule, const Instr& instr) {
  BoundOp op{.kind = instr.op.kind, .in = {}, .out = {}, .accumulate = instr.op.accumulate,
             .attrs = instr.op.attrs, .communicator = &device.communicator};
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
  BoundOp op = unbound(device_, schedule_, instr);
  for (size_t i = 0; i < op.in.size(); ++i) op.in[i].data = address(instr.op.in[i]);
  for (size_t i = 0; i < op.out.size(); ++i) op.out[i].data = address(instr.op.out[i]);
  op.threads = instr.stream == Stream::kCompute ? device_.options.threads : 1;
  op.scratch = &device_.scratch[static_cast<size_t>(instr.stream)];

  if (instr.op.kind == OpKind::kCopy) {
    const auto bytes = static_cast<size_t>(op.out[0].elements() * size_of(op.out[0].dtype));
    bound.kernel = [from = op.in[0].data, to = op.out[0].data, bytes] {
      std::memcpy(to, from, bytes);
    };
  } else if (instr.op.kind == OpKind::kFree) {
    const auto bytes = static_cast<size_t>(op.in[0].elements() * size_of(op.in[0].dtype));
    bound = {};  // a free uses no memory, except to poison what is in use already
    if (device_.options.poison) {
      bound.kernel = [data = op.in[0].data, bytes] { std::memset(data, kPoison, bytes); };
    }
  } else {
    bound.kernel = bind(op);
  }
  bound.kernel = paced(std::move(bound.kernel), least_seconds(instr));
  return bound;
}

// Between the arenas, and between ranks, an instruction takes at least as long as the link would.
double CpuSchedule::least_seconds(const Instr& instr) const {
  const DeviceOptions& options = device_.options;
  const bool crosses = is_copy_to_host(schedule_, instr) || is_copy_to_device(schedule_, instr);
  const int64_t bytes = crosses ? schedule_.buffers[static_cast<size_t>(instr.op.out[0])].bytes()
                                : sent_bytes(schedule_, instr);
  const double rate = 1e9 * (crosses ? options.link_gb_per_s : options.comm_gb_per_s);
  return rate > 0 ? static_cast<double>(bytes) / rate : 0;
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
  } catch (const RankFailed& error) {
    (void)keep_error(what, error.what());
  } catch (const std::exception& error) {
    if (!keep_error(what, error.what())) return;
    // This rank starts no exchange any more: the others must not wait for it.
    World* world = device_.communicator.world;
    if (world == nullptr || world->size() == 1) return;
    world->abort(fmt::format("slot {}, `{}`: {}",
                             schedule_.slots[static_cast<size_t>(what.slot)].text(),
                             to_text(schedule_, what), error.what()));
  }
}

bool CpuSchedule::keep_error(const Instr& instr, const std::string& why) {
  return device_.error.keep(fmt::format(
      "cpu error: {} in `{}`, slot {}, stream {}", why, to_text(schedule_, instr),
      schedule_.slots[static_cast<size_t>(instr.slot)].text(), name_of(instr.stream)));
}

}  // namespace spillway::cpu
