"""The central types: `Graph`, the states and choices that all samples share, and `UMDP`, the samples.

Axes, everywhere: S states, C choices (state-action pairs), T transitions, K samples. The choices of
state s are `choice_ptr[s]:choice_ptr[s+1]`; the transitions of choice c are `trans_ptr[c]:trans_ptr[c+1]`.
The sample axis comes last: it is contiguous, and loops over all samples share every index.

Sample k is the Markov decision process with transition probabilities T_k = `prob[:, k]` and expected costs
C̄_k = `cost[:, k]`. A state without choices is a goal. A UMDP (the paper's Definition 4) is checked once,
here, when it is made; no other module checks it again.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from rue import structure_kernels as reach
from rue._arrays import Array, read_only
from rue._check import check_weights, frozen_array, in_all, index_array, labels, number_array
from rue._rounding import UNIT_ROUNDOFF
from rue._text import plain
from rue.average import averaged, check_alone, is_wanted
from rue.errors import BadInput, argument
from rue.flat import ROW_TOLERANCE, Flat, all_ends, discounted, figures_given, flat_from_dense
from rue.horizon import finite_horizon
from rue.reach_avoid import NEVER_ARRIVED, reach_avoid
from rue.scenery import check_layout, check_scenery
from rue.structure import all_states_reach_goal, reaching_goal, surely_reaching, visited_states
from rue.table import notebook_facts
from rue.units import PLAIN, Units

LARGEST_COST = 1e100

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Graph:
    """States, choices and possible transitions, shared by all samples of a model and of its test sets."""

    choice_ptr: Array  # [S+1]
    action: Array  # [C]
    trans_ptr: Array  # [C+1]
    successor: Array  # [T]
    initial: int
    state_label: tuple[str, ...] | None = None
    action_label: tuple[str, ...] | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)  # how to draw it: {"grid": [rows, columns]} for a grid

    def __post_init__(self) -> None:
        for name, dtype in GRAPH_FIELDS.items():
            object.__setattr__(self, name, frozen_array(name, getattr(self, name), dtype))
        object.__setattr__(self, "initial", _integer("initial", self.initial))
        for kind in ("state", "action"):
            object.__setattr__(self, f"{kind}_label", labels(kind, getattr(self, f"{kind}_label")))
        object.__setattr__(self, "layout", check_layout(self.layout))
        _check_graph(self)

    @property
    def states(self) -> int:
        """S, the number of states."""
        return self.choice_ptr.size - 1

    @property
    def choices(self) -> int:
        """C, the number of choices (state-action pairs)."""
        return int(self.action.size)

    @property
    def transitions(self) -> int:
        """T, the number of transitions."""
        return int(self.successor.size)

    @cached_property
    def goal(self) -> Array:  # [S]
        """Which states are goals: those without choices."""
        return read_only(np.diff(self.choice_ptr) == 0)

    @cached_property
    def choice_state(self) -> Array:  # [C]
        """The state of each choice."""
        return read_only(np.repeat(np.arange(self.states, dtype=np.int32), np.diff(self.choice_ptr)))

    @cached_property
    def trans_choice(self) -> Array:  # [T]
        """The choice of each transition."""
        return read_only(np.repeat(np.arange(self.choices, dtype=np.int32), np.diff(self.trans_ptr)))

    @cached_property
    def trans_state(self) -> Array:  # [T]
        """The state that each transition leaves."""
        return read_only(np.repeat(np.arange(self.states, dtype=np.int32), np.diff(self.trans_ptr[self.choice_ptr])))

    @cached_property
    def predecessors(self) -> tuple[Array, Array]:  # [S+1], [T]
        """The transitions that enter each state."""
        ptr, transition = reach.predecessors(self.successor, self.states)
        return read_only(ptr), read_only(transition)

    @cached_property
    def fingerprint(self) -> str:
        """A short hash of the structure; a policy carries it, so that it is never used on another graph."""
        digest = hashlib.sha256()
        for name in GRAPH_FIELDS:
            digest.update(getattr(self, name).tobytes())
        digest.update(str(self.initial).encode())
        return digest.hexdigest()[:16]

    @cached_property
    def state_number(self) -> Mapping[str, int]:
        """The state of each name."""
        return _numbers_by_name(self.state_label, self.states)

    @cached_property
    def action_number(self) -> Mapping[str, int]:
        """The action of each name."""
        return _numbers_by_name(self.action_label, int(self.action.max(initial=-1)) + 1)

    def state_name(self, state: int) -> str:
        """Return the label of a state, or its number."""
        return str(state) if self.state_label is None else self.state_label[state]

    def action_name(self, action: int) -> str:
        """Return the label of an action, or its number."""
        return str(action) if self.action_label is None else self.action_label[action]

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as files and pickles hold it."""
        names = {name: getattr(self, name) for name in ("initial", "state_label", "action_label")}
        return {**names, "layout": plain(self.layout)}

    def __reduce__(self) -> tuple[Any, ...]:
        """Make copies and pickles by the constructor, which freezes and checks their arrays."""
        return Graph, (*(getattr(self, name) for name in GRAPH_FIELDS), *self.header().values())

    def __repr__(self) -> str:
        return f"Graph({self.states} states, {self.choices} choices, {self.transitions} transitions)"

    def describe_choice(self, choice: int) -> str:
        """Return a choice in words, for messages."""
        state, action = int(self.choice_state[choice]), int(self.action[choice])
        return f'choice {choice} (state {self.state_name(state)}, action "{self.action_name(action)}")'


GRAPH_FIELDS: dict[str, type] = {
    "choice_ptr": np.int64,
    "action": np.int32,
    "trans_ptr": np.int64,
    "successor": np.int32,
}


@dataclass(frozen=True, eq=False)
class UMDP:
    """An uncertain Markov decision process: K samples on one graph. Frozen and always valid.

    Writable arrays are copied, read-only ones are shared. Rows that sum to one only within 1e-8 are divided
    by their sum. `weight` may be any numbers, 0 or more, and is divided by its sum; by default all are equal.
    """

    graph: Graph
    prob: Array  # [T, K]
    cost: Array  # [C, K]
    sample_label: tuple[str, ...] | None = None
    scenery: Mapping[str, Array] = field(default_factory=dict)  # [S, K] each: what a map shows, such as currents
    weight: Any = None  # [K] the probability of each sample, for means, quantiles and tails; an array once it is made
    units: Units = PLAIN  # how the costs follow from the figures that were given
    _memory: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.graph, Graph):
            raise BadInput(f"the graph is a {type(self.graph).__name__}; expected a rue.Graph")
        for name in ("prob", "cost"):
            object.__setattr__(self, name, frozen_array(name, getattr(self, name), np.float64))
        if not isinstance(self.units, Units):
            raise BadInput(f"the units are a {type(self.units).__name__}; expected rue.Units")
        object.__setattr__(self, "sample_label", labels("sample", self.sample_label))
        _check_shapes(self)
        object.__setattr__(self, "scenery", check_scenery(self.scenery, (self.graph.states, self.samples), self._place))
        object.__setattr__(self, "weight", _check_weight(self))
        self._memory["support"] = _check_prob(self)
        _check_cost(self)
        _check_goal_in_reach(self)

    @classmethod
    def from_dense(
        cls,
        transition: ArrayLike,
        cost: ArrayLike | None = None,
        *,
        reward: ArrayLike | None = None,
        initial: int = 0,
        goals: ArrayLike = (),
        avoid: ArrayLike | None = None,
        discount: float | None = None,
        horizon: int | None = None,
        terminal: ArrayLike | None = None,
        average: bool | float = False,
        states: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
        samples: Sequence[str] | None = None,
        weight: ArrayLike | None = None,
    ) -> "UMDP":
        """Return a model from `transition[K,S,A,S]` and `cost[K,S,A]` or `cost[K,S,A,S]`.

        A row of zeros in every sample means that there is no such action in that state. `states`, `actions` and
        `samples` are names; `weight[K]` are the probabilities of the samples.

        In place of `cost` there may be a `reward` of the same shape, or `avoid`: then the objective is the probability
        of reaching `goals` before these states. With `discount` or `horizon`, a number of steps, figures may have
        either sign; `terminal[S]` or `[K,S]` is the figure of the state where the horizon ends, but for goals, where it
        has ended before. With `average`, results are averages per step in the long run, by a discount near 1, 0.9999 or
        the one that is given (`average.py`). Results are in the figures that were given (`units.py`).

        >>> transition = np.zeros((2, 2, 1, 2))  # samples, states, actions, next states
        >>> transition[:, 0, 0] = [[0.1, 0.9], [0.4, 0.6]]
        >>> rue.UMDP.from_dense(transition, [[[1.0], [0.0]]] * 2, goals=[1])
        UMDP(2 states, 1 choices, 2 transitions, 2 samples)
        """
        ends = goals if avoid is None else all_ends(transition, goals, avoid)
        flat = replace(
            flat_from_dense(transition, figures_given(transition, cost, reward, avoid), ends),
            initial=_integer("initial", initial),
            state_label=labels("state", states),
            action_label=labels("action", actions),
            sample_label=labels("sample", samples),
            weight=weight,
        )
        _check_labels("state", flat.state_label, flat.choice_ptr.size - 1)  # a discount adds a state
        if reward is not None:
            flat = replace(flat, cost=-flat.cost, units=Units(reward=True))
        return cls.from_flat(flat, discount, horizon, terminal, avoid, average)

    @classmethod
    def from_flat(
        cls,
        flat: Flat,
        discount: float | None = None,
        horizon: int | None = None,
        terminal: ArrayLike | None = None,
        avoid: ArrayLike | None = None,
        average: bool | float = False,
    ) -> "UMDP":
        """Return a model from flat arrays of costs, with what else makes the problem (see `from_dense`)."""
        if is_wanted(average):
            check_alone({"discount": discount, "horizon": horizon, "terminal": terminal, "avoid": avoid})
            flat = averaged(flat, average)
        elif avoid is not None:
            if discount is not None or terminal is not None:
                raise BadInput("avoid is given with a discount or terminal figures; expected it alone or with horizon=")
            flat = reach_avoid(flat, avoid)
            terminal = None if horizon is None else np.full(flat.choice_ptr.size - 1, NEVER_ARRIVED)
        if horizon is not None:
            last = None if terminal is None else number_array("terminal", terminal) * (-1 if flat.units.reward else 1)
            flat = finite_horizon(flat, horizon, discount, last)
        elif terminal is not None:
            raise BadInput("terminal is given without a horizon; expected horizon= as well")
        elif discount is not None:
            flat = discounted(flat, discount)
        elif flat.units.reward and flat.cost.min(initial=0.0) < 0 and not flat.units.average:
            raise BadInput(
                f"a reward is {-float(flat.cost.min()):g}; expected 0 or less without discount= or horizon=, since an "
                "episode without end would collect it for ever"
            )
        ends = (flat.initial, flat.state_label, flat.action_label)
        graph = Graph(flat.choice_ptr, flat.action, flat.trans_ptr, flat.successor, *ends)
        return cls(graph, flat.prob, flat.cost, flat.sample_label, weight=flat.weight, units=flat.units)

    def with_discount(self, discount: float) -> "UMDP":
        """Return the same problem with future costs discounted by γ per step, as a shortest path.

        Every step ends the episode with probability 1 − γ. To start from rewards (negative costs) or from a problem
        without goals, pass `discount` to `from_dense` or to the `Builder`. Labels, layout and scenery stay; the new
        state has the mean of the scenery, and the layout no longer names the domain, whose draws have another graph.
        """
        ending = UMDP.from_flat(self._flat(), discount)
        layout = {name: value for name, value in self.graph.layout.items() if name != "domain"}
        if isinstance(layout.get("cell"), tuple):
            layout["cell"] = (*layout["cell"], -1)
        scenery = {name: np.vstack([values, values.mean(axis=0)]) for name, values in self.scenery.items()}
        return replace(ending, graph=replace(ending.graph, layout=layout), scenery=scenery)

    def with_horizon(self, horizon: int, terminal: ArrayLike | None = None) -> "UMDP":
        """Return the same problem for a number of steps, with time in the names of states (`horizon.py`).

        `terminal[S]`, or `[K,S]`, is paid in the state where it ends. Layout and scenery are left out.
        """
        return UMDP.from_flat(self._flat(), None, horizon, terminal)

    def _flat(self) -> Flat:
        """Return the flat arrays of the model, unless its costs were shifted already."""
        if self.units.shift or self.units.constant or self.units.average:
            done = "divided by the steps" if self.units.average else "shifted"
            raise BadInput(
                f"the costs of the model are {done} already; expected discount= and horizon= where it is made"
            )
        graph = self.graph
        return Flat(
            graph.choice_ptr, graph.action, graph.trans_ptr, graph.successor,
            self.prob, self.cost, graph.initial, graph.state_label, graph.action_label, self.sample_label, self.weight,
            self.units,
        )  # fmt: skip

    def subset(self, samples: ArrayLike) -> "UMDP":
        """Return the model with these samples only, in this order. Their weights are divided by their sum."""
        index = index_array("sample", samples, self.samples)
        if index.size == 0:
            raise BadInput("the subset has no samples; expected at least one")
        labels = None if self.sample_label is None else tuple(self.sample_label[k] for k in index)
        scenery = {name: read_only(values[:, index]) for name, values in self.scenery.items()}
        weight = self.weight[index] if self.weight[index].any() else None
        prob, cost = read_only(self.prob[:, index]), read_only(self.cost[:, index])
        return UMDP(self.graph, prob, cost, labels, scenery, weight, self.units)

    def with_weight(self, weight: ArrayLike) -> "UMDP":
        """Return the same samples with other weights: numbers, 0 or more, which are divided by their sum."""
        return replace(self, weight=weight)

    @property
    def samples(self) -> int:
        """K, the number of samples."""
        return int(self.prob.shape[1])

    @property
    def nbytes(self) -> int:
        """The memory that the model's own arrays take."""
        own = sum(getattr(self.graph, name).nbytes for name in GRAPH_FIELDS)
        return int(own + self.prob.nbytes + self.cost.nbytes)

    @property
    def always_live(self) -> Array:  # [T]
        """Transitions that are positive in every sample."""
        return np.asarray(self._memory["support"] & 1, bool)

    @property
    def ever_live(self) -> Array:  # [T]
        """Transitions that are positive in some sample."""
        return np.asarray(self._memory["support"] != 0)

    @property
    def is_weighted(self) -> bool:
        """Whether some samples have more weight than others."""
        return bool(self.weight.min() < self.weight.max())

    def sample_name(self, sample: int) -> str:
        """Return the label of a sample, or its number."""
        return str(sample) if self.sample_label is None else self.sample_label[sample]

    def remember(self, key: str, compute: Callable[[], T]) -> T:
        """Return a fact derived from the model, computed once. The model is frozen, so it stays true."""
        if key not in self._memory:
            self._memory[key] = compute()
        return cast(T, self._memory[key])

    def __reduce__(self) -> tuple[Any, ...]:
        """Make copies and pickles by the constructor, which freezes and checks their arrays."""
        return UMDP, (self.graph, self.prob, self.cost, self.sample_label, dict(self.scenery), self.weight, self.units)

    def __repr__(self) -> str:
        return f"UMDP{repr(self.graph).removeprefix('Graph')[:-1]}, {self.samples} samples)"

    def _repr_html_(self) -> str:
        """Return the model as notebooks show it: sizes, where it starts, how many goals."""
        graph, names = self.graph, [self.sample_name(k) for k in range(min(self.samples, 4))]
        few = ", ".join(names) + (", …" if self.samples > len(names) else "")
        sizes = {"states": graph.states, "choices": graph.choices, "transitions": graph.transitions}
        facts = {
            "initial": graph.state_name(graph.initial),
            "goals": int(graph.goal.sum()),
            "figures": self.units.value_name,
        }
        return notebook_facts("UMDP", {**sizes, "samples": f"{self.samples}: {few}", **facts})

    def _place(self, state: int, sample: int) -> str:
        return f"state {self.graph.state_name(state)} and sample {self.sample_name(sample)}"


def check_model(model: object) -> UMDP:
    """Return the model, if it is one."""
    if not isinstance(model, UMDP):
        raise BadInput(f"the model is a {type(model).__name__}; expected a rue.UMDP")
    return model


def check_same_graph(model: UMDP | Graph, graph: Graph) -> None:
    """Refuse a policy that was made for another graph than that of the model, or than this one."""
    wanted = model if isinstance(model, Graph) else check_model(model).graph
    if graph is wanted or graph.fingerprint == wanted.fingerprint:
        return
    raise BadInput(
        f"the policy is for another graph ({graph.states} states, {graph.choices} choices, fingerprint "
        f"{graph.fingerprint}); expected {wanted.states} states, {wanted.choices} choices, "
        f"fingerprint {wanted.fingerprint}"
    )


def _integer(name: str, value: object) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise BadInput(f"{name} is {value!r}; expected a whole number")
    return int(value)


def _numbers_by_name(label: tuple[str, ...] | None, count: int) -> Mapping[str, int]:
    return {name: number for number, name in enumerate(map(str, range(count)) if label is None else label)}


def _check_labels(kind: str, label: tuple[str, ...] | None, count: int) -> None:
    if label is None:
        return
    if len(label) != count:
        raise BadInput(f"the number of {kind} labels is {len(label)}; expected {count}")
    if len(set(label)) != count:
        twice = Counter(label).most_common(1)[0][0]
        raise BadInput(f"the {kind} label {twice!r} is used twice; expected a label of its own for each {kind}")
    try:
        "".join(label).encode()
    except UnicodeEncodeError as error:  # half of a letter, as a file name in another encoding may have
        raise BadInput(f"a {kind} label has {error.object[error.start]!r}; expected text that UTF-8 can hold") from None


def check_pointers(name: str, ptr: Array, end: int, allow_empty: bool) -> None:
    """Refuse pointers that do not rise from 0 to the end; with `allow_empty`, neighbours may be equal."""
    if ptr.ndim != 1:
        raise BadInput(f"{name} has shape {ptr.shape}; expected one axis")
    if ptr.size < 1 or ptr[0] != 0 or ptr[-1] != end:
        raise BadInput(f"{name} runs from {ptr[:1]} to {ptr[-1:]}; expected 0 to {end}")
    bad = np.flatnonzero(np.diff(ptr) < (0 if allow_empty else 1))
    if bad.size:
        what = "not less" if allow_empty else "more"
        raise BadInput(
            f"{name}[{bad[0] + 1}] is {ptr[bad[0] + 1]}; expected {what} than {ptr[bad[0]]}; {in_all(bad.size)}"
        )


def _check_graph(graph: Graph) -> None:
    for name in ("action", "successor"):
        if getattr(graph, name).ndim != 1:
            raise BadInput(f"{name} has shape {getattr(graph, name).shape}; expected one axis")
    check_pointers("choice_ptr", graph.choice_ptr, graph.action.size, allow_empty=True)
    check_pointers("trans_ptr", graph.trans_ptr, graph.successor.size, allow_empty=False)
    states = graph.states
    if graph.trans_ptr.size != graph.choices + 1:
        raise BadInput(f"trans_ptr has {graph.trans_ptr.size} entries; expected one more than {graph.choices} choices")
    if not 0 <= graph.initial < states:
        raise BadInput(f"the initial state {graph.initial} is out of range; expected 0 to {states - 1}")
    outside = np.flatnonzero((graph.successor < 0) | (graph.successor >= states))
    if outside.size:
        t = outside[0]
        raise BadInput(
            f"successor {graph.successor[t]} of {graph.describe_choice(graph.trans_choice[t])} is out of range; "
            f"expected 0 to {states - 1}; {in_all(outside.size)}"
        )
    if not graph.goal.any():
        raise BadInput("there is no goal; expected at least one state without choices")
    same_state = np.diff(graph.choice_state) == 0
    repeated = np.flatnonzero(same_state & (np.diff(graph.action) <= 0))
    if (graph.action < 0).any() or repeated.size:
        choice = int(repeated[0] + 1 if repeated.size else np.flatnonzero(graph.action < 0)[0])
        raise BadInput(
            f"action {graph.action[choice]} of choice {choice} (state {graph.choice_state[choice]}) is out of order; "
            "expected the actions of a state to be 0 or more and to rise"
        )
    _check_labels("state", graph.state_label, states)
    if graph.action_label is not None:
        _check_labels("action", graph.action_label, len(graph.action_label))
        if graph.choices and graph.action.max() >= len(graph.action_label):
            raise BadInput(
                f"the number of action labels is {len(graph.action_label)}; expected {graph.action.max() + 1} or more"
            )


def _check_shapes(model: UMDP) -> None:
    graph = model.graph
    if model.prob.ndim != 2 or model.prob.shape[0] != graph.transitions:
        raise BadInput(f"prob has shape {model.prob.shape}; expected [{graph.transitions} transitions, samples]")
    samples = model.prob.shape[1]
    if samples == 0:
        raise BadInput("there are no samples; expected at least one")
    if model.cost.shape != (graph.choices, samples):
        raise BadInput(f"cost has shape {model.cost.shape}; expected [{graph.choices} choices, {samples} samples]")
    _check_labels("sample", model.sample_label, samples)


def _check_weight(model: UMDP) -> Array:
    """Return the probability of each sample."""
    if model.weight is None:
        return read_only(np.full(model.samples, 1.0 / model.samples))
    weight = check_weights("sample", model.weight, model.sample_label or range(model.samples))
    largest = float(weight.max())
    total = float((weight / largest).sum())
    # Weights that were divided by their sum once are left alone: saving and loading changes nothing.
    if abs(total * largest - 1) <= 2 * UNIT_ROUNDOFF * (model.samples + 4):
        return weight
    return read_only(weight / largest / total)


def _check_prob(model: UMDP) -> Array:
    """Refuse bad rows, divide the others by their sum, and tell which transitions are positive."""
    graph, prob = model.graph, model.prob
    support, worst, bad, sample = reach.scan_prob(graph.trans_ptr, prob)
    if bad >= 0:
        wrong = int((~((prob >= 0) & (prob <= 2))).sum())
        raise BadInput(
            f"the probability of {graph.describe_choice(graph.trans_choice[bad])} to state "
            f"{graph.state_name(graph.successor[bad])} is {prob[bad, sample]} in sample {model.sample_name(sample)}; "
            f"expected 0 to 1; {in_all(wrong)}"
        )
    # A row that was divided by its sum once is left alone, whatever its length: saving and loading changes nothing.
    rounding = 2 * UNIT_ROUNDOFF * (int(np.diff(graph.trans_ptr).max(initial=0)) + 4)
    if worst <= rounding or graph.choices == 0:
        return read_only(support)
    total = np.add.reduceat(prob, graph.trans_ptr[:-1], axis=0)
    off = np.abs(total - 1) > ROW_TOLERANCE
    if off.any():
        choice, sample = (int(i) for i in np.argwhere(off)[0])
        raise BadInput(
            f"probabilities of {graph.describe_choice(choice)} sum to {total[choice, sample]:.10g} in sample "
            f"{model.sample_name(sample)}; expected 1; {in_all(int(off.any(axis=1).sum()), 'choice')}"
        )
    object.__setattr__(model, "prob", read_only(prob / np.repeat(total, np.diff(graph.trans_ptr), axis=0)))
    return read_only(support)


def _check_cost(model: UMDP) -> None:
    graph, cost = model.graph, model.cost
    if cost.size == 0 or (cost.min() >= 0 and cost.max() <= LARGEST_COST):
        return
    way = argument("pass discount= to from_dense or Builder")
    for bad, expected in (
        (~np.isfinite(cost), "a finite number"),
        (cost > LARGEST_COST, f"at most {LARGEST_COST}, beyond which sums overflow"),
        (cost < 0, "0 or more: where every policy takes the same number of steps, add a constant to every cost; "
                   f"for rewards with a discount {way}"),
    ):  # fmt: skip
        if bad.any():
            choice, sample = (int(i) for i in np.argwhere(bad)[0])
            raise BadInput(
                f"the cost of {graph.describe_choice(choice)} is {cost[choice, sample]} in sample "
                f"{model.sample_name(sample)}; expected {expected}; {in_all(int(bad.sum()))}"
            )


def _check_goal_in_reach(model: UMDP) -> None:
    """Refuse a model with a sample in which no policy reaches a goal with probability one."""
    if all_states_reach_goal(model):
        return
    graph = model.graph
    hopeless = [k for k in range(model.samples) if not surely_reaching(graph, model.prob[:, k] > 0)[0][graph.initial]]
    if hopeless:
        live = model.prob[:, hopeless[0]] > 0
        visited = visited_states(graph, live)
        lost = visited[~np.isin(visited, reaching_goal(graph, live))]
        raise BadInput(
            f"no policy reaches a goal with probability one from the initial state {graph.state_name(graph.initial)} "
            f"in sample {model.sample_name(hopeless[0])}: no goal can be reached from state "
            f"{graph.state_name(int(lost[0]))}; expected a way round such states; {in_all(len(hopeless), 'sample')}"
        )


def typical_cost(model: UMDP) -> float:
    """Return the median, over choices that cost something, of their largest cost: the unit of κ and of tolerances."""
    cost = model.cost.max(axis=1, initial=0.0)
    return float(np.median(cost[cost > 0])) if (cost > 0).any() else 1.0
