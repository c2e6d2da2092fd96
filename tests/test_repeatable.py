"""The same call gives the same answer: whatever ran before on the same model, and whatever the number of threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import Shape, umdps

import rue
from rue.adaptive.portfolio import METHODS
from rue.recursion.inner import histories

SOLVERS = [*METHODS, rue.Regret(2, "stochastic"), rue.BestSample(), rue.Adaptive(0.02), rue.Adaptive(objective="cost")]


def names(solver):
    return "-".join(str(part) for part in (solver.name, *vars(solver).values())[:3])


def facts(solution: rue.Solution) -> tuple:
    """All that a solution says but its times."""
    policy = solution.policy
    arrays = (policy.node_state, policy.choice, policy.weight, policy.next_node, policy.start_node, policy.start_weight)
    proofs = [p and (p.bound, p.value.tobytes()) for p in (solution.certificate, solution.regret_certificate)]
    bounds = [(point.iteration, point.lower, point.upper) for point in solution.trace]
    return (
        solution.status, solution.objective, solution.max_regret, solution.regret, dict(solution.counters), proofs,
        bounds, [array.tobytes() for array in arrays],
    )  # fmt: skip


@pytest.mark.parametrize("solver", SOLVERS, ids=names)
def test_no_result_depends_on_the_number_of_threads(solver):
    model = rue.domains.Disaster(width=5, height=5, seed=1).sample(15, seed=1)
    one, two, many = (facts(rue.solve(model, solver, threads=threads)) for threads in (1, 2, 5))
    assert one == two == many


def test_values_and_verdicts_do_not_depend_on_the_number_of_threads():
    model = rue.domains.Disaster(width=60, height=60, seed=1).sample(21, seed=1)  # large enough for threads
    policy = rue.solve(model, rue.Average(), bound=False).policy
    values = [rue.optimal_values(model, threads=threads) for threads in (1, 2, 7)]
    verdicts = [rue.evaluate(model, policy, threads=threads) for threads in (1, 2, 7)]
    for other in values[1:]:
        assert (other.lower == values[0].lower).all() and (other.upper == values[0].upper).all()
    for other in verdicts[1:]:
        assert (other.regret == verdicts[0].regret).all() and other.error == verdicts[0].error


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("solver", [rue.Regret(), rue.Mixture(), rue.ExactStationary(), rue.Adaptive()], ids=names)
def test_what_ran_before_on_the_same_model_changes_nothing(solver, bound):
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    first = facts(rue.solve(model, solver, bound=bound))
    rue.solve(model, rue.Adaptive(0.001))
    rue.lower_bound(model, limits=rue.Limits(iterations=50))
    rue.evaluate(model, rue.solve(model, rue.Average()).policy)
    assert facts(rue.solve(model, solver, bound=bound)) == first


@pytest.mark.parametrize("iterations", [0, 1, 3, 10])
def test_limits_by_count_are_the_same_after_other_runs(iterations):
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    for solver in (rue.Regret(2), rue.Mixture(), rue.Adaptive(0.0)):
        limits = rue.Limits(iterations=iterations)
        first = facts(rue.solve(model, solver, limits=limits))
        rue.solve(model, rue.Adaptive(0.001))
        assert facts(rue.solve(model, solver, limits=limits)) == first


@settings(max_examples=20)
@given(umdps(Shape(states=4)), st.sampled_from(SOLVERS))
def test_random_models_give_the_same_twice(model, solver):
    assert facts(rue.solve(model, solver, threads=1)) == facts(rue.solve(model, solver, threads=3))


def test_a_cache_carries_over_what_was_found_and_only_that_does():
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    cache = rue.Cache()
    alone = rue.solve(model, rue.Regret(), bound=False)
    assert alone.max_regret.lower == 0.0
    best = rue.solve(model, rue.Adaptive(0.01), cache=cache)
    after = rue.solve(model, rue.Regret(), bound=False, cache=cache)
    assert after.max_regret.lower == best.max_regret.lower > 0 and after.regret == alone.regret
    assert rue.verify(model, after.certificate) >= after.max_regret.lower
    assert "1 model" in repr(cache)
    with pytest.raises(rue.BadInput, match=r"expected a rue\.Cache"):
        rue.solve(model, rue.Regret(), cache={})


def test_where_histories_do_not_fit_stochastic_options_are_returned_without_a_bound(monkeypatch):
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(3, seed=1)
    monkeypatch.setattr(histories, "MOST_BYTES", 1)
    solution = rue.solve(model, rue.Regret(2, "stochastic"))
    assert solution.status is rue.Status.UNPROVED and np.isfinite(solution.max_regret.upper)
    with pytest.raises(rue.BadInput, match=r"histories|options of"):
        rue.solve(model, rue.Regret(2, "history"))
