// DeepSeek under every strategy, and what its routers must do.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/strategies/trajectory.h"

namespace spillway {
namespace {

struct Variant {
  const char* name;
  void (*apply)(Config&);
};

const Variant kVariants[] = {
    {"plain", [](Config&) {}},
    {"bf16", [](Config& c) { c.precision.compute = DType::kBF16; }},
    {"bf16_states",
     [](Config& c) {
       c.precision = {.compute = DType::kBF16, .master = false, .gradients = DType::kBF16,
                      .moments = DType::kBF16};
     }},
    {"accumulation", [](Config& c) { c.train.accumulation = 3; }},
    {"capacity", [](Config& c) { c.deepseek.capacity_factor = 0.75; }},
    {"mtp", [](Config& c) { c.deepseek.num_nextn_predict_layers = 1; }},
    {"router_losses",
     [](Config& c) {
       c.deepseek.seq_aux_loss = 1e-2;
       c.deepseek.router_z_loss = 1e-3;
     }},
    {"softmax_no_query_compression",
     [](Config& c) {
       c.deepseek.sigmoid_scores = false;
       c.deepseek.router_bias = false;
       c.deepseek.q_lora_rank = 0;
       c.deepseek.norm_topk_prob = false;
       c.deepseek.group_top = 1;
     }},
    {"balanced", [](Config& c) { c.deepseek.balanced_routing = true; }},
};

class Deepseek : public ::testing::TestWithParam<Variant> {};

TEST_P(Deepseek, StrategiesAreBitIdenticalWithJitter) {
  constexpr int64_t kSteps = 6;
  Config reference_config = tiny_deepseek();
  GetParam().apply(reference_config);
  Session reference_session(reference_config);
  const Trajectory reference = run_steps(reference_session, reference_config, kSteps);
  for (const double loss : reference.losses) ASSERT_TRUE(std::isfinite(loss));
  uint64_t seed = 100;
  for (const NamedStrategy& strategy : kStrategies) {
    Config config = tiny_deepseek();
    GetParam().apply(config);
    set_strategy(config, strategy);
    config.device.jitter_seed = ++seed;
    Session session(config);
    EXPECT_TRUE(run_steps(session, config, kSteps).same_bits(reference)) << strategy.name;
    const MemoryUse use = session.device().memory_use();
    EXPECT_EQ(use.hbm_high_water, session.compiled().train.plan.hbm.bytes) << strategy.name;
    EXPECT_EQ(use.host_high_water, session.compiled().train.plan.host.bytes) << strategy.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, Deepseek, ::testing::ValuesIn(kVariants),
                         [](const auto& info) { return std::string(info.param.name); });

// Any strategy for any name.
TEST(RandomPolicies, FiftyAssignmentsGiveTheSameBits) {
  Config base = tiny_deepseek();
  base.deepseek.num_nextn_predict_layers = 1;
  std::set<std::string> names, inputs;
  const Model model = build_model(base);
  for (int program : model.layer_programs) {
    const Program& layer = model.programs[program];
    for (TensorId id : nameable_values(layer)) names.insert(layer.tensors[id].name);
    inputs.insert(layer.tensors[layer.input].name);
  }
  Session reference_session(base);
  const Trajectory reference = run_steps(reference_session, base, 2);
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    Config config = base;
    config.activation.policy = "custom";
    for (const std::string& name : names) {
      const auto pick = inputs.contains(name) ? random() % 2 * 2 : random() % 3;
      config.activation.custom[name] = pick == 0   ? Strategy::kDevice
                                       : pick == 1 ? Strategy::kRemat
                                                   : Strategy::kOffload;
    }
    config.activation.latency_hiding = random() % 3 != 0;
    config.activation.pipelined = config.activation.latency_hiding && random() % 2 == 0;
    config.activation.max_inflight_async = 1 + static_cast<int>(random() % 8);
    Session session(config);
    EXPECT_TRUE(run_steps(session, config, 2).same_bits(reference)) << "round " << round;
  }
}

std::string bias_of(int layer) {
  return "model.layers." + std::to_string(layer) + "." + kRouterBias;
}

void ignore(const std::string&, std::vector<float>) {}

// Three experts get a choice of every token, five none: losses stay finite, gradients of experts
// without tokens are exactly zero, also after the first step.
TEST(Routing, AnExpertWithEveryTokenAndEmptyExperts) {
  Config config = tiny_deepseek();
  config.optimizer.router_bias_rate = 0;
  config.deepseek.n_group = 1;
  config.deepseek.topk_group = 1;
  Session session(config);
  std::vector<float> bias(8, -10.0F);
  bias[2] = bias[5] = bias[6] = 10;
  session.write(bias_of(0), bias);
  for (int64_t step = 0; step < 3; ++step) {
    const StepResult result = session.train_step(random_batch(config, step), step, 1e-2);
    ASSERT_TRUE(std::isfinite(result.loss));
    ASSERT_TRUE(result.router.has_value());
    EXPECT_EQ(result.router->load_min, 0);
    EXPECT_NEAR(result.router->load_max, 8.0 / 3, 1e-6);
  }
  const std::string weight = "model.layers.0.mlp.experts.*.gate_proj.weight";
  std::vector<float> gradient;
  session.watch(random_batch(config, 3), [&](const std::string& name, std::vector<float> values) {
    if (name == weight + ".grad") gradient = std::move(values);
  });
  const size_t one = gradient.size() / 8;
  ASSERT_GT(one, 0U);
  for (size_t e = 0; e < 8; ++e) {
    const bool chosen = e == 2 || e == 5 || e == 6;
    double sum = 0;
    for (size_t i = e * one; i < (e + 1) * one; ++i) sum += std::abs(gradient[i]);
    EXPECT_EQ(sum > 0, chosen) << "expert " << e;
  }
}

// A bias of all -1 makes biased scores negative: masked groups must lose all the same.
TEST(Routing, ChoosesOnlyInsideTheKeptGroups) {
  const Config config = tiny_deepseek();
  Session session(config);
  session.write(bias_of(0), std::vector<float>(8, -1.0F));
  std::vector<int32_t> experts;
  session.watch(random_batch(config, 0), ignore,
                [&](const std::string& name, std::vector<int32_t> values) {
                  if (name == "L0.m0.router_weights.experts") experts = std::move(values);
                });
  ASSERT_FALSE(experts.empty());
  for (size_t token = 0; token < experts.size() / 3; ++token) {
    std::set<int32_t> groups, chosen;
    for (size_t j = 0; j < 3; ++j) {
      groups.insert(experts[token * 3 + j] / 2);
      chosen.insert(experts[token * 3 + j]);
    }
    EXPECT_LE(groups.size(), 2U);
    EXPECT_EQ(chosen.size(), 3U);
  }
}

// The load is counted once a step, whatever is recomputed; the bias moves by exactly the rate, also
// from 5 in a bf16 run: bias and counts stay f32 and integers.
TEST(Routing, BiasFollowsTheLoadCountedOnce) {
  for (const char* policy : {"none", "full"}) {
    Config config = tiny_deepseek();
    config.precision.compute = DType::kBF16;
    config.train.accumulation = 2;
    config.activation.policy = policy;
    Session session(config);
    session.write(bias_of(0), std::vector<float>(8, 5.0F));
    std::vector<int32_t> load;
    session.watch(random_batch(config, 0), ignore,
                  [&](const std::string& name, std::vector<int32_t> values) {
                    if (name == "model.layers.0.mlp.gate.load") load = std::move(values);
                  });
    const int64_t choices = config.train.batch_tokens() * 3;
    int64_t total = 0;
    for (size_t e = 0; e < 8; ++e) total += load.at(e);
    EXPECT_EQ(total, choices) << policy;
    const std::vector<float> bias = session.read(bias_of(0));
    for (size_t e = 0; e < 8; ++e) {
      const double mean = static_cast<double>(choices) / 8;
      const float sign = load[e] > mean ? -1.0F : load[e] < mean ? 1.0F : 0.0F;
      EXPECT_EQ(bias[e], 5.0F + 0.01F * sign) << policy << " expert " << e;
    }
  }
}

TEST(Routing, CapacityDropsAndCounts) {
  Config config = tiny_deepseek();
  config.deepseek.capacity_factor = 0.5;
  Session session(config);
  const StepResult result = session.train_step(random_batch(config, 0), 0, 1e-2);
  // Two layers, two sequences of 32 x 3 choices over 8 experts: at most 6 an expert and sequence stay.
  EXPECT_GE(result.router->dropped_choices, 2 * (2 * 96 - 2 * 8 * 6));
  EXPECT_TRUE(std::isfinite(result.loss));
}

TEST(MultiTokenPrediction, HasALossOfItsOwnAndLeavesTheMainLossAlone) {
  Config with = tiny_deepseek();
  with.deepseek.num_nextn_predict_layers = 1;
  const Config without = tiny_deepseek();
  Session a(with), b(without);
  const StepResult x = a.train_step(random_batch(with, 0), 0, 1e-2);
  const StepResult y = b.train_step(random_batch(without, 0), 0, 1e-2);
  EXPECT_EQ(x.loss, y.loss);  // the stream passes unchanged
  ASSERT_TRUE(x.mtp_loss.has_value());
  EXPECT_NEAR(*x.mtp_loss, 0.3 * std::log(97), 0.3);
  EXPECT_NE(x.grad_norm, y.grad_norm);
  EXPECT_GT(a.evaluate(random_batch(with, 1)).loss_sum, 0);
}

}  // namespace
}  // namespace spillway
