"""Remove nodes from a controller: what led to them leads to other nodes of the same state.

An outcome that happens n_k times in sample k, and leads to node j instead of node i, adds n_k (v_jk − v_ik) to the
cost, to first order. With the belief b of the program of `improvement.py`, each outcome goes to the node j of its state
with the least Σ_k b_k n_k v_jk. What all outcomes that lead to a node lose in this way is the price of that node. The
cheapest nodes are removed, many at a time; the rest is improved until the figure is small enough again. If it is not,
fewer are removed.
"""

from collections.abc import Iterator

import numpy as np

from rue._arrays import Array
from rue.controllers import merged, part_of
from rue.shrinking.chains import Chain, controller, made_positive
from rue.shrinking.improvement import best_solution, improved
from rue.solution import Run

# The part of the nodes beyond one for each state that is removed at a time, at most, and the factor after a success.
# A number that was too large is divided. Smaller parts take longer, and often end with fewer nodes.
PART, SMALL_PART, FASTER, FEWER = 0.5, 0.15, 2.0, 3
# Controllers with more nodes are cut down by visits alone, to this part of their nodes, or to this many.
MANY, CUT_PART = 800, 0.03
# What may be lost, step by step, where a number of nodes is asked for.
LOSSES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, np.inf)
# How often a controller is improved after nodes were removed.
ROUNDS = 12
# Single nodes that are tried before nothing more is removed.
TRIES = 8


def shrinking_to(chain: Chain, figure: float, least: int, run: Run) -> Iterator[Chain]:
    """Yield smaller and smaller controllers until one has `least` nodes or no way is found, whatever it costs.

    What may be lost grows step by step, as parts of `figure`: so little is lost as long as little has to be.
    """
    smallest = chain
    for loss in LOSSES:
        for smaller in shrinking(smallest, (1 + loss) * figure + chain.measure.floor, least, run):
            smallest = smaller
            yield smallest


def shrinking_twice(chain: Chain, target: float, least: int, run: Run) -> Iterator[Chain]:
    """Yield smaller and smaller controllers with figures up to `target`: on a fast way, then on one of small steps."""
    start, fewest = chain, chain.policy.nodes
    for smaller in shrinking(chain, target, least, run):
        start = smaller if start.policy.nodes > MANY else start
        fewest = smaller.policy.nodes
        yield smaller
    if fewest > least:
        for smaller in shrinking(start, target, least, run, SMALL_PART):
            if smaller.policy.nodes < fewest:
                fewest = smaller.policy.nodes
                yield smaller


def shrinking(chain: Chain, target: float, least: int, run: Run, most_part: float = PART) -> Iterator[Chain]:
    """Yield smaller and smaller controllers with figures up to `target`, until one has `least` nodes or none is found.

    Without a target, an infinite one, each is improved as far as it goes. At most the part `most_part` is removed at a
    time.
    """
    goal = target if np.isfinite(target) else 0.0
    for smaller in _cut_down(chain, target, least, run):
        chain = smaller
        yield chain
    part = most_part
    while chain.policy.nodes > least and not run.stop():
        belief = _belief(chain, run)
        order = _cheapest(chain, belief)
        most = min(order.size, max(1, int(part * _extra(chain))), chain.policy.nodes - least)
        found, removed = None, 0
        for chosen in _batches(order, most):
            found = _without(chain, belief, chosen)
            found = None if found is None else improved(found, goal, ROUNDS, run)
            if found is not None and found.figure <= target and found.policy.nodes < chain.policy.nodes:
                removed = chosen.size
                break
            if run.stop():
                break
        if not removed or found is None:
            return
        part = min(most_part, FASTER * removed / max(_extra(chain), 1))
        chain = found
        run.iterations += 1
        yield chain


def _cut_down(chain: Chain, target: float, least: int, run: Run) -> Iterator[Chain]:
    """Yield a large controller with few of its nodes, those that are visited most."""
    while chain.policy.nodes > MANY and not run.stop():
        belief = _belief(chain, run, programs=1)
        order = np.argsort(chain.visits @ made_positive(belief), kind="stable")
        kept, cut = max(MANY, int(CUT_PART * chain.policy.nodes), least), None
        while cut is None and 2 * kept < chain.policy.nodes and not run.stop():
            found = _without(chain, belief, _spared(chain, order[: chain.policy.nodes - kept]))
            found = None if found is None else improved(found, target, ROUNDS, run)
            cut = found if found is not None and found.figure <= target else None
            kept *= FEWER
        if cut is None:
            return
        chain = cut
        run.iterations += 1
        yield chain


def _extra(chain: Chain) -> int:
    """Return how many nodes there are beyond one for each state."""
    return chain.policy.nodes - int(np.unique(chain.policy.node_state).size)


def _batches(order: Array, most: int) -> Iterator[Array]:
    """Yield the cheapest nodes, fewer and fewer, then single ones."""
    while most > 1:
        yield order[:most]
        most //= FEWER
    yield from order[:TRIES, None]


def _belief(chain: Chain, run: Run, programs: int = 2) -> Array:  # [K]
    """Return the belief for which nodes are compared."""
    solution = best_solution(chain, 1.0, run, programs=programs)
    return np.full(chain.model.samples, 1 / chain.model.samples) if solution is None else solution.belief


def _cheapest(chain: Chain, belief: Array) -> Array:
    """Return nodes to remove, the cheapest first; one of each state stays."""
    policy = chain.policy
    weight = np.vstack([made_positive(belief) * chain.flow, made_positive(belief) * policy.start_weight[:, None]])
    target = np.append(policy.next_node, policy.start_node)
    state = policy.node_state[target]
    other = np.full(target.size, np.inf)  # the least weighted value of another node
    for rows, here in chain.by_target(state):
        if here.size > 1:
            score = weight[rows] @ chain.value[here].T
            score[np.arange(rows.size), np.searchsorted(here, target[rows])] = np.inf
            other[rows] = score.min(axis=1)
    price = np.bincount(target, other - (weight * chain.value[target]).sum(axis=1), policy.nodes)
    return _spared(chain, np.argsort(price, kind="stable"))


def _spared(chain: Chain, order: Array) -> Array:
    """Return the nodes without the last of each state, if they are all of it."""
    state = chain.policy.node_state[order]
    left = np.bincount(chain.policy.node_state, minlength=chain.policy.graph.states)
    rank = np.empty(order.size, np.int64)  # of each node among those of its state
    by_state = np.argsort(state, kind="stable")
    first = np.searchsorted(state[by_state], state[by_state], side="left")
    rank[by_state] = np.arange(order.size) - first
    return np.asarray(order[rank < left[state] - 1])


def _without(chain: Chain, belief: Array, removed: Array) -> Chain | None:
    """Return the controller without some nodes, or None if it may miss the goal."""
    policy, weight = chain.policy, made_positive(belief)
    kept = np.ones(policy.nodes, bool)
    kept[removed] = False
    state, count, choice, chance, following = part_of(policy)
    lost = np.flatnonzero(~kept[following])
    following = following.copy()
    following[lost] = chain.best_nodes(weight * chain.flow[lost], policy.node_state[following[lost]], kept)[0]
    start = chain.start.copy()
    gone = np.flatnonzero((start > 0) & ~kept)
    begin = chain.best_nodes(weight * start[gone, None], policy.node_state[gone], kept)[0]
    np.add.at(start, begin, start[gone])
    start[gone] = 0.0
    found = merged(controller(policy.graph, (state, count, choice, chance, following), start))
    return Chain.of(chain.model, found, chain.measure)
