// Where a step's time and memory went: on Schedules written by hand, and sums on simulated ones.
#include "trainer/report/step_report.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/device/hand_schedule.h"
#include "tests/sim/toy_hardware.h"
#include "tests/strategies/trajectory.h"
#include "trainer/simulated.h"

namespace spillway {
namespace {

double sum(const StepParts& p) {
  return p.model + p.recompute + p.copies + p.collectives + p.other;
}

constexpr double kNs = 1e-9;

// Compute waits for a copy, then for a collective, starts late, and ends before a copy does.
struct HandStep {
  HandSchedule hand;
  std::vector<InstrTiming> timings = {
      {.begin_ns = 0, .end_ns = 100},                    // add
      {.begin_ns = 100, .end_ns = 250},                  // copy out
      {.begin_ns = 100, .end_ns = 200},                  // add, again
      {.begin_ns = 250, .end_ns = 250, .wait_ns = 50},   // free, behind the copy
      {.begin_ns = 200, .end_ns = 400},                  // all_reduce
      {.begin_ns = 430, .end_ns = 500, .wait_ns = 150},  // add: waited until 400, began at 430
      {.begin_ns = 450, .end_ns = 650}};                 // copy back

  HandStep() {
    const TensorId a = hand.buffer("L0.m0.a", {64}), b = hand.buffer("L0.m0.b", {64}),
                   host = hand.buffer("L0.m0.b@host", {64}, Space::kHost);
    const int add = hand.add(Stream::kCompute, OpKind::kAdd, {a, a}, {b});
    const int out = hand.add(Stream::kD2h, OpKind::kCopy, {b}, {host}, {add});
    hand.add(Stream::kCompute, OpKind::kAdd, {a, a}, {b});
    hand.schedule.instrs.back().op.recompute = true;
    hand.add(Stream::kCompute, OpKind::kFree, {b}, {}, {out});
    const int reduce = hand.add(Stream::kComm, OpKind::kAllReduce, {a}, {a}, {add});
    hand.add(Stream::kCompute, OpKind::kAdd, {a, a}, {b}, {out, reduce});
    hand.add(Stream::kH2d, OpKind::kCopy, {host}, {b});
  }
  [[nodiscard]] StepReport report() const { return step_report(hand.schedule, hand.plan, timings); }
};

TEST(StepReport, PartsAreWhatTheComputeStreamDidAndWaitedFor) {
  const StepParts parts = HandStep().report().parts;
  EXPECT_DOUBLE_EQ(parts.model, 170 * kNs);
  EXPECT_DOUBLE_EQ(parts.recompute, 100 * kNs);
  EXPECT_DOUBLE_EQ(parts.copies, 50 * kNs);
  EXPECT_DOUBLE_EQ(parts.collectives, 150 * kNs);
  EXPECT_DOUBLE_EQ(parts.other, 180 * kNs);  // 30 of a late launch, 150 behind the last op
}

TEST(StepReport, EnginesAreHiddenByComputeOnly) {
  const StepReport report = HandStep().report();
  const double busy[] = {270, 150, 200, 200}, hidden[] = {270, 100, 50, 0};
  for (int i = 0; i < kEngineCount; ++i) {
    EXPECT_DOUBLE_EQ(report.engines[i].busy, busy[i] * kNs) << i;
    EXPECT_DOUBLE_EQ(report.engines[i].hidden, hidden[i] * kNs) << i;
    EXPECT_DOUBLE_EQ(report.engines[i].exposed, (busy[i] - hidden[i]) * kNs) << i;
  }
}

TEST(StepReport, WhatComputeRunsItselfIsExposed) {
  HandStep step;
  for (Instr& instr : step.hand.schedule.instrs) instr.stream = Stream::kCompute;
  step.timings = {{0, 10}, {10, 30}, {30, 40}, {40, 40}, {40, 70}, {70, 80}, {80, 120}};
  const StepReport report = step.report();
  EXPECT_DOUBLE_EQ(report.parts.copies, 60 * kNs);
  EXPECT_DOUBLE_EQ(report.parts.collectives, 30 * kNs);
  EXPECT_DOUBLE_EQ(report.engines[static_cast<size_t>(Engine::kD2h)].exposed, 20 * kNs);
  EXPECT_EQ(report.parts.other, 0);
}

TEST(StepReport, TwoCollectivesAtOnceAreBusyOnce) {
  HandSchedule hand;
  const TensorId a = hand.buffer("a", {64});
  hand.add(Stream::kComm, OpKind::kAllReduce, {a}, {a});
  hand.add(Stream::kCompute, OpKind::kAllReduce, {a}, {a});
  const std::vector<InstrTiming> timings = {{0, 100}, {50, 120}};
  const EngineTime time = step_report(hand.schedule, hand.plan, timings)
                              .engines[static_cast<size_t>(Engine::kCollective)];
  EXPECT_DOUBLE_EQ(time.busy, 120 * kNs);
  EXPECT_EQ(time.hidden, 0);
}

TEST(StepReport, WindowsClipNothingAndNamesAreShort) {
  const Window window = HandStep().report().forward;
  EXPECT_EQ(window.slot, "L0.fwd.m0");
  EXPECT_DOUBLE_EQ(window.begin, 0);
  EXPECT_DOUBLE_EQ(window.end, 500 * kNs);
  ASSERT_EQ(window.spans.size(), 6U);  // the free takes no time
  EXPECT_EQ(window.spans[0].name, "add b");
  EXPECT_EQ(window.spans[1].name, "copy b@host");
  EXPECT_DOUBLE_EQ(window.spans[5].end, 650 * kNs);
  EXPECT_EQ(HandStep().report().backward.slot, "");
}

// A chain: buffer i lives from instruction i to i + 1, each instruction a nanosecond. Returns the most
// bytes live at once.
int64_t chain(const std::vector<int64_t>& floats, HandSchedule& hand,
              std::vector<InstrTiming>& timings) {
  int64_t most = 0;
  for (size_t i = 0; i < floats.size(); ++i) {
    const TensorId id = hand.buffer("b" + std::to_string(i), {floats[i]});
    hand.schedule.buffers[static_cast<size_t>(id)].persistent = false;
    hand.add(Stream::kCompute, OpKind::kAdd,
             i == 0 ? std::vector<TensorId>{} : std::vector<TensorId>{id - 1}, {id});
    timings.push_back({.begin_ns = static_cast<int64_t>(i), .end_ns = static_cast<int64_t>(i) + 1});
    most = std::max(most, 4 * (floats[i] + (i > 0 ? floats[i - 1] : 0)));
  }
  return most;
}

TEST(StepReport, MemoryIsWhatLivesAtEachMoment) {
  HandSchedule hand;
  (void)hand.buffer("persistent", {1000});
  std::vector<InstrTiming> timings;
  (void)chain({1, 2, 4}, hand, timings);
  const std::vector<MemoryPoint> line = step_report(hand.schedule, hand.plan, timings).memory;
  ASSERT_EQ(line.size(), 4U);
  const int64_t expected[] = {4000 + 4, 4000 + 12, 4000 + 24, 4000};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(line[i].seconds, static_cast<double>(i) * kNs);
    EXPECT_EQ(line[i].hbm, expected[i]);
    EXPECT_EQ(line[i].host, 0);
  }
}

TEST(StepReport, OfManyPointsThePeakStays) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 20; ++trial) {
    HandSchedule hand;
    std::vector<InstrTiming> timings;
    std::vector<int64_t> floats;
    for (int i = 0; i < 5000; ++i) floats.push_back(1 + static_cast<int64_t>(random() % 1000));
    const int64_t most = chain(floats, hand, timings);
    const std::vector<MemoryPoint> line = step_report(hand.schedule, hand.plan, timings).memory;
    EXPECT_LE(line.size(), 600U);
    int64_t kept = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      kept = std::max(kept, line[i].hbm);
      if (i > 0) {
        ASSERT_GT(line[i].seconds, line[i - 1].seconds);
      }
    }
    EXPECT_EQ(kept, most);
    EXPECT_DOUBLE_EQ(line.back().seconds, 5000 * kNs);
    EXPECT_EQ(line.back().hbm, 0);
  }
}

void expect_adds_up(const SimulatedStep& step, const std::string& name) {
  const StepReport report =
      step_report(step.compiled.train.schedule, step.compiled.train.plan, step.run.timings);
  EXPECT_NEAR(sum(report.parts), step.seconds, 1e-12) << name;
  EXPECT_GT(report.parts.model, 0) << name;
  for (const EngineTime& time : report.engines) {
    EXPECT_NEAR(time.hidden + time.exposed, time.busy, 1e-12) << name;
    EXPECT_LE(time.busy, step.seconds * (1 + 1e-9)) << name;
  }
  EXPECT_EQ(report.hbm.peak, step.compiled.train.plan.hbm.bytes);
  int64_t hbm = 0, host = 0;
  for (const MemoryPoint& point : report.memory) {
    hbm = std::max(hbm, point.hbm);
    host = std::max(host, point.host);
  }
  EXPECT_LE(hbm, report.hbm.peak) << name;  // never two owners of the same bytes
  EXPECT_GT(hbm, report.hbm.peak / 2) << name;
  EXPECT_LE(host, report.host.peak) << name;
  for (const Window* window : {&report.forward, &report.backward}) {
    EXPECT_GT(window->spans.size(), 5U) << name;
    for (const Span& span : window->spans) {
      EXPECT_LT(span.begin, window->end) << name;
      EXPECT_GT(span.end, window->begin) << name;
      EXPECT_THAT(span.name, ::testing::Not(::testing::HasSubstr("model.layers"))) << name;
      EXPECT_THAT(span.name, ::testing::Not(::testing::ContainsRegex("L[0-9]+\\."))) << name;
    }
  }
}

TEST(StepReport, AddsUpForEveryStrategyOnOneRankAndOnEight) {
  for (const bool deepseek : {false, true}) {
    for (const NamedStrategy& strategy : kStrategies) {
      for (int ranks : {1, 8}) {
        Config config = deepseek ? tiny_deepseek() : tiny_llama(4);
        config.parallel.mesh = {.data = 1, .fsdp = -1};
        set_strategy(config, strategy);
        expect_adds_up(simulate_step(config, toy_hardware(), ranks), strategy.name);
      }
    }
  }
}

}  // namespace
}  // namespace spillway
