"""`solve`: run any solver, and let the judge look at what it returns."""

import numpy as np

from rue._flat import Array
from rue.errors import BadInput
from rue.evaluate import evaluate
from rue.model import UMDP, Graph
from rue.policy import Policy
from rue.solution import Hook, Interval, Limits, Outcome, Run, Solution, Solver, Status
from rue.structure import jointly_proper


def solve(model: UMDP, solver: Solver, *, limits: Limits | None = None, progress: Hook | None = None) -> Solution:
    """Run a solver on a model and let the judge evaluate its policy.

    A limit, or Ctrl-C, ends the search with the best policy so far and says so in `status`. `progress` is called
    with a `Progress` every now and then. `seconds` is the solver's time without the judge's.
    """
    if not isinstance(model, UMDP):
        raise BadInput(f"the model is a {type(model).__name__}; expected a rue.UMDP")
    if not isinstance(solver, Solver):
        raise BadInput(f"the solver is {solver!r}; expected a solver object such as rue.Regret()")
    if limits is not None and not isinstance(limits, Limits):
        raise BadInput(f"limits is {limits!r}; expected rue.Limits(seconds=..., iterations=...)")
    run = Run(limits or Limits(), progress)
    with run.catching_interrupts():
        outcome = solver.run(model, run)
        seconds = run.seconds
        run.report("judging", outcome.objective)
        verdict = evaluate(model, outcome.policy)
    return Solution(
        policy=outcome.policy,
        solver=solver,
        status=outcome.status,
        objective=outcome.objective,
        max_regret=Interval(0.0, verdict.max_regret),
        regret=tuple(verdict.regret.tolist()),
        seconds=seconds,
        trace=tuple(run.trace),
        counters=dict(run.counters),
    )


def complete_choices(graph: Graph, choice: Array) -> Array:  # [S]
    """Choices for all states: where there is none (-1), as at dead ends, the first of the state."""
    first = np.minimum(graph.choice_ptr[:-1], graph.choices - 1)
    return np.where(choice >= 0, choice, first)


def infeasible(model: UMDP) -> Outcome:
    """No policy has a finite objective. The fallback reaches a goal in each sample, if such a policy is known."""
    graph = model.graph
    alive, allowed = jointly_proper(model)
    weight = np.where(allowed & alive[graph.choice_state], 1.0, 0.0)
    total = np.bincount(graph.choice_state, weights=weight, minlength=graph.states)
    weight[complete_choices(graph, np.full(graph.states, -1))[(total == 0) & ~graph.goal]] = 1.0
    total = np.bincount(graph.choice_state, weights=weight, minlength=graph.states)
    return Outcome(
        Policy.from_weights(graph, weight / total[graph.choice_state]), Interval(np.inf, np.inf), Status.INFEASIBLE
    )
