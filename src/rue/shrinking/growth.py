"""Add nodes to a controller where they gain most: the way up from one node for each state.

At a controller that cannot be improved with its own nodes, let b be the belief of the last program
(`improvement.py`) and n_k how often an outcome happens. The best step for the weights b_k n_k, with known nodes to
follow, would gain something there if it were a node; and the same node may serve other outcomes that lead to its state.
Nodes are chosen one by one by what they gain for all outcomes together, a few are added, and the controller is improved
again.
"""

from collections.abc import Iterator

import numpy as np

from rue._arrays import Array
from rue.controllers import part_of, put_together
from rue.shrinking.chains import Chain, made_positive
from rue.shrinking.improvement import best_solution, improved
from rue.solution import Run

# The part of the nodes that is added at a time, and how many outcomes may ask for one.
PART, MOST_ASKING = 0.1, 400
# How often a controller is improved at the start, and after nodes were added.
FIRST_ROUNDS, ROUNDS = 30, 12
# A controller with more nodes has to be better by this part.
GAIN = 1e-4


def growing(chain: Chain, target: float, most: int, run: Run) -> Iterator[Chain]:
    """Yield larger and better controllers up to `most` nodes, until one reaches the target or nothing is gained."""
    chain = improved(chain, target, FIRST_ROUNDS, run)
    yield chain
    while chain.figure > target and chain.policy.nodes < most and not run.stop():
        larger = _with_more(chain, min(max(1, int(PART * chain.policy.nodes)), most - chain.policy.nodes), run)
        found = None if larger is None else improved(larger, target, ROUNDS, run)
        if found is None or found.figure > (1 - GAIN) * chain.figure:
            return
        chain = found
        run.iterations += 1
        yield chain


def _with_more(chain: Chain, number: int, run: Run) -> Chain | None:
    """Return the controller with more nodes, which nothing leads to yet; None if no node would gain anything."""
    solution = best_solution(chain, 1.0, run)
    if solution is None:
        return None
    graph, policy, belief = chain.model.graph, chain.policy, made_positive(solution.belief)
    weight = np.vstack([belief * chain.flow, belief * policy.start_weight[:, None]])
    target = np.append(policy.next_node, policy.start_node)
    used = np.flatnonzero((weight.sum(axis=1) > 0) & ~graph.goal[policy.node_state[target]])
    weight, target = weight[used], target[used]
    state, now = policy.node_state[target], (weight * chain.value[target]).sum(axis=1)
    steps, least = chain.best_steps(weight, state)
    asking = np.argsort(least - now, kind="stable")[:MOST_ASKING]
    asking = asking[least[asking] < now[asking]]
    steps = steps.taken(graph, asking)
    score = np.where(state[asking, None] == state, chain.step_value(steps) @ weight.T, np.inf)
    chosen = _choose(score, now, number, 1e-9 * chain.figure)
    if not chosen.size:
        return None
    steps = steps.taken(graph, chosen)
    once = np.ones(chosen.size)
    more = (state[asking[chosen]], once.astype(np.int64), steps.choice, once, steps.following)
    larger = put_together(graph, [part_of(policy), more], policy.start_node, policy.start_weight)
    return Chain.of(chain.model, larger, chain.measure)


def _choose(score: Array, now: Array, number: int, least: float) -> Array:
    """Return which rows of `score` lower the sum of the least of each column most, one after the other."""
    chosen: list[int] = []
    for _ in range(number):
        gain = np.maximum(now - score, 0.0).sum(axis=1)
        if not gain.size or gain.max() <= least:
            break
        chosen.append(int(gain.argmax()))
        now = np.minimum(now, score[chosen[-1]])
    return np.array(chosen, np.int64)
