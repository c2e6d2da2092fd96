"""What solvers had proved after so many seconds: both bounds on the objective, which close in on it."""

from collections.abc import Mapping
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rue._arrays import Array
from rue._text import short_line
from rue.errors import BadInput
from rue.report import style
from rue.solution import Solution

FIRST_SECONDS = 1e-3
# Of the largest value that is known, and at all: less is 0, which solvers end at up to rounding.
NOTHING, LEAST = 1e-9, 1e-12


@style.styled
def draw_bounds(solutions: Mapping[str, Solution]) -> Figure:
    """Both bounds of each solution's trace over time, shaded between, with the last values written beside them.

    One panel for each solution. Those with the same measure share the axis, so that they can be compared.
    """
    if not solutions:
        raise BadInput("there are no solutions to draw; expected at least one")
    for name, solution in solutions.items():
        if not isinstance(solution, Solution):
            raise BadInput(f"{name} is a {type(solution).__name__}; expected a rue.Solution")
    traces = {name: _trace(solution) for name, solution in solutions.items()}
    across = min(len(solutions), 3)
    down = ceil(len(solutions) / across)
    figure = Figure(figsize=(4.4 * across + 0.5, 3.1 * down + 0.5), layout="constrained")
    panels = figure.subplots(down, across, sharex=True, squeeze=False).ravel()
    begin = min(float(trace[0, 0]) for trace in traces.values())
    end = max(float(trace[-1, 0]) for trace in traces.values())
    top = {solution.solver.measures: 0.0 for solution in solutions.values()}
    nothing = max(LEAST, NOTHING * max(_largest(one, traces[name]) for name, one in solutions.items()))
    for name, solution in solutions.items():
        bounds = traces[name][:, 1:]
        bounds[np.abs(bounds) < nothing] = 0.0
        top[solution.solver.measures] = max(top[solution.solver.measures], _ceiling(traces[name]))
    for axes, (name, solution) in zip(panels, solutions.items(), strict=False):
        _draw(axes, traces[name], top[solution.solver.measures])
        axes.set_title(f"{short_line(name)}: {solution.status.value.replace('_', ' ')}", loc="left")
        axes.set(xlim=(begin / 1.2, end), ylabel=solution.solver.measures)
    for axes in panels[len(solutions) :]:
        axes.set_visible(False)
    for axes in panels[max(len(solutions) - across, 0) : len(solutions)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("seconds")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=3)
    figure.align_labels()
    return figure


def _trace(solution: Solution) -> Array:  # [points, 3]
    """Seconds, lower and upper bound: the best that were reported so far, and never better than those of the end.

    Bounds on the way are rounded as they come; the last ones are checked once more.
    """
    points = [(max(p.seconds, FIRST_SECONDS), p.lower, p.upper) for p in solution.trace]
    last = max([solution.seconds, FIRST_SECONDS, *(p[0] for p in points)])
    trace = np.array([*points, (last, solution.objective.lower, solution.objective.upper)])
    trace = trace[np.argsort(trace[:, 0], kind="stable")]
    trace[:, 1] = np.minimum(np.maximum.accumulate(trace[:, 1]), solution.objective.lower)
    trace[:, 2] = np.maximum(np.minimum.accumulate(trace[:, 2]), solution.objective.upper)
    return trace


def _largest(solution: Solution, trace: Array) -> float:
    """The largest finite number that is known of a solution."""
    values = np.concatenate([trace[:, 1:].ravel(), solution.regret])
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _ceiling(trace: Array) -> float:
    """The end of the axis: the first upper bound, unless it is far above the last one."""
    finite = trace[np.isfinite(trace[:, 2]), 2]
    if not finite.size:
        return 1.15 * float(trace[-1, 1])
    return 1.15 * float(min(finite[0], max(3 * finite[-1], finite[-1] + 3 * (finite[-1] - trace[-1, 1]))))


def _draw(axes: Axes, trace: Array, top: float) -> None:
    seconds, lower, upper = trace.T
    shown = np.where(np.isfinite(upper), upper, 2 * top)
    axes.fill_between(seconds, lower, shown, step="post", color=style.SKY, alpha=0.25, linewidth=0, label="still open")
    for values, colour, name in (
        (shown, style.VERMILION, "upper bound"),
        (lower, style.BLUE, "proved lower bound"),
    ):
        axes.step(seconds, values, where="post", color=colour, linewidth=1.7, label=name)
        axes.plot(seconds[-1], values[-1], "o", color=colour, markersize=4, clip_on=False, zorder=4)
    axes.set_xscale("log")
    style.plain_numbers(axes.xaxis)
    axes.set_ylim(0, top if top > 0 else 1.0)
    style.plain_axes(axes)
    style.plain_ticks(axes.yaxis)
    _write_last(axes, float(seconds[-1]), float(lower[-1]), float(upper[-1]), top)


def _write_last(axes: Axes, seconds: float, lower: float, upper: float, top: float) -> None:
    """The last bounds, beside their ends; pushed apart where they are close, and one where they are equal."""
    tight = upper - lower < 1e-3 * max(abs(upper), 1e-12)
    apart = 0.0 if top <= 0 or not np.isfinite(upper) else max(0.0, 0.07 - (upper - lower) / top) / 2
    texts = (
        [(style.VERMILION, upper, apart)] if tight else [(style.VERMILION, upper, apart), (style.BLUE, lower, -apart)]
    )
    for colour, value, shift in texts:
        at = min(value, top) + (0.0 if tight else shift * top)
        axes.annotate(
            style.number_text(value), (seconds, at), (7, 0), textcoords="offset points",
            va="center", ha="left", color=colour, fontweight="bold", annotation_clip=False,
        )  # fmt: skip
