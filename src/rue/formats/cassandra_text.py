"""Cassandra's `.pomdp` files as statements: a preamble, then tables for transitions, observations and rewards.

    discount: 0.95          values: reward | cost
    states: 4 | names       actions: …         observations: …        start: …
    T: action : state : next state   probability       (also a row, or a matrix, of them)
    O: action : next state : observation   probability
    R: action : state : next state : observation   number

`*` stands for all values, `uniform` and `identity` for tables, `#` begins a comment, numbers may go on over lines. A
later statement replaces what earlier ones say. A file without observations is an MDP, and its rewards lack that part.

Most lines of large files are whole statements with one number, or rows of numbers. Both are found by numpy and kept
together; all other lines are cut into words one by one.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from rue._arrays import Array
from rue._text import short_line
from rue.errors import BadFile
from rue.formats.text_table import Chunk, parse_number, plain_numbers, read_chunks

OURS = b"# rue: "
LISTS = ("states", "actions", "observations")
KEYWORDS = ("discount", "values", *LISTS, "start", "T", "O", "R")
START_LISTS = ("include", "exclude")
TABLES = b"TOR"
# Blanks, as in `text_table`; colons become words of their own later.
BLANKS = bytes.maketrans(bytes(range(32)), b" " * 10 + b"\n" + b" " * 21)
COLON, COMMENT = ord(":"), ord("#")
BLANK_LINE, WORDS, NUMBERS, WHOLE = range(4)  # kinds of lines
IS_NUMERIC = np.zeros(256, bool)  # the bytes of lines that are rows of numbers
IS_NUMERIC[:33] = True
IS_NUMERIC[list(b"0123456789+-.eE")] = True


@dataclass
class Statement:
    """What stands between one keyword and the next one."""

    path: Path
    line: int
    keyword: str
    words: list[str]
    lines: list[int]  # of each word
    rows: list[tuple[int, bytes]] = field(default_factory=list)  # numbers behind these words: lines, not yet cut up

    def fail(self, what: str, place: int | None = None) -> NoReturn:
        """Raise an error that names the file and the line, of a word if its place is given."""
        line = self.line if place is None or place >= len(self.lines) else self.lines[place]
        raise BadFile(f"{self.path}, line {line}: {what}")

    def add(self, words: Sequence[str], line: int) -> None:
        """Add words of a line at the end."""
        self.settle()
        self.words += words
        self.lines += [line] * len(words)

    def settle(self) -> None:
        """Cut up the rows of numbers into words."""
        rows, self.rows = self.rows, []
        for first, text in rows:
            for line, row in enumerate(text.split(b"\n"), first):
                self.add(_words(row), line)

    def number(self, place: int, what: str) -> float:
        """Return the word at a place as a number."""
        try:
            found = parse_number(self.words[place])
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            self.fail(f"{what} is {short_line(self.words[place])!r}; expected a finite number", place)
        return found

    def only(self, place: int, what: str) -> float:
        """Return the word at a place as a number, if it is the last one."""
        if len(self.words) == place + 1 and not self.rows:
            return self.number(place, what)
        return float(self.numbers(place, [1], what)[0])

    def numbers(self, first: int, wanted: Sequence[int], what: str) -> Array:
        """Return the words from a place on as numbers, in a shape."""
        size = math.prod(wanted)
        if self.rows and first == len(self.words):
            found = np.concatenate([plain_numbers(text) for _, text in self.rows])
            if found.size == size and np.isfinite(found).all():
                return found.reshape(wanted)
        self.settle()
        if len(self.words) - first != size:
            self.fail(f"{self.keyword} has {len(self.words) - first} numbers; expected {size}: {what}", first)
        return np.array([self.number(place, what) for place in range(first, len(self.words))]).reshape(wanted)


class Run(NamedTuple):
    """Lines one after the other, each of which is a whole statement with one number."""

    chunk: Chunk  # with blanks for colons and comments
    colon: Array  # [lines] the colons in each of these lines
    lines: Array  # their places in the chunk

    def statements(self) -> Iterator[Statement]:
        """Yield the statements one by one."""
        for line, colons in zip(self.lines.tolist(), self.colon.tolist(), strict=True):
            keyword, *words = self.chunk.line_text(line).split()
            number = self.chunk.first + line
            parts = [part for word in words[:colons] for part in (":", word)] + words[colons:]
            yield Statement(self.chunk.path, number, keyword, parts, [number] * len(parts))


def read_statements(path: Path) -> Iterator[Statement | Run]:
    """Yield the statements of a file, those that are lines with one number in runs."""
    current: Statement | None = None
    for chunk in read_chunks(path):
        clean, blanked, colons = _clean(chunk)
        kind = _kinds(clean, blanked, colons)
        for lines in _runs(kind):
            if kind[lines[0]] == WHOLE:
                if current is not None:
                    yield current
                    current = None
                yield Run(blanked, colons[lines], lines)
            elif kind[lines[0]] == NUMBERS and _takes_rows(current):
                assert current is not None
                current.rows.append((chunk.first + int(lines[0]), _text(clean, lines)))
            else:
                for line in lines.tolist():
                    words = _words(_text(clean, np.array([line])))
                    ended, current = _take(chunk, chunk.first + line, words, current)
                    yield from ended
    if current is not None:
        yield current


def _take(
    chunk: Chunk, line: int, words: Sequence[str], current: Statement | None
) -> tuple[list[Statement], Statement | None]:
    """Return the statements that end in a line, and the one that it leaves open."""
    first, ended = 0, []
    for i, word in enumerate(words):
        if word not in KEYWORDS or (i > 0 and words[i - 1] == ":") or not _is_begun(words, i):
            continue
        if current is not None:
            current.add(words[first:i], line)
            ended.append(current)
        elif i > first:
            break
        current = Statement(chunk.path, line, word, [], [])
        first = i + 1
    if current is None:
        raise BadFile(f"{chunk.path}, line {line}: {short_line(' '.join(words))!r}; expected discount: or states:")
    current.add(words[first:], line)
    return ended, current


def _is_begun(words: Sequence[str], place: int) -> bool:
    """Return whether a statement begins with the keyword at a place: a colon follows it."""
    after = words[place + 1 : place + 3]
    listed = words[place] == "start" and len(after) == 2 and after[0] in START_LISTS
    return after[1 if listed else 0 :][:1] == [":"]


def _takes_rows(current: Statement | None) -> bool:
    """Return whether numbers that follow a statement are its figures, and no part of its address."""
    if current is None or current.keyword not in ("T", "O", "R", "start"):
        return False
    return current.keyword == "start" or current.words[-1:] != [":"]


def _clean(chunk: Chunk) -> tuple[Chunk, Chunk, Array]:
    """Return the lines without comments, the same without colons, and the number of colons in each."""
    data = chunk.data
    comment = np.flatnonzero(data == COMMENT)
    if comment.size:
        end = np.append(chunk.newline, data.size)[np.searchsorted(chunk.newline, comment)]
        step = np.zeros(data.size + 1, np.int64)
        np.add.at(step, comment, 1)
        np.add.at(step, end, -1)
        chunk = chunk.with_blanks(np.cumsum(step[:-1]) > 0)
    colon = np.flatnonzero(chunk.data == COLON)
    count = np.bincount(np.searchsorted(chunk.newline, colon), minlength=chunk.lines)
    return chunk, chunk.with_blanks(colon), count


def _kinds(clean: Chunk, blanked: Chunk, colons: Array) -> Array:  # [lines]
    """Return the kind of each line."""
    count = np.diff(blanked.word_ptr)
    kind = np.where((count > 0) | (colons > 0), WORDS, BLANK_LINE)
    other = np.searchsorted(clean.newline, np.flatnonzero(~IS_NUMERIC[clean.data]))
    numeric = count > 0
    numeric[other] = False
    kind[numeric] = NUMBERS
    lines = np.flatnonzero((count == colons + 2) & ((colons == 3) | (colons == 4)))
    kind[lines[_are_whole(clean, blanked, lines, colons)]] = WHOLE
    filled = np.flatnonzero(kind != BLANK_LINE)
    followed = np.zeros(filled.size, bool)  # by a line that begins a statement
    followed[:-1] = kind[filled[1:]] == WHOLE
    for i in np.flatnonzero((kind[filled[:-1]] == WHOLE) & (kind[filled[1:]] == WORDS)).tolist():
        words = _words(_text(clean, filled[i + 1 : i + 2]))
        followed[i] = words[0] in KEYWORDS and _is_begun(words, 0)
    kind[filled[(kind[filled] == WHOLE) & ~followed]] = WORDS
    return kind


def _are_whole(clean: Chunk, blanked: Chunk, lines: Array, colons: Array) -> Array:
    """Return which lines have a table's letter first, and a colon behind each word but the last two."""
    word = blanked.word_ptr[lines]
    begin, end = blanked.start, blanked.end
    letter = clean.data[begin[word]] if lines.size else np.empty(0, np.uint8)
    good = (end[word] - begin[word] == 1) & np.isin(letter, list(TABLES))
    good &= (letter == ord("R")) | (colons[lines] == 3)
    place = np.flatnonzero(clean.data == COLON)
    first = np.searchsorted(place, begin[word])
    for i in range(4):
        has = np.flatnonzero(i < colons[lines])
        at = place[first[has] + i]
        good[has] &= (end[word[has] + i] <= at) & (at < begin[word[has] + i + 1])
    return np.asarray(good)


def _runs(kind: Array) -> Iterator[Array]:
    """Yield the lines of each run of one kind, without blank ones."""
    filled = np.flatnonzero(kind != BLANK_LINE)
    edge = np.flatnonzero(np.diff(kind[filled])) + 1
    yield from (part for part in np.split(filled, edge) if part.size)


def _text(chunk: Chunk, lines: Array) -> bytes:
    """Return the text from the first to the last of some lines, without the end of the last one."""
    first, last = int(lines[0]), int(lines[-1])
    begin = 0 if first == 0 else int(chunk.newline[first - 1]) + 1
    end = int(chunk.newline[last]) if last < chunk.newline.size else chunk.data.size
    return chunk.raw[begin:end]


def _words(text: bytes) -> list[str]:
    """Return the words of a line; colons are words."""
    return text.translate(BLANKS).decode("utf-8", "replace").replace(":", " : ").split()
