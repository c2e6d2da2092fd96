"""What a thousand samples bring on worlds never seen: regret on 2,000 fresh samples, against fifteen samples.

For each UMDP a thousand samples are drawn. `Adaptive` plans for all of them, and `Adaptive` and `reg-h3` for fifteen of
them, chosen by coverage as in the paper; all three are judged on 2,000 fresh samples. Limits are in seconds of the
processor, with one thread. `python -m benchmarks.fresh_samples FILE` keeps what it has measured.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.processor import processor_time
from benchmarks.report import Table
from rue import UMDP, Adaptive, Limits, Regret, Solver, evaluate, select, solve
from rue.domains import Disaster, Domain, Glider, Medical

SEEDS, QUICK_SEEDS, MANY, FEW, FRESH, GAP = 25, 1, 1_000, 15, 2_000, 0.05
FRESH_SEED = 1_000_000  # fresh samples are drawn with the seed of the UMDP and this
MOST_RATIO = 0.75
# A domain, the limit in seconds, and the largest ratio that is asked for.
CASES: dict[str, tuple[Callable[[int], Domain], float, float | None]] = {
    "medical": (lambda seed: Medical(seed=seed), 10.0, None),
    "disaster 8 × 8": (lambda seed: Disaster(width=8, height=8, seed=seed), 30.0, MOST_RATIO),
    "glider 8 × 8": (lambda seed: Glider(width=8, height=8, seed=seed), 15.0, None),
}
PLANS = ("Adaptive, 1,000", "Adaptive, 15", "reg-h3, 15")


@dataclass(frozen=True)
class Result:
    """Max, mean and 99 % regret on the fresh samples of each plan, and why the search over a thousand ended."""

    largest: tuple[float, ...]
    mean: tuple[float, ...]
    quantile: tuple[float, ...]
    status: str
    gap: float


def measure(name: str, seed: int, many: int = MANY, fresh: int = FRESH) -> Result:
    """Plan for many and for few samples of one UMDP, and judge the plans on fresh samples."""
    make, seconds, _ = CASES[name]
    domain = make(seed)
    train = domain.sample(many, seed=seed)
    few = select(train, FEW)
    plans: list[tuple[UMDP, Solver]] = [(train, Adaptive(GAP)), (few, Adaptive(GAP)), (few, Regret(3, "history"))]
    solutions = []
    for model, solver in plans:
        with processor_time():
            solutions.append(solve(model, solver, limits=Limits(seconds=seconds), bound=False, threads=1))
    test = domain.sample(fresh, seed=FRESH_SEED + seed)
    verdicts = [evaluate(test, solution.policy) for solution in solutions]
    return Result(
        tuple(float(verdict.max_regret) for verdict in verdicts),
        tuple(float(verdict.regret.mean()) for verdict in verdicts),
        tuple(float(np.quantile(verdict.regret, 0.99)) for verdict in verdicts),
        solutions[0].status.value,
        solutions[0].gap,
    )


def run(quick: bool = False) -> list[Table]:
    """Return the table of all domains; if `quick`, of one UMDP with few samples."""
    if quick:
        return [table({("medical", 1): measure("medical", 1, 50, 100)})]
    return [table({(name, seed): measure(name, seed) for name in CASES for seed in range(1, SEEDS + 1)})]


def table(results: dict[tuple[str, int], Result]) -> Table:
    """Return a row for each domain, with means over the UMDPs: max / mean / 99 % regret of each plan."""
    made = Table(
        "Regret on 2,000 fresh samples: max / mean / 99 %, means over the UMDPs",
        ("domain", "UMDPs", "solved", *PLANS, "max, 1,000 : 15"),
    )
    for name, (_, seconds, asked) in CASES.items():
        found = [result for (case, _), result in results.items() if case == name]
        if not found:
            continue
        largest, mean, quantile = (
            np.mean([getattr(result, what) for result in found], axis=0) for what in ("largest", "mean", "quantile")
        )
        solved = sum(result.status == "solved" for result in found)
        cells = [
            " / ".join(f"{value:.3g}" for value in figures) for figures in zip(largest, mean, quantile, strict=True)
        ]
        ratio = largest[0] / largest[1]
        made.rows.append((name, str(len(found)), str(solved), *cells, f"{ratio:.2f}"))
        if asked is not None:
            words = f"{name}: {ratio:.2f} of the max regret with {FEW} samples, at most {asked}"
            made.notes.append(words if ratio <= asked else f"FAILED: {words}")
        words = f"{name}: max regret of reg-h3 for {FEW} samples is {largest[2] / largest[0]:.2f} times as large"
        made.notes.append(words if largest[2] > largest[0] else f"FAILED: {words}")
        made.notes.append(f"{name}: a limit of {seconds:.0f} s, largest gap {max(r.gap for r in found):.0%}")
    return made


def main() -> None:
    """Measure what a file does not have yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--only", nargs="*", default=list(CASES))
    given = parser.parse_args()
    lines = given.file.read_text().splitlines() if given.file.exists() else []
    results = {(entry["case"], entry["seed"]): Result(**entry["result"]) for entry in map(json.loads, lines)}
    for seed in range(1, given.seeds + 1):
        for name in given.only:
            if (name, seed) not in results:
                results[name, seed] = measure(name, seed)
                with given.file.open("a") as stream:
                    entry = {"case": name, "seed": seed, "result": asdict(results[name, seed])}
                    stream.write(json.dumps(entry) + "\n")
    table(results).show(Console())


if __name__ == "__main__":
    main()
