"""The glider: its motion against a slow twin and the continuous model, what an expert expects, and its errors."""

import json
from dataclasses import replace
from math import cos, erf, floor, pi, sin, sqrt

import numpy as np
import pytest

import rue
from rue.domains.glider import BUILT_IN, Glider
from rue.domains.ocean import Currents
from rue.parsing import make_domain

MAY_DAY = 1_588_291_200.0  # 2020-05-01, 00 h


def sea(path, east=0.0, north=0.0, *, depth=400.0, land=None, hours=24, first=0):
    """A file with the same current everywhere; `land(latitude, longitude)` tells where there is none."""
    latitude, longitude = np.meshgrid(np.arange(60.9, 61.4, 0.005), np.arange(4.2, 5.0, 0.01), indexing="ij")
    floor_depth = np.full(latitude.shape, depth)
    if land is not None:
        floor_depth[land(latitude, longitude)] = np.nan
    flow = [np.broadcast_to(value, (hours, *latitude.shape)) for value in (east, north)]
    time = MAY_DAY + 3600.0 * (first + np.arange(hours))
    Currents(time, latitude, longitude, *flow, floor_depth, "nobody").save(path)
    return str(path)


def place(**settings):
    """A region at one place, with unit costs."""
    return {"seed": 1, "south": 61.15, "north": 61.15, "west": 4.575, "east": 4.575, "entry_low": 1.0, **settings}


def rows(graph, prob, choice, sample):
    """{successor: probability} of a choice."""
    part = slice(graph.trans_ptr[choice], graph.trans_ptr[choice + 1])
    return {int(s): float(p) for s, p in zip(graph.successor[part], prob[part, sample], strict=True) if p}


def naive_row(domain, choice, east, north):
    """One row, written out: all squares around, one at a time."""
    graph, region = domain.graph, domain.region
    state, angle = int(graph.choice_state[choice]), 2 * pi * int(graph.action[choice]) / domain.headings
    at_row, at_column = divmod(int(region.cells[state]), domain.width)
    mean = (
        (domain.speed * sin(angle) + east) * domain.seconds,
        (domain.speed * cos(angle) + north) * domain.seconds,
    )

    def below(x):
        return (1 + erf(x / domain.noise / sqrt(2))) / 2

    def interval(cells, middle):
        return below((cells + 0.5) * domain.cell - middle) - below((cells - 0.5) * domain.cell - middle)

    chance = {(i, j): interval(j, mean[0]) * interval(i, mean[1]) for i in range(-8, 9) for j in range(-8, 9)}
    chance = {key: value for key, value in chance.items() if value >= domain.threshold}
    row = {}
    for (up, right), value in chance.items():
        to_row, to_column = at_row - up, at_column + right
        inside = 0 <= to_row < domain.height and 0 <= to_column < domain.width
        cell = to_row * domain.width + to_column
        target = int(np.searchsorted(region.cells, cell)) if inside and region.sea[cell] else state
        row[target] = row.get(target, 0.0) + value / sum(chance.values())
    return row


@pytest.mark.parametrize("threshold", [1e-3, 1e-5])
def test_rows_equal_squares_written_out(threshold):
    domain = Glider(seed=4, width=9, height=7, threshold=threshold)
    model = domain.training()
    east, north = domain.region.water_of_states(domain.forecast_time())
    rng = np.random.default_rng(1)
    for choice, sample in zip(rng.integers(model.graph.choices, size=40), rng.integers(12, size=40), strict=True):
        state = model.graph.choice_state[choice]
        row = rows(model.graph, model.prob, choice, sample)
        exact = naive_row(domain, choice, east[state, sample], north[state, sample])
        assert row.keys() == exact.keys()
        assert all(row[s] == pytest.approx(exact[s], abs=1e-12) for s in row)


def test_the_graph_holds_every_current_within_its_bounds():
    domain = Glider(seed=2, width=8, height=8, current_noise=0.1)
    graph, cells = domain.graph, domain.region.cells.size
    time = np.concatenate([domain.forecast_time(day) for day in range(domain.days)])
    east, north = domain.region.water_of_states(time)
    rng = np.random.default_rng(1)
    sign, pick = rng.choice([-1.0, 1.0], (2, cells, 30)), rng.integers(time.size, size=(2, cells, 30))
    spare = 0.4 * np.hypot(east, north).max(axis=1)[:, None]  # the noise at its limit, four deviations
    flow = [np.take_along_axis(field, pick[i], axis=1) + sign[i] * spare for i, field in enumerate((east, north))]
    prob = domain._motion._chance(domain, *flow)
    for choice in rng.integers(graph.choices, size=40):
        state = graph.choice_state[choice]
        row, exact = rows(graph, prob, choice, 7), naive_row(domain, choice, flow[0][state, 7], flow[1][state, 7])
        assert row.keys() == exact.keys()
        assert all(row[s] == pytest.approx(exact[s], abs=1e-12) for s in row)


def test_rows_equal_the_continuous_motion():
    # Gliders that swim: where do so many of them end, from the middle, from a corner, and beside land?
    domain = Glider(seed=1, threshold=1e-6)
    model, region, count = domain.training(), domain.region, 200_000
    east, north = region.water_of_states(domain.forecast_time())
    rng = np.random.default_rng(3)
    beside_land = next(s for s, cell in enumerate(region.cells) if cell % 16 < 15 and not region.sea[cell + 1])
    corner = int(np.searchsorted(region.cells, 0))
    for state, action, sample in ((100, 1, 0), (corner, 11, 3), (beside_land, 3, 9), (170, 7, 5)):
        choice = int(np.flatnonzero((model.graph.choice_state == state) & (model.graph.action == action))[0])
        angle = 2 * pi * action / 12
        x = rng.normal((0.6 * sin(angle) + east[state, sample]) * 800, 150, count)
        y = rng.normal((0.6 * cos(angle) + north[state, sample]) * 800, 150, count)
        at_row, at_column = divmod(int(region.cells[state]), 16)
        row, column = at_row - np.floor(y / 500 + 0.5), at_column + np.floor(x / 500 + 0.5)
        inside = (row >= 0) & (row < 16) & (column >= 0) & (column < 16)
        cell = np.where(inside, row * 16 + column, region.cells[state]).astype(int)
        cell = np.where(region.sea[cell], cell, region.cells[state])
        seen = np.bincount(np.searchsorted(region.cells, cell), minlength=model.graph.states) / count
        exact = np.zeros(model.graph.states)
        for successor, chance in rows(model.graph, model.prob, choice, sample).items():
            exact[successor] = chance
        assert (np.abs(seen - exact) <= 5 * np.sqrt(exact * (1 - exact) / count) + 1e-5).all()


def best_headings(model):
    """The optimal heading of each state in a model of one sample, and its cost."""
    solution = rue.solve(model, rue.Average())
    heading = np.full(model.graph.states, -1)
    policy = solution.policy
    heading[policy.node_state[policy.entry_ptr[:-1] < policy.entry_ptr[1:]]] = model.graph.action[policy.choice]
    return heading, rue.evaluate(model, policy).value[0]


def test_without_current_the_way_is_straight(tmp_path):
    domain = Glider(**place(data=sea(tmp_path / "a.npz"), width=9, height=12, start=11 * 9 + 4, goal=4, hours=1))
    heading, cost = best_headings(domain.training())
    assert [domain.graph.action_name(heading[row * 9 + 4]) for row in range(1, 12)] == ["000°"] * 11
    assert 11 * 500 / 480 < cost < 15  # eleven cells at 480 m a step, and some for the noise
    across = replace(domain, start=5 * 9, goal=5 * 9 + 8)
    heading, _ = best_headings(across.training())
    assert {across.graph.action_name(heading[5 * 9 + column]) for column in range(8)} == {"090°"}


@pytest.mark.parametrize(("flow", "wanted"), [(0.3, "330°"), (-0.3, "030°")])
def test_in_a_uniform_current_the_glider_crabs(tmp_path, flow, wanted):
    # The goal is in the north: sin(heading) 0.6 = −0.3 holds the course, and cos(30°) of the speed is left.
    data = sea(tmp_path / "a.npz", east=flow)
    domain = Glider(**place(data=data, width=9, height=12, start=11 * 9 + 4, goal=4, hours=1))
    heading, cost = best_headings(domain.training())
    assert {domain.graph.action_name(heading[row * 9 + 4]) for row in range(2, 12)} == {wanted}
    still = replace(domain, data=sea(tmp_path / "b.npz"))
    assert cost > 1.1 * best_headings(still.training())[1]


def test_a_current_towards_the_goal_helps_and_one_against_it_costs(tmp_path):
    costs = []
    for k, north in enumerate((0.3, 0.0, -0.3)):
        data = sea(tmp_path / f"{k}.npz", north=north)
        domain = Glider(**place(data=data, width=9, height=12, start=103, goal=4, hours=1))
        costs.append(best_headings(domain.training())[1])
    assert costs[0] < costs[1] < costs[2]


def test_costs_follow_depth_and_current(tmp_path):
    shallow, deep = {"depth": 200.0}, {"depth": 300.0}
    for k, (setting, flow, low) in enumerate(((shallow, 0.2, 3.8), (shallow, 0.1, 0.8), (deep, 0.2, 0.8))):
        domain = Glider(
            **place(data=sea(tmp_path / f"{k}.npz", east=flow, **setting), entry_low=0.8, width=6, height=6)
        )
        cost = domain.training().cost
        assert low <= cost.min() < cost.max() <= low + 0.2 + 1e-12


def test_cost_equals_probabilities_times_entry_costs():
    domain = Glider(seed=3, width=8, height=8)
    model, region = domain.training(), domain.region
    east, north = region.water_of_states(domain.forecast_time())
    entry = np.empty((region.cells.size, 12))
    for state, cell in enumerate(region.cells):
        for hour in range(12):
            risky = region.depth[state] < 260 and sqrt(east[state, hour] ** 2 + north[state, hour] ** 2) > 0.12
            entry[state, hour] = region.entry[cell] + (3 if risky else 0)
    expected = np.add.reduceat(model.prob * entry[model.graph.successor], model.graph.trans_ptr[:-1], axis=0)
    np.testing.assert_allclose(model.cost, expected, atol=1e-12)
    assert region.entry.min() >= 0.8 and region.entry.max() <= 1.0


def test_samples_depend_on_seeds_alone():
    domain = Glider(seed=3, width=8, height=8)
    a, b, c = domain.sample(4, seed=1), domain.sample(4, seed=1), domain.sample(4, seed=2)
    assert a.graph is b.graph is c.graph
    assert (a.prob == b.prob).all() and (a.cost == b.cost).all()
    assert (a.prob != c.prob).any()
    again = replace(domain)
    assert again.graph.fingerprint == domain.graph.fingerprint
    assert (again.sample(4, seed=1).prob == a.prob).all()
    assert (again.training().prob == domain.training().prob).all()
    assert Glider(seed=4, width=8, height=8).graph.fingerprint != domain.graph.fingerprint


def test_strength_is_a_factor_on_all_currents():
    full, half = (Glider(seed=4, width=6, height=6, strength=s).training() for s in (1.0, 0.5))
    still = Glider(seed=4, width=6, height=6, strength=0.0).training()
    for name in ("east", "north"):
        assert np.allclose(half.scenery[name], full.scenery[name] / 2, atol=1e-6) and not still.scenery[name].any()
    assert (still.prob == still.prob[:, :1]).all() and half.graph.layout["domain"].endswith("strength=0.5")


def test_other_days_live_on_the_same_graph():
    domain = Glider(seed=1, width=8, height=8)
    assert domain.days == 3
    other = replace(domain, day=2)
    assert other.graph.fingerprint == domain.graph.fingerprint
    today, later = domain.training(), other.training()
    assert today.sample_label[0] == "2015-11-16 06:00 UTC" and later.sample_label[-1] == "2015-11-18 17:00 UTC"
    assert (today.prob != later.prob).any()
    policy = rue.solve(today, rue.Average()).policy
    assert np.isfinite(rue.evaluate(later, policy).max_regret)
    totals = np.add.reduceat(later.prob, later.graph.trans_ptr[:-1], axis=0)
    np.testing.assert_allclose(totals, 1.0, atol=1e-12)


def test_training_takes_forecasts_evenly():
    domain = Glider(seed=1, width=8, height=8)
    full, few = domain.training(), domain.training(3)
    assert full.samples == 12 and few.sample_label == (
        "2015-11-16 06:00 UTC", "2015-11-16 12:00 UTC", "2015-11-16 17:00 UTC",
    )  # fmt: skip
    assert (few.prob[:, 0] == full.prob[:, 0]).all() and (few.prob[:, 2] == full.prob[:, 11]).all()
    with pytest.raises(rue.BadInput, match="the number of forecasts is 13; expected 1 to 12"):
        domain.training(13)


def test_unseen_samples_lie_between_forecasts():
    # Without noise, and with one hour only, there is nothing between.
    domain = Glider(seed=1, width=8, height=8, hours=1, current_noise=0.0)
    np.testing.assert_array_equal(domain.sample(3, seed=1).prob, np.repeat(domain.training().prob, 3, axis=1))
    noisy = replace(domain, current_noise=0.02)
    spread = np.abs(noisy.sample(50, seed=1).prob - noisy.training().prob).max()
    assert 0.001 < spread < 0.2
    clock = sorted(name.split(": ")[1] for name in Glider(seed=1, width=8, height=8).sample(50, seed=1).sample_label)
    assert clock[0] >= "2015-11-16 06:00 UTC" and clock[-1] <= "2015-11-16 17:00 UTC"
    assert clock[0] < "2015-11-16 07:00 UTC" and clock[-1] > "2015-11-16 16:00 UTC"


def test_hourly_means_at_half_past_are_enough(tmp_path):
    data = sea(tmp_path / "a.npz", hours=14, first=4.5)
    model = Glider(**place(data=data, width=6, height=6)).training()
    assert model.sample_label[0] == "2020-05-01 06:00 UTC" and model.samples == 12


def test_land_is_never_entered_and_cut_off_sea_is_land(tmp_path):
    # Land in the east, with a pond in it.
    def land(latitude, longitude):
        pond = (np.abs(latitude - 61.15) < 0.008) & (longitude > 4.63)
        return (longitude > 4.59) & ~pond

    domain = Glider(**place(data=sea(tmp_path / "a.npz", land=land), width=18, height=12, hours=2))
    water, region = domain.region.water, domain.region
    assert water.sea.sum() > region.cells.size  # the pond
    column = region.cells % 18
    assert (water.longitude[0, column] < 4.6).all()
    model = domain.training()
    shore = int(np.flatnonzero(column == column.max())[3])
    choice = int(model.graph.choice_ptr[shore]) + 3  # east, onto the land
    row = rows(model.graph, model.prob, choice, 0)
    assert row[shore] > 0.9


def test_start_and_goal_are_apart_and_can_be_given():
    for seed in range(1, 6):
        region = Glider(seed=seed, apart=0.7).region
        (a, b), (c, d) = divmod(region.start, 16), divmod(region.goal, 16)
        assert np.hypot(a - c, b - d) >= 0.7 * 16
        assert region.water.latitude.min() >= 61.1 and region.water.latitude.max() <= 61.2
        assert region.water.longitude.min() >= 4.5 and region.water.longitude.max() <= 4.65
    region = Glider(seed=1, start=17, goal=40).region
    assert (region.start, region.goal) == (17, 40)
    assert Glider(seed=1, goal=40).region.goal == 40


def test_the_built_in_currents_are_small_and_credited():
    domain = Glider(seed=1)
    assert "MET Norway" in domain.credit and "CC BY 4.0" in domain.credit and "NLOD" in domain.credit
    assert BUILT_IN.stat().st_size < 400_000
    layout = domain.graph.layout
    json.dumps(dict(layout))
    assert layout["grid"] == (16, 16) and layout["credit"] == domain.credit
    assert [layout["cell"][domain.graph.initial], layout["start"]] == [domain.region.start] * 2
    assert layout["cell"][int(np.flatnonzero(domain.graph.goal)[0])] == layout["goal"]
    assert sum(value is None for value in layout["depth"]) == 256 - domain.region.water.sea.sum()
    assert layout["heading"][3] == 90 and make_domain("glider", {"seed": 1}).spec == layout["domain"]
    east, north = domain.region.water_of_states(domain.forecast_time())
    scenery = domain.training().scenery
    assert np.allclose(scenery["east"], east, atol=1e-6) and np.allclose(scenery["north"], north, atol=1e-6)


def test_a_model_survives_a_file(tmp_path):
    model = Glider(seed=1, width=6, height=6).training()
    rue.save(tmp_path / "m.rue", model)
    again = rue.load(tmp_path / "m.rue")
    assert again.graph.layout == model.graph.layout and (again.prob == model.prob).all()


def test_what_cannot_be_used_is_told_in_one_line(tmp_path):
    def refuses(pattern, **settings):
        with pytest.raises(rue.BadInput, match=pattern) as caught:
            _ = Glider(**settings).graph
        assert "\n" not in str(caught.value)

    everywhere = sea(tmp_path / "land.npz", land=lambda a, b: a > 0)
    refuses("all land", **place(data=everywhere))
    half = sea(tmp_path / "half.npz", land=lambda a, b: b > 4.575)
    refuses("the start, cell 7 of the region .* is land", **place(data=half, width=8, height=8, start=7, goal=0))
    against = sea(tmp_path / "strong.npz", north=1.5)
    refuses(
        "no policy reaches a goal with probability one .* in sample 2020-05-01 06:00 UTC",
        **place(data=against, width=8, height=8, start=4, goal=60),
    )
    refuses("outside the currents' grid", seed=1, south=50.0, north=50.1)
    short = sea(tmp_path / "short.npz", hours=5, first=4)
    refuses("no day with every hour from 06 to 17 h", **place(data=short))
    refuses("day is 3; expected 0 to 2", seed=1, day=3)
    refuses("there is no such file", seed=1, data=str(tmp_path / "none.npz"))
    refuses("start and goal are both 3", seed=1, start=3, goal=3)
    refuses("apart", seed=1, width=8, height=8, start=27, apart=1.0)
    refuses("noise is 0", seed=1, noise=0)
    refuses("data is 5", seed=1, data=5)
    refuses("upside down", seed=1, south=62.0)
    refuses("threshold is 0.5", seed=1, threshold=0.5)


def test_headings_go_clockwise_from_north():
    names = Glider(seed=1, width=6, height=6).graph.action_label
    assert names[:4] == ("000°", "030°", "060°", "090°") and len(names) == 12
    assert floor(float(names[-1][:-1])) == 330
