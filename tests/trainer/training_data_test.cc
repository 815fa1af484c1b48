#include "trainer/training_data.h"

#include <gmock/gmock.h>

#include "program/error.h"
#include "tests/trainer/temp_dir.h"
#include "trainer/shard_source.h"

namespace spillway {
namespace {

using testing::HasSubstr;

Config config_for(DataConfig data) {
  Config config;
  config.llama.vocab_size = 256;
  config.train.micro_batch = 2;
  config.train.accumulation = 3;
  config.train.seq_len = 10;
  config.train.eval_every = 1;
  config.data = std::move(data);
  return config;
}

TEST(TrainingData, TheLastFractionIsForValidation) {
  const TempDir dir;
  std::string text(1000, 'a');
  std::fill(text.begin() + 900, text.end(), 'z');
  const TrainingData data = open_training_data(config_for(
      {.kind = DataKind::kText, .paths = {dir.write("a.txt", text)}, .validation_fraction = 0.1}));
  EXPECT_EQ(data.train->sequences_per_epoch(), 89);
  EXPECT_EQ(data.train->options().sequences, 6);
  EXPECT_EQ(data.validation->sequences_per_epoch(), 9);
  EXPECT_EQ(data.validation->options().sequences, 2);
  EXPECT_TRUE(data.validation->options().one_pass);
  Batch batch;
  data.validation->fill(0, batch);
  EXPECT_EQ(batch.tokens, std::vector<int32_t>(20, 'z'));
  for (int64_t position = 0; position < 90; position += 6) {
    data.train->fill(position, batch);
    EXPECT_EQ(std::ranges::count(batch.targets, 'z'), 0);
  }
}

TEST(TrainingData, SeveralShardsAndAValidationFile) {
  const TempDir dir;
  std::vector<std::string> paths;
  for (int shard = 0; shard < 3; ++shard) {
    paths.push_back(dir.path(std::to_string(shard)).string());
    ShardWriter writer(paths.back(), 256);
    writer.append(std::vector<int32_t>(50 + shard, shard));
    writer.finish();
  }
  const TrainingData data = open_training_data(config_for(
      {.kind = DataKind::kTokens, .paths = {paths[0], paths[1]}, .validation_paths = {paths[2]}}));
  EXPECT_EQ(data.train->sequences_per_epoch(), 10);
  EXPECT_EQ(data.validation->sequences_per_epoch(), 5);
}

TEST(TrainingData, SyntheticNeedsNoFile) {
  Config config = config_for({.validation_fraction = 0.05});
  config.train.eval_every = 0;
  const TrainingData data = open_training_data(config);
  EXPECT_GT(data.train->sequences_per_epoch(), int64_t{1} << 32);
  EXPECT_EQ(data.validation, nullptr);
}

TEST(TrainingData, TooShortNamesTheFileAndTheSizes) {
  const TempDir dir;
  const std::string path = dir.write("a.txt", std::string(60, 'a'));
  EXPECT_THAT(message_of<DataError>([&] {
                (void)open_training_data(config_for({.kind = DataKind::kText, .paths = {path}}));
              }),
              HasSubstr("a.txt holds 60 tokens, which make 5 sequences of seq_len 10; one batch "
                        "(micro_batch x accumulation) needs 6 sequences, 61 tokens"));
}

}  // namespace
}  // namespace spillway
