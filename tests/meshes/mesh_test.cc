// What ranks compute together is what one computes alone.
#include <gmock/gmock.h>

#include <cmath>

#include "program/error.h"
#include "tests/meshes/mesh_run.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

struct NamedMesh {
  const char* name;
  MeshConfig mesh;
  int ranks;
};
void PrintTo(const NamedMesh& mesh, std::ostream* out) { *out << mesh.name; }

std::string name_of_mesh(const ::testing::TestParamInfo<NamedMesh>& info) { return info.param.name; }

double largest(const std::vector<float>& values) {
  double most = 0;
  for (float value : values) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

void expect_near_each(const std::map<std::string, std::vector<float>>& actual,
                      const std::map<std::string, std::vector<float>>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, values] : expected) {
    const std::vector<float>& got = actual.at(name);
    ASSERT_EQ(got.size(), values.size()) << name;
    const double bound = tolerance * std::max(largest(values), 1e-6);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(got[i], values[i], bound) << name << " element " << i;
    }
  }
}

void expect_same_training(const MeshRun& actual, const MeshRun& expected) {
  expect_near_each(actual.gradients, expected.gradients, 2e-5);
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (size_t i = 0; i < actual.losses.size(); ++i) {
    EXPECT_NEAR(actual.losses[i], expected.losses[i], 1e-5 * expected.losses[i]) << "step " << i;
  }
  EXPECT_NEAR(actual.grad_norms[0], expected.grad_norms[0], 1e-5 * expected.grad_norms[0]);
  for (bool as_planned : actual.as_planned) EXPECT_TRUE(as_planned);
}

// Under every strategy, with random delays that differ from rank to rank.
void expect_same_bits(Config config, const NamedMesh& mesh) {
  MeshRun first;
  config.device.jitter_seed = 7;
  for (const NamedStrategy& strategy : kStrategies) {
    set_strategy(config, strategy);
    const MeshRun run = run_on_mesh(config, mesh.mesh, mesh.ranks, 2, false);
    if (first.losses.empty()) first = run;
    EXPECT_TRUE(run.same_bits(first)) << strategy.name;
    for (bool as_planned : run.as_planned) EXPECT_TRUE(as_planned) << strategy.name;
  }
}

Config deepseek() {
  Config config = tiny_deepseek();
  config.train.micro_batch = 1;
  config.deepseek.seq_aux_loss = 1e-3;
  config.deepseek.router_z_loss = 1e-3;
  config.deepseek.num_nextn_predict_layers = 1;
  return config;
}

constexpr int kSteps = 20;

const MeshRun& alone(const Config& config) {
  static std::map<ModelFamily, MeshRun> runs;
  if (!runs.contains(config.family)) runs[config.family] = run_on_mesh(config, {}, 1, kSteps);
  return runs[config.family];
}

// What every build runs, the sanitizers' too.

TEST(Mesh, LlamaTrainsOnTensorAndFsdpRanks) {
  const NamedMesh mesh{"", {.data = 1, .fsdp = 2, .tensor = 2}, 4};
  expect_same_training(run_on_mesh(mesh_llama(), mesh.mesh, mesh.ranks, 2), run_on_mesh(mesh_llama(), {}, 1, 2));
}

TEST(Mesh, DeepseekTrainsOnExpertAndFsdpRanks) {
  Config config = deepseek();
  config.deepseek.num_hidden_layers = 2;
  const NamedMesh mesh{"", {.data = 1, .fsdp = 2, .expert = 2}, 4};
  expect_same_training(run_on_mesh(config, mesh.mesh, mesh.ranks, 2), run_on_mesh(config, {}, 1, 2));
}

TEST(Mesh, OffloadBesideCollectivesChangesNoBit) {
  Config config = mesh_llama();
  const MeshConfig mesh{.data = 1, .fsdp = 2};
  config.device.jitter_seed = 3;
  const MeshRun kept = run_on_mesh(config, mesh, 2, 2, false);
  config.activation.policy = "minimal_offloaded";
  EXPECT_TRUE(run_on_mesh(config, mesh, 2, 2, false).same_bits(kept));
}

// All meshes.

class SlowLlamaMesh : public ::testing::TestWithParam<NamedMesh> {};

TEST_P(SlowLlamaMesh, TrainsAsOneRankDoes) {
  expect_same_training(run_on_mesh(mesh_llama(), GetParam().mesh, GetParam().ranks, kSteps),
                       alone(mesh_llama()));
}

TEST_P(SlowLlamaMesh, StrategiesDoNotChangeABit) { expect_same_bits(mesh_llama(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Meshes, SlowLlamaMesh,
    ::testing::Values(NamedMesh{"Data4", {.data = 4}, 4},
                      NamedMesh{"Fsdp4", {.data = 1, .fsdp = 4}, 4},
                      NamedMesh{"Data2Fsdp2", {.data = 2, .fsdp = 2}, 4},
                      NamedMesh{"Tensor2Fsdp2", {.data = 1, .fsdp = 2, .tensor = 2}, 4},
                      NamedMesh{"Tensor4SharedKeyHeads", {.data = 1, .tensor = 4}, 4},
                      NamedMesh{"Data2Fsdp2Tensor2", {.data = 2, .fsdp = 2, .tensor = 2}, 8}),
    name_of_mesh);

class SlowDeepseekMesh : public ::testing::TestWithParam<NamedMesh> {};

TEST_P(SlowDeepseekMesh, TrainsAsOneRankDoes) {
  expect_same_training(run_on_mesh(deepseek(), GetParam().mesh, GetParam().ranks, kSteps),
                       alone(deepseek()));
}

TEST_P(SlowDeepseekMesh, StrategiesDoNotChangeABit) {
  Config config = deepseek();
  config.deepseek.num_hidden_layers = 2;  // one with experts, one dense
  expect_same_bits(config, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, SlowDeepseekMesh,
    ::testing::Values(NamedMesh{"Data4", {.data = 4}, 4},
                      NamedMesh{"Fsdp4", {.data = 1, .fsdp = 4}, 4},
                      NamedMesh{"Data2Fsdp2", {.data = 2, .fsdp = 2}, 4},
                      NamedMesh{"Tensor4", {.data = 1, .tensor = 4}, 4},
                      NamedMesh{"Tensor2Fsdp2", {.data = 1, .fsdp = 2, .tensor = 2}, 4},
                      NamedMesh{"Expert4", {.data = 1, .expert = 4}, 4},
                      NamedMesh{"Expert2Fsdp2", {.data = 1, .fsdp = 2, .expert = 2}, 4},
                      NamedMesh{"Expert2Tensor2", {.data = 1, .tensor = 2, .expert = 2}, 4},
                      NamedMesh{"Expert2Fsdp2Tensor2",
                                {.data = 1, .fsdp = 2, .tensor = 2, .expert = 2}, 8},
                      NamedMesh{"AllFourAxes",
                                {.data = 2, .fsdp = 2, .tensor = 2, .expert = 2}, 16}),
    name_of_mesh);

}  // namespace
}  // namespace spillway
