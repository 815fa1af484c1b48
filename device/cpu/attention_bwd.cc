// The gradient of attention. With p = e^(scores - lse) and delta = sum(d.context * context) by row:
//   d.v += p^T . d.context
//   d.scores = p * (d.context . v^T - delta)
//   d.q = scale * d.scores . k,  d.k += scale * d.scores^T . q
// A task is one kv head of one sequence: its query heads and their blocks add to d.k and d.v in order.
#include "device/cpu/attention.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"
#include "device/cpu/vector_math.h"

namespace spillway::cpu {
namespace {

class AttentionBwd {
 public:
  explicit AttentionBwd(const BoundOp& op)
      : shape_(op), q_(op.in[0]), k_(op.in[1]), v_(op.in[2]), context_(op.in[3]), lse_(op.in[4]),
        d_context_(op.in[5]), d_q_(op.out[0]), d_k_(op.out[1]), d_v_(op.out[2]),
        add_q_(op.accumulate[0]), add_k_(op.accumulate[1]), add_v_(op.accumulate[2]),
        threads_(op.threads), space_(op, 0, Buffers(shape_, nullptr).elements) {}

  void operator()() const {
    const AttentionShape& s = shape_;
    parallel_for(s.sequences * s.kv_heads, threads_, [&](int64_t task, int thread) {
      kv_head(task / s.kv_heads, task % s.kv_heads, Buffers(s, space_.of(thread)));
    });
  }

 private:
  // A thread's f32 working set.
  struct Buffers {
    float *k, *v, *dk, *dv;  // [seq, dim]; k and v are used where the tensors are bf16
    float *q, *dq, *context, *d_context;  // [kQueries, dim]
    float *p, *ds;                        // [kQueries, keys of the block]
    int64_t elements = 0;

    Buffers(const AttentionShape& s, float* base) {
      const auto take = [&](int64_t count) {
        elements += count;
        return base == nullptr ? nullptr : base + elements - count;
      };
      k = take(s.seq * s.head_dim);
      v = take(s.seq * s.v_head_dim);
      dk = take(s.seq * s.head_dim);
      dv = take(s.seq * s.v_head_dim);
      q = take(kQueries * s.head_dim);
      dq = take(kQueries * s.head_dim);
      context = take(kQueries * s.v_head_dim);
      d_context = take(kQueries * s.v_head_dim);
      p = take(kQueries * s.seq);
      ds = take(kQueries * s.seq);
    }
  };

  void kv_head(int64_t sequence, int64_t head, const Buffers& b) const {
    const AttentionShape& s = shape_;
    const Factor k = Head(k_, s.head_dim, sequence, s.seq, head).load_rows(0, s.seq, b.k);
    const Factor v = Head(v_, s.v_head_dim, sequence, s.seq, head).load_rows(0, s.seq, b.v);
    std::fill_n(b.dk, s.seq * s.head_dim, 0.0f);
    std::fill_n(b.dv, s.seq * s.v_head_dim, 0.0f);
    for (int64_t h = head * s.group(); h < (head + 1) * s.group(); ++h) {
      for (int64_t first = 0; first < s.seq; first += kQueries) {
        block(sequence, h, first, std::min(kQueries, s.seq - first), k, v, b);
      }
    }
    Head(d_k_, s.head_dim, sequence, s.seq, head).store_rows(0, s.seq, add_k_, b.dk);
    Head(d_v_, s.v_head_dim, sequence, s.seq, head).store_rows(0, s.seq, add_v_, b.dv);
  }

  void block(int64_t sequence, int64_t head, int64_t first, int64_t rows, const Factor& k,
             const Factor& v, const Buffers& b) const {
    const AttentionShape& s = shape_;
    const int64_t keys = first + rows, d = s.head_dim, vd = s.v_head_dim;
    const Factor q = Head(q_, d, sequence, s.seq, head).load_rows(first, rows, b.q);
    const Factor context =
        Head(context_, vd, sequence, s.seq, head).load_rows(first, rows, b.context);
    const Factor d_context =
        Head(d_context_, vd, sequence, s.seq, head).load_rows(first, rows, b.d_context);

    sgemm({rows, keys, d}, s.scale, q, transpose(k), false, b.p, keys);
    sgemm({rows, keys, vd}, 1.0f, d_context, transpose(v), false, b.ds, keys);
    for (int64_t i = 0; i < rows; ++i) {
      const float delta = dot(context.data + i * context.stride,
                              d_context.data + i * d_context.stride, vd);
      const int64_t lse = (sequence * s.seq + first + i) * s.heads + head;
      score_gradient(first + i + 1, keys, elements_of<float>(lse_)[lse], delta, b.p + i * keys,
                     b.ds + i * keys);
    }
    const Factor p = {b.p, keys}, ds = {b.ds, keys};
    sgemm({keys, vd, rows}, 1.0f, transpose(p), d_context, true, b.dv, vd);
    sgemm({keys, d, rows}, s.scale, transpose(ds), q, true, b.dk, d);
    sgemm({rows, d, keys}, s.scale, ds, k, false, b.dq, d);
    Head(d_q_, d, sequence, s.seq, head).store_rows(first, rows, add_q_, b.dq);
  }

  static float dot(const float* a, const float* b, int64_t count) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
    return sum;
  }

  // A row: p holds scores, ds the gradient of p. Masked keys, from `seen` on, get zeros.
  static void score_gradient(int64_t seen, int64_t keys, float lse, float delta, float* p,
                             float* ds) {
#pragma omp simd
    for (int64_t i = 0; i < seen; ++i) {
      p[i] = exp_f32(p[i] - lse);
      ds[i] = p[i] * (ds[i] - delta);
    }
    std::fill(p + seen, p + keys, 0.0f);
    std::fill(ds + seen, ds + keys, 0.0f);
  }

  AttentionShape shape_;
  TensorRef q_, k_, v_, context_, lse_, d_context_;
  TensorRef d_q_, d_k_, d_v_;
  bool add_q_, add_k_, add_v_;
  int threads_;
  Workspace space_;
};

}  // namespace

Kernel bind_attention_bwd(const BoundOp& op) { return AttentionBwd(op); }

}  // namespace spillway::cpu
