"""Branch and bound over stationary deterministic policies: bounds from below, branching, and the search itself.

States are renumbered by place, nearest to a goal first; all goals share the last place. Choices are local: those of
place i are `row_ptr[i]:row_ptr[i+1]`, and choice c leads to `target[out_ptr[c]:out_ptr[c+1]]`. Self-loops are taken
out. The sample axis comes first, as samples are worked on one by one. A gap that is infinite is HUGE instead, so that
zero times it is zero.
"""

import numpy as np

from rue._jit import helper, kernel

HUGE = 1e300
# From here on a value counts as infinite.
ENDLESS = 1e150

# What `search` returns.
PAUSED, FOUND, LEAF, FULL, DONE = 0, 1, 2, 3, 4
# Where in a node `search` paused, and its counters: places in the array `state`.
PHASE, SAMPLE, BRANCH, CHOICE, OPEN, UNUSED = 0, 1, 2, 3, 4, 5
NODES, COUNT, FILLED, DEEP, PLUNGE, NEXT = 6, 7, 8, 9, 10, 11
STATE_SIZE = 12
# Places in the array `number`: nodes bounded from here on are cut off, the bound of the node under way, and what a
# policy must beat.
CUT, BOUND, BEST = 0, 1, 2
NUMBER_SIZE = 3
POP, SOLVE, SPLIT, CHILD = 0, 1, 2, 3

# A policy is evaluated in so many times the sweeps that a node gets.
POLICY_SWEEPS = 16
VISIT_SWEEPS = 12
# How sharp the soft maximum over samples is, as a share of the cut, and how fast a subtree shrinks as its bound rises.
SHARP = 0.02
STEEP = 2.5
# Sweeps end when they change values by less than this share of what a bound lacks to the cut.
LOOSE = 1e-3
# Steps of the search for a belief.
BELIEF_ROUNDS = 20
# A state that is the first undecided one with less than this probability in each sample is branched on only if that
# takes so many times fewer nodes.
FIRST = 1e-3
FAR = 30.0
# Each so-manieth node off the heap begins a plunge: its best child comes next, and so on until there is none.
PLUNGE_EVERY = 32


@kernel("i1 i1 L1 L1 I1 b1 b1")
def localise(order, place, choice_ptr, trans_ptr, successor, ever_live, kept):
    """Rows by place of the kept choices, without self-loops and without transitions that no sample can take."""
    places = order.size
    row_ptr = np.zeros(places + 1, np.int32)
    choice = np.empty(kept.size, np.int32)
    out_ptr = np.zeros(kept.size + 1, np.int32)
    transition = np.empty(successor.size, np.int64)
    target = np.empty(successor.size, np.int32)
    choices = 0
    total = 0
    for i in range(places):
        for c in range(choice_ptr[order[i]], choice_ptr[order[i] + 1]):
            if not kept[c]:
                continue
            for t in range(trans_ptr[c], trans_ptr[c + 1]):
                if ever_live[t] and successor[t] != order[i]:
                    transition[total] = t
                    target[total] = place[successor[t]]
                    total += 1
            choice[choices] = c
            choices += 1
            out_ptr[choices] = total
        row_ptr[i + 1] = choices
    return row_ptr, choice[:choices], out_ptr[: choices + 1], transition[:total], target[:total]


@kernel("i1 i1 i1 i1 l1 L1 I1 F2 F2 f2 f2 f2")
def load(order, row_ptr, choice, out_ptr, transition, trans_ptr, successor, model_prob, model_cost, potential, prob,
         gap):  # fmt: skip
    """Fill in probabilities and gaps c + Tφ − φ ≥ 0, rounded down, of the potentials φ = `potential[S, K]`.

    An infinite potential marks a dead end. Returns for each sample whether its gaps are zero or more, up to rounding.
    """
    samples = prob.shape[0]
    sound = np.empty(samples, np.bool_)
    sound[:] = True
    for k in range(samples):
        for i in range(order.size):
            own = potential[order[i], k]
            for c in range(row_ptr[i], row_ptr[i + 1]):
                leave = 0.0
                q = model_cost[choice[c], k]
                for t in range(trans_ptr[choice[c]], trans_ptr[choice[c] + 1]):
                    p = model_prob[t, k]
                    if p > 0.0:
                        q += p * potential[successor[t], k]
                for t in range(out_ptr[c], out_ptr[c + 1]):
                    leave += model_prob[transition[t], k]
                unit = 2.0**-53 * (2 * (trans_ptr[choice[c] + 1] - trans_ptr[choice[c]]) + 8)
                if leave <= 0.0 or not q < np.inf or not own < np.inf:
                    gap[k, c] = HUGE
                else:
                    error = unit * (q + own)
                    if q - own + error < 0.0:
                        sound[k] = False
                    gap[k, c] = max(q - own - error, 0.0) / leave
                for t in range(out_ptr[c], out_ptr[c + 1]):
                    prob[k, t] = model_prob[transition[t], k] / leave if leave > 0.0 else 0.0
    return sound


@helper
def _relax(live, count, low, high, act, out_ptr, target, prob, gap, value, start, shrink, sweeps, tolerance, ceiling):
    """Raise one sample's values of the restricted problem from below by Gauss–Seidel sweeps; returns how many.

    Each backup is rounded down, so a value never exceeds the least expected sum of gaps of a policy that takes only the
    choices `act[low[i]:high[i]]`, wherever the sweeps stop.
    """
    for sweep in range(sweeps):
        delta = 0.0
        for a in range(count):
            i = live[a]
            best = HUGE
            for j in range(np.uint64(low[i]), np.uint64(high[i])):
                c = np.uint32(act[j])
                q = gap[c]
                for t in range(np.uint64(out_ptr[c]), np.uint64(out_ptr[c + np.uint32(1)])):
                    q += prob[t] * value[np.uint32(target[t])]
                best = min(best, q)
            best *= shrink
            if best > value[i]:
                delta = max(delta, best - value[i])
                value[i] = best
        if delta <= tolerance or value[start] >= ceiling:
            return sweep + 1
    return sweeps


@helper
def _visit(live, count, greedy, out_ptr, target, prob, start, visits, left):
    """Expected visits of each place under one sample's greedy choices, nearly: mass moves on until little is left."""
    for a in range(count):
        visits[live[a]] = 0.0
        left[live[a]] = 0.0
    left[start] = 1.0
    for _ in range(VISIT_SWEEPS):
        moved = 0.0
        for a in range(count - 1, -1, -1):
            i = live[a]
            mass = left[i]
            if mass > 0.0:
                left[i] = 0.0
                visits[i] += mass
                moved += mass
                c = greedy[i]
                for t in range(out_ptr[c], out_ptr[c + 1]):
                    left[target[t]] += mass * prob[t]
        if moved <= 1e-3:
            break


@helper
def _mean(regret):
    total = 0.0
    for k in range(regret.size):
        total += regret[k]
    return total / regret.size


@kernel("i1 int i1 I1 I1 F2 F2 F1 l1 int float int float float f2 f1")
def measure(live, count, policy, out_ptr, target, prob, gap, offset, order, start, shrink, sweeps, tolerance, ceiling,
            value, regret):  # fmt: skip
    """The largest regret of a policy over all samples, from below by sweeps; it ends early at `ceiling`.

    `value[K, n+1]` must lie below; `order[K]` says which sample comes first.
    """
    worst = 0.0
    for o in range(order.size):
        k = order[o]
        own = value[k]
        for _ in range(POLICY_SWEEPS * sweeps):
            delta = 0.0
            for a in range(count):
                i = live[a]
                c = np.uint32(policy[i])
                q = gap[k, c]
                for t in range(np.uint64(out_ptr[c]), np.uint64(out_ptr[c + np.uint32(1)])):
                    q += prob[k, t] * own[np.uint32(target[t])]
                q = min(q * shrink, HUGE)
                if q > own[i]:
                    delta = max(delta, q - own[i])
                    own[i] = q
            if delta <= tolerance or own[start] + offset[k] >= ceiling:
                break
        regret[k] = own[start] + offset[k]
        worst = max(worst, regret[k])
        if worst >= ceiling:
            break
    return worst


@kernel("b1 I1 I1 I1 int b1 i1 i1")
def reachable(allow, row_ptr, out_ptr, target, start, seen, stack, live):
    """Places that can be reached by allowed choices, in order."""
    places = row_ptr.size - 1
    seen[:] = False
    seen[start] = True
    seen[places] = True
    stack[0] = start
    size = 1
    while size > 0:
        size -= 1
        i = stack[size]
        for c in range(row_ptr[i], row_ptr[i + 1]):
            if allow[c]:
                for t in range(out_ptr[c], out_ptr[c + 1]):
                    j = target[t]
                    if not seen[j]:
                        seen[j] = True
                        stack[size] = j
                        size += 1
    count = 0
    for i in range(places):
        if seen[i]:
            live[count] = i
            count += 1
    return count


@helper
def _before(bound, depth, a, b):
    """Whether node a is to be taken before node b: the lower bound first, then the deeper one."""
    return bound[a] < bound[b] or (bound[a] == bound[b] and depth[a] > depth[b])


@helper
def _push(heap, size, bound, depth, node):
    """Put a node on the heap of `size` nodes."""
    i = size
    while i > 0 and _before(bound, depth, node, heap[(i - 1) >> 1]):
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[i] = node


@helper
def _pop(heap, size, bound, depth):
    """Take the first node off the heap of `size` nodes."""
    first = heap[0]
    last = heap[size - 1]
    i = 0
    while True:
        j = 2 * i + 1
        if j >= size - 1:
            break
        if j + 1 < size - 1 and _before(bound, depth, heap[j + 1], heap[j]):
            j += 1
        if _before(bound, depth, last, heap[j]):
            break
        heap[i] = heap[j]
        i = j
    heap[i] = last
    return first


@helper
def _unpack(bits, allow):
    """A node's set of choices, from bits to flags."""
    for c in range(allow.size):
        allow[c] = (bits[c >> 6] >> np.uint64(c & 63)) & np.uint64(1)


@kernel("b1 u1")
def pack(allow, bits):
    """A node's set of choices, from flags to bits."""
    bits[:] = 0
    for c in range(allow.size):
        if allow[c]:
            bits[c >> 6] |= np.uint64(1) << np.uint64(c & 63)


@helper
def _coarse(tolerance, cut, bound):
    """The tolerance with which a node is solved: no finer than of use."""
    return max(tolerance, LOOSE * (cut - bound)) if cut < ENDLESS else tolerance


@helper
def _backup(out_ptr, target, prob, gap, value, c):
    """One choice's expected sum of gaps."""
    q = gap[c]
    for t in range(np.uint64(out_ptr[c]), np.uint64(out_ptr[c + 1])):
        q += prob[t] * value[np.uint32(target[t])]
    return q


@kernel("i1 int i1 I1 I1 F2 int b1 i1")
def is_proper(live, count, policy, out_ptr, target, prob, start, seen, stack):
    """Whether a policy reaches a goal with probability one in every sample, on the graph."""
    places = seen.size - 1
    for k in range(prob.shape[0]):
        seen[:] = False
        seen[start] = True
        stack[0] = start
        size = 1
        while size > 0:
            size -= 1
            c = policy[stack[size]]
            for t in range(out_ptr[c], out_ptr[c + 1]):
                j = target[t]
                if prob[k, t] > 0.0 and j < places and not seen[j]:
                    seen[j] = True
                    stack[size] = j
                    size += 1
        # What is left of the visited places when all that can reach a goal are taken out.
        changed = True
        while changed:
            changed = False
            for a in range(count):
                i = live[a]
                if seen[i]:
                    c = policy[i]
                    for t in range(out_ptr[c], out_ptr[c + 1]):
                        if prob[k, t] > 0.0 and (target[t] == places or not seen[target[t]]):
                            seen[i] = False
                            changed = True
                            break
        for a in range(count):
            if seen[live[a]]:
                return False
    return True


@helper
def _can_be_proper(live, count, low, high, act, out_ptr, target, prob, gap, start, alive, reached):
    """Whether some policy with these choices reaches a goal with probability one in one sample, on the graph."""
    places = alive.size - 1
    alive[:] = True
    while True:
        reached[:] = False
        reached[places] = True
        changed = True
        while changed:
            changed = False
            for a in range(count):
                i = live[a]
                if reached[i] or not alive[i]:
                    continue
                for j in range(low[i], high[i]):
                    c = act[j]
                    stays = gap[c] < ENDLESS
                    nearer = False
                    for t in range(out_ptr[c], out_ptr[c + 1]):
                        if prob[t] > 0.0:
                            stays &= alive[target[t]]
                            nearer |= reached[target[t]]
                    if stays and nearer:
                        reached[i] = True
                        changed = True
                        break
        lost = False
        for a in range(count):
            i = live[a]
            lost |= alive[i] and not reached[i]
            alive[i] = reached[i]
        if not alive[start]:
            return False
        if not lost:
            return True


@kernel("I1 I1 I1 F2 F2 F1 int float int float float i1 f1 l1 l1 b1 i1 f2 f1 b1 i1 int")
def descend(row_ptr, out_ptr, target, prob, gap, offset, start, shrink, sweeps, tolerance, tie, policy, best, cursor,
            rank, allow, live, value, regret, seen, stack, budget):  # fmt: skip
    """Improve a policy by changing one place's choice at a time; True when no single change does better.

    Better is a smaller largest regret, and among equal ones (up to `tie`) a smaller mean. `best` holds both. `cursor`
    is the next place, and how many were tried since the last change.
    """
    samples = prob.shape[0]
    places = policy.size
    work = 0
    while cursor[1] < places:
        if work > budget:
            return False
        i = cursor[0]
        cursor[0] = (i + 1) % places
        cursor[1] += 1
        allow[:] = False
        for j in range(places):
            allow[policy[j]] = True
        reachable(allow, row_ptr, out_ptr, target, start, seen, stack, live)
        work += places
        if not seen[i]:
            continue
        for c in range(row_ptr[i], row_ptr[i + 1]):
            old = policy[i]
            if c == old:
                continue
            policy[i] = c
            allow[old] = False
            allow[c] = True
            count = reachable(allow, row_ptr, out_ptr, target, start, seen, stack, live)
            value[:] = 0.0
            worst = measure(
                live, count, policy, out_ptr, target, prob, gap, offset, rank, start, shrink, sweeps, tolerance,
                best[0] + tie, value, regret,
            )  # fmt: skip
            work += 10 * samples * count
            better = worst < best[0] - tie
            if not better and worst < best[0] + tie:
                better = worst <= best[0] and _mean(regret) < best[1] - tie
            if better and is_proper(live, count, policy, out_ptr, target, prob, start, seen, stack):
                best[0] = worst
                best[1] = _mean(regret)
                cursor[1] = 0
            else:
                policy[i] = old
                allow[c] = False
                allow[old] = True
    return True


@helper
def _look(live, count, low, high, act, out_ptr, target, prob, gap, value, start, visits, greedy, left, total,
         excess, price):  # fmt: skip
    """Each sample's backups of all choices, what they exceed the best by, its greedy choices, and its visits."""
    samples = value.shape[0]
    for k in range(samples):
        for a in range(count):
            i = live[a]
            best = np.inf
            for j in range(low[i], high[i]):
                c = act[j]
                q = _backup(out_ptr, target, prob[k], gap[k], value[k], c)
                total[k, c] = q
                price[c] = 0.0
                if q < best:
                    best = q
                    greedy[k, i] = c
            for j in range(low[i], high[i]):
                excess[k, act[j]] = total[k, act[j]] - best
        _visit(live, count, greedy[k], out_ptr, target, prob[k], start, visits[k], left)


@helper
def _believe(live, count, low, high, act, out_ptr, target, prob, gap, total, offset, start, shrink, cut, left, hit,
            front, fixed, belief, trial, pick, price):  # fmt: skip
    """A bound that couples the samples: the first undecided state that is met gets one choice for all of them.

    Up to there all policies of the node are the same. F_k is what sample k pays on the way, h_k(s) the probability that
    s is the first undecided state; Q_k = `total` is the wait-and-see value after the choice. For every belief b

        max over k of reg_k(π)  ≥  Σ_k b_k F_k + Σ_s min over c of  Σ_k b_k h_k(s) Q_k(c)

    Mass that is still under way when the sweeps end only makes it lower. b is sought by exponentiated gradients, from
    the one that was best last time. `price[c]` becomes the same bound with choice c forced upon its state. Returns the
    bound and the number of first undecided states, which are in `front`.
    """
    samples = total.shape[0]
    for k in range(samples):
        for a in range(count):
            hit[k, live[a]] = 0.0
            left[live[a]] = 0.0
        left[start] = 1.0
        fixed[k] = 0.0
        for _ in range(VISIT_SWEEPS):
            moved = 0.0
            for a in range(count - 1, -1, -1):
                i = live[a]
                mass = left[i]
                if mass > 0.0:
                    left[i] = 0.0
                    if high[i] - low[i] > 1:
                        hit[k, i] += mass
                    else:
                        moved += mass
                        c = act[low[i]]
                        fixed[k] += mass * gap[k, c]
                        for t in range(out_ptr[c], out_ptr[c + 1]):
                            left[target[t]] += mass * prob[k, t]
            if moved <= 1e-6:
                break
    size = 0
    for a in range(count):
        i = live[a]
        met = False
        for k in range(samples):
            met |= hit[k, i] > 0.0
        if met:
            front[size] = i
            size += 1
    least = 0.0
    mass = 0.0
    for k in range(samples):
        least = min(least, offset[k])
        belief[k] = max(belief[k], 1e-6)
        mass += belief[k]
    for k in range(samples):
        belief[k] /= mass
    # No sum here has more roundings than this, and all its terms are positive.
    safe = 1.0 - (1.0 - shrink) * (VISIT_SWEEPS * (count + 8.0) + samples * (size + 8.0))
    best = -np.inf
    for k in range(belief.size):
        trial[k] = belief[k]
    for _ in range(BELIEF_ROUNDS):
        bound = 0.0
        for k in range(samples):
            pick[k] = fixed[k]
            bound += trial[k] * fixed[k]
        for f in range(size):
            i = front[f]
            lowest = np.inf
            chosen = low[i]
            for j in range(low[i], high[i]):
                c = act[j]
                q = 0.0
                for k in range(samples):
                    q += trial[k] * hit[k, i] * total[k, c]
                if q < lowest:
                    lowest = q
                    chosen = j
            bound += lowest
            for k in range(samples):
                pick[k] += hit[k, i] * total[k, act[chosen]]
        if bound > best:
            best = bound
            for k in range(belief.size):
                belief[k] = trial[k]
        if best >= cut or not bound < ENDLESS:
            break
        spread = 0.0
        for k in range(samples):
            pick[k] = min(pick[k], 2.0 * cut)
            spread += trial[k] * (pick[k] - bound) ** 2
        if spread <= 1e-18 * cut * cut:
            break
        step = min((cut - bound) / spread, 4.0 / np.sqrt(spread))
        mass = 0.0
        for k in range(samples):
            trial[k] = max(trial[k] * np.exp(max(min(step * (pick[k] - bound), 5.0), -5.0)), 1e-9)
            mass += trial[k]
        for k in range(samples):
            trial[k] /= mass
    for f in range(size):
        i = front[f]
        lowest = np.inf
        for j in range(low[i], high[i]):
            c = act[j]
            q = 0.0
            for k in range(samples):
                q += belief[k] * hit[k, i] * total[k, c]
            price[c] = q
            lowest = min(lowest, q)
        for j in range(low[i], high[i]):
            price[act[j]] = (best + (price[act[j]] - lowest)) * safe + least
    return best * safe + least, size


@helper
def _strike(front, size, low, high, act, price, cut, allow):
    """Take away the choices of first undecided states that are too dear to be part of a better policy."""
    for f in range(size):
        i = front[f]
        j = low[i]
        while j < high[i]:
            c = act[j]
            if price[c] >= cut:
                allow[c] = False
                high[i] -= 1
                act[j] = act[high[i]]
            else:
                j += 1


@helper
def _split(live, count, low, high, act, value, offset, start, cut, bound, visits, excess, hit, candidate):
    """Where to branch (−1 at a leaf), and a policy that suits all samples as well as it can.

    With x_k the visits under sample k's greedy choices, D_k(s0) + x_k(s) (Q_k(c) − D_k(s)) estimates what sample k
    comes to when s is given choice c. A soft maximum over the samples makes one number of it, and the sum over choices
    of exp(−what it rises) estimates how many nodes it takes to branch on s: the state with the smallest sum is taken.
    First undecided states (see `_believe`) are preferred, since only they are coupled in the bound.
    """
    samples = value.shape[0]
    bounded = cut < ENDLESS
    soft = SHARP * (cut if bounded else bound + 1.0)
    room = (cut - bound) / STEEP if bounded else soft
    base = 0.0
    for k in range(samples):
        base += np.exp((value[k, start] + offset[k] - bound) / soft)
    base = soft * np.log(base)
    chosen = -1
    fewest = np.inf
    for a in range(count):
        i = live[a]
        candidate[i] = act[low[i]]
        if high[i] - low[i] < 2:
            continue
        visited = False
        for k in range(samples):
            visited |= visits[k, i] > 0.0
        best = np.inf
        nodes = 0.0
        for j in range(low[i], high[i]):
            c = act[j]
            rise = 0.0
            worst = 0.0
            for k in range(samples):
                e = value[k, start] + offset[k] + (visits[k, i] if visited else 1.0) * excess[k, c]
                worst = max(worst, e)
                rise += np.exp(min((e - bound) / soft, 600.0))
            rise = soft * np.log(rise) - base
            if rise < best:
                best = rise
                candidate[i] = c
            if worst < cut:
                nodes += np.exp(-rise / room)
        near = cut >= ENDLESS
        for k in range(samples):
            near |= hit[k, i] > FIRST
        if not near:
            nodes *= FAR
        if visited and nodes < fewest:
            fewest = nodes
            chosen = i
        elif chosen < 0:
            chosen = i
    return chosen


@helper
def _force(live, count, low, high, act, out_ptr, target, prob, gap, value, trial, offset, start, shrink, sweeps,
          tolerance, cut, bound, i, c, visits, greedy, excess, done):  # fmt: skip
    """The bound when place i takes choice c, and how many sweeps it took.

    Only samples with another greedy choice there change; those for which it looks worst come first.
    """
    samples = value.shape[0]
    effort = 0
    for k in range(samples):
        done[k] = greedy[k, i] == c
    while bound < cut:
        most = -np.inf
        worst = -1
        for k in range(samples):
            estimate = value[k, start] + offset[k] + visits[k, i] * excess[k, c]
            if not done[k] and estimate > most:
                most = estimate
                worst = k
        if worst < 0:
            break
        done[worst] = 1
        for state in range(value.shape[1]):
            trial[worst, state] = value[worst, state]
        effort += _relax(
            live, count, low, high, act, out_ptr, target, prob[worst], gap[worst], trial[worst], start, shrink, sweeps,
            _coarse(tolerance, cut, bound), cut - offset[worst],
        )  # fmt: skip
        bound = max(bound, trial[worst, start] + offset[worst])
    return bound, effort


@kernel(
    "I1 I1 I1 F2 F2 F1 int float int float u2 f1 i1 l1 l1 l1 f1 b1 i1 i1 i1 "
    "i1 f2 f2 f2 f1 f2 i1 f1 f1 f1 i2 f2 f2 f1 i1 l1 f1 b1 b1 i1 int int"
)
def search(row_ptr, out_ptr, target, prob, gap, offset, start, shrink, sweeps, tolerance,
           bits, bound, depth, heap, unused, state, number, allow, live, low, high, act, value, trial, visits, left,
           hit, front, fixed, belief, doubt, greedy, total, excess, price, candidate, rank, regret, seen, alive, stack,
           last, budget):  # fmt: skip
    """Work on open nodes until the budget is used up, a better policy or a leaf is found, the pool is full, or the end.

    Everything is in the arrays, so that a later call goes on where this one paused. It also pauses after `last` nodes.
    """
    samples = prob.shape[0]
    work = 0
    while work < budget:
        if state[PHASE] == POP:
            if state[OPEN] == 0 and state[NEXT] < 0:
                return DONE
            if state[NODES] >= last:
                return PAUSED
            if state[NEXT] >= 0:
                node = state[NEXT]
                state[NEXT] = -1
            else:
                # Where memory is short the last of the heap is taken: rather deep, and with few nodes below it.
                node = heap[state[OPEN] - 1] if state[DEEP] else _pop(heap, state[OPEN], bound, depth)
                state[OPEN] -= 1
                state[PLUNGE] = state[NODES] % PLUNGE_EVERY == 0
            unused[state[UNUSED]] = node
            state[UNUSED] += 1
            if bound[node] >= number[CUT]:
                continue
            state[NODES] += 1
            number[BOUND] = bound[node]
            _unpack(bits[node], allow)
            count = reachable(allow, row_ptr, out_ptr, target, start, seen, stack, live)
            state[COUNT] = count
            filled = 0
            for a in range(count):
                i = live[a]
                low[i] = filled
                for c in range(row_ptr[i], row_ptr[i + 1]):
                    if allow[c]:
                        act[filled] = c
                        filled += 1
                high[i] = filled
            state[FILLED] = filled
            work += count
            state[SAMPLE] = 0
            state[PHASE] = SOLVE
        count = state[COUNT]
        if state[PHASE] == SOLVE:
            k = rank[state[SAMPLE]]
            value[k] = 0.0
            work += state[FILLED] * _relax(
                live, count, low, high, act, out_ptr, target, prob[k], gap[k], value[k], start, shrink, sweeps,
                _coarse(tolerance, number[CUT], number[BOUND]), number[CUT] - offset[k],
            )  # fmt: skip
            number[BOUND] = max(number[BOUND], value[k, start] + offset[k])
            hopeless = number[BOUND] >= number[CUT]
            if not hopeless and number[CUT] >= ENDLESS:  # while no proper policy is known, the graph may rule them out
                hopeless = not _can_be_proper(
                    live, count, low, high, act, out_ptr, target, prob[k], gap[k], start, alive, seen
                )
            if hopeless:
                for j in range(state[SAMPLE], 0, -1):  # it comes first from now on
                    rank[j] = rank[j - 1]
                rank[0] = k
                state[PHASE] = POP
                continue
            state[SAMPLE] += 1
            if state[SAMPLE] == samples:
                state[PHASE] = SPLIT
        elif state[PHASE] == SPLIT:
            _look(
                live, count, low, high, act, out_ptr, target, prob, gap, value, start, visits, greedy, left, total,
                excess, price,
            )  # fmt: skip
            if number[CUT] < ENDLESS:
                coupled, size = _believe(
                    live, count, low, high, act, out_ptr, target, prob, gap, total, offset, start, shrink, number[CUT],
                    left, hit, front, fixed, belief, doubt, regret, price,
                )  # fmt: skip
                number[BOUND] = max(number[BOUND], coupled)
                if coupled < number[CUT]:
                    _strike(front, size, low, high, act, price, number[CUT], allow)
            work += 6 * samples * state[FILLED]
            if number[BOUND] >= number[CUT]:
                state[PHASE] = POP
                continue
            i = _split(
                live,
                count,
                low,
                high,
                act,
                value,
                offset,
                start,
                number[CUT],
                number[BOUND],
                visits,
                excess,
                hit,
                candidate,
            )
            if i < 0:
                state[PHASE] = POP
                return LEAF
            state[BRANCH] = i
            state[CHOICE] = low[i]
            state[PHASE] = CHILD
            for k in range(samples):
                for j in range(value.shape[1]):
                    trial[k, j] = value[k, j]
            worst = measure(
                live, count, candidate, out_ptr, target, prob, gap, offset, rank, start, shrink, sweeps,
                tolerance, number[BEST], trial, regret,
            )  # fmt: skip
            work += 10 * count * samples
            if worst < number[BEST] and is_proper(live, count, candidate, out_ptr, target, prob, start, seen, stack):
                return FOUND
        else:
            if state[UNUSED] == 0:
                return FULL
            i = state[BRANCH]
            j = state[CHOICE]
            c = act[j]
            child, effort = max(number[BOUND], price[c]), 0
            if child < number[CUT]:
                first, end = low[i], high[i]
                low[i], high[i] = j, j + 1
                child, effort = _force(
                    live, count, low, high, act, out_ptr, target, prob, gap, value, trial, offset, start, shrink,
                    sweeps, tolerance, number[CUT], child, i, c, visits, greedy, excess, stack,
                )  # fmt: skip
                low[i], high[i] = first, end
                work += state[FILLED] * effort
            if child < number[CUT]:
                state[UNUSED] -= 1
                node = unused[state[UNUSED]]
                allow[row_ptr[i] : row_ptr[i + 1]] = False
                allow[c] = True
                pack(allow, bits[node])
                bound[node] = child
                depth[node] = count - state[FILLED]
                if state[PLUNGE] and (state[NEXT] < 0 or child < bound[state[NEXT]]):
                    state[NEXT], node = node, state[NEXT]
                if node >= 0:
                    _push(heap, state[OPEN], bound, depth, node)
                    state[OPEN] += 1
            state[CHOICE] += 1
            if state[CHOICE] == high[i]:
                state[PHASE] = POP
    return PAUSED
