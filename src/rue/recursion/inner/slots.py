"""Options that depend on state and time, as the paper's do.

`Slots` finds the best deterministic ones, exactly, by branch and bound; `Table1` solves the same problem in HiGHS.
`MixedSlots` improves randomised ones by exact programs for one time at once, all others fixed: a local optimum.
"""

import numpy as np

from rue._arrays import Array, ranges
from rue.controllers import Part
from rue.recursion import layout_kernels as arrange
from rue.recursion import option_kernels as kernel
from rue.recursion.inner.field import Found, Layout, Options, Round, refuse_if
from rue.recursion.layout_kernels import Field
from rue.recursion.option_kernels import Search
from rue.solution import Run

# Nodes after which the search at a state breaks off, at first: so that no state keeps all others waiting.
FIRST_BUDGET, BUDGET_GROWTH, LAST_BUDGET = 50_000, 10, 10**15
# A bound looks at all histories, some seconds for so many.
MOST_HISTORIES = 3e7


class Slots(Options):
    """Each option is a table: a distribution over the choices of every slot (state, time)."""

    effort_name = "nodes"
    parts = ("weight",)

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        most = float(layout.histories().max(initial=0))
        refuse_if(most > MOST_HISTORIES, layout, ", all looked at for a bound", f"{MOST_HISTORIES:.0e} or less")
        field = layout.field
        self.choices = np.diff(field.choice_ptr)[field.layer_state]
        is_end = np.zeros(field.layer_state.size, bool)
        last = np.arange(layout.size) * (field.steps + 1) + field.steps
        is_end[ranges(field.layer_ptr[last], np.diff(layout.share_ptr))] = True
        self.choices[is_end] = 0
        self.weight_ptr = np.concatenate(([0], np.cumsum(self.choices)))
        self.weight = np.zeros(int(self.weight_ptr[-1]))
        self.budget = FIRST_BUDGET
        self.broke_off = 0  # searches that did, since it was asked last

    def try_harder(self) -> bool:
        """Give every search more nodes; False if they had all they wanted."""
        wanted, self.broke_off = self.broke_off, 0
        self.budget = min(self.budget * BUDGET_GROWTH, LAST_BUDGET) if wanted else self.budget
        return wanted > 0

    @property
    def first_pace(self) -> float:
        """The number of policies, each in no time; with more than two steps there are too many to say anything."""
        field = self.layout.field
        if field.steps > 2:
            return np.inf
        ways = np.log(np.maximum(np.diff(field.choice_ptr), 1))[field.successor]
        of_choice = np.bincount(np.repeat(np.arange(field.trans_ptr.size - 1), np.diff(field.trans_ptr)), weights=ways)
        return 2e-7 * float(np.exp(of_choice.max(initial=0.0)))

    def repeat(self, choice: Array, run: Run) -> None:
        """The choice of the state in each of its slots."""
        field = self.layout.field
        slot = np.flatnonzero(self.choices)
        state = field.layer_state[slot]
        self.weight[:] = 0.0
        self.weight[self.weight_ptr[slot] + choice[state] - field.choice_ptr[state]] = 1.0
        self.make_all_rows(run)

    def make_rows(self, places: Array) -> None:
        """The rows of the options at some places, from their weights."""
        kernel.slot_rows(
            places, self.layout.field, self.weight_ptr, self.weight, self.layout.share_ptr, self.paid, self.share
        )

    def improve(self, places: Array, given: Round, found: Found, stop: Array) -> None:
        """Branch and bound at each place."""
        nodes, broke_off = kernel.improve_slots(
            places, self.layout.field, given.ahead, given.lowered, given.value, given.weight, given.level,
            given.tolerance, given.accept, self.belief, self.weight_ptr, self.weight, self.layout.share_ptr,
            self.paid, self.share, found.floor, found.carried, found.changed, self.budget, stop,
            _memory(self.layout.field, places),
        )  # fmt: skip
        self.count(nodes)
        self.broke_off += broke_off

    def part(self, i: int, graph_arrays: tuple[Array, ...]) -> Part:
        """A node for each slot in use."""
        part: Part = arrange.slot_nodes(i, self.layout.field, self.weight_ptr, self.weight, *graph_arrays)
        return part


class MixedSlots(Slots):
    """Randomised policies of state and time; what it finds is no worse than where it started, and not proved best."""

    effort_name = "pivots"
    starts = 2

    def begin_with(self, other: Slots, choice: Array) -> None:
        """Begin with the policies of others; in slots that they do not reach, with `choice[S]`."""
        field = self.layout.field
        self.weight[:] = other.weight
        slot = np.flatnonzero(self.choices)
        empty = slot[np.add.reduceat(self.weight, self.weight_ptr[slot]) == 0]
        state = field.layer_state[empty]
        self.weight[self.weight_ptr[empty] + choice[state] - field.choice_ptr[state]] = 1.0
        self.make_rows(np.arange(self.layout.size))

    def table(self, i: int) -> Array:
        """The weights of option i."""
        field = self.layout.field
        first = i * (field.steps + 1)
        return self.weight[
            self.weight_ptr[field.layer_ptr[first]] : self.weight_ptr[field.layer_ptr[first + field.steps]]
        ]

    def set_table(self, i: int, step: Array, state: Array, owner: Array, choice: Array, weight: Array) -> None:
        """Set option i from entries: node `owner` at a step in a state takes a choice of the graph with a weight."""
        field = self.layout.field
        place = np.zeros((field.steps, field.choice_ptr.size), np.int64)
        for time in range(field.steps):
            begin, end = field.layer_ptr[i * (field.steps + 1) + time : i * (field.steps + 1) + time + 2]
            place[time, field.layer_state[begin:end]] = np.arange(begin, end)
        slot = place[step[owner], state[owner]]
        self.weight[self.weight_ptr[slot] + self.layout.number[choice] - field.choice_ptr[state[owner]]] = weight
        self.make_rows(np.array([i]))

    def improve(self, places: Array, given: Round, found: Found, stop: Array) -> None:
        """Alternation at each place."""
        pivots = kernel.improve_mixed_slots(
            places, self.layout.field, given.ahead, given.value, given.tolerance, self.starts, self.weight_ptr,
            self.weight, self.layout.share_ptr, self.paid, self.share, found.floor, found.changed, stop,
        )  # fmt: skip
        self.count(pivots)


def _memory(field: Field, places: Array) -> Search:
    """Memory of the search for the options in `places`."""
    samples = field.prob.shape[1]
    steps = field.steps
    layer = places[:, None] * (steps + 1) + np.arange(steps + 1)
    widest = int((field.layer_ptr[layer + 1] - field.layer_ptr[layer]).max(initial=1))
    most_tree = int(field.tree_size[steps, field.roots[places]].max(initial=1))
    most = int(np.diff(field.choice_ptr).max(initial=1))
    return Search(
        np.empty((steps + 1, samples)),
        np.empty((steps + 1, 6), np.int64),
        np.empty((steps + 1, 2)),
        np.empty(most_tree, np.int32),
        np.empty((steps + 1, field.choice_ptr.size - 1), np.int32),
        np.zeros(steps + 1, np.int64),
        np.empty((steps, widest), np.int64),
        np.zeros((steps, widest), np.int64),
        np.empty((steps, widest), np.int64),
        np.empty((steps, widest, most), np.int64),
        np.empty((steps, widest, most)),
        np.empty((steps, widest + 1)),
        np.empty((steps, widest + 1)),
        np.zeros((steps, widest + 1), np.int64),
        np.zeros(steps, np.int64),
        np.empty((steps, widest, samples)),
        np.empty((steps, samples)),
        np.empty((widest, most, samples)),
        np.empty((widest + 1, samples)),
        np.empty((widest + 1, samples)),
        np.empty(widest, np.int64),
        np.empty(widest),
        np.empty(samples),
        np.empty(samples),
        np.empty((steps, widest), np.int64),
        np.empty(samples),
    )
