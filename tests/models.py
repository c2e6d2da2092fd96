"""Random models and controllers for property tests: small, awkward, and exact in binary floating point."""

import itertools
from dataclasses import dataclass

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import rue

EIGHTHS = 8


@dataclass(frozen=True)
class Shape:
    """What kinds of awkwardness a model may have."""

    states: int = 3
    samples: int = 3
    dead_ends: bool = True
    same_support: bool = False
    zero_costs: bool = True


def _rows(size: int, least: int) -> st.SearchStrategy[tuple[int, ...]]:
    """All ways to divide eight eighths among some successors, each with a least number of eighths."""
    ways = itertools.product(range(EIGHTHS, least - 1, -1), repeat=size)
    return st.sampled_from([way for way in ways if sum(way) == EIGHTHS])


# One draw for a row, from what is made once: examples are drawn by the ten thousand. Zeros are allowed unless all
# samples must have the same support.
ROWS = {(size, same): _rows(size, int(same)) for size in (1, 2, 3) for same in (False, True)}
PRICES = {zero: st.integers(0 if zero else 1, 8) for zero in (False, True)}


@st.composite
def umdps(draw: st.DrawFn, shape: Shape = Shape()) -> rue.UMDP:
    """Models with cycles, several goals, unreachable states, differing supports, dead ends that can be avoided,
    single and duplicate samples, and states with one action."""
    inner = draw(st.integers(1, shape.states))
    goals = draw(st.integers(1, 2))
    samples = draw(st.integers(1, shape.samples))
    dead = 1 if shape.dead_ends and draw(st.booleans()) else 0
    states = inner + dead + goals
    price = PRICES[shape.zero_costs]
    transition = np.zeros((samples, states, 2, states))
    cost = np.zeros((samples, states, 2))
    for s in range(inner):
        for a in range(draw(st.integers(1, 2))):
            size = draw(st.integers(1, min(3, states)))
            support = draw(st.lists(st.integers(0, states - 1), min_size=size, max_size=size, unique=True))
            row = ROWS[size, shape.same_support]
            for k in range(samples):
                transition[k, s, a, support] = np.array(draw(row)) / EIGHTHS
                cost[k, s, a] = draw(price) / 4
    for s in range(inner, inner + dead):  # a trap, in some samples with a way out
        for k in range(samples):
            out = draw(st.booleans())
            transition[k, s, 0, [s, states - 1]] = (0.5, 0.5) if out else (1.0, 0.0)
            cost[k, s, 0] = 1.0
    if samples > 1 and draw(st.booleans()):
        transition[-1], cost[-1] = transition[0], cost[0]
    # A row that one sample uses must be there in all.
    used = transition.any(axis=(0, 3))
    assume((transition.sum(axis=3)[:, used] == 1).all())
    try:
        return rue.UMDP.from_dense(transition, cost, initial=0, goals=range(inner + dead, states))
    except rue.BadInput as error:
        assume("no policy reaches a goal" not in str(error))
        raise


@st.composite
def controllers(draw: st.DrawFn, model: rue.UMDP) -> rue.Policy:
    """A random controller: up to two nodes for each state, dyadic probabilities, one or two start nodes."""
    graph = model.graph
    copies = draw(st.integers(1, 2))
    node_state = np.tile(np.arange(graph.states), copies)
    entry_ptr, choice, weight, next_ptr, next_node = [0], [], [], [0], []
    for state in node_state:
        own = list(range(graph.choice_ptr[state], graph.choice_ptr[state + 1]))
        if own:
            first = draw(st.sampled_from(own))
            second = draw(st.sampled_from(own))
            pairs = {first: 1.0} if first == second else {first: 0.25, second: 0.75}
            for c, w in sorted(pairs.items()):
                choice.append(c)
                weight.append(w)
                for t in range(graph.trans_ptr[c], graph.trans_ptr[c + 1]):
                    next_node.append(int(graph.successor[t]) + graph.states * draw(st.integers(0, copies - 1)))
                next_ptr.append(len(next_node))
        entry_ptr.append(len(choice))
    start = [graph.initial + graph.states * i for i in range(copies)]
    return rue.Policy(
        graph, node_state, entry_ptr, choice, weight, next_ptr, next_node, start, np.full(copies, 1 / copies)
    )


@st.composite
def models_with_controllers(draw: st.DrawFn, shape: Shape = Shape()) -> tuple[rue.UMDP, rue.Policy]:
    """A random model and a random controller on it."""
    model = draw(umdps(shape))
    return model, draw(controllers(model))


def lively(seed: int) -> rue.UMDP:
    """Models in which samples disagree about what is best, so that regret cannot be avoided."""
    random = np.random.default_rng(seed)
    inner, samples = int(random.integers(1, 4)), int(random.integers(2, 4))
    transition, cost = np.zeros((samples, inner + 1, 2, inner + 1)), np.zeros((samples, inner + 1, 2))
    for k, s, a in itertools.product(range(samples), range(inner), range(2)):
        transition[k, s, a] = random.multinomial(7, random.dirichlet(np.ones(inner + 1))) / 8
        transition[k, s, a, inner] += 1 / 8
        cost[k, s, a] = random.integers(0, 17) / 8
    return rue.UMDP.from_dense(transition, cost, initial=0, goals=[inner])
