"""How small policies can be: nodes before and after `simplify`, at losses of 1, 2 and 5 % of the max regret.

25 medical and 25 disaster 8 × 8 problems with 15 samples, chosen by coverage out of 1000 as in the paper's evaluation,
solved by `Adaptive` to half a percent; and two-state problems of experts who disagree, with much larger controllers
and few states. Nodes are counted as they are in files. "States" are the states that the policy may visit: a
controller that may visit as many has at least one node for each. `python -m benchmarks.simplify FILE` keeps what it has
measured.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.adaptive import disaster, medical
from benchmarks.hidden_models import experts
from benchmarks.report import Table
from rue import UMDP, Adaptive, Limits, evaluate, simplify, solve

LOSSES = (0.01, 0.02, 0.05)
GAP, SEEDS, EXPERT_SEEDS, SECONDS = 0.005, 25, 3, 15.0
QUICK_SEEDS, QUICK_SECONDS = 1, 5.0
# At 2 % in the median; the nodes of the experts at 5 %.
TIMES_FEWER, EXPERT_NODES = 10, 12
DOMAINS: dict[str, Callable[[int], UMDP]] = {"medical": medical, "disaster 8 × 8": partial(disaster, 8)}
EXPERTS: dict[str, Callable[[int], UMDP]] = {f"experts, K = {k}": partial(experts, k) for k in (4, 16)}


@dataclass(frozen=True)
class Case:
    """One problem of a family."""

    family: str
    seed: int
    seconds: float


@dataclass(frozen=True)
class Result:
    """Nodes before and after, at each loss or number of nodes, and what was lost."""

    nodes: int
    states: int
    after: tuple[int, ...]
    loss: tuple[float, ...]
    took: tuple[float, ...]
    few: float  # the loss with at most `EXPERT_NODES` nodes; of experts only


def measure(case: Case) -> Result:
    """Solve one problem and simplify its policy."""
    is_expert = case.family in EXPERTS
    model = (EXPERTS if is_expert else DOMAINS)[case.family](case.seed)
    policy = solve(model, Adaptive(GAP), limits=Limits(seconds=case.seconds)).policy
    before = evaluate(model, policy).max_regret
    after, loss, took = [], [], []
    for allowed in LOSSES:
        began = time.perf_counter()
        small = simplify(model, policy, loss=allowed, limits=Limits(seconds=case.seconds))
        took.append(time.perf_counter() - began)
        after.append(small.nodes)
        loss.append(evaluate(model, small).max_regret / before - 1)
    few = 0.0
    if is_expert:
        small = simplify(model, policy, EXPERT_NODES, limits=Limits(seconds=case.seconds))
        few = evaluate(model, small).max_regret / before - 1 if small.nodes <= EXPERT_NODES else float("inf")
    states = int(np.unique(policy.node_state).size)
    return Result(policy.nodes, states, tuple(after), tuple(loss), tuple(took), few)


def run(quick: bool = False, file: Path | None = None) -> list[Table]:
    """A table of the domains and one of the experts."""
    seeds, seconds = (QUICK_SEEDS, QUICK_SECONDS) if quick else (SEEDS, SECONDS)
    solve(disaster(4, 1), Adaptive())  # compiles
    known = json.loads(file.read_text()) if file is not None and file.exists() else {}
    found: dict[str, list[Result]] = {}
    for family in (*DOMAINS, *EXPERTS):
        count = seeds if family in DOMAINS or quick else EXPERT_SEEDS
        for seed in range(count):
            case = Case(family, seed, seconds)
            if repr(case) not in known:
                known[repr(case)] = asdict(measure(case))
                if file is not None:
                    file.write_text(json.dumps(known, indent=1))
            found.setdefault(family, []).append(Result(**known[repr(case)]))
    return [_domains({name: found[name] for name in DOMAINS}), _experts({name: found[name] for name in EXPERTS})]


def _domains(found: dict[str, list[Result]]) -> Table:
    header = ("model", "problems", "states", "nodes", *(f"{x:.0%} loss" for x in LOSSES))
    table = Table(
        f"Smaller policies: median nodes, and how many times fewer, after {SECONDS:g} s or less",
        (*header, *(f"fewer at {x:.0%}" for x in LOSSES), "largest loss", "median s at 2%", "largest s"),
    )
    rows = {**found, "all": [one for part in found.values() for one in part]}
    for name, part in rows.items():
        fewer = [statistics.median(one.nodes / one.after[i] for one in part) for i in range(len(LOSSES))]
        table.rows.append(
            (
                name, str(len(part)), f"{statistics.median(one.states for one in part):.0f}",
                f"{statistics.median(one.nodes for one in part):.0f}",
                *(f"{statistics.median(one.after[i] for one in part):.0f}" for i in range(len(LOSSES))),
                *(f"{x:.1f}" for x in fewer), f"{max(max(one.loss) for one in part):.2%}",
                f"{statistics.median(one.took[1] for one in part):.1f}", f"{max(max(one.took) for one in part):.1f}",
            )
        )  # fmt: skip
        verdict = "" if fewer[1] >= TIMES_FEWER else "FAILED: "
        note = f"{verdict}{name}: {fewer[1]:.1f} times fewer at 2 % in the median, at least {TIMES_FEWER} asked for"
        extra = statistics.median((one.nodes - one.states) / max(one.after[1] - one.states, 1) for one in part)
        most = statistics.median(one.nodes / one.states for one in part)
        table.notes += [note, f"{name}: one node for each visited state would be {most:.1f} times fewer; beyond those, "
                        f"{extra:.0f} times fewer are left"]  # fmt: skip
    over = sum(loss > x + 1e-9 for one in rows["all"] for loss, x in zip(one.loss, LOSSES, strict=True))
    table.notes.append(f"{'FAILED: ' if over else ''}{over} of {3 * len(rows['all'])} are worse than the stated loss")
    return table


def _experts(found: dict[str, list[Result]]) -> Table:
    table = Table(
        "Smaller policies: two-state problems of experts, median nodes",
        ("model", "nodes", *(f"{x:.0%} loss" for x in LOSSES), f"loss with {EXPERT_NODES} nodes", "largest"),
    )
    for name, part in found.items():
        nodes = statistics.median(one.after[-1] for one in part)
        table.rows.append(
            (
                name, f"{statistics.median(one.nodes for one in part):.0f}",
                *(f"{statistics.median(one.after[i] for one in part):.0f}" for i in range(len(LOSSES))),
                f"{statistics.median(one.few for one in part):.0%}", f"{max(one.few for one in part):.0%}",
            )
        )  # fmt: skip
        verdict = "" if nodes <= EXPERT_NODES else "FAILED: "
        table.notes.append(f"{verdict}{name}: {nodes:.0f} nodes at 5 % in the median, at most {EXPERT_NODES} asked for")
    return table


def main() -> None:
    """Run the benchmark and keep what it has measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simplify", description=__doc__)
    parser.add_argument("file", type=Path)
    for table in run(file=parser.parse_args().file):
        table.show(Console())
        print(table.markdown())


if __name__ == "__main__":
    main()
