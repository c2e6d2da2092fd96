"""Cassandra's `.pomdp` files with observed states and a hidden part that never changes.

A state of the file is what is seen and what is hidden together. Each state that may be the first one, by the belief
`start:`, is a sample, with that belief as its weight: all of them must look the same. From there on the observation
must tell the state, to someone who knows where it began: then what is observed is the state of the model, and the
hidden part is one that never changes. Others are refused by name: noisy observations, and hidden parts that switch.

States that are never reached are left out. A file without observations is an MDP, with one sample.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rue._arrays import Array, ranges, read_only
from rue._check import check_memory, in_all
from rue._text import short_line
from rue.errors import BadFile
from rue.flat import Flat
from rue.formats.assemble import ROW_TOLERANCE, flat_from_entries
from rue.formats.cassandra_tables import EVERY, Rules, Tables
from rue.formats.cassandra_text import OURS
from rue.formats.fixed_belief import at_belief, model_at_belief
from rue.formats.names import label_fields, parse_names
from rue.formats.pomdpx_text import ALMOST_ONE, choices_of_actions, discount_of, probabilities
from rue.formats.rue_file import Storable
from rue.formats.text_table import LONGEST, Growing
from rue.formats.writing import write_pieces
from rue.model import UMDP
from rue.structure_kernels import Edges, breadth_first

ENDING = ".pomdp"
BLOCK = 1 << 14  # choices that are looked at together
STATES = 1 << 12  # that are written at a time
NAMES = 1 << 16  # letters of names in a line
PREAMBLE = re.compile(rb"^\s*(?:discount|values|states|actions|observations)\s*:", re.MULTILINE)

logger = logging.getLogger("rue")


def looks_like_cassandra(start: bytes) -> bool:
    """Return whether a file that begins so is in this format."""
    return len(set(PREAMBLE.findall(start))) > 1


def read_cassandra(path: Path, model: object) -> UMDP:
    """Read a model; its samples are the states that may be the first one."""
    return _Reader(path).model()


class _Reader:
    """Makes a model of the tables of a file: X states with A actions each there, S states and K samples here."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ours = _our_names(path)
        self.tables = Tables(path).read()
        self.states, self.actions = (self.tables.size[kind] for kind in ("states", "actions"))
        what = f"{path}: {self.states} states and {self.actions} actions"
        check_memory(what, 40.0 * self.states * self.actions)
        key, self.prob, line = self.tables.transition.last()
        # Choice x * A + a is action a in state x.
        self.ptr = np.searchsorted(key, np.arange(self.states * self.actions + 1) * self.states)
        self.target = _remainders(key, self.states)
        del key
        self._check_rows(line)

    def _check_rows(self, line: Array) -> None:
        """Refuse negative numbers; keep the sum of each row, and its last line."""
        odd = np.flatnonzero((self.prob < 0) | (self.prob > 1 + ROW_TOLERANCE))
        if odd.size:
            first = odd[np.argmin(self._order(odd))]
            raise BadFile(
                f"{self.path}, line {line[first]}: the probability is {self.prob[first]:g}; expected 0 to 1; "
                f"{in_all(odd.size)}"
            )
        filled = np.flatnonzero(np.diff(self.ptr))
        self.total, self.last_line = np.zeros(self.ptr.size - 1), np.zeros(self.ptr.size - 1, np.int32)
        if filled.size:
            self.total[filled] = np.add.reduceat(self.prob, self.ptr[filled])
            self.last_line[filled] = np.maximum.reduceat(line, self.ptr[filled])

    def _order(self, entry: Array) -> Array:
        """Return the places of entries by action, then by state: the order in which they are told."""
        state, action = np.divmod(np.searchsorted(self.ptr, entry, side="right") - 1, self.actions)
        return np.asarray(action * self.states + state)

    def model(self) -> UMDP:
        """Return the model."""
        start = self._start()
        seen, place = self._written() if self.ours else self._seen(np.flatnonzero(start))
        samples, states = place.shape
        self._check_sums(np.unique(place))
        self.tables.observation.last()  # large, as the sums are, and not needed any more
        del self.total, self.last_line
        state_of = np.zeros(int(seen.max()) + 1, np.int64)
        state_of[seen[place[0]]] = np.arange(states)
        flat = self._flat(seen, place, state_of)
        initial = int(state_of[seen[np.argmax(start > 0)]])
        names = label_fields(self.ours) if self.ours else self._names(seen, place, initial)
        names["weight"] = None if samples == 1 else start[place[:, initial]]
        flat = replace(flat, initial=initial, **names)
        return model_at_belief(str(self.path), flat, self.tables.discount, self.ours, -1 if self.tables.reward else 1)

    def _flat(self, seen: Array, place: Array, state_of: Array) -> Flat:
        """Return flat arrays with rewards for costs, made of some states at a time."""
        samples, states = place.shape
        rewards, by_choice = self._rewards(seen)
        index = [Growing(np.int32) for _ in range(4 if samples > 1 else 3)]
        probs, paid = Growing(np.float64), np.zeros((states * self.actions, samples))
        step = max(BLOCK // (self.actions * samples), 1)
        for first in range(0, states, step):
            size = min(step, states - first), self.actions, samples
            state, action, sample = (axis.ravel() for axis in np.indices(size))
            state += first
            choice = place[sample, state] * self.actions + action
            length = self.ptr[choice + 1] - self.ptr[choice]
            entry = ranges(self.ptr[choice], length)
            prob, cell = self.prob[entry], np.repeat(np.arange(choice.size), length)
            reward = rewards[choice[cell]] if by_choice else rewards[entry]
            sums = np.bincount(cell, prob * reward, choice.size)
            paid[first * self.actions : (first + size[0]) * self.actions] = sums.reshape(-1, samples)
            target = state_of[seen[self.target[entry]]]
            for column, values in zip(index, (state[cell], action[cell], target, sample[cell]), strict=False):
                column.append(values)
            probs.append(prob)
        self.prob = self.target = rewards = np.empty(0)  # large, and not needed any more
        state, action, target, *several = (column.take() for column in index)
        sample = several[0] if several else np.broadcast_to(np.int32(0), state.shape)
        flat = flat_from_entries(state, action, target, sample, probs.take(), samples, states)
        choice = np.repeat(np.arange(states), np.diff(flat.choice_ptr)) * self.actions + flat.action
        return replace(flat, cost=paid[choice])

    def _start(self) -> Array:  # [X]
        if self.tables.start is not None:
            return self.tables.start
        if not self.tables.is_mdp:
            raise BadFile(
                f"{self.path}: there is no start:, so any state may be first; expected states that look the same"
            )
        start = np.zeros(self.states)
        start[0] = 1.0
        return start

    def _written(self) -> tuple[Array, Array]:
        """Return what is seen in each state, and the state for each sample and state of the model, as rue wrote it."""
        states = self.ours.get("states")
        if type(states) is not int or states < 1 or self.states % states:
            raise BadFile(f"{self.path}, line 1: the names are damaged; expected those of {self.states} states")
        samples = self.states // states
        place = np.arange(self.states).reshape(states, samples).T
        return np.arange(self.states) // samples, place

    def _seen(self, first: Array) -> tuple[Array, Array]:
        """Return the observation in each state, and the state for each sample and each observation that is made."""
        reached = [self._reached(int(state)) for state in first]
        every = np.unique(np.concatenate(reached))
        seen = self._observations(every)
        if (seen[first] != seen[first[0]]).any():
            other = first[np.argmax(seen[first] != seen[first[0]])]
            raise BadFile(
                f"{self.path}: the first state may be {self._state(first[0])} or {self._state(other)}, which look "
                "different; expected states that look the same"
            )
        made = np.unique(seen[every])
        place = np.full((first.size, made.size), -1)
        for k, own in enumerate(reached):
            number = np.searchsorted(made, seen[own])
            place[k, number] = own
            lost = own[place[k, number] != own]
            if lost.size:
                kept = place[k, np.searchsorted(made, seen[lost[0]])]
                raise BadFile(
                    f"{self.path}: from {self._state(first[k])}, both {self._state(lost[0])} and {self._state(kept)} "
                    f"may follow, and both give the observation {self._observation(seen[lost[0]])}; expected an "
                    "observation that tells the state, and a hidden part that never changes"
                )
        self._tell_missing(every.size, int((place < 0).any(axis=0).sum()))
        giver = np.argmax(place >= 0, axis=0)  # the first sample that reaches it
        return seen, np.where(place < 0, place[giver, np.arange(made.size)], place)

    def _tell_missing(self, reached: int, filled: int) -> None:
        if reached < self.states:
            logger.warning(
                "%s: %d of %d states are never reached, and are left out", self.path, self.states - reached, self.states
            )
        if filled:
            logger.warning(
                "%s: %d states are not reached in every sample; there they get the rows of one that reaches them",
                self.path, filled,
            )  # fmt: skip

    def _reached(self, first: int) -> Array:
        """Return the states that may follow one, and that one."""
        ptr = read_only(self.ptr[:: self.actions].copy())
        edge = read_only(np.arange(self.target.size, dtype=np.int32))
        edges = Edges(ptr, edge, read_only(self.target))
        found = breadth_first(edges, np.ones(edge.size, bool), read_only(np.array([first], np.int32)))
        return np.sort(found).astype(np.int64)

    def _observations(self, reached: Array) -> Array:  # [X]
        """Return the observation in each state; refuse one that is uncertain, or depends on the action."""
        if self.tables.is_mdp:
            return np.arange(self.states)
        key, value, line = self.tables.observation.last()
        row, seen = np.divmod(key, self.tables.size["observations"])
        sure = np.zeros((self.actions, self.states), np.int64) - 1
        certain = value > 1 - ROW_TOLERANCE
        sure.ravel()[row[certain]] = seen[certain]
        wrong = np.argwhere((sure[:, reached] < 0) | (sure[:, reached] != sure[0, reached]))
        if wrong.size:
            action, state = int(wrong[0][0]), reached[wrong[0][1]]
            found = np.flatnonzero(row == action * self.states + state)
            place = f", line {line[found].max()}" if found.size else ""
            what = "is uncertain" if sure[action, state] < 0 else "depends on the action"
            raise BadFile(
                f"{self.path}{place}: the observation in state {self._state(state)} after action "
                f"{short_line(self.tables.name('actions', action))} {what}; expected one that tells the state"
            )
        return np.asarray(sure[0])

    def _check_sums(self, kept: Array) -> None:
        """Refuse rows of the states that are kept which do not sum to one."""
        choice = (np.arange(self.actions)[:, None] + kept * self.actions).ravel()
        wrong = choice[np.abs(self.total[choice] - 1) > ROW_TOLERANCE]
        if wrong.size:
            state, action = divmod(int(wrong[0]), self.actions)
            place = f", line {self.last_line[wrong[0]]}" if self.last_line[wrong[0]] else ""
            raise BadFile(
                f"{self.path}{place}: probabilities of state {self._state(state)}, action "
                f"{short_line(self.tables.name('actions', action))} sum to {self.total[wrong[0]]:.10g}; expected 1; "
                f"{in_all(wrong.size, 'choice')}"
            )

    def _rewards(self, seen: Array) -> tuple[Array, bool]:
        """Return the reward of each choice by the last rule, and true.

        If it matters where a choice leads, return the reward of each transition, and false.
        """
        rules = self.tables.rules()
        by_choice = bool((rules.address[:, 2:] == EVERY).all())
        reward = np.zeros(self.ptr.size - 1 if by_choice else self.target.size)
        every = rules.address[:, :2] == EVERY
        count = np.where(every[:, 0], self.actions, 1) * np.where(every[:, 1], self.states, 1)
        for first, last in _runs(np.cumsum(count) // BLOCK):
            rule = np.repeat(np.arange(first, last), count[first:last])
            number = ranges(np.zeros(last - first, np.int64), count[first:last])
            actions = np.where(every[rule, 0], self.actions, 1)
            action = np.where(every[rule, 0], number % actions, rules.address[rule, 0])
            state = np.where(every[rule, 1], number // actions, rules.address[rule, 1])
            choice = state * self.actions + action
            if by_choice:
                reward[choice] = rules.figure[rule]  # the last one counts where a choice comes again
            else:
                self._reward_entries(reward, rules, (rule, choice), seen)
        return reward, by_choice

    def _reward_entries(self, reward: Array, rules: Rules, pair: tuple[Array, Array], seen: Array) -> None:
        """Fill in the reward of each transition of some choices, each by a rule, that the rule fits."""
        rule, choice = pair
        length = self.ptr[choice + 1] - self.ptr[choice]
        entry, rule = ranges(self.ptr[choice], length), np.repeat(rule, length)
        target, wanted = self.target[entry], rules.address[rule]
        fits = (wanted[:, 2] == EVERY) | (wanted[:, 2] == target)
        fits &= (wanted[:, 3] == EVERY) | (wanted[:, 3] == seen[target])
        reward[entry[fits]] = rules.figure[rule[fits]]  # the last one counts where an entry comes again

    def _state(self, number: int) -> str:
        return short_line(self.tables.name("states", number))

    def _observation(self, number: int) -> str:
        return short_line(self.tables.name("observations", number))

    def _names(self, seen: Array, place: Array, initial: int) -> dict[str, Any]:
        """Return names as the file has them; numbers where it gives only how many there are."""
        tables = self.tables
        kind = "states" if tables.is_mdp else "observations"
        made = seen[place[0]].tolist()
        plain = tables.names[kind] is None and made == list(range(len(made)))
        hidden = tables.names["states"] is not None and len(place) > 1
        return {
            "state_label": None if plain else tuple(tables.name(kind, one) for one in made),
            "action_label": tables.names["actions"],
            "sample_label": tuple(tables.name("states", one) for one in place[:, initial]) if hidden else None,
        }


def _remainders(key: Array, size: int) -> Array:
    """Return keys modulo a size, as small numbers."""
    found = np.empty(key.size, np.int32)
    for first in range(0, key.size, BLOCK):
        found[first : first + BLOCK] = key[first : first + BLOCK] % size
    return found


def _runs(block: Array) -> Iterator[tuple[int, int]]:
    """Yield where runs of the same number begin and end."""
    edge = np.flatnonzero(np.diff(block)) + 1
    if block.size:
        yield from zip([0, *edge.tolist()], [*edge.tolist(), block.size], strict=True)


def _our_names(path: Path) -> Mapping[str, Any]:
    """Return what rue wrote into the first lines, if it did."""
    parts = []
    with path.open("rb") as stream:
        while (line := stream.readline(LONGEST)).startswith(OURS):
            parts.append(line.removeprefix(OURS).strip(b"\r\n"))
    if not parts:
        return {}
    return parse_names(f"{path}, line 1", b"".join(parts))


def write_cassandra(path: Path, thing: Storable) -> None:
    """Write a model at the belief that its weights are."""
    assert isinstance(thing, UMDP)
    model, names = at_belief(thing)
    write_pieces(path, _pieces(model, names))


def _pieces(model: UMDP, names: dict[str, Any]) -> Iterator[str]:
    """Yield the text of the file: state s in sample k has the number s · K + k, and looks like s."""
    graph, samples = model.graph, model.samples
    actions = int(graph.action.max(initial=0)) + 1
    keep = names["discount"] is None
    discount = discount_of(model) if not keep else ALMOST_ONE
    text = json.dumps(names)
    yield from (f"{OURS.decode()}{text[i : i + NAMES]}\n" for i in range(0, len(text), NAMES))
    yield f"discount: {discount!r}\nvalues: reward\n"
    yield f"states: {graph.states * samples}\nactions: {actions}\nobservations: {graph.states}\nstart:\n"
    start = np.zeros((graph.states, samples))
    start[graph.initial] = model.weight
    for first in range(0, graph.states, STATES):
        yield "".join(" ".join(map(repr, row)) + "\n" for row in start[first : first + STATES].tolist())
    for first in range(0, graph.states, STATES):
        states = range(first, min(first + STATES, graph.states))
        yield "".join(f"O: * : {s * samples + k} : {s} 1.0\n" for s in states for k in range(samples))
    prob = model.prob if keep else probabilities(model)
    for first in range(0, graph.states, STATES):
        yield "".join(_lines(model, prob, actions, range(first, min(first + STATES, graph.states))))


def _lines(model: UMDP, prob: Array, actions: int, states: range) -> Iterator[str]:
    """Yield the transitions and rewards of some states, in the order in which they are read fastest."""
    graph, samples = model.graph, model.samples
    choices = slice(graph.choice_ptr[states.start], graph.choice_ptr[states.stop])
    rows = slice(graph.trans_ptr[choices.start], graph.trans_ptr[choices.stop])
    probs, costs, targets = prob[rows].tolist(), model.cost[choices].tolist(), graph.successor[rows].tolist()
    ptr = (graph.trans_ptr[choices.start : choices.stop + 1] - rows.start).tolist()
    for state, own in choices_of_actions(model, actions, states):
        for k in range(samples):
            place = state * samples + k
            if not own:
                yield f"T: * : {place} : {place} 1.0\n"
            for action, choice in enumerate(own):
                c = choice - choices.start
                for t in range(ptr[c], ptr[c + 1]):
                    if probs[t][k]:
                        yield f"T: {action} : {place} : {targets[t] * samples + k} {probs[t][k]!r}\n"
                if costs[c][k]:
                    yield f"R: {action} : {place} : * : * {0.0 - costs[c][k]!r}\n"
