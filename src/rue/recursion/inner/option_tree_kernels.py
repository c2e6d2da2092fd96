"""Options of n steps: the states and histories that they may visit, and one depth-first walk over a tree of histories.

    min over o of  max over k of  E_k[ Σ_{t<n} g_k(s_t, a_t) + R(s_n) ]

An `OptionArrays` is the model as options see it: kept choices and possible transitions only, all goals as one state
without choices. `last_cost[c, k] = g_k(c) + Σ T_k(c, s') R(s')` is the cost of an option's last step, so R enters
nowhere else. `HUGE` stands for infinity: a choice that must not be taken.

*Unfolding.* An option that begins at a root visits slots (state, time), listed by `lay_out`, or histories, which are
numbered and never stored. The *place* of a history is its rank in a depth-first walk over all histories of its root, so
the sizes of subtrees (`count_histories`) are enough to find it.

*Walk.* A `HistoryWalk` is a path from the root to the present history. `_take` decides on a choice at a level,
`_next_outcome` moves to the next outcome of that choice, one level below, with its probability in each
sample. Every pass over histories is built of these two: the search for the best tree against a belief (`_best_tree`),
that tree as a plan and the cost of a plan (`_plan_cost`), its row (`_add_plan`), the plan of a table
(`history_kernels`) and the controller of a mixture (`node_kernels`). A *plan* lists the choices of a pure tree, depth
first.
"""

from collections import namedtuple

import numpy as np

from rue._jit import compiled, declare, inlined

HUGE = 1e280
INFINITE = 1e100

# For all kernels of options.
kernel, helper = compiled(fastmath=frozenset({"reassoc", "nsz", "contract"}))

OptionArrays = namedtuple("OptionArrays", "steps goal choice_ptr trans_ptr successor prob gap tree_size choice_size")
OptionArrays.__doc__ = """The model as options of `steps` steps see it.

`tree_size[d, s]` counts the histories of a tree with d steps left from state s, `choice_size[d, c]` those after
choice c.
"""
declare(OptionArrays, "int int l1 l1 i1 f2 f2 l2 l2")

SlotLayers = namedtuple("SlotLayers", "steps root ptr state")
SlotLayers.__doc__ = """The slots (state, time) of all options; option i begins at `root[i]`.

The states that it may visit at time t begin in `state` at `ptr[i·(n+1) + t]`. Those of time n are its ends; the goal,
if it is one, is the last of them.
"""
declare(SlotLayers, "int i1 l1 i1")

OptionRows = namedtuple("OptionRows", "ptr paid share")
OptionRows.__doc__ = (
    """Options as rows: the expected sum of gaps `paid[i, k]`, and the chance `share[ptr[i] + e, k]` of end e."""
)
declare(OptionRows, "l1 f2 f2")

Tables = namedtuple("Tables", "ptr weight")
Tables.__doc__ = """Policies of state and time: `weight[ptr[slot] + a]` for choice a of a slot."""
declare(Tables, "l1 f1")

HistoryWalk = namedtuple("HistoryWalk", "state choice transition place next_place held")
HistoryWalk.__doc__ = """A path of histories, by level: state, choice, its next transition, place, next place below.

`held[level, k]` is the weight of the history in sample k: its probability times `held[0, k]`.
"""
declare(HistoryWalk, "l1 l1 l1 l1 l1 f2")

BestTree = namedtuple("BestTree", "taken choice total least")
BestTree.__doc__ = """The search for the best tree: its choices by place.

By level: the best choice so far, the cost of the present choice so far, and the least cost.
"""
declare(BestTree, "i1 l1 f1 f1")

TreeSearch = namedtuple("TreeSearch", "model last_cost walk best stop")
TreeSearch.__doc__ = """All that the search for the best tree needs; it gives up when `stop[0]` is set."""
declare(TreeSearch, "OptionArrays f2 HistoryWalk BestTree b1")

Round = namedtuple("Round", "last_cost lowered value weight level tolerance accept until stop")
Round.__doc__ = """What a round of improvement is given.

`lowered[S]` are the values at the ends for the proof, with which `last_cost` was made; `value[S]` are those of the
policy and `weight[S]` the units that the proof subtracts. Options that cost less than `level[N]` are searched for.
With `accept`, they replace present ones that cost more by over the `tolerance`. `until` is the clock at which to stop.
"""
declare(Round, "f2 f1 f1 f1 f1 float bool float b1")

Found = namedtuple("Found", "floor carried changed belief")
Found.__doc__ = """What rounds of improvement found, by option.

`floor` is a lower bound on the cost of every option of the class, `belief` the weights of the samples that prove it.
`carried` is the expected `Round.weight` at the ends of the best option, `changed` whether the option was replaced.
"""
declare(Found, "f1 f1 b1 f2")


@kernel("i1 int int l1 l1 i1")
def lay_out(roots, steps, goal, choice_ptr, trans_ptr, successor):
    """List the slots of each option, time by time: return `ptr` and `state` of `SlotLayers`."""
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


@kernel("OptionArrays f1 f2")
def add_end_values(model, value, last_cost):
    """Fill in the cost of an option's last step: last_cost[c, k] = g_k(c) + Σ T_k(c, s') R(s')."""
    samples = model.prob.shape[1]
    for c in range(last_cost.shape[0]):
        for k in range(samples):
            last_cost[c, k] = model.gap[c, k]
        for t in range(np.uint64(model.trans_ptr[c]), np.uint64(model.trans_ptr[c + 1])):
            v = value[np.uint32(model.successor[t])]
            for k in range(samples):
                last_cost[c, k] += model.prob[t, k] * v
        for k in range(samples):
            last_cost[c, k] = min(last_cost[c, k], HUGE)


@helper
def _copy(source, target):
    for i in range(source.size):
        target[i] = source[i]


@helper
def _largest(array):
    largest = array[0]
    for i in range(1, array.size):
        largest = max(largest, array[i])
    return largest


@inlined
def _layer(layers, i, time):
    """Return where the slots of option i at a time begin and end in `layers.state`."""
    at = i * (layers.steps + 1) + time
    return layers.ptr[at], layers.ptr[at + 1]


@helper
def _number_states(layers, i, time, number):
    """Number the states of a layer: `number[s]` is the rank of state s in it."""
    begin, end = _layer(layers, i, time)
    for slot in range(begin, end):
        number[layers.state[slot]] = slot - begin


@helper
def _row_cost(layers, i, paid, share, value, k):
    """Return the cost of option i in sample k from its row: `paid[K]` and `share[ends, K]`."""
    total = paid[k]
    begin, end = _layer(layers, i, layers.steps)
    for e in range(end - begin):
        total += share[e, k] * value[layers.state[begin + e]]
    return total


@helper
def _worst_cost(layers, i, paid, share, value):
    """Return the cost of option i against the adversary from its row."""
    worst = 0.0
    for k in range(paid.size):
        worst = max(worst, _row_cost(layers, i, paid, share, value, k))
    return worst


@inlined
def _start(walk, root):
    """Begin a walk at a root; return its level, 0."""
    walk.state[0] = root
    walk.place[0] = 0
    return np.int64(0)


@inlined
def _take(model, walk, level, choice):
    """Take a choice at a level: its outcomes come next."""
    walk.choice[level] = choice
    walk.transition[level] = model.trans_ptr[choice]


@inlined
def _next_outcome(model, walk, level):
    """Move to the next outcome of the choice taken at a level, one level below; return False if there is none left."""
    t = walk.transition[level]
    if t == model.trans_ptr[walk.choice[level] + 1]:
        return False
    walk.transition[level] = t + 1
    walk.state[level + 1] = model.successor[t]
    for k in range(walk.held.shape[1]):
        walk.held[level + 1, k] = walk.held[level, k] * model.prob[t, k]
    return True


@inlined
def _next_node(model, walk, level, first):
    """Move to the next history of a pure tree whose root is at level `first`, depth first; return its level.

    After the last one that is `first` − 1.
    """
    while level >= first:
        if level == model.steps - 1 or not _next_outcome(model, walk, level):
            level -= 1
        elif walk.state[level + 1] != model.goal:
            return level + 1
    return level


@inlined
def _place_outcomes(model, walk, level, left):
    """Find the place of the first outcome of the choice taken at a level that has `left` steps left."""
    place = walk.place[level] + 1
    for c in range(model.choice_ptr[walk.state[level]], walk.choice[level]):
        place += model.choice_size[left, c]
    walk.next_place[level] = place


@inlined
def _place_outcome(model, walk, level, left):
    """Set the place of the outcome that was moved to from a level that has `left` steps left."""
    walk.place[level + 1] = walk.next_place[level]
    walk.next_place[level] += model.tree_size[left - 1, walk.state[level + 1]]


@inlined
def _cheapest(first, past, cost, weight):
    """Return the least Σ_k weight[k]·cost[c, k] of the choices from `first` on and before `past`, and its choice."""
    least = np.inf
    best = first
    for c in range(first, past):
        total = 0.0
        for k in range(weight.size):
            total += weight[k] * cost[c, k]
        if total < least:
            least = total
            best = c
    return least, best


@inlined
def _begin_choice(model, walk, best, level, choice, left):
    """Take a choice at a level and begin to add up its cost."""
    _take(model, walk, level, choice)
    _place_outcomes(model, walk, level, left)
    total = 0.0
    for k in range(walk.held.shape[1]):
        total += walk.held[level, k] * model.gap[choice, k]
    best.total[level] = total


@helper
def _best_tree(tree, root, steps):
    """Find the best pure tree of `steps` steps against the belief in `walk.held[0]`; return its cost.

    The belief need not sum to one. The choices go to `best.taken`, by place; those of histories that the tree does not
    visit mean nothing. When it is told to stop, it returns −∞ and leaves no tree.
    """
    model, walk, best, last_cost = tree.model, tree.walk, tree.best, tree.last_cost
    choice_ptr = model.choice_ptr
    last = steps - 1
    leaf = walk.held[last]
    if last == 0:
        least, c = _cheapest(choice_ptr[root], choice_ptr[root + 1], last_cost, leaf)
        best.taken[0] = c
        return least
    level = _start(walk, root)
    opening = True
    while True:
        if opening:
            opening = False
            c = choice_ptr[walk.state[level]]
            best.least[level] = np.inf
            best.choice[level] = c
            _begin_choice(model, walk, best, level, c, steps - level)
        # Also for NaN, or the choices below would be those of another tree.
        if not best.total[level] >= best.least[level] and _next_outcome(model, walk, level):
            to = walk.state[level + 1]
            if to == model.goal:
                continue
            if level == 0 and tree.stop[0]:
                return -np.inf
            _place_outcome(model, walk, level, steps - level)
            if level + 1 < last:
                level += 1
                opening = True
                continue
            least, c = _cheapest(choice_ptr[to], choice_ptr[to + 1], last_cost, leaf)
            best.taken[walk.place[last]] = c
            best.total[level] += least
            continue
        c = walk.choice[level]
        if best.total[level] < best.least[level]:
            best.least[level] = best.total[level]
            best.choice[level] = c
        if c + 1 < choice_ptr[walk.state[level] + 1]:
            _begin_choice(model, walk, best, level, c + 1, steps - level)
            continue
        best.taken[walk.place[level]] = best.choice[level]
        if level == 0:
            return best.least[0]
        level -= 1
        best.total[level] += best.least[level + 1]


@helper
def _plan_cost(tree, root, is_new, plan, column):
    """Write the cost of a plan in each sample to `column`; a new plan is first written from what `_best_tree` found."""
    column[:] = 0.0
    tree.walk.held[0, :] = 1.0
    _add_plan_cost(tree, root, np.int64(0), is_new, plan, column)


@helper
def _add_plan_cost(tree, root, first, is_new, plan, column):
    """Add the cost of a plan that begins at level `first`, with the weights in `walk.held[first]`, to `column`."""
    model, walk = tree.model, tree.walk
    walk.state[first] = root
    walk.place[first] = 0
    level = first
    node = 0
    while level >= first:
        if is_new:
            plan[node] = tree.best.taken[walk.place[level]]
        choice = np.int64(plan[node])
        node += 1
        cost = tree.last_cost
        if level < model.steps - 1:
            cost = model.gap
            _take(model, walk, level, choice)
            if is_new:
                _place_outcomes(model, walk, level, model.steps - level)
        for k in range(column.size):
            column[k] += walk.held[level, k] * cost[choice, k]
        level = _next_node(model, walk, level, first)
        if is_new and level >= first:
            _place_outcome(model, walk, level - 1, model.steps - level + 1)


@helper
def _add_plan(model, walk, root, plan, number, paid, share):
    """Add a plan, with the weights in `walk.held[0]`, to the row of its option: `paid[K]` and `share[ends, K]`.

    `number[s]` is the place of an end state among the ends.
    """
    samples = paid.size
    last = model.steps - 1
    level = _start(walk, root)
    node = 0
    opening = True
    while level >= 0:
        if opening:
            opening = False
            c = np.int64(plan[node])
            node += 1
            for k in range(samples):
                paid[k] += walk.held[level, k] * model.gap[c, k]
            if level == last:
                for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
                    e = number[model.successor[t]]
                    for k in range(samples):
                        share[e, k] += walk.held[level, k] * model.prob[t, k]
                level -= 1
                continue
            _take(model, walk, level, c)
        if not _next_outcome(model, walk, level):
            level -= 1
        elif walk.state[level + 1] == model.goal:
            e = number[model.goal]
            for k in range(samples):
                share[e, k] += walk.held[level + 1, k]
        else:
            level += 1
            opening = True
