// Whatever happens to one rank ends all of them, soon, and the output says what it was.
#include <csignal>

#include "tests/ranks/launched.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Fault : public Launched {
 protected:
  Result llama(const std::string& overrides) const {
    return mpirun(train("llama", kTensorFsdp + overrides));
  }
  Result with_wrapper(int rank, const std::string& special,
                      const std::string& overrides = "") const {
    return mpirun(train("llama", kTensorFsdp + overrides), kRanks, wrapper(rank, special));
  }
  void expect_whole_records() const { EXPECT_GE(recorded().steps.size(), 2U); }
};

TEST_F(Fault, AKilledRankEndsAll) {
  const Result result = amid_training([](auto ids) { kill(ids[2], SIGKILL); });
  expect_fault(result);
  EXPECT_THAT(result.output, HasSubstr("process rank 2 "));
  EXPECT_THAT(result.output, HasSubstr("signal 9"));
  expect_whole_records();
}

TEST_F(Fault, ATerminatedRankEndsAll) {
  const Result result = amid_training([](auto ids) { kill(ids[3], SIGTERM); });
  expect_fault(result);
  EXPECT_THAT(result.output, HasSubstr("process rank 3 "));
  EXPECT_THAT(result.output, HasSubstr("signal 15"));
  expect_whole_records();
}

TEST_F(Fault, AnInterruptedRankEndsAllBehindTheSameStep) {
  const Result result = amid_training([](auto ids) { kill(ids[1], SIGINT); });
  expect_fault(result);
  EXPECT_EQ(result.status, 130);
  const auto last = static_cast<int>(recorded().steps.size()) - 1;
  EXPECT_EQ(result.count("interrupted: stopped after step " + std::to_string(last) + "\n"), 1)
      << result.output;
  EXPECT_EQ(result.count("interrupted"), 1) << result.output;
}

// Open MPI 4.1 does not forward it: it terminates the ranks (scripts/launch_mpirun).
TEST_F(Fault, AnInterruptedMpirunEndsAllAtOnce) {
  const Result result = amid_training([](auto ids) { kill(ids.back(), SIGINT); });
  expect_fault(result);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, Not(HasSubstr("interrupted: stopped")));
  expect_whole_records();
}

// Ranks that wait for the one that does not answer; rank 0 is one of them.
TEST_F(Fault, ARankThatDoesNotAnswerIsNamed) {
  const Result result =
      amid_training([](auto ids) { kill(ids[2], SIGSTOP); }, " parallel.timeout_s=4");
  expect_said_once(result, "rank 2: no answer to rank 0 for 4 s");
}

TEST_F(Fault, AnotherSeedIsNamed) {
  const Result result = with_wrapper(2, "set -- \"$@\" train.seed=9");
  expect_said_once(result, "rank 2 does not run what rank 0 runs: config/train/seed is 9, not 0");
  EXPECT_THAT(result.first_message(), StartsWith("rank 0: "));
}

TEST_F(Fault, AnotherProgramIsNamed) {
  const Result result = with_wrapper(
      1, "mkdir other; cp " SPILLWAY_BINARY " $(dirname " SPILLWAY_BINARY
         ")/libspillway_mpi.so other; echo more >>other/spillway; exec other/spillway \"$@\"");
  expect_said_once(result, "rank 1 does not run what rank 0 runs: program file (hash) is ");
  EXPECT_THAT(result.first_message(), StartsWith("rank 0: "));
}

// Room for the start of MPI, which takes some 300 MB of addresses, not for an arena of 500 MB.
TEST_F(Fault, ARankWithoutMemoryIsNamed) {
  const Result result = with_wrapper(
      2, "ulimit -v 500000",
      " model.intermediate_size=8192 train.micro_batch=8 train.seq_len=512 train.global_batch=16 "
      "device.hbm_gib=1");
  expect_said_once(result, "rank 2: out of system memory: cannot map ");
}

TEST_F(Fault, AFileThatOneRankCannotReadIsNamed) {
  const Result result = with_wrapper(3, "mkdir elsewhere; cd elsewhere");
  expect_said_once(result, "rank 3: data error: cannot read text.txt: ");
}

TEST_F(Fault, WhatAllRanksFindIsSaidOnce) {
  expect_said_once(llama(" train.stepz=3"),
                   "rank 0: config error: command line: train.stepz is not a key");
  expect_said_once(llama(" data.path=absent.txt"), "rank 0: data error: cannot read absent.txt");
  expect_said_once(llama(" device.hbm_gib=0.0001"), "rank 0: out of device memory (planned");
}

TEST_F(Fault, WhatAllRanksFindInAStepIsSaidOnce) {
  const Result result = llama(" schedule.learning_rate=1e30");
  expect_said_once(result, ": not finite; stopped before the update");
  EXPECT_THAT(result.first_message(), StartsWith("rank 0: step "));
}

TEST_F(Fault, MoreRanksThanTheAxesHaveIsSaidOnce) {
  const Result result = mpirun(train("llama", std::string(kTensorFsdp) + " parallel.data=1"), 6);
  expect_said_once(result, "does not make 6 ranks; start 4 ranks");
  EXPECT_THAT(result.first_message(), StartsWith("rank 0: "));
}

// A rank of the group that has too many rows says so, and both numbers.
TEST_F(Fault, TooManyRowsForAnExpertEndAll) {
  const Result result = mpirun(train(
      "deepseek", " parallel.expert=2 parallel.fsdp=2 parallel.expert_rows=1.0 train.steps=100"));
  expect_fault(result);
  EXPECT_THAT(result.first_message(),
              AllOf(StartsWith("rank "), HasSubstr(" rows are for the experts of rank "),
                    HasSubstr("which has room for 96: set parallel.expert_rows larger")))
      << result.output;
}

}  // namespace
}  // namespace spillway
