"""The best of the samples' own optimal policies: the paper's baseline "Best MDP Policy".

    min over j of  max over k of  reg_k(π*_j)

The objective is that number, as the judge finds it. A policy that is improper in some sample has infinite regret.
"""

from dataclasses import dataclass

import numpy as np

from rue.evaluate import evaluate
from rue.model import UMDP
from rue.optimal import optimal_values
from rue.policy import Policy
from rue.solution import Interval, Outcome, Run, Solver, Status
from rue.solvers.adversary import policy_at_hand
from rue.solvers.base import complete_choices


@dataclass(frozen=True)
class BestSample(Solver):
    """The optimal policy of one sample: the one with the least max regret over all."""

    name = "best"
    measures = "regret"

    def run(self, model: UMDP, run: Run) -> Outcome:
        """Judge the optimal policy of each sample."""
        values = optimal_values(model, run=run)
        best: tuple[float, float, Policy] | None = None
        tried: list[np.ndarray] = []
        status: Status | None = None
        for sample in range(model.samples):
            choice = complete_choices(model.graph, values.choice[:, sample])
            if any(np.array_equal(choice, other) for other in tried):
                continue
            tried.append(choice)
            policy = Policy.from_choices(model.graph, choice)
            status = run.stop()
            if status:
                break
            verdict = evaluate(model, policy)
            if best is None or verdict.max_regret < best[0]:
                best = (verdict.max_regret, verdict.error, policy)
            run.iterations += 1
            run.count("policies")
            run.report(f"best: judged {sample + 1} of {model.samples}", Interval(0.0, best[0] + best[1]))
        if status:
            found = best is not None and np.isfinite(best[0])
            policy = best[2] if best is not None and found else policy_at_hand(model, values)
            return Outcome(policy, Interval(0.0, best[0] + best[1] if best is not None else np.inf), status)
        assert best is not None
        regret, error, policy = best
        return Outcome(policy, Interval(max(regret - error, 0.0), regret + error))
