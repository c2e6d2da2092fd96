"""A broken prover, a broken judge and broken optimal values are each caught by `solve`; nothing is clipped."""

import re
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import lively

import rue
from rue import values as optimal_module
from rue.adaptive import report_bound as adaptive
from rue.cross_check import check_judge, check_values, cost_by_factorisation, cost_by_steps
from rue.solution import Interval, Outcome, Run
from rue.visits import PolicyChain

judge_module = sys.modules["rue.judge"]
solve_module = sys.modules["rue.solving"]
SOLVERS = [rue.Regret(), rue.Regret(2, "history"), rue.WorstCase(), rue.BestSample(), rue.Mixture(), rue.Adaptive()]


def grid() -> rue.UMDP:
    return rue.domains.Disaster(width=4, height=4, seed=1).sample(4, seed=1)


def names(solver):
    return f"{solver.name}-{getattr(solver, 'steps', '')}"


# A broken prover


@pytest.mark.parametrize("claim", [1000.0, 1.0])
def test_a_bound_above_the_judges_regret_is_an_error(monkeypatch, claim):
    model = grid()
    honest = adaptive.prove_bound

    def boastful(model, run, **options):
        certificate = honest(model, run, **options)
        return replace(certificate, bound=claim)

    assert rue.solve(model, rue.Regret()).max_regret.upper < claim
    monkeypatch.setattr(solve_module, "prove_bound", boastful)
    with pytest.raises(rue.Contradiction, match=r"at least|claims"):
        rue.solve(model, rue.Regret())


def test_a_certificate_of_a_solver_is_verified_even_where_the_judge_would_not_mind():
    model = grid()
    certificate = rue.solve(model, rue.Adaptive(0.01)).certificate

    class Boastful(rue.Solver):
        name, measures = "boastful", "regret"

        def run(self, model, run: Run) -> Outcome:
            policy = rue.solve(model, rue.Average()).policy
            claim = replace(certificate, bound=certificate.bound * 1.02)  # below what its policy has, yet not proved
            return Outcome(policy, Interval(claim.bound, 100.0), certificate=claim)

    try:
        with pytest.raises(rue.Contradiction, match="does not hold"):
            rue.solve(model, Boastful())
    finally:
        rue.Solver.known.pop("boastful")


def test_a_search_that_lies_about_its_points_proves_nothing_false(monkeypatch):
    # What the maker says of its bound does not count: the check finds its own.
    from rue.adaptive import finite
    from rue.adaptive.belief_graph import BeliefGraph

    honest = BeliefGraph.certificate
    monkeypatch.setattr(finite, "MOST_NODES", 0)  # or another engine would find the proof

    def raised(self, objective):
        proof, low = honest(self, objective)
        return replace(proof, value=proof.value * 3.0), low * 3.0

    monkeypatch.setattr(BeliefGraph, "certificate", raised)
    solution = rue.solve(grid(), rue.Adaptive())
    assert solution.max_regret.lower == 0.0 and solution.status is rue.Status.UNPROVED


# A broken judge


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 2.0])
@pytest.mark.parametrize("solver", SOLVERS, ids=names)
def test_a_judge_that_is_off_contradicts_somebody(monkeypatch, solver, factor):
    honest = judge_module.policy_cost

    def crooked(model, policy, run):
        cost = honest(model, policy, run)
        return replace(cost, value=cost.value * factor)

    model = grid()
    monkeypatch.setattr(judge_module, "policy_cost", crooked)
    with pytest.raises(rue.Contradiction):
        rue.solve(model, solver)


def test_a_cost_below_the_least_is_an_error_of_evaluate(monkeypatch):
    model = grid()
    policy = rue.solve(model, rue.Regret()).policy
    cost = judge_module.PolicyCost(np.full(4, 0.01), np.zeros(4), True, np.zeros(4))
    monkeypatch.setattr(judge_module, "policy_cost", lambda *_: cost)
    with pytest.raises(rue.Contradiction, match=r"cost of 0\.01 .* no policy costs less than .*; 4 samples"):
        rue.evaluate(model, policy)


# Broken optimal values


@pytest.mark.parametrize("factor", [0.5, 0.999, 1.001, 2.0])
@pytest.mark.parametrize("solver", SOLVERS, ids=names)
def test_optimal_values_that_are_off_are_an_error(monkeypatch, solver, factor):
    honest = optimal_module._PolicyIteration.prove

    def crooked(iteration, tolerance, run):
        above, below = honest(iteration, tolerance, run)
        return above * factor, below * factor

    monkeypatch.setattr(optimal_module._PolicyIteration, "prove", crooked)
    with pytest.raises(rue.Contradiction):
        rue.solve(grid(), solver)


def test_an_optimal_policy_that_goes_round_for_ever_is_an_error():
    builder = rue.Builder(samples=1)
    builder.add("a", "wait", {"a": 1.0}, cost=0.0)
    builder.add("a", "go", {"goal": 1.0}, cost=1.0)
    model = builder.goal("goal").build()
    values = rue.optimal_values(model)
    assert check_values(model, values, Run())
    zero = np.zeros_like(values.lower)
    wrong = replace(values, lower=zero, upper=zero, choice=np.array([[0], [-1]], np.int32))
    with pytest.raises(rue.Contradiction, match="below the cost of its policy"):
        check_values(model, wrong, Run(threads=1))


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.floats(0.01, 0.2), st.booleans())
def test_a_single_wrong_value_is_found(seed, part, up):
    model = lively(seed)
    values = rue.optimal_values(model)
    assert check_values(model, values, Run())
    random = np.random.default_rng(seed)
    s, k = int(random.integers(model.graph.states - 1)), int(random.integers(model.samples))
    if values.lower[s, k] < 1e-6:
        return
    shift = np.zeros_like(values.lower)
    shift[s, k] = part * values.lower[s, k] * (1 if up else -1)
    with pytest.raises(rue.Contradiction):
        check_values(model, replace(values, lower=values.lower + shift, upper=values.upper + shift), Run())


def test_a_limit_cuts_second_computations_off_and_says_so(monkeypatch):
    model = grid()
    values = rue.optimal_values(model)
    over = Run(rue.Limits(seconds=0))
    assert not check_values(model, values, over)
    policy = rue.solve(model, rue.Average()).policy
    verdict = rue.evaluate(model, policy)
    assert check_judge(model, policy, verdict, Run())
    assert not check_judge(model, policy, verdict, over)
    assert "cross-checks cut off" not in rue.solve(model, rue.Average()).counters
    monkeypatch.setattr(solve_module, "check_judge", lambda *_: False)
    assert rue.solve(model, rue.Average()).counters["cross-checks cut off"] == 1


def test_solved_means_judged(monkeypatch):
    class Late(rue.Average):
        name = "late"

        def run(self, model, run: Run) -> Outcome:
            outcome = super().run(model, run)
            monkeypatch.setattr(Run, "seconds", 10.0)  # of the limit of one second
            return outcome

    try:
        solution = rue.solve(grid(), Late(), limits=rue.Limits(seconds=1))
    finally:
        rue.Solver.known.pop("late")
    assert solution.status is rue.Status.TIME_LIMIT
    assert solution.max_regret.upper == np.inf


# The evidence


def test_the_file_has_what_shows_the_contradiction(monkeypatch):
    model = grid()
    monkeypatch.setattr(
        solve_module, "prove_bound", lambda model, run, **_: replace(adaptive.prove_bound(model, run), bound=1e3)
    )
    with pytest.raises(rue.Contradiction) as caught:
        rue.solve(model, rue.Regret())
    path = re.search(r"please send us (\S+)", str(caught.value)).group(1)
    with zipfile.ZipFile(path) as archive:
        assert set(archive.namelist()) == {"message.txt", "model.rue", "solution.rue"}
        folder = path.rpartition("/")[0]
        archive.extractall(folder)
    assert rue.load(f"{folder}/model.rue").samples == model.samples
    assert rue.load(f"{folder}/solution.rue").certificate.bound == 1e3


# Intervals and gaps


@pytest.mark.parametrize(("lower", "upper"), [(1.0, 0.5), (float("nan"), 1.0), (0.0, float("nan"))])
def test_an_interval_that_is_none_is_refused(lower, upper):
    with pytest.raises(rue.BadInput, match="expected lower ≤ upper"):
        rue.Interval(lower, upper)


@pytest.mark.parametrize(
    ("lower", "upper", "floor", "gap"),
    [
        (0.5, 1.0, 0.0, 0.5),
        (0.0, 0.0, 0.0, 0.0),
        (0.0, 1e-11, 1e-9, 0.0),
        (0.0, 1e-8, 1e-9, 1.0),
        (1.0, float("inf"), 0.0, float("inf")),
        (float("inf"), float("inf"), 0.0, float("inf")),
    ],
)
def test_the_gap_is_a_part_of_the_upper_end(lower, upper, floor, gap):
    assert rue.Interval(lower, upper).gap(floor) == gap


def test_a_regret_of_rounding_has_no_gap():
    # One sample: no policy need regret anything, and what is left is rounding.
    model = rue.domains.Disaster(width=6, height=6, seed=1).sample(1, seed=1)
    solution = rue.solve(model, rue.Regret())
    assert solution.gap == 0.0 and solution.max_regret.upper < 1e-9


def test_the_upper_end_includes_the_judges_error():
    model = grid()
    solution = rue.solve(model, rue.Regret())
    verdict = rue.evaluate(model, solution.policy)
    assert solution.max_regret.upper >= verdict.max_regret + 0.5 * verdict.error
    assert solution.max_regret.upper == verdict.at_most


def test_worst_case_cost_comes_with_a_proof_of_both_lower_ends():
    model = grid()
    solution = rue.solve(model, rue.Adaptive(objective="cost"))
    assert solution.certificate.objective == "cost"
    assert rue.verify(model, solution.certificate) >= solution.objective.lower
    assert rue.verify(model, solution.regret_certificate) >= solution.max_regret.lower > 0


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_both_second_computations_of_a_cost_agree_with_the_judge(seed):
    model = lively(seed)
    policy = rue.solve(model, rue.Regret(), bound=False).policy
    value = rue.evaluate(model, policy).value
    node = np.repeat(np.arange(policy.nodes), np.diff(policy.entry_ptr))
    for k in range(model.samples):
        chain = PolicyChain.build(model, policy, k)
        paid = np.bincount(node, policy.weight * model.cost[policy.choice, k], policy.nodes)
        for found in (cost_by_steps(chain, paid, Run()), cost_by_factorisation(chain, paid)):
            assert found is not None and found[0] == pytest.approx(value[k], rel=1e-9)


@pytest.mark.parametrize("leave", [1e-9, 8e-31])
def test_a_second_computation_that_rounding_spoils_contradicts_nobody(leave):
    # A node that all but stays: 1 − 1 is the pivot of its row, and the cost that follows is below zero.
    builder = rue.Builder().add("a", "go", {"b": 1}, 1.0).add("b", "go", {"b": 1 - leave, "c": leave}, 1.0)
    model = builder.add("c", "go", {"goal": 0.9, "b": 0.1}, 1.0).goal("goal").build()
    assert rue.solve(model, rue.Average()).policy.nodes == 4


def test_a_chain_that_hardly_ends_is_not_computed_a_second_time():
    builder = rue.Builder().add("a", "go", {"b": 1}, 1.0).add("b", "go", {"a": 1 - 1e-13, "goal": 1e-13}, 1.0)
    model = builder.goal("goal").build()
    policy = rue.Policy.stationary(model, [0, 0, 0])
    assert cost_by_factorisation(PolicyChain.build(model, policy, 0), np.ones(3)) is None
