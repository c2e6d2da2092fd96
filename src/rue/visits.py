"""Compute how often a policy visits each of its nodes in a sample, and where it is after a number of steps.

A policy and a sample make a Markov chain P on the nodes of the controller, which begins with the weights b of the start
nodes. The expected visits n solve

    n = b + Pᵀ n                                      on the nodes that are visited and left for good,

and are infinite on those that the policy reaches and then never leaves without being at a goal: the closed components
of the chain, which are found on the graph. A goal is visited once, with the probability that the policy ends there.

Steps that stay at a node are taken out before the equations are solved: with ℓ the chance to leave a node, its
departures d = ℓ n solve the same equations with P/ℓ off the diagonal, which is accurate where ℓ is small. The result
is checked: with τ − Pτ ≥ δ > 0, the departures are off by τᵀ|b + Pᵀd − d| / δ at most, in sum.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rue._arrays import Array
from rue._check import one_index, whole_number
from rue._linear import solve_chain
from rue.errors import BadInput, SolverFailed
from rue.model import UMDP, check_same_graph
from rue.policy import Policy, check_policy

SWEEPS = 1000
TOLERANCE = 1e-13
# Of τ − Pτ: a half, less what is lost by rounding.
ENOUGH = 0.499
# Departures with a larger relative error than this are refused.
GOOD_ERROR = 1e-6
# Each step passes all transitions and nodes of the chain once, at a few nanoseconds each; its overhead equals that of
# STEP_ITSELF of them. MOST_PASSED takes about half a minute. Steps are counted and not timed, so that what is refused
# does not depend on the machine.
STEP_ITSELF = 2_000
MOST_PASSED = 10**10


def expected_visits(model: UMDP, policy: Policy, sample: int) -> Array:  # [N]
    """Return how often each node is visited before the goal; infinite where the policy may stay for ever."""
    chain = PolicyChain.build(model, policy, sample)
    reached, endless = chain.reached(), chain.endless()
    passing = reached & ~endless & ~chain.goal
    visits = np.where(reached & endless, np.inf, 0.0)
    leave = np.bincount(chain.source, np.where(chain.source != chain.target, chain.prob, 0.0), chain.goal.size)
    departures = _departures(chain, passing, leave)
    with np.errstate(divide="ignore"):
        visits[passing] = departures[passing] / leave[passing]
    use = passing[chain.source] & chain.goal[chain.target]
    carried = chain.prob[use] / leave[chain.source[use]] * departures[chain.source[use]]
    arrived = chain.start + np.bincount(chain.target[use], carried, chain.goal.size)
    visits[chain.goal] = np.minimum(arrived[chain.goal], 1.0)
    return visits


def distribution_after(model: UMDP, policy: Policy, sample: int, steps: Sequence[int]) -> Array:  # [steps, N]
    """Return the probability to be at each node after each number of steps; a goal is never left.

    Numbers of steps that would take more than about a minute are refused.
    """
    from scipy.sparse import csr_array  # slow to import

    if not isinstance(steps, Sequence | np.ndarray) or not getattr(steps, "ndim", 1):
        raise BadInput(f"steps is {steps!r}; expected a list of whole numbers")
    wanted = [whole_number("step", step, 0) for step in steps]
    chain = PolicyChain.build(model, policy, sample)
    most = MOST_PASSED // (STEP_ITSELF + chain.prob.size + chain.goal.size)
    last = max(wanted, default=0)
    if last > most:
        raise BadInput(
            f"step is {last}; expected at most {most}, as each passes the {chain.prob.size} transitions of the policy"
        )
    forward = csr_array((chain.prob, (chain.target, chain.source)), shape=(chain.goal.size, chain.goal.size))
    result = np.empty((len(wanted), chain.goal.size))
    now, done = chain.start, 0
    for place in np.argsort(wanted, kind="stable"):
        while done < wanted[place]:
            now, done = forward @ now + np.where(chain.goal, now, 0.0), done + 1
        result[place] = now
    return result


@dataclass(frozen=True, eq=False)
class PolicyChain:
    """The Markov chain of a policy in one sample: edges from `source` to `target` with `prob`, and start weights."""

    source: Array
    target: Array
    prob: Array
    start: Array  # [N]
    goal: Array  # [N]

    @classmethod
    def build(cls, model: UMDP, policy: Policy, sample: int) -> "PolicyChain":
        """Return the edges with positive probability."""
        check_same_graph(model, check_policy(policy).graph)
        k = one_index("sample", sample, model.samples)
        graph = model.graph
        length = np.diff(policy.next_ptr)
        chance = model.prob[policy.transition, k]
        live = chance > 0
        return cls(
            source=np.repeat(policy.entry_node, length)[live],
            target=policy.next_node[live],
            prob=(np.repeat(policy.weight, length) * chance)[live],
            start=np.bincount(policy.start_node, policy.start_weight, policy.nodes),
            goal=graph.goal[policy.node_state],
        )

    def edges(self) -> Any:
        """Return the graph as a sparse matrix; one more node, the last, leads to all start nodes."""
        from scipy.sparse import csr_array  # slow to import

        nodes, begin = self.goal.size, np.flatnonzero(self.start > 0)
        source, target = np.append(self.source, np.full(begin.size, nodes)), np.append(self.target, begin)
        return csr_array((np.ones(source.size), (source, target)), shape=(nodes + 1, nodes + 1))

    def reached(self) -> Array:  # [N]
        """Return which nodes are visited."""
        from scipy.sparse.csgraph import breadth_first_order

        seen = np.zeros(self.goal.size + 1, bool)
        seen[breadth_first_order(self.edges(), self.goal.size, return_predecessors=False)] = True
        return seen[:-1]

    def endless(self) -> Array:  # [N]
        """Return which nodes lie in a closed component that is no goal: exact, on the graph."""
        from scipy.sparse.csgraph import connected_components

        parts, part = connected_components(self.edges(), directed=True, connection="strong")
        left = np.zeros(parts, bool)
        left[part[self.source[part[self.source] != part[self.target]]]] = True
        return np.asarray(~left[part[:-1]] & ~self.goal)


def _departures(chain: PolicyChain, passing: Array, leave: Array) -> Array:  # [N]
    """Return how often each node is left for another one, with a proof that the errors are small."""
    size, place = int(passing.sum()), np.cumsum(passing) - 1
    use = passing[chain.source] & passing[chain.target] & (chain.source != chain.target)
    source, target = place[chain.source[use]], place[chain.target[use]]
    step, start = chain.prob[use] / leave[chain.source[use]], chain.start[passing]
    departures = _sum_of_steps(target, source, step, start, lambda rest: float(rest.sum()) <= TOLERANCE)
    longest = _sum_of_steps(source, target, step, np.ones(size), lambda rest: float(rest.max(initial=0.0)) <= 0.5)
    off = np.abs(start + np.bincount(target, step * departures[source], size) - departures)
    drop = longest - np.bincount(source, step * longest[target], size)
    error = float(longest @ off) / ENOUGH
    if size and not (drop.min() >= ENOUGH and error <= GOOD_ERROR * departures.sum()):
        raise SolverFailed(
            f"the visits of {size} nodes could not be solved: the policy takes {longest.max():.3g} steps"
        )
    result = np.zeros(passing.size)
    result[passing] = departures
    return result


def _sum_of_steps(row: Array, column: Array, step: Array, right: Array, done: Callable[[Array], bool]) -> Array:
    """Return x with x = right + M x, as right + M right + M² right + … until `done` says so.

    Most policies are at a goal after a hundred steps, while controllers with many nodes take long to factorise. Only
    policies that take more steps are factorised.
    """
    from scipy.sparse import csr_array  # slow to import

    matrix = csr_array((step, (row, column)), shape=(right.size, right.size))
    total, rest = right.copy(), right
    for _ in range(SWEEPS):
        rest = matrix @ rest
        if done(rest):
            return total
        total += rest
    return solve_chain(row, column, step, right)


def state_behaviour(policy: Policy, mass: Array) -> tuple[Array, Array]:  # [S], [C]
    """Return the visits of each state and the probability of each choice there, from those of the nodes.

    In a state that is visited for ever only nodes that are visited for ever count, all equally.
    """
    graph = policy.graph
    visits = np.bincount(policy.node_state, mass, graph.states)
    endless = np.isinf(visits)[policy.node_state]
    weight = np.where(endless, np.isinf(mass), np.where(np.isinf(mass), 0.0, mass))
    flow = np.bincount(policy.choice, policy.weight * weight[policy.entry_node], graph.choices)
    total = np.bincount(policy.node_state, weight, graph.states)[graph.choice_state]
    return visits, np.divide(flow, total, out=np.zeros(graph.choices), where=total > 0)
