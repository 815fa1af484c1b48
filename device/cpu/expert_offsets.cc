// What a rank knows about its experts' rows before they arrive.
#include <algorithm>

#include "device/cpu/expert_layout.h"
#include "device/cpu/kernels.h"

namespace spillway::cpu {

Kernel bind_expert_offsets(const BoundOp& op) {
  return [layout = ExpertLayout(op, op.in[0]), offsets = elements_of<int32_t>(op.out[0]),
          part = op.attrs.integer(Attr::kPart)] {
    const int64_t total = layout.for_each_segment(part, [&](const ExpertSegment& segment) {
      if (segment.source == 0) offsets[segment.expert] = static_cast<int32_t>(segment.to);
    });
    offsets[layout.experts_each()] = static_cast<int32_t>(std::min(total, layout.room));
  };
}

Kernel bind_count_overflow(const BoundOp& op) {
  return [layout = ExpertLayout(op, op.in[0]), load = elements_of<int32_t>(op.out[0]),
          part = op.attrs.integer(Attr::kPart), accumulate = bool{op.accumulate[0]}] {
    if (!accumulate) std::fill_n(load, layout.experts + 1, 0);
    for (int64_t receiver = 0; receiver < layout.parts; ++receiver) {
      layout.for_each_segment(receiver, [&](const ExpertSegment& segment) {
        if (segment.source != part) return;
        load[layout.experts] += static_cast<int32_t>(segment.left_out);
      });
    }
  };
}

}  // namespace spillway::cpu
