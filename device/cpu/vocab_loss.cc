// Cross entropy of a vocabulary in parts: what each part knows of a row, and the loss of all.
#include <cmath>
#include <limits>

#include "device/cpu/cross_entropy.h"
#include "device/cpu/kernels.h"

namespace spillway::cpu {
namespace {

// The stats of P parts, one after another.
struct Stats {
  const float* values;
  int64_t parts, rows;

  [[nodiscard]] float lse(int64_t part, int64_t row) const { return at(part, row)[0]; }
  [[nodiscard]] const float* at(int64_t part, int64_t row) const {
    return values + (part * rows + row) * 2;
  }

  // logsumexp of the parts', in their order: the same bits wherever it is computed. A NaN does not
  // win the maximum, but it does enter the sum.
  [[nodiscard]] float whole_lse(int64_t row) const {
    float highest = -std::numeric_limits<float>::infinity();
    for (int64_t p = 0; p < parts; ++p) highest = lse(p, row) > highest ? lse(p, row) : highest;
    const double shift = std::isfinite(highest) ? highest : 0;
    double sum = 0;
    for (int64_t p = 0; p < parts; ++p) sum += std::exp(lse(p, row) - shift);
    return static_cast<float>(shift + std::log(sum));
  }

  // Every part but one says 0.
  [[nodiscard]] double target_logit(int64_t row) const {
    double sum = 0;
    for (int64_t p = 0; p < parts; ++p) sum += at(p, row)[1];
    return sum;
  }
};

}  // namespace

Kernel bind_vocab_stats(const BoundOp& op) {
  return [logits = op.in[0], targets = op.in[1], stats = op.out[0],
          part = VocabularyPart(op.attrs, op.in[0].width()), accumulate = bool{op.accumulate[0]},
          threads = op.threads] {
    for_each_row(logits.rows(), logits.width(), threads, [&](int64_t row, int) {
      const int64_t right = part.column(elements_of<int32_t>(targets)[row]);
      // Without a column: finite, so that no search for bad values stops here, and e to it is 0.
      const float none = std::numeric_limits<float>::lowest();
      const float values[2] = {part.count > 0 ? log_sum_exp(logits, row, part.count) : none,
                               right < 0 ? 0 : element(logits, row * logits.width() + right)};
      store(stats, row * 2, 2, accumulate, values);
    });
  };
}

Kernel bind_vocab_loss(const BoundOp& op) {
  const int64_t rows = op.in[1].elements();
  return [stats = Stats{elements_of<float>(op.in[0]), op.in[0].rows() / rows, rows},
          targets = op.in[1], scalars = op.in[2], loss = op.out[0], lse = op.out[1],
          add_loss = bool{op.accumulate[0]}, add_lse = bool{op.accumulate[1]},
          weight = weight_of(op.attrs)] {
    double sum = 0;
    for (int64_t row = 0; row < stats.rows; ++row) {
      const float row_lse = stats.whole_lse(row);
      store(lse, row, 1, add_lse, &row_lse);
      if (elements_of<int32_t>(targets)[row] < 0) continue;
      sum += double{row_lse} - stats.target_logit(row);
    }
    const auto total = static_cast<float>(sum * row_scale(scalars, weight));
    store(loss, 0, 1, add_loss, &total);
  };
}

}  // namespace spillway::cpu
