"""Petrik's CSV: `idstatefrom,idaction,idstateto,idoutcome,probability,reward`, one line for each transition.

The columns are in any order; further ones are ignored. An outcome is a sample; without the column there is one. Rewards
are to be maximised. The discount is in `parameters.csv` (columns `parameter,value`) in the same folder, or in
`NAME.parameters.csv` beside `NAME.csv`; without it there is none. Where an episode starts is in `initial.csv` (columns
`idstate,probability`); without it, in the first state. A choice that has one outcome only has it in every sample.
States without lines, and states that only loop at no reward, are goals. Numbers that are not 0, 1, 2, … become names.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rue._arrays import Array
from rue._check import in_all
from rue._text import short_line
from rue.errors import BadFile, BadInput
from rue.flat import Flat
from rue.formats import policy_file
from rue.formats.assemble import Part, choice_of, flat_from_entries, put_together
from rue.formats.csv_text import bounded, cell_number, check_columns, find_header, first_filled, guess_encoding, opened
from rue.formats.names import ENDING, beside, goals_of, label_fields, names_of, read_names
from rue.formats.rewards import model_from_rewards, units_of
from rue.formats.rue_file import Storable
from rue.formats.text_table import Chunk, Growing, read_chunks
from rue.formats.writing import write_pieces, write_text
from rue.model import UMDP, Graph

STATE, ACTION, TARGET, OUTCOME, PROBABILITY, REWARD = COLUMNS = (
    "idstatefrom", "idaction", "idstateto", "idoutcome", "probability", "reward",
)  # fmt: skip
REQUIRED = tuple(name for name in COLUMNS if name != OUTCOME)
PARAMETERS, INITIAL = "parameters.csv", "initial.csv"
LINES = 1 << 20  # that are looked at together
BLOCK = 1 << 14  # choices that are written at a time


def read_csv(path: Path, model: UMDP | Graph | None) -> Storable:
    """Read a model, if the header is that of transitions; else a policy for a model."""
    try:
        encoding = guess_encoding(path)
        delimiter, columns = find_header(path, encoding, COLUMNS)
    except BadInput:  # no table; the reader of policies says what is missing
        return policy_file.read_csv(path, model)
    if not {STATE, TARGET} & {*columns}:
        return policy_file.read_csv(path, model)
    check_columns(path, columns, REQUIRED)
    if encoding != "utf-8-sig":
        raise BadFile(f"{path}, line 1: text in UTF-16; expected UTF-8")
    return _read_model(path, delimiter, columns)


def write_csv(path: Path, thing: Storable) -> None:
    """Write a model as transitions, or a policy."""
    if isinstance(thing, UMDP):
        _write_model(path, thing)
    else:
        policy_file.write_csv(path, thing)


def _read_model(path: Path, delimiter: str, columns: tuple[str, ...]) -> UMDP:
    names = read_names(path)
    table = _read_table(path, delimiter, columns)
    ids = {name: table.pop(name) for name in (STATE, TARGET, ACTION, OUTCOME)}
    count = names.get("states")
    state_id = np.arange(count) if isinstance(count, int) else _distinct(ids[STATE], ids[TARGET])
    action_id, sample_id = _distinct(ids[ACTION]), _distinct(ids[OUTCOME])
    if count is not None:
        action_id = np.arange(int(ids[ACTION].max(initial=-1)) + 1)
    elif state_id.size == 0:
        raise BadFile(f"{path}: there are no transitions; expected one at least")
    if ids[STATE].size and max(ids[STATE].max(), ids[TARGET].max()) > state_id[-1]:
        raise BadFile(f"{path}: there are more states than {beside(path, ENDING).name} says; expected {state_id.size}")
    samples = len(names["sample_label"]) if names.get("sample_label") else names.get("samples", sample_id.size)
    state, target = _places(state_id, ids.pop(STATE)), _places(state_id, ids.pop(TARGET))
    action, sample = _places(action_id, ids.pop(ACTION)), _places(sample_id, ids.pop(OUTCOME))
    flat = flat_from_entries(state, action, target, sample, table[PROBABILITY], samples, state_id.size)
    flat = replace(flat, cost=_rewards(flat, (state, action, sample), table))
    if samples > 1:
        flat = _fill_certain(path, flat, choice_of(flat, state.astype(np.int64), action), sample, (state_id, action_id))
    del state, action, sample, target, table
    labels = label_fields(names) if names else _number_names(state_id, action_id, sample_id)
    flat = replace(flat, initial=_read_initial(path, state_id), **labels)
    goal = goals_of(str(beside(path, ENDING)), names, state_id.size)
    choice_ptr, number = flat.choice_ptr, flat.action

    def line_of(choice: int) -> int:
        state = int(np.searchsorted(choice_ptr, choice, side="right")) - 1
        return _line_of(path, delimiter, columns, (int(state_id[state]), int(action_id[number[choice]])))

    flat = put_together([Part(str(path), flat, goal, line_of)])
    return model_from_rewards(str(path), flat, _read_discount(path), ours=names)


def _distinct(*ids: Array) -> Array:
    """Return the numbers that occur, in order."""
    largest, count = max(int(one.max(initial=-1)) for one in ids), sum(one.size for one in ids)
    if largest > 4 * count + 1000:
        return np.unique(np.concatenate(ids))
    there = np.zeros(largest + 1, bool)
    for one in ids:
        there[one] = True
    return np.flatnonzero(there)


def _places(known: Array, ids: Array) -> Array:
    """Return the place of each number among the known ones."""
    return ids if known.size and known[-1] == known.size - 1 else np.searchsorted(known, ids)


def _rewards(flat: Flat, index: tuple[Array, Array, Array], table: Mapping[str, Array]) -> Array:  # [C, K]
    """Return the expected reward of each choice in each sample."""
    samples = flat.prob.shape[1]
    total = np.zeros(flat.action.size * samples)
    for first in range(0, index[0].size, LINES):
        state, action, sample = (column[first : first + LINES].astype(np.int64) for column in index)
        paid = table[PROBABILITY][first : first + LINES] * table[REWARD][first : first + LINES]
        total += np.bincount(choice_of(flat, state, action) * samples + sample, paid, total.size)
    return total.reshape(-1, samples)


def _number_names(*ids: Array) -> dict[str, Any]:
    """Return the numbers as names where they are not 0, 1, 2, …"""
    kinds = ("state_label", "action_label", "sample_label")
    return {
        kind: None if np.array_equal(own, np.arange(own.size)) else tuple(map(str, own.tolist()))
        for kind, own in zip(kinds, ids, strict=True)
    }


def _fill_certain(path: Path, flat: Flat, choice: Array, sample: Array, ids: tuple[Array, Array]) -> Flat:
    """Return the rows of choices with one outcome in all samples; refuse those with some outcomes of all."""
    samples = flat.prob.shape[1]
    has = np.zeros((flat.action.size, samples), bool)
    has[choice, sample] = True
    count = has.sum(axis=1)
    partial = np.flatnonzero((count > 1) & (count < samples))
    if partial.size:
        state = int(np.searchsorted(flat.choice_ptr, partial[0], side="right")) - 1
        raise BadFile(
            f"{path}: state {ids[0][state]}, action {ids[1][flat.action[partial[0]]]} has {count[partial[0]]} of "
            f"{samples} outcomes; expected one, or all; {in_all(partial.size, 'choice', 'so')}"
        )
    single = np.flatnonzero(count < samples)
    if single.size == 0:
        return flat
    own = np.zeros(flat.action.size, np.int64)
    own[single] = np.argmax(has[single], axis=1)
    row = np.repeat(count < samples, np.diff(flat.trans_ptr))
    column = np.repeat(own, np.diff(flat.trans_ptr))
    prob, cost = flat.prob.copy(), flat.cost.copy()
    prob[row] = prob[row, column[row]][:, None]
    cost[single] = cost[single, own[single]][:, None]
    return replace(flat, prob=prob, cost=cost)


def _read_table(path: Path, delimiter: str, columns: tuple[str, ...]) -> dict[str, Array]:
    """Return the columns as numbers."""
    numbers = (PROBABILITY, REWARD)
    parts = {name: Growing(np.float64 if name in numbers else np.int32) for name in columns if name in COLUMNS}
    for cells, lines in _lines_of(path, delimiter):
        count = np.diff(cells.word_ptr)[lines]
        wrong = np.flatnonzero(count != len(columns))
        if wrong.size:
            cells.fail(int(lines[wrong[0]]), f"there are {count[wrong[0]]} filled cells; expected {len(columns)}")
        first = cells.word_ptr[lines]
        for name, part in parts.items():
            word = first + columns.index(name)
            part.append(cells.numbers(word, name) if name in numbers else cells.whole(word, name))
    found = {name: part.take() for name, part in parts.items()}
    return {OUTCOME: np.broadcast_to(np.int64(0), found[STATE].shape), **found}


def _lines_of(path: Path, delimiter: str) -> Iterator[tuple[Chunk, Array]]:
    """Yield parts of the table with the lines that are filled, without the header."""
    before = True
    for chunk in read_chunks(path):
        cells = _cells(chunk, delimiter)
        lines = np.flatnonzero(np.diff(cells.word_ptr) > 0)
        if before and lines.size:
            before, lines = False, lines[1:]
        yield cells, lines


def _line_of(path: Path, delimiter: str, columns: tuple[str, ...], ids: tuple[int, int]) -> int:
    """Return the first line of a state and an action, which is looked for when it is needed."""
    for cells, lines in _lines_of(path, delimiter):
        own = np.ones(lines.size, bool)
        for name, wanted in zip((STATE, ACTION), ids, strict=True):
            own &= cells.whole(cells.word_ptr[lines] + columns.index(name), name) == wanted
        if own.any():
            return cells.first + int(lines[np.argmax(own)])
    raise AssertionError("each choice is in the file")


def _cells(chunk: Chunk, delimiter: str) -> Chunk:
    """Return the chunk with blanks for delimiters and quotes, and with decimal points."""
    data = chunk.data
    if delimiter == ";":
        data = np.where(data == ord(","), ord("."), data).astype(np.uint8)
    cells = replace(chunk, data=data)
    return cells.with_blanks((data == ord(delimiter)) | (data == ord('"')))


def _rows(path: Path, wanted: tuple[str, str]) -> Iterator[tuple[int, str, float]]:
    """Yield the line, the key and the number of each row of a small table."""
    encoding = guess_encoding(path)
    delimiter, columns = find_header(path, encoding, wanted)
    check_columns(path, columns, wanted)
    with opened(path, encoding) as stream:
        lines = csv.reader(bounded(stream), delimiter=delimiter, skipinitialspace=True)
        first_filled(lines)
        for cells in lines:
            if any(cell.strip() for cell in cells):
                key, text = (
                    cells[columns.index(name)].strip() if len(cells) == len(columns) else "" for name in wanted
                )
                value = cell_number(text, delimiter)
                if not np.isfinite(value):
                    raise BadFile(
                        f"{path}, line {lines.line_num}: {wanted[1]} is {short_line(text)!r}; expected a number"
                    )
                yield lines.line_num, key, value


def _companion(path: Path, name: str) -> Path | None:
    places = (beside(path, f".{name}"), path.with_name(name))
    return next((place for place in places if place.is_file() and place != path), None)


def _read_discount(path: Path) -> float | None:
    source = _companion(path, PARAMETERS)
    found: float | None = None
    for line, key, value in () if source is None else _rows(source, ("parameter", "value")):
        if key == "discount":
            if not 0 < value <= 1:
                raise BadFile(f"{source}, line {line}: the discount is {value:g}; expected a number from 0 to 1")
            found = value
    return found


def _read_initial(path: Path, state_id: Array) -> int:
    source = _companion(path, INITIAL)
    if source is None:
        return 0
    start = [(line, key) for line, key, value in _rows(source, ("idstate", "probability")) if value > 0]
    if len(start) != 1:
        raise BadFile(f"{source}: {len(start)} states have a positive probability; expected one initial state")
    line, key = start[0]
    place = np.flatnonzero(state_id == (int(key) if key.isascii() and key.isdecimal() and len(key) < 19 else -1))
    if place.size == 0:
        raise BadFile(f"{source}, line {line}: the state is {short_line(key)!r}; expected one of {path.name}")
    return int(place[0])


def _write_model(path: Path, model: UMDP) -> None:
    graph = model.graph
    write_pieces(
        path, chain([",".join(COLUMNS) + "\n"], (_lines(model, first) for first in range(0, graph.choices, BLOCK)))
    )
    write_text(beside(path, f".{PARAMETERS}"), "parameter,value\ndiscount,1\n")
    write_text(beside(path, f".{INITIAL}"), f"idstate,probability\n{graph.initial},1\n")
    write_text(beside(path, ENDING), json.dumps({**names_of(model), **units_of(model), "samples": model.samples}))


def _lines(model: UMDP, first: int) -> str:
    """Return the lines of some choices."""
    graph = model.graph
    begin, end = graph.trans_ptr[[first, min(first + BLOCK, graph.choices)]]
    row, sample = np.nonzero(model.prob[begin:end])
    row += begin
    choice = graph.trans_choice[row]
    columns = (
        graph.choice_state[choice], graph.action[choice], graph.successor[row], sample,
        model.prob[row, sample], 0.0 - model.cost[choice, sample],
    )  # fmt: skip
    found = zip(*(column.tolist() for column in columns), strict=True)
    return "".join(f"{s},{a},{t},{k},{p!r},{r!r}\n" for s, a, t, k, p, r in found)
