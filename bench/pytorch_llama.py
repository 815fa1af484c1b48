"""Times training steps of transformers' LlamaForCausalLM on a CPU.

One step is forward, cross entropy, backward, clip_grad_norm_ and AdamW, in
float32 with scaled_dot_product_attention, on random tokens. Prints one JSON
line. "tflops" counts the multiplications and additions of the matrix products
only, forward plus twice that for backward: per token 6 * (parameters of linear
layers, lm_head included, embedding lookup not), plus causal attention,
6 * seq * heads * head_dim per token and layer (half of the full square).

Packages: scripts/golden/requirements.txt.
"""

import argparse
import json
import os
import statistics
import time


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--hidden", type=int, default=512)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--kv-heads", type=int, default=8)
    p.add_argument("--intermediate", type=int, default=1376)
    p.add_argument("--vocab", type=int, default=256)
    p.add_argument("--seq", type=int, default=512)
    p.add_argument("--micro-batch", type=int, default=4)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--dtype", choices=["fp32"], default="fp32")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=2)
    return p.parse_args()


def main():
    a = parse()
    os.environ["OMP_NUM_THREADS"] = str(a.threads)
    import torch
    import transformers

    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=a.vocab, hidden_size=a.hidden, num_hidden_layers=a.layers, num_attention_heads=a.heads,
        num_key_value_heads=a.kv_heads, intermediate_size=a.intermediate,
        max_position_embeddings=a.seq, tie_word_embeddings=False)
    config._attn_implementation = "sdpa"
    model = transformers.LlamaForCausalLM(config)
    model.train()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
    data = torch.randint(a.vocab, (a.micro_batch, a.seq + 1))
    x, y = data[:, :-1].contiguous(), data[:, 1:].reshape(-1)

    def step():
        logits = model(input_ids=x, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.view(-1, a.vocab), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        return loss.item()

    times = []
    for i in range(a.warmup + a.steps):
        t = time.perf_counter()
        step()
        if i >= a.warmup:
            times.append(time.perf_counter() - t)

    linear = sum(m.weight.numel() for m in model.modules() if isinstance(m, torch.nn.Linear))
    head_dim = a.hidden // a.heads
    tokens = a.micro_batch * a.seq
    flops = tokens * (6 * linear + 6 * a.layers * a.seq * a.heads * head_dim)
    seconds = statistics.median(times)
    print(json.dumps({
        "seconds_per_step": round(seconds, 4), "seconds_min": round(min(times), 4),
        "seconds_max": round(max(times), 4), "tflops": round(flops / seconds / 1e12, 4),
        "tokens_per_second": round(tokens / seconds, 1), "threads": torch.get_num_threads(),
        "parameters": sum(p.numel() for p in model.parameters()), "flops_per_step": flops,
        "attention": "sdpa", "torch": torch.__version__, "transformers": transformers.__version__}))


if __name__ == "__main__":
    main()
