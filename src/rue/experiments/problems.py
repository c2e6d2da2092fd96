"""Records by problem: what every method reached on one problem, and the best bound that is proved for it."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rue.experiments.results import Results, read_runs
from rue.experiments.store import FAILED, Record

SAME = 1e-9  # regrets closer than this share of the largest are equal


@dataclass(frozen=True, eq=False)
class ProblemRuns:
    """All records of one problem, by method."""

    problem: str
    records: dict[str, Record]
    place: tuple[str, str] = ("", "")  # group and size

    @property
    def seed(self) -> str:
        """Return what tells a problem from others of its size: `seed 3`."""
        seed = re.search(r"[:,]seed=(\d+)", self.problem)
        return f"seed {seed[1]}" if seed else ""

    @property
    def title(self) -> str:
        """Return the problem in a few words: `disaster 8×8, seed 3`."""
        return ", ".join(filter(None, (" ".join(filter(None, self.place)), self.seed)))

    @cached_property
    def done(self) -> dict[str, Record]:
        """Return the records that have a policy, the least max regret first."""
        done = [(name, record) for name, record in self.records.items() if record["status"] != FAILED]
        return dict(sorted(done, key=lambda item: float(item[1]["max_regret"][1])))

    @property
    def least(self) -> float:
        """Return the least max regret; NaN if every method failed."""
        return min((float(record["max_regret"][1]) for record in self.done.values()), default=math.nan)

    @property
    def best(self) -> list[str]:
        """Return the methods with the least max regret."""
        near = self.least + SAME * abs(self.least)
        return [name for name, record in self.done.items() if float(record["max_regret"][1]) <= near]

    @property
    def bound(self) -> float:
        """Return the best proved bound on the max regret of every policy; 0 if there is none."""
        return max((float(record["max_regret"][0]) for record in self.done.values()), default=0.0)


def problems_of(records: Sequence[Record], results: Results) -> list[ProblemRuns]:
    """Return the records by problem, in the order of the results."""
    found: dict[tuple[str, str], ProblemRuns] = {}
    for run in read_runs(records):
        new = ProblemRuns(run.record["problem"], {}, (run.group, run.size))
        found.setdefault((run.group, run.problem), new).records[run.label] = run.record
    return [found[group.name, problem] for group in results.groups for problem in group.problems]
