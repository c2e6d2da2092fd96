"""Policies as rows against an adversary who picks a sample whenever a row begins: sweeps, replies and the upper bound.

Row i belongs to state `order[i]`. Rows are *packed*: side by side in memory, without self-loops.
"""

from collections import namedtuple

import numpy as np

from rue._jit import declare, helper, kernel
from rue._rounding import UNDERFLOW, UNIT_ROUNDOFF
from rue.recursion.inner.option_tree_kernels import _layer

PackedRows = namedtuple("PackedRows", "ptr target share paid visits")
PackedRows.__doc__ = """Rows without self-loops: outcome j of row i, from `ptr[i]` on, is state `target[j]`.

Its chance is `share[j, k]`. `paid[i, k]` and `visits[i, k]` are what the gaps, and a unit for each visit, come to until
the state is left.
"""
declare(PackedRows, "l1 i1 f2 f2 f2")


@helper
def _take_out_loops(rows, i):
    """Take self-loops out of row i, whose `visits` are still the chance to leave the state."""
    for k in range(rows.paid.shape[1]):
        rows.visits[i, k] = 1.0 / rows.visits[i, k] if rows.visits[i, k] > 0.0 else np.inf
        rows.paid[i, k] = rows.paid[i, k] * rows.visits[i, k] if rows.paid[i, k] > 0.0 else 0.0
    for j in range(rows.ptr[i], rows.ptr[i + 1]):
        for k in range(rows.paid.shape[1]):
            rows.share[j, k] = rows.share[j, k] * rows.visits[i, k] if rows.share[j, k] > 0.0 else 0.0


@kernel("SlotLayers OptionRows PackedRows")
def pack_options(layers, options, rows):
    """Pack the rows of options."""
    samples = rows.paid.shape[1]
    rows.ptr[0] = 0
    size = 0
    for i in range(layers.root.size):
        begin, end = _layer(layers, i, layers.steps)
        for k in range(samples):
            rows.paid[i, k] = options.paid[i, k]
            rows.visits[i, k] = 0.0
        for e in range(end - begin):
            if layers.state[begin + e] == layers.root[i]:
                continue
            rows.target[size] = layers.state[begin + e]
            for k in range(samples):
                rows.share[size, k] = options.share[options.ptr[i] + e, k]
                rows.visits[i, k] += rows.share[size, k]
            size += 1
        rows.ptr[i + 1] = size
        _take_out_loops(rows, i)


@helper
def _add_up(rows, i, gap_share, kappa, value, total):
    """Write what row i comes to in each sample to `total`: what it pays, and the values that it leads to."""
    samples = total.size
    for k in range(samples):
        total[k] = gap_share * rows.paid[i, k] + kappa * rows.visits[i, k]
    for j in range(np.uint64(rows.ptr[i]), np.uint64(rows.ptr[i + 1])):
        v = value[np.uint32(rows.target[j])]
        for k in range(samples):
            total[k] += rows.share[j, k] * v


@kernel("i1 PackedRows float f1 int float float")
def sweep(order, rows, kappa, value, sweeps, tolerance, ceiling):
    """Let the adversary improve against the rows by sweeps; return the last change, or infinity beyond the ceiling.

    A row is skipped if none of the values that it leads to has changed since the sweep before.
    """
    ptr, target, samples = rows.ptr, rows.target, rows.paid.shape[1]
    total = np.empty(samples)
    changed = np.zeros(value.size, np.int32)  # the last sweep in which a value changed
    delta = 0.0
    for n in range(1, sweeps + 1):
        delta = 0.0
        for i in range(order.size):
            is_same = n > 1
            for j in range(np.uint64(ptr[i]), np.uint64(ptr[i + 1])):
                if changed[np.uint32(target[j])] >= n - 1:
                    is_same = False
            if is_same:
                continue
            _add_up(rows, i, 1.0, kappa, value, total)
            worst = total[0]
            for k in range(1, samples):
                worst = max(worst, total[k])
            if worst < UNDERFLOW:
                worst = 0.0
            change = abs(worst - value[order[i]])
            delta = max(delta, change)
            if change > 0.0:
                changed[order[i]] = n
            value[order[i]] = worst
            if worst > ceiling:
                return np.inf
        if delta <= tolerance:
            break
    return delta


@kernel("i1 PackedRows float f1 int float float")
def sweep_replies(order, rows, kappa, value, sweeps, tolerance, ceiling):
    """Sweep once over all samples, then with the adversary's replies of that sweep; return the change of the first one.

    The later sweeps read what the replies pay and where they lead to alone, a tenth of the numbers. They end when they
    change less than a part of the first one. Nothing follows a first sweep within the tolerance. The result is infinite
    beyond the ceiling.
    """
    ptr, target, share, paid, visits = rows
    samples = paid.shape[1]
    total = np.empty(samples)
    paid_there = np.empty(order.size)
    share_there = np.empty(ptr[order.size])
    first = 0.0
    for i in range(order.size):
        _add_up(rows, i, 1.0, kappa, value, total)
        worst = 0
        for k in range(1, samples):
            if total[k] > total[worst]:
                worst = k
        paid_there[i] = paid[i, worst] + kappa * visits[i, worst]
        for j in range(np.uint64(ptr[i]), np.uint64(ptr[i + 1])):
            share_there[j] = share[j, worst]
        now = total[worst] if total[worst] >= UNDERFLOW else 0.0
        first = max(first, abs(now - value[order[i]]))
        value[order[i]] = now
        if now > ceiling:
            return np.inf
    if first <= tolerance:
        return first
    for _ in range(sweeps):
        change = 0.0
        for i in range(order.size):
            now = paid_there[i]
            for j in range(np.uint64(ptr[i]), np.uint64(ptr[i + 1])):
                now += share_there[j] * value[np.uint32(target[j])]
            now = now if now >= UNDERFLOW else 0.0
            change = max(change, abs(now - value[order[i]]))
            value[order[i]] = now
            if now > ceiling:
                return np.inf
        if change <= max(0.1 * first, tolerance):
            break
    return first


@kernel("PackedRows float float f1 l1")
def improve_replies(rows, gap_share, kappa, value, reply):
    """Set the adversary's best sample at each row against a fixed policy; return how many changed."""
    samples = rows.paid.shape[1]
    total = np.empty(samples)
    changed = 0
    for i in range(rows.ptr.size - 1):
        _add_up(rows, i, gap_share, kappa, value, total)
        best = 0
        for k in range(1, samples):
            if total[k] > total[best]:
                best = k
        # A reply is left only for a better one, so that ties do not make it change for ever.
        if total[best] > total[reply[i]] + 1e-13 * abs(total[best]):
            reply[i] = best
            changed += 1
    return changed


@kernel("i1 PackedRows float int f1 f1")
def prove_upper(order, rows, paid_error, terms, value, weight):
    """Return the smallest ε for which value + ε·weight bounds the policy's worst case from above, or infinity.

    `paid_error` bounds the error of what a row pays before its state is left, and `terms` the number of operations
    behind each of its entries.
    """
    ptr, target, share, paid, visits = rows
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
        for j in range(np.uint64(ptr[i]), np.uint64(ptr[i + 1])):
            v = value[np.uint32(target[j])]
            u = weight[np.uint32(target[j])]
            for k in range(samples):
                q[k] += share[j, k] * v
                w[k] += share[j, k] * u
        unit = UNIT_ROUNDOFF * (terms + 4 * (ptr[i + 1] - ptr[i]))
        for k in range(samples):
            over = q[k] - value[s] + unit * (q[k] + value[s]) + UNDERFLOW
            drop = weight[s] - w[k] - unit * (w[k] + weight[s])
            if not over <= 0.0:
                need = max(need, over / drop) if drop > 0.0 else np.inf
            elif drop < 0.0:
                room = min(room, over / drop)
    return need if need <= room else np.inf
