"""Results and tables: tiny experiments by hand, holes and infinities, and what the files say."""

import csv
import io
import itertools
import math
import random
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rue.errors import BadFile, BadInput
from rue.experiments.published_figures import ELEVEN, PAPER, read_published
from rue.experiments.results import Results
from rue.experiments.tables import make_tables, write_tables
from rue.table import Cell, Table, TableRow


def record(method, problem, train, test=None, *, size="4×4", group="disaster", **more):
    """A record as the store has it; a regret of None is a failed run."""
    parameters, limit = more.pop("parameters", {}), more.pop("limit", 600.0)
    task = {"model": f"{group}:{problem}", "test": "" if test is None else "50", "contents": "", "solver": method,
            "parameters": parameters, "seconds": limit}  # fmt: skip
    entry = {
        "key": repr((method, problem, size, group, parameters, limit)), "task": task, "group": group, "size": size,
        "problem": task["model"], "method": method, "status": "solved", "error": None,
    }  # fmt: skip
    if train is None:
        return {**entry, "status": "failed", "error": "ValueError: no"}
    entry |= {"states": 16, "max_regret": [more.pop("proved", 0.0), train], "seconds": more.pop("seconds", 0.5)}
    if test is not None:
        entry["test"] = {"max_regret": test, "regret": [test]}
    return {**entry, **more}


def only(records, reference=()):
    (group,) = Results.of(records, reference).groups
    return group


def table(tables, kind, group="disaster"):
    (found,) = [one for one in tables if (one.group, one.kind) == (group, kind)]
    return found


def cell(shown, row, column):
    (found,) = [one for one in shown.rows if one.name == row]
    return found.cells[shown.columns.index(column) - 1]


@pytest.fixture
def small():
    """Two sizes, three methods; one run failed, one was never done."""
    return [
        record("reg-d1", "seed=0", 4.0, 8.0, proved=0.0, seconds=1.0),
        record("reg-d1", "seed=1", 2.0, 2.0, seconds=3.0, status="time_limit"),
        record("reg-d1", "seed=2", 1.0, "inf", size="10×10", states=100, seconds=5.0),
        record("robust", "seed=0", 2.0, 2.0, seconds=0.25),
        record("robust", "seed=1", None, 0.0),
        record("robust", "seed=2", 4.0, 1.0, size="10×10", states=100, seconds=0.25, status="unproved"),
        record("adaptive", "seed=0", 1.0, 4.0, proved=0.5),
        record("adaptive", "seed=1", 1.0, 1.0, proved=1.0),
    ]


class TestResults:
    def test_by_hand(self, small):
        group = only(small)
        assert group.methods == ("reg-d1", "robust", "adaptive")
        assert group.sizes == ("4×4", "10×10") and group.problem_size == ("4×4", "4×4", "10×10")
        nan = math.nan
        assert group.normalised("train") == pytest.approx(
            np.array([[1, 0.5, 0.25], [1, nan, 0.5], [0.25, 1, nan]]), nan_ok=True
        )
        # The largest finite one counts on the last problem.
        assert np.array_equal(
            group.normalised("test"), [[1, 0.25, 0.5], [1, nan, 0.5], [math.inf, 1, nan]], equal_nan=True
        )
        assert (group.partly_infinite("test"), group.undivided("test")) == (1, 0)
        assert group.bound.tolist() == [0.5, 1.0, 0.0]
        assert group.ratio == pytest.approx(np.array([[8, 4, 2], [2, nan, 1], [math.inf, math.inf, nan]]), nan_ok=True)
        assert group.gap == pytest.approx(np.array([[0.875, 0.75, 0.5], [0.5, nan, 0], [1, 1, nan]]), nan_ok=True)
        assert group.count("failed") == {"robust": 1} and group.count("") == {"adaptive": 1}
        assert group.count("time_limit") == {"reg-d1": 1} and group.infinite("test") == {"reg-d1": 1}
        assert group.seconds[:, 0].tolist() == [1.0, 3.0, 5.0]
        assert group.contradictions == 0

    def test_the_reference_sets_the_scale_for_all(self, small):
        group = only(small, ["robust"])
        assert group.reference == ("robust",) and group.methods[0] == "robust"
        assert group.normalised("train")[0].tolist() == [1.0, 2.0, 0.5]
        assert np.isnan(group.normalised("train")[1]).all() and group.reference_holes == 1

    def test_a_reference_nobody_ran_is_told(self, small):
        results = Results.of(small, ["best", "robust"])
        assert results.groups[0].reference == ("robust",)
        assert any("without any run here: best." in note for note in make_tables(results)[0].notes)
        assert only(small, ["best"]).reference == ("reg-d1", "robust", "adaptive")

    def test_no_regret_counts_nothing_unless_it_is_infinite(self):
        group = only([record("best", "a", 0.0), record("reg-d1", "a", 1e-12), record("mixture", "a", 3.0),
                      record("milp", "a", "inf")], ["best", "reg-d1"])  # fmt: skip
        shares = dict(zip(group.methods, group.normalised("train")[0].tolist(), strict=True))
        assert shares == {"best": 0.0, "reg-d1": 0.0, "mixture": 0.0, "milp": math.inf}
        assert group.zero_reference("train") == 1 and group.zero_reference_only("train") == 1

    def test_infinite_reference_figures_make_nothing_look_good(self):
        runs = [record("best", "a", "inf"), record("average", "a", 2.0), record("mixture", "a", 1.0)]
        runs += [record("best", "b", "inf"), record("average", "b", "inf"), record("mixture", "b", 1.0)]
        runs += [record("best", "c", None), record("average", "c", "inf"), record("milp", "c", "inf")]
        group = only(runs, ["best", "average"])
        assert group.methods == ("best", "average", "milp", "mixture")
        nan, inf = math.nan, math.inf
        expected = [[inf, 1, nan, 0.5], [inf, inf, nan, nan], [nan, inf, inf, nan]]
        assert np.array_equal(group.normalised("train"), expected, equal_nan=True)
        assert (group.partly_infinite("train"), group.undivided("train"), group.zero_reference("train")) == (1, 2, 0)
        notes = table(make_tables(Results.of(runs, ["best", "average"])), "summary").notes
        assert any("some of them on 1 problem, divided by the largest finite one; all of them on 2 problems" in note
                   for note in notes)  # fmt: skip

    def test_a_bound_above_a_regret_is_a_contradiction(self):
        group = only([record("best", "a", 1.0), record("adaptive", "a", 1.3, proved=1.2)])
        assert group.contradictions == 1
        notes = make_tables(Results.of([record("best", "a", 1.0), record("adaptive", "a", 1.3, proved=1.2)]))[0].notes
        assert any("One of the figures is wrong" in note for note in notes)

    def test_variants_of_a_method_are_told_apart_by_what_differs(self):
        runs = [record("adaptive", "a", gap, parameters={"gap": gap, "memory": 2.0}) for gap in (0.5, 0.25)]
        assert only(runs).methods == ("adaptive (gap=0.25)", "adaptive (gap=0.5)")
        assert only(runs, ["adaptive"]).reference == only(runs).methods

    def test_limits_tell_apart_only_what_met_the_same_problem(self):
        assert only([record("best", "a", 1.0, limit=1.0), record("best", "a", 2.0, limit=9.0)]).methods == (
            "best in 1 s",
            "best in 9 s",
        )
        assert only([record("best", "a", 1.0, limit=1.0), record("best", "b", 2.0, limit=9.0)]).methods == ("best",)

    def test_a_later_record_of_a_task_stands_for_all_before_it(self):
        assert only([record("best", "a", None), record("best", "a", 2.0)]).train.tolist() == [[2.0]]

    def test_order_does_not_matter(self, small):
        expected = write_tables(make_tables(Results.of(small)), "csv")
        for seed in range(5):
            shuffled = random.Random(seed).sample(small, len(small))
            assert write_tables(make_tables(Results.of(shuffled)), "csv") == expected

    def test_sizes_and_seeds_in_their_natural_order(self):
        runs = [record("best", f"seed={seed}", None, size="") for seed in (10, 9)]
        assert only(runs).problems == ("disaster:seed=9", "disaster:seed=10")
        assert np.isnan(only(runs).states).all()

    @pytest.mark.parametrize("broken", [{"task": {}}, {"max_regret": [0.0]}, {"seconds": None}, {"seconds": "soon"}])
    def test_a_foreign_record(self, broken):
        with pytest.raises(BadInput, match="expected those of a store"):
            Results.of([{**record("best", "a", 1.0), **broken}])

    def test_no_records(self):
        with pytest.raises(BadInput, match="there are no records"):
            Results.of([])


REGRET = st.one_of(st.none(), st.just(0.0), st.just("inf"), st.integers(1, 40).map(lambda n: n / 4))


def naive_share(regret, others):
    """The normalised regret of one run, given those of the reference; None is a hole."""
    known = [float(other) for other in others if other is not None]
    if regret is None or not known:
        return math.nan
    finite = [other for other in known if math.isfinite(other)]
    if math.isinf(float(regret)) or not finite:
        return math.inf if math.isinf(float(regret)) else math.nan
    return float(regret) / max(finite) if max(finite) > 0 else 0.0


@given(st.lists(st.tuples(REGRET, REGRET, REGRET), min_size=1, max_size=5), st.integers(0, 3))
def test_normalised_with_holes(rows, named):
    methods = ["reg-d1", "robust", "adaptive"]
    records = [record(m, f"seed={k}", value) for k, row in enumerate(rows)
               for m, value in zip(methods, row, strict=True)]  # fmt: skip
    group = only(records, methods[:named])
    chosen = [methods.index(name) for name in group.reference]
    expected = [[naive_share(value, [row[i] for i in chosen]) for value in row] for row in rows]
    order = [methods.index(name) for name in group.methods]
    got = group.normalised("train")
    assert np.allclose(got, np.array(expected)[:, order], rtol=1e-12, equal_nan=True)
    assert group.count("failed") == {
        m: n for m, n in ((m, sum(row[i] is None for row in rows)) for i, m in enumerate(methods)) if n
    }
    inside = got[:, [group.methods.index(name) for name in group.reference]]
    assert ((inside >= 0) & (inside <= 1) | ~np.isfinite(inside)).all()
    make_tables(Results.of(records, methods[:named]))


class TestTables:
    def test_by_hand(self, small):
        tables = make_tables(Results.of(small))
        assert [one.kind for one in tables] == ["summary", "spread", "train by size", "test by size",
                                                "seconds by size", "t train", "wilcoxon train",
                                                "t test", "wilcoxon test"]  # fmt: skip
        summary = table(tables, "summary")
        assert summary.columns == ("method", "problems", "max regret, train", "max regret, test", "seconds",
                                   "gap")  # fmt: skip
        assert [c.text for c in summary.rows[0].cells] == [
            "3", "0.750 ± 0.43", "1.000 (1 ∞) ± 0.00", "3.00", "88 %",
        ]  # fmt: skip
        assert [c.text for c in summary.rows[1].cells] == ["2 of 3", "0.750 ± 0.35", "0.625 ± 0.53", "0.250", "88 %"]
        assert [c.text for c in summary.rows[2].cells] == ["2 of 3", "0.375 ± 0.18", "0.500 ± 0.00", "0.500", "25 %"]
        assert cell(summary, "reg-d1", "max regret, train").values["mean"] == 0.75
        assert cell(table(tables, "train by size"), "reg-d1", "10×10").text == "0.250"
        assert cell(table(tables, "train by size"), "adaptive", "10×10").text == "–"
        assert cell(table(tables, "seconds by size"), "reg-d1", "4×4").text == "2.00"

    def test_regrets_over_training_samples_are_not_divided(self):
        runs = [
            record("reg-d1", f"samples={n},seed={seed}", 2.0, 4.0 * seed / n, size=f"{n} samples", samples=["a"] * n)
            for n in (15, 150) for seed in (1, 2)
        ]  # fmt: skip
        tables = make_tables(Results.of(runs))
        shown = table(tables, "max regret by samples")
        assert shown.columns == ("method", "15 samples (2)", "150 samples (2)")
        assert [one.text for one in shown.rows[0].cells] == ["0.4", "0.04"]
        assert table(tables, "regret of 99 % by samples").rows[0].cells[0].text == "0.4"
        alike = make_tables(Results.of(runs[:2]))
        assert not [one for one in alike if one.kind.endswith("by samples")]

    def test_mean_tail_and_quantile_are_divided_like_the_maximum(self):
        spread = {"mean": 1.0, "tail 0.1": 1.5, "quantile 0.9": 1.75, "quantile 0.99": 2.0}
        tested = {"max_regret": 4.0, "regret": [4.0, 0.0], "spread": spread}
        runs = [
            record("reg-d1", "seed=0", 2.0, 4.0, regret=[2.0, 1.0]) | {"test": tested},
            record("robust", "seed=0", 8.0, 8.0, regret=[8.0] + [0.0] * 19),  # of an earlier version: alike
            record("average", "seed=0", None, 0.0),
        ]
        shown = table(make_tables(Results.of(runs)), "spread")
        assert shown.columns == (
            "method", "mean, train", "tail 0.1, train", "mean, test", "tail 0.1, test", "quantile 0.99, test",
        )  # fmt: skip
        cells = {row.name: [one.text for one in row.cells] for row in shown.rows}
        assert cells["reg-d1"] == ["0.188", "0.250", "0.125", "0.188", "0.250"]
        assert cells["robust"] == ["0.050", "0.500", "1.000", "1.000", "1.000"]
        assert cells["average"] == ["–"] * 5
        assert only(runs).spread["train", "quantile 0.9"][0, 0] == 2.0

    def test_notes_tell_what_the_table_does_not_show(self, small):
        notes = "\n".join(table(make_tables(Results.of(small)), "summary").notes)
        assert "Failed, and left out of the means: robust 1." in notes
        assert "Not run, and left out of the means: adaptive 1." in notes
        assert "time limit, with the best policy so far: reg-d1 1." in notes
        assert "not proved to the last digits: robust 1." in notes
        assert "infinite regret (test), which is left out of the means and counted beside them: reg-d1 1." in notes
        assert "Infinite reference figures (test): some of them on 1 problem" in notes
        assert "fewer reference methods, as some have no figure there: 2 problems." in notes
        assert "proved on 2 of 3 problems" in notes
        assert "Solvers took 10.5 s in all." in notes

    def test_the_best_of_a_column_is_marked(self, small):
        summary = table(make_tables(Results.of(small)), "summary")
        assert [cell(summary, row.name, "max regret, train").best for row in summary.rows] == [False, False, True]
        assert "**0.375** ± 0.18" in write_tables([summary], "markdown")
        assert r"\textbf{0.375} $\pm$ 0.18" in write_tables([summary], "latex")

    def test_infinite_figures_are_counted_beside_the_mean(self):
        runs = [record("reg-d1", f"seed={k}", "inf" if k == 0 else 1.0) for k in range(4)]
        runs += [record("best", f"seed={k}", 2.0 + 0.5 * (k % 2)) for k in range(4)]
        runs += [record("milp", f"seed={k}", "inf") for k in range(4)]
        tables = make_tables(Results.of(runs, ["best"]))
        one = cell(table(tables, "summary"), "reg-d1", "max regret, train")
        assert one.text == "0.433 (1 ∞) ± 0.06" and not one.best
        assert one.values == {"mean": pytest.approx(1.3 / 3), "deviation": pytest.approx(0.0577350269),
                              "problems": 3, "infinite": 1}  # fmt: skip
        assert cell(table(tables, "summary"), "best", "max regret, train").best
        assert cell(table(tables, "summary"), "milp", "max regret, train").text == "∞"
        assert cell(table(tables, "t train"), "reg-d1", "best").values["problems"] == 3
        assert cell(table(tables, "wilcoxon train"), "reg-d1", "best").values["problems"] == 4
        # Three of four are better, and the fourth is the worst of all: W = 4 of 10.
        assert cell(table(tables, "wilcoxon train"), "reg-d1", "best").values["p"] == 7 / 16
        assert (
            "both methods are finite; infinite figures are left out: reg-d1 1, milp 4."
            in (table(tables, "t train").notes[0])
        )
        assert "rank last: reg-d1 1, milp 4." in table(tables, "wilcoxon train").notes[0]

    def test_one_problem_has_no_tests(self):
        (summary,) = make_tables(Results.of([record("best", "a", 2.0), record("reg-d1", "a", 1.0)]))
        assert "No tests: one problem does not tell which method is better." in summary.notes

    def test_the_eleven_are_not_listed(self):
        eleven = [record(m, "seed=0", 1.0) for m in ELEVEN]
        for runs in (eleven, [*eleven, record("mixture", "seed=0", 1.0)]):
            caption = make_tables(Results.of(runs, ELEVEN))[0].caption
            assert "the largest finite one of the paper's eleven methods, over 1 problem" in caption
        assert "one of best, over" in make_tables(Results.of(eleven, ["best"]))[0].caption

    def test_p_values_by_hand(self):
        """Method one is better on all of five problems: (1/2)^5, times 2 for the two comparisons."""
        runs = [record(m, f"seed={k}", v + k) for k in range(5) for m, v in (("reg-d1", 1.0), ("best", 2.0))]
        shown = table(make_tables(Results.of(runs)), "wilcoxon train")
        assert shown.columns == ("method", "reg-d1", "best")
        better = cell(shown, "reg-d1", "best")
        assert better.text == "0.031" and better.values == {"p": 1 / 32, "holm": 1 / 16, "problems": 5}
        assert cell(shown, "best", "reg-d1").text == "–" and cell(shown, "best", "reg-d1").values["p"] == 1.0
        assert cell(shown, "best", "best") == Cell("–")
        t = cell(table(make_tables(Results.of(runs)), "t train"), "best", "reg-d1")
        assert t.text == "–" and t.values["p"] > 0.5

    def test_stars_are_what_survives_the_correction(self):
        runs = [record(m, f"seed={k}", v + 0.01 * k) for k in range(12) for m, v in (("reg-d1", 1.0), ("best", 2.0))]
        assert cell(table(make_tables(Results.of(runs)), "wilcoxon train"), "reg-d1", "best").text == "0.00024*"
        assert cell(table(make_tables(Results.of(runs)), "t train"), "reg-d1", "best").text == "<0.0001*"

    def test_the_paper_stands_beside_its_own_methods_only(self, small):
        eleven = [record(m, "seed=0", 1.0 + k, 1.0, group=g, size="") for g in PAPER for k, m in enumerate(ELEVEN)]
        tables = make_tables(Results.of([*eleven, *small], ELEVEN))
        for group, sets in PAPER.items():
            shown = table(tables, "summary", group)
            for samples, method in itertools.product(("train", "test"), ELEVEN):
                assert cell(shown, method, f"paper, {samples}").values["mean"] == sets[samples][method]
            assert ("paper, seconds" in shown.columns) == ("seconds" in sets)
        assert cell(table(tables, "summary"), "reg-d1", "paper, train").text == "0.576 ± 0.25"
        assert cell(table(tables, "summary"), "adaptive", "paper, train").text == "–"
        assert not any("paper" in name for one in make_tables(Results.of(eleven)) for name in one.columns)

    def test_published_figures_from_a_file(self, small, tmp_path):
        path = tmp_path / "others.toml"
        path.write_text('[disaster.train]\nreg-d1 = 0.5\n[disaster."train deviation"]\nreg-d1 = 0.1\n')
        shown = table(make_tables(Results.of(small), read_published(path)), "summary")
        assert cell(shown, "reg-d1", "published, train").text == "0.500 ± 0.10"
        assert cell(shown, "robust", "published, train").text == "–"

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("[disaster.trian]\nbest = 1", "did you mean 'train'"),
            ("disaster = 3", "expected a table"),
            ("[disaster]\ntrain = 3", "expected a table of methods"),
            ("[disaster.train]\nbest = 'low'", "expected a number"),
            ("[disaster", "no TOML"),
        ],
    )
    def test_published_figures_that_are_none(self, text, expected, tmp_path):
        path = tmp_path / "others.toml"
        path.write_text(text)
        with pytest.raises(BadFile, match=expected):
            read_published(path)
        with pytest.raises(BadInput, match="there is no such file"):
            read_published(tmp_path / "nowhere.toml")

    def test_a_single_run(self):
        (summary,) = make_tables(Results.of([record("best", "a", 2.0, group="mine", size="")]))
        assert [c.text for c in summary.rows[0].cells] == ["1", "1.000", "0.500", "100 %"]

    def test_nothing_but_failures(self):
        tables = make_tables(Results.of([record("best", "a", None), record("reg-d1", "a", None)]))
        assert [c.text for c in tables[0].rows[0].cells] == ["0 of 1", "–", "–", "–"]
        assert all(write_tables(tables, name) for name in ("text", "markdown", "latex", "csv"))


AWKWARD = Table("a_b & c: 50 % | <i>", ("method", "max|regret", "4×4"),
                (TableRow(Cell("re_g*"), (Cell("∞", {"mean": math.inf}, True),
                                          Cell("<0.0001*", {"p": 1e-17, "holm": 0.1}))),),
                "x ~ y^2 {$} #1 \\ [bold]", ("one_note", "[red]two[/red]"), group="a_b & c",
                kind="summary")  # fmt: skip


class TestFormats:
    def test_csv_reads_back_with_all_digits(self, small):
        tables = make_tables(Results.of(small))
        lines = list(csv.DictReader(io.StringIO(write_tables(tables, "csv"))))
        values = {(one["group"], one["table"], one["row"], one["column"], one["measure"]): one["value"]
                  for one in lines}  # fmt: skip
        expected = {(t.group, t.kind, row.name, column, measure): value
                    for t in tables for row in t.rows
                    for column, c in zip(t.columns[1:], row.cells, strict=True)
                    for measure, value in c.values.items()}  # fmt: skip
        assert len(lines) == len(values) and values.keys() == expected.keys()
        for key, text in values.items():
            assert float(text) == expected[key] or (math.isnan(float(text)) and math.isnan(expected[key]))

    def test_csv_quotes(self):
        (first, *_) = csv.DictReader(io.StringIO(write_tables([AWKWARD], "csv")))
        assert (first["group"], first["column"], first["value"]) == ("a_b & c", "max|regret", "inf")

    def test_latex_has_no_bare_sign(self):
        text = write_tables([AWKWARD], "latex")
        body = text.partition("\n")[2]
        for sign in "%#&_":
            assert not re.search(rf"(?<!\\){sign}", body.replace(" & ", " ")), sign
        assert r"\textbf{a\_b \& c}: 50 \% \textbar{} $<$i$>$." in text
        assert r"x \textasciitilde{} y\textasciicircum{}2 \{\$\} \#1 \textbackslash{} [bold]" in text
        assert r"re\_g* & \textbf{$\infty$} & $<$0.0001* \\" in text
        assert r"4$\times$4" in text

    def test_latex_is_balanced_and_has_all_cells(self, small):
        tables = make_tables(Results.of(small))
        text = write_tables(tables, "latex")
        assert text.count(r"\begin{table}") == text.count(r"\end{table}") == len(tables)
        assert text.count(r"\toprule") == text.count(r"\bottomrule") == len(tables)
        plain = re.sub(r"\\[{}]", "", text)
        assert plain.count("{") == plain.count("}")
        assert all(ord(sign) < 128 for sign in text)

    def test_wide_latex_tables_are_shrunk(self):
        runs = [record(m, problem, 1.0 + k) for k, m in enumerate(ELEVEN) for problem in "ab"]
        text = write_tables(make_tables(Results.of(runs)), "latex")
        assert text.count(r"\resizebox") == text.count(r"\end{tabular}}") == 2

    def test_markdown_tables_have_as_many_cells_in_each_line(self, small):
        for text in (write_tables(make_tables(Results.of(small)), "markdown"), write_tables([AWKWARD], "markdown")):
            for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
                assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1
        assert r"re\_g\*" in text and r"\<0.0001\*" in text and r"50 % \| \<i\>" in text

    def test_text_shows_everything_as_it_is(self):
        text = write_tables([AWKWARD], "text")
        for part in ("a_b & c: 50 % | <i>", "[bold]", "[red]two[/red]", "re_g*", "max|regret", "∞", "<0.0001*"):
            assert part in text
        assert "\x1b" not in text

    @pytest.mark.parametrize("name", ["text", "markdown", "latex"])
    def test_names_are_on_one_line(self, name):
        odd = "a\nb\tc\x07d\u2028e\x1b[1m"
        text = write_tables(make_tables(Results.of([record("best", "a", 2.0, group=odd)])), name)
        assert "a b c d e " in text and not any(sign in text for sign in "\t\x07\u2028\x1b")

    def test_wide_text_is_not_cut(self):
        runs = [record(f"{m}", problem, 1.0 + k, 2.0) for k, m in enumerate(ELEVEN) for problem in "ab"]
        text = write_tables(make_tables(Results.of(runs)), "text")
        assert "…" not in text
        head = next(line for line in text.splitlines() if line.split()[:2] == ["method", "reg-d1"])
        assert len(head.split()) == 12

    def test_an_unknown_format(self):
        with pytest.raises(BadInput, match="did you mean 'latex'"):
            write_tables([], "latx")
