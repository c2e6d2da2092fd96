"""Exact answers in `Fraction`, and on the graph of supports, for models of any kind. Nothing is shared with rue."""

import math
from fractions import Fraction

import rue
from tests.naive import Naive, closure

INF = math.inf
Row = dict[int, Fraction]


def rows_sum_to_one(naive: Naive) -> bool:
    """Whether the stored probabilities are a model as they stand, to the last digit."""
    return all(
        sum(naive.prob[t][k] for t in outcomes) == 1 for outcomes in naive.outcomes for k in range(naive.samples)
    )


def solve_chain(rows: dict[int, Row], paid: dict[int, Fraction]) -> dict[int, Fraction]:
    """v = c + P v for all nodes that have a row, from which others are reached with probability one; these cost 0."""
    left = {n: dict(row) for n, row in rows.items()}
    cost = dict(paid)
    kept: list[tuple[int, Row]] = []
    for n in rows:
        row = left.pop(n)
        stay = row.pop(n, Fraction(0))
        if stay:
            row = {t: p / (1 - stay) for t, p in row.items()}
            cost[n] /= 1 - stay
        kept.append((n, row))
        for m, other in left.items():
            p = other.pop(n, None)
            if p is not None:
                cost[m] += p * cost[n]
                for t, q in row.items():
                    other[t] = other.get(t, Fraction(0)) + p * q
    value: dict[int, Fraction] = {}
    for n, row in reversed(kept):
        # What was eliminated before has been paid for; only later nodes are left in the row.
        value[n] = cost[n] + sum((p * value[t] for t, p in row.items() if t in value), Fraction(0))
    return value


def surely(naive: Naive, sample: int) -> tuple[set[int], set[int]]:
    """States from which some policy reaches a goal with probability one in a sample, and the choices it may take."""
    alive, allowed = set(range(naive.states)), set(range(len(naive.outcomes)))
    while True:
        reached = {s for s in alive if naive.goal[s]}
        grew = True
        while grew:
            more = {
                s
                for s in alive - reached
                if any(c in allowed and reached & naive.row(c, sample).keys() for c in naive.choices[s])
            }
            grew = bool(more)
            reached |= more
        kept = {c for s in reached for c in naive.choices[s] if c in allowed and naive.row(c, sample).keys() <= reached}
        if (reached, kept) == (alive, allowed):
            return alive, allowed
        alive, allowed = reached, kept


def optimal(naive: Naive, sample: int) -> list[Fraction | float]:
    """V*_k of every state by policy iteration, which stays proper as it improves strictly and no cost is negative."""
    alive, allowed = surely(naive, sample)
    value: list[Fraction | float] = [INF] * naive.states
    for s in alive:
        value[s] = Fraction(0)
    policy: dict[int, int] = {}
    placed = {s for s in alive if naive.goal[s]}
    while len(placed) < len(alive):  # a proper policy: one step nearer to a goal with positive probability
        for s in sorted(alive - placed):
            near = [c for c in naive.choices[s] if c in allowed and placed & naive.row(c, sample).keys()]
            if near:
                policy[s] = near[0]
                placed.add(s)
                break
    while True:
        rows = {s: {t: p for t, p in naive.row(c, sample).items() if not naive.goal[t]} for s, c in policy.items()}
        for s, v in solve_chain(rows, {s: naive.cost[c][sample] for s, c in policy.items()}).items():
            value[s] = v
        better = dict(policy)
        for s in policy:
            best = value[s]
            for c in naive.choices[s]:
                if c in allowed:
                    q = naive.cost[c][sample] + sum(p * value[t] for t, p in naive.row(c, sample).items())
                    if q < best:
                        best, better[s] = q, c
        if better == policy:
            return value
        policy = better


def controller_value(naive: Naive, policy: rue.Policy, sample: int) -> tuple[Fraction | float, Fraction]:
    """V_k of a controller and the expected number of steps, with the weights of each node divided by their sum."""
    rows: list[Row] = []
    paid: list[Fraction] = []
    for node in range(policy.nodes):
        row: Row = {}
        cost = Fraction(0)
        entries = range(policy.entry_ptr[node], policy.entry_ptr[node + 1])
        total = sum(Fraction(float(policy.weight[e])) for e in entries)
        for e in entries if not naive.goal[policy.node_state[node]] else ():
            weight, choice = Fraction(float(policy.weight[e])) / total, int(policy.choice[e])
            cost += weight * naive.cost[choice][sample]
            for i, t in enumerate(naive.outcomes[choice]):
                if naive.prob[t][sample] > 0:
                    target = int(policy.next_node[policy.next_ptr[e] + i])
                    row[target] = row.get(target, Fraction(0)) + weight * naive.prob[t][sample]
        rows.append(row)
        paid.append(cost)
    begin = [int(n) for n, w in zip(policy.start_node, policy.start_weight, strict=True) if w > 0]
    visited = closure(rows, begin)
    goals = {n for n in visited if naive.goal[policy.node_state[n]]}
    entering: dict[int, Row] = {n: {} for n in visited}
    for n in visited:
        for t in rows[n]:
            entering[t][n] = Fraction(1)
    if len(closure([entering.get(n, {}) for n in range(policy.nodes)], list(goals))) < len(visited):
        return INF, Fraction(0)
    inner = sorted(visited - goals)
    chain = {n: {t: p for t, p in rows[n].items() if t not in goals} for n in inner}
    value = solve_chain(chain, {n: paid[n] for n in inner})
    steps = solve_chain(chain, {n: Fraction(1) for n in inner})
    whole = sum(Fraction(float(w)) for w in policy.start_weight)
    mean = Fraction(0)
    for n, w in zip(policy.start_node, policy.start_weight, strict=True):
        mean += Fraction(float(w)) / whole * value.get(int(n), Fraction(0))
    return mean, max(steps.values(), default=Fraction(0))


def feasible(naive: Naive, most: int = 4000) -> bool | None:
    """Whether some policy reaches a goal with probability one in all samples; None if there are too many pairs.

    On pairs of a state and the samples that a history has left (docs/bounds.md, Lemma 1): the largest set that choices
    can stay in and from each pair of which a goal can be reached in each of its samples.
    """
    start = (naive.initial, frozenset(range(naive.samples)))
    follow: dict[tuple, dict[int, list[tuple]]] = {}
    queue = [start]
    while queue:
        pair = queue.pop()
        if pair in follow:
            continue
        s, left = pair
        follow[pair] = {}
        for c in naive.choices[s]:
            after = [
                (naive.successor[t], frozenset(k for k in left if naive.prob[t][k] > 0)) for t in naive.outcomes[c]
            ]
            follow[pair][c] = [pair for pair in after if pair[1]]
            queue += follow[pair][c]
        if len(follow) > most:
            return None
    while True:
        good = {(pair, k) for pair in follow for k in pair[1] if naive.goal[pair[0]]}
        grew = True
        while grew:
            more = {
                (pair, k)
                for pair in follow
                for k in pair[1]
                if (pair, k) not in good and any((to, k) in good for after in follow[pair].values() for to in after)
            }
            grew = bool(more)
            good |= more
        lost = {pair for pair in follow if any((pair, k) not in good for k in pair[1])}
        if start in lost:
            return False
        if not lost:
            return True
        for pair in lost:
            del follow[pair]
        for pair, own in follow.items():
            follow[pair] = {c: after for c, after in own.items() if not lost & set(after)}


def count_beliefs(naive: Naive, most: int = 200) -> int | None:
    """How many pairs of a state and what is known there can be reached; None if they are more than `most`."""
    seen: set[tuple[int, tuple[Fraction, ...]]] = set()
    queue = [(naive.initial, (Fraction(1, naive.samples),) * naive.samples)]
    while queue:
        pair = queue.pop()
        if pair in seen:
            continue
        seen.add(pair)
        if len(seen) > most:
            return None
        for c in naive.choices[pair[0]]:
            for t in naive.outcomes[c]:
                weight = [b * p for b, p in zip(pair[1], naive.prob[t], strict=True)]
                total = sum(weight)
                if total > 0:
                    queue.append((naive.successor[t], tuple(w / total for w in weight)))
    return len(seen)


def tail(figures: list[float], weight: list[float], level: float) -> float:
    """The mean of the worst part `level` of the probability, from the worst figure on."""
    left, total = Fraction(level), Fraction(0)
    for figure, share in sorted(zip(figures, weight, strict=True), reverse=True):
        taken = min(left, Fraction(share))
        if taken and figure == INF:
            return INF
        total += taken * Fraction(figure) if taken else 0
        left -= taken
    return float(total / Fraction(level))
