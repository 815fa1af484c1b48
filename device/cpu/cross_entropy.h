// What cross entropy of whole logits and of parts of a vocabulary have in common.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "device/cpu/element.h"
#include "device/cpu/parallel.h"
#include "device/cpu/vector_math.h"

namespace spillway::cpu {

// The columns of logits that are tokens: token `begin` is the first, and behind `count` of them
// there is padding.
struct VocabularyPart {
  int64_t begin = 0, count;
  bool whole;

  VocabularyPart(const Attrs& attrs, int64_t width) : count(width), whole(!attrs.has(Attr::kEnd)) {
    if (whole) return;
    begin = attrs.integer(Attr::kBegin);
    count = std::clamp<int64_t>(attrs.integer(Attr::kEnd) - begin, 0, width);
  }

  // The column of a token, -1 when it is not among them.
  [[nodiscard]] int64_t column(int64_t token) const {
    return token >= begin && token < begin + count ? token - begin : -1;
  }
};

// Calls f(values, at, count) for the blocks of the first `columns` of one row of logits.
template <class F>
void for_each_run(const TensorRef& logits, int64_t row, int64_t columns, const F& f) {
  float buffer[kBlock];
  for (int64_t at = 0; at < columns; at += kBlock) {
    const int64_t count = std::min(kBlock, columns - at);
    f(load(logits, row * logits.width() + at, count, buffer), at, count);
  }
}

inline float largest(const float* x, int64_t count, float at_least) {
  float highest = at_least;
#pragma omp simd reduction(max : highest)
  for (int64_t i = 0; i < count; ++i) highest = x[i] > highest ? x[i] : highest;
  return highest;
}

inline float sum_exp(const float* x, int64_t count, float shift) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += exp_f32(x[i] - shift);
  return sum;
}

// log(sum(e^x)); of no columns -inf. f32 within a block, f64 over blocks: a vocabulary has more
// terms than f32 has bits. A NaN does not win the comparisons of the maximum, but it does enter the
// sum.
inline float log_sum_exp(const TensorRef& logits, int64_t row, int64_t columns) {
  float highest = -std::numeric_limits<float>::infinity();
  double total = 0;
  for_each_run(logits, row, columns, [&](const float* x, int64_t, int64_t count) {
    highest = largest(x, count, highest);
  });
  for_each_run(logits, row, columns, [&](const float* x, int64_t, int64_t count) {
    total += sum_exp(x, count, highest);
  });
  return static_cast<float>(double{highest} + std::log(total));
}

// What the loss of a row counts: 1 / valid tokens, times the loss's weight.
inline float row_scale(const TensorRef& scalars, float weight) {
  return elements_of<float>(scalars)[kInverseValidTokens] * weight;
}

inline float weight_of(const Attrs& attrs) {
  return attrs.has(Attr::kScale) ? static_cast<float>(attrs.real(Attr::kScale)) : 1.0f;
}

inline float element(const TensorRef& tensor, int64_t at) {
  float buffer;
  return *load(tensor, at, 1, &buffer);
}

}  // namespace spillway::cpu
