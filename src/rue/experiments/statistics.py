"""Statistics over many problems: means, confidence bands, and tests whether one method is better than another.

There are two tests. The paper's appendix uses the one-sided two-sample t-test with equal variances: is the mean of the
first method below that of the second? It assumes independent columns, but all methods run on the same problems. For
that design the test is Wilcoxon's signed-rank test on the differences.

Zero differences are common, since two methods often find the same policy. They are handled after Pratt: ranked with the
others, then left out. Given the ranks, the sign of each difference is a fair coin if no method is better, so the test
is exact with ties and zeros. scipy's test is exact only without them.

Means, deviations, bands and t-tests use the finite figures only; infinite ones are counted beside them. In Wilcoxon's
test infinite figures have the last rank.

A table tests every ordered pair of methods. Holm's correction is over all of these: the probability that any pair is
called significant by chance is at most the level.

By hand: Holm's correction, which scipy does not have; the bootstrap, since a call of `scipy.stats.bootstrap` would be
as long, and the name of its seed depends on the version of scipy.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import numpy as np

from rue._arrays import Array

LEVEL = 0.95
# p-values below this are significant.
SIGNIFICANT = 0.05
# Smaller differences of normalised regrets count as zero: solvers and judge stop at about 1e-9.
TIE = 1e-7
# With more differences, the distribution of the rank sum is approximated by the normal one.
MOST_EXACT = 60
DRAWS = 2000


class Moments(NamedTuple):
    """Mean and standard deviation of the finite numbers in a column. The mean is infinite only if none is finite.

    The deviation is that of a sample (divided by n − 1), as in the t-test. The paper does not say which it prints; at
    its 150 to 250 problems the two differ by less than half a hundredth.
    """

    problems: int  # with finite figures
    mean: float
    deviation: float
    infinite: int = 0  # problems with infinite figures

    @property
    def rank(self) -> tuple[int, float]:
        """Return the sort key of methods: the number of infinite figures first, then the mean."""
        return self.infinite, self.mean


class Band(NamedTuple):
    """A confidence band of the mean; NaN for fewer than two finite figures."""

    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class PairwiseTests:
    """Tests whether the method of the row is better (lower) than that of the column. Arrays are [method, method]."""

    pairs: Array  # problems that both have
    finite_pairs: Array  # problems on which both are finite
    difference: Array  # mean of the row's method minus that of the column's, on the finite pairs
    t: Array  # p-values on the finite pairs
    wilcoxon: Array  # on all pairs
    t_holm: Array  # corrected for all comparisons
    wilcoxon_holm: Array


def moments_of(values: Array) -> Moments:
    """Return count, mean and standard deviation of the finite numbers, and the count of infinite ones."""
    known, infinite = values[np.isfinite(values)], int(np.isinf(values).sum())
    if not known.size:
        return Moments(0, math.inf if infinite else math.nan, math.nan, infinite)
    deviation = float(known.std(ddof=1)) if known.size > 1 else math.nan
    return Moments(known.size, float(known.mean()), deviation, infinite)


def t_band(values: Array, level: float = LEVEL, within: tuple[float, float] = (-math.inf, math.inf)) -> Band:
    """Return the band mean ± t · s / √n, cut to the range that the figures have: the mean cannot be outside of it."""
    problems, mean, deviation, _ = moments_of(values)
    if math.isnan(deviation):
        return Band(math.nan, math.nan)
    from scipy import stats  # slow to import

    half = float(stats.t.ppf(0.5 + level / 2, problems - 1)) * deviation / math.sqrt(problems)
    return Band(max(mean - half, within[0]), min(mean + half, within[1]))


def bootstrap_band(values: Array, level: float = LEVEL, seed: int = 0) -> Band:
    """Return quantiles of the means of resamples: for times, whose band should stay above zero."""
    known = values[np.isfinite(values)]
    if known.size < 2:
        return Band(math.nan, math.nan)
    rng = np.random.default_rng(seed)
    means = known[rng.integers(known.size, size=(DRAWS, known.size))].mean(axis=1)
    lower, upper = np.quantile(means, [0.5 - level / 2, 0.5 + level / 2]).tolist()
    return Band(lower, upper)


def t_test(first: Array, second: Array) -> float:
    """Return the p-value of the mean of the first being below that of the second; columns of finite figures."""
    return t_test_of_moments(moments_of(first), moments_of(second))


def t_test_of_moments(one: Moments, other: Moments) -> float:
    """Return the same p-value from means and deviations, as a paper prints them."""
    if math.isnan(one.deviation) or math.isnan(other.deviation):
        return math.nan
    if one.deviation == other.deviation == 0:
        return math.nan if one.mean == other.mean else float(one.mean > other.mean)
    from scipy import stats  # slow to import

    test = stats.ttest_ind_from_stats(
        one.mean, one.deviation, one.problems, other.mean, other.deviation, other.problems, alternative="less"
    )
    return float(test.pvalue)


def wilcoxon_test(first: Array, second: Array) -> float:
    """Return the p-value of the first being below the second on the same problems, after Pratt; columns without NaN.

    p = P(W ≤ w): w is the sum of the ranks of the positive differences, W that sum with random signs. Infinite figures
    are above all finite ones, by more than any finite difference.
    """
    from scipy import stats  # slow to import

    if not first.size:
        return math.nan
    with np.errstate(invalid="ignore"):
        difference = first - second
    difference[~(np.abs(difference) > TIE)] = 0.0  # also NaN: both are infinite, so equal
    rank = stats.rankdata(np.abs(difference))[difference != 0]
    if not rank.size:
        return 1.0
    w = float(rank[difference[difference != 0] > 0].sum())
    if rank.size <= MOST_EXACT:
        return _chance_of_at_most(w, rank)
    return float(stats.norm.cdf((w - rank.sum() / 2) / math.sqrt(float((rank**2).sum()) / 4)))


def _chance_of_at_most(w: float, rank: Array) -> float:
    """Return P(W ≤ w) if each rank counts with probability 1/2. Ranks are multiples of 1/2, so there are few sums."""
    twice = np.rint(2 * rank).astype(np.int64)
    chance = np.ones(1)  # of each sum of the ranks so far
    for r in twice.tolist():
        none = np.zeros(r)
        chance = (np.concatenate([chance, none]) + np.concatenate([none, chance])) / 2
    return min(float(chance[: round(2 * w) + 1].sum()), 1.0)


def holm(p: Array) -> Array:
    """Return p-values after Holm: the i-th smallest of m times m − i + 1, and never below a smaller one; NaN stays."""
    flat = p.ravel()
    order = np.argsort(flat, kind="stable")[: np.count_nonzero(~np.isnan(flat))]  # NaN comes last
    corrected = np.full(flat.size, np.nan)
    corrected[order] = np.minimum(np.maximum.accumulate(flat[order] * np.arange(order.size, 0, -1)), 1.0)
    return corrected.reshape(p.shape)


def most_comparisons(problems: int) -> int:
    """Return among how many comparisons Wilcoxon's test on that many problems can still be significant after Holm.

    Its least p-value is 2⁻ⁿ, if one method is better on all n problems.
    """
    return max(math.ceil(SIGNIFICANT * 2.0 ** min(problems, MOST_EXACT)) - 1, 0)


def compare_methods(figures: Array) -> PairwiseTests:
    """Test all ordered pairs of the methods of figures [problem, method], each on the problems that both have."""
    known, finite = ~np.isnan(figures), np.isfinite(figures)
    pairs, finite_pairs = (use.T.astype(np.int64) @ use.astype(np.int64) for use in (known, finite))
    difference = _of_pairs(figures, finite, 1, lambda one, other: float(one.mean()) - float(other.mean()))
    t, wilcoxon = _of_pairs(figures, finite, 2, t_test), _of_pairs(figures, known, 2, wilcoxon_test)
    return PairwiseTests(pairs, finite_pairs, difference, t, wilcoxon, holm(t), holm(wilcoxon))


def _of_pairs(figures: Array, use: Array, least: int, result: Callable[[Array, Array], float]) -> Array:
    """Return a result for each ordered pair of methods on the problems of both; NaN if these are fewer than `least`."""
    methods = figures.shape[1]
    table = np.full((methods, methods), np.nan)
    for i, j in permutations(range(methods), 2):
        both = use[:, i] & use[:, j]
        if both.sum() >= least:
            table[i, j] = result(figures[both, i], figures[both, j])
    return table
