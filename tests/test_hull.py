"""The hull: sums of points against a linear program, its intervals against exact ones, its certificates and files."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from models import Shape, umdps
from scipy.optimize import linprog, minimize

import rue
from rue import checker
from rue.active import Part
from rue.adaptive import finite, search
from rue.adaptive.hull import Hull
from rue.adaptive.hull_kernels import NONE
from rue.adaptive.portfolio import start_policies
from rue.adaptive.sum_kernels import nearest_above
from rue.errors import RueError
from rue.solution import Run
from rue.values import optimal_values


def hull_at_once(patch: pytest.MonkeyPatch) -> None:
    """Let the hull take over at once, also where few beliefs can be reached."""
    patch.setattr(search, "GRAPH_BELIEFS", 0)
    patch.setattr(finite, "MOST_NODES", 0)


@pytest.fixture
def soon(monkeypatch):
    hull_at_once(monkeypatch)


def dense(seed: int, states: int = 3, samples: int = 4) -> rue.UMDP:
    """A discounted model in which each outcome tells a little."""
    draw = np.random.default_rng(seed)
    prob = draw.dirichlet(np.ones(states), (samples, states, 2))
    cost = np.broadcast_to(draw.random((states, 2)), (samples, states, 2))
    return rue.UMDP.from_dense(prob, cost, discount=0.8)


def grown(model: rue.UMDP, belief: np.ndarray, rounds: int) -> Hull:
    values, run = optimal_values(model), Run()
    found = search.AdaptiveSearch.start(Part.whole(model), values, "regret", 1e9, run)
    found.waiting = start_policies(model, values, run, math.inf)
    found.add_policies(3)
    hull = Hull.build(found.graph, model.samples)
    hull.move(belief)
    for _ in range(rounds):
        hull.round()
    return hull


@pytest.mark.parametrize("seed", range(5))
def test_links_are_the_best_sums(seed):
    """Each outcome that was linked last has the value of the linear program over all points of its state."""
    model = dense(seed, samples=2 + seed)
    hull = grown(model, np.full(model.samples, 1 / model.samples), 12)
    arrays = hull.arrays
    chosen = np.flatnonzero(arrays.outcome["programs"][: arrays.used[2]] > 0)[:200]
    arrays.outcome["programs"][chosen] = 0  # so that all points are looked at
    hull._link(chosen)
    own, compared = arrays.point["state"], 0
    for o in chosen:
        row = arrays.outcome[o]
        if model.graph.goal[row["state"]] or row["total"] == 0:
            continue
        weight = arrays.weight[row["point"]] * model.prob[row["transition"]]
        columns = hull.order[own[hull.order] == row["state"]]
        linked = arrays.child[o * arrays.links : (o + 1) * arrays.links]
        linked = linked[: np.argmax(linked == NONE) if (linked == NONE).any() else linked.size]
        share = arrays.share[o * arrays.links : o * arrays.links + linked.size]
        assert (share @ arrays.weight[linked] <= weight).all()
        if weight.min() < 1e-5 * weight.max():  # the tolerances of the other solver would be larger than that
            continue
        compared += 1
        rows = arrays.weight[columns].T / weight[:, None]
        best = linprog(-arrays.lower[columns], rows, np.ones(model.samples)) if columns.size else None
        value = -best.fun if best is not None else 0.0
        assert share @ arrays.lower[linked] == pytest.approx(value, rel=1e-4, abs=1e-9)
    assert compared > 20


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_belief_with_room(seed):
    draw = np.random.default_rng(seed)
    samples = int(draw.integers(2, 7))
    cuts, anchor = draw.random((int(draw.integers(1, 9)), samples)), draw.dirichlet(np.ones(samples))
    # A level that some belief reaches.
    level = 0.9 * (cuts @ draw.dirichlet(np.ones(samples), 1000).T).min(axis=0).max()
    found = nearest_above(cuts, level, anchor, 20_000)
    limits = [
        {"type": "ineq", "fun": lambda b: cuts @ b - level},
        {"type": "eq", "fun": lambda b: b.sum() - 1},
    ]
    best = minimize(
        lambda b: ((b - anchor) ** 2).sum(),
        found,
        constraints=limits,
        bounds=[(0, 1)] * samples,
        options={"ftol": 1e-14},
    ).x
    assert found.sum() == pytest.approx(1)
    assert found.min() >= -1e-5 and (cuts @ found).min() >= level - 1e-5
    assert np.abs(found - best).max() < 2e-3


@pytest.mark.parametrize("objective", ["regret", "cost"])
@settings(deadline=None, max_examples=60)
@given(model=umdps(Shape(zero_costs=False)))
def test_intervals_hold_what_the_graph_proves(model, objective):
    """The hull alone and the graph alone bound the same number; both checkers accept the hull's proof."""
    graph = rue.solve(model, rue.Adaptive(1e-4, objective=objective), limits=rue.Limits(iterations=200))
    with pytest.MonkeyPatch.context() as patch:
        hull_at_once(patch)
        hull = rue.solve(model, rue.Adaptive(1e-4, objective=objective), limits=rue.Limits(iterations=200))
    slack = 1e-6 * (1 + min(graph.objective.upper, hull.objective.upper, 1e6))
    assert hull.objective.lower <= graph.objective.upper + slack
    assert graph.objective.lower <= hull.objective.upper + slack
    if hull.certificate is not None:
        assert rue.verify(model, hull.certificate) >= hull.objective.lower
        check(model, hull.certificate, exact=True)


def check(model: rue.UMDP, certificate: rue.Certificate, exact: bool = False) -> float:
    """Check a proof with the independent checker; return what it proves."""
    text = json.loads(certificate.to_json(model))
    own = checker._model(text["model"])
    return float(checker.check(own, checker._proof(text["certificate"], own), exact))


@pytest.fixture(scope="module")
def proved() -> tuple[rue.UMDP, rue.Certificate]:
    model = dense(1)
    with pytest.MonkeyPatch.context() as patch:
        hull_at_once(patch)
        solution = rue.solve(model, rue.Adaptive(0.01), limits=rue.Limits(iterations=300))
    assert solution.certificate is not None
    assert solution.certificate.sums > 10
    return model, solution.certificate


def test_both_checkers_accept_sums(proved):
    model, certificate = proved
    assert rue.verify(model, certificate) >= certificate.bound
    assert check(model, certificate) >= certificate.bound
    assert check(model, certificate, exact=True) >= certificate.bound


def test_files_keep_sums(proved, tmp_path, soon):
    model, _ = proved
    solution = rue.solve(model, rue.Adaptive(0.01), limits=rue.Limits(iterations=300))
    rue.save(tmp_path / "s.rue", solution)
    rue.save(tmp_path / "m.rue", model)
    again = rue.load(tmp_path / "s.rue").certificate
    for name in ("follow", "sum_ptr", "sum_point", "sum_share"):
        assert np.array_equal(getattr(again, name), getattr(solution.certificate, name))
    assert checker.main([str(tmp_path / "m.rue"), str(tmp_path / "s.rue")]) == 0


@pytest.mark.parametrize("seed", range(30))
def test_tampered_sums_prove_no_more(proved, seed):
    """Larger shares, other points or other followers: refused, or no more than the truth is proved."""
    model, certificate = proved
    upper = rue.solve(model, rue.Adaptive(0.01)).max_regret.upper
    draw = np.random.default_rng(seed)
    share, point, follow = certificate.sum_share.copy(), certificate.sum_point.copy(), certificate.follow.copy()
    value = certificate.value.copy()
    at = draw.integers(share.size, size=max(share.size // 20, 1))
    kind = seed % 3
    if kind == 0:
        share[at] *= draw.uniform(1, 3, at.size)
    elif kind == 1:
        point[at] = draw.integers(certificate.points, size=at.size)
    else:
        value[draw.integers(value.size, size=3)] *= 1.5
        follow[draw.integers(follow.size, size=5)] = certificate.points + draw.integers(certificate.sums, size=5)
    forged = replace(certificate, sum_share=share, sum_point=point, follow=follow, value=value, bound=0.0)
    for prove in (rue.verify, check):
        try:
            bound = prove(model, forged)
        except (RueError, checker.BadFile, checker.Refused):
            continue
        assert bound <= upper + 1e-9


def test_the_same_with_any_number_of_threads(soon):
    model = dense(2)
    found = [
        rue.solve(model, rue.Adaptive(0.001), limits=rue.Limits(iterations=60), threads=threads) for threads in (1, 2)
    ]
    assert found[0].objective == found[1].objective
    assert np.array_equal(found[0].policy.choice, found[1].policy.choice)


def test_memory_is_bounded(soon):
    model = dense(3, states=6, samples=6)
    solution = rue.solve(model, rue.Adaptive(0, memory=0.02), limits=rue.Limits(seconds=30))
    assert solution.status in (rue.Status.MEMORY_LIMIT, rue.Status.TIME_LIMIT)
    assert 0 < solution.max_regret.lower <= solution.max_regret.upper < math.inf
