// Memory a kernel needs while it runs, and nobody before or after.
#pragma once

#include <cstdint>

#include "device/cpu/pages.h"

namespace spillway::cpu {

struct BoundOp;

// One block for all kernels of a stream, since they run one after another. They ask for room while
// they are bound; allocate() comes after the last bind and may be called again after more binds.
class Scratch {
 public:
  void require(int64_t bytes) { required_ = bytes > required_ ? bytes : required_; }
  void allocate() {
    if (required_ > pages_.bytes()) pages_ = Pages(required_);
  }
  [[nodiscard]] std::byte* data() const { return pages_.data(); }
  [[nodiscard]] int64_t bytes() const { return pages_.bytes(); }

 private:
  int64_t required_ = 0;
  Pages pages_;
};

// A kernel's use of the block: some f32 elements for the whole op and some for each of its threads.
// Parts are 64-byte aligned. Copies refer to the same memory.
class Workspace {
 public:
  Workspace(const BoundOp& op, int64_t shared, int64_t per_thread);
  [[nodiscard]] float* shared() const { return reinterpret_cast<float*>(scratch_->data()); }
  [[nodiscard]] float* of(int thread) const { return shared() + shared_ + thread * per_thread_; }

 private:
  const Scratch* scratch_;
  int64_t shared_, per_thread_;
};

}  // namespace spillway::cpu
