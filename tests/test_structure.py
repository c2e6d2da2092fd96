"""Probability one, on the graph: against plain searches over all sets of choices."""

import itertools

import numpy as np
from hypothesis import given, settings
from models import Shape, umdps
from naive import INF, Naive, closure

import rue
from rue.judge import ends_from
from rue.structure import jointly_proper, proper_in, reaching_goal, robustly_proper


def uniform(model, alive, allowed):
    """The policy that tries every allowed choice; elsewhere the first."""
    graph = model.graph
    weight = np.where(allowed & alive[graph.choice_state], 1.0, 0.0)
    for s in np.flatnonzero(~graph.goal):
        own = slice(graph.choice_ptr[s], graph.choice_ptr[s + 1])
        if weight[own].sum() == 0:
            weight[graph.choice_ptr[s]] = 1.0
    total = np.bincount(graph.choice_state, weights=weight, minlength=graph.states)
    return rue.Policy.from_weights(graph, weight / total[graph.choice_state])


def proper_supports(naive, start=None):
    """Whether some stationary policy, given by the choices it uses, is proper in all samples: over all of them.

    With a start, whether one is that ends in each sample from all states that it visits from there in any sample.
    """
    subsets = [
        [set(pick) for n in range(1, len(own) + 1) for pick in itertools.combinations(own, n)] or [set()]
        for own in naive.choices
    ]
    for pick in itertools.product(*subsets):
        rows = [
            [{t: 1 for c in own for t in naive.row(c, k)} for own in pick] for k in range(naive.samples)
        ]  # fmt: skip
        joined = [{t: 1 for row in own for t in row} for own in zip(*rows, strict=True)]
        if all(
            any(naive.goal[t] for t in closure(rows[k], [s]))
            for k in range(naive.samples)
            for s in (closure(rows[k], [naive.initial]) if start is None else closure(joined, [start]))
        ):
            return True
    return False


@settings(max_examples=150)
@given(umdps())
def test_proper_in_a_sample_is_where_the_optimum_is_finite(model):
    naive = Naive(model)
    for k in range(model.samples):
        alive, allowed = proper_in(model, k)
        best = naive.optimal(k)
        assert [v != INF for v in best] == alive.tolist()
        for c in np.flatnonzero(allowed):
            assert all(best[t] != INF for t in naive.row(int(c), k))
        rows = [{t: 1 for c in own for t in naive.row(c, k)} for own in naive.choices]
        can = [any(naive.goal[t] for t in closure(rows, [s])) for s in range(naive.states)]
        assert can == np.isin(np.arange(model.graph.states), reaching_goal(model.graph, model.prob[:, k] > 0)).tolist()


@settings(max_examples=100)
@given(umdps(Shape(states=3)))
def test_jointly_proper_is_proper(model):
    alive, allowed = jointly_proper(model)
    if alive[model.graph.initial]:
        assert rue.evaluate(model, uniform(model, alive, allowed)).max_regret < INF
        assert proper_supports(Naive(model))


@settings(max_examples=100)
@given(umdps(Shape(states=3, same_support=True)))
def test_jointly_proper_is_exact_where_supports_agree(model):
    assert jointly_proper(model)[0][model.graph.initial] == proper_supports(Naive(model))


@settings(max_examples=100)
@given(umdps())
def test_robustly_proper_is_where_some_policy_beats_all_adversaries(model):
    naive = Naive(model)
    unit = [[1] * model.samples for _ in naive.outcomes]
    order, allowed = robustly_proper(model, randomised=False)
    exact = naive.best_deterministic(unit) != INF
    assert (naive.initial in order or naive.goal[naive.initial]) == exact
    mixed, _ = robustly_proper(model, randomised=True)
    assert set(order) <= set(mixed)
    # Each state makes progress in every sample, by one allowed choice, to a goal or a state before it.
    before = set(np.flatnonzero(model.graph.goal))
    for s in order:
        own = [c for c in naive.choices[s] if allowed[c]]
        assert any(all(before & set(naive.row(c, k)) for k in range(model.samples)) for c in own)
        before.add(s)


def test_within_restricts_the_choices():
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(3, seed=1)
    within = model.graph.action == 6  # west only: never to the goal in the east
    order, allowed = robustly_proper(model, randomised=False, within=within)
    assert model.graph.initial not in order
    assert not allowed[~within].any()


@given(umdps())
@settings(max_examples=100)
def test_jointly_proper_everywhere(model):
    """Trying all choices ends in every sample from each state that is alive, and there are no more such states."""
    alive, allowed = jointly_proper(model, everywhere=True)
    assert ends_from(model, uniform(model, alive, allowed))[alive].all()
    naive = Naive(model)
    assert alive.tolist() == [proper_supports(naive, start) for start in range(model.graph.states)]
