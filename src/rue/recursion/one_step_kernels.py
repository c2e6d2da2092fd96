"""The one-step recursion against an adversary who picks a sample at every step: sweeps, and their proof.

    R(s) = min over x of  max over k of  Σ_c x(c) [ κ + g_k(c) + Σ T_k(c, s') R(s') ]

where x is a distribution over the kept choices of s, or one of them. The states of `order` are swept nearest to
a goal first; state `order[i]` keeps the choices `kept[kept_ptr[i]:kept_ptr[i+1]]`, and `mix`, beside `kept`, is the
policy. All other states keep the value that they have.
"""

import numpy as np

from rue._jit import helper, kernel

ROUNDING = 2.0**-53
# Numbers below this lose their precision; it is added to every bound on a rounding error.
TINY = 1e-290


@kernel("L1 F2 f2")
def myopic_gap(choice_ptr, cost, gap):
    """g_k(s,a) = C̄_k(s,a) − min_b C̄_k(s,b), over all actions of the state."""
    samples = cost.shape[1]
    for s in range(choice_ptr.size - 1):
        for k in range(samples):
            low = np.inf
            for c in range(choice_ptr[s], choice_ptr[s + 1]):
                low = min(low, cost[c, k])
            for c in range(choice_ptr[s], choice_ptr[s + 1]):
                gap[c, k] = cost[c, k] - low


@helper
def _backup(c, s, trans_ptr, successor, prob, gap, kappa, value, total, leave):
    """Per sample: what choice c costs from here on, but for staying, and with which probability it leaves s."""
    samples = total.size
    for k in range(samples):
        total[k] = gap[c, k] + kappa
        leave[k] = 0.0
    for t in range(np.uint64(trans_ptr[c]), np.uint64(trans_ptr[c + 1])):
        to = np.uint32(successor[t])
        if to != s:
            v = value[to]
            for k in range(samples):
                leave[k] += prob[t, k]
                total[k] += prob[t, k] * v


@kernel("i1 l1 i1 f1 L1 I1 F2 F2 float f1")
def outward(order, kept_ptr, kept, mix, trans_ptr, successor, prob, gap, kappa, value):
    """First values and a policy that is proper against every adversary, in one pass from the goals outward.

    Each state retries its choice until it lands on a state that was valued before it; NaN marks those that were not.
    """
    samples = prob.shape[1]
    total = np.empty(samples)
    inward = np.empty(samples)
    for i in range(order.size):
        value[order[i]] = np.nan
    for i in range(order.size):
        s = order[i]
        best = np.inf
        arg = -1
        for j in range(kept_ptr[i], kept_ptr[i + 1]):
            c = kept[j]
            mix[j] = 0.0
            for k in range(samples):
                total[k] = gap[c, k] + kappa
                inward[k] = 0.0
            for t in range(np.uint64(trans_ptr[c]), np.uint64(trans_ptr[c + 1])):
                v = value[successor[t]]
                if not np.isnan(v):
                    for k in range(samples):
                        total[k] += prob[t, k] * v
                        inward[k] += prob[t, k]
            worst = 0.0
            for k in range(samples):
                worst = max(worst, total[k] / inward[k]) if inward[k] > 0.0 else np.inf
                if worst == np.inf:
                    break
            if worst < best:
                best = worst
                arg = j
        if arg >= 0:
            mix[arg] = 1.0
        value[s] = best


@kernel("i1 l1 i1 f1 L1 I1 F2 F2 float f1 float bool")
def improve_pure(order, kept_ptr, kept, mix, trans_ptr, successor, prob, gap, kappa, value, tolerance, break_ties):
    """A greedy Gauss–Seidel sweep over single choices. Returns how many changed and the largest change of a value.

    A choice is left only for one that is better by more than the tolerance; with `break_ties` the first choice
    within the tolerance of the best is taken instead.
    """
    samples = prob.shape[1]
    total = np.empty(samples)
    leave = np.empty(samples)
    changed = 0
    delta = 0.0
    for i in range(order.size):
        s = order[i]
        best = np.inf
        arg = -1
        current = np.inf
        now = -1
        for j in range(kept_ptr[i], kept_ptr[i + 1]):
            _backup(kept[j], s, trans_ptr, successor, prob, gap, kappa, value, total, leave)
            worst = 0.0
            for k in range(samples):
                q = total[k] / leave[k] if leave[k] > 0.0 else np.inf
                worst = max(worst, q)
            if mix[j] > 0.0:
                current = worst
                now = j
            if worst < best - (tolerance if break_ties else 0.0):
                best = worst
                arg = j
        if arg >= 0 and arg != now and (break_ties or best < current - tolerance):
            if now >= 0:
                mix[now] = 0.0
            mix[arg] = 1.0
            changed += 1
        else:
            best = current
        change = abs(best - value[s])
        delta = max(delta, change)
        value[s] = best
    return changed, delta


@kernel("i1 l1 i1 f1 L1 I1 F2 F2 l1 i1 f2 f2 f2")
def pack(order, kept_ptr, kept, mix, trans_ptr, successor, prob, gap, row_ptr, target, share, paid, visits):
    """The rows of the policy alone, side by side in memory, self-loops taken out; the last five are filled.

    `row_ptr`, `target` (states) and `share[:, K]` are the outcomes, `paid` and `visits` per state and sample what the
    gaps and a unit per step come to until the state is left.
    """
    samples = prob.shape[1]
    row_ptr[0] = 0
    size = 0
    for i in range(order.size):
        for k in range(samples):
            paid[i, k] = 0.0
            visits[i, k] = 0.0
        for j in range(kept_ptr[i], kept_ptr[i + 1]):
            x = mix[j]
            if not x > 0.0:
                continue
            for k in range(samples):
                paid[i, k] += x * gap[kept[j], k]
            for t in range(np.uint64(trans_ptr[kept[j]]), np.uint64(trans_ptr[kept[j] + 1])):
                if successor[t] != order[i]:
                    target[size] = successor[t]
                    for k in range(samples):
                        share[size, k] = x * prob[t, k]
                        visits[i, k] += share[size, k]
                    size += 1
        row_ptr[i + 1] = size
        for k in range(samples):
            visits[i, k] = 1.0 / visits[i, k] if visits[i, k] > 0.0 else np.inf
            paid[i, k] = paid[i, k] * visits[i, k] if paid[i, k] > 0.0 else 0.0
        for j in range(row_ptr[i], size):
            for k in range(samples):
                share[j, k] = share[j, k] * visits[i, k] if share[j, k] > 0.0 else 0.0


@kernel("i1 l1 i1 f2 f2 f2 float f1 int float float")
def settle(order, row_ptr, target, share, paid, visits, kappa, value, sweeps, tolerance, ceiling):
    """Sweeps on packed rows with the policy fixed: the adversary alone improves. Infinite beyond the ceiling."""
    samples = paid.shape[1]
    total = np.empty(samples)
    delta = 0.0
    for _ in range(sweeps):
        delta = 0.0
        for i in range(order.size):
            for k in range(samples):
                total[k] = paid[i, k] + kappa * visits[i, k]
            for j in range(np.uint64(row_ptr[i]), np.uint64(row_ptr[i + 1])):
                v = value[np.uint32(target[j])]
                for k in range(samples):
                    total[k] += share[j, k] * v
            worst = total[0]
            for k in range(1, samples):
                worst = max(worst, total[k])
            if worst < TINY:
                worst = 0.0
            change = abs(worst - value[order[i]])
            delta = max(delta, change)
            value[order[i]] = worst
            if worst > ceiling:
                return np.inf
        if delta <= tolerance:
            break
    return delta


@kernel("l1 i1 f2 f2 f2 float float f1 l1")
def replies(row_ptr, target, share, paid, visits, gap_share, kappa, value, reply):
    """The adversary's best sample at each row against a fixed policy; tells how many changed."""
    samples = paid.shape[1]
    total = np.empty(samples)
    changed = 0
    for i in range(row_ptr.size - 1):
        for k in range(samples):
            total[k] = gap_share * paid[i, k] + kappa * visits[i, k]
        for j in range(np.uint64(row_ptr[i]), np.uint64(row_ptr[i + 1])):
            v = value[np.uint32(target[j])]
            for k in range(samples):
                total[k] += share[j, k] * v
        best = 0
        for k in range(1, samples):
            if total[k] > total[best]:
                best = k
        # A reply is left only for a better one, so that ties do not make it wander.
        if total[best] > total[reply[i]] + 1e-13 * abs(total[best]):
            reply[i] = best
            changed += 1
    return changed


@helper
def _answered(c, s, i, trans_ptr, successor, prob, gap, value, weight, belief, mixed, q, w, leave):
    """A choice's backup of values and of weights, but for staying, under the adversary's answer to it.

    The answer is the belief of the state where the adversary does not see the choice, and otherwise the sample that
    is worst for the choice. Returns the two backups, the probability to leave the state, and the sample.
    """
    samples = q.size
    for k in range(samples):
        q[k] = gap[c, k]
        w[k] = 0.0
        leave[k] = 0.0
    for t in range(np.uint64(trans_ptr[c]), np.uint64(trans_ptr[c + 1])):
        to = np.uint32(successor[t])
        if to != s:
            v = value[to]
            u = weight[to]
            for k in range(samples):
                q[k] += prob[t, k] * v
                w[k] += prob[t, k] * u
                leave[k] += prob[t, k]
    if mixed:
        backup = 0.0
        carried = 0.0
        left = 0.0
        for k in range(samples):
            backup += belief[i, k] * q[k]
            carried += belief[i, k] * w[k]
            left += belief[i, k] * leave[k]
        return backup, carried, left, 0
    worst = 0
    for k in range(1, samples):
        if q[k] - leave[k] * value[s] > q[worst] - leave[worst] * value[s]:
            worst = k
    return q[worst], w[worst], leave[worst], worst


@kernel("i1 l1 i1 f1 L1 I1 F2 F2 f1 f2 bool float")
def tight_rows(order, kept_ptr, kept, mix, trans_ptr, successor, prob, gap, value, belief, mixed, slack):
    """The near-tight choices of each state, as rows of outcomes under the adversary's answer.

    A choice is near-tight if the policy takes it or its backup is within `slack` of the value. Rows are by place in
    `order`, all other states share the last place: `row_ptr`, `out_ptr`, `target`, `share`.
    """
    samples = prob.shape[1]
    q = np.empty(samples)
    w = np.empty(samples)
    leave = np.empty(samples)
    answer = np.empty(kept.size, np.int32)
    answer[:] = -1
    place = np.empty(value.size, np.int32)
    place[:] = order.size
    rows = 0
    outcomes = 0
    for i in range(order.size):
        place[order[i]] = i
        for j in range(kept_ptr[i], kept_ptr[i + 1]):
            c = kept[j]
            backup, _, left, worst = _answered(
                c, order[i], i, trans_ptr, successor, prob, gap, value, value, belief, mixed, q, w, leave
            )
            if mix[j] > 0.0 or backup <= left * value[order[i]] + slack:
                answer[j] = worst
                rows += 1
                outcomes += trans_ptr[c + 1] - trans_ptr[c]
    row_ptr = np.empty(order.size + 1, np.int64)
    out_ptr = np.empty(rows + 1, np.int64)
    target = np.empty(outcomes, np.int32)
    share = np.empty(outcomes)
    row_ptr[0] = 0
    out_ptr[0] = 0
    rows = 0
    outcomes = 0
    for i in range(order.size):
        for j in range(kept_ptr[i], kept_ptr[i + 1]):
            if answer[j] < 0:
                continue
            for t in range(np.uint64(trans_ptr[kept[j]]), np.uint64(trans_ptr[kept[j] + 1])):
                p = 0.0
                if mixed:
                    for k in range(samples):
                        p += belief[i, k] * prob[t, k]
                else:
                    p = prob[t, answer[j]]
                target[outcomes] = place[successor[t]]
                share[outcomes] = p
                outcomes += 1
            rows += 1
            out_ptr[rows] = outcomes
        row_ptr[i + 1] = rows
    return row_ptr, out_ptr, target, share


@kernel("l1 l1 i1 f1 f1 int float")
def longest(row_ptr, out_ptr, target, share, weight, sweeps, ceiling):
    """Upper estimates of the steps of any policy that takes only the rows given, by sweeps on `weight` by place."""
    count = row_ptr.size - 1
    delta = np.inf
    for _ in range(sweeps):
        delta = 0.0
        for i in range(count):
            most = 1.0
            for r in range(row_ptr[i], row_ptr[i + 1]):
                total = 1.0
                stay = 0.0
                for o in range(out_ptr[r], out_ptr[r + 1]):
                    if target[o] == i:
                        stay += share[o]
                    else:
                        total += share[o] * weight[target[o]]
                most = max(most, total / (1.0 - stay)) if stay < 1.0 else np.inf
            if most > ceiling:
                return np.inf
            delta = max(delta, abs(most - weight[i]))
            weight[i] = most
        if delta <= 0.01:
            break
    return delta


@kernel("i1 l1 i1 f2 f2 f2 float int f1 f1")
def prove_upper(order, row_ptr, target, share, paid, visits, paid_error, terms, value, weight):
    """The smallest ε for which value + ε·weight bounds the policy's worst case from above; see `shortest.prove`.

    The rows are packed; `paid_error` bounds the error of what a row pays before it is left, and `terms` the number of
    operations with which each of its entries was made.
    """
    samples = paid.shape[1]
    q = np.empty(samples)
    w = np.empty(samples)
    need = 0.0
    room = np.inf
    for i in range(order.size):
        s = order[i]
        if not (0.0 <= value[s] < np.inf and 0.0 <= weight[s] < np.inf):
            return np.inf
        for k in range(samples):
            q[k] = paid[i, k] + paid_error * visits[i, k]
            w[k] = 0.0
        for j in range(np.uint64(row_ptr[i]), np.uint64(row_ptr[i + 1])):
            v = value[np.uint32(target[j])]
            u = weight[np.uint32(target[j])]
            for k in range(samples):
                q[k] += share[j, k] * v
                w[k] += share[j, k] * u
        unit = ROUNDING * (terms + 4 * (row_ptr[i + 1] - row_ptr[i]))
        for k in range(samples):
            over = q[k] - value[s] + unit * (q[k] + value[s]) + TINY
            drop = weight[s] - w[k] - unit * (w[k] + weight[s])
            if not over <= 0.0:
                need = max(need, over / drop) if drop > 0.0 else np.inf
            elif drop < 0.0:
                room = min(room, over / drop)
    return need if need <= room else np.inf


@kernel("i1 l1 i1 L1 I1 F2 F2 float f1 f1 f2 bool")
def prove_lower(order, kept_ptr, kept, trans_ptr, successor, prob, gap, gap_error, value, weight, belief, mixed):
    """The smallest ε for which value − ε·weight bounds every policy's worst case from below; see `shortest.prove`."""
    samples = prob.shape[1]
    q = np.empty(samples)
    w = np.empty(samples)
    leave = np.empty(samples)
    need = 0.0
    room = np.inf
    for i in range(order.size):
        s = order[i]
        if not (0.0 <= value[s] < np.inf and 0.0 <= weight[s] < np.inf):
            return np.inf
        for j in range(kept_ptr[i], kept_ptr[i + 1]):
            c = kept[j]
            backup, carried, left, _ = _answered(
                c, s, i, trans_ptr, successor, prob, gap, value, weight, belief, mixed, q, w, leave
            )
            unit = ROUNDING * (trans_ptr[c + 1] - trans_ptr[c] + 8 + (samples if mixed else 0))
            short = left * value[s] - backup + gap_error + unit * (backup + left * value[s]) + TINY
            drop = left * weight[s] - carried - unit * (left * weight[s] + carried)
            if short > 0.0:
                need = max(need, short / drop) if drop > 0.0 else np.inf
            elif drop < 0.0:
                room = min(room, short / drop)
    return need if need <= room else np.inf
