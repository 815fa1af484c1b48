// Moves a range of columns out of a matrix and back in, and puts two matrices side by side.
#include "device/cpu/kernels.h"
#include "device/cpu/move.h"

namespace spillway::cpu {

Kernel bind_columns(const BoundOp& op) {
  return [x = op.in[0], y = op.out[0], begin = op.attrs.integer(Attr::kBegin),
          accumulate = bool{op.accumulate[0]}, threads = op.threads] {
    const int64_t width = y.width();
    for_each_row(y.rows(), width, threads, [&](int64_t row, int) {
      move(x, row * x.width() + begin, width, y, row * width, accumulate);
    });
  };
}

// Writes its columns whatever op.accumulate says: others are untouched, which is what accumulation
// into the whole tensor means to the Program.
Kernel bind_put_columns(const BoundOp& op) {
  return [x = op.in[0], y = op.out[0], begin = op.attrs.integer(Attr::kBegin),
          threads = op.threads] {
    const int64_t width = x.width();
    for_each_row(x.rows(), width, threads, [&](int64_t row, int) {
      move(x, row * width, width, y, row * y.width() + begin, false);
    });
  };
}

Kernel bind_concat(const BoundOp& op) {
  return [a = op.in[0], b = op.in[1], y = op.out[0], accumulate = bool{op.accumulate[0]},
          threads = op.threads] {
    const int64_t left = a.width(), right = b.width();
    for_each_row(y.rows(), y.width(), threads, [&](int64_t row, int) {
      move(a, row * left, left, y, row * y.width(), accumulate);
      move(b, row * right, right, y, row * y.width() + left, accumulate);
    });
  };
}

}  // namespace spillway::cpu
