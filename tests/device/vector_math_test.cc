#include "device/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "device/cpu/element.h"

namespace spillway::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Distance in units of the last place of the right answer.
double ulps(float got, double expected) {
  int exponent;
  std::frexp(expected, &exponent);
  return std::abs(got - expected) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

// Every 251st float (an odd step, so that all low bits occur).
TEST(Exp, StaysWithinItsErrorBound) {
  double worst = 0;
  for (uint32_t bits = 0; bits < 0xff800000; bits += 251) {
    const float x = std::bit_cast<float>(bits);
    const double expected = std::exp(double{x});
    if (expected > std::numeric_limits<float>::max() || std::isnan(x)) continue;
    worst = std::max(worst, ulps(exp_f32(x), expected));
  }
  EXPECT_LE(worst, 1.1);
}

TEST(Exp, Ends) {
  EXPECT_EQ(exp_f32(0), 1.0f);
  EXPECT_EQ(exp_f32(-kInfinity), 0.0f);
  EXPECT_EQ(exp_f32(-200.0f), 0.0f);
  EXPECT_EQ(exp_f32(kInfinity), kInfinity);
  EXPECT_EQ(exp_f32(88.8f), kInfinity);
  EXPECT_TRUE(std::isnan(exp_f32(kNan)));
  EXPECT_TRUE(std::isnan(exp_f32(-kNan)));
}

TEST(Bf16, RoundsToNearestEven) {
  const auto bits = [](uint32_t f32) { return to_bf16(std::bit_cast<float>(f32)); };
  EXPECT_EQ(bits(0x3f800000), 0x3f80);
  EXPECT_EQ(bits(0x3f807fff), 0x3f80);
  EXPECT_EQ(bits(0x3f808000), 0x3f80);  // a tie: down to even
  EXPECT_EQ(bits(0x3f818000), 0x3f82);  // a tie: up to even
  EXPECT_EQ(bits(0x3f808001), 0x3f81);
  EXPECT_EQ(bits(0x7f7fffff), 0x7f80);  // beyond the largest: infinity
  EXPECT_EQ(bits(0xff800000), 0xff80);
}

TEST(Bf16, KeepsNan) {
  for (uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xffffffffu, 0xff800001u}) {
    EXPECT_TRUE(std::isnan(from_bf16(to_bf16(std::bit_cast<float>(nan)))));
  }
}

}  // namespace
}  // namespace spillway::cpu
