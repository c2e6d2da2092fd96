"""Pictures of experiments: what is drawn is what the results hold."""

import math
import warnings
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_tables import record

from rue.errors import BadInput
from rue.experiments.results import Results
from rue.experiments.statistics import bootstrap_band, t_band
from rue.parsing import METHODS
from rue.report.experiments import (
    draw_distance,
    draw_experiment,
    draw_regret,
    draw_seconds,
    draw_tradeoff,
    method_styles,
    pareto_front,
)
from rue.report.style import save_figure


@pytest.fixture(scope="module")
def results():
    """Two groups, one of a single size; every method; adaptive proves a bound; milp is not run on the large size."""
    rng = np.random.default_rng(5)
    records = []
    for group, sizes in (("disaster", (4, 5, 10)), ("medical", (0,))):
        for size in sizes:
            for seed in range(4):
                for number, method in enumerate(METHODS):
                    if (method, size) == ("milp", 10):
                        continue
                    regret = 1.0 + (number * 7 % 18) / 6 + rng.random()
                    records.append(record(
                        method, f"{size},seed={seed}", regret, 1.1 * regret, group=group,
                        size=f"{size}×{size}" if size else "", states=size**2 or 140,
                        proved=0.9 if method == "adaptive" else 0.0, seconds=10.0 ** (number % 5 - 3),
                    ))  # fmt: skip
    return Results.of(records)


def words(figure):
    return " | ".join(text.get_text() for text in figure.findobj(mpl.text.Text))


def lines(axes):
    return {line.get_label(): line for line in axes.lines if not str(line.get_label()).startswith("_")}


def test_regret_over_size_is_the_mean_of_each_size(results):
    disaster, medical = results.groups
    figure = draw_regret(results)
    drawn = lines(figure.axes[0])
    assert set(drawn) == set(disaster.methods)
    for number, method in enumerate(disaster.methods):
        expected = [disaster.normalised("train")[disaster.of_size(size), number].mean() for size in disaster.sizes]
        assert drawn[method].get_ydata() == pytest.approx(np.array(expected), nan_ok=True)
    points = lines(figure.axes[1])
    for number, method in enumerate(medical.methods):
        assert points[method].get_ydata() == pytest.approx([medical.normalised("train")[:, number].mean()])
    assert all(name in words(figure) for name in ("disaster", "medical", "4×4", "10×10", *METHODS))


def test_bands_are_those_of_the_statistics(results):
    disaster, medical = results.groups
    for figure, figures, band in (
        (
            draw_regret(results, "test"),
            [g.normalised("test") for g in results.groups],
            lambda column: t_band(column, within=(0.0, 1.0)),
        ),
        (draw_seconds(results), [g.seconds for g in results.groups], bootstrap_band),
    ):
        bars = [tuple(line.get_ydata()) for line in figure.axes[1].lines if len(line.get_ydata()) == 2]
        assert bars == [tuple(band(column)) for column in figures[1].T]
        bars = [line.get_ydata() for line in figure.axes[0].lines if len(line.get_ydata()) == 2]
        assert len(bars) == len(disaster.methods) * len(disaster.sizes)
    assert len(medical.sizes) == 1


def test_times_are_on_a_log_scale(results):
    figure = draw_seconds(results)
    assert [axes.get_yscale() for axes in figure.axes] == ["log", "log"]
    assert lines(figure.axes[0])["reg-d1"].get_ydata() == pytest.approx([1e-3] * 3)


def test_methods_stand_beside_each_other_within_their_size(results):
    figure = draw_regret(results)
    x = np.array([line.get_xdata() for line in lines(figure.axes[0]).values()])
    assert x.shape == (len(METHODS), 3) and (np.diff(np.sort(x, axis=0), axis=0) > 0).all()
    assert (x.max(axis=0)[:-1] < x.min(axis=0)[1:]).all()


POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8)


@given(POINTS)
def test_the_front_is_what_nobody_beats(points):
    seconds, regret = (np.array([float(p[k]) for p in points]) for k in (0, 1))
    front = pareto_front(seconds, regret)

    def beaten(p):
        return any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)

    assert {points[n] for n in front} == {p for p in points if not beaten(p)}
    assert [points[n] for n in front] == sorted({points[n] for n in front})


def test_the_front_of_holes():
    assert pareto_front(np.array([1.0, math.nan, 3.0]), np.array([math.nan, 1.0, 2.0])) == [2]


def test_regret_against_time_names_every_method_once_within_its_panel(results):
    figure = draw_tradeoff(results)
    figure.draw_without_rendering()
    for axes in figure.axes:
        names = [text for text in axes.texts if text.get_text()]
        assert sorted(text.get_text() for text in names) == sorted(METHODS)
        boxes = [text.get_window_extent() for text in names]
        frame = axes.get_window_extent().padded(2)
        assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)
        overlaps = sum(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])
        assert overlaps <= 2


def test_distance_shows_every_problem_with_a_bound(results):
    disaster = results.groups[0]
    axes = draw_distance(results).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert sorted(names) == sorted(disaster.methods)
    dots = {names[round(float(np.mean(line.get_ydata())))]: line.get_xdata() for line in axes.lines
            if line.get_marker() == "o"}  # fmt: skip
    for number, method in enumerate(disaster.methods):
        ratio = disaster.ratio[:, number]
        assert dots[method] == pytest.approx(np.sort(ratio[~np.isnan(ratio)]))
    medians = [np.nanmedian(disaster.gap[:, disaster.methods.index(name)]) for name in names]
    assert medians == sorted(medians, reverse=True)  # the best is at the top


@pytest.mark.parametrize("largest", [1.0, 1.004, 1.08, 1.4, 3.0, 12.0, 150.0, 4000.0, 3e7, 1e120])
@pytest.mark.parametrize("endless", [False, True])
def test_labels_of_the_distance_do_not_touch_and_say_where_things_are(largest, endless):
    runs = [record("adaptive", f"seed={k}", 1.0, 1.0, proved=1.0) for k in range(3)]
    runs += [record("best", f"seed={k}", largest if k else 1.0, 1.0) for k in range(3)]
    runs += [record("mixture", f"seed={k}", "inf" if endless else 1.0, 1.0) for k in range(3)]
    figure = draw_distance(Results.of(runs, ["best"]))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    labels = axes.get_xticklabels()
    boxes = [label.get_window_extent() for label in labels]
    assert len(labels) >= 3 and labels[0].get_text() == "1"
    assert all(a.x1 < b.x0 for a, b in pairwise(boxes))
    low, high = axes.get_xlim()
    assert low < 1 and max(largest, 1.1) < high
    assert axes.get_xticks()[-1] > math.sqrt(high)  # the right half has one too


def test_infinite_regret_is_written():
    runs = [record("best", f"seed={k}", 1.0, 1.0, proved=0.5) for k in range(3)]
    runs += [record("mixture", f"seed={k}", "inf", "inf") for k in range(3)]
    results = Results.of(runs, ["best"])
    assert "∞" in words(draw_regret(results)) and "3 × ∞" in words(draw_distance(results))
    assert "no finite mean: mixture" in words(draw_tradeoff(results))


def test_one_infinite_figure_does_not_take_a_method_out():
    runs = [record("best", f"seed={k}", 2.0) for k in range(3)]
    runs += [record("mixture", f"seed={k}", "inf" if k == 0 else 1.0, seconds=0.1) for k in range(3)]
    results = Results.of(runs, ["best"])
    (axes,) = draw_regret(results).axes
    assert lines(axes)["mixture"].get_ydata() == pytest.approx([0.5])
    assert [text.get_text() for text in axes.texts] == ["∞"]
    (axes,) = draw_tradeoff(results).axes
    assert sorted(text.get_text() for text in axes.texts) == ["best", "mixture (1 ∞)"]
    assert lines(axes)["front"].get_ydata() == pytest.approx([1.0])  # best alone
    assert "∞" not in words(draw_tradeoff(Results.of(runs[:3])))


def test_groups_without_a_run_have_no_panel():
    runs = [record("best", "a", None, group="lost"), record("best", "a", 1.0, 1.0, proved=0.5, group="found")]
    for one in draw_experiment(Results.of(runs)):
        assert [axes.get_title("left") for axes in one.figure.axes] == ["found"]
    assert draw_experiment(Results.of(runs[:1])) == []
    for draw in (draw_regret, draw_seconds, draw_tradeoff):
        with pytest.raises(BadInput, match="expected some that did not fail"):
            draw(Results.of(runs[:1]))


def test_long_names_lose_their_middle():
    long = "very long " * 30
    runs = [
        record(method, f"{side},seed=1", 1.0, 1.0, group=group, size=f"a{side}-{long}-z{side}", proved=0.5, states=side)
        for method in ("best", "adaptive")
        for side in (4, 5)
        for group in ("medical", f"begin-{long}-end")
    ]
    pictures = draw_experiment(Results.of(runs))
    for one in pictures:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # that panels have no room left
            one.figure.draw_without_rendering()
        whole, titles = one.figure.bbox, sorted(axes.get_title("left") for axes in one.figure.axes)
        assert titles[0].startswith("begin-very") and titles[0].endswith("long -end") and titles[1] == "medical"
        for axes in one.figure.axes:
            panel = axes.get_window_extent()
            assert panel.width > 0.3 * whole.width and panel.height > 0.4 * whole.height
        for text in one.figure.findobj(lambda part: isinstance(part, mpl.text.Text) and "…" in part.get_text()):
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.x1 <= whole.width
    for axes in pictures[0].figure.axes:
        sizes = [label.get_text() for label in axes.get_xticklabels()]
        assert [(size[:2], size[-2:]) for size in sizes] == [("a4", "z4"), ("a5", "z5")]


def test_looks_are_all_different():
    for methods in (METHODS, ["adaptive (gap=0.1)", "adaptive (gap=0.2)", "mine", "yours", "reg-d7", "robust-d2"]):
        looks = method_styles(methods)
        assert len({look.colour for look in looks.values()}) == len(methods)
        assert len({look.marker for look in looks.values()}) == len(methods)


def test_all_pictures_become_files(results, tmp_path):
    pictures = draw_experiment(results)
    assert [one.name for one in pictures] == ["regret-train", "regret-test", "seconds", "tradeoff", "bound"]
    for one in pictures:
        assert one.title and one.caption.endswith(".")
    save_figure(pictures[0].figure, tmp_path / "a.svg")
    save_figure(draw_regret(results), tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_regret_over_training_samples(tmp_path):
    runs = [
        record(method, f"samples={n}{by},seed=1", 2.0, 4.0 / n, size=f"{n}{by}", samples=["a"] * n)
        for method in ("mixture", "adaptive") for n in (15, 150) for by in ("", ",pool=200,by=coverage")
    ]  # fmt: skip
    (picture,) = [one for one in draw_experiment(Results.of(runs)) if one.name == "samples"]
    (axes,) = picture.figure.axes
    assert [line.get_xdata().tolist() for line in axes.lines] == [[15, 150]] * 4
    assert [line.get_linestyle() == "None" for line in axes.lines] == [False, True] * 2
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [4 / 15, 4 / 150])
    save_figure(picture.figure, tmp_path / "x.svg")


@pytest.mark.parametrize("runs", [
    [record("best", "a", 1.0, size="")],
    [record("best", "a", None), record("best", "b", 1.0, size="5×5")],
    [record("best", "a", 0.0), record("robust", "a", 0.0, size="6×6")],
    [record("best", f"{k}", 1.0, group=f"file {k}", size="") for k in range(5)],
])  # fmt: skip
def test_small_and_empty_experiments_can_be_drawn(runs, tmp_path):
    pictures = draw_experiment(Results.of(runs))
    assert [one.name for one in pictures] == ["regret-train", "seconds", "tradeoff"]
    for one in pictures:
        save_figure(one.figure, tmp_path / "x.svg")


def test_what_is_not_there_is_an_error():
    results = Results.of([record("best", "a", 1.0)])
    with pytest.raises(BadInput, match="test set"):
        draw_regret(results, "test")
    with pytest.raises(BadInput, match="no method proved a bound"):
        draw_distance(results)
