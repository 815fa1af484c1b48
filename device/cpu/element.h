// Elements of f32 and bf16 tensors as runs of f32. Kernels are written once, for f32: a tensor that is
// f32 is read and written in place, a bf16 one goes through a buffer that stays in cache.
#pragma once

#include <bit>
#include <cstdint>

#include "device/cpu/kernel.h"

namespace spillway::cpu {

inline float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// To nearest, ties to even. A NaN stays one: rounding up could carry it into infinity or zero.
inline uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

// A tensor is read as T*: f32 float, bf16 uint16_t, i32 int32_t.
template <class T>
T* elements_of(const TensorRef& tensor, int64_t at = 0) {
  return static_cast<T*>(tensor.data) + at;
}

// Elements [at, at + count) as f32: the tensor's own memory, or `buffer` filled from bf16.
inline const float* load(const TensorRef& tensor, int64_t at, int64_t count, float* buffer) {
  if (tensor.dtype == DType::kF32) return elements_of<float>(tensor, at);
  const uint16_t* x = elements_of<uint16_t>(tensor, at);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) buffer[i] = from_bf16(x[i]);
  return buffer;
}

// Where to compute the elements from `at` on: the tensor's own memory when f32 values may go straight
// there, else `buffer`. store() finishes.
inline float* target(const TensorRef& tensor, int64_t at, bool accumulate, float* buffer) {
  const bool in_place = tensor.dtype == DType::kF32 && !accumulate;
  return in_place ? elements_of<float>(tensor, at) : buffer;
}

// Writes `count` values, or adds them: read, add in f32, round once. Nothing to do for values that
// target() let go straight to the tensor.
inline void store(const TensorRef& tensor, int64_t at, int64_t count, bool accumulate,
                  const float* values) {
  if (tensor.dtype == DType::kF32) {
    float* y = elements_of<float>(tensor, at);
    if (y == values) return;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = accumulate ? y[i] + values[i] : values[i];
  } else {
    uint16_t* y = elements_of<uint16_t>(tensor, at);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      y[i] = to_bf16(accumulate ? from_bf16(y[i]) + values[i] : values[i]);
    }
  }
}

}  // namespace spillway::cpu
