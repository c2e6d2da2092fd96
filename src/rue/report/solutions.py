"""Figures of solutions: the regret of several policies in each sample, and the bounds of solvers over time.

Regrets of up to 30 samples are bars: side by side for up to six methods, else with one panel for each method. Those of
more samples are curves: the share of samples whose regret is larger than x, which is zero from the max regret on.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike

from rue._arrays import Array
from rue._check import number_array, real_number
from rue._text import short_line
from rue.errors import BadInput
from rue.model import UMDP
from rue.report import style
from rue.solution import Solution

MOST_BARS, MOST_BESIDE = 30, 6
REGRET = "regret (cost above the least possible)"
FIRST_SECONDS = 1e-3
# Smaller values are drawn as 0: relative to the largest known value, and absolute. Solvers reach 0 up to rounding.
NEGLIGIBLE, LEAST = 1e-9, 1e-12


@style.styled
def draw_regrets(model: UMDP, regrets: Mapping[str, ArrayLike], *, bound: float | None = None) -> Figure:
    """Draw the regret of each sample for several methods: `regrets` has one array [K] for each name.

    `bound` is a proved lower bound on the max regret of every policy; it becomes a line.
    """
    table = _checked(model, regrets)
    if bound is not None:
        real_number("bound", bound, "a number, 0 or more", 0)
    values = np.concatenate([*table.values(), [bound or 0.0]])
    top = 1.1 * float(values[np.isfinite(values)].max(initial=0.0)) or 1.0
    label = {name: f"{short_line(name)}, max {style.number_text(float(table[name].max()))}" for name in table}
    if model.samples > MOST_BARS:
        return _draw_curves(table, label, top, bound)
    order = sorted(table, key=lambda name: float(table[name].max()))
    panels = [[name] for name in order] if len(table) > MOST_BESIDE else [list(table)]
    figure, axes = _bar_panels(model, panels)
    for axis, names in zip(axes, panels, strict=True):
        width = 0.82 / len(names)
        for number, name in enumerate(names):
            place = np.arange(model.samples) + (number - (len(names) - 1) / 2) * width
            axis.bar(place, np.minimum(table[name], top), 0.94 * width, linewidth=0, label=label[name])
            for x in place[np.isinf(table[name])]:
                axis.text(x, 0.99 * top, "∞", ha="center", va="top", fontsize=style.LARGE, path_effects=style.HALO)
        axis.set(xlim=(-0.6, model.samples - 0.4), ylim=(0, top))
        if len(panels) > 1:
            axis.set_title(label[names[0]], loc="left", fontsize=style.NORMAL)
    _add_bound_and_legend(figure, axes, [axis.axhline for axis in axes], bound)
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


def _bar_panels(model: UMDP, panels: Sequence[Sequence[str]]) -> style.Panels:
    """Return a figure with axes for bars: one panel, or three or four panels side by side."""
    names, title = _sample_names(model)
    across, stride = (3 if len(panels) <= 9 else 4), ceil(len(names) / 8)
    size = 3.2 * across, 1.9 * ceil(len(panels) / across) + 0.9
    if len(panels) == 1:
        methods, across, stride = len(panels[0]), 1, 1
        size = float(np.clip(1.4 + 0.16 * len(names) * (methods + 1), 5.5, 14.0)), 4.0 + 0.3 * ceil((methods + 1) / 3)
    figure, axes = style.panels(len(panels), across, size, sharex=True, sharey=True)
    turn: dict[str, Any] = {"rotation": 45, "ha": "right"} if max(map(len, names)) > 5 else {}
    for number, axis in enumerate(axes):
        style.plain_axes(axis)
        axis.yaxis.set_major_formatter("{x:g}")
        axis.set_xticks(range(0, len(names), stride), names[::stride], **turn)
        axis.tick_params(axis="x", length=0, labelbottom=number >= len(axes) - across)
    if len(panels) == 1:
        axes[0].set(xlabel=title, ylabel=REGRET)
    else:
        figure.supxlabel(title, fontsize=style.NORMAL)
        figure.supylabel(REGRET, fontsize=style.NORMAL)
    return figure, axes


def _sample_names(model: UMDP) -> tuple[list[str], str]:
    """Return the names of samples and the label of their axis. A first word that all share is in the label."""
    names = [short_line(model.sample_name(k)) for k in range(model.samples)]
    first = {name.partition(" ")[0] for name in names}
    if len(first) == 1 and len(names) > 1 and all(name.partition(" ")[2] for name in names):
        return [name.partition(" ")[2] for name in names], f"sample ({first.pop()})"
    return names, "sample"


def _draw_curves(table: Mapping[str, Array], label: Mapping[str, str], top: float, bound: float | None) -> Figure:
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
    axes.set(xlim=(0, top), ylim=(0, 1.02), xlabel=REGRET, ylabel=f"share of {samples} samples with more")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_formatter("{x:g}")
    _add_bound_and_legend(figure, [axes], [axes.axvline], bound)
    return figure


def _add_bound_and_legend(figure: Figure, axes: Sequence[Axes], lines: Sequence[Any], bound: float | None) -> None:
    """Draw the bound in all panels; the legend has it, and the methods if they are in one panel."""
    if bound is not None:
        look = {"color": style.INK, "linestyle": (0, (5, 2)), "linewidth": 1.2, "zorder": 3}
        for line in lines:
            line(bound, label=f"every policy's max regret is at least {style.bound_text(bound)}", **look)
    handles, labels = axes[0].get_legend_handles_labels()
    if len(axes) > 1:
        handles, labels = handles[:-1], labels[:-1]
    columns = min(3, style.legend_columns(labels, figure.get_figwidth()))
    figure.legend(handles, labels, loc="outside upper left", ncols=columns)


@style.styled
def draw_bounds(solutions: Mapping[str, Solution]) -> Figure:
    """Draw both bounds of each solution's trace over time, shaded between, with the last values beside them.

    There is one panel for each solution. Solutions with the same measure share the axis, so that they can be compared.
    """
    if not solutions:
        raise BadInput("there are no solutions to draw; expected at least one")
    for name, solution in solutions.items():
        if not isinstance(solution, Solution):
            raise BadInput(f"{name} is a {type(solution).__name__}; expected a rue.Solution")
    traces = {name: _trace(solution) for name, solution in solutions.items()}
    values = np.concatenate([part for name, one in solutions.items() for part in (*traces[name][:, 1:], one.regret)])
    least = max(LEAST, NEGLIGIBLE * float(np.abs(values[np.isfinite(values)]).max(initial=0.0)))
    top: dict[str, float] = {}
    for name, solution in solutions.items():
        bounds, measures = traces[name][:, 1:], solution.solver.measures
        bounds[np.abs(bounds) < least] = 0.0
        top[measures] = max(top.get(measures, 0.0), _axis_end(traces[name]))
    across = min(len(solutions), 3)
    size = 4.4 * across + 0.5, 3.1 * ceil(len(solutions) / across) + 0.5
    figure, panels = style.panels(len(solutions), across, size, sharex=True)
    for axes, (name, solution) in zip(panels, solutions.items(), strict=True):
        _draw_trace(axes, traces[name], top[solution.solver.measures])
        axes.set_title(f"{short_line(name)}: {solution.status.value.replace('_', ' ')}", loc="left")
        axes.set_ylabel(solution.solver.measures)
    begin, end = (pick(float(trace[at, 0]) for trace in traces.values()) for pick, at in ((min, 0), (max, -1)))
    for axes in panels[max(len(solutions) - across, 0) :]:
        axes.set(xlabel="seconds", xlim=(begin / 1.2, end))
        axes.tick_params(labelbottom=True)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=3)
    figure.align_labels()
    return figure


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


def _axis_end(trace: Array) -> float:
    """Return the end of the axis: the first upper bound, unless it is far above the last one."""
    finite = trace[np.isfinite(trace[:, 2]), 2]
    if not finite.size:
        return 1.15 * float(trace[-1, 1])
    return 1.15 * float(min(finite[0], max(3 * finite[-1], finite[-1] + 3 * (finite[-1] - trace[-1, 1]))))


def _draw_trace(axes: Axes, trace: Array, top: float) -> None:
    seconds, lower, upper = trace.T
    shown = np.where(np.isfinite(upper), upper, 2 * top)
    axes.fill_between(seconds, lower, shown, step="post", color=style.SKY, alpha=0.25, linewidth=0, label="still open")
    for values, colour, name in ((shown, style.VERMILION, "upper bound"), (lower, style.BLUE, "proved lower bound")):
        axes.step(seconds, values, where="post", color=colour, linewidth=1.7, label=name)
        axes.plot(seconds[-1], values[-1], "o", color=colour, markersize=4, clip_on=False, zorder=4)
    axes.set_xscale("log")
    style.log_ticks(axes.xaxis)
    axes.set_ylim(0, top if top > 0 else 1.0)
    style.plain_axes(axes)
    axes.yaxis.set_major_formatter("{x:g}")
    _write_last_bounds(axes, trace[-1], top)


def _write_last_bounds(axes: Axes, last: Array, top: float) -> None:
    """Write the last bounds beside their ends: the upper one above, the lower one below, equal ones once."""
    seconds, lower, upper = map(float, last)
    equal = upper - lower < 1e-3 * max(abs(upper), 1e-12)
    close = not equal and upper - lower < 0.07 * top
    sides = ("bottom", "top") if close else ("center", "center")
    texts = [(upper, style.VERMILION, sides[0]), (lower, style.BLUE, sides[1])]
    for value, colour, side in texts[: 1 if equal else 2]:
        axes.annotate(
            style.number_text(value), (seconds, min(value, top)), (7, 0), textcoords="offset points",
            va=side, color=colour, fontweight="bold", annotation_clip=False,
        )  # fmt: skip
