"""Kernels on their own: the matrix game against a linear program, and one compilation each."""

import importlib
import pkgutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from naive import matrix_game
from numba.types import Integer, int64, unliteral

import rue
import rue._kernels
from rue._kernels.options import solve_matrix


def solve(matrix):
    rows, columns = matrix.shape
    matrix = np.ascontiguousarray(matrix)
    mix, belief = np.empty(columns), np.empty(rows)
    tableau = np.empty((rows + 1, rows + columns + 1))
    value, pivots = solve_matrix(matrix, tableau, np.empty(rows, np.int64), mix, belief)
    assert pivots >= 0
    return value, mix, belief


shapes = st.tuples(st.integers(2, 15), st.integers(1, 8))


@settings(max_examples=300)
@given(arrays(np.float64, shapes, elements=st.integers(-8, 8).map(lambda i: i / 4)))
def test_matrix_game_equals_matrix_game(matrix):
    value, mix, belief = solve(matrix)
    exact = matrix_game(matrix)
    assert value == pytest.approx(exact, abs=1e-8)
    for weights in (mix, belief):
        assert (weights >= 0).all() and weights.sum() == pytest.approx(1.0)
    assert (matrix @ mix).max() <= value + 1e-9
    assert (belief @ matrix).min() >= value - 1e-8


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_matrix_game_of_any_size_of_numbers(scale):
    matrix = np.random.default_rng(1).normal(size=(15, 8)) * scale
    value, mix, _ = solve(matrix)
    assert value == pytest.approx(matrix_game(matrix / scale) * scale, rel=1e-7)
    assert (matrix @ mix).max() == pytest.approx(value)


def _plain(argument):
    return int64 if isinstance(unliteral(argument), Integer) else unliteral(argument)


def test_every_kernel_is_compiled_once():
    # Read-only and writable arrays are different types to numba: a kernel that gets both is compiled twice.
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(3, seed=1)
    for solver in (
        rue.Regret(),
        rue.Regret(options="stochastic"),
        rue.MyopicRegret(),
        rue.WorstCase(),
        rue.Regret(2),
        rue.Regret(3, "history"),
        rue.Regret(2, "stochastic"),
        rue.ExactStationary(),
        rue.Mixture(),
        rue.Adaptive(0.001),
        rue.Adaptive(0.001, objective="cost"),
        rue.Average(),
        rue.BestSample(),
    ):
        solution = rue.solve(model, solver)
        rue.simulate(model, solution.policy, sample=0, episodes=2, seed=1)
    medical = rue.domains.Medical(seed=1).sample(3, seed=1)
    rue.solve(medical, rue.Regret())
    rue.solve(medical, rue.Regret(2, "history", engine="highs"))
    names = [module.name for module in pkgutil.iter_modules(rue._kernels.__path__)]
    assert len(names) >= 6
    for name in names:
        module = importlib.import_module(f"rue._kernels.{name}")
        for kernel in vars(module).values():
            if hasattr(kernel, "signatures") and kernel.__module__ == module.__name__:
                # A constant, or an index of another width, that one kernel hands to another is a type of its own, and
                # costs next to nothing.
                signatures = {tuple(map(_plain, signature)) for signature in kernel.signatures}
                assert len(signatures) <= 1, f"{name}.{kernel.__name__}: {signatures}"
