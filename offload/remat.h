// Rematerialization: a Program rewrite.
#pragma once

#include "program/program.h"

namespace spillway {

// Recomputes, in backward and just before its first use, every activation whose strategy is kRemat:
// the same ops on the same inputs, so the bits are the same. Ops so placed carry Op::recompute.
// Afterwards no value marked kRemat crosses from forward to backward.
[[nodiscard]] Program remat(Program program);

}  // namespace spillway
