#include "device/cpu/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace spillway::cpu {
namespace {

class Recorder : public Runner {
 public:
  void run_instruction(int instr, int64_t) noexcept override {
    in_order_ = in_order_ && instr == count_;
    ++count_;
  }
  int count_ = 0;  // of one stream's thread; read after drain()
  bool in_order_ = true;
};

TEST(StreamThread, RunsInOrderAndBlocksOnlyWhenFull) {
  StreamThread stream;
  Recorder recorder;
  constexpr int kMany = 10'000;  // far more than the ring holds
  for (int i = 0; i < kMany; ++i) stream.run(recorder, i);
  stream.drain();
  EXPECT_EQ(recorder.count_, kMany);
  EXPECT_TRUE(recorder.in_order_);
}

TEST(StreamThread, WaitsForAnotherStream) {
  class Slow : public Runner {
   public:
    void run_instruction(int, int64_t) noexcept override {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = true;
    }
    std::atomic<bool> done = false;
  };
  class Check : public Runner {
   public:
    explicit Check(const Slow& slow) : slow_(slow) {}
    void run_instruction(int, int64_t waited_ns) noexcept override {
      seen = slow_.done;
      waited = waited_ns;
    }
    bool seen = false;
    int64_t waited = 0;

   private:
    const Slow& slow_;
  };
  StreamThread first, second;
  Slow slow;
  Check check(slow);
  second.wait(first.timeline(), 5);
  second.run(check, 0);
  first.run(slow, 0);
  first.record(5);
  second.drain();
  EXPECT_TRUE(check.seen);
  EXPECT_GT(check.waited, 10'000'000);
}

TEST(StreamThread, GrowsWhileIdle) {
  StreamThread stream;
  Recorder recorder;
  for (int i = 0; i < 100; ++i) {
    stream.run(recorder, i);
    if (i % 10 != 9) continue;
    stream.drain();
    stream.reserve(int64_t{10} * i);
  }
  stream.drain();
  EXPECT_TRUE(recorder.in_order_);
}

TEST(StreamThread, RunsWhatIsQueuedBeforeItEnds) {
  Recorder recorder;
  {
    StreamThread stream;
    for (int i = 0; i < 50; ++i) stream.run(recorder, i);
  }
  EXPECT_EQ(recorder.count_, 50);
}

}  // namespace
}  // namespace spillway::cpu
