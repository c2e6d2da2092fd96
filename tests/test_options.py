"""Options of n steps: against enumeration, linear programs and each other, and as controllers."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from models import Shape, umdps
from naive import INF, Naive, best_slot_options, matrix_game, pure_trees
from tree_bound import tree_bound

import rue
from rue.judge import is_proper
from rue.solution import Run
from rue.values import regret_gap

SOLVERS = {"reg": rue.Regret, "cemr": rue.MyopicRegret, "cost": rue.WorstCase}
TINY = Shape(states=2, samples=2)


def exact_gap(naive: Naive, objective: str):
    return {"reg": naive.regret_gap, "cemr": naive.myopic_gap, "cost": lambda: naive.cost}[objective]()


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("objective", SOLVERS)
@settings(max_examples=25)
@given(model=umdps(TINY))
def test_deterministic_contains_the_enumerated_optimum(objective, steps, model):
    naive = Naive(model)
    exact = best_slot_options(naive, steps, exact_gap(naive, objective))
    solution = rue.solve(model, SOLVERS[objective](steps, prune=False))
    assert solution.objective.lower <= exact <= solution.objective.upper
    assert (solution.status is rue.Status.INFEASIBLE) == (exact == INF)
    if solution.status is rue.Status.SOLVED:
        assert solution.objective.upper == pytest.approx(float(exact), rel=1e-6, abs=1e-6)


@settings(max_examples=60)
@given(
    umdps(), st.sampled_from(sorted(SOLVERS)), st.sampled_from([2, 3]), st.sampled_from(["deterministic", "history"])
)
def test_both_engines_agree(model, objective, steps, options):
    solvers = [SOLVERS[objective](steps, options, prune=False, engine=engine) for engine in ("auto", "highs")]
    kernel, highs = (rue.solve(model, solver) for solver in solvers)
    assert (kernel.status is rue.Status.INFEASIBLE) == (highs.status is rue.Status.INFEASIBLE)
    if kernel.status is not rue.Status.INFEASIBLE:
        assert kernel.objective.upper == pytest.approx(highs.objective.upper, abs=1e-6)


def history_value(model: rue.UMDP, steps: int, gap: np.ndarray) -> float:
    """The recursion over histories from above, one linear program over all pure trees for each state."""
    naive = Naive(model)
    value = [0.0 if naive.goal[s] else 100.0 for s in range(naive.states)]
    for _ in range(60):
        before = list(value)
        for s in range(naive.states):
            if not naive.goal[s]:
                value[s] = matrix_game(pure_trees(naive, s, steps, value, gap))
        if np.abs(np.subtract(value, before)).max() < 1e-9:
            return value[naive.initial]
    return INF


@settings(max_examples=12)
@given(umdps(Shape(states=2, samples=2, dead_ends=False, same_support=True, zero_costs=False)), st.sampled_from([2, 3]))
def test_history_equals_linear_programs(model, steps):
    twin = history_value(model, steps, np.array(model.cost))
    assume(twin < INF)
    solution = rue.solve(model, rue.WorstCase(steps, "history"))
    assert solution.objective.lower == pytest.approx(twin, abs=1e-6)
    assert solution.objective.upper == pytest.approx(twin, abs=1e-6)


@pytest.mark.parametrize("objective", SOLVERS)
@settings(max_examples=25, deadline=None)
@given(model=umdps(), steps=st.sampled_from([2, 3]))
def test_classes_are_ordered(objective, model, steps):
    history, stochastic, deterministic = (
        rue.solve(model, SOLVERS[objective](steps, options, prune=False))
        for options in ("history", "stochastic", "deterministic")
    )
    assume(math.isfinite(deterministic.objective.upper))
    slack = 1e-7 * max(1.0, deterministic.objective.upper)
    assert history.objective.lower <= stochastic.objective.upper + slack
    # The infimum may be that of ever longer ways, which no option reaches: then the upper ends are not proved to be it.
    if history.status is rue.Status.SOLVED:
        assert history.objective.upper <= stochastic.objective.upper + slack
    if stochastic.status is rue.Status.SOLVED:
        assert stochastic.objective.upper <= deterministic.objective.upper + slack


@settings(max_examples=60)
@given(umdps(), st.sampled_from([(1, 2), (1, 3), (1, 4), (2, 2)]))
def test_history_of_many_times_the_steps_is_no_worse(model, sizes):
    n, k = sizes
    few, many = (rue.solve(model, rue.Regret(steps, "history", prune=False)) for steps in (n, k * n))
    assume(math.isfinite(few.objective.upper))
    assert many.objective.lower <= few.objective.upper + 1e-9
    assert many.objective.upper <= few.objective.upper + 1e-7 * max(1.0, few.objective.upper)


@settings(max_examples=150)
@given(
    umdps(Shape(samples=4)),
    st.sampled_from(["deterministic", "stochastic", "history"]),
    st.sampled_from([1, 2, 3, 4]),
    st.booleans(),
)
def test_the_judge_never_exceeds_the_objective(model, options, steps, prune):
    assume(options != "stochastic" or steps < 3)
    solution = rue.solve(model, rue.Regret(steps, options, prune=prune))
    if math.isfinite(solution.objective.upper):
        error = rue.evaluate(model, solution.policy).error
        assert solution.max_regret.upper <= solution.objective.upper + error
        assert is_proper(model, solution.policy).all()


@settings(max_examples=60)
@given(umdps(), st.sampled_from([1, 2, 3]))
def test_no_policy_is_below_the_tree_bound(model, depth):
    bound = tree_bound(model, depth)
    for solver in (rue.BestSample(), rue.Regret(), rue.Regret(2, "history", prune=False)):
        solution = rue.solve(model, solver)
        if math.isfinite(solution.max_regret.upper):
            assert bound <= solution.max_regret.upper + rue.evaluate(model, solution.policy).error


def test_two_steps_can_be_feasible_where_one_is_not():
    # Each sample has one way to the goal. An adversary who may switch at every step goes round for ever; one who may
    # switch after two steps cannot.
    transition = np.zeros((2, 3, 1, 3))
    transition[0, 0, 0], transition[0, 1, 0] = [0, 1, 0], [0, 0, 1]
    transition[1, 0, 0], transition[1, 1, 0] = [0, 0, 1], [1, 0, 0]
    model = rue.UMDP.from_dense(transition, np.ones((2, 3, 1)), goals=[2])
    assert rue.solve(model, rue.WorstCase(1)).status is rue.Status.INFEASIBLE
    for options in ("deterministic", "stochastic", "history"):
        solution = rue.solve(model, rue.WorstCase(2, options))
        assert solution.status is rue.Status.SOLVED
        assert solution.objective.upper == pytest.approx(2.0, abs=1e-9)


def test_an_option_may_learn_which_choice_is_safe():
    # Which of two actions at state 1 is deadly depends on the sample, and on the way there one can see which it is.
    transition = np.zeros((2, 6, 2, 6))
    cost = np.ones((2, 6, 2))
    for k in range(2):
        transition[k, 0, 0, 1 + k] = 1  # the sample shows in where one lands
        for s in (1, 2):
            transition[k, s, k, 5] = 1
            transition[k, s, 1 - k, 3] = 1  # a dead end
        transition[k, 3, 0, 3] = 1
        transition[k, 4, 0, 5] = 1
    model = rue.UMDP.from_dense(transition, cost, goals=[5])
    assert rue.solve(model, rue.WorstCase(1)).status is rue.Status.INFEASIBLE
    for options in ("deterministic", "history"):
        for engine in ("auto", "highs"):
            solution = rue.solve(model, rue.WorstCase(2, options, engine=engine))
            assert solution.status is rue.Status.SOLVED, (options, engine)
            assert solution.objective.upper == pytest.approx(2.0, abs=1e-9)
            assert solution.max_regret.upper == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("options", ["deterministic", "history", "stochastic"])
def test_domains_are_solved_and_proved(options):
    model = rue.domains.Disaster(width=5, height=5, seed=2).sample(8, seed=1)
    solution = rue.solve(model, rue.Regret(2, options), limits=rue.Limits(seconds=60))
    assert solution.objective.lower > 0
    assert solution.max_regret.upper <= solution.objective.upper + 1e-9
    if options != "stochastic":
        assert solution.status is rue.Status.SOLVED
    again = rue.solve(rue.UMDP(model.graph, model.prob, model.cost), rue.Regret(2, options, engine="auto"))
    if options != "stochastic":  # where the clock has a say in the proposals
        assert again.objective == solution.objective
        assert again.policy.to_json() == solution.policy.to_json()


@pytest.mark.parametrize("options", ["deterministic", "history", "stochastic"])
@pytest.mark.parametrize("limits", [rue.Limits(seconds=0), rue.Limits(iterations=1), rue.Limits(iterations=4)])
def test_a_limit_returns_a_policy_and_valid_bounds(options, limits):
    model = rue.domains.Disaster(width=6, height=6, seed=4).sample(6, seed=1)
    best = rue.solve(model, rue.Regret(2, options), limits=rue.Limits(seconds=60))
    stopped = rue.solve(rue.UMDP(model.graph, model.prob, model.cost), rue.Regret(2, options), limits=limits)
    assert stopped.status in (rue.Status.TIME_LIMIT, rue.Status.ITERATION_LIMIT)
    assert is_proper(model, stopped.policy).all()
    assert math.isfinite(stopped.max_regret.upper)
    assert stopped.objective.lower <= best.objective.upper + 1e-9
    assert stopped.objective.upper >= best.objective.lower - 1e-9


def test_a_hard_search_can_be_stopped():
    model = rue.select(rue.domains.Medical(seed=0).sample(200, seed=1), 15)
    solution = rue.solve(model, rue.Regret(6, prune=False), limits=rue.Limits(seconds=1.5))
    assert solution.status is rue.Status.TIME_LIMIT
    assert solution.seconds < 10
    assert solution.max_regret.upper <= solution.objective.upper + 1e-9


def test_too_many_histories_are_refused_with_their_number():
    model = rue.domains.Disaster(width=10, height=10, seed=1).sample(3, seed=1)
    with pytest.raises(rue.BadInput, match=r"options of 9 steps have .* histories at state .* GB .* lower steps"):
        rue.solve(model, rue.Regret(9, "history", prune=False))
    with pytest.raises(rue.BadInput, match=r"options of 9 steps have .* histories at state .* lower steps"):
        rue.solve(model, rue.Regret(9, prune=False))


def test_memory_of_long_histories_is_modest():
    code = """if True:
        import re, rue
        from pathlib import Path
        model = rue.domains.Disaster(width=10, height=10, seed=1).sample(15, seed=1)
        assert rue.solve(model, rue.Regret(4, "history")).status == "solved"
        # Not ru_maxrss, which begins at the memory of the process that began this one.
        print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1e9


def test_a_controller_goes_on_where_the_training_samples_never_went():
    domain = rue.domains.Disaster(width=6, height=6, seed=3)
    train, test = domain.sample(2, seed=1), domain.sample(40, seed=2)
    for options in ("deterministic", "history"):
        policy = rue.solve(train, rue.Regret(3, options)).policy
        assert math.isfinite(rue.evaluate(test, policy).max_regret)


@settings(max_examples=30)
@given(umdps(Shape(dead_ends=False)), st.sampled_from([2, 3]))
def test_regret_of_an_option_is_the_sum_of_its_gaps(model, steps):
    """The judge's regret is that of the options' rows in one sample: R_k = paid_k + T_k R_k."""
    from rue.recursion.inner.tables import DeterministicTables
    from rue.recursion.n_step import NStepProblem
    from rue.recursion.one_step import StepGame, StepProblem, solve_pure

    values = rue.optimal_values(model)
    step = StepProblem(model, regret_gap(model, values), 0.0, None)
    run = Run()
    single = StepGame.build(step, randomised=False)
    assume(single is not None and not model.graph.goal[model.graph.initial])
    single.start_above(1e-9, run)
    solve_pure(single, 1e-9, run, "reg")
    problem = NStepProblem(step, single, "reg", steps, 1e-9, 1.0)
    game = problem.start(DeterministicTables, run)
    policy = problem.outcome(game, rue.Interval(0.0, 1.0), None, Run()).policy
    regret = rue.evaluate(model, policy).regret
    tree, rows = game.tree, game.options.rows
    for k in range(model.samples):
        matrix, cost = np.eye(model.graph.states), np.zeros(model.graph.states)
        for i, root in enumerate(tree.layers.root):
            matrix[root, tree.end_state[tree.ends(i)]] -= rows.share[tree.ends(i), k]
            cost[root] = rows.paid[i, k]
        for s in np.flatnonzero(model.graph.goal):
            matrix[s] = np.eye(model.graph.states)[s]
        found = np.linalg.solve(matrix, cost)[model.graph.initial]
        assert found == pytest.approx(regret[k], abs=1e-8)
