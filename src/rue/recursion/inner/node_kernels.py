"""Options as parts of a controller: the nodes of a table, and those of a mixture of plans.

A part is the state and the number of entries of each node, the choice and the weight of each entry, and the next node
of each transition of the graph: a node of this part, or −1 − s where the option ends in state s. It also ends after
outcomes that are impossible here: they may be possible in another model.
"""

from collections import namedtuple

import numpy as np

from rue._jit import declare, helper, kernel
from rue.recursion.inner.option_tree_kernels import _layer, _next_outcome, _number_states, _start, _take

GraphView = namedtuple("GraphView", "choice_id transition trans_ptr successor")
GraphView.__doc__ = """The graph, and the choices and transitions of it that an `OptionArrays` has, in its order."""
declare(GraphView, "i1 l1 L1 I1")


@kernel("int OptionArrays SlotLayers Tables GraphView")
def table_nodes(i, model, layers, tables, graph):
    """Return option i, a table, as a part: a node for each slot in use, the first one where it begins."""
    steps = model.steps
    first, _ = _layer(layers, i, np.int64(0))
    last, _ = _layer(layers, i, steps)
    most = _most_outcomes(graph)
    size = tables.ptr[last] - tables.ptr[first]
    node_of = np.empty(last - first, np.int64)
    node_of[:] = -1
    reached = np.zeros(last - first, np.bool_)
    reached[0] = True
    number = np.empty(model.choice_ptr.size - 1, np.int32)
    node_state = np.empty(last - first, np.int32)
    node_entries = np.zeros(last - first, np.int64)
    choice = np.empty(size, np.int32)
    share = np.empty(size)
    following = np.empty(size * most, np.int64)  # a slot, until all nodes are numbered
    nodes = 0
    entries = 0
    targets = 0
    for time in range(steps):
        begin, end = _layer(layers, i, time)
        _number_states(layers, i, time + 1, number)
        for slot in range(begin, end):
            s = layers.state[slot]
            for c in range(model.choice_ptr[s], model.choice_ptr[s + 1]):
                part = tables.weight[tables.ptr[slot] + c - model.choice_ptr[s]]
                if not reached[slot - first] or not part > 0.0:
                    continue
                if node_of[slot - first] < 0:
                    node_of[slot - first] = nodes
                    node_state[nodes] = s
                    nodes += 1
                choice[entries] = graph.choice_id[c]
                share[entries] = part
                entries += 1
                node_entries[nodes - 1] += 1
                begins, ends = graph.trans_ptr[graph.choice_id[c]], graph.trans_ptr[graph.choice_id[c] + 1]
                for t in range(begins, ends):
                    following[targets + t - begins] = -1 - graph.successor[t]
                for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
                    if time < steps - 1 and model.successor[t] != model.goal:
                        after = end + number[model.successor[t]] - first
                        reached[after] = True
                        following[targets + graph.transition[t] - begins] = after
                targets += ends - begins
    for x in range(targets):
        after = following[x]
        if after >= 0:  # slots without weights end the option
            following[x] = node_of[after] if node_of[after] >= 0 else -1 - layers.state[first + after]
    return (
        node_state[:nodes].copy(),
        node_entries[:nodes].copy(),
        choice[:entries].copy(),
        share[:entries].copy(),
        following[:targets].copy(),
    )


@helper
def _most_outcomes(graph):
    """Return the most transitions of a choice."""
    most = 1
    for c in range(graph.trans_ptr.size - 1):
        most = max(most, graph.trans_ptr[c + 1] - graph.trans_ptr[c])
    return most


@kernel("int OptionArrays SlotLayers Mixtures GraphView HistoryWalk")
def mixture_nodes(i, model, layers, mixtures, graph, walk):
    """Return option i, a mixture, as a part: a node for each history that a plan of the mixture visits.

    Drawing a plan at the start is the same as drawing each choice separately, in proportion to the plans that agree
    with what was done so far (Kuhn).
    """
    last = model.steps - 1
    columns, size = mixtures.count[i], mixtures.plan_size[i]
    most = _most_outcomes(graph)
    node_state = np.empty(columns * size, np.int32)
    node_entries = np.empty(columns * size, np.int64)
    choice = np.empty(columns * size, np.int32)  # of the option model, until the end
    share = np.empty(columns * size)
    target = np.empty(columns * size, np.int64)  # where the next nodes of an entry begin
    following = np.empty(columns * size * most, np.int64)
    node_of_plan = np.zeros(columns, np.int64)  # how many choices of each plan were read
    # By level: the plans that lead here, the entry that each plan takes, the present entry and the last one.
    member = np.zeros((model.steps + 1, columns), np.bool_)
    taken = np.empty((model.steps + 1, columns), np.int64)
    entry = np.empty(model.steps + 1, np.int64)
    entry_end = np.empty(model.steps + 1, np.int64)
    nodes = 0
    entries = 0
    targets = 0
    member[0, :] = True
    walk.held[0, :] = 1.0
    level = _start(walk, layers.root[i])
    opening = True
    while level >= 0:
        if opening:
            opening = False
            entry[level] = entries
            total = 0.0
            for j in range(columns):
                if not member[level, j]:
                    continue
                c = mixtures.plan[mixtures.plan_ptr[i] + j * size + node_of_plan[j]]
                node_of_plan[j] += 1
                total += mixtures.mix[i, j]
                e = entry[level]
                while e < entries and choice[e] != c:
                    e += 1
                if e == entries:
                    choice[e] = c
                    share[e] = 0.0
                    target[e] = targets
                    entries += 1
                    for t in range(graph.trans_ptr[graph.choice_id[c]], graph.trans_ptr[graph.choice_id[c] + 1]):
                        following[targets] = -1 - graph.successor[t]
                        targets += 1
                share[e] += mixtures.mix[i, j]
                taken[level, j] = e
            for e in range(entry[level], entries):
                share[e] /= total
            node_state[nodes] = walk.state[level]
            node_entries[nodes] = entries - entry[level]
            nodes += 1
            entry_end[level] = entries
            _take(model, walk, level, np.int64(choice[entry[level]]))
        e = entry[level]
        if level == last:
            level -= 1
        elif not _next_outcome(model, walk, level):
            entry[level] += 1
            if entry[level] < entry_end[level]:
                _take(model, walk, level, np.int64(choice[entry[level]]))
            else:
                level -= 1
        elif walk.state[level + 1] != model.goal:
            t = graph.transition[walk.transition[level] - 1]
            following[target[e] + t - graph.trans_ptr[graph.choice_id[choice[e]]]] = nodes
            for j in range(columns):
                member[level + 1, j] = member[level, j] and taken[level, j] == e
            level += 1
            opening = True
    for e in range(entries):
        choice[e] = graph.choice_id[choice[e]]
    return (
        node_state[:nodes].copy(),
        node_entries[:nodes].copy(),
        choice[:entries].copy(),
        share[:entries].copy(),
        following[:targets].copy(),
    )
