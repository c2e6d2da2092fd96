"""Randomised options that depend on the whole history within them: mixtures of pure trees, by column generation.

The sequence-form linear program of an option has one row for each sample and, by column generation, one column for each
pure tree. The best tree against the belief that the program's dual gives is found by a depth-first search, so no
tree is ever stored. It is exact; `SequenceForm` solves the same problem in HiGHS.
"""

import numpy as np

from rue._flat import Array
from rue._kernels import layout as arrange
from rue._kernels import options as kernel
from rue.solvers.inner.field import Found, Layout, Options, Part, Round


class Trees(Options):
    """Each option is a mixture of at most K plans; a plan lists the choices of a tree, depth first."""

    effort_name = "pivots"

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        size = layout.plan_size
        self.plan_ptr = np.concatenate(([0], np.cumsum(size * layout.samples)))[:-1]
        self.plan = np.zeros(int((size * layout.samples).sum()), np.int32)
        self.count = np.zeros(layout.size, np.int64)
        self.mix = np.zeros((layout.size, layout.samples))

    @property
    def first_pace(self) -> float:
        """Some tens of answers to a belief, which visit every history."""
        return 2e-6 * float(self.layout.field.tree_size[-1, self.layout.field.roots].max())

    @property
    def _mixture(self) -> tuple[Array, ...]:
        return self.plan_ptr, self.layout.plan_size, self.plan, self.count, self.mix

    def repeat(self, choice: Array) -> None:
        """One plan for each option."""
        kernel.repeat_choices(self.layout.field, choice, *self._mixture)
        self.make_rows(np.arange(self.layout.size))

    def make_rows(self, places: Array) -> None:
        """The rows of the mixtures at some places."""
        kernel.tree_rows(places, self.layout.field, *self._mixture, self.layout.share_ptr, self.paid, self.share)

    def improve(self, places: Array, given: Round, found: Found, stop: Array) -> None:
        """Column generation at each place."""
        kernel.improve_trees(
            places, self.layout.field, given.ahead, given.value, given.weight, given.level, given.tolerance,
            given.accept, self.belief, *self._mixture, self.layout.share_ptr, self.paid, self.share,
            found.floor, found.carried, found.changed, self.effort, stop,
        )  # fmt: skip

    def part(self, i: int, graph_arrays: tuple[Array, ...]) -> Part:
        """A node for each history that a plan in use visits."""
        part: Part = arrange.tree_nodes(i, self.layout.field, *self._mixture, *graph_arrays)
        return part
