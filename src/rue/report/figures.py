"""Pictures of experiments: regret and time over the size of problems, regret against time, distance to the bound.

Up to twenty methods are in one picture: the colour is that of the family, marker and line tell the steps or the member.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, NullLocator

from rue._arrays import Array
from rue._text import one_line
from rue.errors import BadInput
from rue.experiments.results import Group, Results, Samples
from rue.experiments.statistics import Band, Moments, bootstrap_band, describe, t_band
from rue.report import style

REGRET = "normalised max regret"
# Families of methods and their colours; the first whose pattern fits is it.
FAMILIES = (
    (re.compile(r"reg-d\d+"), style.BLUE),
    (re.compile(r"reg-s\d+"), style.SKY),
    (re.compile(r"reg-h\d+"), style.GREEN),
    (re.compile(r"cemr-\w\d+"), style.ORANGE),
    (re.compile(r"mixture|adaptive"), style.VERMILION),
    (re.compile(r"best|average|robust|milp"), style.STONE),
    (re.compile(r""), style.PURPLE),
)
STEPS = re.compile(r"(?P<options>reg-\w|cemr-d)(?P<steps>\d+)")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h", "d")
NO_STEPS = 5  # the first marker of methods without steps
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (4, 1.2, 1, 1.2)), (0, (1, 1.2)), (0, (7, 1.5, 1, 1.5, 1, 1.5)))
ACROSS = 3  # panels
PANEL = (4.8, 3.7)  # inches
LEGEND_ROW = 0.24
MOST_TICKS = 8
BESIDE_TITLE = 1.0  # inches of a panel that its title does not have
LONGEST_SIZE = 1.2  # inches of a size's name
RATIO_AXIS = 3.2  # inches at least that an axis of ratios is long
RATIO_MARGIN = 0.04  # of the axis, left of 1
LEAST_RATIO = 1.1  # at the right end, so that what is nearly the best does not look far from it
NEAR_ONE = ([1.5], [1.2], [1.1, 1.3], [1.05], [1.02], [1.01])
BESIDE_TICK = 0.08  # inches between two labels
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
BAND, SIGN = 3.0, 5.0  # points
ENDLESS_ROWS = 4
THIN = {"*": 1.7, "P": 1.35, "X": 1.35}  # look smaller than they are


class Point(NamedTuple):
    """A method between time and regret."""

    method: str
    name: str  # as it is written there
    seconds: float
    regret: float
    best: bool  # whether it is on the front


Box = tuple[float, float, float, float]  # left, bottom, right, top


@dataclass(frozen=True)
class Picture:
    """A figure and what it shows in words."""

    name: str
    title: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Look:
    """How a method is drawn."""

    colour: str
    marker: str
    line: Any

    def handle(self, line: bool) -> Line2D:
        """Its sign in a legend."""
        return Line2D([], [], linestyle=self.line if line else "none", **self.mark)

    @property
    def mark(self) -> dict[str, Any]:
        """Colour and marker."""
        return {
            "color": self.colour, "marker": self.marker, "markersize": THIN.get(self.marker, 1.0) * SIGN,
            "markeredgecolor": "white", "markeredgewidth": 0.5, "linewidth": 1.4,
        }  # fmt: skip


def draw_experiment(results: Results) -> list[Picture]:
    """All pictures of an experiment that it has figures for; none if all of its runs failed."""
    pictures = []
    if any(_has_figures(group, "train") for group in results.groups):
        pictures.append(Picture("regret-train", "Max regret over size", _caption("train"), draw_regret(results)))
    if any(_has_figures(group, "test") for group in results.groups):
        title = "Max regret over size, on samples that were not planned with"
        pictures.append(Picture("regret-test", title, _caption("test"), draw_regret(results, "test")))
    if any(_was_run(group) for group in results.groups):
        pictures.append(
            Picture(
                "seconds",
                "Solution time over size",
                "Mean seconds of the solver for each method, with 95 % confidence bands (bootstrap).",
                draw_seconds(results),
            )
        )
    if any(_has_figures(group, "train") for group in results.groups):
        pictures.append(
            Picture(
                "tradeoff",
                "Regret against time",
                "Mean normalised max regret (train) and mean seconds of each method. The line joins the methods that "
                "no other one beats in both; those with an infinite figure, “(1 ∞)”, are not on it.",
                draw_tradeoff(results),
            )
        )
    if any((group.bound > 0).any() for group in results.groups):
        pictures.append(
            Picture(
                "bound",
                "Distance to the proved bound",
                "Max regret (train) of each method on each problem, as a multiple of what is proved to be the least "
                "that any policy can reach; the bar is the median.",
                draw_distance(results),
            )
        )
    return pictures


@style.styled
def draw_regret(results: Results, samples: Samples = "train") -> Figure:
    """Mean normalised max regret over the size of problems, with confidence bands; one panel for each group."""
    groups = [group for group in results.groups if _has_figures(group, samples)]
    if not groups and samples == "test":
        raise BadInput("no run was judged on test samples; expected an experiment with a test set")
    if not groups:
        raise BadInput("no run has a figure; expected some that did not fail")

    def draw(axes: Axes, group: Group, looks: Mapping[str, Look]) -> None:
        _draw_over_size(axes, group, looks, group.normalised(samples), t_band)
        axes.set_ylim(0, _top(axes))
        axes.set_ylabel(f"{REGRET} ({samples})")

    return _panels(groups, draw, line=True)


@style.styled
def draw_seconds(results: Results) -> Figure:
    """Mean seconds of the solver over the size of problems, with confidence bands; one panel for each group."""

    def draw(axes: Axes, group: Group, looks: Mapping[str, Look]) -> None:
        _draw_over_size(axes, group, looks, group.seconds, bootstrap_band)
        if (group.seconds > 0).any():
            axes.set_yscale("log")
            style.plain_numbers(axes.yaxis)
        axes.set_ylabel("seconds (mean)")

    groups = [group for group in results.groups if _was_run(group)]
    if not groups:
        raise BadInput("no run has a time; expected some that did not fail")
    return _panels(groups, draw, line=True)


@style.styled
def draw_tradeoff(results: Results) -> Figure:
    """Regret against time: a point for each method, and the front of those that none beats in both."""
    to_name: list[tuple[Axes, Sequence[Point], Mapping[str, Look], tuple[Array, Array]]] = []

    def draw(axes: Axes, group: Group, looks: Mapping[str, Look]) -> None:
        moments = [describe(column) for column in group.normalised("train").T]
        regret = np.array([one.mean for one in moments])
        endless = np.array([one.endless > 0 for one in moments])
        seconds = np.array([describe(column).mean for column in group.seconds.T])
        known = np.isfinite(regret) & np.isfinite(seconds) & (seconds > 0)
        front = [n for n in pareto_front(seconds, np.where(endless, np.nan, regret)) if known[n]]
        if known.any():
            axes.set_xscale("log")
            style.plain_numbers(axes.xaxis)
        x, y = _stairs(seconds[front], regret[front])
        axes.plot(x, y, color=style.FAINT, linewidth=1.2, zorder=1, label="front")
        for number, method in enumerate(group.methods):
            if known[number]:
                axes.plot(seconds[number], regret[number], linestyle="none", zorder=3, **_larger(looks[method]))
        axes.set_ylim(0, _top(axes))
        _widen(axes, seconds[known])
        axes.set(xlabel="seconds (mean)", ylabel=f"{REGRET} (train, mean)")
        points = [
            Point(group.methods[n], _counted(group.methods[n], moments[n]), seconds[n], regret[n], n in front)
            for n in np.flatnonzero(known)
        ]
        to_name.append((axes, points, looks, (x, y)))
        _write_left_out(axes, [method for method, there in zip(group.methods, known, strict=True) if not there])

    groups = [group for group in results.groups if _has_figures(group, "train")]
    if not groups:
        raise BadInput("no run has a figure; expected some that did not fail")
    figure = _panels(groups, draw, line=False, legend=False, size=(4.8, 4.3))
    figure.draw_without_rendering()  # only now it is known where things are
    for panel in to_name:
        _name_points(*panel)
    return figure


@style.styled
def draw_distance(results: Results) -> Figure:
    """The max regret of each run over the best proved bound of its problem; 1 is proved to be the best possible."""
    groups = [group for group in results.groups if (group.bound > 0).any()]
    if not groups:
        raise BadInput("no method proved a bound; expected one that does, such as adaptive or mixture")
    most = max(len(group.methods) for group in groups)
    return _panels(groups, _draw_group_ratios, line=False, legend=False, size=(4.4, 1.2 + 0.24 * most))


def pareto_front(seconds: Array, regret: Array) -> list[int]:
    """The points that no other one beats in both, from fast to slow; what is not a number is no point."""
    order = sorted(
        (n for n in range(len(seconds)) if not (math.isnan(seconds[n]) or math.isnan(regret[n]))),
        key=lambda n: (seconds[n], regret[n]),
    )
    front: list[int] = []
    for number in order:
        if not front or regret[number] < regret[front[-1]]:
            front.append(number)
    return front


def looks_of(methods: Sequence[str]) -> dict[str, Look]:
    """A look for each method; no two are the same while there are markers left."""
    looks: dict[str, Look] = {}
    taken: set[tuple[str, int]] = set()
    for method in methods:
        short = method.partition(" ")[0]
        colour = next(colour for pattern, colour in FAMILIES if pattern.match(short))
        steps = STEPS.fullmatch(short)
        number = int(steps["steps"]) - 1 if steps else NO_STEPS
        while (colour, number % len(MARKERS)) in taken and number < 3 * len(MARKERS):
            number += 1
        taken.add((colour, number % len(MARKERS)))
        looks[method] = Look(colour, MARKERS[number % len(MARKERS)], LINES[number % len(LINES)])
    return looks


def _caption(samples: Samples) -> str:
    return (
        f"Mean normalised max regret ({samples}) of each method over the size of problems, with 95 % confidence bands. "
        f"On each problem regrets are divided by the largest finite one of the reference methods. "
        f"∞: infinite on some problem, which the mean leaves out."
    )


def _has_figures(group: Group, samples: Samples) -> bool:
    return not bool(np.isnan(group.normalised(samples)).all())


def _was_run(group: Group) -> bool:
    return not bool(np.isnan(group.seconds).all())


def _counted(method: str, moments: Moments) -> str:
    return f"{method} ({moments.endless} ∞)" if moments.endless else method


def _panels(
    groups: Sequence[Group],
    draw: Callable[[Axes, Group, Mapping[str, Look]], None],
    *,
    line: bool,
    legend: bool = True,
    size: tuple[float, float] = PANEL,
) -> Figure:
    """One panel for each group, and one legend for all of them."""
    methods = list(dict.fromkeys(method for group in groups for method in group.methods))
    looks = looks_of(methods)
    across = min(len(groups), ACROSS)
    down = -(-len(groups) // across)
    width = max(across * size[0], 5.4)
    columns = max(1, int(width / (0.75 + max(style.text_width(name, style.NORMAL) for name in methods))))
    rows = -(-len(methods) // columns) if legend else 0
    columns = -(-len(methods) // max(rows, 1))
    figure = Figure(
        figsize=(width, down * size[1] + rows * LEGEND_ROW + 0.1), layout=ConstrainedLayoutEngine(wspace=0.05)
    )
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes, group in zip(panels, groups, strict=False):
        style.plain_axes(axes)
        draw(axes, group, looks)
        axes.set_title(_shortened(group.name, width / across - BESIDE_TITLE, style.LARGE), loc="left")
    for axes in panels[len(groups) :]:
        axes.set_visible(False)
    if legend:
        handles = [look.handle(line) for look in looks.values()]
        figure.legend(handles, list(looks), loc="outside lower left", ncols=columns, handlelength=3.2)
    return figure


def _draw_over_size(
    axes: Axes, group: Group, looks: Mapping[str, Look], figures: Array, band: Callable[[Array], Band]
) -> None:
    """Lines over sizes with bands; of a single size, points side by side."""
    if len(group.sizes) == 1:
        _draw_beside(axes, group, looks, figures, band)
        return
    place = _places(group)
    where = [group.of_size(size) for size in group.sizes]
    endless = 0
    for number, method in enumerate(group.methods):
        columns = [figures[chosen, number] for chosen in where]
        moments = [describe(column) for column in columns]
        mean = np.array([one.mean for one in moments])
        x = _side_by_side(place, number, len(group.methods))
        _draw_bands(axes, x, columns, looks[method], band)
        axes.plot(x, np.where(np.isinf(mean), np.nan, mean), linestyle=looks[method].line, label=method, zorder=3,
                  **looks[method].mark)  # fmt: skip
        _write_endless(axes, x[[one.endless > 0 for one in moments]], looks[method], endless % ENDLESS_ROWS)
        endless += any(one.endless for one in moments)
    _size_ticks(axes, group, place)


def _side_by_side(place: Array, number: int, total: int) -> Array:
    """Methods stand beside each other at each size, so that their bands can be told apart."""
    logs = np.log(place) if place[0] > 0 else place
    step = min(0.7 * float(np.diff(logs).min()), 0.25 * float(logs[-1] - logs[0])) / total
    moved = logs + (number - (total - 1) / 2) * step
    return np.exp(moved) if place[0] > 0 else moved


def _draw_bands(
    axes: Axes, x: Sequence[float] | Array, columns: Sequence[Array], look: Look, band: Callable[[Array], Band]
) -> None:
    """Bars that are the confidence bands; none where there are too few figures."""
    for at, column in zip(x, columns, strict=True):
        lower, upper = band(column)
        axes.plot([at, at], [lower, upper], color=look.colour, linewidth=BAND, alpha=0.35, solid_capstyle="butt")


def _write_endless(axes: Axes, x: Sequence[float] | Array, look: Look, row: int = 0) -> None:
    """What is infinite on some problem, at the top; neighbours in different rows."""
    for at in x:
        axes.text(float(at), 0.995 - 0.04 * row, "∞", transform=axes.get_xaxis_transform(), ha="center", va="top",
                  color=look.colour, path_effects=[style.halo()])  # fmt: skip


def _draw_beside(
    axes: Axes, group: Group, looks: Mapping[str, Look], figures: Array, band: Callable[[Array], Band]
) -> None:
    for number, method in enumerate(group.methods):
        moments = describe(figures[:, number])
        _draw_bands(axes, [number], [figures[:, number]], looks[method], band)
        if math.isfinite(moments.mean):
            axes.plot(number, moments.mean, linestyle="none", label=method, zorder=3, **looks[method].mark)
        _write_endless(axes, [number] if moments.endless else [], looks[method])
    axes.set_xticks(range(len(group.methods)), group.methods, rotation=55, ha="right", rotation_mode="anchor")
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.7, len(group.methods) - 0.3)


def _places(group: Group) -> Array:  # [size]
    """Where sizes are on the axis: their mean number of states, or one after the other if that does not tell."""
    states = np.array([describe(group.states[group.of_size(size)]).mean for size in group.sizes])
    if np.isnan(states).any() or (np.diff(states) <= 0).any():
        return np.arange(len(group.sizes), dtype=float)
    return states


def _size_ticks(axes: Axes, group: Group, place: Array) -> None:
    """The sizes in words at their places; on a log scale if these are numbers of states."""
    if place[0] > 0:
        axes.set_xscale("log")
        axes.set_xlabel("size (number of states on a log scale)")
    else:
        axes.set_xlabel("size")
    stride = -(-len(place) // MOST_TICKS)
    names = [_shortened(size, LONGEST_SIZE, style.SMALL) for size in group.sizes[::stride]]
    long = max(len(size) for size in group.sizes) > 6
    turn: dict[str, Any] = {"rotation": 35, "ha": "right"} if long else {}
    axes.set_xticks(place[::stride], names, **turn)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


def _shortened(name: str, inches: float, size: float) -> str:
    """A name that is no wider than that in letters of this size: what is too much is left out of its middle."""
    whole = one_line(name)
    short, kept = whole, len(whole)
    while kept > 1 and (width := style.text_width(short, size)) > inches:
        kept = min(kept - 1, int(kept * inches / width))
        short = f"{whole[: (kept + 1) // 2]}…{whole[len(whole) - kept // 2 :]}"
    return short


def _top(axes: Axes) -> float:
    """The end of the regret axis: 1 if all is below."""
    return max(1.0, float(axes.dataLim.y1)) * 1.04


def _widen(axes: Axes, seconds: Array) -> None:
    """Room for names beside the outermost points."""
    if seconds.size:
        low, high = math.log10(float(seconds.min())), math.log10(float(seconds.max()))
        room = 0.16 * max(high - low, 1.0)
        axes.set_xlim(10 ** (low - 0.5 * room), 10 ** (high + 1.4 * room))


def _larger(look: Look) -> dict[str, Any]:
    return {**look.mark, "markersize": 1.4 * look.mark["markersize"]}


def _stairs(seconds: Array, regret: Array) -> tuple[Array, Array]:
    """The edge of what is beaten: down at each point of the front, level until the next."""
    return np.repeat(seconds, 2)[1:], np.repeat(regret, 2)[:-1]


def _write_left_out(axes: Axes, methods: Sequence[str]) -> None:
    """Methods that have no place, as all of their figures are infinite or they have no run."""
    if methods:
        text = f"no finite mean: {', '.join(methods)}"
        axes.text(0.98, 0.02, text, transform=axes.transAxes, ha="right", fontsize=style.SMALL, color=style.FAINT)


def _name_points(axes: Axes, points: Sequence[Point], looks: Mapping[str, Look], front: tuple[Array, Array]) -> None:
    """A name at each point, where it covers no other name, no point and little of the front."""
    pixel = style.POINTS / axes.figure.dpi  # in points
    places = [axes.transData.transform((one.seconds, one.regret)) * pixel for one in points]
    boxes = [(x - 5, y - 5, x + 5, y + 5) for x, y in places]
    corners = axes.transData.transform(np.column_stack(front).reshape(-1, 2)) * pixel
    boxes += [
        (min(x, x2) - 1, min(y, y2) - 1, max(x, x2) + 1, max(y, y2) + 1)
        for (x, y), (x2, y2) in pairwise(corners.tolist())
    ]
    frame = axes.get_window_extent()
    panel = (frame.x0 * pixel, frame.y0 * pixel, frame.x1 * pixel, frame.y1 * pixel)
    for (method, name, x, y, best), (left, bottom) in zip(points, places, strict=True):
        width, height = style.text_width(name, style.SMALL) * style.POINTS * (1.12 if best else 1.0), style.SMALL * 1.15
        spots = [(dx, dy, (left + dx, bottom + dy, left + dx + width, bottom + dy + height))
                 for dx, dy in _around(width, height)]  # fmt: skip
        far = [0.3 * number for number in range(len(spots))]
        chosen = min(range(len(spots)), key=lambda n: far[n] + _cost(spots[n][2], boxes, panel))
        boxes.append(spots[chosen][2])
        axes.annotate(
            name, (x, y), spots[chosen][:2], textcoords="offset points", ha="left", va="bottom", fontsize=style.SMALL,
            color=looks[method].colour, fontweight="bold" if best else "normal", path_effects=[style.halo()], zorder=4,
        )  # fmt: skip


def _around(width: float, height: float) -> Iterator[tuple[float, float]]:
    """Places for the lower left corner of a name around its point, in points: nearest first."""
    for far in (6.0, 12.0, 20.0, 30.0):
        yield far, -height / 2
        yield far * 0.8, far * 0.6
        yield far * 0.8, -far * 0.6 - height
        yield -width / 2, far
        yield -width / 2, -far - height
        yield -far - width, -height / 2
        yield -far * 0.8 - width, far * 0.6
        yield -far * 0.8 - width, -far * 0.6 - height


def _cost(box: Box, others: Sequence[Box], panel: Box) -> float:
    """How bad a place is: what it covers of others, and whether it leaves the panel."""
    covered = sum(
        max(0.0, min(box[2], other[2]) - max(box[0], other[0]))
        * max(0.0, min(box[3], other[3]) - max(box[1], other[1]))
        for other in others
    )
    outside = box[0] < panel[0] or box[2] > panel[2] or box[1] < panel[1] or box[3] > panel[3]
    return covered + (1e6 if outside else 0.0)


def _draw_group_ratios(axes: Axes, group: Group, looks: Mapping[str, Look]) -> None:
    """A row for each method, the one with the least median on top, on a log axis that begins at 1."""
    proved = group.bound > 0
    ratio = group.ratio[proved]
    middle = [float(np.median(column[~np.isnan(column)])) if (~np.isnan(column)).any() else math.inf
              for column in ratio.T]  # fmt: skip
    order = sorted(range(len(group.methods)), key=lambda number: -middle[number])
    finite = ratio[np.isfinite(ratio)]
    # On a log axis a share of its length is a power. What is infinite is told at the right end.
    top = float(finite.max(initial=LEAST_RATIO)) ** (1.2 if np.isinf(ratio).any() else 1.06)
    axes.set_xscale("log")
    axes.set_xlim(top**-RATIO_MARGIN, top)
    for place, number in enumerate(order):
        _draw_ratios(axes, place, ratio[:, number], middle[number], looks[group.methods[number]], top)
    axes.set_yticks(range(len(order)), [group.methods[number] for number in order])
    axes.set_ylim(-0.7, len(order) - 0.3)
    axes.axvline(1.0, color=style.INK, linewidth=0.9)
    axes.set_xticks(ticks := _ratio_ticks(top), [_ratio_text(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    without = int((~proved).sum())
    axes.set_xlabel("max regret (train) / proved bound" + (f"; {without} without a bound" if without else ""))


def _draw_ratios(axes: Axes, place: int, ratio: Array, middle: float, look: Look, top: float) -> None:
    """A dot for each problem, side by side so that equal ones can be seen, and a bar at the median."""
    known = np.sort(ratio[~np.isnan(ratio)])
    finite = known[np.isfinite(known)]
    shift = 0.24 * np.sin(np.arange(finite.size) * 2.399)
    axes.plot(finite, place + shift, linestyle="none", marker="o", markersize=2.8, color=look.colour, alpha=0.55,
              markeredgewidth=0)  # fmt: skip
    if math.isfinite(middle):
        axes.plot([middle, middle], [place - 0.36, place + 0.36], color=look.colour, linewidth=2.4)
    if finite.size < known.size:
        axes.text(top, place, f"{known.size - finite.size} × ∞ ", ha="right", va="center", fontsize=style.SMALL)


def _ratio_ticks(top: float) -> list[float]:
    """Round numbers on a log axis from 1 to `top`: powers of ten, and more between them while all labels have room."""
    powers = [10.0**n for n in range(int(math.log10(top)) + 1)]
    stride = next(n for n in range(1, len(powers) + 1) if _have_room(powers[::n], top))
    ticks = powers[::stride]
    if stride > 1:
        return ticks
    between = [[step * power for step in steps for power in powers] for steps in ((2, 5), (3,))]
    for level in [*between, *NEAR_ONE]:
        more = sorted([*ticks, *(tick for tick in level if tick <= top)])
        ticks = more if _have_room(more, top) else ticks
    return ticks


def _have_room(ticks: Sequence[float], top: float) -> bool:
    """Whether no label of the ticks touches the next one."""
    inch = (1 + RATIO_MARGIN) * math.log(top) / RATIO_AXIS
    width = [style.text_width(_ratio_text(tick), style.SMALL) for tick in ticks]
    return all(
        (math.log(ticks[n + 1]) - math.log(ticks[n])) / inch >= (width[n] + width[n + 1]) / 2 + BESIDE_TICK
        for n in range(len(ticks) - 1)
    )


def _ratio_text(tick: float) -> str:
    """`1.05`, `2000`, `10⁶`."""
    return f"{tick:g}" if tick < 1e5 else "10" + str(round(math.log10(tick))).translate(RAISED)
