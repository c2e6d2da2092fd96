"""Ways to make a model: a `Builder` with names, and models from counted or logged transitions.

**From data.** If the transitions of a choice were seen n(s') times, its outcome probabilities have, under a Dirichlet
prior with α pseudo-counts for each outcome, the posterior Dirichlet(n(s') + α). A sample of the model draws each
choice's probabilities from its posterior, independently of the other choices.

Which outcomes a choice has at all, its *support*, has to be said as well. If they are those that were seen after it, a
choice that was tried once has one outcome, certain in every sample: the posterior is most certain where the least is
known, and no policy can hedge against what all samples agree on. If a choice may lead to all states that were seen to
follow its state after any action, with n(s') = 0 where it has not done so yet, the posterior is wide where the counts
are small.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from rue._arrays import Array, pointers, ranges
from rue._check import check_memory, frozen_array, in_all, labels, number_array, one_of, real_number, whole_number
from rue._check import seed as check_seed
from rue.average import is_wanted
from rue.errors import BadInput, argument
from rue.flat import Flat, flat_indices
from rue.model import UMDP, Graph, check_pointers
from rue.structure import surely_reaching
from rue.units import Units

# Standard deviations at which the noise of costs is cut off: one draw in 10^18 is beyond them.
MOST_NOISE = 9.0

Numbers = float | Sequence[float] | Array


class Builder:
    """Make a model choice by choice, with names.

    >>> builder = rue.Builder(samples=2)
    >>> builder = builder.add("here", "walk", {"there": [0.9, 0.6], "here": [0.1, 0.4]}, cost=1.0)
    >>> builder.goal("there").build()
    UMDP(2 states, 1 choices, 2 transitions, 2 samples)

    States are numbered in the order in which they are first named, and so are actions. The initial state is the first
    one unless `initial` says otherwise. `samples` is a number, or a list of names; `weight` has the probability of each
    sample, all equal unless given. `discount` makes a discounted problem of it (see `UMDP.with_discount`), `horizon`
    one of a number of steps, `average` one of averages per step in the long run; costs may then be negative. `reward=`
    in place of `cost=` makes a problem of rewards.
    """

    def __init__(
        self,
        samples: int | Sequence[str] = 1,
        *,
        weight: ArrayLike | None = None,
        discount: float | None = None,
        horizon: int | None = None,
        average: bool | float = False,
    ) -> None:
        named = isinstance(samples, Sequence) and not isinstance(samples, str | bytes)
        self._sample_label = labels("sample", samples) if named else None
        self._samples = whole_number("samples", samples if self._sample_label is None else len(self._sample_label), 1)
        self._weight = weight
        self._discount, self._horizon, self._average = discount, horizon, average
        self._figure: str | None = None  # "cost" or "reward", once one was given
        self._terminal: dict[str, Array] = {}
        self._avoid: list[str] = []
        self._state: dict[str, int] = {}
        self._action: dict[str, int] = {}
        self._choices: dict[tuple[int, int], tuple[dict[int, Array], Array]] = {}
        self._goals: set[int] = set()
        self._initial: int | None = None

    def add(
        self,
        state: str,
        action: str,
        outcomes: Mapping[str, Numbers],
        cost: Numbers | None = None,
        *,
        reward: Numbers | None = None,
    ) -> "Builder":
        """Add an action in a state: where it leads, with which probability, at which expected cost or reward.

        A probability, cost or reward is one number for all samples or one for each; it costs 0 unless given.
        """
        where = f'state {state!r}, action "{action}"'
        if not isinstance(outcomes, Mapping):
            raise BadInput(f"{where}: the outcomes are {outcomes!r}; expected {{next state: probability}}")
        if not outcomes:
            raise BadInput(f"{where} leads nowhere; expected at least one outcome")
        # Everything is checked before anything is kept, so that a refusal leaves no trace.
        row = {str(s): self._per_sample(p, f"{where}: the probability of {s!r}") for s, p in outcomes.items()}
        figure, price = self._given(where, cost, reward)
        known = (self._state.get(str(state), -1), self._action.get(str(action), -1))
        if known in self._choices:
            raise BadInput(f"{where} is there already; expected each action once in a state")
        if known[0] in self._goals:
            raise BadInput(f"{where}: the state is a goal; expected no actions there")
        key = (self._state_number(state), self._action.setdefault(str(action), len(self._action)))
        self._choices[key] = ({self._state_number(s): p for s, p in row.items()}, price)
        self._figure = figure
        return self

    def terminal(self, state: str, cost: Numbers | None = None, *, reward: Numbers | None = None) -> "Builder":
        """Add what a state costs, or is worth, if the horizon ends there; nothing unless given."""
        self._figure, self._terminal[str(state)] = self._given(f"the end in state {state!r}", cost, reward)
        return self

    def avoid(self, *states: str) -> "Builder":
        """Make it a problem of reaching the goals, with the largest probability, before any of these states."""
        self._avoid += [str(state) for state in states]
        for state in states:
            self._state_number(state)
        return self

    def _given(self, where: str, cost: Numbers | None, reward: Numbers | None) -> tuple[str | None, Array]:
        """Return whether figures are costs or rewards, and the one that was given, for each sample."""
        if cost is None and reward is None:
            return self._figure, np.broadcast_to(0.0, (self._samples,))
        figure, number = ("cost", cost) if reward is None else ("reward", reward)
        if (cost is not None and reward is not None) or self._figure not in (None, figure):
            raise BadInput(f"{where} has a {figure}, and there are both costs and rewards; expected one kind in all")
        return figure, self._per_sample(cast(Numbers, number), f"{where}: the {figure}")

    def goal(self, *states: str) -> "Builder":
        """Add states where the episode ends."""
        for state in states:
            number = self._state_number(state)
            if any(s == number for s, _ in self._choices):
                raise BadInput(f"state {state!r} has actions; expected none at a goal")
            self._goals.add(number)
        return self

    def initial(self, state: str) -> "Builder":
        """Set where every episode starts."""
        self._initial = self._state_number(state)
        return self

    def with_discount(self, discount: float) -> "Builder":
        """Discount future costs by γ per step; costs may then be negative."""
        self._discount = discount
        return self

    def build(self) -> UMDP:
        """Return the model, checked."""
        names = tuple(self._state)
        has_action = {state for state, _ in self._choices}
        ends = self._goals | {self._state[name] for name in self._avoid}
        stuck = [name for name, number in self._state.items() if number not in has_action | ends]
        if stuck:
            raise BadInput(
                f"state {stuck[0]!r} has no action and is no goal; expected add() or goal() for it; "
                f"{in_all(len(stuck), 'state', 'so')}"
            )
        if not names:
            raise BadInput("there are no states; expected add() and goal() before build()")
        check_memory(
            f"a model of {self._samples} samples",
            16 * self._samples * sum(len(row) + 1 for row, _ in self._choices.values()),
        )
        keys = sorted(self._choices)
        rows = [self._choices[key][0] for key in keys]
        flat = Flat(
            **_graph_arrays(len(names), keys, rows),
            prob=np.array([p for row in rows for p in row.values()]).reshape(-1, self._samples),
            cost=np.array([self._choices[key][1] for key in keys]).reshape(-1, self._samples),
            initial=self._initial or 0,
            state_label=names,
            action_label=tuple(self._action),
            sample_label=self._sample_label,
            weight=self._weight,
        )
        if self._figure == "reward":
            flat = replace(flat, cost=-flat.cost, units=Units(reward=True))
        if self._avoid and self._figure is not None:
            raise BadInput(f"there are states to avoid and {self._figure}s; expected one objective")
        avoid = [self._state[name] for name in self._avoid] or None
        return UMDP.from_flat(flat, self._discount, self._horizon, self._last(names), avoid, self._average)

    def _last(self, names: Sequence[str]) -> Array | None:  # [K, S]
        """Return the terminal figures of all states, or None if none was given."""
        if not self._terminal:
            return None
        unknown = [name for name in self._terminal if name not in self._state]
        if unknown:
            raise BadInput(f"the end in state {unknown[0]!r} has a figure; expected a state of the model")
        ended = [name for name in self._terminal if self._state[name] in self._goals and self._terminal[name].any()]
        if ended:
            raise BadInput(
                f"the end in state {ended[0]!r} has a figure, and the state is a goal, where the episode has ended "
                "before; expected the figure in the steps into it, or an action that stays in place of the goal"
            )
        return np.array([self._terminal.get(name, np.zeros(self._samples)) for name in names]).T

    def _state_number(self, name: str) -> int:
        return self._state.setdefault(str(name), len(self._state))

    def _per_sample(self, values: Numbers, where: str) -> Array:
        try:
            array = number_array(where, values)
        except BadInput:
            raise BadInput(f"{where} is {values!r}; expected a number, or one for each sample") from None
        if array.shape not in ((), (self._samples,)):
            raise BadInput(f"{where} has shape {array.shape}; expected a number or {self._samples} numbers")
        return np.broadcast_to(array, (self._samples,))


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each transition was seen, choice by choice, and what the choices cost."""

    choice_ptr: Array  # [S+1]
    action: Array  # [C]
    trans_ptr: Array  # [C+1]
    successor: Array  # [T]
    count: Array  # [T]
    cost: Array  # [C] mean
    cost_spread: Array  # [C] one unit of cost noise: the standard error of a logged mean, else the cost itself
    initial: int
    state_label: tuple[str, ...] | None = None
    action_label: tuple[str, ...] | None = None
    after_goal: int = 0  # rows of the log that leave a goal, and are not counted

    def __post_init__(self) -> None:
        for name, dtype in _COUNTS_FIELDS.items():
            object.__setattr__(self, name, frozen_array(name, getattr(self, name), dtype))
        check_pointers("choice_ptr", self.choice_ptr, self.action.size, allow_empty=True)
        check_pointers("trans_ptr", self.trans_ptr, self.successor.size, allow_empty=True)
        choices = (self.trans_ptr.size - 1,)
        shapes = {"action": choices, "count": self.successor.shape, "cost": choices, "cost_spread": choices}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise BadInput(f"{name} has shape {getattr(self, name).shape}; expected {shape}")
        if ((self.successor < 0) | (self.successor >= self.choice_ptr.size - 1)).any():
            raise BadInput(f"successor is out of range somewhere; expected 0 to {self.choice_ptr.size - 2}")
        if not ((self.count >= 0) & (self.count < np.inf)).all():
            raise BadInput("count is negative or not finite somewhere; expected 0 or more")

    @property
    def tried(self) -> Array:  # [C]
        """How often each choice was taken."""
        choice = np.repeat(np.arange(self.action.size), np.diff(self.trans_ptr))  # [T]
        return np.bincount(choice, self.count, self.action.size)


_COUNTS_FIELDS: dict[str, type] = {
    **dict.fromkeys(("choice_ptr", "action", "trans_ptr", "successor"), np.int64),
    **dict.fromkeys(("count", "cost", "cost_spread"), np.float64),
}


def _graph_arrays(states: int, keys: Sequence[tuple[int, int]], rows: Sequence[Mapping[int, object]]) -> dict[str, Any]:
    """Return the arrays of a graph from sorted keys (state, action) and the successors of each."""
    return {
        "choice_ptr": np.searchsorted([state for state, _ in keys], np.arange(states + 1)),
        "action": np.array([action for _, action in keys], np.int64),
        "trans_ptr": pointers([len(row) for row in rows]),
        "successor": np.array([successor for row in rows for successor in row], np.int64),
    }


def from_counts(
    counts: ArrayLike | Counts,
    cost: ArrayLike | None = None,
    *,
    samples: int,
    seed: int,
    initial: int = 0,
    goals: ArrayLike = (),
    prior: float = 1.0,
    support: Literal["observed", "state", "all"] = "state",
    cost_noise: float = 0.0,
    discount: float | None = None,
    average: bool | float = False,
) -> UMDP:
    """Return posterior samples of a model whose transitions were counted.

    `counts[S,A,S]` says how often action a in state s led to s'; `cost[S,A]` is the mean cost. What `count_transitions`
    made of a log brings its own costs, initial state and goals. `cost_noise` is the standard deviation of Gaussian
    noise on each sample's costs, in units of the cost itself (of the standard error of the mean, for logged costs);
    costs stay 0 or more unless there is a `discount`, or an `average` per step in the long run. The noise is cut off at
    9 standard deviations, so that costs of all draws are shifted by the same, if they may be negative.

    Each outcome that a choice may have has `prior` pseudo-counts. The `support` says which these are:

    - "state": what was seen to follow its state after any action. This is the default, since what was tried a few times
      is then uncertain. A state from which the counts know no sure way to a goal follows only where it was seen to,
      for else no action would be safe from it and all costs infinite; there is no such state with a `discount` or an
      `average`.
    - "observed": what was seen after this very choice. Right if the outcomes of an action are known to be those seen,
      such as moves that cannot fail. A choice that was tried once is certain in every sample.
    - "all": every state, and choices that were never taken exist too. For tables with few states only, since the
      pseudo-counts of many states outweigh the counts; not for logs, where most states cannot follow each other.

    With the other two, a choice that was never taken does not exist.

    >>> counts = np.zeros((2, 1, 2))  # states, actions, next states
    >>> counts[0, 0] = [3, 7]  # seven of ten attempts reached state 1
    >>> rue.from_counts(counts, [[1.0], [0.0]], samples=100, seed=1, goals=[1])
    UMDP(2 states, 1 choices, 2 transitions, 100 samples)
    """
    pseudo_counts = real_number("prior", prior, "a number of pseudo-counts over 0", 0)
    if pseudo_counts == 0:
        raise BadInput(f"prior is {prior}; expected a number of pseudo-counts over 0")
    noise = real_number(argument("cost_noise"), cost_noise, "0 or more", 0)
    whole_number("samples", samples, 1)
    one_of("support", support, ("observed", "state", "all"))
    if isinstance(counts, Counts) and support == "all":
        raise BadInput("support is 'all' for a log; expected 'observed' or 'state'")
    endless = discount is not None or is_wanted(average)
    table = counts if isinstance(counts, Counts) else _count_table(counts, cost, initial, goals, support)
    if support == "state":
        table = _share_outcomes(table, None if endless else _safe_states(table))
    rng = np.random.default_rng(check_seed(seed))
    _check_size(table.count.size, samples)
    draw = rng.standard_gamma(table.count[:, None] + pseudo_counts, (table.count.size, samples))
    np.maximum(draw, np.finfo(float).tiny, out=draw)  # a tiny shape can round to zero in all outcomes at once
    total = np.add.reduceat(draw, table.trans_ptr[:-1], axis=0) if draw.size else draw
    draw /= np.repeat(total, np.diff(table.trans_ptr), axis=0)
    draw.flags.writeable = False  # so that it need not be copied
    price = np.repeat(table.cost[:, None], samples, axis=1)
    least = 0.0
    if noise:
        spread = noise * table.cost_spread
        price = price + spread[:, None] * rng.standard_normal(price.shape).clip(-MOST_NOISE, MOST_NOISE)
        price = price if endless else np.maximum(price, 0.0)
        least = float((table.cost - MOST_NOISE * spread).min(initial=0.0)) if endless else 0.0
    flat = Flat(
        table.choice_ptr, table.action, table.trans_ptr, table.successor,
        draw, price,
        table.initial, table.state_label, table.action_label, least=least,
    )  # fmt: skip
    return UMDP.from_flat(flat, discount, average=average)


def _check_size(transitions: int, samples: int) -> None:
    """Refuse what does not fit into memory, with the size that it would have."""
    # The probabilities, what they are divided by, and the rows and columns of the graph.
    check_memory(
        f"a model of {transitions} transitions and {samples} samples", 8 * transitions * (2 * samples + 4),
        'fewer samples, fewer names of states and actions, or support="observed"',
    )  # fmt: skip


def _share_outcomes(counts: Counts, safe: Array | None) -> Counts:
    """Return the counts, with zeros where a safe state followed a state but not after this action."""
    states = counts.choice_ptr.size - 1
    choice_state = np.repeat(np.arange(states), np.diff(counts.choice_ptr))  # [C]
    trans_choice = np.repeat(np.arange(counts.action.size), np.diff(counts.trans_ptr))  # [T]
    seen = trans_choice * states + counts.successor  # each transition as one number
    shared = np.ones(seen.size, bool) if safe is None else safe[counts.successor]
    pair = np.unique((choice_state[trans_choice] * states + counts.successor)[shared])  # (state, what followed it)
    pair_ptr = np.searchsorted(pair, np.arange(states + 1) * states)
    width = np.diff(pair_ptr)[choice_state]
    _check_size(int(width.sum()), 2)  # before any of them is made
    added = (
        np.repeat(np.arange(counts.action.size), width) * states + pair[ranges(pair_ptr[choice_state], width)] % states
    )
    every = np.union1d(seen, added)
    count = np.zeros(every.size)
    count[np.searchsorted(every, seen)] = counts.count
    trans_ptr = np.searchsorted(every, np.arange(counts.action.size + 1) * states)
    return replace(counts, trans_ptr=trans_ptr, successor=every % states, count=count)


def _safe_states(counts: Counts) -> Array:  # [S]
    """Return states from which some policy surely reaches a goal, if the outcomes are those that were seen.

    They stay so when they become outcomes of each other's choices: what this policy does never leaves them, and what
    led to a goal still may.
    """
    goals = np.flatnonzero(np.diff(counts.choice_ptr) == 0)
    if not goals.size:
        return np.ones(counts.choice_ptr.size - 1, bool)  # a model without goals is refused later on
    graph = Graph(counts.choice_ptr, counts.action, counts.trans_ptr, counts.successor, int(goals[0]))
    return surely_reaching(graph, np.ones(graph.transitions, bool))[0]


def from_transitions(
    rows: Iterable[tuple[Hashable, Hashable, float, Hashable]],
    *,
    samples: int,
    seed: int,
    initial: Hashable,
    goals: Iterable[Hashable],
    prior: float = 1.0,
    support: Literal["observed", "state"] = "state",
    cost_noise: float = 0.0,
    discount: float | None = None,
    average: bool | float = False,
    unvisited: Literal["refuse", "dead end"] = "refuse",
) -> UMDP:
    """Return posterior samples of a model from logged rows (state, action, cost, next state).

    States and actions may be any names; they become labels. A state that the log never leaves and that is no goal is
    refused, or made a dead end. For `prior`, `support` and `cost_noise` see `from_counts`.

    >>> log = [("ward", "wait", 1.0, "ward"), ("ward", "wait", 1.0, "home"), ("ward", "treat", 2.5, "home")]
    >>> rue.from_transitions(log, samples=100, seed=1, initial="ward", goals=["home"])
    UMDP(2 states, 2 choices, 4 transitions, 100 samples)
    """
    return from_counts(
        count_transitions(rows, initial=initial, goals=goals, unvisited=unvisited),
        samples=samples, seed=seed, prior=prior, support=support, cost_noise=cost_noise, discount=discount,
        average=average,
    )  # fmt: skip


def count_transitions(
    rows: Iterable[tuple[Hashable, Hashable, float, Hashable]],
    *,
    initial: Hashable,
    goals: Iterable[Hashable],
    unvisited: Literal["refuse", "dead end"] = "refuse",
) -> Counts:
    """Count logged rows (state, action, cost, next state).

    What happens after a goal does not matter: rows that leave one are left out, and `Counts.after_goal` says how many.

    >>> log = [("ward", "wait", 1.0, "ward"), ("ward", "wait", 1.0, "home"), ("ward", "treat", 2.5, "home")]
    >>> counts = rue.count_transitions(log, initial="ward", goals=["home"])
    >>> counts.tried  # how often each choice was tried
    array([2., 1.])
    """
    one_of("way with unvisited states", unvisited, ("refuse", "dead end"))
    if isinstance(goals, str):  # its letters would be the goals
        raise BadInput(f"goals is {goals!r}; expected a list of states, such as [{goals!r}]")
    (initial,) = _names("initial", [initial])
    state: dict[Hashable, int] = {initial: 0}
    action: dict[Hashable, int] = {}
    ends = _names("goals", goals)
    after_goal = 0
    seen: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    paid: dict[tuple[int, int], _Moments] = defaultdict(_Moments)
    try:
        numbered = enumerate(rows)
    except TypeError:
        raise BadInput(f"rows is {rows!r}; expected a list of (state, action, cost, next state)") from None
    for number, row in numbered:
        try:
            s, a, price, following = row
            price = float(price)
            hash((s, a, following))
        except (OverflowError, TypeError, ValueError):
            raise BadInput(f"row {number} is {row!r}; expected (state, action, cost, next state)") from None
        if s in ends:
            after_goal += 1
            continue
        key = (state.setdefault(s, len(state)), action.setdefault(a, len(action)))
        target, outcomes = state.setdefault(following, len(state)), seen[key]
        outcomes[target] = outcomes.get(target, 0) + 1
        paid[key].add(price)
    if not seen and not after_goal:
        raise BadInput("the log has no rows; expected (state, action, cost, next state)")
    if initial not in ends and not any(s == 0 for s, _ in seen):
        left = {s for s, _ in seen}
        names = [str(name) for name, place in state.items() if place in left]
        near = [*get_close_matches(str(initial), names, n=1), *names[:1]]
        hint = f"such as {near[0]!r}" if near else "and there is none"
        raise BadInput(f"the log never leaves the initial state {initial!r}; expected one with rows of its own, {hint}")
    for goal in ends:
        state.setdefault(goal, len(state))
    _handle_unvisited(state, action, ends, seen, paid, unvisited)
    keys = sorted(seen)
    usual = _usual_variance(paid)
    return Counts(
        **_graph_arrays(len(state), keys, [seen[key] for key in keys]),
        count=np.array([n for key in keys for n in seen[key].values()], float),
        cost=np.array([paid[key].mean for key in keys]),
        cost_spread=np.array([paid[key].standard_error(usual.get(key[1], 0.0)) for key in keys]),
        initial=0,
        state_label=tuple(str(name) for name in state),
        action_label=tuple(str(name) for name in action),
        after_goal=after_goal,
    )


def _names(what: str, names: Iterable[Hashable]) -> dict[Hashable, None]:
    """Return the names as keys, in the order in which they were given."""
    try:
        return dict.fromkeys(names)
    except TypeError:
        raise BadInput(f"{what} is {names!r}; expected names of states") from None


@dataclass(eq=False)
class _Moments:
    """Mean and sum of squared deviations of numbers that are not kept (Welford)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self.squares += before * (value - self.mean)

    def standard_error(self, usual_variance: float) -> float:
        """Return the standard error of the mean; a single number has the usual variance."""
        variance = self.squares / (self.count - 1) if self.count > 1 else usual_variance
        return float(np.sqrt(variance / self.count))


def _usual_variance(paid: Mapping[tuple[int, int], _Moments]) -> dict[int, float]:
    """Return the variance of an action's cost within a state, pooled over all states."""
    squares: dict[int, float] = {}
    freedom: dict[int, int] = {}
    for (_, action), spread in paid.items():
        squares[action] = squares.get(action, 0.0) + spread.squares
        freedom[action] = freedom.get(action, 0) + spread.count - 1
    return {action: squares[action] / freedom[action] for action in squares if freedom[action]}


def _handle_unvisited(
    state: dict[Hashable, int], action: dict[Hashable, int], ends: Mapping[Hashable, None],
    seen: dict[tuple[int, int], dict[int, int]], paid: dict[tuple[int, int], _Moments], unvisited: str,
) -> None:  # fmt: skip
    left = {s for s, _ in seen}
    stuck = [(name, number) for name, number in state.items() if number not in left and name not in ends]
    if not stuck:
        return
    if unvisited == "refuse":
        ways = argument('it in goals, or unvisited="dead end"')
        raise BadInput(
            f"the log never leaves state {stuck[0][0]!r}, which is no goal; expected {ways}; "
            f"{in_all(len(stuck), 'state', 'so')}"
        )
    stay = action.setdefault("stuck", len(action))
    for _, number in stuck:
        seen[number, stay] = {number: 1}
        paid[number, stay] = _Moments(1)


def _count_table(counts: ArrayLike, cost: ArrayLike | None, initial: int, goals: ArrayLike, support: str) -> Counts:
    """Return counts of choices that exist, from dense tables."""
    table = number_array("counts", counts)
    if table.ndim != 3 or table.shape[0] != table.shape[2]:
        raise BadInput(f"counts has shape {table.shape}; expected [states, actions, states]")
    bad = np.argwhere(~((table >= 0) & np.isfinite(table)))
    if bad.size:
        s, a, t = bad[0]
        raise BadInput(f"the count of state {s}, action {a} to state {t} is {table[s, a, t]}; expected 0 or more")
    price = number_array("cost", 0.0 if cost is None else cost)
    if cost is None or price.shape != table.shape[:2]:
        raise BadInput(f"cost has shape {price.shape}; expected {table.shape[:2]} to match counts")
    state, choice, arrays = flat_indices((table > 0) | (support == "all"), goals, "counts")
    action = arrays["action"]
    count = table[state[choice], action[choice], arrays["successor"]]
    price = price[state, action]
    return Counts(**arrays, count=count, cost=price, cost_spread=np.abs(price), initial=initial)
