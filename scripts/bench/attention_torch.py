#!/usr/bin/env python3
"""Times attention in PyTorch on a CPU, each variant by PyTorch's best path, case by case.

Run: python scripts/bench/attention_torch.py --variant causal --shape short

JSON lines go to stdout, a table and notes to stderr; `regard bench attention --json` prints the same lines.

Shapes (items × heads × length × width; d_k = d_v, queries = keys in number):

    long      2 × 8 × 4096 × 64         small_16  32 × 8 × 16 × 16
    short    32 × 8 × 128 × 64          small_25  32 × 4 × 25 × 32
    own      see below                  small_64   8 × 16 × 64 × 32

Variants; the score is q·k/√d_k, the normaliser softmax, every pair allowed, unless said:

    plain            nothing else
    causal           a query sees the keys up to its own place
    window_32        a query sees the keys with |i − j| ≤ 32
    dropout          0.1 on the weights
    weights_summary  beside the context: for each head the weights' mean over the queries, a number a key, and the
                     4 largest weights of each query with their keys; no gradient flows through the summary
    relative_bias    score + table[head, j − i + L − 1], a table of 2L − 1 numbers a head, which learns
    alibi            score − slope·|i − j|, slope 2^(−8h/H) for head h = 1 … H
    rotary           pairs (2i, 2i + 1) of queries and keys turned by the angle p·10000^(−2i/d_k)
    d_v_32           values of width 32 (no such case where d_k is 32)
    gqa_8_2          8 query heads share 2 heads of keys and values, four after four (shapes of 8 heads only)
    lengths_half     each item is ⌊L/2⌋ long and padded to L; what happens to the padding is of no interest, and its
                     upstream gradient is 0. Code may not use that all lengths are alike
    documents        each item is split into 8 documents at ⌊n·L/8⌋; a query sees its own document
    mask_blocks      a boolean mask [L, L] is given, one for all, made of blocks of 64 × 64 (of 16 × 16 where
                     L < 1024). Block (i, j) is allowed where i = j or x/2³¹ < 0.1, with x ← (1103515245·x + 12345)
                     mod 2³¹, x₀ = 42, drawn once a block in row-major order, on the diagonal too
    sparsemax, entmax15   in place of softmax
    additive         own shape 1 × 8 × 256 × 256: score v_aᵀ tanh(q_i + k_j), one v_a a head, which learns;
                     q and k are projected already
    graph            own shape: 100 000 nodes, 10 edges into each, 8 heads × 8: score LeakyReLU(a₁·z_i + a₂·z_j),
                     slope 0.2, over the edges j → i, no self-loops added; z is query, key and value, projected
                     already. The sources of node after node are ⌊x/2³¹·nodes⌋ of the same generator, drawn again
                     where the node has that source, then sorted
    decode_1, decode_16   own shape: 1 query an item against 4096 keys, 8 heads × 64, 1 and 16 items; forward only

Passes: `forward` keeps nothing for a gradient; `forward_backward` takes the gradient of q, k, v and of what learns, given
that of the context. Masks and index lists are made before, and not timed.

gflops counts allowed pairs, summed over items and heads: 2(d_k + d_v) a pair forward, 8 d_k + 6 d_v forward and backward
(4 d and 14 d where d_k = d_v), whatever the path computes besides. gbytes_per_s, of decode, counts keys and values once.
extra_peak_bytes is the peak of resident memory in one run above what stood before it, inputs and masks included, in a
fresh process; result_bytes of it (context, summary, gradients) are the caller's. It is measured for `long` and `own`.

`paths` holds the shortest run, in seconds, of every path that was tried, compiling left out; the shortest of them all is
the path that is measured. --check compares their results.
"""

import argparse
import ctypes
import json
import logging
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
import warnings

# Large tensors in huge pages, as Regard's lie; read when torch is loaded.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
import torch  # noqa: E402

import cases
import check
# Importing them registers their paths.
import paths_dense  # noqa: F401
import paths_flex  # noqa: F401
import paths_scopes  # noqa: F401
import paths_scores  # noqa: F401
from inputs import Call
from paths import NotHere, paths_of, sdpa

# A path whose first call took this many times the best one's shortest, and this long, is not called again.
HOPELESS, NOTICEABLE_S = 3.0, 0.5
# Runs at least: of a path that is tried, and of the one that is measured.
MIN_TRIES, MIN_RUNS = 2, 3


def note(text):
    """One line for the reader."""
    print(text, file=sys.stderr, flush=True)


def prepare(path, case, which):
    """The inputs and the function to time: one forward, or one forward and backward."""
    torch.manual_seed(1)
    call = Call(case, which)
    run = path.prepare(call)

    def forward():
        with torch.no_grad():
            return run()

    def forward_backward():
        result = run()
        context = result[0] if isinstance(result, tuple) else result
        return result, torch.autograd.grad(context, call.leaves, call.upstream)

    return call, forward if which == "forward" else forward_backward


def seconds_of(run):
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def timed(run, budget_s, limit_s, min_runs):
    """Runs until the budget is used up, `min_runs` at least, unless the limit ends it."""
    start, seconds = time.perf_counter(), []
    while True:
        used = time.perf_counter() - start
        if used >= limit_s or (used >= budget_s and len(seconds) >= min_runs):
            return seconds
        seconds.append(seconds_of(run))


def best_path(candidates, case, which, arguments):
    """Tries every path: the best one's name and function, and the shortest run of each in seconds.

    The shortest, since a busy machine makes runs longer and never shorter.
    """
    tried, best, best_run = {}, None, None
    for path in candidates:
        try:
            _, run = prepare(path, case, which)
            first = seconds_of(run)
            if path.compiled:
                first = seconds_of(run)
            hopeless = best is not None and first > max(NOTICEABLE_S, HOPELESS * tried[best])
            seconds = [first]
            if not hopeless and len(candidates) > 1:
                seconds += timed(run, arguments.seconds_per_case / 4, arguments.limit - first, MIN_TRIES)
        except NotHere:
            continue
        except Exception as error:  # A path that this torch cannot run is a finding, not a fault.
            first_line = (str(error).strip().splitlines() or [""])[0]
            note(f"  {path.name}: skipped: {type(error).__name__}: {first_line[:160]}")
            continue
        tried[path.name] = min(seconds)
        if best is None or tried[path.name] < tried[best]:
            best, best_run = path.name, run
    return best, best_run, tried


def measure(case, which, arguments):
    """One line of the report, or None where no path works."""
    candidates = paths_of(case, which, not arguments.no_compile)
    if which in arguments.path:
        candidates = [path for path in candidates if path.name in arguments.path[which]]
    best, run, tried = best_path(candidates, case, which, arguments)
    if best is None:
        note(f"{case.variant} {case.shape} {which}: no path works")
        return None
    seconds = timed(run, arguments.seconds_per_case, arguments.limit, MIN_RUNS) or [seconds_of(run)]
    del run
    memory = None
    if not arguments.no_memory and case.shape in ("long", "own"):
        memory = memory_of(case, which, best, arguments.threads)
    median = statistics.median(seconds)
    line = {
        "impl": "torch",
        "version": torch.__version__,
        "variant": case.variant,
        "shape": case.described(),
        "pass": which,
        "seconds_median": median,
        "seconds_min": min(seconds),
        "seconds_max": max(seconds),
        "runs": len(seconds),
        "gflops": case.n_operations(which) / median / 1e9,
        "extra_peak_bytes": memory and memory["extra_peak_bytes"],
        "result_bytes": Call(case, which).result_bytes() if memory is None else memory["result_bytes"],
        "threads": torch.get_num_threads(),
        "path": best,
        "paths": tried,
    }
    if case.variant.startswith("decode"):
        n_bytes = 4 * case.batch * case.n_kv_heads * case.kv_len * (case.d_k + case.d_v)
        line["gbytes_per_s"] = n_bytes / median / 1e9
    return line


# Memory


def resident_bytes(field):
    """A field of /proc/self/status, in bytes."""
    for row in pathlib.Path("/proc/self/status").read_text().splitlines():
        if row.startswith(field + ":"):
            return 1024 * int(row.split()[1])
    raise OSError(f"no {field} in /proc/self/status")


def peak_above(run):
    """Peak of resident memory in one call, above what was resident before it."""
    ctypes.CDLL(None).malloc_trim(0)
    before = resident_bytes("VmRSS")
    try:
        # ru_maxrss never falls, and a child starts from its parent's: the kernel's own peak can be reset.
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        result = run()
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    else:
        result = run()
        peak = resident_bytes("VmHWM")
    del result
    return max(0, peak - before)


def print_memory(case, which, name):
    """What the fresh process does: its threads and libraries wake first, on something small."""
    small = torch.ones(1, 2, 64, 64, requires_grad=True)
    (torch.softmax(small @ small, -1) + sdpa(small, small, small)).sum().backward()
    path = next(path for path in paths_of(case, which) if path.name == name)
    call, run = prepare(path, case, which)
    if path.compiled:
        run()
    print(json.dumps({"extra_peak_bytes": peak_above(run), "result_bytes": call.result_bytes()}))


def memory_of(case, which, name, threads):
    """Measures in a fresh process; None where that fails."""
    command = [sys.executable, __file__, "--threads", str(threads)]
    command += ["--memory-of", case.variant, case.shape, which, name]
    child = subprocess.run(command, capture_output=True, text=True, env=cases.child_environment(threads))
    if child.returncode != 0:
        note(f"  memory of {name}: not measured: {(child.stderr.strip().splitlines() or ['no reason given'])[-1]}")
        return None
    return json.loads(child.stdout.splitlines()[-1])


# The program


def report(lines):
    """The table, for a reader."""
    head = f"{'variant':<16} {'shape':<9} {'pass':<17} {'median ms':>10} {'min':>10} {'max':>10}"
    note(f"{head} {'runs':>5} {'GFLOP/s':>8} {'extra MiB':>9}  path")
    for line in lines:
        times = " ".join(f"{1e3 * line[f'seconds_{which}']:>10.3f}" for which in ("median", "min", "max"))
        memory = line["extra_peak_bytes"]
        extra = "-" if memory is None else f"{memory / 2**20:.0f}"
        speed = f" {line['gbytes_per_s']:.1f} GB/s" if "gbytes_per_s" in line else ""
        note(
            f"{line['variant']:<16} {line['shape']['name']:<9} {line['pass']:<17} {times} {line['runs']:>5}"
            f" {line['gflops']:>8.1f} {extra:>9}  {line['path']}{speed}"
        )


def list_cases(chosen, compiled):
    """Prints every case and its paths."""
    for case in chosen:
        for which in case.passes:
            names = " ".join(path.name for path in paths_of(case, which, compiled))
            print(f"{case.variant} {case.shape} {which}: {names}")


def path_choice(text):
    """PASS=NAME[,NAME …]"""
    which, _, names = text.partition("=")
    if which not in cases.PASSES or not names:
        raise argparse.ArgumentTypeError(f"expected forward=NAME[,NAME] or forward_backward=NAME[,NAME], got {text!r}")
    return which, names.split(",")


def arguments_given():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", action="append", choices=cases.VARIANTS, help="may be repeated; default: all")
    parser.add_argument("--shape", action="append", choices=cases.SHAPE_CHOICES, help="may be repeated; default: all")
    parser.add_argument("--pass", dest="passes", action="append", choices=cases.PASSES, help="default: both")
    parser.add_argument(
        "--path", action="append", type=path_choice, default=[], metavar="PASS=NAME,…", help="try only these paths"
    )
    parser.add_argument("--seconds-per-case", type=float, default=3.0, help="time for the runs of a case (default 3)")
    parser.add_argument("--limit", type=float, default=90.0, help="seconds after which no further run (default 90)")
    parser.add_argument("--threads", type=int, default=2, help="threads of PyTorch (default 2)")
    parser.add_argument("--no-memory", action="store_true", help="leave extra_peak_bytes null")
    parser.add_argument("--no-compile", action="store_true", help="try no path that torch.compile makes")
    parser.add_argument("--no-table", action="store_true", help="JSON lines only")
    parser.add_argument("--list", action="store_true", help="print the cases and their paths, and stop")
    parser.add_argument("--check", action="store_true", help="compare every path with float64 products, and stop")
    parser.add_argument("--memory-of", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.path = dict(arguments.path)
    return arguments


def main():
    arguments = arguments_given()
    torch.set_num_threads(arguments.threads)
    # Nested and sparse tensors, and tracing, each tell once that they are new: no news here.
    warnings.filterwarnings("ignore")
    logging.getLogger("torch.fx._symbolic_trace").setLevel(logging.ERROR)
    if arguments.memory_of:
        variant, shape, which, name = arguments.memory_of
        print_memory(cases.case(variant, shape), which, name)
        return 0
    chosen = cases.cases(arguments.variant or cases.VARIANTS, arguments.shape or ["all"])
    if not chosen:
        note("no such case: these variants do not have these shapes (see --list)")
        return 2
    if arguments.list:
        list_cases(chosen, not arguments.no_compile)
        return 0
    if arguments.check:
        return check.check_all(chosen, not arguments.no_compile, prepare, note)
    lines = []
    for case in chosen:
        for which in arguments.passes or cases.PASSES:
            line = measure(case, which, arguments) if which in case.passes else None
            if line is not None:
                print(json.dumps(line), flush=True)
                lines.append(line)
    if not arguments.no_table:
        report(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
