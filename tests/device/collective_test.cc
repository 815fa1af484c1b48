// Collectives among threads against serial sums in rank order, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "tests/device/ranks.h"

namespace spillway {
namespace {

using enum OpKind;
using ::testing::Each;
using ::testing::IsEmpty;

template <class T>
using PerRank = std::vector<std::vector<T>>;

void draw(std::mt19937& engine, int32_t& value) { value = static_cast<int32_t>(engine()); }
void draw(std::mt19937& engine, float& value) {
  value = static_cast<float>(static_cast<int32_t>(engine())) * 0x1p-31f;
}
void draw(std::mt19937& engine, uint16_t& value) {
  float f32;
  draw(engine, f32);
  value = cpu::to_bf16(f32);
}

template <class T>
PerRank<T> random_values(int ranks, int64_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  PerRank<T> values(static_cast<size_t>(ranks), std::vector<T>(static_cast<size_t>(count)));
  for (auto& of_rank : values) {
    for (T& value : of_rank) draw(engine, value);
  }
  return values;
}

float wide(float value) { return value; }
float wide(uint16_t value) { return cpu::from_bf16(value); }
uint32_t wide(int32_t value) { return static_cast<uint32_t>(value); }
template <class T, class Sum>
T rounded_to(Sum sum) {
  if constexpr (sizeof(T) == 2) return cpu::to_bf16(sum);
  else return static_cast<T>(sum);
}

// x[r0] + x[r1] + ..., in this order.
template <class T>
std::vector<T> serial_sum(const PerRank<T>& x, const std::vector<int>& ranks) {
  std::vector<T> result;
  for (size_t i = 0; i < x[0].size(); ++i) {
    auto sum = wide(x[ranks[0]][i]);
    for (size_t r = 1; r < ranks.size(); ++r) sum += wide(x[ranks[r]][i]);
    result.push_back(rounded_to<T>(sum));
  }
  return result;
}

std::vector<int> all(int ranks) {
  std::vector<int> list;
  for (int rank = 0; rank < ranks; ++rank) list.push_back(rank);
  return list;
}

Attrs attrs_of(int parts, uint8_t axes = axis::kData) {
  return {{Attr::kAxes, axes}, {Attr::kParts, parts}};
}

// Every other rank comes late.
void delay(const Communicator& communicator) {
  if (communicator.mesh.rank() % 2 == 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(300));
}

int64_t part_size(int64_t count, int parts) { return (count + parts - 1) / parts; }

template <class T>
void check_reduce_scatter(int ranks, int64_t count, bool accumulate) {
  const PerRank<T> x = random_values<T>(ranks, count, 1);
  const PerRank<T> before = random_values<T>(ranks, part_size(count, ranks), 2);
  const std::vector<T> sum = serial_sum(x, all(ranks));
  EXPECT_THAT(on_ranks(ranks, [&](const Communicator& c) {
    const int rank = c.mesh.rank();
    std::vector<T> mine = x[rank], y = before[rank];
    delay(c);
    run_op(c, kReduceScatter, attrs_of(ranks), {refer(mine)}, {refer(y)}, accumulate);
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t at = rank * y.size() + i;
      T expected = at < sum.size() ? sum[at] : T{};
      if (accumulate) {
        auto total = wide(x[0][std::min(at, sum.size() - 1)]);
        for (int r = 1; r < ranks; ++r) total += wide(x[r][std::min(at, sum.size() - 1)]);
        const auto old = wide(before[rank][i]);
        expected = at < sum.size() ? rounded_to<T>(old + total) : before[rank][i];
      }
      ASSERT_EQ(y[i], expected) << "rank " << rank << " element " << i << " of " << count;
    }
    EXPECT_EQ(mine, x[rank]);
  }), Each(IsEmpty()));
}

template <class T>
void check_all_reduce(int ranks, int64_t count) {
  const PerRank<T> x = random_values<T>(ranks, count, 3);
  const std::vector<T> sum = serial_sum(x, all(ranks));
  EXPECT_THAT(on_ranks(ranks, [&](const Communicator& c) {
    std::vector<T> values = x[c.mesh.rank()];
    delay(c);
    run_op(c, kAllReduce, attrs_of(ranks), {refer(values)}, {refer(values)});
    EXPECT_TRUE(values == sum) << "rank " << c.mesh.rank() << " of " << ranks << ", " << count;
  }), Each(IsEmpty()));
}

// `count` elements in a y of exactly as many; the part behind what exists is not sent.
template <class T>
void check_all_gather(int ranks, int64_t count) {
  const std::vector<T> whole = random_values<T>(1, count, 4)[0];
  const int64_t part = part_size(count, ranks);
  EXPECT_THAT(on_ranks(ranks, [&](const Communicator& c) {
    std::vector<T> x(static_cast<size_t>(part), T{77}), y(static_cast<size_t>(count), T{99});
    for (int64_t i = 0; i < part; ++i) {
      const int64_t at = c.mesh.rank() * part + i;
      if (at < count) x[i] = whole[at];
    }
    delay(c);
    run_op(c, kAllGather, attrs_of(ranks), {refer(x)}, {refer(y)});
    EXPECT_TRUE(y == whole) << "rank " << c.mesh.rank() << " of " << ranks << ", " << count;
  }), Each(IsEmpty()));
}

template <class T>
void check_all(int ranks, int64_t count) {
  check_reduce_scatter<T>(ranks, count, false);
  check_reduce_scatter<T>(ranks, count, true);
  check_all_reduce<T>(ranks, count);
  check_all_gather<T>(ranks, count);
}

// Fewer elements than ranks, whole parts, tails, and more than what goes in one exchange.
constexpr int64_t kCounts[] = {1, 3, 5, 8, 1000, 40'003};

TEST(Collective, SumsInRankOrder) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int64_t count : kCounts) {
      check_all<float>(ranks, count);
      check_all<uint16_t>(ranks, count);
      check_all<int32_t>(ranks, count);
    }
  }
}

// Parts of more than one message.
TEST(Collective, SumsInPieces) {
  for (int ranks : {2, 3}) {
    check_all<float>(ranks, 1'000'003);
    check_all<uint16_t>(ranks, 2'000'003);
  }
}

TEST(Collective, GroupsAreByAxes) {
  const MeshConfig mesh{.data = 2, .fsdp = 2, .tensor = 2, .expert = 1};
  const PerRank<float> x = random_values<float>(8, 1000, 5);
  for (uint8_t axes : {axis::kData, axis::kFsdp, axis::kTensor}) {
    for (uint8_t more : {axis::kData, axis::kFsdp, axis::kTensor}) {
      const auto both = static_cast<uint8_t>(axes | more);
      EXPECT_THAT(on_ranks(mesh, 8, [&](const Communicator& c) {
        std::vector<float> values = x[c.mesh.rank()];
        run_op(c, kAllReduce, attrs_of(c.mesh.size(both), both), {refer(values)}, {refer(values)});
        EXPECT_EQ(values, serial_sum(x, c.mesh.group(both)));
      }), Each(IsEmpty()));
    }
  }
}

// A y that has room for whole parts gets their zeros too.
TEST(Collective, GathersWholeParts) {
  EXPECT_THAT(on_ranks(3, [&](const Communicator& c) {
    std::vector<float> x(4, static_cast<float>(c.mesh.rank())), y(12);
    run_op(c, kAllGather, attrs_of(3), {refer(x)}, {refer(y)});
    EXPECT_THAT(y, testing::ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2));
  }), Each(IsEmpty()));
}

TEST(Collective, StagingIsBounded) {
  EXPECT_THAT(on_ranks(2, [&](const Communicator& c) {
    std::vector<float> x(20'000'000), y(10'000'000);
    cpu::Scratch scratch;
    (void)cpu::bind({.kind = kReduceScatter, .in = {refer(x)}, .out = {refer(y)},
                     .accumulate = {false}, .attrs = attrs_of(2), .scratch = &scratch,
                     .communicator = &c});
    scratch.allocate();
    EXPECT_LE(scratch.bytes(), 16 << 20);
  }), Each(IsEmpty()));
}

TEST(Collective, RefusesWhatDoesNotFit) {
  std::vector<float> x(10), y(5), z(4);
  std::vector<uint16_t> half(5);
  const auto why = [&](const Communicator& c, cpu::TensorRef out, int parts, bool accumulate) {
    return cpu::unsupported({.kind = kReduceScatter, .in = {refer(x)}, .out = {std::move(out)},
                             .accumulate = {accumulate}, .attrs = attrs_of(parts),
                             .communicator = &c});
  };
  EXPECT_EQ(why({}, refer(y), 2, false), "this process is alone");
  EXPECT_THAT(on_ranks(2, [&](const Communicator& c) {
    EXPECT_EQ(why(c, refer(y), 2, true), "");
    EXPECT_EQ(why(c, refer(y), 3, false), "a group over data has 2 ranks, not 3");
    EXPECT_EQ(why(c, refer(z), 2, false), "of 10 elements in 2 parts one part has 5, not 4");
    EXPECT_EQ(why(c, refer(half), 2, false), "it moves values and cannot turn f32 into bf16");
    EXPECT_EQ(cpu::unsupported({.kind = kAllReduce, .in = {refer(x)}, .out = {refer(x)},
                                .accumulate = {true}, .attrs = attrs_of(2), .communicator = &c}),
              "it cannot add to its output");
  }), Each(IsEmpty()));
}

}  // namespace
}  // namespace spillway
