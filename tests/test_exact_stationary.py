"""ExactStationary: against enumeration of all stationary deterministic policies, and under every limit."""

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import Shape, umdps
from naive import INF, Naive

import rue
from rue.stationary import search as exact_stationary
from rue.stationary.search import ExactStationary
from rue.values import optimal_somewhere, regret_gap

CASES = sorted((Path(__file__).parent / "data" / "cases").glob("*.json"))


def disaster(size: int, seed: int = 1, samples: int = 15) -> rue.UMDP:
    return rue.domains.Disaster(width=size, height=size, seed=seed).sample(samples, seed=1)


def enumerated(model: rue.UMDP, allowed: set[int] | None = None) -> Fraction | float:
    """The least max regret of all stationary deterministic policies, exactly."""
    naive = Naive(model)
    value = {
        tuple(policy): [naive.policy_value(policy, k, naive.initial) for k in range(naive.samples)]
        for policy in naive.policies()
    }
    best = [min(column) for column in zip(*value.values(), strict=True)]
    return min(
        max(mine - least for mine, least in zip(values, best, strict=True))
        for policy, values in value.items()
        if allowed is None
        or all(c in allowed or c < 0 or not allowed & set(naive.choices[s]) for s, c in enumerate(policy))
    )


def check_exact(model: rue.UMDP, exact: Fraction | float, solver: ExactStationary) -> rue.Solution:
    solution = rue.solve(model, solver)
    assert solution.objective.lower <= exact <= solution.objective.upper
    assert (solution.status is rue.Status.INFEASIBLE) == (exact == INF)
    if exact != INF:
        assert solution.status is rue.Status.SOLVED
        assert solution.objective.width <= 1e-6 * max(1.0, float(exact))
        assert solution.policy.is_stationary and solution.policy.is_deterministic
        assert solution.max_regret.upper == pytest.approx(float(exact), abs=1e-6)
    return solution


@pytest.fixture
def bare(monkeypatch):
    """No policies but the search's own: no other methods, no descents."""
    monkeypatch.setattr(exact_stationary, "_starts", lambda *_: iter(()))
    monkeypatch.setattr(exact_stationary, "DESCENT_ROUNDS", 0)


@settings(max_examples=200)
@given(umdps(Shape(states=4, samples=3)))
def test_equals_enumeration(model):
    check_exact(model, enumerated(model), ExactStationary())


@settings(max_examples=100)
@given(umdps(Shape(states=4, samples=3)))
def test_search_alone_equals_enumeration(model):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_stationary, "_starts", lambda *_: iter(()))
        patch.setattr(exact_stationary, "DESCENT_ROUNDS", 0)
        patch.setattr(exact_stationary, "PILOT_NODES", 0)
        check_exact(model, enumerated(model), ExactStationary())


@settings(max_examples=60)
@given(umdps(Shape(states=4, samples=3)))
def test_pruned_equals_enumeration_of_what_remains(model):
    values = rue.optimal_values(model)
    kept = optimal_somewhere(model, values, regret_gap(model, values))
    exact = enumerated(model, set(np.flatnonzero(kept).tolist()))
    check_exact(model, enumerated(model) if exact == INF else exact, ExactStationary(prune=True))


def random_model(seed: int, states: int = 6, actions: int = 3, samples: int = 5) -> rue.UMDP:
    rng = np.random.default_rng(seed)
    transition = np.zeros((samples, states + 1, actions, states + 1))
    support = rng.integers(0, states + 1, (states, actions, 3))
    for s, a in itertools.product(range(states), range(actions)):
        for j in {*support[s, a], states}:
            transition[:, s, a, j] = rng.random(samples) ** 2 + 0.01
    transition[:, :states] /= transition[:, :states].sum(axis=3, keepdims=True)
    return rue.UMDP.from_dense(transition, rng.random((samples, states + 1, actions)) ** 3, initial=0, goals=[states])


def enumerated_in_floats(model: rue.UMDP) -> float:
    """All policies at once, by dense linear systems."""
    graph, goals = model.graph, int(model.graph.goal.sum())
    inner = graph.states - goals
    dense = np.zeros((model.samples, graph.choices, graph.states))
    for t, c in enumerate(graph.trans_choice):
        dense[:, c, graph.successor[t]] += model.prob[t]
    policies = np.array(list(itertools.product(*(range(*graph.choice_ptr[s : s + 2]) for s in range(inner)))))
    optimal = rue.optimal_values(model).value[graph.initial]
    regret = []
    for k in range(model.samples):
        system = np.eye(inner) - dense[k][policies][:, :, :inner]
        value = np.linalg.solve(system, model.cost[policies, k][:, :, None])
        regret.append(value[:, graph.initial, 0] - optimal[k])
    return float(np.max(regret, axis=0).min())


@pytest.mark.parametrize("seed", range(12))
def test_equals_enumeration_of_729_policies(seed):
    model = random_model(seed)
    solution = rue.solve(model, ExactStationary())
    assert solution.status is rue.Status.SOLVED
    assert solution.max_regret.upper == pytest.approx(enumerated_in_floats(model), abs=1e-6)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.usefixtures("bare")
def test_search_alone_finds_the_best_of_729_policies(seed):
    model = random_model(seed)
    solution = rue.solve(model, ExactStationary(gap=0.0))
    exact = enumerated_in_floats(model)
    assert solution.status is rue.Status.SOLVED
    assert solution.objective.lower == pytest.approx(exact, abs=1e-7)
    assert solution.objective.upper == pytest.approx(exact, abs=1e-7)


def test_slow_chains():
    # Sweeps come to rest long before the values are right; the judge decides at the leaves.
    transition, cost = np.zeros((2, 3, 3, 3)), np.zeros((2, 3, 3))
    leave = 1e-5 * np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    for s in range(2):
        transition[:, s, :, 2], transition[:, s, :, 1 - s] = leave, 1 - leave
        cost[:, s] = 1e-5
    model = rue.UMDP.from_dense(transition, cost, initial=0, goals=[2])
    solution = rue.solve(model, ExactStationary())
    exact = enumerated_in_floats(model)
    assert solution.status is rue.Status.SOLVED
    assert solution.objective.lower == pytest.approx(exact, rel=1e-6)
    assert solution.objective.upper == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_cases(path):
    case = json.loads(path.read_text())
    model = case["model"]
    umdp = rue.UMDP.from_dense(model["transition"], model["cost"], initial=model["initial"], goals=model["goals"])
    solution = rue.solve(umdp, ExactStationary())
    assert solution.status is rue.Status.SOLVED
    assert solution.max_regret.upper == pytest.approx(case["values"]["best_stationary_deterministic"], abs=1e-6)
    assert solution.objective.lower == pytest.approx(case["values"]["best_stationary_deterministic"], abs=1e-5)


@pytest.mark.parametrize("seed", range(1, 9))
def test_solves_5x5(seed):
    model = disaster(5, seed)
    solution = rue.solve(model, ExactStationary(), limits=rue.Limits(seconds=60))
    assert solution.status is rue.Status.SOLVED
    pruned = rue.solve(model, ExactStationary(prune=True), limits=rue.Limits(seconds=60))
    assert pruned.status is rue.Status.SOLVED
    assert solution.objective.lower <= pruned.objective.upper
    for other in (rue.BestSample(), rue.Regret(), rue.Regret(prune=False), rue.WorstCase(), rue.Average()):
        assert solution.objective.lower <= rue.solve(model, other).max_regret.upper


@pytest.mark.parametrize("seed", [2, 5])
def test_the_order_of_the_search_does_not_matter(seed, monkeypatch):
    model = disaster(5, seed)
    exact = rue.solve(model, ExactStationary()).objective.upper
    with monkeypatch.context() as patch:  # from nothing
        patch.setattr(exact_stationary, "_starts", lambda *_: iter(()))
        patch.setattr(exact_stationary, "DESCENT_ROUNDS", 0)
        assert rue.solve(model, ExactStationary()).objective.upper == pytest.approx(exact, rel=3e-6)
    with monkeypatch.context() as patch:  # one step at a time, and short of memory all the while
        patch.setattr(exact_stationary, "BUDGET", 1)
        patch.setattr(exact_stationary, "FIRST_POOL", 2)
        patch.setattr(exact_stationary, "POOL_BYTES", 0)
        found = rue.solve(model, ExactStationary())
        assert found.status is rue.Status.SOLVED
        assert found.objective.upper == pytest.approx(exact, rel=3e-6)


@settings(max_examples=25)
@given(st.permutations(range(4)))
def test_duplicates_and_the_order_of_samples_do_not_matter(order):
    model = disaster(4, 3, samples=4)
    exact = rue.solve(model, ExactStationary())
    twice = rue.solve(model.subset([*order, *order[:2]]), ExactStationary())
    assert twice.status is rue.Status.SOLVED
    assert twice.objective.upper == pytest.approx(exact.objective.upper, rel=3e-6)


def test_one_sample_has_no_regret():
    solution = rue.solve(disaster(5, samples=1), ExactStationary())
    assert solution.status is rue.Status.SOLVED
    assert solution.objective.upper == pytest.approx(0.0, abs=1e-9)


def test_fifty_samples():
    solution = rue.solve(disaster(4, 2, samples=50), ExactStationary(), limits=rue.Limits(seconds=60))
    assert solution.status is rue.Status.SOLVED


def test_initial_state_is_a_goal():
    transition = np.zeros((2, 2, 1, 2))
    transition[:, 0, 0, 1] = 1.0
    model = rue.UMDP.from_dense(transition, np.ones((2, 2, 1)), initial=1, goals=[1])
    solution = rue.solve(model, ExactStationary())
    assert solution.status is rue.Status.SOLVED
    assert (solution.objective.lower, solution.objective.upper) == (0.0, 0.0)
    alone = rue.UMDP.from_dense(np.zeros((2, 1, 1, 1)), np.zeros((2, 1, 1)), initial=0, goals=[0])
    assert rue.solve(alone, ExactStationary()).objective.upper == 0.0


def one_way_each(free: bool) -> rue.UMDP:
    """Each sample has one door that opens; the other one leads nowhere."""
    transition = np.zeros((2, 2, 2, 2))
    for k, a in itertools.product(range(2), range(2)):
        transition[k, 0, a, int(k == a)] = 1.0
    return rue.UMDP.from_dense(transition, np.full((2, 2, 2), 0.0 if free else 1.0), initial=0, goals=[1])


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("prune", [True, False])
def test_infeasible(free, prune):
    solution = rue.solve(one_way_each(free), ExactStationary(prune=prune))
    assert solution.status is rue.Status.INFEASIBLE
    assert solution.objective.lower == math.inf


def test_limits_leave_a_policy_and_a_bound():
    model = disaster(10, 4)
    solution = rue.solve(model, ExactStationary(), limits=rue.Limits(seconds=2))
    assert solution.status is rue.Status.TIME_LIMIT
    assert 0 < solution.objective.lower < solution.objective.upper < math.inf
    assert solution.max_regret.upper <= rue.solve(model, rue.BestSample()).max_regret.upper
    for before, after in itertools.pairwise(solution.trace):
        assert after.lower >= before.lower or after.upper != before.upper
    none = rue.solve(disaster(5), ExactStationary(), limits=rue.Limits(seconds=0))
    assert none.status is rue.Status.TIME_LIMIT


def test_limit_on_iterations_is_one_on_nodes():
    solution = rue.solve(disaster(5, 2), ExactStationary(), limits=rue.Limits(iterations=50))
    assert solution.status is rue.Status.ITERATION_LIMIT
    assert solution.counters["nodes"] == 50


def test_interrupt():
    def interrupt(progress):
        if "nodes" in progress.stage and progress.iteration > 100:
            runs.append(progress)
            import signal

            signal.raise_signal(signal.SIGINT)

    runs = []
    solution = rue.solve(disaster(10, 4), ExactStationary(), limits=rue.Limits(seconds=30), progress=interrupt)
    assert runs and solution.status is rue.Status.INTERRUPTED
    assert 0 <= solution.objective.lower < solution.objective.upper < math.inf


@pytest.mark.parametrize("arguments", [{"prune": 1}, {"gap": -1}, {"gap": 1}, {"gap": "small"}, {"gap": math.nan}])
def test_bad_input(arguments):
    with pytest.raises(rue.BadInput):
        ExactStationary(**arguments)


def test_among_equals_the_smaller_mean():
    # Sample 0 must lose 1 whatever is done; in sample 1 one action is free and the other costs 0.5.
    transition = np.zeros((3, 2, 3, 2))
    transition[:, 0, :, 1] = 1.0
    cost = np.zeros((3, 2, 3))
    cost[:, 0] = [[1.0, 1.0, 0.0], [0.5, 0.0, 2.0], [0.0, 0.0, 0.0]]
    model = rue.UMDP.from_dense(transition, cost, initial=0, goals=[1])
    solution = rue.solve(model, ExactStationary())
    assert solution.regret == pytest.approx((1.0, 0.0, 0.0))


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_no_worse_than_the_stationary_neighbours_of_options(seed):
    """On 8×8: what reg d3 does first in each state, or at any other time, as a stationary policy."""
    model = disaster(8, seed)
    solution = rue.solve(model, ExactStationary(), limits=rue.Limits(seconds=20))
    assert 0 < solution.objective.lower <= solution.objective.upper
    policy = rue.solve(model, rue.Regret(3)).policy
    for pick in (min, max):  # the first and the last node of each state
        choice = np.maximum(model.graph.choice_ptr[:-1] - model.graph.goal, 0)
        for s in np.unique(policy.node_state[np.diff(policy.entry_ptr) > 0]):
            node = pick(np.flatnonzero(policy.node_state == s))
            choice[s] = policy.choice[policy.entry_ptr[node]]
        neighbour = rue.evaluate(model, rue.Policy.from_choices(model.graph, choice))
        assert solution.max_regret.upper <= neighbour.max_regret + 1e-9
