"""The branch and bound over deterministic tables, at each root alone, against the enumeration of all tables.

The last time has many slots with two or three choices each. All numbers are dyadic: sums are exact and ties are many.
"""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rue
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.option_tree_kernels import Round, add_end_values
from rue.recursion.inner.tables import LAST_BUDGET, DeterministicTables

CLOSE = 1e-12  # beliefs are rounded
MOST_TABLES = 60_000  # of the last time
FAR = 1e6


def split(rng: np.random.Generator, size: int, parts: int) -> np.ndarray:
    """A random distribution in units of 1/parts."""
    return np.bincount(rng.integers(0, size, parts), minlength=size) / parts


def spread(rng: np.random.Generator, targets: np.ndarray, states: int, samples: int, similar: bool) -> np.ndarray:
    """The outcomes of a choice among some targets in each sample: `[K, S]`, where samples differ little or much."""
    row = np.zeros((samples, states))
    common = split(rng, targets.size, 16)
    for k in range(samples):
        row[k, targets] = (3 * common + split(rng, targets.size, 4)) / 4 if similar else split(rng, targets.size, 16)
    return row


def wide_problem(seed: int) -> tuple[OptionTree, np.ndarray, int]:
    """Options that meet many slots at the last time, values at their ends, and how many roots are to be searched.

    All from one number: hypothesis prefers small problems, and these are solved at their first node.
    """
    rng = np.random.default_rng(seed)
    steps, samples, roots = (int(rng.integers(*range_)) for range_ in ((2, 4), (3, 7), (1, 3)))
    middles = int(rng.integers(2, 4)) if steps == 3 else 0
    last, similar = int(rng.integers(8, 12)), rng.random() < 0.7
    noise, back = rng.choice([2, 12, 24]), rng.choice([0.0, 0.2])
    count = np.concatenate((
        rng.integers(1, 3, roots), rng.integers(1, 3, middles), rng.integers(2, 4, last), [0],
    ))  # fmt: skip
    first_middle, first_last, goal = roots, roots + middles, roots + middles + last
    while np.prod(count[first_last:goal].astype(float)) > MOST_TABLES / 2 ** (2 * middles):
        count[first_last + rng.integers(0, last)] = 2 if rng.random() < 0.9 else 1
    states = goal + 1
    transition = np.zeros((samples, states, int(count.max()), states))
    for s in range(goal):
        targets = [np.arange(first_last, goal), np.arange(first_middle, first_last)][s < first_middle and steps == 3]
        if s >= first_last:
            targets = np.append(np.arange(roots), [s, goal])
        elif rng.random() < 0.5:
            targets = np.append(targets, goal)
        if s < first_last and rng.random() < back:
            targets = np.append(targets, s)
        for a in range(count[s]):
            is_over = s < first_last and rng.random() < 0.05
            transition[:, s, a] = spread(rng, np.array([goal]) if is_over else targets, states, samples, similar)
    choices = int(count.sum())
    gap = (
        np.maximum(rng.integers(0, noise + 2, (choices, 1)) + rng.integers(-noise, noise + 1, (choices, samples)), 0)
        / 8
    )
    gap[:, rng.random(samples) < rng.choice([0.0, 0.3])] /= 2
    value = rng.integers(0, 9, states) / 8 * rng.choice([0, 1, 2])
    value[goal] = 0
    model = rue.UMDP.from_dense(transition, np.zeros(transition.shape[:3]), initial=0, goals=[goal])
    tree = OptionTree.build(model, gap, np.ones(choices, bool), steps, None, np.ones(states, bool))
    return tree, value, roots


def least_cost(tree: OptionTree, last_cost: np.ndarray, root: int) -> float:
    """The least cost, in the worst sample, of all tables of the option at a root, by enumeration."""
    model = tree.model

    def decide(time: int, held: dict[int, np.ndarray], paid: np.ndarray) -> float:
        slots = [s for s in held if held[s].max() > 0]
        own = [range(model.choice_ptr[s], model.choice_ptr[s + 1]) for s in slots]
        if time == model.steps - 1 or not slots:
            sums = paid[None]
            for s, choices in zip(slots, own, strict=True):
                sums = (sums[:, None] + held[s] * last_cost[choices]).reshape(-1, paid.size)
            return float(sums.max(axis=1).min())
        least = np.inf
        for pick in itertools.product(*own):
            after: dict[int, np.ndarray] = {}
            cost = paid.copy()
            for s, c in zip(slots, pick, strict=True):
                cost += held[s] * model.gap[c]
                for t in range(model.trans_ptr[c], model.trans_ptr[c + 1]):
                    if (to := int(model.successor[t])) != model.goal:
                        after[to] = after.get(to, 0.0) + held[s] * model.prob[t]
            least = min(least, decide(time + 1, after, cost))
        return least

    return decide(0, {root: np.ones(tree.samples)}, np.zeros(tree.samples))


def searched(tree: OptionTree, value: np.ndarray, levels: np.ndarray, places: np.ndarray, budget: int):
    """Search for tables below some levels; return the bounds, and the costs of the tables that were found."""
    options = DeterministicTables(tree)
    options.budget = budget
    last_cost = np.empty_like(tree.model.gap)
    add_end_values(tree.model, value, last_cost)
    weight, stop = np.zeros(value.size), np.zeros(1, bool)
    options.improve(places, Round(last_cost, value, value, weight, levels, 0.0, True, np.inf, stop))
    cost = np.where(options.found.changed, options.worst(value), np.inf)
    return options.found.floor[places], cost[places], last_cost


# An optimum is lost here if samples do not count whose sum stays below the best cost found, rather than the bound.
@example(3400, 0.125, 10)
@example(4190, 0.125, 10)
@example(4384, 0.125, 10)
@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.125, 1.0, FAR]), st.sampled_from([2, 10, 50]))
def test_every_root_is_searched_to_the_enumerated_optimum(seed, slack, few):
    tree, value, roots = wide_problem(seed)
    places = np.flatnonzero(tree.layers.root < roots)
    levels = np.full(tree.size, FAR)
    floor, cost, last_cost = searched(tree, value, levels, places, LAST_BUDGET)
    exact = np.array([least_cost(tree, last_cost, int(root)) for root in tree.layers.root[places]])
    assert floor == pytest.approx(exact, abs=CLOSE)
    assert cost == pytest.approx(exact, abs=CLOSE)
    for sign in (1, -1):
        levels[places] = exact + sign * slack
        floor, cost, _ = searched(tree, value, levels, places, LAST_BUDGET)
        is_below = exact < levels[places]
        assert floor == pytest.approx(np.where(is_below, exact, levels[places]), abs=CLOSE)
        assert cost[is_below] == pytest.approx(exact[is_below], abs=CLOSE)
        floor, cost, _ = searched(tree, value, levels, places, few)
        assert (floor <= exact + CLOSE).all()
        assert (cost >= exact - CLOSE).all()
