"""The page: its numbers are those of the records, all that has a name is escaped, and it needs nothing else."""

import gc
import itertools
import math
import re
from dataclasses import dataclass, field, replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure

import rue
from rue import parsing
from rue._text import counted, percent_text
from rue.experiments.problems import ProblemRuns
from rue.experiments.provenance import machine, versions
from rue.experiments.results import Results
from rue.experiments.tables import make_tables
from rue.report import page, style, summary, tables
from rue.report.page import compare_page, experiment_page, map_figure
from rue.report.solutions import has_history

EVIL = """<b onclick="x()">&amp;'"</b><script>alert(1)</script>"""
RESCUE = "disaster:seed={},width=4,height=4,samples=4"
VOID = {"meta", "link", "img", "br", "wbr", "input", "hr"}
METHODS = ("reg-d1", "average", "adaptive")


@dataclass
class Element:
    """A part of a page."""

    tag: str
    attributes: dict[str, str]
    children: list["Element | str"] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.children)

    def all(self, tag: str, **wanted: str) -> list["Element"]:
        found = []
        for part in self.children:
            if isinstance(part, Element):
                if (not tag or part.tag == tag) and all(part.attributes.get(k) == v for k, v in wanted.items()):
                    found.append(part)
                found += part.all(tag, **wanted)
        return found


class Reader(HTMLParser):
    """Reads a page and insists that all that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        assert len(attrs) == len(dict(attrs)), f"an attribute of {tag} comes twice"
        element = Element(tag, {key: value or "" for key, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.open[-1].children.append(Element(tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read(text):
    assert text.startswith("<!DOCTYPE html>")
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert len(reader.open) == 1
    return reader.root


@cache
def rescue(seed=0):
    return parsing.read_model(RESCUE.format(seed))


@cache
def solution(name="average", seed=0):
    return rue.solve(rescue(seed), parsing.parse_method(name), limits=rue.Limits(1), bound=False)


def record(problem, method, regret, *, test=None, proved=0.0, group="disaster", size="4×4", **more):
    solver = parsing.parse_method(method)
    found = {} if regret is None else {
        "status": "solved", "error": None, "states": 16, "choices": 120, "samples": ["0", "1"], "objective": [0.0, 1.0],
        "max_regret": [proved, max(map(float, regret))], "regret": list(regret), "nodes": 16, "seconds": 0.25,
        "counters": {},
    }  # fmt: skip
    if test is not None:
        found["test"] = {"max_regret": max(map(float, test)), "regret": list(test)}
    return {
        "key": f"{group}|{problem}|{method}", "group": group, "size": size, "problem": problem, "method": method,
        "task": {
            "model": problem, "test": "2", "contents": "", "solver": solver.name, "seconds": 10.0,
            "parameters": {"steps": 1},
        },
        "status": "failed", "error": "SolverFailed: no", "wall_seconds": 2.0, "compile_seconds": 1.0,
        "finished": "2026-11-15T17:46:55+00:00", "versions": {"python": "3", "rue": "0"}, "machine": {"processor": "x"},
        **found, **more,
    }  # fmt: skip


def some_records():
    """Two sizes; regrets of the model itself where policies are kept, else made up; one failed, one endless."""
    records = []
    for seed in range(3):
        for method in METHODS:
            one = solution(method, seed)
            regret = list(one.regret)
            if method == "average" and seed == 1:
                regret[0] = "inf"
            records.append(record(RESCUE.format(seed), method, regret, test=regret[:2], proved=one.max_regret.lower))
    for seed in range(2):
        for rank, method in enumerate(METHODS):
            problem = f"disaster:seed={seed},width=6,height=6"
            regret = None if rank == seed == 1 else [0.5 * rank + seed, 10.0 / 3]
            records.append(record(problem, method, regret, test=regret, size="6×6"))
    stopped = next(one for one in records if one["method"] == "adaptive")
    stopped["status"] = "time_limit"
    return records


def kept(key):
    """The policies of the first problem are kept."""
    _, problem, method = key.split("|")
    return solution(method, 0) if problem == RESCUE.format(0) else None


def make_page(records, load_model=lambda text: parsing.read_model(text), load_solution=kept, **more):
    results = Results.of(records)
    tables = make_tables(results)
    return experiment_page(records, results, tables, load_model=load_model, load_solution=load_solution, **more)


@cache
def small_page():
    return make_page(some_records(), title="Small", spec='title = "Small"\nmethods = ["<reg>"]\n')


@cache
def small_comparison():
    solutions = {name: solution(name) for name in METHODS}
    test = parsing.draw_unseen(rescue(), 5)
    verdicts = {name: rue.evaluate(test, one.policy) for name, one in solutions.items()}
    about = {"Date": "2026-01-02 03:04 UTC", "Limit": "30 s for each method"}
    return compare_page(RESCUE.format(0), rescue(), solutions, test, verdicts, about=about)


@pytest.fixture(scope="module", params=[small_page, small_comparison], ids=["experiment", "comparison"])
def text(request):
    return request.param()


def test_a_comparison_tells_why_and_what_was_run():
    root = read(small_comparison())
    best = min((solution(name) for name in METHODS), key=lambda one: one.max_regret.upper)
    why = root.all("section", id="why")[0]
    assert [head.text for head in why.all("h3")] == list(rue.explain(rescue(), best).sections())
    assert [item.text for item in why.all("li")] == rue.explain(rescue(), best).lines()
    runs = root.all("section", id="runs")[0].text
    assert all(fact in runs for fact in ("2026-01-02 03:04 UTC", "30 s for each method", "numpy", "cores"))


def test_only_methods_with_a_history_are_in_the_figure_of_bounds():
    root = read(small_comparison())
    known = [name for name in METHODS if has_history(solution(name))]
    assert 0 < len(known) < len(METHODS)
    (figure,) = [one for one in root.all("figure") if "Bounds over time" in one.text]
    for name in METHODS:
        assert (f"{name}: solved" in figure.text) == (name in known)
    assert f"The other {counted(len(METHODS) - len(known), 'method')} found no bounds on the way" in figure.text


def test_gap_and_mean_regret_are_those_of_the_solution():
    table = rows_of(read(small_comparison()).all("section", id="methods")[0].all("table")[0])
    for name in METHODS:
        one, bound = solution(name), max(solution(other).max_regret.lower for other in METHODS)
        gap = rue.Interval(min(bound, one.max_regret.upper), one.max_regret.upper).gap(one.floor)
        assert table[name]["gap"].text == percent_text(gap)
        assert table[name]["mean regret"].text == f"{one.mean_regret:.3g}"


def test_the_policy_table_names_the_nodes_that_follow():
    policy = solution("adaptive").policy
    for row in tables.policy_table("adaptive", policy).rows:
        node, follow = int(row.name), row.cells[-1].text
        entries = range(policy.entry_ptr[node], policy.entry_ptr[node + 1])
        names = {
            f"{policy.graph.state_name(policy.node_state[n])}: {n}"
            for entry in entries
            for n in policy.next_node[policy.next_ptr[entry] : policy.next_ptr[entry + 1]]
        }
        assert set(follow.split("; ")[:3]) <= names


@pytest.fixture
def without_figures(monkeypatch):
    """Figures of the experiment take the most time, and not every test looks at them."""
    monkeypatch.setattr(page, "experiment_figures", lambda results: [])


def rows_of(table):
    """The values of a table by the first cell of each row, and the headings."""
    heads = [cell.text for cell in table.all("thead")[0].all("tr")[0].all("th")]
    rows = {}
    for row in table.all("tbody")[0].all("tr"):
        cells = [part for part in row.children if isinstance(part, Element)]
        assert len(cells) == len(heads)
        rows[cells[0].text] = dict(zip(heads[1:], cells[1:], strict=True))
    return rows


def number(cell):
    value = cell.attributes["data-value"]
    return math.nan if value == "" else float(value)


def test_everything_is_closed_and_named_once(text):
    root = read(text)
    names = [element.attributes["id"] for element in root.all("") if "id" in element.attributes]
    assert len(names) == len(set(names))
    for link in root.all("a"):
        assert link.attributes["href"].removeprefix("#") in names
    for use in root.all("use"):
        assert use.attributes["xlink:href"].removeprefix("#") in names
    for name in re.findall(r"url\(#([^)]*)\)", "".join(str(e.attributes) for e in root.all(""))):
        assert name in names


def test_headings_are_in_order_and_pictures_have_words(text):
    root = read(text)
    levels = [int(e.tag[1]) for e in root.all("") if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later <= before + 1 for before, later in itertools.pairwise(levels))
    assert root.all("html")[0].attributes["lang"] == "en" and root.all("title")[0].text
    assert all(image.attributes["alt"] for image in root.all("img"))
    assert all(figure.attributes["aria-label"] for figure in root.all("svg"))
    assert root.all("svg") and root.all("img")
    assert any(part.text.strip() for figure in root.all("svg") for part in figure.all("text"))  # letters are letters


def test_it_needs_nothing_else(text):
    for element in read(text).all(""):
        for key, value in element.attributes.items():
            if key in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
                assert value.startswith(("#", "data:")), (element.tag, key, value[:80])
            if not key.startswith("xmlns"):
                assert "http:" not in value.partition("data:image")[0] and "https:" not in value.partition("data:")[0]
    assert "@import" not in text and "default-src 'none'" in text


def test_numbers_of_problems_are_those_of_the_records():
    records = some_records()
    root = read(small_page())
    problems = {
        p.all("p", **{"class": "facts"})[0].text.rpartition(" ")[2]: p
        for p in root.all("details", **{"class": "problem"})
    }
    assert len(problems) == 5
    for one in records:
        row = rows_of(problems[one["problem"]].all("table")[0])[one["method"]]
        if one["status"] == "failed":
            assert all(math.isnan(number(row[name])) for name in ("max regret, train", "max regret, test", "seconds"))
            assert row["status"].text == "failed"
            assert {cell.text for cell in row.values()} == {"failed", "–"}
            continue
        assert number(row["max regret, train"]) == float(one["max_regret"][1])
        assert number(row["max regret, test"]) == one["test"]["max_regret"]
        assert number(row["proved bound"]) == one["max_regret"][0]
        assert number(row["seconds"]) == one["seconds"] and number(row["nodes"]) == one["nodes"]
        assert row["status"].text == one["status"].replace("_", " ")
        assert float(row["proved bound"].text) <= one["max_regret"][0]
        shown = row["max regret, train"].text
        assert (
            shown == "∞" if one["max_regret"][1] == math.inf else float(shown) == float(f"{one['max_regret'][1]:.3g}")
        )


def test_tables_are_those_of_the_experiment():
    results = Results.of(some_records())
    shown = read(small_page()).all("section", id="results")[0].all("table")
    tables = make_tables(results)
    assert len(shown) == len(tables)
    for element, table in zip(shown, tables, strict=True):
        rows = rows_of(element)
        pinned = element.all("tr", **{"class": "pinned"})
        assert len(rows) + len(pinned) == len(table.rows)
        for row in table.rows[len(pinned) :]:
            for column, cell in zip(table.columns[1:], row.cells, strict=True):
                assert rows[row.name][column].text == cell.text
                value = next(iter(cell.values.values()), math.nan)
                assert number(rows[row.name][column]) == value or math.isnan(value)


def test_tests_are_folded_away():
    section = read(small_page()).all("section", id="results")[0]
    assert len(section.all("details", **{"class": "fold"})) == 4
    assert not any("open" in fold.attributes for fold in section.all("details"))


def test_times_and_stopped_runs():
    root, records = read(small_page()), some_records()
    runs = root.all("section", id="runs")[0]
    stopped, times, parameters = (rows_of(table) for table in runs.all("table"))
    for method in METHODS:
        own = [one for one in records if one["method"] == method]
        assert number(times[method]["runs"]) == len(own)
        assert number(times[method]["solver, s"]) == math.fsum(one.get("seconds", 0.0) for one in own)
        assert number(times[method]["all, s"]) == 2.0 * len(own)
        assert "10 s" in parameters[method]["time limit"].text
    assert len(stopped) == 2
    assert {row["what happened"].text for row in stopped.values()} == {
        "SolverFailed: no",
        "the best policy so far was returned",
    }
    assert "<reg>" in runs.all("pre")[0].text


def test_the_summary_tells_what_happened():
    words = read(small_page()).all("section", id="summary")[0].text
    assert "3 methods met 5 problems: 5 of disaster in 2 sizes, 4×4 to 6×6" in words
    assert "Of 15 runs, 13 ended as planned, 1 ended with “time limit” and 1 failed." in words
    assert "1 policy may miss the goal" in words and "None failed" not in words
    results = Results.of(some_records())
    mean = np.nanmean(results.groups[0].normalised("train"), axis=0)
    best = int(np.argmin(mean))
    assert f"{results.groups[0].methods[best]} has the least mean of normalised max regret, {mean[best]:.3f}" in words
    assert "5 problems are too few for any difference to be significant" in words


@pytest.mark.parametrize(
    ("regrets", "words"),
    [
        ({"reg-d1": None, "average": None}, "On train samples no method has a figure."),
        ({"average": [1.0]}, "regret of average is 1.000. How far that is from the best possible is not"),
        ({"reg-d1": [2.0], "average": [2.0]}, "the mean of normalised max regret of reg-d1 and average is 1.000"),
        ({"reg-d1": [2.0], "average": [1.0]}, "average has the least mean of normalised max regret, 0.500"),
        ({"average": ["inf"], "best": [1.0]}, "max regret, 1.000, before average with ∞"),
        ({"average": ["inf"], "best": ["inf"]}, "of average and best is ∞. How far that is from the best possible is "
                                                "not known, as all regrets are infinite"),
    ],
)  # fmt: skip
def test_the_summary_of_few_runs(regrets, words, without_figures):
    records = [record("a:seed=1", name, regret) for name, regret in regrets.items()]
    assert words in read(make_page(records, load_solution=lambda key: None)).all("section", id="summary")[0].text


def test_significance_and_distance_are_told(without_figures):
    records = []
    for seed in range(12):
        for method, regret in (("adaptive", 1.0), ("best", 2.0), ("average", 1.0 if seed == 0 else 3.0)):
            records.append(record(f"a:seed={seed}", method, [regret], proved=0.8 if method == "adaptive" else 0.0))
    words = read(make_page(records, load_solution=lambda key: None)).all("section", id="summary")[0].text
    assert "it is significantly below every other. That leaves a gap of at most 20 %" in words


def test_infinities_and_ties_are_told(without_figures):
    records = []
    for seed in range(3):
        bad = seed == 0
        for method, regret in (("reg-d1", 1.0), ("adaptive", 1.0004), ("best", "inf" if bad else 0.5), ("milp", 2.0)):
            if method == "adaptive" and bad:
                regret = 0.9996
            test = ["inf"] if bad and method in ("best", "milp") else [regret]
            proved = 0.8 if method == "adaptive" else 0.0
            records.append(record(f"a:seed={seed}", method, [regret], test=test, proved=0.0 if seed == 1 else proved))
    words = read(make_page(records, load_solution=lambda key: None)).all("section", id="summary")[0].text
    assert "1 policy may miss the goal in some train sample and 2 policies may miss the goal in some test" in words
    assert "reg-d1 and adaptive have the least mean of normalised max regret, 0.500, before milp with 1.000" in words
    assert "Of these reg-d1 leaves a gap of at most 20 %" in words and "except on 1 problem without a bound" in words
    root = read(make_page(records, load_solution=lambda key: None))
    table = rows_of(root.all("section", id="results")[0].all("table")[0])
    assert table["best"]["max regret, train"].text == "0.250 (1 ∞) ± 0.00"


def test_the_bound_of_a_comparison_is_told_once():
    root = read(small_comparison())
    methods = root.all("section", id="methods")[0]
    heads = [head.text for head in methods.all("table")[0].all("th")]
    assert "max regret, train" in heads and "proved bound" not in heads
    assert methods.text.count("No policy of any kind has a max regret") <= 1


def test_a_comparison_in_which_nobody_reaches_the_goal():
    status = {"average": "solved", "best": "time_limit"}
    records = {name: record("a", name, [math.inf], proved=0.5, status=one) for name, one in status.items()}
    text, stopped = summary.comparison(ProblemRuns("a", records))
    assert text.startswith("No method found a policy that surely reaches the goal") and "best" in stopped


def test_a_comparison_tells_versions_and_machine():
    text = read(small_comparison()).all("section", id="runs")[0].text
    for values in (versions(), machine()):
        assert all(f"{name} {value}" in text for name, value in values.items())


@pytest.mark.parametrize("change", [1.001, math.inf])
def test_a_model_that_has_changed_is_not_drawn(change, without_figures):
    def changed(text):
        model = parsing.read_model(text)
        return model if change == math.inf else rue.UMDP(model.graph, model.prob, model.cost * change)

    records = some_records()
    if change == math.inf:
        for one in records:
            one["regret"] = ["inf", *one.get("regret", [])[1:]]
    root = read(make_page(records, load_model=changed))
    assert not root.all("img")
    text = root.all("section", id="problems")[0].text
    assert "The policy of average cannot be shown: " in text and "has changed since: its max regret there is" in text


def test_an_experiment_of_failures_has_no_figures():
    root = read(make_page([record("a:seed=1", "average", None)], load_solution=lambda key: None))
    assert not root.all("section", id="figures") and not root.all("svg")


def test_what_is_proved_is_rounded_to_the_safe_side():
    assert [style.bound_text(value) for value in (0.89399, 0.3, 0.0, 12345.6)] == ["0.893", "0.3", "0", "1.23e+04"]
    assert [percent_text(share) for share in (0.0284, 0.25, 0.0, 1.2345, math.inf)] == [
        "2.9 %",
        "25 %",
        "0 %",
        "124 %",
        "∞",
    ]


def test_kept_policies_are_shown_best_first():
    root = read(small_page())
    first, *others = root.all("details", **{"class": "problem"})
    names = [policy.attributes["data-name"] for policy in first.all("div", **{"class": "policy"})]
    assert names == sorted(METHODS, key=lambda name: solution(name).max_regret.upper)
    assert len(first.all("img")) == 3 and len(first.all("svg")) == 1
    assert not any(other.all("img") or other.all("svg") for other in others)
    policy = solution("average").policy
    table = first.all("div", **{"class": "policy", "data-name": "average"})[0].all("table")[0]
    cells = [[cell for cell in row.children if isinstance(cell, Element)] for row in table.all("tbody")[0].all("tr")]
    shown = {(int(c[0].text), c[1].text, c[2].text, number(c[3])) for c in cells}
    assert shown <= {tuple(row.values()) for row in policy.rows()} and len(shown) == tables.FIRST_ROWS
    assert int(cells[0][0].text) == policy.start_node[0]


def evil_model():
    transition = np.zeros((2, 3, 1, 3))
    transition[:, 0, 0, 1] = transition[:, 1, 0, 2] = 1.0
    model = rue.UMDP.from_dense(transition, np.ones((2, 3, 1)), goals=[2], states=[EVIL, "b", "c"], actions=[EVIL])
    return replace(model, sample_label=(EVIL, "<2>"))


def test_all_names_are_escaped():
    model = evil_model()
    found = rue.solve(model, rue.Average())
    records = [record(f"{EVIL}.rue", method, [0.0, 0.0], group=EVIL, size=EVIL) for method in METHODS]
    records.append(record("other", "average", None, group=EVIL, size=EVIL, error=EVIL, machine={EVIL: EVIL}))
    pages = [
        make_page(records, lambda _: model, lambda key: found if "|other|" not in key else None, title=EVIL, spec=EVIL),
        compare_page(EVIL, model, {EVIL: found, "b": found}),
    ]
    for text in pages:
        root = read(text)
        assert len(root.all("script")) == 1 and not root.all("b", onclick="x()")
        assert all("onclick" not in element.attributes for element in root.all(""))
        assert root.all("h1")[0].text == EVIL and root.all("title")[0].text == EVIL
        assert EVIL in [cell.text for cell in root.all("td")]
    assert [part.text for part in read(pages[0]).all("pre")] == [EVIL]


def test_what_cannot_be_read_costs_nothing_else(without_figures):
    def lost(text):
        raise rue.BadFile(f"{text}: there is no such file <1>")

    root = read(make_page(some_records(), load_model=lost))
    assert not root.all("img")
    assert "there is no such file <1>" in root.all("section", id="problems")[0].text


def test_pictures_end_when_there_is_no_room(monkeypatch, without_figures):
    monkeypatch.setattr(page, "MOST_BYTES", 1)
    told = []
    root = read(make_page(some_records(), progress=lambda done, total: told.append((done, total))))
    assert len(root.all("img")) == 1
    assert "More were kept than are shown" in root.text
    assert told == [(0, 14)]


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_is_left_of_figures(enabled):
    def figures():
        return sum(isinstance(one, Figure) for one in gc.get_objects())

    gc.collect()  # those of other tests
    before, there = gc.isenabled(), figures()
    (gc.enable if enabled else gc.disable)()
    try:
        assert map_figure(rescue(), "average", solution().policy) is not None
        assert gc.isenabled() == enabled
        assert figures() == there
    finally:
        (gc.enable if before else gc.disable)()


def test_hundreds_of_problems_are_a_small_page(without_figures):
    methods = [f"reg-{kind}{steps}" for kind in "dsh" for steps in range(1, 5)] + ["average", "best", "robust", "milp"]
    rng = np.random.default_rng(1)
    records = []
    for seed in range(300):
        for method in methods:
            regret = rng.random(15).tolist()
            records.append(record(f"disaster:seed={seed}", method, regret, test=regret, size=f"{seed % 6}"))
    text = make_page(records, load_solution=lambda key: None)
    assert len(text.encode()) + page.MOST_BYTES < 15_000_000
    assert text.count('class="problem"') == 300


def long_winded() -> rue.UMDP:
    """States, actions and samples with names of thousands of letters."""
    builder = rue.Builder(3)
    for number in range(14):
        after = f"{'state ' * 2000}{number + 1}"
        builder.add(f"{'state ' * 2000}{number}", "act " * 2000, {after: 1.0}, cost=[1.0, 2.0, 3.0])
    model = builder.goal(f"{'state ' * 2000}14").build()
    return rue.UMDP(model.graph, model.prob, model.cost, [f"{'sample ' * 2000}{k}" for k in range(3)])


def test_long_names_and_many_runs_are_a_small_page(recwarn):
    model = long_winded()
    found = rue.solve(model, rue.Average(), bound=False)
    text = compare_page("m" * 10_000, model, {f"{'method ' * 1000}{number}": found for number in range(60)})
    assert len(text) < 3_000_000
    assert "The first 24 of 60 methods." in text
    assert not recwarn.list


def test_tables_of_policies_end_when_there_is_no_room(monkeypatch, without_figures):
    monkeypatch.setattr(page, "MOST_BYTES", 1)
    model = long_winded()
    found = rue.solve(model, rue.Average(), bound=False)
    records = [record(f"m{number}.rue", "average", list(found.regret), size="") for number in range(20)]
    text = make_page(records, load_model=lambda text: model, load_solution=lambda key: found)
    assert text.count("Its first 12 rows of 14") == 1
    assert len(text) < 300_000


def test_a_model_without_a_map_and_methods_without_a_bound():
    model = evil_model()
    found = rue.solve(model, rue.Average(), bound=False)
    root = read(compare_page("m.rue", model, {"average": found}))
    assert not root.all("img") and root.all("svg")
    with pytest.raises(rue.BadInput, match="no solutions"):
        compare_page("m.rue", model, {})


def test_equal_pages_are_equal():
    assert make_page(some_records(), title="Small", spec='title = "Small"\nmethods = ["<reg>"]\n') == small_page()
