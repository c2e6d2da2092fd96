"""What people see on standard error while they wait: bars, and that something is compiled."""

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from rue import parsing
from rue.compilation import compile_ahead
from rue.experiments import Advance
from rue.model import UMDP
from rue.solution import Progress, Solver

SECONDS_BEFORE_BAR = 2.0
SECONDS_BETWEEN_LINES = 30.0
SECONDS_BETWEEN_NOTICES = 5.0


def read_model_and_warm_up(model: str, solvers: Sequence[Solver]) -> UMDP:
    """The model, read while all that the solvers may call is compiled or loaded."""
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(parsing.read_model, model)
        wait([reading], timeout=0.1)
        if not reading.done() or reading.exception() is None:  # a bad model is told at once
            with CompileNotice() as notice:
                compile_ahead(solvers, notice)
        return reading.result()


class CompileNotice:
    """Says that kernels are compiled, and which of how many: on one line, or in a pipe on a new one now and then."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status("") if self._console.is_terminal else None
        self._told = -math.inf

    def __enter__(self) -> Self:
        return self

    def __call__(self, progress: Progress) -> None:
        """What is being compiled."""
        if self._status is not None:
            self._status.start()
            self._status.update(f"{progress.stage}, once after installation")
        elif progress.seconds - self._told >= SECONDS_BETWEEN_NOTICES:
            self._told = progress.seconds
            self._console.print(f"{progress.stage}, once after installation")

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()


class ProgressBar:
    """Shows a bar once two seconds have passed, with the stage and the current interval."""

    def __init__(self, silent: bool, seconds: float) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._silent = silent or not self._console.is_terminal
        self._total = seconds if math.isfinite(seconds) else None
        self._bar: Bar | None = None
        self._task = TaskID(0)
        self._bounds = ""
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __call__(self, progress: Progress) -> None:
        """What a solver reports."""
        if self._silent or progress.seconds < SECONDS_BEFORE_BAR:
            return
        with self._lock:
            if self._bar is None:
                self._bar = self._start(progress.stage)
            if progress.objective is not None:
                self._bounds = str(progress.objective).replace("[", "\\[")
            self._bar.update(self._task, description=progress.stage, completed=progress.seconds, bounds=self._bounds)

    def _start(self, stage: str) -> Bar:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:.0f} s"),
            TextColumn("{task.fields[bounds]}", markup=False),
        )
        bar = Bar(*columns, console=self._console, transient=True)
        self._task = bar.add_task(stage, total=self._total, bounds="")
        bar.start()
        return bar

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


class _CountingBar:
    """Shows how much of what was counted beforehand is done."""

    def __init__(self, *columns: ProgressColumn, total: int, silent: bool = False) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bar = Bar(
            *columns, console=self._console, transient=True, disable=silent or not self._console.is_terminal
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


class PagesBar(_CountingBar):
    """Shows how many problems of a page are drawn."""

    def __init__(self) -> None:
        super().__init__(TextColumn("drawing problem {task.completed:.0f} of {task.total:.0f}"), BarColumn(), total=1)

    def __call__(self, done: int, total: int) -> None:
        """What the page reports."""
        self._bar.update(self._task, completed=done, total=total)


class RunsBar(_CountingBar):
    """Shows how many runs of an experiment are done; where nobody looks, a line now and then."""

    def __init__(self, silent: bool, total: int) -> None:
        super().__init__(
            TextColumn("{task.completed:.0f} of {task.total:.0f} runs"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
            total=total,
            silent=silent,
        )
        self._silent = silent
        self._told = time.monotonic()

    def __call__(self, progress: Advance) -> None:
        """What the experiment reports."""
        record = progress.record
        words = f"{record['group']} {record['size']} {record['method']}"
        failed = f", {progress.failed} failed" if progress.failed else ""
        self._bar.update(self._task, completed=progress.done, description=words + failed)
        if self._silent or self._console.is_terminal or time.monotonic() - self._told < SECONDS_BETWEEN_LINES:
            return
        self._told = time.monotonic()
        self._console.print(f"{progress.done} of {progress.total} runs{failed}")
