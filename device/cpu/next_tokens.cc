#include "device/cpu/element.h"
#include "device/cpu/kernels.h"

namespace spillway::cpu {

// A position without a target has no token to read, so that it predicts nothing either.
Kernel bind_next_tokens(const BoundOp& op) {
  return [targets = op.in[0], tokens = op.out[0], next = op.out[1],
          seq = op.attrs.integer(Attr::kSeq)] {
    constexpr int32_t kNone = -100;
    const int32_t* target = elements_of<int32_t>(targets);
    for (int64_t t = 0; t < targets.elements(); ++t) {
      const bool predicts = target[t] >= 0 && t % seq != seq - 1 && target[t + 1] >= 0;
      elements_of<int32_t>(tokens)[t] = target[t] >= 0 ? target[t] : 0;
      elements_of<int32_t>(next)[t] = predicts ? target[t + 1] : kNone;
    }
  };
}

}  // namespace spillway::cpu
