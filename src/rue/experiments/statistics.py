"""What figures of many problems say: means, bands around them, and whether one method is better than another.

Two tests stand side by side. The one of the paper's appendix is the two-sample t-test with equal variances, one-sided:
is the mean of the first method below that of the second? It takes the two columns for independent, which they are not:
all methods meet the same problems. The test for that design is Wilcoxon's signed-rank test on the differences.

Differences that are zero are common, as two methods often find the same policy. They are handled after Pratt: ranked
with the others, then left out. Given the ranks, every sign of a difference is a fair coin if no method is better, and
so the test is exact with ties and zeros, where splitting the zeros between both signs has no such distribution, and
dropping them before ranking forgets how many there were.

An infinite regret is no number to take a mean of. Means, deviations, bands and t-tests are of the finite figures, and
how many are infinite is told beside them; a rank it has, the last, and so Wilcoxon's test keeps it.

A table asks of every ordered pair of methods whether the first is better. Holm's correction is over all of these: the
chance that any of the pairs it calls significant is not is at most the level.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rue._arrays import Array

LEVEL = 0.95
# p-values below this are significant.
SIGNIFICANT = 0.05
# Smaller differences of normalised regrets are none: solvers and judge end at about 1e-9.
TIE = 1e-7
# Up to so many differences the distribution of the rank sum is exact, above it is the normal one.
MOST_EXACT = 60
DRAWS = 2000


class Moments(NamedTuple):
    """Mean and standard deviation of the finite numbers in a column; holes are left out, infinite ones are counted.

    The mean is infinite only where nothing is finite.

    The deviation is that of a sample (divided by n − 1), as in the t-test. The paper does not say which it prints; at
    its 150 to 250 problems the two differ by less than half a hundredth.
    """

    problems: int  # with finite figures
    mean: float
    deviation: float
    endless: int = 0  # problems with infinite figures

    @property
    def rank(self) -> tuple[int, float]:
        """By this methods are put in order: those with the fewest infinite figures first, then by their means."""
        return self.endless, self.mean


class Band(NamedTuple):
    """Where the mean is, with 95 % confidence; not numbers where fewer than two finite figures are there."""

    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Is the method of the row better (lower) than that of the column? All arrays are [method, method]."""

    pairs: Array  # problems that both have
    finite_pairs: Array  # problems on which both are finite
    difference: Array  # mean of the row's method minus that of the column's, on the finite pairs
    t: Array  # p-values on the finite pairs
    wilcoxon: Array  # on all pairs
    t_holm: Array  # corrected for all comparisons
    wilcoxon_holm: Array


def describe(values: Array) -> Moments:
    """Count, mean and standard deviation of what is finite, and how many are infinite."""
    known, endless = values[np.isfinite(values)], int(np.isinf(values).sum())
    if not known.size:
        return Moments(0, math.inf if endless else math.nan, math.nan, endless)
    deviation = float(known.std(ddof=1)) if known.size > 1 else math.nan
    return Moments(known.size, float(known.mean()), deviation, endless)


def t_band(values: Array, level: float = LEVEL) -> Band:
    """Mean ± t · s / √n."""
    problems, mean, deviation, _ = describe(values)
    if math.isnan(deviation):
        return Band(math.nan, math.nan)
    from scipy import stats  # slow to import

    half = float(stats.t.ppf(0.5 + level / 2, problems - 1)) * deviation / math.sqrt(problems)
    return Band(mean - half, mean + half)


def bootstrap_band(values: Array, level: float = LEVEL, seed: int = 0) -> Band:
    """Quantiles of the means of resamples: for times, whose band should stay above zero."""
    known = values[np.isfinite(values)]
    if known.size < 2:
        return Band(math.nan, math.nan)
    rng = np.random.default_rng(seed)
    means = known[rng.integers(known.size, size=(DRAWS, known.size))].mean(axis=1)
    lower, upper = np.quantile(means, [0.5 - level / 2, 0.5 + level / 2]).tolist()
    return Band(lower, upper)


def t_test(first: Array, second: Array) -> float:
    """The p-value of the mean of the first being below that of the second; columns of finite figures."""
    one, other = describe(first), describe(second)
    return t_test_of_moments(one, other)


def t_test_of_moments(one: Moments, other: Moments) -> float:
    """The same from means and deviations, as a paper prints them."""
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
    """The p-value of the first being below the second on the same problems, after Pratt; columns without holes.

    What is infinite is above all that is finite, by more than any finite difference.

    p = P(W ≤ w): w is the sum of the ranks of the positive differences, W that sum with signs thrown like coins.
    """
    with np.errstate(invalid="ignore"):
        difference = first - second
    difference = np.where(np.isnan(difference), 0.0, difference)  # both are infinite: neither is better
    if not difference.size:
        return math.nan
    size = np.abs(difference)
    from scipy import stats  # slow to import

    rank = stats.rankdata(np.where(size <= TIE, 0.0, size))
    differs = size > TIE
    rank, positive = rank[differs], difference[differs] > 0
    if not rank.size:
        return 1.0
    w = float(rank[positive].sum())
    if rank.size <= MOST_EXACT:
        return _chance_of_at_most(w, rank)
    return float(stats.norm.cdf((w - rank.sum() / 2) / math.sqrt(float((rank**2).sum()) / 4)))


def _chance_of_at_most(w: float, rank: Array) -> float:
    """P(W ≤ w) where each rank counts or not by a fair coin. Ranks are halves of whole numbers, so sums are few."""
    twice = np.rint(2 * rank).astype(np.int64)
    chance = np.zeros(int(twice.sum()) + 1)
    chance[0] = 1.0
    top = 0
    for r in twice.tolist():
        chance[r : top + r + 1] += chance[: top + 1].copy()
        chance[: top + r + 1] /= 2
        top += r
    return min(float(chance[: round(2 * w) + 1].sum()), 1.0)


def holm(p: Array) -> Array:
    """p-values corrected for how many there are: the i-th smallest of m times m − i + 1, and never below a smaller one.

    What is not a number is no comparison.
    """
    corrected = np.full(p.shape, np.nan)
    known = ~np.isnan(p)
    values = p[known]
    order = np.argsort(values, kind="stable")
    steps = np.maximum.accumulate(values[order] * np.arange(values.size, 0, -1)) if values.size else values
    result = np.empty(values.size)
    result[order] = np.minimum(steps, 1.0)
    corrected[known] = result
    return corrected


def compare_methods(figures: Array) -> Comparison:
    """All ordered pairs of the methods of figures [problem, method], each on the problems that both have."""
    known, finite = ~np.isnan(figures), np.isfinite(figures)
    difference = _of_pairs(figures, finite, 1, lambda one, other: float(one.mean()) - float(other.mean()))
    t, wilcoxon = _of_pairs(figures, finite, 2, t_test), _of_pairs(figures, known, 2, wilcoxon_test)
    return Comparison(_pairs(known), _pairs(finite), difference, t, wilcoxon, holm(t), holm(wilcoxon))


def _pairs(use: Array) -> Array:  # [method, method]
    """How many problems both methods have."""
    return np.asarray(use.T.astype(np.int64) @ use.astype(np.int64))


def _of_pairs(figures: Array, use: Array, least: int, result: Callable[[Array, Array], float]) -> Array:
    """A result for each ordered pair of methods, of what both may use, if that is on enough problems."""
    methods = figures.shape[1]
    table = np.full((methods, methods), np.nan)
    for i in range(methods):
        for j in range(methods):
            both = use[:, i] & use[:, j]
            if i != j and both.sum() >= least:
                table[i, j] = result(figures[both, i], figures[both, j])
    return table
