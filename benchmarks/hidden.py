"""How close `Adaptive` comes to the best of all policies where outcomes tell the samples apart little by little.

Models from `hidden_models.py`, gliders and grids, each with a limit in seconds of the processor, with one thread, since
other programs may run at the same time. "Before" is the search with the graph of beliefs alone, "after" is the search
that goes on with the hull (`rue.adaptive.hull`). The gap is (upper − lower) / upper, by the judge and by a verified
certificate. `python -m benchmarks.hidden FILE` keeps what it has measured.
"""

import argparse
import inspect
import json
import math
import statistics
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from unittest import mock

from rich.console import Console

from benchmarks.adaptive import disaster
from benchmarks.hidden_models import dense, experts, fishery, random_sparse, replacement, river
from benchmarks.processor import processor_time
from benchmarks.report import Table
from rue import UMDP, Adaptive, Limits, Solution, solve
from rue.adaptive import search
from rue.domains import Glider

SEEDS, SECONDS, GAP = 10, 60.0, 0.005
QUICK_SEEDS, QUICK_SECONDS = 1, 2.0
TIMES = (1.0, 3.0, 10.0, 30.0, 60.0)


def glider(size: int, seed: int) -> UMDP:
    return Glider(width=size, height=size, seed=seed).training(seed=seed)


# What is asked for: a gap, and after how many seconds.
FAMILIES: dict[str, tuple[Callable[[int], UMDP], float, float]] = {
    "glider 8 × 8": (partial(glider, 8), 0.05, 60),
    "glider 12 × 12": (partial(glider, 12), 0.10, 60),
    "glider 16 × 16": (partial(glider, 16), 0.15, 60),
    "disaster 10 × 10": (partial(disaster, 10), 0.005, 1.5),
    "disaster 15 × 15": (partial(disaster, 15), 0.005, 15),
    "disaster 20 × 20": (partial(disaster, 20), 0.02, 60),
    "disaster 30 × 30": (partial(disaster, 30), 0.20, 60),
    "disaster 40 × 40": (partial(disaster, 40), math.nan, 60),
    "random, 20 states, K = 5": (partial(random_sparse, 20, 5), 0.10, 60),
    "random, 100 states, K = 10": (partial(random_sparse, 100, 10), 0.10, 60),
    "random, 300 states, K = 15": (partial(random_sparse, 300, 15), 0.10, 60),
    "dense, 6 states, K = 5": (partial(dense, 6, 5, 0.95), 0.05, 60),
    "dense, 20 states, K = 5": (partial(dense, 20, 5, 0.95), 0.05, 60),
    "experts, K = 4": (partial(experts, 4), 0.01, 60),
    "experts, K = 16": (partial(experts, 16), 0.05, 60),
    "experts, K = 36": (partial(experts, 36), 0.10, 60),
    "experts, K = 67": (partial(experts, 67), 0.15, 60),
    "K = 2, discount 0.999": (partial(dense, 6, 2, 0.999), 0.01, 10),
    "K = 2, discount 0.9999": (partial(dense, 6, 2, 0.9999), 0.02, 30),
    "fishery": (fishery, 0.25, 60),
    "machine replacement": (replacement, math.nan, 60),
    "river": (river, math.nan, 60),
}


@dataclass(frozen=True)
class Case:
    """One solve: a model of a family, with the graph alone or with the hull."""

    family: str
    seed: int
    seconds: float
    with_hull: bool


@dataclass(frozen=True)
class Result:
    """The gap at the end and at some times, and the points of the hull."""

    gap: float
    over_time: tuple[float, ...]
    points: int


def run(quick: bool = False) -> list[Table]:
    """Median gaps before and after, and the gap over time."""
    seeds, most = (QUICK_SEEDS, QUICK_SECONDS) if quick else (SEEDS, SECONDS)
    _compile()
    return tables({case: measure(case) for case in cases(range(seeds), most)})


def cases(
    seeds: Iterable[int], most: float, families: Iterable[str] = FAMILIES, hull: Iterable[bool] = (True, False)
) -> list[Case]:
    """Return all solves, each seed of all families in turn: first those with the hull, then those without."""
    limits = {name: min(FAMILIES[name][2], most) for name in families}
    return [Case(name, seed, limits[name], with_hull) for with_hull in hull for seed in seeds for name in limits]


def measure(case: Case) -> Result:
    """Solve a model, with the graph alone or with the hull."""
    model = FAMILIES[case.family][0](case.seed)
    with ExitStack() as stack:
        if not case.with_hull:
            stack.enter_context(mock.patch.object(search, "GRAPH_BELIEFS", math.inf))
        stack.enter_context(processor_time())
        solution = solve(model, Adaptive(GAP), limits=Limits(seconds=case.seconds), threads=1)
    over_time = tuple(_gap_at(solution, t) for t in TIMES)
    return Result(solution.gap, over_time, int(solution.counters.get("points", 0)))


def tables(results: dict[Case, Result]) -> list[Table]:
    """Return the medians of what was measured."""
    columns = ("model", "seconds", "seeds", "before", "seeds", "after", "asked for", "largest", "points")
    gaps = Table("Hidden models: median gap", columns)
    times = Table("Hidden models: median gap over time, after", ("model", *(f"{t:g} s" for t in TIMES)))
    for name, (_, asked, _) in FAMILIES.items():
        before = [result for case, result in results.items() if case.family == name and not case.with_hull]
        found = {case: result for case, result in results.items() if case.family == name and case.with_hull}
        if not found:
            continue
        after, seconds = list(found.values()), next(iter(found)).seconds
        wanted = "–" if math.isnan(asked) else f"{100 * asked:g}%"
        of_before, of_after = (str(len(part)) for part in (before, after))
        cells = (of_before, _median([r.gap for r in before]), of_after, _median([r.gap for r in after]), wanted)
        points = f"{statistics.median(r.points for r in after):.0f}"
        gaps.rows.append((name, f"{seconds:g}", *cells, f"{max(r.gap for r in after):.1%}", points))
        times.rows.append((name, *(_median([r.over_time[i] for r in after]) for i in range(len(TIMES)))))
    return [gaps, times]


def _median(gaps: list[float]) -> str:
    return f"{statistics.median(gaps):.1%}" if gaps else "–"


def _compile() -> None:
    solve(experts(2, 0), Adaptive())


def _gap_at(solution: Solution, seconds: float) -> float:
    """Return the gap after some seconds, as the search reported it."""
    known = [point for point in solution.trace if point.seconds <= seconds and point.upper < math.inf]
    if not known:
        return 1.0
    return solution.gap if solution.trace[-1].seconds <= seconds else 1.0 - known[-1].lower / known[-1].upper


def main() -> None:
    """Add what is missing to a file of results, a line for each, and print the tables of what is there.

    All of it takes some hours: it may be stopped at any time, and goes on where it was.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hidden", description=inspect.getdoc(main))
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=range(SEEDS))
    parser.add_argument("--only", nargs="*", default=list(FAMILIES), help="families")
    parser.add_argument("--graph-alone", action="store_true", help="measure what was before the hull")
    arguments = parser.parse_args()
    lines = arguments.file.read_text().splitlines() if arguments.file.exists() else []
    results = {Case(**line["case"]): Result(**line["result"]) for line in map(json.loads, lines)}
    _compile()
    try:
        for case in cases(arguments.seeds, SECONDS, arguments.only, (not arguments.graph_alone,)):
            if case not in results:
                results[case] = measure(case)
                with arguments.file.open("a") as file:
                    file.write(json.dumps({"case": asdict(case), "result": asdict(results[case])}) + "\n")
    except KeyboardInterrupt:
        pass
    for table in tables(results):
        table.show(Console())


if __name__ == "__main__":
    main()
