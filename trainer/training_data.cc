#include "trainer/training_data.h"

#include <fmt/format.h>

#include "trainer/shard_source.h"
#include "trainer/synthetic_source.h"
#include "trainer/text_source.h"

namespace spillway {
namespace {

constexpr int64_t kSyntheticTokens = int64_t{1} << 40;

using Source = std::shared_ptr<const TokenSource>;

Source open_source(const Config& config, const std::vector<std::string>& paths) {
  if (config.data.kind == DataKind::kSynthetic) {
    return std::make_shared<SyntheticSource>(kSyntheticTokens, config.vocab_size(),
                                             config.train.seed);
  }
  std::vector<Source> parts;
  for (const std::string& path : paths) {
    if (config.data.kind == DataKind::kText) {
      parts.push_back(std::make_shared<TextSource>(path));
    } else {
      parts.push_back(std::make_shared<ShardSource>(path, config.vocab_size()));
    }
  }
  return parts.size() == 1 ? parts.front() : std::make_shared<ConcatSource>(std::move(parts));
}

std::string describe(const std::vector<std::string>& paths) {
  if (paths.empty()) return "synthetic data";
  return paths.size() == 1 ? paths.front()
                           : fmt::format("{} (+{} files)", paths[0], paths.size() - 1);
}

// The same sequences on every mesh; what a rank's last batch has past them does not count.
std::shared_ptr<const Batcher> validation_batches(Source tokens, std::string name,
                                                  const TrainConfig& train, const BatchShare& share) {
  const int64_t wanted = train.eval_batches * train.micro_batch * train.seq_len + 1;
  if (wanted < tokens->size()) tokens = std::make_shared<SliceSource>(tokens, 0, wanted);
  return std::make_shared<Batcher>(std::move(tokens), BatcherOptions{.sequences = train.micro_batch,
                                                                     .seq_len = train.seq_len,
                                                                     .share = share,
                                                                     .name = std::move(name),
                                                                     .one_pass = true});
}

}  // namespace

TrainingData open_training_data(const Config& config, const Mesh& mesh) {
  const BatchShare share{.ranks = mesh.size(axis::kBatch), .rank = mesh.index(axis::kBatch),
                         .micro_batch = config.train.micro_batch};
  const DataConfig& data = config.data;
  Source train = open_source(config, data.paths), validation;
  std::string train_name = describe(data.paths), validation_name;
  if (!data.validation_paths.empty()) {
    validation = open_source(config, data.validation_paths);
    validation_name = describe(data.validation_paths);
  } else if (data.validation_fraction > 0) {
    const int64_t size = train->size();
    const auto split =
        size - static_cast<int64_t>(static_cast<double>(size) * data.validation_fraction);
    validation = std::make_shared<SliceSource>(train, split, size);
    train = std::make_shared<SliceSource>(train, 0, split);
    const double percent = 100 * data.validation_fraction;
    validation_name = fmt::format("the last {:.4g} % of {}", percent, train_name);
    train_name = fmt::format("{} without its last {:.4g} %", train_name, percent);
  }

  TrainingData result;
  result.train = std::make_shared<Batcher>(
      std::move(train), BatcherOptions{.sequences = config.train.batch_sequences(),
                                       .seq_len = config.train.seq_len,
                                       .shuffle = data.shuffle,
                                       .seed = config.train.seed,
                                       .share = share,
                                       .name = std::move(train_name)});
  if (validation && config.train.eval_every > 0) {
    result.validation =
        validation_batches(std::move(validation), std::move(validation_name), config.train, share);
  }
  return result;
}

}  // namespace spillway
