#include "trainer/router_stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace spillway {

void RouterStatsSum::add_layer(std::span<const int32_t> load, std::span<const float> bias) {
  const auto experts = load.first(load.size() - 1);
  const double total = std::accumulate(experts.begin(), experts.end(), 0.0);
  const auto count = static_cast<double>(experts.size());
  double entropy = 0;
  for (int32_t choices : experts) {
    const double relative = total > 0 ? choices * count / total : 0;
    const bool first = layers_ == 0 && &choices == experts.data();
    stats_.load_min = first ? relative : std::min(stats_.load_min, relative);
    stats_.load_max = std::max(stats_.load_max, relative);
    if (choices > 0) entropy -= choices / total * std::log(choices / total);
  }
  entropy_sum_ += experts.size() > 1 ? entropy / std::log(count) : 1;
  stats_.dropped_choices += load.back();
  for (float b : bias) {
    stats_.bias_min = std::min(stats_.bias_min, static_cast<double>(b));
    stats_.bias_max = std::max(stats_.bias_max, static_cast<double>(b));
  }
  ++layers_;
}

RouterStats RouterStatsSum::finish(double router_loss) const {
  RouterStats stats = stats_;
  stats.load_entropy = entropy_sum_ / layers_;
  stats.router_loss = router_loss;
  return stats;
}

}  // namespace spillway
