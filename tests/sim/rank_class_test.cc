// Which ranks cost the same.
#include "device/sim/rank_class.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "program/error.h"
#include "tests/sim/toy_hardware.h"

namespace spillway::sim {
namespace {

// Domains of 8 GPUs, nodes of 4.
std::vector<RankClass> classes(const MeshConfig& config, int ranks,
                               const std::vector<uint8_t>& axes = {axis::kFsdp, axis::kExpert},
                               const Assumptions& assumptions = {}, int rank = 0) {
  return rank_classes(toy_hardware(), Mesh(config, ranks, rank, 0), axes, assumptions);
}

TEST(RankClass, InOneDomainAllRanksAreAlike) {
  const auto all = classes({.data = 1, .fsdp = 8}, 8);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].ranks, 8);
  EXPECT_EQ(all[0].spans[axis::kFsdp], (Span{8, 1}));
  EXPECT_EQ(all[0].spans[axis::kExpert], (Span{1, 1}));
}

TEST(RankClass, GroupsThatAllCrossAlikeAreOneClass) {
  const auto all = classes({.data = 1, .fsdp = 2, .expert = 8}, 16);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].ranks, 16);
  EXPECT_EQ(all[0].spans[axis::kFsdp], (Span{1, 2}));
  EXPECT_EQ(all[0].spans[axis::kExpert], (Span{8, 1}));
}

// Three groups of four on two domains of 8 and 4 (12 ranks are 3 nodes: 2 and 1) and on two of six.
TEST(RankClass, AGroupMayCrossBesideOneThatDoesNot) {
  auto all = classes({.data = -1, .fsdp = 4}, 12);
  ASSERT_EQ(all.size(), 1U) << "the last domain is partly filled, by a whole group";
  EXPECT_EQ(all[0].ranks, 12);

  all = classes({.data = -1, .fsdp = 6}, 12);  // ranks 6, 7 | 8..11 of the second group
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].rank, 0);
  EXPECT_EQ(all[0].ranks, 6);
  EXPECT_EQ(all[0].spans[axis::kFsdp], (Span{6, 1}));
  EXPECT_EQ(all[1].rank, 6);
  EXPECT_EQ(all[1].ranks, 2);
  EXPECT_EQ(all[1].spans[axis::kFsdp], (Span{2, 2}));
  EXPECT_EQ(all[2].rank, 8);
  EXPECT_EQ(all[2].ranks, 4);
  EXPECT_EQ(all[2].spans[axis::kFsdp], (Span{4, 2}));

  EXPECT_EQ(classes({.data = -1, .fsdp = 6}, 12, {axis::kTensor}).size(), 1U) << "nobody looks";
}

TEST(RankClass, OnesOwnComesFirst) {
  const auto all = classes({.data = -1, .fsdp = 6}, 12, {axis::kFsdp}, {}, 9);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].rank, 9);
  EXPECT_EQ(all[0].ranks, 4);
}

TEST(RankClass, TheHottestExpertsGetWhatTheOthersLack) {
  const auto all = classes({.data = 1, .fsdp = 2, .expert = 4}, 8, {axis::kFsdp, axis::kExpert},
                           {.hottest_expert_load = 1.75});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].ranks, 2);
  EXPECT_DOUBLE_EQ(all[0].expert_load, 1.75);
  EXPECT_EQ(all[1].ranks, 6);
  EXPECT_DOUBLE_EQ(all[1].expert_load, 0.75);
  const auto one = classes({.data = 1, .fsdp = 8}, 8, {axis::kFsdp}, {.hottest_expert_load = 1.75});
  EXPECT_EQ(one.size(), 1U) << "experts of one rank get all rows, however they are shared out";
}

TEST(RankClass, NobodyGetsMoreThanAllRows) {
  for (double load : {0.5, 4.5}) {
    EXPECT_THROW((void)classes({.data = 1, .fsdp = 2, .expert = 4}, 8, {axis::kExpert},
                               {.hottest_expert_load = load}),
                 ConfigError);
  }
}

// Were this quadratic in ranks, it would take minutes.
TEST(RankClass, OfSixteenThousandRanks) {
  std::vector<uint8_t> every;
  for (uint8_t axes = 1; axes <= axis::kAll; ++axes) every.push_back(axes);
  const auto all = classes({.data = 4, .fsdp = 64, .tensor = 2, .expert = 32}, 16384, every);
  int ranks = 0;
  for (const RankClass& each : all) ranks += each.ranks;
  EXPECT_EQ(ranks, 16384);
  EXPECT_EQ(all[0].spans[axis::kAll], (Span{8, 2048}));
}

}  // namespace
}  // namespace spillway::sim
