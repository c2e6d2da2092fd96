"""A graph of beliefs that goes on with other samples: its likelihoods and regrets are what they would be anew."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from models import Shape, umdps

import rue
from rue import active
from rue.active import Part
from rue.adaptive.belief_kernels import NONE, SAFE
from rue.adaptive.search import AdaptiveSearch
from rue.fallbacks import no_policy_reaches
from rue.solution import Limits, Run
from rue.values import optimal_values

SHAPE = Shape(states=4, samples=6)


def searched(model: rue.UMDP, samples: list[int]) -> AdaptiveSearch:
    """A search over some samples, with a few nodes."""
    numbers = np.array(samples)
    part = Part(model.subset(numbers), np.ones(numbers.size), sample=numbers)
    found = AdaptiveSearch.start(part, optimal_values(part.model), "regret", 1e9, Run(Limits(iterations=6)))
    choice = optimal_values(part.model).choice
    policies = [rue.Policy.stationary(model, _actions(model, choice[:, k])) for k in range(numbers.size)]
    found.waiting = iter([("start", policy) for policy in policies])
    found.close(0.0)
    return found


def _actions(model: rue.UMDP, choice: np.ndarray) -> np.ndarray:
    first = model.graph.choice_ptr[:-1]
    taken = np.where(choice >= 0, choice, np.where(model.graph.goal, 0, first))
    return np.where(model.graph.goal, 0, model.graph.action[np.minimum(taken, model.graph.choices - 1)])


def grow(search: AdaptiveSearch, model: rue.UMDP, samples: list[int]) -> AdaptiveSearch:
    numbers = np.array(samples)
    part = Part(model.subset(numbers), np.ones(numbers.size), sample=numbers)
    return search.grown(part, optimal_values(part.model), Run(Limits(iterations=6)))


def check_likelihoods(search: AdaptiveSearch) -> None:
    """Each edge leads to what its outcome makes of the likelihood of its node; no possible outcome is left out."""
    graph, model = search.graph.arrays.graph, search.model
    likelihood, own = search.graph.arrays.weights.likelihood, model.graph
    front, seen = [0], {0}
    assert (likelihood[0] == 1).all()
    while front:
        node = front.pop()
        row = graph.node[node]
        for a in range(row["actions"] if row["first_action"] != NONE else 0):
            action = graph.action[row["first_action"] + a]
            if action["first_edge"] == NONE:
                continue
            begin = own.trans_ptr[own.choice_ptr[row["state"]] + a]
            for i in range(action["outcomes"]):
                arrived = likelihood[node] * model.prob[begin + i]
                child = graph.child[action["first_edge"] + i]
                if child == NONE:
                    assert arrived.max() == 0 or own.goal[own.successor[begin + i]]
                    continue
                share = graph.share[action["first_edge"] + i] / SAFE
                np.testing.assert_allclose(share * likelihood[child], arrived, rtol=1e-10, atol=1e-8)
                if child not in seen:
                    seen.add(child)
                    front.append(child)


def check_regrets(search: AdaptiveSearch) -> None:
    """Each vector of the initial state has the regrets that the judge finds for its controller."""
    known, regret = search.graph.root_vectors()
    for vector, alpha in list(zip(known, regret, strict=True))[:8]:
        policy = search.graph.controller(np.array([vector]), np.ones(1))
        judged = rue.evaluate(search.model, policy).regret
        np.testing.assert_allclose(alpha + search.offset, judged, rtol=1e-9, atol=1e-9)


def usable(model: rue.UMDP) -> None:
    assume(model.samples >= 4 and not model.graph.goal[model.graph.initial])
    assume(not no_policy_reaches(model, Run()))


@settings(max_examples=60, deadline=None)
@given(umdps(SHAPE))
def test_a_grown_graph_is_that_of_all_samples(model):
    usable(model)
    search = searched(model, [0, 1, 2])
    assume(search.can_grow)
    larger = grow(search, model, [0, 1, 2, *range(3, model.samples)])
    check_likelihoods(larger)
    check_regrets(larger)
    larger.close(0.0)  # and it goes on from there
    check_likelihoods(larger)
    check_regrets(larger)


@settings(max_examples=60, deadline=None)
@given(umdps(SHAPE))
def test_samples_may_leave_as_others_come(model):
    usable(model)
    search = searched(model, [2, 0, 1])
    assume(search.can_grow)
    other = grow(search, model, [2, 1, 3])
    check_likelihoods(other)
    check_regrets(other)


@settings(max_examples=60, deadline=None)
@given(umdps(SHAPE))
def test_the_lower_bound_stays_proved(model):
    usable(model)
    search = searched(model, [0, 1])
    assume(search.can_grow)
    larger = grow(search, model, [1, 2, 3])
    larger.close(1e-6)
    proof = larger.certificate()
    if proof is not None:
        assert rue.verify(model, proof) >= proof.bound
        exact = rue.solve(model, rue.Adaptive(1e-7)).objective
        assert proof.bound <= exact.upper * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("tail", [None, 0.3, 1.0])
def test_parts_agree_with_the_whole_on_a_grid(monkeypatch, tail):
    model = rue.domains.Disaster(width=4, height=4, seed=2).sample(60, seed=2)
    whole = rue.solve(model, rue.Adaptive(1e-4, tail=tail)).objective
    monkeypatch.setattr(active, "MANY", 10)
    parts = rue.solve(model, rue.Adaptive(1e-4, tail=tail))
    assert parts.status is rue.Status.SOLVED
    assert parts.objective.lower <= whole.upper and whole.lower <= parts.objective.upper
    assert rue.verify(model, parts.certificate) >= parts.objective.lower * (1 - 1e-9)
    assert parts.counters["active samples"] <= model.samples and parts.counters["by counts"] == 1
