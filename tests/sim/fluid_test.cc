#include "device/sim/fluid.h"

#include <gmock/gmock.h>

namespace spillway::sim {
namespace {

using ::testing::ElementsAre;

Cost cost(double seconds, std::initializer_list<std::pair<Resource, double>> shares) {
  Cost result{.seconds = seconds};
  for (const auto& [resource, share] : shares) result.of(resource) = share;
  return result;
}

TEST(Fluid, TasksThatShareNothingRunAsIfAlone) {
  Fluid fluid;
  fluid.start(1, cost(1, {{Resource::kMultiprocessors, 1}}));
  fluid.start(2, cost(2, {{Resource::kLinkOut, 1}}));
  EXPECT_THAT(fluid.advance(), ElementsAre(1));
  EXPECT_EQ(fluid.now(), to_picoseconds(1));
  EXPECT_THAT(fluid.advance(), ElementsAre(2));
  EXPECT_EQ(fluid.now(), to_picoseconds(2));
}

TEST(Fluid, WhatIsWantedTwiceIsHalved) {
  Fluid fluid;
  fluid.start(1, cost(1, {{Resource::kHostMemory, 1}}));
  fluid.start(2, cost(1, {{Resource::kHostMemory, 1}}));
  EXPECT_THAT(fluid.advance(), ElementsAre(1, 2));
  EXPECT_EQ(fluid.now(), to_picoseconds(2));
}

TEST(Fluid, ATaskSpeedsUpWhenTheOtherEnds) {
  Fluid fluid;
  fluid.start(1, cost(1, {{Resource::kHbm, 1}}));
  fluid.start(2, cost(2, {{Resource::kHbm, 1}}));
  EXPECT_THAT(fluid.advance(), ElementsAre(1));
  EXPECT_EQ(fluid.now(), to_picoseconds(2));
  EXPECT_THAT(fluid.advance(), ElementsAre(2));
  EXPECT_EQ(fluid.now(), to_picoseconds(3));
}

TEST(Fluid, CollectivesTakeMultiprocessorsFromCompute) {
  Fluid fluid;
  fluid.start(1, cost(0.8, {{Resource::kMultiprocessors, 1}}));
  fluid.start(2, cost(5, {{Resource::kMultiprocessors, 0.2}, {Resource::kNvlink, 1}}));
  EXPECT_THAT(fluid.advance(), ElementsAre(1));
  EXPECT_EQ(fluid.now(), to_picoseconds(1));
  EXPECT_THAT(fluid.advance(), ElementsAre(2));
  EXPECT_EQ(fluid.now(), to_picoseconds(5));
}

TEST(Fluid, LongTasksDoNotOverflow) {
  Fluid fluid;
  for (int i = 0; i < 1000; ++i) {
    fluid.start(i, cost(100, {{Resource::kHbm, 1}}));
    while (!fluid.idle()) (void)fluid.advance();
  }
  EXPECT_EQ(fluid.now(), to_picoseconds(100000));
}

}  // namespace
}  // namespace spillway::sim
