"""The figure of the price of simplicity: max regret over the number of nodes, from one for each state to all.

The line joins the policies with less regret than all smaller ones. Deterministic and stationary policies have markers
of their own; those above the line are the best of their kind. No policy of any size is below the proved bound.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from rue._check import real_number
from rue.errors import BadInput
from rue.report import style
from rue.simplification import FrontierPoint

# How each kind is drawn: stationary or not, deterministic or not.
KINDS = {
    (False, False): ("controller, randomised", "o", "C0"),
    (False, True): ("controller, deterministic", "s", "C1"),
    (True, False): ("stationary, randomised", "^", "C2"),
    (True, True): ("stationary, deterministic", "D", "C3"),
}


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
    best: list[FrontierPoint] = []
    for point in sorted(given, key=lambda point: (point.nodes, point.max_regret)):
        if not best or point.max_regret < best[-1].max_regret:
            best.append(point)
    axes.plot(
        [point.nodes for point in best], [point.max_regret for point in best],
        drawstyle="steps-post", color=style.INK, linewidth=1.0, zorder=1,
    )  # fmt: skip
    for (stationary, deterministic), (label, marker, color) in KINDS.items():
        own = [p for p in given if p.is_stationary == stationary and p.is_deterministic == deterministic]
        if own:
            place = [point.nodes for point in own], [point.max_regret for point in own]
            axes.plot(*place, marker, color=color, markersize=5, label=f"{label} ({len(own)})", zorder=2)
    if bound is not None:
        proved = real_number("bound", bound, "0 or more", 0)
        words = f"every policy's max regret is at least {style.bound_text(proved)}"
        axes.axhline(proved, color=style.INK, linestyle=(0, (5, 2)), linewidth=1.2, label=words)
    axes.set(xscale="log", xlabel="nodes", ylabel="max regret", ylim=(0.0, None))
    style.log_ticks(axes.xaxis)
    labels = axes.get_legend_handles_labels()
    columns = min(2, style.legend_columns(labels[1], figure.get_figwidth()))
    figure.legend(*labels, loc="outside upper left", ncols=columns)
    return figure
