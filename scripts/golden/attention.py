"""Expected values of the attention scores, scopes and positions, from PyTorch.

Layout [batch, heads, len, d]. Run: python scripts/golden/attention.py [--out DIR]
"""

import itertools
import math

import torch
import torch.nn.functional as F

from common import Case, main

INFINITY = float("inf")


def scores(case, score, q, k):
    """Scores [B, H, q_len, kv_len] of every query with every key."""
    if score == "dot":
        return q @ k.transpose(-1, -2)
    if score == "scaled_dot":
        return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    assert score == "additive"
    # v_a^T tanh(q_i + k_j), one v_a per head; q and k are already projected.
    v_a = case.input("v_a", q.shape[1], q.shape[-1])
    return torch.einsum("bhijd,hd->bhij", torch.tanh(q[:, :, :, None, :] + k[:, :, None, :, :]), v_a)


def allowed_pairs(batch, q_len, kv_len, lengths=None, causal=False, left=None, right=None):
    """True where query i may see key j, [B, 1, q_len, kv_len]; every condition given must hold."""
    i = torch.arange(q_len)[:, None]
    j = torch.arange(kv_len)[None, :]
    allowed = torch.ones(batch, 1, q_len, kv_len, dtype=torch.bool)
    if lengths is not None:
        assert len(lengths) == batch
        allowed &= j < torch.tensor(lengths)[:, None, None, None]
    if causal or left is not None:
        # With unlike lengths it would have to be said which ends are aligned.
        assert q_len == kv_len
    if causal:
        allowed &= j <= i
    if left is not None:
        allowed &= (j >= i - left) & (j <= i + right)
    return allowed


def attend(values, allowed, v):
    """Context, weights and log-sum-exp; a query with nothing allowed has zeros and −∞."""
    some = allowed.any(dim=-1, keepdim=True)
    masked = values.masked_fill(~allowed, -INFINITY)
    # A row of −∞ alone has no softmax: such a row is computed unmasked and then thrown away.
    safe = torch.where(some, masked, values)
    weights = torch.where(some, torch.softmax(safe, dim=-1), 0.0)
    lse = torch.logsumexp(safe, dim=-1).masked_fill(~some.squeeze(-1), -INFINITY)
    return weights @ v, weights, lse


def attention(name, score, shape, with_d_weights=False, scale=1.0, **scope):
    """One case; `shape` is (batch, heads, q_len, kv_len, d_k, d_v)."""
    batch, heads, q_len, kv_len, d_k, d_v = shape
    case = Case(f"{score}_{name}", score=score, scope=scope.pop("scope"), **scope)
    q = case.input("q", batch, heads, q_len, d_k, scale=scale)
    k = case.input("k", batch, heads, kv_len, d_k, scale=scale)
    v = case.input("v", batch, heads, kv_len, d_v)
    values = scores(case, score, q, k)
    allowed = allowed_pairs(batch, q_len, kv_len, **scope)
    context, weights, lse = attend(values, allowed, v)

    case.attrs["d_weights"] = with_d_weights
    nothing = ~allowed.any(dim=-1).expand(batch, heads, q_len)
    case.attrs["empty_rows"] = int(nothing.sum())
    assert not context[nothing].any() and not weights[nothing].any()
    assert not weights[~allowed.expand_as(weights)].any()
    check_with_torch(score, q, k, v, allowed, context, ~nothing)

    case.backward(
        upstream_of=("context", "weights") if with_d_weights else ("context",),
        context=context,
        weights=weights,
        lse=lse,
    )
    assert not q.grad[nothing].any()
    return case


def check_with_torch(score, q, k, v, allowed, context, rows):
    """torch's own attention must give the same context where a query sees something."""
    if score == "additive":
        return
    scale = 1.0 if score == "dot" else None
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed.expand(*q.shape[:3], -1), scale=scale)
    torch.testing.assert_close(context[rows], expected[rows], rtol=1e-12, atol=1e-12)


def attention_cases():
    cross = (2, 3, 5, 7, 3, 2)
    square = (1, 2, 7, 7, 3, 5)
    pair = (2, 1, 7, 7, 3, 2)
    for score in ("dot", "scaled_dot", "additive"):
        yield attention("full", score, (1, 2, 3, 5, 7, 2), scope="full")
        yield attention("full_d_weights", score, (1, 2, 3, 5, 3, 3), with_d_weights=True, scope="full")
        yield attention("lengths", score, cross, scope="lengths", lengths=[4, 7])
        yield attention("causal", score, square, scope="causal", causal=True)
        yield attention("window", score, square, scope="window", left=2, right=1)
        # The second item is so short that the last queries of its windows see no key at all.
        yield attention(
            "window_causal_lengths",
            score,
            pair,
            with_d_weights=True,
            scope="window+causal+lengths",
            left=2,
            right=1,
            causal=True,
            lengths=[7, 2],
        )
        yield attention(
            "nothing_allowed", score, (2, 1, 3, 5, 3, 2), with_d_weights=True, scope="lengths", lengths=[0, 5]
        )
    # Scores of several hundred: in float32, exp overflows unless the row's maximum is taken off first.
    yield attention("large_scores", "dot", (1, 2, 3, 5, 7, 2), scale=12.0, scope="full")


def rotate(x, positions, base, pairing):
    """Turns pair i of each row by positions · base^(−2i/d)."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * base ** (-2.0 * torch.arange(half) / x.shape[-1])
    cos, sin = torch.cos(angles), torch.sin(angles)
    if pairing == "interleaved":
        first, second = x[..., 0::2], x[..., 1::2]
    else:
        first, second = x[..., :half], x[..., half:]
    turned = (first * cos - second * sin, first * sin + second * cos)
    if pairing == "interleaved":
        return torch.stack(turned, dim=-1).flatten(-2)
    return torch.cat(turned, dim=-1)


def rotary_cases():
    base = 10000.0
    for pairing, start in itertools.product(("interleaved", "half_split"), (0, 11)):
        case = Case(f"rotary_{pairing}_from_{start}", pairing=pairing, base=base, start=start)
        x = case.input("x", 1, 2, 5, 6)
        y = rotate(x, torch.arange(start, start + 5, dtype=x.dtype), base, pairing)
        # The product of two turned vectors depends on the distance of their positions alone.
        shifted = rotate(x, torch.arange(start + 4, start + 9, dtype=x.dtype), base, pairing)
        products, again = (t @ t.transpose(-1, -2) for t in (y, shifted))
        torch.testing.assert_close(products, again, rtol=1e-11, atol=1e-11)
        yield case.backward(y=y)


def sinusoidal(length, d):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same angle."""
    table = torch.zeros(length, d)
    for position, column in itertools.product(range(length), range(d)):
        angle = position / 10000.0 ** (2 * (column // 2) / d)
        table[position, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


def sinusoidal_cases():
    published = torch.tensor(
        [
            [0.0, 1.0, 0.0, 1.0],
            [0.841471, 0.540302, 0.01, 0.99995],
            [0.909297, -0.416147, 0.019999, 0.9998],
            [0.14112, -0.989992, 0.029996, 0.99955],
        ]
    )
    torch.testing.assert_close(sinusoidal(4, 4), published, rtol=0.0, atol=1e-6)
    for d, length in ((4, 4), (8, 11)):
        case = Case(f"sinusoidal_d_{d}", d_model=d, first_position=0, last_position=length - 1)
        case.record("y", sinusoidal(length, d))
        yield case


if __name__ == "__main__":
    main("attention", itertools.chain(attention_cases(), rotary_cases(), sinusoidal_cases()))
