"""Slow twins: exact arithmetic in `Fraction`, and enumeration. Nothing here is shared with rue."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

import rue

INF = math.inf


class Naive:
    """A UMDP as nested lists of fractions."""

    def __init__(self, model: rue.UMDP) -> None:
        graph = model.graph
        self.states, self.samples, self.initial = graph.states, model.samples, graph.initial
        self.goal = [bool(g) for g in graph.goal]
        self.choices = [list(range(graph.choice_ptr[s], graph.choice_ptr[s + 1])) for s in range(graph.states)]
        self.outcomes = [
            [int(t) for t in range(graph.trans_ptr[c], graph.trans_ptr[c + 1])] for c in range(graph.choices)
        ]
        self.successor = [int(s) for s in graph.successor]
        self.prob = [[Fraction(float(p)) for p in row] for row in model.prob]
        self.cost = [[Fraction(float(c)) for c in row] for row in model.cost]

    def row(self, choice: int, sample: int) -> dict[int, Fraction]:
        """Where a choice leads in a sample."""
        row: dict[int, Fraction] = {}
        for t in self.outcomes[choice]:
            if self.prob[t][sample] > 0:
                row[self.successor[t]] = row.get(self.successor[t], Fraction(0)) + self.prob[t][sample]
        return row

    def policies(self, allowed: set[int] | None = None) -> Iterator[list[int]]:
        """All deterministic stationary policies, as a choice for each state (-1 at goals)."""
        options = [[c for c in own if allowed is None or c in allowed] or [-1] for own in self.choices]
        for policy in itertools.product(*options):
            yield list(policy)

    def chain_value(self, rows: list[dict[int, Fraction]], paid: list[Fraction], start: int) -> Fraction | float:
        """Expected total cost from `start` of a chain in which goals have no row; infinite if a goal may be missed."""
        visited = closure(rows, [start])
        if any(not any(self.goal[t] for t in closure(rows, [s])) for s in visited):
            return INF
        inner = [s for s in visited if not self.goal[s]]
        matrix = [[Fraction(int(s == t)) - rows[s].get(t, Fraction(0)) for t in inner] + [paid[s]] for s in inner]
        return dict(zip(inner, solve_linear(matrix), strict=True)).get(start, Fraction(0))

    def policy_value(self, policy: list[int], sample: int, start: int) -> Fraction | float:
        """V_k(π) from a state."""
        rows = [self.row(c, sample) if c >= 0 else {} for c in policy]
        paid = [self.cost[c][sample] if c >= 0 else Fraction(0) for c in policy]
        return self.chain_value(rows, paid, start)

    def optimal(self, sample: int) -> list[Fraction | float]:
        """V*_k of every state, by enumeration."""
        best: list[Fraction | float] = [INF] * self.states
        for policy in self.policies():
            for s in range(self.states):
                best[s] = min(best[s], self.policy_value(policy, sample, s))
        return best

    def best_deterministic(
        self, gap: list[list[Fraction | float]], allowed: set[int] | None = None
    ) -> Fraction | float:
        """min over policies of max over stationary adversaries of the expected sum of gaps; improper is infinite."""
        return min(self.worst_case(policy, gap) for policy in self.policies(allowed))

    def worst_case(self, policy: list[int], gap: list[list[Fraction | float]]) -> Fraction | float:
        """The worst expected sum of gaps of a policy over all adversaries that pick a sample for each state."""
        worst: Fraction | float = Fraction(0)
        for reply in itertools.product(range(self.samples), repeat=sum(not g for g in self.goal)):
            answers = iter(reply)
            rows, paid = [], []
            for s in range(self.states):
                if self.goal[s]:
                    rows.append({})
                    paid.append(Fraction(0))
                else:
                    k = next(answers)
                    rows.append(self.row(policy[s], k))
                    paid.append(gap[policy[s]][k])
            reached = closure(rows, [self.initial])
            if any(paid[s] == INF for s in reached):
                return INF
            finite = [p if p != INF else Fraction(0) for p in paid]
            worst = max(worst, self.chain_value(rows, finite, self.initial))
            if worst == INF:
                return INF
        return worst

    def regret_gap(self) -> list[list[Fraction | float]]:
        """Q^gap of every choice; at dead ends infinite, so that nobody goes there."""
        best = [self.optimal(k) for k in range(self.samples)]
        gap: list[list[Fraction | float]] = [[INF] * self.samples for _ in self.outcomes]
        for s in range(self.states):
            for c in self.choices[s]:
                for k in range(self.samples):
                    row = self.row(c, k)
                    if best[k][s] != INF and all(best[k][t] != INF for t in row):
                        gap[c][k] = self.cost[c][k] + sum(p * best[k][t] for t, p in row.items()) - best[k][s]
        return gap

    def myopic_gap(self) -> list[list[Fraction | float]]:
        """C̄ − min C̄ of every choice."""
        gap: list[list[Fraction | float]] = [[Fraction(0)] * self.samples for _ in self.outcomes]
        for own in self.choices:
            for c in own:
                for k in range(self.samples):
                    gap[c][k] = self.cost[c][k] - min(self.cost[b][k] for b in own)
        return gap


def closure(rows: list[dict[int, Fraction]], start: list[int]) -> set[int]:
    """Everything that can be reached."""
    seen, queue = set(start), list(start)
    while queue:
        for t in rows[queue.pop()]:
            if t not in seen:
                seen.add(t)
                queue.append(t)
    return seen


def solve_linear(matrix: list[list[Fraction]]) -> list[Fraction]:
    """Gauss–Jordan on an augmented matrix."""
    size = len(matrix)
    for i in range(size):
        pivot = next(r for r in range(i, size) if matrix[r][i] != 0)
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        matrix[i] = [x / matrix[i][i] for x in matrix[i]]
        for r in range(size):
            if r != i and matrix[r][i] != 0:
                matrix[r] = [x - matrix[r][i] * y for x, y in zip(matrix[r], matrix[i], strict=True)]
    return [row[size] for row in matrix]


def controller_value(naive: Naive, policy: rue.Policy, sample: int) -> Fraction | float:
    """V_k of any controller, on the chain of its nodes."""
    twin = object.__new__(Naive)
    twin.goal = [naive.goal[s] for s in policy.node_state]
    rows: list[dict[int, Fraction]] = []
    paid: list[Fraction] = []
    for node in range(policy.nodes):
        row: dict[int, Fraction] = {}
        total = Fraction(0)
        for e in range(policy.entry_ptr[node], policy.entry_ptr[node + 1]):
            weight, choice = Fraction(float(policy.weight[e])), int(policy.choice[e])
            total += weight * naive.cost[choice][sample]
            for i, t in enumerate(naive.outcomes[choice]):
                p = weight * naive.prob[t][sample]
                if p > 0:
                    target = int(policy.next_node[policy.next_ptr[e] + i])
                    row[target] = row.get(target, Fraction(0)) + p
        rows.append(row)
        paid.append(total)
    value: Fraction | float = Fraction(0)
    for node, weight in zip(policy.start_node, policy.start_weight, strict=True):
        part = twin.chain_value(rows, paid, int(node))
        value = INF if part == INF else value + Fraction(float(weight)) * part
        if value == INF:
            return INF
    return value


def matrix_game(matrix: np.ndarray) -> float:
    """min over mixtures of columns of the largest row, by HiGHS."""
    rows, columns = matrix.shape
    found = linprog(
        np.append(np.zeros(columns), 1.0),
        A_ub=np.column_stack([matrix, -np.ones(rows)]),
        b_ub=np.zeros(rows),
        A_eq=[np.append(np.ones(columns), 0.0)],
        b_eq=[1.0],
        bounds=[(0, None)] * columns + [(None, None)],
    )
    return float(found.fun)


Row = tuple[tuple[Fraction | float, dict[int, Fraction]], ...]  # for each sample, what is paid and where it ends


def slot_options(naive: Naive, state: int, steps: int, gap: list, allowed: set[int] | None = None) -> set:
    """The rows of all deterministic (state, time) options from a state, each once."""
    rows = set()

    def decide(time: int, arrived: list[dict[int, Fraction]], paid: list) -> None:
        """Go on with all ways to decide the slots of a time."""
        slots = sorted({s for where in arrived for s in where if not naive.goal[s]})
        if time == steps or not slots:
            rows.add(tuple((p, tuple(sorted(a.items()))) for p, a in zip(paid, arrived, strict=True)))
            return
        own = [[c for c in naive.choices[s] if allowed is None or c in allowed] for s in slots]
        for pick in itertools.product(*own):
            chosen = dict(zip(slots, pick, strict=True))
            after, cost = [], []
            for k, where in enumerate(arrived):
                then: dict[int, Fraction] = {}
                total = paid[k]
                for s, p in where.items():
                    if naive.goal[s]:
                        then[s] = then.get(s, Fraction(0)) + p
                        continue
                    g = gap[chosen[s]][k]
                    total = INF if INF in (g, total) else total + p * g
                    for to, q in naive.row(chosen[s], k).items():
                        then[to] = then.get(to, Fraction(0)) + p * q
                after.append(then)
                cost.append(total)
            decide(time + 1, after, cost)

    decide(0, [{state: Fraction(1)}] * naive.samples, [Fraction(0)] * naive.samples)
    return rows


def best_slot_options(naive: Naive, steps: int, gap: list) -> Fraction | float:
    """min over deterministic options for each state of max over stationary adversaries, by enumeration."""
    inner = [s for s in range(naive.states) if not naive.goal[s]]
    if naive.goal[naive.initial]:
        return Fraction(0)
    options = {s: sorted(slot_options(naive, s, steps, gap), key=str) for s in inner}
    best: Fraction | float = INF
    for joint in itertools.product(*(options[s] for s in inner)):
        best = min(best, _worst_of_rows(naive, dict(zip(inner, joint, strict=True)), best))
    return best


def _worst_of_rows(naive: Naive, option: dict, enough: Fraction | float) -> Fraction | float:
    worst: Fraction | float = Fraction(0)
    for reply in itertools.product(range(naive.samples), repeat=len(option)):
        rows: list[dict[int, Fraction]] = [{} for _ in range(naive.states)]
        paid: list[Fraction | float] = [Fraction(0)] * naive.states
        for (s, row), k in zip(option.items(), reply, strict=True):
            paid[s], rows[s] = row[k][0], dict(row[k][1])
        reached = closure(rows, [naive.initial])
        if any(paid[s] == INF for s in reached):
            return INF
        finite = [p if p != INF else Fraction(0) for p in paid]
        worst = max(worst, naive.chain_value(rows, finite, naive.initial))
        if worst >= enough:
            return worst
    return worst


def pure_trees(naive: Naive, state: int, steps: int, value: list[float], gap: np.ndarray) -> np.ndarray:
    """The cost in each sample of every pure history-dependent option, one column each."""
    samples = naive.samples
    columns = []
    for c in naive.choices[state]:
        targets = sorted({t for k in range(samples) for t in naive.row(c, k)})
        prob = np.array([[float(naive.row(c, k).get(t, 0)) for k in range(samples)] for t in targets])
        behind = []
        for t in targets:
            if naive.goal[t] or steps == 1:
                behind.append(np.full((samples, 1), 0.0 if naive.goal[t] else value[t]))
            else:
                behind.append(pure_trees(naive, t, steps - 1, value, gap))
        for pick in itertools.product(*(range(b.shape[1]) for b in behind)):
            total = gap[c].copy()
            for p, b, j in zip(prob, behind, pick, strict=True):
                total += p * b[:, j]
            columns.append(total)
    return np.unique(np.array(columns), axis=0).T


Vectors = list[
    list[Fraction | float]
]  # what goes on from a state may cost: in each sample, for one policy after another


def policy_regrets(naive: Naive) -> list[Vectors]:
    """At each state the regrets of all stationary deterministic policies from there on, each once."""
    best = [naive.optimal(k) for k in range(naive.samples)]
    found: list[dict[tuple, None]] = [{} for _ in range(naive.states)]
    for policy in naive.policies():
        for s in range(naive.states):
            value = [naive.policy_value(policy, k, s) for k in range(naive.samples)]
            regret = [INF if v == INF else v - best[k][s] for k, v in enumerate(value)]
            found[s][tuple(regret)] = None
    return [[list(vector) for vector in own] for own in found]


def belief_value(
    naive: Naive, weight: list[Fraction], depth: int, gap: list, leaf: list[Vectors] | None = None
) -> Fraction | float:
    """W(s_0, w) = min over policies of Σ_k w_k · (sum of gaps in k), by a tree of all histories that are told apart.

    After `depth` steps nothing more is paid, which gives a lower bound, or the best of the vectors `leaf` of the state
    is. Exact if no history is longer.
    """
    memory: dict[tuple, Fraction | float] = {}

    def value(s: int, w: tuple[Fraction, ...], left: int) -> Fraction | float:
        total = sum(w)
        if naive.goal[s] or total == 0:
            return Fraction(0)
        w = tuple(x / total for x in w)
        key = (s, w, left)
        if key not in memory:
            if left > 0:
                memory[key] = min(follow(c, w, left) for c in naive.choices[s])
            else:
                memory[key] = Fraction(0) if leaf is None else min(dot(w, vector) for vector in leaf[s])
        return INF if memory[key] == INF else total * memory[key]

    def follow(c: int, w: tuple[Fraction, ...], left: int) -> Fraction | float:
        total = dot(w, gap[c])
        for t in naive.outcomes[c]:
            if total == INF:
                break
            total += value(naive.successor[t], tuple(x * p for x, p in zip(w, naive.prob[t], strict=True)), left - 1)
        return total

    return value(naive.initial, tuple(weight), depth)


def dot(weight: tuple[Fraction, ...], vector: list[Fraction | float]) -> Fraction | float:
    """w·v, where zero times infinity is zero."""
    parts = [x * v for x, v in zip(weight, vector, strict=True) if x > 0]
    return INF if INF in parts else sum(parts, Fraction(0))


def sequence_form(
    naive: Naive, depth: int, gap: list, *, leaf: list[Vectors] | None = None, start: list[float] | None = None
) -> float:
    """min over randomised history-dependent policies of max over k of start_k + the sum of gaps in k: a linear program.

    One variable x(h,a) ≥ 0 for each history and choice, Σ_a x(h',a) = x(h,a) for each history h' = (h,a,s'). What
    follows after `depth` steps is as in `belief_value`; to go on with one of the vectors is a choice like any other.
    """
    samples = naive.samples
    column: list[list[float]] = []  # what a variable adds in each sample
    balance: list[tuple[int, int, float]] = []  # row, variable, coefficient; row 0 is the root
    rows = 1

    def visit(s: int, prob: list[Fraction], row: int, left: int) -> None:
        nonlocal rows
        if left == 0:
            for vector in [[Fraction(0)] * samples] if leaf is None else leaf[s]:
                add(row, prob, vector)
            return
        for c in naive.choices[s]:
            x = add(row, prob, gap[c])
            if x is None:
                continue
            for t in naive.outcomes[c]:
                after = [p * q for p, q in zip(prob, naive.prob[t], strict=True)]
                if any(after) and not naive.goal[naive.successor[t]]:
                    balance.append((rows, x, -1.0))
                    rows += 1
                    visit(naive.successor[t], after, rows - 1, left - 1)

    def add(row: int, prob: list[Fraction], paid: list[Fraction | float]) -> int | None:
        """A variable, unless it may cost infinitely much."""
        if any(p > 0 and v == INF for p, v in zip(prob, paid, strict=True)):
            return None
        column.append([float(p * v) if p > 0 else 0.0 for p, v in zip(prob, paid, strict=True)])
        balance.append((row, len(column) - 1, 1.0))
        return len(column) - 1

    begin = np.zeros(samples) if start is None else np.array(start, float)
    if naive.goal[naive.initial]:
        return float(begin.max())
    visit(naive.initial, [Fraction(1)] * samples, 0, depth)
    size = len(column)
    row, variable, coefficient = zip(*balance, strict=True) if balance else ((), (), ())
    found = linprog(
        np.append(np.zeros(size), 1.0),
        A_ub=np.column_stack([np.array(column).reshape(size, samples).T, -np.ones(samples)]),
        b_ub=-begin,
        A_eq=csr_array((coefficient, (row, variable)), shape=(rows, size + 1)),
        b_eq=np.append(1.0, np.zeros(rows - 1)),
        bounds=[(0, None)] * size + [(None, None)],
    )
    assert found.status in {0, 2}, found.message
    return float(found.fun) if found.status == 0 else INF


def tree_size(naive: Naive, depth: int, most: int) -> int:
    """How many choices a tree of all histories has, counted up to `most`."""
    level, count = {naive.initial: 1}, 0
    for _ in range(depth):
        after: dict[int, int] = {}
        for s, number in level.items():
            for c in naive.choices[s]:
                count += number
                for to in {naive.successor[t] for t in naive.outcomes[c] if not naive.goal[naive.successor[t]]}:
                    after[to] = after.get(to, 0) + number
        level = after
        if count > most:
            return most + 1
    return count
