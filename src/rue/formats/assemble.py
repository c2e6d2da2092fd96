"""Put the samples of several files together on one graph.

States are matched by their names, else by their numbers; so are actions. A state that a file does not have is one that
its sample never reaches: nothing in that file leads there. It gets the rows of the first sample that has it, which
changes no cost and no regret from the initial state, and a warning tells how many there are.

A target that a choice names twice is merged. Where all files have the same rows, in the same order, that order is kept;
else the targets of a choice are sorted by state.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from rue._arrays import Array, pointers, ranges
from rue._check import check_memory, in_all
from rue._text import short_line
from rue.errors import BadFile
from rue.flat import Flat, let_goals_wait
from rue.formats.picks import no_goal, no_label
from rue.model import Graph
from rue.reach_avoid import reach_avoid

logger = logging.getLogger("rue")

# Rows that are off by no more are divided by their sum. Files often have six digits of each number.
ROW_TOLERANCE = 1e-5
LARGEST_KEY = 2**62
BLOCK = 1 << 18  # transitions that are looked at together, where all would take too much memory


@dataclass(frozen=True, eq=False)
class Part:
    """What one file says, before files are put together."""

    where: str  # the file, for messages
    flat: Flat  # with one sample or more; a target may be named twice in a row
    goal: Array | None = None  # [S] which states are labelled as goals; None if none is
    line: Array | Callable[[int], int] | None = None  # [C] where each choice is in the file, or how it is found
    exact: bool = False  # whether rows are kept as they are: rue wrote them
    labels: Collection[str] = ()  # which of them may be asked for as that of goals
    avoid: Array | None = None  # [S] which states are to be avoided, if probabilities count

    def place(self, choice: int) -> str:
        """Return where a choice is, for messages."""
        if self.line is None:
            return self.where
        return f"{self.where}, line {self.line(choice) if callable(self.line) else self.line[choice]}"

    def describe(self, choice: int) -> str:
        """Return a choice in words."""
        flat = self.flat
        state, action = int(np.searchsorted(flat.choice_ptr, choice, side="right")) - 1, int(flat.action[choice])
        name = str(state) if flat.state_label is None else flat.state_label[state]
        word = str(action) if flat.action_label is None else flat.action_label[action]
        return f'state {short_line(name)}, action "{short_line(word)}"'


def normalised(part: Part) -> Part:
    """Return the part with rows that sum to one; refuse rows that are far from it."""
    flat = part.flat
    if flat.successor.size == 0:
        return part
    empty = np.flatnonzero(np.diff(flat.trans_ptr) == 0)
    if empty.size:
        raise BadFile(
            f"{part.place(int(empty[0]))}: {part.describe(int(empty[0]))} leads nowhere; expected one target at least; "
            f"{in_all(empty.size, 'choice', 'so')}"
        )
    odd = _odd_rows(flat.prob)
    if odd.size:
        choice = int(np.searchsorted(flat.trans_ptr, odd[0], side="right")) - 1
        value = next(p for p in flat.prob[odd[0]].tolist() if not 0 <= p <= 1 + ROW_TOLERANCE)
        raise BadFile(
            f"{part.place(choice)}: a probability of {part.describe(choice)} is {value:g}; expected 0 to 1; "
            f"{in_all(odd.size)}"
        )
    total = np.add.reduceat(flat.prob, flat.trans_ptr[:-1], axis=0)
    off = np.abs(total - 1) > ROW_TOLERANCE
    if off.any():
        choice, sample = (int(i) for i in np.argwhere(off)[0])
        raise BadFile(
            f"{part.place(choice)}: probabilities of {part.describe(choice)} sum to {total[choice, sample]:.10g}; "
            f"expected 1; {in_all(int(off.any(axis=1).sum()), 'choice')}"
        )
    if np.abs(total - 1).max() < 1e-12:  # the model does the rest
        return part
    return replace(part, flat=replace(flat, prob=flat.prob / np.repeat(total, np.diff(flat.trans_ptr), axis=0)))


def _odd_rows(prob: Array) -> Array:
    """Return the transitions with a number that is no probability."""
    found = [
        first + np.flatnonzero(~((part >= 0) & (part <= 1 + ROW_TOLERANCE)).all(axis=1))
        for first in range(0, len(prob), BLOCK)
        for part in (prob[first : first + BLOCK],)
    ]
    return np.concatenate(found)


def put_together(parts: Sequence[Part], avoid: str | None = None) -> Flat:
    """Return all samples on one graph, with goals that have no choices.

    With the label of states to avoid, or "" for none, costs are those of not reaching a goal before them.
    """
    for part in parts:
        label, count = part.flat.state_label, part.flat.choice_ptr.size - 1
        if label is not None and len(label) != count:
            raise BadFile(f"{part.where}: there are {len(label)} names of states; expected {count}")
    parts = [normalised(part) for part in parts]
    state, state_label = _match("state", parts)
    action, action_label = _match("action", parts)
    states = len(state_label) if state_label is not None else parts[0].flat.choice_ptr.size - 1
    initial = _common_initial(parts, state, state_label)
    goal = _labelled("goal", parts, state, state_label, states)
    flat = _same_rows(parts, state, action)
    if flat is None:
        flat = _merged_rows(parts, state, action, states, goal)
    flat = replace(flat, state_label=state_label, action_label=action_label, sample_label=_sample_names(parts))
    flat = replace(flat, initial=initial, weight=_weights(parts))
    if goal is None and avoid is None:
        goal = sinks(flat)
        if goal.any() or not parts[0].labels:
            return without_choices(flat, goal)
    if goal is None or not goal.any():
        raise no_goal(parts[0].where, parts[0].labels)
    flat = without_choices(_with_deadlocks(parts[0].where, flat, goal), goal)
    if avoid is None:
        return flat
    bad = _labelled("avoid", parts, state, state_label, states)
    if bad is None or (avoid and not bad.any()):
        raise no_label(parts[0].where, avoid, parts[0].labels)
    if not (goal & ~bad).any():
        raise BadFile(
            f"{parts[0].where}: every goal is to be avoided; expected a goal that has not the label {avoid!r}"
        )
    return reach_avoid(flat, np.flatnonzero(bad))


def _with_deadlocks(where: str, flat: Flat, goal: Array) -> Flat:
    """Return the same with a loop at no cost in each state that has no choices and is no goal."""
    stuck = np.flatnonzero((np.diff(flat.choice_ptr) == 0) & ~goal)
    if stuck.size == 0:
        return flat
    name = str(stuck[0]) if flat.state_label is None else short_line(flat.state_label[stuck[0]])
    count = in_all(stuck.size, "state", "so")
    logger.warning("%s: state %s is no goal and leads nowhere: it is a dead end; %s", where, name, count)
    return let_goals_wait(flat, 0.0)


def _sample_names(parts: Sequence[Part]) -> tuple[str, ...] | None:
    """Return the names of all samples: those in the files, else the names of the files, unless they are 0, 1, …"""
    names: list[str] = []
    for part in parts:
        samples, stem = part.flat.prob.shape[1], Path(part.where).stem
        own = (stem,) if samples == 1 else tuple(f"{stem}, {k}" for k in range(samples))
        names += part.flat.sample_label or own
    named = any(part.flat.sample_label for part in parts)
    if not named and (len(parts) == 1 or names == [str(k) for k in range(len(names))]):
        return None
    return tuple(names) if len(set(names)) == len(names) else tuple(f"{k}: {name}" for k, name in enumerate(names))


def _weights(parts: Sequence[Part]) -> Array | None:
    """Return the weights of all samples; where only some files have them, the others weigh 1 for each sample."""
    if all(part.flat.weight is None for part in parts):
        return None
    own = [np.ones(part.flat.prob.shape[1]) if part.flat.weight is None else part.flat.weight for part in parts]
    return np.concatenate([np.asarray(weight, float) for weight in own])


def sinks(flat: Flat) -> Array:  # [S]
    """Return the states that only loop, at no cost, in every sample, or have no choices."""
    choice_state = np.repeat(np.arange(flat.choice_ptr.size - 1), np.diff(flat.choice_ptr))
    moving = np.zeros(flat.choice_ptr.size - 1, bool)
    for first, last in pairwise([*range(0, choice_state.size, BLOCK), choice_state.size]):
        rows = slice(flat.trans_ptr[first], flat.trans_ptr[last])
        state = np.repeat(choice_state[first:last], np.diff(flat.trans_ptr[first : last + 1]))
        moving[state[(flat.successor[rows] != state) & (flat.prob[rows] > 0).any(axis=1)]] = True
    moving[choice_state[(flat.cost != 0).any(axis=1)]] = True
    return ~moving


def without_choices(flat: Flat, goal: Array) -> Flat:
    """Return the same without the choices of some states, which are goals then."""
    actions = np.diff(flat.choice_ptr)
    if not actions[goal].any():
        return flat
    kept = np.repeat(~goal, actions)  # [C]
    length = np.diff(flat.trans_ptr)
    row = np.repeat(kept, length)  # [T]
    return replace(
        flat,
        choice_ptr=pointers(np.where(goal, 0, actions)),
        action=flat.action[kept],
        trans_ptr=pointers(length[kept]),
        successor=_kept_rows(flat.successor, row),
        prob=_kept_rows(flat.prob, row),
        cost=flat.cost[kept],
    )


def _kept_rows(values: Array, kept: Array) -> Array:
    """Return some rows, in the memory of the array itself if it may be written to: readers need it once."""
    if not values.flags.writeable:
        return np.asarray(values[kept])
    end = 0
    for first in range(0, len(values), BLOCK):
        part = values[first : first + BLOCK][kept[first : first + BLOCK]]
        values[end : end + len(part)] = part
        end += len(part)
    return values[:end]


def flat_from_entries(
    state: Array, action: Array, target: Array, sample: Array, prob: Array, samples: int, states: int
) -> Flat:
    """Return flat arrays of a list of transitions in any order, without costs; those named twice are added up.

    A choice that one sample does not have has a row of zeros in it.
    """
    actions = int(action.max(initial=-1)) + 1
    if samples == 1 and _is_rising(state, action, target):
        return _flat_in_order(state, action, target, prob, states)
    key = _keys(state, action, target, states, actions)
    if not (key[1:] > key[:-1]).all():
        union, row = np.unique(key, return_inverse=True)
    else:
        union, row = key, np.arange(key.size)
    check_memory(f"a model of {union.size} transitions and {samples} samples", 16.0 * union.size * samples)
    table = np.bincount(row * samples + sample, prob, union.size * samples).reshape(union.size, samples)
    choice, trans_ptr = _choices_of(union, states)
    return Flat(
        np.searchsorted(choice // actions if actions else choice, np.arange(states + 1)),
        choice % actions if actions else choice,
        trans_ptr, union % states if states else union, table, np.zeros((choice.size, samples)), 0,
    )  # fmt: skip


def last_entries(key: Array, *columns: Array) -> tuple[Array, ...]:
    """Return the keys in order with what the last one of each says, without those whose first column is zero."""
    if not (key[1:] > key[:-1]).all():
        order = np.argsort(key, kind="stable")
        key = key[order]
        last = np.append(key[1:] != key[:-1], True)
        key, order = key[last], order[last]
        columns = tuple(column[order] for column in columns)
    if not columns[0].all():
        kept = columns[0] != 0
        key, columns = key[kept], tuple(column[kept] for column in columns)
    return key, *columns


def _is_rising(state: Array, action: Array, target: Array) -> bool:
    """Return whether transitions are in order, each once."""
    for first in range(0, state.size, BLOCK):
        block = slice(max(first - 1, 0), first + BLOCK)
        s, a, t = (np.diff(column[block]) for column in (state, action, target))
        if not ((s > 0) | ((s == 0) & ((a > 0) | ((a == 0) & (t > 0))))).all():
            return False
    return True


def _flat_in_order(state: Array, action: Array, target: Array, prob: Array, states: int) -> Flat:
    """Return flat arrays of transitions that are in order, each once, of one sample."""
    begins = np.ones(state.size, bool)
    begins[1:] = (state[1:] != state[:-1]) | (action[1:] != action[:-1])
    first = np.flatnonzero(begins)
    return Flat(
        np.searchsorted(state[first], np.arange(states + 1)), action[first].astype(np.int64),
        np.append(first, state.size), target, prob[:, None], np.zeros((first.size, 1)), 0,
    )  # fmt: skip


def choice_of(flat: Flat, state: Array, action: Array) -> Array:
    """Return the choice of each pair of a state and an action, -1 where there is none."""
    if flat.action.size == 0:
        return np.full(state.size, -1)
    actions = int(max(flat.action.max(), action.max(initial=0))) + 1
    known = np.repeat(np.arange(flat.choice_ptr.size - 1), np.diff(flat.choice_ptr)) * actions + flat.action
    key = state * actions + action
    place = np.minimum(np.searchsorted(known, key), known.size - 1)
    return np.where(known[place] == key, place, -1)


def _keys(state: Array, action: Array, target: Array, states: int, actions: int) -> Array:
    """Return each transition as one number, in the order of state, action and target."""
    _check_key(states, actions)
    return np.asarray((state.astype(np.int64) * actions + action) * states + target)


def _check_key(states: int, actions: int) -> None:
    if float(states) * max(actions, 1) * states > LARGEST_KEY:
        raise BadFile(f"{states} states with {actions} actions are too many; expected fewer")


def _choices_of(union: Array, states: int) -> tuple[Array, Array]:
    """Return the choices, as numbers, of sorted transitions, and where the rows of each begin."""
    if union.size == 0:
        return union, np.zeros(1, np.int64)
    choice, first = np.unique(union // states, return_index=True)
    return choice, np.append(first, union.size)


def _match(kind: str, parts: Sequence[Part]) -> tuple[list[Array | None], tuple[str, ...] | None]:
    """Return, for each part, the common number of each of its states or actions (None: as it is), and common names."""
    labels = [getattr(part.flat, f"{kind}_label") for part in parts]
    if all(label == labels[0] for label in labels):
        if kind == "state" and labels[0] is None:
            _check_counts(parts)
        return [None] * len(parts), labels[0]
    if kind == "state" and None in labels:
        without = labels.index(None)
        raise BadFile(
            f"{parts[without].where}: its states have no names, those of other files have; expected names in all files "
            "or in none"
        )
    if kind == "action":
        labels = [
            _numbers_as_names(part) if label is None else label for part, label in zip(parts, labels, strict=True)
        ]
    number = {name: i for i, name in enumerate(dict.fromkeys(name for label in labels for name in label))}
    return [np.array([number[name] for name in label], np.int64) for label in labels], tuple(number)


def _numbers_as_names(part: Part) -> tuple[str, ...]:
    return tuple(map(str, range(int(part.flat.action.max(initial=-1)) + 1)))


def _check_counts(parts: Sequence[Part]) -> None:
    """Refuse files without names of states that have different numbers of them."""
    count = [part.flat.choice_ptr.size - 1 for part in parts]
    other = next((i for i, (one, two) in enumerate(pairwise(count)) if one != two), None)
    if other is not None:
        raise BadFile(
            f"{parts[other + 1].where}: it has {count[other + 1]} states, {parts[other].where} has {count[other]}, and "
            "they have no names; expected the same states in all files, or names to match them by"
        )


def _mapped(numbers: Array, common: Array | None) -> Array:
    return numbers if common is None else common[numbers]


def _common_initial(parts: Sequence[Part], state: list[Array | None], label: tuple[str, ...] | None) -> int:
    initial = [int(_mapped(np.array(part.flat.initial), own)) for part, own in zip(parts, state, strict=True)]
    for part, number in zip(parts, initial, strict=True):
        if number != initial[0]:
            name = [str(i) if label is None else label[i] for i in (number, initial[0])]
            raise BadFile(
                f"{part.where}: the initial state is {name[0]}, in {parts[0].where} it is {name[1]}; expected the same"
            )
    return initial[0]


def _present(part: Part, own: Array | None, states: int) -> Array:
    """Return which states a part has."""
    if own is None:
        return np.ones(states, bool)
    there = np.zeros(states, bool)
    there[own] = True
    return there


def _labelled(
    kind: str, parts: Sequence[Part], state: list[Array | None], label: tuple[str, ...] | None, states: int
) -> Array | None:
    """Return the goals, or the states to avoid, if files name them; refuse one that is none in another file."""
    masks = [getattr(part, kind) for part in parts]
    if all(mask is None for mask in masks):
        return None
    found, plain = np.zeros(states, bool), np.zeros(states, bool)
    for part, mask, own in zip(parts, masks, state, strict=True):
        marked = np.zeros(part.flat.choice_ptr.size - 1, bool) if mask is None else mask
        found[_mapped(np.flatnonzero(marked), own)] = True
        plain[_mapped(np.flatnonzero(~marked), own)] = True
    both = np.flatnonzero(found & plain)
    if both.size:
        name = str(both[0]) if label is None else label[both[0]]
        what = {"goal": "a goal", "avoid": "to be avoided"}[kind]
        raise BadFile(
            f"{parts[-1].where}: state {short_line(name)} is {what} in some files and not in others; expected the "
            f"same in all; {in_all(both.size, 'state', 'so')}"
        )
    return found


def _same_rows(parts: Sequence[Part], state: list[Array | None], action: list[Array | None]) -> Flat | None:
    """Return the parts side by side where all have the same rows, without a repeated target; else None."""
    one = parts[0].flat
    if any(own is not None for own in (*state, *action)):
        return None
    for part in parts[1:]:
        for name in ("choice_ptr", "action", "trans_ptr", "successor"):
            if not np.array_equal(getattr(part.flat, name), getattr(one, name)):
                return None
    rising = np.diff(one.action) > 0
    inner = np.ones(one.action.size + 1, bool)
    inner[one.choice_ptr] = False
    if not rising[inner[1:-1]].all():
        return None
    if not all(part.exact for part in parts) and has_repeated_target(one):
        return None
    if len(parts) == 1:
        return one
    return replace(
        one, prob=np.hstack([part.flat.prob for part in parts]), cost=np.hstack([part.flat.cost for part in parts])
    )


def has_repeated_target(one: Flat | Graph) -> bool:
    """Return whether some choice names a target twice."""
    choices = one.action.size
    for first, last in pairwise([*range(0, choices, BLOCK), choices]):
        begin, end = one.trans_ptr[first], one.trans_ptr[last]
        row = np.repeat(np.arange(last - first), np.diff(one.trans_ptr[first : last + 1]))
        successor, same = one.successor[begin:end], np.diff(row) == 0
        if not (np.diff(successor)[same] > 0).all():  # not sorted, or one that comes again
            order = np.lexsort((successor, row))
            if (same & (np.diff(successor[order]) == 0)).any():
                return True
    return False


def _merged_rows(
    parts: Sequence[Part], state: list[Array | None], action: list[Array | None], states: int, goal: Array | None
) -> Flat:
    """Return the union of the rows of all parts; states that a part does not have get the rows of another one."""
    actions = 1 + max(
        int(_mapped(part.flat.action, own).max(initial=-1)) for part, own in zip(parts, action, strict=True)
    )
    union = np.empty(0, np.int64)
    for number in range(len(parts)):
        key = np.unique(_part_keys(parts[number], state[number], action[number], states, actions))
        union = key if number == 0 else union if np.array_equal(key, union) else np.union1d(union, key)
    choice, trans_ptr = _choices_of(union, states)
    samples = sum(part.flat.prob.shape[1] for part in parts)
    check_memory(f"a model of {union.size} transitions and {samples} samples", 24.0 * union.size * samples)
    prob, cost = np.zeros((union.size, samples)), np.zeros((choice.size, samples))
    lacking = np.zeros((choice.size, len(parts)), bool)
    column = pointers([part.flat.prob.shape[1] for part in parts])
    choice_state = choice // max(actions, 1)
    for number, part in enumerate(parts):
        key = _part_keys(part, state[number], action[number], states, actions)
        row = np.searchsorted(union, key)
        own_choice = np.searchsorted(choice, _own_choices(part, state[number], action[number], actions))
        for k in range(part.flat.prob.shape[1]):
            prob[:, column[number] + k] = np.bincount(row, part.flat.prob[:, k], union.size)
            cost[own_choice, column[number] + k] = part.flat.cost[:, k]
        lacking[:, number] = True
        lacking[own_choice, number] = False
        there = _present(part, state[number], states)
        wrong = np.flatnonzero(lacking[:, number] & there[choice_state] & (goal is None or ~goal[choice_state]))
        if wrong.size:
            raise BadFile(_other_actions(parts, number, int(choice[wrong[0]]), actions, state, action))
    _copy_rows(prob, cost, lacking, column, trans_ptr)
    _tell_missing(parts, state, states)
    return Flat(
        np.searchsorted(choice_state, np.arange(states + 1)), choice % max(actions, 1), trans_ptr, union % states,
        prob, cost, 0,
    )  # fmt: skip


def _own_choices(part: Part, state: Array | None, action: Array | None, actions: int) -> Array:
    """Return the choices of a part as numbers; refuse an action that a state has twice."""
    flat = part.flat
    choice_state = np.repeat(np.arange(flat.choice_ptr.size - 1), np.diff(flat.choice_ptr))
    key = _mapped(choice_state, state) * actions + _mapped(flat.action, action)
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(np.diff(key[order]) == 0)
    if twice.size:
        choice = int(order[twice[0] + 1])
        raise BadFile(
            f"{part.place(choice)}: {part.describe(choice)} is there twice; expected each action once in a state; "
            f"{in_all(twice.size, '', 'so')}"
        )
    return np.asarray(key)


def _part_keys(part: Part, state: Array | None, action: Array | None, states: int, actions: int) -> Array:
    flat = part.flat
    _check_key(states, actions)
    choice = np.repeat(_own_choices(part, state, action, actions), np.diff(flat.trans_ptr))
    return np.asarray(choice * states + _mapped(flat.successor, state))


def _other_actions(
    parts: Sequence[Part], number: int, choice: int, actions: int, state: list[Array | None], action: list[Array | None]
) -> str:
    """Return the message for a state that has an action in one file and not in another."""
    for other, part in enumerate(parts):
        own = np.flatnonzero(_own_choices(part, state[other], action[other], actions) == choice)
        if own.size:
            return (
                f"{parts[number].where}: it lacks {part.describe(int(own[0]))}, which {part.place(int(own[0]))} has; "
                "expected the same actions in all files that have the state"
            )
    raise AssertionError("some part has the choice")


def _copy_rows(prob: Array, cost: Array, lacking: Array, column: Array, trans_ptr: Array) -> None:
    """Fill in the rows of choices that a part does not have, from the first part that has them."""
    giver = np.argmin(lacking, axis=1)  # [C] the first part that has it
    for number in range(lacking.shape[1]):
        for source in np.unique(giver[lacking[:, number]]):
            choice = np.flatnonzero(lacking[:, number] & (giver == source))
            row = ranges(trans_ptr[choice], trans_ptr[choice + 1] - trans_ptr[choice])
            own = slice(column[number], column[number + 1])
            prob[row, own] = prob[row, column[source]][:, None]
            cost[choice, own] = cost[choice, column[source]][:, None]


def _tell_missing(parts: Sequence[Part], state: list[Array | None], states: int) -> None:
    """Warn of states that some files do not have."""
    missing = [int(states - _present(part, own, states).sum()) for part, own in zip(parts, state, strict=True)]
    if any(missing):
        most = int(np.argmax(missing))
        logger.warning(
            "%s and %d other of %d files lack states that others have (%d of %d): they are not reached there, and get "
            "the rows of a file that has them",
            parts[most].where, sum(map(bool, missing)) - 1, len(parts), missing[most], states,
        )  # fmt: skip
