"""The graph of beliefs: its arrays, and the backups of its lower and upper bounds.

A *node* is a state and a likelihood p[k]: how probable the history is in sample k, up to a factor. Histories with the
same likelihood share a node. With a belief b over the samples before the start, a node has the weight w = b∘p, and

    W(s, w) = min over policies of Σ_k w_k reg_k  =  min over choices c of  w·g(c) + Σ_t W(s'_t, w∘T_t)

with g(c) the gaps of a choice in all samples (`certificate.py`), is homogeneous in w, so an outcome is a factor, its
`share`, times the value of a node. Likelihoods do not depend on b: when b moves, the same graph is evaluated again and
no node is lost.

*Upper bounds.* A *vector* is the regret in each sample of a controller that begins at a state: a choice, and a vector
for each outcome. A node refers to the vector that is best for it.

*Lower bounds.* The lower bound of an expanded node is the cost of its best action, with the lower bounds of the nodes
that follow. An action without edges has the bound of two steps, w·g(c) + Σ_t min over c' of (w∘T_t)·g(c'). A node that
is not expanded has the bound of one step.

*Links.* Expanded nodes are *points*. A node may link to a point of the same state: with p' the likelihood of the point
and share = min over k of p_k / p'_k, we have p ≥ share·p', and W is homogeneous and never falls when a weight grows, so

    W(s, b∘p) ≥ W(s, share·b∘p') = share · W(s, b∘p') ≥ share · (the lower bound of the point)       for every b

`_scan_points` makes links of nodes that are not expanded yet, and `_implied_lower` uses them; a node keeps its link
when it is expanded. A certificate does not store links: it names the point, and whoever checks it computes the share
again (`proof_kernels.py`; docs/bounds.md, "Points").

Vectors and points lie in blocks, each of one state, so that those of a state are read in a row.
"""

from typing import Annotated, NamedTuple, get_type_hints

import numpy as np

from rue._arrays import Array
from rue._jit import compiled, declare, declare_rows

# Sums may be taken in another order. Nothing is assumed about NaN and infinity, which are never stored here.
kernel, helper = compiled(fastmath={"reassoc", "nsz", "contract"})

# Both stand for infinity: the gap of a forbidden choice, and the regret of a controller that may miss the goal. The
# second stays infinite however unlikely it is, as likelihoods are never below 1e-140 (`LEAST`). With a weight of zero
# either costs nothing.
FORBIDDEN, HUGE, LEAST = 1e100, 1e250, 1e-140
BLOCK = 16
NONE, ITSELF = -1, -2
LOWER, UPPER = np.int64(0), np.int64(1)  # the sides; with plain numbers helpers would be compiled for each
# Lower bounds are rounded down by this fraction, more than the rounding error of a backup.
SAFE = 1.0 - 2e-12
# Numbers with at most this ratio are equal up to rounding: a small part of what `SAFE` keeps back.
ROUNDED = 1.0 + 1e-13
# An upper bound that is lower by this part of the gap makes a new vector.
WORTH = 0.01
# Sweeps between two extrapolations, and the largest multiple of the last rise that is tried.
EXTRAPOLATE_EVERY, LARGEST_MULTIPLE = 16, 1e12
# A share that is one up to rounding, and a probability that is zero up to rounding.
SURE, NEVER = 1.0 - 2.1e-12, 1e-14
# A likelihood of zero in a link: nearly nothing, so that the share of a point with a positive likelihood is nearly
# zero, and large when multiplied by INVERSE_OF_ZERO, so that a point with zero there sets no limit. A share that is not
# quite zero does no harm: a certificate computes it again.
TINY, INVERSE_OF_ZERO = 1e-150, 1e200

# The arrays of a graph, in groups that grow together. `used` says how many rows of each group are used, and STAMP is
# the number of walks so far. The others do not grow. A new array, or a new field of a row, is one line below.
NODES, ACTIONS, EDGES, VECTORS, FOLLOWERS, POINTS, STAMP = range(7)
COUNTS, STATES, TABLE, FIXED = "counts", "states", "table", "fixed"

NODE = np.dtype([
    ("lower", "f8"),  # bounds at the present belief
    ("upper", "f8"),
    ("link_share", "f8"),
    ("reach", "f8"),  # weight of the node's bounds in those of the root, in the last walk
    ("first_action", "i8"),  # NONE if it is not expanded
    ("actions", "i4"),
    ("state", "i4"),
    ("vector", "i4"),  # that gives the upper bound
    ("link", "i4"),  # another node that bounds this one from below, or NONE
    ("seen_vectors", "i4"),  # how many vectors and points of its state have been compared
    ("seen_points", "i4"),
    ("best", "i4"),  # the best action by the lower bounds in the last walk, or NONE
    ("stamp", "i4"),  # the last walk that visited it
])  # fmt: skip
ACTION = np.dtype([
    ("step", "f8"),  # w·g, the cost of the step
    ("rest", "f8"),  # lower bound on what follows, while there are no edges; -1: not computed
    ("first_edge", "i8"),  # NONE if there are no edges yet
    ("outcomes", "i4"),
])  # fmt: skip
VECTOR = np.dtype([
    ("first_follower", "i8"),
    ("choice", "i4"),  # −1 − n: node n of a given policy
    ("owner", "i4"),  # 1 + the state that lists it; 0 if none does: only other vectors lead to it
    ("older", "i4"),  # the vector of the same state before it
    ("lasts", "i4"),  # until this batch of trials it is not pruned
])  # fmt: skip
POINT = np.dtype([
    ("node", "i4"),
    ("older", "i4"),
])  # fmt: skip
LIST = np.dtype([
    ("newest", "i4"),  # NONE if it is empty
    ("number", "i4"),
])  # fmt: skip

ROWS = {"Nodes": NODE, "Actions": ACTION, "Vectors": VECTOR, "Points": POINT, "Lists": LIST}
for _name, _dtype in ROWS.items():
    declare_rows(_name, _dtype)


class BeliefNodes(NamedTuple):
    """Nodes, their actions, and the edges of these: all that a backup of the lower bounds needs."""

    used: Annotated[Array, "l1", COUNTS]
    node: Annotated[Array, "Nodes", NODES]
    action: Annotated[Array, "Actions", ACTIONS]
    child: Annotated[Array, "i1", EDGES]  # NONE for goals and for outcomes that are impossible
    share: Annotated[Array, "f1", EDGES]
    widest: Annotated[int, "int", FIXED]  # room for the choices and outcomes of any state


class Weights(NamedTuple):
    """Likelihoods of nodes, the table that finds nodes by them, and the present belief."""

    likelihood: Annotated[Array, "f2", NODES]
    table: Annotated[Array, "i1", TABLE]
    belief: Annotated[Array, "f1", FIXED]
    least: Annotated[float, "float", FIXED]  # smaller likelihoods count as zero


class VectorLists(NamedTuple):
    """Vectors, in a list for each state."""

    used: Annotated[Array, "l1", COUNTS]
    at_state: Annotated[Array, "Lists", STATES]
    fallback: Annotated[Array, "i1", STATES]  # the vector for outcomes that are impossible
    vector: Annotated[Array, "Vectors", VECTORS]
    alpha: Annotated[Array, "f2", VECTORS]  # regrets
    follower: Annotated[Array, "i1", FOLLOWERS]  # the vector of each outcome


class PointLists(NamedTuple):
    """Expanded nodes, in a list for each state."""

    used: Annotated[Array, "l1", COUNTS]
    at_state: Annotated[Array, "Lists", STATES]
    point: Annotated[Array, "Points", POINTS]
    inverse: Annotated[Array, "f2", POINTS]  # of the likelihoods


class Walk(NamedTuple):
    """The nodes of a depth-first walk in the order in which they are left, and the stack of the walk."""

    order: Array
    stack: Array
    place: Array  # how many edges of each node on the stack have been followed


def layout(record: type) -> dict[str, tuple[str, int | str]]:
    """Return the type, as a word of `rue._jit`, and the group of each field of a record."""
    return {name: hint.__metadata__ for name, hint in get_type_hints(record, include_extras=True).items()}


def declare_groups(record: type) -> None:
    """Make a record known to kernels, with the types that its annotations have."""
    declare(record, " ".join(word for word, _ in layout(record).values()))


for _record in (BeliefNodes, Weights, VectorLists, PointLists):
    declare_groups(_record)
declare(Walk, "i1 i1 l1")


@helper
def _dot(left, right):
    total = 0.0
    for k in range(left.size):
        total += left[k] * right[k]
    return total


@helper
def _set_weight(weights, node, weight):
    """Set `weight` to that of a node at the present belief."""
    for k in range(weight.size):
        weight[k] = weights.belief[k] * weights.likelihood[node, k]


@helper
def _one_step(model, s, weight):
    """Return the lower bound min over choices of w·g; 0 at a goal."""
    best = np.inf
    for c in range(np.uint64(model.choice_ptr[s]), np.uint64(model.choice_ptr[s + 1])):
        total = 0.0
        for k in range(weight.size):
            total += weight[k] * model.gap[c, k]
        best = min(best, total)
    return best if model.choice_ptr[s] < model.choice_ptr[s + 1] else 0.0


@helper
def _second_step(model, c, weight, scratch):
    """Return the sum over the outcomes of a choice of their bounds of one step."""
    total = 0.0
    for t in range(np.uint64(model.trans_ptr[c]), np.uint64(model.trans_ptr[c + 1])):
        most = 0.0
        for k in range(weight.size):
            scratch[k] = weight[k] * model.prob[t, k]
            most = max(most, scratch[k])
        if most > 0.0:
            total += _one_step(model, model.successor[t], scratch)
    return total


@helper
def _append(item, at_state, used, group, s):
    """Add an item to the list of a state, in a new block if the last one is full; return its place."""
    items = at_state[s]
    at = items.newest + 1
    if items.number % BLOCK == 0:
        at = used[group]
        used[group] += BLOCK
    item[at].older = items.newest
    items.newest = at
    items.number += 1
    return at


@helper
def _older(item, at):
    """Return the place of the item before another one in the list of a state."""
    return at - 1 if at % BLOCK else item[at].older


@helper
def _add_vector(vectors, s, choice, alpha):
    """Add a vector to a state, without its followers; return its number."""
    v = _append(vectors.vector, vectors.at_state, vectors.used, VECTORS, s)
    vectors.vector[v].choice = choice
    vectors.vector[v].owner = s + 1
    vectors.vector[v].lasts = 0
    for k in range(alpha.size):
        vectors.alpha[v, k] = min(alpha[k], HUGE)
    return v


@kernel("BeliefNodes Weights VectorLists PointLists i1 int int")
def scan(graph, weights, vectors, points, chosen, first, last):
    """Compare nodes with the new vectors and points of their states. Different nodes may be done at the same time.

    An expanded node gets no link here: other threads may be reading its lower bound.
    """
    weight = np.empty(weights.belief.size)
    for i in range(first, last):
        node = chosen[i]
        _set_weight(weights, node, weight)
        _scan_vectors(graph.node, vectors, node, weight)
        if graph.node[node].first_action == NONE:
            for k in range(weight.size):
                weight[k] = max(weights.likelihood[node, k], TINY)
            _scan_points(graph.node, points, node, weight)


@helper
def _scan_vectors(nodes, vectors, node, weight):
    """Take the best of the new vectors of the node's state."""
    row = nodes[node]
    items = vectors.at_state[row.state]
    number = items.number - row.seen_vectors
    row.vector, row.upper = _best_vector(vectors, row.state, weight, number, np.int64(row.vector), row.upper)
    row.seen_vectors = items.number


@helper
def _best_vector(vectors, s, weight, number, arg, best):
    """Return the best of the newest vectors of a state for a weight, and its value; or `arg` and `best`."""
    at = np.int64(vectors.at_state[s].newest)
    for _ in range(number):
        total = 0.0
        for k in range(weight.size):
            total += weight[k] * vectors.alpha[np.uint64(at), k]
        if total < best:
            best = total
            arg = at
        at = _older(vectors.vector, at)
    return arg, best


@helper
def _scan_points(nodes, points, node, likelihood):
    """Link to the best of the new points of the node's state."""
    row = nodes[node]
    items = points.at_state[row.state]
    best = row.lower
    at = np.int64(items.newest)
    for _ in range(items.number - row.seen_points):
        other = points.point[np.uint64(at)].node
        value = nodes[other].lower
        if value > best and other != node:
            # Most points fail at one of the first samples: the others are not compared.
            least = best / (SAFE * value)
            share = HUGE
            for k in range(likelihood.size):
                share = min(share, likelihood[k] * points.inverse[np.uint64(at), k])
                if share <= least:
                    break
            share *= SAFE
            if share * value > best:
                best = share * value
                row.link = other
                row.link_share = share
        at = _older(points.point, at)
    row.seen_points = items.number
    row.lower = best


@helper
def _set_first_bounds(model, vectors, row, weight):
    """Set the bounds of a node to those of one step and of its vector."""
    row.upper = _dot(weight, vectors.alpha[row.vector])
    row.lower = SAFE * _one_step(model, row.state, weight)


@kernel("GapModel BeliefNodes Weights VectorLists int int")
def reset_bounds(model, graph, weights, vectors, first, last):
    """Begin again at another belief, with the first bounds. Different nodes may be done at the same time."""
    weight = np.empty(weights.belief.size)
    for i in range(first, last):
        node = np.int32(i)
        row = graph.node[node]
        _set_weight(weights, node, weight)
        if row.first_action != NONE:
            for a in range(row.actions):
                action = graph.action[row.first_action + a]
                action.step = _dot(weight, model.gap[model.choice_ptr[row.state] + a])
                action.rest = -1.0
        _set_first_bounds(model, vectors, row, weight)


@helper
def _cost_of(graph, node, at, side):
    """Return the cost of an action with edges, by the bounds of one side of the nodes that follow.

    A node that is its own child repeats the action until it leaves.
    """
    action = graph.action[at]
    total = action.step
    again = 0.0
    for e in range(np.uint64(action.first_edge), np.uint64(action.first_edge + action.outcomes)):
        child = graph.child[e]
        if child == node:
            again += graph.share[e]
        elif child != NONE:
            row = graph.node[np.uint32(child)]
            total += graph.share[e] * (row.upper if side == UPPER else row.lower)
    # A node that is never left does not reach a goal; the share is rounded down, so that it is below one.
    return total / (1.0 - again) if again < SURE else FORBIDDEN


@helper
def _best_action(graph, node, side):
    """Return the action of an expanded node that costs least by the bounds of one side, and that cost.

    Actions without edges have no upper bound.
    """
    row = graph.node[node]
    best = np.inf
    arg = 0
    for a in range(row.actions):
        at = row.first_action + a
        action = graph.action[at]
        if action.first_edge != NONE:
            value = _cost_of(graph, node, at, side)
        else:
            value = np.inf if side == UPPER else action.step + max(action.rest, 0.0)
        if value < best:
            best = value
            arg = a
    return arg, best


@helper
def _implied_lower(graph, node):
    """Return the lower bound of a node that follows from its actions and its link."""
    row = graph.node[node]
    implied = 0.0
    if row.first_action != NONE:
        _, best = _best_action(graph, node, LOWER)
        implied = SAFE * best
    if row.link != NONE:
        implied = max(implied, row.link_share * graph.node[row.link].lower)
    return implied


@helper
def _backup_upper(model, graph, weights, vectors, node, weight, alpha):
    """Make a new vector of the best action by the upper bounds, if it lowers the upper bound of the node enough."""
    row = graph.node[node]
    a, best = _best_action(graph, node, UPPER)
    if not best < row.upper - WORTH * (row.upper - row.lower) - 1e-11 * row.upper:
        return
    begin = vectors.used[FOLLOWERS]
    if vectors.used[VECTORS] + 2 * BLOCK > vectors.vector.size or begin + graph.widest > vectors.follower.size:
        return
    c = model.choice_ptr[row.state] + a
    _combine(model, graph, vectors, node, a, weight, alpha)
    _set_weight(weights, node, weight)
    total = _dot(weight, alpha)
    if not total < row.upper:
        return
    v = _add_vector(vectors, row.state, np.int32(c), alpha)
    vectors.vector[v].first_follower = begin
    vectors.used[FOLLOWERS] += model.trans_ptr[c + 1] - model.trans_ptr[c]
    for i in range(begin, vectors.used[FOLLOWERS]):
        if vectors.follower[i] == ITSELF:
            vectors.follower[i] = v
    row.upper = total
    row.vector = v


@helper
def _combine(model, graph, vectors, node, a, leave, alpha):
    """Set `alpha` to the regrets of an action and then the vectors of its children, and list these as followers."""
    row = graph.node[node]
    c = model.choice_ptr[row.state] + a
    first_edge = graph.action[row.first_action + a].first_edge
    for k in range(alpha.size):
        alpha[k] = model.gap[c, k] if model.gap[c, k] < FORBIDDEN else HUGE
        leave[k] = 1.0
    for i in range(model.trans_ptr[c + 1] - model.trans_ptr[c]):
        t = model.trans_ptr[c] + i
        to = model.successor[t]
        child = graph.child[first_edge + i]
        follower = NONE
        if child == node:
            follower = ITSELF
            for k in range(alpha.size):
                leave[k] -= model.prob[t, k]
        elif model.choice_ptr[to] < model.choice_ptr[to + 1]:
            follower = vectors.fallback[to] if child == NONE else graph.node[child].vector
            for k in range(alpha.size):
                if vectors.alpha[follower, k] < HUGE:
                    alpha[k] += model.prob[t, k] * vectors.alpha[follower, k]
                elif model.prob[t, k] > 0.0:
                    alpha[k] = HUGE
        vectors.follower[vectors.used[FOLLOWERS] + i] = follower
    for k in range(alpha.size):
        alpha[k] = min(alpha[k] / leave[k], HUGE) if leave[k] > NEVER else HUGE


@kernel("GapModel BeliefNodes Weights VectorLists Walk float bool")
def backup(model, graph, weights, vectors, walk, tiny, everywhere):
    """Visit the graph from the root, depth first; back up each node when it is left; return how many were visited.

    With `everywhere` all edges are followed and the lower bounds backed up. Otherwise the walk follows the best actions
    by the lower bounds, skips nodes whose bounds differ by at most `tiny`, and backs up both bounds; it leaves the best
    action of each visited node and its reach.
    """
    weight = np.empty(weights.belief.size)
    scratch = np.empty(weights.belief.size)
    graph.used[STAMP] += 1
    stamp = graph.used[STAMP]
    filled = 0
    top = 0
    walk.stack[0] = 0
    walk.place[0] = -1
    graph.node[0].stamp = stamp
    while top >= 0:
        node = walk.stack[top]
        row = graph.node[node]
        if walk.place[top] < 0:
            walk.place[top] = 0
            if not everywhere:
                row.reach = 0.0
                _choose_action(model, graph, weights, node, weight, scratch)
        child, walk.place[top] = _next_child(graph, node, walk.place[top], tiny, everywhere)
        if child != NONE:
            graph.node[child].stamp = stamp
            top += 1
            walk.stack[top] = child
            walk.place[top] = -1
        else:
            row.lower = max(row.lower, _implied_lower(graph, node))
            if not everywhere and row.first_action != NONE:
                _backup_upper(model, graph, weights, vectors, node, weight, scratch)
            walk.order[filled] = node
            filled += 1
            top -= 1
    if not everywhere:
        _set_reach(graph, walk.order, filled)
    return filled


@helper
def _choose_action(model, graph, weights, node, weight, scratch):
    """Choose the best action by the lower bounds, once it has the bound of two steps; NONE if it is not expanded."""
    row = graph.node[node]
    row.best = NONE
    if row.first_action == NONE:
        return
    while True:
        a, _ = _best_action(graph, node, LOWER)
        action = graph.action[row.first_action + a]
        if action.first_edge != NONE or action.rest >= 0.0:
            break
        _set_weight(weights, node, weight)
        action.rest = _second_step(model, model.choice_ptr[row.state] + a, weight, scratch)
    row.best = a


@helper
def _next_child(graph, node, place, tiny, everywhere):
    """Return the next child of a node that the walk has not visited, or NONE; and the place after its edge."""
    row = graph.node[node]
    if row.first_action == NONE:
        return np.int32(NONE), place
    first = row.first_action if everywhere else row.first_action + row.best
    last = row.first_action + row.actions if everywhere else first + 1
    before = 0
    for at in range(first, last):
        action = graph.action[at]
        if action.first_edge != NONE:
            for i in range(max(place - before, 0), action.outcomes):
                child = graph.child[action.first_edge + i]
                if child == NONE or graph.node[child].stamp == graph.used[STAMP]:
                    continue
                if graph.node[child].upper - graph.node[child].lower > tiny:
                    return child, before + i + 1
            before += action.outcomes
    return np.int32(NONE), place


@helper
def _set_reach(graph, order, filled):
    """Set the weight of each visited node's bounds in those of the root: the product of the shares, over all paths."""
    graph.node[0].reach = 1.0
    for i in range(filled - 1, -1, -1):
        node = order[i]
        row = graph.node[node]
        if row.best == NONE:
            continue
        action = graph.action[row.first_action + row.best]
        if action.first_edge == NONE:
            continue
        again = 0.0
        for e in range(action.first_edge, action.first_edge + action.outcomes):
            if graph.child[e] == node:
                again += graph.share[e]
        if again < SURE:
            row.reach /= 1.0 - again
        for e in range(action.first_edge, action.first_edge + action.outcomes):
            child = graph.child[e]
            if child >= 0 and child != node and graph.node[child].stamp == graph.used[STAMP]:
                graph.node[child].reach += row.reach * graph.share[e]


@kernel("BeliefNodes i1 int int float")
def relax(graph, order, filled, sweeps, tolerance):
    """Back up the lower bounds of visited nodes in sweeps, for cycles, until none rises by more than a fraction.

    In a cycle that is seldom left, each sweep raises the bounds by a similar small part of the total. So every few
    sweeps all bounds are raised by a multiple of the last rise, as far as they still follow from each other.
    """
    start = np.empty(filled)
    rise = np.empty(filled)
    for sweep in range(sweeps):
        rising = False
        for i in range(filled):
            row = graph.node[order[i]]
            before = row.lower
            row.lower = max(before, _implied_lower(graph, order[i]))
            start[i] = row.lower
            rise[i] = start[i] - before
            rising |= rise[i] > before * tolerance
        if not rising:
            break
        if sweep % EXTRAPOLATE_EVERY == EXTRAPOLATE_EVERY - 1:
            _extrapolate(graph, order, start, rise)


@helper
def _extrapolate(graph, order, start, rise):
    """Raise all lower bounds by the largest multiple of their last rise, of those tried, that holds."""
    times = 1.0
    while times < LARGEST_MULTIPLE and _holds(graph, order, start, rise, 4.0 * times):
        times *= 4.0
    for i in range(start.size):
        graph.node[order[i]].lower = start[i] + (times * rise[i] if times > 1.0 else 0.0)


@helper
def _holds(graph, order, start, rise, times):
    """Raise the lower bounds; return whether each that rises is at most what follows from the others."""
    for i in range(start.size):
        graph.node[order[i]].lower = start[i] + times * rise[i]
    for i in range(start.size):
        if rise[i] > 0.0:
            lower = graph.node[order[i]].lower
            if lower > ROUNDED * _implied_lower(graph, order[i]) or lower > FORBIDDEN:
                return False
    return True
