"""Sparse linear systems of Markov chains, by factorisation."""

import numpy as np

from rue._arrays import Array
from rue.errors import SolverFailed


def solve_chain(row: Array, column: Array, prob: Array, right: Array) -> Array:
    """Return x with x = right + P x, where P has the entries given; columns beyond the rows are goals, where x is 0.

    One step of iterative refinement reduces the error of the factorisation. The caller proves the result. Where the
    chain is never left, up to rounding, x may be infinite.
    """
    # Needed only where sweeps are slow, and slow to import itself.
    from scipy.sparse import csr_array, eye_array
    from scipy.sparse.linalg import splu

    size = right.shape[0]
    inside = column < size
    step = csr_array((prob[inside], (row[inside], column[inside])), shape=(size, size))
    try:
        factors = splu((eye_array(size) - step).tocsc())
    except (RuntimeError, MemoryError) as error:
        raise SolverFailed(f"SuperLU could not factorise a chain of {size} nodes: {error}") from None
    x = factors.solve(right)
    with np.errstate(invalid="ignore", over="ignore"):
        x = x + factors.solve(right - (x - step @ x))
    x = np.where(np.isnan(x), np.inf, x)
    return np.asarray(np.maximum(x, 0.0))  # neither P nor the right-hand side is negative, so x is not


def eliminate_chain(row: Array, column: Array, prob: Array, right: Array) -> Array:
    """Return what `solve_chain` returns, by elimination of one node after the other, in a full matrix.

    Each row, goals included, sums to one, and no node leads to itself. As Grassmann, Taksar and Heyman do it: the
    chance to leave a node is the sum of the chances of where it leads to. Nothing is ever subtracted, so that chains
    that are hardly ever left lose no precision.
    """
    size = right.shape[0]
    full = np.zeros((size, size + 1))  # nodes, and all goals as one
    np.add.at(full, (row, np.minimum(column, size)), prob)
    full = np.column_stack([full, right])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for i in range(size - 1, -1, -1):
            full[i] /= full[i, :i].sum() + full[i, size]
            before = np.flatnonzero(full[:i, i])
            full[before] += full[before, i, None] * full[i]
            full[before, before] = 0.0
        x = full[:, size + 1 :]
        for i in range(size):
            after = np.flatnonzero(full[i, :i])
            x[i] += (full[i, after, None] * x[after]).sum(axis=0)
    return np.where(np.isnan(x), np.inf, x).reshape(right.shape)
