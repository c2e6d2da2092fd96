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
def proper(row_ptr, target, prob, start):
    """In each sample: the nodes that are visited, and whether all of them can reach a goal."""
    count = row_ptr.size - 1
    samples = prob.shape[1]
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
                if prob[j, k] > 0.0 and not visited[target[j], k]:
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
                    if prob[j, k] > 0.0 and hopeful[target[j]]:
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
    epsilon[:] = 0.0
    for i in range(count):
        for k in range(samples):
            backup[k] = cost[i, k]
            carried[k] = 0.0
        for j in range(row_ptr[i], row_ptr[i + 1]):
            for k in range(samples):
                backup[k] += prob[j, k] * value[target[j], k]
                carried[k] += prob[j, k] * weight[target[j], k]
        unit = ROUNDING * (2 * (row_ptr[i + 1] - row_ptr[i]) + 8)
        for k in range(samples):
            if not (0.0 <= value[i, k] < np.inf and 0.0 <= weight[i, k] < np.inf):
                epsilon[k] = np.inf
                continue
            off = abs(backup[k] - value[i, k]) + unit * (backup[k] + value[i, k]) + TINY
            drop = weight[i, k] - carried[k] - unit * (weight[i, k] + carried[k])
            if off > 0.0:
                epsilon[k] = max(epsilon[k], off / drop) if drop > 0.0 else np.inf
