// Ranks, axes and groups.
#include "parallel/mesh.h"

#include <gmock/gmock.h>

#include <set>

#include "program/error.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const MeshConfig& config, int ranks, int64_t kv_heads = 0) {
  try {
    (void)Mesh(config, ranks, 0, kv_heads);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Mesh, OneRank) {
  const Mesh mesh;
  EXPECT_EQ(mesh.ranks(), 1);
  EXPECT_EQ(mesh.index(axis::kAll), 0);
  EXPECT_THAT(mesh.group(axis::kAll), ElementsAre(0));
  EXPECT_EQ(mesh.text(), "1 rank");
}

TEST(Mesh, TensorIsTheFastestThenExpertFsdpData) {
  const MeshConfig config{.data = 2, .fsdp = 2, .tensor = 2, .expert = 2};
  for (int rank = 0; rank < 16; ++rank) {
    const Mesh mesh(config, 16, rank, 0);
    EXPECT_EQ(mesh.rank(), rank);
    EXPECT_EQ(mesh.index(axis::kTensor), rank % 2);
    EXPECT_EQ(mesh.index(axis::kExpert), rank / 2 % 2);
    EXPECT_EQ(mesh.index(axis::kFsdp), rank / 4 % 2);
    EXPECT_EQ(mesh.index(axis::kData), rank / 8);
    EXPECT_EQ(mesh.index(axis::kBatch), rank / 2);
    EXPECT_EQ(mesh.index(axis::kShard), rank % 8);
    EXPECT_EQ(mesh.index(axis::kAll), rank);
    EXPECT_EQ(mesh.index(0), 0);
  }
  const Mesh mesh(config, 16, 10, 0);  // data 1, fsdp 0, expert 1, tensor 0
  EXPECT_THAT(mesh.group(axis::kTensor), ElementsAre(10, 11));
  EXPECT_THAT(mesh.group(axis::kExpert), ElementsAre(8, 10));
  EXPECT_THAT(mesh.group(axis::kFsdp), ElementsAre(10, 14));
  EXPECT_THAT(mesh.group(axis::kData), ElementsAre(2, 10));
  EXPECT_THAT(mesh.group(axis::kFsdp | axis::kExpert), ElementsAre(8, 10, 12, 14));
  EXPECT_THAT(mesh.group(0), ElementsAre(10));
  EXPECT_EQ(mesh.text(), "data 2 x fsdp 2 x expert 2 x tensor 2");
}

// For every mesh of 8 ranks with all four axes and every set of axes: the groups divide the ranks, a
// rank is at its index, and all members see the same group.
TEST(Mesh, GroupsDivideTheRanks) {
  for (const MeshConfig& config : {MeshConfig{1, 2, 2, 2},
                                   {2, 1, 2, 2},
                                   {2, 2, 1, 2},
                                   {2, 2, 2, 1},
                                   {-1, 1, 4, 1},
                                   {1, 2, 4, 1},
                                   {1, 4, -1, 2}}) {
    for (uint8_t axes = 0; axes <= axis::kAll; ++axes) {
      std::set<std::vector<int>> groups;
      for (int rank = 0; rank < 8; ++rank) {
        const Mesh mesh(config, 8, rank, 2);
        const std::vector<int> group = mesh.group(axes);
        ASSERT_EQ(group.size(), static_cast<size_t>(mesh.size(axes)));
        ASSERT_EQ(group[mesh.index(axes)], rank);
        groups.insert(group);
      }
      const Mesh mesh(config, 8, 0, 2);
      ASSERT_EQ(groups.size(), static_cast<size_t>(8 / mesh.size(axes)));
      std::multiset<int> all;
      for (const auto& group : groups) all.insert(group.begin(), group.end());
      ASSERT_EQ(all.size(), 8U);
    }
  }
}

TEST(Mesh, AnotherRankSeesItsOwnGroups) {
  const Mesh mesh = Mesh({2, 2, 2, 2}, 16, 3, 0).at(10);
  EXPECT_EQ(mesh.rank(), 10);
  EXPECT_THAT(mesh.group(axis::kTensor), ElementsAre(10, 11));
  EXPECT_THAT(mesh.group(axis::kData | axis::kTensor), ElementsAre(2, 3, 10, 11));
}

TEST(Mesh, TheRestGoesToTheOpenAxis) {
  EXPECT_EQ(Mesh({}, 8, 0, 0).size(axis::kData), 8);
  EXPECT_EQ(Mesh({.fsdp = 4, .tensor = 2}, 16, 0, 0).size(axis::kData), 2);
  EXPECT_EQ(Mesh({.data = 1, .fsdp = -1, .tensor = 2}, 8, 0, 0).size(axis::kFsdp), 4);
  EXPECT_EQ(Mesh({.data = 2, .fsdp = 2, .tensor = -1}, 4, 0, 0).size(axis::kTensor), 1);
}

TEST(Mesh, RanksShareAKeyValueHeadWhereThereAreFewer) {
  const Mesh mesh({.tensor = 4}, 8, 6, 2);
  EXPECT_EQ(mesh.size(axis::kTensorKv), 2);
  EXPECT_EQ(mesh.size(axis::kTensorReplica), 2);
  EXPECT_EQ(mesh.size(axis::kTensor), 4);
  EXPECT_EQ(mesh.index(axis::kTensorKv), 1);
  EXPECT_EQ(mesh.index(axis::kTensorReplica), 0);
  EXPECT_THAT(mesh.group(axis::kTensorReplica), ElementsAre(6, 7));
  EXPECT_THAT(mesh.group(axis::kTensorKv), ElementsAre(4, 6));
  for (int64_t heads : {4, 8, 0}) {
    EXPECT_EQ(Mesh({.tensor = 4}, 4, 0, heads).size(axis::kTensorReplica), 1) << heads;
  }
  EXPECT_EQ(Mesh({.tensor = 4}, 4, 0, 1).size(axis::kTensorReplica), 4);
}

TEST(Mesh, ErrorsNameTheNumbers) {
  EXPECT_THAT(error_of({.data = 2, .fsdp = 2, .tensor = 3, .expert = 1}, 8),
              AllOf(HasSubstr("data 2 x fsdp 2 x tensor 3 x expert 1"), HasSubstr("8 ranks"),
                    HasSubstr("start 12 ranks")));
  EXPECT_THAT(error_of({.fsdp = 3}, 8),
              AllOf(HasSubstr("fsdp 3"), HasSubstr("start a multiple of 3 ranks")));
  EXPECT_THAT(error_of({.data = -1, .fsdp = -1}, 8), HasSubstr("only one of"));
  EXPECT_THAT(error_of({.fsdp = 0}, 8), HasSubstr("an axis of 0 ranks"));
  EXPECT_THAT(error_of({.tensor = -2}, 8), HasSubstr("an axis of -2 ranks"));
  EXPECT_THAT(error_of({.tensor = 2}, 2, 3),
              AllOf(HasSubstr("num_key_value_heads (3)"), HasSubstr("tensor (2)")));
  EXPECT_THAT(error_of({.tensor = 3}, 3, 2),
              AllOf(HasSubstr("num_key_value_heads (2)"), HasSubstr("tensor (3)")));
  EXPECT_EQ(error_of({.tensor = 2}, 8, 6), "no error");
}

TEST(Mesh, AxesHaveNames) {
  EXPECT_EQ(axes_text(0), "none");
  EXPECT_EQ(axes_text(axis::kFsdp | axis::kTensor), "fsdp+tensor");
  EXPECT_EQ(axes_text(axis::kTensorKv), "tensor_kv");
  EXPECT_EQ(axes_text(axis::kTensorReplica), "tensor_replica");
  EXPECT_EQ(axes_text(axis::kAll), "data+fsdp+expert+tensor");
}

}  // namespace
}  // namespace spillway
