"""`Adaptive` on large grids against `reg` with histories of three steps: 50 × 50 and 100 × 100, 15 samples, 120 s.

    python -m benchmarks.large_adaptive RESULTS.jsonl [--grid N …] [--seeds K] [--seconds S] [--markdown FILE]

Results are kept as JSON lines: what is in the file is not measured again. Seconds are by the clock.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import Table, machine

GRIDS, SEEDS, SECONDS, SAMPLES = (50, 100), 10, 120.0, 15
QUICK_GRIDS, QUICK_SEEDS, QUICK_SECONDS = (12,), 2, 5.0
# By which part the upper end is to be below that of reg, in the median.
LESS = 0.1

Result = dict[str, Any]


def run(quick: bool = False) -> list[Table]:
    """Measure everything, and return the table."""
    grids, seeds, seconds = (QUICK_GRIDS, QUICK_SEEDS, QUICK_SECONDS) if quick else (GRIDS, SEEDS, SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        return [table(measure_all(Path(folder) / "results.jsonl", grids, seeds, seconds))]


def measure_all(path: Path, grids: tuple[int, ...], seeds: int, seconds: float) -> list[Result]:
    """Measure what is not in the file yet; return all that is."""
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    done = {(one["grid"], one["seed"]) for one in found}
    for seed in range(1, seeds + 1):
        for grid in grids:
            if (grid, seed) not in done:
                found.append(measure(grid, seed, seconds))
                with path.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(found[-1]) + "\n")
    return found


def measure(grid: int, seed: int, seconds: float) -> Result:
    """Solve one model by both methods."""
    import rue

    model = rue.domains.Disaster(width=grid, height=grid, seed=seed).sample(SAMPLES, seed=seed)
    began = time.perf_counter()
    reg = rue.solve(model, rue.Regret(3, "history"), bound=False)
    took = time.perf_counter() - began
    began = time.perf_counter()
    found = rue.solve(model, rue.Adaptive(), limits=rue.Limits(seconds=seconds))
    return {
        "grid": grid, "seed": seed, "reg": reg.max_regret.upper, "reg_status": str(reg.status), "reg_seconds": took,
        "lower": found.max_regret.lower, "upper": found.max_regret.upper, "status": str(found.status),
        "seconds": time.perf_counter() - began, "nodes": found.policy.nodes,
    }  # fmt: skip


def table(results: list[Result]) -> Table:
    """Return a row for each model, and what was asked for."""
    header = ("grid, seed", "reg-h3", "seconds", "adaptive, lower end", "upper end", "seconds", "below reg-h3")
    found = Table(f"Adaptive on large grids, {SAMPLES} samples", header)
    for one in sorted(results, key=lambda one: (one["grid"], one["seed"])):
        found.rows.append((
            f"{one['grid']} × {one['grid']}, {one['seed']}", f"{one['reg']:.3f}", f"{one['reg_seconds']:.1f}",
            f"{one['lower']:.3f}", f"{one['upper']:.3f}", f"{one['seconds']:.0f}", f"{100 * _less(one):.0f} %",
        ))  # fmt: skip
    for grid in sorted({one["grid"] for one in results}):
        own = [one for one in results if one["grid"] == grid]
        less, positive = median(map(_less, own)), sum(one["lower"] > 0 for one in own)
        words = (
            f"{grid} × {grid}: {100 * less:.0f} % below reg-h3 in the median, at least {100 * LESS:.0f} %; "
            f"the lower end is above 0 on {positive} of {len(own)}"
        )
        found.notes.append(words if less >= LESS and positive == len(own) else f"FAILED: {words}")
    return found


def _less(one: Result) -> float:
    return float(1 - one["upper"] / one["reg"])


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_adaptive", description=__doc__)
    parser.add_argument("results", type=Path, help="JSON lines, made or added to")
    parser.add_argument("--grid", type=int, nargs="*", default=GRIDS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to a file")
    arguments = parser.parse_args()
    results = measure_all(arguments.results, tuple(arguments.grid), arguments.seeds, arguments.seconds)
    text = f"{machine()}.\n\n{table(results).markdown()}"
    if arguments.markdown:
        arguments.markdown.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
