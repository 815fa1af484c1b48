// Causal attention, a block of queries of one head at a time:
//   scores = scale * q . k^T, p = softmax(scores), context = p . v, lse = log(sum(e^scores)).
#include "device/cpu/attention.h"

#include <cmath>
#include <limits>

#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"
#include "device/cpu/vector_math.h"

namespace spillway::cpu {
namespace {

struct SoftmaxRow {
  float sum, lse;
};

// Turns scores[0, count) into e^(score - highest). The caller divides by the sum at the end.
SoftmaxRow softmax(float* scores, int64_t count) {
  float highest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : highest)
  for (int64_t i = 0; i < count; ++i) highest = scores[i] > highest ? scores[i] : highest;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    const float e = exp_f32(scores[i] - highest);
    scores[i] = e;
    sum += e;
  }
  return {sum, highest + std::log(sum)};
}

class Attention {
 public:
  explicit Attention(const BoundOp& op)
      : shape_(op), q_(op.in[0]), k_(op.in[1]), v_(op.in[2]), context_(op.out[0]), lse_(op.out[1]),
        add_context_(op.accumulate[0]), add_lse_(op.accumulate[1]), threads_(op.threads),
        space_(op, 0, kQueries * (shape_.head_dim + shape_.v_head_dim + shape_.seq) +
                          kKeys * std::max(shape_.head_dim, shape_.v_head_dim)) {}

  // Late blocks have most keys: they go first, so that no thread starts one at the end.
  void operator()() const {
    const int64_t heads = shape_.sequences * shape_.heads;
    const int64_t blocks = ceil_div(shape_.seq, kQueries);
    parallel_for(blocks * heads, threads_, [&](int64_t task, int thread) {
      const int64_t head = task % heads;
      block(head / shape_.heads, head % shape_.heads, blocks - 1 - task / heads, space_.of(thread));
    });
  }

 private:
  static constexpr int64_t kKeys = 512;  // converted at a time, where keys and values are bf16

  // Inside the block that crosses the diagonal, masked scores become zero probabilities. They still
  // meet their values in a product: a value that is not finite also spoils the 63 rows before it.
  void block(int64_t sequence, int64_t head, int64_t index, float* buffer) const {
    const AttentionShape& s = shape_;
    const int64_t first = index * kQueries, rows = std::min(kQueries, s.seq - first);
    const int64_t keys = first + rows;
    float* q_buffer = buffer;
    float* out = q_buffer + kQueries * s.head_dim;
    float* scores = out + kQueries * s.v_head_dim;  // [rows, keys]
    float* panel = scores + kQueries * s.seq;
    const Head k(k_, s.head_dim, sequence, s.seq, head / s.group());
    const Head v(v_, s.v_head_dim, sequence, s.seq, head / s.group());
    const Factor q =
        Head(q_, s.head_dim, sequence, s.seq, head).load_rows(first, rows, q_buffer);

    for_each_panel(k, keys, panel, [&](int64_t at, int64_t count, const Factor& some_k) {
      sgemm({rows, count, s.head_dim}, s.scale, q, transpose(some_k), false, scores + at, keys);
    });
    float sums[kQueries];
    for (int64_t i = 0; i < rows; ++i) {
      float* row = scores + i * keys;
      const int64_t seen = first + i + 1;
      const auto [sum, lse] = softmax(row, seen);
      std::fill(row + seen, row + keys, 0.0f);
      sums[i] = sum;
      store(lse_, (sequence * s.seq + first + i) * s.heads + head, 1, add_lse_, &lse);
    }
    for_each_panel(v, keys, panel, [&](int64_t at, int64_t count, const Factor& some_v) {
      sgemm({rows, s.v_head_dim, count}, 1.0f, {scores + at, keys}, some_v, at > 0, out,
            s.v_head_dim);
    });
    for (int64_t i = 0; i < rows; ++i) {
#pragma omp simd
      for (int64_t j = 0; j < s.v_head_dim; ++j) out[i * s.v_head_dim + j] /= sums[i];
    }
    Head(context_, s.v_head_dim, sequence, s.seq, head).store_rows(first, rows, add_context_, out);
  }

  // Calls f(at, count, rows as f32) for stretches of [0, count): one, where they are f32 already.
  template <class F>
  static void for_each_panel(const Head& x, int64_t count, float* buffer, const F& f) {
    const int64_t step = x.tensor.dtype == DType::kF32 ? count : kKeys;
    for (int64_t at = 0; at < count; at += step) {
      const int64_t rows = std::min(step, count - at);
      f(at, rows, x.load_rows(at, rows, buffer));
    }
  }

  AttentionShape shape_;
  TensorRef q_, k_, v_, context_, lse_;
  bool add_context_, add_lse_;
  int threads_;
  Workspace space_;
};

}  // namespace

Kernel bind_attention(const BoundOp& op) { return Attention(op); }

}  // namespace spillway::cpu
