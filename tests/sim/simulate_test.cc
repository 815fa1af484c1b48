// A training step in virtual time.
#include "device/sim/simulate.h"

#include <gmock/gmock.h>

#include "tests/sim/toy_hardware.h"
#include "tests/strategies/trajectory.h"
#include "trainer/simulated.h"

namespace spillway {
namespace {

// Large enough that launches do not decide.
Config llama() {
  Config config = tiny_llama(4);
  config.precision.compute = DType::kBF16;
  config.llama.hidden_size = 1024;
  config.llama.intermediate_size = 4096;
  config.llama.num_attention_heads = 8;
  config.llama.head_dim = 128;
  config.train.seq_len = 1024;
  config.train.loss_chunk_tokens = 2048;
  return config;
}

// Seconds that each stream is busy.
std::array<double, kStreamCount> busy(const SimulatedStep& step) {
  std::array<double, kStreamCount> seconds = {};
  const std::vector<Instr>& instrs = step.compiled.train.schedule.instrs;
  for (size_t i = 0; i < instrs.size(); ++i) {
    seconds[static_cast<size_t>(instrs[i].stream)] +=
        static_cast<double>(step.run.timings[i].end_ns - step.run.timings[i].begin_ns) * 1e-9;
  }
  return seconds;
}

void expect_consistent(const SimulatedStep& step) {
  const std::vector<Instr>& instrs = step.compiled.train.schedule.instrs;
  std::array<int64_t, kStreamCount> end = {};
  for (size_t i = 0; i < instrs.size(); ++i) {
    const InstrTiming& timing = step.run.timings[i];
    int64_t& last = end[static_cast<size_t>(instrs[i].stream)];
    ASSERT_GE(timing.begin_ns, last) << "instruction " << i;
    ASSERT_GE(timing.end_ns, timing.begin_ns) << "instruction " << i;
    last = timing.end_ns;
    for (int wait : instrs[i].waits) {
      ASSERT_GE(timing.begin_ns, step.run.timings[wait].end_ns) << "instruction " << i;
    }
  }
  for (double seconds : busy(step)) EXPECT_LE(seconds, step.seconds * (1 + 1e-9));
  // Compute is busy, or waits, or runs dry at the end of the step.
  EXPECT_LE(busy(step)[0] + step.stats.exposed_seconds + step.stats.exposed_collective_seconds,
            step.seconds * (1 + 1e-3) + busy(step)[0] * 1e-3 + 1e-6 +
                (step.config.activation.latency_hiding ? 0 : step.seconds));
}

TEST(Simulate, EveryStrategyIsConsistentAndItsMemoryIsThePlan) {
  for (const bool deepseek : {false, true}) {
    for (const NamedStrategy& strategy : kStrategies) {
      Config config = deepseek ? tiny_deepseek() : llama();
      set_strategy(config, strategy);
      const SimulatedStep step = simulate_step(config, toy_hardware(), 1);
      expect_consistent(step);
      EXPECT_EQ(step.run.memory.hbm_high_water, step.compiled.train.plan.hbm.bytes);
      EXPECT_EQ(step.run.memory.host_high_water, step.compiled.train.plan.host.bytes);
    }
  }
}

// The plan depends on what the cost model says of time; for the same plan, the cpu device measures
// what the simulation replays.
TEST(Simulate, MemoryIsWhatTheCpuDeviceMeasures) {
  for (const NamedStrategy& strategy : kStrategies) {
    Config config = tiny_deepseek();
    set_strategy(config, strategy);
    Session session(config);
    (void)session.train_step(random_batch(config, 0), 0, 1e-3);
    const Step& train = session.compiled().train;
    const sim::Simulation run = sim::simulate(train.schedule, train.plan, toy_hardware(), Mesh());
    EXPECT_EQ(run.memory.hbm_high_water, session.device().memory_use().hbm_high_water)
        << strategy.name;
    EXPECT_EQ(run.memory.host_high_water, session.device().memory_use().host_high_water)
        << strategy.name;
  }
}

TEST(Simulate, AFasterLinkNeverSlowsAStep) {
  for (const NamedStrategy& strategy : kStrategies) {
    Config config = llama();
    set_strategy(config, strategy);
    Hardware hardware = toy_hardware();
    hardware.d2h_gb_per_s.value = hardware.h2d_gb_per_s.value = 0.5;
    const SimulatedStep slow = simulate_step(config, hardware, 1);
    const Step& train = slow.compiled.train;
    double before = slow.seconds;
    for (double rate = 1; rate < 200; rate *= 2) {
      hardware.d2h_gb_per_s.value = hardware.h2d_gb_per_s.value = rate;
      const double seconds = sim::simulate(train.schedule, train.plan, hardware, Mesh()).seconds;
      EXPECT_LE(seconds, before * (1 + 1e-9)) << strategy.name << " at " << rate;
      before = seconds;
    }
  }
}

TEST(Simulate, WithASlowLinkPipelinedHidesMoreThanHiddenMoreThanNaive) {
  Hardware hardware = toy_hardware();
  hardware.d2h_gb_per_s.value = hardware.h2d_gb_per_s.value = 10;
  auto seconds = [&](bool hide, bool pipelined) {
    Config config = llama();
    config.activation = {.policy = "minimal_offloaded", .latency_hiding = hide,
                         .pipelined = pipelined};
    return simulate_step(config, hardware, 1).seconds;
  };
  const double naive = seconds(false, false), hidden = seconds(true, false),
               pipelined = seconds(true, true);
  EXPECT_LT(hidden, naive);
  EXPECT_LE(pipelined, hidden);
}

TEST(Simulate, OffloadWinsOverRematWhereTheLinkIsFastAndLosesWhereItIsSlow) {
  auto seconds = [&](const char* policy, double gb_per_s) {
    Hardware hardware = toy_hardware();
    hardware.d2h_gb_per_s.value = hardware.h2d_gb_per_s.value = gb_per_s;
    Config config = llama();
    config.activation.policy = policy;
    return simulate_step(config, hardware, 1).seconds;
  };
  EXPECT_LT(seconds("minimal_offloaded", 1000), seconds("full", 1000));
  EXPECT_GT(seconds("minimal_offloaded", 0.5), seconds("full", 0.5));
}

TEST(Simulate, RanksBeyondADomainPayForTheNics) {
  Config config = llama();
  config.parallel.mesh = {.data = 1, .fsdp = -1};
  Hardware hardware = toy_hardware();
  hardware.nic_gb_per_s.value = 1;
  const double inside = simulate_step(config, hardware, 8).seconds;
  const double across = simulate_step(config, hardware, 16).seconds;
  EXPECT_GT(across, inside);
  hardware.nic_gb_per_s.value *= 1000;
  EXPECT_LT(simulate_step(config, hardware, 16).seconds, across);
}

TEST(Simulate, SixteenThousandRanksDoNotOverflow) {
  Config config = llama();
  config.parallel.mesh = {.data = 16, .fsdp = 1024};
  const SimulatedStep step = simulate_step(config, toy_hardware(), 16384);
  expect_consistent(step);
  EXPECT_GT(step.seconds, 0);
}

TEST(Simulate, WhatDoesNotFitIsSaid) {
  Hardware hardware = toy_hardware();
  hardware.hbm_bytes.value = hardware.reserve_bytes.value + 1000;
  EXPECT_FALSE(simulate_step(llama(), hardware, 1).fits());
  EXPECT_TRUE(simulate_step(llama(), toy_hardware(), 1).fits());
}

}  // namespace
}  // namespace spillway
