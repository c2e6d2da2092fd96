"""Put controllers together, and make them smaller without a change in what they do.

*Merging.* Two nodes do the same for ever if they have one state, the same choices with the same weights, and the next
nodes of each outcome do the same for ever. The largest such relation is found by splitting blocks of nodes until
the nodes of each block are equal; weights count as equal if they are the same number. So the merged controller
draws the same choices with the same probabilities after every history, and has the same value in every model.
"""

from collections.abc import Sequence

import numpy as np

from rue import structure_kernels as reach
from rue._arrays import Array, members, places, pointers, ranges, read_only
from rue.controller_kernels import Partition, refine
from rue.model import Graph
from rue.policy import Policy, complete_choices

# Nodes of a controller: the state of each, how many choices it has, these choices, their weights, and the next nodes of
# all their outcomes.
Part = tuple[Array, Array, Array, Array, Array]


def part_of(policy: Policy, first: int = 0) -> Part:
    """Return the nodes of a policy, numbered from `first` on."""
    return policy.node_state, np.diff(policy.entry_ptr), policy.choice, policy.weight, policy.next_node + first


def stationary_choices(policy: Policy) -> Array | None:  # [S]
    """Return the choice of each state if the policy is stationary and deterministic; the first where it has none."""
    if not (policy.is_stationary and policy.is_deterministic):
        return None
    choice = np.full(policy.graph.states, -1)
    choice[policy.graph.choice_state[policy.choice]] = policy.choice
    return complete_choices(policy.graph, choice)


def put_together(graph: Graph, parts: Sequence[Part], start_node: Array, start_weight: Array) -> Policy:
    """Return one controller of all parts; their next nodes are numbered through all parts already."""
    state, count, choice, weight, following = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Policy(
        graph=graph,
        node_state=state,
        entry_ptr=pointers(count),
        choice=choice,
        weight=weight,
        next_ptr=pointers(np.diff(graph.trans_ptr)[choice]),
        next_node=following,
        start_node=start_node,
        start_weight=start_weight,
    )


def mix_policies(policies: list[Policy], weight: Array) -> Policy:
    """Return one controller that draws one of the policies at the start, with these probabilities, and follows it.

    Nodes that do the same are merged. If only one policy has a positive weight, it is returned as it is.
    """
    used = [(policy, float(w)) for policy, w in zip(policies, weight, strict=True) if w > 0]
    if len(used) == 1:
        return used[0][0]
    first = pointers([policy.nodes for policy, _ in used])
    parts = [part_of(policy, first[i]) for i, (policy, _) in enumerate(used)]
    start_node = np.concatenate([policy.start_node + first[i] for i, (policy, _) in enumerate(used)])
    start_weight = np.concatenate([policy.start_weight * w for policy, w in used])
    return merged(put_together(used[0][0].graph, parts, start_node, start_weight / start_weight.sum()))


def handed_over(policy: Policy, lost: Array, other: Policy) -> Policy:
    """Return the policy that continues with another one, at its first node of the state, in place of a lost node."""
    node = np.full(policy.graph.states, -1)
    node[other.node_state[::-1]] = np.arange(other.nodes)[::-1]
    number = np.where(lost, policy.nodes + node[policy.node_state], np.arange(policy.nodes))
    parts = [(*part_of(policy)[:4], number[policy.next_node]), part_of(other, policy.nodes)]
    return merged(put_together(policy.graph, parts, number[policy.start_node], policy.start_weight))


def trimmed(policy: Policy) -> Policy:
    """Return the policy without the nodes that it cannot reach."""
    every = np.arange(policy.next_node.size, dtype=np.int32)
    edges = reach.Edges(read_only(policy.next_ptr[policy.entry_ptr]), read_only(every), policy.next_node)
    seen = np.zeros(policy.nodes, bool)
    seen[reach.breadth_first(edges, np.ones(every.size, bool), policy.start_node)] = True
    if seen.all():
        return policy
    place = np.cumsum(seen) - 1
    return _kept(policy, np.flatnonzero(seen), place, place[policy.start_node], policy.start_weight)


def merged(policy: Policy) -> Policy:
    """Return the policy with one node for all that do the same for ever, and without those that it cannot reach.

    Of each block the first node stays, and so does the order. Start nodes that are merged add up their weights.
    Entries of one choice and one weight at a node are compared in their order. Those that do the same become one.
    """
    policy = _joined(trimmed(policy))
    label, labels = _labels(policy)
    owner = np.repeat(np.arange(policy.nodes), np.diff(policy.next_ptr[policy.entry_ptr]))
    blocks, count = _partition(policy.node_state, policy.graph.states)
    refine(owner, *_grouped(policy.next_node, policy.nodes), blocks, count, *_partition(label, labels))
    node, place = _by_first(blocks.set_of)
    start, start_block = _by_first(place[policy.start_node])
    if node.size == policy.nodes and start.size == policy.start_node.size:
        return policy
    start_weight = np.bincount(start_block, weights=policy.start_weight)
    small = _kept(policy, node, place, place[policy.start_node[start]], start_weight)
    joined = _joined(small)
    return small if joined is small else merged(joined)  # nodes may do the same now


def _joined(policy: Policy) -> Policy:
    """Return the policy with one entry for those of a node that have one choice and the same next nodes."""
    owner, choice = policy.entry_node, policy.choice
    order = np.lexsort((choice, owner))
    alike = np.flatnonzero(~_changes(owner[order], choice[order]))  # with the one before it
    weight, kept = policy.weight.copy(), np.ones(choice.size, bool)
    first: dict[tuple[int, int, bytes], int] = {}
    for entry in np.sort(order[np.union1d(alike - 1, alike)]).tolist():
        following = policy.next_node[policy.next_ptr[entry] : policy.next_ptr[entry + 1]]
        same = first.setdefault((int(owner[entry]), int(choice[entry]), following.tobytes()), entry)
        if same != entry:
            weight[same] += weight[entry]
            kept[entry] = False
    if kept.all():
        return policy
    entry = np.flatnonzero(kept)
    following = policy.next_node[ranges(policy.next_ptr[entry], np.diff(policy.next_ptr)[entry])]
    count = np.bincount(owner[entry], minlength=policy.nodes)
    part = (policy.node_state, count, choice[entry], np.minimum(weight[entry], 1.0), following)
    return put_together(policy.graph, [part], policy.start_node, policy.start_weight)


def _grouped(key: Array, keys: int) -> tuple[Array, Array]:
    """Return the elements of each key in order, `member[ptr[k]:ptr[k+1]]`."""
    return pointers(np.bincount(key, minlength=keys)), np.argsort(key, kind="stable")


def _partition(key: Array, keys: int) -> tuple[Partition, int]:
    """Return the elements in sets of one key each, and the number of sets."""
    ptr, member = _grouped(key, keys)
    used = np.flatnonzero(np.diff(ptr))
    first, past, place, set_of, marked, touched = np.zeros((6, key.size), np.int64)
    first[: used.size], past[: used.size] = ptr[used], ptr[used + 1]
    place[member] = np.arange(key.size)
    set_of[member] = np.repeat(np.arange(used.size), np.diff(ptr)[used])
    return Partition(first, past, member, place, set_of, marked, touched), used.size


def _labels(policy: Policy) -> tuple[Array, int]:
    """Return a number for each outcome that tells choice, weight and transition, and how many numbers there are.

    Entries of a node with the same choice and weight differ by their rank, so that no label occurs twice at a node.
    """
    entries = policy.choice.size
    owner = policy.entry_node
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
    return ranges(entry_label, length).astype(np.int32), int(length[order][begins].sum())


def _changes(*keys: Array) -> Array:
    """Return where one of the keys differs from the one before it; the first always does."""
    changed = np.zeros(keys[0].size, bool)
    changed[:1] = True
    for key in keys:
        changed[1:] |= key[1:] != key[:-1]
    return changed


def _by_first(key: Array) -> tuple[Array, Array]:
    """Return the first place of each key, in order, and for each element the number of its key."""
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = places(order, order.size)
    return first[order], rank[inverse]


def _kept(policy: Policy, node: Array, place: Array, start_node: Array, start_weight: Array) -> Policy:
    """Return the policy with some of its nodes only; `place` has the new number of each node, or of its substitute."""
    entry = members(policy.entry_ptr, node)
    following = place[policy.next_node[members(policy.next_ptr, entry)]]
    count = np.diff(policy.entry_ptr)[node]
    part = (policy.node_state[node], count, policy.choice[entry], policy.weight[entry], following)
    return put_together(policy.graph, [part], start_node, start_weight)
