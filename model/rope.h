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

// [seq_len, rope_dim/2, 2]: cos and sin of position * frequency, times `amplitude`.
[[nodiscard]] std::vector<float> rope_table(const std::vector<double>& frequencies, int64_t seq_len,
                                            double amplitude = 1);

}  // namespace spillway
