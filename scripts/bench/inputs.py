"""What one call of a case takes: seeded tensors, the parameters that learn, and what the case allows."""

import math

import torch

from cases import EDGES_PER_NODE, ROTARY_BASE, TOP_K, WINDOW, allowed_blocks, graph_sources

SEED = 7
INFINITY = float("inf")


class Call:
    """Inputs of a case; layout [batch, heads, len, d], all float32.

    `leaves` are the tensors whose gradient is wanted, `upstream` is the gradient of the context.
    """

    def __init__(self, case, which):
        self.case = case
        self.leaves = []
        self._learns = which == "forward_backward"
        self._generator = torch.Generator().manual_seed(SEED)
        c = case
        if c.variant == "graph":
            # Queries, keys and values are the same projected features, [nodes, heads·d].
            self.features = self._leaf(c.q_len, c.n_heads * c.d_k)
            self.att_query = self._leaf(1, c.n_heads, c.d_k)
            self.att_key = self._leaf(1, c.n_heads, c.d_k)
            self.sources = torch.tensor(graph_sources(c.q_len)).flatten()
            self.targets = torch.arange(c.q_len).repeat_interleave(EDGES_PER_NODE)
            self.upstream = self._normal(c.q_len, c.n_heads * c.d_v)
            return
        self.q = self._leaf(c.batch, c.n_heads, c.q_len, c.d_k)
        self.k = self._leaf(c.batch, c.n_kv_heads, c.kv_len, c.d_k)
        self.v = self._leaf(c.batch, c.n_kv_heads, c.kv_len, c.d_v)
        if c.variant == "additive":
            self.v_a = self._leaf(c.n_heads, c.d_k, scale=1 / math.sqrt(c.d_k))
        if c.variant == "relative_bias":
            self.table = self._leaf(c.n_heads, 2 * c.q_len - 1)
        self.upstream = self._normal(c.batch, c.n_heads, c.q_len, c.d_v)
        if c.variant == "lengths_half":
            for item, length in enumerate(c.lengths):
                self.upstream[item, :, length:] = 0

    def _normal(self, *shape):
        return torch.randn(*shape, generator=self._generator)

    def _leaf(self, *shape, scale=1.0):
        leaf = (self._normal(*shape) * scale).requires_grad_(self._learns)
        self.leaves.append(leaf)
        return leaf

    @property
    def scale(self):
        """1/√d_k."""
        return 1 / math.sqrt(self.case.d_k)

    def result_bytes(self):
        """Bytes of what the caller wants back: the context, the summary, and the gradients."""
        c = self.case
        n_bytes = self.upstream.nbytes + (sum(leaf.nbytes for leaf in self.leaves) if self._learns else 0)
        if c.variant == "weights_summary":
            top_k = min(TOP_K, c.kv_len)
            n_bytes += c.batch * c.n_heads * (4 * c.kv_len + (4 + 8) * top_k * c.q_len)
        return n_bytes

    def allowed(self):
        """True where a query may see a key, broadcastable to [batch, heads, q_len, kv_len]; None for all."""
        c = self.case
        i = torch.arange(c.q_len)[:, None]
        j = torch.arange(c.kv_len)[None, :]
        if c.variant == "causal":
            return j <= i
        if c.variant == "window_32":
            return (i - j).abs() <= WINDOW
        if c.variant == "lengths_half":
            return j < torch.tensor(c.lengths)[:, None, None, None]
        if c.variant == "documents":
            number = self.document_numbers()
            return number[:, None] == number[None, :]
        if c.variant == "mask_blocks":
            n_blocks = -(-c.q_len // c.block)
            blocks = torch.zeros(n_blocks, n_blocks, dtype=torch.bool)
            for row, columns in enumerate(allowed_blocks(n_blocks)):
                blocks[row, columns] = True
            whole = blocks.repeat_interleave(c.block, 0).repeat_interleave(c.block, 1)
            return whole[: c.q_len, : c.kv_len].contiguous()
        return None

    def document_numbers(self):
        """The number of each position's document."""
        lengths = torch.tensor(self.case.documents)
        return torch.arange(len(lengths)).repeat_interleave(lengths)

    def slopes(self):
        """ALiBi's slope of each head, 2^(−8h/H) for h = 1 … H (Press et al. 2022)."""
        n_heads = self.case.n_heads
        return torch.tensor([2.0 ** (-8 * (head + 1) / n_heads) for head in range(n_heads)])

    def alibi(self):
        """−slope·|i − j|, [1, heads, q_len, kv_len]."""
        distance = (torch.arange(self.case.q_len)[:, None] - torch.arange(self.case.kv_len)[None, :]).abs()
        return (-self.slopes()[:, None, None] * distance)[None]

    def offsets(self):
        """Where the bias of a pair stands in the table: j − i + L − 1."""
        length = self.case.q_len
        return torch.arange(length)[None, :] - torch.arange(length)[:, None] + length - 1

    def angles(self):
        """Cosine and sine of p·base^(−2i/d_k), each [L, d_k/2]; taken in float64: late positions lose digits."""
        half = torch.arange(self.case.d_k // 2, dtype=torch.float64)
        angle = torch.arange(self.case.q_len)[:, None] * ROTARY_BASE ** (-2 * half / self.case.d_k)
        return angle.cos().float(), angle.sin().float()


def as_bias(allowed):
    """A boolean mask as numbers to add: 0 where allowed, −∞ where not."""
    return torch.zeros(allowed.shape).masked_fill(~allowed, -INFINITY)
