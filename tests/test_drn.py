"""DRN files: what rue writes comes back, what others write is read, and what is wrong is told in one line."""

import logging

import numpy as np
import pytest
from hypothesis import given
from typer.testing import CliRunner

import rue
from rue.cli.app import app
from rue.formats import text_table
from tests.foreign import assert_same, named_models, refusal, values, written

HEAD = "@type: MDP\n@parameters\n\n@reward_models\ncost \n@nr_states\n3\n@nr_choices\n4\n@model\n"
BODY = """state 0 [0] init
\taction go [1]
\t\t1 : 0.5
\t\t2 : 0.5
\taction wait [3]
\t\t2 : 1
state 1 [1] other
\taction go [0]
\t\t0 : 1
state 2 [0] goal
\taction go [0]
\t\t2 : 1
"""


@given(model=named_models())
def test_what_is_written_comes_back(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("drn") / "m.drn"
    rue.save(path, model)
    assert path.is_dir() == (model.samples > 1)
    assert_same(model, rue.load(path))


def test_the_order_of_targets_and_repeated_ones_come_back(tmp_path):
    model = rue.domains.Disaster(width=4, height=3, seed=3).sample(3, seed=2)
    rue.save(tmp_path / "m.drn", model)
    back = rue.load(tmp_path / "m.drn")
    assert back.graph.fingerprint == model.graph.fingerprint
    assert back.prob.tobytes() == model.prob.tobytes()


def test_a_file_by_storm(tmp_path):
    """Six digits, labels with blanks, no names of choices, two rewards, a valuation with tabs behind each state."""
    text = """// Exported by storm
// Original model type: MDP
@type: MDP
@parameters

@reward_models
time cost 
@nr_states
3
@nr_choices
4
@model
state 0 [0, 1] init "my label"
//[s=0\t& d=0]
\taction 0 [9, 0]
\t\t1 : 0.333333
\t\t2 : 0.666666
\taction 1 [9, 2.5]
\t\t2 : 1
state 1 [0, 2] "a b" deadlock
//[s=1\t& d=0]
\taction 0 [9, 0]
\t\t0 : 1
state 2 [7, 0] goal
//[s=2\t& d=0]
\taction 0 [9, 0]
\t\t2 : 1
"""  # noqa: W291
    model = rue.load(written(tmp_path, {"a.drn": text}) / "a.drn")
    assert model.graph.state_label == ("[s=0\t& d=0]", "[s=1\t& d=0]", "[s=2\t& d=0]")
    assert model.graph.action_label is None
    assert model.cost[:, 0].tolist() == [1, 3.5, 2]
    assert model.prob[:2, 0] == pytest.approx([1 / 3, 2 / 3], abs=1e-6)
    assert np.add.reduceat(model.prob[:, 0], model.graph.trans_ptr[:-1]) == pytest.approx(1, abs=1e-12)


def test_a_byte_order_mark_stray_bytes_windows_lines_and_comments(tmp_path):
    text = "\ufeff// first\n" + HEAD.replace("@nr_states", "// why\n@nr_states") + BODY + "\x00\x1a"
    text = text.replace("\taction wait", "// between\n\n\taction wait").replace("\n", "\r\n")
    model = rue.load(written(tmp_path, {"a.drn": text}) / "a.drn")
    assert model.graph.action_label == ("go", "wait")
    assert model.graph.state_label is None
    assert values(model) == [3]


def test_rational_numbers_placeholders_and_colons_without_blanks(tmp_path):
    head = HEAD.replace("@parameters", "@value_type: rational\n@placeholders\n$half : 1/2\n$1 : 3\n@parameters")
    body = BODY.replace("1 : 0.5", "1 : $half").replace("2 : 0.5", "2:1/2").replace("[3]", "[$1]")
    assert values(rue.load(written(tmp_path, {"a.drn": head + body}) / "a.drn")) == [3]


def test_rows_of_seven_digits_are_divided_by_their_sums(tmp_path):
    body = BODY.replace("1 : 0.5", "1 : 0.5000001").replace("\t\t2 : 1\nstate 1", "\t\t2 : 0.9999999\nstate 1")
    model = rue.load(written(tmp_path, {"a.drn": HEAD + body}) / "a.drn")
    assert np.add.reduceat(model.prob[:, 0], model.graph.trans_ptr[:-1]) == pytest.approx(1, abs=1e-12)
    assert values(model) == [3]


def test_a_target_that_is_named_twice_is_added_up(tmp_path):
    body = BODY.replace("\t\t2 : 0.5\n", "\t\t2 : 0.25\n\t\t2 : 0.25\n")
    model = rue.load(written(tmp_path, {"a.drn": HEAD + body}) / "a.drn")
    assert model.graph.transitions == 4
    assert values(model) == [3]


def test_without_labels_of_goals_states_that_loop_at_no_cost_are_goals(tmp_path):
    model = rue.load(written(tmp_path, {"a.drn": HEAD + BODY.replace(" goal", "")}) / "a.drn")
    assert np.flatnonzero(model.graph.goal).tolist() == [2]


def test_a_labelled_goal_leaves_other_loops_as_dead_ends(tmp_path):
    body = BODY.replace("\t\t0 : 1\n", "\t\t1 : 1\n").replace("[1] other", "[0]")
    model = rue.load(written(tmp_path, {"a.drn": HEAD + body}) / "a.drn")
    assert np.flatnonzero(model.graph.goal).tolist() == [2]
    assert values(model) == [3]


def test_choices_without_a_label_are_told_apart(tmp_path):
    body = BODY.replace("action go", "action __NOLABEL__").replace("action wait", "action __NOLABEL__")
    model = rue.load(written(tmp_path, {"a.drn": HEAD + body}) / "a.drn")
    assert model.graph.action_label == ("__NOLABEL__", "__NOLABEL__ 2")
    assert values(model) == [3]


def test_a_markov_chain_is_read_with_and_without_its_actions(tmp_path):
    chain = HEAD.replace("MDP", "DTMC").replace("@nr_choices\n4", "@nr_choices\n3")
    body = "state 0 [2] init\n\t\t1 : 1\nstate 1 [1]\n\t\t2 : 1\nstate 2 [0] goal\n\t\t2 : 1\n"
    files = {"a.drn": chain + body, "b.drn": chain + body.replace("\t\t", "\taction 0\n\t\t")}
    written(tmp_path, files)
    assert values(rue.load(tmp_path / "a.drn")) == values(rue.load(tmp_path / "b.drn")) == [3]


def with_names(body: str, names: str) -> str:
    for number, name in enumerate(names):
        body = body.replace(f"state {number} ", f"state {number}#{name} ")
    lines = [line.split("#") for line in body.splitlines()]
    return "".join(
        f"{line[0]}\n" if len(line) == 1 else f"{line[0]}{line[1][1:]}\n//[x={line[1][0]}]\n" for line in lines
    )


def test_samples_in_a_folder_are_matched_by_valuation_whatever_their_numbers(tmp_path, caplog):
    other = BODY.replace("0.5", "0.25", 1).replace("2 : 0.5", "2 : 0.75")
    swapped = """state 0 [0] init
\taction wait [3]
\t\t1 : 1
\taction go [1]
\t\t2 : 0.25
\t\t1 : 0.75
state 1 [0] goal
\taction wait [0]
\t\t1 : 1
state 2 [1]
\taction go [0]
\t\t0 : 1
"""
    files = {"2.drn": HEAD + with_names(BODY, "abc"), "10.drn": HEAD + with_names(swapped, "acb")}
    model = rue.load(written(tmp_path / "set", files))
    assert model.sample_label == ("2", "10")
    assert model.graph.state_label == ("[x=a]", "[x=b]", "[x=c]")
    one, two = (
        rue.load(written(tmp_path / str(i), {"m.drn": HEAD + body}) / "m.drn") for i, body in enumerate((BODY, other))
    )
    assert np.array_equal(model.prob, np.hstack([one.prob, two.prob]))
    assert values(model) == values(one) + values(two)
    listed = rue.load([tmp_path / "set" / "10.drn", str(tmp_path / "set" / "2.drn")])
    assert listed.sample_label == ("10", "2")
    assert not caplog.records


def test_states_that_a_sample_never_reaches_are_filled_in_and_told(tmp_path, caplog):
    short = HEAD.replace("_states\n3", "_states\n2").replace("_choices\n4", "_choices\n3") + with_names(
        "state 0 [0] init\n\taction go [1]\n\t\t1 : 1\n\taction wait [3]\n\t\t1 : 1\n"
        "state 1 [0] goal\n\taction go\n\t\t1 : 1\n",
        "ac",
    )
    files = {"a.drn": HEAD + with_names(BODY, "abc"), "b.drn": short}
    with caplog.at_level(logging.WARNING, "rue"):
        model = rue.load(written(tmp_path, files))
    assert values(model) == [3, 1]
    assert model.prob[:, 1].tolist() == [0, 1, 1, 1]
    (told,) = caplog.records
    assert "b.drn" in told.getMessage() and "1 of 3" in told.getMessage()


def test_an_unknown_ending_is_told_by_content(tmp_path):
    assert values(rue.load(written(tmp_path, {"a.txt": HEAD + BODY}) / "a.txt")) == [3]


def test_small_chunks_give_the_same(tmp_path, monkeypatch):
    model = rue.domains.Disaster(width=4, height=3, seed=3).sample(2, seed=2)
    rue.save(tmp_path / "m.drn", model)
    monkeypatch.setattr(text_table, "CHUNK", 700)
    assert_same(model, rue.load(tmp_path / "m.drn"))


def test_another_label_and_another_reward_are_asked_for(tmp_path):
    head, body = HEAD.replace("cost ", "time fuel"), BODY.replace("[", "[9, ").replace("[9, 0] goal", "[0, 0] goal")
    body = body.replace(" goal", " stop").replace(" other", " goal stop")
    path = written(tmp_path, {"a.drn": head + body}) / "a.drn"
    assert np.flatnonzero(rue.load(path, reward="fuel", goal="stop").graph.goal).tolist() == [1, 2]
    assert rue.load([path, path], reward="time", goal="stop").cost.max() == 18
    assert "there is no reward 'x'; expected one of fuel, time" in refusal(path, reward="x")
    assert "no state has the label 'x'; expected one of goal, stop" in refusal(path, reward="time", goal="x")
    plain = written(tmp_path, {"b.drn": HEAD.replace("cost ", "") + BODY.replace(" [", "//[")}) / "b.drn"
    assert "there is no reward 'x'; expected none, as there are no rewards" in refusal(plain, reward="x")


def test_all_commands_that_read_a_model_take_a_label_and_a_reward(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    head = HEAD.replace("cost ", "time fuel")
    written(tmp_path, {"a.drn": head + BODY.replace("[", "[9, ").replace("[9, 0] goal", "[0, 0] stop")})
    runner, taken = CliRunner(), ["--reward", "fuel", "--goal", "stop"]
    for words in (
        "info a.drn", "solve a.drn -o s.rue", "evaluate a.drn s.rue", "verify a.drn s.rue", "explain a.drn s.rue",
        "simplify a.drn s.rue --nodes 3", "simulate a.drn s.rue --sample 0 --seed 1", "plot a.drn s.rue -o x.png",
        "explore a.drn s.rue -o x.html", "compare a.drn --methods average", "convert a.drn a.rue",
    ):  # fmt: skip
        done = runner.invoke(app, [*words.split(), *taken])
        assert done.exit_code == 0, (words, done.output, done.exception)
    assert runner.invoke(app, ["verify", "a.rue", "s.rue"]).exit_code == 0
    other = runner.invoke(app, ["verify", "a.drn", "s.rue", "--reward", "time", "--goal", "stop"])
    assert "is for another model" in str(other.exception)


WRONG = {
    "no model": ("@type: MDP\n@nr_states\n2\n", "a.drn: there is no @model"),
    "another type": (HEAD.replace("MDP", "POMDP") + BODY, "line 1: the model is of type 'POMDP'; expected MDP or DTMC"),
    "intervals": ("@value_type: double-interval\n" + HEAD + BODY, "line 1: values of type 'double-interval'"),
    "parameters": (
        HEAD.replace("@parameters\n", "@parameters\np q") + BODY,
        "line 3: the model has the parameters p q",
    ),
    "a section twice": ("@type: MDP\n" + HEAD + BODY, "line 2: @type is there twice"),
    "an unknown section": ("@colour\n" + HEAD + BODY, "line 1: '@colour' is no section"),
    "no number of states": (HEAD.replace("_states\n3", "_states\nmany") + BODY, "line 7: @nr_states is 'many'"),
    "a word for a probability": (HEAD + BODY.replace("0.5", "half", 1), "line 13: the probability is 'half'"),
    "an infinite probability": (HEAD + BODY.replace("0.5", "inf", 1), "line 13: the probability is 'inf'"),
    "a negative probability": (
        HEAD + BODY.replace("0.5", "-0.5", 1),
        'line 12: a probability of state 0, action "go" is -0.5',
    ),
    "a row that does not sum to one": (
        HEAD + BODY.replace("0.5", "0.4", 1),
        'state 0, action "go" sum to 0.9; expected 1',
    ),
    "a target out of range": (
        HEAD + BODY.replace("1 : 0.5", "7 : 0.5"),
        "line 13: the target is '7'; expected a whole number, 0 to 2",
    ),
    "states out of order": (
        HEAD + BODY.replace("state 1", "state 2"),
        "line 17: state 2 is out of order; expected state 1",
    ),
    "too many states": (
        HEAD.replace("_states\n3", "_states\n2") + BODY,
        "a.drn, line 20: there are more states than @nr_states",
    ),
    "too few states": (HEAD.replace("_states\n3", "_states\n4") + BODY, "there are 3 states; expected 4"),
    "too few choices": (HEAD.replace("_choices\n4", "_choices\n5") + BODY, "there are 4 choices; expected 5"),
    "an open bracket": (HEAD + BODY.replace("[3]", "[3"), "line 15: a bracket of rewards is not closed"),
    "too many rewards": (HEAD + BODY.replace("[3]", "[3, 4]"), "line 15: there are 2 rewards; expected 1"),
    "a target before any action": (
        HEAD + BODY.replace("\taction go [1]\n", "", 1),
        "line 12: a target without an action",
    ),
    "an action without targets": (
        HEAD + BODY.replace("\t\t2 : 1\nstate 1", "state 1"),
        'line 15: state 0, action "wait" leads nowhere',
    ),
    "a line of another kind": (HEAD + BODY + "what\n", "line 23: 'what' is no line of a model"),
    "no initial state": (HEAD + BODY.replace(" init", ""), "0 states have the label init; expected one"),
    "two initial states": (HEAD + BODY.replace(" other", " init"), "2 states have the label init; expected one"),
    "a negative cost": (HEAD + BODY.replace("[3]", "[-3]"), "the cost in state 0 is -3"),
    "several rewards": (HEAD.replace("cost ", "time fuel") + BODY, "the reward models time, fuel; expected one"),
    "UTF-16": ((HEAD + BODY).encode("utf-16"), "line 1: text in UTF-16; expected UTF-8"),
    "empty": ("", "there is no @model"),
}


@pytest.mark.parametrize(("text", "told"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_in_one_line(text, told, tmp_path):
    message = refusal(written(tmp_path, {"a.drn": text}) / "a.drn")
    assert message.startswith(str(tmp_path / "a.drn"))
    assert told in message


def test_files_that_do_not_fit_together_are_told(tmp_path):
    fewer = HEAD.replace("_states\n3", "_states\n2").replace("_choices\n4", "_choices\n2")
    fewer += "state 0 init\n\taction go [1]\n\t\t1 : 1\nstate 1 goal\n\taction go\n\t\t1 : 1\n"
    other_action = BODY.replace("action wait", "action rest")
    pairs = {
        "by number": ({"a.drn": HEAD + BODY, "b.drn": fewer}, "b.drn: it has 2 states"),
        "names": ({"a.drn": HEAD + BODY, "b.drn": HEAD + with_names(BODY, "abc")}, "a.drn: its states have no names"),
        "actions": ({"a.drn": HEAD + BODY, "b.drn": HEAD + other_action}, 'it lacks state 0, action "rest", which'),
        "goals": (
            {"a.drn": HEAD + BODY, "b.drn": HEAD + BODY.replace("[1] other", "[1] goal")},
            "state 1 is a goal in some files",
        ),
        "initial": (
            {"a.drn": HEAD + BODY, "b.drn": HEAD + BODY.replace(" init", "").replace("other", "init")},
            "b.drn: the initial state is 1",
        ),
    }
    for name, (files, told) in pairs.items():
        assert told in refusal(written(tmp_path / name, files)), name
    assert "expected one at least" in refusal([])
    assert "expected files of one format" in refusal(
        [tmp_path / "names" / "a.drn", written(tmp_path, {"p.json": "{}"}) / "p.json"]
    )


def test_a_folder_that_is_there_is_not_replaced(tmp_path):
    (tmp_path / "m.drn").mkdir()
    with pytest.raises(rue.BadInput, match="it is there already"):
        rue.save(tmp_path / "m.drn", rue.domains.Medical(seed=1).sample(2, seed=1))
    assert list(tmp_path.iterdir()) == [tmp_path / "m.drn"]
