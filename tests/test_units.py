"""Rewards, discounts, horizons and probabilities: results are in the figures that the model was made of."""

import dataclasses
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import rue
from rue import report
from rue.cli.app import app

SAMPLES, ACTIONS = 3, 2


def tables(seed, states=5, goals=0):
    """Random transitions and figures of either sign; the last states may be goals."""
    random = np.random.default_rng(seed)
    transition = random.random((SAMPLES, states, ACTIONS, states)) * (random.random((states, ACTIONS, states)) < 0.6)
    transition[..., 0] += 0.1
    transition /= transition.sum(axis=3, keepdims=True)
    figure = random.normal(size=(SAMPLES, states, ACTIONS)).round(3)
    end = random.normal(size=states).round(3)
    return transition, figure, list(range(states - goals, states)), end


def is_goal(states, goals):
    return np.isin(np.arange(states), goals)


def backward(transition, figure, goals, horizon, discount, end, best):
    """Plain dynamic programming for a number of steps, in the user's figures: `best` is min or max."""
    goal = is_goal(figure.shape[1], goals)
    value = np.broadcast_to(np.where(goal, 0.0, end), figure.shape[:2]).copy()
    for _ in range(horizon):
        value = np.where(goal, 0.0, best(figure + discount * np.einsum("ksat,kt->ksa", transition, value), axis=2))
    return value[:, 0]


def discounted(transition, figure, goals, discount, best):
    """Value iteration to the last digits."""
    goal, value = is_goal(figure.shape[1], goals), np.zeros(figure.shape[:2])
    for _ in range(int(np.log(1e-15) / np.log(discount))):
        value = np.where(goal, 0.0, best(figure + discount * np.einsum("ksat,kt->ksa", transition, value), axis=2))
    return value[:, 0]


def optimal(model):
    """What the judge says of the best policy of each sample."""
    return rue.evaluate(model, rue.solve(model, rue.Average(), bound=False).policy).optimal


@pytest.mark.parametrize("seed", range(200))
def test_rewards_over_a_horizon(seed):
    transition, reward, goals, end = tables(seed, goals=seed % 3)
    model = rue.UMDP.from_dense(transition, reward=reward, goals=goals, horizon=20, discount=0.97, terminal=end)
    assert optimal(model) == pytest.approx(backward(transition, reward, goals, 20, 0.97, end, np.max), abs=1e-9)


@pytest.mark.parametrize("seed", range(50))
def test_costs_over_a_horizon(seed):
    transition, cost, goals, end = tables(seed, goals=seed % 3)
    both = np.array([end, end + 1, end - 1])  # one for each sample
    cost = np.abs(cost) if seed % 2 else cost
    model = rue.UMDP.from_dense(transition, cost, goals=goals, horizon=4, terminal=both)
    assert optimal(model) == pytest.approx(backward(transition, cost, goals, 4, 1.0, both, np.min), abs=1e-9)


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("kind", ["reward", "cost"])
def test_discounted_figures(seed, kind):
    transition, figure, goals, _ = tables(seed, goals=seed % 3)
    best = {"reward": np.max, "cost": np.min}[kind]
    model = rue.UMDP.from_dense(transition, **{kind: figure}, goals=goals, discount=0.97)
    assert optimal(model) == pytest.approx(discounted(transition, figure, goals, 0.97, best), abs=1e-8)


@pytest.mark.parametrize("seed", range(10))
def test_a_discount_of_9999_in_ten_thousand(seed):
    """Against policy iteration, which solves linear systems."""
    transition, reward, goals, _ = tables(seed, goals=seed % 3)
    model = rue.UMDP.from_dense(transition, reward=reward, goals=goals, discount=0.9999)
    found, moves, here = optimal(model), ~is_goal(reward.shape[1], goals), np.arange(reward.shape[1])
    for k in range(SAMPLES):
        action = np.zeros(here.size, int)
        for _ in range(100):
            step = np.where(moves[:, None], transition[k, here, action], 0.0)
            value = np.linalg.solve(np.eye(here.size) - 0.9999 * step, np.where(moves, reward[k, here, action], 0.0))
            figures = reward[k] + 0.9999 * np.einsum("sat,t->sa", transition[k], value)
            action = np.where(figures.max(axis=1) > figures[here, action] + 1e-9, figures.argmax(axis=1), action)
        assert found[k] == pytest.approx(value[0], rel=1e-7, abs=1e-4)


@pytest.mark.parametrize("seed", range(20))
def test_values_of_policies_and_regrets(seed):
    """The value of a policy in the user's figures, and a regret that is the difference."""
    transition, reward, goals, _ = tables(seed, goals=1)
    model = rue.UMDP.from_dense(transition, reward=reward, goals=goals, discount=0.9)
    action = np.random.default_rng(seed).integers(ACTIONS, size=model.graph.states)
    action[model.graph.choice_ptr[:-1] + 1 >= model.graph.choice_ptr[1:]] = 0  # goals wait, and the end has no action
    action[-1] = -1
    verdict = rue.evaluate(model, rue.Policy.stationary(model, action))
    goal = is_goal(reward.shape[1], goals)
    for k in range(SAMPLES):
        here = np.arange(goal.size)
        step = np.where(goal[:, None], 0.0, transition[k, here, action[:-1]])
        paid = np.where(goal, 0.0, reward[k, here, action[:-1]])
        value = np.linalg.solve(np.eye(goal.size) - 0.9 * step, paid)[0]
        assert verdict.value[k] == pytest.approx(value, abs=1e-9)
    assert verdict.regret == pytest.approx(verdict.optimal - verdict.value, abs=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_reach_avoid(seed):
    """The largest probability of a goal before a state to avoid, by value iteration from zero."""
    transition, _, _, _ = tables(seed, states=6)
    model = rue.UMDP.from_dense(transition, goals=[5], avoid=[4])
    value = np.zeros((SAMPLES, 6))
    for _ in range(5000):
        value = np.einsum("ksat,kt->ksa", transition, value).max(axis=2)
        value[:, 5], value[:, 4] = 1.0, 0.0
    assert optimal(model) == pytest.approx(value[:, 0], abs=1e-7)
    short = rue.UMDP.from_dense(transition, goals=[5], avoid=[4], horizon=3)
    value = np.zeros((SAMPLES, 6))
    value[:, 5] = 1.0
    for _ in range(3):
        value = np.einsum("ksat,kt->ksa", transition, value).max(axis=2)
        value[:, 5], value[:, 4] = 1.0, 0.0
    assert optimal(short) == pytest.approx(value[:, 0], abs=1e-9)


def test_a_goal_that_cannot_be_reached_surely():
    """Who might be caught in a circle gives up instead."""
    builder = rue.Builder(2)
    builder.add("start", "try", {"there": [0.5, 0.25], "circle": [0.5, 0.75]})
    builder.add("circle", "wait", {"circle": 1.0})
    model = builder.goal("there").avoid("pit").build()
    assert optimal(model) == pytest.approx([0.5, 0.25])


def farm(horizon=3):
    """Two fields and two forecasts, by hand."""
    builder = rue.Builder(["wet", "dry"], horizon=horizon)
    builder.add("rich", "grow", {"rich": [0.5, 0.25], "poor": [0.5, 0.75]}, reward=[4.0, 2.0])
    builder.add("rich", "rest", {"rich": 1.0}, reward=1.0)
    builder.add("poor", "rest", {"rich": [0.5, 0.25], "poor": [0.5, 0.75]})
    return builder.terminal("rich", reward=3.0)


def test_builder_with_rewards_and_a_horizon():
    model = farm(1).build()
    assert optimal(model) == pytest.approx([4 + 0.5 * 3, 1 + 3])
    assert model.units.reward and set(model.graph.state_label) == {"rich at 0", "rich at 1", "poor at 1"}


def test_results_are_in_figures_everywhere(tmp_path):
    """Files, copies, parts, simulations and the command line keep the figures."""
    model = farm().build()
    path = tmp_path / "farm.rue"
    rue.save(path, model)
    policy = rue.solve(model, rue.Adaptive(), bound=False).policy
    value = rue.evaluate(model, policy).value
    assert (value > 4).all()
    for same in (rue.load(path), model.subset([0, 1]), model.with_weight([1, 3])):
        assert same.units == model.units and rue.evaluate(same, policy).value.tolist() == value.tolist()
    runs = rue.simulate(model, policy, sample=1, episodes=4000, seed=1)
    assert abs(runs.mean - value[1]) < 5 * runs.cost.std() / 4000**0.5 and "mean reward" in repr(runs)
    solution = tmp_path / "solution.rue"
    run = CliRunner().invoke(app, ["solve", str(path), "--method", "robust", "-o", str(solution), "--json"])
    objective = json.loads(run.stdout)["objective"]
    worst = rue.evaluate(model, rue.load(solution).policy).value.min()
    assert objective["measures"] == "worst-case reward" and objective["lower"] == pytest.approx(worst)
    run = CliRunner().invoke(app, ["evaluate", str(path), str(solution), "--json"])
    facts = json.loads(run.stdout)
    assert facts["figure"] == "reward" and min(facts["value"]) == pytest.approx(worst)
    run = CliRunner().invoke(app, ["evaluate", str(path), str(solution)])
    assert "reward" in run.output
    run = CliRunner().invoke(app, ["compare", str(path), "--methods", "robust,average"])
    assert run.exit_code == 0, run.output


def test_what_is_printed_is_plain_dynamic_programming(tmp_path):
    """Rewards, a discount of 0.97 and twenty steps, through files and the command line: 200 models, every figure.

    The policy takes action 0 everywhere.
    """
    path, plan = tmp_path / "m.rue", tmp_path / "p.json"
    for seed in range(200):
        transition, reward, goals, end = tables(seed, goals=seed % 3)
        model = rue.UMDP.from_dense(transition, reward=reward, goals=goals, horizon=20, discount=0.97, terminal=end)
        rue.save(path, model)
        rue.save(plan, rue.Policy.stationary(model, np.where(np.diff(model.graph.choice_ptr) > 0, 0, -1)))
        best = backward(transition, reward, goals, 20, 0.97, end, np.max)
        value = backward(transition, reward, goals, 20, 0.97, end, lambda figures, axis: figures[..., 0])
        printed = CliRunner().invoke(app, ["evaluate", str(path), str(plan)]).output.splitlines()
        assert printed[0].split()[:4] == ["sample", "reward", "optimal", "regret"]
        for k in range(SAMPLES):
            sample, *shown = printed[1 + k].split()[:4]
            assert sample == str(k)
            for word, figure in zip(shown, (value[k], best[k], best[k] - value[k]), strict=True):
                assert word == f"{figure:.5g}" or float(word) == pytest.approx(figure, rel=1e-5, abs=1e-9)


def test_blocks_are_in_figures(tmp_path):
    model = farm().build()
    policy = rue.solve(model, rue.Average(), bound=False).policy
    value = rue.evaluate(model, policy).value
    for k in range(2):
        rue.save(tmp_path / f"{k}.rue", model.subset([k]))
    source = rue.Source.from_files(tmp_path)
    assert source.units == source.gather([1]).units == model.units
    assert rue.evaluate(source, policy).value == pytest.approx(value, abs=1e-12)
    drawn = rue.Source.from_function(lambda i: model.subset([i]), 2, block=1)
    assert rue.evaluate(drawn, policy).value == pytest.approx(value, abs=1e-12)
    rue.save(tmp_path / "policy.rue", policy)
    (tmp_path / "blocks").mkdir()
    for k in range(2):
        (tmp_path / f"{k}.rue").rename(tmp_path / "blocks" / f"{k}.rue")
    run = CliRunner().invoke(app, ["evaluate", str(tmp_path / "blocks"), str(tmp_path / "policy.rue"), "--json"])
    facts = json.loads(run.stdout)
    assert facts["figure"] == "reward" and facts["value"] == pytest.approx(value.tolist())
    other = dataclasses.replace(model.subset([1]), units=rue.Units(reward=True, shift=9.0, steps=3.0))
    rue.save(tmp_path / "blocks" / "1.rue", other)
    with pytest.raises(rue.BadInput, match=r"block 1 .* was made of Units.*; expected Units"):
        rue.evaluate(rue.Source.from_files(tmp_path / "blocks", samples=1), policy)


def test_objectives_pictures_and_pages_are_in_figures(tmp_path):
    model = farm().build()
    solution = rue.solve(model, rue.WorstCase(), bound=False)
    worst = rue.evaluate(model, solution.policy).value.min()
    assert solution.measures == "worst-case reward"
    assert solution.objective.lower == pytest.approx(worst) and solution.objective.lower <= solution.objective.upper
    rue.save(tmp_path / "s.rue", solution)
    back = rue.load(tmp_path / "s.rue")
    assert (back.objective, back.trace, back.units) == (solution.objective, solution.trace, model.units)
    assert rue.solve(model, rue.Regret(), bound=False).measures == "regret"
    figure = report.draw_bounds({"robust": solution})
    axes = figure.axes[0]
    assert axes.get_ylabel() == "worst-case reward"
    assert axes.get_ylim()[0] <= solution.objective.lower <= solution.objective.upper <= axes.get_ylim()[1]
    regrets = {"robust": solution.regret}
    assert report.draw_regrets(model, regrets).axes[0].get_ylabel() == "regret (reward below the largest possible)"
    many = rue.UMDP(model.graph, model.prob[:, [0] * 40], model.cost[:, [0] * 40], units=model.units)
    curves = report.draw_regrets(many, {"robust": [0.1] * 40})
    assert curves.axes[0].get_xlabel() == "regret (reward below the largest possible)"
    runs = rue.simulate(model, solution.policy, sample=0, episodes=3, seed=1, paths=True)
    assert "reward" in report.draw_trajectory(runs.paths).axes[0].get_title(loc="left")
    rue.save(tmp_path / "m.rue", model)
    run = CliRunner().invoke(app, ["compare", str(tmp_path / "m.rue"), "--methods", "robust,average", "--report",
                                   str(tmp_path / "p.html"), "--json"])  # fmt: skip
    robust, average = (one["objective"] for one in json.loads(run.stdout)["methods"])
    assert robust["measures"] == "worst-case reward" and robust["lower"] == pytest.approx(worst)
    assert average["measures"] == "mean reward"
    assert "reward below the largest that is possible there" in (tmp_path / "p.html").read_text()
    run = CliRunner().invoke(app, ["info", str(tmp_path / "m.rue"), "--json"])
    assert json.loads(run.stdout)["reward_range"] == [0, 5.5]
    told = "rewards, each shifted by 5.5; every policy takes 3 steps, on average"
    assert told in " ".join(CliRunner().invoke(app, ["info", str(tmp_path / "m.rue")]).output.split())  # at any width
    assert "reward range" in CliRunner().invoke(app, ["info", str(tmp_path / "m.rue")]).output


def test_bounds_below_zero_are_drawn():
    transition, reward, _, _ = tables(1)
    model = rue.UMDP.from_dense(transition, reward=-np.abs(reward) - 1, horizon=4)
    solution = rue.solve(model, rue.WorstCase(), bound=False)
    assert solution.objective.upper < 0
    low, high = report.draw_bounds({"robust": solution}).axes[0].get_ylim()
    assert low < solution.objective.lower <= solution.objective.upper < high


def test_worst_case_reward_is_proved(tmp_path):
    model, path, solution = farm().build(), tmp_path / "farm.rue", tmp_path / "s.rue"
    rue.save(path, model)
    rue.save(solution, rue.solve(model, rue.Adaptive(0.0, objective="cost")))
    run = CliRunner().invoke(app, ["verify", str(path), str(solution)])
    policy = rue.load(solution).policy
    most = float(re.search(r"worst-case reward above ([\d.]+)", run.output)[1])
    assert most == pytest.approx(rue.evaluate(model, policy).value.min(), rel=1e-4)


def test_with_horizon_is_the_same_problem():
    transition, cost, _, end = tables(3)
    model = rue.UMDP.from_dense(transition, np.abs(cost), goals=[4])
    assert optimal(model.with_horizon(5, end)) == pytest.approx(
        backward(transition, np.abs(cost), [4], 5, 1.0, end, np.min), abs=1e-9
    )


ODD = {
    "cost and reward": ({"cost": 1, "reward": 1}, "cost and reward is given; expected one of cost, reward and avoid"),
    "nothing": ({}, "none of them is given; expected one of cost, reward and avoid"),
    "endless": ({"reward": 1}, "a reward is 1; expected 0 or less without discount= or horizon="),
    "horizon 0": ({"reward": 1, "horizon": 0}, "horizon is 0; expected"),
    "half a step": ({"reward": 1, "horizon": 2.5}, "horizon is 2.5; expected"),
    "terminal alone": ({"reward": 1, "discount": 0.9, "terminal": 1}, "terminal is given without a horizon"),
    "terminal of others": (
        {"reward": 1, "horizon": 2, "terminal": [1, 2]},
        r"terminal has shape \(2,\); expected \(3,\) or",
    ),
    "endless end": ({"reward": 1, "horizon": 2, "terminal": [1, np.inf, 2]}, "terminal is not finite somewhere"),
    "avoid all": ({"avoid": [0, 1, 2]}, "there is no goal that is not to be avoided"),
    "avoid nowhere": ({"avoid": [7]}, "7 is out of range; expected 0 to 2"),
    "avoid at a discount": ({"avoid": [1], "discount": 0.9}, "avoid is given with a discount"),
    "growing": ({"reward": 1, "horizon": 2, "discount": 1.5}, "discount is 1.5; expected a number above 0"),
    "no steps": ({"reward": 1, "horizon": 2, "discount": 0}, "discount is 0; expected a number above 0"),
    "very long": ({"reward": 1, "horizon": 10**12}, "a model of 1000000000000 steps would take"),
}


@pytest.mark.parametrize(("given", "said"), ODD.values(), ids=ODD)
def test_odd_problems_are_refused_in_one_line(given, said):
    transition = np.full((1, 3, 2, 3), 1 / 3)
    full = {name: np.ones((1, 3, 2)) if name in ("cost", "reward") else value for name, value in given.items()}
    with pytest.raises(rue.BadInput, match=said) as error:
        rue.UMDP.from_dense(transition, goals=[2], **full)
    assert "\n" not in str(error.value)


def test_a_builder_refuses_two_kinds_of_figures():
    with pytest.raises(rue.BadInput, match="there are both costs and rewards"):
        farm().add("poor", "buy", {"rich": 1.0}, cost=1.0)
    with pytest.raises(rue.BadInput, match="there are states to avoid and rewards"):
        farm().goal("rich2").avoid("pit").build()
    with pytest.raises(rue.BadInput, match="the end in state 'barn' has a figure"):
        farm().terminal("barn", reward=1).build()
    with pytest.raises(rue.BadInput, match="the end in state 'lost' has a figure, and the state is a goal"):
        farm().add("poor", "sell", {"lost": 1.0}).goal("lost").terminal("lost", reward=1).build()
    with pytest.raises(rue.BadInput, match="shifted already"):
        farm().build().with_discount(0.9)
    with pytest.raises(rue.BadInput, match="the units are a dict"):
        model = farm().build()
        rue.UMDP(model.graph, model.prob, model.cost, units={})


def test_paths_are_in_figures():
    model = farm().build()
    policy = rue.solve(model, rue.Average(), bound=False).policy
    runs = rue.simulate(model, policy, sample=0, episodes=20, seed=1, paths=True)
    assert np.add.reduceat(runs.paths.cost, runs.paths.episode_ptr[:-1]) == pytest.approx(runs.cost, abs=1e-12)
    assert runs.paths.to_csv().startswith("episode,step,node,state,action,reward,belief wet,belief dry\n")
