"""The built-in domains and the choice of samples."""

from dataclasses import replace

import numpy as np
import pytest

import rue
from rue import parsing
from rue.domains.disaster import MOVES


def row(model, state, action):
    """Where an action leads: {successor: probabilities of all samples}."""
    graph = model.graph
    choice = int(graph.choice_ptr[state]) + action
    return {
        int(graph.successor[t]): model.prob[t] for t in range(graph.trans_ptr[choice], graph.trans_ptr[choice + 1])
    }, model.cost[choice]


def test_disaster_without_regions_is_a_plain_grid():
    model = rue.domains.Disaster(width=4, height=3, seed=1, region_chance=0.0).sample(2, seed=1)
    east = list(MOVES).index("east")
    outcomes, cost = row(model, 5, east)  # (row 1, column 1)
    assert {s: p[0] for s, p in outcomes.items()} == {6: 0.8, 10: 0.1, 2: 0.1}
    np.testing.assert_allclose(cost, 0.5)
    outcomes, _ = row(model, 0, list(MOVES).index("north"))  # off the grid but for north-east, also off
    assert {s: p[0] for s, p in outcomes.items()} == {0: 1.0}
    outcomes, _ = row(model, 0, east)
    assert outcomes[1][0] == 0.8 and outcomes[5][0] == 0.1 and outcomes[0][0] == pytest.approx(0.1)


def test_disaster_numbers_follow_the_paper():
    domain = rue.domains.Disaster(width=9, height=7, seed=5)
    model = domain.sample(30, seed=2)
    swamps, obstacles = domain.regions
    assert len(swamps) and len(obstacles)
    assert not np.isin([0, 62], swamps).any() and not np.isin([0, 62], obstacles).any()
    # Probabilities are 0.8 or 0.05 ahead, 0.1 or 0.05 beside; what is left stays.
    first = model.graph.trans_ptr[:-1]
    ahead = model.graph.successor[first] != model.graph.choice_state
    values = set(np.unique(model.prob[first][ahead]))
    assert values <= {0.8, 0.1, 0.05} and 0.05 in values
    totals = np.add.reduceat(model.prob, model.graph.trans_ptr[:-1], axis=0)
    np.testing.assert_allclose(totals, 1.0, atol=1e-12)
    # Expected costs lie between those of plain squares and of swamps, and swamps cost 1 to 2.
    assert model.cost.min() >= 0.5 - 1e-12 and 1.0 < model.cost.max() <= 2.0


def test_disaster_cost_equals_probabilities_times_entry_costs():
    domain = rue.domains.Disaster(width=5, height=5, seed=8)
    entry = np.full((25, 2), 0.5)
    entry[7], entry[12] = 1.5, [0.5, 2.0]
    obstacle = np.zeros((25, 2), bool)
    obstacle[domain.regions[1][0][domain.regions[1][0] >= 0][0], 1] = True
    model = domain._model(entry, obstacle)
    expected = np.add.reduceat(model.prob * entry[model.graph.successor], model.graph.trans_ptr[:-1], axis=0)
    np.testing.assert_allclose(model.cost, expected, atol=1e-12)


def test_regions_with_and_without_the_squares_at_the_corners():
    nine = rue.domains.Disaster(width=9, height=7, seed=5)
    five = replace(nine, diagonals=False)
    for whole, cross in zip(nine.regions, five.regions, strict=True):
        assert len(whole) == len(cross) > 0
        for around, beside in zip(whole.tolist(), cross.tolist(), strict=True):
            centre = around[4] if around[4] >= 0 else beside[2]
            near = [s for s in around if s >= 0 and (s // 9 == centre // 9 or s % 9 == centre % 9)]
            assert sorted(s for s in beside if s >= 0) == sorted(near)
    assert nine.spec == "disaster:seed=5,width=9,height=7" and five.spec.endswith(",diagonals=False")
    assert parsing.read_model("disaster:seed=5,width=9,height=7,diagonals=false,samples=2").samples == 2


def test_labels_say_where():
    model = rue.domains.Disaster(width=8, height=8, seed=1).sample(1, seed=1)
    assert model.graph.state_name(28) == "(row 3, column 4)"
    assert model.graph.action_name(0) == "north"
    medical = rue.domains.Medical(seed=1).graph
    assert medical.state_name(medical.initial) == "(h=10, d=0)"


@pytest.mark.parametrize(
    "domain", [rue.domains.Disaster(width=4, height=5, seed=3), rue.domains.Medical(seed=3)], ids=repr
)
def test_samples_depend_on_seeds_alone(domain):
    a, b, c = domain.sample(4, seed=1), domain.sample(4, seed=1), domain.sample(4, seed=2)
    assert a.graph is b.graph is c.graph
    assert (a.prob == b.prob).all() and (a.cost == b.cost).all()
    assert (a.prob != c.prob).any()
    again = replace(domain)
    assert again.graph.fingerprint == domain.graph.fingerprint
    assert (again.sample(4, seed=1).prob == a.prob).all()


def test_medical_is_a_week_of_treatment():
    domain = rue.domains.Medical(seed=4)
    model = domain.sample(200, seed=1)
    graph = model.graph
    assert graph.states == 141 and graph.goal.sum() == 1
    outcomes, cost = row(model, 10, 1)
    assert set(outcomes) == set(range(20 + 7, 20 + 14))
    assert (cost == 0).all()
    nominal = domain.nominal[10, 1]
    assert sum(nominal) == 1 and set(nominal) == {0, 1}
    assert int(np.argmax([outcomes[20 + 7 + i].mean() for i in range(7)])) == int(np.argmax(nominal))
    # The same treatment at the same health works the same on another day.
    later, _ = row(model, 50, 1)
    np.testing.assert_allclose([later[s + 40] for s in outcomes], list(outcomes.values()))
    final = model.cost[graph.choice_ptr[120] : graph.choice_ptr[140], 0]
    assert final[0] == pytest.approx(0.95 + 2) and final[19] == 0 and final[5] == pytest.approx(0.7)
    # Health is clipped: at 0, four of the seven changes stay there.
    floor, _ = row(model, 0, 0)
    assert set(floor) == {20, 21, 22, 23}


def test_distinct_treatments_have_distinct_outcomes():
    nominal = rue.domains.Medical(seed=4, distinct=True).nominal
    assert all(len({int(row.argmax()) for row in level}) == 3 for level in nominal)
    assert any(len({int(row.argmax()) for row in level}) < 3 for level in rue.domains.Medical(seed=4).nominal)


def test_coverage_does_not_depend_on_the_unit_of_costs():
    model = rue.domains.Disaster(width=4, height=4, seed=3).sample(60, seed=1)
    in_cents = rue.UMDP(model.graph, model.prob, 100 * model.cost)
    assert (rue.select(in_cents, 8).prob == rue.select(model, 8).prob).all()


def test_a_model_tells_its_domain_and_what_a_map_shows():
    domain = rue.domains.Disaster(width=5, height=4, seed=3)
    model = domain.sample(6, seed=1)
    assert parsing.domain_of(model) == domain
    assert set(np.unique(model.scenery["obstacle"])) <= {0.0, 1.0}
    part = model.subset([4, 1])
    assert (part.scenery["entry_cost"] == model.scenery["entry_cost"][:, [4, 1]]).all()
    assert not part.scenery["entry_cost"].flags.writeable
    with pytest.raises(rue.BadInput, match=r"scenery 'mood' has shape \(3, 2\); expected \(20, 6\): states, samples"):
        replace(model, scenery={"mood": np.zeros((3, 2))})


@pytest.mark.parametrize(
    "domain", [rue.domains.Medical(seed=4, noise=0.05), rue.domains.Glider(seed=2, width=5, day=1)]
)
def test_a_domain_can_be_read_from_what_it_is_called(domain):
    assert parsing.domain_of(domain.sample(1, seed=1)) == domain


def test_coverage_picks_the_farthest():
    graph = rue.Builder().add("s", "go", {"g": 1.0}, cost=1.0).goal("g").build().graph
    cost = np.array([[5.0, 4.9, 0.0, 10.0, 5.1, 2.4]])
    model = rue.UMDP(graph, np.ones((1, 6)), cost)
    chosen = rue.select(model, 4, by="coverage").cost[0]
    assert chosen[0] == 4.9  # nearest to the mean
    assert sorted(chosen[1:3]) == [0.0, 10.0]
    assert chosen[3] == 2.4


def test_random_and_regret_select_different_samples_of_the_pool():
    pool = rue.domains.Disaster(width=5, height=5, seed=2).sample(40, seed=1)
    for by in ("random", "regret", "coverage"):
        few = rue.select(pool, 6, by=by, seed=3)
        assert few.samples == 6 and few.graph is pool.graph
        columns = {few.prob[:, k].tobytes() + few.cost[:, k].tobytes() for k in range(6)}
        assert len(columns) == 6
    assert (rue.select(pool, 6, by="random", seed=3).prob == rue.select(pool, 6, by="random", seed=3).prob).all()


def test_regret_selection_adds_the_worst_sample():
    pool = rue.domains.Disaster(width=5, height=5, seed=2).sample(30, seed=1)
    few = rue.select(pool, 5, by="regret")
    policy = rue.solve(few.subset(range(4)), rue.Regret()).policy
    regret = rue.evaluate(pool, policy).regret
    place = [
        next(k for k in range(30) if np.array_equal(pool.cost[:, k], column) and np.array_equal(pool.prob[:, k], row))
        for column, row in zip(few.cost.T, few.prob.T, strict=True)
    ]
    others = np.delete(regret, place[:4])
    assert regret[place[4]] == pytest.approx(others.max())
