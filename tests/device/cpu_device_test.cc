// The cpu device and the executor, on Schedules written by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "device/executor.h"
#include "program/error.h"
#include "tests/device/hand_schedule.h"

namespace spillway {
namespace {

using enum OpKind;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Stream kCompute = Stream::kCompute, kD2h = Stream::kD2h, kH2d = Stream::kH2d;

std::vector<float> filled(int64_t count, float value) {
  return std::vector<float>(static_cast<size_t>(count), value);
}

template <class Error, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// x doubles, goes to the host, comes back to another buffer while x is overwritten, and is added to
// it: every wait is needed.
struct RoundTrip {
  static constexpr int64_t kCount = 50'000;
  HandSchedule hand;
  TensorId x, doubled, host, back, sum;

  RoundTrip() {
    x = hand.buffer("x", {kCount});
    doubled = hand.buffer("doubled", {kCount});
    host = hand.buffer("doubled@host", {kCount}, Space::kHost);
    back = hand.buffer("back", {kCount});
    sum = hand.buffer("sum", {kCount});
    const int define = hand.add(kCompute, kAdd, {x, x}, {doubled});
    const int out = hand.add(kD2h, kCopy, {doubled}, {host}, {define});
    hand.add(kCompute, kAdd, {x, x}, {sum});
    hand.add(kCompute, kAdd, {sum, sum}, {doubled}, {out});
    const int in = hand.add(kH2d, kCopy, {host}, {back}, {out});
    hand.add(kCompute, kAdd, {back, doubled}, {sum}, {in});
  }

  std::vector<float> run(const DeviceOptions& options, int runs = 1) const {
    const auto device = make_device(options);
    hand.allocate(*device);
    Executor executor(*device, hand.schedule, hand.plan);
    for (int i = 0; i < runs; ++i) {
      hand.write(*device, x, filled(kCount, static_cast<float>(i + 1)));
      executor.run();
    }
    return hand.read(*device, sum);
  }
};

TEST(CpuDevice, RunsInstructionsOnTheirStreams) {
  EXPECT_THAT(RoundTrip().run({}), Each(6.0f));
}

TEST(CpuDevice, EventsOfEarlierRunsDoNotCount) {
  EXPECT_THAT(RoundTrip().run({}, 20), Each(120.0f));
}

TEST(CpuDevice, JitterChangesNoBit) {
  const std::vector<float> expected = RoundTrip().run({}, 3);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(RoundTrip().run({.jitter_seed = seed}, 3), expected);
  }
}

TEST(CpuDevice, ACopyTakesAsLongAsTheLink) {
  HandSchedule hand;
  const TensorId x = hand.buffer("x", {250'000});  // 1 MB: 20 ms at 0.05 GB/s
  const TensorId host = hand.buffer("x@host", {250'000}, Space::kHost);
  hand.add(kD2h, kCopy, {x}, {host});
  const auto device = make_device({.link_gb_per_s = 0.05});
  hand.allocate(*device);
  Executor executor(*device, hand.schedule, hand.plan);
  executor.run();
  const InstrTiming timing = executor.timings()[0];
  EXPECT_GE(timing.end_ns - timing.begin_ns, 20'000'000);
  EXPECT_LT(timing.end_ns - timing.begin_ns, 200'000'000);
}

TEST(CpuDevice, BothDirectionsAndComputeOverlap) {
  HandSchedule hand;
  const TensorId x = hand.buffer("x", {250'000}), y = hand.buffer("y", {250'000});
  const TensorId z = hand.buffer("z", {250'000});
  const TensorId out = hand.buffer("x@host", {250'000}, Space::kHost);
  const TensorId in = hand.buffer("y@host", {250'000}, Space::kHost);
  hand.add(kD2h, kCopy, {x}, {out});  // 100 ms each at 0.01 GB/s
  hand.add(kH2d, kCopy, {in}, {y});
  hand.add(kCompute, kAdd, {x, x}, {z});
  const auto device = make_device({.link_gb_per_s = 0.01});
  hand.allocate(*device);
  Executor executor(*device, hand.schedule, hand.plan);
  executor.run();
  const auto timings = executor.timings();
  const int64_t first_end = std::min(timings[0].end_ns, timings[1].end_ns);
  for (int i = 0; i < 3; ++i) EXPECT_LT(timings[i].begin_ns, first_end) << i;
}

TEST(CpuDevice, TimingsSayHowLongAStreamWaited) {
  HandSchedule hand;
  const TensorId x = hand.buffer("x", {250'000}), z = hand.buffer("z", {250'000});
  const TensorId host = hand.buffer("x@host", {250'000}, Space::kHost);
  const int copy = hand.add(kH2d, kCopy, {host}, {x});  // 50 ms
  hand.add(kCompute, kAdd, {x, x}, {z}, {copy});
  const auto device = make_device({.link_gb_per_s = 0.02});
  hand.allocate(*device);
  Executor executor(*device, hand.schedule, hand.plan);
  executor.run();
  const auto timings = executor.timings();
  EXPECT_EQ(timings[0].wait_ns, 0);
  EXPECT_GE(timings[1].wait_ns, 40'000'000);
  EXPECT_GE(timings[1].begin_ns, timings[0].end_ns);
}

// An embedding fails on a token outside its vocabulary; a copy and an add depend on it.
struct Failing {
  HandSchedule hand;
  TensorId tokens, weight, y, host, back;

  Failing() {
    tokens = hand.buffer("tokens", {4}, Space::kHbm, DType::kI32);
    weight = hand.buffer("weight", {8, 2});
    y = hand.buffer("y", {4, 2});
    host = hand.buffer("y@host", {4, 2}, Space::kHost);
    back = hand.buffer("back", {4, 2});
    const int lookup = hand.add(kCompute, kEmbedding, {tokens, weight}, {y});
    const int out = hand.add(kD2h, kCopy, {y}, {host}, {lookup});
    const int in = hand.add(kH2d, kCopy, {host}, {back}, {out});
    hand.add(kCompute, kAdd, {back, y}, {y}, {in});
  }
};

TEST(CpuDevice, NamesTheInstructionThatFailed) {
  const Failing failing;
  const auto device = make_device({});
  failing.hand.allocate(*device);
  failing.hand.write(*device, failing.tokens, std::vector<int32_t>{0, 1, 8, 3});
  failing.hand.write(*device, failing.back, filled(8, 7));
  Executor executor(*device, failing.hand.schedule, failing.hand.plan);
  EXPECT_EQ(message_of<DeviceError>([&] { executor.run(); }),
            "cpu error: token 8 of row 2 is outside the vocabulary [0, 8) in "
            "`y = embedding(tokens, weight)`, slot L0.fwd.m0, stream compute");
  EXPECT_THAT(failing.hand.read(*device, failing.back), Each(7.0f));  // skipped
}

TEST(CpuDevice, RunsAgainAfterAnError) {
  const Failing failing;
  const auto device = make_device({});
  failing.hand.allocate(*device);
  failing.hand.write(*device, failing.weight, filled(16, 1.5));
  Executor executor(*device, failing.hand.schedule, failing.hand.plan);
  for (int i = 0; i < 3; ++i) {
    failing.hand.write(*device, failing.tokens, std::vector<int32_t>{0, -1, 2, 3});
    EXPECT_THROW(executor.run(), DeviceError);
    failing.hand.write(*device, failing.tokens, std::vector<int32_t>{0, 1, 2, 3});
    executor.run();
    EXPECT_THAT(failing.hand.read(*device, failing.y), Each(3.0f));
  }
}

TEST(CpuDevice, PoisonsArenasAndFreedBuffers) {
  HandSchedule hand;
  const TensorId x = hand.buffer("x", {3}), y = hand.buffer("y", {3});
  const TensorId half = hand.buffer("half", {3}, Space::kHbm, DType::kBF16);
  hand.add(kCompute, kFree, {x}, {});
  for (bool poison : {true, false}) {
    const auto device = make_device({.poison = poison});
    hand.allocate(*device);
    Executor executor(*device, hand.schedule, hand.plan);
    EXPECT_EQ(std::isnan(hand.read(*device, y)[0]), poison);
    EXPECT_EQ(hand.read<uint16_t>(*device, half)[2] == 0xffff, poison);
    hand.write(*device, x, filled(3, 1));
    hand.write(*device, y, filled(3, 1));
    executor.run();
    EXPECT_EQ(std::isnan(hand.read(*device, x)[2]), poison);
    EXPECT_THAT(hand.read(*device, y), Each(1.0f));
  }
}

TEST(CpuDevice, HighWaterIsWhatInstructionsTouched) {
  HandSchedule hand;
  const TensorId x = hand.buffer("x", {1000}), y = hand.buffer("y", {1000});
  hand.buffer("never used", {1000});
  const TensorId host = hand.buffer("y@host", {1000}, Space::kHost);
  const int add = hand.add(kCompute, kAdd, {x, x}, {y});
  hand.add(kD2h, kCopy, {y}, {host}, {add});
  const auto device = make_device({});
  hand.allocate(*device);
  Executor executor(*device, hand.schedule, hand.plan);
  EXPECT_EQ(device->memory_use().hbm_high_water, 0);
  executor.run();
  EXPECT_EQ(device->memory_use().hbm_high_water, hand.plan.offset[y] + 4000);
  EXPECT_EQ(device->memory_use().host_high_water, 4000);
}

TEST(CpuDevice, RefusesWhatItCannotRun) {
  HandSchedule hand;
  const TensorId x = hand.buffer("x", {4}, Space::kHbm, DType::kI32);
  hand.add(kCompute, kAdd, {x, x}, {x});
  const auto device = make_device({});
  hand.allocate(*device);
  EXPECT_EQ(message_of<ConfigError>([&] { Executor(*device, hand.schedule, hand.plan); }),
            "config error: device cpu cannot run `x = add(x, x)`: input 0 is i32; it can be f32 or "
            "bf16");
}

TEST(CpuDevice, RefusesToComputeInHostMemory) {
  HandSchedule hand;
  const TensorId x = hand.buffer("x@host", {4}, Space::kHost);
  hand.add(kCompute, kAdd, {x, x}, {x});
  const auto device = make_device({});
  hand.allocate(*device);
  EXPECT_THAT(message_of<ConfigError>([&] { Executor(*device, hand.schedule, hand.plan); }),
              HasSubstr("x@host is in host memory"));
}

TEST(CpuDevice, ArenasHaveBounds) {
  HandSchedule hand;
  const TensorId x = hand.buffer("x", {100});
  hand.add(kCompute, kAdd, {x, x}, {x});
  const auto device = make_device({.hbm_bytes = 1000});
  EXPECT_THROW(device->allocate({.hbm = 1001}), OutOfMemory);
  hand.allocate(*device);
  EXPECT_THROW(hand.allocate(*device), VerifyError);  // once
  hand.plan.offset[x] = 4;
  EXPECT_THROW(Executor(*device, hand.schedule, hand.plan), VerifyError);
  EXPECT_THROW(device->write(Space::kHbm, 399, std::as_bytes(std::span("xy", 2))), VerifyError);
}

TEST(CpuDevice, OneDeviceRunsTwoSchedules) {
  const RoundTrip train, evaluate;
  const auto device = make_device({});
  train.hand.allocate(*device);
  Executor first(*device, train.hand.schedule, train.hand.plan);
  Executor second(*device, evaluate.hand.schedule, evaluate.hand.plan);
  train.hand.write(*device, train.x, filled(RoundTrip::kCount, 1));
  for (int i = 0; i < 5; ++i) {
    first.run();
    second.run();
  }
  EXPECT_THAT(train.hand.read(*device, train.sum), Each(6.0f));
}

TEST(Executor, FindsTheFirstValueThatIsNotFinite) {
  HandSchedule hand;
  const TensorId x = hand.buffer("x", {8, 2}), y = hand.buffer("y", {8, 2});
  const TensorId z = hand.buffer("z", {8, 2}), whole = hand.buffer("whole", {16, 2});
  // Rows 8 to 16 of `whole` are poison when its first instruction ends.
  hand.add(kCompute, kPutRows, {x}, {whole}, {}, {{Attr::kBegin, 0}, {Attr::kEnd, 8}});
  hand.add(kCompute, kAdd, {x, x}, {y});
  hand.add(kCompute, kAdd, {y, y}, {z});
  const auto device = make_device({.poison = true});
  hand.allocate(*device);
  Executor executor(*device, hand.schedule, hand.plan);
  std::vector<float> values = filled(16, 1);
  hand.write(*device, x, values);
  EXPECT_THAT(executor.find_non_finite().where, IsEmpty());
  values[9] = 2e38f;  // doubled: infinity
  hand.write(*device, x, values);
  EXPECT_EQ(executor.find_non_finite().where, "L0.fwd.m0: y = add(x, x)");
}

TEST(Registry, NamesTheDevices) {
  EXPECT_EQ(message_of<ConfigError>([] { (void)make_device({.kind = "tpu"}); }),
            "config error: unknown device tpu" + did_you_mean("tpu", {"cpu"}) + "; devices: cpu");
  EXPECT_THAT(message_of<ConfigError>([] { (void)make_device({.kind = "cuda"}); }),
              AllOf(HasSubstr("cuda"), HasSubstr("not built"), HasSubstr("devices: cpu")));
}

}  // namespace
}  // namespace spillway
