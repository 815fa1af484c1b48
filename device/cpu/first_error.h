// The first error of a run, kept until the host asks for it.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

namespace spillway::cpu {

class FirstError {
 public:
  [[nodiscard]] bool happened() const { return happened_.load(std::memory_order_acquire); }

  // Returns whether it is the first. Later ones are dropped: they are most likely consequences.
  [[nodiscard]] bool keep(std::string text) {
    const std::lock_guard lock(mutex_);
    if (happened_) return false;
    text_ = std::move(text);
    happened_.store(true, std::memory_order_release);
    return true;
  }

  // The text, once; "" when nothing happened since.
  [[nodiscard]] std::string take() {
    const std::lock_guard lock(mutex_);
    happened_ = false;
    return std::exchange(text_, "");
  }

 private:
  std::mutex mutex_;
  std::string text_;
  std::atomic<bool> happened_ = false;
};

}  // namespace spillway::cpu
