#include "parallel/order.h"

namespace spillway {

std::vector<SlotOrder> training_order(const std::vector<Block>& blocks, int micro_batches) {
  std::vector<SlotOrder> order;
  const int count = static_cast<int>(blocks.size());
  for (int m = 0; m < micro_batches; ++m) {
    for (int b = 0; b < count; ++b) order.push_back({b, Phase::kForward, m});
    for (int b = count - 1; b >= 0; --b) order.push_back({b, Phase::kBackward, m});
  }
  for (Phase phase : {Phase::kNorm, Phase::kUpdate}) {
    for (int b = 0; b < count; ++b) {
      if (blocks[b].optimizer >= 0) order.push_back({b, phase, 0});
    }
  }
  return order;
}

std::vector<SlotOrder> evaluation_order(const std::vector<Block>& blocks) {
  std::vector<SlotOrder> order;
  for (int b = 0; b < static_cast<int>(blocks.size()); ++b) order.push_back({b, Phase::kEval, 0});
  return order;
}

}  // namespace spillway
