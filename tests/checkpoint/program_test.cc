// The program itself, stopped, killed and without room.
#include <gmock/gmock.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/trainer/temp_dir.h"
#include "trainer/checkpoint.h"
#include "trainer/checkpoint_folders.h"

extern char** environ;

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Program : public ::testing::Test {
 protected:
  Program() {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "the quick brown fox " + std::to_string(i % 97) + "\n";
    dir_.write("text.txt", text);
    dir_.write("run.yaml",
               "model: {family: llama, vocab_size: 256, hidden_size: 32, intermediate_size: 48,\n"
               "        num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2}\n"
               "train: {steps: 8, micro_batch: 2, seq_len: 32, log_every: 1}\n"
               "schedule: {kind: cosine, learning_rate: 1e-2}\n"
               "device: {hbm_gib: 0.25, host_gib: 0.25, threads: 1}\n"
               "data: {kind: text, path: " + dir_.path("text.txt").string() + "}\n");
  }

  [[nodiscard]] std::string output(const std::string& name) const {
    return "output.directory=" + dir_.path(name).string();
  }
  // Starts bash, which becomes the program; its output goes to the file "log".
  pid_t start(const std::string& overrides, const std::string& before = "") const {
    std::string command = before + " exec " + SPILLWAY_BINARY + " train " +
                          dir_.path("run.yaml").string() + " " + overrides + " >" +
                          dir_.path("log").string() + " 2>&1";
    std::string bash = "bash", flag = "-c";
    char* arguments[] = {bash.data(), flag.data(), command.data(), nullptr};
    pid_t id = -1;
    EXPECT_EQ(posix_spawnp(&id, "bash", nullptr, nullptr, arguments, environ), 0);
    return id;
  }
  static int end_of(pid_t id) {  // the exit code; 128 + the signal that killed it
    int status = 0;
    waitpid(id, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int run(const std::string& overrides, const std::string& before = "") const {
    return end_of(start(overrides, before));
  }
  [[nodiscard]] std::string log() const { return dir_.read("log"); }

  // "loss norm rate" by step; of a step that ran twice the last. `steps`: in order, as recorded.
  struct Records {
    std::map<int64_t, std::string> by_step;
    std::vector<int64_t> steps;
  };
  [[nodiscard]] Records records(const std::string& name) const {
    Records result;
    std::ifstream metrics(dir_.path(name + "/metrics.jsonl"));
    for (std::string line; std::getline(metrics, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_discarded() || !json.contains("loss")) continue;  // killed in a line; a header
      result.steps.push_back(json["step"]);
      result.by_step[json["step"]] =
          json["loss"].dump() + " " + json["grad_norm"].dump() + " " + json["learning_rate"].dump();
    }
    return result;
  }
  void wait_for_records(const std::string& name, size_t steps) const {
    for (int i = 0; i < 3000 && records(name).steps.size() < steps; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_GE(records(name).steps.size(), steps) << log();
  }
  // The first `steps` records of "out" against those of a run of the same length (so is the learning
  // rate) that nobody stops before them.
  void expect_as_left_alone(int64_t steps) const {
    const pid_t id = start(output("alone") + " train.steps=4000");
    wait_for_records("alone", static_cast<size_t>(steps));
    kill(id, SIGKILL);
    (void)end_of(id);
    Records stopped = records("out"), straight = records("alone");
    for (int64_t step = 0; step < steps; ++step) {
      ASSERT_EQ(stopped.by_step[step], straight.by_step[step]) << step;
    }
  }
  [[nodiscard]] fs::path checkpoints(const std::string& name) const {
    return dir_.path(name + "/checkpoints");
  }
  [[nodiscard]] std::vector<std::string> names_in(const fs::path& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

  TempDir dir_;
};

TEST_F(Program, GoesOnWhereTheCheckpointWasMade) {
  ASSERT_EQ(run(output("straight") + " checkpoint.every=3 checkpoint.keep=0"), 0) << log();
  EXPECT_THAT(names_in(checkpoints("straight")),
              ElementsAre("step_00000003", "step_00000006", "step_00000008"));
  ASSERT_EQ(run(output("resumed") + " checkpoint.resume=" +
                (checkpoints("straight") / "step_00000003").string()),
            0) << log();
  EXPECT_THAT(log(), HasSubstr("step 3 of 8, sequence 6"));
  const Records straight = records("straight"), resumed = records("resumed");
  EXPECT_THAT(resumed.steps, ElementsAre(3, 4, 5, 6, 7));
  for (const auto& [step, values] : resumed.by_step) {
    EXPECT_EQ(values, straight.by_step.at(step)) << step;
  }
  EXPECT_FALSE(fs::exists(checkpoints("resumed"))) << "every is 0";
}

TEST_F(Program, FinishedRunsStayAsTheyAre) {
  const std::string often = output("out") + " checkpoint.every=4 checkpoint.keep=1";
  ASSERT_EQ(run(often), 0) << log();
  ASSERT_EQ(run(often), 0) << log();
  EXPECT_EQ(records("out").steps.size(), 8U);
  EXPECT_THAT(names_in(checkpoints("out")), ElementsAre("step_00000008"));
  ASSERT_EQ(run(often + " train.steps=10"), 0) << log();
  EXPECT_EQ(records("out").steps.size(), 10U) << "appended";
  EXPECT_THAT(names_in(checkpoints("out")), ElementsAre("step_00000010"));
}

TEST_F(Program, InterruptedRunsSaveAndGoOn) {
  const std::string often = output("out") + " checkpoint.every=1000000 train.steps=";
  const pid_t id = start(often + "100000000");
  wait_for_records("out", 3);
  kill(id, SIGINT);
  EXPECT_EQ(end_of(id), 130);
  const int64_t last = records("out").steps.back();
  const auto there = checkpoints_in(checkpoints("out"));
  ASSERT_EQ(there.size(), 1U);
  EXPECT_EQ(there.begin()->first, last + 1);
  ASSERT_EQ(run(often + std::to_string(last + 3)), 0) << log();
  EXPECT_EQ(records("out").steps.size(), static_cast<size_t>(last + 3)) << "none twice, none left out";
}

TEST_F(Program, WithoutRoomTrainingGoesOnAndOldCheckpointsStay) {
  ASSERT_EQ(run(output("out") + " checkpoint.every=2 checkpoint.keep=1 train.steps=2"), 0) << log();
  ASSERT_EQ(run(output("out") + " checkpoint.every=2 checkpoint.keep=1 train.steps=6",
                "trap '' XFSZ; ulimit -f 64;"),
            0) << log();
  EXPECT_THAT(log(), HasSubstr("warning: no checkpoint after step 3: rank 0: cannot write "));
  EXPECT_THAT(log(), HasSubstr("File too large; training goes on"));
  EXPECT_EQ(records("out").steps.size(), 6U);
  EXPECT_THAT(names_in(checkpoints("out")), ElementsAre("step_00000002"));
  Manifest manifest;
  EXPECT_EQ(damage_of(checkpoints("out") / "step_00000002", *solo_world(), manifest), "");
}

TEST_F(Program, AFolderThatCannotBeWrittenIsSaidBeforeTheRun) {
  EXPECT_NE(run(output("out") + " checkpoint.every=1 checkpoint.directory=/proc/checkpoints"), 0);
  EXPECT_THAT(log(), HasSubstr("checkpoint.directory /proc/checkpoints: cannot be made"));
  EXPECT_THAT(records("out").steps, ::testing::IsEmpty());
}

// Every time the newest complete checkpoint is whole and no older than the one before, and in the end the
// run has computed what one that was left alone computes.
TEST_F(Program, KilledAtAnyMomentItLosesStepsNotTheRun) {
  constexpr int kKills = 50;
  std::mt19937_64 random(11);
  const std::string every_step =
      output("out") + " checkpoint.every=1 checkpoint.keep=2 train.steps=4000";
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run(output("out") + " checkpoint.every=1 train.steps=1"), 0) << log();
  const auto startup = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - begin);
  fs::remove_all(dir_.path("out"));
  int64_t before = 0;
  int amid_saving = 0;
  for (int i = 0; i < kKills; ++i) {
    const pid_t id = start(every_step);
    std::this_thread::sleep_for(random() % 1000 / 400.0 * startup);
    kill(id, SIGKILL);
    ASSERT_EQ(end_of(id), 128 + SIGKILL) << log();
    const auto there = checkpoints_in(checkpoints("out"));
    if (there.empty()) continue;
    Manifest manifest;
    ASSERT_EQ(damage_of(there.rbegin()->second, *solo_world(), manifest), "");
    EXPECT_EQ(manifest.step, there.rbegin()->first);
    EXPECT_GE(manifest.step, before);
    before = manifest.step;
    for (const std::string& name : names_in(checkpoints("out"))) {
      amid_saving += name.ends_with(".partial") ? 1 : 0;
    }
  }
  EXPECT_GT(before, 10) << "it got on between kills";
  EXPECT_GT(amid_saving, 0) << "some came while it was saving";
  ASSERT_LT(before, 4000);
  expect_as_left_alone(before);
}

}  // namespace
}  // namespace spillway
