"""Experiments: what a spec stands for, a store that loses nothing, and runs that can be interrupted anywhere."""

import errno
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from clusters import dask_cluster

import rue
from rue.domains.glider import BUILT_IN
from rue.experiments import Experiment, Problems, Store, Task, code_version, dask_executor, read_spec, run_experiment
from rue.experiments import run as running
from rue.experiments.worker import perform

SPEC = """
title = "Small"
methods = ["reg-d1", "average", { name = "reg", steps = 2, options = "history" }]
seconds = 30

[[problems]]
domain = "disaster"
sizes = [{ width = 3, height = 3 }, { width = 4, height = 4 }]
seeds = 2
samples = 4
pool = 20
test = 10

[[problems]]
domain = "medical"
seeds = [7]
"""
# What two runs of one task may differ in.
OF_THE_RUN = {"seconds", "compile_seconds", "wall_seconds", "finished", "machine", "versions", "counters"}


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SPEC)
    return path


class Here(Executor):
    """Does the work at once, in this process."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def findings(store: Path) -> dict[str, dict]:
    """What was found, without what may differ from run to run; each task once."""
    lines = [json.loads(line) for line in (store / "records.jsonl").read_text().splitlines()]
    assert len({record["key"] for record in lines}) == len(lines)
    return {r["key"]: {name: value for name, value in r.items() if name not in OF_THE_RUN} for r in lines}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The findings of a run that nobody disturbs."""
    folder = tmp_path_factory.mktemp("reference")
    (folder / "small.toml").write_text(SPEC)
    summary = run_experiment(read_spec(folder / "small.toml"), folder / "store", executor=Here())
    assert (summary.total, summary.done, summary.failed, summary.added) == (15, 15, 0, 15)
    return findings(folder / "store")


# Specs


def test_a_spec_is_every_method_on_every_problem(spec):
    tasks = read_spec(spec).tasks()
    assert len(tasks) == 3 * (2 * 2 + 1) == len({task.key for task in tasks})
    first = tasks[0]
    assert first.problem.model == "disaster:seed=0,width=3,height=3,samples=4,pool=20,by=coverage"
    assert (first.problem.group, first.problem.size, first.problem.test) == ("disaster", "3×3", "10")
    assert [task.method for task in tasks[:3]] == ["reg-d1", "average", "reg-h2"]
    assert tasks[-1].problem.model == "medical:seed=7" and tasks[-1].problem.test == ""
    # Of each size the policies of the first problem are kept.
    assert {task.problem.model.split(",samples")[0] for task in tasks if task.keep} == {
        "disaster:seed=0,width=3,height=3", "disaster:seed=0,width=4,height=4", "medical:seed=7",
    }  # fmt: skip


def test_a_size_is_called_by_what_tells_it_from_the_others(tmp_path):
    sizes = ["{ width = 3, height = 3, diagonals = false }", "{ width = 4, height = 4, diagonals = false }"]

    def called(name, *which):
        problems = f'[[problems]]\n{name}\ndomain = "disaster"\nseeds = 1\nsizes = [{", ".join(which)}]\n'
        (tmp_path / "s.toml").write_text(f'methods = ["average"]\n{problems}')
        return [task.problem.size for task in read_spec(tmp_path / "s.toml").tasks()]

    assert called('name = "five squares"', *sizes) == ["3×3", "4×4"]
    # Without a name there may be other tables of the domain, and with one size nothing else says what it is.
    assert called("", *sizes) == ["3×3, diagonals=False", "4×4, diagonals=False"]
    assert called('name = "five squares"', sizes[0]) == ["3×3, diagonals=False"]
    # Nor where two tables have one name.
    tables = "\n".join(
        f'[[problems]]\nname = "n"\ndomain = "disaster"\nseeds = 1\nsizes = [{size}, {size.replace("3", "4")}]'
        for size in (sizes[0], "{ width = 3, height = 3, region_chance = 0.5 }")
    )
    (tmp_path / "s.toml").write_text(f'methods = ["average"]\n{tables}\n')
    names = [task.problem.size for task in read_spec(tmp_path / "s.toml").tasks()]
    assert names[0] == "3×3, diagonals=False" and len(set(names)) == 4
    chances = ["{ region_chance = 0.1 }", "{ region_chance = 0.2 }"]
    assert called('name = "more"', *chances) == ["region_chance=0.1", "region_chance=0.2"]


def test_a_changed_parameter_is_a_new_task_and_a_title_is_not(spec):
    before = {task.key for task in read_spec(spec).tasks()}
    for old, new, changed in (
        ('title = "Small"', 'title = "Large"', 0),
        ("steps = 2", "steps = 3", 5),
        ("seconds = 30", "seconds = 31", 15),
        ("pool = 20", "pool = 21", 12),
        ("test = 10", "test = 11", 12),
        ("seeds = [7]", "seeds = [8]", 3),
    ):
        spec.write_text(SPEC.replace(old, new))
        after = {task.key for task in read_spec(spec).tasks()}
        assert len(after - before) == changed


def test_the_contents_of_a_file_are_part_of_the_task(tmp_path):
    model = rue.domains.Disaster(width=3, height=3, seed=1)
    rue.save(tmp_path / "m.rue", model.sample(3, seed=1))
    rue.save(tmp_path / "t.rue", model.sample(5, seed=2))
    (tmp_path / "s.toml").write_text('methods = ["average"]\n[[problems]]\nmodel = "m.rue"\ntest = "t.rue"\n')
    (before,) = read_spec(tmp_path / "s.toml").tasks()
    record, _ = perform(before)
    assert record["status"] == "solved" and len(record["test"]["regret"]) == 5
    rue.save(tmp_path / "t.rue", model.sample(5, seed=3))
    (after,) = read_spec(tmp_path / "s.toml").tasks()
    assert before.key != after.key and before.problem.model == after.problem.model
    # The first task is of what was there before, and that is no more.
    record, _ = perform(replace(before, problem=replace(before.problem, size="again")))
    assert record["status"] == "failed" and "changed since the experiment began" in record["error"]


def test_the_same_files_in_another_folder_are_the_same_task(tmp_path, monkeypatch):
    keys = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        (folder / "models").mkdir(parents=True)
        model = rue.domains.Disaster(width=3, height=3, seed=1)
        rue.save(folder / "models" / "m.rue", model.sample(3, seed=1))
        rue.save(folder / "m.rue2", model.sample(5, seed=2))
        table = '[[problems]]\nmodel = "models/m.rue"\ntest = "m.rue2"\n'
        (folder / "s.toml").write_text(f'methods = ["average"]\n{table}')
        monkeypatch.chdir(folder)
        (task,) = read_spec("s.toml").tasks()
        monkeypatch.chdir(tmp_path)
        keys.append(task.key)
        described = task.describe()
        assert (described["model"], described["test"]) == ("m.rue", "m.rue2") and described["contents"]
        assert task.problem.model == str(folder / "models" / "m.rue")
        assert perform(task)[0]["status"] == "solved"  # wherever the work is done
    assert keys[0] == keys[1]


def glider_spec(folder: Path, size: str, test: str = "") -> Path:
    table = f'[[problems]]\ndomain = "glider"\nseeds = 2\nsizes = [{{ width = 4, height = 4, {size} }}]\n{test}'
    (folder / "s.toml").write_text(f'methods = ["average"]\n{table}')
    return folder / "s.toml"


def test_the_files_that_a_domain_reads_are_part_of_the_task(tmp_path, monkeypatch):
    shutil.copy(BUILT_IN, tmp_path / "sea.npz")
    rue.save(tmp_path / "t.rue", rue.domains.Glider(width=4, height=4, seed=0).sample(3, seed=5))
    spec = glider_spec(tmp_path, 'data = "sea.npz"', 'test = "t.rue"')
    monkeypatch.chdir(tmp_path.parent)
    first, second = read_spec(spec).tasks()
    assert first.problem.model == f"glider:seed=0,width=4,height=4,data={tmp_path / 'sea.npz'}"
    assert first.problem.test == str(tmp_path / "t.rue")
    described = first.describe()
    assert (described["model"], described["test"]) == ("glider:seed=0,width=4,height=4,data=sea.npz", "t.rue")
    record, _ = perform(first)
    assert record["status"] == "solved" and len(record["regret"]) == 12
    with (tmp_path / "sea.npz").open("ab") as stream:
        stream.write(b"more")
    changed = read_spec(spec).tasks()
    assert not {first.key, second.key} & {task.key for task in changed}
    shutil.copy(BUILT_IN, tmp_path / "sea.npz")
    assert read_spec(spec).tasks()[0].key == first.key
    (tmp_path / "deep.nc").write_bytes(b"depths")
    deep = read_spec(glider_spec(tmp_path, 'data = "sea.npz", bathymetry = "deep.nc"')).tasks()[0]
    assert deep.problem.files == (str(tmp_path / "sea.npz"), str(tmp_path / "deep.nc"))


@pytest.mark.parametrize(
    ("size", "test", "line"),
    [
        ('data = "none.npz"', "", "none.npz: there is no such file"),
        ('data = "a,b.npz"', "", "expected a path without commas"),
        ("apart = 0.5", 'test = "none.rue"', "none.rue: there is no such file"),
    ],
)
def test_a_file_that_a_domain_cannot_read_is_told_before_anything_runs(tmp_path, size, test, line):
    (tmp_path / "a,b.npz").touch()
    with pytest.raises(rue.BadFile, match=line):
        read_spec(glider_spec(tmp_path, size, test))


def test_several_numbers_of_samples_are_several_sizes(tmp_path):
    text = 'methods = ["average"]\n[[problems]]\ndomain = "medical"\nseeds = 2\nsamples = [3, 5]\n'
    (tmp_path / "a.toml").write_text(text)
    tasks = read_spec(tmp_path / "a.toml").tasks()
    assert [task.problem.size for task in tasks] == ["3 samples"] * 2 + ["5 samples"] * 2
    assert "samples=5" in tasks[-1].problem.model
    (tmp_path / "a.toml").write_text(text + "pool = 9\n")
    assert read_spec(tmp_path / "a.toml").tasks()[0].problem.size == "3 of 9 by coverage"
    (tmp_path / "a.toml").write_text(text.replace("[3, 5]", "3"))
    assert read_spec(tmp_path / "a.toml").tasks()[0].problem.size == ""


def test_problems_without_files_have_no_contents(spec):
    tasks = read_spec(spec).tasks()
    assert {(task.problem.contents, task.problem.files) for task in tasks} == {("", ())}
    # Records that were made once are to be found for ever, as long as the code is the same.
    assert replace(tasks[0], code="0.1.0").key == "ff2fad0361a13f3c3b0e1e8ca6ebc0b5"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("seeds = 2", "", "problems, table 1: the seeds of disaster are missing; expected seeds = 25"),
        ("seeds = 2", "seed = 2", "problems, table 1: unknown name in problems 'seed'; did you mean 'seeds'?"),
        ("seconds = 30", "second = 30", "unknown name in an experiment 'second'; did you mean 'seconds'?"),
        ('"reg-d1"', '"rag-d1"', "unknown method 'rag'"),
        ('name = "reg",', "", "has no name"),
        ("width = 3,", "widht = 3,", "unknown parameter of disaster 'widht'"),
        ("width = 3,", "width = 1,", "width is 1; expected"),
        ('domain = "medical"', "", "problems, table 2: expected either a domain or a model"),
        ('domain = "medical"\nseeds = [7]', 'model = "none.rue"', "there is no such file"),
        ('domain = "medical"', 'model = "none.rue"', "seeds is given with the model none.rue"),
        ("seeds = [7]", 'seeds = "7"', "seeds is '7'; expected a whole number, or a list"),
        ("seeds = [7]", "seeds = [-7]", "seed is -7"),
        ("seeds = [7]", "seeds = [7", "it is no TOML"),
        ("seeds = [7]", f"seeds = {'9' * 5000}", "it is no TOML"),
        ("seeds = [7]", f"seeds = {'9' * 4000}", "tasks; expected at most 100000"),
        ("seeds = [7]", f"seeds = {'[' * 5000}", "it is no TOML"),
        ("seeds = [7]", "seeds = 1_000_000_000", "tasks; expected at most 100000: fewer sizes or seeds"),
        ("width = 3,", f"width = {'9' * 4000},", "table 1: width is 9999"),
        ("samples = 4\npool = 20", "samples = 1_000_000_000", "of memory; expected at most"),
        ("pool = 20", f"pool = {'9' * 4000}", "of memory; expected at most"),
        ("test = 10", "test = 1_000_000_000_000", "of memory; expected at most"),
        ("seconds = 30", f"seconds = {'9' * 4000}", "seconds is 9999"),
        ("seconds = 30", "seconds = -1", "seconds is -1"),
        ("seconds = 30", "seconds = nan", "seconds is nan"),
        ("seconds = 30", 'seconds = "30"', "seconds is '30'; expected 0 or more"),
        ("seconds = 30", 'keep = "x"', "keep is 'x'; expected a whole number, 0 or more"),
        ("seconds = 30", "keep = -1", "keep is -1"),
        ("seconds = 30", 'reference = ["regg"]', "unknown method in reference 'regg'; did you mean 'reg-"),
        ("seconds = 30", 'reference = ["robust"]', "unknown method in reference 'robust'"),
        ("seconds = 30", 'reference = "reg-d1"', "reference is 'reg-d1'; expected a list of methods"),
        ("seconds = 30", "reference = [1]", "unknown method in reference '1'"),
        ('title = "Small"', "title = 5", "title is 5; expected text"),
        ('"average"', "5", "the method 5 has no name"),
        ("seeds = [7]", "seeds = [7]\nmethods = []", "table 2: methods is []; expected a list of one method or more"),
        ("seeds = [7]", 'seeds = [7]\nmethods = "reg"', "table 2: methods is 'reg'; expected a list"),
        ("seeds = [7]", 'seeds = [7]\nmethods = ["rag"]', "table 2: unknown method 'rag'"),
        ("seeds = [7]", "seeds = [7]\nseconds = -2", "table 2: seconds is -2"),
        ("seeds = [7]", "seeds = []", "table 2: seeds is []; expected a whole number, or a list"),
        ("seeds = [7]", "seeds = 0", "table 2: seeds is 0; expected a whole number, 1 or more"),
        ("seeds = [7]", "seeds = [7, 7]", "seeds is [7, 7]; expected each seed once"),
        ("seeds = [7]", "seeds = [7]\nname = 5", "table 2: name is 5; expected text"),
        ("seeds = [7]", "seeds = [7]\nsizes = []", "table 2: sizes is []; expected a list of tables"),
        ("seeds = [7]", "seeds = [7]\nsizes = 3", "table 2: sizes is 3; expected a list of tables"),
        ("seeds = [7]", "seeds = [7]\nsizes = [1]", "table 2: sizes is [1]; expected a list of tables"),
        ("width = 3,", "seed = 3,", "table 1: seed is given in sizes; expected the seeds as seeds = 25"),
        ("samples = 4", "samples = 0", "table 1: samples is 0; expected a whole number, 1 or more"),
        ("pool = 20", "pool = 3", "table 1: pool is 3; expected as many as the 4 samples"),
        ("samples = 4", "samples = [4, 30]", "table 1: pool is 20; expected as many as the 30 samples"),
        ("samples = 4", "samples = []", "table 1: samples is []; expected a whole number, or a list of different ones"),
        ("samples = 4", "samples = [4, 4]", "table 1: samples is [4, 4]; expected a whole number, or a list"),
        ("samples = 4", "samples = [0]", "table 1: samples is 0; expected a whole number, 1 or more"),
        ("seeds = [7]", "seeds = [7]\npool = 14", "table 2: pool is 14; expected as many as the 15 samples"),
        ("pool = 20", 'pool = 20\nby = "foo"', "table 1: unknown way to select samples 'foo'"),
        ("pool = 20", 'by = "random"', "table 1: by is 'random' and there is no pool"),
        ("test = 10", "test = 0", "table 1: test is 0; expected a whole number, 1 or more"),
        ("test = 10", "test = 1.5", "table 1: test is 1.5; expected a whole number"),
        ("test = 10", "test = true", "table 1: test is True; expected a whole number"),
        ("test = 10", 'test = "abc"', "abc: there is no such file"),
        ('domain = "medical"\nseeds = [7]', "model = 5", "table 2: model is 5; expected text"),
        ('domain = "medical"\nseeds = [7]', 'model = "m.rue"\ntest = 9', "test is 9 with the model m.rue; expected"),
    ],
)
def test_a_bad_spec_is_told_in_one_line_before_anything_runs(spec, old, new, line):
    assert old in SPEC
    spec.write_text(SPEC.replace(old, new))
    with pytest.raises(rue.RueError) as caught:
        read_spec(spec)
    assert line in str(caught.value) and str(spec) in str(caught.value) and "\n" not in str(caught.value)


def test_no_spec(tmp_path):
    with pytest.raises(rue.BadInput, match="there is no such file"):
        read_spec(tmp_path / "none.toml")
    (tmp_path / "empty.toml").write_text('methods = ["reg"]')
    with pytest.raises(rue.RueError, match="there are no problems"):
        read_spec(tmp_path / "empty.toml")
    (tmp_path / "empty.toml").write_text('[[problems]]\ndomain="medical"\nseeds=1')
    with pytest.raises(rue.RueError, match="methods is missing"):
        read_spec(tmp_path / "empty.toml")
    (tmp_path / "empty.toml").write_text('methods=[]\n[[problems]]\ndomain="medical"\nseeds=1')
    with pytest.raises(rue.RueError, match=r"methods is \[\]; expected a list of one method or more"):
        read_spec(tmp_path / "empty.toml")
    with pytest.raises(rue.BadInput, match="there are no problems"):
        Experiment(methods=["reg"], problems=[])


def test_one_problem_in_two_tables():
    one = Problems(domain="disaster", name="A", sizes=[{"width": 3, "height": 3}], seeds=2, samples=3)
    both = Experiment(methods=["reg"], problems=[one, replace(one, seeds=3)], keep=1)
    assert len(both.tasks()) == 3 and [task.keep for task in both.tasks()] == [True, False, False]
    again = replace(one, name="B")
    with pytest.raises(
        rue.BadInput, match=r"table 2: reg-d1 on disaster:.* is both in 'A 3×3' and in 'B 3×3'; expected"
    ):
        Experiment(methods=["reg"], problems=[one, again]).tasks()
    # Other runs on it have records of their own.
    assert len(Experiment(methods=["reg"], problems=[one, replace(again, seconds=9)]).tasks()) == 4


# Versions


def test_another_version_of_rue_is_a_new_task(spec, tmp_path, monkeypatch):
    store = tmp_path / "store"
    assert run_experiment(read_spec(spec), store, executor=Here()).added == 15
    monkeypatch.setattr("rue.experiments.worker.code_version", lambda: "9.9.9+0")
    monkeypatch.setattr(Experiment, "tasks", lambda self, tasks=Experiment.tasks: [
        replace(task, code="9.9.9+0") for task in tasks(self)
    ])  # fmt: skip
    summary = run_experiment(read_spec(spec), store, executor=Here())
    assert (summary.added, summary.again) == (15, 15)
    assert "; the store also has 15 of them by another version of rue" in str(summary)
    records, missing = Store(store).current()
    assert {record["task"]["rue"] for record in records} == {"9.9.9+0"} and (len(records), missing) == (15, 0)
    assert len(Store(store).records()) == 30  # what was there is still there
    assert run_experiment(read_spec(spec), store, executor=Here()).added == 0


def test_a_worker_with_another_version_says_so(spec):
    record, _ = perform(replace(read_spec(spec).tasks()[0], code="0.0.1+0"))
    assert record["status"] == "failed"
    assert f"the worker has rue {code_version()}; expected 0.0.1+0" in record["error"]


def test_the_code_that_computes_is_part_of_the_version(tmp_path, monkeypatch):
    """A changed solver is another version; a changed picture, or the line ends of Windows, are not."""
    shutil.copytree(Path(rue.__file__).parent, tmp_path / "rue", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(rue, "__file__", str(tmp_path / "rue" / "__init__.py"))
    fresh = code_version.__wrapped__
    before = fresh()
    assert before == code_version() and before.startswith(f"{rue.__version__}+")
    for name, changes in {
        "report/style.py": False, "experiments/tables.py": False, "cli/app.py": False,
        "experiments/worker.py": True, "baselines.py": True, "structure_kernels.py": True,
    }.items():  # fmt: skip
        path = tmp_path / "rue" / name
        text = path.read_bytes()
        path.write_bytes(text.replace(b"\n", b"\r\n"))
        assert fresh() == before
        path.write_bytes(text + b"\n# changed\n")
        assert (fresh() != before) == changes
        path.write_bytes(text)


# Runs and records


def test_a_record_tells_all(reference, spec):
    task = read_spec(spec).tasks()[0]
    record, solution = perform(task)
    assert solution is not None  # it is one to keep
    train = rue.select(rue.domains.Disaster(width=3, height=3, seed=0).sample(20, seed=0), 4)
    test = rue.domains.Disaster(width=3, height=3, seed=0).sample(10, seed=1)
    assert record["regret"] == rue.evaluate(train, solution.policy).regret.tolist()
    assert record["test"]["regret"] == rue.evaluate(test, solution.policy).regret.tolist()
    for part, judged in (
        (record, rue.evaluate(train, solution.policy)),
        (record["test"], rue.evaluate(test, solution.policy)),
    ):
        assert part["spread"]["mean"] == judged.mean_regret and part["spread"]["tail 0.1"] == judged.tail(0.1)
        assert part["spread"]["quantile 0.99"] == judged.quantile(0.99)
    assert record["max_regret"][1] == pytest.approx(max(record["regret"]), rel=1e-9) and record["status"] == "solved"
    assert record["task"]["parameters"]["steps"] == 1 and record["task"]["seconds"] == 30
    assert {"python", "numpy", "numba", "highspy", "rue"} <= record["versions"].keys()
    assert record["machine"]["cores"] >= 1 and 0 < record["seconds"] < record["wall_seconds"]
    assert record["compile_seconds"] >= 0 and record["counters"]["rounds"] >= 1
    assert {k: v for k, v in record.items() if k not in OF_THE_RUN} == reference[task.key]


def test_running_again_does_only_what_is_missing(spec, reference, tmp_path):
    store = tmp_path / "store"
    first = run_experiment(read_spec(spec), store, executor=Here())
    assert first.added == 15 and findings(store) == reference
    assert run_experiment(read_spec(spec), store, executor=Here()).added == 0
    assert Store(store).spec == SPEC and Store(store).title == "Small" and Store(store).reference == ()
    spec.write_text(SPEC.replace("seeds = [7]", "seeds = [7, 9]"))
    assert run_experiment(read_spec(spec), store, executor=Here()).added == 3
    assert len(Store(store).records()) == 18
    kept = [record for record in Store(store).records() if Store(store).solution(record["key"]) is not None]
    assert len(kept) == 9
    solution = Store(store).solution(kept[0]["key"])
    assert list(solution.regret) == kept[0]["regret"]


def test_a_failed_run_is_a_record_and_can_be_tried_again(spec, tmp_path, monkeypatch):
    def fails(model, solver, **_):
        if solver == rue.Average():
            raise MemoryError("no room")
        return rue.solve(model, solver, bound=False)

    monkeypatch.setattr("rue.experiments.worker.solve", fails)
    summary = run_experiment(read_spec(spec), tmp_path / "store", executor=Here())
    assert (summary.done, summary.failed) == (10, 5) and "5 failed (--retry does them again)" in str(summary)
    assert str(summary).endswith("; the first error, of 5 runs: MemoryError: no room")
    failed = [record for record in Store(tmp_path / "store").records() if record["status"] == "failed"]
    assert all(r["method"] == "average" and r["error"] == "MemoryError: no room" for r in failed)
    assert "Traceback" in failed[0]["traceback"]
    monkeypatch.undo()
    assert run_experiment(read_spec(spec), tmp_path / "store", executor=Here()).added == 0
    again = run_experiment(read_spec(spec), tmp_path / "store", executor=Here(), retry=True)
    assert (again.added, again.failed, again.done) == (5, 0, 15) and "error" not in str(again)


def test_a_machine_that_cannot_be_described_is_a_failed_run(spec, monkeypatch):
    def fails():
        raise OSError("no /proc here")

    monkeypatch.setattr("rue.experiments.worker.machine", fails)
    record, _ = perform(read_spec(spec).tasks()[0])
    assert record["status"] == "failed" and record["error"] == "OSError: no /proc here"


def test_names_of_old_records_are_those_of_the_present_experiment(spec, tmp_path):
    store = tmp_path / "store"
    run_experiment(read_spec(spec), store, executor=Here())
    spec.write_text(SPEC.replace("test = 10", 'test = 10\nname = "rescue"').replace("height = 4 }", "height = 5 }"))
    summary = run_experiment(read_spec(spec), store, executor=Here())
    records, missing = Store(store).current()
    assert (summary.added, len(records), missing) == (6, 15, 0)
    assert {(r["group"], r["size"]) for r in records} == {("rescue", "3×3"), ("rescue", "4×5"), ("medical", "")}
    assert len(Store(store).records()) == 21
    (store / "tasks.jsonl").write_text('{"key": "k"}\n')
    with pytest.raises(rue.BadFile, match="line 1 is damaged; expected a task"):
        Store(store).current()


def test_a_moved_file_is_found_where_it_is(tmp_path):
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        rue.save(folder / "m.rue", rue.domains.Disaster(width=3, height=3, seed=1).sample(3, seed=1))
        (folder / "s.toml").write_text('methods = ["average"]\n[[problems]]\nmodel = "m.rue"\n')
        summary = run_experiment(read_spec(folder / "s.toml"), tmp_path / "store", executor=Here())
    assert summary.added == 0
    ((record,), _) = Store(tmp_path / "store").current()
    assert record["problem"] == str(tmp_path / "two" / "m.rue")


def test_what_was_to_be_kept_and_is_not_there_is_done_again(spec, tmp_path):
    store = tmp_path / "store"
    run_experiment(read_spec(spec), store, executor=Here())
    lost = next((store / "solutions").iterdir())
    lost.unlink()
    again = run_experiment(read_spec(spec), store, executor=Here())
    assert (again.added, again.done) == (1, 15) and lost.is_file()
    records = {record["key"]: record for record in Store(store).records()}
    assert len(records) == 15 and list(Store(store).solution(lost.stem).regret) == records[lost.stem]["regret"]
    spec.write_text("keep = 2\n" + SPEC)  # six more policies are wanted now
    assert run_experiment(read_spec(spec), store, executor=Here()).added == 6
    assert len(list((store / "solutions").iterdir())) == 15


def test_order_and_executor_do_not_matter(spec, reference, tmp_path):
    class Backwards(ThreadPoolExecutor):
        def submit(self, fn, /, *args):
            return super().submit(lambda: time.sleep(random.random() / 50) or fn(*args))

    with Backwards(3) as pool:
        run_experiment(read_spec(spec), tmp_path / "store", executor=pool)
    assert findings(tmp_path / "store") == reference


def test_progress_is_told(spec, tmp_path):
    told = []
    run_experiment(read_spec(spec), tmp_path / "store", executor=Here(), progress=told.append)
    assert [progress.done for progress in told] == list(range(1, 16)) and told[-1].total == 15


# Lost workers


def die_once(task: Task):
    """Stands for `perform` in a process that is killed at its first task of a kind."""
    mark = Path(os.environ["RUE_TEST_MARK"])
    if task.method == "average" and len(list(mark.iterdir())) < int(os.environ["RUE_TEST_DEATHS"]):
        (mark / str(time.monotonic_ns())).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return perform(task)


@pytest.mark.parametrize("deaths", [1, 3])
def test_a_lost_worker_means_a_run_tried_again(spec, reference, tmp_path, monkeypatch, deaths):
    (tmp_path / "mark").mkdir()
    monkeypatch.setenv("RUE_TEST_MARK", str(tmp_path / "mark"))
    monkeypatch.setenv("RUE_TEST_DEATHS", str(deaths))
    monkeypatch.setattr(running, "perform", die_once)
    summary = run_experiment(read_spec(spec), tmp_path / "store", jobs=2)
    found = findings(tmp_path / "store")
    if deaths == 1:
        assert (summary.done, summary.failed) == (15, 0) and found == reference
    else:  # one task is to blame, or two that took turns; the others are as ever
        lost = [record for record in found.values() if record["status"] == "failed"]
        assert len(lost) <= 1 and summary.done == 15 - len(lost)
        assert all("its worker died" in record["error"] for record in lost)
        assert {k: r for k, r in found.items() if r not in lost}.items() <= reference.items()


def test_a_task_that_always_kills_its_worker_is_told_and_the_others_are_done(spec, reference, tmp_path, monkeypatch):
    (tmp_path / "mark").mkdir()
    monkeypatch.setenv("RUE_TEST_MARK", str(tmp_path / "mark"))
    monkeypatch.setenv("RUE_TEST_DEATHS", "1000")
    monkeypatch.setattr(running, "perform", die_once)
    text = SPEC.replace("{ width = 3, height = 3 }, ", "").replace("seeds = 2", "seeds = 1")
    spec.write_text(text.partition('[[problems]]\ndomain = "medical"')[0])
    summary = run_experiment(read_spec(spec), tmp_path / "store", jobs=2)
    assert (summary.total, summary.done, summary.failed) == (3, 2, 1)
    (lost,) = [record for record in findings(tmp_path / "store").values() if record["status"] == "failed"]
    assert lost["method"] == "average" and "its worker died 3 times" in lost["error"]


# Those who do the work


class Slow(Executor):
    """Does the first task and keeps the others waiting."""

    def __init__(self):
        self.given = []

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        if not self.given:
            future.set_result(fn(*args, **kwargs))
        self.given.append(future)
        return future


def test_what_was_handed_out_is_taken_back_when_stopped(spec, tmp_path):
    slow = Slow()
    summary = run_experiment(
        read_spec(spec), tmp_path / "store", executor=slow, progress=lambda _: os.kill(os.getpid(), signal.SIGINT)
    )
    assert (summary.added, summary.stopped) == (1, True)
    assert [future.cancelled() for future in slow.given] == [False] + 14 * [True]


def test_processes_of_others_are_left_alone(spec, tmp_path):
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(100,))
    other.start()
    try:

        def fails(_):
            raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            run_experiment(read_spec(spec), tmp_path / "store", jobs=2, progress=fails)
        assert multiprocessing.active_children() == [other] and other.is_alive()
    finally:
        other.kill()
        other.join()


def test_processes_end_by_themselves_when_all_is_done(spec, tmp_path):
    threads = threading.active_count()
    spec.write_text('methods = ["average"]\n[[problems]]\ndomain = "medical"\nseeds = 2\nsamples = 3\n')
    assert run_experiment(read_spec(spec), tmp_path / "store", jobs=1).done == 2
    assert multiprocessing.active_children() == [] and threading.active_count() == threads


def test_no_jobs_are_refused(spec, tmp_path):
    out, err = command("experiment", "run", spec, "--store", tmp_path / "store", "--jobs", 0).communicate(timeout=60)
    assert out == "" and err == "rue: jobs is 0; expected a whole number, 1 or more\n"


# Interruptions, with the command itself


def command(*words: object, **settings) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "rue.cli", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **settings,
    )  # fmt: skip


@pytest.fixture
def cluster():
    """The address of a Dask scheduler on loopback, and its three workers."""
    pytest.importorskip("distributed", reason="the dask extra is not installed")
    with dask_cluster(workers=3) as found:
        yield found


def test_a_dask_cluster_that_loses_a_worker(spec, reference, tmp_path, cluster):
    address, workers = cluster
    store = tmp_path / "store"
    process = command("experiment", "run", spec, "--store", store, "--scheduler", address)
    wait_for_records(store, 2)
    workers[0].kill()
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert "15 of 15 runs are done" in out and findings(store) == reference


def test_who_connects_to_a_cluster_hangs_up(cluster):
    address, _ = cluster
    with dask_executor(address) as executor:
        assert executor.submit(sum, [1, 2]).result(timeout=60) == 3
        client = executor._client
        assert client.status == "running"
    assert client.status == "closed"


def wait_for_records(store: Path, count: int, seconds: float = 120.0) -> None:
    records, deadline = store / "records.jsonl", time.monotonic() + seconds
    while time.monotonic() < deadline:
        if records.exists() and records.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"there are no {count} records after {seconds} s")


def test_no_scheduler_there_is_told_in_one_line(spec, tmp_path):
    process = command("experiment", "run", spec, "--store", tmp_path / "store", "--scheduler", "tcp://127.0.0.1:9")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and out == ""
    assert "no Dask scheduler answers there" in err and err.count("\n") == 1
    process = command("experiment", "run", spec, "--store", tmp_path, "--scheduler", "tcp://127.0.0.1:9", "--jobs", 2)
    assert "expected one of the two" in process.communicate(timeout=60)[1]


@pytest.mark.parametrize("times", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments_and_resumed(spec, reference, tmp_path, times):
    store = tmp_path / "store"
    moments = random.Random(times)
    kills = 0
    while kills < times:
        process = command("experiment", "run", spec, "--store", store, "--jobs", 1 + kills % 2)
        try:
            process.wait(timeout=moments.uniform(1.0, 5.0))
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        process.communicate()
        records = store / "records.jsonl"
        if records.exists() and records.read_bytes().count(b"\n") == 15:  # too quick: from the start
            assert findings(store) == reference
            records.unlink()
    process = command("experiment", "run", spec, "--store", store)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert findings(store) == reference


def test_ctrl_c_ends_cleanly(spec, tmp_path):
    long = SPEC.replace("seeds = 2", "seeds = 400")
    spec.write_text(long)
    process = command("experiment", "run", spec, "--store", tmp_path / "store", "--jobs", 2)
    wait_for_records(tmp_path / "store", 3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "stopped, the same command goes on" in out and "Traceback" not in err
    done = len(findings(tmp_path / "store"))
    assert 3 <= done < 2403 and f"{done} of 2403 runs are done" in out


@pytest.mark.parametrize("delay", [0.0, 0.3, 1.0])
def test_ctrl_c_while_processes_start_ends_cleanly(spec, tmp_path, delay):
    spec.write_text(SPEC.replace("seeds = 2", "seeds = 400"))
    store = tmp_path / "store"
    process = command("experiment", "run", spec, "--store", store, "--jobs", 2, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (store / "spec.toml").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it, to the processes too
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err == "" and "stopped, the same command goes on" in out


# A store that cannot be written


def test_a_full_disk_is_told_and_nothing_is_half_written(spec, reference, tmp_path):
    store = tmp_path / "store"

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    # Coverage would write a file of its own, and fail.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    process = command("experiment", "run", spec, "--store", store, preexec_fn=little_room, env=plain)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 2 and out == ""
    assert "cannot be written" in err and "what was there is as it was" in err and err.count("\n") == 1
    text = (store / "records.jsonl").read_bytes()
    assert text.endswith(b"\n") and 0 < len(text) <= 20_000
    assert findings(store).items() <= reference.items()
    assert run_experiment(read_spec(spec), store, executor=Here()).done == 15
    assert findings(store) == reference


def test_the_spec_is_replaced_whole_or_not_at_all(spec, tmp_path, monkeypatch):
    store = tmp_path / "store"
    run_experiment(read_spec(spec), store, executor=Here())
    before = {path: path.read_bytes() for path in store.iterdir() if path.is_file()}

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    spec.write_text(SPEC.replace("Small", "Large"))
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        rue.BadInput, match=r"cannot be written \(No space left on device\); what was there is as it was"
    ):
        run_experiment(read_spec(spec), store, executor=Here())
    assert {path: path.read_bytes() for path in store.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("text", [b'title = "Sma', b"\xff\xfe", b"reference = 3"])
def test_a_damaged_spec_in_a_store_is_told(tmp_path, text):
    (tmp_path / "spec.toml").write_bytes(text)
    with pytest.raises(rue.BadFile, match=r"spec\.toml: "):
        print(Store(tmp_path).title, Store(tmp_path).reference)


def test_half_a_line_of_a_machine_that_died_is_cut_off(spec, reference, tmp_path):
    store = tmp_path / "store"
    run_experiment(read_spec(spec), store, executor=Here())
    records = store / "records.jsonl"
    text = records.read_bytes()
    for cut in (1, 500, text.rfind(b"\n", 0, -1) + 2 - len(text)):
        records.write_bytes(text[: -abs(cut)])
        assert len(Store(store).records()) == 14  # readers do not see it
        assert run_experiment(read_spec(spec), store, executor=Here()).added == 1
        assert findings(store) == reference


def test_a_damaged_line_is_told(spec, tmp_path):
    store = tmp_path / "store"
    run_experiment(read_spec(spec), store, executor=Here())
    lines = (store / "records.jsonl").read_bytes().split(b"\n")
    lines[4] = lines[4][:-30]
    (store / "records.jsonl").write_bytes(b"\n".join(lines))
    with pytest.raises(rue.BadFile, match="line 5 is damaged; expected a record"):
        Store(store).records()


def test_a_place_that_is_no_folder_and_a_store_that_is_in_use(spec, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(rue.BadInput, match="cannot be written"):
        run_experiment(read_spec(spec), tmp_path / "file", executor=Here())
    with pytest.raises(rue.BadInput, match="there are no records"):
        Store(tmp_path / "nothing").records()
    with Store(tmp_path / "store").writing(), pytest.raises(rue.BadInput, match="another run is writing to this store"):
        run_experiment(read_spec(spec), tmp_path / "store", executor=Here())
