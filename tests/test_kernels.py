"""Kernels on their own: the matrix game against a linear program, and one compilation each."""

import importlib
import pkgutil

import numpy as np
import pytest
from every_kernel import uses
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from naive import matrix_game
from numba.types import Integer, int64, unliteral

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


# From a solver: up to the last bits the first column is constant and the second one is affine in the third. Dividing by
# what rounding leaves of the others, a simplex came to a mixture of nothing.
NEARLY_DEPENDENT = [
    [1.3714237238100233, 1.1983717478244134, 1.1115579639198854],
    [1.371423723810023, 1.1983717478244127, 1.110962295353402],
    [1.3714237238100233, 1.3290486530234757, 2.1563775369459095],
    [1.3714237238100222, 1.198371747824413, 1.1109622953534022],
    [1.3714237238100226, 1.198371747824413, 1.1109622953534017],
    [1.3714237238100224, 1.268874026135864, 1.6749805218450138],
    [1.371423723810022, 1.1983717478244136, 1.1109622953534026],
    [1.3714237238100222, 1.2664281329328186, 1.6554133762206527],
    [1.371423723810023, 1.1983717478244136, 1.1109622953534026],
    [1.3714237238100233, 1.1983717478244134, 1.1109622953534022],
    [1.3714237238100226, 1.1983717478244127, 1.1109622953534026],
    [1.3714237238100226, 1.198371747824413, 1.1115579639198858],
    [1.3714237238100233, 1.2728279938691407, 1.7066122637112249],
    [1.3714237238100233, 1.1983717478244136, 1.1109622953534022],
    [1.3714237238100224, 1.2909529288946713, 1.8516117439154642],
]  # fmt: skip


def test_matrix_game_whose_columns_nearly_depend_on_each_other():
    matrix = np.array(NEARLY_DEPENDENT)
    value, mix, belief = solve(matrix)
    assert value == pytest.approx(matrix_game(matrix), abs=1e-9)
    assert (matrix @ mix).max() <= value + 1e-12 and (belief @ matrix).min() >= value - 1e-9


@pytest.mark.parametrize("ties", [False, True])
def test_matrix_game_of_many_samples(ties):
    rng = np.random.default_rng(3)
    matrix = rng.integers(0, 3, size=(150, 400)).astype(float) if ties else rng.random((150, 400))
    value, mix, belief = solve(matrix)
    assert (matrix @ mix).max() <= value + 1e-9 and (belief @ matrix).min() >= value - 1e-8


def test_matrix_game_leaves_infinite_columns_out():
    huge = 1e280
    value, mix, _ = solve(np.array([[huge, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, huge]]))
    assert value == pytest.approx(0.5) and mix == pytest.approx([0.0, 0.5, 0.5, 0.0])
    value, mix, _ = solve(np.array([[huge, 2.0], [0.0, 2.0]]))
    assert value == 2.0 and list(mix) == [0.0, 1.0]
    value, _, _ = solve(np.array([[huge, 0.0], [0.0, huge]]))
    assert value >= 0.4 * huge


def _plain(argument):
    return int64 if isinstance(unliteral(argument), Integer) else unliteral(argument)


def test_every_kernel_is_compiled_once():
    # Read-only and writable arrays are different types to numba: a kernel that gets both is compiled twice.
    for use in uses():
        use()
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
