"""The tables of a page: methods on a problem, policies, times, parameters, and runs that did not end as planned."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from rue._text import bound_text, counted, number_text, percent_text, short_line
from rue.experiments.problems import SAME, ProblemRuns
from rue.experiments.results import NO_REGRET, spread_of
from rue.experiments.store import FAILED, Record
from rue.policy import Policy
from rue.solution import Interval, Status
from rue.table import Cell, Table, TableRow

FIRST_ROWS, MOST_FOLLOWING = 12, 3  # of a policy; nodes that follow one
MOST_STOPPED = 300  # runs in one table

Runs = Sequence[tuple[int, ProblemRuns, str, Record]]  # number of the problem on the page, problem, method, record


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
    gap = [
        math.nan if math.isnan(value) else Interval(min(bound, value), value).gap(float(one.get("floor", NO_REGRET)))
        for value, one in zip(train, records.values(), strict=True)
    ]
    columns = {
        "method": map(Cell, records),
        "max regret, train": _regret_cells(train, widest, mark),
        "max regret, test": _regret_cells(test, widest),
        "mean regret": map(_number, numbers(lambda one: spread_of(one)["mean"])),
        "tail 0.1": map(_number, numbers(lambda one: spread_of(one)["tail 0.1"])),
        "gap": [_number(value, percent_text) for value in gap],
        "proved bound": [_number(value, bound_text) for value in numbers(lambda one: one["max_regret"][0])],
        "seconds": map(_number, numbers(lambda one: one["seconds"])),
        "nodes": [_number(value, "{:.0f}".format) for value in numbers(lambda one: one["nodes"])],
        "status": [Cell(one["status"].replace("_", " ")) for one in records.values()],
    }
    if all(map(math.isnan, test)):
        del columns["max regret, test"]
    if not proved:
        del columns["proved bound"]
    words = f"No policy of any kind has a max regret (train) below {bound_text(bound)}, the upright mark."
    caption = (
        f"{words if bound > 0 else 'No bound is proved.'} The gap is (max regret − bound) / max regret. Mean regret "
        "and tail 0.1 (the mean of the worst tenth) are over the train samples by their weights."
    )
    rows = zip(*columns.values(), strict=True)
    return _table("Max regret by method", columns, rows, ("method", "status"), caption)


def policy_table(name: str, policy: Policy) -> Table:
    """Return the first rows of a policy: breadth first from where it starts, with the nodes that follow."""
    rows = [
        (_number(node, str), Cell(state), Cell(action), _number(weight), Cell(follow))
        for node, state, action, weight, follow in islice(_rows_from_start(policy), FIRST_ROWS)
    ]
    total, starts = int(policy.choice.size), policy.start_node.size
    caption = f"Its first {len(rows)} rows of {total}, from the start on" if total > len(rows) else "All of its rows"
    caption += f"; it has {counted(policy.nodes, 'node')}."
    caption += f" It starts at one of {starts} nodes, drawn by chance." if starts > 1 else ""
    columns = ("node", "state", "action", "probability", "then, at node")
    return _table(f"Policy of {name}", columns, rows, ("state", "action", "then, at node"), caption)


def time_table(runs: Runs) -> Table:
    """Return the seconds of each method over all of its runs."""
    total: dict[str, list[Record]] = {}
    for _, _, name, record in runs:
        total.setdefault(name, []).append(record)
    columns = {"solver, s": "seconds", "compilation, s": "compile_seconds", "all, s": "wall_seconds"}
    rows = []
    for name, own in total.items():
        seconds = (math.fsum(float(one.get(key) or 0.0) for one in own) for key in columns.values())
        rows.append((Cell(name), _number(len(own), str), *map(_number, seconds)))
    caption = (
        "Seconds over all runs: of the solver alone, of compilation (once in each process), and of all work, which "
        "includes sampling and judging."
    )
    return _table("Time by method", ("method", "runs", *columns), rows, ("method",), caption)


def parameter_table(runs: Runs) -> Table:
    """Return the parameters of each method; several values where runs differ."""
    used: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for _, _, name, record in runs:
        task = record["task"]
        settings = ", ".join(f"{key}={value}" for key, value in task["parameters"].items())
        parameters, limits = used.setdefault(name, ({}, {}))
        parameters[f"{task['solver']}({settings})"] = None
        limits[f"{float(task['seconds']):g} s"] = None
    columns = ("method", "parameters", "time limit")
    rows = [(Cell(name), *(Cell("; ".join(values)) for values in both)) for name, both in used.items()]
    return _table("Parameters of methods", columns, rows, columns)


def stopped_table(runs: Runs) -> Table:
    """Return the runs that did not end as planned, with links to their problems."""
    stopped = [run for run in runs if run[3]["status"] != Status.SOLVED]
    rows = []
    for number, problem, name, record in stopped[:MOST_STOPPED]:
        link, status = Cell(problem.title, link=f"#problem-{number}"), Cell(record["status"].replace("_", " "))
        error = " ".join(str(record.get("error") or "the best policy so far was returned").split())
        rows.append((link, Cell(name), status, _number(float(record.get("seconds", math.nan))), Cell(error)))
    columns = ("problem", "method", "status", "seconds", "what happened")
    table = _table("Failed, stopped or unproved", columns, rows, ("problem", "method", "status", "what happened"))
    more = len(stopped) - len(rows)
    return replace(table, notes=(f"{counted(more, 'run')} more are in the store.",) if more else ())


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


def _rows_from_start(policy: Policy) -> Iterator[tuple[int, str, str, float, str]]:
    """Yield what is done at each node that the policy may reach, the nearest first, and the nodes that follow."""
    graph, seen = policy.graph, dict.fromkeys(policy.start_node.tolist())
    waiting = list(seen)
    for node in waiting:  # grows meanwhile
        for entry in range(int(policy.entry_ptr[node]), int(policy.entry_ptr[node + 1])):
            action = graph.action_name(int(graph.action[policy.choice[entry]]))
            reached = dict.fromkeys(policy.next_node[policy.next_ptr[entry] : policy.next_ptr[entry + 1]].tolist())
            names = [f"{short_line(graph.state_name(int(policy.node_state[n])), 24)}: {n}" for n in reached]
            more = [f"{len(names) - MOST_FOLLOWING} more"] if len(names) > MOST_FOLLOWING else []
            follow = "; ".join([*names[:MOST_FOLLOWING], *more])
            yield node, graph.state_name(int(policy.node_state[node])), action, float(policy.weight[entry]), follow
            waiting += [other for other in reached if other not in seen]
            seen |= reached
