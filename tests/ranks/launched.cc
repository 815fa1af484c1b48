#include "tests/ranks/launched.h"

#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/meshes/mesh_run.h"
#include "trainer/loop.h"

namespace spillway {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// There, and not a zombie that whoever inherited it has yet to collect.
bool runs(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] != 'Z' && text[name_end + 2] != 'X';
}

constexpr const char* kLlama = R"(
model: {family: llama, vocab_size: 256, hidden_size: 32, intermediate_size: 48,
        num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2})";
constexpr const char* kDeepseek = R"(
model: {family: deepseek, vocab_size: 256, hidden_size: 32, intermediate_size: 48,
        num_hidden_layers: 2, num_attention_heads: 4, q_lora_rank: 16, kv_lora_rank: 8,
        qk_nope_head_dim: 8, qk_rope_head_dim: 4, v_head_dim: 8, first_k_dense_replace: 1,
        n_routed_experts: 8, n_shared_experts: 1, num_experts_per_tok: 3, moe_intermediate_size: 16, n_group: 4,
        topk_group: 2, scoring_func: sigmoid, topk_method: noaux_tc, norm_topk_prob: true,
        routed_scaling_factor: 2.5, rms_norm_eps: 1e-6, rope_theta: 10000})";
constexpr const char* kRun = R"(
train: {steps: 5, micro_batch: 1, seq_len: 32, global_batch: 8, log_every: 1, eval_every: 2,
        eval_batches: 2}
schedule: {kind: cosine, learning_rate: 1e-2}
device: {hbm_gib: 0.25, host_gib: 0.25, threads: 1}
data: {kind: text, path: text.txt}
output: {directory: out}
)";

}  // namespace

int Result::count(const std::string& text) const {
  int count = 0;
  for (size_t at = 0; (at = output.find(text, at)) != std::string::npos; ++at) ++count;
  return count;
}

std::string Result::first_message() const {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("rank ") || line.starts_with("spillway: ")) return line;
  }
  return "";
}

void Launched::SetUp() {
  if (std::string(SPILLWAY_MPIRUN).empty()) GTEST_SKIP() << "this build has no MPI";
  dir_.write("llama.yaml", std::string(kLlama) + kRun);
  dir_.write("deepseek.yaml", std::string(kDeepseek) + kRun);
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "the quick brown fox " + std::to_string(i % 97) + "\n";
  dir_.write("text.txt", text);
}

// In the test's folder, which is what relative paths of the configs are relative to.
Result Launched::shell(const std::string& command) const {
  const auto start = Clock::now();
  Result result;
  FILE* pipe = popen(("exec 2>&1; cd " + dir_.path().string() + "; " + command).c_str(), "r");
  for (char buffer[4096]; size_t n = fread(buffer, 1, sizeof(buffer), pipe);) {
    result.output.append(buffer, n);
  }
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.seconds = seconds_since(start);
  return result;
}

Result Launched::mpirun(const std::string& arguments, int ranks, const std::string& program) const {
  return shell(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "OMPI_MCA_rmaps_base_oversubscribe=1 timeout -k 5 60 " SPILLWAY_MPIRUN " -np " +
      std::to_string(ranks) + " " + (program.empty() ? SPILLWAY_BINARY : program) + " " +
      arguments);
}

std::string Launched::train(const std::string& config, const std::string& overrides) const {
  return "train " + dir_.path(config + ".yaml").string() + overrides;
}

std::string Launched::wrapper(int rank, const std::string& special) const {
  const std::string path =
      dir_.write("wrapper",
                 "#!/usr/bin/env bash\nRANK=$OMPI_COMM_WORLD_RANK\necho $$ $PPID >pid.$RANK\n"
                 "if [ $RANK = " +
                     std::to_string(rank) + " ]; then " + special +
                     "; fi\n"
                     "exec " SPILLWAY_BINARY " \"$@\"\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

// Returns when two steps have been recorded. Empty when the run ended before.
std::vector<int> Launched::wait_for_processes(const std::function<bool()>& ended) const {
  while (recorded().steps.size() < 2) {
    if (ended()) return {};
    std::this_thread::sleep_for(20ms);
  }
  std::vector<int> ids;
  int parent = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::istringstream text(dir_.read("pid." + std::to_string(rank)));
    text >> ids.emplace_back() >> parent;
  }
  ids.push_back(parent);
  return ids;
}

Result Launched::amid_training(const std::function<void(const std::vector<int>&)>& happens,
                               const std::string& overrides) const {
  const std::string program = wrapper(0, "true");
  const std::string arguments =
      train("llama", std::string(kTensorFsdp) + " train.steps=1000000" + overrides);
  auto running = std::async(std::launch::async, [&] { return mpirun(arguments, kRanks, program); });
  const std::vector<int> ids =
      wait_for_processes([&] { return running.wait_for(0s) == std::future_status::ready; });
  const auto start = Clock::now();
  if (!ids.empty()) happens(ids);
  Result result = running.get();
  // mpirun may end a moment before those that it has just killed.
  while (std::ranges::any_of(ids, runs) && seconds_since(start) < 10) {
    std::this_thread::sleep_for(10ms);
  }
  result.seconds = seconds_since(start);
  EXPECT_FALSE(ids.empty()) << "ended too early: " << result.output;
  for (int id : ids) EXPECT_FALSE(runs(id)) << "process " << id << " is still there";
  return result;
}

void Launched::expect_fault(const Result& result) {
  EXPECT_NE(result.status, 0) << result.output;
  EXPECT_NE(result.status, 124) << "timed out";
  EXPECT_LT(result.seconds, 10) << result.output;
  std::printf("%.2f s\n", result.seconds);
}

void Launched::expect_said_once(const Result& result, const std::string& message) {
  expect_fault(result);
  EXPECT_THAT(result.first_message(), ::testing::HasSubstr(message)) << result.output;
  EXPECT_EQ(result.count(message), 1) << result.output;
}

Recorded Launched::recorded(const std::string& folder) const {
  Recorded all;
  std::istringstream lines(dir_.read(folder + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    const auto record = nlohmann::json::parse(line);
    if (record["record"] == "run") all.header = line;
    if (record["record"] != "step") continue;
    all.steps.push_back("loss " + record["loss"].dump() + ", norm " + record["grad_norm"].dump() +
                        ", evaluation " + record["validation_loss"].dump());
  }
  return all;
}

Recorded Launched::on_threads(const std::string& config, const std::string& overrides) const {
  std::vector<std::string> all = {"output.directory=" + dir_.path("threads").string(),
                                  "data.path=" + dir_.path("text.txt").string()};
  std::istringstream words(overrides);
  for (std::string word; words >> word;) all.push_back(word);
  const Config loaded = load_config(dir_.path(config + ".yaml").string(), all);
  ::testing::internal::CaptureStdout();
  on_thread_ranks(kRanks, [&](World& world) { EXPECT_EQ(train_command(loaded, world), 0); });
  (void)::testing::internal::GetCapturedStdout();
  return recorded("threads");
}

}  // namespace spillway
