"""Read CSV files as people have them: in any encoding with a mark, with one of four delimiters, and a header."""

import codecs
import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO

from rue.errors import BadFile, BadInput, argument, unknown_name

DELIMITERS = (",", ";", "\t", "|")
# In characters. A file without line breaks would be read into memory as one line.
LONGEST_LINE = 1_000_000


@contextmanager
def opened(path: Path, encoding: str) -> Iterator[IO[str]]:
    """Open the file as text; raise one line for whatever goes wrong while it is read."""
    try:
        with path.open(newline="", encoding=encoding) as stream:
            yield stream
    except FileNotFoundError as error:
        raise BadInput(f"{path}: there is no such file ({error.strerror})") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None
    except UnicodeError:
        other = argument('another encoding= such as "cp1252"')
        raise BadFile(f"{path}: not text in {encoding}; expected that, or {other}") from None
    except LookupError:
        raise BadInput(f'{path}: unknown encoding {encoding!r}; expected one such as "utf-8" or "cp1252"') from None
    except csv.Error as error:
        raise BadFile(f"{path}: no table of text ({error}); expected a CSV file") from None


def bounded(stream: IO[str]) -> Iterator[str]:
    """Return the lines of a file, and refuse a line that is too long for a table."""
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise csv.Error(f"a line has more than {LONGEST_LINE} characters")
        yield line


def guess_encoding(path: Path) -> str:
    """Return UTF-16 if the file begins with its mark, else UTF-8."""
    with opened(path, "latin-1") as stream:
        mark = stream.read(2).encode("latin-1")
    return "utf-16" if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


def find_header(path: Path, encoding: str, wanted: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the delimiter that finds most of the wanted columns, then most columns at all, and the columns."""
    found: dict[str, tuple[str, ...]] = {}
    for delimiter in DELIMITERS:
        with opened(path, encoding) as stream:
            cells = first_filled(csv.reader(bounded(stream), delimiter=delimiter, skipinitialspace=True))
        found[delimiter] = tuple(cell.strip() for cell in cells)
    best = max(DELIMITERS, key=lambda delimiter: (len({*wanted} & {*found[delimiter]}), len(found[delimiter])))
    if not found[best]:
        raise BadInput(f"{path}: the file is empty; expected a header with {', '.join(wanted)}")
    return best, found[best]


def first_filled(lines: Iterator[list[str]]) -> list[str]:
    """Return the first line that is not blank: the header."""
    return next((cells for cells in lines if any(cell.strip() for cell in cells)), [])


def check_columns(
    path: Path, columns: Sequence[str], wanted: Sequence[str], hints: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Refuse a header without the wanted columns; a hint may follow what is said about a column."""
    if "" in wanted:
        raise BadInput(f"{path}: the columns are {', '.join(map(repr, wanted))}; expected names from the header")
    if not {*wanted} & {*columns} and any(math.isfinite(cell_number(name)) for name in columns):
        raise BadInput(
            f"{path}: the first line looks like data ({', '.join(columns)}); expected a header with {', '.join(wanted)}"
        )
    for name in wanted:
        if name not in columns:
            raise BadInput(f"{path}: {unknown_name('column', name, columns)}{hints.get(name, '')}")
        if columns.count(name) > 1:
            raise BadInput(f"{path}: column {name!r} is there {columns.count(name)} times; expected it once")


def cell_number(text: str, delimiter: str = ",") -> float:
    """Return the number in a cell, NaN if there is none; it may have a decimal comma where semicolons separate."""
    if delimiter == ";" and text.count(",") == 1 and "." not in text:
        text = text.replace(",", ".")
    try:
        return math.nan if "_" in text else float(text)  # Python reads 1_000, but no table means that
    except ValueError:
        return math.nan
