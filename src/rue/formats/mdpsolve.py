"""Models of MDPSolve: one matrix of probabilities for all pairs of a state and an action.

`P` has a column for each pair, with the next states in rows, or the other way round. Pairs are in the order of `R` as
MATLAB stores it, [S, A] by columns, or `Ix` has the state of each pair. A cell of such matrices has one for each
sample. `d` is the discount, `T` the number of steps, and `vterm` what the states are worth after them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rue._arrays import Array
from rue._check import number_array
from rue.errors import BadInput
from rue.formats.assemble import ROW_TOLERANCE

NAMES = {"transprob": "P", "reward": "R", "d": "discount", "vterm": "terminal"}
PER_SAMPLE = "per sample"  # in what is returned: R is a list for the samples
REFUSED = ("Iexpand", "EV", "nstage")


def is_mdpsolve(found: Mapping[str, Any]) -> bool:
    """Return whether the variables of a file are those of MDPSolve."""
    given = found.get("P", found.get("transprob"))
    matrices = _listed(given)
    flat = bool(matrices) and all(getattr(one, "ndim", 0) == 2 for one in matrices)
    return flat and ("Ix" in found or any(one.shape[0] != one.shape[1] for one in matrices))


def from_mdpsolve(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return P[k][a] and R[k], and what else says what the problem is."""
    for name in REFUSED:
        if name in found and np.any(found[name]):
            raise BadInput(f"{name} is there; expected a model of one stage, with a column of P for each pair")
    found = {NAMES.get(name, name): value for name, value in found.items()}
    if "R" not in found:
        raise BadInput(f"there is no array R; expected P and R, found {', '.join(found)}")
    matrices, rewards = _listed(found["P"]), _listed(found["R"])
    state, states = _states(found, matrices[0].shape)
    action = np.zeros(state.size, np.int64)
    order = np.argsort(state, kind="stable")
    action[order] = np.arange(state.size) - np.searchsorted(state[order], state[order])
    used: dict[str, Any] = {
        "P": [_by_action(one, state, action, states, found.get("colstoch")) for one in matrices],
        "R": [_table(one, state, action, states) for one in rewards],
        PER_SAMPLE: True,
        **{name: found[name] for name in ("discount", "initial") if name in found},
    }
    if np.isfinite(number_array("T", found.get("T", np.inf))).all():
        used |= {"horizon": found["T"], "terminal": found.get("terminal", np.zeros(states))}
    return used


def _listed(value: Any) -> list[Any]:
    """Return what is in a cell, or the value alone."""
    return list(value.ravel()) if isinstance(value, np.ndarray) and value.dtype == object else [value]


def _states(found: Mapping[str, Any], shape: tuple[int, int]) -> tuple[Array, int]:
    """Return the state of each pair, and how many states there are."""
    states, pairs = min(shape), max(shape)
    if "Ix" not in found:
        if pairs % states:
            raise BadInput(f"P has shape {shape}; expected the same actions in each of {states} states, or Ix")
        return np.tile(np.arange(states), pairs // states), states
    state = number_array("Ix", found["Ix"]).ravel()
    if state.size != pairs or not np.isin(state, np.arange(1, states + 1)).all():
        raise BadInput(f"Ix has {state.size} numbers; expected {pairs}, from 1 to {states}")
    return state.astype(np.int64) - 1, states


def _by_action(matrix: Any, state: Array, action: Array, states: int, in_columns: Any) -> list[Any]:
    """Return a sparse matrix, states × next states, for each action."""
    from scipy import sparse

    if matrix.ndim != 2 or sorted(matrix.shape) != [states, state.size]:
        raise BadInput(f"P has shape {matrix.shape}; expected {(states, state.size)}, as the first one has")
    if in_columns is None:
        columns = np.asarray(matrix.sum(axis=0)).ravel()
        in_columns = matrix.shape[0] < matrix.shape[1] or (
            matrix.shape[0] == matrix.shape[1] and bool((np.abs(columns - 1) <= ROW_TOLERANCE).all())
        )
    rows = sparse.coo_array(matrix.T if np.all(in_columns) else matrix)
    if rows.shape != (state.size, states):
        raise BadInput(f"P has shape {matrix.shape}, and colstoch says otherwise; expected one of them")
    found = []
    for number in range(int(action.max(initial=0)) + 1):
        own = action[rows.row] == number
        place = state[rows.row[own]], rows.col[own]
        found.append(sparse.csr_array((rows.data[own].astype(float), place), shape=(states, states)))
    return found


def _table(reward: Any, state: Array, action: Array, states: int) -> Array:
    """Return the rewards [S, A] of all pairs."""
    values = number_array("R", reward.toarray() if hasattr(reward, "toarray") else reward).ravel(order="F")
    if values.size != state.size:
        raise BadInput(f"R has {values.size} numbers; expected {state.size}, one for each column of P")
    table = np.zeros((states, int(action.max(initial=0)) + 1))
    table[state, action] = values
    return table
