"""Sparse linear systems of Markov chains, by factorisation."""

import numpy as np

from rue._arrays import Array
from rue.errors import SolverFailed


def solve_chain(row: Array, column: Array, prob: Array, right: Array) -> Array:
    """x with x = right + P x, where P has the entries given; columns beyond the rows lead to a goal, where x is 0.

    One step of refinement makes up for what the factorisation loses. The caller proves the result.
    """
    # Needed only where sweeps are slow, and slow to import itself.
    from scipy.sparse import csr_array, eye_array
    from scipy.sparse.linalg import splu

    size = right.shape[0]
    inside = column < size
    step = csr_array((prob[inside], (row[inside], column[inside])), shape=(size, size))
    try:
        factors = splu((eye_array(size) - step).tocsc())
    except RuntimeError as error:
        raise SolverFailed(f"SuperLU could not factorise a chain of {size} nodes: {error}") from None
    x = factors.solve(right)
    x = x + factors.solve(right - (x - step @ x))
    return np.asarray(np.maximum(x, 0.0))  # as it must be, since neither P nor what is paid is negative


def ranges(first: Array, length: Array) -> Array:
    """The numbers first[0], first[0]+1, … (length[0] of them), then first[1], …"""
    return np.repeat(first - np.cumsum(length) + length, length) + np.arange(int(length.sum()))
