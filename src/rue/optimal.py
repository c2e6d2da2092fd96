"""Optimal values V*_k of every sample, as proved intervals.

    V*_k(s) = min over choices c of s of  C̄_k(c) + Σ T_k(c, s') V*_k(s'),      V*_k(goal) = 0

the least expected cost of a policy that reaches a goal with probability one in sample k; infinite at dead ends.

*How.* States are renumbered outward from the goals, self-loops are taken out, and modified policy iteration
(one greedy Gauss–Seidel sweep, then several with the policy fixed) starts from the value of a proper policy that
one outward pass finds, or from the values of the sample before. Where sweeps are slow, the policy is evaluated
by a sparse factorisation instead.

*What is proved.* A small residual is no error bound: leaving a state of cost 1e-4 with probability 1e-4 is worth
1, and sweeps from zero come to rest at 1e-4. So the last step checks inequalities (`_kernels.shortest.prove`):
v + εw ≥ Q_π(v + εw) makes v + εw an upper bound, and v − εw ≤ Q_c(v − εw) for all choices c makes v − εw a lower
bound on the value of each proper policy, with rounding errors on the safe side. The weights w are the values
themselves where all costs are positive, and bounds on the number of steps elsewhere. States among which one can
move for ever at no cost (free components) have one value and are merged first.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array, eye_array
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import splu

from rue._flat import Array
from rue._kernels import shortest
from rue.model import UMDP, all_states_reach_goal
from rue.solution import Run
from rue.structure import proper_in, sweep_order

# Relative width of the intervals that is asked for; rounding may leave them a little wider.
TOLERANCE = 1e-12
# After so many rounds of sweeps the policy is evaluated by factorisation.
PATIENCE = 40
SWEEPS = 20
# Weights beyond this mean that near-optimal choices can go round for ever.
MOST_STEPS = 1e12
THREADS = 2


@dataclass(frozen=True, eq=False)
class OptimalValues:
    """Proved bounds on V*_k(s) and a policy that attains the upper one. Infinite at dead ends."""

    lower: Array  # [S, K]
    upper: Array  # [S, K]
    choice: Array  # [S, K]; -1 at goals and dead ends
    complete: bool  # False if a limit came first: the bounds hold but are wide

    @property
    def value(self) -> Array:  # [S, K]
        """The middle of the interval."""
        with np.errstate(invalid="ignore"):
            middle = 0.5 * (self.lower + self.upper)
        return np.where(np.isinf(self.upper), np.inf, middle)

    @property
    def error(self) -> float:
        """The largest distance of a finite value from the middle of its interval."""
        finite = np.isfinite(self.upper)
        return float(0.5 * (self.upper - self.lower)[finite].max(initial=0.0))


def optimal_values(
    model: UMDP, *, tolerance: float = TOLERANCE, within: Array | None = None, run: Run | None = None
) -> OptimalValues:
    """V*_k of all samples, over policies that take only the choices `within[C]`, or all.

    Over all choices and to full precision they are remembered with the model.
    """
    known: OptimalValues | None = model._memory.get("optimal_values") if within is None else None
    if known is not None:
        return known
    values = _compute(model, tolerance, within, run or Run())
    if values.complete and tolerance <= TOLERANCE and within is None:
        model.remember("optimal_values", lambda: values)
    return values


def _compute(model: UMDP, tolerance: float, within: Array | None, run: Run) -> OptimalValues:
    shape = (model.graph.states, model.samples)
    lower, upper = np.full(shape, np.inf), np.full(shape, np.inf)
    lower[model.graph.goal], upper[model.graph.goal] = 0.0, 0.0
    choice = np.full(shape, -1, np.int32)
    shared = _shared_rows(model) if within is None else None
    finished = 0

    def work(samples: range) -> int:
        rows, done = shared, 0
        for sample in samples:
            usable = rows is not None and shared is not None and rows.free is None
            rows = _Rows.load(model, sample, within, rows if usable else shared)
            done += _iterate(rows, tolerance, run)
            _prove_and_store(model, rows, sample, lower, upper, choice)
            run.report(f"optimal values, sample {sample + 1} of {model.samples}")
        return done

    threads = min(THREADS, model.samples)
    block = -(-model.samples // threads)
    parts = [range(i, min(i + block, model.samples)) for i in range(0, model.samples, block)]
    if len(parts) == 1:
        finished = work(parts[0])
    else:
        with ThreadPoolExecutor(len(parts)) as pool:
            finished = sum(pool.map(work, parts))
    return OptimalValues(lower, upper, choice, finished == model.samples)


@dataclass(eq=False)
class _Rows:
    """The local rows of one sample (see `_kernels.shortest`) with the values and policy on them."""

    member_ptr: Array
    member: Array  # states by place
    row_ptr: Array
    choice: Array
    out_ptr: Array
    transition: Array
    target: Array
    allowed: Array
    free: Array | None = None  # choices inside free components
    prob: Array | None = None
    cost: Array | None = None
    value: Array | None = None
    policy: Array | None = None
    low_cost: float = 0.0

    @classmethod
    def build(cls, model: UMDP, order: Array, allowed: Array, component: Array | None = None, free: Array | None = None) -> "_Rows":
        graph = model.graph
        if component is None:
            member, sizes = order, np.ones(order.size, np.int64)
        else:
            member, sizes = _group(order, component)
        place = np.full(graph.states, sizes.size, np.int32)
        place[member] = np.repeat(np.arange(sizes.size, dtype=np.int32), sizes)
        member_ptr = np.concatenate(([0], np.cumsum(sizes)))
        drop = np.zeros(graph.choices, bool) if free is None else free
        arrays = shortest.localise(member_ptr, member, place, graph.choice_ptr, graph.trans_ptr, graph.successor, drop)
        return cls(member_ptr, member, *arrays, allowed=allowed, free=free)

    @classmethod
    def load(cls, model: UMDP, sample: int, within: Array | None, before: "_Rows | None") -> "_Rows":
        """Rows of a sample, with start values: the last sample's where rows are shared and costs are positive."""
        rows = before
        if rows is None:
            alive, allowed = proper_in(model, sample, within)
            rows = cls.build(model, sweep_order(model, model.prob[:, sample] > 0, alive, allowed), allowed)
        rows = cls(**{**vars(rows), "prob": np.empty(rows.target.size), "cost": np.empty(rows.choice.size)})
        rows.fill(model, sample)
        if rows.low_cost == 0.0:
            rows = rows.merged(model, sample)
        if rows.value is None or rows.low_cost == 0.0:
            rows.value, rows.policy = np.empty(rows.row_ptr.size), np.empty(rows.row_ptr.size - 1, np.int32)
            shortest.outward(rows.row_ptr, rows.out_ptr, rows.target, rows.prob, rows.cost, rows.value, rows.policy)
        return rows

    def fill(self, model: UMDP, sample: int) -> None:
        """Take the numbers of one sample."""
        self.low_cost = shortest.load(
            self.choice, self.out_ptr, self.transition, model.prob, model.cost, sample, self.allowed, self.prob, self.cost
        )

    def merged(self, model: UMDP, sample: int) -> "_Rows":
        """The rows with free components as one place each; itself if there are none."""
        live = model.prob[:, sample] > 0
        component, free = _free_components(model, sample, live, self.allowed)
        if not free.any():
            return self
        rows = _Rows.build(model, self.member, self.allowed, component, free)
        rows.prob, rows.cost = np.empty(rows.target.size), np.empty(rows.choice.size)
        rows.fill(model, sample)
        return rows

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What most kernels take."""
        assert self.prob is not None and self.cost is not None and self.value is not None
        return self.row_ptr, self.out_ptr, self.target, self.prob, self.cost, self.value


def _shared_rows(model: UMDP) -> _Rows | None:
    """Rows that serve all samples, where there are no dead ends; sweeps then have one order for all."""
    if not all_states_reach_goal(model):
        return None
    everything = np.ones(model.graph.choices, bool)
    order = sweep_order(model, model.always_live, np.ones(model.graph.states, bool), everything)
    return _Rows.build(model, order, everything)


def _iterate(rows: _Rows, tolerance: float, run: Run) -> bool:
    """Modified policy iteration until the proof holds to the tolerance; False if a limit came first."""
    row_ptr, out_ptr, target, prob, cost, value = rows.arrays
    best_width = np.inf
    for round_ in range(10 * PATIENCE):
        if run.stop():
            return False
        changed, delta = shortest.improve(row_ptr, out_ptr, target, prob, cost, value, rows.policy, 1e-13)
        if delta <= 100 * tolerance and not changed:
            width = max(_widths(rows)) if delta > 1e-15 else 0.0
            if width <= tolerance or width >= 0.5 * best_width:
                return True
            best_width = width
        if round_ < PATIENCE:
            shortest.settle(out_ptr, target, prob, cost, value, rows.policy, SWEEPS, 0.01 * delta)
        else:
            value[:-1] = _factorise(rows)
    return True


def _widths(rows: _Rows) -> tuple[float, float]:
    """Relative widths that can be proved above and below with the values as weights, if costs allow it."""
    if rows.low_cost == 0.0:
        return 0.0, 0.0  # zero costs: the sweeps go on until nothing changes
    up, low = shortest.prove(*rows.arrays, rows.value, rows.policy)
    return up, low


def _factorise(rows: _Rows) -> Array:
    """The value of the policy by a sparse factorisation of I − P."""
    row_ptr, out_ptr, target, prob, cost, value = rows.arrays
    assert rows.policy is not None
    places = row_ptr.size - 1
    first, last = out_ptr[rows.policy], out_ptr[rows.policy + 1]
    index = np.repeat(first - np.concatenate(([0], np.cumsum(last - first)))[:-1], last - first) + np.arange((last - first).sum())
    row = np.repeat(np.arange(places), last - first)
    inside = target[index] < places
    step = csr_array((prob[index][inside], (row[inside], target[index][inside])), shape=(places, places))
    return np.asarray(splu((eye_array(places) - step).tocsc()).solve(cost[rows.policy]))


def _prove_and_store(model: UMDP, rows: _Rows, sample: int, lower: Array, upper: Array, choice: Array) -> None:
    value, policy = rows.value, rows.policy
    assert value is not None and policy is not None
    up, low = _bounds(rows)
    sizes = np.diff(rows.member_ptr)
    upper[rows.member, sample] = np.repeat(up[:-1], sizes)
    lower[rows.member, sample] = np.repeat(low[:-1], sizes)
    exits = rows.choice[policy]
    choice[rows.member[rows.member_ptr[:-1]], sample] = exits
    if rows.free is not None:
        for place in np.flatnonzero(sizes > 1):
            states = rows.member[rows.member_ptr[place] : rows.member_ptr[place + 1]]
            choice[states, sample] = _ways_to_exit(model, states, rows.free, int(exits[place]), sample)


def _bounds(rows: _Rows) -> tuple[Array, Array]:
    """Proved upper and lower bounds; (∞, 0) where nothing is proved."""
    value = rows.value
    assert value is not None
    weight = value
    if rows.low_cost == 0.0:
        weight = np.zeros(value.size)
        # A wide notion of near-tight keeps the weights valid where rounding blurs ties; if such choices can go
        # round for ever, a narrow one may do.
        for slack in (1e-7, 1e-10, 1e-13):
            weight[:] = 0.0
            delta = shortest.steps(*rows.arrays, rows.policy, slack, weight, 20 * PATIENCE, MOST_STEPS)
            if delta < 0.5:
                break
    up, low = shortest.prove(*rows.arrays, weight, rows.policy)
    above = value + up * weight if np.isfinite(up) else np.full(value.size, np.inf)
    below = np.maximum(value - low * weight, 0.0) if np.isfinite(low) else np.zeros(value.size)
    return above, below


def _group(order: Array, component: Array) -> tuple[Array, Array]:
    """Members by place, where the states of a component share the place of the first of them."""
    _, first, inverse = np.unique(component[order], return_index=True, return_inverse=True)
    place = first[inverse]
    by_place = np.argsort(place, kind="stable")
    return order[by_place], np.unique(place, return_counts=True)[1]


def _free_components(model: UMDP, sample: int, live: Array, allowed: Array) -> tuple[Array, Array]:
    """Maximal sets of states among which a policy can move for ever at no cost, and their inner choices."""
    graph = model.graph
    free = allowed & (model.cost[:, sample] == 0.0)
    state = graph.choice_state[graph.trans_choice]
    while True:
        inner = np.flatnonzero(live & free[graph.trans_choice])
        edges = coo_array(
            (np.ones(inner.size, np.int8), (state[inner], graph.successor[inner])), shape=(graph.states, graph.states)
        )
        _, component = connected_components(edges.tocsr(), directed=True, connection="strong")
        leaving = inner[component[state[inner]] != component[graph.successor[inner]]]
        if leaving.size == 0:
            return component, free
        free[graph.trans_choice[leaving]] = False


def _ways_to_exit(model: UMDP, states: Array, free: Array, exit_choice: int, sample: int) -> Array:
    """For each state of a free component, the choice that leads to the state where the component is left."""
    graph = model.graph
    exit_state = int(graph.choice_state[exit_choice])
    inner = np.flatnonzero(free[graph.trans_choice] & (model.prob[:, sample] > 0))
    inner = inner[np.isin(graph.choice_state[graph.trans_choice[inner]], states)]
    source, target = graph.choice_state[graph.trans_choice[inner]], graph.successor[inner]
    edges = coo_array((np.ones(inner.size, np.int8), (target, source)), shape=(graph.states, graph.states))
    _, parent = breadth_first_order(edges.tocsr(), exit_state)
    way = {(int(s), int(t)): int(graph.trans_choice[i]) for s, t, i in zip(source, target, inner, strict=True)}
    return np.array([exit_choice if s == exit_state else way[int(s), int(parent[s])] for s in states], np.int32)
