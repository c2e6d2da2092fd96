"""Upper bounds over all samples: policies for beliefs at which the game of the known ones is still high.

The value of the game over the vectors at the initial state is the upper bound. A tree of histories (`policy_tree.py`)
at a belief gives a vector that is good there. The dual of the game, where the known vectors are worst, jumps from side
to side. So the next belief is the one nearest to the last at which all known vectors are above a level between what the
last tree reached and the value of the game.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rue._arrays import Array
from rue.adaptive.belief_graph import BeliefGraph
from rue.adaptive.belief_kernels import FOLLOWERS, VECTORS
from rue.adaptive.policy_tree import KEPT, PolicyTree
from rue.adaptive.vector_kernels import Trial, follow_trials

if TYPE_CHECKING:
    from rue.adaptive.search import AdaptiveSearch

# Where the level is between the regret at the last belief and the value of the game.
LEVEL = 0.5
# Nodes that are expanded in the first trees; there are twice as many after some trees that each lowered the value by
# less than a part of the gap.
FIRST_NODES, MOST_NODES, SLOW, SLOW_TREES = 100, 100_000, 0.01, 3
# Trials after a tree at most, and steps of each.
TRIALS, STEPS = 100, 200


@dataclass(eq=False)
class Answers:
    """Trees of histories, one after the other, at beliefs over all samples."""

    search: "AdaptiveSearch"
    belief: Array | None = None  # [K] of the last tree
    reached: float = 0.0  # the regret of its vector there
    nodes: int = FIRST_NODES
    slow: int = 0  # trees that gained little
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    numbers: float = 0.0  # that have been read

    def add(self, most: float) -> None:
        """Add vectors until this many numbers have been read in all, or something stops the search."""
        search = self.search
        while self.numbers < most and search.lower < search.upper < np.inf and not search.out_of_time():
            before, width = search.upper, search.upper - search.lower
            self._grow(self._next_belief())
            search.update_game(estimate=False)
            self.slow = 0 if before - search.upper > SLOW * width else self.slow + 1
            if self.slow >= SLOW_TREES:
                self.nodes, self.slow = min(2 * self.nodes, MOST_NODES), 0

    def _grow(self, belief: Array) -> None:
        """Add the vectors of a tree at a belief, and those of as much work with trials."""
        search = self.search
        tree = PolicyTree.root(search.graph, belief)
        tree.grow(self.nodes, search.out_of_time)
        tree.add_vectors()
        self.follow_trials(belief, tree.numbers)
        self.numbers += 2 * tree.numbers
        search.graph.set_belief(belief)
        search.graph.prune_if_many()
        self.belief, self.reached = belief, float(tree.value[0] + search.offset @ belief)

    def follow_trials(self, belief: Array, most: float) -> None:
        """Follow trials from a belief, until about `most` numbers have been read."""
        add_trials(self.search.graph, belief, self.random.random((TRIALS, STEPS)), most)

    def _next_belief(self) -> Array:  # [K]
        """Return the belief nearest to the last one at which all known vectors are above the level."""
        search = self.search
        if self.belief is None or self.reached >= search.upper:
            return search.mixed(search.game.dual)
        level = self.reached + LEVEL * (search.upper - self.reached)
        return search.mixed(search.game.nearest(self.belief, level))


def add_trials(graph: BeliefGraph, belief: Array, draw: Array, most: float) -> None:
    """Add vectors at beliefs that simulated histories meet, a row of `draw` each, until `most` numbers are read."""
    (_, steps), longest = draw.shape, int(graph.outcomes.max(initial=1))
    graph.make_room({VECTORS: graph.in_blocks(draw.size), FOLLOWERS: draw.size * longest})
    graph.batch += 1
    room = (np.empty(steps, np.int64), np.empty(steps, np.int64), np.empty((steps + 1, belief.size)))
    trial, initial = Trial(*room, graph.batch + KEPT), graph.model.graph.initial
    follow_trials(graph.gaps, graph.arrays.vectors, initial, np.array(belief), draw, trial, most)
