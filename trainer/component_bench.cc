#include "trainer/component_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "device/executor.h"
#include "program/error.h"
#include "program/sync.h"

namespace spillway {
namespace {

constexpr int64_t kMinRepetitions = 9, kMaxRepetitions = 256;
constexpr int kRuns = 4;             // at most
constexpr double kUndisturbed = 1.1;  // median over lower quartile

// Pairs of bf16 in [1/4, 1), which are f32 in [1/4, 1) as well.
std::vector<std::byte> float_pattern() {
  constexpr size_t kWords = 1 << 19;
  std::mt19937 engine(1);
  std::uniform_int_distribution<int> uniform(0x3e80, 0x3f7f);
  std::vector<uint16_t> words(kWords);
  for (uint16_t& word : words) word = static_cast<uint16_t>(uniform(engine));
  std::vector<std::byte> bytes(kWords * sizeof(uint16_t));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

double seconds_of(const InstrTiming& timing) {
  return static_cast<double>(timing.end_ns - timing.begin_ns) * 1e-9;
}

}  // namespace

double quantile(std::vector<double> values, double part) {
  const auto at = values.begin() + static_cast<ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

ComponentBench::ComponentBench(const DeviceOptions& options, int64_t arena_bytes,
                               const Communicator& communicator)
    : device_(make_device(options, communicator)),
      alone_(communicator.world == nullptr),
      arenas_{.hbm = std::min(arena_bytes, device_->hbm_capacity()),
              .host = std::min(arena_bytes, device_->host_capacity())},
      pattern_(float_pattern()) {
  device_->allocate(arenas_);
}

bool ComponentBench::fits(const Component& component) const {
  const MemoryPlan plan = plan_memory(component.schedule);
  return plan.hbm.bytes <= arenas_.hbm && plan.host.bytes <= arenas_.host;
}

void ComponentBench::write_inputs(const Schedule& schedule, const MemoryPlan& plan) {
  for (Space space : {Space::kHbm, Space::kHost}) {
    const int64_t bytes = plan.of(space).bytes;
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(pattern_.size())) {
      const auto count = std::min(static_cast<int64_t>(pattern_.size()), bytes - at);
      device_->write(space, at, std::span(pattern_).first(static_cast<size_t>(count)));
    }
  }
  std::vector<bool> written(schedule.buffers.size());
  for (const Instr& instr : schedule.instrs) {
    const Component component = component_of(schedule, instr);
    for (size_t i = 0; i < instr.op.in.size(); ++i) {
      const auto id = static_cast<size_t>(instr.op.in[i]);
      const Buffer& buffer = schedule.buffers[id];
      if (buffer.dtype != DType::kI32 || written[id]) continue;
      written[id] = true;
      const std::vector<int32_t> values = usual_integers(component, i);
      device_->write(buffer.space, plan.offset[id], std::as_bytes(std::span(values)));
    }
  }
}

std::vector<InstrTiming> ComponentBench::run(Schedule schedule) {
  const MemoryPlan plan = plan_memory(schedule);
  check_fits(schedule, plan, arenas_.hbm, arenas_.host, device_->name());
  insert_sync(schedule, plan);
  Executor executor(*device_, schedule, plan);
  write_inputs(schedule, plan);
  executor.run();
  executor.run();
  const std::span<const InstrTiming> timings = executor.timings();
  return {timings.begin(), timings.end()};
}

double ComponentBench::seconds(const Component& component, int64_t working_set) {
  int64_t each = 1;
  for (const Buffer& buffer : component.schedule.buffers) each += buffer.bytes() + kAlignment;
  const int64_t room = std::min({working_set, arenas_.hbm, arenas_.host});
  const int64_t count = std::clamp(room / each, kMinRepetitions, kMaxRepetitions);
  const Schedule schedule = repeated(component, static_cast<int>(count), room);
  double least = 1e9;
  for (int attempt = 0; attempt < kRuns; ++attempt) {
    std::vector<double> seconds;
    for (const InstrTiming& timing : run(schedule)) seconds.push_back(seconds_of(timing));
    const double low = quantile(seconds, 0.25), median = quantile(seconds, 0.5);
    if (alone_ && median < kUndisturbed * low) return median;
    least = std::min(least, low);
  }
  return least;
}

namespace {

// A Schedule written instruction by instruction.
struct Lines {
  Schedule schedule{.buffers = {}, .slots = {{.block = "component"}}, .instrs = {}};

  TensorId buffer(int64_t elements, Space space = Space::kHbm) {
    const auto id = static_cast<TensorId>(schedule.buffers.size());
    schedule.buffers.push_back({.name = fmt::format("b{}", id), .dtype = DType::kF32,
                                .shape = {elements}, .space = space, .persistent = true});
    return id;
  }
  void add(Stream stream, OpKind kind, std::vector<TensorId> in, TensorId out) {
    schedule.instrs.push_back({.slot = 0, .stream = stream,
                               .op = {.kind = kind, .in = std::move(in), .out = {out},
                                      .accumulate = {false}},
                               .waits = {}});
  }
};

constexpr int64_t kSmall = 64;             // elements
constexpr int64_t kCopyElements = 1 << 19;  // 2 MiB
constexpr int64_t kManyBytes = int64_t{64} << 20;

double median_gap(const std::vector<InstrTiming>& timings) {
  std::vector<double> gaps;
  for (size_t i = 1; i < timings.size(); ++i) {
    gaps.push_back(static_cast<double>(timings[i].begin_ns - timings[i - 1].end_ns) * 1e-9);
  }
  return std::max(0.0, quantile(gaps, 0.5));
}

// Small adds, one behind another.
double launch_seconds(ComponentBench& bench) {
  Lines lines;
  const TensorId a = lines.buffer(kSmall), b = lines.buffer(kSmall);
  for (int i = 0; i < 1000; ++i) lines.add(Stream::kCompute, OpKind::kAdd, {a, a}, b);
  return median_gap(bench.run(lines.schedule));
}

// The same, but every other one on the comm stream and reading what the one before wrote.
double hop_seconds(ComponentBench& bench) {
  Lines lines;
  const TensorId a = lines.buffer(kSmall), b = lines.buffer(kSmall);
  for (int i = 0; i < 300; ++i) {
    lines.add(Stream::kCompute, OpKind::kAdd, {a, a}, b);
    lines.add(Stream::kComm, OpKind::kAdd, {b, b}, a);
  }
  return median_gap(bench.run(lines.schedule));
}

double copy_bytes_per_s(ComponentBench& bench, Stream stream) {
  Lines lines;
  const bool out = stream == Stream::kD2h;
  const TensorId from = lines.buffer(kCopyElements, out ? Space::kHbm : Space::kHost);
  const TensorId to = lines.buffer(kCopyElements, out ? Space::kHost : Space::kHbm);
  lines.add(stream, OpKind::kCopy, {from}, to);
  return static_cast<double>(lines.schedule.buffers[0].bytes()) /
         bench.seconds({.schedule = lines.schedule}, kManyBytes);
}

// Mean seconds of `work` while copies to the host run beside it all the time, or none.
double mean_seconds_beside(ComponentBench& bench, const Component& work, int count, int copies) {
  Schedule schedule = repeated(work, count, kManyBytes);
  Lines lines{.schedule = std::move(schedule)};
  const TensorId from = lines.buffer(kCopyElements), to = lines.buffer(kCopyElements, Space::kHost);
  for (int i = 0; i < copies; ++i) lines.add(Stream::kD2h, OpKind::kCopy, {from}, to);
  const std::vector<InstrTiming> timings = bench.run(lines.schedule);
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += seconds_of(timings[static_cast<size_t>(i)]);
  return sum / count;
}

// What a copy takes from `work`: the best of a few runs with copies, in turn with as many without.
double share_taken(ComponentBench& bench, const Component& work, double copy_seconds) {
  const double each = bench.seconds(work, kManyBytes);
  const int count = std::clamp(static_cast<int>(0.1 / each), 5, 200);
  const int copies = static_cast<int>(2.5 * each * count / copy_seconds) + 2;
  double alone = 1e9, beside = 1e9;
  for (int i = 0; i < 5; ++i) {
    alone = std::min(alone, mean_seconds_beside(bench, work, count, 0));
    beside = std::min(beside, mean_seconds_beside(bench, work, count, copies));
  }
  return std::clamp(1 - alone / beside, 0.0, 0.95);
}

}  // namespace

StreamTimes stream_times(ComponentBench& bench) {
  StreamTimes times;
  times.launch = launch_seconds(bench);
  times.wait = std::max(0.0, hop_seconds(bench) - times.launch);
  times.d2h_bytes_per_s = copy_bytes_per_s(bench, Stream::kD2h);
  times.h2d_bytes_per_s = copy_bytes_per_s(bench, Stream::kH2d);
  Lines add;
  const TensorId a = add.buffer(kCopyElements), b = add.buffer(kCopyElements);
  add.add(Stream::kCompute, OpKind::kAdd, {a, a}, b);
  const double copy_seconds = sizeof(float) * kCopyElements / times.d2h_bytes_per_s;
  const double of_product =
      share_taken(bench, product(OpKind::kLinear, DType::kF32, 1024, 256, 256), copy_seconds);
  const double of_memory = share_taken(bench, {.schedule = add.schedule}, copy_seconds);
  times.copy_share = (of_product + of_memory) / 2;
  return times;
}

}  // namespace spillway
