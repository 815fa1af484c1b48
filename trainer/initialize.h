// Initial parameters. A value depends only on (seed, parameter name, element index): not on the
// mesh, the strategy, or the order of initialisation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/tensor.h"

namespace spillway {

[[nodiscard]] std::vector<float> initial_values(uint64_t seed, const std::string& name,
                                                const Init& init, int64_t elements);

}  // namespace spillway
