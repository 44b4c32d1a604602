"""Paths of the variants with all pairs allowed or causal: dropout, summaries, normalisers, positions."""

import torch
import torch.nn.functional as F

import cases
import entmax
from cases import TOP_K
from inputs import as_bias
from paths import NotHere, compile_, head_by_head, is_long, path, sdpa, weights_of

# Dense calls


@path("plain d_v_32 decode_1 decode_16", "sdpa")
def _(call):
    return lambda: sdpa(call.q, call.k, call.v)


@path("plain d_v_32 decode_1 decode_16", "manual")
def _(call):
    return lambda: weights_of(call, call.q, call.k) @ call.v


@path("causal", "sdpa")
def _(call):
    return lambda: sdpa(call.q, call.k, call.v, is_causal=True)


@path("causal", "manual")
def _(call):
    bias = as_bias(call.allowed())
    return lambda: weights_of(call, call.q, call.k, bias) @ call.v


@path("d_v_32", "sdpa_padded")
def _(call):
    # The fused kernel wants d_v = d_k: columns of zeros make it so.
    missing = call.case.d_k - call.case.d_v
    if missing < 0:
        # Zeros beside q and k leave the scores alone.
        return lambda: sdpa(F.pad(call.q, (0, -missing)), F.pad(call.k, (0, -missing)), call.v, scale=call.scale)
    return lambda: sdpa(call.q, call.k, F.pad(call.v, (0, missing)))[..., : call.case.d_v]


@path("gqa_8_2", "sdpa_gqa")
def _(call):
    return lambda: sdpa(call.q, call.k, call.v, enable_gqa=True)


@path("gqa_8_2", "sdpa_folded")
def _(call):
    # The queries of a group share their keys: with every pair allowed they are more rows of one head.
    c = call.case
    folded = (c.batch, c.n_kv_heads, c.n_heads // c.n_kv_heads * c.q_len, c.d_k)
    return lambda: sdpa(call.q.view(folded), call.k, call.v).view(call.upstream.shape)


# Dropout, summaries, other normalisers


@path("dropout", "sdpa")
def _(call):
    return lambda: sdpa(call.q, call.k, call.v, dropout_p=cases.DROPOUT)


def _dropout(call):
    return lambda: F.dropout(weights_of(call, call.q, call.k), cases.DROPOUT) @ call.v


path("dropout", "manual")(_dropout)
path("dropout", "manual_compiled", compiled=True)(lambda call: compile_(_dropout(call)))


@path("dropout", "head_by_head")
def _(call):
    return lambda: head_by_head(call, lambda n, h, q, k, v: F.dropout(weights_of(call, q, k), cases.DROPOUT) @ v)


def summary(weights):
    """Mean over the queries, and the largest weights of each query."""
    return weights.mean(-2), *weights.topk(min(TOP_K, weights.shape[-1]), -1)


def _summarised(call):
    def run():
        weights = weights_of(call, call.q, call.k)
        return weights @ call.v, *summary(weights.detach())

    return run


path("weights_summary", "manual")(_summarised)
path("weights_summary", "manual_compiled", compiled=True)(lambda call: compile_(_summarised(call)))


@path("weights_summary", "sdpa_and_summary")
def _(call):
    # The summary takes no gradient: the context by the fused kernel, the weights a second time, head by head.
    @torch.no_grad()
    def one(q, k):
        return summary(weights_of(call, q, k))

    def run():
        heads = zip(call.q.flatten(0, 1), call.k.flatten(0, 1))
        return sdpa(call.q, call.k, call.v), *(torch.stack(part) for part in zip(*(one(q, k) for q, k in heads)))

    return run


def _normaliser(variant, name, normalise):
    @path(variant, name)
    def _(call):
        if is_long(call):
            raise NotHere("a sort of all scores at once takes ten times their memory")
        return lambda: weights_of(call, call.q, call.k, normalise=normalise) @ call.v

    @path(variant, f"{name}_head_by_head")
    def _(call):
        return lambda: head_by_head(call, lambda n, h, q, k, v: weights_of(call, q, k, normalise=normalise) @ v)


_normaliser("sparsemax", "sort", entmax.sparsemax)
_normaliser("sparsemax", "top_32", lambda scores: entmax.sparsemax(scores, k=min(32, scores.shape[-1])))
_normaliser("entmax15", "sort", entmax.entmax15)
_normaliser("entmax15", "top_128", lambda scores: entmax.entmax15(scores, k=min(128, scores.shape[-1])))


# Positions


def _bias_gathered(call):
    offsets = call.offsets()
    return lambda: call.table[:, offsets]


def _bias_selected(call):
    length = call.case.q_len
    offsets = call.offsets().flatten()
    return lambda: call.table.index_select(1, offsets).view(-1, length, length)


def _bias_skewed(call):
    # Rows of 2L − 1 read as rows of 2L − 2 move by one each: no index, and a gradient that is a plain sum.
    heads, length = call.case.n_heads, call.case.q_len

    def run():
        rows = call.table[:, None].expand(heads, length, 2 * length - 1)
        flat = rows.reshape(heads, -1)[:, length - 1 : length - 1 + length * (2 * length - 2)]
        return flat.view(heads, length, 2 * length - 2)[:, :, :length]

    return run


for _name, _bias in (("gathered", _bias_gathered), ("selected", _bias_selected), ("skewed", _bias_skewed)):

    def _by_sdpa(call, _bias=_bias):
        bias = _bias(call)
        return lambda: sdpa(call.q, call.k, call.v, attn_mask=bias()[None])

    def _by_hand(call, _bias=_bias):
        bias = _bias(call)
        return lambda: weights_of(call, call.q, call.k, bias()) @ call.v

    path("relative_bias", f"sdpa_{_name}")(_by_sdpa)
    path("relative_bias", f"manual_{_name}")(_by_hand)

path("relative_bias", "manual_compiled", compiled=True)(lambda call: compile_(_by_hand(call, _bias_selected)))


@path("relative_bias", "head_by_head")
def _(call):
    bias = _bias_skewed(call)

    def run():
        biases = bias()
        return head_by_head(call, lambda n, h, q, k, v: weights_of(call, q, k, biases[h]) @ v)

    return run


@path("alibi", "sdpa_mask")
def _(call):
    bias = call.alibi()
    return lambda: sdpa(call.q, call.k, call.v, attn_mask=bias)


@path("alibi", "manual")
def _(call):
    bias = call.alibi()
    return lambda: weights_of(call, call.q, call.k, bias) @ call.v


def turn_interleaved(x, turns):
    """Pairs (2i, 2i + 1) as complex numbers, turned by a product."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2)


def turn_by_hand(x, cos, sin):
    """The same in real numbers."""
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


@path("rotary", "complex_sdpa")
def _(call):
    turns = torch.complex(*call.angles())
    return lambda: sdpa(turn_interleaved(call.q, turns), turn_interleaved(call.k, turns), call.v)


@path("rotary", "real_sdpa")
def _(call):
    cos, sin = call.angles()
    return lambda: sdpa(turn_by_hand(call.q, cos, sin), turn_by_hand(call.k, cos, sin), call.v)


@path("rotary", "compiled_sdpa", compiled=True)
def _(call):
    cos, sin = call.angles()
    turn = compile_(lambda q, k: (turn_by_hand(q, cos, sin), turn_by_hand(k, cos, sin)))
    return lambda: sdpa(*turn(call.q, call.k), call.v)
