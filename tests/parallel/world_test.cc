// Messages among ranks that are threads, and of a process alone.
#include "parallel/world.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>

#include "program/error.h"
#include "tests/parallel/on_threads.h"
#include "tests/parallel/random_exchange.h"

namespace spillway {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void send_to(World& world, int peer, const std::vector<int>& values) {
  const Send send{peer, values.data(), static_cast<int64_t>(values.size() * sizeof(int))};
  world.exchange({&send, 1}, {});
}
std::vector<int> receive_from(World& world, int peer, size_t count) {
  std::vector<int> values(count, -1);
  const Receive receive{peer, values.data(), static_cast<int64_t>(count * sizeof(int))};
  world.exchange({}, {&receive, 1});
  return values;
}

class ThreadWorlds : public ::testing::TestWithParam<int> {};

TEST_P(ThreadWorlds, KnowTheirPlace) {
  const auto worlds = thread_worlds(GetParam());
  ASSERT_EQ(worlds.size(), static_cast<size_t>(GetParam()));
  for (int rank = 0; rank < GetParam(); ++rank) {
    EXPECT_EQ(worlds[rank]->rank(), rank);
    EXPECT_EQ(worlds[rank]->size(), GetParam());
    EXPECT_EQ(worlds[rank]->local_rank(), rank);
    EXPECT_EQ(worlds[rank]->local_size(), GetParam());
    EXPECT_EQ(worlds[rank]->engine(), "threads");
  }
}

TEST_P(ThreadWorlds, ExchangeWhateverTheSizesAndTheOrder) {
  const auto errors = on_threads(GetParam(), [](World& world) {
    for (unsigned seed = 0; seed < 40; ++seed) random_exchange(world, seed, 20'000);
    random_exchange(world, 1000, 400'000);
  });
  EXPECT_THAT(errors, Each(""));
}

TEST_P(ThreadWorlds, GatherTextsAndSums) {
  const int ranks = GetParam();
  const auto errors = on_threads(ranks, [ranks](World& world) {
    const auto texts = all_texts(world, std::string(world.rank() * 3, 'a' + world.rank()));
    ASSERT_EQ(texts.size(), static_cast<size_t>(ranks));
    for (int i = 0; i < ranks; ++i) ASSERT_EQ(texts[i], std::string(i * 3, 'a' + i));
    int64_t values[] = {1, world.rank(), int64_t{1} << 40};
    sum_over_ranks(world, values);
    ASSERT_THAT(values, ElementsAre(ranks, ranks * (ranks - 1) / 2, ranks * (int64_t{1} << 40)));
    sum_over_ranks(world, {});
  });
  EXPECT_THAT(errors, Each(""));
}

// Wherever the others are in an exchange when a rank gives up, they end, and hear of it again.
TEST_P(ThreadWorlds, AbortWakesEveryone) {
  const int ranks = GetParam();
  for (unsigned round = 0; round < 24; ++round) {
    const int chosen = static_cast<int>(round) % ranks;
    const std::string message = "rank " + std::to_string(chosen) + ": out of memory";
    const auto errors = on_threads(ranks, [&](World& world) {
      for (unsigned seed = 0;; ++seed) {
        if (world.rank() == chosen && seed == round % 4) {
          world.abort("out of memory");
          world.abort("again");
        }
        try {
          random_exchange(world, seed, 20'000);
        } catch (const RankFailed&) {
          random_exchange(world, seed, 20'000);
        }
      }
    });
    ASSERT_THAT(errors, Each(message));
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ThreadWorlds, ::testing::Range(1, 9));

TEST(ThreadWorld, ManyRoundsOfFourRanks) {
  const auto errors = on_threads(4, [](World& world) {
    for (unsigned seed = 0; seed < 500; ++seed) random_exchange(world, seed, 2'000);
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(ThreadWorld, SubsetsNeedNotWaitForTheOthers) {
  const auto errors = on_threads(4, [](World& world) {
    const int rank = world.rank();
    for (int round = 0; round < 300; ++round) {
      const int partner = round % 3 == 2 && rank < 2 ? 1 - rank : rank ^ 2;  // 2 and 3 skip a third
      if (round % 3 == 2 && rank >= 2) continue;
      int got = -1;
      const int mine = round * 10 + rank;
      const Send send{partner, &mine, sizeof(mine)};
      const Receive receive{partner, &got, sizeof(got)};
      world.exchange({&send, 1}, {&receive, 1});
      ASSERT_EQ(got, round * 10 + partner);
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(ThreadWorld, TheSendersMemoryIsItsOwnAfterwards) {
  const auto errors = on_threads(2, [](World& world) {
    for (int round = 0; round < 500; ++round) {
      if (world.rank() == 0) {
        std::vector<int> values(1000, round);
        send_to(world, 1, values);
        std::fill(values.begin(), values.end(), -1);
      } else {
        ASSERT_THAT(receive_from(world, 0, 1000), Each(round));
      }
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(ThreadWorld, SizesThatDifferEndBoth) {
  const auto errors = on_threads(2, [](World& world) {
    if (world.rank() == 0) send_to(world, 1, {1, 2, 3});
    if (world.rank() == 1) (void)receive_from(world, 0, 2);
  });
  EXPECT_THAT(errors, Each("rank 0: sends 12 bytes where rank 1 expects 8"));
}

TEST(ThreadWorld, ARankThatLeavesIsNotWaitedFor) {
  for (int rank_that_waits : {0, 1}) {  // to send, to receive
    auto worlds = thread_worlds(3);
    std::string error;
    std::thread waiting([&] {
      try {
        if (rank_that_waits == 0) send_to(*worlds[0], 2, {1});
        if (rank_that_waits == 1) (void)receive_from(*worlds[1], 2, 1);
      } catch (const RankFailed& failed) {
        error = failed.what();
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(rank_that_waits * 20));
    worlds[2].reset();
    waiting.join();
    EXPECT_EQ(error, "rank 2: has left while others wait for it");
  }
}

TEST(ThreadWorld, PeersAreRanks) {
  const auto worlds = thread_worlds(2);
  EXPECT_THROW(send_to(*worlds[0], 2, {}), std::out_of_range);
  EXPECT_THROW((void)receive_from(*worlds[0], -1, 0), std::out_of_range);
}

TEST(SoloWorld, TalksToItself) {
  const auto world = solo_world();
  EXPECT_EQ(world->size(), 1);
  EXPECT_EQ(world->engine(), "one process");
  for (unsigned seed = 0; seed < 20; ++seed) random_exchange(*world, seed, 1000);
  EXPECT_THAT(all_texts(*world, "alone"), ElementsAre("alone"));
  int64_t value = 5;
  sum_over_ranks(*world, {&value, 1});
  EXPECT_EQ(value, 5);
  EXPECT_THROW(send_to(*world, 1, {}), std::out_of_range);
  EXPECT_THROW(send_to(*world, 0, {1}), RankFailed);
  EXPECT_THROW((void)receive_from(*world, 0, 1), RankFailed);
}

// The launcher is known by what it leaves in the environment.
class JoinWorld : public ::testing::Test {
 protected:
  JoinWorld() { clear(); }
  ~JoinWorld() override { clear(); }
  static void clear() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS",
                             "SLURM_PROCID", "PMIX_RANK"}) {
      unsetenv(name);
    }
  }
  static std::string error() {
    try {
      (void)join_world(1);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(JoinWorld, AProcessAloneIsAlone) {
  EXPECT_EQ(join_world(1)->engine(), "one process");
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);  // no SLURM_PROCID: not a task
  EXPECT_EQ(join_world(1)->engine(), "one process");
}

TEST_F(JoinWorld, OneRankNeedsNoMpi) {
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_EQ(join_world(1)->engine(), "one process");
}

// The test program has no plugin beside it.
TEST_F(JoinWorld, SeveralRanksWithoutThePluginAreRefused) {
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  EXPECT_THAT(error(),
              HasSubstr("Open MPI's mpirun started 4 processes, but this program was built "
                        "without MPI: there is no libspillway_mpi.so in"));
  EXPECT_THAT(error(), HasSubstr("libopenmpi-dev"));
  clear();
  setenv("PMI_SIZE", "2", 1);
  EXPECT_THAT(error(), HasSubstr("PMI started 2 processes"));
  clear();
  setenv("SLURM_STEP_NUM_TASKS", "8", 1);
  setenv("SLURM_PROCID", "0", 1);
  EXPECT_THAT(error(), HasSubstr("srun started 8 processes"));
  clear();
  setenv("PMIX_RANK", "0", 1);
  EXPECT_THAT(error(), HasSubstr("PMIx started several processes"));
}

TEST_F(JoinWorld, MpirunInsideASlurmJobCountsItsOwnRanks) {
  setenv("SLURM_STEP_NUM_TASKS", "1", 1);
  setenv("SLURM_PROCID", "0", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_THAT(error(), HasSubstr("mpirun started 2 processes"));
}

TEST_F(JoinWorld, NumbersThatAreNoneAreRefused) {
  setenv("PMI_SIZE", "many", 1);
  EXPECT_THAT(error(), HasSubstr("PMI_SIZE=many is not a number of ranks"));
}

}  // namespace
}  // namespace spillway
