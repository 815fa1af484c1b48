// FLOPs of the compiled step against a count by hand, product by product, as MaxText counts.
#include <gtest/gtest.h>

#include "model/deepseek.h"
#include "model/llama.h"
#include "program/cost_model.h"
#include "trainer/compile.h"

namespace spillway {
namespace {

class NoCost : public CostModel {
 public:
  double seconds(const Schedule&, const Instr&) const override { return 0; }
};

int64_t step_flops(Model model, const std::string& policy, const Precision& precision = {}) {
  add_adamw(model, {}, precision);
  CompileOptions options;
  options.activation.policy = policy;
  return compile(std::move(model), options, NoCost()).flops;
}

// Of T tokens in sequences of S, multiply-add 2, training three times forward.
struct ByHand {
  double T, S;
  double forward = 0;
  void product(double in, double out) { forward += 2 * T * in * out; }
  void swiglu(double d, double f) { forward += 6 * T * d * f; }
  // Causal: half of two S x S products a head.
  void attention(double heads, double qk, double v) { forward += 2 * T * S * heads * (qk + v) / 2; }
  [[nodiscard]] int64_t training() const { return static_cast<int64_t>(3 * forward); }
};

TEST(Flops, TinyLlamaTiedOrNotUnderEveryPolicy) {
  const BatchShape batch{2, 32, 24};
  ByHand hand{64, 32};
  for (int layer = 0; layer < 3; ++layer) {
    hand.product(64, (4 + 2 * 2) * 16);
    hand.product(4 * 16, 64);
    hand.attention(4, 16, 16);
    hand.swiglu(64, 176);
  }
  hand.product(64, 97);
  for (bool tied : {false, true}) {
    const LlamaConfig c{.vocab_size = 97, .hidden_size = 64, .intermediate_size = 176,
                        .num_hidden_layers = 3, .num_attention_heads = 4,
                        .num_key_value_heads = 2, .head_dim = 16, .tie_word_embeddings = tied};
    for (const char* policy : {"none", "full", "minimal", "minimal_offloaded"}) {
      EXPECT_EQ(step_flops(build_llama(c, batch, {}), policy), hand.training());
    }
  }
}

DeepseekConfig tiny_deepseek() {
  DeepseekConfig c;
  c.vocab_size = 97;
  c.hidden_size = 32;
  c.num_hidden_layers = 5;
  c.num_attention_heads = 4;
  c.intermediate_size = 96;
  c.first_k_dense_replace = 2;
  c.q_lora_rank = 24;
  c.kv_lora_rank = 16;
  c.qk_nope_head_dim = 16;
  c.qk_rope_head_dim = 8;
  c.v_head_dim = 12;
  c.n_routed_experts = 8;
  c.n_shared_experts = 2;
  c.num_experts_per_tok = 3;
  c.moe_intermediate_size = 32;
  c.n_group = 4;
  c.topk_group = 2;
  return c;
}

void latent_attention(ByHand& hand, const DeepseekConfig& c) {
  const auto d = static_cast<double>(c.hidden_size), q_lora = static_cast<double>(c.q_lora_rank);
  const auto heads = static_cast<double>(c.num_attention_heads);
  const auto kv = static_cast<double>(c.kv_lora_rank), v = static_cast<double>(c.v_head_dim);
  const auto own = static_cast<double>(c.qk_nope_head_dim);
  const auto rotated = static_cast<double>(c.qk_rope_head_dim);
  if (q_lora > 0) {
    hand.product(d, q_lora);
    hand.product(q_lora, heads * (own + rotated));
  } else {
    hand.product(d, heads * (own + rotated));
  }
  hand.product(d, kv + rotated);
  hand.product(kv, heads * (own + v));
  hand.attention(heads, own + rotated, v);
  hand.product(heads * v, d);
}

void moe_layer(ByHand& hand, const DeepseekConfig& c) {
  const auto d = static_cast<double>(c.hidden_size);
  latent_attention(hand, c);
  hand.product(d, static_cast<double>(c.n_routed_experts));
  hand.swiglu(d, static_cast<double>(c.moe_intermediate_size *
                                     (c.num_experts_per_tok + c.n_shared_experts)));
}

ByHand deepseek_by_hand(const DeepseekConfig& c, double tokens, double seq) {
  ByHand hand{tokens, seq};
  const auto d = static_cast<double>(c.hidden_size), vocab = static_cast<double>(c.vocab_size);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    if (has_experts(c, i)) {
      moe_layer(hand, c);
    } else {
      latent_attention(hand, c);
      hand.swiglu(d, static_cast<double>(c.intermediate_size));
    }
  }
  hand.product(d, vocab);
  if (c.num_nextn_predict_layers > 0) {
    hand.product(2 * d, d);
    moe_layer(hand, c);
    hand.product(d, vocab);
  }
  return hand;
}

TEST(Flops, TinyDeepseekInItsVariants) {
  const BatchShape batch{2, 32, 24};
  for (int variant = 0; variant < 16; ++variant) {
    DeepseekConfig c = tiny_deepseek();
    if (variant & 1) c.q_lora_rank = 0;
    if (variant & 2) c.num_nextn_predict_layers = 1;
    if (variant & 4) c.n_shared_experts = 0;
    if (variant & 8) c.moe_layer_freq = 2;
    const int64_t expected = deepseek_by_hand(c, 64, 32).training();
    for (const char* policy : {"none", "full"}) {
      EXPECT_EQ(step_flops(build_deepseek(c, batch, {}), policy), expected) << variant;
    }
  }
}

// Checked against published logs: 2,523.956 GFLOP a token, 20,676.247 TFLOP a step of 8,192 tokens.
TEST(Flops, Llama405b) {
  const LlamaConfig c{.vocab_size = 128256, .hidden_size = 16384, .intermediate_size = 53248,
                      .num_hidden_layers = 126, .num_attention_heads = 128,
                      .num_key_value_heads = 8, .head_dim = 128};
  const Precision bf16{.compute = DType::kBF16};
  const int64_t flops = step_flops(build_llama(c, {1, 8192, 1024}, bf16), "full", bf16);
  EXPECT_NEAR(static_cast<double>(flops) * 1e-12, 20676.247, 5e-4);
  EXPECT_NEAR(static_cast<double>(flops) * 1e-9 / 8192, 2523.956, 5e-4);
}

// 250.449887 GFLOP a token and 8,206.742 TFLOP a step of 8 x 4,096 tokens, without MTP.
TEST(Flops, DeepseekV3) {
  DeepseekConfig c = tiny_deepseek();
  c.vocab_size = 129280;
  c.hidden_size = 7168;
  c.num_hidden_layers = 61;
  c.num_attention_heads = 128;
  c.intermediate_size = 18432;
  c.first_k_dense_replace = 3;
  c.q_lora_rank = 1536;
  c.kv_lora_rank = 512;
  c.qk_nope_head_dim = 128;
  c.qk_rope_head_dim = 64;
  c.v_head_dim = 128;
  c.n_routed_experts = 256;
  c.n_shared_experts = 1;
  c.num_experts_per_tok = 8;
  c.moe_intermediate_size = 2048;
  c.n_group = 8;
  c.topk_group = 4;
  const Precision bf16{.compute = DType::kBF16, .master = false};
  Model model = build_deepseek(c, {8, 4096, 1024}, bf16);
  EXPECT_EQ(model.parameter_count(), 671026404352);
  const int64_t flops = step_flops(std::move(model), "full", bf16);
  EXPECT_NEAR(static_cast<double>(flops) * 1e-9 / 32768, 250.449887, 5e-7);
  EXPECT_NEAR(static_cast<double>(flops) * 1e-12, 8206.742, 5e-4);
}

}  // namespace
}  // namespace spillway
