"""The tables of a page, and the runs of one problem that they are made of."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING
from functools import cached_property
from itertools import islice
from typing import Any

from rue.experiments.results import Results, method_labels, problem_of
from rue.experiments.store import FAILED, Record
from rue.policy import Policy
from rue.report.style import bound_text, number_text, rounded
from rue.solution import Status
from rue.table import Cell, Table, TableRow

SAME = 1e-9  # regrets closer than this share of the largest are equal
FIRST_ROWS = 12  # of a policy
MOST_STOPPED = 300  # runs in one table


@dataclass(eq=False)
class ProblemRuns:
    """All records of one problem, by method, and what the page shows of them."""

    id: str  # on the page
    problem: str
    place: tuple[str, str]  # group and size
    records: Mapping[str, Record]
    figures: list[Any] = field(default_factory=list)
    policies: list[Any] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    @property
    def seed(self) -> str:
        """Return what tells a problem from others of its size: `seed 3`."""
        seed = re.search(r"[:,]seed=(\d+)", self.problem)
        return f"seed {seed[1]}" if seed else ""

    @property
    def title(self) -> str:
        """Return the problem in a few words: `disaster 8×8, seed 3`."""
        return ", ".join(filter(None, (" ".join(filter(None, self.place)), self.seed)))

    @cached_property
    def done(self) -> dict[str, Record]:
        """Return the records that have a policy, the least max regret first."""
        done = [(name, record) for name, record in self.records.items() if record["status"] != FAILED]
        return dict(sorted(done, key=lambda item: float(item[1]["max_regret"][1])))

    @property
    def least(self) -> float:
        """Return the least max regret."""
        return min((float(record["max_regret"][1]) for record in self.done.values()), default=math.nan)

    @property
    def bound(self) -> float:
        """Return the best proved bound on the max regret of every policy."""
        return max((float(record["max_regret"][0]) for record in self.done.values()), default=0.0)

    @property
    def size(self) -> str:
        """Return how large the problem is; nothing if all runs failed."""
        if not self.done:
            return ""
        known = next(iter(self.done.values()))
        tests = max((len(record["test"]["regret"]) for record in self.done.values() if "test" in record), default=0)
        sizes = f"{count(known['states'], 'state')}, {count(known['choices'], 'choice')}"
        planned = f"{count(len(known['regret']), 'sample')} to plan with"
        return f"{sizes}, {planned}" + (f", {tests} others to test on" if tests else "")

    @property
    def summary(self) -> str:
        """Return which method has the least max regret, and what is proved about it."""
        if not self.done:
            return "every method failed"
        near = self.least + SAME * abs(self.least)
        equal = sum(float(record["max_regret"][1]) <= near for record in self.done.values()) - 1
        others = f" and {count(equal, 'other')}" if equal > 0 else ""
        bound = f", bound {bound_text(self.bound)}" if self.bound > 0 else ""
        return f"least max regret {number_text(self.least)} by {next(iter(self.done))}{others}{bound}"


def problems_of(records: Sequence[Record], results: Results) -> list[ProblemRuns]:
    """Return the records by problem, in the order of the results."""
    label = method_labels(records)
    found: dict[tuple[str, str], dict[str, Record]] = {}
    for record in records:
        found.setdefault(problem_of(record), {})[label[record["key"]]] = record
    order = [(group.name, problem) for group in results.groups for problem in group.problems]
    problems = []
    for number, key in enumerate(order, 1):
        first = next(iter(found[key].values()))
        problems.append(ProblemRuns(f"problem-{number}", first["problem"], (first["group"], first["size"]), found[key]))
    return problems


def runs_of(problems: Sequence[ProblemRuns]) -> list[tuple[ProblemRuns, str, Record]]:
    """Return every run: its problem, its method and its record."""
    return [(problem, name, record) for problem in problems for name, record in problem.records.items()]


def method_table(problem: ProblemRuns, *, proved: bool = True) -> Table:
    """Return the methods on one problem, with a bar for each regret and a mark at the best bound, failed ones last.

    `proved` adds what each method proved; the best bound is one of the problem, and is in the caption.
    """
    records, bound = {**problem.done, **problem.records}, problem.bound

    def numbers(read: Callable[[Record], Any]) -> list[float]:
        return [math.nan if one["status"] == FAILED else float(read(one)) for one in records.values()]

    train = numbers(lambda one: one["max_regret"][1])
    test = numbers(lambda one: one["test"]["max_regret"] if "test" in one else math.nan)
    widest = max([*filter(math.isfinite, (*train, *test)), bound, 0.0])
    mark = round(100 * bound / widest, 1) if bound > 0 else None
    gap = [value if math.isinf(value) else max(0.0, 1 - bound / value) if value > 0 else 0 * value for value in train]
    mean = numbers(lambda one: math.fsum(map(float, one["regret"])) / len(one["regret"]))
    columns = {
        "method": map(Cell, records),
        "max regret, train": _regret_cells(train, widest, mark),
        "max regret, test": _regret_cells(test, widest),
        "mean regret": map(_number, mean),
        "gap": [_number(value, percent) for value in gap],
        "proved bound": [_number(value, bound_text) for value in numbers(lambda one: one["max_regret"][0])],
        "seconds": map(_number, numbers(lambda one: one["seconds"])),
        "nodes": [_number(value, "{:.0f}".format) for value in numbers(lambda one: one["nodes"])],
        "status": [Cell(status_text(one["status"])) for one in records.values()],
    }
    if all(map(math.isnan, test)):
        del columns["max regret, test"]
    if not proved:
        del columns["proved bound"]
    words = f"No policy of any kind has a max regret (train) below {bound_text(bound)}, the upright mark."
    rows = zip(*columns.values(), strict=True)
    caption = words if bound > 0 else "No bound is proved."
    return _table("Max regret by method", columns, rows, ("method", "status"), caption)


def policy_table(name: str, policy: Policy) -> Table:
    """Return the first rows of a policy: breadth first from where it starts."""
    rows = [
        (_number(node, str), Cell(state), Cell(action), _number(weight))
        for node, state, action, weight in islice(_rows_from_start(policy), FIRST_ROWS)
    ]
    total, starts = int(policy.choice.size), policy.start_node.size
    caption = f"Its first {len(rows)} rows of {total}, from the start on" if total > len(rows) else "All of its rows"
    caption += f"; it has {count(policy.nodes, 'node')}."
    caption += f" It starts at one of {starts} nodes, drawn by chance." if starts > 1 else ""
    return _table(f"Policy of {name}", ("node", "state", "action", "probability"), rows, ("state", "action"), caption)


def time_table(problems: Sequence[ProblemRuns]) -> Table:
    """Return the seconds of each method over all of its runs."""
    total: dict[str, list[Record]] = {}
    for _, name, record in runs_of(problems):
        total.setdefault(name, []).append(record)
    columns = {"solver, s": "seconds", "compilation, s": "compile_seconds", "all, s": "wall_seconds"}
    rows = []
    for name, runs in total.items():
        seconds = (math.fsum(float(run.get(key) or 0.0) for run in runs) for key in columns.values())
        rows.append((Cell(name), _number(len(runs), str), *map(_number, seconds)))
    caption = (
        "Seconds over all runs: of the solver alone, of compilation (once in each process), and of all work, which "
        "includes sampling and judging."
    )
    return _table("Time by method", ("method", "runs", *columns), rows, ("method",), caption)


def parameter_table(problems: Sequence[ProblemRuns]) -> Table:
    """Return the parameters of each method; several values where runs differ."""
    used: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for _, name, record in runs_of(problems):
        task = record["task"]
        settings = ", ".join(f"{key}={value}" for key, value in task["parameters"].items())
        parameters, limits = used.setdefault(name, ({}, {}))
        parameters[f"{task['solver']}({settings})"] = None
        limits[f"{float(task['seconds']):g} s"] = None
    columns = ("method", "parameters", "time limit")
    rows = [(Cell(name), *(Cell("; ".join(values)) for values in both)) for name, both in used.items()]
    return _table("Parameters of methods", columns, rows, columns)


def stopped_table(problems: Sequence[ProblemRuns]) -> Table:
    """Return the runs that did not end as planned, with links to their problems."""
    stopped = [run for run in runs_of(problems) if run[2]["status"] != Status.SOLVED]
    rows = []
    for problem, name, record in stopped[:MOST_STOPPED]:
        link, status = Cell(problem.title, link=f"#{problem.id}"), Cell(status_text(record["status"]))
        error = " ".join(str(record.get("error") or "the best policy so far was returned").split())
        rows.append((link, Cell(name), status, _number(float(record.get("seconds", math.nan))), Cell(error)))
    columns = ("problem", "method", "status", "seconds", "what happened")
    table = _table("Failed, stopped or unproved", columns, rows, ("problem", "method", "status", "what happened"))
    more = len(stopped) - len(rows)
    return replace(table, notes=(f"{count(more, 'run')} more are in the store.",) if more else ())


def _table(title: str, columns: Any, rows: Any, words: tuple[str, ...], caption: str = "") -> Table:
    lines = tuple(TableRow(head, tuple(cells)) for head, *cells in rows)
    return Table(title, tuple(columns), lines, caption, words=words)


def _number(value: float, text: Callable[[Any], str] = number_text) -> Cell:
    """Return a number; a missing one is a dash."""
    return Cell("–" if math.isnan(value) else text(value), {"value": value})


def _regret_cells(regrets: Sequence[float], widest: float, mark: float | None = None) -> list[Cell]:
    """Return a column of regrets with their bars; the least ones are emphasised."""
    least = min((value for value in regrets if not math.isnan(value)), default=math.nan)
    cells = []
    for value in regrets:
        share = 1.0 if math.isinf(value) else value / widest if widest > 0 else 0.0
        look: dict[str, Any] = {} if math.isnan(value) else {"bar": round(100 * share, 1), "mark": mark}
        cells.append(replace(_number(value), best=value <= least + SAME * widest, **look))
    return cells


def _rows_from_start(policy: Policy) -> Iterator[tuple[int, str, str, float]]:
    """Yield what is done at each node that the policy may reach, the nearest first."""
    graph, seen = policy.graph, dict.fromkeys(policy.start_node.tolist())
    waiting = list(seen)
    for node in waiting:  # grows meanwhile
        for entry in range(int(policy.entry_ptr[node]), int(policy.entry_ptr[node + 1])):
            action = graph.action_name(int(graph.action[policy.choice[entry]]))
            yield node, graph.state_name(int(policy.node_state[node])), action, float(policy.weight[entry])
            reached = dict.fromkeys(policy.next_node[policy.next_ptr[entry] : policy.next_ptr[entry + 1]].tolist())
            waiting += [other for other in reached if other not in seen]
            seen |= reached


def count(number: int, thing: str, things: str = "") -> str:
    """Return `1 method`, `3 methods`, `12 000 methods`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}".replace(",", " ")


def percent(share: float, rounding: str = ROUND_CEILING) -> str:
    """Return two digits of a share, three from 100 % on; rounded up, as it mostly is an upper bound."""
    return "∞" if math.isinf(share) else f"{rounded(100 * share, 2 if share < 1 else 3, rounding):g} %"


def status_text(status: str) -> str:
    """Return `time limit` for `time_limit`."""
    return status.replace("_", " ")
