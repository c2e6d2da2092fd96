"""A policy for all states that has learnt something: vectors at beliefs near the corners.

After some steps a history mostly points to one sample, though not for certain. What to do then, at any state, and how
to find out that this was wrong, is in no stationary policy. So each state gets a vector for beliefs in which one sample
has most of the weight, and the others share the rest, by point-based backups (`corner_kernels.py`) that start from
given stationary policies. In the end each vector is a node of one controller, whose regrets are computed again.
"""

import numpy as np

from rue._arrays import Array, members, ranges
from rue.adaptive.belief_graph import BeliefGraph
from rue.adaptive.belief_kernels import NONE
from rue.adaptive.corner_kernels import Slots, sweep
from rue.controllers import put_together, stationary_choices
from rue.policy import Policy
from rue.solution import Run

# What the other samples share in a belief near a corner; with fewer of these if a sweep would read too many numbers.
SPREAD = (0.5, 0.2, 0.05)
SWEEP_NUMBERS, NUMBERS = 5e8, 1e10
# The sweeps end when at most this part of the vectors is new, or after this many: a regret that goes to zero by a
# factor in each sweep is lower each time, until the last digit of the smallest number.
LEFT, SWEEPS = 0.05, 300
# Numbers that a sweep reads between two checks of the clock.
AT_ONCE = 5e7
# Seconds to evaluate the controller, for each node and sample, and for each outcome of these, or more if the given
# policies took more; and its memory, as a multiple of that of the slots.
SECONDS, OUTCOME_SECONDS, COPIES = 2e-6, 1.5e-7, 4


def add_corner_policy(graph: BeliefGraph, run: Run) -> None:
    """Add the vectors of a controller with a node for each state and each of some beliefs.

    Nothing is added if it is too large, or the run has no time for it.
    """
    given = [choice for choice in map(stationary_choices, graph.policies) if choice is not None]
    samples, own = graph.model.samples, graph.model.graph
    for levels in range(len(SPREAD), 0, -1):
        belief = _beliefs(samples, SPREAD[:levels])
        number = len(belief) + len(given)
        if _numbers(graph, len(belief), number) <= SWEEP_NUMBERS:
            break
    nodes = own.states * number
    room = COPIES * nodes * (8 * samples + 4 * int(graph.outcomes.max(initial=1)))
    numbers = _numbers(graph, len(belief), number)
    judging = nodes * _seconds_of_node(graph)
    is_long = graph.policy_seconds + judging > run.seconds_left
    if not given or is_long or numbers > SWEEP_NUMBERS or room > graph.memory - graph.bytes:
        return
    slots = _start(graph, belief, np.array(given))
    live = np.flatnonzero(np.diff(own.choice_ptr))
    order = live[np.argsort(graph.potential[live].mean(axis=1), kind="stable")].astype(np.int32)
    parts = np.array_split(order, int(numbers / AT_ONCE) + 1)
    for _ in range(min(SWEEPS, int(NUMBERS / numbers))):
        new = 0
        for part in parts:
            if run.seconds_left <= judging or graph.out_of_time():
                break
            new += sweep(graph.gaps, slots, part)
        if new <= LEFT * order.size * len(belief):
            break
    policy = _controller(graph, slots, order)
    node = np.arange(order.size * number)
    graph.add_policy(policy, node[node % number < len(belief)], run)


def _seconds_of_node(graph: BeliefGraph) -> float:
    """Estimate the seconds to evaluate a node of a controller with cycles, in all samples."""
    own = graph.model.graph
    usual = graph.model.samples * (SECONDS + OUTCOME_SECONDS * own.transitions / max(own.choices, 1))
    return max(usual, graph.policy_seconds / max(graph.offset[-1], 1))


def _numbers(graph: BeliefGraph, beliefs: int, number: int) -> float:
    """Return how many numbers a sweep reads."""
    return float(graph.model.graph.trans_ptr[-1]) * beliefs * number * graph.model.samples


def _beliefs(samples: int, spread: tuple[float, ...]) -> Array:  # [J, K]
    """Return the belief in the middle, and those near the corners."""
    middle = np.full((1, samples), 1.0 / samples)
    near = [(1.0 - part) * np.eye(samples) + part * middle for part in spread]
    return np.concatenate([middle, *near])


def _start(graph: BeliefGraph, belief: Array, given: Array) -> Slots:
    """Return slots with the given policies, and the best of these at each belief."""
    own, (many, samples), widest = graph.model.graph, belief.shape, int(graph.outcomes.max(initial=1))
    number = many + len(given)
    alpha = np.zeros((own.states, number, samples))
    choice, follow = np.zeros((own.states, number), np.int32), np.full((own.states, number, widest), NONE, np.int32)
    for i, taken in enumerate(given):
        policy = Policy.from_choices(own, taken)
        alpha[policy.node_state, many + i] = graph.regret_of(policy)
        choice[:, many + i] = taken
    live = np.flatnonzero(np.diff(own.choice_ptr))
    is_goal = np.diff(own.choice_ptr) == 0
    for i, taken in enumerate(given):
        length = graph.outcomes[taken[live]]
        successor = own.successor[members(own.trans_ptr, taken[live])]
        following = np.where(is_goal[successor], NONE, successor * number + many + i)
        follow[np.repeat(live, length), many + i, ranges(np.zeros_like(length), length)] = following
    best = np.einsum("sgk,jk->sjg", alpha[:, many:], belief).argmin(axis=2) + many  # [S, J]
    for array in (alpha, choice, follow):
        array[:, :many] = array[np.arange(own.states)[:, None], best]
    flat = (alpha.reshape(-1, samples), choice.reshape(-1), follow.reshape(-1, widest))
    return Slots(*flat, belief, number)


def _controller(graph: BeliefGraph, slots: Slots, live: Array) -> Policy:
    """Return the policy of all slots, states in the order `live`, then a node for each goal."""
    own, number = graph.model.graph, slots.number
    goals = np.flatnonzero(np.diff(own.choice_ptr) == 0)
    place = np.zeros(own.states, np.int64)
    place[live] = number * np.arange(live.size)
    place[goals] = number * live.size + np.arange(goals.size)
    slot = (live[:, None].astype(np.int64) * number + np.arange(number)).ravel()
    choice = slots.choice[slot]
    length = graph.outcomes[choice]
    following = slots.follow[np.repeat(slot, length), ranges(np.zeros_like(length), length)]
    successor = own.successor[members(own.trans_ptr, choice)]
    following = np.where(following == NONE, place[successor], place[successor] + following % number)
    count = np.concatenate([np.ones(slot.size, np.int64), np.zeros(goals.size, np.int64)])
    state = np.concatenate([np.repeat(live, number), goals])
    part = (state, count, choice, np.ones(slot.size), following)
    return put_together(own, [part], np.array([place[own.initial]]), np.ones(1))
