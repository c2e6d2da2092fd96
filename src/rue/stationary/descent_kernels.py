"""Evaluate one stationary deterministic policy in all samples, and improve it by changing one choice at a time.

States are renumbered by place, nearest to a goal first; all goals share the last place. Choices are renumbered as well:
those of place i are `row_ptr[i]:row_ptr[i+1]`, and choice c leads to `target[out_ptr[c]:out_ptr[c+1]]`. Self-loops are
taken out. The sample axis comes first, because samples are processed one by one. An infinite gap is stored as HUGE, so
that zero times it is zero.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rue._arrays import Array
from rue._jit import declare, declare_like, helper, kernel

HUGE = 1e300
# A value from here on counts as infinite.
ENDLESS = 1e150
# Sweeps of a policy evaluation, as a multiple of the sweeps that a node of the search gets.
POLICY_SWEEPS = 16


class LocalModel(NamedTuple):
    """The model by place. n places, C choices, T transitions, K samples."""

    row_ptr: Array  # [n+1]
    out_ptr: Array  # [C+1]
    target: Array  # [T]
    prob: Array  # [K, T]
    gap: Array  # [K, C]
    offset: Array  # [K] added to an expected sum of gaps, this gives a lower bound on the regret
    start: int
    shrink: float  # each backup is multiplied by this, which rounds it down
    sweeps: int  # most sweeps for one sample of a node


class Subgraph(NamedTuple):
    """The places that some choices reach, and memory for graph searches."""

    allow: Array  # [C]
    live: Array  # [n] the reachable places, in order
    seen: Array  # [n+1]
    alive: Array  # [n+1]
    stack: Array  # [max(n, K)+1]
    place: Array  # [n+1] the numbers 0 … n


class PolicyValues(NamedTuple):
    """The evaluation of a policy."""

    value: Array  # [K, n+1]
    regret: Array  # [K]
    rank: Array  # [K] the order in which samples are evaluated


declare(LocalModel, "I1 I1 I1 F2 F2 F1 int float int")
declare(Subgraph, "b1 i1 b1 b1 i1 i1")
declare(PolicyValues, "f2 f1 l1")


def mutable_record(name: str, integers: str, floats: str) -> Callable[[], Any]:
    """Declare a record of named numbers that kernels can change; return a function that makes one, all zero."""
    fields = [(field, np.int64) for field in integers.split()] + [(field, np.float64) for field in floats.split()]
    dtype = np.dtype((np.record, np.dtype(fields, align=True)))

    def new() -> Any:
        return np.zeros(1, dtype)[0]

    declare_like(name, new())
    return new


# `place` is the next place to change, `tried` the number of places tried since the last improvement.
new_descent = mutable_record("Descent", "place tried", "max_regret mean_regret")


@helper
def _reachable(model, graph):
    """Write the places that allowed choices reach to `live`, in order, and return their number."""
    places = model.row_ptr.size - 1
    graph.seen[:] = False
    graph.seen[model.start] = True
    graph.seen[places] = True
    graph.stack[0] = model.start
    size = 1
    while size > 0:
        size -= 1
        i = graph.stack[size]
        for c in range(model.row_ptr[i], model.row_ptr[i + 1]):
            if graph.allow[c]:
                for t in range(model.out_ptr[c], model.out_ptr[c + 1]):
                    j = model.target[t]
                    if not graph.seen[j]:
                        graph.seen[j] = True
                        graph.stack[size] = j
                        size += 1
    count = 0
    for i in range(places):
        if graph.seen[i]:
            graph.live[count] = i
            count += 1
    return count


@helper
def _can_be_proper(model, k, graph, count, low, high, act):
    """Return whether some policy with the choices `act[low[i]:high[i]]` is proper in sample k: exact, on the graph."""
    prob, gap, target, alive, reached = model.prob[k], model.gap[k], model.target, graph.alive, graph.seen
    alive[:] = True
    while True:
        reached[:] = False
        reached[alive.size - 1] = True
        changed = True
        while changed:
            changed = False
            for a in range(count):
                i = graph.live[a]
                if reached[i] or not alive[i]:
                    continue
                for j in range(low[i], high[i]):
                    c = act[j]
                    stays = gap[c] < ENDLESS
                    nearer = False
                    for t in range(model.out_ptr[c], model.out_ptr[c + 1]):
                        if prob[t] > 0.0:
                            stays &= alive[target[t]]
                            nearer |= reached[target[t]]
                    if stays and nearer:
                        reached[i] = True
                        changed = True
                        break
        lost = False
        for a in range(count):
            i = graph.live[a]
            lost |= alive[i] and not reached[i]
            alive[i] = reached[i]
        if not alive[model.start]:
            return False
        if not lost:
            return True


@helper
def _is_proper(model, graph, count, policy):
    """Return whether a policy reaches a goal with probability one in every sample, at a finite cost."""
    for k in range(model.offset.size):
        if not _can_be_proper(model, k, graph, count, graph.place[:-1], graph.place[1:], policy):
            return False
    return True


@helper
def _evaluate(model, live, count, policy, values, tolerance, ceiling):
    """Return the largest regret of a policy over all samples, by sweeps from below; stop early at `ceiling`.

    `values.value` must lie below the true values at the beginning.
    """
    out_ptr, target = model.out_ptr, model.target
    worst = 0.0
    for r in range(values.rank.size):
        k = values.rank[r]
        prob, gap, value, offset = model.prob[k], model.gap[k], values.value[k], model.offset[k]
        for _ in range(POLICY_SWEEPS * model.sweeps):
            delta = 0.0
            for a in range(count):
                i = live[a]
                c = np.uint32(policy[i])
                q = gap[c]
                for t in range(np.uint64(out_ptr[c]), np.uint64(out_ptr[c + np.uint32(1)])):
                    q += prob[t] * value[np.uint32(target[t])]
                q = min(q * model.shrink, HUGE)
                if q > value[i]:
                    delta = max(delta, q - value[i])
                    value[i] = q
            if delta <= tolerance or value[model.start] + offset >= ceiling:
                break
        values.regret[k] = value[model.start] + offset
        worst = max(worst, values.regret[k])
        if worst >= ceiling:
            break
    return worst


@helper
def _allow_only(graph, policy):
    """Allow the choices of a policy and no others."""
    graph.allow[:] = False
    for i in range(policy.size):
        graph.allow[policy[i]] = True


@kernel("LocalModel Subgraph PolicyValues i1 float")
def measure(model, graph, values, policy, tolerance):
    """Return the largest regret of a policy, up to the tolerance; infinite if it is improper."""
    _allow_only(graph, policy)
    count = _reachable(model, graph)
    if not _is_proper(model, graph, count, policy):
        return np.inf
    values.value[:] = 0.0
    return _evaluate(model, graph.live, count, policy, values, tolerance, ENDLESS)


@kernel("LocalModel Subgraph PolicyValues i1 Descent float int")
def descend(model, graph, values, policy, descent, tie, budget):
    """Improve a policy by changing the choice of one place at a time; return True if no single change does better.

    A policy is better if its largest regret is smaller or, among equal ones (up to `tie`), if its mean is smaller;
    `descent` holds both. Return False when the budget is used up.
    """
    places = policy.size
    work = 0
    while descent.tried < places:
        if work > budget:
            return False
        i = descent.place
        descent.place = (i + 1) % places
        descent.tried += 1
        _allow_only(graph, policy)
        _reachable(model, graph)
        work += places
        if not graph.seen[i]:
            continue
        for c in range(model.row_ptr[i], model.row_ptr[i + 1]):
            old = policy[i]
            if c == old:
                continue
            policy[i] = c
            graph.allow[old] = False
            graph.allow[c] = True
            count = _reachable(model, graph)
            values.value[:] = 0.0
            worst = _evaluate(model, graph.live, count, policy, values, 0.01 * tie, descent.max_regret + tie)
            work += 10 * values.rank.size * count
            better = worst < descent.max_regret - tie
            if not better and worst < descent.max_regret + tie:
                better = worst <= descent.max_regret and values.regret.mean() < descent.mean_regret - tie
            if better and _is_proper(model, graph, count, policy):
                descent.max_regret = worst
                descent.mean_regret = values.regret.mean()
                descent.tried = 0
            else:
                policy[i] = old
                graph.allow[c] = False
                graph.allow[old] = True
    return True
