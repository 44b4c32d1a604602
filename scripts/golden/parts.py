"""Expected values of single parts: scores from PyTorch, sparse normalisers from the package entmax,
attention over the edges of a graph from torch_geometric.

Scores take q [heads, q_len, d] and k [heads, kv_len, d]; rows of scores are [rows, keys]; nodes of
graphs are [nodes, heads, d]. Needs `pip install entmax torch_geometric`.
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


def cases():
    yield from score_cases()
    yield from normaliser_cases()
    yield from graph_cases()


if __name__ == "__main__":
    main("parts", cases())
