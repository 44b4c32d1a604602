#!/usr/bin/env python3
"""Times training steps by PyTorch, from the weights and batches that `regard bench train --save FILE` wrote.

Run: VENV/bin/python scripts/bench/train_torch.py FILE --steps 50 --path eager --path compile

The twin has the same number of trained values, the same Adam (no decay, no clipping), the same batches in the same
order and no dropout; a step is zero_grad, forward, cross-entropy, backward, update. Paths:

  eager     attention by scaled_dot_product_attention on one product for query, key and value
  modules   the Transformer of nn.TransformerEncoderLayer; other models as in eager
  compile   eager's model, with its loss, by torch.compile

Each path starts anew from the file. A path prints one JSON line of the fields that `regard bench train --json` prints,
without counts of allocations. `operators` are the operators that took most time by themselves in three further steps,
by torch.profiler; `resident_before_bytes` is taken after torch is loaded. For a true peak of memory measure one path a
process: what an earlier path leaves counts. Exit status: 0 done; 2 where a path failed.
"""

import argparse
import json
import mmap
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

PATHS = ("eager", "modules", "compile")
TIMED = 3
SPLIT = 3
SHOWN = 12
# The label of padding.
IGNORED = -100
# What a file tells of a case beside its sizes.
ADDED = ("parameters", "operations", "batches")


def note(text):
    """One line for the reader."""
    print(text, file=sys.stderr, flush=True)


def start_of(path):
    """Arrays and texts of a safetensors file: 8 bytes with the header's length, JSON, the arrays' bytes."""
    with open(path, "rb") as file:
        # Copied lazily: only pages that are read become resident.
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    texts = {name: json.loads(text) for name, text in header.pop("__metadata__").items()}
    arrays = {}
    for name, entry in header.items():
        if entry["dtype"] != "F32":
            raise ValueError(f"{path}: {name} is {entry['dtype']}, expected F32")
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(data, dtype=torch.float32, count=(end - begin) // 4, offset=8 + length + begin)
        arrays[name] = flat.view(entry["shape"])
    return arrays, texts


def sinusoids(length, d):
    """PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i + 1) = cos of the same."""
    angles = torch.arange(length, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


def angles(length, d):
    """(cos, sin) of rotary positions, [length, d/2] each: pair i is (i, i + d/2)."""
    of = torch.arange(length, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    return of.cos().float(), of.sin().float()


def turned(x, turn):
    """Queries or keys [batch, heads, length, d] at their positions."""
    (cos, sin), (a, b) = turn, x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class Layer(nn.Module):
    """x + W_o attention(norm(x)); x + W_2 gelu(W_1 norm(x)): the parameters of nn.TransformerEncoderLayer."""

    def __init__(self, d, heads, d_ff):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.linear1, self.linear2 = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, mask=None, turn=None):
        parts = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = parts[0], parts[1], parts[2]
        if turn is not None:
            q, k = turned(q, turn), turned(k, turn)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class Transformer(nn.Module):
    """norm(x W + b) + positions, layers, a last norm; or positions that turn queries and keys."""

    def __init__(self, case, modules, d_in, longest):
        super().__init__()
        d, heads, d_ff = case["width"], case["heads"], case["d_ff"]
        self.input, self.input_norm, self.last = nn.Linear(d_in, d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.rotary = case["rotary"]
        if self.rotary:
            if modules:
                raise ValueError("nn.TransformerEncoderLayer has no rotary position")
            for name, table in zip(("cos", "sin"), angles(longest, d // heads)):
                self.register_buffer(name, table)
        else:
            self.register_buffer("code", sinusoids(longest, d))

        def layer():
            if not modules:
                return Layer(d, heads, d_ff)
            return nn.TransformerEncoderLayer(
                d, heads, d_ff, dropout=0.0, activation="gelu", norm_first=True, batch_first=True
            )

        self.layers = nn.ModuleList(layer() for _ in range(case["layers"]))

    def forward(self, x, real=None):
        """`real` [batch, length] tells tokens from padding; None where all are real."""
        length = x.shape[1]
        x, turn = self.input_norm(self.input(x)), None
        if self.rotary:
            turn = (self.cos[:length], self.sin[:length])
        else:
            x = x + self.code[:length]
        mask = None if real is None else real[:, None, None, :]
        for layer in self.layers:
            x = layer(x) if mask is None and turn is None else layer(x, mask, turn)
        return self.last(x)


class Recurrent(nn.Module):
    """nn.LSTM or nn.GRU."""

    def __init__(self, case):
        super().__init__()
        kind = nn.GRU if case["model"] == "gru" else nn.LSTM
        both = case["model"] == "bilstm"
        d = case["width"]
        self.rnn = kind(d, d, num_layers=case["layers"], batch_first=True, bidirectional=both)
        if kind is nn.LSTM:
            # Regard's LSTM has one bias, PyTorch's two, which only ever act as their sum.
            for name, parameter in self.rnn.named_parameters():
                if name.startswith("bias_hh"):
                    parameter.requires_grad_(False).zero_()

    def forward(self, x):
        return self.rnn(x)[0]


class Chars(nn.Module):
    """Convolutions over a word's characters, the largest of each filter."""

    def __init__(self, sizes):
        super().__init__()
        self.embedding = nn.Embedding(sizes["n_chars"], sizes["width"])
        self.convolutions = nn.ModuleList(nn.Conv1d(sizes["width"], sizes["hidden"], w) for w in sizes["widths"])

    def forward(self, chars):
        """`chars` [words, longest], -1 behind a word's end."""
        real = chars >= 0
        x = (self.embedding(chars.clamp(min=0)) * real[..., None]).transpose(1, 2)
        found = []
        for convolution in self.convolutions:
            width = convolution.kernel_size[0]
            y = convolution(F.pad(x, ((width - 1) // 2, width - 1 - (width - 1) // 2))).relu()
            # No filter of a real character is below 0.
            found.append(y.masked_fill(~real[:, None, :], 0.0).amax(-1))
        return torch.cat(found, dim=-1)


class Tagger(nn.Module):
    """Words, with their characters where the case reads them, encoder, labels, mean cross-entropy."""

    def __init__(self, case, modules, longest):
        super().__init__()
        d, sizes = case["width"], case["chars"]
        self.words = nn.Embedding(case["n_words"], case["d_word"])
        self.chars = Chars(sizes) if sizes else None
        d_in = case["d_word"] + (len(sizes["widths"]) * sizes["hidden"] if sizes else 0)
        transformer = case["model"] == "transformer"
        self.encoder = Transformer(case, modules, d_in, longest) if transformer else Recurrent(case)
        self.output = nn.Linear(2 * d if case["model"] == "bilstm" else d, case["n_labels"])

    def embedded(self, words, distinct=None, chars=None):
        """Word vectors; with the vectors of the distinct words' characters behind them."""
        x = self.words(words)
        return x if self.chars is None else torch.cat([x, F.embedding(distinct, self.chars(chars))], dim=-1)

    def forward(self, words, labels, real=None, distinct=None, chars=None):
        x = self.embedded(words, distinct, chars)
        x = self.encoder(x) if real is None else self.encoder(x, real)
        return F.cross_entropy(self.output(x).flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


def padded(rows, filler):
    """Rows of different lengths as one array."""
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=filler)


def inputs_of(sentences, spellings):
    """Words and labels of sentences, [(words, labels, distinct)], as padded arrays; `real` is None where nothing is padded,
    `distinct` and `chars` where characters are not read."""
    lengths = torch.tensor([len(words) for words, *_ in sentences])
    real = torch.arange(int(lengths.max()))[None] < lengths[:, None]
    return {
        "words": padded([words for words, *_ in sentences], 0),
        "labels": padded([labels for _, labels, _ in sentences], IGNORED),
        "real": None if bool(real.all()) else real,
        "distinct": padded([distinct for *_, distinct in sentences], 0) if spellings else None,
        "chars": padded(spellings, -1) if spellings else None,
    }


def batches_of(arrays, case):
    """The batches of a file, each the sentences' (words, labels, distinct) and the spellings of its distinct words."""
    for b in range(case["batches"]):
        of = {
            name: arrays[f"batches.{b}.{name}"].long()
            for name in ("words", "labels", "lengths", "distinct", "chars", "char_lengths")
            if f"batches.{b}.{name}" in arrays
        }
        distinct = of.get("distinct", torch.zeros_like(of["words"]))
        parts = (part.split(of["lengths"].tolist()) for part in (of["words"], of["labels"], distinct))
        yield list(zip(*parts)), list(of["chars"].split(of["char_lengths"].tolist())) if "chars" in of else []


def torch_name(name, modules):
    """The twin's name of a parameter of Regard's."""
    if name == "words.table":
        return "words.weight"
    for gate in ("w_ih", "w_hh", "b_ih", "b_hh", "b"):
        if name.startswith("encoder.layers.") and name.endswith(f".{gate}"):
            layer, direction = name.split(".")[2:4]
            kind = {"w": "weight", "b": "bias"}[gate[0]] + (gate[1:] or "_ih")
            return f"encoder.rnn.{kind}_l{layer}" + ("_reverse" if direction == "backward" else "")
    if name.startswith("chars."):
        return name.replace(".table", ".weight")
    name = name.replace(".gain", ".weight").replace(".inner.", ".linear1.").replace(".outer.", ".linear2.")
    qkv, out = ("self_attn.in_proj_", "self_attn.out_proj.") if modules else ("qkv.", "out.")
    return name.replace("attention.qkv.", qkv).replace("attention.output.", out)


def twin(arrays, case, modules):
    """The model with the weights of the file; every trained value of either side must have its counterpart."""
    longest = max(int(a.max()) for name, a in arrays.items() if name.startswith("batches.") and name.endswith(".lengths"))
    model = Tagger(case, modules, longest)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    count = sum(p.numel() for p in trained.values())
    if count != case["parameters"]:
        raise ValueError(f"the twin has {count} parameters, Regard's model {case['parameters']}")
    with torch.no_grad():
        for name, array in arrays.items():
            if name.startswith("weights."):
                name = name.removeprefix("weights.")
                if name.startswith("chars.width"):
                    # A filter's weights are those of one character after another there, of one number here.
                    width, kind = name.removeprefix("chars.width").split(".")
                    name = f"chars.convolutions.{case['chars']['widths'].index(int(width))}.{kind}"
                    if kind == "weight":
                        array = array.unflatten(1, (int(width), -1)).transpose(1, 2)
                target = trained.pop(torch_name(name, modules))
                if target.shape != array.shape:
                    raise ValueError(f"{name} is {list(array.shape)}, the twin's {list(target.shape)}")
                target.copy_(array)
    if trained:
        raise ValueError(f"without a counterpart: {', '.join(trained)}")
    return model.train()


def resident(name):
    """VmRSS or VmHWM of this process in bytes; None where the system does not tell."""
    try:
        status = pathlib.Path("/proc/self/status").read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(name + ":")), None)


def forget_peak():
    """Lets the peak of resident memory begin anew, where the system can."""
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def operators_of(step, batches):
    """Seconds that an operator takes by itself in a step, the slowest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(SPLIT):
            step(next(batches))
    events = sorted(profile.key_averages(), key=lambda event: -event.self_cpu_time_total)
    return [
        {"name": e.key, "seconds": e.self_cpu_time_total / 1e6 / SPLIT, "calls": e.count // SPLIT}
        for e in events[:SHOWN]
    ]


def measure(path, arguments):
    """One line of the report."""
    forget_peak()
    before = resident("VmRSS")
    arrays, texts = start_of(arguments.start)
    case, constants = texts["case"], texts["optimiser"]
    inputs = [inputs_of(*batch) for batch in batches_of(arrays, case)]
    batches = (inputs[i % len(inputs)] for i in range(sys.maxsize))
    model = twin(arrays, case, path == "modules")
    parameters = [p for p in model.parameters() if p.requires_grad]
    implementation = {"fused": {"fused": True}, "foreach": {"foreach": True}, "plain": {}}[arguments.adam]
    optimiser = torch.optim.Adam(parameters, **constants, weight_decay=0.0, **implementation)
    forward = torch.compile(model) if path == "compile" else model

    def step(batch):
        times = [time.perf_counter()]
        loss = forward(**batch)
        value = loss.item()
        times.append(time.perf_counter())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        times.append(time.perf_counter())
        optimiser.step()
        times.append(time.perf_counter())
        return value, [end - begin for begin, end in zip(times, times[1:])]

    begin = time.perf_counter()
    losses, phases = [], []
    while len(losses) <= TIMED or (
        len(losses) < arguments.steps
        and (arguments.seconds is None or time.perf_counter() - begin < arguments.seconds)
    ):
        loss, phase = step(next(batches))
        losses.append(loss)
        phases.append(phase)
    peak = resident("VmHWM")
    timed = phases[1:]
    seconds = [sum(phase) for phase in timed]
    # Batches may be of different sizes: every step has a speed of its own.
    turn = [(i + 1) % len(inputs) for i in range(len(timed))]
    tokens = [int((inputs[i]["labels"] != IGNORED).sum()) for i in range(len(inputs))]
    speeds = [tokens[i] / step for i, step in zip(turn, seconds)]
    operations = [case["operations"][i] / step for i, step in zip(turn, seconds)]
    line = {
        "impl": "torch",
        "version": torch.__version__,
        "path": path,
        "case": {name: value for name, value in case.items() if name not in ADDED},
        "parameters": sum(p.numel() for p in parameters),
        "losses": losses,
        "steps": len(timed),
        "seconds_median": statistics.median(seconds),
        "seconds_min": min(seconds),
        "seconds_max": max(seconds),
        "tokens_per_s": statistics.median(speeds),
        "tokens_per_s_min": min(speeds),
        "tokens_per_s_max": max(speeds),
        "gflops": statistics.median(operations) / 1e9,
        "phases": {
            name: statistics.median(phase[i] for phase in timed)
            for i, name in enumerate(("forward", "backward", "optimiser"))
        },
        "resident_before_bytes": before,
        "resident_peak_bytes": peak,
        "threads": torch.get_num_threads(),
    }
    if arguments.operators:
        line["operators"] = operators_of(step, batches)
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start", type=pathlib.Path, metavar="FILE", help="what `regard bench train --save` wrote")
    parser.add_argument("--path", action="append", choices=PATHS, help="may be repeated; default: eager")
    parser.add_argument("--steps", type=int, default=50, help="default 50; four at least, the first warms up")
    parser.add_argument("--seconds", type=float, help="begin no further step after so many seconds, once there are 4")
    parser.add_argument("--threads", type=int, default=2, help="default 2")
    parser.add_argument(
        "--adam", choices=("fused", "foreach", "plain"), default="fused", help="torch's implementation (default fused)"
    )
    parser.add_argument("--operators", action="store_true", help="split the time by operator")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    failed = False
    for path in arguments.path or ["eager"]:
        try:
            print(json.dumps(measure(path, arguments)), flush=True)
        except Exception as error:  # A path that does not build is reported, the others still run.
            note(f"{arguments.start}, {path}: {type(error).__name__}: {str(error).splitlines()[:1]}")
            failed = True
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
