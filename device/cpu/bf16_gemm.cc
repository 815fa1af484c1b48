#include "device/cpu/bf16_gemm.h"

#include <dnnl.h>

#include "program/error.h"

// The library exports it and tests it, but declares it in no header. Its public way to a product of
// unknown size, a matmul primitive with runtime dims, calls this and allocates on the way.
extern "C" dnnl_status_t dnnl_gemm_bf16bf16f32(char a_transposed, char b_transposed,
                                               dnnl_dim_t rows, dnnl_dim_t columns,
                                               dnnl_dim_t inner, float scale, const uint16_t* a,
                                               dnnl_dim_t a_stride, const uint16_t* b,
                                               dnnl_dim_t b_stride, float c_scale, float* c,
                                               dnnl_dim_t c_stride);

namespace spillway::cpu {
namespace {

dnnl_status_t product(const ProductShape& shape, const Bf16Factor& a, const Bf16Factor& b,
                      bool accumulate, float* c, int64_t c_stride) {
  return dnnl_gemm_bf16bf16f32(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', shape.rows,
                               shape.columns, shape.inner, 1.0f, a.data, a.stride, b.data, b.stride,
                               accumulate ? 1.0f : 0.0f, c, c_stride);
}

}  // namespace

bool has_bf16_gemm() {
  static const bool has = [] {
    const uint16_t one = 0x3f80;
    float c = 0;
    return product({1, 1, 1}, {&one, 1}, {&one, 1}, false, &c, 1) == dnnl_success && c == 1.0f;
  }();
  return has;
}

void bf16_gemm(const ProductShape& shape, const Bf16Factor& a, const Bf16Factor& b, bool accumulate,
               float* c, int64_t c_stride) {
  if (product(shape, a, b, accumulate, c, c_stride) == dnnl_success) return;
  throw DeviceError("oneDNN could not run a matrix product");
}

}  // namespace spillway::cpu
