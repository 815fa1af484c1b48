// Steps of a config on the device and the ranks that this process has, as a report.
#pragma once

#include "parallel/world.h"
#include "trainer/config.h"
#include "trainer/report/step_report.h"

namespace spillway {

// Trains `steps` steps, the first of which only warms up when there are more, and reports the median one
// of this rank. All ranks of `world` call it together. Throws what a Session throws.
[[nodiscard]] StepReport measure_step(const Config& config, int64_t steps, World& world);

}  // namespace spillway
