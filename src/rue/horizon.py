"""A finite horizon: the same problem for a number of steps, with time in the states.

State s at time t becomes a state of its own, "s at t", for t = 0 … H. The step from t costs γ^t times what it costs in
the problem itself, with a discount γ ≤ 1; after H steps the episode ends, and γ^H times the terminal cost of the last
state is paid with the last step. Only states that can be reached at a time are made. A goal ends the episode before.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from rue._arrays import Array, members, pointers
from rue._check import check_memory, number_array, real_number, whole_number
from rue.errors import BadInput
from rue.flat import Flat, let_goals_wait


def finite_horizon(flat: Flat, horizon: int, discount: float | None = None, terminal: ArrayLike | None = None) -> Flat:
    """Return the problem for `horizon` steps. `terminal[S]`, or `[K,S]` for each sample, is paid where it ends."""
    horizon = whole_number("horizon", horizon, 1)
    wanted = "a number above 0, 1 at most with a horizon"
    gamma = 1.0 if discount is None else real_number("discount", discount, wanted, 0, 1)
    if gamma == 0:
        raise BadInput(f"discount is {discount}; expected {wanted}")
    samples = flat.prob.shape[1]
    check_memory(f"a model of {horizon} steps", 8 * (samples + 2) * horizon * (flat.successor.size + flat.action.size))
    last = _terminal(flat, terminal)
    at_end = flat.cost * gamma ** (horizon - 1) + gamma**horizon * _expected(flat, last)
    least = min(float(np.min(array, initial=0.0)) for array in (flat.cost, at_end))
    shift = max(0.0, -least) if np.isfinite(least) else 0.0
    if shift > 0:  # then every policy must take all the steps
        flat = let_goals_wait(flat, 0.0)
        at_end = flat.cost * gamma ** (horizon - 1) + gamma**horizon * _expected(flat, last)
    return _unrolled(flat, horizon, gamma, shift, at_end)


def _terminal(flat: Flat, terminal: ArrayLike | None) -> Array:  # [S, K]
    """Return the terminal cost of each state in each sample; nothing at goals, where the episode has ended before."""
    states, samples = flat.choice_ptr.size - 1, flat.prob.shape[1]
    given = number_array("terminal", np.zeros(states) if terminal is None else terminal)
    if given.shape not in ((states,), (samples, states)):
        raise BadInput(f"terminal has shape {given.shape}; expected {(states,)} or {(samples, states)}")
    if not np.isfinite(given).all():
        raise BadInput("terminal is not finite somewhere; expected numbers")
    whole = np.broadcast_to(given, (samples, states)).T
    return np.where((np.diff(flat.choice_ptr) == 0)[:, None], 0.0, whole)


def _expected(flat: Flat, value: Array) -> Array:  # [C, K]
    """Return the expected value of the next state."""
    part = flat.prob * value[flat.successor]
    return np.add.reduceat(part, flat.trans_ptr[:-1], axis=0) if part.size else np.zeros_like(flat.cost)


def _unrolled(flat: Flat, horizon: int, gamma: float, shift: float, at_end: Array) -> Flat:
    """Return one layer of states for each time, the initial state first."""
    layer, first = np.array([flat.initial]), 0
    layers, choices, transitions, successors, costs = [layer], [], [], [], []
    for time in range(horizon):
        choice = members(flat.choice_ptr, layer)
        transition = members(flat.trans_ptr, choice)
        following = np.unique(flat.successor[transition])
        first += layer.size
        successors.append(first + np.searchsorted(following, flat.successor[transition]))
        costs.append((at_end if time == horizon - 1 else flat.cost * gamma**time)[choice] + shift)
        choices.append(choice)
        transitions.append(transition)
        layers.append(following)
        layer = following
    state, choice, transition = (np.concatenate(parts) for parts in (layers, choices, transitions))
    count = np.diff(flat.choice_ptr)[state]
    count[first:] = 0  # the last layer
    when = np.repeat(np.arange(horizon + 1), [part.size for part in layers])
    names = flat.state_label or tuple(map(str, range(flat.choice_ptr.size - 1)))
    return replace(
        flat,
        choice_ptr=pointers(count),
        action=flat.action[choice],
        trans_ptr=pointers(np.diff(flat.trans_ptr)[choice]),
        successor=np.concatenate(successors),
        prob=flat.prob[transition],
        cost=np.concatenate(costs),
        initial=0,
        state_label=tuple(f"{names[s]} at {t}" for s, t in zip(state.tolist(), when.tolist(), strict=True)),
        units=replace(flat.units, shift=shift, steps=float(horizon) if shift else 0.0),
    )
