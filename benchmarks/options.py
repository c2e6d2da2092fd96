"""Options of several steps: rue beside the paper's method as printed (`yardstick.py`), on disaster grids, 15 samples.

Two tables. *Whole solve*: Algorithm 1 until no value changes by 1e-4, against `Regret(steps=2)`; the objectives must
agree to 1e-3. All seeds from 1 on, as grids differ much: from no regret at all to hard ones. *One sweep*: on a larger
grid the yardstick makes a single sweep with n = 2, its first, over the states that kept choices can reach from the
initial one, and each of rue's whole solves is held against that. Later sweeps take as long or a little longer.

The yardstick is not timed for optimal values, pruning and the layout of its programs, and proves nothing. rue is timed
for `solve` from the bare model to the judged policy, optimal values and proof included, as the best of five on a model
from which nothing is remembered. Compiled code is warmed up on another grid. Before anything is measured the
yardstick is held against rue's one-step objective and against values found by enumeration.
"""

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import rue
from benchmarks.peers import forgetful
from benchmarks.report import Table
from benchmarks.yardstick import Yardstick
from rue.domains import Disaster

SAMPLES = 15
REPEATS = 5
ACCURACY = 1e-3
SOLVE_SIZE, SOLVE_SEEDS = 5, range(1, 9)
SWEEP_SIZE, SWEEP_SEEDS = 10, range(1, 4)
QUICK_SIZE, QUICK_SEEDS = 4, range(1, 3)
WARM_UP_SEED = 100
LIMIT_SECONDS = 600
CASES = Path(__file__).resolve().parent.parent / "tests" / "data" / "cases"

D2, D3, H3 = "deterministic, n = 2", "deterministic, n = 3", "history, n = 3"
FASTER_AT_LEAST = 300  # times, a whole solve
OF_A_SWEEP_AT_MOST = {D2: 1 / 10, D3: 1 / 2}


def run(quick: bool = False) -> list[Table]:
    """One table of whole solves and one of single sweeps."""
    check_yardstick()
    if quick:
        return [whole_solve(QUICK_SIZE, QUICK_SEEDS, at_least=0), one_sweep(QUICK_SIZE, QUICK_SEEDS, at_most={})]
    return [
        whole_solve(SOLVE_SIZE, SOLVE_SEEDS, FASTER_AT_LEAST),
        one_sweep(SWEEP_SIZE, SWEEP_SEEDS, OF_A_SWEEP_AT_MOST),
    ]


def check_yardstick() -> None:
    """The yardstick measures the right thing: one step against rue, two against enumeration."""
    model = _grid(QUICK_SIZE, seed=1)
    value, _, _ = Yardstick(model, steps=1).solve()
    assert _distance(value[model.graph.initial], rue.solve(model, rue.Regret()).objective) <= ACCURACY
    for path in sorted(CASES.glob("*.json")):
        case = json.loads(path.read_text())
        given, known = case["model"], case["values"]["reg"]["deterministic_2"]
        model = rue.UMDP.from_dense(given["transition"], given["cost"], initial=given["initial"], goals=given["goals"])
        value, _, _ = Yardstick(model, steps=2, prune=False).solve()
        assert abs(value[model.graph.initial] - known) <= ACCURACY, path.stem


def whole_solve(size: int, seeds: Iterable[int], at_least: float, steps: int = 2) -> Table:
    """Algorithm 1 to its end and rue's solve, on one grid for each seed."""
    table = Table(
        f"n = {steps}, deterministic, whole solve: disaster {size} × {size}, {SAMPLES} samples",
        (
            "grid",
            "kept choices",
            "sweeps",
            "as printed, s",
            "rue, s",
            "ratio",
            "as printed, objective",
            "rue, objective",
        ),
    )
    solver, apart, ours, theirs = rue.Regret(steps=steps), 0.0, 0.0, 0.0
    _warm_up(solver, size)
    for seed in seeds:
        model = _grid(size, seed)
        yardstick = Yardstick(model, steps)
        value, sweeps, printed = yardstick.solve(limit_seconds=LIMIT_SECONDS)
        seconds, objective = _best_of(solver, model)
        root = value[model.graph.initial]
        apart, ours, theirs = max(apart, _distance(root, objective)), ours + seconds, theirs + printed
        table.rows.append((
            f"seed {seed}", str(yardstick.kept.sum()), str(sweeps), f"{printed:.2f}", f"{seconds:.5f}",
            f"{printed / seconds:.0f}", f"{root:.5f}", f"{objective.upper:.5f}",
        ))  # fmt: skip
    table.rows.append(("all", "", "", f"{theirs:.2f}", f"{ours:.5f}", f"{theirs / ours:.0f}", "", ""))
    verdict = "agree" if apart <= ACCURACY else "FAILED: do not agree"
    table.notes.append(f"the objectives {verdict} to {ACCURACY:g}; the largest difference is {apart:.1e}")
    if at_least:
        verdict = "at least" if theirs >= at_least * ours else "FAILED: less than"
        table.notes.append(
            f"all grids together: {theirs / ours:.0f} times faster than as printed, {verdict} {at_least:g}"
        )
    return table


def one_sweep(size: int, seeds: Iterable[int], at_most: Mapping[str, float]) -> Table:
    """One sweep of Algorithm 1 with n = 2 and whole solves of rue, on one grid for each seed."""
    table = Table(
        f"One sweep as printed and whole solves by rue: disaster {size} × {size}, {SAMPLES} samples",
        ("solver", "grid", "seconds", "part of the sweep", "objective"),
    )
    seeds = list(seeds)
    printed: dict[int, float] = {}
    for seed in seeds:
        yardstick = Yardstick(_grid(size, seed), steps=2)
        states = yardstick.reachable()
        printed[seed], _ = yardstick.sweep(states)
        what = f"as printed, n = 2, one sweep of {len(states)} states"
        table.rows.append((what, f"seed {seed}", f"{printed[seed]:.2f}", "1", ""))
    total = {}
    for name, solver in contenders().items():
        _warm_up(solver, size)
        total[name] = 0.0
        for seed in seeds:
            seconds, objective = _best_of(solver, _grid(size, seed))
            total[name] += seconds
            part = f"{seconds / printed[seed]:.4f}"
            table.rows.append((f"rue, {name}", f"seed {seed}", f"{seconds:.4f}", part, f"{objective.upper:.5f}"))
    sweep = sum(printed.values())
    for name, part in at_most.items():
        verdict = "at most" if total[name] <= part * sweep else "FAILED: more than"
        table.notes.append(f"{name}: {total[name] / sweep:.4f} of a sweep, all grids together, {verdict} {part:g}")
    if at_most:
        verdict = "no slower than" if total[H3] <= total[D3] else "FAILED: slower than"
        table.notes.append(f"{H3}: {total[H3] / total[D3]:.2f} of the time of {D3}, {verdict} it")
    return table


def contenders() -> dict[str, rue.Regret]:
    """The solvers that are held against one sweep."""
    return {D2: rue.Regret(steps=2), D3: rue.Regret(steps=3), H3: rue.Regret(steps=3, options="history")}


def _grid(size: int, seed: int) -> rue.UMDP:
    return Disaster(width=size, height=size, seed=seed).sample(SAMPLES, seed=1)


def _warm_up(solver: rue.Solver, size: int) -> None:
    rue.solve(_grid(size, WARM_UP_SEED), solver)


def _best_of(solver: rue.Solver, model: rue.UMDP) -> tuple[float, rue.Interval]:
    """The least seconds of several solves, each of a model made anew, and the objective."""
    best, objective = float("inf"), rue.Interval(0.0, float("inf"))
    for _ in range(REPEATS):
        ready = forgetful(model)
        began = time.perf_counter()
        solution = rue.solve(ready, solver)
        best = min(best, time.perf_counter() - began)
        objective = solution.require().objective
    return best, objective


def _distance(value: float, objective: rue.Interval) -> float:
    """How far a value lies from the farther end of an interval."""
    return max(abs(value - objective.lower), abs(value - objective.upper))
