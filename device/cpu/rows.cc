// Moves whole rows. Types are the same on both sides; only an accumulating `rows` computes.
#include <cstring>

#include "device/cpu/element.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

namespace spillway::cpu {
namespace {

void copy(std::byte* to, const std::byte* from, int64_t bytes, int threads) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  parallel_for(ceil_div(bytes, kPiece), threads, [&](int64_t task, int) {
    const int64_t at = task * kPiece;
    std::memcpy(to + at, from + at, static_cast<size_t>(std::min(kPiece, bytes - at)));
  });
}

// Elements in front of row attrs[kBegin] of a tensor.
int64_t first_element(const Attrs& attrs, const TensorRef& whole) {
  return attrs.integer(Attr::kBegin) * (whole.elements() / whole.shape[0]);
}

std::byte* bytes_of(const TensorRef& tensor, int64_t at) {
  return static_cast<std::byte*>(tensor.data) + at * size_of(tensor.dtype);
}

}  // namespace

Kernel bind_rows(const BoundOp& op) {
  const TensorRef &x = op.in[0], &y = op.out[0];
  const int64_t begin = first_element(op.attrs, x);
  if (!op.accumulate[0]) {
    return [from = bytes_of(x, begin), to = bytes_of(y, 0),
            bytes = y.elements() * size_of(y.dtype), threads = op.threads] {
      copy(to, from, bytes, threads);
    };
  }
  return [x, y, begin, threads = op.threads] {
    for_each_block(y.elements(), threads, [&](int64_t at, int64_t count) {
      float buffer[kBlock];
      store(y, at, count, true, load(x, begin + at, count, buffer));
    });
  };
}

// Writes its rows whatever op.accumulate says: others are untouched, which is what accumulation into
// the whole tensor means to the Program.
Kernel bind_put_rows(const BoundOp& op) {
  const TensorRef &x = op.in[0], &y = op.out[0];
  return [from = bytes_of(x, 0), to = bytes_of(y, first_element(op.attrs, y)),
          bytes = x.elements() * size_of(x.dtype), threads = op.threads] {
    copy(to, from, bytes, threads);
  };
}

}  // namespace spillway::cpu
