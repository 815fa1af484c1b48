// What a run writes down: a header once, and a record a step.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "program/schedule.h"
#include "trainer/router_stats.h"
#include "trainer/step_stats.h"

namespace spillway {

// Facts of a whole run. In JSON: "record": "run".
struct RunHeader {
  std::string version;
  std::string device;  // its name
  int64_t devices = 1;
  int64_t parameters = 0;
  double model_flops_per_token = 0;
  nlohmann::ordered_json environment;  // to_json(RunEnvironment)
  nlohmann::ordered_json config;  // resolved: to_json(Config)
};

// A memory space's peak, in bytes.
struct PeakBytes {
  int64_t planned = 0, measured = 0, capacity = 0;
};

// One training step. In JSON: "record": "step".
struct StepRecord {
  int64_t step = 0;      // from 0
  double loss = 0;       // mean over the target tokens
  double grad_norm = 0;  // before clipping
  double learning_rate = 0;
  double seconds = 0;            // of the whole step
  double data_wait_seconds = 0;  // of those, spent waiting for the next batch
  std::optional<double> validation_loss;

  // Over all devices.
  int64_t devices = 1;
  int64_t model_flops = 0;
  int64_t tokens = 0;
  int64_t target_tokens = 0;
  double peak_tflops = 0;  // of one device, from the config; 0: unknown

  PeakBytes hbm, host;
  std::array<int64_t, kMemoryClassCount> hbm_at_peak = {};  // by MemoryClass
  int64_t scratch_bytes = 0;                                // beside the plan
  CopyBytes copied;
  int64_t sent_bytes = 0;  // to other ranks, by one
  StepStats copies;
  std::optional<double> mtp_loss;     // of multi-token prediction, weighted; not part of `loss`
  std::optional<RouterStats> router;  // mixture of experts only

  [[nodiscard]] double tflops_per_device() const;
  [[nodiscard]] double tokens_per_s_per_device() const;
  // Model FLOP/s over the peak; none when the peak is unknown: a peak is never guessed.
  [[nodiscard]] std::optional<double> mfu() const;
  // The share of copy time that compute covered; none when nothing is copied.
  [[nodiscard]] std::optional<double> overlap_fraction() const;
};

// Keys carry their units. A number that is not finite becomes null.
[[nodiscard]] nlohmann::ordered_json to_json(const RunHeader& header);
[[nodiscard]] nlohmann::ordered_json to_json(const StepRecord& record);

// MaxText's lines, which its users' scripts parse.
[[nodiscard]] std::string step_line(const StepRecord& record);
[[nodiscard]] std::string evaluation_line(int64_t step, double loss, int64_t target_tokens);
// Of the measured peak; before anything has run, of the planned one. `device` as in "cpu:0"; GB are
// 2^30 bytes there.
[[nodiscard]] std::string memory_line(const PeakBytes& hbm, const std::string& device);

}  // namespace spillway
