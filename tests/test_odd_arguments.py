"""Every public name is called with odd arguments, one at a time: what comes is a result or one line of rue's own."""

import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rue


class Odd:
    """Something that nobody expects."""

    def __repr__(self) -> str:
        return "Odd()"


ODD: list[Any] = [
    None, True, -1, 0, 2, 2.5, 10**12, 10**400, math.nan, math.inf, -math.inf, 1j, "", "odd", "\udc80", b"odd",
    (), [], [[1], [1, 2]], [None], ["a", 1], [math.nan], {}, {1: 2}, {"a": None}, {1.5}, range(3), iter([]), Odd(), len,
    np.array(1.0), np.ones(3), np.ones((2, 2, 2, 2, 2)), np.array(["a"]), np.array([None]), np.ones(2, bool),
    np.array([2**63], np.uint64), np.empty((0, 3)), np.array([1 + 2j]), np.datetime64("2020-01-01"),
]  # fmt: skip


def model() -> rue.UMDP:
    builder = rue.Builder(2)
    builder.add("hall", "walk", {"door": [0.9, 0.6], "hall": [0.1, 0.4]}, cost=1.0)
    builder.add("hall", "call", {"out": 1.0}, cost=3.0)
    builder.add("door", "walk", {"out": 1.0}, cost=0.5)
    return builder.goal("out").build()


MODEL = model()
GRAPH = MODEL.graph
POLICY = rue.Policy.stationary(MODEL, [1, 0, 0])
SOLUTION = rue.solve(MODEL, rue.Adaptive())
CERTIFICATE = SOLUTION.certificate
ROWS = [("a", "go", 1.0, "b"), ("b", "go", 1.0, "end"), ("a", "go", 2.0, "end")]
COUNTS = rue.count_transitions(ROWS, initial="a", goals=["end"])
TRANSITION = np.zeros((1, 2, 1, 2))
TRANSITION[0, 0, 0, 1] = 1.0
VALUES = rue.optimal_values(MODEL)
VERDICT = rue.evaluate(MODEL, POLICY)


def observe(state: object, outcome: object) -> None:
    agent = rue.Policy.stationary(MODEL, [0, 0, 0]).agent(MODEL, seed=1)
    agent.act()
    agent.observe(state, outcome)


def values_of(thing: object) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in thing.__dataclass_fields__ if not name.startswith("_")}


SOLVER = {"steps": 1, "options": "deterministic", "prune": True, "kappa": 1e-9, "engine": "auto", "breakpoints": 5}
LIMITS = {"seconds": 1.0, "iterations": 5}
DOMAIN = {"width": 3, "height": 3, "seed": 1, "region_chance": 0.1, "diagonals": True}
# Every public name with arguments that are sound; records that rue makes itself and only hands out are left out.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "UMDP": (rue.UMDP, values_of(MODEL)),
    "UMDP.from_dense": (
        rue.UMDP.from_dense,
        {
            "transition": TRANSITION, "cost": np.ones((1, 2, 1)), "initial": 0, "goals": [1], "discount": 0.5,
            "states": ["a", "b"], "actions": ["go"],
        },
    ),
    "UMDP.from_dense with a horizon": (
        rue.UMDP.from_dense,
        {"transition": TRANSITION, "reward": np.ones((1, 2, 1)), "goals": [1], "horizon": 2, "terminal": [1.0, 2.0]},
    ),
    "UMDP.from_dense on average": (
        rue.UMDP.from_dense,
        {"transition": np.full((1, 2, 1, 2), 0.5), "cost": np.ones((1, 2, 1)), "average": 0.9},
    ),
    "UMDP.from_dense to avoid": (rue.UMDP.from_dense, {"transition": TRANSITION, "goals": [1], "avoid": [0]}),
    "UMDP.subset": (MODEL.subset, {"samples": [0]}),
    "UMDP.with_discount": (MODEL.with_discount, {"discount": 0.5}),
    "UMDP.with_horizon": (MODEL.with_horizon, {"horizon": 2, "terminal": [1.0] * MODEL.graph.states}),
    "Units": (rue.Units, {"reward": True, "shift": 1.0, "steps": 2.0, "constant": 0.0, "average": True}),
    "UMDP.with_weight": (MODEL.with_weight, {"weight": [1.0, 2.0]}),
    "Graph": (rue.Graph, values_of(GRAPH)),
    "Policy": (rue.Policy, values_of(POLICY)),
    "Policy.stationary": (rue.Policy.stationary, {"model": MODEL, "actions": [1, 0, 0]}),
    "Policy.from_choices": (rue.Policy.from_choices, {"graph": GRAPH, "choice": [0, 2, -1]}),
    "Policy.from_weights": (rue.Policy.from_weights, {"graph": GRAPH, "weight": [0.5, 0.5, 1.0]}),
    "Policy.from_json": (rue.Policy.from_json, {"text": POLICY.to_json()}),
    "Policy.from_csv": (rue.Policy.from_csv, {"text": POLICY.to_csv(), "model": MODEL}),
    "Policy.agent": (
        POLICY.agent, {"model": MODEL, "seed": 1, "unknown": "nearest", "fallback": POLICY},
    ),
    "Policy.agent.observe": (observe, {"state": "door", "outcome": 0}),
    "Builder": (rue.Builder, {"samples": 2, "weight": [1.0, 2.0], "discount": 0.5}),
    "Builder with a horizon": (rue.Builder, {"samples": 2, "horizon": 3}),
    "Builder on average": (
        lambda average: rue.Builder(2, average=average).add("a", "go", {"a": 1.0}).build(), {"average": True},
    ),
    "Builder.terminal": (
        lambda **given: rue.Builder(2, horizon=1).add("a", "go", {"b": 1.0}).goal("b").terminal(**given).build(),
        {"state": "a", "cost": 1.0},
    ),
    "Builder.add": (
        lambda **given: rue.Builder(2).add(**given).goal("b").build(),
        {"state": "a", "action": "go", "outcomes": {"b": [1.0, 1.0]}, "cost": 1.0},
    ),
    "Builder.goal": (lambda goal: rue.Builder(2).add("a", "go", {"b": 1.0}).goal(goal).build(), {"goal": "b"}),
    "Builder.initial": (
        lambda state: rue.Builder(2).add("a", "go", {"b": 1.0}).goal("b").initial(state).build(), {"state": "b"},
    ),
    "Counts": (lambda **given: rue.from_counts(rue.Counts(**given), samples=2, seed=0), values_of(COUNTS)),
    "count_transitions": (
        rue.count_transitions, {"rows": ROWS, "initial": "a", "goals": ["end"], "unvisited": "refuse"},
    ),
    "from_counts": (
        rue.from_counts,
        {
            "counts": np.ones((2, 1, 2)), "cost": np.ones((2, 1)), "samples": 2, "seed": 0, "initial": 0, "goals": [1],
            "prior": 1.0, "support": "all", "cost_noise": 0.0, "discount": 0.5,
        },
    ),
    "from_transitions": (
        rue.from_transitions,
        {
            "rows": ROWS, "samples": 2, "seed": 0, "initial": "a", "goals": ["end"], "prior": 1.0, "support": "state",
            "cost_noise": 0.0, "discount": 0.5, "unvisited": "refuse",
        },
    ),
    "domains.Disaster": (lambda **given: rue.domains.Disaster(**given).sample(2, seed=1), DOMAIN),
    "domains.Disaster.sample": (rue.domains.Disaster(**DOMAIN).sample, {"count": 2, "seed": 1}),
    "domains.Medical": (
        lambda **given: rue.domains.Medical(**given).sample(2, seed=1),
        {"seed": 1, "initial_health": 5, "noise": 0.1, "distinct": False},
    ),
    "select": (rue.select, {"model": MODEL, "count": 1, "by": "random", "seed": 0}),
    "solve": (
        rue.solve, {"model": MODEL, "solver": rue.Average(), "limits": rue.Limits(), "progress": None, "bound": False,
                    "cache": None, "threads": 1, "executor": None},
    ),
    "solve a source": (
        rue.solve, {"model": rue.Source.from_model(MODEL, 1), "solver": rue.Mixture(), "limits": rue.Limits(),
                    "executor": None},
    ),
    "verify a source": (rue.verify, {"model": rue.Source.from_model(MODEL, 1), "certificate": CERTIFICATE}),
    "Source.part": (rue.Source.from_model(MODEL, 1).part, {"samples": [0]}),
    "evaluate.subset": (VERDICT.subset, {"samples": [0]}),
    "evaluate": (
        rue.evaluate, {"model": MODEL, "policy": POLICY, "limits": rue.Limits(), "cache": None, "threads": 1,
                       "executor": None, "progress": None},
    ),
    "explain": (
        rue.explain, {"model": MODEL, "solution": SOLUTION, "entries": 3, "limits": rue.Limits(), "cache": None,
                      "progress": None},
    ),
    "simplify": (
        rue.simplify, {"model": MODEL, "policy": POLICY, "nodes": 3, "loss": 0.1, "tail": 0.5, "limits": rue.Limits(),
                       "progress": None, "cache": None},
    ),
    "frontier": (
        rue.frontier, {"model": MODEL, "policy": POLICY, "tail": 0.5, "limits": rue.Limits(), "progress": None,
                       "cache": None},
    ),
    "Source": (
        lambda **given: rue.evaluate(rue.Source(**given), POLICY),
        {"graph": GRAPH, "size": [2], "draw": lambda i: MODEL, "weight": [1.0]},
    ),
    "Source.from_domain": (
        rue.Source.from_domain, {"domain": rue.domains.Disaster(**DOMAIN), "samples": 4, "seed": 1, "block": 2},
    ),
    "Source.from_counts": (
        rue.Source.from_counts,
        {
            "counts": COUNTS, "samples": 4, "seed": 0, "block": 2, "prior": 1.0, "support": "state", "cost_noise": 0.0,
            "discount": 0.5,
        },
    ),
    "Source.from_files": (rue.Source.from_files, {"files": ["model.rue"], "samples": 2, "weight": [1.0]}),
    "Source.from_function": (
        rue.Source.from_function,
        {"draw": lambda i: MODEL, "samples": 4, "block": 2, "graph": GRAPH, "weight": [1.0, 2.0]},
    ),
    "Source.from_model": (rue.Source.from_model, {"model": MODEL, "block": 1}),
    "Source.block": (rue.Source.from_model(MODEL, 1).block, {"block": 0}),
    "Source.gather": (rue.Source.from_model(MODEL, 1).gather, {"samples": [0]}),
    "evaluate a source": (
        rue.evaluate,
        {"model": rue.Source.from_model(MODEL, 1), "policy": POLICY, "limits": rue.Limits(), "cache": None,
         "threads": 1, "executor": None, "progress": None},
    ),
    "Processes": (lambda jobs: rue.Processes(min(jobs, 3) if isinstance(jobs, int) else jobs), {"jobs": 1}),
    "diagnose": (rue.diagnose, {"model": MODEL, "policy": POLICY, "infinite": ()}),
    "Cache": (rue.Cache, {}),
    "simulate": (
        rue.simulate, {"model": MODEL, "policy": POLICY, "sample": 0, "episodes": 5, "seed": 0, "max_steps": 50,
                       "paths": True},
    ),
    "lower_bound": (rue.lower_bound, {"model": MODEL, "limits": rue.Limits(iterations=1), "cache": None, "threads": 1}),
    "optimal_values": (rue.optimal_values, {"model": MODEL, "tolerance": 1e-9, "within": None, "run": None}),
    "verify": (rue.verify, {"model": MODEL, "certificate": CERTIFICATE}),
    "Certificate": (rue.Certificate, values_of(CERTIFICATE)),
    "Limits": (rue.Limits, LIMITS),
    "Adaptive": (rue.Adaptive, {"gap": 0.1, "objective": "cost", "memory": 1.0, "nodes": 5}),
    "Average": (rue.Average, {}),
    "GivenPolicy": (lambda **given: rue.solve(MODEL, rue.GivenPolicy(**given)), {"file": "policy.csv", "contents": ""}),
    "BestSample": (rue.BestSample, {}),
    "ExactStationary": (rue.ExactStationary, {}),
    "Mixture": (rue.Mixture, {}),
    "Regret": (rue.Regret, SOLVER),
    "MyopicRegret": (rue.MyopicRegret, SOLVER),
    "WorstCase": (rue.WorstCase, SOLVER),
    "theory.constants": (rue.theory.constants, {"model": MODEL, "policy": POLICY, "visited": False}),
    "theory.adversary_regret": (rue.theory.adversary_regret, {"model": MODEL, "policy": POLICY, "steps": 1}),
    "load": (rue.load, {"path": "policy.csv", "model": MODEL}),
    "from_matrices": (
        rue.from_matrices,
        {
            "P": [[[0.0, 1.0], [0.0, 1.0]]], "R": [-1.0, 0.0], "discount": 0.5, "initial": 0, "states": ["a", "b"],
            "actions": ["go"], "samples": ["dry"], "weight": [1.0],
        },
    ),
    "from_matrices with a horizon": (
        rue.from_matrices,
        {"P": [[[0.0, 1.0], [0.0, 1.0]]], "R": [1.0, 0.0], "horizon": 2, "terminal": [1.0, 2.0]},
    ),
    "from_gymnasium": (
        rue.from_gymnasium,
        {"envs": [{0: {0: [(1.0, 0, -1.0, True)]}}], "discount": 0.5, "initial": 0, "samples": ["dry"]},
    ),
    "read_log": (
        rue.read_log,
        {
            "path": "log.csv", "state": "state", "action": "action", "cost": "cost", "next_state": "next_state",
            "episode": "e", "end": "end", "unfinished": "drop", "encoding": "utf-8",
        },
    ),
    "read_weights": (rue.read_weights, {"path": "weights.csv", "model": MODEL}),
    "exceedance_bound": (rue.exceedance_bound, {"samples": 5, "above": 1, "confidence": 0.9}),
    "least_samples": (rue.least_samples, {"probability": 0.1, "confidence": 0.9}),
    "scenario_bound": (rue.scenario_bound, {"samples": 5, "active": 1, "confidence": 0.9, "general": False}),
    "evaluate.exceedance": (VERDICT.exceedance, {"confidence": 0.9, "level": 1.0}),
    "evaluate.level": (VERDICT.level, {"probability": 0.1, "confidence": 0.9}),
    "evaluate.tail": (VERDICT.tail, {"alpha": 0.1}),
    "evaluate.quantile": (VERDICT.quantile, {"level": 0.1}),
    "solve.tail": (SOLUTION.tail, {"alpha": 0.1}),
    "solve.quantile": (SOLUTION.quantile, {"level": 0.1}),
    "solve.exceedance": (SOLUTION.exceedance, {"confidence": 0.9}),
    "visits.expected_visits": (rue.visits.expected_visits, {"model": MODEL, "policy": POLICY, "sample": 0}),
    "visits.distribution_after": (
        rue.visits.distribution_after, {"model": MODEL, "policy": POLICY, "sample": 0, "steps": [1, 2]},
    ),
}  # fmt: skip
# Results: rue makes them, and their fields are what they are. Errors take any words.
NOT_CALLED = {
    "BadFile", "BadInput", "Contradiction", "Diagnosis", "Evaluation", "Explanation", "FrontierPoint", "Interval",
    "NotProved", "NotSolved", "OptimalValues", "Outcome", "Progress", "RueError", "Run",
    "Simulation", "Solution", "Solver", "SolverFailed", "Status", "save", "domains", "theory",
}  # fmt: skip


def test_every_public_name_is_called():
    assert {name.partition(".")[0].partition(" ")[0] for name in CALLS} - {"visits"} | NOT_CALLED == set(rue.__all__)


def attempts(name: str) -> Iterator[tuple[str, Any]]:
    for parameter in CALLS[name][1]:
        for odd in ODD:
            yield parameter, odd


@pytest.mark.parametrize("name", CALLS)
def test_odd_arguments_are_refused_in_one_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("state,action,cost,next_state,e\na,go,1,b,1\nb,go,1,end,1\n")
    Path("weights.csv").write_text("sample,weight\n0,1\n1,2\n")
    rue.save("policy.csv", POLICY)
    rue.save("model.rue", MODEL)
    call, sound = CALLS[name]
    call(**sound)
    for parameter, odd in attempts(name):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                call(**{**sound, parameter: odd})
        except rue.RueError as error:
            assert len(str(error).splitlines()) == 1
        except Exception as error:
            raise AssertionError(f"{name}({parameter}={odd!r})") from error


@pytest.mark.parametrize("thing", ODD, ids=[f"{i}-{type(thing).__name__}" for i, thing in enumerate(ODD)])
def test_odd_things_and_places_are_not_saved(thing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, what in ((tmp_path / "x.rue", thing), (thing, MODEL)):
        if not isinstance(path, str) or not path:
            with pytest.raises(rue.RueError):
                rue.save(path, what)
