"""The tables of the page: methods on a problem, results, first rows of a policy, times, parameters, stopped runs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from rue.policy import Policy
from rue.report.cases import SAME, SOLVED, Case, Row, runs_of
from rue.report.style import number_text
from rue.report.views import Cell, Column, Sheet
from rue.report.words import MISSING, at_least, count, status_text
from rue.table import Table

FIRST_ROWS = 12  # of a policy
MOST_STOPPED = 300  # runs in one table
MOST_LETTERS = 300  # of an error


def method_sheet(rows: Sequence[Row], bound: float, *, proved: bool = True) -> Sheet:
    """Methods on one problem: regrets with bars, how they ended, what they took, and what each proved if that differs.

    The best bound is one of the problem, and is told once.
    """
    train, test = [row.train for row in rows], [row.test for row in rows]
    tested = not all(map(math.isnan, test))
    widest = max([value for value in [*train, *test] if math.isfinite(value)] + [bound, 0.0])
    place = round(100 * bound / widest, 1) if bound > 0 else None
    shown = [[replace(cell, mark=place if cell.bar is not None else None) for cell in _regret_cells(train, widest)]]
    if tested:
        shown.append(_regret_cells(test, widest))
    body = [
        [
            Cell(row.method), *regrets, *[replace(_number(row.proved), text=at_least(row.proved))] * proved,
            _number(row.seconds), _number(row.nodes, digits=".0f"), Cell(status_text(row.status)),
        ]
        for row, *regrets in zip(rows, *shown, strict=True)
    ]  # fmt: skip
    heads = ["max regret, train", *["max regret, test"] * tested, *["proved bound"] * proved, "seconds", "nodes"]
    columns = [Column("method", number=False), *map(Column, heads), Column("status", number=False)]
    words = f"No policy of any kind has a max regret (train) below {at_least(bound)}, the upright mark."
    return Sheet("Max regret by method", columns, body, words if bound > 0 else "No bound is proved.")


def result_sheet(table: Table) -> Sheet:
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


def policy_sheet(name: str, policy: Policy) -> Sheet:
    """The first rows of a policy: breadth first from where it starts."""
    rows = [
        [_number(node, digits="d"), Cell(state), Cell(action), _number(weight)]
        for node, state, action, weight in islice(_rows_from_start(policy), FIRST_ROWS)
    ]
    total = int(policy.choice.size)
    columns = [Column("node"), Column("state", number=False), Column("action", number=False), Column("probability")]
    more = f"Its first {len(rows)} rows of {total}, from the start on" if total > len(rows) else "All of its rows"
    starts = f" It starts at one of {policy.start_node.size} nodes, drawn by chance." * (policy.start_node.size > 1)
    return Sheet(f"Policy of {name}", columns, rows, f"{more}; it has {count(policy.nodes, 'node')}.{starts}")


def time_sheet(cases: Sequence[Case]) -> Sheet:
    """Seconds of each method over all of its runs."""
    total: dict[str, list[float]] = {}
    for _, name, record in runs_of(cases):
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


def parameter_sheet(cases: Sequence[Case]) -> Sheet:
    """What each method was told; several values where it was told different things."""
    told: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for _, name, record in runs_of(cases):
        task = record["task"]
        settings = ", ".join(f"{key}={value}" for key, value in task["parameters"].items())
        parameters, limits = told.setdefault(name, ({}, {}))
        parameters[f"{task['solver']}({settings})"] = None
        limits[f"{float(task['seconds']):g} s"] = None
    columns = [Column(name, number=False) for name in ("method", "parameters", "time limit")]
    rows = [[Cell(name), Cell("; ".join(one)), Cell("; ".join(limits))] for name, (one, limits) in told.items()]
    return Sheet("Parameters of methods", columns, rows, wraps=True)


def stopped_sheet(cases: Sequence[Case]) -> Sheet | None:
    """Runs that did not end as planned, if there are any, with links to their problems."""
    stopped = [run for run in runs_of(cases) if run[2]["status"] != SOLVED]
    if not stopped:
        return None
    columns = [Column(name, number=False) for name in ("problem", "method", "status")]
    columns += [Column("seconds"), Column("what happened", number=False)]
    rows = []
    for case, name, record in stopped[:MOST_STOPPED]:
        words = " ".join(str(record.get("error") or "the best policy so far was returned").split())
        link = Cell(case.title, link=f"#{case.id}")
        seconds = _number(float(record.get("seconds", math.nan)))
        rows.append([link, Cell(name), Cell(status_text(record["status"])), seconds, Cell(words[:MOST_LETTERS])])
    more = len(stopped) - len(rows)
    notes = [f"{count(more, 'run')} more, of which the store tells."] if more else []
    return Sheet("Failed, stopped or unproved", columns, rows, notes=notes, wraps=True)


def _number(value: float, *, digits: str = "") -> Cell:
    """A number in a table: three digits, or as `digits` says; a hole is a dash."""
    if math.isnan(value):
        return Cell(MISSING, math.nan)
    return Cell(format(value, digits) if digits and math.isfinite(value) else number_text(value), value)


def _regret_cells(regrets: Sequence[float], widest: float) -> list[Cell]:
    """A column of regrets with their bars; the least ones are strong."""
    least = min((value for value in regrets if not math.isnan(value)), default=math.nan)
    cells = []
    for value in regrets:
        share = 1.0 if math.isinf(value) else value / widest if widest > 0 else 0.0
        bar = None if math.isnan(value) else round(100 * share, 1)
        cells.append(replace(_number(value), strong=value <= least + SAME * widest, bar=bar))
    return cells


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
