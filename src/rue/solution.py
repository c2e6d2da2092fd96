"""What a solver is, what it gets and what it returns: `Solver`, `Limits`, `Run`, `Solution` and their parts.

Why it stopped, what it solved and what it proved are three things, and so three fields.

*The gap* of an interval has one definition everywhere, (upper − lower) / upper: the part of this policy's max regret
that some other policy might avoid. Differences up to `Solution.floor` are no more than rounding and count as none.
"""

import enum
import math
import numbers
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from rue import risk
from rue._arrays import Array
from rue._highs import cancel_running
from rue._text import percent_text
from rue._threads import cores
from rue.certificate import Certificate
from rue.errors import BadInput, Contradiction, NotSolved
from rue.guarantees import USUAL_CONFIDENCE, scenario_bound
from rue.model import UMDP
from rue.policy import Policy
from rue.registry import Registry
from rue.table import notebook_facts, notebook_samples
from rue.units import COST, PLAIN, Units

if TYPE_CHECKING:
    from types import FrameType

T = TypeVar("T")


@dataclass(frozen=True)
class Interval:
    """A number that is proved to lie between `lower` and `upper`."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:  # NaN included
            raise BadInput(f"the interval runs from {self.lower} to {self.upper}; expected lower ≤ upper")

    @classmethod
    def proved(cls, lower: float, upper: float, what: str) -> "Interval":
        """Return the interval of two bounds that were proved apart; `Contradiction` if they exclude each other."""
        if not lower <= upper:
            raise Contradiction(f"{what}: proved to be at least {lower!r} and at most {upper!r}")
        return cls(float(lower), float(upper))

    @classmethod
    def expected(cls, lower: float, upper: float) -> "Interval":
        """Return the interval of two estimates, for progress reports; nothing is proved, and rounding may cross it."""
        return cls(float(min(lower, upper)), float(upper))

    @property
    def width(self) -> float:
        """How much is left unproved."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    def gap(self, floor: float = 0.0) -> float:
        """Return (upper − lower) / upper; 0 if the width is at most `floor`, infinite if the upper end is."""
        if self.width <= floor or self.lower == self.upper == math.inf:
            return 0.0 if math.isfinite(self.upper) else math.inf
        return self.width / self.upper if math.isfinite(self.upper) else math.inf

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
    """When to stop with the best policy so far.

    >>> model = rue.domains.Medical(seed=1).sample(15, seed=1)
    >>> rue.solve(model, rue.Adaptive(), limits=rue.Limits(iterations=1)).status
    <Status.ITERATION_LIMIT: 'iteration_limit'>
    """

    seconds: float = math.inf
    iterations: float = math.inf

    def __post_init__(self) -> None:
        for name in ("seconds", "iterations"):
            value = getattr(self, name)
            if isinstance(value, int) and value > sys.maxsize:  # for ever, and no float could hold it
                object.__setattr__(self, name, math.inf)
            elif isinstance(value, bool) or not isinstance(value, numbers.Real) or not float(value) >= 0:
                raise BadInput(f"{name} is {value!r}; expected a number, 0 or more")


def check_limits(limits: object) -> Limits:
    """Return the limits, if they are; no limits if None."""
    if limits is not None and not isinstance(limits, Limits):
        raise BadInput(f"limits is {limits!r}; expected rue.Limits(seconds=..., iterations=...)")
    return limits or Limits()


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

# What judging and proving may take after a time limit: this part of the limit, and seconds.
GRACE_PART, GRACE_SECONDS = 0.1, 0.8


class Cache:
    """Results about models, to be used again: pass one to several calls, `rue.solve(..., cache=cache)`.

    It keeps optimal values, the judge's last verdict and the best certificate of each model object, or source, as long
    as that object lives. Without a cache each call starts from nothing, so that its result does not depend on earlier
    calls. Several threads may share one.

    >>> model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    >>> cache = rue.Cache()
    >>> best = rue.solve(model, rue.Adaptive(gap=0.01), cache=cache)
    >>> other = rue.solve(model, rue.Average(), cache=cache)
    >>> other.max_regret.lower >= best.max_regret.lower  # the bound is carried over
    True
    """

    def __init__(self) -> None:
        self._facts: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def remember(self, about: object, key: str, compute: Callable[[], T]) -> T:
        """Return what is kept under a key for a model or a source; it is computed the first time."""
        with self._lock:
            facts = self._facts.setdefault(about, {})
            if key not in facts:
                facts[key] = compute()
            value: T = facts[key]
            return value

    def __repr__(self) -> str:
        return f"Cache({len(self._facts)} models)"


def check_cache(cache: object) -> Cache:
    """Return the cache, if it is one; an empty one if None."""
    if cache is not None and not isinstance(cache, Cache):
        raise BadInput(f"cache is {cache!r}; expected a rue.Cache")
    return Cache() if cache is None else cache


@dataclass(eq=False)
class Run:
    """One solve in progress: its clock, its limits, its progress hook, and whether it should stop."""

    limits: Limits = field(default_factory=Limits)
    hook: Hook | None = None
    cache: Cache = field(default_factory=Cache)
    threads: int = field(default_factory=cores)
    executor: Executor | None = None  # does parts of the work, if there is one
    began: float = field(default_factory=time.perf_counter)
    iterations: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    trace: list[TracePoint] = field(default_factory=list)
    interrupted_at: float = math.inf  # seconds after it began
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if not isinstance(self.limits, Limits):
            raise BadInput(f"limits is {self.limits!r}; expected rue.Limits(seconds=..., iterations=...)")
        if self.hook is not None and not callable(self.hook):
            raise BadInput(f"progress is {self.hook!r}; expected a function that takes a rue.Progress")

    @property
    def seconds(self) -> float:
        """Seconds since the solve began."""
        return time.perf_counter() - self.began

    @property
    def seconds_left(self) -> float:
        """Seconds until the time limit."""
        return max(self.limits.seconds - self.seconds, 0.0)

    def out_of_time(self) -> Status | None:
        """Return why to stop now, iterations aside, or None to go on."""
        if self.interrupted_at < math.inf:
            return Status.INTERRUPTED
        return Status.TIME_LIMIT if self.seconds >= self.limits.seconds else None

    def stop(self) -> Status | None:
        """Return why to stop now, or None to go on."""
        if self.iterations >= self.limits.iterations:
            return self.out_of_time() or Status.ITERATION_LIMIT
        return self.out_of_time()

    def afterwards(self) -> "Run":
        """Return a run for judging and proving: it may go on for a little after a limit or Ctrl-C."""
        common = {name: getattr(self, name) for name in ("hook", "cache", "threads", "executor", "began")}
        return _Afterwards(**common, search=self)

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter of the solution."""
        self.counters[name] = self.counters.get(name, 0) + int(amount)

    def report(self, stage: str, objective: Interval | None = None) -> None:
        """Report progress to the hook; keep the bounds for the trace."""
        if objective is not None:
            self.trace.append(TracePoint(self.seconds, self.iterations, objective.lower, objective.upper))
        if self.hook is not None:
            with self.lock:  # reports may come from several threads
                self.hook(Progress(stage, self.seconds, self.iterations, objective))

    @contextmanager
    def catching_interrupts(self) -> Iterator[None]:
        """Ask to stop with the best policy so far at Ctrl-C; pressed twice, it breaks off."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_interrupt(number: int, frame: "FrameType | None") -> None:
            if self.interrupted_at < math.inf:
                raise KeyboardInterrupt
            self.interrupted_at = self.seconds
            cancel_running()

        previous = signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)


@dataclass(eq=False)
class Inner(Run):
    """The run of a solver within a solver: counts, trace and limits of its own, and the limits of the outer one."""

    outer: Run = field(default_factory=Run)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cache, self.threads, self.executor = self.outer.cache, self.outer.threads, self.outer.executor

    @property
    def seconds_left(self) -> float:
        """Seconds until the nearer of the two time limits."""
        return min(super().seconds_left, self.outer.seconds_left)

    def out_of_time(self) -> Status | None:
        """Return why to stop now, iterations aside, or None to go on."""
        return self.outer.out_of_time() or super().out_of_time()

    def stop(self) -> Status | None:
        """Return why to stop now, or None to go on."""
        return self.outer.stop() or super().stop()

    def afterwards(self) -> Run:
        """Return a run for judging and proving: it may go on for a little after a limit or Ctrl-C."""
        return min(super().afterwards(), self.outer.afterwards(), key=lambda run: run.seconds_left)

    def report(self, stage: str, objective: Interval | None = None) -> None:
        """Pass on the stage, but not the objective, which is another one."""
        self.outer.report(stage)


@dataclass(eq=False)
class _Afterwards(Run):
    """The run of what follows a search: the judge and the proof. Ctrl-C is passed on to the search."""

    search: Run = field(default_factory=Run)

    @property
    def seconds_left(self) -> float:
        """Seconds until the end of the time that is kept for this."""
        ended = min(self.search.limits.seconds, self.search.interrupted_at)
        return max((1 + GRACE_PART) * ended + GRACE_SECONDS - self.seconds, 0.0)

    def out_of_time(self) -> Status | None:
        """Return why to stop now, or None to go on."""
        return None if self.seconds_left > 0 else Status.TIME_LIMIT


@dataclass(frozen=True)
class Outcome:
    """What a solver found, before it is judged."""

    policy: Policy
    objective: Interval
    status: Status = Status.SOLVED
    certificate: Certificate | None = None  # proves the lower end of the objective
    active: tuple[int, ...] = ()  # the samples that it worked with in the end, if these were not all

    def __post_init__(self) -> None:
        if self.status is Status.SOLVED and not math.isfinite(self.objective.upper):
            endless = self.objective.lower == math.inf
            object.__setattr__(self, "status", Status.INFEASIBLE if endless else Status.UNPROVED)


@dataclass(frozen=True)
class Solver(ABC):
    """A way to choose a policy, with its parameters. Solvers are values: they print themselves and can be compared."""

    name: ClassVar[str]  # on the command line and in files
    measures: ClassVar[str]  # what the objective is, in a word or two
    known: ClassVar[Registry[type["Solver"]]] = Registry("rue.solvers")  # every solver by its name

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            Solver.known.add(cls.name, cls)

    def kernels(self) -> frozenset[str]:
        """Return the kernels that `run` may call besides those of every model, by name or by file.

        For example `{"table_kernels.table_rows", "mixture_kernels"}`.
        """
        return frozenset()

    def judged(self, regret: Array, value: Array, weight: Array) -> float | None:
        """Return the objective of a policy from its regrets and costs in all samples; None if it is another figure.

        The upper end of `Outcome.objective` is compared with it.
        """
        return {"regret": float(regret.max()), "worst-case cost": float(value.max())}.get(self.measures)

    @abstractmethod
    def run(self, model: UMDP, run: Run) -> Outcome:
        """Find a policy. When `run.stop()` says so, return the best so far."""


@dataclass(frozen=True, eq=False)
class Solution:
    """A policy, its solver, why the solver stopped, and what is proved."""

    policy: Policy
    solver: Solver  # with all its parameters
    status: Status
    objective: Interval  # of the problem that the solver solves, which its docstring names; values are in figures
    max_regret: Interval  # around the best max regret of any policy; the upper end is this policy's, by the judge
    regret: tuple[float, ...]  # of this policy in each sample, by the judge
    seconds: float
    trace: Trace = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    certificate: Certificate | None = None  # proves the lower end of `max_regret`, or of a worst-case cost as objective
    regret_certificate: Certificate | None = None  # proves the lower end of `max_regret`, whatever the objective
    reason: str = ""  # why no policy at all has a finite regret, where that is certain
    floor: float = 0.0  # differences of regrets up to this are no more than rounding
    weight: tuple[float, ...] = ()  # the probability of each sample; all equal if there are none
    units: Units = PLAIN  # of the model
    average_error: float = 0.0  # no regret is further than this from that of long-run averages, if it is of averages

    def __post_init__(self) -> None:
        if self.weight and len(self.weight) != len(self.regret):
            raise BadInput(f"there are {len(self.weight)} weights; expected one for each of {len(self.regret)} samples")

    @property
    def measures(self) -> str:
        """What the objective is, in a word or two, in the figures that the model was made of."""
        return self.units.measures(self.solver.measures)

    @property
    def is_reward(self) -> bool:
        """Whether the objective is a reward, which is to be large."""
        return self.units.reward and self.solver.measures.endswith(COST)

    def in_figures(self, units: Units) -> "Solution":
        """Return the same with an objective and a trace in the figures of a model; regrets are the same in both."""
        if not self.solver.measures.endswith(COST):
            return replace(self, units=units)
        trace = tuple(TracePoint(*point[:2], *units.ends(*point[2:])) for point in self.trace)
        objective = Interval(*units.ends(self.objective.lower, self.objective.upper))
        return replace(self, units=units, objective=objective, trace=trace)

    @property
    def gap(self) -> float:
        """(upper − lower) / upper of `max_regret`: the part of this policy's max regret that might be avoidable."""
        return self.max_regret.gap(self.floor)

    @property
    def mean_regret(self) -> float:
        """The mean of this policy's regret over the samples, by their weights."""
        return risk.mean(*self._weighted)

    def tail(self, alpha: float) -> float:
        """Return the mean regret over the worst part `alpha` of the probability: 1 is the mean, near 0 the maximum."""
        return risk.tail_mean(*self._weighted, risk.check_tail(alpha))

    def quantile(self, level: float) -> float:
        """Return the least r such that the samples with a regret up to r have a probability of `level` or more."""
        return risk.quantile(*self._weighted, risk.check_level(level))

    @property
    def _weighted(self) -> tuple[Array, Array]:
        """The regrets and the weights of the samples."""
        samples = len(self.regret)
        return np.array(self.regret), np.array(self.weight) if self.weight else np.full(samples, 1 / samples)

    def exceedance(self, confidence: float = USUAL_CONFIDENCE) -> float | None:
        """Return a bound on the probability that a fresh sample has more regret than all samples here.

        It holds with probability `confidence` over the samples, without a test set (`rue.scenario_bound`). This is true
        only if they are independent draws from where the fresh sample comes from too, in the order of the model. None
        unless the search used few of them, told how many, and ended by counts rather than by the clock. Nothing is said
        of weighted samples, whose weights the draws do not have.
        """
        active = self.counters.get("active samples", len(self.regret))
        by_counts = self.counters.get("by counts") and self.status not in (Status.TIME_LIMIT, Status.INTERRUPTED)
        # The sample with the largest regret sets the level, and may never have been active.
        used = min(active + 1, len(self.regret))
        bound = scenario_bound(samples=len(self.regret), active=used, confidence=confidence)
        finite = all(map(math.isfinite, self.regret))
        return bound if by_counts and finite and not self.weight and bound < 1 else None

    def require(self) -> "Solution":
        """Return the solution itself if it was solved to the end; otherwise raise `NotSolved`."""
        if self.status is not Status.SOLVED:
            raise NotSolved(f"{self.solver} stopped with status {self.status.value}; objective in {self.objective}")
        return self

    def _repr_html_(self) -> str:
        """Return the solution as notebooks show it: status, what is proved, and the regrets of the samples."""
        facts = {
            "solver": self.solver, "status": self.status.value, "max regret": f"{self.max_regret.upper:.5g}",
            "of any policy, at least": f"{self.max_regret.lower:.5g}", "gap": percent_text(self.gap),
            "mean regret": f"{self.mean_regret:.5g}", "nodes": self.policy.nodes, "seconds": f"{self.seconds:.3g}",
        }  # fmt: skip
        return notebook_facts("Solution", facts) + notebook_samples("", {"regret": self.regret})

    def __repr__(self) -> str:
        return (
            f"Solution({self.solver}, {self.status.value}, objective in {self.objective}, "
            f"max regret {self.max_regret.upper:.6g}, {self.seconds:.3g} s)"
        )


def policy_of(found: Policy | Solution) -> Policy:
    """Return the policy of a solution, or the policy itself."""
    return found.policy if isinstance(found, Solution) else found
