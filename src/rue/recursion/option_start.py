"""Options to begin with: proper against an adversary who picks a sample whenever an option begins."""

from collections.abc import Callable

import numpy as np

from rue._arrays import Array
from rue.model import UMDP
from rue.recursion import option_kernels as kernel
from rue.recursion.inner.field import Found, Layout, Options, Round
from rue.recursion.one_step import Board
from rue.recursion.options import OptionGame, improve_in_parallel
from rue.solution import Run

Kind = Callable[[Layout], Options]


def start_game(
    model: UMDP, gap: Array, gap_error: float, kept: Array | None, steps: int, kind: Kind,
    board: Board | None, scale: float, run: Run,
) -> OptionGame | None:  # fmt: skip
    """The game with options that are proper against the adversary, if there are any; pruning is given up if need be.

    The solution of single steps serves wherever it is there; otherwise the options are looked for.
    """
    graph = model.graph
    for within in (kept, None) if kept is not None else (None,):
        mask = np.ones(graph.choices, bool) if within is None else within
        order = board.order if board is not None else None
        layout = Layout.build(model, gap, mask, steps, order, ~graph.goal)
        if board is not None and np.isfinite(board.value).all() and _covers(board, layout, mask):
            options = kind(layout)
            options.repeat(layout.number[board.choices(graph)], run)
            if run.out_of_time():
                return None
            game = OptionGame(model, options, gap_error, scale)
            game.value[board.order] = board.value[board.order]
            return game
        found = _safe_options(model, gap, mask, steps, kind, order, run)
        if found is not None:
            game = OptionGame(model, found, gap_error, scale)
            game.value[~graph.goal] = kernel.HUGE
            game.start_above(0.0, run)
            return game
        if run.stop():
            return None
    return None


def _covers(board: Board, layout: Layout, mask: Array) -> bool:
    """Whether the solution of single steps has a choice, which options may take, wherever they may come."""
    met = np.zeros(board.value.size, bool)
    met[layout.field.layer_state] = True
    met[layout.field.goal] = False
    met[board.order] = False
    return not met.any() and bool(mask[board.kept[board.mix > 0]].all())


def _safe_options(
    model: UMDP, gap: Array, mask: Array, steps: int, kind: Kind, order: Array | None, run: Run
) -> Options | None:
    """Options that reach a goal with probability one against the adversary, from the initial state and where they end.

    The largest set of states in which each has an option that stays within, in every sample, and has a chance in every
    sample to end nearer to a goal: with 0 at the states that are known to be nearer, 1 at others of the set and
    infinity elsewhere, an option that costs less than 1. States without one are taken out, and it begins anew.
    """
    graph = model.graph
    safe = ~graph.goal
    forbidden = np.where(gap >= kernel.INFINITE, kernel.HUGE, 0.0)
    # Only what is possible counts, not how likely it is.
    live = model.prob > 0
    fan = np.add.reduceat(live, graph.trans_ptr[:-1], axis=0)
    alike = live / np.repeat(fan, np.diff(graph.trans_ptr), axis=0)
    while safe[graph.initial]:
        layout = Layout.build(model, forbidden, mask, steps, order, safe).with_numbers(forbidden, alike)
        options = kind(layout)
        far = np.full(graph.states, kernel.HUGE)
        far[layout.field.roots] = 1.0
        far[graph.goal] = 0.0
        found, ahead = Found(layout.size), np.empty_like(layout.field.gap)
        level = np.ones(layout.size)
        done = np.zeros(layout.size, bool)
        while True:
            kernel.look_ahead(layout.field, far, ahead)
            given = Round(far, far, np.zeros(graph.states), level, 0.0, True, ahead)
            improve_in_parallel(options, np.flatnonzero(~done), given, found, run)
            if run.stop():
                return None
            nearer = _lead_nearer(options, far)
            if not (nearer & ~done).any():
                break
            done |= nearer
            far[layout.field.roots[done]] = 0.0
        if done.all():
            options.adopt(layout.with_numbers(gap, model.prob))
            return options
        safe[layout.field.roots[~done]] = False
    return None


def _lead_nearer(options: Options, far: Array) -> Array:  # [N]
    """Which options have a chance in every sample to end where it is not far, and none to end where it is infinite."""
    layout = options.layout
    end = far[layout.end_state]
    near = np.add.reduceat(options.share * (end == 0)[:, None], layout.share_ptr[:-1])
    lost = np.add.reduceat(options.share * (end > 1)[:, None], layout.share_ptr[:-1])
    return np.asarray((near > 0).all(axis=1) & (lost == 0).all(axis=1) & (options.paid < kernel.INFINITE).all(axis=1))
