// Rotary position tables, as Hugging Face transformers computes them.
#pragma once

#include <cstdint>
#include <vector>

namespace spillway {

// Llama 3.1's frequency scaling: long wavelengths are stretched by `factor`, short ones kept, those
// between are blended.
struct RopeScaling {
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
};

// theta^(-2i/rope_dim) for i < rope_dim/2.
[[nodiscard]] std::vector<double> rope_frequencies(int64_t rope_dim, double theta);
[[nodiscard]] std::vector<double> llama3_frequencies(std::vector<double> frequencies,
                                                     const RopeScaling& scaling);

// YaRN (Peng et al., 2023) as transformers computes it: frequencies that turn fewer than beta_slow
// times within the original context are divided by `factor`, those that turn more than beta_fast times
// are kept, those between are blended.
struct YarnScaling {
  double factor = 1;
  int64_t original_max_position_embeddings = 4096;
  double beta_fast = 32, beta_slow = 1;
  double mscale = 1, mscale_all_dim = 0;
};
[[nodiscard]] std::vector<double> yarn_frequencies(int64_t rope_dim, double theta,
                                                   const YarnScaling& scaling);
// 0.1 * mscale * ln(factor) + 1; 1 for a factor of at most 1.
[[nodiscard]] double yarn_mscale(double factor, double mscale);
// What cos and sin are multiplied by: the ratio of the two mscales, or yarn_mscale(factor, 1) when
// either is 0.
[[nodiscard]] double yarn_amplitude(const YarnScaling& scaling);

// [seq_len, rope_dim/2, 2]: cos and sin of position * frequency, times `amplitude`.
[[nodiscard]] std::vector<float> rope_table(const std::vector<double>& frequencies, int64_t seq_len,
                                            double amplitude = 1);

}  // namespace spillway
