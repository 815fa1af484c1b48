// Cross entropy of logits [T, V], and its gradient. A target < 0 leaves its row out.
#include "device/cpu/cross_entropy.h"

#include <fmt/format.h>

#include "device/cpu/kernels.h"
#include "device/cpu/move.h"
#include "program/error.h"

namespace spillway::cpu {
namespace {

void check_targets(const TensorRef& targets, int64_t vocabulary) {
  const int32_t* target = elements_of<int32_t>(targets);
  for (int64_t row = 0; row < targets.elements(); ++row) {
    if (target[row] < vocabulary) continue;
    throw DeviceError(fmt::format("target {} of row {} is outside the vocabulary [0, {})",
                                  target[row], row, vocabulary));
  }
}

}  // namespace

Kernel bind_cross_entropy(const BoundOp& op) {
  const int64_t rows = op.in[0].rows();
  return [logits = op.in[0], targets = op.in[1], scalars = op.in[2], loss = op.out[0],
          lse = op.out[1], add_loss = bool{op.accumulate[0]}, add_lse = bool{op.accumulate[1]},
          threads = op.threads, space = Workspace(op, rows, 0), rows,
          weight = weight_of(op.attrs)] {
    const int64_t vocabulary = logits.width();
    check_targets(targets, vocabulary);
    const int32_t* target = elements_of<int32_t>(targets);
    float* row_lse = space.shared();
    for_each_row(rows, vocabulary, threads,
                 [&](int64_t row, int) { row_lse[row] = log_sum_exp(logits, row, vocabulary); });
    double sum = 0;
    for (int64_t row = 0; row < rows; ++row) {
      if (target[row] < 0) continue;
      sum += double{row_lse[row]} - element(logits, row * vocabulary + target[row]);
    }
    const auto total = static_cast<float>(sum * row_scale(scalars, weight));
    store(loss, 0, 1, add_loss, &total);
    store(lse, 0, rows, add_lse, row_lse);
  };
}

Kernel bind_cross_entropy_bwd(const BoundOp& op) {
  return [logits = op.in[0], lse = op.in[1], targets = op.in[2], scalars = op.in[3],
          d_logits = op.out[0], accumulate = bool{op.accumulate[0]}, threads = op.threads,
          weight = weight_of(op.attrs), part = VocabularyPart(op.attrs, op.in[0].width())] {
    const int64_t width = logits.width();
    if (part.whole) check_targets(targets, width);
    const float scale = row_scale(scalars, weight);
    for_each_row(logits.rows(), width, threads, [&](int64_t row, int) {
      const bool valid = elements_of<int32_t>(targets)[row] >= 0;
      const int64_t right = part.column(elements_of<int32_t>(targets)[row]);
      const int64_t columns = valid ? part.count : 0;
      const float row_lse = elements_of<float>(lse)[row];
      for_each_run(logits, row, columns, [&](const float* x, int64_t at, int64_t count) {
        float buffer[kBlock];
        float* y = target(d_logits, row * width + at, accumulate, buffer);
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) y[i] = exp_f32(x[i] - row_lse) * scale;
        if (right >= at && right < at + count) y[right - at] -= scale;
        store(d_logits, row * width + at, count, accumulate, y);
      });
      if (!accumulate) clear(d_logits, row * width + columns, width - columns);
    });
  };
}

}  // namespace spillway::cpu
