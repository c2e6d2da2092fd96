"""Act with a policy, one step after the other, in the world that it was made for.

`policy.agent(model, seed=1)` makes an agent. `act` returns what to do, `observe` takes the state that it led to, and
`reset` begins a new episode. An episode takes one random number in [0, 1) for the start node and one for each action,
also where there is only one: number by number the draws of `rue.simulate`, which takes one more for each outcome.

*Belief.* With a model, the agent keeps for each sample k the likelihood of what it has seen since the episode began,

    ℓ_k = Σ_t log T_k(s_t, a_t, s_{t+1}),       belief b_k ∝ weight_k · exp ℓ_k

as a sum of logarithms, so that none is rounded to zero: a sample is ruled out only by an outcome that is impossible in
it. Actions say nothing about the sample.

*Unknown outcomes.* An outcome is unknown if the action cannot lead to that state by the graph, or if every sample is
ruled out by then. There are three rules:

    refuse     an error. The agent stays where it was, and can be told another state.
    fallback   from here to the end of the episode a stationary policy acts.
    nearest    go on at the node n of that state with the least Σ_k b_k V_k(n), by the judge's values; where some of
               them are infinite, first with the least belief in samples where the goal may be missed from n.

An unknown outcome leaves the belief as it was.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rue._arrays import Array, read_only
from rue._check import one_index, one_of
from rue._check import seed as check_seed
from rue.baselines import Average
from rue.controllers import part_of, put_together
from rue.errors import BadInput, unknown_name
from rue.fallbacks import wandering
from rue.judge import ends_from, node_values
from rue.model import UMDP, Graph, check_same_graph
from rue.policy import Policy, check_policy
from rue.solution import Run
from rue.structure import jointly_proper

UNKNOWN = ("refuse", "fallback", "nearest")


class _Outcome(NamedTuple):
    """What an action may lead to: one state."""

    place: tuple[int, ...]  # which of the action's transitions lead there
    log: Array | None  # [K] the logarithm of their probability
    is_possible: bool  # in every sample


class Agent:
    """A policy that is acting: where it is, what it does next, and what it has seen."""

    def __init__(
        self,
        policy: Policy,
        model: UMDP | None = None,
        *,
        seed: int | np.random.Generator,
        unknown: str = "refuse",
        fallback: Policy | None = None,
    ) -> None:
        self._rule = one_of("rule for unknown outcomes", unknown, UNKNOWN)
        self._graph = check_policy(policy).graph
        self._policy = policy
        if model is not None:
            check_same_graph(model, policy.graph)
            self._graph = model.graph
        spare = _check_fallback(self._graph, model, unknown, fallback)
        self._model = model
        self._value = None if model is None or unknown != "nearest" else node_values(model, policy)[0]
        self._spare = {} if spare is None else _nodes_by_state(spare, policy.nodes)
        both = policy if spare is None else _joined(policy, spare)
        # As lists, whose elements are read ten times as fast as those of arrays.
        self._node_state: list[int] = both.node_state.tolist()
        self._entry_ptr: list[int] = both.entry_ptr.tolist()
        self._choice: list[int] = both.choice.tolist()
        self._weight: list[float] = both.weight.tolist()
        self._next_ptr: list[int] = both.next_ptr.tolist()
        self._next_node: list[int] = both.next_node.tolist()
        start = zip(both.start_node.tolist(), both.start_weight.tolist(), strict=True)
        self._start = [(node, weight) for node, weight in start if weight > 0]
        self._at_goal: list[bool] = self._graph.goal[both.node_state].tolist()
        self._action: list[int] = self._graph.action.tolist()
        self._outcomes: dict[int, dict[int, _Outcome]] = {}  # of choices that were taken, by state
        self._draw = (seed if isinstance(seed, np.random.Generator) else np.random.default_rng(check_seed(seed))).random
        self._begun = True
        self.reset()

    def reset(self) -> None:
        """Begin a new episode in the initial state. Called again before the first action, it changes nothing."""
        if not self._begun:
            return
        self._begun = False
        draw, self._node = self._draw(), self._start[-1][0]
        for node, weight in self._start:
            draw -= weight
            if draw < 0.0:
                self._node = node
                break
        self._entry = -1
        self._log = None if self._model is None else np.zeros(self._model.samples)
        self.steps = 0
        self.unknown_outcomes = 0

    def act(self) -> str | int:
        """Return the action to take: its name, or its number if there are no names.

        It is drawn once: until `observe` is called, the answer stays the same.
        """
        if self._entry < 0:
            node = self._node
            if self._at_goal[node]:
                raise BadInput(f"the agent is at the goal {self.state}; expected reset() before it acts again")
            draw = self._draw()
            self._entry = self._entry_ptr[node + 1] - 1
            for entry in range(self._entry_ptr[node], self._entry_ptr[node + 1]):
                draw -= self._weight[entry]
                if draw < 0.0:
                    self._entry = entry
                    break
            self._begun = True
        action = self._action[self._choice[self._entry]]
        labels = self._graph.action_label
        return action if labels is None else labels[action]

    def observe(self, state: str | int, outcome: int | None = None) -> None:
        """Take the state that the action led to, by name or by number.

        Only if two outcomes of one action lead to the same state and the policy tells them apart, it needs the number
        of the outcome, in the order of the graph.
        """
        if self._entry < 0:
            raise BadInput(f"the agent in state {self.state} has not acted; expected act() before observe()")
        reached = _number_of(self._graph, state)
        choice, first = self._choice[self._entry], self._next_ptr[self._entry]
        found = self._outcomes_of(choice).get(reached)
        if outcome is not None:
            self._check_outcome(outcome, found)
            found = self._outcome(int(self._graph.trans_ptr[choice]), (int(outcome),))
        if found is None:
            self._meet(reached, f"{self._taken()} cannot lead to state {self._graph.state_name(reached)}")
            return
        if len(found.place) > 1 and len({self._next_node[first + place] for place in found.place}) > 1:
            raise BadInput(
                f"{self._taken()} leads to state {self._graph.state_name(reached)} by {len(found.place)} outcomes that "
                f"the policy tells apart; expected outcome={' or '.join(map(str, found.place))}"
            )
        if self._log is not None and found.log is not None:
            after = self._log + found.log
            if not found.is_possible and after.max() == -np.inf:
                left = int((self._log > -np.inf).sum())
                self._meet(
                    reached,
                    f"{self._taken()} leads to state {self._graph.state_name(reached)} in none of the samples that are "
                    f"still possible ({left} of {self._log.size})",
                )
                return
            self._log = after
        self._move(self._next_node[first + found.place[0]])

    @property
    def belief(self) -> Array | None:  # [K]
        """The probability of each sample after what was seen, beginning with the weights; None without a model.

        If only samples of weight 0 are possible, weights are ignored.
        """
        if self._model is None or self._log is None:
            return None
        with np.errstate(divide="ignore"):
            log = self._log + np.log(self._model.weight)
        if log.max() == -np.inf:
            log = self._log
        belief = np.exp(log - log.max())
        return read_only(belief / belief.sum())

    @property
    def done(self) -> bool:
        """Whether the agent is at a goal."""
        return bool(self._at_goal[self._node])

    @property
    def state(self) -> str | int:
        """The present state: its name, or its number if there are no names."""
        labels = self._graph.state_label
        return self.state_number if labels is None else labels[self.state_number]

    @property
    def state_number(self) -> int:
        """The number of the present state."""
        return int(self._node_state[self._node])

    @property
    def action_number(self) -> int:
        """The number of the action to take."""
        self.act()
        return self._action[self._choice[self._entry]]

    @property
    def node(self) -> int | None:
        """The present node of the policy; None while the fallback acts."""
        return self._node if self._node < self._policy.nodes else None

    def __repr__(self) -> str:
        where = "the fallback acts" if self.node is None else f"node {self.node}"
        return f"Agent(state {self.state}, {where}, {self.steps} steps{', done' if self.done else ''})"

    def _move(self, node: int) -> None:
        self._node, self._entry = node, -1
        self.steps += 1

    def _meet(self, state: int, what: str) -> None:
        """Go on after an unknown outcome, by the rule."""
        node = None
        if self._rule == "nearest":
            node = self._nearest(state)
        if node is None and self._rule != "refuse":
            node = self._spare.get(state)
        if node is None:
            expected = {
                "refuse": "another state, or an agent with unknown='fallback' or 'nearest'",
                "fallback": "a fallback with a node for this state",
                "nearest": "a policy with a node for this state, or a fallback= beside it",
            }[self._rule]
            raise BadInput(f"{what}; expected {expected}")
        self._move(node)
        self.unknown_outcomes += 1

    def _nearest(self, state: int) -> int | None:
        """Return the node of a state with the least expected cost for the present belief, if there is one."""
        belief = self.belief
        assert self._value is not None and belief is not None
        nodes = np.flatnonzero(self._policy.node_state == state)
        if nodes.size == 0:
            return None
        value = self._value[nodes]
        misses = np.where(np.isinf(value), belief, 0.0).sum(axis=1)
        mean = np.where(np.isinf(value), 0.0, value) @ belief
        return int(nodes[np.lexsort((mean, misses))[0]])

    def _outcomes_of(self, choice: int) -> dict[int, _Outcome]:
        """Return what a choice may lead to, by state; made once for each choice."""
        if choice not in self._outcomes:
            first, end = self._graph.trans_ptr[choice : choice + 2].tolist()
            places: dict[int, list[int]] = {}
            for place, state in enumerate(self._graph.successor[first:end].tolist()):
                places.setdefault(state, []).append(place)
            self._outcomes[choice] = {state: self._outcome(first, place) for state, place in places.items()}
        return self._outcomes[choice]

    def _outcome(self, first: int, place: Iterable[int]) -> _Outcome:
        if self._model is None:
            return _Outcome(tuple(place), None, True)
        prob = self._model.prob[[first + one for one in place]].sum(axis=0)
        with np.errstate(divide="ignore"):
            return _Outcome(tuple(place), np.log(prob), bool((prob > 0).all()))

    def _check_outcome(self, outcome: object, found: _Outcome | None) -> None:
        places = () if found is None else found.place
        is_number = isinstance(outcome, int | np.integer) and not isinstance(outcome, bool)
        if not is_number or outcome not in places:
            expected = f"outcome={' or '.join(map(str, places))}" if places else "none for a state it cannot lead to"
            raise BadInput(f"the outcome of {self._taken()} is {outcome!r}; expected {expected}")

    def _taken(self) -> str:
        return f'action "{self._graph.action_name(self.action_number)}" of state {self.state}'


def _number_of(graph: Graph, state: object) -> int:
    if isinstance(state, str):
        number = graph.state_number.get(state)
        if number is None:
            raise unknown_name("state", state, graph.state_number)
        return number
    return one_index("the state", state, graph.states)


def _check_fallback(graph: Graph, model: UMDP | None, unknown: str, fallback: object) -> Policy | None:
    """Return the stationary policy that acts after unknown outcomes, if the rule wants one."""
    if unknown == "nearest" and model is None:
        raise BadInput("unknown is 'nearest' without a model; expected policy.agent(model, ...), whose values decide")
    if fallback is None:
        if unknown != "fallback":
            return None
        if model is None:
            raise BadInput("unknown is 'fallback' without a model; expected a model, or fallback= with a policy")
        return usual_fallback(model)
    if unknown == "refuse":
        raise BadInput("a fallback is given, and unknown is 'refuse'; expected 'fallback' or 'nearest'")
    spare = check_policy(fallback)
    if spare.graph.fingerprint != graph.fingerprint:
        raise BadInput(
            f"the fallback is for another graph ({spare.graph.states} states, fingerprint {spare.graph.fingerprint}); "
            f"expected {graph.states} states, fingerprint {graph.fingerprint}"
        )
    if not spare.is_stationary:
        raise BadInput(f"the fallback has {spare.nodes} nodes; expected a stationary policy, one node for each state")
    return spare


def usual_fallback(model: UMDP) -> Policy:
    """Return a stationary policy that ends in all samples, from each state where one does that rules out no sample.

    It is that of the averaged model if it does so, else one that draws among the safe choices.
    """
    policy = Average().run(model, Run()).policy
    alive = jointly_proper(model, everywhere=True)[0]
    if policy.is_stationary and policy.nodes == alive.size and ends_from(model, policy)[alive].all():
        return policy
    return wandering(model, everywhere=True)


def _nodes_by_state(policy: Policy, first: int) -> dict[int, int]:
    return {state: first + node for node, state in enumerate(policy.node_state.tolist())}


def _joined(policy: Policy, spare: Policy) -> Policy:
    """Return a controller with the nodes of both policies, which starts as the first does."""
    parts = [part_of(policy), part_of(spare, policy.nodes)]
    return put_together(policy.graph, parts, policy.start_node, policy.start_weight)
