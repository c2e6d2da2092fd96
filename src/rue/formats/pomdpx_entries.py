"""The entries of tables in POMDPX, many at a time by numpy: `<Entry><Instance>a0 s1 -</Instance><ProbTable>…`.

What is not plain (a word for a table, another form of tags, anything that is wrong) is left to the slow way, one entry
after the other.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rue._arrays import Array
from rue.formats.text_table import Chunk
from rue.formats.xml_tree import Piece

ALL, EACH = -1, -2  # `*` and `-` in place of a value
MOST_PLACES = 1 << 22  # that entries of one form name together
BLANK = 32


class Values(Sequence[str]):
    """The values of a variable by name; where only their number is known, a letter and 0, 1, 2, …"""

    def __init__(self, names: tuple[str, ...] = (), letter: str = "", count: int = 0) -> None:
        self.letter, self.total = letter, count or len(names)
        self.known = {name: i for i, name in enumerate(names)}
        self.names = names

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, place: int) -> str:  # type: ignore[override]
        if not 0 <= place < self.total:
            raise IndexError(place)
        return self.names[place] if self.names else f"{self.letter}{place}"

    def number(self, word: str) -> int:
        """Return the number of a value, -1 if there is none of that name."""
        if self.names:
            return self.known.get(word, -1)
        digits = word.removeprefix(self.letter)
        if word == digits or not (digits.isascii() and digits.isdecimal()) or len(digits) > 9:
            return -1
        return int(digits) if int(digits) < self.total and str(int(digits)) == digits else -1

    def few(self) -> str:
        """Return some of the names, for messages."""
        return ", ".join(islice(self, 10)) + (f" and {len(self) - 10} more" if len(self) > 10 else "")


class Entries(NamedTuple):
    """Some entries, cut up."""

    place: Array  # [entries, axes] values, or ALL, or EACH
    size: Array  # [entries] how many numbers each has
    number: Array  # all these numbers


def read_piece(path: Path, piece: Piece, data: bytes, axes: Sequence[Values], tag: str) -> Entries | None:
    """Return the entries of a piece of a file; None if some are not plain."""
    raw = np.frombuffer(data, np.uint8)
    tags = [f"<{name}>".encode() for name in ("Entry", "Instance", "/Instance", tag, f"/{tag}", "/Entry")]
    found = np.flatnonzero(raw == ord("<"))
    if found.size % 6 or (found.size and found[-1] + len(tags[-1]) > raw.size):
        return None
    opening: Array = found.reshape(-1, 6)
    step = np.zeros(raw.size + 1, np.int8)
    for column, text in enumerate(tags):
        first = opening[:, column]
        if not all((raw[first + i] == letter).all() for i, letter in enumerate(text)):
            return None
        step[first] += 1
        step[first + len(text)] -= 1
    blanked = np.where(np.cumsum(step[:-1], dtype=np.int8) > 0, np.uint8(BLANK), raw)
    chunk = Chunk(path, piece.line, blanked)
    begin, end, first, last = (np.searchsorted(chunk.start, opening[:, column]) for column in (1, 2, 3, 4))
    is_number = np.zeros(chunk.start.size + 1, np.int8)
    np.add.at(is_number, first, 1)
    np.add.at(is_number, last, -1)
    word = np.flatnonzero(np.cumsum(is_number[:-1]) > 0)
    if (end - begin != len(axes)).any() or word.size + opening.shape[0] * len(axes) != chunk.start.size:
        return None
    number = chunk.plain(word)
    places = [_places(chunk, begin + i, values) for i, values in enumerate(axes)]
    if number is None or any(one is None for one in places):
        return None
    place = np.array(places, np.int64).reshape(len(axes), -1).T
    return Entries(place, last - first, number)


def _places(chunk: Chunk, word: Array, values: Values) -> Array | None:
    """Return the numbers of values that are named by words; None if one is not known."""
    begin, end = chunk.start[word], chunk.end[word]
    letter, single = chunk.data[begin], end - begin == 1
    found = np.where(letter == ord("*"), ALL, EACH)
    given = ~(single & ((letter == ord("*")) | (letter == ord("-"))))
    begin, end, word = begin[given], end[given], word[given]
    if values.names:
        raw = chunk.raw
        texts = [raw[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
        if not all(text.isascii() for text in set(texts)):
            return None
        known = {text: values.number(text.decode()) for text in set(texts)}
        found[given] = [known[text] for text in texts]
        return None if (found[given] < 0).any() else found
    digit = chunk.data[np.minimum(begin + 1, end - 1)]
    if (letter[given] != ord(values.letter)).any() or (end - begin < 2).any():
        return None
    if ((digit == ord("0")) & (end - begin > 2)).any():
        return None
    cut = chunk.with_blanks(begin)
    number = cut.decimals(word)
    if number is None or (number >= len(values)).any():
        return None
    found[given] = number
    return found


def expand(entries: Entries, sizes: Sequence[int]) -> Iterator[tuple[Array, Array]] | None:
    """Return pairs of places and numbers, for entries of one form after the other; None if a table has another size."""
    place, size = entries.place, entries.size
    form = (place == ALL) + 2 * (place == EACH)
    edge = np.flatnonzero((form[1:] != form[:-1]).any(axis=1)) + 1
    runs = list(zip([0, *edge.tolist()], [*edge.tolist(), len(place)], strict=True)) if len(place) else []
    for first, last in runs:
        wide = [axis for axis, kind in zip(sizes, form[first], strict=True) if kind]
        wanted = [axis for axis, kind in zip(sizes, form[first], strict=True) if kind == 2]
        if (size[first:last] != np.prod(wanted, dtype=float)).any():
            return None
        if np.prod(wide, dtype=float) * (last - first) > max(MOST_PLACES, np.prod(wide, dtype=float)):
            return None
    start = np.cumsum(size) - size
    return (_expanded(entries, (first, last), int(start[first]), sizes) for first, last in runs)


def _expanded(entries: Entries, run: tuple[int, int], start: int, sizes: Sequence[int]) -> tuple[Array, Array]:
    first, last = run
    count, axes = last - first, len(sizes)
    key, shape = np.zeros((count,) + (1,) * axes, np.int64), [count]
    for axis, size in enumerate(sizes):
        own = entries.place[first:last, axis]
        if own[0] >= 0:
            values = own.reshape((count,) + (1,) * axes)
        else:
            values = np.arange(size).reshape([1] + [size if i == axis else 1 for i in range(axes)])
        key = key * size + values
        shape.append(size if own[0] == EACH else 1)
    number = entries.number[start : start + int(np.prod(shape))].reshape(shape)
    return key.ravel(), np.broadcast_to(number, key.shape).ravel()
