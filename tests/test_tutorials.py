"""The quick start and the tutorials: every block runs, prints what is shown, and the figures are right."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from pages import compare, run_page, split_commands

import rue

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Return a function that runs a tutorial in an empty folder, beside the files that it names."""

    def run_tutorial(name, within=0.02):
        shutil.copy(DOCS / "data" / "tickets.csv", tmp_path)
        shutil.copytree(DOCS / "data" / "links", tmp_path / "links")
        monkeypatch.chdir(tmp_path)
        return run_page((DOCS / "tutorials" / f"{name}.md").read_text(encoding="utf-8"), monkeypatch, capsys, within)

    return run_tutorial


def test_the_first_page_and_the_quick_start(tmp_path, monkeypatch, capsys):
    """`tests/test_wheel_slow.py` runs the quick start in an empty environment, with its installation."""
    monkeypatch.chdir(tmp_path)
    run_page((DOCS / "index.md").read_text(encoding="utf-8"), monkeypatch, capsys, 0.02)
    text = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    (program,) = BLOCK.findall(text)
    (tmp_path / "printer.py").write_text(program, encoding="utf-8")
    run_page(text, monkeypatch, capsys, 0.06)
    assert (tmp_path / "plan.html").exists()


def test_health(run):
    """Optimal values and the values of policies, in QALYs, are those of plain dynamic programming."""
    names = run("health")
    model, verdicts = names["model"], names["verdicts"]
    best = [names["backward"](k) for k in range(8)]
    assert verdicts["average"].optimal == pytest.approx(best, abs=1e-9)
    policy = names["solutions"]["average"].policy
    values = [value_in_qalys(model, policy, names, k) for k in range(8)]
    assert verdicts["average"].value == pytest.approx(values, abs=1e-9)
    page = (DOCS / "tutorials" / "health.md").read_text(encoding="utf-8")
    lost = np.array(best) - values
    assert f"average {model.weight @ values:17.3f} {model.weight @ lost:12.3f} {lost.max():11.3f}  " in page
    for name, top in zip(model.sample_label, best, strict=True):  # the plan that adapts has values of its own
        assert re.search(rf"{name} .* of +{top:.2f} QALYs, regret", page)
    assert names["evpi"](range(8)) <= min(verdict.mean_regret for verdict in verdicts.values()) + 1e-9


def value_in_qalys(model, policy, names, k):
    """Return the discounted QALYs of a stationary policy (time is in its states), by backward induction."""
    graph, does = model.graph, {}
    for node, state in enumerate(policy.node_state):
        if policy.entry_ptr[node] < policy.entry_ptr[node + 1]:
            choice = policy.choice[policy.entry_ptr[node]]
            does[graph.state_name(state)] = graph.action_name(graph.action[choice])
    value = np.zeros(4)
    for time in reversed(range(20)):
        now = np.zeros(4)
        for i in range(3):
            action = does.get(f"{names['stages'][i]} at {time}")
            if action is None:  # never visited
                continue
            up, progress, effect = min(i, 1), names["progress"][k], names["effect"][k]
            better, worse, dead, burden = {
                "wait": (0.0, progress, names["death"][i], 0.0),
                "drug": (0.15 * effect * up, progress * (1 - effect), names["death"][i], 0.06),
                "surgery": (0.5 * up, 0.3 * progress, names["death"][i] + names["risk"][k], 0.2),
            }[action]
            after = worse * value[i + 1] + better * value[i - 1] + (1 - better - worse - dead) * value[i]
            now[i] = names["quality"][i] - burden + after / 1.03
        value = now
    return value[1]


def test_ecology(run):
    """The small plan keeps what was promised, and rewards are those of plain policy evaluation."""
    names = run("ecology")
    model, small, solution = names["model"], names["small"], names["solution"]
    assert small.nodes <= 20
    assert rue.evaluate(model, small).max_regret <= 1.3 * solution.max_regret.upper * (1 + 1e-9)
    fixed = rue.evaluate(model, rue.Policy.stationary(model, ["burn", "trap cats", "nothing"])).value
    for k, value in enumerate(fixed):
        recover, remain = names["actions"]["burn"][1][k], names["actions"]["trap cats"][2][k]
        step = np.array([[1 - recover, recover], [1 - remain, remain]])
        assert value == pytest.approx(np.linalg.solve(np.eye(2) - 0.95 * step, [-2.0, 17.0])[0])


def test_robotics(run):
    """Episodes in Gymnasium return what the judge says, within four standard errors."""
    names = run("robotics", within=0.2)
    assert abs(names["returns"].mean() - names["exact"]) <= 4 * names["error"]


def test_formal_methods(run):
    run("formal")


def test_data(run, tmp_path):
    run("data", within=0.15)
    assert (tmp_path / "policy.csv").read_text().startswith("node,state,action")


def test_other_output_is_noticed():
    """The comparison that the tests above rest on can fail."""
    compare("a 1.00 b\nc\nd\n", "a 1.01 b\n...\nd\n", 0.02)
    compare("value 2.4573 (8 points)\n", "value 2.45... (... points)\n", 0.0)
    for printed, shown in (
        ("a 1\n", "a 1.05\n"),
        ("a\n", "b\n"),
        ("a\nb\n", "a\n"),
        ("a\n", "a\nb\n"),
        ("a\n", "...\nb\n"),
    ):
        with pytest.raises(AssertionError):
            compare(printed, shown, 0.02)
    assert split_commands("$ rue info x\nstates 3\n$ rue -V\n") == [("rue info x", "states 3\n"), ("rue -V", "")]
