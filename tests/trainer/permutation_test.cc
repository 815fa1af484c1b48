#include "trainer/permutation.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

namespace spillway {
namespace {

TEST(Permutation, IsABijection) {
  for (const int64_t n : {1, 2, 3, 4, 5, 16, 17, 100, 255, 256, 257, 4097}) {
    for (const uint64_t key : {0, 1, 77}) {
      const Permutation permutation(n, key);
      std::vector<bool> seen(n);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t entry = permutation(i);
        ASSERT_TRUE(entry >= 0 && entry < n) << n;
        ASSERT_FALSE(seen[entry]) << n;
        seen[entry] = true;
      }
    }
  }
}

TEST(Permutation, KeysGiveDifferentOrders) {
  const Permutation a(1000, 1), b(1000, 2), again(1000, 1);
  int same = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    same += a(i) == b(i);
    EXPECT_EQ(a(i), again(i));
  }
  EXPECT_LT(same, 10);  // 1 expected
}

// Also where the halves have a single bit, every order comes up about as often as the others.
TEST(Permutation, SmallOrdersAreFair) {
  std::map<std::vector<int64_t>, int> count;
  for (uint64_t key = 0; key < 6000; ++key) {
    const Permutation permutation(3, key);
    ++count[{permutation(0), permutation(1), permutation(2)}];
  }
  EXPECT_EQ(count.size(), 6u);
  for (const auto& [order, times] : count) EXPECT_NEAR(times, 1000, 200);
}

TEST(Permutation, MovesNeighboursApart) {
  constexpr int64_t kN = 100'000;
  const Permutation permutation(kN, 3);
  double distance = 0;
  for (int64_t i = 0; i + 1 < kN; ++i) {
    distance += std::abs(static_cast<double>(permutation(i + 1) - permutation(i)));
  }
  EXPECT_NEAR(distance / kN, kN / 3.0, kN / 100.0);  // of a random order
}

TEST(Permutation, OfATrillionEntries) {
  constexpr int64_t kN = (int64_t{1} << 40) + 12345;
  const Permutation permutation(kN, 5);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t low = permutation(i), high = permutation(kN - 1 - i);
    EXPECT_TRUE(low >= 0 && low < kN && high >= 0 && high < kN);
    seen.insert({low, high});
  }
  EXPECT_EQ(seen.size(), 2000u);
  const int64_t most = Permutation(int64_t{1} << 62, 5)((int64_t{1} << 62) - 1);
  EXPECT_GE(most, 0);
}

}  // namespace
}  // namespace spillway
