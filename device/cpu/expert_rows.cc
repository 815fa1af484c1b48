// Between tokens and the rows of their experts: copied out, weighted and summed back, and the
// gradients. place: the row of each choice, -1 if it was dropped.
#include <algorithm>

#include "device/cpu/kernels.h"
#include "device/cpu/move.h"

namespace spillway::cpu {
namespace {

// y[token] = sum of the rows of its choices, in order, each times its weight if there are weights.
struct SumRows {
  TensorRef rows, place, y;
  const float* weights;
  bool accumulate;
  int threads;

  void operator()() const {
    const int64_t d = y.width(), top_k = place.elements() / y.rows();
    for_each_row(y.rows(), top_k * d, threads, [&](int64_t token, int) {
      float sum[kBlock], buffer[kBlock];
      for (int64_t at = 0; at < d; at += kBlock) {
        const int64_t run = std::min(kBlock, d - at);
        std::fill_n(sum, run, 0.0f);
        for (int64_t choice = token * top_k; choice < (token + 1) * top_k; ++choice) {
          const int64_t row = elements_of<int32_t>(place)[choice];
          if (row < 0) continue;
          const float weight = weights ? weights[choice] : 1.0f;
          const float* x = load(rows, row * d + at, run, buffer);
#pragma omp simd
          for (int64_t i = 0; i < run; ++i) sum[i] += weight * x[i];
        }
        store(y, token * d + at, run, accumulate, sum);
      }
    });
  }
};

struct CombineBwd {
  TensorRef rows, weights, place, dy, d_rows, d_weights;
  bool add_rows, add_weights;
  int64_t d, top_k;
  int threads;
  Workspace space;

  explicit CombineBwd(const BoundOp& op)
      : rows(op.in[0]), weights(op.in[1]), place(op.in[2]), dy(op.in[3]), d_rows(op.out[0]),
        d_weights(op.out[1]), add_rows(op.accumulate[0]), add_weights(op.accumulate[1]),
        d(dy.width()), top_k(weights.width()), threads(op.threads), space(op, 0, top_k) {}

  void operator()() const {
    for_each_row(dy.rows(), 2 * top_k * d, threads, [&](int64_t token, int thread) {
      float* dots = space.of(thread);
      std::fill_n(dots, top_k, 0.0f);
      for (int64_t at = 0; at < d; at += kBlock) block(token, at, std::min(kBlock, d - at), dots);
      store(d_weights, token * top_k, top_k, add_weights, dots);
    });
    if (add_rows) return;
    // Rows are numbered without gaps: those used are the choices that were not dropped.
    const int32_t* row = elements_of<int32_t>(place);
    const int64_t used =
        std::count_if(row, row + place.elements(), [](int32_t r) { return r >= 0; });
    clear_rows(d_rows, used, threads);
  }

  // d.rows[place] = weight * d.y; d.weight = rows[place] . d.y
  void block(int64_t token, int64_t at, int64_t run, float* dots) const {
    float buffer[3][kBlock];
    const float* g = load(dy, token * d + at, run, buffer[0]);
    for (int64_t j = 0; j < top_k; ++j) {
      const int64_t choice = token * top_k + j;
      const int64_t row = elements_of<int32_t>(place)[choice];
      if (row < 0) continue;
      const float weight = elements_of<float>(weights)[choice];
      const float* x = load(rows, row * d + at, run, buffer[1]);
      float* dx = target(d_rows, row * d + at, add_rows, buffer[2]);
      double dot = 0;  // its terms cancel
#pragma omp simd reduction(+ : dot)
      for (int64_t i = 0; i < run; ++i) {
        dot += double{x[i]} * g[i];
        dx[i] = weight * g[i];
      }
      dots[j] += static_cast<float>(dot);
      store(d_rows, row * d + at, run, add_rows, dx);
    }
  }
};

}  // namespace

Kernel bind_dispatch(const BoundOp& op) {
  return [x = op.in[0], order = op.in[1], offsets = op.in[2], rows = op.out[0],
          accumulate = bool{op.accumulate[0]}, threads = op.threads] {
    const int64_t d = x.width(), top_k = rows.rows() / x.rows();
    const int64_t used = elements_of<int32_t>(offsets)[offsets.elements() - 1];
    for_each_row(used, d, threads, [&](int64_t row, int) {
      const int64_t token = elements_of<int32_t>(order)[row] / top_k;
      move(x, token * d, d, rows, row * d, accumulate);
    });
    if (!accumulate) clear_rows(rows, used, threads);
  };
}

Kernel bind_dispatch_bwd(const BoundOp& op) {
  return SumRows{op.in[0], op.in[1], op.out[0], nullptr, op.accumulate[0], op.threads};
}

Kernel bind_combine(const BoundOp& op) {
  return SumRows{op.in[0], op.in[2], op.out[0], elements_of<float>(op.in[1]), op.accumulate[0],
                 op.threads};
}

Kernel bind_combine_bwd(const BoundOp& op) { return CombineBwd(op); }

}  // namespace spillway::cpu
