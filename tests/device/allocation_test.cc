// A run allocates nothing. Counts operator new of the whole process, all threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>

#include "device/executor.h"
#include "tests/device/counted_new.h"
#include "tests/device/hand_schedule.h"
#include "tests/device/ranks.h"

namespace spillway {
namespace {

using enum OpKind;
constexpr Stream kCompute = Stream::kCompute;

// operator new calls of one run, after a first.
int allocations_of_a_run(const HandSchedule& hand) {
  const auto device = make_device({.jitter_seed = 1, .poison = true});
  hand.allocate(*device);
  Executor executor(*device, hand.schedule, hand.plan);
  executor.run();
  start_counting_allocations();
  executor.run();
  return stop_counting_allocations();
}

constexpr int64_t kLength = 300, kWidth = 64;

TEST(Allocation, ARunAllocatesNothing) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    HandSchedule hand;
    const auto tensor = [&](const char* name, Shape shape, DType type) {
      return hand.buffer(name, std::move(shape), Space::kHbm, type);
    };
    const TensorId x = tensor("x", {kLength, kWidth}, dtype);
    const TensorId y = tensor("y", {kLength, kWidth}, dtype);
    const TensorId w = tensor("w", {kWidth}, dtype), rstd = tensor("rstd", {kLength}, DType::kF32);
    const TensorId dw = tensor("dw", {kWidth}, DType::kF32);
    const TensorId lse = tensor("lse", {kLength, 2}, DType::kF32);
    const TensorId back = tensor("back", {kLength, kWidth}, dtype);
    const TensorId square = tensor("square", {kWidth, kWidth}, DType::kF32);
    const TensorId logits = tensor("logits", {kLength, kWidth}, DType::kF32);
    const TensorId host = hand.buffer("y@host", {kLength, kWidth}, Space::kHost, dtype);
    const Attrs attention = {{Attr::kHeads, 2},     {Attr::kKvHeads, 2}, {Attr::kHeadDim, 32},
                             {Attr::kVHeadDim, 32}, {Attr::kSeq, 150},   {Attr::kScale, 0.1}};
    hand.add(kCompute, kRmsNorm, {x, w}, {y, rstd}, {}, {{Attr::kEps, 1e-5}});
    hand.add(kCompute, kRmsNormBwd, {x, w, rstd, y}, {back, dw}, {}, {{Attr::kEps, 1e-5}});
    hand.add(kCompute, kAttention, {x, x, x}, {y, lse}, {}, attention);
    hand.add(kCompute, kAttentionBwd, {x, x, x, y, lse, x}, {back, back, back}, {}, attention);
    hand.add(kCompute, kLinear, {x, square}, {logits});  // f32, or converted panels
    const int last = hand.add(kCompute, kSwiglu, {x, y}, {y});
    const int out = hand.add(Stream::kD2h, kCopy, {y}, {host}, {last});
    const int in = hand.add(Stream::kH2d, kCopy, {host}, {back}, {out});
    hand.add(kCompute, kFree, {back}, {}, {in});
    EXPECT_EQ(allocations_of_a_run(hand), 0) << name_of(dtype);
  }
}

// Two ranks, so that messages go somewhere; both count.
TEST(Allocation, CollectivesAllocateNothing) {
  HandSchedule hand;
  const Attrs attrs = {{Attr::kAxes, axis::kExpert}, {Attr::kParts, 2}};
  const TensorId x = hand.buffer("x", {kLength, kWidth});
  const TensorId part = hand.buffer("part", {kLength / 2, kWidth});
  const TensorId few = hand.buffer("few", {10}), rows = hand.buffer("rows", {kLength, kWidth});
  const TensorId all = hand.buffer("all", {2, 5}, Space::kHbm, DType::kI32);
  hand.add(Stream::kComm, kReduceScatter, {x}, {part}, {}, attrs);
  hand.add(Stream::kComm, kAllGather, {part}, {x}, {}, attrs);
  hand.add(Stream::kComm, kAllReduce, {x}, {x}, {}, attrs);
  hand.add(Stream::kComm, kAllReduce, {few}, {few}, {}, attrs);
  std::barrier barrier(2);
  int allocations = -1;
  EXPECT_THAT(on_ranks({.data = 1, .expert = 2}, 2, [&](const Communicator& c) {
    HandSchedule mine = hand;
    Attrs experts = attrs;
    experts.set(Attr::kPart, c.mesh.rank());
    experts.set(Attr::kRows, kLength);
    experts.set(Attr::kDrop, 1);
    mine.add(Stream::kComm, kExchangeRows, {x, all}, {rows}, {}, experts);
    mine.add(Stream::kComm, kReturnRows, {rows, all}, {x}, {}, experts);
    const auto device = make_device({.threads = 1, .jitter_seed = 1}, c);
    mine.allocate(*device);
    mine.write(*device, all, std::vector<int32_t>{0, 50, 90, 90, 200, 0, 10, 300, 300, 300});
    Executor executor(*device, mine.schedule, mine.plan);
    executor.run();
    barrier.arrive_and_wait();
    if (c.mesh.rank() == 0) start_counting_allocations();
    barrier.arrive_and_wait();
    executor.run();
    barrier.arrive_and_wait();
    if (c.mesh.rank() == 0) allocations = stop_counting_allocations();
  }), testing::Each(testing::IsEmpty()));
  EXPECT_EQ(allocations, 0);
}

// oneDNN's execute builds a small table of arguments each time. Nothing of ours comes on top: what
// a run allocates grows with the tiles computed (300 rows: 128, 128 and 44), and by the same for
// each.
TEST(Allocation, OfABf16ProductIsOneDnns) {
  const auto allocations_with = [](int products) {
    HandSchedule hand;
    const TensorId x = hand.buffer("x", {kLength, kWidth}, Space::kHbm, DType::kBF16);
    const TensorId w = hand.buffer("w", {kWidth, kWidth}, Space::kHbm, DType::kBF16);
    const TensorId y = hand.buffer("y", {kLength, kWidth}, Space::kHbm, DType::kBF16);
    for (int i = 0; i < products; ++i) hand.add(kCompute, kLinear, {x, w}, {y});
    return allocations_of_a_run(hand);
  };
  const int one = allocations_with(1);
  EXPECT_LE(one, 3 * 10);
  EXPECT_EQ(allocations_with(4), 4 * one);
  RecordProperty("per_product", one);
}

}  // namespace
}  // namespace spillway
