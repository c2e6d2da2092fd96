"""Check the points of a certificate, for `rue.certificate`: plain sums in the order written, nothing reassociated."""

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
