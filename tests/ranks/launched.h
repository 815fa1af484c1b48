// The real program on ranks that are MPI processes: small models, in a folder of the test's own.
#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/trainer/temp_dir.h"

namespace spillway {

struct Result {
  int status = -1;     // of the shell: 128 + N for signal N
  double seconds = 0;  // until everything had ended
  std::string output;  // stdout and stderr
  // How often `text` is said.
  [[nodiscard]] int count(const std::string& text) const;
  // The first line that a rank of this program wrote about its end; "" when there is none.
  [[nodiscard]] std::string first_message() const;
};

// Of a step of metrics.jsonl, as text: loss, gradient norm and, where there was one, evaluation.
struct Recorded {
  std::string header;
  std::vector<std::string> steps;
};

class Launched : public ::testing::Test {
 protected:
  static constexpr int kRanks = 4;
  static constexpr const char* kTensorFsdp = " parallel.tensor=2 parallel.fsdp=2";

  // Skips the test where this build has no MPI. Writes llama.yaml and deepseek.yaml.
  void SetUp() override;

  Result shell(const std::string& command) const;
  // `program`: what each rank starts; by default the program itself.
  Result mpirun(const std::string& arguments, int ranks = kRanks,
                const std::string& program = "") const;
  // The arguments of a training of that config.
  [[nodiscard]] std::string train(const std::string& config, const std::string& overrides) const;
  // A script that runs `special` on one rank before the program, whose arguments are "$@".
  [[nodiscard]] std::string wrapper(int rank, const std::string& special) const;

  // Starts a training without end, on tensor 2 x fsdp 2; after its first steps `happens` gets the
  // ids of the processes by rank, last that of mpirun. `seconds` count from there. Fails when a
  // process outlives the run.
  Result amid_training(const std::function<void(const std::vector<int>&)>& happens,
                       const std::string& overrides = "") const;
  // Ended soon, with an error.
  static void expect_fault(const Result& result);
  // A fault that the program itself reports: once, and nothing else comes before it.
  static void expect_said_once(const Result& result, const std::string& message);

  [[nodiscard]] Recorded recorded(const std::string& folder = "out") const;
  // The same run on ranks that are threads of this process.
  [[nodiscard]] Recorded on_threads(const std::string& config, const std::string& overrides) const;

  TempDir dir_;

 private:
  [[nodiscard]] std::vector<int> wait_for_processes(const std::function<bool()>& ended) const;
};

}  // namespace spillway
