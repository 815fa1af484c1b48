// Collectives among the ranks of a group.
#include "parallel/group.h"

#include <gmock/gmock.h>

#include "tests/parallel/on_threads.h"

namespace spillway {
namespace {

using ::testing::Each;

TEST(Part, PartsFollowOneAnotherAndMakeTheWhole) {
  for (int64_t total : {0, 1, 2, 5, 7, 8, 100, 101}) {
    for (int parts : {1, 2, 3, 4, 7, 8, 16}) {
      int64_t at = 0;
      const int64_t largest = (total + parts - 1) / parts;
      for (int i = 0; i < parts; ++i) {
        const Part part = part_of(total, parts, i);
        ASSERT_EQ(part.begin, at);
        ASSERT_LE(part.end - part.begin, largest);
        ASSERT_TRUE(part.end - part.begin == largest || part.end == total);
        at = part.end;
      }
      ASSERT_EQ(at, total);
    }
  }
}

// In every group of 8 ranks, with all four axes and a key/value head shared by two.
TEST(Group, GathersWhatDoesNotDivide) {
  for (const MeshConfig& config :
       {MeshConfig{1, 2, 2, 2}, {2, 1, 4, 1}, {2, 4, 1, 1}, {1, 8, 1, 1}}) {
    const auto errors = on_threads(8, [&](World& world) {
      const Communicator all{&world, Mesh(config, 8, world.rank(), 2)};
      for (uint8_t axes = 0; axes <= axis::kAll; ++axes) {
        Group group(all, axes);
        ASSERT_EQ(group.size(), all.mesh.size(axes));
        for (int64_t elements : {0, 1, 3, 8, 29, 1000}) {
          const Part part = part_of(elements, group.size(), group.index());
          std::vector<uint16_t> whole(elements, 0), mine;
          // The value says the group too: its first rank.
          const int base = all.mesh.group(axes)[0] * 2000;
          for (int64_t i = part.begin; i < part.end; ++i) mine.push_back(base + i);
          auto* bytes = reinterpret_cast<std::byte*>(whole.data());
          if (elements % 2 == 0) {
            std::copy(mine.begin(), mine.end(), whole.begin() + part.begin);
            group.all_gather(bytes + part.begin * 2, bytes, elements, 2);
          } else {
            group.all_gather(reinterpret_cast<std::byte*>(mine.data()), bytes, elements, 2);
          }
          for (int64_t i = 0; i < elements; ++i) ASSERT_EQ(whole[i], base + i);
        }
      }
    });
    ASSERT_THAT(errors, Each(""));
  }
}

TEST(Group, PeersAreIndicesInTheGroup) {
  const auto errors = on_threads(8, [](World& world) {
    const Communicator all{&world, Mesh({2, 2, 2, 1}, 8, world.rank(), 0)};
    Group group(all, axis::kData | axis::kTensor);  // ranks 0 1 4 5, and 2 3 6 7
    std::vector<int> got(4, -1);
    const int mine = world.rank();
    std::vector<Send> sends;
    std::vector<Receive> receives;
    for (int peer = 0; peer < 4; ++peer) {
      sends.push_back({peer, &mine, sizeof(int)});
      receives.push_back({peer, &got[peer], sizeof(int)});
    }
    group.exchange(sends, receives);
    ASSERT_EQ(got, all.mesh.group(axis::kData | axis::kTensor));
    group.exchange({}, {});
    const Send wrong{4, &mine, sizeof(int)};
    ASSERT_THROW(group.exchange({&wrong, 1}, {}), std::out_of_range);
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(Group, ARankAloneNeedsNoWorld) {
  Group group(Communicator{}, axis::kAll);
  const int32_t mine[] = {1, 2, 3};
  int32_t whole[3] = {};
  group.all_gather(reinterpret_cast<const std::byte*>(mine), reinterpret_cast<std::byte*>(whole), 3,
                   4);
  EXPECT_THAT(whole, ::testing::ElementsAre(1, 2, 3));
  group.exchange({}, {});
}

}  // namespace
}  // namespace spillway
