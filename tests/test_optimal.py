"""Optimal values against enumeration in exact arithmetic, and the traps of stochastic shortest paths."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from models import Shape, umdps
from naive import INF, Naive

import rue


def tight(values, rel=1e-8):
    finite = np.isfinite(values.upper)
    return ((values.upper[finite] - values.lower[finite]) <= rel * np.maximum(1.0, values.upper[finite])).all()


@settings(max_examples=150)
@given(umdps())
def test_interval_contains_the_enumerated_optimum(model):
    naive, values = Naive(model), rue.optimal_values(model)
    for k in range(model.samples):
        for s, exact in enumerate(naive.optimal(k)):
            if exact == INF:
                assert values.upper[s, k] == values.lower[s, k] == INF
            else:
                assert values.lower[s, k] <= exact <= values.upper[s, k]
    assert tight(values)


@settings(max_examples=100)
@given(umdps())
def test_choices_attain_the_value(model):
    naive, values = Naive(model), rue.optimal_values(model)
    for k in range(model.samples):
        policy = [int(c) for c in values.choice[:, k]]
        exact = naive.optimal(k)
        for s in range(naive.states):
            if exact[s] != INF and not naive.goal[s]:
                filled = [c if c >= 0 else (naive.choices[t] or [-1])[0] for t, c in enumerate(policy)]
                assert float(naive.policy_value(filled, k, s)) == pytest.approx(float(exact[s]), abs=1e-7)


def test_residual_trap_gives_one():
    # Leaving has probability 1e-4 and each try costs 1e-4: plain sweeps come to rest at 1e-4.
    transition = np.array([[[[1 - 1e-4, 1e-4]], [[0.0, 0.0]]]])
    model = rue.UMDP.from_dense(transition, [[[1e-4], [0.0]]], goals=[1])
    values = rue.optimal_values(model)
    assert values.lower[0, 0] <= 1.0 <= values.upper[0, 0]
    assert values.upper[0, 0] - values.lower[0, 0] <= 1e-9
    verdict = rue.evaluate(model, rue.Policy.stationary(model, [0, 0]))
    assert abs(verdict.value[0] - 1.0) <= verdict.error <= 1e-9


@pytest.mark.parametrize("leave", [1e-3, 1e-5])
def test_residual_trap_through_a_cycle(leave):
    # No self-loop to take out: two states that hand over to each other, and seldom leave.
    transition = np.zeros((1, 3, 1, 3))
    transition[0, 0, 0] = [0, 1, 0]
    transition[0, 1, 0] = [1 - leave, 0, leave]
    cost = np.array([[[leave / 2], [leave / 2], [0.0]]])
    values = rue.optimal_values(rue.UMDP.from_dense(transition, cost, goals=[2]))
    exact = 1.0
    assert values.lower[0, 0] <= exact + 1e-12 and exact - 1e-12 <= values.upper[0, 0]
    assert values.upper[0, 0] - values.lower[0, 0] <= 1e-6


@pytest.mark.parametrize("cost", [1e-300, 1e-13, 1e-11, 1e-10, 1e-9, 1e-7])
def test_a_round_whose_cost_is_lost_in_rounding(cost):
    # Beside a value of a million the cost of going round is a rounding error: no inequality tells that it does not pay.
    builder = rue.Builder().add("start", "straight", {"goal": 1}, 8).add("start", "over", {"one": 1}, 1)
    builder.add("one", "round", {"other": 1}, 0).add("other", "back", {"one": 1}, cost).add(
        "one", "out", {"goal": 1}, 1e6
    )
    model = builder.goal("goal").build()
    values = rue.optimal_values(model)
    value = {"start": 8.0, "goal": 0.0, "one": 1e6, "other": 1e6 + cost}
    exact = np.array([[value[name]] for name in model.graph.state_label])
    assert (values.lower <= exact).all() and (exact <= values.upper).all()
    assert tight(values)
    assert rue.solve(model, rue.Adaptive()).status == "solved"


@pytest.mark.parametrize("leave", [1e-9, 1e-10, 1e-11])
def test_a_cycle_in_which_values_hardly_change_from_sweep_to_sweep(leave):
    # Sweeps come to rest at half of the value; going round for twice as long is cheaper than it looks there.
    builder = rue.Builder().add("one", "round", {"two": 1}, 1.0)
    builder.add("two", "round", {"one": 1 - leave, "goal": leave}, 1.0)
    builder.add("one", "out", {"road": 1}, 1.0).add("road", "on", {"goal": 1}, 1.7 / leave)
    values = rue.optimal_values(builder.goal("goal").build())
    assert values.choice[0, 0] == 1
    assert values.lower[0, 0] <= 1 + 1.7 / leave <= values.upper[0, 0]
    assert values.upper[0, 0] - values.lower[0, 0] <= 1e-2 * values.upper[0, 0]


def hardly_left(cost: float, leave: float = 1e-17) -> rue.UMDP:
    """A circle that is left with a probability that is lost beside one, and a way past it."""
    builder = rue.Builder().add("start", "risk it", {"circle": 1}, 1.0).add("start", "past it", {"road": 1}, 1e6)
    builder.add("road", "on", {"goal": 1}, 0.0).add("circle", "back", {"start": 1 - leave, "goal": leave}, cost)
    return builder.goal("goal").build()


@pytest.mark.parametrize("cost", [0.0, 1e-12, 1.0])
def test_a_chain_that_cannot_be_factorised(cost):
    values = rue.optimal_values(hardly_left(cost))
    assert values.lower[0, 0] <= 1e6 <= values.upper[0, 0]
    assert values.upper[0, 0] - values.lower[0, 0] <= 1e-6
    assert rue.solve(hardly_left(cost), rue.Adaptive()).max_regret.upper <= 1e-6


@pytest.mark.parametrize("solver", [rue.Regret(), rue.Regret(2), rue.WorstCase(), rue.BestSample(), rue.Mixture()])
def test_costs_beyond_all_precision_are_told_as_such(solver):
    builder = rue.Builder().add("start", "go", {"circle": 1}, 1.0)
    builder.add("circle", "back", {"start": 1.0, "goal": 1e-17}, 1.0)
    solution = rue.solve(builder.goal("goal").build(), solver)
    assert (solution.status, solution.objective.upper) == ("unproved", math.inf)
    assert solution.objective.lower < math.inf


def test_a_state_whose_cost_is_beyond_all_numbers_is_no_goal():
    # Several samples are swept in the order of distance, which overflows at "far".
    builder = rue.Builder(4).add("start", "far", {"far": 1}, 1.0).add("start", "out", {"goal": 1}, 100.0)
    builder.add("far", "try", {"goal": 1e-310, "far": 1.0}, 1.0)
    values = rue.optimal_values(builder.goal("goal").build())
    assert not values.dead.any()
    assert (values.lower[0] <= 100.0).all() and (values.upper[0] >= 100.0).all()


def test_slow_walks_are_proved_to_the_tolerance():
    # Sweeps reduce the error of a walk with a weak drift little by little, in each sample anew.
    states, back = 40, np.linspace(0.35, 0.42, 6)
    transition = np.zeros((6, states + 1, 1, states + 1))
    for s in range(states):
        transition[:, s, 0, max(s - 1, 0)], transition[:, s, 0, s + 1] = back, 1 - back
    model = rue.UMDP.from_dense(transition, np.ones((6, states + 1, 1)), goals=[states])
    values = rue.optimal_values(model)
    assert (values.upper - values.lower <= 2e-11 * values.upper).all()


def test_free_component_is_left_where_it_is_cheapest():
    # Rooms 0 and 1 can be changed for nothing; leaving costs 5 from room 0 and 2 from room 1.
    transition = np.zeros((1, 3, 2, 3))
    transition[0, 0, 0], transition[0, 0, 1] = [0, 1, 0], [0, 0, 1]
    transition[0, 1, 0], transition[0, 1, 1] = [1, 0, 0], [0, 0, 1]
    cost = np.array([[[0.0, 5.0], [0.0, 2.0], [0.0, 0.0]]])
    model = rue.UMDP.from_dense(transition, cost, goals=[2])
    values = rue.optimal_values(model)
    assert values.lower[0, 0] == pytest.approx(2.0, abs=1e-9) and values.upper[0, 0] == pytest.approx(2.0, abs=1e-9)
    assert rue.solve(model, rue.Average()).max_regret.upper == pytest.approx(0.0, abs=1e-9)


def test_many_samples_agree_with_one_at_a_time():
    model = rue.domains.Disaster(width=7, height=5, seed=3).sample(9, seed=1)
    together = rue.optimal_values(model)
    for k in range(model.samples):
        alone = rue.optimal_values(model.subset([k]))
        assert np.abs(alone.value[:, 0] - together.value[:, k]).max() <= 1e-9


def test_limits_leave_valid_bounds_and_a_second_call_finishes():
    from rue.solution import Limits, Run

    model = rue.domains.Disaster(width=20, height=20, seed=1).sample(5, seed=1)
    early = rue.optimal_values(model, run=Run(Limits(seconds=0)))
    assert not early.complete
    bounds = early.lower.copy(), early.upper.copy()
    final = rue.optimal_values(model)
    assert final.complete and tight(final)
    assert (bounds[0] <= final.upper).all() and (bounds[1] >= final.lower).all()


def free_grid(samples: int = 3) -> rue.UMDP:
    model = rue.domains.Disaster(width=8, height=8, seed=1).sample(samples, seed=1)
    return rue.UMDP(model.graph, model.prob, np.where(model.cost < 1.05, 0.0, model.cost))


def test_nothing_is_factorised_after_a_limit(monkeypatch):
    from rue import values as module
    from rue.solution import Limits, Run

    monkeypatch.setattr(module, "solve_chain", lambda *_: pytest.fail("it took time after the limit"))
    values = rue.optimal_values(free_grid(), run=Run(Limits(seconds=0)))
    assert not values.complete and (values.lower <= values.upper).all()


def test_factors_that_do_not_fit_into_memory_leave_valid_bounds(monkeypatch):
    import scipy.sparse.linalg

    from rue import values as module

    final = rue.optimal_values(free_grid())

    def no_memory(matrix):
        raise MemoryError

    monkeypatch.setattr(scipy.sparse.linalg, "splu", no_memory)
    monkeypatch.setattr(module, "DENSE", 0)
    values = rue.optimal_values(free_grid())
    assert (values.lower <= final.upper).all() and (values.upper >= final.lower).all()


def test_steps_are_counted_with_an_eye_on_the_clock(monkeypatch):
    from rue import values as module
    from rue.solution import Run, Status

    model, sweeps = free_grid(1), []
    most_steps = module.shortest.most_steps
    monkeypatch.setattr(module, "WORK", 1)
    monkeypatch.setattr(module.shortest, "most_steps", lambda *a: sweeps.append(a[5]) or most_steps(*a))
    run = Run(threads=1)
    run.out_of_time = lambda: Status.TIME_LIMIT if sweeps else None
    rue.optimal_values(model, run=run)
    assert sweeps == [1]


@settings(max_examples=50)
@given(umdps(Shape(dead_ends=False, zero_costs=False)))
def test_scaling_costs_scales_values(model):
    scaled = rue.UMDP(model.graph, model.prob, model.cost * 1e6)
    a, b = rue.optimal_values(model).value, rue.optimal_values(scaled).value
    finite = np.isfinite(a)
    assert (finite == np.isfinite(b)).all()
    assert np.abs(b[finite] - 1e6 * a[finite]).max(initial=0.0) <= 1e-3
    assert math.isfinite(a[model.graph.initial, 0])
