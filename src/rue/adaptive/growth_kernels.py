"""Update a graph of beliefs for other samples: the likelihoods of its nodes and the regrets of its vectors.

Neither depends on the belief. The likelihood of a node follows from that of its parent, and the regret of a vector from
those of its followers.
"""

import numpy as np

from rue.adaptive.belief_kernels import (
    FORBIDDEN,
    HUGE,
    LEAST,
    NEVER,
    NODES,
    NONE,
    SAFE,
    VECTORS,
    helper,
    kernel,
)
from rue.adaptive.expansion_kernels import SAME, _add_point, _hash, _is_same


@kernel("GapModel BeliefNodes Weights i1")
def spread_likelihoods(model, graph, weights, order):
    """Compute the likelihoods of all nodes from the root on; list the nodes that are reached, and return their number.

    Histories that shared a node may differ in a new sample. Then the action that leads there second loses its edges.
    """
    likelihood = np.empty(weights.likelihood.shape[1])
    seen = np.zeros(graph.used[NODES], np.bool_)
    weights.likelihood[0, :] = 1.0
    seen[0] = True
    order[0] = 0
    count = 1
    i = 0
    while i < count:
        node = order[i]
        i += 1
        row = graph.node[node]
        row.link = NONE
        row.seen_points = 0
        if row.first_action == NONE:
            continue
        for a in range(row.actions):
            action = graph.action[row.first_action + a]
            if action.first_edge == NONE:
                continue
            begin = model.trans_ptr[model.choice_ptr[row.state] + a]
            for j in range(action.outcomes):
                e = action.first_edge + j
                most = _outcome(model, weights, node, begin + j, likelihood)
                child = graph.child[e]
                to = model.successor[begin + j]
                if most == 0.0:
                    graph.child[e] = NONE
                elif child == NONE:
                    if model.choice_ptr[to] < model.choice_ptr[to + 1]:  # it was impossible before
                        action.first_edge = NONE
                        break
                elif not seen[child]:
                    weights.likelihood[child, :] = likelihood
                    seen[child] = True
                    order[count] = child
                    count += 1
                    graph.share[e] = most * SAFE
                elif _is_same(weights.likelihood, child, likelihood, SAME):
                    graph.share[e] = most * SAFE
                else:
                    action.first_edge = NONE
                    break
    for node in range(graph.used[NODES]):
        if not seen[node]:  # nothing leads there; it is never found, as no likelihood is above one
            weights.likelihood[node, :] = 0.0
            weights.likelihood[node, 0] = 2.0 + node
            graph.node[node].first_action = NONE
            graph.node[node].link = NONE
    return count


@helper
def _outcome(model, weights, node, t, likelihood):
    """Set the likelihood of an outcome, divided by its largest entry; return that. Small ones count as zero."""
    most = 0.0
    for k in range(likelihood.size):
        likelihood[k] = weights.likelihood[node, k] * model.prob[t, k]
        most = max(most, likelihood[k])
    for k in range(likelihood.size):
        likelihood[k] = likelihood[k] / most if most > 0.0 else 0.0
        if likelihood[k] < max(weights.least, LEAST):
            likelihood[k] = 0.0
    return most


@kernel("BeliefNodes Weights PointLists i1 int")
def list_nodes(graph, weights, points, order, count):
    """Fill the table of nodes, which is empty, and the lists of points, which are too, with the nodes listed."""
    table = weights.table
    mask = np.uint64(table.size - 1)
    for i in range(count):
        node = order[i]
        row = graph.node[node]
        at = _hash(row.state, weights.likelihood[node]) & mask
        while table[at] != NONE:
            at = (at + np.uint64(1)) & mask
        table[at] = node
        if row.first_action != NONE:
            _add_point(row, weights, points, node)


@kernel("GapModel VectorLists b1 int")
def spread_regrets(model, vectors, done, first):
    """Compute the regrets of vectors in the samples from `first` on, after those of their followers.

    `done` are the vectors whose regrets are known, such as those of given policies.
    """
    stack = np.empty(vectors.used[VECTORS] + 1, np.int64)
    for start in range(vectors.used[VECTORS]):
        if done[start]:
            continue
        top = 0
        stack[0] = start
        while top >= 0:
            v = stack[top]
            if done[v]:
                top -= 1
                continue
            waiting = False
            row = vectors.vector[v]
            for i in range(model.trans_ptr[row.choice + 1] - model.trans_ptr[row.choice]):
                follower = vectors.follower[row.first_follower + i]
                if follower not in (NONE, v) and not done[follower]:
                    waiting = True
                    top += 1
                    stack[top] = follower
                    break
            if not waiting:
                _combine_new(model, vectors, v, first)
                done[v] = True
                top -= 1


@helper
def _combine_new(model, vectors, v, first):
    """Set the regrets of a vector in new samples, as `belief_kernels._combine` does; it may follow itself."""
    row = vectors.vector[v]
    c = row.choice
    for k in range(first, vectors.alpha.shape[1]):
        total = model.gap[c, k] if model.gap[c, k] < FORBIDDEN else HUGE
        leave = 1.0
        for i in range(model.trans_ptr[c + 1] - model.trans_ptr[c]):
            prob = model.prob[model.trans_ptr[c] + i, k]
            follower = vectors.follower[row.first_follower + i]
            if follower == v:
                leave -= prob
            elif follower != NONE and prob > 0.0:
                ahead = vectors.alpha[follower, k]
                total = total + prob * ahead if ahead < HUGE else HUGE
        vectors.alpha[v, k] = min(total / leave, HUGE) if leave > NEVER else HUGE
