"""The algorithms, one file each, and `solve`, which runs any of them and has the judge look at the result."""

from rue.solvers.average import Average
from rue.solvers.base import Outcome, Solver, solve
from rue.solvers.best_sample import BestSample
from rue.solvers.recursion import MyopicRegret, Regret, WorstCase

# Command-line names, as in the table of the README.
SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver for solver in (Regret, MyopicRegret, WorstCase, Average, BestSample)
}

__all__ = ["SOLVERS", "Average", "BestSample", "MyopicRegret", "Outcome", "Regret", "Solver", "WorstCase", "solve"]
