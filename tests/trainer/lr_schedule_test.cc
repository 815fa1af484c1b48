#include "trainer/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace spillway {
namespace {

constexpr LrKind kDecaying[] = {LrKind::kLinear, LrKind::kCosine, LrKind::kWsd};

std::vector<double> rates(const LrSchedule& schedule, int64_t total) {
  std::vector<double> result;
  for (int64_t step = 0; step < total; ++step) {
    result.push_back(learning_rate(schedule, step, total));
  }
  return result;
}

// Warm-up and run of odd lengths: where schedules of other trainers were off by one.
TEST(LrSchedule, FirstStepTrainsAndLastStepIsTheFloor) {
  const std::pair<int64_t, int64_t> table[] = {{0, 1}, {1, 1}, {4, 10}, {10, 10}, {11, 10}};
  for (const auto& [warmup, total] : table) {
    for (const LrKind kind : kDecaying) {
      const LrSchedule schedule{kind, 1.0, warmup, 3, 0.1};
      const std::vector<double> rate = rates(schedule, total);
      EXPECT_GT(rate.front(), 0) << warmup << " " << total;
      EXPECT_DOUBLE_EQ(rate.back(), 0.1) << warmup << " " << total;
      EXPECT_DOUBLE_EQ(learning_rate(schedule, total + 5, total), 0.1);
      for (const double r : rate) EXPECT_TRUE(r >= 0 && r <= 1.0);
    }
    const LrSchedule constant{LrKind::kConstant, 1.0, warmup, 0, 0.1};
    EXPECT_GT(rates(constant, total).front(), 0);
  }
}

TEST(LrSchedule, WarmUpClimbsInEqualStepsToThePeak) {
  for (const LrKind kind : {LrKind::kConstant, LrKind::kLinear, LrKind::kCosine, LrKind::kWsd}) {
    const std::vector<double> rate = rates({kind, 2.0, 4, 2, 0.5}, 10);
    EXPECT_DOUBLE_EQ(rate[0], 0.5);
    EXPECT_DOUBLE_EQ(rate[1], 1.0);
    EXPECT_DOUBLE_EQ(rate[3], 2.0);
  }
}

TEST(LrSchedule, WithoutWarmUpTheFirstStepIsThePeak) {
  for (const LrKind kind : kDecaying) {
    EXPECT_DOUBLE_EQ(rates({kind, 2.0, 0, 2, 0.5}, 10).front(), 2.0);
  }
}

TEST(LrSchedule, Shapes) {
  const std::vector<double> linear = rates({LrKind::kLinear, 1.0, 0, 0, 0.0}, 11);
  const std::vector<double> cosine = rates({LrKind::kCosine, 1.0, 0, 0, 0.0}, 11);
  const std::vector<double> wsd = rates({LrKind::kWsd, 1.0, 0, 4, 0.0}, 11);
  for (int i = 0; i <= 10; ++i) {
    EXPECT_NEAR(linear[i], 1.0 - i / 10.0, 1e-15);
    EXPECT_NEAR(cosine[i], 0.5 * (1 + std::cos(std::acos(-1.0) * i / 10.0)), 1e-15);
    EXPECT_NEAR(wsd[i], i <= 6 ? 1.0 : (10 - i) / 4.0, 1e-15);
  }
}

TEST(LrSchedule, AOneStepRunWithFloorZeroStillTrains) {
  for (const LrKind kind : kDecaying) {
    EXPECT_EQ(learning_rate({kind, 1.0, 0, 1, 0.0}, 0, 1), 1.0);
  }
}

TEST(LrSchedule, WsdDecayLongerThanTheRun) {
  const std::vector<double> rate = rates({LrKind::kWsd, 1.0, 2, 100, 0.1}, 10);
  EXPECT_DOUBLE_EQ(rate[1], 1.0);
  EXPECT_DOUBLE_EQ(rate[9], 0.1);
}

TEST(LrSchedule, LongRuns) {
  const int64_t total = int64_t{1} << 40;
  const LrSchedule schedule{LrKind::kCosine, 1.0, 2000, 0, 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, total - 1, total), 0.1);
  EXPECT_NEAR(learning_rate(schedule, total / 2, total), 0.55, 1e-6);
}

}  // namespace
}  // namespace spillway
