"""The first run after installation, as a new user has it, and the second: seconds of the processor and of the clock.

Each command runs twice, in processes of its own, with one cache folder that is empty at first. Imports and the work
itself are counted, too. The bytecode of the modules is there before, as after an installation by pip.
"""

import compileall
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import rue
from benchmarks.report import Table

GRID = "disaster:width=8,height=8,samples=15,seed=1"
COMMANDS = {
    "rue solve, reg": ("solve", GRID, "--method", "reg", "--json"),
    "rue solve, adaptive": ("solve", GRID, "--method", "adaptive", "--json"),
    "rue compare": ("compare", GRID, "--json"),
}
QUICK = ("rue solve, reg",)


def run(quick: bool) -> Iterator[Table]:
    """One table."""
    table = Table(
        "The first run, with an empty cache, and the second: disaster 8 × 8, 15 samples",
        ("command", "kernels", "first: processor", "first: clock", "second: processor", "second: clock"),
    )
    compileall.compile_dir(Path(rue.__file__).parent, quiet=1)
    for name in QUICK if quick else COMMANDS:
        with tempfile.TemporaryDirectory() as folder:
            seconds = [part for _ in range(2) for part in _timed(COMMANDS[name], folder)]
            kernels = len(list(Path(folder).rglob("*.nbc")))
        table.rows.append((name, str(kernels), *(f"{part:.1f}" for part in seconds)))
    yield table


def _timed(command: tuple[str, ...], folder: str) -> tuple[float, float]:
    """Seconds of the processor, in all processes, and of the clock."""
    before, began = os.times(), time.perf_counter()
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    subprocess.run([sys.executable, "-m", "rue.cli", *command], env=environment, capture_output=True, check=True)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return used, time.perf_counter() - began
