"""Merge states that free moves connect: a reduced model, and the way back for policies and certificates.

A choice is *free* if it costs nothing in any sample and has the same probabilities in all of them. A component is a set
of states that free choices connect without leaving it: each of its states can be reached from each other one with
probability one, at no cost, and with the same belief. So all of them have the same value for every belief. Lower bounds
that are raised from zero would stay at zero in a component.

`merge_free` makes one state of each component, with all choices that leave it. A policy of the reduced model becomes
one of the full model: it draws its choice, moves to the state that has this choice, and takes it there.
"""

from dataclasses import dataclass, field

import numpy as np

from rue._arrays import Array, members, members_with_owner, pointers, ranges
from rue.certificate import Certificate, margin, model_fingerprint
from rue.controllers import merged, put_together
from rue.model import UMDP, Graph
from rue.policy import Policy
from rue.potential import LARGE_VALUE, gap_below
from rue.structure import inner_choices

# Smaller weights get no point, and no claim is larger than the second number.
SMALL, LARGE = 1e-25, 1e140


@dataclass(frozen=True, eq=False)
class Merged:
    """A full model, the reduced one, and the maps between them."""

    whole: UMDP
    model: UMDP
    place: Array  # [S] the state of the reduced model
    choice: Array  # [C'] maps choices of the reduced model to choices of the full model; −1: one that stays
    inner: Array  # [C] whether a choice is inside a component
    member_ptr: Array  # [S'+1] the states of each state of the reduced model
    member: Array
    rank: Array  # [S] the number of a state in its component

    def policy(self, small: Policy) -> Policy:
        """Return the policy of the full model that follows one of the reduced model, with moves inside components."""
        return _PolicyExpansion(self, small).policy()

    def certificate(self, small: Certificate) -> Certificate:
        """Return the certificate of the full model, with a point for each state of a component in place of one."""
        return _CertificateExpansion(self, small).certificate()


def merge_free(model: UMDP) -> Merged | None:
    """Return the model with one state for each component; None if no component has two states or more."""
    graph = model.graph
    free = (model.cost == 0).all(axis=1)
    if not free.any():
        return None
    uneven = np.flatnonzero((model.prob != model.prob[:, :1]).any(axis=1))
    free[graph.trans_choice[uneven]] = False
    component, inner = inner_choices(graph, free, model.ever_live)
    sizes = np.bincount(component)
    inner &= sizes[component[graph.choice_state]] > 1
    if not inner.any():
        return None
    place = np.unique(component, return_inverse=True)[1].astype(np.int64)
    order = np.argsort(place, kind="stable")
    member_ptr = pointers(np.bincount(place))
    rank = np.empty(graph.states, np.int64)
    rank[order] = np.arange(graph.states) - member_ptr[place[order]]
    small, choice = _smaller(model, place, inner)
    return Merged(model, small, place, choice, inner, member_ptr, order, rank)


def _smaller(model: UMDP, place: Array, inner: Array) -> tuple[UMDP, Array]:
    """Return the reduced model, and the choice of the full model for each of its choices.

    A component without a choice that leaves it gets one that stays.
    """
    graph = model.graph
    outer = np.flatnonzero(~inner)
    places = int(place.max()) + 1
    owner = place[graph.choice_state]
    stuck = np.setdiff1d(owner[inner], owner[outer])
    choice = np.concatenate([outer, np.full(stuck.size, -1)])
    at = np.concatenate([owner[outer], stuck])
    order = np.argsort(at, kind="stable")
    choice, at = choice[order], at[order]
    length = np.where(choice >= 0, np.diff(graph.trans_ptr)[choice], 1)
    transition = ranges(np.where(choice >= 0, graph.trans_ptr[choice], -1), length)
    stays = np.repeat(choice < 0, length)
    successor = np.where(stays, np.repeat(at, length), place[graph.successor[transition]])
    count = np.bincount(at, minlength=places)
    small = Graph(
        choice_ptr=pointers(count),
        action=np.arange(choice.size) - np.repeat(np.cumsum(count) - count, count),
        trans_ptr=pointers(length),
        successor=successor,
        initial=int(place[graph.initial]),
    )
    prob = np.where(stays[:, None], 1.0, model.prob[transition])
    cost = np.where((choice < 0)[:, None], 0.0, model.cost[choice])
    return UMDP(small, prob, cost, weight=model.weight), choice


@dataclass(eq=False)
class _PolicyExpansion:
    """Turns a policy of the reduced model into one of the full model.

    Its nodes are (node, entry, state): on the way to the state that has the entry's choice; (node, −1, state): about to
    draw an entry; and (−1, −1, state): after a transition out of a component that has probability zero in all samples.
    """

    merged: Merged
    small: Policy

    def __post_init__(self) -> None:
        self.number: dict[tuple[int, int, int], int] = {}
        self.queue: list[tuple[int, int, int]] = []
        self.ways: dict[int, Array] = {}

    def policy(self) -> Policy:
        """Return the policy of the full model."""
        initial = self.merged.whole.graph.initial
        start = [self._at(int(node), initial) for node in self.small.start_node]
        state, count, choice, weight, following = [], [], [], [], []
        for node, entry, at in self.queue:
            steps = self._steps(node, entry, at)
            state.append(at)
            count.append(len(steps))
            for taken, share, after in steps:
                choice.append(taken)
                weight.append(share)
                following.extend(after)
        part = (
            np.array(state), np.array(count), np.array(choice, np.int64), np.array(weight, float),
            np.array(following, np.int64),
        )  # fmt: skip
        return merged(put_together(self.merged.whole.graph, [part], np.array(start), self.small.start_weight))

    def _at(self, node: int, state: int) -> int:
        """Return the number of the node that is about to draw an entry, or has only one."""
        first, last = self.small.entry_ptr[node], self.small.entry_ptr[node + 1]
        return self._number((node, int(first) if last - first == 1 else -1, state))

    def _number(self, key: tuple[int, int, int]) -> int:
        """Return the number of a node, which is added if it is new."""
        if key not in self.number:
            self.number[key] = len(self.queue)
            self.queue.append(key)
        return self.number[key]

    def _steps(self, node: int, entry: int, state: int) -> list[tuple[int, float, list[int]]]:
        """Return the choices of a node of the policy, their weights, and the next nodes of their outcomes."""
        small, graph = self.small, self.merged.whole.graph
        if node < 0:
            return self._never(state)
        entries = range(small.entry_ptr[node], small.entry_ptr[node + 1]) if entry < 0 else [entry]
        steps = []
        for e in entries:
            share = float(small.weight[e]) if entry < 0 else 1.0
            choice = int(self.merged.choice[small.choice[e]])
            if choice >= 0 and graph.choice_state[choice] == state:
                ahead = graph.successor[graph.trans_ptr[choice] : graph.trans_ptr[choice + 1]].tolist()
                nodes = small.next_node[small.next_ptr[e] : small.next_ptr[e + 1]].tolist()
                steps.append((choice, share, [self._at(n, s) for n, s in zip(nodes, ahead, strict=True)]))
            else:
                step = int(self._way(choice, state)[state])
                ahead = graph.successor[graph.trans_ptr[step] : graph.trans_ptr[step + 1]].tolist()
                place = self.merged.place
                keys = [(node, int(e), s) if place[s] == place[state] else (-1, -1, s) for s in ahead]
                steps.append((step, share, [self._number(key) for key in keys]))
        return steps

    def _never(self, state: int) -> list[tuple[int, float, list[int]]]:
        """Return any choice, for a node that is never reached."""
        graph = self.merged.whole.graph
        if graph.goal[state]:
            return []
        choice = int(graph.choice_ptr[state])
        ahead = graph.successor[graph.trans_ptr[choice] : graph.trans_ptr[choice + 1]].tolist()
        return [(choice, 1.0, [self._number((-1, -1, s)) for s in ahead])]

    def _way(self, choice: int, state: int) -> Array:  # [S]
        """Return in each state of a component the inner choice towards the state of a choice; any, if there is none."""
        graph = self.merged.whole.graph
        target = int(graph.choice_state[choice]) if choice >= 0 else state
        if target not in self.ways:
            self.ways[target] = _ways_to(self.merged, target)
        return self.ways[target]


def _ways_to(merged: Merged, target: int) -> Array:  # [S]
    """Return in each state of the target's component an inner choice that may get nearer to it; at the target any."""
    graph = merged.whole.graph
    way = np.full(graph.states, -1)
    at = merged.place[target]
    states = merged.member[merged.member_ptr[at] : merged.member_ptr[at + 1]]
    choices = members(graph.choice_ptr, states)
    choices = choices[merged.inner[choices]]
    owner = graph.choice_state[choices]
    way[owner] = choices
    known = np.zeros(graph.states, bool)
    known[target] = True
    transition = members(graph.trans_ptr, choices)
    transition = transition[merged.whole.ever_live[transition]]
    while True:
        nearer = graph.trans_choice[transition[known[graph.successor[transition]]]]
        nearer = nearer[~known[graph.choice_state[nearer]]]
        if nearer.size == 0:
            return way
        way[graph.choice_state[nearer]] = nearer
        known[graph.choice_state[nearer]] = True


@dataclass(eq=False)
class _CertificateExpansion:
    """Turns a certificate of the reduced model into one of the full model: groups of points with one weight and value.

    Where the reduced one has no follower and the outcome is in a component, the bound of one step is zero, since a free
    move costs nothing. A new group has the least cost of leaving the component as its value.
    """

    merged: Merged
    small: Certificate
    sums: dict[tuple[int, ...], int] = field(default_factory=dict)  # the points of each sum, and its number
    shares: list[Array] = field(default_factory=list)  # of each sum

    def certificate(self) -> Certificate:
        """Return the certificate of the full model."""
        whole, small = self.merged.whole, self.small
        place, weight, value, follow = self._groups()
        listed, group = members_with_owner(self.merged.member_ptr, place)
        first = pointers(np.bincount(group))
        state = self.merged.member[listed]
        order = np.arange(state.size)
        root = int(self.merged.rank[whole.graph.initial])
        order[[0, root]] = order[[root, 0]]  # point 0 is at the initial state
        number = np.argsort(order)
        followers = [self._followers(int(state[i]), int(group[i]), follow, first, number) for i in order]
        return Certificate(
            small.objective, model_fingerprint(whole), small.bound, small.potential[self.merged.place],
            state[order], weight[group[order]], value[group[order]], np.concatenate(followers),
            pointers([share.size for share in self.shares]),
            np.array([point for points in self.sums for point in points[1:]], np.int32),
            np.concatenate([np.zeros(0), *self.shares]),
        )  # fmt: skip

    def _groups(self) -> tuple[Array, Array, Array, list[dict[int, int]]]:
        """Return the place, weight and value of each group, and by transition of the full model the next group."""
        whole, small, tiny = self.merged.whole, self.small, self.merged.model.graph
        sizes = np.diff(self.merged.member_ptr)
        place, weight, value = small.state.tolist(), list(small.weight), small.value.tolist()
        follow: list[dict[int, int]] = []
        position = small.follow_ptr(tiny)
        gap = gap_below(self.merged.model, small.potential)
        for i in range(small.points):
            after = {}
            begin = int(tiny.choice_ptr[small.state[i]])
            for c in range(begin, int(tiny.choice_ptr[small.state[i] + 1])):
                own = int(self.merged.choice[c])
                for t in range(int(tiny.trans_ptr[c]), int(tiny.trans_ptr[c + 1])):
                    j = int(small.follow[position[i] + t - tiny.trans_ptr[begin]])
                    j = j if j < small.points else small.points - 2 - j  # a sum q becomes −2 − q
                    to = int(tiny.successor[t])
                    if own < 0:
                        continue
                    arrived = small.weight[i] * self.merged.model.prob[t]
                    if j == -1 and sizes[to] > 1 and arrived.max() > SMALL:
                        j = len(place)
                        place.append(to)
                        weight.append(arrived)
                        value.append(_one_step(arrived, gap[tiny.choice_ptr[to] : tiny.choice_ptr[to + 1]], whole))
                    if j != -1:
                        after[int(self.merged.whole.graph.trans_ptr[own] + t - tiny.trans_ptr[c])] = j
            follow.append(after)
        follow += [{} for _ in range(len(place) - len(follow))]
        return np.array(place), np.array(weight), np.array(value), follow

    def _followers(self, state: int, group: int, follow: list[dict[int, int]], first: Array, number: Array) -> Array:
        """Return for each transition of a state the point that follows."""
        graph, rank, place = self.merged.whole.graph, self.merged.rank, self.merged.place
        transition = np.arange(
            graph.trans_ptr[graph.choice_ptr[state]], graph.trans_ptr[graph.choice_ptr[state + 1]]
        )  # fmt: skip
        # An inner choice may name states elsewhere with probability zero in all samples; these have no follower.
        stays = place[graph.successor[transition]] == place[state]
        inside = self.merged.inner[graph.trans_choice[transition]] & stays
        other = np.array([follow[group].get(int(t), -1) for t in transition], np.int64)
        other = np.where(inside, group, other)
        points = np.where(other < 0, -1, number[first[np.maximum(other, 0)] + rank[graph.successor[transition]]])
        for i in np.flatnonzero(other < -1):
            points[i] = number.size + self._sum(int(-2 - other[i]), int(graph.successor[transition[i]]), first, number)
        return points

    def _sum(self, q: int, state: int, first: Array, number: Array) -> int:
        """Return the number of a sum of the reduced certificate at a state of the full model."""
        part = slice(*self.small.sum_ptr[q : q + 2])
        points = number[first[self.small.sum_point[part]] + self.merged.rank[state]]
        key = (q, *points.tolist())
        if key not in self.sums:
            self.sums[key] = len(self.sums)
            self.shares.append(self.small.sum_share[part])
        return self.sums[key]


def _one_step(weight: Array, gap: Array, model: UMDP) -> float:
    """Return the least cost of the next choice, rounded down."""
    # Infinite gaps count as the largest finite ones, as they do when the certificate is checked.
    least = float((np.minimum(gap, LARGE_VALUE) @ weight).min(initial=LARGE))
    return least * (1 - 4 * margin(model))
