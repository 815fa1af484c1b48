#include <numeric>

#include "device/cpu/element.h"
#include "device/cpu/kernels.h"

namespace spillway::cpu {

// The bias is read and written in place. Loads are compared as integers: E * load_e with their sum.
Kernel bind_router_bias_update(const BoundOp& op) {
  return [load = op.in[0], bias = op.out[0],
          rate = static_cast<float>(op.attrs.real(Attr::kRate))] {
    const int64_t experts = bias.elements();  // load's last element counts dropped choices
    const int32_t* count = elements_of<int32_t>(load);
    const int64_t total = std::accumulate(count, count + experts, int64_t{0});
    for (int64_t e = 0; e < experts; ++e) {
      const int64_t below = total - experts * count[e];
      elements_of<float>(bias)[e] += below > 0 ? rate : below < 0 ? -rate : 0.0f;
    }
  };
}

}  // namespace spillway::cpu
