// A 64-bit hash for reproducible pseudo-random choices.
#pragma once

#include <cstdint>

namespace spillway {

// The output function of splitmix64: a bijection whose every output bit depends on every input bit.
[[nodiscard]] constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace spillway
