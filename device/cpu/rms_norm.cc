// y = x * rstd * weight, rstd = 1 / sqrt(mean(x^2) + eps), row by row.
#include <cmath>

#include "device/cpu/element.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

namespace spillway::cpu {
namespace {

float sum_of_squares(const float* x, int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
  return sum;
}

struct RmsNorm {
  TensorRef x, weight, y, rstd;
  bool add_y, add_rstd;
  float eps;
  int threads;
  Workspace space;

  explicit RmsNorm(const BoundOp& op)
      : x(op.in[0]), weight(op.in[1]), y(op.out[0]), rstd(op.out[1]), add_y(op.accumulate[0]),
        add_rstd(op.accumulate[1]), eps(static_cast<float>(op.attrs.real(Attr::kEps))),
        threads(op.threads), space(op, x.width(), 2 * x.width()) {}

  void operator()() const {
    const int64_t d = x.width();
    const float* w = load(weight, 0, d, space.shared());
    for_each_row(x.rows(), d, threads, [&](int64_t row, int thread) {
      float* buffer = space.of(thread);
      const float* x_row = load(x, row * d, d, buffer);
      float* y_row = target(y, row * d, add_y, buffer + d);
      const float r = 1.0f / std::sqrt(sum_of_squares(x_row, d) / static_cast<float>(d) + eps);
#pragma omp simd
      for (int64_t i = 0; i < d; ++i) y_row[i] = x_row[i] * r * w[i];
      store(y, row * d, d, add_y, y_row);
      store(rstd, row, 1, add_rstd, &r);
    });
  }
};

// d.x = rstd * (d.y * weight) - x * rstd^3 * mean(d.y * weight * x)
// d.weight = sum over rows of d.y * x * rstd: each chunk of rows sums by itself, chunks add in order.
struct RmsNormBwd {
  static constexpr int64_t kMaxChunks = 32, kMinRows = 16;

  TensorRef x, weight, rstd, dy, dx, d_weight;
  bool add_dx, add_weight;
  int threads;
  int64_t d, chunk_rows, chunks;
  Workspace space;

  explicit RmsNormBwd(const BoundOp& op)
      : x(op.in[0]), weight(op.in[1]), rstd(op.in[2]), dy(op.in[3]), dx(op.out[0]),
        d_weight(op.out[1]), add_dx(op.accumulate[0]), add_weight(op.accumulate[1]),
        threads(op.threads), d(x.width()),
        chunk_rows(std::max(kMinRows, ceil_div(x.rows(), kMaxChunks))),
        chunks(ceil_div(x.rows(), chunk_rows)), space(op, (chunks + 1) * d, 3 * d) {}

  void operator()() const {
    float* partial = space.shared();  // [chunks, d]
    const float* w = load(weight, 0, d, partial + chunks * d);
    parallel_for(chunks, threads, [&](int64_t chunk, int thread) {
      float* sums = partial + chunk * d;
      std::fill_n(sums, d, 0.0f);
      const int64_t end = std::min(x.rows(), (chunk + 1) * chunk_rows);
      for (int64_t r = chunk * chunk_rows; r < end; ++r) row(r, w, sums, space.of(thread));
    });
    for_each_block(d, threads, [&](int64_t at, int64_t count) {
      for (int64_t chunk = 1; chunk < chunks; ++chunk) {
#pragma omp simd
        for (int64_t i = at; i < at + count; ++i) partial[i] += partial[chunk * d + i];
      }
      store(d_weight, at, count, add_weight, partial + at);
    });
  }

  void row(int64_t r, const float* w, float* sums, float* buffer) const {
    const float* x_row = load(x, r * d, d, buffer);
    const float* dy_row = load(dy, r * d, d, buffer + d);
    float* dx_row = target(dx, r * d, add_dx, buffer + 2 * d);
    const float s = elements_of<float>(rstd)[r];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < d; ++i) dot += dy_row[i] * w[i] * x_row[i];
    const float pull = dot / static_cast<float>(d) * s * s * s;
#pragma omp simd
    for (int64_t i = 0; i < d; ++i) {
      sums[i] += dy_row[i] * x_row[i] * s;
      dx_row[i] = dy_row[i] * w[i] * s - x_row[i] * pull;
    }
    store(dx, r * d, d, add_dx, dx_row);
  }
};

}  // namespace

Kernel bind_rms_norm(const BoundOp& op) { return RmsNorm(op); }
Kernel bind_rms_norm_bwd(const BoundOp& op) { return RmsNormBwd(op); }

}  // namespace spillway::cpu
