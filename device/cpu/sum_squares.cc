// The sum of squares in f64: blocks sum by themselves, then add in order.
#include "device/cpu/element.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

namespace spillway::cpu {

Kernel bind_sum_squares(const BoundOp& op) {
  const int64_t blocks = ceil_div(op.in[0].elements(), kBlock);
  return [x = op.in[0], y = op.out[0], accumulate = bool{op.accumulate[0]}, threads = op.threads,
          blocks, space = Workspace(op, 2 * blocks, 0)] {
    auto* partial = reinterpret_cast<double*>(space.shared());
    for_each_block(x.elements(), threads, [&](int64_t at, int64_t count) {
      float buffer[kBlock];
      const float* v = load(x, at, count, buffer);
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(v[i]) * v[i];
      partial[at / kBlock] = sum;
    });
    double total = 0;
    for (int64_t i = 0; i < blocks; ++i) total += partial[i];
    const auto rounded = static_cast<float>(total);
    store(y, 0, 1, accumulate, &rounded);
  };
}

}  // namespace spillway::cpu
