// A cpu kernel: an op bound to addresses. Binding resolves shapes, types and library primitives, so
// that calling it allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device/cpu/scratch.h"
#include "parallel/group.h"
#include "program/op.h"
#include "program/tensor.h"

namespace spillway::cpu {

struct TensorRef {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  [[nodiscard]] int64_t elements() const { return element_count(shape); }
  // As a matrix: the last dim, and all others.
  [[nodiscard]] int64_t width() const { return shape.back(); }
  [[nodiscard]] int64_t rows() const { return elements() / width(); }
};

struct BoundOp {
  OpKind kind;
  std::vector<TensorRef> in, out;
  std::vector<bool> accumulate;
  Attrs attrs;
  int threads = 1;  // OpenMP threads the kernel may use; changes no bit of a result
  Scratch* scratch = nullptr;
  const Communicator* communicator = nullptr;  // of collectives
};

using Kernel = std::function<void()>;

// The kernel of an op. Requires room in op.scratch; whoever binds allocates that after the last
// bind. Throws ConfigError when unsupported(op) is not empty.
[[nodiscard]] Kernel bind(const BoundOp& op);

// Empty, or why this op cannot run here. Looks at kind, types and attributes, not at addresses.
[[nodiscard]] std::string unsupported(const BoundOp& op);

}  // namespace spillway::cpu
