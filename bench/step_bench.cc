// A training step against the products it is made of.
//
//   step_bench [CONFIG [key=value ...]]      default: configs/run/llama_25m.yaml
//
// Prints where the step's time goes by op, the step's FLOP/s, and, in the same run and on as many
// threads, what oneDNN's sgemm reaches on the same shapes: each product of the step once, alternating
// with steps so that both see the same machine.
#include <dnnl.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>

#include "program/op_table.h"
#include "trainer/session.h"

namespace spillway {
namespace {

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// C[m,n] = A[m,k] B[k,n], either operand transposed in memory.
struct Product {
  char trans_a, trans_b;
  int64_t m, n, k;
  auto operator<=>(const Product&) const = default;
};

// The products of one step, with their number.
std::map<Product, int> products(const Schedule& schedule) {
  std::map<Product, int> counts;
  for (const Instr& instr : schedule.instrs) {
    if (instr.op.recompute) continue;
    auto dim = [&](TensorId id, int i) { return schedule.buffers[id].shape[i]; };
    const auto& in = instr.op.in;
    switch (instr.op.kind) {
      case OpKind::kLinear:
        ++counts[{'N', 'T', dim(in[0], 0), dim(in[1], 0), dim(in[0], 1)}];
        break;
      case OpKind::kLinearDgrad:
        ++counts[{'N', 'N', dim(in[0], 0), dim(in[1], 1), dim(in[0], 1)}];
        break;
      case OpKind::kLinearWgrad:
        ++counts[{'T', 'N', dim(in[0], 1), dim(in[1], 1), dim(in[0], 0)}];
        break;
      // Experts share the rows evenly here; a dense product for each.
      case OpKind::kGroupedLinear: {
        const int64_t experts = dim(in[1], 0);
        counts[{'N', 'T', dim(in[0], 0) / experts, dim(in[1], 1), dim(in[0], 1)}] +=
            static_cast<int>(experts);
        break;
      }
      case OpKind::kGroupedLinearDgrad: {
        const int64_t experts = dim(in[1], 0);
        counts[{'N', 'N', dim(in[0], 0) / experts, dim(in[1], 2), dim(in[0], 1)}] +=
            static_cast<int>(experts);
        break;
      }
      case OpKind::kGroupedLinearWgrad: {
        const int64_t experts = dim(in[2], 0) - 1;
        counts[{'T', 'N', dim(in[0], 1), dim(in[1], 1), dim(in[0], 0) / experts}] +=
            static_cast<int>(experts);
        break;
      }
      default: break;
    }
  }
  return counts;
}

class BlasPass {
 public:
  explicit BlasPass(const Schedule& schedule) : products_(products(schedule)) {
    size_t most = 0;
    for (const auto& [p, count] : products_) {
      most = std::max({most, static_cast<size_t>(p.m * p.k), static_cast<size_t>(p.k * p.n),
                       static_cast<size_t>(p.m * p.n)});
      flops_ += 2.0 * static_cast<double>(p.m * p.n * p.k) * count;
    }
    a_.assign(most, 0.5F);
    b_.assign(most, 0.25F);
    c_.assign(most, 0);
  }

  [[nodiscard]] double flops() const { return flops_; }
  // Every product of a step, once for each time the step runs it.
  void run() {
    for (const auto& [p, count] : products_) {
      const int64_t lda = p.trans_a == 'N' ? p.k : p.m, ldb = p.trans_b == 'N' ? p.n : p.k;
      for (int i = 0; i < count; ++i) {
        dnnl_sgemm(p.trans_a, p.trans_b, p.m, p.n, p.k, 1, a_.data(), lda, b_.data(), ldb, 0,
                   c_.data(), p.n);
      }
    }
  }

 private:
  std::map<Product, int> products_;
  std::vector<float> a_, b_, c_;
  double flops_ = 0;
};

Batch random_batch(const Config& config) {
  std::mt19937 random(1);
  Batch batch;
  for (int64_t i = 0; i < config.train.batch_tokens(); ++i) {
    batch.tokens.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(config.vocab_size())));
    batch.targets.push_back(
        static_cast<int32_t>(random() % static_cast<unsigned>(config.vocab_size())));
  }
  batch.valid_targets = config.train.batch_tokens();
  return batch;
}

void print_profile(const Session& session, double step_seconds) {
  const Schedule& schedule = session.compiled().train.schedule;
  std::map<std::string_view, std::pair<double, double>> by_op;  // seconds, FLOPs
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    if (schedule.instrs[i].stream != Stream::kCompute) continue;
    auto& [seconds, flops] = by_op[op_info(schedule.instrs[i].op.kind).name];
    const InstrTiming& timing = session.timings()[i];
    seconds += static_cast<double>(timing.end_ns - timing.begin_ns) * 1e-9;
    flops += static_cast<double>(instr_flops(schedule, schedule.instrs[i]));
  }
  std::vector<std::pair<double, std::string_view>> order;
  for (const auto& [name, cost] : by_op) order.emplace_back(cost.first, name);
  std::sort(order.rbegin(), order.rend());
  fmt::print("{:<20} {:>9} {:>7} {:>10}\n", "op", "ms", "share", "GFLOP/s");
  for (const auto& [seconds, name] : order) {
    const double flops = by_op[name].second;
    fmt::print("{:<20} {:>9.2f} {:>6.1f}% {:>10}\n", name, seconds * 1e3,
               seconds / step_seconds * 100,
               flops > 0 ? fmt::format("{:.1f}", flops / seconds * 1e-9) : "-");
  }
}

void run(const std::string& path, const std::vector<std::string>& overrides) {
  const Config config = load_config(path, overrides);
  Session session(config);
  const Batch batch = random_batch(config);
  BlasPass blas(session.compiled().train.schedule);
  const int threads = config.device.threads > 0 ? config.device.threads : omp_get_num_procs();
  std::vector<double> step_seconds, blas_seconds;
  constexpr int kRounds = 7;
  for (int round = 0; round <= kRounds; ++round) {  // the first warms up
    const double step = session.train_step(batch, round, 1e-4).seconds;
    omp_set_num_threads(threads);
    const double products = seconds_of([&] { blas.run(); });
    if (round == 0) continue;
    step_seconds.push_back(step);
    blas_seconds.push_back(products);
  }
  const double step = median(step_seconds);
  print_profile(session, step);
  const double step_rate = static_cast<double>(session.compiled().flops) / step * 1e-9;
  const double blas_rate = blas.flops() / median(blas_seconds) * 1e-9;
  fmt::print(
      "\n{}: {} parameters, {} tokens, {} threads\nstep      {:8.1f} ms  {:7.1f} GFLOP/s (model "
      "FLOPs, median of {})\nBLAS      {:8.1f} ms  {:7.1f} GFLOP/s (oneDNN sgemm alone, the same "
      "products)\nratio     {:.3f}\n",
      config.name, session.compiled().model.parameter_count(), config.train.batch_tokens(), threads,
      step * 1e3, step_rate, kRounds, median(blas_seconds) * 1e3, blas_rate, step_rate / blas_rate);
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
  try {
    const std::string path = argc > 1 ? argv[1] : "configs/run/llama_25m.yaml";
    spillway::run(path, std::vector<std::string>(argv + std::min(argc, 2), argv + argc));
  } catch (const std::exception& error) {
    fmt::print(stderr, "step_bench: {}\n", error.what());
    return 1;
  }
}
