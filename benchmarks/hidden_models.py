"""Models in which outcomes tell the samples apart little by little, each drawn from a seed.

The families follow problems that are known in the literature as hidden-model or multi-environment MDPs: random ones,
experts who disagree about a species, fisheries of unknown growth, machines of unknown wear, a river of unknown current.
All numbers are drawn here; none is taken from data.
"""

import numpy as np

from rue import UMDP, Graph
from rue._arrays import Array


def random_sparse(states: int, samples: int, seed: int, actions: int = 3, outcomes: int = 3) -> UMDP:
    """Return a shortest path with random successors; the last state is the goal."""
    draw = np.random.default_rng([1, states, samples, seed])
    live = states - 1
    choices = live * actions
    successor = np.concatenate([np.sort(draw.choice(states, outcomes, replace=False)) for _ in range(choices)])
    prob = draw.dirichlet(np.ones(outcomes), (choices, samples)).transpose(0, 2, 1).reshape(-1, samples)
    cost = np.repeat(draw.uniform(0.5, 1.5, choices)[:, None], samples, axis=1)
    choice_ptr = np.append(np.arange(0, choices + 1, actions), choices)
    trans_ptr = np.arange(0, choices * outcomes + 1, outcomes)
    graph = Graph(choice_ptr, np.tile(np.arange(actions), live), trans_ptr, successor, 0)
    return UMDP(graph, prob, cost)


def dense(states: int, samples: int, discount: float, seed: int, actions: int = 3) -> UMDP:
    """Return a discounted problem in which every state follows every state; costs are known, probabilities are not."""
    draw = np.random.default_rng([2, states, samples, seed])
    prob = draw.dirichlet(np.ones(states), (samples, states, actions))
    return _discounted(prob, draw.uniform(0.0, 1.0, (states, actions)), discount)


def experts(samples: int, seed: int, actions: int = 4, discount: float = 0.95) -> UMDP:
    """Return two states of a species, rare and common, and experts who disagree about what each action does."""
    draw = np.random.default_rng([3, samples, actions, seed])
    common = draw.beta(1.0, 1.0, (samples, 2, actions))
    prob = np.stack([1.0 - common, common], axis=-1)
    price = np.concatenate([[0.0], draw.uniform(0.1, 0.4, actions - 1)])  # the first action is to do nothing
    return _discounted(prob, np.array([1.0, 0.0])[:, None] + price, discount)


def fishery(seed: int, levels: int = 51, harvests: int = 11, samples: int = 11, discount: float = 0.95) -> UMDP:
    """Return a stock of fish with Ricker's growth of unknown rate and lognormal noise; the catch is the reward."""
    draw = np.random.default_rng([4, seed])
    stock = np.linspace(0.0, 2.0, levels)
    rates = np.sort(draw.uniform(0.2, 2.0, samples))
    sigma = draw.uniform(0.1, 0.3)
    share = np.linspace(0.0, 1.0, harvests)
    left = stock[:, None] * (1.0 - share)  # [S, A] what escapes the harvest
    grown = left * np.exp(rates[:, None, None] * (1.0 - left))  # [K, S, A]
    edges = 0.5 * (stock[1:] + stock[:-1])
    with np.errstate(divide="ignore"):
        z = (np.log(edges) - np.log(grown)[..., None]) / sigma
    below = np.where(grown[..., None] > 0, _normal(z), 1.0)
    prob = np.diff(np.concatenate([np.zeros((*grown.shape, 1)), below, np.ones((*grown.shape, 1))], axis=-1), axis=-1)
    prob[prob < 1e-4] = 0.0  # outcomes that no one would see
    prob /= prob.sum(axis=-1, keepdims=True)
    return _discounted(prob, stock.max() - stock[:, None] * share, discount, initial=levels // 2)


def replacement(seed: int, levels: int = 20, samples: int = 10, discount: float = 0.99) -> UMDP:
    """Return a machine that wears at an unknown pace: keep it, repair it or replace it."""
    draw = np.random.default_rng([5, seed])
    pace = draw.uniform(0.05, 0.6, (samples, 2))  # of a new machine, and of an old one
    mended = draw.uniform(0.2, 0.9, samples)
    prob = np.zeros((samples, levels, 3, levels))
    for s in range(levels):
        wear = pace[:, 0] + (pace[:, 1] - pace[:, 0]) * s / (levels - 1)
        prob[:, s, 0, min(s + 1, levels - 1)] += wear * 0.7
        prob[:, s, 0, min(s + 2, levels - 1)] += wear * 0.3
        prob[:, s, 0, s] += 1.0 - wear
        prob[:, s, 1, max(s - 3, 0)] += mended
        prob[:, s, 1, s] += 1.0 - mended
        prob[:, s, 2, 0] = 1.0
    wear_cost = np.linspace(0.0, 1.0, levels)[:, None] ** 2
    return _discounted(prob, wear_cost + np.array([0.0, 0.3, 1.5]), discount)


def river(seed: int, length: int = 10, samples: int = 8, discount: float = 0.97) -> UMDP:
    """Return a swimmer in a river of unknown current: a small reward downstream, a large one at the far end."""
    draw = np.random.default_rng([6, seed])
    stay, back = draw.uniform(0.3, 0.7, (samples, length)), draw.uniform(0.02, 0.3, (samples, length))
    prob = np.zeros((samples, length, 2, length))
    for s in range(length):
        prob[:, s, 0, max(s - 1, 0)] = 1.0
        prob[:, s, 1, max(s - 1, 0)] += back[:, s]
        prob[:, s, 1, s] += stay[:, s] * (1.0 - back[:, s])
        prob[:, s, 1, min(s + 1, length - 1)] += (1.0 - stay[:, s]) * (1.0 - back[:, s])
    cost = np.ones((length, 2))
    cost[0, 0], cost[-1, 1] = 0.95, 0.0
    return _discounted(prob, cost, discount)


def _discounted(prob: Array, cost: Array, discount: float, initial: int = 0) -> UMDP:
    """Return a model from prob[K, S, A, S] and cost[S, A], without outcomes that no sample has."""
    samples = prob.shape[0]
    table = np.broadcast_to(cost, (samples, *cost.shape))
    return UMDP.from_dense(prob, table, initial=initial, goals=(), discount=discount)


def _normal(z: Array) -> Array:
    """Return the distribution function of the standard normal distribution."""
    from scipy.special import ndtr

    return np.asarray(ndtr(z))
