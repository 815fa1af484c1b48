// Ranks that run one Schedule at different costs.
#include <gmock/gmock.h>

#include "device/sim/simulate.h"
#include "program/error.h"
#include "tests/device/hand_schedule.h"
#include "tests/sim/toy_hardware.h"

namespace spillway::sim {
namespace {

using enum OpKind;

constexpr int64_t kMi = 1 << 20;

double seconds(const Simulation& run, int instr) {
  const InstrTiming& timing = run.timings[static_cast<size_t>(instr)];
  return static_cast<double>(timing.end_ns - timing.begin_ns) * 1e-9;
}

// Twelve ranks in domains of 8 and 4, in groups of six: that of rank 0 does not cross, the other
// does.
TEST(Classes, TheSlowestGroupSetsTheTimeOfACollective) {
  Hardware hardware = toy_hardware();
  hardware.nic_gb_per_s.value = 1;
  HandSchedule hand;
  const TensorId part = hand.buffer("part", {4 * kMi}), whole = hand.buffer("whole", {24 * kMi});
  const int gather = hand.add(Stream::kComm, kAllGather, {part}, {whole}, {},
                              {{Attr::kAxes, axis::kFsdp}, {Attr::kParts, 6}});
  const int add = hand.add(Stream::kCompute, kAdd, {whole, whole}, {whole}, {gather});
  const auto run = [&](const MeshConfig& config, int ranks, int rank) {
    return simulate(hand.schedule, hand.plan, hardware, Mesh(config, ranks, rank, 0));
  };
  const Simulation alone = run({.data = 1, .fsdp = 6}, 6, 0);
  ASSERT_EQ(alone.classes.size(), 1U);
  EXPECT_LT(seconds(alone, gather), 2e-3);

  // Two of the six are in the first domain: each sends half of all, over 2, out of it.
  const double slow = 96.0 * kMi / 2 / 2 / 1e9 + 11e-6;
  for (int rank : {0, 6, 8}) {
    const Simulation both = run({.data = 2, .fsdp = 6}, 12, rank);
    ASSERT_EQ(both.classes.size(), 3U);
    EXPECT_EQ(both.classes[0].rank, rank);
    EXPECT_NEAR(seconds(both, gather), slow, 2e-9);
    EXPECT_NEAR(seconds(both, add), seconds(alone, add), 2e-9);
    for (const ClassUse& use : both.classes) {
      EXPECT_NEAR(use.compute_seconds, seconds(alone, add), 2e-9);
      EXPECT_EQ(use.collective_wait_seconds, 0);
    }
  }
}

// Ranks whose own group is faster take part to the end: the collective keeps its multiprocessors.
TEST(Classes, ACollectiveHoldsMultiprocessorsUntilItEndsEverywhere) {
  Hardware hardware = toy_hardware();
  hardware.nic_gb_per_s.value = 1;
  HandSchedule hand;
  const TensorId part = hand.buffer("part", {4 * kMi}), whole = hand.buffer("whole", {24 * kMi});
  const TensorId other = hand.buffer("other", {1024 * kMi});
  hand.add(Stream::kComm, kAllGather, {part}, {whole}, {},
           {{Attr::kAxes, axis::kFsdp}, {Attr::kParts, 6}});
  const int beside = hand.add(Stream::kCompute, kAdd, {other, other}, {other});
  const auto run = [&](const MeshConfig& config, int ranks) {
    return simulate(hand.schedule, hand.plan, hardware, Mesh(config, ranks, 0, 0));
  };
  const double with = seconds(run({.data = 2, .fsdp = 6}, 12), beside);
  const double without = seconds(run({.data = 12}, 12), beside);  // a group of one: a launch
  EXPECT_GT(with, 13e-3) << "that long the gathering takes where four are in a domain";
  EXPECT_LT(with, 25e-3) << "and that long where two are";
  EXPECT_NEAR(with * 0.9, without, without * 1e-3);
}

// Two at once share the NICs of the group that crosses; the other group's are idle.
TEST(Classes, ACollectiveEndsWhereItIsDoneLast) {
  Hardware hardware = toy_hardware();
  hardware.nic_gb_per_s.value = 1;
  HandSchedule hand;
  const TensorId part = hand.buffer("part", {4 * kMi}), whole = hand.buffer("whole", {24 * kMi});
  const TensorId more = hand.buffer("more", {4 * kMi}), all = hand.buffer("all", {24 * kMi});
  const Attrs axes = {{Attr::kAxes, axis::kFsdp}, {Attr::kParts, 6}};
  const int gather = hand.add(Stream::kComm, kAllGather, {part}, {whole}, {}, axes);
  const int after = hand.add(Stream::kComm, kAdd, {part, part}, {part});
  const int beside = hand.add(Stream::kCompute, kAllGather, {more}, {all}, {}, axes);
  const double alone = 96.0 * kMi / 2 / 2 / 1e9 + 11e-6;
  for (int rank : {0, 6}) {
    const Simulation run = simulate(hand.schedule, hand.plan, hardware,
                                    Mesh({.data = 2, .fsdp = 6}, 12, rank, 0));
    EXPECT_NEAR(seconds(run, gather), 2 * alone, 5e-6);
    EXPECT_NEAR(seconds(run, beside), 2 * alone, 5e-6);
    EXPECT_EQ(run.timings[after].begin_ns, run.timings[gather].end_ns);
  }
}

// A grouped product of the rows that are expected, then their way back.
struct Experts : HandSchedule {
  explicit Experts(int64_t bound) {
    const TensorId x = buffer("x", {bound, 1024}), y = buffer("y", {bound, 1024});
    const TensorId w = buffer("w", {8, 1024, 1024}), offsets = buffer("offsets", {9});
    const TensorId home = buffer("home", {8192, 1024});
    product = add(Stream::kCompute, kGroupedLinear, {x, w, offsets}, {y}, {},
                  {{Attr::kRows, 8192}});
    back = add(Stream::kComm, kReturnRows, {y, offsets}, {home}, {product},
               {{Attr::kAxes, axis::kExpert}, {Attr::kParts, 4}, {Attr::kPart, 0}});
  }
  [[nodiscard]] Simulation run(double load, int rank = 0) const {
    const Mesh mesh({.data = 1, .fsdp = 2, .expert = 4}, 8, rank, 0);
    return simulate(schedule, plan, toy_hardware(), mesh, {.hottest_expert_load = load});
  }
  int product, back;
};

TEST(Classes, TheHottestExpertsHoldUpTheOthers) {
  const Experts experts(32768);
  const Simulation balanced = experts.run(1), hot = experts.run(2), cold = experts.run(2, 1);
  ASSERT_EQ(balanced.classes.size(), 1U);
  ASSERT_EQ(hot.classes.size(), 2U);
  EXPECT_EQ(hot.classes[0].ranks, 2);
  EXPECT_EQ(hot.classes[1].ranks, 6);
  EXPECT_GT(seconds(hot, experts.product), 1.5 * seconds(balanced, experts.product));
  EXPECT_LT(seconds(cold, experts.product), seconds(balanced, experts.product));
  EXPECT_GT(seconds(hot, experts.back), 1.2 * seconds(balanced, experts.back));
  // They meet at the exchange, and leave it together.
  EXPECT_EQ(hot.timings[experts.back].begin_ns, cold.timings[experts.back].begin_ns);
  EXPECT_EQ(hot.seconds, cold.seconds);
  EXPECT_EQ(hot.classes[0].collective_wait_seconds, 0);
  EXPECT_NEAR(hot.classes[1].collective_wait_seconds,
              seconds(hot, experts.product) - seconds(cold, experts.product), 2e-9);
  EXPECT_EQ(hot.classes[1].collective_wait_seconds, cold.classes[0].collective_wait_seconds);
}

TEST(Classes, RowsBeyondTheBufferAreNotComputed) {
  const Experts exact(8192);
  EXPECT_EQ(exact.run(2).seconds, exact.run(1).seconds);
}

}  // namespace
}  // namespace spillway::sim
