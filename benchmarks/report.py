"""Tables that print themselves in a terminal and as Markdown, and the machine in words."""

import os
import platform
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

PACKAGES = ("rue", "numpy", "scipy", "numba", "highspy", "quantecon", "stormpy")


@dataclass
class Table:
    """A title, a header, rows of text and remarks below. The first column is text, the others are numbers."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def show(self, console: Console) -> None:
        """Print in a terminal."""
        table = RichTable(title=escape(self.title), title_justify="left")
        for i, name in enumerate(self.header):
            table.add_column(escape(name), justify="right" if i else "left")
        for row in self.rows:
            table.add_row(*map(escape, row))
        console.print(table)
        for note in self.notes:
            console.print(escape(note), highlight=False)
        console.print()

    def markdown(self) -> str:
        """The same as Markdown."""
        rule = ["---", *["---:"] * (len(self.header) - 1)]
        rows = "\n".join("| " + " | ".join(row) + " |" for row in (self.header, rule, *self.rows))
        notes = "\n".join(f"- {note}" for note in self.notes)
        return "\n\n".join(part for part in (f"## {self.title}", rows, notes) if part) + "\n"


def machine() -> str:
    """Processors and versions; nothing that names the machine or its owner."""
    found = [f"{name} {text}" for name in PACKAGES if (text := _version(name))]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    python = f"Python {platform.python_version()}"
    return f"{cores} CPU cores ({platform.machine()}), {platform.system()}, {', '.join([python, *found])}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
