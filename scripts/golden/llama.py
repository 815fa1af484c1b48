"""Golden data of transformers' LlamaForCausalLM (CPU, float32).

Each case becomes <out>/<name>.safetensors. Its metadata (all strings):

  config     JSON, the model's config.json with the keys of published checkpoints
  class      the transformers class that computed it
  optimizer  JSON: lr, beta1, beta2, eps, weight_decay, max_norm
  versions   JSON: torch, transformers
  check      JSON: largest relative L2 distances to a float64 run of the same
             model, and the float64 loss of the first batch

Its tensors (B = batch, S = sequence, V = vocabulary):

  param.<name>        f32  initial parameters under checkpoint names; with tied
                           embeddings there is no lm_head.weight
  tokens, targets     i32 [B, S]  first batch; targets[t] is the token after t,
                           -100 = ignored (the last position and a few others)
  logits              f32 [B, S, V]  of tokens, with the initial parameters
  loss                f32 [1]  cross entropy, mean over targets that are not -100
  grad.<name>         f32  gradient of loss (not clipped) for every parameter
  train.tokens, train.targets   i32 [20, B, S]  batches of the AdamW curve;
                           step 0 is the first batch again
  train.losses        f32 [20]  loss of each step before its update
  train.grad_norms    f32 [20]  global L2 norm of the gradient before clipping
  train.param.<name>  f32  a few parameters after the 20 steps

One step of the curve: loss as above, backward,
clip_grad_norm_(max_norm) (factor min(1, max_norm / (norm + 1e-6))), then
torch.optim.AdamW with constant lr; weight_decay on parameters with two or more
dimensions (embeddings included), none on 1-D ones.
"""

from transformers import LlamaForCausalLM

import golden

BASE = dict(
    architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=97, hidden_size=64,
    num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=176,
    hidden_act="silu", rms_norm_eps=1e-6, rope_theta=10000.0, rope_scaling=None,
    max_position_embeddings=64, attention_bias=False, mlp_bias=False, attention_dropout=0.0,
    tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, torch_dtype="float32")

Q0, NORM = "model.layers.0.self_attn.q_proj.weight", "model.norm.weight"
EMBED, HEAD = "model.embed_tokens.weight", "lm_head.weight"

CASES = {
    # grouped queries, tied embeddings
    "llama_gqa_tied": dict(
        config=BASE | dict(tie_word_embeddings=True), seed=1, final=(EMBED, Q0, NORM)),
    # untied; head_dim is not hidden / heads; another norm eps
    "llama_gqa_untied": dict(
        config=BASE | dict(head_dim=32, intermediate_size=128, rms_norm_eps=1e-5),
        seed=5, final=(HEAD, Q0, NORM)),
    # Llama 3.1 rope scaling; with head_dim 16 and original length 64 the first
    # frequency is kept, the second blended, the others divided by factor
    "llama_rope31": dict(
        config=BASE | dict(
            num_hidden_layers=2, rope_theta=500000.0, rms_norm_eps=1e-5, max_position_embeddings=512,
            rope_scaling=dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                              original_max_position_embeddings=64, rope_type="llama3")),
        seed=3, final=(HEAD, Q0, NORM)),
    # one layer, no grouping
    "llama_mha_one_layer": dict(
        config=BASE | dict(num_hidden_layers=1, num_key_value_heads=4, intermediate_size=96),
        seed=2, final=(EMBED, Q0, NORM)),
}

if __name__ == "__main__":
    golden.main(__doc__, {k: dict(model_class=LlamaForCausalLM, **v) for k, v in CASES.items()})
