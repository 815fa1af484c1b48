// Initial parameters. A value depends only on (seed, parameter name, element index): not on the
// mesh, the strategy, or the order of initialisation.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "program/tensor.h"

namespace spillway {

// Fills `values` with the elements of parameter `name` from `first` on.
void initial_values(uint64_t seed, const std::string& name, const Init& init, int64_t first,
                    std::span<float> values);

}  // namespace spillway
