"""Search for a policy whose weighted sum of values over the samples is small: sweeps of all its parts.

State s may take the choices `choice_ptr[s]:choice_ptr[s+1]`; `policy[s]` is the one it takes.
"""

from typing import NamedTuple

import numpy as np

from rue._arrays import Array
from rue._jit import declare, inlined, kernel


class SweptModel(NamedTuple):
    """A model, and the order in which its states are swept: nearest to a goal first."""

    order: Array
    choice_ptr: Array  # [S+1]
    trans_ptr: Array  # [C+1]
    successor: Array  # [T]
    prob: Array  # [T, K]
    cost: Array  # [C, K]


declare(SweptModel, "i1 L1 L1 I1 F2 F2")


@inlined  # a quarter faster than a helper
def _back_up(model, s, c, value, total, leave):
    """Write C̄_k(c) + Σ_{s'≠s} T_k(c, s') V_k(s') to `total` and 1 − T_k(c, s) to `leave`, for all samples."""
    trans_ptr, prob = model.trans_ptr, model.prob
    samples = prob.shape[1]
    for k in range(samples):
        total[k] = model.cost[c, k]
        leave[k] = 0.0
    for t in range(np.uint64(trans_ptr[c]), np.uint64(trans_ptr[c + 1])):
        to = np.uint32(model.successor[t])
        if to != s:
            for k in range(samples):
                if prob[t, k] > 0.0:
                    leave[k] += prob[t, k]
                    total[k] += prob[t, k] * value[to, k]


@kernel("SweptModel f2 f2 l1 f1 float")
def improve(model, weight, value, policy, gain, tolerance):
    """Improve a policy by one greedy Gauss–Seidel sweep.

    With Q_k(c) = (C̄_k(c) + Σ_{s'≠s} T_k(c, s') V_k(s')) / (1 − T_k(c, s)), which is the cost of trying c until it
    leaves s, each state takes the choice with the least Σ_k weight_k(s) Q_k(c), and V_k(s) becomes Q_k of that choice.
    A choice is replaced only by one that is better by the tolerance; `gain[s]` is by how much.
    """
    samples = model.prob.shape[1]
    total, leave, best_total = np.empty(samples), np.empty(samples), np.empty(samples)
    for i in range(model.order.size):
        s = model.order[i]
        now = np.inf
        best = np.inf
        arg = -1
        # The present choice comes first, so that it stays unless another one is better.
        for j in range(-1, model.choice_ptr[s + 1] - model.choice_ptr[s]):
            c = policy[s] if j < 0 else model.choice_ptr[s] + j
            if j >= 0 and c == policy[s]:
                continue
            _back_up(model, s, c, value, total, leave)
            score = 0.0
            for k in range(samples):
                total[k] = total[k] / leave[k] if leave[k] > 0.0 else np.inf
                if weight[s, k] > 0.0:
                    score += weight[s, k] * total[k]
            if j < 0:
                now = score
            least = best - tolerance * abs(best) if best < np.inf else np.inf
            if j < 0 or score < least:
                best = score
                arg = c
                for k in range(samples):
                    best_total[k] = total[k]
        gain[s] = 0.0
        if arg != policy[s]:
            gain[s] = now - best
            policy[s] = arg
        for k in range(samples):
            value[s, k] = best_total[k]


@kernel("SweptModel l1 b2 f2 int float")
def evaluate_policy(model, policy, proper, value, sweeps, tolerance):
    """Evaluate a policy where it is proper, by Gauss–Seidel sweeps; return the last sweep's largest relative change."""
    samples = model.prob.shape[1]
    total, leave = np.empty(samples), np.empty(samples)
    largest = np.inf
    for _ in range(sweeps):
        largest = 0.0
        for i in range(model.order.size):
            s = model.order[i]
            c = policy[s]
            _back_up(model, s, c, value, total, leave)
            for k in range(samples):
                if proper[s, k]:
                    now = total[k] / leave[k]
                    if now != value[s, k]:
                        largest = max(largest, abs(now - value[s, k]) / max(now, value[s, k]))
                    value[s, k] = now
        if largest <= tolerance:
            break
    return largest


@kernel("SweptModel l1 f2 f2 int float")
def count_entries(model, policy, pending, entered, sweeps, tolerance):
    """Count how often each state is entered from another one, by sweeps; return the largest flow of the last one.

    Return the largest flow of the last sweep.
    `pending[S, K]` is the flow that has come to a state and not yet left it: at first, one at the initial state.
    """
    trans_ptr, prob = model.trans_ptr, model.prob
    samples = prob.shape[1]
    leave = np.empty(samples)
    left = np.inf
    for _ in range(sweeps):
        left = 0.0
        for i in range(model.order.size - 1, -1, -1):
            s = model.order[i]
            most = 0.0
            for k in range(samples):
                most = max(most, pending[s, k])
            if most == 0.0:
                continue
            left = max(left, most)
            c = policy[s]
            leave[:] = 0.0
            for t in range(np.uint64(trans_ptr[c]), np.uint64(trans_ptr[c + 1])):
                if model.successor[t] != s:
                    for k in range(samples):
                        leave[k] += prob[t, k]
            for t in range(np.uint64(trans_ptr[c]), np.uint64(trans_ptr[c + 1])):
                to = np.uint32(model.successor[t])
                if to != s:
                    for k in range(samples):
                        if prob[t, k] > 0.0:
                            pending[to, k] += pending[s, k] * prob[t, k] / leave[k]
            for k in range(samples):
                entered[s, k] += pending[s, k]
                pending[s, k] = 0.0
        if left <= tolerance:
            break
    return left
