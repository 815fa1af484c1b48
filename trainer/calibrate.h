// `spillway calibrate`: the device of this machine as a hardware file (trainer/hardware_file.h).
#pragma once

#include <filesystem>
#include <ostream>

#include "device/hardware.h"
#include "trainer/config.h"

namespace spillway {

// Measures components only, never a step: matrix products over a grid of shapes; every op of the
// config's training step, at its own size and at some smaller ones; launches, waits and copies with
// the pacing of config.device; collectives of two ranks that are threads. A line of progress per
// group on `out`. `name` and comments are left to the caller.
[[nodiscard]] Hardware calibrate(const Config& config, std::ostream& out);

// The same, written to `file`.
void calibrate_to_file(const Config& config, const std::filesystem::path& file, std::ostream& out);

}  // namespace spillway
