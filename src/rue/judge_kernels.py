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
# Multiplications between two checks of the clock: some tenths of a second.
WORK = 100_000_000


class Controller(NamedTuple):
    """The arrays of a policy, and where the transitions of each choice begin."""

    entry_ptr: Array
    choice: Array
    weight: Array
    next_ptr: Array
    next_node: Array
    trans_ptr: Array


class Outcomes(NamedTuple):
    """Where the nodes lead, without numbers."""

    node: Array  # [N] of the controller, for each node of the chain
    row_ptr: Array  # [N+1]
    source: Array  # of each outcome
    target: Array
    transition: Array  # of the model
    share: Array  # the probability of the choice that it belongs to


class System(NamedTuple):
    """The equations v = cost + prob v of a block of samples."""

    row_ptr: Array  # [N+1]
    target: Array
    prob: Array  # [outcomes, k]
    cost: Array  # [N, k]


class ChoiceRows(NamedTuple):
    """Nodes with choices, by strongly connected components, successors first; ends have the highest part of all."""

    part_ptr: Array  # [parts+1]
    node: Array  # the nodes of each part
    part: Array  # [N] of each node
    choice_ptr: Array  # [N+1]
    trans_ptr: Array
    target: Array


declare(Controller, "L1 I1 F1 L1 I1 L1")
declare(Outcomes, "i1 l1 i1 i1 l1 f1")
declare(System, "l1 i1 f2 f2")
declare(ChoiceRows, "l1 i1 i1 l1 l1 i1")


@kernel("Controller b1 i1")
def outcomes_of(controller, live, node):
    """Return the row of each node of a controller, and the fields of `Outcomes` after the first.

    `node` are the nodes that have a row, in this order; all others share the row after the last. Self-loops are left
    out, and transitions that are not live.
    """
    most = controller.next_node.size
    place = np.full(controller.entry_ptr.size - 1, node.size, np.int32)
    for i in range(node.size):
        place[node[i]] = i
    row_ptr = np.empty(node.size + 1, np.int64)
    source = np.empty(most, np.int32)
    target = np.empty(most, np.int32)
    transition = np.empty(most, np.int64)
    share = np.empty(most)
    row_ptr[0] = 0
    count = 0
    for i in range(node.size):
        for e in range(controller.entry_ptr[node[i]], controller.entry_ptr[node[i] + 1]):
            first = controller.trans_ptr[controller.choice[e]] - controller.next_ptr[e]
            for j in range(controller.next_ptr[e], controller.next_ptr[e + 1]):
                to = controller.next_node[j]
                if live[first + j] and to != node[i]:
                    source[count] = i
                    target[count] = place[to]
                    transition[count] = first + j
                    share[count] = controller.weight[e]
                    count += 1
        row_ptr[i + 1] = count
    return place, row_ptr, source[:count], target[:count], transition[:count], share[:count]


@kernel("l1 i1")
def components(row_ptr, target):
    """Return the strongly connected component of each node, and how many there are; successors have smaller numbers.

    Tarjan's algorithm: a node is the first of its component if nothing that follows it leads to an earlier open node,
    and then all that was found since and is still open belongs to it. A component is closed after all that follow it.
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
    return part, parts


@kernel("Outcomes Controller F2 F2 int f2 f2")
def load(outcomes, controller, model_prob, model_cost, first, prob, cost):
    """Fill in probabilities and costs of the samples from `first` on, with self-loops taken out.

    The probability to leave a node may be zero to the computer. Then its cost is infinite: nothing is proved of it.
    """
    samples = prob.shape[1]
    leave = np.empty(samples)
    for i in range(cost.shape[0]):
        node = outcomes.node[i]
        begin, end = outcomes.row_ptr[i], outcomes.row_ptr[i + 1]
        for k in range(samples):
            cost[i, k] = 0.0
            leave[k] = 0.0
        for e in range(controller.entry_ptr[node], controller.entry_ptr[node + 1]):
            for k in range(samples):
                cost[i, k] += controller.weight[e] * model_cost[controller.choice[e], first + k]
        for j in range(begin, end):
            for k in range(samples):
                prob[j, k] = outcomes.share[j] * model_prob[outcomes.transition[j], first + k]
                leave[k] += prob[j, k]
        for j in range(begin, end):
            for k in range(samples):
                if leave[k] > 0.0:
                    prob[j, k] /= leave[k]
        for k in range(samples):
            cost[i, k] = cost[i, k] / leave[k] if leave[k] >= UNDERFLOW else np.inf


@kernel("l1 int int System f2 f2 int b2")
def solve_components(part_ptr, part, swept, system, value, weight, dense, direct):
    """Compute values and numbers of steps in all samples, component by component from `part` on, successors first.

    A component is swept. Where sweeps do not converge, or `direct` says so, its nodes are eliminated. Returns the
    component to go on with, and how often it was swept, when it is time to check the clock; (component, -1) for one
    of more than `dense` nodes that the caller must solve directly; (number of components, 0) at the end.
    """
    samples = system.cost.shape[1]
    scratch = np.empty((3, samples))
    work = 0
    for p in range(part, part_ptr.size - 1):
        begin = part_ptr[p]
        end = part_ptr[p + 1]
        size = end - begin
        most = min(SWEEPS, LEAST_SWEEPS + size**2 // 8) if size > 1 else 1
        while swept < most:
            if work > WORK:
                return p, swept
            work += (system.row_ptr[end] - system.row_ptr[begin]) * samples
            swept += 1
            if _sweep(begin, end, system, value, weight, scratch) <= 0.0:
                break
        swept = 0
        if size == 1:
            continue
        left = False
        for k in range(samples):
            direct[p, k] |= scratch[2, k] > 0.0
            if direct[p, k] and size <= dense:
                step = np.zeros((size, size + 3))
                _eliminate(begin, end, k, system, value, weight, step)
                work += size**3
            left |= direct[p, k]
        if left and size > dense:
            return p, -1
    return part_ptr.size - 1, 0


@helper
def _sweep(begin, end, system, value, weight, scratch):
    """Do a Gauss–Seidel sweep over a component, of values and of numbers of steps, which share every probability.

    Returns a positive number if it must be swept again: until no value changes by more than a fraction and no number of
    steps by more than a half, so that it still falls by a half or more with each step, as the proof needs.
    `scratch[2, k]` is positive where one still changes. What is no number does not count as a change: nothing is proved
    of it, and sweeps would not help.
    """
    samples = system.cost.shape[1]
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
    return largest


@helper
def _eliminate(begin, end, k, system, value, weight, step):
    """Compute values and numbers of steps of a component in one sample: eliminate its nodes, the last one first.

    As Grassmann, Taksar and Heyman do it: the chance to leave a node is the sum of the chances of where it leads to,
    not 1 minus the chance to stay. Nothing is ever subtracted, so that slow chains lose no precision. `step`, of zeros,
    is for the chance to leave the component, the cost and the steps until then, and the chances to go to each node.
    """
    size = end - begin
    for i in range(size):
        step[i, 1] = system.cost[begin + i, k]
        step[i, 2] = 1.0
        for j in range(system.row_ptr[begin + i], system.row_ptr[begin + i + 1]):
            if system.prob[j, k] > 0.0:
                if begin <= system.target[j] < end:
                    step[i, 3 + system.target[j] - begin] += system.prob[j, k]
                else:
                    step[i, 0] += system.prob[j, k]
                    step[i, 1] += system.prob[j, k] * value[system.target[j], k]
                    step[i, 2] += system.prob[j, k] * weight[system.target[j], k]
    for i in range(size - 1, -1, -1):
        leave = step[i, 0]
        for j in range(3, 3 + i):
            leave += step[i, j]
        if leave == 0.0:  # not visited in this sample
            leave = 1.0
        for j in range(3 + i):
            step[i, j] /= leave
        for before in range(i):
            chance = step[before, 3 + i]
            if chance > 0.0:
                for j in range(3 + i):
                    step[before, j] += chance * step[i, j]
    for i in range(size):
        value[begin + i, k] = step[i, 1]
        weight[begin + i, k] = step[i, 2]
        for j in range(i):
            if step[i, 3 + j] > 0.0:
                value[begin + i, k] += step[i, 3 + j] * value[begin + j, k]
                weight[begin + i, k] += step[i, 3 + j] * weight[begin + j, k]


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


@kernel("ChoiceRows f2 f2 b2 f2")
def least_average(rows, prob, value, usable, low):
    """Fill in a lower bound on the average per step from each node on, in each sample (`long_run.py`).

    A part that cannot be left has the least value in it. One that can has the least mean of the bounds behind an exit
    by a single choice; and of the values in it, if it has several nodes or a choice that stays. What rounding may add
    to a mean is taken off.
    """
    samples = prob.shape[1]
    mass = np.empty(samples)
    mean = np.empty(samples)
    size = np.empty(samples)
    stays = np.empty(samples)
    leaves = np.empty(samples)
    for p in range(rows.part_ptr.size - 1):
        begin = rows.part_ptr[p]
        end = rows.part_ptr[p + 1]
        for k in range(samples):
            stays[k] = np.inf
            leaves[k] = np.inf
        for n in range(begin, end):
            i = rows.node[n]
            for c in range(rows.choice_ptr[i], rows.choice_ptr[i + 1]):
                for k in range(samples):
                    mass[k] = 0.0
                    mean[k] = 0.0
                    size[k] = 0.0
                unit = UNIT_ROUNDOFF * (2 * (rows.trans_ptr[c + 1] - rows.trans_ptr[c]) + 8)
                for j in range(rows.trans_ptr[c], rows.trans_ptr[c + 1]):
                    to = rows.target[j]
                    if rows.part[to] < p:
                        for k in range(samples):
                            mass[k] += prob[j, k]
                            mean[k] += prob[j, k] * low[to, k]
                            size[k] += prob[j, k] * abs(low[to, k])
                for k in range(samples):
                    if usable[c, k] and mass[k] > 0.0:
                        leaves[k] = min(leaves[k], (mean[k] - unit * size[k] - UNDERFLOW) / mass[k])
                    if usable[c, k] and (mass[k] == 0.0 or end - begin > 1):
                        stays[k] = min(stays[k], value[i, k])
        for n in range(begin, end):
            for k in range(samples):
                low[rows.node[n], k] = min(stays[k], leaves[k])
