"""The two baselines of the paper: the averaged MDP, and the best of the samples' own optimal policies.

*Averaged MDP*: one model with the mean of all transition probabilities and costs.

    T(c, s') = mean over k of T_k(c, s'),      C̄(c) = mean over k of C̄_k(c)

Means are by the weights of the samples. The objective is the value of its optimal policy in the averaged model. Choices
that risk a dead end in some sample have infinite cost there. They are left out where that is possible.

*Best MDP policy*: min over j of max over k of reg_k(π*_j), as the judge finds it. A policy that is improper in some
sample has infinite regret. If several policies share the least max regret, the one with the lowest mean regret wins.
"""

from dataclasses import dataclass

import numpy as np

from rue._arrays import Array
from rue.errors import BadInput
from rue.fallbacks import infeasible
from rue.judge import judge
from rue.model import UMDP
from rue.policy import Policy, complete_choices
from rue.recursion.one_step import policy_at_hand
from rue.solution import Interval, Outcome, Run, Solver, Status
from rue.structure import all_states_reach_goal, jointly_proper
from rue.values import optimal_values

# Max regrets that differ by no more than this fraction are the same.
TIE = 1e-9


@dataclass(frozen=True)
class Average(Solver):
    """The optimal policy of the averaged model."""

    name = "average"
    measures = "mean cost"

    def run(self, model: UMDP, run: Run) -> Outcome:
        """Average the samples and solve one MDP."""
        try:
            mean = UMDP(model.graph, _mean(model, model.prob), _mean(model, model.cost))
        except BadInput:  # each sample has a proper policy, but the averaged model has none
            return infeasible(model, run)
        within = None
        if not all_states_reach_goal(model):
            alive, allowed = jointly_proper(model)
            within = allowed if alive[model.graph.initial] else None
        values = optimal_values(mean, within=within, run=run)
        initial = model.graph.initial
        return Outcome(
            Policy.from_choices(model.graph, complete_choices(model.graph, values.choice[:, 0])),
            Interval(float(values.lower[initial, 0]), float(values.upper[initial, 0])),
            Status.SOLVED if values.complete else run.stop() or Status.SOLVED,
        )


def _mean(model: UMDP, numbers: Array) -> Array:  # [n, 1]
    """Return the mean over the samples, by their weights."""
    if not model.is_weighted:
        return np.asarray(numbers.mean(axis=1, keepdims=True))
    return np.asarray((numbers * model.weight).sum(axis=1, keepdims=True))


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
            if status is None and np.isfinite([error for _, _, error in judged]).all():
                return infeasible(model, run)
            return Outcome(policy_at_hand(model, values, run), Interval(0.0, np.inf), status or Status.UNPROVED)
        policy = Policy.from_choices(model.graph, tried[best])
        lower = 0.0 if status else max(min(worst - error for worst, _, error in judged), 0.0)
        return Outcome(policy, Interval(lower, regret + error), status or Status.SOLVED)
