"""Solve a model exactly where only finitely many beliefs can be reached.

A *node* is a state and the likelihood of what was seen, scaled to a largest entry of one, as in `belief_kernels.py`. If
all nodes that can be reached are some ten thousand, they are a model of their own: at a belief b over the samples a
node is a state, and an outcome has the probability that b gives it. So `values.optimal_values` finds a best response to
b, also where cycles are free, and the values that it proves are the claims of a certificate. Each best response has a
regret in each sample. A matrix game over all responses gives the next b, until both bounds meet: there are finitely
many policies that remember their node, so they do.

*Flows.* How often a policy takes each step from a node, divided by the weight of the belief there, is its flow: equal
for all beliefs. Regrets are linear in flows, and a mixture of flows is the flow of one policy that draws its choices on
the way. So the policy has one node for each node of the graph, however many responses are mixed.

*Lost nodes.* From some nodes no policy reaches a goal in each sample that is still possible: a guess has to be made,
and a wrong one ends in a dead end, or the policy goes round for ever. They are found on the graph, and no response goes
there. The certificate claims a large number for them, times the least probability with which a policy stays among them.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rue._arrays import Array, members, members_with_owner, places, pointers
from rue._linear import solve_chain
from rue.active import Part
from rue.adaptive.belief_graph import BeliefGraph, OutOfMemory
from rue.adaptive.belief_kernels import FORBIDDEN
from rue.adaptive.sum_kernels import nearest_above
from rue.certificate import Certificate, margin, model_fingerprint, proved_by
from rue.controllers import part_of, put_together
from rue.errors import NotProved, SolverFailed
from rue.fallbacks import wandering
from rue.matrix_game import solve_game
from rue.model import UMDP, Graph
from rue.policy import Policy
from rue.solution import Limits, Run, Status
from rue.structure import surely_reaching
from rue.values import OptimalValues, optimal_values

# Most nodes; most numbers of all outcomes of nodes in all samples, and the memory for each; nodes that are looked at
# together, fewer if they have more than `OUTCOMES` outcomes.
MOST_NODES, MOST_NUMBERS, BYTES, AT_ONCE, OUTCOMES = 20_000, 10_000_000, 64, 500, 20_000
# Likelihoods that agree to this number of binary digits are the same. Where one is below the second number, smaller
# ones follow without end, and the search is given up.
DIGITS, TINY = 34, 1e-30
# Gaps below this part of the largest optimal value are rounding errors.
NO_GAP = 1e-13
# The least belief of each sample, times their number.
LEAST = 1e-9
# Most best responses. The part of the gap below which the next belief must not fall (a level method); every other time
# it is the dual of the game itself, so that the search ends.
MOST_RESPONSES, LEVEL, PROJECTION_STEPS = 1000, 0.5, 1000
# What judge and proof may add to the gap, as a part of it.
EXTRA = 1.0
# What is claimed for nodes from where no policy reaches a goal, as a multiple of the largest finite claim.
LOST = 1e40
# What a step claims is less by this fraction and by multiples of the check's margin. Rounds of lowering claims.
SPARE, MARGINS, ROUNDS = 1e-13, 4, 500


def solve_finite(
    graph: BeliefGraph, part: Part, objective: str, offset: Array, is_closed: Callable[[float, float], bool], run: Run
) -> Certificate | Status | None:
    """Add the best policy to a graph and return the proof, if few beliefs can be reached; None if not, or at a limit.

    `offset[K]` is added to the regrets; `is_closed` says whether a lower and an upper bound are close enough. Where no
    policy reaches a goal in each sample, the status says so.
    """
    nodes = Nodes.reachable(graph)
    if nodes is not None and not nodes.alive[0]:
        return Status.INFEASIBLE
    with suppress(SolverFailed, OutOfMemory):
        return None if nodes is None else _solve(nodes, part, objective, offset, is_closed, run)
    return None


def _solve(
    nodes: "Nodes", part: Part, objective: str, offset: Array, is_closed: Callable[[float, float], bool], run: Run
) -> Certificate | None:
    """Compute best responses to one belief after the other until both bounds meet; return None if they do not."""
    graph, responses = nodes.graph, BestResponses(nodes, offset, run)
    best, mixed = -np.inf, part.centre
    belief = mixed
    for turn in range(MOST_RESPONSES):
        value = responses.add(belief)
        if value is None or graph.out_of_time():
            return None
        if value > best:
            best, anchor = value, belief
        game = solve_game(responses.matrix, part.cap, ties=False)
        if is_closed(best, game.value + EXTRA * (game.value - best)) or (turn % 2 and responses.is_old):
            break
        belief = game.belief
        if turn % 2 and game.value > 0 and part.tail is None:
            level = (best + LEVEL * (game.value - best)) / game.value
            cuts = np.ascontiguousarray(responses.matrix.T) / game.value
            belief = np.maximum(nearest_above(cuts, level, np.array(anchor), PROJECTION_STEPS), 0.0)
            belief = belief / belief.sum()
        belief = (1 - LEAST) * belief + LEAST * mixed
    proof = nodes.certificate(anchor, objective, run)
    try:
        proved_by(graph.model, proof, None if part.tail is None else part.cap)
    except NotProved:
        return None
    graph.add_policy(nodes.controller(responses.mixed(game.weight)))
    return proof


class BestResponses:
    """Best responses to beliefs: flows of policies, and their regrets."""

    def __init__(self, nodes: "Nodes", offset: Array, run: Run) -> None:
        self.nodes, self.offset, self.run = nodes, offset, run
        self.flows: list[tuple[Array, Array]] = []  # steps, and how much they are taken
        self.regrets: list[Array] = []
        self.is_old = False  # whether the last response was known: at the dual of a game there is no better one

    @property
    def matrix(self) -> Array:  # [K, J]
        """The regrets of all responses."""
        return np.asarray(np.maximum(np.column_stack(self.regrets), 0.0))

    def add(self, belief: Array) -> float | None:
        """Add a best response to a belief; return a lower bound on its regret, or None if a limit comes first."""
        values = self.nodes.part.solve(belief, self.run)
        if not values.complete:
            return None
        step, often = self.nodes.flow(values.choice[:, 0])
        regret = self.offset + often @ self.nodes.paid[step]
        self.is_old = any(np.array_equal(regret, known) for known in self.regrets)
        if not self.is_old:
            self.flows.append((step, often))
            self.regrets.append(regret)
        return float(self.offset @ belief) + float(values.lower[0, 0])

    def mixed(self, weight: Array) -> Array:  # [E]
        """Return the flow of a mixture of the responses."""
        flow = np.zeros(self.nodes.choice.size)
        for share, (step, often) in zip(weight, self.flows, strict=True):
            flow[step] += share * often
        return flow


@dataclass(frozen=True, eq=False)
class Nodes:
    """All nodes that can be reached by steps with finite gaps; the root is the first. N nodes, E steps, O outcomes."""

    graph: BeliefGraph
    state: Array  # [N]
    likelihood: Array  # [N, K]
    choice: Array  # [E]
    owner: Array  # [E] the node of a step, in order
    even: Array  # [E] whether all samples that are possible have the same probabilities
    step: Array  # [O] the step of an outcome, in order
    transition: Array  # [O] of the model
    target: Array  # [O] a node; N for goals

    @classmethod
    def reachable(cls, graph: BeliefGraph) -> "Nodes | None":
        """Return the nodes of a graph's model; None if they are too many or time is out."""
        known, most = _Known(graph), min(MOST_NUMBERS, (graph.memory - graph.bytes) / BYTES) / graph.model.samples
        model = graph.model.graph
        at_once = max(min(AT_ONCE, OUTCOMES * model.states // max(model.transitions, 1)), 1)
        parts, first = [], 0
        while first < len(known.state):
            last = min(first + at_once, len(known.state))
            parts.append(known.expand(first, last))
            first = last
            outcomes = sum(part[4].size for part in parts)
            if len(known.state) > MOST_NODES or outcomes > most or known.is_tiny or graph.out_of_time():
                return None
        choice, owner, even, step, transition, target = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        steps = pointers([part[0].size for part in parts])
        step = step + np.repeat(steps[:-1], [part[3].size for part in parts])
        target = np.where(target < 0, len(known.state), target)
        likelihood = np.array(known.kinds)[known.kind]
        return cls(graph, np.array(known.state), likelihood, choice, owner, even, step, transition, target)

    @cached_property
    def paid(self) -> Array:  # [E, K]
        """The gap of each step, times the likelihood of its node."""
        likelihood = self.likelihood[self.owner]
        gap = np.where(likelihood > 0, self.graph.gaps.gap[self.choice], 0.0)
        potential = self.graph.potential[self.graph.model.graph.initial]
        return np.asarray(np.where(gap < NO_GAP * potential.max(), 0.0, gap) * likelihood)

    @cached_property
    def arriving(self) -> Array:  # [O, K]
        """The likelihood of each outcome."""
        return np.asarray(self.likelihood[self.owner[self.step]] * self.graph.model.prob[self.transition])

    @cached_property
    def _alive(self) -> tuple[Array, Array]:  # [N+1], [E]
        """The nodes from which a policy reaches a goal in each possible sample, and the steps that stay there."""
        count = np.bincount(self.owner, minlength=self.state.size)
        stuck = np.flatnonzero(count == 0)  # they get a step that stays, or they would be goals
        owner, step = np.append(self.owner, stuck), np.append(self.step, self.choice.size + np.arange(stuck.size))
        target = np.append(self.target, stuck)
        graph, order, _ = _graph(owner, step, target, self.state.size)
        alive, allowed = surely_reaching(graph, np.ones(target.size, bool))
        safe = np.zeros(owner.size, bool)
        safe[order] = allowed & alive[graph.choice_state]
        return np.append(alive[:-1], True), safe[: self.choice.size]

    @property
    def alive(self) -> Array:  # [N+1]
        """The nodes from which a policy reaches a goal in each possible sample, and the goal."""
        return self._alive[0]

    @cached_property
    def part(self) -> "_Part":
        """The nodes that are alive."""
        return _Part.of(self, self.alive[:-1], self._alive[1])

    @cached_property
    def lost(self) -> "_Part":
        """The nodes that are not."""
        dead = ~self.alive[:-1]
        return _Part.of(self, dead, dead[self.owner])

    def flow(self, choice: Array) -> tuple[Array, Array]:
        """Return the steps of a policy, from its choices at the nodes that are alive, and how much each is taken.

        It does not depend on the belief, so the belief with the least rounding error is used: equal weights.
        """
        from scipy.sparse import csr_array  # slow to import
        from scipy.sparse.csgraph import breadth_first_order

        part = self.part
        step = part.step[choice[:-1]]
        number = places(step, self.choice.size)
        out = np.flatnonzero(number[self.step] >= 0)
        out = out[self.target[out] < self.state.size]
        weight = self.likelihood[part.node].sum(axis=1)
        source, target = number[self.step[out]], part.place[self.target[out]]
        start = np.zeros(step.size)
        start[0] = weight[0]
        often = solve_chain(target, source, self.arriving[out].sum(axis=1) / weight[source], start) / weight
        # Rounding may say that more nodes are reached than those along edges.
        edges = csr_array((np.ones(out.size), (source, target)), shape=(step.size, step.size))
        reached = breadth_first_order(edges, 0, return_predecessors=False)
        if not np.isfinite(often[reached]).all():
            raise SolverFailed("a policy that remembers its belief hardly ever ends")
        return step[reached], often[reached]

    def controller(self, flow: Array) -> Policy:
        """Return the policy with a flow. After outcomes that are impossible in all samples it draws safe choices."""
        model, graph = self.graph.model, self.graph.model.graph
        alone = wandering(model)
        used = np.flatnonzero(flow > 0)
        total = np.bincount(self.owner[used], weights=flow[used], minlength=self.state.size)
        node = np.flatnonzero(total > 0)
        number = np.full(self.state.size + 1, -1)
        number[node] = alone.nodes + np.arange(node.size)
        choice = self.choice[used]
        length = np.diff(graph.trans_ptr)[choice]
        following = graph.successor[members(graph.trans_ptr, choice)].astype(np.int64)
        first = np.full(self.choice.size, -1)
        first[used] = np.cumsum(length) - length - graph.trans_ptr[choice]
        out = np.flatnonzero((flow[self.step] > 0) & (number[self.target] >= 0))
        following[first[self.step[out]] + self.transition[out]] = number[self.target[out]]
        count = np.bincount(self.owner[used], minlength=self.state.size)[node]
        weight = flow[used] / total[self.owner[used]]
        own = (self.state[node], count, choice, weight, following)
        return put_together(graph, [part_of(alone), own], number[:1], np.ones(1))

    def certificate(self, belief: Array, objective: str, run: Run) -> Certificate:
        """Return the proof of what is best at a belief."""
        model, graph = self.graph.model, self.graph.model.graph
        weight = self.likelihood * belief
        total = weight.sum(axis=1)
        value = np.zeros(self.state.size + 1)
        value[self.part.node] = self.part.solve(belief, run).lower[:-1, 0]
        if self.lost.node.size:
            large = LOST * max(float(value.max()), 1.0)
            value[self.lost.node] = large * self.lost.solve(belief, run).lower[:-1, 0]
        value[:-1] *= total
        self._lower_claims(value, weight, belief)
        outcomes = np.diff(graph.trans_ptr[graph.choice_ptr])[self.state]
        follow = np.full(int(outcomes.sum()), -1, np.int32)
        begin = pointers(outcomes)[:-1] - graph.trans_ptr[graph.choice_ptr[self.state]]
        inner = np.flatnonzero(self.target < self.state.size)
        follow[begin[self.owner[self.step[inner]]] + self.transition[inner]] = self.target[inner]
        return Certificate(
            objective, model_fingerprint(model), 0.0, self.graph.potential, self.state, weight, value[:-1], follow
        )

    def _lower_claims(self, value: Array, weight: Array, belief: Array) -> None:
        """Lower claims in rounds until each follows from the others, as the check will see it."""
        keep = 1 - MARGINS * margin(self.graph.model)
        paid = self.paid @ belief
        arriving, there = self.arriving * belief, np.append(weight, np.ones((1, belief.size)), axis=0)[self.target]
        share = np.divide(arriving, there, out=np.full(there.shape, np.inf), where=there > 0).min(axis=1)
        chance = self.graph.model.prob[self.transition, weight.argmax(axis=1)[self.owner[self.step]]]
        steps, own = self.choice.size, self.owner[self.step]
        for _ in range(ROUNDS):
            total = keep * (paid + np.bincount(self.step, share * value[self.target], steps))
            rise = value[self.target] - value[own]
            up = paid + np.bincount(self.step, chance * np.maximum(rise, 0.0), steps)
            down = np.bincount(self.step, chance * np.maximum(-rise, 0.0), steps)
            level = self.even & (keep * up >= down)
            wrong = np.flatnonzero((total < value[self.owner]) & ~level)
            if not wrong.size:
                return
            # On a circle that is free claims fall to the least of them, where they stay.
            least = np.full(steps, np.inf)
            np.minimum.at(least, self.step, value[self.target])
            np.minimum.at(value, self.owner[wrong], np.where(self.even, np.maximum(least, total), total)[wrong])


@dataclass(frozen=True, eq=False)
class _Part:
    """Some of the nodes as a model with one sample, whose numbers depend on the belief. Its last state is the goal.

    Steps that tell samples apart lose a little to the goal, so that claims are less than what they follow from. No
    policy takes such steps for ever.
    """

    nodes: Nodes
    node: Array  # [n]
    place: Array  # [N+1] of each node in the part; n for all others
    step: Array  # the step behind each choice; −1: leave at a cost of one, where nodes are lost
    graph: Graph | None
    outcome: Array  # the outcome behind each transition; −1: the little that is lost
    source: Array  # [C] the place of each choice

    @classmethod
    def of(cls, nodes: Nodes, chosen: Array, allowed: Array) -> "_Part":
        """Return the chosen nodes with the steps that are allowed. Where nodes are lost, each may be left."""
        node = np.flatnonzero(chosen)
        place = places(node, chosen.size + 1, node.size)
        step = np.flatnonzero(allowed)
        number = places(step, allowed.size)
        outcome = np.flatnonzero(number[nodes.step] >= 0)
        source, of_step, target = place[nodes.owner[step]], number[nodes.step[outcome]], place[nodes.target[outcome]]
        uneven = np.flatnonzero(~nodes.even[step])
        leaving = node.size if node.size and not nodes.alive[node[0]] else 0
        step, source = np.append(step, np.full(leaving, -1)), np.append(source, np.arange(leaving))
        of_step = np.concatenate([of_step, uneven, number.max(initial=-1) + 1 + np.arange(leaving)])
        target = np.append(target, np.full(uneven.size + leaving, node.size))
        outcome = np.append(outcome, np.full(uneven.size + leaving, -1))
        if not node.size:
            return cls(nodes, node, place, step, None, outcome, source)
        graph, order, moved = _graph(source, of_step, target, node.size)
        return cls(nodes, node, place, step[order], graph, outcome[moved], source[order])

    def solve(self, belief: Array, run: Run) -> OptimalValues:
        """Return the optimal values at a belief: of regrets, or of the probability of staying lost."""
        assert self.graph is not None
        nodes, graph = self.nodes, self.graph
        total = (nodes.likelihood[self.node] @ belief)[self.source]
        leaves = self.step < 0
        is_alive = not leaves.any()
        uneven = ~leaves & ~nodes.even[self.step]
        lost = np.where(uneven, SPARE + 2 * MARGINS * margin(nodes.graph.model), np.where(leaves, 1.0, 0.0))
        prob = (nodes.arriving[self.outcome] @ belief) / total[graph.trans_choice] * (1 - lost)[graph.trans_choice]
        prob = np.where(self.outcome < 0, lost[graph.trans_choice], prob)
        cost = (nodes.paid[self.step] @ belief) / total * (1 - lost) if is_alive else leaves.astype(float)
        quiet = Run(Limits(seconds=run.seconds_left), threads=run.threads)
        return optimal_values(UMDP(graph, prob[:, None], cost[:, None]), run=quiet)


class _Known:
    """Nodes that are known so far. Likelihoods have numbers, so that equal ones are the same to the last digit."""

    def __init__(self, graph: BeliefGraph) -> None:
        self.graph = graph
        self.state, self.kind = [graph.model.graph.initial], [0]
        self.kinds: list[Array] = []
        self.kind_of: dict[bytes, int] = {}
        self.is_tiny = False  # whether a likelihood is too small to count on: others will be smaller
        self.number = {(graph.model.graph.initial, 0): 0}
        self._numbers(np.ones((1, graph.model.samples)))

    def expand(self, first: int, last: int) -> tuple[Array, ...]:
        """Return the steps and outcomes of some nodes, in the order of `Nodes`, and add the nodes they lead to."""
        model, graph = self.graph.model, self.graph.model.graph
        state, kind = np.array(self.state[first:last]), np.array(self.kind[first:last])
        choice, owner = members_with_owner(graph.choice_ptr, state)
        likelihood = np.array([self.kinds[i] for i in kind])
        fatal = (self.graph.gaps.gap[choice] >= FORBIDDEN) & (likelihood[owner] > 0)
        choice, owner = choice[~fatal.any(axis=1)], owner[~fatal.any(axis=1)]
        transition, step = members_with_owner(graph.trans_ptr, choice)
        own, prob = likelihood[owner[step]], model.prob[transition]
        chance = prob[np.arange(prob.shape[0]), own.argmax(axis=1)]
        even = np.ones(choice.size, bool)
        np.logical_and.at(even, step, ((prob == chance[:, None]) | (own == 0)).all(axis=1))
        after = own * prob
        largest = after.max(axis=1)
        happens = largest > 0
        step, transition, after, largest = step[happens], transition[happens], after[happens], largest[happens]
        reached, following = graph.successor[transition], kind[owner[step]]
        told = np.flatnonzero(~even[step] & ~graph.goal[reached])
        following[told] = self._numbers(after[told] / largest[told, None])
        target = np.full(step.size, -1)
        inner = np.flatnonzero(~graph.goal[reached])
        place, which = np.unique(following[inner] * graph.states + reached[inner], return_inverse=True)
        found = [self._node(at % graph.states, at // graph.states) for at in place.tolist()]
        target[inner] = np.array(found, np.int64)[which]
        return choice, owner + first, even, step, transition, target

    def _node(self, state: int, kind: int) -> int:
        found = self.number.setdefault((state, kind), len(self.state))
        if found == len(self.state):
            self.state.append(state)
            self.kind.append(kind)
        return found

    def _numbers(self, likelihood: Array) -> Array:
        """Return the number of each likelihood; rounded ones are compared, and the first of each kind is kept."""
        self.is_tiny |= bool(((likelihood > 0) & (likelihood < TINY)).any())
        mantissa, exponent = np.frexp(likelihood)
        rounded = np.ldexp(np.rint(np.ldexp(mantissa, DIGITS)), exponent - DIGITS)
        _, first, which = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
        found = np.empty(first.size, np.int64)
        for i, at in enumerate(first.tolist()):
            found[i] = self.kind_of.setdefault(rounded[at].tobytes(), len(self.kinds))
            if found[i] == len(self.kinds):
                self.kinds.append(likelihood[at])
        return np.asarray(found[which.reshape(-1)])


def _graph(owner: Array, step: Array, target: Array, goal: int) -> tuple[Graph, Array, Array]:
    """Return a graph with one goal from steps and outcomes in any order, and where its choices and transitions were."""
    order = np.argsort(owner, kind="stable")
    place = places(order, order.size)
    moved = np.argsort(place[step], kind="stable")
    count = np.append(np.bincount(owner, minlength=goal), 0)
    choice_ptr = pointers(count)
    action = np.arange(order.size) - np.repeat(choice_ptr[:-1], count)
    outcomes = pointers(np.bincount(place[step], minlength=order.size))
    return Graph(choice_ptr, action, outcomes, target[moved], 0), order, moved
