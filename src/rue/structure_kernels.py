"""Reachability on the graph: exact, by breadth-first search, linear in the number of transitions.

`live` marks the transitions that count (positive in a sample, in all, or in any), `allowed` the choices
that a policy may take, `alive` the states that it may visit.
"""

import numpy as np

from rue._jit import kernel


@kernel("L1 F2")
def scan_prob(trans_ptr, prob):
    """One pass over all probabilities.

    Returns a bitmask per transition (1: positive in every sample, 2: positive in some), the largest
    deviation of a row sum from one, and the first bad entry as (transition, sample), (-1, -1) if none.
    """
    transitions, samples = prob.shape
    support = np.zeros(transitions, np.uint8)
    total = np.empty(samples)
    worst = 0.0
    bad_transition = -1
    bad_sample = -1
    for choice in range(trans_ptr.size - 1):
        total[:] = 0.0
        for t in range(trans_ptr[choice], trans_ptr[choice + 1]):
            low = np.inf
            high = -np.inf
            for k in range(samples):
                p = prob[t, k]
                total[k] += p
                low = min(low, p)
                high = max(high, p)
                if not (p >= 0.0 and p <= 2.0) and bad_transition < 0:
                    bad_transition = t
                    bad_sample = k
            if low > 0.0:
                support[t] = 3
            elif high > 0.0:
                support[t] = 2
        for k in range(samples):
            worst = max(worst, abs(total[k] - 1.0))
    return support, worst, bad_transition, bad_sample


@kernel("I1 int")
def predecessors(successor, states):
    """The transitions that enter each state: `ptr[S+1]`, `transition[T]`."""
    ptr = np.zeros(states + 1, np.int64)
    for t in range(successor.size):
        ptr[successor[t] + 1] += 1
    for s in range(states):
        ptr[s + 1] += ptr[s]
    fill = ptr[:-1].copy()
    transition = np.empty(successor.size, np.int32)
    for t in range(successor.size):
        s = successor[t]
        transition[fill[s]] = t
        fill[s] += 1
    return ptr, transition


@kernel("L1 I1 I1 I1 B1 b1 b1 b1")
def backward(pred_ptr, pred_trans, trans_choice, choice_state, goal, alive, allowed, live):
    """Alive states from which a goal can be reached, in breadth-first order, goals first."""
    states = goal.size
    seen = np.zeros(states, np.bool_)
    order = np.empty(states, np.int32)
    count = 0
    for s in range(states):
        if goal[s]:
            seen[s] = True
            order[count] = s
            count += 1
    head = 0
    while head < count:
        target = order[head]
        head += 1
        for i in range(pred_ptr[target], pred_ptr[target + 1]):
            t = np.uint32(pred_trans[i])
            choice = np.uint32(trans_choice[t])
            state = np.uint32(choice_state[choice])
            if not seen[state] and live[t] and allowed[choice] and alive[state]:
                seen[state] = True
                order[count] = state
                count += 1
    return seen, order[:count].copy()


@kernel("L1 L1 I1 int b1 b1")
def forward(choice_ptr, trans_ptr, successor, initial, allowed, live):
    """States that can be reached from `initial`, in breadth-first order."""
    states = choice_ptr.size - 1
    seen = np.zeros(states, np.bool_)
    order = np.empty(states, np.int32)
    seen[initial] = True
    order[0] = initial
    count = 1
    head = 0
    while head < count:
        state = order[head]
        head += 1
        for choice in range(choice_ptr[state], choice_ptr[state + 1]):
            if not allowed[choice]:
                continue
            for t in range(trans_ptr[choice], trans_ptr[choice + 1]):
                target = successor[t]
                if live[t] and not seen[target]:
                    seen[target] = True
                    order[count] = target
                    count += 1
    return seen, order[:count].copy()


@kernel("L1 L1 I1 I1 I1 B1 b1 b1 b1 b1")
def retreat(choice_ptr, pred_ptr, pred_trans, trans_choice, choice_state, goal, alive, allowed, live, keep):
    """Give up the alive states that are not in `keep`, and what follows from that, in place.

    A choice with a live transition into a given-up state is forbidden; a state without choices is given up.
    """
    states = goal.size
    left = np.zeros(states, np.int64)
    for s in range(states):
        for choice in range(choice_ptr[s], choice_ptr[s + 1]):
            if allowed[choice]:
                left[s] += 1
    queue = np.empty(states, np.int32)
    count = 0
    for s in range(states):
        if alive[s] and not keep[s]:
            alive[s] = False
            queue[count] = s
            count += 1
    head = 0
    while head < count:
        target = queue[head]
        head += 1
        for choice in range(choice_ptr[target], choice_ptr[target + 1]):
            allowed[choice] = False
        for i in range(pred_ptr[target], pred_ptr[target + 1]):
            t = pred_trans[i]
            choice = trans_choice[t]
            if not live[t] or not allowed[choice]:
                continue
            allowed[choice] = False
            state = choice_state[choice]
            left[state] -= 1
            if left[state] == 0 and alive[state] and not goal[state]:
                alive[state] = False
                queue[count] = state
                count += 1
    return count


@kernel("L1 I1 I1 I1 B1 b1 b1 b1 F2 bool")
def attract(pred_ptr, pred_trans, trans_choice, choice_state, goal, alive, allowed, always, prob, randomised):
    """Alive states that make progress to a goal whatever sample an adversary picks at each step, goals first.

    One choice must make progress in every sample; a randomised policy may use another one for each. Progress is
    made towards states that come before in the order. `always` marks the transitions that are positive in all samples.
    """
    samples = prob.shape[1]
    states = goal.size
    slots = states if randomised else allowed.size
    marked = np.zeros((slots, samples), np.bool_)
    count_marked = np.zeros(slots, np.int64)
    seen = np.zeros(states, np.bool_)
    queue = np.empty(states, np.int32)
    count = 0
    for s in range(states):
        if goal[s]:
            seen[s] = True
            queue[count] = s
            count += 1
    head = 0
    while head < count:
        target = queue[head]
        head += 1
        for i in range(pred_ptr[target], pred_ptr[target + 1]):
            t = pred_trans[i]
            choice = trans_choice[t]
            state = choice_state[choice]
            if not allowed[choice] or not alive[state] or seen[state]:
                continue
            slot = state if randomised else choice
            if always[t]:
                count_marked[slot] = samples
            else:
                for k in range(samples):
                    if prob[t, k] > 0.0 and not marked[slot, k]:
                        marked[slot, k] = True
                        count_marked[slot] += 1
            if count_marked[slot] == samples:
                seen[state] = True
                queue[count] = state
                count += 1
    return seen, queue[:count].copy()


@kernel("L1 I1 I1 I1 B1 b1 F2 F2")
def nearest(pred_ptr, pred_trans, trans_choice, choice_state, goal, live, prob, cost):
    """All states by their estimated cost to a goal in the averaged model: Dijkstra's algorithm.

    A choice is tried until it lands, by a live transition, on a state that is settled; what that costs is the estimate.
    A little is added for each step, so that free steps count as well.
    """
    states = goal.size
    samples = prob.shape[1]
    mass = np.zeros(cost.shape[0])
    paid = np.empty(cost.shape[0])
    total = 0.0
    for c in range(cost.shape[0]):
        paid[c] = 0.0
        for k in range(samples):
            paid[c] += cost[c, k]
        paid[c] /= samples
        total += paid[c]
    for c in range(cost.shape[0]):
        paid[c] += 1e-3 * (total / cost.shape[0]) + 1e-100
    best = np.empty(states)
    best[:] = np.inf
    done = np.zeros(states, np.bool_)
    order = np.empty(states, np.int32)
    count = 0
    key = np.empty(4 * states + 16)
    owner = np.empty(4 * states + 16, np.int32)
    size = 0
    for s in range(states):
        if goal[s]:
            best[s] = 0.0
            key[size] = 0.0
            owner[size] = s
            size += 1
    while size > 0:
        settled = key[0]
        s = owner[0]
        size -= 1
        last, last_owner = key[size], owner[size]
        i = 0
        while 2 * i + 1 < size:
            j = 2 * i + 1
            if j + 1 < size and key[j + 1] < key[j]:
                j += 1
            if key[j] >= last:
                break
            key[i], owner[i] = key[j], owner[j]
            i = j
        key[i], owner[i] = last, last_owner
        if done[s]:
            continue
        done[s] = True
        order[count] = s
        count += 1
        for a in range(pred_ptr[s], pred_ptr[s + 1]):
            t = np.uint32(pred_trans[a])
            c = np.uint32(trans_choice[t])
            u = np.uint32(choice_state[c])
            if done[u] or not live[t]:
                continue
            p = 0.0
            for k in range(samples):
                p += prob[t, k]
            p /= samples
            mass[c] += p
            paid[c] += p * settled
            q = paid[c] / mass[c]
            if q < best[u]:
                best[u] = q
                if size == key.size:
                    wider_key, wider_owner = np.empty(2 * size), np.empty(2 * size, np.int32)
                    for i in range(size):
                        wider_key[i], wider_owner[i] = key[i], owner[i]
                    key, owner = wider_key, wider_owner
                i = size
                size += 1
                while i > 0 and key[(i - 1) // 2] > q:
                    key[i], owner[i] = key[(i - 1) // 2], owner[(i - 1) // 2]
                    i = (i - 1) // 2
                key[i], owner[i] = q, u
    return order[:count].copy()
