"""The one-step recursion against an adversary who picks a sample at every step: sweeps and the lower bound.

    R(s) = min over x of  max over k of  Σ_c x(c) [ κ + g_k(c) + Σ T_k(c, s') R(s') ]

where x is a distribution over the kept choices of s, or one of them. The states of `order` are swept nearest to
a goal first; all other states keep the value that they have.
"""

from collections import namedtuple

import numpy as np

from rue._jit import declare, helper, kernel
from rue._rounding import UNDERFLOW, UNIT_ROUNDOFF
from rue.recursion.row_kernels import _take_out_loops

StepModel = namedtuple("StepModel", "order kept_ptr kept mix trans_ptr successor prob gap")
StepModel.__doc__ = """The states of the game, the choices kept at each, from `kept_ptr[i]` on, the policy `mix` beside
them, and the arrays of the model.
"""
declare(StepModel, "i1 l1 i1 f1 L1 I1 F2 F2")


@kernel("StepModel float f1")
def value_outward(model, kappa, value):
    """Find first values and a policy that is proper against every adversary, in one pass from the goals outward.

    Each state retries its choice until it lands on a state that was valued before it; NaN marks those that were not.
    """
    order, kept_ptr, kept, mix, trans_ptr, successor, prob, gap = model
    samples = prob.shape[1]
    total = np.empty(samples)
    inward = np.empty(samples)
    for i in range(order.size):
        value[order[i]] = np.nan
    for i in range(order.size):
        best = np.inf
        best_place = -1
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
                best_place = j
        if best_place >= 0:
            mix[best_place] = 1.0
        value[order[i]] = best


@kernel("StepModel float f1 float bool")
def improve_pure(model, kappa, value, tolerance, break_ties):
    """Make a greedy Gauss–Seidel sweep over single choices; return how many changed and the largest change of a value.

    A choice is left only for one that is better by more than the tolerance; with `break_ties` the first choice
    within the tolerance of the best is taken instead.
    """
    order, kept_ptr, kept, mix, trans_ptr, successor, prob, gap = model
    samples = prob.shape[1]
    total = np.empty(samples)
    leave = np.empty(samples)
    changed = 0
    delta = 0.0
    for i in range(order.size):
        s = order[i]
        best = np.inf
        best_place = -1
        current = np.inf
        current_place = -1
        for j in range(kept_ptr[i], kept_ptr[i + 1]):
            c = kept[j]
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
            worst = 0.0
            for k in range(samples):
                worst = max(worst, total[k] / leave[k] if leave[k] > 0.0 else np.inf)
            if mix[j] > 0.0:
                current = worst
                current_place = j
            if worst < best - (tolerance if break_ties else 0.0):
                best = worst
                best_place = j
        if best_place >= 0 and best_place != current_place and (break_ties or best < current - tolerance):
            if current_place >= 0:
                mix[current_place] = 0.0
            mix[best_place] = 1.0
            changed += 1
        else:
            best = current
        delta = max(delta, abs(best - value[s]))
        value[s] = best
    return changed, delta


@kernel("StepModel PackedRows")
def pack_policy(model, rows):
    """Pack the rows of the choices that the policy takes."""
    order, kept_ptr, kept, mix, trans_ptr, successor, prob, gap = model
    ptr, target, share, paid, visits = rows
    samples = prob.shape[1]
    ptr[0] = 0
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
        ptr[i + 1] = size
        _take_out_loops(rows, i)


@helper
def _answered(model, c, i, value, weight, belief, memory):
    """Back up the values and weights of a choice, but for staying, under the adversary's answer to it.

    `belief[i, K]` is the answer where the adversary does not see the choice; without beliefs it is the worst sample.
    Returns the two backups, the probability to leave the state, and the sample. `memory` is scratch, [3, K].
    """
    q, w, leave = memory[0], memory[1], memory[2]
    trans_ptr, successor, prob = model.trans_ptr, model.successor, model.prob
    s = model.order[i]
    samples = q.size
    for k in range(samples):
        q[k] = model.gap[c, k]
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
    if belief.shape[0] > 0:
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


@kernel("StepModel f1 f2 float")
def tight_rows(model, value, belief, slack):
    """Return the near-tight choices of each state, as rows of outcomes under the adversary's answer.

    A choice is near-tight if the policy takes it or its backup is within `slack` of the value. Rows are by place in
    `order`, all other states share the last place: `row_ptr`, `out_ptr`, `target`, `share`.
    """
    order, kept_ptr, kept, mix, trans_ptr, successor, prob, _ = model
    memory = np.empty((3, prob.shape[1]))
    reply = np.empty(kept.size, np.int32)
    reply[:] = -1
    place = np.empty(value.size, np.int32)
    place[:] = order.size
    rows = 0
    outcomes = 0
    for i in range(order.size):
        place[order[i]] = i
        for j in range(kept_ptr[i], kept_ptr[i + 1]):
            c = kept[j]
            backup, _, left, worst = _answered(model, c, i, value, value, belief, memory)
            if mix[j] > 0.0 or backup <= left * value[order[i]] + slack:
                reply[j] = worst
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
            if reply[j] < 0:
                continue
            for t in range(np.uint64(trans_ptr[kept[j]]), np.uint64(trans_ptr[kept[j] + 1])):
                p = 0.0
                if belief.shape[0] > 0:
                    for k in range(prob.shape[1]):
                        p += belief[i, k] * prob[t, k]
                else:
                    p = prob[t, reply[j]]
                target[outcomes] = place[successor[t]]
                share[outcomes] = p
                outcomes += 1
            rows += 1
            out_ptr[rows] = outcomes
        row_ptr[i + 1] = rows
    return row_ptr, out_ptr, target, share


@kernel("l1 l1 i1 f1 f1 int float")
def count_longest(row_ptr, out_ptr, target, share, weight, sweeps, ceiling):
    """Bound the steps of any policy that takes only these rows, by sweeps on `weight`; return the last change."""
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


@kernel("StepModel float f1 f1 f2")
def prove_lower(model, gap_error, value, weight, belief):
    """Return the smallest ε for which value − ε·weight bounds every policy's worst case from below, or infinity."""
    order, kept_ptr, kept, trans_ptr = model.order, model.kept_ptr, model.kept, model.trans_ptr
    samples = model.prob.shape[1]
    memory = np.empty((3, samples))
    terms = 8 + (samples if belief.shape[0] > 0 else 0)
    need = 0.0
    room = np.inf
    for i in range(order.size):
        s = order[i]
        if not (0.0 <= value[s] < np.inf and 0.0 <= weight[s] < np.inf):
            return np.inf
        for j in range(kept_ptr[i], kept_ptr[i + 1]):
            c = kept[j]
            backup, carried, left, _ = _answered(model, c, i, value, weight, belief, memory)
            unit = UNIT_ROUNDOFF * (trans_ptr[c + 1] - trans_ptr[c] + terms)
            short = left * value[s] - backup + gap_error + unit * (backup + left * value[s]) + UNDERFLOW
            drop = left * weight[s] - carried - unit * (left * weight[s] + carried)
            if short > 0.0:
                need = max(need, short / drop) if drop > 0.0 else np.inf
            elif drop < 0.0:
                room = min(room, short / drop)
    return need if need <= room else np.inf
