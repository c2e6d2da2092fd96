"""The judge against exact arithmetic, and the simulator against the judge."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import Shape, models_with_controllers, umdps
from naive import INF, Naive, controller_value

import rue
from rue.evaluate import is_proper


@settings(max_examples=200)
@given(models_with_controllers())
def test_judge_equals_fractions(pair):
    model, policy = pair
    naive, verdict = Naive(model), rue.evaluate(model, policy)
    proper = is_proper(model, policy)
    for k in range(model.samples):
        exact, best = controller_value(naive, policy, k), naive.optimal(k)[naive.initial]
        if exact == INF:
            assert verdict.value[k] == verdict.regret[k] == INF
            assert not proper[k]
        else:
            assert proper[k]
            assert abs(float(exact) - verdict.value[k]) <= verdict.error
            assert abs(float(exact - best) - verdict.regret[k]) <= verdict.error
            assert abs(float(best) - verdict.optimal[k]) <= verdict.error
    assert verdict.error <= 1e-8


def test_worst_sample_and_summary():
    model = rue.domains.Disaster(width=5, height=4, seed=2).sample(6, seed=1)
    verdict = rue.evaluate(model, rue.solve(model, rue.Average()).policy)
    assert verdict.max_regret == verdict.regret.max() == verdict.regret[verdict.worst_sample]
    assert verdict.mean_regret == pytest.approx(verdict.regret.mean())
    assert (verdict.regret == np.maximum(verdict.value - verdict.optimal, 0)).all()


def test_more_samples_than_a_block():
    model = rue.domains.Disaster(width=4, height=4, seed=2).sample(40, seed=1)
    policy = rue.solve(model.subset(range(3)), rue.Regret()).policy
    verdict = rue.evaluate(model, policy)
    for k in (0, 15, 16, 39):
        assert rue.evaluate(model.subset([k]), policy).value[0] == pytest.approx(verdict.value[k], abs=1e-10)


def test_slow_chains_are_factorised():
    # A walk that goes back far more often than on: sweeps crawl, and the error is proved all the same.
    size = 60
    transition = np.zeros((1, size + 1, 1, size + 1))
    for s in range(size):
        transition[0, s, 0, s + 1] += 0.45
        transition[0, s, 0, max(s - 1, 0)] += 0.55
    model = rue.UMDP.from_dense(transition, np.ones((1, size + 1, 1)), goals=[size])
    verdict = rue.evaluate(model, rue.Policy.stationary(model, np.zeros(size + 1, int)))
    # Time to go one step right from s, by hand: h(s) = (1 + 0.55 h(s-1)) / 0.45 with the wall at 0.
    steps, total = 1 / 0.45, 0.0
    for _ in range(size):
        total += steps
        steps = (1 + 0.55 * steps) / 0.45
    assert verdict.error <= 1e-6 * total
    assert abs(verdict.value[0] - total) <= verdict.error
    assert verdict.regret[0] <= verdict.error


def test_one_judge_for_test_sets_of_the_same_graph():
    domain = rue.domains.Disaster(width=5, height=5, seed=1)
    policy = rue.solve(domain.sample(5, seed=1), rue.Regret()).policy
    assert np.isfinite(rue.evaluate(domain.sample(20, seed=2), policy).max_regret)


@settings(max_examples=30)
@given(umdps(Shape(dead_ends=False)), st.integers(0, 2**32))
def test_simulation_agrees_with_the_judge(model, seed):
    policy = rue.solve(model, rue.Regret(prune=False)).policy
    verdict = rue.evaluate(model, policy)
    sample = model.samples - 1
    if not np.isfinite(verdict.value[sample]):
        return
    run = rue.simulate(model, policy, sample=sample, episodes=4000, seed=seed)
    assert run.reached.all()
    # Six standard errors: one false alarm in hundreds of millions.
    error = run.cost.std(ddof=1) / np.sqrt(run.cost.size)
    assert abs(run.mean - verdict.value[sample]) <= 6 * error + 1e-9 * (1 + verdict.value[sample])
    low, high = run.interval
    assert low <= run.mean <= high


def test_simulation_covers_the_value_as_often_as_it_says():
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(3, seed=1)
    policy = rue.solve(model, rue.Average()).policy
    exact = rue.evaluate(model, policy).value[1]
    inside = 0
    for seed in range(400):
        low, high = rue.simulate(model, policy, sample=1, episodes=300, seed=seed).interval
        inside += low <= exact <= high
    assert 0.90 * 400 <= inside <= 0.985 * 400


def test_cut_off_episodes_say_so():
    transition = np.array(
        [[[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], [[0, 0, 0], [0, 0, 0]]]]
    )
    model = rue.UMDP.from_dense(transition, np.ones((1, 3, 2)), goals=[2])
    for_ever = rue.Policy.stationary(model, [0, 0, 0])
    assert rue.evaluate(model, for_ever).value[0] == np.inf
    run = rue.simulate(model, for_ever, sample=0, episodes=5, seed=1, max_steps=50)
    assert not run.reached.any() and run.mean == np.inf and run.interval[1] == np.inf
    assert (run.steps == 50).all()


@pytest.mark.parametrize("length", [20, 40, 400])
def test_a_policy_that_hardly_ever_ends_is_not_free(length):
    # A walk that is thrown back with probability 0.9: about 9^length steps.
    transition = np.zeros((2, length + 1, 2, length + 1))
    for s in range(length):
        transition[:, s, 0, s + 1], transition[:, s, 0, max(s - 1, 0)] = 0.1, 0.9
        transition[:, s, 1, length] = 1.0
    model = rue.UMDP.from_dense(transition, np.ones((2, length + 1, 2)), goals=[length])
    verdict = rue.evaluate(model, rue.Policy.stationary(model, [0] * (length + 1)))
    exact = sum(10 * sum(9.0**j for j in range(s)) + 9.0**s for s in range(length)) if length < 100 else np.inf
    assert not np.isnan(verdict.error)
    assert (verdict.value + verdict.error >= exact * (1 - 1e-9)).all()
    assert (verdict.value > 1e15).all()


def rare_chances(to_goal: bool, others: int = 0) -> tuple[rue.UMDP, rue.Policy]:
    """At 0, an action that is taken with weight 1e-200 leads to 1 with probability 1e-200; 1 is a trap or the way out.

    Otherwise 0 leads to the goal 2 or, if 1 is the way out, to itself. There are samples without that chance, and
    samples in which 1 is the other thing, as many as wanted.
    """
    transition = np.zeros((2 + others, 3, 2, 3))
    home = 0 if to_goal else 2
    transition[:, 0, 0, home] = 1.0
    transition[:, 0, 1, [1, home]] = [1e-200, 1.0]
    transition[1, 0, :, :] = [0.0, 0.0, 1.0]
    transition[:, 1, 0, 2 if to_goal else 1] = 1.0
    transition[:, 1, 1, 2] = 1.0
    transition[2:, 1, 0] = [0.0, 0.0, 1.0] if not to_goal else [0.0, 1.0, 0.0]
    model = rue.UMDP.from_dense(transition, np.ones((2 + others, 3, 2)), goals=[2])
    return model, rue.Policy.stationary(model, np.array([[1.0, 1e-200], [1, 0], [1, 0]]))


@pytest.mark.parametrize("others", [0, 1, 9])
def test_a_trap_beyond_all_numbers_is_a_trap(others):
    model, policy = rare_chances(to_goal=False, others=others)
    verdict = rue.evaluate(model, policy)
    assert is_proper(model, policy).tolist() == [False] + [True] * (1 + others)
    assert verdict.value[0] == verdict.regret[0] == INF
    np.testing.assert_allclose(verdict.value[1:], 1.0)
    assert verdict.error < 1e-12


@pytest.mark.parametrize("others", [0, 1, 9])
def test_a_way_out_beyond_all_numbers_is_no_proof_of_a_cost(others):
    model, policy = rare_chances(to_goal=True, others=others)
    verdict = rue.evaluate(model, policy)
    assert is_proper(model, policy).tolist() == [True, True] + [False] * others
    # It never misses the goal in the first sample, but takes longer than can be said.
    assert verdict.value[0] == INF and verdict.error == INF
    assert verdict.value[1] == pytest.approx(1.0)
    assert (verdict.value[2:] == INF).all()
    assert is_proper(model.subset([1]), policy).all() and rue.evaluate(model.subset([1]), policy).error < 1e-12
    alone = rue.evaluate(model.subset([0]), policy)
    assert alone.value[0] == INF and alone.error == INF and is_proper(model.subset([0]), policy).all()
