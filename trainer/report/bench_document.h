// What `spillway bench` has to say, in order. bench_tables and bench_charts make its parts.
#pragma once

#include "trainer/report/bench_report.h"
#include "trainer/report/document.h"

namespace spillway::report {

[[nodiscard]] Document bench_document(const BenchReport& report);

}  // namespace spillway::report
