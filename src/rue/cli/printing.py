"""Print lines, tables, rounded numbers and JSON. rich is imported when something is printed with it."""

import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import TYPE_CHECKING, Any

from rue._text import one_line, plain, rounded
from rue.table import Cell, Table, TableRow

if TYPE_CHECKING:
    from rich.console import Console

LONGEST_LIST = 30


def console() -> "Console":
    """Return standard output. Nothing is interpreted as markup, and nothing is truncated outside a terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 10_000
    return Console(markup=False, highlight=False, width=width)


def say(text: str, style: str | None = None) -> None:
    """Print one line, however long."""
    console().print(one_line(text), style=style, soft_wrap=True)


def complain(text: str) -> None:
    """Print one line on standard error."""
    print(f"rue: {one_line(text)}", file=sys.stderr)


def print_json(facts: Mapping[str, Any]) -> None:
    """Print one JSON object; infinities, which JSON does not have, become the string "inf"."""
    print(json.dumps(plain(facts)))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Cell]]) -> None:
    """Print a table: names in the first column, then numbers."""
    cells = [[Cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    Table("", tuple(columns), tuple(TableRow(head, tuple(rest)) for head, *rest in cells)).print(console())


def print_facts(facts: Mapping[str, str]) -> None:
    """Print names and what they stand for, side by side."""
    from rich.table import Table as RichTable

    table = RichTable(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, text in facts.items():
        table.add_row(name, text)
    console().print(table)


def print_samples(names: Sequence[str], figures: Mapping[str, Sequence[float]]) -> None:
    """Print a table of samples, with columns by name; those with the largest `regret` if there are many."""
    samples = list(range(len(names)))
    if len(samples) > LONGEST_LIST:
        samples = sorted(samples, key=lambda k: -figures["regret"][k])[:LONGEST_LIST]
    rows = [[one_line(names[k]), *(number(figure[k]) for figure in figures.values())] for k in samples]
    print_table(("sample", *figures), rows)
    if len(names) > LONGEST_LIST:
        console().print(f"the {LONGEST_LIST} worst of {len(names)} samples; --json lists all", style="dim")


def number(value: float) -> str:
    """Return a figure in five digits."""
    return ("∞" if value > 0 else "−∞") if math.isinf(value) else f"{value:.5g}"


def at_least(value: float) -> str:
    """Return a proved lower bound, rounded down so that the printed number is proved too."""
    return number(value) if math.isinf(value) else rounded(value, 5, ROUND_FLOOR)


def at_most(value: float) -> str:
    """Return an upper bound; tiny ones are raised to 1e-12, which holds as well and is easier to read."""
    return number(max(value, 1e-12) if value > 0 else value)


def average_in_words(average: Mapping[str, float]) -> str:
    """Return what is told of averages per step (`Units.averages`) in words."""
    error = average["error"]
    near = "not known" if math.isinf(error) else f"{rounded(error, 2, ROUND_CEILING)} at most"
    return f"per step, by a discount of {average['discount']:g}; the distance from the long run is {near}"
