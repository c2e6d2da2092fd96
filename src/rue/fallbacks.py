"""Find policies that reach a goal in every sample by ruling samples out, and what to return where no policy counts.

An outcome that is impossible in a sample rules that sample out. `diagnosis.Unfolded` is the model with, for each state,
the samples that are still possible. A policy that reaches a goal with probability one in each sample exists if and only
if, there, the one does that draws each safe choice with equal chances. Its cost is finite in every sample. If it does
not exist, each policy misses the goal with positive probability in some sample, and all regrets are infinite.
"""

import numpy as np

from rue._arrays import members_with_owner
from rue.controllers import part_of, put_together
from rue.diagnosis import Unfolded, diagnose
from rue.model import UMDP
from rue.policy import Policy
from rue.solution import Interval, Outcome, Run, Status
from rue.structure import jointly_proper


def reaching_policy(model: UMDP, run: Run) -> Policy | None:
    """Return a policy that reaches a goal in every sample, if there is one and it is found."""
    return _found(model, run)[0]


def no_policy_reaches(model: UMDP, run: Run) -> bool:
    """Return whether it is certain that each policy may miss the goal in some sample."""
    return _found(model, run)[1]


def _found(model: UMDP, run: Run) -> tuple[Policy | None, bool]:
    """Return a policy that reaches a goal in every sample, and whether it is certain that there is none."""

    def find() -> tuple[Policy | None, bool]:
        if jointly_proper(model)[0][model.graph.initial]:
            return wandering(model), False
        unfolded = Unfolded.of(model)
        if unfolded is None:
            return None, False
        return (_folded(unfolded), False) if jointly_proper(unfolded.model)[0][0] else (None, True)

    return run.cache.remember(model, "reaching policy", find)


def _folded(unfolded: Unfolded) -> Policy:
    """Return, for the model itself, the policy of the unfolded model that draws each safe choice with equal chances.

    Outcomes that are impossible after what was observed lead to nodes that depend on the state alone.
    """
    graph, small = unfolded.original.graph, wandering(unfolded.model)
    alone = wandering(unfolded.original)
    choice = unfolded.choice[small.choice]
    outcome, taken = members_with_owner(graph.trans_ptr, choice)
    following, first = graph.successor[outcome].astype(np.int64), np.searchsorted(taken, np.arange(choice.size))
    own, entry = members_with_owner(unfolded.model.graph.trans_ptr, small.choice)
    following[first[entry] + unfolded.transition[own] - graph.trans_ptr[choice[entry]]] = alone.nodes + small.next_node
    part = (unfolded.state[small.node_state], np.diff(small.entry_ptr), choice, small.weight, following)
    return put_together(graph, [part_of(alone), part], alone.nodes + small.start_node, small.start_weight)


def wandering(model: UMDP, *, everywhere: bool = False) -> Policy:
    """Return the policy that draws, with equal chances, one of the choices that are safe in every sample.

    Safe from the initial state on; with `everywhere`, also from states that a sample cannot visit.
    """
    graph = model.graph
    alive, allowed = jointly_proper(model, everywhere=everywhere)
    safe = allowed & alive[graph.choice_state]
    count = np.bincount(graph.choice_state[safe], minlength=graph.states)
    safe[graph.choice_ptr[:-1][(count == 0) & ~graph.goal]] = True
    return Policy.from_weights(graph, safe / np.maximum(count, 1)[graph.choice_state])


def fallback(model: UMDP, run: Run) -> Policy:
    """Return a policy without a search; it reaches a goal in every sample if such a policy is found."""
    return reaching_policy(model, run) or wandering(model)


def infeasible(model: UMDP, run: Run) -> Outcome:
    """Return the outcome where no policy of the solver's kind has a finite objective; other policies may have one."""
    return Outcome(fallback(model, run), Interval(np.inf, np.inf), Status.INFEASIBLE)


def why_none_reaches(model: UMDP, run: Run) -> str:
    """Return why each policy may miss the goal in some sample; empty unless that is certain."""
    return " ".join(diagnose(model).about_model()) if no_policy_reaches(model, run) else ""
