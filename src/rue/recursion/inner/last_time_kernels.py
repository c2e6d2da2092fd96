"""The last time of a deterministic table, by branch and bound: one choice for each slot, all others being decided.

The cost of each choice in each sample is known, and one vector out of each slot is to be chosen so that the largest
entry of the sum is small. Against a belief every slot takes its cheapest vector, which is a lower bound, and the sum of
these vectors is a candidate, and says how to move the belief. Every node of the search has a belief of its own, which
begins with that of the node above. Slots whose vectors differ most are decided first: what is left without them is
nearly convex, so that beliefs prove nearly all of it.
"""

from collections import namedtuple

import numpy as np

from rue._jit import declare, inlined
from rue.recursion.inner.matrix_kernels import _keep_positive
from rue.recursion.inner.option_tree_kernels import _cheapest, _copy, _largest, _layer, helper

# Steps towards a better belief: at first, and at each node.
LAST_STEPS, LAST_NODE_STEPS = 12, 2
# Nodes between two checks whether to stop.
NODES_PER_CHECK = 4096

TableSearch = namedtuple(
    "TableSearch",
    "number active slot pick best_pick options option order first rank extra bound pointer depth belief occupancy base",
)
TableSearch.__doc__ = """The branch and bound over tables; time comes first, then the active slot or the depth.

`active` counts the slots that can be reached, `slot` are their ranks in the layer, `number[S]` those of its states.
`option` are the choices of a slot that are left, `options` how many, `pick` the rank of the one that is tried, and
`best_pick` the best choice by rank in the layer. Slots are decided in `order`; the `first` ones have one choice each.
By depth, the slots decided so far: a `belief`, the `bound` that it proves, `rank` the next slot's choices by what they
cost more than its cheapest, `extra`, and `pointer` the next one to try; `depth` is the present one. `occupancy` is the
probability of a slot, `base` the cost paid before a time, in each sample.
"""
declare(TableSearch, "i2 l1 l2 l2 l2 l2 l3 l2 l1 l3 f3 f2 l2 l1 f3 f3 f2")

LastTime = namedtuple("LastTime", "cost partial lowest highest spread total")
LastTime.__doc__ = """The branching at the last time, in each sample: the cost of each choice, and sums of those picked.

Also bounds on the sums of the others, minus how much the vectors of a slot differ, and a sum.
"""
declare(LastTime, "f3 f2 f2 f2 f1 f1")

Beliefs = namedtuple("Beliefs", "fixed trial better here")
Beliefs.__doc__ = (
    """The belief of a root, the one that is tried, and the best one so far; also a history in each sample."""
)
declare(Beliefs, "f1 f1 f1 f1")

NodeSearch = namedtuple("NodeSearch", "search last beliefs plan column")
NodeSearch.__doc__ = """The memory of nodes: also a plan and its cost in each sample."""
declare(NodeSearch, "TableSearch LastTime Beliefs i1 f1")


@helper
def _step_belief(belief, column, gain):
    """Take a step of a subgradient method on the simplex to a bound higher by `gain`; return False if there is none."""
    samples = belief.size
    mean = 0.0
    for k in range(samples):
        mean += column[k]
    mean /= samples
    norm = 0.0
    for k in range(samples):
        norm += (column[k] - mean) ** 2
    if not norm > 0.0:
        return False
    for k in range(samples):
        belief[k] += gain / norm * (column[k] - mean)
    _keep_positive(belief)
    return True


@inlined
def _insert(rank, extra, count, a, cost):
    """Insert item a into a list of `count` that is sorted by cost."""
    j = count
    while j > 0 and extra[j - 1] > cost:
        extra[j] = extra[j - 1]
        rank[j] = rank[j - 1]
        j -= 1
    extra[j] = cost
    rank[j] = a


@helper
def _last_layer(tree, layers, i, node, best, nodes):
    """Find the best choices of the last time, given all others; return their cost if below `best`, else `best`.

    A few steps towards a better belief come first, which find or prune most of it.
    """
    search, last, time = node.search, node.last, layers.steps - 1
    _list_costs(tree, layers, i, search, last)
    _copy(search.base[time], last.partial[0])
    best = _open_sum(layers, i, node, np.int64(0), search.active[time], best)
    if search.bound[time, 0] >= best:
        return best
    size = _order_sum(search, last, time, best)
    return _branch(tree, layers, i, node, size, best, nodes)


@helper
def _list_costs(tree, layers, i, search, last):
    """List the choices of each slot of the last time, with their costs."""
    time = layers.steps - 1
    choice_ptr, last_cost, cost = tree.model.choice_ptr, tree.last_cost, last.cost
    begin, _ = _layer(layers, i, time)
    for w in range(search.active[time]):
        s = layers.state[begin + search.slot[time, w]]
        first = choice_ptr[s]
        search.order[time, w] = w
        search.options[time, w] = choice_ptr[s + 1] - first
        for a in range(choice_ptr[s + 1] - first):
            search.option[time, w, a] = first + a
            for k in range(cost.shape[2]):
                cost[w, a, k] = search.occupancy[time, w, k] * last_cost[first + a, k]


@helper
def _open_sum(layers, i, node, depth, size, best):
    """Improve the belief of a node at the last time, and its bound; return the least cost found below `best`, or that.

    The first `depth` of `size` slots are decided, and `last.partial[depth]` is the sum of their costs.
    """
    search, last, trial = node.search, node.last, node.beliefs.trial
    time = layers.steps - 1
    order, options, pick, cost = search.order[time], search.options[time], search.pick[time], last.cost
    total, decided = last.total, last.partial[depth]
    samples = trial.size
    _copy(search.belief[time, depth], trial)
    top = -np.inf
    steps = LAST_STEPS if depth == 0 else LAST_NODE_STEPS
    for _ in range(steps if depth < size else 1):
        bound = 0.0
        for k in range(samples):
            total[k] = decided[k]
            bound += trial[k] * total[k]
        for j in range(depth, size):
            w = order[j]
            least, a = _cheapest(np.int64(0), options[w], cost[w], trial)
            bound += least
            pick[w] = a
            for k in range(samples):
                total[k] += cost[w, a, k]
        worst = _largest(total)
        if worst < best:
            best = worst
            _keep_picks(layers, i, search)
        if bound > top:
            top = bound
            _copy(trial, search.belief[time, depth])
        if top >= best or not _step_belief(trial, total, best - bound):
            break
    search.bound[time, depth] = top
    return best


@helper
def _order_sum(search, last, time, best):
    """Drop choices that cost too much; order the slots that have several left, and return how many these are.

    The others are added to the sum of what is decided.
    """
    order, options, option, pick = search.order[time], search.options[time], search.option[time], search.pick[time]
    cost, lowest, highest = last.cost, last.lowest, last.highest
    decided, belief = last.partial[0], search.belief[time, 0]
    samples = belief.size
    size = np.int64(0)
    for w in range(search.active[time]):
        least, cheapest = _cheapest(np.int64(0), options[w], cost[w], belief)
        kept = np.int64(0)
        width = 0.0
        for a in range(options[w]):
            paid = 0.0
            for k in range(samples):
                paid += belief[k] * cost[w, a, k]
            if search.bound[time, 0] + (paid - least) >= best:
                continue
            for k in range(samples):
                width = max(width, abs(cost[w, a, k] - cost[w, cheapest, k]))
            if a == cheapest:
                cheapest = kept
            _copy(cost[w, a], cost[w, kept])
            option[w, kept] = option[w, a]
            kept += 1
        options[w] = kept
        if kept > 1:
            _insert(order, last.spread, size, w, -width)
            size += 1
        else:
            pick[w] = 0
            for k in range(samples):
                decided[k] += cost[w, 0, k]
    lowest[size, :] = 0.0
    highest[size, :] = 0.0
    for j in range(size - 1, -1, -1):
        w = order[j]
        for k in range(samples):
            low, high = np.inf, 0.0
            for a in range(options[w]):
                low = min(low, cost[w, a, k])
                high = max(high, cost[w, a, k])
            lowest[j, k] = lowest[j + 1, k] + low
            highest[j, k] = highest[j + 1, k] + high
    return size


@helper
def _rank_vectors(search, last, time, depth):
    """Sort the choices of the next slot at a node of the last time by their cost under its belief.

    One that costs no less than another in any sample that counts need not be tried: those do not count whose sum stays
    below the bound of the node whatever is picked.
    """
    w = search.order[time, depth]
    belief, rank, extra = search.belief[time, depth], search.rank[time, depth], search.extra[time, depth]
    bound, cost = search.bound[time, depth], last.cost[w]
    options = search.options[time, w]
    for a in range(options):
        paid = 0.0
        for k in range(belief.size):
            paid += belief[k] * cost[a, k]
        _insert(rank, extra, a, a, paid)
    kept = np.int64(1)
    for y in range(1, options):
        is_worse = False
        for x in range(kept):
            if not is_worse:
                is_worse = True
                for k in range(belief.size):
                    if cost[rank[x], k] > cost[rank[y], k]:
                        is_worse = is_worse and last.partial[depth, k] + last.highest[depth, k] < bound
        if not is_worse:
            rank[kept], extra[kept] = rank[y], extra[y]
            kept += 1
    if kept < options:
        extra[kept] = np.inf
    search.pointer[time, depth] = 0


@helper
def _branch(tree, layers, i, node, size, best, nodes):
    """Branch over `size` slots of the last time in order; return the least cost below `best`, else `best`."""
    search, last, time = node.search, node.last, layers.steps - 1
    order, options, pick, pointer = search.order[time], search.options[time], search.pick[time], search.pointer[time]
    rank, extra, bound, belief = search.rank[time], search.extra[time], search.bound[time], search.belief[time]
    cost, partial, lowest = last.cost, last.partial, last.lowest
    samples = node.column.size
    if size == 0:
        return _open_sum(layers, i, node, size, size, best)
    j = np.int64(0)
    _rank_vectors(search, last, time, j)
    while j >= 0:
        w, a = order[j], pointer[j]
        if a == options[w] or bound[j] + (extra[j, a] - extra[j, 0]) >= best:
            j -= 1
            continue
        pointer[j] = a + 1
        nodes[0] += 1
        if nodes[0] > nodes[1] or (nodes[0] % NODES_PER_CHECK == 0 and tree.stop[0]):
            return best
        c = rank[j, a]
        worst = 0.0
        for k in range(samples):
            partial[j + 1, k] = partial[j, k] + cost[w, c, k]
            worst = max(worst, partial[j + 1, k] + lowest[j + 1, k])
        if worst >= best:
            continue
        pick[w] = c
        _copy(belief[j], belief[j + 1])
        best = _open_sum(layers, i, node, j + 1, size, best)
        if j + 1 < size and not bound[j + 1] >= best:
            j += 1
            _rank_vectors(search, last, time, j)
    return best


@helper
def _keep_picks(layers, i, search):
    """Remember the choices that are tried at all times; slots that are not reached get -1."""
    for time in range(layers.steps):
        begin, end = _layer(layers, i, time)
        search.best_pick[time, : end - begin] = -1
        for w in range(search.active[time]):
            search.best_pick[time, search.slot[time, w]] = search.option[time, w, search.pick[time, w]]
