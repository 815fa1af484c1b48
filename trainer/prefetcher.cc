#include "trainer/prefetcher.h"

#include <chrono>

namespace spillway {

Prefetcher::Prefetcher(std::shared_ptr<const Batcher> batcher, int64_t position)
    : batcher_(std::move(batcher)), worker_([this, position] { run(position); }) {}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

const Batch& Prefetcher::next() {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return filled_ > taken_ || error_; });
  wait_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (filled_ == taken_) std::rethrow_exception(error_);
  const Batch& batch = batches_[taken_ % 2];
  ++taken_;
  wanted_ = taken_ + 1;  // the batch given out before this one is free again
  changed_.notify_all();
  return batch;
}

void Prefetcher::run(int64_t position) {
  for (int64_t count = 0;; ++count) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return count < wanted_ || stop_; });
      if (stop_) return;
    }
    Batch& batch = batches_[count % 2];
    std::exception_ptr error;
    try {
      batcher_->fill(position, batch);
    } catch (...) {
      error = std::current_exception();
    }
    position = batch.position;
    {
      const std::lock_guard lock(mutex_);
      error_ = error;
      if (!error) filled_ = count + 1;
    }
    changed_.notify_all();
    if (error) return;
  }
}

}  // namespace spillway
