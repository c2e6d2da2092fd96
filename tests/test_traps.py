"""Small models on which something once went wrong, or would in a careless program."""

import math

import numpy as np
import pytest

import rue


def test_tiny_costs_beside_large_ones_are_no_dead_ends():
    builder = rue.Builder(samples=2)
    builder.add("A", "x", {"B": 1.0}, cost=1e-17)
    builder.add("B", "x", {"A": 0.5, "G": 0.5}, cost=[1, 3])
    builder.add("B", "y", {"A": 0.5, "G": 0.5}, cost=[3, 1])
    model = builder.goal("G").build()
    solution = rue.solve(model, rue.Regret())
    assert solution.objective.lower == pytest.approx(4, abs=1e-6) == solution.objective.upper
    assert solution.max_regret.upper == pytest.approx(4, abs=1e-6)


@pytest.mark.parametrize("leave", [2.0**-7, 2.0**-13])
def test_free_step_in_a_slow_cycle(leave):
    builder = rue.Builder()
    builder.add("A", "x", {"B": 1.0}, cost=0.0)
    builder.add("B", "x", {"A": 1 - leave, "G": leave}, cost=1.0)
    values = rue.optimal_values(builder.goal("G").build())
    assert values.lower[0, 0] == pytest.approx(1 / leave, rel=1e-8)
    assert values.upper[0, 0] == pytest.approx(1 / leave, rel=1e-8)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_state_that_only_randomising_can_leave(scale):
    # In X the right action depends on the sample: only a mixture gets away from an adversary.
    builder = rue.Builder(samples=2)
    builder.add("A", "safe", {"G": 1.0}, cost=10 * scale)
    builder.add("A", "risky", {"X": 1.0}, cost=scale)
    builder.add("X", "a", {"G": [1, 0], "X": [0, 1]}, cost=scale)
    builder.add("X", "b", {"G": [0, 1], "X": [1, 0]}, cost=scale)
    model = builder.goal("G").build()
    mixed = rue.solve(model, rue.WorstCase(options="stochastic"))
    assert mixed.objective.lower == pytest.approx(3 * scale, rel=1e-6)
    assert mixed.objective.upper == pytest.approx(3 * scale, rel=1e-6)
    assert rue.solve(model, rue.WorstCase()).objective.upper == pytest.approx(10 * scale, rel=1e-6)
    regret = rue.solve(model, rue.Regret(options="stochastic"))
    assert regret.objective.upper == pytest.approx(scale, rel=1e-6)  # two tries instead of one
    assert regret.max_regret.upper == pytest.approx(scale, rel=1e-6)


def test_the_next_sample_may_not_have_the_last_ones_way_out():
    # The optimal choice of sample 1 only stays put in sample 2.
    transition = np.zeros((3, 2, 2, 2))
    transition[:, 0, 0] = [7 / 8, 1 / 8]
    transition[:, 0, 1] = [[1, 0], [7 / 8, 1 / 8], [1, 0]]
    cost = np.array([[[0.25, 0.0], [0, 0]], [[0.25, 0.125], [0, 0]], [[0.25, 0.125], [0, 0]]])
    model = rue.UMDP.from_dense(transition, cost, goals=[1])
    np.testing.assert_allclose(rue.optimal_values(model).value[0], [2.0, 1.0, 2.0], atol=1e-9)


def test_mixtures_that_are_better_the_longer_they_take_end_with_kappa():
    graph = rue.Graph(
        [0, 2, 4, 5, 6, 6], [0, 1, 0, 1, 0, 0], [0, 2, 4, 5, 8, 10, 11], [0, 2, 0, 1, 0, 0, 1, 2, 0, 4, 3], 0
    )
    eighths = [
        [8, 7, 8],
        [0, 1, 0],
        [7, 7, 7],
        [1, 1, 1],
        [8, 8, 8],
        [6, 7, 6],
        [1, 0, 1],
        [1, 1, 1],
        [7, 7, 7],
        [1, 1, 1],
        [8, 8, 8],
    ]
    cost = np.zeros((6, 3))
    cost[:2, 1], cost[5] = 0.25, 1.0
    model = rue.UMDP(graph, np.array(eighths) / 8, cost)
    solution = rue.solve(model, rue.WorstCase(options="stochastic"))
    assert solution.objective.lower == pytest.approx(16, abs=1e-2)
    assert solution.objective.upper == pytest.approx(16, abs=1e-2)


def test_a_huge_penalty_does_not_blur_the_rest():
    builder = rue.Builder(samples=2)
    builder.add("A", "slow", {"B": 1.0}, cost=[1.0, 2.0])
    builder.add("A", "quick", {"B": 1.0}, cost=[2.0, 1.5])
    builder.add("B", "go", {"G": 1.0}, cost=0.5)
    builder.add("A", "never", {"G": 1.0}, cost=1e12)
    solution = rue.solve(builder.goal("G").build(), rue.Regret())
    assert solution.objective.lower == pytest.approx(0.5, abs=1e-6)
    assert solution.max_regret.upper == pytest.approx(0.5, abs=1e-6)


def test_rows_that_are_off_by_rounding_give_intervals_that_agree():
    leave = 1e-5
    transition = np.array([[[[1 - leave - 8e-15, leave]], [[0.0, 0.0]]]])
    model = rue.UMDP.from_dense(transition, np.ones((1, 2, 1)), goals=[1])
    values, robust = rue.optimal_values(model), rue.solve(model, rue.WorstCase()).objective
    assert max(values.lower[0, 0], robust.lower) <= min(values.upper[0, 0], robust.upper)


def test_a_choice_that_hardly_ever_leaves():
    builder = rue.Builder()
    builder.add("A", "x", {"G": 1e-10, "A": 1 - 1e-10}, cost=1e-10)
    model = builder.goal("G").build()
    solution = rue.solve(model, rue.WorstCase())
    assert solution.objective.lower == pytest.approx(1.0, rel=1e-6)
    assert solution.objective.upper == pytest.approx(1.0, rel=1e-6)


def test_average_where_the_averaged_model_has_no_way():
    # Each sample has a safe action, the other one's trap.
    builder = rue.Builder(samples=2)
    builder.add("A", "a", {"G": [1, 0], "D": [0, 1]}, cost=1.0)
    builder.add("A", "b", {"G": [0, 1], "D": [1, 0]}, cost=1.0)
    builder.add("D", "stay", {"D": 1.0}, cost=1.0)
    model = builder.goal("G").build()
    for solver in (rue.Average(), rue.Regret(), rue.WorstCase(options="stochastic")):
        solution = rue.solve(model, solver)
        assert solution.status is rue.Status.INFEASIBLE
        assert math.isinf(solution.max_regret.upper)


def test_absurd_costs_are_refused():
    with pytest.raises(rue.BadInput, match="expected at most"):
        rue.Builder().add("A", "a", {"G": 0.5, "A": 0.5}, cost=1e308).goal("G").build()


def test_a_limit_gives_a_policy_that_avoids_dead_ends():
    # The optimal policy of sample 0 is a trap in sample 1; another one is safe in both.
    builder = rue.Builder(samples=2)
    builder.add("A", "bold", {"G": [1, 0], "D": [0, 1]}, cost=1.0)
    builder.add("A", "safe", {"G": 1.0}, cost=3.0)
    builder.add("D", "stay", {"D": 1.0}, cost=1.0)
    model = builder.goal("G").build()
    for solver in (rue.BestSample(), rue.Regret(), rue.WorstCase()):
        fresh = rue.UMDP(model.graph, model.prob, model.cost)
        solution = rue.solve(fresh, solver, limits=rue.Limits(seconds=0))
        assert solution.status is rue.Status.TIME_LIMIT
        assert solution.max_regret.upper == pytest.approx(2.0)


def test_what_is_not_proved_is_not_called_solved():
    # Free moves go round between A and B against the adversary's answers, so the lower end falls back to 0.
    builder = rue.Builder(samples=2)
    builder.add("A", "over", {"B": [0.5, 0.5], "A": [0.5, 0.5]}, cost=0.0)
    builder.add("A", "out", {"G": 1.0}, cost=[1.0, 2.0])
    builder.add("B", "back", {"A": [0.5, 0.5], "B": [0.5, 0.5]}, cost=0.0)
    builder.add("B", "out", {"G": 1.0}, cost=[2.0, 1.0])
    solution = rue.solve(builder.goal("G").build(), rue.MyopicRegret(prune=False))
    assert solution.objective.lower == 0.0 < solution.objective.upper
    assert solution.status is rue.Status.UNPROVED
    with pytest.raises(rue.NotSolved):
        solution.require()
