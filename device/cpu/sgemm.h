// Single-precision matrix product of one thread, row-major.
#pragma once

#include <cstdint>

namespace spillway::cpu {

// A factor: its first element and the elements between rows as stored; transposed: used as columns.
struct Factor {
  const float* data;
  int64_t stride;
  bool transposed = false;
};

struct ProductShape {
  int64_t rows, columns, inner;
};

// c[rows, columns] = scale * a[rows, inner] . b[inner, columns], or added to c. When it does not add,
// c may hold anything, NaN too. Requires oneDNN to see one thread (see parallel_for). Sums of one
// shape run in one order, so equal inputs give equal bits.
void sgemm(const ProductShape& shape, float scale, const Factor& a, const Factor& b, bool accumulate,
           float* c, int64_t c_stride);

}  // namespace spillway::cpu
