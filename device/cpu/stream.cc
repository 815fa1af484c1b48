#include "device/cpu/stream.h"

#include <chrono>

namespace spillway::cpu {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void Timeline::advance(int64_t to) {
  {
    const std::lock_guard lock(mutex_);
    if (to > value_) value_ = to;
  }
  advanced_.notify_all();
}

void Timeline::wait(int64_t until) const {
  std::unique_lock lock(mutex_);
  advanced_.wait(lock, [&] { return value_ >= until; });
}

StreamThread::StreamThread() : ring_(64), thread_([this] { loop(); }) {}

StreamThread::~StreamThread() {
  push({.kind = Command::Kind::kStop});
  thread_.join();
}

void StreamThread::reserve(int64_t commands) {
  const std::lock_guard lock(mutex_);
  if (commands <= static_cast<int64_t>(ring_.size())) return;
  ring_.resize(static_cast<size_t>(commands));
}

void StreamThread::run(Runner& runner, int instr) {
  push({.kind = Command::Kind::kRun, .instr = instr, .runner = &runner});
}

void StreamThread::record(int64_t value) { push({.kind = Command::Kind::kRecord, .value = value}); }

void StreamThread::wait(const Timeline& other, int64_t until) {
  push({.kind = Command::Kind::kWait, .value = until, .other = &other});
}

void StreamThread::push(const Command& command) {
  {
    std::unique_lock lock(mutex_);
    const auto room = static_cast<int64_t>(ring_.size());
    popped_.wait(lock, [&] { return queued_ - begun_ < room; });
    ring_[static_cast<size_t>(queued_++ % room)] = command;
  }
  pushed_.notify_one();
}

void StreamThread::drain() {
  std::unique_lock lock(mutex_);
  popped_.wait(lock, [&] { return ended_ == queued_; });
}

StreamThread::Command StreamThread::next() {
  std::unique_lock lock(mutex_);
  pushed_.wait(lock, [&] { return begun_ < queued_; });
  return ring_[static_cast<size_t>(begun_++ % static_cast<int64_t>(ring_.size()))];
}

void StreamThread::finish() {
  {
    const std::lock_guard lock(mutex_);
    ++ended_;
  }
  popped_.notify_all();
}

void StreamThread::loop() {
  int64_t waited_ns = 0;  // since the last instruction
  for (;;) {
    const Command command = next();
    switch (command.kind) {
      case Command::Kind::kRun:
        command.runner->run_instruction(command.instr, waited_ns);
        waited_ns = 0;
        break;
      case Command::Kind::kRecord:
        timeline_.advance(command.value);
        break;
      case Command::Kind::kWait: {
        const int64_t begin = now_ns();
        command.other->wait(command.value);
        waited_ns += now_ns() - begin;
        break;
      }
      case Command::Kind::kStop:
        return;
    }
    finish();
  }
}

}  // namespace spillway::cpu
