"""The best stationary deterministic policy by PAYNT, which shares nothing with rue: five small models.

`benchmarks/paynt_peer.py` has the encoding.
"""

import itertools
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import rue

CASES = Path(__file__).parent / "data" / "cases"
TOLERANCE = 1e-6


def from_case(name: str) -> rue.UMDP:
    case = json.loads((CASES / f"{name}.json").read_text())["model"]
    return rue.UMDP.from_dense(case["transition"], case["cost"], initial=case["initial"], goals=case["goals"])


def with_improper_policies(seed: int) -> rue.UMDP:
    """Six states with three actions each, which lead to few states, and to fewer in some samples. Only the last two
    lead to the goal, so many policies never get there in some sample."""
    rng = np.random.default_rng(seed)
    samples, inner, actions = 4, 6, 3
    transition = np.zeros((samples, inner + 1, actions, inner + 1))
    for s, a in itertools.product(range(inner), range(actions)):
        support = rng.choice(inner, 2, replace=False)
        if s >= inner - 2 and a > 0:
            support[0] = inner
        for k in range(samples):
            first = rng.uniform(0.2, 1.0)
            if rng.random() < 0.2:
                first = 1.0
            transition[k, s, a, support] = first, 1.0 - first
    cost = rng.uniform(0.5, 3.0, (samples, inner + 1, actions))
    return rue.UMDP.from_dense(transition, cost, initial=0, goals=[inner])


MODELS = {
    "loopy3": lambda: from_case("loopy3"),
    "layered1": lambda: from_case("layered1"),
    "prop5": lambda: from_case("prop5"),
    "improper1": lambda: with_improper_policies(1),
    "improper2": lambda: with_improper_policies(2),
}


@cache
def by_enumeration(name: str) -> tuple[float, int]:
    """The least max regret of all stationary deterministic policies, and how many of them are improper."""
    model = MODELS[name]()
    graph = model.graph
    own = [range(graph.choice_ptr[s], graph.choice_ptr[s + 1]) or [-1] for s in range(graph.states)]
    found = [
        rue.evaluate(model, rue.Policy.from_choices(graph, np.array(choice))).max_regret
        for choice in itertools.product(*own)
    ]
    return min(found), sum(regret == np.inf for regret in found)


@cache
def by_paynt(name: str) -> float:
    """The least max regret of all stationary deterministic policies."""
    pytest.importorskip("paynt", reason="PAYNT is not installed (pip install paynt)", exc_type=ImportError)
    from benchmarks.paynt_peer import least_max_regret

    return least_max_regret(MODELS[name]())


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_paynt_is_enumeration(name):
    regret = by_paynt(name)
    least, improper = by_enumeration(name)
    assert regret == pytest.approx(least, abs=TOLERANCE)
    assert (improper > 0) == name.startswith("improper")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_exact_stationary_is_paynt(name):
    regret = by_paynt(name)
    solution = rue.solve(MODELS[name](), rue.ExactStationary())
    assert solution.status is rue.Status.SOLVED
    assert solution.max_regret.upper == pytest.approx(regret, abs=TOLERANCE)
    assert solution.objective.lower == pytest.approx(regret, abs=TOLERANCE)
