// How evenly the routers of a mixture of experts spread one step's choices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace spillway {

struct RouterStats {
  // Load of an expert as a fraction of the mean load of its layer: 1 is even. Over all layers.
  double load_min = 0, load_max = 0;
  double load_entropy = 0;     // mean over layers of the load's entropy / ln(experts): 1 is even
  int64_t dropped_choices = 0;  // by expert capacity, all layers
  double bias_min = 0, bias_max = 0;
  double router_loss = 0;  // auxiliary losses, not part of the loss
};

class RouterStatsSum {
 public:
  // `load`: choices of each expert, then choices dropped. `bias` may be empty.
  void add_layer(std::span<const int32_t> load, std::span<const float> bias);
  [[nodiscard]] int layers() const { return layers_; }
  [[nodiscard]] RouterStats finish(double router_loss) const;

 private:
  RouterStats stats_;
  double entropy_sum_ = 0;
  int layers_ = 0;
};

}  // namespace spillway
