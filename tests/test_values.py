"""Values: what does not survive a conversion is refused, nothing can be changed, and what is printed is short."""

import copy
import pickle
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rue
from rue._check import in_all
from tests.models import models_with_controllers


def grid() -> rue.UMDP:
    return rue.domains.Disaster(width=3, height=4, seed=1).sample(2, seed=1)


def two_rooms(**options) -> rue.UMDP:
    builder = rue.Builder(2, **options)
    builder.add("hall", "walk", {"door": [0.9, 0.6], "hall": [0.1, 0.4]}, cost=1.0)
    builder.add("hall", "call", {"out": 1.0}, cost=3.0)
    builder.add("door", "walk", {"out": 1.0}, cost=0.5)
    return builder.goal("out").build()


INTEGERS = {
    rue.Graph: ("choice_ptr", "action", "trans_ptr", "successor"),
    rue.Policy: ("node_state", "entry_ptr", "choice", "next_ptr", "next_node", "start_node"),
}
NUMBERS = {rue.UMDP: ("prob", "cost"), rue.Policy: ("weight", "start_weight")}
LOSSY = {
    "fractions": lambda array: array + 0.7,
    "whole floats": lambda array: array.astype(float),
    "not a number": lambda array: array * np.nan,
    "beyond 32 bits": lambda array: array.astype(np.int64) + 2**32,
    "beyond 64 bits": lambda array: array.astype(np.uint64) + np.uint64(2**63),
    "far beyond": lambda array: np.array([int(i) + 2**70 for i in array], object),
    "text": lambda array: array.astype(str),
    "truth": lambda array: array.astype(bool),
}


def thing(kind: type):
    model = two_rooms()
    return {rue.Graph: model.graph, rue.UMDP: model, rue.Policy: rue.Policy.stationary(model, [1, 0, 0])}[kind]


@pytest.mark.parametrize("change", LOSSY.values(), ids=LOSSY)
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in INTEGERS for name in INTEGERS[kind]])
def test_indices_that_would_not_survive_are_refused(kind, name, change):
    sound = thing(kind)
    with pytest.raises(rue.BadInput, match=name):
        replace(sound, **{name: change(np.array(getattr(sound, name)))})


@pytest.mark.parametrize("change", [lambda a: a.astype(str), lambda a: a + 1j, lambda a: a * np.nan], ids=range(3))
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in NUMBERS for name in NUMBERS[kind]])
def test_numbers_that_would_not_survive_are_refused(kind, name, change):
    sound = thing(kind)
    with pytest.raises(rue.BadInput):
        replace(sound, **{name: change(np.array(getattr(sound, name)))})


# Policies as text.


def assert_same(left: rue.Policy, right: rue.Policy, names: tuple[str, ...]) -> None:
    for name in names:
        assert getattr(left, name).tolist() == getattr(right, name).tolist(), name


CONTROLLER = ("node_state", "entry_ptr", "choice", "weight", "next_ptr", "next_node")
START = ("start_node", "start_weight")
ODD_NAMES = st.text(st.sampled_from("a1 ,;\"'\r\n\t\\/家\x00é"), max_size=4)


@settings(max_examples=150, deadline=None)
@given(models_with_controllers(), st.data())
def test_a_policy_comes_back_from_text(pair, data):
    model, policy = pair
    graph = model.graph
    if data.draw(st.booleans(), "named"):
        actions = int(graph.action.max(initial=0)) + 1
        names = [data.draw(st.lists(ODD_NAMES, min_size=n, max_size=n, unique=True)) for n in (graph.states, actions)]
        graph = replace(graph, state_label=names[0], action_label=names[1], layout={"grid": [1, graph.states]})
        policy = replace(policy, graph=graph)
    again = rue.Policy.from_json(policy.to_json())
    assert again.graph.fingerprint == graph.fingerprint
    assert (again.graph.state_label, again.graph.action_label) == (graph.state_label, graph.action_label)
    assert again.graph.layout == graph.layout
    assert_same(again, policy, CONTROLLER + START)
    table = rue.Policy.from_csv(policy.to_csv(), graph)
    assert_same(table, policy, CONTROLLER)
    for one, other in ((table, policy), (policy, table)):  # the same start, in the order of the nodes
        weights = dict.fromkeys(one.start_node.tolist(), 0.0)
        for node, weight in zip(other.start_node.tolist(), other.start_weight.tolist(), strict=True):
            weights[node] = weights.get(node, 0.0) + weight
        assert [weights[node] for node in table.start_node.tolist()] == pytest.approx(table.start_weight.tolist())


def twice() -> rue.Policy:
    """The action leads to "t" in two ways, and the policy remembers which."""
    graph = rue.Graph(
        [0, 1, 3, 3], [0, 0, 1], [0, 2, 3, 4], [1, 1, 2, 2], 0, ("s", "t", "end"), ("go", "jump")
    )  # fmt: skip
    return rue.Policy(
        graph, [0, 1, 1, 2], [0, 1, 2, 3, 3], [0, 1, 2], [1.0, 1.0, 1.0], [0, 2, 3, 4], [1, 2, 3, 3], [0], [1.0]
    )


@pytest.mark.parametrize("name", ["p.json", "p.csv"])
def test_a_successor_that_is_named_twice_keeps_both_nodes(name, tmp_path):
    policy = twice()
    prob = np.array([[0.5], [0.5], [1.0], [1.0]])
    model = rue.UMDP(policy.graph, prob, [[1.0], [1.0], [5.0]])
    rue.save(tmp_path / name, policy)
    again = rue.load(tmp_path / name, model)
    assert_same(again, policy, CONTROLLER + START)
    assert rue.evaluate(model, again).value == pytest.approx([4.0])


def test_a_table_by_hand_is_a_stationary_policy(tmp_path):
    path, model = tmp_path / "guideline.csv", two_rooms()
    path.write_text("state,action\ndoor, walk\nhall,call\n", encoding="utf-8")
    assert rue.evaluate(model, rue.load(path, model)).value == pytest.approx([3.0, 3.0])
    path.write_text("\ufeffstate,action,probability\nhall,call,0.25\nhall,walk,0.75\ndoor,walk,\n", encoding="utf-8")
    assert rue.load(path, model=model).weight.tolist() == [0.25, 0.75, 1.0]
    path.write_text("state,action\nhall,call\n", encoding="utf-8")  # the door has one action
    assert rue.evaluate(model, rue.load(path, model)).value == pytest.approx([3.0, 3.0])
    lasting = two_rooms(discount=0.9)  # and so has the goal, where the discount goes on
    assert rue.evaluate(lasting, rue.load(path, lasting)).value == pytest.approx([3.0, 3.0])


BAD_TEXT = {
    "no model": ("p.csv", "state,action\n", False, "expected the model that it is for"),
    "no column": ("p.csv", "state,what\nhall,call\n", True, "unknown column 'action'"),
    "empty": ("p.csv", "", True, "unknown column 'state'"),
    "unknown state": ("p.csv", "state,action\nhal,call\n", True, "line 2: unknown state 'hal'; did you mean 'hall'?"),
    "unknown action": ("p.csv", "state,action\nhall,cal\n", True, "line 2: unknown action 'cal'; did you mean 'call'?"),
    "not there": ("p.csv", "state,action\ndoor,call\n", True, "line 2: state door has no action 'call'; expected one"),
    "a state left out": (
        "p.csv",
        "state,action\ndoor,walk\n",
        True,
        "node 0 (state hall) sum to 0; expected 1; 1 node",
    ),
    "half": ("p.csv", "state,action,probability\nhall,call,0.5\ndoor,walk,1\n", True, "sum to 0.5; expected 1"),
    "in words": ("p.csv", "state,action,probability\nhall,call,often\n", True, "probability is 'often'; expected a"),
    "too many cells": ("p.csv", "state,action\nhall,call,1\n", True, "line 2: there are 3 cells; expected 2"),
    "no start": ("p.csv", "node,state,action,next\n0,hall,call,0\n", True, "no column 'start' beside 'next'; expected"),
    "bad node": ("p.csv", "node,state,action,next,start\nx,hall,call,0,1\n", True, "line 2: node is 'x'; expected a"),
    "no text": ("p.json", b"\xff\xfe", False, "no text in UTF-8"),
    "no JSON": ("p.json", "{", False, "it is no JSON"),
    "a list": ("p.json", "[1, 2]", False, "JSON of something else"),
    "deep": ("p.json", "[" * 100_000, False, "it is no JSON"),
    "version": ("p.json", '{"format": "rue policy", "version": 9}', False, "version 9"),
    "nothing in it": ("p.json", '{"format": "rue policy", "version": 1}', False, "the policy is damaged"),
}


@pytest.mark.parametrize(("name", "text", "with_model", "words"), BAD_TEXT.values(), ids=BAD_TEXT)
def test_bad_text_is_one_line(name, text, with_model, words, tmp_path):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(rue.BadFile) as refused:
        rue.load(path, two_rooms() if with_model else None)
    assert words in str(refused.value)
    assert str(refused.value).startswith(f"{path}: ")


def test_a_policy_of_another_graph_is_refused_when_it_is_read(tmp_path):
    for name in ("p.json", "p.rue"):
        rue.save(tmp_path / name, twice())
        with pytest.raises(rue.BadInput, match="for another graph"):
            rue.load(tmp_path / name, two_rooms())


def test_json_says_when_its_graph_was_changed():
    text = twice().to_json()
    with pytest.raises(rue.BadFile, match="fingerprint"):
        rue.Policy.from_json(text.replace('"successor": [\n   1,\n   1,\n   2', '"successor": [\n   1,\n   2,\n   2'))


# Actions by name.


def test_stationary_policies_take_names_numbers_and_both():
    model = two_rooms()
    by_number = rue.Policy.stationary(model, [1, 0, 0])
    for actions in (["call", "walk", None], ["call", 0, ""], np.array(["call", "walk", "?"]), ("call", "walk", 7)):
        assert_same(rue.Policy.stationary(model, actions), by_number, CONTROLLER)
    with pytest.raises(rue.BadInput, match="state hall has no action cal; expected one of walk, call; 1 state is off"):
        rue.Policy.stationary(model, ["cal", "walk", ""])


# Discounts.


def test_a_discount_keeps_labels_layout_and_scenery():
    model = grid()
    model = rue.UMDP(model.graph, model.prob, model.cost, ("dry", "wet"), model.scenery)
    discounted = model.with_discount(0.9)
    assert discounted.sample_label == ("dry", "wet")
    assert discounted.graph.layout["grid"] == (4, 3)
    assert "domain" not in discounted.graph.layout  # whose draws have no state for the end
    assert set(discounted.scenery) == {"entry_cost", "obstacle"}
    for name, values in discounted.scenery.items():
        assert np.array_equal(values[:-1], model.scenery[name])
    rue.report.draw_map(discounted, rue.solve(discounted, rue.Average()).policy)


def test_a_goal_may_be_called_end():
    builder = rue.Builder(1, discount=0.5)
    builder.add("a", "go", {"end": 0.5, "end 2": 0.5}, cost=-1.0)
    model = builder.goal("end", "end 2").build()
    assert model.graph.state_label == ("a", "end", "end 2", "end 3")


# Nothing can be changed.


def test_a_layout_cannot_be_changed_and_travels():
    given_layout = {"grid": [4, 3], "more": {"notes": ["a"]}}
    model = grid()
    graph = replace(model.graph, layout=given_layout)
    given_layout["more"]["notes"].append("b")
    assert graph.layout["more"]["notes"] == ("a",)
    with pytest.raises(TypeError):
        graph.layout["grid"] = [1, 1]
    with pytest.raises(TypeError):
        graph.layout["more"]["notes"] = []
    with pytest.raises(TypeError):
        model.scenery["obstacle"] = None
    for again in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph)):
        assert again.layout == graph.layout


ODD_LAYOUTS = [None, 5, [1], {1: 2}, {"a": np.ones(2)}, {"a": float("nan")}, {"a": {2: 3}}, {"a": object()}]
ODD_LAYOUTS += [{"grid": g} for g in (None, 5, [1], [1, 2, 3], ["a", "b"], [0, 5], [1.5, 2], [True, 2], [10**9, 10**9])]


@pytest.mark.parametrize("layout", ODD_LAYOUTS, ids=map(str, range(len(ODD_LAYOUTS))))
def test_odd_layouts_are_refused(layout):
    with pytest.raises(rue.BadInput, match="layout"):
        replace(grid().graph, layout=layout)


@pytest.mark.parametrize("scenery", [5, {1: np.ones((12, 2))}, {"a": None}, {"a": np.full((12, 2), 1e300)}, {"a": "x"}])
def test_odd_scenery_is_refused(scenery):
    model = grid()
    with pytest.raises(rue.BadInput, match="scenery"):
        rue.UMDP(model.graph, model.prob, model.cost, None, scenery)


# Sizes are told before the memory is taken.

HUGE = 10**9
TOO_LARGE = {
    "samples of a domain": lambda: grid_domain().sample(HUGE, seed=1),
    "a large domain": lambda: rue.domains.Disaster(width=2000, height=2000, seed=1).sample(1000, seed=1),
    "samples of counts": lambda: rue.from_counts(np.ones((3, 2, 3)), np.ones((3, 2)), goals=[2], samples=HUGE, seed=1),
    "samples of a log": lambda: rue.from_transitions(hub(3), initial="hub", goals=["end"], samples=HUGE, seed=1),
    "outcomes of a hub": lambda: rue.from_transitions(hub(100_000), initial="hub", goals=["end"], samples=2, seed=1),
    "samples of a builder": lambda: rue.Builder(HUGE).add("a", "go", {"b": 1.0}).goal("b").build(),
    "episodes": lambda: rue.simulate(two_rooms(), thing(rue.Policy), sample=0, seed=0, episodes=10 * HUGE),
}


def grid_domain() -> rue.domains.Disaster:
    return rue.domains.Disaster(width=3, height=4, seed=1)


def hub(spokes: int) -> Iterator[tuple[str, str, float, str]]:
    """One state with very many actions, each of which leads elsewhere: all outcomes for all actions are the square."""
    for number in range(spokes):
        yield "hub", f"to {number}", 1.0, f"spoke {number}"
        yield f"spoke {number}", "go", 1.0, "end"


@pytest.mark.parametrize("make", TOO_LARGE.values(), ids=TOO_LARGE)
def test_what_does_not_fit_into_memory_is_told_before_it_is_taken(make):
    tracemalloc.start()
    try:
        with pytest.raises(rue.BadInput, match=r"would take [\d.e+]+ [GT]B of memory; expected at most [\d.]+ [GMT]B"):
            make()
        assert tracemalloc.get_traced_memory()[1] < 3e8
    finally:
        tracemalloc.stop()


def test_a_long_message_is_cut():
    builder = rue.Builder(1)
    for number in range(1000):
        builder.add(f"state {number}", f"action {number}", {"home": 1.0})
    model = builder.goal("home").build()
    with pytest.raises(rue.BadInput) as refused:
        rue.Policy.from_csv("state,action\nstat 5,action 5\n", model)
    assert "did you mean 'state 5'?" in str(refused.value) and "and 961 more" in str(refused.value)
    with pytest.raises(rue.BadInput) as refused:
        rue.Policy.from_csv(f"state,action\n{'x' * 100_000},go\n", model)
    assert len(str(refused.value)) < 2100


# What is printed, and what is there after `import rue`.


def test_what_is_printed_is_short():
    model = grid()
    assert repr(model.graph) == "Graph(12 states, 88 choices, 216 transitions)"
    assert repr(rue.optimal_values(model)).startswith("OptimalValues(12 states, 2 samples, error ")


def test_modules_are_there_after_import_and_only_then_imported():
    code = (
        "import sys, rue; heavy = {'numba', 'scipy', 'matplotlib', 'jinja2', 'rich', 'highspy'};"
        "assert not (heavy | {'rue.report', 'rue.experiments'}) & {*sys.modules};"
        "assert {'report', 'visits', 'experiments'} <= {*dir(rue)};"
        "rue.report.draw_map, rue.visits.expected_visits, rue.experiments.read_spec;"
        "assert not hasattr(rue, 'nothing')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_types_are_shipped():
    assert (Path(rue.__file__).parent / "py.typed").is_file()


def test_selecting_by_regret_computes_no_bounds(monkeypatch):
    wanted = []
    solve = sys.modules["rue.solving"]
    prove = solve.prove_bound
    monkeypatch.setattr(solve, "prove_bound", lambda *a, **o: wanted.append(o["search"]) or prove(*a, **o))
    rue.select(rue.domains.Medical(seed=1).sample(6, seed=1), 3, by="regret")
    assert wanted == [False, False]


def test_one_is_not_many():
    """How many there are is told by one function; the check of certificates has words of its own."""
    for path in Path(rue.__file__).parent.rglob("*.py"):
        if path.name != "certificate.py":
            assert not re.search(r"\} (\w+ )?are (off|so) in all", path.read_text()), path
    assert in_all(1, "state") == "1 state is off in all"
    assert in_all(2, "line", "so") == "2 lines are so in all"
