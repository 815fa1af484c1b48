// Host offload: the mechanism.
#pragma once

#include "program/schedule.h"

namespace spillway {

// For every buffer marked offload that backward reads: copies it to pinned host memory right after
// its definition, frees it after its last use in forward, and copies it back right before its first
// use in backward, into a buffer of its own ("NAME@back"). All on the compute stream: this is naive
// offload, and what hide_latency() starts from.
// Afterwards no buffer is marked offload.
void transfer(Schedule& schedule);

}  // namespace spillway
