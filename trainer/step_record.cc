#include "trainer/step_record.h"

#include <fmt/format.h>

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

// Of a step too short to time: 0, not infinity.
double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

}  // namespace

double StepRecord::tflops_per_device() const {
  return per_second(static_cast<double>(model_flops), seconds) / 1e12 /
         static_cast<double>(devices);
}

double StepRecord::tokens_per_s_per_device() const {
  return per_second(static_cast<double>(tokens), seconds) / static_cast<double>(devices);
}

std::optional<double> StepRecord::mfu() const {
  if (peak_tflops <= 0) return std::nullopt;
  return tflops_per_device() / peak_tflops;
}

std::optional<double> StepRecord::overlap_fraction() const {
  if (copied.d2h == 0 && copied.h2d == 0) return std::nullopt;
  return copies.overlap_fraction();
}

Json to_json(const RunHeader& header) {
  return {{"record", "run"},
          {"version", header.version},
          {"device", header.device},
          {"devices", header.devices},
          {"parameters", header.parameters},
          {"model_flops_per_token", header.model_flops_per_token},
          {"environment", header.environment},
          {"config", header.config}};
}

namespace {

Json router_json(const RouterStats& router) {
  return {{"load_min", router.load_min},
          {"load_max", router.load_max},
          {"load_entropy", router.load_entropy},
          {"dropped_choices", router.dropped_choices},
          {"bias_min", router.bias_min},
          {"bias_max", router.bias_max},
          {"loss", router.router_loss}};
}

}  // namespace

Json to_json(const StepRecord& record) {
  Json at_peak = Json::object();
  for (int i = 0; i < kMemoryClassCount; ++i) {
    at_peak[std::string(name_of(static_cast<MemoryClass>(i)))] = record.hbm_at_peak[i];
  }
  Json json{{"record", "step"},
          {"step", record.step},
          {"loss", record.loss},
          {"validation_loss", or_null(record.validation_loss)},
          {"grad_norm", record.grad_norm},
          {"learning_rate", record.learning_rate},
          {"step_seconds", record.seconds},
          {"data_wait_seconds", record.data_wait_seconds},
          {"model_flops", record.model_flops},
          {"tokens", record.tokens},
          {"target_tokens", record.target_tokens},
          {"tflops_per_device", record.tflops_per_device()},
          {"tokens_per_s_per_device", record.tokens_per_s_per_device()},
          {"mfu", or_null(record.mfu())},
          {"hbm_planned_peak_bytes", record.hbm.planned},
          {"hbm_measured_peak_bytes", record.hbm.measured},
          {"hbm_capacity_bytes", record.hbm.capacity},
          {"hbm_at_peak_bytes", std::move(at_peak)},
          {"host_planned_peak_bytes", record.host.planned},
          {"host_measured_peak_bytes", record.host.measured},
          {"host_capacity_bytes", record.host.capacity},
          {"scratch_bytes", record.scratch_bytes},
          {"d2h_bytes", record.copied.d2h},
          {"h2d_bytes", record.copied.h2d},
          {"d2h_seconds", record.copies.copy_seconds_d2h},
          {"h2d_seconds", record.copies.copy_seconds_h2d},
          {"exposed_seconds", record.copies.exposed_seconds},
          {"sent_bytes", record.sent_bytes},
          {"collective_seconds", record.copies.collective_seconds},
          {"exposed_collective_seconds", record.copies.exposed_collective_seconds},
          {"overlap_fraction", or_null(record.overlap_fraction())}};
  if (record.mtp_loss) json["mtp_loss"] = *record.mtp_loss;
  if (record.router) json["router"] = router_json(*record.router);
  return json;
}

std::string step_line(const StepRecord& record) {
  return fmt::format(
      "completed step: {}, seconds: {:.3f}, TFLOP/s/device: {:.3f}, Tokens/s/device: {:.3f}, "
      "total_weights: {}, loss: {:.3f}",
      record.step, record.seconds, record.tflops_per_device(), record.tokens_per_s_per_device(),
      record.target_tokens, record.loss);
}

std::string evaluation_line(int64_t step, double loss, int64_t target_tokens) {
  return fmt::format("eval metrics after step: {}, loss={:.3f}, total_weights={}", step, loss,
                     target_tokens);
}

std::string memory_line(const PeakBytes& hbm, const std::string& device) {
  constexpr double kGiB = int64_t{1} << 30;
  const auto used = static_cast<double>(hbm.measured > 0 ? hbm.measured : hbm.planned);
  const auto limit = static_cast<double>(hbm.capacity);
  return fmt::format("Using (GB) {:.2f} / {:.2f} ({:.6f}%) on {}", used / kGiB, limit / kGiB,
                     limit > 0 ? 100 * used / limit : 0.0, device);
}

}  // namespace spillway
