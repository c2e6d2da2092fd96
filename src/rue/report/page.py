"""One page of HTML for an experiment, or for several methods on one model. It needs no network and no other file.

Tables and figures are those of `rue.experiments.tables` and `rue.report.figures`; each problem stands below them, to be
opened: the regret of each method, the proved bound, and, where policies were kept, what they do. Numbers are of records
and solutions alone. Whatever has a name that somebody else gave is escaped, as the template escapes all that is not
`Markup`.

Figures are inline, with letters that can be searched and colours that follow the reader's light or dark. Maps are many
and large, so they are images that a browser draws when they come to be seen, and there are only so many of them: of
each size the first problems, of each problem the best methods, until `MOST_BYTES` are used. The page says if more were
kept.
"""

import math
import os
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_HALF_EVEN
from functools import cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from rue._flat import Array
from rue.errors import BadInput, RueError
from rue.evaluate import Evaluation
from rue.experiments.results import Group, Results, Samples, method_labels, problem_of
from rue.experiments.statistics import compare_methods, describe
from rue.experiments.tables import SIGNIFICANT, Table
from rue.model import UMDP
from rue.policy import Policy
from rue.report import style
from rue.report.bounds import draw_bounds
from rue.report.figures import draw_experiment
from rue.report.maps import draw_map
from rue.report.regrets import draw_regrets
from rue.solution import Solution

# Of maps and other pictures of single problems, in the whole page.
MOST_BYTES = 8_000_000
FIRST_ROWS = 12  # of a policy
PIXELS = 88  # for an inch of a figure
SAME = 1e-9  # regrets closer than this share of the largest are equal
REMEMBERED = 32  # models
MOST_STOPPED = 300  # runs in one table
FAILED, SOLVED = "failed", "solved"

Record = dict[str, Any]
Progress = Callable[[int, int], None]  # how many policies are done, and of how many


@dataclass(frozen=True)
class Cell:
    """What stands in a table. A number also has its full value, by which it is sorted; a missing one is NaN."""

    text: str
    number: float | None = None
    strong: bool = False
    bar: float | None = None  # percent of the widest
    mark: float | None = None  # the proved bound on the same scale
    link: str = ""

    @property
    def sort(self) -> str:
        """The value for the script of the page."""
        if self.number is None or math.isnan(self.number):
            return ""
        return repr(self.number) if math.isfinite(self.number) else "inf"


@dataclass(frozen=True)
class Column:
    """A heading, and whether numbers are below it."""

    name: str
    number: bool = True


@dataclass(frozen=True)
class Sheet:
    """A table of the page."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    notes: Sequence[str] = ()
    pinned: Sequence[Cell] = ()  # a row that stays below the headings
    folded: bool = False
    wraps: bool = False  # for words rather than numbers


@dataclass(frozen=True)
class Drawing:
    """A figure of the page: inline, or a picture on white."""

    title: str
    caption: str
    body: Markup
    picture: bool = False


@dataclass(frozen=True)
class PolicyView:
    """What a policy does: its map, if there is one, and its first rows."""

    name: str
    table: Sheet
    map: Drawing | None = None


@dataclass
class ProblemView:
    """One problem, to be opened."""

    id: str
    title: str
    words: str  # beside the title
    facts: str
    table: Sheet | None
    figures: list[Drawing] = field(default_factory=list)
    policies: list[PolicyView] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SizeView:
    """The problems of one size."""

    title: str
    words: str
    problems: Sequence[ProblemView]
    open: bool = False


@dataclass(frozen=True)
class Part:
    """A part of a section; without a title it is the section's own."""

    title: str = ""
    id: str = ""
    words: Sequence[str] = ()
    items: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    tables: Sequence[Sheet] = ()
    figures: Sequence[Drawing] = ()
    sizes: Sequence[SizeView] = ()
    after: Sequence[str] = ()  # words below the items
    problem: ProblemView | None = None
    code: str = ""


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    id: str
    title: str
    parts: Sequence[Part]
    words: Sequence[str] = ()


@dataclass(frozen=True)
class Row:
    """One method on one problem."""

    method: str
    status: str
    train: float
    test: float
    proved: float
    seconds: float
    nodes: float


@dataclass(frozen=True)
class Case:
    """All records of one problem, by method."""

    id: str  # where it is in the page
    records: Mapping[str, Record]

    @property
    def first(self) -> Record:
        """Any of them, for what they share."""
        return next(iter(self.records.values()))

    @property
    def seed(self) -> str:
        """What tells it from others of its size: `seed 3`."""
        seed = re.search(r"[:,]seed=(\d+)", self.first["problem"])
        return f"seed {seed[1]}" if seed else ""

    @property
    def title(self) -> str:
        """The problem in a few words: `disaster 8×8, seed 3`."""
        name = " ".join(filter(None, [self.first["group"], self.first["size"]]))
        return f"{name}, {self.seed}" if self.seed else name

    @cached_property
    def done(self) -> dict[str, Record]:
        """The records that have a policy, the least max regret first."""
        done = [(name, record) for name, record in self.records.items() if record["status"] != FAILED]
        return dict(sorted(done, key=lambda item: float(item[1]["max_regret"][1])))

    @cached_property
    def rows(self) -> list[Row]:
        """What the records say, the least max regret first, failed ones last."""
        return [_row(name, record) for name, record in self.done.items()] + [
            _row(name, record) for name, record in self.records.items() if name not in self.done
        ]

    @property
    def bound(self) -> float:
        """The best proved bound on the max regret of every policy."""
        return max((float(record["max_regret"][0]) for record in self.done.values()), default=0.0)

    @property
    def samples(self) -> int:
        """How many samples were planned with."""
        return max((len(record["regret"]) for record in self.done.values()), default=0)

    @property
    def tests(self) -> int:
        """How many samples were tested on."""
        return max((len(record["test"]["regret"]) for record in self.done.values() if "test" in record), default=0)


def _row(name: str, record: Record) -> Row:
    if record["status"] == FAILED:
        return Row(name, FAILED, math.nan, math.nan, math.nan, math.nan, math.nan)
    lower, upper = record["max_regret"]
    test = float(record["test"]["max_regret"]) if "test" in record else math.nan
    return Row(
        name, record["status"], float(upper), test, float(lower), float(record["seconds"]), float(record["nodes"])
    )


def cases_of(records: Sequence[Record], results: Results) -> list[Case]:
    """The records by problem, in the order of the results."""
    label = method_labels(records)
    found: dict[tuple[str, str], dict[str, Record]] = {}
    for record in records:
        found.setdefault(problem_of(record), {})[label[record["key"]]] = record
    order = [(group.name, problem) for group in results.groups for problem in group.problems]
    return [Case(f"problem-{number}", found[key]) for number, key in enumerate(order, 1)]


def experiment_page(
    records: Sequence[Record],
    results: Results,
    tables: Sequence[Table],
    *,
    load_model: Callable[[str], UMDP],
    load_solution: Callable[[str], Solution | None],
    title: str = "",
    spec: str = "",
    progress: Progress | None = None,
) -> str:
    """The page of an experiment: its records, the results and tables made of them, and the text of its spec.

    `load_model` reads a model from its text in a record, and `load_solution` gives a kept solution by its key: they are
    asked for the problems whose policies are shown, and `progress` is told how many of these are done.
    """
    cases = cases_of(records, results)
    sections = [
        Section(
            "summary", "Summary", [Part(items=_findings(results), after=[TESTED])], words=_what_ran(cases, results)
        ),
        Section("results", "Results", [_group_part(group, tables) for group in results.groups], words=[NORMALISED]),
        Section("figures", "Figures", [Part(figures=_experiment_figures(results))]),
        _problem_section(cases, results, Pictures(load_model, load_solution, MOST_BYTES), progress),
        Section("runs", "What was run", _provenance(cases, spec)),
    ]
    return _render("rue · experiment", title or "Experiment", _byline(cases, results), sections)


def compare_page(
    model_text: str,
    model: UMDP,
    solutions: Mapping[str, Solution],
    test: UMDP | None = None,
    verdicts: Mapping[str, Evaluation] | None = None,
) -> str:
    """The page of several methods on one model, by name; with the judge's verdicts on test samples, if any."""
    if not solutions:
        raise BadInput("there are no solutions to show; expected at least one")
    ranked = dict(sorted(solutions.items(), key=lambda item: item[1].max_regret.upper))
    tested = {name: verdicts[name] for name in ranked} if test is not None and verdicts is not None else {}
    bound = max(solution.max_regret.lower for solution in ranked.values())
    rows = [
        Row(
            name, solution.status.value, solution.max_regret.upper,
            tested[name].max_regret if tested else math.nan,
            solution.max_regret.lower, solution.seconds, solution.policy.nodes,
        )
        for name, solution in ranked.items()
    ]  # fmt: skip
    graph = model.graph
    facts = _size_words(graph.states, graph.choices, model.samples, test.samples if test is not None and tested else 0)
    table = _method_sheet("Max regret by method", rows, bound)
    policies = [_policy_view(model, name, solution.policy)[0] for name, solution in ranked.items()]
    figures = _compare_figures(model, ranked, bound, test, tested)
    sections = [
        Section("summary", "Summary", [], words=_compare_words(rows, bound)),
        Section("methods", "Methods", [Part(problem=ProblemView("", "", "", "", table, figures))]),
        Section("policies", "Policies", [Part(problem=ProblemView("", "", "", "", None, [], policies))]),
        Section("runs", "What was run", [_compare_provenance(model_text, solutions)]),
    ]
    return _render("rue · comparison", model_text, facts, sections)


def _render(kind: str, title: str, byline: str, sections: Sequence[Section]) -> str:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    template = environment.get_template("template.html.j2")
    rue = _version("rue") or "unknown"
    return template.render(
        kind=kind, title=title, heading=_breakable(title), byline=byline, sections=sections, version=rue
    )


def _breakable(text: str) -> Markup:
    """A text that may be broken after its commas, where it has no spaces."""
    return Markup(re.sub("([,:/])(?! )", r"\1<wbr>", str(escape(text))))


def _count(number: int, thing: str, things: str = "") -> str:
    """`1 method`, `3 methods`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}".replace(",", " ")


def _list(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _time(seconds: float) -> str:
    """`0.42 s`, `3 min 20 s`, `5 h 10 min`."""
    if math.isnan(seconds):
        return "–"
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _at_least(value: float) -> str:
    return "–" if math.isnan(value) else style.bound_text(value)


def _percent(share: float, rounding: str = ROUND_CEILING) -> str:
    """Two digits of a share, three from 100 % on; rounded up, as it mostly says what is not exceeded."""
    return "∞" if math.isinf(share) else f"{style.rounded(100 * share, 2 if share < 1 else 3, rounding):g} %"


def _status_words(status: str) -> str:
    return status.replace("_", " ")


def _size_words(states: float, choices: float, samples: int, tests: int) -> str:
    words = [_count(int(states), "state"), _count(int(choices), "choice"), f"{_count(samples, 'sample')} to plan with"]
    return ", ".join(words) + (f", {tests} others to test on" if tests else "")


def _number(value: float, *, digits: str = "") -> Cell:
    """A number in a table: three digits, or as `digits` says; a hole is a dash."""
    if math.isnan(value):
        return Cell("–", math.nan)
    return Cell(format(value, digits) if digits and math.isfinite(value) else style.number_text(value), value)


NORMALISED = (
    "The regret of a policy in a sample is its cost above the least that is possible there, and its max regret the "
    "largest of these. On each problem it is divided by that of the worst reference method: 1 is as bad as the worst, "
    "0 is no regret at all. “Train” is on the samples that were planned with, “test” on others."
)
TESTED = (
    "Regrets are max regrets, divided on each problem by that of the worst reference method. Significant means "
    f"p < {SIGNIFICANT:g} in Wilcoxon’s one-sided signed-rank test, after Holm’s correction for all pairs of methods."
)


def _byline(cases: Sequence[Case], results: Results) -> str:
    methods = {name for group in results.groups for name in group.methods}
    runs = sum(len(case.records) for case in cases)
    days = sorted(record["finished"][:10] for case in cases for record in case.records.values() if "finished" in record)
    when = f" · {days[0]}" + (f" to {days[-1]}" if days[-1] != days[0] else "") if days else ""
    return (
        f"{_count(len(results.groups), 'domain')} · {_count(len(cases), 'problem')} · "
        f"{_count(len(methods), 'method')} · {_count(runs, 'run')}{when}"
    )


def _what_ran(cases: Sequence[Case], results: Results) -> list[str]:
    """What was run and how it ended."""
    records = [record for case in cases for record in case.records.values()]
    methods = {name for group in results.groups for name in group.methods}
    where = []
    for group in results.groups:
        sizes = [size for size in group.sizes if size]
        kinds = f" in {_count(len(sizes), 'size')}, {sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else ""
        where.append(f"{len(group.problems)} of {group.name}{kinds or ''.join(f' ({size})' for size in sizes)}")
    solver = math.fsum(float(record.get("seconds", 0.0)) for record in records)
    wall = math.fsum(float(record.get("wall_seconds", 0.0)) for record in records)
    return [
        f"{_count(len(methods), 'method')} met {_count(len(cases), 'problem')}: {_list(where)}. "
        f"The solvers took {_time(solver)} in all, and {_time(wall)} with compilation, sampling and judging.",
        _how_it_ended(records, results),
    ]


def _how_it_ended(records: Sequence[Record], results: Results) -> Markup:
    """Runs by status, what is missing, and what must not be."""
    status = Counter(str(record["status"]) for record in records)
    missing = sum(int((group.status == "").sum()) for group in results.groups)
    solved, failed = status.pop(SOLVED, 0), status.pop(FAILED, 0)
    stopped = [f"{number} ended with “{_status_words(name)}”" for name, number in sorted(status.items())]
    failed_words = [f"{failed} failed"] if failed else []
    text = f"Of {_count(len(records), 'run')}, {_list([f'{solved} ended as planned', *stopped, *failed_words])}."
    text += " None failed." if not failed else ""
    if missing:
        text += f" {_count(missing, 'run')} of the full table {'is' if missing == 1 else 'are'} missing."
    endless = sum(sum(group.endless("train").values()) for group in results.groups)
    if endless:
        text += f" {_count(endless, 'policy', 'policies')} may miss the goal in some sample: the regret there is ∞."
    wrong = sum(group.contradictions for group in results.groups)
    if wrong:
        text += f" Beware: {_count(wrong, 'run')} had less regret than was proved to be possible; something is wrong."
    link = Markup(' <a href="#stopped">See which.</a>') if solved < len(records) else Markup()
    return escape(text) + link


def _findings(results: Results) -> list[Markup]:
    """For each group: who has the least regret, whether that is more than chance, and how near to the best possible."""
    items = []
    for group in results.groups:
        sentences = [f"On train samples {_least(group, 'train')}", _distance(group)]
        if group.has_test:
            sentences.append(f"On test samples {_least(group, 'test')}")
        start = Markup("<strong>{}</strong> ({}). ").format(group.name, _count(len(group.problems), "problem"))
        items.append(start + " ".join(f"{sentence}." for sentence in sentences if sentence))
    return items


def _means(group: Group, samples: Samples) -> Array:  # [method]
    return np.array([describe(column).mean for column in group.normalised(samples).T])


def _least(group: Group, samples: Samples) -> str:
    """The method with the least mean, and from which others it can be told at the level of five in a hundred."""
    mean = _means(group, samples)
    order = [int(i) for i in np.argsort(mean, kind="stable") if not math.isnan(mean[i])]
    if not order:
        return "no method has a figure"
    first, shown = order[0], [_mean_text(mean[i]) for i in order]
    ties = shown.count(shown[0])
    names, others = _list([group.methods[i] for i in order[:ties]]), order[ties:]
    if not others:
        return f"the mean regret of {names} is {shown[0]}"
    text = f"the least mean regret is that of {names}, {shown[0]}, before {group.methods[others[0]]} with {shown[ties]}"
    below = compare_methods(group.normalised(samples)).wilcoxon_holm[first]
    unsure = [i for i in others if not below[i] < SIGNIFICANT]
    if not unsure:
        return f"{text}; it is significantly below every other"
    if len(unsure) == len(others):
        return f"{text}; it is significantly below none of the others"
    names = _list([group.methods[i] for i in unsure[:4]] + ([f"{len(unsure) - 4} more"] if len(unsure) > 4 else []))
    return f"{text}; it is significantly below all but {names}"


def _mean_text(mean: float) -> str:
    return "∞" if math.isinf(mean) else f"{mean:.3f}"


def _distance(group: Group) -> str:
    """How far the best method is above what is proved to be possible."""
    mean = _means(group, "train")
    if np.isnan(mean).all():
        return ""
    gap = group.gap[:, int(np.nanargmin(mean))]
    gap = gap[~np.isnan(gap)]
    known = gap[np.isfinite(gap)]
    if not known.size:
        return "How far that is from the best possible is not known, as no bound is proved"
    most, middle = _percent(float(known.max())), _percent(float(np.median(known)), ROUND_HALF_EVEN)
    text = f"That is at most {most} above what is proved to be the best possible (median {middle})"
    unknown = gap.size - known.size
    return text + (f", except on {_count(unknown, 'problem')} without a bound" if unknown else "")


def _compare_words(rows: Sequence[Row], bound: float) -> list[str]:
    best = rows[0]
    text = (
        f"Of {_count(len(rows), 'method')}, {best.method} found the policy with the least max regret, "
        f"{style.number_text(best.train)}."
    )
    if bound > 0:
        above = f"at most {_percent(best.train / bound - 1)} above that" if best.train > bound else "the best possible"
        text += f" No policy of any kind has less than {_at_least(bound)}: this one is {above}."
    elif best.train > 0:
        text += " No bound is proved, so better policies may exist."
    tests = [row for row in rows if not math.isnan(row.test)]
    words = [text]
    if tests:
        least = min(tests, key=lambda row: row.test)
        words.append(f"On the test samples {least.method} has the least max regret, {style.number_text(least.test)}.")
    stopped = [f"{row.method} ({_status_words(row.status)})" for row in rows if row.status != SOLVED]
    if stopped:
        words.append(f"Not all ended as planned: {_list(stopped)}.")
    return words


def _method_sheet(title: str, rows: Sequence[Row], bound: float) -> Sheet:
    """Methods on one problem: regrets with bars, how they ended, and what they took."""
    finite = [value for row in rows for value in (row.train, row.test) if math.isfinite(value)]
    widest = max([*finite, bound, 0.0])
    tested = any(not math.isnan(row.test) for row in rows)
    least = {what: min((getattr(row, what) for row in rows), key=_nan_last) for what in ("train", "test")}

    def regret(row: Row, what: str, mark: bool) -> Cell:
        value = getattr(row, what)
        if math.isnan(value):
            return Cell("–", math.nan)
        part = 100.0 if math.isinf(value) else 100 * value / widest if widest > 0 else 0.0
        strong = value <= least[what] + SAME * widest
        place = round(100 * bound / widest, 1) if mark and bound > 0 else None
        return Cell(style.number_text(value), value, strong, round(part, 1), place)

    columns = [Column("method", number=False), Column("max regret, train")]
    columns += [Column("max regret, test")] * tested
    columns += [Column("proved bound"), Column("seconds"), Column("nodes"), Column("status", number=False)]
    body = []
    for row in rows:
        cells = [Cell(row.method), regret(row, "train", mark=True)] + [regret(row, "test", mark=False)] * tested
        cells += [
            replace(_number(row.proved), text=_at_least(row.proved)),
            _number(row.seconds),
            _number(row.nodes, digits=".0f"),
        ]
        body.append([*cells, Cell(_status_words(row.status))])
    proved = f"No policy of any kind has a max regret (train) below {_at_least(bound)}, the upright mark."
    return Sheet(title, columns, body, proved if bound > 0 else "No bound is proved.")


def _nan_last(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _sheet(table: Table) -> Sheet:
    """A table of results. What it says of one group it need not say again; p-values are folded away."""
    of_tests = table.kind.startswith(("t ", "wilcoxon "))
    rows = [
        [
            Cell(row.name),
            *(Cell(cell.text, next(iter(cell.values.values()), math.nan), cell.best) for cell in row.cells),
        ]
        for row in table.rows
    ]
    title = table.title.removeprefix(f"{table.group}: ")
    return Sheet(
        title=title[:1].upper() + title[1:],
        columns=[Column(name, number=number > 0) for number, name in enumerate(table.columns)],
        rows=rows[1:] if of_tests else rows,
        caption=table.caption,
        notes=table.notes,
        pinned=rows[0] if of_tests else (),
        folded=of_tests,
    )


def _policy_sheet(name: str, policy: Policy) -> Sheet:
    """The first rows of a policy: breadth first from where it starts."""
    rows = [
        [_number(node, digits="d"), Cell(state), Cell(action), _number(weight)]
        for node, state, action, weight in islice(_rows_from_start(policy), FIRST_ROWS)
    ]
    total = int(policy.choice.size)
    columns = [Column("node"), Column("state", number=False), Column("action", number=False), Column("probability")]
    more = f"Its first {len(rows)} rows of {total}, from the start on" if total > len(rows) else "All of its rows"
    starts = f" It starts at one of {policy.start_node.size} nodes, drawn by chance." * (policy.start_node.size > 1)
    return Sheet(f"Policy of {name}", columns, rows, f"{more}; it has {_count(policy.nodes, 'node')}.{starts}")


def _rows_from_start(policy: Policy) -> Iterator[tuple[int, str, str, float]]:
    """What is done at each node that the policy may come to, the nearest first."""
    graph, seen = policy.graph, dict.fromkeys(policy.start_node.tolist())
    waiting = list(seen)
    while waiting:
        following: list[int] = []
        for node in waiting:
            for entry in range(int(policy.entry_ptr[node]), int(policy.entry_ptr[node + 1])):
                action = graph.action_name(int(graph.action[policy.choice[entry]]))
                yield node, graph.state_name(int(policy.node_state[node])), action, float(policy.weight[entry])
                reached = policy.next_node[policy.next_ptr[entry] : policy.next_ptr[entry + 1]].tolist()
                following += [other for other in dict.fromkeys(reached) if other not in seen]
                seen |= dict.fromkeys(reached)
        waiting = following


@style.styled
def _svg(figure: Figure) -> str:
    """A figure as SVG without its head, and with coordinates no finer than can be seen."""
    stream = StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>|<style type.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'(?<= d=")[^"]*', _coarse, text)
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    return re.sub(r"\n\s*", "\n", text)


def _coarse(path: "re.Match[str]") -> str:
    return re.sub(r"(\.\d\d)\d+", r"\1", path[0])


# Colours of figures that follow the reader's light or dark.
_THEME = {
    "#ffffff": "var(--paper)", style.INK.lower(): "var(--ink)", "#000000": "var(--ink)",
    "#dddddd": "var(--grid)", style.STONE.lower(): "var(--stone)", style.FAINT.lower(): "var(--soft)",
    style.BLUE.lower(): "var(--blue)",
}  # fmt: skip


def inline_svg(figure: Figure, name: str, words: str) -> Markup:
    """A figure as a part of the page: `name` keeps its identifiers apart from others', `words` are read out instead."""
    text = _svg(figure)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    text = re.sub(r'(?<=style=")[^"]*', lambda part: re.sub("#[0-9a-f]{6}", _themed, part[0]), text)
    width, _ = figure.get_size_inches()
    opening = Markup('<svg role="img" aria-label="{}" style="{}" ').format(words, _widths(width))
    text = re.sub(r"^<svg (?=[^>]*viewBox)", lambda _: opening, text)
    text = re.sub(r'^(<svg [^>]*?) width="[^"]*"', r"\1", text)
    return Markup(re.sub(r'^(<svg [^>]*?) height="[^"]*"', r"\1", text))


def _themed(colour: "re.Match[str]") -> str:
    return _THEME.get(colour[0], colour[0])


def _widths(inches: float) -> str:
    """How wide a figure is at most, and how narrow before it is scrolled."""
    return f"--wide:{inches * PIXELS:.0f}px;--least:{inches * PIXELS * 0.8:.0f}px;stroke-linejoin:round"


def picture(figure: Figure, words: str) -> Markup:
    """A figure as an image in the page, drawn by the browser when it comes to be seen."""
    width, height = figure.get_size_inches()
    data = quote(_svg(figure).replace("\n", " "), safe=" !$*()+,-./:;=?@[]^_{|}~")
    return Markup('<img loading="lazy" decoding="async" width="{}" height="{}" style="{}" alt="{}" src="{}">').format(
        round(width * PIXELS), round(height * PIXELS), _widths(width), words, f"data:image/svg+xml,{data}"
    )


def _regret_drawing(
    model: UMDP, regrets: Mapping[str, Sequence[float]], bound: float, name: str, *, unseen: bool = False
) -> Drawing:
    """The regret of each method in each sample."""
    figure = draw_regrets(model, regrets, bound=bound if bound > 0 and not unseen else None)
    largest = ", ".join(f"{method} {style.number_text(max(map(float, regret)))}" for method, regret in regrets.items())
    what = "test sample" if unseen else "sample"
    words = f"Regret of {_count(len(regrets), 'method')} in {_count(model.samples, what)}. Largest: {largest}."
    title = "Regret in test samples" if unseen else "Regret in each sample"
    caption = "The cost above the least that is possible there."
    return Drawing(title, caption, inline_svg(figure, name, words))


def _compare_figures(
    model: UMDP, solutions: Mapping[str, Solution], bound: float, test: UMDP | None, tested: Mapping[str, Evaluation]
) -> list[Drawing]:
    figures = [_regret_drawing(model, {name: one.regret for name, one in solutions.items()}, bound, "train")]
    if test is not None and tested:
        regrets = {name: verdict.regret.tolist() for name, verdict in tested.items()}
        figures.append(_regret_drawing(test, regrets, 0.0, "test", unseen=True))
    words = f"Bounds of {_list([f'{name} {one.objective}' for name, one in solutions.items()])} over time."
    caption = "What each method knew of its own objective after so many seconds. Different methods have different ones."
    return [*figures, Drawing("Bounds over time", caption, inline_svg(draw_bounds(solutions), "bounds", words))]


def _policy_view(model: UMDP, name: str, policy: Policy) -> tuple[PolicyView, int]:
    """A policy with its map, if the model is a grid, and how many letters that takes."""
    drawing = None
    if "grid" in model.graph.layout:
        words = f"Map of what the policy of {name} does: how often it visits each place and what it chooses there."
        body = picture(draw_map(model, policy), words)
        arrows = "heading" in model.graph.layout
        caption = "Expected visits, and what is chosen." if arrows else "The likeliest action of each state."
        drawing = Drawing(f"Policy of {name} on the map", caption, body, picture=True)
    view = PolicyView(name, _policy_sheet(name, policy), drawing)
    return view, len(drawing.body) if drawing else 0


def _experiment_figures(results: Results) -> list[Drawing]:
    return [
        Drawing(one.title, one.caption, inline_svg(one.figure, one.name, f"{one.title}. {one.caption}"))
        for one in draw_experiment(results)
    ]


@dataclass(eq=False)
class Pictures:
    """Draws what belongs to single problems, as long as there is room."""

    load_model: Callable[[str], UMDP]
    load_solution: Callable[[str], Solution | None]
    room: int  # bytes

    def __post_init__(self) -> None:
        self.load_model = lru_cache(REMEMBERED)(self.load_model)

    def draw(self, cases: Sequence[Case], views: Sequence[ProblemView], progress: Progress | None) -> None:
        """Fill the views. First come the first problem of each size and its best method, then its next best."""
        wanted: list[tuple[int, int, int, str]] = []
        before: Counter[tuple[str, str]] = Counter()
        for number, case in enumerate(cases):
            size = case.first["group"], case.first["size"]
            wanted += [(before[size], rank, number, name) for rank, name in enumerate(case.done)]
            before[size] += 1
        for done, (_, _, number, name) in enumerate(sorted(wanted)):
            if self.room <= 0:
                break
            if progress is not None:
                progress(done, len(wanted))
            self._add_policy(cases[number], name, views[number])

    def _add_policy(self, case: Case, name: str, view: ProblemView) -> None:
        """The policy of one method, if it was kept, and with the first one the regrets of all."""
        try:
            solution = self.load_solution(case.done[name]["key"])
            if solution is None:
                return
            model = self.load_model(case.first["problem"])
            policy, used = _policy_view(model, name, solution.policy)
            if not view.figures:
                regrets = {method: list(map(float, record["regret"])) for method, record in case.done.items()}
                view.figures.append(_regret_drawing(model, regrets, case.bound, case.id))
                used += len(view.figures[0].body)
        except RueError as error:
            # A file that is no longer there, or is another by now, must not cost the rest of the page.
            view.troubles.append(f"The policy of {name} cannot be shown: {error}.")
            return
        view.policies.append(policy)
        self.room -= used


def _problem_section(cases: Sequence[Case], results: Results, pictures: Pictures, progress: Progress | None) -> Section:
    views = [_problem_view(case) for case in cases]
    pictures.draw(cases, views, progress)
    parts = []
    for group in results.groups:
        sizes = []
        for size in group.sizes:
            chosen = [
                view
                for case, view in zip(cases, views, strict=True)
                if (case.first["group"], case.first["size"]) == (group.name, size)
            ]
            words = _count(len(chosen), "problem")
            sizes.append(SizeView(size or "All problems", words, chosen, open=len(group.sizes) == 1))
        parts.append(Part(title=group.name, id=_id("problems", group.name), sizes=sizes))
    shown = sum(bool(view.policies) for view in views)
    words = (
        f"Each problem can be opened: what every method reached there, how it ended and what it took. "
        f"{_count(shown, 'problem')} of {len(cases)} also {'has' if shown == 1 else 'have'} the regret in each sample "
        f"and policies, of those that were kept."
    )
    if pictures.room <= 0:
        words += " More were kept than are shown here, so that the page does not grow too large."
    return Section("problems", "Problems", parts, words=[words])


def _problem_view(case: Case) -> ProblemView:
    best = case.rows[0]
    equal = sum(row.train <= best.train + SAME * abs(best.train) for row in case.rows) - 1
    others = f" and {_count(equal, 'other')}" if equal > 0 else ""
    words = f"least max regret {style.number_text(best.train)} by {best.method}{others}"
    if not case.done:
        words = "every method failed"
    if case.bound > 0:
        words += f", bound {_at_least(case.bound)}"
    known = next(iter(case.done.values()), {})
    size = _size_words(known["states"], known["choices"], case.samples, case.tests) + ". " if case.done else ""
    table = _method_sheet("Max regret by method", case.rows, case.bound)
    facts = escape(size) + _breakable(case.first["problem"])
    return ProblemView(case.id, case.seed or case.title, words, facts, table)


def _id(*words: str) -> str:
    """A name that can stand in an address, whatever the words have in them."""
    return "-".join(re.sub(r"[^0-9A-Za-z]+", lambda part: f"_{part[0].encode().hex()}", word) for word in words)


def _group_part(group: Group, tables: Sequence[Table]) -> Part:
    sheets = [_sheet(table) for table in tables if table.group == group.name]
    return Part(title=group.name, id=_id("results", group.name), tables=sheets)


def _provenance(cases: Sequence[Case], spec: str) -> list[Part]:
    records = [record for case in cases for record in case.records.values()]
    parts = [
        Part("Times", "times", tables=[_time_sheet(cases)]),
        Part("Methods", "methods", tables=[_parameter_sheet(cases)]),
        Part("Versions and machines", "versions", facts=[*_each(records, "versions"), *_each(records, "machine")]),
    ]
    stopped = [(case, name) for case in cases for name, record in case.records.items() if record["status"] != SOLVED]
    if stopped:
        parts.insert(0, Part("Runs that did not end as planned", "stopped", tables=[_stopped_sheet(stopped)]))
    if spec:
        parts.append(Part("The experiment as it was written", "spec", code=spec))
    return parts


def _time_sheet(cases: Sequence[Case]) -> Sheet:
    """Seconds of each method over all of its runs."""
    total: dict[str, list[float]] = {}
    for case in cases:
        for name, record in case.records.items():
            times = total.setdefault(name, [0.0, 0.0, 0.0, 0.0])
            for place, key in enumerate(("seconds", "compile_seconds", "wall_seconds")):
                times[place + 1] += float(record.get(key) or 0.0)
            times[0] += 1
    columns = [Column("method", number=False)]
    columns += [Column(name) for name in ("runs", "solver, s", "compilation, s", "all, s")]
    rows = [[Cell(name), _number(times[0], digits=".0f"), *map(_number, times[1:])] for name, times in total.items()]
    caption = (
        "Seconds over all runs: of the solver alone, of compilation (once in each process), and of all work, which "
        "also has sampling and judging."
    )
    return Sheet("Time by method", columns, rows, caption)


def _parameter_sheet(cases: Sequence[Case]) -> Sheet:
    """What each method was told; several values where it was told different things."""
    told: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for case in cases:
        for name, record in case.records.items():
            task = record["task"]
            settings = ", ".join(f"{key}={value}" for key, value in task["parameters"].items())
            parameters, limits = told.setdefault(name, ({}, {}))
            parameters[f"{task['solver']}({settings})"] = None
            limits[f"{float(task['seconds']):g} s"] = None
    columns = [Column("method", number=False), Column("parameters", number=False), Column("time limit", number=False)]
    rows = [[Cell(name), Cell("; ".join(one)), Cell("; ".join(limits))] for name, (one, limits) in told.items()]
    return Sheet("Parameters of methods", columns, rows, wraps=True)


def _stopped_sheet(stopped: Sequence[tuple[Case, str]]) -> Sheet:
    columns = [Column(name, number=False) for name in ("problem", "method", "status")]
    rows = []
    for case, name in stopped[:MOST_STOPPED]:
        record = case.records[name]
        words = " ".join(str(record.get("error") or "the best policy so far was returned").split())
        link = Cell(case.title, link=f"#{case.id}")
        seconds = _number(float(record.get("seconds", math.nan)))
        rows.append([link, Cell(name), Cell(_status_words(record["status"])), seconds, Cell(words[:300])])
    more = len(stopped) - len(rows)
    notes = [f"{_count(more, 'run')} more, of which the store tells."] if more else []
    columns += [Column("seconds"), Column("what happened", number=False)]
    return Sheet("Failed, stopped or unproved", columns, rows, notes=notes, wraps=True)


def _each(records: Sequence[Record], key: str) -> list[tuple[str, str]]:
    """The different versions, or machines, and how many runs each had."""
    found = Counter(
        ", ".join(f"{name} {value}" for name, value in record[key].items()) for record in records if key in record
    )
    return [(f"{key.capitalize()}, {_count(number, 'run')}", text) for text, number in found.most_common()]


def _compare_provenance(model_text: str, solutions: Mapping[str, Solution]) -> Part:
    versions = [f"{name} {_version(name)}" for name in ("rue", "numpy", "scipy", "numba", "highspy") if _version(name)]
    machine = f"{platform.platform()}, {os.cpu_count() or 1} cores"
    facts = [("Model", model_text), *((name, repr(solution.solver)) for name, solution in solutions.items())]
    facts += [("Versions", ", ".join([f"python {platform.python_version()}", *versions])), ("Machine", machine)]
    return Part(facts=facts)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
