// Functions that loops under `#pragma omp simd` turn into vector code.
#pragma once

#include <bit>
#include <cstdint>

namespace spillway::cpu {

// 2^n for -126 <= n <= 127.
inline float power_of_two(int32_t n) {
  return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

// e^x to 1.1 units in the last place, below 2^-126 to one unit of the smallest f32 (measured on
// every 7th float, with and without fused multiply-add). e^inf = inf, e^-inf = 0, e^NaN = NaN.
inline float exp_f32(float x) {
  // Beyond these the result is infinite or zero whatever x is. A NaN fails both tests and stays.
  x = x > 89.0f ? 89.0f : x;
  x = x < -105.0f ? -105.0f : x;
  // x = n ln2 + r, |r| <= ln2/2. Adding 1.5 * 2^23 leaves n in the low bits of the sum.
  const float shifted = x * 1.44269504088896341f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // n reaches 128 and -151: two factors, so that overflow and underflow happen in the product.
  const auto e = static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - 0x4b400000u);
  const int32_t half = e >> 1;
  return p * power_of_two(half) * power_of_two(e - half);
}

}  // namespace spillway::cpu
