"""The model as options of n steps see it, and what all kinds of options share: one row for each state where one begins.

Only kept choices and possible transitions matter, and all goals are one state. Options begin at the initial state and
wherever others may end: after multiples of n steps. The row of an option is what it pays in each sample and where it
ends; the game against the adversary (`recursion/options.py`) needs nothing else.
"""

import threading
from abc import ABC, abstractmethod
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rue._arrays import Array, ranges
from rue.controllers import Part
from rue.errors import BadInput
from rue.model import UMDP
from rue.recursion import layout_kernels as arrange
from rue.recursion import option_kernels as kernel
from rue.solution import Run

# Numbers of rows that are computed between two looks at the clock.
ROWS_WORK = 1_000_000


@dataclass(frozen=True, eq=False)
class Layout:
    """A `Field` of the kernels with the way back to the model."""

    field: arrange.Field
    choice_id: Array  # the choice of the graph behind each of the field's
    number: Array  # [C] and back; -1 for choices that are not kept
    possible: Array  # [T] whether a transition of the graph is
    transition: Array  # the transition of the graph behind each of the field's
    plan_size: Array  # [N] the most histories that a pure tree of each option visits
    samples: int

    @classmethod
    def build(cls, model: UMDP, gap: Array, kept: Array, steps: int, order: Array | None, safe: Array) -> "Layout":
        """Lay out all options; `kept[C]` says which choices they may take, `order` which states come first.

        Options begin only at `safe[S]` states. A state must have a choice, so all are kept where none is.
        """
        graph = model.graph
        has_one = np.bincount(graph.choice_state[kept], minlength=graph.states) > 0
        kept = kept | ~has_one[graph.choice_state]
        goal = int(np.flatnonzero(graph.goal)[0])
        choice_id = np.flatnonzero(kept).astype(np.int32)
        possible = model.prob.max(axis=1) > 0
        length = np.diff(graph.trans_ptr)[choice_id]
        transition = ranges(graph.trans_ptr[choice_id], length)
        owner = np.repeat(np.arange(choice_id.size), length)[possible[transition]]
        transition = transition[possible[transition]]
        choice_ptr = _pointers(graph.choice_state[choice_id], graph.states)
        trans_ptr = _pointers(owner, choice_id.size)
        successor = np.where(graph.goal[graph.successor[transition]], goal, graph.successor[transition])
        successor = successor.astype(np.int32)
        roots = arrange.find_roots(graph.initial, steps, choice_ptr, trans_ptr, successor)
        roots = roots[safe[roots]]
        if order is not None:
            rank = np.full(graph.states, order.size)
            rank[order] = np.arange(order.size)
            roots = roots[np.argsort(rank[roots], kind="stable")]
        tree_size, choice_size, plan_size = arrange.count_histories(steps, goal, choice_ptr, trans_ptr, successor)
        sizes = np.minimum(tree_size, 1e18).astype(np.int64), np.minimum(choice_size, 1e18).astype(np.int64)
        layer_ptr, layer_state = arrange.lay_out(roots, steps, goal, choice_ptr, trans_ptr, successor)
        finite = np.minimum(gap[choice_id], kernel.HUGE)
        field = arrange.Field(
            steps, goal, choice_ptr, trans_ptr, successor, _noticeable(model.prob[transition], steps), finite,
            *sizes, roots, layer_ptr, layer_state,
        )  # fmt: skip
        number = np.full(graph.choices, -1, np.int32)
        number[choice_id] = np.arange(choice_id.size)
        plans = np.minimum(plan_size[steps, roots], 1e18).astype(np.int64)
        return cls(field, choice_id, number, possible, transition, plans, model.samples)

    def with_numbers(self, gap: Array, prob: Array) -> "Layout":
        """The same with other gaps and probabilities, positive where these are."""
        finite = np.minimum(gap[self.choice_id], kernel.HUGE)
        return replace(
            self, field=self.field._replace(gap=finite, prob=_noticeable(prob[self.transition], self.field.steps))
        )

    def histories(self) -> Array:  # [N]
        """How many histories the tree of each option has; no more than 1e18."""
        return np.asarray(self.field.tree_size[-1, self.field.roots])

    @property
    def size(self) -> int:
        """N, the number of options."""
        return int(self.field.roots.size)

    @cached_property
    def share_ptr(self) -> Array:  # [N+1]
        """Where the ends of each option begin in `Options.share`."""
        last = np.arange(self.size) * (self.field.steps + 1) + self.field.steps
        count = self.field.layer_ptr[last + 1] - self.field.layer_ptr[last]
        return np.concatenate(([0], np.cumsum(count)))

    @cached_property
    def end_state(self) -> Array:
        """The state of each end, beside `Options.share`."""
        last = np.arange(self.size) * (self.field.steps + 1) + self.field.steps
        return np.asarray(self.field.layer_state[ranges(self.field.layer_ptr[last], np.diff(self.share_ptr))])

    @cached_property
    def packed(self) -> tuple[Array, Array, Array, Array, Array]:
        """Memory for `game.settle`."""
        ends = int(self.share_ptr[-1])
        return (
            np.empty(self.size + 1, np.int64),
            np.empty(ends, np.int32),
            np.empty((ends, self.samples)),
            np.empty((self.size, self.samples)),
            np.empty((self.size, self.samples)),
        )

    @property
    def operations(self) -> int:
        """A bound on the number of operations, one after the other, behind any number of a row or of a bound on it."""
        widest = int(np.diff(self.field.trans_ptr).max(initial=1)) + int(np.diff(self.field.choice_ptr).max(initial=1))
        return int(self.field.steps * (4 * widest + 2 * self.samples + int(np.diff(self.field.layer_ptr).max()) + 16))


class Found:
    """What a round of improvement found, for each option: see `options.improve_trees`."""

    def __init__(self, size: int) -> None:
        self.floor = np.full(size, -np.inf)
        self.carried = np.zeros(size)
        self.changed = np.zeros(size, bool)


@dataclass(frozen=True, eq=False)
class Round:
    """What a round of improvement is given: values at the ends and the level below which options are looked for."""

    lowered: Array  # [S] values at the ends, as the proof takes them
    value: Array  # [S] values at the ends, as the policy has them
    weight: Array  # [S] what the proof subtracts, in units
    level: Array  # [N] options below it are looked for
    tolerance: float
    accept: bool  # whether better options replace the present ones
    ahead: Array  # see `options.look_ahead`
    until: float = np.inf  # the clock at which to stop


class Options(ABC):
    """One option for each state where one begins, and a way to find better ones."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.paid = np.zeros((layout.size, layout.samples))
        self.share = np.zeros((int(layout.share_ptr[-1]), layout.samples))
        self.belief = np.full((layout.size, layout.samples), 1.0 / layout.samples)
        self.effort = 0  # pivots or nodes, for the counters
        self._lock = threading.Lock()

    effort_name: str
    parts: tuple[str, ...]  # the attributes that make up the options

    def count(self, effort: int) -> None:
        """Add to the effort, from any thread."""
        with self._lock:
            self.effort += int(effort)

    def try_harder(self) -> bool:
        """Search more thoroughly from now on; False if that is not possible."""
        return False

    @property
    def first_pace(self) -> float:
        """About how many seconds a place will take, at most; infinite if there is no telling."""
        return np.inf

    @abstractmethod
    def repeat(self, choice: Array, run: Run) -> None:
        """Let each option repeat a stationary policy: `choice[S]`, in the field's numbers."""

    @abstractmethod
    def improve(self, places: Array, given: Round, found: Found, stop: Array) -> None:
        """Look for better options at some places; in parallel with other places, until `stop[0]`."""

    @abstractmethod
    def part(self, i: int, graph_arrays: tuple[Array, ...]) -> Part:
        """Option i as a part of a controller: see `layout.slot_nodes`."""

    def worst(self, value: Array) -> Array:  # [N]
        """What each option costs against the adversary, with values at the ends."""
        ends = np.add.reduceat(self.share * value[self.layout.end_state, None], self.layout.share_ptr[:-1])
        return np.asarray((self.paid + ends).max(axis=1))

    def make_all_rows(self, run: Run) -> None:
        """Compute the rows of all options, as far as there is time."""
        work = np.cumsum(self.layout.plan_size) * self.layout.samples
        ends = np.arange(ROWS_WORK, int(work.max(initial=0)) + ROWS_WORK, ROWS_WORK)
        parts = np.unique(np.searchsorted(work, ends) + 1)
        for places in np.split(np.arange(self.layout.size), parts):
            if run.out_of_time():
                return
            self.make_rows(places)

    @abstractmethod
    def make_rows(self, places: Array) -> None:
        """Compute the rows of the options at some places."""

    def keep(self) -> dict[str, Any]:
        """What the options are now, for `restore`."""
        return {name: deepcopy(getattr(self, name)) for name in ("paid", "share", *self.parts)}

    def restore(self, kept: dict[str, Any]) -> None:
        """Go back to what the options were."""
        for name, was in kept.items():
            setattr(self, name, deepcopy(was))

    def adopt(self, layout: Layout) -> None:
        """The same options on a layout with other gaps."""
        self.layout = layout
        self.make_rows(np.arange(layout.size))


def _noticeable(prob: Array, steps: int) -> Array:
    """Probabilities that are 0 or large enough for `HUGE` to remain huge after n steps.

    Those that are raised, all far below rounding, could not be told from 0 otherwise, which they must where they lead
    to what costs infinity.
    """
    return np.ascontiguousarray(np.where(prob > 0, np.maximum(prob, 10 ** (-180 / steps)), 0.0))


def _pointers(owner: Array, size: int) -> Array:
    return np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=size))))


def refuse_if(too_large: bool, layout: Layout, what: str, wanted: str) -> None:
    """Refuse options whose histories are too many, before anything is done with them."""
    if too_large:
        most = float(layout.histories().max())
        raise BadInput(
            f"options of {layout.field.steps} steps have {most:.3g} histories at state "
            f"{int(layout.field.roots[layout.histories().argmax()])} alone{what}; expected {wanted}: lower steps, or "
            "prune if the solver does not"
        )
