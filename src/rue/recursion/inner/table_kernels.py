"""Options that are tables: a distribution over the choices of every slot (state, time)."""

from collections import namedtuple

import numpy as np

from rue._jit import declare
from rue.recursion.inner.option_tree_kernels import _layer, _number_states, helper, kernel

Flow = namedtuple("Flow", "now then number")
Flow.__doc__ = """Probabilities in each sample of the slots at a time and at the next, whose states are numbered."""
declare(Flow, "f2 f2 i1")


@helper
def _table(layers, tables, i):
    """Return where the weights of option i begin and end in `tables.weight`."""
    begin, _ = _layer(layers, i, np.int64(0))
    end, _ = _layer(layers, i, layers.steps)
    return tables.ptr[begin], tables.ptr[end]


@kernel("l1 OptionArrays SlotLayers Tables OptionRows Flow")
def table_rows(places, model, layers, tables, rows, flow):
    """Compute the rows of options that are tables."""
    for x in range(places.size):
        _table_row(places[x], model, layers, tables, rows, flow)


@helper
def _table_row(i, model, layers, tables, rows, flow):
    """Compute the row of option i from its table."""
    paid, share = rows.paid[i], rows.share[rows.ptr[i] : rows.ptr[i + 1]]
    now, then, number = flow.now, flow.then, flow.number
    choice_ptr, trans_ptr, gap, prob = model.choice_ptr, model.trans_ptr, model.gap, model.prob
    samples = paid.size
    last = model.steps - 1
    paid[:] = 0.0
    share[:, :] = 0.0
    now[0, :] = 1.0
    goal_at = share.shape[0] - 1  # the goal is the last end, if it is one
    for time in range(model.steps):
        begin, end = _layer(layers, i, time)
        _number_states(layers, i, time + 1, number)
        if time < last:
            _, following = _layer(layers, i, time + 1)
            then[: following - end, :] = 0.0
        for w in range(end - begin):
            s = layers.state[begin + w]
            for c in range(choice_ptr[s], choice_ptr[s + 1]):
                part = tables.weight[tables.ptr[begin + w] + c - choice_ptr[s]]
                if not part > 0.0:
                    continue
                for k in range(samples):
                    paid[k] += part * now[w, k] * gap[c, k]
                for t in range(trans_ptr[c], trans_ptr[c + 1]):
                    to = model.successor[t]
                    if time < last and to != model.goal:
                        for k in range(samples):
                            then[number[to], k] += part * now[w, k] * prob[t, k]
                    else:
                        e = goal_at if to == model.goal else number[to]
                        for k in range(samples):
                            share[e, k] += part * now[w, k] * prob[t, k]
        now, then = then, now
