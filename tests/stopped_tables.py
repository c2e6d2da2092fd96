"""Stop the search over tables at its checks, one after the other: no tree may be read that was not found.

Run without compilation by test_interpreted, where memory that is not there is an error.
"""

import numpy as np

import rue
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.option_tree_kernels import Round, add_end_values
from rue.recursion.inner.tables import LAST_BUDGET, DeterministicTables

FAR = 1e6
STATES, SAMPLES, STEPS, ROOTS = 20, 2, 3, 2


class Late:
    """A flag that is set after it was read some times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __getitem__(self, _: int) -> bool:
        self.left -= 1
        return self.left < 0


def options() -> DeterministicTables:
    """Options whose states have one to three choices, with two or three outcomes each."""
    rng = np.random.default_rng(1)
    transition = np.zeros((SAMPLES, STATES, 3, STATES))
    for s in range(STATES - 1):
        for a in range(1 + s % 3):
            targets = rng.choice(STATES, 2 + a % 2, replace=False)
            transition[:, s, a, targets] = rng.dirichlet(np.ones(targets.size), SAMPLES)
    model = rue.UMDP.from_dense(transition, np.zeros(transition.shape[:3]), initial=1, goals=[STATES - 1])
    choices = model.graph.choices
    tree = OptionTree.build(
        model, rng.random((choices, SAMPLES)), np.ones(choices, bool), STEPS, None, np.ones(STATES, bool)
    )
    return DeterministicTables(tree)


def stopped(times: int) -> tuple[np.ndarray, bool]:
    """Return the bounds that are found until the flag was read some times, and whether it was set then."""
    found = options()
    found.budget = LAST_BUDGET
    tree, stop = found.tree, Late(times)
    value, level = np.linspace(1.0, 0.0, STATES), np.full(found.tree.size, FAR)
    last_cost = np.empty_like(tree.model.gap)
    add_end_values(tree.model, value, last_cost)
    given = Round(last_cost, value, value, np.zeros(STATES), level, 0.0, True, np.inf, stop)
    found.improve(np.arange(ROOTS), given)
    return found.found.floor[:ROOTS], stop.left < 0


if __name__ == "__main__":
    least, _ = stopped(10**9)
    times, is_stopped = 0, True
    while is_stopped:
        floor, is_stopped = stopped(times)
        assert (floor <= least + 1e-12).all(), times
        times += 3
    print(times, np.isfinite(floor).all())
