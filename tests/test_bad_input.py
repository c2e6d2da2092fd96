"""Bad input is one line that says where, what, what was expected and how many more; on the command line, status 2."""

import dataclasses
import functools
import json
import math
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rue
from rue import cli, parsing
from rue.given import read_policy

DATA = Path(__file__).parent / "data"
BROKEN = sorted((DATA / "broken").glob("*.rue"))
EXPECTED: dict[str, list[str]] = json.loads((DATA / "broken" / "expected.json").read_text())
MAKE_BROKEN = runpy.run_path(str(DATA / "make_broken.py"))
TINY = "disaster:width=3,height=3,samples=3,seed=1"


def refusal(call: Callable[[], object], kind: type[Exception] = rue.BadInput) -> str:
    """The one line with which a call is refused."""
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    message = str(caught.value)
    assert message.strip()
    assert len(message.splitlines()) == 1
    return message


def assert_says(message: str, *fragments: str) -> None:
    missing = [fragment for fragment in fragments if fragment not in message]
    assert not missing, f"{missing} not in {message!r}"


@pytest.fixture
def complaint(monkeypatch, capsys):
    """Runs a command line that must fail, and returns its one line on standard error without the "rue: "."""

    def run(*arguments: object) -> str:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["rue", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert ended.value.code == 2
        assert out == ""
        assert err.startswith("rue: ")
        assert err.endswith("\n")
        assert len(err.splitlines()) == 1
        return err.removeprefix("rue: ").removesuffix("\n")

    return run


@pytest.fixture
def sound(tmp_path) -> dict[str, Path]:
    """A sound model, policy and solution on the graph that the broken files have, too."""
    paths = {}
    for kind in ("model", "policy", "solution"):
        paths[kind] = tmp_path / f"{kind}.rue"
        paths[kind].write_bytes(MAKE_BROKEN[f"sound_{kind}"]())
    return paths


# A small model in tables: from 0, action 0 goes to 1 and action 1 stays or ends; from 1, action 0 ends.


def tables() -> tuple[np.ndarray, np.ndarray]:
    transition = np.zeros((2, 3, 2, 3))
    transition[:, 0, 0, 1] = 1.0
    transition[:, 0, 1] = [0.5, 0.0, 0.5]
    transition[:, 1, 0, 2] = 1.0
    return transition, np.ones((2, 3, 2))


def dense(change: Callable[[np.ndarray, np.ndarray], object] = lambda transition, cost: None, **options) -> rue.UMDP:
    transition, cost = tables()
    change(transition, cost)
    return rue.UMDP.from_dense(transition, cost, **{"goals": [2], **options})


def with_row(row: list[float], sample: int = 1) -> Callable[[], rue.UMDP]:
    return lambda: dense(lambda transition, cost: transition.__setitem__((sample, 0, 1), row))


def with_cost(value: float) -> Callable[[], rue.UMDP]:
    return lambda: dense(lambda transition, cost: cost.__setitem__((1, 0, 1), value))


def graph_with(**changed) -> Callable[[], rue.Graph]:
    return lambda: dataclasses.replace(dense().graph, **changed)


def model_with(**changed) -> Callable[[], rue.UMDP]:
    model = dense()
    arguments = {"graph": model.graph, "prob": model.prob, "cost": model.cost, **changed}
    return lambda: rue.UMDP(**arguments)


def policy_with(**changed) -> Callable[[], rue.Policy]:
    return lambda: dataclasses.replace(rue.Policy.stationary(dense(), [0, 0, 0]), **changed)


def stationary(actions) -> Callable[[], rue.Policy]:
    return lambda: rue.Policy.stationary(dense(), actions)


def lost() -> rue.UMDP:
    """In samples 1 and 2 the only way from 0 may lead to 1, which never ends."""
    transition = np.zeros((3, 3, 1, 3))
    transition[0, 0, 0] = [0.0, 0.5, 0.5]
    transition[1:, 0, 0] = [0.25, 0.25, 0.5]
    transition[0, 1, 0] = [0.0, 0.0, 1.0]
    transition[1:, 1, 0] = [0.0, 1.0, 0.0]
    return rue.UMDP.from_dense(transition, np.ones((3, 3, 1)), goals=[2], states=["start", "pit", "home"])


def counts() -> np.ndarray:
    table = np.zeros((3, 2, 3))
    table[0, 0, 1], table[1, 0, 2] = 3, 2
    return table


def counted(table=None, cost=None, **options) -> Callable[[], rue.UMDP]:
    table = counts() if table is None else table
    cost = np.ones((3, 2)) if cost is None else cost
    return lambda: rue.from_counts(table, cost, **{"samples": 2, "seed": 0, "goals": [2], **options})


def logged(rows=(("a", "go", 1.0, "b"), ("b", "go", 1.0, "end")), **options) -> Callable[[], rue.UMDP]:
    arguments = {"samples": 2, "seed": 0, "initial": "a", "goals": ["end"], **options}
    return lambda: rue.from_transitions(rows, **arguments)


def built(*steps: Callable[[rue.Builder], object], samples: int = 2) -> Callable[[], object]:
    def build() -> rue.UMDP:
        builder = rue.Builder(samples)
        for step in steps:
            step(builder)
        return builder.build()

    return build


def simulated(**options) -> Callable[[], object]:
    policy = rue.Policy.stationary(dense(), [0, 0, 0])
    return lambda: rue.simulate(dense(), policy, **{"sample": 0, "seed": 0, "episodes": 2, **options})


def disaster(**options) -> Callable[[], object]:
    return lambda: rue.domains.Disaster(**{"seed": 1, "width": 3, "height": 3, **options})


def sampled(count, seed) -> Callable[[], object]:
    return lambda: rue.domains.Medical(seed=1).sample(count, seed=seed)


def selected(count, **options) -> Callable[[], object]:
    return lambda: rue.select(dense(), count, **options)


MODELS = {
    "row sums to 0.9": (
        with_row([0.4, 0, 0.5]),
        ('probabilities of choice 1 (state 0, action "1") sum to 0.9 in sample 1', "expected 1", "1 choice is off"),
    ),
    "row of zeros in one sample": (
        with_row([0, 0, 0]),
        ('probabilities of choice 1 (state 0, action "1") sum to 0 in sample 1', "expected 1"),
    ),
    "row just off": (with_row([0.5, 0, 0.5 + 3e-8], sample=0), ("sum to 1.00000003 in sample 0", "expected 1")),
    "negative probability": (
        with_row([-0.5, 0, 1.5]),
        ('choice 1 (state 0, action "1") to state 0 is -0.5 in sample 1', "expected 0 to 1", "off in all"),
    ),
    "nan probability": (
        with_row([math.nan, 0, 0.5]),
        ("to state 0 is nan in sample 1", "expected 0 to 1", "1 is off"),
    ),
    "infinite probability": (with_row([math.inf, 0, 0.5]), ("is inf in sample 1", "expected 0 to 1", "1 is off")),
    "nan cost": (
        with_cost(math.nan),
        ('the cost of choice 1 (state 0, action "1") is nan in sample 1', "finite", "1 is"),
    ),
    "infinite cost": (with_cost(math.inf), ("is inf in sample 1", "expected a finite number", "1 is off in all")),
    "negative cost": (
        with_cost(-3.0),
        (
            'the cost of choice 1 (state 0, action "1") is -3.0 in sample 1',
            "expected 0 or more",
            "add a constant to every cost",
            "discount",
            "1 is off in all",
        ),
    ),
    "many bad costs": (lambda: dense(lambda transition, cost: cost.fill(math.nan)), ("6 are off in all",)),
    "no proper policy": (
        lost,
        (
            "no policy reaches a goal with probability one",
            "initial state start",
            "in sample 1",
            "state pit",
            "2 samples are",
        ),
    ),
    "no goal": (
        lambda: rue.UMDP.from_dense(np.full((1, 2, 1, 2), 0.5), np.ones((1, 2, 1))),
        ("there is no goal", "expected at least one"),
    ),
    "state without action": (
        lambda: dense(goals=[]),
        ("state 2 has no action and is no goal", "expected", "1 state is so in all"),
    ),
    "initial too large": (lambda: dense(initial=3), ("initial state 3 is out of range", "expected 0 to 2")),
    "initial negative": (lambda: dense(initial=-1), ("initial state -1 is out of range", "expected 0 to 2")),
    "initial half": (lambda: dense(initial=0.5), ("initial is 0.5", "expected a whole number")),
    "goal out of range": (lambda: dense(goals=[3]), ("goal 3 is out of range", "0 to 2")),
    "goal a name": (lambda: dense(goals=["home"]), ("goal", "home", "expected")),
    "goal a fraction": (lambda: dense(goals=[1.7]), ("goal", "1.7", "expected")),
    "transition with three axes": (
        lambda: rue.UMDP.from_dense(tables()[0][0], tables()[1], goals=[2]),
        ("transition has shape (3, 2, 3)", "expected [samples, states, actions, states]"),
    ),
    "transition to other states": (
        lambda: rue.UMDP.from_dense(tables()[0][..., :2], tables()[1], goals=[2]),
        ("transition has shape (2, 3, 2, 2)", "expected [samples, states, actions, states]"),
    ),
    "cost of another shape": (
        lambda: rue.UMDP.from_dense(tables()[0], tables()[1][:, :2], goals=[2]),
        ("cost has shape (2, 2, 2)", "expected (2, 3, 2) or (2, 3, 2, 3)"),
    ),
    "ragged transition": (lambda: rue.UMDP.from_dense([[1.0], [1.0, 2.0]], tables()[1]), ("transition", "rows differ")),
    "cost in words": (lambda: rue.UMDP.from_dense(tables()[0], "free", goals=[2]), ("cost is not a table of numbers",)),
    "no samples": (
        lambda: rue.UMDP.from_dense(tables()[0][:0], tables()[1][:0], goals=[2]),
        ("there are no samples", "expected at least one"),
    ),
    "no samples in flat arrays": (
        model_with(prob=np.empty((4, 0)), cost=np.empty((3, 0))),
        ("there are no samples", "expected at least one"),
    ),
    "prob of another shape": (model_with(prob=np.ones((3, 2))), ("prob has shape (3, 2)", "expected [4 transitions")),
    "cost of other samples": (model_with(cost=np.ones((3, 1))), ("cost has shape (3, 1)", "[3 choices, 2 samples]")),
    "prob in words": (model_with(prob="certain"), ("prob holds", "expected numbers")),
    "too few state labels": (lambda: dense(states=["a", "b"]), ("number of state labels is 2", "expected 3")),
    "half a letter in a label": (
        lambda: dense(states=["a", "b", "c\udc80"]),
        ("a state label has '\\udc80'", "expected text that UTF-8 can hold"),
    ),
    "state label twice": (lambda: dense(states=["a", "b", "a"]), ("state label 'a' is used twice", "expected")),
    "too few action labels": (lambda: dense(actions=["go"]), ("number of action labels is 1", "expected 2")),
    "too few sample labels": (model_with(sample_label=("dry",)), ("number of sample labels is 1", "expected 2")),
    "label with a line break": (
        lambda: dense(lambda transition, cost: cost.fill(-1.0), states=["a\nb", "c", "d"]),
        ("is -1.0 in sample 0", "expected 0 or more"),
    ),
    "discount 1": (lambda: dense(discount=1.0), ("discount is 1.0", "expected a number between 0 and 1")),
    "discount in words": (
        lambda: dense(discount="often"),
        ("discount is", "often", "expected a number between 0 and 1"),
    ),
    "pointers too far": (graph_with(choice_ptr=[0, 2, 3, 4]), ("choice_ptr", "4", "expected 0 to 3")),
    "pointers fall": (
        graph_with(choice_ptr=[0, 2, 1, 3]),
        ("choice_ptr[2] is 1", "expected not less than 2", "1 is off"),
    ),
    "pointers with two axes": (
        graph_with(choice_ptr=[[0, 2, 3, 3]]),
        ("choice_ptr has shape (1, 4)", "expected one axis"),
    ),
    "pointers in floats": (
        graph_with(choice_ptr=[0.0, 2.0, 3.0, 3.0]),
        ("choice_ptr holds float64", "expected integers"),
    ),
    "successor out of range": (
        graph_with(successor=[1, 0, 7, 2]),
        ('successor 7 of choice 1 (state 0, action "1")', "expected 0 to 2", "1 is off in all"),
    ),
    "successor beyond 32 bits": (graph_with(successor=[1, 0, 2**32 + 2, 2]), ("successor", str(2**32 + 2), "expected")),
    "actions out of order": (graph_with(action=[1, 0, 0]), ("action 0 of choice 1", "expected the actions of a state")),
    "subset out of range": (lambda: dense().subset([0, 2]), ("sample 2 is out of range", "expected 0 to 1")),
    "subset of none": (lambda: dense().subset([]), ("the subset has no samples", "expected at least one")),
    "subset by a fraction": (lambda: dense().subset([0.5]), ("sample", "0.5", "expected")),
    "subset by a short mask": (lambda: dense().subset([True]), ("1", "expected 2")),
    "subset by name": (lambda: dense().subset(["wet"]), ("sample", "wet", "expected")),
}

POLICIES = {
    "wrong length": (stationary([0, 0]), ("actions has shape (2,)", "expected (3,) or (3, actions)")),
    "wrong number of rows": (
        stationary([[1, 0], [1, 0]]),
        ("actions has shape (2, 2)", "expected (3,) or (3, actions)"),
    ),
    "missing action": (
        stationary([7, 1, 0]),
        ("state 0 has no action 7", "expected one of 0, 1", "2 states are off in all"),
    ),
    "half an action": (stationary([0.5, 0, 0]), ("state 0 has no action 0.5", "expected one of 0, 1")),
    "probabilities sum to 0.9": (
        stationary([[0.5, 0.4], [1, 0], [0, 0]]),
        ("probabilities of state 0 sum to 0.9", "1 in sum", "1 state is off in all"),
    ),
    "negative probability": (stationary([[1.5, -0.5], [1, 0], [0, 0]]), ("state 0", "negative", "expected 0 or more")),
    "nan probability": (stationary([[math.nan, 1], [1, 0], [0, 0]]), ("state 0", "nan", "expected 0 or more")),
    "probability of a missing action": (
        stationary([[1, 0], [0.5, 0.5], [0, 0]]),
        ("probability 0.5 is given to action 1 in state 1", "expected 0", "1 is off in all"),
    ),
    "probabilities in words": (stationary([["a", "b"]] * 3), ("expected",)),
    "ragged probabilities": (stationary([[1], [1, 0], [0]]), ("expected",)),
    "weights do not sum": (policy_with(weight=[0.5, 1.0]), ("policy", "expected")),
    "weights too few": (policy_with(weight=[1.0]), ("policy", "expected")),
    "weights with two axes": (policy_with(weight=[[1.0, 1.0], [1.0, 1.0]]), ("policy", "expected")),
    "choice out of range": (policy_with(choice=[0, 7]), ("policy", "expected")),
    "choice negative": (policy_with(choice=[0, -1]), ("policy", "expected")),
    "node of no state": (policy_with(node_state=[0, 1, 9]), ("policy", "expected")),
    "node of a negative state": (policy_with(node_state=[0, 1, -1]), ("policy", "expected")),
    "entry pointers too short": (policy_with(entry_ptr=[0, 1, 2]), ("policy", "expected")),
    "entry pointers fall": (policy_with(entry_ptr=[0, 2, 1, 2]), ("policy", "expected")),
    "entry pointers begin late": (policy_with(entry_ptr=[1, 1, 2, 2]), ("policy", "expected")),
    "next pointers missing": (policy_with(next_ptr=[]), ("policy", "expected")),
    "next node out of range": (policy_with(next_node=[1, 9]), ("policy", "expected")),
    "next node of another state": (
        policy_with(next_node=[0, 2]),
        ("next_node", "other states", "expected a node of each"),
    ),
    "start node elsewhere": (policy_with(start_node=[1]), ("starts in another state", "expected the initial state 0")),
    "start weights too few": (policy_with(start_node=[0, 0]), ("policy", "expected")),
    "start weights sum to 0.5": (policy_with(start_weight=[0.5]), ("policy", "expected")),
    "for another graph": (
        lambda: rue.evaluate(parsing.read_model(TINY), stationary([0, 0, 0])()),
        ("the policy is for another graph (3 states, 3 choices", "expected 9 states, 64 choices", "fingerprint"),
    ),
    "for another graph, simulated": (
        lambda: rue.simulate(parsing.read_model(TINY), stationary([0, 0, 0])(), sample=0, seed=0),
        ("the policy is for another graph (3 states, 3 choices", "expected 9 states, 64 choices"),
    ),
    "a solution instead": (
        lambda: rue.evaluate(dense(), rue.solve(dense(), rue.Average())),
        ("the policy is a Solution", "solution.policy"),
    ),
    "a solution simulated": (
        lambda: rue.simulate(dense(), rue.solve(dense(), rue.Average()), sample=0, seed=0),
        ("the policy is a Solution", "solution.policy"),
    ),
}

PARAMETERS = {
    "seconds negative": (lambda: rue.Limits(seconds=-1), ("seconds", "is -1", "expected a number, 0 or more")),
    "seconds nan": (lambda: rue.Limits(seconds=math.nan), ("seconds", "is nan", "expected a number, 0 or more")),
    "seconds in words": (lambda: rue.Limits(seconds="long"), ("seconds", "is 'long'", "expected a number, 0 or more")),
    "seconds none": (lambda: rue.Limits(seconds=None), ("seconds", "is None", "expected a number, 0 or more")),
    "iterations negative": (lambda: rue.Limits(iterations=-2), ("iterations", "is -2", "expected a number, 0 or more")),
    "iterations true": (lambda: rue.Limits(iterations=True), ("iterations", "is True", "expected a number, 0 or more")),
    "limits a number": (lambda: rue.solve(dense(), rue.Average(), limits=5), ("limits", "5", "rue.Limits")),
    "steps zero": (lambda: rue.Regret(steps=0), ("steps is 0", "expected 1 to 10000")),
    "steps half": (lambda: rue.MyopicRegret(steps=1.5), ("steps is 1.5", "expected a whole number from 1 to 10000")),
    "steps true": (lambda: rue.WorstCase(steps=True), ("steps is True", "expected a whole number from 1 to 10000")),
    "steps beyond all": (lambda: rue.Regret(steps=10**30), (f"steps is {10**30}", "expected 1 to 10000")),
    "a word that nobody reads": (lambda: parsing.parse_method("x" * 5000), ("xx", "…", "known: adaptive")),
    "options misspelt": (
        lambda: rue.Regret(options="stocastic"),
        ("unknown options 'stocastic'", "did you mean 'stochastic'?", "deterministic, history, stochastic"),
    ),
    "options none": (lambda: rue.Regret(options=None), ("options", "None", "deterministic, history, stochastic")),
    "kappa negative": (lambda: rue.Regret(kappa=-1e-9), ("kappa is -1e-09", "expected a number from 0 to 1")),
    "kappa one": (lambda: rue.Regret(kappa=1), ("kappa is 1", "expected a number from 0 to 1")),
    "kappa nan": (lambda: rue.Regret(kappa=math.nan), ("kappa is nan", "expected a number from 0 to 1")),
    "kappa in words": (lambda: rue.Regret(kappa="small"), ("kappa is 'small'", "expected a number from 0 to 1")),
    "prune a number": (lambda: rue.Regret(prune=1), ("prune is 1", "expected True or False")),
    "prune in words": (lambda: rue.WorstCase(prune="no"), ("prune is 'no'", "expected True or False")),
    "solver a class": (lambda: rue.solve(dense(), rue.Regret), ("Regret", "expected a solver object", "rue.Regret()")),
    "solver a name": (lambda: rue.solve(dense(), "reg"), ("'reg'", "expected a solver object")),
    "model a file name": (lambda: rue.solve("d8.rue", rue.Regret()), ("the model is a str", "expected a rue.UMDP")),
    "unknown method": (
        lambda: parsing.parse_method("averge"),
        (
            "unknown method 'averge'",
            "did you mean 'average'?",
            "known: adaptive, average, best, cemr, milp, mixture, policy, reg,",
        ),
    ),
    "unknown parameter of a method": (
        lambda: parsing.parse_method("reg", {"step": 1}),
        (
            "parameter of reg 'step'",
            "did you mean 'steps'?",
            "known: breakpoints, engine, kappa, options, prune, steps",
        ),
    ),
    "parameter where there are none": (lambda: parsing.parse_method("best", {"steps": 1}), ("'steps'", "known: none")),
    "setting without value": (
        lambda: parsing.parse_settings(["steps"]),
        ("'steps' has no value", "expected NAME=VALUE"),
    ),
    "unknown domain": (
        lambda: parsing.make_domain("disastr", {"seed": 1}),
        ("unknown domain 'disastr'", "did you mean 'disaster'?", "known: disaster, glider, medical"),
    ),
    "unknown parameter of a domain": (
        lambda: parsing.make_domain("disaster", {"seed": 1, "widht": 8}),
        ("unknown parameter of disaster 'widht'", "did you mean 'width'?", "height"),
    ),
    "missing seed": (lambda: parsing.make_domain("medical", {}), ("the seed of medical is missing", "expected seed=1")),
    "seed negative": (disaster(seed=-1), ("the seed is -1", "expected a whole number, 0 or more")),
    "seed half": (disaster(seed=1.5), ("the seed is 1.5", "expected a whole number, 0 or more")),
    "seed none": (disaster(seed=None), ("the seed is None", "expected a whole number, 0 or more")),
    "width one": (disaster(width=1), ("width is 1", "expected 2 to 2000")),
    "height half": (disaster(height=2.5), ("height is 2.5", "expected a whole number from 2 to 2000")),
    "height true": (disaster(height=True), ("height is True", "expected")),
    "region chance two": (disaster(region_chance=2), ("region_chance is 2", "expected 0 to 1")),
    "health too high": (lambda: rue.domains.Medical(seed=1, initial_health=20), ("initial_health is 20", "0 to 19")),
    "noise negative": (lambda: rue.domains.Medical(seed=1, noise=-0.1), ("noise is -0.1", "expected 0 to 10")),
    "distinct in words": (lambda: rue.domains.Medical(seed=1, distinct="no"), ("distinct is 'no'", "True or False")),
    "no samples of a domain": (sampled(0, 1), ("the number of samples is 0", "expected a whole number, 1 or more")),
    "half a sample of a domain": (sampled(1.5, 1), ("the number of samples is 1.5", "1 or more")),
    "sample seed negative": (sampled(2, -1), ("the seed is -1", "expected a whole number, 0 or more")),
    "sample seed missing": (sampled(2, None), ("the seed is None", "expected a whole number, 0 or more")),
    "select too many": (selected(3), ("3 samples are asked for", "expected 1 to 2")),
    "select none": (selected(0), ("0 samples are asked for", "expected 1 to 2")),
    "select one and a half": (selected(1.5), ("1.5", "expected")),
    "select in words": (selected("all"), ("all", "expected")),
    "select in an unknown way": (
        selected(1, by="covrage"),
        ("'covrage'", "did you mean 'coverage'?", "known: coverage, random, regret"),
    ),
    "select by nothing": (selected(1, by=None), ("None", "known: coverage, random, regret")),
    "select with a bad seed": (selected(1, by="random", seed=-1), ("seed", "-1", "expected")),
    "simulate a missing sample": (simulated(sample=2), ("sample 2 is out of range", "expected 0 to 1")),
    "simulate a negative sample": (simulated(sample=-1), ("sample -1 is out of range", "expected 0 to 1")),
    "simulate half a sample": (simulated(sample=0.5), ("sample", "0.5", "expected")),
    "simulate no episodes": (simulated(episodes=0), ("episodes is 0", "1 or more")),
    "simulate half an episode": (simulated(episodes=1.5), ("episodes is 1.5", "expected")),
    "simulate no steps": (simulated(max_steps=0), ("max_steps is 0", "1 or more")),
    "simulate with a bad seed": (simulated(seed=-1), ("seed", "-1", "expected")),
    "simulate without seed": (simulated(seed=None), ("seed", "None", "expected")),
}

BUILDERS = {
    "no samples": (lambda: rue.Builder(0), ("samples is 0", "expected a whole number, 1 or more")),
    "nothing built": (built(), ("there are no states", "expected add() and goal()")),
    "no goal": (built(lambda b: b.add("a", "go", {"a": 1.0})), ("there is no goal",)),
    "action twice": (
        built(lambda b: b.add("a", "go", {"b": 1.0}), lambda b: b.add("a", "go", {"b": 1.0})),
        ("state 'a', action \"go\" is there already", "expected each action once"),
    ),
    "action at a goal": (
        built(lambda b: b.goal("a"), lambda b: b.add("a", "go", {"b": 1.0})),
        ("state 'a', action \"go\"", "the state is a goal", "expected no actions there"),
    ),
    "goal with actions": (
        built(lambda b: b.add("a", "go", {"b": 1.0}), lambda b: b.goal("a")),
        ("state 'a' has actions", "expected none at a goal"),
    ),
    "no outcomes": (built(lambda b: b.add("a", "go", {})), ("leads nowhere", "expected at least one outcome")),
    "outcomes in a list": (built(lambda b: b.add("a", "go", ["b"])), ("state 'a', action \"go\"", "expected")),
    "probabilities of other samples": (
        built(lambda b: b.add("a", "go", {"b": [0.5, 0.5, 1.0]})),
        ("the probability of 'b' has shape (3,)", "expected a number or 2 numbers"),
    ),
    "probability in words": (
        built(lambda b: b.add("a", "go", {"b": "likely"})),
        ("the probability of 'b' is 'likely'", "expected a number, or one for each sample"),
    ),
    "cost of other samples": (
        built(lambda b: b.add("a", "go", {"b": 1.0}, cost=[1.0])),
        ("the cost has shape (1,)", "expected a number or 2 numbers"),
    ),
    "state left over": (
        built(lambda b: b.add("a", "go", {"b": 0.5, "c": 0.5})),
        ("state 'b' has no action and is no goal", "2 states are so in all"),
    ),
    "unknown initial state": (
        built(lambda b: b.add("a", "go", {"b": 1.0}), lambda b: b.goal("b"), lambda b: b.initial("z")),
        ("state 'z' has no action and is no goal",),
    ),
    "row sums to 0.9": (
        built(lambda b: b.add("a", "go", {"b": [1.0, 0.9]}), lambda b: b.goal("b")),
        ('choice 0 (state a, action "go") sum to 0.9 in sample 1', "expected 1"),
    ),
    "counts with two axes": (counted(np.ones((2, 2))), ("counts has shape (2, 2)", "[states, actions, states]")),
    "negative count": (counted(-counts()), ("the count of state 0, action 0 to state 1 is -3.0", "expected 0 or more")),
    "nan count": (counted(counts() * math.nan), ("the count of state 0, action 0 to state 0 is nan", "expected")),
    "counts in words": (counted("many"), ("counts", "expected")),
    "cost of another shape": (counted(cost=np.ones(2)), ("cost has shape (2,)", "expected (3, 2) to match counts")),
    "negative cost": (
        counted(cost=-np.ones((3, 2))),
        ("is -1.0 in sample 0", "expected 0 or more", "4 are off in all"),
    ),
    "no posterior samples": (counted(samples=0), ("samples is 0", "expected a whole number, 1 or more")),
    "posterior seed negative": (counted(seed=-1), ("seed", "-1", "expected")),
    "posterior seed none": (counted(seed=None), ("seed", "None", "expected")),
    "prior zero": (counted(prior=0), ("prior is 0", "expected a number of pseudo-counts over 0")),
    "prior infinite": (counted(prior=math.inf), ("prior is inf", "expected a number")),
    "prior in words": (counted(prior="flat"), ("prior is 'flat'", "expected a number")),
    "cost noise negative": (counted(cost_noise=-1), ("cost_noise is -1", "expected 0 or more")),
    "cost noise in words": (counted(cost_noise="some"), ("cost_noise is 'some'", "expected")),
    "support misspelt": (counted(support="al"), ("unknown support 'al'", "did you mean 'all'?")),
    "goal of counts out of range": (counted(goals=[7]), ("goal 7 is out of range", "expected 0 to 2")),
    "initial of counts out of range": (counted(initial=9), ("initial state 9 is out of range", "expected 0 to 2")),
    "state without counts": (counted(goals=[]), ("state 2 has no counts and is no goal", "1 state is so in all")),
    "short row": (
        logged([("a", "go", 1.0, "end"), ("a", "b")]),
        ("row 1 is ('a', 'b')", "expected (state, action, cost"),
    ),
    "cost in words": (logged([("a", "go", "free", "end")]), ("row 0 is ('a', 'go', 'free', 'end')", "expected (state")),
    "nan in the log": (logged([("a", "go", math.nan, "end")]), ("nan", "expected")),
    "state never left": (
        logged([("a", "go", 1.0, "b"), ("a", "go", 1.0, "c")]),
        ("the log never leaves state 'b'", "expected it in goals", 'unvisited="dead end"', "2 states are so in all"),
    ),
    "empty log": (logged([]), ("the log has no rows", "expected (state, action, cost, next state)")),
    "initial state not in the log": (
        logged(initial="B"),
        ("the log never leaves the initial state 'B'", "expected one with rows of its own, such as 'a'"),
    ),
    "goals of a log as one word": (logged(goals="end"), ("goals is 'end'", "expected a list of states", "['end']")),
    "every state as support of a log": (logged(support="all"), ("support is 'all'", "expected 'observed' or 'state'")),
    "unvisited misspelt": (logged(unvisited="ded end"), ("'ded end'", "did you mean 'dead end'?")),
    "dead end ahead": (
        logged([("a", "go", 1.0, "b")], unvisited="dead end"),
        ("no policy reaches a goal with probability one", "in sample 0", "2 samples are off in all"),
    ),
}

CASES = [
    pytest.param(call, fragments, id=f"{group}: {name}")
    for group, cases in (("model", MODELS), ("policy", POLICIES), ("parameter", PARAMETERS), ("builder", BUILDERS))
    for name, (call, fragments) in cases.items()
]


@pytest.mark.parametrize(("call", "fragments"), CASES)
def test_bad_input_is_one_line_that_helps(call, fragments):
    assert_says(refusal(call), *fragments)


WHOLE = {
    "seed of a domain": lambda two: rue.domains.Disaster(seed=two, width=3, height=3).sample(2, seed=1).samples == 2,
    "width of a domain": lambda two: rue.domains.Disaster(seed=1, width=two, height=two).graph.states == 4,
    "number of samples": lambda two: rue.domains.Medical(seed=1).sample(two, seed=two).samples == 2,
    "number to select": lambda two: rue.select(dense(), two, by="random", seed=two).samples == 2,
    "sample to simulate": lambda two: simulated(sample=two - 1, seed=two, episodes=two)().cost.size == 2,
    "samples of a builder": lambda two: rue.Builder(two).add("a", "go", {"b": 1.0}).goal("b").build().samples == 2,
    "samples of counts": lambda two: counted(samples=two, seed=two)().samples == 2,
    "iterations": lambda two: rue.Limits(iterations=two).iterations == 2,
    "steps": lambda two: type(rue.Regret(steps=two - 1).steps) is int,
    "initial state": lambda two: dense(initial=two - 1).graph.initial == 1,
}


@pytest.mark.parametrize("works", WHOLE.values(), ids=WHOLE)
def test_whole_numbers_of_numpy_are_whole_numbers(works):
    assert works(2)
    assert works(np.int64(2))


def test_a_failed_add_leaves_no_trace_in_the_builder():
    builder = rue.Builder(2)
    refusal(lambda: builder.add("a", "go", {"elsewhere": "likely"}))
    model = builder.add("a", "walk", {"home": 1.0}).goal("home").build()
    assert model.graph.state_label == ("a", "home")
    assert model.graph.action_label == ("walk",)


# The corpus of broken files.


def test_every_broken_file_has_an_expected_message_and_the_reverse():
    assert len(BROKEN) > 60
    assert {path.stem for path in BROKEN} == set(EXPECTED)
    assert all(len(fragments) > 0 for fragments in EXPECTED.values())


def test_the_script_makes_the_corpus(tmp_path):
    MAKE_BROKEN["write_all"](tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in BROKEN}


def test_what_the_corpus_breaks_is_sound(sound):
    model, policy, solution = (rue.load(sound[kind]) for kind in ("model", "policy", "solution"))
    assert isinstance(model, rue.UMDP)
    assert isinstance(policy, rue.Policy)
    assert isinstance(solution, rue.Solution)
    assert rue.evaluate(model, policy).value == pytest.approx(
        [(1 + 0.9 * 2) / 0.9, (1 + 0.8 * 6) / 0.8], abs=1e-12
    )  # v(ridge) = 1 / 0.5 and 1.5 / 0.25


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_file_is_refused_alike_in_python_and_on_the_command_line(path, sound, complaint, tmp_path):
    message = refusal(lambda: rue.load(path), rue.BadFile)
    where, reason = message[: len(str(path)) + 2], message[len(str(path)) + 2 :]
    assert where == f"{path}: "
    assert_says(reason, *EXPECTED[path.stem])
    assert complaint("convert", path, tmp_path / "copy.rue") == message
    if path.stem.startswith(("policy_", "solution_")):
        assert complaint("evaluate", sound["model"], path) == message
        assert complaint("simulate", sound["model"], path, "--sample", 0, "--seed", 0, "--json") == message
    else:
        assert complaint("info", path) == message
        assert complaint("solve", path, "--json") == message
        assert complaint("compare", path) == message
        assert complaint("evaluate", path, sound["policy"]) == message
    assert not (tmp_path / "copy.rue").exists()


def test_a_directory_is_no_file(tmp_path, complaint):
    message = refusal(lambda: rue.load(tmp_path), rue.BadFile)
    assert_says(message, str(tmp_path), "it is a directory", "expected a file")
    assert complaint("info", tmp_path) == message


def test_a_missing_file(tmp_path, complaint):
    message = refusal(lambda: rue.load(tmp_path / "nowhere.rue"))
    assert_says(message, str(tmp_path / "nowhere.rue"), "there is no such file")
    assert complaint("solve", tmp_path / "nowhere.rue") == message
    assert complaint("evaluate", TINY, tmp_path / "nowhere.rue") == message


def test_a_name_too_long_for_a_file(complaint):
    message = refusal(lambda: rue.load("x" * 5000))
    assert complaint("info", "x" * 5000) == message


def test_a_policy_given_as_a_model(sound, complaint):
    for kind, name in (("policy", "Policy"), ("solution", "Solution")):
        message = refusal(functools.partial(parsing.read_model, str(sound[kind])))
        assert_says(message, str(sound[kind]), f"it holds a {name}", "expected a model")
        assert complaint("info", sound[kind]) == message
        assert complaint("solve", sound[kind]) == message
        assert complaint("compare", sound[kind]) == message
        assert complaint("evaluate", sound[kind], sound[kind]) == message


def test_a_model_given_as_a_policy(sound, complaint):
    message = refusal(lambda: read_policy(str(sound["model"]), parsing.read_model(str(sound["model"]))))
    assert_says(message, str(sound["model"]), "expected a policy or a solution")
    assert complaint("evaluate", sound["model"], sound["model"]) == message
    assert complaint("simulate", sound["model"], sound["model"], "--sample", 0, "--seed", 0) == message


def test_a_policy_for_another_graph_on_the_command_line(sound, complaint):
    message = refusal(lambda: rue.evaluate(parsing.read_model(TINY), rue.load(sound["policy"])))
    assert_says(message, "the policy is for another graph (4 states, 4 choices", "expected 9 states, 64 choices")
    named = f"{sound['policy']}: {message}"
    assert complaint("evaluate", TINY, sound["policy"]) == named
    assert complaint("simulate", TINY, sound["policy"], "--sample", 0, "--seed", 0) == named


def test_no_damage_goes_unnoticed(tmp_path):
    """A flipped bit is found, or it was in something that does not matter, such as a date.

    Every bit of the first entry in the zip's directory is flipped, and a bit of every third byte elsewhere.
    """
    raw = MAKE_BROKEN["sound_model"]()
    sound, path = tmp_path / "sound.rue", tmp_path / "damaged.rue"
    sound.write_bytes(raw)
    model = rue.load(sound)
    directory = MAKE_BROKEN["directory_entry"](raw)
    flips = [(place, place % 8) for place in range(0, len(raw), 3)]
    flips += [(place, bit) for place in range(directory, directory + 46) for bit in range(8)]
    refused = 0
    for place, bit in flips:
        path.write_bytes(MAKE_BROKEN["flipped"](raw, place, bit))
        try:
            loaded = rue.load(path)
        except rue.BadFile as error:
            assert len(str(error).splitlines()) == 1
            refused += 1
            continue
        assert loaded.graph.fingerprint == model.graph.fingerprint
        assert loaded.graph.state_label == model.graph.state_label
        assert loaded.sample_label == model.sample_label
        assert np.array_equal(loaded.prob, model.prob)
        assert np.array_equal(loaded.cost, model.cost)
    assert refused > len(flips) / 2


def test_no_part_of_a_file_is_taken_for_the_whole(tmp_path):
    raw = MAKE_BROKEN["sound_policy"]()
    path = tmp_path / "part.rue"
    for length in range(0, len(raw), 17):
        path.write_bytes(raw[:length])
        refusal(lambda: rue.load(path), rue.BadFile)


# The command line says what the library says.

SAME_WORDS = {
    "unknown method": (["solve", TINY, "--method", "averge"], lambda: parsing.parse_method("averge")),
    "unknown method among several": (["compare", TINY, "--methods", "reg,bst"], lambda: parsing.parse_method("bst")),
    "unknown parameter": (
        ["solve", TINY, "--method", "reg", "--set", "step=1"],
        lambda: parsing.parse_method("reg", {"step": 1}),
    ),
    "steps": (["solve", TINY, "--method", "reg", "--set", "steps=0"], lambda: rue.Regret(steps=0)),
    "steps in the short form": (["solve", TINY, "--method", "cemr-s0"], lambda: rue.MyopicRegret(0, "stochastic")),
    "options": (
        ["solve", TINY, "--method", "reg", "--set", "options=stocastic"],
        lambda: rue.Regret(options="stocastic"),
    ),
    "kappa": (["solve", TINY, "--method", "reg", "--set", "kappa=-1"], lambda: rue.Regret(kappa=-1)),
    "kappa in words": (["solve", TINY, "--method", "reg", "--set", "kappa=small"], lambda: rue.Regret(kappa="small")),
    "prune": (["solve", TINY, "--method", "robust", "--set", "prune=no"], lambda: rue.WorstCase(prune="no")),
    "seconds": (["solve", TINY, "--seconds", -1], lambda: rue.Limits(seconds=-1.0)),
    "seconds of a comparison": (["compare", TINY, "--seconds", "nan"], lambda: rue.Limits(seconds=math.nan)),
    "iterations": (["solve", TINY, "--iterations", -1], lambda: rue.Limits(iterations=-1)),
    "unknown domain": (["info", "disastr:seed=1"], lambda: parsing.make_domain("disastr", {"seed": 1})),
    "unknown domain to generate": (
        ["generate", "medicl", "--seed", 1, "-o", "m.rue"],
        lambda: parsing.make_domain("medicl", {"seed": 1}),
    ),
    "unknown parameter of a domain": (
        ["info", "disaster:widht=8,seed=1"],
        lambda: parsing.make_domain("disaster", {"widht": 8, "seed": 1}),
    ),
    "unknown parameter to generate": (
        ["generate", "disaster", "--seed", 1, "--set", "widht=8", "-o", "d.rue"],
        lambda: parsing.make_domain("disaster", {"widht": 8, "seed": 1}),
    ),
    "missing seed": (["solve", "disaster:width=3"], lambda: parsing.make_domain("disaster", {"width": 3})),
    "nothing but a domain": (["info", "medical"], lambda: parsing.make_domain("medical", {})),
    "bad seed": (["info", "medical:seed=-1"], lambda: rue.domains.Medical(seed=-1)),
    "bad seed to generate": (
        ["generate", "medical", "--seed", -1, "-o", "m.rue"],
        lambda: rue.domains.Medical(seed=-1),
    ),
    "width": (["info", "disaster:seed=1,width=1"], lambda: rue.domains.Disaster(seed=1, width=1)),
    "number of samples": (["info", "medical:seed=1,samples=0"], sampled(0, 1)),
    "number of samples to generate": (
        ["generate", "medical", "--seed", 1, "--samples", 0, "-o", "m.rue"],
        sampled(0, 1),
    ),
    "a word for samples": (["info", "medical:seed=1,samples=many"], sampled("many", 1)),
    "distinct": (["info", "medical:seed=1,distinct=maybe"], lambda: rue.domains.Medical(seed=1, distinct="maybe")),
    "too many samples of a pool": (
        ["info", "disaster:width=3,height=3,seed=1,samples=3,pool=2"],
        lambda: rue.select(dense(), 3),
    ),
    "a word for samples of a pool": (
        ["info", "disaster:width=3,height=3,seed=1,samples=all,pool=2"],
        lambda: rue.select(dense(), "all"),
    ),
    "unknown way to select": (
        ["generate", "medical", "--seed", 1, "--samples", 1, "--pool", 2, "--by", "covrage", "-o", "m.rue"],
        lambda: rue.select(dense(), 1, by="covrage"),
    ),
    "a number for the way to select": (
        ["info", "disaster:width=3,height=3,seed=1,samples=1,pool=2,by=3"],
        lambda: rue.select(dense(), 1, by=3),
    ),
    "setting without value": (["info", "disaster:seed=1,width"], lambda: parsing.parse_settings(["width"])),
}


@pytest.mark.parametrize(("arguments", "call"), SAME_WORDS.values(), ids=SAME_WORDS)
def test_the_command_line_uses_the_words_of_the_library(arguments, call, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert complaint(*arguments) == refusal(call)
    assert list(tmp_path.iterdir()) == []


SIMULATED = {
    "sample out of range": (["--sample", 2, "--seed", 0], {"sample": 2, "seed": 0}),
    "negative sample": (["--sample", -1, "--seed", 0], {"sample": -1, "seed": 0}),
    "no episodes": (["--sample", 0, "--seed", 0, "--episodes", 0], {"sample": 0, "seed": 0, "episodes": 0}),
    "no steps": (["--sample", 0, "--seed", 0, "--max-steps", 0], {"sample": 0, "seed": 0, "max_steps": 0}),
    "negative seed": (["--sample", 0, "--seed", -1], {"sample": 0, "seed": -1}),
}


@pytest.mark.parametrize(("arguments", "options"), SIMULATED.values(), ids=SIMULATED)
def test_simulate_uses_the_words_of_the_library(arguments, options, sound, complaint):
    model, policy = rue.load(sound["model"]), rue.load(sound["policy"])
    message = refusal(lambda: rue.simulate(model, policy, **options))
    assert complaint("simulate", sound["model"], sound["policy"], *arguments) == message


PARSED = {
    "unknown command": (["sovle", TINY], "sovle"),
    "unknown option": (["solve", TINY, "--metod", "reg"], "--metod"),
    "missing model": (["solve"], "model"),
    "missing policy": (["evaluate", TINY], "POLICY"),
    "missing seed": (["generate", "disaster", "-o", "d.rue"], "--seed"),
    "missing output": (["generate", "disaster", "--seed", 1], "--output"),
    "missing sample": (["simulate", TINY, TINY, "--seed", 0], "--sample"),
    "seconds in words": (["solve", TINY, "--seconds", "long"], "--seconds"),
    "half an iteration": (["solve", TINY, "--iterations", 1.5], "--iterations"),
    "no methods": (["compare", TINY, "--methods", ","], "method"),
    "unknown way to select without a pool": (
        ["generate", "medical", "--seed", 1, "--by", "covrage", "-o", "m.rue"],
        "covrage",
    ),
    "two seeds": (["generate", "medical", "--seed", 1, "--set", "seed=2", "-o", "m.rue"], "seed"),
    "a setting twice": (["info", "disaster:seed=1,seed=2"], "seed"),
}


@pytest.mark.parametrize(("arguments", "fragment"), PARSED.values(), ids=PARSED)
def test_what_cannot_be_parsed_is_one_line(arguments, fragment, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_says(complaint(*arguments), fragment)
    assert list(tmp_path.iterdir()) == []


def test_no_way_to_write_is_one_line(sound, tmp_path, complaint):
    folder = tmp_path / "missing" / "s.rue"
    for arguments in (
        ["solve", sound["model"], "-o", folder],
        ["generate", "medical", "--seed", 1, "-o", folder],
        ["convert", sound["model"], folder],
    ):
        assert_says(complaint(*arguments), str(folder), "cannot be written", f"there is no folder {folder.parent}")
    model = rue.load(sound["model"])
    message = refusal(lambda: rue.save(tmp_path / "m.json", model))
    assert_says(message, "a model cannot be written as .json", "expected a name ending in .rue")
    assert_says(complaint("convert", sound["model"], tmp_path / "m.json"), "the model ends in '.json'; expected .rue")


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["info", DATA / "broken" / "rows_do_not_sum.rue"], EXPECTED["rows_do_not_sum"]),
        (["solve", DATA / "broken" / "byte_flipped_in_array.rue", "--json"], EXPECTED["byte_flipped_in_array"]),
        (["solve", TINY, "--method", "averge"], ["unknown method 'averge'", "did you mean 'average'?"]),
        (["simulate", TINY, "--sample", "1"], ["POLICY"]),
    ],
    ids=["rows do not sum", "flipped byte", "unknown method", "missing argument"],
)
def test_in_a_process_of_its_own(arguments, fragments):
    done = subprocess.run(
        [sys.executable, "-m", "rue.cli", *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "COLUMNS": "40"},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("rue: ")
    assert len(done.stderr.splitlines()) == 1
    assert_says(done.stderr, *fragments)
