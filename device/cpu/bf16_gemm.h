// A bf16 matrix product of one thread whose sizes are known only when it runs, as those of experts
// are. See bf16_matmul.h for fixed sizes.
#pragma once

#include <cstdint>

#include "device/cpu/sgemm.h"

namespace spillway::cpu {

struct Bf16Factor {
  const uint16_t* data;
  int64_t stride;
  bool transposed = false;
};

// False when the processor (or oneDNN) has nothing better for it than f32 products.
[[nodiscard]] bool has_bf16_gemm();

// As sgemm, with a scale of 1. Sums are f32. Requires has_bf16_gemm().
void bf16_gemm(const ProductShape& shape, const Bf16Factor& a, const Bf16Factor& b, bool accumulate,
               float* c, int64_t c_stride);

}  // namespace spillway::cpu
