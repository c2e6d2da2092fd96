"""Solve the matrix game between one player who draws a policy and one who picks a sample, as a linear program:

    min over x of  max over k of  Σ_j x_j A[k, j],      x ≥ 0,  Σ_j x_j = 1

Its dual is a belief over the samples, against which every policy that is drawn is a best answer.
"""

from dataclasses import dataclass

import numpy as np

from rue._arrays import Array
from rue._highs import Ended, Program
from rue.errors import SolverFailed

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


def solve_game(matrix: Array, *, ties: bool = True) -> GameSolution:  # [K, J], all entries ≥ 0
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
            weight = found[0][:count] / unit
            weight = np.where(weight > NEGLIGIBLE, weight, 0.0)
            weight = weight / weight.sum()
        reached = float((matrix @ weight).max())
        # The second program is used if it keeps the value, the first if it is no worse than a single column.
        if reached <= value + 1e-9 * top:
            best, value = weight, reached
    return GameSolution(best, value, belief, min(float((belief @ matrix).min()), value))


def _least_value(rows: Array, unit: Array) -> tuple[Array, Array] | None:
    """Return the mixture with the least value, followed by that value, and the multipliers of the rows."""
    samples, count = rows.shape
    return _linear_program(
        np.append(np.zeros(count), 1.0), np.column_stack([rows, -np.ones(samples)]), 0.0, unit
    )  # fmt: skip


def _linear_program(cost: Array, rows: Array, ceiling: float, unit: Array) -> tuple[Array, Array] | None:
    """Minimise cost·y with rows·y ≤ ceiling and Σ y/unit = 1; return y and the multipliers of the rows.

    Columns beyond the units, such as the value of the game, may have any sign. Return None if HiGHS fails.
    """
    free = cost.size - unit.size
    matrix = np.vstack([rows, np.append(1.0 / unit, np.zeros(free))])
    row, column = np.nonzero(matrix)
    try:
        found = Program(
            cost=cost,
            lower=np.append(np.zeros(unit.size), np.full(free, -np.inf)),
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
