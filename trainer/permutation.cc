#include "trainer/permutation.h"

#include <bit>

#include "trainer/mix64.h"

namespace spillway {

Permutation::Permutation(int64_t n, uint64_t key)
    : n_(static_cast<uint64_t>(n)), half_bits_((std::bit_width(n_ - 1) + 1) / 2) {
  for (uint64_t& round_key : round_keys_) round_key = key = mix64(key);
}

int64_t Permutation::operator()(int64_t i) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto x = static_cast<uint64_t>(i);
  do {
    uint64_t left = x >> half_bits_, right = x & mask;
    for (const uint64_t round_key : round_keys_) {
      const uint64_t next = left ^ (mix64(right ^ round_key) & mask);
      left = right;
      right = next;
    }
    x = (left << half_bits_) | right;
  } while (x >= n_);
  return static_cast<int64_t>(x);
}

}  // namespace spillway
