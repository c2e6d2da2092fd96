"""Petrik's CSV: what rue writes comes back, what others write is read, what is wrong is told in one line."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given

import rue
from rue.flat import Flat
from rue.formats import text_table
from rue.formats.rewards import model_from_rewards
from tests.foreign import assert_same, named_models, refusal, values, written

HEAD = "idstatefrom,idaction,idstateto,idoutcome,probability,reward\n"
BODY = """0,0,1,0,0.5,-1
0,0,2,0,0.5,-1
0,1,2,0,1,-3
1,0,0,0,1,-1
2,0,2,0,1,0
"""
OTHER = "0,0,1,1,0.25,-1\n0,0,2,1,0.75,-1\n"


@given(model=named_models())
def test_what_is_written_comes_back(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "m.csv"
    rue.save(path, model)
    assert_same(model, rue.load(path))


def test_columns_in_any_order_more_columns_and_outcomes_of_some_choices_only(tmp_path):
    rows = [line.split(",") for line in (HEAD + BODY + OTHER).splitlines()]
    text = "".join(
        f"{r[5]},{r[2]},{r[0]},9,{r[3]},{r[1]},{r[4]}\n".replace("9", "note" if r is rows[0] else "9") for r in rows
    )
    model = rue.load(written(tmp_path, {"m.csv": text}) / "m.csv")
    assert model.samples == 2
    assert values(model) == [3, pytest.approx(5 / 3)]


def test_a_mark_windows_lines_quotes_semicolons_decimal_commas_and_stray_bytes(tmp_path):
    rows = [line.split(",") for line in BODY.splitlines()]
    head = ";".join(f'"{name}"' for name in HEAD.strip().split(","))
    text = "\ufeff" + "\r\n".join([head, *(";".join(row).replace(".", ",") for row in rows)]) + "\r\n\x1a"
    assert values(rue.load(written(tmp_path, {"m.csv": text}) / "m.csv")) == [3]


def test_states_that_are_never_reached_and_states_without_lines(tmp_path):
    """State 7 leads to 2 and is never reached; 9 has no line of its own: it is a goal."""
    text = HEAD + BODY.replace("2,0,2,0,1,0\n", "") + "7,0,2,0,0.50000004,-1\n7,0,9,0,0.5,-1\n"
    model = rue.load(written(tmp_path, {"m.csv": text}) / "m.csv")
    assert model.graph.state_label == ("0", "1", "2", "7", "9")
    assert np.flatnonzero(model.graph.goal).tolist() == [2, 4]
    assert values(model) == [3]


def test_numbers_from_one_are_names(tmp_path):
    """As R counts, with the names of rows that `write.csv` adds."""
    rows = [[int(x) + 1 for x in line.split(",")[:4]] + line.split(",")[4:] for line in BODY.splitlines()]
    text = '"",' + HEAD + "".join(f'"{i}",{",".join(map(str, row))}\n' for i, row in enumerate(rows, 1))
    model = rue.load(written(tmp_path, {"m.csv": text, "initial.csv": "idstate,probability\n1,1\n2,0\n"}) / "m.csv")
    assert model.graph.state_label == ("1", "2", "3")
    assert model.sample_label == ("1",)
    assert values(model) == [3]


@pytest.mark.parametrize("size", [1 << 20, 64])
def test_numbers_that_need_more_than_32_bits_are_names_too(size, tmp_path, monkeypatch):
    monkeypatch.setattr(text_table, "CHUNK", size)
    text = HEAD + "".join(
        f"{3_000_000_000 * int(row[0])},{row[1]},{3_000_000_000 * int(row[2])},{','.join(row[3:])}\n"
        for row in (line.split(",") for line in (BODY + OTHER).splitlines())
    )
    model = rue.load(written(tmp_path, {"m.csv": text}) / "m.csv")
    assert model.graph.state_label == ("0", "3000000000", "6000000000")
    assert values(model) == [3, pytest.approx(5 / 3)]


def test_rows_of_seven_digits_repeated_targets_and_no_outcome(tmp_path):
    text = "idstatefrom,idaction,idstateto,probability,reward\n"
    text += "0,0,1,0.3333333,-1\n0,0,1,0.3333333,-4\n0,0,1,0.3333333,-1\n1,0,1,1,0\n"
    model = rue.load(written(tmp_path, {"m.csv": text}) / "m.csv")
    assert model.graph.transitions == 1
    assert values(model) == [pytest.approx(2, abs=1e-6)]


@pytest.mark.parametrize("discount", [0.9, 0.97])
def test_rewards_with_a_discount_have_the_value_of_plain_dynamic_programming(discount, tmp_path):
    """A state that loops at a reward is no goal; a goal is one that loops at none."""
    text = HEAD + "0,0,1,0,0.5,5\n0,0,2,0,0.5,-2\n0,1,0,0,1,1\n1,0,1,0,1,2\n2,0,2,0,1,0\n"
    files = {"m.csv": text, "parameters.csv": f"parameter,value\nhorizon,9\ndiscount,{discount}\n"}
    model = rue.load(written(tmp_path, files) / "m.csv")
    value = np.zeros(3)
    for _ in range(3000):
        first = 0.5 * (5 + discount * value[1]) + 0.5 * (-2 + discount * value[2])
        value = np.array([max(first, 1 + discount * value[0]), 2 + discount * value[1], 0])
    least = rue.optimal_values(model).value[model.graph.initial, 0]
    assert model.units.figure(least) == pytest.approx(value[0], abs=1e-6)


def test_the_model_says_what_was_done_to_rewards():
    graph = rue.Builder().add("a", "go", {"b": 1.0}, cost=1.0).goal("b").build().graph
    flat = Flat(
        graph.choice_ptr, graph.action, graph.trans_ptr, graph.successor, np.ones((1, 1)), np.full((1, 1), 4.0), 0
    )
    model = model_from_rewards("here", flat, 0.5)
    assert model.units == rue.Units(reward=True, shift=4.0, steps=2.0)
    assert model.units.figure(rue.optimal_values(model).value[0]) == pytest.approx([4.0], abs=1e-9)
    model = model_from_rewards("here", dataclasses.replace(flat, cost=-flat.cost), None)
    assert model.units == rue.Units(reward=True)
    assert model_from_rewards("here", flat, None, sign=1).units == rue.Units()
    with pytest.raises(rue.BadInput, match="there is no discount below 1"):
        model_from_rewards("here", flat, 1.0)


def test_the_units_of_a_model_come_back(tmp_path):
    builder = rue.Builder(2, discount=0.75).add("a", "go", {"a": [0.5, 0.25], "b": [0.5, 0.75]}, cost=-1.0)
    model = builder.add("b", "go", {"a": 1.0}, cost=[2.0, 3.0]).build()
    assert model.units.shift == 1
    for ending in (".csv", ".drn", ".tra", ".umb", ".pomdpx", ".pomdp", ".npz", ".mat"):
        rue.save(tmp_path / f"m{ending}", model)
        assert_same(model, rue.load(tmp_path / f"m{ending}"))


def test_a_table_of_a_policy_is_still_read_as_one(tmp_path):
    model = rue.domains.Medical(seed=1).sample(2, seed=1)
    policy = rue.Policy.from_choices(model.graph, model.graph.choice_ptr[:-1])
    rue.save(tmp_path / "p.csv", policy)
    assert isinstance(rue.load(tmp_path / "p.csv", model), rue.Policy)


@pytest.mark.parametrize("size", [300, 700])
def test_small_chunks_give_the_same(size, tmp_path, monkeypatch):
    model = rue.domains.Disaster(width=4, height=3, seed=3).sample(1, seed=2)
    rue.save(tmp_path / "m.csv", model)
    whole = rue.load(tmp_path / "m.csv")
    monkeypatch.setattr(text_table, "CHUNK", size)
    assert_same(whole, rue.load(tmp_path / "m.csv"))


WRONG = {
    "no probability": ({"m.csv": HEAD.replace("probability", "p") + BODY}, "m.csv: unknown column 'probability'"),
    "no transitions": ({"m.csv": HEAD}, "m.csv: there are no transitions"),
    "a short line": ({"m.csv": HEAD + "0,0,1,0,1\n" + BODY}, "m.csv, line 2: there are 5 filled cells; expected 6"),
    "an empty cell": ({"m.csv": HEAD + BODY + "3,0,1,0,,1\n"}, "m.csv, line 7: there are 5 filled cells"),
    "a word": ({"m.csv": HEAD + BODY.replace("-3", "many")}, "m.csv, line 4: reward is 'many'; expected a number"),
    "half a state": ({"m.csv": HEAD + "0.5,0,1,0,1,0\n"}, "m.csv, line 2: idstatefrom is '0.5'"),
    "a negative state": ({"m.csv": HEAD + "-1,0,1,0,1,0\n"}, "m.csv, line 2: idstatefrom is '-1'"),
    "an infinite reward": ({"m.csv": HEAD + BODY.replace("-3", "-inf")}, "m.csv, line 4: reward is '-inf'"),
    "a row that does not sum to one": (
        {"m.csv": HEAD + BODY.replace("0.5", "0.4", 1)},
        'm.csv, line 2: probabilities of state 0, action "0" sum to 0.9; expected 1',
    ),
    "a negative probability, with other numbers of states": (
        {"m.csv": HEAD + BODY.replace("1,0,0,0,1,-1", "7,3,0,0,-1,-1\n1,0,2,0,1,0")},
        'm.csv, line 5: a probability of state 7, action "3" is -1; expected 0 to 1',
    ),
    "some outcomes": (
        {"m.csv": HEAD + BODY + OTHER + OTHER.replace(",1,0", ",2,0") + "0,1,2,1,1,-3\n"},
        "m.csv: state 0, action 1 has 2 of 3 outcomes; expected one, or all",
    ),
    "a reward without a discount": ({"m.csv": HEAD + BODY.replace("-3", "3")}, "the reward in state 0 is 3"),
    "a wrong discount": (
        {"parameters.csv": "parameter,value\ndiscount,1.5\n"},
        "parameters.csv, line 2: the discount is 1.5",
    ),
    "a word for a discount": (
        {"parameters.csv": "parameter,value\ndiscount,x\n"},
        "parameters.csv, line 2: value is 'x'",
    ),
    "two initial states": (
        {"initial.csv": "idstate,probability\n0,0.5\n1,0.5\n"},
        "initial.csv: 2 states have a positive",
    ),
    "an unknown initial state": (
        {"initial.csv": "idstate,probability\n7,1\n"},
        "initial.csv, line 2: the state is '7'",
    ),
    "no goal": ({"m.csv": HEAD + BODY.replace("2,0,2,0,1,0", "2,0,0,0,1,0")}, "there is no goal"),
    "UTF-16": ({"m.csv": (HEAD + BODY).encode("utf-16")}, "m.csv, line 1: text in UTF-16"),
}


@pytest.mark.parametrize(("files", "told"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_in_one_line(files, told, tmp_path):
    message = refusal(written(tmp_path, {"m.csv": HEAD + BODY, **files}) / "m.csv")
    assert message.startswith(str(tmp_path))
    assert told in message
