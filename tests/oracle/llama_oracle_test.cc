// Llama against Hugging Face transformers in f32.
#include "tests/oracle/golden.h"

namespace spillway {
namespace {

Config llama_config(const Golden& golden) {
  Config config = golden_run(golden);
  const nlohmann::json json = golden.config();
  LlamaConfig& c = config.llama;
  c.vocab_size = json.at("vocab_size");
  c.hidden_size = json.at("hidden_size");
  c.intermediate_size = json.at("intermediate_size");
  c.num_hidden_layers = json.at("num_hidden_layers");
  c.num_attention_heads = json.at("num_attention_heads");
  c.num_key_value_heads = json.at("num_key_value_heads");
  c.head_dim = json.value("head_dim", c.hidden_size / c.num_attention_heads);
  c.rms_norm_eps = json.at("rms_norm_eps");
  c.rope_theta = json.at("rope_theta");
  c.tie_word_embeddings = json.at("tie_word_embeddings");
  const nlohmann::json scaling = json.value("rope_scaling", nlohmann::json());
  if (!scaling.is_null()) {
    c.rope_scaling = {.factor = scaling.at("factor"),
                      .low_freq_factor = scaling.at("low_freq_factor"),
                      .high_freq_factor = scaling.at("high_freq_factor"),
                      .original_max_position_embeddings =
                          scaling.at("original_max_position_embeddings")};
  }
  return config;
}

class LlamaOracle : public ::testing::TestWithParam<const char*> {};

TEST_P(LlamaOracle, LogitsLossAndGradients) {
  const Golden golden(GetParam());
  Session session(llama_config(golden));
  load_parameters(golden, session);
  expect_first_step(golden, session);
}

TEST_P(LlamaOracle, TwentyStepsOfAdamW) {
  const Golden golden(GetParam());
  Session session(llama_config(golden));
  load_parameters(golden, session);
  expect_curve(golden, session);
}

INSTANTIATE_TEST_SUITE_P(Goldens, LlamaOracle,
                         ::testing::Values("llama_gqa_tied", "llama_gqa_untied", "llama_rope31",
                                           "llama_mha_one_layer"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace spillway
