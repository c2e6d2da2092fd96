"""Averages per step in the long run: values, and the bound on their error, beside programs that know no discount."""

import dataclasses
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from typer.testing import CliRunner

import rue
from rue import report
from rue.average import USUAL_DISCOUNT
from rue.cli.app import app
from rue.judge import least_cost, policy_cost
from rue.judge_kernels import System
from rue.long_run import around_policy
from rue.solution import Run

DISCOUNTS = (0.5, 0.9, 0.99, 0.9999)


@dataclasses.dataclass(frozen=True)
class Tables:
    """What a user has: figures of either sign, some rows of zeros, and no goals."""

    transition: np.ndarray  # [K, S, A, S]
    figure: np.ndarray  # [K, S, A]
    exists: np.ndarray  # [S, A]
    reward: bool

    def model(self, average=USUAL_DISCOUNT):
        kind = "reward" if self.reward else "cost"
        return rue.UMDP.from_dense(self.transition, **{kind: self.figure}, average=average)

    @property
    def cost(self):
        return -self.figure if self.reward else self.figure


@st.composite
def tables(draw):
    """Small tables with eighths for probabilities: many zeros, so that there are often several recurrent classes."""
    samples, states, actions = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 2))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    exists = random.random((states, actions)) < 0.8
    exists[:, 0] = True
    spread = draw(st.sampled_from([0.3, 1.0, 3.0]))
    share = random.dirichlet(np.full(states, spread), (samples, states, actions))
    transition = np.array([random.multinomial(8, one) for one in share.reshape(-1, states)]).reshape(share.shape) / 8
    figure = random.integers(-3, 4, (samples, states, actions)).astype(float)
    return Tables(transition * exists[:, :, None], figure, exists, draw(st.booleans()))


def limit(step):
    """The limit of the mean of the powers of a stochastic matrix: lazy steps, squared again and again."""
    power = 0.5 * (np.eye(len(step)) + step)
    for _ in range(60):
        power = power @ power
        power /= power.sum(axis=1, keepdims=True)
    return power


def best_average(transition, cost, exists):
    """The least long-run average from each state: the linear program of multichain models (Puterman, section 9.3)."""
    states = len(cost)
    rows, right = [], []
    for s, a in zip(*np.nonzero(exists), strict=True):
        unit = np.eye(states)[s] - transition[s, a]
        rows += [np.concatenate([unit, np.zeros(states)]), np.concatenate([np.eye(states)[s], unit])]
        right += [0.0, cost[s, a]]
    weight = np.concatenate([np.full(states, -1.0), np.zeros(states)])
    found = linprog(weight, A_ub=rows, b_ub=right, bounds=(None, None), method="highs")
    assert found.status == 0, found.message
    return found.x[:states]


def average_of(policy, model, k):
    """The long-run average of a controller in a sample, from the arrays of policy and model, without the end."""
    end = int(np.flatnonzero(model.graph.goal)[0])
    step, cost = np.eye(policy.nodes), np.zeros(policy.nodes)
    figure = model.units.step(model.cost[:, k])
    for node in np.flatnonzero(policy.node_state != end):
        step[node] = 0.0
        for e in range(policy.entry_ptr[node], policy.entry_ptr[node + 1]):
            choice = policy.choice[e]
            first = model.graph.trans_ptr[choice]
            places = range(policy.next_ptr[e], policy.next_ptr[e + 1])
            chance = np.array([model.prob[first + j, k] for j in range(len(places))])
            chance[[model.graph.successor[first + j] == end for j in range(len(places))]] = 0.0
            for j, place in enumerate(places):
                step[node, policy.next_node[place]] += policy.weight[e] * chance[j] / chance.sum()
            cost[node] += policy.weight[e] * figure[choice]
    start = np.zeros(policy.nodes)
    np.add.at(start, policy.start_node, policy.start_weight)
    return float(start @ limit(step) @ cost)


def check(table, model, policy):
    """Compare value, optimal value and regret of each sample, and the parts of the bound."""
    verdict, sign = rue.evaluate(model, policy), -1 if table.reward else 1
    best = [sign * best_average(table.transition[k], table.cost[k], table.exists)[0] for k in range(model.samples)]
    own = [average_of(policy, model, k) for k in range(model.samples)]
    small = 1e-7
    assert (abs(verdict.optimal - best) <= least_cost(model, Run()).away + small).all()
    assert (abs(verdict.value - own) <= policy_cost(model, policy, Run()).away + small).all()
    regret = sign * (np.array(own) - best)
    assert (abs(verdict.regret - regret) <= verdict.average_error + small).all()
    return verdict


@settings(max_examples=150, deadline=None)
@given(tables(), st.sampled_from(DISCOUNTS), st.integers(0, 1000))
def test_any_policy_of_any_chains(table, discount, seed):
    """Random stationary policies, on models with one or several recurrent classes."""
    model = table.model(discount)
    weight = np.random.default_rng(seed).random(model.graph.choices) ** 8
    weight /= np.add.reduceat(weight, model.graph.choice_ptr[:-2])[model.graph.choice_state]
    check(table, model, rue.Policy.from_weights(model.graph, weight))


@settings(max_examples=15, deadline=None)
@given(tables(), st.sampled_from([0.9, 0.9999]), st.sampled_from([rue.Mixture(), rue.Regret(2, "history")]))
def test_controllers_with_memory(table, discount, solver):
    model = table.model(discount)
    check(table, model, rue.solve(model, solver, bound=False).policy)


@settings(max_examples=30, deadline=None)
@given(tables(), st.integers(0, 1000))
def test_the_error_vanishes_where_all_states_communicate(table, seed):
    """Ten times nearer to 1, ten times smaller, for the optimal values and those of a policy."""
    mixed = dataclasses.replace(
        table, transition=0.5 * table.transition + 0.5 * table.exists[..., None] / len(table.exists)
    )
    errors = []
    for discount in (0.99, 0.999, 0.9999):
        model = mixed.model(discount)
        weight = np.random.default_rng(seed).random(model.graph.choices) + 0.1
        weight /= np.add.reduceat(weight, model.graph.choice_ptr[:-2])[model.graph.choice_state]
        errors.append(check(mixed, model, rue.Policy.from_weights(model.graph, weight)).average_error)
    # Costs are within 3, and half of each step forgets where it came from: a bias spans 12 at most.
    for discount, error in zip((0.99, 0.999, 0.9999), errors, strict=True):
        assert (error <= 2 * 12 * (1 - discount) + 1e-9).all()


def machine(average=0.999, **given):
    """A machine that wears out; two samples of how fast."""
    builder = rue.Builder(["slow", "fast"], average=average, **given)
    builder.add("new", "run", {"new": [0.9, 0.6], "worn": [0.1, 0.4]}, reward=5.0)
    builder.add("worn", "run", {"worn": 1.0}, reward=[1.0, 2.0])
    return builder.add("worn", "repair", {"new": 1.0}, reward=-4.0)


def test_a_machine_by_hand():
    """With repairs a cycle has 1/w steps at 5 and one at −4; without, 1 or 2 per step in the end."""
    model = machine().build()
    verdict = rue.evaluate(model, rue.Policy.stationary(model, [0, 1, -1]))
    cycles = [(5 * 10 - 4) / 11, (5 * 2.5 - 4) / 3.5]
    assert verdict.value == pytest.approx(cycles, abs=verdict.average_error.max())
    assert verdict.optimal == pytest.approx(cycles, abs=verdict.average_error.max())
    assert (verdict.average_error < 0.02).all()
    run_on = rue.evaluate(model, rue.Policy.stationary(model, [0, 0, -1]))
    assert run_on.value == pytest.approx([1, 2], abs=run_on.average_error.max())
    assert run_on.average_error.max() < 0.05
    assert run_on.regret == pytest.approx(cycles - np.array([1, 2]), abs=run_on.average_error.max())


def test_a_draw_between_two_ends():
    """Where chance leads to one of two classes once and for all, the mean of both is known as well as each."""
    transition = np.zeros((1, 3, 1, 3))
    transition[0, :, 0] = [[0, 0.25, 0.75], [0, 1, 0], [0, 0, 1]]
    model = rue.UMDP.from_dense(transition, [[[0.0], [4.0], [8.0]]], average=0.9999)
    verdict = rue.evaluate(model, rue.Policy.stationary(model, [0, 0, 0, -1]))
    assert verdict.value == pytest.approx([7.0], abs=1e-3)
    assert verdict.average_error.max() < 2e-3


def test_a_start_mixture_is_known_well():
    """Two policies with different averages, one drawn at the start."""
    model = machine(0.9999).build()
    solution = rue.solve(model, rue.Mixture(), bound=False)
    verdict = rue.evaluate(model, solution.policy)  # its values are figures too, and allow for their rounding
    assert solution.average_error == pytest.approx(verdict.average_error.max(), rel=1e-9)
    assert solution.average_error <= verdict.average_error.max() < 0.01


@pytest.mark.parametrize("off", [9e-9, -9e-9])
def test_rows_that_sum_to_nearly_one(off):
    """They are divided by their sums before there is an end, or the discount would be another one."""
    transition, cost = np.full((1, 1, 1, 1), 1 + off), np.ones((1, 1, 1))
    model = rue.UMDP.from_dense(transition, cost, average=0.9)
    verdict = rue.evaluate(model, rue.Policy.stationary(model, [0, -1]))
    assert (abs(verdict.value - 1) <= verdict.average_error).all()
    assert (verdict.average_error < 1e-10).all()
    ending = rue.UMDP.from_dense(transition, cost, discount=0.9)
    verdict = rue.evaluate(ending, rue.Policy.stationary(ending, [0, -1]))
    assert (abs(verdict.value - 10) <= verdict.error + 1e-13).all()


def test_a_discount_too_near_to_one_proves_nothing():
    """Where floating point cannot tell how long an episode lasts, figures are infinite, without a warning."""
    model = machine(1 - 1e-15).build()
    verdict = rue.evaluate(model, rue.Policy.stationary(model, [0, 1, -1]))
    assert not verdict.judged.all()
    assert np.isinf(verdict.average_error[~verdict.judged]).all() and verdict.at_most == np.inf


@pytest.mark.parametrize("seed", range(5))
def test_bounds_allow_for_rounding(seed):
    """Means of means of one number are that number, but for what rounding takes off or adds at each of them."""
    random, nodes = np.random.default_rng(seed), 300
    count = np.minimum(np.arange(nodes), 5)
    target = np.concatenate([random.choice(i, count[i], replace=False) for i in range(nodes)])
    prob = np.concatenate([random.dirichlet(np.ones(n), 3) for n in count if n], axis=1).T
    row_ptr = np.append(0, np.cumsum(count))
    system = System(row_ptr, target.astype(np.int32), np.ascontiguousarray(prob), np.zeros((nodes, 3)))
    value = np.tile(random.random(3), (nodes + 1, 1))
    around = around_policy(np.arange(nodes + 1), system, value, np.zeros_like(value))
    assert (around.low[:-1] <= value[:-1]).all() and (value[:-1] <= around.high[:-1]).all()
    assert (around.high - around.low)[:-1].max() < 1e-11


def test_ways_in_agree():
    """Dense tables, the builder, matrices, and tables as Gymnasium has them."""
    transition = np.zeros((2, 2, 2, 2))
    transition[:, 0, 0] = [[0.9, 0.1], [0.6, 0.4]]
    transition[:, 1, 0, 1] = transition[:, 1, 1, 0] = 1.0
    reward = np.broadcast_to([[5.0, 0.0], [1.0, -4.0]], (2, 2, 2)).copy()
    dense = rue.UMDP.from_dense(transition, reward=reward, average=0.999)
    matrices = rue.from_matrices(transition.swapaxes(1, 2), reward[0], average=0.999)
    table = [
        {s: {a: [(p, t, reward[k, s, a], False) for t, p in enumerate(transition[k, s, a]) if p]
             for a in range(2) if transition[k, s, a].any()} for s in range(2)} for k in range(2)
    ]  # fmt: skip
    assert dense.units == machine().build().units == matrices.units == rue.from_gymnasium(table, average=0.999).units
    best = rue.evaluate(dense, rue.Policy.stationary(dense, [0, 1, -1])).value
    assert rue.evaluate(matrices, rue.Policy.stationary(matrices, [0, 1, -1])).value == pytest.approx(best, abs=1e-12)


def test_counts_and_logs(tmp_path):
    """A log that never ends, from Python and from the command line."""
    rows = [("new", "run", 1.0, "new"), ("new", "run", 1.0, "worn"), ("worn", "run", 4.0, "worn"),
            ("worn", "repair", 9.0, "new")]  # fmt: skip
    given = {"samples": 3, "seed": 1, "initial": "new", "goals": []}
    model = rue.from_transitions(rows, **given, average=0.999)
    assert model.units == rue.Units(steps=model.units.steps, average=True) and model.units.discount == 0.999
    source = rue.Source.from_counts(rue.count_transitions(rows, initial="new", goals=[]), 3, seed=1, average=0.999)
    assert source.units == model.units
    log = tmp_path / "log.csv"
    lines = ["state,action,cost,next_state", *(",".join(map(str, row)) for row in rows)]
    log.write_text("\n".join(lines), encoding="utf-8")
    words = [
        "learn",
        log,
        "--initial",
        "new",
        "--seed",
        1,
        "--samples",
        3,
        "--average",
        0.999,
        "-o",
        tmp_path / "m.rue",
    ]
    run = CliRunner().invoke(app, list(map(str, words)))
    assert run.exit_code == 0, run.output
    learnt = rue.load(tmp_path / "m.rue")
    assert learnt.units == model.units and np.array_equal(learnt.prob, model.prob)
    assert rue.from_transitions(rows, **given, discount=0.9, average=np.False_).units == rue.Units()


def test_files_and_the_command_line_tell_the_error(tmp_path):
    model = machine().build()
    path, solution = tmp_path / "m.rue", tmp_path / "s.rue"
    rue.save(path, model)
    assert rue.load(path).units == model.units and model.units.discount == 0.999

    def run(*words):
        return " ".join(CliRunner().invoke(app, [str(word) for word in words]).output.split())

    told = r"per step, by a discount of 0.999; the distance from the long run is 0\.0\d+ at most"
    printed = run("solve", path, "--method", "robust", "-o", solution)
    assert len(re.findall(told, printed)) == 1 and "worst-case reward per step" in printed
    found = rue.load(solution)
    verdict = rue.evaluate(model, found.policy)
    assert found.average_error == pytest.approx(verdict.average_error.max()) and found.units == model.units
    printed = run("evaluate", path, solution)
    assert len(re.findall(told, printed)) == 1 and "reward per step" in printed
    facts = json.loads(run("evaluate", path, solution, "--json"))
    assert facts["figure"] == "reward per step" and facts["value"] == pytest.approx(verdict.value.tolist())
    assert facts["average"] == {"discount": 0.999, "error": pytest.approx(verdict.average_error.max())}
    assert facts["average_error"] == pytest.approx(verdict.average_error.tolist())
    assert len(re.findall(told, run("info", path))) == 1
    assert json.loads(run("info", path, "--json"))["reward_range"] == pytest.approx([-4, 5])
    page = tmp_path / "p.html"
    assert len(re.findall(told, run("compare", path, "--methods", "robust,average", "--report", page))) == 1
    text = page.read_text()
    assert len(re.findall(told, text)) == 1 and "reward per step below the largest that is possible there" in text
    runs = run("simulate", path, solution, "--sample", 1, "--seed", 1, "--episodes", 300)
    assert "mean reward per step" in runs
    drawn = report.draw_regrets(model, {"robust": found.regret}).axes[0]
    assert drawn.get_ylabel() == "regret (reward per step below the largest possible)"


def test_worst_case_rewards_are_proved(tmp_path):
    model, path, solution = machine(0.9).build(), tmp_path / "m.rue", tmp_path / "s.rue"
    rue.save(path, model)
    found = rue.solve(model, rue.Adaptive(0.05, objective="cost"), limits=rue.Limits(iterations=200))
    rue.save(solution, found)
    printed = CliRunner().invoke(app, ["verify", str(path), str(solution)]).output
    most = float(re.search(r"worst-case reward per step above ([\d.]+)", printed)[1])
    assert most >= rue.evaluate(model, found.policy).value.min() - 1e-6


def test_blocks_tell_the_error():
    model = machine().build()
    policy = rue.Policy.stationary(model, [0, 1, -1])
    whole = rue.evaluate(model, policy)
    found = rue.evaluate(rue.Source.from_model(model, block=1), policy)
    assert found.average_error == pytest.approx(whole.average_error)
    assert found.subset([1]).average_error == pytest.approx(whole.average_error[1:])


def test_episodes_have_the_mean():
    model = machine(0.9).build()
    policy = rue.Policy.stationary(model, [0, 1, -1])
    runs = rue.simulate(model, policy, sample=1, episodes=4000, seed=1, paths=True)
    value = rue.evaluate(model, policy).value[1]
    assert abs(runs.mean - value) < 5 * runs.cost.std() / 4000**0.5
    figures = np.add.reduceat(runs.paths.cost, runs.paths.episode_ptr[:-1])
    assert runs.cost == pytest.approx(figures * 0.1, abs=1e-9)  # figures of the steps are as they were given
    assert set(runs.paths.cost.round(9)) <= {5.0, -4.0, 2.0, 0.0}


TRANSITION = np.ones((1, 2, 1, 2)) / 2
ODD = {
    "horizon": ({"average": True, "horizon": 3}, "average= is given with horizon=; expected average= alone"),
    "discount": ({"average": True, "discount": 0.9}, "with discount=; expected average= alone, as average=0.999"),
    "one": ({"average": 1}, "average is 1; expected True, or a discount between 0 and 1, both excluded"),
    "zero": ({"average": 0.0}, "average is 0.0; expected True, or a discount between 0 and 1"),
    "text": ({"average": "yes"}, "average is 'yes'; expected True, or a discount between 0 and 1"),
    "goals": ({"average": True, "goals": [1]}, "state 1 is a goal, and average= is given; expected none"),
}


@pytest.mark.parametrize(("given", "said"), ODD.values(), ids=ODD)
def test_what_makes_no_sense_is_refused(given, said):
    with pytest.raises(rue.BadInput, match=re.escape(said)) as error:
        rue.UMDP.from_dense(TRANSITION, np.ones((1, 2, 1)), **given)
    assert "\n" not in str(error.value)


def test_more_that_makes_no_sense():
    with pytest.raises(rue.BadInput, match="average= is given with avoid="):
        rue.UMDP.from_dense(TRANSITION, goals=[0], avoid=[1], average=True)
    with pytest.raises(rue.BadInput, match="divided by the steps already"):
        machine().build().with_discount(0.9)
    with pytest.raises(rue.BadInput, match="terminates after action 0 in state 0, and average= is given"):
        rue.from_gymnasium({0: {0: [(1.0, 0, 1.0, True)]}}, average=True)
    with pytest.raises(rue.BadInput, match="steps of the units is 0"):
        rue.Units(average=True)
    with pytest.raises(rue.BadInput, match="state broken is a goal"):
        machine().add("new", "stop", {"broken": 1.0}).goal("broken").build()


def test_one_that_stays_for_nothing_is_no_goal():
    """Matrices have no word for goals; what loops at no reward goes on for ever at 0."""
    model = rue.from_matrices([np.array([[0.5, 0.5], [0.0, 1.0]])], np.array([3.0, 0.0]), average=0.9999)
    assert rue.evaluate(model, rue.Policy.stationary(model, [0, 0, -1])).value == pytest.approx([0], abs=1e-3)
