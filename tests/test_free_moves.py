"""States that free moves connect are one: the same value, a policy that walks, a certificate with a point for each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import Shape, lively, umdps

import rue
from rue.adaptive.free_moves import merge_free

MODELS = st.one_of(umdps(Shape(states=4, samples=3)), st.integers(0, 10**6).map(lively))


def split(model: rue.UMDP, rng: np.random.Generator) -> rue.UMDP:
    """The model with two or three copies of each state, connected by free moves, that share its choices."""
    graph = model.graph
    copies = np.where(graph.goal, 1, rng.integers(1, 4, graph.states))
    first = np.concatenate(([0], np.cumsum(copies)))
    owner = {c: int(rng.integers(copies[graph.choice_state[c]])) for c in range(graph.choices)}
    land = [int(first[s] + rng.integers(copies[s])) for s in graph.successor]
    choice_ptr, trans_ptr, successor, prob, cost = [0], [0], [], [], []
    for s in range(graph.states):
        for copy in range(copies[s]):
            if copies[s] > 1:  # to the next copy, or with some probability not yet
                ahead = sorted({int(first[s] + (copy + 1) % copies[s]), int(first[s] + copy)})
                share = [1.0] if rng.random() < 0.5 else [0.5, 0.5]
                ahead = ahead if len(share) == 2 else [int(first[s] + (copy + 1) % copies[s])]
                successor += ahead
                prob += [np.full(model.samples, p) for p in share]
                cost.append(np.zeros(model.samples))
                trans_ptr.append(len(successor))
            for c in range(graph.choice_ptr[s], graph.choice_ptr[s + 1]):
                if owner[c] == copy:
                    successor += [land[t] for t in range(graph.trans_ptr[c], graph.trans_ptr[c + 1])]
                    prob += [model.prob[t] for t in range(graph.trans_ptr[c], graph.trans_ptr[c + 1])]
                    cost.append(model.cost[c])
                    trans_ptr.append(len(successor))
            choice_ptr.append(len(cost))
    action = np.concatenate([np.arange(n) for n in np.diff(choice_ptr)])
    large = rue.Graph(np.array(choice_ptr), action, np.array(trans_ptr), np.array(successor), int(first[graph.initial]))
    return rue.UMDP(large, np.array(prob), np.array(cost))


@settings(max_examples=40)
@given(MODELS, st.integers(0, 10**6), st.sampled_from(["regret", "cost"]))
def test_copies_of_a_state_change_nothing(model, seed, objective):
    large = split(model, np.random.default_rng(seed))
    plain = rue.solve(model, rue.Adaptive(0.001, objective=objective))
    solution = rue.solve(large, rue.Adaptive(0.001, objective=objective))
    if plain.status is not rue.Status.SOLVED:
        return
    scale = 1e-6 + 0.002 * plain.objective.upper
    assert solution.objective.lower == pytest.approx(plain.objective.lower, abs=scale)
    assert solution.objective.upper == pytest.approx(plain.objective.upper, abs=scale)
    verdict = rue.evaluate(large, solution.policy)
    reached = verdict.max_regret if objective == "regret" else verdict.value.max()
    assert reached == pytest.approx(solution.objective.upper, abs=1e-6 * (1 + solution.objective.upper))
    if solution.certificate is not None:
        assert rue.verify(large, solution.certificate) >= solution.certificate.bound
    other = rue.solve(large, rue.Regret())
    assert other.max_regret.lower <= solution.max_regret.upper + 1e-9


def test_what_is_not_free_stays():
    disaster = rue.domains.Disaster(width=3, height=3, seed=1).sample(3, seed=1)
    assert merge_free(disaster) is None
    assert merge_free(rue.domains.Medical(seed=1).sample(3, seed=1)) is None  # free, but nobody comes back


def test_a_free_circle_is_proved():
    builder = rue.Builder(samples=2)
    builder.add("a", "over", {"b": 1.0}, cost=0.0)
    builder.add("a", "out", {"goal": 1.0}, cost=[1.0, 2.0])
    builder.add("b", "back", {"a": 1.0}, cost=0.0)
    builder.add("b", "out", {"goal": 1.0}, cost=[2.0, 1.0])
    model = builder.goal("goal").build()
    solution = rue.solve(model, rue.Adaptive(0))
    assert solution.status is rue.Status.SOLVED
    assert solution.max_regret.lower == pytest.approx(0.5, rel=1e-7)
    assert solution.max_regret.upper == pytest.approx(0.5, rel=1e-7)
    assert rue.solve(model, rue.Average()).max_regret.lower == pytest.approx(0.5, rel=0.01)


def test_a_free_trap_is_a_dead_end():
    builder = rue.Builder(samples=2)
    builder.add("s", "risk", {"goal": [1.0, 0.0], "a": [0.0, 1.0]}, cost=0.0)
    builder.add("s", "safe", {"goal": 1.0}, cost=1.0)
    builder.add("a", "over", {"b": 1.0}, cost=0.0)
    builder.add("b", "back", {"a": 1.0}, cost=0.0)
    solution = rue.solve(builder.goal("goal").build(), rue.Adaptive(0.001))
    assert solution.max_regret.lower == pytest.approx(1.0, rel=0.001)
    assert solution.max_regret.upper == pytest.approx(1.0, rel=0.001)


@pytest.mark.parametrize("solver", [rue.Regret(), rue.Adaptive(0), rue.Adaptive(0, objective="cost")])
def test_a_free_choice_that_names_a_state_to_which_no_sample_goes(solver):
    # a and b are one; both name a third state, the goal or another, with probability zero.
    graph = rue.Graph([0, 2, 4, 4, 5], [0, 1, 0, 1, 0], [0, 2, 3, 5, 6, 7], [1, 3, 2, 0, 2, 2, 2], 0)
    prob = [[1, 1], [0, 0], [1, 1], [1, 1], [0, 0], [1, 1], [1, 1]]
    model = rue.UMDP(graph, prob, [[0, 0], [1, 3], [0, 0], [3, 1], [1, 1]])
    solution = rue.solve(model, solver)
    assert solution.max_regret.lower == pytest.approx(1.0, rel=0.01) and solution.max_regret.upper >= 1.0
    assert rue.verify(model, solution.certificate) >= solution.certificate.bound


def test_a_component_that_is_dead_in_a_sample_of_small_weight():
    """Its points claim what the check of the certificate makes of an infinite gap, and no more."""
    builder = rue.Builder(samples=3)
    builder.add("a", "0", {"a": [0.375, 1, 0], "b": [0.375, 0, 0.125], "e": [0.25, 0, 0.875]}, cost=0.0)
    builder.add(
        "a", "1", {"a": [0.5, 0.75, 0.5], "b": [0.25, 0.125, 0.375], "goal": [0.25, 0.125, 0.125]}, cost=[1.75, 1.5, 2]
    )
    builder.add("b", "0", {"a": 1.0}, cost=[1.75, 0.5, 0.75])
    builder.add("b", "1", {"a": [0.375, 0.375, 1], "d": [0.625, 0.625, 0]}, cost=[1, 1.75, 0])
    builder.add(
        "c", "0", {"b": [0.25, 0.5, 0.75], "c": [0.375, 0, 0], "goal": [0.375, 0.5, 0.25]}, cost=[1, 1.75, 0.75]
    )
    builder.add("d", "0", {"b": 1.0}, cost=[2, 0.5, 1.25])
    builder.add("d", "1", {"d": [0.125, 0.5, 0.875], "e": [0.875, 0.5, 0.125]}, cost=[1.25, 0, 2])
    builder.add("e", "0", {"e": [1, 0.5, 0.5], "goal": [0, 0.5, 0.5]}, cost=1.0)
    model = builder.goal("goal").build()
    for seed in range(5):
        solution = rue.solve(split(model, np.random.default_rng(seed)), rue.Adaptive(0.001))
        assert solution.status is rue.Status.SOLVED
        assert solution.objective.upper == pytest.approx(14.0, rel=1e-3)
