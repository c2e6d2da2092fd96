"""Options by programs in HiGHS, one kept for each state: the second engine, to swap in and to compare with.

Slower by far than the kernels; its bounds hold to HiGHS's tolerances.
"""

import time
from collections.abc import Callable

import numpy as np

from rue._arrays import Array, ranges
from rue.controllers import Part
from rue.model import Graph
from rue.recursion.inner.field import Found, Layout, Options, Round
from rue.recursion.inner.problem import INFINITE, Answer, Engine, Layers
from rue.solution import Run


class Programs(Options):
    """Each option is what its engine answers: distributions over the entries of its layers."""

    effort_name = "programs"
    parts = ("weights",)

    def __init__(self, layout: Layout, graph: Graph, engine: Callable[[Layout, int], Engine]) -> None:
        super().__init__(layout)
        self.graph = graph
        self.make = engine
        self.engines = [engine(layout, int(root)) for root in layout.field.roots]
        self.weights = [np.zeros(engine.layers.entries) for engine in self.engines]

    def adopt(self, layout: Layout) -> None:
        """New engines, the same weights."""
        self.engines = [self.make(layout, int(root)) for root in layout.field.roots]
        super().adopt(layout)

    def repeat(self, choice: Array, run: Run) -> None:
        """The entries with the choice of their state."""
        for i, engine in enumerate(self.engines):
            layers = engine.layers
            own = self.layout.choice_id[choice[layers.node_state]]
            self.weights[i] = (layers.choice == own[layers.entry_node]).astype(float)
        self.make_all_rows(run)

    def make_rows(self, places: Array) -> None:
        """What each option pays and where it ends."""
        for i in places:
            span = slice(self.layout.share_ptr[i], self.layout.share_ptr[i + 1])
            self.paid[i], self.share[span] = self._row(i, self.weights[i])

    def improve(self, places: Array, given: Round, found: Found, stop: Array) -> None:
        """One program for each place."""
        for i in places:
            if stop[0]:
                return
            answer = self.engines[i].solve(given.lowered, max(given.until - time.perf_counter(), 0.0))
            self.count(1)
            found.floor[i] = answer.bound
            if answer.bound < given.level[i] and answer.value < INFINITE:
                self._take(i, answer, given, found)

    def _take(self, i: int, answer: Answer, given: Round, found: Found) -> None:
        """Replace the option by the answer if that is better."""
        span = slice(self.layout.share_ptr[i], self.layout.share_ptr[i + 1])
        end = self.layout.end_state[span]
        paid, share = self._row(i, answer.weight)
        belief = answer.belief
        if belief is None:  # the adversary sees the option
            belief = np.zeros(self.layout.samples)
            belief[np.argmax(answer.cost)] = 1.0
        found.carried[i] = float(given.weight[end] @ share @ belief)
        present = np.inf
        if self.share[span].any():
            present = float((self.paid[i] + given.value[end] @ self.share[span]).max())
        if given.accept and float((paid + given.value[end] @ share).max()) < present - given.tolerance:
            self.weights[i] = answer.weight
            self.paid[i], self.share[span] = paid, share
            found.changed[i] = True

    def _row(self, i: int, weight: Array) -> tuple[Array, Array]:  # [K], [ends, K]
        layers = self.engines[i].layers
        visits = flow(layers, weight)
        paid = (visits * layers.gap).sum(axis=0)
        after = self.graph.successor[layers.transition]
        leaves = np.flatnonzero(layers.target < 0)
        mass = visits[layers.branch_entry[leaves]] * layers.prob[leaves]
        end = self.layout.end_state[self.layout.share_ptr[i] : self.layout.share_ptr[i + 1]]
        place = np.zeros(self.graph.states, np.int64)
        place[end] = np.arange(end.size)
        state = np.where(self.graph.goal[after[leaves]], self.layout.field.goal, after[leaves])
        share = np.zeros((end.size, self.layout.samples))
        np.add.at(share, place[state], mass)
        return paid, share

    def part(self, i: int, graph_arrays: tuple[Array, ...]) -> Part:
        """A node for each node of the layers that is reached."""
        layers, graph = self.engines[i].layers, self.graph
        used = np.flatnonzero(flow(layers, self.weights[i]).any(axis=1))
        node, count = np.unique(layers.entry_node[used], return_counts=True)
        name = np.full(layers.nodes, -1)
        name[node] = np.arange(node.size)
        length = np.diff(graph.trans_ptr)[layers.choice[used]]
        following = -1 - graph.successor[ranges(graph.trans_ptr[layers.choice[used]], length)].astype(np.int64)
        first = np.concatenate(([0], np.cumsum(length)))
        for e, begin in zip(used, first, strict=False):
            branch = slice(layers.branch_ptr[e], layers.branch_ptr[e + 1])
            inner = np.flatnonzero(layers.target[branch] >= 0)
            known = name[layers.target[branch][inner]]
            place = begin + layers.transition[branch][inner] - graph.trans_ptr[layers.choice[e]]
            following[place[known >= 0]] = known[known >= 0]
        return layers.node_state[node].astype(np.int32), count, layers.choice[used], self.weights[i][used], following


def flow(layers: Layers, weight: Array) -> Array:  # [E, K]
    """The probability in each sample that an entry is taken."""
    arrived = np.zeros((layers.nodes, layers.samples))
    arrived[0] = 1.0
    taken = np.zeros((layers.entries, layers.samples))
    for _, entry, branch in reversed(list(layers.backward())):
        taken[entry] = weight[entry, None] * arrived[layers.entry_node[entry]]
        target = layers.target[branch]
        inner = target >= 0
        np.add.at(arrived, target[inner], (taken[layers.branch_entry[branch]] * layers.prob[branch])[inner])
    return taken
