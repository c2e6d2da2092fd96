"""How time and memory grow with the grid: disaster grids with 15 samples, each size in a process of its own.

Seconds are wall-clock: `solve` includes the judge. The optimal values are remembered with the model, so they are
counted once, in their own column. The peak is the largest resident memory of the whole process, with Python, the
libraries and the compiled code, from which nothing is subtracted; "at start" is what those take before the model is
made. The peak is read from VmHWM where there is one: `ru_maxrss` of a new process starts at the memory of the
process that began it.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.report import Table

SIZES, SAMPLES = (100, 200, 300, 400), 15
QUICK_SIZES, QUICK_SAMPLES = (20, 40), 5
MEGABYTE = 1e6
STEPS = ("generation", "optimal values", "Regret", "WorstCase", "Average")


def run(quick: bool = False) -> list[Table]:
    """One table of seconds and one of memory."""
    sizes, samples = (QUICK_SIZES, QUICK_SAMPLES) if quick else (SIZES, SAMPLES)
    what = f"disaster, {samples} samples"
    seconds = Table(f"Seconds: {what}", ("grid", *STEPS))
    memory = Table(
        f"Peak resident memory in MB, after each step: {what}",
        ("grid", "model arrays", "at start", *STEPS, "peak / arrays"),
    )
    for size in sizes:
        found = _in_own_process(size, samples)
        model, grid = found["model"], f"{size} × {size}"
        peaks = [found["peak"][step] for step in STEPS]
        seconds.rows.append((grid, *(f"{found['seconds'][step]:.2f}" for step in STEPS)))
        memory.rows.append(
            (grid, *(f"{x / MEGABYTE:.0f}" for x in (model, found["start"], *peaks)), f"{max(peaks) / model:.2f}")
        )
    return [seconds, memory]


def _in_own_process(size: int, samples: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.growth", str(size), str(samples)]
    root = Path(__file__).resolve().parent.parent
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=root).stdout
    found: dict[str, Any] = json.loads(output)
    return found


def measure(size: int, samples: int) -> dict[str, Any]:
    """All steps on one grid, in this process."""
    from rue import Average, Regret, WorstCase, solve
    from rue.domains import Disaster
    from rue.values import optimal_values

    solvers = {"Regret": Regret(), "WorstCase": WorstCase(), "Average": Average()}
    small = Disaster(width=6, height=6, seed=1).sample(samples, seed=1)
    for solver in solvers.values():
        solve(small, solver)
    found: dict[str, Any] = {"start": _peak(), "seconds": {}, "peak": {}}

    def step(name: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = work()
        found["seconds"][name], found["peak"][name] = time.perf_counter() - began, _peak()
        return result

    model = step("generation", lambda: Disaster(width=size, height=size, seed=1).sample(samples, seed=1))
    step("optimal values", lambda: optimal_values(model))
    for name, solver in solvers.items():
        step(name, partial(solve, model, solver)).require()
    return {**found, "model": model.nbytes}


def _peak() -> int:
    """The most memory that was ever resident, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
