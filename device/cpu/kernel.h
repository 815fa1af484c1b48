// A cpu kernel: an op bound to addresses. Binding resolves shapes, types and library primitives, so
// that calling it allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "program/op.h"
#include "program/tensor.h"

namespace spillway::cpu {

struct TensorRef {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  [[nodiscard]] int64_t dim(int i) const { return shape[i]; }
  [[nodiscard]] int64_t elements() const { return element_count(shape); }
};

// Scratch memory that kernels of one stream share, since they run one after another. Requested while
// binding; bytes() is known after the last bind, and the block is allocated once.
class Scratch {
 public:
  void require(int64_t bytes) { bytes_ = bytes > bytes_ ? bytes : bytes_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  void allocate();  // after the last bind; 2 MiB pages, touched
  [[nodiscard]] std::byte* data() const { return data_; }
  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

 private:
  int64_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

struct BoundOp {
  OpKind kind;
  std::vector<TensorRef> in, out;
  std::vector<bool> accumulate;
  Attrs attrs;
  int threads = 1;     // OpenMP threads the kernel may use
  Scratch* scratch = nullptr;
};

using Kernel = std::function<void()>;

// Throws ConfigError when the op or its types are not supported (see unsupported()).
[[nodiscard]] Kernel bind(const BoundOp& op);

}  // namespace spillway::cpu
