"""Options that depend on state and time, as the paper's do.

`DeterministicTables` finds the best deterministic ones, exactly, by branch and bound; `Table1` solves the same problem
in HiGHS. `MixedTables` improves randomised ones by exact programs for one time, all others fixed: a local optimum.
"""

from functools import cached_property
from typing import Any

import numpy as np

from rue._arrays import Array, pointers
from rue.controllers import Part
from rue.recursion.inner.last_time_kernels import Beliefs, LastTime, TableSearch
from rue.recursion.inner.matrix_kernels import COLUMNS
from rue.recursion.inner.mixed_table_kernels import MixedMemory, TimeColumns, TimeCosts, improve_mixed_tables
from rue.recursion.inner.node_kernels import GraphView, table_nodes
from rue.recursion.inner.option_set import OptionSet, new_game
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.option_tree_kernels import Round, Tables
from rue.recursion.inner.table_kernels import Flow, table_rows
from rue.recursion.inner.table_search_kernels import TableMemory, improve_tables
from rue.solution import Run

# Nodes after which the search at a root gives up, at first: so that no root keeps all others waiting.
FIRST_BUDGET, BUDGET_GROWTH, LAST_BUDGET = 2_000, 10, 10**15
# A bound visits all histories: some seconds for this number.
MOST_HISTORIES = 3e7
# Tables that the alternation starts from.
FEW_STARTS = 2


class DeterministicTables(OptionSet):
    """Each option is a table: a distribution over the choices of every slot (state, time)."""

    effort_name = "nodes"
    parts = ("tables",)

    def __init__(self, tree: OptionTree) -> None:
        super().__init__(tree)
        most = float(tree.histories().max(initial=0))
        tree.refuse_if(most > MOST_HISTORIES, ", all visited for a bound", f"{MOST_HISTORIES:.0e} or less")
        self.choices = np.diff(tree.model.choice_ptr)[tree.layers.state]  # of each slot
        self.choices[tree.end_slot] = 0
        ptr = pointers(self.choices)
        self.tables = Tables(ptr, np.zeros(int(ptr[-1])))
        self.budget = FIRST_BUDGET
        self.spent = 0  # budgets spent since the last `try_harder`

    def try_harder(self) -> bool:
        """Give every search more nodes; return False if no search spent its budget."""
        spent, self.spent = self.spent, 0
        self.budget = min(self.budget * BUDGET_GROWTH, LAST_BUDGET) if spent else self.budget
        return spent > 0

    @property
    def first_pace(self) -> float:
        """The time for all policies of two steps; with more steps there are too many to say anything."""
        model = self.tree.model
        if model.steps > 2:
            return np.inf
        ways = np.log(np.maximum(np.diff(model.choice_ptr), 1))[model.successor]
        of_choice = np.bincount(np.repeat(np.arange(model.trans_ptr.size - 1), np.diff(model.trans_ptr)), weights=ways)
        return 2e-7 * float(np.exp(of_choice.max(initial=0.0)))

    def repeat(self, choice: Array, run: Run) -> None:
        """Take the choice of the state in each of its slots."""
        self.tables.weight[:] = 0.0
        self._take(np.flatnonzero(self.choices), choice)
        self.make_all_rows(run)

    def _take(self, slot: Array, choice: Array) -> None:
        """Take `choice[S]` in some slots, which are empty."""
        state = self.tree.layers.state[slot]
        self.tables.weight[self.tables.ptr[slot] + choice[state] - self.tree.model.choice_ptr[state]] = 1.0

    def make_rows(self, places: Array) -> None:
        """Compute the rows of the options at some places from their tables."""
        table_rows(places, self.tree.model, self.tree.layers, self.tables, self.rows, self._flow())

    def search(self, places: Array, given: Round, memory: Any) -> int:
        """Branch and bound at each place; return the number of nodes."""
        tree, memory = self.tree, memory._replace(budget=self.budget)
        nodes, spent = improve_tables(
            places, tree.model, tree.layers, self.tables, self.rows, given, self.found, memory
        )  # fmt: skip
        self.spent += spent
        return int(nodes)

    def part(self, i: int, graph: GraphView) -> Part:
        """Return a node for each slot in use."""
        part: Part = table_nodes(i, self.tree.model, self.tree.layers, self.tables, graph)
        return part

    def table(self, i: int) -> Array:
        """Return the weights of option i."""
        weight: Array = self.tables.weight[self._table_ptr[i] : self._table_ptr[i + 1]]
        return weight

    @cached_property
    def _table_ptr(self) -> Array:  # [N+1]
        """Where the table of each option begins: its ends have no weights."""
        return np.asarray(self.tables.ptr[self.tree.layers.ptr[:: self.tree.model.steps + 1]])

    @property
    def _longest(self) -> int:
        """The most weights of a table."""
        return int(np.diff(self._table_ptr).max(initial=1))

    def _flow(self) -> Flow:
        widest, samples = self.tree.widest, self.tree.samples
        return Flow(np.empty((widest, samples)), np.empty((widest, samples)), self.new_numbers()[0])

    def new_memory(self) -> Any:
        """Return memory of the branch and bound."""
        model, samples = self.tree.model, self.tree.samples
        steps, widest, most = model.steps, self.tree.widest, int(np.diff(model.choice_ptr).max(initial=1))
        search = TableSearch(
            number=self.new_numbers(),
            active=np.zeros(steps + 1, np.int64),
            slot=np.empty((steps, widest), np.int64),
            pick=np.zeros((steps, widest), np.int64),
            best_pick=np.empty((steps, widest), np.int64),
            options=np.empty((steps, widest), np.int64),
            option=np.empty((steps, widest, most), np.int64),
            order=np.empty((steps, widest), np.int64),
            first=np.zeros(steps, np.int64),
            rank=np.empty((steps, widest, most), np.int64),
            extra=np.empty((steps, widest, most)),
            bound=np.empty((steps, widest + 1)),
            pointer=np.zeros((steps, widest + 1), np.int64),
            depth=np.zeros(steps, np.int64),
            belief=np.empty((steps, widest + 1, samples)),
            occupancy=np.empty((steps, widest, samples)),
            base=np.empty((steps, samples)),
        )
        last = LastTime(
            cost=np.empty((widest, most, samples)),
            partial=np.empty((widest + 1, samples)),
            lowest=np.empty((widest + 1, samples)),
            highest=np.empty((widest + 1, samples)),
            spread=np.empty(widest),
            total=np.empty(samples),
        )
        best = self.new_search()
        return TableMemory(
            walk=self.new_walk(),
            best=best,
            search=search,
            last=last,
            beliefs=Beliefs(*np.empty((4, samples))),
            flow=self._flow(),
            plan=np.empty(best.taken.size, np.int32),
            column=np.empty(samples),
            weight=np.empty(self._longest),
            budget=self.budget,
        )


class MixedTables(DeterministicTables):
    """Randomised policies of state and time; no worse than those they started from, and not proved best."""

    effort_name = "pivots"
    starts = FEW_STARTS

    def begin_with(self, other: DeterministicTables, choice: Array) -> None:
        """Begin with the tables of others; in slots that they do not reach, with `choice[S]`."""
        self.tables.weight[:] = other.tables.weight
        slot = np.flatnonzero(self.choices)
        empty = np.add.reduceat(self.tables.weight, self.tables.ptr[slot]) == 0
        self._take(slot[empty], choice)
        self.make_rows(np.arange(self.tree.size))

    def set_table(self, i: int, weight: Array) -> None:
        """Set the weights of option i."""
        self.table(i)[:] = weight
        self.make_rows(np.array([i]))

    def search(self, places: Array, given: Round, memory: Any) -> int:
        """Alternate at each place; return the number of pivots."""
        tree, memory = self.tree, memory._replace(starts=self.starts)
        return int(
            improve_mixed_tables(places, tree.model, tree.layers, self.tables, self.rows, given, self.found, memory)
        )

    def new_memory(self) -> Any:
        """Return memory of the alternation."""
        steps, samples, widest = self.tree.model.steps, self.tree.samples, self.tree.widest
        size, most = self._longest, COLUMNS + 2 * samples
        return MixedMemory(
            trial=np.empty(size),
            best=np.empty(size),
            costs=TimeCosts(
                occupancy=np.empty((steps, widest, samples)),
                to_go=np.empty((2, widest, samples)),
                number=self.new_numbers(),
                base=np.empty(samples),
                cost=np.empty((size, samples)),
            ),
            columns=TimeColumns(np.empty((most, size)), np.empty((most, samples)), np.empty(most)),
            game=new_game(samples, most),
            flow=self._flow(),
            starts=self.starts,
        )
