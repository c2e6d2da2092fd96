"""A search, and then a policy with few nodes from what it found, within the same limits.

The search proves a lower bound for policies of any size, which holds as before. The upper end is the judge's figure of
the small policy: so the interval also tells how much regret few nodes cost at most.
"""

from dataclasses import dataclass, replace

from rue.active import SolverInParts, at_most
from rue.judge import judge
from rue.model import UMDP
from rue.simplification import measure_of, shrunk
from rue.solution import Inner, Interval, Limits, Outcome, Run, Status

# The part of the time that the search may take; the rest is for a smaller policy.
SEARCH_PART = 0.75


@dataclass(frozen=True, eq=False)
class FewNodes:
    """A search without a limit of nodes, after which its policy is made smaller, to at most `nodes` nodes."""

    model: UMDP
    search: SolverInParts
    nodes: int

    def outcome(self, run: Run) -> Outcome:
        """Search, then make the policy smaller."""
        within = Limits(seconds=SEARCH_PART * run.seconds_left, iterations=run.limits.iterations)
        inner = Inner(limits=within, outer=run)
        outcome = self.search.run(self.model, inner)
        run.trace += inner.trace
        if outcome.status is not Status.INFEASIBLE and outcome.policy.nodes > self.nodes:
            outcome = self._smaller(outcome, run)
            # The policy depends on all samples now, and not on the active ones alone.
            inner.counters.pop("by counts", None)
        run.iterations += inner.iterations
        run.counters |= inner.counters | {"nodes": outcome.policy.nodes}
        return outcome

    def _smaller(self, outcome: Outcome, run: Run) -> Outcome:
        """Return the outcome with a smaller policy and its interval; solved if that is as narrow as was asked for."""
        objective = self.search.objective
        measure = measure_of(self.model, run, self.search.tail, objective)
        policy = shrunk(self.model, outcome.policy, measure, Inner(outer=run), self.nodes)
        verdict = judge(self.model, policy, run.afterwards())
        upper = at_most(verdict, objective, measure.cap)
        around = Interval.proved(outcome.objective.lower, upper, f"the least {objective}")
        run.report(f"adaptive: {policy.nodes} nodes", around)
        closed = self.search.is_close(around.lower, around.upper, float(verdict.optimal.min()))
        status = outcome.status
        if status is Status.SOLVED and not closed:
            status = run.stop() or Status.UNPROVED
        return replace(outcome, policy=policy, objective=around, status=status)
