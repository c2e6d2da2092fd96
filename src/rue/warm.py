"""Compile what solvers need before a clock is started: it happens once after installation."""

from collections.abc import Sequence
from dataclasses import replace

from rue.build import Builder
from rue.domains import Disaster
from rue.model import UMDP
from rue.solution import Solver
from rue.solvers import solve
from rue.solvers.recursion import Recursion


def warm_up(solvers: Sequence[Solver]) -> None:
    """Run each solver on something small; where times are to be compared, also what only slow models need."""
    grid = Disaster(width=3, height=3, seed=1).sample(5, seed=1)
    for solver in {_small(solver) for solver in solvers}:
        # With one sample there is nothing to propose, which would take its time.
        proposes = isinstance(solver, Recursion) and solver.options == "stochastic" and solver.steps > 1
        solve(grid.subset([0]) if proposes else grid, solver)
        if len(solvers) > 1:
            # A bound on this model is found by the code that found the grid's, and takes it a second.
            solve(_slow_cycle(), solver, bound=False)


def _small(solver: Solver) -> Solver:
    """The same with no more than two steps, which need the same code as many."""
    return replace(solver, steps=2) if isinstance(solver, Recursion) and solver.steps > 2 else solver


def _slow_cycle() -> UMDP:
    """Two states that hand over to each other and seldom leave: sweeps give up on them."""
    builder = Builder(samples=2)
    builder.add("a", "go", {"b": 1.0}, cost=[1.0, 2.0])
    builder.add("b", "go", {"a": 0.9999, "goal": 0.0001}, cost=[2.0, 1.0])
    return builder.goal("goal").build()
