"""Paths of `rue.simulate`: each row is what an agent sees that has the same draws."""

import csv
import math
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import Shape, models_with_controllers
from test_agent import HALL, WALK, take_a_step, twins
from test_cli import run  # noqa: F401

import rue


@given(models_with_controllers(Shape(dead_ends=False)), st.integers(0, 99))
@settings(max_examples=40)
def test_paths_are_those_of_an_agent(pair, seed):
    """Node by node: what an agent does, what it pays and what it believes, with the draws of the simulation."""
    model, policy = pair
    sample = seed % model.samples
    runs = rue.simulate(model, policy, sample=sample, episodes=10, seed=seed, max_steps=30, paths=True)
    plain = rue.simulate(model, policy, sample=sample, episodes=10, seed=seed, max_steps=30)
    for name in ("cost", "steps", "reached"):
        assert getattr(plain, name).tolist() == getattr(runs, name).tolist()
    random = np.random.default_rng(seed)
    agent = policy.agent(model, seed=random)
    paths, row = runs.paths, 0
    for episode in range(10):
        agent.reset()
        while True:
            assert (paths.episode[row], paths.step[row]) == (episode, agent.steps)
            assert (paths.node[row], paths.state[row]) == (agent.node, agent.state_number)
            assert paths.belief[row] == pytest.approx(agent.belief, abs=1e-12)
            if agent.done or agent.steps == 30:
                assert (paths.action[row], paths.choice[row], paths.transition[row], paths.cost[row]) == (-1, -1, -1, 0)
                row += 1
                break
            assert paths.action[row] == agent.act()
            assert paths.cost[row] == take_a_step(model, agent, random, sample)
            assert model.graph.successor[paths.transition[row]] == agent.state_number
            row += 1
    assert row == paths.node.size == paths.episode_ptr[-1]
    paid = np.add.reduceat(paths.cost, paths.episode_ptr[:-1])
    assert paid == pytest.approx(runs.cost)


def test_two_outcomes_in_one_state():
    """What both tell together is the belief, unless the policy tells them apart."""
    model, same, tells = twins()
    paths = rue.simulate(model, same, sample=0, episodes=50, seed=1, paths=True).paths
    assert paths.belief == pytest.approx(np.full((150, 2), 0.5))
    paths = rue.simulate(model, tells, sample=0, episodes=50, seed=1, paths=True).paths
    assert {tuple(belief.round(6)) for belief in paths.belief[paths.node == 2]} == {(0.6, 0.4)}
    assert {tuple(belief.round(6)) for belief in paths.belief[paths.node == 1]} == {(0.333333, 0.666667)}


def test_an_episode_that_begins_at_the_goal():
    graph = rue.Graph([0, 0], [], [0], [], 0)
    model = rue.UMDP(graph, np.empty((0, 2)), np.empty((0, 2)))
    policy = rue.Policy.from_choices(graph, [-1])
    paths = rue.simulate(model, policy, sample=0, episodes=2, seed=1, paths=True).paths
    assert (paths.node.tolist(), paths.action.tolist(), paths.cost.tolist()) == ([0, 0], [-1, -1], [0, 0])
    assert paths.belief.tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_beliefs_of_long_paths_do_not_underflow():
    builder = rue.Builder(2, weight=[1.0, 0.0])
    builder.add("a", "go", {"a": [0.999, 0.001], "b": [0.0, 0.998], "end": [0.001, 0.001]}, cost=1.0)
    builder.add("b", "go", {"end": 1.0}, cost=1.0)
    model = builder.goal("end").build()
    policy = rue.Policy.stationary(model, ["go", "go", "go"])
    paths = rue.simulate(model, policy, sample=0, episodes=5, seed=1, paths=True).paths
    assert np.isfinite(paths.belief).all() and paths.node.size > 1000
    assert (paths.belief[:, 0] == 1).all()
    other = rue.simulate(model, policy, sample=1, episodes=50, seed=1, paths=True).paths
    assert (other.belief[other.state == 1] == [0, 1]).all() and (other.state == 1).any()


def test_the_table():
    runs = rue.simulate(HALL, WALK, sample=1, episodes=3, seed=1, paths=True)
    rows = list(csv.DictReader(StringIO(runs.paths.to_csv())))
    assert list(rows[0]) == ["episode", "step", "node", "state", "action", "cost", "belief open", "belief locked"]
    assert rows[0] | {"belief open": ""} == {
        "episode": "0", "step": "0", "node": "0", "state": "hall", "action": "walk", "cost": "1.0",
        "belief open": "", "belief locked": "0.5",
    }  # fmt: skip
    last = [row for row in rows if row["state"] == "out"]
    assert len(last) == 3 and all((row["action"], row["cost"]) == ("", "0.0") for row in last)
    assert len(rows) == runs.steps.sum() + 3
    total = math.fsum(float(row["cost"]) for row in rows)
    assert total == pytest.approx(runs.cost.sum())


def test_on_the_command_line(run):  # noqa: F811
    rue.save("hall.rue", HALL)
    rue.save("walk.csv", WALK)
    arguments = ("simulate", "hall.rue", "walk.csv", "--sample", 1, "--seed", 1, "--episodes", 3)
    done = run(*arguments, "--paths", "paths.csv")
    expected = rue.simulate(HALL, WALK, sample=1, episodes=3, seed=1, paths=True)
    assert Path("paths.csv").read_text() == expected.paths.to_csv()
    assert done.out.splitlines()[-1] == f"paths.csv: {expected.steps.sum()} steps"
    assert run(*arguments, "--paths", "more.csv", "--json").json["paths"] == "more.csv"
    assert run(*arguments, "--json").json["paths"] is None
    for name in ("paths.txt", "walk.csv", "none/paths.csv"):
        refused = run(*arguments, "--paths", name, status=2)
        assert len(refused.err.splitlines()) == 1 and refused.out == ""
