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


class Record(NamedTuple):
    """What happened: the start node of each episode, and of each step which place in `next_node` it took."""

    start: Array  # [episodes]
    taken: Array  # [steps of all episodes], or empty if steps are not recorded


declare(ControllerArrays, "L1 I1 F1 L1 I1 I1 F1 b1")
declare(SampleArrays, "L1 f1 f1")
declare(Record, "l1 l1")


@kernel("generator ControllerArrays SampleArrays int f1 l1 b1 Record")
def simulate_episodes(rng, policy, sample, max_steps, cost, steps, reached, record):
    """Run all episodes and fill in their cost, their steps, whether they reached a goal, and what happened."""
    # As plain arrays: fields that are read inside the loops cost a tenth.
    entry_ptr, choice, weight, next_ptr, next_node, start_node, start_weight, at_goal = policy
    trans_ptr, prob, choice_cost = sample
    start, all_taken = record
    passed = 0
    for episode in range(cost.size):
        draw = rng.random()
        node = start_node[0]
        for i in range(start_node.size):
            if start_weight[i] > 0.0:
                node = start_node[i]
                draw -= start_weight[i]
                if draw < 0.0:
                    break
        start[episode] = node
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
            if all_taken.size > 0:
                all_taken[passed] = taken
                passed += 1
        cost[episode] = paid
        steps[episode] = count
        reached[episode] = at_goal[node]
