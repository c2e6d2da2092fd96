"""Compile all kernels that a solver may call before its clock starts.

Machine code is kept on disk, so this takes long only once after installation. A second process then helps: it starts at
the other end of the list, and each process loads what the other has compiled.
"""

import importlib
import logging
import os
import pkgutil
import subprocess
import sys
import time
from collections.abc import Iterable, Set
from dataclasses import dataclass
from pathlib import Path

from rue._jit import KERNELS, make_ready
from rue._threads import cores
from rue.solution import Hook, Progress, Solver

logger = logging.getLogger("rue")

# Kernel files that every solve needs (the model, its optimal values, the judge), and those of a lower bound.
COMMON = ("structure_kernels", "values_kernels", "judge_kernels")
BOUND = ("belief_kernels", "expansion_kernels", "proof_kernels", "certificate_kernels")
HULL = ("corner_kernels", "hull_kernels", "sum_kernels", "vector_kernels")
# Files whose kernels share most helpers come last, so that one process compiles all of them.
LARGEST = ("history_kernels.", "table_search_kernels.", "mixed_table_kernels.")
# A second process starts if at least this many kernels are missing; fewer are compiled before it is up.
MANY = 8


@dataclass(frozen=True)
class Compiled:
    """The result of compiling ahead."""

    kernels: int  # that can be called now
    compiled: int  # of these, by this process; the others were on disk, or a second process compiled them
    seconds: float  # processor time of all processes
    folder: str | None  # where machine code is kept, one folder above all; None: nowhere


def ensure_compiled(solver: Solver, progress: Hook | None = None, bound: bool = True) -> None:
    """Compile or load every kernel that `solve` may call with this solver. Return at once if that was done before."""
    compile_kernels(kernels_of(solver, bound), progress)


def compile_for_bound(short: bool = True) -> None:
    """Compile or load every kernel that a lower bound needs; a `short` search does not come to the hull."""
    compile_kernels(_named({*COMMON, *BOUND, *(() if short else HULL)}))


def compile_for_judge() -> None:
    """Compile or load every kernel that `evaluate` needs."""
    compile_kernels(_named({*COMMON}))


def compile_for_controllers(solvers: Iterable[Solver]) -> None:
    """Compile or load every kernel that smaller controllers need, with those of the solvers that they start from."""
    compile_kernels(_named({*COMMON, "controller_kernels"}.union(*(solver.kernels() for solver in solvers))))


def compile_ahead(solvers: Iterable[Solver] | None = None, progress: Hook | None = None) -> Compiled:
    """Compile or load the kernels of some solvers, or all kernels. Return what was done."""
    before = _processor_seconds()
    if solvers is None:
        _import_all_kernels()
        names = list(KERNELS)
    else:
        names = _named({name for solver in solvers for name in kernels_of(solver)})
    compiled = compile_kernels(names, progress)
    folders = {KERNELS[name].cache_folder for name in names} - {None}
    folder = os.path.commonpath([str(folder) for folder in folders]) if folders else None
    return Compiled(len(names), compiled, _processor_seconds() - before, folder)


def kernels_of(solver: Solver, bound: bool = True) -> list[str]:
    """Return the kernels that `solve` may call with this solver, including those of the lower bound if wanted."""
    return _named({*COMMON, *solver.kernels(), *(BOUND if bound else ())})


def _named(wanted: Set[str]) -> list[str]:
    """Return the kernels that are named, or whose file is named."""
    return [name for name in KERNELS if name in wanted or name.partition(".")[0] in wanted]


def compile_kernels(names: Iterable[str], progress: Hook | None = None) -> int:
    """Compile or load kernels and report which one is under way. Return how many this process compiled."""
    missing = [name for name in names if not KERNELS[name].is_ready]
    missing.sort(key=lambda name: name.startswith(LARGEST))
    kept = all(KERNELS[name].cache_folder for name in missing)
    began = time.perf_counter()
    compiled = 0
    second: subprocess.Popen[bytes] | None = None

    def on_compile(name: str) -> None:
        nonlocal compiled, second
        compiled += 1
        at = missing.index(name)
        if compiled == 1:
            logger.info("compiling kernels, which are kept for the next time")
            if kept and len(missing) - at > MANY and cores() > 1:
                second = _start_from_the_end(missing[at + 1 :])
        if progress is not None:
            stage = f"compiling: kernel {at + 1} of {len(missing)}"
            progress(Progress(stage, time.perf_counter() - began, 0, None))

    try:
        make_ready(missing, on_compile)
    finally:
        if second is not None:
            second.terminate()
            second.wait()
    if compiled and not kept:
        logger.warning(
            "compiled kernels cannot be kept: no cache folder can be written; each start takes about %.0f s; "
            "set NUMBA_CACHE_DIR to a folder that can be written",
            time.perf_counter() - began,
        )
    return compiled


def _start_from_the_end(names: list[str]) -> "subprocess.Popen[bytes] | None":
    """Start a process that compiles these kernels into the cache on disk, the last one first."""
    words = [f"{KERNELS[name].module}:{name}" for name in reversed(names)]
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "rue.compilation", *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:  # without a second process, this one compiles everything
        return None


def _import_all_kernels() -> None:
    for module in pkgutil.walk_packages([str(Path(__file__).parent)], "rue."):
        if module.name.endswith("_kernels"):
            importlib.import_module(module.name)


def _processor_seconds() -> float:
    """Return the processor time of this process and of those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":  # the second process; its words are like "rue.judge_kernels:judge_kernels.prove"
    for word in sys.argv[1:]:
        importlib.import_module(word.partition(":")[0])
    make_ready([word.partition(":")[2] for word in sys.argv[1:]], lambda name: None)
