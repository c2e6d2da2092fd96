"""Upper bounds of the hull: new vectors at points, at the initial state for any belief, and where trials lead.

A vector is a choice and a vector for each of its outcomes (`belief_kernels.py`); the best one of each outcome gives the
best vector of a point by one more step.

*Trials.* Points lie where the choices that are best by the lower bounds lead. A good policy takes others. A trial is a
simulated history of the policy that looks one step ahead by the known vectors; the beliefs that it met get new vectors,
the last one first.
"""

from typing import NamedTuple

import numpy as np

from rue._arrays import Array
from rue._jit import declare
from rue.adaptive.belief_kernels import (
    BLOCK,
    FOLLOWERS,
    FORBIDDEN,
    HUGE,
    NONE,
    VECTORS,
    WORTH,
    _add_vector,
    _best_vector,
    _dot,
    _older,
    _scan_vectors,
)
from rue.adaptive.hull_kernels import _set_weight, helper, kernel

# Weights of one state for which the best vectors are found together.
TOGETHER = 16
# A trial ends where the regret that is left is this part of that at the start; a vector is added where it is lower by
# this fraction.
LEAST_VALUE, LEAST_GAIN = 1e-3, 0.005


class Trial(NamedTuple):
    """The states, weights and choices of a simulated history."""

    state: Array
    choice: Array
    weight: Array
    lasts: int  # the batch of trials until which the vectors that were met are not pruned


class TreeNodes(NamedTuple):
    """The nodes of a tree of histories, parents before children."""

    state: Array
    weight: Array
    value: Array  # regret of the best known vector
    vector: Array
    choice: Array  # NONE if it is not expanded
    child: Array  # the first one


declare(Trial, "l1 l1 f2 int")
declare(TreeNodes, "l1 f2 f1 l1 l1 l1")


@kernel("HullArrays VectorLists i1 int int")
def scan_points(hull, vectors, chosen, first, last):
    """Compare points with the new vectors of their states. Different points may be done at the same time."""
    for i in range(first, last):
        _scan_vectors(hull.point, vectors, np.int64(chosen[i]), hull.weight[chosen[i]])


@kernel("GapModel HullArrays VectorLists i1")
def backup_upper(model, hull, vectors, chosen):
    """Make new vectors of the best choices by the upper bounds, where they lower the upper bounds of points enough.

    Return how many were done before the arrays were full.
    """
    alpha = np.empty(hull.weight.shape[1])
    for i in range(chosen.size):
        p = chosen[i]
        row = hull.point[p]
        _scan_outcomes(model, hull, vectors, p, np.int64(row.best), alpha)
        a, best = _best_upper(model, hull, p)
        is_other = a != row.best
        if a != NONE and is_other:
            _scan_outcomes(model, hull, vectors, p, a, alpha)
            a, best = _best_upper(model, hull, p)
        if a == NONE or not best < row.upper - WORTH * (row.upper - hull.lower[p]) - 1e-11 * row.upper:
            continue
        c = model.choice_ptr[row.state] + a
        if not _has_room(model, vectors, c):
            return i
        first = hull.action[row.first_action + a].first_outcome
        for j in range(model.trans_ptr[c + 1] - model.trans_ptr[c]):
            vectors.follower[vectors.used[FOLLOWERS] + j] = hull.outcome[first + j].vector
        _combine(model, vectors, c, alpha)
        total = _dot(hull.weight[p], alpha)
        if total < row.upper:
            row.upper = total
            row.vector = _add_combined(model, vectors, row.state, c, alpha)
    return chosen.size


@helper
def _scan_outcomes(model, hull, vectors, p, a, weight):
    """Compare the outcomes of a choice with the new vectors of their states."""
    row = hull.point[p]
    action = hull.action[row.first_action + a]
    if action.first_outcome == NONE:
        return
    for at in range(action.first_outcome, action.first_outcome + action.outcomes):
        if hull.outcome[at].upper > 0.0:
            _set_weight(model, hull, at, weight)
            _scan_vectors(hull.outcome, vectors, at, weight)


@helper
def _best_upper(model, hull, p):
    """Return the choice with links that has the least upper bound, or NONE, and that bound."""
    row = hull.point[p]
    best = np.inf
    arg = np.int64(NONE)
    for a in range(model.choice_ptr[row.state + 1] - model.choice_ptr[row.state]):
        action = hull.action[row.first_action + a]
        if action.first_outcome != NONE:
            total = action.step
            for o in range(action.first_outcome, action.first_outcome + action.outcomes):
                total += hull.outcome[o].upper
            if total < best:
                best = total
                arg = a
    return arg, best


@helper
def _has_room(model, vectors, c):
    """Return whether there is room for one more vector of a choice."""
    followers = vectors.used[FOLLOWERS] + model.trans_ptr[c + 1] - model.trans_ptr[c]
    return vectors.used[VECTORS] + 2 * BLOCK <= vectors.vector.size and followers <= vectors.follower.size


@helper
def _combine(model, vectors, c, alpha):
    """Set `alpha` to the regrets of a choice and then those of its followers, which are listed after the last ones."""
    for k in range(alpha.size):
        alpha[k] = model.gap[c, k] if model.gap[c, k] < FORBIDDEN else HUGE
    for j in range(model.trans_ptr[c + 1] - model.trans_ptr[c]):
        t = model.trans_ptr[c] + j
        to = model.successor[t]
        at = vectors.used[FOLLOWERS] + j
        if model.choice_ptr[to] == model.choice_ptr[to + 1]:
            vectors.follower[at] = NONE
            continue
        for k in range(alpha.size):
            if vectors.alpha[vectors.follower[at], k] < HUGE:
                alpha[k] += model.prob[t, k] * vectors.alpha[vectors.follower[at], k]
            elif model.prob[t, k] > 0.0:
                alpha[k] = HUGE


@helper
def _add_combined(model, vectors, s, c, alpha):
    """Add the vector of a choice and its followers; return its number."""
    v = _add_vector(vectors, s, np.int32(c), alpha)
    vectors.vector[v].first_follower = vectors.used[FOLLOWERS]
    vectors.used[FOLLOWERS] += model.trans_ptr[c + 1] - model.trans_ptr[c]
    return v


@kernel("GapModel VectorLists int f1")
def answer(model, vectors, s, weight):
    """Add the best vector of a state for a weight that follows from the vectors of the next states; return its value.

    It is infinite if there is no room for a vector.
    """
    alpha = np.empty(weight.size)
    scratch = np.empty(weight.size)
    c, value = _best_choice(model, vectors, s, weight, scratch)
    if not _has_room(model, vectors, c):
        return np.inf
    _add_answer(model, vectors, s, c, weight, np.inf, alpha, scratch)
    return value


@kernel("VectorLists l1 f2 l1 f1 l1")
def find_vectors(vectors, state, weight, order, value, vector):
    """Find the best vectors of states for weights, which are listed in the order of their states.

    Weights of the same state are compared with a vector together. Different ones may be done at the same time.
    """
    samples = weight.shape[1]
    turned = np.empty((samples, TOGETHER))
    total = np.empty(TOGETHER)
    first = 0
    while first < order.size:
        s = state[order[first]]
        last = first + 1
        while last < order.size and last < first + TOGETHER and state[order[last]] == s:
            last += 1
        if vectors.at_state[s].number > 0:
            for i in range(first, last):
                value[order[i]] = np.inf
                for k in range(samples):
                    turned[k, i - first] = weight[order[i], k]
            _find_together(vectors, s, turned, total, order[first:last], value, vector)
        first = last


@helper
def _find_together(vectors, s, turned, total, order, value, vector):
    """Find the best vectors of one state for a few weights, which are the columns of `turned`."""
    number = order.size
    at = np.int64(vectors.at_state[s].newest)
    for _ in range(vectors.at_state[s].number):
        for i in range(number):
            total[i] = 0.0
        for k in range(turned.shape[0]):
            regret = vectors.alpha[np.uint64(at), k]
            for i in range(number):
                total[i] += regret * turned[k, i]
        for i in range(number):
            if total[i] < value[order[i]]:
                value[order[i]] = total[i]
                vector[order[i]] = at
        at = _older(vectors.vector, at)


@kernel("GapModel VectorLists TreeNodes float int")
def back_up_tree(model, vectors, tree, gain, lasts):
    """Give expanded nodes the vectors of their choices and children, if they are better by `gain`, children first.

    Return how many nodes are left when there is no room.
    """
    alpha = np.empty(tree.weight.shape[1])
    for i in range(tree.state.size - 1, -1, -1):
        c = tree.choice[i]
        if c == NONE:
            continue
        if not _has_room(model, vectors, c):
            return i
        for j in range(model.trans_ptr[c + 1] - model.trans_ptr[c]):
            vectors.follower[vectors.used[FOLLOWERS] + j] = tree.vector[tree.child[i] + j]
        _combine(model, vectors, c, alpha)
        total = _dot(tree.weight[i], alpha)
        if total < tree.value[i] - gain:
            tree.value[i] = total
            tree.vector[i] = _add_combined(model, vectors, tree.state[i], c, alpha)
            vectors.vector[tree.vector[i]].lasts = lasts
    return 0


@kernel("GapModel VectorLists int f1 f2 Trial float")
def follow_trials(model, vectors, initial, belief, draw, trial, most):
    """Simulate the policy that looks one step ahead by the known vectors, and back up the beliefs that it meets.

    Each row of `draw` is a trial, one number for each step. What it met is backed up from the last step to the first.
    Return how many trials were made before about `most` numbers had been read.
    """
    alpha = np.empty(belief.size)
    scratch = np.empty(belief.size)
    work = 0.0
    for i in range(draw.shape[0]):
        s = np.int64(initial)
        steps = 0
        least = 0.0
        for k in range(belief.size):
            trial.weight[0, k] = belief[k]
        while steps < draw.shape[1] and model.choice_ptr[s] < model.choice_ptr[s + 1]:
            for t in range(model.trans_ptr[model.choice_ptr[s]], model.trans_ptr[model.choice_ptr[s + 1]]):
                work += 2.0 * vectors.at_state[model.successor[t]].number * belief.size
            c, value = _best_choice(model, vectors, s, trial.weight[steps], scratch)
            if value <= least:
                break
            if steps == 0:
                least = LEAST_VALUE * value
            trial.state[steps] = s
            trial.choice[steps] = c
            steps += 1
            t = _draw_outcome(model, c, trial.weight, steps, draw[i, steps - 1])
            s = np.int64(model.successor[t])
        for j in range(steps - 1, -1, -1):
            s = trial.state[j]
            v, value = _best_follower(vectors, s, trial.weight[j])
            if not _has_room(model, vectors, trial.choice[j]):
                return i
            enough = value * (1.0 - LEAST_GAIN)
            new = _add_answer(model, vectors, s, trial.choice[j], trial.weight[j], enough, alpha, scratch)
            row = vectors.vector[v if new == NONE else new]
            row.lasts = max(row.lasts, trial.lasts)
        if work > most:
            return i + 1
    return draw.shape[0]


@helper
def _draw_outcome(model, c, weights, step, draw):
    """Return an outcome of a choice with the probability that the weight before gives it; set the weight after it."""
    last = model.trans_ptr[c]
    total = 0.0
    for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
        probability = _dot(weights[step - 1], model.prob[t])
        if probability > 0.0:
            last = t
            total = probability
            draw -= probability
            if draw < 0.0:
                break
    for k in range(weights.shape[1]):
        weights[step, k] = weights[step - 1, k] * model.prob[last, k] / total
    return last


@helper
def _best_choice(model, vectors, s, weight, scratch):
    """Return the best choice of a state for a weight by the vectors of the next states, and its value."""
    best = np.inf
    arg = model.choice_ptr[s]
    for c in range(model.choice_ptr[s], model.choice_ptr[s + 1]):
        total = _dot(weight, model.gap[c])
        for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
            if total >= best:
                break
            for k in range(weight.size):
                scratch[k] = weight[k] * model.prob[t, k]
            _, value = _best_follower(vectors, model.successor[t], scratch)
            total += value
        if total < best:
            best = total
            arg = c
    return arg, best


@helper
def _add_answer(model, vectors, s, c, weight, enough, alpha, scratch):
    """Add the best vector of a choice for a weight if its value is below `enough`; return its number, or NONE."""
    for j in range(model.trans_ptr[c + 1] - model.trans_ptr[c]):
        t = model.trans_ptr[c] + j
        for k in range(weight.size):
            scratch[k] = weight[k] * model.prob[t, k]
        vectors.follower[vectors.used[FOLLOWERS] + j], _ = _best_follower(vectors, model.successor[t], scratch)
    _combine(model, vectors, c, alpha)
    return np.int64(_add_combined(model, vectors, s, c, alpha) if _dot(weight, alpha) < enough else NONE)


@helper
def _best_follower(vectors, s, weight):
    """Return the best vector of a state for a weight, and its value; NONE and 0 at a goal."""
    number = vectors.at_state[s].number
    if number == 0:
        return np.int64(NONE), 0.0
    return _best_vector(vectors, s, weight, number, np.int64(NONE), np.inf)
