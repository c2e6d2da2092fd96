"""The Markov chain of a policy, in many samples at once: rows, sweeps, and the proof of their result.

Node i of the chain has outcomes `row_ptr[i]:row_ptr[i+1]` to nodes `target` with probability `prob[:, k]` in
sample k. Nodes are in the order of the sweeps, nearest to a goal first; goals share the last place, and
self-loops are taken out.
"""

import numpy as np
from numba import njit

ROUNDING = 2.0**-53
# Numbers below this lose their precision; it is added to every bound on a rounding error.
TINY = 1e-290


@njit(cache=True, nogil=True, error_model="numpy")
def explore(entry_ptr, choice, next_ptr, next_node, trans_ptr, ever_live, start_node, goal_node):
    """Nodes that can be visited in some sample, nearest to a goal first, goals left out; then the hopeless ones."""
    nodes = entry_ptr.size - 1
    seen = np.zeros(nodes, np.bool_)
    queue = np.empty(nodes, np.int32)
    count = 0
    for i in range(start_node.size):
        if not seen[start_node[i]]:
            seen[start_node[i]] = True
            queue[count] = start_node[i]
            count += 1
    arcs = 0
    head = 0
    while head < count:
        node = queue[head]
        head += 1
        for e in range(entry_ptr[node], entry_ptr[node + 1]):
            for j in range(next_ptr[e], next_ptr[e + 1]):
                if ever_live[trans_ptr[choice[e]] + j - next_ptr[e]]:
                    arcs += 1
                    follower = next_node[j]
                    if not seen[follower]:
                        seen[follower] = True
                        queue[count] = follower
                        count += 1
    ptr = np.zeros(nodes + 1, np.int64)
    for i in range(count):
        node = queue[i]
        for e in range(entry_ptr[node], entry_ptr[node + 1]):
            for j in range(next_ptr[e], next_ptr[e + 1]):
                if ever_live[trans_ptr[choice[e]] + j - next_ptr[e]]:
                    ptr[next_node[j] + 1] += 1
    for i in range(nodes):
        ptr[i + 1] += ptr[i]
    fill = ptr[:-1].copy()
    before = np.empty(arcs, np.int32)
    for i in range(count):
        node = queue[i]
        for e in range(entry_ptr[node], entry_ptr[node + 1]):
            for j in range(next_ptr[e], next_ptr[e + 1]):
                if ever_live[trans_ptr[choice[e]] + j - next_ptr[e]]:
                    before[fill[next_node[j]]] = node
                    fill[next_node[j]] += 1
    back = np.zeros(nodes, np.bool_)
    order = np.empty(count, np.int32)
    placed = 0
    goals = 0
    for i in range(count):
        if goal_node[queue[i]]:
            back[queue[i]] = True
            order[placed] = queue[i]
            placed += 1
            goals += 1
    head = 0
    while head < placed:
        for i in range(ptr[order[head]], ptr[order[head] + 1]):
            if not back[before[i]]:
                back[before[i]] = True
                order[placed] = before[i]
                placed += 1
        head += 1
    for i in range(count):
        if not back[queue[i]]:
            order[placed] = queue[i]
            placed += 1
    return order[goals:].copy()


@njit(cache=True, nogil=True, error_model="numpy")
def rows(order, entry_ptr, choice, weight, next_ptr, next_node, trans_ptr, goal_node, ever_live):
    """Where each visited node leads: `row_ptr`, `target` (−1: to itself), `transition`, `share` of the choice."""
    nodes = goal_node.size
    count = order.size
    place = np.full(nodes, count, np.int32)
    for i in range(count):
        place[order[i]] = i
    total = 0
    for i in range(count):
        for e in range(entry_ptr[order[i]], entry_ptr[order[i] + 1]):
            for j in range(next_ptr[e], next_ptr[e + 1]):
                if ever_live[trans_ptr[choice[e]] + j - next_ptr[e]] and next_node[j] != order[i]:
                    total += 1
    row_ptr = np.empty(count + 1, np.int64)
    target = np.empty(total, np.int32)
    transition = np.empty(total, np.int64)
    share = np.empty(total)
    row_ptr[0] = 0
    total = 0
    for i in range(count):
        for e in range(entry_ptr[order[i]], entry_ptr[order[i] + 1]):
            for j in range(next_ptr[e], next_ptr[e + 1]):
                t = trans_ptr[choice[e]] + j - next_ptr[e]
                if ever_live[t] and next_node[j] != order[i]:
                    target[total] = place[next_node[j]]
                    transition[total] = t
                    share[total] = weight[e]
                    total += 1
        row_ptr[i + 1] = total
    return place, row_ptr, target, transition, share


@njit(cache=True, nogil=True, error_model="numpy")
def load(
    order, entry_ptr, choice, weight, row_ptr, transition, share, model_prob, model_cost, first, prob, cost, leave
):
    """Fill in the numbers of the samples from `first` on; `leave` is the probability to leave the node."""
    samples = prob.shape[1]
    for i in range(order.size):
        for k in range(samples):
            cost[i, k] = 0.0
            leave[i, k] = 0.0
        for e in range(entry_ptr[order[i]], entry_ptr[order[i] + 1]):
            for k in range(samples):
                cost[i, k] += weight[e] * model_cost[choice[e], first + k]
        for j in range(row_ptr[i], row_ptr[i + 1]):
            for k in range(samples):
                prob[j, k] = share[j] * model_prob[transition[j], first + k]
                leave[i, k] += prob[j, k]
        for j in range(row_ptr[i], row_ptr[i + 1]):
            for k in range(samples):
                if leave[i, k] > 0.0:
                    prob[j, k] /= leave[i, k]
        for k in range(samples):
            if leave[i, k] > 0.0:
                cost[i, k] /= leave[i, k]


@njit(cache=True, nogil=True, error_model="numpy")
def proper(row_ptr, target, transition, model_prob, first, samples, start):
    """In each sample from `first` on: the nodes that are visited, and whether all of them can reach a goal.

    It is decided by the model's own probabilities, as their products may be too small to be told from zero.
    """
    count = row_ptr.size - 1
    visited = np.zeros((count + 1, samples), np.bool_)
    result = np.ones(samples, np.bool_)
    queue = np.empty(count + 1, np.int64)
    hopeful = np.zeros(count + 1, np.bool_)
    for k in range(samples):
        filled = 0
        for s in start:
            if not visited[s, k]:
                visited[s, k] = True
                queue[filled] = s
                filled += 1
        head = 0
        while head < filled:
            i = queue[head]
            head += 1
            if i == count:
                continue
            for j in range(row_ptr[i], row_ptr[i + 1]):
                if model_prob[transition[j], first + k] > 0.0 and not visited[target[j], k]:
                    visited[target[j], k] = True
                    queue[filled] = target[j]
                    filled += 1
        hopeful[:] = False
        hopeful[count] = True
        # Places are nearest to a goal first, so that one pass mostly does; it is repeated until nothing changes.
        going = True
        while going:
            going = False
            for i in range(count):
                if hopeful[i] or not visited[i, k]:
                    continue
                for j in range(row_ptr[i], row_ptr[i + 1]):
                    if model_prob[transition[j], first + k] > 0.0 and hopeful[target[j]]:
                        hopeful[i] = True
                        going = True
                        break
        for i in range(count):
            if visited[i, k] and not hopeful[i]:
                result[k] = False
    return visited, result


@njit(cache=True, nogil=True, error_model="numpy")
def silence(row_ptr, visited, keep, prob, cost):
    """Set to zero what is not visited in a sample, and all of the samples that are not kept."""
    for i in range(row_ptr.size - 1):
        for k in range(prob.shape[1]):
            if not visited[i, k] or not keep[k]:
                cost[i, k] = 0.0
                for j in range(row_ptr[i], row_ptr[i + 1]):
                    prob[j, k] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def sweep(row_ptr, target, prob, cost, value, weight, sweeps, tolerance, slowest):
    """Gauss–Seidel sweeps in all samples, of values and of the number of steps, which share every probability.

    They end when no value changes by more than a fraction; `slowest[k]` says by how much more one still does.
    """
    count, samples = cost.shape
    now = np.empty(samples)
    steps = np.empty(samples)
    for _ in range(sweeps):
        slowest[:] = 0.0
        for i in range(count):
            for k in range(samples):
                now[k] = cost[i, k]
                steps[k] = 1.0
            for j in range(np.uint64(row_ptr[i]), np.uint64(row_ptr[i + 1])):
                to = np.uint32(target[j])
                for k in range(samples):
                    now[k] += prob[j, k] * value[to, k]
                    steps[k] += prob[j, k] * weight[to, k]
            for k in range(samples):
                slowest[k] = max(slowest[k], abs(now[k] - value[i, k]) - tolerance * now[k])
                value[i, k] = now[k]
                weight[i, k] = steps[k]
        if slowest.max() <= 0.0:
            break


@njit(cache=True, nogil=True, error_model="numpy")
def prove(row_ptr, target, prob, cost, value, weight, epsilon):
    """For each sample an ε such that the true values lie within `value` ± ε·`weight`; infinite if none is proved.

    With r = |c + Pv − v| and d = w − Pw > 0 at every node, |V − v| ≤ max(r/d)·w, since I − P has a nonnegative
    inverse. Rounding errors are added on the unsafe side.
    """
    count, samples = cost.shape
    backup = np.empty(samples)
    carried = np.empty(samples)
    need = np.empty(samples)
    epsilon[:] = 0.0
    for i in range(count):
        _doubt(i, row_ptr, target, prob, cost, value, weight, backup, carried, need)
        for k in range(samples):
            epsilon[k] = max(epsilon[k], need[k])


@njit(cache=True, nogil=True, error_model="numpy")
def prove_nodes(
    row_ptr, target, prob, cost, value, weight, before_ptr, before, owner, transition, model_prob, first, error
):
    """For each node and sample a bound on the error of `value`; infinite if none is proved.

    What a node can reach is a chain of its own, so that only the r/d of `prove` there counts. Nodes are taken by it,
    the largest first, and each gives its own to all that lead to it and have none yet.
    """
    count, samples = cost.shape
    backup = np.empty(samples)
    carried = np.empty(samples)
    need = np.empty((count, samples))
    for i in range(count):
        _doubt(i, row_ptr, target, prob, cost, value, weight, backup, carried, need[i])
    seen = np.empty(count + 1, np.bool_)
    queue = np.empty(count + 1, np.int32)
    for k in range(samples):
        seen[:] = False
        for i in np.argsort(-need[:, k]):
            if seen[i]:
                continue
            seen[i] = True
            queue[0] = i
            reached = _reach_back(queue, 1, seen, before_ptr, before, owner, transition, model_prob, first + k)
            for q in range(reached):
                error[queue[q], k] = need[i, k] * weight[queue[q], k] if need[i, k] < np.inf else np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def _doubt(i, row_ptr, target, prob, cost, value, weight, backup, carried, need):
    """r/d of a node in each sample (see `prove`); infinite where d is not positive or something is no number."""
    samples = cost.shape[1]
    for k in range(samples):
        backup[k] = cost[i, k]
        carried[k] = 0.0
    for j in range(np.uint64(row_ptr[i]), np.uint64(row_ptr[i + 1])):
        to = np.uint32(target[j])
        for k in range(samples):
            backup[k] += prob[j, k] * value[to, k]
            carried[k] += prob[j, k] * weight[to, k]
    unit = ROUNDING * (2 * (row_ptr[i + 1] - row_ptr[i]) + 8)
    for k in range(samples):
        need[k] = np.inf
        if 0.0 <= value[i, k] < np.inf and 0.0 <= weight[i, k] < np.inf:
            off = abs(backup[k] - value[i, k]) + unit * (backup[k] + value[i, k]) + TINY
            drop = weight[i, k] - carried[k] - unit * (weight[i, k] + carried[k])
            if drop > 0.0 and off < np.inf:
                need[k] = off / drop


@njit(cache=True, nogil=True, error_model="numpy")
def entering(row_ptr, target):
    """The outcomes that lead to each place, `before[before_ptr[i]:before_ptr[i+1]]`, and the node that each is of."""
    count = row_ptr.size - 1
    before_ptr = np.zeros(count + 2, np.int64)
    for j in range(target.size):
        before_ptr[target[j] + 1] += 1
    for i in range(count + 1):
        before_ptr[i + 1] += before_ptr[i]
    fill = before_ptr[:-1].copy()
    before = np.empty(target.size, np.int64)
    owner = np.empty(target.size, np.int32)
    for i in range(count):
        for j in range(row_ptr[i], row_ptr[i + 1]):
            owner[j] = i
            before[fill[target[j]]] = j
            fill[target[j]] += 1
    return before_ptr, before, owner


@njit(cache=True, nogil=True, error_model="numpy")
def surely_ends(before_ptr, before, owner, transition, model_prob, first, ends):
    """In each sample: whether all that a node can reach can reach a goal.

    It is decided by the model's own probabilities, as their products may be too small to be told from zero.
    """
    count, samples = ends.shape
    hopeful = np.empty(count + 1, np.bool_)
    lost = np.empty(count + 1, np.bool_)
    queue = np.empty(count + 1, np.int32)
    for k in range(samples):
        hopeful[:] = False
        hopeful[count] = True
        queue[0] = count
        _reach_back(queue, 1, hopeful, before_ptr, before, owner, transition, model_prob, first + k)
        filled = 0
        for i in range(count + 1):
            lost[i] = not hopeful[i]
            if lost[i]:
                queue[filled] = i
                filled += 1
        _reach_back(queue, filled, lost, before_ptr, before, owner, transition, model_prob, first + k)
        for i in range(count):
            ends[i, k] = not lost[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _reach_back(queue, filled, seen, before_ptr, before, owner, transition, model_prob, sample):
    """Add to the queue all nodes that can reach one of its first `filled` in a sample and were not seen; how many."""
    head = 0
    while head < filled:
        i = queue[head]
        head += 1
        for a in range(before_ptr[i], before_ptr[i + 1]):
            j = before[a]
            if not seen[owner[j]] and model_prob[transition[j], sample] > 0.0:
                seen[owner[j]] = True
                queue[filled] = owner[j]
                filled += 1
    return filled
