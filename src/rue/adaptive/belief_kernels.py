"""The graph of beliefs: what can be known about the sample when a state is reached, with bounds from both sides.

A *node* is a state and a likelihood p[k]: how probable the history is in sample k, up to a factor. Histories that say
the same meet in one node. With a belief b over the samples before the start, a node has the weight w = b∘p, and

    W(s, w) = min over policies of Σ_k w_k reg_k  =  min over choices c of  w·g(c) + Σ_t W(s'_t, w∘T_t)

is homogeneous in w, so an outcome is a factor, its `share`, times the value of a node. Likelihoods do not depend on b:
when b moves, the same graph is evaluated again and nothing of it is lost.

*From above*, a *vector* is the regret in each sample of a controller that begins at a state: a choice, and a vector for
each outcome. A node holds the one that is best for it. *From below*, the `low` of a node is what its best choice costs,
with the lows of what follows. A choice that has not been followed counts two steps, w·g(c) + Σ_t min over c' of
(w∘T_t)·g(c'); a node that has not been opened counts one step, or has a *link*: with p ≥ share·p', its low is at least
share times that of the other. Opened nodes are the *points* that others may link to.

Vectors and points lie in blocks, each of one state, so that those of a state are read in a row.
"""

from collections import namedtuple

import numpy as np

from rue._jit import compiled, declare

# Sums may be taken in another order. Nothing is assumed about NaN and infinity, which are never stored here.
kernel, helper = compiled(fastmath={"reassoc", "nsz", "contract"})

# Both stand for infinity: the gap of what must not be done, and the regret of a controller that may miss the goal. The
# second stays infinite however unlikely it is, as likelihoods are never below 1e-140 (`LEAST`). A weight of zero takes
# either away: what cannot happen costs nothing.
FORBIDDEN, HUGE, LEAST = 1e100, 1e250, 1e-140
BLOCK = 16
NONE, AGAIN = -1, -2
# Values from below are rounded down by this fraction, more than the arithmetic of a backup can be off.
SAFE = 1.0 - 2e-12
# What is equal but for the last digits: a small part of what `SAFE` keeps back.
ROUNDED = 1.0 + 1e-13
# Likelihoods closer than this are the same.
SAME = 1e-12
# Sweeps between two jumps, and the most times the last rise that a jump may go.
JUMP_EVERY, MOST_TIMES = 16, 1e12
# A share that is one but for rounding, and a probability that is zero but for rounding.
SURE, NEVER = 1.0 - 2.1e-12, 1e-14
# A likelihood of zero in a link: next to nothing, yet large when multiplied by the inverse of zero.
TINY, INVERSE_OF_ZERO = 1e-150, 1e200

World = namedtuple("World", "choice_ptr trans_ptr successor prob gap fallback widest")
World.__doc__ = """The model: what a step costs in each sample, `gap[C, K]`, rounded down; at each state the vector
`fallback[S]` for outcomes that cannot happen; and room for the choices and outcomes of any state, `widest`."""
declare(World, "L1 L1 I1 F2 f2 i1 int")

Tree = namedtuple(
    "Tree",
    "count state likely low up vector link link_share slot seen_vectors seen_points reach took stamp "
    "base rest first child share table "
    "alpha choice next_ptr next_vector vector_block vector_number vector_last "
    "inverse point_node point_block point_number point_last",
)
Tree.__doc__ = """All arrays of a graph; `count` says how much of them is used (the indices NODES … STAMP).

By node: `state`, `likely[K]`, `low`, `up`, `vector`, the `link` with its `link_share`, `slot` (its first action, NONE
if it was not opened), how many vectors and points of its state it has seen, and of the last survey `reach`, `took` and
`stamp`. By action: `base` is w·g, `rest` what is known to follow (−1: not looked at), `first` its first edge (NONE: not
followed). By edge: `child` and `share`. `table` finds nodes. By vector: `alpha[K]`, the `choice` (−1 − n: node n of a
policy that was given), and from `next_ptr` on the vector of each outcome."""
declare(Tree, "l1 i1 f2 f1 f1 i1 i1 f1 l1 i1 i1 f1 i1 i1 f1 f1 l1 i1 f1 i1 f2 i1 l1 i1 i1 i1 i1 f2 i1 i1 i1 i1")

Vectors = namedtuple("Vectors", "count alpha choice next_ptr next_vector block number last")
Vectors.__doc__ = (
    """The arrays of a graph that have to do with vectors: few, so that what needs no others is compiled faster."""
)
declare(Vectors, "l1 f2 i1 l1 i1 i1 i1 i1")

NODES, ACTIONS, EDGES, VECTORS, NEXTS, POINTS, STAMP = range(7)


@helper
def _dot(left, right):
    total = 0.0
    for k in range(left.size):
        total += left[k] * right[k]
    return total


@helper
def _set_weight(tree, node, belief, weight):
    for k in range(weight.size):
        weight[k] = belief[k] * tree.likely[node, k]


@helper
def _one_step(world, s, weight):
    """min over choices of w·g: a lower bound."""
    best = np.inf
    for c in range(np.uint64(world.choice_ptr[s]), np.uint64(world.choice_ptr[s + 1])):
        total = 0.0
        for k in range(weight.size):
            total += weight[k] * world.gap[c, k]
        best = min(best, total)
    return best if world.choice_ptr[s] < world.choice_ptr[s + 1] else 0.0


@helper
def _look_further(world, c, weight, scratch):
    """The sum over the outcomes of a choice of the bounds of one step."""
    total = 0.0
    for t in range(np.uint64(world.trans_ptr[c]), np.uint64(world.trans_ptr[c + 1])):
        most = 0.0
        for k in range(weight.size):
            scratch[k] = weight[k] * world.prob[t, k]
            most = max(most, scratch[k])
        if most > 0.0:
            total += _one_step(world, world.successor[t], scratch)
    return total


@helper
def _scan_vectors(tree, node, weight):
    """Take the best of the vectors that have come to the node's state since it last looked."""
    s = tree.state[node]
    number = tree.vector_number[s]
    fresh = number - tree.seen_vectors[node]
    best = tree.up[node]
    arg = tree.vector[node]
    block = tree.vector_last[s]
    while fresh > 0:
        inside = number % BLOCK
        if inside == 0:
            inside = BLOCK
        for i in range(min(inside, fresh)):
            v = block * BLOCK + inside - 1 - i
            total = 0.0
            for k in range(weight.size):
                total += weight[k] * tree.alpha[np.uint64(v), k]
            if total < best:
                best = total
                arg = v
        fresh -= inside
        number -= inside
        block = tree.vector_block[block]
    tree.seen_vectors[node] = tree.vector_number[s]
    tree.up[node] = best
    tree.vector[node] = arg


@helper
def _scan_points(tree, node, likely):
    """Link to the best of the points that have come to the node's state since it last looked."""
    s = tree.state[node]
    number = tree.point_number[s]
    fresh = number - tree.seen_points[node]
    best = tree.low[node]
    block = tree.point_last[s]
    while fresh > 0:
        inside = number % BLOCK
        if inside == 0:
            inside = BLOCK
        for i in range(min(inside, fresh)):
            at = np.uint64(block * BLOCK + inside - 1 - i)
            other = tree.point_node[at]
            value = tree.low[other]
            if value <= best or other == node:
                continue
            # Most points fail at one of the first samples: the rest is not looked at.
            least = best / (SAFE * value)
            share = HUGE
            for k in range(likely.size):
                share = min(share, likely[k] * tree.inverse[at, k])
                if share <= least:
                    break
            share *= SAFE
            if share * value > best:
                best = share * value
                tree.link[node] = other
                tree.link_share[node] = share
        fresh -= inside
        number -= inside
        block = tree.point_block[block]
    tree.seen_points[node] = tree.point_number[s]
    tree.low[node] = best


@kernel("Tree f1 i1 int int")
def scan(tree, belief, nodes, first, last):
    """Let the nodes of a list look at what is new. Different nodes may be done at the same time.

    What is opened links to nothing here: others may be reading its low.
    """
    weight = np.empty(belief.size)
    for i in range(first, last):
        node = nodes[i]
        _set_weight(tree, node, belief, weight)
        _scan_vectors(tree, node, weight)
        if tree.slot[node] == NONE:
            for k in range(weight.size):
                weight[k] = max(tree.likely[node, k], TINY)
            _scan_points(tree, node, weight)


@helper
def _hash(s, likely):
    code = np.uint64(1469598103934665603) ^ np.uint64(s)
    code *= np.uint64(1099511628211)
    for k in range(likely.size):
        # Rounded, as what is equal but for the last digits is to be found; at worst a node is there twice.
        part = np.uint64(np.int64(likely[k] * 1e7 + 0.5))
        code = (code ^ part) * np.uint64(1099511628211)
        code ^= code >> np.uint64(29)
    return code


@helper
def _find(tree, s, likely):
    """The node of a state and a likelihood, or NONE; and its place in the table."""
    mask = np.uint64(tree.table.size - 1)
    at = _hash(s, likely) & mask
    while tree.table[at] != NONE:
        node = tree.table[at]
        if tree.state[node] == s:
            same = True
            for k in range(likely.size):
                if abs(tree.likely[node, k] - likely[k]) > SAME * likely[k]:
                    same = False
                    break
            if same:
                return node, at
        at = (at + np.uint64(1)) & mask
    return NONE, at


@kernel("i1 f2 i1")
def rehash(state, likely, table):
    """Fill an empty table."""
    mask = np.uint64(table.size - 1)
    for node in range(state.size):
        at = _hash(state[node], likely[node]) & mask
        while table[at] != NONE:
            at = (at + np.uint64(1)) & mask
        table[at] = node


@helper
def _add_vector(vectors, s, choice, alpha):
    """A new vector at a state, whose next vectors are to be filled in: its number."""
    if vectors.number[s] % BLOCK == 0:
        block = vectors.count[VECTORS] // BLOCK
        vectors.block[block] = vectors.last[s]
        vectors.last[s] = block
        vectors.count[VECTORS] += BLOCK
    v = vectors.last[s] * BLOCK + vectors.number[s] % BLOCK
    vectors.number[s] += 1
    vectors.choice[v] = choice
    for k in range(alpha.size):
        vectors.alpha[v, k] = min(alpha[k], HUGE)
    return v


@kernel("Vectors i1 i1 f2 i1")
def add_given(vectors, states, codes, alphas, fallback):
    """Vectors of given policies; the first at a state is its fallback, and those that never help are left out."""
    for i in range(states.size):
        s = states[i]
        useless = False
        number = vectors.number[s]
        block = vectors.last[s]
        while number > 0 and not useless:
            inside = number % BLOCK
            if inside == 0:
                inside = BLOCK
            for j in range(inside):
                above = True
                for k in range(alphas.shape[1]):
                    if alphas[i, k] < vectors.alpha[block * BLOCK + j, k]:
                        above = False
                        break
                if above:
                    useless = True
                    break
            number -= inside
            block = vectors.block[block]
        if not useless:
            v = _add_vector(vectors, s, codes[i], alphas[i])
            if fallback[s] == NONE:
                fallback[s] = v


@helper
def _add_point(tree, node):
    s = tree.state[node]
    if tree.point_number[s] % BLOCK == 0:
        block = tree.count[POINTS] // BLOCK
        tree.point_block[block] = tree.point_last[s]
        tree.point_last[s] = block
        tree.count[POINTS] += BLOCK
    at = tree.point_last[s] * BLOCK + tree.point_number[s] % BLOCK
    tree.point_number[s] += 1
    tree.point_node[at] = node
    for k in range(tree.likely.shape[1]):
        p = tree.likely[node, k]
        tree.inverse[at, k] = 1.0 / p if p > 0.0 else INVERSE_OF_ZERO


@helper
def _add_node(world, tree, s, likely, belief, weight, place):
    """A new node, with the bound of one step and the fallback; it has looked at nothing yet."""
    node = tree.count[NODES]
    tree.count[NODES] += 1
    tree.table[place] = node
    tree.state[node] = s
    for k in range(likely.size):
        tree.likely[node, k] = likely[k]
        weight[k] = belief[k] * likely[k]
    tree.low[node] = SAFE * _one_step(world, s, weight)
    tree.vector[node] = world.fallback[s]
    tree.up[node] = _dot(weight, tree.alpha[world.fallback[s]])
    tree.link[node] = NONE
    tree.slot[node] = NONE
    tree.seen_vectors[node] = 0
    tree.seen_points[node] = 0
    tree.stamp[node] = 0
    return node


@kernel("World Tree int f1")
def plant(world, tree, s, belief):
    """The root: a state at which nothing is known."""
    likely = np.empty(belief.size)
    likely[:] = 1.0
    s = np.int32(s)
    _, place = _find(tree, s, likely)
    _add_node(world, tree, s, likely, belief, np.empty(belief.size), place)


@helper
def _sum_bounds(world, tree, bound, node, a):
    """What a followed choice costs by a bound on what follows. A node that meets itself tries until it leaves."""
    at = tree.slot[node] + a
    c = world.choice_ptr[tree.state[node]] + a
    first = tree.first[at]
    total = tree.base[at]
    again = 0.0
    for e in range(np.uint64(first), np.uint64(first + world.trans_ptr[c + 1] - world.trans_ptr[c])):
        child = tree.child[e]
        if child == node:
            again += tree.share[e]
        elif child != NONE:
            total += tree.share[e] * bound[np.uint32(child)]
    # Whoever can never leave does not reach a goal; the share is rounded down, so that it is below one.
    return total / (1.0 - again) if again < SURE else FORBIDDEN


@helper
def _best_from_below(world, tree, node):
    """The choice of an opened node that costs least from below, and that cost."""
    s = tree.state[node]
    best = np.inf
    arg = 0
    for a in range(world.choice_ptr[s + 1] - world.choice_ptr[s]):
        at = tree.slot[node] + a
        if tree.first[at] == NONE:
            value = tree.base[at] + max(tree.rest[at], 0.0)
        else:
            value = _sum_bounds(world, tree, tree.low, node, a)
        if value < best:
            best = value
            arg = a
    return arg, best


@helper
def _raise_low(world, tree, node):
    """Back up the bound from below."""
    if tree.slot[node] != NONE:
        _, best = _best_from_below(world, tree, node)
        tree.low[node] = max(tree.low[node], SAFE * best)
    if tree.link[node] != NONE:
        tree.low[node] = max(tree.low[node], tree.link_share[node] * tree.low[tree.link[node]])


@helper
def _lower_up(world, tree, node, belief, worth, weight, alpha):
    """Back up the bound from above: a choice that is better by a part `worth` of the gap makes a new vector."""
    s = tree.state[node]
    best = np.inf
    arg = NONE
    for a in range(world.choice_ptr[s + 1] - world.choice_ptr[s]):
        if tree.first[tree.slot[node] + a] != NONE:
            value = _sum_bounds(world, tree, tree.up, node, a)
            if value < best:
                best = value
                arg = a
    up = tree.up[node]
    if arg == NONE or not best < up - worth * (up - tree.low[node]) - 1e-11 * up:
        return False
    if tree.count[VECTORS] + 2 * BLOCK > tree.choice.size or tree.count[NEXTS] + world.widest > tree.next_vector.size:
        return False
    c = world.choice_ptr[s] + arg
    size = world.trans_ptr[c + 1] - world.trans_ptr[c]
    begin = tree.count[NEXTS]
    _combine(world, tree, c, tree.first[tree.slot[node] + arg], node, begin, weight, alpha)
    _set_weight(tree, node, belief, weight)
    total = _dot(weight, alpha)
    if not total < up:
        return False
    vectors = Vectors(
        tree.count, tree.alpha, tree.choice, tree.next_ptr, tree.next_vector,
        tree.vector_block, tree.vector_number, tree.vector_last,
    )  # fmt: skip
    v = _add_vector(vectors, s, np.int32(c), alpha)
    tree.next_ptr[v] = begin
    tree.count[NEXTS] += size
    for i in range(size):
        if tree.next_vector[begin + i] == AGAIN:
            tree.next_vector[begin + i] = v
    tree.up[node] = total
    tree.vector[node] = v
    return True


@helper
def _combine(world, tree, c, edge, node, begin, leave, alpha):
    """The regrets of a choice and then the vectors of the nodes it leads to, which are listed from `begin` on."""
    samples = alpha.size
    for k in range(samples):
        alpha[k] = world.gap[c, k] if world.gap[c, k] < FORBIDDEN else HUGE
        leave[k] = 1.0
    for i in range(world.trans_ptr[c + 1] - world.trans_ptr[c]):
        t = world.trans_ptr[c] + i
        to = world.successor[t]
        child = tree.child[edge + i]
        follow = NONE
        if child == node:
            follow = AGAIN
            for k in range(samples):
                leave[k] -= world.prob[t, k]
        elif world.choice_ptr[to] < world.choice_ptr[to + 1]:
            follow = world.fallback[to] if child == NONE else tree.vector[child]
            for k in range(samples):
                if tree.alpha[follow, k] < HUGE:
                    alpha[k] += world.prob[t, k] * tree.alpha[follow, k]
                elif world.prob[t, k] > 0.0:
                    alpha[k] = HUGE
        tree.next_vector[begin + i] = follow
    for k in range(samples):
        alpha[k] = min(alpha[k] / leave[k], HUGE) if leave[k] > NEVER else HUGE


@helper
def _open(world, tree, node, belief, weight, scratch):
    """Give a node its choices, with the bounds of two steps; it is a point from now on."""
    s = tree.state[node]
    tree.slot[node] = tree.count[ACTIONS]
    tree.count[ACTIONS] += world.choice_ptr[s + 1] - world.choice_ptr[s]
    _set_weight(tree, node, belief, weight)
    for c in range(world.choice_ptr[s], world.choice_ptr[s + 1]):
        at = tree.slot[node] + c - world.choice_ptr[s]
        tree.base[at] = _dot(weight, world.gap[c])
        tree.rest[at] = _look_further(world, c, weight, scratch)
        tree.first[at] = NONE
    _add_point(tree, node)


@helper
def _follow(world, tree, node, a, belief, least, weight, scratch):
    """Make or find the nodes to which a choice leads. Likelihoods below `least` count as zero."""
    c = world.choice_ptr[tree.state[node]] + a
    size = world.trans_ptr[c + 1] - world.trans_ptr[c]
    first = tree.count[EDGES]
    tree.count[EDGES] += size
    for i in range(size):
        t = world.trans_ptr[c] + i
        to = world.successor[t]
        most = 0.0
        for k in range(scratch.size):
            scratch[k] = tree.likely[node, k] * world.prob[t, k]
            most = max(most, scratch[k])
        if most == 0.0 or world.choice_ptr[to] == world.choice_ptr[to + 1]:
            tree.child[first + i] = NONE
            continue
        for k in range(scratch.size):
            scratch[k] = scratch[k] / most
            if scratch[k] < max(least, LEAST):
                scratch[k] = 0.0
        child, place = _find(tree, to, scratch)
        if child == NONE:
            child = _add_node(world, tree, to, scratch, belief, weight, place)
        tree.child[first + i] = child
        tree.share[first + i] = most * SAFE
    tree.first[tree.slot[node] + a] = first


@kernel("World Tree f1 int int")
def load(world, tree, belief, first, last):
    """Begin again at another belief, with the first bounds. Different nodes may be done at the same time."""
    weight = np.empty(belief.size)
    for node in range(first, last):
        _set_weight(tree, np.int32(node), belief, weight)
        tree.up[node] = _dot(weight, tree.alpha[tree.vector[node]])
        slot = tree.slot[node]
        s = tree.state[node]
        if slot != NONE:
            for c in range(world.choice_ptr[s], world.choice_ptr[s + 1]):
                at = slot + c - world.choice_ptr[s]
                tree.base[at] = _dot(weight, world.gap[c])
                tree.rest[at] = -1.0
        tree.low[node] = SAFE * _one_step(world, s, weight)


@kernel("World Tree i1 i1 i1 int")
def settle(world, tree, order, stack, place, passes):
    """Back up all lows, what follows first where there are no circles."""
    count = _full_order(world, tree, order, stack, place)
    for _ in range(passes):
        for i in range(count):
            _raise_low(world, tree, order[i])


@kernel("World Tree i1 int int float")
def relax(world, tree, order, filled, sweeps, tolerance):
    """Back up the lows of the visited nodes again and again, for circles, until none rises by more than a fraction.

    Circles that are seldom left rise by a small part of what they come to, alike in each sweep. So now and then all
    lows go on by many times the last rise, as far as each is still at most what follows from the others.
    """
    start = np.empty(filled)
    rise = np.empty(filled)
    for sweep in range(sweeps):
        rising = False
        for i in range(filled):
            before = tree.low[order[i]]
            _raise_low(world, tree, order[i])
            start[i] = tree.low[order[i]]
            rise[i] = start[i] - before
            rising |= rise[i] > before * tolerance
        if not rising:
            break
        if sweep % JUMP_EVERY == JUMP_EVERY - 1:
            _jump(world, tree, order, start, rise)


@helper
def _jump(world, tree, order, start, rise):
    """Raise all lows by the largest multiple of their last rise, of those tried, that proves itself."""
    times = 1.0
    while times < MOST_TIMES and _is_proved(world, tree, order, start, rise, 4.0 * times):
        times *= 4.0
    for i in range(start.size):
        tree.low[order[i]] = start[i] + (times * rise[i] if times > 1.0 else 0.0)


@helper
def _is_proved(world, tree, order, start, rise, times):
    """Raise the lows; whether each that rises is at most what follows from the others."""
    for i in range(start.size):
        tree.low[order[i]] = start[i] + times * rise[i]
    for i in range(start.size):
        node = order[i]
        if rise[i] > 0.0:
            low = tree.low[node]
            follows = 0.0
            if tree.slot[node] != NONE:
                _, follows = _best_from_below(world, tree, node)
                follows *= SAFE
            if tree.link[node] != NONE:
                follows = max(follows, tree.link_share[node] * tree.low[tree.link[node]])
            if low > ROUNDED * follows or low > FORBIDDEN:
                return False
    return True


@helper
def _full_order(world, tree, order, stack, place):
    """All nodes, each after what follows from it as far as there are no circles."""
    tree.count[STAMP] += 1
    stamp = tree.count[STAMP]
    filled = 0
    top = np.int64(0)
    stack[0] = 0
    place[0] = 0
    tree.stamp[0] = stamp
    while top >= 0:
        child = _next_child(world, tree, stack[top], place, top, stamp)
        if child != NONE:
            tree.stamp[child] = stamp
            top += 1
            stack[top] = child
            place[top] = 0
        else:
            order[filled] = stack[top]
            filled += 1
            top -= 1
    return filled


@helper
def _next_child(world, tree, node, place, top, stamp):
    """The next node that follows from this one by any choice and has not been visited; `place[top]` keeps the place."""
    slot = tree.slot[node]
    if slot == NONE:
        return NONE
    begin = world.choice_ptr[tree.state[node]]
    c = begin
    for t in range(world.trans_ptr[begin] + place[top], world.trans_ptr[world.choice_ptr[tree.state[node] + 1]]):
        place[top] += 1
        while world.trans_ptr[c + 1] <= t:
            c += 1
        first = tree.first[slot + c - begin]
        if first != NONE:
            child = tree.child[first + t - world.trans_ptr[c]]
            if child != NONE and tree.stamp[child] != stamp:
                return child
    return NONE


@kernel("World Tree f1 float float i1 i1 i1")
def survey(world, tree, belief, worth, tiny, order, stack, place):
    """Visit what follows from the root by the choices that are best from below; back up both bounds on the way home.

    Nodes whose bounds have met to within `tiny` are passed over. Leaves the visited nodes in `order`, and of each of
    them which choice it `took` and how often it is reached; returns their number.
    """
    weight = np.empty(belief.size)
    scratch = np.empty(belief.size)
    tree.count[STAMP] += 1
    stamp = tree.count[STAMP]
    filled = 0
    top = 0
    stack[0] = 0
    place[0] = -1
    tree.stamp[0] = stamp
    while top >= 0:
        node = stack[top]
        if place[top] < 0:
            place[top] = 0
            tree.reach[node] = 0.0
            _choose(world, tree, node, belief, weight, scratch)
        going = False
        edge, size = _edges_taken(world, tree, node)
        while place[top] < size:
            child = tree.child[edge + place[top]]
            place[top] += 1
            if child != NONE and tree.stamp[child] != stamp and tree.up[child] - tree.low[child] > tiny:
                tree.stamp[child] = stamp
                top += 1
                stack[top] = child
                place[top] = -1
                going = True
                break
        if not going:
            _raise_low(world, tree, node)
            if tree.slot[node] != NONE:
                _lower_up(world, tree, node, belief, worth, weight, scratch)
            order[filled] = node
            filled += 1
            top -= 1
    _spread(world, tree, order, filled, stamp)
    return filled


@helper
def _choose(world, tree, node, belief, weight, scratch):
    """Take the choice that is best from below, once it has been looked at two steps ahead; NONE if it is not open."""
    tree.took[node] = NONE
    slot = tree.slot[node]
    if slot == NONE:
        return
    a, _ = _best_from_below(world, tree, node)
    while tree.first[slot + a] == NONE and tree.rest[slot + a] < 0.0:
        _set_weight(tree, node, belief, weight)
        c = world.choice_ptr[tree.state[node]] + a
        tree.rest[slot + a] = _look_further(world, c, weight, scratch)
        a, _ = _best_from_below(world, tree, node)
    tree.took[node] = a


@helper
def _edges_taken(world, tree, node):
    """The first edge of the choice that a node took, and how many there are; none if it was not followed."""
    if tree.took[node] == NONE:
        return 0, 0
    first = tree.first[tree.slot[node] + tree.took[node]]
    if first == NONE:
        return 0, 0
    c = world.choice_ptr[tree.state[node]] + tree.took[node]
    return first, world.trans_ptr[c + 1] - world.trans_ptr[c]


@helper
def _spread(world, tree, order, filled, stamp):
    """How much of a node's bounds comes home to the root: the product of the shares, over all ways."""
    tree.reach[0] = 1.0
    for i in range(filled - 1, -1, -1):
        node = order[i]
        first, size = _edges_taken(world, tree, node)
        again = 0.0
        for e in range(first, first + size):
            if tree.child[e] == node:
                again += tree.share[e]
        if again < SURE:
            tree.reach[node] /= 1.0 - again
        for e in range(first, first + size):
            child = tree.child[e]
            if child >= 0 and child != node and tree.stamp[child] == stamp:
                tree.reach[child] += tree.reach[node] * tree.share[e]


@kernel("World Tree f1 float i1 f1 int int")
def grow(world, tree, belief, least, nodes, excess, first, last):
    """Open nodes of a list and follow their best choices; how far it came before there was no room.

    Those whose bounds have come much closer since they were listed are left for now.
    """
    weight = np.empty(belief.size)
    scratch = np.empty(belief.size)
    for i in range(first, last):
        if not _has_room(world, tree):
            return i
        node = nodes[i]
        if tree.reach[node] * (tree.up[node] - tree.low[node]) < 0.5 * excess[i]:
            continue
        if tree.slot[node] == NONE:
            _open(world, tree, node, belief, weight, scratch)
        a, _ = _best_from_below(world, tree, node)
        if tree.first[tree.slot[node] + a] == NONE:
            _follow(world, tree, node, a, belief, least, weight, scratch)
    return last


@helper
def _has_room(world, tree):
    return (
        tree.count[NODES] + world.widest < tree.state.size
        and tree.count[ACTIONS] + world.widest < tree.base.size
        and tree.count[EDGES] + world.widest < tree.child.size
        and tree.count[POINTS] + 2 * BLOCK < tree.point_node.size
        and 2 * (tree.count[NODES] + world.widest) < tree.table.size
    )


@kernel("Vectors int i1")
def root_vectors(vectors, s, found):
    """The vectors of a state, the newest first."""
    number = vectors.number[s]
    block = vectors.last[s]
    count = 0
    while number > 0:
        inside = number % BLOCK
        if inside == 0:
            inside = BLOCK
        for i in range(inside):
            found[count] = block * BLOCK + inside - 1 - i
            count += 1
        number -= inside
        block = vectors.block[block]
    return count


@kernel("L1 i1 Vectors i1 i1 s1 i1")
def mark_vectors(trans_ptr, fallback, vectors, held, kept, mark, stack):
    """Which vectors are in use: 2 if a node has `held` it or it is to be `kept`, 1 if only other vectors lead to it."""
    mark[:] = 0
    for i in range(kept.size):
        mark[kept[i]] = 2
    for s in range(fallback.size):
        if fallback[s] != NONE:
            mark[fallback[s]] = 2
    for node in range(held.size):
        mark[held[node]] = 2
    top = 0
    for v in range(vectors.count[VECTORS]):
        if mark[v] == 2:
            stack[top] = v
            top += 1
    while top > 0:
        top -= 1
        v = stack[top]
        c = vectors.choice[v]
        if c < 0:
            continue
        for i in range(trans_ptr[c + 1] - trans_ptr[c]):
            follow = vectors.next_vector[vectors.next_ptr[v] + i]
            if follow != NONE and mark[follow] == 0:
                mark[follow] = 1
                stack[top] = follow
                top += 1


@kernel("L1 i1 Vectors Vectors i1 i1 i1 s1 i1 i1")
def move_vectors(trans_ptr, fallback, old, new, state, seen, held, mark, place, index):
    """Copy the vectors in use to a graph with none, by state and age; those that only others lead to are out of sight.

    `place` says where each went. What a node has `seen` is counted anew, and what it has `held` gets its new number.
    """
    states = fallback.size
    begin = np.zeros(states + 1, np.int64)
    # How many of the oldest i vectors of state s are in use: before[begin[s] + s + i].
    before = np.zeros(index.size + states + 1, np.int32)
    for s in range(states):
        count = root_vectors(old, s, index)
        begin[s + 1] = begin[s] + count
        for i in range(count):
            v = index[count - 1 - i]
            at = begin[s] + s + i
            before[at + 1] = before[at]
            if mark[v] == 2:
                place[v] = _add_vector(new, np.int32(s), old.choice[v], old.alpha[v])
                before[at + 1] += 1
    for node in range(state.size):
        s = state[node]
        seen[node] = before[begin[s] + s + seen[node]]
    for v in range(old.count[VECTORS]):
        if mark[v] == 1:
            to = new.count[VECTORS]
            new.count[VECTORS] += 1
            place[v] = to
            new.choice[to] = old.choice[v]
            for k in range(old.alpha.shape[1]):
                new.alpha[to, k] = old.alpha[v, k]
    new.count[VECTORS] = (new.count[VECTORS] + BLOCK - 1) // BLOCK * BLOCK
    for v in range(old.count[VECTORS]):
        if mark[v] == 0 or old.choice[v] < 0:
            continue
        c = old.choice[v]
        first = new.count[NEXTS]
        new.next_ptr[place[v]] = first
        for i in range(trans_ptr[c + 1] - trans_ptr[c]):
            follow = old.next_vector[old.next_ptr[v] + i]
            new.next_vector[first + i] = place[follow] if follow != NONE else NONE
        new.count[NEXTS] += trans_ptr[c + 1] - trans_ptr[c]
    for node in range(state.size):
        held[node] = place[held[node]]
    for s in range(states):
        if fallback[s] != NONE:
            fallback[s] = place[fallback[s]]


@helper
def _stand_in(world, tree, node):
    """The opened node that proves a node's low: itself, or what it links to; NONE if one step does."""
    for _ in range(64):
        own = -1.0
        if tree.slot[node] != NONE:
            _, best = _best_from_below(world, tree, node)
            own = SAFE * best
        link = tree.link[node]
        if link == NONE or own >= tree.link_share[node] * tree.low[link]:
            return node if tree.slot[node] != NONE else NONE
        # What is not open has one step, too, which may be all there is to it.
        if tree.slot[node] == NONE and tree.link_share[node] * tree.low[link] < tree.low[node] * (1.0 - 1e-9):
            return NONE
        node = link
    return NONE


@kernel("World Tree i1 i1 i1 l1")
def list_proof(world, tree, points, number, follow, follow_ptr):
    """The nodes on which the low of the root rests, and for each of their transitions the one that stands for it.

    What is not needed is left out: outcomes whose bounds are not needed for a choice to cost what the low says. Returns
    the number of nodes, or minus one if there was no room for the followers.
    """
    number[: tree.count[NODES]] = NONE
    points[0] = 0
    number[0] = 0
    count = 1
    i = 0
    follow_ptr[0] = 0
    while i < count:
        node = points[i]
        s = tree.state[node]
        at = follow_ptr[i]
        if at + world.widest > follow.size:
            return -1
        for c in range(world.choice_ptr[s], world.choice_ptr[s + 1]):
            size = world.trans_ptr[c + 1] - world.trans_ptr[c]
            action = tree.slot[node] + c - world.choice_ptr[s]
            first = tree.first[action]
            spare = tree.base[action] - tree.low[node] / SAFE
            for j in range(size):
                follow[at + j] = NONE
                if first == NONE:
                    continue
                child = tree.child[first + j]
                if child == node:
                    spare += tree.share[first + j] * tree.low[node]
                elif child != NONE:
                    spare += tree.share[first + j] * tree.low[child]
            for j in range(size):
                if first == NONE or tree.child[first + j] == NONE:
                    continue
                child = tree.child[first + j]
                worth = tree.share[first + j] * tree.low[child]
                if worth <= spare:
                    spare -= worth
                    continue
                other = _stand_in(world, tree, child)
                if other == NONE:
                    continue
                if number[other] == NONE:
                    number[other] = count
                    points[count] = other
                    count += 1
                follow[at + j] = number[other]
            at += size
        follow_ptr[i + 1] = at
        i += 1
    return count


@kernel("World i1 f2 f1 i1 l1 float int")
def check_proof(world, state, weight, value, follow, follow_ptr, safe, most):
    """Lower the values that do not follow from the others, in rounds; how many were lowered in the last one.

    The same inequality as in `rue.certificate`, which does not trust this one.
    """
    samples = weight.shape[1]
    ahead = np.empty(samples)
    lowered = 0
    for _ in range(most):
        lowered = 0
        for i in range(state.size - 1, -1, -1):
            s = state[i]
            begin = world.trans_ptr[world.choice_ptr[s]]
            best = np.inf
            for c in range(world.choice_ptr[s], world.choice_ptr[s + 1]):
                total = _dot(weight[i], world.gap[c])
                for t in range(world.trans_ptr[c], world.trans_ptr[c + 1]):
                    if total >= best:
                        break
                    for k in range(samples):
                        ahead[k] = weight[i, k] * world.prob[t, k]
                    j = follow[follow_ptr[i] + t - begin]
                    if j == NONE:
                        total += _one_step(world, world.successor[t], ahead)
                        continue
                    share = HUGE
                    for k in range(samples):
                        if weight[j, k] > 0.0:
                            share = min(share, ahead[k] / weight[j, k])
                    total += share * value[j]
                best = min(best, total)
            if value[i] > safe * best:
                value[i] = safe * best
                lowered += 1
        if lowered == 0:
            break
    return lowered
