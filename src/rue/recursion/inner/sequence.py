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
from rue._highs import Ended, Program
from rue.recursion.inner.layers import Bounds, ProgramAnswer, at_goal, blocked, no_option, unfold
from rue.recursion.inner.option_tree import OptionTree


class SequenceForm:
    """A kept linear program; the terminal values change its coefficients, and each solve starts from the last basis."""

    def __init__(self, tree: OptionTree, place: int = 0) -> None:
        self.layers = layers = unfold(tree, place, histories=True)
        self._cell = np.nonzero(layers.reached)  # (entry, sample) with p_k > 0
        inner = layers.target >= 0
        self._parent = np.full(layers.nodes, -1)  # the entry that leads to each node
        self._parent[layers.target[inner]] = layers.branch_entry[inner]
        self._program: Program | None = None
        self._belief = np.full(layers.samples, 1 / layers.samples)

    def solve(self, value: Array, seconds: float = math.inf) -> ProgramAnswer:
        """Return the n-step option of least worst-case expected cost, with a proof."""
        layers = self.layers
        if not layers.nodes:
            return at_goal(layers)
        bounds = Bounds.of(layers, value)
        shut = blocked(layers, bounds.dead)
        if shut[: layers.entry_ptr[1]].all():
            return no_option(layers, value)
        base, scale = bounds.wait_and_see, bounds.scale
        excess = layers.reach[layers.entry_node] * (bounds.low - bounds.node_low[layers.entry_node]) / scale
        excess[bounds.dead] = 0.0  # closed to all samples that matter
        self._load(excess[self._cell], np.where(shut, 0.0, 1.0), (bounds.node_low[0] - base) / scale)
        assert self._program is not None
        result = self._program.solve(seconds)
        otherwise = layers.careful(value)
        weight = otherwise
        if result.status is Ended.OPTIMAL:
            assert result.x is not None and result.row_dual is not None
            weight = layers.normalised(np.where(shut, 0.0, result.x[1:]), otherwise)
            self._belief = np.maximum(result.row_dual[: layers.samples], 0.0)
            self._belief /= self._belief.sum()
        cost = layers.evaluate(value, weight)
        least = base + scale * self._weighted(excess, shut, (bounds.node_low[0] - base) / scale)
        bound = float(max(base, least) - self._rounding(bounds))
        ended = result.status
        return ProgramAnswer(
            ended, float(cost.max()), bound, cost, weight, self._belief.copy(), self._realisation(weight)
        )

    def _load(self, coefficient: Array, upper: Array, start: Array) -> None:
        """Build the program, or overwrite its numbers: columns z, x; a row for each sample, then for each node."""
        layers = self.layers
        flow = np.zeros(layers.nodes)
        flow[0] = 1.0
        value = np.concatenate((
            np.ones(layers.samples), -coefficient, np.ones(layers.entries), np.full(layers.nodes - 1, -1.0)
        ))  # fmt: skip
        upper = np.concatenate(([math.inf], upper))
        row_lower = np.concatenate((start, flow))
        if self._program is not None:
            self._program.change(value=value, upper=upper, row_lower=row_lower)
            return
        sample, node = np.arange(layers.samples), layers.samples + np.arange(layers.nodes)
        self._program = Program(
            cost=np.concatenate(([1.0], np.zeros(layers.entries))),
            # z is never negative; a bound of 0 on it would take part of the duals, which are the belief.
            lower=np.concatenate(([-1.0], np.zeros(layers.entries))),
            upper=upper,
            row=np.concatenate((sample, self._cell[1], node[layers.entry_node], node[1:])),
            column=np.concatenate((0 * sample, 1 + self._cell[0], 1 + np.arange(layers.entries), 1 + self._parent[1:])),
            value=value,
            row_lower=row_lower,
            row_upper=np.concatenate((np.full(layers.samples, math.inf), flow)),
        )

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

    def _realisation(self, weight: Array) -> Array:  # [E]
        """Return x(h,a): the product of the weights on the way to h, and of a at h."""
        layers = self.layers
        x = weight.copy()
        for node, entry, _ in reversed(list(layers.backward())):
            if node.start:
                x[entry] *= x[self._parent[layers.entry_node[entry]]]
        return x

    def _rounding(self, bounds: Bounds) -> float:
        """Return a bound on the rounding errors of the bound: each step adds a few, relative to its largest number."""
        layers = self.layers
        fan = int(np.diff(layers.branch_ptr).max(initial=1))
        largest = max(float(np.abs(array).max()) for array in (bounds.low, bounds.high, bounds.paid))
        return 4 * (layers.steps + 1) * (fan + layers.samples + 8) * np.finfo(float).eps * largest
