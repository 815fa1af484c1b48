// A tile of a matrix product: one thread, any mix of f32 and bf16, sizes known only when it runs.
#pragma once

#include "device/cpu/kernel.h"
#include "device/cpu/sgemm.h"

namespace spillway::cpu {

// A matrix that starts inside a tensor, with the elements between its rows as stored; transposed:
// used as columns. Refers to the tensor.
struct Submatrix {
  const TensorRef& tensor;
  int64_t at, stride;
  bool transposed = false;

  [[nodiscard]] int64_t element(int64_t row, int64_t column) const {
    return at + (transposed ? column * stride + row : row * stride + column);
  }
};

// y = a . b, or added to y. Sums are f32, run over everything inside and are rounded once: a tile's
// bits depend on its shape and inputs only.
class TileProduct {
 public:
  // For tiles of at most the sizes of `largest`.
  TileProduct(DType a, DType b, DType y, bool accumulate, const ProductShape& largest);

  [[nodiscard]] int64_t buffer() const { return a_buffer_ + b_buffer_ + sum_; }  // f32 elements

  // `buffer` is the calling thread's. Requires oneDNN to see one thread (see parallel_for).
  void operator()(const ProductShape& shape, const Submatrix& a, const Submatrix& b,
                  const Submatrix& y, float* buffer) const;

 private:
  enum class Way { kF32, kBf16, kConvert };

  void multiply(const ProductShape& shape, const Submatrix& a, const Submatrix& b, bool accumulate,
                float* buffer, float* c, int64_t c_stride) const;

  Way way_;
  bool direct_, accumulate_;  // direct: sums go straight to y
  int64_t column_step_, inner_step_;
  int64_t a_buffer_, b_buffer_, sum_;
};

}  // namespace spillway::cpu
