// Scores of one token's router logits, and the way back through them.
#pragma once

#include <cstdint>
#include <limits>

#include "device/cpu/vector_math.h"

namespace spillway::cpu {

// Keeps a division by a sum of scores defined when all of them are 0.
inline constexpr float kScoreSumFloor = 1e-20f;

// highest + log(sum) = log(sum(e^logit)). A NaN does not win the comparisons but enters the sum.
struct SoftmaxSum {
  float highest, sum;
};

inline SoftmaxSum softmax_sum(const float* logits, int64_t experts) {
  float highest = -std::numeric_limits<float>::infinity();
  float sum = 0;
#pragma omp simd reduction(max : highest)
  for (int64_t e = 0; e < experts; ++e) highest = logits[e] > highest ? logits[e] : highest;
#pragma omp simd reduction(+ : sum)
  for (int64_t e = 0; e < experts; ++e) sum += exp_f32(logits[e] - highest);
  return {highest, sum};
}

inline void sigmoid_scores(const float* logits, int64_t experts, float* scores) {
#pragma omp simd
  for (int64_t e = 0; e < experts; ++e) scores[e] = 1.0f / (1.0f + exp_f32(-logits[e]));
}

inline void softmax_scores(const float* logits, int64_t experts, float* scores) {
  const SoftmaxSum s = softmax_sum(logits, experts);
  const float inverse = 1.0f / s.sum;
#pragma omp simd
  for (int64_t e = 0; e < experts; ++e) scores[e] = exp_f32(logits[e] - s.highest) * inverse;
}

inline void router_scores(const float* logits, int64_t experts, bool sigmoid, float* scores) {
  sigmoid ? sigmoid_scores(logits, experts, scores) : softmax_scores(logits, experts, scores);
}

// d: the gradient of the scores, in place replaced by that of the logits.
inline void router_scores_bwd(const float* scores, int64_t experts, bool sigmoid, float* d) {
  if (sigmoid) {
#pragma omp simd
    for (int64_t e = 0; e < experts; ++e) d[e] *= scores[e] * (1 - scores[e]);
    return;
  }
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int64_t e = 0; e < experts; ++e) dot += d[e] * scores[e];
#pragma omp simd
  for (int64_t e = 0; e < experts; ++e) d[e] = scores[e] * (d[e] - dot);
}

}  // namespace spillway::cpu
