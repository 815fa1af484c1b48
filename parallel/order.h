// The order of a step's slots.
#pragma once

#include <vector>

#include "program/lower.h"

namespace spillway {

// For each micro-batch, forward through all blocks and backward through them in reverse; then the
// global gradient norm, then every block's update.
[[nodiscard]] std::vector<SlotOrder> training_order(const std::vector<Block>& blocks,
                                                    int micro_batches);

// One forward-only pass over one micro-batch.
[[nodiscard]] std::vector<SlotOrder> evaluation_order(const std::vector<Block>& blocks);

}  // namespace spillway
