"""Every solver on small random models, as JSON; with NUMBA_DISABLE_JIT=1 the kernels are interpreted.

There is no limit of time, so that a slow process comes to the same results as a quick one.
"""

import json
import sys
from pathlib import Path
from typing import Any

import rue

sys.path.insert(0, str(Path(__file__).parent.parent))

from fuzz.models import Spec, draw

SOLVERS: tuple[rue.Solver, ...] = (
    rue.Regret(),
    rue.Regret(prune=False),
    rue.Regret(1, "stochastic"),
    rue.Regret(2),
    rue.Regret(2, "history"),
    rue.Regret(2, "stochastic"),
    rue.Regret(2, "history", engine="highs"),
    rue.MyopicRegret(),
    rue.MyopicRegret(2, "history"),
    rue.WorstCase(),
    rue.WorstCase(1, "stochastic"),
    rue.WorstCase(2),
    rue.ExactStationary(),
    rue.Average(),
    rue.BestSample(),
    rue.Mixture(),
    rue.Adaptive(0.01),
    rue.Adaptive(0.01, objective="cost"),
)
MODELS = 20
# Without compilation, a search of more rounds would take minutes.
LIMITS = rue.Limits(iterations=15)


def small_models() -> list[Spec]:
    """A grid, and the first models of the fuzzer that are small and can be built."""
    found = [Spec.of(rue.domains.Disaster(width=3, height=2, seed=1).sample(3, seed=1))]
    seed = 0
    while len(found) < MODELS:
        spec = draw(seed)
        seed += 1
        if spec.states <= 5 and 2 <= spec.samples <= 4 and len(spec.choices) <= 7 and spec.family != "discounted":
            try:
                spec.build()
            except rue.BadInput:
                continue
            found.append(spec)
    return found


def results() -> list[dict[str, Any]]:
    """What each solver says of each model."""
    return [_solve(number, spec, solver) for number, spec in enumerate(small_models()) for solver in SOLVERS]


def _solve(number: int, spec: Spec, solver: rue.Solver) -> dict[str, Any]:
    model = spec.build()
    solution = rue.solve(model, solver, limits=LIMITS, bound=False)
    walks = rue.simulate(model, solution.policy, sample=0, episodes=3, seed=1, max_steps=20)
    return {
        "model": number,
        "solver": str(solver),
        "status": solution.status.value,
        "objective": [solution.objective.lower, solution.objective.upper],
        "max_regret": [solution.max_regret.lower, solution.max_regret.upper],
        "regret": list(solution.regret),
        "cost of walks": walks.cost.tolist(),
    }


if __name__ == "__main__":
    print(json.dumps(results()))
