"""Mixtures: against a linear program over all policies, against the pool, and under limits."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from models import Shape, umdps
from naive import INF, Naive, matrix_game

import rue
from rue import mixture as mixture_module
from rue import mixture_kernels as mixture
from rue.controllers import mix_policies
from rue.judge import is_proper
from rue.mixture import Mixture, _PolicySearch, _Pool
from rue.policy import complete_choices
from rue.solution import Run, Status

CASES = sorted((Path(__file__).parent / "data" / "cases").glob("*.json"))


def all_regrets(naive: Naive) -> np.ndarray:
    """The regret vectors of all stationary deterministic policies that are proper in all samples."""
    best = [naive.optimal(k)[naive.initial] for k in range(naive.samples)]
    columns = []
    for policy in naive.policies():
        values = [naive.policy_value(policy, k, naive.initial) for k in range(naive.samples)]
        if INF not in values:
            columns.append([float(v - b) for v, b in zip(values, best, strict=True)])
    return np.array(columns).T


@settings(max_examples=150)
@given(umdps())
def test_between_the_best_mixture_of_all_policies_and_every_policy_of_the_pool(model):
    solution = rue.solve(model, Mixture())
    regrets = all_regrets(Naive(model))
    if regrets.size:
        assert solution.status is rue.Status.SOLVED
        assert solution.max_regret.upper >= matrix_game(regrets) - 1e-7
    worst = max(solution.regret)
    for solver in (rue.BestSample(), rue.Regret(), rue.WorstCase(), rue.Average()):
        other = rue.solve(model, solver)
        # Where a method has no policy of its own kind, it returns another one, which need not be in the pool.
        assert worst <= other.max_regret.upper + 1e-9 or other.status is rue.Status.INFEASIBLE
    assert worst <= solution.objective.upper
    if solution.status is rue.Status.SOLVED:
        assert solution.objective.lower == pytest.approx(solution.objective.upper, abs=1e-7)
    if math.isfinite(worst):
        assert is_proper(model, solution.policy).all()
        assert solution.objective.upper == pytest.approx(worst, abs=1e-7)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_on_the_cases_it_is_the_best_mixture_of_all_policies(path):
    """The search is local, so this need not hold elsewhere."""
    raw = json.loads(path.read_text())["model"]
    model = rue.UMDP.from_dense(raw["transition"], raw["cost"], initial=raw["initial"], goals=raw["goals"])
    solution = rue.solve(model, Mixture())
    assert solution.max_regret.upper == pytest.approx(matrix_game(all_regrets(Naive(model))), abs=1e-7)


@settings(max_examples=60)
@given(umdps(Shape(samples=1)))
def test_one_sample_has_no_regret(model):
    assert rue.solve(model, Mixture()).max_regret.upper == pytest.approx(0.0, abs=1e-8)


def test_two_samples_that_want_opposite_things():
    # One action costs 1 in the first sample and nothing in the second, the other the reverse: toss a coin.
    transition = np.zeros((2, 2, 2, 2))
    transition[:, 0, :, 1] = 1.0
    cost = np.zeros((2, 2, 2))
    cost[0, 0], cost[1, 0] = [1, 0], [0, 1]
    model = rue.UMDP.from_dense(transition, cost, goals=[1])
    solution = rue.solve(model, Mixture())
    assert solution.max_regret.upper == pytest.approx(0.5)
    assert sorted(solution.policy.start_weight) == pytest.approx([0.5, 0.5])
    assert not solution.policy.is_stationary
    assert rue.solve(model, rue.BestSample()).max_regret.upper == pytest.approx(1.0)


def tied_model(first: list[float], second: list[float]) -> rue.UMDP:
    """Three samples, each with an action of its own that costs nothing; the costs of two of them are given."""
    transition = np.zeros((3, 2, 3, 2))
    transition[:, 0, :, 1] = 1.0
    cost = np.zeros((3, 2, 3))
    cost[:, 0, 0], cost[:, 0, 1], cost[:, 0, 2] = first, second, [4, 4, 0]
    return rue.UMDP.from_dense(transition, cost, goals=[1])


def test_of_equal_max_regrets_the_lower_mean():
    for first, second, wanted in (([0, 1, 2], [2, 0, 2], 0), ([0, 2, 2], [1, 0, 2], 1)):
        model = tied_model(first, second)
        # The third sample costs the same whichever of the first two actions is taken.
        solution = rue.solve(model, rue.BestSample())
        assert solution.max_regret.upper == pytest.approx(2.0)
        assert model.graph.action[solution.policy.choice[0]] == wanted
        assert solution.objective.lower <= 2 <= solution.objective.upper


@pytest.mark.parametrize("even", [0.0, 0.9])
def test_of_mixtures_with_equal_max_regret_the_lowest_mean(even):
    # The samples 0 and 1 pay 2 between them whatever is done, so that many mixtures have max regret 1. They differ in
    # sample 2, where the third action pays `even` and the other two what is left of 0.9.
    transition = np.zeros((3, 2, 3, 2))
    transition[:, 0, :, 1] = 1.0
    cost = np.zeros((3, 2, 3))
    cost[0, 0], cost[1, 0], cost[2, 0] = [2, 0, 1], [0, 2, 1], [0.9 - even, 0.9 - even, even]
    model = rue.UMDP.from_dense(transition, cost, goals=[1])
    solution = rue.solve(model, Mixture())
    assert solution.regret == pytest.approx((1.0, 1.0, 0.0), abs=1e-7)


def test_the_controller_is_the_game():
    model = rue.domains.Disaster(width=6, height=6, seed=4).sample(8, seed=1)
    solution = rue.solve(model, Mixture())
    policies = [rue.solve(model, s).policy for s in (rue.BestSample(), rue.Regret(), rue.WorstCase())]
    weight = np.array([0.5, 0.2, 0.3])
    mixed = mix_policies(policies, weight)
    parts = np.column_stack([rue.evaluate(model, p).regret for p in policies])
    np.testing.assert_allclose(rue.evaluate(model, mixed).regret, parts @ weight, atol=1e-9)
    assert mixed.start_node.size == 3
    # A mixture of mixtures, and nodes that cannot be reached are left out.
    twice = mix_policies([mixed, policies[0]], np.array([0.5, 0.5]))
    np.testing.assert_allclose(rue.evaluate(model, twice).regret, parts @ [0.75, 0.1, 0.15], atol=1e-9)
    assert mixed.nodes < 3 * model.graph.states
    assert mix_policies(policies, np.array([0.0, 1.0, 0.0])) is policies[1]
    assert solution.status is rue.Status.SOLVED
    assert solution.objective.upper == pytest.approx(solution.max_regret.upper, abs=1e-7)
    assert solution.max_regret.upper < 0.8 * rue.solve(model, rue.BestSample()).max_regret.upper


@settings(max_examples=100)
@given(umdps(Shape(states=3, samples=3)), st.data())
def test_the_search_never_raises_the_sum(model, data):
    naive = Naive(model)
    search = _PolicySearch.build(_Pool(model, Run()), rue.optimal_values(model))
    belief = np.array(data.draw(st.lists(st.integers(1, 4), min_size=model.samples, max_size=model.samples)), float)
    belief /= belief.sum()
    start = data.draw(st.sampled_from(list(naive.policies())))
    values = [naive.policy_value(start, k, naive.initial) for k in range(model.samples)]
    first = np.where(np.array(start) >= 0, start, 0)
    found = search.respond(belief, first)
    assert (found is None) == (INF in values)
    if found is not None:
        policy = [-1 if naive.goal[s] else int(found[s]) for s in range(naive.states)]
        after = [naive.policy_value(policy, k, naive.initial) for k in range(model.samples)]
        assert belief @ np.array(after, float) <= belief @ np.array(values, float) + 1e-9
        lowest = min(
            belief @ np.array([naive.policy_value(p, k, naive.initial) for k in range(model.samples)], float)
            for p in naive.policies()
        )
        assert belief @ np.array(after, float) >= lowest - 1e-9


@settings(max_examples=60)
@given(umdps(Shape(states=4, samples=2)), st.data())
def test_entries_are_visits_from_other_states(model, data):
    naive, graph = Naive(model), model.graph
    policy = data.draw(st.sampled_from(list(naive.policies())))
    assume(all(naive.policy_value(policy, k, naive.initial) != INF for k in range(model.samples)))
    search = _PolicySearch.build(_Pool(model, Run()), rue.optimal_values(model))
    with pytest.MonkeyPatch.context() as patch:  # slow chains take many thousand sweeps; the search makes do with fewer
        patch.setattr(rue.mixture, "SWEEPS", 1_000_000)
        entered = search.entries(np.where(np.array(policy) >= 0, policy, 0))
    for k in range(model.samples):
        for s in np.flatnonzero(~graph.goal):
            # A unit is paid for each arrival: at the end of moves from elsewhere, and once at the start.
            rows = [naive.row(c, k) if c >= 0 else {} for c in policy]
            paid = [sum(p for t, p in row.items() if t == s and i != s) for i, row in enumerate(rows)]
            exact = naive.chain_value(rows, paid, naive.initial) + int(s == naive.initial)
            assert entered[s, k] == pytest.approx(float(exact), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("limits", [rue.Limits(seconds=0), rue.Limits(iterations=0), rue.Limits(iterations=1),
                                    rue.Limits(iterations=9), rue.Limits(iterations=12)])  # fmt: skip
def test_a_limit_returns_a_policy_and_valid_bounds(limits):
    model = rue.domains.Disaster(width=6, height=6, seed=4).sample(6, seed=1)
    stopped = rue.solve(model, Mixture(), limits=limits)
    assert is_proper(model, stopped.policy).all()
    assert stopped.status in (rue.Status.TIME_LIMIT, rue.Status.ITERATION_LIMIT)
    assert stopped.objective.lower == 0
    assert stopped.max_regret.upper <= stopped.objective.upper + 1e-12


def test_progress_and_an_interrupt():
    model = rue.domains.Disaster(width=8, height=8, seed=2).sample(10, seed=1)
    seen = []
    solution = rue.solve(model, Mixture(), progress=seen.append)
    uppers = [point.upper for point in solution.trace]
    assert len(uppers) > 2 and all(b <= a + 1e-9 for a, b in itertools.pairwise(uppers))
    assert any("mixture" in report.stage for report in seen)
    assert [report.seconds for report in seen] == sorted(report.seconds for report in seen)

    class Stop(rue.solution.Run):
        def stop(self):
            return rue.Status.INTERRUPTED if len(self.trace) >= 2 else super().stop()

    outcome = Mixture().run(model, Stop())
    assert outcome.status is rue.Status.INTERRUPTED
    assert math.isfinite(outcome.objective.upper)
    assert outcome.objective.upper <= rue.solve(model, rue.BestSample()).max_regret.upper + 1e-9


def test_without_a_proper_policy():
    # Each sample has one way to the goal, the other way is a trap: no policy is safe in both.
    transition = np.zeros((2, 3, 2, 3))
    transition[:, 1, 0, 1] = 1.0
    transition[0, 0, 0, 2] = transition[0, 0, 1, 1] = 1.0
    transition[1, 0, 1, 2] = transition[1, 0, 0, 1] = 1.0
    model = rue.UMDP.from_dense(transition, np.ones((2, 3, 2)), goals=[2])
    solution = rue.solve(model, Mixture())
    assert solution.status is rue.Status.INFEASIBLE
    assert solution.objective.upper == INF
    stopped = rue.solve(model, Mixture(), limits=rue.Limits(iterations=1))
    assert stopped.status is rue.Status.ITERATION_LIMIT
    assert stopped.objective == rue.Interval(0.0, INF)


def test_a_policy_that_hardly_ever_ends_is_left_out():
    # The second action leaves with a probability that a factorisation cannot tell from zero.
    transition = np.zeros((2, 3, 2, 3))
    transition[:, 0, 0, 2] = 1.0
    transition[:, 0, 1] = [0, 1, 0]
    transition[:, 1, 0] = [1 - 1e-17, 0, 1e-17]
    transition[:, 1, 1] = [0, 0, 1]
    cost = np.zeros((2, 3, 2))
    cost[0, 0], cost[1, 0] = [3, 0], [0, 3]
    model = rue.UMDP.from_dense(transition, cost, goals=[2])
    solution = rue.solve(model, Mixture())
    assert 0 < solution.max_regret.upper <= 1.5 + 1e-9


def test_kernels_are_compiled_once():
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(3, seed=1)
    rue.solve(model, Mixture())
    for name in ("improve", "evaluate_policy", "count_entries"):
        assert len(getattr(mixture, name).signatures) == 1, name


def test_where_no_time_is_left_to_judge_the_mixture_it_is_the_best_policy_of_the_pool(monkeypatch):
    model = rue.domains.Disaster(width=5, height=5, seed=1).sample(6, seed=1)
    judge = mixture_module.judge

    def slow_for_mixtures(model, policy, run):
        verdict = judge(model, policy, run)
        return replace(verdict, complete=False, at_most=math.inf) if policy.start_node.size > 1 else verdict

    monkeypatch.setattr(mixture_module, "judge", slow_for_mixtures)
    solution = rue.solve(model, Mixture())
    assert solution.policy.start_node.size == 1
    assert solution.max_regret.upper == solution.objective.upper
    assert solution.max_regret.upper <= rue.solve(model, rue.BestSample()).max_regret.upper + 1e-9


def test_the_pool_keeps_time_to_judge_a_mixture_of_it():
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    policy = rue.solve(model, rue.Average()).policy
    pool = _Pool(model, Run(rue.Limits(seconds=60)))
    pool.add(policy, pool.judge(policy))
    assert pool.stop() is None
    pool.judge_seconds = 8.0
    assert pool.stop() is None  # one more policy, and a mixture of two
    pool.add(policy, pool.judge(policy))
    assert pool.stop() is rue.Status.TIME_LIMIT


def test_what_fills_the_pool_and_what_searches_keep_this_time_too(monkeypatch):
    model = rue.domains.Disaster(width=4, height=4, seed=1).sample(5, seed=1)
    policy = rue.solve(model, rue.Average()).policy
    pool = _Pool(model, Run(rue.Limits(seconds=60)))
    pool.add(policy, pool.judge(policy))
    pool.judge_seconds = 8.0
    assert pool.searching().seconds_left < 60 - 3 * 8.0

    search = _PolicySearch.build(pool, rue.optimal_values(model))
    choice = np.where(model.graph.goal, -1, search.greedy(np.full(5, 0.2)))
    monkeypatch.setattr(mixture_module, "CLOSE", 0.0)  # values never come to rest
    assert search.evaluate(np.full(5, 0.2), choice, np.zeros((16, 5))) is not None
    pool.judge_seconds = 60.0  # there is no time left: neither for sweeps nor to factorise a chain
    monkeypatch.setattr(mixture_module, "WORK", 1)
    assert search.evaluate(np.full(5, 0.2), choice, np.zeros((16, 5))) is None


@pytest.mark.parametrize("name", ["evaluate_policy", "count_entries"])
def test_sweeps_look_at_the_clock(monkeypatch, name):
    model = rue.domains.Disaster(width=5, height=5, seed=1).sample(3, seed=1)
    values, counts, kernel = rue.optimal_values(model), [], getattr(mixture, name)
    run = Run(threads=1)
    run.out_of_time = lambda: Status.TIME_LIMIT if counts else None
    search = _PolicySearch.build(_Pool(model, run), values)
    choice = complete_choices(model.graph, values.choice[:, 0])
    monkeypatch.setattr(mixture_module, "WORK", 1)
    monkeypatch.setattr(mixture, name, lambda *a: counts.append(a[-2]) or kernel(*a))
    if name == "evaluate_policy":
        assert search.evaluate(np.full(3, 1 / 3), choice, np.zeros((model.graph.states, 3))) is None
    else:
        search.entries(choice)
    assert counts == [1]
