"""Expected visits against exact fractions, against the judge's costs, and against episodes."""

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from models import Shape, models_with_controllers

import rue
from rue.visits import MOST_PASSED, STEP_ITSELF, distribution_after, expected_visits


def exact_rows(model, policy, sample):
    """{node: {next node: probability}}, in fractions, without impossible ones."""
    graph, rows = model.graph, {}
    for node in range(policy.nodes):
        row = rows.setdefault(node, {})
        for entry in range(policy.entry_ptr[node], policy.entry_ptr[node + 1]):
            first = graph.trans_ptr[policy.choice[entry]]
            for i, j in enumerate(range(policy.next_ptr[entry], policy.next_ptr[entry + 1])):
                chance = Fraction(float(policy.weight[entry])) * Fraction(float(model.prob[first + i, sample]))
                if chance:
                    row[int(policy.next_node[j])] = row.get(int(policy.next_node[j]), Fraction(0)) + chance
    return rows


def reach(rows, begin):
    seen, queue = set(begin), list(begin)
    while queue:
        fresh = set(rows[queue.pop()]) - seen
        seen |= fresh
        queue += fresh
    return seen


def exact_visits(model, policy, sample):
    """By Gauss–Jordan elimination in fractions; None where they are infinite."""
    rows = exact_rows(model, policy, sample)
    start = {int(n): Fraction(float(w)) for n, w in zip(policy.start_node, policy.start_weight, strict=True) if w}
    visited = reach(rows, start)
    goal = {node for node in rows if model.graph.goal[policy.node_state[node]]}
    endless = {i for i in visited - goal if all(i in reach(rows, [j]) for j in reach(rows, [i]))}
    passing = sorted(visited - goal - endless)
    place = {node: i for i, node in enumerate(passing)}
    table = [[Fraction(int(i == j)) for j in range(len(passing))] + [start.get(passing[i], Fraction(0))]
             for i in range(len(passing))]  # fmt: skip
    for node in passing:
        for follower, chance in rows[node].items():
            if follower in place:
                table[place[follower]][place[node]] -= chance
    for i in range(len(passing)):
        pivot = next(j for j in range(i, len(passing)) if table[j][i])
        table[i], table[pivot] = table[pivot], table[i]
        table[i] = [x / table[i][i] for x in table[i]]
        for j in range(len(passing)):
            if j != i:
                table[j] = [x - table[j][i] * y for x, y in zip(table[j], table[i], strict=True)]
    visits = {node: table[i][-1] for node, i in place.items()}
    for node in goal & visited:
        visits[node] = start.get(node, Fraction(0)) + sum(
            (visits[i] * rows[i].get(node, Fraction(0)) for i in passing), Fraction(0)
        )
    return [None if node in endless else visits.get(node, Fraction(0)) for node in rows]


@given(models_with_controllers(Shape(states=4, samples=2)))
def test_visits_equal_fractions(pair):
    model, policy = pair
    for sample in range(model.samples):
        exact = exact_visits(model, policy, sample)
        found = expected_visits(model, policy, sample)
        assert [not np.isfinite(x) for x in found] == [x is None for x in exact]
        finite = [i for i, x in enumerate(exact) if x is not None]
        assert found[finite] == pytest.approx([float(exact[i]) for i in finite], rel=1e-9, abs=1e-12)


@given(models_with_controllers(Shape(states=4, samples=2)))
def test_the_distribution_equals_fractions(pair):
    model, policy = pair
    goal = model.graph.goal[policy.node_state]
    for sample in range(model.samples):
        rows = exact_rows(model, policy, sample)
        now = {int(n): Fraction(float(w)) for n, w in zip(policy.start_node, policy.start_weight, strict=True)}
        found = distribution_after(model, policy, sample, [3, 0, 1])
        for step in range(4):
            exact = [float(now.get(node, 0)) for node in range(policy.nodes)]
            if step != 2:
                assert found[{3: 0, 0: 1, 1: 2}[step]] == pytest.approx(exact, abs=1e-15)
            later = {}
            for node, mass in now.items():
                for follower, chance in ({node: Fraction(1)} if goal[node] else rows[node]).items():
                    later[follower] = later.get(follower, Fraction(0)) + mass * chance
            now = later


@pytest.mark.parametrize("method", [rue.Regret(1), rue.Regret(3, "history"), rue.Mixture()])
def test_visits_pay_what_the_judge_says(method):
    # Each visit of a node pays the mean cost of its choices: Σ n(i) Σ_c w(i, c) C̄(c) = V.
    model = rue.domains.Disaster(width=6, height=6, seed=3).sample(5, seed=1)
    policy = rue.solve(model, method).policy
    verdict = rue.evaluate(model, policy)
    node = np.repeat(np.arange(policy.nodes), np.diff(policy.entry_ptr))
    for sample in range(model.samples):
        visits = expected_visits(model, policy, sample)
        paid = float(visits[node] @ (policy.weight * model.cost[policy.choice, sample]))
        assert paid == pytest.approx(verdict.value[sample], rel=1e-10)
        assert visits[model.graph.goal[policy.node_state]].sum() == pytest.approx(1)


def test_visits_are_as_long_as_episodes():
    model = rue.domains.Disaster(width=5, height=5, seed=3).sample(3, seed=1)
    policy = rue.solve(model, rue.Regret(2, "history")).policy
    goal = model.graph.goal[policy.node_state]
    for sample in range(3):
        runs = rue.simulate(model, policy, sample=sample, episodes=20_000, seed=1)
        visits = expected_visits(model, policy, sample)
        spread = runs.steps.std() / np.sqrt(runs.steps.size)
        assert visits[~goal].sum() == pytest.approx(runs.steps.mean(), abs=5 * spread)
        ended = distribution_after(model, policy, sample, [12])[0, goal].sum()
        assert ended == pytest.approx((runs.steps <= 12).mean(), abs=5 * 0.5 / np.sqrt(runs.steps.size))


def test_slow_chains_keep_their_precision():
    # From a to b and back again, and out with one in 2³⁰: n = 2³⁰ at each.
    rare = 2.0**-30
    transition = np.zeros((1, 3, 1, 3))
    transition[0, 0, 0] = [0, 1, 0]
    transition[0, 1, 0] = [1 - rare, 0, rare]
    model = rue.UMDP.from_dense(transition, np.ones((1, 3, 1)), initial=0, goals=[2])
    policy = rue.Policy.stationary(model, [0, 0, 0])
    assert expected_visits(model, policy, 0) == pytest.approx([2.0**30, 2.0**30, 1], rel=1e-6)
    transition[0, 0, 0] = [1 - rare, rare, 0]  # a node that is seldom left loses nothing
    transition[0, 1, 0] = [0.5, 0, 0.5]
    model = rue.UMDP.from_dense(transition, np.ones((1, 3, 1)), initial=0, goals=[2])
    policy = rue.Policy.stationary(model, [0, 0, 0])
    assert expected_visits(model, policy, 0) == pytest.approx([2.0**31, 2, 1], rel=1e-12)


def test_what_is_endless_is_infinite_and_the_way_there_is_not():
    transition = np.zeros((1, 4, 2, 4))
    transition[0, 0, 0, [1, 3]] = 0.5
    transition[0, 0, 1, 3] = 1.0
    transition[0, 1, 0, 2] = transition[0, 2, 0, 1] = 1.0
    transition[0, 1, 1, 3] = transition[0, 2, 1, 3] = 1.0
    model = rue.UMDP.from_dense(transition, np.ones((1, 4, 2)), initial=0, goals=[3])
    assert expected_visits(model, rue.Policy.stationary(model, [0, 0, 0, 0]), 0).tolist() == [1, np.inf, np.inf, 0.5]
    assert expected_visits(model, rue.Policy.stationary(model, [0, 1, 0, 0]), 0).tolist() == [1, 0.5, 0, 1]


def test_a_start_at_the_goal_is_one_visit():
    transition = np.zeros((1, 2, 1, 2))
    transition[0, 0, 0, 1] = 1.0
    model = rue.UMDP.from_dense(transition, np.ones((1, 2, 1)), initial=1, goals=[1])
    policy = rue.Policy.stationary(model, [0, 0])
    assert expected_visits(model, policy, 0).tolist() == [0, 1]
    assert distribution_after(model, policy, 0, [5]).tolist() == [[0, 1]]


def test_bad_input_is_one_line():
    model = rue.domains.Disaster(width=4, height=4, seed=3).sample(2, seed=1)
    other = rue.domains.Disaster(width=5, height=4, seed=3).sample(2, seed=1)
    policy = rue.solve(model, rue.Average()).policy
    with pytest.raises(rue.BadInput, match="sample 2 is out of range; expected 0 to 1"):
        expected_visits(model, policy, 2)
    with pytest.raises(rue.BadInput, match="another graph"):
        expected_visits(other, policy, 0)
    with pytest.raises(rue.BadInput, match="step is -1"):
        distribution_after(model, policy, 0, [-1])


def test_as_many_steps_as_take_hours_are_refused():
    sizes = []
    for width in (4, 40):
        model = rue.domains.Disaster(width=width, height=4, seed=3).sample(1, seed=1)
        policy = rue.solve(model, rue.Average()).policy
        with pytest.raises(
            rue.BadInput, match=r"^step is 1000000000; expected at most \d+, as each passes the"
        ) as caught:
            distribution_after(model, policy, 0, [2, 10**9, 3])
        most, transitions = map(int, re.findall(r"\d+", str(caught.value))[1:])
        assert most * (transitions + policy.nodes) <= MOST_PASSED
        sizes.append((transitions, most))
    assert sizes[0][0] < sizes[1][0] and sizes[0][1] > sizes[1][1] > 10**6  # larger chains may take fewer steps
    assert distribution_after(model, policy, 0, []).shape == (0, policy.nodes)


def test_the_last_step_that_is_not_refused_is_taken(monkeypatch):
    monkeypatch.setattr("rue.visits.MOST_PASSED", 50 * (STEP_ITSELF + 200))
    model = rue.domains.Disaster(width=4, height=4, seed=3).sample(1, seed=1)
    policy = rue.solve(model, rue.Average()).policy
    with pytest.raises(rue.BadInput) as caught:
        distribution_after(model, policy, 0, [10**6])
    most = int(re.findall(r"\d+", str(caught.value))[1])
    assert distribution_after(model, policy, 0, [most]).sum() == pytest.approx(1)
    with pytest.raises(rue.BadInput, match=f"step is {most + 1}; expected at most {most}"):
        distribution_after(model, policy, 0, [most + 1])
