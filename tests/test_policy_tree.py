"""Trees of histories: best vectors against plain products, and new vectors against the judge."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from models import Shape, umdps

import rue
from rue.active import Part
from rue.adaptive import search
from rue.adaptive.belief_graph import BeliefGraph
from rue.adaptive.policy_tree import PolicyTree
from rue.adaptive.portfolio import start_policies
from rue.solution import Run
from rue.values import optimal_values


def graph_of(model: rue.UMDP) -> BeliefGraph:
    """A graph without nodes, with the vectors of some policies."""
    values, run = optimal_values(model), Run()
    found = search.AdaptiveSearch.start(Part.whole(model), values, "regret", 1e9, run)
    found.waiting = start_policies(model, values, run, math.inf)
    found.add_policies(3)
    return found.graph


def never() -> None:
    """There is always time."""


@settings(deadline=None, max_examples=30)
@given(model=umdps(Shape(zero_costs=False)), seed=st.integers(0, 1000))
def test_best_vectors_are_the_least_products(model, seed):
    graph, draw = graph_of(model), np.random.default_rng(seed)
    state = draw.integers(0, model.graph.states, 40)
    weight = draw.random((40, model.samples)) * (draw.random((40, model.samples)) < 0.7)
    belief = np.full(model.samples, 1 / model.samples)
    value, vector = PolicyTree.root(graph, belief)._best_vectors(state, weight)
    for i, s in enumerate(state):
        known = graph.arrays.listed(s)
        if not known.size:
            assert value[i] == 0 and vector[i] == -1
            continue
        product = graph.arrays.vectors.alpha[known] @ weight[i]
        assert value[i] == pytest.approx(product.min(), rel=1e-12)
        assert vector[i] in known


@settings(deadline=None, max_examples=40)
@given(model=umdps(Shape(zero_costs=False)), nodes=st.integers(1, 60))
def test_vectors_of_a_tree_are_regrets_of_its_policy(model, nodes):
    """The root gets a vector that is no worse, and the judge finds its regrets; no tree is below the optimum."""
    graph = graph_of(model)
    belief = np.full(model.samples, 1 / model.samples)
    tree = PolicyTree.root(graph, belief)
    before = tree.value[0]
    if not before < 1e80:
        return
    tree.grow(nodes, never)
    tree.add_vectors()
    assert tree.value[0] <= before
    assert tree.value[0] == pytest.approx(graph.arrays.vectors.alpha[tree.vector[0]] @ belief, rel=1e-9)
    policy = graph.controller(tree.vector[:1].astype(np.int32), np.ones(1))
    verdict = rue.evaluate(model, policy)
    initial = model.graph.initial
    offset = graph.potential[initial] - optimal_values(model).value[initial]
    found = graph.arrays.vectors.alpha[tree.vector[0]] + offset
    assert verdict.regret == pytest.approx(found, rel=1e-6, abs=1e-7 * (1 + verdict.value.max()))


@settings(deadline=None, max_examples=30)
@given(model=umdps(Shape(zero_costs=False)))
def test_a_graph_for_some_samples_has_the_same_regrets(model):
    """Vectors for some samples, extended to all, are those that were there."""
    assume(model.samples > 1)
    graph = graph_of(model)
    order = np.arange(model.samples)[::-1].copy()
    some = graph.restricted(order[:1])
    alpha = graph.arrays.vectors.alpha[:, order].copy()
    back = some.extended(graph, order)
    known = np.concatenate([back.arrays.listed(s) for s in range(model.graph.states)])
    assert known.size
    assert np.allclose(back.arrays.vectors.alpha[known], alpha[known], rtol=1e-6, atol=1e-6)
    assert np.array_equal(back.potential, graph.potential[:, order])
