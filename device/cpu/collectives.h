// What the collectives of the cpu device need.
#pragma once

#include <string>

#include "device/cpu/kernel.h"

namespace spillway::cpu {

// Empty, or why a collective with fitting types cannot run: no world, another group than its
// attributes say, parts of other sizes, accumulation where it has none.
[[nodiscard]] std::string unsupported_collective(const BoundOp& op);

}  // namespace spillway::cpu
