"""The hull: lower bounds at points, and what follows for a weight that is a sum of them.

W(s, w), as in `belief_kernels.py`, is concave and homogeneous in the weight w, so it is superadditive, and never falls
when a weight grows. With points (s, w_i) and shares λ_i ≥ 0,

    Σ_i λ_i w_i ≤ w      implies      W(s, w) ≥ Σ_i λ_i W(s, w_i) ≥ Σ_i λ_i (the lower bound of point i)

The best shares are a small linear program, with a row for each sample and a column for each point of the state. A
*point* has a weight that sums to one. An *outcome* of a point is the weight w∘T_t that a transition leads to; its
*links* are points of the next state with their shares. A sum takes a second-order part of the bound away, a single link
(as in a graph of beliefs) a first-order part: where every history has a likelihood of its own, sums need far fewer
points.

The bound of a point follows from its choices, like that of a node: min over c of w·g(c) + Σ_t (the sum of outcome t).
A choice has links only once it is the best by the lower bounds; until then it has the bound of two steps. Weights do
not refer to a belief at the start, so that points stay when the belief moves.

*Upper bounds* are those of vectors (`vector_kernels.py`). Each point and each outcome knows the best vector for it.

*Where to add points.* A weight at the root flows along the best choices and their links; what arrives is the `reach` of
a point. Links pass the gap of an outcome on to the points of its sum. What is left,

    excess = reach · (upper bound of the outcome − Σ_i λ_i · upper bound of point i)  ≥ 0

is due to the sum itself, and vanishes when the outcome becomes a point.

*Trimmed weights.* W(s, w) ≥ W(s, w') for w ≥ w'. A point leaves out the samples that hardly add to the upper bound of
its outcome: a sum has to be below a weight in each sample, and a sample of tiny weight would rule out most points.
"""

from typing import Annotated, NamedTuple

import numpy as np

from rue._arrays import Array
from rue._jit import compiled, declare_rows
from rue.adaptive.belief_kernels import (
    COUNTS,
    EXTRAPOLATE_EVERY,
    FIXED,
    FORBIDDEN,
    LARGEST_MULTIPLE,
    NONE,
    ROUNDED,
    ROWS,
    SAFE,
    STATES,
    SURE,
    _append,
    _dot,
    _older,
    _one_step,
    _scan_vectors,
    _second_step,
    declare_groups,
)
from rue.adaptive.expansion_kernels import _is_same

kernel, helper = compiled(fastmath={"reassoc", "nsz", "contract"})

# The groups of arrays that grow together.
POINTS, ACTIONS, OUTCOMES, LINKS = range(4)
# Weights whose parts differ by at most this fraction are the same point: where a choice is deadly, small parts matter.
SAME = 1e-9
# When an outcome becomes a point, its samples that add least to its upper bound are trimmed: as many as add this part
# of its gap. If that is not enough, it becomes a point with its whole weight.
TRIM = 0.05
# The part of the flow that goes to a point that an outcome has become, while a sum of others is better.
TO_TWIN = 0.5
# The flow ends when this part of it is left, or after this number of passes.
FLOW_LEFT, MOST_PASSES = 1e-3, 100

POINT = np.dtype([
    ("upper", "f8"),
    ("reach", "f8"),  # of the weight at the root, along best choices and links
    ("pending", "f8"),  # reach that has not been passed on
    ("first_action", "i8"),
    ("state", "i4"),
    ("vector", "i4"),  # that gives the upper bound
    ("seen_vectors", "i4"),  # how many vectors of its state have been compared
    ("best", "i4"),  # the best choice by the lower bounds, counted from the first one of the state
    ("older", "i4"),  # the point of the same state before it
])  # fmt: skip
ACTION = np.dtype([
    ("step", "f8"),  # w·g
    ("rest", "f8"),  # lower bound on what follows, while there are no links; -1: not computed
    ("first_outcome", "i8"),  # NONE if there are no links
    ("outcomes", "i4"),
])  # fmt: skip
OUTCOME = np.dtype([
    ("upper", "f8"),
    ("total", "f8"),  # of the weight
    ("twin_total", "f8"),  # of the weight, without what was trimmed
    ("one_step", "f8"),  # the lower bound of one step
    ("point", "i4"),  # whose outcome it is
    ("transition", "i4"),
    ("state", "i4"),
    ("vector", "i4"),
    ("seen_vectors", "i4"),
    ("seen_points", "i4"),  # how many points of its state its links are the best of
    ("programs", "i4"),  # how often it has been linked
    ("twin", "i4"),  # the point with the same weight, up to a factor and to what was trimmed, or NONE
    ("is_whole", "i4"),  # whether nothing was trimmed
])  # fmt: skip

for _name, _dtype in {"HullPoints": POINT, "HullActions": ACTION, "HullOutcomes": OUTCOME}.items():
    ROWS[_name] = _dtype
    declare_rows(_name, _dtype)


class HullArrays(NamedTuple):
    """Points in a list for each state, their choices, the outcomes of these, and links."""

    used: Annotated[Array, "l1", COUNTS]
    at_state: Annotated[Array, "Lists", STATES]
    point: Annotated[Array, "HullPoints", POINTS]
    weight: Annotated[Array, "f2", POINTS]
    lower: Annotated[Array, "f1", POINTS]
    support: Annotated[Array, "l1", POINTS]  # the samples with a positive weight (`_support`)
    action: Annotated[Array, "HullActions", ACTIONS]
    outcome: Annotated[Array, "HullOutcomes", OUTCOMES]
    child: Annotated[Array, "i1", LINKS]  # `links` for each outcome; NONE after the last one
    share: Annotated[Array, "f1", LINKS]
    links: Annotated[int, "int", FIXED]  # the most links of an outcome


declare_groups(HullArrays)


@kernel("GapModel HullArrays VectorLists i1 f2 i1 b1")
def add_points(model, hull, vectors, states, weights, place, is_new):
    """Add points with the bound of one step, except those that are there; set the place of each, and which are new."""
    for i in range(states.size):
        s = states[i]
        place[i] = _find(hull, s, weights[i])
        is_new[i] = place[i] == NONE
        if not is_new[i]:
            continue
        at = _append(hull.point, hull.at_state, hull.used, POINTS, s)
        place[i] = at
        row = hull.point[at]
        for k in range(weights.shape[1]):
            hull.weight[at, k] = weights[i, k]
        row.state = s
        hull.support[at] = _support(weights[i])
        hull.lower[at] = SAFE * _one_step(model, s, weights[i])
        row.upper = np.inf
        row.vector = vectors.fallback[s]
        row.seen_vectors = 0
        row.reach = 0.0
        row.first_action = hull.used[ACTIONS]
        for c in range(model.choice_ptr[s], model.choice_ptr[s + 1]):
            action = hull.action[hull.used[ACTIONS]]
            hull.used[ACTIONS] += 1
            action.step = _dot(weights[i], model.gap[c])
            action.rest = -1.0
            action.first_outcome = NONE
            action.outcomes = model.trans_ptr[c + 1] - model.trans_ptr[c]
        _scan_vectors(hull.point, vectors, at, weights[i])


@helper
def _support(weight):
    """Return a number with a bit for the samples with a positive weight; samples whose bits are the same share one."""
    bits = np.int64(0)
    for k in range(weight.size):
        if weight[k] > 0.0:
            bits |= np.int64(1) << np.int64(k % 64)
    return bits


@helper
def _find(hull, s, weight):
    """Return the point of a state with a weight, or NONE."""
    at = np.int64(hull.at_state[s].newest)
    for _ in range(hull.at_state[s].number):
        if _is_same(hull.weight, at, weight, SAME):
            return at
        at = _older(hull.point, at)
    return np.int64(NONE)


@kernel("GapModel HullArrays VectorLists i1 int")
def open_choices(model, hull, vectors, chosen, first):
    """Choose the best choices of points by the lower bounds, and give those without outcomes their outcomes.

    Return how many were done before the arrays were full.
    """
    scratch = np.empty(hull.weight.shape[1])
    for i in range(first, chosen.size):
        p = chosen[i]
        row = hull.point[p]
        _choose(model, hull, p, scratch)
        action = hull.action[row.first_action + row.best]
        if action.first_outcome != NONE:
            continue
        if hull.used[OUTCOMES] + action.outcomes > hull.outcome.size:
            return i
        action.first_outcome = hull.used[OUTCOMES]
        hull.used[OUTCOMES] += action.outcomes
        begin = model.trans_ptr[model.choice_ptr[row.state] + row.best]
        for j in range(action.outcomes):
            at = action.first_outcome + j
            outcome = hull.outcome[at]
            outcome.point = p
            outcome.transition = begin + j
            outcome.state = model.successor[begin + j]
            outcome.upper = np.inf
            outcome.one_step = 0.0
            outcome.vector = vectors.fallback[outcome.state]
            outcome.seen_vectors = 0
            outcome.seen_points = 0
            outcome.programs = 0
            outcome.twin = NONE
            outcome.is_whole = 0
            hull.child[at * hull.links] = NONE
    return chosen.size


@helper
def _choose(model, hull, p, scratch):
    """Choose the best choice by the lower bounds, once it has the bound of two steps; raise the lower bound."""
    row = hull.point[p]
    actions = model.choice_ptr[row.state + 1] - model.choice_ptr[row.state]
    while True:
        best = np.inf
        for a in range(actions):
            value = _cost_of(hull, p, row.first_action + a)
            if value < best:
                best = value
                row.best = a
        action = hull.action[row.first_action + row.best]
        if action.first_outcome != NONE or action.rest >= 0.0:
            break
        action.rest = _second_step(model, model.choice_ptr[row.state] + row.best, hull.weight[p], scratch)
    hull.lower[p] = max(hull.lower[p], SAFE * best)


@helper
def _cost_of(hull, p, at):
    """Return the lower bound of a choice. A point that is its own child repeats the choice until it leaves."""
    total, again = _cost_once(hull, p, at)
    return total / (1.0 - again) if again < SURE else FORBIDDEN


@helper
def _cost_once(hull, p, at):
    """Return the lower bound of a choice without what leads to the point itself, and the share of that."""
    action = hull.action[at]
    total = action.step
    again = 0.0
    if action.first_outcome == NONE:
        return total + max(action.rest, 0.0), again
    for o in range(action.first_outcome, action.first_outcome + action.outcomes):
        linked = 0.0
        itself = 0.0
        for i in range(o * hull.links, (o + 1) * hull.links):
            child = hull.child[i]
            if child == NONE:
                break
            if child == p:
                itself += hull.share[i]
            else:
                linked += hull.share[i] * hull.lower[child]
        if linked + itself * hull.lower[p] >= hull.outcome[o].one_step:
            total += linked
            again += itself
        else:
            total += hull.outcome[o].one_step
    return total, again


@helper
def _set_weight(model, hull, outcome, weight):
    """Set `weight` to that of an outcome; return its sum."""
    row = hull.outcome[outcome]
    total = 0.0
    for k in range(weight.size):
        weight[k] = hull.weight[row.point, k] * model.prob[row.transition, k]
        total += weight[k]
    return total


@helper
def _excess(hull, outcome):
    """Return the upper bound of an outcome less the sum of those of its links."""
    excess = hull.outcome[outcome].upper
    for i in range(outcome * hull.links, (outcome + 1) * hull.links):
        if hull.child[i] == NONE:
            break
        excess -= hull.share[i] * hull.point[hull.child[i]].upper
    return excess


@kernel("GapModel HullArrays i1 int float")
def relax(model, hull, order, sweeps, tolerance):
    """Back up the lower bounds of points in sweeps, until none rises by more than a fraction.

    In cycles every few sweeps all bounds are raised by a multiple of the last rise, as far as they still follow from
    each other (`belief_kernels.py`).
    """
    scratch = np.empty(hull.weight.shape[1])
    start = np.empty(order.size)
    rise = np.empty(order.size)
    for sweep in range(sweeps):
        rising = False
        for i in range(order.size):
            before = hull.lower[order[i]]
            _choose(model, hull, order[i], scratch)
            start[i] = hull.lower[order[i]]
            rise[i] = start[i] - before
            rising |= rise[i] > before * tolerance
        if not rising:
            break
        if sweep % EXTRAPOLATE_EVERY == EXTRAPOLATE_EVERY - 1:
            times = 1.0
            while times < LARGEST_MULTIPLE and _holds(model, hull, order, start, rise, 4.0 * times):
                times *= 4.0
            for i in range(order.size):
                hull.lower[order[i]] = start[i] + (times * rise[i] if times > 1.0 else 0.0)


@helper
def _holds(model, hull, order, start, rise, times):
    """Raise the lower bounds; return whether each that rises is at most what follows from the others."""
    for i in range(start.size):
        hull.lower[order[i]] = start[i] + times * rise[i]
    for i in range(start.size):
        if rise[i] > 0.0:
            row = hull.point[order[i]]
            best = np.inf
            for a in range(model.choice_ptr[row.state + 1] - model.choice_ptr[row.state]):
                best = min(best, _cost_of(hull, order[i], row.first_action + a))
            lower = hull.lower[order[i]]
            if lower > ROUNDED * SAFE * best or lower > FORBIDDEN:
                return False
    return True


@kernel("HullArrays i1 int")
def flow(hull, order, root):
    """Let a weight of one at the root flow along the best choices and their links, and set the reach of all points."""
    for i in range(order.size):
        hull.point[order[i]].reach = 0.0
        hull.point[order[i]].pending = 0.0
    hull.point[root].pending = 1.0
    for _ in range(MOST_PASSES):
        left = 0.0
        total = 0.0
        for i in range(order.size):
            row = hull.point[order[i]]
            total += row.reach
            moved = row.pending
            if moved == 0.0:
                continue
            row.pending = 0.0
            row.reach += moved
            action = hull.action[row.first_action + row.best]
            if action.first_outcome == NONE:
                continue
            for o in range(action.first_outcome, action.first_outcome + action.outcomes):
                # A point whose own bound is not yet better than the sum has to be reached, or it never will be.
                twin = hull.outcome[o].twin
                given = moved
                if twin != NONE and hull.child[o * hull.links] != twin:
                    given = (1.0 - TO_TWIN) * moved
                    hull.point[twin].pending += TO_TWIN * moved * hull.outcome[o].twin_total
                    left += TO_TWIN * moved * hull.outcome[o].twin_total
                for j in range(o * hull.links, (o + 1) * hull.links):
                    if hull.child[j] == NONE:
                        break
                    hull.point[hull.child[j]].pending += given * hull.share[j]
                    left += given * hull.share[j]
        if left <= FLOW_LEFT * total:
            break


@kernel("HullArrays i1 l1 f1 f1")
def list_outcomes(hull, chosen, outcome, excess, missing):
    """List the outcomes of the best choices of points whose sums lose something, how much, and what a point would gain.

    Return how many.
    """
    count = 0
    for i in range(chosen.size):
        row = hull.point[chosen[i]]
        action = hull.action[row.first_action + row.best]
        if action.first_outcome == NONE:
            continue
        for o in range(action.first_outcome, action.first_outcome + action.outcomes):
            lost = row.reach * _excess(hull, o)
            # Where time was short, an outcome may have no links yet.
            if lost > 0.0 and hull.outcome[o].programs > 0:
                outcome[count] = o
                excess[count] = lost
                missing[count] = lost
                twin = hull.outcome[o].twin
                if hull.outcome[o].is_whole:
                    missing[count] = 0.0
                elif twin != NONE:
                    trimmed = hull.outcome[o].upper - hull.outcome[o].twin_total * hull.point[twin].upper
                    missing[count] = min(lost, row.reach * trimmed)
                count += 1
    return count


@kernel("GapModel HullArrays VectorLists l1 f2")
def set_weights(model, hull, vectors, chosen, weights):
    """Set the weights of outcomes, divided by their sums, without the samples that add little to the upper bound.

    With fewer samples a point is of use for more weights: a sum needs all of its points to be below the weight, in each
    sample. An outcome that has been a point already gets its whole weight.
    """
    adds = np.empty(weights.shape[1])
    for i in range(chosen.size):
        outcome = hull.outcome[chosen[i]]
        total = _set_weight(model, hull, chosen[i], weights[i])
        trimmed = 0.0
        if outcome.twin == NONE and outcome.upper < FORBIDDEN:
            trimmed = _trim(hull, vectors, chosen[i], weights[i], adds)
        outcome.is_whole = trimmed == 0.0
        outcome.twin_total = total - trimmed
        for k in range(weights.shape[1]):
            weights[i, k] /= outcome.twin_total


@helper
def _trim(hull, vectors, o, weight, adds):
    """Trim the samples of a weight that add least to the upper bound of an outcome; return what they weigh."""
    outcome = hull.outcome[o]
    left = outcome.upper
    for i in range(o * hull.links, (o + 1) * hull.links):
        if hull.child[i] == NONE:
            break
        left -= hull.share[i] * hull.lower[hull.child[i]]
    left *= TRIM
    for k in range(weight.size):
        adds[k] = weight[k] * vectors.alpha[outcome.vector, k] if weight[k] > 0.0 else np.inf
    trimmed = 0.0
    while True:
        least = np.int64(0)
        for k in range(weight.size):
            if adds[k] < adds[least]:
                least = k
        if adds[least] > left:
            return trimmed
        left -= adds[least]
        trimmed += weight[least]
        adds[least] = np.inf
        weight[least] = 0.0
