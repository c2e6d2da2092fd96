"""The paper's propositions, as far as they hold, and the one that does not, where it fails."""

import dataclasses
import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from models import Shape, umdps
from naive import INF, Naive, controller_value

import rue
from rue.theory import adversary_regret, constants, option_model, option_policy

PROP5 = Path(__file__).parent / "data" / "cases" / "prop5.json"
SMALL = Shape(states=3, samples=2)
LARGE = Shape(states=4, samples=3)
TAME = Shape(states=3, samples=2, dead_ends=False, same_support=True, zero_costs=False)


@st.composite
def controllers(draw: st.DrawFn, model: rue.UMDP, nodes: int = 2) -> rue.Policy:
    """Random finite-memory policies: up to `nodes` nodes a state, random choices, random starts."""
    graph = model.graph
    copies = draw(st.integers(1, nodes))
    entries, choice, weight, following = [], [], [], []
    for node in range(copies * graph.states):
        own = list(range(graph.choice_ptr[node % graph.states], graph.choice_ptr[node % graph.states + 1]))
        if len(own) > 1 and draw(st.booleans()):
            own, share = own[:2], [0.25, 0.75]
        else:
            own, share = own[: draw(st.integers(1, 2))][-1:], [1.0]
        entries.append(len(own))
        choice += own
        weight += share[: len(own)]
        for c in own:
            for t in range(graph.trans_ptr[c], graph.trans_ptr[c + 1]):
                following.append(int(graph.successor[t]) + graph.states * draw(st.integers(0, copies - 1)))
    length = np.diff(graph.trans_ptr)[np.array(choice, int)]
    start = draw(st.sampled_from([[1.0], [0.5, 0.5]])) if copies > 1 else [1.0]
    return rue.Policy(
        graph,
        node_state=np.tile(np.arange(graph.states), copies),
        entry_ptr=np.concatenate(([0], np.cumsum(entries))),
        choice=np.array(choice, int),
        weight=np.array(weight),
        next_ptr=np.concatenate(([0], np.cumsum(length))),
        next_node=np.array(following, int),
        start_node=graph.initial + graph.states * np.arange(len(start)),
        start_weight=np.array(start),
    )


Row = dict[int, Fraction]


class Adversary:
    """max over σ^n of reg(s_0, π) in exact arithmetic, by enumeration of all that the adversary can do."""

    def __init__(self, naive: Naive, gap: list[list[Fraction | float]], policy: rue.Policy, steps: int) -> None:
        self.naive, self.policy, self.steps = naive, policy, steps
        self.goal = [naive.goal[s] for s in policy.node_state]
        self.paid: list[list[Fraction | float]] = []
        self.rows: list[list[Row]] = []
        for node in range(policy.nodes):
            paid: list[Fraction | float] = [Fraction(0)] * naive.samples
            rows: list[Row] = [{} for _ in range(naive.samples)]
            for e in range(policy.entry_ptr[node], policy.entry_ptr[node + 1]):
                weight, choice = Fraction(float(policy.weight[e])), int(policy.choice[e])
                for k in range(naive.samples):
                    paid[k] += weight * gap[choice][k] if gap[choice][k] != INF else INF
                    for i, t in enumerate(naive.outcomes[choice]):
                        if naive.prob[t][k] > 0:
                            to = int(policy.next_node[policy.next_ptr[e] + i])
                            rows[k][to] = rows[k].get(to, Fraction(0)) + weight * naive.prob[t][k]
            self.paid.append(paid)
            self.rows.append(rows)

    def option(self, start: Row, sample: int) -> tuple[Fraction | float, Row]:
        """What n steps in a sample pay, and where they lead."""
        paid: Fraction | float = Fraction(0)
        for _ in range(self.steps):
            after: Row = {}
            for node, p in start.items():
                if self.goal[node]:
                    after[node] = after.get(node, Fraction(0)) + p
                    continue
                paid = INF if INF in (paid, self.paid[node][sample]) else paid + p * self.paid[node][sample]
                for to, q in self.rows[node][sample].items():
                    after[to] = after.get(to, Fraction(0)) + p * q
            start = after
        return paid, start

    def value(self) -> Fraction | float:
        policy, samples = self.policy, range(self.naive.samples)
        first: Row = {}
        for node, w in zip(policy.start_node, policy.start_weight, strict=True):
            first[int(node)] = first.get(int(node), Fraction(0)) + Fraction(float(w))
        begin = [self.option(first, k) for k in samples]
        options = [[self.option({i: Fraction(1)}, k) for k in samples] for i in range(policy.nodes)]
        seen, queue = set(), [i for _, row in begin for i in row]
        while queue:
            i = queue.pop()
            if i not in seen and not self.goal[i]:
                seen.add(i)
                queue += [j for _, row in options[i] for j in row]
        moves = sorted(seen)
        worst: Fraction | float = Fraction(0)
        for reply in itertools.product(samples, repeat=len(moves)):
            answer = dict(zip(moves, reply, strict=True))
            for k in samples:
                worst = max(worst, self.one(begin[k], options, answer))
                if worst == INF:
                    return INF
        return worst

    def one(self, begin: tuple[Fraction | float, Row], options: list, answer: dict[int, int]) -> Fraction | float:
        twin = object.__new__(Naive)
        root = len(options)
        twin.goal = [*self.goal, False]
        rows = [options[i][answer[i]][1] if i in answer else {} for i in range(root)]
        paid = [options[i][answer[i]][0] if i in answer else Fraction(0) for i in range(root)]
        rows, paid = [*rows, begin[1]], [*paid, begin[0]]
        reached = {root}
        while True:
            more = reached | {j for i in reached for j in rows[i]}
            if more == reached:
                break
            reached = more
        if any(paid[i] == INF for i in reached):
            return INF
        return twin.chain_value(rows, [Fraction(0) if p == INF else p for p in paid], root)


@settings(max_examples=150)
@given(st.data())
def test_adversary_regret_contains_the_enumerated_one(data):
    model = data.draw(umdps(SMALL))
    policy = data.draw(controllers(model))
    assume(policy.nodes - model.graph.goal[policy.node_state].sum() <= 8)
    naive = Naive(model)
    gap = naive.regret_gap()
    largest = max(1.0, float(rue.optimal_values(model).lower[model.graph.initial].max()))
    for steps in (1, 2, 3):
        exact = Adversary(naive, gap, policy, steps).value()
        found = adversary_regret(model, policy, steps)
        assert found.lower <= exact <= found.upper
        if exact != INF:  # a regret near zero is a difference of values
            assert found.width <= 1e-7 * max(largest, found.upper)


@settings(max_examples=150)
@given(st.data())
def test_proposition_1_the_gaps_of_a_policy_come_to_its_regret(data):
    model = data.draw(umdps(LARGE))
    policy = data.draw(controllers(model))
    naive = Naive(model)
    gap = naive.regret_gap()
    verdict = rue.evaluate(model, policy)
    paid = object.__new__(Naive)
    paid.__dict__.update(naive.__dict__)
    for k in range(model.samples):
        if verdict.value[k] == INF:
            continue
        # The costs replaced by the gaps: the cost of a policy is then its regret, exactly.
        paid.cost = [[Fraction(0) if g == INF else g for g in row] for row in gap]
        exact = controller_value(naive, policy, k) - naive.optimal(k)[naive.initial]
        assert controller_value(paid, policy, k) == exact
        assert abs(float(exact) - verdict.regret[k]) <= verdict.error + 1e-12


@settings(max_examples=150)
@given(st.data(), st.booleans())
def test_proposition_3_bounds_what_the_adversary_adds(data, visited):
    model = data.draw(umdps(LARGE))
    policy = data.draw(controllers(model))
    found = constants(model, policy, visited=visited)
    assert found.adversary.upper >= found.true.lower
    assert found.excess.lower <= found.bound
    assert found.H == INF or found.adversary.upper < INF
    if visited:
        assert found.bound <= constants(model, policy).bound
    if model.samples == 1:
        assert found.delta_C <= 1e-12 and found.delta_T == 0 and found.delta_V <= 1e-7
        assert found.excess.lower <= 1e-9


@settings(max_examples=100)
@given(st.data())
def test_the_constants_are_what_they_say(data):
    model = data.draw(umdps(SMALL))
    policy = data.draw(controllers(model))
    naive = Naive(model)
    found = constants(model, policy)
    pairs = list(itertools.product(range(model.samples), repeat=2))
    choices = range(len(naive.outcomes))
    assert found.delta_C == pytest.approx(
        float(max(abs(naive.cost[c][i] - naive.cost[c][j]) for c in choices for i, j in pairs)), abs=1e-12
    )
    distance = [
        sum(abs(naive.row(c, i).get(s, 0) - naive.row(c, j).get(s, 0)) for s in range(naive.states))
        for c in choices
        for i, j in pairs
    ]
    assert found.delta_T == pytest.approx(float(max(distance)) / 2, abs=1e-12)
    best = [naive.optimal(k) for k in range(model.samples)]
    alive = [s for s in range(naive.states) if any(best[k][s] != INF for k in range(model.samples))]
    if any(best[k][s] == INF for s in alive for k in range(model.samples)):
        assert found.delta_V == INF
    else:
        exact = max(abs(best[i][s] - best[j][s]) for s in alive for i, j in pairs)
        assert exact <= found.delta_V <= float(exact) + 1e-7
    assert found.C_max == max(float(c) for row in naive.cost for c in row)
    # H with every step paid one, from each node that can be visited, against all adversaries.
    ones = [[Fraction(1)] * model.samples for _ in naive.cost]
    longest = 0.0
    for node in visited_nodes(model, policy):
        longest = max(longest, Adversary(naive, ones, started(policy, node), 1).value())
    assert found.H == INF if longest == INF else longest <= found.H <= float(longest) * (1 + 1e-9)


def started(policy: rue.Policy, node: int) -> rue.Policy:
    """The policy as it goes on from a node."""
    g = policy.graph
    graph = rue.Graph(g.choice_ptr, g.action, g.trans_ptr, g.successor, int(policy.node_state[node]))
    return dataclasses.replace(policy, graph=graph, start_node=np.array([node]), start_weight=np.ones(1))


def visited_nodes(model: rue.UMDP, policy: rue.Policy) -> list[int]:
    seen, queue = set(), [int(n) for n in policy.start_node]
    while queue:
        node = queue.pop()
        if node in seen or model.graph.goal[policy.node_state[node]]:
            continue
        seen.add(node)
        for e in range(policy.entry_ptr[node], policy.entry_ptr[node + 1]):
            own = model.graph.trans_choice == policy.choice[e]
            live = (model.prob[own] > 0).any(axis=1)
            queue += [int(n) for n in policy.next_node[policy.next_ptr[e] : policy.next_ptr[e + 1]][live]]
    return sorted(seen)


@settings(max_examples=150)
@given(st.data())
def test_proposition_5_first_half_and_fewer_moves_for_the_adversary(data):
    model = data.draw(umdps(LARGE))
    policy = data.draw(controllers(model))
    true = rue.evaluate(model, policy)
    by_steps = {n: adversary_regret(model, policy, n) for n in (1, 2, 3, 4, 6)}
    for n, found in by_steps.items():
        assert found.upper >= true.max_regret - true.error
        assert all(other.lower <= found.upper for more, other in by_steps.items() if more % n == 0)


@settings(max_examples=60)
@given(st.data())
def test_with_options_beyond_the_episode_the_adversary_has_one_sample(data):
    model = data.draw(umdps(TAME))
    policy = data.draw(controllers(model))
    true = rue.evaluate(model, policy)
    assume(constants(model, policy).H < 8)
    found = adversary_regret(model, policy, 600)
    assert found.lower - 1e-7 <= true.max_regret <= found.upper + true.error
    assert found.upper == pytest.approx(true.max_regret, abs=1e-6)


def random_options(data, model: rue.UMDP, steps: int, randomised: bool) -> np.ndarray:
    graph = model.graph
    choice = np.full((graph.states, steps, graph.states), -1)
    for began, time, state in itertools.product(range(graph.states), range(steps), np.flatnonzero(~graph.goal)):
        choice[began, time, state] = data.draw(st.integers(graph.choice_ptr[state], graph.choice_ptr[state + 1] - 1))
    if not randomised:
        return choice
    weight = np.zeros((graph.states, steps, graph.choices))
    for began, time, state in itertools.product(range(graph.states), range(steps), np.flatnonzero(~graph.goal)):
        weight[began, time, choice[began, time, state]] += 0.5
        weight[began, time, graph.choice_ptr[state]] += 0.5
    return weight


@settings(max_examples=80)
@given(st.data(), st.integers(1, 3), st.booleans())
def test_option_model_is_the_sum_of_gaps(data, steps, randomised):
    """C^o by the paper's formula, V^n + Σ T^o V* − V*, equals the gaps on the way, and T^o the chance to be there."""
    model = data.draw(umdps(SMALL))
    options = random_options(data, model, steps, randomised)
    found = option_model(model, options)
    assert found.steps == steps
    naive = Naive(model)
    gap = naive.regret_gap()
    for began, k in itertools.product(range(naive.states), range(model.samples)):
        place = {began: Fraction(1)}
        paid: Fraction | float = Fraction(0)
        for time in range(steps):
            after = {s: p for s, p in place.items() if naive.goal[s]}
            for s, p in place.items():
                for c in naive.choices[s]:
                    x = Fraction(float(options[began, time, c])) if randomised else int(options[began, time, s] == c)
                    if x:
                        paid = INF if INF in (paid, gap[c][k]) else paid + p * x * gap[c][k]
                        for to, q in naive.row(c, k).items():
                            after[to] = after.get(to, Fraction(0)) + p * x * q
            place = after
        assert found.cost[k, began] == pytest.approx(float(paid), abs=1e-6)
        np.testing.assert_allclose(found.transition[k, began], [float(place.get(s, 0)) for s in range(naive.states)])


@settings(max_examples=100)
@given(st.data(), st.integers(1, 3), st.booleans())
def test_proposition_4_regret_against_the_adversary_is_the_robust_cost_of_the_option_model(data, steps, randomised):
    model = data.draw(umdps(SMALL))
    options = random_options(data, model, steps, randomised)
    policy = option_policy(model, options)
    found = adversary_regret(model, policy, steps)
    exact = robust_cost(option_model(model, options), model)
    assert found.upper == pytest.approx(exact, abs=1e-6)


def robust_cost(options, model: rue.UMDP) -> float:
    """max over σ of the cost of the n-step option MDP, by enumeration of stationary adversaries."""
    samples, states = options.cost.shape
    goal = model.graph.goal
    worst = 0.0
    for reply in itertools.product(range(samples), repeat=states):
        rows = options.transition[reply, np.arange(states)]
        paid = options.cost[reply, np.arange(states)]
        seen = np.zeros(states, bool)
        seen[model.graph.initial] = True
        for _ in range(states):
            seen |= rows[seen & ~goal].any(axis=0)
        hopeful = goal.copy()
        for _ in range(states):
            hopeful |= rows[:, hopeful].any(axis=1)
        if (seen & ~hopeful).any():
            return INF
        inner = np.flatnonzero(seen & ~goal)
        value = np.linalg.solve(np.eye(inner.size) - rows[np.ix_(inner, inner)], paid[inner])
        worst = max(worst, float(value[inner == model.graph.initial].max(initial=0.0)))
    return worst


@settings(max_examples=40)
@given(umdps(TAME))
def test_proposition_4_for_the_best_options(model):
    """At n = 1 the n-step option model is a model in which the gaps are the costs: its robust policy is reg's."""
    assume(not model.graph.goal[model.graph.initial])
    gap = rue.values.regret_gap(model, rue.optimal_values(model))
    assume(np.isfinite(gap).all())
    twin = rue.UMDP(model.graph, model.prob, gap)
    regret = rue.solve(model, rue.Regret(prune=False))
    robust = rue.solve(twin, rue.WorstCase())
    # Both intervals are proved, so they overlap; where one is wide, the other need not end where it does.
    assert overlap(regret.objective, robust.objective)
    found = adversary_regret(model, regret.policy)
    assert overlap(found, rue.Interval(regret.objective.lower, np.inf))
    assert found.upper <= regret.objective.upper + 1e-6


def overlap(one: rue.Interval, other: rue.Interval) -> bool:
    return max(one.lower, other.lower) <= min(one.upper, other.upper) + 1e-9


def test_proposition_5_second_half_fails_for_options_that_look_at_state_and_time_alone():
    case = json.loads(PROP5.read_text())
    raw = case["model"]
    model = rue.UMDP.from_dense(raw["transition"], raw["cost"], initial=raw["initial"], goals=raw["goals"])
    graph = model.graph
    # Both actions of a state are alike in every state but 4, so that nothing else has to be enumerated.
    first = np.where(graph.goal, -1, np.minimum(graph.choice_ptr[:-1], graph.choices - 1))
    for state in {*range(graph.states)} - {4, 5}:
        a, b = graph.choice_ptr[state], graph.choice_ptr[state] + 1
        assert (model.cost[a] == model.cost[b]).all()
        rows = [slice(graph.trans_ptr[c], graph.trans_ptr[c + 1]) for c in (a, b)]
        assert (model.prob[rows[0]] == model.prob[rows[1]]).all()
        assert (graph.successor[rows[0]] == graph.successor[rows[1]]).all()
    after = [{int(t) for t in graph.successor[graph.trans_choice == c]} for c in first]
    best = {}
    for steps in (1, 2, 3, 4):
        table = np.tile(first, (graph.states, steps, 1))
        crossroads = where_it_matters(after, steps)
        found = []
        for taken in itertools.product((0, 1), repeat=len(crossroads)):
            for (began, time), action in zip(crossroads, taken, strict=True):
                table[began, time, 4] = graph.choice_ptr[4] + action
            found.append(adversary_regret(model, option_policy(model, table), steps).upper)
        best[steps] = min(found)
        assert best[steps] == pytest.approx(case["values"]["reg"][f"deterministic_{steps}"], abs=1e-9)
    assert best[2] == pytest.approx(0.0, abs=1e-9)
    assert best[4] == pytest.approx(5.0)


def where_it_matters(after: list[set[int]], steps: int) -> list[tuple[int, int]]:
    """The options and their steps at which state 4 may be met, from state 0 on; `after` are the successors."""
    found, begun, queue = set(), set(), [0]
    while queue:
        began = queue.pop()
        if began in begun or not after[began]:
            continue
        begun.add(began)
        place = {began}
        for time in range(steps):
            if 4 in place:
                found.add((began, time))
            place = {t for s in place for t in after[s]}
        queue += place
    return sorted(found)


def test_options_are_refused_in_one_line():
    model = rue.domains.Medical(seed=1).sample(2, seed=1)
    graph = model.graph
    first = np.where(graph.goal, -1, np.minimum(graph.choice_ptr[:-1], graph.choices - 1))
    good = np.tile(first, (graph.states, 2, 1))
    for options, message in (
        (good[0], "options has shape"),
        (np.where(good >= 0, 0, -1), "expected a choice of that state, or -1"),
        (np.where(np.arange(2)[:, None] == 1, -1, good), "has no choice at step 1"),
        (np.full((graph.states, 2, graph.choices), 0.3), "1 in sum, or none"),
    ):
        for use in (option_model, option_policy):
            with pytest.raises(rue.BadInput, match=message):
                use(model, options)
    with pytest.raises(rue.BadInput, match="steps is 0"):
        adversary_regret(model, option_policy(model, good), 0)
    # A stationary policy is a table of options that are all alike.
    stationary = rue.Policy.from_choices(graph, first)
    for steps in (1, 2, 5):
        a, b = (adversary_regret(model, p, steps) for p in (stationary, option_policy(model, good)))
        assert a.upper == pytest.approx(b.upper)


def test_the_bound_on_the_domains():
    model = rue.domains.Disaster(width=6, height=6, seed=4).sample(5, seed=1)
    solution = rue.solve(model, rue.Regret())
    found = constants(model, solution.policy)
    assert found.adversary.lower == pytest.approx(solution.objective.upper, rel=1e-6)
    assert found.true.upper == pytest.approx(solution.max_regret.upper, abs=1e-9)
    assert 0 <= found.excess.lower <= found.excess.upper <= found.bound
    by_steps = [adversary_regret(model, solution.policy, n) for n in (1, 2, 4, 8, 64)]
    for more, fewer in itertools.pairwise(by_steps):
        assert fewer.lower <= more.upper
    assert by_steps[-1].upper == pytest.approx(found.true.upper, rel=1e-2)
