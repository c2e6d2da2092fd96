"""rue: one policy for many possible worlds, with small worst-case regret, exact figures and proofs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rue import domains, theory
from rue.adaptive.report_bound import lower_bound
from rue.adaptive.search import Adaptive
from rue.baselines import Average, BestSample
from rue.build import Builder, Counts, count_transitions, from_counts, from_transitions
from rue.certificate import Certificate, verify
from rue.diagnosis import Diagnosis, diagnose
from rue.errors import BadFile, BadInput, Contradiction, NotProved, NotSolved, RueError, SolverFailed
from rue.evaluation import evaluate
from rue.explanation import Explanation, explain
from rue.formats import from_gymnasium, from_matrices, load, read_log, read_weights, save
from rue.given import GivenPolicy
from rue.guarantees import exceedance_bound, least_samples, scenario_bound
from rue.judge import Evaluation
from rue.mixture import Mixture
from rue.model import UMDP, Graph
from rue.policy import Policy
from rue.recursion.objectives import MyopicRegret, Regret, WorstCase
from rue.selection import select
from rue.simplification import FrontierPoint, frontier, simplify
from rue.simulation import Simulation, simulate
from rue.solution import Cache, Interval, Limits, Outcome, Progress, Run, Solution, Solver, Status
from rue.solving import solve
from rue.stationary.search import ExactStationary
from rue.units import Units
from rue.values import OptimalValues, optimal_values
from rue.workers import Processes
from rue.worlds import Source

__version__ = "0.2.0"

# Modules that take long to import: imported when they are first used.
_LATER = ("experiments", "explorer", "player", "report", "visits")


if TYPE_CHECKING:  # type checkers see these modules, and no name that does not exist
    from rue import experiments, explorer, player, report, visits  # noqa: F401
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
    "Explanation",
    "FrontierPoint",
    "GivenPolicy",
    "Graph",
    "Interval",
    "Limits",
    "Mixture",
    "MyopicRegret",
    "NotProved",
    "NotSolved",
    "OptimalValues",
    "Outcome",
    "Policy",
    "Processes",
    "Progress",
    "Regret",
    "RueError",
    "Run",
    "Simulation",
    "Solution",
    "Solver",
    "SolverFailed",
    "Source",
    "Status",
    "Units",
    "WorstCase",
    "count_transitions",
    "diagnose",
    "domains",
    "evaluate",
    "exceedance_bound",
    "explain",
    "from_counts",
    "from_gymnasium",
    "from_matrices",
    "from_transitions",
    "frontier",
    "least_samples",
    "load",
    "lower_bound",
    "optimal_values",
    "read_log",
    "read_weights",
    "save",
    "scenario_bound",
    "select",
    "simplify",
    "simulate",
    "solve",
    "theory",
    "verify",
]
