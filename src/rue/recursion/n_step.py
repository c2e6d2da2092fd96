"""The recursion for options of n ≥ 2 steps, by class of options.

- *deterministic*: the game of `option_game.py` with `DeterministicTables`; exact.
- *history*: the same with `TreeMixtures`; exact. κ is kept until the options are found, as for single mixed steps.
- *stochastic*: begins with the solution of the deterministic class and improves each option by exact programs for one
  time at once (`MixedTables`), at last from many starts. Then the paper's separable programming (`Separable`) proposes
  another option where there is most room, improved in the same way and taken if it is better. The result is no
  worse than the deterministic solution and need not be the best; `history` bounds it from below, and the status is
  "unproved" unless the two meet.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from rue._arrays import Array
from rue.errors import BadInput, SolverFailed
from rue.fallbacks import fallback, infeasible
from rue.model import UMDP
from rue.policy import complete_choices
from rue.recursion.inner.controller import assemble
from rue.recursion.inner.histories import TreeMixtures
from rue.recursion.inner.layers import OptionProgram
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.programs import Programs
from rue.recursion.inner.separable import Separable
from rue.recursion.inner.sequence import SequenceForm
from rue.recursion.inner.table1 import Table1
from rue.recursion.inner.tables import FEW_STARTS, DeterministicTables, MixedTables
from rue.recursion.one_step import StepGame, StepProblem
from rue.recursion.option_game import OptionGame, improve_options, solve_options
from rue.recursion.start import OptionClass, start_game
from rue.solution import Interval, Outcome, Run, Status

OptionName = Literal["deterministic", "stochastic", "history"]  # the keys of OPTION_KINDS

# How many separable programs are solved, and the nodes of each: they are hard, and a heuristic.
PROPOSALS, PROPOSAL_NODES = 4, 20
# Room above the bound, as a fraction of the value, below which they are not worth it.
WORTH = 1e-4
# Tables that the alternation starts from at the end.
MANY_STARTS = 16
# A wider objective makes histories begin again from the deterministic solution: a fraction of its upper end.
WIDE = 1e-6


@dataclass(frozen=True, eq=False)
class NStepProblem:
    """A recursion of n steps on a model, with what is known before it begins."""

    step: StepProblem
    single: StepGame | None  # the solution of single steps, if there is one
    name: str
    steps: int
    kappa: float  # in units of cost
    scale: float
    engine: str = "auto"
    breakpoints: int = 3

    @property
    def model(self) -> UMDP:
        """The model."""
        return self.step.model

    def start(self, option_class: OptionClass, run: Run) -> OptionGame | None:
        """Return the game with options of a class, if there are any that count."""
        return start_game(self.step, self.steps, option_class, self.single, self.scale, run)

    def start_histories(self, game: OptionGame, run: Run) -> OptionGame | None:
        """Return the game with options of the whole history, for a bound; None if there are too many histories.

        The other game may need choices that were pruned. Then histories get all choices too, or they would not bound
        it.
        """
        kept = self.step.kept
        if kept is not None and (game.tree.number[~kept] >= 0).any():
            kept = None
        with suppress(BadInput):
            step = replace(self.step, kept=kept)
            return start_game(step, self.steps, TreeMixtures, self.single, self.scale, run)
        return None

    def solve(self, game: OptionGame, run: Run, kappa: float = 0.0, what: str = "") -> tuple[Status | None, Interval]:
        """Solve a game; return why it stopped early, and bounds on R."""
        return solve_options(game, run, f"{self.name}: {what}" if what else self.name, kappa)

    @property
    def elsewhere(self) -> Array:  # [S]
        """Choices where no option is needed: those of single steps, or the first."""
        graph = self.model.graph
        if self.single is None:
            return complete_choices(graph, np.full(graph.states, -1))
        return self.single.choices(graph)

    def elsewhere_in(self, tree: OptionTree) -> Array:  # [S]
        """Return the choices elsewhere in the numbers of a tree; where they were pruned, the first that is left."""
        own = tree.number[self.elsewhere]
        return np.asarray(np.where(own >= 0, own, tree.model.choice_ptr[:-1]), np.int32)

    def give_up(self, run: Run, status: Status | None = None) -> Outcome:
        """Return an outcome without options: there are none that count, or a limit came before any were found."""
        status = status or run.stop()
        if status is None:
            return infeasible(self.model, run)
        policy = fallback(self.model, run) if self.single is None else self.single.policy(self.model)
        return Outcome(policy, Interval(0.0, np.inf), status)

    def outcome(self, game: OptionGame, objective: Interval, status: Status | None, run: Run) -> Outcome:
        """Return the policy of a game, and bounds on R; single steps if there is no time to put it together."""
        policy = assemble(self.model, game.options, self.elsewhere, run)
        if policy is None:
            return self.give_up(run, Status.TIME_LIMIT)
        return Outcome(policy, objective, status or Status.SOLVED)

    def bounds(self, lower: float, upper: float) -> Interval:
        """Return proved bounds on R."""
        return Interval.proved(lower, upper, f"{self.name}: R")


def solve_deterministic(problem: NStepProblem, run: Run) -> Outcome:
    """Solve with deterministic tables, by branch and bound or, if HiGHS is asked for, by Table 1.

    From three steps on histories come first: they take less time, their beliefs help the search, and should a limit
    come before it has proved anything, their bound holds for it too.
    """
    game = problem.start(_class(problem, DeterministicTables, Table1), run)
    if game is None:
        return problem.give_up(run)
    histories, bound = None, 0.0
    if problem.engine == "auto" and problem.steps > 2:
        histories = problem.start_histories(game, run)
    if histories is not None:
        _, proved = problem.solve(histories, run, problem.kappa, "bound")
        bound = proved.lower
        if np.array_equal(histories.order, game.order):
            game.options.found.belief[:] = histories.options.found.belief
    status, objective = problem.solve(game, run)
    return problem.outcome(game, problem.bounds(max(objective.lower, bound), objective.upper), status, run)


def solve_history(problem: NStepProblem, run: Run) -> Outcome:
    """Solve with options of the whole history, by column generation or, if HiGHS is asked for, by the sequence form."""
    game = problem.start(_class(problem, TreeMixtures, SequenceForm), run)
    if game is None:
        return problem.give_up(run)
    status, objective = problem.solve(game, run, problem.kappa)
    if status is None and objective.width > WIDE * objective.upper and isinstance(game.options, TreeMixtures):
        return _solve_history_again(problem, game, game.options, objective, run)
    return problem.outcome(game, objective, status, run)


def _solve_history_again(
    problem: NStepProblem, game: OptionGame, options: TreeMixtures, objective: Interval, run: Run
) -> Outcome:
    """Begin again from the deterministic solution, where that is better.

    Improving mixtures may be slow where nothing is paid for very long, which leaves the proof open.
    """
    pure = problem.start(DeterministicTables, run)
    if (
        pure is None
        or not np.array_equal(pure.order, game.order)
        or not np.array_equal(pure.tree.number, game.tree.number)
    ):
        return problem.outcome(game, objective, None, run)
    status, other = problem.solve(pure, run, 0.0, "deterministic")
    if not other.upper < objective.upper or not isinstance(pure.options, DeterministicTables):
        return problem.outcome(game, objective, status, run)
    options.begin_with(pure.options, problem.elsewhere_in(pure.tree))
    game.value[:] = pure.value
    options.forget()
    status, again = problem.solve(game, run, problem.kappa)
    better = pure if other.upper < again.upper else game
    lower, upper = max(objective.lower, again.lower), min(other.upper, again.upper)
    return problem.outcome(better, problem.bounds(lower, upper), status, run)


def solve_stochastic(problem: NStepProblem, run: Run) -> Outcome:
    """Solve with stochastic tables: alternation from the deterministic solution, and proposals."""
    pure = problem.start(DeterministicTables, run)
    if pure is None:
        return problem.give_up(run)
    status, objective = problem.solve(pure, run)
    if status:
        return problem.outcome(pure, objective, status, run)
    mixed = MixedTables(pure.tree)
    assert isinstance(pure.options, DeterministicTables)
    mixed.begin_with(pure.options, problem.elsewhere_in(pure.tree))
    game = OptionGame(problem.model, mixed, problem.step.gap_error, problem.scale)
    game.value[:] = pure.value
    status = improve_options(game, run, problem.name, problem.kappa)
    if status is None:
        mixed.starts = MANY_STARTS
        mixed.forget()
        status = improve_options(game, run, problem.name, problem.kappa)
        mixed.starts = FEW_STARTS
    histories = None if status else problem.start_histories(pure, run)
    lower = 0.0
    if histories is not None:
        status, bound = problem.solve(histories, run, problem.kappa, "bound")
        lower = bound.lower
    if histories is not None and status is None:
        status = _propose(problem, game, mixed, histories.value, run)
    game.evaluate(0.0)
    upper = game.upper()
    if not upper <= objective.upper:  # κ misleads where a policy takes very many steps
        game, upper = pure, objective.upper
    return problem.outcome(game, problem.bounds(lower, upper), status, run)


class OptionKind(NamedTuple):
    """A class of options that users can name."""

    solve: Callable[[NStepProblem, Run], Outcome]  # for two steps or more
    randomised: bool  # whether an option of one step draws its choice
    kernels: frozenset[str]  # kernel files besides those of deterministic options of two steps


# By name. The first letter is its short form: `reg-h2`.
OPTION_KINDS = {
    "deterministic": OptionKind(solve_deterministic, False, frozenset()),
    "stochastic": OptionKind(solve_stochastic, True, frozenset({"history_kernels", "mixed_table_kernels"})),
    "history": OptionKind(solve_history, True, frozenset({"history_kernels"})),
}


def _propose(problem: NStepProblem, game: OptionGame, mixed: MixedTables, bound: Array, run: Run) -> Status | None:
    """Let separable programming propose an option where the bound leaves most room; return why it stopped early."""
    backend: Literal["highs", "scip"] = "scip" if problem.engine == "scip" else "highs"
    room = game.value[game.order] - bound[game.order]
    for i in np.argsort(-room, kind="stable")[:PROPOSALS].tolist():
        if run.stop() or room[i] <= WORTH * game.value[game.order[i]]:
            break
        program = Separable(game.tree, i, problem.breakpoints, backend, PROPOSAL_NODES)
        run.count("programs")
        try:
            answer = program.solve(game.value, run.seconds_left)
        except SolverFailed:  # nothing is lost: it is a heuristic
            continue
        run.report(f"{problem.name}: separable program at state {int(game.order[i])}")
        if _try(game, mixed, i, answer.weight, run):
            run.count("proposals taken")
    return run.stop() or improve_options(game, run, problem.name, problem.kappa)


def _try(game: OptionGame, mixed: MixedTables, i: int, weight: Array, run: Run) -> bool:
    """Take a proposed option, improved by alternation, if it is better than the present one; return whether it is."""
    given = game.given(game.value, game.value[game.order], 1e-12 * game.scale, True, run)
    table, present, floor = mixed.table(i).copy(), mixed.worst(game.value)[i], mixed.found.floor[i]
    mixed.set_table(i, weight)
    mixed.improve(np.array([i]), given)
    mixed.found.floor[i] = floor
    if mixed.worst(game.value)[i] < present - 1e-9 * game.scale:
        return True
    mixed.set_table(i, table)
    return False


def _class(
    problem: NStepProblem, of_kernels: OptionClass, program: Callable[[OptionTree, int], OptionProgram]
) -> OptionClass:
    """Return the class of options of the engine asked for."""
    return of_kernels if problem.engine == "auto" else lambda tree: Programs(tree, program)
