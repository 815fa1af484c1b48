// One of the device's two memories: allocated once, addressed by offset.
#pragma once

#include <atomic>
#include <cstdint>

#include "device/cpu/pages.h"
#include "program/schedule.h"

namespace spillway::cpu {

class Arena {
 public:
  explicit Arena(Space space) : space_(space) {}

  // Once. Throws OutOfMemory when the system has no room. `poison` fills with NaN bytes.
  void allocate(int64_t bytes, bool poison);
  // The address of [offset, offset + bytes). Throws VerifyError when that is not inside.
  [[nodiscard]] std::byte* at(int64_t offset, int64_t bytes) const;

  // An instruction uses the bytes below `end`. From any thread.
  void use(int64_t end) {
    int64_t seen = high_water_.load(std::memory_order_relaxed);
    while (end > seen && !high_water_.compare_exchange_weak(seen, end, std::memory_order_relaxed)) {
    }
  }
  [[nodiscard]] int64_t high_water() const { return high_water_.load(std::memory_order_relaxed); }

 private:
  Space space_;
  Pages pages_;
  int64_t bytes_ = 0;  // asked for; pages_ may hold more
  std::atomic<int64_t> high_water_ = 0;
};

// Bytes that are NaN as f32 and as bf16, and out of range as a token.
inline constexpr int kPoison = 0xff;

}  // namespace spillway::cpu
