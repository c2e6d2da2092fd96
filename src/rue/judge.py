"""The judge: exact costs and regrets of any policy, in every sample, with a proved error.

A policy and a sample make a Markov chain on the nodes of the controller. Its expected cost V_k(π) solves
v = c + P v on the nodes that are visited; it is infinite if one of them cannot reach a goal in that sample, which
is decided on the graph. The regret (the paper's Definition 2) is

    reg_k(π) = V_k(π) − V*_k                          at the initial state

The linear systems of all samples are solved together, one strongly connected component of the chain after the other,
what follows first: a controller with memory is mostly a tree above small cycles, and a node that is on no cycle needs
one update. The other components are swept (Gauss–Seidel, outward from the goals) until nothing changes any more; where
that takes too long, the component alone is solved directly, by elimination of its nodes if it is small and by sparse
factorisation if not, with all that follows it known. Components are those of all samples together.

None of this is believed: with h a bound on the number of steps, the error is at most max(|c + Pv − v| / (h − Ph)) · h
over all nodes, which is computed with rounding errors on the safe side. Components where that is too much are solved
directly too, and it is proved anew. Every regret that people see is from here. The judge imports no solver and no
kernel of theirs; V* it has from `rue.values`, as they do. A value below the proved least cost V*_k is a
`Contradiction`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from rue import judge_kernels as chain
from rue._arrays import Array
from rue._check import in_all, real_number
from rue._linear import solve_chain
from rue._threads import check_threads, each
from rue.errors import Contradiction, SolverFailed
from rue.model import UMDP, check_same_graph
from rue.policy import Policy, check_policy
from rue.solution import Cache, Limits, Run, check_cache, check_limits
from rue.values import optimal_values

TOLERANCE = 1e-13
SWEEPS = 400
# Relative error with which the sweeps are good enough; beyond it a component is solved directly.
GOOD_ERROR = 1e-9
# Components of at most so many nodes are eliminated, as a full matrix; larger ones are factorised.
DENSE = 256
# Samples that are solved together: enough to share every index, few enough to stay in memory.
BLOCK = 8
# Chains of fewer nodes are done before a thread has started.
SMALL = 1000

T = TypeVar("T")
Entering = tuple[Array, Array, Array]  # the outcomes that lead to each node: see `chain.entering`


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A policy's expected cost and regret in each sample; infinite where it may miss the goal."""

    value: Array  # [K] expected cost of the policy
    optimal: Array  # [K] least expected cost of any policy that knows the sample
    regret: Array  # [K]
    error: float  # no finite number here is further than this from the truth
    at_most: float  # proved: no regret is above this
    complete: bool = True  # False if a limit came first: what was not judged is infinite, and so is the error

    @property
    def max_regret(self) -> float:
        """The worst regret over all samples."""
        return float(self.regret.max())

    @property
    def mean_regret(self) -> float:
        """The mean regret over all samples."""
        return float(self.regret.mean())

    @property
    def worst_sample(self) -> int:
        """The sample with the worst regret."""
        return int(self.regret.argmax())

    def exceedance(self, confidence: float = 0.95) -> float:
        """How likely a fresh sample is to have more regret than the worst one here, at most.

        With probability `confidence` = 1 − δ over the N samples here it is at most 1 − δ^{1/N}. This is true only if
        they are independent draws from where the fresh sample comes from too, and had no part in making the policy.
        """
        real_number("confidence", confidence, "above 0 and below 1", np.nextafter(0, 1), np.nextafter(1, 0))
        return float(-np.expm1(np.log1p(-confidence) / self.regret.size))

    def __repr__(self) -> str:
        return (
            f"Evaluation(max regret {self.max_regret:.6g} in sample {self.worst_sample}, "
            f"mean {self.mean_regret:.6g}, {self.value.size} samples, error {self.error:.1e})"
        )


def evaluate(
    model: UMDP,
    policy: Policy,
    *,
    limits: Limits | None = None,
    cache: Cache | None = None,
    threads: int | None = None,
) -> Evaluation:
    """Expected cost and regret of a policy in every sample of a model.

    A time limit, or Ctrl-C, leaves samples out that were not judged by then (`complete` is False). A cache that is
    passed to several calls keeps the optimal values. Threads: all cores unless given; figures do not depend on them.
    """
    check_same_graph(model, check_policy(policy).graph)
    run = Run(check_limits(limits), cache=check_cache(cache), threads=check_threads(threads))
    with run.catching_interrupts():
        return judge(model, policy, run)


def judge(model: UMDP, policy: Policy, run: Run) -> Evaluation:
    """`evaluate` within a run, whose cache keeps the last verdict."""
    last: list[tuple[Policy, Evaluation]] = run.cache.remember(model, "last verdict", list)
    for judged, verdict in tuple(last):
        if judged is policy:
            return verdict
    verdict = _judge(model, policy, run)
    if verdict.complete:
        last[:] = [(policy, verdict)]
    return verdict


def _judge(model: UMDP, policy: Policy, run: Run) -> Evaluation:
    values = optimal_values(model, run=run)
    value, doubt, judged = _policy_values(model, policy, run)
    initial = model.graph.initial
    lower, upper, optimal = values.lower[initial], values.upper[initial], values.value[initial]
    _refuse_less_than_least(model, value, doubt, lower)
    regret = np.maximum(value - optimal, 0.0)
    for array in (value, optimal, regret):
        array.flags.writeable = False
    error = float(doubt.max()) + float(np.maximum(upper - optimal, optimal - lower).max())
    # The last term is more than what rounding takes from the others.
    most = float((value + doubt - lower + 4 * chain.ROUNDING * value).max())
    return Evaluation(value, optimal, regret, error, max(most, 0.0), values.complete and judged)


def _refuse_less_than_least(model: UMDP, value: Array, doubt: Array, lower: Array) -> None:
    """A policy that costs less than the least cost: the judge is wrong, or V* is."""
    wrong = np.flatnonzero(np.isfinite(value) & (value + doubt < lower))
    if wrong.size:
        k = int(wrong[0])
        raise Contradiction(
            f"the judge finds a cost of {float(value[k])!r} ± {float(doubt[k]):.1e} in sample {model.sample_name(k)}, "
            f"where no policy costs less than {float(lower[k])!r}; {in_all(wrong.size, 'sample', 'so')}"
        )


def is_proper(model: UMDP, policy: Policy) -> Array:  # [K]
    """In which samples a policy reaches a goal with probability one: on the graph, exactly."""
    check_same_graph(model, check_policy(policy).graph)
    rows = _Chain.build(model, policy)
    parts = [rows.load(first) for first in range(0, model.samples, BLOCK)]
    return np.concatenate([part.proper for part in parts])


def ends_from(model: UMDP, policy: Policy) -> Array:  # [N, K]
    """From which nodes of a controller a goal is reached with probability one, in each sample, exactly."""
    rows, entering = _all_nodes(model, policy)
    ends = np.ones((policy.nodes, model.samples), bool)
    for first in range(0, model.samples, BLOCK):
        block = ends[:, first : first + BLOCK]
        block[rows.order] = _ends(rows, entering, first, block.shape[1])
    return ends


def node_values(model: UMDP, policy: Policy, threads: int = 1) -> tuple[Array, Array]:  # [N, K], [N, K]
    """The expected cost from every node of a controller in each sample, and a bound on the error of each.

    Infinite, with no error, where the policy may miss the goal from that node in that sample. Where it takes so long
    that no bound can be had with these numbers, the cost is given as infinite, and so is the error.
    """
    rows, entering = _all_nodes(model, policy)
    value, error = np.zeros((policy.nodes, model.samples)), np.zeros((policy.nodes, model.samples))

    def work(first: int) -> None:
        numbers, ends = _load_nodes(rows, entering, first)
        found, doubt = _solve_nodes(numbers, entering, first)
        columns = slice(first, first + ends.shape[1])
        value[rows.order, columns] = np.where(ends & np.isfinite(doubt), found, np.inf)
        error[rows.order, columns] = np.where(ends, doubt, 0.0)

    _each_block(work, rows, threads)
    return value, error


def _policy_values(model: UMDP, policy: Policy, run: Run) -> tuple[Array, Array, bool]:  # [K], [K]
    """V_k(π) of all samples, a bound on the error of each, and whether there was time for all of them.

    A policy may be proper and yet take so long that no bound on its cost can be had with these numbers: then the cost
    is given as infinite, and so is the error. The same where time ran out.
    """
    rows = _Chain.build(model, policy)
    left_out = []

    def work(first: int) -> tuple[Array, Array]:
        if run.out_of_time():
            left_out.append(first)
            unknown = np.full(min(BLOCK, model.samples - first), np.inf)
            return unknown, unknown
        numbers = rows.load(first)
        value, epsilon, weight = _solve(numbers)
        known = np.isfinite(epsilon)
        error = np.where(known, epsilon, 0.0) * _at_start(rows, weight)
        error[numbers.proper & ~known] = np.inf
        found = _at_start(rows, np.where(known, value, 0.0))
        return np.where(numbers.proper & known, found, np.inf), error

    parts = _each_block(work, rows, run.threads)
    value, error = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return value, error, not left_out


def _each_block(work: Callable[[int], T], rows: "_Chain", threads: int) -> list[T]:
    """What `work` makes of the first sample of each block, in threads if the chain is long."""
    return each(work, range(0, rows.model.samples, BLOCK), threads if rows.order.size >= SMALL else 1)


def _at_start(rows: "_Chain", node_value: Array) -> Array:  # [k]
    return np.asarray(rows.policy.start_weight @ node_value[rows.start])


@dataclass(frozen=True, eq=False)
class _Chain:
    """The visited part of a controller, as rows that serve every sample, by strongly connected components."""

    model: UMDP
    policy: Policy
    order: Array
    start: Array
    row_ptr: Array
    target: Array
    transition: Array
    share: Array
    part_ptr: Array  # where each component begins; it leads only to itself, to earlier ones and to goals
    surely: bool  # every visited node reaches a goal by transitions that are positive in all samples

    @classmethod
    def build(cls, model: UMDP, policy: Policy, start: Array | None = None) -> "_Chain":
        """The nodes that are visited from the start of the policy, or from other nodes."""
        graph = model.graph
        start = policy.start_node if start is None else start
        goal_node = graph.goal[policy.node_state]
        shape = (policy.entry_ptr, policy.choice, policy.next_ptr, policy.next_node, graph.trans_ptr)
        full = (policy.entry_ptr, policy.choice, policy.weight, policy.next_ptr, policy.next_node, graph.trans_ptr)
        order = chain.explore(*shape, model.ever_live, start, goal_node)
        _, row_ptr, target, _, _ = chain.rows(order, *full, goal_node, model.ever_live)
        sequence, part_ptr = chain.components(row_ptr, target)
        order = order[sequence]
        place, row_ptr, target, transition, share = chain.rows(order, *full, goal_node, model.ever_live)
        always = model.always_live[transition].astype(float)[:, None]
        always.flags.writeable = False
        every = np.arange(order.size, dtype=np.int32)
        surely = bool(chain.proper(row_ptr, target, np.arange(target.size), always, 0, 1, every)[1][0])
        return cls(model, policy, order, place[start], row_ptr, target, transition, share, part_ptr, surely)

    def load(self, first: int) -> "_Numbers":
        """The numbers of a block of samples, without those in which the policy is improper."""
        prob, cost, leave = self.read(first)
        samples = cost.shape[1]
        counts, proper = np.ones(cost.shape, bool), np.ones(samples, bool)
        if not self.surely:
            visited, proper = chain.proper(
                self.row_ptr, self.target, self.transition, self.model.prob, first, samples, self.start
            )
            chain.silence(self.row_ptr, visited, proper, prob, cost)
            counts = visited[:-1] & proper
        _doubt_rare_exits(cost, leave, counts)
        return _Numbers(self, prob, cost, proper)

    def read(self, first: int) -> tuple[Array, Array, Array]:
        """Probabilities, costs and the chances to leave each node, in a block of samples."""
        model, policy = self.model, self.policy
        count = min(BLOCK, model.samples - first)
        prob = np.empty((self.target.size, count))
        cost, leave = np.empty((self.order.size, count)), np.empty((self.order.size, count))
        chain.load(
            self.order, policy.entry_ptr, policy.choice, policy.weight, self.row_ptr, self.transition,
            self.share, model.prob, model.cost, first, prob, cost, leave,
        )  # fmt: skip
        return prob, cost, leave


@dataclass(frozen=True, eq=False)
class _Numbers:
    """A block of samples on a chain; all zero in samples where the policy is improper."""

    rows: _Chain
    prob: Array
    cost: Array
    proper: Array


def _doubt_rare_exits(cost: Array, leave: Array, counts: Array) -> None:
    """Make the cost infinite at nodes that are left with a chance too small for these numbers.

    The chance may be a product that is zero to the computer. With such a cost nothing is proved of the node.
    """
    cost[counts & (leave < chain.TINY)] = np.inf


def _solve(numbers: _Numbers) -> tuple[Array, Array, Array]:
    """Values, ε and weights such that the true values lie within value ± ε·weight."""
    guess = _Guess.first(numbers)
    epsilon = np.empty(numbers.cost.shape[1])
    chain.prove(*guess.arrays, epsilon)
    error = epsilon * guess.weight.max(axis=0)
    if guess.improve(error):
        chain.prove(*guess.arrays, epsilon)
    return guess.value, epsilon, guess.weight


@dataclass(frozen=True, eq=False)
class _Guess:
    """Values and expected steps of all nodes in a block of samples, to be proved; both are zero at the goals."""

    numbers: _Numbers
    value: Array  # [nodes + 1, k]
    weight: Array  # [nodes + 1, k]
    direct: Array  # [components, k] which were not swept but solved directly

    @classmethod
    def first(cls, numbers: _Numbers) -> "_Guess":
        """By sweeps, and directly where sweeps are slow."""
        nodes, samples = numbers.cost.shape
        direct = np.zeros((numbers.rows.part_ptr.size - 1, samples), bool)
        guess = cls(numbers, np.zeros((nodes + 1, samples)), np.zeros((nodes + 1, samples)), direct)
        guess._settle(0)
        return guess

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What the kernels take: the equations and what is held to solve them."""
        rows, numbers = self.numbers.rows, self.numbers
        return rows.row_ptr, rows.target, numbers.prob, numbers.cost, self.value, self.weight

    def improve(self, error: Array) -> bool:
        """Solve directly what makes the errors of some samples too large; whether there is anything to be solved."""
        highest, longest = self.value.max(axis=0), self.weight.max(axis=0)
        loose = ~(error <= GOOD_ERROR * highest)
        if not loose.any():
            return False
        limit = np.full(loose.shape, np.inf)
        limit[loose] = GOOD_ERROR * highest[loose] / np.maximum(longest[loose], 1.0)
        part_ptr = self.numbers.rows.part_ptr
        first = chain.mark(part_ptr, *self.arrays, limit, self.direct)
        self._settle(first)
        return bool(first < part_ptr.size - 1)

    def _settle(self, part: int) -> None:
        """Go through the components from one on; what follows them is known."""
        part_ptr = self.numbers.rows.part_ptr
        while True:
            part = chain.settle(part_ptr, part, *self.arrays, SWEEPS, TOLERANCE, DENSE, self.direct)
            if part == part_ptr.size - 1:
                return
            for k in np.flatnonzero(self.direct[part]):
                self._factorise(int(part_ptr[part]), int(part_ptr[part + 1]), int(k))
            part += 1

    def _factorise(self, begin: int, end: int, k: int) -> None:
        """Values and expected steps of a component in one sample by a sparse factorisation of I − P."""
        rows, size = self.numbers.rows, end - begin
        outcomes = slice(rows.row_ptr[begin], rows.row_ptr[end])
        row = np.repeat(np.arange(size), np.diff(rows.row_ptr[begin : end + 1]))
        target, prob = rows.target[outcomes], self.numbers.prob[outcomes, k]
        inside = (target >= begin) & (target < end)
        leaves = ~inside & (prob > 0)

        def carried(held: Array) -> Array:
            return np.bincount(row[leaves], prob[leaves] * held[target[leaves], k], size)

        right = np.column_stack([self.numbers.cost[begin:end, k] + carried(self.value), 1.0 + carried(self.weight)])
        if not np.isfinite(right).all():  # nothing will be proved
            return
        with suppress(SolverFailed):  # it takes so long that the factors are singular in these numbers
            solved = solve_chain(row, np.where(inside, target - begin, size), prob, right)
            self.value[begin:end, k], self.weight[begin:end, k] = solved.T


def _all_nodes(model: UMDP, policy: Policy) -> tuple[_Chain, Entering]:
    """The chain of a policy that may start at any of its nodes."""
    check_same_graph(model, check_policy(policy).graph)
    every = np.arange(policy.nodes, dtype=np.int32)
    every.flags.writeable = False
    rows = _Chain.build(model, policy, every)
    return rows, chain.entering(rows.row_ptr, rows.target)


def _ends(rows: _Chain, entering: Entering, first: int, samples: int) -> Array:
    """From which nodes, in the order of the chain, a goal is reached with probability one in a block of samples."""
    ends = np.ones((rows.order.size, samples), bool)
    if not rows.surely:
        chain.surely_ends(*entering, rows.transition, rows.model.prob, first, ends)
    return ends


def _load_nodes(rows: _Chain, entering: Entering, first: int) -> tuple[_Numbers, Array]:
    """The numbers of a block of samples, zero where a node is improper, and which nodes are proper."""
    prob, cost, leave = rows.read(first)
    ends = _ends(rows, entering, first, cost.shape[1])
    if not rows.surely:
        chain.silence(rows.row_ptr, ends, np.ones(cost.shape[1], bool), prob, cost)
    _doubt_rare_exits(cost, leave, ends)
    return _Numbers(rows, prob, cost, np.asarray(ends.all(axis=0))), ends


def _solve_nodes(numbers: _Numbers, entering: Entering, first: int) -> tuple[Array, Array]:
    """The value of each node and a bound on its error."""
    rows = numbers.rows
    guess = _Guess.first(numbers)

    def prove() -> Array:
        error = np.empty(numbers.cost.shape)
        chain.prove_nodes(rows.part_ptr, *guess.arrays, *entering, rows.transition, rows.model.prob, first, error)
        return error

    error = prove()
    swept = guess.value[:-1].copy()
    if not guess.improve(error.max(axis=0, initial=0.0)):
        return swept, error
    # Nodes that come to an end soon may be known from the sweeps, where others spoil the factors.
    better_error = prove()
    better = better_error < error
    return np.where(better, guess.value[:-1], swept), np.where(better, better_error, error)
