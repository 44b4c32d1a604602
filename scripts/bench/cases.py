"""What the programs of this folder share: shapes, variants, allowed pairs, counted operations.

`attention_torch.py` states the definitions in words; `regard bench attention` uses the same names and numbers.
"""

import dataclasses
import os

BASE_SHAPES = {
    "long": dict(batch=2, n_heads=8, q_len=4096, d_k=64),
    "short": dict(batch=32, n_heads=8, q_len=128, d_k=64),
    "small_16": dict(batch=32, n_heads=8, q_len=16, d_k=16),
    "small_25": dict(batch=32, n_heads=4, q_len=25, d_k=32),
    "small_64": dict(batch=8, n_heads=16, q_len=64, d_k=32),
}
SMALL = ("small_16", "small_25", "small_64")

BASE_VARIANTS = (
    "plain",
    "causal",
    "window_32",
    "dropout",
    "weights_summary",
    "relative_bias",
    "alibi",
    "rotary",
    "d_v_32",
    "gqa_8_2",
    "lengths_half",
    "documents",
    "mask_blocks",
    "sparsemax",
    "entmax15",
)
OWN_SHAPES = {
    "additive": dict(batch=1, n_heads=8, q_len=256, d_k=256),
    "graph": dict(batch=1, n_heads=8, q_len=100_000, d_k=8),
    "decode_1": dict(batch=1, n_heads=8, q_len=1, kv_len=4096, d_k=64),
    "decode_16": dict(batch=16, n_heads=8, q_len=1, kv_len=4096, d_k=64),
}
VARIANTS = BASE_VARIANTS + tuple(OWN_SHAPES)
PASSES = ("forward", "forward_backward")

WINDOW = 32
DROPOUT = 0.1
TOP_K = 4
DOCUMENTS = 8
ALLOWED_BLOCKS = 0.1
EDGES_PER_NODE = 10
ROTARY_BASE = 10_000.0
LEAKY_SLOPE = 0.2


@dataclasses.dataclass(frozen=True)
class Case:
    """One variant at one shape."""

    variant: str
    shape: str
    batch: int
    n_heads: int
    n_kv_heads: int
    q_len: int
    kv_len: int
    d_k: int
    d_v: int

    @property
    def passes(self):
        """The passes measured: one step of decoding has no backward."""
        return ("forward",) if self.variant.startswith("decode") else PASSES

    @property
    def lengths(self):
        """The length of each item without its padding."""
        length = max(1, self.q_len // 2) if self.variant == "lengths_half" else self.q_len
        return [length] * self.batch

    @property
    def documents(self):
        """The lengths of an item's documents: boundary n lies at ⌊n·L/8⌋."""
        bounds = [n * self.q_len // DOCUMENTS for n in range(DOCUMENTS + 1)]
        return [end - start for start, end in zip(bounds, bounds[1:]) if end > start]

    @property
    def block(self):
        """Side of a block of the given mask."""
        return 64 if self.q_len >= 1024 else 16

    def n_pairs(self):
        """Allowed (query, key) pairs, summed over items and heads."""
        length = self.q_len
        each = {
            "causal": lambda: length * (length + 1) // 2,
            "window_32": lambda: sum(min(i + WINDOW, length - 1) - max(i - WINDOW, 0) + 1 for i in range(length)),
            "lengths_half": lambda: self.lengths[0] ** 2,
            "documents": lambda: sum(n * n for n in self.documents),
            "mask_blocks": self._mask_pairs,
            "graph": lambda: length * EDGES_PER_NODE,
        }.get(self.variant, lambda: length * self.kv_len)()
        return each * self.batch * self.n_heads

    def _mask_pairs(self):
        starts = range(0, self.q_len, self.block)
        sides = [min(self.block, self.q_len - start) for start in starts]
        return sum(sides[i] * sides[j] for i, row in enumerate(allowed_blocks(len(sides))) for j in row)

    def n_operations(self, which):
        """Counted operations: a multiply-add is two; a score's gradient is a product too."""
        forward = 2 * (self.d_k + self.d_v)
        each = forward if which == "forward" else forward + 6 * self.d_k + 4 * self.d_v
        return each * self.n_pairs()

    def described(self):
        """The shape as it stands in the JSON lines."""
        sizes = {name: getattr(self, name) for name in SIZES}
        if self.variant == "graph":
            sizes["edges"] = self.q_len * EDGES_PER_NODE
        return {"name": self.shape, **sizes}


SIZES = ("batch", "n_heads", "n_kv_heads", "q_len", "kv_len", "d_k", "d_v")


def case(variant, shape):
    """The case, or None where the variant has no such shape."""
    own = variant in OWN_SHAPES
    if own != (shape == "own"):
        return None
    sizes = dict(OWN_SHAPES[variant] if own else BASE_SHAPES[shape])
    sizes.setdefault("kv_len", sizes["q_len"])
    sizes["n_kv_heads"] = sizes["n_heads"]
    sizes["d_v"] = sizes["d_k"]
    if variant == "d_v_32":
        if sizes["d_k"] == 32:
            return None
        sizes["d_v"] = 32
    if variant == "gqa_8_2":
        if sizes["n_heads"] != 8:
            return None
        sizes["n_kv_heads"] = 2
    return Case(variant, shape, **sizes)


SHAPE_CHOICES = {name: (name,) for name in (*BASE_SHAPES, "own")}
SHAPE_CHOICES["small"] = SMALL
SHAPE_CHOICES["all"] = (*BASE_SHAPES, "own")


def cases(variants, shapes):
    """Every case of these variants and shape choices, each once, variant by variant."""
    names = dict.fromkeys(name for choice in shapes for name in SHAPE_CHOICES[choice])
    found = (case(variant, shape) for variant in variants for shape in names)
    return [each for each in found if each is not None]


def draws():
    """x / 2³¹ of the generator x ← (1103515245·x + 12345) mod 2³¹, after x₀ = 42."""
    x = 42
    while True:
        x = (1103515245 * x + 12345) % 2**31
        yield x / 2**31


def allowed_blocks(n_blocks):
    """For each row of blocks, the allowed columns of blocks. One draw a block, in row-major order."""
    draw = draws()
    # The draw comes first: the diagonal takes one too.
    return [[j for j in range(n_blocks) if (next(draw) < ALLOWED_BLOCKS) | (i == j)] for i in range(n_blocks)]


def graph_sources(n_nodes):
    """For each node its distinct sources, ascending."""
    draw = draws()
    rows = []
    for _ in range(n_nodes):
        row = set()
        while len(row) < EDGES_PER_NODE:
            row.add(int(next(draw) * n_nodes))
        rows.append(sorted(row))
    return rows


def child_environment(threads):
    """The environment of a measured process: so many threads, and no setting of OpenBLAS."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    return kept | {"OMP_NUM_THREADS": str(threads), "RAYON_NUM_THREADS": str(threads)}
