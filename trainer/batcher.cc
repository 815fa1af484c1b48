#include "trainer/batcher.h"

#include <fmt/format.h>

#include <algorithm>

#include "program/error.h"
#include "trainer/mix64.h"
#include "trainer/permutation.h"

namespace spillway {

Batcher::Batcher(std::shared_ptr<const TokenSource> source, BatcherOptions options)
    : source_(std::move(source)),
      options_(std::move(options)),
      sequences_per_epoch_((source_->size() - 1) / options_.seq_len) {
  if (options_.share.micro_batch == 0) options_.share.micro_batch = options_.sequences;
  const int64_t needed = options_.one_pass ? 1 : options_.sequences * options_.share.ranks;
  if (sequences_per_epoch_ >= needed) return;
  throw DataError(fmt::format(
      "{} holds {} tokens, which make {} sequences of seq_len {}; {}{} needs {} sequences, {} tokens",
      options_.name, source_->size(), sequences_per_epoch_, options_.seq_len,
      options_.one_pass ? "evaluation" : "one batch (micro_batch x accumulation",
      options_.one_pass ? "" : options_.share.ranks > 1 ? " x ranks)" : ")", needed, needed * options_.seq_len + 1));
}

void Batcher::fill(int64_t position, Batch& batch) const {
  const int64_t length = options_.seq_len;
  const BatchShare& share = options_.share;
  const auto elements = static_cast<size_t>(options_.sequences * length);
  batch.tokens.resize(elements);
  batch.targets.resize(elements);
  batch.valid_targets = 0;
  for (int64_t row = 0; row < options_.sequences; ++row) {
    const auto tokens = std::span(batch.tokens).subspan(row * length, length);
    const auto targets = std::span(batch.targets).subspan(row * length, length);
    const int64_t run = row / share.micro_batch * share.ranks + share.rank;
    const int64_t sequence = sequence_at(position + run * share.micro_batch + row % share.micro_batch);
    if (sequence < 0) {
      std::ranges::fill(tokens, 0);
      std::ranges::fill(targets, kIgnoredTarget);
      continue;
    }
    source_->read(sequence * length, tokens);
    std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
    source_->read((sequence + 1) * length, targets.last(1));
    batch.valid_targets += length;
  }
  batch.position = position + options_.sequences * share.ranks;
}

int64_t Batcher::sequence_at(int64_t position) const {
  const int64_t epoch = position / sequences_per_epoch_;
  const int64_t index = position % sequences_per_epoch_;
  if (options_.one_pass && epoch > 0) return -1;
  if (!options_.shuffle) return index;
  const uint64_t key = mix64(options_.seed) ^ static_cast<uint64_t>(epoch);
  return Permutation(sequences_per_epoch_, key)(index);
}

}  // namespace spillway
