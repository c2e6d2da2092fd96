"""The judge against exact arithmetic, and the simulator against the judge."""

import importlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import Shape, models_with_controllers, umdps
from naive import INF, Naive, controller_value

import rue
from rue.judge import is_proper, node_values
from rue.long_run import components
from rue.solution import Run, Status

judge = importlib.import_module("rue.judge")


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


def test_the_clock_is_checked_between_factorisations(monkeypatch):
    states, samples, factorised = 300, 3, []
    transition = np.zeros((samples, states + 1, 1, states + 1))
    for s in range(states):
        transition[:, s, 0, max(s - 1, 0)], transition[:, s, 0, s + 1] = 0.5, 0.5
    model = rue.UMDP.from_dense(transition, np.ones((samples, states + 1, 1)), goals=[states])
    policy = rue.Policy.stationary(model, [0] * (states + 1))
    least = judge.least_cost(model, Run(threads=1))
    monkeypatch.setattr(judge, "least_cost", lambda *_: least)
    solve_chain = judge.solve_chain
    monkeypatch.setattr(judge, "solve_chain", lambda *a: factorised.append(a) or solve_chain(*a))
    run = Run(threads=1)
    run.out_of_time = lambda: Status.TIME_LIMIT if factorised else None
    verdict = judge.judge(model, policy, run)
    assert len(factorised) == 1 and not verdict.complete


@settings(max_examples=200)
@given(st.integers(1, 12).flatmap(lambda n: st.lists(st.sets(st.integers(0, n)), min_size=n, max_size=n)))
def test_components_equal_reachability(follows):
    count = len(follows)
    row_ptr = np.append(0, np.cumsum([len(row) for row in follows]))
    target = np.array([to for row in follows for to in row], np.int32)
    sequence, part_ptr = components(row_ptr, target)
    assert sorted(sequence) == list(range(count))
    reach = np.eye(count + 1, dtype=bool)
    for i, row in enumerate(follows):
        reach[i, list(row)] = True
    for middle in range(count):
        reach |= reach[:, [middle]] & reach[middle]
    part_of = np.full(count + 1, -1)  # goals follow all
    for p, (begin, end) in enumerate(itertools.pairwise(part_ptr)):
        assert (np.diff(sequence[begin:end]) > 0).all()
        part_of[sequence[begin:end]] = p
    for i in range(count):
        assert ((part_of[:-1] == part_of[i]) == (reach[i, :-1] & reach[:-1, i])).all()
        assert (part_of[list(follows[i])] <= part_of[i]).all()


def slow_model(seed: int, samples: int) -> rue.UMDP:
    """One action for each state, that mostly leads to one state and very rarely to another; all reach the goal."""
    draw = np.random.default_rng(seed)
    size = int(draw.integers(2, 8))
    transition = np.zeros((samples, size + 1, 1, size + 1))
    for k in range(samples):
        for s in range(size):
            mostly, rarely = draw.choice(size + 1, 2, replace=False)
            chance = 2.0 ** -draw.choice([1, 2, 10, 20, 30])
            transition[k, s, 0, [mostly, rarely]] = 1 - chance, chance
    cost = draw.integers(1, 9, (samples, size + 1, 1)) / 4
    return rue.UMDP.from_dense(transition, cost, goals=[size])


@pytest.mark.parametrize("dense", [0, 256])
def test_slow_components_equal_fractions(monkeypatch, dense):
    monkeypatch.setattr(judge, "DENSE", dense)
    finite = slow = 0
    for seed in range(150):
        try:
            model = slow_model(seed, samples=2)
        except rue.BadInput:  # it never comes to the goal
            continue
        policy = rue.Policy.stationary(model, [0] * model.graph.states)
        naive, (value, error) = Naive(model), node_values(model, policy)
        verdict = rue.evaluate(model, policy)
        for k in range(2):
            exact = controller_value(naive, policy, k)
            assert (exact == INF) == (not is_proper(model, policy)[k])
            if exact == INF:
                assert verdict.value[k] == INF
                continue
            finite += 1
            slow += exact > 1e5
            for found, doubt in ((verdict.value[k], verdict.error), (value[0, k], error[0, k])):
                assert doubt == INF or abs(float(exact) - found) <= doubt
                # Elimination subtracts nothing: its error does not grow with the number of steps, only the bound does.
                assert doubt == INF or dense == 0 or found == pytest.approx(float(exact), rel=1e-12)
            assert exact > 1e8 or error[0, k] <= 1e-5 * float(exact)
    assert finite > 60 and slow > 20


def ladder(length: int, walk: int) -> tuple[rue.UMDP, rue.Policy]:
    """A long way on which there is no return, then a slow walk, then a fast cycle of two; each leads on to the next."""
    size = length + walk + 2
    transition = np.zeros((3, size + 1, 1, size + 1))
    for s in range(length):
        transition[:, s, 0, s + 1] += 0.5
        transition[:, s, 0, min(s + 2, length)] += 0.5
    for s in range(length, length + walk):
        transition[:, s, 0, s + 1] += 0.45
        transition[:, s, 0, max(s - 1, length)] += 0.55
    transition[:, size - 2, 0, [size - 1, size]] = 0.5
    transition[:, size - 1, 0, [size - 2, size]] = 0.5
    model = rue.UMDP.from_dense(transition, np.ones((3, size + 1, 1)), goals=[size])
    return model, rue.Policy.stationary(model, [0] * (size + 1))


def test_only_the_slow_component_is_solved_directly(monkeypatch):
    sizes = []

    def spy(row, column, prob, right):
        sizes.append(right.shape[0])
        return solve_chain(row, column, prob, right)

    solve_chain = judge.solve_chain
    monkeypatch.setattr(judge, "solve_chain", spy)
    model, policy = ladder(length=300, walk=40)
    eliminated, node_value = rue.evaluate(model, policy), node_values(model, policy)[0]
    assert not sizes
    monkeypatch.setattr(judge, "DENSE", 39)
    model, policy = ladder(length=300, walk=40)
    factorised = rue.evaluate(model, policy)
    assert sizes == [40, 40, 40]
    np.testing.assert_allclose(node_values(model, policy)[0], node_value, rtol=1e-10)
    assert abs(factorised.value - eliminated.value).max() <= factorised.error + eliminated.error
    assert max(factorised.error, eliminated.error) <= 1e-8 * eliminated.value.max()


@pytest.mark.parametrize("dense", [0, 256])
def test_components_whose_proof_is_loose_are_solved_again(monkeypatch, dense):
    # Next to a cycle that is cheap and almost never left, the sweeps of the dear and fast one are not good enough.
    monkeypatch.setattr(judge, "DENSE", dense)
    again = []
    improve = judge._Guess.improve
    monkeypatch.setattr(judge._Guess, "improve", lambda self, error: again.append(improve(self, error)) or again[-1])
    rare = 2.0**-30
    transition = np.zeros((1, 5, 1, 5))
    transition[0, 0, 0, [1, 2]] = 0.0078125, 0.9921875
    transition[0, 1, 0, 0] = 1.0
    transition[0, 2, 0, 3] = 1.0
    transition[0, 3, 0, [2, 4]] = 1 - rare, rare
    cost = np.array([[1.0, 1.0, rare, rare, 0.0]])[:, :, None]
    model = rue.UMDP.from_dense(transition, cost, goals=[4])
    policy = rue.Policy.stationary(model, [0] * 5)
    exact = [float(controller_value(Naive(model), policy, 0)), 2.0]
    verdict, (value, error) = rue.evaluate(model, policy), node_values(model, policy)
    assert again == [True, True]
    for found, doubt, wanted in ((verdict.value[0], verdict.error, exact[0]), (value[2, 0], error[2, 0], exact[1])):
        assert abs(found - wanted) <= doubt <= 1e-4
    assert verdict.value[0] == pytest.approx(exact[0], rel=1e-14 if dense else 1e-6)


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
