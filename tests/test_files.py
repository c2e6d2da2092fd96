"""What is saved comes back the same, byte for byte; a crash leaves the old file; nothing is pickled."""

import csv
import dataclasses
import errno
import io
import json
import math
import os
import stat
import tempfile
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

import rue
from rue import formats

GRAPH_ARRAYS = {"choice_ptr": np.int64, "action": np.int32, "trans_ptr": np.int64, "successor": np.int32}
POLICY_ARRAYS = ("node_state", "entry_ptr", "choice", "weight", "next_ptr", "next_node", "start_node", "start_weight")

# Every solver that has a command-line name, with the parameters that matter.
SOLVERS = (
    rue.Regret(),
    rue.Regret(1, "stochastic", prune=False),
    rue.Regret(1, "history", kappa=0.0),
    rue.MyopicRegret(),
    rue.MyopicRegret(1, "stochastic"),
    rue.WorstCase(),
    rue.WorstCase(prune=True, kappa=1e-6),
    rue.Regret(2),
    rue.Regret(3, "history"),
    rue.WorstCase(2, engine="highs"),
    rue.ExactStationary(),
    rue.Mixture(),
    rue.Adaptive(),
    rue.Adaptive(0.01, objective="cost", memory=0.5),
    rue.Average(),
    rue.BestSample(),
)


def assert_same_array(left: np.ndarray, right: np.ndarray) -> None:
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    assert left.tobytes() == right.tobytes()


def assert_same_graph(left: rue.Graph, right: rue.Graph) -> None:
    for name, dtype in GRAPH_ARRAYS.items():
        assert getattr(right, name).dtype == dtype
        assert_same_array(getattr(left, name), getattr(right, name))
    for name in ("initial", "state_label", "action_label", "layout", "fingerprint"):
        assert getattr(left, name) == getattr(right, name)


def assert_same_model(left: rue.UMDP, right: rue.UMDP) -> None:
    assert_same_graph(left.graph, right.graph)
    assert_same_array(left.prob, right.prob)
    assert_same_array(left.cost, right.cost)
    assert left.sample_label == right.sample_label
    assert list(left.scenery) == list(right.scenery)
    for name in left.scenery:
        assert_same_array(left.scenery[name], right.scenery[name])


def assert_same_policy(left: rue.Policy, right: rue.Policy) -> None:
    assert_same_graph(left.graph, right.graph)
    for name in POLICY_ARRAYS:
        assert_same_array(getattr(left, name), getattr(right, name))


def assert_same_certificate(left: rue.Certificate | None, right: rue.Certificate | None) -> None:
    assert (left is None) == (right is None)
    if left is not None and right is not None:
        for field in dataclasses.fields(rue.Certificate):
            one, other = getattr(left, field.name), getattr(right, field.name)
            assert_same_array(one, other) if isinstance(one, np.ndarray) else None
            assert isinstance(one, np.ndarray) or one == other


def assert_same_solution(left: rue.Solution, right: rue.Solution) -> None:
    assert_same_policy(left.policy, right.policy)
    assert_same_certificate(left.certificate, right.certificate)
    assert_same_certificate(left.regret_certificate, right.regret_certificate)
    proofs = {"certificate", "regret_certificate"}
    names = {field.name for field in dataclasses.fields(rue.Solution)} - {"policy", *proofs}
    assert names >= {"solver", "status", "objective", "max_regret", "regret", "seconds", "trace", "counters"}
    for name in names:
        assert getattr(left, name) == getattr(right, name), name
        assert type(getattr(left, name)) is type(getattr(right, name)), name
    assert left.status is right.status


def plain() -> rue.UMDP:
    """From 0 to 2, straight or by way of 1; nothing has a name."""
    transition = np.zeros((2, 3, 2, 3))
    transition[:, 0, 0, 1] = 1.0
    transition[0, 0, 1] = [1 / 3, 0.0, 2 / 3]
    transition[1, 0, 1] = [0.75, 0.0, 0.25]
    transition[:, 1, 0, 2] = 1.0
    cost = np.ones((2, 3, 2))
    cost[1, 1, 0] = math.pi
    return rue.UMDP.from_dense(transition, cost, goals=[2])


def named() -> rue.UMDP:
    model = plain()
    labels = {"state_label": ('the "old" mill', "brücke, südlich", "家"), "action_label": ("go\twest", "it's a risk")}
    return rue.UMDP(dataclasses.replace(model.graph, **labels), model.prob, model.cost)


def with_samples() -> rue.UMDP:
    return rue.UMDP(plain().graph, plain().prob, plain().cost, ("dry year", "wet year, März"))


def laid_out() -> rue.UMDP:
    return rue.domains.Disaster(width=5, height=4, seed=3).sample(3, seed=2)


def infeasible() -> rue.UMDP:
    """Each sample ends, but an adversary who switches between them can go round for ever."""
    builder = rue.Builder(2)
    builder.add("s", "go", {"t": [1, 0], "goal": [0, 1]}, cost=1.0)
    builder.add("t", "go", {"goal": [1, 0], "s": [0, 1]}, cost=1.0)
    return builder.goal("goal").build()


def two_nodes() -> rue.Policy:
    """Tries the risk once, then goes by way of 1: two nodes in state 0."""
    return rue.Policy(
        graph=named().graph,
        node_state=[0, 0, 1, 2],
        entry_ptr=[0, 1, 2, 3, 3],
        choice=[1, 0, 2],
        weight=[1.0, 1.0, 1.0],
        next_ptr=[0, 2, 3, 4],
        next_node=[1, 3, 2, 3],
        start_node=[0],
        start_weight=[1.0],
    )


def mixture() -> rue.Policy:
    """Draws at the start whether to take the risk for ever or to go by way of 1."""
    return dataclasses.replace(
        two_nodes(), next_node=[0, 3, 2, 3], start_node=[0, 1], start_weight=[0.25, 0.75], weight=[1.0, 1.0, 1.0]
    )


def nothing_to_do() -> rue.UMDP:
    """The initial state is the goal: arrays of no length."""
    return rue.Builder(2).goal("home").build()


MODELS = {
    "nothing to do": nothing_to_do,
    "plain": plain,
    "named": named,
    "sample labels": with_samples,
    "layout": laid_out,
}
POLICIES = {
    "stationary": lambda: rue.Policy.stationary(plain(), [1, 0, 0]),
    "randomised": lambda: rue.Policy.stationary(named(), [[1 / 3, 2 / 3], [1, 0], [0, 0]]),
    "two nodes": two_nodes,
    "mixture": mixture,
}


def saved(folder: Path, thing: object, name: str = "thing.rue") -> Path:
    path = folder / name
    rue.save(path, thing)
    return path


# There and back.


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_model_comes_back_the_same(make, tmp_path):
    model = make()
    loaded = rue.load(saved(tmp_path, model))
    assert type(loaded) is rue.UMDP
    assert_same_model(model, loaded)


def test_the_models_differ_in_what_is_stored():
    assert nothing_to_do().graph.choices == 0
    assert plain().graph.state_label is None
    assert plain().graph.action_label is None
    assert plain().sample_label is None
    assert plain().graph.layout == {}
    assert laid_out().graph.layout["grid"] == (4, 5)
    assert set(laid_out().scenery) == {"entry_cost", "obstacle"}
    assert two_nodes().nodes == 4
    assert not two_nodes().is_stationary
    assert not mixture().is_deterministic


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
def test_a_policy_comes_back_the_same(make, tmp_path):
    policy = make()
    loaded = rue.load(saved(tmp_path, policy))
    assert type(loaded) is rue.Policy
    assert_same_policy(policy, loaded)
    before, after = rue.evaluate(plain(), policy), rue.evaluate(plain(), loaded)
    assert before.value.tolist() == after.value.tolist()


def test_the_judge_agrees_with_the_hand_on_the_loaded_controllers(tmp_path):
    """Risk costs 1 and ends with 2/3 or 1/4; the way by state 1 costs 1 + 1 or 1 + π."""
    by_one = np.array([2.0, 1.0 + math.pi])
    stays = np.array([1 / 3, 3 / 4])
    twice = rue.evaluate(plain(), rue.load(saved(tmp_path, two_nodes())))
    assert twice.value == pytest.approx(1 + stays * by_one, abs=1e-12)
    mixed = rue.evaluate(plain(), rue.load(saved(tmp_path, mixture())))
    assert mixed.value == pytest.approx(0.25 / (1 - stays) + 0.75 * by_one, abs=1e-12)


def test_every_solver_is_tried():
    assert {solver.name for solver in SOLVERS} == set(rue.Solver.known) - {rue.GivenPolicy.name}  # see test_given.py


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_a_solution_comes_back_the_same(solver, tmp_path):
    solution = rue.solve(laid_out(), solver)
    assert solution.status is rue.Status.SOLVED
    loaded = rue.load(saved(tmp_path, solution))
    assert type(loaded) is rue.Solution
    assert_same_solution(solution, loaded)
    assert loaded.require() is loaded
    assert repr(loaded) == repr(solution)


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_a_solution_cut_off_by_a_limit_comes_back_the_same(solver, tmp_path):
    solution = rue.solve(laid_out(), solver, limits=rue.Limits(seconds=0))
    assert solution.status is rue.Status.TIME_LIMIT
    assert_same_solution(solution, rue.load(saved(tmp_path, solution)))


def test_infinite_bounds_come_back(tmp_path):
    solution = rue.solve(infeasible(), rue.Regret())
    assert solution.status is rue.Status.INFEASIBLE
    assert math.isinf(solution.objective.lower)
    assert_same_solution(solution, rue.load(saved(tmp_path, solution)))


def test_what_is_loaded_cannot_be_changed(tmp_path):
    loaded = rue.load(saved(tmp_path, rue.solve(plain(), rue.Average())))
    arrays = [getattr(loaded.policy, name) for name in POLICY_ARRAYS]
    arrays += [getattr(loaded.policy.graph, name) for name in GRAPH_ARRAYS]
    model = rue.load(saved(tmp_path, plain()))
    for array in (*arrays, model.prob, model.cost):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_saving_and_loading_take_little_more_memory_than_the_model(tmp_path):
    model = rue.domains.Disaster(width=100, height=100, seed=1).sample(8, seed=1)
    arrays = model.prob.nbytes + model.cost.nbytes
    rue.load(_saved(model, tmp_path))  # what is needed once is not counted
    tracemalloc.start()
    try:
        path = _saved(model, tmp_path)
        saving = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        loaded = rue.load(path)
        held, peak = (memory - before for memory in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    assert saving < 18e6 < arrays  # numpy writes arrays in pieces of 16 MB
    assert arrays < held <= peak < 1.3 * held
    assert np.array_equal(loaded.prob, model.prob)


def _saved(model, folder):
    rue.save(folder / "large.rue", model)
    return folder / "large.rue"


def test_a_policy_from_a_file_can_be_used_on_the_model_from_a_file(tmp_path):
    solution = rue.solve(laid_out(), rue.Regret())
    model = rue.load(saved(tmp_path, laid_out(), "model.rue"))
    policy = rue.load(saved(tmp_path, solution.policy, "policy.rue"))
    assert rue.evaluate(model, policy).regret.tolist() == list(solution.regret)


def test_a_file_can_be_saved_over_while_what_was_in_it_is_in_use(tmp_path):
    path = saved(tmp_path, plain())
    loaded = rue.load(path)
    rue.save(path, laid_out())
    assert_same_model(plain(), loaded)
    rue.save(path, loaded)
    assert_same_model(loaded, rue.load(path))


# Equal things, equal files.


@pytest.mark.parametrize("make", [*MODELS.values(), *POLICIES.values()], ids=[*MODELS, *POLICIES])
def test_equal_things_give_equal_bytes(make, tmp_path):
    first, second = saved(tmp_path, make(), "first.rue"), saved(tmp_path, make(), "second.rue")
    again = saved(tmp_path, rue.load(first), "again.rue")
    assert first.read_bytes() == second.read_bytes() == again.read_bytes()


def test_a_solution_saved_twice_gives_equal_bytes(tmp_path):
    solution = rue.solve(laid_out(), rue.Regret(1, "stochastic"))
    first, second = saved(tmp_path, solution, "first.rue"), saved(tmp_path, solution, "second.rue")
    again = saved(tmp_path, rue.load(first), "again.rue")
    assert first.read_bytes() == second.read_bytes() == again.read_bytes()


def test_different_things_give_different_bytes(tmp_path):
    files = [saved(tmp_path, make(), f"{i}.rue").read_bytes() for i, make in enumerate(MODELS.values())]
    assert len(set(files)) == len(MODELS)


def test_the_file_is_a_plain_zip_that_other_tools_can_read(tmp_path):
    with zipfile.ZipFile(saved(tmp_path, with_samples())) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "header.json"
        header = json.loads(archive.read("header.json"))
        prob = np.load(io.BytesIO(archive.read("prob.npy")), allow_pickle=False)
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_STORED}
    assert (header["format"], header["version"], header["kind"]) == ("rue", 2, "model")
    assert header["sample_label"] == ["dry year", "wet year, März"]
    assert np.array_equal(prob, plain().prob)


def test_a_name_may_be_text_or_a_path_and_a_file_is_as_readable_as_any_other(tmp_path):
    ordinary = tmp_path / "ordinary"
    ordinary.write_bytes(b"")
    rue.save(str(tmp_path / "text.rue"), plain())
    assert_same_model(plain(), rue.load(str(tmp_path / "text.rue")))
    mode = stat.S_IMODE((tmp_path / "text.rue").stat().st_mode)
    assert mode == stat.S_IMODE(ordinary.stat().st_mode)


# Crashes.


class Crash(Exception):
    pass


def break_array(monkeypatch, error: BaseException) -> None:
    """The second array fails after some of it has been written."""
    write, calls = np.lib.format.write_array, []

    def failing(stream, array, **options):
        calls.append(array)
        if len(calls) == 2:
            stream.write(b"half")
            raise error
        write(stream, array, **options)

    monkeypatch.setattr(np.lib.format, "write_array", failing)


def raising(error: BaseException):
    def fail(*_, **__):
        raise error

    return fail


CRASHES = {
    "a bug while writing": (lambda patch: break_array(patch, Crash()), Crash),
    "Ctrl-C while writing": (lambda patch: break_array(patch, KeyboardInterrupt()), KeyboardInterrupt),
    "a full disk": (lambda patch: break_array(patch, OSError(errno.ENOSPC, "No space left on device")), rue.BadInput),
    "a failing disk": (
        lambda patch: patch.setattr(os, "fsync", raising(OSError(errno.EIO, "I/O error"))),
        rue.BadInput,
    ),
    "a crash before the move": (lambda patch: patch.setattr(os, "replace", raising(Crash())), Crash),
    "no move": (lambda patch: patch.setattr(os, "replace", raising(PermissionError(errno.EPERM, "No"))), rue.BadInput),
}


@pytest.mark.parametrize(("sabotage", "error"), CRASHES.values(), ids=CRASHES)
def test_a_crash_leaves_the_old_file_and_nothing_else(sabotage, error, tmp_path, monkeypatch):
    path = saved(tmp_path, plain())
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        sabotage(patch)
        with pytest.raises(error):
            rue.save(path, laid_out())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    rue.save(path, laid_out())
    assert_same_model(laid_out(), rue.load(path))


@pytest.mark.parametrize(("sabotage", "error"), CRASHES.values(), ids=CRASHES)
def test_a_crash_leaves_no_new_file(sabotage, error, tmp_path, monkeypatch):
    sabotage(monkeypatch)
    with pytest.raises(error):
        rue.save(tmp_path / "new.rue", laid_out())
    assert list(tmp_path.iterdir()) == []


def test_a_crash_while_exporting_leaves_the_old_export(tmp_path, monkeypatch):
    path = saved(tmp_path, two_nodes(), "policy.csv")
    before = path.read_text()
    monkeypatch.setattr(os, "fsync", raising(OSError(errno.EIO, "I/O error")))
    with pytest.raises(rue.BadInput):
        rue.save(path, POLICIES["randomised"]())
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def one_line(error: pytest.ExceptionInfo[BaseException]) -> str:
    message = str(error.value)
    assert len(message.splitlines()) == 1
    return message


def test_a_full_disk_is_one_clear_line(tmp_path, monkeypatch):
    CRASHES["a full disk"][0](monkeypatch)
    with pytest.raises(rue.BadInput) as refused:
        rue.save(tmp_path / "new.rue", plain())
    assert one_line(refused) == f"{tmp_path / 'new.rue'}: cannot be written (No space left on device)"


@pytest.mark.parametrize("name", ["model.rue", "policy.json", "policy.csv"])
def test_a_folder_that_cannot_be_written_is_one_clear_line(name, tmp_path, monkeypatch):
    """As root may write everywhere, the refusal of the system is played."""
    path = tmp_path / name
    monkeypatch.setattr(tempfile, "mkstemp", raising(PermissionError(errno.EACCES, "Permission denied")))
    with pytest.raises(rue.BadInput) as refused:
        rue.save(path, plain() if name.endswith(".rue") else two_nodes())
    assert one_line(refused) == f"{path}: cannot be written (Permission denied)"


def test_a_missing_folder_and_a_file_for_a_folder_are_one_clear_line(tmp_path):
    file = saved(tmp_path, plain())
    for path, reason in ((tmp_path / "no" / "m.rue", "No such file or directory"), (file / "m.rue", "Not a directory")):
        with pytest.raises(rue.BadInput) as refused:
            rue.save(path, plain())
        assert one_line(refused) == f"{path}: cannot be written ({reason})"


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    folder = tmp_path / "models.rue"
    folder.mkdir()
    with pytest.raises(rue.BadInput) as refused:
        rue.save(folder, plain())
    assert one_line(refused).startswith(f"{folder}: cannot be written")
    assert list(tmp_path.iterdir()) == [folder]
    assert list(folder.iterdir()) == []


def drawn_on() -> rue.UMDP:
    """A layout that JSON cannot hold."""
    return rue.UMDP(dataclasses.replace(plain().graph, layout={"grid": np.ones(2)}), plain().prob, plain().cost)


@pytest.mark.parametrize("name", ["thing.rue", "thing.json", "thing.csv"])
@pytest.mark.parametrize(
    "make", [lambda: 5, lambda: plain().graph, lambda: rue.Regret(), drawn_on], ids=["int", "Graph", "solver", "layout"]
)
def test_what_cannot_be_saved_is_one_clear_line(make, name, tmp_path):
    with pytest.raises(rue.BadInput) as refused:
        rue.save(tmp_path / name, make())
    assert "expected" in one_line(refused)
    assert list(tmp_path.iterdir()) == []


def test_a_model_is_not_written_as_json(tmp_path):
    with pytest.raises(rue.BadInput) as refused:
        rue.save(tmp_path / "m.json", plain())
    assert "a model cannot be written as" in one_line(refused)
    assert list(tmp_path.iterdir()) == []


# Exports.


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_csv_names_states_and_actions(tmp_path):
    rows = read_csv(saved(tmp_path, POLICIES["randomised"](), "policy.csv"))
    mill, bridge = 'the "old" mill', "brücke, südlich"
    assert [(row["node"], row["state"], row["action"]) for row in rows] == [
        ("0", mill, "go\twest"),
        ("0", mill, "it's a risk"),
        ("1", bridge, "go\twest"),
        ("2", "家", ""),
    ]
    assert [float(row["probability"]) for row in rows[:3]] == [1 / 3, 2 / 3, 1.0]
    assert [row["next"] for row in rows] == ["1", "0 2", "2", ""]


def test_csv_of_a_solution_lists_every_state(tmp_path):
    solution = rue.solve(laid_out(), rue.Regret())
    rows = read_csv(saved(tmp_path, solution, "policy.csv"))
    graph = laid_out().graph
    assert [row["state"] for row in rows] == list(graph.state_label)
    assert rows[13]["state"] == "(row 2, column 3)"
    chosen = [graph.action_label[graph.action[choice]] for choice in solution.policy.choice]
    assert [row["action"] for row in rows] == [*chosen, ""]
    assert {float(row["probability"]) for row in rows[:-1]} == {1.0}


def test_json_names_states_actions_and_next_nodes(tmp_path):
    controller = json.loads(saved(tmp_path, two_nodes(), "policy.json").read_text(encoding="utf-8"))
    mill, bridge, home = named().graph.state_label
    assert (controller["format"], controller["version"]) == ("rue policy", 1)
    assert controller["graph"]["fingerprint"] == named().graph.fingerprint
    assert controller["start"] == [{"node": 0, "probability": 1.0}]
    assert [(node["node"], node["state"]) for node in controller["nodes"]] == [
        (0, mill),
        (1, mill),
        (2, bridge),
        (3, home),
    ]
    assert [node["actions"] for node in controller["nodes"]] == [
        [
            {
                "action": "it's a risk",
                "probability": 1.0,
                "next": [{"state": mill, "node": 1}, {"state": home, "node": 3}],
            }
        ],
        [{"action": "go\twest", "probability": 1.0, "next": [{"state": bridge, "node": 2}]}],
        [{"action": "go\twest", "probability": 1.0, "next": [{"state": home, "node": 3}]}],
        [],
    ]


def test_json_holds_probabilities(tmp_path):
    controller = json.loads(saved(tmp_path, POLICIES["randomised"](), "policy.json").read_text(encoding="utf-8"))
    assert [action["probability"] for action in controller["nodes"][0]["actions"]] == [1 / 3, 2 / 3]
    assert [action["action"] for action in controller["nodes"][0]["actions"]] == ["go\twest", "it's a risk"]


def test_json_holds_the_start_of_a_mixture(tmp_path):
    controller = json.loads(saved(tmp_path, mixture(), "policy.json").read_text(encoding="utf-8"))
    assert controller["start"] == [{"node": 0, "probability": 0.25}, {"node": 1, "probability": 0.75}]


def test_without_names_exports_carry_numbers(tmp_path):
    policy = POLICIES["stationary"]()
    rows = read_csv(saved(tmp_path, policy, "policy.csv"))
    assert [(row["state"], row["action"]) for row in rows] == [("0", "1"), ("1", "0"), ("2", "")]
    controller = json.loads(saved(tmp_path, policy, "policy.json").read_text())
    outcomes = [{"state": "0", "node": 0}, {"state": "2", "node": 2}]
    assert controller["nodes"][0]["actions"] == [{"action": "1", "probability": 1.0, "next": outcomes}]


def test_an_export_of_a_solution_is_that_of_its_policy(tmp_path):
    solution = rue.solve(named(), rue.Regret(1, "stochastic"))
    for name in ("policy.json", "policy.csv"):
        of_solution = saved(tmp_path, solution, f"s-{name}").read_bytes()
        of_policy = saved(tmp_path, solution.policy, f"p-{name}").read_bytes()
        assert of_solution == of_policy


# No pickle.


class Trap:
    """Unpickling it would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def test_an_object_array_is_refused_and_not_run(tmp_path):
    sprung = tmp_path / "sprung"
    content = io.BytesIO()
    np.lib.format.write_array(content, np.array([[Trap(sprung)]], object), allow_pickle=True)
    source, path = saved(tmp_path, plain(), "sound.rue"), tmp_path / "trap.rue"
    with zipfile.ZipFile(source) as sound, zipfile.ZipFile(path, "w") as archive:
        for name in sound.namelist():
            archive.writestr(name, content.getvalue() if name == "prob.npy" else sound.read(name))
    with pytest.raises(rue.BadFile) as refused:
        rue.load(path)
    assert "object" in one_line(refused).lower()
    assert not sprung.exists()
    np.load(io.BytesIO(content.getvalue()), allow_pickle=True)
    assert sprung.exists()  # the trap works, so it was rue that did not step into it


def test_nothing_is_pickled_when_it_is_written(tmp_path):
    things = [make() for make in (*MODELS.values(), *POLICIES.values())]
    things.append(rue.solve(laid_out(), rue.Regret()))
    for thing in things:
        with zipfile.ZipFile(saved(tmp_path, thing)) as archive:
            for name in archive.namelist()[1:]:
                array = np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
                assert array.dtype.kind in "if"


def test_a_format_can_be_added_from_outside(tmp_path, monkeypatch):
    known, before = formats.endings(rue.UMDP), dict(formats.FORMATS)
    monkeypatch.setattr(formats, "FORMATS", type(formats.FORMATS)("rue.formats"))
    formats.FORMATS.update(before)
    model = rue.domains.Medical(seed=1).sample(2, seed=1)
    kept = {}
    added = formats.Format("kept", (".kept",), lambda path, model: kept[path], kept.__setitem__, (rue.UMDP,))
    formats.register_format(added)
    assert formats.endings(rue.UMDP) == (*known, ".kept") and ".kept" not in formats.endings(rue.Policy)
    path = tmp_path / "a.KEPT"
    path.touch()
    rue.save(path, model)
    assert rue.load(path) is model
    policy = rue.Policy.from_weights(model.graph, 1 / np.diff(model.graph.choice_ptr)[model.graph.choice_state])
    with pytest.raises(rue.BadInput, match=r"a policy cannot be written as .KEPT; expected a name ending in .rue or"):
        rue.save(path, policy)
    with pytest.raises(rue.BadInput, match=r"the ending '.kept' cannot be added"):
        formats.register_format(added)
