"""Better randomised tables by alternation: all times but one are fixed, and that one is a linear program.

With the others fixed, the cost that each choice of the one time adds to each sample is known, so the best distributions
over them are a matrix game, solved by column generation. Every step is exact; all together find a local optimum.
"""

from collections import namedtuple

import numpy as np

from rue._jit import declare, inlined
from rue.recursion.inner.matrix_kernels import _is_known, solve_game
from rue.recursion.inner.option_tree_kernels import (
    _cheapest,
    _copy,
    _largest,
    _layer,
    _number_states,
    _worst_cost,
    helper,
    kernel,
)
from rue.recursion.inner.table_kernels import _table, _table_row

# Rounds over all times at most.
ROUNDS = 50

TimeCosts = namedtuple("TimeCosts", "occupancy to_go number base cost")
TimeCosts.__doc__ = """One time with all others fixed, in each sample: the probability of each slot and its cost to go.

Also the ranks `number[time, S]`, the cost paid before, and the cost that each choice adds.
"""
declare(TimeCosts, "f3 f3 i2 f1 f2")

TimeColumns = namedtuple("TimeColumns", "pick cost mix")
TimeColumns.__doc__ = """Columns of one time: the weights of all choices, the cost in each sample, and their mixture."""
declare(TimeColumns, "f2 f2 f1")

MixedMemory = namedtuple("MixedMemory", "trial best costs columns game flow starts")
MixedMemory.__doc__ = """Memory of the alternation: also two tables. `starts` is the number of tables to start from."""
declare(MixedMemory, "f1 f1 TimeCosts TimeColumns GameMemory Flow int")


@kernel("l1 OptionArrays SlotLayers Tables OptionRows Round Found MixedMemory")
def improve_mixed_tables(places, model, layers, tables, rows, given, found, memory):
    """Improve randomised tables by alternation; return the number of pivots.

    The first start is the present table, the second takes all choices with equal weights, the others are random, and
    the same each time. `floor[i]` is the cost of the best table found, which proves nothing.
    """
    pivots = 0
    costs = memory.costs
    for x in range(places.size):
        if given.stop[0]:
            break
        i = places[x]
        first, past = _table(layers, tables, i)
        own = tables.weight[first:past]
        trial, best_table = memory.trial[: past - first], memory.best[: past - first]
        for time in range(model.steps):
            _number_states(layers, i, time, costs.number[time])
        best = np.inf
        for start in range(memory.starts):
            if start == 0:
                _copy(own, trial)
            else:
                _draw_table(layers, i, tables.ptr, trial, start)
            worst = np.inf
            for _ in range(ROUNDS):
                before = worst
                for back in range(model.steps):
                    time = model.steps - 1 - back
                    _time_costs(model, layers, i, time, given.last_cost, tables.ptr, trial, costs)
                    begin, end = _layer(layers, i, time)
                    choice_ptr = tables.ptr[begin : end + 1]
                    worst, used = _solve_time(
                        choice_ptr, first, trial, costs, memory.columns, memory.game, given.tolerance
                    )
                    pivots += used
                if not worst < before - given.tolerance or given.stop[0]:
                    break
            if worst < best - given.tolerance:
                best = worst
                _copy(trial, best_table)
        found.floor[i] = best
        paid, share = rows.paid[i], rows.share[rows.ptr[i] : rows.ptr[i + 1]]
        present = _worst_cost(layers, i, paid, share, given.value)
        _copy(own, trial)
        _copy(best_table, own)
        _table_row(i, model, layers, tables, rows, memory.flow)
        if _worst_cost(layers, i, paid, share, given.value) < present - given.tolerance:
            found.changed[i] = True
        else:
            _copy(trial, own)
            _table_row(i, model, layers, tables, rows, memory.flow)
    return pivots


@helper
def _draw_table(layers, i, ptr, weight, start):
    """Write a table: all choices with equal weights for start 1, random ones for the others."""
    seed = np.uint64(2654435761) * np.uint64(start)
    begin, _ = _layer(layers, i, np.int64(0))
    end, _ = _layer(layers, i, layers.steps)
    first = ptr[begin]
    for slot in range(begin, end):
        total = 0.0
        for a in range(ptr[slot] - first, ptr[slot + 1] - first):
            weight[a] = 1.0
            if start > 1:  # xorshift
                seed ^= seed << np.uint64(13)
                seed ^= seed >> np.uint64(7)
                seed ^= seed << np.uint64(17)
                weight[a] = -np.log(1e-9 + float(seed >> np.uint64(11)) / 2.0**53)
            total += weight[a]
        for a in range(ptr[slot] - first, ptr[slot + 1] - first):
            weight[a] /= total


@helper
def _time_costs(model, layers, i, time, last_cost, ptr, weight, costs):
    """Compute the cost paid before a time, and the cost that each choice of that time adds, all other times fixed."""
    begin, _ = _layer(layers, i, np.int64(0))
    first = ptr[begin]
    costs.base[:] = 0.0
    costs.occupancy[0, 0, :] = 1.0
    for now in range(time):
        _move_on(model, layers, i, now, ptr, weight, costs)
    for now in range(layers.steps - 1, time - 1, -1):
        begin, end = _layer(layers, i, now)
        here, later, number = costs.to_go[now % 2], costs.to_go[(now + 1) % 2], costs.number[now + 1]
        if now > time:
            here[: end - begin, :] = 0.0
        for slot in range(begin, end):
            s = layers.state[slot]
            for a in range(ptr[slot + 1] - ptr[slot]):
                c = model.choice_ptr[s] + a
                row = costs.cost[ptr[slot] + a - first]
                if now == layers.steps - 1:
                    _copy(last_cost[c], row)
                else:
                    _add_cost_to_go(model, c, later, number, row)
                part = weight[ptr[slot] + a - first]
                if now == time:
                    for k in range(row.size):
                        row[k] *= costs.occupancy[time, slot - begin, k]
                elif part > 0.0:
                    for k in range(row.size):
                        here[slot - begin, k] += part * row[k]


@helper
def _move_on(model, layers, i, time, ptr, weight, costs):
    """Add the cost paid at a time to `base`, and compute the probabilities of the next slots."""
    occupancy, following = costs.occupancy[time], costs.occupancy[time + 1]
    number, base = costs.number[time + 1], costs.base
    samples = base.size
    first_slot, _ = _layer(layers, i, np.int64(0))
    first = ptr[first_slot]
    begin, end = _layer(layers, i, time)
    _, past = _layer(layers, i, time + 1)
    following[: past - end, :] = 0.0
    for slot in range(begin, end):
        here = occupancy[slot - begin]
        for a in range(ptr[slot + 1] - ptr[slot]):
            part = weight[ptr[slot] + a - first]
            if not part > 0.0:
                continue
            c = model.choice_ptr[layers.state[slot]] + a
            for k in range(samples):
                base[k] += part * here[k] * model.gap[c, k]
            for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
                to = model.successor[t]
                if to != model.goal:
                    for k in range(samples):
                        following[number[to], k] += part * here[k] * model.prob[t, k]


@inlined
def _add_cost_to_go(model, c, later, number, row):
    """Write the cost of choice c with the cost to go of the next slots to `row`."""
    samples = row.size
    for k in range(samples):
        row[k] = model.gap[c, k]
    for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
        to = model.successor[t]
        if to != model.goal:
            for k in range(samples):
                row[k] += model.prob[t, k] * later[number[to], k]


@helper
def _solve_time(ptr, first, weight, costs, columns, game, tolerance):
    """Find the best distributions at one time; return the cost of the table with them, and the number of pivots.

    The choices of its slots begin at `ptr`, less `first`, in `weight`.
    """
    base, cost, mix = costs.base, costs.cost, columns.mix
    samples = base.size
    low, high = ptr[0] - first, ptr[ptr.size - 1] - first
    _copy(weight[low:high], columns.pick[0, low:high])
    for k in range(samples):
        total = base[k]
        for a in range(low, high):
            total += weight[a] * cost[a, k]
        columns.cost[0, k] = total
    present = _largest(columns.cost[0])
    count = np.int64(1)
    found = present
    pivots = 0
    mix[0] = 1.0
    game.belief[:] = 1.0 / samples
    while count < columns.cost.shape[0]:
        value, used = solve_game(columns.cost, count, mix, game)
        if used < 0:
            break
        pivots += used
        found = value
        column, pick = columns.cost[count], columns.pick[count]
        _copy(base, column)
        pick[low:high] = 0.0
        for slot in range(ptr.size - 1):
            _, a = _cheapest(ptr[slot] - first, ptr[slot + 1] - first, cost, game.belief)
            pick[a] = 1.0
            for k in range(samples):
                column[k] += cost[a, k]
        bound = 0.0
        for k in range(samples):
            bound += game.belief[k] * column[k]
        if found - bound <= tolerance or _is_known(columns.cost, count):
            break
        mix[count] = 0.0
        count += 1
    if not found < present - tolerance:
        return present, pivots
    for a in range(low, high):
        weight[a] = 0.0
        for j in range(count):
            if mix[j] > 0.0:
                weight[a] += mix[j] * columns.pick[j, a]
    return found, pivots
