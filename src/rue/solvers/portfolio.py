"""Policies to begin with: those of all cheap methods, from the cheapest on.

First come the optimal policies of the samples, which are known already, then one policy from each of the methods below,
in the order of the time that they take on grids and on the medical model. Whoever asks takes as many as are wanted.

*Time.* All methods together get a budget of seconds, and none of them more than half of what is left of it, so that one
that takes long leaves time for others. At its limit a method gives the best policy so far. A method is not begun with
more steps if there is less time for it than it took with fewer. The time in which the caller works with a policy does
not count.

*Which policies.* Only those with finite regret in all samples, by the judge; but every sample's optimal policy, since
it is the best there is where that sample is certain. None comes twice.
"""

import hashlib
import time
from collections.abc import Iterator

import numpy as np

from rue.errors import BadInput, SolverFailed
from rue.evaluate import evaluate
from rue.model import UMDP
from rue.optimal import OptimalValues
from rue.policy import Policy
from rue.solution import Limits, Run, Solver
from rue.solvers.average import Average
from rue.solvers.base import Inner, complete_choices
from rue.solvers.exact_stationary import ExactStationary
from rue.solvers.mixture import Mixture
from rue.solvers.recursion import MyopicRegret, Recursion, Regret, WorstCase

METHODS: tuple[Solver, ...] = (
    Average(),
    Regret(),
    WorstCase(),
    MyopicRegret(),
    Regret(1, "stochastic"),
    Regret(2),
    MyopicRegret(2),
    Regret(2, "history"),
    Regret(3, "history"),
    Regret(3),
    Regret(4, "history"),
    MyopicRegret(3),
    Mixture(),
    ExactStationary(),
)
# The part of the time left that one method may take.
SHARE = 0.5
# Seconds for which no method is begun any more.
LEAST_SECONDS = 1e-3


def start_policies(model: UMDP, values: OptimalValues, run: Run, seconds: float) -> Iterator[tuple[str, Policy]]:
    """Names and policies, the cheapest first, until `run` stops or the methods have taken so many `seconds`."""
    seen: set[bytes] = set()
    for sample in range(model.samples):
        policy = _optimal_policy(model, values, sample)
        if policy is not None and _is_new(policy, seen):
            if run.stop():
                return
            yield f"sample {sample}", policy
    left = seconds
    taken: dict[tuple[type[Solver], str], float] = {}  # the seconds of each method with the most steps so far
    for solver in METHODS:
        share = min(SHARE * left, run.seconds_left)
        if run.stop() or share < LEAST_SECONDS:
            return
        if share < taken.get(_kind(solver), 0.0):
            continue
        run.report(f"start policies: {name_of(solver)}")
        began = time.perf_counter()
        policy = _attempt(model, solver, Inner(Limits(seconds=share), outer=run))
        wanted = policy is not None and _is_new(policy, seen) and _is_finite(model, policy)
        took = time.perf_counter() - began
        left -= took
        taken[_kind(solver)] = took if policy is not None else np.inf
        if policy is not None and wanted:
            yield name_of(solver), policy


def name_of(solver: Solver) -> str:
    """A solver in a few words: its name and, of a recursion, steps and options."""
    return f"{solver.name} {solver.steps} {solver.options}" if isinstance(solver, Recursion) else solver.name


def _kind(solver: Solver) -> tuple[type[Solver], str]:
    """What solvers share that differ in nothing but their number of steps."""
    return type(solver), solver.options if isinstance(solver, Recursion) else ""


def _optimal_policy(model: UMDP, values: OptimalValues, sample: int) -> Policy | None:
    """The optimal policy of a sample; None if a limit came before there was one."""
    graph = model.graph
    choice = values.choice[:, sample]
    if choice[graph.initial] < 0 and not graph.goal[graph.initial]:
        return None
    return Policy.from_choices(graph, complete_choices(graph, choice))


def _attempt(model: UMDP, solver: Solver, run: Run) -> Policy | None:
    """The policy of a solver; None if the model is too large for it, or its backend fails."""
    try:
        return solver.run(model, run).policy
    except (BadInput, SolverFailed):
        return None


def _is_finite(model: UMDP, policy: Policy) -> bool:
    """Whether the regret of a policy is finite in all samples, and proved to be."""
    try:
        verdict = evaluate(model, policy)
    except SolverFailed:  # it hardly ever ends
        return False
    return bool(np.isfinite(verdict.max_regret + verdict.error))


def _is_new(policy: Policy, seen: set[bytes]) -> bool:
    """Whether a policy is none of those seen before, of which it is one from now on."""
    arrays = [policy.choice, policy.weight]
    if policy.is_stationary:  # the choices say it all, whatever the order of the nodes
        order = np.argsort(policy.choice)
        arrays = [array[order] for array in arrays]
    else:
        arrays += [policy.node_state, policy.entry_ptr, policy.next_node, policy.start_node, policy.start_weight]
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.tobytes())
    key = digest.digest()
    if key in seen:
        return False
    seen.add(key)
    return True
