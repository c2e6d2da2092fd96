"""One recursion, three objectives: regret (`reg`), myopic regret (`cemr`) and cost (`robust`).

With a gap g_k for each choice and sample,

| solver         | gap g_k(s,a)                                                    | the paper    |
|----------------|-----------------------------------------------------------------|--------------|
| `Regret`       | C̄_k(s,a) + Σ T_k(s,a,s') V*_k(s') − V*_k(s)                     | reg, Q^gap   |
| `MyopicRegret` | C̄_k(s,a) − min_b C̄_k(s,b), over all actions                    | cemr, Def. 3 |
| `WorstCase`    | C̄_k(s,a)                                                        | robust       |

all three solve, at n = 1,

    R(s) = min over x of  max over k of  Σ_a x(a) [ g_k(s,a) + Σ T_k(s,a,s') R(s') ],      R(goal) = 0

where x is one action ("deterministic") or a distribution over actions, which makes each state a matrix game
("stochastic", and at n = 1 also "history"). The adversary may change the sample at every step, so R at the initial
state with the regret gap is an *upper bound* on the policy's true max regret (first half of Prop. 5). It is exact for
no class of models (see the paper's corrigendum).

*Which policies count.* Those that reach a goal with probability one whatever samples the adversary picks; all others
cost infinity. If there is none, the status is "infeasible" and the policy is a fallback.

*How.* Policy iteration against the adversary: one greedy sweep, then sweeps in which only the adversary improves,
outward from the goals. It starts above the value of a proper policy, so that each policy on the way is proper. κ > 0
is added to every step (as in Algorithm 1), which makes ties prefer the shorter way; remaining ties go to the action
with the lowest index. Then κ is taken out again: the policy is evaluated, and improved where that is possible, without
it.

*What is proved.* `objective` bounds R without κ. R + εw ≥ the backup of R + εw under the returned policy, for all
samples, bounds from above; R − εw ≤ the backup of R − εw for every choice, under the adversary's answer to it,
bounds from below every policy that counts. w bounds the number of steps; rounding and the error of V* are on the
safe side. Where choices that cost the adversary nothing can go round for ever there may be no such w, and the lower
end falls back to a weaker bound: the largest V*_k for cost, and else 0.

*Pruning* (the paper's "Action Pruning") keeps the choices that are optimal in at least one sample, ties included. The
objective is then that of the pruned problem.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from rue._check import flag, one_of, real_number, whole_number
from rue._flat import Array
from rue._kernels import game
from rue._linear import ranges, solve_chain
from rue.errors import BadInput, SolverFailed
from rue.evaluate import is_proper
from rue.model import UMDP
from rue.optimal import OptimalValues, optimal_values
from rue.policy import Policy
from rue.solution import Interval, Outcome, Run, Solver, Status
from rue.solvers.base import complete_choices, infeasible
from rue.structure import robustly_proper

Options = Literal["deterministic", "stochastic", "history"]
OPTIONS = ("deterministic", "stochastic", "history")

SWEEPS = 30
# After so many rounds of sweeps the adversary's chain is evaluated by factorisation.
PATIENCE = 60
MOST_STEPS = 1e13
# A choice counts as optimal in a sample, for pruning, if its gap is below this fraction of the largest value.
OPTIMAL_TIE = 1e-9


@dataclass(frozen=True)
class Recursion(Solver):
    """Parameters of the three solvers. `kappa` is a fraction of the model's typical cost."""

    steps: int = 1
    options: Options = "deterministic"
    prune: bool = field(default=True, kw_only=True)
    kappa: float = field(default=1e-9, kw_only=True)

    def __post_init__(self) -> None:
        one_of("options", self.options, OPTIONS)
        object.__setattr__(self, "steps", whole_number("steps", self.steps, 1))
        if self.steps > 1:
            raise BadInput(f"steps is {self.steps}; this version solves steps=1 only")
        flag("prune", self.prune)
        wanted = "a number from 0 to 1, a fraction of the typical cost"
        if real_number("kappa", self.kappa, wanted, 0, 1) == 1:
            raise BadInput(f"kappa is {self.kappa}; expected {wanted}")

    def gap(self, model: UMDP, values: OptimalValues | None) -> Array:  # [C, K]
        """g_k of every choice; `values` are there if `needs_values` says so."""
        raise NotImplementedError

    needs_values: ClassVar[bool] = False

    def run(self, model: UMDP, run: Run) -> Outcome:
        """Set up the game, solve it with single choices, then, if wanted, with mixtures; prove what was found."""
        values = None
        if self.needs_values or self.prune:
            values = optimal_values(model, run=run)
        if run.stop():
            return _give_up(model, values, run)
        gap = self.gap(model, values)
        gap_error = 2 * values.error if values is not None and self.needs_values else 0.0
        kept = None
        if values is not None and self.prune:
            kept = optimal_somewhere(model, values, gap if self.needs_values else regret_gap(model, values))
        if run.stop():
            return _give_up(model, values, run)
        board = _Board.build(model, gap, gap_error, kept, randomised=False)
        status = None
        if board is not None:
            if run.stop() or not board.start_above(self.kappa * board.scale, run):
                return _give_up(model, values, run)
            status = _solve_pure(board, self.kappa * board.scale, run, self.name)
        if self.options != "deterministic":
            board = _Board.randomised(model, gap, gap_error, kept, board, run)
            if board is not None and status is None:
                status = _solve_mixed(board, self.kappa * board.scale, run, self.name)
        if board is None:
            return infeasible(model)
        objective = board.prove(weaker=lambda: self._weaker_bound(model, run))
        run.report(f"{self.name}: proved", objective)
        return Outcome(board.policy(model), objective, status or Status.SOLVED)

    def _weaker_bound(self, model: UMDP, run: Run) -> float:
        return 0.0


@dataclass(frozen=True)
class Regret(Recursion):
    """The paper's method: the least worst-case regret against an adversary who picks a sample at every step.

    `solution.objective` bounds R(initial); the policy's true max regret is at most its upper end.
    """

    name = "reg"
    measures = "regret"
    needs_values = True

    def gap(self, model: UMDP, values: OptimalValues | None) -> Array:
        """Q^gap of Prop. 1."""
        assert values is not None
        return regret_gap(model, values)


@dataclass(frozen=True)
class MyopicRegret(Recursion):
    """Cumulative expected myopic regret (CEMR): each step is compared with the cheapest action of its state."""

    name = "cemr"
    measures = "myopic regret"

    def gap(self, model: UMDP, values: OptimalValues | None) -> Array:
        """C̄_k(s,a) − min_b C̄_k(s,b), over all actions, before pruning."""
        gap = np.empty_like(model.cost)
        game.myopic_gap(model.graph.choice_ptr, model.cost, gap)
        return _frozen(gap)


@dataclass(frozen=True)
class WorstCase(Recursion):
    """Robust dynamic programming: the least expected cost against an adversary who picks a sample at every step.

    Not pruned unless asked for, as in the paper.
    """

    name = "robust"
    measures = "worst-case cost"
    prune: bool = field(default=False, kw_only=True)

    def gap(self, model: UMDP, values: OptimalValues | None) -> Array:
        """The cost itself."""
        return model.cost

    def _weaker_bound(self, model: UMDP, run: Run) -> float:
        return 0.0 if run.stop() else float(optimal_values(model, run=run).lower[model.graph.initial].max())


def typical_cost(model: UMDP) -> float:
    """The median, over choices that cost something, of their largest cost: the unit of κ and of tolerances."""
    cost = model.cost.max(axis=1, initial=0.0)
    return float(np.median(cost[cost > 0])) if (cost > 0).any() else 1.0


def regret_gap(model: UMDP, values: OptimalValues) -> Array:  # [C, K]
    """Q^gap of every choice and sample; each is off by no more than 2·`values.error`."""
    graph = model.graph
    gap = np.empty_like(model.cost)
    game.regret_gap(graph.choice_ptr, graph.trans_ptr, graph.successor, model.prob, model.cost, values.value, gap)
    return _frozen(gap)


def optimal_somewhere(model: UMDP, values: OptimalValues, gap: Array) -> Array:  # [C]
    """The choices whose regret gap is zero in at least one sample in which their state is no dead end."""
    tie = OPTIMAL_TIE * float(values.value[~values.dead].max(initial=0.0)) + 2 * values.error
    keep = gap <= tie
    keep &= ~values.dead[model.graph.choice_state]
    return np.asarray(keep.any(axis=1))


@dataclass(eq=False)
class _Board:
    """The game on the states from which the agent can force a goal, with the policy and values found so far."""

    initial: int
    order: Array  # [n] states, nearest to a goal first
    kept_ptr: Array  # [n+1]
    kept: Array  # choices
    mix: Array  # their probabilities
    trans_ptr: Array
    successor: Array
    prob: Array
    gap: Array
    gap_error: float
    value: Array  # [S]
    steps: Array  # [S] bounds on the policy's number of steps, as far as they were counted
    belief: Array  # [n, K] the adversary's answer, or [0, K] where it sees the choice
    scale: float

    @classmethod
    def build(
        cls, model: UMDP, gap: Array, gap_error: float, kept: Array | None, *, randomised: bool
    ) -> "_Board | None":
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
        cls, model: UMDP, gap: Array, gap_error: float, kept: Array | None, pure: "_Board | None", run: Run
    ) -> "_Board | None":
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

    def lift(self, amount: float, run: Run) -> None:
        """Raise the values by what `amount` more per step can come to under the policy."""
        short = self.count_steps(run)
        self.value[self.order] += amount / (1 - min(short, 0.5)) * self.steps[self.order]

    def count_steps(self, run: Run | None = None) -> float:
        """Bound the policy's number of steps against any adversary, up to what is returned; infinite if unknown.

        It goes on from the steps that were counted last.
        """
        game.pack(*self.policy_rows, self.gap, *self.packed)
        self.packed[3][:] = 0.0  # nothing paid but one unit for each step
        short = np.inf
        for _ in range(100):
            short = game.settle(self.order, *self.packed, 1.0, self.steps, SWEEPS, 0.1, MOST_STEPS)
            if short < 0.5 or (run is not None and run.stop()):
                return float(short)
        self.steps[self.order] = 0.0
        try:
            self.factorise(0.0, 1.0, self.steps)
        except SolverFailed:
            return np.inf
        return float(game.settle(self.order, *self.packed, 1.0, self.steps, 1, 0.0, MOST_STEPS))

    @property
    def policy_rows(self) -> tuple[Array, ...]:
        """What most kernels take."""
        return self.order, self.kept_ptr, self.kept, self.mix, self.trans_ptr, self.successor, self.prob

    @cached_property
    def packed(self) -> tuple[Array, ...]:
        """Memory for the rows of a policy (see `game.pack`): enough for all kept choices, touched as far as needed."""
        size, samples = self.order.size, self.prob.shape[1]
        outcomes = int(np.diff(self.trans_ptr)[self.kept].sum())
        return (
            np.empty(size + 1, np.int64),
            np.empty(outcomes, np.int32),
            np.empty((outcomes, samples)),
            np.empty((size, samples)),
            np.empty((size, samples)),
        )

    def settle(self, kappa: float, tolerance: float) -> float:
        """Let the adversary improve against the policy; the last change of a value."""
        game.pack(*self.policy_rows, self.gap, *self.packed)
        return float(game.settle(self.order, *self.packed, kappa, self.value, SWEEPS, tolerance, np.inf))

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
        place = np.full(self.value.size, size)
        place[self.order] = np.arange(size)
        reply = np.zeros(size, np.int64)
        used = np.flatnonzero(self.mix > 0)
        owner = np.repeat(np.arange(size), np.diff(self.kept_ptr))[used]
        choice = self.kept[used]
        length = np.diff(self.trans_ptr)[choice]
        trans = ranges(self.trans_ptr[choice], length)
        row, column = np.repeat(owner, length), place[self.successor[trans]]
        gap = self.gap if gap_share == 1.0 else _frozen(self.gap * gap_share)
        for turn in range(PATIENCE):
            changed = game.replies(*self.policy_rows, gap, kappa, value, reply)
            if turn and not changed:
                return
            share = np.repeat(self.mix[used], length) * self.prob[trans, reply[row]]
            paid = np.bincount(owner, weights=self.mix[used] * (gap[choice, reply[owner]] + kappa), minlength=size)
            value[self.order] = solve_chain(row, column, share, paid)

    def prove(self, weaker: Callable[[], float]) -> Interval:
        """Bounds on R(initial) without κ; `weaker` is the lower one if there is no proof of a better."""
        if self.initial not in self.order:  # it is a goal
            return Interval(0.0, 0.0)
        upper = self._prove_upper()
        lower = self._prove_lower()
        return Interval(min(lower if lower is not None else weaker(), upper), upper)

    def _prove_upper(self) -> float:
        if not self.count_steps() < 0.5:
            return np.inf
        need = game.prove_upper(*self.policy_rows, self.gap, self.gap_error, self.value, self.steps)
        return float(self.value[self.initial] + need * self.steps[self.initial]) if np.isfinite(need) else np.inf

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

    def policy(self, model: UMDP) -> Policy:
        """The policy; where the game was not played, the first choice."""
        graph = model.graph
        weight = np.zeros(graph.choices)
        weight[self.kept] = self.mix
        elsewhere = np.ones(graph.states, bool)
        elsewhere[self.order] = False
        weight[complete_choices(graph, np.full(graph.states, -1))[elsewhere & ~graph.goal]] = 1.0
        return Policy.from_weights(graph, weight)


def _solve_pure(board: _Board, kappa: float, run: Run, name: str) -> Status | None:
    """Policy iteration over single choices, first with κ and then without; says why it stopped early."""
    tolerance = 1e-12 * board.scale

    def improve(kappa_now: float, slack: float = tolerance, break_ties: bool = False) -> tuple[int, float]:
        changed, delta = game.improve_pure(*board.policy_rows, board.gap, kappa_now, board.value, slack, break_ties)
        return changed, delta

    if kappa > 0:
        status = _iterate(board, improve, kappa, run, name)
        if status:
            return status
        improve(kappa, slack=1e-3 * kappa, break_ties=True)
        board.evaluate(0.0)  # or what is left of κ would look like a reason to change a choice
    return _iterate(board, improve, 0.0, run, name)


def _solve_mixed(board: _Board, kappa: float, run: Run, name: str) -> Status | None:
    """Policy iteration over mixtures, one matrix game for each state and round; says why it stopped early.

    κ stays in until the policy is found: without it there may be no best mixture, only ever better ones that take
    ever longer.
    """

    def improve(kappa_now: float) -> tuple[int, float]:
        changed, delta, pivots = game.improve_mixed(
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
    board: _Board, improve: Callable[[float], tuple[int, float]], kappa: float, run: Run, name: str
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


def _give_up(model: UMDP, values: OptimalValues | None, run: Run) -> Outcome:
    """A limit came before the game began: a policy that is proper in every sample if one is at hand, and no bound."""
    status = run.stop() or Status.TIME_LIMIT
    if values is not None:
        policy = Policy.from_choices(model.graph, complete_choices(model.graph, values.choice[:, 0]))
        if is_proper(model, policy).all():
            return Outcome(policy, Interval(0.0, np.inf), status)
    board = _Board.build(model, model.cost, 0.0, None, randomised=False)
    policy = board.policy(model) if board is not None else infeasible(model).policy
    return Outcome(policy, Interval(0.0, np.inf), status)


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array
