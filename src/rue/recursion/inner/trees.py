"""Randomised options that depend on the whole history within them: mixtures of pure trees, by column generation.

The sequence-form linear program of an option has one row for each sample and, by column generation, one column for each
pure tree. The best tree against the belief that the program's dual gives is found by a depth-first search, so no
tree is ever stored. It is exact; `SequenceForm` solves the same problem in HiGHS.
"""

import numpy as np

from rue._arrays import Array
from rue.controllers import Part
from rue.recursion import layout_kernels as arrange
from rue.recursion import option_kernels as kernel
from rue.recursion.inner.field import Found, Layout, Options, Round, refuse_if
from rue.recursion.inner.slots import Slots
from rue.solution import Run

# A controller of histories takes about so many bytes for each of them, the search for it about as much again.
BYTES_PER_HISTORY = 64
MOST_BYTES = 8e9


class Trees(Options):
    """Each option is a mixture of at most K plans; a plan lists the choices of a tree, depth first."""

    effort_name = "pivots"
    parts = ("plan", "plans", "mix")

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        need = float((BYTES_PER_HISTORY * layout.histories() + 4.0 * layout.samples * layout.plan_size).sum())
        refuse_if(
            need > MOST_BYTES, layout, f", {need / 1e9:.3g} GB for all {layout.size} states", f"{MOST_BYTES / 1e9:g} GB"
        )
        size = layout.plan_size
        self.plan_ptr = np.concatenate(([0], np.cumsum(size * layout.samples)))[:-1]
        self.plan = np.zeros(int((size * layout.samples).sum()), np.int32)
        self.plans = np.zeros(layout.size, np.int64)  # how many each mixture has
        self.mix = np.zeros((layout.size, layout.samples))

    @property
    def first_pace(self) -> float:
        """Some tens of answers to a belief, which visit every history."""
        return 2e-6 * float(self.layout.field.tree_size[-1, self.layout.field.roots].max())

    @property
    def _mixture(self) -> tuple[Array, ...]:
        return self.plan_ptr, self.layout.plan_size, self.plan, self.plans, self.mix

    def repeat(self, choice: Array, run: Run) -> None:
        """One plan for each option."""
        field = self.layout.field
        no_slot, nothing = np.zeros(field.layer_state.size, np.int64), np.zeros(int(np.diff(field.choice_ptr).max()))
        kernel.plans_of_slots(field, no_slot, nothing, choice, *self._mixture)
        self.make_all_rows(run)

    def begin_with(self, slots: Slots, choice: Array) -> None:
        """Begin with deterministic policies of state and time; in slots that they do not reach, with `choice[S]`."""
        kernel.plans_of_slots(self.layout.field, slots.weight_ptr, slots.weight, choice, *self._mixture)
        self.make_rows(np.arange(self.layout.size))

    def make_rows(self, places: Array) -> None:
        """The rows of the mixtures at some places."""
        kernel.tree_rows(places, self.layout.field, *self._mixture, self.layout.share_ptr, self.paid, self.share)

    def improve(self, places: Array, given: Round, found: Found, stop: Array) -> None:
        """Column generation at each place."""
        pivots = kernel.improve_trees(
            places, self.layout.field, given.ahead, given.value, given.weight, given.level, given.tolerance,
            given.accept, self.belief, *self._mixture, self.layout.share_ptr, self.paid, self.share,
            found.floor, found.carried, found.changed, stop,
        )  # fmt: skip
        self.count(pivots)

    def part(self, i: int, graph_arrays: tuple[Array, ...]) -> Part:
        """A node for each history that a plan in use visits."""
        part: Part = arrange.tree_nodes(i, self.layout.field, *self._mixture, *graph_arrays)
        return part
