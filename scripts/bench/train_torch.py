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


class Layer(nn.Module):
    """x + W_o attention(norm(x)); x + W_2 gelu(W_1 norm(x)): the parameters of nn.TransformerEncoderLayer."""

    def __init__(self, d, heads, d_ff):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.linear1, self.linear2 = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class Transformer(nn.Module):
    """norm(x W + b) + positions, layers, a last norm."""

    def __init__(self, case, modules):
        super().__init__()
        d, heads, d_ff = case["width"], case["heads"], case["d_ff"]
        self.input, self.input_norm, self.last = nn.Linear(d, d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.register_buffer("code", sinusoids(case["length"], d))

        def layer():
            if not modules:
                return Layer(d, heads, d_ff)
            return nn.TransformerEncoderLayer(
                d, heads, d_ff, dropout=0.0, activation="gelu", norm_first=True, batch_first=True
            )

        self.layers = nn.ModuleList(layer() for _ in range(case["layers"]))

    def forward(self, x):
        x = self.input_norm(self.input(x)) + self.code
        for layer in self.layers:
            x = layer(x)
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


class Tagger(nn.Module):
    """Words, encoder, labels, mean cross-entropy."""

    def __init__(self, case, modules):
        super().__init__()
        d = case["width"]
        self.words = nn.Embedding(case["n_words"], d)
        self.encoder = Transformer(case, modules) if case["model"] == "transformer" else Recurrent(case)
        self.output = nn.Linear(2 * d if case["model"] == "bilstm" else d, case["n_labels"])

    def forward(self, words, labels):
        logits = self.output(self.encoder(self.words(words)))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def torch_name(name, modules):
    """The twin's name of a parameter of Regard's."""
    if name == "words.table":
        return "words.weight"
    for gate in ("w_ih", "w_hh", "b_ih", "b_hh", "b"):
        if name.startswith("encoder.layers.") and name.endswith(f".{gate}"):
            layer, direction = name.split(".")[2:4]
            kind = {"w": "weight", "b": "bias"}[gate[0]] + (gate[1:] or "_ih")
            return f"encoder.rnn.{kind}_l{layer}" + ("_reverse" if direction == "backward" else "")
    name = name.replace(".gain", ".weight").replace(".inner.", ".linear1.").replace(".outer.", ".linear2.")
    qkv, out = ("self_attn.in_proj_", "self_attn.out_proj.") if modules else ("qkv.", "out.")
    return name.replace("attention.qkv.", qkv).replace("attention.output.", out)


def twin(arrays, case, modules):
    """The model with the weights of the file; every trained value of either side must have its counterpart."""
    model = Tagger(case, modules)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    count = sum(p.numel() for p in trained.values())
    if count != case["parameters"]:
        raise ValueError(f"the twin has {count} parameters, Regard's model {case['parameters']}")
    with torch.no_grad():
        for name, array in arrays.items():
            if name.startswith("weights."):
                target = trained.pop(torch_name(name.removeprefix("weights."), modules))
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
            step(*next(batches))
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
    words, labels = (arrays[f"batches.{name}"].long() for name in ("words", "labels"))
    batches = ((words[i % len(words)], labels[i % len(words)]) for i in range(sys.maxsize))
    model = twin(arrays, case, path == "modules")
    parameters = [p for p in model.parameters() if p.requires_grad]
    implementation = {"fused": {"fused": True}, "foreach": {"foreach": True}, "plain": {}}[arguments.adam]
    optimiser = torch.optim.Adam(parameters, **constants, weight_decay=0.0, **implementation)
    forward = torch.compile(model) if path == "compile" else model

    def step(words, labels):
        times = [time.perf_counter()]
        loss = forward(words, labels)
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
        loss, phase = step(*next(batches))
        losses.append(loss)
        phases.append(phase)
    peak = resident("VmHWM")
    timed = phases[1:]
    seconds = [sum(phase) for phase in timed]
    median, tokens = statistics.median(seconds), case["batch"] * case["length"]
    line = {
        "impl": "torch",
        "version": torch.__version__,
        "path": path,
        "case": {name: value for name, value in case.items() if name not in ("parameters", "operations")},
        "parameters": sum(p.numel() for p in parameters),
        "losses": losses,
        "steps": len(timed),
        "seconds_median": median,
        "seconds_min": min(seconds),
        "seconds_max": max(seconds),
        "tokens_per_s": tokens / median,
        "tokens_per_s_min": tokens / max(seconds),
        "tokens_per_s_max": tokens / min(seconds),
        "gflops": case["operations"] / median / 1e9,
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
