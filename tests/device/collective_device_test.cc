// Collectives on the streams of devices: jitter, pace, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "device/executor.h"
#include "device/roofline.h"
#include "program/error.h"
#include "tests/device/hand_schedule.h"
#include "tests/device/ranks.h"

namespace spillway {
namespace {

using enum OpKind;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Stream kCompute = Stream::kCompute, kComm = Stream::kComm;

Attrs over_data(int parts) { return {{Attr::kAxes, axis::kData}, {Attr::kParts, parts}}; }

// Two sums of x, scattered and gathered on the comm stream while compute goes on.
struct ZeroStep {
  static constexpr int64_t kCount = 30'000;
  int ranks;
  HandSchedule hand;
  TensorId x, twice, part, whole, y;

  explicit ZeroStep(int parts) : ranks(parts) {
    x = hand.buffer("x", {kCount});
    twice = hand.buffer("twice", {kCount});
    part = hand.buffer("part", {kCount / parts});
    whole = hand.buffer("whole", {kCount});
    y = hand.buffer("y", {kCount});
    const int define = hand.add(kCompute, kAdd, {x, x}, {twice});
    const Attrs attrs = over_data(parts);
    const int scatter = hand.add(kComm, kReduceScatter, {twice}, {part}, {define}, attrs);
    const int gather = hand.add(kComm, kAllGather, {part}, {whole}, {}, attrs);
    hand.add(kCompute, kAdd, {x, x}, {y});
    const int sum = hand.add(kCompute, kAdd, {y, whole}, {y}, {gather});
    const int reduce = hand.add(kComm, kAllReduce, {y}, {y}, {sum}, attrs);
    hand.add(kCompute, kAdd, {y, y}, {twice}, {scatter, reduce});
  }

  // `twice` of this rank after three runs.
  [[nodiscard]] std::vector<float> run(const Communicator& c, DeviceOptions options) const {
    options.threads = 1;
    if (options.jitter_seed != 0) options.jitter_seed += static_cast<uint64_t>(c.mesh.rank());
    const auto device = make_device(options, c);
    hand.allocate(*device);
    Executor executor(*device, hand.schedule, hand.plan);
    std::vector<float> values(kCount);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 1.0f / static_cast<float>(i * 7 + static_cast<size_t>(c.mesh.rank()) + 1);
    }
    for (int i = 0; i < 3; ++i) {
      hand.write(*device, x, values);
      executor.run();
    }
    return hand.read(*device, twice);
  }
};

TEST(CollectiveDevice, EveryRankHasTheSameBitsWhateverTheTiming) {
  for (int ranks : {2, 3, 5}) {
    const ZeroStep step(ranks);
    std::vector<float> expected;
    std::mutex mutex;
    for (uint64_t seed = 0; seed <= 400; seed += 100) {
      EXPECT_THAT(on_ranks(ranks, [&](const Communicator& c) {
        const std::vector<float> got = step.run(c, {.jitter_seed = seed});
        const std::lock_guard lock(mutex);
        if (expected.empty()) expected = got;
        EXPECT_TRUE(got == expected) << "rank " << c.mesh.rank() << ", seed " << seed;
      }), Each(IsEmpty()));
    }
  }
}

TEST(CollectiveDevice, TakesAsLongAsTheLink) {
  HandSchedule hand;
  const TensorId x = hand.buffer("x", {250'000});  // sends 1 MB: 20 ms at 0.05 GB/s
  hand.add(kComm, kAllReduce, {x}, {x}, {}, over_data(2));
  EXPECT_THAT(on_ranks(2, [&](const Communicator& c) {
    const auto device = make_device({.comm_gb_per_s = 0.05, .threads = 1}, c);
    hand.allocate(*device);
    Executor executor(*device, hand.schedule, hand.plan);
    executor.run();
    const InstrTiming timing = executor.timings()[0];
    EXPECT_GE(timing.end_ns - timing.begin_ns, 20'000'000);
  }), Each(IsEmpty()));
}

TEST(CollectiveDevice, RefusesWithoutAWorld) {
  const ZeroStep step(2);
  EXPECT_THAT(on_ranks(1, [&](const Communicator&) {
    const auto device = make_device({});
    step.hand.allocate(*device);
    Executor(*device, step.hand.schedule, step.hand.plan);
  })[0], AllOf(HasSubstr("part = reduce_scatter(twice)"), HasSubstr("this process is alone")));
}

// An all_reduce of everybody on the comm stream, beside or behind a lookup that may fail.
struct Lookup {
  HandSchedule hand;
  TensorId tokens, weight, y, x;

  explicit Lookup(int ranks, bool behind) {
    tokens = hand.buffer("tokens", {4}, Space::kHbm, DType::kI32);
    weight = hand.buffer("weight", {8, 2});
    y = hand.buffer("y", {4, 2});
    x = hand.buffer("x", {50'000});
    const int lookup = hand.add(kCompute, kEmbedding, {tokens, weight}, {y});
    const std::vector<int> waits = behind ? std::vector<int>{lookup} : std::vector<int>{};
    for (int i = 0; i < 40; ++i) hand.add(kComm, kAllReduce, {x}, {x}, waits, over_data(ranks));
  }

  void run(const Communicator& c, int32_t token) const {
    const auto seed = static_cast<uint64_t>(c.mesh.rank()) + 1;
    // At this pace all sums take a second or more: the lookup ends first.
    const auto device =
        make_device({.comm_gb_per_s = 0.01, .threads = 1, .jitter_seed = seed}, c);
    hand.allocate(*device);
    hand.write(*device, tokens, std::vector<int32_t>{0, 1, token, 3});
    Executor executor(*device, hand.schedule, hand.plan);
    executor.run();
  }
};

TEST(CollectiveDevice, AFailureOfOneRankStopsAll) {
  for (bool behind : {true, false}) {
    const Lookup lookup(3, behind);
    const auto errors = on_ranks(3, [&](const Communicator& c) {
      lookup.run(c, c.mesh.rank() == 1 ? 8 : 2);
    });
    EXPECT_THAT(errors[1], HasSubstr("cpu error: token 8 of row 2 is outside"));
    for (int rank : {0, 2}) {
      EXPECT_THAT(errors[rank], AllOf(HasSubstr("cpu error: rank 1: slot L0.fwd.m0, "
                                                "`y = embedding(tokens, weight)`: token 8"),
                                      HasSubstr("all_reduce"), HasSubstr("stream comm")));
    }
  }
}

// A rank that leaves without a word is an error of the others, and none of theirs.
TEST(CollectiveDevice, ARankThatIsGoneStopsTheOthers) {
  auto worlds = thread_worlds(2);
  worlds[1].reset();
  const Communicator c{.world = worlds[0].get(), .mesh = Mesh({.data = 2}, 2, 0, 0)};
  try {
    Lookup(2, false).run(c, 2);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cpu error: rank 1"));
  }
}

// Experts' rows that do not fit: every rank's own error, before an exchange.
TEST(CollectiveDevice, OverflowIsAnErrorOfEveryRank) {
  HandSchedule hand;
  const TensorId x = hand.buffer("x", {4, 2}), y = hand.buffer("y", {6, 2});
  const TensorId all = hand.buffer("all", {2, 3}, Space::kHbm, DType::kI32);
  const auto errors = on_ranks({.data = 1, .expert = 2}, 2, [&](const Communicator& c) {
    HandSchedule mine = hand;
    mine.add(kComm, kExchangeRows, {x, all}, {y}, {},
             {{Attr::kAxes, axis::kExpert}, {Attr::kParts, 2}, {Attr::kPart, c.mesh.rank()},
              {Attr::kRows, 6}, {Attr::kDrop, 0}});
    const auto device = make_device({.threads = 1}, c);
    mine.allocate(*device);
    mine.write(*device, all, std::vector<int32_t>{0, 4, 4, 0, 3, 4});
    Executor executor(*device, mine.schedule, mine.plan);
    executor.run();
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("cpu error: 7 rows"), HasSubstr("room for 6"),
                                 HasSubstr("slot L0.fwd.m0"))));
}

TEST(Roofline, CollectivesTakeWhatTheySend) {
  HandSchedule hand;
  const TensorId x = hand.buffer("x", {1'000'000});
  hand.add(kComm, kAllReduce, {x}, {x}, {}, over_data(4));
  hand.add(kCompute, kFree, {x}, {});
  const auto seconds = [&](const DeviceOptions& options, size_t instr) {
    return Roofline(options).seconds(hand.schedule, hand.schedule.instrs[instr]);
  };
  EXPECT_DOUBLE_EQ(seconds({.comm_gb_per_s = 2}, 0), 3e-3);  // 6 MB
  EXPECT_DOUBLE_EQ(seconds({}, 0), 1.5e-3);
  EXPECT_EQ(seconds({}, 1), 0);
}

}  // namespace
}  // namespace spillway
