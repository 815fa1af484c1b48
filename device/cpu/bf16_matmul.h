// A bf16 matrix product of one thread through a oneDNN primitive, for processors that have bf16
// instructions. oneDNN keeps compiled primitives by shape: layers of equal shape share one.
#pragma once

#include <cstdint>
#include <memory>

#include "program/tensor.h"

namespace spillway::cpu {

class Bf16Matmul {
 public:
  struct Shape {
    int64_t rows, columns, inner;
    int64_t a_stride, b_stride, c_stride;  // elements between rows as stored
    bool a_transposed, b_transposed;
    DType out;        // f32 or bf16: sums are f32, rounded once
    bool accumulate;  // added to c in f32, before that rounding
  };

  // nullptr when the processor (or oneDNN) has nothing better than a plain loop for it.
  static std::unique_ptr<Bf16Matmul> create(const Shape& shape, int threads);
  virtual ~Bf16Matmul() = default;

  [[nodiscard]] virtual int64_t scratch_bytes() const = 0;  // of each call
  // Called by up to `threads` threads at once, each with its own number in [0, threads). Requires
  // oneDNN to see one thread.
  virtual void run(int thread, const void* a, const void* b, void* c, void* scratch) = 0;
};

}  // namespace spillway::cpu
