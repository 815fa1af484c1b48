#include "trainer/calibrate.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <exception>
#include <set>
#include <thread>

#include "parallel/world.h"
#include "program/error.h"
#include "trainer/atomic_file.h"
#include "trainer/component_bench.h"
#include "trainer/component_tables.h"
#include "trainer/hardware_text.h"
#include "trainer/host_cores.h"
#include "trainer/mesh_config.h"
#include "trainer/session.h"

namespace spillway {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kArenaBytes = 512 * kMiB, kRankArenaBytes = 64 * kMiB,
                  kProductBytes = 64 * kMiB;

std::string today() { return fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr))); }

DeviceOptions resolved(DeviceOptions options, int ranks) {
  if (options.threads == 0) options.threads = cores_of_rank(1);
  options.threads = std::max(1, options.threads / ranks);
  options.jitter_seed = 0;
  options.poison = false;
  return options;
}

// The config's step, and smaller ones: fewer sequences, or shorter ones. The config's own comes last.
std::vector<Config> sizes_of(const Config& config) {
  std::vector<Config> result;
  const auto add = [&](int64_t divide_batch, int64_t divide_length) {
    Config size = config;
    size.activation = {};
    size.train.global_batch = 0;
    size.train.micro_batch = std::max<int64_t>(1, config.train.micro_batch / divide_batch);
    size.train.seq_len = std::max<int64_t>(1, config.train.seq_len / divide_length);
    result.push_back(std::move(size));
  };
  add(config.train.micro_batch, 1);
  add(1, 4);
  add(4, 1);
  add(1, 1);
  return result;
}

class Calibration {
 public:
  Calibration(const Config& config, std::ostream& out)
      : config_(config), options_(resolved(config.device, 1)), bench_(options_, kArenaBytes),
        out_(out) {}

  Hardware run() {
    streams();
    products();
    for (const Config& size : sizes_of(config_)) step(size);
    tables_.fill(hardware_, source_);
    collectives();
    rest();
    return std::move(hardware_);
  }

 private:
  void say(const std::string& text) { out_ << text << "\n" << std::flush; }
  [[nodiscard]] Figure measured(double value, const std::string& what) const {
    return {value, Mark::kMeasured, what + "; " + source_};
  }
  bool measure(const Component& component, int64_t working_set);
  void streams();
  void products();
  void step(const Config& size);
  void collectives();
  void rest();

  const Config config_;
  const DeviceOptions options_;
  ComponentBench bench_;
  std::ostream& out_;
  const std::string source_ = fmt::format(
      "spillway calibrate {}, {} threads, {}", config_.name, options_.threads, today());
  ComponentTables tables_;
  std::set<std::string> done_;
  Hardware hardware_;
};

bool Calibration::measure(const Component& component, int64_t working_set) {
  if (!done_.insert(component.key()).second) return false;
  if (!bench_.fits(component)) {
    say(fmt::format("left out, since it does not fit: {}", component.key()));
    return false;
  }
  tables_.add(component, bench_.seconds(component, working_set));
  return true;
}

void Calibration::streams() {
  const StreamTimes times = stream_times(bench_);
  const double d2h = times.d2h_bytes_per_s * 1e-9, h2d = times.h2d_bytes_per_s * 1e-9;
  say(fmt::format("streams: launch {:.1f} us, wait {:.1f} us, copies {:.3g} and {:.3g} GB/s, of which "
                  "one takes {:.0f} % of the speed of compute",
                  times.launch * 1e6, times.wait * 1e6, d2h, h2d, 100 * times.copy_share));
  hardware_.launch_us = measured(std::max(times.launch * 1e6, 1e-3), "between adds of 64 elements");
  hardware_.wait_us = measured(times.wait * 1e6, "more, between adds on two streams in turn");
  hardware_.d2h_gb_per_s = measured(d2h, "copies of 2 MiB");
  hardware_.h2d_gb_per_s = measured(h2d, "copies of 2 MiB");
  hardware_.copy_sm_share =
      measured(times.copy_share, "products of 1024 x 256 x 256 and adds of 2 MiB beside copies to the host");
}

void Calibration::products() {
  int count = 0;
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (int64_t m : {128, 1024}) {
      for (int64_t n : {64, 256, 1024}) {
        for (int64_t k : {64, 256, 1024}) {
          count += measure(product(OpKind::kLinear, dtype, m, n, k), kProductBytes);
          count += measure(product(OpKind::kLinearWgrad, dtype, n, k, m), kProductBytes);
        }
      }
    }
  }
  say(fmt::format("products: {} shapes and types", count));
}

void Calibration::step(const Config& size) {
  const Compiled compiled = compile_config(on_mesh(size, {}), {}, true);
  int count = 0;
  for (const Component& component : components_of(compiled.train.schedule)) {
    count += measure(component, compiled.train.plan.hbm.bytes);
  }
  say(fmt::format("ops of a step of {} x {} tokens: {}", size.train.micro_batch, size.train.seq_len,
                  count));
}

// An op over two ranks, `bytes` of the whole tensor.
Component collective(OpKind kind, int64_t bytes) {
  constexpr int kRanks = 2;
  const int64_t width = 256, rows = bytes / (width * 4);
  Schedule schedule{.buffers = {}, .slots = {{.block = "component"}}, .instrs = {}};
  const auto add = [&](const char* name, DType dtype, Shape shape) {
    schedule.buffers.push_back(
        {.name = name, .dtype = dtype, .shape = std::move(shape), .persistent = true});
  };
  Op op{.kind = kind, .in = {0}, .out = {1}, .accumulate = {false},
        .attrs = {{Attr::kAxes, axis::kExpert}, {Attr::kParts, kRanks}}};
  add("x", DType::kF32, {kind == OpKind::kAllGather ? rows / kRanks : rows, width});
  if (kind == OpKind::kAllReduce) {
    op.out = {0};
  } else {
    add("y", DType::kF32, {kind == OpKind::kReduceScatter ? rows / kRanks : rows, width});
  }
  if (kind == OpKind::kExchangeRows) {
    add("all_offsets", DType::kI32, {kRanks, kRanks + 1});
    op.in = {0, 2};
    op.attrs.set(Attr::kRows, static_cast<double>(rows));
    op.attrs.set(Attr::kDrop, 0);
  }
  schedule.instrs.push_back({.slot = 0, .stream = Stream::kComm, .op = std::move(op), .waits = {}});
  return {.schedule = std::move(schedule)};
}

constexpr std::array<std::pair<OpKind, CollectiveKind>, 4> kCollectiveOps{
    {{OpKind::kAllGather, CollectiveKind::kAllGather},
     {OpKind::kReduceScatter, CollectiveKind::kReduceScatter},
     {OpKind::kExchangeRows, CollectiveKind::kAllToAll},
     {OpKind::kAllReduce, CollectiveKind::kAllReduce}}};

std::vector<CollectiveRow> collective_rows(const DeviceOptions& options, World& world) {
  const Communicator communicator{
      .world = &world, .mesh = Mesh({.data = 1, .expert = world.size()}, world.size(), world.rank(), 0)};
  ComponentBench bench(options, kRankArenaBytes, communicator);
  std::vector<CollectiveRow> rows;
  for (const auto& [op, kind] : kCollectiveOps) {
    for (int64_t bytes : {kMiB / 16, kMiB, 8 * kMiB}) {
      Component component = collective(op, bytes);
      Attrs& attrs = component.schedule.instrs[0].op.attrs;
      if (op == OpKind::kExchangeRows) attrs.set(Attr::kPart, world.rank());
      const auto whole = static_cast<double>(bytes);
      rows.push_back({kind, world.size(), whole, whole / bench.seconds(component, kRankArenaBytes) * 1e-9});
    }
  }
  return rows;
}

void Calibration::collectives() {
  constexpr int kRanks = 2;
  const DeviceOptions options = resolved(config_.device, kRanks);
  const auto worlds = thread_worlds(kRanks);
  std::array<std::vector<CollectiveRow>, kRanks> rows;
  std::array<std::exception_ptr, kRanks> errors;
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        rows[rank] = collective_rows(options, *worlds[rank]);
      } catch (const std::exception& error) {
        errors[rank] = std::current_exception();
        worlds[rank]->abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  hardware_.collectives = {std::move(rows[0]), Mark::kMeasured,
                           fmt::format("two ranks, threads of one process with {} compute threads each; {}",
                                       options.threads, source_)};
  say(fmt::format("collectives of two ranks: {} sizes and kinds", hardware_.collectives.rows.size()));
}

// What the config says, and what nothing here could measure.
void Calibration::rest() {
  Hardware& h = hardware_;
  const auto assumed = [](double value, const char* why) { return Figure{value, Mark::kAssumed, why}; };
  h.title = fmt::format("The {} device on {}, {} threads, {}", options_.kind, cpu_model(),
                        options_.threads, today());
  h.gpus_per_socket = h.gpus_per_node = 1;
  h.gpus_per_domain = 2;
  const Figure config_bytes{0, Mark::kSpecification, "the device section of the config"};
  h.hbm_bytes = h.host_bytes_per_socket = config_bytes;
  h.hbm_bytes.value = static_cast<double>(options_.hbm_bytes);
  h.host_bytes_per_socket.value = static_cast<double>(options_.host_bytes);
  double slowest_add = h.hbm_gb_per_s.value;
  for (const MemoryOpRow& row : h.memory_ops.rows) {
    if (row.op == OpKind::kAdd) slowest_add = std::min(slowest_add, row.gb_per_s);
  }
  h.hbm_fraction = measured(slowest_add / h.hbm_gb_per_s.value, "the slowest add of memory_ops");
  h.host_gb_per_s_per_socket = h.hbm_gb_per_s;
  h.reserve_bytes = assumed(1, "the device allocates nothing beside its arenas");
  h.fp8_tflops = assumed(h.bf16_tflops.value, "this device has no fp8; as bf16");
  h.fp8_matmul = {h.bf16_matmul.rows, Mark::kAssumed, "this device has no fp8; as bf16"};
  h.sustained_fraction = measured(1, "every rate of this file is a median over many repetitions");
  h.far_socket_fraction = assumed(1, "one socket is taken to be in use");
  h.nic_gb_per_s = assumed(1, "this file describes one host; no NIC is in use");
  h.nic_latency_us = assumed(50, "this file describes one host; no NIC is in use");
  h.collective_sm_share = assumed(0.5, "one of two threads moves the bytes");
  const MatmulRow& row = h.bf16_matmul.rows.back();
  if (h.bf16_grouped.rows.empty()) {
    h.bf16_grouped = {{{1, row.m, row.n, row.k, row.tflops, row.tflops, row.tflops}}, Mark::kAssumed,
                      "the step has no experts; as a dense product"};
  }
  if (h.bf16_attention.rows.empty()) {
    h.bf16_attention = {{{128, 128, 1024, row.tflops, row.tflops}}, Mark::kAssumed,
                        "it did not fit device.hbm_gib; as a dense product"};
  }
}

}  // namespace

Hardware calibrate(const Config& config, std::ostream& out) { return Calibration(config, out).run(); }

void calibrate_to_file(const Config& config, const std::filesystem::path& file, std::ostream& out) {
  AtomicFile written(file.string());  // before minutes of work: it may not be possible
  const Hardware hardware = calibrate(config, out);
  const std::string comment = fmt::format(
      "{}.\nWritten by `spillway calibrate` for {}, {} link. Components only: see trainer/calibrate.h.\n"
      "Grouped products and attention are those of the config's compute type, {}.",
      hardware.title, config.name,
      config.device.link_gb_per_s > 0 ? fmt::format("a {} GB/s", config.device.link_gb_per_s)
                                      : "no paced",
      name_of(config.precision.compute));
  written.append(hardware_text(hardware, comment));
  written.publish();
  out << "wrote " << file.string() << "\n";
}

}  // namespace spillway
