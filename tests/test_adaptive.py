"""Adaptive and its lower bounds: against exact programs over all histories, against all solvers, and under limits."""

import json
import math
import os
import signal
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from models import Shape, controllers, umdps
from naive import INF, Naive, belief_value, controller_value, policy_regrets, sequence_form, tree_size
from numba import njit

import rue
from rue.adaptive.belief_graph import BeliefGraph
from rue.adaptive.belief_kernels import VECTORS
from rue.adaptive.expansion_kernels import _find
from rue.adaptive.portfolio import start_policies
from rue.controllers import merged
from rue.judge import is_proper
from rue.model import typical_cost
from rue.parsing import METHODS, parse_method

CASES = sorted((Path(__file__).parent / "data" / "cases").glob("*.json"))
SOLVED, UNPROVED, INFEASIBLE = rue.Status.SOLVED, rue.Status.UNPROVED, rue.Status.INFEASIBLE


def adaptive(model: rue.UMDP, *, seconds: float = 20, iterations: float = INF, **parameters) -> rue.Solution:
    """Solve, and check what must hold of each solution whatever stopped it."""
    solver = rue.Adaptive(**parameters)
    solution = rue.solve(model, solver, limits=rue.Limits(seconds=seconds, iterations=iterations))
    verdict, objective, certificate = rue.evaluate(model, solution.policy), solution.objective, solution.certificate
    assert solution.max_regret.upper == verdict.at_most
    assert 0 <= solution.max_regret.lower <= solution.max_regret.upper
    assert 0 <= objective.lower <= objective.upper
    if solution.status is INFEASIBLE:
        assert objective.lower == INF == verdict.max_regret
        return solution
    if solver.objective == "regret" and math.isfinite(objective.upper):
        assert objective.upper == verdict.at_most >= verdict.max_regret
    if math.isfinite(verdict.max_regret):
        assert is_proper(model, solution.policy).all()
    if certificate is None:
        assert objective.lower == 0
    else:
        assert rue.verify(model, certificate) >= certificate.bound
        if objective.lower > 0:
            assert certificate.objective == solver.objective
            assert objective.lower <= certificate.bound
    if solution.status is SOLVED:
        most = max(solver.gap, 2e-8) * objective.upper + 2e-11 * typical_cost(model) + 2 * verdict.error
        assert objective.width <= most
    return solution


def load(path: Path) -> rue.UMDP:
    raw = json.loads(path.read_text())["model"]
    return rue.UMDP.from_dense(raw["transition"], raw["cost"], initial=raw["initial"], goals=raw["goals"])


def random_model(seed: int, states: int = 4, samples: int = 4, traps: bool = True) -> rue.UMDP:
    """A small model whose rows, in eighths, have cycles, differing supports and, now and then, a trap."""
    draw = np.random.default_rng(seed)
    while True:
        try:
            return _random_model(draw, states, samples, traps)
        except rue.BadInput:  # some sample has no way to the goal
            continue


def _random_model(draw: np.random.Generator, states: int, samples: int, traps: bool) -> rue.UMDP:
    inner, samples = int(draw.integers(1, states + 1)), int(draw.integers(1, samples + 1))
    trap = inner if traps and draw.random() < 0.3 else None
    goal = inner + (trap is not None)
    transition, cost = np.zeros((samples, goal + 1, 3, goal + 1)), np.zeros((samples, goal + 1, 3))
    for s in range(inner):
        for a in range(draw.integers(1, 4)):
            support = draw.choice(goal + 1, min(goal + 1, int(draw.integers(1, 4))), replace=False)
            same = draw.random() < 0.2
            for k in range(samples):
                row = draw.multinomial(8, np.full(support.size, 1 / support.size)) / 8
                transition[k, s, a, support] = transition[0, s, a, support] if same and k else row
                cost[k, s, a] = draw.integers(0, 9) / 4
    if trap is not None:
        for k in range(samples):
            transition[k, trap, 0, [trap, goal]] = (0.5, 0.5) if draw.random() < 0.3 else (1, 0)
    cost[:, inner:] = 1.0
    return rue.UMDP.from_dense(transition, cost, goals=[goal])


@st.composite
def layered(draw: st.DrawFn, steps: int = 3) -> rue.UMDP:
    """Acyclic models: each step leads to the two states of the next layer, or to the goal."""
    samples = draw(st.integers(2, 3))
    states = 2 * steps
    transition, cost = np.zeros((samples, states, 2, states)), np.zeros((samples, states, 2))
    for s in range(states - 1):
        layer = 0 if s == 0 else (s + 1) // 2
        ahead = [t for t in (2 * layer + 1, 2 * layer + 2) if t < states - 1] + [states - 1]
        for a in range(draw(st.integers(1, 2))):
            for k in range(samples):
                weight = [draw(st.integers(0, 4)) for _ in ahead[:-1]]
                row = np.array([*weight, 8 - sum(weight)]) / 8
                transition[k, s, a, ahead] = row
                cost[k, s, a] = draw(st.integers(0, 8)) / 4
    return rue.UMDP.from_dense(transition, cost, goals=[states - 1])


def deepest(naive: Naive, most: int) -> int:
    """The depth of the largest tree of histories with at most this number of choices."""
    return max((d for d in range(1, 9) if tree_size(naive, d, most) <= most), default=1)


def exact_belief(certificate: rue.Certificate) -> list[Fraction]:
    return [Fraction(float(b)) for b in certificate.belief]


# Against the sequence form


@settings(max_examples=40)
@given(umdps(), st.sampled_from(["regret", "cost"]))
def test_the_interval_overlaps_that_of_the_sequence_form(model, objective):
    solution = adaptive(model, gap=0.01, objective=objective)
    naive = Naive(model)
    least = [naive.optimal(k)[naive.initial] for k in range(naive.samples)]
    if INF in least:
        assert solution.status is INFEASIBLE
        return
    gap, regret, depth = naive.regret_gap(), policy_regrets(naive), deepest(naive, 150)
    start = [float(v) for v in least] if objective == "cost" else None
    lower = sequence_form(naive, depth, gap, start=start)
    upper = sequence_form(naive, depth, gap, start=start, leaf=regret)
    if solution.status is INFEASIBLE:
        assert upper == INF
        return
    assert solution.objective.lower <= upper + 1e-6
    assert solution.objective.upper >= lower - 1e-6
    assert math.isfinite(solution.objective.upper) or upper == INF
    if solution.certificate is not None:
        # To the last digit: what is claimed of the belief, against the best that is known for it.
        belief = exact_belief(solution.certificate)
        best = belief_value(naive, belief, depth, gap, regret)
        if objective == "cost" and best != INF:
            best += sum(b * v for b, v in zip(belief, least, strict=True))
        assert Fraction(solution.certificate.bound) * sum(belief) <= best


@settings(max_examples=40)
@given(layered(), st.sampled_from([0.0, 1e-4]), st.sampled_from(["regret", "cost"]))
def test_without_cycles_it_is_the_sequence_form_of_full_depth(model, gap, objective):
    naive = Naive(model)
    least = [naive.optimal(k)[naive.initial] for k in range(naive.samples)]
    gaps = naive.regret_gap()
    start = [float(v) for v in least] if objective == "cost" else None
    value = sequence_form(naive, naive.states, gaps, start=start)
    solution = adaptive(model, gap=gap, objective=objective)
    assert solution.status is SOLVED
    slack = 1e-6 * typical_cost(model)
    assert value - gap * value - slack <= solution.objective.lower <= value + slack
    assert value - slack <= solution.objective.upper <= value + gap * value + slack
    if objective == "cost":
        return
    # In fractions: the policy, and the value of the belief that no policy is better at.
    if solution.policy.nodes <= 40:
        regret = max(controller_value(naive, solution.policy, k) - least[k] for k in range(naive.samples))
        assert float(regret) == pytest.approx(solution.max_regret.upper, abs=1e-9)
    belief = exact_belief(solution.certificate)
    best = belief_value(naive, belief, naive.states, gaps)
    assert Fraction(solution.certificate.bound) * sum(belief) <= best
    assert float(best) <= solution.max_regret.upper + 1e-9


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_on_the_cases_the_gap_closes(path):
    model = load(path)
    naive = Naive(model)
    gap, regret = naive.regret_gap(), policy_regrets(naive)
    depth = deepest(naive, 500)
    solution = adaptive(model, gap=1e-5)
    assert solution.status is SOLVED
    assert solution.max_regret.lower <= sequence_form(naive, depth, gap, leaf=regret) + 1e-7
    assert solution.max_regret.upper >= sequence_form(naive, depth, gap) - 1e-7


@settings(max_examples=60)
@given(umdps(Shape(zero_costs=False)))
def test_with_positive_costs_the_gap_closes_on_tiny_models(model):
    solution = adaptive(model, gap=0.01, seconds=10)
    assert solution.status in {SOLVED, INFEASIBLE}


# Against all solvers


def check_all_solvers(seed: int) -> None:
    model = random_model(seed)
    best = adaptive(model, gap=0.02, seconds=5)
    scale = typical_cost(model) if best.status is not INFEASIBLE else 1.0
    draw = np.random.default_rng([seed, 1])
    proved, regrets = [best.max_regret.lower], [best.max_regret.upper]
    for method in METHODS:
        other = rue.solve(model, parse_method(method), limits=rue.Limits(seconds=5))
        assert best.max_regret.upper <= other.max_regret.upper + 1e-6 * scale, method
        assert best.status is not INFEASIBLE or math.isinf(other.max_regret.upper), method
        proved.append(other.max_regret.lower)
        regrets.append(other.max_regret.upper)
    for _ in range(5):
        weight = draw.dirichlet(np.full(model.graph.choices, 0.3)) + 1e-6
        total = np.bincount(model.graph.choice_state, weights=weight)
        policy = rue.Policy.from_weights(model.graph, weight / total[model.graph.choice_state])
        regrets.append(rue.evaluate(model, policy).max_regret)
    proved.append(rue.lower_bound(model))
    assert max(proved) <= min(regrets) + 1e-9 * scale


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_against_all_solvers(first):
    for seed in range(first, first + 10):
        check_all_solvers(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1200, 20))
def test_against_all_solvers_on_many_models(first):
    for seed in range(first, first + 20):
        check_all_solvers(seed)


@settings(max_examples=25)
@given(st.data())
def test_no_controller_is_below_the_lower_end(data):
    model = data.draw(umdps())
    regret, cost = adaptive(model, gap=0.02), adaptive(model, gap=0.02, objective="cost")
    bound = rue.lower_bound(model)
    for _ in range(4):
        verdict = rue.evaluate(model, data.draw(controllers(model)))
        assert max(regret.max_regret.lower, cost.max_regret.lower, bound) <= verdict.max_regret + verdict.error + 1e-12
        assert cost.objective.lower <= verdict.value.max() + verdict.error + 1e-12


# Worst-case cost


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_no_policy_has_a_smaller_worst_case_cost(first):
    for seed in range(first, first + 10):
        model = random_model(seed)
        solution = adaptive(model, gap=0.02, objective="cost", seconds=5)
        if solution.status is INFEASIBLE:
            continue
        scale, verdict = typical_cost(model), rue.evaluate(model, solution.policy)
        assert solution.objective.upper == pytest.approx(verdict.value.max(), abs=1e-6 * scale)
        if solution.objective.lower > 0:
            assert solution.certificate.objective == "cost"
            assert rue.verify(model, solution.certificate) >= solution.objective.lower
        for solver in (rue.WorstCase(), rue.WorstCase(2, "history"), rue.Regret(), rue.Average(), rue.Mixture()):
            other = rue.evaluate(model, rue.solve(model, solver).policy)
            assert solution.objective.upper <= other.value.max() + other.error + 1e-6 * scale
            assert solution.objective.lower <= other.value.max() + other.error


def test_cost_and_regret_agree_where_all_samples_cost_the_same():
    # With the same optimal value v in all samples the worst-case cost is v + regret.
    builder = rue.Builder(samples=2)
    builder.add("A", "x", {"G": 1.0}, cost=[1.0, 3.0])
    builder.add("A", "y", {"G": 1.0}, cost=[4.0, 1.0])
    model = builder.goal("G").build()
    regret, cost = adaptive(model, gap=0), adaptive(model, gap=0, objective="cost")
    assert regret.objective.upper == pytest.approx(6 / 5, rel=1e-7) == regret.objective.lower
    assert cost.objective.upper == pytest.approx(11 / 5, rel=1e-7) == cost.objective.lower


# Limits


@pytest.fixture(scope="module")
def grid() -> rue.UMDP:
    return rue.domains.Disaster(width=15, height=15, seed=1).sample(15, seed=1)


def fresh(model: rue.UMDP) -> rue.UMDP:
    """A copy that remembers nothing."""
    return rue.UMDP(model.graph, model.prob, model.cost)


@pytest.mark.parametrize("seconds", [0, 1e-9, 0.003, 0.05, 0.3])
@pytest.mark.parametrize("objective", ["regret", "cost"])
def test_time_limits(grid, seconds, objective):
    solution = adaptive(fresh(grid), gap=0, seconds=seconds, objective=objective)
    assert solution.status is rue.Status.TIME_LIMIT
    assert math.isfinite(solution.max_regret.upper)
    assert solution.seconds < seconds + 1.5


@pytest.mark.parametrize("iterations", [0, 1, 2, 5])
def test_iteration_limits(iterations):
    model = rue.domains.Disaster(width=5, height=5, seed=2).sample(8, seed=1)
    solution = adaptive(model, gap=0, iterations=iterations)
    assert solution.status is rue.Status.ITERATION_LIMIT
    assert math.isfinite(solution.max_regret.upper)


def test_interrupted(grid):
    timer = threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        solution = adaptive(fresh(grid), gap=0)
    finally:
        timer.cancel()
    assert solution.status is rue.Status.INTERRUPTED
    assert math.isfinite(solution.max_regret.upper)


@pytest.mark.parametrize("memory", [0.01, 0.02])
def test_memory_is_bounded(grid, memory, monkeypatch):
    largest = []
    make_room, drop = BeliefGraph.make_room, BeliefGraph.prune_vectors

    def watch_room(self, wanted):
        try:
            make_room(self, wanted)
        finally:
            largest.append(self.bytes)

    def watch_drop(self, *args):
        drop(self, *args)
        largest.append(self.bytes)

    monkeypatch.setattr(BeliefGraph, "make_room", watch_room)
    monkeypatch.setattr(BeliefGraph, "prune_vectors", watch_drop)
    solution = adaptive(fresh(grid), gap=0, memory=memory)
    assert solution.status is rue.Status.MEMORY_LIMIT
    assert math.isfinite(solution.max_regret.upper)
    assert solution.max_regret.lower > 0
    assert max(largest) <= memory * 1e9


def test_room_is_asked_for_beside_what_is_left_after_vectors_were_dropped(monkeypatch):
    model = rue.domains.Disaster(width=4, height=4, seed=2).sample(4, seed=1)
    graph = BeliefGraph.build(model, rue.optimal_values(model), 1e9)
    size = graph.arrays.vectors.vector.size
    graph.arrays.graph.used[VECTORS] = size
    graph.memory = graph.bytes  # not one byte more

    def drop(self: BeliefGraph) -> None:
        self.arrays.graph.used[VECTORS] = size // 4

    monkeypatch.setattr(BeliefGraph, "prune_vectors", drop)
    graph.make_room({VECTORS: size // 2})  # there is room once the vectors that nobody holds are gone
    assert graph.arrays.vectors.vector.size == size


def test_memory_for_not_even_one_policy():
    states, samples = 300, 300
    draw = np.random.default_rng(1)
    ahead = np.repeat(np.arange(1, states), 2)  # a chain with two choices at each state, the last of which is a goal
    graph = rue.Graph(
        np.append(np.arange(0, 2 * states, 2), 2 * states - 2),
        np.tile([0, 1], states - 1),
        np.arange(2 * states - 1),
        ahead,
        0,
    )
    model = rue.UMDP(graph, np.ones((ahead.size, samples)), draw.integers(1, 9, (ahead.size, samples)) / 4)
    solution = adaptive(model, memory=0.01, seconds=60)
    assert solution.status is rue.Status.MEMORY_LIMIT
    assert math.isfinite(solution.max_regret.upper)


def test_progress_is_told_with_bounds_that_only_come_closer():
    model = rue.domains.Disaster(width=6, height=6, seed=2).sample(10, seed=1)
    seen: list[rue.Progress] = []
    solution = rue.solve(model, rue.Adaptive(gap=0.02), progress=seen.append)
    bounds = [progress.objective for progress in seen if progress.objective is not None]
    assert solution.status is SOLVED
    assert len(bounds) > 2
    # The judge may find a little less or more than the search thought: all but the last report are the search's own.
    lower, upper = [b.lower for b in bounds[:-2]], [b.upper for b in bounds[:-2]]
    assert lower == sorted(lower)
    assert upper == sorted(upper, reverse=True)


# Values that are known


def two_doors(safe: float, right: float, wrong: float) -> tuple[rue.UMDP, float]:
    """One of two doors is the right one, or a safe way: with a fair coin the regret is half of what is wrong."""
    builder = rue.Builder(samples=2)
    builder.add("A", "left", {"G": 1.0}, cost=[right, wrong])
    builder.add("A", "right", {"G": 1.0}, cost=[wrong, right])
    builder.add("A", "safe", {"G": 1.0}, cost=safe)
    return builder.goal("G").build(), min(safe - right, (wrong - right) / 2)


@pytest.mark.parametrize(("safe", "right", "wrong"), [(3, 1, 9), (3, 1, 4), (1, 1, 4), (1e6, 1e-6, 3), (7, 0, 1e6)])
def test_two_doors(safe, right, wrong):
    model, value = two_doors(safe, right, wrong)
    solution = adaptive(model, gap=0)
    assert solution.status is SOLVED
    assert solution.max_regret.lower <= value * (1 + 1e-9) <= solution.max_regret.upper * (1 + 1e-6)
    assert solution.max_regret.width <= max(1e-6 * value, solution.floor)


@pytest.mark.parametrize("price", [0.125, 0.5, 2.0])
def test_paying_for_a_look(price):
    """A look tells the sample: the regret is its price, or that of the fair coin."""
    builder = rue.Builder(samples=2)
    builder.add("A", "look", {"L": [1, 0], "R": [0, 1]}, cost=price)
    for state in ("A", "L", "R"):
        builder.add(state, "left", {"G": 1.0}, cost=[1.0, 3.0])
        builder.add(state, "right", {"G": 1.0}, cost=[3.0, 1.0])
    solution = adaptive(builder.goal("G").build(), gap=0)
    assert solution.status is SOLVED
    assert solution.max_regret.upper == pytest.approx(min(price, 1.0), rel=1e-6)
    assert solution.max_regret.lower == pytest.approx(min(price, 1.0), rel=1e-6)


@pytest.mark.parametrize("leave", [0.5, 0.1, 0.01, 1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("states", [1, 2, 5])
def test_going_round(states, leave):
    """Nothing is ever learned on the way round, and all laps together cost 1 or 3 more, by the choice and the sample.

    The regret is that of the fair coin, whatever the chance to leave.
    """
    builder = rue.Builder(samples=2)
    for i in range(states):
        last = {"s0": 1 - leave, "G": leave} if i == states - 1 else {f"s{i + 1}": 1.0}
        builder.add(f"s{i}", "left", last, cost=[leave, 3 * leave] if i == 0 else leave)
        if i == 0:
            builder.add("s0", "right", last, cost=[3 * leave, leave])
    solution = adaptive(builder.goal("G").build(), gap=0.01)
    assert solution.max_regret.lower <= 1 + 1e-6
    assert solution.max_regret.upper == pytest.approx(1, rel=0.01)
    assert solution.status is SOLVED


def test_prop5_has_no_regret():
    model = load(next(path for path in CASES if path.stem == "prop5"))
    solution = adaptive(model, gap=0)
    assert solution.status is SOLVED
    assert solution.max_regret.upper == pytest.approx(0, abs=1e-9)


# The policy


@pytest.mark.parametrize("seed", range(6))
def test_the_policy_is_small_and_the_same_each_time(seed):
    model = random_model(seed + 40, traps=False)
    first, second = adaptive(fresh(model), gap=0.01), adaptive(fresh(model), gap=0.01)
    assert first.objective == second.objective
    assert first.max_regret == second.max_regret
    for name in ("node_state", "entry_ptr", "choice", "weight", "next_ptr", "next_node", "start_node", "start_weight"):
        assert np.array_equal(getattr(first.policy, name), getattr(second.policy, name)), name
    assert merged(first.policy).nodes == first.policy.nodes
    assert first.policy.start_node.size == np.unique(first.policy.start_node).size
    assert first.policy.start_weight.sum() == pytest.approx(1)
    assert (first.policy.start_weight > 0).all()


def test_simulations_agree_with_the_judge():
    model = load(next(path for path in CASES if path.stem == "loopy2"))
    solution = adaptive(model, gap=0.01)
    value = rue.evaluate(model, solution.policy).value
    for sample in range(model.samples):
        costs = rue.simulate(model, solution.policy, sample=sample, episodes=20_000, seed=sample).cost
        assert costs.mean() == pytest.approx(value[sample], abs=5 * costs.std() / math.sqrt(costs.size) + 1e-9)


def test_solutions_are_kept_in_files(tmp_path):
    model = load(next(path for path in CASES if path.stem == "loopy1"))
    solution = adaptive(model, gap=0.01)
    rue.save(tmp_path / "a.rue", solution)
    again = rue.load(tmp_path / "a.rue")
    assert again.solver == solution.solver
    assert again.max_regret == solution.max_regret
    assert rue.verify(model, again.certificate) >= again.max_regret.lower
    assert rue.evaluate(model, again.policy).at_most == solution.max_regret.upper


# Special models


def test_the_initial_state_is_a_goal():
    builder = rue.Builder(samples=2)
    builder.add("A", "x", {"G": 1.0}, cost=1.0)
    solution = adaptive(builder.goal("G").initial("G").build(), gap=0)
    assert solution.status is SOLVED
    assert solution.max_regret == rue.Interval(0.0, 0.0)


@pytest.mark.parametrize("seed", range(3))
def test_where_all_samples_are_one_there_is_no_regret(seed):
    single = random_model(seed, samples=1, traps=False)
    for samples in (1, 3):
        model = rue.UMDP(single.graph, np.repeat(single.prob, samples, 1), np.repeat(single.cost, samples, 1))
        solution = adaptive(model, gap=0)
        assert solution.status is SOLVED
        assert solution.max_regret.upper <= 1e-9 * typical_cost(model)


def lock(looks: float) -> rue.UMDP:
    """A look tells the sample with some probability, and then a shared state has a trap behind one of two doors."""
    builder = rue.Builder(samples=2)
    stay = {"I": 1 - looks} if looks < 1 else {}
    builder.add("I", "look", {"L": [looks, 0], "R": [0, looks], **stay}, cost=1.0)
    for state in ("L", "R"):
        builder.add(state, "on", {"X": 1.0}, cost=0.0)
    builder.add("X", "a", {"G": [1, 0], "D": [0, 1]}, cost=1.0)
    builder.add("X", "b", {"G": [0, 1], "D": [1, 0]}, cost=1.0)
    builder.add("D", "stay", {"D": 1.0}, cost=1.0)
    return builder.goal("G").build()


@pytest.mark.parametrize("looks", [1.0, 0.5, 1e-3, 2.0**-20])
def test_only_memory_reaches_the_goal_in_all_samples(looks):
    model = lock(looks)
    solution = adaptive(model, gap=0.01)
    assert solution.status is SOLVED
    assert solution.max_regret.upper <= 1e-6 * typical_cost(model)
    for solver in (rue.Regret(), rue.WorstCase(), rue.Average(), rue.ExactStationary()):
        assert rue.solve(model, solver).status is INFEASIBLE


@pytest.mark.parametrize("risk", [1.0, 0.5, 1e-12, 1e-100])
def test_no_policy_reaches_the_goal_in_all_samples(risk):
    builder = rue.Builder(samples=2)
    builder.add("A", "a", {"G": [1, 1 - risk], "D": [0, risk]}, cost=1.0)
    builder.add("A", "b", {"G": [1 - risk, 1], "D": [risk, 0]}, cost=1.0)
    builder.add("D", "stay", {"D": 1.0}, cost=1.0)
    model = builder.goal("G").build()
    for objective in ("regret", "cost"):
        assert adaptive(model, objective=objective).status is INFEASIBLE
    assert rue.lower_bound(model) >= 0


@pytest.mark.parametrize("risk", [0.5, 1e-6, 1e-12, 1e-100])
def test_a_trap_is_avoided_however_rare(risk):
    builder = rue.Builder(samples=2)
    builder.add("A", "a", {"G": [1, 1 - risk], "D": [0, risk]}, cost=1.0)
    builder.add("A", "b", {"G": [1 - risk, 1], "D": [risk, 0]}, cost=1.0)
    builder.add("A", "safe", {"G": 1.0}, cost=7.0)
    builder.add("D", "stay", {"D": 1.0}, cost=1.0)
    solution = adaptive(builder.goal("G").build(), gap=1e-6)
    assert solution.status is SOLVED
    assert solution.max_regret.upper == pytest.approx(6, rel=1e-6)
    assert solution.max_regret.lower == pytest.approx(6, rel=1e-6)


def test_where_it_would_miss_the_goal_a_policy_with_a_node_for_each_state_goes_on():
    # There are starting policies with memory here that have as many nodes as there are states, but none at some.
    transition, cost = np.zeros((3, 6, 2, 6)), np.zeros((3, 6, 2))
    transition[:, 0, 0, :2] = [7 / 8, 1 / 8], [1, 0], [1, 0]
    transition[:, 0, 1, :3] = [1 / 4, 3 / 4, 0], [1 / 8, 3 / 8, 1 / 2], [0, 1, 0]
    transition[:, 1, 0, 3:5] = [0, 1], [0, 1], [1 / 8, 7 / 8]
    transition[:, 1, 1, 4], cost[0, 1, 1] = 1, 1 / 4
    transition[:, 2, 0, 0] = 1
    transition[:, 3, 0, 3], cost[:, 3, 0] = 1, 1
    model = rue.UMDP.from_dense(transition, cost, initial=0, goals=[4, 5])
    solution = adaptive(model, gap=0.01)
    assert solution.status is SOLVED
    assert solution.max_regret.upper == pytest.approx(0, abs=1e-9)


def test_free_cycles_are_closed():
    # Going round between A and B is free. Both ways out cost one or two; the fair coin costs a half.
    builder = rue.Builder(samples=2)
    builder.add("A", "over", {"B": 1.0}, cost=0.0)
    builder.add("A", "out", {"G": 1.0}, cost=[1, 2])
    builder.add("B", "back", {"A": 1.0}, cost=0.0)
    builder.add("B", "out", {"G": 1.0}, cost=[2, 1])
    solution = adaptive(builder.goal("G").build(), gap=0.01)
    assert solution.status is SOLVED
    assert solution.max_regret.upper == pytest.approx(0.5, rel=1e-6)
    assert solution.max_regret.lower <= 0.5 + 1e-9


def test_free_self_loops():
    builder = rue.Builder(samples=2)
    builder.add("A", "wait", {"A": 1.0}, cost=0.0)
    builder.add("A", "a", {"G": 1.0}, cost=[1, 2])
    builder.add("A", "b", {"G": 1.0}, cost=[2, 1])
    solution = adaptive(builder.goal("G").build(), gap=1e-6)
    assert solution.status is SOLVED
    assert solution.max_regret.lower == pytest.approx(0.5, rel=1e-5)


def test_what_verify_does_not_prove_is_not_called_solved():
    # Waiting is free for ever in the samples that are left, but not in the one that is ruled out.
    builder = rue.Builder(samples=3)
    builder.add("I", "look", {"A": [1, 1, 0], "H": [0, 0, 1]}, cost=1.0)
    builder.add("A", "wait", {"A": [1, 1, 0.5], "G": [0, 0, 0.5]}, cost=0.0)
    builder.add("A", "a", {"G": 1.0}, cost=[1, 2, 1])
    builder.add("A", "b", {"G": 1.0}, cost=[2, 1, 1])
    builder.add("H", "x", {"G": 1.0}, cost=1.0)
    solution = adaptive(builder.goal("G").build(), gap=0.01)
    assert solution.max_regret.upper == pytest.approx(0.5, rel=1e-6)


def test_what_is_infinite_stays_so_however_unlikely_it_is():
    # Waiting in s1 costs nothing and makes sample 0 less likely by 3/8 each time, yet never impossible: what comes
    # after 300 times has to reach the goal in sample 0, too.
    builder = rue.Builder(samples=3)
    builder.add("s0", "a", {"s0": [1, 0.625, 0.125], "s2": [0, 0.375, 0.875]}, cost=[0.25, 1.25, 0.5])
    builder.add("s0", "b", {"s1": [0.25, 1, 1], "s2": [0.75, 0, 0]}, cost=[2, 0, 0])
    builder.add("s0", "c", {"s2": 1.0}, cost=0.0)
    builder.add("s1", "a", {"s1": [0.375, 1, 0], "s2": [0, 0, 1], "G": [0.625, 0, 0]}, cost=[1, 0, 0])
    builder.add("s1", "b", {"s2": [1, 0.5, 0.75], "G": [0, 0.5, 0.25]}, cost=1.5)
    builder.add("s2", "a", {"s0": [0.75, 0.75, 0.375], "s2": [0.25, 0.25, 0.625]}, cost=[1.25, 0, 0.5])
    builder.add("s2", "b", {"s2": 1.0}, cost=1.75)
    builder.add("s2", "c", {"s0": [0.125, 0, 0.25], "s2": [0.5, 1, 0.375], "G": [0.375, 0, 0.375]}, cost=[1.5, 2, 0])
    model = builder.goal("G").build()
    solution = adaptive(model, gap=0.01, seconds=5)
    assert solution.max_regret.lower <= solution.max_regret.upper <= 1.27
    assert solution.max_regret.upper <= rue.solve(model, rue.Mixture()).max_regret.upper + 1e-6


@pytest.mark.parametrize("leave", [1e-6, 2.0**-20, 2.0**-31, 1e-10, 2.0**-40, 1e-12])
def test_choices_that_hardly_ever_leave(leave):
    """Each try costs so little that all in all it is 1 or 3, by the choice and the sample."""
    builder = rue.Builder(samples=2)
    builder.add("A", "a", {"A": 1 - leave, "G": leave}, cost=[leave, 3 * leave])
    builder.add("A", "b", {"A": 1 - leave, "G": leave}, cost=[3 * leave, leave])
    solution = adaptive(builder.goal("G").build(), gap=0.01)
    assert solution.max_regret.upper == pytest.approx(1, rel=1e-2)
    assert solution.max_regret.lower <= 1 + 1e-2


def test_costs_of_all_sizes():
    builder = rue.Builder(samples=2)
    builder.add("A", "x", {"B": 0.5, "C": 0.5}, cost=[1e-6, 2e-6])
    builder.add("A", "y", {"B": 0.5, "C": 0.5}, cost=[2e-6, 1e-6])
    builder.add("B", "x", {"G": 1.0}, cost=[1e6, 3e6])
    builder.add("B", "y", {"G": 1.0}, cost=[3e6, 1e6])
    builder.add("C", "x", {"G": 1.0}, cost=[1.0, 3.0])
    builder.add("C", "y", {"G": 1.0}, cost=[3.0, 1.0])
    solution = adaptive(builder.goal("G").build(), gap=0)
    assert solution.max_regret.upper == pytest.approx(5e5 + 0.5 + 5e-7, rel=1e-9)
    assert solution.max_regret.lower == pytest.approx(5e5 + 0.5 + 5e-7, rel=1e-7)


def test_regrets_far_below_the_costs():
    builder = rue.Builder(samples=2)
    builder.add("A", "x", {"G": 1.0}, cost=1e6)
    builder.add("A", "y", {"G": 1.0}, cost=[1e6 + 1e-6, 1e6 - 1e-6])
    solution = adaptive(builder.goal("G").build(), gap=0.01)
    assert solution.max_regret.upper == pytest.approx(5e-7, rel=0.05)


def test_many_samples_choices_and_outcomes():
    """40 samples; 70 choices in one state, 300 outcomes of another."""
    draw = np.random.default_rng(5)
    samples, doors, rooms = 40, 70, 300
    builder = rue.Builder(samples=samples)
    row = draw.dirichlet(np.full(rooms, 0.5), samples) + 1e-6
    row /= row.sum(axis=1, keepdims=True)
    builder.add("A", "go", {f"r{i}": row[:, i] for i in range(rooms)}, cost=1.0)
    for i in range(rooms):
        builder.add(f"r{i}", "on", {"B": 1.0}, cost=0.125)
    for a in range(doors):
        builder.add("B", f"door{a}", {"G": 1.0}, cost=draw.integers(0, 20, samples) / 4)
    model = builder.goal("G").build()
    solution = adaptive(model, gap=0.05, seconds=6)
    assert math.isfinite(solution.max_regret.upper)
    assert solution.max_regret.upper <= rue.solve(model, rue.Mixture()).max_regret.upper + 1e-6
    assert solution.max_regret.lower <= solution.max_regret.upper


def test_a_long_chain():
    """300 states in a row; at each the fair coin costs a half, and one learns nothing."""
    builder = rue.Builder(samples=2)
    for i in range(300):
        ahead = {f"s{i + 1}" if i < 299 else "G": 1.0}
        builder.add(f"s{i}", "a", ahead, cost=[1.0, 2.0])
        builder.add(f"s{i}", "b", ahead, cost=[2.0, 1.0])
    solution = adaptive(builder.goal("G").build(), gap=0.01)
    assert solution.status is SOLVED
    assert solution.max_regret.upper == pytest.approx(150, rel=0.01)


# The graph of beliefs


def grown(model: rue.UMDP, belief: np.ndarray, rounds: int) -> BeliefGraph:
    """The graph at a belief after a number of rounds, or once its bounds have met."""
    values = rue.optimal_values(model)
    graph = BeliefGraph.build(model, values, 1e9)
    for _, policy in start_policies(model, values, rue.solution.Run(), 0.0):
        graph.add_policy(policy)
    graph.move(belief)
    for _ in range(rounds):
        graph.backup()
        if graph.upper - graph.lower <= 1e-9 * graph.upper:
            break
        graph.expand()
    return graph


def bounds_of(model: rue.UMDP, graph: BeliefGraph) -> tuple[float, float]:
    """The bounds of the root, in regrets."""
    initial = model.graph.initial
    offset = (graph.potential[initial] - rue.optimal_values(model).value[initial]) @ graph.belief
    return graph.lower + offset, graph.upper + offset


@settings(max_examples=30)
@given(umdps(), st.data())
def test_the_graph_bounds_the_value_of_a_belief(model, data):
    naive = Naive(model)
    assume(not naive.goal[naive.initial])
    assume(all(naive.optimal(k)[naive.initial] != INF for k in range(naive.samples)))
    parts = [data.draw(st.integers(1, 8)) for _ in range(model.samples)]
    weight = [Fraction(p, sum(parts)) for p in parts]
    gap, regret, depth = naive.regret_gap(), policy_regrets(naive), deepest(naive, 400)
    lower = belief_value(naive, weight, depth, gap)
    upper = belief_value(naive, weight, depth, gap, regret)
    for rounds in (1, 4, 40):
        low, up = bounds_of(model, grown(model, np.array([float(w) for w in weight]), rounds))
        assert low <= float(upper) + 1e-9 or low > 1e80
        assert up >= float(lower) - 1e-9
        assert low <= up + 1e-9
        assert upper != INF or lower == INF or low < INF


@settings(max_examples=30)
@given(layered(), st.data())
def test_the_graph_finds_the_value_of_a_belief(model, data):
    naive = Naive(model)
    gap = naive.regret_gap()
    parts = [[data.draw(st.integers(0, 4)) for _ in range(model.samples)] for _ in range(3)]
    graph = None
    for part in parts:  # the same graph at one belief after another
        assume(sum(part) > 0)
        weight = [Fraction(p, sum(part)) for p in part]
        belief = np.array([float(w) for w in weight])
        if graph is None:
            graph = grown(model, belief, 60)
        else:
            graph.move(belief)
            for _ in range(60):
                graph.backup()
                graph.expand()
        low, up = bounds_of(model, graph)
        value = float(belief_value(naive, weight, naive.states, gap))
        assert low == pytest.approx(value, abs=1e-7)
        assert up == pytest.approx(value, abs=1e-7)


def test_dropping_vectors_changes_nothing():
    model = rue.domains.Disaster(width=6, height=6, seed=3).sample(8, seed=1)
    graph = grown(model, np.full(8, 1 / 8), 40)
    vectors, regret = graph.root_vectors()
    best = regret.mean(axis=1).argmin()
    before = graph.controller(vectors[[best]], np.ones(1))
    low, up, held = graph.lower, graph.upper, int(graph.arrays.vectors.at_state["number"].sum())
    graph.prune_vectors()
    assert int(graph.arrays.vectors.at_state["number"].sum()) < held
    assert (graph.lower, graph.upper) == (low, up)
    again, kept = graph.root_vectors()
    same = np.flatnonzero((kept == regret[best]).all(axis=1))
    assert same.size
    after = graph.controller(again[same[:1]], np.ones(1))
    assert np.array_equal(rue.evaluate(model, before).regret, rue.evaluate(model, after).regret)
    assert rue.evaluate(model, after).regret == pytest.approx(regret[best], abs=1e-7)
    # What each node holds is what it held, and the search goes on.
    nodes = graph.nodes
    weight = graph.belief * graph.arrays.weights.likelihood[:nodes]
    held = graph.arrays.graph.node[:nodes]
    regret = graph.arrays.vectors.alpha[held["vector"]]
    assert np.allclose((weight * regret).sum(axis=1), held["upper"])
    graph.backup()
    graph.expand()
    graph.backup()
    assert low <= graph.lower <= graph.upper <= up + 1e-12


def test_every_vector_is_the_regret_of_a_policy():
    model = load(next(path for path in CASES if path.stem == "loopy3"))
    graph = grown(model, np.full(model.samples, 1 / model.samples), 30)
    vectors, regret = graph.root_vectors()
    for i in range(0, vectors.size, max(vectors.size // 20, 1)):
        policy = graph.controller(vectors[[i]], np.ones(1))
        assert rue.evaluate(model, policy).regret == pytest.approx(regret[i], abs=1e-7)


@njit
def find(nodes, weights, state, likelihood):
    return _find(nodes, weights, state, likelihood)


def test_nodes_lie_in_the_table():
    model = load(next(path for path in CASES if path.stem == "loopy0"))
    graph = grown(model, np.full(model.samples, 1 / model.samples), 30)
    for node in range(graph.nodes):
        nodes, weights = graph.arrays.graph.node, graph.arrays.weights
        found, _ = find(nodes, weights, nodes["state"][node], weights.likelihood[node])
        assert found == node


# Lower bounds alone


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_lower_bound_of_the_cases(path):
    model = load(path)
    best = adaptive(fresh(model), gap=1e-4)
    bound = rue.lower_bound(model)
    assert bound <= best.max_regret.upper + 1e-9
    assert bound >= best.max_regret.lower * 0.9 - 1e-9
    assert rue.lower_bound(fresh(model), limits=rue.Limits(seconds=5)) >= 0.98 * best.max_regret.lower - 1e-9


def test_lower_bound_under_limits(grid):
    assert rue.lower_bound(fresh(grid), limits=rue.Limits(seconds=0)) == 0
    bound = rue.lower_bound(fresh(grid), limits=rue.Limits(seconds=0.5))
    assert 0 <= bound <= rue.solve(grid, rue.Regret(2, "history")).max_regret.upper


def test_a_gap_of_the_value_and_an_absolute_gap():
    """A gap that is small beside the value, or in absolute terms, is enough; what is proved is told as it is."""
    model = rue.domains.Disaster(width=6, height=6, seed=3).sample(6, seed=1)
    least = rue.optimal_values(model).value[model.graph.initial].min()
    exact = adaptive(model, gap=0.001)
    for parameters, enough in (({"gap": 0.02, "of": "value"}, 0.02 * least), ({"gap": 0.0, "absolute": 0.1}, 0.1)):
        solution = rue.solve(model, rue.Adaptive(**parameters))
        assert solution.status is SOLVED
        assert solution.max_regret.upper - solution.max_regret.lower <= enough
        assert solution.counters["beliefs"] < exact.counters["beliefs"]
    with pytest.raises(rue.BadInput, match="unknown of 'cost'; known: regret, value"):
        rue.Adaptive(of="cost")
    with pytest.raises(rue.BadInput, match="absolute"):
        rue.Adaptive(absolute=-1)
