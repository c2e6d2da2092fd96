"""The graph of beliefs around its kernels: arrays that grow, policies that come in, policies and proofs that go out.

What the graph is, and how bounds are worked out on it, stands in `belief_kernels.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rue._arrays import Array, ranges
from rue._threads import in_parts
from rue.adaptive import belief_kernels as kernel
from rue.adaptive.belief_kernels import ACTIONS, BLOCK, EDGES, NEXTS, NODES, NONE, POINTS, VECTORS, Tree, Vectors, World
from rue.certificate import Certificate, gap_below, margin, model_fingerprint, safe_potential
from rue.controllers import merged, part_of, put_together
from rue.judge import node_values
from rue.model import UMDP
from rue.policy import Policy
from rue.values import OptimalValues

# Likelihoods below this fraction of the largest count as zero, unless some regret is so much larger than that of the
# best policy.
LEAST_LIKELY, LARGE_REGRET = 1e-9, 1e4
# A choice makes a new vector if it closes this part of a node's gap.
WORTH = 0.01
# The part of the gap, as seen from the root, of the nodes that are opened in one round, and how many of those visited.
PART, MOST = 0.5, 0.25
# Bounds that are as close as this, relative to the value of the root, have met.
MET = 1e-13
# Sweeps after every so many surveys until no low rises by this fraction; where nothing is to open, backups in so many
# visits until none rises by that.
RELAX_EVERY, FEW_SWEEPS, RISE = 8, 20, 1e-4
MANY_BACKUPS, LEAST_RISE, MOST_VISITS = 500_000, 1e-9, 50
# Shares of a list shorter than this are done before another thread has started.
SMALL = 128
# Vectors after which those that no node holds are dropped, and then whenever there are twice as many.
MANY_VECTORS = 30_000
# Vectors at the initial state that are kept, those that are best for the present belief.
ROOT_VECTORS = 500
# By how much arrays grow, if there is memory for it.
GROWTH = (2.0, 1.4, 1.1)
# Numbers that are looked at between two looks at the clock: of vectors and points, and of what opened nodes lead to.
SCAN_WORK, GROW_WORK = 100_000_000, 30_000_000
# Rounds in which a proof is lowered to what follows from it.
ROUNDS = 50

_BY_NODE = (
    "state", "likely", "low", "up", "vector", "link", "link_share", "slot", "seen_vectors", "seen_points", "reach",
    "took", "stamp",
)  # fmt: skip
_GROUPS = {
    NODES: _BY_NODE,
    ACTIONS: ("base", "rest", "first"),
    EDGES: ("child", "share"),
    VECTORS: ("alpha", "choice", "next_ptr"),
    NEXTS: ("next_vector",),
    POINTS: ("inverse", "point_node"),
}
_BY_BLOCK = {VECTORS: "vector_block", POINTS: "point_block"}
_START = {NODES: 256, ACTIONS: 1024, EDGES: 2048, VECTORS: 1024, NEXTS: 2048, POINTS: 256}


class OutOfMemory(Exception):
    """The graph would need more memory than it may have."""


@dataclass(eq=False)
class BeliefGraph:
    """A graph of beliefs on a model, evaluated at one belief at a time."""

    model: UMDP
    potential: Array  # [S, K] lower bounds on the optimal values, from which regrets are counted
    world: World
    tree: Tree
    memory: float  # bytes that the arrays may take
    threads: int
    out_of_time: Callable[[], object] = lambda: None  # asked between parts of long work
    least: float = 0.0  # likelihoods that count as zero
    policies: list[Policy] = field(default_factory=list)
    policy_bytes: int = 0
    offset: list[int] = field(default_factory=lambda: [0])  # where the nodes of each policy begin, as numbers
    belief: Array = field(default_factory=lambda: np.zeros(0))
    favourites: Array = field(default_factory=lambda: np.zeros(0, np.int32))  # vectors that are never dropped
    visited: int = 0  # nodes of the last survey, which are listed in `order`
    order: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    opened: int = 1  # nodes that were listed to be opened after it
    surveys: int = 0
    tidy_at: int = MANY_VECTORS

    @classmethod
    def build(cls, model: UMDP, values: OptimalValues, memory: float, threads: int = 1) -> "BeliefGraph":
        """An empty graph; `memory` in bytes."""
        graph = model.graph
        potential = safe_potential(model, values.lower)
        gap = gap_below(model, potential)
        gap = np.where(np.isinf(gap), kernel.FORBIDDEN, gap)
        out = np.diff(graph.trans_ptr[graph.choice_ptr])  # outcomes of all choices of each state
        widest = int(max(out.max(initial=1), np.diff(graph.choice_ptr).max(initial=1))) + BLOCK
        fallback = np.full(graph.states, NONE, np.int32)
        world = World(graph.choice_ptr, graph.trans_ptr, graph.successor, model.prob, gap, fallback, widest)
        return cls(model, potential, world, _empty_tree(graph.states, model.samples), memory, threads)

    @property
    def low(self) -> float:
        """The bound from below of the root, at the present belief."""
        return float(self.tree.low[0])

    @property
    def up(self) -> float:
        """The bound from above of the root, at the present belief."""
        return float(self.tree.up[0])

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return int(self.tree.count[NODES])

    @property
    def bytes(self) -> int:
        """The memory of all arrays: of the graph and its surveys, what is derived from the model, and policies."""
        around = (self.potential, self.world.gap, self.order, self.order, self.order)  # a survey has two stacks besides
        return sum(array.nbytes for array in (*self.tree, *around)) + self.policy_bytes

    def add_policy(self, policy: Policy) -> None:
        """Take in the regrets of a policy from its start nodes, and from the best of its nodes at each state."""
        graph = self.model.graph
        value, error = node_values(self.model, policy, self.threads)
        with np.errstate(invalid="ignore"):
            regret = value + error - self.potential[policy.node_state]
        regret = np.where(np.isnan(regret), np.inf, np.maximum(regret, 0.0))  # where both are infinite
        node = _best_nodes(policy, np.minimum(regret, kernel.HUGE).mean(axis=1), graph.goal)
        self._make_room({VECTORS: BLOCK * (node.size + 1)})
        kernel.add_given(
            _vectors(self.tree), policy.node_state[node].astype(np.int32),
            (-1 - self.offset[-1] - node).astype(np.int32), np.minimum(regret[node], kernel.HUGE), self.world.fallback,
        )  # fmt: skip
        self.policies.append(policy)
        self.policy_bytes += sum(array.nbytes for array in (*part_of(policy), policy.next_ptr, policy.entry_ptr))
        self.offset.append(self.offset[-1] + policy.nodes)

    def root_vectors(self) -> tuple[Array, Array]:  # [J], [J, K]
        """The vectors at the initial state that are finite in all samples, the newest first, and their regrets."""
        found = np.empty(self.tree.vector_number[self.model.graph.initial], np.int32)
        kernel.root_vectors(_vectors(self.tree), self.model.graph.initial, found)
        alpha = self.tree.alpha[found]
        finite = alpha.max(axis=1) < kernel.HUGE
        return found[finite], alpha[finite]

    def is_given(self, vectors: Array) -> Array:
        """Which of these vectors are of policies that were given."""
        return np.asarray(self.tree.choice[vectors] < 0)

    def move(self, belief: Array) -> None:
        """Evaluate the graph at a belief; the first time, plant its root."""
        belief = np.array(belief)  # its own, and writable: kernels are compiled for one kind of array
        self.belief, self.opened = belief, 1
        if self.nodes == 0:
            self.least = self._least_likely()
            kernel.plant(self.world, self.tree, self.model.graph.initial, belief)
            kernel.scan(self.tree, belief, np.zeros(1, np.int32), 0, 1)
            return
        in_parts(
            lambda first, last: kernel.load(self.world, self.tree, belief, first, last),
            0, self.nodes, self.threads, SMALL,
        )  # fmt: skip
        kernel.settle(self.world, self.tree, *self._scratch(), 2)

    def _least_likely(self) -> float:
        """Likelihoods that may count as zero: none if what they stand for may be forbidden, or worth very much."""
        regret = self.root_vectors()[1]
        small = regret.max(axis=1).min(initial=np.inf)
        large = max(self.tree.alpha[: self.tree.count[VECTORS]].max(initial=0.0), self.world.gap.max(initial=0.0))
        return LEAST_LIKELY if large <= LARGE_REGRET * small else 0.0

    def survey(self) -> None:
        """Back up both bounds wherever the best choices from below lead."""
        longest = int(np.diff(self.model.graph.trans_ptr).max(initial=1))
        self._make_room({VECTORS: 2 * self.visited + 1024, NEXTS: (2 * self.visited + 64) * longest})
        self._visit()
        self.surveys += 1
        # Circles take many rounds: some every now and then, many when there is nothing left to open.
        if self.opened == 0:
            self._finish_circles()
        elif self.surveys % RELAX_EVERY == 0:
            self._relax(FEW_SWEEPS, RISE)
        if self.tree.vector_number.sum() > self.tidy_at:
            self.drop_vectors()
            self.tidy_at = max(MANY_VECTORS, 2 * int(self.tree.vector_number.sum()))

    def _visit(self) -> None:
        self.order, stack, place = self._scratch()
        met = MET * self.up
        self.visited = kernel.survey(self.world, self.tree, self.belief, WORTH, met, self.order, stack, place)

    def _relax(self, sweeps: int, rise: float) -> None:
        kernel.relax(self.world, self.tree, self.order, self.visited, sweeps, rise)

    def _finish_circles(self) -> None:
        """Back up circles until no low rises, or choices that have become the best lead to what was never opened."""
        for _ in range(MOST_VISITS):
            before = self.tree.low[: self.nodes].copy()
            self._relax(MANY_BACKUPS // self.visited, LEAST_RISE)
            self._visit()
            self.opened = self._frontier()[0].size
            rose = (self.tree.low[: self.nodes] > (1 + LEAST_RISE) * before).any()
            if self.opened or not rose or self.out_of_time():
                break

    def grow(self) -> None:
        """Open the graph where the bounds are furthest apart as seen from the root."""
        nodes, excess = self._frontier()
        count = nodes.size
        self._scan(nodes, count)
        done, before = 0, self.nodes
        at_once = max(GROW_WORK // (self.world.widest**2 * self.model.samples), 1)
        while done < count and not self.out_of_time():
            last = min(done + at_once, count)
            done = kernel.grow(self.world, self.tree, self.belief, self.least, nodes, excess, done, last)
            if done == last:
                continue
            self._make_room(dict.fromkeys((NODES, ACTIONS, EDGES, POINTS), 4 * self.world.widest))
        fresh = np.arange(before, self.nodes, dtype=np.int32)
        self._scan(fresh, fresh.size)
        self.opened = int(count)

    def _frontier(self) -> tuple[Array, Array]:
        """The nodes where the survey came to an end, and how far their bounds are apart as seen from the root.

        Those that are furthest apart come first: as many as make up a part of all that is missing, and not too many.
        """
        tree, node = self.tree, self.order[: self.visited]
        took = tree.took[node]
        node = node[(took == NONE) | (tree.first[np.maximum(tree.slot[node] + took, 0)] == NONE)]
        excess = tree.reach[node] * (tree.up[node] - tree.low[node])
        rank = np.argsort(-excess, kind="stable")
        enough = int(np.searchsorted(np.cumsum(excess[rank]), PART * excess.sum())) + 1
        rank = rank[: min(enough, max(64, int(MOST * self.visited)))]
        return node[rank], excess[rank]

    def _scan(self, nodes: Array, count: int) -> None:
        """Let nodes look at what is new at their states, as far as there is time."""
        number = self.tree.vector_number + self.tree.point_number
        work = np.cumsum(number[self.tree.state[nodes[:count]]] * self.model.samples)
        first = 0
        while first < count and not self.out_of_time():
            done = work[first - 1] if first else 0
            last = max(int(np.searchsorted(work, done + SCAN_WORK)), first + 1)
            in_parts(
                lambda i, j: kernel.scan(self.tree, self.belief, nodes, i, j), first, min(last, count), self.threads,
                SMALL,
            )  # fmt: skip
            first = last

    def _scratch(self) -> tuple[Array, Array, Array]:
        """Room for an order of the nodes and for the stack of a walk."""
        size = self.nodes + 1
        return np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)

    def _make_room(self, wanted: dict[int, int]) -> None:
        """Have room for so many more in some groups, and more if memory allows; drop vectors first if it is short."""
        grown = self._growth(wanted)
        if grown is None:
            self.drop_vectors()
            grown = self._growth(wanted)
        if grown is None:
            raise OutOfMemory
        if not grown:
            return
        for group, size in grown.items():
            for name in _GROUPS[group]:  # one after the other, so that no more than one is there twice
                self.tree = self.tree._replace(**{name: _enlarged(getattr(self.tree, name), size, 0)})
            if group in _BY_BLOCK:
                name = _BY_BLOCK[group]
                self.tree = self.tree._replace(**{name: _enlarged(getattr(self.tree, name), size // BLOCK + 1, NONE)})
        if 2 * (self.tree.state.size + self.world.widest) > self.tree.table.size:
            size = 1 << int(np.ceil(np.log2(2.5 * (self.tree.state.size + self.world.widest))))
            self.tree = self.tree._replace(table=np.full(size, NONE, np.int32))
            kernel.rehash(self.tree.state[: self.nodes], self.tree.likely[: self.nodes], self.tree.table)

    def _growth(self, wanted: dict[int, int]) -> dict[int, int] | None:
        """The sizes that groups of arrays are to have, of those that are too small; None if memory forbids it."""
        size = {group: getattr(self.tree, _GROUPS[group][-1]).shape[0] for group in wanted}
        least = {group: int(self.tree.count[group]) + more for group, more in wanted.items()}
        for factor in GROWTH:
            small = [group for group in wanted if least[group] > size[group]]
            grown = {group: max(least[group], int(factor * size[group])) for group in small}
            if self._bytes_with(grown) <= self.memory:
                return grown
        return None

    def _bytes_with(self, grown: dict[int, int]) -> int:
        """The memory of all arrays once some groups have grown; the table of nodes may double.

        While an array is copied to a larger one, both are there.
        """
        extra = self.tree.table.nbytes if NODES in grown else 0
        copied = 0
        for group, size in grown.items():
            for array in (getattr(self.tree, name) for name in _GROUPS[group]):
                extra += (size - array.shape[0]) * array[:1].nbytes
                copied = max(copied, array.nbytes)
        return self.bytes + extra + copied

    def drop_vectors(self) -> None:
        """Forget the vectors that no node holds, but for those that others lead to, which are no longer tried."""
        tree = self.tree
        root, regret = self.root_vectors()
        near = root[np.argsort(regret @ self.belief, kind="stable")[:ROOT_VECTORS]] if self.nodes else root
        kept = np.union1d(near, self.favourites).astype(np.int32)
        used = int(tree.count[VECTORS])
        mark, stack = np.empty(used, np.int8), np.empty(used + 1, np.int32)
        trans_ptr, fallback, held = self.world.trans_ptr, self.world.fallback, tree.vector[: self.nodes]
        kernel.mark_vectors(trans_ptr, fallback, _vectors(tree), held, kept, mark, stack)
        in_use = int((mark == 2).sum())
        size = in_use + int((mark == 1).sum()) + BLOCK * (self.model.graph.states + 4)
        states = self.model.graph.states
        count = tree.count.copy()
        count[VECTORS] = count[NEXTS] = 0
        fresh = tree._replace(
            count=count,
            alpha=np.empty((max(size, 2 * in_use), self.model.samples)),
            choice=np.empty(max(size, 2 * in_use), np.int32),
            next_ptr=np.zeros(max(size, 2 * in_use), np.int64),
            next_vector=np.empty(tree.next_vector.size, np.int32),
            vector_block=np.full(max(size, 2 * in_use) // BLOCK + 1, NONE, np.int32),
            vector_number=np.zeros(states, np.int32),
            vector_last=np.full(states, NONE, np.int32),
        )
        place = np.full(used, NONE, np.int32)
        index = np.empty(used + 1, np.int32)
        state, seen = tree.state[: self.nodes], tree.seen_vectors[: self.nodes]
        kernel.move_vectors(
            trans_ptr, fallback, _vectors(tree), _vectors(fresh), state, seen, held, mark, place, index
        )  # fmt: skip
        self.favourites = place[self.favourites]
        self.tree = fresh

    def controller(self, vectors: Array, weight: Array) -> Policy:
        """The policy that draws one of these vectors at the start, and follows it."""
        graph, tree = self.model.graph, self.tree
        own = self._behind(vectors)
        # The nodes of the given policies keep their numbers; ours come after them.
        choice = tree.choice[: tree.count[VECTORS]]
        number = np.where(choice < 0, -1 - choice.astype(np.int64), NONE)
        number[own] = self.offset[-1] + np.arange(own.size)
        taken = choice[own]
        length = np.diff(graph.trans_ptr)[taken]
        follow = tree.next_vector[ranges(tree.next_ptr[own], length)]
        goal = self._goal_nodes()[graph.successor[ranges(graph.trans_ptr[taken], length)]]
        following = np.where(follow == NONE, goal, number[np.maximum(follow, 0)])
        ones = np.ones(own.size)
        parts = [
            *((*part_of(given)[:4], given.next_node + o) for given, o in zip(self.policies, self.offset, strict=False)),
            (graph.choice_state[taken], ones.astype(np.int64), taken, ones, following),
        ]  # fmt: skip
        return merged(put_together(graph, parts, number[vectors], weight))

    def size_of(self, vectors: Array) -> int:
        """How many next nodes their controller has, at most, besides those of the given policies."""
        return int(np.diff(self.model.graph.trans_ptr)[self.tree.choice[self._behind(vectors)]].sum())

    def _behind(self, vectors: Array) -> Array:
        """All vectors of ours that these lead to, themselves included."""
        graph, tree = self.model.graph, self.tree
        used = np.zeros(int(tree.count[VECTORS]), bool)
        front = np.unique(vectors)
        while front.size:
            used[front] = True
            own = front[tree.choice[front] >= 0]
            ahead = tree.next_vector[ranges(tree.next_ptr[own], np.diff(graph.trans_ptr)[tree.choice[own]])]
            ahead = ahead[ahead != NONE]
            front = np.unique(ahead[~used[ahead]])
        return np.flatnonzero(used & (tree.choice[: used.size] >= 0))

    def _goal_nodes(self) -> Array:  # [S]
        """A node of the given policies for each goal."""
        node = np.full(self.model.graph.states, NONE)
        for policy, offset in zip(self.policies, self.offset, strict=False):
            node[policy.node_state] = offset + np.arange(policy.nodes)
        return node

    def certificate(self, objective: str) -> tuple[Certificate, float]:
        """The proof of the root's low at the present belief, and that low as the proof has it."""
        tree = self.tree
        points = np.empty(self.nodes + 1, np.int32)
        number = np.empty(self.nodes + 1, np.int32)
        follow_ptr = np.zeros(self.nodes + 2, np.int64)
        size = 1 << 16
        while True:
            follow = np.empty(size, np.int32)
            count = kernel.list_proof(self.world, tree, points, number, follow, follow_ptr)
            if count >= 0:
                break
            size *= 2
        node = points[:count]
        state, value = tree.state[node], tree.low[node].copy()
        weight = self.belief * tree.likely[node]
        follow_ptr = follow_ptr[: count + 1]
        follow = follow[: follow_ptr[-1]]
        safe = 1.0 - max(2 * margin(self.model), 1e-13)
        kernel.check_proof(self.world, state, weight, value, follow, follow_ptr, safe, ROUNDS)
        proof = Certificate(objective, model_fingerprint(self.model), 0.0, self.potential, state, weight, value, follow)
        return proof, float(value[0])


def _empty_tree(states: int, samples: int) -> Tree:
    shapes = {
        "likely": (samples,),
        "alpha": (samples,),
        "inverse": (samples,),
    }  # fmt: skip
    whole = {"slot": np.int64, "first": np.int64, "next_ptr": np.int64}
    real = {"likely", "low", "up", "link_share", "reach", "base", "rest", "share", "alpha", "inverse"}
    arrays: dict[str, Array] = {}
    for group, names in _GROUPS.items():
        for name in names:
            dtype = np.float64 if name in real else whole.get(name, np.int32)
            arrays[name] = np.zeros((_START[group], *shapes.get(name, ())), dtype)
    for group, name in _BY_BLOCK.items():
        arrays[name] = np.full(_START[group] // BLOCK + 1, NONE, np.int32)
    for name in ("vector", "point"):
        arrays[f"{name}_number"] = np.zeros(states, np.int32)
        arrays[f"{name}_last"] = np.full(states, NONE, np.int32)
    return Tree(count=np.zeros(7, np.int64), table=np.full(4 * _START[NODES], NONE, np.int32), **arrays)


def _enlarged(array: Array, size: int, fill: int) -> Array:
    shape = (size, *array.shape[1:])
    # Zeros take no memory until they are used.
    larger = np.full(shape, fill, array.dtype) if fill else np.zeros(shape, array.dtype)
    larger[: array.shape[0]] = array
    return larger


def _best_nodes(policy: Policy, mean: Array, goal: Array) -> Array:
    """The start nodes of a policy, and of each state the node with the lowest mean regret; none at goals."""
    by_state = np.lexsort((mean, policy.node_state))
    _, first = np.unique(policy.node_state[by_state], return_index=True)
    node = np.union1d(by_state[first], policy.start_node)
    return np.asarray(node[~goal[policy.node_state[node]]])


def _vectors(tree: Tree) -> Vectors:
    """The arrays of a graph that have to do with vectors."""
    return Vectors(
        tree.count, tree.alpha, tree.choice, tree.next_ptr, tree.next_vector,
        tree.vector_block, tree.vector_number, tree.vector_last,
    )  # fmt: skip
