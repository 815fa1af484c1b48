// A shuffled order of 0 ... n-1, computed entry by entry: nothing is stored, so n may be 2^40.
#pragma once

#include <array>
#include <cstdint>

namespace spillway {

// A Feistel network permutes the smallest 4^k at or above n; an entry that lands outside [0, n) is
// fed in again until it lands inside, fewer than four times on average.
class Permutation {
 public:
  Permutation(int64_t n, uint64_t key);  // 1 <= n <= 2^62
  // Entry i of the order, for 0 <= i < n: a bijection on [0, n).
  [[nodiscard]] int64_t operator()(int64_t i) const;

 private:
  static constexpr int kRounds = 8;
  uint64_t n_;
  int half_bits_;  // k
  std::array<uint64_t, kRounds> round_keys_;
};

}  // namespace spillway
