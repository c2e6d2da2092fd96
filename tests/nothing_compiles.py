"""`python nothing_compiles.py "Regret(2)"`: get ready for a solver, solve with it, tell what was compiled meanwhile.

Run in a process of its own, as what is compiled for one solver is there for all.
"""

import sys
from collections.abc import Iterator

import rue
from rue._jit import KERNELS
from rue.compilation import ensure_compiled


def models() -> Iterator[rue.UMDP]:
    """Small models that need the rare paths, too."""
    yield rue.domains.Disaster(width=4, height=3, seed=1).sample(4, seed=1)
    yield rue.domains.Medical(seed=1).sample(3, seed=1)  # without cycles
    yield slow_cycle()
    yield dead_end()


def slow_cycle() -> rue.UMDP:
    """Two states that hand over to each other and seldom leave: sweeps give up on them."""
    builder = rue.Builder(samples=2)
    builder.add("a", "go", {"b": 1.0}, cost=[1.0, 2.0])
    builder.add("b", "go", {"a": 0.9999, "goal": 0.0001}, cost=[2.0, 1.0])
    return builder.goal("goal").build()


def dead_end() -> rue.UMDP:
    """Supports that differ, and a state that is dead in one sample."""
    builder = rue.Builder(samples=2)
    builder.add("a", "risk", {"b": [0.0, 0.5], "goal": [1.0, 0.5]}, cost=1.0)
    builder.add("a", "safe", {"goal": 1.0}, cost=3.0)
    builder.add("b", "climb", {"b": [0.5, 1.0], "goal": [0.5, 0.0]}, cost=1.0)
    return builder.goal("goal").build()


def signatures() -> dict[str, list[object]]:
    return {name: list(kernel.function.signatures) for name, kernel in KERNELS.items()}


def late(solver: rue.Solver) -> list[str]:
    """The kernels that were compiled, or compiled for other types, while models were solved."""
    problems = list(models())
    ensure_compiled(solver)
    before = signatures()
    for model in problems:
        solution = rue.solve(model, solver, limits=rue.Limits(seconds=5))
        rue.evaluate(model, solution.policy)
        rue.lower_bound(model)
        if solution.certificate is not None:
            rue.verify(model, solution.certificate)
    after = signatures()
    return [f"{name}: {after[name]}" for name in KERNELS if after[name] != before[name]]


if __name__ == "__main__":
    found = late(eval(sys.argv[1], vars(rue)))
    print("\n".join(found))
    sys.exit(1 if found else 0)
