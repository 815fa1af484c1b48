// What instructions cost, alone.
#include "device/sim/op_cost.h"

#include <gmock/gmock.h>

#include "tests/device/hand_schedule.h"
#include "tests/sim/toy_hardware.h"

namespace spillway::sim {
namespace {

using enum OpKind;

struct CopyOut : HandSchedule {
  CopyOut() {
    const TensorId a = buffer("a", {1 << 20}), host = buffer("host", {1 << 20}, Space::kHost);
    add(Stream::kD2h, kCopy, {a}, {host});
    add(Stream::kH2d, kCopy, {host}, {a});
  }
  [[nodiscard]] Cost cost(const Hardware& hardware, int instr,
                          const Assumptions& assumptions = {}) const {
    const Rates rates(hardware);
    const RankClass ranks = balanced_rank(hardware, Mesh());
    return OpCosts(hardware, rates, ranks, schedule, assumptions)(schedule.instrs[instr]);
  }
};
constexpr double kBytes = 4 << 20, kLaunch = 1e-6;

TEST(OpCost, ACopyTakesTheLinkAndItsShareOfBothMemories) {
  const Cost out = CopyOut().cost(toy_hardware(), 0), back = CopyOut().cost(toy_hardware(), 1);
  EXPECT_DOUBLE_EQ(out.seconds, kBytes / 50e9 + kLaunch);
  EXPECT_EQ(out.of(Resource::kLinkOut), 1);
  EXPECT_EQ(out.of(Resource::kLinkIn), 0);
  EXPECT_EQ(back.of(Resource::kLinkIn), 1);
  EXPECT_DOUBLE_EQ(out.of(Resource::kHbm), 0.05);             // 50 of 1000 GB/s
  EXPECT_DOUBLE_EQ(out.of(Resource::kHostMemory), 1 / 3.0);  // 50 of the 150 for each of two GPUs
  EXPECT_EQ(out.of(Resource::kMultiprocessors), 0);
}

TEST(OpCost, ACopyIsNoFasterThanHostMemory) {
  Hardware hardware = toy_hardware();
  hardware.d2h_gb_per_s.value = 1000;
  const Cost cost = CopyOut().cost(hardware, 0);
  EXPECT_DOUBLE_EQ(cost.seconds, kBytes / 150e9 + kLaunch);
  EXPECT_DOUBLE_EQ(cost.of(Resource::kHostMemory), 1);
}

TEST(OpCost, FarMemoryIsSlower) {
  const Cost cost = CopyOut().cost(toy_hardware(), 0, {.far_socket = true});
  EXPECT_DOUBLE_EQ(cost.seconds, kBytes / 25e9 + kLaunch);
  EXPECT_DOUBLE_EQ(cost.of(Resource::kHbm), 0.025);
  const Hardware hardware = toy_hardware();
  const CopyOut hand;
  const SimCostModel near(hardware, Mesh()), far(hardware, Mesh(), {.far_socket = true});
  EXPECT_GT(far.seconds(hand.schedule, hand.schedule.instrs[0]),
            near.seconds(hand.schedule, hand.schedule.instrs[0]));
}

TEST(OpCost, KernelsThatCopyTakeMultiprocessors) {
  const Cost cost = CopyOut().cost(toy_hardware(), 1, {.kernel_copies = true});
  EXPECT_EQ(cost.of(Resource::kMultiprocessors), 0.1);
  EXPECT_DOUBLE_EQ(cost.seconds, CopyOut().cost(toy_hardware(), 1).seconds);
}

TEST(OpCost, StretchedWorkStaysTheSame) {
  Cost cost{.seconds = 2};
  cost.of(Resource::kNvlink) = 0.8;
  cost.of(Resource::kMultiprocessors) = 0.1;
  cost.stretch(1);
  EXPECT_EQ(cost.seconds, 2);
  cost.stretch(4);
  EXPECT_EQ(cost.seconds, 4);
  EXPECT_DOUBLE_EQ(cost.of(Resource::kNvlink), 0.4);
  EXPECT_EQ(cost.of(Resource::kMultiprocessors), 0.1);
}

}  // namespace
}  // namespace spillway::sim
