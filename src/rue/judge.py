"""The judge: exact costs and regrets of any policy, in every sample, with a proved error.

A policy and a sample make a Markov chain on the nodes of the controller. Its expected cost V_k(π) solves v = c + P v on
the nodes that are visited; it is infinite if one of them cannot reach a goal in that sample, which is decided on the
graph. The regret (the paper's Definition 2) is

    reg_k(π) = V_k(π) − V*_k                          at the initial state

The linear systems of all samples are solved together, one strongly connected component of the chain after the other,
successors first: a controller with memory is mostly a tree above small cycles, and a node that is on no cycle needs one
update. The other components are swept (Gauss–Seidel, outward from the goals) until nothing changes any more; where that
takes too long, the component alone is solved directly, by elimination of its nodes if it is small and by sparse
factorisation if not. Components are those of all samples together.

The result is then proved: with h a bound on the number of steps, the error is at most max(|c + Pv − v| / (h − Ph)) · h
over all nodes, computed with rounding errors on the safe side. Components where that is too much are solved directly
too, and the bound is computed again. Every regret that rue reports comes from here. The judge imports no solver and no
kernel of a solver; it shares V* (`rue.values`) with them. A value below the proved least cost is a `Contradiction`.
"""

import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rue import judge_kernels as chain
from rue import risk
from rue import structure_kernels as reach
from rue._arrays import Array, read_only
from rue._check import in_all, index_array, real_number
from rue._linear import solve_chain
from rue._rounding import UNIT_ROUNDOFF
from rue._threads import each
from rue.errors import BadInput, Contradiction, SolverFailed
from rue.guarantees import USUAL_CONFIDENCE, USUAL_PROBABILITY, count_above, exceedance_bound, most_above
from rue.long_run import around_policy, away_from, away_from_best, components
from rue.model import UMDP, check_same_graph
from rue.parts import BLOCK, do_parts, parts_of
from rue.policy import POLICY_FIELDS, Policy, check_policy
from rue.solution import Limits, Run
from rue.table import notebook_samples
from rue.units import PLAIN, Units
from rue.values import optimal_values

# Relative error of the sweeps that is accepted; beyond it a component is solved directly.
GOOD_ERROR = 1e-9
# Components of at most this many nodes are eliminated, as a full matrix; larger ones are factorised.
DENSE = 256
SMALL = 1000  # chains of fewer nodes are solved before a thread has started
PER_SAMPLE = ("value", "error", "away")  # of a `PolicyCost`

T = TypeVar("T")


class _OutOfTime(Exception):
    """A limit came first, or Ctrl-C."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A policy's expected cost and regret in each sample; infinite where it may miss the goal.

    >>> model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    >>> verdict = rue.evaluate(model, rue.solve(model, rue.Average()).policy)
    >>> round(verdict.max_regret, 3), round(verdict.mean_regret, 3), round(verdict.tail(0.4), 3)
    (0.028, 0.015, 0.024)
    >>> bool(np.all(abs(verdict.value - verdict.optimal - verdict.regret) < 1e-9))
    True
    """

    value: Array  # [K] expected cost of the policy, or reward (see `UMDP.units`)
    optimal: Array  # [K] the best of any policy that knows the sample
    regret: Array  # [K]
    error: float  # no finite number here is further than this from the truth
    at_most: float  # proved: no regret is above this
    complete: bool  # False if a limit came first: what was not judged is infinite, and so is the error
    weight: Array  # [K] the probability of each sample
    judged: Array  # [K] which samples were judged; of the others nothing is known
    average_error: Array  # [K] no figure is further than this from the long-run average; 0 unless it is of averages

    @property
    def max_regret(self) -> float:
        """The worst regret over all samples."""
        return float(self.regret.max())

    @property
    def mean_regret(self) -> float:
        """The mean regret over all samples, by their weights."""
        return risk.mean(self.regret, self.weight)

    def tail(self, alpha: float) -> float:
        """Return the mean regret over the worst part `alpha` of the probability: 1 is the mean, near 0 the maximum."""
        return risk.tail_mean(self.regret, self.weight, risk.check_tail(alpha))

    def quantile(self, level: float) -> float:
        """Return the least r such that the samples with a regret up to r have a probability of `level` or more."""
        return risk.quantile(self.regret, self.weight, risk.check_level(level))

    @property
    def worst_sample(self) -> int:
        """The sample with the worst regret."""
        return int(self.regret.argmax())

    def in_figures(self, units: Units) -> "Evaluation":
        """Return the same with values in the figures that the model was made of."""
        if units == PLAIN:
            return self
        value, optimal = (read_only(units.figure(cost)) for cost in (self.value, self.optimal))
        largest = float(self.value.max(initial=0.0, where=np.isfinite(self.value)))
        rounding = 4 * UNIT_ROUNDOFF * (units.offset + largest)
        away = read_only(self.average_error + rounding * units.average)
        return replace(self, value=value, optimal=optimal, error=self.error + rounding, average_error=away)

    @property
    def value_of_knowing(self) -> Array:  # [K]
        """What it is worth to know whether a sample is the true one, for this policy: weight × regret.

        If it is, its optimal policy is better by the regret; if not, this policy stays. So the knowledge is worth at
        least that much. The sum, `mean_regret`, is the value of perfect information.
        """
        return np.asarray(np.multiply(self.weight, self.regret, out=np.zeros(self.regret.size), where=self.weight > 0))

    def exceedance(self, confidence: float = USUAL_CONFIDENCE, level: float | None = None) -> float:
        """Return a bound on the probability that a fresh sample has more regret than `level`, or than all samples here.

        It holds with probability `confidence` over the N samples here: the limit of Clopper and Pearson, which is
        1 − δ^{1/N} for their maximum. This is true only if they are independent draws from where the fresh sample comes
        from too, had no part in making the policy, and did not choose the level. Weights do not count here.
        """
        if level is None:
            return exceedance_bound(samples=self.regret.size, above=0, confidence=confidence)
        above = count_above(self.regret, real_number("level", level, "0 or more", 0))
        return exceedance_bound(samples=self.regret.size, above=above, confidence=confidence)

    def level(self, probability: float = USUAL_PROBABILITY, confidence: float = USUAL_CONFIDENCE) -> float:
        """Return the least r for which a fresh sample is known to have more regret with at most this probability.

        It is one of the regrets here, and infinite if the samples are too few, or too many of them infinite. It holds
        with probability `confidence` over the samples here, under the same conditions as `exceedance`.
        """
        above = most_above(samples=self.regret.size, probability=probability, confidence=confidence)
        return float("inf") if above is None else float(np.sort(self.regret)[-1 - above])

    def subset(self, samples: ArrayLike) -> "Evaluation":
        """Return the same of some samples alone, whose weights are divided by their sum."""
        index = index_array("sample", samples, self.regret.size)
        if index.size == 0:
            raise BadInput("the subset has no samples; expected at least one")
        arrays = {
            name: getattr(self, name)[index] for name in ("value", "optimal", "regret", "judged", "average_error")
        }
        weight, total = self.weight[index], float(self.weight[index].sum())
        share = weight / total if total > 0 else np.full(weight.size, 1 / weight.size)
        return replace(self, **arrays, weight=share)

    def _repr_html_(self) -> str:
        """Return the evaluation as notebooks show it: figures of the samples, the largest regrets first."""
        title = f"max regret {self.max_regret:.5g} in sample {self.worst_sample}, mean {self.mean_regret:.5g}"
        figures = {name: getattr(self, name).tolist() for name in ("value", "optimal", "regret")}
        return notebook_samples(title, figures)

    def __repr__(self) -> str:
        return (
            f"Evaluation(max regret {self.max_regret:.6g} in sample {self.worst_sample}, "
            f"mean {self.mean_regret:.6g}, {self.value.size} samples, error {self.error:.1e})"
        )


@dataclass(frozen=True, eq=False)
class LeastCost:
    """Proved bounds on V*_k at the initial state, where no sample has a dead end."""

    lower: Array  # [K]
    upper: Array  # [K] infinite where nothing could be proved
    complete: bool  # False if a limit came first
    away: Array  # [K] from the best average in the long run, of models of averages, at most; 0 of others

    @property
    def value(self) -> Array:  # [K]
        """The middle of the interval; its lower end where there is no upper one."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(self.upper), self.lower, 0.5 * (self.lower + self.upper))


@dataclass(frozen=True, eq=False)
class PolicyCost:
    """V_k(π) of all samples and a bound on the error of each."""

    value: Array  # [K] infinite where the policy may miss the goal, or nothing is known
    error: Array  # [K] infinite where nothing is known
    complete: bool  # False if a limit came first
    away: Array  # [K] from the average in the long run, of models of averages, at most; 0 of others


def judge(model: UMDP, policy: Policy, run: Run) -> Evaluation:
    """Evaluate a policy within a run, whose cache keeps the last verdict."""
    return last_verdict(model, policy, run, lambda: _judge(model, policy, run))


def last_verdict(about: object, policy: Policy, run: Run, compute: Callable[[], Evaluation]) -> Evaluation:
    """Return the verdict on a policy that the cache of the run has for a model, or compute it and keep it there."""
    last: list[tuple[Policy, Evaluation]] = run.cache.remember(about, "last verdict", list)
    for judged, verdict in tuple(last):
        if judged is policy:
            return verdict
    verdict = compute()
    if verdict.complete:
        last[:] = [(policy, verdict)]
    return verdict


def _judge(model: UMDP, policy: Policy, run: Run) -> Evaluation:
    least = least_cost(model, run)
    return verdict_of(policy_cost(model, policy, run), least, model.weight, model.sample_name)


def least_cost(model: UMDP, run: Run) -> LeastCost:
    """Return the optimal values at the initial state."""
    values, initial = optimal_values(model, run=run), model.graph.initial
    away = away_from_best(model, values) if model.units.average else np.zeros(model.samples)
    return LeastCost(values.lower[initial], values.upper[initial], values.complete, away)


def verdict_of(cost: PolicyCost, least: LeastCost, weight: Array, name: Callable[[int], str]) -> Evaluation:
    """Return the regrets of a policy from its costs and the least ones; `name` tells the name of a sample."""
    value, lower, optimal = cost.value, least.lower, least.value
    wrong = np.flatnonzero(np.isfinite(value) & (value + cost.error < lower))
    if wrong.size:  # the judge is wrong, or V* is
        k = int(wrong[0])
        raise Contradiction(
            f"the judge finds a cost of {float(value[k])!r} ± {float(cost.error[k]):.1e} in sample "
            f"{name(k)}, where no policy costs less than {float(lower[k])!r}; {in_all(wrong.size, 'sample', 'so')}"
        )
    regret = np.maximum(value - optimal, 0.0)
    judged = np.isfinite(cost.error) & np.isfinite(least.upper)
    away = cost.away + least.away
    for array in (value, optimal, regret, judged, away):
        read_only(array)
    error = float(cost.error.max()) + float(np.maximum(least.upper - optimal, optimal - lower).max())
    # The last term is more than what rounding takes from the others.
    most = float((value + cost.error - lower + 4 * UNIT_ROUNDOFF * value).max())
    complete = least.complete and cost.complete
    return Evaluation(value, optimal, regret, error, max(most, 0.0), complete, weight, judged, away)


def is_proper(model: UMDP, policy: Policy) -> Array:  # [K]
    """Return in which samples a policy reaches a goal with probability one: on the graph, exactly."""
    rows = _Chain.build(model, policy)
    return np.concatenate([rows.proper_nodes(first)[1] for first in range(0, model.samples, BLOCK)])


def ends_from(model: UMDP, policy: Policy) -> Array:  # [N, K]
    """Return from which nodes of a controller a goal is reached with probability one, in each sample, exactly."""
    rows = _Chain.build(model, policy, everywhere=True)
    ends = np.ones((policy.nodes, model.samples), bool)
    for first in range(0, model.samples, BLOCK):
        found = rows.reach_goals(first)[1]
        ends[rows.outcomes.node, first : first + found.shape[1]] = found
    return ends


def node_values(model: UMDP, policy: Policy, run: Run | None = None) -> tuple[Array, Array]:  # [N, K], [N, K]
    """Return the expected cost from every node of a controller in each sample, and a bound on the error of each.

    Infinite, with no error, where the policy may miss the goal from that node in that sample. Both are infinite where
    no bound can be computed in floating point, and in samples for which the run has no time.
    """
    rows, run = _Chain.build(model, policy, everywhere=True), run or Run(threads=1)
    value, error = np.zeros((policy.nodes, model.samples)), np.zeros((policy.nodes, model.samples))
    value[rows.outcomes.node] = error[rows.outcomes.node] = np.inf

    def work(first: int) -> None:
        ends = rows.reach_goals(first)[1]
        columns = slice(first, first + ends.shape[1])
        with suppress(_OutOfTime):
            found, found_error = _solve_nodes(rows, rows.load(first, ends), rows.live(first), run)
            value[rows.outcomes.node, columns] = np.where(ends & np.isfinite(found_error), found, np.inf)
            error[rows.outcomes.node, columns] = np.where(ends, found_error, 0.0)

    _each_block(work, rows, slice(0, model.samples), run.threads)
    return value, error


def visited_nodes(model: UMDP, policy: Policy) -> Array:
    """Return the nodes that can be visited in some sample, nearest to a goal first, goals left out."""
    return _explore(policy, _controller(model, policy), model.ever_live, policy.start_node)


def policy_cost(model: UMDP, policy: Policy, run: Run) -> PolicyCost:
    """Return V_k(π) of all samples, a bound on the error of each, and whether there was time for all of them.

    A policy may be proper and yet take so long that no bound on its cost can be computed in floating point: then the
    cost is given as infinite, and so is the error. The same where time ran out.
    """
    if run.executor is not None and len(parts_of(model)) > 1:
        return _cost_elsewhere(model, policy, run)
    if run.out_of_time():
        unknown = np.full(model.samples, np.inf)
        return PolicyCost(unknown, unknown, False, unknown)
    return _cost_of(_Chain.build(model, policy), slice(0, model.samples), run)


def _cost_of(rows: "_Chain", samples: slice, run: Run) -> PolicyCost:
    """Return the costs of some samples, whole blocks of them."""
    left_out = []

    def work(first: int) -> tuple[Array, Array, Array]:
        try:
            if run.out_of_time():
                raise _OutOfTime
            counted, proper = rows.proper_nodes(first)
            system = rows.load(first, counted)
            value, epsilon, weight = _solve(rows, system, run)
        except _OutOfTime:
            left_out.append(first)
            unknown = np.full(min(BLOCK, samples.stop - first), np.inf)
            return unknown, unknown, unknown
        known = np.isfinite(epsilon)
        value, epsilon, weight = (np.where(known, array, 0.0) for array in (value, epsilon, weight))
        error, found = epsilon * rows.at_start(weight), rows.at_start(value)
        error[proper & ~known] = np.inf
        away = np.zeros(found.size)
        if rows.model.units.average:
            around = around_policy(rows.part_ptr, system, value, epsilon * weight)
            away = np.where(known, away_from(found, rows.at_start(around.low), rows.at_start(around.high)), np.inf)
        return np.where(proper & known, found, np.inf), error, away

    parts = _each_block(work, rows, samples, run.threads)
    value, error, away = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return PolicyCost(value, error, not left_out, away)


def _cost_elsewhere(model: UMDP, policy: Policy, run: Run) -> PolicyCost:
    """Have the executor of the run judge all parts; what it does not judge is judged here."""
    check_same_graph(model, check_policy(policy).graph)
    fields = (uuid.uuid4().hex, *(getattr(policy, name) for name in POLICY_FIELDS))  # with a key for them
    parts, found = parts_of(model), dict[int, PolicyCost]()
    do_parts(model, parts, _cost_of_part, fields, lambda part, cost: found.update({part.start: cost}), run)
    left = [part for part in parts if part.start not in found]
    if left:
        rows = _Chain.build(model, policy)
        found |= {part.start: _cost_of(rows, part, run) for part in left}
    costs = [found[part.start] for part in parts]
    value, error, away = (np.concatenate([getattr(cost, name) for cost in costs]) for name in PER_SAMPLE)
    return PolicyCost(value, error, all(cost.complete for cost in costs), away)


def _cost_of_part(model: UMDP, samples: slice, seconds: float, key: str, *fields: Array) -> PolicyCost:
    """Judge a policy in some samples: what a worker does. It keeps the chain for its next task."""
    last: dict[str, _Chain] = model.remember("last chain", dict)
    rows = last.get(key) or _Chain.build(model, Policy(model.graph, *fields))
    last.clear()
    last[key] = rows
    return _cost_of(rows, samples, Run(Limits(seconds), threads=1))


def _each_block(work: Callable[[int], T], rows: "_Chain", samples: slice, threads: int) -> list[T]:
    """Call `work` with the first sample of each block, in threads if the chain is long; return the results in order."""
    return each(work, range(samples.start, samples.stop, BLOCK), threads if rows.outcomes.node.size >= SMALL else 1)


@dataclass(frozen=True, eq=False)
class _Chain:
    """The visited part of a controller, as rows that serve every sample, by strongly connected components."""

    model: UMDP
    policy: Policy
    start: Array  # the row of each start node; goals share the row after the last
    controller: chain.Controller
    outcomes: chain.Outcomes
    part_ptr: Array  # where each component begins; it leads only to itself, to earlier ones and to goals

    @classmethod
    def build(cls, model: UMDP, policy: Policy, everywhere: bool = False) -> "_Chain":
        """Return the chain of the nodes that are visited from the start of the policy, or of all nodes."""
        controller, live = _controller(model, policy), model.ever_live
        start = read_only(np.arange(policy.nodes, dtype=np.int32)) if everywhere else policy.start_node
        order = _explore(policy, controller, live, start)
        outcomes, _ = _outcomes_of(controller, live, order)
        sequence, part_ptr = components(outcomes.row_ptr, outcomes.target)
        outcomes, place = _outcomes_of(controller, live, order[sequence])
        return cls(model, policy, read_only(place[start]), controller, outcomes, part_ptr)

    @cached_property
    def backward(self) -> reach.Edges:
        """The outcomes by their target; that of goals is the last."""
        return _backward(self.outcomes, self.outcomes.node.size + 1)

    @cached_property
    def surely(self) -> bool:
        """Whether every node reaches a goal by transitions that are positive in all samples."""
        return bool(self.reaching_goal(self.model.always_live[self.outcomes.transition]).all())

    def live(self, first: int) -> Array:  # [outcomes, k]
        """Return which outcomes are possible in each sample of a block.

        The model's own probabilities decide, as their products may be too small to be told from zero.
        """
        return np.ascontiguousarray(self.model.prob[self.outcomes.transition, first : first + BLOCK] > 0)

    def reaching_goal(self, live: Array) -> Array:  # [N+1]
        """Return which nodes can reach a goal by live outcomes."""
        goal = read_only(np.array([self.outcomes.node.size], np.int32))
        return _reached(self.backward, live, goal)

    def reach_goals(self, first: int) -> tuple[Array, Array]:  # [N, k], [N, k]
        """Return which nodes are visited in each sample of a block, and from which ones a goal is reached surely.

        If all surely reach one in all samples, all are taken as visited.
        """
        nodes, samples = self.outcomes.node.size, min(BLOCK, self.model.samples - first)
        visited, ends = np.ones((nodes + 1, samples), bool), np.ones((nodes + 1, samples), bool)
        if not self.surely:
            forward = _edges(np.append(self.outcomes.row_ptr, self.outcomes.target.size), self.outcomes.target)
            for k, live in enumerate(np.ascontiguousarray(self.live(first).T)):
                visited[:, k] = _reached(forward, live, self.start)
                stuck = read_only(np.flatnonzero(~self.reaching_goal(live)).astype(np.int32))
                ends[:, k] = ~_reached(self.backward, live, stuck)
        return visited[:-1], ends[:-1]

    def proper_nodes(self, first: int) -> tuple[Array, Array]:  # [N, k], [k]
        """Return the visited nodes of a block of samples, none where the policy is improper, and where it is proper."""
        visited, ends = self.reach_goals(first)
        proper = np.asarray((ends | ~visited).all(axis=0))
        return visited & proper, proper

    def load(self, first: int, counted: Array) -> chain.System:
        """Return the equations of a block of samples, all zero at nodes that do not count in a sample."""
        model, outcomes = self.model, self.outcomes
        prob, cost = np.empty((outcomes.target.size, counted.shape[1])), np.empty(counted.shape)
        chain.load(outcomes, self.controller, model.prob, model.cost, first, prob, cost)
        if not counted.all():
            prob[~counted[outcomes.source]] = 0.0
            cost[~counted] = 0.0
        return chain.System(outcomes.row_ptr, outcomes.target, prob, cost)

    def at_start(self, node_value: Array) -> Array:  # [k]
        """Return the mean of the values of the start nodes."""
        return np.asarray(self.policy.start_weight @ node_value[self.start])


def _controller(model: UMDP, policy: Policy) -> chain.Controller:
    check_same_graph(model, check_policy(policy).graph)
    return chain.Controller(
        policy.entry_ptr, policy.choice, policy.weight, policy.next_ptr, policy.next_node, model.graph.trans_ptr
    )


def _explore(policy: Policy, controller: chain.Controller, live: Array, start: Array) -> Array:
    """Return the nodes that can be visited, nearest to a goal first, goals left out; then those that reach none."""
    everything, _ = _outcomes_of(controller, live, np.arange(policy.nodes, dtype=np.int32))
    edges = _edges(everything.row_ptr, everything.target)
    visited = reach.breadth_first(edges, np.ones(everything.target.size, bool), start)
    outcomes, _ = _outcomes_of(controller, live, visited)
    goals = read_only(np.flatnonzero(policy.graph.goal[policy.node_state[visited]]).astype(np.int32))
    backward = _backward(outcomes, visited.size)
    outward = reach.breadth_first(backward, np.ones(outcomes.target.size, bool), goals)
    rest = np.ones(visited.size, bool)
    rest[outward] = False
    return np.concatenate([visited[outward[goals.size :]], visited[rest]])


def _outcomes_of(controller: chain.Controller, live: Array, order: Array) -> tuple[chain.Outcomes, Array]:
    """Return where nodes lead by live transitions, and the row of each node; those not in `order` share the last."""
    place, *fields = chain.outcomes_of(controller, live, order)
    return chain.Outcomes(order, *fields), place


def _edges(row_ptr: Array, target: Array) -> reach.Edges:
    every = np.arange(target.size, dtype=np.int32)
    return reach.Edges(read_only(row_ptr.view()), read_only(every), read_only(target.view()))


def _backward(outcomes: chain.Outcomes, nodes: int) -> reach.Edges:
    ptr, edge = reach.predecessors(read_only(outcomes.target.view()), nodes)
    return reach.Edges(read_only(ptr), read_only(edge), read_only(outcomes.source.view()))


def _reached(edges: reach.Edges, live: Array, start: Array) -> Array:
    """Return which nodes live edges reach."""
    seen = np.zeros(edges.ptr.size - 1, bool)
    seen[reach.breadth_first(edges, live, start)] = True
    return seen


def _solve(rows: _Chain, system: chain.System, run: Run) -> tuple[Array, Array, Array]:
    """Return values, ε and weights such that the true values lie within value ± ε·weight."""
    guess = _Guess.by_sweeps(rows, system, run)
    epsilon = guess.ratio().max(axis=0)
    if guess.improve(epsilon * guess.weight.max(axis=0)):
        epsilon = guess.ratio().max(axis=0)
    return guess.value, epsilon, guess.weight


def _solve_nodes(rows: _Chain, system: chain.System, live: Array, run: Run) -> tuple[Array, Array]:
    """Return the value of each node and a bound on its error.

    The nodes that can be visited from a node are a chain of their own, so that only their ratios count.
    """
    guess = _Guess.by_sweeps(rows, system, run)

    def prove() -> Array:
        ratio = guess.ratio()
        chain.largest_ahead(rows.part_ptr, system.row_ptr, system.target, live, ratio)
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(ratio), ratio * guess.weight, np.inf)[:-1]

    error = prove()
    swept = guess.value[:-1].copy()
    if not guess.improve(error.max(axis=0, initial=0.0)):
        return swept, error
    # Nodes that reach a goal soon may be known from the sweeps, where others spoil the factors.
    better_error = prove()
    better = better_error < error
    return np.where(better, guess.value[:-1], swept), np.where(better, better_error, error)


@dataclass(frozen=True, eq=False)
class _Guess:
    """Values and expected steps of all nodes in a block of samples, to be proved; both are zero at the goals."""

    system: chain.System
    part_ptr: Array
    run: Run
    value: Array  # [N+1, k]
    weight: Array  # [N+1, k]
    direct: Array  # [components, k] which were not swept but solved directly

    @classmethod
    def by_sweeps(cls, rows: _Chain, system: chain.System, run: Run) -> "_Guess":
        """Return what sweeps find, and direct solutions where they are slow; `_OutOfTime` if that takes too long."""
        nodes, samples = system.cost.shape
        value, weight = np.zeros((nodes + 1, samples)), np.zeros((nodes + 1, samples))
        direct = np.zeros((rows.part_ptr.size - 1, samples), bool)
        guess = cls(system, rows.part_ptr, run, value, weight, direct)
        guess._solve_from(0)
        return guess

    def ratio(self) -> Array:  # [N+1, k]
        """Return the r/d of each node (see `chain.error_ratio`), the largest of which bounds the error; 0 at goals."""
        ratio = np.zeros_like(self.value)
        chain.error_ratio(self.system, self.value, self.weight, ratio)
        return ratio

    def improve(self, error: Array) -> bool:
        """Solve directly what makes the errors of some samples too large; return whether there was anything."""
        highest, longest = self.value.max(axis=0), self.weight.max(axis=0)
        loose = ~(error <= GOOD_ERROR * highest)
        if not loose.any():
            return False
        limit = np.full(loose.shape, np.inf)
        limit[loose] = GOOD_ERROR * highest[loose] / np.maximum(longest[loose], 1.0)
        # A component of one node is as exact as can be.
        worst = np.maximum.reduceat(self.ratio(), self.part_ptr[:-1], axis=0)
        fresh = (worst > limit) & ~self.direct & (np.diff(self.part_ptr) > 1)[:, None]
        if not fresh.any():
            return False
        self.direct[fresh] = True
        self._solve_from(int(fresh.any(axis=1).argmax()))
        return True

    def _solve_from(self, part: int) -> None:
        """Solve the components from one on; those before it, which it leads to, are solved."""
        part_ptr, swept = self.part_ptr, 0
        while part < part_ptr.size - 1:
            part, swept = chain.solve_components(
                part_ptr, part, swept, self.system, self.value, self.weight, DENSE, self.direct
            )
            if swept < 0:
                for k in np.flatnonzero(self.direct[part]):
                    if self.run.out_of_time():
                        raise _OutOfTime
                    self._factorise(int(part_ptr[part]), int(part_ptr[part + 1]), int(k))
                part, swept = part + 1, 0
            elif part < part_ptr.size - 1 and self.run.out_of_time():
                raise _OutOfTime

    def _factorise(self, begin: int, end: int, k: int) -> None:
        """Compute values and steps of a component in one sample by a sparse factorisation of I − P."""
        system, size = self.system, end - begin
        outcomes = slice(system.row_ptr[begin], system.row_ptr[end])
        row = np.repeat(np.arange(size), np.diff(system.row_ptr[begin : end + 1]))
        target, prob = system.target[outcomes], system.prob[outcomes, k]
        inside = (target >= begin) & (target < end)
        leaves = ~inside & (prob > 0)

        def ahead(held: Array) -> Array:
            return np.bincount(row[leaves], prob[leaves] * held[target[leaves], k], size)

        right = np.column_stack([system.cost[begin:end, k] + ahead(self.value), 1.0 + ahead(self.weight)])
        if not np.isfinite(right).all():  # nothing will be proved
            return
        with suppress(SolverFailed):  # it takes so long that the factors are singular in floating point
            solved = solve_chain(row, np.where(inside, target - begin, size), prob, right)
            self.value[begin:end, k], self.weight[begin:end, k] = solved.T
