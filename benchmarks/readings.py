"""What the paper leaves open, and what each reading of it does to the figures: disaster rescue, and cemr at sea.

- *Regions* have the squares adjacent to their centre: with those at the corners there are nine, without them five.
  The chance of a square to be a centre is told, 1/15; twice that is shown to see how much it matters.
- *cemr for options* is not defined. Ours sums the myopic gaps of the steps; the other reading compares the cost of an
  option with the best n steps of the sample from there, n-step regret instead of myopic regret n times.
- *κ*, which the paper adds to the cost of every option, is "small". Ours is taken out again. Myopic gaps are zero on
  most squares, so that there a κ which is kept decides where cemr goes.

The same two readings of cemr are held against each other in the glider domain, where myopic gaps are seldom zero.

As in the paper: 25 UMDPs of each size, 15 samples chosen by coverage out of 1000, 100 fresh ones to test, each max
regret divided by the worst of the eleven methods on that UMDP.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from rich.progress import track

from benchmarks.report import Table
from rue import UMDP, Limits, evaluate, select, solve
from rue.domains import Disaster, Glider
from rue.experiments.published_figures import ELEVEN, PAPER
from rue.experiments.replication import found_order, told_apart
from rue.experiments.results import Samples
from rue.experiments.statistics import SIGNIFICANT
from rue.model import Graph
from rue.parsing import parse_method
from rue.recursion.objectives import MyopicRegret
from rue.solution import Solver

SIZES, SEEDS = (4, 5, 6, 7, 8, 9, 10), 25
QUICK_SIZES, QUICK_SEEDS = (4,), 2
REGIONS = {
    "nine squares, chance 1/15 (ours)": (True, 1 / 15),
    "five squares, chance 1/15": (False, 1 / 15),
    "nine squares, chance 2/15": (True, 2 / 15),
    "five squares, chance 2/15": (False, 2 / 15),
}
COMPARED = ("gaps", "n steps")
KAPPAS = (0.0, 0.003, 0.01, 0.03)  # for each option, where entering a square costs 0.5
CEMR = {"cemr-d1": (1, "deterministic"), "cemr-d2": (2, "deterministic"), "cemr-d3": (3, "deterministic"),
        "cemr-s1": (1, "stochastic")}  # fmt: skip

# Of the glider: the factor on the currents, the side of the grid, and the most steps. Three steps need the time limit.
GLIDER = ((1.0, 8, 3), (1.0, 12, 2), (0.5, 8, 3), (0.5, 12, 2))
GLIDER_SECONDS = 10.0

Judged = tuple[float, float]  # max regret, train and test
Regrets = dict[str, Judged]


@dataclass(frozen=True)
class Given(MyopicRegret):
    """cemr with gaps that are given."""

    given: np.ndarray = field(default_factory=lambda: np.empty((0, 0)), kw_only=True, compare=False)

    def gap(self, model: UMDP, values: object) -> np.ndarray:
        """The gaps that are given."""
        return self.given


def run(quick: bool = False) -> list[Table]:
    """A table for each reading of the regions, and one of the glider."""
    sizes, seeds = (QUICK_SIZES, QUICK_SEEDS) if quick else (SIZES, SEEDS)
    problems = [(*shape, size, seed) for shape in REGIONS.values() for size in sizes for seed in range(seeds)]
    with ProcessPoolExecutor() as pool:
        done = list(track(pool.map(_solve_all, problems), "readings", len(problems), transient=True))
        at_sea = [(*case, seed) for case in (GLIDER[:1] if quick else GLIDER) for seed in range(seeds)]
        found = list(track(pool.map(_cemr_at_sea, at_sea), "glider", len(at_sea), transient=True))
    count = len(sizes) * seeds
    tables = [_table(name, done[i * count : (i + 1) * count]) for i, name in enumerate(REGIONS)]
    return [*tables, _glider_table(found, seeds)]


def _solve_all(problem: tuple[bool, float, int, int]) -> Regrets:
    """All methods on one UMDP, cemr in all its readings."""
    diagonals, chance, size, seed = problem
    domain = Disaster(width=size, height=size, seed=seed, region_chance=chance, diagonals=diagonals)
    train, test = select(domain.sample(1000, seed=seed), 15), domain.sample(100, seed=seed + 10**6)
    regrets = {name: _judged(train, test, parse_method(name)) for name in ELEVEN if name not in CEMR}
    for (name, (steps, options)), compared, kappa in product(CEMR.items(), COMPARED, KAPPAS):
        if steps == 1 and compared != COMPARED[0]:
            regrets[_key(name, compared, kappa)] = regrets[_key(name, COMPARED[0], kappa)]
            continue
        gap = _gaps(train, steps, compared)
        gap[: train.graph.choices] += kappa
        solver = Given(steps, options, given=gap)
        regrets[_key(name, compared, kappa)] = _judged(_clocked(train, steps), _clocked(test, steps), solver)
    return regrets


def _judged(train: UMDP, test: UMDP, solver: Solver) -> Judged:
    policy = solve(train, solver, bound=False).policy
    return evaluate(train, policy).max_regret, evaluate(test, policy).max_regret


def _key(name: str, compared: str, kappa: float) -> str:
    return f"{name}, {compared}, {kappa}"


def _clocked(model: UMDP, steps: int) -> UMDP:
    """The same model with a clock of `steps` steps in its states, so that gaps may depend on the time in an option."""
    graph = model.graph
    clocked = Graph(
        choice_ptr=_repeated(graph.choice_ptr, steps),
        action=np.tile(graph.action, steps),
        trans_ptr=_repeated(graph.trans_ptr, steps),
        successor=np.concatenate([graph.successor + (t + 1) % steps * graph.states for t in range(steps)]),
        initial=graph.initial,
        action_label=graph.action_label,
    )
    return UMDP(clocked, np.tile(model.prob, (steps, 1)), np.tile(model.cost, (steps, 1)))


def _repeated(ptr: np.ndarray, times: int) -> np.ndarray:
    """Pointers of rows that are repeated, one set after the other."""
    return np.concatenate([[0], np.cumsum(np.tile(np.diff(ptr), times))])


def _gaps(model: UMDP, steps: int, compared: str) -> np.ndarray:  # [steps · C, K]
    """What each choice adds, at each time of an option."""
    graph = model.graph
    inner = np.diff(graph.choice_ptr) > 0
    to_go = np.zeros((graph.states, model.samples))  # the least cost of the steps that are left
    gaps = []
    for _ in range(steps):
        cost = model.cost.copy()
        if compared != COMPARED[0]:
            np.add.at(cost, graph.trans_choice, model.prob * to_go[graph.successor])
        to_go = np.zeros_like(to_go)
        to_go[inner] = np.minimum.reduceat(cost, graph.choice_ptr[:-1][inner], axis=0)
        gaps.append(np.maximum(cost - to_go[graph.choice_state], 0.0))
    return np.concatenate(gaps[::-1])


def _table(name: str, problems: Sequence[Regrets]) -> Table:
    """A column for each reading of cemr; the last rows say how near it comes to the paper."""
    readings = list(product(COMPARED, KAPPAS))
    header = ("method", "paper", *(f"{compared}, κ {kappa:g}" for compared, kappa in readings))
    table = Table(f"Disaster rescue, regions of {name}: {len(problems)} UMDPs", header)
    published = PAPER["disaster"]["train"]
    train, test = ([_normalised(problems, *reading, which) for reading in readings] for which in (0, 1))
    for method in ELEVEN:
        table.rows.append(
            (method, f"{published[method]:.3f}", *(f"{figures[method].mean():.3f}" for figures in train))
        )  # fmt: skip
    off = [np.mean([abs(figures[m].mean() - published[m]) for m in ELEVEN]) for figures in train]
    table.rows += [
        ("mean distance", "", *(f"{x:.3f}" for x in off)),
        _orders("train", train),
        _orders("test", test),
    ]
    for heading, figures in zip(header[2:], train, strict=True):
        table.notes += _others(heading, figures)
    return table


def _normalised(problems: Sequence[Regrets], compared: str, kappa: float, which: int) -> dict[str, np.ndarray]:
    keys = [_key(method, compared, kappa) if method in CEMR else method for method in ELEVEN]
    regret = np.array([[regrets[key][which] for key in keys] for regrets in problems])
    worst = regret.max(axis=1, keepdims=True)
    return dict(zip(ELEVEN, (regret / np.where(worst > 1e-9, worst, 1.0)).T, strict=True))


def _orders(samples: Samples, readings: Sequence[Mapping[str, np.ndarray]]) -> tuple[str, ...]:
    """How many of the paper's significant differences each reading has too."""
    pairs = list(told_apart(PAPER["disaster"], samples))
    same = [
        sum(found_order(figures[better], figures[worse])[0] == "same" for better, worse, _ in pairs)
        for figures in readings
    ]
    return f"orders, {samples}", str(len(pairs)), *map(str, same)


def _others(reading: str, figures: Mapping[str, np.ndarray]) -> Iterator[str]:
    """What is significantly otherwise than in the paper."""
    for better, worse, _ in told_apart(PAPER["disaster"], "train"):
        found, p = found_order(figures[better], figures[worse])
        if found == "other" and p < SIGNIFICANT:
            yield f"{reading}: {better} is above {worse}, p = {p:.2g}"


def _cemr_at_sea(problem: tuple[float, int, int, int]) -> dict[str, float]:
    """Max regret of cemr d2 and d3 in both readings, as multiples of cemr d1's."""
    strength, size, most, seed = problem
    model = Glider(width=size, height=size, strength=strength, seed=seed).training(seed=seed)
    regret = {}
    for steps in range(1, most + 1):
        clocked = _clocked(model, steps)
        for compared in COMPARED[: 1 if steps == 1 else 2]:
            solver = Given(steps, given=_gaps(model, steps, compared))
            policy = solve(clocked, solver, limits=Limits(GLIDER_SECONDS), bound=False).policy
            regret[f"cemr-d{steps}, {compared}"] = evaluate(clocked, policy).max_regret
    return {name: value / regret[f"cemr-d1, {COMPARED[0]}"] for name, value in regret.items()}


def _glider_table(found: Sequence[Mapping[str, float]], seeds: int) -> Table:
    names = [f"cemr-d{steps}, {compared}" for steps in (2, 3) for compared in COMPARED]
    table = Table("Glider: mean of max regret as a multiple of cemr d1's", ("currents; grid", *names))
    paper = PAPER["glider"]["train"]
    table.rows.append(("the paper, ratio of means", *(f"{paper[name[:7]] / paper['cemr-d1']:.3f}" for name in names)))
    for i in range(len(found) // seeds):
        strength, size, _ = GLIDER[i]
        part = found[i * seeds : (i + 1) * seeds]
        cells = [f"{np.mean([one[name] for one in part]):.3f}" if name in part[0] else "" for name in names]
        table.rows.append((f"× {strength:g}; {size} × {size}", *cells))
    return table
