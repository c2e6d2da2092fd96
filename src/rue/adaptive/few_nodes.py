"""A search, and then a policy with few nodes from what it found, within the same limits.

The search proves a lower bound for policies of any size, which holds as before. The upper end is the judge's figure of
the small policy: so the interval tells what few nodes cost at most.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from rue.active import at_most
from rue.judge import judge
from rue.model import UMDP
from rue.simplification import measure_of, shrunk
from rue.solution import Inner, Interval, Limits, Outcome, Run, Status

# The part of the time that the search may take; the rest is for a smaller policy.
SEARCH_PART = 0.75


@dataclass(frozen=True, eq=False)
class FewNodes:
    """What is asked for: a policy for a model with at most so many nodes."""

    model: UMDP
    nodes: int
    objective: str  # "regret" or "cost"
    tail: float | None

    def outcome(self, search: Callable[[UMDP, Run], Outcome], run: Run) -> Outcome:
        """Search, then make the policy smaller."""
        within = Limits(seconds=SEARCH_PART * run.seconds_left, iterations=run.limits.iterations)
        inner = Inner(limits=within, outer=run)
        outcome = search(self.model, inner)
        run.trace += inner.trace
        if outcome.status is not Status.INFEASIBLE and outcome.policy.nodes > self.nodes:
            outcome = self._smaller(outcome, run)
            # The policy depends on all samples now, and not on the active ones alone.
            inner.counters.pop("by counts", None)
        run.iterations += inner.iterations
        run.counters |= inner.counters | {"nodes": outcome.policy.nodes}
        return outcome

    def _smaller(self, outcome: Outcome, run: Run) -> Outcome:
        """Return the outcome with a smaller policy, and with the interval that holds for it."""
        measure = measure_of(self.model, run, self.tail, self.objective)
        policy = shrunk(self.model, outcome.policy, measure, Inner(outer=run), self.nodes)
        upper = at_most(judge(self.model, policy, run.afterwards()), self.objective, measure.cap)
        around = Interval.proved(outcome.objective.lower, upper, f"the least {self.objective}")
        run.report(f"adaptive: {policy.nodes} nodes", around)
        return replace(outcome, policy=policy, objective=around)
