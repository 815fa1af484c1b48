#include "trainer/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "trainer/mix64.h"

namespace spillway {
namespace {

uint64_t key_of(uint64_t seed, const std::string& name) {
  uint64_t key = mix64(seed);
  for (char c : name) key = mix64(key ^ static_cast<unsigned char>(c));
  return key;
}

// Two independent normals from one 64-bit draw (Box and Muller, 1958).
void normal_pair(uint64_t bits, float stddev, float& a, float& b) {
  const double u = (static_cast<double>(bits >> 32) + 0.5) / 4294967296.0;  // in (0, 1)
  const double v = static_cast<double>(bits & 0xffffffffULL) / 4294967296.0;
  const double radius = stddev * std::sqrt(-2 * std::log(u));
  a = static_cast<float>(radius * std::cos(2 * std::numbers::pi * v));
  b = static_cast<float>(radius * std::sin(2 * std::numbers::pi * v));
}

}  // namespace

void initial_values(uint64_t seed, const std::string& name, const Init& init, int64_t first,
                    std::span<float> values) {
  std::ranges::fill(values, init.kind == Init::Kind::kOnes ? 1.0F : 0.0F);
  if (init.kind != Init::Kind::kNormal) return;
  const uint64_t key = key_of(seed, name);
  const auto elements = static_cast<int64_t>(values.size());
  for (int64_t i = -(first & 1); i < elements; i += 2) {  // pairs begin at even elements
    float a, b;
    normal_pair(mix64(key + static_cast<uint64_t>(first + i)), init.stddev, a, b);
    if (i >= 0) values[i] = a;
    if (i + 1 < elements) values[i + 1] = b;
  }
}

}  // namespace spillway
