"""Randomised options that depend on the history: mixtures of pure trees, by column generation.

Against a belief over samples the best pure tree is found by a depth-first search, and its cost in each sample is a
column. A matrix game over columns gives a mixture and the next belief, until no tree is better: column generation for
the sequence-form linear program.
"""

from collections import namedtuple

import numpy as np

from rue._jit import declare
from rue.recursion.inner.matrix_kernels import _is_known, _keep_positive, solve_game
from rue.recursion.inner.option_tree_kernels import (
    INFINITE,
    TreeSearch,
    _add_plan,
    _best_tree,
    _copy,
    _layer,
    _next_node,
    _number_states,
    _plan_cost,
    _start,
    _take,
    _worst_cost,
    helper,
    kernel,
)

# Games that column generation solves at most, for each column that can be kept.
TURNS = 20

Mixtures = namedtuple("Mixtures", "plan_ptr plan_size plan count mix")
Mixtures.__doc__ = """Plan j of option i, with weight `mix[i, j]`, begins at `plan_ptr[i] + j·plan_size[i]`."""
declare(Mixtures, "l1 l1 i1 l1 f2")

Columns = namedtuple("Columns", "plan cost mix")
Columns.__doc__ = """The plans of column generation, the cost of each in each sample, and their mixture."""
declare(Columns, "i2 f2 f1")

NewRow = namedtuple("NewRow", "number plan column paid share")
NewRow.__doc__ = """The row of a new option, the numbers of its ends, and memory for a plan and its cost."""
declare(NewRow, "i1 i1 f1 f1 f2")

HistoryMemory = namedtuple("HistoryMemory", "walk best columns game row")
HistoryMemory.__doc__ = """Memory of column generation."""
declare(HistoryMemory, "HistoryWalk BestTree Columns GameMemory NewRow")


@kernel("OptionArrays SlotLayers Tables i1 Mixtures HistoryWalk i2")
def plans_of_tables(model, layers, tables, choice, mixtures, walk, number):
    """Give every option the plan of a deterministic table; slots that the table does not use take `choice[S]`."""
    for i in range(layers.root.size):
        mixtures.count[i] = 1
        mixtures.mix[i, 0] = 1.0
        for time in range(model.steps):
            _number_states(layers, i, time, number[time])
        walk.held[0, :] = 1.0
        node = mixtures.plan_ptr[i]
        level = _start(walk, layers.root[i])
        while level >= 0:
            s = walk.state[level]
            begin, _ = _layer(layers, i, level)
            first = tables.ptr[begin + number[level, s]]
            c = np.int64(choice[s])
            for a in range(model.choice_ptr[s + 1] - model.choice_ptr[s]):
                if tables.weight[first + a] > 0.0:
                    c = model.choice_ptr[s] + a
            mixtures.plan[node] = c
            node += 1
            _take(model, walk, level, c)
            level = _next_node(model, walk, level, np.int64(0))


@kernel("l1 OptionArrays SlotLayers Mixtures OptionRows HistoryWalk i1")
def mixture_rows(places, model, layers, mixtures, rows, walk, number):
    """Compute the rows of options that are mixtures of plans."""
    for x in range(places.size):
        i = places[x]
        share = rows.share[rows.ptr[i] : rows.ptr[i + 1]]
        rows.paid[i, :] = 0.0
        share[:, :] = 0.0
        _number_states(layers, i, model.steps, number)
        for j in range(mixtures.count[i]):
            first = mixtures.plan_ptr[i] + j * mixtures.plan_size[i]
            plan = mixtures.plan[first : first + mixtures.plan_size[i]]
            walk.held[0, :] = mixtures.mix[i, j]
            _add_plan(model, walk, layers.root[i], plan, number, rows.paid[i], share)


@kernel("l1 OptionArrays SlotLayers Mixtures OptionRows Round Found HistoryMemory")
def improve_mixtures(places, model, layers, mixtures, rows, given, found, memory):
    """Find the best mixture of trees for each option in `places` by column generation; return the number of pivots.

    `floor[i]` becomes a lower bound on the cost of every mixture, proved by `belief[i]`. The search ends early when the
    bound reaches `level[i]`.
    """
    tree = TreeSearch(model, given.last_cost, memory.walk, memory.best, given.stop)
    columns, row = memory.columns, memory.row
    pivots = 0
    for x in range(places.size):
        if given.stop[0]:
            break
        i = places[x]
        root = layers.root[i]
        size = mixtures.plan_size[i]
        for j in range(mixtures.count[i]):
            first = mixtures.plan_ptr[i] + j * size
            _copy(mixtures.plan[first : first + size], columns.plan[j, :size])
            _plan_cost(tree, root, False, columns.plan[j], columns.cost[j])
        found.floor[i], cost, mixed, used = _generate_columns(
            tree, root, mixtures.count[i], columns, memory.game, given.level[i], given.tolerance, found.belief[i]
        )
        pivots += used
        if found.floor[i] >= given.level[i]:
            continue
        _number_states(layers, i, model.steps, row.number)
        found.carried[i] = _weight_at_ends(tree, layers, i, found.belief[i], given.weight, row)
        if not given.accept or mixed == 0 or cost >= INFINITE:
            continue
        ends = rows.ptr[i + 1] - rows.ptr[i]
        row.paid[:] = 0.0
        row.share[:ends, :] = 0.0
        for j in range(mixed):
            if columns.mix[j] > 0.0:
                memory.walk.held[0, :] = columns.mix[j]
                _add_plan(model, memory.walk, root, columns.plan[j], row.number, row.paid, row.share)
        present = np.inf
        if mixtures.count[i] > 0:
            present = _worst_cost(layers, i, rows.paid[i], rows.share[rows.ptr[i] :], given.value)
        if _worst_cost(layers, i, row.paid, row.share, given.value) < present - given.tolerance:
            _store(i, columns, mixed, row, mixtures, rows)
            found.changed[i] = True
    return pivots


@helper
def _generate_columns(tree, root, count, columns, game, level, tolerance, belief):
    """Add the best trees against beliefs to the first `count` columns, beginning with a given belief.

    Returns a lower bound on the value of all mixtures, the value of the mixture in `columns.mix`, how many columns that
    mixture has, 0 if there is none, and the number of pivots. `belief` becomes the one that proves the bound.
    """
    floor, value = -np.inf, np.inf
    mixed = np.int64(0)
    pivots = 0
    most = columns.cost.shape[0]
    _copy(belief, game.belief)
    for turn in range(TURNS * most):
        if turn > 0:
            value, used = solve_game(columns.cost, count, columns.mix, game)
            mixed = count if used >= 0 else np.int64(0)
            if used < 0:
                break
            pivots += used
        _keep_positive(game.belief)
        _copy(game.belief, tree.walk.held[0])
        bound = _best_tree(tree, root, tree.model.steps)
        if tree.stop[0]:
            break
        if bound > floor:
            floor = bound
            _copy(game.belief, belief)
        if floor >= level or value - bound <= tolerance:
            break
        if count == most:
            count = _drop_unused(columns, count)
            mixed = np.int64(0)  # the columns have moved
        _plan_cost(tree, root, True, columns.plan[count], columns.cost[count])
        if not _is_known(columns.cost, count):
            count += 1
        elif turn > 0:  # only rounding is left in the game
            break
    return floor, value, mixed, pivots


@helper
def _drop_unused(columns, count):
    """Keep the columns of the mixture alone; return how many."""
    kept = np.int64(0)
    for j in range(count):
        if columns.mix[j] > 0.0:
            _copy(columns.cost[j], columns.cost[kept])
            _copy(columns.plan[j], columns.plan[kept])
            columns.mix[kept] = columns.mix[j]
            kept += 1
    return kept


@helper
def _weight_at_ends(tree, layers, i, belief, weight, row):
    """Return the expected weight at the ends of the best tree against a belief; 0 when it is told to stop."""
    root = layers.root[i]
    _copy(belief, tree.walk.held[0])
    _best_tree(tree, root, tree.model.steps)
    if tree.stop[0]:
        return 0.0
    _plan_cost(tree, root, True, row.plan, row.column)
    begin, end = _layer(layers, i, layers.steps)
    row.paid[:] = 0.0
    row.share[: end - begin, :] = 0.0
    tree.walk.held[0, :] = 1.0
    _add_plan(tree.model, tree.walk, root, row.plan, row.number, row.paid, row.share)
    total = 0.0
    for e in range(end - begin):
        for k in range(belief.size):
            total += belief[k] * row.share[e, k] * weight[layers.state[begin + e]]
    return total


@helper
def _store(i, columns, count, row, mixtures, rows):
    """Replace option i by the mixture of the first `count` columns, whose row is given."""
    size = mixtures.plan_size[i]
    kept = 0
    for j in range(count):
        if columns.mix[j] > 0.0:
            first = mixtures.plan_ptr[i] + kept * size
            _copy(columns.plan[j, :size], mixtures.plan[first : first + size])
            mixtures.mix[i, kept] = columns.mix[j]
            kept += 1
    mixtures.count[i] = kept
    _copy(row.paid, rows.paid[i])
    for e in range(rows.ptr[i + 1] - rows.ptr[i]):
        _copy(row.share[e], rows.share[rows.ptr[i] + e])
