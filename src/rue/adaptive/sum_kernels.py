"""Sums of points: the linear programs of the hull, the belief nearest to another one, and the proof of a bound.

The best sum of points below a weight w (`hull_kernels.py`) is a program with a row for each sample k with w_k > 0 and a
column for each point i of the state:

    maximise Σ_i λ_i · lower_i     subject to     Σ_i λ_i w_ik / w_k ≤ 1 for each k,  λ ≥ 0

The simplex method begins with the links that are there. It has some rows and up to some thousand columns; a few pivots
are enough. Whatever it finds, the shares are divided by the largest row, so that no rounding makes a sum too large.
"""

from typing import NamedTuple

import numpy as np

from rue._arrays import Array
from rue._jit import declare
from rue.adaptive.belief_kernels import HUGE, NONE, SAFE, _older, _one_step, _scan_vectors
from rue.adaptive.hull_kernels import OUTCOMES, _cost_once, _set_weight, _support, helper, kernel

# Parts of a weight below this fraction of it are left out of a sum.
LEAST_PART = 1e-13
# Smaller shares count as zero. No certificate has a share below the second number.
LEAST_SHARE, LEAST_KEPT = 1e-25, 1e-29
# A column enters a program if it raises the value by this fraction; a pivot is at least this large.
GAIN, PIVOT = 1e-6, 1e-10
# Columns that are kept for the next pivots after all points were compared, and the most pivots for each row.
CANDIDATES, MOST_PIVOTS = 16, 6
# One in this many programs of an outcome looks at all points, the others at the new ones only.
LOOK_AT_ALL = 4
# A weight is that of a point, up to a factor, if they differ by this fraction.
SAME_WEIGHT = 1e-13
# The parts left out of a proof stay below their limit by this fraction.
SHORT = 1e-9
# The search for the nearest belief ends when it moves less than this.
NEARLY = 1e-7


class Tableau(NamedTuple):
    """Room for one linear program: R rows at most."""

    row: Array  # [R] the samples with a positive weight
    basis: Array  # [R] a point; −1 − i: what is left over in row i
    inverse: Array  # [R, R] of the basis
    share: Array  # [R] of the basis
    price: Array  # [R] of the rows
    slope: Array  # [R] prices by sample
    column: Array  # [R]
    candidate: Array
    gain: Array


declare(Tableau, "l1 l1 f2 f1 f1 f1 f1 l1 f1")


@kernel("GapModel HullArrays VectorLists Tableau l1 int int")
def link(model, hull, vectors, tableau, chosen, first, last):
    """Link outcomes again. Different outcomes may be done at the same time."""
    weight = np.empty(hull.weight.shape[1])
    for i in range(first, last):
        at = chosen[i]
        outcome = hull.outcome[at]
        outcome.programs += 1
        outcome.total = _set_weight(model, hull, at, weight)
        if outcome.total == 0.0 or model.choice_ptr[outcome.state] == model.choice_ptr[outcome.state + 1]:
            outcome.upper = 0.0
            continue
        _scan_vectors(hull.outcome, vectors, at, weight)
        outcome.one_step = SAFE * _one_step(model, np.int64(outcome.state), weight)
        if _leads_back(hull, weight, at):
            continue
        for k in range(weight.size):
            if weight[k] < LEAST_PART * outcome.total:
                weight[k] = 0.0
        _solve(hull, tableau, np.int64(outcome.state), weight, at)
        _keep_links(hull, tableau, weight, at)


@helper
def _leads_back(hull, weight, at):
    """Link an outcome to its own point if it has the same state and weight, up to a factor; return whether it has.

    No sum is better. But one may seem to be, as long as the bound of the point is low: then a free circle would cost
    nothing, and the bound would stay low.
    """
    outcome = hull.outcome[at]
    if hull.point[outcome.point].state != outcome.state:
        return False
    share = np.inf
    for k in range(weight.size):
        if hull.weight[outcome.point, k] > 0.0:
            share = min(share, weight[k] / hull.weight[outcome.point, k])
    if share < (1.0 - SAME_WEIGHT) * outcome.total:
        return False
    hull.child[at * hull.links] = outcome.point
    hull.share[at * hull.links] = SAFE * share
    if hull.links > 1:
        hull.child[at * hull.links + 1] = NONE
    outcome.twin = outcome.point
    outcome.twin_total = outcome.total
    outcome.is_whole = 1
    return True


@helper
def _solve(hull, tableau, s, weight, outcome):
    """Find the best sum below a weight, by the simplex method, from the links that are there.

    Only new points are looked at, and now and then all of them, since lower bounds rise.
    """
    row = hull.outcome[outcome]
    number = hull.at_state[s].number
    if row.programs % LOOK_AT_ALL != 1:
        number -= row.seen_points
    row.seen_points = hull.at_state[s].number
    outside = ~_support(weight)
    rows = 0
    for k in range(weight.size):
        tableau.slope[k] = HUGE
        if weight[k] > 0.0:
            tableau.row[rows] = k
            rows += 1
    for i in range(rows):
        tableau.basis[i] = -1 - i
        tableau.share[i] = 1.0
        for j in range(rows):
            tableau.inverse[i, j] = 1.0 if i == j else 0.0
    for i in range(outcome * hull.links, (outcome + 1) * hull.links):
        if hull.child[i] == NONE:
            break
        _enter(hull, tableau, rows, weight, np.int64(hull.child[i]))
    found = 0
    for _ in range(MOST_PIVOTS * rows + 2 * CANDIDATES):
        value = _set_prices(hull, tableau, rows, weight)
        least = np.int64(0)
        for i in range(rows):
            if tableau.price[i] < tableau.price[least]:
                least = i
        if tableau.price[least] < -GAIN * value:
            _enter(hull, tableau, rows, weight, -1 - least)
            continue
        enter = _best_candidate(hull, tableau, found, value)
        if enter == NONE:
            found = _look(hull, tableau, s, number, value, outside)
            enter = _best_candidate(hull, tableau, found, value)
        if enter == NONE or not _enter(hull, tableau, rows, weight, enter):
            break
    if rows < weight.size:
        tableau.row[rows] = NONE


@helper
def _set_prices(hull, tableau, rows, weight):
    """Set the prices of the rows, and the slope of the best sum in each sample; return its value."""
    value = 0.0
    for j in range(rows):
        total = 0.0
        for i in range(rows):
            if tableau.basis[i] >= 0:
                total += hull.lower[tableau.basis[i]] * tableau.inverse[i, j]
        tableau.price[j] = total
        tableau.slope[tableau.row[j]] = total / weight[tableau.row[j]]
        value += total
    return value


@helper
def _gain(hull, tableau, p):
    """Return the lower bound of a point less what the prices say."""
    total = hull.lower[p]
    for k in range(tableau.slope.size):
        total -= hull.weight[p, k] * tableau.slope[k]
    return total


@helper
def _look(hull, tableau, s, number, value, outside):
    """List those of the newest points of a state that gain most; return how many.

    Points with a weight `outside` of the samples of the program are no candidates.
    """
    found = 0
    least = GAIN * value
    at = np.int64(hull.at_state[s].newest)
    for _ in range(number):
        gain = _gain(hull, tableau, at) if hull.support[at] & outside == 0 else 0.0
        if gain > least:
            i = found
            if found < CANDIDATES:
                found += 1
            else:
                i = 0
                for j in range(CANDIDATES):
                    if tableau.gain[j] < tableau.gain[i]:
                        i = j
                least = tableau.gain[i]
            if gain > least:
                tableau.candidate[i] = at
                tableau.gain[i] = gain
        at = _older(hull.point, at)
    return found


@helper
def _best_candidate(hull, tableau, found, value):
    """Return the candidate that gains most, or NONE."""
    best = GAIN * value
    enter = np.int64(NONE)
    for i in range(found):
        gain = _gain(hull, tableau, tableau.candidate[i])
        if gain > best:
            best = gain
            enter = tableau.candidate[i]
    return enter


@helper
def _enter(hull, tableau, rows, weight, enter):
    """Let a point (or −1 − i: what is left over in row i) into the basis; return whether it could."""
    leave = np.int64(NONE)
    least = np.inf
    for i in range(rows):
        total = 0.0
        if enter >= 0:
            for j in range(rows):
                k = tableau.row[j]
                total += tableau.inverse[i, j] * hull.weight[enter, k] / weight[k]
        else:
            total = tableau.inverse[i, -1 - enter]
        tableau.column[i] = total
        if total > PIVOT and tableau.share[i] < least * total:
            least = tableau.share[i] / total
            leave = i
    if leave == NONE:
        return False
    pivot = tableau.column[leave]
    tableau.share[leave] /= pivot
    for j in range(rows):
        tableau.inverse[leave, j] /= pivot
    for i in range(rows):
        if i != leave:
            factor = tableau.column[i]
            for j in range(rows):
                tableau.inverse[i, j] -= factor * tableau.inverse[leave, j]
            tableau.share[i] = max(tableau.share[i] - factor * tableau.share[leave], 0.0)
    tableau.basis[leave] = enter
    return True


@helper
def _keep_links(hull, tableau, weight, outcome):
    """Keep the links of a program that are worth most, with shares that are safely below the weight.

    They take the place of the old ones if they are better.
    """
    rows = 0
    while rows < weight.size and tableau.row[rows] != NONE:
        rows += 1
    count = _most_valuable(hull, tableau, rows)
    most = 1.0
    for i in range(rows):
        k = tableau.row[i]
        total = 0.0
        for j in range(count):
            total += tableau.share[j] * hull.weight[tableau.basis[j], k]
        most = max(most, total / weight[k])
    value = 0.0
    for j in range(count):
        tableau.share[j] *= SAFE / most
        if tableau.share[j] < LEAST_KEPT:  # rounding errors spoiled the solution
            return
        value += tableau.share[j] * hull.lower[tableau.basis[j]]
    first = outcome * hull.links
    old = 0.0
    for i in range(first, first + hull.links):
        if hull.child[i] == NONE:
            break
        old += hull.share[i] * hull.lower[hull.child[i]]
    if value > old:
        for j in range(count):
            hull.child[first + j] = tableau.basis[j]
            hull.share[first + j] = tableau.share[j]
        if count < hull.links:
            hull.child[first + count] = NONE


@helper
def _most_valuable(hull, tableau, rows):
    """Move the points of a basis with the largest worth to its front; return how many there are."""
    for count in range(min(hull.links, rows)):
        best = 0.0
        arg = np.int64(NONE)
        for i in range(count, rows):
            if (
                tableau.basis[i] >= 0
                and tableau.share[i] > LEAST_SHARE
                and tableau.share[i] * hull.lower[tableau.basis[i]] > best
            ):
                best = tableau.share[i] * hull.lower[tableau.basis[i]]
                arg = i
        if arg == NONE:
            return count
        point = tableau.basis[arg]
        share = tableau.share[arg]
        tableau.basis[arg] = tableau.basis[count]
        tableau.share[arg] = tableau.share[count]
        tableau.basis[count] = point
        tableau.share[count] = share
    return np.int64(min(hull.links, rows))


@kernel("f2 float f1 int")
def nearest_above(cuts, level, anchor, most):
    """Return the belief nearest to an anchor at which each cut, a row of regrets, is at least `level`; nearly so.

    Hildreth's method: the multipliers of one constraint after the other are set to their best values.
    """
    samples = anchor.size
    number = cuts.shape[0]
    belief = anchor.copy()
    multiplier = np.zeros(number + samples)
    for _ in range(most):
        moved = 0.0
        for j in range(number + samples):
            # In the plane of all beliefs: normals without their mean. A cut, less its level, or a belief of zero.
            mean = 0.0
            value = 0.0
            square = 0.0
            if j < number:
                for k in range(samples):
                    mean += cuts[j, k] / samples
                for k in range(samples):
                    value += (cuts[j, k] - level) * belief[k]
                    square += (cuts[j, k] - mean) ** 2
            else:
                mean = 1.0 / samples
                value = belief[j - number]
                square = 1.0 - mean
            if square <= 0.0:
                continue
            change = max(-value / square, -multiplier[j])
            multiplier[j] += change
            for k in range(samples):
                normal = cuts[j, k] if j < number else (1.0 if k == j - number else 0.0)
                belief[k] += change * (normal - mean)
            moved = max(moved, abs(change) * np.sqrt(square))
        if moved < NEARLY:
            break
    return belief


@kernel("GapModel HullArrays i1 i1 i1 l1 i1 f1")
def list_hull_proof(model, hull, points, number, follow, sum_ptr, sum_point, sum_share):
    """List the points that the lower bound of a root follows from, and for each of their outcomes a point or a sum.

    The root is the first of `points`. A sum q is written as −2 − q. Bounds that are not needed are left out. `number`
    is NONE everywhere, and becomes the place of each point in the list. Return how many points, followers and sums are
    listed.
    """
    number[points[0]] = 0
    count = 1
    i = 0
    at = 0
    sums = 0
    sum_ptr[0] = 0
    while i < count:
        p = points[i]
        row = hull.point[p]
        for a in range(model.choice_ptr[row.state + 1] - model.choice_ptr[row.state]):
            action = hull.action[row.first_action + a]
            total, again = _cost_once(hull, p, row.first_action + a)
            spare = total - (1.0 - again) * hull.lower[p] / SAFE
            for j in range(action.outcomes):
                follow[at] = NONE
                at += 1
                if action.first_outcome == NONE:
                    continue
                first = (action.first_outcome + j) * hull.links
                links = 0
                worth = 0.0
                while links < hull.links and hull.child[first + links] != NONE:
                    worth += hull.share[first + links] * hull.lower[hull.child[first + links]]
                    links += 1
                one_step = hull.outcome[action.first_outcome + j].one_step
                # What is large, as where all policies are lost, may hide in rounding that it is needed.
                if links == 0 or worth < one_step or worth - one_step <= spare * (1.0 - SHORT):
                    spare -= max(worth - one_step, 0.0)
                    continue
                for e in range(first, first + links):
                    child = hull.child[e]
                    if number[child] == NONE:
                        number[child] = count
                        points[count] = child
                        count += 1
                if links == 1:
                    follow[at - 1] = number[hull.child[first]]
                else:
                    follow[at - 1] = -2 - sums
                    for e in range(first, first + links):
                        sum_point[sum_ptr[sums] + e - first] = number[hull.child[e]]
                        sum_share[sum_ptr[sums] + e - first] = hull.share[e]
                    sum_ptr[sums + 1] = sum_ptr[sums] + links
                    sums += 1
        i += 1
    return count, at, sums


@kernel("HullArrays")
def count_links(hull):
    """Return how many links there are."""
    total = 0
    for o in range(hull.used[OUTCOMES]):
        for i in range(o * hull.links, (o + 1) * hull.links):
            if hull.child[i] == NONE:
                break
            total += 1
    return total
