#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace spillway {

std::vector<double> rope_frequencies(int64_t rope_dim, double theta) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < rope_dim / 2; ++i) {
    frequencies.push_back(
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rope_dim)));
  }
  return frequencies;
}

std::vector<double> llama3_frequencies(std::vector<double> frequencies,
                                       const RopeScaling& scaling) {
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const double low_wavelength = original / scaling.low_freq_factor;
  const double high_wavelength = original / scaling.high_freq_factor;
  for (double& f : frequencies) {
    const double wavelength = 2 * std::numbers::pi / f;
    if (wavelength > low_wavelength) {
      f /= scaling.factor;
    } else if (wavelength >= high_wavelength) {
      const double smooth = (original / wavelength - scaling.low_freq_factor) /
                            (scaling.high_freq_factor - scaling.low_freq_factor);
      f = (1 - smooth) * f / scaling.factor + smooth * f;
    }
  }
  return frequencies;
}

std::vector<double> yarn_frequencies(int64_t rope_dim, double theta, const YarnScaling& scaling) {
  const auto dim = static_cast<double>(rope_dim);
  // The dimension whose frequency turns `turns` times within the original context.
  auto dimension_of = [&](double turns) {
    return dim *
           std::log(static_cast<double>(scaling.original_max_position_embeddings) /
                    (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  const double low = std::max(std::floor(dimension_of(scaling.beta_fast)), 0.0);
  double high = std::min(std::ceil(dimension_of(scaling.beta_slow)), dim - 1);
  if (low == high) high += 0.001;  // a step instead of a division by zero
  std::vector<double> frequencies = rope_frequencies(rope_dim, theta);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / scaling.factor * ramp + frequencies[i] * (1 - ramp);
  }
  return frequencies;
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

double yarn_amplitude(const YarnScaling& scaling) {
  if (scaling.mscale == 0 || scaling.mscale_all_dim == 0) return yarn_mscale(scaling.factor, 1);
  return yarn_mscale(scaling.factor, scaling.mscale) /
         yarn_mscale(scaling.factor, scaling.mscale_all_dim);
}

std::vector<float> rope_table(const std::vector<double>& frequencies, int64_t seq_len,
                              double amplitude) {
  std::vector<float> table;
  table.reserve(static_cast<size_t>(seq_len) * frequencies.size() * 2);
  for (int64_t position = 0; position < seq_len; ++position) {
    for (double f : frequencies) {
      const double angle = static_cast<double>(position) * f;
      table.push_back(static_cast<float>(amplitude * std::cos(angle)));
      table.push_back(static_cast<float>(amplitude * std::sin(angle)));
    }
  }
  return table;
}

}  // namespace spillway
