"""The algorithms, one file each, and `solve`, which runs any of them and has the judge look at the result."""

from rue.solvers.average import Average
from rue.solvers.base import solve
from rue.solvers.best_sample import BestSample
from rue.solvers.recursion import MyopicRegret, Regret, WorstCase

__all__ = ["Average", "BestSample", "MyopicRegret", "Regret", "WorstCase", "solve"]
