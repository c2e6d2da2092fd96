"""What once went wrong with options of n steps: models made to mislead, each with its true value."""

import math

import numpy as np
import pytest
from naive import Naive

import rue
from rue.judge import is_proper

CLASSES = ("deterministic", "history", "stochastic")


def test_a_limit_in_the_middle_of_a_search_proves_nothing():
    model = rue.domains.Medical(seed=1).sample(15, seed=1)
    better = rue.solve(model, rue.Regret(4, "history"))
    known = rue.theory.adversary_regret(model, better.policy, 7).upper
    for seconds in (0.3, 1.0):
        solution = rue.solve(model, rue.Regret(7, "history", prune=False), limits=rue.Limits(seconds=seconds))
        assert solution.objective.lower <= known
        solution = rue.solve(model, rue.Regret(5, prune=False), limits=rue.Limits(seconds=seconds))
        assert solution.objective.lower <= rue.theory.adversary_regret(model, better.policy, 5).upper


def way_round(share: float) -> rue.UMDP:
    """Straight to the goal for 1, or round and round at next to nothing, for `share` in all."""
    p = 2.0**-38
    transition, cost = np.zeros((1, 3, 2, 3)), np.zeros((1, 3, 2))
    transition[:, 0, 0, 2], cost[:, 0, 0] = 1, 1
    transition[:, 0, 1, 1], cost[:, 0, 1] = 1, share * p
    transition[:, 1, 0, [2, 0]] = p, 1 - p
    return rue.UMDP.from_dense(transition, cost, initial=0, goals=[2])


@pytest.mark.parametrize("share", [0.9, 0.99, 0.999])
@pytest.mark.parametrize("steps", [2, 4])
@pytest.mark.parametrize("options", CLASSES)
def test_a_way_round_that_is_cheaper_by_less_than_rounding(share, steps, options):
    solution = rue.solve(way_round(share), rue.WorstCase(steps, options), bound=False)
    assert solution.objective.lower <= share * (1 + 1e-9) <= solution.objective.upper * (1 + 1e-9)


def trap() -> rue.UMDP:
    """A cheap action that may end in a state without a way out, dead in all samples, and a dear one to the goal."""
    transition, cost = np.zeros((2, 3, 2, 3)), np.zeros((2, 3, 2))
    transition[0, 0, 0, 2], transition[1, 0, 0, 1], cost[:, 0, 0] = 1, 1, 1
    transition[:, 0, 1, 2], cost[:, 0, 1] = 1, 5
    transition[:, 1, 0, 1], cost[:, 1, 0] = 1, 1
    return rue.UMDP.from_dense(transition, cost, initial=0, goals=[2])


@pytest.mark.parametrize("options", CLASSES)
@pytest.mark.parametrize("steps", [2, 3])
@pytest.mark.parametrize("solver", [rue.Regret, rue.MyopicRegret, rue.WorstCase])
@pytest.mark.parametrize("prune", [True, False])
def test_a_state_that_is_dead_in_all_samples(solver, steps, options, prune):
    model = trap()
    solution = rue.solve(model, solver(steps, options, prune=prune))
    value = 5.0 if solver is rue.WorstCase else 4.0
    assert solution.status is rue.Status.SOLVED
    assert solution.objective.upper == pytest.approx(value, abs=1e-6)
    assert is_proper(model, solution.policy).all()


@pytest.mark.parametrize("big", [1e6, 134217728.0, 1e9])
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("options", CLASSES)
def test_costs_of_very_different_size(big, steps, options):
    transition, cost = np.zeros((3, 4, 3, 4)), np.zeros((3, 4, 3))
    transition[:, 2, 0, 0] = 1
    transition[0, 2, 1, 3] = transition[1, 2, 1, 3] = transition[2, 2, 1, 1] = 1
    transition[:, 1, 0, 1] = 1
    transition[:, 1, 1, 3], cost[:2, 1, 1] = 1, big
    transition[0, 1, 2, 3] = transition[1, 1, 2, 1] = 1
    transition[2, 1, 2, [1, 3]], cost[2, 1, 2] = (0.625, 0.375), 0.125
    transition[:, 0, 0, 1], cost[1, 0, 0] = 1, 0.125
    transition[:, 0, 1, 2], cost[2, 0, 1] = 1, 1e-10
    model = rue.UMDP.from_dense(transition, cost, initial=0, goals=[3])
    solution = rue.solve(model, rue.Regret(steps, options, prune=False))
    assert not math.isnan(solution.objective.lower)
    assert solution.objective.lower <= solution.objective.upper
    if solution.status is rue.Status.SOLVED:
        assert math.isfinite(solution.objective.upper)
    if options == "deterministic":
        naive = Naive(model)
        exact = naive.best_deterministic(naive.regret_gap()) if steps == 1 else 0.125
        assert solution.objective.lower <= exact <= solution.objective.upper
        assert big > 1e6 or solution.objective.upper == pytest.approx(float(exact), abs=1e-3)
    if math.isfinite(solution.objective.upper):
        assert is_proper(model, solution.policy).all()


def hardly_any_chance(p: float) -> rue.UMDP:
    """One action everywhere; in each sample another of two ways ends, and that seldom."""
    transition, cost = np.zeros((2, 4, 1, 4)), np.ones((2, 4, 1))
    transition[0, 0, 0, [1, 3]] = transition[0, 1, 0, [2, 0]] = p, 1 - p
    transition[1, 0, 0, [3, 1]] = transition[1, 3, 0, [2, 0]] = p, 1 - p
    transition[0, 3, 0, 0] = transition[1, 1, 0, 0] = 1
    return rue.UMDP.from_dense(transition, cost, initial=0, goals=[2])


@pytest.mark.parametrize("p", [1e-3, 1e-7])
@pytest.mark.parametrize("options", ["deterministic", "history"])
@pytest.mark.parametrize("engine", ["auto", "highs"])
def test_hardly_any_chance_is_a_chance(p, options, engine):
    solution = rue.solve(hardly_any_chance(p), rue.WorstCase(2, options, engine=engine), bound=False)
    assert solution.status is not rue.Status.INFEASIBLE
    assert solution.objective.lower <= 2 / p**2 * (1 + 1e-6)
    assert solution.objective.upper >= 2 / p**2 * (1 - 1e-6)


@pytest.mark.parametrize("model", [way_round(0.99), hardly_any_chance(1e-3), hardly_any_chance(1e-7)])
def test_a_bound_that_is_hard_to_find_is_no_higher_than_the_best(model):
    # One sample, or one policy: somebody has no regret.
    solution = rue.solve(model, rue.WorstCase(2))
    assert solution.max_regret.lower == 0.0 <= solution.max_regret.upper


@pytest.mark.parametrize(("length", "chance", "steps"), [(1, 1e-210, 2), (1, 1e-30, 3), (3, 1e-29, 4)])
@pytest.mark.parametrize("options", CLASSES)
def test_a_trap_that_is_hardly_ever_met_is_a_trap(length, chance, steps, options):
    # A cheap way that ends in a trap with probability chance^length in sample 0, and a safe one for 9.
    trap, goal = length + 1, length + 2
    transition, cost = np.zeros((2, length + 3, 2, length + 3)), np.zeros((2, length + 3, 2))
    for s in range(length):
        follows = s + 1 if s + 1 < length else trap
        transition[:, s, 0, goal] = 1.0
        transition[0, s, 0, [follows, goal]] = chance, 1.0
    cost[:, 0, 0] = 1.0
    transition[:, 0, 1, goal], cost[:, 0, 1] = 1.0, 9.0
    transition[:, length, 0, goal] = 1.0
    transition[:, trap, 0, trap], cost[:, trap, 0] = 1.0, 1.0
    model = rue.UMDP.from_dense(transition, cost, initial=0, goals=[goal])
    solution = rue.solve(model, rue.WorstCase(steps, options))
    assert solution.objective.upper == pytest.approx(9.0, abs=1e-6)
    assert is_proper(model, solution.policy).all()


def test_a_bound_that_needs_too_many_histories_is_done_without():
    model = rue.domains.Disaster(width=10, height=10, seed=1).sample(15, seed=1)
    solution = rue.solve(model, rue.Regret(8), limits=rue.Limits(seconds=1))
    assert solution.status is rue.Status.TIME_LIMIT
    assert solution.max_regret.upper <= solution.objective.upper + 1e-9
