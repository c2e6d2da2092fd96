"""reg, cemr and robust at one step: against enumeration, against linear programs, and under every symmetry."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from models import Shape, umdps
from naive import INF, Naive, matrix_game

import rue
from rue.judge import is_proper
from rue.recursion import row_kernels
from rue.recursion.one_step import StepGame, StepProblem

SOLVERS = {"reg": rue.Regret, "cemr": rue.MyopicRegret, "cost": rue.WorstCase}


def exact_gap(naive: Naive, objective: str):
    return {"reg": naive.regret_gap, "cemr": naive.myopic_gap, "cost": lambda: naive.cost}[objective]()


@pytest.mark.parametrize("objective", SOLVERS)
@settings(max_examples=120)
@given(model=umdps())
def test_objective_contains_the_enumerated_optimum(objective, model):
    naive = Naive(model)
    exact = naive.best_deterministic(exact_gap(naive, objective))
    solution = rue.solve(model, SOLVERS[objective](prune=False))
    assert solution.objective.lower <= exact <= solution.objective.upper
    assert (solution.status is rue.Status.INFEASIBLE) == (exact == INF)
    if exact != INF:
        # The policy itself, not only the number, is optimal.
        policy = [int(np.flatnonzero(solution.policy.node_state == s)[0]) for s in range(naive.states)]
        chosen = [
            int(solution.policy.choice[solution.policy.entry_ptr[n]]) if not naive.goal[n] else -1 for n in policy
        ]
        assert float(naive.worst_case(chosen, exact_gap(naive, objective))) == pytest.approx(float(exact), abs=1e-6)


@settings(max_examples=60)
@given(umdps(Shape(dead_ends=False, zero_costs=False)))
def test_objective_is_tight_where_costs_are_positive(model):
    for solver in (rue.WorstCase(), rue.WorstCase(options="stochastic")):
        solution = rue.solve(model, solver)
        if solution.status is not rue.Status.INFEASIBLE:
            assert solution.status is rue.Status.SOLVED
            assert solution.objective.width <= 1e-7 * max(1.0, solution.objective.upper)


@settings(max_examples=100)
@given(umdps(), st.sampled_from(["deterministic", "stochastic"]), st.booleans())
def test_regret_never_exceeds_its_bound(model, options, prune):
    solution = rue.solve(model, rue.Regret(options=options, prune=prune))
    assert solution.max_regret.upper <= solution.objective.upper + 1e-9
    if solution.status is not rue.Status.INFEASIBLE:
        assert is_proper(model, solution.policy).all()
    if solution.status is rue.Status.SOLVED:
        assert solution.objective.width <= 1e-6 * max(1.0, solution.objective.upper)


def game_value_iteration(model: rue.UMDP, gap: np.ndarray) -> float:
    """The stochastic recursion from above, one linear program for each state: slow, and quite independent."""
    graph = model.graph
    value = np.where(graph.goal, 0.0, 100.0)
    for _ in range(100):
        before = value.copy()
        for s in np.flatnonzero(~graph.goal):
            columns = []
            for c in range(graph.choice_ptr[s], graph.choice_ptr[s + 1]):
                row = slice(graph.trans_ptr[c], graph.trans_ptr[c + 1])
                columns.append(gap[c] + model.prob[row].T @ value[graph.successor[row]])
            value[s] = matrix_game(np.array(columns).T)
        if np.abs(value - before).max() < 1e-9:
            return float(value[graph.initial])
    return INF


@settings(max_examples=15)
@given(umdps(Shape(states=3, samples=2, dead_ends=False, same_support=True, zero_costs=False)))
def test_stochastic_equals_linear_programs(model):
    twin = game_value_iteration(model, model.cost)
    assume(twin < INF)  # sweeps that are too slow say nothing
    solution = rue.solve(model, rue.WorstCase(options="stochastic", prune=False))
    assert solution.objective.lower == pytest.approx(twin, abs=1e-6)
    assert solution.objective.upper == pytest.approx(twin, abs=1e-6)


@pytest.mark.parametrize("objective", SOLVERS)
@settings(max_examples=60)
@given(model=umdps())
def test_randomising_never_hurts(objective, model):
    pure = rue.solve(model, SOLVERS[objective](prune=False))
    mixed = rue.solve(model, SOLVERS[objective](options="stochastic", prune=False))
    assert mixed.objective.lower <= pure.objective.upper + 1e-9
    assert mixed.objective.upper <= pure.objective.upper + 1e-7


def permuted(model: rue.UMDP, order: list[int], samples: list[int], flip: bool) -> rue.UMDP:
    """The same model with states, samples and actions in another order, by way of dense tables."""
    graph, k = model.graph, model.samples
    actions = int(graph.action.max()) + 1
    transition = np.zeros((k, graph.states, actions, graph.states))
    cost = np.zeros((k, graph.states, actions))
    place = np.argsort(order)
    for c in range(graph.choices):
        s = place[graph.choice_state[c]]
        a = actions - 1 - graph.action[c] if flip else graph.action[c]
        cost[:, s, a] = model.cost[c]
        for t in range(graph.trans_ptr[c], graph.trans_ptr[c + 1]):
            transition[:, s, a, place[graph.successor[t]]] += model.prob[t]
    goals = place[np.flatnonzero(graph.goal)]
    return rue.UMDP.from_dense(transition[samples], cost[samples], initial=int(place[graph.initial]), goals=goals)


@settings(max_examples=60)
@given(umdps(), st.randoms(use_true_random=False), st.booleans())
def test_order_of_states_samples_and_actions_does_not_matter(model, random, flip):
    order, samples = list(range(model.graph.states)), list(range(model.samples))
    random.shuffle(order)
    random.shuffle(samples)
    other = permuted(model, order, samples, flip)
    for solver in (rue.Regret(), rue.WorstCase(), rue.Regret(options="stochastic"), rue.Average()):
        a, b = rue.solve(model, solver), rue.solve(other, solver)
        if math.isinf(a.objective.upper):
            assert math.isinf(b.objective.upper)
        else:
            assert a.objective.upper == pytest.approx(b.objective.upper, abs=1e-7)
    # The regrets of one and the same policy.
    uniform = [
        rue.Policy.from_weights(m.graph, 1.0 / np.diff(m.graph.choice_ptr)[m.graph.choice_state])
        for m in (model, other)
    ]
    regrets = [rue.evaluate(m, p).regret for m, p in zip((model, other), uniform, strict=True)]
    np.testing.assert_allclose(regrets[1], regrets[0][samples], atol=1e-8)


@settings(max_examples=60)
@given(umdps(), st.sampled_from([1e-3, 7.0, 1e4]))
def test_scaling_costs_scales_regret(model, factor):
    scaled = rue.UMDP(model.graph, model.prob, model.cost * factor)
    for solver in (rue.Regret(), rue.MyopicRegret(), rue.WorstCase(options="stochastic")):
        a, b = rue.solve(model, solver), rue.solve(scaled, solver)
        assert b.objective.upper == pytest.approx(factor * a.objective.upper, rel=1e-6, abs=1e-7 * factor)


@settings(max_examples=60)
@given(umdps())
def test_a_duplicate_sample_changes_nothing(model):
    doubled = model.subset([*range(model.samples), 0])
    for solver in (
        rue.Regret(),
        rue.Regret(options="stochastic"),
        rue.MyopicRegret(),
        rue.WorstCase(),
        rue.BestSample(),
    ):
        if solver == rue.BestSample():  # where a sample has several optimal policies, another one may be judged
            found = [rue.optimal_values(m).choice[:, : model.samples] for m in (model, doubled)]
            assume(np.array_equal(*found))
        a, b = rue.solve(model, solver), rue.solve(doubled, solver)
        if solver != rue.Regret(options="stochastic"):  # which has many optimal mixtures with different true regrets
            assert a.max_regret.upper == pytest.approx(b.max_regret.upper, abs=1e-7)
        assert a.objective.upper == pytest.approx(b.objective.upper, abs=1e-7)


@settings(max_examples=60)
@given(umdps(Shape(samples=1)))
def test_one_sample_has_no_regret(model):
    for solver in (rue.Regret(), rue.Regret(options="stochastic"), rue.WorstCase(), rue.Average(), rue.BestSample()):
        assert rue.solve(model, solver).max_regret.upper == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize("limits", [rue.Limits(seconds=0), rue.Limits(iterations=0), rue.Limits(iterations=1)])
@pytest.mark.parametrize(
    "solver",
    [
        rue.Regret(),
        rue.Regret(options="stochastic"),
        rue.MyopicRegret(),
        rue.WorstCase(),
        rue.Average(),
        rue.BestSample(),
    ],
    ids=str,
)
def test_a_limit_returns_a_policy_and_valid_bounds(solver, limits):
    model = rue.domains.Disaster(width=6, height=6, seed=4).sample(6, seed=1)
    best = rue.solve(model, solver)
    fresh = rue.UMDP(model.graph, model.prob, model.cost)
    stopped = rue.solve(fresh, solver, limits=limits)
    assert is_proper(model, stopped.policy).all()
    assert math.isfinite(stopped.max_regret.upper)
    if stopped.status is not rue.Status.SOLVED:
        assert stopped.status in (rue.Status.TIME_LIMIT, rue.Status.ITERATION_LIMIT)
        with pytest.raises(rue.NotSolved):
            stopped.require()
    assert stopped.objective.lower <= best.objective.upper + 1e-9
    assert stopped.objective.upper >= best.objective.lower - 1e-9


def test_progress_is_reported_and_an_interrupt_in_the_hook_stops():
    model = rue.domains.Disaster(width=12, height=12, seed=4).sample(6, seed=1)
    seen = []
    rue.solve(model, rue.Regret(), progress=seen.append)
    assert any("reg" in report.stage for report in seen)
    assert [report.seconds for report in seen] == sorted(report.seconds for report in seen)
    assert any(report.objective is not None for report in seen)
    assert seen[-1].stage.startswith("lower bound")


def test_infeasible_against_a_switching_adversary():
    # Each sample has one way to the goal, and switching between them goes round for ever.
    transition = np.zeros((2, 3, 1, 3))
    transition[0, 0, 0], transition[0, 1, 0] = [0, 1, 0], [0, 0, 1]
    transition[1, 0, 0], transition[1, 1, 0] = [0, 0, 1], [1, 0, 0]
    model = rue.UMDP.from_dense(transition, np.ones((2, 3, 1)), goals=[2])
    for solver in (rue.Regret(), rue.WorstCase(options="stochastic")):
        solution = rue.solve(model, solver)
        assert solution.status is rue.Status.INFEASIBLE
        assert solution.objective.lower == INF
        assert solution.max_regret.upper == pytest.approx(0.0, abs=1e-9)  # the only policy is optimal in both


def test_myopic_ties_go_to_the_lowest_action_and_kappa_to_the_shorter_way():
    model = rue.select(rue.domains.Medical(seed=3).sample(50, seed=1), 5)
    solution = rue.solve(model, rue.MyopicRegret(prune=False))
    assert solution.objective.upper == pytest.approx(0.0, abs=1e-9)
    assert (model.graph.action[solution.policy.choice[: 20 * 6]] == 0).all()
    # Two ways that cost nothing, one of them with a detour.
    transition = np.zeros((1, 3, 2, 3))
    transition[0, 0, 0], transition[0, 0, 1], transition[0, 1, 0] = [0, 1, 0], [0, 0, 1], [0, 0, 1]
    short = rue.UMDP.from_dense(transition, np.zeros((1, 3, 2)), goals=[2])
    assert rue.solve(short, rue.MyopicRegret(prune=False)).policy.choice[0] == 1


def test_pruning_keeps_what_is_optimal_somewhere():
    from rue.values import optimal_somewhere, regret_gap

    model = rue.domains.Disaster(width=5, height=5, seed=2).sample(8, seed=1)
    values = rue.optimal_values(model)
    kept = optimal_somewhere(model, values, regret_gap(model, values))
    inner = ~model.graph.goal
    assert kept[values.choice[inner]].all()
    assert kept.mean() < 0.6
    pruned, full = rue.solve(model, rue.Regret()), rue.solve(model, rue.Regret(prune=False))
    assert pruned.objective.upper >= full.objective.lower - 1e-9
    assert kept[pruned.policy.choice].all()


@pytest.mark.parametrize("seed", range(5))
def test_sweeps_with_replies_find_what_sweeps_over_all_samples_find(seed):
    model = rue.domains.Disaster(width=6, height=5, seed=seed).sample(6, seed=seed)
    game = StepGame.build(StepProblem(model, model.cost, 0.0, None), randomised=False)
    game.evaluate(0.0)
    plain = np.zeros(model.graph.states)
    row_kernels.sweep(game.order, game.pack(), 0.0, plain, 100_000, 0.0, np.inf)
    assert game.value[game.order] == pytest.approx(plain[game.order], rel=1e-12)
    assert game.count_rows() <= 0.1
    steps = np.zeros(model.graph.states)
    row_kernels.sweep(game.order, game.pack_units(), 1.0, steps, 100_000, 0.0, np.inf)
    assert (np.abs(game.weight[game.order] - steps[game.order]) <= 0.1 * steps[game.order] + 1).all()
