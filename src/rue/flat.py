"""A model as flat arrays, before it is checked: from dense ones, with a discount, a horizon, or states to avoid.

Figures that are no costs, such as rewards, become costs here (`units.py`).
"""

from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from rue._arrays import Array, pointers
from rue._check import in_all, index_array, number_array, real_number
from rue._rounding import UNIT_ROUNDOFF
from rue.errors import BadInput
from rue.units import PLAIN, Units

# Rows are accepted when they sum to one within this, and then divided by their sum.
ROW_TOLERANCE = 1e-8


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
    sample_label: tuple[str, ...] | None = None
    weight: ArrayLike | None = None  # [K]
    units: Units = PLAIN
    least: float = 0.0  # no sample of the problem has a cost below this, also of those that are not here


def flat_from_dense(transition: ArrayLike, cost: ArrayLike, goals: ArrayLike) -> Flat:
    """Return flat arrays of dense ones (see `UMDP.from_dense`).

    A cost per transition becomes the expected cost of the choice, C̄(s,a) = Σ T(s,a,s') C(s,a,s').
    """
    table = number_array("transition", transition)
    price = number_array("cost", cost)
    if table.ndim != 4 or table.shape[1] != table.shape[3]:
        raise BadInput(f"transition has shape {table.shape}; expected [samples, states, actions, states]")
    if table.shape[0] == 0:
        raise BadInput("there are no samples; expected at least one")
    if price.shape not in (table.shape[:3], table.shape):
        raise BadInput(f"cost has shape {price.shape}; expected {table.shape[:3]} or {table.shape} to match transition")
    state, choice, arrays = flat_indices((table != 0).any(axis=0), goals, "an action")
    if price.ndim == 4:
        price = np.where(table > 0, table * price, 0.0).sum(axis=3)
    action = arrays["action"]
    prob = table[:, state[choice], action[choice], arrays["successor"]].T
    return Flat(**arrays, prob=prob, cost=price[:, state, action].T, initial=0)


def figures_given(transition: ArrayLike, cost: object, reward: object, avoid: object) -> ArrayLike:
    """Return the costs or rewards that were given; nothing but zeros where the objective is to avoid states."""
    given = [name for name, value in {"cost": cost, "reward": reward, "avoid": avoid}.items() if value is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise BadInput(f"{found} is given; expected one of cost, reward and avoid")
    if avoid is not None:
        return np.zeros(number_array("transition", transition).shape[:3])
    return cast(ArrayLike, cost if reward is None else reward)


def all_ends(transition: ArrayLike, goals: ArrayLike, avoid: ArrayLike) -> Array:
    """Return all states that end an episode: goals, and states to avoid."""
    states = number_array("transition", transition).shape[-1:] or (0,)
    return np.append(index_array("goal", goals, states[0]), index_array("avoid", avoid, states[0]))


def flat_indices(possible: Array, goals: ArrayLike, needed: str) -> tuple[Array, Array, dict[str, Any]]:
    """Return the state of each choice, the choice of each transition, and the arrays of a graph.

    `possible[S,A,S]` says which transitions exist; those of goals are left out. Messages call what the
    other states need `needed`.
    """
    states = possible.shape[0]
    is_goal = np.isin(np.arange(states), index_array("goal", goals, states))
    exists = possible.any(axis=2) & ~is_goal[:, None]  # [S, A]
    stuck = np.flatnonzero(~exists.any(axis=1) & ~is_goal)
    if stuck.size:
        raise BadInput(
            f"state {stuck[0]} has no {needed.removeprefix('an ')} and is no goal; "
            f"expected {needed} or a place in goals; {in_all(stuck.size, 'state', 'so')}"
        )
    state, action = np.nonzero(exists)
    choice, successor = np.nonzero(possible[state, action])
    choice_ptr = pointers(np.bincount(state, minlength=states))
    trans_ptr = pointers(np.bincount(choice, minlength=state.size))
    arrays = {"choice_ptr": choice_ptr, "action": action, "trans_ptr": trans_ptr, "successor": successor}
    return state, choice, arrays


def discounted(flat: Flat, discount: float) -> Flat:
    """Return the shortest path that is equivalent to a discounted problem.

    Every step goes on with probability γ and else ends in a new goal, "end" (or "end 2", if there is one). Costs may be
    negative (rewards): then all are shifted up by the same amount per step, and goals become states that wait for
    the end, so that each policy takes the same number of steps, 1/(1−γ) in expectation, and pays the
    same shift. Values move by a constant; regrets stay what they were.
    """
    wanted = "a number between 0 and 1, both excluded"
    if real_number("discount", discount, wanted, 0, 1) in (0, 1):
        raise BadInput(f"discount is {discount}; expected {wanted}")
    flat = _shifted(flat, 1 / (1 - discount))
    ends = flat.trans_ptr[1:]  # the new transition of a choice comes last
    end = new_name("end", flat.state_label)
    return replace(
        flat,
        choice_ptr=np.append(flat.choice_ptr, flat.choice_ptr[-1]),
        trans_ptr=flat.trans_ptr + np.arange(flat.trans_ptr.size),
        successor=np.insert(flat.successor, ends, flat.choice_ptr.size - 1),
        prob=np.insert(_divided_rows(flat) * discount, ends, 1 - discount, axis=0),
        state_label=None if flat.state_label is None else (*flat.state_label, end),
    )


def _divided_rows(flat: Flat) -> Array:
    """Return the probabilities, rows divided by their sums where these are nearly one; others are refused later.

    Once there is an end, what a row lacks would change the discount.
    """
    prob, length = flat.prob, np.diff(flat.trans_ptr)
    if length.min(initial=1) < 1 or not length.size:
        return prob
    total = np.add.reduceat(prob, flat.trans_ptr[:-1], axis=0)
    off = np.abs(total - 1)
    if not (off > 2 * UNIT_ROUNDOFF * (int(length.max()) + 4)).any():
        return prob
    return np.asarray(prob / np.repeat(np.where(off <= ROW_TOLERANCE, total, 1.0), length, axis=0))


def new_name(name: str, known: tuple[str, ...] | None) -> str:
    """Return the name, or with a number behind it if it is taken."""
    taken = set(known or ())
    return next(new for new in chain([name], (f"{name} {number}" for number in count(2))) if new not in taken)


def _shifted(flat: Flat, steps: float) -> Flat:
    """Return the model with costs of 0 or more; if they were shifted, goals wait until the episode ends.

    `steps` is the expected number of steps that every policy then takes from the initial state.
    """
    finite = flat.cost[np.isfinite(flat.cost)]
    shift = max(0.0, -flat.least, -float(finite.min(initial=0.0)))
    if shift == 0:
        return flat
    units = replace(flat.units, shift=flat.units.shift + shift, steps=steps)
    return let_goals_wait(replace(flat, cost=flat.cost + shift, units=units), shift)


def let_goals_wait(flat: Flat, shift: float) -> Flat:
    """Give each goal one action, 0, that stays there and pays the shift."""
    actions = np.diff(flat.choice_ptr)
    goals = np.flatnonzero(actions == 0)
    choice = flat.choice_ptr[goals]
    transition = flat.trans_ptr[choice]
    return replace(
        flat,
        choice_ptr=pointers(np.maximum(actions, 1)),
        action=np.insert(flat.action, choice, 0),
        trans_ptr=pointers(np.insert(np.diff(flat.trans_ptr), choice, 1)),
        successor=np.insert(flat.successor, transition, goals),
        prob=np.insert(flat.prob, transition, 1.0, axis=0),
        cost=np.insert(flat.cost, choice, shift, axis=0),
    )
