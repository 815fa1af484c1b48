"""RoPE tables of transformers for real model parameters: <out>/rope.json.

A list of objects:

  name               what it is
  config             the config.json keys that matter (published spelling)
  dim                rotary dimension; dim / 2 frequencies follow
  inv_freq           transformers' formulas evaluated in float64
  inv_freq_float32   what transformers itself computes (float32), as doubles
  attention_scaling  factor on cos and sin
  softmax_scale_factor   factor on 1 / sqrt(qk_head_dim) in the attention of
                     DeepseekV3/V2 (mscale(mscale_all_dim) squared); 1 elsewhere
"""

import argparse
import json
import os

import golden

from transformers import DeepseekV3Config, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.deepseek_v3.modeling_deepseek_v3 import yarn_apply_mscale
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

LLAMA31 = dict(
    model_type="llama", hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
    rope_theta=500000.0, max_position_embeddings=131072,
    rope_scaling=dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                      original_max_position_embeddings=8192, rope_type="llama3"))
DEFAULT = dict(
    model_type="llama", hidden_size=2048, num_attention_heads=32, num_key_value_heads=32, head_dim=64,
    rope_theta=10000.0, max_position_embeddings=2048, rope_scaling=None)


def deepseek(**changes):
    return dict(
        model_type="deepseek_v3", qk_nope_head_dim=128, qk_rope_head_dim=64, rope_theta=10000.0,
        max_position_embeddings=163840,
        rope_scaling=dict(type="yarn", factor=40, original_max_position_embeddings=4096,
                          beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0) | changes)


CASES = {
    "default": DEFAULT,
    "llama31_8b": LLAMA31,
    "deepseek_v3": deepseek(),
    "yarn_mscale_0.707": deepseek(mscale=0.707, mscale_all_dim=0.707),
    "yarn_mscale_0.707_all_dim_0.5": deepseek(mscale=0.707, mscale_all_dim=0.5),
    "yarn_equal_betas": deepseek(beta_fast=1, beta_slow=1),
}


def tables(config):
    cls = LlamaConfig if config["model_type"] == "llama" else DeepseekV3Config
    c = cls(**json.loads(json.dumps(config)))
    kind = c.rope_parameters["rope_type"]
    init = ROPE_INIT_FUNCTIONS.get(kind) or LlamaRotaryEmbedding.compute_default_rope_parameters
    inv32, scaling = init(c)
    with golden.Float64():
        inv64, _ = init(c)
    assert str(inv32.dtype) == "torch.float32" and str(inv64.dtype) == "torch.float64"
    assert golden.rel(inv32, inv64) < 1e-6
    softmax = 1.0 if cls is LlamaConfig else yarn_apply_mscale(c.rope_parameters, 1.0)
    return dict(config=config, dim=2 * len(inv64), inv_freq=inv64.tolist(),
                inv_freq_float32=inv32.double().tolist(), attention_scaling=scaling,
                softmax_scale_factor=softmax)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", default="tests/data", help="folder to write to")
    args = p.parse_args()
    golden.setup()
    out = [dict(name=n) | tables(c) for n, c in CASES.items()]
    path = os.path.join(args.out, "rope.json")
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(o) for o in out) + "\n]\n")
    for o in out:
        print(o["name"], o["dim"], o["attention_scaling"], o["softmax_scale_factor"])


if __name__ == "__main__":
    main()
