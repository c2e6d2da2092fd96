"""The game of n steps: options against an adversary who picks a sample whenever one begins.

    R(s) = min over options o of  max over k of  E_k[ κ + Σ_{t<n} g_k(s_t, a_t) + R(s_n) ],      R(goal) = 0

*How.* Policy iteration. The options of all roots are rows (what they pay, where they end), evaluated like those of
single steps; then a better option is searched for at each root: the inner problem (`inner/`). It starts from the
solution of n = 1, repeated for n steps: the adversary can only do worse against it when it may change samples less
often. An option is left only for one that is better by more than rounding, so every policy on the way is proper. Roots
are skipped while what was found there still proves that there is nothing to gain.

*What is proved.* Above, as for single steps: R + εw ≥ the backup of R + εw under the policy's rows. Below, with
u = max(R − εw, 0): if no option at all costs less than u(s), with u at its ends, then u bounds the value of every
policy that counts: by induction over the options that it takes. So the improvement step searches for options with u at
their ends and below u(s), exhaustively; when there are none left at any root, the search *is* the proof. For histories
a belief proves it, for tables the branch and bound does; rounding and the error of V* are on the safe side. w bounds
the number of options to come; where an option ties but ends at larger w, w is raised.

A bound that was found with other values at the ends still holds, less the most that any of them fell. That decides
which roots are skipped.
"""

from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import cached_property

import numpy as np

from rue._arrays import Array, members
from rue._rounding import UNDERFLOW, UNIT_ROUNDOFF
from rue.model import UMDP
from rue.recursion import row_kernels
from rue.recursion.inner.option_set import OptionSet
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.option_tree_kernels import Round, add_end_values
from rue.recursion.row_game import MOST_ROWS, RowGame, new_rows
from rue.recursion.row_kernels import PackedRows
from rue.solution import Interval, Run, Status

# Widths of the proof, in units of the typical cost, tried one after the other.
WIDTHS = (1e-10, 1e-9, 1e-8, 1e-7)
MOST_ROUNDS = 400
MOST_TIES = 30
MOST_SWEEPS = 300
# A round that is expected to take less is not worth a second thread.
SHORT = 2e-3


class OptionGame(RowGame):
    """The game on the states where options begin."""

    def __init__(self, model: UMDP, options: OptionSet, gap_error: float, scale: float) -> None:
        graph, tree = model.graph, options.tree
        super().__init__(graph.initial, tree.layers.root, np.zeros(graph.states), np.zeros(graph.states), scale)
        self.options = options
        self.gap_error = gap_error * tree.model.steps
        self.seen = np.full(tree.end_state.size, np.inf)  # the values at the ends when `found.floor` was found
        self.least_weight = np.zeros(tree.size)
        self.last_cost = np.empty_like(tree.model.gap)
        self.pace = options.first_pace  # seconds for each place in the last round, or a guess
        options.forget()
        options.found.carried[:] = 0.0

    @property
    def tree(self) -> OptionTree:
        """The unfolding of the options."""
        return self.options.tree

    @cached_property
    def _rows(self) -> PackedRows:
        return new_rows(self.tree.size, self.tree.end_state.size, self.tree.samples)

    def pack(self) -> PackedRows:
        """Return the rows of the options."""
        row_kernels.pack_options(self.tree.layers, self.options.rows, self._rows)
        return self._rows

    def bound_weight(self) -> bool:
        """Bound the number of options to come, no less than ties made necessary; return False if there is no bound."""
        if not self.count_rows() < 0.5:
            return False
        if (self.least_weight <= self.weight[self.order]).all():
            return True
        rows = self.pack_units()
        for _ in range(MOST_SWEEPS):
            before = self.weight[self.order]
            row_kernels.sweep(self.order, rows, 1.0, self.weight, 1, 0.0, MOST_ROWS)
            self.weight[self.order] = np.maximum(self.weight[self.order], self.least_weight)
            if np.abs(self.weight[self.order] - before).max() <= 0.1:
                return True
        return False

    def level(self, lowered: Array, kappa: float) -> Array:  # [N]
        """Return the least cost that the proof needs of every option, rounding included; none where u is 0."""
        u = lowered[self.order]
        unit = 4 * UNIT_ROUNDOFF * self.tree.operations
        return np.where(u > 0, (u - kappa) * (1 + unit) + self.gap_error + UNDERFLOW, 0.0)

    def round(self, run: Run, kappa: float, width: float, tolerance: float, accept: bool) -> tuple[int, int]:
        """Make one round of improvement; return how many options changed, and at how many places the proof is open.

        Without a width nothing is proved, nor where the number of options to come has no bound.
        """
        self.evaluate(kappa)
        proving = width > 0 and self.bound_weight()
        lowered = self.value.copy()
        level = self.value[self.order] - kappa - tolerance
        if proving:
            lowered[self.order] = np.maximum(self.value[self.order] - width * self.weight[self.order], 0.0)
            level = self.level(lowered, kappa)
        tree, found = self.tree, self.options.found
        fell = np.maximum.reduceat(self.seen - lowered[tree.end_state], tree.end_ptr[:-1])
        places = np.flatnonzero(~(level <= found.floor - np.maximum(fell, 0.0)))
        if not places.size:
            return 0, 0 if proving or not width else self.order.size
        found.changed[places] = False
        found.floor[places] = -np.inf
        self._improve(places, self.given(lowered, level, tolerance, accept, run), run)
        ends = members(tree.end_ptr, places)
        self.seen[ends] = lowered[tree.end_state[ends]]
        is_open = found.floor[places] < level[places]
        if proving:
            tied = places[is_open & ~found.changed[places]]
            self.least_weight[tied] = np.maximum(self.least_weight[tied], 1.0 + found.carried[tied])
        if width and not proving:
            is_open[:] = True
        return int(found.changed[places].sum()), int(is_open.sum())

    def given(self, lowered: Array, level: Array, tolerance: float, accept: bool, run: Run) -> Round:
        """Return what a round of improvement is given, with `lowered` values at the ends."""
        add_end_values(self.tree.model, lowered, self.last_cost)
        until = run.began + run.limits.seconds
        return Round(
            self.last_cost, lowered, self.value, self.weight, level, tolerance, accept, until, np.zeros(1, bool)
        )  # fmt: skip

    def _improve(self, places: Array, given: Round, run: Run) -> None:
        """Search for better options at some places, on all cores if it is worth it."""
        before = self.options.effort
        began = run.seconds
        if places.size * self.pace < SHORT:
            self.options.improve(places, given)
        else:
            improve_in_parallel(self.options, places, given, run)
        self.pace = (run.seconds - began) / places.size
        run.count(self.options.effort_name, self.options.effort - before)

    def start_above(self, kappa: float, run: Run) -> None:
        """Start from above the worst case of the options."""
        self.value[self.order] = 0.0
        self.raise_values(float(self.options.rows.paid.max(initial=0.0)) + kappa, run)

    def proved(self, width: float) -> float:
        """Return the lower bound that a round has proved in which no place stayed open."""
        return max(float(self.value[self.initial] - width * self.weight[self.initial]), 0.0) if width else 0.0

    def upper(self) -> float:
        """Return a proved upper bound on the worst case of the policy, without κ."""
        return self.prove_upper(self.gap_error, self.tree.operations)


def solve_options(game: OptionGame, run: Run, name: str, kappa: float) -> tuple[Status | None, Interval]:
    """Improve the options of a game until there is nothing to gain; return why it stopped early, and bounds on R.

    κ is kept until the options are found, as for mixtures of single steps. Should they be worse without it than those
    at the beginning, as they may be where a policy takes very many steps, it goes back to these.
    """
    if game.initial not in game.order:
        return None, Interval(0.0, 0.0)
    status: Status | None = None
    lower = 0.0
    if kappa > 0:
        game.evaluate(0.0)
        first, at_first = game.options.keep(), game.value.copy()
        status = improve_options(game, run, name, kappa)
        game.evaluate(0.0)
        if not game.value[game.initial] <= at_first[game.initial]:
            game.options.restore(first)
            game.value[:] = at_first
            game.options.forget()
    for width in WIDTHS:
        if status or lower:
            break
        game.least_weight[:] = 0.0
        status, lower = _rounds(
            game, run, name, 0.0, max(width * game.scale, 4 * game.gap_error), accept=width == WIDTHS[0]
        )
    game.evaluate(0.0)
    upper = game.upper()
    return status, Interval.proved(lower, upper, f"{name}: R")


def improve_options(game: OptionGame, run: Run, name: str, kappa: float) -> Status | None:
    """Improve the options of a game until nothing changes, without a proof; return why it stopped early."""
    status, _ = _rounds(game, run, name, kappa, 0.0, accept=True)
    return status


def _rounds(
    game: OptionGame, run: Run, name: str, kappa: float, width: float, *, accept: bool
) -> tuple[Status | None, float]:
    """Make rounds until nothing changes or, with a width, until the proof is complete.

    Returns why it stopped early, and the lower bound if the proof is complete, else 0.
    """
    ties = 0
    for _ in range(MOST_ROUNDS):
        status = run.stop()
        if status:
            return status, 0.0
        tolerance = max(1e-12 * game.scale, game.precision)
        changed, is_open = game.round(run, kappa, width, tolerance, accept)
        status = run.stop()
        if status and is_open:
            return status, 0.0
        run.iterations += 1
        run.count("rounds")
        run.report(f"{name}: round {run.iterations}, {changed} options changed")
        if not is_open:
            return None, game.proved(width)
        if changed or game.options.try_harder():
            continue
        ties += 1
        if width == 0 or ties > MOST_TIES:
            return None, 0.0
    return None, 0.0


def improve_in_parallel(options: OptionSet, places: Array, given: Round, run: Run) -> None:
    """Search for better options on all cores; this thread checks the clock and tells the others to stop."""
    parts = [np.ascontiguousarray(places[i :: run.threads]) for i in range(min(run.threads, places.size))]
    with ThreadPoolExecutor(max(len(parts), 1)) as pool:
        pending = {pool.submit(options.improve, part, given) for part in parts}
        while pending:
            done, pending = wait(pending, timeout=0.05, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            if run.stop():
                given.stop[0] = True
