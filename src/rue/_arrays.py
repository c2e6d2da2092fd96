"""The arrays of a model before they are one: from dense tables, and with a discount.

Everything here is plain array work. What the arrays mean, and whether they make a model, is decided in
`model.py` alone.
"""

from dataclasses import dataclass, replace
from itertools import chain, count

import numpy as np
from numpy.typing import ArrayLike

from rue._check import in_all, index_array, number_array, real_number
from rue.errors import BadInput

# Arrays are singular nouns with their axes beside them; numpy's own types say no more than this.
Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Flat:
    """S states, C choices (state-action pairs), T transitions, K samples, as flat arrays."""

    choice_ptr: Array  # [S+1]
    action: Array  # [C]
    trans_ptr: Array  # [C+1]
    successor: Array  # [T]
    prob: Array  # [T, K]
    cost: Array  # [C, K]
    initial: int
    state_label: tuple[str, ...] | None = None
    action_label: tuple[str, ...] | None = None


def from_dense(transition: ArrayLike, cost: ArrayLike, initial: int, goals: ArrayLike) -> Flat:
    """Flat arrays from `transition[K,S,A,S]` and `cost[K,S,A]` or `cost[K,S,A,S]`.

    A row of zeros in every sample means that the action does not exist in that state. A cost per
    transition becomes the expected cost of the choice, C̄(s,a) = Σ T(s,a,s') C(s,a,s').
    """
    table = number_array("transition", transition)
    price = number_array("cost", cost)
    if table.ndim != 4 or table.shape[1] != table.shape[3]:
        raise BadInput(f"transition has shape {table.shape}; expected [samples, states, actions, states]")
    samples, states = table.shape[:2]
    if samples == 0:
        raise BadInput("there are no samples; expected at least one")
    if price.shape not in (table.shape[:3], table.shape):
        raise BadInput(f"cost has shape {price.shape}; expected {table.shape[:3]} or {table.shape} to match transition")
    is_goal = np.isin(np.arange(states), index_array("goal", goals, states))
    exists = (table != 0).any(axis=(0, 3)) & ~is_goal[:, None]  # [S, A]
    _refuse_states_without_actions(exists, is_goal)
    if price.ndim == 4:
        price = np.where(table > 0, table * price, 0.0).sum(axis=3)
    state, action = np.nonzero(exists)
    rows = table[:, state, action, :]  # [K, C, S]
    used = (rows != 0).any(axis=0)  # [C, S]
    choice, successor = np.nonzero(used)
    return Flat(
        choice_ptr=_pointers(state, states),
        action=action,
        trans_ptr=_pointers(choice, state.size),
        successor=successor,
        prob=rows[:, choice, successor].T,
        cost=price[:, state, action].T,
        initial=initial,
    )


def with_discount(flat: Flat, discount: float) -> Flat:
    """The shortest path that is equivalent to a discounted problem.

    Every step goes on with probability γ and else ends in a new goal, "end" (or "end 2", if there is one). Costs may be
    negative (rewards): then all are shifted up by the same amount per step, and goals become states that wait for
    the end, so that each policy takes the same number of steps, 1/(1−γ) in expectation, and pays the
    same shift. Values move by a constant; regrets stay what they were.
    """
    wanted = "a number between 0 and 1, both excluded"
    if real_number("discount", discount, wanted, 0, 1) in (0, 1):
        raise BadInput(f"discount is {discount}; expected {wanted}")
    finite = flat.cost[np.isfinite(flat.cost)]
    shift = max(0.0, -float(finite.min())) if finite.size else 0.0
    if shift > 0:
        flat = _let_goals_wait(replace(flat, cost=flat.cost + shift), shift)
    states = flat.choice_ptr.size - 1
    choices = flat.action.size
    ends = flat.trans_ptr[1:]  # the new transition of a choice comes last
    samples = flat.prob.shape[1]
    return replace(
        flat,
        choice_ptr=np.append(flat.choice_ptr, flat.choice_ptr[-1]),
        trans_ptr=flat.trans_ptr + np.arange(choices + 1),
        successor=np.insert(flat.successor, ends, states),
        prob=np.insert(flat.prob * discount, ends, np.full((1, samples), 1 - discount), axis=0),
        state_label=None if flat.state_label is None else (*flat.state_label, _free_name("end", flat.state_label)),
    )


def _free_name(name: str, used: tuple[str, ...]) -> str:
    """The name, with a number if it is used already."""
    taken = set(used)
    return next(new for new in chain([name], (f"{name} {number}" for number in count(2))) if new not in taken)


def _let_goals_wait(flat: Flat, shift: float) -> Flat:
    """Give each goal one action, 0, that stays there and pays the shift."""
    states = flat.choice_ptr.size - 1
    goals = np.flatnonzero(np.diff(flat.choice_ptr) == 0)
    place = flat.choice_ptr[goals]
    row = flat.trans_ptr[place]
    samples = flat.prob.shape[1]
    state = np.insert(np.repeat(np.arange(states), np.diff(flat.choice_ptr)), place, goals)
    length = np.insert(np.diff(flat.trans_ptr), place, 1)
    return replace(
        flat,
        choice_ptr=_pointers(state, states),
        action=np.insert(flat.action, place, 0),
        trans_ptr=np.concatenate(([0], np.cumsum(length))),
        successor=np.insert(flat.successor, row, goals),
        prob=np.insert(flat.prob, row, np.ones((1, samples)), axis=0),
        cost=np.insert(flat.cost, place, np.full((1, samples), shift), axis=0),
    )


def _pointers(owner: Array, owners: int) -> Array:
    """Where the items of each owner begin, for items sorted by owner."""
    return np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=owners))))


def _refuse_states_without_actions(exists: Array, is_goal: Array) -> None:
    stuck = np.flatnonzero(~exists.any(axis=1) & ~is_goal)
    if stuck.size:
        raise BadInput(
            f"state {stuck[0]} has no action and is no goal; expected an action or a place in goals; "
            f"{in_all(stuck.size, 'state', 'so')}"
        )
