"""Compile ahead what solvers need, which otherwise happens when one is used for the first time after installation."""

import importlib
import os
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass

import rue
from rue._jit import KERNELS
from rue.compilation import compile_kernels, kernels_of
from rue.solution import Hook, Solver


@dataclass(frozen=True)
class Warmth:
    """What was compiled, what it took, and where it is kept."""

    kernels: int  # that are ready now
    compiled: int  # of these, in this process; the others were on disk, or a second process compiled them
    seconds: float  # of the processor, in all processes
    folder: str | None  # None: compiled code cannot be kept


def warm(solvers: Iterable[Solver] | None = None, progress: Hook | None = None) -> Warmth:
    """Compile or load all kernels that these solvers may call; without solvers, all there are."""
    before = _cpu_seconds()
    names = _all_kernels() if solvers is None else _kernels_of_all(solvers)
    compiled = compile_kernels(names, progress)
    folders = {KERNELS[name].cache_folder for name in names}
    return Warmth(len(names), compiled, _cpu_seconds() - before, folders.pop() if len(folders) == 1 else None)


def _all_kernels() -> list[str]:
    for module in pkgutil.walk_packages(rue.__path__, "rue."):
        if module.name.endswith("_kernels"):
            importlib.import_module(module.name)
    return list(KERNELS)


def _kernels_of_all(solvers: Iterable[Solver]) -> list[str]:
    wanted = {name for solver in solvers for name in kernels_of(solver)}
    return [name for name in KERNELS if name in wanted]


def _cpu_seconds() -> float:
    """Of this process and of those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
