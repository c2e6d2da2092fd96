"""UMB files: what rue writes comes back, what others write is read, what is wrong is told in one line."""

import gzip
import io
import json
import tarfile

import numpy as np
import pytest
from hypothesis import given

import rue
from tests.foreign import assert_same, named_models, refusal, values, written

INDEX = {
    "format-version": 1,
    "format-revision": 0,
    "transition-system": {
        "time": "discrete", "#players": 1, "#states": 3, "#initial-states": 1, "#choices": 4, "#choice-actions": 2,
        "#branches": 5, "#branch-actions": 0, "#observations": 0, "branch-probability-type": {"type": "double"},
    },
    "annotations": {
        "rewards": {"r0": {"alias": "cost", "applies-to": ["states", "choices"], "type": {"type": "double"}}},
        "aps": {"a0": {"alias": "goal", "applies-to": ["states"], "type": {"type": "bool"}}},
    },
}  # fmt: skip
FILES = {
    "state-to-choices.bin": np.array([0, 2, 3, 4], "<u8").tobytes(),
    "state-is-initial.bin": b"\x01" + bytes(7),
    "choice-to-branches.bin": np.array([0, 2, 3, 4, 5], "<u8").tobytes(),
    "branch-to-target.bin": np.array([1, 2, 2, 0, 2], "<u8").tobytes(),
    "branch-to-probability.bin": np.array([0.5, 0.5, 1, 1, 1], "<f8").tobytes(),
    "actions/choices/values.bin": np.array([0, 1, 0, 0], "<u4").tobytes(),
    "actions/choices/string-mapping.bin": np.array([0, 2, 6], "<u8").tobytes(),
    "actions/choices/strings.bin": b"gowait",
    "annotations/rewards/r0/states/values.bin": np.array([0, 1, 0], "<f8").tobytes(),
    "annotations/rewards/r0/choices/values.bin": np.array([1, 3, 0, 0], "<f8").tobytes(),
    "annotations/aps/a0/states/values.bin": b"\x04" + bytes(7),
}


def changed(**system: object) -> dict:
    return {**INDEX, "transition-system": {**INDEX["transition-system"], **system}}


def archive(index: object = INDEX, without: str = "", **files: bytes) -> bytes:
    """A file, with parts of it replaced; dots and strokes of their names are underscores."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        parts = {"index.json": index if isinstance(index, bytes) else json.dumps(index).encode(), **FILES}
        for name, data in parts.items():
            plain = name.replace("/", "_").replace("-", "_").replace(".", "_")
            if name != without:
                member = tarfile.TarInfo(name)
                content = files.get(plain, data)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@given(model=named_models())
def test_what_is_written_comes_back(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("umb") / "m.umb"
    rue.save(path, model)
    assert_same(model, rue.load(path))


def test_the_order_of_targets_comes_back_without_those_that_no_sample_has(tmp_path):
    model = rue.domains.Disaster(width=4, height=3, seed=3).sample(3, seed=2)
    assert not model.ever_live.all()
    rue.save(tmp_path / "all.umb", model)
    assert values(rue.load(tmp_path / "all.umb")) == values(model)
    model = rue.Builder(2).add("a", "go", {"b": [0.5, 1], "a": [0.5, 0]}, cost=1.0).goal("b").build()
    rue.save(tmp_path / "m.umb", model)
    back = rue.load(tmp_path / "m.umb")
    assert back.graph.fingerprint == model.graph.fingerprint
    assert back.prob.tobytes() == model.prob.tobytes()
    with tarfile.open(tmp_path / "m.umb") as tar:
        assert tar.getnames()[0] == "index.json"


def test_a_file_by_others(tmp_path):
    model = rue.load(written(tmp_path, {"m.umb": archive()}) / "m.umb")
    assert model.graph.action_label == ("go", "wait")
    assert np.flatnonzero(model.graph.goal).tolist() == [2]
    assert model.cost[:, 0].tolist() == [1, 3, 1]
    assert values(model) == [3]


VALUATIONS = {
    "whole": (
        [{"name": "b", "type": {"type": "bool", "size": 1}}, {"name": "x", "type": {"type": "uint", "size": 2}},
         {"padding": 5}],
        b"\x00\x03\x06", ("b=false, x=0", "b=true, x=1", "b=false, x=3"),
    ),
    "signed": (
        [{"name": "x", "offset": 1, "type": {"type": "int", "size": 12}}, {"padding": 4}],
        np.array([0xFFF, 0, 5], "<u2").tobytes(), ("x=0", "x=1", "x=6"),
    ),
    "a double": ([{"name": "x", "type": {"type": "double"}}], np.array([0.5, 1, 2], "<f8").tobytes(),
                 ("x=0.5", "x=1.0", "x=2.0")),
    "the same": ([{"name": "x", "type": {"type": "uint", "size": 8}}], b"\x01\x01\x02", None),
    "texts": ([{"name": "x", "type": {"type": "string", "size": 8}}], b"\x01\x03\x02", None),
    "too short": ([{"name": "x", "type": {"type": "uint", "size": 8}}], b"\x01", None),
    "no objects": ([7], b"\x01\x03\x02", None),
    "no sizes": ([{"name": "x"}], b"\x01\x03\x02", None),
}  # fmt: skip


@pytest.mark.parametrize(("variables", "data", "names"), VALUATIONS.values(), ids=VALUATIONS)
def test_valuations_are_names_of_states(variables, data, names, tmp_path, monkeypatch):
    monkeypatch.setitem(FILES, "valuations/states/valuations.bin", data)
    index = {**INDEX, "valuations": {"states": {"unique": True, "classes": [{"variables": variables}]}}}
    model = rue.load(written(tmp_path, {"m.umb": archive(index)}) / "m.umb")
    assert model.graph.state_label == names
    assert values(model) == [3]


def test_another_label_and_another_reward_are_asked_for(tmp_path, monkeypatch):
    both = {**INDEX["annotations"]["rewards"], "r1": {"alias": "time", "type": {"type": "double"}}}
    monkeypatch.setitem(FILES, "annotations/rewards/r1/choices/values.bin", np.array([5, 7, 0, 0], "<f8").tobytes())
    path = written(tmp_path, {"m.umb": archive({**INDEX, "annotations": {**INDEX["annotations"], "rewards": both}})})
    assert values(rue.load(path / "m.umb")) == [3]
    assert values(rue.load(path / "m.umb", goal="goal", reward="time")) == [7]
    monkeypatch.setitem(FILES, "annotations/aps/a0/states/values.bin", bytes(8))
    empty = written(tmp_path / "empty", {"m.umb": archive()}) / "m.umb"  # a label that no state has
    assert "index.json: no state has the label 'goal'; expected none, as there are no labels" in refusal(
        empty, goal="goal"
    )
    assert "index.json: there is no reward 'x'; expected one of cost, time" in refusal(path / "m.umb", reward="x")
    assert "index.json: no state has the label 'x'; expected one of goal" in refusal(path / "m.umb", goal="x")


def test_a_compressed_file_and_one_that_is_told_by_content(tmp_path):
    written(tmp_path, {"m.umb": gzip.compress(archive()), "m.model": archive()})
    assert values(rue.load(tmp_path / "m.umb")) == values(rue.load(tmp_path / "m.model")) == [3]


def test_stray_bytes_behind_the_archive_and_files_that_nobody_knows(tmp_path):
    """Of the folders of newer versions, and bytes that a transfer added."""
    stream = io.BytesIO(archive())
    with tarfile.open(fileobj=stream, mode="a") as tar:
        for name in ("later/values.bin", "README.txt", "annotations/aps/a0/.DS_Store"):
            member = tarfile.TarInfo(name)
            member.size = 5
            tar.addfile(member, io.BytesIO(b"\x00\xffabc"))
    data = stream.getvalue() + b"\x00\x1a\r\n"
    assert values(rue.load(written(tmp_path, {"m.umb": data}) / "m.umb")) == [3]


def test_a_mark_before_the_index_and_a_state_that_is_never_reached(tmp_path, monkeypatch):
    index = changed(**{"#states": 4, "#choices": 5, "#branches": 6})
    longer = {
        "state-to-choices.bin": np.array([0, 2, 3, 4, 5], "<u8"),
        "choice-to-branches.bin": np.array([0, 2, 3, 4, 5, 6], "<u8"),
        "branch-to-target.bin": np.array([1, 2, 2, 0, 2, 0], "<u8"),
        "branch-to-probability.bin": np.array([0.5, 0.5, 1, 1, 1, 1], "<f8"),
        "actions/choices/values.bin": np.array([0, 1, 0, 0, 1], "<u4"),
        "annotations/rewards/r0/states/values.bin": np.array([0, 1, 0, 7], "<f8"),
        "annotations/rewards/r0/choices/values.bin": np.array([1, 3, 0, 0, 0], "<f8"),
    }  # fmt: skip
    for name, data in longer.items():
        monkeypatch.setitem(FILES, name, data.tobytes())
    model = rue.load(written(tmp_path, {"m.umb": archive(b"\xef\xbb\xbf" + json.dumps(index).encode())}) / "m.umb")
    assert model.graph.states == 4
    assert values(model) == [3]


def test_a_chain_without_pointers_labels_and_actions(tmp_path):
    """What is left out has its default: one choice in each state, one branch in each choice; loops are goals."""
    system = {"#players": 0, "#states": 2, "#choices": 2, "#branches": 2, "#choice-actions": 0}
    index = {**changed(**system), "annotations": {"rewards": {"time": {"applies-to": ["branches"], "type": "double"}}}}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in {
            "./index.json": json.dumps(index).encode(),
            "./state-is-initial.bin": b"\x01" + bytes(7),
            "./branch-to-target.bin": np.array([1, 1], "<u8").tobytes(),
            "./branch-to-probability.bin": np.array([1, 1], "<f8").tobytes(),
            "./annotations/rewards/time/branches/values.bin": np.array([5, 0], "<f8").tobytes(),
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    assert values(rue.load(written(tmp_path, {"m.umb": stream.getvalue()}) / "m.umb")) == [5]


def test_fractions_rows_of_seven_digits_and_repeated_targets(tmp_path):
    pairs = np.array([[1, 3], [2, 3], [1, 1], [1, 1], [1, 1]], "<i8").tobytes()
    index = changed(**{"branch-probability-type": {"type": "rational", "size": 128}})
    target = np.array([2, 2, 2, 0, 2], "<u8").tobytes()
    data = archive(index, branch_to_probability_bin=pairs, branch_to_target_bin=target)
    model = rue.load(written(tmp_path, {"m.umb": data}) / "m.umb")
    assert model.graph.transitions == 3
    assert values(model) == [1]
    off = np.array([0.5000001, 0.5, 1, 1, 1], "<f8").tobytes()
    assert values(rue.load(written(tmp_path, {"m.umb": archive(branch_to_probability_bin=off)}) / "m.umb")) == [3]


def test_a_folder_of_files(tmp_path):
    other = np.array([0.25, 0.75, 1, 1, 1], "<f8").tobytes()
    model = rue.load(written(tmp_path, {"dry.umb": archive(), "wet.umb": archive(branch_to_probability_bin=other)}))
    assert model.sample_label == ("dry", "wet")
    assert values(model) == [3, pytest.approx(5 / 3)]


NAN = np.array([np.nan, 0.5, 1, 1, 1], "<f8").tobytes()
OFF = np.array([0.4, 0.5, 1, 1, 1], "<f8").tobytes()
WRONG = {
    "no archive": (b"hello" * 200, "m.umb: it is no archive"),
    "cut off": (archive()[:3000], "m.umb"),
    "no index": (archive(without="index.json"), "m.umb: there is no index.json"),
    "no JSON": (archive(b"{"), "m.umb, index.json: it is no JSON object"),
    "no states": (archive({"format-version": 1, "transition-system": {}}), "index.json: there is no '#states'"),
    "another version": (archive({**INDEX, "format-version": 7}), "index.json: the version of the format is 7"),
    "rates": (archive(changed(time="stochastic")), "index.json: time is 'stochastic'; expected 'discrete'"),
    "a game": (archive(changed(**{"#players": 2})), "index.json: #players is 2"),
    "observations": (archive(changed(**{"#observations": 4})), "index.json: #observations is 4; expected 0"),
    "intervals": (
        archive(changed(**{"branch-probability-type": {"type": "double-interval"}})),
        "of type 'double-interval'",
    ),
    "a short array": (archive(branch_to_target_bin=b"\x00" * 12), "branch-to-target.bin: it has 12 bytes; expected 40"),
    "pointers that fall": (
        archive(state_to_choices_bin=np.array([0, 3, 2, 4], "<u8").tobytes()),
        "state-to-choices.bin: it does not rise from 0 to 4",
    ),
    "a target out of range": (
        archive(branch_to_target_bin=np.array([1, 9, 2, 0, 2], "<u8").tobytes()),
        "branch-to-target.bin: target 1 is 9; expected 0 to 2",
    ),
    "no probabilities": (archive(without="branch-to-probability.bin"), "branch-to-probability.bin: it is not there"),
    "no number": (archive(branch_to_probability_bin=NAN), "branch-to-probability.bin: number 0 is not finite"),
    "a row that does not sum to one": (archive(branch_to_probability_bin=OFF), "sum to 0.9; expected 1"),
    "no initial state": (archive(without="state-is-initial.bin"), "state-is-initial.bin: 0 states are initial"),
    "two initial states": (archive(state_is_initial_bin=b"\x03" + bytes(7)), "2 states are initial; expected one"),
    "an action out of range": (
        archive(actions_choices_values_bin=np.array([0, 5, 0, 0], "<u4").tobytes()),
        "actions/choices/values.bin: an action is 5; expected 0 to 1",
    ),
    "actions without a number": (archive(changed(**{"#choice-actions": "x"})), "index.json: it is no JSON object of a"),
    "a fraction of zero": (
        archive(
            changed(**{"branch-probability-type": {"type": "rational"}}),
            branch_to_probability_bin=np.array([[1, 0], [0, 0], [1, 1], [1, 1], [1, 1]], "<i8").tobytes(),
        ),
        "branch-to-probability.bin: number 0 is not finite",
    ),
    "more states than the machine has memory for": (
        archive(changed(**{"#states": 10**15, "#choices": 10**15}), without="state-to-choices.bin"),
        "choice-to-branches.bin: it has 40 bytes; expected 8000000000000008",
    ),
    "pointers that are left out": (
        archive(without="state-to-choices.bin"),
        "state-to-choices.bin: it is not there, and there are 3 lists of 4 items; expected one of each",
    ),
    "annotations that are no objects": (archive({**INDEX, "annotations": [7]}), "the annotations rewards are damaged"),
    "a negative number of actions": (
        archive(changed(**{"#choice-actions": -5})),
        "index.json: a number of states, choi",
    ),
    "no text": (archive(actions_choices_strings_bin=b"go\xffait"), "strings.bin: it is no text"),
}


@pytest.mark.parametrize(("data", "told"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_in_one_line(data, told, tmp_path):
    message = refusal(written(tmp_path, {"m.umb": data}) / "m.umb")
    assert message.startswith(str(tmp_path / "m.umb"))
    assert told in message
