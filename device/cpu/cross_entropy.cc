// Cross entropy of logits [T, V], and its gradient. A target < 0 leaves its row out.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "device/cpu/element.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"
#include "device/cpu/vector_math.h"
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

// Calls f(values, at, count) for the blocks of one row of logits.
template <class F>
void for_each_run(const TensorRef& logits, int64_t row, const F& f) {
  const int64_t width = logits.width();
  float buffer[kBlock];
  for (int64_t at = 0; at < width; at += kBlock) {
    const int64_t count = std::min(kBlock, width - at);
    f(load(logits, row * width + at, count, buffer), at, count);
  }
}

float largest(const float* x, int64_t count, float at_least) {
  float highest = at_least;
#pragma omp simd reduction(max : highest)
  for (int64_t i = 0; i < count; ++i) highest = x[i] > highest ? x[i] : highest;
  return highest;
}

float sum_exp(const float* x, int64_t count, float shift) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += exp_f32(x[i] - shift);
  return sum;
}

// log(sum(e^x)). f32 within a block, f64 over blocks: a vocabulary has more terms than f32 has
// bits. A NaN does not win the comparisons of the maximum, but it does enter the sum.
float log_sum_exp(const TensorRef& logits, int64_t row) {
  float highest = -std::numeric_limits<float>::infinity();
  double total = 0;
  for_each_run(logits, row, [&](const float* x, int64_t, int64_t count) {
    highest = largest(x, count, highest);
  });
  for_each_run(logits, row, [&](const float* x, int64_t, int64_t count) {
    total += sum_exp(x, count, highest);
  });
  return static_cast<float>(double{highest} + std::log(total));
}

// What the loss of a row counts: 1 / valid tokens, times the loss's weight.
float row_scale(const TensorRef& scalars, float weight) {
  return elements_of<float>(scalars)[kInverseValidTokens] * weight;
}

float weight_of(const Attrs& attrs) {
  return attrs.has(Attr::kScale) ? static_cast<float>(attrs.real(Attr::kScale)) : 1.0f;
}

float element(const TensorRef& tensor, int64_t at) {
  float buffer;
  return *load(tensor, at, 1, &buffer);
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
                 [&](int64_t row, int) { row_lse[row] = log_sum_exp(logits, row); });
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
          weight = weight_of(op.attrs)] {
    const int64_t vocabulary = logits.width();
    check_targets(targets, vocabulary);
    const float scale = row_scale(scalars, weight);
    for_each_row(logits.rows(), vocabulary, threads, [&](int64_t row, int) {
      const int64_t right = elements_of<int32_t>(targets)[row];
      const float row_lse = elements_of<float>(lse)[row];
      for_each_run(logits, row, [&](const float* x, int64_t at, int64_t count) {
        float buffer[kBlock];
        float* y = target(d_logits, row * vocabulary + at, accumulate, buffer);
        if (right < 0) {
          std::fill_n(y, count, 0.0f);
        } else {
#pragma omp simd
          for (int64_t i = 0; i < count; ++i) y[i] = exp_f32(x[i] - row_lse) * scale;
          if (right >= at && right < at + count) y[right - at] -= scale;
        }
        store(d_logits, row * vocabulary + at, count, accumulate, y);
      });
    });
  };
}

}  // namespace spillway::cpu
