"""Vectors from a tree of histories: what a policy does that looks one step ahead at each of them.

A vector of the pool was made for one belief and is good for others near it. A policy that looks one step ahead after
every history is better, as each history has a belief of its own. So the histories of such a policy, from a belief at
the initial state, are listed as a tree. Weights are not normalised: the regret that the best known vector has at a node
is what the node adds at the root. The nodes that add most are expanded first. In the end each expanded node gets the
vector of its choice and of its next nodes, the last one first, if that is an improvement.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rue._arrays import Array, members, ranges
from rue._threads import in_parts
from rue.adaptive.belief_graph import BeliefGraph
from rue.adaptive.belief_kernels import FOLLOWERS, NONE, VECTORS
from rue.adaptive.vector_kernels import TreeNodes, back_up_tree, find_vectors

# The part of the open nodes that are expanded at a time.
PART = 0.25
# Nodes that add less than this part of the regret at the root are left alone; and so are gains of a smaller part.
LEAST_VALUE, LEAST_GAIN = 1e-6, 1e-6
# Batches of trees for which a new vector is not pruned.
KEPT = 50
# Vectors are found for this many weights at least by one thread.
SMALL = 64


@dataclass(eq=False)
class PolicyTree:
    """Histories from the initial state: N nodes, parents before children."""

    graph: BeliefGraph
    state: Array  # [N]
    weight: Array  # [N, K]
    value: Array  # [N] regret of the best known vector
    vector: Array  # [N]
    choice: Array  # [N] NONE until it is expanded
    child: Array  # [N] the first one
    numbers: float = 0.0  # that have been read

    @classmethod
    def root(cls, graph: BeliefGraph, belief: Array) -> "PolicyTree":
        """Return a tree with one node."""
        state, none = np.array([graph.model.graph.initial]), np.array([NONE])
        tree = cls(graph, state, np.array(belief)[None], np.zeros(1), none, none.copy(), none.copy())
        tree.value, tree.vector = tree._best_vectors(state, tree.weight)
        return tree

    def grow(self, nodes: int, out_of_time: Callable[[], object]) -> None:
        """Expand up to this number of nodes, as long as any of them matters."""
        while nodes > 0 and not out_of_time():
            leaf = np.flatnonzero((self.choice == NONE) & (self.value > LEAST_VALUE * self.value[0]))
            if not leaf.size:
                break
            number = min(max(int(PART * leaf.size), 1), nodes)
            nodes -= number
            self._expand(np.sort(leaf[np.argsort(-self.value[leaf], kind="stable")[:number]]))

    def _expand(self, chosen: Array) -> None:
        """Give nodes their best choices, by the known vectors, and the outcomes of these as children."""
        graph, gaps = self.graph.model.graph, self.graph.gaps
        state = self.state[chosen]
        choices = np.diff(graph.choice_ptr)[state]
        choice, at = members(graph.choice_ptr, state), np.repeat(chosen, choices)
        outcome, outcomes = members(graph.trans_ptr, choice), self.graph.outcomes[choice]
        weight = self.weight[np.repeat(at, outcomes)] * gaps.prob[outcome]
        following = graph.successor[outcome]
        value, vector = self._best_vectors(following, weight)
        first = np.cumsum(outcomes) - outcomes
        cost = np.einsum("ik,ik->i", self.weight[at], gaps.gap[choice]) + np.add.reduceat(value, first)
        begin = np.cumsum(choices) - choices
        least = np.repeat(np.minimum.reduceat(cost, begin), choices)
        best = np.flatnonzero(cost <= least)
        best = best[np.unique(at[best], return_index=True)[1]]  # the first of equals
        kept = ranges(first[best], outcomes[best])
        self.choice[chosen] = choice[best]
        self.child[chosen] = self.state.size + np.cumsum(outcomes[best]) - outcomes[best]
        none = np.full(kept.size, NONE)
        self.state = np.concatenate([self.state, following[kept]])
        self.weight = np.concatenate([self.weight, weight[kept]])
        self.value = np.concatenate([self.value, value[kept]])
        self.vector = np.concatenate([self.vector, vector[kept]])
        self.choice, self.child = np.concatenate([self.choice, none]), np.concatenate([self.child, none])

    def _best_vectors(self, state: Array, weight: Array) -> tuple[Array, Array]:
        """Return the least regrets of vectors of states for weights, and the vectors; 0 and NONE at a goal."""
        vectors = self.graph.arrays.vectors
        value, vector = np.zeros(state.size), np.full(state.size, NONE)
        order = np.argsort(state, kind="stable")
        in_parts(
            lambda i, j: find_vectors(vectors, state, weight, order[i:j], value, vector),
            0, state.size, self.graph.threads, SMALL,
        )  # fmt: skip
        self.numbers += float(vectors.at_state["number"][state].sum()) * weight.shape[1]
        return value, vector

    def add_vectors(self) -> None:
        """Add the vectors of the expanded nodes."""
        graph, expanded = self.graph, self.choice != NONE
        length = int(self.graph.outcomes[self.choice[expanded]].sum())
        graph.make_room({VECTORS: graph.in_blocks(int(expanded.sum())), FOLLOWERS: length})
        graph.batch += 1
        gain = LEAST_GAIN * float(self.value[0])
        nodes = TreeNodes(self.state, self.weight, self.value, self.vector, self.choice, self.child)
        back_up_tree(graph.gaps, graph.arrays.vectors, nodes, gain, graph.batch + KEPT)
