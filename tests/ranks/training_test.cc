// What MPI processes train is what thread ranks train; who speaks; how runs are launched.
#include <nlohmann/json.hpp>

#include "tests/ranks/launched.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Training : public Launched {
 protected:
  // Runs the config on processes, into a folder of its own.
  Recorded on_processes(const std::string& config, const std::string& overrides,
                        const std::string& folder) const {
    const Result result = mpirun(train(config, overrides + " output.directory=" + folder));
    EXPECT_EQ(result.status, 0) << result.output;
    return recorded(folder);
  }
  void expect_same_bits(const std::string& config, const std::string& mesh) const {
    const Recorded threads = on_threads(config, mesh);
    ASSERT_EQ(threads.steps.size(), 5U);
    EXPECT_THAT(threads.steps[1], Not(HasSubstr("null"))) << "every second step is evaluated";
    EXPECT_EQ(on_processes(config, mesh, "processes").steps, threads.steps);
    EXPECT_EQ(
        on_processes(config, mesh + " activation.policy=minimal_offloaded", "offloaded").steps,
        threads.steps);
  }
};

TEST_F(Training, LlamaHasTheBitsOfThreads) { expect_same_bits("llama", kTensorFsdp); }

TEST_F(Training, DeepseekHasTheBitsOfThreads) {
  expect_same_bits("deepseek", " parallel.expert=2 parallel.fsdp=2");
}

// Every rank in a folder of its own, to which the output is relative.
TEST_F(Training, RankZeroSpeaksAndWritesForAll) {
  const std::string program = dir_.write(
      "apart",
      "#!/usr/bin/env bash\nmkdir rank.$OMPI_COMM_WORLD_RANK && cd rank.$OMPI_COMM_WORLD_RANK\n"
      "exec " SPILLWAY_BINARY " \"$@\" 2>stderr\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const Result result =
      mpirun(train("llama", std::string(kTensorFsdp) +
                                " output.trace_step=1 data.path=" + dir_.path("text.txt").string()),
             kRanks, program);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(result.count("4 ranks: fsdp 2 x tensor 2; engine: Open MPI v"), 1) << result.output;
  EXPECT_EQ(result.count("completed step: "), 5) << result.output;
  EXPECT_THAT(result.output, Not(HasSubstr("ETA"))) << "no progress bar: this is no terminal";
  EXPECT_TRUE(std::filesystem::exists(dir_.path("rank.0/out/trace_step1.json")));
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string folder = "rank." + std::to_string(rank);
    EXPECT_EQ(dir_.read(folder + "/stderr"), "");
    EXPECT_EQ(std::filesystem::exists(dir_.path(folder + "/out")), rank == 0) << rank;
  }
  const auto header = nlohmann::json::parse(recorded("rank.0/out").header);
  const nlohmann::json& environment = header["environment"];
  EXPECT_EQ(environment["hosts"].size(), 4U) << environment;
  EXPECT_EQ(environment["cores"].size(), 4U) << environment;
  EXPECT_THAT(environment["engine"].get<std::string>(), HasSubstr("Open MPI v")) << environment;
  EXPECT_THAT(environment["engine"].get<std::string>(), HasSubstr(", 4 processes")) << environment;
}

TEST_F(Training, CompareFindsTheSameBitsAndSaysItOnce) {
  const Result result =
      mpirun("compare " + dir_.path("llama.yaml").string() + " --steps 2 parallel.fsdp=2", 2);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(result.count(" same bits\n"), 1) << result.output;
  EXPECT_EQ(result.count(" yes\n"), 5) << result.output;
  EXPECT_THAT(result.output, Not(HasSubstr(" NO\n")));
}

TEST_F(Training, TheLaunchScriptTrains) {
  const Result result = shell("SPILLWAY=" SPILLWAY_BINARY " MPIRUN=" SPILLWAY_MPIRUN
                              " " SPILLWAY_SOURCE_DIR "/scripts/launch_mpirun -n 2 -- " +
                              train("llama", " parallel.fsdp=2"));
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(result.count("2 ranks: fsdp 2; engine: Open MPI v"), 1) << result.output;
  EXPECT_EQ(recorded().steps.size(), 5U);
}

}  // namespace
}  // namespace spillway
