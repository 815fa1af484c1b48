// Which products are narrowed to fp8: all of layers, but for routers'.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "model/deepseek.h"

namespace spillway {
namespace {

DeepseekConfig tiny() {
  DeepseekConfig c;
  c.vocab_size = 64;
  c.hidden_size = 32;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 2;
  c.intermediate_size = 48;
  c.first_k_dense_replace = 1;
  c.q_lora_rank = 16;
  c.kv_lora_rank = 16;
  c.qk_nope_head_dim = 8;
  c.qk_rope_head_dim = 4;
  c.v_head_dim = 8;
  c.n_routed_experts = 4;
  c.n_shared_experts = 1;
  c.num_experts_per_tok = 2;
  c.moe_intermediate_size = 16;
  return c;
}

TEST(Fp8, EveryProductOfLayersButTheRouters) {
  Model model = build_deepseek(tiny(), {2, 16, 8}, {.compute = DType::kBF16, .fp8_products = true});
  use_fp8_products(model);
  std::set<int> layers(model.layer_programs.begin(), model.layer_programs.end());
  int narrowed = 0, router = 0;
  for (size_t p = 0; p < model.programs.size(); ++p) {
    const Program& program = model.programs[p];
    for (const std::vector<Op>* ops : {&program.forward, &program.backward}) {
      for (const Op& op : *ops) {
        const bool fp8 = op.attrs.has(Attr::kFp8);
        narrowed += fp8;
        EXPECT_FALSE(fp8 && !layers.contains(static_cast<int>(p))) << program.name;
        const bool routes = program.tensors[op.out[0]].name == "router_logits" ||
                            program.tensors[op.in[0]].name.starts_with("d.router_logits");
        router += routes;
        EXPECT_FALSE(routes && fp8);
      }
    }
  }
  // Three passes of: a dense layer's 5 of attention and 3; a MoE layer's 5, 3 grouped, 3 shared.
  EXPECT_EQ(narrowed, 3 * (8 + 11));
  EXPECT_GE(router, 3);
}

}  // namespace
}  // namespace spillway
