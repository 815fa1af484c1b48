// f32 operands go to sgemm, bf16 ones to bf16_gemm; where types are mixed, or the processor has no
// bf16 products, panels of at most kPanel x kPanel are converted to f32 first. Sums pass through a
// panel too where they are rounded in the end, and those of bf16_gemm: it writes in small blocks,
// and straight to memory that is not in cache it runs at half its speed.
#include "device/cpu/tile_product.h"

#include <algorithm>

#include "device/cpu/bf16_gemm.h"
#include "device/cpu/element.h"

namespace spillway::cpu {
namespace {

constexpr int64_t kPanel = 512;

// rows x columns from the first element on, as f32.
Factor panel(const Submatrix& x, int64_t rows, int64_t columns, float* buffer) {
  if (x.tensor.dtype == DType::kF32) {
    return {elements_of<float>(x.tensor, x.at), x.stride, x.transposed};
  }
  if (x.transposed) std::swap(rows, columns);  // as stored
  for (int64_t i = 0; i < rows; ++i) {
    load(x.tensor, x.at + i * x.stride, columns, buffer + i * columns);
  }
  return {buffer, columns, x.transposed};
}

Bf16Factor bf16_factor(const Submatrix& x) {
  return {elements_of<uint16_t>(x.tensor, x.at), x.stride, x.transposed};
}

Submatrix from(const Submatrix& x, int64_t row, int64_t column) {
  return {x.tensor, x.element(row, column), x.stride, x.transposed};
}

}  // namespace

TileProduct::TileProduct(DType a, DType b, DType y, bool accumulate, const ProductShape& largest)
    : way_(a == DType::kF32 && b == DType::kF32                       ? Way::kF32
           : a == DType::kBF16 && b == DType::kBF16 && has_bf16_gemm() ? Way::kBf16
                                                                       : Way::kConvert),
      direct_(y == DType::kF32 && way_ != Way::kBf16), accumulate_(accumulate) {
  const bool convert = way_ == Way::kConvert;
  column_step_ = convert || !direct_ ? std::min(largest.columns, kPanel) : largest.columns;
  inner_step_ = convert ? std::min(largest.inner, kPanel) : largest.inner;
  a_buffer_ = convert && a == DType::kBF16 ? largest.rows * inner_step_ : 0;
  b_buffer_ = convert && b == DType::kBF16 ? inner_step_ * column_step_ : 0;
  sum_ = direct_ ? 0 : largest.rows * column_step_;
}

void TileProduct::operator()(const ProductShape& shape, const Submatrix& a, const Submatrix& b,
                             const Submatrix& y, float* buffer) const {
  float* sum = buffer + a_buffer_ + b_buffer_;
  for (int64_t column = 0; column < shape.columns; column += column_step_) {
    const int64_t columns = std::min(column_step_, shape.columns - column);
    const int64_t to = y.element(0, column);
    float* c = direct_ ? elements_of<float>(y.tensor, to) : sum;
    const int64_t c_stride = direct_ ? y.stride : columns;
    for (int64_t k = 0; k < shape.inner; k += inner_step_) {
      const ProductShape part = {shape.rows, columns, std::min(inner_step_, shape.inner - k)};
      const bool add = k > 0 || (direct_ && accumulate_);
      multiply(part, from(a, 0, k), from(b, k, column), add, buffer, c, c_stride);
    }
    if (direct_) continue;
    for (int64_t row = 0; row < shape.rows; ++row) {
      store(y.tensor, to + row * y.stride, columns, accumulate_, sum + row * columns);
    }
  }
}

void TileProduct::multiply(const ProductShape& shape, const Submatrix& a, const Submatrix& b,
                           bool accumulate, float* buffer, float* c, int64_t c_stride) const {
  if (way_ == Way::kBf16) {
    bf16_gemm(shape, bf16_factor(a), bf16_factor(b), accumulate, c, c_stride);
    return;
  }
  const Factor left = panel(a, shape.rows, shape.inner, buffer);
  const Factor right = panel(b, shape.inner, shape.columns, buffer + a_buffer_);
  sgemm(shape, 1.0f, left, right, accumulate, c, c_stride);
}

}  // namespace spillway::cpu
