// Losses that keep a router balanced and its logits small, and their gradient. P_e is the mean over
// the S tokens of a sequence of p_te, expert e's part of token t's scores. So the losses are a sum
// over tokens: balance_loss * sum_e f_e p_te + z_loss * logsumexp(logits_t)^2, f_e being constant.
#include <algorithm>
#include <cmath>

#include "device/cpu/element.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"
#include "device/cpu/router_scores.h"

namespace spillway::cpu {
namespace {

struct RouterLoss {
  TensorRef logits, chosen, scalars, out;
  int64_t rows, experts, top_k, seq;
  bool sigmoid, accumulate;
  float balance, z;
  int threads;
  Workspace space;

  explicit RouterLoss(const BoundOp& op)
      : logits(op.in[0]), chosen(op.in[1]), scalars(op.in[2]), out(op.out[0]), rows(logits.rows()),
        experts(logits.width()), top_k(op.attrs.integer(Attr::kTopK)),
        seq(op.attrs.integer(Attr::kSeq)), sigmoid(op.attrs.integer(Attr::kSigmoid) != 0),
        accumulate(op.accumulate[0]),
        balance(static_cast<float>(op.attrs.real(Attr::kBalanceLoss))),
        z(static_cast<float>(op.attrs.real(Attr::kZLoss))), threads(op.threads),
        space(op, rows / seq * experts + rows, 2 * experts) {}

  [[nodiscard]] float* shares() const { return space.shared(); }  // f, [sequences, E]
  [[nodiscard]] float* losses() const { return shares() + rows / seq * experts; }  // [T]

  // f_e = E / (k S) * tokens of the sequence that chose e.
  void count_shares() const {
    parallel_for(rows / seq, threads, [&](int64_t sequence, int) {
      float* f = shares() + sequence * experts;
      std::fill_n(f, experts, 0.0f);
      const int32_t* expert = elements_of<int32_t>(chosen, sequence * seq * top_k);
      for (int64_t i = 0; i < seq * top_k; ++i) f[expert[i]] += 1.0f;  // exact up to 2^24
      const float factor = static_cast<float>(experts) / static_cast<float>(top_k * seq);
      for (int64_t e = 0; e < experts; ++e) f[e] *= factor;
    });
  }

  struct Token {
    float* scores;
    const float* f;
    float share;    // sum_e f_e p_te
    float divisor;  // of the scores: p_te = scores[e] / divisor
  };

  [[nodiscard]] Token token(int64_t row, float* scores) const {
    Token t = {scores, shares() + row / seq * experts, 0, kScoreSumFloor};
    router_scores(elements_of<float>(logits, row * experts), experts, sigmoid, scores);
    float dot = 0, sum = 0;
#pragma omp simd reduction(+ : dot, sum)
    for (int64_t e = 0; e < experts; ++e) {
      dot += t.f[e] * scores[e];
      sum += scores[e];
    }
    t.divisor += sum;
    t.share = dot / t.divisor;
    return t;
  }

  [[nodiscard]] static float log_sum(const SoftmaxSum& s) { return s.highest + std::log(s.sum); }

  void loss() const {
    count_shares();
    for_each_row(rows, experts, threads, [&](int64_t row, int thread) {
      const Token t = token(row, space.of(thread));
      const float lse = log_sum(softmax_sum(elements_of<float>(logits, row * experts), experts));
      losses()[row] = balance * t.share + z * lse * lse;
    });
    double sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += losses()[row];
    const auto total = static_cast<float>(sum * elements_of<float>(scalars)[kInverseValidTokens]);
    store(out, 0, 1, accumulate, &total);
  }

  // d.s_e = balance (f_e - share) / divisor; d.logit_e += 2 z lse softmax_e.
  void gradient() const {
    count_shares();
    const float scale = elements_of<float>(scalars)[kInverseValidTokens];
    for_each_row(rows, experts, threads, [&](int64_t row, int thread) {
      float* d = space.of(thread) + experts;
      const Token t = token(row, space.of(thread));
      const float factor = scale * balance / t.divisor;
#pragma omp simd
      for (int64_t e = 0; e < experts; ++e) d[e] = factor * (t.f[e] - t.share);
      router_scores_bwd(t.scores, experts, sigmoid, d);
      const float* x = elements_of<float>(logits, row * experts);
      const SoftmaxSum s = softmax_sum(x, experts);
      const float pull = scale * 2 * z * log_sum(s) / s.sum;
#pragma omp simd
      for (int64_t e = 0; e < experts; ++e) d[e] += pull * exp_f32(x[e] - s.highest);
      store(out, row * experts, experts, accumulate, d);
    });
  }
};

}  // namespace

Kernel bind_router_loss(const BoundOp& op) {
  return [loss = RouterLoss(op)] { loss.loss(); };
}

Kernel bind_router_loss_bwd(const BoundOp& op) {
  return [loss = RouterLoss(op)] { loss.gradient(); };
}

}  // namespace spillway::cpu
