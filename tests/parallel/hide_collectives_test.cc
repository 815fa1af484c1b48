#include <gmock/gmock.h>

#include <algorithm>

#include "offload/hide_latency.h"
#include "offload/transfer.h"
#include "program/schedule.h"
#include "tests/parallel/divided_chain.h"

namespace spillway {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Mode = Gathering::Mode;

// Every op takes a second, what moves bytes as long as it is told, a kFree nothing.
class UnitCost : public CostModel {
 public:
  UnitCost(double gather, double reduce) : gather_(gather), reduce_(reduce) {}
  double seconds(const Schedule&, const Instr& instr) const override {
    switch (instr.op.kind) {
      case OpKind::kFree: return 0;
      case OpKind::kCopy: return 1.5;
      case OpKind::kAllGather: return gather_;
      case OpKind::kReduceScatter:
      case OpKind::kAllReduce: return reduce_;
      default: return 1;
    }
  }

 private:
  double gather_, reduce_;
};

Schedule naive(const Mesh& mesh, Mode mode) {
  Schedule schedule = gathered(mesh, mode);
  transfer(schedule);
  verify(schedule);
  return schedule;
}

Schedule hidden(Schedule schedule, const LatencyHiding& options, const CostModel& cost) {
  hide_latency(schedule, options, cost);
  return schedule;
}

// The slot of the only instruction that reads so.
std::string slot_of(const Schedule& schedule, const std::string& op) {
  const std::vector<std::string> lines = lines_with(schedule, " " + op);
  EXPECT_EQ(lines.size(), 1U) << op;
  return lines.empty() ? "" : lines[0].substr(0, lines[0].find(' '));
}

int position(const Schedule& schedule, const std::string& op) {
  for (size_t i = 0; i < schedule.instrs.size(); ++i) {
    if (to_text(schedule, schedule.instrs[i]).starts_with(op)) return static_cast<int>(i);
  }
  ADD_FAILURE() << op;
  return -1;
}

bool is_gather(const Schedule& schedule, const Instr& instr) {
  return instr.op.kind == OpKind::kAllGather && schedule.buffers[instr.op.in[0]].persistent;
}

// Most gathers between issue and first use, or reduces between issue and the free of their source.
int most_in_flight(const Schedule& schedule, bool gathers) {
  std::vector<TensorId> flying;
  int most = 0;
  for (const Instr& instr : schedule.instrs) {
    if (gathers ? is_gather(schedule, instr) : instr.op.kind == OpKind::kReduceScatter) {
      flying.push_back(gathers ? instr.op.out[0] : instr.op.in[0]);
      most = std::max(most, static_cast<int>(flying.size()));
    } else if (gathers || instr.op.kind == OpKind::kFree) {
      for (TensorId id : instr.op.in) std::erase(flying, id);
    }
  }
  return most;
}

std::vector<std::string> collectives(const Schedule& schedule) {
  std::vector<std::string> result;
  for (const Instr& instr : schedule.instrs) {
    if (is_collective(instr.op.kind)) result.push_back(to_text(schedule, instr));
  }
  return result;
}

TEST(HideCollectives, NaiveLeavesThemOnCompute) {
  Schedule schedule = naive(mesh(2, 4), Mode::kFull);
  expect_runs(schedule);
  for (const Instr& instr : schedule.instrs) {
    EXPECT_EQ(instr.stream, Stream::kCompute);
    EXPECT_THAT(instr.waits, IsEmpty());
  }
}

TEST(HideCollectives, GathersStartInTheSlotBefore) {
  const Schedule start = naive(mesh(2, 4), Mode::kFull);
  const char* gather = "L1.fwd.m0.1.norm.weight@full = all_gather(1.norm.weight)";
  const char* gather_back = "L1.bwd.m0.1.up.weight@full = all_gather(1.up.weight)";
  for (int ahead : {0, 1, 2}) {
    Schedule schedule = hidden(start,
                               {.gather_ahead = ahead, .max_inflight_async = 99, .margin = 1},
                               UnitCost(30, 0.1));
    const char* forward[] = {"L1.fwd.m0", "L0.fwd.m0", "embed.fwd.m0"};
    const char* backward[] = {"L1.bwd.m0", "L2.bwd.m0", "head.bwd.m0"};
    EXPECT_EQ(slot_of(schedule, std::string(gather) + " {axes=2, parts=4}"), forward[ahead]);
    EXPECT_EQ(slot_of(schedule, std::string(gather_back) + " {axes=2, parts=4}"), backward[ahead]);
    expect_runs(schedule);
  }
}

TEST(HideCollectives, GathersStartNoEarlierThanTheEstimateNeeds) {
  const Schedule start = naive(mesh(1, 4), Mode::kFull);
  auto ops_between = [&](const LatencyHiding& options) {
    const Schedule schedule = hidden(start, options, UnitCost(0.4, 0.1));
    const int from = position(schedule, "L1.fwd.m0.1.down.weight@full = all_gather");
    const int to = position(schedule, "L1.m0.down = linear");
    return std::count_if(schedule.instrs.begin() + from, schedule.instrs.begin() + to,
                         [](const Instr& instr) {
                           return instr.stream == Stream::kCompute &&
                                  instr.op.kind != OpKind::kFree;
                         });
  };
  EXPECT_EQ(ops_between({.margin = 1}), 1);
  EXPECT_EQ(ops_between({.margin = 3}), 2);
  EXPECT_EQ(ops_between({.margin = 0}), 0);
}

TEST(HideCollectives, GradientsAreFreedWhenTheyShouldBeReduced) {
  const Schedule start = naive(mesh(2, 4), Mode::kFull);
  const char* free = "free(L1.bwd.m1.1.norm.weight.grad@full)";  // the last of its slot
  for (int ahead : {0, 1}) {
    Schedule schedule = hidden(start,
                               {.gather_ahead = ahead, .max_inflight_async = 99, .margin = 1},
                               UnitCost(0.1, 20));
    EXPECT_EQ(slot_of(schedule, free), ahead == 0 ? "L1.bwd.m1" : "L0.bwd.m1");
    // Both sums follow the last write at once.
    EXPECT_THAT(lines_with(schedule, "1.norm.weight.grad = all_reduce"),
                ElementsAre("L1.bwd.m1 1.norm.weight.grad = all_reduce(1.norm.weight.grad) "
                            "{axes=1, parts=2}"));
    const int reduce = position(schedule, "1.norm.weight.grad+ = reduce_scatter(L1.bwd.m1");
    EXPECT_EQ(position(schedule, "1.norm.weight.grad = all_reduce"), reduce + 1);
    expect_runs(schedule);
  }
  Schedule quick = hidden(start, {.margin = 1}, UnitCost(0.1, 0.1));
  EXPECT_EQ(slot_of(quick, "free(L1.bwd.m1.1.up.weight.grad@full)"), "L1.bwd.m1");
}

TEST(HideCollectives, GathersGoInFrontOfReducesThatWouldDelayThem) {
  const LatencyHiding options{.max_inflight_async = 99, .margin = 1};
  const char* gather = "L0.bwd.m0.0.down.weight@full = all_gather";
  const char* reduce = "1.down.weight.grad = reduce_scatter";
  for (double seconds : {0.1, 6.0}) {
    const Schedule schedule =
        hidden(naive(mesh(1, 4), Mode::kFull), options, UnitCost(0.5, seconds));
    EXPECT_EQ(position(schedule, gather) < position(schedule, reduce), seconds > 1) << seconds;
  }
}

TEST(HideCollectives, KeepsTheInFlightLimit) {
  for (Mode mode : {Mode::kFull, Mode::kOptimizer}) {
    for (int limit : {1, 2, 3, 8}) {
      for (double seconds : {0.1, 1.0, 30.0}) {
        Schedule schedule = hidden(
            naive(mesh(1, 4), mode),
            {.pipelined = true, .gather_ahead = 2, .max_inflight_async = limit, .margin = 1.25},
            UnitCost(seconds, seconds));
        EXPECT_LE(most_in_flight(schedule, true), limit);
        EXPECT_LE(most_in_flight(schedule, false), limit);
        expect_runs(schedule);
      }
    }
  }
}

TEST(HideCollectives, RunsWithEveryOption) {
  for (const Mesh& mesh : {mesh(1, 3), mesh(2, 1), mesh(2, 4)}) {
    for (Mode mode : {Mode::kFull, Mode::kOptimizer}) {
      const Schedule start = naive(mesh, mode);
      for (int limit : {1, 8}) {
        for (int ahead : {0, 1, 9}) {
          for (double margin : {0.0, 2.0}) {
            const LatencyHiding options{.gather_ahead = ahead, .max_inflight_async = limit,
                                        .margin = margin};
            Schedule schedule = hidden(start, options, UnitCost(3, 5));
            EXPECT_EQ(schedule.instrs.size(), start.instrs.size());
            EXPECT_THAT(collectives(schedule),
                        ::testing::UnorderedElementsAreArray(collectives(start)));
            for (const Instr& instr : schedule.instrs) {
              EXPECT_EQ(is_collective(instr.op.kind), instr.stream == Stream::kComm);
            }
            expect_runs(schedule);
          }
        }
      }
    }
  }
}

// What lies on the way from one op to the next has nothing to hide behind.
TEST(HideCollectives, ThoseOfActivationsStayInPlace) {
  Schedule schedule = parse_schedule(R"(schedule
  buffer w f32[4,4] hbm parameters persistent
  buffer x f32[2,4] hbm step_io persistent
  buffer a f32[2,4] hbm workspace
  buffer b f32[4,4] hbm workspace
  buffer c f32[4,4] hbm workspace
  buffer d f32[2,4] hbm step_io persistent
instrs
  L0.fwd.m0 compute a = add(x, x)
  L0.fwd.m0 compute b = all_gather(a) {axes=24, parts=2}
  L0.fwd.m0 compute free(a)
  L0.fwd.m0 compute c = linear(b, w)
  L0.fwd.m0 compute free(b)
  L0.fwd.m0 compute d = reduce_scatter(c) {axes=24, parts=2}
  L0.fwd.m0 compute free(c)
)");
  const std::vector<std::string> before = lines_with(schedule, "");
  hide_latency(schedule, {}, UnitCost(1, 1));
  EXPECT_EQ(lines_with(schedule, ""), before);
  EXPECT_EQ(schedule.instrs[1].stream, Stream::kComm);
  EXPECT_EQ(schedule.instrs[5].stream, Stream::kComm);
  expect_runs(schedule);
  EXPECT_THAT(schedule.instrs[1].waits, ElementsAre(0));
  EXPECT_THAT(schedule.instrs[3].waits, Each(1));
}

}  // namespace
}  // namespace spillway
