"""How small policies can be: nodes before and after `simplify`, at losses of 1, 2 and 5 % of the max regret.

25 medical and 25 disaster 8 × 8 problems with 15 samples, chosen by coverage out of 1000 as in the paper's evaluation,
solved by `Adaptive` to half a percent; and two-state problems of experts who disagree, with much larger controllers
and few states. Nodes are counted as they are in files. "States" are the states that the policy may visit: a
controller that may visit as many has at least one node for each. `python -m benchmarks.simplify FILE` keeps what it has
measured.

Limits are in seconds of the processor, since other programs may run at the same time. Each loss begins with the policy
of the loss before, as a user would who wants a smaller one; losses are those from the first policy. Every result is
judged, and one that is worse than the stated loss ends the benchmark with an error.
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
from benchmarks.processor import processor_time
from benchmarks.report import Table
from rue import UMDP, Adaptive, Limits, Policy, evaluate, simplify, solve

LOSSES = (0.01, 0.02, 0.05)
GAP, SEEDS, EXPERT_SEEDS, SECONDS = 0.005, 25, 3, 10.0
QUICK_SEEDS, QUICK_SECONDS = 1, 5.0
# At 2 % in the median; the nodes of the experts at 5 %.
TIMES_FEWER, EXPERT_NODES = 10, 12
# What the floor of `simplify` may add to a loss.
ROUNDING = 1e-6
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
    limits = Limits(seconds=case.seconds)
    with processor_time():
        policy = solve(model, Adaptive(GAP), limits=limits).policy
        small, took = [policy], []
        for allowed in LOSSES:
            began = time.process_time()
            left = (1 + allowed) / (1 + max(_lost(model, policy, small[-1]), 0.0)) - 1
            small.append(simplify(model, small[-1], loss=left, limits=limits))
            took.append(time.process_time() - began)
        few = simplify(model, policy, EXPERT_NODES, limits=limits) if is_expert else policy
    del small[0]
    loss = tuple(_lost(model, policy, one) for one in small)
    assert all(lost <= allowed + ROUNDING for lost, allowed in zip(loss, LOSSES, strict=True)), (case, loss)
    states = int(np.unique(policy.node_state).size)
    lost = _lost(model, policy, few) if few.nodes <= EXPERT_NODES else float("inf")
    return Result(policy.nodes, states, tuple(one.nodes for one in small), loss, tuple(took), lost)


def _lost(model: UMDP, large: Policy, small: Policy) -> float:
    """Return by which part the judged max regret is larger."""
    return evaluate(model, small).max_regret / evaluate(model, large).max_regret - 1


def run(quick: bool = False, file: Path | None = None) -> list[Table]:
    """A table of the domains and one of the experts."""
    seeds, seconds = (QUICK_SEEDS, QUICK_SECONDS) if quick else (SEEDS, SECONDS)
    solve(disaster(4, 1), Adaptive())  # compiles
    known = json.loads(file.read_text()) if file is not None and file.exists() else {}
    found: dict[str, list[Result]] = {}
    for seed in range(seeds):
        for family in (*DOMAINS, *(EXPERTS if seed < EXPERT_SEEDS else ())):
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
        f"Smaller policies: median nodes, and how many times fewer, after {SECONDS:g} s of the processor or less",
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
    over = sum(loss > x + ROUNDING for one in rows["all"] for loss, x in zip(one.loss, LOSSES, strict=True))
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
