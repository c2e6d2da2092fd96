"""`python -m fuzz.sums --cases 5000`: the hull, with sums of points, against exact values.

The hull takes over at once, whatever the model. The interval must hold the value of a linear program over all beliefs,
or, where these are many, overlap with that of the graph; the proof must pass both checks, and where no way leads back
its bound and the regret of the policy are compared with a full-depth program in fractions.
"""

import argparse
import itertools
import json
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from unittest import mock

import numpy as np

import rue
from fuzz import exact
from fuzz.belief_program import least_of_all
from fuzz.checks import _has_circle, fresh
from fuzz.models import Spec
from fuzz.sums_models import draw_sums
from rue import checker
from rue.adaptive import finite, hull_search, search, verified
from tests.naive import Naive, belief_value, tree_size

# An interval may miss the value of a program in floating point by this fraction of it, or of the largest cost.
CLOSE = 1e-7
# Beliefs of a program; followers times samples of a proof that is checked in fractions; choices of a tree in fractions;
# and nodes of a policy in fractions.
BELIEFS, SMALL_PROOF, TREE, NODES = 3000, 2000, 300, 40
# The program is asked only where costs are of usual sizes, and where no probability is smaller: its solver drops
# coefficients below 1e-9.
RARE = 1e-7
# What is less than this is nothing.
TINY = 1e-200
GAPS = (1e-3, 1e-4, 1e-5, 1e-6)
# Limits of a search by the hull and by the graph, and seconds after which one hangs.
ITERATIONS, SECONDS, HANGS = 200, 0.5, 30.0


@dataclass(frozen=True)
class Found:
    """What came of a model."""

    family: str
    said: str
    wrong: str = ""  # empty if nothing is
    against: str = ""  # what it was compared with
    off: float = 0.0  # how far the value is outside of the interval
    sums: int = 0  # of the proof
    points: int = 0  # of the hull
    exactly: bool = False  # whether fractions were asked


@contextmanager
def hull_at_once(few: bool = False) -> Iterator[list[str]]:
    """Let the hull take over after one backup, wherever it may; list why proofs were refused before they were given.

    With `few`, it begins with one sample.
    """
    in_graph, proved_by = search.AdaptiveSearch._close_gap, verified.proved_by
    refused: list[str] = []

    def listing(model: rue.UMDP, proof: rue.Certificate, cap: np.ndarray | None) -> float:
        try:
            return proved_by(model, proof, cap)
        except rue.NotProved as error:
            refused.append(str(error))
            raise

    def close_gap(self: search.AdaptiveSearch, gap: float) -> rue.Status | None:
        self.update_game()
        if not self._has_hull:
            return in_graph(self, gap)
        self.graph.move(self.mixed(self.game.dual))
        self.graph.backup()
        self._update_lower()
        return self.status("one belief", gap)

    with (
        mock.patch.object(search.AdaptiveSearch, "_close_gap", close_gap),
        mock.patch.object(finite, "MOST_NODES", 0),
        mock.patch.object(verified, "proved_by", listing),
        mock.patch.multiple(hull_search, MANY_SAMPLES=1, FIRST_ACTIVE=1, FIRST_NUMBERS=1e4) if few else nullcontext(),
    ):
        yield refused


def examine(spec: Spec, objective: str = "regret", gap: float = 1e-4, few: bool = False) -> Found:
    """Solve a model by the hull, with all samples or `few` at first, and compare."""
    try:
        model = spec.build()
    except rue.BadInput:
        return Found(spec.family, "refused")
    solver = rue.Adaptive(gap, objective=objective)
    limits, began = rue.Limits(iterations=ITERATIONS, seconds=SECONDS), time.perf_counter()
    try:
        with hull_at_once(few) as refused, warnings.catch_warnings():
            warnings.filterwarnings("error", "invalid value", RuntimeWarning)
            solution = rue.solve(fresh(model), solver, limits=limits, bound=False)
    except Exception as error:
        return Found(spec.family, "raised", f"{type(error).__name__}: {error}")
    seconds = time.perf_counter() - began
    against, low, high = _truth(model, solver)
    found = Found(spec.family, str(solution.status), "", against, *_size(solution))
    if seconds > HANGS:
        return replace(found, wrong=f"it took {seconds:.0f} s")
    if refused and spec.family != "awkward":  # where costs are many orders of magnitude apart
        return replace(found, wrong=f"refused: {refused[0]}")
    return _compared(model, solution, found, low, high)


def _size(solution: rue.Solution) -> tuple[float, int, int]:
    sums = solution.certificate.sums if solution.certificate is not None else 0
    return 0.0, sums, solution.counters.get("points", 0)


def _truth(model: rue.UMDP, solver: rue.Adaptive) -> tuple[str, float, float]:
    """What the least regret or cost is: by the program, or by the graph; and how that was found."""
    least = None
    if 1e-3 < _scale(model) < 1e7 and model.prob[model.prob > 0].min() > RARE:
        try:
            least = least_of_all(model, solver.objective, BELIEFS)
        except RuntimeError:  # the program's tolerances are too narrow for it
            least = None
    if least is not None:
        return "program", least, least
    with mock.patch.object(search, "GRAPH_BELIEFS", math.inf):
        other = rue.solve(fresh(model), solver, limits=rue.Limits(iterations=100, seconds=SECONDS), bound=False)
    return "graph", other.objective.lower, other.objective.upper


def _scale(model: rue.UMDP) -> float:
    """The largest cost of a step or of the best way."""
    best = rue.optimal_values(model).value[model.graph.initial]
    return max(float(best[np.isfinite(best)].max(initial=0.0)), float(model.cost.max(initial=0.0)))


def _compared(model: rue.UMDP, solution: rue.Solution, found: Found, low: float, high: float) -> Found:
    """Say what is wrong with a solution, if the truth is between two numbers."""
    ends, scale = solution.objective, _scale(model)
    said = f"{solution.status} [{ends.lower!r}, {ends.upper!r}]; the {found.against} says [{low!r}, {high!r}]"
    if not 0 <= ends.lower <= ends.upper:
        return replace(found, wrong=f"no interval: {said}")
    if math.isinf(low) or solution.status is rue.Status.INFEASIBLE:
        right = (low == math.inf and ends.upper == math.inf) or (found.against == "graph" and high == math.inf)
        return found if right else replace(found, wrong=f"infinite: {said}")
    if math.isinf(ends.upper) and solution.status is not rue.Status.TIME_LIMIT:
        return replace(found, wrong=f"infinite: {said}")
    off = max(ends.lower - high, low - ends.upper, 0.0) / max(
        high if math.isfinite(high) else low, 1e-3 * scale, 1e-300
    )
    found = replace(found, off=off)
    if off > CLOSE:
        return replace(found, wrong=f"misses: {said}")
    solver = solution.solver
    assert isinstance(solver, rue.Adaptive)
    if solution.status is rue.Status.SOLVED and ends.width > solver.gap * (1 + 1e-6) * ends.upper + 1e-8 * scale + TINY:
        return replace(found, wrong=f"not as close as asked for: {said}")
    if solution.certificate is None:
        late = solution.status is rue.Status.TIME_LIMIT and ends.lower == 0
        return found if late or not ends.upper > 0 else replace(found, wrong=f"no proof: {said}")
    wrong = _refused(model, solution.certificate, ends.lower)
    if wrong:
        return replace(found, wrong=wrong)
    exactly = _exactly(model, solution)
    return replace(found, exactly=exactly is not None, wrong=exactly or "")


def _refused(model: rue.UMDP, proof: rue.Certificate, lower: float) -> str:
    """Say which check refuses a proof, or finds less than the lower end."""
    try:
        by_verify = rue.verify(fresh(model), proof)
    except rue.RueError as error:
        return f"verify: {error}"
    if not by_verify >= lower:
        return f"verify finds {by_verify!r}, not {lower!r}"
    parts = json.loads(proof.to_json(model))
    numbers = checker._model(parts["model"])
    own = checker._proof(parts["certificate"], numbers)
    for in_fractions in (False, True) if proof.follow.size * model.samples <= SMALL_PROOF else (False,):
        try:
            proved = checker.check(numbers, own, in_fractions)
        except (checker.BadFile, checker.Refused) as error:
            return f"checker, in fractions {in_fractions}: {error}"
        if not proved >= lower * (1 - 1e-12):
            return f"checker, in fractions {in_fractions}: {float(proved)!r}, not {lower!r}"
    return ""


def _exactly(model: rue.UMDP, solution: rue.Solution) -> str | None:
    """Compare both ends with fractions, without any tolerance: empty if they are right, None if it would take long."""
    proof, naive = solution.certificate, Naive(model)
    assert proof is not None
    if _has_circle(Spec.of(model)) or tree_size(naive, naive.states, TREE) > TREE or not exact.rows_sum_to_one(naive):
        return None
    optimal = [exact.optimal(naive, k) for k in range(model.samples)]
    gap: list[list[Fraction | float]] = [[math.inf] * model.samples for _ in naive.outcomes]
    for s, k in itertools.product(range(naive.states), range(model.samples)):
        for c in naive.choices[s]:
            gap[c][k] = naive.cost[c][k] + sum(p * optimal[k][t] for t, p in naive.row(c, k).items()) - optimal[k][s]
    belief = [Fraction(float(b)) for b in proof.belief]
    start = [
        Fraction(optimal[k][naive.initial]) if proof.objective == "cost" else Fraction(0) for k in range(model.samples)
    ]
    least = belief_value(naive, belief, naive.states, gap) + sum(b * v for b, v in zip(belief, start, strict=True))
    if not solution.objective.lower * sum(belief) <= least:
        return f"at least {solution.objective.lower!r}; at its belief fractions say {float(least)!r}"
    if solution.policy.nodes <= NODES:
        room = 1 + Fraction(1, 10**13)  # weights of a policy sum to one only nearly
        for k in range(model.samples):
            value = exact.controller_value(naive, solution.policy, k)[0]
            reached = value - optimal[k][naive.initial] + start[k]
            if not reached <= Fraction(solution.objective.upper) * room + (room - 1) * value:
                return f"at most {solution.objective.upper!r}; in sample {k} the policy has {float(reached)!r}"
    return ""


def drawn(seed: int) -> tuple[Spec, str, float]:
    """The model of a seed, the objective and the gap."""
    random = np.random.default_rng([seed, 51])
    return draw_sums(seed), "cost" if random.random() < 0.3 else "regret", float(random.choice(GAPS))


def main() -> int:
    """Run; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.sums", description=__doc__)
    parser.add_argument("--cases", type=int, default=5000, help="how many models to solve")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--few", action="store_true", help="let the hull begin with one sample")
    given = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    solved: list[Found] = []
    seed, wrong = given.seed, 0
    examine(*drawn(0))  # compiles
    while len(solved) < given.cases:
        found = examine(*drawn(seed), few=given.few)
        counts[found.family, "wrong" if found.wrong else found.said] += 1
        if found.said != "refused":
            solved.append(found)
        if found.wrong or found.said == "unproved":
            wrong += bool(found.wrong)
            print(f"seed {seed}, {found.family}: {found.wrong or found}", flush=True)
        seed += 1
    for (family, said), count in sorted(counts.items()):
        print(f"{family:12} {said:18} {count:6}")
    by_program, summed = sum(f.against == "program" for f in solved), sum(f.sums > 0 for f in solved)
    print(f"{len(solved)} models, {by_program} against a program, {sum(f.exactly for f in solved)} in fractions too")
    print(f"{sum(f.points > 0 for f in solved)} with a hull, {summed} with sums in the proof")
    print(f"{wrong} wrong; off by {max(found.off for found in solved):.1e} at most; seeds {given.seed} to {seed - 1}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
