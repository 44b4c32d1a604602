"""Expected losses, log-probabilities and gradients of whole translation models, from PyTorch.

Each model is written here sentence by sentence from PyTorch's own cells and layers, and takes
its parameters under the names that Regard gives them. A case holds a batch of pairs of ids (targets without begin and
end), the log-probability of every target token and end, one sentence after another, and the gradient of their mean,
negative, by every parameter. Run: python scripts/golden/translate.py [--out DIR]
"""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from common import Case, main

BEGIN, END = 1, 2
SOURCE_VOCAB, TARGET_VOCAB = 9, 8
SOURCES = [[3, 5, 4, 8], [6, 3], [7, 7, 3, 4, 5, 6]]
TARGETS = [[4, 3, 6], [7, 5, 3, 4, 6], [3]]


def pairs():
    return zip(SOURCES, TARGETS)


def finish(case, log_probs_of):
    """Runs a model on every pair and records its log-probabilities and gradients."""
    picked = []
    for source, target in pairs():
        log_p = F.log_softmax(log_probs_of(torch.tensor(source), torch.tensor([BEGIN, *target])), dim=-1)
        picked.append(log_p.gather(1, torch.tensor([*target, END])[:, None])[:, 0])
    log_p = torch.cat(picked)
    case.record("log_p", log_p)
    (-log_p.mean()).backward()
    for name, leaf in case.inputs.items():
        assert torch.isfinite(leaf.grad).all(), f"{case.name}: gradient of {name}"
        case.record(f"d_{name}", leaf.grad)
    return case


def parameters(case, shapes, scale=0.5):
    return {name: case.input(name, *shape, scale=scale) for name, shape in shapes.items()}


def gru_cell(d, hidden, w_ih, w_hh, b_ih, b_hh):
    cell = nn.GRUCell(d, hidden)
    named = {"weight_ih": w_ih, "weight_hh": w_hh, "bias_ih": b_ih, "bias_hh": b_hh}
    return lambda x, h: functional_call(cell, named, (x, h))


def lstm_cell(d, hidden, w_ih, w_hh, b):
    cell = nn.LSTMCell(d, hidden)
    named = {"weight_ih": w_ih, "weight_hh": w_hh, "bias_ih": b, "bias_hh": torch.zeros_like(b)}
    return lambda x, state: functional_call(cell, named, (x, state))


def bahdanau():
    """Appendix A of Bahdanau et al. 2015 with PyTorch's GRU, annotation by annotation."""
    m, n, a, l = 3, 4, 5, 2
    case = Case("bahdanau", embedding=m, hidden=n, attention=a, readout=l)
    gru = {"w_ih": (3 * n, m), "w_hh": (3 * n, n), "b_ih": (3 * n,), "b_hh": (3 * n,)}
    shapes = {
        "source.table": (SOURCE_VOCAB, m),
        **{f"encoder.{way}.{name}": shape for way in ("forward", "backward") for name, shape in gru.items()},
        "target.table": (TARGET_VOCAB, m),
        "start.weight": (n, n),
        "start.bias": (n,),
        "attention.query": (a, n),
        "attention.key.weight": (a, 2 * n),
        "attention.key.bias": (a,),
        "attention.v_a": (a,),
        **{f"decoder.{name}": shape for name, shape in gru.items()},
        "decoder.w_context": (3 * n, 2 * n),
        "readout.weight": (2 * l, n + 2 * n + m),
        "readout.bias": (2 * l,),
        "output.weight": (TARGET_VOCAB, l),
        "output.bias": (TARGET_VOCAB,),
    }
    p = parameters(case, shapes)
    cells = {
        way: gru_cell(m, n, *(p[f"encoder.{way}.{name}"] for name in gru)) for way in ("forward", "backward")
    }
    # The decoder's cell reads [E y; c]: its input matrix is W and C side by side.
    decoder = gru_cell(
        m + 2 * n,
        n,
        torch.cat([p["decoder.w_ih"], p["decoder.w_context"]], dim=1),
        *(p[f"decoder.{name}"] for name in ("w_hh", "b_ih", "b_hh")),
    )

    def model(source, inputs):
        x = p["source.table"][source]
        states = {}
        for way, order in (("forward", range(len(x))), ("backward", reversed(range(len(x))))):
            h, states[way] = torch.zeros(n), {}
            for j in order:
                h = cells[way](x[j], h)
                states[way][j] = h
        annotations = [torch.cat([states["forward"][j], states["backward"][j]]) for j in range(len(x))]
        s = torch.tanh(F.linear(states["backward"][0], p["start.weight"], p["start.bias"]))
        logits = []
        for token in inputs:
            y = p["target.table"][token]
            e = [
                p["attention.v_a"]
                @ torch.tanh(
                    p["attention.query"] @ s + p["attention.key.weight"] @ h_j + p["attention.key.bias"]
                )
                for h_j in annotations
            ]
            alpha = torch.softmax(torch.stack(e), dim=0)
            c = sum(alpha[j] * annotations[j] for j in range(len(annotations)))
            read = F.linear(torch.cat([s, c, y]), p["readout.weight"], p["readout.bias"])
            t = torch.stack([torch.maximum(read[2 * k], read[2 * k + 1]) for k in range(l)])
            logits.append(F.linear(t, p["output.weight"], p["output.bias"]))
            s = decoder(torch.cat([y, c]), s)
        return torch.stack(logits)

    return finish(case, model)


def luong(score, scope, feeds):
    """Luong et al. 2015, word by word: two LSTM layers on each side."""
    e, n, radius, places = 3, 4, 2, 7
    fed = "fed" if feeds else "plain"
    case = Case(
        f"luong_{score}_{scope}_{fed}",
        embedding=e,
        hidden=n,
        layers=2,
        radius=radius,
        max_source=places,
        score=score,
        scope=scope,
        input_feeding=feeds,
    )
    layer = lambda d: {"w_ih": (4 * n, d), "w_hh": (4 * n, n), "b": (4 * n,)}
    stack = lambda side: {f"{side}.{l}.{name}": s for l, d in ((0, e), (1, n)) for name, s in layer(d).items()}
    shapes = {
        "source.table": (SOURCE_VOCAB, e),
        **stack("encoder"),
        "target.table": (TARGET_VOCAB, e),
        **stack("decoder"),
    }
    if score == "concat":
        shapes |= {"attention.query": (n, n), "attention.key.bias": (n,), "attention.v_a": (n,)}
    if score in ("general", "concat"):
        shapes["attention.key.weight"] = (n, n)
    if score == "location":
        shapes["attention.places"] = (places, n)
    if scope == "local-p":
        shapes |= {"attention.centre.weight": (n, n), "attention.centre.v": (n,)}
    if feeds:
        shapes["decoder.w_feed"] = (4 * n, n)
    shapes |= {"combine": (n, 2 * n), "output.weight": (TARGET_VOCAB, n), "output.bias": (TARGET_VOCAB,)}
    p = parameters(case, shapes)

    def cell(side, l, extra=None):
        w = p[f"{side}.{l}.w_ih"]
        w = w if extra is None else torch.cat([w, extra], dim=1)
        return lstm_cell(w.shape[1], n, w, p[f"{side}.{l}.w_hh"], p[f"{side}.{l}.b"])

    encoder = [cell("encoder", 0), cell("encoder", 1)]
    decoder = [cell("decoder", 0, p.get("decoder.w_feed")), cell("decoder", 1)]

    def scores(h, memory):
        if score == "dot":
            return torch.stack([h @ m for m in memory])
        if score == "general":
            return torch.stack([h @ (p["attention.key.weight"] @ m) for m in memory])
        if score == "location":
            return (p["attention.places"] @ h)[: len(memory)]
        bias = p["attention.key.bias"]
        keys = [p["attention.key.weight"] @ m + bias for m in memory]
        return torch.stack([p["attention.v_a"] @ torch.tanh(p["attention.query"] @ h + k) for k in keys])

    def weights(h, memory, t):
        s = scores(h, memory)
        last = len(memory) - 1
        if scope == "global":
            return torch.softmax(s, dim=0)
        if scope == "local-m":
            centre = min(t, last)
        else:
            centre = last * torch.sigmoid(
                p["attention.centre.v"] @ torch.tanh(p["attention.centre.weight"] @ h)
            )
        middle = math.floor(float(centre.detach()) if isinstance(centre, torch.Tensor) else centre)
        allowed = torch.tensor([abs(j - middle) <= radius for j in range(len(memory))])
        a = torch.softmax(s.masked_fill(~allowed, -math.inf), dim=0)
        if scope == "local-p":
            sigma = radius / 2
            a = a * torch.exp(-((torch.arange(len(memory)) - centre) ** 2) / (2 * sigma**2))
        return a

    def run(cells, x, states):
        after = []
        for step, state in zip(cells, states):
            x, c = step(x, state)
            after.append((x, c))
        return x, after

    def model(source, inputs):
        states = [(torch.zeros(n), torch.zeros(n))] * 2
        memory = []
        for token in source:
            h, states = run(encoder, p["source.table"][token], states)
            memory.append(h)
        tilde = torch.zeros(n)
        logits = []
        for t, token in enumerate(inputs):
            x = p["target.table"][token]
            h, states = run(decoder, torch.cat([x, tilde]) if feeds else x, states)
            a = weights(h, memory, t)
            c = sum(a[j] * memory[j] for j in range(len(memory)))
            tilde = torch.tanh(p["combine"] @ torch.cat([h, c]))
            logits.append(F.linear(tilde, p["output.weight"], p["output.bias"]))
        return torch.stack(logits)

    return finish(case, model)


def transformer(norm):
    """nn.TransformerEncoderLayer and nn.TransformerDecoderLayer, two of each, tied output."""
    d, heads, d_ff, layers = 6, 2, 5, 2
    case = Case(f"transformer_{norm}", d_model=d, heads=heads, d_ff=d_ff, layers=layers, norm=norm)
    first = norm == "before"
    options = {"dropout": 0.0, "activation": "relu", "batch_first": True, "norm_first": first}
    encoder = [nn.TransformerEncoderLayer(d, heads, d_ff, **options).train() for _ in range(layers)]
    decoder = [nn.TransformerDecoderLayer(d, heads, d_ff, **options).train() for _ in range(layers)]
    p = parameters(case, {"source.table": (SOURCE_VOCAB, d), "target.table": (TARGET_VOCAB, d)}, scale=0.4)
    linear = lambda name, d_in, d_out: {f"{name}.weight": (d_out, d_in), f"{name}.bias": (d_out,)}
    norm_of = lambda name: {f"{name}.gain": (d,), f"{name}.bias": (d,)}
    common = {
        **linear("attention.qkv", d, 3 * d),
        **linear("attention.output", d, d),
        **linear("inner", d, d_ff),
        **linear("outer", d_ff, d),
        **norm_of("norm1"),
        **norm_of("norm2"),
    }
    cross = {
        **linear("cross.query", d, d),
        **linear("cross.key_value", d, 2 * d),
        **linear("cross.output", d, d),
        **norm_of("norm3"),
    }
    for l in range(layers):
        p |= parameters(case, {f"encoder.{l}.{name}": shape for name, shape in common.items()})
    for l in range(layers):
        p |= parameters(case, {f"decoder.{l}.{name}": shape for name, shape in (common | cross).items()})
    if first:
        p |= parameters(case, norm_of("encoder.last") | norm_of("decoder.last"))
    p |= parameters(case, {"output.bias": (TARGET_VOCAB,)})

    def theirs(side, l):
        of = lambda name: p[f"{side}.{l}.{name}"]
        named = {
            "self_attn.in_proj_weight": of("attention.qkv.weight"),
            "self_attn.in_proj_bias": of("attention.qkv.bias"),
            "self_attn.out_proj.weight": of("attention.output.weight"),
            "self_attn.out_proj.bias": of("attention.output.bias"),
        }
        if side == "decoder":
            named |= {
                "multihead_attn.in_proj_weight": torch.cat([of("cross.query.weight"), of("cross.key_value.weight")]),
                "multihead_attn.in_proj_bias": torch.cat([of("cross.query.bias"), of("cross.key_value.bias")]),
                "multihead_attn.out_proj.weight": of("cross.output.weight"),
                "multihead_attn.out_proj.bias": of("cross.output.bias"),
                "norm3.weight": of("norm3.gain"),
                "norm3.bias": of("norm3.bias"),
            }
        for ours, name in (("inner", "linear1"), ("outer", "linear2")):
            named |= {f"{name}.weight": of(f"{ours}.weight"), f"{name}.bias": of(f"{ours}.bias")}
        for name in ("norm1", "norm2"):
            named |= {f"{name}.weight": of(f"{name}.gain"), f"{name}.bias": of(f"{name}.bias")}
        return named

    for layer in encoder + decoder:
        layer.linear1.register_forward_hook(lambda _module, _inputs, hidden: case.away_from_kink(hidden))

    def embed(table, ids):
        places = torch.arange(len(ids))[:, None]
        angles = places / 10000 ** (torch.arange(0, d, 2) / d)
        code = torch.stack([torch.sin(angles), torch.cos(angles)], dim=-1).reshape(len(ids), d)
        return (table[ids] * math.sqrt(d) + code)[None]

    def last(side, x):
        return F.layer_norm(x, (d,), p[f"{side}.last.gain"], p[f"{side}.last.bias"]) if first else x

    def model(source, inputs):
        x = embed(p["source.table"], source)
        for l, layer in enumerate(encoder):
            x = functional_call(layer, theirs("encoder", l), (x,))
        x = last("encoder", x)
        y = embed(p["target.table"], inputs)
        future = torch.ones(len(inputs), len(inputs), dtype=torch.bool).triu(1)
        for l, layer in enumerate(decoder):
            y = functional_call(layer, theirs("decoder", l), (y, x), {"tgt_mask": future})
        return F.linear(last("decoder", y)[0], p["target.table"], p["output.bias"])

    return finish(case, model)


def cases():
    yield bahdanau()
    for score, scope, feeds in [
        ("general", "global", True),
        ("dot", "global", False),
        ("concat", "global", True),
        ("location", "global", True),
        ("general", "local-m", False),
        ("general", "local-p", True),
        ("concat", "local-p", False),
    ]:
        yield luong(score, scope, feeds)
    yield transformer("after")
    yield transformer("before")


if __name__ == "__main__":
    main("translate", itertools.chain(cases()))
