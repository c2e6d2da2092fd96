"""Models in PRISM's language and JANI, built by Storm: a sample for each set of constants; errors in one line."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import rue
from rue.cli.app import app
from rue.formats.symbolic import parse_constants
from tests.foreign import assert_same, refusal, values, written

WALK = """// a walk to a place that is N steps away
mdp
const double p;
const int N = 3;
module walk
  x : [0..N] init 0;
  [go] x<N -> p : (x'=x+1) + 1-p : true;
  [jump] x=0 -> (x'=N);
  [] x=N -> true;
endmodule
label "there" = x=N;
label "middle" = x=1;
rewards "time"
  [go] true : 1;
  [jump] true : 8;
endrewards
rewards "fuel"
  x<N : 2;
endrewards
"""
CHAIN = """dtmc
const double p = 0.25;
module m
  s : [-1..2] init -1;
  b : bool init false;
  [] s<2 & !b -> p : (s'=s+1)&(b'=true) + 1-p : (s'=s);
  [] s<2 & b -> (s'=min(2,s+1));
  [] s=2 -> (s'=2);
endmodule
label "done" = s=2;
rewards s<2 : 1; endrewards
"""
# The reachable states depend on N: there is one trap more for each.
TRAPS = """mdp
const int N;
const bool open;
module m
  s : [0..9] init 0;
  [try] s=0 -> 1/2 : (s'=9) + 1/2 : (s'=N);
  [walk] s=0 & open -> (s'=9);
  [walk] s=0 & !open -> (s'=N);
  [back] s>0 & s<9 -> (s'=0);
  [back] s=9 -> true;
endmodule
label "goal" = s=9;
rewards "cost"
  [try] true : 1;
  [walk] true : 2;
  [back] s<9 : N;
endrewards
"""

# Thirds of seven digits, of which one row lacks 1e-7; a target that is named twice; a state that is never reached.
THIRDS = """mdp
formula next = min(s + 1, 3); // the last one stays
module m
  s : [0..4] init 0;
  [go] s<3 -> 0.3333333 : (s'=next) + 0.3333333 : (s'=3) + 0.3333334 : (s'=3);
  [slow] s<3 -> 0.3333333 : (s'=next) + 0.6666666 : (s'=3);
  [stay] s=3 -> 1 : (s'=3);
  [out] s=4 -> 1 : (s'=0);
endmodule
label "goal" = s=3;
rewards "cost"
  [go] true : 2;
  [slow] true : 3;
endrewards
"""
# Two modules that take a step together, names with primes of their own, and a state without any command.
PAIR = """mdp
global lost : bool init false;
const int START = 2; const double leak = 1/8;
module left
  l : [0..2] init START;
  [both] l>0 & !lost -> 1-leak : (l'=l-1) + leak : (l'=0);
  [alone] l>0 & !lost -> (l'=0) & (lost'=true);
endmodule
module right = left [l=r, alone=sole] endmodule
label "target" = l=0 & r=0;
rewards true : l + r; [both] true : 1; endrewards
"""


def jani() -> dict:
    step = {"op": "+", "left": "x", "right": 1}
    paid = {"ref": "cost", "value": 1}
    return {
        "jani-version": 1, "name": "walk", "type": "mdp", "features": ["derived-operators"],
        "actions": [{"name": "go"}, {"name": "jump"}],
        "constants": [{"name": "p", "type": "real"}],
        "variables": [
            {"name": "x", "type": {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 3},
             "initial-value": 0},
            {"name": "there", "type": "bool", "transient": True, "initial-value": False},
            {"name": "cost", "type": "real", "transient": True, "initial-value": 0},
        ],
        "automata": [{
            "name": "walk",
            "locations": [{"name": "l", "transient-values": [
                {"ref": "there", "value": {"op": "=", "left": "x", "right": 3}}]}],
            "initial-locations": ["l"],
            "edges": [
                {"location": "l", "action": "go", "guard": {"exp": {"op": "<", "left": "x", "right": 3}},
                 "destinations": [
                    {"location": "l", "probability": {"exp": "p"}, "assignments": [{"ref": "x", "value": step}, paid]},
                    {"location": "l", "probability": {"exp": {"op": "-", "left": 1, "right": "p"}},
                     "assignments": [paid]}]},
                {"location": "l", "action": "jump", "guard": {"exp": {"op": "=", "left": "x", "right": 0}},
                 "destinations": [{"location": "l", "assignments": [
                    {"ref": "x", "value": 3}, {"ref": "cost", "value": 8}]}]},
            ],
        }],
        "system": {"elements": [{"automaton": "walk"}], "syncs": [
            {"synchronise": ["go"], "result": "go"}, {"synchronise": ["jump"], "result": "jump"}]},
        "properties": [],
    }  # fmt: skip


def test_constants_as_prism_writes_them():
    assert parse_constants("p=0.1:0.1:0.5, N=3") == {"p": ["0.1", "0.2", "0.3", "0.4", "0.5"], "N": ["3"]}
    assert parse_constants(["a=1:3", "b=true", "c=10:-5:0"]) == {
        "a": ["1", "2", "3"], "b": ["true"], "c": ["10", "5", "0"],
    }  # fmt: skip
    assert parse_constants({"p": [0.1, 1e-7], "q": 2, "r": np.array([0.5]), "s": False, "t": "0:0.5:1"}) == {
        "p": ["0.1", "0.0000001"], "q": ["2"], "r": ["0.5"], "s": ["false"], "t": ["0", "0.5", "1"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("p", "the constant is 'p'; expected one such as p=0.3"),
        ("=1", "the constant is '=1'"),
        ("p=", "the constant is 'p='"),
        ("p=1,p=2", "the constant p is given twice"),
        ("p=0:0:1", "the constant p is '0:0:1'; expected start:step:end"),
        ("p=1:0.1:0", "the constant p is '1:0.1:0'"),
        ("p=a:b", "the constant p is 'a:b'"),
        ("p=1:2:3:4", "the constant p is '1:2:3:4'"),
        ("p=0:1e-9:1", "the constant p is '0:1e-9:1'"),
        ("p=1:1000,q=1:1000", "the constants have 1000000 combinations"),
        ({"p": []}, "the constant p is ''; expected a number"),
        ({"p q": 1}, "the constant is 'p q'; expected the name of one"),
        ({"p": ["x;y"]}, "the constant p is 'x;y'"),
        (7, "expected"),
    ],
)
def test_odd_constants_are_refused_in_one_line(given, told, tmp_path):
    assert told in refusal(written(tmp_path, {"m.prism": WALK}) / "m.prism", const=given)


def test_without_storm_it_is_told_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "stormpy", None)
    path = written(tmp_path, {"m.prism": WALK}) / "m.prism"
    assert "expected `pip install 'rue[interop]'`" in refusal(path, const="p=0.5")
    run = CliRunner().invoke(app, ["info", str(path), "--const", "p=0.1:0.1:0.5"])
    assert "need Storm, which is not installed" in str(run.exception)


def test_options_are_refused_where_a_format_does_not_have_them(tmp_path):
    path = tmp_path / "m.rue"
    rue.save(path, rue.domains.Medical(seed=1).sample(1, seed=1))
    assert "goal is 'x' for a file in the format rue; expected it for DRN, PRISM explicit" in refusal(path, goal="x")
    assert "const is 'p=1' for a file in the format rue" in refusal(path, const="p=1")
    assert "reward is '' ; expected".replace(" ;", ";") in refusal(
        written(tmp_path, {"m.drn": ""}) / "m.drn", reward=""
    )
    run = CliRunner().invoke(app, ["info", "medical:seed=1", "--goal", "x"])
    assert "are given for the domain medical:seed=1; expected them for a file" in str(run.exception)


def storm() -> None:
    pytest.importorskip("stormpy", reason="stormpy is not installed (the extra interop)")


@pytest.mark.slow
def test_a_grid_of_constants_is_a_set_of_samples(tmp_path):
    storm()
    path = written(tmp_path, {"m.prism": WALK}) / "m.prism"
    model = rue.load(path, const="p=0.25:0.25:0.75", goal="there", reward="time")
    assert model.sample_label == ("p=0.25", "p=0.5", "p=0.75")
    assert model.graph.state_label == ("x=0", "x=1", "x=3", "x=2")
    assert model.graph.action_label[:2] == ("go", "jump")
    assert values(model) == [8, 6, 4]
    assert values(rue.load(path, const={"p": [0.5]}, goal="there", reward="fuel")) == [2]
    both = rue.load(path, const={"p": [0.25, 0.5]}, goal="middle", reward="time")
    assert values(both) == [4, 2]


@pytest.mark.slow
def test_a_chain_with_a_mark_windows_lines_stray_bytes_and_negative_numbers(tmp_path):
    storm()
    text = "\ufeff" + CHAIN.replace("\n", "\r\n") + "\x1a"
    model = rue.load(written(tmp_path, {"m.pm": text}) / "m.pm")
    assert values(model) == [6]
    assert "s=-1, b=false" in {", ".join(sorted(name.split(", "), reverse=True)) for name in model.graph.state_label}


@pytest.mark.slow
def test_rows_of_seven_digits_repeated_targets_and_a_state_that_is_never_reached(tmp_path):
    storm()
    model = rue.load(written(tmp_path, {"m.nm": THIRDS}) / "m.nm")
    assert set(model.graph.state_label) == {"s=0", "s=1", "s=2", "s=3"}
    assert np.diff(model.graph.trans_ptr).max() == 2
    assert np.add.reduceat(model.prob[:, 0], model.graph.trans_ptr[:-1]) == pytest.approx(1, abs=1e-12)
    assert values(model) == [pytest.approx(2 + 2 / 3 + 2 / 9, abs=1e-6)]


@pytest.mark.slow
def test_modules_that_step_together_and_a_state_without_commands(tmp_path):
    """Each of two counters falls by one, or to zero: from (2, 2) to (1, 1), (0, 1), (1, 0) or (0, 0)."""
    storm()
    model = rue.load(written(tmp_path, {"m.prism": PAIR}) / "m.prism")
    assert values(model) == [5 + 49 / 64 * 3 + 14 / 64 * 1]
    assert any("lost=true" in name for name in model.graph.state_label)


@pytest.mark.slow
def test_sets_of_reachable_states_that_differ_are_matched(tmp_path, caplog):
    storm()
    path = written(tmp_path, {"m.nm": TRAPS}) / "m.nm"
    model = rue.load(path, const=["N=1:3", "open=true"])
    assert model.sample_label == ("N=1", "N=2", "N=3")
    assert values(model) == [2, 2, 2]
    assert "they are not reached there" in caplog.text
    both = rue.load(path, const={"N": 2, "open": ["true", "false"]})
    assert both.sample_label == ("open=true", "open=false")
    assert values(both) == [2, 4]


@pytest.mark.slow
def test_a_model_in_jani(tmp_path):
    storm()
    path = written(tmp_path, {"m.jani": json.dumps(jani())}) / "m.jani"
    model = rue.load(path, const="p=0.25:0.25:0.75", goal="there")
    assert values(model) == [8, 6, 4]
    assert len(model.graph.state_label) == 4


def changed_jani(automaton: dict, **more: object) -> dict:
    file = jani()
    return {**file, **more, "automata": [{**file["automata"][0], **automaton}]}


def edge(action: str | None, guard: object, *ends: tuple[object, int, int]) -> dict:
    """An edge to places with a probability and a cost each."""
    named = {} if action is None else {"action": action}
    assigned = [[{"ref": "x", "value": x}, {"ref": "cost", "value": cost}] for _, x, cost in ends]
    found = [
        {"location": "l", "probability": {"exp": prob}, "assignments": own}
        for (prob, _, _), own in zip(ends, assigned, strict=True)
    ]
    return {"location": "l", "guard": {"exp": guard}, "destinations": found, **named}


def at(number: int) -> dict:
    return {"op": "=", "left": "x", "right": number}


JANI = {
    "a mark, Windows lines, comments and stray bytes": (
        b"\xef\xbb\xbf" + json.dumps(
            {**jani(), "comment": "by hand", "metadata": {"author": "who"}}, indent=1
        ).replace("\n", "\r\n").encode() + b"\r\n\x00\x1a",
        [8, 6, 4],
    ),
    "rows of seven digits and repeated targets": (
        changed_jani({"edges": [
            edge("go", at(0), (0.3333333, 1, 3), (0.3333333, 3, 3), (0.3333333, 3, 3)), edge("go", at(1), (1, 3, 6)),
        ]}),
        [pytest.approx(5, abs=1e-6)] * 3,
    ),
    "a terminal state that loops, and one that is never reached": (
        changed_jani({"edges": [
            edge("go", at(0), ("p", 3, 2), ({"op": "-", "left": 1, "right": "p"}, 0, 2)),
            edge("jump", at(3), (1, 3, 0)), edge("jump", at(2), (1, 0, 7)),
        ]}),
        [8, 4, pytest.approx(8 / 3)],
    ),
    "a chain, with steps that have no name": (
        changed_jani({"edges": [
            edge(None, at(0), ("p", 3, 1), ({"op": "-", "left": 1, "right": "p"}, 1, 1)),
            edge(None, at(1), (1, 3, 4)),
        ]}, type="dtmc"),
        [4, 3, 2],
    ),
    "where it begins is told by an expression, and a function": (
        changed_jani(
            {"edges": [edge("go", {"op": "≤", "left": "x", "right": 2}, ("p", 3, 1), (
                {"op": "-", "left": 1, "right": "p"}, {"op": "max", "left": "x", "right": 1}, 1))]},
            **{"restrict-initial": {"exp": {"op": "=", "left": "x", "right": 0}}},
        ),
        [4, 2, pytest.approx(4 / 3)],
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("file", "found"), JANI.values(), ids=JANI)
def test_files_in_jani(file, found, tmp_path):
    storm()
    text = file if isinstance(file, bytes) else json.dumps(file)
    model = rue.load(written(tmp_path, {"m.jani": text}) / "m.jani", const="p=0.25:0.25:0.75", goal="there")
    assert values(model) == found
    assert "x=2" not in model.graph.state_label or isinstance(file, bytes)


@pytest.mark.slow
def test_the_command_line_takes_constants_labels_and_rewards(tmp_path):
    storm()
    path = str(written(tmp_path, {"m.prism": WALK}) / "m.prism")
    options = ["--const", "p=0.25:0.25:0.75", "--goal", "there", "--reward", "time"]
    run = CliRunner().invoke(app, ["info", path, *options, "--json"])
    assert json.loads(run.stdout)["samples"] == 3
    out, solution = str(tmp_path / "m.umb"), str(tmp_path / "s.rue")
    assert CliRunner().invoke(app, ["convert", path, out, *options]).exit_code == 0
    assert_same(rue.load(path, const="p=0.25:0.25:0.75", goal="there", reward="time"), rue.load(out))
    run = CliRunner().invoke(app, ["solve", path, *options, "--method", "adaptive", "-o", solution, "--json"])
    assert json.loads(run.stdout)["status"] == "solved"
    run = CliRunner().invoke(app, ["evaluate", path, solution, *options, "--json"])
    assert json.loads(run.stdout)["samples"] == ["p=0.25", "p=0.5", "p=0.75"]
    run = CliRunner().invoke(app, ["compare", path, *options, "--methods", "average,best", "--json"])
    assert len(json.loads(run.stdout)["methods"]) == 2


WRONG = {
    "a constant without a value": (WALK, {}, "the constant p has no value; expected const= or --const"),
    "an unknown constant": (WALK, {"const": "p=0.5,q=1"}, "q is no open constant; expected one of p"),
    "a constant that has a value": (CHAIN, {"const": "p=1"}, "p is no open constant; expected none, as all"),
    "several rewards": (WALK, {"const": "p=0.5"}, "there are the reward models fuel, time; expected one"),
    "an unknown reward": (WALK, {"const": "p=0.5", "reward": "x"}, "there is no reward 'x'; expected one of fuel"),
    "an unknown label": (
        WALK, {"const": "p=0.5", "reward": "time", "goal": "x"},
        "no state has the label 'x'; expected one of middle, there",
    ),
    "a word for a number": (WALK, {"const": "p=half"}, "Storm cannot build it"),
    "a probability above one": (WALK, {"const": "p=1.5"}, "Storm cannot build it (Substitution yielding negative"),
    "another kind": (CHAIN.replace("dtmc", "ctmc"), {}, "the model is a CTMC; expected an MDP or a DTMC"),
    "no end": (WALK.replace("endmodule", ""), {"const": "p=0.5"}, "line 11: Storm cannot build it (Parsing error"),
    "no text": (b"\x00\x01\x02", {}, "line 1: Storm cannot build it"),
    "empty": ("", {}, "Storm cannot build it"),
    "a negative reward": (
        WALK.replace("true : 8", "true : -8"), {"const": "p=0.5", "reward": "time", "goal": "there"},
        "the cost in state x=0 is -8",
    ),
    "two initial states": (
        CHAIN.replace("init -1", "").replace("init false", "").replace("label", "init s<0 endinit label"), {},
        "m.prism: 2 states are initial; expected one",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("text", "options", "told"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_in_one_line(text, options, told, tmp_path, capfd):
    storm()
    message = refusal(written(tmp_path, {"m.prism": text}) / "m.prism", **options)
    assert message.startswith(str(tmp_path / "m.prism"))
    assert told in message
    assert capfd.readouterr() == ("", "")


BROKEN = {
    "no JSON": (lambda file: "{\n\n]", "line 3: Storm cannot build it ([json.exception.parse_error"),
    "empty": (lambda file: "", "line 1: Storm cannot build it"),
    "no automata": (lambda file: {**file, "automata": []}, "(Unable to retrieve unknown automaton 'walk')"),
    "no variables": (lambda file: {**file, "variables": []}, "(Unknown identifier 'there' occurs in 'LHS of assign"),
    "another kind": (lambda file: {**file, "type": "ctmc"}, "the model is a CTMC"),
    "an unknown kind": (lambda file: {**file, "type": "game"}, "(Model type game not recognized)"),
    "no system": (
        lambda file: {k: v for k, v in file.items() if k != "system"},
        "(Exactly one system description must be given)",
    ),
    "an unknown feature": (lambda file: {**file, "features": ["magic"]}, "does not support the model feature magic"),
    "an unknown action": (lambda file: {**file, "actions": []}, "(Unable to retrieve index of unknown action 'go')"),
    "a list": (lambda file: [1, 2], "(Jani-version must be given exactly once)"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("change", "told"), BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_in_jani_is_told_in_one_line(change, told, tmp_path):
    storm()
    changed = change(jani())
    text = changed if isinstance(changed, str) else json.dumps(changed)
    message = refusal(written(tmp_path, {"m.jani": text}) / "m.jani", const="p=0.5", goal="there")
    assert message.startswith(str(tmp_path / "m.jani"))
    assert told in message
