"""Shortest paths in one sample: sweeps that find the values, and one pass that proves them.

States are renumbered by place: nearest to a goal first, which is the order of the sweeps; all goals share the last
place. Self-loops are taken out (a choice that stays with probability p costs c/(1−p) and else behaves as its other
outcomes, scaled). Choices that a policy must not take cost infinity.

Hot loops index with unsigned integers: with signed ones numba tests for negative indices each time.
"""

from typing import NamedTuple

import numpy as np

from rue._arrays import Array
from rue._jit import declare, kernel
from rue._rounding import UNDERFLOW, UNIT_ROUNDOFF


class RowIndex(NamedTuple):
    """The choices of each place and their outcomes, without numbers."""

    row_ptr: Array  # where the choices of each place begin
    choice: Array  # of the model, for each choice here
    out_ptr: Array  # where the outcomes of each choice begin
    transition: Array  # of the model, for each outcome
    target: Array  # the place that each outcome leads to


class Rows(NamedTuple):
    """The choices of each place in one sample."""

    row_ptr: Array
    out_ptr: Array
    target: Array
    prob: Array  # of each outcome
    cost: Array  # of each choice


class PolicyRows(NamedTuple):
    """The rows of a policy, one after the other."""

    ptr: Array  # where the outcomes of each place begin
    target: Array
    prob: Array
    cost: Array  # of each place


declare(RowIndex, "i1 i1 i1 i1 i1")
declare(Rows, "i1 i1 i1 f1 f1")
declare(PolicyRows, "i1 i1 f1 f1")


@kernel("l1 i1 i1 L1 L1 I1 b1 RowIndex")
def renumber(member_ptr, member, place, choice_ptr, trans_ptr, successor, drop, index):
    """Fill in an index that has room for all: choices by place, without self-loops and those in `drop`.

    The states `member[member_ptr[i]:member_ptr[i+1]]` share place i. Returns how many choices and outcomes there are.
    """
    row_ptr, choice, out_ptr, transition, target = index
    row_ptr[0] = 0
    out_ptr[0] = 0
    choices = 0
    transitions = 0
    for i in range(member_ptr.size - 1):
        for m in range(member_ptr[i], member_ptr[i + 1]):
            s = np.uint32(member[m])
            for c in range(np.uint64(choice_ptr[s]), np.uint64(choice_ptr[s + 1])):
                if drop[c]:
                    continue
                for t in range(np.uint64(trans_ptr[c]), np.uint64(trans_ptr[c + 1])):
                    j = place[np.uint32(successor[t])]
                    if j != i:
                        transition[transitions] = t
                        target[transitions] = j
                        transitions += 1
                choice[choices] = c
                choices += 1
                out_ptr[choices] = transitions
        row_ptr[i + 1] = choices
    return choices, transitions


@kernel("RowIndex F2 F2 int b1 f2 f2")
def load(index, model_prob, model_cost, first, allowed, prob, cost):
    """Fill in the numbers of the samples from `first` on, one row of `prob` and `cost` for each.

    Several are loaded at once, as they lie side by side in the model.
    """
    for i in range(index.choice.size):
        c = np.uint32(index.choice[i])
        begin = np.uint64(index.out_ptr[i])
        end = np.uint64(index.out_ptr[i + 1])
        for b in range(prob.shape[0]):
            k = np.uint64(first + b)
            leave = 0.0
            for j in range(begin, end):
                p = model_prob[np.uint32(index.transition[j]), k]
                prob[b, j] = p
                leave += p
            if not (allowed[c] and leave > 0.0):
                cost[b, i] = np.inf
                for j in range(begin, end):
                    prob[b, j] = 0.0
            elif leave == 1.0:
                cost[b, i] = model_cost[c, k]
            else:
                scale = 1.0 / leave
                if scale < np.inf:
                    cost[b, i] = model_cost[c, k] * scale
                    for j in range(begin, end):
                        prob[b, j] *= scale
                else:  # the inverse of a number below 1e-308 overflows
                    cost[b, i] = model_cost[c, k] / leave
                    for j in range(begin, end):
                        prob[b, j] /= leave


@kernel("Rows f1 i1")
def outward(rows, value, policy):
    """Fill in first values and a proper policy in one pass from the goals outward.

    Each state repeats its choice until it leads to a state that was valued before it.
    """
    count = rows.row_ptr.size - 1
    value[count] = 0.0
    for i in range(count):
        best = np.inf
        policy[i] = rows.row_ptr[i]
        for c in range(rows.row_ptr[i], rows.row_ptr[i + 1]):
            inward = 0.0
            total = rows.cost[c]
            for t in range(np.uint64(rows.out_ptr[c]), np.uint64(rows.out_ptr[c + 1])):
                j = np.uint32(rows.target[t])
                if j < i or j == count:
                    inward += rows.prob[t]
                    total += rows.prob[t] * value[j]
            if inward > 0.0 and total < best * inward:
                best = total / inward
                policy[i] = c
        value[i] = best


@kernel("Rows f1 i1 float PolicyRows")
def improve(rows, value, policy, tolerance, own):
    """Do one greedy Gauss–Seidel sweep. A choice is replaced only by one that is better by more than a tolerance.

    So ties never change the policy, and a proper policy stays proper even where costs are zero. The rows of the policy
    are copied to `own` while they are in the cache.
    Returns how many choices changed and the largest relative change of a value.
    """
    changed = 0
    delta = 0.0
    own.ptr[0] = 0
    n = np.uint64(0)
    for i in range(rows.row_ptr.size - 1):
        best = np.inf
        current = np.inf
        arg = -1
        mine = policy[i]
        t = np.uint64(rows.out_ptr[rows.row_ptr[i]])
        for c in range(rows.row_ptr[i], rows.row_ptr[i + 1]):
            q = rows.cost[c]
            end = np.uint64(rows.out_ptr[c + 1])
            while t < end:
                q += rows.prob[t] * value[np.uint32(rows.target[t])]
                t += np.uint64(1)
            if c == mine:
                current = q
            if q < best:
                best = q
                arg = c
        if best < current and (current == np.inf or best < current - tolerance * current):
            policy[i] = arg
            changed += 1
        else:
            best = current
        if best != value[i]:  # infinite values may stay
            delta = max(delta, abs(best - value[i]) / max(abs(best), 1e-300)) if best < np.inf else np.inf
        value[i] = best
        chosen = np.uint32(policy[i])
        own.cost[i] = rows.cost[chosen]
        for t in range(np.uint64(rows.out_ptr[chosen]), np.uint64(rows.out_ptr[chosen + 1])):
            own.target[n] = rows.target[t]
            own.prob[n] = rows.prob[t]
            n += np.uint64(1)
        own.ptr[i + 1] = n
    return changed, delta


@kernel("PolicyRows f1 int float")
def sweep_policy(own, value, sweeps, tolerance):
    """Do Gauss–Seidel sweeps with the policy fixed until no value changes by more than a fraction.

    Returns the last largest relative change.
    """
    delta = 0.0
    for _ in range(sweeps):
        delta = 0.0
        j = np.uint64(0)
        for i in range(own.cost.size):
            q = own.cost[i]
            end = np.uint64(own.ptr[i + 1])
            while j < end:
                q += own.prob[j] * value[np.uint32(own.target[j])]
                j += np.uint64(1)
            if q != value[i]:  # infinite values may stay
                delta = max(delta, abs(q - value[i]) / max(abs(q), 1e-300)) if q < np.inf else np.inf
            value[i] = q
        if delta <= tolerance:
            break
    return delta


@kernel("Rows f1 i1 float f1 int float")
def most_steps(rows, value, policy, slack, weight, sweeps, ceiling):
    """Raise `weight` to the number of steps of any policy that takes only near-tight choices, by sweeps.

    A choice is near-tight if it is the policy's or within `slack` of the value. Returns the last largest
    change; a weight over `ceiling` ends the sweeps (such choices can form a cycle).
    """
    count = rows.row_ptr.size - 1
    weight[count] = 0.0
    delta = np.inf
    for _ in range(sweeps):
        delta = 0.0
        for i in range(count):
            most = 0.0
            for c in range(rows.row_ptr[i], rows.row_ptr[i + 1]):
                if c != policy[i]:
                    q = rows.cost[c]
                    for t in range(rows.out_ptr[c], rows.out_ptr[c + 1]):
                        q += rows.prob[t] * value[rows.target[t]]
                    if not q <= value[i] + slack:
                        continue
                w = 1.0
                for t in range(rows.out_ptr[c], rows.out_ptr[c + 1]):
                    w += rows.prob[t] * weight[rows.target[t]]
                most = max(most, w)
            if most > ceiling:
                return np.inf
            delta = max(delta, abs(most - weight[i]))
            weight[i] = most
        if delta <= 0.01:
            break
    return delta


@kernel("Rows f1 f1 i1")
def prove(rows, value, weight, policy):
    """Return how far `value` must move along `weight` to be a proved bound, once over all choices.

    With v the values, w ≥ 0 the weights and Q(·) one backup, v + εw is an upper bound if
    v + εw ≥ Q_π(v + εw) at every state, and v − εw is a lower bound on every proper policy's value if
    v − εw ≤ Q_c(v − εw) for every choice c. Both are linear in ε, so each choice gives a least
    or a largest ε; rounding errors are added on the unsafe side.
    Returns the smallest ε for the upper bound and for the lower bound; infinite where there is none.
    """
    up_need = 0.0
    up_room = np.inf
    low_need = 0.0
    low_room = np.inf
    for i in range(rows.row_ptr.size - 1):
        if not (0.0 <= value[i] < np.inf and 0.0 <= weight[i] < np.inf):
            return np.inf, np.inf
        for c in range(rows.row_ptr[i], rows.row_ptr[i + 1]):
            if rows.cost[c] == np.inf:
                continue
            q = rows.cost[c]
            w = 0.0
            for t in range(np.uint64(rows.out_ptr[c]), np.uint64(rows.out_ptr[c + 1])):
                j = np.uint32(rows.target[t])
                q += rows.prob[t] * value[j]
                w += rows.prob[t] * weight[j]
            if q == np.inf:  # no choice to worry about, unless the policy takes it
                if c == policy[i]:
                    up_need = np.inf
                continue
            unit = UNIT_ROUNDOFF * (2 * (rows.out_ptr[c + 1] - rows.out_ptr[c]) + 8)
            error = unit * (q + value[i]) + UNDERFLOW
            drop = weight[i] - w - unit * (weight[i] + w)
            short = value[i] - q + error
            if short > 0.0:
                low_need = max(low_need, short / drop) if drop > 0.0 else np.inf
            elif drop < 0.0:
                low_room = min(low_room, short / drop)
            if c == policy[i]:
                over = q - value[i] + error
                if over > 0.0:
                    up_need = max(up_need, over / drop) if drop > 0.0 else np.inf
                elif drop < 0.0:
                    up_room = min(up_room, over / drop)
    if up_need > up_room:
        up_need = np.inf
    if low_need > low_room:
        low_need = np.inf
    return up_need, low_need


@kernel("L1 L1 I1 F2 F2 f2 f2")
def regret_gap(choice_ptr, trans_ptr, successor, prob, cost, value, gap):
    """Fill in g_k(s,a) = C̄_k(s,a) + Σ T_k V*_k(s') − V*_k(s), the paper's Q^gap; never below zero.

    Infinite where a choice may lead into a dead end, and zero at dead ends.
    """
    samples = prob.shape[1]
    for s in range(choice_ptr.size - 1):
        for c in range(choice_ptr[s], choice_ptr[s + 1]):
            for k in range(samples):
                gap[c, k] = cost[c, k] - value[s, k] if value[s, k] < np.inf else 0.0
            for t in range(np.uint64(trans_ptr[c]), np.uint64(trans_ptr[c + 1])):
                for k in range(samples):
                    if prob[t, k] > 0.0 and value[s, k] < np.inf:
                        gap[c, k] += prob[t, k] * value[successor[t], k]
            for k in range(samples):
                gap[c, k] = max(gap[c, k], 0.0)
