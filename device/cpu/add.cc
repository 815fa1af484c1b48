#include "device/cpu/element.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

namespace spillway::cpu {

Kernel bind_add(const BoundOp& op) {
  return [a = op.in[0], b = op.in[1], y = op.out[0], accumulate = bool{op.accumulate[0]},
          threads = op.threads] {
    for_each_block(y.elements(), threads, [&](int64_t at, int64_t count) {
      float buffer[3][kBlock];
      const float* a_f32 = load(a, at, count, buffer[0]);
      const float* b_f32 = load(b, at, count, buffer[1]);
      float* y_f32 = target(y, at, accumulate, buffer[2]);
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) y_f32[i] = a_f32[i] + b_f32[i];
      store(y, at, count, accumulate, y_f32);
    });
  };
}

}  // namespace spillway::cpu
