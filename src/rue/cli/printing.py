"""What is printed: lines, tables, numbers in few digits, what is wrong with a policy, and facts as JSON."""

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from decimal import ROUND_FLOOR, Context
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rue import parsing
from rue._text import one_line, plain
from rue.diagnosis import Diagnosis, diagnose
from rue.judge import Evaluation
from rue.model import UMDP
from rue.policy import Policy
from rue.solution import Interval, Solution, Status

LONGEST_LIST = 30
BETWEEN = 2  # spaces between columns


def console() -> Console:
    """Standard output: names are printed as they are, and nothing is cut where nobody reads along."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 10_000
    return Console(markup=False, highlight=False, width=width)


def say(text: str, style: str | None = None) -> None:
    """One line, however long."""
    console().print(one_line(text), style=style, soft_wrap=True)


def complain(text: str) -> None:
    """One line on standard error."""
    print(f"rue: {one_line(text)}", file=sys.stderr)


def print_json(facts: Mapping[str, Any]) -> None:
    """One JSON object; infinities, which JSON does not have, as the string "inf"."""
    print(json.dumps(plain(facts)))


def solution_facts(model: UMDP, solution: Solution) -> dict[str, Any]:
    """A solution as JSON has it."""
    return {
        "method": parsing.short_name(solution.solver),
        "solver": solution.solver.name,
        "parameters": asdict(solution.solver),
        "status": solution.status.value,
        "objective": {"measures": solution.solver.measures, **_bounds(solution.objective)},
        "max_regret": _bounds(solution.max_regret),
        "gap": solution.gap,
        "mean_regret": solution.mean_regret,
        "regret": {model.sample_name(k): regret for k, regret in enumerate(solution.regret)},
        "seconds": solution.seconds,
        "counters": dict(solution.counters),
        "diagnosis": diagnosis_facts(diagnosis_of_solution(model, solution)),
    }


def is_solved(solution: Solution) -> bool:
    """Whether a solver came to its end, with a policy of finite regret: exit status 0, otherwise 1."""
    return solution.status is Status.SOLVED and math.isfinite(solution.max_regret.upper)


def diagnosis_of_solution(model: UMDP, solution: Solution) -> Diagnosis | None:
    """What is wrong, where a solution has infinite regret, or its solver has found that no policy will do."""
    found = diagnosis_of_policy(model, solution.policy, solution.regret)
    return diagnose(model) if found is None and solution.status is Status.INFEASIBLE else found


def diagnosis_of_policy(model: UMDP, policy: Policy, regret: Sequence[float]) -> Diagnosis | None:
    """What is wrong, where a policy has infinite regret."""
    infinite = [k for k, value in enumerate(regret) if math.isinf(value)]
    return diagnose(model, policy, infinite=infinite) if infinite else None


def diagnosis_facts(diagnosis: Diagnosis | None) -> dict[str, Any] | None:
    """What is wrong, as JSON has it."""
    return None if diagnosis is None else diagnosis.facts()


def say_lines(facts: Mapping[str, Any] | None) -> None:
    """What is wrong and what could be done, line by line."""
    for line in () if facts is None else facts["lines"]:
        say(line)


def _bounds(interval: Interval) -> dict[str, float]:
    return {"lower": interval.lower, "upper": interval.upper}


def verdict_facts(model: UMDP, verdict: Evaluation) -> dict[str, Any]:
    """What the judge found, as JSON has it."""
    return {
        "max_regret": verdict.max_regret,
        "mean_regret": verdict.mean_regret,
        "worst_sample": verdict.worst_sample,
        "error": verdict.error,
        "samples": [model.sample_name(k) for k in range(model.samples)],
        "value": verdict.value.tolist(),
        "optimal": verdict.optimal.tolist(),
        "regret": verdict.regret.tolist(),
    }


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """A table: names first, then numbers. Columns that do not fit stand in further tables, each with the names."""
    cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    widths = [
        max(cell_len(part.plain if isinstance(part, Text) else part) for part in column)
        for column in zip(columns, *cells, strict=True)
    ]
    out = console()
    names = min(widths[0], out.width // 2)
    for block in _blocks(widths[1:], out.width - names):
        part = Table(header_style="bold", box=None, padding=(0, BETWEEN, 0, 0), pad_edge=False)
        part.add_column(columns[0], width=names, overflow="fold")
        for i in block:
            part.add_column(columns[i + 1], justify="right", no_wrap=True, width=widths[i + 1])
        for row in cells:
            part.add_row(row[0], *(row[i + 1] for i in block))
        out.print(part)


def _blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """Columns in order, as many beside each other as there is room for."""
    blocks: list[list[int]] = [[]]
    left = room
    for i, width in enumerate(widths):
        if blocks[-1] and width + BETWEEN > left:
            blocks.append([])
            left = room
        blocks[-1].append(i)
        left -= width + BETWEEN
    return blocks


def pairs() -> Table:
    """A table without a header: what something is called, and what it is."""
    return Table(show_header=False, box=None, padding=(0, 2, 0, 0))


def listed(samples: range, regret: Sequence[float]) -> list[int]:
    """All samples, or the worst ones where there are many."""
    if len(samples) <= LONGEST_LIST:
        return list(samples)
    return sorted(samples, key=lambda k: -regret[k])[:LONGEST_LIST]


def say_rest(samples: int) -> None:
    """That not all samples are listed, where that is so."""
    if samples > LONGEST_LIST:
        console().print(f"the {LONGEST_LIST} worst of {samples} samples; --json lists all", style="dim")


def distinct(names: Sequence[str]) -> list[str]:
    """The names, numbered where one comes twice."""
    return [
        name if names[:i].count(name) == 0 else f"{name} ({names[:i].count(name) + 1})" for i, name in enumerate(names)
    ]


def number(value: float) -> str:
    """A figure in five digits."""
    return "∞" if math.isinf(value) else f"{value:.5g}"


def percent(fraction: float) -> str:
    """A gap in two digits."""
    return "∞" if math.isinf(fraction) else f"{100 * fraction:.2g} %"


def at_least(value: float) -> str:
    """A proved lower bound: rounded down, so that what is shown is proved too."""
    return "∞" if math.isinf(value) else rounded(value, 5, ROUND_FLOOR)


def at_most(value: float) -> str:
    """An upper bound; one that is a mere rounding error is raised to what is as true, and easier to read."""
    return number(max(value, 1e-12) if value > 0 else value)


def rounded(value: float, digits: int, rounding: str) -> str:
    """So many digits, rounded as `decimal` names it."""
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(repr(float(value)))):.{digits}g}"
