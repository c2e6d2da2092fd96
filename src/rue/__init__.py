"""rue: one policy for many possible worlds, with small worst-case regret, exact figures and proofs."""

from rue import domains, theory
from rue.build import Builder, Counts, count_transitions, from_counts, from_transitions
from rue.certificate import Certificate, verify
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
