"""Matrix games of columns by a tableau simplex: what column generation over options solves again and again.

Beliefs are kept above `LEAST`, so that no answer to one takes a choice that costs infinity while there is another.
"""

from collections import namedtuple

import numpy as np

from rue._jit import declare
from rue.recursion.inner.option_tree_kernels import INFINITE, _largest, helper, kernel

LEAST = 1e-15
# For a tableau whose entries began in [1, 2]: the largest rounding error, and the smallest pivot.
ZERO, PIVOT = 1e-12, 1e-11
# The most columns that are kept at once, besides two for each sample.
COLUMNS = 128

GameMemory = namedtuple("GameMemory", "tableau basis belief")
GameMemory.__doc__ = """A tableau for any number of columns, flat, its basis, and the belief of the last game."""
declare(GameMemory, "f1 l1 f1")


@helper
def _leaving_row(tableau, basis, enter, by_index):
    """Return the row that leaves the basis, or -1: of those with the least ratio, up to rounding, the largest pivot.

    A pivot that is only rounding would ruin the tableau. `by_index` is Bland's rule: the lowest index instead.
    """
    rows = basis.size
    width = tableau.shape[1] - 1
    least = np.inf
    for i in range(rows):
        if tableau[i, enter] > PIVOT:
            least = min(least, tableau[i, width] / tableau[i, enter])
    leave = -1
    for i in range(rows):
        pivot = tableau[i, enter]
        if pivot <= PIVOT or tableau[i, width] > (least + ZERO) * pivot:
            continue
        if leave < 0 or (basis[i] < basis[leave] if by_index else pivot > tableau[leave, enter]):
            leave = i
    return leave


@kernel("f2 int f1 GameMemory")
def solve_game(column, count, mix, memory):
    """Solve the matrix game of the first `count` columns, `column[j, k]`, by a tableau simplex.

    The column player mixes `mix` to minimise the largest row; the row player's answer is `memory.belief`. Entries are
    scaled into [1, 2], so that no first phase is needed: maximise Σu subject to M u ≤ 1, u ≥ 0; the value is 1/Σu, the
    mixture u/Σu, and the dual gives the belief. Columns with infinite entries are left out if others are finite.
    Dantzig's rule comes first, and Bland's, which cannot cycle, after many pivots. Returns the value and the number of
    pivots; -1 if they ran out or rounding left nothing of the mixture, with the mixture and the belief unchanged.
    """
    rows, columns = column.shape[1], count
    basis, belief = memory.basis, memory.belief
    low, high, first = np.inf, -np.inf, -1
    for j in range(columns):
        if first < 0 and _largest(column[j]) < INFINITE:
            first = j
    use_all = first < 0
    first = max(first, 0)
    for j in range(columns):
        if use_all or _largest(column[j]) < INFINITE:
            for i in range(rows):
                low = min(low, column[j, i])
                high = max(high, column[j, i])
    span = high - low
    if span <= 0.0:
        mix[:columns] = 0.0
        mix[first] = 1.0
        belief[:] = 1.0 / rows
        return low, 0
    width = columns + rows
    size = (rows + 1) * (width + 1)
    tableau = memory.tableau[:size].reshape((rows + 1, width + 1))
    tableau[:, :] = 0.0
    for j in range(columns):
        used = use_all or _largest(column[j]) < INFINITE
        tableau[rows, j] = -1.0 if used else 0.0  # a column that gains nothing never enters
        for i in range(rows):
            tableau[i, j] = 1.0 + (column[j, i] - low) / span if used else 2.0
    for i in range(rows):
        tableau[i, columns + i] = 1.0
        tableau[i, width] = 1.0
        basis[i] = columns + i
    pivots = 0
    patience = 100 + 10 * width
    most = 1000 + 20 * width
    while pivots < most:
        enter = -1
        best = -ZERO
        for j in range(width):
            if tableau[rows, j] < best:
                enter = j
                if pivots > patience:
                    break
                best = tableau[rows, j]
        if enter < 0:
            break
        pivots += 1
        leave = _leaving_row(tableau, basis, enter, pivots > patience)
        if leave < 0:  # a column of rounding errors: it gains nothing
            tableau[rows, enter] = 0.0
            continue
        pivot = tableau[leave, enter]
        for j in range(width + 1):
            tableau[leave, j] /= pivot
        for i in range(rows + 1):
            factor = tableau[i, enter]
            if i != leave and factor != 0.0:
                for j in range(width + 1):
                    tableau[i, j] -= factor * tableau[leave, j]
                if i < rows:
                    tableau[i, width] = max(tableau[i, width], 0.0)
        basis[leave] = enter
    total = 0.0
    for i in range(rows):
        if basis[i] < columns:
            total += tableau[i, width]
    if pivots == most or not total > 0.0:
        return np.inf, -1
    mix[:columns] = 0.0
    for i in range(rows):
        if basis[i] < columns:
            mix[basis[i]] = tableau[i, width] / total
    total = 0.0
    for i in range(rows):
        belief[i] = max(tableau[rows, columns + i], 0.0)
        total += belief[i]
    for i in range(rows):
        belief[i] = belief[i] / total if total > 0.0 else 1.0 / rows
    # The value of the mixture itself: that of the tableau may be too low by rounding.
    value = -np.inf
    for i in range(rows):
        paid = 0.0
        for j in range(columns):
            if mix[j] > 0.0:
                paid += column[j, i] * mix[j]
        value = max(value, paid)
    return value, pivots


@helper
def _is_known(columns, count):
    """Return whether the column after the first `count` is one of them."""
    for j in range(count):
        same = True
        for k in range(columns.shape[1]):
            if columns[j, k] != columns[count, k]:
                same = False
                break
        if same:
            return True
    return False


@helper
def _keep_positive(belief):
    """Keep all weights above `LEAST`, in sum one."""
    total = 0.0
    for k in range(belief.size):
        belief[k] = max(belief[k], LEAST)
        total += belief[k]
    for k in range(belief.size):
        belief[k] /= total
