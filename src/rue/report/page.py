"""One page of HTML for an experiment, or for several methods on one model. It needs no network and no other file.

Tables and figures are those of `rue.experiments.tables` and `rue.report.figures`; each problem stands below them, to be
opened: the regret of each method, the proved bound, and, where policies were kept, what they do. Numbers are of records
and solutions alone. Whatever has a name that somebody else gave is escaped, as the template escapes all that is not
`Markup`.

Figures are inline, with letters that can be searched and colours that follow the reader's light or dark. Maps are many
and large, so they are images that a browser draws when they come to be seen, and there are only so many of them: of each
size the first problems, of each problem the best methods, until `MOST_BYTES` are used. The page says what it left out.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from rue.errors import RueError
from rue.evaluate import Evaluation
from rue.model import UMDP
from rue.policy import Policy
from rue.report import style
from rue.report.bounds import draw_bounds
from rue.report.maps import draw_map
from rue.report.regrets import draw_regrets
from rue.solution import Solution

# Of maps and other pictures of single problems, in the whole page.
MOST_BYTES = 8_000_000
FIRST_ROWS = 12  # of a policy
PIXELS = 88  # for an inch of a figure
SAME = 1e-9  # regrets closer than this share of the largest are equal
FAILED, SOLVED = "failed", "solved"

Record = Mapping[str, Any]


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
    folded: bool = False


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
    table: Sheet
    figures: list[Drawing] = field(default_factory=list)
    policies: list[PolicyView] = field(default_factory=list)


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
class Case:
    """All records of one problem."""

    number: int
    records: Sequence[Record]

    @property
    def first(self) -> Record:
        """Any of them, for what they share."""
        return self.records[0]

    @property
    def id(self) -> str:
        """Where it is in the page."""
        return f"problem-{self.number}"

    @property
    def title(self) -> str:
        """The problem in a few words: `disaster 8×8, seed 3`."""
        group, size = self.first["group"], self.first["size"]
        seed = re.search(r"[:,]seed=(\d+)", self.first["problem"])
        return " ".join(filter(None, [group, size])) + (f", seed {seed[1]}" if seed else "")

    @cached_property
    def done(self) -> list[Record]:
        """The records that have a policy, the least max regret first."""
        done = [record for record in self.records if record["status"] != FAILED]
        return sorted(done, key=_max_regret)

    @property
    def bound(self) -> float:
        """The best proved bound on the max regret of every policy."""
        return max((float(record["max_regret"][0]) for record in self.done), default=0.0)

    @property
    def samples(self) -> int:
        """How many samples were planned with."""
        return len(self.done[0]["regret"]) if self.done else 0

    @property
    def tests(self) -> int:
        """How many samples were tested on."""
        return len(self.done[0]["test"]["regret"]) if self.done and "test" in self.done[0] else 0


def _max_regret(record: Record) -> float:
    return float(record["max_regret"][1])


def cases_of(records: Iterable[Record]) -> list[Case]:
    """The records by problem, in the order in which problems first came."""
    found: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        task = record["task"]
        found.setdefault((record["group"], record["size"], task["model"], task["test"], task["contents"]), []).append(record)
    return [Case(number, group) for number, group in enumerate(found.values(), 1)]


def experiment_page(
    records: Sequence[Record],
    results: Results,
    tables: Sequence[Table],
    *,
    load_model: Callable[[str], UMDP],
    load_solution: Callable[[str], Solution | None],
    title: str = "",
    spec: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """The page of an experiment: its records, the results and tables made of them, and the text of its spec.

    `load_model` reads a model from its text in a record and `load_solution` a kept solution by its key, for the maps.
    """
    cases = cases_of(records, results)
    sections = [
        Section("summary", "Summary", [Part(words=_summary(cases, results), items=_verdicts(results))]),
        Section("results", "Results", [_group_part(group, tables) for group in results.groups], words=[NORMALISED]),
        _problem_section(cases, results, Pictures(load_model, load_solution, progress or (lambda done, total: None))),
        Section("runs", "What was run", _provenance(cases, spec)),
    ]
    return _render(
        kind="rue · experiment",
        title=title or "Experiment",
        byline=_byline(cases, results),
        sections=sections,
    )


def compare_page(
    model_text: str,
    model: UMDP,
    solutions: Mapping[str, Solution],
    test: UMDP | None = None,
    verdicts: Mapping[str, Evaluation] | None = None,
) -> str:
    """The page of several methods on one model, by name; with the judge's verdicts on test samples, if there are any."""
    bound = max(solution.max_regret.lower for solution in solutions.values())
    ranked = dict(sorted(solutions.items(), key=lambda item: item[1].max_regret.upper))
    tested = {} if verdicts is None else {name: verdicts[name] for name in ranked}
    rows = [
        Row(
            name, solution.status.value, solution.max_regret.upper,
            tested[name].max_regret if tested else math.nan, solution.max_regret.lower, solution.seconds,
            solution.policy.nodes,
        )
        for name, solution in ranked.items()
    ]  # fmt: skip
    regrets = {name: solution.regret for name, solution in ranked.items()}
    figures = [_regret_drawing(model, regrets, bound, model_text, "r")]
    if test is not None and tested:
        figures.append(
            _regret_drawing(
                test, {name: verdict.regret for name, verdict in tested.items()}, None, model_text, "t", unseen=True
            )
        )
    figures.append(
        Drawing(
            "Bounds over time",
            "What each method had proved of its own objective after so many seconds; the objectives differ.",
            inline_svg(draw_bounds(ranked), "b", f"Bounds on the objective over time for {_count(len(ranked), 'method')}."),
        )
    )
    table = method_sheet(rows, bound, bool(tested), "Methods")
    facts = _facts(model.graph.states, model.graph.choices, model.samples, 0 if test is None else test.samples)
    policies = [_policy_view(model, name, solution.policy, model_text)[0] for name, solution in ranked.items()]
    sections = [
        Section("summary", "Summary", [Part(words=_compare_words(rows, bound))]),
        Section("methods", "Methods", [Part(problem=ProblemView("", "", "", facts, table, figures))]),
        Section("policies", "Policies", [Part(problem=ProblemView("", "", "", POLICY_WORDS, None, [], policies))]),
        Section(
            "runs",
            "What was run",
            [Part(facts=[("Model", model_text), *((name, repr(s.solver)) for name, s in solutions.items()), *_here()])],
        ),
    ]
    return _render(kind="rue · comparison", title=model_text, byline=facts, sections=sections)
