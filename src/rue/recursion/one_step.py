"""The recursion of single steps: policy iteration against an adversary who picks a sample at every step.

    R(s) = min over x of  max over k of  Σ_c x(c) [ κ + g_k(c) + Σ T_k(c, s') R(s') ],      R(goal) = 0

`objectives.py` says what it is for, what is proved and how. A `StepGame` holds the states from which the agent can
force a goal, the choices that keep to them, and the policy and values found so far, which `solve_pure` and
`solve_mixed` improve.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rue._arrays import Array, members_with_owner, pointers
from rue.errors import SolverFailed
from rue.fallbacks import fallback
from rue.judge import is_proper
from rue.model import UMDP, Graph, typical_cost
from rue.policy import Policy, complete_choices
from rue.recursion import mixed_step_kernels, one_step_kernels
from rue.recursion.inner.option_set import new_game
from rue.recursion.mixed_step_kernels import MixedStepMemory
from rue.recursion.one_step_kernels import StepModel
from rue.recursion.row_game import MOST_ROWS, PATIENCE, SWEEPS, RowGame, new_rows
from rue.recursion.row_kernels import PackedRows
from rue.solution import Interval, Run, Status
from rue.structure import robustly_proper
from rue.values import OptimalValues

# Slacks up to which a choice is near-tight, as fractions of the typical cost: the largest is tried first.
SLACKS = (1e-4, 1e-7, 1e-10)
# Rounds of policy iteration at most.
MOST_ROUNDS = 20 * PATIENCE


@dataclass(frozen=True, eq=False)
class StepProblem:
    """A model with its gaps and the choices that may be taken."""

    model: UMDP
    gap: Array  # [C, K]
    gap_error: float
    kept: Array | None  # [C] choices that were not pruned; None for all


@dataclass(eq=False)
class StepGame(RowGame):
    """The game on the states from which the agent can force a goal, one step at a time."""

    model: StepModel
    gap_error: float
    belief: Array  # [n, K] the adversary's answer, or [0, K] where it sees the choice

    @classmethod
    def build(cls, problem: StepProblem, *, randomised: bool) -> "StepGame | None":
        """Return the game if the agent can force a goal from the initial state, without pruning if that prevents it."""
        model, graph = problem.model, problem.model.graph
        for within in (problem.kept, None):
            order, allowed = robustly_proper(model, randomised=randomised, within=within)
            if (order == graph.initial).any() or graph.goal[graph.initial]:
                break
        else:
            return None
        kept_ptr, kept = _choices_in_order(model, order, allowed)
        game = cls(
            initial=graph.initial,
            order=order,
            value=np.zeros(graph.states),
            weight=np.zeros(graph.states),
            scale=typical_cost(model),
            model=StepModel(
                order, kept_ptr, kept, np.zeros(kept.size), graph.trans_ptr, graph.successor, model.prob, problem.gap
            ),
            gap_error=problem.gap_error,
            belief=np.empty((0, model.samples)),
        )
        if randomised:
            game.model.mix[:] = np.repeat(1.0 / np.maximum(np.diff(kept_ptr), 1), np.diff(kept_ptr))
        else:
            one_step_kernels.value_outward(game.model, 0.0, game.value)
        return game

    @classmethod
    def randomised(cls, problem: StepProblem, pure: "StepGame | None", run: Run) -> "StepGame | None":
        """Return the game of randomised policies, started from the best pure one; more states may be safe in it."""
        game = cls.build(problem, randomised=True)
        if game is None:
            return None
        samples, graph = problem.model.samples, problem.model.graph
        game.belief = np.full((game.order.size, samples), 1.0 / samples)
        # All of the pure policy or nothing: with equal weights elsewhere it is proper, half of it may not be.
        if pure is not None and np.isin(pure.used, game.model.kept).all():
            weight = np.zeros(graph.choices)
            weight[pure.model.kept] = pure.model.mix
            solved = np.isin(graph.choice_state[game.model.kept], pure.order)
            game.model.mix[solved] = weight[game.model.kept[solved]]
            if pure.order.size == game.order.size:
                game.value[:] = pure.value
                return game
        game.start_above(0.0, run)
        return game

    def start_above(self, kappa: float, run: Run) -> bool:
        """Start from above the policy's worst case, so that all policies that improve on it are proper too.

        With w ≥ 1 − δ + T w for every sample, c·w/(1 − δ) is above the sum of gaps that are all at most c. Returns
        False if a limit came first.
        """
        worst_gap = float(self.model.gap[self.used].max(initial=0.0))
        self.value[self.order] = 0.0
        self.raise_values(worst_gap + kappa, run)
        self.sweep(kappa, 1e-6 * self.scale)
        return run.stop() is None

    @property
    def used(self) -> Array:
        """The choices that the policy takes."""
        return np.asarray(self.model.kept[self.model.mix > 0])

    @property
    def samples(self) -> int:
        """K, the number of samples."""
        return int(self.model.prob.shape[1])

    @property
    def most_choices(self) -> int:
        """The most kept choices of a state."""
        return int(np.diff(self.model.kept_ptr).max(initial=1))

    @cached_property
    def _rows(self) -> PackedRows:
        """Memory for the rows of a policy: enough for all kept choices, touched as far as needed."""
        outcomes = int(np.diff(self.model.trans_ptr)[self.model.kept].sum())
        return new_rows(self.order.size, outcomes, self.samples)

    def pack(self) -> PackedRows:
        """Return the rows of the choices that the policy takes."""
        if self.packed is None or not np.array_equal(self.packed, self.model.mix):
            one_step_kernels.pack_policy(self.model, self._rows)
            self.packed = self.model.mix.copy()
        return self._rows

    @cached_property
    def mixed_memory(self) -> MixedStepMemory:
        """Memory for `improve_mixed`."""
        most = self.most_choices
        return MixedStepMemory(np.empty((most, self.samples)), np.empty(most), new_game(self.samples, most))

    def prove(self, weaker: Callable[[], float]) -> Interval:
        """Return bounds on R(initial) without κ; the lower one is `weaker` if there is no proof of a better."""
        if self.initial not in self.order:  # it is a goal
            return Interval(0.0, 0.0)
        upper = self.prove_upper(self.gap_error, 16 + 4 * self.most_choices)
        lower = self._prove_lower()
        return Interval.proved(lower if lower is not None else weaker(), upper, "R")

    def _prove_lower(self) -> float | None:
        """Return a lower bound; smaller slacks are tried where larger ones allow endless cycles."""
        for slack in SLACKS:
            tight = one_step_kernels.tight_rows(self.model, self.value, self.belief, slack * self.scale)
            weight = np.append(self.weight[self.order], 0.0)
            if not one_step_kernels.count_longest(*tight, weight, 100 * SWEEPS, MOST_ROWS) < 0.5:
                continue
            by_state = np.zeros(self.value.size)
            by_state[self.order] = weight[:-1]
            need = one_step_kernels.prove_lower(self.model, self.gap_error, self.value, by_state, self.belief)
            if np.isfinite(need):
                return max(float(self.value[self.initial] - need * by_state[self.initial]), 0.0)
        return None

    def choices(self, graph: Graph) -> Array:  # [S]
        """Return the choice of a pure policy in each state; outside the game, the first."""
        used = self.used
        choice = np.full(graph.states, -1)
        choice[graph.choice_state[used]] = used
        return complete_choices(graph, choice)

    def policy(self, model: UMDP) -> Policy:
        """Return the policy; outside the game it takes the first choice."""
        graph = model.graph
        weight = np.zeros(graph.choices)
        weight[self.model.kept] = self.model.mix
        elsewhere = np.ones(graph.states, bool)
        elsewhere[self.order] = False
        weight[complete_choices(graph, np.full(graph.states, -1))[elsewhere & ~graph.goal]] = 1.0
        return Policy.from_weights(graph, weight)


def solve_pure(game: StepGame, kappa: float, run: Run, name: str) -> Status | None:
    """Improve single choices by policy iteration, first with κ and then without; return why it stopped early."""

    def improve(kappa_now: float, slack: float = 0.0, break_ties: bool = False) -> tuple[int, float]:
        slack = slack or max(1e-12 * game.scale, game.precision)
        changed, delta = one_step_kernels.improve_pure(game.model, kappa_now, game.value, slack, break_ties)
        return changed, delta

    if kappa > 0:
        status = _iterate(game, improve, kappa, run, name)
        if status:
            return status
        before = game.model.mix.copy(), game.value.copy()
        improve(kappa, slack=1e-3 * kappa, break_ties=True)
        if not game.count_rows() < 0.5:  # beside such values κ is no more than rounding
            game.model.mix[:], game.value[:] = before
        game.evaluate(0.0)  # or the rest of κ would be a reason to change a choice
    return _iterate(game, improve, 0.0, run, name)


def solve_mixed(game: StepGame, kappa: float, run: Run, name: str) -> Status | None:
    """Improve mixtures by policy iteration, one matrix game for each state and round; return why it stopped early.

    κ stays in until the policy is found: without it there may be no best mixture, only ever better ones that take
    ever longer.
    """

    def improve(kappa_now: float) -> tuple[int, float]:
        changed, delta, pivots = mixed_step_kernels.improve_mixed(
            game.model, kappa_now, game.value, 1e-12 * game.scale, game.belief, game.mixed_memory
        )
        run.count("pivots", pivots)
        return changed, delta

    game.raise_values(kappa, run)
    status = _iterate(game, improve, kappa, run, name)
    if status is None:
        game.evaluate(0.0)
    return status


def _iterate(
    game: StepGame, improve: Callable[[float], tuple[int, float]], kappa: float, run: Run, name: str
) -> Status | None:
    """Improve and evaluate in turn until neither changes anything; return why it stopped early."""
    proving = 0.0
    for round_ in range(MOST_ROUNDS):
        status = run.stop()
        if status:
            return status
        before = game.model.mix.copy(), game.value.copy()
        changed, delta = improve(kappa)
        run.iterations += 1
        run.count("rounds")
        objective = None
        if run.hook is not None and run.seconds > 2 and proving < 0.1 * run.seconds:
            began = run.seconds
            objective = game.prove(weaker=float)  # float() is 0
            proving += run.seconds - began
        run.report(f"{name}: round {run.iterations}", objective)
        if not changed and delta <= game.precision:
            return None
        if round_ < PATIENCE:
            game.sweep(kappa, 0.01 * delta if changed else game.precision)
            continue
        try:
            game.factorise(1.0, kappa, game.value)
        except SolverFailed:  # rounding cannot tell the mixtures from improper ones
            game.model.mix[:], game.value[:] = before
            return None
        if not changed and np.abs(game.value - before[1]).max() <= 1e-12 * float(np.abs(before[1]).max()):
            return None
    return None


def _choices_in_order(model: UMDP, order: Array, allowed: Array) -> tuple[Array, Array]:
    """Return the allowed choices of each state of `order`, with pointers."""
    graph = model.graph
    choice, owner = members_with_owner(graph.choice_ptr, order)
    keep = allowed[choice]
    counts = np.bincount(owner[keep], minlength=order.size)
    return pointers(counts), choice[keep].astype(np.int32)


def policy_at_hand(model: UMDP, values: OptimalValues | None, run: Run) -> Policy:
    """Return a policy without a search: proper in every sample, if one that is can be found cheaply."""
    if values is not None:
        policy = Policy.from_choices(model.graph, complete_choices(model.graph, values.choice[:, 0]))
        if is_proper(model, policy).all():
            return policy
    game = StepGame.build(StepProblem(model, model.cost, 0.0, None), randomised=False)
    return game.policy(model) if game is not None else fallback(model, run)
