// Rows to experts on other ranks and back, with routings of every kind of skew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/device/op_case.h"
#include "tests/device/ranks.h"

namespace spillway {
namespace {

using enum OpKind;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

enum class Skew { kNone, kOneExpert, kLastRank, kSilentRank, kEmptyExperts };
constexpr Skew kSkews[] = {Skew::kNone, Skew::kOneExpert, Skew::kLastRank, Skew::kSilentRank,
                           Skew::kEmptyExperts};

// P ranks with a dispatch plan each: R rows, E experts.
struct Traffic {
  static constexpr int64_t kRows = 24, kWidth = 5;
  int ranks;
  int64_t experts;
  std::vector<int32_t> all_offsets;

  Traffic(int ranks, int64_t experts_each, Skew skew)
      : ranks(ranks), experts(ranks * experts_each) {
    std::mt19937 engine(static_cast<uint32_t>(ranks * 100 + experts_each));
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<int32_t> count(static_cast<size_t>(experts));
      const int64_t rows = skew == Skew::kSilentRank && rank == ranks / 2 ? 0 : kRows - rank % 3;
      for (int64_t row = 0; row < rows; ++row) ++count[choice(skew, engine())];
      int32_t at = 0;
      for (int32_t rows_of_expert : count) {
        all_offsets.push_back(at);
        at += rows_of_expert;
      }
      all_offsets.push_back(at);
    }
  }

  [[nodiscard]] int64_t choice(Skew skew, uint32_t random) const {
    switch (skew) {
      case Skew::kOneExpert: return experts / 2;
      case Skew::kLastRank: return experts - 1 - random % (experts / ranks);
      case Skew::kEmptyExperts: return random % experts / 2 * 2;
      default: return random % experts;
    }
  }

  [[nodiscard]] int32_t offset(int64_t rank, int64_t expert) const {
    return all_offsets[static_cast<size_t>(rank * (experts + 1) + expert)];
  }

  // What a receiver gets without a bound: (source, row), in order.
  [[nodiscard]] std::vector<std::pair<int, int64_t>> arrivals(int receiver) const {
    std::vector<std::pair<int, int64_t>> list;
    const int64_t each = experts / ranks;
    for (int64_t e = receiver * each; e < (receiver + 1) * each; ++e) {
      for (int source = 0; source < ranks; ++source) {
        for (int64_t row = offset(source, e); row < offset(source, e + 1); ++row) {
          list.push_back({source, row});
        }
      }
    }
    return list;
  }

  [[nodiscard]] Attrs attrs(const Communicator& c, int64_t bound, bool drop) const {
    return {{Attr::kAxes, axis::kExpert}, {Attr::kParts, ranks},
            {Attr::kPart, c.mesh.index(axis::kExpert)}, {Attr::kRows, bound}, {Attr::kDrop, drop}};
  }
};

// Element `column` of a row, as bits; never those of zero.
template <class T>
T element(int source, int64_t row, int64_t column) {
  const int64_t before = (source * Traffic::kRows + row) * Traffic::kWidth + column;
  const auto number = static_cast<uint16_t>(before + 1);
  if constexpr (sizeof(T) == 2) return number;
  else return static_cast<T>(number);
}

template <class T>
struct Exchanged {
  std::vector<T> x, y, back;
};

// x goes out and comes back. Rows of x that no expert gets are garbage nobody may see.
template <class T>
Exchanged<T> exchange(const Traffic& traffic, const Communicator& c, int64_t bound, bool drop) {
  const int rank = c.mesh.index(axis::kExpert);
  Exchanged<T> result;
  std::vector<T>& x = result.x;
  x.assign(Traffic::kRows * Traffic::kWidth, T(-1));
  for (int64_t row = 0; row < traffic.offset(rank, traffic.experts); ++row) {
    for (int64_t i = 0; i < Traffic::kWidth; ++i) {
      x[row * Traffic::kWidth + i] = element<T>(rank, row, i);
    }
  }
  result.y.assign(static_cast<size_t>(bound * Traffic::kWidth), T(-2));
  result.back.assign(x.size(), T(-3));
  std::vector<int32_t> offsets = traffic.all_offsets;
  const cpu::TensorRef all = refer(offsets, {traffic.ranks, traffic.experts + 1});
  const cpu::TensorRef at_source = refer(x, {Traffic::kRows, Traffic::kWidth});
  const cpu::TensorRef at_receiver = refer(result.y, {bound, Traffic::kWidth});
  const Attrs attrs = traffic.attrs(c, bound, drop);
  run_op(c, kExchangeRows, attrs, {at_source, all}, {at_receiver});
  run_op(c, kReturnRows, attrs, {at_receiver, all},
         {refer(result.back, {Traffic::kRows, Traffic::kWidth})});
  return result;
}

template <class T>
void check_rank(const Traffic& traffic, const Communicator& c, int64_t bound, bool drop) {
  const int rank = c.mesh.index(axis::kExpert);
  const Exchanged<T> got = exchange<T>(traffic, c, bound, drop);
  std::vector<T> y(got.y.size()), back(got.back.size());
  for (int receiver = 0; receiver < traffic.ranks; ++receiver) {
    auto arrivals = traffic.arrivals(receiver);
    if (static_cast<int64_t>(arrivals.size()) > bound) arrivals.resize(bound);
    for (size_t at = 0; at < arrivals.size(); ++at) {
      const auto& [source, row] = arrivals[at];
      for (int64_t i = 0; i < Traffic::kWidth; ++i) {
        if (receiver == rank) y[at * Traffic::kWidth + i] = element<T>(source, row, i);
        if (source == rank) back[row * Traffic::kWidth + i] = element<T>(source, row, i);
      }
    }
  }
  EXPECT_TRUE(got.y == y) << "y of rank " << rank << " of " << traffic.ranks;
  EXPECT_TRUE(got.back == back) << "x of rank " << rank << " of " << traffic.ranks;
}

template <class F>
void for_each_traffic(const F& f) {
  for (int ranks : {1, 2, 3, 4, 8}) {
    for (int64_t experts_each : {1, 3}) {
      for (Skew skew : kSkews) f(Traffic(ranks, experts_each, skew));
    }
  }
}

MeshConfig mesh_of(int ranks) { return {.data = 1, .fsdp = 1, .tensor = 1, .expert = ranks}; }

TEST(ExpertExchange, RowsGoAndComeBack) {
  for_each_traffic([](const Traffic& traffic) {
    EXPECT_THAT(on_ranks(mesh_of(traffic.ranks), traffic.ranks, [&](const Communicator& c) {
      const int64_t enough = traffic.ranks * Traffic::kRows;
      check_rank<float>(traffic, c, enough, false);
      check_rank<uint16_t>(traffic, c, enough, true);
    }), Each(IsEmpty()));
  });
}

TEST(ExpertExchange, LeavesOutWhatHasNoRoom) {
  for_each_traffic([](const Traffic& traffic) {
    EXPECT_THAT(on_ranks(mesh_of(traffic.ranks), traffic.ranks, [&](const Communicator& c) {
      for (int64_t bound : {1, 7, 20}) check_rank<float>(traffic, c, bound, true);
    }), Each(IsEmpty()));
  });
}

// Whoever has room stops too, and says the same.
TEST(ExpertExchange, OverflowStopsEveryRank) {
  const Traffic traffic(4, 2, Skew::kLastRank);
  const size_t rows = traffic.arrivals(3).size();
  const auto errors = on_ranks(mesh_of(4), 4, [&](const Communicator& c) {
    (void)exchange<float>(traffic, c, 40, false);
  });
  EXPECT_THAT(errors,
              Each(std::to_string(rows) +
                   " rows are for the experts of rank 3 of 4 in their group, which has room for 40: "
                   "set parallel.expert_rows larger, or parallel.overflow: drop"));
}

TEST(ExpertExchange, ExactlyFullIsNoOverflow) {
  const Traffic traffic(4, 2, Skew::kLastRank);
  const auto rows = static_cast<int64_t>(traffic.arrivals(3).size());
  EXPECT_THAT(on_ranks(mesh_of(4), 4, [&](const Communicator& c) {
    check_rank<float>(traffic, c, rows, false);
  }), Each(IsEmpty()));
}

TEST(ExpertExchange, RefusesWhatDoesNotFit) {
  const Traffic traffic(2, 2, Skew::kNone);
  EXPECT_THAT(on_ranks(mesh_of(2), 2, [&](const Communicator& c) {
    std::vector<float> x(8), y(8);
    std::vector<int32_t> offsets = traffic.all_offsets;
    cpu::BoundOp op{.kind = kExchangeRows, .in = {refer(x, {4, 2}), refer(offsets, {2, 5})},
                    .out = {refer(y, {4, 2})}, .accumulate = {false},
                    .attrs = traffic.attrs(c, 4, true), .communicator = &c};
    EXPECT_EQ(cpu::unsupported(op), "");
    op.attrs.set(Attr::kRows, 5);
    EXPECT_EQ(cpu::unsupported(op), "it has 4 rows, and says 5");
    op.attrs.set(Attr::kPart, 1 - c.mesh.rank());
    EXPECT_THAT(cpu::unsupported(op), HasSubstr("of its group, not"));
  }), Each(IsEmpty()));
}

// expert_offsets and count_overflow of every rank, with room for all, some, and one row.
void check_counts(const Traffic& traffic, int part, int64_t bound) {
  Array all({traffic.ranks, traffic.experts + 1});
  all.values.assign(traffic.all_offsets.begin(), traffic.all_offsets.end());
  OpCase test{.kind = kExpertOffsets, .attrs = {{Attr::kPart, part}, {Attr::kRows, bound}}};
  test.add_input(all, DType::kI32);
  test.out_types = {DType::kI32};
  Array expected = reference(test.kind, test.in, test.attrs)[0];
  EXPECT_EQ(run_on_cpu(test, {expected}, false, 1).out[0].values, expected.values);
  test.kind = kCountOverflow;
  test.attrs.set(Attr::kParts, traffic.ranks);
  expected = reference(test.kind, test.in, test.attrs)[0];
  EXPECT_EQ(run_on_cpu(test, {expected}, false, 1).out[0].values, expected.values);
  const Array before = Random(1).integers({traffic.experts + 1}, 0, 100);
  for (size_t i = 0; i < before.values.size(); ++i) expected.values[i] += before.values[i];
  EXPECT_EQ(run_on_cpu(test, {before}, true, 1).out[0].values, expected.values);
}

TEST(ExpertExchange, OffsetsAndOverflow) {
  for_each_traffic([](const Traffic& traffic) {
    for (int part = 0; part < traffic.ranks; ++part) {
      for (int64_t bound : {int64_t{1}, int64_t{20}, traffic.ranks * Traffic::kRows}) {
        check_counts(traffic, part, bound);
      }
    }
  });
}

}  // namespace
}  // namespace spillway
