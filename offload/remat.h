// Rematerialization: a Program rewrite.
#pragma once

#include <string>

#include "program/program.h"

namespace spillway {

// Recomputes, in backward and just before its first use, every activation whose strategy is kRemat:
// the same ops on the same inputs, so the bits are the same. Ops so placed carry Op::recompute.
// Afterwards no value marked kRemat crosses from forward to backward.
[[nodiscard]] Program remat(Program program);

// What the recomputed twin of a value is called.
[[nodiscard]] inline std::string recomputed_name(const std::string& name) {
  return name + "@remat";
}

}  // namespace spillway
