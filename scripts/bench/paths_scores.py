"""Paths of the scores that are no dot product: additive scores and those of graph attention."""

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from cases import LEAKY_SLOPE
from paths import compile_, path

# Additive scores: v_aᵀ tanh(q_i + k_j)


def _additive(q, k, v, v_a):
    """One head or several: q [.., q_len, d], v_a [.., d]."""
    scores = (torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3)) @ v_a.unsqueeze(-2).unsqueeze(-1)).squeeze(-1)
    return torch.softmax(scores, -1) @ v


def _additive_by_sum(q, k, v, v_a):
    """The same, with a sum in place of the product: what a compiler can join to the tanh."""
    scores = (torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3)) * v_a.unsqueeze(-2).unsqueeze(-2)).sum(-1)
    return torch.softmax(scores, -1) @ v


@path("additive", "broadcast")
def _(call):
    return lambda: _additive(call.q, call.k, call.v, call.v_a)


@path("additive", "broadcast_compiled", compiled=True)
def _(call):
    run = compile_(_additive_by_sum)
    return lambda: run(call.q, call.k, call.v, call.v_a)


def _additive_rows(size, one):
    def prepare(call):
        def run():
            rows = []
            for head in range(call.case.n_heads):
                q, k, v, v_a = call.q[:, head], call.k[:, head], call.v[:, head], call.v_a[head]
                rows.append(torch.cat([one(part, k, v, v_a) for part in q.split(size, 1)], 1))
            return torch.stack(rows, 1)

        return run

    return prepare


def _recomputed(*inputs):
    return checkpoint(_additive, *inputs, use_reentrant=False)


for _size in (8, 32, 256):
    path("additive", f"rows_{_size}")(_additive_rows(_size, _additive))
    path("additive", f"rows_{_size}_recomputed", passes=("forward_backward",))(_additive_rows(_size, _recomputed))


# Graphs: LeakyReLU(a₁·z_i + a₂·z_j) over the edges j → i, softmax over the edges of a node


def _gat_conv(call, edges):
    from torch_geometric.nn import GATConv

    c = call.case
    conv = GATConv(
        c.n_heads * c.d_k, c.d_k, heads=c.n_heads, add_self_loops=False, bias=False, negative_slope=LEAKY_SLOPE
    )
    # The features are projected already: the projection is not attention's.
    conv.lin = torch.nn.Identity()
    del conv.att_src, conv.att_dst
    conv.att_src, conv.att_dst = call.att_key, call.att_query
    return lambda: conv(call.features, edges)


@path("graph", "gat_conv")
def _(call):
    return _gat_conv(call, torch.stack((call.sources, call.targets)))


@path("graph", "gat_conv_sorted")
def _(call):
    from torch_geometric import EdgeIndex

    nodes = call.case.q_len
    edges = EdgeIndex(torch.stack((call.sources, call.targets)), sparse_size=(nodes, nodes), sort_order="col")
    return _gat_conv(call, edges.fill_cache_())


def _edge_weights(call, z):
    """Weights [edges, heads]; scores are bounded by hand as GATConv does, with the row's largest taken away."""
    nodes = call.case.q_len
    of_query, of_key = (z * call.att_query).sum(-1), (z * call.att_key).sum(-1)
    scores = F.leaky_relu(of_query.index_select(0, call.targets) + of_key.index_select(0, call.sources), LEAKY_SLOPE)
    index = call.targets[:, None].expand_as(scores)
    with torch.no_grad():
        top = scores.new_empty(nodes, scores.shape[1]).scatter_reduce_(0, index, scores, "amax", include_self=False)
    grown = (scores - top.index_select(0, call.targets)).exp()
    total = torch.zeros_like(top).index_add(0, call.targets, grown)
    return grown / total.index_select(0, call.targets)


def _edges_by_hand(call):
    c = call.case

    def run():
        z = call.features.view(c.q_len, c.n_heads, c.d_k)
        sent = z.index_select(0, call.sources) * _edge_weights(call, z).unsqueeze(-1)
        return torch.zeros_like(call.features).index_add(0, call.targets, sent.flatten(1))

    return run


path("graph", "by_hand")(_edges_by_hand)
path("graph", "by_hand_compiled", compiled=True)(lambda call: compile_(_edges_by_hand(call)))


@path("graph", "sparse_products", passes=("forward",))
def _(call):
    # Forward only: the gradient of a sparse matrix would be dense, nodes × nodes.
    c = call.case
    offsets = torch.arange(0, len(call.sources) + 1, len(call.sources) // c.q_len)

    def run():
        z = call.features.view(c.q_len, c.n_heads, c.d_k)
        weights = _edge_weights(call, z)
        heads = []
        for head in range(c.n_heads):
            values = weights[:, head].contiguous()
            matrix = torch.sparse_csr_tensor(offsets, call.sources, values, (c.q_len, c.q_len))
            heads.append(torch.sparse.mm(matrix, z[:, head].contiguous(), "sum"))
        return torch.stack(heads, 1).flatten(1)

    return run
