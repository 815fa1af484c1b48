// Memory in 2 MiB pages, touched once: a first touch costs microseconds a page, whatever its size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway::cpu {

class Pages {
 public:
  Pages() = default;
  // Zeroed and resident when this returns. Throws OutOfMemory when the system has no room.
  explicit Pages(int64_t bytes);
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;

  [[nodiscard]] std::byte* data() const { return data_; }  // 2 MiB aligned; nullptr when empty
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace spillway::cpu
