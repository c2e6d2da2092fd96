"""The hull on small models, against exact values: `fuzz/sums.py`, and what it found."""

import numpy as np
import pytest

import rue
from fuzz.models import Spec, _choice, _sure
from fuzz.sums import drawn, examine, hull_at_once
from rue.adaptive import hull
from rue.adaptive.proof_kernels import lower_claims


@pytest.mark.parametrize("seed", range(4000, 4024))
def test_intervals_hold_exact_values(seed):
    found = examine(*drawn(seed))
    assert not found.wrong


@pytest.mark.parametrize("seed", range(5000, 5016))
def test_few_samples_at_first(seed):
    found = examine(*drawn(seed), few=True)
    assert not found.wrong


def solved(spec: Spec, gap: float = 1e-4, objective: str = "regret") -> rue.Solution:
    """A model, solved by the hull alone, with no proof that was refused."""
    with hull_at_once() as refused:
        solution = rue.solve(spec.build(), rue.Adaptive(gap, objective=objective), limits=rue.Limits(iterations=300))
    assert not refused
    assert solution.status is rue.Status.SOLVED
    return solution


@pytest.mark.parametrize(
    "seed",
    [
        37,  # the nearest belief was not found, and the same one again
        55,  # a free circle
        122,  # an outcome became a point that was there already
        20495,  # a sample with a belief of 1e-6 was left out, and a regret of 1e6 in it
        138,  # a point was left out of a proof, since a larger bound hid that it is needed
    ],
)
def test_what_was_unproved_is_solved(seed):
    spec, objective, gap = drawn(seed)
    solved(spec, gap, objective)


def test_a_regret_of_zero_divides_nothing():
    assert not examine(*drawn(11)).wrong


def after_a_sign(rare: float) -> Spec:
    """A sign that is rare in sample 1; much later a risk that is deadly in sample 1, and a safe way at a cost of 1."""
    even = np.ones((2, 1))
    choices = [
        _choice(0, [0.1, 0.1], [1, 2], np.array([[0.9, 0.1], [rare, 1 - rare]])),
        _choice(1, [0.0, 0.0], [3], even),
        _choice(2, [0.3, 0.2], [6], even),
        _choice(2, [0.2, 0.4], [6], even),
        _choice(3, [0.0, 0.0], [4], even),
        _choice(3, [0.5, 0.0], [4], even),
        _choice(4, [0.0, 0.0], [5], even),
        _choice(4, [0.0, 0.5], [5], even),
        _sure(5, [0.0, 0.0], [6, 7], 2),
        _choice(5, [1.0, 1.0], [6], even),
        _choice(7, [1.0, 1.0], [7], even),
    ]
    return Spec(8, 0, tuple(choices))


@pytest.mark.parametrize("rare", [1e-2, 1e-5, 1e-7])
def test_what_is_rare_and_deadly_counts(rare):
    """Samples are left out of beliefs and points as if they hardly mattered; then they come back with tiny weights."""
    assert solved(after_a_sign(rare)).max_regret.upper == pytest.approx(0.9)


@pytest.mark.parametrize("seed", range(6))
def test_free_circles_among_sums(seed, monkeypatch):
    """A free circle at each state: its claim is lowered in no round, or what follows from it could not catch up."""
    lowered = []

    def watched(model, draft, safe):
        before = draft.value.copy()
        lower_claims(model, draft, safe)
        lowered.append((before - draft.value > 1e-12 * before).sum())

    monkeypatch.setattr(hull, "lower_claims", watched)
    draw = np.random.default_rng(seed)
    choices = []
    for s in range(3):
        choices.append(_sure(s, [0.0] * 3, s, 3))
        for _ in range(2):
            rows = draw.integers(1, 64, (3, 4)) / 256
            rows[:, 3] = 1 - rows[:, :3].sum(axis=1)
            choices.append(_choice(s, draw.integers(1, 64, 3) / 16, [0, 1, 2, 3], rows))
    solution = solved(Spec(4, 0, tuple(choices)), 1e-3)
    assert solution.certificate is not None
    assert lowered == [0]
