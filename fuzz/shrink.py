"""Smaller models on which the same check fails: fewer solvers, samples, choices, states and digits, greedily."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from fuzz.checks import Job, draw_jobs, examine
from fuzz.models import Choice, Spec


def shrink(spec: Spec, seed: int, check: str, seconds: float = 30.0) -> tuple[Spec, list[Job]]:
    """A model and solvers, as small as is found in that time, on which the same check fails."""
    jobs = draw_jobs(seed, spec.samples, spec.states)
    end = time.monotonic() + seconds

    def fails(spec: Spec, jobs: list[Job]) -> bool:
        try:
            return any(failure.check == check for failure in examine(spec, seed, jobs)[0])
        except Exception:  # some other trouble
            return False

    for job in list(jobs):
        fewer = [other for other in jobs if other is not job]
        if fewer and fails(spec, fewer):
            jobs = fewer
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for smaller in _smaller(spec):
            if time.monotonic() > end:
                break
            if fails(smaller, jobs):
                spec, changed = smaller, True
                break
    return spec, jobs


def _smaller(spec: Spec) -> Iterator[Spec]:
    """Simpler models, the boldest changes first."""
    for k in range(spec.samples if spec.samples > 1 else 0):
        fewer = _each(spec, lambda c, k=k: _without_sample(c, k))  # type: ignore[misc]
        weight = spec.weight[:k] + spec.weight[k + 1 :]
        yield replace(fewer, weight=weight if any(weight) else ())
    if spec.weight:
        yield replace(spec, weight=())
    for state in range(spec.states):
        smaller = _without_state(spec, state)
        if smaller is not None:
            yield smaller
    for i, c in enumerate(spec.choices):
        if sum(other.state == c.state for other in spec.choices) > 1:
            yield replace(spec, choices=spec.choices[:i] + spec.choices[i + 1 :])
    for i, c in enumerate(spec.choices):
        for simpler in _simpler(c):
            yield replace(spec, choices=(*spec.choices[:i], simpler, *spec.choices[i + 1 :]))


def _each(spec: Spec, change: Callable[[Choice], Choice]) -> Spec:
    return replace(spec, choices=tuple(change(c) for c in spec.choices))


def _without_sample(c: Choice, k: int) -> Choice:
    drop = lambda values: values[:k] + values[k + 1 :]  # noqa: E731
    return replace(c, cost=drop(c.cost), to=tuple((s, drop(p)) for s, p in c.to))


def _without_state(spec: Spec, state: int) -> Spec | None:
    """The model in which who would come to a state is at a goal instead."""
    goals = [s for s in range(spec.states) if s != state and all(c.state != s for c in spec.choices)]
    if state == spec.initial or not goals:
        return None
    number = lambda s: (goals[0] if s == state else s) - ((goals[0] if s == state else s) > state)  # noqa: E731
    choices = tuple(
        Choice(number(c.state), c.cost, _joined(tuple((number(s), p) for s, p in c.to)))
        for c in spec.choices
        if c.state != state
    )
    return Spec(spec.states - 1, number(spec.initial), choices, spec.family, spec.weight)


def _joined(to: tuple[tuple[int, tuple[float, ...]], ...]) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """Each successor once."""
    total: dict[int, tuple[float, ...]] = {}
    for s, p in to:
        total[s] = tuple(map(sum, zip(total[s], p, strict=True))) if s in total else p
    return tuple(total.items())


def _simpler(c: Choice) -> Iterator[Choice]:
    """The choice with a transition less, or with rounder numbers."""
    for i in range(len(c.to) if len(c.to) > 1 else 0):
        rest = c.to[:i] + c.to[i + 1 :]
        first, p = rest[0]
        whole = tuple(a + b for a, b in zip(p, c.to[i][1], strict=True))
        yield replace(c, to=((first, whole), *rest[1:]))
        if not any(c.to[i][1]):
            yield replace(c, to=rest)
    flat = (c.cost[0],) * len(c.cost)
    if c.cost != flat:
        yield replace(c, cost=flat)
    for cost in (tuple(float(round(x)) for x in c.cost), tuple(round(x, 2) for x in c.cost)):
        if cost != c.cost:
            yield replace(c, cost=cost)
    same = tuple((s, (p[0],) * len(p)) for s, p in c.to)
    if same != c.to:
        yield replace(c, to=same)
    if len(c.to) == 2:
        for digits in (1, 8, 1024):
            first = tuple(round(x * digits) / digits for x in c.to[0][1])
            rounded = ((c.to[0][0], first), (c.to[1][0], tuple(1 - x for x in first)))
            if rounded != c.to:
                yield replace(c, to=rounded)
