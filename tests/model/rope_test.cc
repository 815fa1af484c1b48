// Rotary frequencies against transformers' own, at the real sizes of published models.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace spillway {
namespace {

TEST(Rope, FrequenciesAndMscalesAreThoseOfTransformers) {
  std::ifstream file(std::string(SPILLWAY_SOURCE_DIR) + "/tests/data/rope.json");
  for (const nlohmann::json& golden : nlohmann::json::parse(file)) {
    const nlohmann::json scaling = golden["config"]["rope_scaling"];
    const int64_t dim = golden["dim"];
    const double theta = golden["config"]["rope_theta"];
    std::vector<double> frequencies = rope_frequencies(dim, theta);
    double amplitude = 1, softmax_factor = 1;
    if (scaling.is_object() && scaling.contains("mscale")) {
      const YarnScaling yarn{scaling["factor"], scaling["original_max_position_embeddings"],
                             scaling["beta_fast"], scaling["beta_slow"], scaling["mscale"],
                             scaling["mscale_all_dim"]};
      frequencies = yarn_frequencies(dim, theta, yarn);
      amplitude = yarn_amplitude(yarn);
      softmax_factor = std::pow(yarn_mscale(yarn.factor, yarn.mscale_all_dim), 2);
    } else if (scaling.is_object()) {
      frequencies = llama3_frequencies(
          frequencies, {scaling["factor"], scaling["low_freq_factor"],
                        scaling["high_freq_factor"], scaling["original_max_position_embeddings"]});
    }
    const auto expected = golden["inv_freq"].get<std::vector<double>>();
    ASSERT_EQ(frequencies.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(frequencies[i], expected[i], 1e-12 * expected[i]) << golden["name"] << " " << i;
    }
    EXPECT_NEAR(amplitude, golden["attention_scaling"].get<double>(), 1e-12) << golden["name"];
    EXPECT_NEAR(softmax_factor, golden["softmax_scale_factor"].get<double>(), 1e-12)
        << golden["name"];
  }
}

TEST(Rope, TableHoldsCosAndSinOfEachPosition) {
  const std::vector<float> table = rope_table({1.0, 0.5}, 3, 2.0);
  ASSERT_EQ(table.size(), 12U);
  EXPECT_FLOAT_EQ(table[0], 2);  // position 0
  EXPECT_FLOAT_EQ(table[1], 0);
  EXPECT_FLOAT_EQ(table[8], static_cast<float>(2 * std::cos(2.0)));
  EXPECT_FLOAT_EQ(table[11], static_cast<float>(2 * std::sin(1.0)));
}

}  // namespace
}  // namespace spillway
