"""The recursion for options of n ≥ 2 steps, by class of options.

- *deterministic*: the game of `options.py` with `Slots`; exact.
- *history*: the same with `Trees`; exact. κ is kept until the options are found, as for mixtures of single steps.
- *stochastic*: begins with the solution of the deterministic class and improves each option by exact programs for one
  time at once (`MixedSlots`), at last from many starts. Then the paper's separable programming (`Separable`) proposes
  another option where there is most room, improved in the same way and taken if it is better. What comes out is no
  worse than the deterministic solution and need not be the best; `history` bounds it from below, and the status is
  "unproved" unless the two meet.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from rue._arrays import Array
from rue.errors import BadInput
from rue.fallbacks import fallback, infeasible
from rue.model import UMDP
from rue.policy import complete_choices
from rue.recursion import option_kernels as kernel
from rue.recursion.inner import Engine, Layers, Problem, Separable, SequenceForm, Table1
from rue.recursion.inner.controller import assemble
from rue.recursion.inner.field import Found, Layout, Round
from rue.recursion.inner.programs import Programs
from rue.recursion.inner.slots import MixedSlots, Slots
from rue.recursion.inner.trees import Trees
from rue.recursion.one_step import Board
from rue.recursion.option_start import Kind, start_game
from rue.recursion.options import OptionGame, improve_options, solve_options
from rue.solution import Interval, Outcome, Run, Status

# How many separable programs are solved, and the nodes of each: they are hard, and a heuristic.
PROPOSALS, PROPOSAL_NODES = 4, 20
# Room above the bound, as a fraction of the value, for which they are not worth it.
WORTH = 1e-4
FEW_STARTS, MANY_STARTS = 2, 16


@dataclass(frozen=True, eq=False)
class Task:
    """A recursion of n steps on a model, with what is known before it begins."""

    model: UMDP
    gap: Array  # [C, K]
    gap_error: float
    kept: Array | None  # [C] choices that were not pruned
    board: Board | None  # the solution of single steps, if there is one
    name: str
    steps: int
    kappa: float  # in units of cost
    scale: float

    def start(self, kind: Kind, run: Run) -> OptionGame | None:
        """The game with options of some kind, if there are any that count."""
        return start_game(
            self.model, self.gap, self.gap_error, self.kept, self.steps, kind, self.board, self.scale, run
        )  # fmt: skip

    @property
    def elsewhere(self) -> Array:  # [S]
        """Choices where no option is needed: those of single steps, or the first."""
        graph = self.model.graph
        return complete_choices(graph, np.full(graph.states, -1)) if self.board is None else self.board.choices(graph)

    def problem(self, layout: Layout, state: int) -> Problem:
        """The inner problem at a state, with the choices, gaps and probabilities of a layout."""
        kept = np.zeros(self.model.graph.choices, bool)
        kept[layout.choice_id] = True
        gap, prob = np.zeros_like(self.gap), np.zeros_like(self.model.prob)
        gap[layout.choice_id] = layout.field.gap
        prob[layout.transition] = layout.field.prob
        return replace(Problem.of(self.model, gap, kept, self.steps, state), prob=prob)

    def give_up(self, run: Run, status: Status | None = None) -> Outcome:
        """No options that count, or a limit before any were found."""
        status = status or run.stop()
        if status is None:
            return infeasible(self.model, run)
        policy = fallback(self.model, run) if self.board is None else self.board.policy(self.model)
        return Outcome(policy, Interval(0.0, np.inf), status)

    def outcome(self, game: OptionGame, objective: Interval, status: Status | None, run: Run) -> Outcome:
        """The policy of a game, and what is proved; single steps if there is no time to put it together."""
        policy = assemble(self.model, game.options, self.elsewhere, run)
        if policy is None:
            return self.give_up(run, Status.TIME_LIMIT)
        return Outcome(policy, objective, status or Status.SOLVED)


def solve_deterministic(task: Task, engine: str, run: Run) -> Outcome:
    """Deterministic options of state and time, by branch and bound or, if HiGHS is asked for, by Table 1.

    From three steps on histories come first: they take less time, their beliefs help the search, and should a limit
    come before it has proved anything, their bound holds for it too.
    """
    game = task.start(_kind(task, Slots, Table1, engine), run)
    if game is None:
        return task.give_up(run)
    trees, bound = None, 0.0
    if engine == "auto" and task.steps > 2:
        trees = _trees(task, run)
    if trees is not None:
        _, proved = solve_options(trees, run, f"{task.name}: bound", task.kappa)
        bound = proved.lower
    if trees is not None and np.array_equal(trees.order, game.order):
        game.options.belief[:] = trees.options.belief
    status, objective = solve_options(game, run, task.name, 0.0)
    return task.outcome(game, _proved(task, max(objective.lower, bound), objective.upper), status, run)


def solve_history(task: Task, engine: str, run: Run) -> Outcome:
    """Options of the whole history, by column generation or, if HiGHS is asked for, by the sequence form.

    Improving mixtures may be slow where nothing is paid for very long. If that leaves the proof open, the deterministic
    solution is another place to begin.
    """
    game = task.start(_kind(task, Trees, SequenceForm, engine), run)
    if game is None:
        return task.give_up(run)
    status, objective = solve_options(game, run, task.name, task.kappa)
    if status is None and objective.width > 1e-6 * objective.upper and isinstance(game.options, Trees):
        pure = task.start(Slots, run)
        if pure is not None and np.array_equal(pure.order, game.order):
            status, other = solve_options(pure, run, f"{task.name}: deterministic", 0.0)
            if other.upper < objective.upper and isinstance(pure.options, Slots):
                game.options.begin_with(pure.options, _numbers(task, pure))
                game.value[:] = pure.value
                game.forget()
                status, again = solve_options(game, run, task.name, task.kappa)
                lower = max(objective.lower, again.lower)
                if other.upper < again.upper:
                    return task.outcome(pure, _proved(task, lower, other.upper), status, run)
                objective = _proved(task, lower, again.upper)
    return task.outcome(game, objective, status, run)


def solve_stochastic(task: Task, engine: str, breakpoints: int, run: Run) -> Outcome:
    """Stochastic options of state and time: alternation from the deterministic solution, and proposals."""
    pure = task.start(Slots, run)
    if pure is None:
        return task.give_up(run)
    status, objective = solve_options(pure, run, task.name, 0.0)
    if status:
        return task.outcome(pure, objective, status, run)
    mixed = MixedSlots(pure.layout)
    assert isinstance(pure.options, Slots)
    mixed.begin_with(pure.options, _numbers(task, pure))
    game = OptionGame(task.model, mixed, task.gap_error, task.scale)
    game.value[:] = pure.value
    status = improve_options(game, run, task.name, task.kappa) or _shake(game, run, task)
    trees = None if status else _trees(task, run)
    lower = 0.0
    if trees is not None:
        status, bound = solve_options(trees, run, f"{task.name}: bound", task.kappa)
        lower = bound.lower
    backend: Literal["highs", "scip"] = "scip" if engine == "scip" else "highs"
    if trees is not None and status is None:
        status = _propose(task, game, trees.value, breakpoints, backend, run)
    game.evaluate(0.0)
    upper = game.upper()
    if not upper <= objective.upper:  # κ did not go well with a very long way
        game, upper = pure, objective.upper
    return task.outcome(game, _proved(task, lower, upper), status, run)


def _trees(task: Task, run: Run) -> OptionGame | None:
    """The game with options of the whole history, for a bound; None if there are too many histories to keep."""
    with suppress(BadInput):
        return task.start(Trees, run)
    return None


def _proved(task: Task, lower: float, upper: float) -> Interval:
    return Interval.proved(lower, upper, f"{task.name}: R")


def _shake(game: OptionGame, run: Run, task: Task) -> Status | None:
    """Alternation from many starts, until that finds nothing better either."""
    mixed = game.options
    assert isinstance(mixed, MixedSlots)
    mixed.starts = MANY_STARTS
    game.forget()
    status = improve_options(game, run, task.name, task.kappa)
    mixed.starts = FEW_STARTS
    return status


def _propose(
    task: Task, game: OptionGame, bound: Array, breakpoints: int, backend: Literal["highs", "scip"], run: Run
) -> Status | None:
    """Let separable programming propose an option wherever the bound leaves room, the widest room first."""
    mixed = game.options
    assert isinstance(mixed, MixedSlots)
    room = game.value[game.order] - bound[game.order]
    for i in np.argsort(-room, kind="stable")[:PROPOSALS].tolist():
        if run.stop() or room[i] <= WORTH * game.value[game.order[i]]:
            break
        state = int(game.order[i])
        program = Separable(task.problem(game.layout, state), breakpoints, backend, PROPOSAL_NODES)
        answer = program.solve(game.value, run.seconds_left)
        run.count("programs")
        run.report(f"{task.name}: separable program at state {state}")
        if _try(game, mixed, i, program.layers, answer.weight):
            run.count("proposals taken")
    return run.stop() or improve_options(game, run, task.name, task.kappa)


def _try(game: OptionGame, mixed: MixedSlots, i: int, layers: Layers, weight: Array) -> bool:
    """Take a proposed option, improved by alternation, if it is better than the present one."""
    value = game.value
    kernel.look_ahead(game.layout.field, value, game.ahead)
    given = Round(
        value, value, game.steps, game.value[game.order], 1e-12 * game.scale, accept=True, ahead=game.ahead
    )  # fmt: skip
    before, present = mixed.table(i).copy(), mixed.worst(value)[i]
    mixed.set_table(i, layers.step, layers.node_state, layers.entry_node, layers.choice, weight)
    mixed.improve(np.array([i]), given, Found(game.layout.size), np.zeros(1, bool))
    if mixed.worst(value)[i] < present - 1e-9 * game.scale:
        return True
    mixed.table(i)[:] = before
    mixed.make_rows(np.array([i]))
    return False


def _numbers(task: Task, game: OptionGame) -> Array:  # [S]
    """The choices elsewhere in the numbers of the game's field; where they were pruned, the first that is left."""
    layout = game.layout
    own = layout.number[task.elsewhere]
    return np.asarray(np.where(own >= 0, own, layout.field.choice_ptr[:-1]), np.int32)


def _kind(task: Task, kernel_kind: Kind, engine_class: Callable[[Problem], Engine], engine: str) -> Kind:
    """The options of a class, by the engine asked for."""
    if engine == "auto":
        return kernel_kind

    def problem(layout: Layout, root: int) -> Engine:
        return engine_class(task.problem(layout, root))

    return lambda layout: Programs(layout, task.model.graph, problem)
