"""POMDPX with observed states and one hidden variable that never changes: its values are the samples.

The observed state may have several variables (`fullyObs="true"`); their values together are a state of the model. The
hidden variable is drawn once, by its initial belief, which gives the weights of the samples, and its transition is the
identity: one that switches is refused, and so are observations, since they would tell more than the state does. Rewards
may have any of these variables as parents, also those of the next state; several reward functions are added up.

In a table an instance names a value for each parent and for the variable: `*` stands for all of them with the same
numbers, `-` for all of them with a number each, the last one fastest. A later entry replaces an earlier one. What no
entry names is zero. `identity` and `uniform` stand for tables.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rue._arrays import Array, ranges
from rue._check import check_memory, in_all
from rue._text import short_line
from rue.flat import Flat
from rue.formats.assemble import ROW_TOLERANCE, choice_of, flat_from_entries, last_entries
from rue.formats.fixed_belief import at_belief, model_at_belief
from rue.formats.names import label_fields, parse_names
from rue.formats.pomdpx_entries import Values, expand, read_piece
from rue.formats.pomdpx_text import pomdpx_pieces
from rue.formats.rue_file import Storable
from rue.formats.text_table import Growing, parse_number
from rue.formats.writing import write_pieces
from rue.formats.xml_tree import Node, read_tree
from rue.model import UMDP

ENDING = ".pomdpx"
OURS = "rue: "
BLOCK = 1 << 14  # choices that are looked at together
IDENTITY_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Variable:
    """A variable with its values by name."""

    name: str  # of the state before a step
    after: str  # of the state after it
    values: Values
    node: Node
    observed: bool = True

    @property
    def size(self) -> int:
        """How many values there are."""
        return len(self.values)


@dataclass(frozen=True, eq=False)
class Factor:
    """A sparse table: the parents' values as one number, the variable's value, and a number for both."""

    parents: tuple[str, ...]
    ptr: Array  # [rows+1]
    column: Array
    value: Array


def looks_like_pomdpx(start: bytes) -> bool:
    """Return whether a file that begins so is in this format."""
    return b"<pomdpx" in start


def read_pomdpx(path: Path, model: object) -> UMDP:
    """Read a model; its samples are the values of the hidden variable."""
    return _Reader(read_tree(path, "Parameter", "Entry")).model()


class _Reader:
    """Reads the tree of a file."""

    def __init__(self, root: Node) -> None:
        if root.tag != "pomdpx":
            root.fail(f"the root is <{root.tag}>; expected <pomdpx>")
        self.root, self.path = root, root.path
        variables = root.get("Variable")
        every = [self._state_variable(node) for node in variables.all("StateVar")]
        self.observed = [one for one in every if one.observed]
        hidden = [one for one in every if not one.observed]
        if len(hidden) > 1:
            hidden[1].node.fail(f"{hidden[0].name} and {hidden[1].name} are hidden; expected one hidden variable")
        if not self.observed:
            variables.fail('no variable is observed; expected the state with fullyObs="true"')
        self.hidden = hidden[0] if hidden else None
        node = variables.get("ActionVar")
        self.action = Variable(node.attribute("vname"), "", _values(node, "a"), node)
        self.size = {one.name: one.size for one in (*every, self.action)} | {one.after: one.size for one in every}
        self.value = {one.name: one.values for one in (*every, self.action)} | {one.after: one.values for one in every}
        self.ours = self._our_names()

    def _state_variable(self, node: Node) -> Variable:
        observed = node.attributes.get("fullyObs", "false").strip().lower() == "true"
        names = node.attribute("vnamePrev"), node.attribute("vnameCurr")
        return Variable(*names, _values(node, "s"), node, observed)

    def _our_names(self) -> dict[str, Any]:
        for node in self.root.all("Description"):
            if node.text.startswith(OURS):
                return dict(parse_names(f"{self.path}, line {node.line}", node.text.removeprefix(OURS)))
        return {}

    def model(self) -> UMDP:
        """Return the model."""
        states, actions = math.prod(one.size for one in self.observed), self.action.size
        samples = self.hidden.size if self.hidden else 1
        what = f"{self.path}: {states} states, {actions} actions and {samples} samples"
        check_memory(what, 40.0 * states * actions * samples)
        weight = self._weights(samples)
        initial = self._initial()
        factors = self._transitions()
        flat = self._flat(factors, (states, actions, samples))
        self._check_rows(flat, states * actions)
        self._check_observations()
        names = label_fields(self.ours) if self.ours else self._names()
        flat = replace(flat, initial=initial, **{**names, "weight": weight})
        return model_at_belief(str(self.path), flat, self._discount(), self.ours)

    def _flat(self, factors: dict[str, Factor], sizes: tuple[int, int, int]) -> Flat:
        """Return flat arrays with rewards for costs, made of some states at a time."""
        states, actions, samples = sizes
        order, rewards = self._in_order(factors), self._reward_tables()
        index = [Growing(np.int32) for _ in range(4 if samples > 1 else 3)]
        probs, paid = Growing(np.float64), np.zeros((states * actions, samples))
        step = max(BLOCK // (actions * samples), 1)
        for first in range(0, states, step):
            size = min(step, states - first)
            grid = np.indices((size, actions, samples)).reshape(3, -1)
            grid[0] += first
            now = dict(zip((one.name for one in self.observed), np.unravel_index(grid[0], self._shape), strict=True))
            now |= {self.action.name: grid[1]} | ({self.hidden.name: grid[2]} if self.hidden else {})
            prob, origin = np.ones(grid.shape[1]), np.arange(grid.shape[1])
            for variable in order:
                now, prob, origin = self._step(factors[variable.after], variable, now, (prob, origin))
            target = np.ravel_multi_index([now[one.after] for one in self.observed], self._shape)
            sums = np.bincount(origin, prob * self._rewards(now, rewards), grid.shape[1])
            paid[first * actions : (first + size) * actions] = sums.reshape(-1, samples)
            for column, values in zip(index, (grid[0][origin], grid[1][origin], target, grid[2][origin]), strict=False):
                column.append(values)
            probs.append(prob)
        factors.clear()  # large, and not needed any more
        state, action, target, *several = (column.take() for column in index)
        sample = several[0] if several else np.broadcast_to(np.int32(0), state.shape)
        flat = flat_from_entries(state, action, target, sample, probs.take(), samples, states)
        choice = np.repeat(np.arange(states), np.diff(flat.choice_ptr)) * actions + flat.action
        return replace(flat, cost=paid[choice])

    def _step(
        self, factor: Factor, variable: Variable, now: dict[str, Array], rows: tuple[Array, Array]
    ) -> tuple[dict[str, Array], Array, Array]:
        """Return the rows after a variable has its next value."""
        row = self._row(factor.parents, now)
        length = factor.ptr[row + 1] - factor.ptr[row]
        entry = ranges(factor.ptr[row], length)
        now = {name: np.repeat(column, length) for name, column in now.items()}
        now[variable.after] = factor.column[entry].astype(np.int64)
        return now, np.repeat(rows[0], length) * factor.value[entry], np.repeat(rows[1], length)

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(one.size for one in self.observed)

    def _discount(self) -> float:
        node = self.root.get("Discount")
        try:
            value = parse_number(node.text.strip())
        except ValueError:
            value = -1.0
        if not 0 < value <= 1:
            node.fail(f"the discount is {short_line(node.text)!r}; expected a number from 0 to 1")
        return value

    def _names(self) -> dict[str, Any]:
        """Return names as the file has them; numbers where it gives only how many there are."""
        counted = len(self.observed) == 1 and not self.observed[0].values.names
        hidden = None if self.hidden is None else self.hidden.values.names
        return {
            "state_label": None if counted else tuple(_products([one.values for one in self.observed])),
            "action_label": self.action.values.names or None,
            "sample_label": hidden or None,
        }

    def _check_rows(self, flat: Flat, rows: int) -> None:
        if flat.action.size < rows:
            known = choice_of(flat, *np.divmod(np.arange(rows), self.action.size))
            state, action = divmod(int(np.argmin(known)), self.action.size)
            name = _products([one.values for one in self.observed])[state]
            self.root.get("StateTransitionFunction").fail(
                f"state {short_line(name)}, action {self.action.values[action]} leads nowhere; expected a probability"
            )

    def _weights(self, samples: int) -> Array | None:
        if self.hidden is None:
            return None
        factor = self._factor_of("InitialStateBelief", self.hidden, self.hidden.name)
        weight = np.zeros(samples)
        weight[factor.column] = factor.value
        if abs(weight.sum() - 1) > 1e-5 or weight.min() < 0:
            self.hidden.node.fail(f"the initial belief of {self.hidden.name} sums to {weight.sum():g}; expected 1")
        return weight

    def _initial(self) -> int:
        place = []
        for one in self.observed:
            factor = self._factor_of("InitialStateBelief", one, one.name)
            sure = np.flatnonzero(np.abs(factor.value - 1) < 1e-9)
            if sure.size != 1 or factor.value.size != 1:
                one.node.fail(f"the initial value of {one.name} is not certain; expected probability 1 for one value")
            place.append(int(factor.column[0]))
        return int(np.ravel_multi_index(place, self._shape))

    def _factor_of(self, section: str, variable: Variable, name: str) -> Factor:
        found = [node for node in self.root.get(section).all("CondProb") if node.get("Var").text.strip() == name]
        if len(found) != 1:
            variable.node.fail(f"<{section}> has {len(found)} tables for {name}; expected one")
        parents = tuple(parent for parent in found[0].get("Parent").text.split() if parent != "null")
        if section == "InitialStateBelief" and parents:
            found[0].fail(f"the initial belief of {name} has the parent {parents[0]}; expected null")
        return self._factor(found[0], parents, name)

    def _transitions(self) -> dict[str, Factor]:
        factors = {one.after: self._factor_of("StateTransitionFunction", one, one.after) for one in self.observed}
        for name, factor in factors.items():
            self._check_factor(name, factor)
        if self.hidden is not None:
            factor = self._factor_of("StateTransitionFunction", self.hidden, self.hidden.after)
            if not self._is_identity(factor, self.hidden):
                self.hidden.node.fail(
                    f"the hidden variable {self.hidden.name} changes; expected one that never does, with the "
                    "transition identity"
                )
        return factors

    def _check_factor(self, name: str, factor: Factor) -> None:
        """Refuse a row of a table that does not sum to one, with the line of its last entry; empty rows may be."""
        filled = np.flatnonzero(np.diff(factor.ptr))
        total = np.add.reduceat(factor.value, factor.ptr[filled]) if filled.size else np.zeros(0)
        least = np.minimum.reduceat(factor.value, factor.ptr[filled]) if filled.size else total
        off = filled[(np.abs(total - 1) > ROW_TOLERANCE) | (least < 0)]
        if off.size == 0:
            return
        row, shape = int(off[0]), tuple(self.size[parent] for parent in factor.parents)
        places = np.unravel_index(row, shape) if shape else ()
        given = " ".join(self.value[parent][int(i)] for parent, i in zip(factor.parents, places, strict=True))
        own = factor.value[factor.ptr[row] : factor.ptr[row + 1]]
        what = f"a probability of {own.min():g}" if own.min() < 0 else f"probabilities that sum to {own.sum():.10g}"
        self._last_entry(name, factor, row).fail(
            f"{name} has {what} for {short_line(given)}; expected numbers, 0 or more, that sum to 1; "
            f"{in_all(off.size, 'row', 'so')}"
        )

    def _last_entry(self, name: str, factor: Factor, row: int) -> Node:
        """Return the last entry that names a row of a table."""
        tables = self.root.get("StateTransitionFunction").all("CondProb")
        found = next(node for node in tables if node.get("Var").text.strip() == name).get("Parameter")
        axes = (*factor.parents, name)
        shape = tuple(self.size[axis] for axis in axes)
        left_out = (node for piece, data in found.data() for node in found.nodes(piece, data))
        for entry in chain(found.all("Entry"), left_out):
            if entry.tag == "Entry" and (self._entry(entry, axes, shape, "ProbTable")[0] // shape[-1] == row).any():
                found = entry
        return found

    def _check_observations(self) -> None:
        """Refuse observations that tell about the hidden variable, and so more than the state does."""
        hidden = self.hidden
        if hidden is None:
            return
        for node in self.root.get("Variable").all("ObsVar"):
            one = Variable(node.attribute("vname"), "", _values(node, "o"), node)
            if one.size == 1:
                continue
            self.size[one.name], self.value[one.name] = one.size, one.values
            factor = self._factor_of("ObsFunction", one, one.name)
            for axis, parent in enumerate(factor.parents):
                if parent in (hidden.name, hidden.after) and not self._is_same(factor, axis, one.size):
                    node.fail(
                        f"the observation {one.name} depends on the hidden variable {hidden.name}; expected one that "
                        "tells no more than the state"
                    )

    def _is_same(self, factor: Factor, axis: int, width: int) -> bool:
        """Return whether a table is the same for all values of a parent."""
        shape = (*(self.size[parent] for parent in factor.parents), width)
        check_memory(f"{self.path}: a table of {math.prod(shape)} numbers", 8.0 * math.prod(shape))
        table = np.zeros((factor.ptr.size - 1, width))
        table[np.repeat(np.arange(factor.ptr.size - 1), np.diff(factor.ptr)), factor.column] = factor.value
        return bool((np.ptp(table.reshape(shape), axis=axis) < IDENTITY_TOLERANCE).all())

    def _is_identity(self, factor: Factor, hidden: Variable) -> bool:
        if hidden.name not in factor.parents:
            return hidden.size == 1
        row = np.repeat(np.arange(factor.ptr.size - 1), np.diff(factor.ptr))
        shape = tuple(self.size[parent] for parent in factor.parents)
        before = np.unravel_index(row, shape)[factor.parents.index(hidden.name)]
        every = bool((np.diff(factor.ptr) == 1).all())
        return every and bool((before == factor.column).all() and (np.abs(factor.value - 1) < IDENTITY_TOLERANCE).all())

    def _in_order(self, factors: dict[str, Factor]) -> list[Variable]:
        """Return the observed variables, each after those of the next state that it depends on."""
        after = {one.after for one in (*self.observed, *([self.hidden] if self.hidden else ()))}
        waiting, done, order = list(self.observed), set(self.size) - after, []
        while waiting:
            ready = [one for one in waiting if {*factors[one.after].parents} <= done]
            if not ready:
                waiting[0].node.fail(
                    f"{waiting[0].after} depends on itself, or on the next hidden value; expected neither"
                )
            order.append(ready[0])
            done.add(ready[0].after)
            waiting.remove(ready[0])
        return order

    def _row(self, parents: Sequence[str], now: dict[str, Array]) -> Array:
        """Return the values of parents as one number, for each row."""
        length = next(iter(now.values())).size
        row = np.zeros(length, np.int64)
        for parent in parents:
            row = row * self.size[parent] + now[parent]
        return row

    def _rewards(self, now: dict[str, Array], tables: list[tuple[tuple[str, ...], Array]]) -> Array:
        """Return the reward of each transition."""
        total = np.zeros(next(iter(now.values())).size)
        if self.hidden is not None:
            now = {**now, self.hidden.after: now[self.hidden.name]}
        for parents, table in tables:
            total += table[self._row(parents, now)]
        return total

    def _reward_tables(self) -> list[tuple[tuple[str, ...], Array]]:
        """Return the parents and the table of each reward function."""
        found = []
        for node in self.root.get("RewardFunction").all("Func"):
            parents = tuple(parent for parent in node.get("Parent").text.split() if parent != "null")
            factor = self._factor(node, parents, None)
            table = np.zeros(factor.ptr.size - 1)
            table[np.flatnonzero(np.diff(factor.ptr))] = factor.value
            found.append((parents, table))
        return found

    def _factor(self, node: Node, parents: tuple[str, ...], name: str | None) -> Factor:
        """Return the table of a variable, or of a reward."""
        axes = parents if name is None else (*parents, name)
        for axis in axes:
            if axis not in self.size:
                node.fail(f"there is no variable {axis!r}; expected one of {', '.join(self.size)}")
        shape = tuple(self.size[axis] for axis in axes)
        rows, width = math.prod(shape[:-1] if name else shape), shape[-1] if name else 1
        check_memory(f"{node.path}, line {node.line}: a table of {rows} rows", 8.0 * rows)
        parameter = node.get("Parameter")
        if parameter.attributes.get("type", "TBL") != "TBL":
            parameter.fail(f"a table of type {parameter.attributes['type']!r}; expected TBL")
        tag = "ProbTable" if name else "ValueTable"
        key, value = Growing(np.int64), Growing(np.float64)
        for places, numbers in self._entries(parameter, axes, shape, tag):
            key.append(places)
            value.append(numbers)
        keys, values = last_entries(key.take(), value.take())
        column = np.empty(keys.size, np.int32)
        for first in range(0, keys.size, BLOCK):
            column[first : first + BLOCK] = keys[first : first + BLOCK] % width
        return Factor(parents, np.searchsorted(keys, np.arange(rows + 1) * width), column, values)

    def _entries(
        self, parameter: Node, axes: Sequence[str], shape: tuple[int, ...], tag: str
    ) -> Iterator[tuple[Array, Array]]:
        """Yield the places that entries name, as numbers, and what they say there."""
        yield from (self._entry(entry, axes, shape, tag) for entry in parameter.all("Entry"))
        values = [self.value[axis] for axis in axes]
        for piece, data in parameter.data():
            entries = read_piece(self.path, piece, data, values, tag)
            found = None if entries is None else expand(entries, shape)
            if found is None:
                nodes = [node for node in parameter.nodes(piece, data) if node.tag == "Entry"]
                found = (self._entry(node, axes, shape, tag) for node in nodes)
            yield from found

    def _entry(self, entry: Node, axes: Sequence[str], shape: tuple[int, ...], tag: str) -> tuple[Array, Array]:
        """Return the places that an entry names, as numbers, and what it says there."""
        words = entry.get("Instance").text.split()
        if len(words) != len(axes):
            entry.fail(f"the instance has {len(words)} values; expected {len(axes)}: {' '.join(axes)}")
        place: list[Array] = []
        for axis, word in zip(axes, words, strict=True):
            if word in ("*", "-"):
                place.append(np.arange(self.size[axis]))
            elif self.value[axis].number(word) >= 0:
                place.append(np.array([self.value[axis].number(word)]))
            else:
                entry.fail(f"{short_line(word)!r} is no value of {axis}; expected one of {self.value[axis].few()}")
        count = math.prod(values.size for values in place)
        check_memory(f"{entry.path}, line {entry.line}: an entry for {count} places", 24.0 * count)
        key = np.zeros((1,) * len(axes), np.int64)
        for i, (values, size) in enumerate(zip(place, shape, strict=True)):
            key = key * size + values.reshape([-1 if j == i else 1 for j in range(len(axes))])
        table = entry.get(tag).text.split()
        spans = [i for i, word in enumerate(words) if word == "-"]
        numbers = self._numbers(entry, table, [shape[i] for i in spans], shape[-1] if shape else 1)
        wide = numbers.reshape([shape[i] if i in spans else 1 for i in range(len(axes))])
        return key.ravel(), np.broadcast_to(wide, key.shape).ravel()

    def _numbers(self, entry: Node, table: list[str], spans: list[int], values: int) -> Array:
        if table == ["uniform"]:
            return np.full(spans, 1 / values)
        if table == ["identity"]:
            if len(spans) != 2 or spans[0] != spans[1]:
                entry.fail(
                    "identity stands for a table that is no square; expected - for a parent and for the variable"
                )
            return np.eye(spans[0])
        try:
            numbers = np.array([parse_number(word) for word in table])
        except ValueError:
            entry.fail(f"{short_line(' '.join(table))!r} is no table; expected numbers, identity or uniform")
        if numbers.size != int(np.prod(spans)):
            entry.fail(f"the table has {numbers.size} numbers; expected {int(np.prod(spans))}, one for each - together")
        if not np.isfinite(numbers).all():
            entry.fail("a number is not finite; expected finite numbers")
        return numbers


def _values(node: Node, letter: str) -> Values:
    """Return the values of a variable: their names, or letters with numbers."""
    count = node.all("NumValues")
    if not count:
        names = tuple(node.get("ValueEnum").text.split())
        if not names or len(set(names)) != len(names):
            node.fail("the values are empty, or one is there twice; expected different names")
        return Values(names)
    text = count[0].text.strip()
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:20]) < 10**8):
        count[0].fail(f"the number of values is {short_line(text)!r}; expected a whole number over 0")
    return Values(letter=letter, count=int(text))


def _products(values: Sequence[Values]) -> list[str]:
    texts = [""]
    for one in values:
        texts = [f"{text}, {name}" if text else name for text in texts for name in one]
    return texts


def write_pomdpx(path: Path, thing: Storable) -> None:
    """Write a model at the belief that its weights are."""
    assert isinstance(thing, UMDP)
    model, names = at_belief(thing)
    pieces = pomdpx_pieces(model, model.weight, description=OURS + json.dumps(names), keep=names["discount"] is None)
    write_pieces(path, pieces)
