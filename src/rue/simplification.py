"""Smaller policies: `simplify`, and `frontier`, the price of simplicity.

A controller with thousands of nodes is hard to read, and often a hundred would do. What may be lost is given as a
part of the max regret of the given policy π, by the judge:

    max regret of the result  ≤  (1 + loss) · max regret of π  +  floor,

with `floor` a billionth of the largest V*_k or of a typical cost, which is no more than rounding. Where a tail is
given, the mean regret of the worst part of the probability takes the place of the max regret.

*Down.* Nodes that do the same are merged (`controllers.merged`), which changes nothing. Then nodes are removed, the
cheapest first, many at a time, and what is left is improved (`shrinking/removal.py`, `shrinking/improvement.py`). Often
this makes up for what the removed nodes were worth. *Up.* Where a number of nodes is asked for, a stationary policy is
improved as well, and gets more nodes where they gain most (`shrinking/growth.py`). The better one is returned.

*What is guaranteed.* Every result is judged, and one that is worse than allowed is not returned, but the last one
before it, in the end the given policy itself. Nothing says that no smaller controller exists.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rue._arrays import Array, members
from rue._check import real_number, whole_number
from rue.compilation import compile_for_controllers
from rue.controllers import merged, part_of
from rue.errors import BadInput, SolverFailed
from rue.judge import Evaluation, judge, least_cost
from rue.model import UMDP, check_model, check_same_graph, typical_cost
from rue.policy import Policy, check_policy
from rue.recursion.objectives import Regret
from rue.risk import caps_of, check_tail
from rue.shrinking.chains import Chain, Measure, controller
from rue.shrinking.growth import growing
from rue.shrinking.improvement import improved
from rue.shrinking.removal import shrinking, shrinking_to, shrinking_twice
from rue.solution import Cache, Hook, Inner, Interval, Limits, Run, check_cache, check_limits
from rue.stationary.search import ExactStationary

# Differences up to this part of the largest V*, or of a typical cost, are no more than rounding.
FLOOR = 1e-9
# How far below what is allowed an estimate has to be, as a part of it: the judge differs in the last digits.
SAFE = 1e-9
# All points of a frontier, and those that have a curve of their own.
KINDS = ("", "is_deterministic", "is_stationary")
# How often the last controller is improved.
LAST_ROUNDS = 30
# The nodes of controllers that grow to a frontier: this multiple of the visited states.
MOST_GROWN = 3
# What grows, and the best stationary deterministic policy of a frontier.
SIMPLE, STATIONARY = Regret(options="stochastic"), ExactStationary()
# For `STATIONARY`: its part of the time left, and its nodes of branch and bound.
STATIONARY_PART, STATIONARY_NODES = 0.2, 2000


def simplify(
    model: UMDP,
    policy: Policy,
    nodes: int | None = None,
    loss: float | None = None,
    *,
    tail: float | None = None,
    limits: Limits | None = None,
    progress: Hook | None = None,
    cache: Cache | None = None,
) -> Policy:
    """Return a smaller policy: within a `loss`, or with at most `nodes` nodes and the least regret found.

    With `loss=0.02` it is the smallest controller found whose max regret, by the judge, is at most 1.02 times that of
    the policy, and what rounding adds. With `nodes=20` it is the best one found with at most 20 nodes. With both it is
    within the loss, and has more nodes if that takes more. `tail` α counts the mean regret over the worst part α of the
    samples' probability instead of the max regret.

    A limit, or Ctrl-C, ends the search with the smallest controller so far: with `nodes` alone it may have more nodes.
    So may it if none was found: a state that every policy may visit needs a node. A policy with infinite regret is
    merged only. The result depends on the arguments alone, unless there is a limit of seconds.

    >>> model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    >>> best = rue.solve(model, rue.Adaptive(gap=0.01)).policy
    >>> small = rue.simplify(model, best, loss=0.1)
    >>> small.nodes < best.nodes
    True
    >>> rue.evaluate(model, small).max_regret <= 1.1001 * rue.evaluate(model, best).max_regret
    True
    """
    if nodes is None and loss is None:
        raise BadInput("neither nodes nor loss is given; expected nodes=20, loss=0.02 or both")
    nodes = None if nodes is None else whole_number("nodes", nodes, 1)
    loss = None if loss is None else real_number("loss", loss, "0 or more, such as 0.02 for 2 %", 0)
    run = _begin(model, policy, tail, limits, progress, cache)
    with run.catching_interrupts():
        return shrunk(model, policy, measure_of(model, run, tail), run, nodes, loss)


def _begin(
    model: UMDP, policy: Policy, tail: float | None, limits: Limits | None, progress: Hook | None, cache: Cache | None
) -> Run:
    """Check the arguments, compile, and start the clock."""
    check_same_graph(check_model(model), check_policy(policy).graph)
    if tail is not None:
        check_tail(tail)
    limits, cache = check_limits(limits), check_cache(cache)
    compile_for_controllers((SIMPLE, STATIONARY))
    return Run(limits, progress, cache)


def measure_of(model: UMDP, run: Run, tail: float | None = None, objective: str = "regret") -> Measure:
    """Return what is to be small: the max regret or its tail, or the same of the cost."""
    least = least_cost(model, run.afterwards()).value
    floor = FLOOR * max(typical_cost(model), float(least.max(initial=0.0, where=np.isfinite(least))))
    return Measure(least if objective == "regret" else np.zeros(model.samples), caps_of(model.weight, tail), floor)


def shrunk(
    model: UMDP, policy: Policy, measure: Measure, run: Run, nodes: int | None = None, loss: float | None = None
) -> Policy:
    """Return a smaller policy, within a run."""
    figure = _judged(model, policy, measure, run)
    found = merged(policy)
    least = 1 if nodes is None else nodes
    if not math.isfinite(figure) or found.nodes <= least:
        return found
    chain = Chain.of(model, found, measure)
    if chain is None:
        return found
    if loss is None:
        return _with_few(model, chain, measure, least, run)
    allowed = (1 + loss) * figure + measure.floor
    known = [found, *_told(shrinking_twice(chain, (1 - SAFE) * allowed, least, run), run)]
    return _last_within(model, known, measure, allowed, run)


def _told(way: Iterable[Chain], run: Run) -> Iterator[Policy]:
    """Yield the controllers on a way, and report them."""
    for chain in way:
        run.report(f"simplify: {chain.policy.nodes} nodes", Interval(0.0, max(chain.figure, 0.0)))
        yield chain.policy


def _with_few(model: UMDP, chain: Chain, measure: Measure, nodes: int, run: Run) -> Policy:
    """Return the best policy found with at most `nodes` nodes; the smallest one if all have more.

    A short search downwards comes first, so that one is found soon.
    """
    ways: tuple[Callable[[], Iterable[Chain]], ...] = (
        lambda: shrinking(chain, math.inf, nodes, run),
        lambda: shrinking_to(chain, chain.figure, nodes, run),
        lambda: _grown(model, measure, nodes, run),
    )
    ends = [list(_told(_polished(way(), run), run)) for way in ways if not run.stop()]
    found = [chain.policy, *(end[-1] for end in ends if end)]
    figures = [_judged(model, one, measure, run) for one in found]
    least = min(one.nodes for one in found)
    fitting = [i for i, one in enumerate(found) if one.nodes <= max(nodes, least)]
    return found[min(fitting, key=lambda i: figures[i])]


def _polished(way: Iterable[Chain], run: Run) -> Iterator[Chain]:
    """Yield the controllers on a way, and in the end the last one improved as far as it goes."""
    last = None
    for last in way:
        yield last
    if last is not None:
        yield improved(last, 0.0, LAST_ROUNDS, run)


def _last_within(model: UMDP, known: Sequence[Policy], measure: Measure, allowed: float, run: Run) -> Policy:
    """Return the last of the policies that the judge finds to be within what is allowed; the first one is."""
    for policy in reversed(known[1:]):
        if _judged(model, policy, measure, run) <= allowed:
            return policy
    return known[0]


def _judged(model: UMDP, policy: Policy, measure: Measure, run: Run) -> float:
    """Return the figure of a policy by the judge; infinite if there was no time for it."""
    try:
        return _figure(judge(model, policy, run.afterwards()), measure)
    except SolverFailed:  # it almost never ends
        return math.inf


def _figure(verdict: Evaluation, measure: Measure) -> float:
    return measure.of(np.maximum(verdict.value, measure.offset))


def _grown(model: UMDP, measure: Measure, most: int, run: Run) -> Iterable[Chain]:
    """Return controllers that grow from a stationary policy to `most` nodes."""
    start = merged(SIMPLE.run(model, Inner(outer=run)).policy)
    chain = Chain.of(model, start, measure)
    return () if chain is None else growing(chain, 0.0, most, run)


@dataclass(frozen=True, eq=False)
class FrontierPoint:
    """A policy on the curve from few nodes to many: of its kind, no smaller one that was found has less regret."""

    nodes: int
    max_regret: float  # by the judge; of a tail if one was asked for
    policy: Policy

    @property
    def is_stationary(self) -> bool:
        """Whether the state alone decides."""
        return self.policy.is_stationary

    @property
    def is_deterministic(self) -> bool:
        """Whether nothing is drawn at random."""
        return self.policy.is_deterministic


def frontier(
    model: UMDP,
    policy: Policy,
    *,
    tail: float | None = None,
    limits: Limits | None = None,
    progress: Hook | None = None,
    cache: Cache | None = None,
) -> tuple[FrontierPoint, ...]:
    """Return the price of simplicity: policies from one node for each state to all nodes of this one, by their size.

    Besides this one and those with less regret than all smaller ones, it has the same of the deterministic policies
    alone and of the stationary ones alone, which are the ends of the curve. `tail` is as in `simplify`. A limit, or
    Ctrl-C, ends the search with what was found.

    >>> model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    >>> points = rue.frontier(model, rue.solve(model, rue.Adaptive(gap=0.01)).policy)
    >>> points[0].nodes < points[-1].nodes, points[0].max_regret >= points[-1].max_regret
    (True, True)
    """
    run = _begin(model, policy, tail, limits, progress, cache)
    with run.catching_interrupts():
        measure = measure_of(model, run, tail)
        found = [merged(policy)]
        if math.isfinite(_judged(model, policy, measure, run)):
            found += _along(model, found[0], measure, run)
        points = [FrontierPoint(one.nodes, _judged(model, one, measure, run), one) for one in found]
    points = [point for point in points if math.isfinite(point.max_regret)] or points[:1]
    kinds = [[point for point in points if not kind or getattr(point, kind)] for kind in KINDS]
    best = {id(point): point for point in (points[0], *(one for kind in kinds for one in undominated(kind)))}
    return tuple(sorted(best.values(), key=lambda point: (point.nodes, point.max_regret)))


def _along(model: UMDP, policy: Policy, measure: Measure, run: Run) -> list[Policy]:
    """Return smaller policies of all sizes, and each without its randomness."""
    found: list[Policy] = []
    chain = Chain.of(model, policy, measure)
    states = int(np.unique(policy.node_state).size)
    if chain is not None:
        found += _told(shrinking(chain, math.inf, 1, run), run)
        found += _told(shrinking_to(chain, chain.figure, 1, run), run)
    found += _told(_grown(model, measure, MOST_GROWN * states, run), run)
    within = Limits(seconds=STATIONARY_PART * run.seconds_left, iterations=STATIONARY_NODES)
    found.append(merged(STATIONARY.run(model, Inner(limits=within, outer=run)).policy))
    return [*found, *(_without_chance(one) for one in found if not one.is_deterministic)]


def _without_chance(policy: Policy) -> Policy:
    """Return the policy that does what is most likely at each node, from the most likely start."""
    state, count, choice, weight, following = part_of(policy)
    node = np.repeat(np.arange(policy.nodes), count)
    acting = np.flatnonzero(count)
    best = np.lexsort((-weight, node))[policy.entry_ptr[acting]]
    after = following[members(policy.next_ptr, best)]
    start: Array = np.zeros(policy.nodes)
    start[policy.start_node[policy.start_weight.argmax()]] = 1.0
    part = (state, np.minimum(count, 1), choice[best], np.ones(best.size), after)
    return merged(controller(policy.graph, part, start))


def undominated(points: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """Return the points that have less regret than all others with as few nodes or fewer, the smallest first."""
    kept: list[FrontierPoint] = []
    for point in sorted(points, key=lambda point: (point.nodes, point.max_regret)):
        if not kept or point.max_regret < kept[-1].max_regret:
            kept.append(point)
    return kept
