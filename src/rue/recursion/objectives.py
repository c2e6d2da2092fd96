"""One recursion, three objectives: regret (`reg`), myopic regret (`cemr`) and cost (`robust`).

With a gap g_k for each choice and sample,

| solver         | gap g_k(s,a)                                                    | the paper    |
|----------------|-----------------------------------------------------------------|--------------|
| `Regret`       | C̄_k(s,a) + Σ T_k(s,a,s') V*_k(s') − V*_k(s)                     | reg, Q^gap   |
| `MyopicRegret` | C̄_k(s,a) − min_b C̄_k(s,b), over all actions                    | cemr, Def. 3 |
| `WorstCase`    | C̄_k(s,a)                                                        | robust       |

all three solve, for options o of n steps (the recursion of Algorithm 1),

    R(s) = min over o of  max over k of  E_k[ Σ_{t<n} g_k(s_t, a_t) + R(s_n) ],      R(goal) = 0

The classes of options are "deterministic" and "stochastic", both of state and time as in the paper, and "history": all
that is known within the option, randomised, which contains the other two. At n = 1 an option is one action, or a
distribution over actions, which makes each state a matrix game. The adversary may change the sample whenever an option
begins, so R at the initial state with the regret gap is an *upper bound* on the policy's true max regret (first half of
Prop. 5). It is exact for no class of models (see the paper's corrigendum).

This file sets the game up and says what is proved. Single steps are in `one_step.py`, and the rest of this docstring is
about them; options of more steps are in `n_step.py` and `option_game.py`, with their proof.

*Which policies count.* Those that reach a goal with probability one for all samples that the adversary may pick; all
others cost infinity. If there is none, the status is "infeasible" and the policy is a fallback.

*How.* Policy iteration against the adversary: one greedy sweep, then sweeps in which only the adversary improves,
outward from the goals. It starts above the value of a proper policy, so that each policy on the way is proper. κ > 0
is added to every step (as in Algorithm 1), which makes ties prefer the shorter way; remaining ties go to the action
with the lowest index. Then κ is taken out again: the policy is evaluated, and improved where that is possible, without
it.

*What is proved.* `objective` bounds R without κ. R + εw ≥ the backup of R + εw under the returned policy, for all
samples, bounds from above; R − εw ≤ the backup of R − εw for every choice, under the adversary's answer to it,
bounds from below every policy that counts. w bounds the number of steps; rounding and the error of V* are on the
safe side. Where choices that cost nothing can cycle for ever there may be no such w, and the lower
end falls back to a weaker bound: the largest V*_k for cost, and else 0. The status is then "unproved", not "solved".

*Pruning* (the paper's "Action Pruning") keeps the choices that are optimal in at least one sample, ties included. The
objective is then that of the pruned problem.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from rue._arrays import Array, read_only
from rue._check import flag, one_of, real_number, whole_number
from rue.errors import BadInput
from rue.fallbacks import infeasible
from rue.model import UMDP, typical_cost
from rue.recursion.inner.separable import check_breakpoints
from rue.recursion.n_step import OPTION_KINDS, NStepProblem, OptionKind, OptionName
from rue.recursion.one_step import StepGame, StepProblem, policy_at_hand, solve_mixed, solve_pure
from rue.solution import Interval, Outcome, Run, Solver, Status
from rue.values import OptimalValues, optimal_somewhere, optimal_values, regret_gap

EngineName = Literal["auto", "highs", "scip"]
ENGINES = ("auto", "highs", "scip")

# Options of more steps than this have more histories than any computer has room for; their counts alone would fill it.
MOST_STEPS = 10_000
# The width of the objective up to which it counts as solved: a fraction of it, and of the typical cost.
CLOSED, CLOSED_AT_ZERO = 1e-6, 1e-8


@dataclass(frozen=True)
class Recursion(Solver):
    """Parameters of the three solvers.

    `steps` is n and `options` the class. `prune` keeps only choices that are optimal in some sample. `kappa` is a
    fraction of the model's typical cost. `engine="highs"` solves the inner problems of n ≥ 2 by the paper's programs
    (deterministic, history), `"scip"` the separable programs of stochastic options, which have `breakpoints` points.
    """

    steps: int = 1
    options: OptionName = "deterministic"
    prune: bool = field(default=True, kw_only=True)
    kappa: float = field(default=1e-9, kw_only=True)
    engine: EngineName = field(default="auto", kw_only=True)
    breakpoints: int = field(default=3, kw_only=True)

    def __post_init__(self) -> None:
        one_of("options", self.options, OPTION_KINDS)
        object.__setattr__(self, "steps", whole_number("steps", self.steps, 1, MOST_STEPS))
        flag("prune", self.prune)
        one_of("engine", self.engine, ENGINES)
        if self.engine == "scip" and self.options != "stochastic":
            raise BadInput("engine is scip; expected auto or highs, as scip solves stochastic options only")
        check_breakpoints(self.breakpoints)
        wanted = "a number from 0 to 1, a fraction of the typical cost"
        if real_number("kappa", self.kappa, wanted, 0, 1) == 1:
            raise BadInput(f"kappa is {self.kappa}; expected {wanted}")

    needs_values: ClassVar[bool] = False

    def kernels(self) -> frozenset[str]:
        """Return the kernels that `run` may call: tables from two steps on, histories for three or other options."""
        wanted = {"row_kernels", "one_step_kernels"}
        if self.steps == 1:
            return frozenset(wanted | {"mixed_step_kernels"} if self._kind.randomised else wanted)
        wanted |= {"option_tree_kernels", "node_kernels", "table_kernels", "table_search_kernels"}
        if self.steps > 2:
            wanted.add("history_kernels")
        return frozenset(wanted | self._kind.kernels)

    @property
    def _kind(self) -> OptionKind:
        return OPTION_KINDS[self.options]

    @abstractmethod
    def gap(self, model: UMDP, values: OptimalValues | None) -> Array:  # [C, K]
        """Return g_k of every choice; `values` is given if `needs_values` says so."""

    def run(self, model: UMDP, run: Run) -> Outcome:
        """Set up the game, solve it with single choices, then, if wanted, with mixtures; prove what was found."""
        values = None
        if self.needs_values or self.prune:
            values = optimal_values(model, run=run)
        if run.stop():
            return _give_up(model, values, run)
        problem = self._problem(model, values)
        if run.stop():
            return _give_up(model, values, run)
        game = StepGame.build(problem, randomised=False)
        status = None
        if game is not None:
            if run.stop() or not game.start_above(self.kappa * game.scale, run):
                return _give_up(model, values, run)
            status = solve_pure(game, self.kappa * game.scale, run, self.name)
        if self.steps > 1 and status is None and not model.graph.goal[model.graph.initial]:
            return self._run_steps(problem, game, run)
        if self.steps == 1 and self._kind.randomised:
            game = StepGame.randomised(problem, game, run)
            if game is not None and status is None:
                status = solve_mixed(game, self.kappa * game.scale, run, self.name)
        if game is None:
            return infeasible(model, run)
        objective = game.prove(weaker=lambda: self._weaker_bound(model, run))
        if self.steps > 1 and status:  # a limit came: the single steps, repeated, and no lower bound
            objective = Interval(0.0, objective.upper)
        run.report(f"{self.name}: proved", objective)
        return Outcome(game.policy(model), objective, status or _verdict(objective, game.scale))

    def _problem(self, model: UMDP, values: OptimalValues | None) -> StepProblem:
        """Return the model with its gaps and the choices that were not pruned."""
        gap = self.gap(model, values)
        gap_error = 2 * values.error if values is not None and self.needs_values else 0.0
        kept = None
        if values is not None and self.prune:
            kept = optimal_somewhere(model, values, gap if self.needs_values else regret_gap(model, values))
        return StepProblem(model, gap, gap_error, kept)

    def _run_steps(self, step: StepProblem, single: StepGame | None, run: Run) -> Outcome:
        """Solve with options of more than one step."""
        model, scale = step.model, typical_cost(step.model)
        problem = NStepProblem(
            step, single, self.name, self.steps, self.kappa * scale, scale, self.engine, self.breakpoints
        )
        outcome = self._kind.solve(problem, run)
        objective = outcome.objective
        if not objective.lower > 0 and np.isfinite(objective.upper):
            objective = Interval.proved(self._weaker_bound(model, run), objective.upper, f"{self.name}: R")
        run.report(f"{self.name}: proved", objective)
        status = _verdict(objective, scale) if outcome.status is Status.SOLVED else outcome.status
        return Outcome(outcome.policy, objective, status)

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
        """Return Q^gap of Prop. 1."""
        assert values is not None
        return regret_gap(model, values)


@dataclass(frozen=True)
class MyopicRegret(Recursion):
    """Cumulative expected myopic regret (CEMR): each step is compared with the cheapest action of its state."""

    name = "cemr"
    measures = "myopic regret"

    def gap(self, model: UMDP, values: OptimalValues | None) -> Array:
        """Return C̄_k(s,a) − min_b C̄_k(s,b), over all actions, before pruning."""
        acts, choice_ptr = ~model.graph.goal, model.graph.choice_ptr
        least = np.minimum.reduceat(model.cost, choice_ptr[:-1][acts], axis=0)
        return read_only(model.cost - np.repeat(least, np.diff(choice_ptr)[acts], axis=0))


@dataclass(frozen=True)
class WorstCase(Recursion):
    """Robust dynamic programming: the least expected cost against an adversary who picks a sample at every step.

    Not pruned unless asked for, as in the paper.
    """

    name = "robust"
    measures = "worst-case cost"
    prune: bool = field(default=False, kw_only=True)

    def gap(self, model: UMDP, values: OptimalValues | None) -> Array:
        """Return the cost itself."""
        return model.cost

    def _weaker_bound(self, model: UMDP, run: Run) -> float:
        return 0.0 if run.stop() else float(optimal_values(model, run=run).lower[model.graph.initial].max())


def _verdict(objective: Interval, scale: float) -> Status:
    """Return solved if the bounds meet, else unproved."""
    closed = np.isfinite(objective.upper) and objective.width <= CLOSED * objective.upper + CLOSED_AT_ZERO * scale
    return Status.SOLVED if closed else Status.UNPROVED


def _give_up(model: UMDP, values: OptimalValues | None, run: Run) -> Outcome:
    """Return a policy without a bound: a limit came before the game began."""
    return Outcome(policy_at_hand(model, values, run), Interval(0.0, np.inf), run.stop() or Status.TIME_LIMIT)
