"""All randomised history-dependent options, exactly, as one linear program (the sequence form).

A node h is a path (s_0,a_0,s_1,…,s_t) and p_k(h) its probability in sample k without the agent's own choices. With
realisation weights x(h,a) ≥ 0 the expected cost in every sample is linear:

    min z   s.t.   z ≥ Σ_{h,a} x(h,a) p_k(h) paid_k(h,a)               for every k
                   Σ_a x(root,a) = 1,   Σ_a x(h',a) = x(h,a)           for every child h' = (h,a,s')

paid_k is the gap, at the last step plus Σ T_k R(s'). The program is written with advantages instead: paid_k is replaced
by q_k(h,a) − c_k(h), the least cost in sample k after (h,a) less that from h, both by backward induction, and the
least cost of the root is added to row k. The sums along each path telescope, so that it is the same program; but its
entries are the *differences* between options, none is negative, and no digits are lost where R is large.

*What is proved.* The duals of the rows k, normalised, are a belief b over samples. For every belief,

    min over pure options of Σ_k b_k cost_k   ≤   min over options of max_k cost_k

and the left side is a plain recursion over the tree. `bound` is that recursion, less its rounding errors, and `value`
the evaluation of the option's own weights; neither relies on what the solver reports. After a time limit they
still hold, for the belief of the solve before and an option that is good against a stronger adversary.
"""

import math

import numpy as np

from rue._arrays import Array
from rue._highs import Ended
from rue.recursion.inner.layers import Bounds, OptionProgram, ProgramAnswer, blocked
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.template import Template


class SequenceForm(OptionProgram):
    """The best n-step option, with a proof; each solve of the linear program starts from the last basis."""

    def __init__(self, tree: OptionTree, place: int = 0) -> None:
        super().__init__(tree, place, histories=True)
        layers = self.layers
        inner = layers.target >= 0
        self._parent = np.full(layers.nodes, -1)  # the entry that leads to each node
        self._parent[layers.target[inner]] = layers.branch_entry[inner]
        self._belief = np.full(layers.samples, 1 / layers.samples)
        self._program, self._x = self._write()

    def solve_within(self, bounds: Bounds, value: Array, seconds: float) -> ProgramAnswer:
        """Solve the linear program, and prove its answer."""
        layers = self.layers
        shut = blocked(layers, bounds.dead)
        if shut[: layers.entry_ptr[1]].all():
            return self.no_option(value)
        result = self._program.solve(bounds, seconds)
        weight = otherwise = layers.careful(value)
        if result.status is Ended.OPTIMAL:
            assert result.x is not None and result.row_dual is not None
            weight = layers.normalised(np.where(shut, 0.0, result.x[self._x]), otherwise)
            self._belief = np.maximum(result.row_dual[: layers.samples], 0.0)
            self._belief /= self._belief.sum()
        cost = layers.evaluate(value, weight)
        base = bounds.wait_and_see
        least = base + bounds.scale * self._weighted(self._excess(bounds), shut, bounds.start)
        bound = float(max(base, least) - self._rounding(bounds))
        return ProgramAnswer(result.status, float(cost.max()), bound, cost, weight, self._belief.copy())

    def _write(self) -> tuple[Template, Array]:
        """Return the program and the columns of x; a row for each sample comes first, then one for each node."""
        layers, program = self.layers, Template()
        # z is never negative; a bound of 0 on it would take part of the duals, which are the belief.
        z = program.columns(1, lower=-1.0, cost=1.0)
        x = program.columns(layers.entries, upper=lambda bounds: np.where(blocked(layers, bounds.dead), 0.0, 1.0))
        sample = program.rows(layers.samples, lower=lambda bounds: bounds.start)
        flow = (np.arange(layers.nodes) == 0).astype(float)
        node = program.rows(layers.nodes, lower=flow, upper=flow)
        entry, k = np.nonzero(layers.reached)
        program.put(sample, z, 1.0)
        program.put(sample[k], x[entry], lambda bounds: -self._excess(bounds)[entry, k])
        program.put(node[layers.entry_node], x, 1.0)
        program.put(node[1:], x[self._parent[1:]], -1.0)
        return program, x

    def _excess(self, bounds: Bounds) -> Array:  # [E, K]
        """Return p_k times the advantages, scaled."""
        own = self.layers.entry_node
        excess = self.layers.reach[own] * (bounds.low - bounds.node_low[own]) / bounds.scale
        return np.where(bounds.dead, 0.0, excess)  # closed to all samples that matter

    def _weighted(self, excess: Array, shut: Array, start: Array) -> float:
        """Return the least expected cost of pure options under the belief, by recursion over the tree."""
        layers = self.layers
        least = np.where(shut, math.inf, excess @ self._belief)
        for node, entry, _ in layers.backward():
            here = layers.over_entries(np.minimum, least[entry], node, math.inf)
            if node.start:
                # The probabilities are in `excess` already.
                np.add.at(least, self._parent[node], here)
        return float(start @ self._belief + here[0])

    def _rounding(self, bounds: Bounds) -> float:
        """Return a bound on the rounding errors of the bound: each step adds a few, relative to its largest number."""
        layers = self.layers
        fan = int(np.diff(layers.branch_ptr).max(initial=1))
        largest = max(float(np.abs(array).max()) for array in (bounds.low, bounds.high, bounds.paid))
        return 4 * (layers.steps + 1) * (fan + layers.samples + 8) * np.finfo(float).eps * largest
