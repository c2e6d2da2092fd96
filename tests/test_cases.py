"""The nine tiny models whose values were found by enumeration."""

import json
from pathlib import Path

import numpy as np
import pytest
from tree_bound import tree_bound

import rue

CASES = sorted((Path(__file__).parent / "data" / "cases").glob("*.json"))
SOLVERS = {"reg": rue.Regret, "cemr": rue.MyopicRegret, "cost": rue.WorstCase}


def load(path: Path) -> tuple[rue.UMDP, dict]:
    case = json.loads(path.read_text())
    model = case["model"]
    umdp = rue.UMDP.from_dense(model["transition"], model["cost"], initial=model["initial"], goals=model["goals"])
    return umdp, case["values"]


def test_there_are_nine():
    assert len(CASES) == 9


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_optimal_values_and_best_sample(path):
    umdp, values = load(path)
    best = rue.optimal_values(umdp)
    assert np.abs(best.lower[umdp.graph.initial] - values["optimal"]).max() <= 1e-6
    assert np.abs(best.upper[umdp.graph.initial] - values["optimal"]).max() <= 1e-6
    solution = rue.solve(umdp, rue.BestSample())
    assert solution.max_regret.upper == pytest.approx(values["best_sample_policy"], abs=1e-6)


@pytest.mark.parametrize("engine", ["auto", "highs"])
@pytest.mark.parametrize("objective", SOLVERS)
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_objective(path, objective, engine):
    umdp, values = load(path)
    for key, value in values[objective].items():
        options, steps = key.split("_")
        solution = rue.solve(umdp, SOLVERS[objective](int(steps), options, prune=False, engine=engine))
        assert solution.status is rue.Status.SOLVED, key
        assert solution.objective.lower == pytest.approx(value, abs=1e-6), key
        assert solution.objective.upper == pytest.approx(value, abs=1e-6), key
        # The policy is one of that class, and the adversary bounds what it regrets.
        if objective == "reg":
            assert solution.max_regret.upper <= solution.objective.upper + 1e-9


def test_more_steps_are_not_always_better():
    umdp, _ = load(next(path for path in CASES if path.stem == "prop5"))
    for options, values in (("deterministic", [10, 0, 5, 5]), ("history", [5, 0, 2.5, 0])):
        found = [rue.solve(umdp, rue.Regret(n, options, prune=False)).objective.upper for n in (1, 2, 3, 4)]
        assert found == pytest.approx(values, abs=1e-6)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_lower_bounds_by_depth(path):
    umdp, values = load(path)
    for depth, value in values["lower_bound_by_depth"].items():
        assert tree_bound(umdp, int(depth)) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_best_stationary_deterministic(path):
    umdp, values = load(path)
    solution = rue.solve(umdp, rue.ExactStationary())
    assert solution.status is rue.Status.SOLVED
    assert solution.max_regret.upper == pytest.approx(values["best_stationary_deterministic"], abs=1e-6)
    assert solution.objective.lower == pytest.approx(values["best_stationary_deterministic"], abs=1e-6)
