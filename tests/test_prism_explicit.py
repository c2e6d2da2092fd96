"""PRISM's explicit files: what rue writes comes back, what others write is read, what is wrong is told in one line."""

import numpy as np
import pytest
from hypothesis import given

import rue
from rue.formats import text_table
from tests.foreign import assert_same, named_models, refusal, values, written

TRA = "3 4 5\n0 0 1 0.5 go\n0 0 2 0.5 go\n0 1 2 1 wait\n1 0 0 1 go\n2 0 2 1\n"
LAB = '0="init" 1="deadlock" 2="goal"\n0: 0\n2: 1 2\n'
STA = "(x,y)\n0:(0,false)\n1:(0,true)\n2:(1,false)\n"
SREW = "3 1\n1 1\n"
TREW = "3 4 4\n0 0 1 1\n0 0 2 1\n0 1 2 3\n"
FILES = {"m.tra": TRA, "m.lab": LAB, "m.sta": STA, "m.srew": SREW, "m.trew": TREW}


@given(model=named_models())
def test_what_is_written_comes_back(model, tmp_path_factory):
    for name in ("m.tra", "n.storm.tra"):  # the other one is for Storm
        path = tmp_path_factory.mktemp("prism") / name
        rue.save(path, model)
        assert path.is_dir() == (model.samples > 1)
        assert_same(model, rue.load(path))


def test_what_is_written_for_storm_is_in_its_variant(tmp_path):
    model = rue.Builder().add("a", "go", {"b": 1.0}).add("a", "wait", {"a": 1.0}, cost=2.0).goal("b").build()
    rue.save(tmp_path / "m.storm.tra", model)
    found = {end: (tmp_path / f"m.storm.{end}").read_text() for end in ("tra", "trew", "lab")}
    assert found == {
        "tra": "mdp\n0 0 1 1.0 go\n0 1 0 1.0 wait\n1 0 1 1 go\n",
        "trew": "mdp\n0 0 1 0.0\n0 1 0 2.0\n1 0 1 0\n",
        "lab": "#DECLARATION\ninit goal\n#END\n0 init\n1 goal\n",
    }


def test_a_grid_comes_back_with_sorted_targets(tmp_path):
    model = rue.domains.Disaster(width=4, height=3, seed=3).sample(3, seed=2)
    rue.save(tmp_path / "m.tra", model)
    back = rue.load(tmp_path / "m.tra")
    assert values(back) == values(model)
    assert back.graph.state_label == model.graph.state_label


def test_a_set_by_prism(tmp_path):
    model = rue.load(written(tmp_path, FILES) / "m.tra")
    assert model.graph.state_label == ("(0,false)", "(0,true)", "(1,false)")
    assert model.graph.action_label is not None and model.graph.action_label[:2] == ("go", "wait")
    assert model.cost[:, 0].tolist() == [1, 3, 1]
    assert np.flatnonzero(model.graph.goal).tolist() == [2]
    assert values(model) == values(rue.load(tmp_path / "m")) == [3]  # also by the base name


def test_comments_a_mark_windows_lines_and_stray_bytes(tmp_path):
    files = {name: ("\ufeff" + text.replace("\n", "\r\n") + "\x00\x1a") for name, text in FILES.items()}
    files["m.trew"] = '# Reward structure: "move"\n# Transition rewards\n' + TREW
    files["m.srew"] = '# Reward structure: "move"\n# State rewards\n' + SREW
    assert values(rue.load(written(tmp_path, files) / "m.tra")) == [3]


def test_only_transitions_of_any_order_and_seven_digits(tmp_path):
    """Without labels the first state is initial, and states that loop are goals; without rewards nothing costs."""
    tra = "4 5 7\n2 0 2 1\n0 1 2 1\n0 0 2 0.3333333\n0 0 1 .3333333\n0 0 0 3.333333e-1\n1 0 0 1\n3 0 0 1\n"
    model = rue.load(written(tmp_path, {"m.tra": tra}) / "m.tra")
    assert model.graph.state_label is None and model.graph.action_label is None
    assert model.graph.states == 4  # one of them is never reached
    assert np.add.reduceat(model.prob[:, 0], model.graph.trans_ptr[:-1]) == pytest.approx(1, abs=1e-12)
    assert values(model) == [0]


def test_files_for_storm(tmp_path):
    files = {
        "m.tra": "mdp \n" + TRA.partition("\n")[2].replace(" go", "").replace(" wait", ""),
        "m.lab": "#DECLARATION\ninit goal other\n#END\n0 init\n1 other\n2 goal\n",
        "m.srew": SREW.partition("\n")[2],
        "m.trew": TREW.partition("\n")[2],
    }
    assert values(rue.load(written(tmp_path, files) / "m.tra")) == [3]


def test_a_markov_chain(tmp_path):
    files = {"m.tra": "3 3\n0 1 1\n1 2 1\n2 2 1\n", "m.trew": "3 1\n0 1 2\n", "m.srew": "3 1\n1 1\n"}
    assert values(rue.load(written(tmp_path, files) / "m.tra")) == [3]


def test_rewards_without_a_line_where_each_state_has_one_choice(tmp_path):
    """The sizes in the first line are no reward, whatever the numbers of choices."""
    files = {"m.tra": "3 3 3\n0 0 1 1 a\n1 0 2 1 a\n2 0 2 1 a\n", "m.trew": "3 3 0\n", "m.srew": "3 1\n1 1\n"}
    assert values(rue.load(written(tmp_path, files) / "m.tra")) == [1]
    files["m.trew"] = "3 3 1\n0 0 1 2 a\n"  # and actions may be named
    assert values(rue.load(written(tmp_path, files) / "m.tra")) == [3]
    files["m.trew"] = "0 0 1 2 a\n"
    assert values(rue.load(written(tmp_path, files) / "m.tra")) == [3]


def test_a_state_without_lines_is_no_goal_if_others_are(tmp_path, caplog):
    """PRISM calls it a deadlock: who goes there never arrives."""
    tra = "4 4 5\n0 0 1 0.5 go\n0 0 3 0.5 go\n0 1 2 1 wait\n1 0 2 1 go\n2 0 2 1\n"
    files = {"m.tra": tra, "m.lab": '0="init" 1="goal"\n0: 0\n2: 1\n', "m.trew": "4 4 1\n0 1 2 7\n"}
    model = rue.load(written(tmp_path, files) / "m.tra")
    assert np.flatnonzero(model.graph.goal).tolist() == [2]
    assert values(model) == [7]
    assert "m.tra: state 3 is no goal and leads nowhere: it is a dead end; 1 state is so in all" in caplog.text


def test_targets_that_are_named_twice_are_added_up(tmp_path):
    tra = TRA.replace("3 4 5", "3 4 6").replace("0 0 2 0.5 go\n", "0 0 2 0.25 go\n0 0 2 0.25 go\n")
    assert values(rue.load(written(tmp_path, {**FILES, "m.tra": tra}) / "m.tra")) == [3]


def test_the_structure_that_is_called_cost_is_taken(tmp_path):
    files = {"m.tra": TRA, "m.lab": LAB}
    files["m1.trew"] = '# Reward structure "time"\n' + TREW.replace("3\n", "9\n")
    files["m2.trew"] = '# Reward structure "cost"\n' + TREW
    files["m1.srew"] = SREW
    assert values(rue.load(written(tmp_path, files) / "m.tra")) == [3]
    other = written(tmp_path / "other", {**files, "m2.trew": TREW}) / "m.tra"
    assert "m.tra: there are the reward models 1, time, 2; expected one, one that is called cost" in refusal(other)
    assert values(rue.load(other, reward="2")) == [2]


def test_another_label_and_another_structure_are_asked_for(tmp_path):
    files = {
        "m.tra": TRA,
        "m.lab": LAB,
        "m1.trew": TREW,
        "m2.trew": '# Reward structure "time"\n' + TREW.replace("3\n", "9\n"),
    }
    path = written(tmp_path, {**files, "m1.srew": '# Reward structure "time"\n' + SREW}) / "m.tra"
    assert values(rue.load(path, reward="time", goal="deadlock")) == [3]
    assert "there is no reward 'fuel'; expected one of 1, time" in refusal(path, reward="fuel")
    assert "m.lab: no state has the label 'x'; expected one of goal" in refusal(path, reward="1", goal="x")


def test_a_folder_is_matched_by_valuation(tmp_path):
    other = {
        "b.tra": "3 4 5\n0 0 2 0.25 go\n0 0 1 0.75 go\n0 1 1 1 wait\n2 0 0 1 go\n1 0 1 1\n",
        "b.sta": "(x,y)\n0:(0,false)\n1:(1,false)\n2:(0,true)\n",
        "b.lab": '0="init" 1="goal"\n0: 0\n1: 1\n',
        "b.srew": "3 1\n2 1\n",
        "b.trew": "3 4 3\n0 0 1 1\n0 0 2 1\n0 1 1 3\n",
    }
    first = {name.replace("m.", "a."): text for name, text in FILES.items()}
    model = rue.load(written(tmp_path, {**first, **other}))
    assert model.sample_label == ("a", "b")
    assert values(model) == [3, pytest.approx(5 / 3)]


@pytest.mark.parametrize("size", [300, 700])
def test_small_chunks_give_the_same(size, tmp_path, monkeypatch):
    model = rue.domains.Disaster(width=4, height=3, seed=3).sample(1, seed=2)
    rue.save(tmp_path / "m.tra", model)
    whole = rue.load(tmp_path / "m.tra")
    monkeypatch.setattr(text_table, "CHUNK", size)
    assert_same(whole, rue.load(tmp_path / "m.tra"))


WRONG = {
    "no header": ({"m.tra": "x\n0 0 1 1\n"}, "m.tra, line 1: 'x' is no header"),
    "nothing": ({"m.tra": ""}, "m.tra: there are no transitions"),
    "a short line": ({"m.tra": TRA.replace("1 0 0 1 go", "1 0 0")}, "m.tra, line 5: '1 0 0' has 3 words"),
    "rows": ({"m.tra": TRA.replace("0 1 2 1 wait", "0 1 1:2 wait")}, "m.tra, line 4: the target is '1:2'"),
    "intervals": ({"m.tra": TRA.replace("0.5", "[0.4,0.6]", 1)}, "m.tra, line 2: the number is '[0.4,0.6]'"),
    "a state out of range": ({"m.tra": TRA.replace("1 0 0 1 go", "1 0 3 1 go")}, "m.tra, line 5: the target is '3'"),
    "half a state": ({"m.tra": TRA.replace("1 0 0 1 go", "1.5 0 0 1 go")}, "m.tra, line 5: the state is '1.5'"),
    "another number of lines": ({"m.tra": TRA.replace("3 4 5", "3 4 6")}, "there are 5 transitions; expected 6"),
    "a row that does not sum to one": ({"m.tra": TRA.replace("0.5", "0.4", 1)}, "m.tra, line 2: probabilities of"),
    "a negative probability": ({"m.tra": TRA.replace("0.5", "-0.5", 1)}, "line 2: a probability of state (0,false)"),
    "another action that is wrong": (
        {"m.tra": "# by hand\n" + TRA.replace("0 1 2 1 wait", "0 7 2 0.9 wait"), "m.trew": "3 4 0\n"},
        'm.tra, line 5: probabilities of state (0,false), action "wait" sum to 0.9; expected 1',
    ),
    "no labels": ({"m.lab": "0: 0\n"}, "m.lab, line 1: '0: 0' declares no labels"),
    "an unknown label": ({"m.lab": LAB + "1: 7\n"}, "m.lab, line 4: the label '7' is not declared"),
    "a label of no state": ({"m.lab": LAB + "8: 1\n"}, "m.lab, line 4: the state is '8'; expected 0 to 2"),
    "two initial states": ({"m.lab": LAB + "1: 0\n"}, "m.lab: 2 states have the label init"),
    "a state is left out": ({"m.sta": STA.replace("1:(0,true)\n", "")}, "m.sta, line 3: the state is '2'; expected 1"),
    "too few states": ({"m.sta": STA.replace("2:(1,false)\n", "")}, "m.sta: there are 2 states; expected 3"),
    "a reward of no transition": (
        {"m.trew": TREW + "1 0 2 4\n"},
        "m.trew, line 5: there is a reward for 1 0 2; expected",
    ),
    "a reward of no state": ({"m.srew": SREW + "7 1\n"}, "m.srew, line 3: the state is '7'"),
    "a word for a reward": ({"m.srew": "3 1\n1 much\n"}, "m.srew, line 2: the reward is 'much'"),
    "a negative reward": ({"m.srew": "3 1\n1 -1\n"}, "the cost in state (0,true) is -1"),
    "no goal but a label": (
        {"m.lab": LAB.replace("goal", "there"), "m.srew": "3 1\n2 1\n"},
        "m.tra: there is no goal: no state has the label goal, target, done, and none only loops at no cost; expected "
        "the name of a label (goal= or --goal), one of there",
    ),
    "damaged names": ({"m.names.json": "[]"}, "m.names.json: the names are damaged"),
}


@pytest.mark.parametrize(("files", "told"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_in_one_line(files, told, tmp_path):
    message = refusal(written(tmp_path, {**FILES, **files}) / "m.tra")
    assert message.startswith(str(tmp_path / "m"))
    assert told in message
