// The sim device behind the Device interface, on Schedules written by hand.
#include "device/sim/sim_device.h"

#include <gmock/gmock.h>

#include "device/executor.h"
#include "program/error.h"
#include "tests/device/hand_schedule.h"
#include "tests/sim/toy_hardware.h"

namespace spillway::sim {
namespace {

using enum OpKind;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

// A copy out, an addition beside it, and the copy back of what both left. The last buffer is only
// freed.
struct Copies : HandSchedule {
  Copies() {
    const TensorId a = buffer("a", {8 * kMiB}), b = buffer("b", {8 * kMiB});
    const TensorId host = buffer("a@host", {8 * kMiB}, Space::kHost);
    define = add(Stream::kCompute, kAdd, {a, b}, {b});
    out = add(Stream::kD2h, kCopy, {a}, {host}, {define});
    beside = add(Stream::kCompute, kAdd, {a, b}, {b});
    back = add(Stream::kH2d, kCopy, {host}, {a}, {out, beside});
    after = add(Stream::kCompute, kAdd, {a, b}, {b}, {back});
    add(Stream::kCompute, kFree, {buffer("unused", {8 * kMiB})}, {});
  }
  int define, out, beside, back, after;
};

TEST(SimDevice, IsTheHardware) {
  const Hardware hardware = toy_hardware();
  SimDevice device(hardware, Mesh());
  EXPECT_EQ(device.name(), "toy");
  EXPECT_EQ(device.hbm_capacity(), 99'000'000'000);
  EXPECT_EQ(device.host_capacity(), 200'000'000'000);
  device.allocate({.hbm = 99'000'000'000, .host = 200'000'000'000});
  EXPECT_THROW(device.allocate({.hbm = 1}), VerifyError);
}

TEST(SimDevice, SaysWhatDoesNotFit) {
  const Hardware hardware = toy_hardware();
  SimDevice device(hardware, Mesh());
  try {
    device.allocate({.hbm = 99'000'000'001});
    FAIL() << "allocated";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("99000000000 bytes of hbm"), HasSubstr("99000000001")));
  }
  EXPECT_THROW(device.allocate({.host = 200'000'000'001}), OutOfMemory);
  SimDevice larger(hardware, Mesh(), {.allow_oversize = true});
  larger.allocate({.hbm = int64_t{1} << 50, .host = int64_t{1} << 50});
}

TEST(SimDevice, HoldsNoValues) {
  const Hardware hardware = toy_hardware();
  SimDevice device(hardware, Mesh());
  device.allocate({.hbm = 64});
  std::vector<std::byte> bytes(16, std::byte{7});
  device.write(Space::kHbm, 48, bytes);
  device.read(Space::kHbm, 48, bytes);
  EXPECT_THAT(bytes, Each(std::byte{0}));
  EXPECT_THROW(device.write(Space::kHbm, 49, bytes), VerifyError);
  EXPECT_THROW(device.read(Space::kHost, 0, bytes), VerifyError);
}

TEST(SimDevice, APlanOutsideTheArenasIsNotLoaded) {
  const Hardware hardware = toy_hardware();
  SimDevice device(hardware, Mesh());
  const Copies hand;
  device.allocate({.hbm = hand.plan.hbm.bytes, .host = hand.plan.host.bytes - 1});
  EXPECT_THROW(Executor(device, hand.schedule, hand.plan), VerifyError);
}

TEST(SimDevice, OrderComesFromTheCalls) {
  const Hardware hardware = toy_hardware();
  SimDevice device(hardware, Mesh());
  const Copies hand;
  hand.allocate(device);
  const auto loaded = device.load(hand.schedule, hand.plan);
  device.begin(*loaded);
  for (int i = 0; i < 5; ++i) device.launch(*loaded, i);  // and nobody waits
  device.synchronize(*loaded);
  EXPECT_EQ(device.timings(*loaded)[hand.out].begin_ns, 0);
  EXPECT_EQ(device.timings(*loaded)[hand.back].begin_ns, 0);

  Executor executor(device, hand.schedule, hand.plan);
  executor.run();
  const auto at = executor.timings();
  EXPECT_EQ(at[hand.out].begin_ns, at[hand.define].end_ns);
  EXPECT_EQ(at[hand.out].wait_ns, at[hand.define].end_ns);
  EXPECT_EQ(at[hand.beside].begin_ns, at[hand.define].end_ns);
  EXPECT_EQ(at[hand.beside].wait_ns, 0);
  EXPECT_EQ(at[hand.back].begin_ns, std::max(at[hand.out].end_ns, at[hand.beside].end_ns));
  EXPECT_EQ(at[hand.after].wait_ns, at[hand.after].begin_ns - at[hand.beside].end_ns);
  // 32 MiB at 50 GB/s and a launch; nothing is short.
  EXPECT_NEAR(at[hand.back].end_ns - at[hand.back].begin_ns, 32.0 * kMiB / 50 + 1000, 2);
}

TEST(SimDevice, AnEventThatNothingRecordsIsAnError) {
  const Hardware hardware = toy_hardware();
  SimDevice device(hardware, Mesh());
  const Copies hand;
  hand.allocate(device);
  const auto loaded = device.load(hand.schedule, hand.plan);
  device.begin(*loaded);
  device.launch(*loaded, hand.define);
  device.wait(*loaded, Stream::kD2h, hand.define);
  device.launch(*loaded, hand.out);
  try {
    device.synchronize(*loaded);
    FAIL() << "synchronized";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("stream d2h waits"), HasSubstr("add(a, b)")));
  }
  device.begin(*loaded);  // forgets it
  device.launch(*loaded, hand.define);
  device.synchronize(*loaded);
}

std::vector<int64_t> ends(const Executor& executor) {
  std::vector<int64_t> result;
  for (const InstrTiming& timing : executor.timings()) {
    result.insert(result.end(), {timing.begin_ns, timing.end_ns, timing.wait_ns});
  }
  return result;
}

TEST(SimDevice, ARunCanBeRepeated) {
  const Hardware hardware = toy_hardware();
  SimDevice device(hardware, Mesh());
  const Copies hand;
  hand.allocate(device);
  Executor executor(device, hand.schedule, hand.plan), another(device, hand.schedule, hand.plan);
  executor.run();
  const std::vector<int64_t> first = ends(executor);
  another.run();
  executor.run();
  EXPECT_EQ(ends(executor), first);
  EXPECT_EQ(ends(another), first);
}

TEST(SimDevice, OneInstructionAtATimeNothingOverlaps) {
  const Hardware hardware = toy_hardware();
  SimDevice device(hardware, Mesh());
  const Copies hand;
  hand.allocate(device);
  Executor executor(device, hand.schedule, hand.plan);
  int64_t last = 0;
  executor.watch([&](int i) {
    EXPECT_EQ(executor.timings()[i].begin_ns, last);
    last = executor.timings()[i].end_ns;
    return true;
  });
  EXPECT_GT(last, 0);
  EXPECT_EQ(executor.find_non_finite().where, "");
}

// The same Executor over either device.
TEST(SimDevice, TouchesTheBytesThatTheCpuDeviceDoes) {
  const Hardware hardware = toy_hardware();
  SimDevice sim(hardware, Mesh());
  const auto cpu = make_device({});
  const Copies hand;
  for (Device* device : {static_cast<Device*>(&sim), cpu.get()}) hand.allocate(*device);
  const auto both = [&](const auto& run) {
    for (Device* device : {static_cast<Device*>(&sim), cpu.get()}) {
      Executor executor(*device, hand.schedule, hand.plan);
      run(executor);
    }
    EXPECT_EQ(sim.memory_use().hbm_high_water, cpu->memory_use().hbm_high_water);
    EXPECT_EQ(sim.memory_use().host_high_water, cpu->memory_use().host_high_water);
  };
  both([](Executor& executor) { executor.watch([](int) { return false; }); });
  EXPECT_EQ(sim.memory_use().host_high_water, 0) << "not launched";
  both([](Executor& executor) { executor.run(); });
  EXPECT_EQ(sim.memory_use().host_high_water, hand.plan.host.bytes);
  EXPECT_EQ(sim.memory_use().hbm_high_water, 2 * 32 * kMiB);
}

TEST(SimDevice, BytesAndTimeAreSixtyFourBits) {
  const Hardware hardware = toy_hardware();
  SimDevice device(hardware, Mesh({.data = 128, .fsdp = 128}, 16384, 16383, 0));
  HandSchedule hand;
  const TensorId a = hand.buffer("a", {1 << 17, 1 << 17});  // 64 GiB
  const TensorId host = hand.buffer("a@host", {1 << 17, 1 << 17}, Space::kHost);
  for (int i = 0; i < 100; ++i) hand.add(Stream::kD2h, kCopy, {a}, {host});
  hand.allocate(device);
  Executor executor(device, hand.schedule, hand.plan);
  executor.run();
  const double seconds = 100 * (std::ldexp(1.0, 36) / 50e9 + 1e-6);
  EXPECT_GT(seconds, 100);
  EXPECT_NEAR(static_cast<double>(executor.timings()[99].end_ns), seconds * 1e9, 100);
  EXPECT_EQ(device.memory_use().host_high_water, int64_t{1} << 36);
}

}  // namespace
}  // namespace spillway::sim
