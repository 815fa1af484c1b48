// The training loop.
#pragma once

#include "parallel/world.h"
#include "trainer/config.h"

namespace spillway {

// Trains as the config says: opens the output folder and the data, then compiles and allocates, then
// steps. Returns the process's exit status: 0, or 130 when an interrupt of any rank (trainer/interrupt)
// ended the run early: all ranks end behind the same step, which is finished and recorded. Throws what
// went wrong; metrics are on disk by then.
int train_command(const Config& config, World& world);

}  // namespace spillway
