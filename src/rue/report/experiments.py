"""Figures of experiments: regret and time over the size of problems, regret against time, distance to the bound.

Each figure has one panel for each group. Up to twenty methods can be told apart: the hue is that of the family,
marker, line and shade are those of the member.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import Bbox

from rue._arrays import Array
from rue._text import short_line
from rue.errors import BadInput
from rue.experiments.results import Group, Results, Samples
from rue.experiments.statistics import Band, bootstrap_band, moments_of, t_band
from rue.report import style

REGRET = "normalised max regret"
# Families of methods and their colours, from the first member on: the first pattern that fits decides.
FAMILIES = {
    r"reg-d\d+": ("#0072B2", "#00406B", "#4C9BD0"), r"reg-s\d+": ("#56B4E9", "#2F7FA8"),
    r"reg-h\d+": ("#009E73", "#00593F", "#4CC3A0", "#7A9E00"),
    r"cemr-\w\d+": ("#E69F00", "#9C6A00", "#F0C052", "#C7A26A"),
    "adaptive": (style.VERMILION,), "mixture": (style.PURPLE,), "milp": (style.BLACK,), "best": ("#7A5230",),
    "average": (style.FAINT,), "robust": ("#4D4D4D",),
}  # fmt: skip
SPARE = ("#7A3E9D", "#B03060", "#5B7F00", "#006D77", "#A0522D", "#3D5A98", "#8F8F00", "#C2185B")  # other methods
MARKERS: tuple[Any, ...] = (
    "o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h", "d", "p", "H", "8", (4, 1, 0), (6, 1, 0), (3, 1, 180),
    (8, 1, 0), (7, 0, 0),
)  # fmt: skip
MARKER_SIZE = {"*": 8.5, "P": 6.8, "X": 6.8, (4, 1, 0): 8.0, (6, 1, 0): 8.0, (3, 1, 180): 8.0, (8, 1, 0): 7.5}  # points
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (4, 1.2, 1, 1.2)), (0, (1, 1.2)), (0, (7, 1.5, 1, 1.5, 1, 1.5)))
ACROSS, LEGEND_ROW = 3, 0.24  # panels side by side, inches
LEAST_RATIO = 1.1  # at the right end of the axis, so that ratios near 1 look near 1
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
# Places of a name around its point: distance in points, and direction.
SIDES = ((1, 0), (1, 1), (1, -1), (0, 1), (0, -1), (-1, 0), (-1, 1), (-1, -1))
PLACES = [(far, *side) for far in (6, 12, 20, 30) for side in SIDES]


class Picture(NamedTuple):
    """A figure, and what it shows in words."""

    name: str
    title: str
    caption: str
    figure: Figure


class MethodStyle(NamedTuple):
    """How a method is drawn."""

    colour: str
    marker: Any
    line: Any

    @property
    def mark(self) -> dict[str, Any]:
        """Return colour and marker, as matplotlib names them."""
        size = MARKER_SIZE.get(self.marker, 6.0)
        edge = {"markeredgecolor": "white", "markeredgewidth": 0.5}
        return {"color": self.colour, "marker": self.marker, "markersize": size, "linewidth": 1.4, **edge}


Styles = Mapping[str, MethodStyle]
DrawPanel = Callable[[Axes, Group, Styles], None]


def draw_experiment(results: Results) -> list[Picture]:
    """Draw all figures of an experiment that it has results for; none if all of its runs failed."""
    caption = (
        "Mean normalised max regret ({}) of each method over the size of problems, with 95 % confidence bands. On each "
        "problem regrets are divided by the largest finite one of the reference methods. ∞: infinite on some problem, "
        "which the mean leaves out."
    )
    pictures: list[tuple[str, str, str, Callable[[Results], Figure]]] = [
        ("regret-train", "Max regret over size", caption.format("train"), draw_regret),
        ("regret-test", "Max regret over size, on samples that were not planned with", caption.format("test"),
         lambda results: draw_regret(results, "test")),
        ("seconds", "Solution time over size",
         "Mean seconds of the solver for each method, with 95 % confidence bands (bootstrap).", draw_seconds),
        ("tradeoff", "Regret against time",
         "Mean normalised max regret (train) and mean seconds of each method. The line joins the methods that no other "
         "one beats in both; those with an infinite figure, “(1 ∞)”, are not on it.", draw_tradeoff),
        ("bound", "Distance to the proved bound",
         "Max regret (train) of each method on each problem, as a multiple of the proved lower bound for all policies; "
         "the bar is the median.", draw_distance),
        ("samples", "Regret on fresh samples over training samples",
         "Mean max regret on test samples over the number of samples that were planned with, on a log scale; single "
         "marks: chosen by coverage out of many draws.", draw_samples),
    ]  # fmt: skip
    drawn = []
    for name, title, words, draw in pictures:
        with suppress(BadInput):  # there is nothing to draw
            drawn.append(Picture(name, title, words, draw(results)))
    return drawn


@style.styled
def draw_regret(results: Results, samples: Samples = "train") -> Figure:
    """Draw the mean normalised max regret over the size of problems, with confidence bands."""

    def draw(axes: Axes, group: Group, styles: Styles) -> None:
        figures = group.normalised(samples)
        most = max(1.0, float(figures[np.isfinite(figures)].max(initial=0.0)))
        _draw_over_size(axes, group, styles, figures, lambda column: t_band(column, within=(0.0, most)))
        axes.set(ylim=(0, 1.04 * max(1.0, axes.dataLim.y1)), ylabel=f"{REGRET} ({samples})")

    groups = _with_numbers(results, lambda group: group.normalised(samples))
    if not groups and samples == "test":
        raise BadInput("no run was judged on test samples; expected an experiment with a test set")
    return _draw_panels(groups, draw)


@style.styled
def draw_samples(results: Results) -> Figure:
    """Draw the mean max regret on test samples over the number of training samples."""

    def draw(axes: Axes, group: Group, styles: Styles) -> None:
        chosen = np.array(["by=coverage" in problem for problem in group.problems])
        for number, method in enumerate(group.methods):
            look = styles[method]
            for some, line in ((~chosen, look.line), (chosen, "none")):
                counts = np.unique(group.planned[some])
                regret = [moments_of(group.test[some & (group.planned == count), number]).mean for count in counts]
                axes.plot(counts, regret, linestyle=line, zorder=3, **look.mark)
        axes.set_xscale("log")
        counts = np.unique(group.planned)
        axes.set_xticks(counts, [f"{count:,.0f}" for count in counts], rotation=35, ha="right")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set(ylim=(0, None), xlabel="training samples", ylabel="max regret on fresh samples")

    return _draw_panels([group for group in results.groups if group.varies_samples], draw)


@style.styled
def draw_seconds(results: Results) -> Figure:
    """Draw the mean seconds of the solver over the size of problems, with confidence bands."""

    def draw(axes: Axes, group: Group, styles: Styles) -> None:
        _draw_over_size(axes, group, styles, group.seconds, bootstrap_band)
        if (group.seconds > 0).any():
            axes.set_yscale("log")
            style.log_ticks(axes.yaxis)
        axes.set_ylabel("seconds (mean)")

    return _draw_panels(_with_numbers(results, lambda group: group.seconds), draw)


@style.styled
def draw_tradeoff(results: Results) -> Figure:
    """Draw a point of regret and time for each method, and the front of the methods that none beats in both."""
    groups = _with_numbers(results, lambda group: group.normalised("train"))
    figure = _draw_panels(groups, _draw_points, legend=False, size=(4.8, 4.3))
    figure.draw_without_rendering()  # names need the places of points on the canvas
    for axes in figure.axes:
        _place_names(axes)
    return figure


@style.styled
def draw_distance(results: Results) -> Figure:
    """Draw the max regret of each run over the best proved bound of its problem; 1 is the best possible."""
    groups = [group for group in results.groups if (group.bound > 0).any()]
    if not groups:
        raise BadInput("no method proved a bound; expected one that does, such as adaptive or mixture")
    most = max(len(group.methods) for group in groups)
    return _draw_panels(groups, _draw_ratios, legend=False, size=(4.4, 1.2 + 0.24 * most))


def pareto_front(seconds: Array, regret: Array) -> list[int]:
    """Return the points that no other one beats in both, from fast to slow, without those that are not a number."""
    known = np.flatnonzero(~np.isnan(seconds) & ~np.isnan(regret))
    front: list[int] = []
    for number in sorted(known.tolist(), key=lambda n: (seconds[n], regret[n])):
        if not front or regret[number] < regret[front[-1]]:
            front.append(number)
    return front


def method_styles(methods: Sequence[str]) -> dict[str, MethodStyle]:
    """Return a style for each method. Markers and colours all differ while there are any left."""
    styles: dict[str, MethodStyle] = {}
    taken: set[str] = set()
    for number, method in enumerate(methods):
        short = method.partition(" ")[0]
        own = next((colours for pattern, colours in FAMILIES.items() if re.fullmatch(pattern, short)), ())
        colour = next((one for one in (*own, *SPARE) if one not in taken), SPARE[number % len(SPARE)])
        taken.add(colour)
        styles[method] = MethodStyle(colour, MARKERS[number % len(MARKERS)], LINES[number % len(LINES)])
    return styles


def _with_numbers(results: Results, numbers: Callable[[Group], Array]) -> list[Group]:
    return [group for group in results.groups if not np.isnan(numbers(group)).all()]


def _draw_panels(
    groups: Sequence[Group], draw: DrawPanel, legend: bool = True, size: tuple[float, float] = (4.8, 3.7)
) -> Figure:
    """Draw one panel for each group, and one legend for all of them."""
    if not groups:
        raise BadInput("no run has a result; expected some that did not fail")
    styles = method_styles(list(dict.fromkeys(method for group in groups for method in group.methods)))
    across = min(len(groups), ACROSS)
    width = max(across * size[0], 5.4)
    columns = style.legend_columns(list(styles), min(width, style.NARROW))
    rows = -(-len(styles) // columns) if legend else 0
    height = -(-len(groups) // across) * size[1] + rows * LEGEND_ROW + 0.1
    figure, panels = style.panels(len(groups), across, (width, height), ConstrainedLayoutEngine(wspace=0.05))
    for axes, group in zip(panels, groups, strict=True):
        style.plain_axes(axes)
        draw(axes, group, styles)
        axes.set_title(short_line(group.name, 36), loc="left")
    if legend:
        handles = [Line2D([], [], linestyle=one.line, **one.mark) for one in styles.values()]
        figure.legend(handles, list(styles), loc="outside lower left", ncols=columns, handlelength=3.2)
    return figure


def _draw_over_size(axes: Axes, group: Group, styles: Styles, numbers: Array, band: Callable[[Array], Band]) -> None:
    """Draw lines over sizes with bands; for a single size, points side by side."""
    single = len(group.sizes) == 1
    place = np.zeros(1) if single else _size_places(group)
    infinite = 0
    for number, method in enumerate(group.methods):
        columns = [numbers[group.of_size(size), number] for size in group.sizes]
        moments = [moments_of(column) for column in columns]
        mean = np.array([one.mean if math.isfinite(one.mean) else math.nan for one in moments])
        x = np.array([float(number)]) if single else _beside(place, number, len(group.methods))
        look = styles[method]
        bands = np.transpose([band(column) for column in columns])
        axes.plot(np.array([x, x]), bands, color=look.colour, linewidth=3.0, alpha=0.35, solid_capstyle="butt")
        axes.plot(x, mean, linestyle="none" if single else look.line, label=method, zorder=3, **look.mark)
        row = 0 if single else infinite % 4  # so that neighbours do not overlap
        for at in x[[one.infinite > 0 for one in moments]]:
            axes.text(float(at), 0.995 - 0.04 * row, "∞", transform=axes.get_xaxis_transform(), ha="center", va="top",
                      color=look.colour, path_effects=style.HALO)  # fmt: skip
        infinite += any(one.infinite for one in moments)
    if single:
        axes.set_xticks(range(len(group.methods)), group.methods, rotation=55, ha="right", rotation_mode="anchor")
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-0.7, len(group.methods) - 0.3)
    else:
        _write_sizes(axes, group, place)


def _size_places(group: Group) -> Array:  # [size]
    """Return the places of sizes on the axis: mean numbers of states, or 0, 1, … if these do not increase."""
    states = np.array([moments_of(group.states[group.of_size(size)]).mean for size in group.sizes])
    return states if (np.diff(states) > 0).all() else np.arange(len(group.sizes), dtype=float)


def _beside(place: Array, number: int, total: int) -> Array:
    """Return the places of one method, beside those of others, so that bands do not cover each other."""
    logs = np.log(place) if place[0] > 0 else place
    step = min(0.7 * float(np.diff(logs).min()), 0.25 * float(logs[-1] - logs[0])) / total
    moved = logs + (number - (total - 1) / 2) * step
    return np.asarray(np.exp(moved) if place[0] > 0 else moved)


def _write_sizes(axes: Axes, group: Group, place: Array) -> None:
    """Write the names of sizes at their places; on a log scale if these are numbers of states."""
    axes.set_xlabel("size (number of states on a log scale)" if place[0] > 0 else "size")
    axes.set_xscale("log" if place[0] > 0 else "linear")
    stride = -(-len(place) // 8)  # at most eight names
    turn: dict[str, Any] = {"rotation": 35, "ha": "right"} if max(map(len, group.sizes)) > 6 else {}
    axes.set_xticks(place[::stride], [short_line(size, 17) for size in group.sizes[::stride]], **turn)
    axes.xaxis.set_minor_locator(NullLocator())


def _draw_points(axes: Axes, group: Group, styles: Styles) -> None:
    """Draw the front, and the points of methods with their names."""
    moments = [moments_of(column) for column in group.normalised("train").T]
    regret = np.array([one.mean for one in moments])
    infinite = np.array([one.infinite for one in moments])
    seconds = np.array([moments_of(column).mean for column in group.seconds.T])
    known = np.isfinite(regret) & np.isfinite(seconds) & (seconds > 0)
    front = pareto_front(np.where(known, seconds, np.nan), np.where(infinite > 0, np.nan, regret))
    axes.step(seconds[front], regret[front], where="post", color=style.FAINT, linewidth=1.2, zorder=1, label="front")
    for n in np.flatnonzero(known):
        place, look = (seconds[n], regret[n]), styles[group.methods[n]]
        axes.plot(*place, linestyle="none", zorder=3, **look.mark | {"markersize": 1.4 * look.mark["markersize"]})
        name = f"{group.methods[n]} ({infinite[n]} ∞)" if infinite[n] else group.methods[n]
        axes.annotate(
            name, place, (0, 0), textcoords="offset points", fontsize=style.SMALL, color=look.colour, zorder=4,
            fontweight="bold" if n in front else "normal", path_effects=style.HALO,
        )  # fmt: skip
    if known.any():
        axes.set_xscale("log")
        style.log_ticks(axes.xaxis)
        axes.margins(x=0.15)  # names are beside the outermost points
    axes.set(xlabel="seconds (mean)", ylabel=f"{REGRET} (train, mean)", ylim=(0, 1.04 * max(1.0, axes.dataLim.y1)))
    if not known.all():
        text = "no finite mean: " + ", ".join(np.array(group.methods)[~known])
        axes.text(0.98, 0.02, text, transform=axes.transAxes, ha="right", fontsize=style.SMALL, color=style.FAINT)


def _place_names(axes: Axes) -> None:
    """Move each name to the nearest place at its point where it covers nothing, or as little as possible.

    By hand, since matplotlib does not look at what a text covers.
    """
    panel, front = axes.get_window_extent(), axes.lines[0]
    line = front.get_transform().transform_path(front.get_path())
    names = [text for text in axes.texts if isinstance(text, Annotation)]
    taken = [Bbox.from_bounds(x - 6, y - 6, 12, 12) for x, y in axes.transData.transform([name.xy for name in names])]
    pixels = axes.figure.dpi / style.POINTS  # in a point
    for name in names:
        tried: list[tuple[bool, int, int]] = []
        start, boxes = name.get_window_extent(), []
        for far, across, up in PLACES:
            left, down = (1 - across) / 2 * start.width, (1 - up) / 2 * start.height
            box = start.translated(far * across * pixels - left, far * up * pixels - down)
            outside = not (panel.x0 <= box.x0 and box.x1 <= panel.x1 and panel.y0 <= box.y0 and box.y1 <= panel.y1)
            tried.append((outside, box.count_overlaps(taken) + line.intersects_bbox(box, filled=False), len(tried)))
            boxes.append(box)
            if not any(tried[-1][:2]):
                break
        taken.append(boxes[min(tried)[2]])
        name.set_position(((taken[-1].x0 - start.x0) / pixels, (taken[-1].y0 - start.y0) / pixels))


def _draw_ratios(axes: Axes, group: Group, styles: Styles) -> None:
    """Draw a row for each method, the one with the least median on top, on a log axis that begins at 1."""
    ratio = group.ratio[group.bound > 0]
    columns = [np.sort(column[~np.isnan(column)]) for column in ratio.T]
    median = [float(np.median(column)) if column.size else math.inf for column in columns]
    order = sorted(range(len(group.methods)), key=lambda number: -median[number])
    # On a log axis a share of its length is a power. Infinite ratios are counted at the right end.
    end = float(ratio[np.isfinite(ratio)].max(initial=LEAST_RATIO)) ** (1.2 if np.isinf(ratio).any() else 1.06)
    axes.set_xscale("log")
    axes.set_xlim(end**-0.04, end)
    for row, number in enumerate(order):
        finite = columns[number][np.isfinite(columns[number])]
        shift = 0.24 * np.sin(np.arange(finite.size) * 2.399)  # so that equal ones can be seen
        colour = styles[group.methods[number]].colour
        axes.plot(finite, row + shift, "o", markersize=2.8, color=colour, alpha=0.55, markeredgewidth=0)
        if math.isfinite(median[number]):
            axes.plot([median[number]] * 2, [row - 0.36, row + 0.36], color=colour, linewidth=2.4)
        if finite.size < columns[number].size:
            text = f"{columns[number].size - finite.size} × ∞ "
            axes.text(end, row, text, ha="right", va="center", fontsize=style.SMALL)
    axes.set_yticks(range(len(order)), [group.methods[number] for number in order])
    axes.set_ylim(-0.7, len(order) - 0.3)
    axes.axvline(1.0, color=style.INK, linewidth=0.9)
    axes.set_xticks(ticks := _ratio_ticks(end), [_ratio_text(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="x")
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    without = int((~(group.bound > 0)).sum())
    axes.set_xlabel("max regret (train) / proved bound" + (f"; {without} without a bound" if without else ""))


def _ratio_ticks(end: float) -> list[float]:
    """Return round numbers on a log axis from 1 on: evenly spaced ones below 10, else 1, 2, 5, 10, … or powers."""
    locator: MaxNLocator | LogLocator = MaxNLocator(6, steps=[1, 2, 5, 10])
    if end >= 10:
        locator = LogLocator(subs=(1, 2, 5) if end < 300 else (1,), numticks=9)
    return [1.0, *(float(tick) for tick in locator.tick_values(1, end) if 1 < tick <= end)]


def _ratio_text(tick: float) -> str:
    """Return `1.05`, `2000`, `10⁶`."""
    return f"{tick:g}" if tick < 1e5 else "10" + str(round(math.log10(tick))).translate(RAISED)
