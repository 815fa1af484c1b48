// Compute goes on beside a collective of activations.
#pragma once

#include "program/schedule.h"

namespace spillway {

// hide_latency() leaves such a collective in its place. The free of what it reads follows on compute, and
// compute would stand still there until the collective is done. This moves the free to in front of the
// first instruction on compute that waits for the result anyway, if that is in the same slot.
// Afterwards: the same instructions; what a slot does between a collective and the first use of its result
// runs beside it. The source lives so much longer.
void free_behind_collectives(Schedule& schedule);

}  // namespace spillway
