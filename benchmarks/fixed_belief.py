"""At a fixed belief: rue's search and SARSOP on the same problem, seconds to a gap of two percent.

The problem is the inner one of `Adaptive`: the least of Σ_k b_k reg_k(π) over all policies, for one belief b. A POMDP
solver can take it, since the sample is a hidden part of the state. The belief is that of the certificate after a short
solve. rue's search at one belief has no function of its own; `search_at` runs the graph of beliefs, and the hull where
doubling the graph hardly helps, as `Adaptive` does, but never moves the belief.

POMDP solvers need a discount. Models without one get 0.999 (`UMDP.with_discount`), for both. With 0.99999 `pomdpsol`
had no first bounds on the smallest glider after 40 seconds: it starts from policies that repeat one action for ever.

Seconds are of CPU, one thread each. rue's are with optimal values and start policies, without compilation; those of
SARSOP with reading the file. The gap is (upper − lower) / upper of the weighted regret. SARSOP is told the difference
of bounds to stop at: the gap wanted, of the regret that rue has found.
"""

import math
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.hidden import FAMILIES
from benchmarks.hidden_models import experts
from benchmarks.report import Table
from benchmarks.sarsop import PROGRAM, Bounds, Record, installed, solve_by_sarsop
from rue import UMDP, Adaptive, Limits, optimal_values, solve
from rue._arrays import Array
from rue.adaptive.belief_graph import BeliefGraph, OutOfMemory
from rue.adaptive.hull import Hull
from rue.adaptive.portfolio import start_policies
from rue.formats.pomdpx_text import discount_of
from rue.policy import Policy
from rue.solution import Run
from rue.values import OptimalValues

GAP, SECONDS, SHORT_SECONDS = 0.02, 30.0, 5.0
QUICK_FAMILIES, QUICK_SECONDS, QUICK_SHORT_SECONDS = 3, 2.0, 0.5
DISCOUNT = 0.999
# The first of these seeds with some regret, as a part of the least optimal value.
SEEDS, SOME_REGRET = 10, 1e-6
MEMORY = 2e9
# Methods that give start policies, besides the samples' own policies, and the seconds that they may take.
METHODS, START_SECONDS = 5, 2.0
# When the graph has this many beliefs, and whenever their number has doubled, the hull takes over if the gap is still
# more than this part of what it was.
GRAPH_BELIEFS, STILL_WIDE = 10_000, 0.7
# Intervals that hold the same number overlap, but for the digits that are printed.
DIGITS = 1e-5


def run(quick: bool = False) -> list[Table]:
    """Return the seconds to a small gap of rue and SARSOP on all families."""
    names = list(FAMILIES)[-QUICK_FAMILIES:] if quick else list(FAMILIES)
    seconds, short = (QUICK_SECONDS, QUICK_SHORT_SECONDS) if quick else (SECONDS, SHORT_SECONDS)
    table = Table(
        f"At a fixed belief: seconds to a gap of {GAP:.0%}, at most {seconds:g}",
        ("model", "states", "samples", "discount", "regret", "rue, s", "rue, gap", "SARSOP, s", "SARSOP, gap"),
    )
    if not installed():
        table.notes.append(f"{PROGRAM} is not on the PATH; its columns are empty")
    _compile()
    for name in names:
        rows, notes = compare(name, seconds, short)
        table.rows += rows
        table.notes += notes
    return [table]


def compare(name: str, seconds: float, short: float) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the row of one family, if there is one, and what is to be said about it."""
    hard = hard_belief(name, short)
    if hard is None:
        return [], [f"{name}: no regret is proved for any of {SEEDS} seeds, so that there is nothing to compare"]
    model, belief = hard
    rue = search_at(model, belief, GAP, seconds)
    facts = (name, str(model.graph.states), str(model.samples), f"{discount_of(model):g}")
    own = (f"{rue.trace[-1].upper:.4g}", *_cells(rue))
    if not installed():
        return [(*facts, *own, "", "")], []
    other = solve_by_sarsop(model, belief, GAP * rue.trace[-1].upper, seconds)
    notes = [] if agree(rue, other) else [f"FAILED: {name}: the intervals of rue and SARSOP do not overlap"]
    return [(*facts, *own, *_cells(other))], notes


def discounted(model: UMDP) -> UMDP:
    """Return the model, with a discount if it has none."""
    return model if discount_of(model, 1.0) < 1.0 else model.with_discount(DISCOUNT)


def hard_belief(name: str, seconds: float) -> tuple[UMDP, Array] | None:
    """Return a model of a family with some regret, and the belief of the best lower bound that a short solve proves."""
    for seed in range(SEEDS):
        model = discounted(FAMILIES[name][0](seed))
        solution = solve(model, Adaptive(GAP), limits=Limits(seconds=seconds))
        least = float(optimal_values(model).value[model.graph.initial].min())
        if solution.certificate is not None and solution.max_regret.lower > SOME_REGRET * least:
            return model, solution.certificate.belief
    return None


def search_at(model: UMDP, belief: Array, gap: float, seconds: float) -> Record:
    """Search for the least weighted regret at one belief until the gap is small, or for some seconds."""
    trace: list[Bounds] = []
    began = time.process_time()
    for lower, upper in _rounds(model, belief, began + seconds):
        trace.append(Bounds(time.process_time() - began, max(lower, 0.0), upper))
        if trace[-1].gap <= gap or trace[-1].seconds > seconds:
            break
    return Record(tuple(trace))


def agree(one: Record, other: Record) -> bool:
    """Return whether the last intervals overlap."""
    if not one.trace or not other.trace:
        return True
    a, b = one.trace[-1], other.trace[-1]
    return max(a.lower, b.lower) <= (1 + DIGITS) * min(a.upper, b.upper)


def _rounds(model: UMDP, belief: Array, end: float) -> Iterator[tuple[float, float]]:
    """Yield both bounds after each round: of the graph, then of the hull."""
    values = optimal_values(model)
    graph = BeliefGraph.build(model, values, MEMORY, threads=1)
    for policy in _start_policies(model, values):
        graph.add_policy(policy)
    initial = model.graph.initial
    base = float(belief @ (graph.potential[initial] - values.value[initial]))
    graph.out_of_time = lambda: time.process_time() > end
    try:
        for lower, upper in _graph_rounds(graph, belief):
            yield base + lower, base + upper
        graph.drop_nodes()
        hull = Hull.build(graph, model.samples)
        hull.out_of_time = graph.out_of_time
        hull.move(belief)
        while True:
            yield base + hull.lower, base + hull.upper
            if not hull.round():
                return
    except OutOfMemory:
        return


def _start_policies(model: UMDP, values: OptimalValues) -> Iterator[Policy]:
    """Yield the policies of the samples and of the first few methods."""
    methods = 0
    for name, policy in start_policies(model, values, Run(threads=1), START_SECONDS):
        yield policy
        methods += not name.startswith("sample ")
        if methods == METHODS:
            return


def _graph_rounds(graph: BeliefGraph, belief: Array) -> Iterator[tuple[float, float]]:
    """Yield both bounds of the graph until doubling it hardly helps."""
    graph.move(belief)
    many, wide = GRAPH_BELIEFS, math.inf
    while True:
        graph.backup()
        yield graph.lower, graph.upper
        if graph.nodes > many:
            if graph.upper - graph.lower > STILL_WIDE * wide:
                return
            many, wide = 2 * many, graph.upper - graph.lower
        if not graph.expanded:
            return
        graph.expand()


def _cells(record: Record) -> tuple[str, str]:
    """Return when the gap was small enough, and the last gap."""
    seconds = record.seconds_to(GAP)
    return "–" if math.isinf(seconds) else f"{seconds:.2f}", f"{record.gap:.1%}"


def _compile() -> None:
    """Run both the graph and the hull once."""
    model = experts(3, 0)
    belief = np.full(3, 1 / 3)
    solve(model, Adaptive(), limits=Limits(seconds=1.0))
    search_at(model, belief, 0.0, 2.0)
