// A training step in virtual time.
#include "device/sim/simulate.h"

#include <gmock/gmock.h>

#include "tests/sim/simulated_cases.h"
#include "tests/sim/toy_hardware.h"
#include "trainer/mesh_config.h"

namespace spillway {
namespace {

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

TEST(Simulate, SkewedRoutingIsSlowerAndALoadOfOneIsBalanced) {
  Config config = deepseek();
  config.parallel.mesh = {.data = 1, .fsdp = 2, .expert = 4};
  const SimulatedStep step = simulate_step(config, toy_hardware(), 8);
  const auto run = [&](double load) {
    const Step& train = step.compiled.train;
    return sim::simulate(train.schedule, train.plan, toy_hardware(), mesh_of(config, 8, 0),
                         {.hottest_expert_load = load});
  };
  const sim::Simulation balanced = run(1);
  EXPECT_EQ(balanced.classes.size(), 1U);
  for (size_t i = 0; i < balanced.timings.size(); ++i) {
    ASSERT_EQ(balanced.timings[i].begin_ns, step.run.timings[i].begin_ns);
    ASSERT_EQ(balanced.timings[i].end_ns, step.run.timings[i].end_ns);
  }
  const sim::Simulation skewed = run(2);
  EXPECT_GT(skewed.seconds, balanced.seconds);
  ASSERT_EQ(skewed.classes.size(), 2U);
  EXPECT_GT(skewed.classes[1].collective_wait_seconds, skewed.classes[0].collective_wait_seconds);
}

TEST(Simulate, SixteenThousandRanksAndAHundredSecondsDoNotOverflow) {
  Config config = llama();
  config.parallel.mesh = {.data = 16, .fsdp = 1024};
  Hardware hardware = toy_hardware();
  for (MatmulRow& row : hardware.bf16_matmul.rows) row.tflops *= 1e-4;
  const SimulatedStep step = simulate_step(config, hardware, 16384);
  EXPECT_GT(step.seconds, 100);
  EXPECT_LT(step.seconds, 1e4);
  expect_consistent(step);
}

TEST(Simulate, WhatDoesNotFitIsSaid) {
  Hardware hardware = toy_hardware();
  hardware.hbm_bytes.value = hardware.reserve_bytes.value + 1000;
  EXPECT_FALSE(simulate_step(llama(), hardware, 1).fits());
  EXPECT_TRUE(simulate_step(llama(), toy_hardware(), 1).fits());
}

}  // namespace
}  // namespace spillway
