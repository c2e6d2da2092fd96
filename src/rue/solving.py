"""`solve`: run any solver, evaluate its policy by the judge, and prove a lower bound for all policies."""

import math
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np

from rue._check import flag
from rue._threads import check_threads
from rue.active import ActiveSearch, SolverInParts, WholeModel, WholeSource
from rue.adaptive.report_bound import REPORT_SIZE, prove_bound
from rue.adaptive.verified import verified_of
from rue.certificate import Certificate
from rue.compilation import ensure_compiled
from rue.cross_check import EvidenceFile, check_judge, check_values, max_regret
from rue.errors import BadInput, Contradiction, NotProved
from rue.fallbacks import why_none_reaches
from rue.judge import Evaluation
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
from rue.workers import check_executor
from rue.worlds import Source

# Regrets that differ by no more than this fraction of the largest V*, or of a typical cost, are equal.
FLOOR = 1e-9


def solve(
    model: UMDP | Source,
    solver: Solver,
    *,
    limits: Limits | None = None,
    progress: Hook | None = None,
    bound: bool = True,
    cache: Cache | None = None,
    threads: int | None = None,
    executor: Executor | None = None,
) -> Solution:
    """Run a solver on a model or a source and let the judge evaluate its policy.

    A limit, or Ctrl-C, ends the search with the best policy so far, and `status` says so. `progress` is called with a
    `Progress` from time to time. After the search a short computation proves a lower bound on the max regret of any
    policy, unless the solver has one, a limit was reached, `bound` is False, or the model is very large: for such a one
    there is `rue.lower_bound`. `seconds` is the solver's time alone: all that it may call is compiled before its clock
    is started.

    The result depends on the arguments alone: not on earlier calls, unless a `cache` carries over what they found, and
    not on the number of `threads`, by default all cores. Only a limit of seconds makes it depend on the machine.

    Of a source only the active samples are kept in memory, and one block; solvers that work on some of the samples take
    one: `Adaptive`, `Mixture` and `ExactStationary`. An `executor` judges its blocks. Of a large model it computes the
    optimal values and judges, in parts of some samples that its workers keep. Results do not depend on it.

    >>> model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    >>> solution = rue.solve(model, rue.Adaptive(gap=0.01), limits=rue.Limits(seconds=60))
    >>> solution.status
    <Status.SOLVED: 'solved'>
    >>> round(solution.max_regret.lower, 3), round(solution.max_regret.upper, 3)
    (0.024, 0.024)
    """
    whole = _whole(model, executor)
    if not isinstance(solver, Solver):
        raise BadInput(f"the solver is {solver!r}; expected a solver object such as rue.Regret()")
    _check_takes(solver, whole)
    flag("bound", bound)
    limits = check_limits(limits)
    ensure_compiled(solver, progress, bound)
    run = Run(limits, progress, check_cache(cache), check_threads(threads))
    if isinstance(whole, WholeModel):
        run.executor = executor
    evidence = EvidenceFile(model if isinstance(model, UMDP) else None)
    try:
        with run.catching_interrupts():
            return _solve(whole, solver, run, bound, evidence)
    except Contradiction as problem:
        raise evidence.attached(problem) from None


def _whole(model: UMDP | Source, executor: Executor | None) -> WholeModel | WholeSource:
    """Return all samples of a model or a source."""
    check_executor(executor)
    if isinstance(model, Source):
        return WholeSource(model, executor)
    return WholeModel(check_model(model))


def _check_takes(solver: Solver, whole: WholeModel | WholeSource) -> None:
    """Refuse a source for a solver that needs all samples at once."""
    if isinstance(whole, WholeSource) and not (isinstance(solver, SolverInParts) and solver.in_parts):
        raise BadInput(
            f"{solver} needs all samples at once and a source is given; expected Adaptive(), Mixture() or "
            "ExactStationary(), or a model, such as source.gather(range(100))"
        )


def _run(whole: WholeModel | WholeSource, solver: Solver, run: Run) -> Outcome:
    """Run the solver; a source is searched in parts, whatever its size."""
    if isinstance(whole, WholeSource):
        assert isinstance(solver, SolverInParts)
        return ActiveSearch(whole, solver, run).solve()
    outcome = solver.run(whole.model, run)
    if not isinstance(outcome, Outcome):
        raise BadInput(f"{type(solver).__name__}.run returned a {type(outcome).__name__}; expected a rue.Outcome")
    return outcome


def _solve(whole: WholeModel | WholeSource, solver: Solver, run: Run, bound: bool, evidence: EvidenceFile) -> Solution:
    """Search, judge and prove; then compare the results with each other."""
    outcome = _run(whole, solver, run)
    seconds = run.seconds
    run.report("judging", outcome.objective)
    after = run.afterwards()
    verdict = whole.judge(outcome.policy, after)
    # Of a source what follows is about the samples in memory; the bounds and the regrets are about all.
    model = whole.model if isinstance(whole, WholeModel) else whole.subset(np.array(outcome.active))
    evidence.model = model
    if isinstance(whole, WholeSource) and not verdict.complete:
        run.count("judged samples", int(verdict.judged.sum()))
    reason = why_none_reaches(model, run) if math.isinf(verdict.at_most) else ""
    certificate = None if reason else _regret_certificate(whole, outcome, run, bound)
    values = optimal_values(model, run=after)
    solution = Solution(
        policy=outcome.policy,
        solver=solver,
        status=_why_it_stopped(outcome, verdict, run),
        objective=outcome.objective,
        max_regret=Interval(0.0, math.inf),
        regret=tuple(verdict.regret.tolist()),
        weight=tuple(verdict.weight.tolist()) if verdict.weight.min() < verdict.weight.max() else (),
        seconds=seconds,
        trace=tuple(run.trace),
        counters=dict(run.counters),
        certificate=outcome.certificate or certificate,
        regret_certificate=certificate,
        reason=reason,
        average_error=float(verdict.average_error.max()),
        floor=FLOOR * max(typical_cost(model), float(values.lower[model.graph.initial].max())),
    )
    evidence.solution = solution
    complete = check_values(model, values, after)
    _check_proof(whole, solution.certificate, run.cache)
    if isinstance(whole, WholeModel):
        complete &= check_judge(model, outcome.policy, verdict, after)
    else:
        worst = np.array([verdict.worst_sample])
        complete &= check_judge(whole.subset(worst), outcome.policy, verdict.subset(worst), after)
    if not complete:
        run.count("cross-checks cut off")
    around = max_regret(solver, outcome, verdict, certificate)
    interval = Interval(math.inf, math.inf) if reason else around
    solution = replace(solution, max_regret=interval, counters=dict(run.counters))
    return solution.in_figures(model.units)


def _why_it_stopped(outcome: Outcome, verdict: Evaluation, run: Run) -> Status:
    """Return the status of the search, unless time was over before the judge was done: regrets are missing then."""
    if verdict.complete or outcome.status is Status.INFEASIBLE:
        return outcome.status
    return run.out_of_time() or outcome.status


def _regret_certificate(whole: WholeModel | WholeSource, outcome: Outcome, run: Run, bound: bool) -> Certificate | None:
    """Return a proof of a lower bound for all policies: the solver's own, or the best that little effort finds."""
    proof = outcome.certificate
    if proof is not None and proof.is_of_max_regret:
        return proof
    if outcome.status is Status.INFEASIBLE:
        return None
    if not outcome.active and isinstance(whole, WholeModel):
        return prove_bound(whole.model, run, search=bound and whole.model.prob.size <= REPORT_SIZE)
    part = whole.subset(np.array(outcome.active))
    found = prove_bound(part, run, search=bound and part.prob.size <= REPORT_SIZE)
    return None if found is None else replace(found, sample=np.array(outcome.active))


def _check_proof(whole: WholeModel | WholeSource, certificate: Certificate | None, cache: Cache) -> None:
    """Verify the certificate of a solver, unless it was verified already."""
    if certificate is not None and certificate not in verified_of(whole.about, cache):
        try:
            whole.verify(certificate)
        except NotProved as problem:
            raise Contradiction(f"the certificate of the solver does not hold: {problem}") from None
