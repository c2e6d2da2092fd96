"""The best stationary deterministic policy, with one sample for the whole way: the problem of the paper's MILP.

    min over π: S → A of  max over k of  reg_k(π),      reg_k(π) = V_k(π) − V*_k     at the initial state

A policy that misses the goal with positive probability in some sample has infinite regret; whether it does is decided
on the graph, by the judge. If all do, the status is "infeasible" and the policy is a fallback.

*How.* Branch and bound. A node is a set of allowed choices for each state. The first of its two bounds is "wait and
see": with the gaps g_k of `Regret`, the sample is told before the first step,

    D_k(s) = min over allowed c of  g_k(c) + Σ T_k(c, s') D_k(s'),      bound = max over k of D_k(initial)

The second one couples the samples. Where only one choice is left all policies of the node are the same, so it is known
with which probability h_k(s) each undecided state s is the first one to be met, and what F_k sample k pays up to there.
At s one choice must do for all samples; after it, the sample is told. For every belief b over the samples

    max over k of reg_k(π)  ≥  Σ_k b_k F_k + Σ_s min over c of  Σ_k b_k h_k(s) [ g_k(c) + Σ T_k(c, s') D_k(s') ]

and b is improved by a few gradient steps. Choices that are too dear in this sum are taken away at once. The node is
split at a state, one that is likely to be the first undecided one if possible, into a child for each allowed choice;
the state is chosen by first-order estimates of what each choice would do to each sample. The node with the lowest bound
comes first. Policies come from the other methods, from a first search on the choices that are optimal somewhere (few
nodes, good policies), from a policy at each node that suits all samples as well as it can, and from changing one
state's choice at a time. Among policies of equal max regret that last step prefers the smaller mean.

*What is proved.* With a potential φ_k ≤ the backup of φ_k for every choice (the proved lower bounds on V*_k), gaps are
C̄_k + T_k φ_k − φ_k ≥ 0, rounded down, and V_k(π) = φ_k(initial) + the expected sum of gaps. D_k is raised from zero
by sweeps whose every backup is rounded down, so it lies below the true value wherever the sweeps stop. A node is
closed when its bound comes within `gap` of the best policy's regret, or when one policy is left, which the judge
evaluates. The upper end of `objective` is the returned policy's regret by the judge; the lower end is the least bound
of a node that was closed or, at a limit, is open.

*Pruning* (the paper's, off by default here) keeps the choices that are optimal in at least one sample. The objective is
then that of the pruned problem; pruning is given up if it leaves no proper policy.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rue import structure_kernels as reach
from rue._arrays import Array
from rue._check import flag, real_number
from rue.baselines import Average
from rue.errors import BadInput
from rue.fallbacks import infeasible
from rue.judge import Evaluation, judge
from rue.model import UMDP, typical_cost
from rue.policy import Policy, complete_choices
from rue.recursion.objectives import Regret, WorstCase
from rue.recursion.one_step import policy_at_hand
from rue.solution import Inner, Interval, Outcome, Run, Solver, Status
from rue.stationary import stationary_kernels as kernel
from rue.structure import sweep_order
from rue.values import OptimalValues, optimal_somewhere, optimal_values, regret_gap

# Work between two looks at the limits, in outcomes of choices backed up: some 20 ms.
BUDGET = 8_000_000
# Sweeps that a node gets in each sample: fewer in large models, so that limits are looked at in time.
SWEEPS = (4, 60)
NODE_WORK = 8_000_000
# Nodes of the first search, on the choices that are optimal somewhere.
PILOT_NODES = 2000
# How many of the policies at hand are improved, and how many looks at the limits that may take each time.
DESCENTS = 6
DESCENT_ROUNDS = 50
# At every so many looks at the limits the policy of the node under way is improved, too, in so many rounds.
STRIDE = 16
STRIDE_ROUNDS = 4
# Shares of the time left that the first search, and the policies at hand before the second one, may take.
PILOT_SHARE = 0.25
START_SHARE = 0.1
# Regrets this close, as a fraction of the typical cost, are equal.
TIE = 1e-9
# What an objective that is solved may leave open besides the gap, as a fraction of costs: bounds on V* may be wide.
CLOSED = 1e-6
FIRST_POOL = 1 << 12
# Memory for open nodes. Beyond it the search goes deep instead of keeping to the lowest bound.
POOL_BYTES = 1 << 29
# Seconds between two reports.
REPORT_SECONDS = 0.5


@dataclass(frozen=True)
class ExactStationary(Solver):
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
        """What `run` may call."""
        return frozenset(("stationary_kernels", "one_step_kernels", "row_kernels"))

    def run(self, model: UMDP, run: Run) -> Outcome:
        """Branch and bound, first on pruned choices."""
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
        starts = list(_starts(model, values, run))
        pruned = _Tree.build(model, values, _kept(model, values), best)
        pilot = _deadline(run, PILOT_SHARE)
        pruned.try_policies(starts, run, _deadline(run, START_SHARE))
        if self.prune:
            ending = pruned.search(run)
            if ending.status is not Status.INFEASIBLE:
                return pruned.outcome(ending, run)
        else:
            pruned.search(run, PILOT_NODES, pilot)
        tree = _Tree.build(model, values, np.ones(graph.choices, bool), best)
        at_hand = starts if best.choice is None else [*starts, best.choice]
        tree.try_policies(at_hand, run, _deadline(run, START_SHARE))
        return tree.outcome(tree.search(run), run)


def _deadline(run: Run, share: float) -> float:
    """When a share of the time left will be used up, on the run's clock."""
    return run.seconds + share * run.seconds_left


def _starts(model: UMDP, values: OptimalValues, run: Run) -> Iterator[Array]:  # [S] each
    """The policies of the other methods, as a choice for each state."""
    graph = model.graph
    for solver in (Regret(prune=False), Regret(), WorstCase(), Average()):
        if run.stop():
            return
        policy = solver.run(model, Inner(outer=run)).policy
        if policy.is_stationary and policy.is_deterministic:
            choice = np.full(graph.states, -1)
            choice[graph.choice_state[policy.choice]] = policy.choice
            yield complete_choices(graph, choice)
    yield from (complete_choices(graph, choice) for choice in np.unique(values.choice, axis=1).T)


def _kept(model: UMDP, values: OptimalValues) -> Array:  # [C]
    """The choices that are optimal somewhere, and all of states that are dead ends everywhere."""
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
        """The bound from which on a node cannot hold a policy that is better by more than the gap."""
        if not np.isfinite(self.upper):
            return kernel.ENDLESS
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


def _least(verdict: Evaluation) -> float:
    """What the max regret is at least; 0 where the judge cannot tell how long the policy takes."""
    return verdict.max_regret - verdict.error if np.isfinite(verdict.error) else 0.0


class _Rows(NamedTuple):
    """The model by place (see `stationary_kernels.py`), as kernels take it."""

    row_ptr: Array
    out_ptr: Array
    target: Array
    prob: Array  # [K, T]
    gap: Array  # [K, C]
    offset: Array  # [K] what is to be added to a sum of gaps to be a lower bound on a regret
    start: int
    shrink: float  # by which each backup is rounded down
    sweeps: int  # at most, for one sample of a node


class _Ending(NamedTuple):
    """What a search has proved, and why it stopped."""

    lower: float
    status: Status


@dataclass(eq=False)
class _Tree:
    """The open nodes of one search, and the memory that its kernels work in."""

    model: UMDP
    best: _Incumbent
    order: Array  # [n] states by place
    choice: Array  # the model's choice of each local one
    rows: _Rows
    pool: list[Array]  # bits, bound, depth, heap, unused
    state: Array
    number: Array
    scratch: dict[str, Array]  # of the node under way, which may be paused
    spare: dict[str, Array]  # for policies in between
    cut: float = kernel.ENDLESS  # nodes bounded from here on are closed; it only falls
    floor: float = np.inf  # the least bound of a leaf that was closed
    lower: float = 0.0
    pauses: int = 0
    reported: float = -np.inf

    @property
    def budget(self) -> int:
        """Choices that are backed up between two looks at the limits."""
        return max(BUDGET * self.choice.size // max(self.rows.target.size, 1), 1)

    @classmethod
    def build(cls, model: UMDP, values: OptimalValues, kept: Array, best: _Incumbent) -> "_Tree":
        graph = model.graph
        order = _places(model, values, kept)
        place = np.full(graph.states, order.size, np.int32)
        place[order] = np.arange(order.size, dtype=np.int32)
        row_ptr, choice, out_ptr, transition, target = kernel.localise(
            order, place, graph.choice_ptr, graph.trans_ptr, graph.successor, model.ever_live, kept
        )
        prob, gap = np.empty((model.samples, target.size)), np.empty((model.samples, choice.size))
        potential = values.lower.copy()
        for _ in range(2):
            sound = kernel.load(
                order, row_ptr, choice, out_ptr, transition, graph.trans_ptr, graph.successor,
                model.prob, model.cost, potential, prob, gap,
            )  # fmt: skip
            # Zero is always a potential, if a poor one.
            potential[:, ~sound] = np.where(values.dead[:, ~sound], np.inf, 0.0)
        offset = potential[graph.initial] - values.upper[graph.initial]
        outcomes = int(np.diff(graph.trans_ptr).max(initial=0))
        for array in (row_ptr, out_ptr, target, prob, gap, offset):
            array.flags.writeable = False
        rows = _Rows(
            row_ptr,
            out_ptr,
            target,
            prob,
            gap,
            offset,
            int(place[graph.initial]),
            1 - (4 * outcomes + 16) * 2.0**-53,
            int(np.clip(NODE_WORK // max(gap.size, 1), *SWEEPS)),
        )
        tree = cls(
            model, best, order, choice, rows, _pool(FIRST_POOL, choice.size),
            np.zeros(kernel.STATE_SIZE, np.int64), np.zeros(kernel.NUMBER_SIZE),
            _scratch(order.size, choice.size, model.samples), _scratch(order.size, choice.size, model.samples),
        )  # fmt: skip
        tree.scratch["candidate"][:] = row_ptr[:-1]
        tree._plant()
        return tree

    def _plant(self) -> None:
        """Open the root, which allows all choices."""
        bits, bound, depth, heap, unused = self.pool
        kernel.pack(np.ones(self.choice.size, bool), bits[0])
        bound[0] = depth[0] = heap[0] = 0
        unused[: heap.size - 1] = np.arange(1, heap.size)
        self.state[kernel.OPEN], self.state[kernel.UNUSED], self.state[kernel.NEXT] = 1, heap.size - 1, -1

    def try_policies(self, policies: list[Array], run: Run, until: float) -> None:
        """Let the judge see the best of some policies, once as they are and once improved."""
        measured = []
        for policy in policies:
            local = self._localised(policy)
            regret = self._measure(local)
            if regret[0] < kernel.ENDLESS:
                measured.append((regret, local))
                if run.stop():
                    break
        measured.sort(key=lambda pair: pair[0])
        for number, (_, local) in enumerate(measured[:DESCENTS]):
            if number == 0:
                self.best.offer(self._globalised(local))
            if run.seconds < until and not run.stop():
                self.improve(local, run, DESCENT_ROUNDS, until)

    def improve(self, local: Array, run: Run, rounds: int, until: float = np.inf) -> None:
        """Change one choice at a time as long as that helps, and let the judge see the result."""
        best = np.array(self._measure(local))
        before = best.copy()
        cursor = np.zeros(2, np.int64)
        tie = self.best.slack
        for _ in range(rounds):
            done = kernel.descend(
                *self.rows, 0.01 * tie, tie, local, best, cursor,
                *_some(self.spare, "rank", "allow", "live", "trial", "regret", "seen", "stack"), self.budget,
            )  # fmt: skip
            if done or run.stop() or run.seconds >= until:
                break
            self._report(run, "milp: improving a policy")
        if (best < before).any() and best[0] <= self.best.upper:
            self.best.offer(self._globalised(local))

    def search(self, run: Run, most_nodes: float = np.inf, until: float = np.inf) -> _Ending:
        """Branch and bound until the gap is closed or a limit comes."""
        state, number = self.state, self.number
        while True:
            self.cut = min(self.cut, self.best.cut)
            number[kernel.CUT], number[kernel.BEST] = self.cut, min(self.best.upper, kernel.ENDLESS)
            self.lower = max(self.lower, self._open_bound())
            if self.lower >= self.cut or self._finished():
                return _Ending(self.lower, self._conclusion())
            stopped = run.stop()
            if stopped or state[kernel.NODES] >= most_nodes or run.seconds >= until:
                return _Ending(self.lower, stopped or Status.ITERATION_LIMIT)
            self._report(run, f"milp: {state[kernel.NODES]} nodes, {state[kernel.OPEN]} open")
            nodes = int(state[kernel.NODES])
            last = min(nodes + run.limits.iterations - run.iterations, most_nodes, 1 << 60)
            code = kernel.search(
                *self.rows, self.best.precision, *self.pool, state, number,
                *_some(
                    self.scratch, "allow", "live", "low", "high", "act", "value", "trial", "visits", "left", "hit",
                    "front", "fixed", "belief", "doubt", "greedy", "total", "excess", "price", "candidate", "rank",
                    "regret", "seen", "alive", "stack",
                ),
                int(np.ceil(last)), self.budget,
            )  # fmt: skip
            run.iterations += int(state[kernel.NODES]) - nodes
            run.count("nodes", int(state[kernel.NODES]) - nodes)
            if code in (kernel.FOUND, kernel.LEAF):
                self._judge(run, leaf=code == kernel.LEAF)
            elif code == kernel.FULL:
                self._make_room()
            elif code == kernel.PAUSED:
                self.pauses += 1
                if self.pauses % STRIDE == 0:
                    self.improve(self.scratch["candidate"].copy(), run, STRIDE_ROUNDS)
            if state[kernel.DEEP] and 2 * state[kernel.OPEN] < self.pool[1].size:
                state[kernel.DEEP] = 0

    def outcome(self, ending: _Ending, run: Run) -> Outcome:
        """What the solver returns: the best policy, after a last look for one of equal regret and a smaller mean."""
        best, status = self.best, ending.status
        if status is Status.INFEASIBLE:
            return infeasible(self.model, run)
        if best.choice is None:
            return Outcome(policy_at_hand(self.model, None, run), Interval(ending.lower, np.inf), status)
        if status is Status.SOLVED:
            self.improve(self._localised(best.choice), run, DESCENT_ROUNDS)
        objective = Interval.proved(ending.lower, best.upper, "the least max regret of a stationary policy")
        if status is Status.SOLVED and objective.width > 2 * best.gap * best.upper + best.loose:
            status = Status.UNPROVED
        run.report("milp: proved", objective)
        return Outcome(Policy.from_choices(self.model.graph, best.choice), objective, status)

    def _conclusion(self) -> Status:
        """Why it stopped when no node is left."""
        if self.best.choice is not None:
            return Status.SOLVED
        return Status.INFEASIBLE if np.isinf(self.floor) else Status.UNPROVED

    def _judge(self, run: Run, *, leaf: bool) -> None:
        """Let the judge see the candidate; of a leaf it is the only policy, so that its regret closes it."""
        local = self.scratch["candidate"].copy()
        verdict = self.best.offer(self._globalised(local))
        run.count("judged")
        if leaf:
            self.floor = min(self.floor, max(_least(verdict), float(self.number[kernel.BOUND])))
        if verdict is self.best.verdict:
            self.improve(local, run, DESCENT_ROUNDS)

    def _open_bound(self) -> float:
        """The least bound of all nodes that are open, under way, or closed."""
        _, bound, _, heap, _ = self.pool
        lower = min(self.floor, max(self.cut, 0.0))
        if self.state[kernel.OPEN]:
            lower = min(lower, bound[heap[0]])
        if self.state[kernel.NEXT] >= 0:
            lower = min(lower, bound[self.state[kernel.NEXT]])
        if self.state[kernel.PHASE] != kernel.POP:
            lower = min(lower, self.number[kernel.BOUND])
        return float(lower)

    def _finished(self) -> bool:
        """Whether no node is open or under way."""
        state = self.state
        return bool(state[kernel.OPEN] == 0 and state[kernel.NEXT] < 0 and state[kernel.PHASE] == kernel.POP)

    def _report(self, run: Run, stage: str) -> None:
        if run.seconds - self.reported >= REPORT_SECONDS:
            self.reported = run.seconds
            run.report(stage, Interval.expected(self.lower, self.best.upper))

    def _make_room(self) -> None:
        """Twice the pool; deep instead of wide when it has become large."""
        old, size = self.pool, self.pool[1].size
        self.pool = _pool(2 * size, self.choice.size)
        for mine, before in zip(self.pool[:4], old[:4], strict=True):
            mine[:size] = before
        self.pool[4][:size] = np.arange(size, 2 * size)
        self.state[kernel.UNUSED] = size
        self.state[kernel.DEEP] = sum(array.nbytes for array in self.pool) > POOL_BYTES

    def _measure(self, local: Array) -> tuple[float, float]:
        """The largest and the mean regret of a policy, nearly; infinite if it is improper."""
        allow, live, value, regret, seen, stack, rank = _some(
            self.spare, "allow", "live", "trial", "regret", "seen", "stack", "rank"
        )
        rows = self.rows
        allow[:] = False
        allow[local] = True
        count = kernel.reachable(allow, rows.row_ptr, rows.out_ptr, rows.target, rows.start, seen, stack, live)
        if not kernel.is_proper(live, count, local, rows.out_ptr, rows.target, rows.prob, rows.start, seen, stack):
            return np.inf, np.inf
        value[:] = 0.0
        worst = kernel.measure(
            live, count, local, rows.out_ptr, rows.target, rows.prob, rows.gap, rows.offset, rank, rows.start,
            rows.shrink, rows.sweeps, 0.01 * self.best.slack, kernel.ENDLESS, value, regret,
        )  # fmt: skip
        return (float(worst), float(regret.mean())) if worst < kernel.ENDLESS else (np.inf, np.inf)

    def _localised(self, policy: Array) -> Array:  # [n]
        """A policy by place; where its choice is not allowed, the first that is."""
        local = np.full(self.model.graph.choices, -1, np.int32)
        local[self.choice] = np.arange(self.choice.size, dtype=np.int32)
        mine = local[policy[self.order]]
        return np.where(mine >= 0, mine, self.rows.row_ptr[:-1])

    def _globalised(self, local: Array) -> Array:  # [S]
        """A policy by state; at states that no policy can visit, the first choice."""
        choice = np.full(self.model.graph.states, -1)
        choice[self.order] = self.choice[local]
        return complete_choices(self.model.graph, choice)


def _places(model: UMDP, values: OptimalValues, kept: Array) -> Array:  # [n]
    """States that can be visited and are no goal, nearest to a goal first; dead ends of all samples are left out."""
    graph, ever = model.graph, model.ever_live
    visited = reach.forward(graph.choice_ptr, graph.trans_ptr, graph.successor, graph.initial, kept, ever)[0]
    order = sweep_order(model, ever, np.ones(graph.states, bool), kept)
    return np.asarray(order[visited[order] & ~values.dead[order].all(axis=1)])


def _pool(size: int, choices: int) -> list[Array]:
    """Memory for `size` nodes: their choices as bits, bounds, depths, the heap, and the nodes not in use."""
    return [
        np.zeros((size, (choices + 63) // 64), np.uint64),
        np.zeros(size),
        np.zeros(size, np.int32),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
    ]


def _some(arrays: dict[str, Array], *names: str) -> tuple[Array, ...]:
    return tuple(arrays[name] for name in names)


def _scratch(places: int, choices: int, samples: int) -> dict[str, Array]:
    """Memory for the node under way."""
    return {
        "allow": np.zeros(choices, bool),
        "live": np.zeros(places, np.int32),
        "low": np.zeros(places, np.int32),
        "high": np.zeros(places, np.int32),
        "act": np.zeros(choices, np.int32),
        "value": np.zeros((samples, places + 1)),
        "trial": np.zeros((samples, places + 1)),
        "visits": np.zeros((samples, places)),
        "left": np.zeros(places + 1),
        "hit": np.zeros((samples, places)),
        "front": np.zeros(places, np.int32),
        "fixed": np.zeros(samples),
        "belief": np.full(samples, 1.0 / samples),
        "doubt": np.zeros(samples),
        "greedy": np.zeros((samples, places), np.int32),
        "total": np.zeros((samples, choices)),
        "excess": np.zeros((samples, choices)),
        "price": np.zeros(choices),
        "candidate": np.zeros(places, np.int32),
        "rank": np.arange(samples),
        "regret": np.zeros(samples),
        "seen": np.zeros(places + 1, bool),
        "alive": np.zeros(places + 1, bool),
        "stack": np.zeros(max(places, samples) + 1, np.int32),
    }
