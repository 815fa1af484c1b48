// Bytes live over a step, as a line to plot.
#pragma once

#include <span>
#include <vector>

#include "trainer/report/step_report.h"

namespace spillway {

// A buffer counts from the begin of its first instruction to the end of its last, a persistent one
// always. A point holds until the next one; the last lies at the end of the step. At most 600 points: of
// each of equal stretches the most HBM, the most host memory, and what the stretch ends with.
[[nodiscard]] std::vector<MemoryPoint> memory_line(const Schedule& schedule,
                                                   std::span<const InstrTiming> timings);

}  // namespace spillway
