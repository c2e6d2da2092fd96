"""Small models in which hardly any two histories say the same, from a seed: `draw_sums`.

Most have no way back, so that a linear program over all histories knows the least regret. Probabilities are multiples
of 1/1024: rows sum to one exactly.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

import rue
from fuzz import models
from fuzz.finite_models import draw_finite
from fuzz.models import Choice, Random, Spec, _choice, _sure, _with_free_circle

GRAIN = 1024
# Of a dear model: how many times as much a choice costs in one sample.
DEAR = (1e2, 1e4, 1e6)
# More samples than a word has bits.
MANY = 70


def draw_sums(seed: int) -> Spec:
    """The model of a seed. rue may refuse it, as no policy reaches a goal in some sample."""
    random = np.random.default_rng([seed, 15])
    names = list(FAMILIES)
    name = names[random.choice(len(names), p=[FAMILIES[name][0] for name in names])]
    spec = FAMILIES[name][1](random)
    if name not in ("awkward", "dense") and random.random() < 0.15:
        spec = _with_free_circle(random, spec)
    return replace(spec, family=name)


def _samples(random: Random) -> int:
    return int(random.integers(2, 9))


def _rows(random: Random, samples: int, size: int, zeros: float) -> np.ndarray:
    """Distributions over `size` outcomes, in all samples; each entry is zero with a chance of `zeros`."""
    rows = random.dirichlet(np.full(size, float(random.choice([0.5, 1.0, 4.0]))), samples)
    rows *= random.random(rows.shape) >= zeros
    rows[rows.sum(axis=1) == 0, int(random.integers(size))] = 1.0
    rows = np.floor(rows / rows.sum(axis=1, keepdims=True) * GRAIN)
    rows[np.arange(samples), rows.argmax(axis=1)] += GRAIN - rows.sum(axis=1)
    return np.asarray(rows / GRAIN)


def _price(random: Random) -> float:
    return float(random.integers(1, 256)) / 64


def _layers(random: Random, samples: int, zeros: float = 0.0, most: int = 5) -> Spec:
    """No way back: the next layer or the goal."""
    width = [1, *(int(random.integers(1, 4)) for _ in range(random.integers(1, most)))]
    first = list(itertools.accumulate(width, initial=0))
    goal, choices = first[-1], []
    alike = random.random() < 0.4
    for layer in range(len(width)):
        later = [*range(first[layer + 1], first[min(layer + 2, len(width))]), goal]
        for s in range(first[layer], first[layer + 1]):
            for _ in range(random.integers(1, 4)):
                size = min(int(random.integers(2, 4)), len(later))
                support = sorted(random.choice(later, size, replace=False).tolist())
                cost = [_price(random)] * samples if alike else [_price(random) for _ in range(samples)]
                choices.append(_choice(s, cost, support, _rows(random, samples, size, zeros)))
            if random.random() < 0.3:
                choices.append(_sure(s, [_price(random) * 2 for _ in range(samples)], goal, samples))
    return Spec(goal + 1, 0, tuple(choices))


def _histories(random: Random) -> Spec:
    return _layers(random, _samples(random))


def _supports(random: Random) -> Spec:
    """Some outcomes rule samples out."""
    return _layers(random, _samples(random), zeros=0.3)


def _deadly(random: Random) -> Spec:
    """Some choices lead into a trap in some samples, perhaps seldom. Often there is a way that is safe and dear."""
    samples = _samples(random)
    spec = _layers(random, samples, zeros=float(random.choice([0.0, 0.3])), most=4)
    goal, trap, rate = spec.states - 1, spec.states, random.random() * 0.5
    choices: list[Choice] = [_sure(trap, [1.0] * samples, trap, samples)]
    for choice in spec.choices:
        if random.random() >= rate:
            choices.append(choice)
            continue
        lost = np.where(random.random(samples) < 0.4, float(random.choice([1, 1 / 4, 1 / 1024])), 0.0)
        to = tuple((s, tuple((np.array(p) * (1 - lost)).tolist())) for s, p in choice.to)
        choices.append(replace(choice, to=(*to, (trap, tuple(lost.tolist())))))
    for s in range(goal):
        if random.random() < 0.7:
            choices.append(_sure(s, [_price(random) * 4 for _ in range(samples)], goal, samples))
    return Spec(trap + 1, 0, tuple(sorted(choices, key=lambda c: c.state)))


def _dear(random: Random) -> Spec:
    """Some choices cost very much in one sample: its belief is tiny, and matters."""
    spec = _layers(random, _samples(random), zeros=float(random.choice([0.0, 0.2])), most=4)
    rate, factor, choices = random.random() * 0.5, float(random.choice(DEAR)), []
    for choice in spec.choices:
        cost = list(choice.cost)
        if random.random() < rate:
            cost[int(random.integers(spec.samples))] *= factor
        choices.append(replace(choice, cost=tuple(cost)))
    return replace(spec, choices=tuple(choices))


def _many(random: Random) -> Spec:
    return _layers(random, MANY, zeros=float(random.choice([0.0, 0.3, 0.6])), most=3)


def _cyclic(random: Random) -> Spec:
    """Any way may lead back."""
    inner, samples, choices = int(random.integers(1, 5)), _samples(random), []
    zeros = float(random.choice([0.0, 0.2]))
    for s in range(inner):
        for _ in range(random.integers(1, 4)):
            support = sorted(random.choice(inner, min(int(random.integers(1, 3)), inner), replace=False).tolist())
            rows = _rows(random, samples, len(support) + 1, zeros)
            cost = [_price(random) if random.random() < 0.9 else 0.0 for _ in range(samples)]
            choices.append(_choice(s, cost, [*support, inner], rows))
    return Spec(inner + 1, 0, tuple(choices))


def _dense(random: Random) -> Spec:
    """Discounted; each outcome tells a little."""
    states, actions, samples = int(random.integers(2, 5)), int(random.integers(2, 4)), _samples(random)
    rows = _rows(random, samples * states * actions, states, 0.0)
    cost = random.integers(0, 256, (samples, states, actions)) / 64
    if random.random() < 0.5:
        cost = np.broadcast_to(cost[:1], cost.shape)
    discount = float(random.choice([0.5, 0.75, 0.875]))
    return Spec.of(rue.UMDP.from_dense(rows.reshape(samples, states, actions, states), cost, discount=discount))


def _finite(random: Random) -> Spec:
    return draw_finite(int(random.integers(1 << 30)))


def _awkward(random: Random) -> Spec:
    return models.draw(int(random.integers(1 << 30)))


FAMILIES: dict[str, tuple[float, Callable[[Random], Spec]]] = {
    "histories": (0.24, _histories),
    "supports": (0.12, _supports),
    "deadly": (0.14, _deadly),
    "dear": (0.1, _dear),
    "many": (0.02, _many),
    "cyclic": (0.08, _cyclic),
    "dense": (0.06, _dense),
    "finite": (0.17, _finite),
    "awkward": (0.07, _awkward),
}
