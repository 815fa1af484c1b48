#include "trainer/deepseek_section.h"

#include <gmock/gmock.h>

#include "program/error.h"
#include "tests/trainer/temp_dir.h"
#include "trainer/config.h"
#include "trainer/config_text.h"

namespace spillway {
namespace {

using testing::HasSubstr;

constexpr const char* kModel =
    "model: {family: deepseek, vocab_size: 256, hidden_size: 64, intermediate_size: 96,\n"
    "  num_hidden_layers: 4, num_attention_heads: 4, q_lora_rank: 24, kv_lora_rank: 16,\n"
    "  qk_nope_head_dim: 16, qk_rope_head_dim: 8, v_head_dim: 12, first_k_dense_replace: 1,\n"
    "  n_routed_experts: 8, n_shared_experts: 1, num_experts_per_tok: 3,\n"
    "  moe_intermediate_size: 32, n_group: 4, topk_group: 2}\n";

Config load_with(const std::vector<std::string>& overrides) {
  const TempDir dir;
  return load_config(dir.write("tiny.yaml", kModel), overrides);
}

std::string error_with(const std::vector<std::string>& overrides) {
  return message_of<ConfigError>([&] { (void)load_with(overrides); });
}

TEST(DeepseekSection, ReadsHuggingFacesSpelling) {
  const DeepseekConfig v3 = load_with({}).deepseek;
  EXPECT_TRUE(v3.sigmoid_scores);
  EXPECT_TRUE(v3.router_bias);
  EXPECT_EQ(v3.group_top, 2);
  const DeepseekConfig v2 =
      load_with({"model.scoring_func=softmax", "model.topk_method=group_limited_greedy"}).deepseek;
  EXPECT_FALSE(v2.sigmoid_scores);
  EXPECT_FALSE(v2.router_bias);
  EXPECT_EQ(v2.group_top, 1);
}

TEST(DeepseekSection, RoundTripsThroughItsText) {
  const Config config = load_with(
      {"model.capacity_factor=1.25", "model.num_nextn_predict_layers=1",
       "model.rope_scaling={type: yarn, factor: 40, original_max_position_embeddings: 64}",
       "optimizer.router_bias_rate=1e-3"});
  const TempDir dir;
  const Config again = load_config(dir.write("tiny.yaml", to_yaml(config)), {});
  EXPECT_EQ(to_yaml(again), to_yaml(config));
}

TEST(DeepseekSection, ErrorsNameTheValuesAndTheLegalOnes) {
  EXPECT_THAT(error_with({"model.n_routed_experts=10"}),
              HasSubstr("n_routed_experts (10) is not a multiple of model.n_group (4)"));
  EXPECT_THAT(error_with({"model.topk_group=1"}),
              HasSubstr("model.topk_group (1) groups of 2 experts hold 2, fewer than "
                        "model.num_experts_per_tok (3)"));
  EXPECT_THAT(error_with({"model.topk_group=5"}),
              HasSubstr("topk_group (5) is above model.n_group (4)"));
  EXPECT_THAT(error_with({"model.num_experts_per_tok=9"}),
              HasSubstr("num_experts_per_tok (9) is above model.n_routed_experts (8)"));
  EXPECT_THAT(error_with({"model.qk_rope_head_dim=7"}), HasSubstr("qk_rope_head_dim (7) is odd"));
  EXPECT_THAT(error_with({"model.group_top=3"}), HasSubstr("choose 1 to 2"));
  EXPECT_THAT(error_with({"model.topk_method=greedy"}), HasSubstr("n_group is 4"));
  EXPECT_THAT(error_with({"model.rope_scaling={type: yarn, factor: 40, "
                          "original_max_position_embeddings: 64, beta_fast: 1, beta_slow: 32}"}),
              HasSubstr("beta_fast (1) is below beta_slow (32)"));
  EXPECT_THAT(error_with({"model.num_key_value_heads=2"}), HasSubstr("is not a key"));
  EXPECT_THAT(error_with({"model.n_shared_expert=2"}), HasSubstr("did you mean n_shared_experts?"));
}

}  // namespace
}  // namespace spillway
