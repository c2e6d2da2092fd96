"""The best stationary deterministic policy: `ExactStationary` and PAYNT on small models, seconds and max regret.

PAYNT is left out where it is not installed (`pip install paynt`, or the extra `oracle`). Its time is that of the whole
call, with building its model; that of `ExactStationary` is a whole solve. Both prove that no such policy is better:
PAYNT to its precision, rue to the gap shown.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from benchmarks.hidden_models import dense, experts, random_sparse
from benchmarks.report import Table
from rue import UMDP, ExactStationary, Solution, solve
from rue.domains import Disaster

TOLERANCE = 1e-5
SEED, QUICK_MODELS = 1, 2

T = TypeVar("T")


def grid(size: int, samples: int, seed: int) -> UMDP:
    return Disaster(width=size, height=size, seed=seed).sample(samples, seed=seed)


# Sizes that PAYNT ends on within a minute; disaster 5 × 5 with 15 samples took it more than two.
MODELS: dict[str, Callable[[int], UMDP]] = {
    "experts, K = 4": partial(experts, 4),
    "random, 6 states, K = 4": partial(random_sparse, 6, 4),
    "experts, K = 16": partial(experts, 16),
    "dense, 6 states, K = 5": partial(dense, 6, 5, 0.95),
    "random, 10 states, K = 5": partial(random_sparse, 10, 5),
    "disaster 4 × 4, K = 5": partial(grid, 4, 5),
}


def run(quick: bool = False) -> list[Table]:
    """Return one table."""
    table = Table(
        "Best stationary deterministic policy",
        ("model", "states", "choices", "rue, s", "rue, max regret", "rue, gap", "PAYNT, s", "PAYNT, max regret"),
    )
    peer = _paynt()
    if peer is None:
        table.notes.append("paynt cannot be imported; its columns are empty")
    solve(experts(2, 0), ExactStationary())  # compiles
    for name in list(MODELS)[:QUICK_MODELS] if quick else MODELS:
        model = MODELS[name](SEED)
        solution, seconds = _timed(partial(solve, model, ExactStationary()))
        ours = (f"{seconds:.3f}", f"{solution.max_regret.upper:.6g}", f"{_gap(solution):.2%}")
        theirs: tuple[str, str] = ("", "")
        if peer is not None:
            regret, seconds = _timed(partial(peer, model))
            theirs = (f"{seconds:.3f}", f"{regret:.6g}")
            table.notes += _difference(name, solution, regret)
        table.rows.append((name, str(model.graph.states), str(model.graph.choices), *ours, *theirs))
    return [table]


def _paynt() -> Callable[[UMDP], float] | None:
    try:
        from benchmarks.paynt_peer import least_max_regret
    except ImportError:
        return None
    return least_max_regret


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    return call(), time.perf_counter() - began


def _gap(solution: Solution) -> float:
    """Return the part of the objective that is not proved."""
    lower, upper = solution.objective.lower, solution.objective.upper
    return (upper - lower) / upper if upper > 0 else 0.0


def _difference(name: str, solution: Solution, regret: float) -> list[str]:
    """Return a remark if the regret is not in the interval that was proved."""
    lower, upper = solution.objective.lower, solution.objective.upper
    slack = TOLERANCE * (1 + abs(upper))
    holds = lower - slack <= regret <= upper + slack
    return [] if holds else [f"FAILED: {name}: PAYNT's {regret:.6g} is not in [{lower:.6g}, {upper:.6g}]"]
