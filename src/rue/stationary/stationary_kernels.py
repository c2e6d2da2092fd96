"""Branch and bound over stationary deterministic policies: the open nodes, and the search itself.

The search pauses in the middle of a node when its budget is used up. The record `cursor` says where:

    phase    what comes next: POP a node, BOUND it in one sample, BRANCH it, or add a CHILD
    sample   how many samples are bounded;  place, choice  where the node is split, and the next child
    open, unused, nodes   how many nodes are open, are not in use, and were opened
    count, filled         how many places and choices the node has
    next     the child that a dive goes on with (−1: none);  dive  whether the node belongs to a dive
    deep     whether memory is short;  work, budget, last  work done and allowed, and the last node before a pause
    cut      nodes with this bound or more are closed;  bound  that of the node;  best  what a policy must beat
"""

from typing import NamedTuple

import numpy as np

from rue._arrays import Array
from rue._jit import declare, helper, kernel
from rue.stationary.bound_kernels import (
    _back_up_choices,
    _bound_child,
    _bound_coupled,
    _choose_place,
    _flow,
    _raise_values,
    _useful_tolerance,
)
from rue.stationary.descent_kernels import ENDLESS, _can_be_proper, _evaluate, _is_proper, _reachable, mutable_record

# What `search` returns: the budget or the nodes are used up; the candidate is a better policy, or the only one of a
# node; all memory for nodes is in use; no node is left.
PAUSED, FOUND, LEAF, FULL, DONE = range(5)
POP, BOUND, BRANCH, CHILD = range(4)
# One in this many nodes that are taken off the heap starts a dive: its best child comes next, and so on to a leaf.
DIVE_EVERY = 32

new_cursor = mutable_record(
    "Cursor",
    "phase sample place choice open unused nodes count filled next dive deep work budget last",
    "cut bound best tolerance",
)


class NodePool(NamedTuple):
    """Memory for nodes."""

    bits: Array  # [N, words] their allowed choices
    bound: Array  # [N]
    depth: Array  # [N]
    heap: Array  # [N] the open nodes, the lowest bound first
    unused: Array  # [N]


declare(NodePool, "u2 f1 i1 l1 l1")


@helper
def _before(pool, a, b):
    """Return whether node a comes before node b: the lower bound first, then the deeper one."""
    return pool.bound[a] < pool.bound[b] or (pool.bound[a] == pool.bound[b] and pool.depth[a] > pool.depth[b])


@helper
def _push(pool, size, node):
    """Put a node on the heap of `size` nodes."""
    heap = pool.heap
    i = size
    while i > 0 and _before(pool, node, heap[(i - 1) >> 1]):
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[i] = node


@helper
def _pop(pool, size):
    """Take the first node off the heap of `size` nodes and return it."""
    heap = pool.heap
    first = heap[0]
    last = heap[size - 1]
    i = 0
    while True:
        j = 2 * i + 1
        if j >= size - 1:
            break
        if j + 1 < size - 1 and _before(pool, heap[j + 1], heap[j]):
            j += 1
        if _before(pool, last, heap[j]):
            break
        heap[i] = heap[j]
        i = j
    heap[i] = last
    return first


@helper
def _take_node(pool, cursor):
    """Return the next node, off the heap or of a dive; its memory is free from now on."""
    if cursor.next >= 0:
        taken = cursor.next
        cursor.next = -1
    else:
        # Where memory is short the last of the heap is taken: it is rather deep, with few nodes below it.
        taken = pool.heap[cursor.open - 1] if cursor.deep else _pop(pool, cursor.open)
        cursor.open -= 1
        cursor.dive = cursor.nodes % DIVE_EVERY == 0
    pool.unused[cursor.unused] = taken
    cursor.unused += 1
    return taken


@helper
def _open_node(model, graph, node, bits, cursor):
    """Unpack the choices of a node at the places that it reaches."""
    for c in range(graph.allow.size):
        graph.allow[c] = (bits[c >> 6] >> np.uint64(c & 63)) & np.uint64(1)
    cursor.count = _reachable(model, graph)
    filled = 0
    for a in range(cursor.count):
        i = graph.live[a]
        node.low[i] = filled
        for c in range(model.row_ptr[i], model.row_ptr[i + 1]):
            if graph.allow[c]:
                node.act[filled] = c
                filled += 1
        node.high[i] = filled
    cursor.filled = filled
    cursor.nodes += 1
    cursor.work += cursor.count
    cursor.sample = 0
    cursor.phase = BOUND


@helper
def _bound_in_sample(model, graph, node, value, rank, cursor):
    """Bound the node in the next sample; it is closed if it cannot hold a better policy."""
    k = rank[cursor.sample]
    own = value[k]
    own[:] = 0.0
    cursor.work += cursor.filled * _raise_values(
        model, k, node, cursor.count, own, _useful_tolerance(cursor, cursor.bound), cursor.cut - model.offset[k]
    )  # fmt: skip
    cursor.bound = max(cursor.bound, own[model.start] + model.offset[k])
    closed = cursor.bound >= cursor.cut
    if not closed and cursor.cut >= ENDLESS:  # while no proper policy is known, the graph may rule them out
        closed = not _can_be_proper(model, k, graph, cursor.count, node.low, node.high, node.act)
    if closed:
        for j in range(cursor.sample, 0, -1):  # this sample comes first from now on
            rank[j] = rank[j - 1]
        rank[0] = k
        cursor.phase = POP
        return
    cursor.sample += 1
    if cursor.sample == rank.size:
        cursor.phase = BRANCH


@helper
def _add_child(model, allow, pool, c, bound, cursor):
    """Keep the child with choice c at the place to branch on: next in the dive, or on the heap."""
    cursor.unused -= 1
    child = pool.unused[cursor.unused]
    allow[model.row_ptr[cursor.place] : model.row_ptr[cursor.place + 1]] = False
    allow[c] = True
    bits = pool.bits[child]
    bits[:] = 0
    for a in range(allow.size):
        if allow[a]:
            bits[a >> 6] |= np.uint64(1) << np.uint64(a & 63)
    pool.bound[child] = bound
    pool.depth[child] = cursor.count - cursor.filled
    if cursor.dive and (cursor.next < 0 or bound < pool.bound[cursor.next]):
        cursor.next, child = child, cursor.next
    if child >= 0:
        _push(pool, cursor.open, child)
        cursor.open += 1


@kernel("LocalModel Subgraph NodeChoices NodeValues Coupling PolicyValues NodePool Cursor")
def search(model, graph, node, values, coupling, policies, pool, cursor):
    """Work on open nodes; return why it stopped: PAUSED, FOUND, LEAF, FULL or DONE.

    All that it knows is in the records, so that a later call goes on where this one paused.
    """
    cursor.work = 0
    while cursor.work < cursor.budget:
        if cursor.phase == POP:
            if cursor.open == 0 and cursor.next < 0:
                return DONE
            if cursor.nodes >= cursor.last:
                return PAUSED
            taken = _take_node(pool, cursor)
            if pool.bound[taken] >= cursor.cut:
                continue
            cursor.bound = pool.bound[taken]
            _open_node(model, graph, node, pool.bits[taken], cursor)
        if cursor.phase == BOUND:
            _bound_in_sample(model, graph, node, values.value, policies.rank, cursor)
        elif cursor.phase == BRANCH:
            for k in range(model.offset.size):
                _back_up_choices(model, k, node, cursor.count, values, coupling.price)
                visits, flowing = values.visits[k], np.bool_(False)
                _flow(model, k, node, cursor.count, values.greedy[k], visits, coupling.left, flowing)
            if cursor.cut < ENDLESS:
                _bound_coupled(model, node, values, coupling, cursor, graph.allow)
            cursor.work += 6 * model.offset.size * cursor.filled
            if cursor.bound >= cursor.cut:
                cursor.phase = POP
                continue
            i = _choose_place(model, node, cursor.count, values, coupling.hit, cursor.cut, cursor.bound)
            if i < 0:
                cursor.phase = POP
                return LEAF
            cursor.place, cursor.choice, cursor.phase = i, node.low[i], CHILD
            for k in range(policies.rank.size):
                for j in range(values.value.shape[1]):
                    policies.value[k, j] = values.value[k, j]
            worst = _evaluate(model, node.live, cursor.count, node.candidate, policies, cursor.tolerance, cursor.best)
            cursor.work += 10 * cursor.count * policies.rank.size
            if worst < cursor.best and _is_proper(model, graph, cursor.count, node.candidate):
                return FOUND
        else:
            if cursor.unused == 0:
                return FULL
            bound = _bound_child(model, node, values, policies.value, graph.stack, coupling.price, cursor)
            if bound < cursor.cut:
                _add_child(model, graph.allow, pool, node.act[cursor.choice], bound, cursor)
            cursor.choice += 1
            if cursor.choice == node.high[cursor.place]:
                cursor.phase = POP
    return PAUSED
