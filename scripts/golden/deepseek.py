"""Golden data of transformers' DeepseekV3ForCausalLM and DeepseekV2ForCausalLM.

The files are laid out as llama.py describes (same tensors, same optimizer,
same metadata, whose "class" names the transformers class; CPU, float32), plus:

  param.model.layers.<n>.mlp.gate.e_score_correction_bias   f32 [E]  V3 only: a
                           buffer, so there is no gradient and the curve leaves
                           it unchanged
  param/grad.model.layers.<n>.mlp.experts.<e>.{gate,up,down}_proj.weight   one
                           matrix per expert as in checkpoints (transformers 5
                           fuses them); all zero gradients for an expert that no
                           token chose, yet weight decay and the moments of
                           AdamW still apply to it
  routing.<n>.experts      i32 [B*S, k]  experts chosen by MoE layer n (index
                           from 0, dense layers counted) for the first batch,
                           ascending per token
  routing.<n>.weights      f32 [B*S, k]  their weights in that order, as they
                           multiply the expert outputs (routed_scaling_factor
                           included)

The metadata "check" also has routing_margin: in all batches of all 20 steps no
choice of groups or experts was closer to another one than this (difference of
the scores compared: sigmoid + bias, sums of two of those for V3 groups, softmax
for V2). Batches that came closer were drawn again.
"""

from transformers import DeepseekV2ForCausalLM, DeepseekV3ForCausalLM

import golden

COMMON = dict(
    vocab_size=97, hidden_size=32, num_attention_heads=4, num_key_value_heads=4,
    q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12,
    intermediate_size=96, moe_intermediate_size=32, moe_layer_freq=1, hidden_act="silu",
    rms_norm_eps=1e-6, rope_theta=10000.0, attention_bias=False, attention_dropout=0.0,
    tie_word_embeddings=False, bos_token_id=0, eos_token_id=1, torch_dtype="float32")

V3 = COMMON | dict(
    architectures=["DeepseekV3ForCausalLM"], model_type="deepseek_v3",
    scoring_func="sigmoid", topk_method="noaux_tc", num_nextn_predict_layers=0)

V2 = COMMON | dict(
    architectures=["DeepseekV2ForCausalLM"], model_type="deepseek_v2", scoring_func="softmax",
    norm_topk_prob=False)


def yarn(original, mscale, mscale_all_dim):
    return dict(type="yarn", factor=40, original_max_position_embeddings=original, beta_fast=32,
                beta_slow=1, mscale=mscale, mscale_all_dim=mscale_all_dim)


def final(layer):
    gate = f"model.layers.{layer}.mlp.gate.weight"
    expert = f"model.layers.{layer}.mlp.experts.1.down_proj.weight"
    return (gate, expert, "model.layers.0.self_attn.kv_a_layernorm.weight")


CASES = {
    # 2 dense + 3 MoE layers, all of DeepSeek-V3's parts. With rope dim 8 the
    # YaRN ramp over the four frequencies is 0, 1/2, 1, 1.
    "deepseek_v3_8e": dict(
        model_class=DeepseekV3ForCausalLM, seed=24, bias_std=0.2, final=final(2),
        config=V3 | dict(
            num_hidden_layers=5, first_k_dense_replace=2, n_routed_experts=8, n_group=4,
            topk_group=2, num_experts_per_tok=3, n_shared_experts=2, routed_scaling_factor=2.5,
            norm_topk_prob=True, max_position_embeddings=10240,
            rope_scaling=yarn(256, 1.0, 1.0))),
    # Differing mscales, so that cos and sin are scaled too; rope not
    # interleaved; YaRN ramp 0, 1/3, 2/3, 1; norm eps 1e-5 (the two latent norms
    # keep 1e-6); a bias around -0.7, so that many scores compared are negative
    # and a masked group must lose with -inf, not with 0.
    "deepseek_v3_12e": dict(
        model_class=DeepseekV3ForCausalLM, seed=23, bias_mean=-0.7, bias_std=0.2, final=final(1),
        config=V3 | dict(
            num_hidden_layers=4, first_k_dense_replace=1, n_routed_experts=12, n_group=4,
            topk_group=3, num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=24,
            routed_scaling_factor=1.5, norm_topk_prob=True, rms_norm_eps=1e-5, rope_theta=100.0,
            max_position_embeddings=2560, rope_scaling=yarn(64, 0.707, 0.5),
            rope_interleave=False)),
    # Plain queries, plain rope, weights not normalised.
    "deepseek_v3_noqlora": dict(
        model_class=DeepseekV3ForCausalLM, seed=12, bias_std=0.1, final=final(1),
        config=V3 | dict(
            num_hidden_layers=3, first_k_dense_replace=1, q_lora_rank=None, n_routed_experts=8,
            n_group=2, topk_group=1, num_experts_per_tok=2, n_shared_experts=1,
            routed_scaling_factor=2.0, norm_topk_prob=False, max_position_embeddings=128,
            rope_scaling=None)),
    # Softmax routing as DeepSeek-V2-Lite: no groups, plain queries.
    "deepseek_v2_greedy": dict(
        model_class=DeepseekV2ForCausalLM, seed=22, final=final(1),
        config=V2 | dict(
            num_hidden_layers=3, first_k_dense_replace=1, q_lora_rank=None, n_routed_experts=8,
            n_group=1, topk_group=1, num_experts_per_tok=3, n_shared_experts=2,
            topk_method="greedy", routed_scaling_factor=1.0, max_position_embeddings=10240,
            rope_scaling=yarn(256, 0.707, 0.707))),
    # Softmax routing with groups as DeepSeek-V2; a group counts as its best
    # expert.
    "deepseek_v2_grouped": dict(
        model_class=DeepseekV2ForCausalLM, seed=19, final=final(1),
        config=V2 | dict(
            num_hidden_layers=3, first_k_dense_replace=1, n_routed_experts=12, n_group=4,
            topk_group=2, num_experts_per_tok=3, n_shared_experts=1,
            topk_method="group_limited_greedy", routed_scaling_factor=4.0,
            max_position_embeddings=2560, rope_theta=100.0, rope_scaling=yarn(64, 1.0, 0.8))),
}

if __name__ == "__main__":
    golden.main(__doc__, CASES)
