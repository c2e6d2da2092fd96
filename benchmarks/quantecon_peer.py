"""QuantEcon's DiscreteDP: state-action pairs with a sparse matrix, costs as negative rewards, values from zero.

*Discount.* Undiscounted problems (beta = 1) are refused. With beta = 1 − 1e-12 the values of the largest grid here
are off by less than 1e-7, and the goal loops at no cost.

*Value iteration* stops when a sweep changes no value by 1e-6, by way of `epsilon`; that gives values to 1e-6 here.

*Modified policy iteration* adds midrange(Tv − v)·beta/(1 − beta) to the values when its span rule holds. So near to
beta = 1 that makes them useless unless nothing changes at all, so it is stopped by `max_iter` instead, after the
fewest rounds that bring all values within 1e-6. We find that number beforehand, untimed and with the answer in
hand, which QuantEcon's users cannot: this favours QuantEcon. Of k = 1 to 400, 10 was best (400 × 400) or within
noise of the best (200 × 200).

*Policy iteration* is left out: it starts from a policy that never reaches the goal, whose value near beta = 1 is
1e12, and it ends only when a policy repeats, which ties prevent. After 20 rounds (1.1 s on 200 × 200) its values
were still off by 5e11.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from quantecon.markov import DiscreteDP

from benchmarks.absorbing import Absorbing

BETA = 1 - 1e-12
SWEEPS = 10
MOST_ROUNDS = 2000

Values = NDArray[np.float64]


def warm_up(small: Absorbing) -> None:
    """Compile what it compiles."""
    program = _program(small)
    for method in ("value_iteration", "modified_policy_iteration"):
        program.solve(method, v_init=np.zeros(small.states), max_iter=3)


def value_iteration(problem: Absorbing, accuracy: float) -> Callable[[], Values]:
    """The values of all states by value iteration."""
    program = _program(problem)
    epsilon = accuracy * 2 * BETA / (1 - BETA)

    def solve() -> Values:
        start = np.zeros(problem.states)
        return -np.asarray(program.solve("value_iteration", v_init=start, epsilon=epsilon, max_iter=10**6).v)

    return solve


def modified_policy_iteration(problem: Absorbing, accuracy: float, truth: Values) -> Callable[[], Values]:
    """The values of all states by modified policy iteration, with the fewest rounds that will do."""
    program = _program(problem)

    def solve(start: Values, rounds: int) -> Values:
        method = "modified_policy_iteration"
        return np.asarray(program.solve(method, v_init=start, epsilon=0.0, max_iter=rounds, k=SWEEPS).v)

    value, rounds = np.zeros(problem.states), 0
    while np.abs(value + truth).max() > accuracy and rounds < MOST_ROUNDS:
        value, rounds = solve(value, 1), rounds + 1
    return lambda: -solve(np.zeros(problem.states), rounds)


def _program(problem: Absorbing) -> DiscreteDP:
    owner = np.repeat(np.arange(problem.states), np.diff(problem.first_row))
    return DiscreteDP(-problem.cost, problem.matrix, BETA, owner, problem.action)
