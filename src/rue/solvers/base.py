"""What solvers share: runs within runs, and choices where a policy says nothing."""

from dataclasses import dataclass, field

import numpy as np

from rue._flat import Array
from rue.model import UMDP, Graph
from rue.policy import Policy
from rue.solution import Interval, Run, Status
from rue.structure import jointly_proper


@dataclass(eq=False)
class Inner(Run):
    """The run of a solver within a solver: counts, trace and limits of its own, and the limits of the outer one."""

    outer: Run = field(default_factory=Run)

    def __post_init__(self) -> None:
        self.cache, self.threads = self.outer.cache, self.outer.threads

    @property
    def seconds_left(self) -> float:
        """Seconds until the nearer of the two time limits."""
        return min(super().seconds_left, self.outer.seconds_left)

    def out_of_time(self) -> Status | None:
        """Why to stop now, whatever was counted, or None to go on."""
        return self.outer.out_of_time() or super().out_of_time()

    def stop(self) -> Status | None:
        """Why to stop now, or None to go on."""
        return self.outer.stop() or super().stop()

    def afterwards(self) -> Run:
        """A run for judging and proving, until the nearer of the two limits, and a little longer."""
        return min(super().afterwards(), self.outer.afterwards(), key=lambda run: run.seconds_left)

    def report(self, stage: str, objective: Interval | None = None) -> None:
        """Pass on the stage, but not the objective, which is another one."""
        self.outer.report(stage)


def complete_choices(graph: Graph, choice: Array) -> Array:  # [S]
    """Choices for all states: where there is none (-1), as at dead ends, the first of the state."""
    first = np.minimum(graph.choice_ptr[:-1], graph.choices - 1)
    return np.where(choice >= 0, choice, first)


def wandering(model: UMDP) -> Policy:
    """Takes any choice that does not stand in the way of a goal in any sample, with equal chances."""
    graph = model.graph
    alive, allowed = jointly_proper(model)
    weight = np.where(allowed & alive[graph.choice_state], 1.0, 0.0)
    total = np.bincount(graph.choice_state, weights=weight, minlength=graph.states)
    weight[complete_choices(graph, np.full(graph.states, -1))[(total == 0) & ~graph.goal]] = 1.0
    total = np.bincount(graph.choice_state, weights=weight, minlength=graph.states)
    return Policy.from_weights(graph, weight / total[graph.choice_state])
