#include "device/sim/fluid.h"

#include <gmock/gmock.h>

#include <random>

namespace spillway::sim {
namespace {

using ::testing::ElementsAre;

Cost cost(double seconds, std::initializer_list<std::pair<Resource, double>> shares) {
  Cost result{.seconds = seconds};
  for (const auto& [resource, share] : shares) result.of(resource) = share;
  return result;
}

std::vector<int> next(Fluid& fluid) {
  const std::span<const int> ended = fluid.advance_to(fluid.next_end());
  return {ended.begin(), ended.end()};
}

TEST(Fluid, TasksThatShareNothingRunAsIfAlone) {
  Fluid fluid(4);
  fluid.start(1, cost(1, {{Resource::kMultiprocessors, 1}}));
  fluid.start(2, cost(2, {{Resource::kLinkOut, 1}}));
  EXPECT_THAT(next(fluid), ElementsAre(1));
  EXPECT_EQ(fluid.now(), to_picoseconds(1));
  EXPECT_THAT(next(fluid), ElementsAre(2));
  EXPECT_EQ(fluid.now(), to_picoseconds(2));
}

TEST(Fluid, WhatIsWantedTwiceIsHalved) {
  Fluid fluid(4);
  fluid.start(1, cost(1, {{Resource::kHostMemory, 1}}));
  fluid.start(2, cost(1, {{Resource::kHostMemory, 1}}));
  EXPECT_THAT(next(fluid), ElementsAre(1, 2));
  EXPECT_EQ(fluid.now(), to_picoseconds(2));
}

TEST(Fluid, ATaskSpeedsUpWhenTheOtherEnds) {
  Fluid fluid(4);
  fluid.start(1, cost(1, {{Resource::kHbm, 1}}));
  fluid.start(2, cost(2, {{Resource::kHbm, 1}}));
  EXPECT_THAT(next(fluid), ElementsAre(1));
  EXPECT_EQ(fluid.now(), to_picoseconds(2));
  EXPECT_THAT(next(fluid), ElementsAre(2));
  EXPECT_EQ(fluid.now(), to_picoseconds(3));
}

TEST(Fluid, CollectivesTakeMultiprocessorsFromCompute) {
  Fluid fluid(4);
  fluid.start(1, cost(0.8, {{Resource::kMultiprocessors, 1}}));
  fluid.start(2, cost(5, {{Resource::kMultiprocessors, 0.2}, {Resource::kNvlink, 1}}));
  EXPECT_THAT(next(fluid), ElementsAre(1));
  EXPECT_EQ(fluid.now(), to_picoseconds(1));
  EXPECT_THAT(next(fluid), ElementsAre(2));
  EXPECT_EQ(fluid.now(), to_picoseconds(5));
}

TEST(Fluid, LongTasksDoNotOverflow) {
  Fluid fluid(4);
  for (int i = 0; i < 1000; ++i) {
    fluid.start(i, cost(100, {{Resource::kHbm, 1}}));
    while (fluid.next_end() != kNever) (void)next(fluid);
  }
  EXPECT_EQ(fluid.now(), to_picoseconds(100000));
}

TEST(Fluid, WhoDoesNotWantWhatIsShortIsNotSlowed) {
  Fluid fluid(4);
  fluid.start(1, cost(1, {{Resource::kHbm, 0.9}}));
  fluid.start(2, cost(1, {{Resource::kHbm, 0.9}}));
  fluid.start(3, cost(1, {{Resource::kNic, 1}, {Resource::kNvlink, 0.1}}));
  EXPECT_THAT(next(fluid), ElementsAre(3));
  EXPECT_EQ(fluid.now(), to_picoseconds(1));
  EXPECT_THAT(next(fluid), ElementsAre(1, 2));
  EXPECT_EQ(fluid.now(), to_picoseconds(1.8));
}

// Both directions cross the socket's memory, though not the same half of the link.
TEST(Fluid, CopiesOutAndBackShareHostMemory) {
  Fluid fluid(4);
  fluid.start(1, cost(1, {{Resource::kLinkOut, 1}, {Resource::kHostMemory, 0.8}}));
  fluid.start(2, cost(1, {{Resource::kLinkIn, 1}, {Resource::kHostMemory, 0.8}}));
  EXPECT_THAT(next(fluid), ElementsAre(1, 2));
  EXPECT_EQ(fluid.now(), to_picoseconds(1.6));
}

TEST(Fluid, WhoWantsLessThanAnEqualPartGetsIt) {
  Fluid fluid(4);
  fluid.start(1, cost(1, {{Resource::kHbm, 0.2}}));
  fluid.start(2, cost(1, {{Resource::kHbm, 0.5}}));
  fluid.start(3, cost(1, {{Resource::kHbm, 1}}));
  EXPECT_THAT(next(fluid), ElementsAre(1));  // of the rest the others get 0.4 each
  EXPECT_EQ(fluid.now(), to_picoseconds(1));
  EXPECT_THAT(next(fluid), ElementsAre(2));  // 0.8 done; now 0.5 each
  EXPECT_EQ(fluid.now(), to_picoseconds(1.2));
  EXPECT_THAT(next(fluid), ElementsAre(3));  // 0.4 + 0.1 done
  EXPECT_EQ(fluid.now(), to_picoseconds(1.7));
}

TEST(Fluid, TimeMayPassWithoutAnEnd) {
  Fluid fluid(4);
  fluid.start(1, cost(2, {{Resource::kHbm, 1}}));
  EXPECT_THAT(fluid.advance_to(to_picoseconds(1)), ElementsAre());
  fluid.start(2, cost(1, {{Resource::kHbm, 1}}));
  EXPECT_THAT(next(fluid), ElementsAre(1, 2));
  EXPECT_EQ(fluid.now(), to_picoseconds(3));
}

TEST(Fluid, NothingIsTakenTwice) {
  std::mt19937 random(1);
  const auto part = [&](double most) { return std::uniform_real_distribution<>(0, most)(random); };
  for (int round = 0; round < 1000; ++round) {
    Fluid fluid(4);
    double alone = 0;
    for (int task = 0; task < 4; ++task) {
      Cost wanted{.seconds = 1 + part(1)};
      for (double& share : wanted.share) share = std::max(0.0, part(2) - 1);
      if (task == 0) wanted.of(Resource::kMultiprocessors) = 1;
      alone = std::max(alone, wanted.seconds);
      fluid.start(task, wanted);
    }
    for (; fluid.next_end() != kNever; (void)next(fluid)) {
      for (int r = 0; r < kResourceCount; ++r) {
        ASSERT_LE(fluid.taken(static_cast<Resource>(r)), 1 + 1e-9) << "resource " << r;
      }
    }
    ASSERT_GE(fluid.now(), to_picoseconds(alone) - 1);
  }
}

}  // namespace
}  // namespace spillway::sim
