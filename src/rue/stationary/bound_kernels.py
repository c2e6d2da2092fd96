"""Bounds of a node of the search: each sample by itself, then all samples coupled; and where to branch.

A node allows the choices `act[low[i]:high[i]]` at each reachable place i. A place is decided if it has one choice left.
"""

from typing import NamedTuple

import numpy as np

from rue._arrays import Array
from rue._jit import declare, helper
from rue.stationary.descent_kernels import ENDLESS, HUGE

# Sweeps that move probability mass along.
VISIT_SWEEPS = 12
# How sharp the soft maximum over samples is, as a share of the cut, and how fast a subtree shrinks as its bound rises.
SHARP = 0.02
STEEP = 2.5
# Sweeps end when they change values by less than this share of the distance from a bound to the cut.
LOOSE = 1e-3
# Gradient steps of the search for a belief.
BELIEF_ROUNDS = 20
# A place that is the first undecided one with less probability than this in each sample is branched on only if that is
# estimated to take FAR times fewer nodes.
FIRST = 1e-3
FAR = 30.0


class NodeChoices(NamedTuple):
    """The choices that a node allows, and a policy of the node."""

    live: Array  # [n] the reachable places, in order
    low: Array  # [n]
    high: Array  # [n]
    act: Array  # [C]
    candidate: Array  # [n]


class NodeValues(NamedTuple):
    """Each sample's solution of a node by itself ("wait and see")."""

    value: Array  # [K, n+1]
    total: Array  # [K, C] the backup of each choice
    excess: Array  # [K, C] by how much it exceeds the best one of its place
    greedy: Array  # [K, n]
    visits: Array  # [K, n] expected visits under the greedy choices, nearly


class Coupling(NamedTuple):
    """The bound that couples the samples, and its memory."""

    hit: Array  # [K, n] the probability that a place is the first undecided one
    frontier: Array  # [n] the places that can be the first undecided one
    fixed: Array  # [K] what is paid up to there
    belief: Array  # [K] the best one so far
    trial: Array  # [K] a belief
    paid: Array  # [K] what each sample pays under the best choices for a belief
    price: Array  # [C] the bound with that choice forced upon its place
    left: Array  # [n+1]


declare(NodeChoices, "i1 i1 i1 i1 i1")
declare(NodeValues, "f2 f2 f2 i2 f2")
declare(Coupling, "f2 i1 f1 f1 f1 f1 f1 f1")


@helper
def _raise_values(model, k, node, count, value, tolerance, ceiling):
    """Raise one sample's values of the restricted problem from below by Gauss–Seidel sweeps; return how many sweeps.

    Each backup is rounded down, so a value never exceeds the least expected sum of gaps of a policy that takes only the
    choices of the node, wherever the sweeps stop.
    """
    live, low, high, act = node.live, node.low, node.high, node.act
    out_ptr, target, prob, gap = model.out_ptr, model.target, model.prob[k], model.gap[k]
    for sweep in range(model.sweeps):
        delta = 0.0
        for a in range(count):
            i = live[a]
            best = HUGE
            for j in range(np.uint64(low[i]), np.uint64(high[i])):
                c = np.uint32(act[j])
                q = gap[c]
                for t in range(np.uint64(out_ptr[c]), np.uint64(out_ptr[c + np.uint32(1)])):
                    q += prob[t] * value[np.uint32(target[t])]
                best = min(best, q)
            best *= model.shrink
            if best > value[i]:
                delta = max(delta, best - value[i])
                value[i] = best
        if delta <= tolerance or value[model.start] >= ceiling:
            return sweep + 1
    return model.sweeps


@helper
def _useful_tolerance(cursor, bound):
    """Return the tolerance with which a node is solved: no finer than is of use."""
    if cursor.cut < ENDLESS:
        return max(cursor.tolerance, LOOSE * (cursor.cut - bound))
    return cursor.tolerance


@helper
def _back_up_choices(model, k, node, count, values, price):
    """Compute one sample's backups of all choices, by how much they exceed the best one, and the greedy choices."""
    prob, gap, value, total = model.prob[k], model.gap[k], values.value[k], values.total[k]
    for a in range(count):
        i = node.live[a]
        best = np.inf
        for j in range(node.low[i], node.high[i]):
            c = node.act[j]
            q = gap[c]
            for t in range(np.uint64(model.out_ptr[c]), np.uint64(model.out_ptr[c + 1])):
                q += prob[t] * value[np.uint32(model.target[t])]
            total[c] = q
            price[c] = 0.0
            if q < best:
                best = q
                values.greedy[k, i] = c
        for j in range(node.low[i], node.high[i]):
            c = node.act[j]
            values.excess[k, c] = total[c] - best


@helper
def _flow(model, k, node, count, greedy, arrived, left, until_undecided):
    """Let probability mass flow from the start under greedy choices until little moves; return what it pays.

    `arrived` becomes the mass that comes to each place. It stops at undecided places if `until_undecided` says so. Mass
    that still moves after the last sweep is left out.
    """
    prob, gap = model.prob[k], model.gap[k]
    enough = 1e-6 if until_undecided else 1e-3
    for a in range(count):
        arrived[node.live[a]] = 0.0
        left[node.live[a]] = 0.0
    left[model.start] = 1.0
    paid = 0.0
    for _ in range(VISIT_SWEEPS):
        moved = 0.0
        for a in range(count - 1, -1, -1):
            i = node.live[a]
            mass = left[i]
            if mass > 0.0:
                left[i] = 0.0
                arrived[i] += mass
                if until_undecided and node.high[i] - node.low[i] > 1:
                    continue
                moved += mass
                c = greedy[i]
                paid += mass * gap[c]
                for t in range(model.out_ptr[c], model.out_ptr[c + 1]):
                    left[model.target[t]] += mass * prob[t]
        if moved <= enough:
            break
    return paid


@helper
def _bound_coupled(model, node, values, coupling, cursor, allow):
    """Raise the bound of a node by one that couples the samples, and remove choices that no better policy can take.

    With F_k = `fixed`, h_k = `hit` and Q_k = `total`, for every belief b (see `search.py`)

        max over k of reg_k(π)  ≥  Σ_k b_k F_k + Σ_s min over c of  Σ_k b_k h_k(s) Q_k(c)

    Mass that still moves when the sweeps end only makes it lower. b is improved by exponentiated gradient steps, from
    the best one of the last node.
    """
    samples, count, belief = model.offset.size, cursor.count, coupling.belief
    least = 0.0
    mass = 0.0
    for k in range(samples):
        hit = coupling.hit[k]
        coupling.fixed[k] = _flow(model, k, node, count, values.greedy[k], hit, coupling.left, np.bool_(True))
        least = min(least, model.offset[k])
        belief[k] = max(belief[k], 1e-6)
        mass += belief[k]
    for k in range(samples):
        belief[k] /= mass
        coupling.trial[k] = belief[k]
    size = np.int64(0)
    for a in range(count):
        i = node.live[a]
        met = False
        for k in range(samples):
            met |= coupling.hit[k, i] > 0.0
        if met and node.high[i] - node.low[i] > 1:
            coupling.frontier[size] = i
            size += 1
    best = _improve_belief(node, size, values.total, coupling, cursor.cut)
    # No sum here has more roundings than this, and all its terms are positive.
    safe = 1.0 - (1.0 - model.shrink) * (VISIT_SWEEPS * (count + 8.0) + samples * (size + 8.0))
    cursor.bound = max(cursor.bound, best * safe + least)
    _set_prices(node, size, values.total, coupling, best, safe, least)
    if best * safe + least < cursor.cut:
        _prune(node, size, coupling, cursor.cut, allow)


@helper
def _weighted_total(belief, hit, total, i, c):
    """Return Σ_k b_k h_k(i) Q_k(c)."""
    q = 0.0
    for k in range(belief.size):
        q += belief[k] * hit[k, i] * total[k, c]
    return q


@helper
def _improve_belief(node, size, total, coupling, cut):
    """Return the best coupled bound that a few gradient steps find; `belief` becomes the belief that gives it."""
    trial, paid = coupling.trial, coupling.paid
    samples = trial.size
    best = -np.inf
    for _ in range(BELIEF_ROUNDS):
        bound = 0.0
        for k in range(samples):
            paid[k] = coupling.fixed[k]
            bound += trial[k] * coupling.fixed[k]
        for f in range(size):
            i = coupling.frontier[f]
            lowest = np.inf
            chosen = node.act[node.low[i]]
            for j in range(node.low[i], node.high[i]):
                q = _weighted_total(trial, coupling.hit, total, i, node.act[j])
                if q < lowest:
                    lowest = q
                    chosen = node.act[j]
            bound += lowest
            for k in range(samples):
                paid[k] += coupling.hit[k, i] * total[k, chosen]
        if bound > best:
            best = bound
            for k in range(samples):
                coupling.belief[k] = trial[k]
        if best >= cut or not bound < ENDLESS:
            break
        spread = 0.0
        for k in range(samples):
            paid[k] = min(paid[k], 2.0 * cut)
            spread += trial[k] * (paid[k] - bound) ** 2
        if spread <= 1e-18 * cut * cut:
            break
        step = min((cut - bound) / spread, 4.0 / np.sqrt(spread))
        mass = 0.0
        for k in range(samples):
            trial[k] = max(trial[k] * np.exp(max(min(step * (paid[k] - bound), 5.0), -5.0)), 1e-9)
            mass += trial[k]
        for k in range(samples):
            trial[k] /= mass
    return best


@helper
def _set_prices(node, size, total, coupling, best, safe, least):
    """Compute the coupled bound for each choice of the frontier, as if it was forced upon its place."""
    price = coupling.price
    for f in range(size):
        i = coupling.frontier[f]
        lowest = np.inf
        for j in range(node.low[i], node.high[i]):
            c = node.act[j]
            price[c] = _weighted_total(coupling.belief, coupling.hit, total, i, c)
            lowest = min(lowest, price[c])
        for j in range(node.low[i], node.high[i]):
            c = node.act[j]
            price[c] = (best + (price[c] - lowest)) * safe + least


@helper
def _prune(node, size, coupling, cut, allow):
    """Remove the choices of the frontier that no policy below the cut can take."""
    for f in range(size):
        i = coupling.frontier[f]
        j = node.low[i]
        while j < node.high[i]:
            c = node.act[j]
            if coupling.price[c] >= cut:
                allow[c] = False
                node.high[i] -= 1
                node.act[j] = node.act[node.high[i]]
            else:
                j += 1


@helper
def _choose_place(model, node, count, values, hit, cut, bound):
    """Return the place to branch on, −1 if all are decided; `candidate` becomes a policy that suits all samples.

    With x_k the visits under the greedy choices of sample k, D_k(s0) + x_k(s) (Q_k(c) − D_k(s)) estimates the value of
    sample k when s takes choice c. A soft maximum over the samples makes one number of it, and the sum over choices
    of exp(−rise) estimates how many nodes it takes to branch on s: the place with the smallest sum is taken. Places
    that can be the first undecided one are preferred, since only these are coupled in the bound.
    """
    samples = model.offset.size
    bounded = cut < ENDLESS
    soft = SHARP * (cut if bounded else bound + 1.0)
    room = (cut - bound) / STEEP if bounded else soft
    base = 0.0
    for k in range(samples):
        base += np.exp((values.value[k, model.start] + model.offset[k] - bound) / soft)
    base = soft * np.log(base)
    chosen = -1
    fewest = np.inf
    for a in range(count):
        i = node.live[a]
        node.candidate[i] = node.act[node.low[i]]
        if node.high[i] - node.low[i] < 2:
            continue
        visited = False
        near = not bounded
        for k in range(samples):
            visited |= values.visits[k, i] > 0.0
            near |= hit[k, i] > FIRST
        best = np.inf
        nodes = 0.0
        for j in range(node.low[i], node.high[i]):
            c = node.act[j]
            rise = 0.0
            worst = 0.0
            for k in range(samples):
                weight = values.visits[k, i] if visited else 1.0
                estimate = values.value[k, model.start] + model.offset[k] + weight * values.excess[k, c]
                worst = max(worst, estimate)
                rise += np.exp(min((estimate - bound) / soft, 600.0))
            rise = soft * np.log(rise) - base
            if rise < best:
                best = rise
                node.candidate[i] = c
            if worst < cut:
                nodes += np.exp(-rise / room)
        if not near:
            nodes *= FAR
        if visited and nodes < fewest:
            fewest = nodes
            chosen = i
        elif chosen < 0:
            chosen = i
    return chosen


@helper
def _bound_child(model, node, values, trial, done, price, cursor):
    """Return the bound of the next child, where the place to branch on takes one of its choices.

    Only the samples with another greedy choice there change. Those with the highest estimate come first.
    """
    i, c = cursor.place, node.act[cursor.choice]
    bound = max(cursor.bound, price[c])
    if bound >= cursor.cut:
        return bound
    first, end = node.low[i], node.high[i]
    node.low[i], node.high[i] = cursor.choice, cursor.choice + 1
    for k in range(model.offset.size):
        done[k] = values.greedy[k, i] == c
    while bound < cursor.cut:
        most = -np.inf
        worst = np.int64(-1)
        for k in range(model.offset.size):
            estimate = values.value[k, model.start] + model.offset[k] + values.visits[k, i] * values.excess[k, c]
            if not done[k] and estimate > most:
                most = estimate
                worst = k
        if worst < 0:
            break
        done[worst] = 1
        value = trial[worst]
        for state in range(value.size):
            value[state] = values.value[worst, state]
        tolerance, ceiling = _useful_tolerance(cursor, bound), cursor.cut - model.offset[worst]
        effort = _raise_values(model, worst, node, cursor.count, value, tolerance, ceiling)
        cursor.work += cursor.filled * effort
        bound = max(bound, value[model.start] + model.offset[worst])
    node.low[i], node.high[i] = first, end
    return bound
