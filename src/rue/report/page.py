"""One page of HTML for an experiment, or for several methods on one model. It needs no network and no other file.

Tables and figures are those of `rue.experiments.tables` and `rue.report.figures`; each problem stands below them, to be
opened: the regret of each method, the proved bound, and, where policies were kept, what they do. Numbers are of records
and solutions alone. Whatever has a name that somebody else gave is escaped, as the template escapes all that is not
`Markup`.

Here the sections are put together from what others make: sentences, tables (`sheets`), figures (`drawings`) and the
policies of single problems (`gallery`), up to `MOST_BYTES` of these. The page says if more were kept.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import escape

from rue._text import short_line
from rue.errors import BadInput
from rue.experiments.provenance import machine, versions
from rue.experiments.results import Group, Results
from rue.judge import Evaluation
from rue.model import UMDP
from rue.report import sentences, sheets
from rue.report.cases import Case, Record, Row, cases_of, runs_of
from rue.report.drawings import bounds_drawing, experiment_drawings, regret_drawing, unseen_drawing
from rue.report.gallery import Gallery, Progress, bytes_of, policy_view
from rue.report.views import Drawing, Part, ProblemView, Section, SizeView
from rue.report.words import anchor, breakable, count, size_text
from rue.solution import Solution
from rue.table import Table

# Of maps and other pictures of single problems, in the whole page.
MOST_BYTES = 8_000_000
MOST_LETTERS = 80  # of the name of a method


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
    summary = Part(items=sentences.findings(results), after=[sentences.TESTED])
    groups = [_group_part(group, tables) for group in results.groups]
    drawings = experiment_drawings(results)
    sections = [
        Section("summary", "Summary", [summary], words=sentences.what_ran(cases, results)),
        Section("results", "Results", groups, words=[sentences.NORMALISED]),
        *([Section("figures", "Figures", [Part(figures=drawings)])] if drawings else []),
        _problem_section(cases, results, Gallery(load_model, load_solution, MOST_BYTES), progress),
        Section("runs", "What was run", _provenance(cases, spec)),
    ]
    return _render("rue · experiment", title or "Experiment", sentences.byline(cases, results), sections)


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
    named = _short_names(solutions)
    order = sorted(solutions, key=lambda name: solutions[name].max_regret.upper)
    ranked = {named[name]: solutions[name] for name in order}
    tested = {named[name]: verdicts[name] for name in order} if test is not None and verdicts is not None else {}
    bound = max(solution.max_regret.lower for solution in ranked.values())
    rows = [
        Row.of_solution(name, solution, tested[name].max_regret if tested else math.nan)
        for name, solution in ranked.items()
    ]
    methods = ProblemView(
        table=sheets.method_sheet(rows, bound, proved=False),
        figures=_compare_drawings(model, ranked, bound, test, tested),
    )
    policies, room = [], MOST_BYTES
    for name, solution in ranked.items():
        policies.append(policy_view(model, name, solution.policy, with_map=room > 0))
        room -= bytes_of(policies[-1])
    sections = [
        Section("summary", "Summary", [], words=sentences.comparison(rows, bound)),
        Section("methods", "Methods", [Part(problem=methods)]),
        Section("policies", "Policies", [Part(problem=ProblemView(policies=policies))]),
        Section("runs", "What was run", [_compare_provenance(model_text, ranked)]),
    ]
    graph, tests = model.graph, test.samples if test is not None and tested else 0
    facts = size_text(graph.states, graph.choices, model.samples, tests)
    return _render("rue · comparison", model_text, facts, sections)


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Each name with its short form, which has a number in it where it would not be the only one."""
    short: dict[str, str] = {}
    for number, name in enumerate(names):
        cut = short_line(name, MOST_LETTERS)
        short[name] = f"{cut} ({number + 1})" if cut in short.values() else cut
    return short


def _render(kind: str, title: str, byline: str, sections: Sequence[Section]) -> str:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    template = environment.get_template("template.html.j2")
    rue = versions().get("rue", "unknown")
    return template.render(
        kind=kind, title=title, heading=breakable(title), byline=byline, sections=sections, version=rue
    )


def _group_part(group: Group, tables: Sequence[Table]) -> Part:
    own = [sheets.result_sheet(table) for table in tables if table.group == group.name]
    return Part(title=group.name, id=anchor("results", group.name), tables=own)


def _problem_section(cases: Sequence[Case], results: Results, gallery: Gallery, progress: Progress | None) -> Section:
    views = [_problem_view(case) for case in cases]
    gallery.fill(cases, views, progress)
    parts = []
    for group in results.groups:
        sizes = []
        for size in group.sizes:
            chosen = [view for case, view in zip(cases, views, strict=True) if case.place == (group.name, size)]
            words = count(len(chosen), "problem")
            sizes.append(SizeView(size or "All problems", words, chosen, open=len(group.sizes) == 1))
        parts.append(Part(title=group.name, id=anchor("problems", group.name), sizes=sizes))
    shown = sum(bool(view.policies) for view in views)
    words = sentences.what_is_shown(shown, len(cases), all_kept=gallery.room > 0)
    return Section("problems", "Problems", parts, words=[words])


def _problem_view(case: Case) -> ProblemView:
    known = next(iter(case.done.values()), None)
    size = size_text(known["states"], known["choices"], case.samples, case.tests) + ". " if known else ""
    return ProblemView(
        id=case.id,
        title=case.seed or case.title,
        words=sentences.problem_summary(case),
        facts=escape(size) + breakable(case.first["problem"]),
        table=sheets.method_sheet(case.rows, case.bound),
    )


def _compare_drawings(
    model: UMDP, solutions: Mapping[str, Solution], bound: float, test: UMDP | None, tested: Mapping[str, Evaluation]
) -> list[Drawing]:
    drawings = [regret_drawing(model, {name: one.regret for name, one in solutions.items()}, bound, "train")]
    if test is not None and tested:
        drawings.append(unseen_drawing(test, tested))
    return [*drawings, bounds_drawing(solutions)]


def _provenance(cases: Sequence[Case], spec: str) -> list[Part]:
    stopped = sheets.stopped_sheet(cases)
    parts = [Part("Runs that did not end as planned", "stopped", tables=[stopped])] if stopped else []
    parts += [
        Part("Times", "times", tables=[sheets.time_sheet(cases)]),
        Part("Methods", "methods", tables=[sheets.parameter_sheet(cases)]),
        Part("Versions and machines", "versions", facts=[*_each(cases, "versions"), *_each(cases, "machine")]),
    ]
    if spec:
        parts.append(Part("The experiment as it was written", "spec", code=spec))
    return parts


def _each(cases: Sequence[Case], key: str) -> list[tuple[str, str]]:
    """The different versions, or machines, and how many runs each had."""
    found = Counter(_pairs(record[key]) for _, _, record in runs_of(cases) if key in record)
    return [(f"{key.capitalize()}, {count(number, 'run')}", text) for text, number in found.most_common()]


def _compare_provenance(model_text: str, solutions: Mapping[str, Solution]) -> Part:
    facts = [("Model", model_text), *((name, repr(solution.solver)) for name, solution in solutions.items())]
    return Part(facts=[*facts, ("Versions", _pairs(versions())), ("Machine", _pairs(machine()))])


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
