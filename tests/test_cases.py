"""The nine tiny models whose values were found by enumeration."""

import json
from pathlib import Path

import numpy as np
import pytest

import rue

CASES = sorted((Path(__file__).parent / "data" / "cases").glob("*.json"))
SOLVERS = {"reg": rue.Regret, "cemr": rue.MyopicRegret, "cost": rue.WorstCase}
OPTIONS = {"deterministic_1": "deterministic", "history_1": "stochastic"}


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


@pytest.mark.parametrize("key", OPTIONS)
@pytest.mark.parametrize("objective", SOLVERS)
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_one_step_objectives(path, objective, key):
    umdp, values = load(path)
    solution = rue.solve(umdp, SOLVERS[objective](options=OPTIONS[key], prune=False))
    assert solution.status is rue.Status.SOLVED
    assert solution.objective.lower == pytest.approx(values[objective][key], abs=1e-6)
    assert solution.objective.upper == pytest.approx(values[objective][key], abs=1e-6)


def test_history_options_of_one_step_are_stochastic_ones():
    umdp, values = load(CASES[0])
    solution = rue.solve(umdp, rue.Regret(options="history", prune=False))
    assert solution.objective.upper == pytest.approx(values["reg"]["history_1"], abs=1e-6)
