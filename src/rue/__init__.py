"""rue: one policy for many possible worlds, with small worst-case regret, exact figures and proofs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rue import domains, theory
from rue.build import Builder, Counts, count_transitions, from_counts, from_transitions
from rue.certificate import Certificate, verify
from rue.diagnosis import Diagnosis, diagnose
from rue.errors import BadFile, BadInput, Contradiction, NotProved, NotSolved, RueError, SolverFailed
from rue.evaluate import Evaluation, evaluate
from rue.io import load, read_log, save
from rue.model import UMDP, Graph
from rue.optimal import OptimalValues, optimal_values
from rue.policy import Policy
from rue.select import select
from rue.simulate import Simulation, simulate
from rue.solution import Cache, Interval, Limits, Progress, Solution, Solver, Status
from rue.solvers import (
    Adaptive,
    Average,
    BestSample,
    ExactStationary,
    Mixture,
    MyopicRegret,
    Regret,
    WorstCase,
    lower_bound,
    solve,
)

__version__ = "0.1.0"

# Modules for who draws or runs experiments: imported when they are asked for, since they take their time.
_LATER = ("experiments", "report", "visits")


if TYPE_CHECKING:  # who checks types sees the modules, and no name that is not there
    from rue import experiments, report, visits  # noqa: F401
else:

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            return import_module(f"rue.{name}")
        raise AttributeError(f"module 'rue' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "UMDP",
    "Adaptive",
    "Average",
    "BadFile",
    "BadInput",
    "BestSample",
    "Builder",
    "Cache",
    "Certificate",
    "Contradiction",
    "Counts",
    "Diagnosis",
    "Evaluation",
    "ExactStationary",
    "Graph",
    "Interval",
    "Limits",
    "Mixture",
    "MyopicRegret",
    "NotProved",
    "NotSolved",
    "OptimalValues",
    "Policy",
    "Progress",
    "Regret",
    "RueError",
    "Simulation",
    "Solution",
    "Solver",
    "SolverFailed",
    "Status",
    "WorstCase",
    "count_transitions",
    "diagnose",
    "domains",
    "evaluate",
    "from_counts",
    "from_transitions",
    "load",
    "lower_bound",
    "optimal_values",
    "read_log",
    "save",
    "select",
    "simulate",
    "solve",
    "theory",
    "verify",
]
