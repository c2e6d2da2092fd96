"""A grid model as a map, and what a policy does on it: one panel for each sample, or for each of some time steps.

In sample k the policy visits node i of its controller n(i) times (`rue.visits`). With s(i) the node's state and w(i, c)
the probability of choice c there, a map shows, for each state,

    n(s) = Σ n(i) over the nodes of s                          as the area of a frame,
    π(c | s) = Σ n(i) w(i, c) / n(s)                           as the length of an arrow in the direction of c;

which is a mean over the memory of the policy; the legend says so if a state has several nodes. After t steps it is the
same with the probability to be at node i then. Frames are hollow, so that costs can be seen, and arrows stay within
their cells. Without directions (`heading` in the layout) a cell has the colour and the letter of its likeliest action.
"""

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrow, Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from rue._arrays import Array
from rue._check import index_array, whole_number
from rue._text import counted, number_text, short_line
from rue.errors import BadInput
from rue.evaluation import evaluate
from rue.grid_layout import CellGrid, read_grid
from rue.judge import Evaluation
from rue.model import UMDP
from rue.policy import Policy
from rue.report import style
from rue.visits import distribution_after, expected_visits, state_behaviour

MOST_PANELS, MOST_ASKED = 4, 60  # without `samples` or `steps`, and with them
LEAST_VISITS, LEAST_CHANCE = 1e-3, 0.05  # smaller ones are not drawn
MOST_FULL = 2.0  # visits of a full square: where a policy waits for long, others should still be seen
# Inches around the panels.
LEFT, RIGHT, GAP, ABOVE, BELOW, DEGREES = 0.62, 0.2, 0.3, 0.58, 0.52, 0.3
BAR, BAR_ROOM, CREDIT = 0.16, 0.85, 0.4
LINE, LONGEST_SIGN, WIDEST_SIGN = 0.3, 0.5, 0.26  # of the legend: a row, arrows, squares
WRITTEN = 0.34  # inches of a cell that has room for a letter
MOST_FRAMED, MOST_CURRENTS = 40, 25  # cells on a side that have borders, currents on a side
# Arrows, in cells: the length for probability 1, and for the speed that nine in ten currents are below.
ARROW, CURRENT, CURRENT_WIDTH = 0.5, 0.85, 0.04
HEAD = {"headwidth": 3.8, "headlength": 3.8, "headaxislength": 3.3}  # in widths of the arrow
FRAME = 1.6  # points of the frame of a visited cell
LAND_LOOK: dict[str, Any] = {"facecolor": style.LAND, "edgecolor": "#9A9A9A", "hatch": "////"}
# Marker, colour, relative size and drawing order of the two ends.
END_LOOK = {"start": ("o", "#FFFFFF", 1.0, 2.8), "goal": ("*", style.GREEN, 1.6, 3.4)}


@style.styled
def draw_map(
    model: UMDP,
    policy: Policy | None = None,
    *,
    samples: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    overview: bool = False,
) -> Figure:
    """Draw a grid model as a map, with the policy's arrows if a policy is given.

    There is one panel for each of the `samples`; by default for all of them, or for those with the largest, the middle
    and the smallest regret if there are more than four. With `steps`, there is one panel for each of these time steps,
    in one sample: the given one or that with the largest regret. `overview` adds a first panel with the mean of all
    samples.

    An arrow of probability 1 is half a cell long. Visits below 0.001 and probabilities below 0.05 are not drawn.
    """
    grid = read_grid(model.graph)
    asked = max(0 if part is None else np.size(part) for part in (samples, steps)) + overview
    if asked > MOST_ASKED:
        raise BadInput(f"there are {asked} panels to draw; expected at most {MOST_ASKED}")
    verdict = None if policy is None else evaluate(model, policy)
    shown = _chosen_samples(model, verdict, samples, steps).tolist()
    if policy is None or verdict is None:
        if steps is not None:
            raise BadInput("steps are given without a policy; expected a policy to follow")
        panels = [MapPanel(sample_title(model, k), k) for k in shown]
    elif steps is not None:
        panels = _step_panels(model, policy, verdict, shown[0], steps)
    else:
        panels = [_sample_panel(model, policy, verdict, k, len(shown)) for k in shown]
    if overview:
        panels.insert(0, MapPanel(f"all {model.samples} samples\nmean cost, frequency of obstacles", None))
    remembers = policy is not None and not policy.is_stationary
    return _Map(model, grid, panels, at_a_time=steps is not None, remembers=remembers).draw()


class MapPanel(NamedTuple):
    """What one panel shows: a sample, or all of them, and what the policy does there."""

    title: str
    sample: int | None
    visits: Array | None = None  # [S], or the probability to be there at a time
    chance: Array | None = None  # [C], of each choice where its state is visited


def _chosen_samples(
    model: UMDP, verdict: Evaluation | None, samples: Sequence[int] | None, steps: Sequence[int] | None
) -> Array:
    """Return the samples of the panels, in the order of the panels."""
    if samples is not None:
        shown = index_array("sample", samples, model.samples)
        if shown.size == 0:
            raise BadInput("there are no samples to draw; expected at least one")
        if steps is not None and shown.size != 1:
            raise BadInput(f"there are {shown.size} samples and several steps; expected one sample")
        return shown
    if steps is not None:
        return np.array([0 if verdict is None else verdict.worst_sample])
    if model.samples <= MOST_PANELS:
        return np.arange(model.samples)
    order = np.arange(model.samples) if verdict is None else np.argsort(-verdict.regret, kind="stable")
    return np.asarray(order[[0, model.samples // 2, -1]])


def _sample_panel(model: UMDP, policy: Policy, verdict: Evaluation, sample: int, shown: int) -> MapPanel:
    """Return the panel of a sample. Its title has the regret, and its rank if only some samples are shown."""
    regret, samples = verdict.regret, model.samples
    rank = int((regret > regret[sample]).sum())
    which = {0: "largest", samples // 2: "middle", samples - 1: "smallest"}.get(rank)
    title = f"{sample_title(model, sample)}\nregret {_regret(verdict, sample)}"
    if np.isinf(regret[sample]):
        title += ": it may miss the goal"
    elif which and shown < samples:
        title += f" ({which} of {samples})"
    return MapPanel(title, sample, *state_behaviour(policy, expected_visits(model, policy, sample)))


def _step_panels(model: UMDP, policy: Policy, verdict: Evaluation, sample: int, steps: Sequence[int]) -> list[MapPanel]:
    wanted = [whole_number("step", step, 0) for step in steps]
    if not wanted:
        raise BadInput("there are no steps to draw; expected at least one")
    goal = model.graph.goal[policy.node_state]
    panels = []
    for step, mass in zip(wanted, distribution_after(model, policy, sample, wanted), strict=True):
        rest = float(mass[~goal].sum())
        ended = 1.0 - rest if rest < 0.5 else float(mass[goal].sum())  # from the smaller part, which is more exact
        title = f"{sample_title(model, sample)}, after {counted(step, 'step')}\n"
        title += f"regret {_regret(verdict, sample)}; {style.share_text(ended)} at the goal"
        panels.append(MapPanel(title, sample, *state_behaviour(policy, mass)))
    return panels


def sample_title(model: UMDP, sample: int) -> str:
    """Return a sample in words: its name, or `sample 3`."""
    name = short_line(model.sample_name(sample))
    return f"sample {name}" if model.sample_label is None else name


def _regret(verdict: Evaluation, sample: int) -> str:
    regret = float(verdict.regret[sample])
    return "0" if regret <= verdict.error < np.inf else number_text(regret)  # 0 up to the judge's error


class _Map:
    """All panels, and the scales that they share."""

    def __init__(
        self, model: UMDP, grid: CellGrid, panels: Sequence[MapPanel], *, at_a_time: bool, remembers: bool
    ) -> None:
        self.model, self.grid, self.panels = model, grid, panels
        self.mean = "; mean over its memory" if remembers else ""
        self.at_a_time = at_a_time  # squares show the probability to be there at a time instead of expected visits
        self.on, self.has_degrees = grid.cell >= 0, bool(grid.degrees)
        self.across, self.width = _arrangement(grid, len(panels))  # panels side by side, and inches of each
        self.height = self.width * grid.rows / grid.columns
        self.inches = self.width / grid.columns  # of a cell
        self.arrow_width = float(np.clip(1.5 / style.POINTS / self.inches, 0.035, 0.1))  # about 1.5 points, in cells
        # The least and the largest entry cost of all samples, also of those not shown.
        cost = model.scenery.get("entry_cost", np.zeros((grid.cell.size, 1)))[self.on]
        self.costs = Normalize(float(cost.min()), float(cost.max()))
        self.has_bar = bool(cost.min() < cost.max())
        visits = [one.visits[self.on & ~model.graph.goal] for one in panels if one.visits is not None]
        self.visits = np.array([one for panel in visits for one in panel if one >= LEAST_VISITS])  # of all squares
        self.finite = self.visits[np.isfinite(self.visits)]
        self.full = float(np.clip(self.finite.max(initial=0.0), LEAST_VISITS, MOST_FULL))  # visits of a full square
        self.widest = (
            1 - FRAME / style.POINTS / self.inches
        )  # side of a full frame in cells, so that neighbours do not touch
        # Depths of thin lines, in metres: at most four round numbers.
        deep = grid.depth[np.isfinite(grid.depth)] if grid.is_shallow and grid.depth is not None else np.empty(0)
        ticks = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(deep.min(), deep.max()) if deep.size else deep
        self.depths = [float(depth) for depth in ticks if deep.min() < depth < deep.max() and depth != grid.shallow]
        self.stride = ceil(max(grid.rows, grid.columns) / MOST_CURRENTS)  # cells from one current to the next
        currents = [np.hypot(*current) for one in panels if (current := self._current(one))]
        speed = np.concatenate([np.empty(0), *currents])
        # Nine in ten currents are slower, in m/s.
        self.speed = float(np.quantile(speed, 0.9)) or float(speed.max()) if speed.size else 0.0

    def draw(self) -> Figure:
        """Return the figure. Order: costs, land, obstacles, visits, currents, depths, the start, arrows, the goal."""
        figure, axes = self._build(list(self._signs()))
        size = float(np.clip(self.inches * style.POINTS * 0.6, 6.0, 13.0))  # of marks, in points
        for number, panel in enumerate(self.panels):
            last = number % self.across == self.across - 1 or number == len(self.panels) - 1
            self._draw_axes(axes[number], panel.title, first=number % self.across == 0, last=last)
            self._draw_ground(axes[number], panel)
            self._draw_currents(axes[number], panel)
            if panel.visits is not None and panel.chance is not None:
                self._draw_policy(axes[number], panel.visits, panel.chance)
            for name, cells in self._ends.items():  # the start is behind arrows and letters
                axes[number].plot(*self.grid.places(cells), **_end_mark(name, size))
        if self.has_bar:
            high = float(np.clip(self.height, 1.2, 4.0)) / self.height
            left = 1 + (DEGREES + 0.4 if self.has_degrees else 0.2) / self.width
            place = axes[self.across - 1].inset_axes((left, 1 - high, BAR / self.width, high))
            figure.colorbar(ScalarMappable(self.costs, style.COSTS), cax=place, label="cost of entering a cell")
        return figure

    def _build(self, signs: Sequence[Patch | Line2D]) -> style.Panels:
        """Return the figure with its legend, its credit and empty panels. Panels have their exact size in inches.

        By hand, since arrows and squares are drawn to scale, and matplotlib's layouts ignore the width of titles.
        """
        labels = [str(sign.get_label()) for sign in signs]
        title = max(style.text_width(line, style.LARGE) for one in self.panels for line in one.title.split("\n"))
        across, down = self.across, ceil(len(self.panels) / self.across)
        gap = max(0.0, title - self.width) + GAP
        beside = RIGHT + max(BAR_ROOM * self.has_bar + 2 * DEGREES * self.has_degrees, title - self.width)
        end = LEFT + across * self.width + (across - 1) * gap
        longest = max((style.text_width(text, style.NORMAL) for text in labels), default=0.0)
        wide = max(end + beside, LEFT + LONGEST_SIGN + longest + RIGHT)
        columns = style.legend_columns(labels, min(wide - LEFT, style.NARROW))
        above = ABOVE + DEGREES * self.has_degrees
        foot = LINE * ceil(len(signs) / columns) + CREDIT * bool(self.grid.credit) + 0.08
        high = foot + down * (self.height + above + BELOW)
        margins = {
            "left": LEFT / wide, "right": end / wide, "bottom": (foot + BELOW) / high, "top": 1 - above / high,
            "wspace": gap / self.width, "hspace": (above + BELOW) / self.height,
        }  # fmt: skip
        figure, axes = style.panels(len(self.panels), across, (wide, high), None, gridspec_kw=margins)
        letters = style.POINTS / style.NORMAL  # in an inch
        figure.legend(
            signs, labels, loc="upper left", bbox_to_anchor=(LEFT / wide, foot / high), ncols=columns, borderpad=0,
            borderaxespad=0, columnspacing=1.5, handlelength=LONGEST_SIGN * letters, handleheight=WIDEST_SIGN * letters,
            labelspacing=(LINE - WIDEST_SIGN) * letters,
        )  # fmt: skip
        look: dict[str, Any] = {"fontsize": style.SMALL, "color": style.FAINT, "va": "bottom", "wrap": True}
        figure.text(LEFT / wide, 0.08 / high, self.grid.credit, **look)
        return figure, axes

    def _scenery(self, name: str, panel: MapPanel) -> Array | None:  # [S]
        """Return a part of the scenery in a panel's sample, or its mean over all."""
        values = self.model.scenery.get(name)
        if values is None:
            return None
        return np.asarray(values.mean(axis=1, dtype=float) if panel.sample is None else values[:, panel.sample], float)

    def _current(self, panel: MapPanel) -> tuple[Array, Array] | None:
        east, north = self._scenery("east", panel), self._scenery("north", panel)
        return None if east is None or north is None else (east, north)

    @property
    def _ends(self) -> dict[str, Array]:
        """Return the cells where episodes begin and end."""
        graph, cell = self.model.graph, self.grid.cell
        ends = {"start": cell[[graph.initial]], "goal": cell[graph.goal]}
        return {name: cells[cells >= 0] for name, cells in ends.items() if (cells >= 0).any()}

    def _draw_axes(self, axes: Axes, title: str, *, first: bool, last: bool) -> None:
        """Draw the title, ticks, labels and the borders of cells."""
        grid, x, y = self.grid, self.grid.x_edge, self.grid.y_edge
        axes.set(xlim=(x[0], x[-1]), ylim=(y[-1], y[0]), xlabel=grid.axis[0], ylabel=grid.axis[1] if first else "")
        axes.set_title(title, loc="left", pad=22.0 if self.has_degrees else 8.0, linespacing=1.3)
        axes.locator_params(nbins=8, integer=not grid.metric, min_n_ticks=1, steps=[1, 2, 5, 10])
        axes.tick_params(length=3, labelleft=first)
        if self.has_degrees:
            _add_degrees(axes, grid, last)
        if max(grid.rows, grid.columns) <= MOST_FRAMED:
            look: dict[str, Any] = {"color": style.BLACK, "alpha": 0.1, "linewidth": 0.4, "zorder": 1.5}
            axes.vlines(x, y[0], y[-1], **look)
            axes.hlines(y, x[0], x[-1], **look)

    def _add_squares(self, axes: Axes, cell: Array, side: Array | float, **look: Any) -> None:
        """Draw squares in the middles of cells; `side` in cells."""
        half = np.broadcast_to(np.asarray(side) * self.grid.unit / 2, cell.shape)
        corners = zip(*self.grid.places(cell), half, strict=True)
        patches = [Rectangle((x - h, y - h), 2 * h, 2 * h) for x, y, h in corners]
        axes.add_collection(PatchCollection(patches, **{"linewidth": 0, **look}), autolim=False)

    def _add_arrows(self, axes: Axes, state: Array, east: Array, north: Array, *, width: float, **look: Any) -> None:
        """Draw arrows at states; their lengths and widths are in cells."""
        grid, look = self.grid, {"angles": "xy", "units": "xy", "scale_units": "xy", "scale": 1, **HEAD, **look}
        axes.quiver(*grid.places(grid.cell[state]), east * grid.unit, north * grid.up, width=width * grid.unit, **look)

    def _draw_ground(self, axes: Axes, panel: MapPanel) -> None:
        """Draw entry costs, land, obstacles and depths."""
        grid = self.grid
        cost, obstacle = self._scenery("entry_cost", panel), self._scenery("obstacle", panel)
        if cost is not None and self.has_bar:
            look: dict[str, Any] = {"cmap": style.COSTS, "norm": self.costs, "zorder": 1}
            look["rasterized"] = grid.rows * grid.columns > 4000
            axes.pcolormesh(grid.x_edge, grid.y_edge, grid.field(cost), **look)
        if grid.empty.any():
            self._add_squares(axes, np.flatnonzero(grid.empty), 1.0, zorder=1.2, label="land", **LAND_LOOK)
        if obstacle is not None and (obstacle > 0).any():
            on = np.flatnonzero((obstacle > 0) & self.on)
            face = [(*to_rgb(style.STONE), a) for a in obstacle[on]]
            self._add_squares(axes, grid.cell[on], 0.86, zorder=1.8, label="obstacle", facecolor=face)
        for levels, width in ((self.depths, 0.7), ([grid.shallow], 1.7)) if grid.is_shallow else ():
            look = {"levels": levels, "linewidths": width, "colors": style.DEPTH, "zorder": 2.6}
            axes.contour(grid.x, grid.y, np.ma.masked_invalid(np.asarray(grid.depth)), **look)

    def _draw_currents(self, axes: Axes, panel: MapPanel) -> None:
        current, stride = self._current(panel), self.stride
        if current is None or self.speed == 0:
            return
        row, column = np.divmod(self.grid.cell, self.grid.columns)
        on = np.flatnonzero(self.on & (row % stride == stride // 2) & (column % stride == stride // 2))
        east, north = (part[on] * CURRENT * stride / self.speed for part in current)
        look: dict[str, Any] = {"pivot": "middle", "minlength": 0.5, "color": style.BLUE, "zorder": 2.4}
        self._add_arrows(axes, on, east, north, width=CURRENT_WIDTH * stride, label="current", **look)

    def _draw_policy(self, axes: Axes, visits: Array, chance: Array) -> None:
        """Draw visits as squares and actions as arrows, or actions as letters where they have no direction."""
        seen = (visits >= LEAST_VISITS) & self.on
        on = np.flatnonzero(seen & ~self.model.graph.goal)
        if self.grid.heading is None:
            self._draw_letters(axes, on, visits, chance)
            return
        for which, colour, label in ((np.isfinite, style.BLUE, "visits"), (np.isinf, style.PURPLE, "for ever")):
            some = on[which(visits[on])]
            side = np.sqrt(np.minimum(visits[some] / self.full, 1.0))
            if some.size:
                frame = {"edgecolor": colour, "facecolor": "none", "linewidth": FRAME}
                self._add_squares(axes, self.grid.cell[some], side * self.widest, zorder=2, label=label, **frame)
        graph = self.model.graph
        choice = np.flatnonzero(seen[graph.choice_state] & (chance >= LEAST_CHANCE))
        state = graph.choice_state[choice]
        angle, length = np.deg2rad(self.grid.heading[graph.action[choice]]), ARROW * chance[choice]
        face = [(*to_rgb(style.INK), a) for a in _opacity(visits[state], self.full)]
        look: dict[str, Any] = {"minlength": 0, "zorder": 3, "edgecolor": "white", "linewidth": 0.3, "label": "policy"}
        east, north = length * np.sin(angle), length * np.cos(angle)
        self._add_arrows(axes, state, east, north, width=self.arrow_width, pivot="tail", facecolor=face, **look)

    def _draw_letters(self, axes: Axes, on: Array, visits: Array, chance: Array) -> None:
        """Draw the likeliest action of states: its colour, its letter, and its probability if below 1."""
        graph, cell = self.model.graph, self.grid.cell[on]
        begin, end = graph.choice_ptr[on], graph.choice_ptr[on + 1]
        best = np.array([a + chance[a:b].argmax() for a, b in zip(begin, end, strict=True)], int)
        action, opacity = graph.action[best], _opacity(visits[on], self.full, 0.15, 0.8)
        face = [(*to_rgb(f"C{a}"), f) for a, f in zip(action, opacity, strict=True)]
        self._add_squares(axes, cell, 1.0, zorder=2, facecolor=face, label="policy")
        if self.inches < WRITTEN:
            return
        look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7.5, "linespacing": 1.0, "zorder": 3}
        for x, y, a, share in zip(*self.grid.places(cell), action, chance[best], strict=True):
            text = "" if share >= 1 - style.SURE else f"\n{style.share_text(float(share))}"
            axes.text(x, y, _letter(int(a)) + text, **look)

    def _signs(self) -> Iterator[Patch | Line2D]:
        """Yield the legend entries of all that some panel shows. Arrows and squares have their sizes on the map."""
        grid, inches = self.grid, self.inches
        yield from (Line2D([], [], **_end_mark(name, 8.0)) for name in self._ends)
        if np.any(self.model.scenery.get("obstacle", 0)):
            yield _sign("s", 0.17, "obstacle", style.STONE)
        if grid.empty.any():
            yield Patch(label="land" if grid.depth is not None else "no state", **LAND_LOOK)
        if grid.is_shallow:
            thin = ", ".join(f"{depth:g}" for depth in self.depths)
            yield Line2D([], [], color=style.DEPTH, linewidth=1.7, label=f"depth {grid.shallow:g} m (thin: {thin} m)")
        if self.speed > 0:
            scale = CURRENT * self.stride * inches / self.speed
            speed = _round_number(min(self.speed, LONGEST_SIGN / scale))
            width = CURRENT_WIDTH * self.stride * inches
            yield _arrow(speed * scale, width, f"current, {speed:g} m/s", style.BLUE)
        fainter = "fainter: less likely to be there" if self.at_a_time else "fainter: fewer visits"
        if all(panel.visits is None for panel in self.panels):
            return
        if grid.heading is None:
            graph = self.model.graph
            for action in np.unique(graph.action[(~graph.goal & self.on)[graph.choice_state]]).tolist():
                name = short_line(graph.action_name(action))
                yield _sign("s", 0.2, f"{_letter(action)}  {name}", f"C{action}", alpha=0.8)
            yield _sign("", 0.0, f"the likeliest action and its probability if below 1 ({fainter}{self.mean})", "none")
            return
        if self.finite.size < self.visits.size:
            yield _sign("s", min(inches, WIDEST_SIGN), "visited for ever", "none", mec=style.PURPLE, mew=FRAME)
        if self.finite.size:
            shown = _round_number(self.full * min(1.0, (WIDEST_SIGN / inches) ** 2))
            more = " or more" if shown == self.full else f" (a full square: {self.full:g} or more)"
            what = "probability to be there:" if self.at_a_time else "expected visits:"
            label = f"{what} {shown:g}{more if self.finite.max() > MOST_FULL else ''}"
            yield _sign("s", inches * (shown / self.full) ** 0.5, label, "none", mec=style.BLUE, mew=FRAME)
        likely = _round_number(min(1.0, LONGEST_SIGN / ARROW / inches))
        label = f"action of the policy, probability {likely:g} ({fainter}{self.mean})"
        yield _arrow(ARROW * inches * likely, self.arrow_width * inches, label, style.INK)


def _arrangement(grid: CellGrid, panels: int) -> tuple[int, float]:
    """Return how many panels are side by side, and the inches that each is wide."""
    wide = grid.columns > 1.8 * grid.rows
    across = 1 if wide else {1: 1, 2: 2, 4: 2}.get(panels, 3)
    cell, least, most = (0.46, 5.0, 11.0) if wide else (0.11, 5.4, 11.0) if across == 1 else (0.07, 4.1, 7.0)
    return across, min(float(np.clip(cell * grid.columns, least, most)), 11.0 * grid.columns / grid.rows)


def _add_degrees(axes: Axes, grid: CellGrid, last: bool) -> None:
    """Add axes with longitude above and, for the last panel of a row, latitude at the right."""
    above = axes.secondary_xaxis("top", functions=grid.degrees[0])
    sides: list[tuple[Any, Any, str]] = [(above, above.xaxis, "EW")]
    if last:
        right = axes.secondary_yaxis("right", functions=grid.degrees[1])
        sides.append((right, right.yaxis, "NS"))
    for side, axis, letters in sides:
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(lambda value, _, names=letters: f"{abs(value):.2f}°{names[int(value < 0)]}")
        side.tick_params(length=3, colors=style.FAINT, labelsize=style.SMALL - 0.5)


def _sign(marker: Any, inches: float, label: str, color: str, **look: Any) -> Line2D:
    """Return a legend entry: a marker of that size."""
    size = inches * style.POINTS
    return Line2D(
        [], [], linestyle="none", marker=marker, markersize=size, color=color, label=label, **{"mew": 0, **look}
    )


def _arrow(length: float, width: float, label: str, color: str) -> Line2D:
    """Return a legend entry: an arrow of the shape that `HEAD` describes."""
    head: dict[str, Any] = {"head_width": HEAD["headwidth"] * width, "length_includes_head": True}
    head["head_length"] = min(HEAD["headlength"] * width, length)
    shape = FancyArrow(-length / 2, 0, length, 0, width=width, **head)
    return _sign(shape.get_path(), length, label, color)


def _end_mark(name: str, size: float) -> dict[str, Any]:
    marker, face, relative, order = END_LOOK[name]
    return {"linestyle": "none", "marker": marker, "markersize": size * relative, "markerfacecolor": face,
            "markeredgecolor": style.INK, "markeredgewidth": 1.1, "label": name, "zorder": order}  # fmt: skip


def _opacity(visits: Array, full: float, least: float = 0.3, most: float = 1.0) -> Array:
    """Return an opacity for each state: full from a tenth of the most visits on, less for fewer visits."""
    return np.asarray(least + (most - least) * np.sqrt(np.minimum(10 * visits / full, 1.0)))


def _letter(action: int) -> str:
    return chr(ord("a") + action) if action < 26 else str(action)


def _round_number(most: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten that is at most that."""
    power = 10.0 ** floor(log10(most))
    return float(f"{max(step * power for step in (1, 2, 5) if step * power <= most * (1 + 1e-9)):.12g}")
