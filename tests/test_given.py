"""Policies of one's own: judged beside the methods, in Python, on the command line, in experiments and on pages."""

import csv
import json
import re
from io import StringIO
from pathlib import Path

import pytest
from test_cli import run  # noqa: F401

import rue
from rue import experiments, parsing

MODEL = rue.domains.Medical(seed=1).sample(4, seed=1)
GRID = rue.domains.Disaster(width=3, height=3, seed=1).sample(2, seed=1)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The same policy as a table with states and actions alone, as a table with nodes, as JSON and as a solution."""
    monkeypatch.chdir(tmp_path)
    solution = rue.solve(MODEL, rue.Average())
    rows = list(csv.DictReader(StringIO(solution.policy.to_csv())))
    with Path("guideline.csv").open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["state", "action"])
        table.writerows([row["state"], row["action"]] for row in rows)
    rue.save("model.rue", MODEL)
    for name in ("nodes.csv", "policy.json", "other.rue"):
        rue.save(name, solution)
    return ("guideline.csv", "nodes.csv", "policy.json", "other.rue")


def test_every_form_is_judged_as_the_method_is(files, tmp_path):
    expected = rue.solve(MODEL, rue.Average())
    for name in files:
        found = rue.solve(MODEL, rue.GivenPolicy(name))
        assert found.regret == expected.regret and found.status is rue.Status.SOLVED
        assert found.max_regret == expected.max_regret and found.objective.upper == found.max_regret.upper
        assert parsing.short_name(found.solver) == name
        rue.save("s.rue", found)
        again = rue.load("s.rue")
        assert (again.solver, again.regret, again.objective) == (found.solver, found.regret, found.objective)
    stopped = rue.solve(MODEL, rue.GivenPolicy("nodes.csv"), limits=rue.Limits(seconds=0))
    assert stopped.regret == expected.regret


def test_a_policy_that_misses_the_goal_is_told(tmp_path):
    builder = rue.Builder(1)
    builder.add("a", "stay", {"a": 1.0}, cost=1.0).add("a", "go", {"end": 1.0}, cost=1.0)
    model = builder.goal("end").build()
    path = tmp_path / "stay.csv"
    path.write_text("state,action\na,stay\nend,\n")
    solution = rue.solve(model, rue.GivenPolicy(str(path)))
    assert solution.status is rue.Status.UNPROVED and solution.max_regret.upper == float("inf")


def test_compare_judges_policies_beside_the_methods(run, files):  # noqa: F811
    flags = [word for name in files for word in ("--policy", name)]
    done = run("compare", "model.rue", "--methods", "average,reg", *flags, "--report", "page.html")
    rows = done.out.splitlines()[2 : len(files) + 4]  # the words below them may be wrapped anywhere
    lines = {line.split()[0]: line.split()[1:] for line in rows}
    assert all(lines[name][0] == lines["average"][0] for name in files) and "reg-d1" in lines
    page = Path("page.html").read_text(encoding="utf-8")
    assert all(name in page for name in files)
    facts = run("compare", "model.rue", "--methods", "average", *flags, "--json").json
    assert [method["method"] for method in facts["methods"]] == [*files, "average"]
    assert len({json.dumps(method["regret"]) for method in facts["methods"]}) == 1
    assert run("compare", "model.rue", "--methods", "", "--policy", "policy.json").words.startswith("model.rue")


def test_other_commands_take_them_too(run, files):  # noqa: F811
    expected = rue.evaluate(MODEL, rue.load("policy.json"))
    for name in files:
        assert run("evaluate", "model.rue", name, "--json").json["regret"] == expected.regret.tolist()
        blocks = run("evaluate", "model.rue", name, "--block", "2", "--json").json
        assert blocks["max_regret"] == pytest.approx(expected.max_regret)
        facts = run("simulate", "model.rue", name, "--sample", 1, "--seed", 1, "--json").json
        assert facts["exact_cost"] == expected.value[1]
    run("plot", "model.rue", *files, "-o", "x.png")
    facts = run("solve", "model.rue", "--method", "policy", "--set", "file=guideline.csv", "--json").json
    assert (facts["method"], list(facts["regret"].values())) == ("guideline.csv", expected.regret.tolist())


BAD = {
    "none.csv": (None, "none.csv: there is no such file"),
    "empty.csv": ("", "empty.csv: unknown column 'state'"),
    "state.csv": ("state,action\n(h=99),finish\n", "state.csv: line 2: unknown state '(h=99)'"),
    "action.csv": ('state,action\n"(h=0, d=0)",treatmnt 1\n', "unknown action 'treatmnt 1'; did you mean 'treatment"),
    "few.csv": ('state,action\n"(h=0, d=0)",treatment 1\n', "sum to 0; expected 1; 119 nodes are off in all"),
    "half.json": ("{", "half.json: it is no JSON"),
    "other.json": ("{}", "other.json: it is JSON of something else"),
    "text.rue": ("text", "text.rue: it is no rue file"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_told_in_one_line(run, files, name):  # noqa: F811
    text, line = BAD[name]
    if text is not None:
        Path(name).write_text(text)
    done = run("compare", "model.rue", "--methods", "average", "--policy", name, status=2)
    assert line in done.err and len(done.err.splitlines()) == 1 and done.out == ""


def test_policies_of_another_graph_are_refused(run, files):  # noqa: F811
    rue.save("grid.rue", GRID)
    for name in ("policy.json", "other.rue"):
        done = run("compare", "grid.rue", "--methods", "average", "--policy", name, status=2)
        line = rf"rue: {name}: the policy is for another graph \(\d+ states, .* expected 9 states, .*"
        assert re.fullmatch(line, done.err.strip()) and done.out == ""
    done = run("compare", "grid.rue", "--policy", "model.rue", status=2)
    assert done.err == "rue: model.rue: it holds a UMDP; expected a policy or a solution\n"


SPEC = """
methods = ["average"]
policies = ["guideline.csv"]
reference = ["guideline.csv"]
[[problems]]
model = "model.rue"
[[problems]]
model = "grid.rue"
policies = []
"""


def test_experiments_list_files_with_policies(run, files, tmp_path):  # noqa: F811
    rue.save("grid.rue", GRID)
    Path("spec.toml").write_text(SPEC)
    experiment = experiments.read_spec("spec.toml")
    tasks = experiment.tasks()
    assert [task.method for task in tasks] == ["average", "guideline.csv", "average"]
    assert str(tmp_path) not in json.dumps(tasks[1].describe())
    assert "3 of 3 runs are done" in run("experiment", "run", "spec.toml", "--store", "store").out
    records = {(r["method"], r["group"]): r for r in experiments.Store(Path("store")).records()}
    assert records["guideline.csv", "model"]["regret"] == records["average", "model"]["regret"]
    assert "guideline.csv" in run("experiment", "tables", "store").out
    run("report", "store", "-o", "page.html")
    assert "guideline.csv" in Path("page.html").read_text(encoding="utf-8")
    # The file in another folder is the same task; with other contents it is another one.
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name in ("spec.toml", "guideline.csv", "model.rue", "grid.rue"):
        (folder / name).write_bytes(Path(name).read_bytes())
    assert [task.key for task in experiments.read_spec(folder / "spec.toml").tasks()] == [task.key for task in tasks]
    with (folder / "guideline.csv").open("a") as stream:
        stream.write("\n")
    changed = experiments.read_spec(folder / "spec.toml").tasks()
    assert [a.key == b.key for a, b in zip(changed, tasks, strict=True)] == [True, False, True]
    with pytest.raises(rue.BadInput, match=r"guideline\.csv: changed since the experiment began"):
        rue.solve(MODEL, rue.GivenPolicy(str(folder / "guideline.csv"), tasks[1].solver.contents))


@pytest.mark.parametrize(
    ("was", "becomes", "line"),
    [
        ('policies = ["guideline.csv"]', 'policies = "guideline.csv"', "policies is 'guideline.csv'; expected a list"),
        ('policies = ["guideline.csv"]', "policies = [1]", "policies is [1]; expected a list of files"),
        ("policies = []", "policies = [2]", "problems, table 2: policies is [2]"),
        ("policies = []", 'policies = ["none.csv"]', "none.csv: there is no such file"),
        ('reference = ["guideline.csv"]', 'reference = ["guidline.csv"]', "did you mean 'guideline.csv'?"),
    ],
)
def test_bad_specs(files, was, becomes, line):
    rue.save("grid.rue", GRID)
    Path("spec.toml").write_text(SPEC.replace(was, becomes))
    with pytest.raises(rue.BadInput) as told:
        experiments.read_spec("spec.toml")
    assert line in str(told.value) and len(str(told.value).splitlines()) == 1
