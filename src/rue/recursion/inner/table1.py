"""Deterministic (s,t)-options, exactly: Table 1 of the paper as a mixed-integer program in HiGHS.

The paper's two families c_q and V^n_q telescope into one. With binaries π(s,a,t), Σ_a π = 1, and c_k(s,t) the expected
cost from slot (s,t) on,

    min z   s.t.   z ≥ c_k(root),   c_k(s,t) = Σ_a π(s,a,t) q_k(s,a,t),   q_k(s,a,t) = paid_k(s,a,t) + Σ T_k c_k(s',t+1)

where paid_k is the gap, at the last step plus Σ T_k R(s'). Instead of one big M, every variable has bounds of its own
by backward induction, and is counted from its lower one: d_k = c_k − min c_k, and e_k(s,a,t) = Σ T_k d_k(s',t+1) is
the part of q_k above the least one. The product w = π e then takes two rows (w ≥ 0, w ≥ e − (1 − π) max e), as z is
minimised, and none at the last step, where e = 0 and the equation is already linear:

    d_k(s,t) ≥ Σ_a π(s,a,t) (min q_k(s,a,t) − min c_k(s,t)) + Σ_a w_k(s,a,t)

*Infinite gaps and values.* An entry that sample k must not take may still be chosen where k never arrives. For such
samples r_k(s,t) ∈ [0,1] says whether k arrives: r(root) = 1, r(s',t+1) ≥ r(s,t) + π(s,a,t) − 1 where T_k(s,a,s') > 0,
and r_k(s,t) + π(s,a,t) ≤ 1 for every entry that k must not take.

The value of the answer is that of its choices, evaluated; its bound is HiGHS's own, to a tolerance of 1e-9 of the
largest difference between two options, and no worse than the "wait and see" bound.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rue._arrays import Array
from rue._highs import Ended
from rue.recursion.inner.layers import Bounds, Layers, OptionProgram, ProgramAnswer, fold
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.template import Template


class Table1(OptionProgram):
    """The best deterministic (s,t)-option; the program is built again only if other entries must not be taken."""

    def __init__(self, tree: OptionTree, place: int = 0) -> None:
        super().__init__(tree, place, histories=False)
        self._dead: Array | None = None
        self._program, self._pi = Template(), np.empty(0, np.int64)
        self._start: Array | None = None

    def solve_within(self, bounds: Bounds, value: Array, seconds: float) -> ProgramAnswer:
        """Solve the mixed-integer program, from the last answer on."""
        layers = self.layers
        dead = bounds.dead & layers.reached
        if self._dead is None or not np.array_equal(dead, self._dead):
            self._dead = dead
            self._program, self._pi = write(layers, dead)
        careful = layers.careful(value)
        start = careful if self._start is None else self._start
        result = self._program.solve(bounds, seconds, (self._pi, start))
        if result.status is Ended.INFEASIBLE:
            return self.no_option(value)
        weight = careful
        if result.x is not None:
            weight = layers.normalised(np.round(result.x[self._pi]), careful)
            self._start = weight
        cost = layers.evaluate(value, weight)
        bound = bounds.wait_and_see + bounds.scale * max(result.bound, 0.0)
        worst = float(cost.max())
        return ProgramAnswer(result.status, worst, min(bound, worst), cost, weight)


def write(layers: Layers, dead: Array) -> tuple[Template, Array]:
    """Return the program of the module's docstring, and the columns of π. Its objective is (z − base) / scale."""
    program = Template()
    z = program.columns(1, cost=1.0)
    pi = program.columns(layers.entries, upper=1.0, integral=True)
    put_choices(program, layers, pi)
    d = put_costs(program, layers, dead, z, pi)
    put_products(program, layers, dead, d, pi)
    put_arrivals(program, layers, dead, pi)
    return program, pi


@dataclass(frozen=True, eq=False)
class Costs:
    """The columns and rows of d_k of each node: -1 where sample k never is."""

    column: Array  # [N, K]
    row: Array  # [N, K]


def put_choices(program: Template, layers: Layers, pi: Array) -> None:
    """Put Σ_a π(s,a,t) = 1 wherever there are entries."""
    node, place = np.unique(layers.entry_node, return_inverse=True)
    row = program.rows(node.size, lower=1.0, upper=1.0)
    program.put(row[place], pi, 1.0)


def put_costs(program: Template, layers: Layers, dead: Array, z: Array, pi: Array) -> Costs:
    """Put columns d with their rows d − Σ_a π (min q − min c) ≥ 0, without products, and z ≥ c(root)."""
    node, sample = np.nonzero(layers.reach > 0)
    column, row = np.full(layers.reach.shape, -1), np.full(layers.reach.shape, -1)
    column[node, sample] = program.columns(
        node.size, upper=lambda bounds: (bounds.node_high - bounds.node_low)[node, sample] / bounds.scale
    )
    row[node, sample] = program.rows(node.size, lower=0.0)
    program.put(row[node, sample], column[node, sample], 1.0)
    entry, k = np.nonzero(layers.reached & ~dead)
    own = layers.entry_node[entry]
    program.put(row[own, k], pi[entry], lambda bounds: (bounds.node_low[own, k] - bounds.low[entry, k]) / bounds.scale)
    top = program.rows(layers.samples, lower=lambda bounds: bounds.start)
    program.put(top, z, 1.0)
    program.put(top, column[0], -1.0)
    return Costs(column, row)


@dataclass(frozen=True, eq=False)
class Products:
    """The columns w of the products π e, for each (entry, sample) after which the option may go on, and max e."""

    column: Array
    entry: Array
    sample: Array
    most: Callable[[Bounds], Array]


def put_products(program: Template, layers: Layers, dead: Array, d: Costs, pi: Array) -> Products:
    """Put columns w ≥ 0 into the rows of d, with w ≥ e − (1 − π) max e."""
    leads_on = fold(np.logical_or, layers.inner, layers.branch_ptr, False)
    entry, k = np.nonzero(leads_on & layers.reached & ~dead)

    def most(bounds: Bounds) -> Array:
        return np.asarray((bounds.high - bounds.low)[entry, k] / bounds.scale)

    w = program.columns(entry.size, upper=most)
    program.put(d.row[layers.entry_node[entry], k], w, -1.0)
    row = program.rows(entry.size, lower=lambda bounds: -most(bounds))
    program.put(row, w, 1.0)
    program.put(row, pi[entry], lambda bounds: -most(bounds))
    put_ahead(program, layers, d, (entry, k), row, -1.0)
    return Products(w, entry, k, most)


def put_ahead(
    program: Template, layers: Layers, d: Costs, cell: tuple[Array, Array], row: Array, sign: float
) -> None:  # fmt: skip
    """Put ± Σ T_k d_k(target) into the row of each (entry, sample)."""
    row_of = np.full((layers.entries, layers.samples), -1)
    row_of[cell] = row
    branch, k = np.nonzero((row_of[layers.branch_entry] >= 0) & layers.inner)
    program.put(
        row_of[layers.branch_entry[branch], k], d.column[layers.target[branch], k], sign * layers.prob[branch, k]
    )


def put_arrivals(program: Template, layers: Layers, dead: Array, pi: Array) -> None:
    """Put r_k(s,t), for the samples that must not take some entry."""
    needed = (layers.reach > 0) & dead.any(axis=0)
    node, sample = np.nonzero(needed)
    column = np.full(layers.reach.shape, -1)
    column[node, sample] = program.columns(node.size, lower=(node == 0).astype(float), upper=1.0)
    branch, k = np.nonzero(layers.inner & (needed[layers.entry_node] & ~dead)[layers.branch_entry])
    entry = layers.branch_entry[branch]
    row = program.rows(branch.size, lower=-1.0)
    program.put(row, column[layers.target[branch], k], 1.0)
    program.put(row, column[layers.entry_node[entry], k], -1.0)
    program.put(row, pi[entry], -1.0)
    entry, k = np.nonzero(dead)
    row = program.rows(entry.size, upper=1.0)
    program.put(row, column[layers.entry_node[entry], k], 1.0)
    program.put(row, pi[entry], 1.0)
