// `spillway bench`: a published table beside what was simulated or measured, as Markdown and as one
// HTML file that needs nothing else.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/report/bench_table.h"
#include "trainer/report/step_report.h"

namespace spillway {

struct BenchResult {
  BenchRow row;
  std::optional<StepReport> step;  // none: it could not run, `error` says why
  std::string error;
  std::string mesh;  // "fsdp 2 x expert 64"
};

struct BenchReport {
  BenchTable table;
  std::string device;  // "simulated", or the name of the device that ran it
  std::string date, version;
  std::vector<BenchResult> results;
};

// Our figure over the published one: of the step's rate when a rate or time is published, else none.
[[nodiscard]] std::optional<double> rate_ratio(const BenchResult& result);
[[nodiscard]] std::optional<double> memory_ratio(const BenchResult& result);
// Mean of |ratio - 1| over the rows that have one; none: no row has.
struct MeanError {
  double value = 0;
  int rows = 0;
};
[[nodiscard]] std::optional<MeanError> mean_rate_error(const BenchReport& report);
[[nodiscard]] std::optional<MeanError> mean_memory_error(const BenchReport& report);

// Everything that the HTML shows, plots included, is in the Markdown as numbers.
[[nodiscard]] std::string to_markdown(const BenchReport& report);
[[nodiscard]] std::string to_html(const BenchReport& report);

}  // namespace spillway
