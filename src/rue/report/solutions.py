"""Figures of solutions: the regret of several policies in each sample, and the bounds of solvers over time.

Regrets of up to 30 samples are bars: side by side for up to six methods, else with one panel for each method. Those of
more samples are curves: the share of samples whose regret is larger than x, which is zero from the max regret on.
"""

from collections.abc import Mapping
from math import ceil
from typing import Any, NamedTuple

import numpy as np
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
BOUND_LINE: dict[str, Any] = {"color": style.INK, "linestyle": (0, (5, 2)), "linewidth": 1.2, "zorder": 3}
FIRST_SECONDS = 1e-3
# Smaller values are drawn as 0: relative to the largest known value, and absolute. Solvers reach 0 up to rounding.
NEGLIGIBLE, LEAST = 1e-9, 1e-12


class _Regrets(NamedTuple):
    """What the figures of regrets show."""

    table: dict[str, Array]  # [K] for each method
    samples: list[str]  # names
    axis: str  # label of the sample axis
    bound: float | None

    @property
    def top(self) -> float:
        """Return the end of the regret axis, above all finite values."""
        values = np.concatenate([*self.table.values(), [self.bound or 0.0]])
        return 1.1 * float(values[np.isfinite(values)].max(initial=0.0)) or 1.0

    @property
    def tilt(self) -> dict[str, Any]:
        """Return how the names of samples are turned: long ones would overlap."""
        return {"rotation": 45, "ha": "right"} if max(map(len, self.samples)) > 5 else {}

    def label(self, name: str) -> str:
        """Return a method with its max regret."""
        return f"{short_line(name)}, max {style.number_text(float(self.table[name].max()))}"


@style.styled
def draw_regrets(model: UMDP, regrets: Mapping[str, ArrayLike], *, bound: float | None = None) -> Figure:
    """Draw the regret of each sample for several methods: `regrets` has one array [K] for each name.

    `bound` is a proved lower bound on the max regret of every policy; it becomes a line.
    """
    table = _checked(model, regrets)
    if bound is not None:
        real_number("bound", bound, "a number, 0 or more", 0)
    data = _Regrets(table, *_sample_names(model), bound)
    if model.samples > MOST_BARS:
        return _draw_curves(data)
    return _draw_panels_of_bars(data) if len(table) > MOST_BESIDE else _draw_bars(data)


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


def _sample_names(model: UMDP) -> tuple[list[str], str]:
    """Return the names of samples and the label of their axis. A first word that all share is in the label."""
    names = [short_line(model.sample_name(k)) for k in range(model.samples)]
    first = {name.partition(" ")[0] for name in names}
    if len(first) == 1 and len(names) > 1 and all(name.partition(" ")[2] for name in names):
        return [name.partition(" ")[2] for name in names], f"sample ({first.pop()})"
    return names, "sample"


def _draw_bars(data: _Regrets) -> Figure:
    """Draw the bars of all methods side by side for each sample."""
    methods, samples = len(data.table), len(data.samples)
    wide = float(np.clip(1.4 + 0.16 * samples * (methods + 1), 5.5, 14.0))
    figure = Figure(figsize=(wide, 4.0 + 0.3 * ceil((methods + 1) / 3)), layout="constrained")
    axes = figure.add_subplot()
    width = 0.82 / methods
    for number, name in enumerate(data.table):
        place = np.arange(samples) + (number - (methods - 1) / 2) * width
        _add_bars(axes, data, name, place=place, width=0.94 * width)
    axes.set(xlabel=data.axis, ylabel=REGRET)
    axes.set_xticks(range(samples), data.samples, **data.tilt)
    _add_bound_and_legend(axes, data, axes.axhline)
    return figure


def _draw_panels_of_bars(data: _Regrets) -> Figure:
    """Draw one panel for each method, in the order of max regret."""
    across = 3 if len(data.table) <= 9 else 4
    samples, down = len(data.samples), ceil(len(data.table) / across)
    order = sorted(data.table, key=lambda name: float(data.table[name].max()))
    figure = Figure(figsize=(3.2 * across, 1.9 * down + 0.9), layout="constrained")
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, name in zip(panels, order, strict=False):
        _add_bars(axes, data, name, place=np.arange(samples), width=0.8)
        axes.set_title(data.label(name), loc="left", fontsize=style.NORMAL)
        if data.bound is not None:
            axes.axhline(data.bound, label=_bound_label(data.bound), **BOUND_LINE)
    _hide_rest(panels, len(order))
    stride = ceil(samples / 8)
    for axes in panels[: len(order)][-across:]:
        axes.tick_params(labelbottom=True)
        axes.set_xticks(np.arange(0, samples, stride), data.samples[::stride], **data.tilt)
    figure.supxlabel(data.axis, fontsize=style.NORMAL)
    figure.supylabel(REGRET, fontsize=style.NORMAL)
    if data.bound is not None:
        figure.legend(handles=panels[0].get_lines(), loc="outside upper left")
    return figure


def _add_bars(axes: Axes, data: _Regrets, name: str, *, place: Array, width: float) -> None:
    """Draw the bars of one method; infinite ones end at the top and have a sign."""
    regret, top = data.table[name], data.top
    endless = np.isinf(regret)
    style.plain_axes(axes)
    style.plain_ticks(axes.yaxis)
    axes.bar(place, np.where(endless, top, regret), width, linewidth=0, label=data.label(name))
    for x in place[endless]:
        axes.text(float(x), 0.99 * top, "∞", ha="center", va="top", fontsize=style.LARGE, path_effects=style.HALO)
    axes.set(xlim=(-0.6, regret.size - 0.4), ylim=(0, top))
    axes.tick_params(axis="x", length=0)


def _draw_curves(data: _Regrets) -> Figure:
    """Draw the share of samples with a larger regret; infinite regrets keep a curve above zero."""
    figure = Figure(figsize=(7.5, 4.4 + 0.3 * ceil((len(data.table) + 1) / 3)), layout="constrained")
    axes = figure.add_subplot()
    style.plain_axes(axes)
    for name, regret in data.table.items():
        finite = np.sort(regret[np.isfinite(regret)])
        share = np.concatenate([[1.0], 1 - np.arange(1, finite.size + 1) / regret.size])
        x = np.concatenate([[0.0], finite])
        if finite.size < regret.size:
            x, share = np.append(x, data.top), np.append(share, share[-1])
        axes.step(x, share, where="post", linewidth=1.6, label=data.label(name))
    axes.set(
        xlim=(0, data.top), ylim=(0, 1.02), xlabel=REGRET, ylabel=f"share of {len(data.samples)} samples with more"
    )
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    style.plain_ticks(axes.xaxis)
    _add_bound_and_legend(axes, data, axes.axvline)
    return figure


def _add_bound_and_legend(axes: Axes, data: _Regrets, line: Any) -> None:
    if data.bound is not None:
        line(data.bound, label=_bound_label(data.bound), **BOUND_LINE)
    handles, labels = axes.get_legend_handles_labels()
    columns = min(3, style.legend_columns(labels, axes.figure.get_figwidth()))
    axes.figure.legend(handles, labels, loc="outside upper left", ncols=columns)


def _bound_label(bound: float) -> str:
    return f"every policy's max regret is at least {style.bound_text(bound)}"


def _hide_rest(panels: Array, used: int) -> None:
    for axes in panels[used:]:
        axes.set_visible(False)


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
    least = max(LEAST, NEGLIGIBLE * max(_largest(one, traces[name]) for name, one in solutions.items()))
    top = {solution.solver.measures: 0.0 for solution in solutions.values()}
    for name, solution in solutions.items():
        bounds = traces[name][:, 1:]
        bounds[np.abs(bounds) < least] = 0.0
        top[solution.solver.measures] = max(top[solution.solver.measures], _axis_end(traces[name]))
    across = min(len(solutions), 3)
    down = ceil(len(solutions) / across)
    figure = Figure(figsize=(4.4 * across + 0.5, 3.1 * down + 0.5), layout="constrained")
    panels = figure.subplots(down, across, sharex=True, squeeze=False).ravel()
    for axes, (name, solution) in zip(panels, solutions.items(), strict=False):
        _draw_trace(axes, traces[name], top[solution.solver.measures])
        axes.set_title(f"{short_line(name)}: {solution.status.value.replace('_', ' ')}", loc="left")
        axes.set_ylabel(solution.solver.measures)
    _hide_rest(panels, len(solutions))
    begin, end = (float(pick([trace[place, 0] for trace in traces.values()])) for pick, place in ((min, 0), (max, -1)))
    for axes in panels[max(len(solutions) - across, 0) : len(solutions)]:
        axes.tick_params(labelbottom=True)
        axes.set(xlabel="seconds", xlim=(begin / 1.2, end))
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


def _largest(solution: Solution, trace: Array) -> float:
    """Return the largest finite bound or regret of a solution."""
    values = np.concatenate([trace[:, 1:].ravel(), solution.regret])
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


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
    style.plain_ticks(axes.yaxis)
    _write_last_bounds(axes, trace[-1], top)


def _write_last_bounds(axes: Axes, last: Array, top: float) -> None:
    """Write the last bounds beside their ends: the upper one above, the lower one below, equal ones once."""
    seconds, lower, upper = map(float, last)
    equal = upper - lower < 1e-3 * max(abs(upper), 1e-12)
    close = not equal and upper - lower < 0.07 * top
    texts = [
        (upper, style.VERMILION, "bottom" if close else "center"),
        (lower, style.BLUE, "top" if close else "center"),
    ]
    for value, colour, side in texts[: 1 if equal else 2]:
        axes.annotate(
            style.number_text(value), (seconds, min(value, top)), (7, 0), textcoords="offset points",
            va=side, color=colour, fontweight="bold", annotation_clip=False,
        )  # fmt: skip
