"""Awkward small models from a seed: `draw`. Each is a `Spec`, plain lists that go into a corpus file and shrink well.

Probabilities are multiples of a power of two unless the family says otherwise, so that rows sum to one exactly and
`Fraction` can judge every figure.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import rue

Random = np.random.Generator


@dataclass(frozen=True)
class Choice:
    """A choice of a state: its cost in each sample, and where it leads with which probability in each sample."""

    state: int
    cost: tuple[float, ...]  # [K]
    to: tuple[tuple[int, tuple[float, ...]], ...]  # successor, probability [K]


@dataclass(frozen=True)
class Spec:
    """A model in plain lists. States without choices are goals."""

    states: int
    initial: int
    choices: tuple[Choice, ...]  # by state
    family: str = ""
    weight: tuple[float, ...] = ()  # [K] of the samples; empty if all count alike

    @property
    def samples(self) -> int:
        """K, the number of samples."""
        return len(self.choices[0].cost) if self.choices else 1

    def build(self) -> rue.UMDP:
        """The model; `rue.BadInput` if it is none."""
        counts = np.bincount([c.state for c in self.choices], minlength=self.states)
        action = [i for count in counts for i in range(count)]
        outcomes = [outcome for c in self.choices for outcome in c.to]
        graph = rue.Graph(
            np.concatenate(([0], np.cumsum(counts))),
            np.array(action, int),
            np.concatenate(([0], np.cumsum([len(c.to) for c in self.choices]))).astype(int),
            np.array([s for s, _ in outcomes], int),
            self.initial,
        )
        samples = self.samples
        prob = np.array([p for _, p in outcomes], float).reshape(-1, samples)
        cost = np.array([c.cost for c in self.choices], float).reshape(-1, samples)
        return rue.UMDP(graph, prob, cost, weight=self.weight or None)

    def to_json(self) -> dict[str, Any]:
        """The form of corpus files."""
        choices = [
            {"state": c.state, "cost": list(c.cost), "to": [[s, list(p)] for s, p in c.to]} for c in self.choices
        ]
        weight = {"weight": list(self.weight)} if self.weight else {}
        return {"states": self.states, "initial": self.initial, "choices": choices, **weight}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Spec":
        """A spec from a corpus file."""
        choices = [
            Choice(c["state"], tuple(map(float, c["cost"])), tuple((s, tuple(map(float, p))) for s, p in c["to"]))
            for c in data["choices"]
        ]
        return cls(data["states"], data["initial"], tuple(choices), weight=tuple(map(float, data.get("weight", ()))))

    @classmethod
    def of(cls, model: rue.UMDP) -> "Spec":
        """The spec of a model."""
        graph, choices = model.graph, []
        for c in range(graph.choices):
            span = range(graph.trans_ptr[c], graph.trans_ptr[c + 1])
            to = tuple((int(graph.successor[t]), tuple(model.prob[t].tolist())) for t in span)
            choices.append(Choice(int(graph.choice_state[c]), tuple(model.cost[c].tolist()), to))
        return cls(graph.states, graph.initial, tuple(choices), weight=tuple(model.weight.tolist()))


def draw(seed: int) -> Spec:
    """The model of a seed. It may be one that rue refuses, as no policy reaches a goal in some sample."""
    random = np.random.default_rng(seed)
    names = list(FAMILIES)
    weight = np.array([FAMILIES[name][0] for name in names], float)
    name = names[random.choice(len(names), p=weight / weight.sum())]
    spec = FAMILIES[name][1](random)
    for twist in TWISTS:
        if random.random() < TWISTS[twist][0]:
            spec = TWISTS[twist][1](random, spec)
    return replace(spec, family=name, weight=_weights(seed, spec.samples))


def _weights(seed: int, samples: int) -> tuple[float, ...]:
    """Weights of the samples, in one model of four; some are tiny, and some are zero."""
    random = np.random.default_rng([seed, 4])  # so that models are the same as those without weights
    if random.random() < 0.75:
        return ()
    weight = random.integers(0, 9, samples) * 10.0 ** random.choice([0, 0, 0, -6], samples)
    return tuple(weight.tolist()) if weight.any() else ()


def _samples(random: Random) -> int:
    return int(random.integers(1, 7)) if random.random() < 0.9 else int(random.integers(7, 41))


def _row(random: Random, size: int, grain: int) -> np.ndarray:
    """A distribution over `size` outcomes in multiples of 1/grain; some may have none."""
    cuts = np.sort(random.integers(0, grain + 1, size - 1))
    return np.diff(np.concatenate(([0], cuts, [grain]))) / grain


def _prices(random: Random) -> Callable[[], float]:
    """Where costs come from: one kind for a model, or a mixture of kinds."""
    kinds: list[Callable[[], float]] = [
        lambda: float(random.integers(0, 9)) / 4,
        lambda: float(random.integers(1, 9)) / 4,
        lambda: float(random.random()),
        lambda: 0.0,
        lambda: 1.0,
        lambda: float(10.0 ** random.integers(-12, 13)),
    ]
    weight = np.array([0.35, 0.25, 0.2, 0.08, 0.08, 0.04])
    if random.random() < 0.15:  # of very different sizes
        return lambda: kinds[random.choice(len(kinds))]()  # noqa: PLW0108
    return kinds[random.choice(len(kinds), p=weight)]


def _random(random: Random) -> Spec:
    """Any graph: circles, self-loops, several goals, single actions, supports that differ between samples."""
    inner, goals, samples = int(random.integers(1, 7)), int(random.integers(1, 3)), _samples(random)
    states = inner + goals
    grain = int(2 ** random.choice([3, 3, 3, 20, 45]))
    price, same = _prices(random), random.random() < 0.3
    goal_pull = random.random()
    choices = []
    for s in range(inner):
        for _ in range(random.integers(1, 4)):
            size = int(random.integers(1, min(4, states) + 1))
            support = random.choice(states, size, replace=False)
            if random.random() < goal_pull:
                support[0] = random.integers(inner, states)
                support = np.unique(support)
            rows = np.array([_row(random, support.size, grain) for _ in range(samples)])
            if same:
                rows = (rows * grain * 0.5).round() / grain
                rows[:, 0] += 1 - rows.sum(axis=1) - (support.size - 1) / grain
                rows[:, 1:] += 1 / grain
            flat = random.random() < 0.3
            cost = [price()] * samples if flat else [price() for _ in range(samples)]
            choices.append(_choice(s, cost, support, rows))
    return Spec(states, 0, tuple(choices))


def _choice(state: int, cost: Any, support: Any, rows: np.ndarray) -> Choice:
    to = tuple((int(t), tuple(float(p) for p in rows[:, i])) for i, t in enumerate(support))
    return Choice(state, tuple(float(c) for c in cost), to)


def _sure(state: int, cost: Any, target: Any, samples: int) -> Choice:
    """A choice that leads to one state, or to one for each sample."""
    targets = [target] * samples if isinstance(target, int) else list(target)
    support = sorted(set(targets))
    return _choice(state, cost, support, np.array([[float(t == s) for s in support] for t in targets]))


def _deadly(random: Random) -> Spec:
    """Samples are ruled out by single outcomes, or not at all before a guess that is deadly if it is wrong."""
    samples, ways, length = int(random.integers(2, 5)), int(random.integers(2, 4)), int(random.integers(0, 3))
    price = _prices(random)
    prices = lambda: [price()] * samples if random.random() < 0.5 else [price() for _ in range(samples)]  # noqa: E731
    goal, trap = 0, 1
    start, way = 2, list(range(3, 3 + length))
    fork = 3 + length
    rooms = list(range(fork + 1, fork + 1 + ways))
    choices = [_sure(trap, [1.0] * samples, trap, samples)]
    first = [*way, fork][0]
    hint = random.random() < 0.5
    if hint:  # the way in tells some samples apart
        targets = [first if random.random() < 0.6 else int(random.choice([*way, fork])) for _ in range(samples)]
        choices.append(_sure(start, prices(), targets, samples))
    else:
        choices.append(_sure(start, prices(), first, samples))
    if random.random() < 0.8:
        choices.append(_sure(start, [price() + 8.0] * samples, goal, samples))
    for here, following in itertools.pairwise([*way, fork]):
        choices.append(_sure(here, prices(), following, samples))
    right = random.integers(0, ways, samples)
    for i, room in enumerate(rooms):
        choices.append(_sure(fork, prices(), room, samples))
        stuck = trap if random.random() < 0.5 else room
        choices.append(_sure(room, prices(), [goal if right[k] == i else stuck for k in range(samples)], samples))
        if random.random() < 0.3:
            choices.append(_sure(room, prices(), fork, samples))
    if random.random() < 0.3:
        choices.append(_sure(fork, [price() + 4.0] * samples, goal, samples))
    return Spec(fork + 1 + ways, start, tuple(sorted(choices, key=lambda c: c.state)))


def _chain(random: Random) -> Spec:
    """A long way with slips back, a jump here and there, and an end that is hard to reach in some samples."""
    length, samples, price = int(random.integers(5, 31)), _samples(random), _prices(random)
    choices = []
    slip = 2.0 ** -random.integers(1, 12, samples)
    for s in range(length):
        back = int(random.integers(0, s + 1)) if random.random() < 0.3 else s
        rows = np.column_stack([1 - slip, slip])
        choices.append(_choice(s, [price() for _ in range(samples)], [s + 1, back], rows))
        if random.random() < 0.3:
            choices.append(
                _sure(s, [price() for _ in range(samples)], min(s + int(random.integers(1, 4)), length), samples)
            )
    return Spec(length + 1, 0, tuple(choices))


def _tree(random: Random) -> Spec:
    """No circle at all: every history is short, and a linear program over histories knows the least regret."""
    layers, samples, price = int(random.integers(1, 4)), int(random.integers(2, 5)), _prices(random)
    width = [1, *(int(random.integers(1, 3)) for _ in range(layers - 1))]
    first = list(itertools.accumulate(width, initial=0))
    goal, choices = first[-1], []
    grain = int(2 ** random.choice([3, 20]))
    for layer in range(layers):
        later = list(range(first[layer + 1], goal + 1))
        for s in range(first[layer], first[layer + 1]):
            for _ in range(random.integers(1, 4)):
                support = random.choice(later, min(int(random.integers(1, 4)), len(later)), replace=False)
                rows = np.array([_row(random, support.size, grain) for _ in range(samples)])
                choices.append(_choice(s, [price() for _ in range(samples)], support, rows))
    return Spec(goal + 1, 0, tuple(choices))


def _near(random: Random) -> Spec:
    """All samples are nearly the same."""
    spec = _random(random)
    off = 2.0 ** -int(random.choice([20, 30, 40]))
    choices = []
    for c in spec.choices:
        cost = tuple(c.cost[0] * (1 + off * int(random.integers(-1, 2))) for _ in c.cost)
        first = [p[0] for _, p in c.to]
        rows = np.array([first] * spec.samples)
        if len(first) > 1 and 0 < first[0] < 1 and first[1] > 0:
            shift = first[0] * first[1] * off if first[0] * first[1] * off * 2.0**50 >= 1 else 0.0
            shift = np.floor(shift * 2.0**50) / 2.0**50 * random.integers(-1, 2, spec.samples)
            rows[:, 0] += shift
            rows[:, 1] -= shift
        choices.append(_choice(c.state, cost, [s for s, _ in c.to], rows))
    return replace(spec, choices=tuple(choices))


def _discounted(random: Random) -> Spec:
    """A dense problem without a goal of its own, and a discount."""
    states, actions, samples = (int(random.integers(1, high)) for high in (5, 4, 5))
    grain = 2.0 ** int(random.choice([3, 20]))
    rows = [_row(random, states, int(grain)) for _ in range(samples * states * actions)]
    transition = np.array(rows).reshape(samples, states, actions, states)
    cost = random.random((samples, states, actions)) * float(random.choice([1.0, 1e-6, 1e6]))
    discount = float(random.choice([0.5, 0.875, 1 - 2.0**-7, 1 - 2.0**-14]))
    return Spec.of(rue.UMDP.from_dense(transition, cost, discount=discount))


def _floats(random: Random) -> Spec:
    """Probabilities that are any numbers: rows sum to one only nearly."""
    inner, samples, price = int(random.integers(1, 6)), _samples(random), _prices(random)
    choices = []
    for s in range(inner):
        for _ in range(random.integers(1, 4)):
            support = random.choice(inner + 1, min(int(random.integers(1, 4)), inner + 1), replace=False)
            if random.random() < 0.7 and inner not in support:
                support[0] = inner
            rows = random.dirichlet(np.full(support.size, 0.4), samples)
            choices.append(_choice(s, [price() for _ in range(samples)], support, rows))
    return Spec(inner + 1, 0, tuple(choices))


FAMILIES: dict[str, tuple[float, Callable[[Random], Spec]]] = {
    "random": (0.42, _random),
    "deadly": (0.13, _deadly),
    "tree": (0.13, _tree),
    "near": (0.08, _near),
    "floats": (0.1, _floats),
    "chain": (0.07, _chain),
    "discounted": (0.07, _discounted),
}


def _with_twin(random: Random, spec: Spec) -> Spec:
    """The last sample is the same as the first."""
    choices = tuple(
        replace(c, cost=(*c.cost[:-1], c.cost[0]), to=tuple((s, (*p[:-1], p[0])) for s, p in c.to))
        for c in spec.choices
    )
    return replace(spec, choices=choices)


def _with_stray(random: Random, spec: Spec) -> Spec:
    """A state that nobody can come to, and that need not have a way out."""
    stray, samples = spec.states, spec.samples
    target = int(random.choice([stray, spec.initial]))
    return replace(spec, states=stray + 1, choices=(*spec.choices, _sure(stray, [1.0] * samples, target, samples)))


def _with_free_circle(random: Random, spec: Spec) -> Spec:
    """A step that costs nothing and stays where it is, or goes back to the start."""
    state, samples = spec.choices[int(random.integers(len(spec.choices)))].state, spec.samples
    extra = _sure(state, [0.0] * samples, int(random.choice([state, spec.initial])), samples)
    return replace(spec, choices=tuple(sorted((*spec.choices, extra), key=lambda c: c.state)))


def _with_rare_exit(random: Random, spec: Spec) -> Spec:
    """A choice that hardly ever does what it does: it mostly stays."""
    i = int(random.integers(len(spec.choices)))
    c, rare = spec.choices[i], 2.0 ** -int(random.choice([7, 17, 30]))
    if any(s == c.state for s, _ in c.to):
        return spec
    stays = tuple(1 - rare for _ in c.cost)
    if any(sum(p[k] * rare for _, p in c.to) != rare for k in range(spec.samples)):
        return spec  # the row would not sum to one any more
    slowed = replace(c, to=(*((s, tuple(x * rare for x in p)) for s, p in c.to), (c.state, stays)))
    return replace(spec, choices=(*spec.choices[:i], slowed, *spec.choices[i + 1 :]))


def _with_twice(random: Random, spec: Spec) -> Spec:
    """A choice that names a successor twice."""
    i = int(random.integers(len(spec.choices)))
    c = spec.choices[i]
    s, p = c.to[0]
    half = tuple(x / 2 for x in p)
    twice = replace(c, to=((s, half), *c.to[1:], (s, half)))
    return replace(spec, choices=(*spec.choices[:i], twice, *spec.choices[i + 1 :]))


def _at_goal(random: Random, spec: Spec) -> Spec:
    """There is nothing to do."""
    goals = sorted(set(range(spec.states)) - {c.state for c in spec.choices})
    return replace(spec, initial=goals[0]) if goals else spec


def _scaled(random: Random, spec: Spec) -> Spec:
    """All costs in other units."""
    scale = 10.0 ** float(random.choice([-12, -6, 6, 12]))
    return replace(spec, choices=tuple(replace(c, cost=tuple(x * scale for x in c.cost)) for c in spec.choices))


TWISTS: dict[str, tuple[float, Callable[[Random, Spec], Spec]]] = {
    "twin": (0.1, _with_twin),
    "stray": (0.05, _with_stray),
    "free circle": (0.12, _with_free_circle),
    "rare exit": (0.1, _with_rare_exit),
    "twice": (0.06, _with_twice),
    "at goal": (0.015, _at_goal),
    "scaled": (0.06, _scaled),
}
