"""What notebooks show of a model, a solution and an evaluation."""

import re

import numpy as np
import pytest

import rue
from rue.table import MOST_NOTEBOOK_ROWS


def rows(html):
    """Return the texts of all cells, row by row, without the heads of columns."""
    found = re.findall(r"<tr>(.*?)</tr>", html.partition("<tbody>")[2], re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in found]


def test_a_model_shows_its_sizes_and_its_names_are_escaped():
    builder = rue.Builder(["<b>", "two", "three", "four", "five"], horizon=3)
    model = builder.add("<i>here</i>", "go", {"there": 0.5, "<i>here</i>": 0.5}, reward=1.0).goal("there").build()
    html = model._repr_html_()
    assert "<i>" not in html and "<b>" not in html
    facts = dict(rows(html))
    assert facts["states"] == str(model.graph.states) and facts["transitions"] == str(model.graph.transitions)
    assert facts["samples"] == "5: &lt;b&gt;, two, three, four, …"
    assert facts["initial"] == "&lt;i&gt;here&lt;/i&gt; at 0" and facts["figures"] == "reward"


def test_a_solution_shows_what_is_proved_and_all_regrets():
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    solution = rue.solve(model, rue.Regret())
    html = solution._repr_html_()
    facts, regrets = (rows(part) for part in html.split("</table>")[:2])
    facts = dict(facts)
    assert facts["status"] == "solved" and facts["nodes"] == str(solution.policy.nodes)
    assert float(facts["max regret"]) == pytest.approx(solution.max_regret.upper, rel=1e-4)
    assert float(facts["of any policy, at least"]) == pytest.approx(solution.max_regret.lower, rel=1e-4)
    assert {int(k): float(r) for k, r in regrets} == pytest.approx(dict(enumerate(solution.regret)), rel=1e-4)


def test_an_evaluation_shows_the_largest_regrets_first_and_says_how_many_are_left_out():
    model = rue.domains.Medical(seed=1).sample(40, seed=1)
    verdict = rue.evaluate(model, rue.solve(model, rue.Average(), bound=False).policy)
    html = verdict._repr_html_()
    shown = rows(html)
    assert len(shown) == MOST_NOTEBOOK_ROWS
    assert [int(row[0]) for row in shown] == np.argsort(-verdict.regret, kind="stable")[: len(shown)].tolist()
    assert f"{40 - len(shown)} more are not shown" in html
    for k, *figures in shown:
        expected = [verdict.value[int(k)], verdict.optimal[int(k)], verdict.regret[int(k)]]
        assert [float(figure) for figure in figures] == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_infinite_regrets_are_shown():
    builder = rue.Builder(samples=2).add("yard", "left", {"home": [1, 0], "pit": [0, 1]}, cost=1.0)
    builder.add("yard", "right", {"home": 1.0}, cost=2.0).add("pit", "stay", {"pit": 1.0}, cost=1.0)
    model = builder.goal("home").build()
    html = rue.evaluate(model, rue.Policy.stationary(model, ["left", "left", "stay"]))._repr_html_()
    assert rows(html)[0] == ["1", "inf", "2", "inf"]
