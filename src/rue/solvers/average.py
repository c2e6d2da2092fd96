"""The averaged MDP: one model with the mean of all transition probabilities and costs.

    T(c, s') = mean over k of T_k(c, s'),      C̄(c) = mean over k of C̄_k(c)

Its optimal policy is the paper's baseline "Averaged MDP". The objective is the value of that policy in the averaged
model. Choices that risk a dead end in some sample cost infinity there, so they are left out where that is possible.
"""

from dataclasses import dataclass

from rue.errors import BadInput
from rue.model import UMDP, all_states_reach_goal
from rue.optimal import optimal_values
from rue.policy import Policy
from rue.solution import Interval, Outcome, Run, Solver, Status
from rue.solvers.base import complete_choices
from rue.solvers.supports import infeasible
from rue.structure import jointly_proper


@dataclass(frozen=True)
class Average(Solver):
    """The optimal policy of the averaged model."""

    name = "average"
    measures = "mean cost"

    def run(self, model: UMDP, run: Run) -> Outcome:
        """Average, then solve one MDP."""
        try:
            mean = UMDP(model.graph, model.prob.mean(axis=1, keepdims=True), model.cost.mean(axis=1, keepdims=True))
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
