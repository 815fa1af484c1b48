// Reads the next batch on a thread of its own while the current one is in use.
#pragma once

#include <array>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "trainer/batcher.h"

namespace spillway {

// Two batches: one with the caller, one being filled. next() is for one thread.
class Prefetcher {
 public:
  // Starts reading at `position`. A Batch says where the one behind it begins: what to save.
  Prefetcher(std::shared_ptr<const Batcher> batcher, int64_t position);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next batch, valid until the next call. Waits for it if need be. Throws what reading it threw,
  // then and in every later call.
  [[nodiscard]] const Batch& next();
  // Seconds the last call of next() waited.
  [[nodiscard]] double wait_seconds() const { return wait_seconds_; }

 private:
  void run(int64_t position);

  std::shared_ptr<const Batcher> batcher_;
  std::array<Batch, 2> batches_;
  double wait_seconds_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t wanted_ = 1;  // batches the worker may have filled: those given out, and one more
  int64_t filled_ = 0;
  int64_t taken_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;

  std::thread worker_;  // last: it uses all of the above
};

}  // namespace spillway
