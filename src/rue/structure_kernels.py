"""Reachability on a graph: exact, by breadth-first search, linear in the number of transitions.

`live` marks the transitions that count (positive in one sample, in all, or in any), `allowed` the choices that a policy
may take, `alive` the states that it may visit. A state without choices is a goal.
"""

from typing import NamedTuple

import numpy as np

from rue._arrays import Array
from rue._jit import declare, kernel

# Estimated costs are at most this, as a state at an infinite distance would never be found.
FARTHEST = 1e300


class Links(NamedTuple):
    """How the states of a graph are connected."""

    choice_ptr: Array  # [S+1]
    choice_state: Array  # [C]
    trans_choice: Array  # [T]
    pred_ptr: Array  # [S+1] where the transitions that enter each state begin
    pred_trans: Array  # [T] these transitions


class Edges(NamedTuple):
    """Edges by the node where they begin, or by the node where they end."""

    ptr: Array  # [N+1]
    edge: Array  # the edges of node i are edge[ptr[i]:ptr[i+1]]
    other: Array  # the other end of each edge


declare(Links, "L1 I1 I1 L1 I1")
declare(Edges, "L1 I1 I1")


@kernel("L1 F2")
def scan_prob(trans_ptr, prob):
    """Check all probabilities in one pass.

    Returns a bitmask per transition (1: positive in every sample, 2: positive in some), the largest deviation of a row
    sum from one, and the first bad entry as transition and sample, -1 and -1 if there is none.
    """
    transitions, samples = prob.shape
    support = np.zeros(transitions, np.uint8)
    total = np.empty(samples)
    worst = 0.0
    bad_transition = -1
    bad_sample = -1
    for choice in range(trans_ptr.size - 1):
        total[:] = 0.0
        for t in range(trans_ptr[choice], trans_ptr[choice + 1]):
            low = np.inf
            high = -np.inf
            for k in range(samples):
                p = prob[t, k]
                total[k] += p
                low = min(low, p)
                high = max(high, p)
                if not (p >= 0.0 and p <= 2.0) and bad_transition < 0:
                    bad_transition = t
                    bad_sample = k
            if low > 0.0:
                support[t] = 3
            elif high > 0.0:
                support[t] = 2
        for k in range(samples):
            worst = max(worst, abs(total[k] - 1.0))
    return support, worst, bad_transition, bad_sample


@kernel("I1 int")
def predecessors(target, count):
    """Sort edges by target: return `ptr[count+1]` and the edges that enter each node, in their own order."""
    ptr = np.zeros(count + 1, np.int64)
    for t in range(target.size):
        ptr[target[t] + 1] += 1
    for s in range(count):
        ptr[s + 1] += ptr[s]
    fill = ptr[:-1].copy()
    edge = np.empty(target.size, np.int32)
    for t in range(target.size):
        s = target[t]
        edge[fill[s]] = t
        fill[s] += 1
    return ptr, edge


@kernel("Edges b1 I1")
def breadth_first(edges, live, start):
    """Return the nodes that live edges reach from the start nodes, in breadth-first order, start nodes included."""
    count = edges.ptr.size - 1
    seen = np.zeros(count, np.bool_)
    order = np.empty(count, np.int32)
    found = 0
    for i in range(start.size):
        if not seen[start[i]]:
            seen[start[i]] = True
            order[found] = start[i]
            found += 1
    head = 0
    while head < found:
        i = np.uint32(order[head])
        head += 1
        for a in range(np.uint64(edges.ptr[i]), np.uint64(edges.ptr[i + 1])):
            j = np.uint32(edges.edge[a])
            to = np.uint32(edges.other[j])
            if live[j] and not seen[to]:
                seen[to] = True
                order[found] = to
                found += 1
    return order[:found].copy()


@kernel("Links b1 b1 b1 b1")
def retreat(links, alive, allowed, live, keep):
    """Remove the alive states that are not in `keep`, and all that this makes unsafe, from `alive` and `allowed`.

    A choice with a live transition into a removed state is forbidden; a state without choices left is removed.
    """
    states = alive.size
    left = np.zeros(states, np.int64)
    queue = np.empty(states, np.int32)
    count = 0
    for s in range(states):
        for choice in range(links.choice_ptr[s], links.choice_ptr[s + 1]):
            if allowed[choice]:
                left[s] += 1
        if alive[s] and not keep[s]:
            alive[s] = False
            queue[count] = s
            count += 1
    head = 0
    while head < count:
        removed = queue[head]
        head += 1
        for choice in range(links.choice_ptr[removed], links.choice_ptr[removed + 1]):
            allowed[choice] = False
        for i in range(links.pred_ptr[removed], links.pred_ptr[removed + 1]):
            t = links.pred_trans[i]
            choice = links.trans_choice[t]
            if live[t] and allowed[choice]:
                allowed[choice] = False
                state = links.choice_state[choice]
                left[state] -= 1
                if left[state] == 0 and alive[state]:
                    alive[state] = False
                    queue[count] = state
                    count += 1


@kernel("Links b1 b1 F2 bool")
def attract(links, allowed, always, prob, randomised):
    """Return the states that make progress to a goal against every adversary that picks samples, goals first.

    One choice must make progress in every sample; a randomised policy may use another one for each. Progress is made
    towards states that come before in the order. `always` marks the transitions that are positive in all samples.
    """
    states = links.choice_ptr.size - 1
    samples = prob.shape[1]
    slots = states if randomised else allowed.size
    progress = np.zeros((slots, samples), np.bool_)
    count_progress = np.zeros(slots, np.int64)
    seen = np.zeros(states, np.bool_)
    queue = np.empty(states, np.int32)
    count = 0
    for s in range(states):
        if links.choice_ptr[s] == links.choice_ptr[s + 1]:
            seen[s] = True
            queue[count] = s
            count += 1
    head = 0
    while head < count:
        target = queue[head]
        head += 1
        for i in range(links.pred_ptr[target], links.pred_ptr[target + 1]):
            t = links.pred_trans[i]
            choice = links.trans_choice[t]
            state = links.choice_state[choice]
            if not allowed[choice] or seen[state]:
                continue
            slot = state if randomised else choice
            if always[t]:
                count_progress[slot] = samples
            else:
                for k in range(samples):
                    if prob[t, k] > 0.0 and not progress[slot, k]:
                        progress[slot, k] = True
                        count_progress[slot] += 1
            if count_progress[slot] == samples:
                seen[state] = True
                queue[count] = state
                count += 1
    return queue[:count].copy()


@kernel("Links b1 F2 F2")
def nearest(links, live, prob, cost):
    """Return all states by their estimated cost to a goal in the averaged model: Dijkstra's algorithm.

    A choice is repeated until a live transition leads to a state that was visited before; what that costs is the
    estimate. A small cost is added to each step, so that free steps count as well.
    """
    states = links.choice_ptr.size - 1
    choices, samples = cost.shape
    paid = np.zeros(choices)  # the mean cost of each choice, and what follows
    total = 0.0
    for c in range(choices):
        for k in range(samples):
            paid[c] += cost[c, k]
        paid[c] /= samples
        total += paid[c]
    paid += 1e-3 * (total / choices) + 1e-100
    mass = np.zeros(choices)
    best = np.empty(states)
    best[:] = np.inf
    done = np.zeros(states, np.bool_)
    order = np.empty(states, np.int32)
    count = 0
    # A binary heap of (estimate, state). Each transition adds an entry at most once.
    key = np.empty(states + prob.shape[0])
    owner = np.empty(states + prob.shape[0], np.int32)
    size = 0
    for s in range(states):
        if links.choice_ptr[s] == links.choice_ptr[s + 1]:
            best[s] = 0.0
            key[size] = 0.0
            owner[size] = s
            size += 1
    while size > 0:
        distance = key[0]
        s = owner[0]
        size -= 1
        last, last_owner = key[size], owner[size]
        i = 0
        while 2 * i + 1 < size:
            j = 2 * i + 1
            if j + 1 < size and key[j + 1] < key[j]:
                j += 1
            if key[j] >= last:
                break
            key[i], owner[i] = key[j], owner[j]
            i = j
        key[i], owner[i] = last, last_owner
        if done[s]:
            continue
        done[s] = True
        order[count] = s
        count += 1
        for a in range(links.pred_ptr[s], links.pred_ptr[s + 1]):
            t = np.uint32(links.pred_trans[a])
            c = np.uint32(links.trans_choice[t])
            u = np.uint32(links.choice_state[c])
            if done[u] or not live[t]:
                continue
            p = 0.0
            for k in range(samples):
                p += prob[t, k]
            p /= samples
            mass[c] += p
            paid[c] += p * distance
            q = min(paid[c] / mass[c], FARTHEST)
            if q < best[u]:
                best[u] = q
                i = size
                size += 1
                while i > 0 and key[(i - 1) // 2] > q:
                    key[i], owner[i] = key[(i - 1) // 2], owner[(i - 1) // 2]
                    i = (i - 1) // 2
                key[i], owner[i] = q, u
    return order[:count].copy()
