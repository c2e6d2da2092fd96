"""The options to begin with: proper against an adversary who picks a sample whenever an option begins."""

from collections.abc import Callable

import numpy as np

from rue._arrays import Array
from rue.model import UMDP
from rue.recursion.inner.option_set import OptionSet
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.option_tree_kernels import HUGE, INFINITE, Round, add_end_values
from rue.recursion.one_step import StepGame, StepProblem
from rue.recursion.option_game import OptionGame, improve_in_parallel
from rue.solution import Run

OptionClass = Callable[[OptionTree], OptionSet]


def start_game(
    problem: StepProblem, steps: int, option_class: OptionClass, single: StepGame | None, scale: float, run: Run
) -> OptionGame | None:
    """Return the game with options that are proper against the adversary, if there are any, without pruning if need be.

    The solution of single steps is used wherever there is one; otherwise options are searched for.
    """
    model, graph = problem.model, problem.model.graph
    order = single.order if single is not None else None
    for within in (problem.kept, None) if problem.kept is not None else (None,):
        mask = np.ones(graph.choices, bool) if within is None else within
        tree = OptionTree.build(model, problem.gap, mask, steps, order, ~graph.goal)
        if single is not None and np.isfinite(single.value).all() and _covers(single, tree, mask):
            options = option_class(tree)
            options.repeat(tree.number[single.choices(graph)], run)
            if run.out_of_time():
                return None
            game = OptionGame(model, options, problem.gap_error, scale)
            game.value[single.order] = single.value[single.order]
            return game
        found = _safe_options(problem, mask, steps, option_class, order, run)
        if found is not None:
            game = OptionGame(model, found, problem.gap_error, scale)
            game.value[~graph.goal] = HUGE
            game.start_above(0.0, run)
            return game
        if run.stop():
            return None
    return None


def _covers(single: StepGame, tree: OptionTree, mask: Array) -> bool:
    """Return whether the solution of single steps has a choice, kept for options, in all states they may visit."""
    visited = np.zeros(single.value.size, bool)
    visited[tree.layers.state] = True
    visited[tree.model.goal] = False
    visited[single.order] = False
    return not visited.any() and bool(mask[single.used].all())


def _safe_options(
    problem: StepProblem, mask: Array, steps: int, option_class: OptionClass, order: Array | None, run: Run
) -> OptionSet | None:
    """Return options that reach a goal with probability one against the adversary, from the initial state and all ends.

    They begin at the largest set of states each of which has an option that stays within, in every sample, and has a
    chance in every sample to end nearer to a goal: with 0 at the states that are known to be nearer, 1 at others of the
    set and infinity elsewhere, an option that costs less than 1. States without one are removed, and the search begins
    again.
    """
    model, graph = problem.model, problem.model.graph
    safe = ~graph.goal
    forbidden = np.where(problem.gap >= INFINITE, HUGE, 0.0)
    equal = _equal_chances(model)
    while safe[graph.initial]:
        tree = OptionTree.build(model, forbidden, mask, steps, order, safe).with_numbers(forbidden, equal)
        options = option_class(tree)
        far = np.full(graph.states, HUGE)
        far[tree.layers.root] = 1.0
        far[graph.goal] = 0.0
        last_cost, nothing = np.empty_like(tree.model.gap), np.zeros(graph.states)
        level, stop = np.ones(tree.size), np.zeros(1, bool)
        done = np.zeros(tree.size, bool)
        while True:
            add_end_values(tree.model, far, last_cost)
            given = Round(last_cost, far, far, nothing, level, 0.0, True, np.inf, stop)
            improve_in_parallel(options, np.flatnonzero(~done), given, run)
            if run.stop():
                return None
            nearer = _lead_nearer(options, far)
            if not (nearer & ~done).any():
                break
            done |= nearer
            far[tree.layers.root[done]] = 0.0
        if done.all():
            options.adopt(tree.with_numbers(problem.gap, model.prob))
            return options
        safe[tree.layers.root[~done]] = False
    return None


def _equal_chances(model: UMDP) -> Array:  # [T, K]
    """Return equal probabilities for all outcomes that are possible: only that counts, not how likely they are."""
    possible = model.prob > 0
    fan = np.add.reduceat(possible, model.graph.trans_ptr[:-1], axis=0)
    return np.asarray(possible / np.repeat(fan, np.diff(model.graph.trans_ptr), axis=0))


def _lead_nearer(options: OptionSet, far: Array) -> Array:  # [N]
    """Return which options may end, in every sample, where `far` is 0, and never where it is infinite."""
    tree, rows = options.tree, options.rows
    end = far[tree.end_state]
    near = np.add.reduceat(rows.share * (end == 0)[:, None], tree.end_ptr[:-1])
    lost = np.add.reduceat(rows.share * (end > 1)[:, None], tree.end_ptr[:-1])
    return np.asarray((near > 0).all(axis=1) & (lost == 0).all(axis=1) & (rows.paid < INFINITE).all(axis=1))
