"""Vectors of trials and near the corners: each is the regret of its controller, and they lower the upper bound."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from models import Shape, umdps

import rue
from rue.active import Part
from rue.adaptive import corners, search
from rue.adaptive.answers import add_trials
from rue.adaptive.belief_graph import BeliefGraph
from rue.adaptive.belief_kernels import HUGE, NONE
from rue.adaptive.corner_kernels import GAIN, sweep
from rue.adaptive.portfolio import start_policies
from rue.controllers import stationary_choices
from rue.solution import Run
from rue.values import optimal_values


def dense(seed: int, states: int = 3, samples: int = 4, discount: float = 0.9) -> rue.UMDP:
    """A discounted model in which each outcome tells a little."""
    draw = np.random.default_rng(seed)
    prob = draw.dirichlet(np.ones(states), (samples, states, 2))
    cost = np.broadcast_to(draw.random((states, 2)), (samples, states, 2))
    return rue.UMDP.from_dense(prob, cost, discount=discount)


def started(model: rue.UMDP) -> BeliefGraph:
    """A graph with the vectors of some start policies."""
    values, run = optimal_values(model), Run()
    found = search.AdaptiveSearch.start(Part.whole(model), values, "regret", 1e9, run)
    found.waiting = start_policies(model, values, run, math.inf)
    found.add_policies(2)
    found.graph.set_belief(np.full(model.samples, 1 / model.samples))
    return found.graph


def follow(graph: BeliefGraph, batches: int) -> None:
    """Follow trials from the belief in the middle."""
    draw = np.random.default_rng(0)
    for _ in range(batches):
        add_trials(graph, graph.belief, draw.random((20, 50)), math.inf)


def assert_true_regrets(graph: BeliefGraph) -> None:
    """Each vector of the initial state is what the judge says of its controller, up to rounding."""
    vectors, regret = graph.root_vectors()
    offset = graph.potential[graph.model.graph.initial]
    for vector, alpha in zip(vectors[:10], regret[:10], strict=True):
        verdict = rue.evaluate(graph.model, graph.controller(np.array([vector]), np.ones(1)))
        value = np.where(np.isfinite(verdict.value), verdict.value, HUGE)
        assert alpha + offset == pytest.approx(value, rel=1e-6, abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(model=umdps(Shape(zero_costs=False)))
def test_vectors_are_regrets_of_controllers(model):
    graph = started(model)
    if not graph.root_vectors()[0].size or model.graph.goal[model.graph.initial]:
        return
    before = graph.upper_at(graph.belief)
    corners.add_corner_policy(graph, Run())
    follow(graph, 2)
    assert graph.upper_at(graph.belief) <= before
    assert_true_regrets(graph)
    graph.prune_vectors()
    assert_true_regrets(graph)


@pytest.mark.parametrize("seed", range(5))
def test_both_lower_the_upper_bound(seed):
    model = dense(seed)
    first, corner, trials = started(model), started(model), started(model)
    corners.add_corner_policy(corner, Run())
    follow(trials, 5)
    belief = first.belief
    assert trials.upper_at(belief) < first.upper_at(belief)
    near = corners._beliefs(model.samples, corners.SPREAD)
    assert sum(corner.upper_at(b) for b in near) < sum(first.upper_at(b) for b in near)


def test_sweeps_end_where_a_regret_goes_to_zero_little_by_little(monkeypatch):
    """To wait costs nothing, and ends with some probability: each sweep finds a lower regret, by the same factor."""
    builder = rue.Builder(samples=2)
    builder.add("here", "wait", {"goal": [0.1, 0.01], "here": [0.9, 0.99]}, cost=0.0)
    builder.add("here", "pay", {"goal": 1.0}, cost=1.0)
    graph = started(builder.goal("goal").build())
    graph.policies[:] = [rue.Policy.from_choices(graph.model.graph, np.array([1, NONE]))]
    calls = []
    monkeypatch.setattr(corners, "sweep", lambda *arguments: calls.append(arguments) or sweep(*arguments))
    corners.add_corner_policy(graph, Run())
    assert len(calls) == corners.SWEEPS


@pytest.mark.parametrize("seed", range(5))
def test_a_sweep_makes_the_best_vector_of_each_belief(seed):
    """Of one state and one belief, against all choices and all slots of the next states."""
    model = dense(seed)
    graph = started(model)
    given = np.array([c for c in map(stationary_choices, graph.policies) if c is not None])
    belief = corners._beliefs(model.samples, corners.SPREAD)
    slots = corners._start(graph, belief, given)
    before = slots.alpha.reshape(model.graph.states, slots.number, -1).copy()
    sweep(graph.gaps, slots, np.zeros(1, np.int32))
    for j, weight in enumerate(belief):
        if j == 1:
            break  # the next belief has seen the new vector of the first
        known = (before[0] @ weight).min()
        best = min(
            weight @ graph.gaps.gap[c]
            + sum(
                (before[model.graph.successor[t]] @ (weight * model.prob[t])).min()
                for t in range(model.graph.trans_ptr[c], model.graph.trans_ptr[c + 1])
                if not model.graph.goal[model.graph.successor[t]]
            )
            for c in range(model.graph.choice_ptr[0], model.graph.choice_ptr[1])
        )
        found = slots.alpha[j] @ weight
        assert found == pytest.approx(best if best < known * (1 - GAIN) else before[0, j] @ weight)


def test_a_slot_of_a_given_policy_follows_it():
    model = dense(0)
    graph = started(model)
    given = np.array([c for c in map(stationary_choices, graph.policies) if c is not None])
    belief = corners._beliefs(model.samples, corners.SPREAD)
    slots = corners._start(graph, belief, given)
    live = np.flatnonzero(~model.graph.goal)
    policy = corners._controller(graph, slots, live.astype(np.int32))
    regret = graph.regret_of(policy)[: live.size * slots.number]
    assert regret == pytest.approx(slots.alpha.reshape(model.graph.states, -1)[live].reshape(regret.shape), rel=1e-6)
    assert (slots.follow >= NONE).all()


def test_vectors_of_trials_stay_for_some_batches():
    model = dense(1)
    graph = started(model)
    corners.add_corner_policy(graph, Run())
    follow(graph, 1)
    belief = np.random.default_rng(1).dirichlet(np.ones(model.samples), 50)
    before = [graph.upper_at(b) for b in belief]
    number = graph.arrays.vectors.at_state["number"].sum()
    graph.prune_vectors()
    kept = graph.arrays.vectors.vector["lasts"] > 0
    assert graph.arrays.vectors.at_state["number"].sum() <= number and kept.sum() > 20
    assert [graph.upper_at(b) for b in belief] == pytest.approx(before)
    graph.batch = 10**6
    lasting = graph.arrays.vectors.vector["lasts"] > graph.batch
    graph.prune_vectors()
    assert (graph.arrays.vectors.vector["lasts"] > graph.batch).sum() == lasting.sum() > 0


@pytest.mark.parametrize("limit", ["time", "memory", "numbers"])
def test_no_corners_where_they_are_too_large(limit, monkeypatch):
    model = dense(2)
    graph = started(model)
    if limit == "memory":
        graph.memory = graph.bytes
    if limit == "numbers":
        monkeypatch.setattr(corners, "SWEEP_NUMBERS", 0.0)
    before = len(graph.policies)
    corners.add_corner_policy(graph, Run(rue.Limits(0.0 if limit == "time" else math.inf)))
    assert len(graph.policies) == before


def test_no_corners_if_the_judge_has_no_time_for_them(monkeypatch):
    """The estimate was too small: what is not judged in time is not added."""
    graph = started(dense(2))
    graph.policy_seconds = 0.0
    monkeypatch.setattr(corners, "_seconds_of_node", lambda graph: 0.0)
    before = (len(graph.policies), graph.arrays.vectors.at_state["number"].sum())
    corners.add_corner_policy(graph, Run(rue.Limits(1e-6)))
    assert (len(graph.policies), graph.arrays.vectors.at_state["number"].sum()) == before
    corners.add_corner_policy(graph, Run())
    assert len(graph.policies) > before[0]


def test_fewer_beliefs_where_a_sweep_would_take_long(monkeypatch):
    graph = started(dense(3))
    monkeypatch.setattr(corners, "SWEEP_NUMBERS", 6000.0)
    corners.add_corner_policy(graph, Run())
    nodes = graph.policies[-1].nodes
    other = started(dense(3))
    monkeypatch.undo()
    corners.add_corner_policy(other, Run())
    assert nodes < other.policies[-1].nodes
