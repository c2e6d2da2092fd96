"""What is said of fresh samples: against exact sums of binomials, by its proof in small cases, and by simulation."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

import rue
from benchmarks import coverage
from rue.guarantees import most_above

# Above this the binomial test says that a statement fails too often.
SIGNIFICANCE = coverage.SIGNIFICANCE
CONFIDENCES = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999999]) | st.floats(0.01, 0.999)


def at_most(samples: int, above: int, chance: Fraction) -> Fraction:
    """The probability that `above` or fewer of the samples are above a level that each exceeds with this chance."""
    return sum(
        (math.comb(samples, i) * chance**i * (1 - chance) ** (samples - i) for i in range(above + 1)), Fraction(0)
    )


# With a test set.


@given(st.integers(1, 60), st.data(), CONFIDENCES)
def test_the_limit_of_clopper_and_pearson_is_exact_and_safe(samples, data, confidence):
    above = data.draw(st.integers(0, samples))
    limit = rue.exceedance_bound(samples=samples, above=above, confidence=confidence)
    if above == samples:
        assert limit == 1.0
        return
    delta = 1 - Fraction(confidence)
    assert at_most(samples, above, Fraction(limit)) <= delta
    if limit < 1:
        assert at_most(samples, above, Fraction(limit) * (1 - Fraction(1, 10**9))) > delta  # no larger than needed
    assert limit == pytest.approx(float(beta.ppf(confidence, above + 1, samples - above)), rel=1e-8)


@pytest.mark.parametrize("samples", [1000, 100_000, 10_000_000])
@pytest.mark.parametrize("share", [0, 0.001, 0.3, 0.999])
def test_the_limit_for_many_samples(samples, share):
    above = int(share * samples)
    limit = rue.exceedance_bound(samples=samples, above=above, confidence=0.99)
    assert limit == pytest.approx(float(beta.ppf(0.99, above + 1, samples - above)), rel=1e-9)
    assert limit > share


@given(st.integers(1, 80), st.floats(0.001, 0.9), CONFIDENCES)
def test_how_many_may_be_above(samples, probability, confidence):
    above = most_above(samples=samples, probability=probability, confidence=confidence)
    limits = [rue.exceedance_bound(samples=samples, above=n, confidence=confidence) for n in range(samples + 1)]
    assert limits == sorted(limits)
    allowed = [n for n, limit in enumerate(limits) if limit <= probability]
    assert above == (max(allowed) if allowed else None)
    needed = rue.least_samples(probability=probability, confidence=confidence)
    assert (above is None) == (samples < needed) or abs(limits[0] - probability) < 1e-9


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(0, 5), CONFIDENCES)
def test_a_verdict_counts_its_samples(regrets, level, confidence):
    verdict = coverage.as_verdict(np.array(regrets, float))
    above = sum(regret > level for regret in regrets)
    size = len(regrets)
    assert verdict.exceedance(confidence, level) == rue.exceedance_bound(
        samples=size, above=above, confidence=confidence
    )
    assert verdict.exceedance(confidence) == rue.exceedance_bound(samples=size, above=0, confidence=confidence)
    assert verdict.exceedance(confidence) == pytest.approx(1 - (1 - confidence) ** (1 / size), rel=1e-9)
    found = verdict.level(0.2, confidence)
    if math.isinf(found):
        assert verdict.exceedance(confidence) > 0.2
    else:
        n = most_above(samples=size, probability=0.2, confidence=confidence)
        assert sum(regret > found for regret in regrets) <= n  # fewer, where several are equal
        assert sum(regret >= found for regret in regrets) > n


def test_known_figures():
    assert rue.least_samples(probability=0.05) == 59 and rue.least_samples(probability=0.01, confidence=0.99) == 459
    verdict = coverage.as_verdict(np.arange(1.0, 101.0))
    assert verdict.level(0.05) == 99.0  # of 100 samples one may be above
    assert verdict.level(0.02) == math.inf
    endless = coverage.as_verdict(np.append(np.arange(1.0, 100.0), np.inf))
    assert endless.level(0.05) == 99.0 and endless.exceedance(level=1e300) == pytest.approx(0.0466, abs=1e-4)


# Without a test set.


def psi(samples: int, active: int, delta: Fraction, epsilon: Fraction) -> Fraction:
    """The sum of which ε(k) makes 1."""
    return (delta / samples) * sum(
        Fraction(math.comb(m, active), math.comb(samples, active)) / (1 - epsilon) ** (samples - m)
        for m in range(active, samples)
    )


@given(st.integers(1, 40), st.data(), CONFIDENCES)
def test_scenario_bounds_equal_fractions(samples, data, confidence):
    active = data.draw(st.integers(0, samples - 1))
    delta = 1 - Fraction(confidence)
    small = 1 - Fraction(1, 10**6)
    bound = rue.scenario_bound(samples=samples, active=active, confidence=confidence)
    if bound < 1:
        assert psi(samples, active, delta, Fraction(bound)) >= 1
    assert psi(samples, active, delta, Fraction(bound) * small) < 1
    general = rue.scenario_bound(samples=samples, active=active, confidence=confidence, general=True)
    term = math.comb(samples, active) * (1 - Fraction(general)) ** (samples - active)
    assert term <= delta / samples
    assert math.comb(samples, active) * (1 - Fraction(general) * small) ** (samples - active) > delta / samples
    assert bound <= general * (1 + 1e-9)


def test_scenario_bounds_grow_with_the_active_set_and_shrink_with_samples():
    for general in (False, True):
        bounds = [rue.scenario_bound(samples=200, active=k, general=general) for k in range(201)]
        assert bounds == sorted(bounds) and bounds[-1] == 1.0 and bounds[0] < 0.1
        more = [rue.scenario_bound(samples=n, active=20, general=general) for n in (21, 50, 200, 1000, 100_000)]
        assert more == sorted(more, reverse=True)


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_tables_of_the_docs():
    lines = (Path(__file__).parent.parent / "docs" / "worlds.md").read_text(encoding="utf-8").splitlines()
    shares = [float(cell.rstrip(" %")) / 100 for cell in cells_of(next(x for x in lines if x.startswith("| ε")))[1:]]
    needed = cells_of(next(line for line in lines if line.startswith("| samples, none above")))[1:]
    assert needed == [f"{rue.least_samples(probability=share):,}" for share in shares]
    above = cells_of(next(line for line in lines if line.startswith("| of 1,000 samples")))[1:]
    known = [most_above(samples=1000, probability=share) for share in shares]
    assert above == ["–" if count is None else str(count) for count in known]
    first = next(number for number, line in enumerate(lines) if line.startswith("| k | N = 100"))
    sizes = [int(cell.removeprefix("N = ").replace(",", "")) for cell in cells_of(lines[first])[1:]]
    for line in lines[first + 2 : first + 6]:
        active, *said = cells_of(line)
        for size, text in zip(sizes, said, strict=True):
            if int(active) >= size:
                assert text == "–"
            else:  # rounded up to two digits
                bound = rue.scenario_bound(samples=size, active=int(active))
                assert bound <= float(text.rstrip(" %")) / 100 <= 1.1 * bound


def test_scenario_bounds_that_the_docs_show():
    assert rue.scenario_bound(samples=1000, active=37) == pytest.approx(0.0573, abs=1e-4)
    assert rue.scenario_bound(samples=1000, active=37, general=True) == pytest.approx(0.1579, abs=1e-4)


SMALL_REGRETS = st.integers(1, 4).flatmap(
    lambda policies: st.lists(st.lists(st.integers(0, 4), min_size=policies, max_size=policies), min_size=1, max_size=7)
)


def trace(regret: np.ndarray) -> tuple[coverage.Search, set[int]]:
    """A search, and the samples that were its answers: active ones, and the one that sets the level."""
    answers = set(range(min(2, len(regret))))
    while True:
        order = sorted(answers)
        found = coverage.solve_game(regret[order])
        judged = regret @ found.weight
        worst = int(judged.argmax())
        done = worst in answers or judged[worst] <= found.value * 1.01
        answers.add(worst)
        if done:
            return coverage.Search(found.weight, float(judged[worst]), len(order)), answers


@settings(max_examples=60)
@given(SMALL_REGRETS)
def test_a_search_that_asks_for_the_worst_has_the_preference_property(rows):
    """A sample that was no answer can be left out; one that is worse than the level becomes an answer."""
    regret = np.array(rows, float)
    found, answers = trace(regret)
    for sample in set(range(len(rows))) - answers:
        kept = [k for k in range(len(rows)) if k != sample]
        again, others = trace(regret[kept])
        assert {kept[k] for k in others} == answers
        assert again.level == found.level and (again.weight == found.weight).all()
    for fresh in itertools.product(range(6), repeat=regret.shape[1]):
        if np.array(fresh, float) @ found.weight > found.level:
            for place in range(len(rows) + 1):
                _, after = trace(np.insert(regret, place, fresh, axis=0))
                assert place in after
            break


def test_the_sum_of_the_proof_bounds_every_search():
    """The inequality that the proof rests on: above ε(k), C(N,k)(1−v)^{N−k} ≤ Σ_m (δ/N) C(m,k)(1−v)^{m−k}."""
    samples, delta = 12, Fraction(1, 10)
    for k in range(samples):
        bound = Fraction(rue.scenario_bound(samples=samples, active=k, confidence=0.9))
        for step in range(200):
            v = bound + (1 - bound) * Fraction(step, 200)
            left = math.comb(samples, k) * (1 - v) ** (samples - k)
            right = delta / samples * sum(math.comb(m, k) * (1 - v) ** (m - k) for m in range(k, samples))
            assert left <= right * (1 + Fraction(1, 10**9))


# Solutions.


def planned(samples: int = 100, **counters: int) -> rue.Solution:
    """A solution as a search on an active set would leave it."""
    model = rue.domains.Medical(seed=1).sample(2, seed=1)
    solution = rue.solve(model, rue.Average(), bound=False)
    return replace(solution, regret=tuple(k / samples for k in range(samples)), counters=counters)


DONE = {"active samples": 9, "by counts": 1}


def test_a_solution_of_few_active_samples_speaks_of_fresh_ones():
    found = planned(**DONE)
    # Nine were active, and the one that sets the level may be a tenth.
    assert found.exceedance() == rue.scenario_bound(samples=100, active=10)
    assert found.exceedance(0.8) == rue.scenario_bound(samples=100, active=10, confidence=0.8)


@pytest.mark.parametrize(
    "silent",
    [
        planned(),
        planned(**{"active samples": 9}),
        planned(**{"active samples": 9, "by counts": 0}),
        planned(**{"active samples": 99, "by counts": 1}),
        planned(**{"active samples": 100, "by counts": 1}),
        replace(planned(**DONE), status=rue.Status.TIME_LIMIT),
        replace(planned(**DONE), status=rue.Status.INTERRUPTED),
        replace(planned(**DONE), regret=(0.5, math.inf)),
        replace(planned(**DONE), weight=tuple(2 * (k + 1) / 10_100 for k in range(100))),
    ],
    ids=["no counters", "no counts", "by the clock", "all but one", "all", "limit", "ctrl-c", "infinite", "weights"],
)  # fmt: skip
def test_nothing_is_said_where_a_condition_fails(silent):
    assert silent.exceedance() is None


# Arguments.


@pytest.mark.parametrize("confidence", [0, 1, -1, 1.5, math.nan, "0.9", None, True])
def test_bad_confidences(confidence):
    verdict = coverage.as_verdict(np.ones(5))
    for call in (
        lambda: rue.exceedance_bound(samples=5, above=1, confidence=confidence),
        lambda: rue.scenario_bound(samples=5, active=1, confidence=confidence),
        lambda: rue.least_samples(probability=0.1, confidence=confidence),
        lambda: verdict.exceedance(confidence),
        lambda: verdict.level(0.1, confidence),
        lambda: planned(**DONE).exceedance(confidence),
    ):
        with pytest.raises(rue.BadInput, match=r"^confidence is .*; expected above 0 and below 1$"):
            call()


@pytest.mark.parametrize("probability", [0, 1, -0.1, math.nan, "0.1"])
def test_bad_probabilities(probability):
    for call in (
        lambda: rue.least_samples(probability=probability),
        lambda: coverage.as_verdict(np.ones(5)).level(probability),
    ):
        with pytest.raises(rue.BadInput, match=r"^probability is .*; expected 1e-15 or more, and below 1$"):
            call()


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: rue.exceedance_bound(samples=0, above=0), "samples is 0; expected 1 to 10000000"),
        (lambda: rue.exceedance_bound(samples=5, above=6), "above is 6; expected 0 to 5"),
        (lambda: rue.exceedance_bound(samples=5, above=1.5), "above is 1.5; expected a whole number from 0 to 5"),
        (lambda: rue.scenario_bound(samples=5, active=6), "active is 6; expected 0 to 5"),
        (lambda: rue.scenario_bound(samples=5, active=-1), "active is -1; expected 0 to 5"),
        (lambda: coverage.as_verdict(np.ones(5)).exceedance(level=-1), "level is -1; expected 0 or more"),
        (lambda: coverage.as_verdict(np.ones(5)).exceedance(level=math.nan), "level is nan; expected 0 or more"),
    ],
)
def test_bad_arguments(call, line):
    with pytest.raises(rue.BadInput, match=f"^{line}$"):
        call()


# By simulation.


@pytest.fixture(scope="module")
def small_world() -> coverage.World:
    return coverage.World.of(rue.domains.Medical(seed=3), pool=400, policies=8)


@pytest.mark.parametrize("name", coverage.STATEMENTS)
@pytest.mark.parametrize("confidence", [0.95, 0.7])
def test_statements_fail_no_more_often_than_they_may(small_world, name, confidence):
    found = coverage.cover(small_world, coverage.STATEMENTS[name], 60, confidence, repetitions=100)
    assert found.surprise >= SIGNIFICANCE, f"{found.failures} of {found.repetitions}"
    assert found.bound >= found.truth


def test_a_statement_that_is_not_true_is_found_out(small_world):
    """The simulation notices bounds that are four times too small."""

    def wrong(world, size, confidence, random):
        claim = coverage.above_maximum(world, size, confidence, random)
        return replace(claim, bound=claim.bound / 4)

    assert coverage.cover(small_world, wrong, 60, 0.95, repetitions=100).surprise < SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize("domain", [rue.domains.Medical(seed=3), rue.domains.Disaster(width=4, height=4, seed=1)])
def test_coverage_over_five_hundred_repetitions(domain):
    world = coverage.World.of(domain)
    for name, statement in coverage.STATEMENTS.items():
        for size in (30, 100, 300):
            for confidence in (0.95, 0.8):
                found = coverage.cover(world, statement, size, confidence)
                assert found.surprise >= SIGNIFICANCE, (name, size, confidence, found)
