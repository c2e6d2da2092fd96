"""Search a few of many samples, and judge on all of them: the active samples.

For samples A ⊆ K, with the minimum over all policies,

    min over π of  max over A of  reg_k(π)   ≤   min over π of  max over K of  reg_k(π)   ≤   max over K of  reg_k(π')

for each policy π'. So a lower bound for the active samples A holds for all samples, and so does its certificate; the
judge's figure over all samples is the upper bound. The solver's policy for A is judged on all samples. Those on which
it is worst become active, and the solver starts again from this policy, until the bounds over all samples are close
enough. Active samples that have not mattered for some rounds are removed; one that is added again stays.

*Tails.* The same holds for the mean of the worst part of the probability: caps on the belief (`risk.py`) are those of
the whole, and beliefs on A need not sum to one.

*A compression.* The first active samples are the first in the order given, ties go to the lower number, and without a
limit of seconds nothing depends on a clock. So the search on the samples that were ever active, alone, would go the
same way: the policy depends on these only, which is what the scenario theorem asks for (`guarantees.py`).
"""

from abc import ABC, abstractmethod
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rue._arrays import Array
from rue.certificate import Certificate, verify
from rue.evaluation import judge_source
from rue.judge import Evaluation, judge, last_verdict
from rue.model import UMDP
from rue.policy import Policy, complete_choices
from rue.risk import caps_of, worst_belief, worst_mean
from rue.solution import Inner, Interval, Limits, Outcome, Run, Solver, Status
from rue.values import optimal_values
from rue.worlds import Kept, Source

# Models with more samples are searched in parts.
MANY = 100
# Samples that are active at first, and that are added in a round: up to twice as many while the gap is wide. Of a tail,
# a part of those that are missing.
FIRST, ADDED, ADDED_PART = 15, 10, 0.5
# The first active samples have this multiple of a tail's probability.
FIRST_TAIL = 1.5
# The gap of a part, as a fraction of the gap that is asked for; where nothing is left to add, it is divided by `FINER`,
# this many times at most.
PART_GAP, FINER, MOST_FINER = 0.5, 4.0, 12
# A relative gap of a part that is good enough at first, and then as a part of that over all samples: until the samples
# that matter are known, a smaller gap is wasted work.
FIRST_GAP, LOOSE = 0.2, 0.5
# An active sample is idle if its belief is below this part of its cap, and leaves after this number of rounds in a row.
LITTLE, IDLE_ROUNDS = 1e-3, 3
# If a part ends for one of these reasons, so does the whole search.
LIMITS = (Status.TIME_LIMIT, Status.ITERATION_LIMIT, Status.MEMORY_LIMIT, Status.INTERRUPTED)
# The judge's error is no gap, up to these parts of the upper bound and of the largest optimal value.
JUDGED, JUDGED_VALUE = 1e-6, 1e-9
# Nor are errors up to this size, which underflow leaves where all costs are zero.
TINY = 1e-200
# Time that is kept for the judge, as a multiple of what it took.
JUDGING = 1.5


@dataclass(frozen=True, eq=False)
class Part:
    """Some samples of a model, as a solver gets them."""

    model: UMDP
    cap: Array  # [K] the largest belief of each sample: 1, or less in a tail
    tail: float | None = None
    finer: float = 1.0  # the factor of the gap that is asked for
    loose: float = 0.0  # a relative gap that is good enough for now
    policies: tuple[Policy, ...] = ()  # to start from
    sample: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # [K] the numbers of the samples in the whole
    memo: dict[str, Any] = field(default_factory=dict)  # what the solver keeps from one part to the next

    @classmethod
    def whole(cls, model: UMDP) -> "Part":
        """Return all samples of a model, without caps."""
        return cls(model, np.ones(model.samples))

    @property
    def centre(self) -> Array:  # [K]
        """A belief in the middle of those that keep to the caps; cap itself if no other has as large a sum."""
        return np.asarray(self.cap / max(self.cap.sum(), 1.0))

    def within(self, belief: Array) -> Array:  # [K]
        """Return a belief that keeps to the caps; what is above one of them goes to the others in proportion."""
        kept = np.minimum(belief, self.cap)
        for _ in range(belief.size):
            room, missing = np.where(kept < self.cap, kept, 0.0), min(1.0, self.cap.sum()) - kept.sum()
            if missing <= 1e-15 or not room.any():
                break
            kept = np.minimum(kept + room * (missing / room.sum()), self.cap)
        return np.asarray(kept)

    @property
    def has_one_belief(self) -> bool:
        """Whether no other belief than the caps counts, as in the mean over all samples."""
        return bool(self.cap.sum() <= 1.0 + 1e-12)


class Whole(ABC):
    """All samples, as the search in parts sees them."""

    samples: int
    about: object  # their key in the cache of a run

    @abstractmethod
    def weight(self, run: Run) -> Array:  # [K]
        """Return the probability of each sample."""

    @abstractmethod
    def subset(self, samples: Array) -> UMDP:
        """Return a model of some samples."""

    def prepare(self, run: Run) -> None:  # noqa: B027  # there may be nothing to do
        """Compute what the judge needs once, so that it does not count as time of the judge."""

    @abstractmethod
    def judge(self, policy: Policy, run: Run) -> Evaluation:
        """Evaluate a policy in all samples."""

    @abstractmethod
    def verify(self, certificate: Certificate) -> float:
        """Check a certificate about all samples, or a part of them."""


class WholeModel(Whole):
    """The samples of a model."""

    def __init__(self, model: UMDP) -> None:
        self.samples, self.about, self.model = model.samples, model, model

    def weight(self, run: Run) -> Array:  # [K]
        """Return the weights of the model."""
        return np.asarray(self.model.weight)

    def subset(self, samples: Array) -> UMDP:
        """Return a model of some samples."""
        return self.model.subset(samples)

    def prepare(self, run: Run) -> None:
        """Compute the optimal values of all samples, which the cache keeps."""
        optimal_values(self.model, run=run)

    def judge(self, policy: Policy, run: Run) -> Evaluation:
        """Evaluate a policy in all samples."""
        return judge(self.model, policy, run)

    def verify(self, certificate: Certificate) -> float:
        """Check a certificate."""
        return verify(self.model, certificate)


class WholeSource(Whole):
    """The samples of a source, of which those are in memory that are active; an executor may judge the others."""

    def __init__(self, source: Source, executor: Executor | None = None) -> None:
        self.samples, self.about, self.source, self.executor = source.samples, source, source, executor
        self.kept = Kept(source)

    def weight(self, run: Run) -> Array:  # [K]
        """Return the probability of each sample. A policy is judged to find out, which leaves V* in the cache."""
        first = self.subset(np.arange(1))
        choice = complete_choices(first.graph, optimal_values(first, run=run).choice[:, 0])
        return self.judge(Policy.from_choices(first.graph, choice), run).weight

    def subset(self, samples: Array) -> UMDP:
        """Return a model of some samples."""
        return self.kept.part(samples)[0]

    def judge(self, policy: Policy, run: Run) -> Evaluation:
        """Evaluate a policy in all samples, block by block."""
        return judge_source(self.source, policy, run, self.executor)

    def verify(self, certificate: Certificate) -> float:
        """Check a certificate."""
        return verify(self.kept, certificate)


@dataclass(frozen=True)
class SolverInParts(Solver):
    """A solver that can plan with some of many samples: its lower bound for these holds for all."""

    @property
    def objective(self) -> str:
        """What the figures of samples are: "regret" or "cost"."""
        return "regret"

    @property
    def tail(self) -> float | None:
        """The worst part of the probability that counts; None for the worst sample."""
        return None

    @property
    def refines(self) -> bool:
        """Whether parts are solved to a gap only, so that the same samples may be searched again to a smaller one."""
        return False

    @property
    def bounds_last(self) -> bool:
        """Whether only the lower bound of the last part holds."""
        return False

    @property
    def in_parts(self) -> bool:
        """Whether many samples are searched in parts."""
        return True

    @abstractmethod
    def run_part(self, part: Part, run: Run) -> Outcome:
        """Find a policy for a part of the samples."""

    @abstractmethod
    def is_close(self, lower: float, upper: float, least: float) -> bool:
        """Return whether the bounds are close enough; `least` is the least optimal value of a sample."""

    def run(self, model: UMDP, run: Run) -> Outcome:
        """Search over all samples, or over some at a time if there are many."""
        if self.in_parts and has_parts(model.weight, self.tail):
            return ActiveSearch(WholeModel(model), self, run).solve()
        return self.run_part(Part(model, caps_of(model.weight, self.tail), self.tail), run)


def judges_room(error: float, upper: float, optimal: float) -> float:
    """Return how much of the difference of the bounds may be the judge's error, with the largest optimal value."""
    return min(2 * error, max(JUDGED * upper, JUDGED_VALUE * optimal, TINY))


def at_most(verdict: Evaluation, objective: str, cap: Array) -> float:
    """Return a proved upper bound on the regret or cost of a judged policy in the worst case, or in a tail."""
    if objective == "regret" and cap.min() >= 1.0:
        return verdict.at_most
    return worst_mean(verdict.regret if objective == "regret" else verdict.value, cap) + verdict.error


def has_parts(weight: Array, tail: float | None) -> bool:
    """Return whether samples should be searched in parts: they are many, or some have no weight."""
    return weight.size > MANY or (tail is not None and not weight.all())


@dataclass(eq=False)
class ActiveSearch:
    """The state of a search in parts: what is active, and both bounds over all samples."""

    whole: Whole
    solver: SolverInParts
    run: Run
    active: Array = field(init=False)  # those that stay come before those that are new
    ever: Array = field(init=False)  # [K] which samples were ever active
    idle: Array = field(init=False)  # [K] rounds in which an active sample did not matter
    lower: float = 0.0
    certificate: Certificate | None = None
    policy: Policy | None = None  # the best so far
    upper: float = np.inf
    verdict: Evaluation = field(init=False)  # the last, on all samples
    best_verdict: Evaluation = field(init=False)
    finer: float = PART_GAP
    loose: float = LOOSE
    judge_seconds: float = 0.0
    memo: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tail = self.solver.tail
        self.cap = np.ones(self.whole.samples) if tail is None else caps_of(self.whole.weight(self.run), tail)
        self.active = self._first()
        self.ever = np.zeros(self.whole.samples, bool)
        self.idle = np.zeros(self.whole.samples, np.int64)

    def _first(self) -> Array:
        """Return the first samples in the order given: some, and enough for a tail."""
        counted = np.flatnonzero(self.cap > 0)
        if self.solver.tail is None:
            return counted[:FIRST]
        enough = int(np.searchsorted(np.cumsum(self.cap[counted]), FIRST_TAIL)) + 1
        return counted if 2 * enough > counted.size else counted[: max(enough, FIRST)]

    def solve(self) -> Outcome:
        """Solve for the active samples and judge on all, until the bounds are close or something stops it."""
        refined = 0
        while True:
            outcome = self._solve_part()
            if outcome.status is Status.INFEASIBLE:
                return replace(outcome, active=tuple(self.active.tolist()))
            self._update_lower(outcome)
            status = self._judge(outcome)
            if status:
                return self._outcome(status)
            stopped = self.run.stop() or (outcome.status if outcome.status in LIMITS else None)
            if stopped:
                return self._outcome(stopped)
            self.loose = LOOSE
            if not self._exchange(outcome):
                if not self.solver.refines:  # no sample is worse than those of the part
                    return self._outcome(outcome.status)
                if refined == MOST_FINER or outcome.status is Status.UNPROVED:
                    return self._outcome(Status.UNPROVED)
                refined += 1
                self.finer /= FINER
                self.loose = 1 / FINER

    def _solve_part(self) -> Outcome:
        self.ever[self.active] = True
        left = self.run.limits.iterations - self.run.iterations
        seconds = max(self.run.seconds_left - JUDGING * self.judge_seconds, 0.0)
        inner = Inner(Limits(seconds, left), outer=self.run)
        known = () if self.policy is None else (self.policy,)
        loose = self.loose * self._wide if self.policy is not None else FIRST_GAP
        model, cap = self.whole.subset(self.active), self.cap[self.active]
        part = Part(model, cap, self.solver.tail, self.finer, loose, known, self.active, self.memo)
        outcome = self.solver.run_part(part, inner)
        self.run.iterations += inner.iterations
        for name, count in inner.counters.items():
            self.run.count(name, count)
        return outcome

    @property
    def _wide(self) -> float:
        """The relative gap over all samples; 1 if no finite regret is known."""
        return (self.upper - self.lower) / self.upper if 0.0 < self.upper < np.inf else 1.0

    def _update_lower(self, outcome: Outcome) -> None:
        """Take the lower bound of a part if it is better: it holds for all samples."""
        if outcome.objective.lower > self.lower or self.solver.bounds_last:
            self.lower = outcome.objective.lower
            self.certificate = outcome.certificate

    def _judge(self, outcome: Outcome) -> Status | None:
        """Judge the policy of a part on all samples; return SOLVED if the bounds are close."""
        self.run.report(f"judging on {self.whole.samples} samples")
        after = self.run.afterwards()
        self.whole.prepare(after)
        began = self.run.seconds
        self.verdict = self.whole.judge(outcome.policy, after)
        self.judge_seconds = self.run.seconds - began
        upper = at_most(self.verdict, self.solver.objective, self.cap)
        if self.policy is None or upper < self.upper:
            self.policy, self.upper, self.best_verdict = outcome.policy, upper, self.verdict
        self.run.report(
            f"{self.active.size} of {self.whole.samples} samples", Interval.expected(self.lower, self.upper)
        )
        optimal = self.verdict.optimal
        room = judges_room(self.best_verdict.error, self.upper, float(optimal.max()))
        closed = self.solver.is_close(self.lower, self.upper - room, float(optimal.min()))
        return Status.SOLVED if closed else None

    def _figures(self, verdict: Evaluation) -> Array:  # [K]
        return verdict.regret if self.solver.objective == "regret" else verdict.value

    def _exchange(self, outcome: Outcome) -> bool:
        """Remove idle samples and add the worst of the others; return whether any was added."""
        figure, cap = self._figures(self.verdict), self.cap
        own = worst_belief(figure[self.active], cap[self.active])
        level = figure[self.active][own > 0].min()
        outside = np.ones(self.whole.samples, bool)
        outside[self.active] = False
        worse = np.flatnonzero(outside & (cap > 0) & (figure > level))
        worse = worse[np.argsort(-figure[worse], kind="stable")]
        if self.solver.tail is None:
            wanted = int(ADDED * (1.0 + self._wide))
        else:
            wanted = max(ADDED, int(ADDED_PART * worse.size))
        kept = self.active[~self._leaving(outcome, own)] if worse.size else self.active
        self.active = np.concatenate([kept, worse[:wanted]])
        return bool(worse.size)

    def _leaving(self, outcome: Outcome, own: Array) -> Array:
        """Return which active samples have not mattered for some rounds; those that came back stay."""
        proof = outcome.certificate
        if proof is None:  # so it is not known which samples matter
            return np.zeros(own.size, bool)
        belief = proof.belief if proof.belief.size == own.size else np.zeros(own.size)
        matters = (np.maximum(belief, own) >= LITTLE * self.cap[self.active]) | (self.idle[self.active] < 0)
        self.idle[self.active] = np.where(matters, np.minimum(self.idle[self.active], 0), self.idle[self.active] + 1)
        leaving = self.idle[self.active] >= IDLE_ROUNDS
        self.idle[self.active[leaving]] = -1  # it stays if it is added again
        return np.asarray(leaving)

    def _outcome(self, status: Status) -> Outcome:
        assert self.policy is not None
        last_verdict(self.whole.about, self.policy, self.run, lambda: self.best_verdict)  # so that it is kept
        self.run.count("active samples", int(self.ever.sum()))
        self.run.count("by counts", int(np.isinf(self.run.limits.seconds)))
        what = self.solver.objective
        objective = Interval.proved(self.lower, self.upper, f"the least {what}")
        return Outcome(self.policy, objective, status, self.certificate, tuple(self.active.tolist()))
