"""Something small for every kernel to do. `python tests/every_kernel.py` compiles them all before the tests start.

Two processes share the work when one begins at the other end (`--backwards`): what one has compiled, the other loads.
Without this, each worker of the tests would compile everything for itself, and time limits would run meanwhile.
"""

import sys
from collections.abc import Callable
from functools import partial

import rue
from rue.evaluate import ends_from


def uses() -> list[Callable[[], None]]:
    """Each uses some kernels; together they use all. What takes longest to compile stands at the two ends."""
    return [
        partial(solve, rue.Regret(2)),
        partial(solve, rue.Regret(3, "history")),
        partial(solve, rue.Regret(2, "stochastic")),
        partial(solve, rue.Regret()),
        partial(solve, rue.Regret(options="stochastic")),
        partial(solve, rue.MyopicRegret()),
        partial(solve, rue.WorstCase()),
        partial(solve, rue.Average()),
        partial(solve, rue.BestSample()),
        judge_dead_ends,
        solve_medical,
        partial(solve, rue.Adaptive(0.001)),
        partial(solve, rue.Adaptive(0.001, objective="cost")),
        partial(solve, rue.Mixture()),
        partial(solve, rue.ExactStationary()),
        search_beliefs,
    ]


def grid() -> rue.UMDP:
    return rue.domains.Disaster(width=4, height=4, seed=1).sample(4, seed=1)


def medical() -> rue.UMDP:
    return rue.domains.Medical(seed=1).sample(3, seed=1)


def slow_cycle() -> rue.UMDP:
    """Two states that hand over to each other and seldom leave: sweeps give up on them."""
    builder = rue.Builder(samples=2)
    builder.add("a", "go", {"b": 1.0}, cost=[1.0, 2.0])
    builder.add("b", "go", {"a": 0.9999, "goal": 0.0001}, cost=[2.0, 1.0])
    return builder.goal("goal").build()


def solve(solver: rue.solution.Solver) -> None:
    model = grid()
    solution = rue.solve(model, solver, bound=False)
    rue.simulate(model, solution.policy, sample=0, episodes=2, seed=1)
    rue.solve(slow_cycle(), solver, bound=False)


def search_beliefs() -> None:
    # A limit of its own, or the search would end while it is being compiled.
    for model in (grid(), medical()):
        rue.lower_bound(model, limits=rue.Limits())


def solve_medical() -> None:
    """A model without cycles, and the programs that are solved outside kernels."""
    rue.solve(medical(), rue.Regret(), bound=False)
    rue.solve(medical(), rue.Regret(2, "history", engine="highs"), bound=False)


def judge_dead_ends() -> None:
    """Supports that differ, a state that is dead in one sample, and a policy that goes there."""
    builder = rue.Builder(samples=2)
    builder.add("a", "risk", {"b": [0.0, 0.5], "goal": [1.0, 0.5]}, cost=1.0)
    builder.add("a", "safe", {"goal": 1.0}, cost=3.0)
    builder.add("b", "climb", {"b": [0.5, 1.0], "goal": [0.5, 0.0]}, cost=1.0)
    model = builder.goal("goal").build()
    for action in (0, 1):
        policy = rue.Policy.stationary(model, [action, 2, 0])
        rue.evaluate(model, policy)
        ends_from(model, policy)


if __name__ == "__main__":
    for use in uses()[:: -1 if "--backwards" in sys.argv[1:] else 1]:
        use()
