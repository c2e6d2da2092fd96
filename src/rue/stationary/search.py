"""The best stationary deterministic policy, when one sample holds for the whole way: the problem of the paper's MILP.

    min over π: S → A of  max over k of  reg_k(π),      reg_k(π) = V_k(π) − V*_k     at the initial state

A policy that misses the goal with positive probability in some sample has infinite regret. The judge decides that on
the graph. If all policies do, the status is "infeasible" and the policy is a fallback.

*Method.* Branch and bound. A node is a set of allowed choices for each state. It has two lower bounds. The first one is
"wait and see": the sample is revealed before the first step. With the gaps g_k of `Regret`,

    D_k(s) = min over allowed c of  g_k(c) + Σ T_k(c, s') D_k(s'),      bound = max over k of D_k(initial)

The second one couples the samples. States with one choice left are the same for all policies of the node. So the
probability h_k(s) that s is the first undecided state is known, and so is the cost F_k of sample k up to there. At s
one choice must serve all samples; after it, the sample is revealed. For every belief b over the samples

    max over k of reg_k(π)  ≥  Σ_k b_k F_k + Σ_s min over c of  Σ_k b_k h_k(s) [ g_k(c) + Σ T_k(c, s') D_k(s') ]

and b is improved by a few gradient steps. Choices that are too costly in this sum are removed. The node is split at a
state, if possible one that is likely to be the first undecided one, into a child for each allowed choice; the state is
selected by first-order estimates of the effect of each choice on each sample. The node with the lowest bound comes
first. Policies come from the other methods, from a first search on the choices that are optimal in some sample (few
nodes, good policies), from one policy at each node that suits all samples, and from descent, which changes one state's
choice at a time. Among policies of equal max regret, descent prefers the smaller mean.

*What is proved.* With a potential φ_k ≤ the backup of φ_k for every choice (the proved lower bounds on V*_k), gaps are
C̄_k + T_k φ_k − φ_k ≥ 0, rounded down, and V_k(π) = φ_k(initial) + the expected sum of gaps. D_k is raised from zero
by sweeps whose every backup is rounded down, so it lies below the true value wherever the sweeps stop. A node is
closed when its bound comes within `gap` of the best policy's regret, or when one policy is left, which the judge
evaluates. The upper end of `objective` is the returned policy's regret by the judge; the lower end is the least bound
of a node that was closed or, at a limit, is open.

*Pruning* (the paper's, off by default here) keeps the choices that are optimal in at least one sample. The objective is
then that of the pruned problem. Pruning is given up if it leaves no proper policy.

*Many samples* are searched in parts (`active.py`), which is exact: the least max regret over some samples is at most
that over all, and the judge's figure is over all. With `prune` it is not, as choices that are optimal in other samples
are missing; then all samples are searched at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rue._arrays import Array
from rue._check import flag, real_number
from rue.active import Part, SolverInParts
from rue.baselines import Average
from rue.controllers import stationary_choices
from rue.errors import BadInput
from rue.fallbacks import infeasible
from rue.judge import Evaluation, judge
from rue.model import UMDP, typical_cost
from rue.policy import Policy, complete_choices
from rue.recursion.objectives import Regret, WorstCase
from rue.recursion.one_step import policy_at_hand
from rue.solution import Inner, Interval, Outcome, Run, Status
from rue.stationary import descent_kernels as descent
from rue.stationary import stationary_kernels as kernel
from rue.stationary.bound_kernels import Coupling, NodeChoices, NodeValues
from rue.stationary.local_model import Renumbered
from rue.values import OptimalValues, optimal_somewhere, optimal_values, regret_gap

# Work between two checks of the limits, in outcomes of choices backed up: about 20 ms.
BUDGET = 8_000_000
# Nodes of the first search, on the choices that are optimal in some sample.
PILOT_NODES = 2000
# How many of the start policies are improved, and how many budgets that may take each time.
DESCENTS = 6
DESCENT_ROUNDS = 50
# After every STRIDE budgets of the search the candidate of its node is improved as well, within STRIDE_ROUNDS budgets.
STRIDE = 16
STRIDE_ROUNDS = 4
# Shares of the time left that the first search, and the start policies before the second one, may take.
PILOT_SHARE = 0.25
START_SHARE = 0.1
# Regrets this close, as a fraction of the typical cost, are equal.
TIE = 1e-9
# What a solved objective may leave open besides the gap, as a fraction of costs: bounds on V* may be wide.
CLOSED = 1e-6
FIRST_POOL = 1 << 12
# Memory for open nodes. Beyond it the search goes deep instead of keeping to the lowest bound.
POOL_BYTES = 1 << 29
# Seconds between two reports.
REPORT_SECONDS = 0.5


@dataclass(frozen=True)
class ExactStationary(SolverInParts):
    """The stationary deterministic policy with the least max regret. `gap` is the relative one at which it stops."""

    name = "milp"
    measures = "regret"

    prune: bool = field(default=False, kw_only=True)
    gap: float = field(default=1e-7, kw_only=True)

    def __post_init__(self) -> None:
        flag("prune", self.prune)
        wanted = "a number from 0 to 1, a fraction of the regret"
        if real_number("gap", self.gap, wanted, 0, 1) == 1:
            raise BadInput(f"gap is {self.gap}; expected {wanted}")

    def kernels(self) -> frozenset[str]:
        """Return the kernel files that `run` may call."""
        return frozenset(("stationary_kernels", "descent_kernels", "one_step_kernels", "row_kernels"))

    @property
    def in_parts(self) -> bool:
        """Pruning depends on all samples."""
        return not self.prune

    def is_close(self, lower: float, upper: float, least: float) -> bool:
        """Return whether the bounds are close enough, with the least optimal value of a sample."""
        return upper < np.inf and upper - lower <= 2 * self.gap * upper + CLOSED * least

    def run_part(self, part: Part, run: Run) -> Outcome:
        """Search on pruned choices first, then on all."""
        model = part.model
        graph = model.graph
        if graph.goal[graph.initial]:
            choice = complete_choices(graph, np.full(graph.states, -1))
            return Outcome(Policy.from_choices(graph, choice), Interval(0.0, 0.0))
        values = optimal_values(model, run=run)
        width = float((values.upper[graph.initial] - values.lower[graph.initial]).max())
        stopped = run.stop() or (None if np.isfinite(width) else Status.UNPROVED)
        if stopped:
            return Outcome(policy_at_hand(model, values, run), Interval(0.0, np.inf), stopped)
        scale = typical_cost(model)
        loose = CLOSED * (scale + float(values.upper[graph.initial].max()))
        best = _Incumbent(model, run, self.gap, 4 * width + TIE * scale, loose)
        starts = list(_starts(part, values, run))
        pruned = _BranchAndBound.build(model, values, _kept(model, values), best)
        pilot = _deadline(run, PILOT_SHARE)
        pruned.try_policies(starts, run, _deadline(run, START_SHARE))
        if self.prune:
            status = pruned.search(run)
            if status is not Status.INFEASIBLE:
                return pruned.outcome(status, run)
        else:
            pruned.search(run, PILOT_NODES, pilot)
        full = _BranchAndBound.build(model, values, np.ones(graph.choices, bool), best)
        known = starts if best.choice is None else [*starts, best.choice]
        full.try_policies(known, run, _deadline(run, START_SHARE))
        return full.outcome(full.search(run), run)


def _deadline(run: Run, share: float) -> float:
    """Return when a share of the time left will be used up, on the run's clock."""
    return run.seconds + share * run.seconds_left


def _starts(part: Part, values: OptimalValues, run: Run) -> Iterator[Array]:  # [S] each
    """Yield known policies and those of the other methods, as a choice for each state."""
    model = part.model
    yield from (choices for choices in map(stationary_choices, part.policies) if choices is not None)
    for solver in (Regret(prune=False), Regret(), WorstCase(), Average()):
        if run.stop():
            return
        choices = stationary_choices(solver.run(model, Inner(outer=run)).policy)
        if choices is not None:
            yield choices
    yield from (complete_choices(model.graph, choices) for choices in np.unique(values.choice, axis=1).T)


def _kept(model: UMDP, values: OptimalValues) -> Array:  # [C]
    """Return the choices that are optimal in some sample, and all of states that are dead ends in every sample."""
    graph = model.graph
    kept = optimal_somewhere(model, values, regret_gap(model, values))
    count = np.bincount(graph.choice_state, weights=kept, minlength=graph.states)
    return np.asarray(kept | (count[graph.choice_state] == 0))


@dataclass(eq=False)
class _Incumbent:
    """The best policy so far, by the judge."""

    model: UMDP
    run: Run
    gap: float
    slack: float  # what rounding, and the bounds on V*, may leave open
    loose: float  # what may be left open if it is to be called solved
    choice: Array | None = None  # [S]
    verdict: Evaluation | None = None

    @property
    def upper(self) -> float:
        """Its max regret; infinite if there is none."""
        return np.inf if self.verdict is None else self.verdict.at_most

    @property
    def cut(self) -> float:
        """A node with this bound or more holds no policy that is better by more than the gap."""
        if not np.isfinite(self.upper):
            return descent.ENDLESS
        return self.upper - self.gap * self.upper - self.slack

    @property
    def precision(self) -> float:
        """A change of a value that is of no use to a bound."""
        return 0.01 * (self.slack + (self.gap * self.upper if self.verdict is not None else 0.0))

    def offer(self, choice: Array) -> Evaluation:
        """Judge a policy, and keep it if it is better: in its max regret, or in its mean if that is equal."""
        verdict = judge(self.model, Policy.from_choices(self.model.graph, choice), self.run.afterwards())
        if np.isfinite(verdict.max_regret) and (
            self.verdict is None
            or (verdict.max_regret, verdict.mean_regret) < (self.verdict.max_regret, self.verdict.mean_regret)
        ):
            self.choice, self.verdict = choice, verdict
        return verdict


@dataclass(eq=False)
class _BranchAndBound:
    """The open nodes of one search, and the memory of its kernels."""

    problem: Renumbered
    best: _Incumbent
    pool: kernel.NodePool
    cursor: Any  # where the search is (see `stationary_kernels.py`)
    node: "_NodeMemory"
    spare: tuple[descent.Subgraph, descent.PolicyValues]  # for policies while a node is paused
    cut: float = descent.ENDLESS  # nodes with this bound or more are closed; it only falls
    closed: float = np.inf  # the least bound of a closed leaf
    lower: float = 0.0
    pauses: int = 0
    reported: float = -np.inf

    @property
    def budget(self) -> int:
        """Choices that are backed up between two checks of the limits."""
        return max(BUDGET * self.problem.choice.size // max(self.problem.local.target.size, 1), 1)

    @classmethod
    def build(cls, model: UMDP, values: OptimalValues, kept: Array, best: _Incumbent) -> "_BranchAndBound":
        """Open the root, which allows all kept choices."""
        problem = Renumbered.build(model, values, kept)
        sizes = problem.order.size, problem.choice.size, model.samples
        pool, cursor = _pool(FIRST_POOL, problem.choice.size), kernel.new_cursor()
        pool.bits[0] = ~np.uint64(0)
        pool.unused[:-1] = np.arange(1, FIRST_POOL)
        cursor.open, cursor.unused, cursor.next = 1, FIRST_POOL - 1, -1
        node = _NodeMemory.build(*sizes)
        node.choices.candidate[:] = problem.local.row_ptr[:-1]
        return cls(problem, best, pool, cursor, node, _policy_memory(*sizes))

    def try_policies(self, policies: list[Array], run: Run, until: float) -> None:
        """Judge the best of some policies, first as it is; then improve the best few."""
        measured = []
        for policy in policies:
            local = self.problem.by_place(policy)
            regret = self._measure(local)
            if regret[0] < descent.ENDLESS:
                measured.append((regret, local))
                if run.stop():
                    break
        measured.sort(key=lambda pair: pair[0])
        for number, (_, local) in enumerate(measured[:DESCENTS]):
            if number == 0:
                self.best.offer(self.problem.by_state(local))
            if run.seconds < until and not run.stop():
                self.improve(local, run, DESCENT_ROUNDS, until)

    def improve(self, local: Array, run: Run, rounds: int, until: float = np.inf) -> None:
        """Change one choice of a policy at a time as long as that helps, and judge the result."""
        before = self._measure(local)
        now = descent.new_descent()
        now.max_regret, now.mean_regret = before
        for _ in range(rounds):
            done = descent.descend(self.problem.local, *self.spare, local, now, self.best.slack, self.budget)
            if done or run.stop() or run.seconds >= until:
                break
            self._report(run, "milp: improving a policy")
        if (now.max_regret < before[0] or now.mean_regret < before[1]) and now.max_regret <= self.best.upper:
            self.best.offer(self.problem.by_state(local))

    def search(self, run: Run, most_nodes: float = np.inf, until: float = np.inf) -> Status:
        """Branch and bound until the gap is closed or a limit is reached; return which. `lower` is proved."""
        cursor, nodes = self.cursor, int(self.cursor.nodes)
        while True:
            self.cut = cursor.cut = min(self.cut, self.best.cut)
            cursor.best = min(self.best.upper, descent.ENDLESS)
            self.lower = max(self.lower, self._open_bound())
            if self.lower >= self.cut or not (cursor.open or cursor.next >= 0 or cursor.phase != kernel.POP):
                if self.best.choice is not None:
                    return Status.SOLVED
                return Status.INFEASIBLE if np.isinf(self.closed) else Status.UNPROVED
            stopped = run.stop()
            if stopped or nodes >= most_nodes or run.seconds >= until:
                return stopped or Status.ITERATION_LIMIT
            self._report(run, f"milp: {nodes} nodes, {cursor.open} open")
            cursor.last = int(np.ceil(min(nodes + run.limits.iterations - run.iterations, most_nodes, 1 << 60)))
            cursor.budget, cursor.tolerance = self.budget, self.best.precision
            code = kernel.search(self.problem.local, *self.node, self.pool, cursor)
            opened = int(cursor.nodes) - nodes
            nodes += opened
            run.iterations += opened
            run.count("nodes", opened)
            if code in (kernel.FOUND, kernel.LEAF):
                self._judge_candidate(run, leaf=code == kernel.LEAF)
            elif code == kernel.FULL:
                self._make_room()
            elif code == kernel.PAUSED:
                self.pauses += 1
                if self.pauses % STRIDE == 0:
                    self.improve(self.node.choices.candidate.copy(), run, STRIDE_ROUNDS)
            if cursor.deep and 2 * cursor.open < self.pool.heap.size:
                cursor.deep = 0

    def outcome(self, status: Status, run: Run) -> Outcome:
        """Return the best policy, after a last descent to one of equal regret and a smaller mean."""
        model, best = self.problem.model, self.best
        if status is Status.INFEASIBLE:
            return infeasible(model, run)
        if best.choice is None:
            return Outcome(policy_at_hand(model, None, run), Interval(self.lower, np.inf), status)
        if status is Status.SOLVED:
            self.improve(self.problem.by_place(best.choice), run, DESCENT_ROUNDS)
        objective = Interval.proved(self.lower, best.upper, "the least max regret of a stationary policy")
        if status is Status.SOLVED and objective.width > 2 * best.gap * best.upper + best.loose:
            status = Status.UNPROVED
        run.report("milp: proved", objective)
        return Outcome(Policy.from_choices(model.graph, best.choice), objective, status)

    def _judge_candidate(self, run: Run, *, leaf: bool) -> None:
        """Judge the candidate of the node; at a leaf it is the only policy, so that its regret closes the node."""
        local = self.node.choices.candidate.copy()
        verdict = self.best.offer(self.problem.by_state(local))
        run.count("judged")
        if leaf:
            # The judge may be unable to tell how long the policy takes.
            least = verdict.max_regret - verdict.error if np.isfinite(verdict.error) else 0.0
            self.closed = min(self.closed, max(least, float(self.cursor.bound)))
        if verdict is self.best.verdict:
            self.improve(local, run, DESCENT_ROUNDS)

    def _open_bound(self) -> float:
        """Return the least bound of all nodes: open, in progress, or closed."""
        pool, cursor = self.pool, self.cursor
        lower = min(self.closed, max(self.cut, 0.0))
        if cursor.open:
            lower = min(lower, pool.bound[pool.heap[0]])
        if cursor.next >= 0:
            lower = min(lower, pool.bound[cursor.next])
        if cursor.phase != kernel.POP:
            lower = min(lower, cursor.bound)
        return float(lower)

    def _report(self, run: Run, stage: str) -> None:
        if run.seconds - self.reported >= REPORT_SECONDS:
            self.reported = run.seconds
            run.report(stage, Interval.expected(self.lower, self.best.upper))

    def _make_room(self) -> None:
        """Double the pool; search deep instead of wide when it has become large."""
        old, size = self.pool, self.pool.heap.size
        self.pool = _pool(2 * size, self.problem.choice.size)
        for mine, before in zip(self.pool[:4], old[:4], strict=True):
            mine[:size] = before
        self.pool.unused[:size] = np.arange(size, 2 * size)
        self.cursor.unused = size
        self.cursor.deep = sum(array.nbytes for array in self.pool) > POOL_BYTES

    def _measure(self, local: Array) -> tuple[float, float]:
        """Return the largest and the mean regret of a policy, nearly; infinite if it is improper."""
        worst = descent.measure(self.problem.local, *self.spare, local, 0.01 * self.best.slack)
        return (float(worst), float(self.spare[1].regret.mean())) if worst < descent.ENDLESS else (np.inf, np.inf)


class _NodeMemory(NamedTuple):
    """Memory for the node in progress, in the order in which the kernel takes it."""

    graph: descent.Subgraph
    choices: NodeChoices
    values: NodeValues
    coupling: Coupling
    policies: descent.PolicyValues

    @classmethod
    def build(cls, places: int, choices: int, samples: int) -> "_NodeMemory":
        graph, policies = _policy_memory(places, choices, samples)
        low, high, candidate, frontier = np.zeros((4, places), np.int32)
        visits, hit = np.zeros((2, samples, places))
        total, excess = np.zeros((2, samples, choices))
        fixed, trial, paid = np.zeros((3, samples))
        return cls(
            graph,
            NodeChoices(graph.live, low, high, np.zeros(choices, np.int32), candidate),
            NodeValues(np.zeros((samples, places + 1)), total, excess, np.zeros((samples, places), np.int32), visits),
            Coupling(
                hit, frontier, fixed, np.full(samples, 1.0 / samples), trial, paid,
                np.zeros(choices), np.zeros(places + 1),
            ),
            policies,
        )  # fmt: skip


def _policy_memory(places: int, choices: int, samples: int) -> tuple[descent.Subgraph, descent.PolicyValues]:
    """Return memory for the evaluation of a policy."""
    seen, alive = np.zeros((2, places + 1), bool)
    live, stack = np.zeros(places, np.int32), np.zeros(max(places, samples) + 1, np.int32)
    place = np.arange(places + 1, dtype=np.int32)
    return (
        descent.Subgraph(np.zeros(choices, bool), live, seen, alive, stack, place),
        descent.PolicyValues(np.zeros((samples, places + 1)), np.zeros(samples), np.arange(samples)),
    )


def _pool(size: int, choices: int) -> kernel.NodePool:
    """Return memory for `size` nodes."""
    return kernel.NodePool(
        bits=np.zeros((size, (choices + 63) // 64), np.uint64),
        bound=np.zeros(size),
        depth=np.zeros(size, np.int32),
        heap=np.zeros(size, np.int64),
        unused=np.zeros(size, np.int64),
    )
