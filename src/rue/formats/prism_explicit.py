"""PRISM's explicit files: `.tra` with `.sta`, `.lab`, `.srew` and `.trew` beside it, one set for each sample.

The transitions are in the `.tra` file, whose first line has the numbers of states, choices and transitions, or of
states and transitions for a Markov chain; files for Storm begin with the word `mdp` or `dtmc` instead. The other files
may be missing: without `.sta` states have no names, without `.lab` the initial state is 0 and goals are those that only
loop, at no cost. A choice costs the reward of its state and the mean of the rewards of its transitions.

rue writes the names that the format has no place for to a file `.names.json` beside the others. A name that ends in
`.storm.tra` asks for files that Storm reads.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from rue._arrays import Array, pointers
from rue._text import short_line
from rue.errors import BadFile
from rue.flat import Flat
from rue.formats.assemble import Part, choice_of, flat_from_entries, has_repeated_target, put_together
from rue.formats.drn import NO_NAME, PLAIN, numbered_actions
from rue.formats.folders import write_folder
from rue.formats.names import ENDING as NAMES
from rue.formats.names import beside, label_fields, read_names
from rue.formats.picks import Picks, label_masks, other_labels, pick_reward
from rue.formats.rewards import model_from_rewards, units_of
from rue.formats.rue_file import Storable
from rue.formats.text_table import Chunk, Growing, read_chunks
from rue.formats.writing import write_pieces
from rue.model import UMDP, Graph

ENDING, FOR_STORM = ".tra", ".storm.tra"
STATE_REWARDS, TRANSITION_REWARDS = (".srew", ".rews"), (".trew", ".rewt")
DECLARED = re.compile(r'(\d+)="([^"]*)"')
NAMED_REWARD = re.compile(rb'# *Reward structure:? *"?([^"\s]+)"?')
COMMENT = ord("#")
MOST_STATES = 2**31 - 1
BLOCK = 1 << 14  # states that are written at a time


def read_prism(path: Path, model: object, **picked: str) -> UMDP:
    """Read a model with one sample."""
    return read_prism_files([path], **picked)


def read_prism_files(paths: Sequence[Path], **picked: str) -> UMDP:
    """Read a model with a sample for each `.tra` file; `Picks` says which labels and rewards may be named."""
    picks = Picks(**picked)
    flat = put_together([_read_part(path, picks) for path in paths], picks.avoid)
    where = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    return model_from_rewards(where, flat, None, sign=1, ours=read_names(paths[0]))


def _read_part(path: Path, picks: Picks) -> Part:
    table = _read_transitions(path)
    names, states, width = read_names(path), table.states, table.width
    flat, words = table.flat()
    choice_ptr = flat.choice_ptr
    del table
    flat = replace(flat, cost=_read_costs(path, flat, picks, width)[:, None], **_labels(flat, words, names))
    labels = _read_labels(beside(path, ".lab"), states)
    initial = labels.get("init", [0])
    if len(initial) != 1:
        raise BadFile(f"{beside(path, '.lab')}: {len(initial)} states have the label init; expected one initial state")
    own = label_fields(names)
    flat = replace(flat, initial=initial[0], sample_label=own["sample_label"], weight=own["weight"])
    if "state_label" not in names:
        flat = replace(flat, state_label=_read_states(beside(path, ".sta"), states))
    goal, avoid = label_masks(str(beside(path, ".lab")), labels, states, picks)
    line = partial(_line_of, path, width, states, choice_ptr)
    return Part(str(path), flat, goal, line, labels=other_labels(labels), avoid=avoid)


def _line_of(path: Path, width: int, states: int, choice_ptr: Array, choice: int) -> int:
    """Return the first line of a choice, which is looked for when it is needed."""
    state = int(np.searchsorted(choice_ptr, choice, side="right")) - 1
    found: dict[int, int] = {}
    is_first = True
    for chunk in read_chunks(path):
        lines = np.flatnonzero(_is_data(chunk))
        if lines.size and is_first:
            is_first, lines = False, lines[1:]
        if lines.size:
            rows = _read_rows(chunk, lines, width, states)
            own = np.flatnonzero(rows[:, 0] == state)
            numbers = rows[own, 1] if width == 4 else np.zeros(own.size)
            for number, line in zip(numbers.tolist(), lines[own].tolist(), strict=True):
                found.setdefault(int(number), chunk.first + line)
    return found[sorted(found)[choice - int(choice_ptr[state])]]


def _labels(flat: Flat, words: list[str], names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the actions of choices by their words, and the names of actions and of states."""
    state_label = None if names.get("state_label") is None else tuple(map(str, names["state_label"]))
    if "action_label" not in names and not any(words):
        return {"state_label": state_label}
    known = names.get("action_label")
    if known is None and all(word.isascii() and word.isdecimal() for word in words):
        return {"state_label": state_label, "action": np.array(words, "U").astype(np.int64)}
    plain = ["" if word == NO_NAME else unquote(word) for word in words] if known is not None else words
    position = flat.action.tolist()
    plain = [word if word or known is not None else str(place) for word, place in zip(plain, position, strict=True)]
    action, label = numbered_actions(plain, flat.choice_ptr, known or ())
    return {"state_label": state_label, "action": action, "action_label": label}


def _is_data(chunk: Chunk) -> Array:  # [lines]
    """Return which lines are neither blank nor comments."""
    first = chunk.word_ptr[:-1]
    filled = np.diff(chunk.word_ptr) > 0
    filled[filled] = chunk.data[chunk.start[first[filled]]] != COMMENT
    return filled


@dataclass
class _Transitions:
    """The lines of a `.tra` file: their numbers, and where the choice is another one, the word for its action."""

    states: int = -1
    width: int = 0  # the numbers in a line
    state: Growing = field(default_factory=lambda: Growing(np.int32))
    choice: Growing = field(default_factory=lambda: Growing(np.int32))
    target: Growing = field(default_factory=lambda: Growing(np.int32))
    prob: Growing = field(default_factory=lambda: Growing(np.float64))
    begin: Growing = field(default_factory=lambda: Growing(np.int64))  # lines with another choice than the one before
    words: list[str] = field(default_factory=list)  # of these lines
    last: tuple[int, int] = (-1, -1)  # state and choice of the last line

    def add(self, chunk: Chunk, lines: Array, width: int) -> None:
        """Add some lines."""
        rows = _read_rows(chunk, lines, width, self.states)
        choice = rows[:, 1] if width == 4 else np.zeros(len(rows))
        before = np.concatenate(([self.last[0]], rows[:-1, 0])), np.concatenate(([self.last[1]], choice[:-1]))
        new = np.flatnonzero((rows[:, 0] != before[0]) | (choice != before[1]))
        self.begin.append(new + self.state.size)
        self.words += _last_words(chunk, lines[new], width)
        self.last = int(rows[-1, 0]), int(choice[-1])
        for column, values in ((self.state, rows[:, 0]), (self.choice, choice), (self.target, rows[:, -2])):
            column.append(values)
        self.prob.append(rows[:, -1])

    def flat(self) -> tuple[Flat, list[str]]:
        """Return flat arrays without costs, and the word for the action of each choice."""
        state, choice, begin = self.state.take(), self.choice.take(), self.begin.take()
        pair = state[begin].astype(np.int64), choice[begin].astype(np.int64)
        sample = np.broadcast_to(np.int64(0), state.shape)
        flat = flat_from_entries(state, choice, self.target.take(), sample, self.prob.take(), 1, self.states)
        first = np.full(flat.action.size, -1)
        row = choice_of(flat, *pair)
        first[row[::-1]] = np.arange(row.size)[::-1]  # the first line of each choice
        return flat, [self.words[i] for i in first.tolist()]


def _read_transitions(path: Path) -> _Transitions:
    """Return the lines of a `.tra` file."""
    width, expected, table = 0, -1, _Transitions()
    for chunk in read_chunks(path):
        lines = np.flatnonzero(_is_data(chunk))
        if lines.size and width == 0:
            head = chunk.words(np.arange(chunk.word_ptr[lines[0]], chunk.word_ptr[lines[0] + 1]))
            if head[0].lower() in ("mdp", "dtmc"):
                width = 4 if head[0].lower() == "mdp" else 3
            elif len(head) in (2, 3):
                first = int(chunk.word_ptr[lines[0]])
                found = chunk.whole(np.arange(first, first + len(head)), "a size in the first line")
                table.states, width, expected = int(found[0]), len(head) + 1, int(found[-1])
            else:
                chunk.fail(int(lines[0]), f"{short_line(' '.join(head))!r} is no header; expected states, choices and "
                           "transitions, or mdp")  # fmt: skip
            lines = lines[1:]
        if lines.size:
            table.add(chunk, lines, width)
    count = table.state.size
    if not count:
        raise BadFile(f"{path}: there are no transitions; expected one at least")
    if expected not in (-1, count):
        raise BadFile(f"{path}: there are {count} transitions; expected {expected}, as the first line says")
    if table.states < 0:
        table.states = 1 + max(table.state.largest, table.target.largest)
    table.width = width
    return table


def _read_rows(chunk: Chunk, lines: Array, width: int, states: int) -> Array:
    """Return the numbers of some lines: the state, the choice unless it is a chain, the target and the value."""
    first = chunk.word_ptr[lines]
    count = chunk.word_ptr[lines + 1] - first
    wrong = np.flatnonzero((count != width) & (count != width + 1))
    if wrong.size:
        line = int(lines[wrong[0]])
        form = "state, choice, target and value" if width == 4 else "state, target and value"
        chunk.fail(line, f"{short_line(chunk.line_text(line))!r} has {count[wrong[0]]} words; expected {form}")
    table = np.empty((lines.size, width))
    most = {"most": (states if states >= 0 else MOST_STATES) - 1}
    table[:, 0] = chunk.whole(first, "the state", **most)
    if width == 4:
        table[:, 1] = chunk.whole(first + 1, "the choice", MOST_STATES)
    table[:, -2] = chunk.whole(first + width - 2, "the target", **most)
    table[:, -1] = chunk.numbers(first + width - 1, "the number")
    return table


def _last_words(chunk: Chunk, lines: Array, width: int) -> list[str]:
    first = chunk.word_ptr[lines]
    has = chunk.word_ptr[lines + 1] - first > width
    if not has.any():
        return [""] * lines.size
    found = iter(chunk.words(first[has] + width))
    return [next(found) if one else "" for one in has.tolist()]


def _structures(path: Path, endings: tuple[str, ...]) -> dict[str, Path]:
    """Return the files of rewards beside a `.tra` file by the names in their first lines, or by their numbers."""
    found = [one for one in (beside(path, ending) for ending in endings) if one.is_file()]
    if not found:
        form = re.compile(rf"{re.escape(path.stem)}\d+(?:{'|'.join(map(re.escape, endings))})")
        found = sorted(one for one in path.parent.iterdir() if form.fullmatch(one.name))
    named = {one: NAMED_REWARD.search(_start(one)) for one in found}
    return {
        str(match[1], "utf-8", "replace") if match else one.stem.removeprefix(path.stem): one
        for one, match in named.items()
    }


def _reward_files(path: Path, picks: Picks) -> list[Path | None]:
    """Return the files of state rewards and of transition rewards, of the structure that has the costs."""
    found = [_structures(path, endings) for endings in (STATE_REWARDS, TRANSITION_REWARDS)]
    names = list(dict.fromkeys(name for one in found for name in one))
    number = pick_reward(str(path), names, picks)
    if picks.reward is not None:
        return [one.get(names[number]) for one in found]
    return [[*one.values(), None][pick_reward(str(path), list(one), picks)] for one in found]


def _start(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(300)


def _read_costs(path: Path, flat: Flat, picks: Picks, width: int) -> Array:  # [C]
    """Return the cost of each choice, by the files of rewards; `width` is that of the transitions."""
    states = flat.choice_ptr.size - 1
    choice_state = np.repeat(np.arange(states), np.diff(flat.choice_ptr))
    cost = np.zeros(flat.action.size)
    of_states, source = _reward_files(path, picks)
    if of_states is not None:
        for _, _, table in _read_reward_rows(of_states, 2, states):
            cost += np.bincount(table[:, 0].astype(int), table[:, 1], states)[choice_state]
    if source is not None:
        for chunk, lines, table in _read_reward_rows(source, width, states):
            choice, place = _paid_transitions(flat, table)
            if (place < 0).any():
                words = " ".join(f"{value:g}" for value in table[np.argmin(place), :-1])
                chunk.fail(
                    int(lines[np.argmin(place)]), f"there is a reward for {words}; expected a transition of {path.name}"
                )
            cost += np.bincount(choice, flat.prob[place, 0] * table[:, -1], cost.size)
    return cost


def _paid_transitions(flat: Flat, table: Array) -> tuple[Array, Array]:
    """Return the choice and the transition of each line of rewards, -1 where there is no such transition."""
    states, state, target = flat.choice_ptr.size - 1, table[:, 0].astype(int), table[:, -2].astype(int)
    choice = choice_of(flat, state, table[:, 1].astype(int) if table.shape[1] == 4 else np.zeros(len(table), int))
    low, high = max(int(choice.min()), 0), int(choice.max()) + 1
    begin, end = flat.trans_ptr[[low, max(low, high)]]
    if begin == end:
        return choice, np.full(choice.size, -1)
    key = np.repeat(np.arange(low, high), np.diff(flat.trans_ptr[low : high + 1])) * states + flat.successor[begin:end]
    place = np.minimum(np.searchsorted(key, choice * states + target), key.size - 1)
    return choice, np.where((choice >= 0) & (key[place] == choice * states + target), begin + place, -1)


def _read_reward_rows(path: Path, width: int, states: int) -> Iterator[tuple[Chunk, Array, Array]]:
    """Yield lines of a file of rewards, some at a time, and their numbers; the first line may have sizes."""
    is_first = True
    for chunk in read_chunks(path):
        lines = np.flatnonzero(_is_data(chunk))
        if lines.size and is_first:
            is_first = False
            count = np.diff(chunk.word_ptr)[lines[0]]
            if count < width or (width == 2 and _is_header(chunk, lines, states)):
                lines = lines[1:]
        if lines.size:
            rows = _read_rows(chunk, lines, width, states) if width > 2 else _read_pairs(chunk, lines, states)
            yield chunk, lines, rows


def _is_header(chunk: Chunk, lines: Array, states: int) -> bool:
    """Return whether the first line of state rewards has the numbers of states and of lines that follow."""
    return chunk.line_text(int(lines[0])).split()[0] == str(states)


def _read_pairs(chunk: Chunk, lines: Array, states: int) -> Array:
    first = chunk.word_ptr[lines]
    wrong = np.flatnonzero(chunk.word_ptr[lines + 1] - first != 2)
    if wrong.size:
        chunk.fail(int(lines[wrong[0]]), "a line has another form; expected a state and its reward")
    return np.column_stack([chunk.whole(first, "the state", states - 1), chunk.numbers(first + 1, "the reward")])


def _text_lines(path: Path) -> Iterator[tuple[int, str]]:
    for chunk in read_chunks(path):
        for line in np.flatnonzero(np.diff(chunk.word_ptr) > 0).tolist():
            yield chunk.first + line, chunk.line_text(line)


def _read_labels(path: Path, states: int) -> dict[str, list[int]]:
    """Return the states of each label."""
    found: dict[str, list[int]] = {}
    if not path.is_file():
        return {"init": [0]}
    lines = _text_lines(path)
    number, line = next(lines, (1, ""))
    while line.startswith("#") and line != "#DECLARATION":
        number, line = next(lines, (number, ""))
    if line == "#DECLARATION":  # as Storm has it
        names = _declared_names(lines)
    else:
        names = dict(DECLARED.findall(line))
        if not names:
            raise BadFile(
                f'{path}, line {number}: {short_line(line)!r} declares no labels; expected 0="init" and so on'
            )
    for number, line in lines:
        state, _, numbers = line.replace(":", " ").partition(" ")
        if not (state.isascii() and state.isdecimal() and int(state) < states):
            raise BadFile(f"{path}, line {number}: the state is {short_line(state)!r}; expected 0 to {states - 1}")
        for label in numbers.split():
            if label not in names:
                known = ", ".join(names)
                raise BadFile(
                    f"{path}, line {number}: the label {short_line(label)!r} is not declared; expected {known}"
                )
            found.setdefault(names[label], []).append(int(state))
    return found


def _declared_names(lines: Iterator[tuple[int, str]]) -> dict[str, str]:
    names: dict[str, str] = {}
    for _, line in lines:
        if line == "#END":
            break
        names |= {name: name for name in line.split()}
    return names


def _read_states(path: Path, states: int) -> tuple[str, ...] | None:
    """Return the valuations of states, if there is a file of them."""
    if not path.is_file():
        return None
    names: list[str] = []
    for number, line in _text_lines(path):
        if line.startswith(("#", "(")):  # a comment, or the names of variables
            continue
        index, _, valuation = line.partition(":")
        if index != str(len(names)):
            raise BadFile(f"{path}, line {number}: the state is {short_line(index)!r}; expected {len(names)}")
        names.append(valuation.strip())
    if len(names) != states:
        raise BadFile(f"{path}: there are {len(names)} states; expected {states}, as the transitions have")
    return tuple(names) if len(set(names)) == states else None


def write_prism(path: Path, thing: Storable) -> None:
    """Write a model: a set of files for one sample, a folder of them for more."""
    assert isinstance(thing, UMDP)
    model, storm = merged_targets(thing), path.name.lower().endswith(FOR_STORM)
    if model.samples == 1:
        for ending, pieces in _texts(model, 0, storm):
            write_pieces(beside(path, ending), pieces)
        return
    write_folder(path, chain.from_iterable(_writers(model, k, storm) for k in range(model.samples)))


def _writers(model: UMDP, sample: int, storm: bool) -> Iterator[tuple[str, Callable[[Path], object]]]:
    for ending, pieces in _texts(model, sample, storm):
        yield f"{sample}{ending}", partial(write_pieces, pieces=pieces)


def _texts(model: UMDP, sample: int, storm: bool) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the ending and the text of each file of a sample, in pieces.

    Storm wants the word `mdp` where PRISM has sizes, names of labels for numbers, and a reward for each transition.
    """
    graph = model.graph
    goals = np.flatnonzero(graph.goal)
    live = model.prob[:, sample] > 0
    paid = int((live & (model.cost[graph.trans_choice, sample] != 0)).sum())
    sizes = f"{graph.states} {graph.choices + goals.size}"
    first = ["mdp\n"] * 2 if storm else [f"{sizes} {int(live.sum()) + goals.size}\n", f"{sizes} {paid}\n"]
    yield ENDING, chain(first[:1], _pieces(model, sample, _transition_lines))
    yield ".trew", chain(first[1:], _pieces(model, sample, _all_reward_lines if storm else _reward_lines))
    yield ".lab", _label_lines(graph, storm)
    yield ".sta", chain(["(s)\n"], (f"{s}:({s})\n" for s in range(graph.states)))
    names: dict[str, Any] = {"state_label": graph.state_label, "action_label": graph.action_label, **units_of(model)}
    if model.sample_label is not None:
        names["sample_label"] = [model.sample_label[sample]]
    if model.is_weighted:
        names["weight"] = [float(model.weight[sample])]
    yield NAMES, [json.dumps(names)]


def _label_lines(graph: Graph, storm: bool) -> Iterator[str]:
    """Yield the declaration of the labels, and a line for each state that has one."""
    init, goal = ("init", "goal") if storm else ("0", "1")
    yield "#DECLARATION\ninit goal\n#END\n" if storm else '0="init" 1="goal"\n'
    labelled = dict.fromkeys(np.flatnonzero(graph.goal).tolist(), goal)
    labelled[graph.initial] = f"{init} {goal}" if graph.initial in labelled else init
    for state, text in sorted(labelled.items()):
        yield f"{state}{' ' if storm else ': '}{text}\n"


def _pieces(model: UMDP, sample: int, lines: Callable[[UMDP, int, range], list[str]]) -> Iterator[str]:
    """Yield the lines of some states at a time, so that few are in memory."""
    for first in range(0, model.graph.states, BLOCK):
        yield "".join(lines(model, sample, range(first, min(first + BLOCK, model.graph.states))))


def _live(model: UMDP, sample: int, states: range) -> tuple[Array, Array]:
    """Return the possible transitions of some states, and the choice of each."""
    graph = model.graph
    first, last = graph.trans_ptr[graph.choice_ptr[[states.start, states.stop]]]
    row = first + np.flatnonzero(model.prob[first:last, sample] > 0)
    return row, graph.trans_choice[row]


def _transition_lines(model: UMDP, sample: int, states: range) -> list[str]:
    graph = model.graph
    row, choice = _live(model, sample, states)
    place = choice - graph.choice_ptr[graph.choice_state[choice]]
    words = [quote(graph.action_name(a), safe=PLAIN) or NO_NAME for a in range(int(graph.action.max(initial=0)) + 1)]
    columns = (graph.choice_state[choice], place, graph.successor[row], model.prob[row, sample], graph.action[choice])
    lines = [
        (s, f"{s} {c} {t} {p!r} {words[a]}\n")
        for s, c, t, p, a in zip(*(column.tolist() for column in columns), strict=True)
    ]
    lines += [(s, f"{s} 0 {s} 1 {words[0]}\n") for s in states if graph.goal[s]]
    lines.sort(key=itemgetter(0))  # which keeps the order within a state
    return [line for _, line in lines]


def _reward_lines(model: UMDP, sample: int, states: range, *, zeros: bool = False) -> list[str]:
    graph = model.graph
    row, choice = _live(model, sample, states)
    place = choice - graph.choice_ptr[graph.choice_state[choice]]
    columns = (graph.choice_state[choice], place, graph.successor[row], model.cost[choice, sample])
    found = zip(*(column.tolist() for column in columns), strict=True)
    lines = [(s, f"{s} {c} {t} {r!r}\n") for s, c, t, r in found if r or zeros]
    if zeros:
        lines += [(s, f"{s} 0 {s} 0\n") for s in states if graph.goal[s]]
        lines.sort(key=itemgetter(0))
    return [line for _, line in lines]


_all_reward_lines = partial(_reward_lines, zeros=True)


def merged_targets(model: UMDP) -> UMDP:
    """Return the model with each target once in a choice; the same model if that is so already."""
    graph = model.graph
    if not has_repeated_target(graph):
        return model
    order = np.lexsort((graph.successor, graph.trans_choice))
    row, target = graph.trans_choice[order], graph.successor[order]
    first = np.flatnonzero(np.concatenate(([True], (np.diff(row) != 0) | (np.diff(target) != 0))))
    flat = Flat(
        graph.choice_ptr, graph.action, pointers(np.bincount(row[first], minlength=graph.choices)), target[first],
        np.add.reduceat(model.prob[order], first, axis=0), model.cost,
        graph.initial, graph.state_label, graph.action_label, model.sample_label,
        model.weight if model.is_weighted else None, model.units,
    )  # fmt: skip
    return UMDP.from_flat(flat)
