"""The best deterministic table of each option, by branch and bound, with a proof.

Times are decided one after the other, and the slots of a time one after the other. Against a belief the rest is bounded
by best trees, which know more than tables do: one tree from each outcome of a slot that is not decided, for each of its
choices, and one tree from each state at the next time for all slots that are decided. Each node of the search improves
the belief of the node above by a few steps. The last time is simpler: see `last_time_kernels`.
"""

from collections import namedtuple

import numpy as np

from rue._jit import declare, inlined
from rue.recursion.inner.last_time_kernels import NodeSearch, _insert, _last_layer, _step_belief
from rue.recursion.inner.matrix_kernels import _keep_positive
from rue.recursion.inner.option_tree_kernels import (
    TreeSearch,
    _add_plan_cost,
    _best_tree,
    _cheapest,
    _copy,
    _largest,
    _layer,
    _number_states,
    _plan_cost,
    _row_cost,
    _worst_cost,
    helper,
    kernel,
)
from rue.recursion.inner.table_kernels import _table, _table_row

# Steps towards a better belief: before the search, for options of two steps and of more, and at each node.
FEW_ROOT_STEPS, ROOT_STEPS, NODE_STEPS = 8, 60, 3

TableMemory = namedtuple("TableMemory", "walk best search last beliefs flow plan column weight budget")
TableMemory.__doc__ = (
    """Memory of the search: also a plan and its cost, the weights of a table, and a budget of nodes."""
)
declare(TableMemory, "HistoryWalk BestTree TableSearch LastTime Beliefs Flow i1 f1 f1 int")


@kernel("l1 OptionArrays SlotLayers Tables OptionRows Round Found TableMemory")
def improve_tables(places, model, layers, tables, rows, given, found, memory):
    """Find the best deterministic table for each option in `places`; return the number of nodes, and of budgets spent.

    `floor[i]` becomes a lower bound on the cost of every table: the least cost found, or `level[i]` if none is below
    that, as no other is searched for; a weaker one where the budget of nodes was spent.
    """
    tree = TreeSearch(model, given.last_cost, memory.walk, memory.best, given.stop)
    beliefs, search = memory.beliefs, memory.search
    node = NodeSearch(search, memory.last, beliefs, memory.plan, memory.column)
    nodes = np.zeros(2, np.int64)  # how many, and when to give up
    spent = 0
    for x in range(places.size):
        if given.stop[0]:
            break
        i = places[x]
        level = given.level[i]
        bound = _improve_belief(tree, layers.root[i], level, found.belief[i], beliefs, memory.plan, memory.column)
        found.floor[i] = level
        if bound >= level:
            continue
        nodes[1] = nodes[0] + memory.budget
        best = _search(tree, layers, i, node, level, nodes)
        if given.stop[0] or nodes[0] > nodes[1]:
            found.floor[i] = bound
            spent += 1
        elif best < level:
            found.floor[i] = best
        if not best < level:
            continue
        paid, share = rows.paid[i], rows.share[rows.ptr[i] : rows.ptr[i + 1]]
        present = np.inf
        for e in range(share.shape[0]):
            if _largest(share[e]) > 0.0:  # there is an option
                present = _worst_cost(layers, i, paid, share, given.value)
                break
        first, past = _table(layers, tables, i)
        before = memory.weight[: past - first]
        _copy(tables.weight[first:past], before)
        _write_table(model, layers, i, search.best_pick, tables)
        _table_row(i, model, layers, tables, rows, memory.flow)
        found.carried[i] = _weight_at_ends(layers, i, paid, share, given.lowered, given.weight)
        if given.accept and _worst_cost(layers, i, paid, share, given.value) < present - given.tolerance:
            found.changed[i] = True
        else:
            _copy(before, tables.weight[first:past])
            _table_row(i, model, layers, tables, rows, memory.flow)
    return nodes[0], spent


@helper
def _improve_belief(tree, root, level, belief, beliefs, plan, column):
    """Improve a belief by steps of a subgradient method, until it proves `level`; return the bound that it proves.

    The result goes to `belief` and to `beliefs.fixed`.
    """
    steps = tree.model.steps
    _copy(belief, beliefs.trial)
    _keep_positive(beliefs.trial)
    _copy(beliefs.trial, beliefs.better)
    bound = -np.inf
    for _ in range(ROOT_STEPS if steps > 2 else FEW_ROOT_STEPS):
        _copy(beliefs.trial, tree.walk.held[0])
        now = _best_tree(tree, root, steps)
        if now > bound:
            bound = now
            _copy(beliefs.trial, beliefs.better)
        if bound >= level or tree.stop[0]:
            break
        _plan_cost(tree, root, True, plan, column)
        if not _step_belief(beliefs.trial, column, level - now):
            break
    _copy(beliefs.better, belief)
    _copy(beliefs.better, beliefs.fixed)
    return bound


@helper
def _search(tree, layers, i, node, best, nodes):
    """Search all deterministic tables of option i; return the least cost below `best`, else `best`.

    It gives up when `nodes[0]` goes over `nodes[1]`, or when it is told to stop.
    """
    steps = layers.steps
    search = node.search
    active, depth, base, belief = search.active, search.depth, search.base, search.belief
    active[0] = 1
    search.slot[0, 0] = 0
    search.occupancy[0, 0, :] = 1.0
    base[0, :] = 0.0
    _copy(node.beliefs.fixed, belief[0, 0])
    for time in range(1, steps):
        _number_states(layers, i, time, search.number[time])
    time = np.int64(0)
    opening = True
    while time >= 0:
        if tree.stop[0] or nodes[0] > nodes[1]:
            return best
        if opening and (time == steps - 1 or active[time] == 0):
            for later in range(time + 1, steps):  # a goal was reached on all ways
                active[later] = 0
            if time < steps - 1:
                _copy(base[time], base[steps - 1])
                _copy(belief[time, 0], belief[steps - 1, 0])
            best = _last_layer(tree, layers, i, node, best, nodes)
            found = False
        elif opening:
            found = _open_layer(tree, layers, i, time, node, best, nodes)
        else:
            found = _next_picks(tree, layers, i, time, node, best, nodes)
        opening = found
        if found:
            _next_layer(tree.model, layers, i, time, active[time], search)
            _copy(belief[time, depth[time]], belief[time + 1, 0])
            time += 1
        else:
            time -= 1
    return best


@helper
def _open_layer(tree, layers, i, time, node, best, nodes):
    """Begin to decide a time; return whether there are picks of all its active slots that may cost less than `best`."""
    search = node.search
    size = search.active[time]
    begin, _ = _layer(layers, i, time)
    choice_ptr = tree.model.choice_ptr
    for w in range(size):
        s = layers.state[begin + search.slot[time, w]]
        search.order[time, w] = w
        search.options[time, w] = choice_ptr[s + 1] - choice_ptr[s]
        for a in range(search.options[time, w]):
            search.option[time, w, a] = choice_ptr[s] + a
    depth = np.int64(0)
    search.first[time] = depth
    search.depth[time] = depth
    _open_node(tree, layers, i, time, depth, node, best)
    if search.bound[time, 0] >= best:
        return False
    depth = _order_layer(tree, time, node, best)
    search.first[time] = depth
    search.depth[time] = depth
    if depth == size:
        _copy(search.belief[time, 0], search.belief[time, depth])
        return True
    if depth > 0:
        _copy(search.belief[time, 0], search.belief[time, depth])
        _open_node(tree, layers, i, time, depth, node, best)
        if search.bound[time, depth] >= best:
            return False
    _rank_choices(tree, time, depth, node)
    return _next_picks(tree, layers, i, time, node, best, nodes)


@helper
def _next_picks(tree, layers, i, time, node, best, nodes):
    """Move to the next picks of all active slots of a time that may cost less than `best`; return whether there are."""
    search = node.search
    order, options, pick, pointer = search.order[time], search.options[time], search.pick[time], search.pointer[time]
    rank, extra, bound, belief = search.rank[time], search.extra[time], search.bound[time], search.belief[time]
    size, j = search.active[time], search.depth[time]
    if j == size:
        j -= 1
    while j >= search.first[time]:
        w, a = order[j], pointer[j]
        if a == options[w] or bound[j] + (extra[j, a] - extra[j, 0]) >= best:
            j -= 1
            continue
        pointer[j] = a + 1
        pick[w] = rank[j, a]
        nodes[0] += 1
        if nodes[0] > nodes[1] or tree.stop[0]:
            return False
        _copy(belief[j], belief[j + 1])
        if j + 1 == size:
            search.depth[time] = size
            return True
        _open_node(tree, layers, i, time, j + 1, node, best)
        if not bound[j + 1] >= best:
            j += 1
            _rank_choices(tree, time, j, node)
    return False


@helper
def _open_node(tree, layers, i, time, depth, node, best):
    """Improve the belief of a node, where the first `depth` slots of a time are decided, and its bound."""
    search, trial, column = node.search, node.beliefs.trial, node.column
    _next_layer(tree.model, layers, i, time, depth, search)
    _copy(search.belief[time, depth], trial)
    top = -np.inf
    for _ in range(NODE_STEPS if time + depth > 0 else 1):  # at the root that has been done
        bound = _node_bound(tree, layers, i, time, depth, node)
        if bound > top:
            top = bound
            _copy(trial, search.belief[time, depth])
        if top >= best or tree.stop[0] or not _step_belief(trial, column, best - bound):
            break
    search.bound[time, depth] = top


@helper
def _node_bound(tree, layers, i, time, depth, node):
    """Return the bound of a node by the belief `beliefs.trial`, and write the cost of its trees to `column`."""
    search, trial, column = node.search, node.beliefs.trial, node.column
    left = layers.steps - time - 1
    total = 0.0
    for k in range(trial.size):
        column[k] = search.base[time + 1, k]
        total += trial[k] * column[k]
    begin, _ = _layer(layers, i, time + 1)
    for x in range(search.active[time + 1]):
        to = layers.state[begin + search.slot[time + 1, x]]
        total += _bound_tree(tree, to, left, search.occupancy[time + 1, x], trial)
        _add_tree(tree, to, left, search.occupancy[time + 1, x], node.plan, column)
    for j in range(depth, search.active[time]):
        w = search.order[time, j]
        least = np.inf
        best = np.int64(0)
        for a in range(search.options[time, w]):
            cost = _bound_choice(tree, search.option[time, w, a], left, search.occupancy[time, w], node.beliefs)
            if cost < least:
                least = cost
                best = a
        total += least
        _add_choice(tree, search.option[time, w, best], left, search.occupancy[time, w], node)
    return total


@inlined
def _bound_tree(tree, root, left, here, belief):
    """Return the cost of the best tree with some steps left from a state that is reached with probabilities `here`."""
    held = tree.walk.held[0]
    for k in range(belief.size):
        held[k] = belief[k] * here[k]
    if left > 1:
        return _best_tree(tree, root, left)
    choice_ptr = tree.model.choice_ptr
    least, c = _cheapest(choice_ptr[root], choice_ptr[root + 1], tree.last_cost, held)
    tree.best.taken[0] = c
    return least


@inlined
def _add_tree(tree, root, left, here, plan, column):
    """Add the cost of the tree that was just found, in each sample, to `column`; none is found once told to stop."""
    if left > 1 and tree.stop[0]:
        return
    first = tree.model.steps - left
    _copy(here, tree.walk.held[first])
    _add_plan_cost(tree, root, first, True, plan, column)


@helper
def _bound_choice(tree, c, left, here, beliefs):
    """Return the cost of a choice against the belief `trial`, with best trees from its outcomes on."""
    model, belief, after = tree.model, beliefs.trial, beliefs.here
    cost = 0.0
    for k in range(belief.size):
        cost += belief[k] * here[k] * model.gap[c, k]
    for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
        to = model.successor[t]
        if to != model.goal:
            for k in range(belief.size):
                after[k] = here[k] * model.prob[t, k]
            cost += _bound_tree(tree, to, left, after, belief)
    return cost


@helper
def _add_choice(tree, c, left, here, node):
    """Add the cost of a choice, with best trees from its outcomes on, in each sample, to `column`."""
    model, belief, after, column = tree.model, node.beliefs.trial, node.beliefs.here, node.column
    for k in range(belief.size):
        column[k] += here[k] * model.gap[c, k]
    for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
        to = model.successor[t]
        if to != model.goal:
            for k in range(belief.size):
                after[k] = here[k] * model.prob[t, k]
            _bound_tree(tree, to, left, after, belief)
            _add_tree(tree, to, left, after, node.plan, column)


@helper
def _order_layer(tree, time, node, best):
    """Drop choices that cost too much, and order the slots of a time; return how many have one choice left.

    These come first, then those whose choices differ most.
    """
    search, column, total = node.search, node.column, node.last.total
    order, options, option = search.order[time], search.options[time], search.option[time]
    rank, extra = search.rank[time, 0], search.extra[time, 0]
    size, left = search.active[time], tree.model.steps - time - 1
    _copy(search.belief[time, 0], node.beliefs.trial)
    for w in range(size):
        here = search.occupancy[time, w]
        for a in range(options[w]):
            _insert(rank, extra, a, option[w, a], _bound_choice(tree, option[w, a], left, here, node.beliefs))
        kept = np.int64(0)
        while kept < options[w] and not search.bound[time, 0] + (extra[kept] - extra[0]) >= best:
            option[w, kept] = rank[kept]
            kept += 1
        options[w] = kept
        width = np.inf
        if kept > 1 and size > 1:
            width = 0.0
            for a in range(kept):
                column[:] = 0.0
                _add_choice(tree, option[w, a], left, here, node)
                for k in range(column.size):
                    if a == 0:
                        total[k] = column[k]
                    width = max(width, abs(column[k] - total[k]))
        _insert(order, node.last.spread, w, w, -width)
    count = np.int64(0)
    while count < size and options[order[count]] == 1:
        search.pick[time, order[count]] = 0
        count += 1
    return count


@inlined
def _rank_choices(tree, time, depth, node):
    """Sort the choices of the next slot at a node by their cost under its belief."""
    search = node.search
    w = search.order[time, depth]
    left = tree.model.steps - time - 1
    _copy(search.belief[time, depth], node.beliefs.trial)
    for a in range(search.options[time, w]):
        cost = _bound_choice(tree, search.option[time, w, a], left, search.occupancy[time, w], node.beliefs)
        _insert(search.rank[time, depth], search.extra[time, depth], a, a, cost)
    search.pointer[time, depth] = 0


@helper
def _next_layer(model, layers, i, time, depth, search):
    """Compute the probabilities and the cost paid after the picks of the first `depth` active slots of a time."""
    occupancy, following = search.occupancy[time], search.occupancy[time + 1]
    number, base = search.number[time + 1], search.base[time + 1]
    samples = base.size
    begin, end = _layer(layers, i, time + 1)
    size = end - begin
    _copy(search.base[time], base)
    following[:size, :] = 0.0
    for j in range(depth):
        w = search.order[time, j]
        here = occupancy[w]
        c = search.option[time, w, search.pick[time, w]]
        for k in range(samples):
            base[k] += here[k] * model.gap[c, k]
        for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
            to = model.successor[t]
            if to != model.goal:
                for k in range(samples):
                    following[number[to], k] += here[k] * model.prob[t, k]
    count = 0
    for w in range(size):
        if _largest(following[w]) > 0.0:
            search.slot[time + 1, count] = w
            if count < w:
                _copy(following[w], following[count])
            count += 1
    search.active[time + 1] = count


@helper
def _write_table(model, layers, i, pick, tables):
    """Write deterministic choices as the table of option i: `pick[time, rank]`, -1 for none."""
    first, past = _table(layers, tables, i)
    tables.weight[first:past] = 0.0
    for time in range(layers.steps):
        begin, end = _layer(layers, i, time)
        for w in range(end - begin):
            if pick[time, w] >= 0:
                first = model.choice_ptr[layers.state[begin + w]]
                tables.weight[tables.ptr[begin + w] + pick[time, w] - first] = 1.0


@helper
def _weight_at_ends(layers, i, paid, share, value, weight):
    """Return the expected weight at the ends in the sample that is worst for option i."""
    worst = 0
    most = -np.inf
    for k in range(paid.size):
        cost = _row_cost(layers, i, paid, share, value, k)
        if cost > most:
            most = cost
            worst = k
    begin, end = _layer(layers, i, layers.steps)
    total = 0.0
    for e in range(end - begin):
        total += share[e, worst] * weight[layers.state[begin + e]]
    return total
