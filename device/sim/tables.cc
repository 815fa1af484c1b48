#include "device/sim/tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <vector>

#include "program/error.h"

namespace spillway::sim {
namespace {

double square(double x) { return x * x; }

// The weighted mean of `rate(row)` over the rows nearest to a point; `distance` is squared.
template <typename Row, typename Distance, typename Rate>
double nearest_mean(const std::vector<Row>& rows, const Distance& distance, const Rate& rate) {
  constexpr size_t kNearest = 4;
  std::vector<std::pair<double, double>> all;  // squared distance, rate
  for (const Row& row : rows) {
    if (rate(row) > 0) all.emplace_back(distance(row), rate(row));
  }
  if (all.empty()) throw ConfigError("a hardware table that a step needs has no rows");
  const size_t count = std::min(kNearest, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(count), all.end());
  double sum = 0, weights = 0;
  for (const auto& [squared, value] : std::span(all).first(count)) {
    if (squared < 1e-12) return value;
    sum += value / squared;
    weights += 1 / squared;
  }
  return sum / weights;
}

double log_distance(double a, double b) { return square(std::log(a) - std::log(b)); }

// Piecewise linear in (x, y), x ascending. Outside: the nearest end, or beyond the last along a line
// of slope 1 (time grows with bytes).
double interpolate(const std::map<double, double>& points, double x, bool grow_beyond) {
  const auto above = points.lower_bound(x);
  if (above == points.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == points.end()) return below->second + (grow_beyond ? x - below->first : 0);
  const double part = (x - below->first) / (above->first - below->first);
  return below->second + part * (above->second - below->second);
}

// See collective_seconds(): what a table that begins at large sizes leaves open.
void add_small_sizes(std::map<double, double>& seconds_by_size) {
  constexpr double kSmall = 1 << 20, kStart = 50e-6;
  const auto [log_bytes, log_seconds] = *seconds_by_size.begin();
  if (log_bytes <= std::log(kSmall) || log_seconds <= std::log(kStart)) return;
  seconds_by_size[log_bytes + std::log(kStart) - log_seconds] = std::log(kStart);
}

}  // namespace

double matmul_flop_per_s(const Table<MatmulRow>& table, double m, double n, double k) {
  return 1e12 * nearest_mean(
                    table.rows,
                    [&](const MatmulRow& row) {
                      return log_distance(row.m, m) + log_distance(row.n, n) + log_distance(row.k, k);
                    },
                    [](const MatmulRow& row) { return row.tflops; });
}

double grouped_flop_per_s(const Table<GroupedRow>& table, Pass pass, double experts, double m,
                          double n, double k) {
  return 1e12 * nearest_mean(
                    table.rows,
                    [&](const GroupedRow& row) {
                      return log_distance(row.m, m) + log_distance(row.n, n) +
                             log_distance(row.k, k) + 0.25 * log_distance(row.experts, experts);
                    },
                    [&](const GroupedRow& row) {
                      return pass == Pass::kForward ? row.tflops
                             : pass == Pass::kDgrad ? row.dgrad_tflops
                                                    : row.wgrad_tflops;
                    });
}

double attention_flop_per_s(const Table<AttentionRow>& table, bool backward, double head_dim,
                            double v_head_dim, double seq) {
  return 1e12 * nearest_mean(
                    table.rows,
                    [&](const AttentionRow& row) {
                      return 4 * log_distance(row.head_dim, head_dim) +
                             4 * log_distance(row.v_head_dim, v_head_dim) +
                             log_distance(row.seq, seq);
                    },
                    [&](const AttentionRow& row) { return backward ? row.bwd_tflops : row.tflops; });
}

double collective_seconds(const Table<CollectiveRow>& table, CollectiveKind kind, int ranks,
                          double bytes) {
  if (ranks <= 1 || bytes <= 0) return 0;
  std::map<int, std::map<double, double>> by_ranks;  // log bytes -> log seconds
  for (const CollectiveRow& row : table.rows) {
    if (row.kind != kind) continue;
    by_ranks[row.ranks][std::log(row.bytes)] = std::log(row.bytes / (row.gb_per_s * 1e9));
  }
  for (auto& [count, points] : by_ranks) add_small_sizes(points);
  if (by_ranks.empty()) throw ConfigError("the hardware's collectives table lacks an operation");
  std::map<double, double> of_size;  // log ranks -> log seconds at this size
  for (const auto& [count, points] : by_ranks) {
    of_size[std::log(count)] = interpolate(points, std::log(bytes), true);
  }
  return std::exp(interpolate(of_size, std::log(ranks), false));
}

}  // namespace spillway::sim
