"""The paper's tables: max regret of many methods on many UMDPs, in two processes, normalised as in the paper.

For each UMDP the max regret of a method, as the judge finds it, is divided by the largest of the paper's eleven
methods. Other methods stand beside them on the same scale, so theirs may exceed 1. Where no method of the eleven has
any regret, the normalised regret of all is 0.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

import rue
from rue.specs import parse_method

# In the order of the paper's tables.
ELEVEN = (
    "reg-d1", "reg-d2", "reg-d3", "cemr-d1", "cemr-d2", "cemr-d3", "best", "average", "robust", "reg-s1", "cemr-s1",
)  # fmt: skip
# Less counts as none. What a table shows is hundredths in the medical domain, and about 1 in disaster rescue.
NO_REGRET = 1e-9


@dataclass(frozen=True)
class Record:
    """Max regrets and times of some methods on one UMDP."""

    regret: Sequence[Sequence[float]]  # [set of samples, method]; the first set is the one that was planned with
    seconds: Sequence[float]  # of the solver, from a model of which nothing is remembered
    unproved: Sequence[bool]  # the search came to its end, but the proof of the objective leaves a part open
    stopped: Sequence[bool]  # by the time limit
    process: int
    began: float
    ended: float


@dataclass(frozen=True)
class Task:
    """A picklable function of one UMDP: train and test samples from `make(item)`, then all methods."""

    make: Callable[..., Sequence[rue.UMDP]]
    methods: Sequence[str]
    limits: rue.Limits

    def __call__(self, item: object) -> Record:
        began = time.time()
        sets = self.make(item)
        # Models remember their optimal values: each method gets a new one, or the first would pay for all.
        solutions = [
            rue.solve(replace(sets[0]), parse_method(name), limits=self.limits, bound=False) for name in self.methods
        ]
        status = [solution.status for solution in solutions]
        assert set(status) <= {rue.Status.SOLVED, rue.Status.UNPROVED, rue.Status.TIME_LIMIT}
        return Record(
            regret=[[rue.evaluate(model, solution.policy).max_regret for solution in solutions] for model in sets],
            seconds=[solution.seconds for solution in solutions],
            unproved=[one is rue.Status.UNPROVED for one in status],
            stopped=[one is rue.Status.TIME_LIMIT for one in status],
            process=os.getpid(),
            began=began,
            ended=time.time(),
        )


@dataclass(frozen=True)
class Cell:
    """Mean and standard deviation over UMDPs."""

    mean: float
    spread: float

    def __str__(self) -> str:
        return f"{self.mean:.3f}; {self.spread:.2f}"


@dataclass(frozen=True)
class Results:
    """Records of the eleven and of our methods on the same UMDPs."""

    eleven: Sequence[Record]
    ours: Sequence[Record]
    methods: Sequence[str]  # the eleven, then ours

    @classmethod
    def measure(cls, make: Callable[..., Sequence[rue.UMDP]], items: Sequence[object], warm_up: object,
                ours: Sequence[str], seconds: float = np.inf) -> "Results":  # fmt: skip
        """First all of the eleven, then all of ours, so that the time of each is its own; each has so many seconds."""
        tasks = [Task(make, methods, rue.Limits(seconds)) for methods in (ELEVEN, ours)]
        return cls(*(_in_two_processes(task, items, warm_up) for task in tasks), methods=(*ELEVEN, *ours))

    @cached_property
    def train(self) -> np.ndarray:  # [UMDP, method]
        """Normalised max regret on the samples that the methods were given."""
        return self.normalised(0)

    @cached_property
    def test(self) -> np.ndarray:  # [UMDP, method]
        """Normalised max regret on fresh samples."""
        return self.normalised(1)

    def normalised(self, samples: int) -> np.ndarray:  # [UMDP, method]
        """Max regret on a set of samples, divided by the largest of the eleven; 1 where both are infinite."""
        eleven, ours = ([record.regret[samples] for record in part] for part in (self.eleven, self.ours))
        largest = np.max(eleven, axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            share = np.hstack([eleven, ours]) / np.where(largest > NO_REGRET, largest, np.inf)
        return np.where(np.isnan(share), 1.0, share)

    @cached_property
    def seconds(self) -> np.ndarray:  # [UMDP, method]
        """The time of the solvers."""
        return np.hstack([[record.seconds for record in part] for part in (self.eleven, self.ours)])

    def cells(self, figures: np.ndarray) -> dict[str, Cell]:
        """Mean and standard deviation of each method, of figures [UMDP, method]."""
        mean, spread = figures.mean(axis=0).tolist(), figures.std(axis=0).tolist()
        return {name: Cell(*both) for name, *both in zip(self.methods, mean, spread, strict=True)}

    def medians(self, figures: np.ndarray) -> dict[str, str]:
        """The median of each method, of figures [UMDP, method], and how many of them are infinite."""
        lost = np.isinf(figures).sum(axis=0)
        return {
            name: f"{median:.3f}" + (f" ({count} lost)" if count else "")
            for name, median, count in zip(self.methods, np.median(figures, axis=0), lost.tolist(), strict=True)
        }

    def mean_seconds(self, seconds: np.ndarray) -> dict[str, str]:
        """The mean of each method, of times [UMDP, method]."""
        return {name: f"{mean:.4f}" for name, mean in zip(self.methods, seconds.mean(axis=0), strict=True)}

    def notes(self) -> str:
        """What the table does not show."""
        idle = sum(max(record.regret[0]) <= NO_REGRET for record in self.eleven)
        return "\n".join(
            [
                f"No regret (train) in {idle} of {len(self.eleven)} UMDPs: 0 for every method.",
                f"Objective not proved to 1e-6: {self._how_often('unproved')}.",
                f"Stopped by the time limit: {self._how_often('stopped')}.",
                f"The eleven methods: {_time_taken(self.eleven)}.",
                f"Ours: {_time_taken(self.ours)}.",
            ]
        )

    def _how_often(self, what: str) -> str:
        total = np.hstack([[getattr(record, what) for record in part] for part in (self.eleven, self.ours)]).sum(axis=0)
        return ", ".join(f"{name} {n}" for name, n in zip(self.methods, total.tolist(), strict=True) if n) or "none"


def print_table(title: str, columns: Mapping[str, Mapping[str, object]], methods: Sequence[str]) -> None:
    """One row for each method, in Markdown."""
    print(f"\n{title}\n\n| method | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name in methods:
        print(f"| {name} | {' | '.join(str(column.get(name, '–')) for column in columns.values())} |")


def _in_two_processes(task: Task, items: Sequence[object], warm_up: object) -> list[Record]:
    """Records of all items; the compiled code of each process has run once before, on another item."""
    with ProcessPoolExecutor(2, initializer=task, initargs=(warm_up,)) as pool:
        return list(pool.map(task, items, chunksize=5))


def _time_taken(records: Sequence[Record]) -> str:
    """In the solvers of each process, and all in all with sampling, selection and judging."""
    sums: dict[int, float] = {}
    for record in records:
        sums[record.process] = sums.get(record.process, 0.0) + sum(record.seconds)
    wall = max(record.ended for record in records) - min(record.began for record in records)
    shares = " + ".join(f"{seconds:.1f} s" for seconds in sums.values())
    return f"{shares} in the solvers of {len(sums)} processes, {wall:.1f} s of wall time in all"
