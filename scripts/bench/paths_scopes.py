"""Paths of the variants in which a query sees few keys: windows, lengths, documents, a given mask."""

import torch
import torch.nn.functional as F

from cases import WINDOW
from inputs import as_bias
from paths import NotHere, path, sdpa, weights_of


@path("window_32 lengths_half documents", "sdpa_mask")
def _(call):
    bias = as_bias(call.allowed())
    return lambda: sdpa(call.q, call.k, call.v, attn_mask=bias)


@path("window_32 lengths_half documents", "manual")
def _(call):
    bias = as_bias(call.allowed())
    return lambda: weights_of(call, call.q, call.k, bias) @ call.v


def _window_chunks(size):
    def prepare(call):
        # A chunk of queries sees its own keys and WINDOW more on either side; chunks take the place of heads.
        c = call.case
        if c.q_len % size:
            raise NotHere(f"{c.q_len} positions do not divide into chunks of {size}")
        n, wide, pad = c.q_len // size, size + 2 * WINDOW, (0, 0, WINDOW, WINDOW)
        query = torch.arange(c.q_len).view(n, size, 1)
        key = torch.arange(n)[:, None, None] * size + torch.arange(wide) - WINDOW
        bias = as_bias(((query - key).abs() <= WINDOW) & (key >= 0) & (key < c.q_len))[None]

        def chunks(x):
            return F.pad(x, pad).unfold(2, wide, size).transpose(-1, -2).flatten(0, 1)

        def run():
            q = call.q.view(-1, n, size, c.d_k)
            return sdpa(q, chunks(call.k), chunks(call.v), attn_mask=bias).view(call.upstream.shape)

        return run

    return prepare


for _size in (32, 64, 128, 256):
    path("window_32", f"chunks_{_size}")(_window_chunks(_size))


@path("lengths_half", "item_by_item")
def _(call):
    c = call.case

    def run():
        # Split first: the gradient of a slice is as large as what it was cut from.
        items = []
        for length, *item in zip(c.lengths, call.q.split(1), call.k.split(1), call.v.split(1)):
            part = sdpa(*(x[:, :, :length] for x in item))
            items.append(F.pad(part, (0, 0, 0, c.q_len - length)))
        return torch.cat(items)

    return run


@path("documents", "document_by_document")
def _(call):
    lengths = call.case.documents

    def run():
        # Item by item, since the documents of one item need not be as long as another's.
        items = []
        for q, k, v in zip(call.q.split(1), call.k.split(1), call.v.split(1)):
            parts = zip(q.split(lengths, 2), k.split(lengths, 2), v.split(lengths, 2))
            items.append(torch.cat([sdpa(*part) for part in parts], 2))
        return torch.cat(items)

    return run


@path("mask_blocks", "sdpa_mask")
def _(call):
    allowed = call.allowed()
    return lambda: sdpa(call.q, call.k, call.v, attn_mask=allowed)


@path("mask_blocks", "block_rows")
def _(call):
    # The mask tells only within the time taken which blocks are filled; their keys and values are gathered at once, and
    # a row of blocks is a call.
    c, allowed, size = call.case, call.allowed(), call.case.block
    if c.q_len % size:
        raise NotHere(f"{c.q_len} positions do not divide into blocks of {size}")
    n = c.q_len // size

    def run():
        # Eight booleans read as one number.
        filled = allowed.view(torch.int64).view(n, size, n, size // 8).amax((1, 3)) > 0
        counts, columns = filled.sum(1).tolist(), filled.nonzero()[:, 1]
        masks = allowed.view(n, size, n, size).transpose(1, 2)[filled].split(counts)
        k, v = (x.unflatten(2, (n, size)).index_select(2, columns).split(counts, 2) for x in (call.k, call.v))
        rows = []
        for q, k_row, v_row, mask in zip(call.q.split(size, 2), k, v, masks):
            mask = mask.transpose(0, 1).flatten(1)
            rows.append(sdpa(q, k_row.flatten(2, 3), v_row.flatten(2, 3), attn_mask=mask))
        return torch.cat(rows, 2)

    return run


# Nested tensors: items or documents of unlike length in one call


def _nested(call, lengths, pack, unpack):
    offsets = torch.tensor([0, *lengths]).cumsum(0)

    def nested(x):
        return torch.nested.nested_tensor_from_jagged(pack(x.transpose(1, 2)), offsets).transpose(1, 2)

    def run():
        context = sdpa(nested(call.q), nested(call.k), nested(call.v)).transpose(1, 2)
        return unpack(context.contiguous().values()).transpose(1, 2)

    return run


@path("documents", "nested")
def _(call):
    c = call.case
    lengths = c.documents * c.batch
    return _nested(call, lengths, lambda x: x.flatten(0, 1), lambda x: x.view(c.batch, c.q_len, c.n_heads, c.d_v))


@path("lengths_half", "nested")
def _(call):
    c = call.case

    def pack(x):
        return torch.cat([x[n, :length] for n, length in enumerate(c.lengths)])

    def unpack(x):
        return torch.stack([F.pad(part, (0, 0, 0, 0, 0, c.q_len - len(part))) for part in x.split(c.lengths)])

    return _nested(call, c.lengths, pack, unpack)
