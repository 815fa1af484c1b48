#include "program/plan.h"

#include <gmock/gmock.h>

#include <random>

#include "program/error.h"
#include "program/text.h"
#include "program/verify.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

constexpr const char* kThreeBuffers = R"(schedule
  buffer w f32[64] hbm parameters persistent
  buffer a f32[64] hbm workspace
  buffer b f32[128] hbm workspace
  buffer c f32[64] hbm workspace
instrs
  L0.fwd.m0 compute a = add(w, w)
  L0.fwd.m0 compute b = add(a, a)
  L0.fwd.m0 compute free(a)
  L0.fwd.m0 compute c = add(b, b)
  L0.fwd.m0 compute free(b)
  L0.fwd.m0 compute free(c)
)";

TEST(Plan, ReusesBytesOfTheDead) {
  const Schedule schedule = parse_schedule(kThreeBuffers);
  const MemoryPlan plan = plan_memory(schedule);
  EXPECT_EQ(plan.offset[schedule.find("w")], 0);
  EXPECT_EQ(plan.offset[schedule.find("a")], plan.offset[schedule.find("c")]);
  EXPECT_EQ(plan.hbm.bytes, 256 + 512 + 256);
  EXPECT_EQ(plan.hbm.live_bytes, plan.hbm.bytes);
  verify(schedule, plan);
}

TEST(Plan, VerifierSeesSharedBytes) {
  const Schedule schedule = parse_schedule(kThreeBuffers);
  MemoryPlan plan = plan_memory(schedule);
  plan.offset[schedule.find("b")] = plan.offset[schedule.find("a")];
  EXPECT_THROW(verify(schedule, plan), VerifyError);
}

TEST(Plan, ShortageNamesThePeak) {
  const Schedule schedule = parse_schedule(kThreeBuffers);
  try {
    check_fits(schedule, plan_memory(schedule), 512, 0, "toy");
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("out of device memory (planned, before step 0)"));
    EXPECT_THAT(error.what(), HasSubstr("(toy); at the peak (L0.fwd.m0): workspace"));
  }
}

// Random lifetimes: the plan is valid, and never above what separate buffers would take.
TEST(Plan, RandomSchedulesAreValidAndTight) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    Schedule schedule;
    schedule.slots.push_back({"L0", Phase::kForward, 0});
    int64_t sum = 0;
    std::vector<TensorId> live;
    auto issue = [&](Op op) { schedule.instrs.push_back({0, Stream::kCompute, std::move(op), {}}); };
    auto release = [&](size_t i) {
      issue({.kind = OpKind::kFree, .in = {live[i]}, .out = {}, .accumulate = {}, .attrs = {}});
      live.erase(live.begin() + static_cast<ptrdiff_t>(i));
    };
    for (int n = 0; n < 200; ++n) {
      const auto id = static_cast<TensorId>(schedule.buffers.size());
      schedule.buffers.push_back({.name = "b" + std::to_string(id),
                                  .shape = {1 + static_cast<int64_t>(random() % 3000)}});
      sum += schedule.buffers.back().bytes();
      issue({.kind = OpKind::kAdd, .in = {}, .out = {id}, .accumulate = {false}, .attrs = {}});
      live.push_back(id);
      if (live.size() > 8) release(random() % live.size());
    }
    while (!live.empty()) release(0);
    verify(schedule);
    const MemoryPlan plan = plan_memory(schedule);
    verify(schedule, plan);
    EXPECT_GE(plan.hbm.bytes, plan.hbm.live_bytes);
    EXPECT_LE(plan.hbm.bytes, plan.hbm.live_bytes * 4 / 3);
    EXPECT_LT(plan.hbm.bytes, sum);
  }
}

}  // namespace
}  // namespace spillway
