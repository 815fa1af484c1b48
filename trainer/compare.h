// `spillway compare`: one config under the five activation strategies, side by side.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "parallel/world.h"
#include "trainer/config.h"

namespace spillway {

struct StrategyRun {
  std::string name;
  double loss = 0;            // of the last step
  double step_seconds = 0;    // median
  double tflops_per_device = 0;
  int64_t hbm_planned = 0, hbm_measured = 0, host_measured = 0;  // bytes, peaks
  int64_t bytes_moved = 0;      // per step, both directions
  double copy_seconds = 0;      // median per step: copies running
  double exposed_seconds = 0;   // median per step: compute waiting for them, or for collectives
  bool same_bits = true;        // losses and gradient norms of every step equal the first run's
};

// keep, remat, and offload naive, latency-hidden and pipelined. Offload moves what the config's
// policy offloads when it does offload something, else policy minimal_offloaded.
[[nodiscard]] std::vector<Config> five_strategies(const Config& config);

// Runs each for `steps` steps on the same batches, with a line of progress per run on `out`, and
// ends with a table.
std::vector<StrategyRun> compare_strategies(const Config& config, int64_t steps, World& world,
                                            std::ostream& out);

}  // namespace spillway
