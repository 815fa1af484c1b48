#include "device/sim/tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "program/error.h"

namespace spillway::sim {
namespace {

std::array<double, 4> logs(double a, double b, double c, double d = 1) {
  return {std::log(a), std::log(b), std::log(c), std::log(d)};
}

// Piecewise linear in (x(i), y(i)), x ascending. Outside: the nearest end, or beyond the last along a line
// of slope 1 (time grows with bytes).
template <typename X, typename Y>
double interpolate(size_t count, const X& x, const Y& y, double at, bool grow_beyond) {
  size_t above = 0;
  while (above < count && x(above) < at) ++above;
  if (above == 0) return y(0);
  const size_t below = above - 1;
  if (above == count) return y(below) + (grow_beyond ? at - x(below) : 0);
  const double part = (at - x(below)) / (x(above) - x(below)), from = y(below);
  return from + part * (y(above) - from);
}

double interpolate(const std::vector<std::pair<double, double>>& points, double at, bool grow_beyond) {
  return interpolate(points.size(), [&](size_t i) { return points[i].first; },
                     [&](size_t i) { return points[i].second; }, at, grow_beyond);
}

// See collective_seconds(): what a table that begins at large sizes leaves open.
void add_small_sizes(std::map<double, double>& seconds_by_size) {
  constexpr double kSmall = 1 << 20, kStart = 50e-6;
  const auto [log_bytes, log_seconds] = *seconds_by_size.begin();
  if (log_bytes <= std::log(kSmall) || log_seconds <= std::log(kStart)) return;
  seconds_by_size[log_bytes + std::log(kStart) - log_seconds] = std::log(kStart);
}

}  // namespace

Rates::Rates(const Hardware& hardware) : f32_peak_(hardware.f32_tflops.value * 1e12) {
  const std::array tables = {&hardware.bf16_matmul, &hardware.fp8_matmul,
                             &hardware.f32_matmul};  // by Operands
  for (size_t i = 0; i < tables.size(); ++i) {
    for (const MatmulRow& row : tables[i]->rows) {
      matmul_[i].push_back({logs(row.m, row.n, row.k), {row.tflops * 1e12}});
    }
  }
  for (const GroupedRow& row : hardware.bf16_grouped.rows) {
    grouped_.push_back({logs(row.m, row.n, row.k, row.experts),
                        {row.tflops * 1e12, row.dgrad_tflops * 1e12, row.wgrad_tflops * 1e12}});
  }
  for (const AttentionRow& row : hardware.bf16_attention.rows) {
    attention_.push_back({logs(row.head_dim, row.v_head_dim, row.seq),
                          {row.tflops * 1e12, row.bwd_tflops * 1e12}});
  }
  for (const MemoryOpRow& row : hardware.memory_ops.rows) {
    memory_ops_[static_cast<size_t>(row.op)].emplace_back(std::log(row.bytes),
                                                          std::log(row.gb_per_s * 1e9));
  }
  for (Curve& curve : memory_ops_) std::ranges::sort(curve);
  read_collectives(hardware.collectives);
}

void Rates::read_collectives(const Table<CollectiveRow>& table) {
  std::array<std::map<int, std::map<double, double>>, kKinds> sorted;
  for (const CollectiveRow& row : table.rows) {
    sorted[static_cast<size_t>(row.kind)][row.ranks][std::log(row.bytes)] =
        std::log(row.bytes / (row.gb_per_s * 1e9));
  }
  for (size_t kind = 0; kind < kKinds; ++kind) {
    for (auto& [ranks, points] : sorted[kind]) {
      add_small_sizes(points);
      collectives_[kind].push_back({std::log(ranks), {points.begin(), points.end()}});
    }
  }
}

double Rates::near(const std::vector<Row>& rows, Pass pass, const Point& weights, const Point& at) {
  struct Neighbour {
    double squared = std::numeric_limits<double>::infinity(), rate = 0;
    auto operator<=>(const Neighbour&) const = default;
  };
  std::array<Neighbour, 4> nearest;  // the nearest first
  for (const Row& row : rows) {
    const double rate = row.rates[static_cast<size_t>(pass)];
    if (rate <= 0) continue;
    double squared = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      squared += weights[i] * (row.at[i] - at[i]) * (row.at[i] - at[i]);
    }
    if (const Neighbour here{squared, rate}; here < nearest.back()) nearest.back() = here;
    for (size_t i = nearest.size() - 1; i > 0 && nearest[i] < nearest[i - 1]; --i) {
      std::swap(nearest[i], nearest[i - 1]);
    }
  }
  if (nearest[0].rate == 0) throw ConfigError("a hardware table that a step needs has no rows");
  double sum = 0, total = 0;
  for (const auto& [squared, rate] : nearest) {
    if (squared < 1e-12) return rate;
    sum += rate / squared;
    total += 1 / squared;
  }
  return sum / total;
}

double Rates::matmul(Operands operands, double m, double n, double k) const {
  if (operands == Operands::kF32 && matmul_[static_cast<size_t>(operands)].empty()) return f32_peak_;
  return near(matmul_[static_cast<size_t>(operands)], Pass::kForward, {1, 1, 1, 0}, logs(m, n, k));
}

double Rates::grouped(Pass pass, double experts, double m, double n, double k) const {
  return near(grouped_, pass, {1, 1, 1, 0.25}, logs(m, n, k, experts));
}

double Rates::attention(bool backward, double head_dim, double v_head_dim, double seq) const {
  return near(attention_, backward ? Pass::kDgrad : Pass::kForward, {4, 4, 1, 0},
              logs(head_dim, v_head_dim, seq));
}

double Rates::memory_op(OpKind op, double bytes) const {
  const Curve& curve = memory_ops_[static_cast<size_t>(op)];
  if (curve.empty()) return 0;
  return std::exp(interpolate(curve, std::log(std::max(bytes, 1.0)), false));
}

double Rates::collective_seconds(CollectiveKind kind, int ranks, double bytes) const {
  if (ranks <= 1 || bytes <= 0) return 0;
  const std::vector<CollectiveCurve>& curves = collectives_[static_cast<size_t>(kind)];
  if (curves.empty()) throw ConfigError("the hardware's collectives table lacks an operation");
  const double log_bytes = std::log(bytes);
  const auto seconds = [&](size_t i) {  // log seconds among curves[i]'s ranks
    return interpolate(curves[i].points, log_bytes, true);
  };
  return std::exp(interpolate(curves.size(), [&](size_t i) { return curves[i].log_ranks; }, seconds,
                              std::log(ranks), false));
}

}  // namespace spillway::sim
