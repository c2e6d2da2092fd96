"""Gaps of a sample, and the check of a certificate's points: plain sums in the order written, not reassociated."""

from typing import NamedTuple

import numpy as np

from rue._arrays import Array
from rue._jit import declare, helper, kernel


class GapModel(NamedTuple):
    """A model with gaps in place of costs."""

    choice_ptr: Array  # [S+1]
    trans_ptr: Array  # [C+1]
    successor: Array  # [T]
    prob: Array  # [T, K]
    gap: Array  # [C, K] rounded down; a large number where the gap is infinite


class Claims(NamedTuple):
    """The points of a certificate: each claims a lower bound at a state for weights on the samples."""

    state: Array  # [P]
    weight: Array  # [P, K]
    value: Array  # [P]
    follow: Array  # for each point the followers of all transitions of its state, -1 if there is none
    follow_ptr: Array  # [P+1]
    sum_ptr: Array  # [Q+1] a follower P + q is a sum of points with shares
    sum_point: Array
    sum_share: Array


declare(GapModel, "L1 L1 I1 F2 f2")
declare(Claims, "I1 F2 F1 I1 l1 L1 I1 F1")


@kernel("GapModel Claims float int int b1")
def check_points(model, claims, keep, first, last, holds):
    """Set `holds` for the points of a range that claim at most the fraction `keep` of the bound from their followers.

    A point holds if each choice of its state costs at least its value. Terms are never negative, so a sum that is large
    enough is not continued. Different ranges may be checked at the same time.
    """
    samples = claims.weight.shape[1]
    ahead = np.empty(samples)
    for i in range(first, last):
        s = claims.state[i]
        value = claims.value[i]
        begin = model.trans_ptr[model.choice_ptr[s]]
        holds[i] = model.choice_ptr[s] < model.choice_ptr[s + 1] or value <= 0.0
        for c in range(model.choice_ptr[s], model.choice_ptr[s + 1]):
            total = 0.0
            for k in range(samples):
                total += claims.weight[i, k] * model.gap[c, k]
            t = model.trans_ptr[c]
            while t < model.trans_ptr[c + 1] and not total * keep >= value:
                for k in range(samples):
                    ahead[k] = claims.weight[i, k] * model.prob[t, k]
                point = claims.follow[claims.follow_ptr[i] + t - begin]
                if point >= 0:
                    total += _proved(claims, ahead, point)
                else:
                    total += _one_step(model.choice_ptr, model.gap, model.successor[t], ahead)
                t += 1
            if not total * keep >= value:
                holds[i] = False
                break


@helper
def _proved(claims, weight, follower):
    """Return what a point, or a sum of points, proves for a weight."""
    if follower < claims.value.size:
        return claims.value[follower] * _least_ratio(weight, claims.weight[follower])
    first = claims.sum_ptr[follower - claims.value.size]
    last = claims.sum_ptr[follower - claims.value.size + 1]
    value = 0.0
    for i in range(first, last):
        value += claims.sum_share[i] * claims.value[claims.sum_point[i]]
    least = np.inf
    for k in range(weight.size):
        other = 0.0
        for i in range(first, last):
            other += claims.sum_share[i] * claims.weight[claims.sum_point[i], k]
        if other > 0.0:
            least = min(least, weight[k] / other)
    return value * least


@helper
def _least_ratio(weight, other):
    """Return min over k of weight[k] / other[k], where the latter is positive."""
    least = np.inf
    for k in range(weight.size):
        if other[k] > 0.0:
            least = min(least, weight[k] / other[k])
    return least


@helper
def _one_step(choice_ptr, gap, s, weight):
    """Return the lower bound of one step: min over choices c of the state of weight · gap[c]; 0 at a goal."""
    least = np.inf
    for c in range(choice_ptr[s], choice_ptr[s + 1]):
        total = 0.0
        for k in range(weight.size):
            total += weight[k] * gap[c, k]
        least = min(least, total)
    return least if choice_ptr[s] < choice_ptr[s + 1] else 0.0


@kernel("L1 I1 I1 f1 f1 f1")
def drift(trans_ptr, choice_state, successor, prob, value, paid):
    """Return what each choice pays plus the rise of the value, the sum of the sizes of its terms, and if it may fall.

    Differences are taken first: what the value is does not matter, nor does a self-loop.
    """
    total = np.empty(paid.size)
    size = np.empty(paid.size)
    falls = np.zeros(paid.size, np.bool_)
    for c in range(paid.size):
        here = value[choice_state[c]]
        up = 0.0
        down = 0.0
        for t in range(trans_ptr[c], trans_ptr[c + 1]):
            rise = value[successor[t]] - here
            if rise >= 0.0:
                up += prob[t] * rise
            else:
                down -= prob[t] * rise
                falls[c] = falls[c] or prob[t] > 0.0
        total[c] = paid[c] + up - down
        size[c] = paid[c] + up + down
    return total, size, falls


@kernel("L1 I1 I1 b1 b1")
def spread(ptr, edge, other, live, start):
    """Search breadth first along live edges; return where each state is entered from, at least 0 for what is reached.

    The edges of state s are `edge[ptr[s]:ptr[s+1]]`, and `other` has the state at the other end of each.
    """
    states = start.size
    origin = np.full(states, -1, np.int32)
    queue = np.empty(states, np.int32)
    count = 0
    for s in range(states):
        if start[s]:
            origin[s] = states
            queue[count] = s
            count += 1
    head = 0
    while head < count:
        s = queue[head]
        head += 1
        for i in range(ptr[s], ptr[s + 1]):
            to = other[edge[i]]
            if live[edge[i]] and origin[to] < 0:
                origin[to] = s
                queue[count] = to
                count += 1
    return origin
