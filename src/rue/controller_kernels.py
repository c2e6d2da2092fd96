"""Controllers as graphs: the nodes that are come to, and the nodes that do the same for ever.

The outcomes of node i are `node_ptr[i]:node_ptr[i+1]`, each with a label and a next node.
"""

import numpy as np

from rue._jit import helper, kernel


@kernel("l1 I1 I1")
def reached(node_ptr, next_node, start_node):
    """Which nodes can be come to from the start nodes."""
    nodes = node_ptr.size - 1
    seen = np.zeros(nodes, np.bool_)
    queue = np.empty(nodes, np.int32)
    filled = 0
    for i in range(start_node.size):
        if not seen[start_node[i]]:
            seen[start_node[i]] = True
            queue[filled] = start_node[i]
            filled += 1
    head = 0
    while head < filled:
        node = queue[head]
        head += 1
        for j in range(node_ptr[node], node_ptr[node + 1]):
            if not seen[next_node[j]]:
                seen[next_node[j]] = True
                queue[filled] = next_node[j]
                filled += 1
    return seen


@kernel("l1 l1 l1 l1 l1 l1 l1 l1 int l1 l1 l1 l1 l1 int")
def alike(
    node_ptr, before_ptr, before, block_first, block_past, block_member, block_place, block_of, blocks,
    bundle_first, bundle_past, bundle_member, bundle_place, bundle_of, bundles,
):  # fmt: skip
    """The coarsest partition of the nodes by what they do for ever: `block_of` becomes the number of each node's block.

    Nodes of a block have one state and the same labels, each of which leads to one block; no label stands twice at a
    node. Two partitions are refined in turns (Valmari, Fast brief practical DFA minimization, 2012): that of the nodes
    by the bundles of outcomes that leave them, where a bundle has one label and leads to one block, and that of the
    outcomes by the blocks that they lead to. Of a set that is split, the smaller part is the new one, whose members
    alone are looked at again: m outcomes of n nodes take O(m log n) steps.

    Given are the outcomes that lead to each node, `before[before_ptr[i]:before_ptr[i+1]]`, and the partitions to begin
    with, of the nodes by state and of the outcomes by label: where each set begins and ends among its members, each
    element's place and set, and how many sets there are.
    """
    nodes, outcomes = node_ptr.size - 1, before.size
    owner = np.empty(outcomes, np.int64)
    for i in range(nodes):
        for j in range(node_ptr[i], node_ptr[i + 1]):
            owner[j] = i
    block_marked, bundle_marked = np.zeros(nodes, np.int64), np.zeros(outcomes, np.int64)
    block_touched, bundle_touched = np.empty(nodes, np.int64), np.empty(outcomes, np.int64)
    # What leads to the first block is told from the rest by what leads to all others.
    block, bundle = 1, 0
    while bundle < bundles:
        touched = np.int64(0)
        for i in range(bundle_first[bundle], bundle_past[bundle]):
            touched = _mark(
                owner[bundle_member[i]], block_first, block_member, block_place, block_of, block_marked,
                block_touched, touched,
            )  # fmt: skip
        blocks = _split(
            block_first, block_past, block_member, block_of, block_marked, block_touched, touched, blocks
        )  # fmt: skip
        bundle += 1
        while block < blocks:
            touched = np.int64(0)
            for i in range(block_first[block], block_past[block]):
                node = block_member[i]
                for j in range(before_ptr[node], before_ptr[node + 1]):
                    touched = _mark(
                        before[j], bundle_first, bundle_member, bundle_place, bundle_of, bundle_marked,
                        bundle_touched, touched,
                    )  # fmt: skip
            bundles = _split(
                bundle_first, bundle_past, bundle_member, bundle_of, bundle_marked, bundle_touched, touched, bundles
            )  # fmt: skip
            block += 1


@helper
def _mark(element, first, member, place, set_of, marked, touched, count):
    """Move an element to the marked ones, which are the first of its set; how many sets have such now."""
    own = set_of[element]
    here, there = place[element], first[own] + marked[own]
    other = member[there]
    member[here], place[other] = other, here
    member[there], place[element] = element, there
    if marked[own] == 0:
        touched[count] = own
        count += 1
    marked[own] += 1
    return count


@helper
def _split(first, past, member, set_of, marked, touched, count, sets):
    """Split the touched sets into marked and other elements, and unmark them; how many sets there are now."""
    for t in range(count):
        own = touched[t]
        middle = first[own] + marked[own]
        if middle < past[own]:
            if middle - first[own] <= past[own] - middle:
                first[sets], past[sets], first[own] = first[own], middle, middle
            else:
                first[sets], past[sets], past[own] = middle, past[own], middle
            for i in range(first[sets], past[sets]):
                set_of[member[i]] = sets
            marked[sets] = 0
            sets += 1
        marked[own] = 0
    return sets
