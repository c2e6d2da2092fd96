"""rue: one policy for many possible worlds, with small worst-case regret, exact figures and proofs."""

from rue import domains
from rue.errors import BadFile, BadInput, NotSolved, RueError, SolverFailed
from rue.evaluate import Evaluation, evaluate
from rue.model import UMDP, Graph
from rue.policy import Policy
from rue.select import select
from rue.simulate import Simulation, simulate
from rue.solution import Interval, Limits, Progress, Solution, Status
from rue.solvers import Average, BestSample, MyopicRegret, Regret, WorstCase, solve

__version__ = "0.1.0"
