"""Certificates: what is true is accepted, what is not is refused, and no more is proved than holds for every policy."""

import copy
import dataclasses
import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from models import Shape, lively, umdps
from naive import INF, Naive, matrix_game, pure_trees
from scipy.optimize import linprog

import rue
from rue.certificate import Certificate, NotProved, margin, model_fingerprint, verify
from rue.model import Graph
from rue.potential import OneSample, gap_below, safe_potential

MANY = 1e100  # a claim where the truth is infinite


MODELS = st.one_of(umdps(Shape(states=3, samples=3)), st.integers(0, 10**6).map(lively))


def weighted(weight, gap):
    """w·g, where a sample of weight zero does not count."""
    return sum(w * g for w, g in zip(weight, gap, strict=True) if w > 0)


def tree_certificate(model, belief, depth, objective="regret", potential=None):
    """A certificate from all that can happen in `depth` + 1 steps."""
    graph = model.graph
    if potential is None:
        potential = safe_potential(model, rue.optimal_values(model).lower)
    gap, keep = gap_below(model, potential), 1 - 2 * margin(model)
    state, weight, value, follow = [], [], [], []

    def choices(s):
        return range(graph.choice_ptr[s], graph.choice_ptr[s + 1])

    def grow(s, w, left):
        if left == 0 or graph.goal[s] or not w.any():
            return -1, min((weighted(w, gap[c]) for c in choices(s)), default=0.0)
        own = len(state)
        state.append(s)
        weight.append(w)
        value.append(0.0)
        follow.append([])
        least = math.inf
        for c in choices(s):
            total = weighted(w, gap[c])
            for t in range(graph.trans_ptr[c], graph.trans_ptr[c + 1]):
                child, proved = grow(int(graph.successor[t]), w * model.prob[t], left - 1)
                follow[own].append(child)
                total += proved
            least = min(least, total)
        value[own] = min(keep * least, MANY)
        return own, value[own]

    if graph.goal[graph.initial]:
        state, weight, value, follow = [graph.initial], [belief], [0.0], [[]]
    else:
        grow(graph.initial, np.asarray(belief, float), max(depth, 1))
    made = Certificate(
        objective,
        model_fingerprint(model),
        0.0,
        potential,
        np.array(state, int),
        np.array(weight),
        np.array(value),
        np.array([j for row in follow for j in row], int),
    )
    return dataclasses.replace(made, bound=verify(model, made) * (1 - 1e-12))


def circle_certificate(draw, model, belief, objective="regret"):
    """Points at all states with few weights, that follow each other at random, raised together from zero."""
    graph, potential = model.graph, safe_potential(model, rue.optimal_values(model).lower)
    gap, keep = gap_below(model, potential), 1 - 2 * margin(model)
    weights = [belief, np.ones(model.samples), *np.eye(model.samples)]
    inner = [int(s) for s in np.flatnonzero(~graph.goal) if s != graph.initial]
    points = [(graph.initial, w) for w in weights] + [(s, w) for s in inner for w in weights]
    ways = [range(graph.trans_ptr[graph.choice_ptr[s]], graph.trans_ptr[graph.choice_ptr[s + 1]]) for s, _ in points]
    at = {s: [-1, *(j for j, (other, _) in enumerate(points) if other == s)] for s in range(graph.states)}
    follow = [[draw(st.sampled_from(at[int(graph.successor[t])])) for t in own] for own in ways]
    value = [0.0] * len(points)

    def proved(w, to, j):
        if j < 0:
            return min((weighted(w, gap[c]) for c in range(graph.choice_ptr[to], graph.choice_ptr[to + 1])), default=0)
        return value[j] * min(x / y for x, y in zip(w, points[j][1], strict=True) if y > 0)

    for _ in range(draw(st.integers(1, 8))):
        for i, (s, w) in enumerate(points):
            least = math.inf if ways[i] else 0.0
            for c in range(graph.choice_ptr[s], graph.choice_ptr[s + 1]):
                own = range(graph.trans_ptr[c], graph.trans_ptr[c + 1])
                rest = (proved(w * model.prob[t], int(graph.successor[t]), follow[i][t - ways[i].start]) for t in own)
                least = min(least, weighted(w, gap[c]) + sum(rest))
            value[i] = max(value[i], min(keep * least, MANY))
    made = Certificate(
        objective,
        model_fingerprint(model),
        0.0,
        potential,
        np.array([s for s, _ in points]),
        np.array([w for _, w in points]),
        np.array(value),
        np.array([j for own in follow for j in own], int),
    )
    return dataclasses.replace(made, bound=verify(model, made) * (1 - 1e-12))


def exact_gap(model, potential):
    """The gaps of a potential in exact arithmetic; None if one is negative or the potential is none."""
    naive = Naive(model)
    best = [naive.optimal(k) for k in range(model.samples)]
    h = [[INF if x == INF else Fraction(float(x)) for x in row] for row in potential]
    gap = [[INF] * model.samples for _ in naive.outcomes]
    for s, k in itertools.product(range(naive.states), range(model.samples)):
        dead = best[k][s] == INF
        if (h[s][k] == INF and not dead) or h[s][k] < 0 or (naive.goal[s] and h[s][k] != 0):
            return None
        for c in naive.choices[s]:
            row = naive.row(c, k)
            if not dead and all(best[k][to] != INF for to in row):
                gap[c][k] = naive.cost[c][k] + sum(p * h[to][k] for to, p in row.items()) - h[s][k]
                if gap[c][k] < 0:
                    return None
    return gap


def exact_bound(model, certificate, slack=Fraction(0)):
    """The same check in exact arithmetic, with the true optimal values; None if a claim does not follow.

    With `slack`, claims must follow with that fraction to spare.
    """
    naive, gap = Naive(model), exact_gap(model, certificate.potential)
    if gap is None:
        return None
    weight = [[Fraction(float(x)) for x in row] for row in certificate.weight]
    value = [Fraction(float(x)) for x in certificate.value]
    ptr = certificate.follow_ptr(model.graph)
    for i, s in enumerate(certificate.state):
        least, place = (INF if naive.choices[s] else 0), ptr[i]
        for c in naive.choices[s]:
            total = weighted(weight[i], gap[c])
            for t in naive.outcomes[c]:
                there = [w * p for w, p in zip(weight[i], naive.prob[t], strict=True)]
                j, to = certificate.follow[place], naive.successor[t]
                place += 1
                if j < 0:
                    total += min((weighted(there, gap[d]) for d in naive.choices[to]), default=0)
                elif certificate.state[j] != to:
                    return None
                else:
                    total += value[j] * min(x / y for x, y in zip(there, weight[j], strict=True) if y > 0)
            least = min(least, total)
        if value[i] * (1 + slack) > least:
            return None
    rest = Fraction(0)
    for k in range(model.samples):
        minus = naive.optimal(k)[naive.initial] if certificate.objective == "regret" else 0
        rest += weight[0][k] * (Fraction(float(certificate.potential[naive.initial, k])) - minus)
    return max((value[0] + rest) / sum(weight[0]), Fraction(0))


def regrets(model, objective):
    """The exact regrets, or costs, of all stationary deterministic policies that are proper in every sample."""
    naive = Naive(model)
    best = [naive.optimal(k)[naive.initial] if objective == "regret" else 0 for k in range(model.samples)]
    for policy in naive.policies():
        value = [naive.policy_value(policy, k, naive.initial) for k in range(model.samples)]
        if INF not in value:
            yield [v - b for v, b in zip(value, best, strict=True)]


def best_mixture(model, objective):
    """The least max regret, or cost, of a mixture of stationary policies: no lower bound on all policies is above."""
    columns = [[float(x) for x in column] for column in regrets(model, objective)]
    return matrix_game(np.array(columns).T) if columns else INF


def sequence_form(model, depth, gap):
    """min over history-dependent policies of max over k of what `depth` steps cost, and its belief, by HiGHS."""
    graph, cost, flows = model.graph, [], [[]]

    def grow(s, p, left, parent):
        if left == 0 or graph.goal[s]:
            return
        row = flows[0] if parent is None else []
        if parent is not None:
            flows.append(row)
            row.append((parent, -1.0))
        for c in range(graph.choice_ptr[s], graph.choice_ptr[s + 1]):
            if np.isinf(gap[c]).any():
                continue
            own = len(cost)
            cost.append(p * gap[c])
            row.append((own, 1.0))
            for t in range(graph.trans_ptr[c], graph.trans_ptr[c + 1]):
                grow(int(graph.successor[t]), p * model.prob[t], left - 1, own)

    grow(graph.initial, np.ones(model.samples), depth, None)
    size = len(cost)
    equal = np.zeros((len(flows), size + 1))
    for i, row in enumerate(flows):
        for column, x in row:
            equal[i, column] = x
    found = linprog(
        np.append(np.zeros(size), 1.0),
        A_ub=np.column_stack([np.array(cost).T, -np.ones(model.samples)]),
        b_ub=np.zeros(model.samples),
        A_eq=equal,
        b_eq=np.append(1.0, np.zeros(len(flows) - 1)),
        bounds=[(0, None)] * size + [(None, None)],
    )
    belief = np.maximum(-found.ineqlin.marginals, 0.0)
    return float(found.fun), belief / belief.sum()


@st.composite
def acyclic(draw):
    """Models whose states only lead to later ones, with costs and probabilities in eighths."""
    inner, samples = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    states = inner + 1
    transition, cost = np.zeros((samples, states, 2, states)), np.zeros((samples, states, 2))
    for s, a, k in itertools.product(range(inner), range(2), range(samples)):
        for _ in range(8):
            transition[k, s, a, draw(st.integers(s + 1, inner))] += 0.125
        cost[k, s, a] = draw(st.integers(0, 8)) / 8
    return rue.UMDP.from_dense(transition, cost, initial=0, goals=[inner])


def beliefs(samples):
    """Beliefs in which a sample may have no weight."""
    weights = st.lists(st.integers(0, 4), min_size=samples, max_size=samples).filter(any)
    return st.one_of(st.just(np.ones(samples)), weights.map(np.array)).map(lambda w: w / w.sum())


objectives = st.sampled_from(["regret", "cost"])


def loop(prob=(0.5, 0.5), cost=(1.0, 3.0)):
    """One state that stays with some probability, and else is at the goal."""
    transition = np.zeros((2, 2, 1, 2))
    transition[:, 0, 0, 0] = prob
    transition[:, 0, 0, 1] = 1 - np.array(prob)
    return rue.UMDP.from_dense(transition, np.array([[[c], [0.0]] for c in cost]), goals=[1])


def loop_certificate(model, claim, **changes):
    """A single point that supports itself."""
    made = Certificate(
        "cost", model_fingerprint(model), 0.0, np.zeros((2, 2)), np.array([0]), np.full((1, 2), 0.5),
        np.array([claim]), np.array([0, -1]),
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


def hardly_ever_ending(seed):
    """Two states that lead to each other and hardly ever to the goal: factors lose most of their digits."""
    random = np.random.default_rng(seed)
    out = random.integers(1, 1000, 2) * 2.0**-40
    transition = np.zeros((1, 3, 1, 3))
    transition[0, 0, 0, 1:] = 1 - out[0], out[0]
    transition[0, 1, 0, [0, 2]] = 1 - out[1], out[1]
    return rue.UMDP.from_dense(transition, random.integers(1, 9, (1, 3, 1)) / 8, goals=[2])


def free_circle():
    """Two states between which one can move for nothing, with two ways out, and points that support each other.

    Greedy choices could go round for ever. From either state the mean of what the cheaper way out costs is 4.9, and the
    mean of the optimal costs 3.
    """
    third = 1 / 3
    transition = np.zeros((2, 3, 2, 3))
    transition[:, 0, 0, [0, 1]] = transition[:, 1, 0, [1, 0]] = third, 1 - third
    transition[:, 0, 1, 2] = transition[:, 1, 1, 2] = 1.0
    cost = np.array([[[0, 7.1], [0, 3.3], [0, 0]], [[0, 2.7], [0, 9.9], [0, 0]]])
    model = rue.UMDP.from_dense(transition, cost, goals=[2])
    made = tree_certificate(model, np.array([0.5, 0.5]), 1)
    value = np.full(2, 1.9 * (1 - 1e-12))
    return model, dataclasses.replace(
        made, state=[0, 1], weight=np.full((2, 2), 0.5), value=value, follow=[0, 1, -1, 0, 1, -1]
    )


def some_certificate(data, model):
    objective, belief = data.draw(objectives), data.draw(beliefs(model.samples))
    if data.draw(st.booleans()):
        return circle_certificate(data.draw, model, belief, objective)
    return tree_certificate(model, belief, data.draw(st.integers(1, 2)), objective)


@settings(max_examples=60)
@given(st.data())
def test_what_is_proved_is_true_of_every_policy(data):
    model = data.draw(MODELS)
    certificate = some_certificate(data, model)
    objective = certificate.objective
    proved = verify(model, certificate)
    assert certificate.bound <= proved <= exact_bound(model, certificate)
    assert proved <= best_mixture(model, objective) + 1e-9
    for column in regrets(model, objective):
        assert proved <= max(column)
    random = np.random.default_rng(0)
    for _ in range(5):
        weight = random.dirichlet(np.ones(2), model.graph.states)[model.graph.choice_state, model.graph.action % 2]
        total = np.bincount(model.graph.choice_state, weight, minlength=model.graph.states)
        policy = rue.Policy.from_weights(model.graph, weight / total[model.graph.choice_state])
        verdict = rue.evaluate(model, policy)
        reached = verdict.max_regret if objective == "regret" else verdict.value.max()
        assert proved <= reached + verdict.error


@settings(max_examples=60)
@given(st.data())
def test_deeper_trees_prove_more(data):
    model = data.draw(MODELS)
    objective, belief = data.draw(objectives), data.draw(beliefs(model.samples))
    bounds = [verify(model, tree_certificate(model, belief, depth, objective)) for depth in (1, 2, 3)]
    assert bounds[0] <= bounds[1] * (1 + 1e-12) + 1e-12 and bounds[1] <= bounds[2] * (1 + 1e-12) + 1e-12


@settings(max_examples=60)
@given(acyclic())
def test_full_trees_of_acyclic_models_prove_the_value(model):
    naive = Naive(model)
    gap = np.array([[float(x) for x in row] for row in naive.regret_gap()])
    depth = model.graph.states
    exact = matrix_game(pure_trees(naive, naive.initial, depth, [0.0] * depth, gap))
    value, belief = sequence_form(model, depth, gap)
    assert value == pytest.approx(exact, abs=1e-8)
    certificate = tree_certificate(model, belief, depth)
    assert exact - 1e-7 <= verify(model, certificate) <= exact + 1e-9


@settings(max_examples=40)
@given(umdps(Shape(states=3, samples=3, dead_ends=False, same_support=True)), st.integers(2, 3))
def test_trees_equal_the_sequence_form_for_its_belief(model, depth):
    gap = gap_below(model, safe_potential(model, rue.optimal_values(model).lower))
    value, belief = sequence_form(model, depth, gap)
    certificate = tree_certificate(model, belief, depth - 1)
    assert verify(model, certificate) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("stay", [0.5, 0.75, 0.99, 1 - 1e-9])
def test_a_point_may_support_itself(stay):
    model = loop((stay, stay))
    truth = 2.0 / (1 - stay)
    room = 4 * margin(model) / (1 - stay)
    assert verify(model, loop_certificate(model, truth * (1 - room))) == pytest.approx(truth, rel=2 * room)
    with pytest.raises(NotProved, match=r"point 0 at state 0 claims 4\.\d+; only .* follows; 1 points"):
        verify(loop(), loop_certificate(loop(), 4.0 * (1 + 1e-9)))
    with pytest.raises(NotProved):
        verify(model, loop_certificate(model, truth * (1 + room)))


def test_points_may_support_each_other():
    # Two states, each leading to the other with probability a half; the samples differ in their costs alone.
    transition = np.zeros((2, 3, 1, 3))
    transition[:, 0, 0, [1, 2]] = transition[:, 1, 0, [0, 2]] = 0.5
    model = rue.UMDP.from_dense(transition, np.array([[[1.0], [2.0], [0.0]], [[3.0], [0.0], [0.0]]]), goals=[2])
    keep = 1 - 1e-12
    made = Certificate(
        "cost", model_fingerprint(model), 0.0, np.zeros((3, 2)), np.array([0, 1]),
        np.array([[0.5, 0.5], [7.0, 7.0]]), np.array([10 / 3 * keep, 14 * 8 / 3 * keep]), np.array([1, -1, 0, -1]),
    )  # fmt: skip
    assert verify(model, made) == pytest.approx(10 / 3)
    for value in ([10 / 3 * (1 + 1e-9), made.value[1]], [made.value[0], made.value[1] * (1 + 1e-9)], made.value * 1.01):
        with pytest.raises(NotProved):
            verify(model, dataclasses.replace(made, value=np.array(value)))


TAMPERED = ("bound", "belief", "weight", "value", "potential", "follow", "state", "objective", "prob", "cost", "fit")


def tampered(draw, model, made, what):
    """The model and the certificate with one thing changed."""
    change = draw(st.sampled_from([-1.0, -0.1, -1e-6, 1e-6, 0.1, 1.0]))

    def one(array):
        new = np.array(array)
        place = draw(st.integers(0, new.size - 1))
        if np.issubdtype(new.dtype, np.integer):
            new.flat[place] = draw(st.integers(-1, max(made.points, model.graph.states)))
        else:
            before = new.flat[place] if np.isfinite(new.flat[place]) else 1.0
            new.flat[place] = before * (1 + change) + draw(st.sampled_from([0.0, 0.0, 1e-6, 0.1]))
        return new

    if what == "bound":
        return model, dataclasses.replace(made, bound=made.bound * (1 + abs(change)) + 1e-6)
    if what == "objective":
        return model, dataclasses.replace(made, objective="cost" if made.objective == "regret" else "regret")
    if what == "belief":
        return model, dataclasses.replace(made, weight=np.vstack([one(made.weight[:1]), made.weight[1:]]))
    if what in ("prob", "cost", "fit"):
        prob, cost = model.prob, model.cost
        if what == "prob" or (what == "fit" and draw(st.booleans())):
            prob = np.clip(one(prob), 0, None)
            total = np.add.reduceat(prob, model.graph.trans_ptr[:-1])
            assume((total > 0).all())
            prob = prob / np.repeat(total, np.diff(model.graph.trans_ptr), axis=0)
        else:
            cost = np.clip(one(cost), 0, None)
        try:
            other = rue.UMDP(model.graph, prob, cost)
        except rue.BadInput:
            assume(False)
        if what == "fit":  # someone who makes the fingerprint fit as well
            made = dataclasses.replace(made, fingerprint=model_fingerprint(other), bound=0.0)
        else:
            assume(model_fingerprint(other) != made.fingerprint)
        return other, made
    array = getattr(made, what)
    assume(array.size)
    return model, dataclasses.replace(made, **{what: one(array)})


@settings(max_examples=300)
@given(st.data(), st.sampled_from(TAMPERED))
def test_what_was_tampered_with_proves_nothing_false(data, what):
    model = data.draw(MODELS)
    made = some_certificate(data, model)
    model, changed = tampered(data.draw, model, made, what)
    try:
        proved = verify(model, changed)
    except (NotProved, rue.BadInput):
        return
    assert what not in ("bound", "prob", "cost")
    assert proved <= best_mixture(model, changed.objective) + 1e-9
    for column in regrets(model, changed.objective):
        assert proved <= max(column)
    if what != "fit":  # the twin takes rows as they are, which then do not sum to one exactly
        assert proved <= exact_bound(model, changed)


@settings(max_examples=100)
@given(st.data())
def test_a_value_that_is_raised_is_refused(data):
    model = data.draw(MODELS)
    made = tree_certificate(model, np.full(model.samples, 1 / model.samples), 2, data.draw(objectives))
    raised = np.flatnonzero((made.value > 0) & (made.value < MANY))
    assume(raised.size)
    value = made.value.copy()
    value[data.draw(st.sampled_from(list(raised)))] *= 1 + 1e-6
    with pytest.raises(NotProved, match="claim"):
        verify(model, dataclasses.replace(made, value=value))


@settings(max_examples=100)
@given(st.data())
def test_the_exact_twin_agrees(data):
    # What does not follow is refused, and what follows with more to spare than rounding takes is accepted.
    model = data.draw(MODELS)
    made = some_certificate(data, model)
    factor = np.array([data.draw(st.sampled_from([0.5, 1 - 1e-6, 1 + 1e-6])) for _ in range(made.points)])
    value = np.where(made.value < 1e-6, 0.0, np.minimum(made.value * factor, MANY))
    changed = dataclasses.replace(made, value=value, bound=0.0)
    exact = exact_bound(model, changed)
    if exact is None:
        with pytest.raises(NotProved):
            verify(model, changed)
    elif exact_bound(model, changed, Fraction(1, 10**7)) is not None:
        assert verify(model, changed) == pytest.approx(float(exact), abs=1e-9)


@settings(max_examples=150)
@given(st.one_of(umdps(Shape(states=4, samples=2)), st.integers(0, 10**6).map(lively)), st.booleans())
def test_dead_ends_gaps_and_least_costs(model, informed):
    values = rue.optimal_values(model)
    potential = safe_potential(model, values.lower) if informed else np.zeros_like(values.lower)
    naive, gap, exact = Naive(model), gap_below(model, potential), exact_gap(model, potential)
    for k in range(model.samples):
        sample, best = OneSample.of(model, k), naive.optimal(k)
        assert [bool(x) for x in ~sample.alive] == [x == INF for x in best]
        least = sample.least_cost(potential[:, k])
        assert best[naive.initial] <= Fraction(least) <= best[naive.initial] + Fraction(1, 10**9)
        for c in range(model.graph.choices):
            assert 0 <= gap[c, k] <= exact[c][k] and (gap[c, k] == INF) == (exact[c][k] == INF)
    if informed:
        close = np.where(sample.alive, potential[:, -1], 0) - np.where(sample.alive, values.lower[:, -1], 0)
        assert np.abs(close).max() <= 1e-9


@settings(max_examples=150)
@given(MODELS, st.integers(0, 10**6))
def test_gaps_that_rounding_may_have_made_negative_are_refused(model, seed):
    values, random = rue.optimal_values(model), np.random.default_rng(seed)
    nudge = 1 + random.integers(-8, 9, values.lower.shape) * 2.0**-53
    potential = np.where(values.dead, INF, values.value * nudge)
    try:
        gap = gap_below(model, potential)
    except NotProved:
        return
    exact = exact_gap(model, potential)
    assert exact is not None
    assert all(0 <= g <= e for row, twin in zip(gap, exact, strict=True) for g, e in zip(row, twin, strict=True))


@pytest.mark.parametrize(
    "domain",
    [rue.domains.Medical(seed=1), rue.domains.Medical(seed=2), rue.domains.Disaster(width=4, height=4, seed=1)],
)
def test_domains(domain):
    model = domain.sample(5, seed=1)
    policy = rue.solve(model, rue.Mixture()).policy
    verdict = rue.evaluate(model, policy)
    for objective, reached in (("regret", verdict.max_regret), ("cost", float(verdict.value.max()))):
        certificate = tree_certificate(model, np.full(5, 0.2), 2, objective)
        proved = verify(model, certificate)
        assert 0 < proved <= reached
        assert verify(model, copy.deepcopy(certificate)) == proved
        assert verify(model, pickle.loads(pickle.dumps(certificate))) == proved
    best = rue.optimal_values(model).value[model.graph.initial]
    assert proved >= best.mean() * (1 - 1e-9)  # the worst case costs at least the mean of the optimal costs


def test_one_sample_and_a_goal_at_the_start():
    model = loop().subset([1])
    made = tree_certificate(model, np.ones(1), 2)
    assert verify(model, made) == 0.0
    assert verify(model, tree_certificate(model, np.ones(1), 2, "cost")) == pytest.approx(6.0)
    start = Graph(np.array([0, 0, 1]), np.array([0]), np.array([0, 1]), np.array([0]), 0)
    only = Graph(np.array([0, 0]), np.array([], int), np.array([0]), np.array([], int), 0)
    for graph in (start, only):
        model = rue.UMDP(graph, np.ones((graph.transitions, 2)), np.ones((graph.choices, 2)))
        for objective in ("regret", "cost"):
            certificate = tree_certificate(model, np.full(2, 0.5), 2, objective)
            assert verify(model, certificate) == 0.0
            with pytest.raises(NotProved):
                verify(model, dataclasses.replace(certificate, value=np.array([1e-9])))


def test_dead_ends_must_be_real():
    # Action 1 is a trap in sample 0 and free in sample 1; the trap has a way out there.
    transition = np.zeros((2, 3, 2, 3))
    transition[:, 0, 0, 2] = transition[:, 0, 1, 1] = 1.0
    transition[0, 1, 0, 1] = transition[1, 1, 0, 2] = 1.0
    cost = np.array([[[4.0, 1.0], [1.0, 0], [0, 0]], [[8.0, 0.0], [1.0, 0], [0, 0]]])
    model = rue.UMDP.from_dense(transition, cost, goals=[2])
    certificate = tree_certificate(model, np.array([0.5, 0.5]), 2)
    assert certificate.potential[1, 0] == INF
    assert verify(model, certificate) == pytest.approx(3.5)  # any policy must avoid the trap
    assert verify(model, tree_certificate(model, np.array([0.0, 1.0]), 2)) == 0.0
    potential = certificate.potential.copy()
    potential[1, 0] = 1.0  # not needed
    assert verify(model, dataclasses.replace(certificate, potential=potential)) == pytest.approx(3.5)
    potential[1, 1] = INF
    with pytest.raises(NotProved, match="potential of state 1 is inf in sample 1; expected 0 or more, and infinite"):
        verify(model, dataclasses.replace(certificate, potential=potential))


def test_a_potential_above_the_costs_is_refused():
    model = loop((1 - 1e-13, 0.5), (1.0, 3.0))
    for height, fine in ((0.999e13, True), (1.001e13, False), (1e30, False)):
        potential = np.array([[height, 6.0 * (1 - 1e-12)], [0.0, 0.0]])
        certificate = loop_certificate(model, 0.0, potential=potential, bound=0.4 * height)
        if fine:
            assert verify(model, certificate) == pytest.approx(0.5 * height + 3)
        else:
            with pytest.raises(NotProved, match=r"the gap of choice 0 \(state 0.* in sample 0; expected 0 or more"):
                verify(model, certificate)
    for wrong, place in ((-1.0, (0, 0)), (np.nan, (0, 0)), (1e308, (0, 0)), (1.0, (1, 0)), (INF, (0, 1))):
        potential = np.zeros((2, 2))
        potential[place] = wrong
        with pytest.raises(NotProved, match="the potential of state"):
            verify(model, loop_certificate(model, 0.0, potential=potential))


def test_where_moving_is_free():
    keep, (model, circle) = 1 - 1e-12, free_circle()
    assert verify(model, circle) == pytest.approx(1.9)
    for value in ([1.9 * (1 + 1e-9)] * 2, [1.9 * keep, 1.9 * keep * (1 + 1e-13)], [1.8, 1.9 * keep]):
        with pytest.raises(NotProved):
            verify(model, dataclasses.replace(circle, value=np.array(value)))
    for k, least in enumerate((3.3, 2.7)):
        assert OneSample.of(model, k).least_cost(np.zeros(3)) == pytest.approx(least, rel=1e-12)
    rough = np.array([[3.3 * (1 + 1e-15), 2.7], [3.3, 2.7 * (1 + 1e-15)], [0, 0]])
    safe = safe_potential(model, rough)
    assert (safe <= rough).all() and safe == pytest.approx(rough, rel=1e-11)
    gap_below(model, safe)


def test_least_costs_of_slow_chains():
    for seed in range(20):
        model = hardly_ever_ending(seed)
        exact = Naive(model).optimal(0)[0]
        least = OneSample.of(model, 0).least_cost(np.zeros(3))
        assert exact <= Fraction(least) <= exact * (1 + Fraction(1, 1000))


def test_chances_beyond_all_numbers():
    # State 1, which nobody needs, is left with a probability of 1e-300.
    transition = np.zeros((1, 4, 2, 4))
    transition[0, 0, 0, 3] = transition[0, 0, 1, 1] = transition[0, 2, 0, 1] = 1.0
    transition[0, 1, 0, [2, 3]] = 1.0, 1e-300
    model = rue.UMDP.from_dense(transition, np.full((1, 4, 2), 2.0), goals=[3])
    assert OneSample.of(model, 0).least_cost(np.zeros(4)) == pytest.approx(2.0)
    certificate = tree_certificate(model, np.ones(1), 3, potential=np.zeros((4, 1)))
    assert verify(model, certificate) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("out", [5e-324, 1e-310, 1e-200])
def test_chances_that_vanish_in_products_prove_nothing_false(out):
    # One stays for free, and is at the goal in the end, since 5e-324 is more than zero: no policy costs anything.
    model = rue.UMDP(loop().graph, [[1.0, 1.0], [out, out]], [[0.0, 0.0]])
    with pytest.raises(NotProved, match=r"point 0 at state 0 claims 0\.4"):
        verify(model, loop_certificate(model, 0.4))


def test_tiny_weights_prove_nothing_false():
    model = loop()
    for tiny in (5e-324, 1e-310, 1e-100):
        made = loop_certificate(model, 4 * (1 - 1e-12), weight=np.array([[1.0, tiny]]))
        with pytest.raises(NotProved):
            verify(model, made)
        assert verify(model, dataclasses.replace(made, value=np.array([2 * (1 - 1e-12)]))) == pytest.approx(2.0)
        with pytest.raises(rue.BadInput, match="weight"):
            points = np.vstack([[0.5, 0.5], [tiny, tiny]])
            follow = [0, -1, 0, -1]
            verify(model, loop_certificate(model, 1, state=[0, 0], value=[1.0, 0.0], weight=points, follow=follow))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fingerprint": "0" * 32}, "for another model"),
        ({"potential": np.zeros((3, 2))}, "potential"),
        ({"state": np.zeros((1, 1), int)}, "state"),
        ({"state": np.array([], int)}, "state"),
        ({"state": np.array([2])}, "state is out of range"),
        ({"state": np.array([-1])}, "state is out of range"),
        ({"state": np.array([1]), "follow": np.array([], int)}, "initial state"),
        ({"state": np.array([0.5])}, "state of the certificate"),
        ({"weight": np.ones((1, 3)) / 3}, "weight"),
        ({"weight": np.array([[0.5, 0.4]])}, "sum to 1"),
        ({"weight": np.array([[1.5, -0.5]])}, "weight is negative"),
        ({"weight": np.array([[np.nan, 0.5]])}, "weight is negative or no number"),
        ({"weight": "heavy"}, "weight of the certificate"),
        ({"value": np.zeros(2)}, "value"),
        ({"value": np.array([np.nan])}, "value is negative or no number"),
        ({"value": np.array([np.inf])}, "value is negative or no number"),
        ({"value": np.array([-1.0])}, "value is negative"),
        ({"follow": np.array([0])}, "follow has no entry"),
        ({"follow": np.array([0, 1])}, "follow is out of range"),
        ({"follow": np.array([-2, 0])}, "follow is out of range"),
        ({"follow": np.array([0, 0])}, "point 0 is followed by point 0 at state 0; expected one at state 1"),
        ({"objective": "profit"}, "unknown objective"),
        ({"bound": np.nan}, "bound"),
    ],
)
def test_malformed_certificates(changes, message):
    with pytest.raises(rue.BadInput, match=message):
        verify(loop(), loop_certificate(loop(), 1.0, **changes))


def test_what_is_no_certificate_and_what_claims_too_much():
    model, made = loop(), loop_certificate(loop(), 4 * (1 - 1e-12))
    with pytest.raises(rue.BadInput, match=r"rue\.Certificate"):
        verify(model, "trust me")
    with pytest.raises(rue.BadInput, match=r"rue\.UMDP"):
        verify("model", made)
    with pytest.raises(NotProved, match=r"claims a bound of 4\.00000001; its points prove 3\.99"):
        verify(model, dataclasses.replace(made, bound=4.00000001))
    with pytest.raises(rue.BadInput, match="another model"):
        verify(loop(cost=(1.0, 3.0 + 1e-15)), made)
    assert "cost of every policy at least 0, 1 points" in repr(made)
    assert not made.value.flags.writeable and (made.belief == 0.5).all()
