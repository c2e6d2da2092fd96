"""What a controller does in all samples: the value and the visits of each node.

With P_k the chain of the controller in sample k, c_k its costs and b its start weights, values v_k = c_k + P_k v_k and
expected visits n_k = b + P_kᵀ n_k come from one factorisation of I − P_k. Nodes are ordered by strongly connected
components, successors first: a controller is mostly a tree above small cycles, so that the factors are about as sparse
as the chain.

If the controller does something else at node i, which costs q_k there with the old values to follow, then its value
changes by n_ik (q_k − v_ik), to first order. All modules of this package use these numbers. They are estimates: the
judge alone decides what is returned.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rue._arrays import Array, members, members_with_owner, pointers
from rue.controllers import Part, put_together
from rue.judge import ends_from
from rue.long_run import components
from rue.model import UMDP, Graph
from rue.policy import Policy
from rue.risk import worst_mean

# The value where a goal may be missed, as a multiple of the largest other one.
ENDLESS = 1e7
# Every sample has this belief, in all, where nodes are chosen: or it would not matter whether they reach the goal.
LEAST_BELIEF = 1e-6
# Numbers of the largest table.
LARGEST_TABLE = 4_000_000
# What decides between nodes that are equally good: their mean value, by this factor.
TIE = 1e-13


@dataclass(frozen=True, eq=False)
class Measure:
    """What is to be small: the largest mean of V_k − offset_k over the beliefs that keep to the caps."""

    offset: Array  # [K] V*_k for regrets, 0 for costs
    cap: Array  # [K] the largest belief of each sample; 1 without a tail
    floor: float  # differences up to this are no more than rounding

    def of(self, value: Array) -> float:
        """Return the figure of a policy from its costs in all samples."""
        return worst_mean(value - self.offset, self.cap)


@dataclass(frozen=True, eq=False)
class Chain:
    """A controller with the values and visits of its nodes. N nodes, E entries, D outcomes of all entries."""

    model: UMDP
    policy: Policy
    measure: Measure
    value: Array  # [N, K]
    visits: Array  # [N, K]

    @classmethod
    def of(cls, model: UMDP, policy: Policy, measure: Measure) -> "Chain | None":
        """Return the controller with its values, or None if it may miss the goal or they cannot be computed."""
        from scipy.sparse.linalg import splu  # slow to import

        outcomes = _Outcomes.of(policy)
        ends = ends_from(model, policy)
        if not ends[policy.start_node][:, measure.cap > 0].all():
            return None
        live = model.ever_live[outcomes.transition] & ~model.graph.goal[policy.node_state[policy.next_node]]
        source, target = outcomes.node[live], policy.next_node[live]
        order, _ = components(*_rows(source, target, policy.nodes))
        place = np.empty(policy.nodes, np.int64)
        place[order] = np.arange(policy.nodes)
        paid = np.zeros((policy.nodes, model.samples))
        np.add.at(paid, outcomes.entry_node, policy.weight[:, None] * model.cost[policy.choice])
        start = np.bincount(policy.start_node, policy.start_weight, policy.nodes)
        prob = policy.weight[outcomes.entry[live], None] * model.prob[outcomes.transition[live]]
        value, visits = np.zeros_like(paid), np.zeros_like(paid)
        for k in range(model.samples):
            inside = ends[source, k] & ends[target, k]
            matrix = _identity_minus(place[source], place[target], np.where(inside, prob[:, k], 0.0), policy.nodes)
            try:
                factors: Any = splu(matrix, permc_spec="NATURAL", diag_pivot_thresh=0.0)
            except RuntimeError:
                return None
            value[:, k] = factors.solve(paid[order, k])[place]
            visits[:, k] = factors.solve(start[order], trans="T")[place]
        if not (np.isfinite(value).all() and np.isfinite(visits).all()):
            return None
        value[~ends] = ENDLESS * max(float(value.max()), measure.floor)
        return cls(model, policy, measure, value, np.where(ends, np.maximum(visits, 0.0), 0.0))

    @cached_property
    def outcomes(self) -> "_Outcomes":
        """The outcomes of all entries."""
        return _Outcomes.of(self.policy)

    @cached_property
    def start(self) -> Array:  # [N]
        """The start weight of each node."""
        return np.bincount(self.policy.start_node, self.policy.start_weight, self.policy.nodes)

    @cached_property
    def cost(self) -> Array:  # [K]
        """The cost of the controller in each sample."""
        return np.asarray(self.start @ self.value)

    @cached_property
    def figure(self) -> float:
        """What is to be small."""
        return self.measure.of(self.cost)

    @cached_property
    def flow(self) -> Array:  # [D, K]
        """How often each outcome of each entry happens."""
        weight = self.policy.weight[self.outcomes.entry, None]
        return np.asarray(self.visits[self.outcomes.node] * weight * self.model.prob[self.outcomes.transition])

    @cached_property
    def by_state(self) -> tuple[Array, Array]:
        """All nodes by state, `node[ptr[s]:ptr[s+1]]`."""
        state = self.policy.node_state
        return np.argsort(state, kind="stable"), pointers(np.bincount(state, minlength=self.policy.graph.states))

    def nodes_at(self, state: int) -> Array:
        """Return the nodes of a state."""
        node, ptr = self.by_state
        return np.asarray(node[ptr[state] : ptr[state + 1]])

    def by_target(self, state: Array) -> Iterator[tuple[Array, Array]]:
        """Yield rows of one state each with the nodes of that state, few enough for a table of both."""
        order = np.argsort(state, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(state[order])) + 1):
            if rows.size:
                here = self.nodes_at(int(state[rows[0]]))
                for part in np.array_split(rows, 1 + rows.size * here.size // LARGEST_TABLE):
                    yield part, here

    def best_nodes(self, weight: Array, state: Array, kept: Array | None = None) -> tuple[Array, Array]:
        """Return for each row of `weight[rows, K]` the node of its state with the least weighted value, and that.

        With `kept[N]` only such nodes count. −1 where there is none.
        """
        node, least = np.full(state.size, -1), np.full(state.size, np.inf)
        for rows, every in self.by_target(state):
            here = every if kept is None else every[kept[every]]
            if here.size:
                score = weight[rows] @ self.value[here].T + TIE * self.value[here].mean(axis=1)
                best = score.argmin(axis=1)
                node[rows], least[rows] = here[best], score[np.arange(rows.size), best]
        return node, least

    def best_steps(self, weight: Array, state: Array) -> tuple["Steps", Array]:
        """Return for each row of `weight[rows, K]` the best choice at its state with known nodes to follow, and its
        weighted value."""
        graph = self.model.graph
        choice, row = members_with_owner(graph.choice_ptr, state)
        transition, option = members_with_owner(graph.trans_ptr, choice)
        node, least = self.best_nodes(weight[row[option]] * self.model.prob[transition], graph.successor[transition])
        total = np.bincount(option, least, choice.size) + (weight[row] * self.model.cost[choice]).sum(axis=1)
        best = np.lexsort((total, row))[np.searchsorted(row, np.arange(state.size))]
        first = np.searchsorted(option, np.arange(choice.size + 1))
        return Steps(choice[best], node[members(first, best)]), total[best]

    def step_value(self, steps: "Steps") -> Array:  # [steps, K]
        """Return what steps cost in each sample, with the values of the nodes to follow."""
        graph = self.model.graph
        transition, step = members_with_owner(graph.trans_ptr, steps.choice)
        value: Array = self.model.cost[steps.choice].astype(float)
        np.add.at(value, step, self.model.prob[transition] * self.value[steps.following])
        return value

    @property
    def entries(self) -> "Steps":
        """The entries of the controller as steps."""
        return Steps(self.policy.choice, self.policy.next_node)


@dataclass(frozen=True, eq=False)
class Steps:
    """Choices, and the next nodes of all their outcomes in order."""

    choice: Array
    following: Array

    def taken(self, graph: Graph, chosen: Array) -> "Steps":
        """Return some of the steps."""
        first = pointers(np.diff(graph.trans_ptr)[self.choice])
        return Steps(self.choice[chosen], self.following[members(first, chosen)])

    def with_more(self, other: "Steps") -> "Steps":
        """Return these steps and others after them."""
        return Steps(np.append(self.choice, other.choice), np.append(self.following, other.following))


@dataclass(frozen=True, eq=False)
class _Outcomes:
    """The entry, the node and the transition of each outcome, and the node of each entry."""

    entry_node: Array  # [E]
    entry: Array  # [D]
    node: Array  # [D]
    transition: Array  # [D]

    @classmethod
    def of(cls, policy: Policy) -> "_Outcomes":
        node, entry = policy.entry_node, np.repeat(np.arange(policy.choice.size), np.diff(policy.next_ptr))
        return cls(node, entry, node[entry], policy.transition)


def made_positive(belief: Array) -> Array:  # [K]
    """Return the belief mixed with a little of equal weights."""
    return np.asarray((1 - LEAST_BELIEF) * belief + LEAST_BELIEF / belief.size)


def controller(graph: Graph, part: Part, start: Array) -> Policy:
    """Return the controller with these nodes and start weights `start[N]`."""
    node = np.flatnonzero(start > 0)
    return put_together(graph, [part], node, start[node] / start[node].sum())


def _rows(source: Array, target: Array, nodes: int) -> tuple[Array, Array]:
    """Return the edges by source, as `long_run.components` takes them."""
    order = np.argsort(source, kind="stable")
    return pointers(np.bincount(source, minlength=nodes)), target[order].astype(np.int32)


def _identity_minus(row: Array, column: Array, prob: Array, size: int) -> Any:
    """Return I − P as a sparse matrix; repeated entries add up."""
    from scipy.sparse import csc_array  # slow to import

    every = np.arange(size)
    data = np.concatenate([-prob, np.ones(size)])
    place = (np.concatenate([row, every]), np.concatenate([column, every]))
    return csc_array((data, place), shape=(size, size))
