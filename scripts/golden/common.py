"""Shared by the golden scripts: one case, its random inputs, its gradients, and the JSON file.

File format:

    {"header": {"torch", "python", "seed", "dtype", "command"},
     "cases": [{"name": "...", "attrs": {...}, "arrays": {"x": {"shape": [...], "data": [...]}}}]}

Data is row-major. A number is the shortest decimal that reads back as the same float64 (at most 17
digits). JSON has no infinity: negative infinity is written as the string "-inf".
A scalar has shape [1]. An upstream gradient of `y` is `dy`, of any other output `z` it is `d_z`;
the gradient of an input `a` is `d_a`.
"""

import argparse
import json
import math
import pathlib
import platform
import zlib

import torch
from torch.nn.utils.rnn import pad_sequence

SEED = 7
DTYPE = torch.float64

torch.set_default_dtype(DTYPE)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


class Case:
    """One named example: attributes, and arrays in the order in which they were made.

    Random numbers depend on the seed and on the case's name only, so that a new case leaves the others as they were.
    """

    def __init__(self, name, **attrs):
        self.name = name
        self.attrs = attrs
        self.arrays = {}
        self.inputs = {}
        self.generator = torch.Generator().manual_seed(SEED + zlib.crc32(name.encode()))

    def draw(self, *shape, scale=1.0):
        """Normal numbers with four decimals: exact in the file and short to read."""
        numbers = torch.randn(*shape, generator=self.generator, dtype=DTYPE) * scale
        return torch.round(numbers, decimals=4)

    def record(self, name, tensor):
        """Writes a tensor into the case."""
        if name in self.arrays:
            raise ValueError(f"{self.name}: array {name} given twice")
        self.arrays[name] = tensor.detach().clone()

    def given(self, name, tensor):
        """An input with known values whose gradient is wanted."""
        leaf = tensor.clone().detach().requires_grad_(True)
        self.record(name, leaf)
        self.inputs[name] = leaf
        return leaf

    def input(self, name, *shape, scale=1.0):
        """A random input whose gradient is wanted."""
        return self.given(name, self.draw(*shape, scale=scale))

    def backward(self, upstream_of=None, **outputs):
        """Records the outputs, draws upstream gradients and records the gradient of every input.

        `upstream_of` names the outputs that take an upstream gradient; by default all of them do.
        """
        total = 0.0
        for name, output in outputs.items():
            self.record(name, output)
            if upstream_of is None or name in upstream_of:
                upstream = self.draw(*output.shape)
                self.record("dy" if name == "y" else f"d_{name}", upstream)
                # 0 × ∞ is no number: an output that is not finite takes no upstream gradient.
                assert torch.isfinite(output).all(), f"{self.name}: {name} is not finite"
                total = total + (output * upstream).sum()
        total.backward()
        for name, leaf in self.inputs.items():
            assert leaf.grad is not None, f"{self.name}: {name} has no gradient"
            assert torch.isfinite(leaf.grad).all(), f"{self.name}: gradient of {name} is not finite"
            self.record(f"d_{name}", leaf.grad)
        return self

    def away_from_kink(self, values):
        """Fails where rounding in float32 could put a value on the other side of zero."""
        assert (values.abs() > 1e-3).all(), f"{self.name}: a value lies too near to the kink"


def items(packed, lengths):
    """Splits [N, D] into one [length, D] per item."""
    assert sum(lengths) == packed.shape[0]
    return torch.split(packed, lengths)


def pad(packed, lengths):
    """[N, D] as [items, longest, D]. The filler is far from zero: if it mattered, it would show."""
    return pad_sequence(items(packed, lengths), batch_first=True, padding_value=9.0)


def unpad(padded, lengths):
    """The inverse of `pad`."""
    return torch.cat([padded[item, :length] for item, length in enumerate(lengths)])


def number(value):
    return repr(value) if math.isfinite(value) else json.dumps(str(value))


def array_text(tensor):
    data = ", ".join(number(value) for value in tensor.to(DTYPE).reshape(-1).tolist())
    return f'{{"shape": {json.dumps(list(tensor.shape))}, "data": [{data}]}}'


def case_text(case):
    arrays = ",\n".join(f"    {json.dumps(name)}: {array_text(tensor)}" for name, tensor in case.arrays.items())
    return f'  {{"name": {json.dumps(case.name)}, "attrs": {json.dumps(case.attrs)}, "arrays": {{\n{arrays}\n  }}}}'


def main(stem, cases):
    """Writes `stem`.json into the folder given by --out (default: the folder of the scripts)."""
    parser = argparse.ArgumentParser(description=f"writes {stem}.json: expected values computed by PyTorch")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent, metavar="DIR")
    arguments = parser.parse_args()

    cases = list(cases)
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), "two cases share a name"
    header = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "seed": SEED,
        "dtype": "float64",
        "command": f"python scripts/golden/{stem}.py",
    }
    body = ",\n".join(case_text(case) for case in cases)
    text = f'{{"header": {json.dumps(header)},\n"cases": [\n{body}\n]}}\n'
    json.loads(text)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / f"{stem}.json").write_text(text, encoding="utf-8")
