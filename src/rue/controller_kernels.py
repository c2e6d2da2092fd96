"""Controllers as graphs: find the nodes that do the same for ever. An outcome of a node has a label and a next node."""

from typing import NamedTuple

import numpy as np

from rue._arrays import Array
from rue._jit import declare, helper, kernel


class Partition(NamedTuple):
    """Elements in sets: set i has the elements `member[first[i]:past[i]]`. Its first `marked[i]` ones are marked."""

    first: Array
    past: Array
    member: Array
    place: Array  # of each element among all members
    set_of: Array  # of each element
    marked: Array
    touched: Array  # memory: the sets with marked elements


declare(Partition, "l1 l1 l1 l1 l1 l1 l1")


@kernel("l1 l1 l1 Partition int Partition int")
def refine(owner, before_ptr, before, nodes, blocks, outcomes, bundles):
    """Refine two partitions until all nodes of a block do the same for ever.

    Nodes of a block have one state and the same labels, each of which leads to one block; no label occurs twice at a
    node. The partitions are refined in turns (Valmari, Fast brief practical DFA minimization, 2012): that of the nodes
    by the bundles of outcomes that leave them, where a bundle has one label and leads to one block, and that of the
    outcomes by the blocks that they lead to. Of a set that is split, the smaller part is the new one, and only its
    members are processed again: m outcomes of n nodes take O(m log n) steps.

    Given are the node of each outcome, the outcomes that lead to each node, `before[before_ptr[i]:before_ptr[i+1]]`,
    and the partitions to begin with, of the nodes by state and of the outcomes by label, with their numbers of sets.
    """
    # The first block is not processed: it follows from all others.
    block, bundle = 1, 0
    while bundle < bundles:
        touched = np.int64(0)
        for i in range(outcomes.first[bundle], outcomes.past[bundle]):
            touched = _mark(nodes, owner[outcomes.member[i]], touched)
        blocks = _split(nodes, touched, blocks)
        bundle += 1
        while block < blocks:
            touched = np.int64(0)
            for i in range(nodes.first[block], nodes.past[block]):
                node = nodes.member[i]
                for j in range(before_ptr[node], before_ptr[node + 1]):
                    touched = _mark(outcomes, before[j], touched)
            bundles = _split(outcomes, touched, bundles)
            block += 1


@helper
def _mark(sets, element, count):
    """Move an element to the marked ones, which are the first of its set; return how many sets have such now."""
    member, place, marked = sets.member, sets.place, sets.marked
    own = sets.set_of[element]
    here, there = place[element], sets.first[own] + marked[own]
    other = member[there]
    member[here], place[other] = other, here
    member[there], place[element] = element, there
    if marked[own] == 0:
        sets.touched[count] = own
        count += 1
    marked[own] += 1
    return count


@helper
def _split(sets, count, size):
    """Split the touched sets into marked and other elements, and unmark them; return how many sets there are now."""
    first, past, marked = sets.first, sets.past, sets.marked
    for t in range(count):
        own = sets.touched[t]
        middle = first[own] + marked[own]
        if middle < past[own]:
            if middle - first[own] <= past[own] - middle:
                first[size], past[size], first[own] = first[own], middle, middle
            else:
                first[size], past[size], past[own] = middle, past[own], middle
            for i in range(first[size], past[size]):
                sets.set_of[sets.member[i]] = size
            marked[size] = 0
            size += 1
        marked[own] = 0
    return size
