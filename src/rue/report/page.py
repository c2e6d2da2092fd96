"""One page of HTML for an experiment, or for several methods on one model. It needs no network and no other file.

The templates have the texts and the order of the page; they escape all that is not `Markup`. Numbers come from records
and solutions alone. Policies of single problems are shown up to `MOST_BYTES`, and the page says if more were kept.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from rue._text import bound_text, counted, distinct, listed, number_text, short_line
from rue.errors import BadInput, RueError
from rue.evaluation import evaluate
from rue.experiments.problems import ProblemRuns, problems_of
from rue.experiments.provenance import machine, versions
from rue.experiments.results import Results
from rue.experiments.statistics import SIGNIFICANT
from rue.experiments.store import Record
from rue.experiments.tables import SETS
from rue.explanation import explain
from rue.judge import Evaluation
from rue.model import UMDP
from rue.policy import Policy
from rue.report import summary, tables
from rue.report.experiments import draw_experiment
from rue.report.maps import draw_map
from rue.report.solutions import draw_bounds, draw_regrets, has_history, regret_words
from rue.report.style import render, svg_element, svg_image
from rue.risk import spread
from rue.solution import Solution
from rue.table import Table

MOST_BYTES = 8_000_000  # of maps and other figures of single problems, in the whole page
MOST_METHODS = 24  # in one figure
# Of a regret, and of the largest value that it is a difference of: more than other machines round differently.
SAME_REGRET, SAME_VALUE = 1e-6, 1e-9
Regrets = Mapping[str, Sequence[float]]  # of each method, in each sample


class PageFigure(NamedTuple):
    """A figure of the page: inline, or an image on white."""

    title: str
    caption: str
    body: Markup


class PagePolicy(NamedTuple):
    """What a policy does: its first rows, and its map if the model is a grid."""

    name: str
    table: str
    map: PageFigure | None

    @property
    def size(self) -> int:
        """Return about how many bytes of the page it takes."""
        return len(self.table) + (len(self.map.body) if self.map else 0)


@dataclass(eq=False)
class PageProblem:
    """A problem on the page: its runs, figures and policies, and why some policies are not shown."""

    number: int
    runs: ProblemRuns
    figures: list[PageFigure] = field(default_factory=list)
    policies: list[PagePolicy] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


def experiment_page(
    records: Sequence[Record],
    results: Results,
    result_tables: Sequence[Table],
    *,
    load_model: Callable[[str], UMDP],
    load_solution: Callable[[str], Solution | None],
    title: str = "",
    spec: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """Return the page of an experiment: its records, the results and tables made of them, and the text of its spec.

    `load_model` reads a model from its text in a record, and `load_solution` returns a kept solution by its key.
    `progress` gets how many policies are done and planned.
    """
    problems = [PageProblem(number, runs) for number, runs in enumerate(problems_of(records, results), 1)]
    runs = [(one.number, one.runs, name, record) for one in problems for name, record in one.runs.records.items()]
    records = [record for *_, record in runs]
    is_complete = _add_policies(problems, lru_cache(32)(load_model), load_solution, progress)
    return render(
        "experiment.html.j2",
        text=summary,
        method_table=tables.method_table,
        title=title or "Experiment",
        methods=len({name for group in results.groups for name in group.methods}),
        days=sorted({record["finished"][:10] for record in records if "finished" in record}),
        seconds={key: sum(float(record.get(key, 0.0)) for record in records) for key in ("seconds", "wall_seconds")},
        significant=SIGNIFICANT,
        results=results,
        tables=[replace(one, title=one.title.removeprefix(f"{one.group}: ").capitalize()) for one in result_tables],
        figures=experiment_figures(results),
        problems=problems,
        is_complete=is_complete,
        status=Counter(record["status"] for record in records),
        missing=sum(int((group.status == "").sum()) for group in results.groups),
        infinite=[(kind, sum(sum(group.infinite(kind).values()) for group in results.groups)) for kind in SETS],
        run_tables=[tables.stopped_table(runs), tables.time_table(runs), tables.parameter_table(runs)],
        facts=[*_different("versions", records), *_different("machine", records)],
        spec=spec,
    )


def compare_page(
    model_text: str,
    model: UMDP,
    solutions: Mapping[str, Solution],
    test: UMDP | None = None,
    verdicts: Mapping[str, Evaluation] | None = None,
    fresh: str = "",
    about: Mapping[str, str] | None = None,
) -> str:
    """Return the page of several methods on one model, by name; with the judge's verdicts on test samples, if any.

    `fresh` is what the samples say about fresh ones, in words; `about` are facts of the run: its date, its limit.
    """
    if not solutions:
        raise BadInput("there are no solutions to show; expected at least one")
    order = sorted(solutions, key=lambda name: solutions[name].max_regret.upper)
    named = dict(zip(order, distinct(short_line(name, 80) for name in order), strict=True))
    ranked = {short: solutions[name] for name, short in named.items()}
    tested = {short: verdicts[name] for name, short in named.items()} if test is not None and verdicts else {}
    records = {name: _record(model, one, tested.get(name)) for name, one in ranked.items()}
    problem = PageProblem(1, ProblemRuns(model_text, records))
    regrets = {name: one.regret for name, one in ranked.items()}
    problem.figures.append(regret_figure(model, regrets, "train", bound=problem.runs.bound))
    if test is not None and tested:
        problem.figures.append(regret_figure(test, {name: one.regret.tolist() for name, one in tested.items()}, "test"))
    with_history = {name: one for name, one in ranked.items() if has_history(one)}
    if with_history:
        problem.figures.append(bounds_figure(with_history, len(ranked), problem.runs.bound))
    best = next(iter(ranked))
    room = MOST_BYTES
    for name, solution in ranked.items():
        problem.policies.append(_page_policy(model, name, solution.policy, with_map=room > 0))
        room -= problem.policies[-1].size
    return render(
        "comparison.html.j2",
        text=summary,
        method_table=tables.method_table,
        title=model_text,
        problem=problem,
        fresh=fresh,
        best=best,
        why=explain(model, ranked[best]).sections(),
        about={"Model": model_text, **(about or {})},
        solvers={name: repr(solution.solver) for name, solution in ranked.items()},
        facts={"Versions": _pairs(versions()), "Machine": _pairs(machine())},
    )


def _record(model: UMDP, solution: Solution, verdict: Evaluation | None) -> Record:
    """Return a solution as a record of an experiment has it, as far as tables and sentences need it."""
    found = {
        "status": solution.status.value, "states": model.graph.states, "choices": model.graph.choices,
        "max_regret": (solution.max_regret.lower, solution.max_regret.upper), "regret": solution.regret,
        "spread": spread(np.array(solution.regret), np.array(solution.weight) if solution.weight else None),
        "seconds": solution.seconds, "nodes": solution.policy.nodes, "floor": solution.floor,
    }  # fmt: skip
    if verdict is None:
        return found
    judged = {"max_regret": verdict.max_regret, "regret": verdict.regret}
    return found | {"test": judged | {"spread": spread(verdict.regret, verdict.weight)}}


def _different(key: str, records: Sequence[Record]) -> list[tuple[str, str]]:
    """Return the different versions, or machines, and how many runs each had."""
    found = Counter(_pairs(record[key]) for record in records if key in record)
    return [(f"{key.capitalize()}, {counted(number, 'run')}", text) for text, number in found.most_common()]


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _add_policies(
    problems: Sequence[PageProblem],
    load_model: Callable[[str], UMDP],
    load_solution: Callable[[str], Solution | None],
    progress: Callable[[int, int], None] | None,
) -> bool:
    """Add kept policies to the problems, and return whether there was room for all.

    The first problem of each size comes first with its best method, then with its next best.
    """
    wanted: list[tuple[int, int, int, str]] = []
    before: Counter[tuple[str, str]] = Counter()
    for number, problem in enumerate(problems):
        wanted += [(before[problem.runs.place], rank, number, name) for rank, name in enumerate(problem.runs.done)]
        before[problem.runs.place] += 1
    room = MOST_BYTES
    for done, (_, _, number, name) in enumerate(sorted(wanted)):
        if room <= 0:
            break
        if progress is not None:
            progress(done, len(wanted))
        problem, runs = problems[number], problems[number].runs
        try:
            solution = load_solution(runs.done[name]["key"])
            if solution is None:
                continue
            model = load_model(runs.problem)
            _check_unchanged(model, solution.policy, runs.done[name])
            policy = _page_policy(model, name, solution.policy)
            if not problem.figures:
                regrets = {method: list(map(float, record["regret"])) for method, record in runs.done.items()}
                problem.figures.append(regret_figure(model, regrets, f"problem-{problem.number}", bound=runs.bound))
                room -= len(problem.figures[0].body)
        except RueError as error:  # a file that was deleted or changed must not cost the rest of the page
            problem.troubles.append(f"The policy of {name} cannot be shown: {error}.")
            continue
        problem.policies.append(policy)
        room -= policy.size
    return room > 0


def _check_unchanged(model: UMDP, policy: Policy, record: Record) -> None:
    """Raise an error unless the policy has the regrets of the record: then the model has changed since."""
    verdict = evaluate(model, policy)
    then = np.array(record["regret"], float)
    rounding = SAME_VALUE * float(verdict.value[np.isfinite(verdict.value)].max(initial=0.0))
    if then.shape != verdict.regret.shape or not np.allclose(verdict.regret, then, rtol=SAME_REGRET, atol=rounding):
        now, before = number_text(verdict.max_regret), number_text(float(record["max_regret"][1]))
        change = f"its max regret there is {now} now and {before} in the record"
        raise BadInput(f"{record['problem']} has changed since: {change}")


@contextmanager
def _without_garbage() -> Iterator[None]:
    """Turn the garbage collector off while figures are drawn, and then free their many objects at once."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0)
        if was_enabled:
            gc.enable()


def _page_policy(model: UMDP, name: str, policy: Policy, *, with_map: bool = True) -> PagePolicy:
    table = tables.policy_table(name, policy).html()
    return PagePolicy(name, table, map_figure(model, name, policy) if with_map else None)


@_without_garbage()
def experiment_figures(results: Results) -> list[PageFigure]:
    """Return all figures of an experiment."""
    return [
        PageFigure(one.title, one.caption, svg_element(one.figure, one.name, f"{one.title}. {one.caption}"))
        for one in draw_experiment(results)
    ]


@_without_garbage()
def regret_figure(model: UMDP, regrets: Regrets, name: str, bound: float | None = None) -> PageFigure:
    """Return the regret of each method in each sample; without a bound, in test samples."""
    shown = dict(islice(regrets.items(), MOST_METHODS))
    largest = ", ".join(f"{method} {number_text(max(map(float, regret)))}" for method, regret in shown.items())
    what, title = ("sample", "each sample") if bound is not None else ("test sample", "test samples")
    where = f"{counted(len(shown), 'method')} in {counted(model.samples, what)}"
    words = f"Regret of {where}. Largest: {largest}."
    proved = f" No policy has a max regret below {bound_text(bound)}." if bound else ""
    caption = f"The {regret_words(model.units)} that is possible there.{proved}{_not_shown(regrets)}"
    drawn = draw_regrets(model, shown, bound=bound or None)
    return PageFigure(f"Regret in {title}", caption, svg_element(drawn, name, words))


@_without_garbage()
def bounds_figure(solutions: Mapping[str, Solution], methods: int, bound: float) -> PageFigure:
    """Return the bounds over time of methods whose bounds have a history, out of `methods`."""
    shown = dict(islice(solutions.items(), MOST_METHODS))
    words = f"Bounds of {listed([f'{name} {one.objective}' for name, one in shown.items()])} over time."
    caption = "The bounds of each method on its own objective, which methods do not share."
    if methods > len(solutions):
        caption += f" The other {counted(methods - len(solutions), 'method')} found no bounds on the way."
    drawn = svg_element(draw_bounds(shown, bound=bound), "bounds", words)
    return PageFigure("Bounds over time", caption + _not_shown(solutions), drawn)


def _not_shown(methods: Mapping[str, object]) -> str:
    return f" The first {MOST_METHODS} of {len(methods)} methods." if len(methods) > MOST_METHODS else ""


@_without_garbage()
def map_figure(model: UMDP, name: str, policy: Policy) -> PageFigure | None:
    """Return the map of a policy, if the model is a grid."""
    layout = model.graph.layout
    if "grid" not in layout:
        return None
    words = f"Map of what the policy of {name} does: how often it visits each place and what it chooses there."
    caption = "Expected visits, and actions." if "heading" in layout else "The likeliest action of each state."
    if not policy.is_stationary:
        caption += " The policy remembers: actions are means over its nodes, by how often they are visited."
    return PageFigure(f"Policy of {name} on the map", caption, svg_image(draw_map(model, policy), words))
