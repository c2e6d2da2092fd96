"""Options of n steps laid out: where they begin, what they may visit, and what they are as rows and as controllers.

The search for good ones is in `options.py`.
"""

from collections import namedtuple

import numpy as np

from rue._jit import declare, helper, kernel

Field = namedtuple(
    "Field",
    "steps goal choice_ptr trans_ptr successor prob gap tree_size choice_size roots layer_ptr layer_state",
)
Field.__doc__ = """The model as options of `steps` steps see it; option i begins at `roots[i]`.

`tree_size[d, s]` counts the histories of a tree with d steps left from state s, `choice_size[d, c]` those behind
choice c. `layer_ptr[i·(n+1) + t]` is where the states that option i may visit at time t begin in `layer_state`; those
of time n are its ends, the goal among them.
"""
declare(Field, "int int l1 l1 i1 f2 f2 l2 l2 i1 l1 i1")


@kernel("int int l1 l1 i1")
def find_roots(initial, steps, choice_ptr, trans_ptr, successor):
    """All states at which an option may begin: reached in multiples of n steps from the initial one."""
    states = choice_ptr.size - 1
    is_root = np.zeros(states, np.bool_)
    roots = np.empty(states, np.int32)
    stamp = np.empty(states, np.int64)
    stamp[:] = -1
    now = np.empty(states, np.int32)
    then = np.empty(states, np.int32)
    roots[0] = initial
    is_root[initial] = True
    count = 1
    i = 0
    clock = 0
    while i < count:
        now[0] = roots[i]
        size = 1
        for _ in range(steps):
            clock += 1
            fresh = 0
            for w in range(size):
                s = now[w]
                for t in range(trans_ptr[choice_ptr[s]], trans_ptr[choice_ptr[s + 1]]):
                    to = successor[t]
                    if stamp[to] != clock and choice_ptr[to] < choice_ptr[to + 1]:
                        stamp[to] = clock
                        then[fresh] = to
                        fresh += 1
            now, then = then, now
            size = fresh
        for w in range(size):
            if not is_root[now[w]]:
                is_root[now[w]] = True
                roots[count] = now[w]
                count += 1
        i += 1
    return roots[:count].copy()


@kernel("i1 int int l1 l1 i1")
def lay_out(roots, steps, goal, choice_ptr, trans_ptr, successor):
    """The states that each option may visit, time by time; see `Field`."""
    states = choice_ptr.size - 1
    layer_ptr = np.zeros(roots.size * (steps + 1) + 1, np.int64)
    layer_state = np.empty(16 * roots.size + states + 1, np.int32)
    stamp = np.empty(states, np.int64)
    stamp[:] = -1
    size = 0
    for i in range(roots.size):
        hit = False
        for t in range(steps + 1):
            mark = i * (steps + 1) + t
            layer_ptr[mark] = size
            if size + states + 1 > layer_state.size:
                wider = np.empty(2 * layer_state.size + states + 1, np.int32)
                for w in range(size):
                    wider[w] = layer_state[w]
                layer_state = wider
            if t == 0:
                layer_state[size] = roots[i]
                size += 1
                continue
            for w in range(layer_ptr[mark - 1], layer_ptr[mark]):
                s = layer_state[w]
                for tr in range(trans_ptr[choice_ptr[s]], trans_ptr[choice_ptr[s + 1]]):
                    to = successor[tr]
                    if to == goal:
                        hit = True
                    elif stamp[to] != mark:
                        stamp[to] = mark
                        layer_state[size] = to
                        size += 1
        if hit:
            layer_state[size] = goal
            size += 1
        layer_ptr[i * (steps + 1) + steps + 1] = size
    return layer_ptr, layer_state[:size].copy()


@kernel("int int l1 l1 i1")
def count_histories(steps, goal, choice_ptr, trans_ptr, successor):
    """How many histories each tree has, and the most that a pure one visits; as floats, since they may be enormous."""
    states = choice_ptr.size - 1
    tree_size = np.zeros((steps + 1, states))
    choice_size = np.zeros((steps + 1, trans_ptr.size - 1))
    plan_size = np.zeros((steps + 1, states))
    for d in range(1, steps + 1):
        for s in range(states):
            if s == goal:
                continue
            tree_size[d, s] = 1.0
            most = 0.0
            for c in range(choice_ptr[s], choice_ptr[s + 1]):
                visited = 0.0
                for t in range(trans_ptr[c], trans_ptr[c + 1]):
                    choice_size[d, c] += tree_size[d - 1, successor[t]]
                    visited += plan_size[d - 1, successor[t]]
                tree_size[d, s] += choice_size[d, c]
                most = max(most, visited)
            plan_size[d, s] = 1.0 + most
    return tree_size, choice_size, plan_size


@kernel("Field l1 f2 f2 l1 i1 f2 f2 f2")
def pack_rows(field, share_ptr, paid, share, row_ptr, target, packed, gaps, visits):
    """The rows of all options with self-loops taken out, as `game.settle` wants them."""
    samples = paid.shape[1]
    steps = field.steps
    row_ptr[0] = 0
    size = 0
    for i in range(field.roots.size):
        begin = field.layer_ptr[i * (steps + 1) + steps]
        ends = share_ptr[i + 1] - share_ptr[i]
        visits[i, :] = 0.0
        for e in range(ends):
            if field.layer_state[begin + e] == field.roots[i]:
                continue
            target[size] = field.layer_state[begin + e]
            for k in range(samples):
                packed[size, k] = share[share_ptr[i] + e, k]
                visits[i, k] += packed[size, k]
            size += 1
        row_ptr[i + 1] = size
        for k in range(samples):
            visits[i, k] = 1.0 / visits[i, k] if visits[i, k] > 0.0 else np.inf
            gaps[i, k] = paid[i, k] * visits[i, k] if paid[i, k] > 0.0 else 0.0
        for j in range(row_ptr[i], size):
            for k in range(samples):
                packed[j, k] = packed[j, k] * visits[i, k] if packed[j, k] > 0.0 else 0.0


@helper
def _mark(field, i, time, where):
    """Number the states of a layer."""
    begin = field.layer_ptr[i * (field.steps + 1) + time]
    for w in range(begin, field.layer_ptr[i * (field.steps + 1) + time + 1]):
        where[field.layer_state[w]] = w - begin


@kernel("int Field l1 f1 i1 L1 I1 b1 B1")
def slot_nodes(i, field, weight_ptr, weight, choice_id, graph_ptr, graph_successor, possible, is_goal):
    """Option i as a part of a controller: a node for each slot in use, the first one where it begins.

    Returns the state and the number of entries of each node, the choice and the weight of each entry, and the next node
    for each transition of the graph: a node of this part, or −1 − s where the option ends in state s. It also ends
    where the model says it cannot go: another model may say otherwise.
    """
    steps = field.steps
    first = field.layer_ptr[i * (steps + 1)]
    last = field.layer_ptr[i * (steps + 1) + steps]
    node_of = np.empty(last - first, np.int64)
    node_of[:] = -1
    where = np.empty(field.choice_ptr.size - 1, np.int32)
    entries = 0
    targets = 0
    size = 0
    reached = np.zeros(last - first, np.bool_)
    reached[0] = True
    for time in range(steps):
        end = field.layer_ptr[i * (steps + 1) + time + 1]
        _mark(field, i, time + 1, where)
        for slot in range(field.layer_ptr[i * (steps + 1) + time], end):
            s = field.layer_state[slot]
            for a in range(field.choice_ptr[s + 1] - field.choice_ptr[s]):
                if not reached[slot - first] or not weight[weight_ptr[slot] + a] > 0.0:
                    continue
                if node_of[slot - first] < 0:
                    node_of[slot - first] = size
                    size += 1
                c = field.choice_ptr[s] + a
                entries += 1
                targets += graph_ptr[choice_id[c] + 1] - graph_ptr[choice_id[c]]
                for t in range(field.trans_ptr[c], field.trans_ptr[c + 1]):
                    if time < steps - 1 and field.successor[t] != field.goal:
                        reached[end + where[field.successor[t]] - first] = True
    node_state = np.empty(size, np.int32)
    node_entries = np.empty(size, np.int64)
    choice = np.empty(entries, np.int32)
    share = np.empty(entries)
    following = np.empty(targets, np.int64)
    entries = 0
    targets = 0
    for time in range(steps):
        begin = field.layer_ptr[i * (steps + 1) + time]
        end = field.layer_ptr[i * (steps + 1) + time + 1]
        _mark(field, i, time + 1, where)
        for slot in range(begin, end):
            node = node_of[slot - first]
            if node < 0:
                continue
            s = field.layer_state[slot]
            node_state[node] = s
            node_entries[node] = 0
            for a in range(field.choice_ptr[s + 1] - field.choice_ptr[s]):
                part = weight[weight_ptr[slot] + a]
                if not part > 0.0:
                    continue
                c = choice_id[field.choice_ptr[s] + a]
                choice[entries] = c
                share[entries] = part
                entries += 1
                node_entries[node] += 1
                for t in range(graph_ptr[c], graph_ptr[c + 1]):
                    to = graph_successor[t]
                    following[targets] = -1 - to
                    if time < steps - 1 and possible[t] and not is_goal[to] and node_of[end + where[to] - first] >= 0:
                        following[targets] = node_of[end + where[to] - first]
                    targets += 1
    return node_state, node_entries, choice, share, following


@kernel("int Field l1 l1 i1 l1 f2 i1 L1 I1 b1 B1")
def tree_nodes(
    i, field, plan_ptr, plan_size, plan, count, mix, choice_id, graph_ptr, graph_successor, possible, is_goal
):  # fmt: skip
    """Option i as a part of a controller, see `slot_nodes`: a node for each history that a plan of the mixture visits.

    Drawing a plan at the start is the same as drawing each choice anew, in proportion to the plans that agree with what
    was done so far (Kuhn).
    """
    steps = field.steps
    columns = count[i]
    size = plan_size[i]
    most = 1
    for c in range(graph_ptr.size - 1):
        most = max(most, graph_ptr[c + 1] - graph_ptr[c])
    node_state = np.empty(columns * size, np.int32)
    node_entries = np.empty(columns * size, np.int64)
    choice = np.empty(columns * size, np.int32)
    share = np.empty(columns * size)
    following = np.empty(columns * size * most, np.int64)
    pointer = np.zeros(columns, np.int64)
    # For each level: the plans that lead here, the entry under way, where its targets begin, and its transition.
    member = np.zeros((steps + 1, columns), np.bool_)
    group = np.empty((steps + 1, columns), np.int64)  # the entry that a plan takes
    entry = np.empty(steps + 1, np.int64)
    entry_end = np.empty(steps + 1, np.int64)
    target = np.empty(steps + 1, np.int64)
    trans = np.empty(steps + 1, np.int64)
    nodes = 0
    entries = 0
    targets = 0
    level = 0
    member[0, :] = True
    state = field.roots[i]
    opening = True
    while level >= 0:
        if opening:
            opening = False
            entry[level] = entries
            target[level] = targets
            total = 0.0
            for j in range(columns):
                if not member[level, j]:
                    continue
                c = choice_id[plan[plan_ptr[i] + j * size + pointer[j]]]
                pointer[j] += 1
                total += mix[i, j]
                place = entry[level]
                while place < entries and choice[place] != c:
                    place += 1
                if place == entries:
                    choice[entries] = c
                    share[entries] = 0.0
                    entries += 1
                    targets += graph_ptr[c + 1] - graph_ptr[c]
                share[place] += mix[i, j]
                group[level, j] = place
            for place in range(entry[level], entries):
                share[place] /= total
            node_state[nodes] = state
            node_entries[nodes] = entries - entry[level]
            nodes += 1
            entry_end[level] = entries
            trans[level] = graph_ptr[choice[entry[level]]]
        if entry[level] == entry_end[level]:
            level -= 1
            continue
        c = choice[entry[level]]
        t = trans[level]
        if t == graph_ptr[c + 1]:
            entry[level] += 1
            if entry[level] < entry_end[level]:
                trans[level] = graph_ptr[choice[entry[level]]]
            continue
        trans[level] = t + 1
        to = graph_successor[t]
        following[target[level]] = -1 - to
        if level < steps - 1 and possible[t] and not is_goal[to]:
            following[target[level]] = nodes
            for j in range(columns):
                member[level + 1, j] = member[level, j] and group[level, j] == entry[level]
            state = to
            opening = True
        target[level] += 1
        if opening:
            level += 1
    return (
        node_state[:nodes].copy(),
        node_entries[:nodes].copy(),
        choice[:entries].copy(),
        share[:entries].copy(),
        following[:targets].copy(),
    )
