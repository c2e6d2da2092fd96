"""The game behind the recursion: policy iteration against an adversary who picks a sample at every step.

    R(s) = min over x of  max over k of  Σ_c x(c) [ κ + g_k(c) + Σ T_k(c, s') R(s') ],      R(goal) = 0

`recursion.py` says what it is for, what is proved and how. A `Game` holds rows of a policy, what they pay and where
they lead in each sample, and evaluates them against the adversary. A `Board` is the game of single steps: the states
from which the agent can force a goal, the choices that keep to them, and the policy and values found so far, which
`solve_pure` and `solve_mixed` improve. The game of n steps is in `options.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rue._arrays import Array, ranges
from rue._linear import solve_chain
from rue.errors import SolverFailed
from rue.fallbacks import fallback
from rue.judge import is_proper
from rue.model import UMDP, Graph, typical_cost
from rue.policy import Policy, complete_choices
from rue.recursion import one_step_kernels as game
from rue.recursion import option_kernels as options
from rue.solution import Interval, Run, Status
from rue.structure import robustly_proper
from rue.values import OptimalValues

SWEEPS = 30
# After so many rounds of sweeps the adversary's chain is evaluated by factorisation.
PATIENCE = 60
MOST_STEPS = 1e13


Packed = tuple[Array, Array, Array, Array, Array]


@dataclass(eq=False)
class Game(ABC):
    """A policy as rows against the adversary, with its values; row i belongs to state `order[i]`."""

    initial: int
    order: Array  # [n] states, nearest to a goal first
    value: Array  # [S]
    steps: Array  # [S] bounds on the policy's number of rows, as far as they were counted
    scale: float

    @abstractmethod
    def pack(self) -> Packed:
        """The rows of the policy without their self-loops: see `game.pack`."""

    def settle(self, kappa: float, tolerance: float) -> float:
        """Let the adversary improve against the policy; the last change of a value."""
        return float(game.settle(self.order, *self.pack(), kappa, self.value, SWEEPS, tolerance, np.inf))

    def lift(self, amount: float, run: Run) -> None:
        """Raise the values by what `amount` more per row can come to under the policy."""
        short = self.count_steps(run)
        self.value[self.order] += amount / (1 - min(short, 0.5)) * self.steps[self.order]

    def count_steps(self, run: Run | None = None) -> float:
        """Bound the number of the policy's rows against any adversary, up to what is returned; infinite if unknown.

        It goes on from the steps that were counted last.
        """
        packed = self.pack()
        packed[3][:] = 0.0  # nothing paid but one unit for each row
        short = np.inf
        for _ in range(100):
            short = game.settle(self.order, *packed, 1.0, self.steps, SWEEPS, 0.1, MOST_STEPS)
            if short < 0.5 or (run is not None and run.stop()):
                return float(short)
        self.steps[self.order] = 0.0
        try:
            self.factorise(0.0, 1.0, self.steps)
        except SolverFailed:
            return np.inf
        packed[3][:] = 0.0
        return float(game.settle(self.order, *packed, 1.0, self.steps, 1, 0.0, MOST_STEPS))

    @property
    def precision(self) -> float:
        """A change of a value that is no more than rounding."""
        return 1e-14 * max(float(self.value[self.order].max(initial=0.0)), self.scale)

    def evaluate(self, kappa: float) -> None:
        """Let the adversary improve against the policy until it cannot."""
        for _ in range(PATIENCE):
            if self.settle(kappa, self.precision) <= self.precision:
                return
        self.factorise(1.0, kappa, self.value)

    def factorise(self, gap_share: float, kappa: float, value: Array) -> None:
        """The worst case of `gap_share`·g + κ under the policy: policy iteration of the adversary, by factorisation."""
        size = self.order.size
        row_ptr, target, share, paid, visits = self.pack()
        place = np.full(self.value.size, size)
        place[self.order] = np.arange(size)
        reply = np.zeros(size, np.int64)
        used = slice(0, int(row_ptr[-1]))
        row, column = np.repeat(np.arange(size), np.diff(row_ptr)), place[target[used]]
        for turn in range(PATIENCE):
            changed = game.replies(row_ptr, target, share, paid, visits, gap_share, kappa, value, reply)
            if turn and not changed:
                return
            answer = (np.arange(size), reply)
            cost = gap_share * paid[answer] + kappa * visits[answer]
            value[self.order] = solve_chain(row, column, share[used][np.arange(row.size), reply[row]], cost)

    def prove_upper(self, paid_error: float, terms: int) -> float:
        """A proved upper bound on the policy's worst case from the initial state."""
        if not self.count_steps() < 0.5:
            return np.inf
        need = game.prove_upper(self.order, *self.pack(), paid_error, terms, self.value, self.steps)
        return float(self.value[self.initial] + need * self.steps[self.initial]) if np.isfinite(need) else np.inf


@dataclass(eq=False)
class Board(Game):
    """The game on the states from which the agent can force a goal, one step at a time."""

    kept_ptr: Array  # [n+1]
    kept: Array  # choices
    mix: Array  # their probabilities
    trans_ptr: Array
    successor: Array
    prob: Array
    gap: Array
    gap_error: float
    belief: Array  # [n, K] the adversary's answer, or [0, K] where it sees the choice

    @classmethod
    def build(
        cls, model: UMDP, gap: Array, gap_error: float, kept: Array | None, *, randomised: bool
    ) -> "Board | None":
        """The board, if the agent can force a goal from the initial state; pruning is given up if it prevents that."""
        graph = model.graph
        for within in (kept, None):
            order, allowed = robustly_proper(model, randomised=randomised, within=within)
            if (order == graph.initial).any() or graph.goal[graph.initial]:
                break
        else:
            return None
        kept_ptr, kept_choice = _choices_in_order(model, order, allowed)
        board = cls(
            initial=graph.initial,
            order=order,
            kept_ptr=kept_ptr,
            kept=kept_choice,
            mix=np.zeros(kept_choice.size),
            trans_ptr=graph.trans_ptr,
            successor=graph.successor,
            prob=model.prob,
            gap=gap,
            gap_error=gap_error,
            value=np.zeros(graph.states),
            steps=np.zeros(graph.states),
            belief=np.empty((0, model.samples)),
            scale=typical_cost(model),
        )
        if randomised:
            board.mix[:] = np.repeat(1.0 / np.maximum(np.diff(kept_ptr), 1), np.diff(kept_ptr))
        else:
            game.outward(*board.policy_rows, board.gap, 0.0, board.value)
        return board

    @classmethod
    def randomised(
        cls, model: UMDP, gap: Array, gap_error: float, kept: Array | None, pure: "Board | None", run: Run
    ) -> "Board | None":
        """The board for randomised policies, on which more states may be safe; it starts from the best pure policy."""
        board = cls.build(model, gap, gap_error, kept, randomised=True)
        if board is None:
            return None
        board.belief = np.full((board.order.size, model.samples), 1.0 / model.samples)
        # All of the pure policy or nothing: with trying everything elsewhere it is proper, half of it may not be.
        if pure is not None and np.isin(pure.kept[pure.mix > 0], board.kept).all():
            weight = np.zeros(model.graph.choices)
            weight[pure.kept] = pure.mix
            solved = np.isin(model.graph.choice_state[board.kept], pure.order)
            board.mix[solved] = weight[board.kept[solved]]
            if pure.order.size == board.order.size:
                board.value[:] = pure.value
                return board
        board.start_above(0.0, run)
        return board

    def start_above(self, kappa: float, run: Run) -> bool:
        """Start from above the policy's worst case, so that all policies that improve on it are proper too.

        With w ≥ 1 − δ + T w for every sample, c·w/(1 − δ) is above the sum of gaps that are all at most c. False if a
        limit came first.
        """
        worst_gap = float(self.gap[self.kept[self.mix > 0]].max(initial=0.0))
        self.value[self.order] = 0.0
        self.lift(worst_gap + kappa, run)
        self.settle(kappa, 1e-6 * self.scale)
        return run.stop() is None

    @property
    def policy_rows(self) -> tuple[Array, ...]:
        """What most kernels take."""
        return self.order, self.kept_ptr, self.kept, self.mix, self.trans_ptr, self.successor, self.prob

    @cached_property
    def _packed(self) -> Packed:
        """Memory for the rows of a policy: enough for all kept choices, touched as far as needed."""
        size, samples = self.order.size, self.prob.shape[1]
        outcomes = int(np.diff(self.trans_ptr)[self.kept].sum())
        return (
            np.empty(size + 1, np.int64),
            np.empty(outcomes, np.int32),
            np.empty((outcomes, samples)),
            np.empty((size, samples)),
            np.empty((size, samples)),
        )

    def pack(self) -> Packed:
        """The rows of the choices that the policy takes."""
        game.pack(*self.policy_rows, self.gap, *self._packed)
        return self._packed

    def prove(self, weaker: Callable[[], float]) -> Interval:
        """Bounds on R(initial) without κ; `weaker` is the lower one if there is no proof of a better."""
        if self.initial not in self.order:  # it is a goal
            return Interval(0.0, 0.0)
        most = int(np.diff(self.kept_ptr).max(initial=1))
        upper = self.prove_upper(self.gap_error, 16 + 4 * most)
        lower = self._prove_lower()
        return Interval.proved(lower if lower is not None else weaker(), upper, "R")

    def _prove_lower(self) -> float | None:
        """A lower bound; a wide notion of near-tight is tried first, and a narrow one where that can go round."""
        mixed = self.belief.shape[0] > 0
        rows = self.policy_rows
        for slack in (1e-4, 1e-7, 1e-10):
            tight = game.tight_rows(*rows, self.gap, self.value, self.belief, mixed, slack * self.scale)
            weight = np.append(self.steps[self.order], 0.0)
            if not game.longest(*tight, weight, 100 * SWEEPS, MOST_STEPS) < 0.5:
                continue
            by_state = np.zeros(self.value.size)
            by_state[self.order] = weight[:-1]
            need = game.prove_lower(
                *rows[:3], *rows[4:], self.gap, self.gap_error, self.value, by_state, self.belief, mixed
            )
            if np.isfinite(need):
                return max(float(self.value[self.initial] - need * by_state[self.initial]), 0.0)
        return None

    def choices(self, graph: Graph) -> Array:  # [S]
        """The choice of a pure policy in each state; where the game was not played, the first."""
        used = self.kept[self.mix > 0]
        choice = np.full(graph.states, -1)
        choice[graph.choice_state[used]] = used
        return complete_choices(graph, choice)

    def policy(self, model: UMDP) -> Policy:
        """The policy; where the game was not played, the first choice."""
        graph = model.graph
        weight = np.zeros(graph.choices)
        weight[self.kept] = self.mix
        elsewhere = np.ones(graph.states, bool)
        elsewhere[self.order] = False
        weight[complete_choices(graph, np.full(graph.states, -1))[elsewhere & ~graph.goal]] = 1.0
        return Policy.from_weights(graph, weight)


def solve_pure(board: Board, kappa: float, run: Run, name: str) -> Status | None:
    """Policy iteration over single choices, first with κ and then without; says why it stopped early."""

    def improve(kappa_now: float, slack: float = 0.0, break_ties: bool = False) -> tuple[int, float]:
        slack = slack or max(1e-12 * board.scale, board.precision)
        changed, delta = game.improve_pure(*board.policy_rows, board.gap, kappa_now, board.value, slack, break_ties)
        return changed, delta

    if kappa > 0:
        status = _iterate(board, improve, kappa, run, name)
        if status:
            return status
        before = board.mix.copy(), board.value.copy()
        improve(kappa, slack=1e-3 * kappa, break_ties=True)
        if not board.count_steps() < 0.5:  # beside such values κ is no more than rounding
            board.mix[:], board.value[:] = before
        board.evaluate(0.0)  # or what is left of κ would look like a reason to change a choice
    return _iterate(board, improve, 0.0, run, name)


def solve_mixed(board: Board, kappa: float, run: Run, name: str) -> Status | None:
    """Policy iteration over mixtures, one matrix game for each state and round; says why it stopped early.

    κ stays in until the policy is found: without it there may be no best mixture, only ever better ones that take
    ever longer.
    """

    def improve(kappa_now: float) -> tuple[int, float]:
        changed, delta, pivots = options.improve_mixed(
            *board.policy_rows, board.gap, kappa_now, board.value, 1e-12 * board.scale, board.belief
        )
        run.count("pivots", pivots)
        return changed, delta

    board.lift(kappa, run)
    status = _iterate(board, improve, kappa, run, name)
    if status is None:
        board.evaluate(0.0)
    return status


def _iterate(
    board: Board, improve: Callable[[float], tuple[int, float]], kappa: float, run: Run, name: str
) -> Status | None:
    """Rounds of improvement and evaluation until neither changes anything; says why it stopped early."""
    proving = 0.0
    for round_ in range(20 * PATIENCE):
        status = run.stop()
        if status:
            return status
        before = board.mix.copy(), board.value.copy()
        changed, delta = improve(kappa)
        run.iterations += 1
        run.count("rounds")
        objective = None
        if run.hook is not None and run.seconds > 2 and proving < 0.1 * run.seconds:
            began = run.seconds
            objective = board.prove(weaker=float)  # float() is 0
            proving += run.seconds - began
        run.report(f"{name}: round {run.iterations}", objective)
        if not changed and delta <= board.precision:
            return None
        if round_ < PATIENCE:
            board.settle(kappa, 0.01 * delta)
            continue
        try:
            board.factorise(1.0, kappa, board.value)
        except SolverFailed:  # the mixtures have come so near to an improper one that they cannot be told apart
            board.mix[:], board.value[:] = before
            return None
        if not changed and np.abs(board.value - before[1]).max() <= 1e-12 * float(np.abs(before[1]).max()):
            return None
    return None


def _choices_in_order(model: UMDP, order: Array, allowed: Array) -> tuple[Array, Array]:
    """The allowed choices of each state of `order`."""
    graph = model.graph
    length = np.diff(graph.choice_ptr)[order]
    choice = ranges(graph.choice_ptr[order], length)
    owner = np.repeat(np.arange(order.size), length)
    keep = allowed[choice]
    counts = np.bincount(owner[keep], minlength=order.size)
    return np.concatenate(([0], np.cumsum(counts))), choice[keep].astype(np.int32)


def policy_at_hand(model: UMDP, values: OptimalValues | None, run: Run) -> Policy:
    """A policy without a search: proper in every sample, if one that is can be had so cheaply."""
    if values is not None:
        policy = Policy.from_choices(model.graph, complete_choices(model.graph, values.choice[:, 0]))
        if is_proper(model, policy).all():
            return policy
    board = Board.build(model, model.cost, 0.0, None, randomised=False)
    return board.policy(model) if board is not None else fallback(model, run)
