"""`Policy`: every policy is a finite-memory controller.

A controller has nodes. Each node belongs to a state, has a distribution over the choices of that state, and
names the next node for every transition of every choice that it may take. A distribution over start nodes is
drawn once. Stationary, stochastic, n-step option, mixed and adaptive policies are all this one thing, so there
is one judge, one simulator, one file format and one export.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rue._check import number_array
from rue._flat import Array
from rue._linear import ranges
from rue.errors import BadInput
from rue.model import UMDP, Graph


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
        try:
            for name, dtype in _FIELDS.items():
                array: Array = np.ascontiguousarray(getattr(self, name), dtype=dtype)
                if array.flags.writeable:
                    array = array.copy()
                    array.flags.writeable = False
                object.__setattr__(self, name, array)
            problem = _what_is_wrong(self)
        except (IndexError, OverflowError, TypeError, ValueError) as error:
            problem = f"the arrays of the policy do not fit together ({error})"
        if problem:
            raise BadInput(f"{problem}; expected a controller on {self.graph.states} states")

    @classmethod
    def stationary(cls, model: UMDP | Graph, actions: ArrayLike) -> "Policy":
        """A policy that looks at the state alone.

        `actions[S]` names an action for each state; `probabilities[S, A]` a distribution over actions. What
        stands at goals is ignored.
        """
        graph = model.graph if isinstance(model, UMDP) else model
        try:
            table = np.asarray(actions)
        except ValueError:
            table = number_array("actions", actions)
        if table.ndim == 1 and table.shape == (graph.states,):
            return cls.from_choices(graph, _choices_of_actions(graph, table))
        if table.ndim == 2 and table.shape[0] == graph.states:
            return cls.from_weights(graph, _weights_of_table(graph, table))
        raise BadInput(f"actions has shape {table.shape}; expected ({graph.states},) or ({graph.states}, actions)")

    @classmethod
    def from_choices(cls, graph: Graph, choice: Array) -> "Policy":
        """A stationary deterministic policy from `choice[S]`; what stands at goals is ignored."""
        weight = np.zeros(graph.choices)
        weight[choice[~graph.goal]] = 1.0
        return cls.from_weights(graph, weight)

    @classmethod
    def from_weights(cls, graph: Graph, weight: Array) -> "Policy":
        """A stationary policy from the probability `weight[C]` of each choice at its state."""
        used = np.flatnonzero(weight > 0)
        length = np.diff(graph.trans_ptr)[used]
        entries = np.bincount(graph.choice_state[used], minlength=graph.states)
        transition = ranges(graph.trans_ptr[used], length)
        return cls(
            graph=graph,
            node_state=np.arange(graph.states),
            entry_ptr=np.concatenate(([0], np.cumsum(entries))),
            choice=used,
            weight=weight[used],
            next_ptr=np.concatenate(([0], np.cumsum(length))),
            next_node=graph.successor[transition],
            start_node=np.array([graph.initial]),
            start_weight=np.ones(1),
        )

    @property
    def nodes(self) -> int:
        """N, the number of nodes."""
        return int(self.node_state.size)

    @property
    def is_stationary(self) -> bool:
        """Whether each state has at most one node, so that the state alone decides."""
        return int(np.unique(self.node_state).size) == self.nodes and self.start_node.size == 1

    @property
    def is_deterministic(self) -> bool:
        """Whether no node and no start is random."""
        return bool((np.diff(self.entry_ptr) <= 1).all()) and self.start_node.size == 1

    def rows(self) -> Iterator[dict[str, Any]]:
        """What the policy does, one row for each node and choice, with the names of states and actions."""
        graph = self.graph
        node = np.repeat(np.arange(self.nodes), np.diff(self.entry_ptr))
        for entry in range(self.choice.size):
            yield {
                "node": int(node[entry]),
                "state": graph.state_name(int(self.node_state[node[entry]])),
                "action": graph.action_name(int(graph.action[self.choice[entry]])),
                "probability": float(self.weight[entry]),
            }

    def to_csv(self) -> str:
        """The policy as a table: node, state, action, probability."""
        text = StringIO()
        writer = csv.DictWriter(text, ["node", "state", "action", "probability"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows())
        return text.getvalue()

    def to_json(self) -> str:
        """The whole controller as JSON, with the names of states and actions and the next node of each outcome."""
        graph = self.graph
        nodes = []
        for node in range(self.nodes):
            actions = []
            for entry in range(self.entry_ptr[node], self.entry_ptr[node + 1]):
                choice = self.choice[entry]
                targets = graph.successor[graph.trans_ptr[choice] : graph.trans_ptr[choice + 1]]
                following = self.next_node[self.next_ptr[entry] : self.next_ptr[entry + 1]]
                actions.append(
                    {
                        "action": graph.action_name(int(graph.action[choice])),
                        "probability": float(self.weight[entry]),
                        "next": {graph.state_name(int(s)): int(n) for s, n in zip(targets, following, strict=True)},
                    }
                )
            nodes.append({"node": node, "state": graph.state_name(int(self.node_state[node])), "actions": actions})
        start = [
            {"node": int(n), "probability": float(w)} for n, w in zip(self.start_node, self.start_weight, strict=True)
        ]
        return json.dumps({"graph": graph.fingerprint, "start": start, "nodes": nodes}, indent=1, ensure_ascii=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made anew, so that they are frozen and checked like any other."""
        return Policy, (self.graph, *(getattr(self, name) for name in _FIELDS))

    def __repr__(self) -> str:
        kind = "stationary" if self.is_stationary else f"{self.nodes}-node"
        return (
            f"Policy({kind}, {'deterministic' if self.is_deterministic else 'randomised'}, {self.graph.states} states)"
        )


_FIELDS: dict[str, type] = {
    "node_state": np.int32,
    "entry_ptr": np.int64,
    "choice": np.int32,
    "weight": np.float64,
    "next_ptr": np.int64,
    "next_node": np.int32,
    "start_node": np.int32,
    "start_weight": np.float64,
}


def _choices_of_actions(graph: Graph, actions: Array) -> Array:
    """The choice of each state that has the wanted action; -1 at goals."""
    wanted = actions[graph.choice_state] == graph.action
    choice = np.full(graph.states, -1)
    choice[graph.choice_state[wanted]] = np.flatnonzero(wanted)
    missing = np.flatnonzero((choice < 0) & ~graph.goal)
    if missing.size:
        state = int(missing[0])
        has = graph.action[graph.choice_ptr[state] : graph.choice_ptr[state + 1]]
        raise BadInput(
            f"state {graph.state_name(state)} has no action {actions[state]}; expected one of "
            f"{', '.join(str(a) for a in has)}; {missing.size} states are off in all"
        )
    return choice


def _weights_of_table(graph: Graph, table: Array) -> Array:
    """The probability of each choice from `probabilities[S, A]`."""
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
            f"which has no such action; expected 0; {len(stray)} are off in all"
        )
    total = np.bincount(graph.choice_state, weights=weight, minlength=graph.states)
    bad = np.flatnonzero(~graph.goal & ~(np.abs(total - 1) <= 1e-8))
    if bad.size or not (weight >= 0).all():
        state = int(bad[0]) if bad.size else int(graph.choice_state[np.flatnonzero(~(weight >= 0))[0]])
        raise BadInput(
            f"action probabilities of state {graph.state_name(state)} sum to {total[state]:.10g} or are negative; "
            f"expected 0 or more and 1 in sum; {max(bad.size, 1)} states are off in all"
        )
    return np.asarray(weight / total[graph.choice_state])


def _what_is_wrong(policy: Policy) -> str | None:
    """What keeps the arrays from being a controller, if anything; indices that lead nowhere raise."""
    graph, nodes = policy.graph, policy.nodes
    for name in _FIELDS:
        if getattr(policy, name).ndim != 1:
            return f"{name} of the policy has shape {getattr(policy, name).shape}"
    length = np.diff(graph.trans_ptr)
    for name, size in (
        ("node_state", graph.states),
        ("choice", graph.choices),
        ("next_node", nodes),
        ("start_node", nodes),
    ):
        if not _within(getattr(policy, name), size):
            return f"{name} of the policy is out of range"
    owner = np.repeat(np.arange(nodes), np.diff(policy.entry_ptr))
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
    target = graph.successor[ranges(graph.trans_ptr[policy.choice], length[policy.choice])]
    if not np.array_equal(policy.node_state[policy.next_node], target):
        return "next_node of the policy names nodes of other states; expected a node of each transition's successor"
    return None


def _within(index: Array, size: int) -> bool:
    return bool(((index >= 0) & (index < size)).all())


def check_policy(policy: object) -> Policy:
    """The policy, if it is one."""
    if not isinstance(policy, Policy):
        raise BadInput(f"the policy is a {type(policy).__name__}; expected a rue.Policy, such as solution.policy")
    return policy
