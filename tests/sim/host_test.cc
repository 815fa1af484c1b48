// A step of this machine, predicted from its components. The one machine that is here to check
// device/sim against.
//
// calibrate() measures components by themselves; the five strategies then run interleaved on the cpu
// device, with a paced link, and each Schedule that ran is simulated. Other work on the machine disturbs
// both, and not alike: medians count, and the best of a few attempts. Where none agrees and others had
// the machine in all of them, nothing has been shown: the test is skipped.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>

#include "device/sim/simulate.h"
#include "tests/strategies/trajectory.h"
#include "tests/trainer/temp_dir.h"
#include "trainer/calibrate.h"
#include "trainer/compare.h"
#include "trainer/hardware_file.h"

namespace spillway {
namespace {

constexpr int kAttempts = 4, kRounds = 9;
constexpr double kLinkGbPerS = 0.5;
constexpr double kError = 0.15;  // of a step time
constexpr double kTie = 0.05;    // measured step times that are nearer than this have no order
constexpr double kOthers = 0.1;  // cores that others use of a machine which counts as undisturbed

// Cores that other processes use, on average since this was made.
class Others {
 public:
  [[nodiscard]] double cores() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    return (busy_of_others() - busy_) / passed.count();
  }

 private:
  // CPU seconds since boot, without this process's.
  static double busy_of_others() {
    std::ifstream stat("/proc/stat");
    std::string cpu;
    double user = 0, nice = 0, system = 0, idle = 0, io = 0, irq = 0, soft_irq = 0, steal = 0;
    stat >> cpu >> user >> nice >> system >> idle >> io >> irq >> soft_irq >> steal;
    rusage own = {};
    getrusage(RUSAGE_SELF, &own);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return (user + nice + system + irq + soft_irq + steal) /
               static_cast<double>(sysconf(_SC_CLK_TCK)) -
           seconds(own.ru_utime) - seconds(own.ru_stime);
  }

  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double busy_ = busy_of_others();
};

struct Comparison {
  std::string strategy;
  double measured = 0, predicted = 0;
  [[nodiscard]] double error() const { return predicted / measured - 1; }
};

// Each strategy once a round: what disturbs the machine for seconds disturbs all.
std::vector<Comparison> run_and_predict(const Config& config, const Hardware& hardware) {
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::vector<double>> seconds;
  std::vector<Comparison> result;
  for (const Config& strategy : five_strategies(config)) {
    sessions.push_back(std::make_unique<Session>(strategy));
    const Step& step = sessions.back()->compiled().train;
    result.push_back({.strategy = strategy.name,
                      .predicted = sim::simulate(step.schedule, step.plan, hardware, {}).seconds});
  }
  seconds.resize(sessions.size());
  for (int64_t round = 0; round <= kRounds; ++round) {
    const Batch batch = random_batch(config, round);
    for (size_t i = 0; i < sessions.size(); ++i) {
      const double taken = sessions[i]->train_step(batch, round, 1e-3).seconds;
      if (round > 0) seconds[i].push_back(taken);  // the first touches every page
    }
  }
  for (size_t i = 0; i < result.size(); ++i) {
    std::ranges::nth_element(seconds[i], seconds[i].begin() + kRounds / 2);
    result[i].measured = seconds[i][kRounds / 2];
  }
  return result;
}

bool agrees(const std::vector<Comparison>& rows) {
  for (const Comparison& a : rows) {
    if (std::abs(a.error()) > kError) return false;
    for (const Comparison& b : rows) {
      if (a.measured < (1 - kTie) * b.measured && a.predicted >= b.predicted) return false;
    }
  }
  return true;
}

// Through a file, as people use it.
Hardware calibrated(const Config& config) {
  const TempDir dir;
  std::ostringstream progress;
  calibrate_to_file(config, dir.path("here.yaml"), progress);
  return load_hardware(dir.path("here.yaml"));
}

std::string table_of(const std::vector<Comparison>& rows) {
  std::string table;
  for (const Comparison& row : rows) {
    table += fmt::format("{:<24} measured {:.4f} s, predicted {:.4f} s, {:+.1f} %\n", row.strategy,
                         row.measured, row.predicted, 100 * row.error());
  }
  return table;
}

void expect_predictions(const char* name) {
  const std::string path = std::string(SPILLWAY_SOURCE_DIR) + "/configs/run/" + name + ".yaml";
  const Config config = load_config(path, {fmt::format("device.link_gb_per_s={}", kLinkGbPerS)});
  std::string seen;
  bool undisturbed = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Others others;
    const Hardware hardware = calibrated(config);
    for (const Figure& link : {hardware.d2h_gb_per_s, hardware.h2d_gb_per_s}) {
      EXPECT_GT(link.value, 0.8 * kLinkGbPerS);  // the paced link is part of the machine
      EXPECT_LE(link.value, kLinkGbPerS);
    }
    const std::vector<Comparison> rows = run_and_predict(config, hardware);
    const double cores = others.cores();
    undisturbed = undisturbed || cores < kOthers;
    seen += fmt::format("{}, others had {:.2f} cores:\n{}", name, cores, table_of(rows));
    if (agrees(rows)) {
      fmt::print("{}", seen);
      return;
    }
  }
  if (!undisturbed) GTEST_SKIP() << "others disturbed every attempt:\n" << seen;
  FAIL() << "no attempt within " << 100 * kError << " % and in order:\n" << seen;
}

TEST(SlowHost, LlamaStepsFollowFromComponents) { expect_predictions("llama_tiny"); }
TEST(SlowHost, DeepseekStepsFollowFromComponents) { expect_predictions("deepseek_tiny"); }

}  // namespace
}  // namespace spillway
