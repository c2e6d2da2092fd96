"""Means, quantiles and tails of regrets whose samples have probabilities.

The *tail* at level α is the mean over the worst α of the probability (conditional value at risk, CVaR):

    tail_α(r) = max over b of  Σ_k b_k r_k,      0 ≤ b_k ≤ p_k / α,  Σ_k b_k = 1

α = 1 is the mean Σ_k p_k r_k; α ≤ min p_k is the maximum over the samples with p_k > 0.
"""

import numpy as np

from rue._arrays import Array
from rue._check import real_number

SMALLEST = float(np.nextafter(0, 1))


def check_tail(tail: object) -> float:
    """Return the level of a tail, if it is one."""
    return real_number("tail", tail, "above 0 and at most 1", SMALLEST, 1)


def worst_belief(value: Array, cap: Array) -> Array:  # [K]
    """Return the b ≤ cap with a sum of one that makes Σ_k b_k value_k largest; cap itself if its sum is below one."""
    order = np.argsort(-value, kind="stable")
    ordered = cap[order]
    before = np.cumsum(ordered) - ordered
    share = np.empty_like(cap)
    share[order] = np.clip(1.0 - before, 0.0, ordered)
    return share


def worst_mean(value: Array, cap: Array) -> float:
    """Return the largest Σ_k b_k value_k of all b ≤ cap with a sum of one."""
    return mean(value, worst_belief(value, cap))


def tail_mean(value: Array, weight: Array, tail: float) -> float:
    """Return the mean of the worst part `tail` of the values."""
    return worst_mean(value, weight / tail)


def mean(value: Array, weight: Array) -> float:
    """Return the weighted mean; a value without weight does not count, even if it is infinite."""
    used = weight > 0
    return float((weight[used] * value[used]).sum())


def quantile(value: Array, weight: Array, level: float) -> float:
    """Return the least value r such that at least `level` of the weight has values up to r."""
    order = np.argsort(value, kind="stable")
    reached = np.cumsum(weight[order])
    # Sums of weights may miss the level by rounding.
    first = int(np.searchsorted(reached, level * (1 - 1e-12), side="left"))
    return float(value[order[min(first, order.size - 1)]])
