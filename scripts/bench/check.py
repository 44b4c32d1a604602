"""Whether PyTorch's paths compute what the variant says: each against plain dense products in float64."""

import torch

import cases
import entmax
from cases import LEAKY_SLOPE, TOP_K
from paths import NotHere, paths_of
from paths_dense import turn_by_hand

NORMALISERS = {"sparsemax": entmax.sparsemax, "entmax15": entmax.entmax15}


def weights_and_context(call):
    """The weights and the context, in the type of the inputs."""
    c = call.case
    repeats = c.n_heads // c.n_kv_heads
    q, k, v = call.q, call.k.repeat_interleave(repeats, 1), call.v.repeat_interleave(repeats, 1)
    if c.variant == "rotary":
        cos, sin = (x.to(q.dtype) for x in call.angles())
        q, k = turn_by_hand(q, cos, sin), turn_by_hand(k, cos, sin)
    if c.variant == "additive":
        hidden = torch.tanh(q[:, :, :, None] + k[:, :, None])
        scores = torch.einsum("nhijd,hd->nhij", hidden, call.v_a)
    else:
        scores = q @ k.transpose(-1, -2) * call.scale
    if c.variant == "relative_bias":
        scores = scores + call.table[:, call.offsets()]
    if c.variant == "alibi":
        scores = scores + call.alibi().to(q.dtype)
    allowed = call.allowed()
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -float("inf"))
    weights = NORMALISERS.get(c.variant, lambda x: torch.softmax(x, -1))(scores)
    return weights, weights @ v


def graph_context(call):
    """Every node has as many sources: the edges are a dense table."""
    c = call.case
    z = call.features.view(c.q_len, c.n_heads, c.d_k)
    sources = call.sources.view(c.q_len, -1)
    of_query, of_key = (z * call.att_query).sum(-1), (z * call.att_key).sum(-1)
    scores = torch.nn.functional.leaky_relu(of_query[:, None] + of_key[sources], LEAKY_SLOPE)
    return (torch.softmax(scores, 1).unsqueeze(-1) * z[sources]).sum(1).flatten(1)


def in_float64(call):
    """The same inputs in float64, as leaves of their own, in place."""
    for name, value in vars(call).items():
        if torch.is_tensor(value) and value.is_floating_point():
            setattr(call, name, value.detach().double().requires_grad_(value.requires_grad))
    names = ("features", "att_query", "att_key", "q", "k", "v", "v_a", "table")
    call.leaves = [getattr(call, name) for name in names if hasattr(call, name)]
    return call


def expected(call, which):
    """Named results of the reference: context, summary, gradients."""
    call = in_float64(call)
    if call.case.variant == "graph":
        context, results = graph_context(call), {}
    else:
        weights, context = weights_and_context(call)
        results = {}
        if call.case.variant == "weights_summary":
            results = {"mean": weights.mean(-2), "top": weights.topk(min(TOP_K, weights.shape[-1]), -1).values}
    results["context"] = context
    if which == "forward_backward":
        gradients = torch.autograd.grad(context, call.leaves, call.upstream)
        results |= {f"gradient {n}": gradient for n, gradient in enumerate(gradients)}
    return {name: result.detach() for name, result in results.items()}


def got(call, which, result):
    """The same results of a path."""
    context, gradients = result if which == "forward_backward" else (result, ())
    results = {}
    if isinstance(context, tuple):
        context, mean, top, _ = context
        # Some paths hold items and heads in one axis.
        heads, rows = call.q.shape[:2], call.q.shape[:3]
        results = {"mean": mean.reshape(*heads, -1), "top": top.reshape(*rows, -1)}
    results["context"] = context
    return results | {f"gradient {n}": gradient for n, gradient in enumerate(gradients)}


def count_pairs(call):
    """The allowed pairs of the mask itself, summed over items and heads; the queries of the padding do not count."""
    c, allowed = call.case, call.allowed()
    whole = allowed.expand(c.batch, c.n_heads, c.q_len, c.kv_len)
    return sum(whole[item, :, :length].sum().item() for item, length in enumerate(c.lengths))


def check_all(chosen, compiled, prepare, note):
    """Compares every path of every case; 1 where one differs, 0 where none does."""
    # Dropout is random: with nothing dropped it is the plain call.
    cases.DROPOUT = 0.0
    faults = 0
    for case in chosen:
        for which in case.passes:
            reference = None
            for path in paths_of(case, which, compiled):
                try:
                    call, run = prepare(path, case, which)
                    results = got(call, which, run())
                except NotHere as reason:
                    note(f"{case.variant} {case.shape} {which} {path.name}: not here: {reason}")
                    continue
                except Exception as error:  # The other paths are of interest still.
                    faults += 1
                    note(f"{case.variant} {case.shape} {which} {path.name}: FAULT {type(error).__name__}: {error}")
                    continue
                if reference is None:
                    if case.variant != "graph" and call.allowed() is not None and count_pairs(call) != case.n_pairs():
                        faults += 1
                        note(f"{case.variant} {case.shape}: FAULT: counted as {case.n_pairs()} pairs, not as the mask has")
                    reference = expected(type(call)(case, which), which)
                # Sums of as many terms in float32, each step off by at most one rounding of the largest result; 8 for
                # the chain of products, normaliser and gradient.
                terms = max(case.kv_len if case.variant != "graph" else 10, case.d_k)
                bound = 8 * terms * torch.finfo(torch.float32).eps
                worst = 0.0
                for name, wanted in reference.items():
                    result = results[name].detach().double()
                    if case.variant == "lengths_half" and name == "context":
                        wanted, result = (x[:, :, : case.lengths[0]] for x in (wanted, result))
                    worst = max(worst, ((result - wanted).abs().max() / wanted.abs().max()).item())
                fault = not worst <= bound
                faults += fault
                verdict = " FAULT" if fault else ""
                note(f"{case.variant} {case.shape} {which} {path.name}: {worst:.1e} of {bound:.1e}{verdict}")
    return 1 if faults else 0
