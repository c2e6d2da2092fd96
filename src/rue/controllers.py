"""Controllers put together, and made smaller without a change in what they do.

*Merging.* Two nodes do the same for ever if they have one state, the same choices with the same weights, and the next
nodes of each outcome do the same for ever. The largest such relation is found by splitting blocks of nodes until
nothing tells the nodes of a block apart; weights count as equal if they are the same number. So the merged controller
draws the same choices with the same probabilities after every history, and has the same value in every model.
"""

from collections.abc import Sequence

import numpy as np

from rue import controller_kernels as controller
from rue._arrays import Array, ranges
from rue.model import Graph
from rue.policy import Policy

# Nodes of a controller: the state of each, how many choices it has, these choices, their weights, and the next nodes of
# all their outcomes.
Part = tuple[Array, Array, Array, Array, Array]


def part_of(policy: Policy) -> Part:
    """The nodes of a policy."""
    return policy.node_state, np.diff(policy.entry_ptr), policy.choice, policy.weight, policy.next_node


def put_together(graph: Graph, parts: Sequence[Part], start_node: Array, start_weight: Array) -> Policy:
    """One controller of all parts, whose nodes are numbered through; their next nodes are in these numbers already."""
    state, count, choice, weight, following = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Policy(
        graph=graph,
        node_state=state,
        entry_ptr=np.concatenate(([0], np.cumsum(count))),
        choice=choice,
        weight=weight,
        next_ptr=np.concatenate(([0], np.cumsum(np.diff(graph.trans_ptr)[choice]))),
        next_node=following,
        start_node=start_node,
        start_weight=start_weight,
    )


def mix_policies(policies: list[Policy], weight: Array) -> Policy:
    """One controller that draws one of the policies at the start, with these probabilities, and follows it.

    Nodes that do the same are one; the only policy with a positive weight is returned as it is.
    """
    used = [(policy, float(w)) for policy, w in zip(policies, weight, strict=True) if w > 0]
    if len(used) == 1:
        return used[0][0]
    first = np.cumsum([0] + [policy.nodes for policy, _ in used])
    parts = [(*part_of(policy)[:4], policy.next_node + first[i]) for i, (policy, _) in enumerate(used)]
    start_node = np.concatenate([policy.start_node + first[i] for i, (policy, _) in enumerate(used)])
    start_weight = np.concatenate([policy.start_weight * w for policy, w in used])
    return merged(put_together(used[0][0].graph, parts, start_node, start_weight / start_weight.sum()))


def handed_over(policy: Policy, lost: Array, other: Policy) -> Policy:
    """The policy that goes over to another one, to its first node of the state, instead of entering a lost node."""
    node = np.full(policy.graph.states, -1)
    node[other.node_state[::-1]] = np.arange(other.nodes)[::-1]
    number = np.where(lost, policy.nodes + node[policy.node_state], np.arange(policy.nodes))
    parts = [
        (*part_of(policy)[:4], number[policy.next_node]),
        (*part_of(other)[:4], other.next_node + policy.nodes),
    ]  # fmt: skip
    return merged(put_together(policy.graph, parts, number[policy.start_node], policy.start_weight))


def trimmed(policy: Policy) -> Policy:
    """The policy without the nodes that it cannot come to."""
    seen = controller.reached(policy.next_ptr[policy.entry_ptr], policy.next_node, policy.start_node)
    if seen.all():
        return policy
    place = np.cumsum(seen) - 1
    return _kept(policy, np.flatnonzero(seen), place, place[policy.start_node], policy.start_weight)


def merged(policy: Policy) -> Policy:
    """The policy with one node for all that do the same for ever, and without those that it cannot come to.

    Of each block the first node stays, in the order of before. Start nodes that become one add up their weights.
    Entries of one choice and one weight at a node count in the order in which they stand.
    """
    policy = trimmed(policy)
    label, labels = _labels(policy)
    before_ptr, before = _grouped(policy.next_node, policy.nodes)
    blocks = _partition(policy.node_state, policy.graph.states)
    controller.alike(policy.next_ptr[policy.entry_ptr], before_ptr, before, *blocks, *_partition(label, labels))
    node, place = _by_first(blocks[4])
    start, start_block = _by_first(place[policy.start_node])
    if node.size == policy.nodes and start.size == policy.start_node.size:
        return policy
    start_weight = np.bincount(start_block, weights=policy.start_weight)
    return _kept(policy, node, place, place[policy.start_node[start]], start_weight)


def _grouped(key: Array, keys: int) -> tuple[Array, Array]:
    """The elements of each key in order, `member[ptr[k]:ptr[k+1]]`."""
    ptr = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=keys))])
    return ptr, np.argsort(key, kind="stable")


def _partition(key: Array, keys: int) -> tuple[Array, Array, Array, Array, Array, int]:
    """The elements by key: where each set begins and ends among its members, their places and sets, and how many."""
    ptr, member = _grouped(key, keys)
    used = np.flatnonzero(np.diff(ptr))
    first, past = np.empty(key.size, np.int64), np.empty(key.size, np.int64)
    first[: used.size], past[: used.size] = ptr[used], ptr[used + 1]
    place, set_of = np.empty(key.size, np.int64), np.empty(key.size, np.int64)
    place[member] = np.arange(key.size)
    set_of[member] = np.repeat(np.arange(used.size), np.diff(ptr)[used])
    return first, past, member, place, set_of, used.size


def _labels(policy: Policy) -> tuple[Array, int]:
    """A number for each outcome that tells choice, weight and transition, and how many there are.

    Entries of a node that agree in choice and weight are told apart by their rank, so that no label stands twice there.
    """
    entries = policy.choice.size
    owner = np.repeat(np.arange(policy.nodes), np.diff(policy.entry_ptr))
    order = np.lexsort((policy.weight, policy.choice, owner))
    begins = _changes(owner[order], policy.choice[order], policy.weight[order])
    rank = np.empty(entries, np.int64)
    rank[order] = np.arange(entries) - np.maximum.accumulate(np.where(begins, np.arange(entries), 0))
    order = np.lexsort((rank, policy.weight, policy.choice))
    begins = _changes(policy.choice[order], policy.weight[order], rank[order])
    # Entries that agree have one choice, hence equally many outcomes: each takes as many labels as its first one has.
    length = np.diff(policy.next_ptr)
    first = np.cumsum(np.where(begins, length[order], 0)) - length[order]
    entry_label = np.empty(entries, np.int64)
    entry_label[order] = first
    label = ranges(entry_label, length).astype(np.int32)
    label.flags.writeable = False
    return label, int(length[order][begins].sum())


def _changes(*keys: Array) -> Array:
    """Where one of the keys differs from the one before it; also at the first."""
    changed = np.zeros(keys[0].size, bool)
    changed[:1] = True
    for key in keys:
        changed[1:] |= key[1:] != key[:-1]
    return changed


def _by_first(key: Array) -> tuple[Array, Array]:
    """Where each key stands first, in that order, and for each element which of them is its own."""
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    return first[order], rank[inverse]


def _kept(policy: Policy, node: Array, place: Array, start_node: Array, start_weight: Array) -> Policy:
    """The policy with some of its nodes alone; `place` is for each node the new number of the one in its stead."""
    count = np.diff(policy.entry_ptr)[node]
    entry = ranges(policy.entry_ptr[node], count)
    length = np.diff(policy.next_ptr)[entry]
    return Policy(
        graph=policy.graph,
        node_state=policy.node_state[node],
        entry_ptr=np.concatenate(([0], np.cumsum(count))),
        choice=policy.choice[entry],
        weight=policy.weight[entry],
        next_ptr=np.concatenate(([0], np.cumsum(length))),
        next_node=place[policy.next_node[ranges(policy.next_ptr[entry], length)]],
        start_node=start_node,
        start_weight=start_weight,
    )
