"""The central types, and the ways to make them."""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import umdps

import rue


def two_rooms(samples=2):
    builder = rue.Builder(samples=samples)
    builder.add(
        "hall", "walk", {"door": np.linspace(0.9, 0.5, samples), "hall": np.linspace(0.1, 0.5, samples)}, cost=1
    )
    builder.add("hall", "call", {"goal": 1.0}, cost=3)
    builder.add("door", "open", {"goal": 1.0}, cost=[0.5] * samples)
    return builder.goal("goal").build()


def test_builder_names_everything():
    model = two_rooms()
    graph = model.graph
    assert graph.state_label == ("hall", "door", "goal")
    assert graph.action_label == ("walk", "call", "open")
    assert graph.initial == 0 and graph.goal.tolist() == [False, False, True]
    assert graph.describe_choice(1) == 'choice 1 (state hall, action "call")'
    np.testing.assert_allclose(rue.optimal_values(model).value[0], [1 / 0.9 + 0.5, 1 / 0.5 + 0.5])


def test_builder_equals_dense():
    model = two_rooms()
    transition = np.zeros((2, 3, 3, 3))
    transition[:, 0, 0, 1], transition[:, 0, 0, 0] = [0.9, 0.5], [0.1, 0.5]
    transition[:, 0, 1, 2] = transition[:, 1, 2, 2] = 1
    cost = np.zeros((2, 3, 3))
    cost[:, 0, 0], cost[:, 0, 1], cost[:, 1, 2] = 1, 3, 0.5
    dense = rue.UMDP.from_dense(transition, cost, goals=[2])
    assert dense.graph.choices == model.graph.choices == 3
    a, b = (rue.solve(m, rue.Regret()) for m in (model, dense))
    assert a.regret == pytest.approx(b.regret, abs=1e-12)


def test_cost_per_transition_becomes_expected_cost():
    transition = np.array([[[[0.25, 0.75]], [[0.0, 0.0]]]])
    cost = np.array([[[[4.0, 8.0]], [[0.0, 0.0]]]])
    model = rue.UMDP.from_dense(transition, cost, goals=[1])
    assert model.cost[0, 0] == pytest.approx(7.0)


def test_rows_off_by_little_are_divided_by_their_sum():
    transition = np.array([[[[0.1, 0.9 + 5e-10]], [[0.0, 0.0]]]])
    model = rue.UMDP.from_dense(transition, np.ones((1, 2, 1)), goals=[1])
    assert abs(model.prob.sum() - 1) <= 1e-15


def test_models_are_frozen_and_share_only_what_cannot_change():
    graph = two_rooms().graph
    prob, cost = np.ones((4, 1)), np.ones((3, 1))
    prob[:2] = 0.5
    model = rue.UMDP(graph, prob, cost)
    prob[0] = 7.0
    assert model.prob[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        model.prob[0, 0] = 1.0
    again = rue.UMDP(graph, model.prob, model.cost)
    assert again.prob is model.prob


def test_copies_and_pickles_are_frozen_too():
    model = rue.domains.Disaster(width=3, height=3, seed=1).sample(5, seed=1)
    solution = rue.solve(model, rue.Regret())
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert (again.prob == model.prob).all() and not again.prob.flags.writeable
        assert again.graph.fingerprint == model.graph.fingerprint
        assert again.graph.state_label == model.graph.state_label
        assert not again.graph.successor.flags.writeable
    back = pickle.loads(pickle.dumps(solution))
    assert back.regret == solution.regret and back.solver == solution.solver
    assert rue.evaluate(model, back.policy).at_most == solution.max_regret.upper
    with pytest.raises(ValueError, match="read-only"):
        rue.optimal_values(model).upper[0, 0] = 0.0


def test_subset_takes_samples_with_their_labels():
    model = two_rooms(4)
    labelled = rue.UMDP(model.graph, model.prob, model.cost, ("a", "b", "c", "d"))
    some = labelled.subset([2, 0])
    assert some.sample_label == ("c", "a")
    assert (some.prob == model.prob[:, [2, 0]]).all()
    assert labelled.subset(np.array([True, False, False, True])).sample_label == ("a", "d")


@settings(max_examples=40)
@given(umdps(), st.sampled_from([0.5, 0.9]))
def test_discounted_values_solve_the_discounted_equation(model, discount):
    ended = model.with_discount(discount)
    value = rue.optimal_values(ended).value[:-1]
    graph = model.graph
    for s in range(graph.states):
        backups = [
            model.cost[c] + discount * np.einsum("tk,tk->k", model.prob[row], value[graph.successor[row]])
            for c in range(graph.choice_ptr[s], graph.choice_ptr[s + 1])
            for row in [slice(graph.trans_ptr[c], graph.trans_ptr[c + 1])]
        ]  # fmt: skip
        expected = np.min(backups, axis=0) if backups else np.zeros(model.samples)
        np.testing.assert_allclose(value[s], expected, atol=1e-8)


def test_rewards_with_a_discount_keep_their_regrets():
    # Two samples disagree on which action pays; values by hand for the policy that always takes action 0.
    transition = np.ones((2, 1, 2, 1))
    reward = np.array([[[1.0, 0.0]], [[0.0, 2.0]]])
    model = rue.UMDP.from_dense(transition, -reward, discount=0.9)
    verdict = rue.evaluate(model, rue.Policy.stationary(model, [0, 0]))
    np.testing.assert_allclose(verdict.regret, [0.0, 2.0 / (1 - 0.9)], atol=1e-9)


def test_rewards_with_goals_keep_their_regrets():
    # Stop at once for 5, or go on for 1 a step: with γ = 0.5, going on for ever is worth 2.
    transition = np.zeros((1, 2, 2, 2))
    transition[0, 0, 0, 1] = transition[0, 0, 1, 0] = 1
    model = rue.UMDP.from_dense(transition, [[[-5.0, -1.0], [0.0, 0.0]]], goals=[1], discount=0.5)
    stop, go_on = (rue.Policy.stationary(model, [a, 0, 0]) for a in (0, 1))
    assert rue.evaluate(model, stop).regret[0] == pytest.approx(0.0, abs=1e-9)
    assert rue.evaluate(model, go_on).regret[0] == pytest.approx(5.0 - 2.0, abs=1e-9)


def test_counts_become_dirichlet_samples():
    counts = np.zeros((3, 2, 3))
    counts[0, 0, [1, 2]] = 30, 10
    counts[0, 1, 2] = 4
    counts[1, 0, 2] = 7
    options = {"samples": 4000, "seed": 1, "goals": [2], "prior": 0.5, "support": "observed"}
    model = rue.from_counts(counts, np.ones((3, 2)), **options)
    assert model.graph.choices == 3
    exact = np.array([30.5, 10.5]) / 41
    np.testing.assert_allclose(model.prob[:2].mean(axis=1), exact, atol=5e-3)
    variance = exact * (1 - exact) / 42
    np.testing.assert_allclose(model.prob[:2].var(axis=1), variance, rtol=0.1)
    assert (model.prob[2:] == 1).all()
    same = rue.from_counts(counts, np.ones((3, 2)), **options)
    assert (same.prob == model.prob).all()
    everything = rue.from_counts(counts, np.ones((3, 2)), samples=3, seed=1, goals=[2], support="all")
    assert everything.graph.choices == 4 and everything.graph.transitions == 12
    by_state = rue.from_counts(counts, np.ones((3, 2)), samples=4000, seed=1, goals=[2])
    assert by_state.graph.successor.tolist() == [1, 2, 1, 2, 2]
    np.testing.assert_allclose(by_state.prob[2:4].mean(axis=1), np.array([1, 5]) / 6, atol=5e-3)


@given(
    st.integers(1, 4).flatmap(
        lambda states: st.lists(st.integers(0, 3), min_size=2 * states**2, max_size=2 * states**2)
    )
)
def test_the_support_of_counts_is_what_each_way_says(numbers):
    states = math.isqrt(len(numbers) // 2)
    counts = np.array(numbers).reshape(states, 2, states)
    goals = [s for s in range(states) if not counts[s].any()]
    allowed = {
        "observed": lambda s, a, t: counts[s, a, t] > 0,
        "state": lambda s, a, t: counts[s, a].any() and counts[s, :, t].any(),
        "all": lambda s, a, t: True,
    }
    for way, may in allowed.items():
        model = rue.from_counts(counts, np.ones((states, 2)), samples=2, seed=1, goals=goals, support=way, discount=0.9)
        graph = model.graph
        found = set()
        for choice, state in enumerate(graph.choice_state):
            row = graph.successor[graph.trans_ptr[choice] : graph.trans_ptr[choice + 1]]
            found |= {(int(state), int(graph.action[choice]), int(t)) for t in row if t < states}
        triples = itertools.product(set(range(states)) - set(goals), range(2), range(states))
        assert found == {triple for triple in triples if may(*triple)}


def test_cost_noise_has_its_standard_deviation():
    counts = np.zeros((2, 1, 2))
    counts[0, 0, 1] = 3
    model = rue.from_counts(counts, [[10.0], [0.0]], samples=5000, seed=2, goals=[1], cost_noise=0.1)
    assert model.cost.mean() == pytest.approx(10.0, abs=0.1)
    assert model.cost.std() == pytest.approx(1.0, rel=0.05)


def test_transitions_from_a_log():
    rows = [("ward", "wait", 1.0, "ward"), ("ward", "wait", 3.0, "home"), ("ward", "treat", 5.0, "home")]
    rows += [("home", "anything", 9.0, "ward")]  # after the goal: ignored
    counts = rue.count_transitions(rows, initial="ward", goals=["home"])
    assert counts.state_label == ("ward", "home")
    assert counts.cost.tolist() == [2.0, 5.0]
    assert counts.cost_spread[0] == pytest.approx(np.std([1, 3], ddof=1) / np.sqrt(2))
    model = rue.from_transitions(rows, samples=5, seed=1, initial="ward", goals=["home"])
    assert model.samples == 5 and model.graph.action_label[:2] == ("wait", "treat")
    assert np.isfinite(rue.solve(model, rue.Regret()).max_regret.upper)


def test_states_that_a_log_never_leaves_can_be_dead_ends():
    rows = [("a", "risk", 0.0, "lost"), ("a", "risk", 0.0, "end"), ("a", "safe", 5.0, "end")]
    model = rue.from_transitions(rows, samples=3, seed=1, initial="a", goals=["end"], unvisited="dead end")
    solution = rue.solve(model, rue.Regret())
    assert solution.policy.to_csv().splitlines()[1] == "0,a,safe,1.0,2,1.0"


def test_stationary_policies_from_actions_and_from_probabilities():
    model = two_rooms()
    policy = rue.Policy.stationary(model, [1, 2, 0])
    assert policy.is_stationary and policy.is_deterministic
    np.testing.assert_allclose(rue.evaluate(model, policy).value, 3.0)
    mixed = rue.Policy.stationary(model, [[0.5, 0.5, 0], [0, 0, 1], [0, 0, 0]])
    assert not mixed.is_deterministic
    # By hand: v = 1/2 (1 + p·0.5 + (1 − p) v) + 1/2 · 3
    for p, value in zip((0.9, 0.5), rue.evaluate(model, mixed).value, strict=True):
        assert value == pytest.approx((0.5 * (1 + p * 0.5) + 1.5) / (1 - 0.5 * (1 - p)))


@pytest.mark.parametrize("seed", range(5))
def test_long_rows_are_divided_by_their_sum_once(seed):
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(300), size=(2, 301, 1))
    transition = np.concatenate([transition, np.zeros((2, 301, 1, 1))], axis=3)
    transition[..., 300] = 1e-9 * rng.random((2, 301, 1))  # sums are off by a little
    model = rue.UMDP.from_dense(transition, np.ones((2, 301, 1)), initial=0, goals=[300])
    again = rue.UMDP(model.graph, model.prob.copy(), model.cost)
    assert (again.prob == model.prob).all()
