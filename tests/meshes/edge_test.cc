// Meshes at their edges: widths that do not divide, splits that cannot be, routing that is skewed.
#include <gmock/gmock.h>

#include "program/error.h"
#include "tests/meshes/mesh_run.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

Config small_deepseek() {
  Config config = tiny_deepseek();
  config.train.micro_batch = 1;
  config.deepseek.num_hidden_layers = 2;
  return config;
}

void expect_losses_near(const MeshRun& actual, const MeshRun& expected) {
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(actual.losses[i], expected.losses[i], 1e-5 * expected.losses[i]) << i;
    EXPECT_NEAR(actual.grad_norms[i], expected.grad_norms[i], 1e-4 * expected.grad_norms[i]) << i;
  }
}

TEST(Edge, WidthsThatDoNotDivideArePadded) {
  Config config = mesh_llama();
  config.llama.hidden_size = 66;
  const MeshRun alone = run_on_mesh(config, {}, 1, 5);
  expect_losses_near(run_on_mesh(config, {.data = 1, .fsdp = 4}, 4, 5), alone);
  expect_losses_near(run_on_mesh(config, {.data = 1, .fsdp = 2, .tensor = 2}, 4, 5), alone);
}

TEST(Edge, TiedEmbeddingsAreOneParameter) {
  Config config = mesh_llama();
  config.llama.tie_word_embeddings = true;
  config.train.micro_batch = 1;  // two micro-batches a rank on 4 ranks
  const MeshRun alone = run_on_mesh(config, {}, 1, 5);
  for (const bool optimizer_only : {false, true}) {
    config.parallel.optimizer_only = optimizer_only;
    expect_losses_near(run_on_mesh(config, {.data = 1, .fsdp = 4}, 4, 5), alone);
    expect_losses_near(run_on_mesh(config, {.data = 2, .fsdp = 2}, 4, 5), alone);
    expect_losses_near(run_on_mesh(config, {.data = 1, .fsdp = 2, .tensor = 2}, 4, 5), alone);
  }
}

TEST(Edge, ShardingOnlyTheOptimizerChangesNoBit) {
  Config config = mesh_llama();
  config.train.micro_batch = 2;  // a micro-batch a rank: gradients are summed in the same order
  const MeshRun full = run_on_mesh(config, {.data = 1, .fsdp = 4}, 4, 3);
  config.parallel.optimizer_only = true;
  EXPECT_TRUE(run_on_mesh(config, {.data = 1, .fsdp = 4}, 4, 3).same_bits(full));
}

// Slow, so that the thread sanitizer does not see it: ranks that are threads share oneDNN's cache of
// primitives, which it guards by means that the sanitizer, in a library built without it, does not see.
TEST(SlowEdge, Bf16TrainsOnAMesh) {
  Config config = small_deepseek();
  config.precision.compute = DType::kBF16;
  const MeshRun alone = run_on_mesh(config, {}, 1, 3);
  const MeshRun mesh =
      run_on_mesh(config, {.data = 1, .fsdp = 2, .tensor = 2, .expert = 2}, 8, 3);
  for (size_t i = 0; i < alone.losses.size(); ++i) {
    EXPECT_NEAR(mesh.losses[i], alone.losses[i], 2e-3 * alone.losses[i]);
  }
}

TEST(Edge, StatesAreAQuarterOfARank) {
  const Config config = mesh_llama();
  const MeshRun alone = run_on_mesh(config, {}, 1, 1);
  const MeshRun mesh = run_on_mesh(config, {.data = 1, .fsdp = 4}, 4, 1);
  int64_t quarter = 0;  // of every moment, padded to whole elements
  for (const auto& [name, values] : alone.parameters) {
    quarter += 2 * 4 * ((static_cast<int64_t>(values.size()) + 3) / 4);
  }
  EXPECT_THAT(mesh.optimizer_bytes, Each(quarter));
}

// What a rank with no target tokens adds to loss and gradients is nothing.
TEST(Edge, ARankWithoutTargets) {
  const Config config = mesh_llama();
  auto run = [&](const MeshConfig& mesh_config, int ranks) {
    Config on = config;
    on.parallel.mesh = mesh_config;
    on.train.global_batch = kGlobalBatch;
    double loss = 0;
    on_thread_ranks(ranks, [&](World& world) {
      Session session(on, &world);
      Batch whole = global_batch(on, 0);
      const auto quarter = static_cast<ptrdiff_t>(whole.targets.size() / 4);
      std::fill_n(whole.targets.begin(), quarter, kIgnoredTarget);
      std::fill_n(whole.targets.begin() + 2 * quarter, quarter, kIgnoredTarget);
      const StepResult r =
          session.train_step(share_of(whole, session.config(), session.mesh()), 0, 1e-3);
      if (world.rank() == 0) loss = r.loss;
    });
    return loss;
  };
  const double alone = run({}, 1);
  EXPECT_NEAR(run({.data = 4}, 4), alone, 1e-5 * alone);
  EXPECT_NEAR(run({.data = 1, .fsdp = 4}, 4), alone, 1e-5 * alone);
}

// A router bias that sends every token to the experts of one rank, and none to the others.
MeshRun skewed_run(Config config, const MeshConfig& mesh_config, int ranks) {
  config.parallel.mesh = mesh_config;
  config.train.global_batch = kGlobalBatch;
  config.device.threads = 1;
  config.deepseek.n_group = 1;
  config.deepseek.topk_group = 1;
  config.deepseek.n_routed_experts = 12;  // 3 a rank on 4 ranks: top 3 is one rank's
  config.optimizer.router_bias_rate = 0;
  MeshRun run;
  on_thread_ranks(ranks, [&](World& world) {
    Session session(config, &world);
    std::vector<float> bias(12);
    std::fill_n(bias.begin() + 3, 3, 1000.0F);
    for (const Block& block : session.compiled().model.blocks) {
      const Program& program = session.compiled().model.programs[block.program];
      if (program.find(kRouterBias) != kNoTensor) session.write(block.prefix + kRouterBias, bias);
    }
    for (int64_t step = 0; step < 3; ++step) {
      const StepResult r = session.train_step(
          share_of(global_batch(config, step), session.config(), session.mesh()), step, 1e-3);
      if (world.rank() != 0) continue;
      run.losses.push_back(r.loss);
      run.grad_norms.push_back(r.grad_norm);
      run.dropped.push_back(static_cast<double>(r.router->dropped_choices));
    }
  });
  return run;
}

TEST(Edge, EveryTokenToOneRank) {
  const MeshRun alone = skewed_run(small_deepseek(), {}, 1);
  expect_losses_near(skewed_run(small_deepseek(), {.data = 1, .expert = 4}, 4), alone);
  expect_losses_near(skewed_run(small_deepseek(), {.data = 1, .tensor = 2, .expert = 2}, 4), alone);
}

TEST(Edge, OverflowIsAnErrorOnEveryRankOrDropped) {
  Config config = small_deepseek();
  config.parallel.experts.rows = 2;  // of the 4 that would be needed
  try {
    skewed_run(config, {.data = 1, .expert = 4}, 4);
    FAIL() << "no error";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("384"), HasSubstr("192"), HasSubstr("expert_rows")));
  }
  config.parallel.experts.drop = true;
  const MeshRun dropped = skewed_run(config, {.data = 1, .expert = 4}, 4);
  // 2 micro-batches of 4 x 32 tokens, 3 choices each, of which half has room.
  EXPECT_THAT(dropped.dropped, Each(2 * 4 * 32 * 3 / 2));
  config.parallel.experts = {};
  EXPECT_NE(dropped.losses, skewed_run(config, {.data = 1, .expert = 4}, 4).losses);
}

std::string refusal(Config config, const MeshConfig& mesh, int ranks) {
  config.parallel.mesh = mesh;
  try {
    (void)mesh_of(config, ranks, 0);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Edge, SplitsThatCannotBeAreRefusedWithBothNumbers) {
  Config config = mesh_llama();  // 4 heads, 2 key heads, width 48
  EXPECT_THAT(refusal(config, {.data = 1, .tensor = 3}, 3),
              AllOf(HasSubstr("num_key_value_heads (2)"), HasSubstr("parallel.tensor (3)")));
  EXPECT_THAT(refusal(config, {.data = 1, .tensor = 8}, 8),
              AllOf(HasSubstr("num_attention_heads (4)"), HasSubstr("parallel.tensor (8)")));
  config.llama.intermediate_size = 49;
  EXPECT_THAT(refusal(config, {.data = 1, .tensor = 2}, 2),
              AllOf(HasSubstr("intermediate_size (49)"), HasSubstr("parallel.tensor (2)")));
  EXPECT_THAT(refusal(config, {.data = 1, .expert = 2}, 2), HasSubstr("no experts"));
  EXPECT_THAT(refusal(small_deepseek(), {.data = 1, .expert = 3}, 3),
              AllOf(HasSubstr("n_routed_experts (8)"), HasSubstr("parallel.expert (3)")));
  EXPECT_THAT(refusal(mesh_llama(), {.data = 3}, 4), AllOf(HasSubstr("data 3"), HasSubstr("4 ranks")));
  config = mesh_llama();
  config.train.micro_batch = 1;
  config.train.seq_len = 31;
  EXPECT_THAT(refusal(config, {.data = 1, .tensor = 2}, 2),
              AllOf(HasSubstr("seq_len (31)"), HasSubstr("parallel.tensor (2)")));
}

TEST(Edge, AGlobalBatchThatDoesNotDivideIsRefused) {
  Config config = mesh_llama();
  config.train.global_batch = 6;
  EXPECT_THROW((void)on_mesh(config, Mesh({.data = 4}, 4, 0, 2)), ConfigError);
  config.train.global_batch = 8;
  EXPECT_EQ(on_mesh(config, Mesh({.data = 4}, 4, 0, 2)).train.accumulation, 2);
}

TEST(Edge, ARankWithAnotherConfigStopsAll) {
  std::vector<std::string> messages(2);
  std::mutex mutex;
  EXPECT_THROW(on_thread_ranks(2,
                               [&](World& world) {
                                 Config config = mesh_llama();
                                 if (world.rank() == 1) config.train.seed = 99;
                                 try {
                                   Session session(config, &world);
                                 } catch (const ConfigError& error) {
                                   const std::lock_guard lock(mutex);
                                   messages[world.rank()] = error.what();
                                   throw;
                                 }
                               }),
               ConfigError);
  // Whoever reads the other's config first says it, and may stop the other before it has read it too.
  EXPECT_THAT(messages,
              Contains(AllOf(HasSubstr("rank 1"), HasSubstr("train/seed"), HasSubstr("99"))));
}

TEST(Edge, AValueThatIsNotFiniteStopsAllAndNamesTheRank) {
  Config config = mesh_llama();
  config.parallel.mesh = {.data = 1, .fsdp = 2};
  std::string message;
  std::mutex mutex;
  EXPECT_THROW(
      on_thread_ranks(2,
                      [&](World& world) {
                        Session session(config, &world);
                        if (world.rank() == 1) {
                          std::vector<float> bad = session.read("model.norm.weight");
                          bad[0] = std::numeric_limits<float>::quiet_NaN();
                          session.write("model.norm.weight", bad);
                        }
                        try {
                          session.train_step(share_of(global_batch(config, 0), session.config(),
                                                      session.mesh()), 0, 1e-3);
                        } catch (const NonFinite& error) {
                          const std::lock_guard lock(mutex);
                          message = error.what();
                          throw;
                        }
                      }),
      NonFinite);
  EXPECT_THAT(message, AllOf(HasSubstr("rank "), HasSubstr("model.norm.weight")));
}

}  // namespace
}  // namespace spillway
