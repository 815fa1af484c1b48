// Moving and clearing parts of f32 and bf16 tensors.
#pragma once

#include <algorithm>
#include <cstring>

#include "device/cpu/element.h"
#include "device/cpu/parallel.h"

namespace spillway::cpu {

// y[to, to + count) = x[from, from + count), or added there.
inline void move(const TensorRef& x, int64_t from, int64_t count, const TensorRef& y, int64_t to,
                 bool accumulate) {
  float buffer[kBlock];
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t run = std::min(kBlock, count - at);
    store(y, to + at, run, accumulate, load(x, from + at, run, buffer));
  }
}

// y[at, at + count) = 0.
inline void clear(const TensorRef& y, int64_t at, int64_t count) {
  const int64_t size = size_of(y.dtype);
  std::memset(static_cast<std::byte*>(y.data) + at * size, 0, static_cast<size_t>(count * size));
}

// Rows from `first` on = 0.
inline void clear_rows(const TensorRef& y, int64_t first, int threads) {
  const int64_t width = y.width();
  for_each_row(y.rows() - first, width, threads,
               [&](int64_t row, int) { clear(y, (first + row) * width, width); });
}

}  // namespace spillway::cpu
