"""The arrays of a graph of beliefs: empty ones, larger ones, and vectors without those that are not used.

Which arrays there are, and in which group, is declared in `belief_kernels.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from rue._arrays import Array, pointers, ranges
from rue._jit import IS_INTERPRETED
from rue.adaptive import belief_kernels as kernel
from rue.adaptive.belief_kernels import BLOCK, FOLLOWERS, NODES, NONE, VECTORS, BeliefNodes, VectorLists, Weights
from rue.adaptive.expansion_kernels import rehash

START: dict[int | str, int] = {
    NODES: 256, kernel.ACTIONS: 1024, kernel.EDGES: 2048, VECTORS: 1024, FOLLOWERS: 2048, kernel.POINTS: 256
}  # fmt: skip
NUMBERS = {"f": np.float64, "l": np.int64, "i": np.int32}
RECORDS = {"graph": BeliefNodes, "weights": Weights, "vectors": VectorLists, "points": kernel.PointLists}


@dataclass(eq=False)
class BeliefArrays:
    """The records that kernels take."""

    graph: BeliefNodes
    weights: Weights
    vectors: VectorLists
    points: kernel.PointLists

    @classmethod
    def empty(cls, states: int, samples: int, widest: int) -> "BeliefArrays":
        """Return the arrays of a graph without nodes and vectors."""
        sizes = {**START, kernel.STATES: states, kernel.TABLE: 4 * START[NODES], kernel.COUNTS: kernel.STAMP + 1}

        def record(kind: Any, **given: object) -> Any:
            arrays = {
                name: empty_array(word, sizes[group], samples)
                for name, (word, group) in kernel.layout(kind).items()
                if name not in given
            }
            return kind(**given, **arrays)

        graph = record(BeliefNodes, widest=widest)
        weights = record(Weights, belief=np.zeros(0), least=0.0)
        vectors, points = record(VectorLists, used=graph.used), record(kernel.PointLists, used=graph.used)
        for array in (weights.table, vectors.fallback, vectors.at_state["newest"], points.at_state["newest"]):
            array[...] = NONE
        return cls(graph, weights, vectors, points)

    @property
    def bytes(self) -> int:
        """The memory of all arrays."""
        arrays = (array for record in RECORDS for array in getattr(self, record) if isinstance(array, np.ndarray))
        return sum(array.nbytes for array in arrays)

    def size(self, group: int) -> int:
        """Return how many rows a group has room for."""
        record, name = _in_group(group)[0]
        return int(getattr(getattr(self, record), name).shape[0])

    def bytes_with(self, grown: dict[int, int]) -> int:
        """Return the memory of all arrays while groups grow to new sizes; the table of nodes may double.

        While an array is copied to a larger one, both are there.
        """
        extra = self.weights.table.nbytes if NODES in grown else 0
        copied = 0
        for group, size in grown.items():
            for record, name in _in_group(group):
                array = getattr(getattr(self, record), name)
                extra += (size - array.shape[0]) * array[:1].nbytes
                copied = max(copied, array.nbytes)
        return self.bytes + extra + copied

    def enlarge(self, grown: dict[int, int]) -> None:
        """Give groups of arrays new sizes, one array after the other, so that no more than one is there twice."""
        for group, size in grown.items():
            for record, name in _in_group(group):
                larger = enlarged(getattr(getattr(self, record), name), size)
                setattr(self, record, getattr(self, record)._replace(**{name: larger}))
        wanted = self.graph.node.size + self.graph.widest
        if 2 * wanted > self.weights.table.size:
            table = np.full(1 << int(np.ceil(np.log2(2.5 * wanted))), NONE, np.int32)
            self.weights = self.weights._replace(table=table)
            rehash(self.graph, self.weights)

    def listed(self, state: int) -> Array:
        """Return the vectors of a state, the newest first."""
        owner = self.vectors.vector["owner"][: self.vectors.used[VECTORS]]
        return np.flatnonzero(owner == state + 1)[::-1]

    def reachable(self, start: Array, outcomes: Array) -> Array:
        """Return which vectors are in `start` or follow from these; `outcomes[C]` is the number of each choice's."""
        vector, follower = self.vectors.vector, self.vectors.follower
        reached = np.zeros(int(self.vectors.used[VECTORS]), bool)
        front = np.unique(start)
        while front.size:
            reached[front] = True
            own = front[vector["choice"][front] >= 0]
            ahead = follower[ranges(vector["first_follower"][own], outcomes[vector["choice"][own]])]
            ahead = ahead[ahead != NONE]
            front = np.unique(ahead[~reached[ahead]])
        return reached

    def vectors_of(self, sample: Array, widest: int) -> "BeliefArrays":
        """Return a copy of the vectors with the columns of some samples, and no nodes."""
        old = self.vectors
        new = BeliefArrays.empty(old.at_state.size, sample.size, widest)
        new.graph.used[[VECTORS, FOLLOWERS]] = old.used[[VECTORS, FOLLOWERS]]
        alpha = np.ascontiguousarray(old.alpha[:, sample])
        copies = (old.at_state.copy(), old.fallback.copy(), old.vector.copy(), alpha, old.follower.copy())
        new.vectors = VectorLists(new.graph.used, *copies)
        new.weights = new.weights._replace(belief=np.zeros(sample.size))
        return new

    def change_samples(self, kept: Array, samples: int) -> None:
        """Change to the columns of other samples, first those of `kept`. New ones are zero; no node is listed."""

        def columns(old: Array) -> Array:
            new = np.zeros((old.shape[0], samples))
            new[:, : kept.size] = old[:, kept]
            return new

        self.vectors = self.vectors._replace(alpha=columns(self.vectors.alpha))
        likelihood = np.zeros((self.weights.likelihood.shape[0], samples))
        self.weights = self.weights._replace(likelihood=likelihood, belief=np.zeros(samples))
        self.weights.table[...] = NONE
        self.points = self.points._replace(inverse=np.zeros((self.points.inverse.shape[0], samples)))
        self.points.at_state["newest"], self.points.at_state["number"] = NONE, 0
        self.graph.used[kernel.POINTS] = 0

    def drop_nodes(self) -> None:
        """Remove all nodes; keep the vectors."""
        empty = BeliefArrays.empty(self.vectors.at_state.size, self.vectors.alpha.shape[1], self.graph.widest)
        for group in (NODES, kernel.ACTIONS, kernel.EDGES, kernel.POINTS):
            self.graph.used[group] = 0
        self.graph = empty.graph._replace(used=self.graph.used)
        self.points = empty.points._replace(used=self.graph.used)
        self.weights = empty.weights._replace(belief=self.weights.belief, least=self.weights.least)

    def prune_vectors(self, kept: Array, outcomes: Array, others: Sequence[Array] = ()) -> Array:
        """Drop the vectors that no node refers to, except those to be `kept`, the fallbacks, and all that follow these.

        `others` are rows that refer to vectors like nodes. Vectors that only others lead to stay, but in no list.
        Return the new place of each vector, or NONE.
        """
        old, tables = self.vectors, (self.graph.node[: self.graph.used[NODES]], *others)
        vector = old.vector[: old.used[VECTORS]]
        fallback = old.fallback[old.fallback != NONE]
        wanted = np.zeros(vector.size, bool)
        for some in (kept, fallback, *(rows["vector"][rows["vector"] != NONE] for rows in tables)):
            wanted[some] = True
        moved = self.reachable(np.flatnonzero(wanted), outcomes)
        hidden = np.flatnonzero(moved & ~wanted)
        listed = np.flatnonzero(vector["owner"])
        listed = listed[np.argsort(vector["owner"][listed], kind="stable")]  # by state and age
        own = listed[wanted[listed]]

        number = np.bincount(vector["owner"][own] - 1, minlength=old.at_state.size)
        blocks = (number + BLOCK - 1) // BLOCK
        first = BLOCK * (np.cumsum(blocks) - blocks)
        end = BLOCK * int(blocks.sum())
        place = np.full(vector.size, NONE, np.int32)
        place[own] = ranges(first, number)
        place[hidden] = end + np.arange(hidden.size)
        used = (end + hidden.size + BLOCK - 1) // BLOCK * BLOCK
        size = max(int(moved.sum()) + BLOCK * (old.at_state.size + 4), 2 * own.size)
        new = self._copied(place, used, size, outcomes)
        new.at_state["number"] = number
        new.at_state["newest"] = np.where(number > 0, first + number - 1, NONE)
        new.vector["older"][:end] = np.arange(end) - 1
        new.vector["owner"][place[hidden]] = 0

        # How many of the oldest vectors that a row has been compared with are still listed.
        before = pointers(wanted[listed])
        for rows in tables:
            begin = (np.cumsum(old.at_state["number"]) - old.at_state["number"])[rows["state"]]
            rows["seen_vectors"] = before[begin + rows["seen_vectors"]] - before[begin]
            rows["vector"] = np.where(rows["vector"] == NONE, NONE, place[rows["vector"]])
        new.fallback[old.fallback != NONE] = place[fallback]
        self.vectors = new
        return place

    def _copied(self, place: Array, used: int, size: int, outcomes: Array) -> VectorLists:
        """Return arrays of a new size with vectors at their new places, and their followers; the lists are empty."""
        old, moved, samples = self.vectors, np.flatnonzero(place != NONE), self.vectors.alpha.shape[1]
        vector, alpha = empty_array("Vectors", size, samples), empty_array("f2", size, samples)
        follower = empty_array("i1", old.follower.size, samples)
        source = np.zeros(used, np.int64)
        source[place[moved]] = moved
        np.take(old.alpha, source, axis=0, out=alpha[:used], mode="clip")  # without a copy in between
        vector[place[moved]] = old.vector[moved]
        own = moved[old.vector["choice"][moved] >= 0]
        length = outcomes[old.vector["choice"][own]]
        vector["first_follower"][place[own]] = np.cumsum(length) - length
        ahead = old.follower[ranges(old.vector["first_follower"][own], length)]
        follower[: ahead.size] = np.where(ahead == NONE, NONE, place[ahead])
        old.used[VECTORS], old.used[FOLLOWERS] = used, ahead.size
        at_state = empty_array("Lists", old.at_state.size, samples)
        return VectorLists(old.used, at_state, old.fallback, vector, alpha, follower)


@cache
def _in_group(group: int) -> list[tuple[str, str]]:
    """Return the record and the name of each array of a group."""
    declared = (
        (record, name, own) for record, kind in RECORDS.items() for name, (_, own) in kernel.layout(kind).items()
    )
    return [(record, name) for record, name, own in declared if own == group]


def enlarged(old: Array, size: int) -> Array:
    """Return a copy of an array with more rows; the new ones are zero."""
    larger = np.zeros((size, *old.shape[1:]), old.dtype).view(type(old))
    larger[: old.shape[0]] = old
    return larger


def empty_array(word: str, rows: int, samples: int) -> Array:
    """Return an array of a type, as records have them, full of zeros, which take no memory until they are used."""
    shape = (rows, samples) if word.endswith("2") else (rows,)
    array = np.zeros(shape, kernel.ROWS[word] if word in kernel.ROWS else NUMBERS[word[0]])
    # Where kernels are not compiled, Python has to know fields as attributes.
    return array.view(np.recarray) if word in kernel.ROWS and IS_INTERPRETED else array
