"""Runs a program and says how much of the processors other programs took meanwhile.

PyTorch's threads wait for each other in a loop, and where another program holds a core, each of their meetings costs
milliseconds. That is as regular as a slow program and shows in no spread, so it is measured: the time in which the
machine was busy, less that of the program itself.
"""

import os
import pathlib
import subprocess
import time

import cases


def busy_seconds():
    """Seconds that all processors were busy since the machine began; None where the system does not tell."""
    try:
        fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def run(command, threads):
    """The program, done, its stdout as text; and the processors that others took, None where the system does not tell."""
    begin, busy, own = time.perf_counter(), busy_seconds(), os.times()
    child = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=cases.child_environment(threads))
    elapsed, busy_after, after = time.perf_counter() - begin, busy_seconds(), os.times()
    if busy is None:
        return child, None
    took = sum(after[:4]) - sum(own[:4])
    return child, max(0.0, busy_after - busy - took) / elapsed
