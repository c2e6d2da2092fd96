"""The engines in HiGHS for the n-step option problem: against enumeration, against each other, and under limits."""

import importlib.util
import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from models import Shape, umdps
from naive import INF, matrix_game

import rue
from rue._highs import Ended, Program
from rue.recursion.inner.layers import ProgramAnswer
from rue.recursion.inner.option_tree import OptionTree
from rue.recursion.inner.separable import GAP, Separable
from rue.recursion.inner.sequence import SequenceForm
from rue.recursion.inner.table1 import Table1
from rue.values import optimal_somewhere, optimal_values, regret_gap

HAS_SCIP = importlib.util.find_spec("pyscipopt") is not None
HUGE = 1e200
# Enumerations larger than this are left to the other examples.
MOST_OPTIONS = 3000
SMALL = Shape(states=3, samples=3)


class Problem(NamedTuple):
    """The option problem at a state, for enumeration; `tree` is the same for programs."""

    trans_ptr: np.ndarray
    successor: np.ndarray
    goal: np.ndarray
    prob: np.ndarray
    gap: np.ndarray
    kept_ptr: np.ndarray
    kept: np.ndarray
    steps: int
    root: int
    tree: OptionTree

    @classmethod
    def of(cls, model: rue.UMDP, gap: np.ndarray, kept: np.ndarray | None, steps: int, root: int) -> "Problem":
        graph, mask = model.graph, np.ones(model.graph.choices, bool) if kept is None else kept
        ptr = np.concatenate(([0], np.cumsum(np.bincount(graph.choice_state[mask], minlength=graph.states))))
        tree = OptionTree.at(model, gap, kept, steps, root)
        arrays = graph.trans_ptr, graph.successor, graph.goal, model.prob, gap, ptr, np.flatnonzero(mask)
        return cls(*arrays, steps, root, tree)


def some_gap(model: rue.UMDP, objective: str) -> np.ndarray:
    """The gap of an objective; infinite at dead ends, as the solvers write it."""
    if objective == "cost":
        return model.cost
    values = optimal_values(model)
    gap = np.minimum(np.nan_to_num(regret_gap(model, values), nan=HUGE, posinf=HUGE), HUGE)
    dead = np.asarray(values.dead)
    for c in range(model.graph.choices):
        for k in range(model.samples):
            reached = model.graph.successor[model.graph.trans_ptr[c] : model.graph.trans_ptr[c + 1]]
            live = model.prob[model.graph.trans_ptr[c] : model.graph.trans_ptr[c + 1], k] > 0
            if dead[model.graph.choice_state[c], k] or dead[reached[live], k].any():
                gap[c, k] = HUGE
    return gap


@st.composite
def problems(draw: st.DrawFn, most_steps: int = 3) -> tuple[Problem, np.ndarray, np.ndarray]:
    """A problem at a random state, some choices dropped, with two sets of terminal values, some infinite."""
    model = draw(umdps(SMALL))
    states = model.graph.states
    gap = some_gap(model, draw(st.sampled_from(["cost", "reg"])))
    kept = np.ones(model.graph.choices, bool)
    if draw(st.booleans()):
        kept[draw(st.integers(0, kept.size - 1))] = False
    numbers = st.lists(st.sampled_from([0, 0.5, 1, 3, 7.25, 20, HUGE]), min_size=states, max_size=states)
    values = [np.array(draw(numbers), float) for _ in range(2)]
    root = draw(st.integers(0, states - 1))
    return Problem.of(model, gap, kept, draw(st.integers(1, most_steps)), root), values[0], values[1]


@st.composite
def dense_problems(draw: st.DrawFn) -> tuple[Problem, np.ndarray]:
    """Problems in which much is to be decided: two or three choices everywhere, all samples different."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    states, samples, steps = 4, int(rng.integers(2, 5)), draw(st.integers(2, 3))
    count = rng.integers(2, 4 if steps == 2 else 3, states - 1)
    state = np.repeat(np.arange(states - 1), count)
    table = rng.random((state.size, states, samples)) * (rng.random((state.size, states, 1)) < 0.6)
    table *= rng.random(table.shape) < draw(st.sampled_from([0.6, 1.0]))
    empty = table.sum(axis=1) == 0
    table[:, -1][empty] = 1.0
    table /= table.sum(axis=1, keepdims=True)
    gap = rng.integers(0, 9, (state.size, samples)) / 4.0
    gap[rng.random(gap.shape) < draw(st.sampled_from([0.0, 0.1]))] = HUGE
    value = rng.random(states) * draw(st.sampled_from([0.0, 1.0, 10.0]))
    value[rng.random(states) < draw(st.sampled_from([0.0, 0.2]))] = HUGE
    transition = np.zeros((samples, states, int(count.max()), states))
    action = np.arange(state.size) - np.repeat(np.cumsum(count) - count, count)
    transition[:, state, action] = np.moveaxis(table, 2, 0)
    model = rue.UMDP.from_dense(transition, np.zeros(transition.shape[:3]), initial=states - 1, goals=[states - 1])
    return Problem.of(model, gap, None, steps, 0), value


class Enumerated:
    """Plain recursion over nested dictionaries; nothing here is shared with the engines."""

    def __init__(self, problem: Problem, value: np.ndarray) -> None:
        self.problem, self.value = problem, value
        self.samples = problem.prob.shape[1]

    def choices(self, state: int) -> list[int]:
        p = self.problem
        return [int(c) for c in p.kept[p.kept_ptr[state] : p.kept_ptr[state + 1]]]

    def outcomes(self, choice: int) -> list[tuple[int, np.ndarray]]:
        p = self.problem
        return [(int(p.successor[t]), p.prob[t]) for t in range(p.trans_ptr[choice], p.trans_ptr[choice + 1])]

    def cost(self, history: tuple[int, ...], decide, k: int) -> float:
        """Expected cost from a history on in sample k; `decide` maps a history to weights over choices."""
        p, state, step = self.problem, history[-1], len(history) // 2
        if p.goal[state]:
            return 0.0
        if step == p.steps:
            return INF if self.value[state] >= 1e100 else float(self.value[state])
        total = 0.0
        weights = decide(history)
        if not weights:
            return INF
        for choice, weight in weights.items():
            if weight > 0:
                paid = INF if p.gap[choice, k] >= 1e100 else float(p.gap[choice, k])
                for after, prob in self.outcomes(choice):
                    if prob[k] > 0:
                        paid += prob[k] * self.cost((*history, choice, after), decide, k)
                total += weight * paid
        return total

    def vector(self, decide) -> np.ndarray:
        return np.array([self.cost((self.problem.root,), decide, k) for k in range(self.samples)])

    def slots(self) -> list[tuple[int, int]]:
        """All (step, state) that may be met."""
        found, layer = [], {self.problem.root}
        for t in range(self.problem.steps):
            layer = {s for s in layer if not self.problem.goal[s]}
            found += [(t, s) for s in sorted(layer)]
            layer = {a for s in layer for c in self.choices(s) for a, prob in self.outcomes(c) if prob.max() > 0}
        return found

    def pure_slot_options(self) -> list[np.ndarray]:
        """The cost vectors of all deterministic (s,t)-options."""
        slots = [slot for slot in self.slots() if self.choices(slot[1])]
        sizes = [len(self.choices(s)) for _, s in slots]
        assume(math.prod(sizes) <= MOST_OPTIONS)
        vectors = []
        for picks in itertools.product(*(self.choices(s) for _, s in slots)):
            option = dict(zip(slots, picks, strict=True))

            def decide(history, option=option):
                pick = option.get((len(history) // 2, history[-1]))
                return {} if pick is None else {pick: 1.0}

            vectors.append(self.vector(decide))
        return vectors

    def pure_trees(self, history: tuple[int, ...], prob: np.ndarray) -> list[np.ndarray]:
        """The cost vectors, times the probability of the history, of all pure trees from a history on."""
        p, state, step = self.problem, history[-1], len(history) // 2
        if p.goal[state]:
            return [np.zeros(self.samples)]
        if step == p.steps:
            return [_times(prob, np.full(self.samples, INF if self.value[state] >= 1e100 else self.value[state]))]
        found = []
        for choice in self.choices(state):
            gap = np.where(p.gap[choice] >= 1e100, INF, p.gap[choice])
            parts = [
                self.pure_trees((*history, choice, after), prob * q)
                for after, q in self.outcomes(choice)
                if (prob * q).max() > 0
            ]
            assume(len(found) + math.prod(len(part) for part in parts) <= MOST_OPTIONS)
            found += [_times(prob, gap) + sum(picks) for picks in itertools.product(*parts)]
        return found or [_times(prob, np.full(self.samples, INF))]


def _times(prob: np.ndarray, cost: np.ndarray) -> np.ndarray:
    return np.where(prob > 0, prob * np.where(prob > 0, cost, 0.0), 0.0)


def slot_decision(engine, answer: ProgramAnswer):
    """The answer as a function of the history."""
    layers = engine.layers
    option = {}
    for node, step in enumerate(np.repeat(np.arange(layers.steps), np.diff(layers.layer_ptr))):
        own = range(layers.entry_ptr[node], layers.entry_ptr[node + 1])
        option[step, layers.node_state[node]] = {int(layers.choice[e]): float(answer.weight[e]) for e in own}
    return lambda history: option[len(history) // 2, history[-1]]


def tree_decision(engine: SequenceForm, answer: ProgramAnswer):
    layers = engine.layers
    name = {0: (int(layers.node_state[0]),)}
    for b in np.flatnonzero(layers.target >= 0):
        e, target = layers.branch_entry[b], layers.target[b]
        name[int(target)] = (
            *name[int(layers.entry_node[e])], int(layers.choice[e]), int(layers.node_state[target])
        )  # fmt: skip
    option = {}
    for node, history in name.items():
        own = range(layers.entry_ptr[node], layers.entry_ptr[node + 1])
        option[history] = {int(layers.choice[e]): float(answer.weight[e]) for e in own}
    return lambda history: option[history]


def check_distributions(engine, answer: ProgramAnswer) -> None:
    layers = engine.layers
    assert (answer.weight >= 0).all()
    total = np.bincount(layers.entry_node, weights=answer.weight, minlength=layers.nodes)
    np.testing.assert_allclose(total[np.diff(layers.entry_ptr) > 0], 1.0, atol=1e-12)


def close(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= 1e-7 * max(1.0, abs(b))


@settings(max_examples=150)
@given(st.one_of(problems(), dense_problems()))
def test_table1_equals_enumeration(drawn):
    problem, value = drawn[:2]
    twin = Enumerated(problem, value)
    best = min(float(vector.max()) for vector in twin.pure_slot_options())
    engine = Table1(problem.tree)
    answer = engine.solve(value)
    assert close(answer.value, best)
    assert close(answer.bound, best)
    assert (answer.status is Ended.INFEASIBLE) == (best == INF)
    check_distributions(engine, answer)
    if engine.layers.nodes and best < INF:
        np.testing.assert_allclose(twin.vector(slot_decision(engine, answer)), answer.cost, atol=1e-9)
        choice = np.full(engine.layers.nodes, -1)
        choice[engine.layers.entry_node[answer.weight > 0]] = engine.layers.choice[answer.weight > 0]
        assert (choice[np.diff(engine.layers.entry_ptr) > 0] >= 0).all()


@settings(max_examples=150)
@given(st.one_of(problems(), dense_problems()))
def test_sequence_form_equals_the_matrix_game_of_all_trees(drawn):
    problem, value = drawn[:2]
    twin = Enumerated(problem, value)
    vectors = [v for v in twin.pure_trees((problem.root,), np.ones(twin.samples)) if np.isfinite(v).all()]
    engine = SequenceForm(problem.tree)
    answer = engine.solve(value)
    if not vectors:
        assert answer.status is Ended.INFEASIBLE and answer.value == INF
        return
    matrix = np.array(vectors).T
    assert answer.status is Ended.OPTIMAL
    assert close(answer.value, matrix_game(matrix))
    if not engine.layers.nodes:
        return
    # The belief proves it: no pure option is better against it.
    assert answer.belief is not None and close(float(answer.belief.sum()), 1.0) and (answer.belief >= 0).all()
    assert close(float((answer.belief @ matrix).min()), answer.value)
    # What is proved is the value at the belief, or at that of a single sample, which may differ by rounding.
    assert answer.bound <= max(float((answer.belief @ matrix).min()), float(matrix.min(axis=1).max())) + 1e-15
    assert close(answer.bound, answer.value)
    # The behaviour is worth what it says, and its realisation weights are products along each path.
    check_distributions(engine, answer)
    np.testing.assert_allclose(twin.vector(tree_decision(engine, answer)), answer.cost, atol=1e-9)
    layers = engine.layers
    realisation = answer.weight.copy()  # nodes come after those that lead to them
    for b in np.flatnonzero(layers.target >= 0):
        own = slice(layers.entry_ptr[layers.target[b]], layers.entry_ptr[layers.target[b] + 1])
        realisation[own] *= realisation[layers.branch_entry[b]]
        if own.start < own.stop:
            assert realisation[own].sum() == pytest.approx(realisation[layers.branch_entry[b]])


@settings(max_examples=150)
@given(st.one_of(problems(), dense_problems()))
def test_larger_classes_are_no_worse(drawn):
    problem, value = drawn[:2]
    history, pure = SequenceForm(problem.tree).solve(value), Table1(problem.tree).solve(value)
    engine = Separable(problem.tree)
    mixed = engine.solve(value)
    check_distributions(engine, mixed)
    assert history.bound <= pure.value + 1e-9
    assert history.bound <= mixed.value + 1e-9
    assert mixed.bound <= history.value + 1e-9
    if mixed.value < INF and engine.layers.nodes:
        twin = Enumerated(problem, value)
        np.testing.assert_allclose(twin.vector(slot_decision(engine, mixed)), mixed.cost, atol=1e-9)
    if problem.steps == 1 and history.value < INF:
        # One step has no products: the program is linear, and exact.
        assert close(mixed.value, history.value)


@settings(max_examples=100)
@given(problems())
def test_kept_programs_answer_like_fresh_ones(drawn):
    problem, first, second = drawn
    for make in (Table1, SequenceForm):
        kept = make(problem.tree)
        kept.solve(first)
        again, fresh = kept.solve(second), make(problem.tree).solve(second)
        assert again.status is fresh.status
        assert close(again.value, fresh.value) and close(again.bound, fresh.bound)
    kept, fresh = Separable(problem.tree), Separable(problem.tree)
    kept.solve(first)
    again, fresh = kept.solve(second), fresh.solve(second)
    assert again.status is fresh.status
    assert (again.approximate is None) == (fresh.approximate is None)
    if again.approximate is not None and fresh.approximate is not None:
        assert again.approximate == pytest.approx(fresh.approximate, rel=5e-3, abs=5e-2)


@settings(max_examples=50)
@given(st.one_of(problems(), dense_problems()))
def test_no_time_is_no_error(drawn):
    problem, value = drawn[:2]
    best = SequenceForm(problem.tree).solve(value)
    for engine in (Table1(problem.tree), SequenceForm(problem.tree), Separable(problem.tree)):
        answer = engine.solve(value, 0.0)
        check_distributions(engine, answer)
        assert answer.bound <= answer.value
        assert answer.value >= best.bound
        if not isinstance(engine, Table1):  # Table 1's class is smaller
            assert answer.bound <= best.value + 1e-9


@pytest.mark.skipif(not HAS_SCIP, reason="pyscipopt (the extra rue[scip]) is not installed")
@settings(max_examples=30)
@given(st.one_of(problems(most_steps=2), dense_problems()))
def test_scip_agrees_with_highs(drawn):
    problem, value = drawn[:2]
    here, there = Separable(problem.tree).solve(value), Separable(problem.tree, backend="scip").solve(value)
    assert here.status is there.status
    assert (here.approximate is None) == (there.approximate is None)
    if here.approximate is not None and there.approximate is not None:
        assert there.approximate == pytest.approx(here.approximate, rel=5e-3, abs=5e-2)
    check_distributions(Separable(problem.tree), there)


@pytest.mark.skipif(HAS_SCIP, reason="pyscipopt is installed")
def test_scip_not_installed_is_said():
    model = rue.domains.Disaster(width=3, height=3, seed=1).sample(2, seed=1)
    problem = Problem.of(model, model.cost, None, 2, model.graph.initial)
    with pytest.raises(rue.BadInput, match=r"rue\[scip\]"):
        Separable(problem.tree, backend="scip")


def test_bad_parameters_are_refused(monkeypatch):
    model = rue.domains.Disaster(width=3, height=3, seed=1).sample(2, seed=1)
    problem = Problem.of(model, model.cost, None, 2, model.graph.initial)
    with pytest.raises(rue.BadInput, match="odd"):
        Separable(problem.tree, breakpoints=4)
    with pytest.raises(rue.BadInput, match="backend"):
        Separable(problem.tree, backend="gurobi")
    monkeypatch.setattr("rue.recursion.inner.layers.LARGEST_TABLE", 10_000)
    with pytest.raises(rue.BadInput, match="lower the steps"):
        SequenceForm(Problem.of(model, model.cost, None, 40, model.graph.initial).tree)


@pytest.fixture(scope="module")
def disaster() -> tuple[rue.UMDP, np.ndarray]:
    model = rue.domains.Disaster(width=5, height=5, seed=2).sample(6, seed=1)
    return model, regret_gap(model, optimal_values(model))


@pytest.mark.parametrize("breakpoints", [3, 5])
def test_separable_knows_deterministic_options_exactly(disaster, breakpoints):
    """They are among its solutions, without error, so that its own optimum is no worse; and it sees some that mix."""
    model, gap = disaster
    values = optimal_values(model)
    problem = Problem.of(model, gap, optimal_somewhere(model, values, gap), 2, 12)
    terminal = np.random.default_rng(1).random(model.graph.states)
    pure, history = Table1(problem.tree).solve(terminal), SequenceForm(problem.tree).solve(terminal)
    mixed = Separable(problem.tree, breakpoints=breakpoints).solve(terminal)
    scale = float(np.ptp(terminal)) + float(gap.max())
    assert mixed.status is Ended.OPTIMAL
    assert mixed.approximate <= pure.value + GAP * scale
    assert history.bound <= mixed.value


def test_costs_of_any_size(disaster):
    """A factor and large terminal values change nothing but the numbers."""
    model, gap = disaster
    value = np.linspace(0, 3, model.graph.states)
    value[model.graph.goal] = 0.0
    for make in (Table1, SequenceForm):
        plain = make(Problem.of(model, gap, None, 2, 0).tree).solve(value)
        for factor in (1e-6, 1e6):
            scaled = make(Problem.of(model, factor * gap, None, 2, 0).tree).solve(factor * value)
            assert scaled.value == pytest.approx(factor * plain.value, rel=1e-7)
        far = make(Problem.of(model, gap, None, 2, 0).tree).solve(np.where(model.graph.goal, 0.0, value + 1e6))
        assert far.value - 1e6 == pytest.approx(plain.value, abs=1e-5)
        assert far.bound <= far.value


def test_time_limits_count_from_each_solve():
    """HiGHS's clock runs on over solves; limits must not."""
    rng = np.random.default_rng(0)
    matrix = rng.random((30, 60))
    row, column = np.indices(matrix.shape).reshape(2, -1)
    program = Program(
        cost=np.full(60, -1.0), lower=np.zeros(60), upper=np.full(60, 10.0), row=row, column=column,
        value=matrix.ravel(), row_lower=np.full(30, -np.inf), row_upper=np.ones(30),
    )  # fmt: skip
    used = 0.0
    for _ in range(200):
        program.change(value=rng.random(matrix.size))
        assert program.solve(0.05).status is Ended.OPTIMAL
        used = program._highs.getRunTime()
        if used > 0.06:
            break
    assert used > 0.05


def test_infeasible_and_failed_programs():
    one = np.ones(1)
    zero = np.zeros(1, np.int64)
    program = Program(
        cost=one, lower=0 * one, upper=one, row=zero, column=zero, value=one, row_lower=2 * one, row_upper=3 * one
    )  # fmt: skip
    result = program.solve()
    assert result.status is Ended.INFEASIBLE and result.objective == INF
    program.change(row_lower=np.array([-np.inf]), lower=np.array([-np.inf]))
    with pytest.raises(rue.SolverFailed, match="Unbounded"):
        program.solve()
    program.change(lower=np.array([math.nan]))
    with pytest.raises(rue.SolverFailed, match="passModel"):
        program.solve()
