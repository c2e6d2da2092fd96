"""Text files as tables of words and numbers, without a Python loop over lines: chunks of bytes, cut up by numpy.

A chunk has whole lines. Its words are what lies between blanks; every byte up to 32 is a blank, also a stray NUL, a
Ctrl-Z or the carriage return of Windows. Where a word is not what was expected, the message has the file and the line.
"""

import codecs
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import NoReturn

import numpy as np

from rue._arrays import Array
from rue._text import short_line
from rue.errors import BadFile

CHUNK = 1 << 20  # bytes; what is worked out about a chunk takes some twenty times as much
LONGEST = 1 << 26  # bytes of a line
BLANK, NEWLINE = 32, 10
LARGEST_WHOLE, LARGEST_INT32 = 2**53, 2**31 - 1
MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Growing:
    """An array that grows at its end. Large blocks are moved by the system without a copy.

    Whole numbers of 32 bits become ones of 64 where one does not fit.
    """

    def __init__(self, dtype: type) -> None:
        self._whole: Array = np.empty(0, dtype)
        self._size = 0

    def append(self, values: Array) -> None:
        """Add values at the end."""
        size = self._size + values.size
        if size > self._whole.size:
            self._whole.resize(max(size, self._whole.size + self._whole.size // 4), refcheck=False)
        if self._whole.dtype == np.int32 and values.dtype == np.int64 and values.max(initial=0) > LARGEST_INT32:
            self._whole = self._whole.astype(np.int64)
        self._whole[self._size : size] = values
        self._size = size

    @property
    def size(self) -> int:
        """How many values there are."""
        return self._size

    @property
    def largest(self) -> int:
        """The largest value, -1 if there is none."""
        return int(self._whole[: self._size].max(initial=-1))

    def take(self) -> Array:
        """Return the values; the array is no longer here."""
        whole, self._whole = self._whole, np.empty(0, self._whole.dtype)
        whole.resize(self._size, refcheck=False)
        return whole


@dataclass(frozen=True, eq=False)
class Chunk:
    """Whole lines of a text file, and where their words are."""

    path: Path
    first: int  # the number of the first line, from 1
    data: Array  # [bytes]

    @cached_property
    def edges(self) -> Array:
        """Where words begin and end, in turn."""
        blank = np.concatenate(([True], self.data <= BLANK, [True]))
        return np.flatnonzero(blank[1:] != blank[:-1])

    @property
    def start(self) -> Array:  # [words]
        """Where each word begins."""
        return self.edges[::2]

    @property
    def end(self) -> Array:  # [words]
        """Where each word ends."""
        return self.edges[1::2]

    @cached_property
    def newline(self) -> Array:  # [lines] where each line ends; the last one may have no end
        """Where the lines end."""
        return np.flatnonzero(self.data == NEWLINE)

    @cached_property
    def line(self) -> Array:  # [words]
        """The line of each word, counted from 0 within the chunk."""
        return np.searchsorted(self.newline, self.start)

    @property
    def lines(self) -> int:
        """How many lines there are."""
        return self.newline.size + int(self.data.size > 0 and self.data[-1] != NEWLINE)

    @cached_property
    def word_ptr(self) -> Array:  # [lines+1]
        """Where the words of each line begin."""
        return np.searchsorted(self.line, np.arange(self.lines + 1))

    @cached_property
    def raw(self) -> bytes:
        """The bytes themselves."""
        return self.data.tobytes()

    def with_blanks(self, where: Array) -> "Chunk":
        """Return the same lines with blanks at some bytes, which then separate words."""
        data = self.data.copy()
        data[where] = BLANK
        return replace(self, data=data)

    def word(self, index: int) -> str:
        """Return a word as text."""
        return self.raw[self.start[index] : self.end[index]].decode("utf-8", "replace")

    def words(self, index: Array) -> list[str]:
        """Return some words as texts; words that are the same are the same object."""
        known: dict[bytes, str] = {}
        found = []
        for first, last in zip(self.start[index].tolist(), self.end[index].tolist(), strict=True):
            raw = self.raw[first:last]
            if raw not in known:
                known[raw] = raw.decode("utf-8", "replace")
            found.append(known[raw])
        return found

    def line_text(self, line: int) -> str:
        """Return a line as text."""
        first = 0 if line == 0 else int(self.newline[line - 1]) + 1
        last = int(self.newline[line]) if line < self.newline.size else self.data.size
        return self.raw[first:last].decode("utf-8", "replace").strip()

    def fail(self, line: int, what: str) -> NoReturn:
        """Raise an error that names the file and the line."""
        raise BadFile(f"{self.path}, line {self.first + line}: {what}")

    def numbers(self, index: Array, what: str, named: Mapping[str, float] | None = None) -> Array:
        """Return some words as finite numbers; they may be fractions, or names of numbers."""
        values = plain_numbers(self._only(index).tobytes())
        if values.size != index.size:
            values = np.array([self._number(int(i), what, named or {}) for i in index], float)
        odd = np.flatnonzero(~np.isfinite(values))
        if odd.size:
            i = int(index[odd[0]])
            self.fail(int(self.line[i]), f"{what} is {short_line(self.word(i))!r}; expected a finite number")
        return values

    def plain(self, index: Array) -> Array | None:
        """Return some words as numbers, if they are plain and finite ones."""
        values = plain_numbers(self._only(index).tobytes())
        return values if values.size == index.size and np.isfinite(values).all() else None

    def decimals(self, index: Array) -> Array | None:
        """Return some words as whole numbers, if they have nothing but digits, and not too many."""
        if index.size == 0:
            return np.empty(0, np.int64)
        kept = self._only(index)
        if not (((kept >= ord("0")) & (kept <= ord("9"))) | (kept == BLANK)).all():
            return None
        values = plain_numbers(kept.tobytes())
        return values.astype(np.int64) if values.max() < LARGEST_WHOLE else None

    def _only(self, index: Array) -> Array:
        """Return the bytes of some words, and blanks for all others."""
        step = np.zeros(self.data.size + 1, np.int8)
        step[self.start[index]] = 1
        step[self.end[index]] -= 1
        return np.where(np.cumsum(step[:-1], dtype=np.int8) > 0, self.data, np.uint8(BLANK))

    def whole(self, index: Array, what: str, most: int = LARGEST_WHOLE) -> Array:
        """Return some words as whole numbers from 0 to `most`."""
        values = self.numbers(index, what)
        odd = np.flatnonzero((values != np.floor(values)) | (values < 0) | (values > most))
        if odd.size:
            i = int(index[odd[0]])
            wanted = f"0 to {most}" if most < LARGEST_WHOLE else "0 or more"
            self.fail(int(self.line[i]), f"{what} is {short_line(self.word(i))!r}; expected a whole number, {wanted}")
        return values.astype(np.int64)

    def _number(self, index: int, what: str, named: Mapping[str, float]) -> float:
        word = self.word(index)
        if word in named:
            return named[word]
        try:
            return parse_number(word)
        except ValueError:
            self.fail(int(self.line[index]), f"{what} is {short_line(word)!r}; expected a number")


def parse_number(word: str) -> float:
    """Return a number or a fraction such as 1/3; raise `ValueError` for all else."""
    if "_" in word:  # Python reads 1_000, but no file means that
        raise ValueError(word)
    try:
        return float(Fraction(word)) if "/" in word else float(word)
    except (OverflowError, ZeroDivisionError):
        raise ValueError(word) from None


def plain_numbers(text: bytes) -> Array:
    """Return the numbers in a text; none if it has anything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # from a numpy that stops at the first other word
        try:
            return np.fromstring(text, sep=" ")
        except (DeprecationWarning, ValueError):
            return np.empty(0)


def read_chunks(path: Path, size: int | None = None) -> Iterator[Chunk]:
    """Yield the lines of a file in chunks, without a byte order mark at its beginning."""
    first, rest = 1, b""
    size = CHUNK if size is None else size
    try:
        with path.open("rb") as stream:
            mark = stream.read(3)
            if mark[:2] in MARKS:
                raise BadFile(f"{path}, line 1: text in UTF-16; expected UTF-8")
            rest = b"" if mark == codecs.BOM_UTF8 else mark
            while block := stream.read(size):
                block = rest + block
                cut = block.rfind(b"\n") + 1
                if cut == 0 and len(block) > LONGEST:
                    raise BadFile(f"{path}, line {first}: a line has more than {LONGEST} bytes; expected lines of text")
                whole, rest = block[:cut], block[cut:]
                if whole:
                    yield Chunk(path, first, np.frombuffer(whole, np.uint8))
                    first += whole.count(b"\n")
    except OSError as error:
        raise BadFile(f"{path}: cannot be read ({error.strerror or error})") from None
    if rest:
        yield Chunk(path, first, np.frombuffer(rest, np.uint8))
