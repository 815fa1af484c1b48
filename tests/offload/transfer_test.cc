#include "offload/transfer.h"

#include <gmock/gmock.h>

#include "offload/hide_latency.h"
#include "offload/policy.h"
#include "offload/remat.h"
#include "parallel/order.h"
#include "program/plan.h"
#include "program/sync.h"
#include "program/text.h"
#include "program/verify.h"
#include "tests/program/mlp_block.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

// Every op takes a second, a copy `copy_seconds`, a kFree nothing.
class UnitCost : public CostModel {
 public:
  explicit UnitCost(double copy_seconds) : copy_seconds_(copy_seconds) {}
  double seconds(const Schedule&, const Instr& instr) const override {
    if (instr.op.kind == OpKind::kFree) return 0;
    return instr.op.kind == OpKind::kCopy ? copy_seconds_ : 1;
  }

 private:
  double copy_seconds_;
};

Schedule offloading_chain(int layers, int micro_batches = 1) {
  Program layer = mlp_block();
  resolve({"custom", {{"gate", Strategy::kOffload}, {"up", Strategy::kOffload}}}, {&layer});
  const Chain chain = mlp_chain(layers, remat(std::move(layer)));
  Schedule schedule =
      lower(chain.programs, chain.blocks, training_order(chain.blocks, micro_batches));
  transfer(schedule);
  verify(schedule);
  return schedule;
}

std::vector<std::string> slots_of(const Schedule& schedule, const std::string& op_text) {
  std::vector<std::string> slots;
  for (const Instr& instr : schedule.instrs) {
    if (to_text(schedule, instr) == op_text) slots.push_back(schedule.slots[instr.slot].text());
  }
  return slots;
}

void expect_runs(Schedule& schedule) {
  verify(schedule);
  const MemoryPlan plan = plan_memory(schedule);
  verify(schedule, plan);
  insert_sync(schedule, plan);
  verify_sync(schedule, plan);
}

int most_in_flight(const Schedule& schedule, bool to_host) {
  std::vector<TensorId> flying;
  int most = 0;
  for (const Instr& instr : schedule.instrs) {
    if (to_host ? is_copy_to_host(schedule, instr) : is_copy_to_device(schedule, instr)) {
      flying.push_back(to_host ? instr.op.in[0] : instr.op.out[0]);
      most = std::max(most, static_cast<int>(flying.size()));
    } else if (instr.stream == Stream::kCompute) {
      for (TensorId id : instr.op.in) {
        const bool landed = !to_host || instr.op.kind == OpKind::kFree;
        if (landed) std::erase(flying, id);
      }
    }
  }
  return most;
}

TEST(Transfer, NaiveCopiesAreAtDistanceZeroOnCompute) {
  Schedule schedule = offloading_chain(1);
  const std::string text = to_text(schedule);
  EXPECT_THAT(text, HasSubstr(
      "  L0.fwd.m0    compute  L0.m0.gate = linear(L0.m0.normed, 0.gate.weight)\n"
      "  L0.fwd.m0    compute  L0.m0.gate@host = copy(L0.m0.gate)\n"));
  EXPECT_THAT(text, HasSubstr(
      "  L0.bwd.m0    compute  L0.m0.gate@back = copy(L0.m0.gate@host)\n"
      "  L0.bwd.m0    compute  free(L0.m0.gate@host)\n"));
  expect_runs(schedule);
  for (const Instr& instr : schedule.instrs) EXPECT_TRUE(instr.waits.empty());
  const CopyBytes bytes = copy_bytes(schedule);
  EXPECT_EQ(bytes.d2h, 2 * 8 * 6 * 4);
  EXPECT_EQ(bytes.h2d, bytes.d2h);
}

TEST(HideLatency, StaysWithinTheLayerUnlessPipelined) {
  for (bool pipelined : {false, true}) {
    Schedule schedule = offloading_chain(3);
    hide_latency(schedule, {.pipelined = pipelined, .max_inflight_async = 8, .margin = 1},
                 UnitCost(10));
    EXPECT_EQ(slots_of(schedule, "L1.m0.gate@host = copy(L1.m0.gate)").at(0), "L1.fwd.m0");
    EXPECT_EQ(slots_of(schedule, "free(L1.m0.gate)").at(0), pipelined ? "L2.fwd.m0" : "L1.fwd.m0");
    EXPECT_EQ(slots_of(schedule, "L1.m0.gate@back = copy(L1.m0.gate@host)").at(0),
              pipelined ? "L2.bwd.m0" : "L1.bwd.m0");
    expect_runs(schedule);
  }
}

TEST(HideLatency, StartsNoEarlierThanTheEstimateNeeds) {
  Schedule schedule = offloading_chain(3);
  hide_latency(schedule, {.pipelined = true, .max_inflight_async = 8, .margin = 1}, UnitCost(0.4));
  // 0.4 s hide under one op: no need to hold memory across layers.
  EXPECT_EQ(slots_of(schedule, "free(L1.m0.gate)").at(0), "L1.fwd.m0");
  int between = -1;  // ops of compute between the copy back and its reader
  for (const Instr& instr : schedule.instrs) {
    const std::string text = to_text(schedule, instr);
    if (text == "L1.m0.gate@back = copy(L1.m0.gate@host)") between = 0;
    if (text.find("= swiglu(L1.m0.gate@back") != std::string::npos) break;
    const bool op = instr.stream == Stream::kCompute && instr.op.kind != OpKind::kFree;
    if (between >= 0 && op) ++between;
  }
  EXPECT_EQ(between, 1);
  expect_runs(schedule);
}

TEST(HideLatency, KeepsTheInFlightLimit) {
  for (int limit : {2, 3, 8}) {  // one instruction reads two of them
    for (bool pipelined : {false, true}) {
      for (double copy_seconds : {0.1, 1.0, 30.0}) {
        Schedule schedule = offloading_chain(5, 2);
        hide_latency(schedule,
                     {.pipelined = pipelined, .max_inflight_async = limit, .margin = 1.25},
                     UnitCost(copy_seconds));
        EXPECT_LE(most_in_flight(schedule, true), limit);
        EXPECT_LE(most_in_flight(schedule, false), limit);
        expect_runs(schedule);
      }
    }
  }
}

TEST(HideLatency, MovesInstructionsAndNothingElse) {
  Schedule naive = offloading_chain(4, 2), hidden = naive;
  hide_latency(hidden, {.pipelined = true}, UnitCost(3));
  auto texts = [](const Schedule& schedule, Stream stream) {
    std::vector<std::string> result;
    for (const Instr& instr : schedule.instrs) {
      const bool compute = instr.op.kind != OpKind::kFree && instr.op.kind != OpKind::kCopy;
      if (compute && instr.stream == stream) result.push_back(to_text(schedule, instr));
    }
    return result;
  };
  EXPECT_EQ(texts(naive, Stream::kCompute), texts(hidden, Stream::kCompute));
  EXPECT_EQ(naive.instrs.size(), hidden.instrs.size());
  for (const Instr& instr : hidden.instrs) {
    if (instr.op.kind == OpKind::kCopy) {
      EXPECT_EQ(instr.stream,
                is_copy_to_host(hidden, instr) ? Stream::kD2h : Stream::kH2d);
    }
  }
}

}  // namespace
}  // namespace spillway
