"""The search for a policy whose weighted sum of values over the samples is small: sweeps of all its parts.

State s may take the choices `choice_ptr[s]:choice_ptr[s+1]`; `policy[s]` is the one it takes.
"""

import numpy as np

from rue._jit import kernel


@kernel("i1 L1 L1 I1 F2 F2 f2 f2 l1 f1 float")
def improve(order, choice_ptr, trans_ptr, successor, prob, cost, weight, value, policy, gain, tolerance):
    """One greedy Gauss–Seidel sweep over the states of `order`, nearest to a goal first; how many choices changed.

    With Q_k(c) = (C̄_k(c) + Σ_{s'≠s} T_k(c, s') V_k(s')) / (1 − T_k(c, s)), which is what trying c until it leaves s
    costs, each state takes the choice with the least Σ_k weight_k(s) Q_k(c), and V_k(s) becomes Q_k of what it takes. A
    choice is left only for one that is better by the tolerance; `gain[s]` is by how much.
    """
    samples = prob.shape[1]
    total = np.empty(samples)
    leave = np.empty(samples)
    best_total = np.empty(samples)
    changed = 0
    for i in range(order.size):
        s = order[i]
        now = np.inf
        best = np.inf
        arg = -1
        # The present choice comes first, so that it stays unless another is better.
        for j in range(-1, choice_ptr[s + 1] - choice_ptr[s]):
            c = policy[s] if j < 0 else choice_ptr[s] + j
            if j >= 0 and c == policy[s]:
                continue
            for k in range(samples):
                total[k] = cost[c, k]
                leave[k] = 0.0
            for t in range(np.uint64(trans_ptr[c]), np.uint64(trans_ptr[c + 1])):
                to = np.uint32(successor[t])
                if to != s:
                    for k in range(samples):
                        if prob[t, k] > 0.0:
                            leave[k] += prob[t, k]
                            total[k] += prob[t, k] * value[to, k]
            score = 0.0
            for k in range(samples):
                total[k] = total[k] / leave[k] if leave[k] > 0.0 else np.inf
                if weight[s, k] > 0.0:
                    score += weight[s, k] * total[k]
            if j < 0:
                now = score
                best = score
                arg = c
                for k in range(samples):
                    best_total[k] = total[k]
            elif score < best - tolerance * abs(best) or (score < np.inf and best == np.inf):
                best = score
                arg = c
                for k in range(samples):
                    best_total[k] = total[k]
        gain[s] = 0.0
        if arg != policy[s]:
            gain[s] = now - best
            policy[s] = arg
            changed += 1
        for k in range(samples):
            value[s, k] = best_total[k]
    return changed


@kernel("i1 l1 L1 I1 F2 F2 b2 f2 int float")
def settle(order, policy, trans_ptr, successor, prob, cost, proper, value, sweeps, tolerance):
    """Gauss–Seidel sweeps of the policy's values, where it is proper; the largest relative change of the last sweep."""
    samples = prob.shape[1]
    total = np.empty(samples)
    leave = np.empty(samples)
    slowest = np.inf
    for _ in range(sweeps):
        slowest = 0.0
        for i in range(order.size):
            s = order[i]
            c = policy[s]
            for k in range(samples):
                total[k] = cost[c, k]
                leave[k] = 0.0
            for t in range(np.uint64(trans_ptr[c]), np.uint64(trans_ptr[c + 1])):
                to = np.uint32(successor[t])
                if to != s:
                    for k in range(samples):
                        if prob[t, k] > 0.0:
                            leave[k] += prob[t, k]
                            total[k] += prob[t, k] * value[to, k]
            for k in range(samples):
                if proper[s, k]:
                    now = total[k] / leave[k]
                    if now != value[s, k]:
                        slowest = max(slowest, abs(now - value[s, k]) / max(now, value[s, k]))
                    value[s, k] = now
        if slowest <= tolerance:
            break
    return slowest


@kernel("i1 l1 L1 I1 F2 f2 f2 int float")
def entries(order, policy, trans_ptr, successor, prob, pending, entered, sweeps, tolerance):
    """How often each state is entered from another one, by sweeps towards the goals.

    `pending[S, K]` is the flow that has come to a state and not yet left it: at first, one at the initial state.
    """
    samples = prob.shape[1]
    leave = np.empty(samples)
    for _ in range(sweeps):
        left = 0.0
        for i in range(order.size - 1, -1, -1):
            s = order[i]
            most = 0.0
            for k in range(samples):
                most = max(most, pending[s, k])
            if most == 0.0:
                continue
            left = max(left, most)
            c = policy[s]
            leave[:] = 0.0
            for t in range(np.uint64(trans_ptr[c]), np.uint64(trans_ptr[c + 1])):
                if successor[t] != s:
                    for k in range(samples):
                        leave[k] += prob[t, k]
            for t in range(np.uint64(trans_ptr[c]), np.uint64(trans_ptr[c + 1])):
                to = np.uint32(successor[t])
                if to != s:
                    for k in range(samples):
                        if prob[t, k] > 0.0:
                            pending[to, k] += pending[s, k] * prob[t, k] / leave[k]
            for k in range(samples):
                entered[s, k] += pending[s, k]
                pending[s, k] = 0.0
        if left <= tolerance:
            break
