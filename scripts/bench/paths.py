"""The register of PyTorch's ways to compute each variant, and what those ways share.

A path is a function of a `Call` that makes what may be made once (masks, index lists, compiled code) and
returns the function that is timed; that one returns the context, or a tuple that starts with it. The paths stand
in the files `paths_*.py`; to import one of those is to register its paths.
"""

import dataclasses
from typing import Callable

import torch
import torch.nn.functional as F

from cases import PASSES

sdpa = F.scaled_dot_product_attention


@dataclasses.dataclass(frozen=True)
class Path:
    """One way to compute a variant."""

    variant: str
    name: str
    prepare: Callable
    passes: tuple
    compiled: bool

    def serves(self, case, which):
        """Whether the path exists for this shape and pass."""
        return self.variant == case.variant and which in self.passes


PATHS = []


def path(variants, name, passes=PASSES, compiled=False):
    """Registers a path for one variant or more, given as one string with spaces."""

    def register(prepare):
        PATHS.extend(Path(variant, name, prepare, passes, compiled) for variant in variants.split())
        return prepare

    return register


def paths_of(case, which, compiled=True):
    """The paths that serve a case."""
    return [each for each in PATHS if each.serves(case, which) and (compiled or not each.compiled)]


class NotHere(Exception):
    """A path does not apply to this shape."""


def compile_(function):
    """Compiled for this one shape, afresh: dynamo gives up on a function compiled for many."""
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)


def weights_of(call, q, k, bias=None, normalise=None):
    """The whole weight matrix."""
    scores = torch.matmul(q * call.scale, k.transpose(-1, -2))
    if bias is not None:
        scores = scores + bias
    return torch.softmax(scores, -1) if normalise is None else normalise(scores)


def is_long(call):
    """Whether one head's L×L scores are work enough for a call, and those of all heads many GiB."""
    return call.case.q_len >= 1024


def head_by_head(call, one):
    """Calls `one(item, head, q, k, v)` for each head of each item: its L×L temporaries stay small."""
    c = call.case
    if not is_long(call):
        raise NotHere("many calls of little work")
    context = [one(n, h, call.q[n, h], call.k[n, h], call.v[n, h]) for n in range(c.batch) for h in range(c.n_heads)]
    return torch.stack(context).view(call.upstream.shape)
