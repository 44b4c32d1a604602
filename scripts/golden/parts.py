"""Expected values of single parts: scores and positions from PyTorch, sparse normalisers from the package entmax,
attention over the edges of a graph from torch_geometric.

Scores take q [heads, q_len, d] and k [heads, kv_len, d]; rows of scores are [rows, keys]; nodes of
graphs are [nodes, heads, d]. Positions stand in a call of one item with q [heads, q_len, d], k [heads, kv_len, d] and
v [heads, kv_len, d_v]. Needs `pip install entmax torch_geometric`.
Run: python scripts/golden/parts.py [--out DIR]
"""

import math

import entmax
import torch
import torch.nn.functional as F
from torch.func import functional_call
from torch_geometric.nn import GATConv, GATv2Conv

from common import Case, main


def every_pair(q, k):
    """q_i and k_j of every pair, broadcast to [heads, q_len, kv_len, d]."""
    q, k = q[:, :, None, :], k[:, None, :, :]
    return torch.broadcast_tensors(q, k)


def general(case, q, k):
    w = case.input("params", q.shape[0], q.shape[2], k.shape[2])
    return q @ w @ k.transpose(-1, -2)


def cosine(_, q, k):
    return F.cosine_similarity(*every_pair(q, k), dim=-1)


def distance(_, q, k):
    q, k = every_pair(q, k)
    return 1.0 / (1.0 + torch.linalg.vector_norm(q - k, dim=-1))


def gat(case, q, k):
    """LeakyReLU(aᵀ[q ; k]), as the paper has it, before it is split."""
    a = case.input("params", q.shape[0], 2 * q.shape[2])
    x = torch.einsum("hijd,hd->hij", torch.cat(every_pair(q, k), dim=-1), a)
    case.away_from_kink(x)
    return F.leaky_relu(x, case.attrs["slope"])


def gatv2(case, q, k):
    a = case.input("params", q.shape[0], q.shape[2])
    q, k = every_pair(q, k)
    case.away_from_kink(q + k)
    return torch.einsum("hijd,hd->hij", F.leaky_relu(q + k, case.attrs["slope"]), a)


def softcap(case, q, k):
    cap = case.attrs["cap"]
    return cap * torch.tanh(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) / cap)


def head_scale(case, q, k):
    factors = case.input("params", q.shape[0])
    return factors[:, None, None] * cosine(case, q, k)


def score_cases():
    kinds = [
        ("general", general, {}),
        ("cosine", cosine, {}),
        ("distance", distance, {}),
        ("gat", gat, {"slope": 0.2}),
        ("gatv2", gatv2, {"slope": 0.2}),
        ("softcap", softcap, {"cap": 0.5}),
        ("head_scale", head_scale, {}),
    ]
    for name, score, attrs in kinds:
        # Across the eight lanes of a vector loop, and below them.
        for heads, q_len, kv_len, d in ((2, 3, 5, 11), (3, 2, 3, 2)):
            case = Case(f"{name}_d_{d}", score=name, **attrs)
            q = case.input("q", heads, q_len, d)
            k = case.input("k", heads, kv_len, d)
            yield case.backward(s=score(case, q, k))
    # The root has no derivative where a query is a key; PyTorch takes 0 as well.
    case = Case("distance_of_equal_vectors", score="distance")
    q = case.input("q", 1, 2, 3)
    k = case.given("k", torch.cat([q.detach()[:, :1], case.draw(1, 2, 3)], dim=1))
    yield case.backward(s=distance(case, q, k))


def normaliser_cases():
    kinds = [
        ("sparsemax", lambda s: entmax.sparsemax(s, dim=-1)),
        ("entmax15", lambda s: entmax.entmax15(s, dim=-1)),
        ("sigmoid", torch.sigmoid),
        ("temperature", lambda s: torch.softmax(s / 0.7, dim=-1)),
    ]
    for name, normalise in kinds:
        for size, scale in (("small", 0.3), ("large", 3.0)):
            attrs = {"tau": 0.7} if name == "temperature" else {}
            case = Case(f"{name}_{size}_scores", normaliser=name, **attrs)
            s = case.input("s", 6, 13, scale=scale)
            a = normalise(s)
            if name in ("sparsemax", "entmax15"):
                check_definition(s, a, power=1 if name == "sparsemax" else 2)
                case.attrs["support"] = int((a > 0).sum())
            yield case.backward(a=a)


def check_definition(s, a, power):
    """a = ((s/power − τ)₊)^power for one τ a row, with sum one."""
    z, root = s / power, a ** (1.0 / power)
    tau = torch.where(a > 0, z - root, -torch.inf).amax(dim=-1, keepdim=True)
    torch.testing.assert_close(torch.clamp(z - tau, min=0.0), root, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(a.sum(dim=-1), torch.ones(len(a)), rtol=1e-12, atol=1e-12)


def graph_case(score, edges, q_len, kv_len, self_loops):
    """One layer of torch_geometric whose projections are the identity, so that its nodes are q and k = v.

    An edge (i, j) is one from node j to node i: query i sees key j.
    """
    heads, d = 2, 3
    loops = "added" if self_loops else "as given"
    queries, keys = ([edge[n] for edge in edges] for n in (0, 1))
    case = Case(
        f"{score}_graph_{loops.replace(' ', '_')}",
        graph=score,
        slope=0.2,
        self_loops=loops,
        queries=queries,
        keys=keys,
    )
    q = case.input("q", q_len, heads, d)
    k = case.input("k", kv_len, heads, d)
    kind = {"gat": GATConv, "gatv2": GATv2Conv}[score]
    layer = kind((heads * d, heads * d), d, heads=heads, bias=False, negative_slope=0.2, add_self_loops=self_loops)
    identity = torch.eye(heads * d)
    if score == "gat":
        # Of each head a₁, for the target, and then a₂, for the source.
        params = case.input("params", heads, 2, d)
        given = {"att_dst": params[None, :, 0], "att_src": params[None, :, 1]}
        given |= {"lin_src.weight": identity, "lin_dst.weight": identity}
        x = (q[:, None] * params[:, 0]).sum(-1) + (k[None] * params[:, 1]).sum(-1)
    else:
        params = case.input("params", heads, d)
        given = {"att": params[None], "lin_l.weight": identity, "lin_r.weight": identity}
        x = q[:, None] + k[None]
    case.away_from_kink(x)
    assert given.keys() == dict(layer.named_parameters()).keys()

    # First row: sources, second row: targets.
    out, (index, weights) = functional_call(
        layer,
        given,
        ((k.flatten(1), q.flatten(1)), torch.tensor([keys, queries])),
        {"return_attention_weights": True},
    )
    if self_loops:
        case.attrs["weights_queries"], case.attrs["weights_keys"] = index[1].tolist(), index[0].tolist()
    else:
        assert index.tolist() == [keys, queries]
    return case.backward(context=out.view(q_len, heads, d), weights=weights)


def graph_cases():
    for score in ("gat", "gatv2"):
        # The edges of a query do not stand together; query 2 and key 4 have none.
        edges = [(3, 5), (0, 1), (3, 0), (1, 1), (0, 5), (1, 3), (0, 2), (3, 3)]
        yield graph_case(score, edges, 4, 6, self_loops=False)
        # Node 1 has its self-loop already; node 4 sees itself alone.
        edges = [(3, 0), (1, 1), (0, 4), (1, 0), (2, 3), (3, 1), (0, 2)]
        yield graph_case(score, edges, 5, 5, self_loops=True)


def distances(q_len, kv_len, q_offset):
    """Key less query, [q_len, kv_len]."""
    return torch.arange(kv_len)[None, :] - (q_offset + torch.arange(q_len))[:, None]


def t5_bucket(distance, bidirectional, n_buckets, max_distance):
    """Raffel et al. 2020 with the arithmetic of the released models: the logarithm in float32, cut off."""
    after = torch.zeros_like(distance)
    if bidirectional:
        n_buckets = n_buckets // 2
        after = n_buckets * (distance > 0).long()
        far = distance.abs()
    else:
        far = (-distance).clamp(min=0)
    exact = n_buckets // 2
    share = torch.log(far.to(torch.float32) / exact) / math.log(max_distance / exact)
    wide = (exact + (share * (n_buckets - exact)).long()).clamp(max=n_buckets - 1)
    return after + torch.where(far < exact, far, wide)


def bucket_cases():
    kinds = [(True, 32, 128), (False, 32, 128), (True, 8, 20), (False, 2, 3), (False, 9, 128), (False, 17, 27)]
    for bidirectional, n_buckets, max_distance in kinds:
        direction = "both" if bidirectional else "back"
        given = [*range(-170, 171), -5000, -1000, -300, 300, 1000, 5000]
        buckets = t5_bucket(torch.tensor(given), bidirectional, n_buckets, max_distance)
        yield Case(
            f"{n_buckets}_buckets_{direction}_{max_distance}",
            bidirectional=bidirectional,
            n_buckets=n_buckets,
            max_distance=max_distance,
            distances=given,
            buckets=buckets.tolist(),
        )


def attend(case, q, k, v, bias=0.0, factor=1.0, values=None, allowed=None):
    """Scaled dot product, bias, scope, softmax, factor, values and those of the position; then everything backwards."""
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias
    if allowed is not None:
        s = s.masked_fill(~allowed, -torch.inf)
    a = torch.softmax(s, dim=-1) * factor
    context = a @ v
    if values is not None:
        # values [heads, q_len, kv_len, d_v]
        context = context + torch.einsum("hij,hijd->hid", a, values)
    return case.backward(context=context, weights=a)


def position_case(name, position, heads=2, q_len=5, kv_len=7, d=6, d_v=3, **attrs):
    case = Case(name, position=position, **attrs)
    q, k, v = case.input("q", heads, q_len, d), case.input("k", heads, kv_len, d), case.input("v", heads, kv_len, d_v)
    return case, q, k, v


def relative_bias_cases():
    for bidirectional in (True, False):
        n_buckets, max_distance, q_offset = 8, 6, 4
        case, q, k, v = position_case(
            f"relative_bias_{'both' if bidirectional else 'back'}",
            "relative_bias",
            bidirectional=bidirectional,
            n_buckets=n_buckets,
            max_distance=max_distance,
            q_offset=q_offset,
        )
        table = case.input("params", n_buckets, q.shape[0])
        buckets = t5_bucket(distances(q.shape[1], k.shape[1], q_offset), bidirectional, n_buckets, max_distance)
        yield attend(case, q, k, v, bias=table[buckets].permute(2, 0, 1))


def shaw_cases():
    for name, of_heads, with_values, radius in (
        ("shared", False, True, 2),
        ("heads", True, True, 1),
        ("keys_alone", False, False, 9),
    ):
        q_offset = 3
        case, q, k, v = position_case(f"shaw_{name}", "shaw", radius=radius, q_offset=q_offset)
        heads, d, d_v = q.shape[0], q.shape[2], v.shape[2]
        sizes = (heads, 2 * radius + 1) if of_heads else (2 * radius + 1,)
        place = distances(q.shape[1], k.shape[1], q_offset).clamp(-radius, radius) + radius
        table = case.input("keys_table", *sizes, d)
        keys = table[:, place] if of_heads else table[place].expand(heads, -1, -1, -1)
        bias = torch.einsum("hid,hijd->hij", q, keys) / math.sqrt(d)
        values = None
        if with_values:
            table = case.input("values_table", *sizes, d_v)
            values = table[:, place] if of_heads else table[place].expand(heads, -1, -1, -1)
        yield attend(case, q, k, v, bias=bias, values=values)


def alibi_slopes(n_heads):
    """Press et al. 2022, with the rule of their code for numbers that are no power of two."""
    lower = 2 ** math.floor(math.log2(n_heads))
    first = [2.0 ** (-8.0 * h / lower) for h in range(1, lower + 1)]
    return first if lower == n_heads else first + alibi_slopes(2 * lower)[0::2][: n_heads - lower]


def alibi_cases():
    for heads in (4, 6):
        q_offset = 2
        slopes = alibi_slopes(heads)
        case, q, k, v = position_case(f"alibi_{heads}_heads", "alibi", heads, slopes=slopes, q_offset=q_offset)
        distance = distances(q.shape[1], k.shape[1], q_offset).abs()
        yield attend(case, q, k, v, bias=-torch.tensor(slopes)[:, None, None] * distance)
    # With a causal scope every distance is p − j, as the paper has it.
    case, q, k, v = position_case("alibi_causal", "alibi", 4, slopes=alibi_slopes(4), q_offset=2, causal=True)
    back = -distances(q.shape[1], k.shape[1], 2)
    bias = -torch.tensor(alibi_slopes(4))[:, None, None] * back
    yield attend(case, q, k, v, bias=bias, allowed=back >= 0)


def grid_places(height, width, pad):
    """Row and column of the queries and of the keys, which have a border of `pad`."""

    def places(height, width):
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        return torch.stack([y.reshape(-1), x.reshape(-1)], dim=-1)

    return places(height, width) + pad, places(height + 2 * pad, width + 2 * pad)


def grid_cases():
    height, width = 2, 3
    for pad in (0, 1):
        queries, keys = grid_places(height, width, pad)
        sizes = {"q_len": len(queries), "kv_len": len(keys)}
        delta = keys[None, :, :] - queries[:, None, :]

        case, q, k, v = position_case(f"quadratic_pad_{pad}", "quadratic", width=width, pad=pad, **sizes)
        params = case.input("params", q.shape[0], 3, scale=0.3)
        alpha, shift = params[:, 0, None, None], params[:, 1:]
        square = (delta**2).sum(-1)
        bias = -alpha * (square - 2.0 * torch.einsum("hc,ijc->hij", shift, delta.to(q.dtype)))
        yield attend(case, q, k, v, bias=bias)

        radius = 1
        case, q, k, v = position_case(
            f"relative_2d_pad_{pad}", "relative_2d", width=width, pad=pad, radius=radius, **sizes
        )
        heads, d = q.shape[0], q.shape[2]
        # Rows for all heads, columns for each.
        rows = case.input("rows_table", 2 * radius + 1, d // 2)
        columns = case.input("columns_table", heads, 2 * radius + 1, d // 2)
        place = delta.clamp(-radius, radius) + radius
        vectors = torch.cat(
            [rows[place[..., 0]].expand(heads, -1, -1, -1), columns[:, place[..., 1]]],
            dim=-1,
        )
        yield attend(case, q, k, v, bias=torch.einsum("hid,hijd->hij", q, vectors) / math.sqrt(d))


def gaussian_cases():
    for name, radius in (("full", None), ("local_p", 2)):
        attrs = {} if radius is None else {"window": radius}
        case, q, k, v = position_case(f"gaussian_{name}", "gaussian", **attrs)
        centres = case.given("centres", torch.tensor([0.0, 3.6, 6.25, 1.9, 4.0]))
        sigma = case.given("sigma", torch.tensor([1.25]))
        place = torch.arange(k.shape[1])[None, :]
        factor = torch.exp(-((place - centres[:, None]) ** 2) / (2.0 * sigma**2))
        allowed = None
        if radius is not None:
            allowed = (place - centres.detach().floor()[:, None]).abs() <= radius
        yield attend(case, q, k, v, factor=factor, allowed=allowed)


def dense_bias_cases():
    case, q, k, v = position_case("dense_bias", "dense_bias", sizes=[1, 2, 1, 7])
    yield attend(case, q, k, v, bias=case.input("params", 1, 2, 1, 7)[0])


def location_cases():
    """Luong's location: the table's rows stand in place of the keys."""
    heads, q_len, kv_len, max_len, d, d_v = 2, 3, 5, 7, 4, 3
    for name, sizes in (("shared", (max_len,)), ("heads", (heads, max_len))):
        case = Case(f"location_{name}", location=max_len)
        q, v = case.input("q", heads, q_len, d), case.input("v", heads, kv_len, d_v)
        table = case.input("params", *sizes, d)
        a = torch.softmax(q @ table[..., :kv_len, :].transpose(-1, -2), dim=-1)
        yield case.backward(context=a @ v, weights=a)


def cases():
    yield from score_cases()
    yield from normaliser_cases()
    yield from graph_cases()
    yield from bucket_cases()
    yield from relative_bias_cases()
    yield from shaw_cases()
    yield from alibi_cases()
    yield from grid_cases()
    yield from gaussian_cases()
    yield from dense_bias_cases()
    yield from location_cases()


if __name__ == "__main__":
    main("parts", cases())
