"""A search, and then a smaller policy made of its result, within the same limits.

The search proves a lower bound for policies of any size, which holds as before. The upper end is the judge's figure of
the small policy: so the interval also bounds how much regret few nodes cost.
"""

from dataclasses import replace

from rue.active import SolverInParts, at_most
from rue.judge import judge
from rue.model import UMDP
from rue.simplification import measure_of, shrunk
from rue.solution import Inner, Interval, Limits, Outcome, Run, Status

# The part of the time that the search may take; the rest is for a smaller policy.
SEARCH_PART = 0.75


def search_few_nodes(model: UMDP, solver: SolverInParts, nodes: int, run: Run) -> Outcome:
    """Run a solver without a limit of nodes, then make its policy smaller, to at most `nodes` nodes."""
    within = Limits(seconds=SEARCH_PART * run.seconds_left, iterations=run.limits.iterations)
    inner = Inner(limits=within, outer=run)
    outcome = solver.run(model, inner)
    run.trace += inner.trace
    if outcome.status is not Status.INFEASIBLE and outcome.policy.nodes > nodes:
        outcome = _smaller(model, solver, nodes, outcome, run)
        # The policy depends on all samples now, and not on the active ones alone.
        inner.counters.pop("by counts", None)
    run.iterations += inner.iterations
    run.counters |= inner.counters | {"nodes": outcome.policy.nodes}
    return outcome


def _smaller(model: UMDP, solver: SolverInParts, nodes: int, outcome: Outcome, run: Run) -> Outcome:
    """Return the outcome with a smaller policy and its interval; solved if that is as narrow as was asked for."""
    measure = measure_of(model, run, solver.tail, solver.objective)
    policy = shrunk(model, outcome.policy, measure, Inner(outer=run), nodes)
    verdict = judge(model, policy, run.afterwards())
    upper = at_most(verdict, solver.objective, measure.cap)
    around = Interval.proved(outcome.objective.lower, upper, f"the least {solver.objective}")
    run.report(f"adaptive: {policy.nodes} nodes", around)
    status = outcome.status
    if status is Status.SOLVED and not solver.is_close(around.lower, around.upper, float(verdict.optimal.min())):
        status = run.stop() or Status.UNPROVED
    return replace(outcome, policy=policy, objective=around, status=status)
