"""Solve the matrix game between one player who draws a policy and one who picks a sample, as a linear program:

    min over x of  max over k of  Σ_j x_j A[k, j],      x ≥ 0,  Σ_j x_j = 1

Its dual is a belief over the samples, against which every policy that is drawn is a best answer. Where no sample may
have a larger belief than its cap (`risk.py`), the inner maximum is over these beliefs, and by duality

    min over x, t, u of  t + Σ_k cap_k u_k,      t + u_k ≥ Σ_j x_j A[k, j],   t, u ≥ 0
"""

from dataclasses import dataclass

import numpy as np

from rue._arrays import Array
from rue._highs import Ended, Program
from rue.errors import SolverFailed
from rue.risk import worst_belief, worst_mean

# Weights below this are dropped.
NEGLIGIBLE = 1e-12
# If HiGHS fails, as it may where entries span many orders of magnitude, those below this part of the largest are
# left out.
IGNORED = 1e-9


@dataclass(frozen=True, eq=False)
class GameSolution:
    """The best mixture of columns, its value, and the belief that makes it so."""

    weight: Array  # by column
    value: float
    belief: Array  # [K]
    lower: float  # no mixture has a smaller value: the value of the best column for the belief


def solve_game(matrix: Array, cap: Array | None = None, *, ties: bool = True) -> GameSolution:
    """Return the mixture of the columns of `matrix[K, J]`, all entries ≥ 0, with the least value.

    `cap[K]` limits the belief of each sample. Without it, and if `ties` is True, it is the one with the lowest mean.
    """
    return _solve_plain(matrix, ties) if cap is None or cap.min() >= 1.0 else _solve_capped(matrix, cap)


def _solve_capped(matrix: Array, cap: Array) -> GameSolution:
    """Return the mixture with the least value where the belief of each sample is at most its cap."""
    worst = np.array([worst_mean(column, cap) for column in matrix.T])
    top, pure = float(worst.min()), np.zeros(worst.size)
    pure[worst.argmin()] = 1.0
    belief = worst_belief(matrix[:, worst.argmin()], cap)
    if top == 0.0 or worst.size == 1 or cap.sum() <= 1.0:  # one belief alone, or nothing to gain by mixing
        return GameSolution(pure, top, belief, min(float((belief @ matrix).min()), top))
    unit = np.maximum(matrix.max(axis=0) / top, 1.0)
    rows = matrix / (top * unit)
    found = _least_tail(rows, cap, unit) or _least_tail(np.where(rows < IGNORED, 0.0, rows), cap, unit)
    if found is None:
        raise SolverFailed("HiGHS could not solve a matrix game")
    belief = np.clip(-found[1], 0.0, cap)
    belief = belief / max(belief.sum(), 1.0)
    weight = _cleaned(found[0][: worst.size] / unit)
    value = worst_mean(matrix @ weight, cap)
    if value > top:
        weight, value = pure, top
    return GameSolution(weight, value, belief, min(float((belief @ matrix).min()), value))


def _solve_plain(matrix: Array, ties: bool) -> GameSolution:
    """Return the mixture with the least value and, if `ties` is True, the lowest mean among those."""
    samples, count = matrix.shape
    worst = matrix.max(axis=0)
    top = float(worst.min())
    pure = np.zeros(count)
    tied = np.flatnonzero(worst <= top * (1 + 1e-9))
    pure[tied[matrix.mean(axis=0)[tied].argmin()]] = 1.0
    uniform = np.full(samples, 1.0 / samples)
    if top == 0.0:
        return GameSolution(pure, top, uniform, top)
    if count == 1:
        return GameSolution(pure, top, np.eye(samples)[int(matrix[:, 0].argmax())], top)
    # Columns are scaled so that no entry is above one.
    unit = np.maximum(worst / top, 1.0)
    rows = matrix / (top * unit)
    first = _least_value(rows, unit) or _least_value(np.where(rows < IGNORED, 0.0, rows), unit)
    if first is None:
        raise SolverFailed("HiGHS could not solve a matrix game")
    belief = np.maximum(-first[1], 0.0)
    belief = belief / belief.sum() if belief.sum() > 0 else uniform
    ceiling = float(first[0][count]) * (1 + 1e-10) + 1e-13
    second = _linear_program(rows.mean(axis=0), rows, ceiling, unit) if ties else None
    best, value = pure, top
    for found in (first, second):
        weight = pure
        if found is not None:
            weight = _cleaned(found[0][:count] / unit)
        reached = float((matrix @ weight).max())
        # The second program is used if it keeps the value, the first if it is no worse than a single column.
        if reached <= value + 1e-9 * top:
            best, value = weight, reached
    return GameSolution(best, value, belief, min(float((belief @ matrix).min()), value))


def _cleaned(weight: Array) -> Array:
    """Return weights that sum to one, without negligible ones."""
    weight = np.where(weight > NEGLIGIBLE, weight, 0.0)
    return np.asarray(weight / weight.sum())


def _least_tail(rows: Array, cap: Array, unit: Array) -> tuple[Array, Array] | None:
    """Return the mixture with the least value under caps, followed by t and u, and the multipliers of the rows."""
    samples, count = rows.shape
    matrix = np.column_stack([rows, -np.ones(samples), -np.eye(samples)])
    return _linear_program(np.concatenate([np.zeros(count), [1.0], cap]), matrix, 0.0, unit, least=0.0)


def _least_value(rows: Array, unit: Array) -> tuple[Array, Array] | None:
    """Return the mixture with the least value, followed by that value, and the multipliers of the rows."""
    samples, count = rows.shape
    return _linear_program(
        np.append(np.zeros(count), 1.0), np.column_stack([rows, -np.ones(samples)]), 0.0, unit
    )  # fmt: skip


def _linear_program(
    cost: Array, rows: Array, ceiling: float, unit: Array, least: float = -np.inf
) -> tuple[Array, Array] | None:
    """Minimise cost·y with rows·y ≤ ceiling and Σ y/unit = 1; return y and the multipliers of the rows.

    Columns beyond the units, such as the value of the game, are at least `least`. Return None if HiGHS fails.
    """
    free = cost.size - unit.size
    matrix = np.vstack([rows, np.append(1.0 / unit, np.zeros(free))])
    row, column = np.nonzero(matrix)
    try:
        found = Program(
            cost=cost,
            lower=np.append(np.zeros(unit.size), np.full(free, least)),
            upper=np.full(cost.size, np.inf),
            row=row,
            column=column,
            value=matrix[row, column],
            row_lower=np.append(np.full(rows.shape[0], -np.inf), 1.0),
            row_upper=np.append(np.full(rows.shape[0], ceiling), 1.0),
        ).solve()
    except SolverFailed:
        return None
    if found.status is not Ended.OPTIMAL or found.x is None or found.row_dual is None:
        return None
    return found.x, found.row_dual[:-1]
