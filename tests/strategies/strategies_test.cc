// Strategies change where bytes live and when ops run, never what they compute.
#include <gtest/gtest.h>

#include "tests/strategies/trajectory.h"

namespace spillway {
namespace {

struct Case {
  DType compute;
  int64_t accumulation, layers;
};

class Strategies : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kSteps = 20;
  static Config config() {
    Config config = tiny_llama(GetParam().layers);
    config.precision.compute = GetParam().compute;
    config.train.accumulation = GetParam().accumulation;
    return config;
  }
};

TEST_P(Strategies, AreBitIdenticalWithJitterAndMeasureWhatWasPlanned) {
  Config reference_config = config();
  set_strategy(reference_config, kStrategies[0]);
  Session reference_session(reference_config);
  const Trajectory reference = run_steps(reference_session, reference_config, kSteps);
  for (const double loss : reference.losses) ASSERT_TRUE(std::isfinite(loss));
  uint64_t seed = 1;
  for (const NamedStrategy& strategy : kStrategies) {
    Config jittered = config();
    set_strategy(jittered, strategy);
    jittered.device.jitter_seed = ++seed;
    Session session(jittered);
    const Trajectory trajectory = run_steps(session, jittered, kSteps);
    EXPECT_TRUE(trajectory.same_bits(reference)) << strategy.name;
    const MemoryUse use = session.device().memory_use();
    EXPECT_EQ(use.hbm_high_water, session.compiled().train.plan.hbm.bytes) << strategy.name;
    EXPECT_EQ(use.host_high_water, session.compiled().train.plan.host.bytes) << strategy.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Llama, Strategies,
    ::testing::Values(Case{DType::kF32, 1, 1}, Case{DType::kF32, 3, 2}, Case{DType::kF32, 1, 5},
                      Case{DType::kF32, 1, 2}, Case{DType::kF32, 3, 1}, Case{DType::kF32, 3, 5},
                      Case{DType::kBF16, 1, 1}, Case{DType::kBF16, 3, 2}, Case{DType::kBF16, 1, 5},
                      Case{DType::kBF16, 1, 2}, Case{DType::kBF16, 3, 1}, Case{DType::kBF16, 3, 5}),
    [](const auto& info) {
      return std::string(name_of(info.param.compute)) + "_accumulation" +
             std::to_string(info.param.accumulation) + "_layers" +
             std::to_string(info.param.layers);
    });

Config memory_config(const NamedStrategy& strategy, int64_t layers) {
  Config config = tiny_llama(layers);
  config.train.micro_batch = 16;  // activations outweigh gradients
  config.train.seq_len = 64;
  set_strategy(config, strategy);
  return config;
}

constexpr NamedStrategy kKeepAll{"keep", "none", true, true};
constexpr NamedStrategy kKeepMinimal{"minimal", "minimal", true, true};
constexpr NamedStrategy kRemat{"remat", "full", true, true};

// Remat and offload keep the same residents, the layer inputs; what differs is the one layer at work:
// recomputation holds all of it at once, offload brings tensors back as they are needed.
TEST(Memory, KeepAboveOffloadAboutRemat) {
  for (const NamedStrategy& offload : kStrategies) {
    if (std::string(offload.policy) != "minimal_offloaded") continue;
    const int64_t keep = compile_config(memory_config(kKeepAll, 12)).train.plan.hbm.bytes;
    const Compiled moved = compile_config(memory_config(offload, 12));
    const int64_t remat = compile_config(memory_config(kRemat, 12)).train.plan.hbm.bytes;
    EXPECT_GT(keep, moved.train.plan.hbm.bytes) << offload.name;
    EXPECT_GT(keep, remat);
    int64_t layer = 0;
    for (const PolicyRow& row : moved.policy) layer += row.bytes;
    EXPECT_LT(std::abs(moved.train.plan.hbm.bytes - remat), layer) << offload.name;
    // Against keeping the same tensors in HBM: what is moved leaves the peak, but for the layers in
    // flight.
    const int64_t kept = compile_config(memory_config(kKeepMinimal, 12)).train.plan.hbm.bytes;
    const int64_t bytes_moved = copy_bytes(moved.train.schedule).d2h;
    EXPECT_GE(kept - moved.train.plan.hbm.bytes, bytes_moved * 8 / 10) << offload.name;
  }
}

TEST(Memory, IsFlatOverFiftySteps) {
  Config config = tiny_llama(2);
  set_strategy(config, {"pipelined", "minimal_offloaded", true, true});
  Session session(config);
  (void)session.train_step(random_batch(config, 0), 0, 1e-3);
  const MemoryUse first = session.device().memory_use();
  for (int64_t step = 1; step < 50; ++step) {
    (void)session.train_step(random_batch(config, step), step, 1e-3);
    const MemoryUse now = session.device().memory_use();
    ASSERT_EQ(now.hbm_high_water, first.hbm_high_water);
    ASSERT_EQ(now.host_high_water, first.host_high_water);
    ASSERT_EQ(now.scratch_bytes, first.scratch_bytes);
  }
}

// Evaluation between steps, on another number of tokens than a step, changes nothing.
TEST(Strategies, EvaluationLeavesTrainingAlone) {
  for (const NamedStrategy& strategy : kStrategies) {
    Config config = tiny_llama(2);
    config.train.accumulation = 3;
    set_strategy(config, strategy);
    Session plain(config), evaluating(config);
    Config one = config;
    one.train.accumulation = 1;
    for (int64_t step = 0; step < 6; ++step) {
      const StepResult a = plain.train_step(random_batch(config, step), step, 1e-2);
      const StepResult b = evaluating.train_step(random_batch(config, step), step, 1e-2);
      EXPECT_EQ(a.loss, b.loss) << strategy.name;
      EXPECT_EQ(a.grad_norm, b.grad_norm) << strategy.name;
      if (step % 2 == 0) (void)evaluating.evaluate(random_batch(one, step));
    }
  }
}

// The same sequences in one micro-batch or in four: the loss is a mean over tokens, not of means.
TEST(Accumulation, IsNormalisedByValidTokens) {
  Config together = tiny_llama(2), apart = tiny_llama(2);
  together.train.micro_batch = 4;
  apart.train.micro_batch = 1;
  apart.train.accumulation = 4;
  Session a(together), b(apart);
  Batch batch = random_batch(together, 0);
  for (int64_t i = 0; i < 29; ++i) {  // the first sequence keeps 3 targets
    batch.valid_targets -= batch.targets[i] >= 0;
    batch.targets[i] = kIgnoredTarget;
  }
  for (int64_t step = 0; step < 3; ++step) {
    const StepResult x = a.train_step(batch, step, 1e-2), y = b.train_step(batch, step, 1e-2);
    EXPECT_NEAR(x.loss, y.loss, 1e-6 * x.loss);
    EXPECT_NEAR(x.grad_norm, y.grad_norm, 1e-5 * x.grad_norm);
  }
}

TEST(NonFiniteStep, StopsBeforeTheUpdateAndSaysWhere) {
  Config config = tiny_llama(2);
  Session session(config);
  (void)session.train_step(random_batch(config, 0), 0, 1e-2);
  const std::string poisoned = "model.layers.1.mlp.up_proj.weight";
  std::vector<float> weights = session.read(poisoned);
  weights[5] = NAN;
  session.write_parameter(poisoned, weights);
  const std::vector<float> before = session.read("model.layers.0.self_attn.q_proj.weight");
  try {
    (void)session.train_step(random_batch(config, 1), 1, 1e-2);
    FAIL();
  } catch (const NonFinite& error) {
    EXPECT_NE(std::string(error.what()).find("L1.m0.mlpwi_1 = linear("), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("stopped before the update"), std::string::npos);
  }
  EXPECT_EQ(session.read("model.layers.0.self_attn.q_proj.weight"), before);
}

}  // namespace
}  // namespace spillway
