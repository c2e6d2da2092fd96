"""The tables of Cassandra's `.pomdp` files: numbers at places, and rules for rewards."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rue._arrays import Array, ranges
from rue._check import check_memory
from rue._text import short_line
from rue.errors import BadFile
from rue.formats.assemble import last_entries
from rue.formats.cassandra_text import LISTS, START_LISTS, Run, Statement, read_statements
from rue.formats.text_table import Chunk, Growing, parse_number

MOST_VALUES = 10**8
EVERY = -1  # what `*` is among the values of an address
MOST_PLACES = 8  # for each line of a run; statements that name more are read one by one
FEW = 100  # bytes in rows of a start, which may be the number of one state
ARRAYS = {"T": "transition", "O": "observation"}


@dataclass
class Entries:
    """Numbers at places of a table, in the order of the file."""

    key: Growing = field(default_factory=lambda: Growing(np.int64))
    value: Growing = field(default_factory=lambda: Growing(np.float64))
    line: Growing = field(default_factory=lambda: Growing(np.int32))

    def add(self, key: Array, value: Array, line: Array | int) -> None:
        """Add numbers at several places."""
        self.key.append(key.ravel())
        self.value.append(np.broadcast_to(value, key.shape).ravel())
        self.line.append(np.broadcast_to(line, key.size))

    def last(self) -> tuple[Array, Array, Array]:
        """Return the keys in order with their last values, without zeros, and the lines of these; forget them here."""
        key, value, line = last_entries(self.key.take(), self.value.take(), self.line.take())
        return key, value, line


class Rules(NamedTuple):
    """Rules for rewards: an action, a state, the next one and an observation, -1 for all of them, and the figure."""

    address: Array  # [rules, 4]
    figure: Array  # [rules]


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
    rule_address: Growing = field(default_factory=lambda: Growing(np.int32))
    rule_figure: Growing = field(default_factory=lambda: Growing(np.float64))
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
        for found in read_statements(self.path):
            if isinstance(found, Statement):
                self._take(found)
            elif not self._take_run(found):
                for one in found.statements():
                    self._take(one)
        self._check_preamble(None)
        return self

    def rules(self) -> Rules:
        """Return the rules for rewards in the order of the file; forget them here."""
        return Rules(self.rule_address.take().reshape(-1, 4), self.rule_figure.take())

    def _take(self, one: Statement) -> None:
        """Read a statement."""
        ways = {"discount": self._discount, "values": self._values, "start": self._start, "R": self._rewards}
        if one.keyword in ("start", "T", "O", "R"):
            self._check_preamble(one)
        if one.keyword in LISTS:
            self._list(one)
        elif one.keyword in ARRAYS:
            self._probabilities(one)
        else:
            ways[one.keyword](one)

    def _take_run(self, run: Run) -> bool:
        """Read lines with one number each, if all are as they should be; else return False, and read nothing."""
        if self._missing() is not None:
            return False
        chunk = run.chunk
        first = chunk.word_ptr[run.lines]
        letter = chunk.data[chunk.start[first]]
        found = {}
        for keyword in "TOR":
            own = np.flatnonzero(letter == ord(keyword))
            if own.size:
                part = self._columns(chunk, keyword, first[own], run.colon[own])
                if part is None:
                    return False
                found[keyword] = (*part, chunk.first + run.lines[own])
        for keyword, (address, number, line) in found.items():
            if keyword == "R":
                self._add_rules(address, number)
            else:
                self._add_places(keyword, address, number, line)
        return True

    def _columns(self, chunk: Chunk, keyword: str, first: Array, colons: Array) -> tuple[Array, Array] | None:
        """Return the addresses of some lines, and their numbers; None if something is odd about one of them."""
        if keyword == "O" and self.is_mdp:
            return None
        kinds = self._kinds(keyword)
        if (colons != len(kinds)).any():
            return None
        number = chunk.plain(first + len(kinds) + 1)
        if number is None:
            return None
        address = np.empty((first.size, len(kinds)), np.int64)
        for axis, kind in enumerate(kinds):
            found = self._known_values(chunk, first + 1 + axis, kind)
            if found is None:
                return None
            address[:, axis] = found
        if keyword != "R":
            size = np.array([self.size[kind] for kind in kinds])
            if np.where(address == EVERY, size, 1).prod(axis=1, dtype=float).sum() > MOST_PLACES * first.size:
                return None
        return address, number

    def _known_values(self, chunk: Chunk, word: Array, kind: str) -> Array | None:
        """Return the numbers of values that are named by words, -1 for all; None if one is not known."""
        begin, end = chunk.start[word], chunk.end[word]
        known = self.numbers[kind]
        if known:
            raw, size = chunk.raw, self.size[kind]
            texts = [raw[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
            number = {text: _value_number(text, known, size) for text in set(texts)}
            found = np.array([number[text] for text in texts], np.int64)
            return None if (found < EVERY).any() else found
        every = (end - begin == 1) & (chunk.data[begin] == ord("*"))
        found = np.full(word.size, EVERY)
        given = chunk.decimals(word[~every])
        if given is None or (given >= self.size[kind]).any():
            return None
        found[~every] = given
        return found

    def _kinds(self, keyword: str) -> tuple[str, ...]:
        """Return what the values in the address of a statement are."""
        if keyword == "R":
            return ("actions", "states", "states", *(() if self.is_mdp else ("observations",)))
        return ("actions", "states", "states" if keyword == "T" else "observations")

    def _strides(self, keyword: str) -> Array:
        """Return how far places lie apart: by state, action and next state, or by action, state and observation."""
        actions, states = self.size["actions"], self.size["states"]
        if keyword == "T":
            return np.array([states, actions * states, 1])
        return np.array([states * self.size["observations"], self.size["observations"], 1])

    def _add_places(self, keyword: str, address: Array, number: Array, line: Array) -> None:
        """Add the numbers of lines, each at all places that its address names."""
        entries: Entries = getattr(self, ARRAYS[keyword])
        strides = self._strides(keyword)
        every = address == EVERY
        if every.any():
            size = np.array([self.size[kind] for kind in self._kinds(keyword)])
            count = np.where(every, size, 1).prod(axis=1)
            row = np.repeat(np.arange(count.size), count)
            rest = ranges(np.zeros(count.size, np.int64), count)
            address, every = address[row], every[row]
            for axis in (2, 1, 0):
                own = every[:, axis]
                address[own, axis] = rest[own] % size[axis]
                rest[own] //= size[axis]
            number, line = number[row], line[row]
        entries.add(address @ strides, number, line)

    def _add_rules(self, address: Array, figure: Array) -> None:
        """Add rules for rewards; what an address does not name stands for all."""
        whole = np.full((figure.size, 4), EVERY)
        whole[:, : address.shape[1]] = address
        self.rule_address.append(whole.ravel())
        self.rule_figure.append(figure)

    def _missing(self) -> str | None:
        """Return what has to be said before the tables, and was not."""
        missing = next((kind for kind in LISTS[:2] if kind not in self.size), None)
        return missing or ("discount" if self.discount < 0 else None)

    def _check_preamble(self, one: Statement | None) -> None:
        missing = self._missing()
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
        if one.words[0] in START_LISTS or sum(len(text) for _, text in one.rows) < FEW:
            one.settle()
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
        kinds = self._kinds(one.keyword)
        entries: Entries = getattr(self, ARRAYS[one.keyword])
        strides = self._strides(one.keyword)
        address, place = self._address(one, kinds)
        sizes = [self.size[kind] for kind in kinds]
        if len(address) == 3 and EVERY not in address:
            number = one.only(place, "the probability")
            entries.add(np.array([address]) @ strides, np.array([number]), one.line)
            return
        count = math.prod(size for axis, size in enumerate(sizes) if axis >= len(address) or address[axis] < 0)
        check_memory(f"{self.path}, line {one.line}: a table of {count} numbers", 48.0 * count)
        key = _places(address, sizes, strides)
        wide = sizes[len(address) :]  # what the numbers are for
        words = [] if one.rows else one.words[place:]
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
        kinds = self._kinds("R")
        address, place = self._address(one, kinds)
        wide = [self.size[kind] for kind in kinds[len(address) :]]
        if len(wide) > 2:
            one.fail("R: names the action only; expected a state too")
        if not wide:
            self._add_rules(np.array([address]), np.array([one.only(place, "the reward")]))
            return
        numbers = one.numbers(place, wide, "the reward")
        rest = np.indices(wide).reshape(len(wide), -1).T
        self._add_rules(np.hstack([np.broadcast_to(address, (len(rest), len(address))), rest]), numbers.ravel())


def _is_number(word: str) -> bool:
    try:
        parse_number(word)
    except ValueError:
        return False
    return True


def _value_number(text: bytes, known: Mapping[str, int], size: int) -> int:
    """Return the number of a value by its name or number: -1 for all of them, -2 for none."""
    word = text.decode("utf-8", "replace")
    if word in known:
        return known[word]
    if word == "*":
        return EVERY
    return int(word) if word.isascii() and word.isdecimal() and int(word[:20]) < size else EVERY - 1


def _places(address: Sequence[int], sizes: Sequence[int], strides: Array) -> Array:
    """Return the keys of all places that an address names, with an axis for each of its wildcards and of the rest."""
    key = np.zeros((1,) * len(sizes), np.int64)
    for axis, size in enumerate(sizes):
        given = address[axis] if axis < len(address) else EVERY
        values = np.arange(size) if given < 0 else np.array([given])
        key = key + strides[axis] * values.reshape([-1 if other == axis else 1 for other in range(len(sizes))])
    return key
