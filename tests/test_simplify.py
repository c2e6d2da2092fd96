"""Smaller policies: never worse than the stated loss, and compared with all small controllers of tiny models."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import Shape, lively, models_with_controllers
from naive import Naive, controller_value

import rue
from rue.controllers import merged
from rue.judge import node_values
from rue.model import typical_cost
from rue.shrinking.chains import Chain, Steps
from rue.shrinking.improvement import improved
from rue.simplification import FLOOR, measure_of
from rue.solution import Run
from rue.visits import expected_visits

GRID = rue.domains.Disaster(width=4, height=4, seed=7).sample(6, seed=1)
LARGE = rue.solve(GRID, rue.Adaptive(0.01))


def exact_regret(model: rue.UMDP, policy: rue.Policy) -> list[float]:
    """Regrets in rational numbers, but for V*."""
    naive, optimal = Naive(model), rue.evaluate(model, policy).optimal
    return [float(controller_value(naive, policy, k)) - float(optimal[k]) for k in range(model.samples)]


def floor_of(model: rue.UMDP) -> float:
    optimal = rue.optimal_values(model).upper[model.graph.initial]
    return FLOOR * max(typical_cost(model), float(optimal[np.isfinite(optimal)].max(initial=0.0)))


@given(models_with_controllers(), st.sampled_from([0.0, 0.02, 0.5]))
@settings(max_examples=60)
def test_never_worse_than_the_loss(case, loss):
    model, policy = case
    small = rue.simplify(model, policy, loss=loss)
    before, after = max(exact_regret(model, policy)), max(exact_regret(model, small))
    assert small.graph is policy.graph
    assert small.nodes <= policy.nodes
    assert after <= (1 + loss) * before + 2 * floor_of(model)


@given(models_with_controllers(Shape(samples=3)), st.sampled_from([0.3, 1.0]), st.data())
@settings(max_examples=40)
def test_never_worse_in_a_tail(case, tail, data):
    model, policy = case
    weights = data.draw(st.lists(st.integers(1, 4), min_size=model.samples, max_size=model.samples))
    model = model.with_weight(weights)
    small = rue.simplify(model, policy, loss=0.1, tail=tail)
    before, after = rue.evaluate(model, policy), rue.evaluate(model, small)
    assert after.tail(tail) <= 1.1 * before.tail(tail) + 2 * floor_of(model) + before.error


@given(models_with_controllers(), st.integers(1, 6))
@settings(max_examples=40)
def test_few_nodes_are_a_sound_policy(case, nodes):
    model, policy = case
    small = rue.simplify(model, policy, nodes)
    assert small.graph is policy.graph
    assert small.nodes <= max(nodes, merged(policy).nodes)
    if np.isfinite(rue.evaluate(model, policy).max_regret):
        assert np.isfinite(max(exact_regret(model, small)))


@given(models_with_controllers(Shape(dead_ends=False)))
@settings(max_examples=40)
def test_values_and_visits_are_those_of_the_judge_and_of_the_chain(case):
    model, policy = case
    chain = Chain.of(model, policy, measure_of(model, Run()))
    if chain is None:
        assert not np.isfinite(rue.evaluate(model, policy).max_regret)
        return
    value, _ = node_values(model, policy)
    ends = np.isfinite(value)
    assert np.allclose(chain.value[ends], value[ends], rtol=1e-9, atol=1e-12)
    inner = ~model.graph.goal[policy.node_state]
    for k in range(model.samples):
        assert np.allclose(chain.visits[inner, k], expected_visits(model, policy, k)[inner], rtol=1e-8, atol=1e-12)
    assert chain.figure == pytest.approx(rue.evaluate(model, policy).max_regret, rel=1e-8, abs=1e-10)


@given(models_with_controllers(Shape(dead_ends=False)), st.data())
@settings(max_examples=40)
def test_best_steps_are_those_of_all_choices_and_nodes(case, data):
    model, policy = case
    chain = Chain.of(model, policy, measure_of(model, Run()))
    if chain is None:
        return
    graph = model.graph
    state = data.draw(st.sampled_from(np.flatnonzero(~graph.goal).tolist()))
    weight = np.array(data.draw(st.lists(st.integers(0, 4), min_size=model.samples, max_size=model.samples)), float)
    steps, least = chain.best_steps(weight[None], np.array([state]))
    options = []
    for choice in range(graph.choice_ptr[state], graph.choice_ptr[state + 1]):
        targets = graph.successor[graph.trans_ptr[choice] : graph.trans_ptr[choice + 1]]
        for following in product(*(np.flatnonzero(policy.node_state == target) for target in targets)):
            options.append(float(weight @ chain.step_value(Steps(np.array([choice]), np.array(following)))[0]))
    tie = 1e-12 * (1 + float(chain.value.max()))
    assert least[0] == pytest.approx(min(options), rel=1e-9, abs=len(options) * tie)
    assert float(weight @ chain.step_value(steps)[0]) == pytest.approx(min(options), rel=1e-9, abs=len(options) * tie)


@pytest.mark.parametrize("seed", range(4))
def test_costs_change_as_the_first_order_says(seed):
    model = lively(seed)
    graph = model.graph
    count = np.diff(graph.choice_ptr)
    weight = (1 / np.maximum(count, 1))[graph.choice_state]
    state = int(np.flatnonzero(count > 1)[0])
    chain = Chain.of(model, rue.Policy.from_weights(graph, weight), measure_of(model, Run()))
    step = np.arange(graph.choice_ptr[state], graph.choice_ptr[state + 1])
    change = np.zeros(graph.choices)
    change[step[:2]] = (1e-6, -1e-6)
    cost = chain.step_value(chain.entries.taken(graph, step))
    expected = chain.visits[state] * (cost[0] - cost[1]) * 1e-6
    moved = rue.evaluate(model, rue.Policy.from_weights(graph, weight + change)).value - chain.cost
    assert np.allclose(moved, expected, rtol=1e-3, atol=1e-11 * chain.cost.max())


def test_improvements_lower_the_judged_regret():
    chain = Chain.of(GRID, merged(rue.solve(GRID, rue.Average()).policy), measure_of(GRID, Run()))
    better = improved(chain, 0.0, 5, Run())
    assert better.figure < 0.99 * chain.figure
    assert better.policy.nodes <= chain.policy.nodes
    assert rue.evaluate(GRID, better.policy).max_regret == pytest.approx(better.figure, rel=1e-9)


def small_controllers(model: rue.UMDP, copies: int):
    """Yield all deterministic controllers with one start and a number of nodes for each state that is no goal."""
    graph = model.graph
    inner = np.flatnonzero(~graph.goal)
    node_state = np.concatenate([np.repeat(inner, copies), np.flatnonzero(graph.goal)])
    nodes_of = {s: np.flatnonzero(node_state == s).tolist() for s in range(graph.states)}
    options = []
    for state in node_state[: inner.size * copies]:
        own = []
        for choice in range(graph.choice_ptr[state], graph.choice_ptr[state + 1]):
            targets = graph.successor[graph.trans_ptr[choice] : graph.trans_ptr[choice + 1]]
            own += [(choice, list(following)) for following in product(*(nodes_of[t] for t in targets))]
        options.append(own)
    count = np.append(np.ones(len(options), int), np.zeros(node_state.size - len(options), int))
    for chosen in product(*options):
        yield rue.Policy(
            graph, node_state, np.append(0, np.cumsum(count)), [choice for choice, _ in chosen],
            np.ones(len(chosen)), np.append(0, np.cumsum([len(after) for _, after in chosen])),
            [node for _, after in chosen for node in after], [nodes_of[graph.initial][0]], [1.0],
        )  # fmt: skip


def two_doors() -> rue.UMDP:
    """A door opens after one push or after many; to walk around costs something in between."""
    builder = rue.Builder(3)
    builder.add("door", "push", {"out": [0.9, 0.5, 0.05], "door": [0.1, 0.5, 0.95]}, cost=1.0)
    builder.add("door", "walk", {"out": 1.0}, cost=4.0)
    return builder.goal("out").build()


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_as_good_as_all_deterministic_controllers_of_that_size(copies):
    model = two_doors()
    best = min(rue.evaluate(model, policy).max_regret for policy in small_controllers(model, copies))
    large = rue.solve(model, rue.Adaptive(0.001)).policy
    small = rue.simplify(model, large, copies + 1)
    assert small.nodes <= copies + 1
    assert rue.evaluate(model, small).max_regret <= best + 1e-9


@pytest.mark.parametrize("seed", range(2))
def test_the_ends_of_the_frontier(seed):
    model = lively(seed)
    solution = rue.solve(model, rue.Adaptive(0.01))
    points = rue.frontier(model, solution.policy)
    for point in points:
        assert point.nodes == point.policy.nodes
        assert point.max_regret == pytest.approx(rue.evaluate(model, point.policy).max_regret, rel=1e-12)
        assert point.max_regret >= solution.max_regret.lower * (1 - 1e-9)
    assert min(point.max_regret for point in points) <= solution.max_regret.upper + 1e-12
    stationary = [p.max_regret for p in points if p.is_stationary]
    deterministic = [p.max_regret for p in points if p.is_stationary and p.is_deterministic]
    exact = rue.solve(model, rue.ExactStationary()).max_regret.upper
    assert min(deterministic) == pytest.approx(exact, rel=1e-6, abs=1e-9)
    assert min(stationary) <= min(deterministic)


def test_many_times_fewer_nodes_on_a_grid():
    small = rue.simplify(GRID, LARGE.policy, loss=0.02)
    assert LARGE.policy.nodes > 3 * small.nodes
    assert rue.evaluate(GRID, small).max_regret <= 1.02 * LARGE.max_regret.upper


def test_the_same_call_gives_the_same_policy():
    first, second = (rue.simplify(GRID, LARGE.policy, loss=0.05) for _ in range(2))
    assert first.to_json() == second.to_json()


def test_nodes_and_loss_together_keep_to_the_loss():
    small = rue.simplify(GRID, LARGE.policy, 1, 0.05)
    assert rue.evaluate(GRID, small).max_regret <= 1.05 * LARGE.max_regret.upper
    between = rue.simplify(GRID, LARGE.policy, small.nodes + 5, 0.05)
    assert small.nodes <= between.nodes <= small.nodes + 5


@pytest.mark.parametrize("limits", [rue.Limits(seconds=0), rue.Limits(iterations=0), rue.Limits(iterations=1)])
def test_a_limit_leaves_a_policy_within_the_loss(limits):
    small = rue.simplify(GRID, LARGE.policy, loss=0.05, limits=limits)
    assert rue.evaluate(GRID, small).max_regret <= 1.05 * LARGE.max_regret.upper
    assert rue.simplify(GRID, LARGE.policy, 20, limits=limits).nodes <= LARGE.policy.nodes


def test_progress_tells_nodes():
    told = []
    rue.simplify(GRID, LARGE.policy, loss=0.05, progress=told.append)
    assert any(report.stage.startswith("simplify: ") and report.objective.upper > 0 for report in told)


def test_a_policy_that_misses_the_goal_is_only_merged():
    builder = rue.Builder(1)
    builder.add("here", "stay", {"here": 1.0}, cost=1.0).add("here", "go", {"out": 1.0}, cost=1.0)
    model = builder.goal("out").build()
    stuck = rue.Policy.stationary(model, ["stay", 0])
    assert np.isinf(rue.evaluate(model, rue.simplify(model, stuck, loss=0.1)).max_regret)


def test_adaptive_with_few_nodes():
    small = rue.solve(GRID, rue.Adaptive(0.01, nodes=20), limits=rue.Limits(seconds=6))
    assert small.policy.nodes <= 20
    assert small.counters["nodes"] == small.policy.nodes
    assert small.max_regret.lower == pytest.approx(LARGE.max_regret.lower)
    verdict = rue.evaluate(GRID, small.policy)
    assert small.max_regret.upper == pytest.approx(verdict.max_regret, rel=1e-9)
    assert small.objective.upper == pytest.approx(verdict.max_regret, rel=1e-9)
    assert rue.verify(GRID, small.certificate) <= small.max_regret.upper
    wide = rue.solve(GRID, rue.Adaptive(0.0001, nodes=16), limits=rue.Limits(seconds=3))
    assert (wide.status is rue.Status.SOLVED) == (wide.gap <= 0.0001)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "neither nodes nor loss is given"),
        ({"nodes": 0}, "nodes is 0; expected a whole number, 1 or more"),
        ({"nodes": 2.5}, "nodes is 2.5"),
        ({"loss": -0.1}, "loss is -0.1; expected 0 or more"),
        ({"loss": "2 %"}, "loss is '2 %'"),
        ({"loss": 0.1, "tail": 2}, "tail is 2"),
        ({"loss": 0.1, "limits": 3}, "limits is 3"),
        ({"loss": 0.1, "policy": 3}, "the policy is a int"),
        ({"loss": 0.1, "policy": rue.solve(two_doors(), rue.Regret()).policy}, "another graph"),
        ({"loss": 0.1, "model": 3}, "the model is a int"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(rue.BadInput, match=message):
        rue.simplify(**({"model": GRID, "policy": LARGE.policy} | arguments))


def test_the_picture_of_the_frontier_has_all_kinds_and_the_bound():
    model = two_doors()
    solution = rue.solve(model, rue.Adaptive(0.001))
    points = rue.frontier(model, solution.policy)
    figure = rue.report.draw_frontier(points, bound=solution.max_regret.lower)
    words = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert any(word.startswith("stationary, deterministic") for word in words)
    assert words[-1].startswith("every policy's max regret is at least")
    for odd in ([], [1], 3):
        with pytest.raises(rue.BadInput, match=r"expected what rue\.frontier returns"):
            rue.report.draw_frontier(odd)
