"""Lower bounds on the max regret of every policy: for the report of other methods, and on their own."""

import math
from itertools import islice

from rue._threads import check_threads
from rue.active import Part
from rue.adaptive.free_moves import Merged, merge_free
from rue.adaptive.near import Near
from rue.adaptive.portfolio import start_policies
from rue.adaptive.search import GIGABYTE, AdaptiveSearch
from rue.adaptive.verified import BestCertificate, verified
from rue.certificate import Certificate
from rue.compilation import compile_for_bound
from rue.model import UMDP, check_model
from rue.solution import Cache, Inner, Limits, Run, check_cache, check_limits
from rue.values import OptimalValues, optimal_values

# Limits of a bound for the report of other methods: beliefs, start policies, the gap at which it is good enough, and
# the numbers of a model (transitions, times samples) beyond which its check takes longer than a cheap method.
REPORT_BELIEFS, REPORT_POLICIES, REPORT_GAP, REPORT_SIZE = 2000, 32, 0.01, 5_000_000
# Of a larger model the part near the initial state is searched: about the first number of probabilities, or
# the second one if there are limits.
NEAR_NUMBERS, FAR_NUMBERS = 300_000, 1_000_000
# Time that is kept for the check of a certificate of the whole model, as a multiple of what its potential took.
CHECKING = 4.0
# With very many samples it takes fewer beliefs: this many numbers in all, but this many beliefs at least.
REPORT_NUMBERS, LEAST_BELIEFS = 1_000_000, 100


def lower_bound(
    model: UMDP, *, limits: Limits | None = None, cache: Cache | None = None, threads: int | None = None
) -> float:
    """Return a proved lower bound on the max regret of every policy, of any class.

    Without limits it takes little time, some thousand beliefs; with limits it goes on until they are reached or the gap
    is at most one percent. Of a large model only the part near the initial state is searched. A cache keeps the best
    bound that is known.

    >>> model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    >>> 0.02 < rue.lower_bound(model, limits=rue.Limits(seconds=5)) < 0.0241
    True
    """
    certificate = bound_certificate(model, limits=limits, cache=cache, threads=threads)
    return certificate.bound if certificate is not None else 0.0


def bound_certificate(
    model: UMDP, *, limits: Limits | None = None, cache: Cache | None = None, threads: int | None = None
) -> Certificate | None:
    """Return the proof of what `lower_bound` returns; None if nothing could be proved."""
    check_model(model)
    compile_for_bound(short=limits is None)
    run = Run(check_limits(limits), cache=check_cache(cache), threads=check_threads(threads))
    with run.catching_interrupts():
        return prove_bound(model, run, beliefs=math.inf if limits else REPORT_BELIEFS)


def prove_bound(model: UMDP, run: Run, *, beliefs: float = REPORT_BELIEFS, search: bool = True) -> Certificate | None:
    """Return the best certificate of the least max regret in the run's cache, after a search of some beliefs."""
    known = run.cache.remember(model, "regret bound", BestCertificate)
    if search and beliefs > known.beliefs and run.stop() is None:
        values, initial = optimal_values(model, run=run), model.graph.initial
        if values.complete and not values.dead[initial].any() and not model.graph.goal[initial]:
            _prove(model, values, run, beliefs)
        if run.stop() is None:
            known.beliefs = beliefs
    return known.certificate


def _prove(model: UMDP, values: OptimalValues, run: Run, beliefs: float) -> None:
    """Search in the part near the initial state if the model is large; without the free moves, if there are any."""
    began = run.seconds
    numbers = NEAR_NUMBERS if beliefs <= REPORT_BELIEFS else FAR_NUMBERS
    # The part has at most as many border states as it has outcomes, so that it is not cut again.
    small: Near | Merged | None = Near.of(model, values, numbers) if model.prob.size > 2 * numbers else None
    inner = run
    if small is None:
        small = merge_free(model)
    elif run.limits.seconds < math.inf:
        inner = Inner(Limits(max(run.seconds_left - CHECKING * (run.seconds - began), 0.0)), outer=run)
    if small is None:
        _search_bound(model, values, run, beliefs)
        return
    found = prove_bound(small.model, inner, beliefs=beliefs)
    verified(Part.whole(model), small.certificate(found) if found is not None else None, run)


def _search_bound(model: UMDP, values: OptimalValues, run: Run, beliefs: float) -> None:
    """Search for a certificate, with the optimal policies of the samples as start policies."""
    if beliefs <= REPORT_BELIEFS:  # with very many samples each of them takes long
        beliefs = min(beliefs, max(REPORT_NUMBERS // model.samples, LEAST_BELIEFS))
    search = AdaptiveSearch.start(Part.whole(model), values, "regret", GIGABYTE, Inner(outer=run))
    search.most_beliefs, search.stage = beliefs, "lower bound"
    search.waiting = islice(start_policies(model, values, run, 0.0), REPORT_POLICIES)
    search.close(REPORT_GAP)
    search.certificate()
