// A run of the sim device allocates nothing either.
#include <gtest/gtest.h>

#include "device/executor.h"
#include "device/sim/sim_device.h"
#include "tests/device/counted_new.h"
#include "tests/device/hand_schedule.h"
#include "tests/sim/toy_hardware.h"

namespace spillway {
namespace {

using enum OpKind;

// Two classes of ranks, all four streams, and a collective that one of the classes waits for.
TEST(SimAllocation, ARunAllocatesNothing) {
  HandSchedule hand;
  const TensorId x = hand.buffer("x", {8192, 1024}), y = hand.buffer("y", {8192, 1024});
  const TensorId w = hand.buffer("w", {4, 1024, 1024}), offsets = hand.buffer("offsets", {5});
  const TensorId host = hand.buffer("host", {8192, 1024}, Space::kHost);
  const int product = hand.add(Stream::kCompute, kGroupedLinear, {x, w, offsets}, {y}, {},
                               {{Attr::kRows, 4096}});
  const int out = hand.add(Stream::kD2h, kCopy, {y}, {host}, {product});
  const int back = hand.add(Stream::kH2d, kCopy, {host}, {x}, {out});
  const int exchange = hand.add(Stream::kComm, kReturnRows, {y, offsets}, {x}, {product},
                                {{Attr::kAxes, axis::kExpert}, {Attr::kParts, 4}});
  hand.add(Stream::kCompute, kFree, {x}, {}, {back, exchange});

  const Hardware hardware = toy_hardware();
  sim::SimDevice device(hardware, Mesh({.data = 1, .expert = 4}, 4, 0, 0),
                        {.assumptions = {.hottest_expert_load = 2}});
  hand.allocate(device);
  Executor executor(device, hand.schedule, hand.plan);
  start_counting_allocations();
  executor.run();
  EXPECT_EQ(stop_counting_allocations(), 0);
  ASSERT_EQ(device.classes().size(), 2U);
  EXPECT_GT(device.classes()[1].collective_wait_seconds, 0);
}

}  // namespace
}  // namespace spillway
