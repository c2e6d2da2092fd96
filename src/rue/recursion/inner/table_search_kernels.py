"""The best deterministic table of each option, by branch and bound, with a proof.

Times are decided one after the other. What is decided so far fixes the probabilities of the next slots, and the cost of
the rest is bounded by the best trees against a belief: trees know more than tables do. At the last time the cost of
every choice is a known vector, and one vector out of each slot is chosen.
"""

from collections import namedtuple

import numpy as np

from rue._jit import declare, inlined
from rue.recursion.inner.matrix_kernels import _keep_positive
from rue.recursion.inner.option_tree_kernels import (
    TreeSearch,
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

# Steps towards a better belief: before the search, for options of two steps and of more, and at each last time.
FEW_ROOT_STEPS, ROOT_STEPS, LAST_STEPS = 8, 60, 12
# Nodes between two checks whether to stop.
NODES_PER_CHECK = 4096

TableSearch = namedtuple(
    "TableSearch", "number active slot pick best_pick options option bound suffix gathered pointer depth occupancy base"
)
TableSearch.__doc__ = """The branch and bound over tables; time comes first, then the rank among the active slots.

`active` counts the slots that can be reached, `slot` are their ranks in the layer, `number[S]` those of its states.
`option` are the choices of a slot (at the last time: their ranks), by increasing `bound`, and `options` how many;
`pointer` the next one to try, `pick` the one that is tried, `best_pick` the best by rank in the layer. `gathered` is
the bound on the slots decided so far, `suffix` that on the others; `depth` the slots decided at a time. `occupancy` is
the probability of a slot, `base` the cost paid before a time, in each sample.
"""
declare(TableSearch, "i2 l1 l2 l2 l2 l2 l3 f3 f2 f2 l2 l1 f3 f2")

LastTime = namedtuple("LastTime", "cost partial lowest order spread")
LastTime.__doc__ = """The branching at the last time, in each sample: the cost of each choice, and sums of those picked.

Also lower bounds on the sums of the others, and the order of the slots, by the spread of their bounds.
"""
declare(LastTime, "f3 f2 f2 l1 f1")

Beliefs = namedtuple("Beliefs", "fixed trial better")
Beliefs.__doc__ = """The belief of the bounds, the one that is tried, and the best one so far."""
declare(Beliefs, "f1 f1 f1")

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
        best = _search(tree, layers, i, search, memory.last, beliefs, level, nodes)
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
        _write_table(layers, i, search.best_pick, tables)
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


@helper
def _search(tree, layers, i, search, last, beliefs, best, nodes):
    """Search all deterministic tables of option i; return the least cost below `best`, else `best`.

    It gives up when `nodes[0]` goes over `nodes[1]`, or when it is told to stop.
    """
    steps = layers.steps
    active, depth, base = search.active, search.depth, search.base
    active[0] = 1
    search.slot[0, 0] = 0
    search.occupancy[0, 0, :] = 1.0
    base[0, :] = 0.0
    for time in range(1, steps):
        _number_states(layers, i, time, search.number[time])
    time = np.int64(0)
    opening = True
    while time >= 0:
        if tree.stop[0] or nodes[0] > nodes[1]:
            return best
        if opening:
            opening = False
            if time == steps - 1 or active[time] == 0:
                for later in range(time + 1, steps):  # a goal was reached on all ways
                    active[later] = 0
                if time < steps - 1:
                    _copy(base[time], base[steps - 1])
                best = _last_layer(tree, layers, i, search, last, beliefs, best, nodes)
                time -= 1
                continue
            if _open_layer(tree, layers, i, time, search, beliefs.fixed) >= best or tree.stop[0]:
                time -= 1
                continue
        size = active[time]
        w = _next_picks(search, time, min(depth[time], size - 1), best, nodes)
        if w < 0:
            time -= 1
            continue
        depth[time] = size
        _next_layer(tree.model, layers, i, time, search)
        time += 1
        opening = True
    return best


@inlined
def _next_picks(search, time, w, best, nodes):
    """Move to the next choices of the active slots of a time whose bound is below `best`, from slot w; −1 if none."""
    pointer, gathered = search.pointer[time], search.gathered[time]
    suffix, bound = search.suffix[time], search.bound[time]
    options, pick = search.options[time], search.pick[time]
    size = search.active[time]
    while 0 <= w < size:
        a = pointer[w]
        if a < options[w] and gathered[w] + bound[w, a] + suffix[w + 1] < best:
            nodes[0] += 1
            pointer[w] = a + 1
            pick[w] = a
            gathered[w + 1] = gathered[w] + bound[w, a]
            w += 1
            pointer[w] = 0
        else:
            w -= 1
    return w


@helper
def _insert(option, bound, count, c, cost):
    """Insert a choice into a list of `count` that is sorted by bound."""
    j = count
    while j > 0 and bound[j - 1] > cost:
        bound[j] = bound[j - 1]
        option[j] = option[j - 1]
        j -= 1
    bound[j] = cost
    option[j] = c


@helper
def _open_layer(tree, layers, i, time, search, belief):
    """Bound every choice of the active slots of a time by the best trees against the belief; return the total."""
    model = tree.model
    held = tree.walk.held[0]
    suffix = search.suffix[time]
    samples = belief.size
    begin, _ = _layer(layers, i, time)
    size = search.active[time]
    left = layers.steps - time - 1
    paid = 0.0
    for k in range(samples):
        paid += belief[k] * search.base[time, k]
    search.gathered[time, 0] = paid
    for w in range(size):
        if tree.stop[0]:
            return np.inf
        s = layers.state[begin + search.slot[time, w]]
        here = search.occupancy[time, w]
        count = np.int64(0)
        for c in range(model.choice_ptr[s], model.choice_ptr[s + 1]):
            cost = 0.0
            for k in range(samples):
                cost += belief[k] * here[k] * model.gap[c, k]
            for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
                to = model.successor[t]
                if to != model.goal:
                    for k in range(samples):
                        held[k] = belief[k] * here[k] * model.prob[t, k]
                    cost += _best_tree(tree, to, left)
            _insert(search.option[time, w], search.bound[time, w], count, c, cost)
            count += 1
        search.options[time, w] = count
    suffix[size] = 0.0
    for w in range(size - 1, -1, -1):
        suffix[w] = suffix[w + 1] + search.bound[time, w, 0]
    search.pointer[time, 0] = 0
    search.depth[time] = 0
    return paid + suffix[0]


@helper
def _next_layer(model, layers, i, time, search):
    """Compute the probabilities and the cost paid after the choices that are tried at a time."""
    occupancy, following = search.occupancy[time], search.occupancy[time + 1]
    number, base = search.number[time + 1], search.base[time + 1]
    samples = base.size
    begin, end = _layer(layers, i, time + 1)
    size = end - begin
    _copy(search.base[time], base)
    following[:size, :] = 0.0
    for w in range(search.active[time]):
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
def _last_layer(tree, layers, i, search, last, beliefs, best, nodes):
    """Find the best choices of the last time, given all others; return their cost if below `best`, else `best`.

    The cost of each choice in each sample is fixed now: one vector out of each slot is to be chosen so that the largest
    entry of the sum is small. A few steps towards a better belief come first, which find or prune most of it, then
    branching with bounds by that belief and sample by sample.
    """
    time = layers.steps - 1
    choice_ptr, last_cost = tree.model.choice_ptr, tree.last_cost
    options, pick = search.options[time], search.pick[time]
    cost, total, base = last.cost, last.partial[0], search.base[time]
    trial = beliefs.trial
    samples = trial.size
    begin, _ = _layer(layers, i, time)
    size = search.active[time]
    for w in range(size):
        s = layers.state[begin + search.slot[time, w]]
        here = search.occupancy[time, w]
        first = choice_ptr[s]
        options[w] = choice_ptr[s + 1] - first
        for a in range(options[w]):
            for k in range(samples):
                cost[w, a, k] = here[k] * last_cost[first + a, k]
    _copy(beliefs.fixed, trial)
    top = -np.inf
    for _ in range(LAST_STEPS):
        bound = 0.0
        for k in range(samples):
            total[k] = base[k]
            bound += trial[k] * total[k]
        for w in range(size):
            least, a = _cheapest(np.int64(0), options[w], cost[w], trial)
            bound += least
            pick[w] = a
            for k in range(samples):
                total[k] += cost[w, a, k]
        worst = _largest(total)
        if worst < best:
            best = worst
            _keep_picks(choice_ptr, layers, i, search)
        if bound > top:
            top = bound
            _copy(trial, beliefs.better)
        if top >= best or not _step_belief(trial, total, best - bound):
            break
    if top >= best:
        return best
    _order_slots(search, last, time, beliefs.better)
    return _branch(tree, layers, i, search, last, beliefs.better, best, nodes)


@helper
def _order_slots(search, last, time, belief):
    """Sort the choices of each slot by their cost under a belief, and the slots by the spread of these costs."""
    options, suffix, lowest = search.options[time], search.suffix[time], last.lowest
    cost, order, spread = last.cost, last.order, last.spread
    samples = belief.size
    size = search.active[time]
    for w in range(size):
        option, bound = search.option[time, w], search.bound[time, w]
        for a in range(options[w]):
            paid = 0.0
            for k in range(samples):
                paid += belief[k] * cost[w, a, k]
            _insert(option, bound, a, a, paid)
        width = bound[options[w] - 1] - bound[0]
        j = w
        while j > 0 and spread[j - 1] < width:
            spread[j] = spread[j - 1]
            order[j] = order[j - 1]
            j -= 1
        spread[j] = width
        order[j] = w
    suffix[size] = 0.0
    lowest[size, :] = 0.0
    for j in range(size - 1, -1, -1):
        w = order[j]
        suffix[j] = suffix[j + 1] + search.bound[time, w, 0]
        for k in range(samples):
            low = np.inf
            for a in range(options[w]):
                low = min(low, cost[w, a, k])
            lowest[j, k] = lowest[j + 1, k] + low


@helper
def _branch(tree, layers, i, search, last, belief, best, nodes):
    """Branch over the slots of the last time in order; return the least cost below `best`, else `best`."""
    time = layers.steps - 1
    pointer, gathered = search.pointer[time], search.gathered[time]
    suffix, bound = search.suffix[time], search.bound[time]
    options, option, pick = search.options[time], search.option[time], search.pick[time]
    cost, partial, lowest, order = last.cost, last.partial, last.lowest, last.order
    samples = belief.size
    size = search.active[time]
    paid = 0.0
    for k in range(samples):
        partial[0, k] = search.base[time, k]
        paid += belief[k] * partial[0, k]
    gathered[0] = paid
    pointer[0] = 0
    j = 0
    while j >= 0:
        if j == size:
            worst = _largest(partial[size])
            if worst < best:
                best = worst
                _keep_picks(tree.model.choice_ptr, layers, i, search)
            j -= 1
            continue
        w = order[j]
        a = pointer[j]
        if a == options[w] or gathered[j] + bound[w, a] + suffix[j + 1] >= best:
            j -= 1
            continue
        pointer[j] = a + 1
        nodes[0] += 1
        if nodes[0] > nodes[1] or (nodes[0] % NODES_PER_CHECK == 0 and tree.stop[0]):
            return best
        c = option[w, a]
        worst = 0.0
        for k in range(samples):
            partial[j + 1, k] = partial[j, k] + cost[w, c, k]
            worst = max(worst, partial[j + 1, k] + lowest[j + 1, k])
        if worst >= best:
            continue
        pick[w] = c
        gathered[j + 1] = gathered[j] + bound[w, a]
        j += 1
        pointer[j] = 0
    return best


@helper
def _keep_picks(choice_ptr, layers, i, search):
    """Remember the choices that are tried at all times; slots that are not reached get -1."""
    for time in range(layers.steps):
        begin, end = _layer(layers, i, time)
        search.best_pick[time, : end - begin] = -1
        for w in range(search.active[time]):
            slot = search.slot[time, w]
            pick = search.pick[time, w]
            if time < layers.steps - 1:
                pick = search.option[time, w, pick] - choice_ptr[layers.state[begin + slot]]
            search.best_pick[time, slot] = pick


@helper
def _write_table(layers, i, pick, tables):
    """Write deterministic choices as the table of option i: `pick[time, rank]`, -1 for none."""
    first, past = _table(layers, tables, i)
    tables.weight[first:past] = 0.0
    for time in range(layers.steps):
        begin, end = _layer(layers, i, time)
        for w in range(end - begin):
            if pick[time, w] >= 0:
                tables.weight[tables.ptr[begin + w] + pick[time, w]] = 1.0


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
