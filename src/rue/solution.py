"""What a solver is, what it is told and what it gives back: `Solver`, `Limits`, `Run`, `Solution` and their parts.

Why it stopped, what it solved and what it proved are three things, and so three fields.
"""

import enum
import math
import numbers
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rue.certificate import Certificate
from rue.errors import BadInput, NotSolved
from rue.model import UMDP
from rue.policy import Policy

if TYPE_CHECKING:
    from types import FrameType


@dataclass(frozen=True)
class Interval:
    """A number that is proved to lie between `lower` and `upper`."""

    lower: float
    upper: float

    @property
    def width(self) -> float:
        """How much is left unproved."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def __str__(self) -> str:
        return f"[{self.lower:.6g}, {self.upper:.6g}]"


class Status(enum.StrEnum):
    """Why a solver stopped."""

    SOLVED = "solved"
    TIME_LIMIT = "time_limit"
    ITERATION_LIMIT = "iteration_limit"
    MEMORY_LIMIT = "memory_limit"
    INTERRUPTED = "interrupted"
    UNPROVED = "unproved"  # the search came to its end, but the proof leaves part of the objective open
    INFEASIBLE = "infeasible"  # no policy has a finite objective; the policy is a fallback


@dataclass(frozen=True)
class Limits:
    """When to stop with the best policy so far."""

    seconds: float = math.inf
    iterations: float = math.inf

    def __post_init__(self) -> None:
        for name in ("seconds", "iterations"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Real) or not float(value) >= 0:
                raise BadInput(f"{name} is {value!r}; expected a number, 0 or more")


class Progress(NamedTuple):
    """One report to the progress hook."""

    stage: str
    seconds: float
    iteration: int
    objective: Interval | None


class TracePoint(NamedTuple):
    """The bounds on the objective at a moment."""

    seconds: float
    iteration: int
    lower: float
    upper: float


Trace = tuple[TracePoint, ...]
Hook = Callable[[Progress], None]


@dataclass(eq=False)
class Run:
    """One solve under way: its clock, its limits, who is told, and whether it should stop."""

    limits: Limits = field(default_factory=Limits)
    hook: Hook | None = None
    began: float = field(default_factory=time.perf_counter)
    iterations: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    trace: list[TracePoint] = field(default_factory=list)
    interrupted: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def seconds(self) -> float:
        """Seconds since the solve began."""
        return time.perf_counter() - self.began

    @property
    def seconds_left(self) -> float:
        """Seconds until the time limit."""
        return max(self.limits.seconds - self.seconds, 0.0)

    def stop(self) -> Status | None:
        """Why to stop now, or None to go on."""
        if self.interrupted:
            return Status.INTERRUPTED
        if self.seconds >= self.limits.seconds:
            return Status.TIME_LIMIT
        if self.iterations >= self.limits.iterations:
            return Status.ITERATION_LIMIT
        return None

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter of the solution."""
        self.counters[name] = self.counters.get(name, 0) + int(amount)

    def report(self, stage: str, objective: Interval | None = None) -> None:
        """Tell the hook how far it is; remember the bounds."""
        if objective is not None:
            self.trace.append(TracePoint(self.seconds, self.iterations, objective.lower, objective.upper))
        if self.hook is not None:
            with self.lock:  # reports may come from several threads
                self.hook(Progress(stage, self.seconds, self.iterations, objective))

    @contextmanager
    def catching_interrupts(self) -> Iterator[None]:
        """Ctrl-C asks to stop with the best policy so far; pressed twice, it breaks off."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = signal.getsignal(signal.SIGINT)

        def on_interrupt(number: int, frame: "FrameType | None") -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True

        signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)


@dataclass(frozen=True)
class Outcome:
    """What a solver found, before the judge has seen it."""

    policy: Policy
    objective: Interval
    status: Status = Status.SOLVED
    certificate: Certificate | None = None  # proves the lower end of the objective


@dataclass(frozen=True)
class Solver(ABC):
    """A way to choose a policy, with its parameters. Solvers are values: they print themselves and can be compared."""

    name: ClassVar[str]  # on the command line and in files
    measures: ClassVar[str]  # what the objective is, in a word or two
    known: ClassVar[dict[str, type["Solver"]]] = {}  # every solver by its name

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            Solver.known[cls.name] = cls

    def kernels(self) -> frozenset[str]:
        """The kernels that `run` may call besides those of every model: `options.look_ahead`, or a file, `game`."""
        return frozenset()

    @abstractmethod
    def run(self, model: UMDP, run: Run) -> Outcome:
        """Find a policy. When `run.stop()` says so, return the best so far."""


@dataclass(frozen=True, eq=False)
class Solution:
    """A policy, who made it, why it stopped, and what is proved."""

    policy: Policy
    solver: Solver  # with all its parameters
    status: Status
    objective: Interval  # of the problem that the solver solves, which its docstring names
    max_regret: Interval  # around the best max regret of any policy; the upper end is this policy's, by the judge
    regret: tuple[float, ...]  # of this policy in each sample, by the judge
    seconds: float
    trace: Trace = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    certificate: Certificate | None = None  # proves the lower end of `max_regret`, or of a worst-case cost as objective

    @property
    def gap(self) -> float:
        """How far this policy's max regret may be above the least that any policy has, as a fraction of it."""
        low, high = self.max_regret.lower, self.max_regret.upper
        return (high - low) / high if math.isfinite(high) and high > 0 else (0.0 if high == 0 else math.inf)

    @property
    def mean_regret(self) -> float:
        """The mean of this policy's regret over the samples."""
        return math.fsum(self.regret) / len(self.regret) if all(map(math.isfinite, self.regret)) else math.inf

    def require(self) -> "Solution":
        """Itself if it was solved to the end; otherwise `NotSolved`."""
        if self.status is not Status.SOLVED:
            raise NotSolved(f"{self.solver} stopped with status {self.status.value}; objective in {self.objective}")
        return self

    def __repr__(self) -> str:
        return (
            f"Solution({self.solver}, {self.status.value}, objective in {self.objective}, "
            f"max regret {self.max_regret.upper:.6g}, {self.seconds:.3g} s)"
        )
