"""The probability of a goal before states to avoid, asked of files of model checkers, in the figures of people."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import rue
from rue.cli.app import app
from tests import test_umb
from tests.foreign import refusal, written

# Who walks may fall; who looks first gives up with some probability. State 3 is a pit, state 4 a dead end.
DRN = """@type: MDP
@parameters

@reward_models
time energy
@nr_states
5
@model
state 0 [1, 2] init
\taction walk
\t\t1 : {walk}
\t\t3 : {fall}
\taction look
\t\t2 : 0.7
\t\t4 : 0.3
state 1 [1, 2]
\taction walk
\t\t2 : 0.5
\t\t0 : 0.5
state 2 goal
\taction stay
\t\t2 : 1
state 3 [1, 2] pit wet
\taction swim
\t\t2 : 1
state 4
\taction stay
\t\t4 : 1
"""
TRA = """5 6 9
0 0 1 {walk} walk
0 0 3 {fall} walk
0 1 2 0.7 look
0 1 4 0.3 look
1 0 2 0.5 walk
1 0 0 0.5 walk
2 0 2 1 stay
3 0 2 1 swim
4 0 4 1 stay
"""
LAB = '0="init" 1="deadlock" 2="goal" 3="pit" 4="dry"\n0: 0\n2: 2\n3: 3\n'


def walked(walk: float, fall_counts: bool) -> float:
    """The probability of who walks at each step: x = walk (1 + x) / 2, and falling counts or not."""
    return (walk / 2 + (0.0 if fall_counts else 1 - walk)) / (1 - walk / 2)


def best(walk: float, avoid: bool) -> float:
    return max(0.7, walked(walk, avoid), walk * 0.5 + walk * 0.5 * 0.7 + (0 if avoid else 1 - walk))


def figures(model: rue.UMDP) -> list[float]:
    return model.units.figure(rue.optimal_values(model).value[model.graph.initial]).tolist()


@pytest.fixture
def folder(tmp_path):
    for place, walk in (("a", 0.95), ("b", 0.75)):
        given = {"walk": repr(walk), "fall": repr(1 - walk)}
        written(tmp_path, {f"drn/{place}.drn": DRN.format(**given), f"prism/{place}.tra": TRA.format(**given)})
        written(tmp_path, {f"prism/{place}.lab": LAB})
    return tmp_path


@pytest.mark.parametrize("kind", ["drn", "prism"])
def test_the_largest_probability_in_each_sample(kind, folder):
    model = rue.load(folder / kind, avoid="pit")
    assert figures(model) == pytest.approx([best(0.95, True), best(0.75, True)], abs=1e-9)
    assert model.units == rue.Units(reward=True, constant=1.0)
    assert figures(rue.load(folder / kind, avoid="")) == pytest.approx([1.0, 1.0], abs=1e-9)
    other = rue.load(folder / kind, goal="pit", avoid="goal")  # the other way round
    assert figures(other) == pytest.approx([0.05 / (1 - 0.475), 0.25 / (1 - 0.375)], abs=1e-9)
    rue.save(folder / "m.umb", model)
    assert figures(rue.load(folder / "m.umb")) == pytest.approx(figures(model))


@pytest.mark.parametrize("seed", range(30))
def test_random_files_against_plain_value_iteration(seed, tmp_path):
    """Six states, some of them without a way to the goal; both samples have the same states to avoid."""
    random = np.random.default_rng(seed)
    bad = int(random.integers(1, 5))
    expected = []
    for name in "ab":
        table = random.dirichlet(np.full(6, 0.2), (6, 2))
        table = np.where(table > 0.001, table, 0) / np.where(table > 0.001, table, 0).sum(axis=2, keepdims=True)
        lines = ["@type: MDP", "@parameters", "", "@reward_models", "", "@nr_states", "6", "@model"]
        for s in range(6):
            lines.append(f"state {s}" + " init" * (s == 0) + " bad" * (s == bad) + " goal" * (s == 5))
            for a in range(2):
                lines += [f"\taction {a}", *(f"\t\t{t} : {p!r}" for t, p in enumerate(table[s, a].tolist()) if p)]
        written(tmp_path, {f"m/{name}.drn": "\n".join(lines)})
        value = np.zeros(6)
        for _ in range(20_000):
            value = (table @ value).max(axis=1)
            value[bad], value[5] = 0, 1
        expected.append(value[0])
    assert figures(rue.load(tmp_path / "m", avoid="bad")) == pytest.approx(expected, abs=1e-6)


def test_labels_of_umb(tmp_path):
    """State 1 is to be avoided: who goes may come there, who waits does not."""
    labels = {**test_umb.INDEX["annotations"]["aps"], "a1": {"alias": "ice"}}
    index = {**test_umb.INDEX, "annotations": {**test_umb.INDEX["annotations"], "aps": labels}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(test_umb.FILES, "annotations/aps/a1/states/values.bin", b"\x02" + bytes(7))
        path = written(tmp_path, {"m.umb": test_umb.archive(index)}) / "m.umb"
    model = rue.load(path, avoid="ice")
    assert figures(model) == [1.0]
    first = np.where(model.graph.choice_state == 0, model.graph.action, -1)
    go = rue.Policy.stationary(model, [int(first.max(initial=0, where=first == 0)), 2, -1])
    assert rue.evaluate(model, go).value.tolist() == [0.5]


def test_the_command_line_says_probabilities(folder):
    run = CliRunner().invoke(app, ["solve", str(folder / "drn"), "--avoid", "pit", "--method", "robust", "--json"])
    assert json.loads(run.stdout)["objective"]["lower"] == pytest.approx(0.7)
    run = CliRunner().invoke(app, ["info", str(folder / "drn"), "--avoid", "", "--json"])
    assert json.loads(run.stdout)["reward_range"] == [-1, 0]


def test_odd_questions_are_refused_in_one_line(folder):
    assert "no state has the label 'pits'; expected one of goal, pit, wet" in refusal(folder / "drn", avoid="pits")
    assert "no state has the label 'dry'; expected one of goal, pit" in refusal(folder / "prism", avoid="dry")
    assert "drn: every goal is to be avoided; expected a goal that has" in refusal(folder / "drn", avoid="goal")
    assert "avoid and the reward 'time' are given; expected one" in refusal(folder / "drn", avoid="pit", reward="time")
    assert "there are the reward models time, energy" in refusal(folder / "drn")
    plain = written(folder, {"m.drn": DRN.replace(" goal", "").format(walk=1, fall=0)}) / "m.drn"
    assert "there is no goal: no state has the label goal, target, done" in refusal(plain, avoid="pit")
    assert "the name of a label (goal= or --goal), one of pit, wet" in refusal(plain, avoid="pit")
    one = written(folder / "odd", {"a.drn": DRN.format(walk=1, fall=0), "b.drn": DRN.format(walk=1, fall=0)})
    (one / "b.drn").write_text((one / "b.drn").read_text().replace(" pit", ""))
    assert "b.drn: state 3 is to be avoided in some files and not in others" in refusal(one, avoid="pit")
    rue.save(folder / "m.csv", rue.Builder().add("a", "go", {"b": 1.0}, cost=1).goal("b").build())
    assert "avoid is 'pit' for a file in the format CSV" in refusal(folder / "m.csv", avoid="pit")
    with pytest.raises(rue.BadInput, match="a label, a reward or constants are given for disaster:samples=20000"):
        rue.parsing.read_model_or_source("disaster:samples=20000,seed=1", options=rue.parsing.FileOptions(avoid=""))
