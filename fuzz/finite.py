"""`python -m fuzz.finite --cases 2000`: models with finitely many beliefs, against a linear program over them.

`Adaptive` must say solved, with both ends at the value of the program, or infeasible, and never "unproved".
"""

import argparse
import math
import sys
import time
from collections import Counter
from typing import NamedTuple

import rue
from fuzz.belief_program import least_of_all, reachable
from fuzz.checks import by_checker
from fuzz.finite_models import draw_finite

# Both ends must be this close to the value of the program, as a part of it or of a cost of one.
CLOSE = 1e-6
# With no more beliefs the independent checker has a look at the proof, too.
FEW = 400
# A search takes seconds; this one ends all the same.
LONG = 60.0


class Found(NamedTuple):
    """What came of a model."""

    family: str
    said: str  # a status, or why it was not solved: refused, or too many beliefs
    wrong: str  # empty if nothing is
    beliefs: int = 0
    deviation: float = 0.0
    seconds: float = 0.0


def examine(seed: int, objective: str = "regret", gap: float = 1e-7) -> Found:
    """Solve the model of a seed, and compare."""
    spec = draw_finite(seed)
    try:
        model = spec.build()
    except rue.BadInput:
        return Found(spec.family, "refused", "")
    beliefs = reachable(model, list(range(model.samples)), 10_000)
    if beliefs is None:
        return Found(spec.family, "too many beliefs", "")
    least = least_of_all(model, objective)
    assert least is not None
    began = time.perf_counter()
    solver = rue.Adaptive(gap, objective=objective)
    solution = rue.solve(model, solver, limits=rue.Limits(seconds=LONG), bound=False)
    seconds = time.perf_counter() - began
    ends = solution.objective
    if math.isinf(least):
        right, deviation = solution.status is rue.Status.INFEASIBLE, 0.0
    else:
        deviation = max(abs(end - least) for end in (ends.lower, ends.upper)) / max(least, 1.0)
        right = solution.status is rue.Status.SOLVED and deviation <= CLOSE
    wrong = "" if right else f"{solution.status} [{ends.lower!r}, {ends.upper!r}]; the program says {least!r}"
    if solution.certificate is not None and not wrong and len(beliefs.goal) <= FEW:
        proved = by_checker(model, solution.certificate)
        if not proved >= ends.lower * (1 - CLOSE):
            wrong = f"the checker accepts {proved!r}, not {ends.lower!r}"
    return Found(spec.family, str(solution.status), wrong, len(beliefs.goal), deviation, seconds)


def main() -> int:
    """Run; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.finite", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="how many models to solve")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--objective", choices=("regret", "cost"), default="regret")
    given = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    solved: list[Found] = []
    wrong, seed = 0, given.first
    while len(solved) < given.cases:
        found = examine(seed, given.objective)
        counts[found.family, found.said] += 1
        if found.beliefs:
            solved.append(found)
        if found.wrong:
            wrong += 1
            print(f"seed {seed}, {found.family}, {found.beliefs} beliefs: {found.wrong}", flush=True)
        seed += 1
    for (family, said), count in sorted(counts.items()):
        print(f"{family:12} {said:18} {count:6}")
    most = max(found.beliefs for found in solved)
    off, slowest = max(found.deviation for found in solved), max(found.seconds for found in solved)
    print(f"{len(solved)} models, at most {most} beliefs, {wrong} wrong; off by {off:.1e}; the slowest {slowest:.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
