"""Options by programs in HiGHS, one kept for each root: another engine, to compare with.

It is much slower than the kernels; its bounds hold to HiGHS's tolerances.
"""

import time
from collections.abc import Callable

import numpy as np

from rue._arrays import Array, members, places, pointers
from rue.controllers import Part
from rue.recursion.inner.layers import Layers, OptionProgram, ProgramAnswer
from rue.recursion.inner.node_kernels import GraphView
from rue.recursion.inner.option_set import OptionSet
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.option_tree_kernels import INFINITE, Round
from rue.solution import Run


class Programs(OptionSet):
    """Each option is what its program answers: distributions over the entries of its layers."""

    effort_name = "programs"
    parts = ("weights",)

    def __init__(self, tree: OptionTree, program: Callable[[OptionTree, int], OptionProgram]) -> None:
        super().__init__(tree)
        self.program = program
        self.programs = [program(tree, i) for i in range(tree.size)]
        self.weights = [np.zeros(one.layers.entries) for one in self.programs]

    def adopt(self, tree: OptionTree) -> None:
        """Take over a tree with other gaps: new programs, the same weights."""
        self.programs = [self.program(tree, i) for i in range(tree.size)]
        super().adopt(tree)

    def repeat(self, choice: Array, run: Run) -> None:
        """Take the entries with the choice of their state."""
        for i, program in enumerate(self.programs):
            layers = program.layers
            own = self.tree.choice_id[choice[layers.node_state]]
            self.weights[i] = (layers.choice == own[layers.entry_node]).astype(float)
        self.make_all_rows(run)

    def make_rows(self, places: Array) -> None:
        """Compute what each option pays and where it ends."""
        for i in places:
            self.rows.paid[i], self.rows.share[self.tree.ends(i)] = self._row(i, self.weights[i])

    def search(self, places: Array, given: Round, memory: None) -> int:
        """Solve one program for each place; return how many were solved."""
        for solved, i in enumerate(places):
            if given.stop[0]:
                return solved
            answer = self.programs[i].solve(given.lowered, max(given.until - time.perf_counter(), 0.0))
            self.found.floor[i] = answer.bound
            if answer.bound < given.level[i] and answer.value < INFINITE:
                self._take(i, answer, given)
        return int(places.size)

    def _take(self, i: int, answer: ProgramAnswer, given: Round) -> None:
        """Replace the option by the answer if that is better."""
        ends = self.tree.ends(i)
        state = self.tree.end_state[ends]
        paid, share = self._row(i, answer.weight)
        belief = answer.belief
        if belief is None:  # the adversary sees the option
            belief = np.zeros(self.tree.samples)
            belief[np.argmax(answer.cost)] = 1.0
        self.found.carried[i] = float(given.weight[state] @ share @ belief)
        present = np.inf
        if self.rows.share[ends].any():
            present = float((self.rows.paid[i] + given.value[state] @ self.rows.share[ends]).max())
        if given.accept and float((paid + given.value[state] @ share).max()) < present - given.tolerance:
            self.weights[i] = answer.weight
            self.rows.paid[i], self.rows.share[ends] = paid, share
            self.found.changed[i] = True

    def _row(self, i: int, weight: Array) -> tuple[Array, Array]:  # [K], [ends, K]
        """Return what an option with these weights pays, and where it ends."""
        layers = self.programs[i].layers
        visits = flow(layers, weight)
        leaves = np.flatnonzero(layers.target < 0)
        state = self.tree.end_state[self.tree.ends(i)]
        place = places(state, self.tree.model.choice_ptr.size - 1, 0)
        end = np.full(leaves.size, self.tree.model.goal)
        end[np.searchsorted(leaves, layers.ends)] = layers.end_state
        share = np.zeros((state.size, self.tree.samples))
        np.add.at(share, place[end], visits[layers.branch_entry[leaves]] * layers.prob[leaves])
        return (visits * layers.gap).sum(axis=0), share

    def part(self, i: int, graph: GraphView) -> Part:
        """Return a node for each node of the layers that is reached."""
        layers = self.programs[i].layers
        used = np.flatnonzero(flow(layers, self.weights[i]).any(axis=1))
        node, count = np.unique(layers.entry_node[used], return_counts=True)
        name = places(node, layers.nodes)
        following = -1 - graph.successor[members(graph.trans_ptr, layers.choice[used])].astype(np.int64)
        first = pointers(np.diff(graph.trans_ptr)[layers.choice[used]])
        for e, begin in zip(used, first, strict=False):
            branch = slice(layers.branch_ptr[e], layers.branch_ptr[e + 1])
            inner = np.flatnonzero(layers.target[branch] >= 0)
            known = name[layers.target[branch][inner]]
            place = begin + layers.transition[branch][inner] - graph.trans_ptr[layers.choice[e]]
            following[place[known >= 0]] = known[known >= 0]
        return layers.node_state[node].astype(np.int32), count, layers.choice[used], self.weights[i][used], following


def flow(layers: Layers, weight: Array) -> Array:  # [E, K]
    """Return the probability in each sample that an entry is taken."""
    arrived = np.zeros((layers.nodes, layers.samples))
    arrived[0] = 1.0
    taken = np.zeros((layers.entries, layers.samples))
    for _, entry, branch in reversed(list(layers.backward())):
        taken[entry] = weight[entry, None] * arrived[layers.entry_node[entry]]
        target = layers.target[branch]
        inner = target >= 0
        np.add.at(arrived, target[inner], (taken[layers.branch_entry[branch]] * layers.prob[branch])[inner])
    return taken
