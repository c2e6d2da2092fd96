"""The game behind the recursion: a policy as rows against an adversary who picks a sample whenever a row begins.

A row is what the policy pays in each sample and where it leads to. The rows of single steps are in `one_step.py`, those
of options of n steps in `option_game.py`; here they are evaluated, and their worst case is bounded from above.
"""

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from rue._arrays import Array, places
from rue._linear import solve_chain
from rue.errors import SolverFailed
from rue.recursion import row_kernels as kernel
from rue.recursion.inner.option_tree_kernels import INFINITE
from rue.recursion.row_kernels import PackedRows
from rue.solution import Run

SWEEPS = 30
# Rounds of sweeps after which the adversary's chain is evaluated by factorisation.
PATIENCE = 60
# Rounds of sweeps that count the rows to come.
COUNT_ROUNDS = 100
MOST_ROWS = 1e13


@dataclass(eq=False)
class RowGame(ABC):
    """A policy as rows against the adversary, with its values; row i belongs to state `order[i]`."""

    initial: int
    order: Array  # [n] states, nearest to a goal first
    value: Array  # [S]
    weight: Array  # [S] bounds on the number of the policy's rows to come, as far as they were counted
    scale: float
    packed: Array | None = field(default=None, init=False)  # the policy whose rows are in memory, if that is known

    @abstractmethod
    def pack(self) -> PackedRows:
        """Return the rows of the policy without their self-loops."""

    def pack_units(self) -> PackedRows:
        """Return the same rows, with nothing to pay but a unit for each."""
        rows = self.pack()
        rows.paid[:] = 0.0
        self.packed = None
        return rows

    def sweep(self, kappa: float, tolerance: float) -> float:
        """Let the adversary improve against the policy by a few sweeps; return the last change of a value."""
        return float(kernel.sweep(self.order, self.pack(), kappa, self.value, SWEEPS, tolerance, np.inf))

    def raise_values(self, amount: float, run: Run) -> None:
        """Raise the values by a bound on their change if each row costs `amount` more under the policy."""
        short = self.count_rows(run)
        self.value[self.order] += amount / (1 - min(short, 0.5)) * self.weight[self.order]

    def count_rows(self, run: Run | None = None) -> float:
        """Bound the number of rows to come against any adversary; return the error of a row, infinite if unknown.

        It starts from the numbers that were counted last.
        """
        rows = self.pack_units()
        for _ in range(COUNT_ROUNDS):
            short = self._sweep_replies(rows, 1.0, self.weight, 0.1, MOST_ROWS)
            if short <= 0.1 or (run is not None and run.stop()):
                return short
        self.weight[self.order] = 0.0
        try:
            self.factorise(0.0, 1.0, self.weight)
        except SolverFailed:
            return np.inf
        return float(kernel.sweep(self.order, self.pack_units(), 1.0, self.weight, 1, 0.0, MOST_ROWS))

    @property
    def precision(self) -> float:
        """A change of a value that is no more than rounding."""
        return 1e-14 * max(float(self.value[self.order].max(initial=0.0)), self.scale)

    def evaluate(self, kappa: float) -> None:
        """Let the adversary improve against the policy until it cannot."""
        rows = self.pack()
        for _ in range(PATIENCE):
            if self._sweep_replies(rows, kappa, self.value, self.precision, np.inf) <= self.precision:
                return
        with suppress(SolverFailed):  # rounding cannot tell the policy from one that never ends
            self.factorise(1.0, kappa, self.value)

    def _sweep_replies(self, rows: PackedRows, kappa: float, value: Array, tolerance: float, ceiling: float) -> float:
        """Sweep values of a policy, mostly with the replies of one sweep; return the change of that one.

        On the way, values may fall below those of the policy: they must converge before it is improved.
        """
        return float(kernel.sweep_replies(self.order, rows, kappa, value, SWEEPS, tolerance, ceiling))

    def factorise(self, gap_share: float, kappa: float, value: Array) -> None:
        """Set `value` to the worst case of `gap_share`·g + κ: policy iteration of the adversary by factorisation."""
        size = self.order.size
        rows = self.pack()
        place = places(self.order, self.value.size, size)
        reply = np.zeros(size, np.int64)
        used = slice(0, int(rows.ptr[-1]))
        row, column = np.repeat(np.arange(size), np.diff(rows.ptr)), place[rows.target[used]]
        for turn in range(PATIENCE):
            changed = kernel.improve_replies(rows, gap_share, kappa, value, reply)
            if turn and not changed:
                return
            answer = (np.arange(size), reply)
            cost = _times(gap_share, rows.paid[answer]) + _times(kappa, rows.visits[answer])
            share = rows.share[used][np.arange(row.size), reply[row]]
            value[self.order] = np.minimum(solve_chain(row, column, share, cost), INFINITE)

    def prove_upper(self, paid_error: float, terms: int) -> float:
        """Return a proved upper bound on the policy's worst case from the initial state."""
        if not self.count_rows() < 0.5:
            return np.inf
        need = kernel.prove_upper(self.order, self.pack(), paid_error, terms, self.value, self.weight)
        return float(self.value[self.initial] + need * self.weight[self.initial]) if np.isfinite(need) else np.inf


def _times(factor: float, amounts: Array) -> Array:
    """Return the product, with 0·∞ = 0: a row that is never left has infinite visits, and pays nothing for each."""
    return np.asarray(factor * np.minimum(amounts, INFINITE))


def new_rows(size: int, outcomes: int, samples: int) -> PackedRows:
    """Return memory for some packed rows with some outcomes in all."""
    return PackedRows(
        np.empty(size + 1, np.int64),
        np.empty(outcomes, np.int32),
        np.empty((outcomes, samples)),
        np.empty((size, samples)),
        np.empty((size, samples)),
    )
