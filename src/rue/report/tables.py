"""The tables of a page, and the runs of one problem that they are made of."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from rue.experiments.results import Results, method_labels, problem_of
from rue.experiments.store import FAILED
from rue.policy import Policy
from rue.report.style import bound_text, number_text, rounded
from rue.solution import Solution, Status
from rue.table import Cell, Table, TableRow

MISSING = "–"
SAME = 1e-9  # regrets closer than this share of the largest are equal
FIRST_ROWS = 12  # of a policy
MOST_STOPPED = 300  # runs in one table

Record = dict[str, Any]


class MethodResult(NamedTuple):
    """One method on one problem; unknown numbers are NaN."""

    method: str
    status: str
    train: float = math.nan  # max regret
    test: float = math.nan
    mean: float = math.nan  # mean regret on the training samples
    proved: float = math.nan  # lower bound on the max regret of every policy
    seconds: float = math.nan
    nodes: float = math.nan

    @classmethod
    def of_record(cls, method: str, record: Record) -> "MethodResult":
        """Return the numbers of a record."""
        if record["status"] == FAILED:
            return cls(method, FAILED)
        lower, upper = map(float, record["max_regret"])
        test = float(record["test"]["max_regret"]) if "test" in record else math.nan
        mean = math.fsum(map(float, record["regret"])) / len(record["regret"])
        return cls(method, record["status"], upper, test, mean, lower, float(record["seconds"]), float(record["nodes"]))

    @classmethod
    def of_solution(cls, method: str, solution: Solution, test: float = math.nan) -> "MethodResult":
        """Return the numbers of a solution, with its max regret on test samples if that is known."""
        regret = solution.max_regret
        numbers = (regret.upper, test, solution.mean_regret, regret.lower, solution.seconds, solution.policy.nodes)
        return cls(method, solution.status.value, *numbers)


@dataclass(eq=False)
class ProblemRuns:
    """All records of one problem, by method, and what the page shows of them."""

    id: str  # on the page
    records: Mapping[str, Record]
    figures: list[Any] = field(default_factory=list)
    policies: list[Any] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    @property
    def first(self) -> Record:
        """Return any of the records, for what they share."""
        return next(iter(self.records.values()))

    @property
    def place(self) -> tuple[str, str]:
        """Return the group and the size."""
        return self.first["group"], self.first["size"]

    @property
    def seed(self) -> str:
        """Return what tells a problem from others of its size: `seed 3`."""
        seed = re.search(r"[:,]seed=(\d+)", self.first["problem"])
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

    @cached_property
    def results(self) -> list[MethodResult]:
        """Return what the records say, the least max regret first, failed ones last."""
        return [MethodResult.of_record(name, record) for name, record in {**self.done, **self.records}.items()]

    @property
    def bound(self) -> float:
        """Return the best proved bound on the max regret of every policy."""
        return max((one.proved for one in self.results if not math.isnan(one.proved)), default=0.0)

    @property
    def size(self) -> str:
        """Return how large the problem is; nothing if all runs failed."""
        known = next(iter(self.done.values()), None)
        tests = max((len(record["test"]["regret"]) for record in self.done.values() if "test" in record), default=0)
        return size_text(known["states"], known["choices"], len(known["regret"]), tests) if known else ""

    @property
    def summary(self) -> str:
        """Return which method has the least max regret, and what is proved about it."""
        if not self.done:
            return "every method failed"
        best = self.results[0]
        equal = sum(one.train <= best.train + SAME * abs(best.train) for one in self.results) - 1
        others = f" and {count(equal, 'other')}" if equal > 0 else ""
        bound = f", bound {at_least(self.bound)}" if self.bound > 0 else ""
        return f"least max regret {number_text(best.train)} by {best.method}{others}{bound}"

    @property
    def table(self) -> Table:
        """Return the table of the methods."""
        return method_table(self.results, self.bound)


def problems_of(records: Sequence[Record], results: Results) -> list[ProblemRuns]:
    """Return the records by problem, in the order of the results."""
    label = method_labels(records)
    found: dict[tuple[str, str], dict[str, Record]] = {}
    for record in records:
        found.setdefault(problem_of(record), {})[label[record["key"]]] = record
    order = [(group.name, problem) for group in results.groups for problem in group.problems]
    return [ProblemRuns(f"problem-{number}", found[key]) for number, key in enumerate(order, 1)]


def runs_of(problems: Sequence[ProblemRuns]) -> list[tuple[ProblemRuns, str, Record]]:
    """Return every run: its problem, its method and its record."""
    return [(problem, name, record) for problem in problems for name, record in problem.records.items()]


def result_table(table: Any) -> Table:
    """Return a table of results without the name of its group, below which it stands."""
    tests = table.kind.startswith(("t ", "wilcoxon "))
    title = table.title.removeprefix(f"{table.group}: ")
    rows = [TableRow(Cell(row.name), tuple(Cell(c.text, c.values, c.best) for c in row.cells)) for row in table.rows]
    rows[0] = replace(rows[0], pinned=tests)
    title = title[:1].upper() + title[1:]
    return Table(title, table.columns, tuple(rows), table.caption, table.notes, kind="test" if tests else "")


def method_table(results: Sequence[MethodResult], bound: float, *, proved: bool = True) -> Table:
    """Return the table of methods on one problem, with a bar for each regret and a mark at the best bound.

    `proved` adds what each method proved; the best bound is one of the problem, and is in the caption.
    """
    tested = not all(math.isnan(one.test) for one in results)
    finite = [value for one in results for value in (one.train, one.test) if math.isfinite(value)]
    widest = max([*finite, bound, 0.0])
    mark = round(100 * bound / widest, 1) if bound > 0 else None
    columns = {
        "method": [Cell(one.method) for one in results],
        "max regret, train": _regret_cells([one.train for one in results], widest, mark),
        "max regret, test": _regret_cells([one.test for one in results], widest),
        "mean regret": [_number(one.mean) for one in results],
        "gap": [_number(gap := _gap(one.train, bound), percent(gap)) for one in results],
        "proved bound": [_number(one.proved, at_least(one.proved)) for one in results],
        "seconds": [_number(one.seconds) for one in results],
        "nodes": [_number(one.nodes, f"{one.nodes:.0f}") for one in results],
        "status": [Cell(status_text(one.status)) for one in results],
    }
    if not tested:
        del columns["max regret, test"]
    if not proved:
        del columns["proved bound"]
    words = f"No policy of any kind has a max regret (train) below {at_least(bound)}, the upright mark."
    return _table(
        "Max regret by method", list(columns), zip(*columns.values(), strict=True), ("method", "status"),
        words if bound > 0 else "No bound is proved.",
    )  # fmt: skip


def policy_table(name: str, policy: Policy) -> Table:
    """Return the first rows of a policy: breadth first from where it starts."""
    rows = [
        (_number(node, str(node)), Cell(state), Cell(action), _number(weight))
        for node, state, action, weight in islice(_rows_from_start(policy), FIRST_ROWS)
    ]
    total, starts = int(policy.choice.size), policy.start_node.size
    caption = f"Its first {len(rows)} rows of {total}, from the start on" if total > len(rows) else "All of its rows"
    caption += f"; it has {count(policy.nodes, 'node')}."
    caption += f" It starts at one of {starts} nodes, drawn by chance." if starts > 1 else ""
    columns = ("node", "state", "action", "probability")
    return _table(f"Policy of {name}", columns, rows, ("state", "action"), caption)


def time_table(problems: Sequence[ProblemRuns]) -> Table:
    """Return the seconds of each method over all of its runs."""
    total: dict[str, list[Record]] = {}
    for _, name, record in runs_of(problems):
        total.setdefault(name, []).append(record)
    columns = {"solver, s": "seconds", "compilation, s": "compile_seconds", "all, s": "wall_seconds"}
    rows = [
        (Cell(name), _number(len(runs), str(len(runs))),
         *(_number(math.fsum(float(run.get(key) or 0.0) for run in runs)) for key in columns.values()))
        for name, runs in total.items()
    ]  # fmt: skip
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


def stopped_table(problems: Sequence[ProblemRuns]) -> Table | None:
    """Return the runs that did not end as planned, with links to their problems; None if there are none."""
    stopped = [run for run in runs_of(problems) if run[2]["status"] != Status.SOLVED]
    columns = ("problem", "method", "status", "seconds", "what happened")
    rows = []
    for problem, name, record in stopped[:MOST_STOPPED]:
        words = " ".join(str(record.get("error") or "the best policy so far was returned").split())
        seconds = _number(float(record.get("seconds", math.nan)))
        link = Cell(problem.title, link=f"#{problem.id}")
        rows.append((link, Cell(name), Cell(status_text(record["status"])), seconds, Cell(words)))
    more = len(stopped) - len(rows)
    notes = (f"{count(more, 'run')} more are in the store.",) if more else ()
    words = ("problem", "method", "status", "what happened")
    return replace(_table("Failed, stopped or unproved", columns, rows, words), notes=notes) if stopped else None


def _table(title: str, columns: Sequence[str], rows: Any, words: tuple[str, ...], caption: str = "") -> Table:
    lines = tuple(TableRow(head, tuple(cells)) for head, *cells in rows)
    return Table(title, tuple(columns), lines, caption, words=words)


def _number(value: float, text: str = "") -> Cell:
    """Return a number with three digits, or as `text` shows it; a missing one is a dash."""
    return Cell(MISSING if math.isnan(value) else text or number_text(value), {"value": value})


def _gap(regret: float, bound: float) -> float:
    """Return (regret − bound) / regret, as `Solution.gap` defines it; infinite where the regret is."""
    return regret if math.isinf(regret) else max(0.0, 1 - bound / regret) if regret > 0 else 0.0 * regret


def _regret_cells(regrets: Sequence[float], widest: float, mark: float | None = None) -> list[Cell]:
    """Return a column of regrets with their bars; the least ones are emphasised."""
    least = min((value for value in regrets if not math.isnan(value)), default=math.nan)
    cells = []
    for value in regrets:
        share = 1.0 if math.isinf(value) else value / widest if widest > 0 else 0.0
        look = {} if math.isnan(value) else {"bar": round(100 * share, 1), "mark": mark}
        cells.append(replace(_number(value), best=value <= least + SAME * widest, **look))
    return cells


def _rows_from_start(policy: Policy) -> Iterator[tuple[int, str, str, float]]:
    """Yield what is done at each node that the policy may reach, the nearest first."""
    graph, seen = policy.graph, dict.fromkeys(policy.start_node.tolist())
    waiting = list(seen)
    for node in waiting:  # grows
        for entry in range(int(policy.entry_ptr[node]), int(policy.entry_ptr[node + 1])):
            action = graph.action_name(int(graph.action[policy.choice[entry]]))
            yield node, graph.state_name(int(policy.node_state[node])), action, float(policy.weight[entry])
            reached = dict.fromkeys(policy.next_node[policy.next_ptr[entry] : policy.next_ptr[entry + 1]].tolist())
            waiting += [other for other in reached if other not in seen]
            seen |= reached


def count(number: int, thing: str, things: str = "") -> str:
    """Return `1 method`, `3 methods`, `12 000 methods`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}".replace(",", " ")


def at_least(value: float) -> str:
    """Return a proved lower bound, or a dash if there is none."""
    return MISSING if math.isnan(value) else bound_text(value)


def percent(share: float, rounding: str = ROUND_CEILING) -> str:
    """Return two digits of a share, three from 100 % on; rounded up, as it mostly is an upper bound."""
    return "∞" if math.isinf(share) else f"{rounded(100 * share, 2 if share < 1 else 3, rounding):g} %"


def status_text(status: str) -> str:
    """Return `time limit` for `time_limit`."""
    return status.replace("_", " ")


def size_text(states: float, choices: float, samples: int, tests: int) -> str:
    """Return how large a problem is."""
    words = [count(int(states), "state"), count(int(choices), "choice"), f"{count(samples, 'sample')} to plan with"]
    return ", ".join(words) + (f", {tests} others to test on" if tests else "")
