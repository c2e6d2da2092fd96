"""How close `Adaptive` comes to the best of all policies where outcomes tell the samples apart little by little.

Models from `hidden_models.py`, gliders and grids, each with a limit in seconds. "Before" is the search with the graph
of beliefs alone, "after" is the search that goes on with the hull (`rue.adaptive.hull`); both are run in turn on the
same model. The gap is (upper − lower) / upper, by the judge and by a verified certificate.
"""

import math
import statistics
from collections.abc import Callable
from functools import partial
from unittest import mock

from benchmarks.adaptive import disaster
from benchmarks.hidden_models import dense, experts, fishery, random_sparse, replacement, river
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
    "disaster 20 × 20": (partial(disaster, 20), 0.02, 60),
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


def run(quick: bool = False) -> list[Table]:
    """Median gaps before and after, and the gap over time."""
    seeds, most = (QUICK_SEEDS, QUICK_SECONDS) if quick else (SEEDS, SECONDS)
    gaps = Table(
        f"Hidden models: median gap of {seeds} seeds", ("model", "seconds", "before", "after", "asked for", "points")
    )
    times = Table("Hidden models: median gap over time, after", ("model", *(f"{t:g} s" for t in TIMES)))
    solve(experts(2, 0), Adaptive())  # compiles
    for name, (make, asked, seconds) in FAMILIES.items():
        limit = min(seconds, most)
        found = [_both(make(seed), limit) for seed in range(seeds)]
        before, after = (statistics.median(pair[i].gap for pair in found) for i in (0, 1))
        points = statistics.median(pair[1].counters.get("points", 0) for pair in found)
        wanted = "–" if math.isnan(asked) else f"{asked:.0%}"
        gaps.rows.append((name, f"{limit:g}", f"{before:.1%}", f"{after:.1%}", wanted, f"{points:.0f}"))
        over_time = (statistics.median(_gap_at(pair[1], t) for pair in found) for t in TIMES)
        times.rows.append((name, *(f"{gap:.1%}" for gap in over_time)))
    return [gaps, times]


def _both(model: UMDP, seconds: float) -> tuple[Solution, Solution]:
    """Solve a model with the graph alone, and with the hull."""
    limits = Limits(seconds=seconds)
    with mock.patch.object(search, "GRAPH_BELIEFS", math.inf):
        before = solve(model, Adaptive(GAP), limits=limits)
    return before, solve(model, Adaptive(GAP), limits=limits)


def _gap_at(solution: Solution, seconds: float) -> float:
    """Return the gap after some seconds, as the search reported it."""
    known = [point for point in solution.trace if point.seconds <= seconds and point.upper < math.inf]
    if not known:
        return 1.0
    return solution.gap if solution.trace[-1].seconds <= seconds else 1.0 - known[-1].lower / known[-1].upper
