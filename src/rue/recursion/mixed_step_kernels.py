"""The one-step recursion over distributions: one matrix game for each state."""

from collections import namedtuple

import numpy as np

from rue._jit import declare
from rue.recursion.inner.matrix_kernels import solve_game
from rue.recursion.inner.option_tree_kernels import _copy, kernel
from rue.recursion.one_step_kernels import StepModel  # noqa: F401 (declared there)

MixedStepMemory = namedtuple("MixedStepMemory", "columns mix game")
MixedStepMemory.__doc__ = (
    """The cost of each choice of a state in each sample, their new mixture, and a game's memory."""
)
declare(MixedStepMemory, "f2 f1 GameMemory")


@kernel("StepModel float f1 float f2 MixedStepMemory")
def improve_mixed(model, kappa, value, tolerance, belief, memory):
    """Make a greedy sweep over distributions: one matrix game for each state, with the adversary's answer `belief[i]`.

    Returns how many mixtures changed, the largest change of a value, and the number of pivots.
    """
    order, kept_ptr, kept, mix, trans_ptr, successor, prob, gap = model
    columns, new_mix = memory.columns, memory.mix
    samples = prob.shape[1]
    changed = 0
    pivots = 0
    delta = 0.0
    for i in range(order.size):
        first = kept_ptr[i]
        count = kept_ptr[i + 1] - first
        for j in range(count):
            c = kept[first + j]
            for k in range(samples):
                columns[j, k] = gap[c, k] + kappa
            for t in range(np.uint64(trans_ptr[c]), np.uint64(trans_ptr[c + 1])):
                v = value[np.uint32(successor[t])]
                for k in range(samples):
                    columns[j, k] += prob[t, k] * v
        current = 0.0
        for k in range(samples):
            paid = 0.0
            for j in range(count):
                paid += mix[first + j] * columns[j, k]
            current = max(current, paid)
        _copy(belief[i], memory.game.belief)
        best, used = solve_game(columns, count, new_mix, memory.game)
        _copy(memory.game.belief, belief[i])
        pivots += max(used, 0)
        if used >= 0 and best < current - tolerance:
            _copy(new_mix[:count], mix[first : first + count])
            changed += 1
        else:
            best = current
        delta = max(delta, abs(best - value[order[i]]))
        value[order[i]] = best
    return changed, delta, pivots
