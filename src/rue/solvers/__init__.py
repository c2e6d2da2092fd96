"""The algorithms, one file each, and `solve`, which runs any of them and has the judge look at the result."""

from rue.solvers.adaptive import Adaptive, lower_bound
from rue.solvers.average import Average
from rue.solvers.best_sample import BestSample
from rue.solvers.exact_stationary import ExactStationary
from rue.solvers.mixture import Mixture
from rue.solvers.recursion import MyopicRegret, Regret, WorstCase
from rue.solvers.solve import solve
from rue.solvers.tree_bound import tree_bound

__all__ = [
    "Adaptive",
    "Average",
    "BestSample",
    "ExactStationary",
    "Mixture",
    "MyopicRegret",
    "Regret",
    "WorstCase",
    "lower_bound",
    "solve",
    "tree_bound",
]
