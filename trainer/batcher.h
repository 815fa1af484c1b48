// Batches of sequences with next-token targets, as a pure function of the position in the data.
//
// Sequence i of a source is tokens [i*S, i*S + S); the target of each token is the one behind it, so
// the last target of a sequence is the first token of the next, and a source of n tokens holds
// (n - 1) / S sequences.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/token_source.h"

namespace spillway {

inline constexpr int32_t kIgnoredTarget = -100;

struct Batch {
  // sequences x seq_len, row by row. Micro-batch m of b sequences is rows [m*b, m*b + b): how a batch
  // is cut never changes what is in it.
  std::vector<int32_t> tokens, targets;
  int64_t valid_targets = 0;  // targets that count
  int64_t position = 0;       // in sequences, behind this step's: where the next one begins
};

// A rank's share of a step: micro-batch m of rank r is the m * ranks + r -th run of `micro_batch`
// sequences. So the sequences of a step are the same set for every mesh.
struct BatchShare {
  int64_t ranks = 1, rank = 0;  // of those that have sequences of their own
  int64_t micro_batch = 0;      // sequences; 0: all
};

struct BatcherOptions {
  int64_t sequences = 1;  // of a rank's batch, all micro-batches together
  int64_t seq_len = 1;
  bool shuffle = false;
  uint64_t seed = 0;
  BatchShare share = {};
  std::string name = "data";  // for messages
  // For evaluation: one pass, and rows past the end are ignored targets. Otherwise a batch that
  // reaches the end of an epoch goes on in the next.
  bool one_pass = false;
};

class Batcher {
 public:
  // Throws DataError when the source is shorter than one batch (one_pass: than one sequence).
  Batcher(std::shared_ptr<const TokenSource> source, BatcherOptions options);

  [[nodiscard]] int64_t sequences_per_epoch() const { return sequences_per_epoch_; }
  [[nodiscard]] const BatcherOptions& options() const { return options_; }

  // The batch at `position`: sequences consumed since the start of epoch 0. In every epoch each
  // sequence comes once, in an order that depends on (seed, epoch). May run on several threads.
  // Allocates only while `batch` is smaller than needed.
  void fill(int64_t position, Batch& batch) const;

 private:
  [[nodiscard]] int64_t sequence_at(int64_t position) const;  // -1: past the end of the one pass

  std::shared_ptr<const TokenSource> source_;
  BatcherOptions options_;
  int64_t sequences_per_epoch_;
};

}  // namespace spillway
