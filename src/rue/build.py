"""The friendly ways in: a `Builder` with names, and models from counted or logged transitions.

**From data.** If the transitions of a choice were seen n(s') times, its outcome probabilities have, under a Dirichlet
prior with α pseudo-counts for each outcome, the posterior Dirichlet(n(s') + α). A sample of the model draws each
choice's probabilities from its posterior, independently of the other choices.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rue._check import index_array, number_array, one_of, real_number, whole_number
from rue._check import seed as check_seed
from rue._flat import Array, Flat
from rue.errors import BadInput
from rue.model import UMDP

Numbers = float | Sequence[float] | Array


class Builder:
    """Make a model choice by choice, with names.

    >>> builder = Builder(samples=2)
    >>> builder.add("here", "walk", {"there": [0.9, 0.6], "here": [0.1, 0.4]}, cost=1.0)
    >>> builder.goal("there")
    >>> model = builder.build()

    States are numbered in the order in which they are first named, and so are actions. The initial state is the first
    one unless `initial` says otherwise. `discount` makes a discounted problem of it (see `UMDP.with_discount`), in
    which costs may be negative.
    """

    def __init__(self, samples: int = 1, *, discount: float | None = None) -> None:
        self._samples = whole_number("samples", samples, 1)
        self._discount = discount
        self._state: dict[str, int] = {}
        self._action: dict[str, int] = {}
        self._choices: dict[tuple[int, int], tuple[dict[int, Array], Array]] = {}
        self._goals: set[int] = set()
        self._initial: int | None = None

    def add(self, state: str, action: str, outcomes: Mapping[str, Numbers], cost: Numbers = 0.0) -> "Builder":
        """An action in a state: where it leads, with which probability, at which expected cost.

        A probability or cost is one number for all samples or one for each.
        """
        where = f'state {state!r}, action "{action}"'
        if not isinstance(outcomes, Mapping):
            raise BadInput(f"{where}: the outcomes are {outcomes!r}; expected {{next state: probability}}")
        if not outcomes:
            raise BadInput(f"{where} leads nowhere; expected at least one outcome")
        # Everything is looked at before anything is kept, so that a refusal leaves no trace.
        row = {str(s): self._per_sample(p, f"{where}: the probability of {s!r}") for s, p in outcomes.items()}
        price = self._per_sample(cost, f"{where}: the cost")
        known = (self._state.get(str(state), -1), self._action.get(str(action), -1))
        if known in self._choices:
            raise BadInput(f"{where} is there already; expected each action once in a state")
        if known[0] in self._goals:
            raise BadInput(f"{where}: the state is a goal; expected no actions there")
        key = (self._state_number(state), self._action.setdefault(str(action), len(self._action)))
        self._choices[key] = ({self._state_number(s): p for s, p in row.items()}, price)
        return self

    def goal(self, *states: str) -> "Builder":
        """States where the episode ends."""
        for state in states:
            number = self._state_number(state)
            if any(s == number for s, _ in self._choices):
                raise BadInput(f"state {state!r} has actions; expected none at a goal")
            self._goals.add(number)
        return self

    def initial(self, state: str) -> "Builder":
        """Where every episode starts."""
        self._initial = self._state_number(state)
        return self

    def with_discount(self, discount: float) -> "Builder":
        """Discount future costs by γ per step; costs may then be negative."""
        self._discount = discount
        return self

    def build(self) -> UMDP:
        """The model, checked."""
        names = tuple(self._state)
        has_action = {state for state, _ in self._choices}
        stuck = [name for name, number in self._state.items() if number not in has_action and number not in self._goals]
        if stuck:
            raise BadInput(
                f"state {stuck[0]!r} has no action and is no goal; expected add() or goal() for it; "
                f"{len(stuck)} states are so in all"
            )
        if not names:
            raise BadInput("there are no states; expected add() and goal() before build()")
        keys = sorted(self._choices)
        rows = [self._choices[key][0] for key in keys]
        flat = Flat(
            choice_ptr=np.searchsorted([state for state, _ in keys], np.arange(len(names) + 1)),
            action=np.array([action for _, action in keys], np.int64),
            trans_ptr=np.concatenate(([0], np.cumsum([len(row) for row in rows], dtype=np.int64))),
            successor=np.array([s for row in rows for s in row], np.int64),
            prob=np.array([p for row in rows for p in row.values()]).reshape(-1, self._samples),
            cost=np.array([self._choices[key][1] for key in keys]).reshape(-1, self._samples),
            initial=self._initial or 0,
            state_label=names,
            action_label=tuple(self._action),
        )
        return UMDP.from_flat(flat, self._discount)

    def _state_number(self, name: str) -> int:
        return self._state.setdefault(str(name), len(self._state))

    def _per_sample(self, values: Numbers, where: str) -> Array:
        try:
            array = np.asarray(values, dtype=float)
        except (TypeError, ValueError):
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


def from_counts(
    counts: ArrayLike | Counts,
    cost: ArrayLike | None = None,
    *,
    samples: int,
    seed: int,
    initial: int = 0,
    goals: ArrayLike = (),
    prior: float = 1.0,
    support: Literal["observed", "all"] = "observed",
    cost_noise: float = 0.0,
    discount: float | None = None,
) -> UMDP:
    """Posterior samples of a model whose transitions were counted.

    `counts[S,A,S]` says how often action a in state s led to s'; `cost[S,A]` is the mean cost. Each outcome of a choice
    has `prior` pseudo-counts: with support "observed" the outcomes that were seen (a choice that was never taken does
    not exist), with "all" every state. `cost_noise` is the standard deviation of Gaussian noise on each sample's costs,
    in units of the cost itself (of the standard error of the mean, for logged costs); costs stay 0 or more unless there
    is a `discount`.
    """
    pseudo_counts = real_number("prior", prior, "a number of pseudo-counts over 0", 0)
    if pseudo_counts == 0:
        raise BadInput(f"prior is {prior}; expected a number of pseudo-counts over 0")
    noise = real_number("cost_noise", cost_noise, "0 or more", 0)
    whole_number("samples", samples, 1)
    one_of("support", support, ("observed", "all"))
    table = counts if isinstance(counts, Counts) else _count_table(counts, cost, initial, goals, support)
    rng = np.random.default_rng(check_seed(seed))
    draw = rng.standard_gamma(np.repeat(table.count[:, None] + pseudo_counts, samples, axis=1))
    draw = np.maximum(draw, np.finfo(float).tiny)  # a tiny shape can round to zero in all outcomes at once
    total = np.add.reduceat(draw, table.trans_ptr[:-1], axis=0)
    price = np.repeat(table.cost[:, None], samples, axis=1)
    if noise:
        price = price + noise * table.cost_spread[:, None] * rng.standard_normal(price.shape)
        price = price if discount is not None else np.maximum(price, 0.0)
    flat = Flat(
        table.choice_ptr, table.action, table.trans_ptr, table.successor,
        draw / np.repeat(total, np.diff(table.trans_ptr), axis=0), price,
        table.initial, table.state_label, table.action_label,
    )  # fmt: skip
    return UMDP.from_flat(flat, discount)


def from_transitions(
    rows: Iterable[tuple[Hashable, Hashable, float, Hashable]],
    *,
    samples: int,
    seed: int,
    initial: Hashable,
    goals: Iterable[Hashable],
    prior: float = 1.0,
    cost_noise: float = 0.0,
    discount: float | None = None,
    unvisited: Literal["refuse", "dead end"] = "refuse",
) -> UMDP:
    """Posterior samples of a model from logged rows (state, action, cost, next state).

    States and actions may be any names; they become labels. A state that the log never leaves and that is no goal is
    refused, or made a dead end.
    """
    return from_counts(
        count_transitions(rows, initial=initial, goals=goals, unvisited=unvisited),
        samples=samples, seed=seed, prior=prior, cost_noise=cost_noise, discount=discount,
    )  # fmt: skip


def count_transitions(
    rows: Iterable[tuple[Hashable, Hashable, float, Hashable]],
    *,
    initial: Hashable,
    goals: Iterable[Hashable],
    unvisited: Literal["refuse", "dead end"] = "refuse",
) -> Counts:
    """Count logged rows (state, action, cost, next state)."""
    one_of("way with unvisited states", unvisited, ("refuse", "dead end"))
    state: dict[Hashable, int] = {initial: 0}
    action: dict[Hashable, int] = {}
    ends = set(goals)
    seen: dict[tuple[int, int], dict[int, int]] = {}
    paid: dict[tuple[int, int], list[float]] = {}
    for number, row in enumerate(rows):
        try:
            s, a, price, following = row
            price = float(price)
        except (TypeError, ValueError):
            raise BadInput(f"row {number} is {row!r}; expected (state, action, cost, next state)") from None
        key = (state.setdefault(s, len(state)), action.setdefault(a, len(action)))
        target = state.setdefault(following, len(state))
        if s in ends:
            continue  # what happens after the goal does not matter
        seen.setdefault(key, {}).setdefault(target, 0)
        seen[key][target] += 1
        paid.setdefault(key, []).append(price)
    for goal in ends:
        state.setdefault(goal, len(state))
    _handle_unvisited(state, action, ends, seen, paid, unvisited)
    keys = sorted(seen)
    costs = [np.array(paid[key]) for key in keys]
    return Counts(
        choice_ptr=np.searchsorted([s for s, _ in keys], np.arange(len(state) + 1)),
        action=np.array([a for _, a in keys], np.int64),
        trans_ptr=np.concatenate(([0], np.cumsum([len(seen[key]) for key in keys], dtype=np.int64))),
        successor=np.array([s for key in keys for s in seen[key]], np.int64),
        count=np.array([n for key in keys for n in seen[key].values()], float),
        cost=np.array([c.mean() for c in costs]),
        cost_spread=np.array([c.std(ddof=1) / np.sqrt(c.size) if c.size > 1 else 0.0 for c in costs]),
        initial=0,
        state_label=tuple(str(name) for name in state),
        action_label=tuple(str(name) for name in action),
    )


def _handle_unvisited(
    state: dict[Hashable, int], action: dict[Hashable, int], ends: set[Hashable],
    seen: dict[tuple[int, int], dict[int, int]], paid: dict[tuple[int, int], list[float]], unvisited: str,
) -> None:  # fmt: skip
    left = {s for s, _ in seen}
    stuck = [(name, number) for name, number in state.items() if number not in left and name not in ends]
    if not stuck:
        return
    if unvisited == "refuse":
        raise BadInput(
            f"the log never leaves state {stuck[0][0]!r}, which is no goal; expected it in goals, or "
            f'unvisited="dead end"; {len(stuck)} states are so in all'
        )
    stay = action.setdefault("stuck", len(action))
    for _, number in stuck:
        seen[number, stay] = {number: 1}
        paid[number, stay] = [0.0]


def _count_table(counts: ArrayLike, cost: ArrayLike | None, initial: int, goals: ArrayLike, support: str) -> Counts:
    """Counts of choices that exist, from dense tables."""
    table = number_array("counts", counts)
    if table.ndim != 3 or table.shape[0] != table.shape[2]:
        raise BadInput(f"counts has shape {table.shape}; expected [states, actions, states]")
    if not (table >= 0).all() or not np.isfinite(table).all():
        s, a, t = (int(i) for i in np.argwhere(~((table >= 0) & np.isfinite(table)))[0])
        raise BadInput(f"the count of state {s}, action {a} to state {t} is {table[s, a, t]}; expected 0 or more")
    price = number_array("cost", 0.0 if cost is None else cost)
    if cost is None or price.shape != table.shape[:2]:
        raise BadInput(f"cost has shape {price.shape}; expected {table.shape[:2]} to match counts")
    states = table.shape[0]
    is_goal = np.isin(np.arange(states), index_array("goal", goals, states))
    exists = (table.sum(axis=2) > 0) | (support == "all")
    exists &= ~is_goal[:, None]
    stuck = np.flatnonzero(~exists.any(axis=1) & ~is_goal)
    if stuck.size:
        raise BadInput(
            f"state {stuck[0]} has no counts and is no goal; expected counts or a place in goals; "
            f"{stuck.size} states are so in all"
        )
    state, action = np.nonzero(exists)
    choice, successor = np.nonzero((table[state, action] > 0) | (support == "all"))
    return Counts(
        choice_ptr=np.searchsorted(state, np.arange(states + 1)),
        action=action,
        trans_ptr=np.searchsorted(choice, np.arange(state.size + 1)),
        successor=successor,
        count=table[state, action][choice, successor],
        cost=price[state, action],
        cost_spread=np.abs(price[state, action]),
        initial=initial,
    )
