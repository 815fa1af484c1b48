#include "program/sync.h"

#include <gmock/gmock.h>

#include <random>

#include "program/error.h"
#include "program/text.h"
#include "program/verify.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

constexpr const char* kOffload = R"(schedule
  buffer w f32[64] hbm parameters persistent
  buffer a f32[64] hbm activations
  buffer a@host f32[64] host activations
  buffer a@back f32[64] hbm activations
  buffer b f32[64] hbm workspace
instrs
  L0.fwd.m0 compute a = add(w, w)
  L0.fwd.m0 d2h a@host = copy(a)
  L0.fwd.m0 compute free(a)
  L0.fwd.m0 compute b = add(w, w)
  L0.fwd.m0 compute free(b)
  L0.bwd.m0 h2d a@back = copy(a@host)
  L0.bwd.m0 h2d free(a@host)
  L0.bwd.m0 compute w+ = add(a@back, a@back)
  L0.bwd.m0 compute free(a@back)
)";

TEST(Sync, DerivesWaitsFromReadsWritesAndReuse) {
  Schedule schedule = parse_schedule(kOffload);
  const MemoryPlan plan = plan_memory(schedule);
  insert_sync(schedule, plan);
  const std::string text = to_text(schedule);
  EXPECT_THAT(text, HasSubstr("d2h      a@host = copy(a)  # wait compute#0"));
  EXPECT_THAT(text, HasSubstr("compute  free(a)  # wait d2h#0"));
  // It lands where b was: it waits for b's end, which implies the copy to the host.
  EXPECT_THAT(text, HasSubstr("h2d      a@back = copy(a@host)  # wait compute#3"));
  EXPECT_THAT(text, HasSubstr("w+ = add(a@back, a@back)  # wait h2d#0"));
  verify_sync(schedule, plan);
}

TEST(Sync, VerifierFindsEachMissingWait) {
  Schedule complete = parse_schedule(kOffload);
  const MemoryPlan plan = plan_memory(complete);
  insert_sync(complete, plan);
  int removed = 0;
  for (size_t i = 0; i < complete.instrs.size(); ++i) {
    for (size_t w = 0; w < complete.instrs[i].waits.size(); ++w) {
      Schedule broken = complete;
      broken.instrs[i].waits.erase(broken.instrs[i].waits.begin() + static_cast<ptrdiff_t>(w));
      EXPECT_THROW(verify_sync(broken, plan), VerifyError) << to_text(broken);
      ++removed;
    }
  }
  EXPECT_GE(removed, 4);
}

// Random instructions on random streams over few buffers that share bytes: whatever insert_sync
// derives, the pairwise verifier must accept, and no wait may be superfluous.
TEST(Sync, RandomSchedulesAreOrderedWithoutSuperfluousWaits) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    Schedule schedule;
    schedule.slots.push_back({"L0", Phase::kForward, 0});
    MemoryPlan plan;
    for (int b = 0; b < 6; ++b) {
      schedule.buffers.push_back({.name = "b" + std::to_string(b), .shape = {64 + 64 * (b % 2)},
                                  .persistent = true});
      plan.offset.push_back(256 * static_cast<int64_t>(random() % 4));
    }
    plan.hbm.bytes = 4096;
    for (int n = 0; n < 40; ++n) {
      Op op{.kind = OpKind::kAdd, .in = {static_cast<TensorId>(random() % 6)},
            .out = {static_cast<TensorId>(random() % 6)}, .accumulate = {false}, .attrs = {}};
      schedule.instrs.push_back({0, static_cast<Stream>(random() % kStreamCount), op, {}});
    }
    insert_sync(schedule, plan);
    verify_sync(schedule, plan);
    for (Instr& instr : schedule.instrs) {
      const std::vector<int> waits = instr.waits;
      for (size_t w = 0; w < waits.size(); ++w) {
        instr.waits.erase(instr.waits.begin() + static_cast<ptrdiff_t>(w));
        EXPECT_THROW(verify_sync(schedule, plan), VerifyError);
        instr.waits = waits;
      }
    }
  }
}

}  // namespace
}  // namespace spillway
