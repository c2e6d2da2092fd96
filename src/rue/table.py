"""Tables: one type for the terminal, text files, Markdown, LaTeX, CSV and HTML.

A cell has the text that is shown and the values that the text stands for. All formats show the text, except CSV: it has
one line for each value, with all digits. rich and markupsafe are imported when a table is rendered.
"""

import csv
import io
import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rue._text import short_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

# LaTeX tables with more columns are shrunk to the width of the page.
MOST_LATEX_COLUMNS = 8
# Longer texts are shortened in HTML.
MOST_HTML_LETTERS = 300
MOST_NOTEBOOK_ROWS = 15
TEXT_WIDTH = 100  # of titles, captions and notes in text files
UNLIMITED = 10_000  # width of tables that are not wrapped
BETWEEN = 2  # spaces between columns in the terminal
CSV_HEAD = ("group", "table", "row", "column", "measure", "value")
MARKDOWN_SIGNS = str.maketrans({**{sign: f"\\{sign}" for sign in "\\`*_[]<>|#~$"}, "&": "&amp;"})
LATEX_SIGNS = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": r"\textbar{}",
    '"': r"\textquotedbl{}", "×": r"$\times$", "∞": r"$\infty$", "–": "--", "−": "$-$", "±": r"$\pm$",
})  # fmt: skip
LATEX_HEAD = "% needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx}\n"


@dataclass(frozen=True)
class Cell:
    """A text, and the values that it stands for by measure; the first value is the one that HTML tables sort by."""

    text: str
    values: Mapping[str, float] = field(default_factory=dict)
    best: bool = False  # emphasised, up to the sign ± if there is one
    bar: float | None = None  # HTML: a bar, in percent of the longest
    mark: float | None = None  # HTML: a mark on the bar, in percent
    link: str = ""  # HTML


@dataclass(frozen=True)
class TableRow:
    """The cells of a row; the first one names the row."""

    head: Cell
    cells: tuple[Cell, ...]
    pinned: bool = False  # HTML: stays below the column names when the table is sorted

    @property
    def name(self) -> str:
        """Return the text of the first cell."""
        return self.head.text

    @property
    def all_cells(self) -> tuple[Cell, ...]:
        """Return all cells, the first included."""
        return (self.head, *self.cells)


@dataclass(frozen=True)
class Table:
    """Columns, rows, a title, a caption and notes."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    caption: str = ""
    notes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()  # columns of text, aligned to the left; if none is named, the first column
    group: str = ""  # CSV: what the table is about
    kind: str = ""  # CSV: which table of the group it is, unique within the group

    def is_text(self, column: int) -> bool:
        """Return whether a column has text; the others have numbers."""
        return self.columns[column] in self.words if self.words else column == 0

    def print(self, console: "Console") -> None:
        """Print columns and rows to a terminal. Columns that do not fit follow as further tables with the names."""
        from rich.cells import cell_len

        columns = zip(self.columns, *([cell.text for cell in row.all_cells] for row in self.rows), strict=True)
        widths = [max(map(cell_len, column)) for column in columns]
        widths[0] = min(widths[0], console.width // 2)
        for block in _blocks(widths, console.width):
            console.print(self._rich(block, widths, header_style="bold", box=None, padding=(0, BETWEEN, 0, 0)))

    def text(self) -> str:
        """Return plain text. The table is as wide as necessary, the text around it has lines of a readable length."""
        from rich import box
        from rich.console import Console
        from rich.text import Text

        stream = io.StringIO()
        wide, narrow = (
            Console(file=stream, width=width, color_system=None, legacy_windows=False)
            for width in (UNLIMITED, TEXT_WIDTH)
        )
        for line in (self.title, self.caption):
            narrow.print(Text(_on_one_line(line)))
        wide.print(self._rich(range(len(self.columns)), box=box.SIMPLE_HEAD))
        for note in self.notes:
            narrow.print(Text(_on_one_line(note)))
        return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"

    def _rich(self, columns: Sequence[int], widths: Sequence[int] | None = None, **style: object) -> "RichTable":
        """Return some columns as a table of rich; without widths, each column is as wide as its longest cell."""
        from rich.table import Table as RichTable
        from rich.text import Text

        drawn = RichTable(pad_edge=False, **style)  # type: ignore[arg-type]
        for i in columns:
            drawn.add_column(
                Text(_on_one_line(self.columns[i])),
                justify="left" if self.is_text(i) else "right",
                width=None if widths is None else widths[i],
                no_wrap=widths is None or i > 0,
                overflow="fold" if i == 0 else "ellipsis",
            )
        for row in self.rows:
            cells = [row.all_cells[i] for i in columns]
            bold = widths is not None
            drawn.add_row(*(Text(_on_one_line(c.text), style="bold" if bold and c.best else "") for c in cells))
        return drawn

    def markdown(self) -> str:
        """Return the table as Markdown."""
        rules = ["---" if self.is_text(i) else "---:" for i in range(len(self.columns))]
        lines = [f"### {_in_markdown(self.title)}", "", _in_markdown(self.caption), ""]
        rows = [[_emphasised(cell, _in_markdown, "**", "**") for cell in row.all_cells] for row in self.rows]
        lines += [f"| {' | '.join(row)} |" for row in ([*map(_in_markdown, self.columns)], rules, *rows)]
        lines += ["", *(f"- {_in_markdown(note)}" for note in self.notes)] if self.notes else []
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        """Return the table as LaTeX; it needs the packages of `LATEX_HEAD`."""
        sides = "".join("l" if self.is_text(i) else "r" for i in range(len(self.columns)))
        rows = [[_emphasised(cell, _in_latex, "\\textbf{", "}") for cell in row.all_cells] for row in self.rows]
        head, *body = (" & ".join(row) + " \\\\" for row in ([*map(_in_latex, self.columns)], *rows))
        lines = [f"\\begin{{tabular}}{{{sides}}}", "\\toprule", head, "\\midrule", *body, "\\bottomrule"]
        if len(self.columns) > MOST_LATEX_COLUMNS:
            lines = ["\\resizebox{\\textwidth}{!}{%", *lines, "\\end{tabular}}"]
        else:
            lines.append("\\end{tabular}")
        title, _, rest = self.title.partition(": ")
        caption = f"\\caption{{\\textbf{{{_in_latex(title)}}}: {_in_latex(rest)}. {_in_latex(self.caption)}}}"
        notes = [f"\\par\\smallskip\\footnotesize {_in_latex(' '.join(self.notes))}"] if self.notes else []
        return "\n".join(["\\begin{table}", "\\centering", caption, *lines, *notes, "\\end{table}"]) + "\n"

    def csv_lines(self) -> Iterator[tuple[str, ...]]:
        """Yield one line for each value of a cell; the first cells of the rows have none."""
        for row in self.rows:
            for column, cell in zip(self.columns[1:], row.cells, strict=True):
                for measure, value in cell.values.items():
                    yield self.group, self.kind, row.name, column, measure, repr(value)

    def html(self, *, titled: bool = True, wraps: bool = False) -> str:
        """Return a fragment of HTML, as `Markup`: caption, table and notes. With `wraps`, texts in cells may wrap."""
        from markupsafe import Markup, escape

        name = escape(self.title)
        title = Markup("<strong>{}.</strong> ").format(name) if titled else ""
        number = Markup(' class="number" data-kind="number"')
        heads = [
            Markup('<th scope="col"{}>{}</th>').format("" if self.is_text(i) else number, column)
            for i, column in enumerate(self.columns)
        ]
        pinned, rows = ([row for row in self.rows if row.pinned is wanted] for wanted in (True, False))
        above = [Markup('\n<tr class="pinned">{}</tr>').format(self._html_cells(row)) for row in pinned]
        below = [Markup("<tr>{}</tr>\n").format(self._html_cells(row)) for row in rows]
        notes = Markup('<p class="note">{}</p>\n').format(" ".join(self.notes)) if self.notes else ""
        joined = Markup("").join
        top = Markup('<p class="caption">{}{}</p>\n<div class="box" role="region" tabindex="0" aria-label="{}">\n')
        kind = "sorts wrap" if wraps else "sorts"
        table = Markup(
            '<table aria-label="{}" class="{}">\n<thead><tr>{}</tr>{}</thead>\n<tbody>\n{}</tbody>\n</table>\n</div>\n'
        ).format(name, kind, joined(heads), joined(above), joined(below))
        return top.format(title, self.caption, name) + table + notes

    def _html_cells(self, row: TableRow) -> str:
        from markupsafe import Markup

        cells = [_html_cell(cell, i == 0, self.is_text(i)) for i, cell in enumerate(row.all_cells)]
        return Markup("").join(cells)


def notebook_facts(title: str, facts: Mapping[str, object]) -> str:
    """Return HTML for a notebook: a title, and a row for each fact."""
    rows = tuple(TableRow(Cell(name), (Cell(str(value)),)) for name, value in facts.items())
    return Table(title, ("", "value"), rows, words=("", "value")).html()


def notebook_samples(title: str, figures: Mapping[str, Sequence[float]]) -> str:
    """Return HTML for a notebook: figures of each sample, the largest of the last figure first.

    Of more samples than a reader looks at, the first ones of this order are shown.
    """
    name, last = [*figures.items()][-1]
    order = sorted(range(len(last)), key=lambda k: (-last[k], k))
    rows = tuple(
        TableRow(Cell(str(k)), tuple(Cell(f"{figure[k]:.5g}", {"": figure[k]}) for figure in figures.values()))
        for k in order[:MOST_NOTEBOOK_ROWS]
    )
    left = len(last) - len(rows)
    notes = (f"The {len(rows)} samples with the largest {name}; {left} more are not shown.",) if left else ()
    return Table(title, ("sample", *figures), rows, notes=notes).html(titled=bool(title))


def join_csv(tables: Sequence[Table]) -> str:
    """Return all values of some tables as one CSV file."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_HEAD)
    for table in tables:
        writer.writerows(table.csv_lines())
    return stream.getvalue()


FORMATS: Mapping[str, Callable[[Sequence[Table]], str]] = {
    "text": lambda tables: "\n".join(table.text() for table in tables),
    "markdown": lambda tables: "\n".join(table.markdown() for table in tables),
    "latex": lambda tables: LATEX_HEAD + "\n".join(table.latex() for table in tables),
    "csv": join_csv,
}


def _blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """Split columns into blocks that fit side by side; each block begins with the first column."""
    blocks: list[list[int]] = [[0]]
    left = room - widths[0]
    for i, width in enumerate(widths[1:], 1):
        if len(blocks[-1]) > 1 and width + BETWEEN > left:
            blocks.append([0])
            left = room - widths[0]
        blocks[-1].append(i)
        left -= width + BETWEEN
    return blocks


def _html_cell(cell: Cell, head: bool, is_text: bool) -> str:
    """Return a `<td>`, or a `<th>` for the head of a row; numbers have their value, by which they are sorted."""
    from markupsafe import Markup

    text = short_line(cell.text, MOST_HTML_LETTERS) if len(cell.text) > MOST_HTML_LETTERS else cell.text
    shown = Markup('<a href="{}">{}</a>').format(cell.link, text) if cell.link else text
    mark = "" if cell.mark is None else Markup('<b style="left:{}%"></b>').format(cell.mark)
    bar = Markup('<span class="bar" aria-hidden="true"><i style="width:{}%"></i>{}</span>').format(cell.bar, mark)
    tag, scope = Markup("th" if head else "td"), Markup(' scope="row"' if head else "")
    kind = Markup(' class="number{}" data-value="{}"').format(" best" if cell.best else "", _sort_value(cell))
    return Markup("<{}{}{}>{}{}</{}>").format(
        tag, scope, "" if is_text else kind, shown, "" if cell.bar is None else bar, tag
    )


def _sort_value(cell: Cell) -> str:
    """Return the value that the script of the page sorts by; empty for a missing one."""
    value = next(iter(cell.values.values()), math.nan)
    return "" if math.isnan(value) else repr(value) if math.isfinite(value) else "inf"


def _emphasised(cell: Cell, escape: Callable[[str], str], before: str, after: str) -> str:
    """Return the text, for the best of a column with the part up to the sign ± emphasised."""
    mean, sign, rest = cell.text.partition(" ±")
    if not cell.best:
        return escape(cell.text)
    return f"{before}{escape(mean)}{after}" + (f" {escape(f'±{rest}')}" if sign else "")


def _on_one_line(text: str) -> str:
    """Return a text in which line breaks and control characters are spaces."""
    return "".join(" " if unicodedata.category(sign) in ("Cc", "Zl", "Zp") else sign for sign in text)


def _in_markdown(text: str) -> str:
    return " ".join(_on_one_line(text).split()).translate(MARKDOWN_SIGNS)


def _in_latex(text: str) -> str:
    return _on_one_line(text).translate(LATEX_SIGNS)
