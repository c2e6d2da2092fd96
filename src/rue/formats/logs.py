"""Logs of what was done and what came of it, from CSV files, as rows for `rue.from_transitions`.

A log has one of two forms. Either each row has all four: state, action, cost, next state. Or rows belong to episodes
and come in the order in which they happened, and the next state of a row is the state of the next row of its episode;
rows of different episodes may alternate. The last row of an episode has its own next state, or is followed by a closing
row with a state and neither action nor cost, or leads to a state that is named for all.
"""

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from rue._check import in_all, one_of, text_path
from rue.errors import BadInput, argument
from rue.formats.csv_text import bounded, cell_number, check_columns, find_header, first_filled, guess_encoding, opened

NEXT_STATE = "next_state"
JOINT = "/"

Row = tuple[str, str, float, str]


@dataclass(frozen=True)
class Log:
    """The rows (state, action, cost, next state) of a CSV file, read anew each time one goes through them.

    Only the header is read when it is made. Rows are not kept, however many there are.
    """

    path: Path
    columns: tuple[str, ...]  # as the header has them
    delimiter: str
    encoding: str
    state: tuple[str, ...]
    action: tuple[str, ...]
    cost: str
    next_state: tuple[str, ...]  # none, if the next row has it
    episode: str | None = None
    end: str | None = None
    unfinished: Literal["refuse", "drop"] = "refuse"

    def __iter__(self) -> Iterator[Row]:
        some = False
        with opened(self.path, self.encoding) as stream:
            lines = csv.reader(bounded(stream), delimiter=self.delimiter, skipinitialspace=True)
            first_filled(lines)
            for row in _complete(self, lines) if self.episode is None else _chained(self, lines):
                some = True
                yield row
        if not some:
            raise BadInput(f"{self.path}: there is a header and no row; expected logged transitions")

    def __repr__(self) -> str:
        return f"Log({str(self.path)!r}, columns: {', '.join(self.columns)})"


def read_log(
    path: str | Path,
    *,
    state: str | Sequence[str] = "state",
    action: str | Sequence[str] = "action",
    cost: str = "cost",
    next_state: str | Sequence[str] = NEXT_STATE,
    episode: str | None = None,
    end: str | None = None,
    unfinished: Literal["refuse", "drop"] = "refuse",
    encoding: str | None = None,
) -> Log:
    """Return the logged transitions of a CSV file with a header, for `from_transitions` and `count_transitions`.

    The other arguments name columns; further columns do not matter. Several columns make up one name, joined by "/":
    `state=("pump", "health")` makes "A/worn". Columns are separated by commas, semicolons, tabs or bars, whichever
    finds the columns in the header. Costs may have a decimal comma where semicolons separate.

    With `episode`, the next state of a row is the state of the next row of the same episode, wherever the row does not
    have its own. The last row of an episode leads to its own next state, to a closing row with neither action nor cost,
    or to `end`; an episode without any of these is refused, or its last row dropped (`unfinished="drop"`). A text that
    is not UTF-8, or UTF-16 with its mark, needs an `encoding`.
    """
    source = text_path(path)
    one_of("way with unfinished episodes", unfinished, ("refuse", "drop"))
    groups = {"state": state, "action": action, "next_state": next_state}
    wanted = {name: _column_names(name, given) for name, given in groups.items()}
    others = [cost] if episode is None else [cost, episode]
    for name, text in (("cost", cost), ("episode", episode), ("end", end), ("encoding", encoding)):
        if not isinstance(text, str) and (text is not None or name == "cost"):
            raise BadInput(f"{name} is {text!r}; expected text")
    used = encoding or guess_encoding(source)
    delimiter, columns = find_header(source, used, [*chain(*wanted.values()), *others])
    if episode is not None and wanted["next_state"] == (NEXT_STATE,) and NEXT_STATE not in columns:
        wanted["next_state"] = ()
    way = argument("episode= if the next row has it")
    check_columns(source, columns, [*chain(*wanted.values()), *others], {NEXT_STATE: f"; expected it, or {way}"})
    return Log(source, columns, delimiter, used, cost=cost, episode=episode, end=end, unfinished=unfinished, **wanted)


def _column_names(what: str, names: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise BadInput(f"{what} is {names!r}; expected the name of a column, or a list of names")
    return tuple(names)


class _Unusable(Exception):
    """A line that cannot be used; the message says why."""


class _Names(dict[Any, str]):
    """The name of a cell, or of several: stripped and joined; "" if one is missing. Each name is made once."""

    def __missing__(self, cells: str | tuple[str, ...]) -> str:
        if isinstance(cells, str):
            name = cells.strip()
        else:
            parts = [cell.strip() for cell in cells]
            while parts and not parts[-1]:  # a state such as "done" may need fewer columns than others
                parts.pop()
            # Escaped, so that different cells never make the same name.
            name = JOINT.join(part.replace("\\", "\\\\").replace(JOINT, "\\" + JOINT) for part in parts)
            name = name if all(parts) else ""
        self[cells] = name
        return name


class _Reader:
    """Take states, actions and costs from the cells of a line."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.names = _Names()
        self.state, self.action, self.next_state = map(self._taker, (log.state, log.action, log.next_state))
        self.cost_place = log.columns.index(log.cost)

    def _taker(self, columns: tuple[str, ...]) -> Callable[[list[str]], str]:
        """Return a function from the cells of a line to the name in some columns, which is "" if it is missing."""
        if not columns:
            return lambda cells: ""
        names, pick = self.names, itemgetter(*map(self.log.columns.index, columns))
        return lambda cells: names[pick(cells)]

    def cost(self, cells: list[str]) -> float:
        """Return the cost as a number."""
        text = cells[self.cost_place]
        value = cell_number(text, self.log.delimiter)
        if not math.isfinite(value):
            raise _Unusable(f"{self.log.cost} is {repr(text) if text.strip() else 'empty'}; expected a number")
        return value


def _missing(columns: Sequence[str]) -> str:
    raise _Unusable(f"the cell of {', '.join(columns)} is empty; expected a name")


def _usable(log: Log, lines: Any) -> Iterator[list[str]]:
    """Return the cells of each line that is not blank, as many as the header has."""
    width = len(log.columns)
    for cells in lines:
        if len(cells) == width:
            yield cells
        elif any(cells):
            if len(cells) < width or any(cells[width:]):
                raise _Unusable(f"there are {len(cells)} cells; expected {width} as in the header, commas in quotes")
            yield cells[:width]


def _with_place(log: Log, lines: Any, rows: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """Return the rows; at the first unusable line, raise its number, the reason and how many there are."""
    try:
        yield from rows()
    except _Unusable as problem:
        line, more = lines.line_num, 0
        while True:
            try:
                for _ in rows():
                    pass
                break
            except _Unusable:
                more += 1
        raise BadInput(f"{log.path}, line {line}: {problem}; {in_all(more + 1, 'line', 'so')}") from None


def _complete(log: Log, lines: Any) -> Iterator[Row]:
    """Return rows that have all four."""
    reader = _Reader(log)

    def rows() -> Iterator[Row]:
        for cells in _usable(log, lines):
            yield (
                reader.state(cells) or _missing(log.state),
                reader.action(cells) or _missing(log.action),
                reader.cost(cells),
                reader.next_state(cells) or _missing(log.next_state),
            )

    return _with_place(log, lines, rows)


def _chained(log: Log, lines: Any) -> Iterator[Row]:
    """Return rows of episodes, each completed by the next one of its episode; at most one per episode waits."""
    assert log.episode is not None
    reader = _Reader(log)
    episode_place = log.columns.index(log.episode)
    waiting: dict[str, tuple[str, str, float, int]] = {}

    def rows() -> Iterator[Row]:
        for cells in _usable(log, lines):
            episode = cells[episode_place].strip() or _missing((str(log.episode),))
            state, action = reader.state(cells) or _missing(log.state), reader.action(cells)
            closing = not action and not cells[reader.cost_place].strip()
            done = None if closing else (action or _missing(log.action), reader.cost(cells))
            before = waiting.pop(episode, None)
            if before is not None:
                yield (*before[:3], state)
            following = reader.next_state(cells)
            if done and following:
                yield (state, *done, following)
            elif done:
                waiting[episode] = (state, *done, lines.line_num)

    yield from _with_place(log, lines, rows)
    if waiting and log.end is None and log.unfinished == "refuse":
        episode, (_, _, _, line) = next(iter(waiting.items()))
        ways = argument('end=, or unfinished="drop"')
        raise BadInput(
            f"{log.path}, line {line}: episode {episode!r} ends without a next state; expected one, a closing row with "
            f"neither action nor cost, {ways}; {in_all(len(waiting), 'episode', 'so')}"
        )
    for state, action, price, _ in waiting.values():
        if log.end is not None:
            yield state, action, price, log.end
