"""The part of a model near the initial state: what is proved there holds for the whole model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import Shape, lively, umdps

import rue
from rue import checker
from rue.adaptive import report_bound
from rue.adaptive.near import Near
from rue.solution import Limits
from rue.values import optimal_values

MODELS = st.one_of(umdps(Shape(states=8, samples=3)), st.integers(0, 10**6).map(lively))


def near(model: rue.UMDP, share: float) -> Near | None:
    """The part with this share of the numbers of a model."""
    return Near.of(model, optimal_values(model), int(share * model.prob.size))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("proofs")


@settings(max_examples=60)
@given(model=MODELS, share=st.floats(0.1, 0.9), long=st.booleans())
def test_what_is_proved_for_the_part_holds_for_the_whole(folder, model, share, long):
    part = near(model, share)
    if part is None:
        return
    limits = Limits(seconds=1, iterations=300) if long else None
    found = report_bound.bound_certificate(part.model, limits=limits)
    if found is None:
        return
    proof = part.certificate(found)
    proved = rue.verify(model, proof)
    # Sums of points and rounding may cost a little, but no more than rounding.
    assert proved == pytest.approx(found.bound, rel=1e-6, abs=1e-7 * (1 + model.cost.max()))
    path = folder / "proof.json"
    path.write_text(proof.to_json(model), encoding="utf-8")
    assert float(checker.check(*checker.read([str(path)]))) == pytest.approx(proved, rel=1e-6, abs=1e-9)
    exact = rue.solve(model, rue.Adaptive(0.01))
    assert proved <= exact.max_regret.upper * (1 + 1e-9) + 1e-9


@settings(max_examples=40)
@given(MODELS, st.floats(0.1, 0.9))
def test_no_policy_costs_more_in_the_part(model, share):
    part = near(model, share)
    if part is None:
        return
    whole, inner = optimal_values(model), optimal_values(part.model)
    states = part.state[: part.inner]
    scale = 1e-9 * (1 + whole.lower[states].max())
    assert (inner.lower[: part.inner] <= whole.upper[states] + scale).all()
    # What is cut off costs what the best policy would pay there: optimal values stay what they are.
    np.testing.assert_allclose(inner.value[: part.inner], whole.value[states], atol=scale, rtol=1e-9)


def test_a_large_model_is_cut(monkeypatch):
    model = rue.domains.Disaster(width=12, height=12, seed=3).sample(6, seed=3)
    whole = rue.lower_bound(model)
    monkeypatch.setattr(report_bound, "NEAR_NUMBERS", model.prob.size // 4)
    cut = report_bound.bound_certificate(model)
    assert cut is not None
    assert 0.0 < cut.bound < 1.5 * whole
    assert rue.verify(model, cut) >= cut.bound
    border = near(model, 0.25)
    assert border is not None
    assert np.isin(cut.state, border.state[: border.inner]).all()


def test_a_part_with_dead_ends_is_not_cut(monkeypatch):
    builder = rue.Builder(samples=2)
    for state, ahead in (("a", "b"), ("b", "c"), ("c", "d"), ("d", "goal")):
        builder.add(state, "on", {ahead: 1.0}, cost=1.0)
        builder.add(state, "risk", {"goal": [0.5, 1.0], "pit": [0.5, 0.0]}, cost=[0.1, 1.5])
    model = builder.add("pit", "wait", {"pit": 1.0}, cost=1.0).goal("goal").build()
    assert near(model, 0.5) is None
    monkeypatch.setattr(report_bound, "NEAR_NUMBERS", 2)
    assert rue.lower_bound(model) > 0.0
