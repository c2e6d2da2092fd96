"""Point-based backups at a few beliefs of every state, in place.

A *slot* is a place for a vector: each state has one for each of J beliefs, and one for each of some given policies. The
vector of a belief is a choice and, for each outcome, a slot of the next state. A new one takes the place of the old.
"""

from typing import NamedTuple

import numpy as np

from rue._arrays import Array
from rue._jit import declare
from rue.adaptive.belief_kernels import FORBIDDEN, HUGE, NONE, _dot
from rue.adaptive.hull_kernels import helper, kernel

# A vector takes the place of another one if its value is lower than that of all slots by this fraction.
GAIN = 1e-3


class Slots(NamedTuple):
    """The vectors of all states, in a block of `number` slots for each state; those of beliefs come first."""

    alpha: Array
    choice: Array
    follow: Array  # the slot of each outcome; NONE at goals
    belief: Array
    number: int


declare(Slots, "f2 i1 i2 f2 int")


@kernel("GapModel Slots i1")
def sweep(model, slots, order):
    """Back up the beliefs of states in an order; return how many vectors are new."""
    scratch = np.empty(slots.belief.shape[1])
    outcome = np.empty(slots.follow.shape[1], np.int32)
    changed = 0
    for i in range(order.size):
        s = np.int64(order[i])
        for j in range(slots.belief.shape[0]):
            weight = slots.belief[j]
            _, known = _best_slot(slots, s, weight)
            best = known * (1.0 - GAIN)
            arg = np.int64(NONE)
            at = s * slots.number + j
            for c in range(model.choice_ptr[s], model.choice_ptr[s + 1]):
                total = _dot(weight, model.gap[c])
                for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
                    if total >= best:
                        break
                    to = np.int64(model.successor[t])
                    outcome[t - model.trans_ptr[c]] = NONE
                    if model.choice_ptr[to] < model.choice_ptr[to + 1]:
                        for k in range(weight.size):
                            scratch[k] = weight[k] * model.prob[t, k]
                        outcome[t - model.trans_ptr[c]], value = _best_slot(slots, to, scratch)
                        total += value
                if total < best:
                    best = total
                    arg = np.int64(c)
                    for t in range(model.trans_ptr[c + 1] - model.trans_ptr[c]):
                        slots.follow[at, t] = outcome[t]
            if arg != NONE:
                changed += 1
                slots.choice[at] = arg
                _evaluate(model, slots, at, scratch)
    return changed


@helper
def _best_slot(slots, s, weight):
    """Return the best slot of a state for a weight, and its value."""
    best = np.inf
    arg = np.int64(NONE)
    for at in range(s * slots.number, (s + 1) * slots.number):
        total = 0.0
        for k in range(weight.size):
            total += weight[k] * slots.alpha[np.uint64(at), k]
        if total < best:
            best = total
            arg = at
    return arg, best


@helper
def _evaluate(model, slots, at, alpha):
    """Compute the vector of a slot from its choice and the present vectors of the slots that follow."""
    c = slots.choice[at]
    for k in range(alpha.size):
        alpha[k] = model.gap[c, k] if model.gap[c, k] < FORBIDDEN else HUGE
    for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
        following = slots.follow[at, t - model.trans_ptr[c]]
        if following != NONE:
            for k in range(alpha.size):
                if slots.alpha[following, k] < HUGE:
                    alpha[k] += model.prob[t, k] * slots.alpha[following, k]
                elif model.prob[t, k] > 0.0:
                    alpha[k] = HUGE
    for k in range(alpha.size):
        slots.alpha[at, k] = min(alpha[k], HUGE)
