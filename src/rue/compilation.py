"""Everything that a solver may call is compiled before its clock is started.

Compiled code is kept on disk, so that this takes long only once after installation. Then a second process helps: it
begins at the other end of the list, and what one of the two has compiled, the other loads.
"""

import importlib
import logging
import subprocess
import sys
import time
from collections.abc import Iterable, Set

from rue._jit import KERNELS, make_ready
from rue._threads import cores
from rue.solution import Hook, Progress, Solver

logger = logging.getLogger("rue")

# The files of kernels that every model, its optimal values, and the judge need; and those of a lower bound.
COMMON = ("structure_kernels", "values_kernels", "judge_kernels")
BOUND = ("belief_kernels", "certificate_kernels")
# The files with the most helpers that kernels share are the last, so that one process compiles all of them.
LARGEST = ("history_kernels.", "table_search_kernels.", "mixed_table_kernels.")
# Fewer kernels than this are compiled before a second process has started.
MANY = 8


def kernels_of(solver: Solver, bound: bool = True) -> list[str]:
    """The kernels that `solve` may call with this solver, with those of the lower bound if one is wanted."""
    return _named({*COMMON, *solver.kernels(), *(BOUND if bound else ())})


def ensure_compiled(solver: Solver, progress: Hook | None = None, bound: bool = True) -> None:
    """Compile or load all that `solve` may call with this solver; at once if that was done before."""
    compile_kernels(kernels_of(solver, bound), progress)


def compile_for_bound() -> None:
    """Compile or load all that a lower bound needs."""
    compile_kernels(_named({*COMMON, *BOUND}))


def _named(wanted: Set[str]) -> list[str]:
    """All kernels that are named, or whose file is."""
    return [name for name in KERNELS if name in wanted or name.partition(".")[0] in wanted]


def compile_kernels(names: Iterable[str], progress: Hook | None = None) -> int:
    """Compile or load kernels, and tell which of how many is under way; how many had to be compiled here."""
    missing = [name for name in names if not KERNELS[name].is_ready]
    missing.sort(key=lambda name: name.startswith(LARGEST))  # where the two meet, helpers are compiled by both
    kept = all(KERNELS[name].cache_folder for name in missing)
    began = time.perf_counter()
    compiled = 0
    helper: subprocess.Popen[bytes] | None = None

    def on_compile(name: str) -> None:
        nonlocal compiled, helper
        compiled += 1
        at = missing.index(name)
        if compiled == 1:
            logger.info("compiling kernels, which are kept for the next time")
            if kept and len(missing) - at > MANY and cores() > 1:
                helper = _begin_at_the_end(missing[at + 1 :])
        if progress is not None:
            stage = f"compiling: kernel {at + 1} of {len(missing)}"
            progress(Progress(stage, time.perf_counter() - began, 0, None))

    try:
        make_ready(missing, on_compile)
    finally:
        if helper is not None:
            helper.terminate()
            helper.wait()
    if compiled and not kept:
        logger.warning(
            "compiled kernels cannot be kept: no cache folder can be written; each start takes about %.0f s; "
            "set NUMBA_CACHE_DIR to a folder that can be written",
            time.perf_counter() - began,
        )
    return compiled


def _begin_at_the_end(names: list[str]) -> "subprocess.Popen[bytes] | None":
    """A process that compiles these kernels for the cache on disk, the last one first."""
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "rue.compilation", *(f"{KERNELS[name].module}:{name}" for name in reversed(names))],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:  # where there is no second process, this one does it all
        return None


if __name__ == "__main__":  # the second process: "rue.judge_kernels:judge_kernels.settle" …
    for argument in sys.argv[1:]:
        importlib.import_module(argument.partition(":")[0])
    make_ready([argument.partition(":")[2] for argument in sys.argv[1:]], lambda name: None)
