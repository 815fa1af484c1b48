// What every engine did while compute ran one layer.
#pragma once

#include <span>

#include "trainer/report/step_report.h"

namespace spillway {

// Of the middle one of the blocks "L0", "L1", ..., first micro-batch: from the begin of its slot's first
// instruction on the compute stream to the end of its last. Spans overlap that window and take time;
// those of another block name it: "copy context (L29)".
[[nodiscard]] Window layer_window(const Schedule& schedule, std::span<const InstrTiming> timings,
                                  Phase phase);

}  // namespace spillway
