"""The command line as people use it: what it prints, what it writes, how it ends."""

import csv
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import rue
from rue import cli, experiments, parsing
from rue._jit import KERNELS
from rue._text import percent_text
from rue.cli import app, insight
from rue.cli import compare as compare_command
from rue.cli import experiments as experiments_of_the_command_line
from rue.compilation import kernels_of
from rue.formats import rue_file, writing

COMMANDS = (
    "generate",
    "learn",
    "info",
    "solve",
    "evaluate",
    "compare",
    "verify",
    "simplify",
    "simulate",
    "plot",
    "convert",
    "warm",
)
GRID = "disaster:width=5,height=4,samples=4,seed=2"


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """What was printed, with single spaces, so that the layout of tables does not matter."""
        return " ".join(self.out.split())

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object that was printed, read strictly."""
        assert self.out.endswith("\n")
        assert len(self.out.splitlines()) == 1
        facts = json.loads(self.out, parse_constant=refuse_constant)
        assert isinstance(facts, dict)
        return facts


def refuse_constant(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def number(value: float | str) -> float:
    """A figure; infinities are written as text."""
    assert isinstance(value, int | float) or value in ("inf", "-inf")
    return float(value)


def rounded_down(value: float) -> str:
    """Five digits, as proved lower bounds are shown."""
    return f"{float(Context(prec=5, rounding=ROUND_FLOOR).create_decimal(repr(value))):.5g}"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs a command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: object, status: int = 0) -> Done:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["rue", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert ended.value.code == status, err
        if status == 0:
            assert err == ""
        return Done(status, out, err)

    return command


def in_a_process(*arguments: object, script: str | None = None, **variables: str) -> Done:
    start = ["-m", "rue.cli"] if script is None else ["-c", script]
    done = subprocess.run(
        [sys.executable, *start, *map(str, arguments)],
        capture_output=True, encoding="utf-8", check=False, timeout=300, env={**os.environ, **variables},
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def weather(labels: tuple[str, ...] = ("dry year", "wet year", "dry again")) -> rue.UMDP:
    """Bridge or ford; the ford is cheap when it is dry and may drown one when it is wet. Two years are the same."""
    builder = rue.Builder(3)
    builder.add("bank", "bridge", {"town": 1.0}, cost=5.0)
    builder.add("bank", "ford", {"town": [1.0, 0.5, 1.0], "river bed": [0.0, 0.5, 0.0]}, cost=[1.0, 2.0, 1.0])
    builder.add("river bed", "wait", {"river bed": 1.0})
    model = builder.goal("town").build()
    return rue.UMDP(model.graph, model.prob, model.cost, labels)


BRIDGE, FORD = [0, 0, 2], [1, 0, 2]  # states are numbered as they are named: bank, town, river bed


def infeasible() -> rue.UMDP:
    """Each sample ends in a step or two; an adversary who switches samples sends one to and fro for ever."""
    builder = rue.Builder(2)
    builder.add("s", "go", {"t": [1, 0], "goal": [0, 1]}, cost=1.0)
    builder.add("t", "go", {"goal": [1, 0], "s": [0, 1]}, cost=1.0)
    return builder.goal("goal").build()


def assert_close(left: Any, right: Any) -> None:
    assert np.asarray(left, float) == pytest.approx(np.asarray(right, float), abs=1e-9)


# generate


def test_generate_writes_the_samples_of_the_domain(run):
    settings = ["--set", "width=5", "--set", "height=4", "--samples", 3, "--seed", 7]
    done = run("generate", "disaster", *settings, "-o", "d.rue")
    model, expected = rue.load("d.rue"), rue.domains.Disaster(width=5, height=4, seed=7).sample(3, seed=7)
    assert done.out == f"d.rue: {expected!r}\n"
    assert model.graph.fingerprint == expected.graph.fingerprint
    assert np.array_equal(model.prob, expected.prob)
    assert np.array_equal(model.cost, expected.cost)
    assert model.graph.state_label[-1] == "(row 3, column 4)"


def test_generate_twice_gives_the_same_file_and_another_seed_another(run):
    for name, seed in (("first", 1), ("second", 1), ("other", 2)):
        run("generate", "medical", "--samples", 2, "--seed", seed, "--output", f"{name}.rue")
    first, second, other = (Path(f"{name}.rue").read_bytes() for name in ("first", "second", "other"))
    assert first == second
    assert first != other


@pytest.mark.parametrize("by", ["coverage", "random", "regret"])
def test_generate_chooses_out_of_a_pool(run, by):
    arguments = ["--set", "width=4", "--set", "height=3", "--seed", 3, "--samples", 3, "--pool", 9, "--by", by]
    facts = run("generate", "disaster", *arguments, "-o", "d.rue", "--json").json
    assert facts["samples"] == 3
    assert facts["file"] == "d.rue"
    pool = rue.domains.Disaster(width=4, height=3, seed=3).sample(9, seed=3)
    assert np.array_equal(rue.load("d.rue").prob, rue.select(pool, 3, by=by, seed=3).prob)


def test_a_domain_with_its_parameters_is_a_model(run):
    run("generate", "disaster", "--set", "width=5", "--set", "height=4", "--samples", 4, "--seed", 2, "-o", "d.rue")
    from_file, from_text = run("info", "d.rue", "--json").json, run("info", GRID, "--json").json
    assert from_file.pop("model") == "d.rue"
    assert from_text.pop("model") == GRID
    assert from_file == from_text
    assert np.array_equal(rue.load("d.rue").prob, parsing.read_model(GRID).prob)


# info


def test_info_tells_sizes_and_names(run):
    facts = run("info", "medical:samples=6,seed=1", "--json").json
    model = rue.domains.Medical(seed=1).sample(6, seed=1)
    graph = model.graph
    assert facts["states"] == graph.states == 141
    assert facts["choices"] == graph.choices
    assert facts["transitions"] == graph.transitions
    assert facts["samples"] == 6
    assert facts["memory"] == model.nbytes
    assert facts["goals"] == 1
    assert facts["initial"] == "(h=10, d=0)"
    assert_close(facts["cost_range"], [0.0, 0.05 * 19 + 2])
    assert facts["fingerprint"] == graph.fingerprint
    assert facts["same_support"] is True
    assert facts["samples_with_dead_ends"] == 0
    assert facts["proper_policy"] is True
    assert facts["duplicate_samples"] == []


def test_info_in_words(run):
    words = run("info", "medical:samples=6,seed=1").words
    for phrase in ("states 141", "samples 6", "goals 1", "initial (h=10, d=0)", "samples with dead ends 0"):
        assert phrase in words
    assert "duplicate samples none" in words


def test_info_reports_duplicates_and_dead_ends(run):
    rue.save("w.rue", weather())
    facts = run("info", "w.rue", "--json").json
    assert facts["duplicate_samples"] == [["dry year", "dry again"]]
    assert facts["samples_with_dead_ends"] == 3
    assert facts["same_support"] is False
    assert facts["proper_policy"] is True
    words = run("info", "w.rue").words
    assert "duplicate samples dry year = dry again" in words
    assert "samples with dead ends 3" in words


def test_info_counts_only_the_samples_with_dead_ends(run):
    """The pit can be left in the first sample."""
    builder = rue.Builder(2)
    builder.add("start", "safe", {"end": 1.0}, cost=3.0).add("start", "risky", {"end": 0.5, "pit": 0.5}, cost=1.0)
    builder.add("pit", "climb", {"end": [1.0, 0.0], "pit": [0.0, 1.0]}, cost=1.0)
    rue.save("p.rue", builder.goal("end").build())
    facts = run("info", "p.rue", "--json").json
    assert facts["samples_with_dead_ends"] == 1
    assert facts["duplicate_samples"] == []
    assert facts["initial"] == "start"


# solve


@pytest.mark.parametrize(
    ("arguments", "solver", "short"),
    [
        (["--method", "reg"], rue.Regret(), "reg-d1"),
        (["--method", "reg-s1"], rue.Regret(1, "stochastic"), "reg-s1"),
        (["--method", "reg", "--set", "options=stochastic"], rue.Regret(1, "stochastic"), "reg-s1"),
        (["--method", "reg", "--set", "steps=1", "--set", "prune=false"], rue.Regret(prune=False), "reg-d1"),
        (["--method", "cemr", "--set", "options=history"], rue.MyopicRegret(1, "history"), "cemr-h1"),
        (["--method", "robust", "--set", "kappa=1e-6"], rue.WorstCase(kappa=1e-6), "robust"),
        (["--method", "average"], rue.Average(), "average"),
        (["--method", "best"], rue.BestSample(), "best"),
    ],
    ids=["reg", "reg-s1", "stochastic", "not pruned", "history", "kappa", "average", "best"],
)
def test_solve_gives_the_figures_of_the_library(run, arguments, solver, short):
    facts = run("solve", GRID, *arguments, "-o", "s.rue", "--json").json
    expected = rue.solve(parsing.read_model(GRID), solver)
    assert facts["model"] == GRID
    assert facts["file"] == "s.rue"
    assert facts["method"] == short
    assert facts["solver"] == solver.name
    assert facts["parameters"] == {name: getattr(solver, name) for name in vars(solver)}
    assert facts["status"] == "solved"
    assert facts["objective"]["measures"] == solver.measures
    for name in ("objective", "max_regret"):
        interval = getattr(expected, name)
        assert_close([facts[name]["lower"], facts[name]["upper"]], [interval.lower, interval.upper])
    assert list(facts["regret"]) == ["0", "1", "2", "3"]
    assert_close(list(facts["regret"].values()), expected.regret)
    assert_close(facts["mean_regret"], sum(expected.regret) / 4)
    assert 0 <= facts["max_regret"]["upper"] - max(facts["regret"].values()) < 1e-9  # the error of the judge
    assert facts["seconds"] >= 0
    stored = rue.load("s.rue")
    assert stored.solver == solver
    assert list(stored.regret) == list(facts["regret"].values())
    assert stored.seconds == facts["seconds"]
    assert stored.counters == facts["counters"]


def test_solve_in_words(run):
    rue.save("w.rue", weather())
    words = run("solve", "w.rue", "--method", "reg", "-o", "s.rue").words
    assert "Regret(steps=1, options='deterministic'" in words
    assert "status solved" in words
    assert "max regret 4 in sample dry year" in words
    assert "mean regret 2.6667" in words
    assert "dry year 4 wet year 0 dry again 4" in words
    assert "written to s.rue" in words
    assert list(rue.load("s.rue").regret) == pytest.approx([4.0, 0.0, 4.0])


def test_solve_names_samples_in_json(run):
    rue.save("w.rue", weather())
    facts = run("solve", "w.rue", "--json").json
    assert facts["regret"] == {
        "dry year": pytest.approx(4.0),
        "wet year": pytest.approx(0.0),
        "dry again": pytest.approx(4.0),
    }
    assert facts["file"] is None
    assert sorted(path.name for path in Path().iterdir()) == ["w.rue"]


def test_solve_writes_a_policy_as_text(run):
    run("solve", GRID, "--method", "reg", "-o", "policy.csv")
    with Path("policy.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert rows.pop()["state"] == "(row 3, column 4)"  # the goal, where nothing is done
    assert len(rows) == 19
    assert {row["action"] for row in rows} <= set(rue.domains.disaster.MOVES)
    run("solve", GRID, "--method", "reg", "-o", "policy.json")
    nodes = json.loads(Path("policy.json").read_text(encoding="utf-8"))["nodes"]
    assert nodes[7]["state"] == "(row 1, column 2)"
    assert [node["actions"][0]["action"] for node in nodes[:-1]] == [row["action"] for row in rows]


@pytest.mark.parametrize("method", parsing.METHODS)
def test_no_time_still_gives_a_policy(run, method):
    facts = run("solve", GRID, "--method", method, "--seconds", 0, "-o", "s.rue", "--json", status=1).json
    assert facts["status"] == "time_limit"
    solution = rue.load("s.rue")
    assert solution.status is rue.Status.TIME_LIMIT
    model = parsing.read_model(GRID)
    verdict = rue.evaluate(model, solution.policy)
    assert math.isfinite(verdict.max_regret)
    assert_close(facts["max_regret"]["upper"], verdict.max_regret)
    full = rue.solve(model, solution.solver).objective
    lower, upper = (number(facts["objective"][end]) for end in ("lower", "upper"))
    assert lower <= full.upper + 1e-9
    assert upper >= full.lower - 1e-9
    assert "status time_limit" in run("solve", GRID, "--method", method, "--seconds", 0, status=1).words


def test_no_rounds_still_give_a_policy(run):
    facts = run("solve", GRID, "--method", "reg", "--iterations", 1, "--json", status=1).json
    assert facts["status"] == "iteration_limit"
    assert number(facts["max_regret"]["upper"]) < math.inf
    assert facts["counters"]["rounds"] == 1


def test_an_infeasible_model_ends_with_status_one(run):
    model = infeasible()
    assert rue.solve(model, rue.Regret()).status is rue.Status.INFEASIBLE
    own = rue.evaluate(model, rue.Policy.stationary(model, [0, 0, 0]))
    assert own.value == pytest.approx([2.0, 1.0])  # the one policy there is reaches the goal in each sample
    rue.save("i.rue", model)
    for method in ("reg", "reg-s1", "cemr", "robust"):
        done = run("solve", "i.rue", "--method", method, "-o", "s.rue", "--json", status=1)
        assert done.err == ""
        assert done.json["status"] == "infeasible"
        assert done.json["objective"]["upper"] == "inf"
        assert rue.load("s.rue").status is rue.Status.INFEASIBLE
        in_words = run("solve", "i.rue", "--method", method, status=1)
        assert "status infeasible" in in_words.words
    assert run("solve", "i.rue", "--method", "average", "--json").json["status"] == "solved"
    assert run("info", "i.rue", "--json").json["samples_with_dead_ends"] == 0


# Outputs: checked before any work, and never lost.


@pytest.fixture
def no_work(monkeypatch):
    """Whatever would take long fails the test."""

    def refuse(*_, **__):
        raise AssertionError("work was done before the output was checked")

    for name in ("policies.read_and_warm_up", "compare.read_and_warm_up", "plot.parsing.read_model"):
        monkeypatch.setattr(f"rue.cli.{name}", refuse)
    monkeypatch.setattr("rue.experiments.make_tables", refuse)
    monkeypatch.setattr("rue.cli.models.read_log", refuse)


@pytest.mark.usefixtures("no_work")
def test_outputs_are_checked_before_any_work(run):
    rue.save("m.rue", weather())
    rue.save("s.rue", rue.Policy.stationary(weather(), BRIDGE))
    Path("folder.rue").mkdir()
    Path("log.csv").touch()
    Path("link.rue").symlink_to("m.rue")
    Path("hard.rue").hardlink_to("m.rue")
    before = sorted(Path().iterdir())
    generate = ("generate", "medical", "--seed", 1, "-o")
    learn = ("learn", "log.csv", "--initial", "a", "--seed", 1, "-o")
    for words, line in {
        ("solve", "m.rue", "-o", "no/such/x.rue"): "no/such/x.rue: cannot be written (there is no folder no/such)",
        ("solve", "m.rue", "-o", "x.docx"): "x.docx: the solution ends in '.docx'; expected .rue, .json or .csv",
        ("solve", "m.rue", "-o", "x"): "x: the solution ends in 'nothing'; expected .rue, .json or .csv",
        ("solve", "m.rue", "-o", "m.rue"): "m.rue: the solution would replace the input m.rue; expected another name",
        ("solve", "m.rue", "-o", "./link.rue"): "would replace the input m.rue",
        ("solve", "link.rue", "-o", "hard.rue"): "would replace the input link.rue",
        ("solve", "m.rue", "-o", "folder.rue"): "folder.rue: cannot be written (it is a folder)",
        ("solve", "m.rue", "-o", f"{'x' * 300}.rue"): "cannot be written (File name too long)",
        ("compare", "m.rue", "--report", "no/x.html"): "cannot be written (there is no folder no)",
        ("compare", "m.rue", "--report", "x.rue"): "x.rue: the page ends in '.rue'; expected .html or .htm",
        (*generate, "x.json"): "x.json: the model ends in '.json'; expected .rue",
        (*generate, "no/x.rue"): "cannot be written (there is no folder no)",
        (*learn, "log.csv"): "the model would replace the input log.csv",
        (*learn, "no/x.rue"): "cannot be written (there is no folder no)",
        ("convert", "m.rue", "m.rue"): "the model would replace the input m.rue",
        ("convert", "m.rue", "x.xyz"): "x.xyz: the model ends in '.xyz'; expected .rue",
        ("convert", "s.rue", "x.xyz"): "x.xyz: the policy ends in '.xyz'; expected .rue, .json or .csv",
        ("plot", "m.rue", "s.rue", "-o", "s.rue"): "the picture ends in '.rue'; expected .png, .svg or .pdf",
        ("plot", "m.rue", "s.rue", "-o", "no/x.png"): "cannot be written (there is no folder no)",
        ("experiment", "tables", "st", "-o", "x.pdf"): "the table ends in '.pdf'; expected .txt, .md, .tex or .csv",
        ("experiment", "tables", "st", "-o", "no/x.md"): "cannot be written (there is no folder no)",
    }.items():
        done = run(*words, status=2)
        assert line in done.err and done.err.count("\n") == 1 and done.out == "", words
    assert sorted(Path().iterdir()) == before
    assert np.array_equal(rue.load("m.rue").prob, weather().prob)


def failing(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes writing fail where the path has some words in it, as on a full disk."""
    kept = writing.write_atomically

    def write(target, *rest):
        if wrong in str(target):
            raise rue.BadInput(f"{target}: cannot be written (No space left on device)")
        return kept(target, *rest)

    for module in (writing, rue_file):
        monkeypatch.setattr(module, "write_atomically", write)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("suffix", [".rue", ".csv"])
def test_a_result_that_cannot_be_written_is_printed_and_kept(run, monkeypatch, tmp_path, as_json, suffix):
    (tmp_path / "full").mkdir()
    (tmp_path / "spare").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spare"))
    failing("full", monkeypatch)
    rue.save("w.rue", weather())
    done = run("solve", "w.rue", "-o", f"full/s{suffix}", *(["--json"] if as_json else []), status=1)
    (spare,) = (tmp_path / "spare").iterdir()
    assert done.err == (
        f"rue: full/s{suffix}: cannot be written (No space left on device); the result is kept in {spare}\n"
    )
    if as_json:
        assert done.json["file"] == str(spare) and done.json["max_regret"]["upper"] == pytest.approx(4)
    else:
        assert "max regret 4 in sample dry year" in done.words and f"written to {spare}" in done.words
    if suffix == ".rue":
        assert rue.load(spare).regret == pytest.approx((4.0, 0.0, 4.0))
    else:
        assert "bridge" in spare.read_text()
    assert list((tmp_path / "full").iterdir()) == []


def test_a_result_that_can_be_kept_nowhere_is_still_printed(run, monkeypatch):
    failing("s", monkeypatch)
    monkeypatch.setenv("HOME", str(Path("s").absolute()))
    monkeypatch.setattr("tempfile.tempdir", str(Path("s").absolute()))
    done = run("solve", GRID, "-o", "s.rue", "--json", status=1)
    assert done.json["file"] is None and done.json["status"] == "solved"
    assert done.err.endswith("(No space left on device); nor could the result be kept in another folder\n")


# What is wrong where a regret is infinite.


def doors() -> rue.UMDP:
    """Behind each door is a pit in one sample, and none can tell which."""
    builder = rue.Builder(2)
    builder.add("yard", "left", {"home": [0, 1], "pit": [1, 0]}, cost=1.0)
    builder.add("yard", "right", {"home": [1, 0], "pit": [0, 1]}, cost=1.0)
    builder.add("pit", "stay", {"pit": 1.0}, cost=1.0)
    return builder.goal("home").build()


def test_samples_that_clash_are_told_by_every_command(run):
    rue.save("d.rue", doors())
    clash = "No policy of any kind reaches a goal with probability one in every sample: samples 0 and 1 clash."
    where = "In state yard, where samples 0 and 1 are possible: left may lead into a dead end in sample 0; right may"
    words = run("info", "d.rue").words
    assert clash in words and where in words and "proper policy none reaches a goal in every sample" in words
    facts = run("info", "d.rue", "--json").json
    assert facts["proper_policy"] is False and facts["diagnosis"]["clash"]["state"] == "yard"
    for method in parsing.METHODS:
        done = run("solve", "d.rue", "--method", method, "-o", "s.rue", status=1)
        assert clash in done.words and where in done.words
        diagnosis = run("solve", "d.rue", "--method", method, "--json", status=1).json["diagnosis"]
        assert diagnosis["proper"] == "none" and clash in diagnosis["lines"]
        assert diagnosis["clash"]["deadly"] == {"left": ["0"], "right": ["1"]}
    done = run("compare", "d.rue", "--seconds", 5, status=1)
    assert done.out.count(clash) == 1 and done.out.count("the policy may enter the dead end pit") <= 4
    assert all(method["diagnosis"]["clash"] for method in run("compare", "d.rue", "--json", status=1).json["methods"])


def test_a_policy_that_may_miss_the_goal_is_told_where(run):
    rue.save("w.rue", weather())
    rue.save("ford.rue", rue.Policy.stationary(weather(), FORD))
    line = (
        "In sample wet year the policy may enter the dead end river bed: it takes ford in state bank. "
        "Safe there: bridge."
    )
    assert line in run("evaluate", "w.rue", "ford.rue").words
    facts = run("evaluate", "w.rue", "ford.rue", "--json").json
    assert facts["diagnosis"]["lines"][0] == line
    assert facts["diagnosis"]["lost"][0]["dead_end"] == "river bed"
    rue.save("dry.rue", weather().subset([0]))
    facts = run("evaluate", "dry.rue", "ford.rue", "--test", "w.rue", "--json").json
    assert facts["diagnosis"] is None and facts["test"]["diagnosis"]["lines"][0] == line
    assert line in run("evaluate", "dry.rue", "ford.rue", "--test", "w.rue").words
    # Nothing is wrong with the bridge, and nothing is said.
    assert run("solve", "w.rue", "--json").json["diagnosis"] is None
    assert "dead end" not in run("solve", "w.rue").words


def test_a_finite_regret_in_an_infeasible_game_is_told_apart(run):
    rue.save("i.rue", infeasible())
    done = run("solve", "i.rue", "--method", "reg", status=1)
    assert (
        "No policy reaches a goal if the sample may change at every step, as reg, cemr and robust assume." in done.words
    )
    assert "clash" not in done.words


@pytest.fixture
def few():
    """A method that says that three samples were active, and that no clock ended it."""

    class Few(rue.Average):
        name = "few"

        def run(self, model, run):
            run.count("active samples", 3)
            run.count("by counts")
            return super().run(model, run)

    yield
    rue.Solver.known.pop("few")


@pytest.mark.usefixtures("few")
def test_solve_tells_of_fresh_samples_where_few_independent_ones_decide(run):
    drawn = "medical:samples=80,seed=1"
    scenario = run("solve", drawn, "--method", "few", "--json").json["scenario"]
    bound = rue.scenario_bound(samples=80, active=4)
    assert scenario == {"confidence": 0.95, "samples": 80, "active": 3, "exceeds_max_regret_at_most": bound}
    said = "the policy follows from 3 of 80 independent samples, and no other one is worse."
    words = run("solve", drawn, "--method", "few").words
    assert said in words and "With 95 % confidence, a fresh sample has more regret than" in words
    # How the samples of a file were chosen is not known, and selected ones are no draws.
    rue.save("m.rue", parsing.read_model(drawn))
    for silent in (["m.rue"], [drawn + ",pool=100"], ["glider:samples=12,seed=1,width=4,height=4"]):
        assert run("solve", *silent, "--method", "few", "--json").json["scenario"] is None
        assert "confidence" not in run("solve", *silent, "--method", "few").words
    assert said in run("solve", "m.rue", "--method", "few", "--independent").words
    assert run("solve", drawn, "--method", "average", "--json").json["scenario"] is None


# evaluate


def test_evaluate_gives_the_figures_of_the_judge(run):
    run("solve", GRID, "--method", "average", "-o", "s.rue")
    facts = run("evaluate", GRID, "s.rue", "--json").json
    verdict = rue.evaluate(parsing.read_model(GRID), rue.load("s.rue").policy)
    assert facts["model"] == GRID
    assert facts["policy"] == "s.rue"
    assert facts["value"] == verdict.value.tolist()
    assert facts["optimal"] == verdict.optimal.tolist()
    assert facts["regret"] == verdict.regret.tolist()
    assert facts["max_regret"] == verdict.max_regret == max(facts["regret"])
    assert facts["mean_regret"] == verdict.mean_regret
    assert facts["worst_sample"] == verdict.worst_sample
    assert facts["error"] == verdict.error
    assert facts["samples"] == ["0", "1", "2", "3"]


def test_evaluate_in_blocks_sums_up_and_lists_all_as_arrays(run, monkeypatch):
    run("solve", GRID, "--method", "average", "-o", "s.rue")
    policy = rue.load("s.rue").policy
    many = GRID.replace("samples=4", "samples=40")
    domain = rue.domains.Disaster(width=5, height=4, seed=2)
    source = rue.Source.from_domain(domain, 40, seed=2, block=7)
    verdict = rue.evaluate(source, policy)
    facts = run("evaluate", many, "s.rue", "--block", 7, "--json").json
    assert facts["value"] == verdict.value.tolist() and facts["regret"] == verdict.regret.tolist()
    assert facts["optimal"] == verdict.optimal.tolist() and facts["error"] == verdict.error
    assert (facts["max_regret"], facts["mean_regret"]) == (verdict.max_regret, verdict.mean_regret)
    assert facts["worst_sample"] == verdict.worst_sample and len(facts["samples"]) == 40
    assert facts["quantiles"]["0.99"] == verdict.quantile(0.99)
    assert (facts["blocks"], facts["judged"], facts["complete"]) == (6, 40, True) and "weight" not in facts
    assert run("evaluate", many, "s.rue", "--block", 7, "--jobs", 2, "--json").json == facts
    words = run("evaluate", many, "s.rue", "--block", 7).words
    assert "40 in 6 blocks; the 20 worst are listed" in words and "99.9 % have at most" in words
    # Without --block a model of few samples is a model, also if processes judge its parts.
    whole = rue.evaluate(parsing.read_model(GRID), policy)
    assert run("evaluate", GRID, "s.rue", "--jobs", 1, "--json").json["regret"] == whole.regret.tolist()
    monkeypatch.setattr(parsing, "MANY_SAMPLES", 39)
    source = parsing.read_model_or_source(many)
    assert isinstance(source, rue.Source) and source.blocks == 1
    assert (source.block(0).cost != domain.sample(40, seed=2).cost).any()  # other draws
    assert isinstance(parsing.read_model_or_source(GRID), rue.UMDP)
    for more, reason in (
        (("--test", 5), "which is judged in blocks; expected one of the two"),
        (("--jobs", 2, "--scheduler", "tcp://127.0.0.1:9"), "expected one of the two"),
        (("--block", 0), "block is 0; expected a whole number, 1 or more"),
    ):
        assert reason in run("evaluate", many, "s.rue", *more, status=2).err
    selected = run("evaluate", many + ",by=random", "s.rue", status=2).err
    assert "by is 'random' for samples in blocks; expected none, as all of them count" in selected


def test_solve_and_verify_in_blocks(run, monkeypatch):
    many = GRID.replace("samples=4", "samples=120")
    source = rue.Source.from_domain(rue.domains.Disaster(width=5, height=4, seed=2), 120, seed=2, block=50)
    solution = rue.solve(source, rue.Adaptive())
    facts = run("solve", many, "--method", "adaptive", "--block", 50, "--json", "-o", "s.rue").json
    assert list(facts["regret"].values()) == list(solution.regret)
    assert facts["max_regret"]["lower"] == solution.max_regret.lower
    assert facts["scenario"]["active"] == solution.counters["active samples"]
    for more in (("--jobs", 2), ()):
        again = run("solve", many, "--method", "adaptive", "--block", 50, *more, "--json").json
        assert again["regret"] == facts["regret"] and again["counters"] == facts["counters"]
    assert "the 30 worst of 120 samples" in run("solve", many, "--method", "mixture", "--block", 50).words
    assert run("verify", many, "s.rue", "--block", 50, "--json").json["bound"] >= solution.max_regret.lower
    assert "is for another model" in run("verify", many, "s.rue", status=2).err  # other draws
    plain, spread = (run("solve", GRID, "--method", "reg", *more, "--json").json for more in ((), ("--jobs", 1)))
    assert spread["regret"] == plain["regret"]
    refused = run("solve", many, "--method", "average", "--block", 50, status=2).err
    assert "Average() needs all samples at once and a source is given; expected" in refused
    monkeypatch.setattr(parsing, "MANY_SAMPLES", 119)
    usual = run("solve", many, "--method", "adaptive", "--json").json["regret"]
    assert usual != run("solve", many.replace("120", "119"), "--method", "adaptive", "--json").json["regret"]
    assert len(run("solve", many, "--method", "average", "--json").json["regret"]) == 120  # all at once, as before


def test_solve_in_a_folder(run, tmp_path):
    domain = rue.domains.Disaster(width=5, height=4, seed=2)
    (tmp_path / "many").mkdir()
    for i in range(3):
        rue.save(f"many/{i}.rue", domain.sample(2, seed=i))
    assert list(run("solve", "many", "--method", "adaptive", "--json").json["regret"])[:2] == ["0, 0", "0, 1"]
    assert "needs all samples at once" in run("solve", "many", "--method", "reg", status=2).err


def test_a_source_that_was_not_judged_in_time_is_told(run, monkeypatch):
    monkeypatch.setattr("rue.solution.GRACE_SECONDS", 0.0)
    done = run("solve", GRID, "--method", "adaptive", "--block", 1, "--seconds", 0, "--json", status=1)
    assert done.err == "rue: stopped: 0 of 4 samples were judged\n"
    assert done.json["diagnosis"] is None and set(done.json["regret"].values()) == {"inf"}


def test_evaluate_in_a_folder(run, tmp_path):
    domain = rue.domains.Disaster(width=5, height=4, seed=2)
    run("solve", GRID, "--method", "average", "-o", "s.rue")
    (tmp_path / "many").mkdir()
    models = [domain.sample(1 + i, seed=i).with_weight(range(1, 2 + i)) for i in range(3)]
    for name, model in zip("abc", models, strict=True):
        rue.save(f"many/{name}.rue", model)
    facts = run("evaluate", "many", "s.rue", "--json").json
    assert facts["samples"] == ["a", "b, 0", "b, 1", "c, 0", "c, 1", "c, 2"] and facts["blocks"] == 3
    policy = rue.load("s.rue").policy
    assert facts["regret"] == [r for model in models for r in rue.evaluate(model, policy).regret.tolist()]
    assert facts["weight"] == pytest.approx([1 / 6, 2 / 18, 4 / 18, 3 / 36, 6 / 36, 9 / 36])
    assert "expected none, as each file is a block" in run("evaluate", "many", "s.rue", "--block", 2, status=2).err


def test_evaluate_in_blocks_can_be_stopped_and_tells_of_endless_regrets(run, monkeypatch):
    rue.save("w.rue", weather())
    rue.save("ford.rue", rue.Policy.stationary(weather(), FORD))
    facts = run("evaluate", "w.rue", "ford.rue", "--block", 1, "--json").json
    assert facts["max_regret"] == "inf" and facts["diagnosis"] is not None
    assert "wet year" in run("evaluate", "w.rue", "ford.rue", "--block", 1).words

    class Stops:
        def __init__(self, *_):
            self.reports = 0

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def __call__(self, progress):
            self.reports += 1
            if self.reports == 2:
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("rue.cli.blocks.ProgressBar", Stops)
    run("solve", GRID, "--method", "average", "-o", "s.rue")
    done = run("evaluate", GRID, "s.rue", "--block", 1, "--json", status=130)
    assert done.err == "rue: stopped: 2 of 4 samples were judged\n"
    assert done.json["judged"] == 2 and not done.json["complete"] and done.json["regret"][2:] == ["inf", "inf"]
    assert done.json["max_regret"] == max(done.json["regret"][:2])


def test_verify_checks_the_proof_in_a_solution(run):
    run("solve", GRID, "--method", "adaptive", "--set", "gap=0.01", "-o", "s.rue")
    solution = rue.load("s.rue")
    facts = run("verify", GRID, "s.rue", "--json").json
    assert facts["bound"] == pytest.approx(solution.max_regret.lower, rel=1e-9)
    assert facts["objective"] == "regret" and facts["points"] == solution.certificate.points
    assert facts["proved"] is True and "tail" not in facts
    words = run("verify", GRID, "s.rue").words
    assert words.startswith(f"proved: no policy has a max regret below {rounded_down(facts['bound'])}")
    run("solve", GRID, "--method", "adaptive", "--set", "objective=cost", "-o", "c.rue")
    assert "no policy has a worst-case cost below" in run("verify", GRID, "c.rue").words
    for tail, figure in ({"1": "mean regret below", "0.5": "mean regret in the worst 50 % below"}).items():
        run("solve", GRID, "--set", f"tail={tail}", "-o", "t.rue")
        assert run("verify", GRID, "t.rue").words.startswith(f"proved: no policy has a {figure} ")
        assert run("verify", GRID, "t.rue", "--json").json["tail"] == float(tail)


def test_verify_rejects_what_does_not_follow(run):
    run("solve", GRID, "--method", "reg", "-o", "s.rue")
    solution = rue.load("s.rue")
    proof = solution.certificate
    rue.save("more.rue", replace(solution, certificate=replace(proof, bound=proof.bound * 1.001)))
    assert "claims a bound of" in run("verify", GRID, "more.rue", status=1).err
    refused = run("verify", GRID, "more.rue", "--json", status=1).json
    assert refused["proved"] is False and "claims a bound of" in refused["reason"] and "bound" not in refused
    rue.save("value.rue", replace(solution, certificate=replace(proof, value=proof.value * 1.001)))
    assert "only" in run("verify", GRID, "value.rue", status=1).err
    assert "another model" in run("verify", GRID.replace("seed=2", "seed=3"), "s.rue", status=2).err
    rue.save("none.rue", replace(solution, certificate=None))
    assert "expected a solution with a certificate" in run("verify", GRID, "none.rue", status=2).err
    rue.save("policy.rue", solution.policy)
    assert "expected a solution" in run("verify", GRID, "policy.rue", status=2).err


def test_evaluate_on_fresh_draws_says_how_likely_worse_is(run):
    run("solve", GRID, "-o", "s.rue")
    facts = run("evaluate", GRID, "s.rue", "--test", "50", "--confidence", "0.9", "--json").json
    fresh = rue.domains.Disaster(width=5, height=4, seed=2).sample(50, seed=3)
    verdict = rue.evaluate(fresh, rue.load("s.rue").policy)
    assert facts["test"]["regret"] == verdict.regret.tolist()
    assert facts["max_regret"] == max(rue.load("s.rue").regret)  # of the model itself, beside it
    scenario = facts["test"]["scenario"]
    assert scenario["exceeds_max_regret_at_most"] == pytest.approx(1 - 0.1 ** (1 / 50))
    assert scenario["samples"] == 50 and scenario["confidence"] == 0.9
    words = run("evaluate", GRID, "s.rue", "--test", "50", "--confidence", "0.9").words
    assert (
        "With 90 % confidence, a fresh sample has more regret than" in words and "at most 4.6 %" in words
    )  # rounded up
    other = run("evaluate", GRID, "s.rue", "--test", "50", "--seed", "9", "--json").json
    assert other["test"]["regret"] != facts["test"]["regret"]


def test_nothing_is_said_of_fresh_samples_where_that_is_not_valid(run):
    run("solve", GRID, "-o", "s.rue")
    domain = rue.domains.Disaster(width=5, height=4, seed=2)
    # The same draws again, by another seed than the domain's own: the policy was made with them.
    rue.save("m.rue", domain.sample(4, seed=9))
    seen = run("evaluate", "m.rue", "s.rue", "--test", "10", "--seed", "9", "--json").json["test"]
    assert seen["seen_before"] == 4 and seen["scenario"] is None
    words = run("evaluate", "m.rue", "s.rue", "--test", "10", "--seed", "9").words
    assert "Nothing is said about fresh samples: 4 of the 10 test samples are the model's own" in words
    # A solution knows what it was planned with, whatever model it is held against.
    words = run("evaluate", "m.rue", "s.rue", "--test", GRID, "--independent").words
    assert "Nothing is said about fresh samples: the policy was planned with these samples" in words
    # Samples that were chosen, or are the hours of a day, are no independent draws; only the user can know of a file.
    rue.save("t.rue", rue.select(domain.sample(30, seed=6), 12))
    test = run("evaluate", GRID, "s.rue", "--test", "t.rue", "--json").json["test"]
    assert test["scenario"] is None
    rue.save("t.rue", domain.sample(12, seed=7))
    test = run("evaluate", GRID, "s.rue", "--test", "t.rue", "--independent", "--json").json["test"]
    assert test["scenario"]["samples"] == 12


def test_names_cannot_tear_a_table_apart_or_command_the_terminal(run):
    model = rue.domains.Disaster(width=3, height=3, seed=1).sample(3, seed=1)
    rue.save("m.rue", replace(model, sample_label=("[bold]one[/bold]", "two\nlines", "red \x1b[31mink")))
    for command in (("solve", "m.rue", "-o", "s.rue"), ("evaluate", "m.rue", "s.rue")):
        out = run(*command).out
        assert "[bold]one[/bold]" in out and "two lines" in out and "red �[31mink" in out and "\x1b" not in out
    out = run("simulate", "m.rue", "s.rue", "--sample", "1", "--seed", "1", "--episodes", "9").out
    assert out.startswith("sample two lines: mean cost")
    assert run("evaluate", "m.rue", "s.rue", "--json").json["samples"][1] == "two\nlines"


def test_draws_that_are_alike_by_chance_are_fresh_all_the_same(run):
    few = "disaster:width=4,height=4,samples=5,seed=4"  # without swamps: obstacles alone, so few samples are possible
    run("solve", few, "-o", "s.rue")
    test = run("evaluate", few, "s.rue", "--test", "40", "--json").json["test"]
    assert test["seen_before"] > 0 and test["scenario"] is not None


def test_a_policy_that_misses_the_goal_promises_nothing(run):
    builder = rue.Builder(samples=2)
    builder.add("a", "try", {"a": [0.5, 1.0], "b": [0.5, 0.0]}, cost=1.0).add("a", "go", {"b": 1.0}, cost=4.0).goal("b")
    model = builder.build()
    rue.save("m.rue", model.subset([0]))
    rue.save("t.rue", model)
    rue.save("p.rue", rue.Policy.stationary(model, [0, 0]))
    words = run("evaluate", "m.rue", "p.rue", "--test", "t.rue", "--independent").words
    assert "∞" in words and "confidence" not in words


def test_a_level_is_told_even_if_some_test_samples_miss_the_goal(run):
    builder = rue.Builder(samples=400)
    ways = {"a": [1.0] + [0.5] * 399, "b": [0.0] + [0.5] * 399}
    builder.add("a", "try", ways, cost=1.0).add("a", "go", {"b": 1.0}, cost=4.0).goal("b")
    rue.save("t.rue", builder.build())
    rue.save("m.rue", builder.build().subset([1]))
    rue.save("p.rue", rue.Policy.stationary(builder.build(), [0, 0]))
    test = run("evaluate", "m.rue", "p.rue", "--test", "t.rue", "--independent", "--json").json["test"]
    assert test["scenario"]["exceeds_max_regret_at_most"] is None and test["scenario"]["level"] == 0.0
    assert number(test["max_regret"]) == math.inf and test["quantiles"]["0.99"] == 0.0
    words = run("evaluate", "m.rue", "p.rue", "--test", "t.rue", "--independent").words
    assert "a fresh sample has more regret than 0 with a probability of at most 5 %." in words


def test_evaluate_tells_the_level_that_few_fresh_samples_exceed(run):
    run("solve", GRID, "-o", "s.rue")
    arguments = ["evaluate", GRID, "s.rue", "--test", "200", "--probability", "0.1"]
    test = run(*arguments, "--json").json["test"]
    verdict = rue.evaluate(
        rue.domains.Disaster(width=5, height=4, seed=2).sample(200, seed=3), rue.load("s.rue").policy
    )
    assert test["scenario"]["level"] == verdict.level(0.1, 0.95) and test["scenario"]["probability"] == 0.1
    assert "With the same confidence, it has more regret than" in run(*arguments).words
    few = run("evaluate", GRID, "s.rue", "--test", "20").words
    assert few.endswith("For a probability of at most 5 % it takes 59 samples.")
    rue.save("t.rue", rue.domains.Disaster(width=5, height=4, seed=2).sample(9, seed=9).with_weight(range(9)))
    words = run("evaluate", GRID, "s.rue", "--test", "t.rue", "--independent").words
    assert "Nothing is said about fresh samples: the test samples have weights, which draws do not have." in words


def test_evaluate_tells_mean_tail_and_quantiles_by_weights(run):
    model = weather().with_weight([1, 2, 5])
    rue.save("w.rue", model)
    rue.save("bridge.rue", rue.Policy.stationary(model, BRIDGE))
    facts = run("evaluate", "w.rue", "bridge.rue", "--tail", "0.8", "--json").json
    assert facts["weight"] == [0.125, 0.25, 0.625]
    assert facts["mean_regret"] == facts["value_of_perfect_information"] == pytest.approx(3.0)
    assert facts["tail_regret"] == {"0.8": pytest.approx(3.75)}
    assert facts["quantiles"] == {"0.5": pytest.approx(4), "0.9": pytest.approx(4), "0.99": pytest.approx(4)}
    assert facts["value_of_knowing"] == pytest.approx([0.5, 0.0, 2.5])
    words = run("evaluate", "w.rue", "bridge.rue", "--tail", "0.8").words
    assert "sample weight cost optimal regret worth knowing dry year 0.125 5 1 4 0.5 wet year 0.25 5 5 0 0" in words
    assert "mean 3, 3.75 in the worst 80 %; 90 % have at most 4, 99 % have at most 4;" in words
    saved = "To know the true sample would save 3 on average compared with this policy, its mean regret (the EVPI,"
    assert saved in words
    run("solve", "w.rue", "--method", "average", "-o", "s.rue")
    solved = run("solve", "w.rue", "--method", "average", "--json").json
    assert solved["weight"] == [0.125, 0.25, 0.625] and list(rue.load("s.rue").weight) == solved["weight"]
    assert "dry year 0.125 4" in run("solve", "w.rue", "--method", "average").words


def test_bad_tails_and_probabilities_are_told_in_one_line(run):
    run("solve", GRID, "-o", "s.rue")
    for words, line in {
        ("--tail", "0"): "tail is 0.0; expected above 0 and at most 1",
        ("--tail", "1.5"): "tail is 1.5; expected above 0 and at most 1",
        ("--probability", "0.1"): "a probability or --independent is given; expected them with --test only",
        ("--test", "9", "--probability", "0"): "probability is 0.0; expected 1e-15 or more, and below 1",
    }.items():
        done = run("evaluate", GRID, "s.rue", *words, status=2)
        assert line in done.err and done.err.count("\n") == 1


def test_bad_test_sets_are_told_in_one_line(run):
    run("solve", GRID, "-o", "s.rue")
    builder = rue.Builder(samples=1).add("a", "go", {"b": 1.0}, cost=1.0).goal("b")
    rue.save("mine.rue", builder.build())
    run("solve", "mine.rue", "-o", "mine-s.rue")
    for words, line in {
        ("mine.rue", "mine-s.rue", "--test", "5"): "the model does not say which domain it is of; expected a model",
        (GRID, "s.rue", "--test", "mine.rue"): "the policy is for another graph",
        (GRID, "s.rue", "--test", "0"): "the number of samples is 0; expected a whole number, 1 or more",
        (GRID, "s.rue", "--test", "mine.rue", "--seed", "3"): "a seed is given for mine.rue; expected it only with",
        (GRID, "s.rue", "--test", "5", "--confidence", "1"): "confidence is 1.0; expected above 0 and below 1",
        (GRID, "s.rue", "--test", "5", "--seed", "2"): "with which the model was drawn; expected another",
        (GRID, "s.rue", "--independent"): "expected them with --test only",
    }.items():
        done = run("evaluate", *words, status=2)
        assert line in done.err and done.err.count("\n") == 1


def test_compare_on_fresh_draws(run):
    facts = run("compare", GRID, "--methods", "reg,average", "--test", "30", "--json").json
    assert facts["test"] == {"test": "30", "seen_before": 0}
    assert all(len(method["test"]["regret"]) == 30 for method in facts["methods"])
    assert all(method["test"]["scenario"]["samples"] == 30 for method in facts["methods"])
    words = run("compare", GRID, "--methods", "reg,average", "--test", "30", "--report", "r.html").words
    assert "test max" in words and "On test: 30 samples, none of which the methods have seen." in words
    said = "reg-d1: With 95 % confidence, a fresh sample has more regret than"
    assert said in words and said in Path("r.html").read_text(encoding="utf-8")


def test_simplify_writes_a_smaller_policy(run):
    run("solve", GRID, "--method", "adaptive", "-o", "s.rue")
    facts = run("simplify", GRID, "s.rue", "--loss", "0.05", "-o", "small.rue", "--json").json
    assert facts["after"]["nodes"] <= facts["before"]["nodes"]
    assert facts["after"]["max_regret"] <= 1.05 * facts["before"]["max_regret"] + 1e-6
    assert rue.load("small.rue").nodes == facts["after"]["nodes"]
    words = run("simplify", GRID, "small.rue", "--loss", "0.1", "--tail", "0.5").words
    assert "nodes" in words and "mean of the worst 50 %" in words
    missed = run("simplify", GRID, "s.rue", "--nodes", "1", status=1)
    assert "no policy with at most 1 nodes was found" in missed.err
    assert run("plot", GRID, "s.rue", "--kind", "frontier", "-o", "f.svg").out == "f.svg: frontier\n"
    for words, problem in {
        (): "neither a loss nor a number of nodes is given; expected --loss 0.02, --nodes 20 or both",
        ("--loss", "-1"): "loss is -1.0; expected 0 or more",
        ("--nodes", "0"): "nodes is 0; expected a whole number, 1 or more",
        ("--loss", "0.1", "--tail", "3"): "tail is 3.0; expected above 0 and at most 1",
        ("--loss", "0.1", "-o", "s.rue"): "the policy would replace the input s.rue",
    }.items():
        refused = run("simplify", GRID, "s.rue", *words, status=2)
        assert problem in refused.err and len(refused.err.splitlines()) == 1


def test_plot_draws_maps_regrets_and_bounds(run):
    run("solve", GRID, "--method", "mixture", "-o", "s.rue")
    run("solve", GRID, "-o", "other.rue")
    for words, kind in {
        ("s.rue", "-o", "a.svg"): "map",
        ("s.rue", "-o", "b.png", "--samples", "all"): "map",
        ("s.rue", "-o", "c.svg", "--samples", "1", "--steps", "0,3"): "map",
        ("s.rue", "other.rue", "-o", "d.svg"): "regret",
        ("s.rue", "-o", "e.pdf", "--kind", "bounds"): "bounds",
    }.items():
        file = words[words.index("-o") + 1]
        assert run("plot", GRID, *words).out == f"{file}: {kind}\n"
        assert Path(file).stat().st_size > 5000
    assert "after 3 steps" in Path("c.svg").read_text()
    regrets = Path("d.svg").read_text()
    assert "other, max" in regrets and "at least" in regrets  # the proof in the file is drawn too


def test_compare_writes_a_page(run):
    done = run("compare", GRID, "--methods", "reg,average,reg", "--test", "20", "--report", "x.html")
    assert done.out.endswith("x.html: the same as a page, with maps\n")
    page = Path("x.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and "reg-d1 (2)" in page
    regret = rue.solve(parsing.read_model(GRID), rue.Regret()).max_regret.upper
    assert f"{regret:.3g}" in page
    done = run("compare", GRID, "--methods", "reg", "--report", "x.pdf", status=2)
    assert done.err == "rue: x.pdf: the page ends in '.pdf'; expected .html or .htm\n"


def test_an_experiment_from_spec_to_page(run):
    Path("s.toml").write_text(
        'title = "Two"\nmethods = ["reg-d1", "average"]\n[[problems]]\ndomain = "disaster"\nseeds = 2\n'
        "sizes = [{ width = 3, height = 3 }]\nsamples = 3\ntest = 5\n"
    )
    assert "4 of 4 runs are done; 4 in" in run("experiment", "run", "s.toml", "--store", "st").out
    again = run("experiment", "run", "s.toml", "--store", "st", "--json").json
    assert (again["done"], again["added"], again["stopped"]) == (4, 0, False)
    text = run("experiment", "tables", "st").out
    assert "disaster: all problems" in text and "reg-d1" in text
    for form, word in {"markdown": "| method |", "latex": "\\begin{tabular}", "csv": "disaster"}.items():
        assert word in run("experiment", "tables", "st", "--format", form).out
    run("experiment", "tables", "st", "--format", "csv", "-o", "t.csv")
    assert Path("t.csv").read_text().count("\n") > 4
    drawn = run("experiment", "figures", "st", "-o", "figures/new").out.splitlines()
    assert {line.split(":")[0] for line in drawn} == {str(path) for path in Path("figures/new").iterdir()}
    assert drawn[0] == "figures/new/regret-train.svg: Max regret over size" and len(drawn) >= 4
    assert run("report", "st", "-o", "r.html").out.startswith("r.html: 4 runs, ")
    page = Path("r.html").read_text()
    assert "Two" in page and page.count("<h2") >= 4
    # A longer experiment in the same store: what is missing is told, and what is not asked for is not shown.
    Path("s.toml").write_text(Path("s.toml").read_text().replace("seeds = 2", "seeds = [0]"))
    assert "2 of 2 runs are done; 0 in" in run("experiment", "run", "s.toml", "--store", "st").out
    assert "over 1 problem" in run("experiment", "tables", "st").words


def test_records_of_another_version_are_shown_and_told(run, capsys, monkeypatch):
    Path("s.toml").write_text(
        'methods = ["reg-d1", "average"]\n[[problems]]\ndomain = "disaster"\nseeds = 1\n'
        "sizes = [{ width = 3, height = 3 }]\nsamples = 3\n"
    )
    run("experiment", "run", "s.toml", "--store", "st")
    now = experiments.code_version()
    records = [json.loads(line) for line in Path("st/records.jsonl").read_text().splitlines()]
    del records[0]["task"]["rue"]  # as records once were
    records[1]["task"]["rue"] = "0.0.1+abc"
    Path("st/records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    line = f"rue: 2 of 2 runs are by another version of rue (0.0.1+abc, an older version; this is {now})"
    for words in (["experiment", "tables", "st"], ["report", "st", "-o", "r.html"]):
        monkeypatch.setattr(sys, "argv", ["rue", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert ended.value.code == 0 and ("2 runs" in out or "reg-d1" in out)
        assert err == f"{line}; `rue experiment run` does them anew\n"


def test_bad_stores_are_told_in_one_line(run):
    for words, line in {
        ("experiment", "tables", "nothing"): "nothing: there are no records",
        ("experiment", "figures", "nothing", "-o", "f"): "nothing: there are no records",
        ("experiment", "figures", "nothing", "-o", "f", "--format", "gif"): "unknown format 'gif'",
        ("report", "nothing", "-o", "r.html"): "nothing: there are no records",
        ("experiment", "run", "none.toml", "--store", "st"): "none.toml: there is no such file",
    }.items():
        done = run(*words, status=2)
        assert line in done.err and done.err.count("\n") == 1


def test_plot_of_a_model_without_a_map(run):
    rue.save("mine.rue", rue.Builder(samples=1).add("a", "go", {"b": 1.0}, cost=1.0).goal("b").build())
    run("solve", "mine.rue", "-o", "s.rue")
    assert run("plot", "mine.rue", "s.rue", "-o", "x.svg").out == "x.svg: regret\n"
    for words, line in {
        ("s.rue", "-o", "x.svg", "--kind", "map"): "grid",
        ("s.rue", "-o", "x.gif"): "'.gif'; expected .png, .svg or .pdf",
        ("s.rue", "s.rue", "-o", "x.svg", "--kind", "map"): "2 policies are given; expected one for a map",
        ("s.rue", "-o", "x.svg", "--kind", "mop"): "did you mean 'map'?",
        ("s.rue", "-o", "x.svg", "--steps", "1"): "expected them with a map",
        ("s.rue", "-o", "x.svg", "--kind", "map", "--samples", "one"): "unknown sample 'one'; known: 0",
        ("s.rue", "-o", "x.svg", "--kind", "map", "--steps", "one"): "expected whole numbers with commas",
        ("s.rue", "-o", "no/folder/x.svg"): "cannot be written",
    }.items():
        done = run("plot", "mine.rue", *words, status=2)
        assert line in done.err and done.err.count("\n") == 1


def test_the_other_days_are_a_test_set_of_the_glider(run):
    glider = "glider:width=5,height=5,seed=2"
    run("solve", glider, "-o", "s.rue")
    test = run("evaluate", glider, "s.rue", "--test", f"{glider},day=2", "--json").json["test"]
    assert test["samples"][0] == "2015-11-18 06:00 UTC" and test["scenario"] is None


def test_evaluate_on_other_samples_of_the_domain(run):
    run("solve", GRID, "-o", "s.rue")
    rue.save("test.rue", rue.domains.Disaster(width=5, height=4, seed=2).sample(40, seed=99))
    facts = run("evaluate", "test.rue", "s.rue", "--json").json
    assert len(facts["regret"]) == 40
    words = run("evaluate", "test.rue", "s.rue").words
    assert "the 30 worst of 40 samples; --json lists all" in words
    assert f"in sample {facts['worst_sample']}, mean" in words


def test_evaluate_names_samples_and_says_infinity(run):
    model = weather()
    rue.save("w.rue", model)
    rue.save("ford.rue", rue.Policy.stationary(model, FORD))
    facts = run("evaluate", "w.rue", "ford.rue", "--json").json
    assert facts["samples"] == ["dry year", "wet year", "dry again"]
    assert [number(value) for value in facts["value"]] == pytest.approx([1.0, math.inf, 1.0])
    assert facts["max_regret"] == facts["mean_regret"] == facts["regret"][1] == "inf"
    assert facts["worst_sample"] == 1
    assert facts["optimal"] == pytest.approx([1.0, 5.0, 1.0])
    words = run("evaluate", "w.rue", "ford.rue").words
    assert "dry year 1 1 0 0 wet year ∞ 5 ∞ ∞ dry again 1 1 0 0" in words
    assert "max regret ∞ in sample wet year" in words
    rue.save("bridge.rue", rue.Policy.stationary(model, BRIDGE))
    assert "max regret 4 in sample dry year, mean 2.6667" in run("evaluate", "w.rue", "bridge.rue").words


# compare


def test_compare_gives_the_figures_of_the_library(run):
    methods = ("reg", "cemr-s1", "robust", "average", "best")
    facts = run("compare", GRID, "--methods", ",".join(methods), "--json").json
    assert facts["model"] == GRID
    assert [entry["solver"] for entry in facts["methods"]] == ["reg", "cemr", "robust", "average", "best"]
    for name, entry in zip(methods, facts["methods"], strict=True):
        expected = rue.solve(parsing.read_model(GRID), parsing.parse_method(name))
        assert entry["status"] == "solved"
        assert_close(entry["max_regret"]["upper"], expected.max_regret.upper)
        assert_close(list(entry["regret"].values()), expected.regret)
        assert_close(entry["objective"]["upper"], expected.objective.upper)


def test_compare_takes_the_papers_methods_and_ours_unless_told_otherwise(run):
    facts = run("compare", GRID, "--json").json
    assert [entry["method"] for entry in facts["methods"]] == list(parsing.METHODS)
    papers = {"reg-d1", "reg-d2", "reg-d3", "reg-s1", "cemr-d1", "cemr-d2", "cemr-d3", "cemr-s1", "robust", "milp"}
    assert papers | {"average", "best", "reg-h1", "reg-h2", "reg-h3", "reg-h4", "mixture", "adaptive"} == set(
        parsing.METHODS
    )
    words = run("compare", GRID).words
    assert words.startswith(f"{GRID}: 20 states, 152 choices, 4 samples")
    for entry in facts["methods"]:
        low, high = entry["max_regret"]["lower"], entry["max_regret"]["upper"]
        gap = percent_text(entry["gap"])
        assert 0 < low <= high
        proved = rounded_down(low)
        assert f"{entry['method']} {high:.5g} {proved} {gap} {entry['mean_regret']:.5g} " in words


def test_compare_loses_nothing_when_it_is_piped(run, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    done = run("compare", GRID, "--seconds", 0, status=1)
    assert "…" not in done.out
    for heading in ("method", "max regret", "at least", "gap", "mean", "tail 0.1", "objective", "seconds", "status"):
        assert heading in done.out
    assert done.out.count("time_limit\n") == len(parsing.METHODS)


@pytest.mark.parametrize("width", [40, 60, 72, 80, 100])
@pytest.mark.parametrize("test", [(), ("--test", "30")], ids=["", "test"])
@pytest.mark.parametrize("seconds", [0, 30])
def test_a_narrow_terminal_loses_no_method_and_no_column(run, monkeypatch, width, test, seconds):
    """What does not fit stands in further tables, each with all methods; no figure and no name is torn apart."""
    monkeypatch.setenv("COLUMNS", str(width))
    methods = ("reg-d1", "adaptive", "average", "cemr-s1")
    arguments = ["compare", GRID, "--methods", ",".join(methods), *test, "--seconds", seconds]
    facts = {entry["method"]: entry for entry in run(*arguments, "--json", status=int(seconds == 0)).json["methods"]}
    lines = run(*arguments, status=int(seconds == 0)).out.splitlines()
    tables = [i for i, line in enumerate(lines) if line.startswith("method")]
    assert all(len(line) <= width for i in tables for line in lines[i : i + 5])
    assert [line.split()[0] for i in tables for line in lines[i + 1 : i + 5]] == list(methods) * len(tables)
    columns = [name for i in tables for name in re.split(r"  +", lines[i].strip())[1:]]
    last = ["test max", "test mean", "test tail"] if test else ["mean", "tail 0.1", "objective"]
    status = ["status"] if seconds == 0 else []
    assert columns == ["max regret", "at least", "gap", *last, "seconds", *status]
    if width == 100:
        assert len(tables) == 1
    for place, method in enumerate(methods):
        cells = [cell for i in tables for cell in re.split(r"  +", lines[i + 1 + place].strip())[1:]]
        row = dict(zip(columns, cells, strict=True))
        assert row["max regret"] == f"{facts[method]['max_regret']['upper']:.5g}"
        assert row.get("status", "solved") == facts[method]["status"]


def test_a_narrow_terminal_shows_every_sample_of_a_verdict(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    rue.save("w.rue", weather())
    run("solve", "w.rue", "-o", "s.rue")
    words = run("evaluate", "w.rue", "s.rue").words
    assert words.startswith("sample cost optimal dry year 5 1 wet year 5 5 dry again 5 1 sample regret dry year 4")


# explain


def test_explain_in_words_and_as_json(run):
    run("solve", GRID, "--method", "adaptive", "-o", "s.rue")
    words = run("explain", GRID, "s.rue").words
    for title in (
        "Samples that matter",
        "Where samples disagree",
        "What tells samples apart",
        "What the regret is paid",
    ):
        assert title in words
    facts = run("explain", GRID, "s.rue", "--entries", 2, "--json").json
    found = rue.explain(parsing.read_model(GRID), rue.load("s.rue"), entries=2)
    assert facts["bound"] == found.bound
    assert facts["sections"] == found.sections()
    assert run("explain", GRID, "s.rue", "--entries", 0, status=2).err.count("\n") == 1
    assert run("explain", GRID, "s.rue", "--seconds", 0, "--json").json["left_out"] > 0
    assert run("explain", GRID, "s.rue", "--seconds", -1, status=2).err.count("\n") == 1


def test_explain_tells_the_way_out_of_infinite_regret(run):
    model = weather()
    rue.save("w.rue", model)
    rue.save("ford.rue", rue.Policy.stationary(model, FORD))
    assert "Safe there: bridge." in run("explain", "w.rue", "ford.rue").words
    assert run("explain", "w.rue", "ford.rue", "--json").json["diagnosis"]["lost"][0]["safe"] == ["bridge"]


# explore


def test_explore_writes_a_page_and_says_its_size(run, monkeypatch):
    run("solve", GRID, "-o", "s.rue")
    words = run("explore", GRID, "s.rue", "-o", "x.html").words
    size = Path("x.html").stat().st_size
    assert f"x.html: {size / 1e3:.3g} kB" in words
    assert "the page has" not in words
    monkeypatch.setattr(insight, "LARGE_PAGE", 1000)
    assert run("explore", GRID, "s.rue", "-o", "x.html").words.startswith(f"the page has {size / 1e3:.3g} kB x.html:")
    assert "expected .html" in run("explore", GRID, "s.rue", "-o", "x.png", status=2).err
    other = rue.Policy.stationary(weather(), BRIDGE)
    rue.save("other.rue", other)
    assert "the policy is for another graph" in run("explore", GRID, "other.rue", "-o", "y.html", status=2).err
    assert not Path("y.html").exists()


# simulate


def test_simulate_gives_the_figures_of_the_library(run):
    run("solve", GRID, "-o", "s.rue")
    arguments = ["simulate", GRID, "s.rue", "--sample", 3, "--episodes", 500, "--seed", 0]
    facts = run(*arguments, "--json").json
    model, policy = parsing.read_model(GRID), rue.load("s.rue").policy
    expected = rue.simulate(model, policy, sample=3, episodes=500, seed=0)
    assert facts["sample"] == "3"
    assert facts["episodes"] == 500
    assert facts["mean_cost"] == expected.mean
    assert facts["interval"] == list(expected.interval)
    assert facts["level"] == 0.95
    assert facts["mean_steps"] == expected.steps.mean()
    assert facts["cut_off"] == 0
    assert facts["exact_cost"] == rue.evaluate(model, policy).value[3]
    low, high = facts["interval"]
    assert low - (high - low) < facts["exact_cost"] < high + (high - low)
    assert run(*arguments, "--json").json == facts
    assert run(*arguments[:-1], 1, "--json").json["mean_cost"] != facts["mean_cost"]


def test_simulate_in_words(run):
    model = weather()
    rue.save("w.rue", model)
    rue.save("bridge.rue", rue.Policy.stationary(model, BRIDGE))
    words = run("simulate", "w.rue", "bridge.rue", "--sample", 1, "--seed", 0, "--episodes", 10).words
    assert "sample wet year: mean cost 5 over 10 episodes, 95% interval [5, 5]; exact 5" in words
    assert "0 cut off" in words
    arguments = ["simulate", "w.rue", "bridge.rue", "--seed", 0, "--episodes", 10, "--sample"]
    assert run(*arguments, "wet year").words == words
    assert run(*arguments, "wet yaer", status=2).err == (
        "rue: unknown sample 'wet yaer'; did you mean 'wet year'? known: dry again, dry year, wet year\n"
    )
    assert run(*arguments, "0,1", status=2).err == "rue: there are 2 samples; expected one, the true one\n"
    # A name comes before a number, and may have commas.
    rue.save("n.rue", weather(("2", "1, dry", "0")))
    for name, sample in ({"2": "2", "1, dry": "1, dry", "1": "1, dry", "0": "0"}).items():
        simulated = run("simulate", "n.rue", "bridge.rue", "--seed", 0, "--sample", name, "--json").json
        assert simulated["sample"] == sample


def test_simulate_says_what_was_cut_off(run):
    model = weather()
    rue.save("w.rue", model)
    rue.save("ford.rue", rue.Policy.stationary(model, FORD))
    arguments = ["simulate", "w.rue", "ford.rue", "--sample", 1, "--seed", 0, "--episodes", 50, "--max-steps", 20]
    facts = run(*arguments, "--json").json
    expected = rue.simulate(model, rue.load("ford.rue"), sample=1, episodes=50, seed=0, max_steps=20)
    assert facts["sample"] == "wet year"
    assert 0 < facts["cut_off"] == int((~expected.reached).sum()) < 50
    assert facts["mean_cost"] == facts["exact_cost"] == facts["interval"][1] == "inf"
    assert f"{facts['cut_off']} cut off" in run(*arguments).words


# convert


def test_convert_exports_and_copies(run):
    run("solve", GRID, "--method", "reg", "-o", "s.rue")
    assert run("convert", "s.rue", "copy.rue").out == ""
    assert Path("copy.rue").read_bytes() == Path("s.rue").read_bytes()
    run("convert", "s.rue", "s.csv")
    run("convert", "s.rue", "s.json")
    policy = rue.load("s.rue").policy
    assert Path("s.csv").read_text(encoding="utf-8") == policy.to_csv()
    assert json.loads(Path("s.json").read_text(encoding="utf-8")) == json.loads(policy.to_json())
    with Path("s.csv").open(newline="") as stream:
        states = [row["state"] for row in csv.DictReader(stream)]
    assert states[13] == "(row 2, column 3)"


# Names that look like markup, and names that are long.


def test_names_with_brackets_are_printed_as_they_are(run):
    labels = ("[red] 1993", "[/b] 1994", "[1995]")
    model = weather(labels)
    rue.save("w.rue", model)
    rue.save("bridge.rue", rue.Policy.stationary(model, BRIDGE))
    for done in (
        run("solve", "w.rue"),
        run("evaluate", "w.rue", "bridge.rue"),
    ):
        for label in labels:
            assert label in done.out
    assert "[red] 1993 = [1995]" in run("info", "w.rue").out
    for k, label in enumerate(labels):
        words = run("simulate", "w.rue", "bridge.rue", "--sample", k, "--seed", 0, "--episodes", 3).words
        assert f"sample {label}: mean cost 5" in words


def test_file_names_with_brackets_are_printed_as_they_are(run):
    rue.save("[old] w.rue", weather())
    assert "written to [new].rue" in run("solve", "[old] w.rue", "-o", "[new].rue").words
    assert run("compare", "[old] w.rue", "--methods", "average").words.startswith("[old] w.rue: 3 states")
    done = run("generate", "medical", "--seed", 1, "--samples", 1, "-o", "[m].rue")
    assert done.words.startswith("[m].rue: UMDP(141 states")


def test_long_names_of_samples_are_not_cut(run):
    labels = tuple(f"{name} of the year 19{i}0, station {'north of the river ' * 4}" for i, name in enumerate("abc"))
    model = weather(labels)
    rue.save("w.rue", model)
    rue.save("bridge.rue", rue.Policy.stationary(model, BRIDGE))
    for done in (run("solve", "w.rue"), run("evaluate", "w.rue", "bridge.rue")):
        assert "…" not in done.out
        for word in ("north", "river"):  # a label may go on in the next line
            assert done.words.split().count(word) == 4 * len(labels) + 4  # the worst is named once more


def test_names_of_other_scripts_survive_a_plain_terminal(tmp_path):
    """Where standard output takes only ASCII, nothing breaks."""
    rue.save(tmp_path / "w.rue", weather(("trocken", "naß", "雨")))
    for arguments in (["solve", "--method", "average"], ["solve", "--json"]):
        done = in_a_process(arguments[0], tmp_path / "w.rue", *arguments[1:], PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        assert done.err == ""
        assert done.status == 0


# Help and version.


def test_help_lists_every_command(run):
    words = run("--help").words
    for command in COMMANDS:
        assert command in words


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(run, command):
    done = run(command, "--help")
    assert f"rue {command}" in done.words
    assert "--help" in done.words


@pytest.mark.parametrize("command", ["generate", "learn", "info", "solve", "evaluate", "compare", "simulate"])
def test_every_command_that_reports_can_do_so_in_json(run, command):
    assert "--json" in run(command, "--help").words


def test_warm_compiles_what_methods_need_and_says_where_it_is(run):
    facts = run("warm", "--methods", "average", "--json").json
    assert facts["kernels"] == len(kernels_of(rue.Average())) and Path(facts["folder"]).is_dir()
    words = run("warm").words
    assert words.startswith(f"{len(KERNELS)} kernels are ready after ") and facts["folder"] in words.replace(" ", "")


def test_no_arguments_show_the_help_and_no_empty_complaint(run):
    done = run(status=2)
    assert "Usage: rue" in done.words
    assert done.err == ""


def test_version(run):
    assert run("--version").out == run("-V").out == f"rue {rue.__version__}\n"


def test_every_command_says_how_it_is_used(run, monkeypatch):
    """Each has -h, and an example that it would take."""
    monkeypatch.setenv("COLUMNS", "200")
    names = [(c.name or c.callback.__name__,) for c in app.app.registered_commands]
    assert {name for (name,) in names} >= set(COMMANDS)
    names += [("experiment", c.name) for c in experiments_of_the_command_line.experiment.registered_commands]
    for name in names:
        done = run(*name, "-h")
        assert done.out == run(*name, "--help").out
        example = re.search(r"Example: rue (.*)", done.out)
        assert example is not None and example[1].startswith(" ".join(name)), name
        group = typer.main.get_command(app.app)
        for word in name:
            command = group = group.commands[word]
        command.make_context(" ".join(name), example[1].split()[len(name) :])  # refuses what it does not take
    assert "Exit status: 0 done, 1 not solved, 2 bad input, 130 broken off" in run("-h").words


def test_the_shell_completes_commands_and_options():
    complete = {"_RUE_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    assert in_a_process(**complete, COMP_WORDS="rue so").out.split() == ["solve"]
    assert in_a_process(**{**complete, "COMP_CWORD": "2"}, COMP_WORDS="rue solve --me").out.split() == ["--method"]


def test_nobody_who_stops_reading_sees_a_traceback(tmp_path):
    rue.save(tmp_path / "w.rue", weather())
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "rue.cli", "info", tmp_path / "w.rue"],
        stdout=writer, stderr=subprocess.PIPE, encoding="utf-8", check=False, timeout=300,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


# Processes of their own.


def test_all_commands_one_after_another_as_processes(tmp_path):
    model, solution = tmp_path / "m.rue", tmp_path / "s.rue"
    made = in_a_process("generate", "medical", "--samples", 3, "--seed", 1, "-o", model)
    assert (made.status, made.err) == (0, "")
    solved = in_a_process("solve", model, "--method", "reg-s1", "-o", solution, "--json")
    assert (solved.status, solved.err) == (0, "")
    assert_close(solved.json["max_regret"]["upper"], rue.load(solution).max_regret.upper)
    rue.save(tmp_path / "i.rue", infeasible())
    stuck = in_a_process("solve", tmp_path / "i.rue", "--method", "reg", "--json")
    assert (stuck.status, stuck.err) == (1, "")
    assert stuck.json["status"] == "infeasible"


INTERRUPTED = """
import json, os, signal, sys, rue

stage, path = sys.argv[1:]
pressed = []

def press(progress):
    if not pressed and progress.stage.startswith(stage):
        pressed.append(progress.stage)
        os.kill(os.getpid(), signal.SIGINT)

model = rue.domains.Disaster(width=80, height=80, seed=1).sample(15, seed=1)
solution = rue.solve(model, rue.Regret(), progress=press)
rue.save(path, solution)
print(json.dumps({"pressed": pressed, "states": solution.policy.graph.states}))
"""


@pytest.mark.parametrize("stage", ["optimal values", "reg: round 2"])
def test_ctrl_c_ends_the_search_with_a_policy(stage, tmp_path):
    done = in_a_process(stage, tmp_path / "s.rue", script=INTERRUPTED)
    assert (done.status, done.err) == (0, "")
    assert len(done.json["pressed"]) == 1
    assert done.json["states"] == 80 * 80
    solution = rue.load(tmp_path / "s.rue")
    assert solution.status is rue.Status.INTERRUPTED
    assert len(solution.regret) == 15
    assert all(0 <= regret < math.inf for regret in solution.regret)
    assert 0 <= solution.max_regret.upper - max(solution.regret) < 1e-9


INTERRUPTED_COMMAND = """
import os, signal, sys
from rue import cli
from rue.cli.progress import ProgressBar

pressed = []

def press(self, progress):
    if not pressed and progress.stage.startswith("reg: round"):
        pressed.append(progress.stage)
        for _ in range(int(os.environ["PRESSES"])):
            os.kill(os.getpid(), signal.SIGINT)

ProgressBar.__call__ = press
cli.main()
"""


def test_ctrl_c_on_the_command_line_writes_the_best_policy_so_far(tmp_path):
    model = "disaster:width=80,height=80,samples=15,seed=1"
    arguments = ["solve", model, "-o", tmp_path / "s.rue", "--json"]
    done = in_a_process(*arguments, script=INTERRUPTED_COMMAND, PRESSES="1")
    assert (done.status, done.err) == (1, "")
    assert done.json["status"] == "interrupted"
    assert number(done.json["max_regret"]["upper"]) < math.inf
    assert rue.load(tmp_path / "s.rue").status is rue.Status.INTERRUPTED


def test_ctrl_c_in_compare_stops_after_the_method_at_work(tmp_path):
    arguments = ["compare", GRID, "--methods", "average,reg,robust,best"]
    done = in_a_process(*arguments, script=INTERRUPTED_COMMAND, PRESSES="1")
    assert (done.status, done.err) == (1, "")
    rows = [line.split()[0] for line in done.out.splitlines()[2:4]]
    assert rows == ["average", "reg-d1"] and "interrupted" in done.out
    assert done.out.endswith("Stopped by Ctrl-C; not run: robust, best.\n")
    facts = in_a_process(*arguments, "--json", script=INTERRUPTED_COMMAND, PRESSES="1").json
    assert facts["not_run"] == ["robust", "best"] and len(facts["methods"]) == 2
    twice = in_a_process(*arguments, script=INTERRUPTED_COMMAND, PRESSES="2")
    assert (twice.status, twice.out) == (130, "") and "Traceback" not in twice.err


def test_ctrl_c_between_two_methods_stops_too(run, monkeypatch):
    before = signal.getsignal(signal.SIGINT)  # it may be ignored, in the background

    def solve_and_press(*arguments, solve=compare_command.run_solver, **settings):
        solution = solve(*arguments, **settings)
        os.kill(os.getpid(), signal.SIGINT)
        return solution

    monkeypatch.setattr(compare_command, "run_solver", solve_and_press)
    done = run("compare", GRID, "--methods", "average,reg", status=1)
    assert "Stopped by Ctrl-C; not run: reg-d1." in done.words
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_twice_breaks_off(tmp_path):
    arguments = ["solve", GRID, "-o", tmp_path / "s.rue", "--json"]
    done = in_a_process(*arguments, script=INTERRUPTED_COMMAND, PRESSES="2")
    assert done.status == 130
    assert done.out == ""
    assert "Traceback" not in done.err
    assert not (tmp_path / "s.rue").exists()


# convert --weights


def test_convert_gives_a_model_weights(run):
    rue.save("m.rue", weather())
    Path("w.csv").write_text("sample,weight\nwet year,2\ndry year,1\n2,5\n")
    run("convert", "m.rue", "w.rue", "--weights", "w.csv")
    assert rue.load("w.rue").weight.tolist() == [0.125, 0.25, 0.625]
    assert "weights dry again: 0.625, wet year: 0.25, dry year: 0.125" in run("info", "w.rue").words
    assert run("info", "w.rue", "--json").json["weights"]["wet year"] == 0.25
    assert "weights" not in run("info", "m.rue", "--json").json
    run("convert", "w.rue", "again.rue")
    assert rue.load("again.rue").weight.tolist() == [0.125, 0.25, 0.625]
    many = "medical:samples=20,seed=1"
    rue.save("many.rue", parsing.read_model(many).with_weight(range(20)))
    assert (
        "19: 0.1, 18: 0.094737, 17: 0.089474, 16: 0.084211, 15: 0.078947, and 15 more" in run("info", "many.rue").words
    )


def test_bad_weights_are_told_in_one_line(run):
    rue.save("m.rue", weather())
    rue.save("p.rue", rue.Policy.stationary(weather(), BRIDGE))
    Path("w.csv").write_text("sample,weight\ndry year,1\nwet yeer,1\n")
    for words, line in {
        ("m.rue", "w.rue", "--weights", "w.csv"): "w.csv, line 3: unknown sample 'wet yeer'; did you mean 'wet year'?",
        ("m.rue", "w.rue", "--weights", "none.csv"): "none.csv: there is no such file",
        ("p.rue", "w.rue", "--weights", "w.csv"): "p.rue: it holds a Policy; expected a model for --weights",
    }.items():
        done = run("convert", *words, status=2)
        assert line in done.err and done.err.count("\n") == 1
        assert not Path("w.rue").exists()


# Models in formats of other tools.


@pytest.mark.parametrize("ending", [".drn", ".tra", ".umb", ".csv", ".pomdpx", ".npz", ".mat"])
def test_commands_read_and_write_other_formats(run, ending):
    run("generate", "medical", "--samples", 3, "--seed", 1, "-o", "m.rue")
    assert run("convert", "m.rue", f"m{ending}").out == ""
    facts, own = (run("info", name, "--json").json for name in (f"m{ending}", "m.rue"))
    assert [facts[key] for key in ("states", "choices", "samples")] == [
        own[key] for key in ("states", "choices", "samples")
    ]
    run("convert", f"m{ending}", "back.rue")
    solved = [run("solve", name, "--method", "average", "--json").json for name in ("back.rue", f"m{ending}", "m.rue")]
    regrets = [one["max_regret"] for one in solved]
    assert regrets[0] == regrets[1] == pytest.approx(regrets[2], rel=1e-9)


@pytest.mark.parametrize(("answer", "left"), [("this\n", []), ("all\n", ["reg-d1"]), ("", ["reg-d1"])])
def test_ctrl_c_in_a_terminal_asks_what_to_stop(answer, left, run, monkeypatch, capsys):
    pressed, before = [], signal.getsignal(signal.SIGINT)  # it may be ignored, in the background

    def solve_and_press(*arguments, solve=compare_command.run_solver, **settings):
        solution = solve(*arguments, **settings)
        if not pressed:
            pressed.append(1)
            os.kill(os.getpid(), signal.SIGINT)
        return solution

    monkeypatch.setattr(compare_command, "run_solver", solve_and_press)
    keyboard = io.StringIO(answer)
    monkeypatch.setattr(keyboard, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", keyboard)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(sys, "argv", ["rue", "compare", GRID, "--methods", "average,reg", "--json"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    assert "average was stopped; reg-d1 would follow. Stop this method only, or all? [this/all]" in err
    facts = json.loads(out)
    assert facts["not_run"] == left
    assert ended.value.code == bool(left)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_at_the_question_stops_all(monkeypatch):
    class Keyboard(io.StringIO):
        def isatty(self):
            return True

        def readline(self, *_):
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("Ctrl-C came before")

    monkeypatch.setattr(sys, "stdin", Keyboard())
    monkeypatch.setattr(sys, "stderr", Keyboard())
    with compare_command._noting_ctrl_c() as presses:
        assert not compare_command._goes_on(["average", "best"], presses)
        assert presses == []


def test_solve_searches_over_all_policies_unless_told_otherwise(run):
    assert run("solve", GRID, "--json").json["solver"] == "adaptive"


def test_quiet_leaves_out_warnings_and_progress(run, tmp_path, caplog):
    text = "discount: 0.5\nvalues: cost\nstates: a b c\nactions: go\nstart: a\nT: go : * : b 1\nR: go : a : * 1\n"
    (tmp_path / "m.pomdp").write_text(text)
    run("info", "m.pomdp")
    assert "1 of 3 states are never reached" in caplog.text
    caplog.clear()
    run("info", "m.pomdp", "--quiet")
    assert caplog.text == ""
    run("info", "m.pomdp")
    assert "1 of 3 states are never reached" in caplog.text
    assert run("solve", "m.pomdp", "-q", "--method", "average", "--json").json["status"] == "solved"
    script = "from rue.cli.progress import *\nbe_quiet(True)\nnotice = CompileNotice()\n"
    script += "notice(Progress('compiling', 9.0, 1, None))\nbe_quiet(False)\nnotice(Progress('again', 99.0, 1, None))"
    assert in_a_process(script=script).err == "again, once after installation\n"


def test_a_tilde_is_the_home_folder(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "runs").mkdir(parents=True)
    run("generate", "medical", "--seed", 1, "--samples", 2, "-o", "~/m.rue")
    assert (tmp_path / "home" / "m.rue").is_file()
    run("solve", "~/m.rue", "--method", "average", "-o", "~/s.rue")
    run("convert", "~/s.rue", "~/p.csv")
    assert "max regret" in run("evaluate", "~/m.rue", "~/p.csv").out
    assert len(run("compare", "~/m.rue", "--methods", "best", "--policy", "~/p.csv", "--json").json["methods"]) == 2
    assert "would replace the input" in run("convert", "~/m.rue", "~/m.rue", status=2).err
    assert isinstance(rue.load("~/m.rue"), rue.UMDP)
    rue.save("~/again.umb", rue.load("~/m.rue"))
    assert (tmp_path / "home" / "again.umb").is_file()


def test_every_command_has_an_example_short_options_and_quiet(run):
    words, several = run("-h").words, experiments_of_the_command_line.experiment
    assert run("-V").out == f"rue {rue.__version__}\n"
    assert "Example: rue compare" in words and "Example: rue experiment run" in run("experiment", "-h").words
    for command in (*app.app.registered_commands, *several.registered_commands):
        name = command.name or command.callback.__name__
        group = ["experiment"] if command in several.registered_commands else []
        help_text = run(*group, name, "-h").words
        assert "Example: rue" in help_text and "--quiet" in help_text, name
        assert group or name in words


def test_completion_knows_commands_and_methods():
    asked = {"_RUE_COMPLETE": "complete_bash", "COMP_CWORD": "1", "COMP_WORDS": "rue so"}
    script = "from rue import cli; cli.main()"
    assert "solve" in in_a_process(script=script, **asked).out.split()
    found = in_a_process(script=script, **{**asked, "COMP_CWORD": "4", "COMP_WORDS": "rue solve m.rue --method ad"})
    assert found.out.split() == ["adaptive"]
