// What is damaged is named, never loaded, and passed over where it was not asked for.
#include <gmock/gmock.h>

#include <fstream>
#include <random>

#include "program/error.h"
#include "tests/checkpoint/checkpointed.h"
#include "tests/trainer/temp_dir.h"
#include "trainer/checkpoint_folders.h"
#include "trainer/resume.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

// Checkpoints after 2 and 4 steps, by two ranks.
class Damage : public ::testing::Test {
 protected:
  Damage() {
    const NamedMesh mesh{"", {.data = 1, .fsdp = 2}, 2};
    (void)train(llama(), mesh, {0, 2, {}, dir_.path()});
    (void)train(llama(), mesh, {0, 4, {}, dir_.path()});
    config_ = llama();
    config_.checkpoint.directory = dir_.path().string();
  }

  std::optional<Resume> resume(const std::string& how = "auto") {
    config_.checkpoint.resume = how;
    warnings_.clear();
    return find_resume(config_, *solo_world(),
                       [&](const std::string& why) { warnings_.push_back(why); });
  }

  // `reason` stands in the warning, and in the error when the checkpoint is asked for by name.
  void expect_passed_over(const std::string& reason) {
    const std::optional<Resume> found = resume();
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->manifest.step, 2);
    EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("step_00000004 is damaged"),
                                             HasSubstr(reason))));
    EXPECT_THAT(message_of<DataError>([&] { (void)resume(newest_.string()); }),
                AllOf(HasSubstr(newest_.string()), HasSubstr(reason)));
  }

  static void flip(const fs::path& path, int64_t byte, int bit) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(byte);
    const int value = file.get();
    file.seekp(byte);
    file.put(static_cast<char>(value ^ (1 << bit)));
  }

  TempDir dir_;
  fs::path newest_ = checkpoint_folder(dir_.path(), 4);
  fs::path file_ = newest_ / "rank_00001.safetensors";
  Config config_;
  std::vector<std::string> warnings_;
};

TEST_F(Damage, NoneTakesTheNewest) {
  const std::optional<Resume> found = resume();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->checkpoint, newest_);
  EXPECT_EQ(found->manifest.position, 32);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(Damage, TruncatedFile) {
  fs::resize_file(file_, fs::file_size(file_) - 1);
  expect_passed_over("rank_00001.safetensors has ");
}

TEST_F(Damage, EmptyFile) {
  fs::resize_file(file_, 0);
  expect_passed_over("rank_00001.safetensors has 0 bytes; ");
}

TEST_F(Damage, MissingFile) {
  fs::remove(file_);
  expect_passed_over("rank_00001.safetensors");
}

TEST_F(Damage, MissingManifest) {
  fs::remove(manifest_path(newest_));
  expect_passed_over("manifest.json is missing");
}

TEST_F(Damage, TruncatedManifest) {
  fs::resize_file(manifest_path(newest_), fs::file_size(manifest_path(newest_)) / 2);
  expect_passed_over("manifest.json: ");
}

TEST_F(Damage, AnotherFormat) {
  const std::string name = fs::relative(manifest_path(newest_), dir_.path()).string();
  std::string text = dir_.read(name);
  text.replace(text.find("\"format\": 1"), 11, "\"format\": 2");
  dir_.write(name, text);
  expect_passed_over("format 2; this program reads 1");
}

TEST_F(Damage, EveryFlippedBitIsSeen) {
  std::mt19937_64 random(5);
  for (const fs::path& path : {file_, manifest_path(newest_)}) {
    const std::string before = dir_.read(fs::relative(path, dir_.path()).string());
    for (int i = 0; i < 60; ++i) {
      const auto byte = static_cast<int64_t>(random() % before.size());
      const int bit = static_cast<int>(random() % 8);
      if (before[byte] == ' ' || before[byte] == '\n') continue;  // may be layout, which means nothing
      flip(path, byte, bit);
      const std::optional<Resume> found = resume();
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(found->manifest.step, 2) << path << " byte " << byte << " bit " << bit;
      flip(path, byte, bit);
    }
  }
  EXPECT_EQ(resume()->manifest.step, 4);
}

TEST_F(Damage, WhatOneRankFindsAllPassOver) {
  fs::resize_file(file_, 0);  // the second file: the second rank's to read
  std::vector<int64_t> steps(2);
  std::vector<std::vector<std::string>> warnings(2);
  on_thread_ranks(2, [&](World& world) {
    const std::optional<Resume> found = find_resume(
        config_, world, [&](const std::string& why) { warnings[world.rank()].push_back(why); });
    steps[world.rank()] = found ? found->manifest.step : 0;
  });
  EXPECT_THAT(steps, ElementsAre(2, 2));
  EXPECT_THAT(warnings[0], ElementsAre(HasSubstr("rank_00001.safetensors has 0 bytes; ")));
  EXPECT_EQ(warnings[1], warnings[0]);
}

TEST_F(Damage, RanksThatAskForDifferentThingsAreTold) {
  EXPECT_THAT(message_of<ConfigError>([&] {
                on_thread_ranks(2, [&](World& world) {
                  Config mine = config_;
                  if (world.rank() == 1) mine.checkpoint.resume = "none";
                  (void)find_resume(mine, world, [](const std::string&) {});
                });
              }),
              HasSubstr("rank 1 does not run what rank 0 runs: it has checkpoint.resume none"));
}

TEST_F(Damage, AllOfThemIsAnError) {
  fs::remove(manifest_path(newest_));
  fs::resize_file(checkpoint_folder(dir_.path(), 2) / "rank_00000.safetensors", 9);
  EXPECT_THAT(message_of<DataError>([&] { (void)resume(); }),
              HasSubstr("every checkpoint in " + dir_.path().string() + " is damaged"));
  EXPECT_EQ(warnings_.size(), 2U);
}

TEST_F(Damage, PartialFoldersAreNotLookedAt) {
  fs::rename(newest_, partial_of(newest_));
  EXPECT_EQ(resume()->manifest.step, 2);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(Damage, ADamagedOneOfTheSameStepIsReplaced) {
  fs::resize_file(file_, 0);
  (void)train(llama(), kAlone, {0, 4, {}, dir_.path()});
  EXPECT_EQ(resume()->checkpoint, newest_);
  EXPECT_FALSE(fs::exists(file_)) << "one rank wrote it";
  EXPECT_THAT(checkpoints_in(dir_.path()), ::testing::SizeIs(2));
}

TEST_F(Damage, OtherModelsAndTypesAreRefusedByKey) {
  config_.llama.hidden_size = 64;
  config_.precision.moments = DType::kBF16;
  EXPECT_THAT(message_of<ConfigError>([&] { (void)resume(); }),
              AllOf(HasSubstr("model.hidden_size is 64; the checkpoint's is 32"),
                    HasSubstr("precision.moments is \"bf16\"; the checkpoint's is \"f32\"")));
}

TEST_F(Damage, WhatMayDifferMay) {
  config_.train.steps = 7;
  config_.schedule.learning_rate = 1;
  config_.activation.policy = "full";
  config_.parallel.mesh.fsdp = 8;
  config_.precision.gradients = DType::kBF16;
  EXPECT_TRUE(resume().has_value());
  EXPECT_THAT(warnings_, IsEmpty());
  config_.train.seed = 4;
  EXPECT_TRUE(resume().has_value());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("train.seed is 4; the checkpoint's is 3")));
}

TEST_F(Damage, TwoRunsAreNotMixed) {
  EXPECT_FALSE(resume("none").has_value()) << "it writes none";
  config_.checkpoint.every = 1;
  EXPECT_THAT(message_of<ConfigError>([&] { (void)resume("none"); }),
              HasSubstr("holds step_00000004, which this run has not made"));
  const std::string older = checkpoint_folder(dir_.path(), 2).string();
  EXPECT_THAT(message_of<ConfigError>([&] { (void)resume(older); }), HasSubstr("step_00000004"));
  EXPECT_EQ(resume(newest_.string())->manifest.step, 4);
}

TEST(Retention, KeepsTheNewestAndMultiples) {
  const TempDir dir;
  for (const int step : {10, 20, 30, 40, 50, 60, 70}) {
    dir.write(checkpoint_folder("", step).string() + "/manifest.json", "{}");
  }
  dir.write("step_x/manifest.json", "somebody's");
  const auto steps = [&] {
    std::vector<int64_t> found;
    for (const auto& [step, folder] : checkpoints_in(dir.path())) found.push_back(step);
    return found;
  };
  CheckpointConfig config{.directory = dir.path().string(), .keep = 0};
  remove_old_checkpoints(config, 60);
  EXPECT_THAT(steps(), ElementsAre(10, 20, 30, 40, 50, 60, 70));
  config.keep = 2;
  config.keep_every = 20;
  remove_old_checkpoints(config, 60);  // 70 is behind it: not this run's business
  EXPECT_THAT(steps(), ElementsAre(20, 40, 50, 60, 70));
  config.keep_every = 0;
  remove_old_checkpoints(config, 70);
  EXPECT_THAT(steps(), ElementsAre(60, 70));
  EXPECT_TRUE(fs::exists(dir.path("step_x/manifest.json")));
}

}  // namespace
}  // namespace spillway
