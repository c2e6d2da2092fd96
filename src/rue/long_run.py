"""How far averages by a discount near 1 are from those of the long run: bounds for each policy and sample.

The values of a model of averages (`average.py`) are f = (1−γ) V, with V = c + γ P V on the chain of a policy. Let P* be
the limit of the mean of P^0 … P^n, so that P* P = P* and the long-run average is g = P* c. As c = V − γ P V,

    g  =  P* V − γ P* P V  =  (1−γ) P* V  =  P* f:

g is a mean of f over recurrent nodes. So if u ≤ P u at all nodes and u ≤ f at recurrent ones, then u ≤ P* u ≤ g.
`judge_kernels.least_average` computes such a u, one number for each strongly connected component, and, from −f, a bound
above. For the best average g* of a sample, u ≤ P_a u for all choices a is a bound below, since V* ≤ c + γ P V* for each
policy. Above, choices that may be optimal with the discount will do: policies of these alone have averages of g* or
more, and one of them has the values V*. `docs/mathematics.md` has the proofs.
"""

from dataclasses import dataclass

import numpy as np

from rue import judge_kernels as chain
from rue import structure_kernels as reach
from rue._arrays import Array, read_only
from rue._rounding import UNIT_ROUNDOFF
from rue.model import UMDP, Graph
from rue.parts import BLOCK
from rue.values import OptimalValues

# More than rounding takes from means over start nodes and from differences, as a part of the largest number.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Around:
    """Bounds on the long-run average from each node, in a block of samples."""

    low: Array  # [N, k]
    high: Array  # [N, k]


def components(row_ptr: Array, target: Array) -> tuple[Array, Array]:
    """Return the nodes by strongly connected components, successors first, and where each component begins.

    Within a component the nodes keep their order.
    """
    part, parts = chain.components(row_ptr, target)
    part_ptr, sequence = reach.predecessors(read_only(part), parts)
    return sequence, part_ptr


def around_policy(part_ptr: Array, system: chain.System, value: Array, error: Array) -> Around:
    """Return bounds for a chain whose nodes are in the order of its components; its last node is that of all ends."""
    count = value.shape[0] - 1
    part = np.repeat(np.arange(part_ptr.size, dtype=np.int32), np.append(np.diff(part_ptr), 1))
    every = np.arange(count + 1)
    rows = chain.ChoiceRows(part_ptr, every[:-1].astype(np.int32), part, every, system.row_ptr, system.target)
    usable = np.ones(system.cost.shape, bool)
    return _around(rows, system.prob, (value - error, value + error), (usable, usable))


def away_from(value: Array, low: Array, high: Array) -> Array:
    """Return how far an average between two bounds may be from a value."""
    largest = np.maximum(np.abs(value), np.maximum(np.abs(low), np.abs(high)))
    return np.asarray(np.maximum(np.maximum(value - low, high - value), 0.0) + ROUNDING * largest)


def away_from_best(model: UMDP, values: OptimalValues) -> Array:  # [K]
    """Return how far the best averages of the samples may be from their optimal values, at the initial state."""
    graph, away = model.graph, np.full(model.samples, np.inf)
    rows, rounding = _rows(graph), ROUNDING + UNIT_ROUNDOFF * int(np.diff(graph.trans_ptr).max(initial=0))
    for first in range(0, model.samples, BLOCK):
        block = slice(first, first + BLOCK)
        lower, upper = values.lower[:, block].copy(), values.upper[:, block].copy()
        known = np.isfinite(upper).all(axis=0)
        upper[:, ~known] = lower[:, ~known]
        prob, cost = np.ascontiguousarray(model.prob[:, block]), model.cost[:, block]
        least = cost + np.add.reduceat(prob * lower[graph.successor], graph.trans_ptr[:-1], axis=0)
        usable = least <= upper[graph.choice_state] * (1 + rounding)
        usable[:, ~known] = True
        around = _around(rows, prob, (lower, upper), (np.ones_like(usable), usable))
        start = graph.initial
        found = away_from(values.value[start, block], around.low[start], around.high[start])
        away[block] = np.where(known, found, np.inf)
    return away


def _rows(graph: Graph) -> chain.ChoiceRows:
    """Return the choices of all states but goals, by strongly connected components."""
    ptr, successor = graph.trans_ptr[graph.choice_ptr], graph.successor.copy()
    part, parts = chain.components(ptr, successor)
    acting = np.flatnonzero(~graph.goal).astype(np.int32)
    part_ptr, place = reach.predecessors(read_only(part[acting]), parts)
    part = part.copy()
    part[graph.goal] = parts
    return chain.ChoiceRows(part_ptr, acting[place], part, graph.choice_ptr.copy(), graph.trans_ptr.copy(), successor)


def _around(rows: chain.ChoiceRows, prob: Array, value: tuple[Array, Array], usable: tuple[Array, Array]) -> Around:
    """Return bounds from values, and choices, that serve the bound below and the one above."""
    low, high = np.zeros_like(value[0]), np.zeros_like(value[1])
    chain.least_average(rows, prob, value[0], usable[0], low)
    chain.least_average(rows, prob, -value[1], usable[1], high)
    return Around(low, -high)
