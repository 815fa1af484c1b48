// y = silu(gate) * up, silu(g) = g * s, s = 1 / (1 + e^-g).
#include "device/cpu/element.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"
#include "device/cpu/vector_math.h"

namespace spillway::cpu {

Kernel bind_swiglu(const BoundOp& op) {
  return [gate = op.in[0], up = op.in[1], y = op.out[0], accumulate = bool{op.accumulate[0]},
          threads = op.threads] {
    for_each_block(y.elements(), threads, [&](int64_t at, int64_t count) {
      float buffer[3][kBlock];
      const float* g = load(gate, at, count, buffer[0]);
      const float* u = load(up, at, count, buffer[1]);
      float* result = target(y, at, accumulate, buffer[2]);
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) result[i] = g[i] / (1.0f + exp_f32(-g[i])) * u[i];
      store(y, at, count, accumulate, result);
    });
  };
}

// d.up = d.y * silu(gate); d.gate = d.y * up * s * (1 + gate * (1 - s)).
Kernel bind_swiglu_bwd(const BoundOp& op) {
  return [gate = op.in[0], up = op.in[1], dy = op.in[2], d_gate = op.out[0], d_up = op.out[1],
          add_gate = bool{op.accumulate[0]}, add_up = bool{op.accumulate[1]},
          threads = op.threads] {
    for_each_block(gate.elements(), threads, [&](int64_t at, int64_t count) {
      float buffer[5][kBlock];
      const float* g = load(gate, at, count, buffer[0]);
      const float* u = load(up, at, count, buffer[1]);
      const float* d = load(dy, at, count, buffer[2]);
      float* dg = target(d_gate, at, add_gate, buffer[3]);
      float* du = target(d_up, at, add_up, buffer[4]);
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        const float s = 1.0f / (1.0f + exp_f32(-g[i]));
        dg[i] = d[i] * u[i] * s * (1.0f + g[i] * (1.0f - s));
        du[i] = d[i] * g[i] * s;
      }
      store(d_gate, at, count, add_gate, dg);
      store(d_up, at, count, add_up, du);
    });
  };
}

}  // namespace spillway::cpu
