"""The regret of several policies in each sample, as the judge found it.

Few samples are bars: side by side for up to six methods, else one panel for each method. Many samples (more than 30)
are curves: the share of samples whose regret is larger than x, which falls to zero at the max regret.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike

from rue._arrays import Array
from rue._check import number_array, real_number
from rue._text import short_line
from rue.errors import BadInput
from rue.model import UMDP
from rue.report import style

MOST_BARS, MOST_BESIDE = 30, 6
REGRET = "regret (cost above the least possible)"


@style.styled
def draw_regrets(model: UMDP, regrets: Mapping[str, ArrayLike], *, bound: float | None = None) -> Figure:
    """The regret of each sample for several methods: `regrets` has one array [K] for each name.

    `bound` is a proved lower bound on the max regret of every policy; it becomes a line.
    """
    table = _checked(model, regrets)
    if bound is not None:
        real_number("bound", bound, "a number, 0 or more", 0)
    if model.samples > MOST_BARS:
        return _curves(table, bound)
    if len(table) > MOST_BESIDE:
        return _small_bars(model, table, bound)
    return _bars(model, table, bound)


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


def _names(model: UMDP) -> tuple[list[str], str]:
    """The names of the samples, and that of their axis; a first word that all share, such as the date, is there."""
    names = [short_line(model.sample_name(k)) for k in range(model.samples)]
    first = {name.partition(" ")[0] for name in names}
    if len(first) == 1 and len(names) > 1 and all(name.partition(" ")[2] for name in names):
        return [name.partition(" ")[2] for name in names], f"sample ({first.pop()})"
    return names, "sample"


def _label(name: str, regret: Array) -> str:
    return f"{short_line(name)}, max {style.number_text(float(regret.max()))}"


def _top(table: Mapping[str, Array], bound: float | None) -> float:
    """The end of the regret axis: above all that is finite."""
    values = np.concatenate([*table.values(), [0.0 if bound is None else bound]])
    most = float(values[np.isfinite(values)].max(initial=0.0))
    return 1.1 * most if most > 0 else 1.0


def _draw_bars(axes: Axes, place: Array, regret: Array, width: float, number: int, top: float) -> None:
    """Bars; infinite ones end at the top and say so."""
    endless = np.isinf(regret)
    axes.bar(place, np.where(endless, top, regret), width, color=style.colour(number), linewidth=0)
    for x in place[endless]:
        axes.text(float(x), 0.99 * top, "∞", ha="center", va="top", fontsize=style.LARGE, path_effects=[style.halo()])


def _bars(model: UMDP, table: Mapping[str, Array], bound: float | None) -> Figure:
    methods, top = len(table), _top(table, bound)
    names, title = _names(model)
    wide = float(np.clip(1.4 + 0.16 * model.samples * (methods + 1), 5.5, 14.0))
    figure = Figure(figsize=(wide, 4.0 + 0.3 * ceil((methods + 1) / 3)), layout="constrained")
    axes = figure.add_subplot()
    style.plain_axes(axes)
    width = 0.82 / methods
    middle = np.arange(model.samples)
    for number, regret in enumerate(table.values()):
        _draw_bars(axes, middle + (number - (methods - 1) / 2) * width, regret, 0.94 * width, number, top)
    axes.set(xlim=(-0.6, model.samples - 0.4), ylim=(0, top), xlabel=title, ylabel=REGRET)
    axes.set_xticks(middle, names, **_tilt(names))
    style.plain_ticks(axes.yaxis)
    axes.tick_params(axis="x", length=0)
    handles: list[Patch | Line2D] = [Patch(color=style.colour(number)) for number in range(methods)]
    _finish(figure, [axes], handles, [_label(*item) for item in table.items()], bound)
    return figure


def _small_bars(model: UMDP, table: Mapping[str, Array], bound: float | None) -> Figure:
    """One panel for each method, the one with the least max regret first."""
    across = 3 if len(table) <= 9 else 4
    down = ceil(len(table) / across)
    top = _top(table, bound)
    names, title = _names(model)
    order = sorted(table, key=lambda name: float(table[name].max()))
    figure = Figure(figsize=(3.2 * across, 1.9 * down + 0.9), layout="constrained")
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, name in zip(panels, order, strict=False):
        style.plain_axes(axes)
        _draw_bars(axes, np.arange(model.samples), table[name], 0.8, 0, top)
        axes.set_title(_label(name, table[name]), loc="left", fontsize=style.NORMAL)
        axes.set(xlim=(-0.6, model.samples - 0.4), ylim=(0, top))
        axes.tick_params(axis="x", length=0)
        style.plain_ticks(axes.yaxis)
    for axes in panels[len(order) :]:
        axes.set_visible(False)
    stride = ceil(model.samples / 8)
    for axes in panels[: len(order)][-across:]:
        axes.tick_params(labelbottom=True)
        axes.set_xticks(np.arange(0, model.samples, stride), names[::stride], **_tilt(names))
    figure.supxlabel(title, fontsize=style.NORMAL)
    figure.supylabel(REGRET, fontsize=style.NORMAL)
    _finish(figure, list(panels[: len(order)]), [], [], bound)
    return figure


def _tilt(names: Sequence[str]) -> dict[str, Any]:
    return {"rotation": 45, "ha": "right"} if max(map(len, names)) > 5 else {}


def _curves(table: Mapping[str, Array], bound: float | None) -> Figure:
    """The share of samples with a larger regret; what is infinite never comes down."""
    figure = Figure(figsize=(7.5, 4.4 + 0.3 * ceil((len(table) + 1) / 3)), layout="constrained")
    axes = figure.add_subplot()
    style.plain_axes(axes)
    top = _top(table, bound)
    for number, regret in enumerate(table.values()):
        sorted_regret = np.sort(regret[np.isfinite(regret)])
        share = 1 - np.arange(1, sorted_regret.size + 1) / regret.size
        x = np.concatenate([[0.0], sorted_regret, [] if sorted_regret.size == regret.size else [top]])
        y = np.concatenate([[1.0], share, share[-1:] if sorted_regret.size else [1.0]])[: x.size]
        axes.step(x, y, where="post", color=style.colour(number), linestyle=style.line(number), linewidth=1.6)
    samples = next(iter(table.values())).size
    axes.set(xlim=(0, top), ylim=(0, 1.02), xlabel=REGRET, ylabel=f"share of {samples} samples with more")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    style.plain_ticks(axes.xaxis)
    handles: list[Patch | Line2D] = [style.legend_line(number) for number in range(len(table))]
    _finish(figure, [axes], handles, [_label(*item) for item in table.items()], bound, upright=True)
    return figure


def _finish(
    figure: Figure,
    panels: Sequence[Axes],
    handles: list[Patch | Line2D],
    labels: list[str],
    bound: float | None,
    upright: bool = False,
) -> None:
    """The bound in all panels, and the legend above them."""
    look: dict[str, Any] = {"color": style.INK, "linestyle": (0, (5, 2)), "linewidth": 1.2}
    if bound is not None:
        for axes in panels:
            (axes.axvline if upright else axes.axhline)(bound, zorder=3, **look)
        handles = [*handles, Line2D([], [], **look)]
        labels = [*labels, f"every policy's max regret is at least {style.bound_text(bound)}"]
    if labels:
        figure.legend(
            handles, labels, loc="outside upper left", ncols=1 if figure.get_figwidth() < 6 else min(3, len(labels))
        )
