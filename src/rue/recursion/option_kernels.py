"""Options of n steps: the best one at a state against the worst sample, over trees of histories or (state, time) slots.

    min over o of  max over k of  E_k[ Σ_{t<n} g_k(s_t, a_t) + R(s_n) ]

A `Field` (see `layout.py`) is the model as options see it: only kept choices and possible transitions, all goals as one
state without choices. `ahead[c, k] = g_k(c) + Σ T_k(c, s') R(s')` is what the last step of an option costs, so R enters
nowhere else.

Two kinds of options:

- *Trees.* A history is a path inside the option. A pure tree names a choice for each history; against a belief b over
  samples the best one is found by a depth-first search (`_respond`), and its cost in each sample is a column. A matrix
  game over columns gives a mixture and the next belief, until no tree is better: column generation for the
  sequence-form linear program.
- *Slots.* A policy of (state, time). Deterministic ones are searched by branch and bound, time by time, with the value
  of the best trees against a belief as the bound; randomised ones improve by exact programs for one time at once.

`HUGE` stands for infinity: a choice that must not be taken. Beliefs are kept above `LEAST`, so that no answer to one
takes such a choice while there is another.
"""

from collections import namedtuple

import numpy as np

from rue._jit import compiled, declare

HUGE = 1e280
INFINITE = 1e100
LEAST = 1e-15
# In a tableau whose entries began in [1, 2]: what is no more than rounding, and the least entry to divide by.
ZERO, PIVOT = 1e-12, 1e-11
# Steps towards a better belief before and within the search for slots.
ROOT_STEPS = 60
LAST_STEPS = 12
# Columns of a game that are kept at once, besides two for each sample, and turns of a game for each of them.
COLUMNS = 128
TURNS = 20

kernel, helper = compiled(fastmath={"reassoc", "nsz", "contract"})


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


@kernel("Field f1 f2")
def look_ahead(field, value, ahead):
    """What the last step of an option costs: ahead[c, k] = g_k(c) + Σ T_k(c, s') R(s')."""
    samples = field.prob.shape[1]
    for c in range(ahead.shape[0]):
        for k in range(samples):
            ahead[c, k] = field.gap[c, k]
        for t in range(np.uint64(field.trans_ptr[c]), np.uint64(field.trans_ptr[c + 1])):
            v = value[np.uint32(field.successor[t])]
            for k in range(samples):
                ahead[c, k] += field.prob[t, k] * v
        for k in range(samples):
            ahead[c, k] = min(ahead[c, k], HUGE)


@helper
def _respond(field, root, steps, belief, ahead, held, taken, stack, sums, stop):
    """The best pure tree of `steps` steps against a belief, which need not sum to one: its value.

    Its choices go to `taken`, by place in the tree; those of histories it does not visit mean nothing. `stack[level]`
    holds state, choice, transition, place, place of the next child and the best choice; `sums[level]` the total so far
    and the best total. When it is told to stop, it returns −∞ and leaves no tree.
    """
    samples = belief.size
    last = steps - 1
    choice_ptr, trans_ptr = field.choice_ptr, field.trans_ptr
    for k in range(samples):
        held[0, k] = belief[k]
    if last == 0:
        best = np.inf
        taken[0] = choice_ptr[root]
        for c in range(choice_ptr[root], choice_ptr[root + 1]):
            paid = 0.0
            for k in range(samples):
                paid += held[0, k] * ahead[c, k]
            if paid < best:
                best = paid
                taken[0] = c
        return best
    level = 0
    stack[0, 0] = root
    stack[0, 3] = 0
    opening = True
    while True:
        if opening:
            s = stack[level, 0]
            c = choice_ptr[s]
            stack[level, 1] = c
            stack[level, 2] = trans_ptr[c]
            stack[level, 4] = stack[level, 3] + 1
            sums[level, 1] = np.inf
            stack[level, 5] = c
            paid = 0.0
            for k in range(samples):
                paid += held[level, k] * field.gap[c, k]
            sums[level, 0] = paid
            opening = False
        c = stack[level, 1]
        t = stack[level, 2]
        if t < trans_ptr[c + 1] and sums[level, 0] < sums[level, 1]:
            stack[level, 2] = t + 1
            to = field.successor[t]
            if to == field.goal:
                continue
            if level == 0 and stop[0]:
                return -np.inf
            place = stack[level, 4]
            stack[level, 4] = place + field.tree_size[steps - level - 1, to]
            for k in range(samples):
                held[level + 1, k] = held[level, k] * field.prob[t, k]
            if level + 1 < last:
                level += 1
                stack[level, 0] = to
                stack[level, 3] = place
                opening = True
                continue
            best = np.inf
            taken[place] = choice_ptr[to]
            for b in range(choice_ptr[to], choice_ptr[to + 1]):
                paid = 0.0
                for k in range(samples):
                    paid += held[last, k] * ahead[b, k]
                if paid < best:
                    best = paid
                    taken[place] = b
            sums[level, 0] += best
            continue
        if sums[level, 0] < sums[level, 1]:
            sums[level, 1] = sums[level, 0]
            stack[level, 5] = c
        s = stack[level, 0]
        if c + 1 < choice_ptr[s + 1]:
            # The places behind choices before this one are passed over, visited or not.
            place = stack[level, 3] + 1
            for b in range(choice_ptr[s], c + 1):
                place += field.choice_size[steps - level, b]
            c += 1
            stack[level, 1] = c
            stack[level, 2] = trans_ptr[c]
            stack[level, 4] = place
            paid = 0.0
            for k in range(samples):
                paid += held[level, k] * field.gap[c, k]
            sums[level, 0] = paid
            continue
        taken[stack[level, 3]] = stack[level, 5]
        if level == 0:
            return sums[0, 1]
        level -= 1
        sums[level, 0] += sums[level + 1, 1]


@helper
def _collect(field, root, steps, taken, plan, stack):
    """The pure tree in `taken` as a plan: its choices in the order of a depth-first walk; returns how many."""
    size = 0
    level = 0
    stack[0, 0] = root
    stack[0, 3] = 0
    opening = True
    while level >= 0:
        if opening:
            s = stack[level, 0]
            c = taken[stack[level, 3]]
            plan[size] = c
            size += 1
            if level == steps - 1:
                level -= 1
                opening = False
                continue
            place = stack[level, 3] + 1
            for b in range(field.choice_ptr[s], c):
                place += field.choice_size[steps - level, b]
            stack[level, 1] = c
            stack[level, 2] = field.trans_ptr[c]
            stack[level, 4] = place
            opening = False
        t = stack[level, 2]
        if t == field.trans_ptr[stack[level, 1] + 1]:
            level -= 1
            continue
        stack[level, 2] = t + 1
        to = field.successor[t]
        if to != field.goal:
            place = stack[level, 4]
            stack[level, 4] = place + field.tree_size[steps - level - 1, to]
            level += 1
            stack[level, 0] = to
            stack[level, 3] = place
            opening = True
    return size


@helper
def _price(field, root, plan, ahead, held, stack, column):
    """The cost of a plan in each sample."""
    samples = column.size
    last = field.steps - 1
    node = 0
    level = 0
    for k in range(samples):
        held[0, k] = 1.0
        column[k] = 0.0
    opening = True
    while level >= 0:
        if opening:
            c = plan[node]
            node += 1
            opening = False
            if level == last:
                for k in range(samples):
                    column[k] += held[level, k] * ahead[c, k]
                level -= 1
                continue
            for k in range(samples):
                column[k] += held[level, k] * field.gap[c, k]
            stack[level, 1] = c
            stack[level, 2] = field.trans_ptr[c]
        t = stack[level, 2]
        if t == field.trans_ptr[stack[level, 1] + 1]:
            level -= 1
            continue
        stack[level, 2] = t + 1
        if field.successor[t] != field.goal:
            for k in range(samples):
                held[level + 1, k] = held[level, k] * field.prob[t, k]
            level += 1
            opening = True


@helper
def _spread(field, plan, weight, held, stack, where, first, paid, share):
    """Add a plan, with a weight, to the row of its option: the gaps paid, and where it ends.

    `where[s]` is the place of an end state among the option's ends, which begin at `first` in `share`.
    """
    samples = paid.size
    last = field.steps - 1
    node = 0
    level = 0
    for k in range(samples):
        held[0, k] = weight
    opening = True
    while level >= 0:
        if opening:
            c = plan[node]
            node += 1
            opening = False
            for k in range(samples):
                paid[k] += held[level, k] * field.gap[c, k]
            stack[level, 1] = c
            stack[level, 2] = field.trans_ptr[c]
        t = stack[level, 2]
        if t == field.trans_ptr[stack[level, 1] + 1]:
            level -= 1
            continue
        stack[level, 2] = t + 1
        to = field.successor[t]
        if level == last or to == field.goal:
            e = first + where[to]
            for k in range(samples):
                share[e, k] += held[level, k] * field.prob[t, k]
        else:
            for k in range(samples):
                held[level + 1, k] = held[level, k] * field.prob[t, k]
            level += 1
            opening = True


@helper
def _mark(field, i, time, where):
    """Number the states of a layer."""
    begin = field.layer_ptr[i * (field.steps + 1) + time]
    for w in range(begin, field.layer_ptr[i * (field.steps + 1) + time + 1]):
        where[field.layer_state[w]] = w - begin


@helper
def _row_cost(field, i, paid, share, first, value, k):
    """What an option costs in sample k, from its row."""
    total = paid[i, k]
    begin = field.layer_ptr[i * (field.steps + 1) + field.steps]
    for e in range(field.layer_ptr[i * (field.steps + 1) + field.steps + 1] - begin):
        total += share[first + e, k] * value[field.layer_state[begin + e]]
    return total


@helper
def _worst(field, i, paid, share, first, value):
    """What an option costs against the adversary, from its row."""
    worst = 0.0
    for k in range(paid.shape[1]):
        worst = max(worst, _row_cost(field, i, paid, share, first, value, k))
    return worst


@helper
def _leaving_row(tableau, basis, enter, by_index):
    """The row that leaves the basis, or -1: of those with the least ratio up to rounding, that with the largest pivot.

    A pivot that is nothing but rounding would ruin the tableau. `by_index` is Bland's rule: the lowest index instead.
    """
    rows = basis.size
    width = tableau.shape[1] - 1
    least = np.inf
    for i in range(rows):
        if tableau[i, enter] > PIVOT:
            least = min(least, tableau[i, width] / tableau[i, enter])
    leave = -1
    for i in range(rows):
        pivot = tableau[i, enter]
        if pivot <= PIVOT or tableau[i, width] > (least + ZERO) * pivot:
            continue
        if leave < 0 or (basis[i] < basis[leave] if by_index else pivot > tableau[leave, enter]):
            leave = i
    return leave


@helper
def _is_finite(matrix, j):
    worst = matrix[0, j]
    for i in range(matrix.shape[0]):
        worst = max(worst, matrix[i, j])
    return worst < INFINITE


@kernel("f2 f2 l1 f1 f1")
def solve_matrix(matrix, tableau, basis, mix, belief):
    """The value of a matrix game by a tableau simplex: column player mixes `mix` to minimise the largest row.

    Entries are scaled into [1, 2], so that no first phase is needed: maximise Σu subject to M u ≤ 1, u ≥ 0; the
    value is 1/Σu, the mixture u/Σu, and the dual gives the row player's `belief`. Columns with infinite entries are
    left out if others are finite. Dantzig's rule, and Bland's after so many pivots that it may be going round.
    Returns the value and the number of pivots; -1 if they ran out or rounding left nothing of the mixture, with `mix`
    and `belief` as they were.
    """
    rows, columns = matrix.shape
    low, high, first = np.inf, -np.inf, -1
    for j in range(columns):
        if first < 0 and _is_finite(matrix, j):
            first = j
    use_all = first < 0
    first = max(first, 0)
    for j in range(columns):
        if use_all or _is_finite(matrix, j):
            for i in range(rows):
                low = min(low, matrix[i, j])
                high = max(high, matrix[i, j])
    span = high - low
    if span <= 0.0:
        mix[:] = 0.0
        mix[first] = 1.0
        belief[:] = 1.0 / rows
        return low, 0
    width = columns + rows
    tableau[:, :] = 0.0
    for j in range(columns):
        used = use_all or _is_finite(matrix, j)
        tableau[rows, j] = -1.0 if used else 0.0  # what gains nothing never enters
        for i in range(rows):
            tableau[i, j] = 1.0 + (matrix[i, j] - low) / span if used else 2.0
    for i in range(rows):
        tableau[i, columns + i] = 1.0
        tableau[i, width] = 1.0
        basis[i] = columns + i
    pivots = 0
    patience = 100 + 10 * width
    most = 1000 + 20 * width
    while pivots < most:
        enter = -1
        best = -ZERO
        for j in range(width):
            if tableau[rows, j] < best:
                enter = j
                if pivots > patience:
                    break
                best = tableau[rows, j]
        if enter < 0:
            break
        pivots += 1
        leave = _leaving_row(tableau, basis, enter, pivots > patience)
        if leave < 0:  # a column of rounding errors: there is nothing to gain from it
            tableau[rows, enter] = 0.0
            continue
        pivot = tableau[leave, enter]
        for j in range(width + 1):
            tableau[leave, j] /= pivot
        for i in range(rows + 1):
            factor = tableau[i, enter]
            if i != leave and factor != 0.0:
                for j in range(width + 1):
                    tableau[i, j] -= factor * tableau[leave, j]
                if i < rows:
                    tableau[i, width] = max(tableau[i, width], 0.0)
        basis[leave] = enter
    total = 0.0
    for i in range(rows):
        if basis[i] < columns:
            total += tableau[i, width]
    if pivots == most or not total > 0.0:
        return np.inf, -1
    mix[:] = 0.0
    for i in range(rows):
        if basis[i] < columns:
            mix[basis[i]] = tableau[i, width] / total
    total = 0.0
    for i in range(rows):
        belief[i] = max(tableau[rows, columns + i], 0.0)
        total += belief[i]
    for i in range(rows):
        belief[i] = belief[i] / total if total > 0.0 else 1.0 / rows
    # The value of the mixture itself, so that rounding in the tableau cannot flatter it.
    value = -np.inf
    for i in range(rows):
        paid = 0.0
        for j in range(columns):
            if mix[j] > 0.0:
                paid += matrix[i, j] * mix[j]
        value = max(value, paid)
    return value, pivots


@helper
def _lift_belief(belief):
    """Keep all weights above `LEAST`, in sum one."""
    total = 0.0
    for k in range(belief.size):
        belief[k] = max(belief[k], LEAST)
        total += belief[k]
    for k in range(belief.size):
        belief[k] /= total


@kernel("Field l1 f1 i1 l1 l1 i1 l1 f2")
def plans_of_slots(field, weight_ptr, weight, choice, plan_ptr, plan_size, plan, count, mix):
    """Give every option the plan of a deterministic slot policy; slots that it does not use take `choice[S]`."""
    steps = field.steps
    stack = np.empty((steps + 1, 6), np.int64)
    where = np.empty((steps, field.choice_ptr.size - 1), np.int32)
    for i in range(field.roots.size):
        count[i] = 1
        mix[i, 0] = 1.0
        for time in range(steps):
            _mark(field, i, time, where[time])
        size = plan_ptr[i]
        level = 0
        stack[0, 0] = field.roots[i]
        opening = True
        while level >= 0:
            if opening:
                s = stack[level, 0]
                slot = field.layer_ptr[i * (steps + 1) + level] + where[level, s]
                c = choice[s]
                for a in range(field.choice_ptr[s + 1] - field.choice_ptr[s]):
                    if weight[weight_ptr[slot] + a] > 0.0:
                        c = field.choice_ptr[s] + a
                plan[size] = c
                size += 1
                opening = False
                if level == steps - 1:
                    level -= 1
                    continue
                stack[level, 1] = c
                stack[level, 2] = field.trans_ptr[c]
            t = stack[level, 2]
            if t == field.trans_ptr[stack[level, 1] + 1]:
                level -= 1
                continue
            stack[level, 2] = t + 1
            if field.successor[t] != field.goal:
                level += 1
                stack[level, 0] = field.successor[t]
                opening = True


@kernel("l1 Field l1 l1 i1 l1 f2 l1 f2 f2")
def tree_rows(places, field, plan_ptr, plan_size, plan, count, mix, share_ptr, paid, share):
    """The rows of options that are mixtures of plans."""
    held = np.empty((field.steps + 1, paid.shape[1]))
    stack = np.empty((field.steps + 1, 6), np.int64)
    where = np.empty(field.choice_ptr.size - 1, np.int32)
    for x in range(places.size):
        i = places[x]
        paid[i, :] = 0.0
        share[share_ptr[i] : share_ptr[i + 1], :] = 0.0
        _mark(field, i, field.steps, where)
        for j in range(count[i]):
            first = plan_ptr[i] + j * plan_size[i]
            _spread(
                field, plan[first : first + plan_size[i]], mix[i, j], held, stack, where, share_ptr[i], paid[i], share
            )


@kernel("l1 Field f2 f1 f1 f1 float bool f2 l1 l1 i1 l1 f2 l1 f2 f2 f1 f1 b1 b1")
def improve_trees(
    places, field, ahead, value, weight, level, tolerance, accept,
    belief, plan_ptr, plan_size, plan, count, mix, share_ptr, paid, share,
    floor, carried, changed, stop,
):  # fmt: skip
    """The best mixture of trees for each option in `places`, by column generation, with those values at the ends that
    `ahead` was made with.

    `floor[i]` becomes a lower bound on what any mixture costs, proved by `belief[i]`. The search ends early when the
    bound reaches `level[i]`. An option is replaced, if `accept` says so, by one that costs less than the present one
    by more than the tolerance with `value` at the ends; `changed[i]` tells. `carried[i]` is the expected `weight` at
    the ends of the tree that answers the belief. Returns the number of pivots.
    """
    samples = paid.shape[1]
    steps = field.steps
    pivots = 0
    most_columns = COLUMNS + 2 * samples
    most_tree = 1
    most_plan = 1
    most_ends = 1
    for x in range(places.size):
        i = places[x]
        most_tree = max(most_tree, field.tree_size[steps, field.roots[i]])
        most_plan = max(most_plan, plan_size[i])
        most_ends = max(most_ends, share_ptr[i + 1] - share_ptr[i])
    held = np.empty((steps + 1, samples))
    stack = np.empty((steps + 1, 6), np.int64)
    sums = np.empty((steps + 1, 2))
    taken = np.empty(most_tree, np.int32)
    where = np.empty(field.choice_ptr.size - 1, np.int32)
    plans = np.empty((most_columns + 1, most_plan), np.int32)  # the last one is for a single answer
    columns = np.empty((most_columns, samples))
    tableau_all = np.empty((samples + 1) * (samples + most_columns + 1))
    matrix_all = np.empty(samples * most_columns)
    basis = np.empty(samples, np.int64)
    fresh = np.empty(most_columns)
    guess = np.empty(samples)
    new_paid = np.empty((1, samples))
    new_share = np.empty((most_ends, samples))
    for x in range(places.size):
        if stop[0]:
            break
        i = places[x]
        root = field.roots[i]
        size = plan_size[i]
        for j in range(count[i]):
            first = plan_ptr[i] + j * size
            _copy(plan[first : first + size], plans[j, :size])
            _price(field, root, plans[j], ahead, held, stack, columns[j])
        columns_in = count[i]
        _copy(belief[i], guess)
        floor[i] = -np.inf
        found = np.inf
        mixed = 0  # columns of the mixture in `fresh`
        for turn in range(TURNS * most_columns):
            if turn > 0:
                matrix = matrix_all[: samples * columns_in].reshape((samples, columns_in))
                for j in range(columns_in):
                    for k in range(samples):
                        matrix[k, j] = columns[j, k]
                tableau = tableau_all[: (samples + 1) * (samples + columns_in + 1)].reshape(
                    (samples + 1, samples + columns_in + 1)
                )
                found, used = solve_matrix(matrix, tableau, basis, fresh[:columns_in], guess)
                mixed = columns_in if used >= 0 else 0
                if used < 0:
                    break
                pivots += used
            _lift_belief(guess)
            bound = _respond(field, root, steps, guess, ahead, held, taken, stack, sums, stop)
            if stop[0]:
                break
            if bound > floor[i]:
                floor[i] = bound
                _copy(guess, belief[i])
            if floor[i] >= level[i] or found - bound <= tolerance:
                break
            if columns_in == most_columns:
                columns_in = _forget(columns, plans, fresh, columns_in)
                mixed = 0  # the columns have moved
            _collect(field, root, steps, taken, plans[columns_in], stack)
            _price(field, root, plans[columns_in], ahead, held, stack, columns[columns_in])
            if not _is_known(columns, columns_in):
                columns_in += 1
            elif turn > 0:  # rounding in the game is all that is left
                break
        _mark(field, i, steps, where)
        if floor[i] >= level[i]:
            continue
        carried[i] = _carry(field, i, root, belief[i], ahead, weight, held, taken, stack, sums, plans[most_columns],
                            where, new_paid, new_share, stop)  # fmt: skip
        if not accept or mixed == 0 or found >= INFINITE:
            continue
        _write_mixture(
            field, i, plans, fresh[:mixed], held, stack, where, new_paid, new_share, value, tolerance,
            plan_ptr, size, plan, count, mix, share_ptr, paid, share, changed,
        )  # fmt: skip
    return pivots


@helper
def _is_known(columns, count):
    """Whether the column after the first `count` is one of them."""
    for j in range(count):
        same = True
        for k in range(columns.shape[1]):
            if columns[j, k] != columns[count, k]:
                same = False
                break
        if same:
            return True
    return False


@helper
def _forget(columns, plans, mix, count):
    """Keep the columns that are in use."""
    kept = 0
    for j in range(count):
        if mix[j] > 0.0:
            _copy(columns[j], columns[kept])
            _copy(plans[j], plans[kept])
            mix[kept] = mix[j]
            kept += 1
    return kept


@helper
def _carry(
    field, i, root, belief, ahead, weight, held, taken, stack, sums, plan, where, new_paid, new_share, stop
):  # fmt: skip
    """The expected weight at the ends of the best tree against a belief."""
    _respond(field, root, field.steps, belief, ahead, held, taken, stack, sums, stop)
    if stop[0]:
        return 0.0
    _collect(field, root, field.steps, taken, plan, stack)
    begin = field.layer_ptr[i * (field.steps + 1) + field.steps]
    ends = field.layer_ptr[i * (field.steps + 1) + field.steps + 1] - begin
    new_paid[:, :] = 0.0
    new_share[:ends, :] = 0.0
    _spread(field, plan, 1.0, held, stack, where, np.int64(0), new_paid[0], new_share)
    total = 0.0
    for e in range(ends):
        for k in range(belief.size):
            total += belief[k] * new_share[e, k] * weight[field.layer_state[begin + e]]
    return total


@helper
def _write_mixture(
    field, i, plans, fresh, held, stack, where, new_paid, new_share, value, tolerance,
    plan_ptr, size, plan, count, mix, share_ptr, paid, share, changed,
):  # fmt: skip
    """Replace the option by a mixture of plans if that is better."""
    samples = paid.shape[1]
    ends = share_ptr[i + 1] - share_ptr[i]
    new_paid[:, :] = 0.0
    new_share[:ends, :] = 0.0
    for j in range(fresh.size):
        if fresh[j] > 0.0:
            _spread(field, plans[j], fresh[j], held, stack, where, np.int64(0), new_paid[0], new_share)
    begin = field.layer_ptr[i * (field.steps + 1) + field.steps]
    cost = 0.0
    for k in range(samples):
        total = new_paid[0, k]
        for e in range(ends):
            total += new_share[e, k] * value[field.layer_state[begin + e]]
        cost = max(cost, total)
    present = np.inf
    if count[i] > 0:
        present = _worst(field, i, paid, share, share_ptr[i], value)
    if not cost < present - tolerance:
        return
    kept = 0
    for j in range(fresh.size):
        if fresh[j] > 0.0:
            first = plan_ptr[i] + kept * size
            _copy(plans[j, :size], plan[first : first + size])
            mix[i, kept] = fresh[j]
            kept += 1
    count[i] = kept
    _copy(new_paid[0], paid[i])
    for e in range(ends):
        _copy(new_share[e], share[share_ptr[i] + e])
    changed[i] = True


@kernel("l1 Field l1 f1 l1 f2 f2")
def slot_rows(places, field, weight_ptr, weight, share_ptr, paid, share):
    """The rows of options that are (state, time) policies: `weight[weight_ptr[slot] + a]` for choice a of the slot."""
    samples = paid.shape[1]
    steps = field.steps
    widest = _widest(field, places)
    now = np.empty((widest, samples))
    then = np.empty((widest, samples))
    where = np.empty(field.choice_ptr.size - 1, np.int32)
    for x in range(places.size):
        i = places[x]
        paid[i, :] = 0.0
        share[share_ptr[i] : share_ptr[i + 1], :] = 0.0
        now[0, :] = 1.0
        goal_at = share_ptr[i + 1] - 1  # the goal is the last end, if it is one
        for time in range(steps):
            mark = i * (steps + 1) + time
            begin, end = field.layer_ptr[mark], field.layer_ptr[mark + 1]
            next_size = field.layer_ptr[mark + 2] - end
            _mark(field, i, time + 1, where)
            if time < steps - 1:
                then[:next_size, :] = 0.0
            for w in range(end - begin):
                s = field.layer_state[begin + w]
                for c in range(field.choice_ptr[s], field.choice_ptr[s + 1]):
                    part = weight[weight_ptr[begin + w] + c - field.choice_ptr[s]]
                    if not part > 0.0:
                        continue
                    for k in range(samples):
                        paid[i, k] += part * now[w, k] * field.gap[c, k]
                    for t in range(field.trans_ptr[c], field.trans_ptr[c + 1]):
                        to = field.successor[t]
                        if to == field.goal:
                            for k in range(samples):
                                share[goal_at, k] += part * now[w, k] * field.prob[t, k]
                        elif time == steps - 1:
                            for k in range(samples):
                                share[share_ptr[i] + where[to], k] += part * now[w, k] * field.prob[t, k]
                        else:
                            for k in range(samples):
                                then[where[to], k] += part * now[w, k] * field.prob[t, k]
            now, then = then, now


@helper
def _widest(field, places):
    """The most states in a layer."""
    widest = 1
    for x in range(places.size):
        for time in range(field.steps + 1):
            mark = places[x] * (field.steps + 1) + time
            widest = max(widest, field.layer_ptr[mark + 1] - field.layer_ptr[mark])
    return widest


@helper
def _step_belief(belief, column, gain, trial):
    """A step of a subgradient method on the simplex towards a bound higher by `gain`; False if there is none."""
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
    total = 0.0
    for k in range(samples):
        trial[k] = max(belief[k] + gain / norm * (column[k] - mean), LEAST)
        total += trial[k]
    for k in range(samples):
        trial[k] /= total
    return True


Search = namedtuple(
    "Search",
    "held stack sums taken where active slot pick option_count option bound suffix gathered pointer depth occupancy "
    "base cost partial lowest order scalar trial better best_pick belief",
)
Search.__doc__ = """Memory of one branch and bound over slots; time comes first, then the place among active slots."""
declare(Search, "f2 l2 f2 i1 i2 l1 l2 l2 l2 l3 f3 f2 f2 l2 l1 f3 f2 f3 f2 f2 l1 f1 f1 f1 l2 f1")


@helper
def _insert(option, bound, count, c, cost):
    """Insert a choice into a list sorted by bound."""
    j = count
    while j > 0 and bound[j - 1] > cost:
        bound[j] = bound[j - 1]
        option[j] = option[j - 1]
        j -= 1
    bound[j] = cost
    option[j] = c


@helper
def _open_layer(field, i, time, ahead, search, stop):
    """Bounds on every choice of the active slots of a time, by the best trees against the belief. Returns the total."""
    samples = search.belief.size
    steps = field.steps
    begin = field.layer_ptr[i * (steps + 1) + time]
    size = search.active[time]
    left = steps - time - 1
    paid = 0.0
    for k in range(samples):
        paid += search.belief[k] * search.base[time, k]
    search.gathered[time, 0] = paid
    for w in range(size):
        if stop[0]:
            return np.inf
        s = field.layer_state[begin + search.slot[time, w]]
        here = search.occupancy[time, w]
        count = np.int64(0)
        for c in range(field.choice_ptr[s], field.choice_ptr[s + 1]):
            cost = 0.0
            for k in range(samples):
                cost += search.belief[k] * here[k] * field.gap[c, k]
            for t in range(field.trans_ptr[c], field.trans_ptr[c + 1]):
                to = field.successor[t]
                if to != field.goal:
                    for k in range(samples):
                        search.trial[k] = search.belief[k] * here[k] * field.prob[t, k]
                    cost += _respond(
                        field, to, left, search.trial, ahead, search.held, search.taken, search.stack, search.sums, stop
                    )
            _insert(search.option[time, w], search.bound[time, w], count, c, cost)
            count += 1
        search.option_count[time, w] = count
    search.suffix[time, size] = 0.0
    for w in range(size - 1, -1, -1):
        search.suffix[time, w] = search.suffix[time, w + 1] + search.bound[time, w, 0]
    search.pointer[time, 0] = 0
    search.depth[time] = 0
    return paid + search.suffix[time, 0]


@helper
def _next_layer(field, i, time, search):
    """Occupancies and gaps paid after the choices that were picked at a time."""
    samples = search.belief.size
    steps = field.steps
    following = field.layer_ptr[i * (steps + 1) + time + 1]
    size = field.layer_ptr[i * (steps + 1) + time + 2] - following
    _copy(search.base[time], search.base[time + 1])
    search.occupancy[time + 1, :size, :] = 0.0
    where = search.where[time + 1]
    for w in range(search.active[time]):
        here = search.occupancy[time, w]
        c = search.option[time, w, search.pick[time, w]]
        for k in range(samples):
            search.base[time + 1, k] += here[k] * field.gap[c, k]
        for t in range(field.trans_ptr[c], field.trans_ptr[c + 1]):
            to = field.successor[t]
            if to != field.goal:
                for k in range(samples):
                    search.occupancy[time + 1, where[to], k] += here[k] * field.prob[t, k]
    count = 0
    for w in range(size):
        if _largest(search.occupancy[time + 1, w]) > 0.0:
            search.slot[time + 1, count] = w
            if count < w:
                _copy(search.occupancy[time + 1, w], search.occupancy[time + 1, count])
            count += 1
    search.active[time + 1] = count


@helper
def _last_layer(field, i, ahead, search, best, nodes, stop):
    """The best choices of the last time, given all others; returns their worst cost if below `best`, else `best`.

    What each choice adds to each sample is fixed now, so this is a sum of one vector out of each slot whose largest
    entry is to be small: a few steps towards a better belief first, which prune or find most of it, then branching with
    bounds by that belief and sample by sample.
    """
    samples = search.belief.size
    steps = field.steps
    time = steps - 1
    begin = field.layer_ptr[i * (steps + 1) + time]
    size = search.active[time]
    cost, partial = search.cost, search.partial
    for w in range(size):
        s = field.layer_state[begin + search.slot[time, w]]
        first = field.choice_ptr[s]
        search.option_count[time, w] = field.choice_ptr[s + 1] - first
        for a in range(search.option_count[time, w]):
            for k in range(samples):
                cost[w, a, k] = search.occupancy[time, w, k] * ahead[first + a, k]
    _copy(search.belief, search.trial)
    top = -np.inf
    for _ in range(LAST_STEPS):
        bound = 0.0
        for k in range(samples):
            partial[0, k] = search.base[time, k]
            bound += search.trial[k] * partial[0, k]
        for w in range(size):
            low = np.inf
            arg = 0
            for a in range(search.option_count[time, w]):
                paid = 0.0
                for k in range(samples):
                    paid += search.trial[k] * cost[w, a, k]
                if paid < low:
                    low = paid
                    arg = a
            bound += low
            search.pick[time, w] = arg
            for k in range(samples):
                partial[0, k] += cost[w, arg, k]
        worst = _largest(partial[0])
        if worst < best:
            best = worst
            _keep(field, i, search)
        if bound > top:
            top = bound
            _copy(search.trial, search.better)
        if top >= best or not _step_belief(search.trial, partial[0], best - bound, search.trial):
            break
    if top >= best:
        return best
    return _branch(field, i, search, best, nodes, stop)


@helper
def _branch(field, i, search, best, nodes, stop):
    """Branch over the slots of the last time, those that matter most first."""
    samples = search.belief.size
    time = field.steps - 1
    size = search.active[time]
    cost, partial, lowest = search.cost, search.partial, search.lowest
    for w in range(size):
        # `option` holds places in `cost`, sorted by what they cost under the belief.
        for a in range(search.option_count[time, w]):
            paid = 0.0
            for k in range(samples):
                paid += search.better[k] * cost[w, a, k]
            _insert(search.option[time, w], search.bound[time, w], a, a, paid)
        spread = search.bound[time, w, search.option_count[time, w] - 1] - search.bound[time, w, 0]
        j = w
        while j > 0 and search.scalar[j - 1] < spread:
            search.scalar[j] = search.scalar[j - 1]
            search.order[j] = search.order[j - 1]
            j -= 1
        search.scalar[j] = spread
        search.order[j] = w
    search.suffix[time, size] = 0.0
    lowest[size, :] = 0.0
    for j in range(size - 1, -1, -1):
        w = search.order[j]
        search.suffix[time, j] = search.suffix[time, j + 1] + search.bound[time, w, 0]
        for k in range(samples):
            low = np.inf
            for a in range(search.option_count[time, w]):
                low = min(low, cost[w, a, k])
            lowest[j, k] = lowest[j + 1, k] + low
    paid = 0.0
    for k in range(samples):
        partial[0, k] = search.base[time, k]
        paid += search.better[k] * partial[0, k]
    search.gathered[time, 0] = paid
    search.pointer[time, 0] = 0
    j = 0
    while j >= 0:
        if j == size:
            worst = _largest(partial[size])
            if worst < best:
                best = worst
                _keep(field, i, search)
            j -= 1
            continue
        w = search.order[j]
        a = search.pointer[time, j]
        if a == search.option_count[time, w] or (
            search.gathered[time, j] + search.bound[time, w, a] + search.suffix[time, j + 1] >= best
        ):
            j -= 1
            continue
        search.pointer[time, j] = a + 1
        nodes[0] += 1
        if nodes[0] > nodes[1] or (nodes[0] % 4096 == 0 and stop[0]):
            return best
        arg = search.option[time, w, a]
        worst = 0.0
        for k in range(samples):
            partial[j + 1, k] = partial[j, k] + cost[w, arg, k]
            worst = max(worst, partial[j + 1, k] + lowest[j + 1, k])
        if worst >= best:
            continue
        search.pick[time, w] = arg
        search.gathered[time, j + 1] = search.gathered[time, j] + search.bound[time, w, a]
        j += 1
        search.pointer[time, j] = 0
    return best


@helper
def _keep(field, i, search):
    """Remember the choices picked at all times; slots that are not reached get -1."""
    steps = field.steps
    for time in range(steps):
        begin = field.layer_ptr[i * (steps + 1) + time]
        search.best_pick[time, : field.layer_ptr[i * (steps + 1) + time + 1] - begin] = -1
        for w in range(search.active[time]):
            slot = search.slot[time, w]
            s = field.layer_state[begin + slot]
            pick = search.pick[time, w]
            if time < steps - 1:
                pick = search.option[time, w, pick] - field.choice_ptr[s]
            search.best_pick[time, slot] = pick


@helper
def _search(field, i, ahead, best, search, nodes, stop):
    """Branch and bound over all deterministic slot policies of option i; the best cost below `best`, else `best`.

    Times are decided one after the other. At each, what is decided so far fixes the occupancies, and what the rest will
    cost is bounded by trees, which know more than slots do. It breaks off when `nodes[0]` goes over `nodes[1]`.
    """
    steps = field.steps
    search.active[0] = 1
    search.slot[0, 0] = 0
    search.occupancy[0, 0, :] = 1.0
    search.base[0, :] = 0.0
    for time in range(1, steps):
        _mark(field, i, time, search.where[time])
    time = np.int64(0)
    opening = True
    while time >= 0:
        if stop[0] or nodes[0] > nodes[1]:
            return best
        if opening:
            opening = False
            if time == steps - 1 or search.active[time] == 0:
                for later in range(time + 1, steps):  # a goal was reached on all ways
                    search.active[later] = 0
                if time < steps - 1:
                    _copy(search.base[time], search.base[steps - 1])
                best = _last_layer(field, i, ahead, search, best, nodes, stop)
                time -= 1
                continue
            if _open_layer(field, i, time, ahead, search, stop) >= best or stop[0]:
                time -= 1
                continue
        size = search.active[time]
        w = search.depth[time]
        if w == size:
            w -= 1
        while 0 <= w < size:
            a = search.pointer[time, w]
            if a < search.option_count[time, w] and (
                search.gathered[time, w] + search.bound[time, w, a] + search.suffix[time, w + 1] < best
            ):
                nodes[0] += 1
                search.pointer[time, w] = a + 1
                search.pick[time, w] = a
                search.gathered[time, w + 1] = search.gathered[time, w] + search.bound[time, w, a]
                w += 1
                search.pointer[time, w] = 0
            else:
                w -= 1
        if w < 0:
            time -= 1
            continue
        search.depth[time] = size
        _next_layer(field, i, time, search)
        time += 1
        opening = True
    return best


@kernel("l1 Field f2 f1 f1 f1 f1 float bool f2 l1 f1 l1 f2 f2 f1 f1 b1 int b1 Search")
def improve_slots(
    places, field, ahead, lowered, value, weight, level, tolerance, accept,
    belief, weight_ptr, choice_weight, share_ptr, paid, share,
    floor, carried, changed, budget, stop, search,
):  # fmt: skip
    """The best deterministic slot policy for each option in `places`, with `lowered` values at the ends.

    `floor[i]` becomes a lower bound on what any costs: the least cost found, or `level[i]` if none is below that, which
    is all that is looked for; a weaker one where the search broke off after `budget` nodes. For `accept`, `changed` and
    `carried` see `improve_trees`; here the weight is that of the ends in the worst sample for the best policy. Returns
    the number of nodes, and of searches that broke off.
    """
    samples = paid.shape[1]
    steps = field.steps
    column = np.empty(samples)
    plan = np.empty(search.taken.size, np.int32)
    spare = np.empty(_most_weights(field, places, weight_ptr))
    one = np.empty(1, np.int64)
    nodes = np.zeros(2, np.int64)  # how many, and when to break off
    broke_off = 0
    for x in range(places.size):
        if stop[0]:
            break
        i = places[x]
        root = field.roots[i]
        _copy(belief[i], search.belief)
        _lift_belief(search.belief)
        bound = -np.inf
        _copy(search.belief, search.better)
        _copy(search.belief, search.trial)
        for _ in range(ROOT_STEPS if steps > 2 else 8):
            now = _respond(
                field, root, steps, search.trial, ahead, search.held, search.taken, search.stack, search.sums, stop
            )
            if now > bound:
                bound = now
                _copy(search.trial, search.better)
            if bound >= level[i] or stop[0]:
                break
            _collect(field, root, steps, search.taken, plan, search.stack)
            _price(field, root, plan, ahead, search.held, search.stack, column)
            if not _step_belief(search.trial, column, level[i] - now, search.trial):
                break
        _copy(search.better, belief[i])
        _copy(search.better, search.belief)
        floor[i] = level[i]
        if bound >= level[i]:
            continue
        nodes[1] = nodes[0] + budget
        best = _search(field, i, ahead, level[i], search, nodes, stop)
        if stop[0] or nodes[0] > nodes[1]:
            floor[i] = bound
            broke_off += 1
        elif best < level[i]:
            floor[i] = best
        if not best < level[i]:
            continue
        one[0] = i
        begin = field.layer_ptr[i * (steps + 1)]
        first, last = weight_ptr[begin], weight_ptr[field.layer_ptr[i * (steps + 1) + steps]]
        present = np.inf
        for end in range(share_ptr[i], share_ptr[i + 1]):
            if _largest(share[end]) > 0.0:  # there is one
                present = _worst(field, i, paid, share, share_ptr[i], value)
                break
        _copy(choice_weight[first:last], spare[: last - first])
        choice_weight[first:last] = 0.0
        for time in range(steps):
            begin = field.layer_ptr[i * (steps + 1) + time]
            for w in range(field.layer_ptr[i * (steps + 1) + time + 1] - begin):
                if search.best_pick[time, w] >= 0:
                    choice_weight[weight_ptr[begin + w] + search.best_pick[time, w]] = 1.0
        slot_rows(one, field, weight_ptr, choice_weight, share_ptr, paid, share)
        carried[i] = _carried_by_row(field, i, paid, share, share_ptr[i], lowered, weight)
        if accept and _worst(field, i, paid, share, share_ptr[i], value) < present - tolerance:
            changed[i] = True
        else:
            _copy(spare[: last - first], choice_weight[first:last])
            slot_rows(one, field, weight_ptr, choice_weight, share_ptr, paid, share)
    return nodes[0], broke_off


@helper
def _most_weights(field, places, weight_ptr):
    """The most weights of an option."""
    most = 1
    for x in range(places.size):
        first = places[x] * (field.steps + 1)
        most = max(most, weight_ptr[field.layer_ptr[first + field.steps]] - weight_ptr[field.layer_ptr[first]])
    return most


@helper
def _carried_by_row(field, i, paid, share, first, value, weight):
    """The expected weight at the ends in the sample that is worst for the option."""
    worst = 0
    most = -np.inf
    for k in range(paid.shape[1]):
        cost = _row_cost(field, i, paid, share, first, value, k)
        if cost > most:
            most = cost
            worst = k
    begin = field.layer_ptr[i * (field.steps + 1) + field.steps]
    total = 0.0
    for e in range(field.layer_ptr[i * (field.steps + 1) + field.steps + 1] - begin):
        total += share[first + e, worst] * weight[field.layer_state[begin + e]]
    return total


@kernel("i1 l1 i1 f1 L1 I1 F2 F2 float f1 float f2")
def improve_mixed(order, kept_ptr, kept, mix, trans_ptr, successor, prob, gap, kappa, value, tolerance, belief):
    """A greedy sweep over distributions: one matrix game per state. `belief[i]` is the adversary's answer.

    Returns how many mixtures changed, the largest change of a value, and the pivots.
    """
    samples = prob.shape[1]
    most = 0
    for i in range(order.size):
        most = max(most, kept_ptr[i + 1] - kept_ptr[i])
    matrix_all = np.empty(samples * most)
    tableau_all = np.empty((samples + 1) * (samples + most + 1))
    basis = np.empty(samples, np.int64)
    fresh = np.empty(most)
    changed = 0
    pivots = 0
    delta = 0.0
    for i in range(order.size):
        s = order[i]
        first = kept_ptr[i]
        count = kept_ptr[i + 1] - first
        matrix = matrix_all[: samples * count].reshape((samples, count))
        for j in range(count):
            c = kept[first + j]
            for k in range(samples):
                matrix[k, j] = gap[c, k] + kappa
            for t in range(np.uint64(trans_ptr[c]), np.uint64(trans_ptr[c + 1])):
                v = value[np.uint32(successor[t])]
                for k in range(samples):
                    matrix[k, j] += prob[t, k] * v
        current = 0.0
        for k in range(samples):
            paid = 0.0
            for j in range(count):
                paid += mix[first + j] * matrix[k, j]
            current = max(current, paid)
        tableau = tableau_all[: (samples + 1) * (samples + count + 1)].reshape((samples + 1, samples + count + 1))
        best, used = solve_matrix(matrix, tableau, basis, fresh[:count], belief[i])
        pivots += max(used, 0)
        if used >= 0 and best < current - tolerance:
            for j in range(count):
                mix[first + j] = fresh[j]
            changed += 1
        else:
            best = current
        delta = max(delta, abs(best - value[s]))
        value[s] = best
    return changed, delta, pivots


@kernel("l1 Field f2 f1 float int l1 f1 l1 f2 f2 f1 b1 b1")
def improve_mixed_slots(
    places, field, ahead, value, tolerance, starts,
    weight_ptr, choice_weight, share_ptr, paid, share, floor, changed, stop,
):  # fmt: skip
    """Better randomised slot policies by alternation: all times but one fixed, that one is a linear program.

    With the others fixed, what each choice of the one time adds to each sample is known, so the best distributions over
    them are a matrix game, solved by column generation. Every step is exact, all together find a local optimum. The
    first of the `starts` is the present policy, the second has all choices alike, the others are random, and the same
    each time. `floor[i]` is the cost of the best policy found, which proves nothing. Returns the number of pivots.
    """
    samples = paid.shape[1]
    steps = field.steps
    most_columns = COLUMNS + 2 * samples
    most = _most_weights(field, places, weight_ptr)
    widest = _widest(field, places)
    trial = np.empty(most)
    best_weight = np.empty(most)
    one = np.empty(1, np.int64)
    pivots = np.zeros(1, np.int64)
    occupancy = np.empty((steps, widest, samples))
    to_go = np.empty((2, widest, samples))
    cost = np.empty((most, samples))
    base = np.empty(samples)
    picks = np.empty((most_columns, most))
    columns = np.empty((most_columns, samples))
    matrix_all = np.empty(samples * most_columns)
    tableau_all = np.empty((samples + 1) * (samples + most_columns + 1))
    basis = np.empty(samples, np.int64)
    mix = np.empty(most_columns)
    belief = np.empty(samples)
    where = np.empty((steps + 1, field.choice_ptr.size - 1), np.int32)
    for x in range(places.size):
        if stop[0]:
            break
        i = places[x]
        first = weight_ptr[field.layer_ptr[i * (steps + 1)]]
        size = weight_ptr[field.layer_ptr[i * (steps + 1) + steps]] - first
        for time in range(steps):
            _mark(field, i, time, where[time])
        best = np.inf
        for start in range(starts):
            if start == 0:
                _copy(choice_weight[first : first + size], trial[:size])
            else:
                _spread_out(field, i, weight_ptr, first, trial, start)
            worst = np.inf
            for _ in range(50):
                before = worst
                for back in range(steps):
                    time = steps - 1 - back
                    _lay_costs(field, i, time, ahead, weight_ptr, first, trial, occupancy, to_go, where, base, cost)
                    worst = _solve_time(
                        field, i, time, weight_ptr, first, trial, base, cost, tolerance,
                        picks, columns, matrix_all, tableau_all, basis, mix, belief, pivots,
                    )  # fmt: skip
                if not worst < before - tolerance or stop[0]:
                    break
            if worst < best - tolerance:
                best = worst
                _copy(trial[:size], best_weight[:size])
        floor[i] = best
        present = _worst(field, i, paid, share, share_ptr[i], value)
        _copy(choice_weight[first : first + size], trial[:size])
        _copy(best_weight[:size], choice_weight[first : first + size])
        one[0] = i
        slot_rows(one, field, weight_ptr, choice_weight, share_ptr, paid, share)
        if _worst(field, i, paid, share, share_ptr[i], value) < present - tolerance:
            changed[i] = True
        else:
            _copy(trial[:size], choice_weight[first : first + size])
            slot_rows(one, field, weight_ptr, choice_weight, share_ptr, paid, share)
    return pivots[0]


@helper
def _spread_out(field, i, weight_ptr, first, weight, start):
    """Distributions for every slot: all choices alike for start 1, random for the others."""
    seed = np.uint64(2654435761) * np.uint64(start)
    for slot in range(field.layer_ptr[i * (field.steps + 1)], field.layer_ptr[i * (field.steps + 1) + field.steps]):
        total = 0.0
        for a in range(weight_ptr[slot] - first, weight_ptr[slot + 1] - first):
            weight[a] = 1.0
            if start > 1:  # xorshift
                seed ^= seed << np.uint64(13)
                seed ^= seed >> np.uint64(7)
                seed ^= seed << np.uint64(17)
                weight[a] = -np.log(1e-9 + float(seed >> np.uint64(11)) / 2.0**53)
            total += weight[a]
        for a in range(weight_ptr[slot] - first, weight_ptr[slot + 1] - first):
            weight[a] /= total


@helper
def _lay_costs(field, i, time, ahead, weight_ptr, first, weight, occupancy, to_go, where, base, cost):
    """What was paid before a time, and what each choice of that time adds to each sample, all other times fixed."""
    samples = base.size
    steps = field.steps
    base[:] = 0.0
    occupancy[0, 0, :] = 1.0
    for now in range(time):
        begin = field.layer_ptr[i * (steps + 1) + now]
        end = field.layer_ptr[i * (steps + 1) + now + 1]
        occupancy[now + 1, : field.layer_ptr[i * (steps + 1) + now + 2] - end, :] = 0.0
        for slot in range(begin, end):
            s = field.layer_state[slot]
            for a in range(weight_ptr[slot + 1] - weight_ptr[slot]):
                part = weight[weight_ptr[slot] + a - first]
                if not part > 0.0:
                    continue
                c = field.choice_ptr[s] + a
                for k in range(samples):
                    base[k] += part * occupancy[now, slot - begin, k] * field.gap[c, k]
                for t in range(field.trans_ptr[c], field.trans_ptr[c + 1]):
                    to = field.successor[t]
                    if to != field.goal:
                        for k in range(samples):
                            occupancy[now + 1, where[now + 1, to], k] += (
                                part * occupancy[now, slot - begin, k] * field.prob[t, k]
                            )
    for now in range(steps - 1, time - 1, -1):
        begin = field.layer_ptr[i * (steps + 1) + now]
        end = field.layer_ptr[i * (steps + 1) + now + 1]
        later, here = to_go[(now + 1) % 2], to_go[now % 2]
        for slot in range(begin, end):
            s = field.layer_state[slot]
            if now > time:
                here[slot - begin, :] = 0.0
            for a in range(weight_ptr[slot + 1] - weight_ptr[slot]):
                c = field.choice_ptr[s] + a
                row = cost[weight_ptr[slot] + a - first]
                if now == steps - 1:
                    for k in range(samples):
                        row[k] = ahead[c, k]
                else:
                    for k in range(samples):
                        row[k] = field.gap[c, k]
                    for t in range(field.trans_ptr[c], field.trans_ptr[c + 1]):
                        to = field.successor[t]
                        if to != field.goal:
                            for k in range(samples):
                                row[k] += field.prob[t, k] * later[where[now + 1, to], k]
                part = weight[weight_ptr[slot] + a - first]
                if now > time:
                    if part > 0.0:
                        for k in range(samples):
                            here[slot - begin, k] += part * row[k]
                else:
                    for k in range(samples):
                        row[k] *= occupancy[time, slot - begin, k]


@helper
def _solve_time(
    field, i, time, weight_ptr, first, weight, base, cost, tolerance,
    picks, columns, matrix_all, tableau_all, basis, mix, belief, pivots,
):  # fmt: skip
    """The best distributions at one time; returns the worst cost of the policy with them."""
    samples = base.size
    begin = field.layer_ptr[i * (field.steps + 1) + time]
    end = field.layer_ptr[i * (field.steps + 1) + time + 1]
    low, high = weight_ptr[begin] - first, weight_ptr[end] - first
    _copy(weight[low:high], picks[0, low:high])
    for k in range(samples):
        total = base[k]
        for a in range(low, high):
            total += weight[a] * cost[a, k]
        columns[0, k] = total
    present = _largest(columns[0])
    count = np.int64(1)
    found = present
    mix[0] = 1.0
    belief[:] = 1.0 / samples
    while count < columns.shape[0]:
        matrix = matrix_all[: samples * count].reshape((samples, count))
        for j in range(count):
            for k in range(samples):
                matrix[k, j] = columns[j, k]
        tableau = tableau_all[: (samples + 1) * (samples + count + 1)].reshape((samples + 1, samples + count + 1))
        value, used = solve_matrix(matrix, tableau, basis, mix[:count], belief)
        if used < 0:
            break
        pivots[0] += used
        found = value
        bound = 0.0
        for k in range(samples):
            columns[count, k] = base[k]
        picks[count, low:high] = 0.0
        for slot in range(begin, end):
            least = np.inf
            arg = 0
            for a in range(weight_ptr[slot] - first, weight_ptr[slot + 1] - first):
                total = 0.0
                for k in range(samples):
                    total += belief[k] * cost[a, k]
                if total < least:
                    least = total
                    arg = a
            picks[count, arg] = 1.0
            for k in range(samples):
                columns[count, k] += cost[arg, k]
        for k in range(samples):
            bound += belief[k] * columns[count, k]
        if found - bound <= tolerance or _is_known(columns, count):
            break
        mix[count] = 0.0
        count += 1
    if not found < present - tolerance:
        return present
    for a in range(low, high):
        weight[a] = 0.0
        for j in range(count):
            if mix[j] > 0.0:
                weight[a] += mix[j] * picks[j, a]
    return found
