"""Select few samples out of many.

- "coverage": greedy k-centre. The first is the sample nearest to the mean; each next one is the farthest from all
  chosen so far, in the Euclidean distance of all transition probabilities and expected costs. Costs are divided by
  their mean, so that it does not matter in which unit they are.
- "random": without replacement.
- "regret": after the first, as for coverage, the sample on which the current choice's `reg` policy does worst.
"""

import numpy as np

from rue._arrays import Array
from rue._check import one_of
from rue._check import seed as check_seed
from rue.errors import BadInput
from rue.evaluation import evaluate
from rue.model import UMDP, check_model
from rue.recursion.objectives import Regret
from rue.solving import solve


def select(model: UMDP, count: int, *, by: str = "coverage", seed: int = 0) -> UMDP:
    """Return the model with `count` of its samples, selected in one of three ways; `seed` is for "random".

    Their weights are divided by their sum.

    >>> pool = rue.domains.Medical(seed=1).sample(100, seed=1)
    >>> rue.select(pool, 15).samples
    15
    """
    check_model(model)
    way = WAYS[one_of("way to select samples", by, WAYS)]
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= model.samples:
        raise BadInput(f"{count} samples are asked for; expected 1 to {model.samples}")
    return model.subset(way(model, count, check_seed(seed)))


def _by_coverage(model: UMDP, count: int, seed: int) -> Array:
    points = _points(model)
    chosen = [_nearest_to_mean(points)]
    nearest = _distance(points, chosen[0])
    while len(chosen) < count:
        nearest[chosen] = -1.0  # so that a duplicate of a chosen sample comes before the sample itself
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, _distance(points, chosen[-1]))
    return np.array(chosen)


def _by_random(model: UMDP, count: int, seed: int) -> Array:
    return np.random.default_rng(seed).choice(model.samples, count, replace=False)


def _by_regret(model: UMDP, count: int, seed: int) -> Array:
    chosen = [_nearest_to_mean(_points(model))]
    while len(chosen) < count:
        policy = solve(model.subset(chosen), Regret(), bound=False).policy
        regret = evaluate(model, policy).regret.copy()
        regret[chosen] = -1.0
        chosen.append(int(regret.argmax()))
    return np.array(chosen)


def _points(model: UMDP) -> Array:  # [K, T + C]
    mean = model.cost.mean() if model.cost.size else 0.0
    return np.concatenate([model.prob, model.cost / mean if mean else model.cost]).T


def _nearest_to_mean(points: Array) -> int:
    return int(((points - points.mean(axis=0)) ** 2).sum(axis=1).argmin())


def _distance(points: Array, centre: int) -> Array:
    return np.asarray(((points - points[centre]) ** 2).sum(axis=1))


WAYS = {"coverage": _by_coverage, "random": _by_random, "regret": _by_regret}
