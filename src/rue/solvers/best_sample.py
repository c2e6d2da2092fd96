"""The best of the samples' own optimal policies: the paper's baseline "Best MDP Policy".

    min over j of  max over k of  reg_k(π*_j)

The objective is that number, as the judge finds it. A policy that is improper in some sample has infinite regret. Of
policies that share the least max regret, the one with the lowest mean regret is taken.
"""

from dataclasses import dataclass

import numpy as np

from rue.evaluate import judge
from rue.model import UMDP
from rue.optimal import optimal_values
from rue.policy import Policy
from rue.solution import Interval, Outcome, Run, Solver, Status
from rue.solvers.adversary import policy_at_hand
from rue.solvers.base import complete_choices
from rue.solvers.supports import infeasible

# Max regrets that differ by no more than this fraction are the same.
TIE = 1e-9


@dataclass(frozen=True)
class BestSample(Solver):
    """The optimal policy of one sample: the one with the least max regret over all."""

    name = "best"
    measures = "regret"

    def run(self, model: UMDP, run: Run) -> Outcome:
        """Judge the optimal policy of each sample."""
        values = optimal_values(model, run=run)
        judged: list[tuple[float, float, float]] = []  # max and mean regret, error
        tried: list[np.ndarray] = []
        status: Status | None = None
        for sample in range(model.samples):
            choice = complete_choices(model.graph, values.choice[:, sample])
            if any(np.array_equal(choice, other) for other in tried):
                continue
            status = run.stop()
            if status:
                break
            verdict = judge(model, Policy.from_choices(model.graph, choice), run.afterwards())
            tried.append(choice)
            judged.append((verdict.max_regret, verdict.mean_regret, verdict.error))
            run.iterations += 1
            run.count("policies")
            regret, _, error = min(judged)
            run.report(f"best: judged {sample + 1} of {model.samples}", Interval(0.0, regret + error))
        if not judged:
            return Outcome(policy_at_hand(model, values, run), Interval(0.0, np.inf), status or Status.SOLVED)
        least = min(judged)[0]
        tied = [j for j in range(len(judged)) if judged[j][0] <= least * (1 + TIE)]
        best = min(tied, key=lambda j: judged[j][1])
        regret, _, error = judged[best]
        if not np.isfinite(regret):
            if status is None and np.isfinite(error):
                return infeasible(model, run)
            return Outcome(policy_at_hand(model, values, run), Interval(0.0, np.inf), status or Status.UNPROVED)
        policy = Policy.from_choices(model.graph, tried[best])
        lower = 0.0 if status else max(min(worst - error for worst, _, error in judged), 0.0)
        return Outcome(policy, Interval(lower, regret + error), status or Status.SOLVED)
