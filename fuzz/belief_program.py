"""The least max regret where finitely many beliefs can be reached, by a linear program over them. Nothing of rue's.

A node is a state and the likelihood of what was seen in each sample, scaled to a largest entry of one: ℓ. A policy that
remembers its node has flows y(n,c) ≥ 0: how often it takes c there, times how likely what was seen is at most. With
ℓ∘T_t = f_t ℓ' for the outcome t that leads to the node of ℓ',

    min z   with   Σ_c y(n,c) = [n is the root] + Σ f_t y(m,c) over all (m,c,t) that lead to n,
                   z ≥ Σ y(n,c) ℓ_k(n) cost_k(c) − V*_k   for each sample k.

Flows that satisfy this are those of policies that reach a goal with probability one in each sample, and of nothing
else. V*_k is the same program for sample k alone.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

import rue

# Likelihoods that agree to this number of digits are the same. Where they become smaller and smaller, there is no end.
DIGITS, TINY = 13, 1e-8


class Beliefs(NamedTuple):
    """The nodes that can be reached, and for each choice of each node where it leads, with which factor."""

    likelihood: list[tuple[float, ...]]
    goal: list[bool]
    steps: list[list[tuple[int, list[tuple[int, float]]]]]  # by node: (choice, [(node, factor)])


def reachable(model: rue.UMDP, samples: list[int], most: int) -> Beliefs | None:
    """The nodes of these samples; None if they are more than `most`, or without end."""
    graph = model.graph
    prob = model.prob[:, samples]
    root = (graph.initial, (1.0,) * len(samples))
    number, queue, found = {root: 0}, [root], Beliefs([], [], [])
    for state, likelihood in queue:  # grows as it is read
        if len(queue) > most:
            return None
        own = np.array(likelihood)
        steps = []
        for c in range(graph.choice_ptr[state], graph.choice_ptr[state + 1]):
            ahead = []
            for t in range(graph.trans_ptr[c], graph.trans_ptr[c + 1]):
                after = own * prob[t]
                factor = float(after.max())
                if factor > 0:
                    after /= factor
                    if ((after > 0) & (after < TINY)).any():
                        return None
                    key = (int(graph.successor[t]), tuple(np.round(after, DIGITS).tolist()))
                    if key not in number:
                        number[key] = len(queue)
                        queue.append(key)
                    ahead.append((number[key], factor))
            steps.append((c, ahead))
        found.likelihood.append(likelihood)
        found.goal.append(bool(graph.goal[state]))
        found.steps.append(steps)
    return found


def without_hopeless(beliefs: Beliefs) -> list[list[tuple[int, list[tuple[int, float]]]]] | None:
    """The choices that some policy may take that reaches a goal in each possible sample; None if there is none."""
    steps = [list(own) for own in beliefs.steps]
    alive = set(range(len(steps)))
    while True:
        # In finitely many beliefs a goal is reached in each sample if it can be reached from each node.
        entering: dict[int, set[int]] = {}
        for n in alive:
            for _, ahead in steps[n]:
                for m, _ in ahead:
                    entering.setdefault(m, set()).add(n)
        good = {n for n in alive if beliefs.goal[n]}
        queue = list(good)
        while queue:
            for n in entering.get(queue.pop(), ()):
                if n not in good:
                    good.add(n)
                    queue.append(n)
        if 0 not in good:
            return None
        if good == alive:
            return steps
        alive = good
        steps = [
            [(c, ahead) for c, ahead in own if n in alive and all(m in alive for m, _ in ahead)]
            for n, own in enumerate(steps)
        ]


def _least(model: rue.UMDP, samples: list[int], best: list[float], most: int) -> float | None:
    """The least max over the samples of cost less `best`; None if there are too many beliefs."""
    beliefs = reachable(model, samples, most)
    if beliefs is None:
        return None
    steps = without_hopeless(beliefs)
    if steps is None:
        return math.inf
    row, column, value, paid = [], [], [], []
    for n, own in enumerate(steps):
        for c, ahead in own:
            j = len(paid)
            paid.append(np.array(beliefs.likelihood[n]) * model.cost[c, samples])
            row.append(n)
            column.append(j)
            value.append(1.0)
            for m, factor in ahead:
                if not beliefs.goal[m]:
                    row.append(m)
                    column.append(j)
                    value.append(-factor)
    if not paid:
        return 0.0 - min(best)
    nodes, columns = len(steps), len(paid)
    inner = np.array([not goal for goal in beliefs.goal])
    flow = csr_array((value, (row, column)), shape=(nodes, columns + 1))[np.flatnonzero(inner)]
    start = np.zeros(nodes)
    start[0] = 1.0
    regret = csr_array(np.column_stack([np.array(paid).T, -np.ones(len(samples))]))
    found = linprog(
        np.append(np.zeros(columns), 1.0), A_ub=regret, b_ub=np.array(best), A_eq=flow, b_eq=start[inner],
        bounds=[(0, None)] * columns + [(None, None)], method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    if found.status != 0:
        raise RuntimeError(found.message)
    return float(found.fun)


def least_of_all(model: rue.UMDP, objective: str = "regret", most: int = 10_000) -> float | None:
    """The least max regret, or worst-case cost, of all policies; infinite if none counts, None if beliefs are many."""
    best = [0.0] * model.samples
    for k in range(model.samples if objective == "regret" else 0):
        alone = _least(model, [k], [0.0], most)
        if alone is None or math.isinf(alone):
            return alone
        best[k] = alone
    return _least(model, list(range(model.samples)), best, most)
