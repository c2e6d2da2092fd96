"""Large files: seconds and peak memory to read a model of 10⁷ transitions in each format, beside its arrays.

Each file is read in a process of its own, after a small one, so that imports and kernels do not count. The peak is what
the process takes more than before, in times of the arrays of the model.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import rue
from benchmarks.report import Table
from rue._arrays import pointers
from rue.flat import Flat

TRANSITIONS, QUICK = 10**7, 10**5
BRANCHES, CHOICES = 5, 2
# Dense arrays are for small models.
ENDINGS = (".umb", ".rue", ".drn", ".tra", ".csv", ".pomdp", ".pomdpx")

# The peak is VmHWM, which begins anew with the process. `ru_maxrss` would not do: a child inherits that of the process
# that started it, which holds the model.
READ = """
import json, sys, time
import rue

def kilobytes(name):
    with open("/proc/self/status") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith(name + ":"))

rue.load(sys.argv[1])
before, start = kilobytes("VmRSS"), time.process_time()
model = rue.load(sys.argv[2])
seconds = time.process_time() - start
peak = 1024 * (kilobytes("VmHWM") - before)
print(json.dumps([seconds, peak, model.nbytes, model.graph.transitions]))
"""


def large_model(transitions: int, seed: int = 0) -> rue.UMDP:
    """A model of one sample: each choice leads to some of the next states, and perhaps to the goal."""
    random = np.random.default_rng(seed)
    choices = transitions // BRANCHES
    states = choices // CHOICES + 1
    state = np.repeat(np.arange(states - 1), CHOICES)
    step = np.cumsum(random.integers(1, 4, (choices, BRANCHES)), axis=1)
    successor = np.minimum(state[:, None] + step, states - 1 - np.arange(BRANCHES)[::-1])
    successor = np.sort(np.where(successor < 0, np.arange(BRANCHES), successor), axis=1)
    prob = random.integers(1, 100, (choices, BRANCHES)).astype(float)
    prob /= prob.sum(axis=1, keepdims=True)
    flat = Flat(
        np.minimum(np.arange(states + 1) * CHOICES, choices), np.tile(np.arange(CHOICES), states - 1),
        pointers(np.full(choices, BRANCHES)), successor.ravel(), prob.reshape(-1, 1),
        random.integers(1, 9, (choices, 1)).astype(float), 0,
    )  # fmt: skip
    return rue.UMDP.from_flat(flat)


def run(quick: bool) -> list[Table]:
    """Return the table."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, small = large_model(QUICK if quick else TRANSITIONS), large_model(1000)
        for ending in ENDINGS:
            rue.save(folder / f"small{ending}", small)
            start = time.process_time()
            rue.save(folder / f"large{ending}", model)
            written = time.process_time() - start
            size = sum(path.stat().st_size for path in folder.glob("large*"))
            files = [str(folder / f"{which}{ending}") for which in ("small", "large")]
            done = subprocess.run(
                [sys.executable, "-c", READ, *files], capture_output=True, text=True, check=True, env=dict(os.environ)
            )
            seconds, peak, arrays, transitions = json.loads(done.stdout)
            assert transitions == model.graph.transitions
            rows.append((
                ending, f"{size / 1e9:.2f}", f"{written:.1f}", f"{seconds:.1f}", f"{peak / 1e9:.2f}",
                f"{arrays / 1e9:.2f}", f"{peak / arrays:.1f}",
            ))  # fmt: skip
            for path in folder.glob("large*"):
                path.unlink()
    head = ("file", "GB", "write, s", "read, s", "peak, GB", "arrays, GB", "peak / arrays")
    return [Table(f"A model of {model.graph.transitions:,} transitions", head, rows)]
