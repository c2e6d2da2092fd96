"""The game of n steps: options against an adversary who picks a sample whenever one begins.

    R(s) = min over options o of  max over k of  E_k[ κ + Σ_{t<n} g_k(s_t, a_t) + R(s_n) ],      R(goal) = 0

*How.* Policy iteration. The options of all states are rows (what they pay, where they end), evaluated like those of
single steps; then each state looks for a better option, which is the inner problem (`inner/`). It starts from the
solution of n = 1, repeated for n steps: the adversary can only do worse against it when it may change samples less
often. An option is left only for one that is better by more than rounding, so every policy on the way is proper. States
are passed over while what they know still proves that there is nothing to gain.

*What is proved.* Above, as for single steps: R + εw ≥ the backup of R + εw under the policy's rows. Below, with
u = max(R − εw, 0): if no option at all costs less than u(s), with u at its ends, then u bounds the value of every
policy that counts: by induction over the options that it takes. So the improvement step looks for options with u at
their ends and below u(s), exhaustively; when there are none left at any state, the search *is* the proof. For trees a
belief proves it, for slots the branch and bound does; rounding and the error of V* go to the unsafe side. w bounds the
number of options to come; where an option ties but ends at larger w, w is raised.

A bound that was found with other values at the ends holds still, less the most that any of them fell: that is when a
state is passed over.
"""

from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import numpy as np

from rue._arrays import Array, ranges
from rue.model import UMDP
from rue.recursion import layout_kernels as arrange
from rue.recursion import one_step_kernels as game
from rue.recursion import option_kernels as kernel
from rue.recursion.inner.field import Found, Options, Round
from rue.recursion.one_step import MOST_STEPS, Game, Packed
from rue.solution import Interval, Run, Status

ROUNDING = 2.0**-53
# Widths of the proof, in units of the typical cost, tried one after the other.
WIDTHS = (1e-10, 1e-9, 1e-8, 1e-7)
MOST_ROUNDS = 400
MOST_TIES = 30
MOST_SWEEPS = 300
# A round that is expected to take less is not worth a second thread.
SHORT = 2e-3


class OptionGame(Game):
    """The game on the states where options begin."""

    def __init__(self, model: UMDP, options: Options, gap_error: float, scale: float) -> None:
        graph, layout = model.graph, options.layout
        super().__init__(
            initial=graph.initial,
            order=layout.field.roots,
            value=np.zeros(graph.states),
            steps=np.zeros(graph.states),
            scale=scale,
        )
        self.options = options
        self.layout = layout
        self.gap_error = gap_error * layout.field.steps
        self.found = Found(layout.size)
        self.seen = np.full(layout.end_state.size, np.inf)  # the values at the ends when `found.floor` was found
        self.least_weight = np.zeros(layout.size)
        self.ahead = np.empty_like(layout.field.gap)
        self.pace = options.first_pace  # seconds for each place in the last round, or a guess

    def pack(self) -> Packed:
        """The rows of the options."""
        arrange.pack_rows(
            self.layout.field, self.layout.share_ptr, self.options.paid, self.options.share, *self.layout.packed
        )
        return self.layout.packed

    def forget(self) -> None:
        """Look at all places again, whatever is known of them."""
        self.found.floor[:] = -np.inf

    def weigh(self) -> bool:
        """Bound the number of options to come, no less than ties made necessary; False if no bound was found."""
        if not self.count_steps() < 0.5:
            return False
        if (self.least_weight <= self.steps[self.order]).all():
            return True
        packed = self.pack()
        packed[3][:] = 0.0
        for _ in range(MOST_SWEEPS):
            before = self.steps[self.order]
            game.settle(self.order, *packed, 1.0, self.steps, 1, 0.0, MOST_STEPS)
            self.steps[self.order] = np.maximum(self.steps[self.order], self.least_weight)
            if np.abs(self.steps[self.order] - before).max() <= 0.1:
                return True
        return False

    def level(self, lowered: Array, kappa: float) -> Array:  # [N]
        """What an option must cost at least for the proof, rounding included; nothing is asked where u is 0."""
        u = lowered[self.order]
        unit = 4 * ROUNDING * self.layout.operations
        return np.where(u > 0, (u - kappa) * (1 + unit) + self.gap_error + 1e-290, 0.0)

    def round(self, run: Run, kappa: float, width: float, tolerance: float, accept: bool) -> tuple[int, int]:
        """One round of improvement; how many options changed, and at how many places the proof is open.

        Without a width nothing is proved, nor where the number of options to come has no bound.
        """
        self.evaluate(kappa)
        weighed = width > 0 and self.weigh()
        lowered = self.value.copy()
        level = self.value[self.order] - kappa - tolerance
        if weighed:
            lowered[self.order] = np.maximum(self.value[self.order] - width * self.steps[self.order], 0.0)
            level = self.level(lowered, kappa)
        fell = np.maximum.reduceat(self.seen - lowered[self.layout.end_state], self.layout.share_ptr[:-1])
        places = np.flatnonzero(~(level <= self.found.floor - np.maximum(fell, 0.0)))
        if not places.size:
            return 0, 0 if weighed or not width else self.order.size
        kernel.look_ahead(self.layout.field, lowered, self.ahead)
        given = Round(
            lowered, self.value, self.steps, level, tolerance, accept, self.ahead, run.began + run.limits.seconds
        )
        self.found.changed[places] = False
        self.found.floor[places] = -np.inf
        self._improve(places, given, run)
        ends = ranges(self.layout.share_ptr[places], np.diff(self.layout.share_ptr)[places])
        self.seen[ends] = lowered[self.layout.end_state[ends]]
        is_open = self.found.floor[places] < level[places]
        if weighed:
            tied = places[is_open & ~self.found.changed[places]]
            self.least_weight[tied] = np.maximum(self.least_weight[tied], 1.0 + self.found.carried[tied])
        if width and not weighed:
            is_open[:] = True
        return int(self.found.changed[places].sum()), int(is_open.sum())

    def _improve(self, places: Array, given: Round, run: Run) -> None:
        """Look for better options at some places, on all cores if it is worth it."""
        before = self.options.effort
        began = run.seconds
        if places.size * self.pace < SHORT:
            self.options.improve(places, given, self.found, np.zeros(1, bool))
        else:
            improve_in_parallel(self.options, places, given, self.found, run)
        self.pace = (run.seconds - began) / places.size
        run.count(self.options.effort_name, self.options.effort - before)

    def start_above(self, kappa: float, run: Run) -> None:
        """Start from above the worst case of the options."""
        self.value[self.order] = 0.0
        self.lift(float(self.options.paid.max(initial=0.0)) + kappa, run)

    def proved(self, width: float) -> float:
        """The lower bound that a round has proved in which no place stayed open."""
        return max(float(self.value[self.initial] - width * self.steps[self.initial]), 0.0) if width else 0.0

    def upper(self) -> float:
        """A proved upper bound on the worst case of the policy, without κ."""
        return self.prove_upper(self.gap_error, self.layout.operations)


def solve_options(game: OptionGame, run: Run, name: str, kappa: float) -> tuple[Status | None, Interval]:
    """Improve the options of a game until there is nothing to gain; says why it stopped early, and what is proved of R.

    With κ, it is kept until the options are found, as for mixtures of single steps. Should they be worse without it
    than those it began with, because κ did not go well with a very long way, it goes back to these.
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
            game.forget()
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
    """Improve the options of a game until nothing changes, without a proof; says why it stopped early."""
    status, _ = _rounds(game, run, name, kappa, 0.0, accept=True)
    return status


def _rounds(
    game: OptionGame, run: Run, name: str, kappa: float, width: float, *, accept: bool
) -> tuple[Status | None, float]:
    """Rounds until nothing changes or, with a width, until the proof is complete: then the lower bound, else 0."""
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


def improve_in_parallel(options: Options, places: Array, given: Round, found: Found, run: Run) -> None:
    """Look for better options on all cores; whoever waits looks at the clock and asks to stop when it is time."""
    stop = np.zeros(1, bool)
    parts = [np.ascontiguousarray(places[i :: run.threads]) for i in range(min(run.threads, places.size))]
    with ThreadPoolExecutor(max(len(parts), 1)) as pool:
        pending = {pool.submit(options.improve, part, given, found, stop) for part in parts}
        while pending:
            done, pending = wait(pending, timeout=0.05, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            if run.stop():
                stop[0] = True
