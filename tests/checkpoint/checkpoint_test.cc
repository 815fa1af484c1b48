// A run that was stopped goes on as if it had not been: to the bit on its mesh, and from the same bits on
// any other.
#include <gmock/gmock.h>

#include "tests/checkpoint/checkpointed.h"
#include "tests/trainer/temp_dir.h"
#include "trainer/checkpoint_folders.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

void expect_same_bits(const States& actual, const States& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, bytes] : expected) EXPECT_TRUE(actual.at(name) == bytes) << name;
}

// 6 + 6 steps against 12.
void expect_resumes(const Config& config, const NamedMesh& mesh) {
  const TempDir dir;
  const Trained straight = train(config, mesh, {0, 12});
  const Trained first = train(config, mesh, {0, 6, {}, dir.path()});
  const Trained second = train(config, mesh, {6, 12, checkpoint_folder(dir.path(), 6)});
  expect_same_bits(second.begin, first.end);
  expect_same_bits(second.end, straight.end);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(second.losses[i], straight.losses[6 + i]) << i;
    EXPECT_EQ(second.grad_norms[i], straight.grad_norms[6 + i]) << i;
  }
}

TEST(Resume, LlamaToTheBit) { expect_resumes(llama(), kAlone); }

TEST(Resume, DeepseekToTheBit) {
  const auto state = state_of(build_model(deepseek()));
  const auto biases = std::ranges::count_if(state, [](const auto& named) {
    return named.first.ends_with("e_score_correction_bias") && !named.second.divided;
  });
  EXPECT_GE(biases, 1) << "or the test is of less than it says";
  expect_resumes(deepseek(), kAlone);
}

TEST(Resume, Bf16WithMastersToTheBit) {
  EXPECT_TRUE(state_of(build_model(in_bf16(llama()))).contains("model.norm.weight.master"));
  expect_resumes(in_bf16(llama()), kAlone);
  expect_resumes(in_bf16(deepseek()), {"", {.data = 1, .fsdp = 2}, 2});
}

TEST(Resume, OnItsMeshToTheBit) {
  expect_resumes(llama(), {"", {.data = 2, .tensor = 2}, 4});
  Config optimizer_only = llama();
  optimizer_only.parallel.optimizer_only = true;
  expect_resumes(optimizer_only, {"", {.data = 1, .fsdp = 2}, 2});
}

// Written by the first mesh, carried through the others.
void expect_carried(const Config& config, const std::vector<NamedMesh>& meshes) {
  const Trained straight = train(config, meshes[0], {0, 3 * static_cast<int64_t>(meshes.size())});
  const TempDir dir;
  Trained before = train(config, meshes[0], {0, 3, {}, dir.path()});
  for (size_t i = 1; i < meshes.size(); ++i) {
    SCOPED_TRACE(meshes[i].name);
    const int64_t step = 3 * static_cast<int64_t>(i);
    Trained part = train(config, meshes[i],
                         {step, step + 3, checkpoint_folder(dir.path(), step), dir.path()});
    expect_same_bits(part.begin, before.end);
    for (int64_t s = 0; s < 3; ++s) {
      EXPECT_NEAR(part.losses[s], straight.losses[step + s], 1e-6 * straight.losses[step + s]);
    }
    before = std::move(part);
  }
}

TEST(OtherMesh, LlamaGoesOnFromTheSameBits) {
  expect_carried(llama(), {{"Fsdp4", {.data = 1, .fsdp = 4}, 4},
                           {"Fsdp2", {.data = 1, .fsdp = 2}, 2},
                           {"Data2Fsdp2", {.data = 2, .fsdp = 2}, 4},
                           {"Tensor2", {.data = 1, .tensor = 2}, 2},  // a vocabulary of 97, padded
                           {"Fsdp2Tensor4", {.data = 1, .fsdp = 2, .tensor = 4}, 8},  // shared heads
                           kAlone,
                           {"Data2Fsdp4", {.data = 2, .fsdp = 4}, 8}});
}

TEST(OtherMesh, DeepseekGoesOnFromTheSameBits) {
  expect_carried(deepseek(), {{"Fsdp4", {.data = 1, .fsdp = 4}, 4},
                              {"Expert2", {.data = 1, .expert = 2}, 2},
                              {"Fsdp2Expert2", {.data = 1, .fsdp = 2, .expert = 2}, 4},
                              {"Tensor2", {.data = 1, .tensor = 2}, 2}});
}

TEST(OtherMesh, Bf16WithMasters) {
  const TempDir dir;
  const NamedMesh four{"", {.data = 1, .fsdp = 4}, 4}, two{"", {.data = 1, .tensor = 2}, 2};
  const Trained before = train(in_bf16(llama()), four, {0, 2, {}, dir.path()});
  expect_same_bits(train(in_bf16(llama()), two, {2, 2, checkpoint_folder(dir.path(), 2)}).begin,
                   before.end);
}

TEST(CheckpointFiles, ReplicasWriteNothingTwice) {
  const TempDir one, four;
  (void)train(llama(), kAlone, {0, 0, {}, one.path()});
  (void)train(llama(), {"", {.data = 2, .fsdp = 2}, 4}, {0, 0, {}, four.path()});
  int64_t elements = 0;
  const Manifest manifest = read_manifest(checkpoint_folder(four.path(), 0));
  ASSERT_EQ(manifest.files.size(), 2U);
  EXPECT_EQ(manifest.files[1].name, "rank_00001.safetensors");
  for (const auto& [name, tensor] : manifest.tensors) {
    for (const auto& [file, layout] : manifest.layouts[tensor.layout].of_file) {
      elements += layout.part.end - layout.part.begin;
    }
  }
  int64_t expected = 0;
  for (const auto& [name, tensor] : read_manifest(checkpoint_folder(one.path(), 0)).tensors) {
    expected += element_count(tensor.shape);
  }
  EXPECT_EQ(elements, expected);
}

TEST(CheckpointFiles, AllRanksLearnWhyThereIsNone) {
  const TempDir dir;
  const std::string file = dir.write("file", "in the way");
  std::vector<std::string> why(2);
  Config config = llama();
  config.device.threads = 1;
  config.parallel.mesh = {.data = 1, .fsdp = 2};
  on_thread_ranks(2, [&](World& world) {
    const Session session(config, &world);
    why[world.rank()] = save_checkpoint(file, {1, 8}, session, world);
  });
  EXPECT_THAT(why[0], HasSubstr(file));
  EXPECT_EQ(why[1], why[0]);
}

TEST(CheckpointFiles, AnotherModelIsSeen) {
  const TempDir dir;
  (void)train(llama(), kAlone, {0, 0, {}, dir.path()});
  const Manifest manifest = read_manifest(checkpoint_folder(dir.path(), 0));
  const auto difference = [&](const Config& config) {
    return state_difference(manifest, state_of(build_model(config)));
  };
  EXPECT_EQ(difference(llama()), "");
  Config other = llama();
  other.llama.num_hidden_layers = 1;
  EXPECT_THAT(difference(other), HasSubstr("which the model has not"));
  other.llama.num_hidden_layers = 3;
  EXPECT_THAT(difference(other), HasSubstr("it has no model.layers.2."));
  EXPECT_THAT(difference(in_bf16(llama())), HasSubstr("as f32 "));
}

}  // namespace
}  // namespace spillway
