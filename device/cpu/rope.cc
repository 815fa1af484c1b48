// Rotary embedding: pairs of the last rope_dim elements of each head turn by the row's position.
#include <algorithm>

#include "device/cpu/element.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

namespace spillway::cpu {
namespace {

template <int64_t kStride>
void turn(const float* a, const float* b, float* a_turned, float* b_turned, const float* cosine,
          const float* sine, int64_t pairs) {
#pragma omp simd
  for (int64_t i = 0; i < pairs; ++i) {
    const float u = a[i * kStride], v = b[i * kStride];
    a_turned[i * kStride] = u * cosine[i] - v * sine[i];
    b_turned[i * kStride] = v * cosine[i] + u * sine[i];
  }
}

struct Rope {
  TensorRef x, table, y;
  bool accumulate, interleaved;
  int64_t head_dim, half, seq;  // half: pairs of a head
  float direction;       // -1: the inverse turn
  int threads;
  Workspace space;

  Rope(const BoundOp& op, float turn)
      : x(op.in[0]), table(op.in[1]), y(op.out[0]), accumulate(op.accumulate[0]),
        interleaved(op.attrs.integer(Attr::kInterleaved) != 0),
        head_dim(op.attrs.integer(Attr::kHeadDim)),
        half(op.attrs.integer(Attr::kRopeDim) / 2), seq(table.shape[0]),
        direction(turn), threads(op.threads), space(op, 0, 2 * x.width() + 2 * half) {}

  void operator()() const {
    const int64_t width = x.width();
    for_each_row(x.rows(), width, threads, [&](int64_t row, int thread) {
      float* buffer = space.of(thread);
      float *cosine = buffer + 2 * width, *sine = cosine + half;
      const float* angles = elements_of<float>(table, row % seq * 2 * half);
      for (int64_t i = 0; i < half; ++i) {
        cosine[i] = angles[2 * i];
        sine[i] = direction * angles[2 * i + 1];
      }
      const float* x_row = load(x, row * width, width, buffer);
      float* y_row = target(y, row * width, accumulate, buffer + width);
      for (int64_t at = 0; at < width; at += head_dim) {
        const int64_t still = head_dim - 2 * half;
        std::copy_n(x_row + at, still, y_row + at);
        const float* from = x_row + at + still;
        float* to = y_row + at + still;
        if (interleaved) {
          turn<2>(from, from + 1, to, to + 1, cosine, sine, half);
        } else {
          turn<1>(from, from + half, to, to + half, cosine, sine, half);
        }
      }
      store(y, row * width, width, accumulate, y_row);
    });
  }
};

}  // namespace

Kernel bind_rope(const BoundOp& op) { return Rope(op, 1); }
Kernel bind_rope_bwd(const BoundOp& op) { return Rope(op, -1); }

}  // namespace spillway::cpu
