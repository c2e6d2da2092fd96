"""Cassandra's `.pomdp` files as statements: a preamble, then tables for transitions, observations and rewards.

    discount: 0.95          values: reward | cost
    states: 4 | names       actions: …         observations: …        start: …
    T: action : state : next state   probability       (also a row, or a matrix, of them)
    O: action : next state : observation   probability
    R: action : state : next state : observation   number

`*` stands for all values, `uniform` and `identity` for tables, `#` begins a comment, numbers may go on over lines. A
later statement replaces what earlier ones say. A file without observations is an MDP, and its rewards lack that part.
"""

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np

from rue._arrays import Array
from rue._check import check_memory
from rue._text import short_line
from rue.errors import BadFile
from rue.formats.text_table import parse_number, read_chunks

OURS = b"# rue: "
LISTS = ("states", "actions", "observations")
KEYWORDS = ("discount", "values", *LISTS, "start", "T", "O", "R")
START_LISTS = ("include", "exclude")
MOST_VALUES = 10**8
# Blanks, as in `text_table`; colons become words of their own later.
BLANKS = bytes.maketrans(bytes(range(32)), b" " * 10 + b"\n" + b" " * 21)


@dataclass
class Statement:
    """What stands between one keyword and the next one."""

    path: Path
    line: int
    keyword: str
    words: list[str]
    lines: list[int]  # of each word

    def fail(self, what: str, place: int | None = None) -> NoReturn:
        """Raise an error that names the file and the line, of a word if its place is given."""
        line = self.line if place is None or place >= len(self.lines) else self.lines[place]
        raise BadFile(f"{self.path}, line {line}: {what}")

    def number(self, place: int, what: str) -> float:
        """Return the word at a place as a number."""
        try:
            found = parse_number(self.words[place])
        except (ValueError, ZeroDivisionError, OverflowError):
            found = math.nan
        if not math.isfinite(found):
            self.fail(f"{what} is {short_line(self.words[place])!r}; expected a finite number", place)
        return found

    def only(self, place: int, what: str) -> float:
        """Return the word at a place as a number, if it is the last one."""
        return self.number(place, what) if len(self.words) == place + 1 else float(self.numbers(place, [1], what)[0])

    def numbers(self, first: int, wanted: Sequence[int], what: str) -> Array:
        """Return the words from a place on as numbers, in a shape."""
        size = int(np.prod(wanted))
        if len(self.words) - first != size:
            self.fail(f"{self.keyword} has {len(self.words) - first} numbers; expected {size}: {what}", first)
        return np.array([self.number(place, what) for place in range(first, len(self.words))]).reshape(wanted)


def _is_number(word: str) -> bool:
    try:
        parse_number(word)
    except (ValueError, ZeroDivisionError, OverflowError):
        return False
    return True


def read_statements(path: Path) -> Iterator[Statement]:
    """Yield the statements of a file."""
    current: Statement | None = None
    for line, words in _lines(path):
        first = 0
        for i, word in enumerate(words):
            if word not in KEYWORDS or (i > 0 and words[i - 1] == ":") or not _is_begun(words, i):
                continue
            if current is not None:
                current.words += words[first:i]
                current.lines += [line] * (i - first)
                yield current
            elif i > first:
                break
            current = Statement(path, line, word, [], [])
            first = i + 1
        if current is None:
            raise BadFile(f"{path}, line {line}: {short_line(' '.join(words))!r}; expected discount: or states:")
        current.words += words[first:]
        current.lines += [line] * (len(words) - first)
    if current is not None:
        yield current


def _is_begun(words: Sequence[str], place: int) -> bool:
    """Return whether a statement begins with the keyword at a place: a colon follows it."""
    after = words[place + 1 : place + 3]
    listed = words[place] == "start" and len(after) == 2 and after[0] in START_LISTS
    return after[1 if listed else 0 :][:1] == [":"]


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the words of each line that has some; colons are words."""
    for chunk in read_chunks(path):
        text = chunk.raw.translate(BLANKS).decode("utf-8", "replace")
        for number, line in enumerate(text.split("\n"), chunk.first):
            words = line.partition("#")[0].replace(":", " : ").split()
            if words:
                yield number, words


@dataclass
class Entries:
    """Numbers at places of a table, in the order of the file."""

    key: list[Array] = field(default_factory=list)
    value: list[Array] = field(default_factory=list)
    line: list[Array] = field(default_factory=list)
    _keys: "array[int]" = field(default_factory=lambda: array("q"))
    _values: "array[float]" = field(default_factory=lambda: array("d"))
    _lines: "array[int]" = field(default_factory=lambda: array("q"))

    def add_one(self, key: int, value: float, line: int) -> None:
        """Add one number."""
        self._keys.append(key)
        self._values.append(value)
        self._lines.append(line)

    def add(self, key: Array, value: Array, line: int) -> None:
        """Add numbers at several places."""
        self._flush()
        self.key.append(key.ravel())
        self.value.append(np.broadcast_to(value, key.shape).ravel())
        self.line.append(np.full(key.size, line))

    def _flush(self) -> None:
        if self._keys:
            self.key.append(np.array(self._keys, np.int64))
            self.value.append(np.array(self._values))
            self.line.append(np.array(self._lines, np.int64))
            self._keys, self._values, self._lines = array("q"), array("d"), array("q")

    def last(self) -> tuple[Array, Array, Array]:
        """Return the keys in order with their last values, without zeros, and the lines of these."""
        self._flush()
        if not self.key:
            return np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64)
        key, value, line = (np.concatenate(part) for part in (self.key, self.value, self.line))
        order = np.argsort(key, kind="stable")
        last = np.append(np.diff(key[order]) != 0, True)
        kept = order[last][value[order[last]] != 0]
        return key[kept], value[kept], line[kept]


@dataclass
class Tables:
    """A file, before it is a model."""

    path: Path
    discount: float = -1.0
    reward: bool = True
    size: dict[str, int] = field(default_factory=dict)  # of states, actions and observations
    names: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    start: Array | None = None  # [X]
    transition: Entries = field(default_factory=Entries)
    observation: Entries = field(default_factory=Entries)
    # Rules for rewards: an action, a state, the next one and an observation, -1 for all, and the number.
    rules: "array[float]" = field(default_factory=lambda: array("d"))
    numbers: dict[str, Mapping[str, int]] = field(default_factory=dict)  # by name

    @property
    def is_mdp(self) -> bool:
        """Whether there are no observations: then the state is observed."""
        return "observations" not in self.size

    def name(self, kind: str, number: int) -> str:
        """Return what a state, an action or an observation is called."""
        names = self.names[kind]
        return str(number) if names is None else names[number]

    def read(self) -> "Tables":
        """Read the file."""
        ways = {"discount": self._discount, "values": self._values, "start": self._start, "R": self._rewards}
        for one in read_statements(self.path):
            if one.keyword in ("start", "T", "O", "R"):
                self._check_preamble(one)
            if one.keyword in LISTS:
                self._list(one)
            elif one.keyword in ("T", "O"):
                self._probabilities(one)
            else:
                ways[one.keyword](one)
        self._check_preamble(None)
        return self

    def _check_preamble(self, one: Statement | None) -> None:
        missing = next((kind for kind in LISTS[:2] if kind not in self.size), None)
        missing = missing or ("discount" if self.discount < 0 else None)
        if missing is not None:
            place = "" if one is None else f", line {one.line}"
            raise BadFile(
                f"{self.path}{place}: there is no {missing}: before it; expected a POMDP by Cassandra's rules"
            )

    @staticmethod
    def _after_colon(one: Statement) -> list[str]:
        return one.words[1:]  # the colon is the first word

    def _discount(self, one: Statement) -> None:
        words = self._after_colon(one)
        if len(words) != 1 or not _is_number(words[0]) or not 0 < parse_number(words[0]) <= 1:
            one.fail(f"the discount is {short_line(' '.join(words))!r}; expected a number from 0 to 1")
        self.discount = parse_number(words[0])

    def _values(self, one: Statement) -> None:
        words = self._after_colon(one)
        if words not in (["reward"], ["cost"]):
            one.fail(f"values is {short_line(' '.join(words))!r}; expected reward or cost")
        self.reward = words == ["reward"]

    def _list(self, one: Statement) -> None:
        kind, words = one.keyword, self._after_colon(one)
        if kind in self.size:
            one.fail(f"{kind} is there twice; expected it once")
        if len(words) == 1 and words[0].isascii() and words[0].isdecimal():
            if not 0 < int(words[0][:20]) < MOST_VALUES:
                one.fail(f"{kind} is {short_line(words[0])!r}; expected how many there are")
            self.size[kind], self.names[kind], self.numbers[kind] = int(words[0]), None, {}
            return
        self.numbers[kind] = {word: number for number, word in enumerate(words)}
        if not words or len(self.numbers[kind]) != len(words) or "*" in words:
            twice = next((word for i, word in enumerate(words) if word in words[:i]), "*" if words else "")
            one.fail(f"{kind} has {short_line(twice)!r} twice or as a name; expected different names, or how many")
        self.size[kind], self.names[kind] = len(words), tuple(words)

    def _start(self, one: Statement) -> None:
        states = self.size["states"]
        if one.words[0] in START_LISTS:
            listed = np.zeros(states, bool)
            for place in range(2, len(one.words)):
                number = self._index(one, place, "states")
                listed[slice(None) if number < 0 else number] = True
            chosen = listed if one.words[0] == "include" else ~listed
            if not chosen.any():
                one.fail("no state is left to start in; expected one at least")
            self.start = chosen / chosen.sum()
            return
        words = self._after_colon(one)
        if words == ["uniform"]:
            self.start = np.full(states, 1 / states)
        elif len(words) == 1 and words[0] != "*" and (states > 1 or words[0] in self.numbers["states"]):
            self.start = np.zeros(states)
            self.start[self._index(one, 1, "states")] = 1.0
        else:
            self.start = one.numbers(1, [states], "the probability of each state")
            total = float(self.start.sum())
            if abs(total - 1) > 1e-5 or self.start.min() < 0:
                one.fail(f"the start has probabilities that sum to {total:g}; expected 1, and none below 0")

    def _index(self, one: Statement, place: int, kind: str) -> int:
        """Return the number of a value by its name or number, -1 for all of them."""
        word, size = one.words[place], self.size[kind]
        known = self.numbers[kind].get(word)
        if known is not None:
            return known
        if word == "*":
            return -1
        if word.isascii() and word.isdecimal() and int(word[:20]) < size:
            return int(word)
        one.fail(f"there is no {kind[:-1]} {short_line(word)!r}; expected {self._known(kind)}", place)

    def _known(self, kind: str) -> str:
        names = self.names[kind]
        if names is None:
            return f"0 to {self.size[kind] - 1}"
        return f"one of {', '.join(names[:8])}{f' and {len(names) - 8} more' if len(names) > 8 else ''}"

    def _address(self, one: Statement, kinds: Sequence[str]) -> tuple[list[int], int]:
        """Return the values that a statement names, -1 for all, and where its numbers begin."""
        found: list[int] = []
        place = 0
        while place + 1 < len(one.words) and one.words[place] == ":" and len(found) < len(kinds):
            found.append(self._index(one, place + 1, kinds[len(found)]))
            place += 2
        if not found or (place < len(one.words) and one.words[place] == ":"):
            one.fail(f"{one.keyword}: names {len(found)} values and more; expected {' : '.join(k[:-1] for k in kinds)}")
        return found, place

    def _probabilities(self, one: Statement) -> None:
        """Read a statement of transitions or observations."""
        if one.keyword == "O" and self.is_mdp:
            one.fail("there is no observations: before it; expected one before O:")
        last = "states" if one.keyword == "T" else "observations"
        kinds = ("actions", "states", last)
        entries = self.transition if one.keyword == "T" else self.observation
        address, place = self._address(one, kinds)
        sizes = [self.size[kind] for kind in kinds]
        if len(address) == 3 and -1 not in address:
            single = (address[0] * sizes[1] + address[1]) * sizes[2] + address[2]
            entries.add_one(single, one.only(place, "the probability"), one.line)
            return
        count = math.prod(size for axis, size in enumerate(sizes) if axis >= len(address) or address[axis] < 0)
        check_memory(f"a table of {count} numbers", 48.0 * count)
        key = _places(address, sizes)
        wide = sizes[len(address) :]  # what the numbers are for
        words = one.words[place:]
        if words == ["uniform"] and wide:
            numbers = np.full(wide, 1 / sizes[2])
        elif words == ["identity"] and len(wide) == 2 and wide[0] == wide[1]:
            numbers = np.eye(wide[0])
        elif words == ["reset"] and len(wide) == 1 and one.keyword == "T" and self.start is not None:
            numbers = self.start
        else:
            numbers = one.numbers(place, wide or [1], "the probability")
        entries.add(key, numbers.reshape(wide), one.line)

    def _rewards(self, one: Statement) -> None:
        kinds = ("actions", "states", "states", *(() if self.is_mdp else ("observations",)))
        address, place = self._address(one, kinds)
        wide = [self.size[kind] for kind in kinds[len(address) :]]
        if len(wide) > 2:
            one.fail("R: names the action only; expected a state too")
        every = (-1,) * (4 - len(address))
        if not wide:
            self.rules.extend((*address, *every, one.only(place, "the reward")))
            return
        numbers = one.numbers(place, wide, "the reward")
        rules = np.empty((numbers.size, 5))
        rules[:, :4] = *address, *every
        rules[:, len(address) : len(kinds)] = np.indices(wide).reshape(len(wide), -1).T
        rules[:, 4] = numbers.ravel()
        self.rules.frombytes(rules.tobytes())


def _places(address: Sequence[int], sizes: Sequence[int]) -> Array:
    """Return the keys of all places that an address names, with an axis for each of its wildcards and of the rest."""
    key = np.zeros((1,) * len(sizes), np.int64)
    for axis, size in enumerate(sizes):
        given = address[axis] if axis < len(address) else -1
        values = np.arange(size) if given < 0 else np.array([given])
        key = key * size + values.reshape([-1 if other == axis else 1 for other in range(len(sizes))])
    return key
