"""One option of an `OptionTree`, unfolded into layers of explicit nodes, as programs in HiGHS need it.

    min over options o of  max over k of  E_k[ Σ_{t<n} g_k(s_t,a_t) + R(s_n) ],      R(goal) = 0

An option starts at its root, acts for n steps and stops early at a goal. The terminal values R are given with
each solve; all else stays. There are two kinds of nodes:

- *slots*, one node for each (t, state): the memory of the paper's options, π(s,a,t);
- *histories*, one node for each path (s_0,a_0,s_1,…,s_t): the memory of options that recall everything.

With q_k(e) = paid_k(e) + Σ T_k c_k(target) for an entry e = (node, choice), c_k of the node it leads to, and paid_k
the gap and what R adds where the option ends, both share one backward recursion.

*What must not happen.* A gap or a terminal value of 1e100 or more stands for infinity: an option that meets it with a
positive probability in some sample costs infinity. That is decided on the graph, never by arithmetic.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rue._arrays import Array, members_with_owner, places
from rue._highs import Ended
from rue.errors import BadInput
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.option_tree_kernels import INFINITE

# Numbers (branches times samples) in one table above which a tree is refused; a few such tables are needed.
LARGEST_TABLE = 50_000_000


@dataclass(frozen=True, eq=False)
class ProgramAnswer:
    """The answer of a program.

    `value` is that of `weight`, evaluated exactly (up to rounding) whatever the backend returned; infinite where the
    option is, or where there is none. `bound` is a lower bound on the value of every option of the program's class.
    """

    status: Ended
    value: float
    bound: float
    cost: Array  # [K]; the expected cost of the option in each sample; `value` is the largest
    weight: Array  # [E]; for each node a distribution over its entries
    belief: Array | None = None  # [K]; weights of the samples that prove `bound`
    approximate: float | None = None  # the value according to the program's approximation


class OptionProgram(ABC):
    """A program for one option of a tree, kept between solves."""

    def __init__(self, tree: OptionTree, place: int, *, histories: bool) -> None:
        self.layers = unfold(tree, place, histories=histories)

    def solve(self, value: Array, seconds: float = math.inf) -> ProgramAnswer:
        """Return the best option of the program's class for the terminal values `value[S]`."""
        layers = self.layers
        if not layers.nodes:  # the root is a goal
            return ProgramAnswer(Ended.OPTIMAL, 0.0, 0.0, np.zeros(layers.samples), np.empty(0))
        bounds = Bounds.of(layers, value)
        if bounds.node_dead[0].any():
            return self.no_option(value)
        return self.solve_within(bounds, value, seconds)

    @abstractmethod
    def solve_within(self, bounds: "Bounds", value: Array, seconds: float) -> ProgramAnswer:
        """Return the best option, where every sample may take some entry of the root."""

    def no_option(self, value: Array) -> ProgramAnswer:
        """Return the answer where every option costs infinity."""
        weight = self.layers.careful(value)
        return ProgramAnswer(Ended.INFEASIBLE, math.inf, math.inf, self.layers.evaluate(value, weight), weight)


@dataclass(frozen=True, eq=False)
class Layers:
    """N nodes with E entries (node, choice) and B branches (entry, transition), each in the order of the steps.

    Only branches that are positive in some sample are there: for slots in any sample at all, for histories in one
    that can have led to the node. The root is node 0; a root that is a goal has no nodes.
    """

    steps: int
    samples: int
    layer_ptr: Array  # [n+1]; nodes of each step
    node_state: Array  # [N]
    reach: Array  # [N, K]; histories: p_k(h), slots: 1 where sample k may lead there, else 0
    entry_ptr: Array  # [N+1]
    entry_node: Array  # [E]
    choice: Array  # [E]
    branch_ptr: Array  # [E+1]
    branch_entry: Array  # [B]
    transition: Array  # [B]; of the graph, as the choices are
    target: Array  # [B]; the next node; -1 where the option ends
    prob: Array  # [B, K]
    gap: Array  # [E, K]; zero where infinite
    banned: Array  # [E, K]; where the gap is infinite
    ends: Array  # branches that end the option at a state that is no goal
    end_state: Array  # their states

    @property
    def nodes(self) -> int:
        """N, the number of nodes."""
        return self.node_state.size

    @property
    def entries(self) -> int:
        """E, the number of entries."""
        return self.choice.size

    @property
    def reached(self) -> Array:  # [E, K]
        """Whether a sample can lead to the node of each entry."""
        return np.asarray(self.reach[self.entry_node] > 0)

    @cached_property
    def inner(self) -> Array:  # [B, K]
        """Whether a branch leads to a next node in a sample."""
        return np.asarray((self.prob > 0) & (self.target >= 0)[:, None])

    def paid(self, value: Array) -> tuple[Array, Array]:  # [E, K], [E, K]
        """Return the gap plus expected terminal value of each entry, and where that is infinite."""
        if not self.ends.size:
            return self.gap, self.banned
        terminal = value[self.end_state]
        infinite = terminal >= INFINITE
        part, bad = np.zeros_like(self.prob), np.zeros(self.prob.shape, bool)
        part[self.ends] = self.prob[self.ends] * np.where(infinite, 0.0, terminal)[:, None]
        bad[self.ends] = (self.prob[self.ends] > 0) & infinite[:, None]
        banned = self.banned | fold(np.logical_or, bad, self.branch_ptr, False)
        return self.gap + fold(np.add, part, self.branch_ptr, 0.0), banned

    def backward(self) -> "Iterable[tuple[slice, slice, slice]]":
        """Yield the nodes, entries and branches of each step, the last step first."""
        for t in reversed(range(self.steps)):
            first, last = self.layer_ptr[t], self.layer_ptr[t + 1]
            e, f = self.entry_ptr[first], self.entry_ptr[last]
            yield slice(first, last), slice(e, f), slice(self.branch_ptr[e], self.branch_ptr[f])

    def ahead(self, entry: slice, branch: slice, node: Array) -> Array:
        """Return Σ T_k node[target] of the entries of a step."""
        target = self.target[branch]
        part = np.where(target[:, None] >= 0, self.prob[branch] * node[target], 0.0)
        return fold(np.add, part, self._local(self.branch_ptr, entry), 0.0)

    def any_ahead(self, entry: slice, branch: slice, node: Array) -> Array:
        """Return whether some branch of each entry leads to a marked node with a positive probability."""
        target = self.target[branch]
        part = self.inner[branch] & node[target]
        return fold(np.logical_or, part, self._local(self.branch_ptr, entry), False)

    def over_entries(self, ufunc: np.ufunc, values: Array, node: slice, empty: float | bool) -> Array:
        """Fold the entries of each node of a step."""
        return fold(ufunc, values, self._local(self.entry_ptr, node), empty)

    @staticmethod
    def _local(ptr: Array, part: slice) -> Array:
        return np.asarray(ptr[part.start : part.stop + 1] - ptr[part.start])

    def evaluate(self, value: Array, weight: Array) -> Array:  # [K]
        """Return the expected cost of an option in each sample."""
        if not self.nodes:
            return np.zeros(self.samples)
        paid, infinite = self.paid(value)
        cost, bad = np.zeros((self.nodes, self.samples)), np.zeros((self.nodes, self.samples), bool)
        for node, entry, branch in self.backward():
            used = weight[entry, None]
            whole = used * (paid[entry] + self.ahead(entry, branch, cost))
            cost[node] = self.over_entries(np.add, whole, node, 0.0)
            hit = (used > 0) & (infinite[entry] | self.any_ahead(entry, branch, bad))
            bad[node] = self.over_entries(np.logical_or, hit, node, True)
        return np.asarray(np.where(bad[0], math.inf, cost[0]))

    def careful(self, value: Array) -> Array:  # [E]
        """Return a fallback option: at each node the least cost if the adversary could change the sample there."""
        paid, infinite = self.paid(value)
        worst, weight = np.zeros((self.nodes, 1)), np.zeros(self.entries)
        reached = self.reached
        for node, entry, branch in self.backward():
            blocked = np.isinf(worst)
            ahead = self.ahead(entry, branch, np.where(blocked, 0.0, worst))
            hit = infinite[entry] | self.any_ahead(entry, branch, blocked)
            cost = np.where(hit, math.inf, paid[entry] + ahead)
            largest = np.where(reached[entry], cost, -math.inf).max(axis=1, initial=-math.inf)
            least = self.over_entries(np.minimum, largest, node, math.inf)
            worst[node, 0] = np.where(self.reach[node].any(axis=1), least, 0.0)
            own = self.entry_node[entry]
            best = np.flatnonzero(largest == least[own - node.start]) + entry.start
            _, first = np.unique(self.entry_node[best], return_index=True)
            weight[best[first]] = 1.0
        return weight

    def normalised(self, weight: Array, otherwise: Array) -> Array:  # [E]
        """Return distributions over the entries of each node from weights; `otherwise` where a node has none."""
        weight = np.maximum(weight, 0.0)
        total = np.bincount(self.entry_node, weights=weight, minlength=self.nodes)[self.entry_node]
        empty = total <= 0
        return np.asarray(np.where(empty, otherwise, weight / np.where(empty, 1.0, total)))


@dataclass(frozen=True, eq=False)
class Bounds:
    """Per-sample bounds by backward induction: the least and largest cost from an entry or node on, over all options.

    Entries that a sample must not take (`dead`) are left out, and so are nodes all whose entries are dead: these have
    zeros. The largest of `node_low[0]` is the "wait and see" bound: no option of any class costs less.
    """

    paid: Array  # [E, K]
    low: Array  # [E, K]
    high: Array  # [E, K]
    dead: Array  # [E, K]
    node_low: Array  # [N, K]
    node_high: Array  # [N, K]
    node_dead: Array  # [N, K]

    @classmethod
    def of(cls, layers: Layers, value: Array) -> "Bounds":
        """Compute all bounds for given terminal values."""
        paid, infinite = layers.paid(value)
        shape = layers.nodes, layers.samples
        node_low, node_high, node_dead = np.zeros(shape), np.zeros(shape), np.zeros(shape, bool)
        low, high, dead = np.empty_like(paid), np.empty_like(paid), np.empty(paid.shape, bool)
        for node, entry, branch in layers.backward():
            dead[entry] = infinite[entry] | layers.any_ahead(entry, branch, node_dead)
            low[entry] = paid[entry] + layers.ahead(entry, branch, node_low)
            high[entry] = paid[entry] + layers.ahead(entry, branch, node_high)
            node_dead[node] = lost = layers.over_entries(np.logical_and, dead[entry], node, True)
            least = layers.over_entries(np.minimum, np.where(dead[entry], math.inf, low[entry]), node, math.inf)
            most = layers.over_entries(np.maximum, np.where(dead[entry], -math.inf, high[entry]), node, -math.inf)
            node_low[node], node_high[node] = np.where(lost, 0.0, least), np.where(lost, 0.0, most)
        return cls(paid, low, high, dead, node_low, node_high, node_dead)

    @property
    def wait_and_see(self) -> float:
        """max over k of the least cost in sample k alone."""
        return math.inf if self.node_dead[0].any() else float(self.node_low[0].max())

    @property
    def start(self) -> Array:  # [K]
        """The least cost of the root in each sample above the "wait and see" bound, divided by `scale`."""
        return np.asarray((self.node_low[0] - self.wait_and_see) / self.scale)

    @property
    def scale(self) -> float:
        """The largest difference between two options at any node in one sample: programs divide by it.

        Differences that are only rounding count as none.
        """
        spread = float((self.node_high - self.node_low).max())
        largest = max(float(np.abs(self.node_high).max()), float(np.abs(self.node_low).max()))
        return max(spread, 1e-9 * largest) or 1.0


def blocked(layers: Layers, dead: Array) -> Array:  # [E]
    """Return the entries that a sample that can lead there must not take, or after which it has none to take."""
    shut, shut_node = np.empty(layers.entries, bool), np.zeros((layers.nodes, 1), bool)
    reached = layers.reached
    for node, entry, branch in layers.backward():
        ahead = layers.any_ahead(entry, branch, shut_node)  # [E, K]: probabilities are by sample
        shut[entry] = (reached[entry] & (dead[entry] | ahead)).any(axis=1)
        shut_node[node, 0] = layers.over_entries(np.logical_and, shut[entry], node, True)
    return shut


def fold(ufunc: np.ufunc, values: Array, ptr: Array, empty: float | bool) -> Array:
    """Return ufunc over values[ptr[i]:ptr[i+1]] for each i; `empty` where there are none."""
    out = np.full((ptr.size - 1, *values.shape[1:]), empty, values.dtype)
    full = np.flatnonzero(np.diff(ptr))
    if full.size:
        out[full] = ufunc.reduceat(values, ptr[full], axis=0)
    return out


def unfold(tree: OptionTree, i: int, *, histories: bool) -> Layers:
    """Return the layers of option i of a tree, with histories or with slots as nodes.

    Nodes of slots are in the order of the tree's layers, so their entries are in the order of a table's weights.
    """
    model, states = tree.model, tree.model.choice_ptr.size - 1
    state = tree.layer(i, 0)[tree.layer(i, 0) != model.goal].astype(np.int64)
    reach = np.ones((state.size, tree.samples))
    nodes, entries, size = 0, 0, 0
    layer_ptr, parts = [0], []
    for t in range(model.steps):
        choice, local = members_with_owner(model.choice_ptr, state)
        size += int((model.trans_ptr[choice + 1] - model.trans_ptr[choice]).sum()) * tree.samples
        if size > LARGEST_TABLE:
            raise BadInput(
                f"the option has {size // tree.samples} outcomes in its first {t + 1} of {model.steps} steps, "
                f"{size * 8 / 2**30:.1f} GiB a table with {tree.samples} samples; lower the steps, prune, or use fewer "
                "samples"
            )
        transition, entry = members_with_owner(model.trans_ptr, choice)
        part = reach[local[entry]] * model.prob[transition]
        if histories:
            here = np.asarray((part > 0).any(axis=1))
            transition, entry, part = transition[here], entry[here], part[here]
        after = model.successor[transition].astype(np.int64)
        inner = np.flatnonzero(after != model.goal) if t + 1 < model.steps else np.empty(0, np.int64)
        if histories:
            found, place = np.unique(entry[inner] * states + after[inner], return_inverse=True)
            following = found % states
        else:
            following = tree.layer(i, t + 1)[: None if t + 1 < model.steps else 0].astype(np.int64)
            number = places(following, states, 0)
            place = number[after[inner]]
        target = np.full(after.size, -1)
        target[inner] = nodes + state.size + place
        parts.append((state, reach, nodes + local, choice, entries + entry, transition, target))
        nodes, entries = nodes + state.size, entries + choice.size
        layer_ptr.append(nodes)
        reach = np.zeros((following.size, tree.samples))
        np.add.at(reach, place, part[inner])
        if not histories:
            reach = (reach > 0).astype(float)
        state = following
    joined = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    state, reach, node, choice, entry, transition, target = joined
    gap, after = model.gap[choice], model.successor[transition]
    ends = np.flatnonzero((target < 0) & (after != model.goal))
    return Layers(
        steps=model.steps,
        samples=tree.samples,
        layer_ptr=np.array(layer_ptr),
        node_state=state,
        reach=reach,
        entry_ptr=np.searchsorted(node, np.arange(state.size + 1)),
        entry_node=node,
        choice=tree.choice_id[choice],
        branch_ptr=np.searchsorted(entry, np.arange(choice.size + 1)),
        branch_entry=entry,
        transition=tree.transition[transition],
        target=target,
        prob=model.prob[transition],
        gap=np.where(gap >= INFINITE, 0.0, gap),
        banned=gap >= INFINITE,
        ends=ends,
        end_state=after[ends],
    )
