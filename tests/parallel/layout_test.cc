#include "parallel/layout.h"

#include <gmock/gmock.h>

#include <numeric>

namespace spillway {
namespace {

using ::testing::Each;

// How often the ranks of a group hold each element of the parameter, and how much each keeps.
struct Coverage {
  std::vector<int> times;
  std::vector<int64_t> shards;
};

Coverage cover(const Shape& whole, const std::vector<Dim>& dims, const MeshConfig& mesh, int ranks,
               int64_t kv_heads = 0) {
  Coverage coverage;
  coverage.times.resize(element_count(whole));
  for (int rank = 0; rank < ranks; ++rank) {
    const Layout layout = layout_of(whole, dims, Mesh(mesh, ranks, rank, kv_heads));
    int64_t next = 0;
    for_each_run(layout, [&](int64_t shard, int64_t first, int64_t count) {
      EXPECT_GE(shard, next);
      EXPECT_LE(shard + count, layout.shard);
      next = shard + count;
      for (int64_t i = 0; i < count; ++i) ++coverage.times.at(first + i);
    });
    coverage.shards.push_back(layout.shard);
  }
  return coverage;
}

TEST(Layout, EveryElementIsOnOneRankOfAReplica) {
  const MeshConfig all{.data = 1, .fsdp = 2, .tensor = 2, .expert = 2};
  EXPECT_THAT(cover({7, 5}, {}, all, 8).times, Each(1));
  EXPECT_THAT(cover({8, 5}, {Dim::kHeads, Dim::kWhole}, all, 8).times, Each(1));
  EXPECT_THAT(cover({5, 6}, {Dim::kWhole, Dim::kMlp}, all, 8).times, Each(1));
  EXPECT_THAT(cover({97, 3}, {Dim::kVocab, Dim::kWhole}, all, 8).times, Each(1));
  EXPECT_THAT(cover({4, 6, 5}, {Dim::kExperts, Dim::kMlp, Dim::kWhole}, all, 8).times, Each(1));
  EXPECT_THAT(cover({4, 5, 6}, {Dim::kExperts, Dim::kWhole, Dim::kMlp}, all, 8).times, Each(1));
  EXPECT_THAT(cover({3}, {}, all, 8).times, Each(1));  // fewer elements than ranks
}

TEST(Layout, ReplicasHoldTheSame) {
  EXPECT_THAT(cover({66, 3}, {}, {.data = 2, .fsdp = 4}, 8).times, Each(2));
}

TEST(Layout, SharedKeyHeadsAreDividedNotRepeated) {
  const MeshConfig mesh{.data = 1, .tensor = 4};
  const Coverage coverage = cover({8, 5}, {Dim::kKvHeads, Dim::kWhole}, mesh, 4, 2);
  EXPECT_THAT(coverage.times, Each(1));
  EXPECT_THAT(coverage.shards, Each(10));  // half of one of two heads' 20 elements
}

TEST(Layout, AShardIsAnEqualPartToTheByteOfPadding) {
  EXPECT_THAT(cover({97, 66}, {}, {.data = 1, .fsdp = 4}, 4).shards, Each((97 * 66 + 3) / 4));
}

TEST(Layout, LocalShapes) {
  const Mesh mesh({.data = 1, .tensor = 4}, 4, 3, 0);
  const Layout vocab = layout_of({97, 8}, {Dim::kVocab, Dim::kWhole}, mesh);
  EXPECT_EQ(vocab.local_shape(), (Shape{25, 8}));
  EXPECT_EQ(vocab.whole_shape(), (Shape{97, 8}));
  EXPECT_EQ(vocab.cuts[0].begin, 75);
  EXPECT_EQ(layout_of({8, 12}, {Dim::kWhole, Dim::kHeads}, mesh).local_shape(), (Shape{8, 3}));
}

}  // namespace
}  // namespace spillway
