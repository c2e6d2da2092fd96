"""Pictures: what they show is what the policy does, the judge says and the model holds."""

import re
import subprocess
import sys
import warnings
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import PatchCollection
from matplotlib.quiver import Quiver

import rue
from rue.domains.glider import Glider
from rue.domains.ocean import Currents
from rue.report import draw_bounds, draw_map, draw_regrets, save_figure
from rue.report.style import share_text
from rue.visits import distribution_after, expected_visits

# As `draw_map` documents them: in cells, and what is too small to be drawn.
ARROW, LEAST_VISITS, LEAST_CHANCE = 0.5, 1e-3, 0.05
MOST_FULL = 2.0  # visits of a full square, at most
LONGEST_CURRENT = 0.85  # cells
MOST_ASKED = 60
MAY_DAY = 1_588_291_200.0  # 2020-05-01, 00 h


@pytest.fixture(scope="module")
def rescue():
    model = rue.domains.Disaster(width=7, height=6, seed=2).sample(6, seed=1)
    return model, rue.solve(model, rue.Regret(3, "history"))


@pytest.fixture(scope="module")
def voyage():
    model = Glider(seed=1).training()
    return model, rue.solve(model, rue.Regret(1))


def panels(figure):
    return [axes for axes in figure.axes if axes.get_visible()]


def labelled(axes, kind, label):
    return [item for item in axes.get_children() if isinstance(item, kind) and item.get_label() == label]


def words(figure):
    """All that can be read."""
    return " | ".join(text.get_text() for text in figure.findobj(mpl.text.Text))


def naive_behaviour(policy, mass):
    """{state: [visits, {action: probability}]}, one node at a time."""
    graph, result = policy.graph, {}
    for node in range(policy.nodes):
        if mass[node] > 0:
            visits, actions = result.setdefault(int(policy.node_state[node]), [0.0, {}])
            result[int(policy.node_state[node])][0] = visits + mass[node]
            for entry in range(policy.entry_ptr[node], policy.entry_ptr[node + 1]):
                action = int(graph.action[policy.choice[entry]])
                actions[action] = actions.get(action, 0.0) + mass[node] * policy.weight[entry]
    return {s: (n, {a: w / n for a, w in actions.items()}) for s, (n, actions) in result.items()}


def check_arrows(axes, model, policy, mass, place, unit, up):
    """Each arrow begins in the middle of its state, points where its action does and is as long as it is likely."""
    heading = model.graph.layout["heading"]
    wanted = []
    for state, (visits, actions) in naive_behaviour(policy, mass).items():
        for action, chance in actions.items():
            if visits >= LEAST_VISITS and chance >= LEAST_CHANCE:
                angle = np.deg2rad(heading[action])
                vector = ARROW * unit * chance * np.array([np.sin(angle), np.cos(angle) * up])
                wanted.append([*np.round(place(state), 6).tolist(), *(np.round(vector, 6) + 0.0).tolist()])
    (arrows,) = labelled(axes, Quiver, "policy")
    found = np.round(np.column_stack([arrows.X, arrows.Y, arrows.U, arrows.V]), 6) + 0.0
    assert np.array(sorted(found.tolist())) == pytest.approx(np.array(sorted(wanted)), abs=2e-6)


def test_arrows_and_squares_are_what_the_policy_does(rescue):
    model, solution = rescue
    policy, verdict = solution.policy, rue.evaluate(model, solution.policy)
    drawn = panels(draw_map(model, policy, samples=[4, 1]))
    assert len(drawn) == 2
    most = 0.0
    for sample in (4, 1):
        visits = np.bincount(policy.node_state, expected_visits(model, policy, sample), model.graph.states)
        most = max(most, visits[~model.graph.goal].max())
    for axes, sample in zip(drawn, (4, 1), strict=True):
        mass = expected_visits(model, policy, sample)
        assert axes.get_title("left").startswith(f"sample {sample}\nregret {verdict.regret[sample]:.3g}")
        check_arrows(axes, model, policy, mass, lambda s: (s % 7, s // 7), 1.0, -1.0)
        (squares,) = labelled(axes, PatchCollection, "visits")
        area = {}
        for path in squares.get_paths():
            box = path.get_extents()
            state = round(box.x0 + box.width / 2) + 7 * round(box.y0 + box.height / 2)
            area[state] = box.width * box.height
        assert max(squares.get_facecolor().ravel(), default=0.0) == 0  # hollow, so that the cost can be seen
        shown = {
            state: min(visits / min(most, MOST_FULL), 1.0)
            for state, (visits, _) in naive_behaviour(policy, mass).items()
            if visits >= LEAST_VISITS and not model.graph.goal[state]
        }
        assert area.keys() == shown.keys()
        full = max(area.values()) / max(shown.values())
        assert 0.9 < full < 1  # a full frame does not touch its neighbours
        assert area == pytest.approx({state: full * visits for state, visits in shown.items()})
        (obstacles,) = labelled(axes, PatchCollection, "obstacle")
        assert len(obstacles.get_paths()) == model.scenery["obstacle"][:, sample].sum()


def test_steps_are_panels_of_one_sample(rescue):
    model, solution = rescue
    policy, verdict = solution.policy, rue.evaluate(model, solution.policy)
    figure = draw_map(model, policy, steps=[0, 6])
    worst = verdict.worst_sample
    after = distribution_after(model, policy, worst, [0, 6])
    ended = after[1, model.graph.goal[policy.node_state]].sum()
    for axes, step, mass in zip(panels(figure), (0, 6), after, strict=True):
        check_arrows(axes, model, policy, mass, lambda s: (s % 7, s // 7), 1.0, -1.0)
        assert axes.get_title("left").startswith(
            f"sample {worst}, after {step} steps\nregret {verdict.max_regret:.3g}; "
        )
    assert f"{share_text(ended)} at the goal" in panels(figure)[1].get_title("left")
    assert "probability to be there" in words(figure)
    assert "fainter: less likely to be there" in words(figure) and "fewer visits" not in words(figure)


def test_shares_are_never_rounded_to_all_or_nothing():
    shares = (0.0, 1e-9, 0.0049, 0.0051, 0.504, 0.9949, 0.996, 1 - 1e-9, 1 - 1e-15, 1.0)
    assert [share_text(share) for share in shares] == [
        "0%", "<1%", "<1%", "1%", "50%", "99%", ">99%", ">99%", "100%", "100%",
    ]  # fmt: skip
    model = line_model(3)
    policy = rue.Policy.stationary(model, [0, 0, 0])
    titles = [axes.get_title("left") for axes in panels(draw_map(model, policy, samples=[0], steps=[0, 1, 2, 60]))]
    assert [title.partition("; ")[2] for title in titles] == [f"{n} at the goal" for n in ("0%", "0%", "6%", ">99%")]


def test_samples_are_chosen_by_regret(rescue):
    model, solution = rescue
    regret = rue.evaluate(model, solution.policy).regret
    titles = [axes.get_title("left") for axes in panels(draw_map(model, solution.policy))]
    order = np.argsort(-regret, kind="stable")
    for title, sample, which in zip(titles, order[[0, 3, 5]], ("largest", "middle", "smallest"), strict=True):
        assert title == f"sample {sample}\nregret {regret[sample]:.3g} ({which} of 6)"
    few = model.subset([0, 1])
    assert [axes.get_title("left") for axes in panels(draw_map(few))] == ["sample 0", "sample 1"]
    assert panels(draw_map(few, overview=True))[0].get_title("left").startswith("all 2 samples")


def test_the_glider_map_has_currents_depth_land_and_units(voyage):
    model, solution = voyage
    figure = draw_map(model, solution.policy, samples=[3])
    (axes,) = panels(figure)
    layout, graph = model.graph.layout, model.graph
    size = layout["cell_size"] / 1000

    def place(state):
        row, column = divmod(layout["cell"][state], 16)
        return (column + 0.5) * size, (15.5 - row) * size

    check_arrows(axes, model, solution.policy, expected_visits(model, solution.policy, 3), place, size, 1.0)
    (currents,) = labelled(axes, Quiver, "current")
    assert currents.U.size == graph.states
    east, north = model.scenery["east"][:, 3], model.scenery["north"][:, 3]
    scale = LONGEST_CURRENT * size / np.quantile(np.hypot(east, north), 0.9)
    assert np.allclose(currents.U, east * scale, rtol=1e-5) and np.allclose(currents.V, north * scale, rtol=1e-5)
    (land,) = labelled(axes, PatchCollection, "land")
    assert len(land.get_paths()) == 256 - graph.states
    seen = words(figure)
    for text in ("260 m", "m/s", "km east", "km north", "cost of entering a cell", "start", "goal", layout["credit"]):
        assert text in seen
    figure.draw_without_rendering()
    seen = words(figure)
    assert "°N" in seen and "°E" in seen
    assert axes.get_title("left").startswith(model.sample_name(3))


def test_large_maps_have_few_currents(tmp_path):
    model = Glider(seed=1, width=30, height=30).training(1)
    (axes,) = panels(draw_map(model))
    (currents,) = labelled(axes, Quiver, "current")
    assert currents.U.size <= 15 * 15


def uniform_sea(path, east):
    latitude, longitude = np.meshgrid(np.arange(60.9, 61.4, 0.005), np.arange(4.2, 5.0, 0.01), indexing="ij")
    flow = [np.broadcast_to(value, (24, *latitude.shape)) for value in (east, 0.0)]
    time = MAY_DAY + 3600.0 * np.arange(24)
    Currents(time, latitude, longitude, *flow, np.full(latitude.shape, 400.0), "nobody").save(path)
    return str(path)


@pytest.mark.parametrize("east", [0.0, 0.3])
def test_the_map_shows_straight_paths_and_crabbing(tmp_path, east):
    place = {"south": 61.15, "north": 61.15, "west": 4.575, "east": 4.575, "entry_low": 1.0}
    domain = Glider(
        seed=1, data=uniform_sea(tmp_path / "sea.npz", east), start=16 * 14 + 8, goal=16 + 8, threshold=1e-3, **place
    )
    model = domain.training(1)
    policy = rue.solve(model, rue.Average()).policy
    figure = draw_map(model, policy)
    (axes,) = panels(figure)
    (arrows,) = labelled(axes, Quiver, "policy")
    way = (np.abs(arrows.X - 8.5 * 0.5) < 1e-9) & (arrows.Y > 0.6) & (arrows.Y < 6.9)
    assert way.sum() >= 12
    # With no current north; with one to the east, half as fast as the glider, 30 degrees into it.
    angle = np.rad2deg(np.arctan2(arrows.U, arrows.V))[way]
    assert angle == pytest.approx(np.full(way.sum(), 0.0 if east == 0 else -30.0), abs=1e-6)
    assert bool(labelled(axes, Quiver, "current")) == (east > 0)
    assert "260 m" not in words(figure)  # all is deeper


def test_grids_without_directions_name_their_actions():
    model = rue.domains.Medical(seed=1).sample(3, seed=1)
    solution = rue.solve(model, rue.Regret(2, "history"))
    figure = draw_map(model, solution.policy, samples=[2])
    (axes,) = panels(figure)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("health", "day")
    behaviour = naive_behaviour(solution.policy, expected_visits(model, solution.policy, 2))
    wanted = []
    for state, (visits, actions) in behaviour.items():
        if visits >= LEAST_VISITS and not model.graph.goal[state]:
            best = max(actions, key=actions.get)
            share = "" if actions[best] >= 1 - 1e-12 else f"\n{share_text(actions[best])}"
            wanted.append((state % 20, state // 20, "abcd"[best] + share))
    found = [(*text.get_position(), text.get_text()) for text in axes.texts if text.get_text() != "start"]
    assert sorted(found) == sorted(wanted)
    assert "treatment 1" in words(figure) and "finish" in words(figure)


def line_model(length, **layout):
    """States in a row; the first action goes on with a chance of a quarter or a half, the second one stays."""
    transition = np.zeros((2, length, 2, length))
    for state in range(length - 1):
        transition[:, state, 0, state + 1], transition[:, state, 0, state] = [0.25, 0.5], [0.75, 0.5]
        transition[:, state, 1, state] = 1.0
    model = rue.UMDP.from_dense(transition, np.ones((2, length, 2)), initial=0, goals=[length - 1])
    layout = {"grid": [1, length], "heading": [90, 270], **layout}
    return rue.UMDP(replace(model.graph, layout=layout), model.prob, model.cost)


def key_of(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_the_key_says_what_a_full_square_is():
    model = line_model(4)
    figure = draw_map(model, rue.Policy.stationary(model, [0] * 4), samples=[0])  # four visits each
    assert any(re.fullmatch(r"expected visits: [0-9.]+ \(a full square: 2 or more\)", text) for text in key_of(figure))
    figure = draw_map(model, rue.Policy.stationary(model, [0] * 4), samples=[1])  # two
    assert any(re.fullmatch(r"expected visits: [0-9.]+", text) for text in key_of(figure))
    many = line_model(60)
    assert "expected visits: 2 or more" in key_of(draw_map(many, rue.Policy.stationary(many, [0] * 60), samples=[0]))


def test_what_is_visited_for_ever_has_squares_of_its_own():
    model = line_model(4)
    figure = draw_map(model, rue.Policy.stationary(model, [1] * 4), samples=[0])
    assert "visited for ever" in key_of(figure) and not any("expected" in text for text in key_of(figure))
    figure = draw_map(model, rue.Policy.stationary(model, [0, 0, 1, 0]), samples=[1])
    (axes,) = panels(figure)
    counts = [len(squares.get_paths()) for name in ("visits", "for ever")
              for squares in labelled(axes, PatchCollection, name)]  # fmt: skip
    assert counts == [2, 1]
    assert "visited for ever" in key_of(figure) and any("expected visits" in text for text in key_of(figure))


def boxes_overlap(texts):
    boxes = [text.get_window_extent() for text in texts]
    return any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])


def test_titles_of_narrow_maps_stand_beside_each_other():
    model = rue.domains.Disaster(width=2, height=30, seed=1).sample(5, seed=1)
    figure = draw_map(model, rue.solve(model, rue.Average()).policy)
    figure.draw_without_rendering()
    titles = [axes._left_title for axes in panels(figure)]
    assert len(titles) == 3 and not boxes_overlap(titles)
    boxes = [title.get_window_extent() for title in titles]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)
    names = [text for axes in panels(figure) for text in axes.texts]
    assert not boxes_overlap([*titles, *names])
    assert {"start", "goal"} <= set(key_of(figure))


@pytest.mark.parametrize("layout", [{}, {"grid": [2, 1], "heading": [180, 0]}, {"heading": None}])
@pytest.mark.parametrize("shown", [True, False])
def test_both_ends_of_two_cells_are_named_in_their_own(layout, shown):
    model = line_model(2, **layout)
    figure = draw_map(model, rue.Policy.stationary(model, [0, 0]) if shown else None, samples=[0])
    (axes,) = panels(figure)
    names = {text.get_text(): text.get_position() for text in axes.texts}
    for name, cell in (("start", 0), ("goal", 1)):
        if name in names:
            assert [round(at) for at in names[name]] == ([0, cell] if layout.get("grid") else [cell, 0])
    assert {"start", "goal"} <= set(key_of(figure))


def test_names_hide_no_arrows_in_one_row():
    model = line_model(12)
    (axes,) = panels(draw_map(model, rue.Policy.stationary(model, [0] * 12), samples=[0]))
    for text in axes.texts:
        assert text.get_text() in ("start", "goal") and round(text.get_position()[0]) in (0, 11)


def test_a_policy_that_may_miss_the_goal_says_so():
    graph = rue.domains.Disaster(width=3, height=3, seed=1).graph
    model = rue.domains.Disaster(width=3, height=3, seed=1).sample(1, seed=1)
    north = np.zeros(graph.states, int)
    figure = draw_map(model, rue.Policy.stationary(model, north))
    (axes,) = panels(figure)
    assert axes.get_title("left") == "sample 0\nregret ∞: it may miss the goal"
    (arrows,) = labelled(axes, Quiver, "policy")
    assert np.isfinite(arrows.U).all() and np.allclose(arrows.V, -ARROW)


@pytest.mark.parametrize("shape", [(2, 2), (12, 2), (2, 12), (40, 40)])
def test_grids_of_any_shape_can_be_drawn(shape, tmp_path):
    model = rue.domains.Disaster(width=shape[0], height=shape[1], seed=1, region_chance=0.0).sample(1, seed=1)
    policy = rue.solve(model, rue.Average()).policy
    figure = draw_map(model, policy)
    save_figure(figure, tmp_path / "map.png")
    assert max(figure.get_size_inches()) < 14
    assert "obstacle" not in words(figure) and "cost of entering" not in words(figure)
    plain = rue.UMDP(replace(model.graph, layout={"grid": [shape[1], shape[0]]}), model.prob, model.cost)
    assert len(panels(draw_map(plain, policy))) == 1  # letters instead of arrows


def test_what_cannot_be_drawn_is_one_line(rescue, tmp_path):
    model, solution = rescue
    policy = solution.policy
    dense = rue.UMDP.from_dense([[[[0, 1]], [[0, 0]]]], [[[1], [0]]], initial=0, goals=[1])
    with pytest.raises(rue.BadInput, match="the model is no grid"):
        draw_map(dense)
    odd = replace(model.graph, layout={"grid": [6, 7], "cell": [99] * 42})
    with pytest.raises(rue.BadInput, match="cannot be drawn: its cells are not 42 numbers from 0 to 41"):
        draw_map(rue.UMDP(odd, model.prob, model.cost))
    short = replace(model.graph, layout={"grid": [6, 7], "heading": [0, 90]})
    with pytest.raises(rue.BadInput, match="it has 2 headings for 8 actions"):
        draw_map(rue.UMDP(short, model.prob, model.cost))
    for layout, message in (
        ({"grid": [6, 7], "cell": [0] * 42}, "cell 0 has 42 states"),
        ({"grid": [6, 7], "cell": [-1] * 42}, "cell 0 has 0 states"),
        ({"grid": [6, 7], "heading": [None] * 8}, "some action has no heading"),
        ({"grid": [6, 7], "depth": [1.0]}, "it has 1 numbers of depth; expected 42"),
        ({"grid": [0, 7]}, "the number of rows in the layout is 0; expected 1"),
        ({"grid": 7}, "the grid of the layout is 7"),
        ({"grid": [6, 7], "cell_size": "wide"}, "could not convert string to float"),
    ):
        with pytest.raises(rue.BadInput, match=message):
            draw_map(rue.UMDP(replace(model.graph, layout=layout), model.prob, model.cost))
    with pytest.raises(rue.BadInput, match="sample 9 is out of range"):
        draw_map(model, policy, samples=[9])
    with pytest.raises(rue.BadInput, match="no samples to draw"):
        draw_map(model, policy, samples=[])
    with pytest.raises(rue.BadInput, match="expected one sample"):
        draw_map(model, policy, samples=[0, 1], steps=[1])
    with pytest.raises(rue.BadInput, match="steps are given without a policy"):
        draw_map(model, steps=[1])
    with pytest.raises(rue.BadInput, match="no steps to draw"):
        draw_map(model, policy, steps=[])
    with pytest.raises(rue.BadInput, match=r"step is 100000000000000000000; expected at most \d+,"):
        draw_map(model, policy, steps=[0, 10**20])
    for more in ({"steps": range(61)}, {"samples": [0] * 61}, {"samples": [0] * 60, "overview": True}):
        with pytest.raises(rue.BadInput, match=f"there are 61 panels to draw; expected at most {MOST_ASKED}"):
            draw_map(model, policy, **more)
    with pytest.raises(rue.BadInput, match="another graph"):
        draw_map(rue.domains.Disaster(width=5, height=5, seed=2).sample(2, seed=1), policy)


def test_regrets_are_bars_for_few_samples(rescue):
    model, solution = rescue
    other = rue.evaluate(model, rue.solve(model, rue.Average()).policy).regret.copy()
    figure = draw_regrets(model, {"reg": solution.regret, "average": other}, bound=0.1)
    (axes,) = figure.axes
    heights = [bar.get_height() for container in axes.containers for bar in container]
    assert heights == pytest.approx([*solution.regret, *other])
    seen = words(figure)
    assert f"reg, max {max(solution.regret):.3g}" in seen and "at least 0.1" in seen and "regret" in axes.get_ylabel()
    assert any(line.get_ydata()[0] == 0.1 for line in axes.get_lines())
    other[2] = np.inf
    assert "max ∞" in words(draw_regrets(model, {"average": other}))


def test_words_beside_bars_are_clear_of_a_long_legend_and_of_long_names():
    names = [f"progress {k}, effect {k}, harm {k}, a long name" for k in range(8)]
    builder = rue.Builder(names, discount=0.9)
    model = builder.add("a", "go", {"a": 0.9, "b": 0.1}, reward=1.0).goal("b").build()
    figure = draw_regrets(model, {f"a method with a name {i}": np.ones(8) for i in range(5)}, bound=0.5)
    figure.draw_without_rendering()
    (axes,), (legend,) = figure.axes, figure.legends
    words, box = axes.yaxis.label.get_window_extent(), legend.get_window_extent()
    assert words.y1 <= box.y0 and words.y0 >= 0
    assert axes.get_window_extent().height > 0.9 * words.height


def test_many_methods_are_coloured_cells(rescue):
    model, solution = rescue
    regrets = {f"method {i}": np.asarray(solution.regret) * (8 - i) for i in range(7)}
    regrets["method 0"][1] = np.inf
    axes, _ = draw_regrets(model, regrets, bound=0.1).axes  # and the scale
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"method {i}" for i in reversed(range(7))]
    texts = {text.get_position(): text.get_text() for text in axes.texts}
    for row, i in enumerate(reversed(range(7))):
        for k, regret in enumerate(regrets[f"method {i}"]):
            shown = texts[k, row]
            assert shown == "∞" if np.isinf(regret) else float(shown) == pytest.approx(regret, rel=0.06, abs=1e-6)
        most = max(regrets[f"method {i}"])
        assert texts[-1.2, row] == ("∞" if np.isinf(most) else f"{most:.3g}")
    (cells,) = axes.collections
    level = cells.norm(np.array([regrets[f"method {i}"] for i in reversed(range(7))]))
    assert cells.get_array().shape == (7, model.samples) and (np.diff(np.sort(level.ravel())) >= 0).all()


def test_many_samples_are_curves(rescue):
    _, solution = rescue
    many = rue.domains.Disaster(width=7, height=6, seed=2).sample(40, seed=2)
    regret = rue.evaluate(many, solution.policy).regret
    figure = draw_regrets(many, {"reg": regret}, bound=0.0)
    (axes,) = figure.axes
    x, y = axes.get_lines()[0].get_data()
    for at, share in zip(x, y, strict=True):
        assert share == pytest.approx((regret > at).mean() if at > 0 or (regret > 0).all() else share)
    endless = regret.copy()
    endless[:10] = np.inf
    assert draw_regrets(many, {"reg": endless}).axes[0].get_lines()[0].get_ydata()[-1] == pytest.approx(0.25)


def test_dates_that_all_samples_share_are_said_once(voyage):
    model, solution = voyage
    figure = draw_regrets(model, {"reg": solution.regret})
    (axes,) = figure.axes
    assert axes.get_xlabel() == "sample (2015-11-16)"
    assert axes.get_xticklabels()[0].get_text() == "06:00 UTC"


def test_names_that_are_not_one_line_of_letters(rescue, tmp_path):
    """Line breaks and control characters, in the names of samples and of whatever else is drawn."""
    model, solution = rescue
    odd = ["a\nvery\r\n\nlong\tname ", "bell\x07\x00", "no \x9f \uffff letter", "\u2028next", "\n", "7\u00a0m"]
    shown = ["a very long name", "bell��", "no � � letter", "next", "", "7 m"]
    strange = rue.UMDP(model.graph, model.prob, model.cost, odd, model.scenery)
    figures = [
        draw_map(strange, solution.policy, samples=range(6)),
        draw_map(strange, solution.policy, samples=[0], steps=[0, 2]),
        draw_regrets(strange, {"a\nb\ud800": solution.regret}),  # half of a letter
        draw_bounds({"a\nb\x02": solution}),
    ]
    titles = [axes.get_title(loc="left").split("\n") for axes in panels(figures[0])]
    assert [len(lines) for lines in titles] == [2] * 6
    assert [lines[0] for lines in titles] == shown
    assert all(lines[1].startswith("regret") for lines in titles)
    steps = [axes.get_title(loc="left").split("\n") for axes in panels(figures[1])]
    assert [lines[0] for lines in steps] == ["a very long name, after 0 steps", "a very long name, after 2 steps"]
    assert [label.get_text() for label in figures[2].axes[0].get_xticklabels()] == shown
    for figure in figures[2:]:
        assert "a b�" in words(figure)
    for figure in figures:
        for ending in ("svg", "png", "pdf"):
            save_figure(figure, tmp_path / f"x.{ending}")
        ElementTree.parse(tmp_path / "x.svg")  # an SVG file cannot hold control characters


@pytest.mark.parametrize("methods", [1, 7])
def test_names_are_no_formulas(rescue, methods, tmp_path):
    model, solution = rescue
    odd = [r"$\frac{$", "$x$", "$^$", r"\$", "100 %", "_{"]
    model = replace(model, sample_label=tuple(odd))
    figure = draw_regrets(model, {f"$\\{n}$": solution.regret for n in range(methods)})
    save_figure(figure, tmp_path / "x.png")
    assert all(name in words(figure) for name in (odd[0], r"$\0$"))
    figure = draw_map(model, solution.policy, samples=[0, 3])
    save_figure(figure, tmp_path / "x.png")
    assert [axes.get_title("left").partition("\n")[0] for axes in panels(figure)] == [odd[0], odd[3]]


def test_regrets_that_do_not_fit_are_one_line(rescue):
    model, solution = rescue
    for regrets, message in (
        ({}, "no regrets"),
        ({"reg": [1.0, 2.0]}, r"shape \(2,\); expected \(6,\)"),
        ({"reg": [-1.0] * 6}, "regret of reg is -1"),
        ({"reg": [np.nan] * 6}, "regret of reg is nan"),
    ):
        with pytest.raises(rue.BadInput, match=message):
            draw_regrets(model, regrets)
    with pytest.raises(rue.BadInput, match="bound is -1"):
        draw_regrets(model, {"reg": solution.regret}, bound=-1)


def test_bounds_are_the_trace(rescue):
    model, _ = rescue
    solution = rue.solve(model, rue.Adaptive(0.05), limits=rue.Limits(seconds=5))
    figure = draw_bounds({"ours": solution, "average": rue.solve(model, rue.Average())})
    axes = figure.axes[0]
    upper, lower = (line.get_data() for line in axes.get_lines() if len(line.get_xdata()) > 1)
    assert (lower[1][-1], upper[1][-1]) == (solution.objective.lower, solution.objective.upper)
    assert (np.diff(upper[1]) <= 0).all() and (np.diff(lower[1]) >= 0).all() and (upper[1] >= lower[1]).all()
    assert list(upper[0][:-1]) == pytest.approx([point.seconds for point in solution.trace])
    assert axes.get_title("left") == f"ours: {solution.status.value}" and axes.get_ylabel() == "regret"
    assert figure.axes[1].get_ylabel() == "mean cost" and figure.axes[1].get_xlabel() == "seconds"
    assert f"{solution.max_regret.upper:.3g}" in words(figure)
    proved = replace(solution, objective=rue.Interval(0.4758, 0.6))  # what is written is proved as well
    assert "0.475" in words(draw_bounds({"ours": proved}))
    with pytest.raises(rue.BadInput, match="no solutions"):
        draw_bounds({})
    with pytest.raises(rue.BadInput, match=r"ours is a Policy; expected a rue\.Solution"):
        draw_bounds({"ours": solution.policy})


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        (0.3, 0.9, ["0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9"]),
        (0.06, 0.7, ["0.05", "0.1", "0.2", "0.5"]),
        (0.002, 4.0, ["0.01", "0.1", "1"]),
    ],
)
def test_seconds_are_plain_numbers_whatever_their_range(rescue, first, last, shown):
    solution = rue.solve(rescue[0], rue.Average())
    trace = tuple(point._replace(seconds=first) for point in solution.trace[:1])
    (axes,) = draw_bounds({"average": replace(solution, seconds=last, trace=trace)}).axes
    left, right = axes.get_xlim()
    ticks = []
    for minor in (False, True):
        names = [text.get_text() for text in axes.get_xticklabels(minor=minor)]
        ticks += zip(axes.get_xticks(minor=minor), names, strict=True)
    assert [name for at, name in sorted(ticks) if name and left <= at <= right * (1 + 1e-9)] == shown


def test_what_rounding_leaves_is_drawn_as_nothing(rescue):
    solution = rue.solve(rescue[0], rue.Average())
    tiny = replace(solution, objective=rue.solution.Interval(0.0, 6e-15), trace=(), regret=(0.0,) * 6)
    figure = draw_bounds({"tiny": tiny})
    assert "e-15" not in words(figure) and figure.axes[0].get_ylim() == (0, 1)
    small = replace(tiny, objective=rue.solution.Interval(1e-8, 6e-8))
    figure = draw_bounds({"small": small})
    figure.draw_without_rendering()
    assert "6e-08" in words(figure) and figure.axes[0].yaxis.get_offset_text().get_text() == ""
    assert "6e-08" not in words(draw_bounds({"small": small, "large": replace(tiny, regret=(1e3,) * 6)}))


def test_letters_that_the_font_lacks_are_no_warnings(rescue, tmp_path):
    model, solution = rescue
    model = replace(model, sample_label=tuple("模型一二三四"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(draw_regrets(model, {"模型": solution.regret}), tmp_path / "x.png")
        save_figure(draw_map(model, solution.policy, samples=[0]), tmp_path / "x.png")
        save_figure(draw_bounds({"模型": solution}), tmp_path / "x.svg")


def test_a_picture_is_whole_or_as_it_was(rescue, tmp_path, monkeypatch):
    figure = draw_regrets(rescue[0], {"reg": rescue[1].regret})
    target = tmp_path / "x.png"
    target.write_bytes(b"before")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(rue.BadInput, match="No space left on device"):
        patch.setattr("os.fsync", full)
        save_figure(figure, target)
    assert target.read_bytes() == b"before" and list(tmp_path.iterdir()) == [target]
    save_figure(figure, target)
    assert target.read_bytes().startswith(b"\x89PNG")


def test_equal_figures_are_equal_files(rescue, tmp_path):
    model, solution = rescue
    for ending in ("svg", "png", "pdf"):
        for name in ("a", "b"):
            save_figure(draw_map(model, solution.policy, samples=[0, 1]), tmp_path / f"{name}.{ending}")
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()
    text = (tmp_path / "a.svg").read_text()
    assert ">start</text>" in text and "<dc:date>" not in text
    assert re.search(r">regret [0-9.]+[^<]*</text>", text)


def test_files_that_cannot_be_written_are_one_line(rescue, tmp_path):
    figure = draw_regrets(rescue[0], {"reg": rescue[1].regret})
    with pytest.raises(rue.BadInput, match=r"ends in '\.jpeg'; expected \.png, \.svg or \.pdf"):
        save_figure(figure, tmp_path / "x.jpeg")
    with pytest.raises(rue.BadInput, match=r"expected \.png, \.svg or \.pdf"):
        save_figure(figure, tmp_path / "x")
    with pytest.raises(rue.BadInput, match=r"x\.png: cannot be written \(No such file or directory\)"):
        save_figure(figure, tmp_path / "nowhere" / "x.png")


def test_settings_of_the_caller_are_left_alone(rescue, tmp_path):
    model, solution = rescue
    with mpl.rc_context({"font.size": 33.0, "svg.hashsalt": "theirs"}):
        save_figure(draw_map(model, solution.policy, samples=[0]), tmp_path / "a.svg")
        assert mpl.rcParams["font.size"] == 33.0 and mpl.rcParams["svg.hashsalt"] == "theirs"
    save_figure(draw_map(model, solution.policy, samples=[0]), tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_who_does_not_draw_does_not_wait_for_matplotlib():
    code = "import sys, rue; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    code = "import sys, rue.report; print('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
