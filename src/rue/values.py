"""Optimal values V*_k of every sample, as proved intervals.

    V*_k(s) = min over choices c of s of  C̄_k(c) + Σ T_k(c, s') V*_k(s'),      V*_k(goal) = 0

the least expected cost of a policy that reaches a goal with probability one in sample k; infinite at dead ends.

*How.* States are renumbered outward from the goals, self-loops are taken out, and modified policy iteration (one greedy
Gauss–Seidel sweep, then several with the policy fixed) starts from the estimated value of a proper policy that one
outward pass finds, or from the values of the sample before, whichever leaves fewer choices to change. A policy that a
greedy sweep does not change is swept until its proof holds. Where sweeps are slow, policies are evaluated by a sparse
factorisation instead. That is also how it starts where some costs are zero: from the exact value of a proper policy
each improvement is proper again, while estimates might lead into a cycle that costs nothing.

*What is proved.* A small residual is no error bound: leaving a state of cost 1e-4 with probability 1e-4 is worth 1, and
sweeps from zero stop at 1e-4. So the last step checks inequalities (`values_kernels.prove`): v + εw ≥ Q_π(v + εw) makes
v + εw an upper bound, and v − εw ≤ Q_c(v − εw) for all choices c makes v − εw a lower bound on the value of each proper
policy, with rounding errors on the safe side. The weights w are the values themselves where all costs are positive, and
their sums or bounds on the number of steps elsewhere. States among which one can move for ever at no cost (free
components) have one value and are merged first.
"""

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rue import values_kernels as shortest
from rue._arrays import Array, pointers, ranges, read_only
from rue._check import check_memory, machine_memory, real_number
from rue._linear import eliminate_chain, solve_chain
from rue._threads import check_threads, each, pieces
from rue.errors import BadInput, SolverFailed
from rue.model import UMDP, check_model
from rue.parts import BLOCK, do_parts, parts_of
from rue.solution import Cache, Limits, Run, check_cache
from rue.structure import inner_choices, outward_order, proper_in, sweep_order

# Relative width of the intervals that is asked for; rounding may leave them a little wider.
TOLERANCE = 1e-11
# Relative width of a proof with which another kind of proof is not tried.
GOOD_WIDTH = 1e-9
# Values below this part of the largest value are replaced by it as weights of a proof.
SMALL_ERROR = 1e-12
# A choice counts as optimal in a sample, for pruning, if its gap is below this fraction of the largest value.
OPTIMAL_TIE = 1e-9
# After this many rounds of sweeps the policy is evaluated by factorisation.
SLOW_ROUNDS = 40
# Sweeps of one round.
SWEEPS = 12
# Sweeps end where values change by less than this part of the tolerance, or by as much less as a proof has asked for.
CLOSENESS = 0.01
# Where no choice changes and values change by less than this fraction, the policy is taken for the best one.
SETTLED = 1e-6
# A choice must be better by this fraction to replace another.
BETTER = 1e-13
# Weights beyond this mean that near-optimal choices can form a cycle.
MOST_STEPS = 1e12
# Costs below this part of the value of their state may be lost in rounding.
LOST_IN_ROUNDING = 1e-13
# Chains of at most this many states are eliminated if they cannot be factorised.
DENSE = 256
# Outcomes that are swept between two checks of the clock: some tenths of a second.
WORK = 100_000_000


@dataclass(frozen=True, eq=False)
class OptimalValues:
    """Proved bounds on V*_k(s) and a policy that attains the upper one. Both infinite at dead ends."""

    lower: Array  # [S, K]
    upper: Array  # [S, K]; infinite elsewhere, too, if nothing could be proved
    dead: Array  # [S, K] dead ends
    choice: Array  # [S, K]; -1 at goals and dead ends
    complete: bool  # False if a limit came first: the bounds hold but are wide

    def __repr__(self) -> str:
        states, samples = self.lower.shape
        ends = "" if self.complete else ", not complete"
        return f"OptimalValues({states} states, {samples} samples, error {self.error:.1e}{ends})"

    def subset(self, samples: Array) -> "OptimalValues":
        """Return those of some samples."""
        lower, upper, dead, choice = (a[:, samples] for a in (self.lower, self.upper, self.dead, self.choice))
        return OptimalValues(lower, upper, dead, choice, self.complete)

    @property
    def value(self) -> Array:  # [S, K]
        """The middle of the interval; its lower end where there is no upper one; infinite at dead ends."""
        with np.errstate(invalid="ignore"):
            middle = np.where(np.isinf(self.upper), self.lower, 0.5 * (self.lower + self.upper))
        return np.where(self.dead, np.inf, middle)

    @property
    def error(self) -> float:
        """The largest distance of a value from the ends of its interval, dead ends aside."""
        value = self.value
        with np.errstate(invalid="ignore"):
            distance = np.maximum(self.upper - value, value - self.lower)
        return float(distance.max(where=~self.dead, initial=0.0))


def optimal_values(
    model: UMDP,
    *,
    tolerance: float = TOLERANCE,
    within: Array | None = None,
    run: Run | None = None,
    cache: Cache | None = None,
    threads: int | None = None,
) -> OptimalValues:
    """Return V*_k of all samples, over policies that take only the choices `within[C]`, or all.

    Over all choices and to full precision they are kept in the cache; if a time limit of the run comes first, the
    samples that are done are kept, and the next call with this cache does the rest.

    >>> model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    >>> values = rue.optimal_values(model)
    >>> values.value[model.graph.initial].round(2)  # of each sample
    array([1.95, 1.91, 1.84, 1.93, 2.02])
    """
    check_model(model)
    real_number("tolerance", tolerance, "a number, 0 or more", 0)
    if run is not None and not isinstance(run, Run):
        raise BadInput(f"run is {run!r}; expected a rue.solution.Run")
    is_mask = isinstance(within, np.ndarray) and within.dtype == bool and within.shape == (model.graph.choices,)
    if within is not None and not is_mask:
        raise BadInput(f"within is no mask of choices; expected True or False for each of {model.graph.choices}")
    run = run or Run(cache=check_cache(cache), threads=check_threads(threads))
    if within is None and tolerance == TOLERANCE:
        values = run.cache.remember(model, "optimal values", lambda: _ValuesSoFar.begin(model))
    else:
        values = _ValuesSoFar.begin(model)
    return values.finish(model, tolerance, within, run)


@dataclass(frozen=True, eq=False)
class _ValuesSoFar:
    """The bounds and choices of all samples, or of some that follow each other, and which samples are done."""

    lower: Array  # [S, K]
    upper: Array  # [S, K]
    dead: Array  # [S, K]
    choice: Array  # [S, K]
    done: Array  # [K]
    first: int = 0  # sample
    lock: threading.Lock = field(default_factory=threading.Lock)  # one caller at a time

    @classmethod
    def begin(cls, model: UMDP, samples: slice | None = None) -> "_ValuesSoFar":
        part = samples or slice(0, model.samples)
        shape = (model.graph.states, part.stop - part.start)
        upper = np.where(model.graph.goal[:, None], np.zeros(shape), np.inf)
        choice = np.full(shape, -1, np.int32)
        done = np.zeros(shape[1], bool)
        return cls(np.zeros(shape), upper, np.zeros(shape, bool), choice, done, part.start)

    def __reduce__(self) -> tuple[type["_ValuesSoFar"], tuple[Array | int, ...]]:
        """Return how it comes back from a worker: without the lock."""
        return _ValuesSoFar, (self.lower, self.upper, self.dead, self.choice, self.done, self.first)

    def finish(self, model: UMDP, tolerance: float, within: Array | None, run: Run) -> OptimalValues:
        """Solve the samples that are not done yet."""
        with self.lock:
            left = [part for part in parts_of(model) if not self.done[part].all()]
            if len(left) > 1 and run.executor is not None and within is None:
                self._solve_elsewhere(model, left, tolerance, run)
                left = [part for part in left if not self.done[part].all()]
            if left:
                shared = _Layout.shared(model) if within is None else None
                threads = _affordable_threads(model, min(len(left), run.threads))

                def work(part: slice) -> None:
                    self._solve(model, _each_sample(model, self._blocks(part), shared, within), tolerance, run)

                each(work, left, threads)
        arrays = (self.lower, self.upper, self.dead, self.choice)
        lower, upper, dead, choice = (read_only(array.view()) for array in arrays)
        return OptimalValues(lower, upper, dead, choice, bool(self.done.all()))

    def _blocks(self, part: slice) -> list[list[int]]:
        """Return the samples of a sequence that are not done, in blocks."""
        blocks = [range(k, min(k + BLOCK, part.stop)) for k in range(part.start, part.stop, BLOCK)]
        left = [[k for k in block if not self.done[k - self.first]] for block in blocks]
        return [block for block in left if block]

    def _solve_elsewhere(self, model: UMDP, sequences: list[slice], tolerance: float, run: Run) -> None:
        """Have the executor of the run solve sequences; what it does not solve is left."""

        def take(part: slice, found: "_ValuesSoFar") -> None:
            for name in ("lower", "upper", "dead", "choice"):
                getattr(self, name)[:, part] = getattr(found, name)
            self.done[part] = found.done
            run.report(f"optimal values: {int(self.done.sum())} of {model.samples} samples")

        do_parts(model, sequences, _solve_part, (tolerance,), take, run)

    def _solve(self, model: UMDP, samples: "Iterator[_PolicyIteration]", tolerance: float, run: Run) -> None:
        """Solve samples one after the other, each from the values of the one before if their rows are the same."""
        before: _PolicyIteration | None = None
        for iteration in samples:
            iteration.start(before, run)
            done = iteration.run(tolerance, run)
            upper, lower = iteration.prove(tolerance if done else None, run)
            self._store(model, iteration, upper, lower)
            if done and not (upper - lower <= max(GOOD_WIDTH, 4 * tolerance) * upper).all():
                self._raise_lower(model, iteration, tolerance, run)
            self.done[iteration.sample - self.first] = done
            before = iteration
            run.report(f"optimal values: {int(self.done.sum())} of {self.done.size} samples")

    def _store(self, model: UMDP, iteration: "_PolicyIteration", upper: Array, lower: Array) -> None:
        """Keep the bounds of a sample, which are by place, and the policy that attains the upper ones."""
        layout, sample = iteration.layout, iteration.sample - self.first
        exits = np.append(layout.index.choice[iteration.policy], np.int32(-1))
        self.dead[:, sample] = dead = (layout.place == exits.size - 1) & ~model.graph.goal
        for bound, found in ((self.upper, upper), (self.lower, lower)):
            bound[:, sample] = found[layout.place]
            bound[dead, sample] = np.inf
        self.choice[:, sample] = exits[layout.place]
        for place in np.flatnonzero(np.diff(layout.member_ptr) > 1):
            states = layout.member[layout.member_ptr[place] : layout.member_ptr[place + 1]]
            self.choice[states, sample] = _ways_to_exit(model, layout, states, int(exits[place]), iteration.sample)

    def _raise_lower(self, model: UMDP, iteration: "_PolicyIteration", tolerance: float, run: Run) -> None:
        """Prove lower bounds with costs of zero where costs that are lost in rounding form cycles.

        Smaller costs make no value larger, so that these bounds hold. Where a round costs less than the rounding error
        of a value, no inequality proves that it does not pay; at no cost such states are one free component.
        """
        sample = iteration.sample - self.first
        value = np.where(np.isfinite(self.upper[:, sample]), self.upper[:, sample], 0.0)
        lost = model.cost[:, iteration.sample] <= LOST_IN_ROUNDING * value[model.graph.choice_state]
        relaxed = iteration.with_free(model, lost) if lost.any() else None
        if relaxed is None:
            return
        relaxed.start(None, run)
        relaxed.run(tolerance, run)
        lower = relaxed.prove(tolerance, run)[1]
        member, sizes = relaxed.layout.member, np.diff(relaxed.layout.member_ptr)
        self.lower[member, sample] = np.maximum(self.lower[member, sample], np.repeat(lower[:-1], sizes))


def _solve_part(model: UMDP, samples: slice, seconds: float, tolerance: float) -> _ValuesSoFar:
    """Solve some samples one after the other: what a worker does. It keeps the rows for its next task."""
    found = _ValuesSoFar.begin(model, samples)
    shared = model.remember("rows", lambda: _Layout.shared(model))
    found._solve(
        model, _each_sample(model, found._blocks(samples), shared, None), tolerance, Run(Limits(seconds), threads=1)
    )
    return found


def _affordable_threads(model: UMDP, threads: int) -> int:
    """Return how many threads there is memory for, `threads` at most; refuse a model that leaves none for one."""
    graph = model.graph
    index = 8 * (graph.transitions + graph.choices)
    one = 8 * BLOCK * (graph.transitions + graph.choices) + 12 * graph.transitions  # a `_Workspace`
    held = model.nbytes + 21 * graph.states * model.samples + index
    check_memory(
        f"optimal values of {graph.states} states, {graph.transitions} transitions and {model.samples} samples",
        held + one, "fewer samples at a time, see rue.Source",
    )  # fmt: skip
    return max(1, min(threads, int((machine_memory() - held) // max(one, 1))))


@dataclass(frozen=True, eq=False)
class _Layout:
    """Rows without numbers (see `values_kernels.py`): states by place, their choices and outcomes."""

    member_ptr: Array  # where the states of each place begin; one state each, or those of a free component
    member: Array
    place: Array  # [S] the last one, which has no rows, for goals and dead ends
    index: shortest.RowIndex
    allowed: Array  # [C]
    free: Array | None = None  # [C] choices inside free components

    @classmethod
    def shared(cls, model: UMDP) -> "_Layout | None":
        """Return rows that serve all samples if there are no dead ends: then sweeps have one order for all."""
        order = outward_order(model)
        return None if order is None else cls.build(model, order.copy(), np.ones(model.graph.choices, bool))

    @classmethod
    def of_sample(cls, model: UMDP, sample: int, within: Array | None) -> "_Layout":
        """Return rows of one sample, without its dead ends."""
        _, allowed = proper_in(model, sample, within)
        return cls.build(model, sweep_order(model.graph, model.prob[:, sample] > 0, allowed), allowed)

    def merged(self, model: UMDP, component: Array, free: Array) -> "_Layout":
        """Return rows in which the states of a component share the place of the first of them."""
        _, first, inverse = np.unique(component[self.member], return_index=True, return_inverse=True)
        place = first[inverse]
        member, sizes = self.member[np.argsort(place, kind="stable")], np.unique(place, return_counts=True)[1]
        return self.build(model, member, self.allowed, sizes, free)

    @classmethod
    def build(
        cls, model: UMDP, member: Array, allowed: Array, sizes: Array | None = None, free: Array | None = None
    ) -> "_Layout":
        """Return rows of states in this order, with one place for each, or for as many as `sizes` says."""
        graph, sizes = model.graph, np.ones(member.size, np.int64) if sizes is None else sizes
        place = np.full(graph.states, sizes.size, np.int32)
        place[member] = np.repeat(np.arange(sizes.size, dtype=np.int32), sizes)
        member_ptr = pointers(sizes)
        drop = np.zeros(graph.choices, bool) if free is None else free
        # Large arrays of numpy, unlike those of kernels, lie in large pages.
        lengths = (member_ptr.size, graph.choices, graph.choices + 1, graph.transitions, graph.transitions)
        index = shortest.RowIndex(*(np.empty(length, np.int32) for length in lengths))
        arrays = (graph.choice_ptr, graph.trans_ptr, graph.successor)
        choices, outcomes = shortest.renumber(member_ptr, member, place, *arrays, drop, index)
        sizes_found = (member_ptr.size, choices, choices + 1, outcomes, outcomes)
        index = shortest.RowIndex(*(array[:size] for array, size in zip(index, sizes_found, strict=True)))
        return cls(member_ptr, member, place, index, allowed, free)


def _each_sample(
    model: UMDP, blocks: list[list[int]], shared: _Layout | None, within: Array | None
) -> "Iterator[_PolicyIteration]":
    """Load the samples of these blocks one after the other, on shared rows or on rows of their own."""
    workspace = None if shared is None else _Workspace.of(shared, BLOCK)
    for block in blocks:
        loaded = None if workspace is None else workspace.load(model, block)
        for i, sample in enumerate(block):
            own = loaded[i] if loaded else _load_alone(model, _Layout.of_sample(model, sample, within), sample)
            merged = own.with_free(model, model.cost[:, sample] == 0.0) if own.has_free_choices else None
            yield merged or own


def _load_alone(model: UMDP, layout: _Layout, sample: int) -> "_PolicyIteration":
    return _Workspace.of(layout, 1).load(model, [sample])[0]


@dataclass(frozen=True, eq=False)
class _Workspace:
    """Memory for the numbers of a few samples and for the rows of a policy, used again and again.

    Fresh memory costs more than the arithmetic done in it.
    """

    layout: _Layout
    prob: Array
    cost: Array
    policy_rows: shortest.PolicyRows

    @classmethod
    def of(cls, layout: _Layout, samples: int) -> "_Workspace":
        places, outcomes = layout.index.row_ptr.size - 1, layout.index.target.size
        policy_rows = shortest.PolicyRows(
            np.empty(places + 1, np.int32), np.empty(outcomes, np.int32), np.empty(outcomes), np.empty(places)
        )
        return cls(layout, np.empty((samples, outcomes)), np.empty((samples, layout.index.choice.size)), policy_rows)

    def load(self, model: UMDP, block: list[int]) -> "list[_PolicyIteration]":
        """Load the numbers of samples that follow each other; they replace those loaded before."""
        layout, first = self.layout, block[0]
        prob, cost = self.prob[: block[-1] - first + 1], self.cost[: block[-1] - first + 1]
        shortest.load(layout.index, model.prob, model.cost, first, layout.allowed, prob, cost)
        row_ptr, _, out_ptr, _, target = layout.index
        rows = (shortest.Rows(row_ptr, out_ptr, target, prob[k - first], cost[k - first]) for k in block)
        return [_PolicyIteration(k, layout, own, self.policy_rows) for k, own in zip(block, rows, strict=True)]


@dataclass(eq=False)
class _PolicyIteration:
    """Modified policy iteration in one sample: its rows, the values, and the policy."""

    sample: int
    layout: _Layout
    rows: shortest.Rows
    policy_rows: shortest.PolicyRows
    is_exact: bool = False  # started from the exact value of a proper policy: all that improve on it are proper
    closeness: float = CLOSENESS  # of the values at the end of sweeps
    from_before: bool = False  # started from the values of the sample before
    # Choices that the first round changed, in the last sample that started outward and in the last that did not.
    changes: list[int] = field(default_factory=lambda: [0, 0])
    proof: tuple[float, float] | None = None  # what `prove` said of the values as they are, with them as weights

    def __post_init__(self) -> None:
        places = self.rows.row_ptr.size - 1
        self.value, self.policy = np.empty(places + 1), np.empty(places, np.int32)

    @cached_property
    def has_free_choices(self) -> bool:
        """Whether some choice that may be taken costs nothing."""
        return bool(self.rows.cost.size) and float(self.rows.cost.min()) == 0.0

    def with_free(self, model: UMDP, costless: Array) -> "_PolicyIteration | None":
        """Return the same with states merged among which `costless[C]` choices lead, as if these were free, if any."""
        live = model.prob[:, self.sample] > 0
        component, free = inner_choices(model.graph, self.layout.allowed & costless, live)
        return _load_alone(model, self.layout.merged(model, component, free), self.sample) if free.any() else None

    def start(self, before: "_PolicyIteration | None", run: Run) -> None:
        """Start from the values of the sample before, if its rows are the same and all costs are positive.

        Where such a start had to change more choices than one from the goals outward, the next samples start outward:
        from a proper policy, with an estimate of its value, or where some costs are zero with its exact value.
        """
        if before is not None:
            self.closeness, self.changes = before.closeness, before.changes
            alike = before.layout is self.layout and not self.has_free_choices
            self.from_before = alike and self.changes[True] <= self.changes[False]
        if before is not None and self.from_before:
            self.value[:], self.policy[:] = before.value, before.policy
        else:
            shortest.outward(self.rows, self.value, self.policy)
            self.is_exact = self.has_free_choices and not run.out_of_time() and self._set_exact()

    def run(self, tolerance: float, run: Run) -> bool:
        """Improve values and policy until the proof holds to the tolerance; return False if a limit came first."""
        best_width, is_slow = np.inf, False
        is_known = self.is_exact  # whether the values of the policy were found by a factorisation
        for round_ in range(10 * SLOW_ROUNDS):
            self.proof = None
            if run.out_of_time():
                return False
            is_slow |= round_ == SLOW_ROUNDS
            changed, delta = shortest.improve(self.rows, self.value, self.policy, BETTER, self.policy_rows)
            if round_ == 0:
                self.changes[self.from_before] = changed
            is_known &= not changed
            settled = not changed and delta <= SETTLED
            if not changed:
                delta = self._sweep(10 * SWEEPS, self.closeness * tolerance, run)
            elif not is_slow:
                self._sweep(SWEEPS, 0.01 * delta, run)
            if settled and delta <= 10 * tolerance:
                if not self.has_free_choices:
                    self.proof = shortest.prove(self.rows, self.value, self.value, self.policy)
                width = max(self.proof) if self.proof else np.inf
                if width <= tolerance or delta <= 1e-15:
                    return True
                if width < 0.5 * best_width:
                    best_width = width
                    self.closeness = min(self.closeness, 0.5 * delta / width)
                elif is_known or width <= GOOD_WIDTH:
                    return True
                else:  # little changes from sweep to sweep, but there is far to go
                    is_slow = True
            if is_slow:
                is_known = self._factorise()
                if not is_known:
                    return True
        return True

    def _factorise(self) -> bool:
        """Set the values to those of the policy if it is proper, else of one that is; return whether that was done.

        Where all costs are positive, an upper bound on the values proves that a policy is proper.
        """
        if not self.is_exact and self._set_exact():
            self.is_exact = bool(np.isfinite(shortest.prove(self.rows, self.value, self.value, self.policy)[0]))
            if self.is_exact:
                return True
        if not self.is_exact:
            shortest.outward(self.rows, self.value, self.policy)
        self.is_exact = self._set_exact()
        return self.is_exact

    def _set_exact(self) -> bool:
        """Set the values to those of the policy; return False, and leave them, if they cannot be computed."""
        try:
            self.value[:-1] = self._evaluate(self.rows.cost[self.policy])
        except SolverFailed:
            return False
        self.proof = None
        return True

    def _sweep(self, sweeps: int, tolerance: float, run: Run) -> float:
        """Sweep with the policy fixed, until little changes or time is out; the clock is checked now and then.

        Returns the last largest relative change.
        """
        delta = np.inf
        for some in pieces(sweeps, int(self.policy_rows.ptr[-1]), WORK):
            delta = shortest.sweep_policy(self.policy_rows, self.value, some, tolerance)
            if delta <= tolerance or run.out_of_time():
                break
        return delta

    def _evaluate(self, paid: Array) -> Array:
        """Return what the policy pays in all, of `paid` per step, by a sparse factorisation of I − P.

        Where that fails, since the policy hardly ever ends, a small matrix is eliminated without any subtraction.
        """
        first = self.rows.out_ptr[self.policy]
        length = self.rows.out_ptr[self.policy + 1] - first
        index, row = ranges(first, length), np.repeat(np.arange(self.policy.size), length)
        chain = row, self.rows.target[index], self.rows.prob[index], paid
        try:
            return solve_chain(*chain)
        except SolverFailed:
            if self.policy.size > DENSE:
                raise
            return eliminate_chain(*chain)

    def prove(self, tolerance: float | None, run: Run) -> tuple[Array, Array]:
        """Return proved upper and lower bounds by place; (∞, 0) where nothing is proved.

        The values serve as weights where all costs are positive. Where that leaves too much open, a `tolerance` says
        what is too much, and there is time, weights are the values summed over the steps of the policy, and bounds on
        the number of steps: of the policy, and of all policies that take near-tight choices. A wide notion of
        near-tight is safe where ties are blurred by rounding; where such choices can form a cycle, a narrow one may do.
        """
        value = self.value
        above, below = np.full(value.size, np.inf), np.zeros(value.size)
        above[-1] = 0.0

        def tighten(weight: Array, proof: tuple[float, float] | None = None) -> None:
            up, low = proof or shortest.prove(self.rows, value, weight, self.policy)
            if np.isfinite(up):
                np.minimum(above, value + up * weight, out=above)
            if np.isfinite(low):
                np.maximum(below, value - low * weight, out=below)

        if not self.has_free_choices:
            tighten(value, self.proof)
        is_tight = tolerance is None or (above - below <= max(GOOD_WIDTH, 4 * tolerance) * value).all()
        if not is_tight and not run.out_of_time():
            # A backup of a large value is off by more: where values differ much, these weights keep errors local.
            errors = value[:-1] + SMALL_ERROR * value.max()
            weights = np.zeros((2, value.size))
            with suppress(SolverFailed):
                weights[:, :-1] = self._evaluate(np.column_stack([np.ones(errors.size), errors])).T
            for weight in weights:
                tighten(weight)
            for slack in (1e-7, 1e-10, 1e-13):
                weight = weights[0].copy()
                if self._most_steps(slack * float(value.max()), weight, run):
                    tighten(weight)
                    break
        return above, below

    def _most_steps(self, slack: float, weight: Array, run: Run) -> bool:
        """Raise `weight` to the steps of any policy that takes near-tight choices; return whether that came to an end.

        It does not where such choices can form a cycle, nor where time is out.
        """
        for sweeps in pieces(20 * SLOW_ROUNDS, self.rows.target.size, WORK):
            if run.out_of_time():
                return False
            delta = shortest.most_steps(self.rows, self.value, self.policy, slack, weight, sweeps, MOST_STEPS)
            if delta < 0.5 or delta == np.inf:
                break
        return bool(delta < 0.5)


def _ways_to_exit(model: UMDP, layout: _Layout, states: Array, exit_choice: int, sample: int) -> Array:
    """Return, for each state of a free component, the choice that leads to the state where the component is left."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order

    graph = model.graph
    assert layout.free is not None
    exit_state = int(graph.choice_state[exit_choice])
    inner = np.flatnonzero(layout.free[graph.trans_choice] & (model.prob[:, sample] > 0))
    inner = inner[np.isin(graph.trans_state[inner], states)]
    source, target = graph.trans_state[inner], graph.successor[inner]
    edges = coo_array((np.ones(inner.size, np.int8), (target, source)), shape=(graph.states, graph.states))
    _, parent = breadth_first_order(edges.tocsr(), exit_state)
    way = {(int(s), int(t)): int(graph.trans_choice[i]) for s, t, i in zip(source, target, inner, strict=True)}
    return np.array([exit_choice if s == exit_state else way[int(s), int(parent[s])] for s in states], np.int32)


def regret_gap(model: UMDP, values: OptimalValues) -> Array:  # [C, K]
    """Return Q^gap of every choice and sample; each is off by no more than 2·`values.error`."""
    graph = model.graph
    gap = np.empty_like(model.cost)
    shortest.regret_gap(graph.choice_ptr, graph.trans_ptr, graph.successor, model.prob, model.cost, values.value, gap)
    return read_only(gap)


def optimal_somewhere(model: UMDP, values: OptimalValues, gap: Array) -> Array:  # [C]
    """Return the choices whose regret gap is zero in at least one sample in which their state is no dead end."""
    tie = OPTIMAL_TIE * float(values.value[~values.dead].max(initial=0.0)) + 2 * values.error
    keep = gap <= tie
    keep &= ~values.dead[model.graph.choice_state]
    return np.asarray(keep.any(axis=1))
