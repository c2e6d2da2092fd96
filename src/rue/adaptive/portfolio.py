"""Start policies: those of all cheap methods, the cheapest first.

First come the optimal policies of the samples, which are known already; where policies may miss the goal in some
samples, one that reaches a goal in every sample; then one policy from each of the methods below, in the
order of the time that they take on grids and on the medical model. They are computed one by one, as the caller asks.

*Effort.* Each method has a limit by count, so that the same model gives the same policies on every machine: a number of
rounds, nodes or policies, and 0 where it has too many histories. Under a time limit all methods together also have a
budget of seconds, and each of them at most half of the rest of it. At its limit a method returns its best policy so
far. A method is skipped if there is less time for it than it took with fewer steps. The time of the caller between two
policies does not count.

*Which policies.* Those with finite regret in all samples, by the judge; and every sample's optimal policy, since it is
the best one where that sample is certain. No policy comes twice.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence

import numpy as np

from rue._arrays import members, pointers
from rue.baselines import Average
from rue.errors import BadInput, SolverFailed
from rue.fallbacks import reaching_policy
from rue.judge import judge
from rue.mixture import Mixture
from rue.model import UMDP
from rue.policy import Policy, complete_choices
from rue.recursion.inner.option_tree import count_histories
from rue.recursion.objectives import MyopicRegret, Recursion, Regret, WorstCase
from rue.solution import Inner, Limits, Run, Solver
from rue.stationary.search import ExactStationary
from rue.structure import jointly_proper
from rue.values import OptimalValues, optimal_somewhere, regret_gap

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
# Those that help where the objective is a mean. The others weigh the worst sample only, and take long with many.
MEAN_METHODS: tuple[Solver, ...] = (Average(), Regret(), Regret(2, "history"), Regret(3, "history"))
# Most samples whose optimal policies are tried.
MOST_SAMPLES = 100
# Rounds that a recursion may take, and how many numbers (histories of its options, times samples) it may have: of
# deterministic options of three steps and more, and of all others.
ROUNDS, DETERMINISTIC_NUMBERS, NUMBERS = 100, 100_000, 600_000
# Numbers that a search may read: its nodes or policies, times the numbers of the model (transitions, times samples).
SEARCH_NUMBERS = 30_000_000
# The part of the time left that one method may take.
SHARE = 0.5
# No method is started with less time than this.
LEAST_SECONDS = 1e-3


def start_policies(
    model: UMDP, values: OptimalValues, run: Run, seconds: float, methods: Sequence[Solver] | None = None
) -> Iterator[tuple[str, Policy]]:
    """Yield names and policies, the cheapest first, until `run` stops or the methods have taken this many `seconds`.

    `methods` are all unless given. With infinite `seconds` the policies depend on the model alone.
    """
    seen: set[bytes] = set()
    for sample in range(min(model.samples, MOST_SAMPLES)):
        policy = _optimal_policy(model, values, sample)
        if policy is not None and _is_new(policy, seen):
            if run.stop():
                return
            yield f"sample {sample}", policy
    if not jointly_proper(model)[0][model.graph.initial]:
        policy = reaching_policy(model, run)
        if policy is not None:
            yield "supports", policy
    left = seconds
    taken: dict[tuple[type[Solver], str], float] = {}  # the seconds of each method with the most steps so far
    for solver in METHODS if methods is None else methods:
        share = min(SHARE * left, run.seconds_left)
        if run.stop() or share < LEAST_SECONDS:
            return
        allowance = _allowance(model, values, solver)
        if share < taken.get(_kind(solver), 0.0) or allowance == 0:
            continue
        run.report(f"start policies: {name_of(solver)}")
        began = time.perf_counter()
        policy = _attempt(model, solver, Inner(Limits(seconds=share, iterations=allowance), outer=run))
        wanted = policy is not None and _is_new(policy, seen) and _is_finite(model, policy, run)
        took = time.perf_counter() - began
        left -= took
        taken[_kind(solver)] = took if policy is not None else np.inf
        if policy is not None and wanted:
            yield name_of(solver), policy


def _allowance(model: UMDP, values: OptimalValues, solver: Solver) -> int:
    """Return how many iterations a method may take on a model; 0 if it is too large for the method."""
    if not isinstance(solver, Recursion):
        return max(SEARCH_NUMBERS // model.prob.size, model.samples + 4)
    deep = solver.options == "deterministic" and solver.steps > 2
    most = DETERMINISTIC_NUMBERS if deep else NUMBERS
    if solver.steps > 1 and _histories(model, values, solver.steps) * model.samples > most:
        return 0
    return ROUNDS


def _histories(model: UMDP, values: OptimalValues, steps: int) -> float:
    """Return how many histories all options of some steps have, of choices that are optimal in some sample."""
    graph = model.graph
    kept = np.flatnonzero(optimal_somewhere(model, values, regret_gap(model, values)))
    choice_ptr = pointers(np.bincount(graph.choice_state[kept], minlength=graph.states))
    trans_ptr = pointers(np.diff(graph.trans_ptr)[kept])
    size, _, _ = count_histories(steps, choice_ptr, trans_ptr, graph.successor[members(graph.trans_ptr, kept)])
    return float(size[steps].sum())


def name_of(solver: Solver) -> str:
    """Return a solver in a few words: its name and, of a recursion, steps and options."""
    return f"{solver.name} {solver.steps} {solver.options}" if isinstance(solver, Recursion) else solver.name


def _kind(solver: Solver) -> tuple[type[Solver], str]:
    """Return a key that solvers share which differ in their number of steps alone."""
    return type(solver), solver.options if isinstance(solver, Recursion) else ""


def _optimal_policy(model: UMDP, values: OptimalValues, sample: int) -> Policy | None:
    """Return the optimal policy of a sample; None if a limit was reached before there was one."""
    graph = model.graph
    choice = values.choice[:, sample]
    if choice[graph.initial] < 0 and not graph.goal[graph.initial]:
        return None
    return Policy.from_choices(graph, complete_choices(graph, choice))


def _attempt(model: UMDP, solver: Solver, run: Run) -> Policy | None:
    """Return the policy of a solver; None if the model is too large for it, or its backend fails."""
    try:
        return solver.run(model, run).policy
    except (BadInput, SolverFailed):
        return None


def _is_finite(model: UMDP, policy: Policy, run: Run) -> bool:
    """Return whether the regret of a policy is finite in all samples, and proved to be."""
    try:
        verdict = judge(model, policy, run)
    except SolverFailed:  # it almost never ends
        return False
    return bool(np.isfinite(verdict.max_regret + verdict.error))


def _is_new(policy: Policy, seen: set[bytes]) -> bool:
    """Return whether a policy is none of those seen before, and add it to them."""
    arrays = [policy.choice, policy.weight]
    if policy.is_stationary:  # the order of its nodes does not matter
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
