"""Records by problem: what every method reached on one problem, and what all of them prove about it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rue.experiments.results import Results, method_labels, problem_of
from rue.solution import Solution

FAILED, SOLVED = "failed", "solved"
SAME = 1e-9  # regrets closer than this share of the largest are equal

Record = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One method on one problem; what is not known is NaN."""

    method: str
    status: str
    train: float = math.nan
    test: float = math.nan
    proved: float = math.nan
    seconds: float = math.nan
    nodes: float = math.nan

    @classmethod
    def of_record(cls, method: str, record: Record) -> "Row":
        """What a record says."""
        if record["status"] == FAILED:
            return cls(method, FAILED)
        lower, upper = map(float, record["max_regret"])
        test = float(record["test"]["max_regret"]) if "test" in record else math.nan
        return cls(method, record["status"], upper, test, lower, float(record["seconds"]), float(record["nodes"]))

    @classmethod
    def of_solution(cls, method: str, solution: Solution, test: float = math.nan) -> "Row":
        """What a solution says, with its max regret on test samples if that is known."""
        regret, nodes = solution.max_regret, solution.policy.nodes
        return cls(method, solution.status.value, regret.upper, test, regret.lower, solution.seconds, nodes)


@dataclass(frozen=True)
class Case:
    """All records of one problem, by method."""

    id: str  # where it is in the page
    records: Mapping[str, Record]

    @property
    def first(self) -> Record:
        """Any of them, for what they share."""
        return next(iter(self.records.values()))

    @property
    def place(self) -> tuple[str, str]:
        """Its group and size."""
        return self.first["group"], self.first["size"]

    @property
    def seed(self) -> str:
        """What tells it from others of its size: `seed 3`."""
        seed = re.search(r"[:,]seed=(\d+)", self.first["problem"])
        return f"seed {seed[1]}" if seed else ""

    @property
    def title(self) -> str:
        """The problem in a few words: `disaster 8×8, seed 3`."""
        name = " ".join(filter(None, self.place))
        return f"{name}, {self.seed}" if self.seed else name

    @cached_property
    def done(self) -> dict[str, Record]:
        """The records that have a policy, the least max regret first."""
        done = [(name, record) for name, record in self.records.items() if record["status"] != FAILED]
        return dict(sorted(done, key=lambda item: float(item[1]["max_regret"][1])))

    @cached_property
    def rows(self) -> list[Row]:
        """What the records say, the least max regret first, failed ones last."""
        return [Row.of_record(name, record) for name, record in {**self.done, **self.records}.items()]

    @property
    def bound(self) -> float:
        """The best proved bound on the max regret of every policy."""
        return max((float(record["max_regret"][0]) for record in self.done.values()), default=0.0)

    @property
    def samples(self) -> int:
        """How many samples were planned with."""
        return max((len(record["regret"]) for record in self.done.values()), default=0)

    @property
    def tests(self) -> int:
        """How many samples were tested on."""
        return max((len(record["test"]["regret"]) for record in self.done.values() if "test" in record), default=0)


def cases_of(records: Sequence[Record], results: Results) -> list[Case]:
    """The records by problem, in the order of the results."""
    label = method_labels(records)
    found: dict[tuple[str, str], dict[str, Record]] = {}
    for record in records:
        found.setdefault(problem_of(record), {})[label[record["key"]]] = record
    order = [(group.name, problem) for group in results.groups for problem in group.problems]
    return [Case(f"problem-{number}", found[key]) for number, key in enumerate(order, 1)]


def runs_of(cases: Sequence[Case]) -> list[tuple[Case, str, Record]]:
    """Every run: its problem, its method and its record."""
    return [(case, name, record) for case in cases for name, record in case.records.items()]
