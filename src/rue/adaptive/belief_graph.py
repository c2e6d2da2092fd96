"""The graph of beliefs around its kernels: it is evaluated and expanded, and gives policies and certificates.

What the graph is, and how its bounds are computed, is described in `belief_kernels.py`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rue._arrays import Array, members, pointers, ranges
from rue._threads import in_parts
from rue.adaptive import belief_kernels as kernel
from rue.adaptive import expansion_kernels as expansion
from rue.adaptive import growth_kernels as growth
from rue.adaptive.belief_arrays import BeliefArrays
from rue.adaptive.belief_kernels import ACTIONS, BLOCK, EDGES, FOLLOWERS, HUGE, NODES, NONE, POINTS, VECTORS, Walk
from rue.adaptive.proof_kernels import Draft, list_proof, lower_claims
from rue.certificate import Certificate, margin, model_fingerprint
from rue.certificate_kernels import GapModel
from rue.controllers import merged, part_of, put_together
from rue.judge import node_values
from rue.model import UMDP
from rue.policy import Policy
from rue.potential import gap_below, safe_potential
from rue.solution import Run
from rue.values import OptimalValues

# Likelihoods below this fraction of the largest count as zero, unless some regret is larger than that of the best
# policy by the second factor.
LEAST_LIKELIHOOD, LARGE_REGRET = 1e-9, 1e4
# The part of the gap, as seen from the root, of the nodes that are expanded in one round, and the largest part of the
# visited nodes that these may be.
PART, MOST = 0.5, 0.25
# Bounds whose difference is this fraction of the upper bound of the root count as equal.
EQUAL = 1e-13
# Backups of cycles: every `RELAX_EVERY` rounds, in `FEW_SWEEPS` sweeps, until no lower bound rises by the fraction
# `RISE`; where no node is left to expand, in `MOST_WALKS` walks of `MANY_BACKUPS` until none rises by `LEAST_RISE`.
RELAX_EVERY, FEW_SWEEPS, RISE = 8, 20, 1e-4
MANY_BACKUPS, LEAST_RISE, MOST_WALKS = 500_000, 1e-9, 50
# Fewer nodes than this are done before another thread has started.
SMALL = 128
# Vectors are pruned when there are this many, and then whenever their number has doubled.
MANY_VECTORS = 30_000
# A batch of trials that is never reached.
LASTING = 2**30
# Vectors at the initial state that are kept, those that are best for the present belief.
ROOT_VECTORS = 500
# By how much arrays grow, if there is memory for it.
GROWTH = (2.0, 1.4, 1.1)
# Numbers that are read between two checks of the clock: of vectors and points, and of the outcomes of expanded nodes.
SCAN_WORK, EXPAND_WORK = 100_000_000, 30_000_000


class OutOfMemory(Exception):
    """The graph would need more memory than it may have."""


@dataclass(eq=False)
class BeliefGraph:
    """A graph of beliefs on a model, evaluated at one belief at a time."""

    model: UMDP
    potential: Array  # [S, K] lower bounds on the optimal values, from which regrets are counted
    gaps: GapModel
    arrays: BeliefArrays
    memory: float  # bytes that the arrays may take
    threads: int
    out_of_time: Callable[[], object] = lambda: None  # asked between parts of long work
    policies: list[Policy] = field(default_factory=list)
    policy_bytes: int = 0
    policy_seconds: float = 0.0  # that the regrets of all policies took
    offset: list[int] = field(default_factory=lambda: [0])  # where the nodes of each policy begin, as numbers
    favourites: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # vectors that are never pruned
    visited: int = 0  # nodes of the last walk, which are listed in `order`
    order: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    expanded: int = 1  # nodes of the last frontier
    rounds: int = 0
    batch: int = 0  # the number of the last batch of trials
    prune_at: int = MANY_VECTORS
    others: Callable[[], Sequence[Array]] = tuple  # other rows that refer to vectors
    other_bytes: int = 0  # what else is to be counted as memory of the graph

    @classmethod
    def build(cls, model: UMDP, values: OptimalValues, memory: float, threads: int = 1) -> "BeliefGraph":
        """Return an empty graph; `memory` is in bytes."""
        graph = model.graph
        potential = safe_potential(model, values.lower)
        gap = gap_below(model, potential)
        gap = np.where(np.isinf(gap), kernel.FORBIDDEN, gap)
        outcomes = np.diff(graph.trans_ptr[graph.choice_ptr])  # [S] of all choices
        widest = int(max(outcomes.max(initial=1), np.diff(graph.choice_ptr).max(initial=1))) + BLOCK
        gaps = GapModel(graph.choice_ptr, graph.trans_ptr, graph.successor, model.prob, gap)
        return cls(model, potential, gaps, BeliefArrays.empty(graph.states, model.samples, widest), memory, threads)

    def grown(self, model: UMDP, values: OptimalValues, kept: Array) -> "BeliefGraph":
        """Return the graph for a model of other samples, first those of `kept`. Do not use this one afterwards."""
        new = np.arange(kept.size, model.samples)
        fresh = model.subset(new)
        potential = safe_potential(fresh, values.lower[:, new])
        gap = np.minimum(gap_below(fresh, potential), kernel.FORBIDDEN)
        potential = np.column_stack([self.potential[:, kept], potential])
        gaps = self.gaps._replace(prob=model.prob, gap=np.column_stack([self.gaps.gap[:, kept], gap]))
        graph = replace(self, model=model, potential=potential, gaps=gaps, visited=0, expanded=1)
        graph.arrays.change_samples(kept, model.samples)
        graph._add_regrets(fresh, kept.size)
        arrays, order = graph.arrays, np.empty(self.nodes, np.int32)
        arrays.weights = arrays.weights._replace(least=min(arrays.weights.least, graph._least_likelihood()))
        count = growth.spread_likelihoods(gaps, arrays.graph, arrays.weights, order)
        graph.make_room({POINTS: count + BLOCK * model.graph.states})
        growth.list_nodes(arrays.graph, arrays.weights, arrays.points, order, count)
        return graph

    def restricted(self, sample: Array) -> "BeliefGraph":
        """Return a graph for some of the samples, without nodes, that has a copy of all vectors."""
        arrays = self.arrays.vectors_of(sample, self.arrays.graph.widest)
        graph = replace(self, arrays=arrays, policies=list(self.policies), offset=list(self.offset))
        return graph._at(self, sample)

    def extended(self, whole: "BeliefGraph", sample: Array) -> "BeliefGraph":
        """Return the graph without nodes for more samples of `whole`, first its own. Do not use this one afterwards."""
        known = self.model.samples
        graph = self._at(whole, sample)
        graph.arrays.change_samples(np.arange(known), sample.size)
        graph._add_regrets(whole.model.subset(sample[known:]), known)
        return graph

    def _at(self, whole: "BeliefGraph", sample: Array) -> "BeliefGraph":
        """Return the graph with the model of some samples of `whole`."""
        model = whole.model.subset(sample)
        gaps = whole.gaps._replace(prob=model.prob, gap=np.ascontiguousarray(whole.gaps.gap[:, sample]))
        return replace(self, model=model, potential=whole.potential[:, sample], gaps=gaps)

    def _add_regrets(self, fresh: UMDP, first: int) -> None:
        """Compute the regrets of all vectors in fresh samples, whose columns begin with `first`."""
        vectors = self.arrays.vectors
        used = int(vectors.used[VECTORS])
        choice, listed = vectors.vector["choice"][:used], np.flatnonzero(vectors.vector["owner"][:used])
        real = self.arrays.reachable(listed, self.outcomes)
        for policy, begin in zip(self.policies, self.offset, strict=False):
            own = np.flatnonzero(real & (choice < -begin) & (choice >= -begin - policy.nodes))
            regret = self._regret(fresh, policy, self.potential[:, first:])
            vectors.alpha[own, first:] = regret[-1 - choice[own] - begin]
        growth.spread_regrets(self.gaps, vectors, ~real | (choice < 0), first)

    @property
    def lower(self) -> float:
        """The lower bound of the root at the present belief."""
        return float(self.arrays.graph.node["lower"][0])

    @property
    def upper(self) -> float:
        """The upper bound of the root at the present belief."""
        return float(self.arrays.graph.node["upper"][0])

    @property
    def belief(self) -> Array:  # [K]
        """The present belief."""
        return self.arrays.weights.belief

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return int(self.arrays.graph.used[NODES])

    @property
    def bytes(self) -> int:
        """The memory of all arrays: of the graph and its walks, of what is derived from the model, and of policies."""
        return self.arrays.bytes + self._other_bytes

    @property
    def _other_bytes(self) -> int:
        own = self.potential.nbytes + self.gaps.gap.nbytes + 4 * self.order.nbytes
        return own + self.policy_bytes + self.other_bytes

    def add_policy(self, policy: Policy, node: Array | None = None, run: Run | None = None) -> None:
        """Add the regrets of a policy as vectors: from its start nodes, and from its best node at each state.

        Those of a given list of nodes are never pruned. Nothing is added if the run has no time for the regrets.
        """
        began = time.perf_counter()
        regret, begin = self.regret_of(policy, run), self.offset[-1]
        if run is not None and run.out_of_time():
            return
        self.policy_seconds += time.perf_counter() - began
        some = _best_nodes(policy, regret.mean(axis=1), self.model.graph.goal) if node is None else node
        self.make_room({VECTORS: self.in_blocks(some.size)})
        codes = -1 - begin - some
        states = policy.node_state[some]
        expansion.add_given(self.arrays.vectors, states.astype(np.int32), codes.astype(np.int32), regret[some])
        if node is not None:
            choice = self.arrays.vectors.vector["choice"]
            self.arrays.vectors.vector["lasts"][(choice < -begin) & (choice >= -begin - policy.nodes)] = LASTING
        self.policies.append(policy)
        self.policy_bytes += sum(array.nbytes for array in (*part_of(policy), policy.next_ptr, policy.entry_ptr))
        self.offset.append(self.offset[-1] + policy.nodes)

    def in_blocks(self, number: int) -> int:
        """Return how many rows as many items take at most, in blocks of one state each."""
        return int(min(BLOCK * (number + 2), number + BLOCK * (self.model.graph.states + 2)))

    def regret_of(self, policy: Policy, run: Run | None = None) -> Array:  # [N, K]
        """Return the regret from each node of a policy, at most; infinite if the run has no time for it."""
        return self._regret(self.model, policy, self.potential, run)

    def _regret(self, model: UMDP, policy: Policy, potential: Array, run: Run | None = None) -> Array:  # [N, K]
        """Return the regret from each node of a policy, at most."""
        value, error = node_values(model, policy, Run(threads=self.threads) if run is None else run)
        with np.errstate(invalid="ignore"):
            regret = value + error - potential[policy.node_state]
        regret = np.where(np.isnan(regret), np.inf, np.maximum(regret, 0.0))  # where both are infinite
        return np.asarray(np.minimum(regret, HUGE))

    def root_vectors(self) -> tuple[Array, Array]:  # [J], [J, K]
        """Return the vectors of the initial state that are finite in all samples, newest first, and their regrets."""
        found = self.arrays.listed(self.model.graph.initial)
        alpha = self.arrays.vectors.alpha[found]
        finite = alpha.max(axis=1) < HUGE
        return found[finite], alpha[finite]

    def upper_at(self, belief: Array) -> float:
        """Return the least regret of the vectors of the initial state at a belief."""
        return float((self.root_vectors()[1] @ belief).min(initial=np.inf))

    def is_given(self, vectors: Array) -> Array:
        """Return which of these vectors are of given policies."""
        return np.asarray(self.arrays.vectors.vector["choice"][vectors] < 0)

    def move(self, belief: Array) -> None:
        """Evaluate the graph at a belief; the first time, add its root."""
        arrays = self.arrays
        self.set_belief(belief)
        self.expanded = 1
        if self.nodes == 0:
            arrays.weights = arrays.weights._replace(least=self._least_likelihood())
            self._add_root()
            return
        in_parts(self._reset, 0, self.nodes, self.threads, SMALL)
        walk = self._new_walk()
        count = kernel.backup(self.gaps, arrays.graph, arrays.weights, arrays.vectors, walk, -np.inf, True)
        kernel.relax(arrays.graph, walk.order, count, 1, 0.0)

    def _reset(self, first: int, last: int) -> None:
        arrays = self.arrays
        kernel.reset_bounds(self.gaps, arrays.graph, arrays.weights, arrays.vectors, first, last)

    def _add_root(self) -> None:
        """Add the first node: at the initial state, with the same likelihood in all samples."""
        arrays, initial = self.arrays, self.model.graph.initial
        root = arrays.graph.node[:1]
        root["state"], root["vector"] = initial, arrays.vectors.fallback[initial]
        root["first_action"] = root["link"] = NONE
        arrays.weights.likelihood[0] = 1.0
        arrays.graph.used[NODES] = 1
        expansion.rehash(arrays.graph, arrays.weights)
        self._reset(0, 1)
        kernel.scan(arrays.graph, arrays.weights, arrays.vectors, arrays.points, np.zeros(1, np.int32), 0, 1)

    def _least_likelihood(self) -> float:
        """Return the likelihood below which all count as zero: 0 where regrets may be infinite, or very large."""
        regret = self.root_vectors()[1]
        small = regret.max(axis=1).min(initial=np.inf)
        alpha = self.arrays.vectors.alpha[: self.arrays.graph.used[VECTORS]]
        large = max(alpha.max(initial=0.0), self.gaps.gap.max(initial=0.0))
        return LEAST_LIKELIHOOD if large <= LARGE_REGRET * small else 0.0

    def backup(self) -> None:
        """Back up both bounds of the nodes that the best actions by the lower bounds lead to."""
        longest = int(self.outcomes.max(initial=1))
        self.make_room({VECTORS: 2 * self.visited + 1024, FOLLOWERS: (2 * self.visited + 64) * longest})
        self._visit()
        self.rounds += 1
        # Cycles take many sweeps: some every now and then, many when no node is left to expand.
        if self.expanded == 0:
            self._finish_cycles()
        elif self.rounds % RELAX_EVERY == 0:
            kernel.relax(self.arrays.graph, self.order, self.visited, FEW_SWEEPS, RISE)
        self.prune_if_many()

    def prune_if_many(self) -> None:
        """Prune vectors if their number has doubled."""
        if self.arrays.vectors.at_state["number"].sum() > self.prune_at:
            self.prune_vectors()
            self.prune_at = max(MANY_VECTORS, 2 * int(self.arrays.vectors.at_state["number"].sum()))

    def drop_nodes(self) -> None:
        """Remove all nodes; keep the vectors and the belief."""
        self.arrays.drop_nodes()
        self.visited, self.order = 0, np.zeros(0, np.int32)

    def set_belief(self, belief: Array) -> None:
        """Set the present belief. It is copied, and writable: kernels are compiled for one kind of array."""
        self.arrays.weights = self.arrays.weights._replace(belief=np.array(belief))

    def _visit(self) -> None:
        arrays, walk = self.arrays, self._new_walk()
        self.order = walk.order
        tiny = EQUAL * self.upper
        self.visited = kernel.backup(self.gaps, arrays.graph, arrays.weights, arrays.vectors, walk, tiny, False)

    def _finish_cycles(self) -> None:
        """Back up cycles until no lower bound rises, or new best actions lead to nodes that are not expanded."""
        for _ in range(MOST_WALKS):
            before = self.arrays.graph.node["lower"][: self.nodes].copy()
            kernel.relax(self.arrays.graph, self.order, self.visited, MANY_BACKUPS // self.visited, LEAST_RISE)
            self._visit()
            self.expanded = self._frontier().node.size
            rose = (self.arrays.graph.node["lower"][: self.nodes] > (1 + LEAST_RISE) * before).any()
            if self.expanded or not rose or self.out_of_time():
                break

    def expand(self) -> None:
        """Expand the nodes of the frontier whose gaps add most to that of the root."""
        arrays, frontier = self.arrays, self._frontier()
        count = frontier.node.size
        self._scan(frontier.node)
        done, before, widest = 0, self.nodes, arrays.graph.widest
        at_once = max(EXPAND_WORK // (widest**2 * self.model.samples), 1)
        while done < count and not self.out_of_time():
            last = min(done + at_once, count)
            done = expansion.expand(
                self.gaps, arrays.graph, arrays.weights, arrays.vectors, arrays.points, frontier, done, last
            )  # fmt: skip
            if done < last:
                self.make_room(dict.fromkeys((NODES, ACTIONS, EDGES, POINTS), 4 * widest))
        self._scan(np.arange(before, self.nodes, dtype=np.int32))
        self.expanded = count

    def _frontier(self) -> expansion.Frontier:
        """Return the visited nodes whose best actions have no edges, by how much their gaps add to that of the root.

        They make up a part of the gap of all such nodes, and are not too many.
        """
        rows, node = self.arrays.graph.node, self.order[: self.visited]
        best = rows["best"][node]
        action = np.maximum(rows["first_action"][node] + best, 0)
        node = node[(best == NONE) | (self.arrays.graph.action["first_edge"][action] == NONE)]
        excess = rows["reach"][node] * (rows["upper"][node] - rows["lower"][node])
        rank = np.argsort(-excess, kind="stable")
        enough = int(np.searchsorted(np.cumsum(excess[rank]), PART * excess.sum())) + 1
        rank = rank[: min(enough, max(64, int(MOST * self.visited)))]
        return expansion.Frontier(node[rank], excess[rank])

    def _scan(self, nodes: Array) -> None:
        """Compare nodes with the new vectors and points of their states, as long as there is time."""
        arrays, count = self.arrays, nodes.size
        number = arrays.vectors.at_state["number"] + arrays.points.at_state["number"]
        work = np.cumsum(number[arrays.graph.node["state"][nodes]] * self.model.samples)
        first = 0
        while first < count and not self.out_of_time():
            done = work[first - 1] if first else 0
            last = max(int(np.searchsorted(work, done + SCAN_WORK)), first + 1)
            in_parts(
                lambda i, j: kernel.scan(arrays.graph, arrays.weights, arrays.vectors, arrays.points, nodes, i, j),
                first, min(last, count), self.threads, SMALL,
            )  # fmt: skip
            first = last

    def _new_walk(self) -> Walk:
        """Return room for a walk through all nodes."""
        size = self.nodes + 1
        return Walk(np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int64))

    def make_room(self, wanted: dict[int, int]) -> None:
        """Make room for more rows in some groups, and more if memory allows; prune vectors first if it is short."""
        grown = self._growth(wanted)
        if grown is None:
            self.prune_vectors()
            grown = self._growth(wanted)
        if grown is None:
            raise OutOfMemory
        if grown:
            self.arrays.enlarge(grown)

    def _growth(self, wanted: dict[int, int]) -> dict[int, int] | None:
        """Return the new sizes of the groups that are too small; None if memory does not allow it."""
        size = {group: self.arrays.size(group) for group in wanted}
        least = {group: int(self.arrays.graph.used[group]) + more for group, more in wanted.items()}
        for factor in GROWTH:
            small = [group for group in wanted if least[group] > size[group]]
            grown = {group: max(least[group], int(factor * size[group])) for group in small}
            if self.arrays.bytes_with(grown) + self._other_bytes <= self.memory:
                return grown
        return None

    def prune_vectors(self) -> None:
        """Drop the vectors that no node refers to, except the best at the root, those of trials, and what follows."""
        root, regret = self.root_vectors()
        near = root[np.argsort(regret @ self.belief, kind="stable")[:ROOT_VECTORS]] if self.belief.size else root
        lasting = np.flatnonzero(self.arrays.vectors.vector["lasts"][: self.arrays.vectors.used[VECTORS]] > self.batch)
        kept = np.concatenate([near, self.favourites, lasting])
        place = self.arrays.prune_vectors(kept, self.outcomes, self.others())
        self.favourites = place[self.favourites]

    def controller(self, vectors: Array, weight: Array) -> Policy:
        """Return the policy that draws one of these vectors at the start, and follows it."""
        graph, arrays = self.model.graph, self.arrays.vectors
        own = self._behind(vectors)
        # The nodes of the given policies keep their numbers; those of vectors come after them.
        choice = arrays.vector["choice"][: arrays.used[VECTORS]]
        number = np.where(choice < 0, -1 - choice.astype(np.int64), NONE)
        number[own] = self.offset[-1] + np.arange(own.size)
        taken = choice[own]
        follower = arrays.follower[ranges(arrays.vector["first_follower"][own], self.outcomes[taken])]
        goal = self._goal_nodes()[graph.successor[members(graph.trans_ptr, taken)]]
        following = np.where(follower == NONE, goal, number[np.maximum(follower, 0)])
        ones = np.ones(own.size)
        parts = [
            *((*part_of(given)[:4], given.next_node + o) for given, o in zip(self.policies, self.offset, strict=False)),
            (graph.choice_state[taken], ones.astype(np.int64), taken, ones, following),
        ]  # fmt: skip
        return merged(put_together(graph, parts, number[vectors], weight))

    def size_of(self, vectors: Array) -> int:
        """Return how many next nodes their controller has, at most, besides those of the given policies."""
        return int(self.outcomes[self.arrays.vectors.vector["choice"][self._behind(vectors)]].sum())

    def _behind(self, vectors: Array) -> Array:
        """Return these vectors and all that they lead to, except those of given policies."""
        reached = self.arrays.reachable(vectors, self.outcomes)
        return np.flatnonzero(reached & (self.arrays.vectors.vector["choice"][: reached.size] >= 0))

    @property
    def outcomes(self) -> Array:  # [C]
        """The number of outcomes of each choice."""
        return np.diff(self.model.graph.trans_ptr)

    def _goal_nodes(self) -> Array:  # [S]
        """Return a node of the given policies for each goal."""
        node = np.full(self.model.graph.states, NONE)
        for policy, offset in zip(self.policies, self.offset, strict=False):
            node[policy.node_state] = offset + np.arange(policy.nodes)
        return node

    def certificate(self, objective: str) -> tuple[Certificate, float]:
        """Return the proof of the root's lower bound at the present belief, and the bound that it proves."""
        graph, own = self.arrays.graph, self.model.graph
        outcomes = np.diff(own.trans_ptr[own.choice_ptr])  # [S] of all choices
        expanded = graph.node["first_action"][: self.nodes] != NONE
        follow = np.empty(
            outcomes[own.initial] + outcomes[graph.node["state"][: self.nodes][expanded]].sum(), np.int32
        )  # fmt: skip
        follow[: outcomes[own.initial]] = NONE  # for a root that is not expanded
        node = np.empty(self.nodes, np.int32)
        node = node[: list_proof(graph, node, np.full(self.nodes, NONE, np.int32), follow)]
        state, value = graph.node["state"][node], graph.node["lower"][node]
        weight = self.belief * self.arrays.weights.likelihood[node]
        follow_ptr = pointers(outcomes[state])
        follow = follow[: follow_ptr[-1]]
        safe = 1.0 - max(2 * margin(self.model), 1e-13)
        none = np.zeros(0, np.int32)
        draft = Draft(state, weight, value, follow, follow_ptr, np.zeros(1, np.int64), none, np.zeros(0))
        lower_claims(self.gaps, draft, safe)
        proof = Certificate(objective, model_fingerprint(self.model), 0.0, self.potential, state, weight, value, follow)
        return proof, float(value[0])


def _best_nodes(policy: Policy, mean: Array, goal: Array) -> Array:
    """Return the start nodes of a policy, and of each state the node with the lowest mean regret; none at goals."""
    by_state = np.lexsort((mean, policy.node_state))
    _, first = np.unique(policy.node_state[by_state], return_index=True)
    node = np.union1d(by_state[first], policy.start_node)
    return np.asarray(node[~goal[policy.node_state[node]]])
