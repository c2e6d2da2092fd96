"""Models in which only finitely many beliefs can be reached, from a seed: `draw_finite`.

Each outcome either rules samples out or says nothing about them, or no way leads back. Most are written after the
public benchmarks for several environments: mazes, mastermind, frogger, keys and doors. Guesses may be deadly, circles
free, and some models hopeless: each policy misses the goal in some sample.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fuzz.models import Choice, Random, Spec, _choice, _row, _sure, _with_free_circle

Step = tuple[object, list[float], list[object]]  # a place, the cost in each sample, and where that leads in each

GOAL, TRAP = "goal", "trap"


def draw_finite(seed: int) -> Spec:
    """The model of a seed, usual, large or huge. rue may refuse it, as no policy reaches a goal in some sample."""
    random = np.random.default_rng([seed, 36])
    name = list(FAMILIES)[seed % len(FAMILIES)]
    spec = FAMILIES[name](random, int(random.choice(3, p=[0.87, 0.1, 0.03])))
    if random.random() < 0.2:
        spec = _with_free_circle(random, spec)
    return replace(spec, family=name)


def _spec(start: object, steps: list[Step], samples: int) -> Spec:
    """Number the places; those without steps are goals, but for the trap, which is never left."""
    places = list(dict.fromkeys([start, *(step[0] for step in steps), *(to for step in steps for to in step[2])]))
    if TRAP in places:
        steps = [*steps, (TRAP, [1.0] * samples, [TRAP] * samples)]
    number = {place: i for i, place in enumerate(places)}
    choices = [_sure(number[place], cost, [number[t] for t in to], samples) for place, cost, to in steps]
    return Spec(len(places), number[start], tuple(sorted(choices, key=lambda c: c.state)))


def _maze(random: Random, large: int) -> Spec:
    """A grid whose walls, holes and treasure differ between samples; to dig in the wrong place may be deadly."""
    rows, columns, samples = int(random.integers(2, 5)), int(random.integers(2, 6)), int(random.integers(2, 6))
    if large:
        rows, columns, samples = 4 + large, int(random.integers(5, 9)), int(random.integers(6, 9 + 3 * large))
    cells = list(itertools.product(range(rows), range(columns)))
    start, free_steps = cells[0], random.random() < 0.15
    blocked = [{c for c in cells[1:] if random.random() < 0.2} for _ in range(samples)]
    holes = [{c for c in cells[1:] if random.random() < 0.08} for _ in range(samples)]
    places = [cells[i] for i in random.choice(len(cells), min(int(random.integers(1, 4)), len(cells)), replace=False)]
    treasure = [places[int(random.integers(len(places)))] for _ in range(samples)]
    deadly, steps = random.random() < 0.5, []
    for (r, c), (dr, dc) in itertools.product(cells, [(0, 1), (1, 0), (0, -1), (-1, 0)]):
        target = (r + dr, c + dc)
        if target not in cells:
            continue
        to = [
            TRAP if target in holes[k] and target != treasure[k] else (r, c) if target in blocked[k] else target
            for k in range(samples)
        ]
        price = 0.0 if free_steps else float(random.integers(1, 4))
        steps.append(((r, c), [price] * samples, to))
    for place in places:
        wrong = TRAP if deadly else place
        steps.append((place, [1.0] * samples, [GOAL if place == treasure[k] else wrong for k in range(samples)]))
    if random.random() < 0.6:  # somebody who knows the way, at a price
        steps.append((start, [float(random.integers(5, 40))] * samples, [GOAL] * samples))
    return _spec(start, steps, samples)


def _mastermind(random: Random, large: int) -> Spec:
    """Guess a code; the answer says how many digits are right. There may be too few guesses."""
    length, colours = (2 + large, 3) if large else (int(random.integers(2, 4)), int(random.integers(2, 4)))
    codes = list(itertools.product(range(colours), repeat=length))
    samples = min(int(random.integers(8, 11 + 2 * large) if large else random.integers(2, 9)), len(codes))
    secret = [codes[i] for i in random.choice(len(codes), samples, replace=False)]
    allowed = codes if len(codes) <= 9 else [*secret, codes[0]]
    allowed = list(dict.fromkeys(allowed))
    rounds = int(random.integers(1, 5))
    endless, deadly, told = random.random() < 0.3, random.random() < 0.6, random.random() < 0.5
    steps: list[Step] = []

    def answer(guess: tuple[int, ...], k: int) -> int:
        return sum(a == b for a, b in zip(guess, secret[k], strict=True))

    seen = {("guess", 0, 0)}
    queue = [("guess", 0, 0)]
    while queue:
        place = queue.pop()
        turn = place[1]
        for guess in allowed:
            last = turn + 1 >= rounds and not endless
            to: list[object] = [
                GOAL
                if guess == secret[k]
                else (TRAP if deadly else "asked")
                if last
                else ("guess", min(turn + 1, rounds) if endless else turn + 1, answer(guess, k))
                for k in range(samples)
            ]
            steps.append((place, [float(1 + sum(guess) % 3)] * samples, to))
            for target in to:
                if isinstance(target, tuple) and target not in seen:
                    seen.add(target)
                    queue.append(target)
        if told and turn == 0:
            steps.append((place, [float(random.integers(3, 12))] * samples, [GOAL] * samples))
    if any("asked" in to for _, _, to in steps):
        steps.append(("asked", [float(random.integers(4, 20))] * samples, [GOAL] * samples))
    return _spec(("guess", 0, 0), steps, samples)


def _frogger(random: Random, large: int) -> Spec:
    """Cross lanes whose cars come at times that differ between samples; to look costs time, a car is the end."""
    lanes, period, samples = int(random.integers(1, 4)), int(random.integers(2, 5)), int(random.integers(2, 6))
    if large:
        lanes, samples = int(random.integers(2 + 2 * large, 5 + 2 * large)), int(random.integers(6, 8 + 3 * large))
    car = random.random((samples, lanes, period)) < random.choice([0.3, 0.5])
    for k, lane in itertools.product(range(samples), range(lanes)):
        if car[k, lane].all() and random.random() < 0.9:
            car[k, lane, random.integers(period)] = False
    wait, look = (float(random.choice([0.0, 1.0, 1.0, 2.0])) for _ in range(2))
    hurt = TRAP if random.random() < 0.8 else (0, 0, 0)
    steps: list[Step] = []
    for lane, time, seen in itertools.product(range(lanes), range(period), range(3)):
        place, later = (lane, time, seen), (time + 1) % period
        ahead = [(lane + 1, later, 0) if lane + 1 < lanes else GOAL for _ in range(samples)]
        to = [hurt if car[k, lane, time] else ahead[k] for k in range(samples)]
        steps.append((place, [1.0] * samples, to))
        steps.append((place, [wait] * samples, [(lane, later, 0)] * samples))
        steps.append((place, [look] * samples, [(lane, later, 1 + int(car[k, lane, time])) for k in range(samples)]))
    if random.random() < 0.5:
        steps.append(((0, 0, 0), [float(random.integers(4, 25))] * samples, [GOAL] * samples))
    return _spec((0, 0, 0), steps, samples)


def _doors(random: Random, large: int) -> Spec:
    """A key in one of some boxes, and a door behind which the way is free, or deadly, or shut."""
    boxes, doors, samples = (int(random.integers(1, 4)), int(random.integers(2, 4)), int(random.integers(2, 7)))
    if large:
        boxes, doors, samples = 3 + large, 3 + large, int(random.integers(8, 9 + 8 * large))
    key = random.integers(0, boxes, samples)
    door = random.integers(0, doors, samples)
    deadly, hint = random.random() < 0.6, random.random() < 0.5
    spring = random.random() < 0.3  # a box may be a trap in some samples
    trapped = random.random((samples, boxes)) < 0.15
    steps: list[Step] = []
    for has in (0, 1):
        hall = ("hall", has, 0)
        views = (0, 1, 2) if hint else (0,)
        for view in views:
            here = ("hall", has, view)
            for box in range(boxes):
                to = [
                    TRAP if spring and trapped[k, box] and key[k] != box
                    else ("hall", 1, view) if key[k] == box
                    else here
                    for k in range(samples)
                ]  # fmt: skip
                steps.append((here, [float(random.integers(1, 4))] * samples, list(to)))
            for d in range(doors):
                wrong = TRAP if deadly else ("yard", has, d)
                shut = here if not has else None
                to = [shut or (GOAL if door[k] == d else wrong) for k in range(samples)]
                steps.append((here, [float(random.integers(0, 3)) for _ in range(samples)], list(to)))
        if hint:
            half = random.integers(1, 3, samples)
            for view in views:
                to = [("hall", has, int(half[k])) for k in range(samples)]
                steps.append((("hall", has, view), [1.0] * samples, list(to)))
        for d in range(doors):
            steps.append((("yard", has, d), [2.0] * samples, [hall] * samples))
    if random.random() < 0.5:
        steps.append((("hall", 0, 0), [float(random.integers(5, 20))] * samples, [GOAL] * samples))
    return _spec(("hall", 0, 0), steps, samples)


def _sure_steps(random: Random, large: int) -> Spec:
    """Any graph in which each choice leads to one place in each sample; some places are never left in some samples."""
    inner, samples = int(random.integers(2, 15)), int(random.integers(2, 7))
    if large:
        inner, samples = int(random.integers(20, 60 * large)), int(random.integers(6, 8 + 3 * large))
    goal = inner
    same, free, pull = random.random(), random.random() * 0.6, random.random() * 0.5
    choices: list[Choice] = []
    for s in range(inner):
        for _ in range(random.integers(1, 4)):
            few = [goal if random.random() < pull else int(random.integers(inner)) for _ in range(3)]
            to = [few[0]] * samples if random.random() < same else [int(random.choice(few)) for _ in range(samples)]
            price = 0.0 if random.random() < free else float(random.integers(1, 20)) / 4
            flat = random.random() < 0.6
            cost = [price if flat else price * float(random.integers(1, 4)) for _ in range(samples)]
            choices.append(_sure(s, cost, to, samples))
    for s in range(inner):
        if random.random() < 0.1:  # never left in one sample
            k = int(random.integers(samples))
            choices = [_stuck(c, k) if c.state == s else c for c in choices]
    if random.random() < 0.7:
        choices.append(_sure(0, [float(random.integers(5, 30))] * samples, goal, samples))
    return Spec(inner + 1, 0, tuple(sorted(choices, key=lambda c: c.state)))


def _stuck(choice: Choice, sample: int) -> Choice:
    """The choice with a self-loop in one sample."""
    to = {s: list(p) for s, p in choice.to}
    to.setdefault(choice.state, [0.0] * len(choice.cost))
    for s, p in to.items():
        p[sample] = float(s == choice.state)
    return replace(choice, to=tuple((s, tuple(p)) for s, p in sorted(to.items()) if any(p)))


def _even_noise(random: Random, large: int) -> Spec:
    """As before, but with outcomes of equal chances, so that one either rules samples out or says nothing."""
    inner, samples = int(random.integers(2, 9)), int(random.integers(2, 6))
    if large:
        inner, samples = int(random.integers(10, 40 * large)), int(random.integers(5, 7 + 2 * large))
    goal = inner
    free, pull, differ = random.random() * 0.5, 0.1 + random.random() * 0.5, random.random() * 0.7
    choices = []
    for s in range(inner):
        for _ in range(random.integers(1, 4)):
            size = int(random.choice([1, 2, 2, 3, 4]))
            pool = [goal, *random.permutation(inner).tolist()] if random.random() < pull else None
            pool = pool or [*random.permutation(inner).tolist(), goal]
            size = min(size, len(pool))
            usual = pool[:size]
            rows = []
            for _ in range(samples):
                own = list(usual)
                others = [t for t in pool if t not in own]
                if others and random.random() < differ:
                    own[int(random.integers(size))] = int(random.choice(others))
                rows.append(own)
            support = sorted({t for own in rows for t in own})
            table = np.array([[float(t in own) / size for t in support] for own in rows])
            price = 0.0 if random.random() < free else float(random.integers(1, 20)) / 4
            cost = [price if random.random() < 0.7 else price + 1.0 for _ in range(samples)]
            choices.append(_choice(s, cost, support, table))
    if random.random() < 0.6:
        choices.append(_sure(0, [float(random.integers(5, 30))] * samples, goal, samples))
    return Spec(inner + 1, 0, tuple(sorted(choices, key=lambda c: c.state)))


def _layers(random: Random, large: int) -> Spec:
    """Any probabilities, and no way back but standing still: at most some thousand histories."""
    layers, samples = int(random.integers(2, 6)) + large, int(random.integers(2, 6))
    width = [1, *(int(random.integers(1, 4)) for _ in range(layers - 1))]
    first = list(itertools.accumulate(width, initial=0))
    goal, trap = first[-1], first[-1] + 1
    deadly = random.random() < 0.4
    choices = [_sure(trap, [1.0] * samples, trap, samples)]
    for layer in range(layers):
        later = list(range(first[layer + 1], min(first[min(layer + 2, layers)], goal))) or [goal]
        for s in range(first[layer], first[layer + 1]):
            for _ in range(random.integers(1, 4)):
                targets = [*later, goal, *([trap] if deadly and random.random() < 0.3 else [])]
                support = sorted(set(random.choice(targets, min(3, len(targets)), replace=False).tolist()))
                rows = np.array([_row(random, len(support), 8) for _ in range(samples)])
                cost = [float(random.integers(0, 12)) / 4 for _ in range(samples)]
                choices.append(_choice(s, cost, support, rows))
            if random.random() < 0.5:
                choices.append(_sure(s, [float(random.integers(3, 12))] * samples, goal, samples))
    return Spec(trap + 1, 0, tuple(sorted(choices, key=lambda c: c.state)))


FAMILIES: dict[str, Callable[[Random, int], Spec]] = {
    "maze": _maze,
    "mastermind": _mastermind,
    "frogger": _frogger,
    "doors": _doors,
    "sure": _sure_steps,
    "even noise": _even_noise,
    "layers": _layers,
}
