#include "trainer/deepseek_section.h"

#include <fmt/format.h>

#include <array>

namespace spillway {
namespace {

constexpr IntRange kSize{.min = 1, .max = int64_t{1} << 31};
constexpr IntRange kCount{.min = 0, .max = int64_t{1} << 31};

// scoring_func and topk_method as Hugging Face spells them; a method says how groups are scored.
constexpr std::array<Spelling<bool>, 2> kScores{{{"sigmoid", true}, {"softmax", false}}};
enum class TopkMethod : uint8_t { kNoAux, kGroupLimited, kGreedy };
constexpr std::array<Spelling<TopkMethod>, 3> kMethods{
    {{"noaux_tc", TopkMethod::kNoAux},
     {"group_limited_greedy", TopkMethod::kGroupLimited},
     {"greedy", TopkMethod::kGreedy}}};

std::optional<YarnScaling> read_yarn(YamlSection section) {
  enum class Type : uint8_t { kDefault, kYarn };
  static constexpr std::array<Spelling<Type>, 2> kTypes{
      {{"default", Type::kDefault}, {"yarn", Type::kYarn}}};
  const auto type = section.choice<Type>("type", Type::kDefault, kTypes);
  std::optional<YarnScaling> result;
  if (type == Type::kYarn) {
    const YarnScaling defaults;
    result = YarnScaling{
        .factor = section.real("factor", kRequired, {.min = 1}),
        .original_max_position_embeddings =
            section.integer("original_max_position_embeddings", kRequired, kSize),
        .beta_fast = section.real("beta_fast", defaults.beta_fast, kAboveZero),
        .beta_slow = section.real("beta_slow", defaults.beta_slow, kAboveZero),
        .mscale = section.real("mscale", defaults.mscale, kZeroOrMore),
        .mscale_all_dim = section.real("mscale_all_dim", defaults.mscale_all_dim, kZeroOrMore),
    };
  }
  section.finish();
  return result;
}

void read_attention(DeepseekConfig& model, YamlSection& section) {
  model.num_attention_heads = section.integer("num_attention_heads", kRequired, kSize);
  model.q_lora_rank = section.integer("q_lora_rank", 0, kCount);
  model.kv_lora_rank = section.integer("kv_lora_rank", kRequired, kSize);
  model.qk_nope_head_dim = section.integer("qk_nope_head_dim", kRequired, kSize);
  model.qk_rope_head_dim = section.integer("qk_rope_head_dim", kRequired, kSize);
  model.v_head_dim = section.integer("v_head_dim", kRequired, kSize);
  model.rope_theta = section.real("rope_theta", model.rope_theta, kAboveZero);
  model.rope_scaling = read_yarn(section.section("rope_scaling"));
  model.rope_interleave = section.boolean("rope_interleave", model.rope_interleave);
}

void read_experts(DeepseekConfig& model, YamlSection& section) {
  model.first_k_dense_replace = section.integer("first_k_dense_replace", 0, kCount);
  model.moe_layer_freq = section.integer("moe_layer_freq", 1, kSize);
  model.n_routed_experts = section.integer("n_routed_experts", kRequired, kSize);
  model.n_shared_experts = section.integer("n_shared_experts", 0, kCount);
  model.num_experts_per_tok = section.integer("num_experts_per_tok", kRequired, kSize);
  model.moe_intermediate_size = section.integer("moe_intermediate_size", kRequired, kSize);
  model.n_group = section.integer("n_group", 1, kSize);
  model.topk_group = section.integer("topk_group", 1, kSize);
  model.sigmoid_scores = section.choice<bool>("scoring_func", true, kScores);
  model.norm_topk_prob = section.boolean("norm_topk_prob", model.norm_topk_prob);
  model.routed_scaling_factor =
      section.real("routed_scaling_factor", model.routed_scaling_factor, kAboveZero);

  const auto method = section.choice<TopkMethod>(
      "topk_method", model.sigmoid_scores ? TopkMethod::kNoAux : TopkMethod::kGreedy, kMethods);
  if (method == TopkMethod::kGreedy && model.n_group != 1) {
    section.fail("topk_method", fmt::format("is greedy, but n_group is {}; greedy choice knows no "
                                            "groups: set n_group to 1 or another topk_method",
                                            model.n_group));
  }
  model.router_bias = section.boolean("router_bias", method == TopkMethod::kNoAux);
  const int64_t group = std::max<int64_t>(1, model.n_routed_experts / model.n_group);
  model.group_top = section.integer(
      "group_top", method == TopkMethod::kNoAux ? std::min<int64_t>(2, group) : 1, kSize);
}

void read_training(DeepseekConfig& model, YamlSection& section) {
  model.seq_aux_loss = section.real("seq_aux_loss", model.seq_aux_loss, kZeroOrMore);
  model.router_z_loss = section.real("router_z_loss", model.router_z_loss, kZeroOrMore);
  model.capacity_factor = section.real("capacity_factor", model.capacity_factor, kZeroOrMore);
  model.balanced_routing = section.boolean("balanced_routing", model.balanced_routing);
  model.num_nextn_predict_layers =
      section.integer("num_nextn_predict_layers", model.num_nextn_predict_layers, {.min = 0, .max = 1});
  model.mtp_loss_weight = section.real("mtp_loss_weight", model.mtp_loss_weight, kZeroOrMore);
}

}  // namespace

DeepseekConfig read_deepseek(YamlSection& section) {
  DeepseekConfig model;
  model.vocab_size = section.integer("vocab_size", kRequired, {.min = 1, .max = INT32_MAX});
  model.hidden_size = section.integer("hidden_size", kRequired, kSize);
  model.intermediate_size = section.integer("intermediate_size", kRequired, kSize);
  model.num_hidden_layers = section.integer("num_hidden_layers", kRequired, kSize);
  read_attention(model, section);
  read_experts(model, section);
  read_training(model, section);
  model.rms_norm_eps = section.real("rms_norm_eps", model.rms_norm_eps, kAboveZero);
  model.tie_word_embeddings = section.boolean("tie_word_embeddings", model.tie_word_embeddings);
  model.initializer_range = section.real("initializer_range", model.initializer_range, kZeroOrMore);
  section.finish();
  validate(model);
  return model;
}

}  // namespace spillway
