"""The painter of maps: grounds, currents, depths, ends, and what a policy does, on panels that share their scales.

What lies over what: entry costs, land, obstacles, visits, currents, depths, the start, arrows, the goal, names.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil, floor, log10
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from rue._arrays import Array
from rue._text import short_line
from rue.model import UMDP
from rue.report import canvas, style
from rue.report.canvas import KeyItem, Sheet
from rue.report.grid import Grid

LEAST_VISITS = 1e-3
LEAST_CHANCE = 0.05
MOST_CURRENTS = 25  # arrows on a side
MOST_FRAMED = 40  # cells on a side that have borders
ARROW = 0.8  # the length of a certain arrow, in cells
ABOVE_PANEL, DEGREE_LINE = 8.0, 14.0  # points to the title, and more with a line of degrees between
WRITTEN = 0.34  # cells of this many inches have room for text
MOST_FULL = 2.0  # visits of a full square: where a policy waits for long, others should still be seen
# The mark of each end: its form, colour, size, and how far to the front it is; and its frame.
END_LOOK = {"start": ("o", "#FFFFFF", 1.0, 2.8), "goal": ("*", style.GREEN, 1.6, 3.4)}
FRAME_LOOK: dict[str, dict[str, Any]] = {
    name: {"facecolor": "none", "edgecolor": colour, "linewidth": 2.4}
    for name, colour in (("start", style.INK), ("goal", style.GREEN))
}
ROOMY, NEXT_TO_MARK = 0.6, 0.18  # inches of a cell that its end's name fits into, and from its middle to the name
MOST_COVERED = 1.0  # visits under a name: who would cover more is named in the key alone
VISITS_LOOK: dict[str, Any] = {"facecolor": style.SKY, "linewidth": 0, "alpha": 0.8}
ENDLESS_LOOK: dict[str, Any] = {"facecolor": style.PURPLE, "linewidth": 0, "alpha": 0.8}
BORDER_LOOK: dict[str, Any] = {"color": "#000000", "alpha": 0.1, "linewidth": 0.4, "zorder": 1.5}
LAND_LOOK: dict[str, Any] = {"facecolor": style.LAND, "edgecolor": "#9A9A9A", "hatch": "////", "linewidth": 0}
CURRENT_WIDTH = 0.04  # of arrows, in cells
LONGEST_CURRENT = 0.85  # of the way to the next arrow, for the speed that nine in ten are below
LONGEST_SIGN = 0.6  # of the key, in inches; squares are half as wide
POLICY_HEAD: dict[str, Any] = {"headwidth": 3.8, "headlength": 3.8, "headaxislength": 3.3}  # in widths
CURRENT_HEAD: dict[str, Any] = {"headwidth": 4.0, "headlength": 4.5, "headaxislength": 3.5}


@dataclass(frozen=True, eq=False)
class Panel:
    """What one panel shows: a sample, or all of them, and what the policy does there."""

    title: str
    sample: int | None
    visits: Array | None = None  # [S], or the probability to be there at a time
    chance: Array | None = None  # [C], of each choice where its state is visited


@dataclass(frozen=True, eq=False)
class Map:
    """All panels, and the scales that they share."""

    model: UMDP
    grid: Grid
    panels: tuple[Panel, ...]
    at_a_time: bool = False  # whether squares show where the policy is then, rather than how often it comes by

    def draw(self) -> Figure:
        """The whole figure."""
        grid = self.grid
        across, width = self._arrangement()
        sheet = Sheet(
            panels=len(self.panels),
            across=across,
            width=width,
            height=width * grid.rows / grid.columns,
            title=max(style.text_width(line, style.LARGE) for one in self.panels for line in one.title.split("\n")),
            key=tuple(self._key(width / grid.columns)),
            credit=grid.credit,
            bar=self._has_bar,
            degrees=self._has_degrees,
        )
        figure, axes = sheet.build()
        for number, (axis, panel) in enumerate(zip(axes, self.panels, strict=True)):
            first, last = number % across == 0, number % across == across - 1 or number == len(self.panels) - 1
            self._draw_axes(axis, panel.title, first, last)
            self._draw_panel(axis, panel, width / grid.columns)
        if self._has_bar:
            sheet.add_bar(figure, ScalarMappable(self._cost_scale, style.COSTS), "cost of entering a cell")
        return figure

    def _arrangement(self) -> tuple[int, float]:
        """How many panels stand side by side, and the inches that each is wide."""
        columns, rows = self.grid.columns, self.grid.rows
        wide = columns > 1.8 * rows
        across = 1 if wide else {1: 1, 2: 2, 4: 2}.get(len(self.panels), 3)
        if wide:
            width = np.clip(0.46 * columns, 5.0, 11.0)
        elif across == 1:
            width = np.clip(0.11 * columns, 5.4, 11.0)
        else:
            width = np.clip(0.07 * columns, 4.1, 7.0)
        return across, min(float(width), 11.0 * columns / rows)

    def _draw_panel(self, axes: Axes, panel: Panel, inches: float) -> None:
        """All that is on a panel; `inches` is the side of a cell."""
        self._draw_ground(axes, panel)
        if panel.visits is None or panel.chance is None:
            self._draw_currents(axes, panel)
        elif self.grid.heading is None:
            self._draw_actions(axes, panel.visits, panel.chance, inches)
        else:
            self._draw_visits(axes, panel.visits)
            self._draw_currents(axes, panel)
            self._draw_arrows(axes, panel.visits, panel.chance, inches)
        self._draw_depth(axes)
        self._draw_ends(axes, inches)

    def _scenery(self, name: str, panel: Panel) -> Array | None:  # [S]
        """A part of the scenery in a panel's sample, or its mean over all."""
        values = self.model.scenery.get(name)
        if values is None:
            return None
        if panel.sample is None:
            return np.asarray(values.mean(axis=1, dtype=float))
        return np.asarray(values[:, panel.sample], float)

    @property
    def _cost_scale(self) -> Normalize:
        """From the least to the largest entry cost of all samples, not only of those that are shown."""
        cost = self.model.scenery["entry_cost"]
        on = self.grid.cell >= 0
        return Normalize(float(cost[on].min()), float(cost[on].max()))

    @property
    def _has_bar(self) -> bool:
        if "entry_cost" not in self.model.scenery:
            return False
        scale = self._cost_scale
        return bool(scale.vmin != scale.vmax)

    @property
    def _has_degrees(self) -> bool:
        grid = self.grid
        return grid.metric and all(place is not None and place.size > 1 for place in (grid.latitude, grid.longitude))

    @cached_property
    def _full(self) -> float:
        """The visits of a full square: the most of any state that is no goal, up to a limit."""
        finite = self._seen[np.isfinite(self._seen)]
        return float(np.clip(finite.max(initial=0.0), LEAST_VISITS, MOST_FULL))

    @cached_property
    def _seen(self) -> Array:
        """The visits that squares show in any panel."""
        on = ~self.model.graph.goal & (self.grid.cell >= 0)
        seen = np.concatenate([np.empty(0), *(one.visits[on] for one in self.panels if one.visits is not None)])
        return np.asarray(seen[seen >= LEAST_VISITS])

    @property
    def _stride(self) -> int:
        """Every how many cells a current is drawn."""
        return ceil(max(self.grid.rows, self.grid.columns) / MOST_CURRENTS)

    @cached_property
    def _speed(self) -> float:
        """The speed that nine in ten of the panels' currents are below, in m/s."""
        parts = [np.hypot(*current) for panel in self.panels if (current := self._current(panel)) is not None]
        speed = np.concatenate([np.empty(0), *parts])
        return float(np.quantile(speed, 0.9)) or float(speed.max()) if speed.size else 0.0

    def _current(self, panel: Panel) -> tuple[Array, Array] | None:
        east, north = self._scenery("east", panel), self._scenery("north", panel)
        return None if east is None or north is None else (east, north)

    def _draw_axes(self, axes: Axes, title: str, first: bool, last: bool) -> None:
        grid = self.grid
        across, up = grid.limits
        axes.set(xlim=across, ylim=up, xlabel=grid.axis[0])
        pad = ABOVE_PANEL + (DEGREE_LINE if self._has_degrees else 0.0)
        axes.set_title(title, loc="left", pad=pad, linespacing=1.3)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(
                MaxNLocator(
                    8 if axis is axes.yaxis or grid.metric else 10,
                    integer=not grid.metric,
                    min_n_ticks=1,
                    steps=[1, 2, 5, 10],
                )
            )
        if first:
            axes.set_ylabel(grid.axis[1])
        else:
            axes.tick_params(labelleft=False)
        axes.tick_params(length=3)
        if self._has_degrees:
            self._draw_degrees(axes, last)
        if max(grid.rows, grid.columns) <= MOST_FRAMED:
            edges = np.arange(max(grid.rows, grid.columns) + 1) - 0.5
            axes.vlines(grid.x(edges[: grid.columns + 1]), *up, **BORDER_LOOK)
            axes.hlines(grid.y(edges[: grid.rows + 1]), *across, **BORDER_LOOK)

    def _draw_degrees(self, axes: Axes, last: bool) -> None:
        """Longitude above, latitude at the right of the last panel of a row."""
        grid = self.grid
        assert grid.latitude is not None and grid.longitude is not None
        above = axes.secondary_xaxis("top", functions=_degrees(grid.longitude, grid.x(np.arange(grid.columns))))
        sides: list[tuple[Any, Any, str]] = [(above, above.xaxis, "EW")]
        if last:
            right = axes.secondary_yaxis("right", functions=_degrees(grid.latitude, grid.y(np.arange(grid.rows))))
            sides.append((right, right.yaxis, "NS"))
        for side, axis, letters in sides:
            axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
            axis.set_major_formatter(FuncFormatter(partial(_degree_text, letters)))
            side.tick_params(length=3, colors=style.FAINT, labelsize=style.SMALL - 0.5)

    def _squares(self, axes: Axes, cell: Array, side: Array | float, **look: object) -> PatchCollection:
        """Squares in the middles of cells; `side` in cells."""
        row, column = np.divmod(cell, self.grid.columns)
        half = np.broadcast_to(np.asarray(side) * self.grid.unit / 2, cell.shape)
        x, y = self.grid.x(column), self.grid.y(row)
        patches = [Rectangle((a - h, b - h), 2 * h, 2 * h) for a, b, h in zip(x, y, half, strict=True)]
        collection = PatchCollection(patches, **look)  # type: ignore[arg-type]
        axes.add_collection(collection, autolim=False)
        return collection

    def _draw_ground(self, axes: Axes, panel: Panel) -> None:
        """Entry costs, land and obstacles."""
        grid = self.grid
        cost = self._scenery("entry_cost", panel)
        if cost is not None and self._has_bar:
            edges = np.arange(max(grid.rows, grid.columns) + 1) - 0.5
            axes.pcolormesh(
                grid.x(edges[: grid.columns + 1]), grid.y(edges[: grid.rows + 1]), grid.field(cost),
                cmap=style.COSTS, norm=self._cost_scale, zorder=1, rasterized=grid.rows * grid.columns > 4000,
            )  # fmt: skip
        empty = np.flatnonzero(grid.empty)
        if empty.size:
            self._squares(axes, empty, 1.0, zorder=1.2, label="land", **LAND_LOOK)
        obstacle = self._scenery("obstacle", panel)
        if obstacle is not None and (obstacle > 0).any():
            on = np.flatnonzero((obstacle > 0) & (grid.cell >= 0))
            look = {"facecolor": [(*to_rgb(style.STONE), a) for a in obstacle[on]], "linewidth": 0}
            self._squares(axes, grid.cell[on], 0.86, zorder=1.8, label="obstacle", **look)

    def _draw_depth(self, axes: Axes) -> None:
        """The line where it is as deep as `shallow`, and thin ones every hundred metres or so."""
        grid = self.grid
        if grid.depth is None:
            return
        for level in self._levels:
            width = 1.7 if level == grid.shallow else 0.7
            lines = axes.contour(
                grid.x(np.arange(grid.columns)), grid.y(np.arange(grid.rows)), np.ma.masked_invalid(grid.depth),
                levels=[level], colors=[style.DEPTH], linewidths=width, zorder=2.6,
            )  # fmt: skip
            x, y = self._quiet_point(np.concatenate([part for part in lines.allsegs[0] if len(part)]))
            axes.text(
                x, y, f"{level:g} m", fontsize=style.SMALL - (0 if level == grid.shallow else 1), color=style.DEPTH,
                ha="center", va="center", path_effects=[style.halo()], zorder=3.2,
            )  # fmt: skip

    @cached_property
    def _levels(self) -> list[float]:
        """The depths of the lines, that of `shallow` last."""
        grid = self.grid
        if grid.depth is None or grid.shallow is None or min(grid.rows, grid.columns) < 2:
            return []
        least, most = float(np.nanmin(grid.depth)), float(np.nanmax(grid.depth))
        ticks = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(least, most)
        others = [float(level) for level in ticks if abs(level - grid.shallow) > 0.1 * (most - least)]
        return [level for level in (*others, grid.shallow) if least < level < most]

    def _quiet_point(self, points: Array) -> tuple[float, float]:
        """That of these points which is farthest from where the policy goes, and not at the border."""
        grid = self.grid
        (left, right), (bottom, top) = grid.limits
        x, y = points.T
        margin = np.minimum(np.minimum(x - left, right - x), np.minimum(abs(y - bottom), abs(top - y)))
        inner = points[margin >= min(1.2 * grid.unit, float(margin.max()))]
        busy = np.stack(grid.places(np.flatnonzero((self._everywhere >= 0.01) & (grid.cell >= 0))), axis=1)
        away = np.abs(inner[:, None] - busy[None]).max(axis=2).min(axis=1, initial=np.inf)
        # Among points that are far enough away, the middle of the line.
        far = np.flatnonzero(away >= min(3 * grid.unit, float(away.max())))
        x_at, y_at = inner[far[far.size // 2]]
        return float(x_at), float(y_at)

    @cached_property
    def _everywhere(self) -> Array:  # [S]
        """The most visits in any panel."""
        none = np.zeros(self.model.graph.states)
        return np.asarray(np.max([none, *(panel.visits for panel in self.panels if panel.visits is not None)], axis=0))

    def _draw_currents(self, axes: Axes, panel: Panel) -> None:
        current, speed = self._current(panel), self._speed
        if current is None or speed == 0:
            return
        grid, stride = self.grid, self._stride
        row, column = np.divmod(grid.cell, grid.columns)  # −1 is in row −1
        drawn = (grid.cell >= 0) & (row % stride == stride // 2) & (column % stride == stride // 2)
        state = np.flatnonzero(drawn)
        x, y = grid.places(state)
        length = LONGEST_CURRENT * stride * grid.unit / speed
        arrows = axes.quiver(
            x, y, current[0][state] * length, current[1][state] * length * grid.up, pivot="middle", angles="xy",
            scale_units="xy", scale=1, units="xy", width=CURRENT_WIDTH * stride * grid.unit, minlength=0.5,
            color=style.BLUE, zorder=2.4, **CURRENT_HEAD,
        )  # fmt: skip
        arrows.set_label("current")

    def _draw_visits(self, axes: Axes, visits: Array) -> None:
        """A square in each state, with an area that is the share of a full one."""
        on = np.flatnonzero((visits >= LEAST_VISITS) & (self.grid.cell >= 0) & ~self.model.graph.goal)
        endless = np.isinf(visits[on])
        side = np.sqrt(np.minimum(visits[on[~endless]] / self._full, 1.0))
        self._squares(axes, self.grid.cell[on[~endless]], side, zorder=2, label="visits", **VISITS_LOOK)
        if endless.any():
            self._squares(axes, self.grid.cell[on[endless]], 1.0, zorder=2, label="for ever", **ENDLESS_LOOK)

    def _draw_arrows(self, axes: Axes, visits: Array, chance: Array, inches: float) -> None:
        """One arrow for each action, as long as it is likely."""
        grid, graph = self.grid, self.model.graph
        assert grid.heading is not None
        seen = (visits >= LEAST_VISITS) & (grid.cell >= 0)
        choice = np.flatnonzero(seen[graph.choice_state] & (chance >= LEAST_CHANCE))
        state = graph.choice_state[choice]
        x, y = grid.places(state)
        angle = np.deg2rad(grid.heading[graph.action[choice]])
        length = ARROW * grid.unit * chance[choice]
        arrows = axes.quiver(
            x, y, length * np.sin(angle), length * np.cos(angle) * grid.up, pivot="tail", angles="xy",
            scale_units="xy", scale=1, units="xy", width=_arrow_width(inches) * grid.unit, minlength=0, zorder=3,
            edgecolor="white", linewidth=0.3, **POLICY_HEAD,
            facecolor=[(*to_rgb(style.INK), a) for a in _fading(visits[state], self._full)],
        )  # fmt: skip
        arrows.set_label("policy")

    def _draw_actions(self, axes: Axes, visits: Array, chance: Array, inches: float) -> None:
        """The likeliest action of each state: its colour, fainter where it is seldom, its letter and probability."""
        grid, graph = self.grid, self.model.graph
        seen = np.flatnonzero((visits >= LEAST_VISITS) & (grid.cell >= 0) & ~graph.goal)
        best = np.array(
            [graph.choice_ptr[s] + chance[graph.choice_ptr[s] : graph.choice_ptr[s + 1]].argmax() for s in seen], int
        )
        action = graph.action[best]
        face = [
            (*to_rgb(style.colour(a)), f)
            for a, f in zip(action, _fading(visits[seen], self._full, 0.15, 0.8), strict=True)
        ]
        self._squares(axes, grid.cell[seen], 1.0, zorder=2, facecolor=face, linewidth=0, label="policy")
        if inches < WRITTEN:
            return
        for x, y, a, c in zip(*grid.places(seen), action, best, strict=True):
            share = "" if chance[c] >= 1 - style.ROUNDING else f"\n{style.share_text(float(chance[c]))}"
            axes.text(
                x, y, _letter(int(a)) + share, ha="center", va="center", fontsize=7.5, linespacing=1.0, zorder=3,
            )  # fmt: skip

    def _draw_ends(self, axes: Axes, inches: float) -> None:
        """The start and the goals: with a mark, or with a frame where cells hold text; named where there is room."""
        grid = self.grid
        framed = grid.heading is None and inches >= WRITTEN
        size = float(np.clip(inches * style.POINTS * 0.6, 6.0, 13.0))
        for name, state in self._ends.items():
            x, y = grid.places(state)
            if framed:
                self._squares(axes, grid.cell[state], 0.94, zorder=3.4, label=name, **FRAME_LOOK[name])
            else:
                marker, face, grown, above = END_LOOK[name]
                axes.plot(
                    x, y, linestyle="none", marker=marker, markersize=size * grown, markerfacecolor=face,
                    markeredgecolor=style.INK, markeredgewidth=1.1, zorder=above, label=name,
                )  # fmt: skip
            place = self._label_place(int(state[0]), name, inches)
            if place is None:
                continue
            axes.text(
                float(grid.x(place[0])), float(grid.y(place[1])), name, ha="center", va="center", fontsize=style.NORMAL,
                fontweight="bold", color=style.INK, path_effects=[style.halo()], zorder=3.6,
            )  # fmt: skip

    @property
    def _ends(self) -> dict[str, Array]:
        """The states on the map where episodes begin and end."""
        graph, on = self.model.graph, self.grid.cell >= 0
        ends = {"start": np.arange(graph.states) == graph.initial, "goal": graph.goal}
        return {name: np.flatnonzero(which & on) for name, which in ends.items() if (which & on).any()}

    def _label_place(self, state: int, text: str, inches: float) -> tuple[float, float] | None:
        """Column and row for a label beside a state: on the map, where the policy goes least and no other end is."""
        grid = self.grid
        row, column = divmod(int(grid.cell[state]), grid.columns)
        width = style.text_width(text, style.NORMAL) * 1.15 / inches + 0.2
        height = style.NORMAL / style.POINTS * 1.2 / inches
        # Where a cell has room for the mark and the name, the name is in it.
        near = NEXT_TO_MARK / inches if inches > ROOMY else 0.46
        aside, over = near + width / 2, near + height / 2
        visits = np.minimum(self._everywhere, 1.0)
        visits[np.concatenate(list(self._ends.values()))] = 1.0
        visits[state] = 0.0
        busy = np.pad(np.nan_to_num(grid.field(visits + 1e-3)), 1)
        best, least = None, MOST_COVERED
        sides = [(0, -over), (0, over), (aside, 0), (-aside, 0)]
        corners = [(right, down) for right in (aside, -aside) for down in (-over, over)]
        for right, down in [*sides, *corners]:
            c, r = column + right, row + down
            c0, c1, r0, r1 = c - width / 2, c + width / 2, r - height / 2, r + height / 2
            if c0 < -0.5 or c1 > grid.columns - 0.5 or r0 < -0.5 or r1 > grid.rows - 0.5:
                continue
            covered = busy[round(r0) + 1 : round(r1) + 2, round(c0) + 1 : round(c1) + 2]
            beyond = busy[row + 1 + int(np.sign(down)), column + 1 + int(np.sign(right))]
            score = float(covered.sum() + 1e-2 * beyond) + 1e-3 * (abs(right) > 0 and abs(down) > 0)
            if score < least:
                best, least = (c, r), score
        return best

    def _key(self, inches: float) -> list[KeyItem]:
        """All signs that some panel shows; `inches` is the side of a cell."""
        grid, policy = self.grid, any(panel.visits is not None for panel in self.panels)
        framed = grid.heading is None and inches >= WRITTEN
        if framed:
            items = [canvas.box(0.18, name, **FRAME_LOOK[name]) for name in self._ends]
        else:
            items = [canvas.mark(*END_LOOK[name][:2], name) for name in self._ends]
        if policy:
            items += self._policy_keys(inches)
        if self._speed > 0:
            pitch = self._stride * inches
            scale = LONGEST_CURRENT * pitch / self._speed
            shown = _fitting(self._speed, lambda speed: speed * scale)
            text = f"current, {shown:g} m/s"
            items.append(canvas.arrow(shown * scale, CURRENT_WIDTH * pitch, style.BLUE, CURRENT_HEAD, text))
        if np.any(self.model.scenery.get("obstacle", 0)):
            items.append(canvas.box(0.17, "obstacle", facecolor=style.STONE))
        if grid.empty.any():
            name = "land" if grid.depth is not None else "no state"
            items.append(canvas.box(0.2, name, **LAND_LOOK))
        if grid.shallow in self._levels:
            items.append(canvas.stroke(style.DEPTH, f"depth {grid.shallow:g} m"))
        return items

    def _policy_keys(self, inches: float) -> Iterator[KeyItem]:
        """What arrows and squares say of the policy, or colours and letters."""
        fainter = "fainter: less likely to be there" if self.at_a_time else "fainter: fewer visits"
        if self.grid.heading is not None:
            likely = _fitting(1.0, lambda chance: ARROW * inches * chance)
            text = f"action of the policy, probability {likely:g} ({fainter})"
            width = _arrow_width(inches) * inches
            yield canvas.arrow(ARROW * inches * likely, width, style.INK, POLICY_HEAD, text)
            yield from self._visit_keys(inches)
            return
        for action in sorted({int(a) for panel in self.panels for a in self._used(panel)}):
            name = short_line(self.model.graph.action_name(action))
            yield canvas.box(0.2, f"{_letter(action)}  {name}", facecolor=style.colour(action), alpha=0.8)
        yield canvas.box(0.0, f"the likeliest action and its probability if below 1 ({fainter})")

    def _visit_keys(self, inches: float) -> Iterator[KeyItem]:
        """What the squares show: those that are finite, up to a full one, and those that are not."""
        finite = self._seen[np.isfinite(self._seen)]
        if finite.size:
            shown = _fitting(self._full, lambda visits: 2 * inches * (visits / self._full) ** 0.5)
            more = ""
            if finite.max() > MOST_FULL:
                more = " or more" if shown == self._full else f" (a full square: {self._full:g} or more)"
            what = "probability to be there:" if self.at_a_time else "expected visits:"
            yield canvas.box(inches * (shown / self._full) ** 0.5, f"{what} {shown:g}{more}", **VISITS_LOOK)
        if finite.size < self._seen.size:
            yield canvas.box(min(inches, LONGEST_SIGN / 2), "visited for ever", **ENDLESS_LOOK)

    def _used(self, panel: Panel) -> Array:
        """The actions that a panel shows."""
        if panel.visits is None or panel.chance is None:
            return np.empty(0, int)
        graph = self.model.graph
        seen = (panel.visits >= LEAST_VISITS) & (self.grid.cell >= 0)
        return np.asarray(graph.action[seen[graph.choice_state] & (panel.chance > 0)])


def _degrees(values: Array, place: Array) -> Any:
    """From places on an axis to degrees and back: both are evenly spaced."""
    slope = (values[-1] - values[0]) / (place[-1] - place[0])
    begin = values[0] - slope * place[0]
    return (lambda at: begin + slope * np.asarray(at)), (lambda degree: (np.asarray(degree) - begin) / slope)


def _degree_text(letters: str, value: float, _: object) -> str:
    return f"{abs(value):.2f}°{letters[0] if value >= 0 else letters[1]}"


def _fading(visits: Array, full: float, least: float = 0.3, most: float = 1.0) -> Array:
    """How opaque: fully from a tenth of the most visits on, and less where it is seldom."""
    return np.asarray(least + (most - least) * np.sqrt(np.minimum(10 * visits / full, 1.0)))


def _arrow_width(inches: float) -> float:
    """Of the policy's arrows, in cells of so many inches: about a point and a half."""
    return float(np.clip(1.5 / style.POINTS / inches, 0.035, 0.1))


def _letter(action: int) -> str:
    return chr(ord("a") + action) if action < 26 else str(action)


def _fitting(most: float, length: Callable[[float], float]) -> float:
    """A round number up to the most, whose sign is not too long for the key."""
    value = _round(most)
    while length(value) > LONGEST_SIGN:
        value = _round(0.99 * value)
    return value


def _round(value: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not above."""
    power = 10.0 ** floor(log10(value))
    return float(f"{max(step * power for step in (1, 2, 5) if step * power <= value * (1 + 1e-9)):.12g}")
