"""SARSOP through `pomdpsol` of the APPL toolkit: bounds on the least weighted regret at a fixed belief, over time.

`pomdpsol` is run if it is on the PATH; nothing here installs it. It reads a file that rue writes. The rewards
are those with potential V*: its value is minus the least weighted regret, Σ_k b_k (V_k(π) − V*_k) at the initial
state, and all six digits that it prints are digits of the regret. Its upper bound on the value is our lower bound.

Seconds are those that `pomdpsol` prints, of CPU: for reading the file, for its first bounds and for its search. It
stops at a difference of the bounds, and its first bounds are the finer, and take the longer, the smaller that is.
"""

import math
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rue import UMDP, optimal_values
from rue._arrays import Array
from rue.formats.pomdpx_text import pomdpx

PROGRAM = "pomdpsol"
# It does not look at the clock before it has its first bounds: it is stopped after this many times the limit.
PATIENCE = 3.0
MEGABYTES = 4000
LOADED = re.compile(r"loading time : ([\d.]+)s")
NUMBER = r"([-+\d.e]+)"
# Time, trials, backups, lower and upper bound, their difference, vectors, beliefs.
LINE = re.compile(rf"^ {NUMBER} +\d+ +\d+ +{NUMBER} +{NUMBER} +[-+\d.e]+ +\d+ +\d+ *$", re.MULTILINE)


@dataclass(frozen=True)
class Bounds:
    """Lower and upper bound on the least weighted regret after a number of seconds."""

    seconds: float
    lower: float
    upper: float

    @property
    def gap(self) -> float:
        """The difference as a part of the upper bound."""
        return (self.upper - self.lower) / self.upper if self.upper > 0 else 0.0


@dataclass(frozen=True)
class Record:
    """Bounds over time."""

    trace: tuple[Bounds, ...]

    @property
    def gap(self) -> float:
        """The last gap; one if there were no bounds in time."""
        return self.trace[-1].gap if self.trace else 1.0

    def seconds_to(self, gap: float) -> float:
        """Return when the gap was first at most this; infinite if it never was."""
        return next((point.seconds for point in self.trace if point.gap <= gap), math.inf)


def installed() -> bool:
    """Return whether the program is on the PATH."""
    return shutil.which(PROGRAM) is not None


def solve_by_sarsop(model: UMDP, belief: Array, precision: float, seconds: float) -> Record:
    """Run the program until the bounds differ by `precision`, or for some seconds."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise FileNotFoundError(f"{PROGRAM} is not on the PATH")
    with TemporaryDirectory() as folder:
        file = Path(folder, "model.pomdpx")
        file.write_text(pomdpx(model, belief, optimal_values(model).value), encoding="ascii")
        limits = ["--precision", repr(precision), "--timeout", repr(seconds), "--memory", str(MEGABYTES)]
        try:
            done = subprocess.run(
                [program, *limits, "--output", os.devnull, file.name],
                cwd=folder, capture_output=True, text=True, check=True, timeout=PATIENCE * seconds + 1,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Record(())
    return read_output(done.stdout)


def read_output(text: str) -> Record:
    """Return the bounds that the program has printed, as bounds on the regret."""
    loaded = LOADED.search(text)
    before = float(loaded[1]) if loaded else 0.0
    lines = ([float(number) for number in found.groups()] for found in LINE.finditer(text))
    return Record(tuple(Bounds(before + seconds, max(0.0, -upper), -lower) for seconds, lower, upper in lines))
