"""`Policy`: every policy is a finite-memory controller.

A controller has nodes. Each node belongs to a state, has a distribution over the choices of that state, and
names the next node for every transition of every choice that it may take. A distribution over start nodes is
drawn once. Stationary, stochastic, n-step option, mixed and adaptive policies are all this one thing, so there
is one judge, one simulator and one file format.

*As text* a policy is a JSON object or a CSV table, and both can be read back without loss. The JSON has the graph in it
and needs nothing else. The CSV has one row for each node and action, and is read together with its model:

    node         the number of the node, from 0
    state        its state, by name, or by number if there are no names
    action       what is done there; empty at a goal
    probability  how likely it is done
    next         the next node for each transition of the action, in the model's order, with spaces between them
    start        the probability to start at this node

A table that somebody writes by hand may leave out everything but `state` and `action`: then it is a stationary policy.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rue._arrays import Array, members, pointers
from rue._check import frozen_array, in_all, number_array
from rue.errors import BadInput
from rue.model import GRAPH_FIELDS, UMDP, Graph
from rue.policy_text import COLUMNS, FORMAT, VERSION, actions_in_words, arrays_from_csv, arrays_from_json

if TYPE_CHECKING:
    from rue.agent import Agent


@dataclass(frozen=True, eq=False)
class Policy:
    """A randomised finite-memory controller on a graph. N nodes, E entries (node, choice), D start nodes."""

    graph: Graph
    node_state: Array  # [N]
    entry_ptr: Array  # [N+1] the entries of a node
    choice: Array  # [E]
    weight: Array  # [E] probability of the choice at the node
    next_ptr: Array  # [E+1] where the next nodes of an entry begin
    next_node: Array  # one for each transition of the entry's choice, in order
    start_node: Array  # [D]
    start_weight: Array  # [D]

    def __post_init__(self) -> None:
        object.__setattr__(self, "graph", _graph_of(self.graph))
        for name, dtype in POLICY_FIELDS.items():
            object.__setattr__(self, name, frozen_array(f"{name} of the policy", getattr(self, name), dtype))
        try:
            problem = _what_is_wrong(self)
        except (IndexError, ValueError) as error:
            problem = f"the arrays of the policy do not fit together ({error})"
        if problem:
            raise BadInput(f"{problem}; expected a controller on {self.graph.states} states")

    @classmethod
    def stationary(cls, model: UMDP | Graph, actions: ArrayLike) -> "Policy":
        """Return a policy that depends on the state alone.

        `actions[S]` has an action for each state, by name or by number; `probabilities[S, A]` a distribution over
        actions. Entries at goals are ignored.

        >>> model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
        >>> policy = rue.Policy.stationary(model, ["south-east"] * model.graph.states)
        >>> round(rue.evaluate(model, policy).max_regret, 2)
        4.97
        """
        graph = _graph_of(model)
        try:
            # As objects, since numpy would make texts of a list that has both names and numbers.
            table = np.asarray(actions, None if isinstance(actions, np.ndarray) else object)
        except ValueError:
            table = number_array("actions", actions)
        if table.ndim == 1 and table.shape == (graph.states,):
            return cls.from_choices(graph, _choices_of_actions(graph, table))
        if table.ndim == 2 and table.shape[0] == graph.states:
            return cls.from_weights(graph, _weights_of_table(graph, table))
        raise BadInput(f"actions has shape {table.shape}; expected ({graph.states},) or ({graph.states}, actions)")

    @classmethod
    def from_choices(cls, graph: Graph, choice: Array) -> "Policy":
        """Return a stationary deterministic policy from `choice[S]`; entries at goals are ignored."""
        choice = frozen_array("choice", choice, np.int64)
        acting = ~_graph_of(graph).goal
        if choice.shape != acting.shape or not _within(choice[acting], graph.choices):
            raise BadInput(f"choice is no choice for each of {graph.states} states; expected 0 to {graph.choices - 1}")
        weight = np.zeros(graph.choices)
        weight[choice[acting]] = 1.0
        return cls.from_weights(graph, weight)

    @classmethod
    def from_weights(cls, graph: Graph, weight: Array) -> "Policy":
        """Return a stationary policy from the probability `weight[C]` of each choice at its state."""
        weight = frozen_array("weight", weight, np.float64)
        if weight.shape != (_graph_of(graph).choices,):
            raise BadInput(f"weight has shape {weight.shape}; expected ({graph.choices},): one for each choice")
        used = np.flatnonzero(weight > 0)
        return cls(
            graph=graph,
            node_state=np.arange(graph.states),
            entry_ptr=pointers(np.bincount(graph.choice_state[used], minlength=graph.states)),
            choice=used,
            weight=weight[used],
            next_ptr=pointers(np.diff(graph.trans_ptr)[used]),
            next_node=graph.successor[members(graph.trans_ptr, used)],
            start_node=np.array([graph.initial]),
            start_weight=np.ones(1),
        )

    @property
    def nodes(self) -> int:
        """N, the number of nodes."""
        return int(self.node_state.size)

    @property
    def entry_node(self) -> Array:  # [E]
        """The node of each entry."""
        return np.repeat(np.arange(self.nodes), np.diff(self.entry_ptr))

    @property
    def transition(self) -> Array:
        """The transition of the graph that each of `next_node` is for."""
        return members(self.graph.trans_ptr, self.choice)

    @property
    def is_stationary(self) -> bool:
        """Whether each state has at most one node, so that the state alone decides."""
        return int(np.unique(self.node_state).size) == self.nodes and self.start_node.size == 1

    @property
    def is_deterministic(self) -> bool:
        """Whether no node and no start is random."""
        return bool((np.diff(self.entry_ptr) <= 1).all()) and self.start_node.size == 1

    def agent(
        self,
        model: UMDP | None = None,
        *,
        seed: "int | np.random.Generator",
        unknown: str = "refuse",
        fallback: "Policy | None" = None,
    ) -> "Agent":
        """Return an agent that acts by this policy: `act()`, `observe(state)`, `belief`, `reset()`.

        The belief needs the model. `unknown` says what to do after an outcome for which the policy has no node or which
        no sample allows: "refuse" it, go on with a stationary "fallback" (the given one, or one that is found), or at
        the "nearest" node of that state. `seed` fixes what is drawn; it may be a generator that is shared with others.

        >>> builder = rue.Builder(["fair", "loaded"])
        >>> builder = builder.add("again", "throw", {"done": [0.5, 0.9], "again": [0.5, 0.1]}, cost=1)
        >>> model = builder.goal("done").build()
        >>> agent = rue.Policy.stationary(model, ["throw", "throw"]).agent(model, seed=1)
        >>> agent.act()
        'throw'
        >>> agent.observe("again")
        >>> agent.belief.round(2)
        array([0.83, 0.17])
        """
        from rue.agent import Agent

        return Agent(self, model, seed=seed, unknown=unknown, fallback=fallback)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Return what the policy does, one row for each node and choice, with the names of states and actions."""
        for node in range(self.nodes):
            state = self._state_name(node)
            for entry in range(self.entry_ptr[node], self.entry_ptr[node + 1]):
                yield {"node": node, "state": state, **self._action(entry)}

    def to_csv(self) -> str:
        """Return the policy as a table, with the names of states and actions; `from_csv` reads it back."""
        text = StringIO()
        names = (*(self.graph.state_label or ()), *(self.graph.action_label or ()))
        odd = any("\r" in name for name in names)  # which older Pythons do not quote by themselves
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL)
        writer.writeheader()
        nothing = {"action": "", "probability": "", "next": ""}
        for node, start in enumerate(np.bincount(self.start_node, self.start_weight, self.nodes).tolist()):
            about = {"node": node, "state": self._state_name(node), "start": start}
            if self.entry_ptr[node] == self.entry_ptr[node + 1]:
                writer.writerow({**about, **nothing})
            for entry in range(self.entry_ptr[node], self.entry_ptr[node + 1]):
                writer.writerow({**about, **self._action(entry), "next": " ".join(map(str, self._next_nodes(entry)))})
        return text.getvalue()

    @classmethod
    def from_csv(cls, text: str, model: UMDP | Graph) -> "Policy":
        """Return the policy in a table: what `to_csv` wrote, or a stationary one with states and actions alone."""
        graph = _graph_of(model)
        return cls(graph, **arrays_from_csv(text, graph))

    def to_json(self) -> str:
        """Return the controller and its graph as JSON, with names of states and actions; `from_json` reads it.

        Each action of a node lists its outcomes in the order of the graph's transitions: the state, and the node to go
        on with.
        """
        graph, nodes = self.graph, []
        for node in range(self.nodes):
            actions = []
            for entry in range(self.entry_ptr[node], self.entry_ptr[node + 1]):
                outcomes = [{"state": self._state_name(after), "node": after} for after in self._next_nodes(entry)]
                actions.append({**self._action(entry), "next": outcomes})
            nodes.append({"node": node, "state": self._state_name(node), "actions": actions})
        begin = zip(self.start_node.tolist(), self.start_weight.tolist(), strict=True)
        start = [{"node": node, "probability": probability} for node, probability in begin]
        about = {
            "fingerprint": graph.fingerprint, **graph.header(),
            **{name: getattr(graph, name).tolist() for name in GRAPH_FIELDS},
        }  # fmt: skip
        whole = {"format": FORMAT, "version": VERSION, "start": start, "nodes": nodes, "graph": about}
        return json.dumps(whole, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Policy":
        """Return the policy that `to_json` wrote."""
        graph, arrays = arrays_from_json(text)
        return cls(graph, **arrays)

    def _state_name(self, node: int) -> str:
        return self.graph.state_name(int(self.node_state[node]))

    def _action(self, entry: int) -> dict[str, Any]:
        name = self.graph.action_name(int(self.graph.action[self.choice[entry]]))
        return {"action": name, "probability": float(self.weight[entry])}

    def _next_nodes(self, entry: int) -> list[int]:
        nodes: list[int] = self.next_node[self.next_ptr[entry] : self.next_ptr[entry + 1]].tolist()
        return nodes

    def __reduce__(self) -> tuple[Any, ...]:
        """Make copies and pickles by the constructor, which freezes and checks their arrays."""
        return Policy, (self.graph, *(getattr(self, name) for name in POLICY_FIELDS))

    def __repr__(self) -> str:
        memory = "stationary" if self.is_stationary else f"{self.nodes}-node"
        chance = "deterministic" if self.is_deterministic else "randomised"
        return f"Policy({memory}, {chance}, {self.graph.states} states)"


POLICY_FIELDS: dict[str, type] = {
    "node_state": np.int32, "entry_ptr": np.int64, "choice": np.int32, "weight": np.float64,
    "next_ptr": np.int64, "next_node": np.int32, "start_node": np.int32, "start_weight": np.float64,
}  # fmt: skip


def _graph_of(model: object) -> Graph:
    """Return the graph of a model, or the graph itself."""
    graph = model.graph if isinstance(model, UMDP) else model
    if not isinstance(graph, Graph):
        raise BadInput(f"the model is a {type(model).__name__}; expected a rue.UMDP or its graph")
    return graph


def _choices_of_actions(graph: Graph, actions: Array) -> Array:
    """Return the choice of each state that has the wanted action, by name or by number; -1 at goals."""
    if actions.dtype.kind in "OU":
        names = graph.action_number
        actions = np.array([names.get(a, a) if isinstance(a, str) else a for a in actions.tolist()], object)
    wanted = np.asarray(actions[graph.choice_state] == graph.action, bool)
    choice = np.full(graph.states, -1)
    choice[graph.choice_state[wanted]] = np.flatnonzero(wanted)
    missing = np.flatnonzero((choice < 0) & ~graph.goal)
    if missing.size:
        state = int(missing[0])
        raise BadInput(
            f"state {graph.state_name(state)} has no action {actions[state]}; expected one of "
            f"{actions_in_words(graph, state)}; {in_all(missing.size, 'state')}"
        )
    return choice


def _weights_of_table(graph: Graph, table: Array) -> Array:
    """Return the probability of each choice from `probabilities[S, A]`."""
    weights = number_array("actions", table)
    if graph.choices and graph.action.max() >= weights.shape[1]:
        weights = np.pad(weights, ((0, 0), (0, int(graph.action.max()) + 1 - weights.shape[1])))
    weight = weights[graph.choice_state, graph.action]
    exists = np.zeros(weights.shape, bool)
    exists[graph.choice_state, graph.action] = True
    stray = np.argwhere((weights != 0) & ~exists & ~graph.goal[:, None])
    if stray.size:
        state, action = (int(i) for i in stray[0])
        raise BadInput(
            f"probability {weights[state, action]} is given to action {action} in state {graph.state_name(state)}, "
            f"which has no such action; expected 0; {in_all(len(stray))}"
        )
    total = np.bincount(graph.choice_state, weights=weight, minlength=graph.states)
    bad = np.flatnonzero(~graph.goal & ~(np.abs(total - 1) <= 1e-8))
    if bad.size or not (weight >= 0).all():
        state = int(bad[0]) if bad.size else int(graph.choice_state[np.flatnonzero(~(weight >= 0))[0]])
        raise BadInput(
            f"action probabilities of state {graph.state_name(state)} sum to {total[state]:.10g} or are negative; "
            f"expected 0 or more and 1 in sum; {in_all(max(bad.size, 1), 'state')}"
        )
    return np.asarray(weight / total[graph.choice_state])


def _what_is_wrong(policy: Policy) -> str | None:
    """Return what keeps the arrays from being a controller, if anything; bad indices raise."""
    graph, nodes = policy.graph, policy.nodes
    for name in POLICY_FIELDS:
        if getattr(policy, name).ndim != 1:
            return f"{name} of the policy has shape {getattr(policy, name).shape}"
    length = np.diff(graph.trans_ptr)
    sizes = {"node_state": graph.states, "choice": graph.choices, "next_node": nodes, "start_node": nodes}
    for name, size in sizes.items():
        if not _within(getattr(policy, name), size):
            return f"{name} of the policy is out of range"
    owner = policy.entry_node
    sums = np.bincount(owner, weights=policy.weight, minlength=nodes)
    at_goal = graph.goal[policy.node_state]
    problems = {
        "entry_ptr": policy.entry_ptr[0] != 0 or policy.entry_ptr[-1] != policy.choice.size,
        "next_ptr": policy.next_ptr[0] != 0 or not np.array_equal(np.diff(policy.next_ptr), length[policy.choice]),
        "choice": not np.array_equal(graph.choice_state[policy.choice], policy.node_state[owner]),
        "weight": not (policy.weight > 0).all() or not (np.abs(sums[~at_goal] - 1) <= 1e-8).all(),
        "next_node": policy.next_node.size != policy.next_ptr[-1],
        "start_node": not policy.start_node.size,
        "start_weight": policy.start_node.size != policy.start_weight.size
        or not (policy.start_weight >= 0).all()
        or abs(policy.start_weight.sum() - 1) > 1e-8,
    }
    for name, wrong in problems.items():
        if wrong:
            return f"{name} of the policy does not fit its other arrays"
    if (policy.node_state[policy.start_node] != graph.initial).any():
        return f"the policy starts in another state; expected the initial state {graph.state_name(graph.initial)}"
    if not np.array_equal(policy.node_state[policy.next_node], graph.successor[policy.transition]):
        return "next_node of the policy names nodes of other states; expected a node of each transition's successor"
    return None


def _within(index: Array, size: int) -> bool:
    return bool(((index >= 0) & (index < size)).all())


def check_policy(policy: object) -> Policy:
    """Return the policy, if it is one."""
    if not isinstance(policy, Policy):
        raise BadInput(f"the policy is a {type(policy).__name__}; expected a rue.Policy, such as solution.policy")
    return policy


def complete_choices(graph: Graph, choice: Array) -> Array:  # [S]
    """Return choices for all states: where there is none (-1), as at dead ends, the first of the state."""
    first = np.minimum(graph.choice_ptr[:-1], graph.choices - 1)
    return np.where(choice >= 0, choice, first)
