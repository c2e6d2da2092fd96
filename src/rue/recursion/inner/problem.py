"""The n-step option problem, unfolded into layers, and what all engines need to know about it.

    min over options o of  max over k of  E_k[ Σ_{t<n} g_k(s_t,a_t) + R(s_n) ],      R(goal) = 0

An option starts in the root state, acts for n steps and stops early at a goal. The terminal values R are given with
each solve; all else stays. There are two ways to unfold it:

- *slots*, one node for each (t, state): the memory of the paper's options, π(s,a,t);
- *histories*, one node for each path (s_0,a_0,s_1,…,s_t): the memory of options that recall everything.

With q_k(e) = paid_k(e) + Σ T_k c_k(target) for an entry e = (node, choice), c_k of the node it leads to, and paid_k
the gap and what R adds where the option ends, both share one backward recursion.

*What must not happen.* A gap or a terminal value of 1e100 or more stands for infinity: an option that meets it with a
positive probability in some sample is worth infinity. That is decided on the graph, never by arithmetic.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rue._arrays import Array, ranges
from rue._highs import Ended
from rue.errors import BadInput
from rue.model import UMDP

INFINITE = 1e100
# Numbers (branches times samples) in one table above which a tree is refused; a few such tables are needed.
LARGEST_TABLE = 50_000_000


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything but the terminal values."""

    trans_ptr: Array  # [C+1]
    successor: Array  # [T]
    goal: Array  # [S]
    prob: Array  # [T, K]
    gap: Array  # [C, K]
    kept_ptr: Array  # [S+1]
    kept: Array  # the choices that each state may use
    steps: int
    root: int

    @classmethod
    def of(cls, model: UMDP, gap: Array, kept: Array | None, steps: int, root: int) -> "Problem":
        """The problem at a state of a model; `kept` is a mask over the choices, None for all."""
        graph = model.graph
        mask = np.ones(graph.choices, bool) if kept is None else kept
        count = np.bincount(graph.choice_state[mask], minlength=graph.states)
        ptr = np.concatenate(([0], np.cumsum(count)))
        return cls(
            graph.trans_ptr, graph.successor, graph.goal, model.prob, gap, ptr, np.flatnonzero(mask), steps, root
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Answer:
    """What an engine found.

    `value` is that of `weight`, evaluated exactly (up to rounding) whatever the engine believed; infinite where the
    option is, or where there is none. `bound` is a lower bound on the value of every option of the engine's class.
    """

    status: Ended
    value: float
    bound: float
    cost: Array  # [K]; the expected cost of the option in each sample; `value` is the largest
    weight: Array  # [E]; for each node a distribution over its entries
    belief: Array | None = None  # [K]; weights of the samples that prove `bound`
    realisation: Array | None = None  # [E]; x(h,a), the product of the weights on the way to and at (h,a)
    approximate: float | None = None  # what the engine's approximation took the value for


class Engine(Protocol):
    """How all engines are used: built from a problem, solved with terminal values."""

    layers: "Layers"

    def solve(self, value: Array, seconds: float = math.inf) -> Answer:
        """The best option of the engine's class for the terminal values `value[S]`."""


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
    transition: Array  # [B]
    target: Array  # [B]; the next node; -1 where the option ends
    prob: Array  # [B, K]
    gap: Array  # [E, K]; zero where infinite
    banned: Array  # [E, K]; where the gap is infinite
    ends: Array  # branches that end the option at a state that is no goal
    end_state: Array  # their states

    @property
    def nodes(self) -> int:
        """N."""
        return self.node_state.size

    @property
    def entries(self) -> int:
        """E."""
        return self.choice.size

    @property
    def step(self) -> Array:  # [N]
        """The step of each node."""
        return np.repeat(np.arange(self.steps), np.diff(self.layer_ptr))

    @property
    def reached(self) -> Array:  # [E, K]
        """Whether a sample can lead to the node of an entry."""
        return np.asarray(self.reach[self.entry_node] > 0)

    def paid(self, value: Array) -> tuple[Array, Array]:  # [E, K], [E, K]
        """Gap plus expected terminal value of each entry, and where that is infinite."""
        terminal = value[self.end_state]
        infinite = terminal >= INFINITE
        if not self.ends.size:
            return self.gap, self.banned
        part, bad = np.zeros_like(self.prob), np.zeros(self.prob.shape, bool)
        part[self.ends] = self.prob[self.ends] * np.where(infinite, 0.0, terminal)[:, None]
        bad[self.ends] = (self.prob[self.ends] > 0) & infinite[:, None]
        return self.gap + fold(np.add, part, self.branch_ptr, 0.0), (
            self.banned | fold(np.logical_or, bad, self.branch_ptr, False)
        )

    def backward(self) -> "Iterable[tuple[slice, slice, slice]]":
        """Nodes, entries and branches of each step, the last step first."""
        for t in reversed(range(self.steps)):
            first, last = self.layer_ptr[t], self.layer_ptr[t + 1]
            e, f = self.entry_ptr[first], self.entry_ptr[last]
            yield slice(first, last), slice(e, f), slice(self.branch_ptr[e], self.branch_ptr[f])

    def ahead(self, entry: slice, branch: slice, node: Array) -> Array:
        """Σ T_k node[target] of the entries of a step."""
        target = self.target[branch]
        part = np.where(target[:, None] >= 0, self.prob[branch] * node[target], 0.0)
        return fold(np.add, part, self._local(self.branch_ptr, entry), 0.0)

    def any_ahead(self, entry: slice, branch: slice, node: Array) -> Array:
        """Whether some branch of an entry with a positive probability leads to a marked node."""
        target = self.target[branch]
        part = (target[:, None] >= 0) & (self.prob[branch] > 0) & node[target]
        return fold(np.logical_or, part, self._local(self.branch_ptr, entry), False)

    def over_entries(self, ufunc: np.ufunc, values: Array, node: slice, empty: float | bool) -> Array:
        """A fold of the entries of each node of a step."""
        return fold(ufunc, values, self._local(self.entry_ptr, node), empty)

    @staticmethod
    def _local(ptr: Array, part: slice) -> Array:
        return np.asarray(ptr[part.start : part.stop + 1] - ptr[part.start])

    def evaluate(self, value: Array, weight: Array) -> Array:  # [K]
        """The expected cost of an option in each sample."""
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
        """An option to fall back on: at each node the least cost if the adversary could change the sample there."""
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
        """Distributions over the entries of each node from weights; `otherwise` where a node has none."""
        weight = np.maximum(weight, 0.0)
        total = np.bincount(self.entry_node, weights=weight, minlength=self.nodes)[self.entry_node]
        empty = total <= 0
        return np.asarray(np.where(empty, otherwise, weight / np.where(empty, 1.0, total)))


@dataclass(frozen=True, eq=False)
class Bounds:
    """Per-sample bounds by backward induction: the least and largest cost from an entry or node on, over all options.

    Entries that a sample must not take (`dead`) are left out, and so are nodes all whose entries are dead: these have
    zeros. The largest of `node_low[0]` is the "wait and see" bound: no option of any class is worth less.
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
        """All bounds for given terminal values."""
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
    def scale(self) -> float:
        """The largest difference between two options at any node in one sample: programs divide by it.

        Differences that are nothing but rounding count as none.
        """
        spread = float((self.node_high - self.node_low).max())
        largest = max(float(np.abs(self.node_high).max()), float(np.abs(self.node_low).max()))
        return max(spread, 1e-9 * largest) or 1.0


def blocked(layers: Layers, dead: Array) -> Array:  # [E]
    """Entries that some sample that can lead there must not take, or after which there are none left to take."""
    shut, shut_node = np.empty(layers.entries, bool), np.zeros((layers.nodes, 1), bool)
    reached = layers.reached
    for node, entry, branch in layers.backward():
        ahead = layers.any_ahead(entry, branch, shut_node)  # [E, K]: probabilities are by sample
        shut[entry] = (reached[entry] & (dead[entry] | ahead)).any(axis=1)
        shut_node[node, 0] = layers.over_entries(np.logical_and, shut[entry], node, True)
    return shut


def fold(ufunc: np.ufunc, values: Array, ptr: Array, empty: float | bool) -> Array:
    """ufunc over values[ptr[i]:ptr[i+1]] for each i; `empty` where there are none."""
    out = np.full((ptr.size - 1, *values.shape[1:]), empty, values.dtype)
    full = np.flatnonzero(np.diff(ptr))
    if full.size:
        out[full] = ufunc.reduceat(values, ptr[full], axis=0)
    return out


def unfold(problem: Problem, *, histories: bool) -> Layers:
    """The layers of a problem, as slots or as histories."""
    states, samples = problem.goal.size, problem.prob.shape[1]
    live = np.asarray((problem.prob > 0).any(axis=1))
    state = np.array([] if problem.goal[problem.root] else [problem.root], np.int64)
    reach = np.ones((state.size, samples))
    nodes, entries, size = 0, 0, 0
    rows: dict[str, list[Array]] = {name: [] for name in ("state", "reach", "length", "node", "choice")}
    branches: dict[str, list[Array]] = {name: [] for name in ("entry", "transition", "target")}
    layer = [0]
    for t in range(problem.steps):
        length = problem.kept_ptr[state + 1] - problem.kept_ptr[state]
        choice = problem.kept[ranges(problem.kept_ptr[state], length)]
        local = np.repeat(np.arange(state.size), length)
        fan = problem.trans_ptr[choice + 1] - problem.trans_ptr[choice]
        size += int(fan.sum())
        _refuse_large(size, samples, t + 1, problem.steps)
        transition = ranges(problem.trans_ptr[choice], fan)
        entry = np.repeat(np.arange(choice.size), fan)
        part = reach[local[entry]] * problem.prob[transition]
        here = np.asarray((part > 0).any(axis=1)) if histories else live[transition]
        transition, entry, part = transition[here], entry[here], part[here]
        after = problem.successor[transition].astype(np.int64)
        inner = np.flatnonzero(~problem.goal[after]) if t + 1 < problem.steps else np.empty(0, np.int64)
        key = entry[inner] * states + after[inner] if histories else after[inner]
        found, place = np.unique(key, return_inverse=True)
        target = np.full(after.size, -1)
        target[inner] = nodes + state.size + place
        for name, array in (("state", state), ("reach", reach), ("length", length), ("choice", choice)):
            rows[name].append(array)
        rows["node"].append(nodes + local)
        for name, array in (("entry", entries + entry), ("transition", transition), ("target", target)):
            branches[name].append(array)
        nodes, entries = nodes + state.size, entries + choice.size
        layer.append(nodes)
        state = found % states
        reach = np.zeros((found.size, samples))
        np.add.at(reach, place, part[inner])
        if not histories:
            reach = (reach > 0).astype(float)
    return _assemble(problem, layer, rows, branches)


def _assemble(
    problem: Problem, layer: list[int], rows: dict[str, list[Array]], branches: dict[str, list[Array]]
) -> Layers:  # fmt: skip
    joined = {name: np.concatenate(parts) for name, parts in (rows | branches).items()}
    choice, entry, transition = joined["choice"], joined["entry"], joined["transition"]
    gap = problem.gap[choice]
    banned = gap >= INFINITE
    after = problem.successor[transition]
    ends = np.flatnonzero((joined["target"] < 0) & ~problem.goal[after])
    return Layers(
        steps=problem.steps,
        samples=problem.prob.shape[1],
        layer_ptr=np.array(layer),
        node_state=joined["state"],
        reach=joined["reach"],
        entry_ptr=np.concatenate(([0], np.cumsum(joined["length"]))),
        entry_node=joined["node"],
        choice=choice,
        branch_ptr=np.searchsorted(entry, np.arange(choice.size + 1)),
        branch_entry=entry,
        transition=transition,
        target=joined["target"],
        prob=problem.prob[transition],
        gap=np.where(banned, 0.0, gap),
        banned=banned,
        ends=ends,
        end_state=after[ends],
    )


def _refuse_large(branches: int, samples: int, done: int, steps: int) -> None:
    if branches * samples > LARGEST_TABLE:
        size = branches * samples * 8 / 2**30
        raise BadInput(
            f"the option has {branches} outcomes in its first {done} of {steps} steps, {size:.1f} GiB a table with "
            f"{samples} samples; lower the steps, prune, or use fewer samples"
        )


def at_goal(layers: Layers) -> Answer:
    """The answer where the root is a goal: there is nothing to do."""
    return Answer(Ended.OPTIMAL, 0.0, 0.0, np.zeros(layers.samples), np.empty(0))


def no_option(layers: Layers, value: Array) -> Answer:
    """The answer where every option is worth infinity."""
    weight = layers.careful(value)
    cost = layers.evaluate(value, weight)
    return Answer(Ended.INFEASIBLE, math.inf, math.inf, cost, weight)
