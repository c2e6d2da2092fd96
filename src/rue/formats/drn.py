"""DRN, the explicit text format of the model checker Storm: one file for each sample.

A file lists its states in order, with rewards and labels; the choices of each, with a name and rewards; and the targets
of each choice. Rewards are taken as costs: a choice costs its own reward and that of its state. Goals are the states
with the label `goal` (else `target`, else `done`); in files without such labels, the states that only loop, at no cost.
The initial state has the label `init`. A comment after a state is its valuation, by which states of different files are
matched, if each state has one and all are different.

rue writes a comment at the top with the names that the format has no place for, and targets that are impossible in a
sample as comments, so that the rows of all its files are the same and come back in their order.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote

import numpy as np

from rue._arrays import Array
from rue._text import short_line
from rue.errors import BadFile
from rue.flat import Flat
from rue.formats.assemble import Part, put_together
from rue.formats.folders import write_folder
from rue.formats.picks import Picks, label_masks, other_labels, pick_reward
from rue.formats.rewards import model_from_rewards, units_of
from rue.formats.rue_file import Storable
from rue.formats.text_table import Chunk, Growing, parse_number, read_chunks
from rue.formats.writing import write_atomically
from rue.model import UMDP

ENDING = ".drn"
OURS = "// rue: "
# What an action may be called in the file as it is; other characters are written as %XX.
PLAIN = "".join(chr(code) for code in range(33, 127) if chr(code) not in '%[]"')
NO_NAME = "%"
IMPOSSIBLE, BLANKS = b"//\t\t", b"\t\t\t\t"  # how rue writes a target of probability zero, and how it is read
VALUE_TYPES = ("double", "rational")
NO_KIND, COMMENT, STATE, ACTION, TRANSITION = range(5)
LABEL = re.compile(r'"([^"]+)"|([^\s"]+)')


@dataclass
class Header:
    """What a file says before its states."""

    kind: str = ""
    states: int = -1
    choices: int = -1
    rewards: tuple[str, ...] = ()
    named: dict[str, float] = field(default_factory=dict)  # numbers by name, with the dollar sign
    ours: Mapping[str, Any] = field(default_factory=dict)  # what rue wrote
    lines: int = 0  # up to @model


def looks_like_drn(start: bytes) -> bool:
    """Return whether a file that begins so is in this format."""
    return re.search(rb"^@type:", start, re.MULTILINE) is not None


def read_drn(path: Path, model: object, **picked: str) -> UMDP:
    """Read a model with one sample."""
    return read_drn_files([path], **picked)


def read_drn_files(paths: Sequence[Path], **picked: str) -> UMDP:
    """Read a model with a sample for each file; `Picks` says which labels and rewards may be named."""
    picks = Picks(**picked)
    readers = [_Reader(path, picks) for path in paths]
    ours = readers[0].header.ours
    flat = put_together([reader.part() for reader in readers], picks.avoid)
    where = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    return model_from_rewards(where, flat, None, sign=1, ours=ours)


def _read_header(path: Path) -> Header:
    header, seen = Header(), set()
    lines = _lines(path)
    for number, line in lines:
        if line.startswith(OURS):
            header.ours = _our_names(path, number, line)
        if not line or line.startswith("//"):
            continue
        if line.startswith("$") and "@placeholders" in seen:
            _read_placeholder(path, number, line, header.named)
            continue
        section, _, value = line.partition(":")
        if section in seen:
            raise BadFile(f"{path}, line {number}: {section} is there twice; expected it once")
        seen.add(section)
        if line == "@model":
            header.lines = number
            return _checked(path, number, header)
        if section == "@type":
            header.kind = value.strip()
            if header.kind not in ("MDP", "DTMC"):
                raise BadFile(f"{path}, line {number}: the model is of type {header.kind!r}; expected MDP or DTMC")
        elif section == "@value_type":
            if value.strip() not in VALUE_TYPES:
                raise BadFile(
                    f"{path}, line {number}: values of type {value.strip()!r}; expected {' or '.join(VALUE_TYPES)}"
                )
        elif line == "@parameters":
            after, names = next(lines, (number, ""))
            if names:
                raise BadFile(f"{path}, line {after}: the model has the parameters {names}; expected numbers")
        elif line == "@reward_models":
            header.rewards = tuple(next(lines, (number, ""))[1].split())
        elif line in ("@nr_states", "@nr_choices"):
            after, text = next(lines, (number, ""))
            if not (text.isascii() and text.isdecimal()):
                raise BadFile(f"{path}, line {after}: {line} is {short_line(text)!r}; expected a whole number")
            setattr(header, line.removeprefix("@nr_"), int(text))
        elif line != "@placeholders":
            raise BadFile(f"{path}, line {number}: {short_line(line)!r} is no section; expected one such as @nr_states")
    raise BadFile(f"{path}: there is no @model; expected a file in DRN")


def _read_placeholder(path: Path, number: int, line: str, named: dict[str, float]) -> None:
    name, _, value = (part.strip() for part in line.partition(":"))
    try:
        named[name] = parse_number(value)
    except ValueError:
        raise BadFile(
            f"{path}, line {number}: the placeholder is {short_line(line)!r}; expected $name : number"
        ) from None


def _checked(path: Path, number: int, header: Header) -> Header:
    for value, section in ((header.kind, "@type"), (header.states + 1, "@nr_states")):
        if not value:
            raise BadFile(f"{path}, line {number}: there is no {section} before @model; expected one")
    if header.states == 0:
        raise BadFile(f"{path}, line {number}: @nr_states is 0; expected one state at least")
    return header


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers."""
    for chunk in read_chunks(path):
        for line in range(chunk.lines):
            yield chunk.first + line, chunk.line_text(line)


def _our_names(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        ours = json.loads(line.removeprefix(OURS))
    except (RecursionError, ValueError):
        ours = None
    if not isinstance(ours, dict):
        raise BadFile(f"{path}, line {number}: the names are damaged; expected JSON after {OURS.strip()!r}")
    return ours


@dataclass
class _Rows:
    """What was read of the states so far."""

    action_count: list[Array] = field(default_factory=list)  # choices before each state
    trans_count: list[Array] = field(default_factory=list)  # transitions before each choice
    action: list[str] = field(default_factory=list)  # [C]
    line: list[Array] = field(default_factory=list)  # [C]
    state_reward: list[Array] = field(default_factory=list)
    reward: list[Array] = field(default_factory=list)
    target: Growing = field(default_factory=lambda: Growing(np.int32))
    prob: Growing = field(default_factory=lambda: Growing(np.float64))
    labels: dict[str, list[int]] = field(default_factory=dict)
    valuation: dict[int, str] = field(default_factory=dict)
    states: int = 0
    choices: int = 0
    transitions: int = 0
    last_kind: int = NO_KIND


class _Reader:
    """Reads one file."""

    def __init__(self, path: Path, picks: Picks) -> None:
        self.path, self.picks = path, picks
        self.header = _read_header(path)
        self.rows = _Rows()
        self.column = pick_reward(str(path), self.header.rewards, picks)

    def part(self) -> Part:
        """Return the file as a part of a model."""
        for chunk in read_chunks(self.path):
            if chunk.first + chunk.lines - 1 > self.header.lines:
                self._read(chunk)
        return self._part()

    def _read(self, chunk: Chunk) -> None:
        if self.header.ours:
            chunk = replace(chunk, data=np.frombuffer(chunk.raw.replace(IMPOSSIBLE, BLANKS), np.uint8))
        kind = self._kinds(chunk)
        chunk = self._open_brackets(chunk, kind)
        is_state, is_action, is_row = kind == STATE, kind == ACTION, kind == TRANSITION
        rows = self.rows
        if rows.states == 0 and (is_action | is_row)[: int(np.argmax(is_state)) if is_state.any() else None].any():
            chunk.fail(int(np.argmax(is_action | is_row)), "a choice or a target before any state; expected a state")
        rows.action_count.append(rows.choices + np.cumsum(is_action)[is_state])
        if self.header.kind == "MDP" or rows.choices or is_action.any():
            self._check_rows(chunk, kind)
            rows.trans_count.append(rows.transitions + np.cumsum(is_row)[is_action])
        else:  # a Markov chain may do without choices
            rows.trans_count.append(rows.transitions + np.cumsum(is_row)[is_state])
        self._read_states(chunk, np.flatnonzero(is_state), kind)
        self._read_actions(chunk, np.flatnonzero(is_action))
        self._read_targets(chunk, np.flatnonzero(is_row))
        known = np.flatnonzero(kind != NO_KIND)
        rows.last_kind = int(kind[known[-1]]) if known.size else rows.last_kind
        rows.states += int(is_state.sum())
        rows.choices += int(is_action.sum())
        rows.transitions += int(is_row.sum())

    def _kinds(self, chunk: Chunk) -> Array:  # [lines]
        """Return the kind of each line, by its first letter."""
        filled = np.flatnonzero(np.diff(chunk.word_ptr) > 0)
        kind = np.zeros(chunk.lines, np.int8)
        first = chunk.data[chunk.start[chunk.word_ptr[filled]]]
        letter = np.full(256, -1, np.int8)
        letter[[ord("/"), ord("s"), ord("a")]] = COMMENT, STATE, ACTION
        letter[ord("0") : ord("9") + 1] = TRANSITION
        kind[filled] = letter[first]
        kind[: max(0, self.header.lines + 1 - chunk.first)] = NO_KIND  # the header
        wrong = np.flatnonzero(kind < 0)
        if wrong.size:
            chunk.fail(
                int(wrong[0]),
                f"{short_line(chunk.line_text(int(wrong[0])))!r} is no line of a model; expected a state, an action or "
                "a target and its probability",
            )
        return kind

    def _open_brackets(self, chunk: Chunk, kind: Array) -> Chunk:
        """Return the chunk with blanks for the brackets and commas of rewards, and for the colons of targets."""
        lines = np.flatnonzero((kind == STATE) | (kind == ACTION))
        ptr = chunk.word_ptr
        long = lines[ptr[lines + 1] - ptr[lines] > 2]
        opening = chunk.start[ptr[long] + 2]
        has = chunk.data[opening] == ord("[")
        opening, long = opening[has], long[has]
        closing = np.flatnonzero(chunk.data == ord("]"))
        place = np.searchsorted(closing, opening)
        end = chunk.end[ptr[long + 1] - 1]
        missing = (
            np.flatnonzero((place >= closing.size) | (closing[np.minimum(place, closing.size - 1)] >= end))
            if closing.size
            else np.arange(long.size)
        )
        if missing.size:
            chunk.fail(int(long[missing[0]]), "a bracket of rewards is not closed; expected ]")
        step = np.zeros(chunk.data.size + 1, np.int8)
        step[opening] = 1
        step[closing[place] + 1] -= 1
        inside = np.cumsum(step[:-1], dtype=np.int8) > 0
        commas = inside & (chunk.data == ord(","))
        blank = commas | (inside & (chunk.data == ord("["))) | (inside & (chunk.data == ord("]")))
        self.bracket = np.zeros(chunk.lines, bool)
        self.bracket[long] = True
        colon = np.flatnonzero(chunk.data == ord(":"))
        line = np.searchsorted(chunk.newline, colon)
        blank[colon[kind[line] == TRANSITION]] = True
        self.rewards = np.bincount(np.searchsorted(chunk.newline, np.flatnonzero(commas)), minlength=chunk.lines)
        self.rewards += self.bracket
        return chunk.with_blanks(blank)

    def _check_rows(self, chunk: Chunk, kind: Array) -> None:
        """Refuse a target that does not follow a choice."""
        lines = np.flatnonzero(kind > COMMENT)
        if lines.size == 0:
            return
        before = np.concatenate(([self.rows.last_kind], kind[lines[:-1]]))
        wrong = np.flatnonzero((kind[lines] == TRANSITION) & (before <= STATE))
        if wrong.size:
            chunk.fail(int(lines[wrong[0]]), "a target without an action; expected an action before it")

    def _read_states(self, chunk: Chunk, lines: Array, kind: Array) -> None:
        rows, ptr = self.rows, chunk.word_ptr
        first = ptr[lines]
        short = np.flatnonzero(ptr[lines + 1] - first < 2)
        if short.size:
            chunk.fail(int(lines[short[0]]), "a state without a number; expected one such as state 0")
        number = chunk.whole(first + 1, "the number of a state")
        wrong = np.flatnonzero(number != rows.states + np.arange(lines.size))
        if wrong.size:
            i = int(wrong[0])
            chunk.fail(int(lines[i]), f"state {number[i]} is out of order; expected state {rows.states + i}")
        if rows.states + lines.size > self.header.states:
            place = self.header.states - rows.states
            chunk.fail(int(lines[place]), f"there are more states than @nr_states says; expected {self.header.states}")
        rows.state_reward.append(self._reward(chunk, lines))
        labels = first + 2 + self.rewards[lines]
        for i in np.flatnonzero(labels < ptr[lines + 1]).tolist():
            text = chunk.raw[chunk.start[labels[i]] : chunk.end[ptr[lines[i] + 1] - 1]].decode("utf-8", "replace")
            for quoted, plain in LABEL.findall(text):
                rows.labels.setdefault(quoted or plain, []).append(rows.states + i)
        self._read_valuations(chunk, kind)

    def _read_valuations(self, chunk: Chunk, kind: Array) -> None:
        """Keep the comments that follow a state at once."""
        lines = np.flatnonzero(kind != NO_KIND)
        if lines.size == 0:
            return
        before = np.concatenate(([self.rows.last_kind], kind[lines[:-1]]))
        state = self.rows.states + np.cumsum(kind == STATE) - 1
        for line in lines[(kind[lines] == COMMENT) & (before == STATE)].tolist():
            self.rows.valuation[int(state[line])] = chunk.line_text(line).removeprefix("//").strip()

    def _reward(self, chunk: Chunk, lines: Array) -> Array:
        """Return the cost in the brackets of each line, 0 where it has none."""
        has = np.flatnonzero(self.bracket[lines])
        expected = len(self.header.rewards) or 1
        wrong = np.flatnonzero(self.rewards[lines[has]] != expected)
        if wrong.size:
            line = int(lines[has[wrong[0]]])
            chunk.fail(line, f"there are {self.rewards[line]} rewards; expected {expected}, one for each reward model")
        reward = np.zeros(lines.size)
        word = chunk.word_ptr[lines[has]] + 2 + self.column
        late = np.flatnonzero(word >= chunk.word_ptr[lines[has] + 1])
        if late.size:
            chunk.fail(int(lines[has[late[0]]]), "a reward is missing between brackets and commas; expected a number")
        reward[has] = chunk.numbers(word, "a reward", self.header.named)
        return reward

    def _read_actions(self, chunk: Chunk, lines: Array) -> None:
        ptr = chunk.word_ptr
        short = np.flatnonzero(ptr[lines + 1] - ptr[lines] < 2)
        if short.size:
            chunk.fail(int(lines[short[0]]), "an action without a name; expected one such as action 0")
        self.rows.action += chunk.words(ptr[lines] + 1)
        self.rows.line.append(chunk.first + lines)
        self.rows.reward.append(self._reward(chunk, lines))

    def _read_targets(self, chunk: Chunk, lines: Array) -> None:
        ptr = chunk.word_ptr
        wrong = np.flatnonzero(ptr[lines + 1] - ptr[lines] != 2)
        if wrong.size:
            line = int(lines[wrong[0]])
            chunk.fail(line, f"{short_line(chunk.line_text(line))!r} has another form; expected target : probability")
        target = chunk.whole(ptr[lines], "the target", self.header.states - 1)
        self.rows.target.append(target)
        self.rows.prob.append(chunk.numbers(ptr[lines] + 1, "the probability", self.header.named))

    def _part(self) -> Part:
        header, rows = self.header, self.rows
        is_chain = rows.choices == 0 and header.kind == "DTMC"
        if rows.states != header.states:
            raise BadFile(f"{self.path}: there are {rows.states} states; expected {header.states}, as @nr_states says")
        choices = rows.states if is_chain else rows.choices
        if header.choices not in (-1, 0, choices):
            raise BadFile(f"{self.path}: there are {choices} choices; expected {header.choices}, as @nr_choices says")
        state_reward = np.concatenate(rows.state_reward)
        choice_ptr = np.arange(choices + 1) if is_chain else np.append(np.concatenate(rows.action_count), choices)
        reward = np.zeros(choices) if is_chain else np.concatenate(rows.reward)
        cost = reward + np.repeat(state_reward, np.diff(choice_ptr))
        action, action_label = (np.zeros(choices, np.int64), None) if is_chain else self._actions(choice_ptr)
        flat = Flat(
            choice_ptr, action, np.append(np.concatenate(rows.trans_count), rows.transitions),
            rows.target.take(), rows.prob.take()[:, None], cost[:, None],
            self._initial(), self._state_names(), action_label,
            *self._sample(),
        )  # fmt: skip
        line = None if is_chain else np.concatenate(rows.line)
        goal, avoid = label_masks(str(self.path), rows.labels, rows.states, self.picks)
        return Part(str(self.path), flat, goal, line, bool(header.ours), other_labels(rows.labels), avoid)

    def _sample(self) -> tuple[tuple[str, ...] | None, tuple[float, ...] | None]:
        name, weight = self.header.ours.get("sample"), self.header.ours.get("weight")
        return None if name is None else (str(name),), None if weight is None else (float(weight),)

    def _initial(self) -> int:
        initial = self.rows.labels.get("init", [])
        if len(initial) != 1:
            raise BadFile(f"{self.path}: {len(initial)} states have the label init; expected one initial state")
        return initial[0]

    def _state_names(self) -> tuple[str, ...] | None:
        found = self.rows.valuation
        if len(found) != self.rows.states:
            return None
        texts = [found[state] for state in range(self.rows.states)]
        if "action_label" in self.header.ours:
            texts = [_unquoted(text) for text in texts]
        return tuple(texts) if len(set(texts)) == len(texts) else None

    def _actions(self, choice_ptr: Array) -> tuple[Array, tuple[str, ...] | None]:
        """Return the number of the action of each choice, and the names of actions unless they are numbers."""
        known = self.header.ours.get("action_label")
        names = self.rows.action
        if known is not None:
            names = ["" if name == NO_NAME else unquote(name) for name in names]
        elif all(name.isascii() and name.isdecimal() for name in set(names)):
            return np.array(names, dtype="U").astype(np.int64) if names else np.empty(0, np.int64), None
        return numbered_actions(names, choice_ptr, known or ())


def _unquoted(text: str) -> str:
    """Return the name of a state as rue wrote it."""
    try:
        return str(json.loads(text)) if text.startswith('"') else text
    except ValueError:
        return text


def numbered_actions(
    names: Sequence[str], choice_ptr: Array, known: Sequence[str] = ()
) -> tuple[Array, tuple[str, ...]]:
    """Return the number of each choice's action and all names; one that a state has twice gets a number behind it."""
    number = {str(name): i for i, name in enumerate(known)}
    action = np.array([number.setdefault(name, len(number)) for name in names], np.int64)
    key = np.repeat(np.arange(choice_ptr.size - 1), np.diff(choice_ptr)) * max(len(number), 1) + action
    order = np.argsort(key, kind="stable")
    again = np.concatenate(([False], np.diff(key[order]) == 0)) if key.size else np.empty(0, bool)
    place = np.arange(key.size) - np.maximum.accumulate(np.where(again, 0, np.arange(key.size)))
    for choice, count in zip(order[again].tolist(), place[again].tolist(), strict=True):
        action[choice] = number.setdefault(f"{names[choice]} {count + 1}", len(number))
    return action, tuple(number)


def write_drn(path: Path, thing: Storable) -> None:
    """Write a model: a file for one sample, a folder of files for more."""
    assert isinstance(thing, UMDP)
    model = thing
    if model.samples == 1:
        write_atomically(path, lambda stream: _write_sample(stream, model, 0))
        return
    write_folder(path, ((f"{k}{ENDING}", _writer(model, k)) for k in range(model.samples)))


def _writer(model: UMDP, sample: int) -> Any:
    return lambda path: write_atomically(path, lambda stream: _write_sample(stream, model, sample))


def _write_sample(stream: IO[bytes], model: UMDP, sample: int) -> None:
    graph = model.graph
    ours: dict[str, Any] = {"action_label": graph.action_label, **units_of(model)}
    if model.sample_label is not None:
        ours["sample"] = model.sample_label[sample]
    if model.is_weighted:
        ours["weight"] = float(model.weight[sample])
    goals = int(graph.goal.sum())
    stream.write(
        f"{OURS}{json.dumps(ours)}\n@type: MDP\n@value_type: double\n@parameters\n\n@reward_models\ncost\n"
        f"@nr_states\n{graph.states}\n@nr_choices\n{graph.choices + goals}\n@model\n".encode()
    )
    actions = int(graph.action.max(initial=0)) + 1
    name = [quote(graph.action_name(action), safe=PLAIN) or NO_NAME for action in range(actions)]
    block = 1 << 14
    for first in range(0, graph.states, block):
        stream.write(
            "".join(_state_lines(model, sample, range(first, min(first + block, graph.states)), name)).encode()
        )


def _state_lines(model: UMDP, sample: int, states: range, name: list[str]) -> Iterator[str]:
    graph = model.graph
    first, last = graph.choice_ptr[states.start], graph.choice_ptr[states.stop]
    rows = slice(graph.trans_ptr[first], graph.trans_ptr[last])
    cost, prob = model.cost[first:last, sample].tolist(), model.prob[rows, sample].tolist()
    action, target = graph.action[first:last].tolist(), graph.successor[rows].tolist()
    choice_ptr = (graph.choice_ptr[states.start : states.stop + 1] - first).tolist()
    trans_ptr = (graph.trans_ptr[first : last + 1] - graph.trans_ptr[first]).tolist()
    for i, state in enumerate(states):
        init = " init" if state == graph.initial else ""
        goal = " goal" if choice_ptr[i] == choice_ptr[i + 1] else ""
        yield f"state {state} [0]{init}{goal}\n"
        if graph.state_label is not None:
            yield f"//{json.dumps(graph.state_label[state])}\n"
        if goal:
            yield f"\taction {name[0]} [0]\n\t\t{state} : 1\n"
        for c in range(choice_ptr[i], choice_ptr[i + 1]):
            yield f"\taction {name[action[c]]} [{cost[c]!r}]\n"
            for t in range(trans_ptr[c], trans_ptr[c + 1]):
                yield f"{'' if prob[t] else '//'}\t\t{target[t]} : {prob[t]!r}\n"
