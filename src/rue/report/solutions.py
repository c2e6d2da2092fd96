"""Figures of solutions: regrets in each sample, bounds over time, and regret over the size of policies.

Regrets of up to 30 samples are bars side by side for up to six methods, else coloured cells, methods × samples. Those
of more samples are curves: the share of samples whose regret is larger than x, which is zero from the max regret on.

Over the number of nodes, the line joins the policies with less regret than all smaller ones. Those above the line are
the best of their kind: deterministic, stationary, or both. No policy of any size is below the proved bound.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike

from rue._arrays import Array
from rue._check import number_array, real_number
from rue._text import bound_text, number_text, short_line
from rue.errors import BadInput
from rue.model import UMDP
from rue.report import style
from rue.simplification import FrontierPoint, undominated
from rue.solution import Solution
from rue.units import Units

MOST_BARS, MOST_BESIDE = 30, 6
CELL, HALF = (0.42, 0.27), 0.6  # inches of a coloured cell; from here on its letters are white
LEAST_HEIGHT, MARGIN = 3.0, 0.8  # inches of the axes of bars, and of what is above and below them besides
FIRST_SECONDS = 1e-3
# Smaller values are drawn as 0: relative to the largest known value, and absolute. Solvers reach 0 up to rounding.
NEGLIGIBLE, LEAST = 1e-9, 1e-12

# How each kind is drawn: stationary or not, deterministic or not.
KINDS = {
    (False, False): ("controller, randomised", "o", "C0"),
    (False, True): ("controller, deterministic", "s", "C1"),
    (True, False): ("stationary, randomised", "^", "C2"),
    (True, True): ("stationary, deterministic", "D", "C3"),
}


@style.styled
def draw_regrets(model: UMDP, regrets: Mapping[str, ArrayLike], *, bound: float | None = None) -> Figure:
    """Draw the regret of each sample for several methods: `regrets` has one array [K] for each name.

    `bound` is a proved lower bound on the max regret of every policy; it becomes a line beside bars and curves.
    """
    table = _checked(model, regrets)
    if bound is not None:
        real_number("bound", bound, "a number, 0 or more", 0)
    values = np.concatenate([*table.values(), [bound or 0.0]])
    top = 1.1 * float(values[np.isfinite(values)].max(initial=0.0)) or 1.0
    label = {name: f"{short_line(name)}, max {number_text(float(table[name].max()))}" for name in table}
    if model.samples > MOST_BARS:
        return _draw_curves(table, label, top, bound, model.units)
    if len(table) > MOST_BESIDE:
        return _draw_cells(model, table)
    figure, axes = _bar_axes(model, list(label.values()), bound)
    width = 0.82 / len(table)
    for number, name in enumerate(table):
        place = np.arange(model.samples) + (number - (len(table) - 1) / 2) * width
        axes.bar(place, np.minimum(table[name], top), 0.94 * width, linewidth=0, label=label[name])
        for x in place[np.isinf(table[name])]:
            axes.text(x, 0.99 * top, "∞", ha="center", va="top", fontsize=style.LARGE, path_effects=style.HALO)
    axes.set(xlim=(-0.6, model.samples - 0.4), ylim=(0, top))
    style.add_bound(axes.axhline, bound)
    style.add_legend(figure, [axes], "outside upper left")
    return figure


def _checked(model: UMDP, regrets: Mapping[str, ArrayLike]) -> dict[str, Array]:
    if not regrets:
        raise BadInput("there are no regrets to draw; expected at least one method")
    table = {}
    for name, values in regrets.items():
        regret = number_array(f"regret of {name}", values)
        if regret.shape != (model.samples,):
            raise BadInput(f"the regret of {name} has shape {regret.shape}; expected ({model.samples},)")
        if not (regret >= 0).all():
            raise BadInput(f"the regret of {name} is {regret[~(regret >= 0)][0]} somewhere; expected 0 or more")
        table[str(name)] = regret
    return table


def _bar_axes(model: UMDP, label: list[str], bound: float | None) -> tuple[Figure, Axes]:
    """Return a figure with axes for bars of methods with these labels; a legend and turned names make it higher."""
    names, title = _sample_names(model)
    wide = float(np.clip(1.4 + 0.16 * len(names) * (len(label) + 1), 5.5, 14.0))
    turned = _turned(names)
    below = 0.7 * max(style.text_width(name, style.SMALL) for name in names) if turned else 0.0  # by sin 45°
    above = style.legend_height([*label, *([style.bound_label(bound)] if bound is not None else [])], wide)
    words = f"regret ({regret_words(model.units)} possible)"
    beside = max(LEAST_HEIGHT, style.text_width(words, style.NORMAL))
    figure, (axes,) = style.panels(1, 1, (wide, above + beside + below + MARGIN))
    style.plain_axes(axes)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xticks(range(len(names)), names, **turned)
    axes.tick_params(axis="x", length=0)
    axes.set(xlabel=title, ylabel=words)
    return figure, axes


def regret_words(units: Units) -> str:
    """Return what a regret is, such as "cost above the least"."""
    return f"{units.value_name} {'below the largest' if units.reward else 'above the least'}"


def _turned(names: Sequence[str]) -> dict[str, Any]:
    """Return how names below an axis are turned: not at all if they are short."""
    return {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if max(map(len, names)) > 5 else {}


def _draw_cells(model: UMDP, table: Mapping[str, Array]) -> Figure:
    """Draw methods × samples, the method with the least max regret on top; max regrets have a column of their own.

    Colours are by the square root, so that small regrets can be told apart beside large ones.
    """
    order = sorted(table, key=lambda name: float(table[name].max()))
    values, (names, title) = np.array([table[name] for name in order]), _sample_names(model)
    most = float(values[np.isfinite(values)].max(initial=0.0))
    scale, heads = PowerNorm(0.5, 0.0, most or 1.0), [short_line(name, 24) for name in order]
    beside = max(style.text_width(head, style.NORMAL) for head in heads)
    figure, (axes,) = style.panels(1, 1, (beside + CELL[0] * (len(names) + 3), 1.0 + CELL[1] * len(order)))
    edges = np.arange(len(names) + 1) - 0.5, np.arange(len(order) + 1) - 0.5
    look: dict[str, Any] = {"cmap": style.REGRETS, "norm": scale, "edgecolors": "white", "linewidth": 1.0}
    image = axes.pcolormesh(*edges, np.minimum(values, most or 1.0), **look)
    look = {"ha": "center", "va": "center", "fontsize": style.SMALL}
    for (row, column), value in np.ndenumerate(values):
        text = "0" if value <= NEGLIGIBLE * most else f"{value:.2g}" if np.isfinite(value) else "∞"
        axes.text(column, row, text, color="white" if scale(min(value, most)) > HALF else "black", **look)
    for row, name in enumerate(order):
        axes.text(-1.2, row, number_text(float(table[name].max())), fontweight="bold", **look)
    axes.set_yticks(range(len(order)), heads)
    axes.set_xticks([-1.2, *range(len(names))], ["max", *names], **_turned(names))
    axes.tick_params(length=0)
    axes.set(xlim=(-1.8, len(names) - 0.5), ylim=(len(order) - 0.5, -0.5), xlabel=title)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, anchor=(0.0, 1.0), pad=0.015, aspect=14, label="regret")
    bar.outline.set_visible(False)
    return figure


def _sample_names(model: UMDP) -> tuple[list[str], str]:
    """Return the names of samples and the label of their axis. A first word that all share is in the label."""
    names = [short_line(model.sample_name(k)) for k in range(model.samples)]
    first = {name.partition(" ")[0] for name in names}
    if len(first) == 1 and len(names) > 1 and all(name.partition(" ")[2] for name in names):
        return [name.partition(" ")[2] for name in names], f"sample ({first.pop()})"
    return names, "sample"


def _draw_curves(
    table: Mapping[str, Array], label: Mapping[str, str], top: float, bound: float | None, units: Units
) -> Figure:
    """Draw the share of samples with a larger regret; infinite regrets keep a curve above zero."""
    figure, (axes,) = style.panels(1, 1, (7.5, 4.4 + 0.3 * ceil((len(table) + 1) / 3)))
    style.plain_axes(axes)
    axes.set_prop_cycle(cycler(linestyle=["-", "--", ":", "-."]) * mpl.rcParams["axes.prop_cycle"])
    for name, regret in table.items():
        finite = np.sort(regret[np.isfinite(regret)])
        share = 1 - np.arange(finite.size + 1) / regret.size
        end = finite.size < regret.size
        x, y = [0.0, *finite, *[top] * end], [*share, *share[-1:].repeat(end)]
        axes.step(x, y, where="post", linewidth=1.6, label=label[name])
    samples = next(iter(table.values())).size
    axes.set(
        xlim=(0, top),
        ylim=(0, 1.02),
        xlabel=f"regret ({regret_words(units)} possible)",
        ylabel=f"share of {samples} samples with more",
    )
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_formatter("{x:g}")
    style.add_bound(axes.axvline, bound)
    style.add_legend(figure, [axes], "outside upper left")
    return figure


@style.styled
def draw_bounds(solutions: Mapping[str, Solution], *, bound: float | None = None) -> Figure:
    """Draw both bounds of each solution's trace over time, shaded between, with the last values beside them.

    There is one panel for each solution. Solutions with the same measure share the axis, so that they can be compared.
    `bound` is the best proved bound on the max regret of every policy, from wherever: a line where regret is measured.
    """
    if not solutions:
        raise BadInput("there are no solutions to draw; expected at least one")
    for name, solution in solutions.items():
        if not isinstance(solution, Solution):
            raise BadInput(f"{name} is a {type(solution).__name__}; expected a rue.Solution")
    traces = {name: _trace(solution) for name, solution in solutions.items()}
    values = np.concatenate([part for name, one in solutions.items() for part in (*traces[name][:, 1:], one.regret)])
    least = max(LEAST, NEGLIGIBLE * float(np.abs(values[np.isfinite(values)]).max(initial=0.0)))
    limits: dict[str, tuple[float, float]] = {}
    for name, solution in solutions.items():
        bounds, measures = traces[name][:, 1:], solution.measures
        bounds[np.abs(bounds) < least] = 0.0
        known, found = limits.get(measures), _axis_ends(traces[name])
        limits[measures] = found if known is None else (min(known[0], found[0]), max(known[1], found[1]))
    across = {4: 2}.get(len(solutions), min(len(solutions), 3))
    size = 4.4 * across + 0.5, 3.1 * ceil(len(solutions) / across) + 0.5
    figure, panels = style.panels(len(solutions), across, size, sharex=True)
    for axes, (name, solution) in zip(panels, solutions.items(), strict=True):
        _draw_trace(axes, traces[name], limits[solution.measures])
        if bound and solution.measures == "regret":
            style.add_bound(axes.axhline, bound)
        axes.set_title(f"{short_line(name)}: {solution.status.value.replace('_', ' ')}", loc="left")
        axes.set_ylabel(solution.measures)
    begin, end = (pick(float(trace[at, 0]) for trace in traces.values()) for pick, at in ((min, 0), (max, -1)))
    for axes in panels[max(len(solutions) - across, 0) :]:
        axes.set(xlabel="seconds", xlim=(begin / 1.2, end))
        axes.tick_params(labelbottom=True)
    style.add_legend(figure, panels, "outside lower left")
    figure.align_labels()
    return figure


def has_history(solution: Solution) -> bool:
    """Return whether the bounds of a solution changed during its search, so that there is something to draw."""
    points = {(point.lower, point.upper) for point in solution.trace}
    return len(points) > 1


def _trace(solution: Solution) -> Array:  # [points, 3]
    """Return seconds, lower and upper bound: the best so far at each time, and never better than the final ones.

    Bounds during a run are not checked for rounding, final bounds are.
    """
    points = [(max(p.seconds, FIRST_SECONDS), p.lower, p.upper) for p in solution.trace]
    last = max([solution.seconds, FIRST_SECONDS, *(p[0] for p in points)])
    trace = np.array([*points, (last, solution.objective.lower, solution.objective.upper)])
    trace = trace[np.argsort(trace[:, 0], kind="stable")]
    trace[:, 1] = np.minimum(np.maximum.accumulate(trace[:, 1]), solution.objective.lower)
    trace[:, 2] = np.maximum(np.minimum.accumulate(trace[:, 2]), solution.objective.upper)
    return trace


def _axis_ends(trace: Array) -> tuple[float, float]:
    """Return the ends of the axis: 0 and the first upper bound, unless it is far above the last one.

    Where bounds are below 0, or rewards, which fall to no bound of their own, the last ones with some room around them.
    """
    finite = trace[np.isfinite(trace[:, 2]), 2]
    if (trace[np.isfinite(trace[:, 1]), 1] < 0).any():
        ends = [end for end in trace[-1, 1:].tolist() if np.isfinite(end)] or [0.0]
        room = max(0.15 * max(map(abs, ends)), ends[-1] - ends[0])
        return ends[0] - room, ends[-1] + room
    if not finite.size:
        return 0.0, 1.15 * float(trace[-1, 1]) or 1.0
    far = max(3 * finite[-1], finite[-1] + 3 * (finite[-1] - trace[-1, 1]))
    return 0.0, 1.15 * float(min(finite[0], far)) or 1.0


def _draw_trace(axes: Axes, trace: Array, limits: tuple[float, float]) -> None:
    seconds, lower, upper = trace.T
    bottom, top = limits
    shown = np.where(np.isfinite(upper), upper, top + (top - bottom))
    lower = np.where(np.isfinite(lower), lower, bottom - (top - bottom))
    axes.fill_between(seconds, lower, shown, step="post", color=style.SKY, alpha=0.25, linewidth=0, label="still open")
    for values, colour, name in ((shown, style.VERMILION, "upper bound"), (lower, style.BLUE, "proved lower bound")):
        axes.step(seconds, values, where="post", color=colour, linewidth=1.7, label=name)
        axes.plot(seconds[-1], values[-1], "o", color=colour, markersize=4, clip_on=False, zorder=4)
    axes.set_xscale("log")
    style.log_ticks(axes.xaxis)
    axes.set_ylim(bottom, top)
    style.plain_axes(axes)
    axes.yaxis.set_major_formatter("{x:g}")
    _write_last_bounds(axes, trace[-1], limits)


def _write_last_bounds(axes: Axes, last: Array, limits: tuple[float, float]) -> None:
    """Write the last bounds beside their ends: the upper one above, the lower one below, equal ones once."""
    seconds, lower, upper = map(float, last)
    equal = upper - lower < 1e-3 * max(abs(upper), 1e-12)
    close = not equal and upper - lower < 0.07 * (limits[1] - limits[0])
    sides = ("bottom", "top") if close else ("center", "center")
    texts = [(upper, style.VERMILION, sides[0]), (lower, style.BLUE, sides[1])]
    for value, colour, side in texts[: 1 if equal else 2]:
        place = seconds, min(max(value, limits[0]), limits[1])
        text = bound_text(value) if colour == style.BLUE and not equal else number_text(value)  # what is proved
        axes.annotate(
            text, place, (7, 0), textcoords="offset points",
            va=side, color=colour, fontweight="bold", annotation_clip=False,
        )  # fmt: skip


@style.styled
def draw_frontier(points: Sequence[FrontierPoint], *, bound: float | None = None) -> Figure:
    """Draw what `rue.frontier` returns, with the proved bound for policies of any size if it is given."""
    try:
        given = list(points)
    except TypeError:
        raise BadInput(f"the points are {points!r}; expected what rue.frontier returns") from None
    if not given or not all(isinstance(point, FrontierPoint) for point in given):
        raise BadInput(f"the points are {points!r}; expected what rue.frontier returns, with at least one policy")
    figure, (axes,) = style.panels(1, 1, (6.4, 4.2))
    best = undominated(given)
    axes.plot(
        [point.nodes for point in best], [point.max_regret for point in best],
        drawstyle="steps-post", color=style.INK, linewidth=1.0, zorder=1,
    )  # fmt: skip
    for (stationary, deterministic), (label, marker, color) in KINDS.items():
        own = [p for p in given if p.is_stationary == stationary and p.is_deterministic == deterministic]
        if own:
            place = [point.nodes for point in own], [point.max_regret for point in own]
            axes.plot(*place, marker, color=color, markersize=5, label=f"{label} ({len(own)})", zorder=2)
    style.add_bound(axes.axhline, None if bound is None else real_number("bound", bound, "0 or more", 0))
    axes.set(xscale="log", xlabel="nodes", ylabel="max regret", ylim=(0.0, None))
    style.log_ticks(axes.xaxis)
    style.add_legend(figure, [axes], "outside upper left", figure.get_figwidth())
    return figure
