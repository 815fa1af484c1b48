// Tables of a bench report. `results` are those of one group of rows.
#pragma once

#include <string>
#include <vector>

#include "trainer/report/bench_report.h"
#include "trainer/report/document.h"

namespace spillway::report {

using Results = std::vector<const BenchResult*>;

// The published table beside ours. Of a step that does not fit, rate and time are what they would be.
[[nodiscard]] Table comparison_table(const Results& results);
// What a run takes of GPU and pinned host memory, what it may take, and what is left out.
[[nodiscard]] Table memory_table(const Results& results);
// Rates over those of other rows; no row: nothing was published of that kind.
[[nodiscard]] Table speedup_table(const Results& results, const BenchReport& report);

[[nodiscard]] Table engine_table(const StepReport& step);
[[nodiscard]] Table peak_table(const SpaceReport& space, const std::string& caption);

[[nodiscard]] std::string gib_text(int64_t bytes);  // "12.34"
// "GPU by 12.34 GiB, host by 1.00 GiB"; empty: it fits.
[[nodiscard]] std::string shortage_text(const StepReport& step);

}  // namespace spillway::report
