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

from rue._arrays import Array, pointers, ranges
from rue._check import in_all
from rue._text import short_line
from rue.errors import BadFile
from rue.formats.assemble import ROW_TOLERANCE, choice_of, flat_from_entries
from rue.formats.cassandra_text import OURS, Tables
from rue.formats.fixed_belief import at_belief, model_at_belief
from rue.formats.names import check_names, label_fields
from rue.formats.pomdpx_text import ALMOST_ONE, discount_of, every_action, probabilities
from rue.formats.rue_file import Storable
from rue.formats.text_table import read_chunks
from rue.formats.writing import write_pieces
from rue.model import UMDP

ENDING = ".pomdp"
BLOCK = 1 << 20  # places of the table of rewards that are looked up at a time
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
        key, self.prob, line = self.tables.transition.last()
        choice, self.target = np.divmod(key, self.states)
        self.ptr = pointers(np.bincount(choice, minlength=self.actions * self.states))  # of choices a * X + x
        self._check_rows(choice, line)

    def _check_rows(self, choice: Array, line: Array) -> None:
        """Refuse rows with negative numbers, and rows that do not sum to one."""
        odd = np.flatnonzero((self.prob < 0) | (self.prob > 1 + ROW_TOLERANCE))
        if odd.size:
            raise BadFile(
                f"{self.path}, line {line[odd[0]]}: the probability is {self.prob[odd[0]]:g}; expected 0 to 1; "
                f"{in_all(odd.size)}"
            )
        self.total = np.bincount(choice, self.prob, self.ptr.size - 1)
        self.last_line = np.zeros(self.ptr.size - 1, np.int64)
        np.maximum.at(self.last_line, choice, line)

    def model(self) -> UMDP:
        """Return the model."""
        start = self._start()
        seen, place = self._written() if self.ours else self._seen(np.flatnonzero(start))
        samples, states = place.shape
        kept = np.unique(place)
        self._check_sums(kept)
        state_of = np.zeros(int(seen.max()) + 1, np.int64)
        state_of[seen[place[0]]] = np.arange(states)
        sample, state, action = (axis.ravel() for axis in np.indices((samples, states, self.actions)))
        choice = action * self.states + place[sample, state]
        length = np.diff(self.ptr)[choice]
        entry = ranges(self.ptr[choice], length)
        state, action, sample = (np.repeat(axis, length) for axis in (state, action, sample))
        prob, target = self.prob[entry], state_of[seen[self.target[entry]]]
        flat = flat_from_entries(state, action, target, sample, prob, samples, states)
        cell = choice_of(flat, state, action) * samples + sample
        reward = np.bincount(cell, prob * self._rewards(seen)[entry], flat.action.size * samples)
        initial = int(state_of[seen[np.argmax(start > 0)]])
        names = label_fields(self.ours) if self.ours else self._names(seen, place, initial)
        names["weight"] = None if samples == 1 else start[place[:, initial]]
        flat = replace(flat, cost=reward.reshape(-1, samples), initial=initial, **names)
        return model_at_belief(str(self.path), flat, self.tables.discount, self.ours, -1 if self.tables.reward else 1)

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
        if not isinstance(states, int) or states < 1 or self.states % states:
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
        known = np.zeros(self.states, bool)
        known[first] = True
        new = np.array([first])
        action = np.arange(self.actions)[:, None] * self.states
        while new.size:
            choice = (action + new).ravel()
            found = np.unique(self.target[ranges(self.ptr[choice], np.diff(self.ptr)[choice])])
            new = found[~known[found]]
            known[new] = True
        return np.flatnonzero(known)

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
        choice = (np.arange(self.actions)[:, None] * self.states + kept).ravel()
        wrong = choice[np.abs(self.total[choice] - 1) > ROW_TOLERANCE]
        if wrong.size:
            action, state = divmod(int(wrong[0]), self.states)
            place = f", line {self.last_line[wrong[0]]}" if self.last_line[wrong[0]] else ""
            raise BadFile(
                f"{self.path}{place}: probabilities of state {self._state(state)}, action "
                f"{short_line(self.tables.name('actions', action))} sum to {self.total[wrong[0]]:.10g}; expected 1; "
                f"{in_all(wrong.size, 'choice')}"
            )

    def _rewards(self, seen: Array) -> Array:
        """Return the reward of each transition: the last rule that fits it."""
        reward, rules = np.zeros(self.target.size), np.array(self.tables.rules).reshape(-1, 5)
        actions = np.where(rules[:, 0] < 0, self.actions, 1)
        count = actions * np.where(rules[:, 1] < 0, self.states, 1)
        length = np.diff(self.ptr)
        block = np.cumsum(count) // BLOCK
        for first, last in _runs(block):
            rule = np.repeat(np.arange(first, last), count[first:last])
            number = ranges(np.zeros(last - first, np.int64), count[first:last])
            action, state = rules[rule, 0].astype(np.int64), rules[rule, 1].astype(np.int64)
            action = np.where(action < 0, number % actions[rule], action)
            choice = action * self.states + np.where(state < 0, number // actions[rule], state)
            entry = ranges(self.ptr[choice], length[choice])
            rule = np.repeat(rule, length[choice])
            target = self.target[entry]
            fits = (rules[rule, 2] < 0) | (rules[rule, 2] == target)
            fits &= (rules[rule, 3] < 0) | (rules[rule, 3] == seen[target])
            reward[entry[fits]] = rules[rule[fits], 4]  # the last one counts where an entry comes again
        return reward

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


def _runs(block: Array) -> Iterator[tuple[int, int]]:
    """Yield where runs of the same number begin and end."""
    edge = np.flatnonzero(np.diff(block)) + 1
    if block.size:
        yield from zip([0, *edge.tolist()], [*edge.tolist(), block.size], strict=True)


def _our_names(path: Path) -> Mapping[str, Any]:
    """Return what rue wrote into the first line, if it did."""
    first = next(read_chunks(path), None)
    line = b"" if first is None else first.raw.split(b"\n", 1)[0]
    if not line.startswith(OURS):
        return {}
    try:
        names = json.loads(line.removeprefix(OURS))
    except ValueError:
        names = None
    return check_names(f"{path}, line 1", names)


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
    yield f"{OURS.decode()}{json.dumps(names)}\ndiscount: {discount!r}\nvalues: reward\n"
    yield f"states: {graph.states * samples}\nactions: {actions}\nobservations: {graph.states}\nstart:\n"
    start = np.zeros((graph.states, samples))
    start[graph.initial] = model.weight
    yield from (" ".join(map(repr, row)) + "\n" for row in start.tolist())
    prob = (model.prob if keep else probabilities(model)).tolist()
    yield from (f"O: * : {s * samples + k} : {s} 1.0\n" for s in range(graph.states) for k in range(samples))
    for state in np.flatnonzero(graph.goal).tolist():
        yield from (f"T: * : {s} : {s} 1.0\n" for s in range(state * samples, (state + 1) * samples))
    cost = model.cost.tolist()
    for action, choice in every_action(model, actions):
        state = int(graph.choice_state[choice]) * samples
        rows = range(graph.trans_ptr[choice], graph.trans_ptr[choice + 1])
        for k in range(samples):
            for t in rows:
                if prob[t][k]:
                    yield f"T: {action} : {state + k} : {graph.successor[t] * samples + k} {prob[t][k]!r}\n"
            if cost[choice][k]:
                yield f"R: {action} : {state + k} : * : * {0.0 - cost[choice][k]!r}\n"
