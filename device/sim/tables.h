// Rates between the rows of a hardware file's tables.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "device/hardware.h"

namespace spillway::sim {

// Element type of a product's operands.
enum class Operands : uint8_t { kBF16, kFp8, kF32 };
enum class Pass : uint8_t { kForward, kDgrad, kWgrad };

// The tables in logarithms, so that a look-up is a few dozen additions. All throw ConfigError when the
// hardware has no row for what they ask.
class Rates {
 public:
  explicit Rates(const Hardware& hardware);

  // Achieved FLOP/s. Rows nearest in (log m, log n, log k) count most: inverse-square weights of the
  // four nearest, so a shape of the table gets its own row.
  [[nodiscard]] double matmul(Operands operands, double m, double n, double k) const;
  [[nodiscard]] double grouped(Pass pass, double experts, double m, double n, double k) const;
  [[nodiscard]] double attention(bool backward, double head_dim, double v_head_dim,
                                 double seq) const;

  // Bytes/s of a memory-bound op that moves so many; 0 when the table has no row for it.
  [[nodiscard]] double memory_op(OpKind op, double bytes) const;

  // Seconds of a collective of `bytes` (CollectiveRow) among `ranks` of one domain: interpolated in
  // log(time) over log(bytes) and log(ranks); above the largest size its bandwidth. Below the smallest
  // its time, when that is a size where starting is all that counts (1 MiB); else its bandwidth down to
  // 50 us, an assumption.
  [[nodiscard]] double collective_seconds(CollectiveKind kind, int ranks, double bytes) const;

 private:
  using Point = std::array<double, 4>;
  struct Row {
    Point at;                     // logarithms
    std::array<double, 3> rates;  // FLOP/s by Pass; 0: not known
  };
  using Curve = std::vector<std::pair<double, double>>;  // logarithms; the first ascending
  struct CollectiveCurve {                               // bytes and seconds, of one count of ranks
    double log_ranks;
    Curve points;
  };
  static constexpr int kKinds = 4;

  void read_collectives(const Table<CollectiveRow>& table);
  [[nodiscard]] static double near(const std::vector<Row>& rows, Pass pass, const Point& weights,
                                   const Point& at);

  std::array<std::vector<Row>, 3> matmul_;  // by Operands
  double f32_peak_;                         // FLOP/s where there are no rows of f32 products
  std::vector<Row> grouped_, attention_;
  std::array<Curve, kOpKindCount> memory_ops_;          // bytes and bytes/s
  std::array<std::vector<CollectiveCurve>, kKinds> collectives_;  // by kind; ranks ascending
};

}  // namespace spillway::sim
