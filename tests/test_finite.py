"""Where finitely many beliefs can be reached the search ends with the exact value or with "infeasible"."""

import math

import pytest
from models import lively

import rue
from fuzz.belief_program import least_of_all
from fuzz.finite import examine
from fuzz.finite_models import FAMILIES, draw_finite
from rue.adaptive import finite, search
from rue.solution import Status


def begin(self, gap):
    """Begin a search, and give up at once."""
    self.update_game()
    self.graph.move(self.mixed(self.game.dual))
    self.graph.backup()
    self._update_lower()


@pytest.fixture
def all_at_once(monkeypatch):
    """The search itself does nothing: all that is found is found by the exact solution over all beliefs."""
    monkeypatch.setattr(search.AdaptiveSearch, "_close_gap", begin)


# Models of all families, one after the other.
@pytest.mark.parametrize("first", range(0, 28, 7))
def test_finitely_many_beliefs_close(first):
    found = {seed: examine(seed) for seed in range(first, first + 7)}
    assert {own.family for own in found.values()} == set(FAMILIES)
    assert not {seed: own.wrong for seed, own in found.items() if own.wrong}


@pytest.mark.parametrize("first", range(28, 63, 7))
def test_all_beliefs_at_once(first, all_at_once):
    objective = "cost" if first % 2 else "regret"
    found = {seed: examine(seed, objective, 0.0) for seed in range(first, first + 7)}
    assert not {seed: own.wrong for seed, own in found.items() if own.wrong}


def hopeless(families):
    """The first models of some families in which each policy misses the goal in some sample."""
    for seed in range(1000):
        spec = draw_finite(seed)
        if spec.family in families:
            try:
                model = spec.build()
            except rue.BadInput:
                continue
            if math.isinf(least_of_all(model) or 0.0):
                yield model


def test_hopeless_models_are_found_so_on_the_graph_of_beliefs(all_at_once, monkeypatch):
    monkeypatch.setattr(search, "no_policy_reaches", lambda model, run: False)
    models = hopeless({"doors", "mastermind"})
    for _ in range(4):
        solution = rue.solve(next(models), rue.Adaptive())
        assert solution.status is Status.INFEASIBLE and solution.objective.lower == math.inf


def test_many_beliefs_are_left_to_the_search(all_at_once, monkeypatch):
    answers = []

    def ask(*given):
        answers.append(finite.solve_finite(*given))
        return answers[-1]

    monkeypatch.setattr(search, "solve_finite", ask)
    solution = rue.solve(lively(7), rue.Adaptive(0.2), limits=rue.Limits(seconds=5))
    assert answers == [None] and solution.objective.lower <= solution.objective.upper < math.inf


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 2100, 100))
def test_two_thousand_models(first):
    found = {seed: examine(seed) for seed in range(first, first + 100)}
    assert not {seed: own.wrong for seed, own in found.items() if own.wrong}
    assert max(own.seconds for own in found.values()) < 30
