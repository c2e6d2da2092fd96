"""Episodes of a policy in one sample, step by step."""

from typing import NamedTuple

from rue._arrays import Array
from rue._jit import declare, kernel


class ControllerArrays(NamedTuple):
    """The arrays of a policy."""

    entry_ptr: Array
    choice: Array
    weight: Array
    next_ptr: Array
    next_node: Array
    start_node: Array
    start_weight: Array
    at_goal: Array  # [N] whether the node is at a goal


class SampleArrays(NamedTuple):
    """The numbers of one sample."""

    trans_ptr: Array
    prob: Array  # [T]
    cost: Array  # [C]


declare(ControllerArrays, "L1 I1 F1 L1 I1 I1 F1 b1")
declare(SampleArrays, "L1 f1 f1")


@kernel("generator ControllerArrays SampleArrays int f1 l1 b1")
def simulate_episodes(rng, policy, sample, max_steps, cost, steps, reached):
    """Run all episodes and fill in their cost, their steps, and whether they reached a goal."""
    # As plain arrays: fields that are read inside the loops cost a tenth.
    entry_ptr, choice, weight, next_ptr, next_node, start_node, start_weight, at_goal = policy
    trans_ptr, prob, choice_cost = sample
    for episode in range(cost.size):
        draw = rng.random()
        node = start_node[start_node.size - 1]
        for i in range(start_node.size):
            draw -= start_weight[i]
            if draw < 0.0:
                node = start_node[i]
                break
        paid = 0.0
        count = 0
        while not at_goal[node] and count < max_steps:
            draw = rng.random()
            entry = entry_ptr[node + 1] - 1
            for e in range(entry_ptr[node], entry_ptr[node + 1]):
                draw -= weight[e]
                if draw < 0.0:
                    entry = e
                    break
            paid += choice_cost[choice[entry]]
            count += 1
            first = trans_ptr[choice[entry]] - next_ptr[entry]
            draw = rng.random()
            taken = -1
            for j in range(next_ptr[entry], next_ptr[entry + 1]):
                p = prob[first + j]
                if p > 0.0:
                    taken = j
                    draw -= p
                    if draw < 0.0:
                        break
            node = next_node[taken]
        cost[episode] = paid
        steps[episode] = count
        reached[episode] = at_goal[node]
