// The `data:` section, opened: where a run's batches come from.
#pragma once

#include <memory>

#include "trainer/batcher.h"
#include "trainer/config.h"

namespace spillway {

struct TrainingData {
  std::shared_ptr<const Batcher> train;
  // One pass over the first train.eval_batches x micro_batch validation sequences (or all there are),
  // in order, in batches of one micro-batch a rank; null when there are none.
  std::shared_ptr<const Batcher> validation;
};

// Opens and checks every file. This rank's share of every batch. Throws DataError and ConfigError.
[[nodiscard]] TrainingData open_training_data(const Config& config, const Mesh& mesh = {});

}  // namespace spillway
