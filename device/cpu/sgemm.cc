#include "device/cpu/sgemm.h"

#include <dnnl.h>

#include "program/error.h"

namespace spillway::cpu {

void sgemm(const ProductShape& shape, float scale, const Factor& a, const Factor& b, bool accumulate,
           float* c, int64_t c_stride) {
  const dnnl_status_t status = dnnl_sgemm(
      a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', shape.rows, shape.columns, shape.inner,
      scale, a.data, a.stride, b.data, b.stride, accumulate ? 1.0f : 0.0f, c, c_stride);
  if (status != dnnl_success) throw DeviceError("oneDNN could not run a matrix product");
}

}  // namespace spillway::cpu
