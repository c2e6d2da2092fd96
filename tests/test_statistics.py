"""Statistics: against formulas written out, scipy, and all sign flips one by one."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rue.experiments import statistics
from rue.experiments.published_figures import ELEVEN, PAPER
from rue.experiments.statistics import (
    SIGNIFICANT,
    Moments,
    bootstrap_band,
    compare_methods,
    holm,
    moments_of,
    most_comparisons,
    t_band,
    t_test,
    t_test_of_moments,
    wilcoxon_test,
)

QUARTERS = st.integers(0, 8).map(lambda n: n / 4)


def naive_wilcoxon(first, second):
    """All sign flips of the differences that are not zero; zeros are ranked with the others."""
    difference = [a - b for a, b in zip(first, second, strict=True)]
    size = [abs(d) for d in difference]
    rank = [sum(o < s for o in size) + (sum(o == s for o in size) + 1) / 2 for s in size]
    moving = [(r, d) for r, d in zip(rank, difference, strict=True) if d != 0]
    seen = sum(r for r, d in moving if d > 0)
    sums = [
        sum(r for (r, _), up in zip(moving, flips, strict=True) if up)
        for flips in itertools.product([False, True], repeat=len(moving))
    ]
    return sum(w <= seen for w in sums) / len(sums)


@given(st.lists(st.tuples(QUARTERS, QUARTERS), min_size=1, max_size=9))
def test_the_exact_signed_rank_test_is_the_share_of_sign_flips(pairs):
    first, second = np.array(pairs).T
    assert wilcoxon_test(first, second) == pytest.approx(naive_wilcoxon(first, second), abs=1e-12)


def test_many_differences_are_as_scipy_has_them():
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 12, (2, 150)) / 4
    first[::3] -= 0.25
    expected = stats.wilcoxon(first, second, zero_method="pratt", alternative="less", method="asymptotic").pvalue
    assert wilcoxon_test(first, second) == pytest.approx(expected, rel=1e-9)


def test_exact_and_normal_agree_where_they_meet(monkeypatch):
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(2, statistics.MOST_EXACT))
    exact = wilcoxon_test(first - 0.2, second)
    monkeypatch.setattr(statistics, "MOST_EXACT", 0)
    assert wilcoxon_test(first - 0.2, second) == pytest.approx(exact, abs=5e-3)


def test_signs_decide_and_noise_does_not():
    ones = np.ones(5)
    assert wilcoxon_test(ones, 2 * ones) == 1 / 32
    assert wilcoxon_test(2 * ones, ones) == 1.0
    assert wilcoxon_test(ones, ones + 1e-12) == 1.0
    endless = np.full(5, math.inf)
    assert wilcoxon_test(ones, endless) == 1 / 32
    assert wilcoxon_test(endless, endless) == 1.0
    assert math.isnan(wilcoxon_test(np.empty(0), np.empty(0)))


def naive_t(first, second):
    n, m = len(first), len(second)
    pooled = (sum((x - np.mean(first)) ** 2 for x in first) + sum((x - np.mean(second)) ** 2 for x in second)) / (
        n + m - 2
    )
    return stats.t.cdf((np.mean(first) - np.mean(second)) / math.sqrt(pooled * (1 / n + 1 / m)), n + m - 2)


def test_the_t_test_is_the_formula_and_that_of_scipy():
    rng = np.random.default_rng(3)
    first, second = rng.random(12), rng.random(9) + 0.1
    p = t_test(first, second)
    assert p == pytest.approx(naive_t(first, second), rel=1e-9)
    assert p == pytest.approx(stats.ttest_ind(first, second, alternative="less").pvalue, rel=1e-9)
    assert t_test(second, first) == pytest.approx(1 - p)


def test_a_t_test_of_constants():
    ones = np.ones(4)
    assert t_test(ones, 2 * ones) == 0.0
    assert t_test(2 * ones, ones) == 1.0
    assert math.isnan(t_test(ones, ones))
    assert math.isnan(t_test(ones[:1], 2 * ones))
    assert math.isnan(t_test(ones, np.full(4, math.inf)))


@pytest.mark.parametrize(
    ("group", "samples", "problems", "one", "other", "printed"),
    [
        ("disaster", "train", 175, "reg-d1", "cemr-d2", 0.017),
        ("disaster", "train", 175, "reg-d2", "reg-s1", 0.26),
        ("disaster", "train", 175, "best", "cemr-s1", 0.031),
        ("disaster", "test", 175, "reg-d1", "average", 0.081),
        ("glider", "train", 150, "reg-d2", "reg-d1", 0.026),
        ("glider", "train", 150, "best", "reg-d1", 0.19),
        ("glider", "test", 150, "reg-d3", "reg-d2", 0.16),
        ("medical", "train", 250, "best", "reg-d1", 0.019),
        ("medical", "test", 250, "reg-d1", "best", 0.034),
    ],
)
def test_printed_p_values_follow_from_printed_means(group, samples, problems, one, other, printed):
    mean, deviation = PAPER[group][samples], PAPER[group][f"{samples} deviation"]
    p = t_test_of_moments(
        Moments(problems, mean[one], deviation[one]), Moments(problems, mean[other], deviation[other])
    )
    assert p == pytest.approx(printed, rel=0.05)


def test_the_paper_has_eleven_methods_everywhere():
    assert all(tuple(row) == ELEVEN for sets in PAPER.values() for row in sets.values())


def naive_holm(p):
    """A comparison's corrected p-value is the smallest level at which the step-down procedure rejects it."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    corrected, running = [0.0] * len(p), 0.0
    for step, i in enumerate(order):
        running = max(running, min(1.0, (len(p) - step) * p[i]))
        corrected[i] = running
    return corrected


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm(p):
    assert holm(np.array(p)).tolist() == pytest.approx(naive_holm(p))


def test_holm_by_hand_and_with_holes():
    p = np.array([[math.nan, 0.01], [0.04, 0.03]])
    assert holm(p).ravel().tolist() == pytest.approx([math.nan, 0.03, 0.06, 0.06], nan_ok=True)
    assert np.isnan(holm(np.full((2, 2), math.nan))).all()


def test_moments_leave_holes_out():
    assert moments_of(np.array([1.0, math.nan, 3.0])) == Moments(2, 2.0, pytest.approx(math.sqrt(2)))
    assert moments_of(np.array([math.nan])).problems == 0
    assert moments_of(np.array([1.0, math.inf, 3.0, math.nan])) == Moments(2, 2.0, pytest.approx(math.sqrt(2)), 1)
    assert moments_of(np.array([math.inf, math.nan])).mean == math.inf
    assert t_band(np.array([1.0, math.inf, 3.0])) == t_band(np.array([1.0, 3.0]))
    assert bootstrap_band(np.array([1.0, math.inf, 3.0])) == bootstrap_band(np.array([1.0, 3.0]))
    assert sorted([Moments(3, 1.0, 0.1, 2), Moments(5, 2.0, 0.1)], key=lambda one: one.rank)[0].mean == 2.0
    assert math.isnan(moments_of(np.array([5.0])).deviation)


def test_bands_by_hand():
    lower, upper = t_band(np.array([1.0, 2.0, 3.0, math.nan]))
    assert (lower, upper) == (pytest.approx(2 - 4.302653 / math.sqrt(3)), pytest.approx(2 + 4.302653 / math.sqrt(3)))
    assert all(math.isnan(end) for end in (*t_band(np.ones(1)), *bootstrap_band(np.ones(1))))
    few = np.array([0.2, 1.0, 1.0])
    assert t_band(few).upper > 1 and t_band(few, within=(0.0, 1.0)) == (max(t_band(few).lower, 0.0), 1.0)
    values = np.array([0.001, 0.002, 0.1, 5.0])
    assert bootstrap_band(values) == bootstrap_band(values)
    assert values.min() <= bootstrap_band(values).lower < values.mean() < bootstrap_band(values).upper <= values.max()


def test_too_few_problems_cannot_be_significant():
    for problems in range(2, 12):
        most = most_comparisons(problems)
        best, worst = np.zeros(problems), np.arange(1.0, problems + 1)  # better on every problem
        p = wilcoxon_test(best, worst)
        assert p == 0.5**problems
        assert holm(np.array([p] + [1.0] * (most - 1)))[0] < SIGNIFICANT or most == 0
        assert holm(np.array([p] + [1.0] * most))[0] >= SIGNIFICANT


def test_bands_hold_the_mean_as_often_as_they_say():
    rng = np.random.default_rng(4)
    hits = [lower <= 0 <= upper for lower, upper in (t_band(rng.normal(size=8)) for _ in range(1000))]
    assert 0.93 < np.mean(hits) < 0.97


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 4).flatmap(lambda m: st.lists(
    st.lists(st.one_of(QUARTERS, st.just(math.nan)), min_size=m, max_size=m), min_size=1, max_size=6)))  # fmt: skip
def test_comparisons_are_on_the_problems_that_both_have(rows):
    figures = np.array(rows)
    comparison = compare_methods(figures)
    for i, j in itertools.product(range(figures.shape[1]), repeat=2):
        both = [(row[i], row[j]) for row in rows if not (math.isnan(row[i]) or math.isnan(row[j]))]
        assert comparison.pairs[i, j] == len(both)
        if i == j or len(both) < 2:
            assert math.isnan(comparison.wilcoxon[i, j])
            continue
        first, second = np.array(both).T
        assert comparison.wilcoxon[i, j] == wilcoxon_test(first, second)
        assert comparison.t[i, j] == pytest.approx(t_test(first, second), nan_ok=True)
        assert comparison.difference[i, j] == pytest.approx(first.mean() - second.mean())
    assert comparison.t_holm == pytest.approx(holm(comparison.t), nan_ok=True)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.one_of(QUARTERS, st.just(math.nan), st.just(math.inf)), min_size=2, max_size=2),
                min_size=2, max_size=7))  # fmt: skip
def test_what_is_infinite_ranks_last_and_has_no_mean(rows):
    """To Wilcoxon's test an infinite difference is any that is far above all others; where both are, it is none."""
    figures = np.array(rows)
    comparison = compare_methods(figures)
    endless = np.isinf(figures)
    far = np.where(endless.any(axis=1)[:, None] & ~np.isnan(figures), np.where(endless, 1e6, 0.0), figures)
    far = compare_methods(far)
    assert np.array_equal(comparison.wilcoxon, far.wilcoxon, equal_nan=True)
    assert np.array_equal(comparison.pairs, far.pairs)
    both = np.isfinite(figures).all(axis=1)
    alone = compare_methods(figures[both])
    assert comparison.finite_pairs[0, 1] == both.sum()
    for name in ("t", "difference"):
        assert np.array_equal(getattr(comparison, name), getattr(alone, name), equal_nan=True)
