#include "trainer/report/bench_report.h"

#include <cmath>

#include "trainer/report/bench_document.h"

namespace spillway {
namespace {

constexpr double kGiB = int64_t{1} << 30;

std::optional<MeanError> mean_error(const BenchReport& report,
                                    std::optional<double> (*ratio)(const BenchResult&)) {
  MeanError mean;
  for (const BenchResult& result : report.results) {
    const std::optional<double> value = ratio(result);
    if (!value) continue;
    mean.value += std::abs(*value - 1);
    ++mean.rows;
  }
  if (mean.rows == 0) return std::nullopt;
  mean.value /= mean.rows;
  return mean;
}

}  // namespace

std::optional<double> rate_ratio(const BenchResult& result) {
  const BenchRow& row = result.row;
  if (!result.step || !result.step->fits()) return std::nullopt;
  const StepReport& step = *result.step;
  if (row.tflops_per_device) return step.tflops_per_device / row.tflops_per_device->value;
  if (row.seconds && step.seconds > 0) return row.seconds->value / step.seconds;
  if (row.tokens_per_s_per_device) {
    return step.tokens_per_s_per_device / row.tokens_per_s_per_device->value;
  }
  return std::nullopt;
}

std::optional<double> memory_ratio(const BenchResult& result) {
  if (!result.step || !result.row.hbm_gib) return std::nullopt;
  return static_cast<double>(result.step->hbm.peak) / kGiB / result.row.hbm_gib->value;
}

std::optional<MeanError> mean_rate_error(const BenchReport& report) {
  return mean_error(report, rate_ratio);
}

std::optional<MeanError> mean_memory_error(const BenchReport& report) {
  return mean_error(report, memory_ratio);
}

std::string to_markdown(const BenchReport& bench) {
  return report::to_markdown(report::bench_document(bench));
}

std::string to_html(const BenchReport& bench) {
  return report::to_html(report::bench_document(bench));
}

}  // namespace spillway
