"""Check whether published differences between methods are found here too.

Published figures tell two methods apart if their means differ with p < 0.05 in the paper's own test: a one-sided
two-sample t-test from means, deviations and the number of problems. The order is the same here if our means have it.
Whether our difference is significant is tested with paired samples (Wilcoxon), since all methods run on the same
problems here.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import numpy as np

from rue._arrays import Array
from rue.experiments.results import Group, Samples
from rue.experiments.statistics import SIGNIFICANT, TIE, Moments, moments_of, t_test_of_moments, wilcoxon_test

LEAST_PROBLEMS = 2  # that both methods have, for a comparison

OrderHere = Literal["same", "other", "equal"]


@dataclass(frozen=True)
class Order:
    """A pair that was published as "the first is better", and the order found here."""

    better: str
    worse: str
    published: float  # the p-value
    found: OrderHere
    p: float  # of the order found here, by Wilcoxon's test

    @property
    def significant(self) -> bool:
        """Return whether the order found here, the same or the other, is significant."""
        return self.p < SIGNIFICANT

    @property
    def here(self) -> str:
        """Return what was found here instead, in words."""
        return "equal" if self.found == "equal" else f"above it, p = {self.p:.2g}"


def told_apart(published: Mapping[str, Mapping[str, float]], samples: Samples) -> Iterator[tuple[str, str, float]]:
    """Yield the pairs of methods with p < 0.05: the better, the worse, and p."""
    mean, deviation = published.get(samples, {}), published.get(f"{samples} deviation", {})
    problems = published.get("problems", {})
    names = [name for name in mean if name in deviation and name in problems]
    figures = {name: Moments(int(problems[name]), mean[name], deviation[name]) for name in names}
    for one, other in permutations(names, 2):
        p = t_test_of_moments(figures[one], figures[other])
        if p < SIGNIFICANT:  # then its mean is lower too
            yield one, other, p


def compare_orders(group: Group, published: Mapping[str, Mapping[str, float]], samples: Samples) -> list[Order]:
    """Return the published pairs with the order found here, for methods with enough problems in common here."""
    figures = group.normalised(samples)
    column = {name: figures[:, i] for i, name in enumerate(group.methods)}
    orders = []
    for better, worse, p in told_apart(published, samples):
        if better in column and worse in column:
            both = ~(np.isnan(column[better]) | np.isnan(column[worse]))
            if both.sum() >= LEAST_PROBLEMS:
                orders.append(Order(better, worse, p, *found_order(column[better][both], column[worse][both])))
    return orders


def found_order(better: Array, worse: Array) -> tuple[OrderHere, float]:
    """Return the order of two columns of the same problems, and its p-value."""
    one, other = moments_of(better), moments_of(worse)
    if one.infinite == other.infinite and math.isclose(one.mean, other.mean, rel_tol=TIE, abs_tol=TIE):
        return "equal", 1.0
    if one.rank < other.rank:
        return "same", wilcoxon_test(better, worse)
    return "other", wilcoxon_test(worse, better)
