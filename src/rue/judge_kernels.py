"""The Markov chain of a policy, in many samples at once: rows, sweeps, and the proof of their result.

Node i of the chain has outcomes `row_ptr[i]:row_ptr[i+1]` to nodes `target` with probability `prob[:, k]` in
sample k. Nodes are in the order of the sweeps: component by component, what follows first, and within a component
nearest to a goal first. Goals share the last place, and self-loops are taken out.
"""

import numpy as np

from rue._jit import helper, kernel

ROUNDING = 2.0**-53
# Numbers below this lose their precision; it is added to every bound on a rounding error.
TINY = 1e-290
# Elimination of the nodes of a component takes about as long as size²/8 sweeps: small ones are not swept for longer,
# but so often at least.
LEAST_SWEEPS = 8


@kernel("L1 I1 L1 I1 L1 b1 I1 b1")
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


@kernel("i1 L1 I1 F1 L1 I1 L1 b1 b1")
def rows(order, entry_ptr, choice, weight, next_ptr, next_node, trans_ptr, goal_node, ever_live):
    """Where each visited node leads: `row_ptr`, `target` (−1: to itself), `transition`, `share` of the choice."""
    nodes = goal_node.size
    count = order.size
    place = np.empty(nodes, np.int32)
    place[:] = count
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


@kernel("l1 i1")
def components(row_ptr, target):
    """The places by strongly connected components, what follows first; and where each of these begins.

    Tarjan's algorithm: a place is the first of its component if nothing that follows it leads to an earlier open
    place, and then all that was found since and is still open belongs to it. A component is closed when all that
    follows it is, which is the order wanted. Within one the places stay in their order.
    """
    count = row_ptr.size - 1
    found = np.zeros(count + 1, np.int32)  # when a place was found, from 1 on; 0: not yet; beyond `count`: closed
    found[count] = count + 1
    earliest = np.empty(count, np.int32)  # found when: the first open place that it leads to, as far as is known
    cursor = row_ptr[:-1].copy()
    part = np.empty(count, np.int32)
    path = np.empty(count, np.int32)
    still_open = np.empty(count, np.int32)
    parts = 0
    finds = 0
    waiting = 0
    for root in range(count):
        if found[root] > 0:
            continue
        depth = 0
        fresh = root
        while True:
            if fresh >= 0:
                finds += 1
                found[fresh] = finds
                earliest[fresh] = finds
                path[depth] = fresh
                depth += 1
                still_open[waiting] = fresh
                waiting += 1
                fresh = -1
            i = path[depth - 1]
            if cursor[i] < row_ptr[i + 1]:
                to = target[cursor[i]]
                cursor[i] += 1
                if found[to] == 0:
                    fresh = to
                else:
                    earliest[i] = min(earliest[i], found[to])
                continue
            if earliest[i] == found[i]:
                while found[i] <= count:
                    waiting -= 1
                    found[still_open[waiting]] = count + 1
                    part[still_open[waiting]] = parts
                parts += 1
            depth -= 1
            if depth == 0:
                break
            earliest[path[depth - 1]] = min(earliest[path[depth - 1]], earliest[i])
    part_ptr = np.zeros(parts + 1, np.int64)
    for i in range(count):
        part_ptr[part[i] + 1] += 1
    for p in range(parts):
        part_ptr[p + 1] += part_ptr[p]
    fill = part_ptr[:-1].copy()
    sequence = np.empty(count, np.int32)
    for i in range(count):
        sequence[fill[part[i]]] = i
        fill[part[i]] += 1
    return sequence, part_ptr


@kernel("i1 L1 I1 F1 l1 l1 f1 F2 F2 int f2 f2 f2")
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


@kernel("l1 i1 l1 F2 int int i1")
def proper(row_ptr, target, transition, model_prob, first, samples, start):
    """In each sample from `first` on: the nodes that are visited, and whether all of them can reach a goal.

    It is decided by the model's own probabilities, as their products may be too small to be told from zero.
    """
    count = row_ptr.size - 1
    visited = np.zeros((count + 1, samples), np.bool_)
    result = np.empty(samples, np.bool_)
    result[:] = True
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


@kernel("l1 b2 b1 f2 f2")
def silence(row_ptr, visited, keep, prob, cost):
    """Set to zero what is not visited in a sample, and all of the samples that are not kept."""
    for i in range(row_ptr.size - 1):
        for k in range(prob.shape[1]):
            if not visited[i, k] or not keep[k]:
                cost[i, k] = 0.0
                for j in range(row_ptr[i], row_ptr[i + 1]):
                    prob[j, k] = 0.0


@kernel("l1 int l1 i1 f2 f2 f2 f2 int float int b2")
def settle(part_ptr, part, row_ptr, target, prob, cost, value, weight, sweeps, tolerance, small, direct):
    """Values and numbers of steps in all samples, component by component from `part` on: what follows is known then.

    A component is swept; where that is slow, which is noted in `direct`, or was noted before, its nodes are
    eliminated. One of more than `small` nodes is left to the caller: it is what is returned, else the number of all.
    """
    samples = cost.shape[1]
    now = np.empty(samples)
    steps = np.empty(samples)
    change = np.empty(samples)
    for p in range(part, part_ptr.size - 1):
        begin = part_ptr[p]
        end = part_ptr[p + 1]
        if end == begin + 1:
            _sweep(begin, end, row_ptr, target, prob, cost, value, weight, np.int64(1), tolerance, now, steps, change)
            continue
        most = min(sweeps, LEAST_SWEEPS + (end - begin) ** 2 // 8)
        _sweep(begin, end, row_ptr, target, prob, cost, value, weight, most, tolerance, now, steps, change)
        for k in range(samples):
            direct[p, k] |= change[k] > 0.0
            if direct[p, k] and end - begin <= small:
                step = np.zeros((end - begin, end - begin + 3))
                _eliminate(begin, end, k, row_ptr, target, prob, cost, value, weight, step)
        if end - begin > small:
            for k in range(samples):
                if direct[p, k]:
                    return p
    return part_ptr.size - 1


@helper
def _sweep(begin, end, row_ptr, target, prob, cost, value, weight, sweeps, tolerance, now, steps, change):
    """Gauss–Seidel sweeps over a component, of values and of the number of steps, which share every probability.

    They end when no value changes by more than a fraction and no number of steps by more than a half, so that it
    still falls by a half or more with each step, as the proof needs. `change[k]` is positive where one still does.
    What is no number does not count as a change: nothing is proved of it, and sweeps would not help.
    """
    samples = cost.shape[1]
    for _ in range(sweeps):
        change[:] = 0.0
        for i in range(begin, end):
            for k in range(samples):
                now[k] = cost[i, k]
                steps[k] = 1.0
            for j in range(np.uint64(row_ptr[i]), np.uint64(row_ptr[i + 1])):
                to = np.uint32(target[j])
                for k in range(samples):
                    now[k] += prob[j, k] * value[to, k]
                    steps[k] += prob[j, k] * weight[to, k]
            for k in range(samples):
                more = abs(now[k] - value[i, k]) - tolerance * now[k]
                longer = abs(steps[k] - weight[i, k]) - 0.5
                change[k] = more if more > change[k] else change[k]
                change[k] = longer if longer > change[k] else change[k]
                value[i, k] = now[k]
                weight[i, k] = steps[k]
        moved = 0.0
        for k in range(samples):
            moved = max(moved, change[k])
        if moved <= 0.0:
            break


@helper
def _eliminate(begin, end, k, row_ptr, target, prob, cost, value, weight, step):
    """Values and numbers of steps of a component in one sample: its nodes are eliminated, the last one first.

    As Grassmann, Taksar and Heyman do it: the chance to leave a node is the sum of the chances of where it leads to,
    not 1 minus the chance to stay. Nothing is ever subtracted, so that slow chains lose no precision. `step`, of zeros,
    is for the chances to come to each node, to leave the component, and what is paid and how many steps are made on the
    way.
    """
    size = end - begin
    for i in range(size):
        step[i, size + 1] = cost[begin + i, k]
        step[i, size + 2] = 1.0
        for j in range(row_ptr[begin + i], row_ptr[begin + i + 1]):
            if prob[j, k] > 0.0:
                if begin <= target[j] < end:
                    step[i, target[j] - begin] += prob[j, k]
                else:
                    step[i, size] += prob[j, k]
                    step[i, size + 1] += prob[j, k] * value[target[j], k]
                    step[i, size + 2] += prob[j, k] * weight[target[j], k]
    for i in range(size - 1, -1, -1):
        leave = step[i, size]
        for j in range(i):
            leave += step[i, j]
        if leave == 0.0:  # not visited in this sample
            leave = 1.0
        for j in range(i):
            step[i, j] /= leave
        for j in range(size, size + 3):
            step[i, j] /= leave
        for before in range(i):
            chance = step[before, i]
            if chance > 0.0:
                for j in range(i):
                    step[before, j] += chance * step[i, j]
                for j in range(size, size + 3):
                    step[before, j] += chance * step[i, j]
    for i in range(size):
        value[begin + i, k] = step[i, size + 1]
        weight[begin + i, k] = step[i, size + 2]
        for j in range(i):
            if step[i, j] > 0.0:
                value[begin + i, k] += step[i, j] * value[begin + j, k]
                weight[begin + i, k] += step[i, j] * weight[begin + j, k]


@kernel("l1 l1 i1 f2 f2 f2 f2 f1 b2")
def mark(part_ptr, row_ptr, target, prob, cost, value, weight, limit, direct):
    """Note in `direct` the components in which ε is beyond the limit of a sample (see `prove`); the first new one.

    A component of one node is as exact as can be. If there is nothing new, it is the number of all.
    """
    samples = cost.shape[1]
    backup = np.empty(samples)
    carried = np.empty(samples)
    need = np.empty(samples)
    parts = part_ptr.size - 1
    first = parts
    for p in range(parts):
        if part_ptr[p + 1] == part_ptr[p] + 1:
            continue
        for i in range(part_ptr[p], part_ptr[p + 1]):
            _doubt(i, row_ptr, target, prob, cost, value, weight, backup, carried, need)
            for k in range(samples):
                if need[k] > limit[k] and not direct[p, k]:
                    direct[p, k] = True
                    first = min(first, p)
    return first


@kernel("l1 i1 f2 f2 f2 f2 f1")
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


@kernel("l1 l1 i1 f2 f2 f2 f2 l1 l1 i1 l1 F2 int f2")
def prove_nodes(
    part_ptr,
    row_ptr,
    target,
    prob,
    cost,
    value,
    weight,
    before_ptr,
    before,
    owner,
    transition,
    model_prob,
    first,
    error,
):
    """For each node and sample a bound on the error of `value`; infinite if none is proved.

    What a node can reach is a chain of its own, so that only the r/d of `prove` there counts: the largest of them.
    What follows a component is known before it. Within one, nodes are taken by theirs, the largest first, and each
    gives its own to all that lead to it and have none yet.
    """
    count, samples = cost.shape
    backup = np.empty(samples)
    carried = np.empty(samples)
    largest = np.zeros((count + 1, samples))
    seen = np.empty(count + 1, np.bool_)
    seen[:] = True
    order = np.empty(count, np.int32)
    queue = np.empty(count + 1, np.int32)
    for p in range(part_ptr.size - 1):
        begin = part_ptr[p]
        end = part_ptr[p + 1]
        for i in range(begin, end):
            _doubt(i, row_ptr, target, prob, cost, value, weight, backup, carried, largest[i])
            for j in range(row_ptr[i], row_ptr[i + 1]):
                if not begin <= target[j] < end:
                    for k in range(samples):
                        if model_prob[transition[j], first + k] > 0.0:
                            largest[i, k] = max(largest[i, k], largest[target[j], k])
        if end == begin + 1:
            continue
        for k in range(samples):
            seen[begin:end] = False
            _sort_down(largest, begin, end, k, order)
            for at in range(end - begin):
                i = order[at]
                if seen[i]:
                    continue
                seen[i] = True
                queue[0] = i
                reached = _reach_back(
                    queue, np.int64(1), seen, before_ptr, before, owner, transition, model_prob, first + k
                )
                for q in range(reached):
                    largest[queue[q], k] = largest[i, k]
    for i in range(count):
        for k in range(samples):
            error[i, k] = largest[i, k] * weight[i, k] if largest[i, k] < np.inf else np.inf


@helper
def _sort_down(key, begin, end, k, order):
    """The indices from `begin` to `end` in `order`, those of the largest `key[:, k]` first: heap sort."""
    size = end - begin
    for at in range(size):
        order[at] = begin + at
    for top in range(size // 2 - 1, -size, -1):
        # First the smallest of all comes to the front; then it goes to the end, and the rest are put in order again.
        at, last = top, size
        if top < 0:
            at, last = 0, size + top
            order[0], order[last] = order[last], order[0]
        item = order[at]
        child = 2 * at + 1
        while child < last:
            if child + 1 < last and key[order[child + 1], k] < key[order[child], k]:
                child += 1
            if key[item, k] <= key[order[child], k]:
                break
            order[at] = order[child]
            at, child = child, 2 * child + 1
        order[at] = item


@helper
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


@kernel("l1 i1")
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


@kernel("l1 l1 i1 l1 F2 int b2")
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
        _reach_back(queue, np.int64(1), hopeful, before_ptr, before, owner, transition, model_prob, first + k)
        filled = np.int64(0)
        for i in range(count + 1):
            lost[i] = not hopeful[i]
            if lost[i]:
                queue[filled] = i
                filled += 1
        _reach_back(queue, filled, lost, before_ptr, before, owner, transition, model_prob, first + k)
        for i in range(count):
            ends[i, k] = not lost[i]


@helper
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
