"""Shortest paths in one sample: sweeps that find the values, and one pass that proves them.

Rows are local. States are renumbered by place: nearest to a goal first, which is the order of the sweeps; all
goals share the last place. Self-loops are taken out (a choice that stays with probability p costs c/(1−p) and
else behaves as its other outcomes, scaled). Choices that a policy must not take cost infinity.

Hot loops index with unsigned integers: with signed ones numba looks for negative indices each time.
"""

import numpy as np

from rue._jit import kernel

ROUNDING = 2.0**-53
# Numbers below this lose their precision; it is added to every bound on a rounding error.
TINY = 1e-290


@kernel("l1 i1 i1 L1 L1 I1 b1")
def localise(member_ptr, member, place, choice_ptr, trans_ptr, successor, drop):
    """Rows by place, without self-loops: the choices of all states that share a place, less those in `drop`.

    Returns `row_ptr` (choices of a place), `choice`, `out_ptr` (outcomes of a choice), `transition`, `target`.
    """
    places = member_ptr.size - 1
    row_ptr = np.empty(places + 1, np.int32)
    choice = np.empty(drop.size, np.int32)
    out_ptr = np.empty(drop.size + 1, np.int32)
    transition = np.empty(successor.size, np.int32)
    target = np.empty(successor.size, np.int32)
    row_ptr[0] = 0
    out_ptr[0] = 0
    choices = 0
    transitions = 0
    for i in range(places):
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
    return row_ptr, choice[:choices], out_ptr[: choices + 1], transition[:transitions], target[:transitions]


@kernel("i1 i1 i1 F2 F2 int b1 f2 f2")
def load(choice, out_ptr, transition, model_prob, model_cost, first, allowed, prob, cost):
    """Fill in the numbers of the samples from `first` on, one row of `prob` and `cost` for each.

    Several are taken at once, as they lie side by side in the model.
    """
    count = prob.shape[0]
    leave = np.empty(count)
    for i in range(choice.size):
        c = choice[i]
        leave[:] = 0.0
        for j in range(out_ptr[i], out_ptr[i + 1]):
            for b in range(count):
                p = model_prob[transition[j], first + b]
                prob[b, j] = p
                leave[b] += p
        for b in range(count):
            if not (allowed[c] and leave[b] > 0.0):
                cost[b, i] = np.inf
                for j in range(out_ptr[i], out_ptr[i + 1]):
                    prob[b, j] = 0.0
            elif leave[b] == 1.0:
                cost[b, i] = model_cost[c, first + b]
            else:
                scale = 1.0 / leave[b]
                cost[b, i] = model_cost[c, first + b] * scale
                for j in range(out_ptr[i], out_ptr[i + 1]):
                    prob[b, j] *= scale


@kernel("i1 i1 i1 f1 f1 f1 i1")
def outward(row_ptr, out_ptr, target, prob, cost, value, policy):
    """First values and a proper policy in one pass from the goals outward.

    Each state retries its choice until it lands on a state that was valued before it.
    """
    count = row_ptr.size - 1
    value[count] = 0.0
    for i in range(count):
        best = np.inf
        policy[i] = row_ptr[i]
        for c in range(row_ptr[i], row_ptr[i + 1]):
            inward = 0.0
            total = cost[c]
            for t in range(np.uint64(out_ptr[c]), np.uint64(out_ptr[c + 1])):
                j = np.uint32(target[t])
                if j < i or j == count:
                    inward += prob[t]
                    total += prob[t] * value[j]
            if inward > 0.0 and total < best * inward:
                best = total / inward
                policy[i] = c
        value[i] = best


@kernel("i1 i1 i1 f1 f1 f1 i1 float")
def improve(row_ptr, out_ptr, target, prob, cost, value, policy, tolerance):
    """One greedy Gauss–Seidel sweep. A choice is left only for one that is better by more than a tolerance.

    So ties never make the policy wander, and a proper policy stays proper even where costs are zero.
    Returns how many choices changed and the largest relative change of a value.
    """
    changed = 0
    delta = 0.0
    for i in range(row_ptr.size - 1):
        best = np.inf
        current = np.inf
        arg = -1
        mine = policy[i]
        t = np.uint64(out_ptr[row_ptr[i]])
        for c in range(row_ptr[i], row_ptr[i + 1]):
            q = cost[c]
            end = np.uint64(out_ptr[c + 1])
            while t < end:
                q += prob[t] * value[np.uint32(target[t])]
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
        delta = max(delta, abs(best - value[i]) / max(abs(best), 1e-300))
        value[i] = best
    return changed, delta


@kernel("i1 i1 f1 f1 f1 i1 int float i1 i1 f1 f1")
def settle(out_ptr, target, prob, cost, value, policy, sweeps, tolerance, ptr, to, p, own):
    """Gauss–Seidel sweeps with the policy fixed, on a packed copy of its rows, until little changes.

    The last four are scratch: the packed rows, their targets, probabilities and costs.
    """
    count = policy.size
    ptr[0] = 0
    for i in range(count):
        ptr[i + 1] = ptr[i] + out_ptr[policy[i] + 1] - out_ptr[policy[i]]
    for i in range(count):
        first = out_ptr[policy[i]]
        own[i] = cost[policy[i]]
        for j in range(ptr[i], ptr[i + 1]):
            to[j] = target[first + j - ptr[i]]
            p[j] = prob[first + j - ptr[i]]
    delta = 0.0
    for _ in range(sweeps):
        delta = 0.0
        j = np.uint64(0)
        for i in range(count):
            q = own[i]
            end = np.uint64(ptr[i + 1])
            while j < end:
                q += p[j] * value[np.uint32(to[j])]
                j += np.uint64(1)
            delta = max(delta, abs(q - value[i]) / max(abs(q), 1e-300))
            value[i] = q
        if delta <= tolerance:
            break
    return delta


@kernel("i1 i1 i1 f1 f1 f1 i1 float f1 int float")
def steps(row_ptr, out_ptr, target, prob, cost, value, policy, slack, weight, sweeps, ceiling):
    """Upper estimates of the number of steps of any policy that takes only near-tight choices, by sweeps.

    A choice is near-tight if it is the policy's or within `slack` of the value. Returns the last largest
    change; a weight over `ceiling` ends it (such choices can go round for ever).
    """
    count = row_ptr.size - 1
    weight[count] = 0.0
    delta = np.inf
    for _ in range(sweeps):
        delta = 0.0
        for i in range(count):
            most = 0.0
            for c in range(row_ptr[i], row_ptr[i + 1]):
                if c != policy[i]:
                    q = cost[c]
                    for t in range(out_ptr[c], out_ptr[c + 1]):
                        q += prob[t] * value[target[t]]
                    if not q <= value[i] + slack:
                        continue
                w = 1.0
                for t in range(out_ptr[c], out_ptr[c + 1]):
                    w += prob[t] * weight[target[t]]
                most = max(most, w)
            if most > ceiling:
                return np.inf
            delta = max(delta, abs(most - weight[i]))
            weight[i] = most
        if delta <= 0.01:
            break
    return delta


@kernel("i1 i1 i1 f1 f1 f1 f1 i1")
def prove(row_ptr, out_ptr, target, prob, cost, value, weight, policy):
    """How far `value` must move along `weight` to be proved, once over all choices.

    With v the values, w ≥ 0 the weights and Q(·) one backup, v + εw is an upper bound if
    v + εw ≥ Q_π(v + εw) at every state, and v − εw is a lower bound on every proper policy's value if
    v − εw ≤ Q_c(v − εw) for every choice c. Both are linear in ε, so each choice asks for an ε of at
    least, or at most, some number; rounding errors are added on the unsafe side.
    Returns the smallest ε for the upper bound and for the lower bound; infinite where there is none.
    """
    up_need = 0.0
    up_room = np.inf
    low_need = 0.0
    low_room = np.inf
    for i in range(row_ptr.size - 1):
        if not (0.0 <= value[i] < np.inf and 0.0 <= weight[i] < np.inf):
            return np.inf, np.inf
        for c in range(row_ptr[i], row_ptr[i + 1]):
            if cost[c] == np.inf:
                continue
            q = cost[c]
            w = 0.0
            for t in range(np.uint64(out_ptr[c]), np.uint64(out_ptr[c + 1])):
                j = np.uint32(target[t])
                q += prob[t] * value[j]
                w += prob[t] * weight[j]
            unit = ROUNDING * (2 * (out_ptr[c + 1] - out_ptr[c]) + 8)
            error = unit * (q + value[i]) + TINY
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
    """g_k(s,a) = C̄_k(s,a) + Σ T_k V*_k(s') − V*_k(s), the paper's Q^gap; never below zero.

    Infinite where a choice may lead into a dead end, and zero at dead ends, where nobody should be.
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
