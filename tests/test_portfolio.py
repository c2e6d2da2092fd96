"""Values of every node of a controller, against exact arithmetic; and the policies to begin with."""

import itertools
import math
import time
from dataclasses import dataclass, fields
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from models import Shape, models_with_controllers, umdps
from naive import INF, Naive, controller_value
from numba.types import unliteral

import rue
from rue import judge_kernels as chain
from rue.adaptive import portfolio
from rue.adaptive.portfolio import start_policies
from rue.judge import node_values
from rue.solution import Inner, Interval, Limits, Outcome, Run, Solver, Status


def node_value(naive: Naive, policy: rue.Policy, sample: int, node: int):
    """V_k from one node: the value of the controller that starts there."""
    arrays = {field.name: getattr(policy, field.name) for field in fields(policy)}
    begins = {**arrays, "start_node": [node], "start_weight": [1.0]}
    return controller_value(naive, SimpleNamespace(nodes=policy.nodes, **begins), sample)


def check_against_fractions(model: rue.UMDP, policy: rue.Policy, precision: float = 1e-8) -> set[str]:
    naive, kinds = Naive(model), set()
    value, error = node_values(model, policy)
    assert value.shape == error.shape == (policy.nodes, model.samples)
    for node, k in itertools.product(range(policy.nodes), range(model.samples)):
        exact = node_value(naive, policy, k, node)
        if exact == INF:
            assert value[node, k] == INF and error[node, k] == 0
        else:
            assert abs(float(exact) - value[node, k]) <= error[node, k] <= precision * max(1.0, float(exact))
        kinds.add("improper" if exact == INF else "proper")
    return kinds


@settings(max_examples=200)
@given(models_with_controllers(Shape(states=4)))
def test_values_of_all_nodes_equal_fractions(pair):
    model, policy = pair
    check_against_fractions(model, policy)
    value, error = node_values(model, policy)
    verdict = rue.evaluate(model, policy)
    at_start = policy.start_weight @ value[policy.start_node]
    for k in range(model.samples):
        both = verdict.error + error[policy.start_node, k].sum()
        assert at_start[k] == verdict.value[k] or abs(at_start[k] - verdict.value[k]) <= both
    assert (value[model.graph.goal[policy.node_state]] == 0).all()


@settings(max_examples=60)
@given(models_with_controllers(Shape(states=4, dead_ends=False, same_support=True)))
def test_values_of_all_nodes_where_all_samples_have_the_same_support(pair):
    check_against_fractions(*pair)


def branching_model() -> rue.UMDP:
    """State 1 is a trap in sample 1 only; 0 may fall into it in sample 0 and 1, 2 never does; 3 is the goal."""
    transition = np.zeros((3, 4, 1, 4))
    transition[:2, 0, 0, [1, 3]] = 0.5
    transition[2, 0, 0, 3] = 1.0
    transition[[0, 2], 1, 0, 2] = 1.0
    transition[1, 1, 0, 1] = 1.0
    transition[:, 2, 0, [2, 3]] = [0.75, 0.25]
    return rue.UMDP.from_dense(transition, np.ones((3, 4, 1)), initial=2, goals=[3])


def test_improper_from_some_nodes_in_some_samples():
    model = branching_model()
    policy = rue.Policy.stationary(model, [0] * 4)
    value, error = node_values(model, policy)
    wanted = [[3.5, INF, 1.0], [5.0, INF, 5.0], [4.0, 4.0, 4.0], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    assert (error[np.isinf(wanted)] == 0).all()
    assert check_against_fractions(model, policy) == {"proper", "improper"}
    assert np.isfinite(rue.evaluate(model, policy).max_regret)  # the trap is not in reach of the start


def walk(length: int, forward: float, others: int = 0) -> rue.UMDP:
    """A walk on a line that ends at the last state, and other states that go there at once."""
    states = length + others + 1
    transition = np.zeros((2, states, 1, states))
    for s in range(length):
        transition[:, s, 0, s + 1 if s < length - 1 else states - 1] += forward
        transition[:, s, 0, max(s - 1, 0)] += 1 - forward
    transition[:, length:-1, 0, -1] = 1.0
    return rue.UMDP.from_dense(transition, np.ones((2, states, 1)), goals=[states - 1])


def test_slow_chains_are_factorised_from_every_node():
    size = 60
    model = walk(size, 0.45)
    value, error = node_values(model, rue.Policy.stationary(model, [0] * (size + 1)))
    # Time to go one step right from s, by hand: h(s) = (1 + 0.55 h(s-1)) / 0.45 with the wall at 0.
    step = [1 / 0.45]
    for _ in range(size - 1):
        step.append((1 + 0.55 * step[-1]) / 0.45)
    exact = np.append(np.cumsum(step[::-1])[::-1], 0.0)
    assert (np.abs(value - exact[:, None]) <= error + 1e-12 * exact[:, None]).all()
    assert (error <= 1e-6 * exact[:, None]).all()


@pytest.mark.parametrize("length", [20, 40, 400])
def test_a_walk_without_end_does_not_spoil_the_nodes_that_never_come_to_it(length):
    # Thrown back with probability 0.9: about 9^length steps. The other states are one step from the goal.
    model = walk(length, 0.1, others=5)
    value, error = node_values(model, rue.Policy.stationary(model, [0] * (length + 6)))
    np.testing.assert_allclose(value[length:-1], 1.0)
    assert (error[length:-1] < 1e-12).all()
    exact = sum(10 * sum(9.0**j for j in range(s)) + 9.0**s for s in range(length)) if length < 100 else INF
    assert not np.isnan(value).any() and not np.isnan(error).any()
    assert (value[0] + error[0] >= exact * (1 - 1e-9)).all()
    assert (value[0] > 1e15).all()


@pytest.mark.parametrize("length", [20, 40, 400])
def test_a_component_that_is_slow_does_not_spoil_its_nodes_that_leave_it_at_once(length):
    # All states of the walk are one component, but in the second sample the first one leads to the goal alone.
    slow = walk(length, 0.1)
    transition = np.zeros((2, length + 1, 1, length + 1))
    for s in range(length):
        first, last = slow.graph.trans_ptr[slow.graph.choice_ptr[s] + np.arange(2)]
        transition[:, s, 0, slow.graph.successor[first:last]] = slow.prob[first:last].T
    transition[1, 0, 0] = 0.0
    transition[1, 0, 0, -1] = 1.0
    model = rue.UMDP.from_dense(transition, np.ones((2, length + 1, 1)), goals=[length])
    value, error = node_values(model, rue.Policy.stationary(model, [0] * (length + 1)))
    assert value[0, 1] == pytest.approx(1.0) and error[0, 1] < 1e-12
    assert (value[0, 0] > 1e15) and not np.isnan(value).any() and not np.isnan(error).any()


def tiny_chances(to_goal: bool) -> tuple[rue.UMDP, rue.Policy]:
    """At 0, an action that is taken with weight 1e-200 leads to 1 with probability 1e-200; 1 is a trap or the goal.

    Otherwise 0 leads to the goal or, if 1 is the goal, to itself.
    """
    transition = np.zeros((1, 4, 2, 4))
    home = 0 if to_goal else 3
    transition[0, 0, 0, home] = 1.0
    transition[0, 0, 1, [1, home]] = [1e-200, 1.0]
    transition[0, 1, 0, 3 if to_goal else 1] = 1.0
    transition[0, 2, 0, 3] = 1.0
    model = rue.UMDP.from_dense(transition, np.ones((1, 4, 2)), initial=2, goals=[3])
    table = np.array([[1.0, 1e-200], [1, 0], [1, 0], [1, 0]])
    return model, rue.Policy.stationary(model, table)


def test_chances_beyond_all_numbers_are_chances():
    value, error = node_values(*tiny_chances(to_goal=False))
    assert value[0, 0] == INF and error[0, 0] == 0  # it may miss the goal
    value, error = node_values(*tiny_chances(to_goal=True))
    assert value[0, 0] == INF and error[0, 0] == INF  # it never does, but takes longer than can be said
    assert value[1, 0] == value[2, 0] == pytest.approx(1.0) and error[2, 0] < 1e-12


def test_many_nodes_in_many_samples_as_in_each_alone():
    model = rue.domains.Disaster(width=6, height=6, seed=2).sample(20, seed=1)
    policy = rue.solve(model, rue.Regret(4, "history"), limits=Limits(seconds=20)).policy
    assert policy.nodes > 1000  # two threads
    value, error = node_values(model, policy)
    assert error.max() < 1e-9
    for k in (0, 7, 8, 19):
        alone, own_error = node_values(model.subset([k]), policy)
        np.testing.assert_allclose(value[:, k], alone[:, 0], atol=error[:, k].max() + own_error.max())


def test_chain_kernels_are_compiled_once():
    model, policy = branching_model(), rue.Policy.stationary(branching_model(), [0] * 4)
    grid = rue.domains.Disaster(width=4, height=4, seed=1).sample(3, seed=1)
    mixed = rue.solve(grid, rue.Mixture()).policy
    for umdp, controller in ((model, policy), (grid, mixed)):
        node_values(umdp, controller)
        rue.evaluate(umdp, controller)
    for kernel in vars(chain).values():
        if hasattr(kernel, "signatures"):
            signatures = {tuple(map(unliteral, signature)) for signature in kernel.signatures}
            assert len(signatures) <= 1, f"{kernel.__name__}: {signatures}"


def gather(model: rue.UMDP, run: Run | None = None, seconds: float = 60.0) -> list[tuple[str, rue.Policy]]:
    return list(start_policies(model, rue.optimal_values(model), run or Run(), seconds))


def choices(policy: rue.Policy) -> tuple[int, ...]:
    return tuple(sorted(policy.choice.tolist()))


@settings(max_examples=60)
@given(umdps())
def test_all_samples_optimal_policies_and_whatever_else_is_proper(model):
    found = gather(model)
    names = [name for name, _ in found]
    assert len(set(names)) == len(names)
    own = {choices(policy) for name, policy in found if name.startswith("sample")}
    best = rue.optimal_values(model).choice
    for k in range(model.samples):
        first = np.where(best[:, k] >= 0, best[:, k], model.graph.choice_ptr[:-1])[~model.graph.goal]
        assert tuple(sorted(first.tolist())) in own
    regrets = {name: rue.evaluate(model, policy).max_regret for name, policy in found}
    assert all(math.isfinite(regret) for name, regret in regrets.items() if not name.startswith("sample"))
    stationary = [choices(p) for _, p in found if p.is_stationary and p.is_deterministic]
    assert len(set(stationary)) == len(stationary)
    least = min(regrets.values())
    for solver in (rue.BestSample(), rue.Mixture(), rue.Regret(2), rue.Regret(2, "history"), rue.ExactStationary()):
        assert least <= rue.solve(model, solver).max_regret.upper + 1e-9


def test_what_comes_on_a_grid():
    model = rue.domains.Disaster(width=5, height=5, seed=1).sample(6, seed=1)
    found = gather(model)
    names = [name for name, _ in found]
    assert names[0] == "sample 0"
    wanted = ["average", "reg 1 stochastic", "reg 2 deterministic", "reg 3 history", "reg 4 history", "mixture", "milp"]
    assert [name for name in names if name in wanted] == wanted
    regret = {name: rue.evaluate(model, policy).max_regret for name, policy in found}
    assert regret["mixture"] == pytest.approx(rue.solve(model, rue.Mixture()).max_regret.upper, abs=1e-9)
    assert regret["reg 3 history"] == pytest.approx(
        rue.solve(model, rue.Regret(3, "history")).max_regret.upper, abs=1e-9
    )


def test_a_sample_s_optimal_policy_comes_even_if_it_is_improper_elsewhere():
    # Each action leads on in one sample and stays put for ever in the other; the third, dear one leads on in both.
    transition = np.zeros((2, 2, 3, 2))
    transition[0, 0, 0, 1] = transition[0, 0, 1, 0] = 1.0
    transition[1, 0, 0, 0] = transition[1, 0, 1, 1] = 1.0
    transition[:, 0, 2, 1] = 1.0
    cost = np.ones((2, 2, 3))
    cost[:, 0, 2] = 4.0
    model = rue.UMDP.from_dense(transition, cost, goals=[1])
    found = dict(gather(model))
    regret = {name: rue.evaluate(model, policy).max_regret for name, policy in found.items()}
    assert regret["sample 0"] == regret["sample 1"] == INF
    others = [worst for name, worst in regret.items() if not name.startswith("sample")]
    assert others and max(others) == pytest.approx(3.0)


def test_limits_and_interrupts_end_it():
    model = rue.domains.Disaster(width=5, height=5, seed=1).sample(4, seed=1)
    assert gather(model, Run(Limits(seconds=0))) == []
    assert all(name.startswith("sample") for name, _ in gather(model, seconds=0))
    run = Run()
    names = []
    for name, _ in start_policies(model, rue.optimal_values(model), run, 60):
        names.append(name)
        run.interrupted_at = 0.0 if name == "average" else math.inf
    assert names[-1] == "average"


def test_samples_that_a_limit_left_without_values_are_passed_over():
    model = rue.domains.Disaster(width=5, height=5, seed=1).sample(4, seed=1)
    none_yet = rue.values.OptimalValues(
        np.zeros((25, 4)), np.full((25, 4), np.inf), np.zeros((25, 4), bool), np.full((25, 4), -1), complete=False
    )
    names = [name for name, _ in itertools.islice(start_policies(model, none_yet, Run(), 60), 2)]
    assert not any(name.startswith("sample") for name in names)


@dataclass(frozen=True)
class Slow(rue.Regret):
    """A method that takes all the time that it gets."""

    name = "slow"

    def run(self, model: rue.UMDP, run: Run) -> Outcome:
        SLOW_SHARES.append(run.limits.seconds)
        while run.stop() is None:
            time.sleep(0.001)
        return Outcome(rue.Regret().run(model, Run()).policy, Interval(0.0, np.inf), Status.TIME_LIMIT)


@dataclass(frozen=True)
class Broken(Solver):
    """A method that refuses the model."""

    name = "broken"
    measures = "nothing"

    def run(self, model: rue.UMDP, run: Run) -> Outcome:
        raise rue.BadInput("too large")


SLOW_SHARES: list[float] = []
Solver.known.pop("slow")
Solver.known.pop("broken")


def test_no_method_gets_more_than_half_of_what_is_left(monkeypatch):
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(3, seed=1)
    rue.solve(model, rue.Regret())  # so that nothing is compiled on the clock
    SLOW_SHARES.clear()
    methods = (Slow(1), Broken(), Slow(2), Slow(1, "history"), rue.Average())
    monkeypatch.setattr(portfolio, "METHODS", methods)
    found = []
    for name, _ in start_policies(model, rue.optimal_values(model), Run(), 1.0):
        found.append(name)
        time.sleep(0.1)  # this does not count
    # With one step it took half a second, with two it would get less: it is not begun.
    assert len(SLOW_SHARES) == 2
    assert SLOW_SHARES[0] == 0.5 and SLOW_SHARES[1] <= 0.25
    # At the limit it gives its policy all the same, the second time one that came before.
    assert [name for name in found if not name.startswith("sample")] == ["slow 1 deterministic", "average"]


def test_the_outer_limit_is_a_limit_of_each_method(monkeypatch):
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(3, seed=1)
    SLOW_SHARES.clear()
    monkeypatch.setattr(portfolio, "METHODS", (Slow(1), rue.Average()))
    names = [name for name, _ in gather(model, Run(Limits(seconds=0.3)), seconds=60.0)]
    assert len(SLOW_SHARES) == 1 and SLOW_SHARES[0] <= 0.3
    assert "average" not in names


def test_an_inner_run_has_the_limits_of_the_outer_one_too():
    seen = []
    outer = Run(Limits(seconds=50, iterations=3), lambda progress: seen.append(progress))
    inner = Inner(Limits(seconds=20), outer=outer)
    assert inner.stop() is None and 19 < inner.seconds_left <= 20
    assert 40 < Inner(outer=outer).seconds_left <= 50
    inner.iterations = 10
    inner.report("inside", Interval(0.0, 1.0))
    assert seen[0].stage == "inside" and seen[0].objective is None and not outer.trace
    assert inner.stop() is None
    outer.iterations = 3
    assert inner.stop() is Status.ITERATION_LIMIT
    assert Inner(Limits(seconds=0), outer=Run()).stop() is Status.TIME_LIMIT
    assert Run().afterwards().seconds_left == math.inf
    outer = inner.outer = Run()
    after = outer.afterwards()
    outer.interrupted_at = 10.0  # what follows Ctrl-C has as long as what follows a limit, also if it has begun
    assert after.seconds_left == pytest.approx(Run(Limits(seconds=10.0)).afterwards().seconds_left, abs=0.5)
    assert 10 < after.seconds_left < 12 and after.stop() is None
    assert inner.stop() is Status.INTERRUPTED
