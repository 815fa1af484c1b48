// The program as a user runs it: its errors, and what it leaves behind.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Result {
  int status;
  std::string output;  // stdout and stderr
};

Result shell(const std::string& command) {
  Result result{-1, ""};
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  for (char buffer[4096]; size_t n = fread(buffer, 1, sizeof(buffer), pipe);) {
    result.output.append(buffer, n);
  }
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

// A small run on a text of its own.
class Cli : public ::testing::Test {
 protected:
  Cli() {
    folder_ = std::filesystem::temp_directory_path() /
              ("spillway_cli_" + std::to_string(getpid()) + "_" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    std::ofstream text(folder_ / "text.txt");
    for (int i = 0; i < 3000; ++i) text << "the quick brown fox " << i % 97 << "\n";
    std::ofstream config(folder_ / "run.yaml");
    config << "model: {family: llama, vocab_size: 256, hidden_size: 32, intermediate_size: 48,\n"
              "        num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2}\n"
              "train: {steps: 4, micro_batch: 2, seq_len: 32, log_every: 1, eval_every: 2,\n"
              "        eval_batches: 2}\n"
              "schedule: {kind: cosine, learning_rate: 1e-2}\n"
              "device: {hbm_gib: 0.25, host_gib: 0.25}\n"
              "data: {kind: text, path: " << (folder_ / "text.txt").string() << "}\n"
              "output: {directory: " << (folder_ / "out").string() << "}\n";
  }
  ~Cli() override { std::filesystem::remove_all(folder_); }

  Result run(const std::string& command, const std::string& overrides = "") {
    return shell(std::string(SPILLWAY_BINARY) + " " + command + " " +
                 (folder_ / "run.yaml").string() + " " + overrides);
  }
  void expect_error(const std::string& overrides, const std::string& message) {
    const Result result = run("train", overrides);
    EXPECT_NE(result.status, 0) << overrides;
    EXPECT_THAT(result.output, HasSubstr(message)) << overrides;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "metrics.jsonl") &&
                 std::filesystem::file_size(folder_ / "out" / "metrics.jsonl") > 0)
        << "a refused run leaves no record: " << overrides;
  }

  std::filesystem::path folder_;
};

TEST_F(Cli, TrainsAndRecordsEveryStep) {
  const Result result = run("train");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("completed step: 3, seconds: "));
  EXPECT_THAT(result.output, HasSubstr("total_weights: 64, loss: "));
  EXPECT_THAT(result.output, HasSubstr("eval metrics after step: 3"));
  std::ifstream metrics(folder_ / "out" / "metrics.jsonl");
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(metrics, line);) records.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(records.size(), 5U);
  EXPECT_EQ(records[0]["record"], "run");
  EXPECT_EQ(records[0]["config"]["train"]["steps"], 4);
  for (int step = 0; step < 4; ++step) {
    const nlohmann::json& record = records[step + 1];
    EXPECT_EQ(record["step"], step);
    EXPECT_TRUE(record["mfu"].is_null());  // no peak is configured, none is guessed
    EXPECT_EQ(record["hbm_planned_peak_bytes"], record["hbm_measured_peak_bytes"]);
  }
  EXPECT_LT(records[4]["loss"], records[1]["loss"]);
}

TEST_F(Cli, SameSeedSameBits) {
  auto losses = [&] {
    std::string all;
    std::ifstream metrics(folder_ / "out" / "metrics.jsonl");
    for (std::string line; std::getline(metrics, line);) {
      const nlohmann::json record = nlohmann::json::parse(line);
      if (record["record"] == "step") all += record["loss"].dump() + record["grad_norm"].dump() + " ";
    }
    std::filesystem::remove_all(folder_ / "out");
    return all;
  };
  ASSERT_EQ(run("train").status, 0);
  const std::string first = losses();
  ASSERT_EQ(run("train", "device.threads=1 activation.policy=minimal_offloaded").status, 0);
  EXPECT_EQ(losses(), first);
  ASSERT_EQ(run("train", "train.seed=1").status, 0);
  EXPECT_NE(losses(), first);
}

TEST_F(Cli, BadInputIsNamedBeforeAnythingRuns) {
  expect_error("train.stepz=3", "train.stepz is not a key, did you mean steps?");
  expect_error("train.seq_len=0", "train.seq_len");
  expect_error("train.micro_batch=0", "train.micro_batch");
  expect_error("model.num_key_value_heads=3", "num_attention_heads");
  expect_error("activation.policy=minimul", "did you mean minimal?");
  expect_error("activation.policy=custom activation.custom.mlpwi_2=offload",
               "activation.custom.mlpwi_2 is not an activation of decoder_layer, did you mean");
  expect_error("activation.policy=custom activation.custom.decoder_layer_input=remat",
               "decoder_layer_input cannot be remat");
  expect_error("activation.latency_hiding=false activation.pipelined=true", "pipelined");
  expect_error("device.hbm_gib=0.0005", "out of device memory (planned, before step 0): need");
  expect_error("device.kind=gpu", "devices: cpu");
  expect_error("data.path=/nowhere/text.txt", "/nowhere/text.txt");
  expect_error("train.seq_len=100000", "sequence");
}

TEST_F(Cli, UnwritableOutputIsRefused) {
  const Result result = run("train", "output.directory=/proc/spillway");
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("/proc/spillway"));
}

TEST_F(Cli, EmptyTextIsNamed) {
  std::ofstream(folder_ / "empty.txt").flush();
  expect_error("data.path=" + (folder_ / "empty.txt").string(), "empty.txt");
}

TEST_F(Cli, InterruptFinishesTheStepAndKeepsTheMetrics) {
  // Interrupts once a step has been recorded: no guess at how long this machine takes to start. Job
  // control (-m), or the shell would start its background job with SIGINT ignored.
  const Result result = shell(
      "bash -mc '" + std::string(SPILLWAY_BINARY) + " train " + (folder_ / "run.yaml").string() +
      " train.steps=100000000 & for i in $(seq 600); do grep -qs hbm_measured_peak_bytes " +
      (folder_ / "out" / "metrics.jsonl").string() +
      " && break; sleep 0.1; done; kill -INT $!; wait $!'");
  EXPECT_EQ(result.status, 130);
  EXPECT_THAT(result.output, HasSubstr("interrupted: stopped after step"));
  std::ifstream metrics(folder_ / "out" / "metrics.jsonl");
  std::string last;
  for (std::string line; std::getline(metrics, line);) last = line;
  const int64_t step = nlohmann::json::parse(last)["step"];
  EXPECT_THAT(result.output, HasSubstr("stopped after step " + std::to_string(step)));
}

TEST_F(Cli, CompareRunsTheFiveStrategiesToTheSameBits) {
  const Result result = run("compare", "--steps 2");
  EXPECT_EQ(result.status, 0) << result.output;
  for (const char* name : {"keep", "remat", "offload, naive", "offload, latency-hidden",
                           "offload, pipelined"}) {
    EXPECT_THAT(result.output, HasSubstr(std::string("\n") + name));
  }
  EXPECT_THAT(result.output, Not(HasSubstr(" NO\n")));
}

TEST_F(Cli, ExplainRunsNothing) {
  const Result result = run("explain", "--schedule activation.policy=minimal_offloaded");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("mlpwi_0"));
  EXPECT_THAT(result.output, HasSubstr("HBM: planned peak"));
  EXPECT_THAT(result.output, HasSubstr("# wait d2h#"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST(Configs, BigModelsExplain) {
  const Result result = shell(std::string(SPILLWAY_BINARY) + " explain " + SPILLWAY_SOURCE_DIR +
                              "/configs/run/llama3_405b.yaml");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("2523.955986 GFLOP per token"));
  EXPECT_THAT(result.output, HasSubstr("20676.247 TFLOP per step"));
}

TEST(Configs, PlanSaysWhichStrategyWinsOnAMachineThatIsNotHere) {
  auto plan = [](const std::string& hardware) {
    return shell("cd " + std::string(SPILLWAY_SOURCE_DIR) + " && " + SPILLWAY_BINARY +
                 " plan configs/run/llama3_8b.yaml --hardware " + hardware +
                 " --ranks 8 parallel.fsdp=8");
  };
  const Result result = plan("h100_sxm");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("8 x NVIDIA HGX H100 SXM"));
  EXPECT_THAT(result.output, HasSubstr("is the fastest that fits"));
  EXPECT_THAT(plan("h100_smx").output, HasSubstr("h100_sxm"));
}

TEST(Configs, PlanSaysWhy) {
  const Result result = shell("cd " + std::string(SPILLWAY_SOURCE_DIR) + " && " + SPILLWAY_BINARY +
                              " plan configs/paper/deepseek_v3.yaml --hardware gb200_nvl72 --ranks 128"
                              " activation=configs/activation/deepseek_v3_offload.yaml");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("offload, pipelined is the fastest that fits"));
  EXPECT_THAT(result.output, HasSubstr("keep does not fit: HBM"));
  EXPECT_THAT(result.output, HasSubstr("s recomputing"));
  EXPECT_THAT(result.output, HasSubstr("s waiting for copies"));
}

TEST(Configs, BenchAndSweepTakeRepeatedOptionsAndOverrides) {
  const std::string in_source = "cd " + std::string(SPILLWAY_SOURCE_DIR) + " && " + SPILLWAY_BINARY;
  const Result sweep = shell(in_source + " sweep configs/run/llama_tiny.yaml --hardware h100_sxm "
                             "--vary ranks=1,2 train.micro_batch=4 --strategies");
  EXPECT_EQ(sweep.status, 0) << sweep.output;
  EXPECT_THAT(sweep.output, HasSubstr("2, offload, pipelined"));
  const Result bench = shell(in_source + " bench paper --row dsv3_remate --set train.micro_batch=4");
  EXPECT_EQ(bench.status, 1);
  EXPECT_THAT(bench.output, HasSubstr("did you mean dsv3_remat?"));
}

TEST_F(Cli, TraceIsValidJson) {
  ASSERT_EQ(run("train", "output.trace_step=2 activation.policy=minimal_offloaded").status, 0);
  std::ifstream file(folder_ / "out" / "trace_step2.json");
  const nlohmann::json trace = nlohmann::json::parse(file);
  EXPECT_GT(trace["traceEvents"].size(), 100U);
}

}  // namespace
