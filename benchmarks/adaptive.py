"""How close `Adaptive` comes to the best of all policies, and how fast: proved intervals on many UMDPs.

15 samples, chosen by coverage out of 1000 as in the paper's evaluation, two cores, a limit in seconds; the search ends
when the gap is half a percent. The gap is (upper − lower) / upper: what is left between the policy's max regret, by the
judge, and what is proved for every policy. Bounds over time are those that the search reports while it runs.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.report import Table
from rue import UMDP, Adaptive, Limits, Regret, Solution, select, solve
from rue.domains import Disaster, Medical
from rue.experiments.published_figures import ELEVEN
from rue.parsing import parse_method

UMDPS, SECONDS, GAP = 25, 60.0, 0.005
QUICK_UMDPS, QUICK_SECONDS = 2, 2.0
TIMES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0)
FIRST_SECONDS = 0.03
FIGURE = Path(__file__).resolve().parent.parent / "docs" / "adaptive.svg"


def medical(seed: int) -> UMDP:
    return select(Medical(seed=seed).sample(1000, seed=1), 15, by="coverage")


def disaster(size: int, seed: int) -> UMDP:
    return select(Disaster(width=size, height=size, seed=seed).sample(1000, seed=1), 15, by="coverage")


def drawn_disaster(seed: int) -> UMDP:
    return Disaster(width=10, height=10, seed=seed).sample(15, seed=seed)


DOMAINS: dict[str, tuple[Callable[[int], UMDP], float]] = {
    "medical": (medical, 0.01),
    "disaster 6 × 6": (partial(disaster, 6), 0.01),
    "disaster 8 × 8": (partial(disaster, 8), 0.03),
    "disaster 10 × 10": (partial(disaster, 10), 0.08),
    "disaster 15 × 15": (partial(disaster, 15), 0.35),
}


@dataclass(frozen=True)
class Record:
    """One UMDP: the solution, how long it took in all, and the max regret of reg h3."""

    solution: Solution
    wall: float
    options: float

    def bounds(self, seconds: float) -> tuple[float, float]:
        """Lower and upper bound after a number of seconds; the last known ones."""
        known = [(point.lower, point.upper) for point in self.solution.trace if point.seconds <= seconds]
        final = (self.solution.max_regret.lower, self.solution.max_regret.upper)
        done = self.solution.trace[-1].seconds <= seconds
        return final if done else known[-1] if known else (0.0, float("inf"))

    def gap(self, seconds: float) -> float:
        lower, upper = self.bounds(seconds)
        return 0.0 if upper == 0 else 1.0 if upper == float("inf") else (upper - lower) / upper


def run(quick: bool = False) -> list[Table]:
    """Gaps, gaps over time, bounds over time, and normalised regret on 10 × 10."""
    umdps, seconds = (QUICK_UMDPS, QUICK_SECONDS) if quick else (UMDPS, SECONDS)
    names = list(DOMAINS)[:3] if quick else list(DOMAINS)
    solve(disaster(4, 1), Adaptive())  # compiles
    records = {name: list(_measure(DOMAINS[name][0], umdps, seconds)) for name in names}
    tables = [_gaps(records, seconds), _over_time(records)]
    if not quick:
        tables += [_one_second(umdps), _normalised(records["disaster 10 × 10"])]
        _draw(records)
    return tables


def _measure(make: Callable[[int], UMDP], umdps: int, seconds: float) -> Iterator[Record]:
    for seed in range(umdps):
        model = make(seed)
        began = time.perf_counter()
        solution = solve(model, Adaptive(GAP), limits=Limits(seconds=seconds))
        wall = time.perf_counter() - began
        yield Record(solution, wall, solve(model, Regret(3, "history")).max_regret.upper)


def _gaps(records: dict[str, list[Record]], seconds: float) -> Table:
    table = Table(
        f"Adaptive: the gap after {seconds:g} s, or where the search ended at {GAP:.1%}",
        (
            "model",
            "median gap",
            "asked for",
            "largest",
            "median s",
            "largest wall s",
            "upper / reg h3",
            "beliefs",
            "nodes",
        ),
    )
    for name, found in records.items():
        gap = statistics.median(record.solution.gap for record in found)
        ratio = statistics.median(r.solution.max_regret.upper / r.options for r in found if r.options > 0)
        table.rows.append(
            (
                name, f"{gap:.2%}", f"{DOMAINS[name][1]:.0%}", f"{max(r.solution.gap for r in found):.2%}",
                f"{statistics.median(r.solution.seconds for r in found):.2f}", f"{max(r.wall for r in found):.1f}",
                f"{ratio:.2f}", f"{statistics.median(r.solution.counters.get('beliefs', 0) for r in found):.0f}",
                f"{statistics.median(r.solution.policy.nodes for r in found):.0f}",
            )
        )  # fmt: skip
        verdict = "" if gap <= DOMAINS[name][1] else "FAILED: "
        table.notes.append(f"{verdict}{name}: median gap {gap:.2%}, at most {DOMAINS[name][1]:.0%}")
    return table


def _over_time(records: dict[str, list[Record]]) -> Table:
    table = Table("Adaptive: median gap over time", ("model", *(f"{seconds:g} s" for seconds in TIMES)))
    for name, found in records.items():
        table.rows.append((name, *(f"{statistics.median(r.gap(s) for r in found):.2%}" for s in TIMES)))
    return table


def _one_second(umdps: int) -> Table:
    table = Table("Adaptive: medical with a limit of one second", ("model", "median gap", "asked for", "median wall s"))
    found = []
    for seed in range(umdps):
        model = medical(seed)
        began = time.perf_counter()
        solution = solve(model, Adaptive(GAP), limits=Limits(seconds=1))
        found.append((solution.gap, time.perf_counter() - began))
    gap = statistics.median(gap for gap, _ in found)
    table.rows.append(("medical", f"{gap:.2%}", "2%", f"{statistics.median(wall for _, wall in found):.2f}"))
    table.notes.append(f"{'' if gap <= 0.02 else 'FAILED: '}median gap {gap:.2%}, at most 2%")
    return table


def _normalised(chosen: Sequence[Record]) -> Table:
    """Max regret divided by the largest of the paper's eleven methods, as in the paper; 0 where none has any."""
    drawn = list(_measure(drawn_disaster, len(chosen), SECONDS))
    columns = [_mean_normalised(partial(disaster, 10), chosen), _mean_normalised(drawn_disaster, drawn)]
    table = Table(
        "Disaster 10 × 10: mean normalised max regret", ("method", "samples chosen by coverage", "samples drawn")
    )
    table.rows += [(name, *(f"{column[name]:.3f}" for column in columns)) for name in columns[0]]
    for what, column in zip(("chosen by coverage", "drawn"), columns, strict=True):
        ratio, least = (column[name] / column["reg-d3"] for name in ("adaptive", "any policy"))
        failed = "FAILED: " if ratio > 0.5 >= least else ""
        table.notes.append(
            f"{failed}samples {what}: adaptive is {ratio:.3f} of reg d3 (at most 0.5, unless nobody can), and every "
            f"policy is at least {least:.3f} of it"
        )
    return table


def _mean_normalised(make: Callable[[int], UMDP], found: Sequence[Record]) -> dict[str, float]:
    total = dict.fromkeys((*ELEVEN, "reg-h3", "adaptive", "any policy"), 0.0)
    for seed, record in enumerate(found):
        model, bounds = make(seed), record.solution.max_regret
        regret = {name: solve(model, parse_method(name), bound=False).max_regret.upper for name in ELEVEN}
        worst = max(regret.values())
        regret |= {"reg-h3": record.options, "adaptive": bounds.upper, "any policy": bounds.lower}
        for name in total:
            total[name] += regret[name] / worst / len(found) if worst > 1e-9 else 0.0
    return total


def _draw(records: dict[str, list[Record]]) -> None:
    """Both bounds over time, in units of the final upper bound: the median over the UMDPs."""
    import matplotlib as mpl
    import numpy as np

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "rue"  # equal figures are equal files
    figure, axes = plt.subplots(1, len(records), figsize=(2.6 * len(records), 2.8), sharey=True, layout="constrained")
    times = np.geomspace(FIRST_SECONDS, SECONDS, 150)
    for axis, (name, found) in zip(axes, records.items(), strict=True):
        some = [record for record in found if record.solution.max_regret.upper > 0]
        for which, label, colour in ((1, "policy found", "#b2182b"), (0, "proved for every policy", "#2166ac")):
            parts = [[min(r.bounds(t)[which] / r.solution.max_regret.upper, 100) for t in times] for r in some]
            low, middle, high = np.quantile(parts, (0.1, 0.5, 0.9), axis=0)
            axis.plot(times, middle, color=colour, label=label)
            axis.fill_between(times, low, high, color=colour, alpha=0.2, linewidth=0)
        axis.set(xscale="log", title=name, xlabel="seconds", ylim=(0, 3), xlim=(FIRST_SECONDS, SECONDS))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("max regret / final upper bound")
    axes[0].legend(loc="upper right", frameon=False, fontsize="small")
    figure.savefig(FIGURE, metadata={"Date": None})
