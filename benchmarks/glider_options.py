"""Deterministic options of three steps on gliders, where outcomes are many: time to a proof, and the gap without one.

Seed s makes the domain and draws its 12 samples. Seconds of `solve` with all cores, by the clock and of the processor,
from the bare model to the judged policy. 8 × 8 is to be proved in 5 s by the clock in the median; at 16 × 16 the gap of
the objective is told after a minute. Compiled code is warmed up on another glider.
"""

import time
from collections.abc import Iterable
from statistics import median

import rue
from benchmarks.report import Table
from rue.domains import Glider

SAMPLES = 12
SOLVER = rue.Regret(steps=3)
PROVED_IN = 5.0  # seconds by the clock, in the median
SMALL, SMALL_SEEDS, SMALL_LIMIT = 8, range(1, 26), 30.0
LARGE, LARGE_SEEDS, LARGE_LIMIT = 16, range(1, 4), 60.0
QUICK, QUICK_SEEDS, QUICK_LIMIT = 4, range(1, 3), 10.0
WARM_UP_SEED = 100


def run(quick: bool = False) -> list[Table]:
    """One table of small gliders and one of large ones."""
    rue.solve(_model(QUICK, WARM_UP_SEED), SOLVER)
    if quick:
        return [gliders(QUICK, QUICK_SEEDS, QUICK_LIMIT)]
    return [
        gliders(SMALL, SMALL_SEEDS, SMALL_LIMIT, proved_in=PROVED_IN),
        gliders(LARGE, LARGE_SEEDS, LARGE_LIMIT),
    ]


def gliders(size: int, seeds: Iterable[int], limit: float, proved_in: float = 0.0) -> Table:
    """Solve the glider of each seed, for at most some seconds."""
    table = Table(
        f"n = 3, deterministic: glider {size} × {size}, {SAMPLES} samples, {limit:.0f} s or less",
        ("seed", "states", "seconds", "processor seconds", "nodes", "lower", "upper", "gap", "status"),
    )
    seconds = []
    for seed in seeds:
        model = _model(size, seed)
        began, before = time.perf_counter(), time.process_time()
        solution = rue.solve(model, SOLVER, limits=rue.Limits(seconds=limit), bound=False)
        took, processor = time.perf_counter() - began, time.process_time() - before
        is_proved = solution.status is rue.Status.SOLVED
        seconds.append(took if is_proved else float("inf"))
        objective = solution.objective
        gap = objective.width / objective.upper if objective.width > 0 else 0.0
        table.rows.append((
            str(seed), str(model.graph.states), f"{took:.2f}", f"{processor:.2f}",
            f"{solution.counters.get('nodes', 0):,}",
            f"{objective.lower:.6g}", f"{objective.upper:.6g}", f"{gap:.1%}", solution.status.value,
        ))  # fmt: skip
    proved = sum(second < float("inf") for second in seconds)
    table.notes.append(
        f"{proved} of {len(seconds)} proved; median {median(seconds):.2f} s, without a proof counted as ∞"
    )
    if proved_in:
        verdict = "at most" if median(seconds) <= proved_in else "FAILED: more than"
        table.notes.append(f"the median is {verdict} {proved_in:g} s")
    return table


def _model(size: int, seed: int) -> rue.UMDP:
    return Glider(width=size, height=size, seed=seed).sample(SAMPLES, seed=seed)
