"""Optimal values V*_k of every sample, as proved intervals.

    V*_k(s) = min over choices c of s of  C̄_k(c) + Σ T_k(c, s') V*_k(s'),      V*_k(goal) = 0

the least expected cost of a policy that reaches a goal with probability one in sample k; infinite at dead ends.

*How.* States are renumbered outward from the goals, self-loops are taken out, and modified policy iteration
(one greedy Gauss–Seidel sweep, then several with the policy fixed) starts from the estimated value of a proper policy
that one outward pass finds, or from the values of the sample before. Where sweeps are slow, policies are evaluated by
a sparse factorisation instead. That is also how it starts where some costs are zero: from the exact value of a proper
policy each improvement is proper again, while estimates could be tempted to go round for nothing.

*What is proved.* A small residual is no error bound: leaving a state of cost 1e-4 with probability 1e-4 is worth
1, and sweeps from zero come to rest at 1e-4. So the last step checks inequalities (`values_kernels.prove`):
v + εw ≥ Q_π(v + εw) makes v + εw an upper bound, and v − εw ≤ Q_c(v − εw) for all choices c makes v − εw a lower
bound on the value of each proper policy, with rounding errors on the safe side. The weights w are the values
themselves where all costs are positive, and their sums or bounds on the number of steps elsewhere. States among which
one can move for ever at no cost (free components) have one value and are merged first.
"""

import threading
from dataclasses import dataclass

import numpy as np

from rue import values_kernels as shortest
from rue._arrays import Array, ranges
from rue._check import real_number
from rue._linear import solve_chain
from rue._threads import check_threads, each
from rue.errors import BadInput, SolverFailed
from rue.model import UMDP, check_model
from rue.solution import Cache, Run, check_cache
from rue.structure import inner_choices, outward_order, proper_in, sweep_order

# Relative width of the intervals that is asked for; rounding may leave them a little wider.
TOLERANCE = 1e-11
# Relative width of a proof with which another kind of proof is not tried.
GOOD_WIDTH = 1e-9
# The part of the largest value below which values count as that much, as weights of a proof.
SMALL_ERROR = 1e-12
# A choice counts as optimal in a sample, for pruning, if its gap is below this fraction of the largest value.
OPTIMAL_TIE = 1e-9
# After so many rounds of sweeps the policy is evaluated by factorisation.
PATIENCE = 40
SWEEPS = 12
# Weights beyond this mean that near-optimal choices can go round for ever.
MOST_STEPS = 1e12
# Models of fewer transitions are done before a second thread has started.
SMALL = 10_000
# Blocks of samples, each of which starts from the values of the one before, are dealt out to this many chains. The
# number is fixed, so that values do not depend on the number of threads.
CHAINS = 4
# Outcomes that are swept between two looks at the clock: some tenths of a second.
WORK = 100_000_000
# Samples whose numbers are fetched together: they share the lines of the cache.
BLOCK = 4


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

    @property
    def value(self) -> Array:  # [S, K]
        """The middle of the interval; its lower end where there is no upper one; infinite at dead ends."""
        with np.errstate(invalid="ignore"):
            middle = np.where(np.isinf(self.upper), self.lower, 0.5 * (self.lower + self.upper))
        return np.where(self.dead, np.inf, middle)

    @property
    def error(self) -> float:
        """The largest distance of a value from the ends of its interval, dead ends aside."""
        alive = ~self.dead
        upper, lower, value = self.upper[alive], self.lower[alive], self.value[alive]
        return float(np.maximum(upper - value, value - lower).max(initial=0.0))


def optimal_values(
    model: UMDP,
    *,
    tolerance: float = TOLERANCE,
    within: Array | None = None,
    run: Run | None = None,
    cache: Cache | None = None,
    threads: int | None = None,
) -> OptimalValues:
    """V*_k of all samples, over policies that take only the choices `within[C]`, or all.

    Over all choices and to full precision they are kept in the cache; if a time limit of the run comes first, the
    samples that are done are, and the next call with this cache does the rest.
    """
    check_model(model)
    real_number("tolerance", tolerance, "a number, 0 or more", 0)
    if run is not None and not isinstance(run, Run):
        raise BadInput(f"run is {run!r}; expected a rue.solution.Run")
    is_mask = isinstance(within, np.ndarray) and within.dtype == bool and within.shape == (model.graph.choices,)
    if within is not None and not is_mask:
        raise BadInput(f"within is no mask of choices; expected True or False for each of {model.graph.choices}")
    run = run or Run(cache=check_cache(cache), threads=check_threads(threads))
    if within is not None or tolerance != TOLERANCE:
        return _Search.begin(model).finish(model, tolerance, within, run)
    search = run.cache.remember(model, "optimal values", lambda: _Search.begin(model))
    return search.finish(model, tolerance, within, run)


@dataclass(frozen=True, eq=False)
class _Search:
    """The bounds and choices of all samples, and which samples are done."""

    lower: Array  # [S, K]
    upper: Array  # [S, K]
    dead: Array  # [S, K]
    choice: Array  # [S, K]
    done: Array  # [K]
    lock: threading.Lock  # one caller at a time

    @classmethod
    def begin(cls, model: UMDP) -> "_Search":
        shape = (model.graph.states, model.samples)
        upper = np.where(model.graph.goal[:, None], np.zeros(shape), np.inf)
        choice = np.full(shape, -1, np.int32)
        done = np.zeros(model.samples, bool)
        return cls(np.zeros(shape), upper, np.zeros(shape, bool), choice, done, threading.Lock())

    def finish(self, model: UMDP, tolerance: float, within: Array | None, run: Run) -> OptimalValues:
        """Do the samples that are not done yet."""
        with self.lock:
            self._finish(model, tolerance, within, run)
        lower, upper, dead, choice = (_fixed(array) for array in (self.lower, self.upper, self.dead, self.choice))
        return OptimalValues(lower, upper, dead, choice, bool(self.done.all()))

    def _finish(self, model: UMDP, tolerance: float, within: Array | None, run: Run) -> None:
        groups = [list(range(i, min(i + BLOCK, model.samples))) for i in range(0, model.samples, BLOCK)]
        left = [[k for k in group if not self.done[k]] for group in groups]
        blocks = [block for block in left if block]
        if blocks:
            shared = _Layout.shared(model) if within is None else None
            chains = CHAINS if model.graph.successor.size >= SMALL else 1

            def work(part: list[list[int]]) -> None:
                self._work(model, part, shared, tolerance, within, run)

            each(work, [blocks[i::chains] for i in range(min(chains, len(blocks)))], run.threads)

    def _work(
        self,
        model: UMDP,
        blocks: list[list[int]],
        shared: "_Layout | None",
        tolerance: float,
        within: Array | None,
        run: Run,
    ) -> None:
        """Do the samples of these blocks, each from the values of the one before."""
        before: _Sample | None = None
        buffers = None if shared is None else _Buffers.of(shared)
        for block in blocks:
            loaded = [] if buffers is None else buffers.load(model, block)
            for i, sample in enumerate(block):
                if buffers is None:
                    rows = _Buffers.of(_Layout.of_sample(model, sample, within)).load(model, [sample])[0]
                else:
                    rows = loaded[i]
                rows = rows.started(model, sample, before)
                done = _iterate(rows, tolerance, run)
                _prove_and_store(model, rows, sample, self, tolerance if done else None)
                self.done[sample] = done
                before = rows if rows.layout is shared else None
                run.report(f"optimal values: {int(self.done.sum())} of {model.samples} samples")


@dataclass(frozen=True, eq=False)
class _Layout:
    """Local rows without numbers (see `values_kernels.py`): states by place, their choices and outcomes."""

    member_ptr: Array
    member: Array
    row_ptr: Array
    choice: Array
    out_ptr: Array
    transition: Array
    target: Array
    allowed: Array
    free: Array | None = None  # choices inside free components

    @classmethod
    def build(
        cls, model: UMDP, order: Array, allowed: Array, component: Array | None = None, free: Array | None = None
    ) -> "_Layout":  # fmt: skip
        graph = model.graph
        member, sizes = (order, np.ones(order.size, np.int64)) if component is None else _group(order, component)
        place = np.full(graph.states, sizes.size, np.int32)
        place[member] = np.repeat(np.arange(sizes.size, dtype=np.int32), sizes)
        member_ptr = np.concatenate(([0], np.cumsum(sizes)))
        drop = np.zeros(graph.choices, bool) if free is None else free
        row_ptr, choice, out_ptr, transition, target = shortest.localise(
            member_ptr, member, place, graph.choice_ptr, graph.trans_ptr, graph.successor, drop
        )
        return cls(member_ptr, member, row_ptr, choice, out_ptr, transition, target, allowed, free)

    @classmethod
    def shared(cls, model: UMDP) -> "_Layout | None":
        """Rows that serve all samples, where there are no dead ends; sweeps then have one order for all."""
        order = outward_order(model)
        return None if order is None else cls.build(model, order.copy(), np.ones(model.graph.choices, bool))

    @classmethod
    def of_sample(cls, model: UMDP, sample: int, within: Array | None) -> "_Layout":
        """Rows of one sample, without its dead ends."""
        _, allowed = proper_in(model, sample, within)
        return cls.build(model, sweep_order(model.graph, model.prob[:, sample] > 0, allowed), allowed)


@dataclass(frozen=True, eq=False)
class _Buffers:
    """Memory for the numbers of a few samples and for the packed rows of a policy, used again and again.

    Fresh memory costs more than the arithmetic done in it.
    """

    layout: _Layout
    prob: Array
    cost: Array
    packed: tuple[Array, Array, Array, Array]

    @classmethod
    def of(cls, layout: _Layout) -> "_Buffers":
        places, outcomes = layout.row_ptr.size - 1, layout.target.size
        return cls(
            layout,
            np.empty((BLOCK, outcomes)),
            np.empty((BLOCK, layout.choice.size)),
            (np.empty(places + 1, np.int32), np.empty(outcomes, np.int32), np.empty(outcomes), np.empty(places)),
        )

    def load(self, model: UMDP, block: list[int]) -> "list[_Sample]":
        """The numbers of one sample, or of a few that follow each other; they replace those loaded before."""
        layout, first = self.layout, block[0]
        prob, cost = self.prob[: block[-1] - first + 1], self.cost[: block[-1] - first + 1]
        shortest.load(
            layout.choice, layout.out_ptr, layout.transition, model.prob, model.cost, first, layout.allowed, prob, cost
        )
        return [_Sample(layout, prob[k - first], cost[k - first], self.packed) for k in block]


@dataclass(eq=False)
class _Sample:
    """The rows of one sample, with the values and the policy on them."""

    layout: _Layout
    prob: Array
    cost: Array
    packed: tuple[Array, Array, Array, Array]
    value: Array | None = None
    policy: Array | None = None
    proof: tuple[float, float] | None = None  # what `prove` said of the values as they are, with them as weights
    exact: bool = False  # started from the exact value of a proper policy: all that improve on it are proper

    @property
    def free_choices(self) -> bool:
        """Whether some choice that may be taken costs nothing."""
        return bool(self.cost.size) and float(self.cost.min()) == 0.0

    def started(self, model: UMDP, sample: int, before: "_Sample | None") -> "_Sample":
        """With start values: those of the sample before, if its rows are the same and all costs are positive."""
        rows = self
        if rows.free_choices:
            component, free = _free_components(model, sample, rows.layout.allowed)
            if free.any():
                merged = _Layout.build(model, rows.layout.member, rows.layout.allowed, component, free)
                rows = _Buffers.of(merged).load(model, [sample])[0]
        if before is not None and rows is self and not rows.free_choices:
            assert before.value is not None and before.policy is not None
            rows.value, rows.policy = before.value.copy(), before.policy.copy()
        else:
            rows.start_outward(exact=rows.free_choices)
        return rows

    def start_outward(self, *, exact: bool) -> None:
        """Start from a proper policy, with an estimate of its value or with its exact value."""
        layout = self.layout
        self.value, self.policy = np.empty(layout.row_ptr.size), np.empty(layout.row_ptr.size - 1, np.int32)
        shortest.outward(layout.row_ptr, layout.out_ptr, layout.target, self.prob, self.cost, self.value, self.policy)
        self.exact = exact
        if exact:
            self.value[:-1] = _factorise(self)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What most kernels take."""
        assert self.value is not None
        layout = self.layout
        return layout.row_ptr, layout.out_ptr, layout.target, self.prob, self.cost, self.value


def _iterate(rows: _Sample, tolerance: float, run: Run) -> bool:
    """Modified policy iteration until the proof holds to the tolerance; False if a limit came first."""
    best_width = np.inf
    for round_ in range(10 * PATIENCE):
        rows.proof = None
        if run.out_of_time():
            return False
        row_ptr, out_ptr, target, prob, cost, value = rows.arrays
        policy = rows.policy
        changed, delta = shortest.improve(row_ptr, out_ptr, target, prob, cost, value, policy, 1e-13)
        if not changed and delta <= 10 * tolerance:
            rows.proof = None if rows.free_choices else shortest.prove(*rows.arrays, value, policy)
            width = max(rows.proof) if rows.proof else 0.0
            if width <= tolerance or width >= 0.5 * best_width or delta <= 1e-15:
                return True
            best_width = width
        if round_ >= PATIENCE and not rows.exact:
            rows.start_outward(exact=True)
        elif round_ >= PATIENCE:
            value[:-1] = _factorise(rows)
        elif changed:
            _settle(rows, SWEEPS, 0.01 * delta, run)
        else:
            _settle(rows, 10 * SWEEPS, 0.03 * tolerance, run)
    return True


def _settle(rows: _Sample, sweeps: int, tolerance: float, run: Run) -> None:
    """Sweeps with the policy fixed, until little changes or time is out; the clock is looked at now and then."""
    _, out_ptr, target, prob, cost, value = rows.arrays
    policy = rows.policy
    assert policy is not None
    at_once = max(WORK // max(target.size, 1), 1)
    for first in range(0, sweeps, at_once):
        some = min(at_once, sweeps - first)
        delta = shortest.settle(out_ptr, target, prob, cost, value, policy, some, tolerance, *rows.packed)
        if delta <= tolerance or run.out_of_time():
            return


def _factorise(rows: _Sample, paid: Array | None = None) -> Array:
    """The value of the policy, or what it pays of `paid` per step, by a sparse factorisation of I − P."""
    _, out_ptr, target, prob, cost, _ = rows.arrays
    policy = rows.policy
    assert policy is not None
    length = out_ptr[policy + 1] - out_ptr[policy]
    index = ranges(out_ptr[policy], length)
    right = cost[policy] if paid is None else paid
    return solve_chain(np.repeat(np.arange(policy.size), length), target[index], prob[index], right)


def _prove_and_store(model: UMDP, rows: _Sample, sample: int, into: _Search, tolerance: float | None) -> None:
    layout, policy = rows.layout, rows.policy
    assert policy is not None
    above, below = _bounds(rows, tolerance)
    sizes = np.diff(layout.member_ptr)
    dead = ~model.graph.goal
    dead[layout.member] = False
    into.dead[:, sample] = dead
    into.lower[dead, sample] = np.inf
    into.upper[layout.member, sample] = np.repeat(above[:-1], sizes)
    into.lower[layout.member, sample] = np.repeat(below[:-1], sizes)
    exits = layout.choice[policy]
    into.choice[layout.member[layout.member_ptr[:-1]], sample] = exits
    for place in np.flatnonzero(sizes > 1):
        states = layout.member[layout.member_ptr[place] : layout.member_ptr[place + 1]]
        into.choice[states, sample] = _ways_to_exit(model, layout, states, int(exits[place]), sample)


def _bounds(rows: _Sample, tolerance: float | None) -> tuple[Array, Array]:
    """Proved upper and lower bounds; (∞, 0) where nothing is proved.

    The values serve as weights where all costs are positive. Where that leaves too much open, and a `tolerance` says
    what is too much, weights are the values summed over the steps of the policy, and bounds on the number of steps: of
    the policy, and of all policies that take near-tight choices. A wide notion of near-tight is safe where rounding
    blurs ties; where such choices can go round for ever, a narrow one may do.
    """
    value, policy = rows.value, rows.policy
    assert value is not None and policy is not None
    above, below = np.full(value.size, np.inf), np.zeros(value.size)
    above[-1] = 0.0

    def tighten(weight: Array, proof: tuple[float, float] | None = None) -> None:
        up, low = proof or shortest.prove(*rows.arrays, weight, policy)
        if np.isfinite(up):
            np.minimum(above, value + up * weight, out=above)
        if np.isfinite(low):
            np.maximum(below, value - low * weight, out=below)

    if not rows.free_choices:
        tighten(value, rows.proof)
    if tolerance is not None and not (above - below <= max(GOOD_WIDTH, 4 * tolerance) * value).all():
        # A backup of a large value is off by more: where values differ much, these weights keep errors where they are.
        errors = value[:-1] + SMALL_ERROR * value.max()
        try:
            steps, summed = (np.append(_factorise(rows, paid), 0.0) for paid in (np.ones(policy.size), errors))
        except SolverFailed:
            steps = summed = np.zeros(value.size)
        tighten(steps)
        tighten(summed)
        for slack in (1e-7, 1e-10, 1e-13):
            weight = steps.copy()
            most = slack * float(value.max())
            if shortest.steps(*rows.arrays, policy, most, weight, 20 * PATIENCE, MOST_STEPS) < 0.5:
                tighten(weight)
                break
    return above, below


def _fixed(array: Array) -> Array:
    """A read-only view: what is remembered must stay what was proved."""
    view = array.view()
    view.flags.writeable = False
    return view


def _group(order: Array, component: Array) -> tuple[Array, Array]:
    """Members by place, where the states of a component share the place of the first of them."""
    _, first, inverse = np.unique(component[order], return_index=True, return_inverse=True)
    place = first[inverse]
    by_place = np.argsort(place, kind="stable")
    return order[by_place], np.unique(place, return_counts=True)[1]


def _free_components(model: UMDP, sample: int, allowed: Array) -> tuple[Array, Array]:
    """Maximal sets of states among which a policy can move for ever at no cost, and their inner choices."""
    return inner_choices(model.graph, allowed & (model.cost[:, sample] == 0.0), model.prob[:, sample] > 0)


def _ways_to_exit(model: UMDP, layout: _Layout, states: Array, exit_choice: int, sample: int) -> Array:
    """For each state of a free component, the choice that leads to the state where the component is left."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order

    graph = model.graph
    assert layout.free is not None
    exit_state = int(graph.choice_state[exit_choice])
    inner = np.flatnonzero(layout.free[graph.trans_choice] & (model.prob[:, sample] > 0))
    inner = inner[np.isin(graph.choice_state[graph.trans_choice[inner]], states)]
    source, target = graph.choice_state[graph.trans_choice[inner]], graph.successor[inner]
    edges = coo_array((np.ones(inner.size, np.int8), (target, source)), shape=(graph.states, graph.states))
    _, parent = breadth_first_order(edges.tocsr(), exit_state)
    way = {(int(s), int(t)): int(graph.trans_choice[i]) for s, t, i in zip(source, target, inner, strict=True)}
    return np.array([exit_choice if s == exit_state else way[int(s), int(parent[s])] for s in states], np.int32)


def regret_gap(model: UMDP, values: OptimalValues) -> Array:  # [C, K]
    """Q^gap of every choice and sample; each is off by no more than 2·`values.error`."""
    graph = model.graph
    gap = np.empty_like(model.cost)
    shortest.regret_gap(graph.choice_ptr, graph.trans_ptr, graph.successor, model.prob, model.cost, values.value, gap)
    return _fixed(gap)


def optimal_somewhere(model: UMDP, values: OptimalValues, gap: Array) -> Array:  # [C]
    """The choices whose regret gap is zero in at least one sample in which their state is no dead end."""
    tie = OPTIMAL_TIE * float(values.value[~values.dead].max(initial=0.0)) + 2 * values.error
    keep = gap <= tie
    keep &= ~values.dead[model.graph.choice_state]
    return np.asarray(keep.any(axis=1))
