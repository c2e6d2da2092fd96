"""Column generation whose turns run out right after a column was added; run without compilation by test_interpreted.

Memory that was not written holds a large number here. A mixture that read some of it would not sum to one.
"""

import numpy as np

import rue
from rue.recursion.inner import histories, history_kernels, option_set
from rue.recursion.objectives import Regret


class TwoTurns(int):
    """A number of turns that is two, whatever it is multiplied with."""

    def __mul__(self, other: int) -> int:
        return 2


class Filled:
    """numpy, but for memory that is full of sevens."""

    def __getattr__(self, name: str):
        return getattr(np, name)

    def empty(self, shape, dtype=float):
        return np.full(shape, 7, dtype)


history_kernels.TURNS = TwoTurns(1)
histories.np = option_set.np = Filled()
model = rue.domains.Disaster(width=4, height=4, seed=1).sample(4, seed=1)
solution = rue.solve(model, Regret(3, "history"), bound=False, limits=rue.Limits(iterations=6))
policy = solution.policy
first = policy.entry_ptr[:-1][np.diff(policy.entry_ptr) > 0]
print(float(np.abs(np.add.reduceat(policy.weight, first) - 1).max()), np.isfinite(solution.max_regret.upper))
