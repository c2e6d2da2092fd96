"""`Adaptive` over a thousand samples and more: seconds to a gap of five percent over all of them.

The search is one in parts (`rue.active`): few samples are active, and the policy is judged on all. Seconds are of the
processor, with one thread, and so is the limit, which is what is asked for. `python -m benchmarks.many_samples FILE`
keeps what it has measured.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.processor import processor_time
from benchmarks.report import Table
from rue import UMDP, Adaptive, Limits, Status, solve
from rue.domains import Disaster, Medical

SEEDS, QUICK_SEEDS, GAP = 25, 1, 0.05


def grid(size: int) -> Callable[[int, int], UMDP]:
    return lambda samples, seed: Disaster(width=size, height=size, seed=seed).sample(samples, seed=seed)


def patients(samples: int, seed: int) -> UMDP:
    return Medical(seed=seed).sample(samples, seed=seed)


# A model, how many samples, and the seconds that are asked for.
CASES: dict[str, tuple[Callable[[int, int], UMDP], int, float]] = {
    "medical, 100": (patients, 100, math.nan),
    "medical, 1,000": (patients, 1_000, 10),
    "medical, 10,000": (patients, 10_000, 60),
    "disaster 6 × 6, 1,000": (grid(6), 1_000, 10),
    "disaster 8 × 8, 1,000": (grid(8), 1_000, 30),
    "disaster 10 × 10, 1,000": (grid(10), 1_000, 120),
}


@dataclass(frozen=True)
class Result:
    """One solve: why it ended, what it took, and what it found."""

    status: str
    seconds: float
    lower: float
    upper: float
    active: int

    @property
    def gap(self) -> float:
        return 1.0 - self.lower / self.upper if self.upper > 0 else 0.0


def measure(name: str, seed: int) -> Result:
    """Solve one model, within the seconds that are asked for."""
    make, samples, asked = CASES[name]
    model = make(samples, seed)
    began = time.process_time()
    with processor_time():
        limits = Limits(seconds=math.inf if math.isnan(asked) else asked)
        found = solve(model, Adaptive(GAP), limits=limits, bound=False, threads=1)
    interval = found.max_regret
    active = found.counters.get("active samples", samples)
    return Result(found.status.value, time.process_time() - began, interval.lower, interval.upper, active)


def run(quick: bool = False) -> list[Table]:
    """Return the seconds of all cases; if `quick`, of two."""
    names = ("medical, 100", "disaster 6 × 6, 1,000") if quick else tuple(CASES)
    seeds = range(1, (QUICK_SEEDS if quick else SEEDS) + 1)
    return [table({(name, seed): measure(name, seed) for name in names for seed in seeds})]


def table(results: dict[tuple[str, int], Result]) -> Table:
    """Return a row for each case, with medians over the seeds."""
    columns = ("model, samples", "UMDPs", "solved", "seconds", "asked for", "gap at the end", "active samples")
    made = Table("Seconds to a gap of 5 % over all samples: medians", columns, [], [])
    for name, (_, _, asked) in CASES.items():
        found = [result for (case, _), result in results.items() if case == name]
        if not found:
            continue
        solved = sum(result.status == Status.SOLVED for result in found)
        seconds = statistics.median(r.seconds if r.status == Status.SOLVED else math.inf for r in found)
        gap, active = (statistics.median(getattr(r, what) for r in found) for what in ("gap", "active"))
        made.rows.append((
            name, str(len(found)), str(solved), f"{seconds:.1f}" if seconds < math.inf else "–",
            "–" if math.isnan(asked) else f"{asked:g}", f"{gap:.1%}", f"{active:g}",
        ))  # fmt: skip
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
    for name in given.only:
        for seed in range(1, given.seeds + 1):
            if (name, seed) not in results:
                results[name, seed] = measure(name, seed)
                with given.file.open("a") as stream:
                    entry = {"case": name, "seed": seed, "result": asdict(results[name, seed])}
                    stream.write(json.dumps(entry) + "\n")
    table(results).show(Console())


if __name__ == "__main__":
    main()
