"""`solve`: run any solver, evaluate its policy by the judge, and prove a lower bound for all policies."""

import math
from dataclasses import replace

from rue._check import flag
from rue._threads import check_threads
from rue.adaptive.report_bound import REPORT_SIZE, prove_bound
from rue.adaptive.verified import verified_of
from rue.certificate import Certificate, verify
from rue.compilation import ensure_compiled
from rue.cross_check import Evidence, check_judge, check_values, max_regret
from rue.errors import BadInput, Contradiction, NotProved
from rue.fallbacks import why_none_reaches
from rue.judge import judge
from rue.model import UMDP, check_model, typical_cost
from rue.solution import (
    Cache,
    Hook,
    Interval,
    Limits,
    Outcome,
    Run,
    Solution,
    Solver,
    Status,
    check_cache,
    check_limits,
)
from rue.values import optimal_values

# Regrets that differ by no more than this fraction of the largest V*, or of a typical cost, are equal.
FLOOR = 1e-9


def solve(
    model: UMDP,
    solver: Solver,
    *,
    limits: Limits | None = None,
    progress: Hook | None = None,
    bound: bool = True,
    cache: Cache | None = None,
    threads: int | None = None,
) -> Solution:
    """Run a solver on a model and let the judge evaluate its policy.

    A limit, or Ctrl-C, ends the search with the best policy so far, and `status` says so. `progress` is called with a
    `Progress` from time to time. After the search a short computation proves a lower bound on the max regret of any
    policy, unless the solver has one, a limit was reached, the model is very large, or `bound` is False. `seconds` is
    the solver's time alone: all that it may call is compiled before its clock is started.

    The result depends on the arguments alone: not on earlier calls, unless a `cache` carries over what they found, and
    not on the number of `threads`, by default all cores. Only a limit of seconds makes it depend on the machine.
    """
    check_model(model)
    if not isinstance(solver, Solver):
        raise BadInput(f"the solver is {solver!r}; expected a solver object such as rue.Regret()")
    flag("bound", bound)
    limits = check_limits(limits)
    ensure_compiled(solver, progress, bound)
    run = Run(limits, progress, check_cache(cache), check_threads(threads))
    evidence = Evidence(model)
    try:
        with run.catching_interrupts():
            return _solve(model, solver, run, bound, evidence)
    except Contradiction as problem:
        raise evidence.attached(problem) from None


def _solve(model: UMDP, solver: Solver, run: Run, bound: bool, evidence: Evidence) -> Solution:
    """Search, judge and prove; then compare the results with each other."""
    outcome = solver.run(model, run)
    if not isinstance(outcome, Outcome):
        raise BadInput(f"{type(solver).__name__}.run returned a {type(outcome).__name__}; expected a rue.Outcome")
    seconds = run.seconds
    run.report("judging", outcome.objective)
    after = run.afterwards()
    verdict = judge(model, outcome.policy, after)
    reason = why_none_reaches(model, run) if math.isinf(verdict.at_most) else ""
    certificate = None if reason else _regret_certificate(model, outcome, run, bound)
    values = optimal_values(model, run=after)
    solution = Solution(
        policy=outcome.policy,
        solver=solver,
        status=outcome.status,
        objective=outcome.objective,
        max_regret=Interval(0.0, math.inf),
        regret=tuple(verdict.regret.tolist()),
        weight=tuple(model.weight.tolist()) if model.is_weighted else (),
        seconds=seconds,
        trace=tuple(run.trace),
        counters=dict(run.counters),
        certificate=outcome.certificate or certificate,
        regret_certificate=certificate,
        reason=reason,
        floor=FLOOR * max(typical_cost(model), float(values.lower[model.graph.initial].max())),
    )
    evidence.solution = solution
    check_values(model, values)
    check_judge(model, outcome.policy, verdict)
    _check_proof(model, solution.certificate, run.cache)
    around = max_regret(solver, outcome, verdict, certificate)
    return replace(solution, max_regret=Interval(math.inf, math.inf) if reason else around)


def _regret_certificate(model: UMDP, outcome: Outcome, run: Run, bound: bool) -> Certificate | None:
    """Return a proof of a lower bound for all policies: the solver's own, or the best that little effort finds."""
    proof = outcome.certificate
    if proof is not None and proof.is_of_max_regret:
        return proof
    if outcome.status is Status.INFEASIBLE:
        return None
    return prove_bound(model, run, search=bound and model.prob.size <= REPORT_SIZE)


def _check_proof(model: UMDP, certificate: Certificate | None, cache: Cache) -> None:
    """Verify the certificate of a solver, unless it was verified already."""
    if certificate is not None and certificate not in verified_of(model, cache):
        try:
            verify(model, certificate)
        except NotProved as problem:
            raise Contradiction(f"the certificate of the solver does not hold: {problem}") from None
