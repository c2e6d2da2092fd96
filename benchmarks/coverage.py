"""How often statements about fresh samples fail, and how tight they are.

The world is a finite one: a fresh sample is one of `POOL` samples of a domain, all equally likely, so that the true
probability that a policy's regret exceeds a level is a count. Samples are drawn from it independently, with
replacement. The policies are mixtures of a few pure ones, whose regrets in all samples of the pool are computed once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

import rue
from benchmarks.report import Table
from rue.matrix_game import solve_game

Floats = NDArray[np.float64]

POOL, POLICIES = 4000, 24
REPETITIONS = 500
# A statement fails too often if its number of failures, or more, had less than this probability.
SIGNIFICANCE = 1e-3
FIRST, GAP = 5, 0.01  # of the search on an active set


@dataclass(frozen=True, eq=False)
class World:
    """The regret of each policy in each sample of the pool."""

    regret: Floats  # [sample, policy]

    @classmethod
    def of(cls, domain: rue.domains.Domain, pool: int = POOL, policies: int = POLICIES) -> "World":
        model = domain.sample(pool, seed=1)
        cache = rue.Cache()
        own = [rue.solve(model.subset([k]), rue.Average(), bound=False).policy for k in range(policies)]
        return cls(np.column_stack([rue.evaluate(model, policy, cache=cache).regret for policy in own]))

    def draw(self, size: int, random: np.random.Generator) -> NDArray[np.int64]:
        return random.integers(self.regret.shape[0], size=size)

    def chance_above(self, weight: Floats, level: float) -> float:
        """The probability that a fresh sample has more regret than the level under a mixture of the policies."""
        return float((self.regret @ weight > level).mean())


@dataclass(frozen=True)
class Search:
    """What a search on an active set found."""

    weight: Floats  # of the policies
    level: float  # the largest regret over all samples
    active: int  # samples that were ever active


def search(regret: Floats, first: int = FIRST, gap: float = GAP) -> Search:  # regret[sample, policy]
    """Find a mixture with little max regret: solve on the first samples, add the worst, and go on until they agree."""
    active = list(range(min(first, len(regret))))
    while True:
        found = solve_game(regret[active])
        judged = regret @ found.weight
        worst = int(judged.argmax())  # the first of equals
        if worst in active or judged[worst] <= found.value * (1 + gap):
            return Search(found.weight, float(judged[worst]), len(active))
        active.append(worst)


def as_verdict(regret: Floats) -> rue.Evaluation:
    """What the judge would return for samples with these regrets."""
    nothing, equal = np.zeros(regret.size), np.full(regret.size, 1 / regret.size)
    judged = np.ones(regret.size, bool)
    return rue.Evaluation(regret, nothing, regret, 0.0, float(regret.max()), True, equal, judged, nothing)


@dataclass(frozen=True)
class Claim:
    """A bound on a probability, and the probability."""

    bound: float
    truth: float


Statement = Callable[[World, int, float, np.random.Generator], Claim]


def above_fixed_level(quantile: float) -> Statement:
    """Return the statement about P(regret > r), where r was fixed before the test samples were drawn."""

    def state(world: World, size: int, confidence: float, random: np.random.Generator) -> Claim:
        pure = np.eye(world.regret.shape[1])[0]
        level = float(np.quantile(world.regret @ pure, quantile, method="inverted_cdf"))
        verdict = as_verdict((world.regret @ pure)[world.draw(size, random)])
        return Claim(verdict.exceedance(confidence, level), world.chance_above(pure, level))

    return state


def above_maximum(world: World, size: int, confidence: float, random: np.random.Generator) -> Claim:
    pure = np.eye(world.regret.shape[1])[0]
    verdict = as_verdict((world.regret @ pure)[world.draw(size, random)])
    return Claim(verdict.exceedance(confidence), world.chance_above(pure, verdict.max_regret))


def above_least_level(probability: float) -> Statement:
    """Return the statement about the least r that a fresh sample exceeds with at most this probability."""

    def state(world: World, size: int, confidence: float, random: np.random.Generator) -> Claim:
        pure = np.eye(world.regret.shape[1])[0]
        verdict = as_verdict((world.regret @ pure)[world.draw(size, random)])
        return Claim(probability, world.chance_above(pure, verdict.level(probability, confidence)))

    return state


def above_planned(general: bool) -> Statement:
    """Return the statement of the scenario theorem about a policy that was planned with the samples."""

    def state(world: World, size: int, confidence: float, random: np.random.Generator) -> Claim:
        found = search(world.regret[world.draw(size, random)])
        # One more for the sample that sets the level.
        used = min(found.active + 1, size)
        bound = rue.scenario_bound(samples=size, active=used, confidence=confidence, general=general)
        return Claim(bound, world.chance_above(found.weight, found.level))

    return state


STATEMENTS: dict[str, Statement] = {
    "test set: above the median": above_fixed_level(0.5),
    "test set: above the 95 % quantile": above_fixed_level(0.95),
    "test set: above its maximum": above_maximum,
    "test set: least r for 5 %": above_least_level(0.05),
    "no test set: scenario bound": above_planned(False),
    "no test set: for any compression": above_planned(True),
}


@dataclass(frozen=True)
class Coverage:
    """How often a statement failed, and the means of what it said and of the truth."""

    failures: int
    repetitions: int
    allowed: float
    bound: float
    truth: float

    @property
    def surprise(self) -> float:
        """The probability of this number of failures or more, if each had the probability that is allowed."""
        return float(binom.sf(self.failures - 1, self.repetitions, self.allowed))


def cover(
    world: World, statement: Statement, size: int, confidence: float, *, repetitions: int = REPETITIONS, seed: int = 0
) -> Coverage:
    """Repeat a statement on fresh draws."""
    random = np.random.default_rng([seed, size])
    claims = [statement(world, size, confidence, random) for _ in range(repetitions)]
    return Coverage(
        failures=sum(claim.truth > claim.bound for claim in claims),
        repetitions=repetitions,
        allowed=1 - confidence,
        bound=float(np.mean([claim.bound for claim in claims])),
        truth=float(np.mean([claim.truth for claim in claims])),
    )


def rows(
    world: World, sizes: Sequence[int], confidences: Sequence[float], repetitions: int
) -> Iterator[tuple[str, ...]]:
    for name, statement in STATEMENTS.items():
        for size in sizes:
            for confidence in confidences:
                found = cover(world, statement, size, confidence, repetitions=repetitions)
                failed = " FAILED" if found.surprise < SIGNIFICANCE else ""
                yield (
                    name, str(size), f"{100 * found.allowed:.0f} %",
                    f"{100 * found.failures / repetitions:.1f} %{failed}",
                    f"{100 * found.bound:.1f} %", f"{100 * found.truth:.1f} %",
                )  # fmt: skip


def run(quick: bool) -> Iterator[Table]:
    """Yield the table of all statements."""
    world = World.of(rue.domains.Medical(seed=3), 500 if quick else POOL)
    sizes, repetitions = ((50,), 50) if quick else ((100, 1000), REPETITIONS)
    found = list(rows(world, sizes, (0.95, 0.8), repetitions))
    wrong = [row[0] for row in found if "FAILED" in row[3]]
    notes = [f"FAILED: {name} fails more often than δ allows" for name in wrong]
    columns = ("statement", "samples", "δ", "failed", "says at most", "truth")
    yield Table("What is said of fresh samples", columns, found, notes)
