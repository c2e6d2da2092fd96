"""The paper's tables: max regret of many methods on many UMDPs, in two processes, normalised as in the paper.

For each UMDP the max regret of a method, as the judge finds it, is divided by the largest of the paper's eleven
methods. Other methods stand beside them on the same scale, so theirs may exceed 1. Where no method of the eleven has
any regret, the normalised regret of all is 0.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

import rue
from rue.specs import parse_method

# In the order of the paper's tables.
ELEVEN = (
    "reg-d1", "reg-d2", "reg-d3", "cemr-d1", "cemr-d2", "cemr-d3", "best", "average", "robust", "reg-s1", "cemr-s1",
)  # fmt: skip
# Less is rounding. A single difference between two actions costs more in any of the domains.
NO_REGRET = 1e-9


@dataclass(frozen=True)
class Record:
    """Max regrets and times of some methods on one UMDP."""

    train: Sequence[float]
    test: Sequence[float]
    seconds: Sequence[float]  # of the solver, from a model of which nothing is remembered
    process: int
    began: float
    ended: float


@dataclass(frozen=True)
class Cell:
    """Mean and standard deviation over UMDPs."""

    mean: float
    spread: float

    def __str__(self) -> str:
        return f"{self.mean:.3f}; {self.spread:.2f}"


@dataclass(frozen=True)
class Task:
    """A picklable function of one UMDP: train and test samples from `make(item)`, then all methods."""

    make: Callable[..., tuple[rue.UMDP, rue.UMDP]]
    methods: Sequence[str]

    def __call__(self, item: object) -> Record:
        began = time.time()
        train, test = self.make(item)
        # Models remember their optimal values: each method gets a new one, or the first would pay for all.
        solutions = [rue.solve(train.subset(range(train.samples)), parse_method(name)) for name in self.methods]
        return Record(
            train=[solution.require().max_regret.upper for solution in solutions],
            test=[rue.evaluate(test, solution.policy).max_regret for solution in solutions],
            seconds=[solution.seconds for solution in solutions],
            process=os.getpid(),
            began=began,
            ended=time.time(),
        )


def measure(task: Task, items: Iterable[object], warm_up: object) -> list[Record]:
    """Records of all items, from two processes in which the compiled code has run once on another item."""
    with ProcessPoolExecutor(2, initializer=task, initargs=(warm_up,)) as pool:
        return list(pool.map(task, items, chunksize=5))


def normalised(eleven: Sequence[Sequence[float]], ours: Sequence[Sequence[float]]) -> np.ndarray:
    """Max regrets [UMDP, method] of the eleven and of ours beside them, divided by the largest of the eleven."""
    largest = np.max(eleven, axis=1, keepdims=True)
    regret = np.hstack([eleven, ours])
    return np.where(largest > NO_REGRET, regret / np.where(largest > NO_REGRET, largest, 1.0), 0.0)


def cells(figures: np.ndarray, methods: Sequence[str]) -> dict[str, Cell]:
    """Mean and standard deviation of each column."""
    return {
        name: Cell(float(mean), float(spread))
        for name, mean, spread in zip(methods, figures.mean(axis=0), figures.std(axis=0), strict=True)
    }


def mean_seconds(records: Sequence[Record], methods: Sequence[str]) -> dict[str, float]:
    """Of each method."""
    return dict(zip(methods, np.mean([record.seconds for record in records], axis=0).tolist(), strict=True))


def time_taken(records: Sequence[Record]) -> str:
    """The time that solvers took in each process, and all in all with sampling, selection and judging."""
    processes = sorted({record.process for record in records})
    sums = [sum(sum(record.seconds) for record in records if record.process == process) for process in processes]
    wall = max(record.ended for record in records) - min(record.began for record in records)
    shares = " + ".join(f"{seconds:.1f}" for seconds in sums)
    return f"{len(records)} UMDPs: {shares} s in the solvers of {len(sums)} processes, {wall:.1f} s of wall time in all"


def print_table(title: str, columns: Mapping[str, Mapping[str, object]], methods: Sequence[str]) -> None:
    """One row for each method, in Markdown."""
    print(f"\n{title}\n\n| method | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name in methods:
        row = [column.get(name, "–") for column in columns.values()]
        print(f"| {name} | {' | '.join(str(entry) for entry in row)} |")
