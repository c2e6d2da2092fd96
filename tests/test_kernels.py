"""Kernels on their own: the matrix game against a linear program, and when they are compiled."""

import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from naive import matrix_game

import rue._jit
from rue._jit import KERNELS
from rue.recursion.inner.matrix_kernels import solve_game
from rue.recursion.inner.option_set import new_game


def solve(matrix):
    rows, columns = matrix.shape
    mix, memory = np.empty(columns), new_game(rows, columns)
    value, pivots = solve_game(np.ascontiguousarray(matrix.T), columns, mix, memory)
    assert pivots >= 0
    return value, mix, memory.belief


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


HERE = Path(__file__).parent
SOLVERS = [
    "Average()", "BestSample()", "Regret()", "Regret(1, 'stochastic')", "Regret(2)", "Regret(3)",
    "Regret(2, 'history')", "Regret(2, 'stochastic')", "MyopicRegret(2)", "WorstCase()", "Mixture()",
    "ExactStationary()", "Adaptive(0.001)", "Adaptive(0.001, objective='cost')",
]  # fmt: skip


@pytest.mark.parametrize("solver", SOLVERS)
def test_nothing_is_compiled_once_the_clock_has_started(solver):
    run = subprocess.run(
        [sys.executable, str(HERE / "nothing_compiles.py"), solver], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_kernels_are_called_from_python_and_helpers_are_not():
    # A helper has nothing that Python could call: the process would end.
    names = [module.name for module in pkgutil.walk_packages(rue.__path__, "rue.") if module.name.endswith("_kernels")]
    assert len(names) > 10
    for name in names:
        module = importlib.import_module(name)
        for function in vars(module).values():
            if hasattr(function, "py_func"):
                is_helper = function.targetoptions.get("no_cpython_wrapper", False)
                assert is_helper == function.__name__.startswith("_"), f"{name}.{function.__name__}"
    calls = re.compile(r"(?:kernel|chain|game|reach|shortest|options|arrange|mixture|controller)\._[a-z]")
    for path in Path(rue.__file__).parent.rglob("*.py"):
        if not path.stem.endswith("_kernels"):
            assert not calls.search(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("name", list(KERNELS))
def test_every_parameter_of_a_kernel_has_a_type(name):
    kernel = KERNELS[name]
    assert len(kernel.types) == len(inspect.signature(kernel.function.py_func).parameters)


def in_a_process(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )


COMPILE_ONE = """
from rue.compilation import compile_kernels
stages = []
name = "row_kernels.pack_options"  # with a helper
print(compile_kernels([name], lambda progress: stages.append(progress.stage)), *stages, sep="; ")
"""


def test_what_is_compiled_is_told_and_kept(tmp_path):
    first, second = (in_a_process(COMPILE_ONE, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first.stdout == "1; compiling: kernel 1 of 1\n" and second.stdout == "0\n"
    assert not first.stderr


def test_where_nothing_can_be_kept_it_works_and_says_what_that_costs():
    # The only place that numba may look for is that of notebooks, which this is none of.
    run = in_a_process(COMPILE_ONE, NUMBA_CACHE_LOCATOR_CLASSES="IPythonCacheLocator")
    assert run.stdout == "1; compiling: kernel 1 of 1\n"
    assert re.search(r"cannot be kept: .* each start takes about \d+ s; set NUMBA_CACHE_DIR", run.stderr)


def test_two_processes_share_the_work(tmp_path):
    # The one that begins at the end finds nothing to do where the other has been.
    code = """
import rue.compilation as ready
ready.MANY, ready._cores = 0, lambda: 2
names = ["one_step_kernels.value_outward", "values_kernels.regret_gap"]
names += ["structure_kernels.breadth_first", "structure_kernels.predecessors"]
ready.compile_kernels(names)
print(all(ready.KERNELS[name].is_ready for name in names))
"""
    assert in_a_process(code, NUMBA_CACHE_DIR=str(tmp_path)).stdout == "True\n"


def test_the_cache_sees_edits_in_every_file_that_a_kernel_reaches(tmp_path):
    """Machine code of a kernel is not used again after an edit of a helper in another file."""
    (tmp_path / "low_kernels.py").write_text("from rue._jit import helper\n@helper\ndef _add(x):\n    return x + 1.0\n")
    (tmp_path / "high_kernels.py").write_text(
        "from rue._jit import kernel\nfrom low_kernels import _add\n"
        "@kernel('float')\ndef twice(x):\n    return _add(_add(x))\n"
    )
    code = "from high_kernels import twice; print(twice(1.0), sum(twice.stats.cache_misses.values()))"
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}"}
    assert in_a_process(code, **environment).stdout == "3.0 1\n"
    assert in_a_process(code, **environment).stdout == "3.0 0\n"
    (tmp_path / "low_kernels.py").write_text("from rue._jit import helper\n@helper\ndef _add(x):\n    return x + 2.0\n")
    assert in_a_process(code, **environment).stdout == "5.0 1\n"


def test_what_goes_wrong_in_numba_is_told():
    def make(function):
        raise AttributeError("another version of numba")

    with pytest.raises(AttributeError, match="another version of numba"):
        rue._jit.Deferred(len, make)([])
    with pytest.raises(AttributeError, match="another version of numba"):
        _ = rue._jit.Deferred(len, make).signatures
