"""A class of options: one option for each root as a row, and a way to find better ones.

The row of an option is what it pays in each sample and where it ends; the game against the adversary
(`recursion/option_game.py`) needs nothing else.
"""

import threading
from abc import ABC, abstractmethod
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np

from rue._arrays import Array
from rue.controllers import Part
from rue.recursion.inner.matrix_kernels import GameMemory
from rue.recursion.inner.node_kernels import GraphView
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.option_tree_kernels import BestTree, Found, HistoryWalk, OptionRows, Round
from rue.solution import Run

# Numbers of rows that are computed between two checks of the clock.
ROWS_WORK = 1_000_000


class OptionSet(ABC):
    """One option for each root, and a way to find better ones."""

    effort_name: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]  # the attributes that make up the options

    def __init__(self, tree: OptionTree) -> None:
        self.tree = tree
        ends, samples = int(tree.end_ptr[-1]), tree.samples
        self.rows = OptionRows(tree.end_ptr, np.zeros((tree.size, samples)), np.zeros((ends, samples)))
        belief = np.full((tree.size, samples), 1.0 / samples)
        self.found = Found(np.full(tree.size, -np.inf), np.zeros(tree.size), np.zeros(tree.size, bool), belief)
        self.effort = 0  # pivots or nodes, for the counters
        self._lock = threading.Lock()
        self._spare: list[Any] = []  # memory of kernels that no thread uses

    def improve(self, places: Array, given: Round) -> None:
        """Search for better options at some places; in parallel with other places, until `given.stop[0]`."""
        with self._lock:
            memory = self._spare.pop() if self._spare else self.new_memory()
        effort = self.search(places, given, memory)
        with self._lock:
            self._spare.append(memory)
            self.effort += int(effort)

    @abstractmethod
    def search(self, places: Array, given: Round, memory: Any) -> int:
        """Improve the options at some places, with memory that no other thread uses; return the effort."""

    def new_memory(self) -> Any:
        """Return memory for `search`, enough for all places; None for a class without kernels."""
        return None

    def try_harder(self) -> bool:
        """Search more thoroughly from now on; return False if that is not possible."""
        return False

    @property
    def first_pace(self) -> float:
        """A bound on the seconds that a place will take; infinite if there is none."""
        return np.inf

    @abstractmethod
    def repeat(self, choice: Array, run: Run) -> None:
        """Let each option repeat a stationary policy: `choice[S]`, in the option model's numbers."""

    @abstractmethod
    def part(self, i: int, graph: GraphView) -> Part:
        """Return option i as a part of a controller: see `node_kernels`."""

    @abstractmethod
    def make_rows(self, places: Array) -> None:
        """Compute the rows of the options at some places."""

    def make_all_rows(self, run: Run) -> None:
        """Compute the rows of all options, as far as there is time."""
        work = np.cumsum(self.tree.plan_size) * self.tree.samples
        ends = np.arange(ROWS_WORK, int(work.max(initial=0)) + ROWS_WORK, ROWS_WORK)
        parts = np.unique(np.searchsorted(work, ends) + 1)
        for places in np.split(np.arange(self.tree.size), parts):
            if run.out_of_time():
                return
            self.make_rows(places)

    def worst(self, value: Array) -> Array:  # [N]
        """Return the cost of each option against the adversary, with values at the ends."""
        ends = np.add.reduceat(self.rows.share * value[self.tree.end_state, None], self.tree.end_ptr[:-1])
        return np.asarray((self.rows.paid + ends).max(axis=1))

    def forget(self) -> None:
        """Drop the bounds that were found, so that all places are searched again."""
        self.found.floor[:] = -np.inf

    def keep(self) -> dict[str, Any]:
        """Return a copy of the options, for `restore`."""
        return {name: deepcopy(getattr(self, name)) for name in ("rows", *self.parts)}

    def restore(self, kept: dict[str, Any]) -> None:
        """Go back to options that were kept."""
        for name, was in kept.items():
            setattr(self, name, deepcopy(was))

    def adopt(self, tree: OptionTree) -> None:
        """Take over a tree with other gaps."""
        self.tree = tree
        self.make_rows(np.arange(tree.size))

    def new_walk(self) -> HistoryWalk:
        """Return memory for a walk over histories."""
        levels = self.tree.model.steps + 1
        state, choice, transition, place, next_place = np.empty((5, levels), np.int64)
        return HistoryWalk(state, choice, transition, place, next_place, np.empty((levels, self.tree.samples)))

    def new_search(self) -> BestTree:
        """Return memory for the search of the best tree."""
        levels = self.tree.model.steps + 1
        taken = np.zeros(int(self.tree.histories().max(initial=1)), np.int32)
        return BestTree(taken, np.empty(levels, np.int64), np.empty(levels), np.empty(levels))

    def new_numbers(self) -> Array:
        """Return memory for the numbers of the states of each layer."""
        return np.empty((self.tree.model.steps + 1, self.tree.model.choice_ptr.size - 1), np.int32)


def new_game(samples: int, columns: int) -> GameMemory:
    """Return memory for matrix games of some samples and at most some columns."""
    tableau = np.empty((samples + 1) * (samples + columns + 1))
    return GameMemory(tableau, np.empty(samples, np.int64), np.empty(samples))
