// Checkpoints of MPI processes: on as many again, on fewer, and after one of them was killed.
#include <csignal>

#include "tests/ranks/launched.h"
#include "trainer/checkpoint_folders.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

class Checkpoints : public Launched {
 protected:
  Result resume(const std::string& overrides, int ranks) const {
    return mpirun(train("llama", overrides), ranks);
  }
  [[nodiscard]] int64_t newest() const {
    const auto there = checkpoints_in(dir_.path("out/checkpoints"));
    return there.empty() ? -1 : there.rbegin()->first;
  }
};

TEST_F(Checkpoints, GoOnOnTheSameRanksToTheBitAndOnFewer) {
  ASSERT_EQ(resume(std::string(kTensorFsdp) + " checkpoint.every=3", kRanks).status, 0);
  const std::string from = " checkpoint.resume=out/checkpoints/step_00000003 output.directory=";
  const Result same = resume(kTensorFsdp + from + "same", kRanks);
  ASSERT_EQ(same.status, 0) << same.output;
  const std::vector<std::string> straight = recorded().steps;
  ASSERT_EQ(straight.size(), 5U);
  EXPECT_EQ(recorded("same").steps, std::vector(straight.begin() + 3, straight.end()));
  const Result fewer = resume(" parallel.fsdp=2" + from + "fewer", 2);
  EXPECT_EQ(fewer.status, 0) << fewer.output;
  EXPECT_THAT(fewer.output, HasSubstr("(written on fsdp 2 x tensor 2): step 3 of 5"));
  EXPECT_EQ(recorded("fewer").steps.size(), 2U);
}

TEST_F(Checkpoints, AKilledRankCostsStepsNotTheRun) {
  const std::string often = " checkpoint.every=1 checkpoint.keep=2";
  expect_fault(amid_training([](auto ids) { kill(ids[2], SIGKILL); }, often));
  const int64_t reached = newest();
  ASSERT_GE(reached, 1);
  const Result result = resume(
      kTensorFsdp + often + " train.steps=" + std::to_string(reached + 2), kRanks);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("step " + std::to_string(reached) + " of "));
  EXPECT_EQ(newest(), reached + 2);
}

}  // namespace
}  // namespace spillway
