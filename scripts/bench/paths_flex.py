"""FlexAttention, compiled: uncompiled it writes the L×L scores. On a CPU it has no backward (and says so)."""

import torch
from torch.nn.attention import flex_attention as flex

from cases import WINDOW
from paths import compile_, path


def _flex(call, allowed=None, bias=None):
    c = call.case
    blocks = None
    if allowed is not None:
        # Only lengths differ from item to item.
        items = c.batch if c.variant == "lengths_half" else None
        blocks = flex.create_block_mask(allowed, items, None, c.q_len, c.kv_len, device="cpu")
    run = compile_(flex.flex_attention)
    grouped = c.n_kv_heads != c.n_heads
    return lambda: run(call.q, call.k, call.v, score_mod=bias, block_mask=blocks, enable_gqa=grouped)


def _flex_path(variants):
    return path(variants, "flex", passes=("forward",), compiled=True)


@_flex_path("plain gqa_8_2")
def _(call):
    return _flex(call)


@_flex_path("causal")
def _(call):
    return _flex(call, lambda n, h, i, j: i >= j)


@_flex_path("window_32")
def _(call):
    return _flex(call, lambda n, h, i, j: (i - j).abs() <= WINDOW)


@_flex_path("lengths_half")
def _(call):
    lengths = torch.tensor(call.case.lengths)
    return _flex(call, lambda n, h, i, j: j < lengths[n])


@_flex_path("documents")
def _(call):
    number = call.document_numbers()
    return _flex(call, lambda n, h, i, j: number[i] == number[j])


@_flex_path("mask_blocks")
def _(call):
    allowed = call.allowed()
    return _flex(call, lambda n, h, i, j: allowed[i, j])


@_flex_path("alibi")
def _(call):
    slopes = call.slopes()
    return _flex(call, bias=lambda score, n, h, i, j: score - slopes[h] * (i - j).abs())


@_flex_path("relative_bias")
def _(call):
    table, last = call.table, call.case.q_len - 1
    return _flex(call, bias=lambda score, n, h, i, j: score + table[h, j - i + last])
