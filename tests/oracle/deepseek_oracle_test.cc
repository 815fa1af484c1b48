// DeepSeek-V3 and V2 against Hugging Face transformers in f32.
#include "tests/oracle/golden.h"

namespace spillway {
namespace {

void read_routing(const nlohmann::json& json, DeepseekConfig& c) {
  const std::string method = json.value("topk_method", "noaux_tc");
  c.sigmoid_scores = json.value("scoring_func", "sigmoid") == "sigmoid";
  c.router_bias = method == "noaux_tc";
  c.n_group = method == "greedy" ? 1 : json.at("n_group").get<int64_t>();
  c.topk_group = method == "greedy" ? 1 : json.at("topk_group").get<int64_t>();
  c.group_top = method == "noaux_tc" ? 2 : 1;
  c.n_routed_experts = json.at("n_routed_experts");
  c.n_shared_experts = json.at("n_shared_experts");
  c.num_experts_per_tok = json.at("num_experts_per_tok");
  c.moe_intermediate_size = json.at("moe_intermediate_size");
  c.first_k_dense_replace = json.at("first_k_dense_replace");
  c.norm_topk_prob = json.at("norm_topk_prob");
  c.routed_scaling_factor = json.at("routed_scaling_factor");
}

void read_rope(const nlohmann::json& json, DeepseekConfig& c) {
  c.rope_theta = json.at("rope_theta");
  c.rope_interleave = json.value("rope_interleave", true);
  const nlohmann::json yarn = json.value("rope_scaling", nlohmann::json());
  if (yarn.is_null()) return;
  c.rope_scaling = {.factor = yarn.at("factor"),
                    .original_max_position_embeddings =
                        yarn.at("original_max_position_embeddings"),
                    .beta_fast = yarn.at("beta_fast"),
                    .beta_slow = yarn.at("beta_slow"),
                    .mscale = yarn.at("mscale"),
                    .mscale_all_dim = yarn.at("mscale_all_dim")};
}

Config deepseek_config(const Golden& golden) {
  Config config = golden_run(golden);
  config.family = ModelFamily::kDeepseek;
  const nlohmann::json json = golden.config();
  DeepseekConfig& c = config.deepseek;
  c.vocab_size = json.at("vocab_size");
  c.hidden_size = json.at("hidden_size");
  c.intermediate_size = json.at("intermediate_size");
  c.num_hidden_layers = json.at("num_hidden_layers");
  c.num_attention_heads = json.at("num_attention_heads");
  c.q_lora_rank = json.at("q_lora_rank").is_null() ? 0 : json.at("q_lora_rank").get<int64_t>();
  c.kv_lora_rank = json.at("kv_lora_rank");
  c.qk_nope_head_dim = json.at("qk_nope_head_dim");
  c.qk_rope_head_dim = json.at("qk_rope_head_dim");
  c.v_head_dim = json.at("v_head_dim");
  c.rms_norm_eps = json.at("rms_norm_eps");
  c.tie_word_embeddings = json.at("tie_word_embeddings");
  read_routing(json, c);
  read_rope(json, c);
  return config;
}

void load(const Golden& golden, Session& session) {
  load_parameters(golden, session);
  for (const Block& block : session.compiled().model.blocks) {
    const std::string bias = block.prefix + kRouterBias;
    if (golden.has("param." + bias)) session.write(bias, golden.values<float>("param." + bias));
  }
}

class DeepseekOracle : public ::testing::TestWithParam<const char*> {};

TEST_P(DeepseekOracle, LogitsLossAndGradients) {
  const Golden golden(GetParam());
  Session session(deepseek_config(golden));
  load(golden, session);
  expect_first_step(golden, session);
}

// The chosen experts agree exactly; both sides ordered by expert.
TEST_P(DeepseekOracle, Routing) {
  const Golden golden(GetParam());
  Config config = deepseek_config(golden);
  Session session(config);
  load(golden, session);
  std::map<std::string, std::vector<int32_t>> experts;  // by buffer
  std::map<std::string, std::vector<float>> weights;
  session.watch(
      golden.batch(),
      [&](const std::string& name, std::vector<float> values) {
        weights[name] = std::move(values);
      },
      [&](const std::string& name, std::vector<int32_t> values) {
        experts[name] = std::move(values);
      });
  const auto k = static_cast<size_t>(config.deepseek.num_experts_per_tok);
  for (int64_t layer = config.deepseek.first_k_dense_replace;
       layer < config.deepseek.num_hidden_layers; ++layer) {
    const std::string label = "L" + std::to_string(layer) + ".m0.router_weights";
    const std::vector<int32_t>& layer_experts = experts[label + ".experts"];
    const std::string routing = "routing." + std::to_string(layer);
    const auto golden_experts = golden.values<int32_t>(routing + ".experts");
    const auto golden_weights = golden.values<float>(routing + ".weights");
    ASSERT_EQ(layer_experts.size(), golden_experts.size()) << label;
    for (size_t token = 0; token * k < golden_experts.size(); ++token) {
      std::vector<std::pair<int32_t, float>> chosen;
      for (size_t j = token * k; j < (token + 1) * k; ++j) {
        chosen.emplace_back(layer_experts[j], weights[label][j]);
      }
      std::sort(chosen.begin(), chosen.end());
      for (size_t j = 0; j < k; ++j) {
        ASSERT_EQ(chosen[j].first, golden_experts[token * k + j]) << label << " token " << token;
        ASSERT_NEAR(chosen[j].second, golden_weights[token * k + j], 1e-5);
      }
    }
  }
}

TEST_P(DeepseekOracle, TwentyStepsOfAdamW) {
  const Golden golden(GetParam());
  Session session(deepseek_config(golden));
  load(golden, session);
  expect_curve(golden, session);
}

INSTANTIATE_TEST_SUITE_P(Goldens, DeepseekOracle,
                         ::testing::Values("deepseek_v3_8e", "deepseek_v3_12e",
                                           "deepseek_v3_noqlora", "deepseek_v2_greedy",
                                           "deepseek_v2_grouped"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace spillway
