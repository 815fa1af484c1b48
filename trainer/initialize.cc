#include "trainer/initialize.h"

#include <cmath>
#include <numbers>

namespace spillway {
namespace {

// SplitMix64's finaliser (Steele, Lea and Flood, 2014): a bijection that mixes every bit.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

uint64_t key_of(uint64_t seed, const std::string& name) {
  uint64_t key = mix(seed + 0x9e3779b97f4a7c15ULL);
  for (char c : name) key = mix(key ^ static_cast<unsigned char>(c));
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

std::vector<float> initial_values(uint64_t seed, const std::string& name, const Init& init,
                                  int64_t elements) {
  std::vector<float> values(static_cast<size_t>(elements),
                            init.kind == Init::Kind::kOnes ? 1.0F : 0.0F);
  if (init.kind != Init::Kind::kNormal) return values;
  const uint64_t key = key_of(seed, name);
  for (int64_t i = 0; i < elements; i += 2) {
    float a, b;
    normal_pair(mix(key + static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15ULL), init.stddev, a, b);
    values[i] = a;
    if (i + 1 < elements) values[i + 1] = b;
  }
  return values;
}

}  // namespace spillway
