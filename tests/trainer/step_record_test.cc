#include "trainer/step_record.h"

#include <gmock/gmock.h>

#include <limits>

namespace spillway {
namespace {

// The published step: 1024 sequences of 4096 tokens on 128 devices in 9.036 s.
StepRecord published() {
  StepRecord record;
  record.step = 7;
  record.loss = 10.123;
  record.seconds = 32768 / 3626.401;  // 9.036
  record.devices = 128;
  record.model_flops = static_cast<int64_t>(908.2e12 * record.seconds) * record.devices;
  record.tokens = record.target_tokens = 1024 * 4096;
  return record;
}

TEST(StepRecord, MaxTextsLine) {
  EXPECT_EQ(
      step_line(published()),
      "completed step: 7, seconds: 9.036, TFLOP/s/device: 908.200, Tokens/s/device: 3626.401, "
      "total_weights: 4194304, loss: 10.123");
  EXPECT_EQ(evaluation_line(7, 2.5, 100),
            "eval metrics after step: 7, loss=2.500, total_weights=100");
  PeakBytes hbm{.planned = int64_t{2} << 30, .measured = 0, .capacity = int64_t{4} << 30};
  EXPECT_EQ(memory_line(hbm, "cpu:0"), "Using (GB) 2.00 / 4.00 (50.000000%) on cpu:0");
  hbm.measured = int64_t{3} << 29;
  EXPECT_EQ(memory_line(hbm, "cpu:0"), "Using (GB) 1.50 / 4.00 (37.500000%) on cpu:0");
}

TEST(StepRecord, MfuNeedsAKnownPeak) {
  StepRecord record = published();
  EXPECT_FALSE(record.mfu().has_value());
  EXPECT_TRUE(to_json(record)["mfu"].is_null());
  record.peak_tflops = 2 * record.tflops_per_device();
  EXPECT_DOUBLE_EQ(*record.mfu(), 0.5);
}

TEST(StepRecord, OverlapNeedsCopies) {
  StepRecord record = published();
  EXPECT_TRUE(to_json(record)["overlap_fraction"].is_null());
  record.copied = {.d2h = 100, .h2d = 100};
  record.copies = {.copy_seconds_d2h = 2, .copy_seconds_h2d = 2, .exposed_seconds = 1};
  EXPECT_DOUBLE_EQ(to_json(record)["overlap_fraction"].get<double>(), 0.75);
}

TEST(StepRecord, JsonKeysCarryUnits) {
  StepRecord record = published();
  record.hbm = {.planned = 10, .measured = 9, .capacity = 20};
  record.hbm_at_peak = {1, 2, 3, 4, 5, 6};
  record.validation_loss = 2.5;
  const auto json = nlohmann::json::parse(to_json(record).dump());
  EXPECT_EQ(json["record"], "step");
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["step_seconds"], record.seconds);
  EXPECT_EQ(json["validation_loss"], 2.5);
  EXPECT_EQ(json["hbm_planned_peak_bytes"], 10);
  EXPECT_EQ(json["hbm_measured_peak_bytes"], 9);
  EXPECT_EQ(json["hbm_at_peak_bytes"]["parameters"], 1);
  EXPECT_EQ(json["hbm_at_peak_bytes"]["activations"], 5);
  EXPECT_EQ(json["hbm_at_peak_bytes"].size(), 7u);
}

TEST(StepRecord, OddNumbersStayJson) {
  StepRecord record = published();
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.grad_norm = std::numeric_limits<double>::infinity();
  record.seconds = 0;
  const auto json = nlohmann::json::parse(to_json(record).dump());
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["grad_norm"].is_null());
  EXPECT_EQ(json["tokens_per_s_per_device"], 0);
}

}  // namespace
}  // namespace spillway
