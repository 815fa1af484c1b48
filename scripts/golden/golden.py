"""Shared code of the golden-data scripts (llama.py, deepseek.py, rope.py).

A golden file holds everything needed to replay a small transformers model
without PyTorch: its parameters, one batch with logits, loss and all gradients,
and a 20-step AdamW curve. The layout of a file is described in llama.py.

Rules that hold for every case:

* The reference runs on one CPU thread, in float32, with deterministic
  algorithms and attn_implementation="eager" (and the eager expert loop).
* Every number written is checked against a float64 run of the same model and
  the same batches; the script fails if they differ by more than CHECK_RTOL.
  transformers casts to float32 inside RMSNorm, softmax, RoPE and the router;
  Float64 below turns those casts into casts to float64.
* Data: a noisy cyclic language, next = (5 * token + 7) mod vocab with
  probability 0.85, otherwise uniform, so that the loss of the curve falls.
"""

import json
import math
import os
import re

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from torch.overrides import TorchFunctionMode

IGNORE = -100
STEPS = 20
OPTIMIZER = dict(lr=3e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, max_norm=1.0)
CHECK_RTOL = 1e-5
NOISE = 1e-7
# A batch is used only if no token of any MoE layer is closer than this to
# another choice of groups or experts.
ROUTING_MARGIN = 5e-4

VERSIONS = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}


def setup():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("highest")
    torch.set_default_dtype(torch.float32)


class Float64(TorchFunctionMode):
    """Runs torch code with every explicit float32 cast replaced by float64."""

    def __enter__(self):
        torch.set_default_dtype(torch.float64)
        return super().__enter__()

    def __exit__(self, *exc):
        torch.set_default_dtype(torch.float32)
        return super().__exit__(*exc)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        kwargs = {k: torch.float64 if v is torch.float32 else v for k, v in kwargs.items()}
        return func(*args, **kwargs)


def build(model_class, config):
    """The transformers model of a config.json dictionary."""
    c = model_class.config_class(**json.loads(json.dumps(config)))
    c._attn_implementation = "eager"
    c._experts_implementation = "eager"
    model = model_class(c)
    assert model.config._attn_implementation == "eager"
    model.train()
    return model


def state_tensors(model):
    """(module name, tensor) of parameters and of the routing correction bias."""
    yield from model.named_parameters()
    for name, b in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            yield name, b


def checkpoint_names(name, t):
    """Splits fused expert tensors; yields names as in published checkpoints.

    transformers 5 keeps all experts of a layer in gate_up_proj [E, 2I, H]
    (gate first) and down_proj [E, H, I]; checkpoints have one gate_proj,
    up_proj and down_proj matrix per expert.
    """
    m = re.fullmatch(r"(.*\.mlp\.experts)\.(gate_up_proj|down_proj)", name)
    if not m:
        yield name, t
        return
    for e in range(t.shape[0]):
        if m[2] == "down_proj":
            yield f"{m[1]}.{e}.down_proj.weight", t[e]
        else:
            half = t.shape[1] // 2
            yield f"{m[1]}.{e}.gate_proj.weight", t[e, :half]
            yield f"{m[1]}.{e}.up_proj.weight", t[e, half:]


def init_params(model, rng, bias_mean=0.0, bias_std=0.2):
    """Random parameters that keep activations, scores and routing lively."""

    def std(name, t):
        if name.endswith("e_score_correction_bias"):
            return bias_std
        if name.endswith("gate.weight"):  # router: logits with std ~2
            return 2.0 / math.sqrt(t.shape[-1])
        # Queries and keys: attention scores with std ~0.5. Twice as much makes
        # the AdamW curve amplify rounding errors to 1e-4 within 20 steps.
        if re.search(r"\.(q_proj|k_proj|q_b_proj|kv_b_proj|q_a_proj|kv_a_proj_with_mqa)\.", name):
            return 0.75 / math.sqrt(t.shape[-1])
        return 0.1

    with torch.no_grad():
        for name, t in state_tensors(model):
            x = rng.standard_normal(tuple(t.shape)) * std(name, t)
            if name.endswith("e_score_correction_bias"):
                x += bias_mean
            elif t.ndim == 1:
                x = 1.0 + x
            t.copy_(torch.from_numpy(x))


def copy_params(dst, src):
    with torch.no_grad():
        a, b = dict(state_tensors(dst)), dict(state_tensors(src))
        assert a.keys() == b.keys()
        for k in a:
            a[k].copy_(b[k])


def draw_batch(rng, vocab, batch, seq, n_ignored=4):
    tokens = np.empty((batch, seq + 1), np.int64)
    tokens[:, 0] = rng.integers(vocab, size=batch)
    for t in range(seq):
        noise = rng.integers(vocab, size=batch)
        keep = rng.random(batch) < 0.85
        tokens[:, t + 1] = np.where(keep, (5 * tokens[:, t] + 7) % vocab, noise)
    x, y = tokens[:, :-1].copy(), tokens[:, 1:].copy()
    y[:, -1] = IGNORE
    y.reshape(-1)[rng.choice(batch * seq, n_ignored, replace=False)] = IGNORE
    return torch.from_numpy(x), torch.from_numpy(y)


def run_model(model, tokens, targets):
    logits = model(input_ids=tokens, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=IGNORE)
    return logits, loss


class RouterWatch:
    """Records what each router chose in the last forward pass.

    choices: layer -> (experts [T, k] ascending, weights in the same order)
    margin:  smallest distance to another choice of groups or experts
    """

    def __init__(self, model):
        self.choices, self.margin = {}, math.inf
        for name, m in model.named_modules():
            if type(m).__name__.endswith("TopkRouter"):
                layer = int(name.split(".")[2])
                m.register_forward_hook(lambda m, i, o, n=layer: self._record(n, m, o))

    def clear(self):
        self.choices, self.margin = {}, math.inf

    def _record(self, layer, m, out):
        logits, weights, experts = (x.detach() for x in out)
        order = experts.argsort(-1)
        self.choices[layer] = (experts.gather(1, order), weights.gather(1, order))

        logits = logits.double()
        n_group, topk_group = m.num_group, m.topk_group
        if hasattr(m, "e_score_correction_bias"):  # V3: sum of the two best of a group
            s = logits.sigmoid() + m.e_score_correction_bias.double()
            group = s.view(len(s), n_group, -1).topk(2, -1)[0].sum(-1)
        else:  # V2: the best of a group
            s = logits.softmax(-1)
            if m.topk_method == "greedy":
                n_group = topk_group = 1
            group = s.view(len(s), n_group, -1).max(-1).values
        if topk_group < n_group:
            g = group.sort(-1, descending=True).values
            self.margin = min(self.margin, (g[:, topk_group - 1] - g[:, topk_group]).min().item())
            keep = torch.zeros_like(group).scatter_(1, group.topk(topk_group, -1)[1], 1)
            s = s.masked_fill(keep.repeat_interleave(s.shape[1] // n_group, 1) == 0, -math.inf)
        s, idx = s.sort(-1, descending=True)
        k = experts.shape[1]
        self.margin = min(self.margin, (s[:, k - 1] - s[:, k]).min().item())
        assert (idx[:, :k].sort(-1).values == self.choices[layer][0]).all(), "routing is not as expected"


def make_optimizer(model):
    o = OPTIMIZER
    decay = [p for p in model.parameters() if p.ndim >= 2]
    plain = [p for p in model.parameters() if p.ndim < 2]
    return torch.optim.AdamW(
        [dict(params=decay, weight_decay=o["weight_decay"]), dict(params=plain, weight_decay=0.0)],
        lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=o["eps"], foreach=False, fused=False)


def train(model, next_batch):
    """The AdamW curve. next_batch(step) gives (tokens, targets)."""
    opt = make_optimizer(model)
    out = dict(tokens=[], targets=[], losses=[], grad_norms=[])
    for step in range(STEPS):
        x, y = next_batch(step)
        opt.zero_grad(set_to_none=True)
        _, loss = run_model(model, x, y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), OPTIMIZER["max_norm"], foreach=False)
        opt.step()
        for k, v in zip(out, (x, y, loss.detach(), norm.detach())):
            out[k].append(v)
    return {k: torch.stack(v) for k, v in out.items()}


def rel(a, b):
    """Relative L2 distance of a to the float64 reference b."""
    a, b = a.detach().double(), b.detach().double()
    d, n = (a - b).norm().item(), b.norm().item()
    return d / n if n > 0 else d


def write_file(path, tensors, metadata):
    """save_file, but with the same bytes each time: it orders metadata at random."""
    save_file(tensors, path, metadata=metadata)
    with open(path, "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        header, data = json.loads(f.read(size)), f.read()
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"))
    text += " " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text.encode() + data)
    os.chmod(path, 0o644)


def make_case(name, out_dir, model_class, config, seed, batch=2, seq=32, final=(), **init):
    """Computes one case, checks it against float64 and writes it."""
    vocab = config["vocab_size"]
    rng = np.random.default_rng(seed)
    model = build(model_class, config)
    init_params(model, rng, **init)
    start = {k: v.detach().clone() for k, v in state_tensors(model)}
    watch = RouterWatch(model)
    tried = 0

    def safe_batch(_=None):
        """A batch whose routing is not near a tie with the current parameters."""
        nonlocal tried
        while True:
            tried += 1
            x, y = draw_batch(rng, vocab, batch, seq)
            watch.clear()
            with torch.no_grad():
                run_model(model, x, y)
            if watch.margin > ROUTING_MARGIN:
                return x, y

    first = safe_batch()
    logits, loss = run_model(model, *first)
    loss.backward()
    grads = {k: p.grad.detach().clone() for k, p in model.named_parameters()}
    routing = dict(watch.choices)
    curve_routing, margins = [], []

    def next_batch(step):
        b = first if step == 0 else safe_batch()
        with torch.no_grad():
            watch.clear()
            run_model(model, *b)
        margins.append(watch.margin)
        curve_routing.append({n: c[0] for n, c in watch.choices.items()})
        return b

    curve = train(model, next_batch)

    # The same in float64.
    errors = {}
    with Float64():
        model64 = build(model_class, config)
        assert all(t.dtype == torch.float64 for t in [*model64.parameters(), *model64.buffers()])
        with torch.no_grad():
            for k, t in state_tensors(model64):
                t.copy_(start[k])
        watch64 = RouterWatch(model64)
        logits64, loss64 = run_model(model64, *first)
        assert logits64.dtype == torch.float64
        loss64.backward()
        errors["logits"], errors["loss"] = rel(logits, logits64), rel(loss, loss64)
        errors["grad"] = max(rel(grads[k], p.grad) for k, p in model64.named_parameters())
        errors["routing_weights"] = max(
            (rel(routing[n][1], watch64.choices[n][1]) for n in routing), default=0.0)

        def replay(step):
            b = curve["tokens"][step], curve["targets"][step]
            with torch.no_grad():
                run_model(model64, *b)
            for n, c in watch64.choices.items():
                assert (c[0] == curve_routing[step][n]).all(), "float64 routes differently"
            return b

        curve64 = train(model64, replay)
    for k in ("losses", "grad_norms"):
        errors["train." + k] = max(rel(a, b) for a, b in zip(curve[k], curve64[k]))
    named, named64 = dict(model.named_parameters()), dict(model64.named_parameters())
    errors["train.param"] = max(rel(named[k], named64[k]) for k in named)

    # How much another order of summation may move the curve: the largest
    # relative change when the initial parameters carry float32 rounding noise.
    sensitivity = dict(losses=0.0, grad_norms=0.0)
    with Float64():
        for _ in range(3):
            with torch.no_grad():
                for k, t in state_tensors(model64):
                    noise = torch.from_numpy(rng.standard_normal(tuple(t.shape)))
                    t.copy_(start[k].double() * (1 + NOISE * noise))
            noisy = train(model64, replay)
            for k in sensitivity:
                change = max(rel(a, b) for a, b in zip(noisy[k], curve64[k]))
                sensitivity[k] = max(sensitivity[k], change)

    # Write.
    i32 = lambda t: t.to(torch.int32)
    f32 = lambda t: t.detach().to(torch.float32)
    t = {}
    for prefix, source in (("param.", start), ("grad.", grads)):
        for k, v in source.items():
            for ck, cv in checkpoint_names(k, v):
                t[prefix + ck] = f32(cv)
    trained = {ck: cv for k, v in named.items() for ck, cv in checkpoint_names(k, v)}
    for k in final:
        t["train.param." + k] = f32(trained[k])
    t["tokens"], t["targets"] = i32(first[0]), i32(first[1])
    t["logits"], t["loss"] = f32(logits), f32(loss).reshape(1)
    t["train.tokens"], t["train.targets"] = i32(curve["tokens"]), i32(curve["targets"])
    t["train.losses"], t["train.grad_norms"] = f32(curve["losses"]), f32(curve["grad_norms"])
    for n, (e, w) in routing.items():
        t[f"routing.{n}.experts"], t[f"routing.{n}.weights"] = i32(e), f32(w)
    t = {k: t[k].clone().contiguous() for k in sorted(t)}

    missing = [k for k in t if k.startswith("param.") and "grad." + k[6:] not in t
               and not k.endswith("e_score_correction_bias")]
    assert not missing, missing
    idle = [k for k in t if k.startswith("grad.") and not t[k].any()]
    assert all(".mlp.experts." in k for k in idle), idle
    assert all(torch.isfinite(v).all() for v in t.values() if v.is_floating_point())

    check = {"relative_error_to_float64": errors, "loss_float64": loss64.item(),
             "relative_change_by_noise": {"noise": NOISE, **sensitivity}}
    if routing:
        check["routing_margin"] = min(margins)
    metadata = {"config": json.dumps(config), "optimizer": json.dumps(OPTIMIZER),
                "versions": json.dumps(VERSIONS), "class": model_class.__name__,
                "check": json.dumps(check)}
    os.makedirs(out_dir, exist_ok=True)
    path = os.path.join(out_dir, name + ".safetensors")
    write_file(path, t, metadata)

    print(f"{name}: {os.path.getsize(path)} bytes, {sum(v.numel() for v in start.values())} parameters")
    print("  losses", " ".join(f"{v:.4f}" for v in curve["losses"].tolist()))
    print("  norms ", " ".join(f"{v:.3f}" for v in curve["grad_norms"].tolist()))
    print("  errors", " ".join(f"{k}={v:.1e}" for k, v in errors.items()))
    print("  noise ", " ".join(f"{k}={v:.1e}" for k, v in sensitivity.items()))
    if routing:
        print(f"  routing margin {min(margins):.1e}, batches drawn {tried}, idle expert tensors {len(idle)}")
    bad = {k: v for k, v in errors.items() if not v < CHECK_RTOL}
    assert not bad, f"{name}: not well conditioned: {bad}"


def main(doc, cases):
    """cases: name -> keyword arguments of make_case."""
    import argparse
    p = argparse.ArgumentParser(description=doc.splitlines()[0])
    p.add_argument("--out", default="tests/data", help="folder to write to")
    p.add_argument("--only", help="one case by name")
    p.add_argument("--seed", type=int, help="another seed than the case's (to look for better ones)")
    args = p.parse_args()
    setup()
    for name, kw in cases.items():
        if args.only in (None, name):
            if args.seed is not None:
                kw = kw | {"seed": args.seed}
            make_case(name, args.out, **kw)
