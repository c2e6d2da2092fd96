"""Progress on standard error: bars, and a notice while kernels are compiled. rich is imported when a bar is drawn."""

import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rue.compilation import compile_ahead
from rue.experiments import Advance
from rue.model import UMDP
from rue.solution import Interval, Progress, Solver
from rue.units import COST, Units
from rue.worlds import Source

if TYPE_CHECKING:
    from rich.progress import Progress as RichBar
    from rich.status import Status

T = TypeVar("T")

SECONDS_BEFORE_BAR = 2.0
SECONDS_BETWEEN_LINES = 30.0
SECONDS_BETWEEN_NOTICES = 5.0


class _ErrorsOnly:
    """Whether nothing but errors goes to standard error."""

    asked = False


def be_quiet(asked: bool) -> None:
    """Show no progress and no warnings from now on, or show them again."""
    _ErrorsOnly.asked = asked
    logging.getLogger("rue").setLevel(logging.ERROR if asked else logging.NOTSET)


def read_and_warm_up(read: Callable[[], T], solvers: Sequence[Solver]) -> T:
    """Read a model while the kernels of the solvers are compiled or loaded. Return the model."""
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        wait([reading], timeout=0.1)
        if not reading.done() or reading.exception() is None:  # an error in the model is reported at once
            with CompileNotice() as notice:
                compile_ahead(solvers, notice)
        return reading.result()


class CompileNotice:
    """Says which of how many kernels are compiled: on one line of a terminal, elsewhere on a new line now and then."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._last_line = -math.inf

    def __enter__(self) -> Self:
        return self

    def __call__(self, progress: Progress) -> None:
        """Show what is being compiled."""
        if _ErrorsOnly.asked:
            return
        words = f"{progress.stage}, once after installation"
        if not sys.stderr.isatty():
            if progress.seconds - self._last_line >= SECONDS_BETWEEN_NOTICES:
                self._last_line = progress.seconds
                print(words, file=sys.stderr)
        elif self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True, highlight=False).status(words)
            self._status.start()
        else:
            self._status.update(words)

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()


class Bar:
    """A bar on standard error, if that is a terminal: the first text, the bar, then the other texts."""

    def __init__(self, *texts: str, total: float | None, remaining: bool = False, silent: bool = False) -> None:
        self._texts, self._total, self._remaining = texts, total, remaining
        self._hidden = silent or _ErrorsOnly.asked or not sys.stderr.isatty()
        self._bar: RichBar | None = None

    def draw(self, **values: Any) -> None:
        """Show new values."""
        if not self._hidden:
            if self._bar is None:
                self._bar = self._start()
            self._bar.update(self._bar.task_ids[0], **values)

    def _start(self) -> "RichBar":
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichBar

        before, *after = (TextColumn(text, markup=False) for text in self._texts)
        remaining = [TimeRemainingColumn()] if self._remaining else []
        columns = [before, BarColumn(), *remaining, *after]
        bar = RichBar(*columns, console=Console(stderr=True, highlight=False), transient=True)
        bar.start()
        bar.add_task("", total=self._total, bounds="")
        return bar

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


class ProgressBar(Bar):
    """Shows the stage of a solver and the current bounds, once two seconds have passed."""

    def __init__(self, silent: bool, seconds: float, units: Units | None = None) -> None:
        """Bounds are shown in the units, if they are given: those of an objective that is a value."""
        self._units = units
        texts = ("{task.description}", "{task.completed:.0f} s", "{task.fields[bounds]}")
        super().__init__(*texts, total=seconds if math.isfinite(seconds) else None, silent=silent)
        self._lock = threading.Lock()

    def __call__(self, progress: Progress) -> None:
        """Show a report of a solver."""
        if progress.seconds < SECONDS_BEFORE_BAR:
            return
        bounds = {} if progress.objective is None else {"bounds": str(self._in_figures(progress.objective))}
        with self._lock:
            self.draw(description=progress.stage, completed=progress.seconds, **bounds)

    def _in_figures(self, objective: Interval) -> Interval:
        return objective if self._units is None else Interval(*self._units.ends(objective.lower, objective.upper))


def units_of_objective(model: UMDP | Source, solver: Solver) -> Units | None:
    """Return the units of the bounds of a solver; None if they are regrets, which are the same in all units."""
    return model.units if solver.measures.endswith(COST) else None


class RunsBar(Bar):
    """Shows how many runs of an experiment are done; outside a terminal, a line now and then."""

    def __init__(self, silent: bool, total: int) -> None:
        texts = ("{task.completed:.0f} of {task.total:.0f} runs", "{task.description}")
        super().__init__(*texts, total=total, remaining=True, silent=silent)
        self._silent = silent or _ErrorsOnly.asked
        self._last_line = time.monotonic()
        self.draw()

    def __call__(self, progress: Advance) -> None:
        """Show a report of the experiment."""
        record = progress.record
        failed = f", {progress.failed} failed" if progress.failed else ""
        words = f"{record['group']} {record['size']} {record['method']}{failed}"
        self.draw(completed=progress.done, description=words)
        if self._silent or not self._hidden or time.monotonic() - self._last_line < SECONDS_BETWEEN_LINES:
            return
        self._last_line = time.monotonic()
        print(f"{progress.done} of {progress.total} runs{failed}", file=sys.stderr)
