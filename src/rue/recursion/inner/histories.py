"""Randomised options that depend on the whole history within them: mixtures of pure trees, by column generation.

The sequence-form linear program of an option has one row for each sample and, by column generation, one column for each
pure tree. The best tree against the belief that the program's dual gives is found by a depth-first search, so no
tree is ever stored. It is exact; `SequenceForm` solves the same problem in HiGHS.
"""

import numpy as np

from rue._arrays import Array, pointers
from rue.controllers import Part
from rue.recursion.inner.history_kernels import (
    Columns,
    HistoryMemory,
    Mixtures,
    NewRow,
    improve_mixtures,
    mixture_rows,
    plans_of_tables,
)
from rue.recursion.inner.matrix_kernels import COLUMNS
from rue.recursion.inner.node_kernels import GraphView, mixture_nodes
from rue.recursion.inner.option_set import OptionSet, new_game
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.option_tree_kernels import Round, Tables
from rue.recursion.inner.tables import DeterministicTables
from rue.solution import Run

# Bytes for each history of a controller; the search for it takes about as many again.
BYTES_PER_HISTORY = 64
MOST_BYTES = 8e9


class TreeMixtures(OptionSet):
    """Each option is a mixture of at most K plans; a plan lists the choices of a tree, depth first."""

    effort_name = "pivots"
    parts = ("mixtures",)

    def __init__(self, tree: OptionTree) -> None:
        super().__init__(tree)
        size = tree.plan_size
        need = float((BYTES_PER_HISTORY * tree.histories() + 4.0 * tree.samples * size).sum())
        tree.refuse_if(
            need > MOST_BYTES, f", {need / 1e9:.3g} GB for all {tree.size} states", f"{MOST_BYTES / 1e9:g} GB"
        )
        ptr = pointers(size * tree.samples)
        self.mixtures = Mixtures(
            plan_ptr=ptr[:-1],
            plan_size=size,
            plan=np.zeros(int(ptr[-1]), np.int32),
            count=np.zeros(tree.size, np.int64),
            mix=np.zeros((tree.size, tree.samples)),
        )

    @property
    def first_pace(self) -> float:
        """Some tens of searches for the best tree, which visit every history."""
        return 2e-6 * float(self.tree.histories().max())

    def repeat(self, choice: Array, run: Run) -> None:
        """Take one plan for each option."""
        most = int(np.diff(self.tree.model.choice_ptr).max())
        self._take_tables(Tables(np.zeros(self.tree.layers.state.size, np.int64), np.zeros(most)), choice)
        self.make_all_rows(run)

    def begin_with(self, other: DeterministicTables, choice: Array) -> None:
        """Begin with deterministic tables; in slots that they do not reach, with `choice[S]`."""
        self._take_tables(other.tables, choice)
        self.make_rows(np.arange(self.tree.size))

    def _take_tables(self, tables: Tables, choice: Array) -> None:
        walk, numbers = self.new_walk(), self.new_numbers()
        plans_of_tables(self.tree.model, self.tree.layers, tables, choice, self.mixtures, walk, numbers)

    def make_rows(self, places: Array) -> None:
        """Compute the rows of the mixtures at some places."""
        walk, number = self.new_walk(), self.new_numbers()[0]
        mixture_rows(places, self.tree.model, self.tree.layers, self.mixtures, self.rows, walk, number)

    def search(self, places: Array, given: Round, memory: HistoryMemory) -> int:
        """Generate columns at each place; return the number of pivots."""
        tree = self.tree
        return int(
            improve_mixtures(places, tree.model, tree.layers, self.mixtures, self.rows, given, self.found, memory)
        )

    def new_memory(self) -> HistoryMemory:
        """Return memory of column generation."""
        samples, most = self.tree.samples, COLUMNS + 2 * self.tree.samples
        size = int(self.tree.plan_size.max(initial=1))
        ends = int(np.diff(self.tree.end_ptr).max(initial=1))
        row = NewRow(
            number=self.new_numbers()[0],
            plan=np.empty(size, np.int32),
            column=np.empty(samples),
            paid=np.empty(samples),
            share=np.empty((ends, samples)),
        )
        columns = Columns(np.empty((most, size), np.int32), np.empty((most, samples)), np.empty(most))
        return HistoryMemory(self.new_walk(), self.new_search(), columns, new_game(samples, most), row)

    def part(self, i: int, graph: GraphView) -> Part:
        """Return a node for each history that a plan in use visits."""
        part: Part = mixture_nodes(i, self.tree.model, self.tree.layers, self.mixtures, graph, self.new_walk())
        return part
