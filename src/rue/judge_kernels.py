"""The Markov chain of a policy, in many samples at once: components, sweeps, and the ratio that bounds their error.

Node i of the chain has outcomes `row_ptr[i]:row_ptr[i+1]` to nodes `target` with probability `prob[:, k]` in sample k.
Nodes are in the order of the sweeps: component by component, successors first, and within a component nearest to a goal
first. All goals are one node, the last. Self-loops are taken out.
"""

from typing import NamedTuple

import numpy as np

from rue._arrays import Array
from rue._jit import declare, helper, kernel
from rue._rounding import UNDERFLOW, UNIT_ROUNDOFF

# A component is swept until no value changes by more than this fraction, but no more often than this.
TOLERANCE = 1e-13
SWEEPS = 400
# Elimination of the nodes of a component takes about as long as size²/8 sweeps: small ones are not swept for longer,
# but at least this often.
LEAST_SWEEPS = 8


class Outcomes(NamedTuple):
    """Where the nodes lead, without numbers."""

    row_ptr: Array  # [N+1]
    transition: Array  # of the model, for each outcome
    share: Array  # the probability of the choice that it belongs to


class Entries(NamedTuple):
    """The choices that nodes may take."""

    ptr: Array  # [N+1]
    choice: Array
    weight: Array  # the probability of the choice


class System(NamedTuple):
    """The equations v = cost + prob v of a block of samples."""

    row_ptr: Array  # [N+1]
    target: Array
    prob: Array  # [outcomes, k]
    cost: Array  # [N, k]


declare(Outcomes, "l1 l1 f1")
declare(Entries, "l1 i1 f1")
declare(System, "l1 i1 f2 f2")


@kernel("l1 i1")
def components(row_ptr, target):
    """Return the nodes by strongly connected components, successors first, and where each component begins.

    Tarjan's algorithm: a node is the first of its component if nothing that follows it leads to an earlier open node,
    and then all that was found since and is still open belongs to it. A component is closed when all that follows it
    is, which is the order wanted. Within a component the nodes keep their order.
    """
    count = row_ptr.size - 1
    found = np.zeros(count + 1, np.int32)  # when a node was found, from 1 on; 0: not yet; beyond `count`: closed
    found[count] = count + 1
    earliest = np.empty(count, np.int32)  # when the first open node that it leads to was found
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


@kernel("Outcomes Entries F2 F2 int f2 f2 f2")
def load(outcomes, entries, model_prob, model_cost, first, prob, cost, leave):
    """Fill in probabilities and costs of the samples from `first` on; `leave` is the probability to leave a node."""
    samples = prob.shape[1]
    for i in range(cost.shape[0]):
        begin, end = outcomes.row_ptr[i], outcomes.row_ptr[i + 1]
        for k in range(samples):
            cost[i, k] = 0.0
            leave[i, k] = 0.0
        for e in range(entries.ptr[i], entries.ptr[i + 1]):
            for k in range(samples):
                cost[i, k] += entries.weight[e] * model_cost[entries.choice[e], first + k]
        for j in range(begin, end):
            for k in range(samples):
                prob[j, k] = outcomes.share[j] * model_prob[outcomes.transition[j], first + k]
                leave[i, k] += prob[j, k]
        for j in range(begin, end):
            for k in range(samples):
                if leave[i, k] > 0.0:
                    prob[j, k] /= leave[i, k]
        for k in range(samples):
            if leave[i, k] > 0.0:
                cost[i, k] /= leave[i, k]


@kernel("Edges Edges b2 i1 b2 b2")
def reach_goals(forward, backward, live, start, visited, ends):
    """Mark, in each sample, the nodes that are visited, and those from which a goal is reached with probability one.

    `live[edge, k]` says whether an edge is possible in sample k. From a node of the second kind every node that can be
    visited can reach a goal.
    """
    count, samples = ends.shape
    seen = np.empty(count + 1, np.bool_)
    queue = np.empty(count + 1, np.int32)
    for k in range(samples):
        seen[:] = False
        filled = np.int64(0)
        for s in start:
            if not seen[s]:
                seen[s] = True
                queue[filled] = s
                filled += 1
        _reach(queue, filled, seen, forward, live, k)
        for i in range(count):
            visited[i, k] = seen[i]
        seen[:] = False
        seen[count] = True
        queue[0] = count
        _reach(queue, np.int64(1), seen, backward, live, k)
        filled = np.int64(0)
        for i in range(count + 1):
            seen[i] = not seen[i]  # now those that cannot reach a goal
            if seen[i]:
                queue[filled] = i
                filled += 1
        _reach(queue, filled, seen, backward, live, k)
        for i in range(count):
            ends[i, k] = not seen[i]


@helper
def _reach(queue, filled, seen, edges, live, k):
    """Add to `seen` all nodes that live edges reach from the first `filled` nodes of the queue."""
    head = 0
    while head < filled:
        i = queue[head]
        head += 1
        for a in range(edges.ptr[i], edges.ptr[i + 1]):
            j = edges.edge[a]
            if live[j, k] and not seen[edges.other[j]]:
                seen[edges.other[j]] = True
                queue[filled] = edges.other[j]
                filled += 1


@kernel("l1 int System f2 f2 int b2")
def solve_components(part_ptr, part, system, value, weight, dense, direct):
    """Compute values and numbers of steps in all samples, component by component from `part` on, successors first.

    A component is swept. Where sweeps do not converge, or `direct` says so, its nodes are eliminated. A component of
    more than `dense` nodes is left to the caller: its number is returned, or the number of all components at the end.
    """
    samples = system.cost.shape[1]
    scratch = np.empty((3, samples))
    for p in range(part, part_ptr.size - 1):
        begin = part_ptr[p]
        end = part_ptr[p + 1]
        size = end - begin
        most = min(SWEEPS, LEAST_SWEEPS + size**2 // 8) if size > 1 else 1
        _sweep(begin, end, system, value, weight, most, scratch)
        if size == 1:
            continue
        left = False
        for k in range(samples):
            direct[p, k] |= scratch[2, k] > 0.0
            if direct[p, k] and size <= dense:
                step = np.zeros((size, size + 3))
                _eliminate(begin, end, k, system, value, weight, step)
            left |= direct[p, k]
        if left and size > dense:
            return p
    return part_ptr.size - 1


@helper
def _sweep(begin, end, system, value, weight, sweeps, scratch):
    """Do Gauss–Seidel sweeps over a component, of values and of numbers of steps, which share every probability.

    They end when no value changes by more than a fraction and no number of steps by more than a half, so that it
    still falls by a half or more with each step, as the proof needs. `scratch[2, k]` is positive where one still
    changes. What is no number does not count as a change: nothing is proved of it, and sweeps would not help.
    """
    samples = system.cost.shape[1]
    for _ in range(sweeps):
        for k in range(samples):
            scratch[2, k] = 0.0
        for i in range(begin, end):
            for k in range(samples):
                scratch[0, k] = system.cost[i, k]
                scratch[1, k] = 1.0
            for j in range(np.uint64(system.row_ptr[i]), np.uint64(system.row_ptr[i + 1])):
                to = np.uint32(system.target[j])
                for k in range(samples):
                    scratch[0, k] += system.prob[j, k] * value[to, k]
                    scratch[1, k] += system.prob[j, k] * weight[to, k]
            for k in range(samples):
                now, steps = scratch[0, k], scratch[1, k]
                more = abs(now - value[i, k]) - TOLERANCE * now
                longer = abs(steps - weight[i, k]) - 0.5
                scratch[2, k] = more if more > scratch[2, k] else scratch[2, k]
                scratch[2, k] = longer if longer > scratch[2, k] else scratch[2, k]
                value[i, k] = now
                weight[i, k] = steps
        largest = 0.0
        for k in range(samples):
            largest = max(largest, scratch[2, k])
        if largest <= 0.0:
            break


@helper
def _eliminate(begin, end, k, system, value, weight, step):
    """Compute values and numbers of steps of a component in one sample: eliminate its nodes, the last one first.

    As Grassmann, Taksar and Heyman do it: the chance to leave a node is the sum of the chances of where it leads to,
    not 1 minus the chance to stay. Nothing is ever subtracted, so that slow chains lose no precision. `step`, of zeros,
    is for the chances to go to each node and to leave the component, and for the cost and the steps until then.
    """
    size = end - begin
    for i in range(size):
        step[i, size + 1] = system.cost[begin + i, k]
        step[i, size + 2] = 1.0
        for j in range(system.row_ptr[begin + i], system.row_ptr[begin + i + 1]):
            if system.prob[j, k] > 0.0:
                if begin <= system.target[j] < end:
                    step[i, system.target[j] - begin] += system.prob[j, k]
                else:
                    step[i, size] += system.prob[j, k]
                    step[i, size + 1] += system.prob[j, k] * value[system.target[j], k]
                    step[i, size + 2] += system.prob[j, k] * weight[system.target[j], k]
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


@kernel("System f2 f2 f2")
def error_ratio(system, value, weight, ratio):
    """Fill in r/d of each node and sample, with r = |c + Pv − v| and d = w − Pw.

    If d > 0 at every node, |V − v| ≤ max(r/d)·w, since I − P has a nonnegative inverse. Rounding errors are added on
    the unsafe side. The ratio is infinite where d is not positive or something is no number.
    """
    count, samples = system.cost.shape
    backup = np.empty(samples)
    ahead = np.empty(samples)
    for i in range(count):
        for k in range(samples):
            backup[k] = system.cost[i, k]
            ahead[k] = 0.0
        for j in range(np.uint64(system.row_ptr[i]), np.uint64(system.row_ptr[i + 1])):
            to = np.uint32(system.target[j])
            for k in range(samples):
                backup[k] += system.prob[j, k] * value[to, k]
                ahead[k] += system.prob[j, k] * weight[to, k]
        unit = UNIT_ROUNDOFF * (2 * (system.row_ptr[i + 1] - system.row_ptr[i]) + 8)
        for k in range(samples):
            ratio[i, k] = np.inf
            if 0.0 <= value[i, k] < np.inf and 0.0 <= weight[i, k] < np.inf:
                off = abs(backup[k] - value[i, k]) + unit * (backup[k] + value[i, k]) + UNDERFLOW
                drop = weight[i, k] - ahead[k] - unit * (weight[i, k] + ahead[k])
                if drop > 0.0 and off < np.inf:
                    ratio[i, k] = off / drop


@kernel("l1 l1 i1 b2 f2")
def largest_ahead(part_ptr, row_ptr, target, live, ratio):
    """Raise the ratio of each node to the largest of all nodes that can be visited from it, in each sample.

    Successors of a component are known before it. Within a component nodes are swept, forth and back, until nothing
    changes.
    """
    samples = ratio.shape[1]
    for p in range(part_ptr.size - 1):
        begin, end = part_ptr[p], part_ptr[p + 1]
        back = False
        changed = True
        while changed:
            changed = False
            for n in range(end - begin):
                i = end - 1 - n if back else begin + n
                for j in range(row_ptr[i], row_ptr[i + 1]):
                    to = target[j]
                    for k in range(samples):
                        if live[j, k] and ratio[to, k] > ratio[i, k]:
                            ratio[i, k] = ratio[to, k]
                            changed = end > begin + 1
            back = not back
