"""What makes a graph of beliefs larger: vectors of given policies, and the expansion of nodes.

The graph itself and its bounds are in `belief_kernels.py`.
"""

from typing import NamedTuple

import numpy as np

from rue._arrays import Array
from rue._jit import declare
from rue.adaptive.belief_kernels import (
    ACTIONS,
    BLOCK,
    EDGES,
    INVERSE_OF_ZERO,
    LEAST,
    LOWER,
    NODES,
    NONE,
    POINTS,
    SAFE,
    _add_vector,
    _append,
    _best_action,
    _dot,
    _older,
    _second_step,
    _set_first_bounds,
    _set_weight,
    helper,
    kernel,
)  # fmt: skip

# Likelihoods that differ by at most this fraction are the same.
SAME = 1e-12


class Frontier(NamedTuple):
    """Nodes to be expanded, and how much the gap of each adds to that of the root."""

    node: Array
    excess: Array


declare(Frontier, "i1 f1")


@kernel("VectorLists i1 i1 f2")
def add_given(vectors, states, codes, alphas):
    """Add vectors of given policies, except those that are dominated; the first one of a state is its fallback."""
    for i in range(states.size):
        s = states[i]
        if not _is_dominated(vectors, s, alphas[i]):
            v = _add_vector(vectors, s, codes[i], alphas[i])
            if vectors.fallback[s] == NONE:
                vectors.fallback[s] = v


@helper
def _is_dominated(vectors, s, alpha):
    """Return whether a vector of the state is nowhere larger."""
    at = np.int64(vectors.at_state[s].newest)
    for _ in range(vectors.at_state[s].number):
        dominated = True
        for k in range(alpha.size):
            if alpha[k] < vectors.alpha[at, k]:
                dominated = False
                break
        if dominated:
            return True
        at = _older(vectors.vector, at)
    return False


@kernel("BeliefNodes Weights")
def rehash(graph, weights):
    """Fill the table, which is empty, with all nodes."""
    table = weights.table
    mask = np.uint64(table.size - 1)
    for node in range(graph.used[NODES]):
        at = _hash(graph.node[node].state, weights.likelihood[node]) & mask
        while table[at] != NONE:
            at = (at + np.uint64(1)) & mask
        table[at] = node


@helper
def _hash(s, likelihood):
    code = np.uint64(1469598103934665603) ^ np.uint64(s)
    code *= np.uint64(1099511628211)
    for k in range(likelihood.size):
        # Rounded, so that likelihoods that are equal up to rounding are found; at worst a node is there twice.
        part = np.uint64(np.int64(likelihood[k] * 1e7 + 0.5))
        code = (code ^ part) * np.uint64(1099511628211)
        code ^= code >> np.uint64(29)
    return code


@helper
def _is_same(known, row, numbers, fraction):
    """Return whether a row of `known` differs from numbers by at most a fraction of these."""
    same = True
    for k in range(numbers.size):
        if abs(known[row, k] - numbers[k]) > fraction * numbers[k]:
            same = False
            break
    return same


@helper
def _find(nodes, weights, s, likelihood):
    """Return the node of a state and a likelihood, or NONE; and its place in the table."""
    table = weights.table
    mask = np.uint64(table.size - 1)
    at = _hash(s, likelihood) & mask
    while table[at] != NONE:
        node = table[at]
        if nodes[node].state == s and _is_same(weights.likelihood, node, likelihood, SAME):
            return node, at
        at = (at + np.uint64(1)) & mask
    return NONE, at


@kernel("GapModel BeliefNodes Weights VectorLists PointLists Frontier int int")
def expand(model, graph, weights, vectors, points, frontier, first, last):
    """Expand some nodes of the frontier by their best actions; return how many were done before the arrays were full.

    Nodes whose bounds have come much closer since the frontier was listed are skipped.
    """
    weight = np.empty(weights.belief.size)
    scratch = np.empty(weights.belief.size)
    for i in range(first, last):
        if not _has_room(graph, weights, points):
            return i
        node = frontier.node[i]
        row = graph.node[node]
        if row.reach * (row.upper - row.lower) < 0.5 * frontier.excess[i]:
            continue
        if row.first_action == NONE:
            _add_actions(model, graph, weights, node, weight, scratch)
            _add_point(row, weights, points, node)
        a, _ = _best_action(graph, node, LOWER)
        if graph.action[row.first_action + a].first_edge == NONE:
            _add_edges(model, graph, weights, vectors, node, a, weight, scratch)
    return last


@helper
def _has_room(graph, weights, points):
    return (
        graph.used[NODES] + graph.widest < graph.node.size
        and graph.used[ACTIONS] + graph.widest < graph.action.size
        and graph.used[EDGES] + graph.widest < graph.child.size
        and graph.used[POINTS] + 2 * BLOCK < points.point.size
        and 2 * (graph.used[NODES] + graph.widest) < weights.table.size
    )


@helper
def _add_actions(model, graph, weights, node, weight, scratch):
    """Give a node its actions, with the bounds of two steps."""
    row = graph.node[node]
    begin = model.choice_ptr[row.state]
    row.first_action = graph.used[ACTIONS]
    row.actions = model.choice_ptr[row.state + 1] - begin
    graph.used[ACTIONS] += row.actions
    _set_weight(weights, node, weight)
    for a in range(row.actions):
        c = begin + a
        action = graph.action[row.first_action + a]
        action.step = _dot(weight, model.gap[c])
        action.rest = _second_step(model, c, weight, scratch)
        action.first_edge = NONE
        action.outcomes = model.trans_ptr[c + 1] - model.trans_ptr[c]


@helper
def _add_point(row, weights, points, node):
    """Let other nodes of the same state link to a node."""
    at = _append(points.point, points.at_state, points.used, POINTS, row.state)
    points.point[at].node = node
    for k in range(weights.likelihood.shape[1]):
        p = weights.likelihood[node, k]
        points.inverse[at, k] = 1.0 / p if p > 0.0 else INVERSE_OF_ZERO


@helper
def _add_edges(model, graph, weights, vectors, node, a, weight, likelihood):
    """Give an action its edges, to nodes that are found or made. Small likelihoods count as zero."""
    action = graph.action[graph.node[node].first_action + a]
    begin = model.trans_ptr[model.choice_ptr[graph.node[node].state] + a]
    action.first_edge = graph.used[EDGES]
    graph.used[EDGES] += action.outcomes
    for i in range(action.outcomes):
        e = action.first_edge + i
        to = model.successor[begin + i]
        most = 0.0
        for k in range(likelihood.size):
            likelihood[k] = weights.likelihood[node, k] * model.prob[begin + i, k]
            most = max(most, likelihood[k])
        if most == 0.0 or model.choice_ptr[to] == model.choice_ptr[to + 1]:
            graph.child[e] = NONE
            continue
        for k in range(likelihood.size):
            likelihood[k] = likelihood[k] / most
            if likelihood[k] < max(weights.least, LEAST):
                likelihood[k] = 0.0
        child, place = _find(graph.node, weights, to, likelihood)
        if child == NONE:
            child = graph.used[NODES]
            weights.table[place] = child
            _add_node(model, graph, weights, vectors, to, likelihood, weight)
        graph.child[e] = child
        graph.share[e] = most * SAFE


@helper
def _add_node(model, graph, weights, vectors, s, likelihood, weight):
    """Add a node, with the bound of one step and the fallback; it has been compared with nothing yet."""
    node = graph.used[NODES]
    graph.used[NODES] += 1
    row = graph.node[node]
    row.state = s
    row.vector = vectors.fallback[s]
    row.link = NONE
    row.first_action = NONE
    row.seen_vectors = 0
    row.seen_points = 0
    row.stamp = 0
    for k in range(likelihood.size):
        weights.likelihood[node, k] = likelihood[k]
        weight[k] = weights.belief[k] * likelihood[k]
    _set_first_bounds(model, vectors, row, weight)
