"""Large models: seconds and peak memory of every step, from 100 × 100 to 1000 × 1000 and from 1 to 100 samples.

    python -m benchmarks.large RESULTS.jsonl [--grid N …] [--samples K …] [--step NAME …] [--markdown FILE]

Each step runs in a process of its own, which loads the model from a file first; loading counts only in the step that
is about it. Seconds are by the clock and of the processor. The peak is the largest resident memory of the process
(VmHWM), with Python, libraries and compiled code; parts of a mapped file that were read count too. A process that grows
beyond `MOST` is ended, and the step has failed. Results are kept as JSON lines: a step that is in the file is not
measured again. Before the clock starts, as much memory as the model has is taken and given back: what a virtual
machine had to get from its host first took 2 s of the processor for each gigabyte here, and 0.1 s when used again.

Methods are asked for no lower bound, which the report of a small model has and that of a large one has not. `Mixture`
has a limit of `MIXTURE_SECONDS`. Growth exponents are the slopes of a line through the logarithms, by least squares, of
the seconds of the processor: those by the clock depend on what else the machine does.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Table, machine

SAMPLES, SAMPLE_GRID = 15, 100
GRIDS, SAMPLE_COUNTS = (100, 200, 400, 700, 1000), (1, 3, 10, 30, 100)
QUICK_GRIDS, QUICK_COUNTS = (10, 20), (1, 3)
STEPS = ("generate", "save", "load", "values", "average", "reg", "robust", "evaluate", "best", "mixture")
# Exponents that are asked for, in states and in samples.
MOST_GROWTH, MOST_SAMPLE_GROWTH, GROWTH_STEPS = 1.15, 1.0, ("values", "average", "reg", "evaluate")
# The least seconds at which times are taken for an exponent: below, the start of threads and the like count.
LEAST_SECONDS = 0.1
MEGABYTE, GIGABYTE = 1e6, 1e9
MOST = 16 * GIGABYTE
POLL_SECONDS = 0.1
# The time limit of `Mixture`, whose search goes on as long as policies are found that improve it a little.
MIXTURE_SECONDS = 60.0

Result = dict[str, Any]


def run(quick: bool = False) -> list[Table]:
    """Measure everything, and return the tables."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "large.jsonl")
        grids, counts = (QUICK_GRIDS, QUICK_COUNTS) if quick else (GRIDS, SAMPLE_COUNTS)
        measure_all(store, sizes(grids, counts, grids[0] if quick else SAMPLE_GRID), STEPS)
        return tables(store.results())


def sizes(grids: Iterable[int], counts: Iterable[int], sample_grid: int = SAMPLE_GRID) -> list[tuple[int, int]]:
    """Return grids and numbers of samples, without repeats."""
    return list(dict.fromkeys([*((grid, SAMPLES) for grid in grids), *((sample_grid, count) for count in counts)]))


class Store:
    """Results, one JSON object in a line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def results(self) -> list[Result]:
        """Return what was measured so far."""
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        return [json.loads(line) for line in lines]

    def has(self, grid: int, samples: int, step: str) -> bool:
        """Return whether a step was measured."""
        return any((one["grid"], one["samples"], one["step"]) == (grid, samples, step) for one in self.results())

    def add(self, result: Result) -> None:
        """Keep a result."""
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(result) + "\n")


def measure_all(store: Store, wanted: Iterable[tuple[int, int]], steps: Iterable[str]) -> None:
    """Measure what is not in the store yet. The file of a model is made where a step needs it."""
    for grid, samples in wanted:
        left = [step for step in steps if not store.has(grid, samples, step)]
        if not left:
            continue
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model.rue"
            if set(left) - {"generate"}:
                _in_own_process("prepare", grid, samples, model)
            for step in left:
                result = {"grid": grid, "samples": samples, "step": step}
                store.add(result | _in_own_process(step, grid, samples, model))


def _in_own_process(step: str, grid: int, samples: int, model: Path) -> Result:
    """Run a step in a process of its own, which is ended if it takes too much memory."""
    command = [sys.executable, "-m", "benchmarks.large", "--one", step, str(grid), str(samples), str(model)]
    root = Path(__file__).resolve().parent.parent
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root) as process:
        while process.poll() is None:
            if _resident(process.pid) > MOST:
                process.kill()
                return {"failed": f"more than {MOST / GIGABYTE:.0f} GB"}
            time.sleep(POLL_SECONDS)
        output, errors = process.communicate()
    if process.returncode:
        return {"failed": (errors.strip().splitlines() or [f"exit status {process.returncode}"])[-1]}
    found: Result = json.loads(output)
    return found


def _resident(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 if that cannot be known."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(step: str, grid: int, samples: int, path: Path) -> Result:
    """Do one step in this process."""
    import rue
    from rue.compilation import compile_ahead

    compile_ahead()
    domain = rue.domains.Disaster(width=grid, height=grid, seed=1)
    if step == "prepare":
        rue.save(path, domain.sample(samples, seed=1))
        return {}
    made: list[rue.UMDP] = [] if step in ("generate", "load") else [rue.load(path)]
    if made:
        get_memory_ready(made[0].nbytes)
    start = peak()
    work, about = _work(step, path, made, lambda: domain.sample(samples, seed=1))
    began, before = time.perf_counter(), time.process_time()
    text = about(work())
    wall, cpu = time.perf_counter() - began, time.process_time() - before
    model = made[0] if made else rue.load(path) if path.exists() else None
    size = {} if model is None else {"states": model.graph.states, "model": model.nbytes}
    return {"wall": wall, "cpu": cpu, "start": start, "peak": peak(), "about": text, **size}


def _work(
    step: str, path: Path, made: list[Any], generate: Callable[[], Any]
) -> tuple[Callable[[], Any], Callable[[Any], str]]:
    """Return what a step does, and how its result is told."""
    import rue
    from rue.values import optimal_values

    model = made[0] if made else None
    solvers = {
        "average": rue.Average(), "reg": rue.Regret(), "robust": rue.WorstCase(),
        "best": rue.BestSample(), "mixture": rue.Mixture(),
    }  # fmt: skip
    if step == "generate":
        return generate, lambda _: ""
    if step == "save":
        return lambda: rue.save(path.with_suffix(".copy.rue"), model), lambda _: ""
    if step == "load":
        return lambda: rue.load(path), lambda _: ""
    if step == "values":
        return lambda: optimal_values(model), lambda values: f"error {values.error:.1e}"
    if step == "evaluate":
        cache = rue.Cache()
        values = optimal_values(model, cache=cache)
        policy = rue.Policy.stationary(model, model.graph.action[np.maximum(values.choice[:, 0], 0)])
        return lambda: rue.evaluate(model, policy, cache=cache), repr
    limits = rue.Limits(seconds=MIXTURE_SECONDS) if step == "mixture" else None
    return (
        lambda: rue.solve(model, solvers[step], limits=limits, bound=False),
        lambda solution: f"{solution.status}, max regret {solution.max_regret}, solver {solution.seconds:.2f} s",
    )


def get_memory_ready(size: int) -> None:
    """Take some memory and give it back, and begin a new peak where that can be done."""
    np.empty(size // 8).fill(0.0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def peak() -> int:
    """Return the most memory that was ever resident, in bytes.

    It is read from VmHWM where there is one: `ru_maxrss` of a new process starts at the memory of the process that
    began it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def tables(results: list[Result]) -> list[Table]:
    """Return seconds and peaks by grid and by number of samples, each with its exponents."""
    by_grid = [one for one in results if one["samples"] == SAMPLES]
    counted = [one for one in results if one["grid"] == min(one["grid"] for one in results)]
    return [
        _table("Large grids", "grid", by_grid, lambda one: one["grid"] ** 2, MOST_GROWTH),
        _table("From one sample to many", "samples", counted, lambda one: one["samples"], MOST_SAMPLE_GROWTH),
    ]


def _table(title: str, key: str, results: list[Result], size: Callable[[Result], float], most: float) -> Table:
    """Return a table with a row for each step and a column for each size, and the exponents."""
    columns = sorted({one[key] for one in results})
    found = {(one[key], one["step"]): one for one in results}
    steps = [step for step in STEPS if any(step == one["step"] for one in results)]
    names = [f"{column} × {column}" if key == "grid" else str(column) for column in columns]
    table = Table(title, (key, *names, "exponent"))
    models = [max(one.get("model", 0) for one in results if one[key] == column) for column in columns]
    table.rows.append(("the model, GB", *(f"{size / GIGABYTE:.3g}" for size in models), ""))
    slopes = {step: _exponent([one for one in results if one["step"] == step], size) for step in steps}
    for step in steps:
        slope = "–" if slopes[step] is None else f"{slopes[step]:.2f}"
        table.rows.append((step, *(_cell(found.get((column, step))) for column in columns), slope))
    for step in GROWTH_STEPS:
        slope = slopes.get(step)
        if slope is not None:
            words = f"{step}: exponent {slope:.2f}, at most {most}"
            table.notes.append(words if slope <= most else f"FAILED: {words}")
    largest = max((one["peak"] for one in results if "peak" in one), default=0)
    words = f"no step takes more than {largest / GIGABYTE:.3g} GB, at most {MOST / GIGABYTE:.0f}"
    failed = [f"{one[key]}, {one['step']}: {one['failed']}" for one in results if "failed" in one]
    table.notes.append(words)
    table.notes.extend(f"FAILED: {text}" for text in failed)
    return table


def _cell(one: Result | None) -> str:
    if one is None:
        return "–"
    return "failed" if "failed" in one else f"{one['wall']:.3g} ({one['cpu']:.3g}), {one['peak'] / GIGABYTE:.2g}"


def _exponent(results: list[Result], size: Callable[[Result], float]) -> float | None:
    """Return the slope of the logarithm of the seconds; None if fewer than two sizes take long enough."""
    points = [(size(one), one["cpu"]) for one in results if one.get("cpu", 0.0) >= LEAST_SECONDS]
    if len({x for x, _ in points}) < 2:
        return None
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("results", type=Path, help="JSON lines, made or added to")
    parser.add_argument("--grid", type=int, nargs="*", default=GRIDS)
    parser.add_argument("--samples", type=int, nargs="*", default=SAMPLE_COUNTS)
    parser.add_argument("--step", nargs="*", choices=STEPS, default=STEPS)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to a file")
    arguments = parser.parse_args()
    store = Store(arguments.results)
    measure_all(store, sizes(arguments.grid, arguments.samples), arguments.step)
    text = "\n".join([f"{machine()}.\n", *(table.markdown() for table in tables(store.results()))])
    if arguments.markdown:
        arguments.markdown.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))))
    else:
        main()
