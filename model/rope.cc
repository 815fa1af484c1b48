#include "model/rope.h"

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
