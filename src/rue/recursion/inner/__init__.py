"""Engines for the n-step option problem, each behind one small interface: `Engine(problem).solve(value, seconds)`.

| engine         | options                       | how                                    | answer    |
|----------------|-------------------------------|----------------------------------------|-----------|
| `Table1`       | deterministic, (s,t)          | the paper's Table 1 as a MILP in HiGHS | exact     |
| `SequenceForm` | randomised, history-dependent | one linear program in HiGHS            | exact     |
| `Separable`    | stochastic, (s,t)             | the paper's separable programming      | heuristic |

The class of `SequenceForm` contains the two others, so its value bounds theirs from below.
"""

from rue.recursion.inner.problem import Answer, Engine, Layers, Problem
from rue.recursion.inner.separable import Separable
from rue.recursion.inner.sequence import SequenceForm
from rue.recursion.inner.table1 import Table1

__all__ = ["Answer", "Engine", "Layers", "Problem", "Separable", "SequenceForm", "Table1"]
