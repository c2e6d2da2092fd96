"""What samples say about a fresh one: limits on the probability that its regret is above a level, with a confidence.

All statements are about one policy and one fresh sample, drawn from where the others come from, independently of them.
They hold with probability 1 − δ over the samples that they are made of; 1 − δ is the *confidence*. Regrets are those
that the judge computes. All figures are rounded to the safe side.

**With a test set** of N independent samples that had no part in making the policy. If n of them have a regret above a
level r, which was fixed before they were seen, then (Clopper and Pearson 1934) P(regret > r) is at most the p at which
n or fewer of N samples are seen with probability δ,

    Σ_{i≤n} C(N,i) p^i (1−p)^{N−i} = δ,          p = 1 if n = N.

The same is true of the level above which exactly n of the samples are, if n, and not the level, was fixed before they
were seen (Wilks 1941): n = 0 is their maximum, with p = 1 − δ^{1/N}. So the least level r with P(regret > r) ≤ ε is
estimated safely by the largest n whose p is at most ε.

**Without a test set.** Let the policy and the level be found by a search that learns of N independent samples only by
asking: which are the first ones, in the order given, and which one is the worst for this policy, ties by the order. Let
k be the number of samples that it was answered, and the level the regret of the last answer. Then P(regret > level) is
at most ε(k), where ε(N) = 1 and ε(k) solves

    (δ/N) Σ_{m=k}^{N−1} C(m,k)/C(N,k) (1−ε)^{−(N−m)} = 1.

This is the bound of Campi and Garatti ("Compression, generalization and learning", JMLR 2023) for compressions with
their preference property, which such a search has: a sample that was never an answer could be left out, and the search
would be the same. `docs/mathematics.md` has the proof. A compression of any other kind has the bound of Campi, Garatti
and Ramponi ("A general scenario theory for nonconvex optimization and decision making", IEEE TAC 2018),

    ε(k) = 1 − (δ / (N C(N,k)))^{1/(N−k)}.
"""

import math

import numpy as np

from rue._arrays import Array
from rue._check import flag, real_number, whole_number

USUAL_CONFIDENCE = 0.95
USUAL_PROBABILITY = 0.05
# What rounding may take from δ, as a fraction, and from the logarithm of a sum of binomials, as a part of the largest.
ROUNDING = 1e-12
HALVINGS = 200
MOST_SAMPLES, LEAST_PROBABILITY = 10_000_000, 1e-15


def exceedance_bound(*, samples: int, above: int, confidence: float = USUAL_CONFIDENCE) -> float:
    """Return the upper confidence limit on P(regret > r) if `above` of `samples` test samples are above r.

    This is true if the samples are independent draws from where the fresh sample comes from, had no part in making the
    policy, and did not choose r; or if r is the level above which `above` of them are, a number fixed beforehand.

    >>> round(rue.exceedance_bound(samples=1000, above=0), 4)
    0.003
    """
    size = whole_number("samples", samples, 1, MOST_SAMPLES)
    over = whole_number("above", above, 0, size)
    return _clopper_pearson(size, over, _delta(confidence))


def most_above(*, samples: int, probability: float, confidence: float = USUAL_CONFIDENCE) -> int | None:
    """Return how many of the test samples may be above a level of which P(regret > level) ≤ probability is then known.

    None if there are too few samples: not even their maximum has such a probability, with that confidence.
    """
    size = whole_number("samples", samples, 1, MOST_SAMPLES)
    least, delta = _probability(probability), _delta(confidence)
    low, high = -1, size  # low is allowed, high is not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _clopper_pearson(size, middle, delta) <= least else (low, middle)
    return None if low < 0 else low


def least_samples(*, probability: float, confidence: float = USUAL_CONFIDENCE) -> int:
    """Return how many test samples are needed before their maximum r has P(regret > r) ≤ probability.

    >>> rue.least_samples(probability=0.05)
    59
    """
    chance = _probability(probability)
    return math.ceil(math.log(_delta(confidence)) / math.log1p(-chance) * (1 + ROUNDING))


def scenario_bound(*, samples: int, active: int, confidence: float = USUAL_CONFIDENCE, general: bool = False) -> float:
    """Return the limit on P(regret > level) for a policy that was planned with `samples`, of which `active` were used.

    This is true if the samples are independent draws from where the fresh sample comes from, in the order given; if the
    search saw the others only as answers to "which is the worst for this policy?", asked of all, so that the worst one
    of each policy asked about, the last included, is counted as active; if it ended by counts, not by the clock; and if
    the level is the largest regret over all samples. `general` is for other ways to find a policy from some samples
    that would have found the same one from `active` of them alone, and is the weaker bound.

    >>> round(rue.scenario_bound(samples=1000, active=15), 3)
    0.029
    """
    size = whole_number("samples", samples, 1, MOST_SAMPLES)
    used = whole_number("active", active, 0, size)
    delta = _delta(confidence)
    flag("general", general)
    if used == size:
        return 1.0
    return _any_compression(size, used, delta) if general else _by_preference(size, used, delta)


def count_above(regret: Array, level: float) -> int:
    """Return how many regrets are above a level."""
    return int((regret > level).sum())


def _delta(confidence: object) -> float:
    """Return 1 − confidence, a little less, so that rounding does no harm."""
    wanted = "above 0 and below 1"
    one_sided = real_number("confidence", confidence, wanted, math.nextafter(0, 1), math.nextafter(1, 0))
    return (1.0 - one_sided) * (1 - ROUNDING)


def _probability(probability: object) -> float:
    wanted = f"{LEAST_PROBABILITY:g} or more, and below 1"
    return real_number("probability", probability, wanted, LEAST_PROBABILITY, math.nextafter(1, 0))


def _clopper_pearson(size: int, above: int, delta: float) -> float:
    """Return the p at which `above` or fewer of `size` are seen with probability δ."""
    if above == size:
        return 1.0
    if above == 0:
        return _up(-math.expm1(math.log(delta) / size))
    from scipy.special import bdtr, betaincinv  # slow to import

    # The number of those not above is at least size − above with probability δ: its p is a quantile of a beta.
    limit = _up(1.0 - float(betaincinv(size - above, above + 1, delta)))
    step = ROUNDING * limit
    while limit < 1 and not bdtr(above, size, limit) <= delta:  # the quantile was rounded down
        limit, step = min(limit + step, 1.0), 2 * step
    return limit


def _any_compression(size: int, used: int, delta: float) -> float:
    largest = _log_binomial(size, used)
    logarithm = math.log(delta) - math.log(size) - largest - ROUNDING * (1 + largest)
    return _up(-math.expm1(logarithm / (size - used)))


def _by_preference(size: int, used: int, delta: float) -> float:
    """Return the least ε at which the sum of the module's docstring is surely 1 or more, by bisection."""
    from scipy.special import gammaln, logsumexp  # slow to import

    m = np.arange(used, size)
    weight = gammaln(m + 1) - gammaln(m - used + 1) - gammaln(size + 1) + gammaln(size - used + 1)
    needed = math.log(size) - math.log(delta) + ROUNDING * (1 + float(gammaln(size + 1)))
    low, high = used / size, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        reached = float(logsumexp(weight - (size - m) * math.log1p(-middle))) >= needed
        low, high = (low, middle) if reached else (middle, high)
    return _up(high)


def _log_binomial(size: int, used: int) -> float:
    return math.lgamma(size + 1) - math.lgamma(used + 1) - math.lgamma(size - used + 1)


def _up(probability: float) -> float:
    """Return a little more, and at most 1."""
    return min(probability * (1 + ROUNDING), 1.0)
