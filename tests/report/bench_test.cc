// `spillway bench` and `spillway sweep` from table to files.
#include "trainer/bench_command.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <sstream>

#include "program/error.h"
#include "trainer/sweep_command.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

const std::string kSource = SPILLWAY_SOURCE_DIR;

BenchReport run(const std::string& table, const BenchOptions& given) {
  BenchOptions options = given;
  options.out = std::filesystem::temp_directory_path() / "spillway_bench_test";
  std::ostringstream out;
  const std::unique_ptr<World> world = solo_world();
  BenchReport report = bench(load_bench_table(kSource + table), options, *world, out);
  EXPECT_THAT(out.str(), HasSubstr("report.html"));
  EXPECT_TRUE(std::filesystem::exists(options.out / "report.md"));
  std::filesystem::remove_all(options.out);
  return report;
}

const StepReport& step_of(const BenchReport& report, const std::string& id) {
  for (const BenchResult& result : report.results) {
    if (result.row.id == id && result.step) return *result.step;
  }
  throw std::runtime_error("no step of row " + id);
}

// What the published table says in words, and its best rate within ten percent: from measurements of
// components alone. The other rates come out as they come out.
TEST(Paper, DeepseekOrderFitAndBestRate) {
  const BenchReport report =
      run("/configs/paper/table.yaml",
          {.rows = {"dsv3_remat", "dsv3_naive", "dsv3_latency_hidden", "dsv3_pipelined", "dsv3_keep"}});
  EXPECT_FALSE(step_of(report, "dsv3_keep").fits());
  for (const char* id : {"dsv3_remat", "dsv3_naive", "dsv3_latency_hidden", "dsv3_pipelined"}) {
    EXPECT_TRUE(step_of(report, id).fits()) << id;
  }
  const double pipelined = step_of(report, "dsv3_pipelined").tflops_per_device;
  EXPECT_GT(pipelined, step_of(report, "dsv3_latency_hidden").tflops_per_device);
  EXPECT_GT(step_of(report, "dsv3_latency_hidden").tflops_per_device,
            step_of(report, "dsv3_naive").tflops_per_device);
  EXPECT_GT(pipelined, step_of(report, "dsv3_remat").tflops_per_device);
  EXPECT_NEAR(pipelined, 908.2, 90.8);
}

TEST(Paper, LlamaGainsAFewPercent) {
  const BenchReport report = run(
      "/configs/paper/table.yaml",
      {.rows = {"llama405b_remat", "llama405b_latency_hidden", "llama405b_pipelined"}});
  const double remat = step_of(report, "llama405b_remat").seconds;
  const double hidden = step_of(report, "llama405b_latency_hidden").seconds;
  const double pipelined = step_of(report, "llama405b_pipelined").seconds;
  EXPECT_GT(remat / hidden, 1.0);
  EXPECT_LT(remat / pipelined, 1.1);
  EXPECT_LT(hidden / pipelined, 1.03);
}

TEST(Bench, MeasuresOnTheDeviceThatIsHere) {
  const BenchReport report = run("/tests/report/table.yaml", {.rows = {"llama_tiny", "deepseek_tiny"},
                                                              .overrides = {"train.seq_len=32", "data={kind: synthetic}"},
                                                              .measure_steps = 2});
  const StepReport& step = step_of(report, "llama_tiny");
  EXPECT_FALSE(step.simulated);
  EXPECT_GT(step.seconds, 0);
  EXPECT_TRUE(step.fits());
  EXPECT_THAT(report.results[1].error, HasSubstr("needs 8 ranks; this run has 1"));
}

// A row that the device cannot hold says so, and the others still run.
TEST(Bench, ARowThatDoesNotFitTheDeviceIsAnEntry) {
  const BenchReport report = run("/tests/report/table.yaml", {.rows = {"llama_tiny"},
                                                              .overrides = {"device.hbm_gib=0.001", "data={kind: synthetic}"},
                                                              .measure_steps = 1});
  EXPECT_THAT(report.results[0].error, HasSubstr("out of device memory"));
}

TEST(Bench, BadRowsEndItBeforeAnythingRuns) {
  const auto error_of = [](const BenchOptions& options) {
    std::ostringstream out;
    try {
      (void)bench(load_bench_table(kSource + "/tests/report/table.yaml"), options, *solo_world(), out);
    } catch (const ConfigError& error) {
      EXPECT_EQ(out.str(), "");
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_of({.rows = {"llama_tinny"}}), HasSubstr("did you mean llama_tiny"));
  const std::string mesh = error_of({.overrides = {"parallel.tensor=3"}});
  EXPECT_THAT(mesh, HasSubstr("row llama_tiny"));
  EXPECT_THAT(mesh, HasSubstr("3"));
}

TEST(Sweep, VariesKeysRanksAndFigures) {
  std::ostringstream out;
  SweepOptions options{.config = kSource + "/configs/run/llama_tiny.yaml",
                       .overrides = {"activation=" + kSource + "/configs/activation/minimal_naive.yaml"},
                       .hardware = kSource + "/configs/hardware/h100_sxm.yaml",
                       .vary = {"ranks=1,2", "hardware.d2h_gb_per_s=1,50"}};
  const std::vector<report::SweepPoint> points = sweep(options, out);
  ASSERT_EQ(points.size(), 4);
  EXPECT_EQ(points[3].values, (std::vector<std::string>{"2", "50"}));
  EXPECT_EQ(points[3].step.ranks, 2);
  EXPECT_GT(points[0].step.seconds, points[1].step.seconds);
  options.vary = {"train.micro_batch=1"};
  options.strategies = true;
  EXPECT_EQ(sweep(options, out).size(), 5);
}

TEST(Sweep, NamesWhatIsWrong) {
  const auto error_of = [](const std::string& vary) {
    std::ostringstream out;
    try {
      (void)sweep({.config = kSource + "/configs/run/llama_tiny.yaml",
                   .hardware = kSource + "/configs/hardware/h100_sxm.yaml",
                   .vary = {vary}},
                  out);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_of("train.micro_batch"), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(error_of("train.micro_batch=1,,2"), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(error_of("train.micro_bach=1"), HasSubstr("micro_bach is not a key"));
  EXPECT_THAT(error_of("ranks=0"), HasSubstr("at least 1"));
  EXPECT_THAT(error_of("ranks=1,two"), HasSubstr("\"two\""));
  EXPECT_THAT(error_of("hardware.d2h=1"), HasSubstr("hardware.d2h is not a figure"));
  EXPECT_THAT(error_of("hardware.nic_gb_per_s=-1"), HasSubstr("greater than 0"));
}

}  // namespace
}  // namespace spillway
