"""Which samples are still possible: whether any policy, of any memory, reaches a goal in every sample.

An outcome that is impossible in a sample rules that sample out. What a history leaves, with the state, is a *support*
(s, J): J is the set of samples in which the history is possible. A policy that reaches a goal with probability one in
each sample exists if and only if one exists that looks at the support alone. On the graph of supports:

1. a choice is allowed at (s, J) if all that may follow it, in any sample of J, is alive;
2. (s, J) is alive if, for each sample k of J, a goal can be reached by allowed choices in sample k.

The largest set with both properties is found by taking out what violates them. If the initial support is in it, the
policy that draws each allowed choice with equal chances has a finite cost in every sample. If not, each policy misses
the goal with positive probability in some sample, and all regrets are infinite.

There may be as many as S·2^K supports. Beyond `MOST_SUPPORTS` the question is left open.
"""

from dataclasses import dataclass

import numpy as np

from rue._flat import Array
from rue._linear import ranges
from rue.model import UMDP
from rue.policy import Policy
from rue.solution import Interval, Outcome, Run, Status
from rue.solvers.base import wandering
from rue.solvers.compose import merged, part_of, put_together
from rue.structure import jointly_proper

MOST_SUPPORTS = 50_000


@dataclass(frozen=True, eq=False)
class Supports:
    """The supports that can be reached, their entries (a choice at a support) and the edges of these (an outcome)."""

    model: UMDP
    state: Array  # [N]; support 0 is the initial one
    possible: Array  # [N, K]
    entry_node: Array  # [E]
    entry_choice: Array  # [E]
    edge_entry: Array  # [M]
    edge_transition: Array  # [M]
    edge_target: Array  # [M]

    @classmethod
    def explore(cls, model: UMDP) -> "Supports | None":
        """All supports, breadth first; None if there are too many."""
        graph = model.graph
        live = [int("".join("01"[bit] for bit in row), 2) for row in (model.prob > 0).tolist()]
        number = {(graph.initial, (1 << model.samples) - 1): 0}
        supports = list(number)
        entries: list[tuple[int, int]] = []
        edges: list[tuple[int, int, int]] = []
        for node, (s, samples) in enumerate(supports):  # grows on the way
            for c in range(graph.choice_ptr[s], graph.choice_ptr[s + 1]):
                for t in range(graph.trans_ptr[c], graph.trans_ptr[c + 1]):
                    left = samples & live[t]
                    if left:
                        key = (int(graph.successor[t]), left)
                        if key not in number:
                            number[key] = len(supports)
                            supports.append(key)
                        edges.append((len(entries), t, number[key]))
                entries.append((node, c))
            if len(supports) > MOST_SUPPORTS:
                return None
        bits = [[int(bit) for bit in f"{samples:0{model.samples}b}"] for _, samples in supports]
        entry, edge = np.array(entries).reshape(-1, 2), np.array(edges).reshape(-1, 3)
        state = np.array([s for s, _ in supports])
        return cls(model, state, np.array(bits, bool), *entry.T, *edge.T)

    def alive(self) -> tuple[Array, Array]:  # [N], [E]
        """The supports from which some policy reaches a goal in each possible sample, and the choices it may take."""
        goal = self.model.graph.goal[self.state]
        alive, allowed = np.ones(self.state.size, bool), np.ones(self.entry_node.size, bool)
        while True:
            keep = alive.copy()
            for k in range(self.model.samples):
                keep &= self._reaching(k, goal & alive, allowed) | ~self.possible[:, k]
            if (keep == alive).all():
                return alive, allowed
            alive = keep
            lost = self.edge_entry[~alive[self.edge_target]]
            allowed[lost] = False
            allowed &= alive[self.entry_node]

    def _reaching(self, k: int, goal: Array, allowed: Array) -> Array:  # [N]
        """The supports from which allowed choices can lead to a goal in a sample."""
        use = allowed[self.edge_entry] & (self.model.prob[self.edge_transition, k] > 0)
        source, target = self.entry_node[self.edge_entry[use]], self.edge_target[use]
        seen = goal.copy()
        order = np.argsort(target, kind="stable")
        source, count = source[order], np.bincount(target, minlength=seen.size)
        first = np.cumsum(count) - count
        front = np.flatnonzero(seen)
        while front.size:
            before = np.unique(source[ranges(first[front], count[front])])
            front = before[~seen[before]]
            seen[front] = True
        return seen

    def policy(self, alive: Array, allowed: Array) -> Policy:
        """The policy that draws each allowed choice with equal chances; what cannot happen goes to no such node."""
        graph = self.model.graph
        other = wandering(self.model)
        own = np.flatnonzero(alive & ~graph.goal[self.state])
        place = np.full(self.state.size, -1)
        place[own] = other.nodes + np.arange(own.size)
        entry = np.flatnonzero(allowed & alive[self.entry_node])
        choice = self.entry_choice[entry]
        length = np.diff(graph.trans_ptr)[choice]
        follow = graph.successor[ranges(graph.trans_ptr[choice], length)].astype(np.int64)  # the other's nodes
        first = np.full(self.entry_node.size, -1)
        first[entry] = np.cumsum(length) - length
        edge = np.flatnonzero((first[self.edge_entry] >= 0) & (place[self.edge_target] >= 0))
        begin = graph.trans_ptr[self.entry_choice[self.edge_entry[edge]]]
        follow[first[self.edge_entry[edge]] + self.edge_transition[edge] - begin] = place[self.edge_target[edge]]
        count = np.bincount(self.entry_node[entry], minlength=self.state.size)[own]
        part = (self.state[own], count, choice, np.repeat(1.0 / count, count), follow)
        start = place[:1] if place[0] >= 0 else np.array([graph.initial])
        return merged(put_together(graph, [part_of(other), part], start, np.ones(1)))


def reaching_policy(model: UMDP, run: Run) -> Policy | None:
    """A policy that reaches a goal in every sample, if there is one and it is found."""
    return _found(model, run)[0]


def no_policy_reaches(model: UMDP, run: Run) -> bool:
    """Whether it is certain that each policy may miss the goal in some sample."""
    return _found(model, run)[1]


def _found(model: UMDP, run: Run) -> tuple[Policy | None, bool]:
    """A policy that reaches a goal in every sample, and whether it is certain that there is none."""

    def find() -> tuple[Policy | None, bool]:
        if jointly_proper(model)[0][model.graph.initial]:
            return wandering(model), False
        supports = Supports.explore(model)
        if supports is None:
            return None, False
        alive, allowed = supports.alive()
        return (supports.policy(alive, allowed), False) if alive[0] else (None, True)

    return run.cache.remember(model, "reaching policy", find)


def fallback(model: UMDP, run: Run) -> Policy:
    """A policy without a search, which reaches a goal in every sample if one is known that does."""
    return reaching_policy(model, run) or wandering(model)


def infeasible(model: UMDP, run: Run) -> Outcome:
    """No policy that counts has a finite objective; others may have."""
    return Outcome(fallback(model, run), Interval(np.inf, np.inf), Status.INFEASIBLE)


def why_none_reaches(model: UMDP, run: Run) -> str:
    """Why each policy may miss the goal in some sample; empty unless that is certain."""
    if not no_policy_reaches(model, run):
        return ""
    names = ", ".join(model.sample_name(k) for k in clashing_samples(model))
    return f"each policy may miss the goal in some sample; samples {names} cannot be told apart in time"


def clashing_samples(model: UMDP) -> tuple[int, ...]:
    """Samples that no policy serves all, while one serves them if any of them is left out; none if not known."""
    left = list(range(model.samples))
    if not no_policy_reaches(model, Run()):
        return ()
    for k in range(model.samples):
        rest = [other for other in left if other != k]
        if rest and no_policy_reaches(model.subset(rest), Run()):
            left = rest
    return tuple(left)
