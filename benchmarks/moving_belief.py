"""What the choice of the belief costs in `Adaptive`: whole solves against solves at their final belief.

A whole solve looks for the belief with the largest least regret, and for a policy for all samples. When it has ended,
the least weighted regret at the belief of its certificate is searched for from nothing, until the gap is as small as
that of the whole solve. Seconds are of the processor, one thread each, with optimal values and start policies.
`python -m benchmarks.moving_belief FILE` keeps what it has measured.
"""

import argparse
import json
import math
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.fixed_belief import discounted, search_at
from benchmarks.hidden import FAMILIES
from benchmarks.hidden_models import experts
from benchmarks.report import Table
from rue import Adaptive, Limits, solve

SEEDS, SECONDS, QUICK_SEEDS, QUICK_SECONDS, MOST_RATIO = 10, 60.0, 1, 2.0, 3.0
# A search at one belief that has not reached the gap after this many times the seconds of the whole solve is stopped.
LONGER = 2.0
# The gap that both look for.
GAPS = {
    "disaster 10 × 10": 0.005,
    "disaster 15 × 15": 0.005,
    "disaster 20 × 20": 0.02,
    "glider 8 × 8": 0.05,
    "glider 12 × 12": 0.10,
    "experts, K = 4": 0.01,
    "experts, K = 16": 0.05,
}


@dataclass(frozen=True)
class Result:
    """The gap of the whole solve, and the seconds to it: of the whole solve, and at its final belief."""

    gap: float
    whole: float
    fixed: float

    @property
    def ratio(self) -> float:
        return self.whole / self.fixed


def measure(name: str, seed: int, seconds: float = SECONDS) -> Result | None:
    """Return both times for one model; None if no regret is proved, so that there is no belief."""
    model = discounted(FAMILIES[name][0](seed))
    began = time.process_time()
    solution = solve(model, Adaptive(GAPS[name]), limits=Limits(seconds=seconds), threads=1, bound=False)
    whole = time.process_time() - began
    if solution.certificate is None or solution.max_regret.lower <= 0.0:
        return None
    record = search_at(model, solution.certificate.belief, solution.gap, LONGER * whole)
    return Result(solution.gap, whole, record.seconds_to(solution.gap))


def run(quick: bool = False) -> list[Table]:
    """Return the table of all families; if `quick`, of one model of each with little time."""
    _compile()
    seeds, seconds = (QUICK_SEEDS, QUICK_SECONDS) if quick else (SEEDS, SECONDS)
    return [table({(name, seed): measure(name, seed, seconds) for name in GAPS for seed in range(seeds)})]


def table(results: dict[tuple[str, int], Result | None]) -> Table:
    """Return the medians of each family. A gap that is not reached at the final belief counts as a ratio of 0."""
    made = Table(
        "Whole solves and solves at their final belief: medians, seconds of the processor",
        ("model", "models", "gap", "whole", "at the final belief", "ratio", "not reached there"),
    )
    for name in GAPS:
        found = [result for (case, _), result in results.items() if case == name and result is not None]
        if not found:
            continue
        gap, whole, fixed, ratio = (
            statistics.median(getattr(result, what) for result in found) for what in ("gap", "whole", "fixed", "ratio")
        )
        late = sum(math.isinf(result.fixed) for result in found)
        seconds = "–" if math.isinf(fixed) else f"{fixed:.2f}"
        made.rows.append((name, str(len(found)), f"{gap:.1%}", f"{whole:.2f}", seconds, f"{ratio:.1f}", str(late)))
    ratios = [result.ratio for result in results.values() if result is not None]
    if ratios:
        words = f"the median of all is {statistics.median(ratios):.1f}, at most {MOST_RATIO:g} asked for"
        made.notes.append(words if statistics.median(ratios) <= MOST_RATIO else f"FAILED: {words}")
    return made


def _compile() -> None:
    solve(experts(3, 0), Adaptive(), limits=Limits(seconds=1.0))


def main() -> None:
    """Measure what a file does not have yet, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.moving_belief", description=main.__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    given = parser.parse_args()
    lines = given.file.read_text().splitlines() if given.file.exists() else []
    results = {
        (entry["case"], entry["seed"]): Result(**entry["result"]) if entry["result"] else None
        for entry in map(json.loads, lines)
    }
    _compile()
    for seed in range(given.seeds):
        for name in GAPS:
            if (name, seed) not in results:
                result = results[name, seed] = measure(name, seed)
                with given.file.open("a") as stream:
                    entry = {"case": name, "seed": seed, "result": None if result is None else asdict(result)}
                    stream.write(json.dumps(entry) + "\n")
    table(results).show(Console())


if __name__ == "__main__":
    main()
