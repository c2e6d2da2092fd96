"""`solve`: run any solver, let the judge look at what it returns, and say what no policy can do better."""

from rue.certificate import Certificate
from rue.errors import BadInput
from rue.evaluate import evaluate
from rue.model import UMDP
from rue.solution import Hook, Interval, Limits, Outcome, Run, Solution, Solver, Status
from rue.solvers.adaptive import REPORT_BELIEFS, REPORT_SIZE, prove_bound
from rue.solvers.ready import ensure_compiled


def solve(
    model: UMDP,
    solver: Solver,
    *,
    limits: Limits | None = None,
    progress: Hook | None = None,
    bound: bool = True,
) -> Solution:
    """Run a solver on a model and let the judge evaluate its policy.

    A limit, or Ctrl-C, ends the search with the best policy so far and says so in `status`. `progress` is called
    with a `Progress` every now and then. Then a little is spent on a bound from below on what any policy could do,
    unless the solver has one, a limit was reached, the model is very large, or `bound` is False. `seconds` is the
    solver's time alone: all that it may call is compiled before its clock is started.
    """
    if not isinstance(model, UMDP):
        raise BadInput(f"the model is a {type(model).__name__}; expected a rue.UMDP")
    if not isinstance(solver, Solver):
        raise BadInput(f"the solver is {solver!r}; expected a solver object such as rue.Regret()")
    if limits is not None and not isinstance(limits, Limits):
        raise BadInput(f"limits is {limits!r}; expected rue.Limits(seconds=..., iterations=...)")
    ensure_compiled(solver, progress, bound)
    run = Run(limits or Limits(), progress)
    with run.catching_interrupts():
        outcome = solver.run(model, run)
        seconds = run.seconds
        run.report("judging", outcome.objective)
        verdict = evaluate(model, outcome.policy)
        certificate = _regret_certificate(model, outcome, run, bound)
    proved = certificate.bound if certificate is not None else 0.0
    return Solution(
        policy=outcome.policy,
        solver=solver,
        status=outcome.status,
        objective=outcome.objective,
        max_regret=Interval(min(proved, verdict.max_regret), verdict.max_regret),
        regret=tuple(verdict.regret.tolist()),
        seconds=seconds,
        trace=tuple(run.trace),
        counters=dict(run.counters),
        certificate=outcome.certificate or certificate,
    )


def _regret_certificate(model: UMDP, outcome: Outcome, run: Run, bound: bool) -> Certificate | None:
    """A proof of what no policy can do better: the solver's own, or the best that little effort finds."""
    if outcome.certificate is not None and outcome.certificate.objective == "regret":
        return outcome.certificate
    if outcome.status is Status.INFEASIBLE:
        return None
    wanted = bound and model.prob.size <= REPORT_SIZE
    return prove_bound(model, run, beliefs=REPORT_BELIEFS if wanted else 0)
